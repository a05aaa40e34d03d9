//! The ways in which each language reports acts: its verbs, patterns and hedges, from `language/lexicon/acts.toml`. Pure.

pub mod reported;
pub mod verb_forms;

use std::{collections::HashMap, sync::OnceLock};

use foldhash::fast::FixedState;
use regex::{RegexSet, RegexSetBuilder};
use serde::Deserialize;

use crate::{
    checks::acts::speech::reported::{ActForm, ReportedAct, clause, may_say_done},
    language::{
        cues::CONJUNCTIONS,
        lexicon::{Word, WordSet},
        pattern::{Pattern, in_ascii_letters, in_latin_letters},
        word_list::{WordList, data_file},
    },
};

/// Bytes of the compiled patterns of one language.
const SET_BYTES_MAX: usize = 16 << 20;

/// The ways in which one language reports acts.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::checks::acts) struct Speech {
    pub(in crate::checks::acts) code: String,
    pub(in crate::checks::acts) script: String,
    pub(in crate::checks::acts) common: WordSet,
    pub(in crate::checks::acts) verb: String,
    pub(in crate::checks::acts) first: Vec<String>,
    pub(in crate::checks::acts) passive: Vec<String>,
    pub(in crate::checks::acts) brief: Vec<String>,
    pub(in crate::checks::acts) state: Vec<String>,
    pub(in crate::checks::acts) ordered: Vec<String>,
    pub(in crate::checks::acts) ordered_first: Vec<String>,
    pub(in crate::checks::acts) thought: Vec<String>,
    pub(in crate::checks::acts) strong: String,
    pub(in crate::checks::acts) strong_first: String,
    pub(in crate::checks::acts) shared: String,
    pub(in crate::checks::acts) looks: Vec<String>,
    pub(in crate::checks::acts) sources: Vec<String>,
    pub(in crate::checks::acts) reports: Vec<String>,
    pub(in crate::checks::acts) hedges: WordSet,
    pub(in crate::checks::acts) texts: WordSet,
    pub(in crate::checks::acts) text_stems: Vec<String>,
    pub(in crate::checks::acts) writes: WordSet,
    pub(in crate::checks::acts) as_if: WordSet,
    pub(in crate::checks::acts) negated: Vec<String>,
    pub(in crate::checks::acts) you: WordSet,
    #[serde(skip)]
    pub(in crate::checks::acts) compiled: OnceLock<ActPatterns>,
}

#[derive(Debug)]
pub(in crate::checks::acts) struct ActPatterns {
    /// Patterns of acts, and all of them at once: most sentences match none.
    pub(in crate::checks::acts) acts: Vec<(ActForm, Pattern)>,
    pub(in crate::checks::acts) any: Option<RegexSet>,
    /// Patterns that count only where the user ordered the act; `true`: those of the first person.
    pub(in crate::checks::acts) ordered: Vec<(bool, Pattern)>,
    pub(in crate::checks::acts) sources: Vec<Pattern>,
    pub(in crate::checks::acts) reports: Vec<Pattern>,
    pub(in crate::checks::acts) strong: Option<Pattern>,
    pub(in crate::checks::acts) strong_first: Option<Pattern>,
    pub(in crate::checks::acts) shared: Option<Pattern>,
}

#[derive(Debug, Default, Deserialize)]
struct Languages {
    pub(in crate::checks::acts) language: Vec<Speech>,
}

impl Speech {
    pub(in crate::checks::acts) fn compiled(&self) -> &ActPatterns {
        self.compiled.get_or_init(|| self.compile())
    }

    /// Kept out of the code that judges: once for each language.
    #[cold]
    #[inline(never)]
    pub(in crate::checks::acts) fn compile(&self) -> ActPatterns {
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

    pub(in crate::checks::acts) fn is_script(&self) -> bool {
        !self.script.is_empty()
    }

    /// Does a verb begin with one of these? Those that end with `$` are whole words.
    pub(in crate::checks::acts) fn begins(list: &[String], verb: &str) -> bool {
        list.iter().any(|stem| stem.strip_suffix('$').map_or_else(|| verb.starts_with(stem.as_str()), |word| verb == word))
    }

    /// Does a word of the clause up to and around the verb hedge it?
    pub(in crate::checks::acts) fn hedges(&self, text: &str, words: &[Word], said: &ReportedAct) -> bool {
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

/// True of an English verb of language or thought, which needs no tool: `acknowledged`.
pub(in crate::checks::acts) fn is_of_thought(verb: &str) -> bool {
    languages().iter().filter(|speech| speech.code == "en").any(|speech| Speech::begins(&speech.thought, verb))
}

/// The languages of `lexicon/acts.toml`.
pub(in crate::checks::acts) fn languages() -> &'static [Speech] {
    static ALL: OnceLock<Vec<Speech>> = OnceLock::new();
    ALL.get_or_init(|| data_file::<Languages>(include_str!("../../../language/lexicon/acts.toml")).language)
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
pub(in crate::checks::acts) fn speeches(text: &str, words: &[Word]) -> Vec<&'static Speech> {
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
pub(in crate::checks::acts) fn script(text: &str) -> Option<&'static str> {
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
pub(in crate::checks::acts) const LANGUAGES_TIED: usize = 3;

/// Languages that are told apart by their frequent words.
const LANGUAGES_MAX: usize = 32;

/// The frequent words of the languages without a script of their own: one bit for each language that has it.
pub(in crate::checks::acts) fn common() -> &'static HashMap<&'static str, u32, FixedState> {
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
