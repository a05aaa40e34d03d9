//! Empty results, and things told of where every cited result is empty. Pure.

use crate::{
    checks::{
        account::sentence::{LEAVES_OF, foreign_names, tells_nothing, whole},
        states,
    },
    context::{CheckContext, CitationScope, ClaimFinding},
    evidence::{
        ToolResult, derive,
        facts::{NamedValue, ResultList, Scalar},
        tool_capabilities::{Effect, ToolCapability},
    },
    language::{
        date,
        fold::{fold, stands_in},
        number,
        polarity::failure_words::text_tells_failure,
        word_list::{PhraseList, WordList},
    },
    passage::Kind,
};
use toolmark_base::violation::{Certainty, Code};

/// Does this result hold nothing but empty lists?
pub(crate) fn is_empty(source: &ToolResult) -> bool {
    let facts = source.facts();
    // Lists of what went wrong or was noted are empty where all is well.
    static FAULTS: WordList = WordList::new(&["errors", "error", "warnings", "warning", "failures", "failed", "rejected"]);
    // Of an act messages are notes, too; of what reads they may be what was looked for.
    static NOTES: WordList = WordList::new(&["messages", "notes", "alerts", "comments", "tags", "labels", "attachments"]);
    let notes = |word: &String| FAULTS.has(word) || !source.reads() && NOTES.has(word);
    // `"drugs": [...]`, as the call named them.
    let echoes = |list: &ResultList| {
        let mut own = facts.leaves.iter().filter(|leaf| list.words.contains(&leaf.key)).peekable();
        own.peek().is_some() && own.all(|leaf| stands_in(source.folded_arguments(), &fold(&leaf.value.shown())))
    };
    let of_things = || facts.lists.iter().filter(|list| !list.words.iter().any(notes) && !echoes(list));
    let lists = of_things().next().is_some() && of_things().all(|list| list.length == 0);
    let values = || {
        facts.leaves.iter().all(|leaf| match &leaf.value {
            Scalar::Number(number) => *number == 0.0 || !derive::is_count(&leaf.key) || !facts.is_structured(),
            _ => true,
        })
    };
    facts.is_structured() && lists && values() && !describes_something(source) || is_empty_yaml(source) || is_bare_head(&source.text)
}

/// Names of columns that a line must have to be known as the first one of a table.
const HEAD_CELLS_MIN: usize = 3;

/// `item,qty,best_before` and no line below it: a table without rows.
fn is_bare_head(text: &str) -> bool {
    let text = text.trim();
    let name = |cell: &str| {
        let cell = cell.trim();
        !cell.is_empty() && cell.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
    };
    let cells = || text.split([',', ';', '\t']);
    text.len() <= NOTHING_BYTES_MAX && !text.contains('\n') && cells().count() >= HEAD_CELLS_MIN && cells().all(name)
}

/// `kiln: Little Tom`, `shelves: []`
fn is_empty_yaml(source: &ToolResult) -> bool {
    let pair = |line: &str| {
        line.split_once(':')
            .is_some_and(|(name, _)| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | ' ' | '-')))
    };
    let lines = || source.text.lines().filter(|line| !line.trim().is_empty());
    source.text.len() <= NOTHING_BYTES_MAX && lines().all(pair) && lines().any(|line| line.trim_end().ends_with(": []"))
}

/// Bytes of a result that says no more than that nothing was found.
const NOTHING_BYTES_MAX: usize = 200;
/// Values of such a result.
const NOTHING_LEAVES_MAX: usize = 2;

/// Does this result say, in words, that nothing was found?
fn finds_nothing(source: &ToolResult) -> bool {
    static SAYS: PhraseList = PhraseList::new(&[
        "no match",
        "not found",
        "no result",
        "no rows",
        "no records",
        "no record ",
        "no entries",
        "no entry",
        "no hits",
        "nothing found",
        "none found",
        "no such ",
        "no items",
        "no data",
        " 0 results",
        " 0 rows",
        " 0 matches",
        " 0 hits",
        "does not exist",
        "keine treffer",
        "nicht gefunden",
        "kein eintrag",
        "keine eintrage",
        "keine daten",
        "kein treffer",
        " 0 treffer",
        "aucun resultat",
        "aucune fiche",
        "aucune entree",
        "aucune donnee",
        "introuvable",
        "aucun enregistrement",
        " 0 resultat",
        "sin resultados",
        "no encontrad",
        "ningun resultado",
        "sin datos",
        " 0 resultados",
        "nessun risultato",
        "non trovat",
        "nessuna voce",
        "nessun dato",
        " 0 risultati",
        "nenhum resultado",
        "nao encontrad",
        "sem resultados",
        "nenhum registro",
        "nenhum registo",
        "geen resultaten",
        "niet gevonden",
        "geen gegevens",
        "brak wynikow",
        "nie znaleziono",
        "brak danych",
        "bulunamadi",
        "kayit yok",
        "sonuc yok",
        "見つかりません",
        "該当なし",
        "該当する",
        "未找到",
        "无结果",
        "没有找到",
        "查无",
        "नहीं मिला",
        "नहीं मिली",
        "찾을 수 없",
    ]);
    let facts = source.facts();
    let plain = facts.lists.is_empty() && facts.leaves.len() <= NOTHING_LEAVES_MAX;
    // `No events found in namespace shop.`
    let none_found = || source.folded().starts_with("no ") && stands_in(source.folded(), "found");
    plain && source.text.len() <= NOTHING_BYTES_MAX && (SAYS.stands_in(&format!(" {} ", source.folded())) || none_found())
}

/// Members of a result that say how it was come by, not what a thing is like.
static ABOUT_RESULT: WordList = WordList::new(&[
    "status",
    "state",
    "ok",
    "success",
    "message",
    "msg",
    "note",
    "info",
    "hint",
    "page",
    "pages",
    "perpage",
    "pagesize",
    "limit",
    "offset",
    "took",
    "tookms",
    "ms",
    "query",
    "q",
    "cursor",
    "next",
    "source",
    "requestid",
    "timestamp",
    "time",
    "date",
    "generatedat",
    "timezone",
    "version",
    "filter",
    "unit",
    "currency",
    "from",
    "to",
    "period",
    "range",
    "month",
    "day",
    "week",
    "year",
]);

/// Does a result tell of a thing beside its empty lists: a booking without notes? At least two of its values must be neither repeated from
/// the call nor about the result itself.
fn describes_something(source: &ToolResult) -> bool {
    let telling = |leaf: &&NamedValue| {
        let about = ABOUT_RESULT.has(&leaf.key) || derive::is_count(&leaf.key);
        match &leaf.value {
            Scalar::Text(text) => !about && !text.trim().is_empty() && !stands_in(source.folded_arguments(), &fold(text)),
            Scalar::Number(number) => !about && *number != 0.0 && !source.argument_numbers().contains(&number.abs()),
            Scalar::Flag(flag) => !about && *flag,
            Scalar::Null => false,
        }
    };
    source.facts().leaves.iter().take(LEAVES_OF).filter(telling).nth(1).is_some()
}

/// Things told of where every result that is cited is empty.
pub(crate) fn told_of_nothing(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
    let said = scene.plain.words.iter().filter(|word| word.lower.chars().count() > 1).count();
    let spaceless = scene.plain.letters_beyond_ascii() > 6;
    let nothing =
        |source: &ToolResult| is_empty(source) || ToolCapability::effect_of(&source.tool) != Effect::Acts && finds_nothing(source);
    let empty = scene.bond >= CitationScope::Introduced && scene.sources.iter().all(|source| nothing(source) && !source.failed);
    // `Fully booked`: nothing is free.
    static FULL: PhraseList = PhraseList::new(&[
        "fully booked",
        "booked out",
        "sold out",
        "all taken",
        "is full",
        "are full",
        "was full",
        "were full",
        "s full",
        "ausgebucht",
        "ausverkauft",
        "belegt",
        "voll",
        "complet",
        "complets",
        "todo ocupado",
        "completo",
        "completa",
        "agotad",
        "pieno",
        "esaurit",
        "lotad",
        "esgotad",
        "volgeboekt",
        "uitverkocht",
        "zajete",
        "wyprzedan",
        "dolu",
        "tukendi",
        "満席",
        "満室",
        "满",
        "售罄",
        "भर",
    ]);
    if !empty || said < 4 && !spaceless || tells_nothing(scene) || FULL.stands_in(scene.plain.folded()) {
        return None;
    }
    // What the call asked for may be said again; something more must be told.
    let unsaid = |date: &date::Date| !scene.grounds.said_dates().dates.iter().any(|said| date.is(said));
    let foreign = scene.plain.numbers().iter().any(|number| !scene.has_number(number, number::Precision::Exact))
        || scene.plain.dates().dates.iter().any(unsaid);
    // In German a capital makes no name.
    let names = scene.lexicon.language != "de" && foreign_names(scene).next().is_some();
    if scene.bond == CitationScope::Introduced && !tells_of_things(scene, names) {
        return None;
    }
    // An offer or a condition says nothing of what there is: "If you are flexible, I can look at other days."
    if !foreign && !names && states::is_offer(scene.plain.folded()) {
        return None;
    }
    let listed = scene.sources.iter().all(|source| is_empty(source));
    let exists = scene.bond == CitationScope::Cited && tells_existence(scene);
    if !listed && (!foreign && !names && !exists || text_tells_failure(scene.text())) {
        return None;
    }
    let certainty = if listed && (foreign || names) { Certainty::Certain } else { Certainty::Likely };
    Some(whole(scene, "told_of_nothing", Code::ClaimMismatch, "the result is empty", certainty))
}

/// Words of a sentence before which it tells that there is something: `Yes, there are …`.
const EXISTENCE_WITHIN: usize = 2;

/// Does the sentence begin by telling that there is something?
fn tells_existence(scene: &CheckContext<'_>) -> bool {
    const PAIRS: [(&str, &str); 8] = [
        ("there", "is"),
        ("there", "are"),
        ("there", "was"),
        ("there", "were"),
        ("es", "gibt"),
        ("ci", "sono"),
        ("il", "y"),
        ("c'è", "un"),
    ];
    let first = scene.plain.words.windows(2).take(EXISTENCE_WITHIN + 1);
    let first = first.into_iter().any(|two| PAIRS.iter().any(|(one, other)| two[0].lower == *one && two[1].lower == *other));
    // `Yes, Corvale holds two patents`.
    let several = || scene.plain.words.iter().any(|word| scene.lexicon.count(&word.lower).is_some_and(|count| count > 1));
    let yes = || {
        scene.plain.words.first().is_some_and(|word| matches!(&*word.lower, "yes" | "ja" | "oui" | "sí" | "sì" | "sim" | "tak" | "evet"))
    };
    first || yes() && several() || scene.plain.words.iter().take(EXISTENCE_WITHIN).any(|word| word.lower == "hay")
}

/// True of a sentence, covered by the citation of a later one, that tells of things: with a number, a date or a name that nobody said. What
/// else such a sentence says may be advice, or how it was looked.
fn tells_of_things(scene: &CheckContext<'_>, names: bool) -> bool {
    let plain = scene.plain;
    let counts = || plain.words.iter().any(|word| scene.lexicon.count(&word.lower).is_some_and(|count| count > 1));
    let numbers = || plain.numbers().iter().any(|number| !scene.has_number(number, number::Precision::Exact));
    let dates = || plain.dates().dates.iter().any(|date| !scene.grounds.said_dates().dates.iter().any(|said| date.is(said)));
    scene.kind == Kind::Sentence && (names || counts() || numbers() || dates()) && !states::is_unsure(plain.folded(), &plain.words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        evidence::EvidenceIndex,
        language::lexicon::{language, words},
        passage::Kind,
        plain::AnalyzedPassage,
    };

    fn tells_of_nothing(grounds: &EvidenceIndex, bond: CitationScope, text: &str) -> bool {
        let plain = AnalyzedPassage::of(text);
        let lexicon = language(&words(text), None);
        let scene = CheckContext::new(&plain, Kind::Sentence, lexicon, grounds.results.iter().collect(), bond, grounds);
        told_of_nothing(&scene).is_some()
    }

    #[test]
    fn told_of_nothing_is_what_is_told_and_no_offer() {
        let found = ToolResult::new("search_flights", r#"{"origin":"JFK"}"#, "[]");
        let grounds = EvidenceIndex::new(vec![found], Vec::new(), "Which flights are there?".into());
        for (text, wrong) in [
            ("The culture grew, and it is sensitive.", true),
            ("There are many flights in the morning.", true),
            ("If that helps, there are 7 flights a day.", true),
            ("There are no flights.", false),
            ("If you are flexible with your travel dates, please tell me.", false),
            ("Wenn Sie an anderen Tagen reisen möchten, suche ich gern weiter.", false),
            ("Si vous voulez, je peux chercher un autre jour de voyage.", false),
            ("別の日付で検索してみましょうか。", false),
            ("Sabah saatlerinde uçan bir sefer bulamadım.", false),
            ("Sabah saatlerinde uçan bir sefer buldum.", true),
        ] {
            assert_eq!(tells_of_nothing(&grounds, CitationScope::Cited, text), wrong, "{text}");
        }
    }

    #[test]
    fn what_a_later_citation_covers_tells_of_things() {
        let found = ToolResult::new("list_issues", r#"{"assignee":"pkeller","from":"2026-05-04"}"#, "[]");
        let grounds = EvidenceIndex::new(vec![found], Vec::new(), "Is anything assigned to me?".into());
        for (text, wrong) in [
            ("You've got two on your plate: one on the importer and one about dates.", true),
            ("One is due on 9 June.", true),
            ("The importer is the first on your plate.", false),
            ("I looked from 4 May on.", false),
            ("You could take over two of Ann's.", false),
        ] {
            assert_eq!(tells_of_nothing(&grounds, CitationScope::Introduced, text), wrong, "{text}");
        }
    }

    #[test]
    fn the_day_that_was_asked_for_is_nothing_that_is_told() {
        let found = ToolResult::new("list_issues", r#"{"from":"2026-05-04"}"#, "[]");
        let grounds = EvidenceIndex::new(vec![found], vec!["Is anything due on 4 May?".into()], "Is anything due on 4 May?".into());
        let certainty = |text: &str| {
            let plain = AnalyzedPassage::of(text);
            let sources = grounds.results.iter().collect();
            let scene = CheckContext::new(&plain, Kind::Sentence, language(&words(text), None), sources, CitationScope::Cited, &grounds);
            told_of_nothing(&scene).map(|finding| finding.certainty)
        };
        assert_eq!(certainty("The importer is due on 9 May."), Some(Certainty::Certain));
        assert_eq!(certainty("The importer is what is due on 4 May."), Some(Certainty::Likely));
        assert_eq!(certainty("Nothing is due on 4 May."), None);
    }

    #[test]
    fn a_text_that_says_that_nothing_was_found_is_empty() {
        for (tool, result, text, wrong) in [
            ("find_member", "no match for 'Gareth Poole'", "Gareth Poole has been a member since May 2016.", true),
            ("find_member", "no match for 'Gareth Poole'", "Nobody of that name is a member.", false),
            ("cerca_fattura", "0 risultati", "La 318/B è stata saldata il 7 aprile.", true),
            ("find_member", "Members: 12. No such category as 'senior'.\n1 Ann\n2 Bob\n3 Cid", "There are 12 members, as of 3 May.", false),
        ] {
            let grounds =
                EvidenceIndex::new(vec![ToolResult::new(tool, r#"{"number":"318/B"}"#, result)], Vec::new(), "Gareth Poole? 318/B?".into());
            assert_eq!(tells_of_nothing(&grounds, CitationScope::Cited, text), wrong, "{text}");
        }
    }
}
