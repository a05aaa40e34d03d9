//! A count of the records that a sentence's words choose: "five flights to Oslo" of three. Pure.

use std::ops::Range;

use crate::{
    checks::{
        selection::{QUESTION_WORDS_MAX, Reading, Records, SENTENCE_BYTES_MAX, SelectionClaim, clauses, denies, is_plain},
        values::is_of_name,
    },
    context::{CheckContext, CitationScope, ClaimFinding},
    evidence::{
        facts::{NamedValue, Scalar},
        tool_capabilities::{Effect, ToolCapability},
    },
    language::{
        cues,
        fold::{akin, fold, stands_in},
        lexicon::Word,
        word_list::WordSet,
    },
    passage::Kind,
};
use toolmark_base::violation::{Certainty, Code};

/// Counts that are compared.
const COUNT_MAX: u64 = 500;
/// Words of a sentence that nothing decides, where the question is decided.
const OPEN_MAX: usize = 2;

/// The finding of a sentence that tells how many records there are of a kind, and the result has another number of them.
pub(crate) fn part_counts(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
    let [source] = scene.sources[..] else { return None };
    if !scene.is_judged(CitationScope::Introduced)
        || scene.kind != Kind::Sentence
        || scene.text().len() > SENTENCE_BYTES_MAX
        || ToolCapability::effect_of(&source.tool) == Effect::Acts && !source.lists_records()
        || source.fails()
        || source.is_partial()
    {
        return None;
    }
    let counts = |word: &Word| scene.lexicon.count(&word.lower).is_some() || word.lower == "single";
    if scene.plain.numbers().is_empty() && !scene.plain.words.iter().any(counts) || cues::reckons(scene.plain) {
        return None;
    }
    let records = Records::of(source)?;
    let reading = Reading { scene, source, records: &records };
    clauses(scene).into_iter().filter(|clause| !clause.iter().any(denies)).take(CLAUSES_MAX).find_map(|clause| {
        let (place, told) = count_of(scene, clause, |place| counts_things(scene, &reading, place))?;
        part_count(&reading, clause, place, told)
    })
}

/// Clauses of a sentence that are looked at.
const CLAUSES_MAX: usize = 6;

/// The finding of one clause that counts.
fn part_count(reading: &Reading<'_, '_>, clause: &[Word], place: Range<usize>, told: u64) -> Option<ClaimFinding> {
    let Reading { scene, source, records } = *reading;
    let length = records.total() as u64;
    let listed = source.facts().lists.iter().any(|list| list.of_things) || source.rows().columns;
    let is_told = |leaf: &NamedValue| matches!(leaf.value, Scalar::Number(number) if number == told as f64);
    let stands = source.facts().leaves.iter().any(is_told);
    if !listed || length == 0 || told > 2 * length || told != length && stands && !has_decided(records, clause) {
        return None;
    }
    // `Two orders are open, A-1 and A-2`: those that are named are told of one by one.
    if told == length && records.stand_outside(scene, clause) {
        return None;
    }
    // `Two Sails` is the title of a picture.
    if let Some(noun) = scene.words_after(place.end).first()
        && let Some(name) = scene.text().get(place.start..noun.end)
        && name.starts_with(char::is_alphabetic)
        && stands_in(source.folded(), &fold(name))
    {
        return None;
    }
    let words: Vec<Word> = clause.iter().filter(|word| word.start >= place.end || word.end <= place.start).cloned().collect();
    let asked = scene.grounds.asked.words();
    let question = reading.read(asked, &[], SelectionClaim::Count).filter(|_| asked.len() <= QUESTION_WORDS_MAX)?;
    let own = reading.read(&words, asked, SelectionClaim::Count)?;
    let nouns = usize::from(!question.decided.is_empty() || scene.lexicon.language != "en");
    if question.open.len() > nouns || own.open.len() > OPEN_MAX {
        return None;
    }
    // Lines of a text aren't all of one kind. As many as there are in all: right, unless a word of its own chooses some of them.
    let facts = source.facts();
    let in_all = || facts.lists.iter().any(|list| list.length as u64 == told) || facts.counts().contains(&told);
    if own.decided.is_empty() && (told == length || records.are_lines() || in_all()) {
        return None;
    }
    let of_question = question.decided.into_iter().filter(|_| told != length);
    let decided: Vec<String> = of_question.chain(own.decided).collect();
    let count = records.count(&decided) as u64;
    (count > 0 && count != told && !(decided.is_empty() && stands)).then(|| ClaimFinding {
        rule: "part_counts",
        code: Code::CountMismatch,
        found: scene.text().get(place.clone()).unwrap_or_default().to_owned(),
        span: place,
        expected: count.to_string(),
        certainty: Certainty::Likely,
    })
}

/// Between a count and its noun: `four of the faults`.
const LINKS: [&str; 16] =
    ["of", "the", "these", "those", "different", "der", "die", "von", "des", "de", "las", "los", "dei", "delle", "dos", "das"];

/// Of what was done so often.
const TIMES: [&str; 7] = ["times", "mal", "fois", "veces", "volte", "vezes", "keer"];

/// Has a record a word of the clause in a value?
fn has_decided(records: &Records<'_>, clause: &[Word]) -> bool {
    let has_figure = |word: &Word| word.lower.bytes().any(|byte| byte.is_ascii_digit());
    clause.iter().any(|word| (has_figure(word) || !is_plain(word)) && records.say(&word.lower))
}

/// Words between a number and the noun that it counts.
const NOUN_WORDS_MAX: usize = 3;

/// Does a noun of the result, the tool or the question stand behind the number, and nothing in front that makes it no count?
fn counts_things(scene: &CheckContext<'_>, reading: &Reading<'_, '_>, place: &Range<usize>) -> bool {
    let lexicon = scene.lexicon;
    let before = scene.words_before(place.start).last();
    let limits = |word: &Word| {
        let own = |set: &WordSet| set.contains(&word.lower);
        own(&lexicon.near) || own(&lexicon.bounds) || own(&lexicon.parts)
    };
    let joined =
        |word: &&Word| scene.text().get(place.end..word.start).is_some_and(|gap| !gap.contains([',', ';', ':', '.', '(', '–', '—']));
    let asked = scene.grounds.asked.words();
    let is_thing = |word: &Word| {
        let folded = word.folded();
        let is_asked = || !is_plain(word) && asked.iter().any(|other| akin(&other.folded(), &folded));
        reading.names_list(&folded) || reading.records.decide(&folded) || TIMES.contains(&&*folded) || is_asked()
    };
    let links = |word: &&Word| LINKS.contains(&&*word.lower);
    let noun = scene.words_after(place.end).iter().take_while(joined).skip_while(links).take(NOUN_WORDS_MAX);
    let exactly = before.is_some_and(|word| matches!(word.lower.as_str(), "just" | "only" | "exactly"));
    (exactly || !before.is_some_and(limits)) && noun.take_while(|word| !is_plain(word)).any(is_thing)
}

/// The only number of a clause that counts, and where it stands.
fn count_of(scene: &CheckContext<'_>, clause: &[Word], counts: impl Fn(&Range<usize>) -> bool) -> Option<(Range<usize>, u64)> {
    let (first, last) = (clause.first()?, clause.last()?);
    let inside = |at: usize| at >= first.start && at < last.end;
    let mut told = Vec::new();
    for number in scene.plain.numbers().iter().filter(|number| inside(number.span.start)) {
        let said = number.readings().any(|reading| scene.grounds.said_numbers_have(reading.value));
        let plain = !number.ordinal
            && !is_of_name(scene.text(), number.span.start)
            && !number.percent
            && number.unit.is_none()
            && !scene.plain.is_taken(&(number.span.start..number.end));
        told.extend(number.whole().filter(|count| plain && !said && *count > 1).map(|count| (number.span.clone(), count)));
    }
    for (at, word) in clause.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|at| clause.get(at)).map_or("", |word| &word.lower);
        let one = matches!((before, word.lower.as_str()), ("just" | "only" | "exactly", "one") | ("a" | "one", "single"));
        let count = if one { Some(1) } else { scene.lexicon.count(&word.lower).filter(|count| *count > 1) };
        told.extend(count.map(|count| (word.start..word.end, count)));
    }
    told.retain(|(place, _)| counts(place));
    let [(place, count)] = &told[..] else { return None };
    (*count <= COUNT_MAX).then(|| (place.clone(), *count))
}

#[cfg(test)]
mod tests {
    use super::{super::super::cited::find, *};

    #[test]
    fn counts_of_the_records_that_words_choose() {
        let trips = r#"{"trips":[{"to":"Oslo","km":14},{"to":"Riga","km":9},{"to":"Oslo","km":5},{"to":"Bern","km":4}]}"#;
        let found = |asked: &str, text: &str| {
            let finding = find(part_counts, asked, &[("list_trips", r#"{"area":"north"}"#, trips)], 0, text)?;
            Some((finding.found, finding.expected))
        };
        let wrong = |told: &str, count: &str| Some((told.to_owned(), count.to_owned()));
        assert_eq!(found("How many trips to Oslo?", "Four trips to Oslo."), wrong("Four", "2"));
        assert_eq!(found("How many trips to Oslo?", "There are 3 trips to Oslo."), wrong("3", "2"));
        assert_eq!(found("How many trips go to Oslo?", "Just one of the trips goes to Oslo."), wrong("one", "2"));
        // A clause beside it denies something else.
        assert_eq!(found("How many trips to Oslo?", "There are 3 trips to Oslo, and none of them is long."), wrong("3", "2"));
        for (asked, text) in [
            ("How many trips to Oslo?", "There are two trips to Oslo, and none of them is long."),
            ("How many trips to Oslo?", "There are two trips to Oslo."),
            ("How many trips?", "There are four trips."),
            ("Oslo and the others: how many trips are there?", "There are four trips."),
            ("How many long trips?", "Three long trips."),
            ("How many trips to Oslo?", "The first 3 trips to Oslo."),
            ("How many trips to Oslo?", "No trip of the three is to Oslo."),
            ("How far is Oslo?", "Oslo takes 3 hours."),
        ] {
            assert_eq!(found(asked, text), None, "{text}");
        }
    }
}
