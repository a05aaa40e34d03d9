//! Absence: "no results", "the order was not found" against a result that has them. Pure.
//!
//! Only an absence without conditions is judged: `no flight below 150` may be true of a list of flights.

use crate::{
    checks::{account::sentence, selection},
    context::{CheckContext, CitationScope, ClaimFinding, names_thing},
    evidence::{
        ToolResult,
        facts::{NamedValue, Scalar},
        lists::{self, MatchConfidence, MatchedLists, is_something, things},
    },
    language::{
        fold::{akin, behind_last, fold, stands_in},
        lexicon::{Word, words},
        number::{Number, Precision},
        pattern::PatternMatch,
        polarity::negation,
        word_list::WordList,
    },
    passage::Kind,
};
use toolmark_base::violation::{Certainty, Code};

/// The finding of a passage that says that something isn't there.
pub fn absence(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
    if scene.text().contains('?') {
        return None;
    }
    let lexicon = scene.lexicon;
    if !lexicon.may_be_absent(scene.text()) || is_empty_by_count(scene) {
        return None;
    }
    let absent = lexicon.absences().iter().find_map(|pattern| judge(scene, &pattern.find(scene.text())?, AbsenceClaim::Kind));
    absent.or_else(|| lexicon.not_found().iter().find_map(|pattern| judge(scene, &pattern.find(scene.text())?, AbsenceClaim::Item)))
}

/// The finding of a number that a passage tells of a member which the result has without a value: `31 mg/l of nitrates` of `"nitrates": null`.
pub fn told_of_null(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
    let [source] = scene.sources.as_slice() else { return None };
    let facts = source.facts();
    if scene.bond != CitationScope::Cited
        || scene.endless
        || source.fails()
        || source.is_partial()
        || facts.leaves.len() > LEAVES_MAX
        || sentence::tells_nothing(scene)
    {
        return None;
    }
    let names = |leaf: &&NamedValue| scene.plain.words.iter().any(|word| leaf.is_named_by(word));
    let blank = |leaf: &&NamedValue| matches!(leaf.value, Scalar::Null);
    let leaf = facts.leaves.iter().filter(blank).find(names)?;
    // Another member of that name has one.
    if facts.leaves.iter().any(|other| other.key == leaf.key && !blank(&other)) {
        return None;
    }
    let known = |number: &&Number| {
        let said = number.readings().any(|reading| scene.grounds.said_numbers_have(reading.value));
        let small = number.whole().is_some_and(|whole| whole <= SMALL);
        number.ordinal
            || small
            || said
            || scene.plain.is_taken(&(number.span.start..number.end))
            || scene.grounds.has_plain_number(number, Precision::Exact, source)
    };
    let number = scene.plain.numbers().iter().find(|number| !known(number))?;
    Some(ClaimFinding {
        rule: "told_of_null",
        code: Code::ClaimMismatch,
        span: number.span.start..number.end,
        found: scene.text().get(number.span.start..number.end).unwrap_or_default().to_owned(),
        expected: format!("`{}` has no value in the result", leaf.key),
        certainty: Certainty::Likely,
    })
}

/// Members of a result that are looked at, and numbers that are used for anything.
const LEAVES_MAX: usize = 200;
const SMALL: u64 = 3;

/// `Bay 4 is empty`, where the result has a count of 0.
fn is_empty_by_count(scene: &CheckContext<'_>) -> bool {
    static EMPTY: WordList = WordList::new(&[
        "empty", "leer", "vide", "vides", "vacío", "vacía", "vacíos", "vuoto", "vuota", "vuoti", "vazio", "vazia", "leeg", "pusty",
        "pusta", "puste", "boş",
    ]);
    let zero = |leaf: &&NamedValue| leaf.record > 0 && matches!(leaf.value, Scalar::Number(number) if number == 0.0);
    let named = |leaves: &[NamedValue], record: usize| {
        let own = leaves.iter().filter(|leaf| leaf.record == record).map(|leaf| fold(&leaf.value.shown()));
        own.filter(|own| own != "0").any(|own| stands_in(scene.plain.folded(), &own))
    };
    let empty = |source: &ToolResult| {
        let leaves = source.facts().leaves.get(..LEAVES_MAX.min(source.facts().leaves.len())).unwrap_or_default();
        leaves.iter().filter(zero).any(|leaf| named(leaves, leaf.record))
    };
    scene.plain.words.iter().any(|word| EMPTY.has(&word.lower)) && scene.sources.iter().any(|source| empty(source))
}

/// Object of a claim of absence.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum AbsenceClaim {
    /// All things of a kind: `there are no orders`.
    Kind,
    /// One thing: `the order wasn't found`.
    Item,
}

fn judge(scene: &CheckContext<'_>, found: &PatternMatch<'_>, claim: AbsenceClaim) -> Option<ClaimFinding> {
    let lexicon = scene.lexicon;
    let whole = found.whole();
    // `Gebühren fallen keine an`: the noun stands before, and a part of the verb behind.
    static PARTICLES: WordList = WordList::new(&["an", "ab", "auf", "aus", "ein", "vor", "zu", "mit", "nach", "bei", "los"]);
    if lexicon.language == "de" && whole.text.trim_end().rsplit(' ').next().is_some_and(|last| PARTICLES.has(last)) {
        return None;
    }
    // `sin ningún cargo`, `without any charge`: it tells of something else than what is listed.
    static WITHOUT: WordList = WordList::new(&["without", "ohne", "sans", "sin", "senza", "sem", "zonder", "bez"]);
    let last = scene.words_before(whole.start).last();
    if last.is_some_and(|last| WITHOUT.has(&last.lower)) {
        return None;
    }
    // `the valve, which there is none of`: of what was told before.
    static WHICH: WordList = WordList::new(&[
        "which", "who", "whom", "whose", "cui", "qui", "dont", "cuyo", "cuya", "welke", "wiens", "który", "która", "które", "którego",
        "której", "których",
    ]);
    if last.is_some_and(|last| WHICH.has(&last.lower)) {
        return None;
    }
    // `cy@x.example doesn't exist`: an address.
    if scene.text().get(..whole.start).is_some_and(|before| before.ends_with(['.', '@', '/'])) {
        return None;
    }
    let noun_at = found.group("noun");
    let mut noun: Vec<Word> = noun_at.map(|noun| words(noun.text)).unwrap_or_default();
    if let Some(at) = noun_at {
        noun.iter_mut().for_each(|word| (word.start, word.end) = (word.start + at.start, word.end + at.start));
    }
    // In Turkish it stands before whatever is told of it.
    let before = noun_at.is_some_and(|noun| noun.start == whole.start) && lexicon.language != "tr";
    if before {
        // The noun phrase stands before the verb: its last words are it.
        noun.retain(|word| !lexicon.common.contains(&word.lower) && !lexicon.pronouns.contains(&word.lower));
    }
    let stop = |word: &Word| {
        lexicon.narrows.contains(&word.lower)
            || matches!(word.lower.as_str(), "i" | "e" | "en" | "ani") && lexicon.common.contains(&word.lower)
            || lexicon.found.contains(&word.lower)
            || (lexicon.scope.contains(&word.lower) && !lexicon.generic.contains(&word.lower))
    };
    let length = if before { noun.len() } else { noun.iter().position(stop).unwrap_or(noun.len()) };
    let noun: Vec<Word> = noun.into_iter().take(length).collect();
    let names: Vec<String> = noun.iter().map(|word| word.lower.to_string()).collect();
    // `nie ma i nie będzie`: of what was told before.
    if names.is_empty() && noun_at.is_some() && !before && matches!(lexicon.language.as_str(), "pt" | "nl" | "pl" | "tr") {
        return None;
    }
    if names.iter().any(|word| lexicon.vague.contains(word)) {
        return None;
    }
    // `ninguna en H-alfa`: none of that kind.
    let within = names.first().is_some_and(|first| matches!(first.as_str(), "en" | "dans" | "em" | "na" | "no"));
    let known = |word: &String| lexicon.generic.contains(word) || lexicon.scope.contains(word) || lexicon.common.contains(word);
    if within && names.len() > 1 && names.iter().skip(1).any(|word| !known(word)) {
        return None;
    }
    let end = if before { whole.end() } else { noun.last().map_or(whole.end(), |word| word.end) };
    let tail = rest_of_clause(scene, end);
    // `I've changed nothing`, `geändert habe ich nichts`: of what was done, not of what there is.
    static SPEAKS: WordList = WordList::new(&["i", "i've", "i’ve", "ich", "je", "j'ai", "j’ai", "ik", "jag"]);
    let inside = |word: &&Word| word.start >= whole.start && word.end <= whole.end();
    let speaks = scene.plain.words.iter().filter(inside).any(|word| SPEAKS.has(&word.lower));
    // `Is any battery below 10 volts?` `None is.`: of what the question narrows.
    let narrowed = || scene.grounds.asked.words().iter().any(|word| selection::data().limits.contains(&word.folded()));
    if names.is_empty() && claim == AbsenceClaim::Kind && noun_at.is_none() && narrowed() {
        return None;
    }
    if names.is_empty() && speaks && !scene.says(&lexicon.found) {
        return None;
    }
    // `Carrots: no value` tells of one of them.
    let of_one = scene.kind == Kind::Line && scene.text().get(..whole.start).is_some_and(|before| before.contains([':', '|']));
    if of_one || names_record(scene, whole.start..noun_at.map_or(whole.start, |noun| noun.start)) {
        return None;
    }
    // `The invoice has no due date`: a property of what was looked up, and no list of things.
    let head = || words(scene.text().get(clause_start(scene.text(), whole.start)..whole.start).unwrap_or_default());
    let one = lexicon.language == "en" && noun_at.is_some_and(|noun| !noun.text.trim_end().ends_with('s'));
    let of_subject = |source: &&ToolResult| head().iter().any(|word| names_thing(&word.lower, source.nouns(), lexicon));
    if one && !before && scene.sources.iter().any(of_subject) {
        return None;
    }
    let every = !scene.sources.is_empty()
        && scene.sources.iter().all(|source| scene.is_open_end(&tail, source) && contradicts(scene, source, &names, claim, before));
    every.then(|| ClaimFinding {
        rule: "absence",
        code: Code::FalseAbsence,
        span: whole.start..end,
        found: scene.text().get(whole.start..end).unwrap_or_default().trim().to_owned(),
        expected: expected(scene),
        certainty: Certainty::Likely,
    })
}

/// Start of the clause that goes on at this place: behind the last mark before it.
fn clause_start(text: &str, place: usize) -> usize {
    let mark = |c: char| matches!(c, ',' | ';' | ':' | '.' | '!' | '–' | '—' | '\n' | '(');
    text.get(..place).map_or(0, |head| behind_last(head, mark))
}

/// Is it one of the records that has no such thing: `Ben has no mark yet`? `before`: from where the absence is told to its noun.
fn names_record(scene: &CheckContext<'_>, before: std::ops::Range<usize>) -> bool {
    let subject = fold(scene.text().get(clause_start(scene.text(), before.start)..before.end).unwrap_or_default());
    let names = |leaf: &NamedValue| match &leaf.value {
        Scalar::Text(text) => {
            leaf.record > 0 && (2..=48).contains(&text.chars().count()) && (text.chars().any(char::is_alphabetic) || text.len() > 2) && {
                let folded = fold(text);
                !folded.is_empty() && stands_in(&subject, &folded)
            }
        }
        _ => false,
    };
    subject.chars().any(char::is_alphanumeric)
        && scene.sources.iter().any(|source| source.facts().leaves.iter().take(sentence::LEAVES_OF).any(names))
}

/// Lines of a result that are looked through.
const LINES_MAX: usize = 400;

/// Has the result a value that is blank, so that the absence may be told of that?
fn has_blank(source: &ToolResult) -> bool {
    // A cell of a table without anything in it.
    let row = |line: &str| line.contains([',', ';']) && line.split([',', ';']).any(|cell| cell.trim().is_empty());
    if !source.facts().is_structured() && source.text.lines().take(LINES_MAX).any(row) {
        return true;
    }
    source.facts().leaves.iter().take(sentence::LEAVES_OF).any(|leaf| match &leaf.value {
        Scalar::Null => true,
        Scalar::Text(text) => text.trim().is_empty(),
        _ => false,
    })
}

/// Does the result have what is said not to be there?
fn contradicts(scene: &CheckContext<'_>, source: &ToolResult, noun: &[String], claim: AbsenceClaim, before: bool) -> bool {
    let lexicon = scene.lexicon;
    let facts = source.facts();
    if claim == AbsenceClaim::Kind && noun.last().is_some_and(|word| is_blank(word, source)) {
        return false;
    }
    // Nothing was done by a dry run; `no address` is what it says itself.
    if source.is_trial() || noun.last().is_some_and(|word| is_denied(word, source)) {
        return false;
    }
    // `The field is empty`: one of its values is.
    let named = |word: &String| names_thing(word, source.nouns(), lexicon) || lexicon.generic.contains(word);
    if before && noun.last().is_some_and(|word| !named(word)) && has_blank(source) {
        return false;
    }
    let sure = |things: &MatchedLists<'_>| match scene.bond {
        CitationScope::Cited | CitationScope::Introduced => {
            things.fit >= MatchConfidence::Generic || noun.iter().all(|word| is_of(word, source))
        }
        CitationScope::Near | CitationScope::Implied => things.fit >= MatchConfidence::Generic,
    };
    // `nothing was found`, `the list is empty`
    let bare = noun.is_empty() || before && claim == AbsenceClaim::Kind;
    let generic = [lexicon.generic.iter().min().cloned().unwrap_or_default()];
    let words = if bare { &generic[..] } else { noun };
    // More than one word is a noun with an adjective, which narrows it.
    let adjective = noun.len() > 1 && !bare;
    if let Some(things) = things(words, source, lexicon) {
        let narrowed = adjective && !matches_all(noun, source, &things, scene);
        return sure(&things) && !narrowed && is_something(&things, facts);
    }
    if !facts.is_structured() || source.failed || facts.lists.iter().any(|list| list.length == 0) || !facts.says_something() {
        return false;
    }
    let denied = facts.leaves.iter().any(|leaf| match &leaf.value {
        Scalar::Flag(false) | Scalar::Null => true,
        Scalar::Text(text) => {
            let lower = text.to_lowercase();
            lexicon.failures.iter().any(|part| lower.contains(part.as_str())) || lists::says_none(text)
        }
        Scalar::Number(number) => *number == 0.0,
        Scalar::Flag(true) => false,
    });
    let named = noun.last().is_some_and(|word| names_thing(word, source.nouns(), lexicon));
    claim == AbsenceClaim::Item && named && !denied && scene.bond >= CitationScope::Introduced
}

/// Does the result name the thing, and say that there is none: `assignee: none`, `"assignee": null`?
fn is_blank(word: &str, source: &ToolResult) -> bool {
    const BLANK: &[&str] = &["none", "null", "nil", "nobody", "n/a", "unassigned", "-", "keine", "keiner", "aucun", "ninguno"];
    let lower = source.text.to_lowercase();
    lower.match_indices(word).any(|(at, _)| {
        let rest =
            lower.get(at + word.len()..).unwrap_or_default().trim_start_matches(|c: char| c.is_alphabetic() || matches!(c, '"' | '_'));
        let value = rest.strip_prefix(':').or_else(|| rest.strip_prefix('=')).map(|rest| rest.trim_start_matches([' ', '"']));
        value.is_some_and(|value| BLANK.iter().any(|blank| value.starts_with(blank)))
    })
}

/// Words between a denial and what it denies, at most, with that.
const DENIED_WITHIN: usize = 4;

/// Does the result itself deny the thing: `no e-mail address`?
fn is_denied(word: &str, source: &ToolResult) -> bool {
    let said: Vec<&str> = source.folded().split(' ').collect();
    let own = fold(word);
    own.chars().count() >= 4
        && said.windows(DENIED_WITHIN).any(|near| near.first().is_some_and(|first| negation::denies(first)) && near.contains(&own.as_str()))
}

/// Is a noun that names no list and no tool one that the result or its call has? `no DVDs` of a list of books may be true.
fn is_of(word: &str, source: &ToolResult) -> bool {
    let folded = fold(word);
    let stem = folded.trim_end_matches('s');
    [&*folded, stem].iter().any(|word| source.has_words(word) || stands_in(source.folded_arguments(), word))
        || source.facts().keys().iter().any(|key| akin(key, &folded))
}

/// Are all words of the noun names of the things, or of anything?
fn matches_all(noun: &[String], source: &ToolResult, things: &MatchedLists<'_>, scene: &CheckContext<'_>) -> bool {
    noun.iter().all(|word| {
        scene.lexicon.generic.contains(word)
            || scene.lexicon.scope.contains(word)
            || names_thing(word, source.nouns(), scene.lexicon)
            || things.lists.iter().any(|list| names_thing(word, &list.words, scene.lexicon))
            || stands_in(source.folded_arguments(), &fold(word))
    })
}

/// The words up to the next mark.
fn rest_of_clause(scene: &CheckContext<'_>, from: usize) -> Vec<Word> {
    let rest = scene.text().get(from..).unwrap_or_default();
    let mark = rest.find([',', ';', ':', '.', '!', '–', '—', '\n', '(']).unwrap_or(rest.len());
    words(rest.get(..mark).unwrap_or_default())
}

fn expected(scene: &CheckContext<'_>) -> String {
    let lengths =
        scene.sources.iter().flat_map(|source| source.facts().lists.iter().filter(|list| list.depth == 0).map(|list| list.length));
    match lengths.max() {
        Some(length) => format!("the result has {length}"),
        None => "the result has it".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{evidence::EvidenceIndex, language::lexicon::language, plain::AnalyzedPassage};

    #[test]
    fn a_property_is_no_list() {
        for (tool, result, text, wrong) in [
            ("get_invoice", r#"{"id":4,"total":120,"items":[{"what":"desk"}]}"#, "The invoice data have no due date.", false),
            ("get_calendar", r#"{"day":"Monday","entries":[{"what":"Lunch"}]}"#, "Your calendar has no entries.", true),
        ] {
            let grounds = EvidenceIndex::new(vec![ToolResult::new(tool, "{}", result)], Vec::new(), "".into());
            let plain = AnalyzedPassage::of(text);
            let lexicon = language(&words(text), None);
            let sources = grounds.results.iter().collect();
            let scene = CheckContext::new(&plain, Kind::Sentence, lexicon, sources, CitationScope::Cited, &grounds);
            assert_eq!(absence(&scene).is_some(), wrong, "{text}");
        }
    }

    #[test]
    fn a_member_without_a_value_has_none() {
        let result = r#"{"sample":"55","ph":7.4,"nitrates":null,"status":"running"}"#;
        let asked = "What are the nitrates of sample 55?";
        let grounds =
            EvidenceIndex::new(vec![ToolResult::new("lab_result", r#"{"sample":"55"}"#, result)], vec![asked.into()], asked.into());
        for (text, wrong) in [
            ("Sample 55 has a pH of 7.4 and 31 mg/l of nitrates.", true),
            ("Sample 55 has a pH of 7.4.", false),
            ("Sample 55 has a pH of 7.4; nitrates aren't there yet.", false),
        ] {
            let plain = AnalyzedPassage::of(text);
            let lexicon = language(&words(text), None);
            let sources = grounds.results.iter().collect();
            let scene = CheckContext::new(&plain, Kind::Sentence, lexicon, sources, CitationScope::Cited, &grounds);
            assert_eq!(told_of_null(&scene).is_some(), wrong, "{text}");
        }
    }
}
