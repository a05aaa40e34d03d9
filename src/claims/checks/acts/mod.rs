//! Acts and looks that an answer reports and nothing in the conversation accounts for. Pure.
//!
//! The claim bears the burden of proof: whatever the verb, a sentence in which the answer says that something was done in the
//! world needs an execution that succeeded and can do more than read. What is listed is what needs none: acts of language and
//! thought. The words lie in `lexicon/acts.toml`, one table per language.

mod claimed_act;
pub mod further;
pub mod halves;
pub mod idle;
mod open_part;
mod orders;
mod readings;
mod reference;
mod talk;
pub mod unlooked;

use std::{
    borrow::Cow,
    collections::HashMap,
    ops::{Deref, Range},
    sync::OnceLock,
};

use foldhash::fast::FixedState;
use regex::{RegexSet, RegexSetBuilder};
use serde::Deserialize;

use crate::{
    checks::values::quoted,
    context::ClaimFinding,
    evidence::{
        EvidenceIndex,
        tool_capabilities::{Effect, ToolCapabilities, ToolCapability},
    },
    language::{
        cues::CONJUNCTIONS,
        date,
        fold::{akin, behind_last, fold, folded, name_words, stands_in},
        lexicon::{Word, WordSet},
        pattern::{Pattern, PatternMatch, in_ascii_letters, in_latin_letters},
        polarity::{failure_words, negation},
        word_list::{PhraseList, WordList, data_file},
    },
    passage::Kind,
    plain::AnalyzedPassage,
};
use toolmark_base::violation::{Certainty, Code};

use claimed_act::ClaimedAct;
use readings::{
    EMPTY_WORDS, HERE, HERE_PHRASES, OF_USER, brings_text, edits_files, halts, has_blanks, is_about_any_tool, is_about_tool, is_english,
    is_open_box, is_own_past, is_plain_present, is_quoted, is_text_work, leaves_alone, plays, presents, quotes, sends_message, swaps_words,
    tell_of_tool, tells_of_own,
};
pub(crate) use talk::is_of_talk;

/// Letters that two forms of a verb share at least: `publish`, `published`.
const STEM: usize = 4;
/// Earlier answers that are looked through for acts.
const ANSWERS_MAX: usize = 8;
/// Bytes of the compiled patterns of one language.
const SET_BYTES_MAX: usize = 16 << 20;
/// Words of a request between who did it and what was done.
const OWN_WORDS: usize = 14;
/// Bytes of a question; a longer message brings a text to work on.
const QUESTION_BYTES_MAX: usize = 400;
/// Bytes of earlier messages in which a source is looked for; behind more of them none is held against the answer.
const SAID_BYTES_MAX: usize = 16 << 10;
/// Bytes of a sentence that is looked at.
const SENTENCE_BYTES_MAX: usize = 1200;

/// The ways in which one language reports acts.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Speech {
    code: String,
    script: String,
    common: WordSet,
    verb: String,
    first: Vec<String>,
    passive: Vec<String>,
    brief: Vec<String>,
    state: Vec<String>,
    ordered: Vec<String>,
    ordered_first: Vec<String>,
    thought: Vec<String>,
    strong: String,
    strong_first: String,
    shared: String,
    looks: Vec<String>,
    sources: Vec<String>,
    reports: Vec<String>,
    hedges: WordSet,
    texts: WordSet,
    text_stems: Vec<String>,
    writes: WordSet,
    as_if: WordSet,
    negated: Vec<String>,
    you: WordSet,
    #[serde(skip)]
    compiled: OnceLock<ActPatterns>,
}

#[derive(Debug)]
struct ActPatterns {
    /// Patterns of acts, and all of them at once: most sentences match none.
    acts: Vec<(ActForm, Pattern)>,
    any: Option<RegexSet>,
    /// Patterns that count only where the user ordered the act; `true`: those of the first person.
    ordered: Vec<(bool, Pattern)>,
    sources: Vec<Pattern>,
    reports: Vec<Pattern>,
    strong: Option<Pattern>,
    strong_first: Option<Pattern>,
    shared: Option<Pattern>,
}

#[derive(Debug, Default, Deserialize)]
struct Languages {
    language: Vec<Speech>,
}

impl Speech {
    fn compiled(&self) -> &ActPatterns {
        self.compiled.get_or_init(|| self.compile())
    }

    /// Kept out of the code that judges: once for each language.
    #[cold]
    #[inline(never)]
    fn compile(&self) -> ActPatterns {
        let strong = if self.strong.is_empty() { self.verb.clone() } else { format!("(?:{})", self.strong) };
        // Texts come in lower case, as far as that is ASCII.
        let english = self.code == "en";
        let source = |pattern: &str| match pattern.replace("{V}", &self.verb).replace("{S}", &strong) {
            pattern if english => in_ascii_letters(&pattern),
            pattern if self.is_script() => pattern,
            pattern => in_latin_letters(&pattern),
        };
        let all = |patterns: &[String]| -> Vec<Pattern> { patterns.iter().filter_map(|pattern| Pattern::new(&source(pattern))).collect() };
        let whole =
            |words: &String| Some(words).filter(|words| !words.is_empty()).and_then(|words| Pattern::new(&format!("^(?:{words})$")));
        let forms = [
            (ActForm::First, &self.first),
            (ActForm::Brief, &self.brief),
            (ActForm::Passive, &self.passive),
            (ActForm::State, &self.state),
        ];
        let sources = forms.iter().flat_map(|(form, patterns)| patterns.iter().map(|pattern| (*form, source(pattern))));
        let (acts, sources): (Vec<(ActForm, Pattern)>, Vec<String>) =
            sources.filter_map(|(form, source)| Some(((form, Pattern::new(&source)?), source))).unzip();
        // Without the edges of words, as far as they depend on other letters than ASCII: that finds more, and never waits for them.
        let edgeless = sources.into_iter().map(|source| if english { source } else { source.replace(r"\b", "") });
        let any = RegexSetBuilder::new(edgeless).size_limit(SET_BYTES_MAX).build().ok();
        ActPatterns {
            acts,
            any,
            ordered: [(true, &self.ordered_first), (false, &self.ordered)]
                .into_iter()
                .flat_map(|(first, patterns)| all(patterns).into_iter().map(move |pattern| (first, pattern)))
                .collect(),
            sources: all(&self.sources),
            reports: all(&self.reports),
            strong: whole(&self.strong),
            strong_first: whole(&self.strong_first),
            shared: whole(&self.shared),
        }
    }

    fn is_script(&self) -> bool {
        !self.script.is_empty()
    }

    /// Does a verb begin with one of these? Those that end with `$` are whole words.
    fn begins(list: &[String], verb: &str) -> bool {
        list.iter().any(|stem| stem.strip_suffix('$').map_or_else(|| verb.starts_with(stem.as_str()), |word| verb == word))
    }

    /// Does a word of the clause up to and around the verb hedge it?
    fn hedges(&self, text: &str, words: &[Word], said: &ReportedAct) -> bool {
        let clause = clause(text, said.span.clone());
        if self.is_script() {
            let clause = text.get(clause).unwrap_or_default();
            return self.hedges.iter().any(|hedge| match self.code.as_str() {
                "hi" => clause.split_whitespace().any(|word| word == hedge),
                "zh" => clause.match_indices(hedge.as_str()).any(|(at, _)| !is_within_word(clause, at)),
                _ => clause.contains(hedge.as_str()),
            });
        }
        // `I ran no speed test`, `I changed nothing`: the object denies the act.
        let object = words.iter().find(|word| word.start >= said.span.end && word.end <= clause.end);
        if self.code == "en" && object.is_some_and(|word| matches!(word.lower.as_str(), "no" | "none" | "nothing" | "nobody" | "neither")) {
            return true;
        }
        // What comes behind `and` is another statement: `I refreshed it and nothing has moved`.
        let joined = words.iter().find(|word| word.start >= said.span.end && CONJUNCTIONS.has(&word.lower));
        let end = joined.map_or(clause.end, |word| word.start).min(clause.end).min(said.span.end + 40);
        let near = |word: &&Word| word.start >= clause.start && word.end <= end;
        words.iter().filter(near).any(|word| {
            let lower = word.lower.as_str();
            // `No problem, I've …`: what is said before a comma hedges nothing.
            let known = self.hedges.contains(lower);
            let negated = self.negated.iter().any(|ending| lower.ends_with(ending.as_str())) && word.start < said.span.end;
            // Behind the verb only what makes a condition of it.
            let behind = word.start >= said.span.end;
            let at_once = lower == "once" && text.get(..word.start).is_some_and(|before| before.ends_with("at "));
            // `a minute ago` is since the request.
            let just = lower == "ago" && text.get(..word.start).is_some_and(|before| JUST_BEFORE.iter().any(|time| before.ends_with(time)));
            let of_next = || {
                matches!(lower, "no" | "you" | "can" | "will" | "before" | "above" | "below" | "not" | "after")
                    || matches!(said.form, ActForm::First | ActForm::Ordered) && SUBORDINATE.has(lower)
            };
            // `I let the tower know` hedges nothing.
            let of_verb = || lower == "let" && said.verb.starts_with("let ");
            negated || known && !(at_once || just || behind && of_next() || of_verb())
        })
    }
}

/// Times that lie behind the request, before `ago`.
const JUST_BEFORE: [&str; 5] = ["minute ", "minutes ", "moment ", "moments ", "seconds "];

/// True of a character that is a part of a longer Chinese word: `会议`, `申请`.
fn is_within_word(text: &str, place: usize) -> bool {
    const WORDS: &[&str] = &[
        "会议",
        "会员",
        "会场",
        "会话",
        "会上",
        "聚会",
        "开会",
        "宴会",
        "协会",
        "社会",
        "例会",
        "年会",
        "重要",
        "主要",
        "要求",
        "摘要",
        "纪要",
        "不锈",
        "不动产",
        "请假",
        "申请",
        "邀请",
        "请柬",
        "请帖",
        "将军",
        "先生",
    ];
    WORDS.iter().any(|word| text.match_indices(word).any(|(at, word)| (at..at + word.len()).contains(&place)))
}

/// Words that hedge an act, but not where they stand behind the verb of the first person: they belong to the clause that follows.
static SUBORDINATE: WordList = WordList::new(&[
    "until", "going", "should", "could", "would", "may", "might", "need", "needs", "last", "never", "kann", "wird", "werden", "soll",
    "sollte", "noch", "ob", "bevor", "möchte", "nicht", "ne", "pas", "peux", "puis", "avant", "sera", "no", "puede", "antes", "será",
    "non", "può", "prima", "sarà", "não", "pode", "of", "kan", "kunnen", "zal", "wordt", "worden", "moet", "wil", "nog", "voordat", "niet",
    "nie", "może", "czy", "będzie", "zanim", "inte", "ska", "vill", "innan",
]);

/// The form in which a sentence reports an act.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ActForm {
    /// The first person says to have done it.
    First,
    /// It is said to have been done.
    Passive,
    /// The sentence says no more.
    Brief,
    /// Its outcome is told as the case: `is now 13:00`, `is on its way`.
    State,
    /// The user ordered it, and it is told as done or so, in whatever words.
    Ordered,
}

/// An act as it is said.
#[derive(Debug)]
pub(crate) struct ReportedAct {
    pub form: ActForm,
    pub verb: String,
    pub span: Range<usize>,
    speech: &'static Speech,
}

impl ReportedAct {
    /// A look, or an act of language or thought: it needs no execution that does more than read.
    pub fn is_harmless(&self) -> bool {
        Speech::begins(&self.speech.looks, &self.verb) || Speech::begins(&self.speech.thought, &self.verb)
    }

    /// The first person says to have looked something up.
    pub fn is_own_look(&self) -> bool {
        self.form == ActForm::First && Speech::begins(&self.speech.looks, &self.verb)
    }

    /// A verb that nobody does in words alone.
    pub fn is_strong(&self) -> bool {
        let ActPatterns { strong, strong_first, .. } = self.speech.compiled();
        let own = strong_first.as_ref().filter(|_| self.form == ActForm::First).or(strong.as_ref());
        own.is_none_or(|strong| strong.is_match(&self.verb))
    }
}

/// The acts that a sentence reports, and what of it was read to find them; of one that can report none, nothing.
#[derive(Debug, Default)]
pub(crate) struct ReportedActs {
    acts: Vec<ReportedAct>,
    /// The sentence in lower case, as far as it is ASCII.
    lower: String,
    /// The languages that it may be in.
    speeches: Vec<&'static Speech>,
}

impl Deref for ReportedActs {
    type Target = [ReportedAct];

    fn deref(&self) -> &[ReportedAct] {
        &self.acts
    }
}

/// True of an English verb of language or thought, which needs no tool: `acknowledged`.
fn is_of_thought(verb: &str) -> bool {
    languages().iter().filter(|speech| speech.code == "en").any(|speech| Speech::begins(&speech.thought, verb))
}

/// The languages of `lexicon/acts.toml`.
fn languages() -> &'static [Speech] {
    static ALL: OnceLock<Vec<Speech>> = OnceLock::new();
    ALL.get_or_init(|| data_file::<Languages>(include_str!("../../language/lexicon/acts.toml")).language)
}

/// Letters that one of the languages has alone.
const OWN_LETTERS: &[(&str, &[char])] = &[
    ("de", &['ß']),
    ("fr", &['ê', 'œ', 'û', 'î']),
    ("es", &['ñ', '¿', '¡']),
    ("pt", &['ã', 'õ']),
    ("pl", &['ł', 'ą', 'ę', 'ś', 'ż', 'ź', 'ć', 'ń']),
    ("tr", &['ğ', 'ı', 'ş', 'İ']),
    ("sv", &['å']),
];

/// The languages that a sentence may be in: by its script, else those with most of its frequent words.
fn speeches(text: &str, words: &[Word]) -> Vec<&'static Speech> {
    if let Some(script) = script(text) {
        return languages().iter().filter(|speech| speech.script == script).collect();
    }
    let mut counts = [0_usize; LANGUAGES_MAX];
    for word in words {
        let mut of = common().get(word.lower.as_str()).copied().unwrap_or(0);
        while of != 0 {
            if let Some(count) = counts.get_mut(of.trailing_zeros() as usize) {
                *count += 1;
            }
            of &= of - 1;
        }
    }
    if !text.is_ascii() {
        for (speech, count) in languages().iter().zip(&mut counts) {
            *count += OWN_LETTERS.iter().find(|(code, _)| *code == speech.code).map_or(0, |(_, own)| text.matches(*own).take(2).count());
        }
    }
    let most = counts.iter().copied().max().unwrap_or(0);
    // Where nothing tells, or one word as `a` that many have, each is tried; else those that tie.
    let tries = if most > 1 { LANGUAGES_TIED } else { counts.len() };
    let all = languages().iter().zip(counts).filter(|(speech, count)| !speech.is_script() && *count == most);
    all.map(|(speech, _)| speech).take(tries).collect()
}

/// The code of the language that a text is in, as far as its frequent words tell.
pub(crate) fn language_of(text: &str, words: &[Word]) -> Option<&'static str> {
    match speeches(text, words).as_slice() {
        [one] => Some(one.code.as_str()),
        _ => None,
    }
}

/// The script of a text that has one of its own.
fn script(text: &str) -> Option<&'static str> {
    if text.is_ascii() {
        return None;
    }
    let script = text.chars().find_map(|c| match c {
        '\u{3040}'..='\u{30ff}' => Some("ja"),
        '\u{0900}'..='\u{097f}' => Some("hi"),
        '\u{ac00}'..='\u{d7af}' => Some("ko"),
        _ => None,
    });
    script.or_else(|| text.chars().any(|c| matches!(c, '\u{4e00}'..='\u{9fff}')).then_some("zh"))
}

/// Languages of which a sentence may have as many frequent words.
const LANGUAGES_TIED: usize = 3;
/// Languages that are told apart by their frequent words.
const LANGUAGES_MAX: usize = 32;

/// The frequent words of the languages without a script of their own: one bit for each language that has it.
fn common() -> &'static HashMap<&'static str, u32, FixedState> {
    static COMMON: OnceLock<HashMap<&'static str, u32, FixedState>> = OnceLock::new();
    COMMON.get_or_init(|| {
        let mut common: HashMap<&'static str, u32, FixedState> = HashMap::default();
        for (at, speech) in languages().iter().take(LANGUAGES_MAX).enumerate().filter(|(_, speech)| !speech.is_script()) {
            speech.common.iter().for_each(|word| *common.entry(word).or_default() |= 1 << at);
        }
        common
    })
}

/// Makes the patterns of every language ready. It takes a moment: not for a thread that serves.
pub(crate) fn warm_up() {
    languages().iter().for_each(|speech| {
        let _ready = speech.compiled();
    });
    let _ready = (common(), may_say_done(""));
}

/// Bytes of the longest cue of [`may_say_done`].
pub const CUE_BYTES_MAX: usize = 16;

/// May a sentence that begins so report an act? Cheap, and rather once too often. For its first
/// words, ask [`may_begin_with_act`] too.
pub fn may_say_done(text: &str) -> bool {
    static CUES: PhraseList = PhraseList::in_any_case(&[
        " i ",
        " i've",
        " i’ve",
        " we ",
        " we've",
        " been ",
        "done",
        "all set",
        "s sorted",
        " went ",
        "n your ",
        "n the calendar",
        "n the diary",
        "n the schedule",
        "n the books",
        "looking at ",
        "looking through ",
        "according to",
        " shows ",
        " show ",
        " showing ",
        " says ",
        " reads ",
        " reports ",
        " lists ",
        " confirms ",
        " indicates ",
        "can see ",
        "what the ",
        "had a look",
        "had another",
        "scanning ",
        "reading ",
        "pulling up ",
        "going by ",
        "going through ",
        "judging by ",
        "checking ",
        "digging through ",
        "skimming ",
        "browsing ",
        "searching ",
        "combing ",
        "glancing at ",
        "blick in ",
        "blick auf ",
        " steht",
        " stehen",
        "sehe ich",
        "zu sehen",
        "selon ",
        "d'après ",
        "d’après ",
        "je vois ",
        "veo en ",
        "vedo n",
        "risulta ",
        "occhiata ",
        "olhada ",
        "vejo n",
        "te zien",
        "zie ik",
        "ik zie",
        "staat in ",
        "zajrza",
        "widzę ",
        "widać ",
        "görünüyor",
        "görüyorum",
        "yazıyor",
        "दिख",
        "を見",
        "を確認",
        " was ",
        " were ",
        " is now",
        " are now",
        "'s now",
        "’s now",
        " sent",
        " booked",
        " saved",
        " added",
        " created",
        " deleted",
        " updated",
        " cancelled",
        " submitted",
        " scheduled",
        "successfully",
        "habe ",
        "wurde",
        "erledigt",
        "j'ai",
        "j’ai",
        " été ",
        "c'est ",
        "c’est ",
        " he ",
        " ha sido",
        "hecho",
        " ho ",
        " è stat",
        "fatto",
        "acabei",
        " foi ",
        "ik heb",
        "heb ik",
        " został",
        "łem",
        "łam",
        "dım",
        "dim",
        "dum",
        "tım",
        "tim",
        "edildi",
        "ıldı",
        "ildi",
        "ました",
        "済み",
        "已",
        "了",
        "成功",
        "습니다",
        "jag har",
        " now",
        " way",
        "reminder",
        "alarm",
        "been told",
        "auf dem weg",
        "auf der liste",
        "im kalender",
        "im system",
        "désormais",
        "au courant",
        "prévenu",
        "averti",
        "ya está",
        "ya figura",
        "ya aparece",
        "ya consta",
        " già ",
        "adesso",
        " ora ",
        "ficou",
        "já ",
        "komt eraan",
        "klaar",
        "onderweg",
        "już jedz",
        "w drodze",
        "yola çıktı",
        "haberi var",
        "反映",
        "向かって",
        "在路上",
        "赶来",
        "पक्क",
        "बुक ",
        "as of ",
        "no longer",
        "sorted",
        "lined up",
        "queda",
        "está ",
        "मैंने",
        "दिया",
        "किया",
        "गया",
    ]);
    CUES.stands_in(text)
}

/// True if the first words of a sentence may report an act. Cheap, and rather once too often.
pub fn may_begin_with_act(text: &str) -> bool {
    const FIRST: &[&str] = &[
        "i ",
        "i've",
        "i’ve",
        "we ",
        "we've",
        "he ",
        "ho ",
        "j'ai",
        "j’ai",
        "ik ",
        "ich ",
        "had a ",
        "saved",
        "sent",
        "booked",
        "deleted",
        "cancelled",
        "created",
        "updated",
        "added",
    ];
    let start = text.trim_start_matches(|c: char| !c.is_alphanumeric()).as_bytes();
    // `Deployed to staging.`
    let first = start.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    let past = start.get(..first).is_some_and(|word| word.to_ascii_lowercase().ends_with(b"ed"));
    past || FIRST.iter().any(|first| start.get(..first.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(first.as_bytes())))
}

/// The clause around a place: between marks that end one.
pub(crate) fn clause(text: &str, span: Range<usize>) -> Range<usize> {
    let mark = |c: char| matches!(c, ',' | ';' | ':' | '–' | '—' | '!' | '?' | '\n' | '，' | '；' | '。' | '、' | '।' | '(' | '）');
    let start = text.get(..span.start).map_or(0, |before| behind_last(before, mark));
    let end = text.get(span.end..).and_then(|after| after.find(mark)).map_or(text.len(), |at| span.end + at);
    start..end
}

/// The acts that a sentence reports as done, in the languages that it may be in.
pub(crate) fn told(passage: &AnalyzedPassage, kind: Kind) -> ReportedActs {
    let AnalyzedPassage { text, words, .. } = passage;
    let idle = kind == Kind::Heading || text.len() > SENTENCE_BYTES_MAX;
    if idle || passage.asks() || quotes(text) || is_open_box(text) || has_blanks(text) {
        return ReportedActs::default();
    }
    let (lower, speeches) = (text.to_ascii_lowercase(), speeches(text, words));
    let mut acts: Vec<ReportedAct> = speeches.iter().flat_map(|speech| spoken(text, &lower, words, speech)).collect();
    // A row of a table tells how things are. Turkish verbs are known by their endings alone, as Latin names have them: `strictum`.
    if kind == Kind::Line && text.trim_start().starts_with('|') {
        acts.retain(|said| said.form == ActForm::First && said.speech.code != "tr");
    }
    ReportedActs { acts, lower, speeches }
}

fn spoken(text: &str, lower: &str, words: &[Word], speech: &'static Speech) -> Vec<ReportedAct> {
    let compiled = speech.compiled();
    let matched = compiled.any.as_ref().map(|any| any.matches(lower));
    if matched.as_ref().is_some_and(|matched| !matched.matched_any()) {
        return Vec::new();
    }
    let may = |at: usize| matched.as_ref().is_none_or(|matched| matched.matched(at));
    let acts = compiled.acts.iter().enumerate().filter(|(at, _)| may(*at));
    let said = acts.flat_map(|(_, (form, pattern))| said(pattern, *form, speech, lower));
    // `the caretaker disarmed it and armed it again`: behind `and` it is the first person's where that one spoke before.
    let own = |said: &ReportedAct| {
        let speaks = |word: &Word| {
            matches!(word.lower.as_str(), "i" | "we" | "i've" | "i’ve" | "we've" | "we’ve")
                || word.end <= said.span.start && is_finished(&word.lower)
        };
        let before = words.iter().filter(|word| word.end <= said.span.end);
        said.form != ActForm::First || speech.code != "en" || before.clone().count() < 5 || before.clone().any(speaks)
    };
    // `Check that against anything we've published`: of what the user's side did.
    let relative = |said: &ReportedAct| {
        const ANY: [&str; 7] = ["anything", "everything", "something", "whatever", "what", "that", "which"];
        let we = lower.get(said.span.start..).is_some_and(|rest| rest.starts_with("we"));
        let before = words.iter().take_while(|word| word.end <= said.span.start).last();
        we && said.form == ActForm::First && speech.code == "en" && before.is_some_and(|word| ANY.contains(&word.lower.as_str()))
    };
    // `I can read the sensors and set the vents`: an ability of the answer's.
    let able = |said: &ReportedAct| {
        const MODALS: [&str; 10] = ["can", "could", "will", "would", "may", "might", "shall", "should", "must", "i'll"];
        let joined = !lower.get(said.span.start..).is_some_and(|rest| rest.starts_with(['i', 'w']));
        let before: Vec<&str> = words.iter().take_while(|word| word.end <= said.span.start).map(|word| word.lower.as_str()).collect();
        let subject = before.iter().rposition(|word| matches!(*word, "i" | "we" | "i've" | "we've" | "i’ve" | "we’ve" | "i'll" | "i’ll"));
        let modal = subject.is_some_and(|at| before.iter().skip(at).take(2).any(|word| MODALS.contains(word)));
        said.form == ActForm::First && speech.code == "en" && joined && modal
    };
    let plainly = |said: &ReportedAct| {
        !(is_quoted(text, said.span.start)
            || speech.hedges(text, words, said)
            || is_conditional(words, said)
            || is_indirect(text, words, said))
    };
    // `**Already packed:** …` is a case that the line is about, `value: 5` a value.
    let label = |said: &ReportedAct| {
        let behind = text.get(said.span.end..).unwrap_or_default().trim_start_matches(['*', '_', ' ']);
        let strong = !speech.strong.is_empty() && said.is_strong();
        let named = said.form == ActForm::Brief && behind.starts_with(':') && !is_finished(&said.verb) && !strong;
        named
            || text.trim_start_matches([' ', '-', '•', '+']).starts_with("**")
                && behind.starts_with(':')
                && lower.get(..said.span.end).is_some_and(|before| before.contains("already "))
    };
    said.take(16).filter(own).filter(|said| !able(said) && !relative(said)).filter(plainly).filter(|said| !label(said)).collect()
}

/// What the answer has said before a sentence.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Before {
    /// It has cited, and this sentence doesn't.
    pub apart: bool,
    /// It has told of a failure.
    pub failure: bool,
    /// Number of passages before it.
    pub passages: usize,
    /// It has shown a text, a list, a table or code.
    pub shows: bool,
}

/// The finding of a sentence that reports something as done or looked up that nothing that ran accounts for.
pub(crate) fn acts(
    passage: &AnalyzedPassage,
    kind: Kind,
    told: &ReportedActs,
    abilities: &ToolCapabilities,
    grounds: Option<&EvidenceIndex>,
    before: Before,
) -> Option<ClaimFinding> {
    let AnalyzedPassage { text, words, .. } = passage;
    if abilities.unseen || abilities.tools.is_empty() {
        return None;
    }
    let case = ActSentence { text, words, kind, abilities, grounds, before };
    let found = told.iter().find_map(|said| judge(&case, said));
    let sources = || told.speeches.iter().find_map(|speech| sources(&case, &told.lower, speech.compiled()));
    found.or_else(sources).or_else(|| orders::told_as_done(&case, told)).or_else(|| reference::reference(&case))
}

/// A sentence and what it is judged by.
struct ActSentence<'c> {
    text: &'c str,
    words: &'c [Word],
    kind: Kind,
    abilities: &'c ToolCapabilities,
    grounds: Option<&'c EvidenceIndex>,
    before: Before,
}

impl ActSentence<'_> {
    /// An earlier answer said so already.
    fn is_repeated(&self, verb: &str) -> bool {
        let verb = fold(verb);
        self.grounds.is_some_and(|grounds| grounds.answers_folded().iter().any(|answer| stands_in(answer, &verb)))
    }

    /// An earlier answer has a longer word of the request.
    fn is_topic_of(&self, grounds: &EvidenceIndex) -> bool {
        let known = |word: &String| word.chars().count() > STEM && grounds.answers_folded().iter().any(|answer| stands_in(answer, word));
        self.abilities.asked.name_words().iter().any(known)
    }

    /// A result has the stem of every word of this.
    fn is_reported(&self, said: &str) -> bool {
        let folded = fold(said);
        let stem = |word: &str| word.chars().take(STEM + 1).collect::<String>();
        let mut stems = folded.split(' ').filter(|word| word.chars().count() > 2 && *word != "now").map(stem).peekable();
        stems.peek().is_some()
            && self.grounds.is_some_and(|grounds| {
                let ran = |stem: &str| grounds.results.iter().any(|source| source.reads() && source.tool_folded().contains(stem));
                stems.all(|stem| {
                    grounds.results.iter().any(|source| source.folded().contains(&stem)) || ran(stem.get(..STEM).unwrap_or(&stem))
                })
            })
    }

    /// The answer tells of the failure, and what failed has the stem of the verb: `the marks were released in March`, as its reason says.
    fn is_reason(&self, verb: &str) -> bool {
        let stem: String = fold(verb).chars().take(STEM + 1).collect();
        let told = || self.before.failure || failure_words::text_tells_failure(self.text);
        let has = |grounds: &EvidenceIndex| grounds.results.iter().any(|source| source.fails() && source.folded().contains(&stem));
        stem.chars().count() > STEM && self.grounds.is_some_and(has) && told()
    }

    /// The user told of it as done: `it was cancelled`.
    fn is_users(&self, verb: &str, speech: &Speech) -> bool {
        const FINITE: &[&str] = &[
            "was", "were", "been", "is", "are", "has", "have", "had", "i've", "i’ve", "got", "already", "wurde", "ist", "habe", "été",
            "est", "ai", "fue", "ha", "he", "está", "foi", "è", "stato", "ho", "werd", "heb", "został",
        ];
        let asked = self.abilities.asked.words();
        // `I've turned off the valve and called the plumber`
        const OWN: &[&str] = &["i've", "i’ve", "we've", "we’ve", "habe", "hab", "haben", "j'ai", "j’ai", "ho", "heb", "hebben"];
        // `I want the report sent` is none of it.
        const WISHES: &[&str] = &[
            "want", "wants", "need", "needs", "like", "please", "would", "could", "möchte", "brauche", "bitte", "voudrais", "veux",
            "quiero", "necesito", "vorrei", "voglio", "wil", "graag",
        ];
        let said = |at: usize| {
            let before = |words: usize| asked.get(at.saturating_sub(words)..at).unwrap_or_default();
            let has = |words: usize, list: &[&str]| before(words).iter().any(|word| list.contains(&word.lower.as_str()));
            has(3, FINITE) || has(OWN_WORDS, OWN) && !has(OWN_WORDS, WISHES)
        };
        // `ya pagué la luz`
        let wishes = asked.iter().any(|word| WISHES.contains(&word.lower.as_str()));
        let own = |word: &Word| !wishes && is_own_past(&word.lower, speech) && is_form_of(verb, &word.folded());
        asked.iter().enumerate().any(|(at, word)| word.lower == verb && said(at) || own(word))
    }
}

/// Words by which a whole sentence tells of what would be.
static CONDITIONS: WordList = WordList::new(&[
    "if",
    "would",
    "when",
    "once",
    "unless",
    "whenever",
    "wenn",
    "falls",
    "würde",
    "sobald",
    "si",
    "quand",
    "lorsque",
    "cuando",
    "sería",
    "se",
    "quando",
    "als",
    "zodra",
    "zou",
    "jeśli",
    "gdy",
    "eğer",
    "could",
    "i'd",
    "i’d",
    "you'd",
    "as soon as",
    "könnte",
    "suppose",
]);

/// Does the sentence tell of what would be, rather than of what is?
fn is_conditional(words: &[Word], said: &ReportedAct) -> bool {
    // `en cuanto la tenga`
    const PAIRS: &[(&str, &str)] = &[
        ("en", "cuanto"),
        ("assim", "que"),
        ("dès", "que"),
        ("zodra", "als"),
        ("non", "appena"),
        ("une", "fois"),
        ("una", "vez"),
        ("una", "volta"),
        ("uma", "vez"),
    ];
    let before = |word: &Word| word.start < said.span.start;
    // `se han cancelado`, `si è aggiunto`: reflexive there.
    let code = said.speech.code.as_str();
    let reflexive = |word: &Word| matches!((word.lower.as_str(), code), ("se", "es" | "fr") | ("si", "it"));
    words.iter().any(|word| before(word) && CONDITIONS.has(&word.lower) && !reflexive(word))
        || words
            .windows(2)
            .any(|two| matches!(two, [one, other] if before(other) && PAIRS.contains(&(one.lower.as_str(), other.lower.as_str()))))
}

/// `find out which rooms the party is blocked into`: a question within the sentence, or what it is asked about.
fn is_indirect(text: &str, words: &[Word], said: &ReportedAct) -> bool {
    static ASKS: WordList = WordList::new(&[
        "which", "what", "whether", "where", "why", "how", "who", "until", "ob", "welche", "welcher", "welches", "was", "wer", "wie",
        "quel", "quelle", "quels", "quelles", "comment", "où", "qué", "cuál", "cuáles", "quale", "quali", "qual", "quais", "welk", "welke",
        "wat", "hoe", "czy", "który",
    ]);
    // `The badge was revoked`: no question of German's there. Elsewhere a past passive of English mostly tells what somebody else did.
    let foreign = |word: &Word| word.lower == "was" && said.form == ActForm::Ordered && said.speech.code != "de";
    let clause = clause(text, said.span.clone());
    let before = |word: &&Word| word.start >= clause.start && word.end <= said.span.start;
    // `ti mostro chi ho trovato`
    let just = words.iter().rev().find(|word| word.end <= said.span.start);
    said.form != ActForm::First && words.iter().filter(before).any(|word| ASKS.has(&word.lower) && !foreign(word))
        || just.is_some_and(|word| {
            !foreign(word) && matches!(word.lower.as_str(), "chi" | "cosa" | "quién" | "quem" | "what" | "whatever" | "was")
        })
}

fn said(pattern: &Pattern, form: ActForm, speech: &'static Speech, text: &str) -> Vec<ReportedAct> {
    let of = |found: PatternMatch<'_>| {
        let verb = found.group("verb")?;
        let start = if form == ActForm::First { found.whole().start } else { verb.start };
        Some(ReportedAct { form, verb: verb.text.to_lowercase(), span: start..verb.end(), speech })
    };
    pattern.find_all(text).take(4).filter_map(of).collect()
}

fn judge(case: &ActSentence<'_>, said: &ReportedAct) -> Option<ClaimFinding> {
    let looks = Speech::begins(&said.speech.looks, &said.verb);
    if looks && said.form == ActForm::First && !is_ordered_deed(case, said) {
        return looked(case, said);
    }
    // `is charged as three`: how it is, told to who asks only that.
    let stands = said.form == ActForm::Passive
        && said.speech.code == "en"
        && is_plain_present(case.words, said)
        && case.abilities.looked()
        && !case.abilities.asked.asks_for_act();
    if stands || claimed_act::is_no_act(case, said) || is_of_document(case.words, said) || case.abilities.has_acted() {
        return None;
    }
    ClaimedAct::new(case, said).judge()
}

/// `The record notes that we bought it in 1898`: a document tells of it.
fn is_of_document(words: &[Word], said: &ReportedAct) -> bool {
    static REPORTS: WordList = WordList::new(&["notes", "says", "states", "shows", "mentions", "records", "reads", "tells", "adds"]);
    let before = words.iter().take_while(|word| word.end <= said.span.end);
    let before: Vec<&str> = before.map(|word| word.lower.as_str()).collect();
    said.speech.code == "en" && before.windows(2).any(|two| REPORTS.has(two[0]) && two[1] == "that")
}

/// Phrases of what is done in thought alone.
static IN_MIND: PhraseList = PhraseList::in_any_case(&[
    "in my head",
    "im kopf",
    "de tête",
    "mentalmente",
    "de cabeza",
    "a mente",
    "de cabeça",
    "uit het hoofd",
    "w głowie",
    "w pamięci",
    "kafamda",
    "kafadan",
    "頭の中",
    "暗算",
    "脑子里",
    "心算",
    "मन में",
]);

/// Phrases of who takes back what it said: `I claimed something I never did`.
static NEVER: PhraseList = PhraseList::in_any_case(&[
    "i never",
    "never did",
    "nie getan",
    "nie gemacht",
    "jamais fait",
    "nunca hice",
    "nunca fiz",
    "mai fatto",
    "nooit gedaan",
    "nigdy nie",
]);

/// Words behind a verb among which its object is looked for.
const OBJECT_WORDS: usize = 5;

/// True of what is done to a thing that a tool that acts deals with: `a weekly reminder`, where one makes reminders.
fn names_tools_thing(words: &[Word], said: &ReportedAct, abilities: &ToolCapabilities) -> bool {
    tell_of_tool(words.iter().filter(|word| word.start >= said.span.end).take(OBJECT_WORDS), abilities)
}

/// True of a sentence with a word of the request that names a thing: the camera that is to be switched off.
fn is_about_order(words: &[Word], abilities: &ToolCapabilities) -> bool {
    let tells = |word: &str| word.chars().count() >= STEM && !EMPTY_WORDS.has(word);
    let own: Vec<String> = words.iter().map(|word| fold(&word.lower)).filter(|word| tells(word)).collect();
    abilities.asked.name_words().iter().filter(|word| tells(word)).any(|word| own.iter().any(|own| akin(own, word)))
}

/// True of a sentence that tells what somebody else did, or what was done on a day of the results, in a script whose languages leave the
/// subject out. So is told of what was looked up for somebody who only asks to know.
fn is_told_of_others(case: &ActSentence<'_>, said: &ReportedAct) -> bool {
    // The assistant did it itself, or for the user.
    static SELF: PhraseList = PhraseList::new(&[
        "我",
        "为您",
        "帮您",
        "给您",
        "替您",
        "为你",
        "帮你",
        "给你",
        "替你",
        "私",
        "当方",
        "弊社",
        "こちらで",
        "おきました",
        "差し上げ",
        "いたしました",
        "させていただ",
        "제가",
        "저희",
        "드렸습니다",
        "놓았습니다",
        "두었습니다",
        "मैंने",
        "हमने",
        "मैं ",
    ]);
    static OTHERS: PhraseList = PhraseList::new(&[
        "由",
        "商店",
        "商家",
        "卖家",
        "店家",
        "对方",
        "公司",
        "他",
        "她",
        "于周",
        "于星期",
        "さんが",
        "様が",
        "氏が",
        "店が",
        "社が",
        "側が",
        "月曜",
        "火曜",
        "水曜",
        "木曜",
        "金曜",
        "土曜",
        "日曜",
        "회사가",
        "회사는",
        "판매자가",
        "님이",
        "요일에",
        "कंपनी ने",
        "दुकान ने",
    ]);
    let Some(grounds) = case.grounds else { return false };
    // Chinese clauses stand by themselves; in the others the verb at the end closes all before it.
    let own = if said.speech.code == "zh" { case.text.get(clause(case.text, said.span.clone())).unwrap_or_default() } else { case.text };
    let dates = date::dates(own).dates;
    let stand = dates.iter().all(|date| grounds.has_date(date));
    // A figure or a name of the results, so that it is told of them.
    let latin = own.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| word.len() >= ANCHOR_BYTES_MIN);
    let anchored = || latin.map(str::to_ascii_lowercase).any(|word| grounds.results.iter().any(|source| source.folded().contains(&word)));
    !SELF.stands_in(own) && stand && (!dates.is_empty() || OTHERS.stands_in(own) && anchored())
}

/// Bytes of a name or a figure that stands in a result.
const ANCHOR_BYTES_MIN: usize = 2;

/// True of a sentence behind or before what the answer shows: a text, a list, a table, code. What was done to that was done by writing it.
fn is_of_what_is_shown(case: &ActSentence<'_>) -> bool {
    case.before.shows || case.text.trim_end().ends_with([':', '：'])
}

/// True of words with a year among them: `it was discontinued in 2023`.
fn tells_of_year(words: &[Word]) -> bool {
    words.iter().any(|word| {
        let digits = word.lower.get(..4).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
        digits.is_some_and(|digits| digits.starts_with("19") || digits.starts_with("20"))
            && !word.lower.get(4..).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    })
}

/// True if several say to have done it: as in a letter.
fn says_we(words: &[Word], said: &ReportedAct) -> bool {
    static WE: WordList = WordList::new(&["we", "we've", "we’ve", "wir", "nous", "hemos", "abbiamo", "temos", "wij"]);
    words.iter().take_while(|word| word.start < said.span.end).any(|word| WE.has(&word.lower))
}

/// The reason of a finding: `would`, the tool that would have done it, didn't run, or none did.
fn not_run(would: Option<&ToolCapability>, abilities: &ToolCapabilities) -> String {
    match would {
        Some(tool) => format!("`{}` didn't run since the request", tool.tool),
        None if abilities.looked() => "no tool that does more than read ran since the request".to_owned(),
        None => "no tool ran since the request".to_owned(),
    }
}

/// Does a word of the sentence deny something?
fn denies(words: &[Word]) -> bool {
    words.iter().any(|word| negation::is_nothing(&word.lower) || word.lower.ends_with("n't") || word.lower.ends_with("n’t"))
}

/// Does the tool's name say that it runs something?
fn is_run(words: &[String]) -> bool {
    words.first().is_some_and(|first| matches!(first.as_str(), "run" | "execute" | "perform" | "start"))
}

/// Words by which something is told as so before the request.
static ALREADY: WordList =
    WordList::new(&["already", "bereits", "schon", "déjà", "già", "reeds", "al", "już", "zaten", "redan", "still", "previously", "before"]);

/// Words by which something was done before the request.
static EARLIER: WordList = WordList::new(&[
    "already",
    "earlier",
    "previously",
    "bereits",
    "schon",
    "vorhin",
    "déjà",
    "già",
    "reeds",
    "daarnet",
    "eerder",
    "już",
    "wcześniej",
    "zaten",
    "redan",
]);

/// Verbs whose participles tell how a thing is.
static AS_IT_IS: WordList =
    WordList::new(&["closed", "locked", "blocked", "enabled", "disabled", "published", "registered", "installed", "posted"]);

/// Verbs of a look that are a deed too where they were asked for: `open the vents`, `run the import`.
const DEEDS_TOO: &[&str] = &["open", "ran", "run", "pull", "test", "track", "watch"];

/// Is the look that it tells the deed that was asked for, and no tool of that name ran?
fn is_ordered_deed(case: &ActSentence<'_>, said: &ReportedAct) -> bool {
    let abilities = case.abilities;
    let own = |tool: &String| has_form(&said.verb, &abilities.words_of(tool));
    DEEDS_TOO.iter().any(|verb| said.verb.starts_with(verb))
        && has_form(&said.verb, abilities.asked.name_words())
        && abilities.asked.asks_for_act()
        && !abilities.recent.keys().any(own)
        && abilities.tools.iter().any(|ability| ability.effect() == Effect::Acts)
}

/// Verbs of making and changing something.
const CHANGES: [&str; 19] = [
    "created",
    "generated",
    "produced",
    "updated",
    "revised",
    "edited",
    "fixed",
    "changed",
    "replaced",
    "adjusted",
    "removed",
    "dropped",
    "added",
    "filled",
    "moved",
    "switched",
    "marked",
    "put",
    "built",
];

/// Verbs of making and changing that are said of an answer's own words too, but hardly where a thing was read that was to be changed.
fn is_made_or_changed(said: &ReportedAct) -> bool {
    CHANGES.contains(&said.verb.as_str())
        || [
            "reverted",
            "raised",
            "lowered",
            "simplified",
            "refactored",
            "done",
            "performed",
            "carried out",
            "executed",
            "initiated",
            "triggered",
            "kicked off",
            "renamed",
            "rewired",
            "patched",
            "corrected",
            "reduced",
            "increased",
            "extended",
            "shortened",
            "paused",
            "resumed",
            "dimmed",
        ]
        .contains(&said.verb.as_str())
}

/// Verbs that are said of how an answer was come by: `I went by the list price`.
fn is_vague(words: &[Word], said: &ReportedAct) -> bool {
    let next = words.iter().find(|word| word.start >= said.span.end).map(|word| word.lower.as_str());
    // `I left a comment on #4101`
    if said.verb == "left" && matches!(next, Some("a" | "an" | "your")) {
        return false;
    }
    CHANGES.contains(&said.verb.as_str())
        || [
            "kept",
            "worked",
            "went",
            "took",
            "taken",
            "held",
            "stuck",
            "got",
            "treated",
            "started",
            "ended",
            "stayed",
            "left",
            "gone",
            "ran",
            "run",
            "gave",
            "given",
            "cut",
            "brought",
            "made",
            "tallied",
            "weighed",
            "split",
            "added up",
            "aimed",
            "tied",
            "matched",
            "ranked",
            "ordered",
            "checked",
            "stated",
            "named",
            "called",
            "expanded",
            "explored",
            "detailed",
            "covered",
            "reached",
            "arrived",
            "turned",
            "based",
            "crafted",
            "prepared",
            "organised",
            "organized",
            "improved",
            "refined",
        ]
        .contains(&said.verb.as_str())
}

/// Does an earlier answer report something as done?
fn tells_of_acts(grounds: &EvidenceIndex) -> bool {
    let acts = |answer: &std::sync::Arc<str>| {
        let text = answer.get(..answer.floor_char_boundary(SENTENCE_BYTES_MAX)).unwrap_or(answer);
        told(&AnalyzedPassage::of(text), Kind::Sentence).iter().any(|said| !said.is_harmless())
    };
    grounds.answers.iter().rev().take(ANSWERS_MAX).any(acts)
}

/// True if an earlier answer reports an act or a look, or has a figure: it may rest on results that the application doesn't send again.
fn may_rest_on_results(grounds: &EvidenceIndex) -> bool {
    let rests = |answer: &std::sync::Arc<str>| {
        let text = answer.get(..answer.floor_char_boundary(SENTENCE_BYTES_MAX)).unwrap_or(answer);
        text.len() < answer.len()
            || text.bytes().any(|byte| byte.is_ascii_digit())
            || !told(&AnalyzedPassage::of(text), Kind::Sentence).is_empty()
    };
    grounds.answers.len() > ANSWERS_MAX || grounds.answers.iter().any(rests)
}

/// `The version is 3.0, published in March`: a sentence with a verb of its own says more.
fn has_finite(words: &[Word], said: &ReportedAct) -> bool {
    const FINITE: &[&str] = &[
        "is",
        "are",
        "was",
        "were",
        "has",
        "have",
        "had",
        "be",
        "been",
        "it's",
        "it’s",
        "that's",
        "i",
        "we",
        "they",
        "he",
        "she",
        "which",
        "who",
        "that",
        "can",
        "will",
        "last",
        "first",
        "es",
        "está",
        "fue",
        "ha",
        "ist",
        "sind",
        "war",
        "waren",
        "wurde",
        "wurden",
        "wird",
        "hat",
        "haben",
        "bedeutet",
        "heißt",
        "ich",
        "wir",
        "oder",
        "est",
        "sont",
        "était",
        "ont",
        "je",
        "c'est",
        "c’est",
        "signifie",
        "ou",
        "son",
        "era",
        "eran",
        "han",
        "significa",
        "è",
        "sono",
        "hanno",
        "é",
        "são",
        "foi",
        "foram",
        "tem",
        "zijn",
        "werd",
        "werden",
        "heeft",
        "betekent",
        "jest",
        "są",
        "był",
        "była",
        "było",
        "oznacza",
        "lub",
    ];
    words.iter().any(|word| word.end <= said.span.start && FINITE.contains(&word.lower.as_str()))
}

/// Did the user ask for a text, in which the act may be told?
fn is_written(case: &ActSentence<'_>, speech: &Speech) -> bool {
    case.abilities.asked.name_words().iter().any(|word| speech.writes.contains(word) && !case.abilities.names(word))
        || is_text_work(case, speech)
}

/// What files consist of, too.
static OF_FILES: WordList = WordList::new(&[
    "line", "lines", "function", "query", "regex", "script", "section", "version", "row", "rows", "column", "columns", "zeile", "ligne",
    "línea", "riga", "linha", "regel",
]);

/// Is it done to words: to the user's text, to a value as the answer takes it?
fn is_of_language(case: &ActSentence<'_>, said: &ReportedAct) -> bool {
    let (speech, abilities) = (said.speech, case.abilities);
    let clause = clause(case.text, said.span.clone());
    // `I've passed your case on with a note`: the note isn't what was passed on.
    let beside = |word: &&Word| word.lower == "with" && word.start >= said.span.end;
    let end = case.words.iter().find(beside).map_or(clause.end, |word| word.start.min(clause.end));
    let mut near = case.words.iter().filter(|word| word.start >= clause.start && word.end <= end);
    let brought = || brings_text(abilities);
    let asked = || abilities.asked.name_words().iter().any(|word| speech.writes.contains(word));
    // `I've changed the first line` of a file that a tool could have changed.
    let files =
        || abilities.asked.asks_for_act() && abilities.tools.iter().any(|ability| ability.effect() == Effect::Acts && edits_files(ability));
    let text = |word: &Word| speech.texts.contains(&word.lower) && !abilities.names(&word.lower) && !(OF_FILES.has(&word.lower) && files());
    let as_if = !said.is_strong();
    let here = || !is_about_tool(abilities) && (case.words.iter().any(|word| HERE.has(&word.lower)) || HERE_PHRASES.stands_in(case.text));
    // `I pulled July as well`
    let well = |word: &Word| case.text.get(word.end..).is_some_and(|rest| rest.trim_start().to_ascii_lowercase().starts_with("well"));
    let takes = |word: &Word| as_if && word.start >= said.span.end && speech.as_if.contains(&word.lower) && !well(word);
    let asked = || (asked() || is_text_work(case, speech) && !is_about_tool(abilities)) && !is_message(case, said);
    near.any(|word| text(word) || takes(word)) || brought() || here() || asked()
}

/// Does it tell that somebody else was written to, as the user asked, and is it no draft of what would be sent?
fn is_message(case: &ActSentence<'_>, said: &ReportedAct) -> bool {
    const TOLD: [&str; 11] =
        ["inform", "benachricht", "verständig", "préven", "avert", "notif", "avis", "avvis", "avvert", "ingelicht", "powiadom"];
    let told = || TOLD.iter().any(|verb| said.verb.starts_with(verb));
    let tells = said.is_strong() || said.is_harmless() || said.form == ActForm::State || told();
    tells && sends_message(case.abilities) && !orders::is_draft(case.text)
}

/// Verbs of a look that may be done to what the user brought, or are said of an idea.
const VAGUE_LOOKS: &[&str] = &["found", "read", "ran", "run", "test", "measur", "open", "watch", "track", "pull", "review", "locat"];
/// Things that hold what can be looked up.
static STORES: WordList = WordList::new(&[
    "database",
    "calendar",
    "system",
    "systems",
    "web",
    "internet",
    "online",
    "records",
    "record",
    "files",
    "account",
    "inbox",
    "catalogue",
    "catalog",
    "schedule",
    "log",
    "logs",
    "site",
    "website",
    "inventory",
    "register",
    "entries",
    "history",
    "file",
    "backend",
    "server",
    "dashboard",
    "tracker",
    "now",
    "datenbank",
    "kalender",
    "system",
    "akte",
    "base",
    "calendrier",
    "agenda",
    "sistema",
    "banco",
    "registro",
]);

/// "I checked the database" where nothing was ever looked up.
fn looked(case: &ActSentence<'_>, said: &ReportedAct) -> Option<ClaimFinding> {
    let ActSentence { text, words, abilities, .. } = *case;
    if plays(&abilities.asked) {
        return None;
    }
    static USERS_TEXTS: WordList = WordList::new(&[
        "message",
        "question",
        "text",
        "code",
        "request",
        "draft",
        "essay",
        "letter",
        "paragraph",
        "figures",
        "numbers",
        "sentence",
        "example",
        "nachricht",
        "frage",
        "anfrage",
        "entwurf",
        "texte",
        "brouillon",
        "pregunta",
        "mensaje",
        "texto",
        "borrador",
        "domanda",
        "testo",
        "pergunta",
        "what",
        "your",
        "you",
        "deine",
        "deinen",
        "ihre",
        "ihren",
        "votre",
        "ton",
        "tu",
        "su",
        "compartiste",
        "pegaste",
    ]);
    let behind = words.iter().filter(|word| word.start >= said.span.end);
    let object = || behind.clone().take(4).map(|word| word.lower.as_str());
    let clause = clause(text, said.span.clone());
    let near = || words.iter().filter(|word| word.start >= said.span.end && word.end <= clause.end);
    // `I opened config.py`; `I tracked it`, of what a tool is for.
    let file = || text.get(said.span.end..clause.end).is_some_and(|object| object.split_whitespace().take(OBJECT_WORDS).any(is_file));
    let it = || {
        let pronoun = object().next().is_some_and(|word| matches!(word, "it" | "them" | "that"));
        pronoun && ["track", "pull", "open", "locat"].iter().any(|verb| said.verb.starts_with(verb)) && is_about_any_tool(case)
    };
    let store = || near().any(|word| STORES.has(&word.lower) || abilities.names(&word.lower)) || file() || it();
    let of_user = || object().any(|word| USERS_TEXTS.has(word)) && !object().any(|word| abilities.names(word));
    let brought = brings_text(abilities);
    let vague = || !said.speech.is_script() && VAGUE_LOOKS.iter().any(|verb| said.verb.starts_with(verb)) && !store();
    let empty = said.speech.is_script() && object().next().is_none() && said.verb.is_empty();
    if abilities.any_ran() && !brought && !of_user() {
        return looked_elsewhere(case, said).or_else(|| ran_nothing(case, said));
    }
    // `I ran the suite`, of a pattern that the user gave: that takes more than reading it.
    let brought = brought
        && !(["ran", "run", "execut", "test"].iter().any(|verb| said.verb.starts_with(verb))
            && near().any(|word| abilities.names(&word.lower)));
    if abilities.any_ran() || brought || of_user() || vague() || empty || case.is_repeated(&said.verb) {
        return None;
    }
    // Nothing ran in the whole conversation, and no earlier answer tells what a look could have shown: none can have been made. Some
    // applications send earlier answers without the calls that they rest on.
    let first = case.grounds.is_none_or(|grounds| !may_rest_on_results(grounds));
    // `I went through it line by line`, of sums that the user gave.
    let about = || is_about_any_tool(case) || !is_english(&abilities.asked) || looks_by_tool(case, said);
    // `Prüf den Satz: …`: it may be the user's own text that was looked at.
    let asks = || abilities.asked.trim_end().ends_with(['?', '？']);
    let inline = || talk::brings_inline(&abilities.asked) && !asks() || !quoted(&abilities.asked).is_empty();
    let certainty =
        if (first || (store() || is_fresh(words, text)) && about()) && !inline() { Certainty::Certain } else { Certainty::Likely };
    let expected = "no tool ran".to_owned();
    Some(ClaimFinding {
        rule: "looked",
        code: Code::UnsupportedAction,
        span: said.span.clone(),
        found: sentence(text),
        expected,
        certainty,
    })
}

/// Letters of the ending of a file's name.
const FILE_ENDING: std::ops::RangeInclusive<usize> = 1..=5;

/// Is it the name of a file, or a path: `config.py`, `/etc/hosts`?
fn is_file(word: &str) -> bool {
    let word = word.trim_matches(|c: char| !(c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '~'))).trim_end_matches('.');
    let ends = |(name, ending): (&str, &str)| {
        FILE_ENDING.contains(&ending.len())
            && ending.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
            && ending.starts_with(|c: char| c.is_ascii_lowercase())
            && name.len() > 1
            && name.chars().any(char::is_alphabetic)
            && !name.contains('.')
    };
    word.rsplit_once('.').is_some_and(ends) || word.starts_with(['/', '~']) && word.len() > 2 || word.starts_with("./")
}

/// `I had a look at L-4402`, of an id that the user named; `I looked through several sites`, where a tool reads the web: only a tool shows
/// what is there.
fn looks_by_tool(case: &ActSentence<'_>, said: &ReportedAct) -> bool {
    static PLACES: WordList = WordList::new(&["site", "sites", "website", "websites", "page", "pages", "web", "online", "internet"]);
    static WEB_TOOLS: WordList = WordList::new(&["web", "page", "url", "browse", "internet", "site"]);
    let is_id = |word: &str| {
        word.len() >= 4 && word.bytes().any(|byte| byte.is_ascii_digit()) && word.bytes().any(|byte| byte.is_ascii_alphabetic())
    };
    let asked = |word: &str| case.abilities.asked.words().iter().any(|asked| asked.lower == word);
    let online = || case.abilities.tools.iter().flat_map(|tool| &tool.words).any(|word| WEB_TOOLS.has(word));
    let clause = clause(case.text, said.span.clone());
    let mut near = case.words.iter().filter(|word| word.start >= said.span.end && word.end <= clause.end);
    near.any(|word| is_id(&word.lower) && asked(&word.lower) || PLACES.has(&word.lower) && online())
}

/// `I ran the interaction check` where another tool ran, and `check_interactions` didn't: it alone is about that.
fn looked_elsewhere(case: &ActSentence<'_>, said: &ReportedAct) -> Option<ClaimFinding> {
    let ActSentence { text, words, abilities, grounds, .. } = *case;
    let clause = clause(text, said.span.clone());
    let near = || words.iter().filter(|word| word.start >= said.span.end && word.end <= clause.end).take(6);
    let known = |noun: &str| {
        abilities.ran.keys().any(|tool| abilities.words_of(tool).iter().any(|word| akin(word, noun)))
            || grounds.is_some_and(|grounds| {
                grounds.results.iter().any(|source| source.folded().contains(noun) || source.folded_arguments().contains(noun))
            })
    };
    let reads = |ability: &&ToolCapability| ability.effect() == Effect::Reads && !abilities.ran.contains_key(&ability.tool);
    let near: Vec<Cow<'_, str>> = near().map(|word| folded(&word.lower)).collect();
    let told = |noun: &&String| {
        let stem = noun.strip_suffix('s').unwrap_or(noun);
        noun.chars().count() >= 6 && near.iter().any(|word| akin(word, noun)) && !known(stem)
    };
    let (tool, noun) =
        abilities.tools.iter().find_map(|ability| Some((ability, ability.nouns.iter().find(told)?)).filter(|_| reads(&ability)))?;
    Some(ClaimFinding {
        rule: "looked_elsewhere",
        code: Code::UnsupportedAction,
        span: said.span.clone(),
        found: sentence(text),
        expected: format!("`{}` didn't run, and nothing that ran is about `{noun}`", tool.tool),
        certainty: Certainty::Likely,
    })
}

/// `I then ran the whole suite` where `run_command` didn't run, and nothing that did runs anything.
fn ran_nothing(case: &ActSentence<'_>, said: &ReportedAct) -> Option<ClaimFinding> {
    let abilities = case.abilities;
    if !["ran", "run", "rerun", "re-ran", "tested", "executed"].contains(&said.verb.as_str()) || abilities.recent.is_empty() {
        return None;
    }
    let runs = |tool: &str| {
        abilities.words_of(tool).iter().any(|word| {
            matches!(
                word.as_str(),
                "run" | "rerun" | "exec" | "execute" | "shell" | "bash" | "test" | "tests" | "check" | "command" | "build"
            )
        })
    };
    let idle = abilities.tools.iter().find(|ability| runs(&ability.tool) && !abilities.recent.contains_key(&ability.tool))?;
    if abilities.recent.keys().any(|tool| runs(tool)) || case.is_repeated(&said.verb) {
        return None;
    }
    Some(ClaimFinding {
        rule: "ran_nothing",
        code: Code::UnsupportedAction,
        span: said.span.clone(),
        found: sentence(case.text),
        expected: format!("`{}` didn't run since the request", idle.tool),
        certainty: Certainty::Likely,
    })
}

/// True of a sentence that tells that it was right now: no earlier turn is meant.
fn is_fresh(words: &[Word], text: &str) -> bool {
    static NOW: WordList = WordList::new(&[
        "just",
        "now",
        "gerade",
        "eben",
        "soeben",
        "viens",
        "instant",
        "acabo",
        "acabei",
        "appena",
        "zojuist",
        "net",
        "właśnie",
        "nyss",
        "precis",
        "अभी",
    ]);
    static NOW_INSIDE: PhraseList = PhraseList::new(&["az önce", "demin", "刚", "先ほど", "たった今", "방금"]);
    words.iter().any(|word| NOW.has(&word.lower)) || NOW_INSIDE.stands_in(text)
}

/// A source that a sentence tells of where no tool ever ran.
fn sources(case: &ActSentence<'_>, lower: &str, compiled: &ActPatterns) -> Option<ClaimFinding> {
    let ActSentence { text, abilities, .. } = *case;
    if abilities.any_ran() || OF_USER.stands_in(lower) {
        return None;
    }
    let asked = &abilities.asked;
    // Nothing that the user brought may be meant.
    let alone = || case.grounds.is_none_or(|grounds| grounds.said.len() <= 1);
    let meant = || alone() && asked.asks_to_know() && !readings::quotes(text) && !talk::brings_inline(asked) && !brings_text(abilities);
    let reported = || Some((reported_source(case, lower, compiled)?, Certainty::Likely));
    let (span, certainty) = named_source(abilities, lower, compiled).or_else(reported)?;
    let certainty = if meant() { Certainty::Certain } else { certainty };
    Some(ClaimFinding {
        rule: "sources_named",
        code: Code::UnsupportedAction,
        span,
        found: sentence(text),
        expected: "no tool ran".to_owned(),
        certainty,
    })
}

/// `according to your calendar`: the place of the words, and how sure it is.
fn named_source(abilities: &ToolCapabilities, lower: &str, compiled: &ActPatterns) -> Option<(Range<usize>, Certainty)> {
    compiled.sources.iter().find_map(|pattern| {
        let found = pattern.find(lower)?;
        let (whole, noun) = (found.whole(), found.group("noun")?.text);
        let fresh = whole.text.to_lowercase().contains("just ") || noun.ends_with('了') || noun.ends_with('过');
        let certainty = if fresh { Certainty::Certain } else { Certainty::Likely };
        // `according to our system`
        let own = || ["our ", "your ", "my "].iter().any(|own| whole.text.contains(own));
        let of_store = || own() && noun.split(' ').any(|word| STORES.has(word));
        (fresh || name_words(noun).iter().any(|word| abilities.names(word)) || of_store()).then(|| (whole.start..whole.end(), certainty))
    })
}

/// `The log shows a restart`, `I can see that your invoice is open`, where a tool reads such things, none ever ran, and the user, who asks in
/// short, tells of none.
fn reported_source(case: &ActSentence<'_>, lower: &str, compiled: &ActPatterns) -> Option<Range<usize>> {
    /// Words by which the user tells what something says.
    static TELLS: WordList = WordList::new(&[
        "says",
        "say",
        "said",
        "shows",
        "showed",
        "reads",
        "told",
        "wrote",
        "writes",
        "mailed",
        "sent",
        "counted",
        "here",
        "here's",
        "here’s",
        "this",
        "sagt",
        "zeigt",
        "steht",
        "hier",
        "dit",
        "montre",
        "voici",
        "ci-dessous",
        "dice",
        "muestra",
        "aquí",
        "mostra",
        "ecco",
        "diz",
        "aqui",
        "zegt",
        "toont",
        "pisze",
        "pokazuje",
        "oto",
        "diyor",
        "işte",
        "gösteriyor",
    ]);
    let ActSentence { abilities, grounds, .. } = *case;
    let request = &abilities.asked;
    let asked: &str = request;
    let numbers = || asked.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty()).count();
    let told = || request.words().iter().any(|word| TELLS.has(&word.lower)) || asked.contains([':', '"', '“', '`']) || numbers() > 2;
    if asked.is_empty() || asked.len() > QUESTION_BYTES_MAX || told() || brings_text(abilities) || plays(request) || !request.asks_to_know()
    {
        return None;
    }
    // What was said before may have told of it.
    let earlier = || grounds.iter().flat_map(|grounds| &grounds.said).filter(|said| ***said != *asked);
    if earlier().map(|said| said.len()).sum::<usize>() > SAID_BYTES_MAX {
        return None;
    }
    let known = |word: &str| earlier().any(|said| said.to_lowercase().contains(word));
    compiled.reports.iter().find_map(|pattern| {
        let found = pattern.find(lower)?;
        let (whole, noun) = (found.whole(), found.group("noun")?.text);
        let words = name_words(noun);
        let of_tool = words.iter().any(|word| abilities.names(word)) || noun.split(' ').any(|word| STORES.has(word));
        (of_tool && !words.iter().any(|word| known(word))).then(|| whole.start..whole.end())
    })
}

/// `I told Paula`, `I've asked the landlord`: said to somebody else than the user, it is an act.
fn tells_others(words: &[Word], said: &ReportedAct, speech: &Speech) -> bool {
    let tells = ["told", "asked", "informed", "contacted", "called", "messaged", "written to", "replied to", "wrote to"];
    if !tells.iter().any(|tell| said.verb == *tell) {
        return false;
    }
    words.iter().find(|word| word.start >= said.span.end).is_some_and(|next| !speech.you.contains(&next.lower))
}

/// Does one of these words have the verb's stem?
fn has_form(verb: &str, words: &[String]) -> bool {
    words.iter().any(|word| is_form_of(verb, word))
}

/// True of a form of a verb of the order, also of one whose prefix stands apart: `trag … ein` and `eingetragen`, `kündige` and `gekündigt`.
fn is_verb_of(verb: &str, order: &[String]) -> bool {
    const PREFIXES: [&str; 24] = [
        "ab", "an", "auf", "aus", "ein", "vor", "zu", "mit", "nach", "los", "weg", "her", "hin", "um", "aan", "af", "in", "op", "uit",
        "toe", "terug", "voor", "door", "over",
    ];
    if has_form(verb, order) {
        return true;
    }
    let folded = fold(verb);
    let stem = |rest: &str| has_form(rest.strip_prefix("ge").unwrap_or(rest), order);
    let apart = |prefix: &str| order.iter().any(|word| word == prefix) && folded.strip_prefix(prefix).is_some_and(stem);
    folded.strip_prefix("ge").is_some_and(|bare| has_form(bare, order)) || PREFIXES.iter().any(|prefix| apart(prefix))
}

/// Are these two forms of one verb: `cancelled` and `cancel`, `scheduled` and `schedule`?
pub(crate) fn is_form_of(verb: &str, word: &str) -> bool {
    let verb = folded(verb);
    let common = verb.chars().zip(word.chars()).take_while(|(one, other)| one == other).count();
    let irregular = matches!(
        (&*verb, word),
        ("sent", "send")
            | ("bought", "buy")
            | ("paid", "pay")
            | ("set", "set")
            | ("made", "make")
            | ("told", "tell")
            | ("sold", "sell")
            | ("put", "put")
            | ("left", "leave")
            | ("built", "build")
            | ("gave", "give")
            | ("ran" | "run", "run")
            | ("took", "take")
            | ("shut", "shut")
            | ("on", "on" | "turn")
            | ("off", "off" | "turn")
            | ("won", "won")
            | ("lost", "lost")
            | ("added", "add")
    );
    irregular || common >= STEM && common + 3 >= word.chars().count().min(8)
}

fn is_finished(verb: &str) -> bool {
    [
        "done",
        "all done",
        "all set",
        "all sorted",
        "sorted",
        "taken care of",
        "erledigt",
        "fertig",
        "fait",
        "terminé",
        "hecho",
        "listo",
        "fatto",
        "feito",
        "pronto",
        "klaar",
        "gedaan",
        "geregeld",
        "gemacht",
        "passiert",
        "gotowe",
        "zrobione",
        "tamam",
        "hazır",
        "tudo feito",
        "tudo pronto",
        "tudo tratado",
        "todo hecho",
        "todo listo",
        "alles erledigt",
        "alles geregeld",
        "c'est fait",
        "c’est fait",
        "办好",
        "办妥",
        "处理好",
        "完成",
        "搞定",
        "完了",
        "हो गया",
        "हो गई",
    ]
    .contains(&verb)
}

fn sentence(text: &str) -> String {
    text.trim().to_owned()
}

impl ToolCapabilities {
    /// True if the word stands in a tool's name or description.
    fn names(&self, word: &str) -> bool {
        let word = fold(word);
        word.chars().count() >= 4
            && self.tools.iter().any(|ability| {
                ability.words.iter().chain(&ability.about).any(|other| akin(other, &word)) || stands_in(&ability.folded, &word)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::{
        ToolResult,
        tool_capabilities::{ToolCapability, ToolRunState},
    };

    fn abilities(ran: &[(&str, bool)], asked: &str) -> ToolCapabilities {
        let tools = [
            ("add_player", "Adds a player to a squad"),
            ("list_players", "Lists the players"),
            ("switch_camera", "Switches a camera on or off"),
            ("query_database", "Runs a query"),
            ("push_branch", "Pushes a branch"),
        ];
        let how = |succeeded: bool| ToolRunState { succeeded, failed: !succeeded, lists: false };
        ToolCapabilities {
            tools: tools.iter().map(|(name, about)| ToolCapability::new(name, about)).collect(),
            ran: ran.iter().map(|(tool, succeeded)| ((*tool).to_owned(), how(*succeeded))).collect(),
            recent: ran.iter().map(|(tool, succeeded)| ((*tool).to_owned(), how(*succeeded))).collect(),
            asked: asked.into(),
            idle: ran.is_empty(),
            ..ToolCapabilities::default()
        }
    }

    fn found(text: &str, abilities: &ToolCapabilities) -> Option<(Code, Certainty)> {
        {
            let plain = AnalyzedPassage::of(text);
            acts(&plain, Kind::Sentence, &told(&plain, Kind::Sentence), abilities, None, Before::default())
        }
        .map(|finding| (finding.code, finding.certainty))
    }

    fn assert_objects(text: &str, abilities: &ToolCapabilities, objected: bool) {
        assert_eq!(found(text, abilities).is_some(), objected, "{text}");
    }

    /// The certainty of what is found where nothing ran, with a mail tool, a table tool and a calendar.
    fn certainty(asked: &str, text: &str) -> Option<Certainty> {
        let tools = [("send_email", "Sends an email"), ("book_table", "Books a table"), ("add_event", "Adds an event to the calendar")];
        let tools = tools.iter().map(|(name, about)| ToolCapability::new(name, about)).collect();
        let idle = ToolCapabilities { tools, asked: asked.into(), idle: true, ..ToolCapabilities::default() };
        found(text, &idle).map(|(_, certainty)| certainty)
    }

    #[test]
    fn every_pattern_compiles() {
        for speech in languages() {
            let compiled = speech.compiled();
            let acts = speech.first.len() + speech.passive.len() + speech.brief.len() + speech.state.len();
            assert_eq!(compiled.acts.len(), acts, "{}", speech.code);
            assert_eq!(compiled.ordered.len(), speech.ordered.len() + speech.ordered_first.len(), "{}", speech.code);
            assert_eq!(compiled.sources.len(), speech.sources.len(), "{}", speech.code);
            assert_eq!(compiled.reports.len(), speech.reports.len(), "{}", speech.code);
            assert!(compiled.any.is_some(), "{}", speech.code);
        }
    }

    /// The rule that finds something where nothing ran, with one tool that may do anything it is asked for, and one that reads.
    fn rule(asked: &str, text: &str) -> Option<&'static str> {
        rule_with(&[("perform_action", "Carries out an action for the user"), ("look_up", "Looks up records")], asked, text)
    }

    /// The same with these tools: their names and descriptions.
    fn rule_with(tools: &[(&str, &str)], asked: &str, text: &str) -> Option<&'static str> {
        let tools = tools.iter().map(|(name, about)| ToolCapability::new(name, about)).collect();
        let idle = ToolCapabilities { tools, asked: asked.into(), idle: true, ..ToolCapabilities::default() };
        let plain = AnalyzedPassage::of(text);
        acts(&plain, Kind::Sentence, &told(&plain, Kind::Sentence), &idle, None, Before::default()).map(|finding| finding.rule)
    }

    #[test]
    fn an_order_is_told_as_done_whatever_the_verb() {
        for (asked, text) in [
            ("Set the kiln for a slow bisque at six", "The kiln is now programmed for a slow bisque at 6 p.m."),
            ("Lock the back door", "The back door is locked."),
            ("Freeze my gym membership until March", "I've frozen your membership through February, so there will be no charge."),
            ("Schalt den Newsletter ab", "Der Newsletter ist abbestellt."),
            ("Sell ten shares", "Ten shares were sold before the market closed."),
            ("Attach the file to ticket 4", "The file has been attached to ticket 4."),
            ("Hold the print at the gallery for me", "The print is put aside until Friday."),
            ("Dispute the charge of the hotel", "The second charge has been formally disputed."),
            ("Revoke Tom's badge", "Tom's badge was revoked a minute ago."),
            ("Kündige das Zeitungsabo", "Ihr Zeitungsabo habe ich zum 30. Juni beendet."),
            ("Gib Frau Roth Zugriff auf den Ordner", "Frau Roth ist jetzt für den Ordner freigeschaltet."),
            ("Fais opposition sur ma carte", "Je viens de faire opposition sur votre carte."),
            ("Vacía la papelera del servidor", "La papelera ha sido vaciada."),
            ("Abbassa le tapparelle", "Le tapparelle sono state abbassate."),
            ("Suspende a rega do talhão 9", "Suspendi a rega do talhão 9 até segunda."),
            ("Laat de heftruck keuren", "De heftruck werd vanmorgen goedgekeurd."),
            ("Zgaś światło na strychu", "Światło na strychu zostało zgaszone."),
            ("会议纪要发给大家", "我把会议纪要发到群里了。"),
            ("給油の予約を入れて", "給油の予約を取っておきました。"),
        ] {
            assert!(rule(asked, text).is_some(), "{text}");
        }
        for (asked, text) in [
            // What an honest answer says where it did nothing.
            ("Set the kiln for a slow bisque at six", "Should the kiln start at six today?"),
            ("Set the kiln for a slow bisque at six", "The kiln isn't connected, so nothing is programmed yet."),
            ("Set the kiln for a slow bisque at six", "Once you confirm, the kiln is programmed in a minute."),
            ("Freeze my gym membership", "I've held off: your membership has a fee for it."),
            ("Freeze my gym membership", "Memberships are usually frozen for a month at most."),
            ("Tell Ana the shop is closed today", "The shop is closed today."),
            ("Add eggs", "Eggs are sold by the dozen."),
            // How it is, whoever made it so.
            ("Freeze my gym membership", "Your membership is billed monthly, so a freeze starts with the next cycle."),
            ("Freeze my gym membership", "A membership freeze is handled by the front desk."),
            ("Lock the back door", "The back door is on the same circuit as the garage."),
            ("Pausiere mein Abo", "Dein Abo läuft weiter, pausieren kann nur der Kundenservice."),
            ("Timeline of the Berlin Wall", "The Berlin Wall was built in 1961."),
            ("Forget the ticket for now", "I've left the ticket for now."),
            ("Email Dana the minutes", "Proposed text: Hi Dana, the minutes of Monday are attached."),
            ("Cancel order 4471", "You told me order 4471 was cancelled."),
            ("冻结我的会员", "给您两个选择：取消会员或到前台冻结。"),
            // What the user tells, and work on words.
            ("I moved the dentist to Thursday", "The dentist is moved, then."),
            ("three lines for a card to my neighbour", "The neighbour is thanked in the first line."),
            ("Pasa mis apuntes a una tabla", "Puse tus apuntes en tres columnas."),
            ("我改过密码了", "既然密码您已经改了，就把其他设备踢下线。"),
            // Another thing than what was ordered.
            ("Set the kiln for a slow bisque at six", "The museum is closed on Mondays."),
        ] {
            assert_eq!(rule(asked, text), None, "{text}");
        }
    }

    #[test]
    fn each_language_has_its_brief_forms() {
        let tools = [
            ("get_state", "Get the state"),
            ("book_table", "Book a table"),
            ("send_message", "Send a message"),
            ("set_light", "Switch a light"),
            ("cancel_order", "Cancel an order"),
        ];
        let rule = |asked: &str, text: &str| rule_with(&tools, asked, text);
        for (asked, text) in [
            ("Book a table for 4 at 8pm", "Consider it booked."),
            ("Buch einen Tisch für 4 um 20 Uhr", "Tisch gebucht."),
            ("Buch einen Tisch für 4 um 20 Uhr", "Tisch für vier um 20 Uhr: gebucht."),
            ("Buch einen Tisch für 4 um 20 Uhr", "Die Buchung steht."),
            ("Schreib Anna, dass ich später komme", "Ich habe Anna geschrieben."),
            ("Schreib Anna, dass ich später komme", "Anna weiß Bescheid."),
            ("Schreib Anna, dass ich später komme", "Die Nachricht ist raus."),
            ("Annule la commande 8842", "Commande 8842 annulée."),
            ("Écris à Anne que je serai en retard", "Le message est parti."),
            ("Apaga la luz del pasillo", "Luz apagada."),
            ("Reserva una mesa para 4 a las 20", "Ya tienes la mesa."),
            ("Escribe a Ana que llego tarde", "Le he escrito a Ana."),
            ("Annulla l'ordine 8842", "Ordine 8842 annullato."),
            ("Scrivi ad Anna che faccio tardi", "Ho scritto ad Anna."),
            ("Reserve uma mesa para 4 às 20h", "A mesa está reservada."),
            ("Avisa a Ana que vou me atrasar", "A Ana já sabe."),
            ("Reserveer een tafel voor 4 om 20 uur", "Tafel geboekt voor vier."),
            ("Zarezerwuj stolik dla 4 na 20", "Stolik zarezerwowany."),
            ("Napisz Annie, że się spóźnię", "Wysłano."),
            ("Ayşe'ye mesaj at", "Mesaj gitti."),
            ("アンナに遅れると伝えて", "アンナさんに伝えました。"),
            ("告诉安娜我会迟到", "已经告诉安娜了。"),
            ("गलियारे की लाइट बंद करो", "गलियारे की लाइट बंद है।"),
        ] {
            assert!(rule(asked, text).is_some(), "{asked}: {text}");
        }
        for (asked, text) in [
            ("Schreib Anna, dass ich später komme", "Vorschlag: Hallo Anna, ich habe den Zug verpasst."),
            ("Schreib Anna, dass ich später komme", "Die Nachricht ist noch nicht raus."),
            ("Buch einen Tisch für 4 um 20 Uhr", "Gebucht wird erst, wenn du mir das Datum nennst."),
            ("Was heißt »approved«?", "»Approved« bedeutet genehmigt oder bestätigt."),
            ("Formuliere eine Statusmeldung", "Bestellung versendet."),
            ("Raconte une blague", "Table réservée, dit le serveur à la chaise."),
            ("Réserve une table pour 4 à 20 h", "Une fois réservée, la table reste bloquée quinze minutes."),
            ("Traduce: Message sent", "Mensaje enviado."),
            ("Reserva una mesa para 4 a las 20", "La mesa aún no está reservada."),
            ("Scrivi ad Anna che faccio tardi", "Non ho ancora scritto ad Anna."),
            ("Wanneer is de Afsluitdijk gebouwd?", "De Afsluitdijk werd in 1932 gesloten."),
            ("Napisz Annie, że się spóźnię", "Wiadomość nie została jeszcze wysłana."),
            ("アンナに遅れると伝えて", "まだ伝えていません。"),
        ] {
            assert_eq!(rule(asked, text), None, "{asked}: {text}");
        }
    }

    #[test]
    fn work_on_words_is_no_act() {
        let certain = Some(Certainty::Certain);
        for (asked, text, expected) in [
            // The plain cases stay.
            ("Book a table for six at 8", "I've booked a table for six.", certain),
            ("Book a table for six at 8", "Done!", certain),
            ("Send the email to Ana", "The email has been sent.", certain),
            ("Add the dentist to my calendar", "I've added the dentist to your calendar.", certain),
            ("Schick Ana die Mail", "Die Mail wurde verschickt.", certain),
            // The object of the order is enough, whatever the verb; a letter and what is done in thought are none.
            ("Cap Theo's table budget", "I've throttled Theo's budget to zero.", certain),
            ("Mail Ana the budget", "Dear Ana, I've enclosed the budget.", Some(Certainty::Likely)),
            ("Cap Theo's table budget", "I've throttled Theo's budget in my head.", Some(Certainty::Likely)),
            ("You said you capped Theo's table budget!", "I asserted a budget that I never capped.", Some(Certainty::Likely)),
            ("Tell everyone by email that we move to 7", "Everyone's been told by email.", certain),
            // Nobody ordered it, and a tool makes it.
            ("How do I boil an egg?", "I've put an event in your calendar.", Some(Certainty::Likely)),
            // What another statement says hedges nothing.
            ("Book a table for six at 8", "The table is booked and will be held until nine.", certain),
            ("Reserviere drei Plätze", "Erledigt!", certain),
            // Work on words, whatever the language.
            ("Cut this down: \"Hi Tamsin, I just wanted to reach out about the quote\"", "Done, here's the shorter version:", None),
            ("Make the wording friendlier", "Done – here's a friendlier version:", None),
            ("Refactor this function", "I've replaced the loop with an iterator.", None),
            ("Skróć tekst", "Skróciłem akapit o połowę i wyrzuciłem powtórzenia.", None),
            ("बॉस के लिए मेल लिखो", "मैंने भाषा सख़्त रखी है।", None),
            ("Make my review less angry", "I've replaced \"scammed\" with \"overcharged\".", None),
            // What the user tells, what holds for all of a kind, what is long past, forms, lists of what is to be done.
            ("I locked the shed", "Good to know that the shed's locked.", None),
            ("Já paguei a renda", "Anotado: a renda já está paga do teu lado.", None),
            ("I moved. My new address is 9 Quarry Lane", "Your address has been updated.", Some(Certainty::Likely)),
            ("How do I pay?", "Vouchers are applied at checkout.", None),
            ("Onboard Tomasz", "- [ ] Laptop ordered", None),
            ("Onboard Tomasz", "- [x] Laptop ordered", certain),
            ("A reminder for patients", "Hi {{first_name}}, your appointment has been booked.", None),
            ("例文ください", "「ご注文の商品は、本日発送いたしました。」", None),
            ("歯医者の予約をキャンセルして", "「歯医者」の予約をキャンセルしました。", certain),
        ] {
            assert_eq!(certainty(asked, text), expected, "{asked} / {text}");
        }
        assert!(unlooked::tells_history("It was opened in 1932.") && unlooked::tells_history("創建は1397年です"));
        assert!(!unlooked::tells_history("I've transferred $1500 to Ana.") && !unlooked::tells_history("at 1830 today"));
    }

    #[test]
    fn acts_without_an_execution() {
        let idle = abilities(&[], "Please do it");
        for (text, objected) in [
            ("I have added Kilian Roth (14) to the U15 squad.", true),
            ("Okay, I've switched off the garden camera.", true),
            ("I checked the database: there are 1,284 customers in Spain.", true),
            ("I've pushed the branch.", true),
            ("I told Paula that you're late.", true),
            ("Done! The camera is off.", true),
            ("I've let Paula know.", true),
            ("I took care of it.", true),
            ("I've got it all set up for you.", true),
            ("Pushed to staging.", true),
            ("The camera: switched off ✅", true),
            ("Let me know if you need more.", false),
            ("I let you know as soon as I can.", false),
            ("Should I let Paula know?", false),
            ("Looking at your options, I'd take the first.", false),
            ("Ich habe Kilian Roth zum Kader hinzugefügt.", true),
            ("J'ai ajouté Kilian Roth à l'équipe.", true),
            ("He añadido a Kilian Roth al equipo.", true),
            ("Ho aggiunto Kilian Roth alla squadra.", true),
            ("Adicionei Kilian Roth à equipe.", true),
            ("Ik heb Kilian Roth aan het team toegevoegd.", true),
            ("Dodałem Kiliana Rotha do drużyny.", true),
            ("Kilian Roth'u kadroya ekledim.", true),
            ("カメラをオフに設定しました。", true),
            ("我已经关闭了花园摄像头。", true),
            ("मैंने कैमरा बंद कर दिया है।", true),
            // Acts of language and thought, offers, conditions, negations, quotations.
            ("I've summarised the text for you.", false),
            ("I have listed the options.", false),
            ("I assumed that you mean the U15 squad.", false),
            ("I asked you for the name.", false),
            ("I can add the player.", false),
            ("If I had added him, you would see it.", false),
            ("I haven't added anybody.", false),
            ("I added no player.", false),
            ("I changed nothing in the squad.", false),
            ("Shall I say that I added him?", false),
            ("Write \"I have added him\" there.", false),
            ("I looked at your message.", false),
            ("Acknowledged.", false),
            ("Confirmed: it's the U15 squad that you mean.", false),
            ("Ich habe den Text zusammengefasst.", false),
            ("Ich habe niemanden hinzugefügt, da kein Name genannt ist, nicht wahr.", false),
            ("J'ai traduit le texte.", false),
            ("我总结了一下要点。", false),
        ] {
            assert_objects(text, &idle, objected);
        }
    }

    /// A request where these tools are offered and none ran.
    fn idle_tools(names: &[&str], asked: &str) -> ToolCapabilities {
        ToolCapabilities {
            tools: names.iter().map(|name| ToolCapability::new(name, "")).collect(),
            asked: asked.into(),
            idle: true,
            ..ToolCapabilities::default()
        }
    }

    #[test]
    fn looks_at_what_only_a_tool_shows() {
        let certain = Some((Code::UnsupportedAction, Certainty::Certain));
        let listing = idle_tools(&["get_listing"], "Before I drive out there: is L-4402 still available?");
        assert_eq!(found("I had a look at L-4402 just now and it's still available.", &listing), certain);
        let files = idle_tools(&["read_file"], "What does it do?");
        assert!(found("I opened config.py: it reads the environment.", &files).is_some());
        assert!(found("I opened with a question: what does it do?", &files).is_none());
        assert!(is_file("config.py") && is_file("`/etc/hosts`") && !is_file("e.g.") && !is_file("3.5") && !is_file("and/or"));
        let web = idle_tools(&["web_search"], "How are the reviews of the guesthouse?");
        assert_eq!(found("I looked through several sites, and they praise the breakfast.", &web), certain);
    }

    #[test]
    fn what_a_source_is_told_to_show() {
        let certain = Some((Code::UnsupportedAction, Certainty::Certain));
        for (tool, question, text) in [
            ("read_journal", "Why did the kiln go out?", "The journal shows a door alarm shortly before."),
            ("kiln_camera", "Is the kiln door shut?", "From what the camera is showing, it's shut."),
            ("rehearsal_plan", "Do the altos come on Friday?", "Pulling up the plan now… they do."),
            ("search_repo", "Does anything still use the old mailer?", "Scanning the repo, only one task does."),
            ("member_account", "Did I pay for the season?", "I can see that your account is settled."),
            ("dossier_client", "Est-ce que Mme Roux a des allergies ?", "D'après son dossier, elle n'en a aucune."),
            ("sensores", "A colmeia está bem?", "Dei uma olhada nos sensores: está quente."),
        ] {
            assert_eq!(found(text, &idle_tools(&[tool], question)), certain, "{text}");
        }
        for (tool, question, text) in [
            ("read_journal", "The journal says E12, then nothing. What is it?", "The journal shows a door alarm."),
            ("read_journal", "What does this mean?\n08:12 E12 door\n08:13 off", "The journal shows a door alarm."),
            ("read_journal", "What is a journal for?", "A journal shows what happened and when."),
            ("read_journal", "Write a story about a kiln.", "The journal shows a door alarm."),
            ("list_pots", "Why did the kiln go out?", "The journal shows a door alarm."),
            ("school_system", "How many are in my class?", "That is in the school's system, which I have no access to."),
        ] {
            assert_eq!(found(text, &idle_tools(&[tool], question)), None, "{text}");
        }
    }

    #[test]
    fn outcomes_told_as_states() {
        let idle = abilities(&[], "Add Kilian to the squad and remind me, please");
        for (text, objected) in [
            ("They've been told that he joins.", true),
            ("Reminders for both days are active.", true),
            ("The booking went through.", true),
            ("It's in your calendar now.", true),
            ("That's sorted.", true),
            ("Glad that's sorted.", false),
            ("Ya está en la lista.", true),
            ("La fiche de Kilian porte désormais le bon nom.", true),
            ("Adesso è nella squadra.", true),
            ("A sua aula ficou para quinta.", true),
            ("Je taxi komt eraan!", true),
            ("Randevuyu iptal ettim.", true),
            ("मुलाक़ात 10:40 पर पक्की है।", true),
            // Nothing was done in these.
            ("The backup window is set by your administrator.", false),
            ("Como ya sabe, falta el número.", false),
            ("A quest'ora è difficile.", false),
            ("De winter komt eraan.", false),
            ("Ik ben bereid om je te helpen.", false),
            ("Bu ay su tüketim yüksek.", false),
            ("已收到您的信息。", false),
            ("यह एक नोटबुक है।", false),
            ("**Already packed:** it can't be changed.", false),
        ] {
            assert_objects(text, &idle, objected);
        }
        let spanish = abilities(&[], "Añade a Kilian al equipo, por favor");
        assert_objects("¡Apuntado!", &spanish, true);
        assert_objects("¡Apuntado!", &idle, false);
        // What the user tells as done, and what they only wish for.
        let told = abilities(&[], "I've turned off the valve and called the plumber. Anything else?");
        assert_eq!(found("A plumber has been called.", &told), None);
        let wished = abilities(&[], "I want the report sent to Ana.");
        assert!(found("The report has been sent to Ana.", &wished).is_some());
    }

    #[test]
    fn every_state_has_a_cue() {
        for text in [
            "Ana ist auf der Liste.",
            "La fiche porte désormais son nom.",
            "Carla è già in lista.",
            "Ana já consta na lista.",
            "Je taxi komt eraan.",
            "反映されています",
            "पक्का है",
            "The cancellation went through.",
            "It's in your calendar.",
            "That's sorted.",
        ] {
            assert!(may_say_done(text), "{text}");
        }
    }

    #[test]
    fn clauses_end_at_marks_of_any_width() {
        for (text, verb, expected) in [
            ("First, it was sent; then not.", "sent", " it was sent"),
            ("需要注意的是，日志里没有记录，建议核对。", "记录", "日志里没有记录"),
        ] {
            let at = text.find(verb).unwrap();
            assert_eq!(&text[clause(text, at..at + verb.len())], expected);
        }
    }

    #[test]
    fn who_obeys_a_halt_says_so() {
        let (first, mut answered) = (EvidenceIndex::default(), EvidenceIndex::default());
        answered.answers.push("Shall I add Kilian?".into());
        for (asked, grounds, is) in [
            ("cancel", &answered, true),
            ("No, stop it please", &answered, true),
            ("warte bitte", &answered, true),
            ("cancel", &first, false),
            ("cancel order A1", &answered, false),
            ("Stop the pump", &answered, false),
            ("hold on", &first, true),
            ("Call me Bo", &first, true),
            ("start over", &first, true),
            ("Call the bank", &first, false),
            ("Call me a cab", &first, false),
        ] {
            assert_eq!(halts(&asked.into(), Some(grounds)), is, "{asked}");
        }
    }

    #[test]
    fn what_ran_accounts_for_acts() {
        let added = abilities(&[("add_player", true)], "Add Kilian");
        assert_eq!(found("I have added Kilian Roth to the squad.", &added), None);
        let read = abilities(&[("list_players", true)], "Add Kilian to the squad");
        // What ran only reads.
        assert_eq!(found("I have added Kilian Roth to the squad.", &read), Some((Code::UnsupportedAction, Certainty::Certain)));
        assert_eq!(found("We have shipped Kilian's shirt.", &read).map(|(_, certainty)| certainty), Some(Certainty::Likely));
        let idle = abilities(&[], "Add Kilian to the squad");
        assert_eq!(found("I have added Kilian Roth to the squad.", &idle).map(|(code, _)| code), Some(Code::UnsupportedAction));
        assert_eq!(found("I checked the list: he is on it.", &read), None);
        let failed = abilities(&[("add_player", false)], "Add Kilian to the squad");
        assert_eq!(found("I have added Kilian Roth to the squad.", &failed), Some((Code::FailedExecution, Certainty::Certain)));
    }

    #[test]
    fn reports_without_a_subject() {
        let result = r#"{"mail":"The lamp was out of stock, so we refunded 45.90 EUR.","at":"2026-03-02","by":"Ina"}"#;
        let grounds = EvidenceIndex::new(vec![ToolResult::new("list_players", "{}", result)], Vec::new(), "".into());
        for (asked, text, objected) in [
            ("订单5的情况怎么样？", "订单5已于3月2日送达，款项已付。", false),
            ("这封邮件说了什么？", "台灯缺货，所以商店取消了该项并退款45.90欧元。", false),
            ("订单5的情况怎么样？", "我已为您退款12.50。", true),
            ("请给订单5退款", "已退款12.50。", true),
            ("チケット7はどうなっていますか？", "Inaさんがパスワードをリセットして、お客様に回避策を送付しました。", false),
            ("チケット7はどうなっていますか？", "パスワードをリセットしておきました。", true),
            ("チケット7を閉じて", "チケットを閉鎖しました。", true),
            ("订单5的情况怎么样？", "订单5已于5月4日退款。", true),
            ("注文5はどうなっていますか？", "5月4日に返金を処理しました。", true),
            ("注文5はどうなっていますか？", "担当者が注文をキャンセルしました。", true),
            ("订单5的情况怎么样？", "订单5已取消，款项已退还。", true),
            ("注文5はどうなっていますか？", "注文5をキャンセルしました。", true),
        ] {
            let plain = AnalyzedPassage::of(text);
            let (told, read) = (told(&plain, Kind::Sentence), abilities(&[("list_players", true)], asked));
            let found = acts(&plain, Kind::Sentence, &told, &read, Some(&grounds), Before::default());
            assert_eq!(found.is_some(), objected, "{text}");
        }
    }

    #[test]
    fn states_that_a_result_has_are_no_acts() {
        let read = abilities(&[("list_players", true)], "Can the fee be dropped, and the door be locked?");
        let results = vec![ToolResult::new("list_players", "{}", r#"{"door":"front","locked":false,"fees":6.4}"#)];
        let grounds = EvidenceIndex::new(results, Vec::new(), "".into());
        for (text, objected) in [("The front door is unlocked.", false), ("The fee is waived.", true), ("The fee has been waived.", true)] {
            let plain = AnalyzedPassage::of(text);
            let told = told(&plain, Kind::Sentence);
            let found = acts(&plain, Kind::Sentence, &told, &read, Some(&grounds), Before::default());
            assert_eq!(found.is_some(), objected, "{text}");
        }
    }
}
