//! What a passage tells as done, in force or sent, against the state that the result names. Pure.
//!
//! A result that says of its only record that it is pending, and nothing in it that it is done, accounts for no "has been approved",
//! in whatever language both are. The words lie in `lexicon/states.toml`.

pub mod opposites;

use std::sync::OnceLock;

use serde::Deserialize;

use crate::{
    checks::{account::sentence, values},
    context::{CheckContext, CitationScope, ClaimFinding},
    evidence::{
        ToolResult,
        facts::{NamedValue, ResultFacts, Scalar},
        failure,
        rows::{Cell, Row},
    },
    language::{
        cues,
        fold::{akin, fold, stands_in},
        lexicon::{Word, WordSet},
        number::Number,
        polarity::{failure_words, negation},
        word_list::{FoldedParts, PhraseList, WordList, data_file},
    },
    passage::Kind,
};
use toolmark_base::violation::{Certainty, Code};

/// Values of a result whose states are looked at.
const LEAVES_MAX: usize = 400;
/// Clauses of a passage that are looked at.
const CLAUSES_MAX: usize = 24;
/// Letters of a state.
const STATE_CHARS_MAX: usize = 48;
/// Names of a member that says how a thing stands, in any language.
const STATES: &[&str] = &[
    "status",
    "state",
    "stage",
    "phase",
    "progress",
    "estado",
    "statut",
    "etat",
    "stato",
    "durum",
    "stan",
    "situacao",
    "状态",
    "状態",
    "स्थिति",
    "상태",
];

/// The words of `lexicon/states.toml`, as they are written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct WrittenStateWords {
    pending: Vec<String>,
    undecided: Vec<String>,
    done: Vec<String>,
    over: Vec<String>,
    holds: Vec<String>,
    unsure: Vec<String>,
    offers: Vec<String>,
    messages: Vec<String>,
    asks_messages: Vec<String>,
    messaging_tools: WordSet,
    ranks: Vec<String>,
    partial: Vec<String>,
    whole: Vec<String>,
    broken: Vec<String>,
    ready: Vec<String>,
    almost: Vec<String>,
    not_done: Vec<String>,
    finishes: Vec<String>,
    runs: Vec<String>,
    finished: Vec<String>,
}

/// The words of `lexicon/states.toml`.
#[derive(Debug)]
pub(crate) struct StateWords {
    pending: FoldedParts,
    undecided: FoldedParts,
    done: FoldedParts,
    over: FoldedParts,
    holds: FoldedParts,
    unsure: FoldedParts,
    offers: FoldedParts,
    pub messages: FoldedParts,
    pub asks_messages: FoldedParts,
    pub messaging_tools: WordSet,
    ranks: FoldedParts,
    partial: FoldedParts,
    whole: FoldedParts,
    broken: FoldedParts,
    ready: FoldedParts,
    almost: FoldedParts,
    not_done: FoldedParts,
    finishes: FoldedParts,
    runs: FoldedParts,
    finished: FoldedParts,
}

pub(crate) fn data() -> &'static StateWords {
    static ALL: OnceLock<StateWords> = OnceLock::new();
    ALL.get_or_init(|| {
        let read: WrittenStateWords = data_file(include_str!("../../language/lexicon/states.toml"));
        let parts = |list: &[String]| FoldedParts::new(list, fold);
        StateWords {
            pending: parts(&read.pending),
            undecided: parts(&read.undecided),
            done: parts(&read.done),
            over: parts(&read.over),
            holds: parts(&read.holds),
            unsure: parts(&read.unsure),
            offers: parts(&read.offers),
            messages: parts(&read.messages),
            asks_messages: parts(&read.asks_messages),
            messaging_tools: read.messaging_tools,
            ranks: parts(&read.ranks),
            partial: parts(&read.partial),
            whole: parts(&read.whole),
            broken: parts(&read.broken),
            ready: parts(&read.ready),
            almost: parts(&read.almost),
            not_done: parts(&read.not_done),
            finishes: parts(&read.finishes),
            runs: parts(&read.runs),
            finished: parts(&read.finished),
        }
    })
}

/// Does a text tell what could or will be, rather than what is?
pub(crate) fn is_unsure(folded: &str, words: &[Word]) -> bool {
    data().unsure.stand_in(folded) || words.iter().any(|word| word.lower.ends_with("'ll") || word.lower.ends_with("’ll"))
}

/// Does a folded text offer, ask or set a condition?
pub(crate) fn is_offer(folded: &str) -> bool {
    data().offers.stand_in(folded)
}

/// Does a folded text put things in an order, by its words?
pub(crate) fn ranks(folded: &str) -> bool {
    data().ranks.stand_in(folded)
}

/// The finding of a passage that tells as done or in force what its result says to be pending or over.
pub(crate) fn states(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
    let [source] = scene.sources.as_slice() else { return None };
    if scene.bond < CitationScope::Introduced || scene.plain.asks() || scene.kind == Kind::Heading || source.fails() || source.is_partial()
    {
        return None;
    }
    let state = state_of(source)?;
    let words = data();
    let text = scene.plain.folded();
    let partial = words.partial.stand_in(&state);
    // `Ready on 9 March` is told of what will be, `80 percent ready` of how far it is.
    let plain = scene.plain;
    let placed = !plain.dates().dates.is_empty()
        || !plain.dates().times.is_empty()
        || plain.numbers().iter().any(|number| number.percent || number.ordinal);
    let is_ready = |clause: &str| !placed && words.ready.stand_in(clause) && !words.almost.stand_in(text);
    // One of its lines may be whole.
    let of_line = |clause: &str| {
        let cells = source.rows().rows.iter().flat_map(|row| &row.cells).filter(|cell| cell.is_text);
        cells.take(LEAVES_MAX).flat_map(|cell| cell.folded.split(' ')).any(|word| word.chars().count() > 3 && stands_in(clause, word))
    };
    let pending = words.pending.stand_in(&state) && !says(source, &words.done);
    // `seguro_ativo: true`: something else holds.
    const HOLDS: &[&str] = &["activ", "ativ", "attiv", "aktiv", "actief", "valid", "running", "enabled"];
    let holds = || {
        let on = |leaf: &NamedValue| matches!(leaf.value, Scalar::Flag(true)) && HOLDS.iter().any(|part| leaf.key.contains(part));
        source.facts().leaves.iter().take(LEAVES_MAX).any(on)
    };
    let over = words.over.stand_in(&state) && !says(source, &words.holds) && !holds();
    // What runs isn't finished.
    let runs = words.runs.stand_in(&state) && !words.runs.stand_in(text) && !words.holds.stand_in(text) && !words.pending.stand_in(text);
    let told = pending && !words.pending.stand_in(text) && clauses(scene).any(|clause| words.done.stand_in(&clause) || is_ready(&clause))
        || partial
            && !placed
            && !words.partial.stand_in(text)
            && clauses(scene).any(|clause| words.done.stand_in(&clause) && words.whole.stand_in(&clause) && !of_line(&clause))
        || runs && !placed && clauses(scene).any(|clause| words.finished.stand_in(&clause))
        || over && is_about(scene, source) && !words.over.stand_in(text) && clauses(scene).any(|clause| words.holds.stand_in(&clause));
    let expected = format!("the result has the state `{state}`");
    told.then(|| sentence::whole(scene, "states", Code::ClaimMismatch, &expected, Certainty::Likely))
}

/// The finding of a passage that tells all of several records as done, of which one is refused, broken or not begun, and isn't named.
pub(crate) fn all_done(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
    let [source] = scene.sources.as_slice() else { return None };
    if scene.bond < CitationScope::Introduced || scene.kind == Kind::Heading || scene.plain.asks() || source.fails() || source.is_partial()
    {
        return None;
    }
    // `both` are two of them, `nearly all` isn't all.
    let all = |word: &Word| {
        cues::ALL.has(&word.lower) && !cues::BOTH.has(&word.lower) || matches!(word.lower.as_str(), "every" | "everything" | "each")
    };
    let tells_all = scene.plain.words.iter().any(all) || ALL_INSIDE.stands_in(scene.text());
    let (words, folded) = (data(), scene.plain.folded());
    let rows = source.rows();
    if tells_all
        && !scene.says(&scene.lexicon.near)
        && !failure_words::text_tells_failure(scene.text())
        && !words.pending.stand_in(folded)
        && clauses(scene).any(|clause| words.done.stand_in(&clause) && !words.partial.stand_in(&clause))
        && let Some(line) = source.text.lines().take(LINES_MAX).find(|line| line_fails(line))
        && failure::is_log(&source.text)
    {
        return Some(sentence::whole(scene, "all_done", Code::ClaimMismatch, line.trim(), Certainty::Likely));
    }
    if !tells_all
        || !rows.columns
        || rows.rows.len() < 2
        || scene.says(&scene.lexicon.near)
        || failure_words::text_tells_failure(scene.text())
        || words.pending.stand_in(folded)
    {
        return None;
    }
    // `All five`: as many as there are, and no part of them.
    let counted = || {
        let figures = scene.plain.numbers().iter().filter_map(Number::whole);
        let mut told = figures.chain(scene.plain.words.iter().filter_map(|word| scene.lexicon.count(&word.lower)));
        told.any(|count| count == rows.rows.len() as u64)
    };
    if !counted() || !clauses(scene).any(|clause| words.done.stand_in(&clause) || words.ready.stand_in(&clause)) {
        return None;
    }
    let opens = |row: &&Row| {
        row.cells.iter().any(|cell| {
            let state = is_state(&cell.column) || failure::STATES.contains(&cell.folded.replace(' ', "").as_str());
            let open = || words.pending.stand_in(&cell.folded) || words.broken.stand_in(&cell.folded) || fails(&cell.folded);
            state && cell.number.is_none() && cell.folded.chars().count() <= STATE_CHARS_MAX && open() && !words.done.stand_in(&cell.folded)
        })
    };
    let open: Vec<&Row> = rows.rows.iter().filter(opens).collect();
    let named = |row: &&Row| {
        let of_row = |cell: &Cell| {
            cell.is_text && rows.rows.iter().filter(|other| other.cells.iter().any(|own| own.folded == cell.folded)).count() == 1
        };
        row.cells.iter().any(|cell| stands_in(folded, &cell.folded) && of_row(cell))
    };
    let row = open.iter().find(|row| !named(row)).filter(|_| open.len() < rows.rows.len())?;
    let expected: Vec<&str> = row.cells.iter().take(6).map(|cell| cell.raw.as_str()).collect();
    Some(sentence::whole(scene, "all_done", Code::ClaimMismatch, &expected.join(", "), Certainty::Likely))
}

/// Lines of a result in which a failure is looked for.
const LINES_MAX: usize = 400;

/// Does a line of a log tell that something failed: `ERROR job=crm FAILED 0 B`? A line that counts failures tells none.
fn line_fails(line: &str) -> bool {
    static MARKS: WordList = WordList::new(&["FAILED", "FAILURE", "FAIL", "ERROR", "FATAL"]);
    let counts = || line.split_whitespace().any(|word| word.bytes().all(|byte| byte.is_ascii_digit()));
    line.split(|c: char| !c.is_alphanumeric()).any(|word| MARKS.has(word)) && !counts() && !line.contains("0 ")
        || line.contains("错误")
        || line.contains("失败")
        || line.contains("失敗")
}

/// Does a state have a word of failure?
fn fails(folded: &str) -> bool {
    folded.split(' ').any(|word| failure::STATES.contains(&word))
}

/// Words for all of them, in scripts without blanks.
static ALL_INSIDE: PhraseList = PhraseList::new(&["すべて", "全て", "全部", "全員", "都已", "全都", "सभी", "모두", "전부"]);

/// The way in which an act that ran isn't done. Who reports it says so somewhere.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum OpenAct {
    /// Its result is an error.
    Failed,
    /// It was a dry run.
    Trial,
    /// It changed nothing: what it was to change wasn't found, or was so already.
    Unchanged,
    /// In this state somebody else must decide first, or it stands in a queue.
    State(String),
}

impl OpenAct {
    /// The reason of a finding.
    pub fn reason(&self) -> String {
        match self {
            Self::Failed => "the call failed".to_owned(),
            Self::Trial => "the call was a dry run".to_owned(),
            Self::Unchanged => "the call changed nothing".to_owned(),
            Self::State(state) => format!("the result has the state `{state}`"),
        }
    }

    /// True if the answer tells it somewhere.
    pub fn is_told(&self, answer: &str) -> bool {
        let denies = || negation::denies(answer);
        let of_kind = match self {
            Self::Failed => denies() || failure_words::tells_outage(answer),
            Self::Unchanged => denies() || ALREADY.stands_in(&fold(answer)),
            Self::Trial | Self::State(_) => false,
        };
        of_kind || tells_of_waiting(answer)
    }
}

/// Words by which a thing is told to have been so before, folded.
static ALREADY: PhraseList = PhraseList::new(&[
    "already",
    "zero",
    " 0 ",
    "schon",
    "bereits",
    " deja ",
    "ya estaba",
    "ya esta",
    " gia ",
    "ja esta",
    "ja estava",
    "reeds",
    "stond al",
    "juz",
    "zaten",
    "すでに",
    "既に",
    "もともと",
    "已经",
    "本来",
    "पहले से",
]);

/// The way in which the act of this result isn't done, where the result says so.
pub(crate) fn open_act(source: &ToolResult) -> Option<OpenAct> {
    if source.reads() || source.is_partial() {
        return None;
    }
    if source.fails() {
        return Some(OpenAct::Failed);
    }
    if source.is_trial() {
        return Some(OpenAct::Trial);
    }
    if source.changed_nothing() {
        return Some(OpenAct::Unchanged);
    }
    let state = state_of(source).or_else(|| outcome_of(source.facts()))?;
    // `queued` of `queue_observation`: that is what the tool does.
    let is_done = || source.tool_words().split(' ').any(|word| state.split(' ').any(|own| akin(own, word)));
    (data().undecided.stand_in(&state) && !says(source, &data().done) && !is_done()).then_some(OpenAct::State(state))
}

/// The only outcome that a result names at its top: `resultado: LISTA_ESPERA`.
fn outcome_of(facts: &ResultFacts) -> Option<String> {
    static OUTCOMES: WordList = WordList::new(&[
        "result",
        "outcome",
        "esito",
        "resultado",
        "resultat",
        "ergebnis",
        "sonuc",
        "wynik",
        "resultaat",
        "结果",
        "結果",
        "परिणाम",
    ]);
    let top = facts.leaves.iter().take(LEAVES_MAX).filter(|leaf| leaf.record == 0 && leaf.object <= 1);
    let mut named = top.filter_map(|leaf| match &leaf.value {
        Scalar::Text(text) if OUTCOMES.has(&leaf.key) && text.chars().count() <= STATE_CHARS_MAX => Some(fold(text)),
        _ => None,
    });
    let one = named.next()?;
    named.next().is_none().then_some(one)
}

/// Words by which the user is asked to do something. Folded.
const POLITE: &[&str] =
    &["please", "bitte", "veuillez", "s il vous plait", "por favor", "per favore", "prosze", "lutfen", "ください", "请", "कृपया", "주세요"];

/// Does an answer say that something is still to come, wasn't done or isn't real: that it waits, was refused, was only tried? What an
/// offer says tells nothing, nor what ended (`the old plan is no longer active`).
fn tells_of_waiting(answer: &str) -> bool {
    let words = data();
    sentences(answer).any(|sentence| {
        let folded = fold(sentence);
        // Who is asked to do something has something left to do.
        let asks = POLITE.iter().any(|word| if word.is_ascii() { stands_in(&folded, word) } else { sentence.contains(word) });
        let offers = (words.offers.stand_in(&folded) || sentence.contains(['?', '？'])) && !asks;
        words.pending.stand_in(&folded)
            || words.undecided.stand_in(&folded)
            || asks && words.finishes.stand_in(&folded)
            || !offers && (words.not_done.stand_in(&folded) || tells_failure(sentence, &folded))
    })
}

/// The sentences of an answer. A point inside a figure ends none.
fn sentences(answer: &str) -> impl Iterator<Item = &str> {
    let mut rest = answer;
    std::iter::from_fn(move || {
        let ends = |(at, c): (usize, char)| {
            let inside = c == '.' && rest.as_bytes().get(at + 1).is_some_and(u8::is_ascii_digit);
            (matches!(c, '.' | '!' | '?' | '\n' | '。' | '！' | '？' | '।') && !inside).then_some(at + c.len_utf8())
        };
        let end = rest.char_indices().find_map(ends).unwrap_or(rest.len());
        let (sentence, behind) = rest.split_at_checked(end)?;
        rest = behind;
        (!sentence.is_empty()).then_some(sentence)
    })
}

/// Does a sentence tell that something wasn't done? A zero tells of a number, `no longer` of what was before.
fn tells_failure(sentence: &str, folded: &str) -> bool {
    static ENDED: PhraseList = PhraseList::new(&[
        "no longer",
        "any more",
        "anymore",
        "nicht mehr",
        "kein mehr",
        "ne plus",
        "n est plus",
        "ya no",
        "non e piu",
        "non piu",
        "ja nao",
        "niet meer",
        "juz nie",
        "artik",
    ]);
    if !failure_words::text_tells_failure(sentence) {
        return false;
    }
    let zeros = || sentence.split(|c: char| !(c.is_alphanumeric() || matches!(c, '\'' | '’'))).filter(|word| *word != "0");
    !ENDED.stands_in(folded) && (!sentence.contains('0') || failure_words::text_tells_failure(&zeros().collect::<Vec<&str>>().join(" ")))
}

/// Is the passage about this result: does it cite it, or say a word of it or of its call?
fn is_about(scene: &CheckContext<'_>, source: &ToolResult) -> bool {
    let known = |word: &Word| {
        let folded = fold(&word.lower);
        folded.chars().count() >= 4
            && !scene.lexicon.common.contains(&word.lower)
            && (stands_in(source.folded(), &folded)
                || stands_in(source.folded_arguments(), &folded)
                || source.tool_folded().contains(&folded))
    };
    scene.bond == CitationScope::Cited || scene.plain.words.iter().any(known)
}

/// The clauses of a passage that tell something as so, folded: no denial, condition or future in them.
pub(super) fn clauses<'s>(scene: &'s CheckContext<'_>) -> impl Iterator<Item = String> + 's {
    const JOINS: &[&str] = &[
        " and ", " but ", " und ", " aber ", " et ", " mais ", " y ", " pero ", " e ", " ma ", " en ", " maar ", " oraz ", " ale ", " i ",
        " ve ", " ama ",
    ];
    let marks = |c: char| matches!(c, ',' | ';' | ':' | '–' | '—' | '(' | ')' | '，' | '；' | '。' | '、' | '।' | '：');
    let cut = move |text: &str| {
        // What is quoted isn't told as so.
        let mut text = text.to_owned();
        for range in values::quoted(&text) {
            text.replace_range(range.clone(), &" ".repeat(range.len()));
        }
        JOINS.iter().for_each(|join| text = text.replace(join, ","));
        text
    };
    let all: Vec<String> = cut(scene.text()).split(marks).map(str::to_owned).collect();
    all.into_iter().take(CLAUSES_MAX).filter_map(|clause| {
        let folded = fold(&clause);
        (!negation::denies(&clause) && !data().unsure.stand_in(&folded)).then_some(folded)
    })
}

/// Does one of the result's short values have such a word, or a name of one that isn't blank?
fn says(source: &ToolResult, words: &FoldedParts) -> bool {
    let facts: &ResultFacts = source.facts();
    facts.leaves.iter().take(LEAVES_MAX).any(|leaf| {
        let (value, blank) = match &leaf.value {
            Scalar::Text(text) => (text.chars().count() <= STATE_CHARS_MAX && words.stand_in(&fold(text)), text.is_empty()),
            Scalar::Number(number) => (false, *number == 0.0),
            Scalar::Flag(flag) => (false, !flag),
            Scalar::Null => (false, true),
        };
        value || !blank && words.stand_in(&leaf.key)
    })
}

/// True of the name of a member that says how a thing stands.
pub(super) fn is_state(key: &str) -> bool {
    STATES.iter().any(|name| key == *name || key.ends_with(name))
}

/// The state that a result names, folded: that of its outermost object, where it names one only.
fn state_of(source: &ToolResult) -> Option<String> {
    let facts: &ResultFacts = source.facts();
    let of = |leaf: &&NamedValue| match &leaf.value {
        Scalar::Text(text) => is_state(&leaf.key) && text.chars().count() <= STATE_CHARS_MAX,
        _ => false,
    };
    let all: Vec<&NamedValue> = facts.leaves.iter().take(LEAVES_MAX).filter(of).collect();
    if all.is_empty() {
        let mut states = failure::states_of_markup(&source.text).filter(|state| state.chars().count() <= STATE_CHARS_MAX);
        return states.next().filter(|_| states.next().is_none()).map(fold);
    }
    let outer: Vec<&&NamedValue> = all.iter().filter(|leaf| leaf.record == 0 && leaf.object <= 1).collect();
    let only = match (outer.as_slice(), all.as_slice()) {
        ([one], _) => one,
        ([], [one]) => one,
        _ => return None,
    };
    match &only.value {
        Scalar::Text(text) => Some(fold(text)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        evidence::EvidenceIndex,
        language::lexicon::{language, words},
        plain::AnalyzedPassage,
    };

    fn told(result: &str, text: &str) -> bool {
        let grounds = EvidenceIndex::new(vec![ToolResult::new("get_request", "{}", result)], Vec::new(), "".into());
        let plain = AnalyzedPassage::of(text);
        let lexicon = language(&words(text), None);
        let sources = grounds.results.iter().collect();
        let bond = CitationScope::Cited;
        let scene = CheckContext::new(&plain, Kind::Sentence, lexicon, sources, bond, &grounds);
        states(&scene).is_some()
    }

    #[test]
    fn all_are_done_only_if_each_is() {
        let targets = "target   done  state\nNGC 891  12    complete\nM 76     20    complete\nC/2026   0     not started";
        for (text, wrong) in [
            ("All three targets are complete.", true),
            ("All three targets are in the list.", false),
            ("All three are complete but C/2026, which hasn't begun.", false),
            ("Both M targets are complete.", false),
            ("All two that were begun are complete.", false),
        ] {
            let grounds = EvidenceIndex::new(vec![ToolResult::new("get_targets", "{}", targets)], Vec::new(), "".into());
            let plain = AnalyzedPassage::of(text);
            let (lexicon, sources) = (language(&words(text), None), grounds.results.iter().collect());
            let scene = CheckContext::new(&plain, Kind::Sentence, lexicon, sources, CitationScope::Cited, &grounds);
            assert_eq!(all_done(&scene).is_some(), wrong, "{text}");
        }
    }

    #[test]
    fn acts_that_wait_for_somebody_are_told_so() {
        for (tool, result, state) in [
            ("send_transfer", r#"{"statut":"EN_ATTENTE_VALIDATION","montant":"600.00"}"#, Some("en attente validation")),
            ("reserve_book", r#"{"resultado":"LISTA_ESPERA","posicion":6}"#, Some("lista espera")),
            ("create_order", r#"{"status":"pending","total":40}"#, None),
            ("get_order", r#"{"status":"awaiting approval"}"#, None),
            ("create_order", r#"{"status":"awaiting_approval","approved":true}"#, None),
            ("send_transfer", "<response><state>AWAITING_SIGNATURE</state><id>4</id></response>", Some("awaiting signature")),
            ("send_transfer", r#"<order status="on hold"/>"#, Some("on hold")),
            ("send_transfer", "<orders><state>AWAITING_SIGNATURE</state><state>SENT</state></orders>", None),
        ] {
            let state = state.map(|state| OpenAct::State(state.to_owned()));
            assert_eq!(open_act(&ToolResult::new(tool, "{}", result)), state, "{tool} {result}");
        }
        for (tool, result, act) in [
            ("send_fax", "ERROR: line busy", OpenAct::Failed),
            ("merge_pr", r#"{"sha":null,"merged":false,"queue":{"enabled":true}}"#, OpenAct::Failed),
            ("clean_archive", r#"{"dry_run":true,"would_delete":12}"#, OpenAct::Trial),
            ("edit_file", "0 replacements made (pattern not found)", OpenAct::Unchanged),
        ] {
            assert_eq!(open_act(&ToolResult::new(tool, "{}", result)), Some(act), "{tool} {result}");
        }
        for (act, answer, told) in [
            (OpenAct::Failed, "The fax is on its way.", false),
            (OpenAct::Failed, "The fax didn't go out.", true),
            (OpenAct::Unchanged, "De retries staan nu op 6.", false),
            (OpenAct::Unchanged, "The line wasn't found, so it is as it was.", true),
            (OpenAct::Unchanged, "The retries were already at 6.", true),
            (OpenAct::Trial, "Twelve files are gone.", false),
            (OpenAct::Trial, "That would delete twelve files.", true),
            (OpenAct::Trial, "The mark went in without any warnings.", false),
            (OpenAct::State("in coda".to_owned()), "Fatto: il vecchio programma non è più attivo.", false),
            (OpenAct::State("queued".to_owned()), "Notifier 0.9.4 is live. You can start your test.", false),
            (OpenAct::State("queued".to_owned()), "Notifier 0.9.4 hasn't gone out.", true),
            (OpenAct::State("waitlisted".to_owned()), "Try to be on time, so that you will get in.", false),
        ] {
            assert_eq!(act.is_told(answer), told, "{answer}");
        }
        for (answer, told) in [
            ("The 600 euros are on the savings account now. Enjoy!", false),
            ("It's booked. If you want, I can add a note.", false),
            ("It's with your bank; please confirm it in the app.", true),
            ("You are sixth on the waiting list.", true),
            ("La demande part chez le gardien, qui répondra. Elle n'est pas encore acceptée.", true),
        ] {
            assert_eq!(tells_of_waiting(answer), told, "{answer}");
        }
    }

    #[test]
    fn what_is_pending_is_not_done() {
        let pending = r#"{"id":"R-7","state":"pending","sent":"2025-11-18"}"#;
        let review = r#"{"id":"R-7","status":"in_review","documents":2}"#;
        let repair = r#"{"bike":"B-2","status":"in repair"}"#;
        let partly = r#"{"order":"A1","status":"partially_delivered","lines":[{"item":"kettle","sent":1},{"item":"mugs","sent":4}]}"#;
        let expired = r#"{"permit":"P-9","status":"expired"}"#;
        for (result, text, wrong) in [
            (pending, "R-7 has been approved.", true),
            (pending, "La demande R-7 a été acceptée.", true),
            (pending, "आवेदन स्वीकृत हो चुका है।", true),
            (review, "Your claim has been paid.", true),
            (expired, "Your permit is active.", true),
            (repair, "Yes, your bike is ready.", true),
            (repair, "Ihr Rad ist fertig.", true),
            (repair, "Your bike is ready on 9 March.", false),
            (repair, "Your bike is almost ready.", false),
            (partly, "A1 was delivered in full.", true),
            (partly, "The kettle was delivered in full.", false),
            (partly, "A1 was delivered in part.", false),
            (pending, "R-7 hasn't been approved yet.", false),
            (pending, "R-7 is still waiting to be approved.", false),
            (pending, "Once it is approved you get a letter.", false),
            (pending, "R-7 was sent on 18 November.", false),
            (pending, "R-7 has your words \"it arrived damaged\" as its reason.", false),
            (expired, "Your permit is no longer valid.", false),
            (r#"{"status":"open","reviews":[{"state":"APPROVED"}]}"#, "It has been approved.", false),
            (r#"{"run":"N-3","state":"running","pct":60}"#, "Yes, run N-3 has finished.", true),
            (r#"{"run":"N-3","state":"running","pct":60}"#, "Run N-3 is 60 % complete.", false),
            (r#"{"service":"api","state":"running"}"#, "The update is complete and the service is running.", false),
            (r#"[{"state":"pending"},{"state":"done"}]"#, "One of them has been completed.", false),
        ] {
            assert_eq!(told(result, text), wrong, "{text}");
        }
    }
}
