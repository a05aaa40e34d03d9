//! The words by which claims are recognised, one file of data per language. Pure.
//!
//! A further language is a further file in `lexicon/`, named in `FILES`: nothing else knows a language. What the files
//! say is explained in `lexicon/en.toml`. Patterns are compiled when a text of the language first needs them.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    sync::OnceLock,
};

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use foldhash::fast::FixedState;
use regex::{RegexSet, RegexSetBuilder};
use serde::Deserialize;
use smol_str::{SmolStr, StrExt as _};

use super::{
    fold::{fold, lower},
    pattern::{Pattern, in_latin_letters},
};

pub use super::word_list::WordSet;
use super::word_list::data_file;
type KnownWords<K, V> = HashMap<K, V, FixedState>;

/// The languages.
const FILES: [&str; 9] = [
    include_str!("lexicon/en.toml"),
    include_str!("lexicon/de.toml"),
    include_str!("lexicon/es.toml"),
    include_str!("lexicon/fr.toml"),
    include_str!("lexicon/it.toml"),
    include_str!("lexicon/pt.toml"),
    include_str!("lexicon/nl.toml"),
    include_str!("lexicon/pl.toml"),
    include_str!("lexicon/tr.toml"),
];

/// A noun phrase of up to three words, for `{N}`.
const NOUN: &str = r#"(?P<noun>[^\s.,;:!?()\[\]*"`|]+(?: [^\s.,;:!?()\[\]*"`|]+){0,2})"#;

/// Something that is done, and how it is said and named.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActionVerb {
    /// Action in common terms: `create`, `delete`, … the same in every language.
    pub means: String,
    /// As it is said of something done.
    pub said: Vec<String>,
    /// As tools' names and descriptions have it.
    pub named: Vec<String>,
}

/// The words of one language.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lexicon {
    /// Its code.
    pub language: String,
    /// Frequent words, by which it is recognised.
    pub common: WordSet,
    /// The names of the twelve months.
    pub months: Vec<String>,
    /// Number words.
    pub numbers: KnownWords<String, u64>,
    /// `about`
    pub near: WordSet,
    /// `at least`
    pub bounds: WordSet,
    /// `the first`
    pub parts: WordSet,
    /// `of`: of [`Self::parts`] those that are so only behind another one or a number.
    pub links: WordSet,
    /// Nouns for anything a search returns.
    pub generic: WordSet,
    /// Nouns for nothing that is counted.
    pub vague: WordSet,
    /// Words that don't narrow an absence.
    pub scope: WordSet,
    /// Words that narrow a count.
    pub narrows: WordSet,
    /// `found`
    pub found: WordSet,
    /// `total`
    pub totals: Vec<String>,
    /// `several`
    pub some: WordSet,
    cues: Vec<String>,
    absences: Vec<String>,
    not_found: Vec<String>,
    /// Parts of words by which a failure is told.
    pub failures: Vec<String>,
    /// Parts of words by which a success is told.
    pub successes: Vec<String>,
    /// Words by which a sentence asserts nothing done.
    pub hedges: WordSet,
    /// `it`
    pub pronouns: WordSet,
    frames: Vec<String>,
    /// Endings of verbs as they are said, and others in their stead: genders and numbers.
    #[serde(default)]
    endings: Vec<(String, String)>,
    /// Action.
    pub verbs: Vec<ActionVerb>,
    /// English nouns of tools' names, and what they are called.
    pub nouns: BTreeMap<String, Vec<String>>,
    #[serde(skip)]
    compiled: CompiledLexicon,
}

#[derive(Debug, Default)]
struct CompiledLexicon {
    absences: OnceLock<Vec<Pattern>>,
    not_found: OnceLock<Vec<Pattern>>,
    frames: OnceLock<Vec<Pattern>>,
    verbs: OnceLock<VerbForms>,
    absent: OnceLock<Option<RegexSet>>,
    english: OnceLock<KnownWords<String, Vec<String>>>,
    acts: OnceLock<WordSet>,
}

/// Verbs as they are said.
#[derive(Debug, Default)]
struct VerbForms {
    known: KnownWords<String, usize>,
    /// The first words of those of several.
    heads: WordSet,
}

impl Lexicon {
    /// The number that this word says, in this language or in one without a lexicon. `word`: in lower case.
    pub fn count(&self, word: &str) -> Option<u64> {
        self.numbers.get(word).copied().or_else(|| number_word(word))
    }

    /// Patterns of "there is nothing"; most have a group `noun`.
    pub fn absences(&self) -> &[Pattern] {
        self.compiled.absences.get_or_init(|| self.patterns(&self.absences))
    }

    /// Patterns of "it doesn't exist", with a group `noun`.
    pub fn not_found(&self) -> &[Pattern] {
        self.compiled.not_found.get_or_init(|| self.patterns(&self.not_found))
    }

    /// Patterns of "it is done", with groups `verb` and `object` or `subject`.
    pub fn frames(&self) -> &[Pattern] {
        self.compiled.frames.get_or_init(|| self.patterns(&self.frames))
    }

    /// May one of [`Self::absences`] or [`Self::not_found`] be in it? All of them in one go.
    pub fn may_be_absent(&self, text: &str) -> bool {
        self.compiled.absent.get_or_init(|| self.absence_set()).as_ref().is_none_or(|set| set.is_match(text))
    }

    #[cold]
    #[inline(never)]
    fn absence_set(&self) -> Option<RegexSet> {
        // Without the edges of words: that finds more, and never waits for what letters an edge is between.
        let patterns = self.sources(self.absences.iter().chain(&self.not_found));
        let patterns = patterns.into_iter().map(|pattern| pattern.replace(r"\b", ""));
        RegexSetBuilder::new(patterns).case_insensitive(true).build().ok()
    }

    /// The English nouns of tools' names that are called so. `folded`: in this language.
    pub fn english(&self, folded: &str) -> &[String] {
        let build = || {
            let mut english: KnownWords<String, Vec<String>> = KnownWords::default();
            for (noun, names) in &self.nouns {
                names.iter().for_each(|name| english.entry(fold(name)).or_default().push(noun.clone()));
            }
            english
        };
        self.compiled.english.get_or_init(build).get(folded).map_or(&[], Vec::as_slice)
    }

    /// Does this word of a tool's name say what it does?
    pub fn names_act(&self, word: &str) -> bool {
        self.compiled.acts.get_or_init(|| self.verbs.iter().flat_map(|verb| &verb.named).cloned().collect()).contains(word)
    }

    /// Action of a verb as it is written.
    pub fn verb(&self, said: &str) -> Option<&ActionVerb> {
        self.verbs.get(*self.spoken().known.get(said)?)
    }

    /// Does one of these words, or do two or three of them in a row, say that something is done?
    pub fn mentions(&self, words: &[Word]) -> bool {
        let VerbForms { known, heads } = self.spoken();
        let row = |at: usize, count: usize| {
            let row: Vec<&str> = words.get(at..at + count)?.iter().map(|word| word.lower.as_str()).collect();
            Some(known.contains_key(&row.join(" ")))
        };
        let several = |at: usize, word: &Word| heads.contains(&word.lower) && (2..=3).any(|count| row(at, count) == Some(true));
        words.iter().enumerate().any(|(at, word)| known.contains_key(&*word.lower) || several(at, word))
    }

    fn spoken(&self) -> &VerbForms {
        self.compiled.verbs.get_or_init(|| {
            let all = self.verbs.iter().enumerate();
            let known: KnownWords<String, usize> =
                all.flat_map(|(at, verb)| verb.said.iter().map(move |said| (said.clone(), at))).collect();
            let heads = known.keys().filter_map(|said| Some(said.split_once(' ')?.0.to_owned())).collect();
            VerbForms { known, heads }
        })
    }

    /// With words of hedges and bounds of the languages that have no lexicon, as their texts are read by one of these.
    fn widened(mut self) -> Self {
        let with = |own: &WordSet, more: &[&str]| own.iter().cloned().chain(more.iter().map(|word| (*word).to_owned())).collect();
        self.near = with(&self.near, NEAR_ELSEWHERE);
        self.bounds = with(&self.bounds, BOUNDS_ELSEWHERE);
        self
    }

    /// With every verb in every gender and number.
    fn inflected(mut self) -> Self {
        for verb in &mut self.verbs {
            let own = verb.said.clone();
            let forms = self.endings.iter().flat_map(|(ending, other)| {
                own.iter().filter_map(move |said| Some(format!("{}{other}", said.strip_suffix(ending.as_str())?)))
            });
            verb.said.extend(forms);
            verb.said.sort_unstable();
            verb.said.dedup();
        }
        self
    }

    #[cold]
    #[inline(never)]
    fn patterns(&self, patterns: &[String]) -> Vec<Pattern> {
        self.sources(patterns.iter()).iter().filter_map(|source| Pattern::in_any_case(source)).collect()
    }

    /// Patterns with what their places stand for.
    fn sources<'p>(&self, patterns: impl Iterator<Item = &'p String>) -> Vec<String> {
        let mut verbs: Vec<String> = self.verbs.iter().flat_map(|verb| verb.said.iter().map(|said| regex::escape(said))).collect();
        verbs.sort_by_key(|verb| std::cmp::Reverse(verb.len()));
        let verbs = format!("(?P<verb>{})", verbs.join("|"));
        patterns.map(|pattern| in_latin_letters(&pattern.replace("{N}", NOUN).replace("{P}", &verbs))).collect()
    }
}

/// Words before a number that is told about, in Dutch, Portuguese, Polish, Turkish, Swedish and Hindi.
const NEAR_ELSEWHERE: &[&str] = &[
    "ongeveer",
    "zo'n",
    "zo’n",
    "bijna",
    "ruim",
    "krap",
    "aproximadamente",
    "quase",
    "około",
    "prawie",
    "niemal",
    "yaklaşık",
    "neredeyse",
    "ungefär",
    "cirka",
    "nästan",
    "लगभग",
    "करीब",
];
/// Words before a number that is a bound, in the same.
const BOUNDS_ELSEWHERE: &[&str] = &[
    "boven",
    "minstens",
    "maximaal",
    "hoogstens",
    "acima",
    "abaixo",
    "ponad",
    "powyżej",
    "poniżej",
    "najmniej",
    "üzeri",
    "üzerinde",
    "altında",
    "över",
    "minst",
    "högst",
];

/// Every language, English first.
pub fn all() -> &'static [Lexicon] {
    static ALL: OnceLock<Vec<Lexicon>> = OnceLock::new();
    ALL.get_or_init(|| FILES.iter().map(|file| data_file::<Lexicon>(file)).map(Lexicon::inflected).map(Lexicon::widened).collect())
}

/// The language of a text with these words: the one with most of its frequent words in it; `before` where that says nothing.
pub fn language(words: &[Word], before: Option<&'static Lexicon>) -> &'static Lexicon {
    static COMMON: OnceLock<KnownWords<&'static str, u32>> = OnceLock::new();
    let common = COMMON.get_or_init(|| {
        let mut common: KnownWords<&'static str, u32> = KnownWords::default();
        for (at, lexicon) in all().iter().enumerate() {
            let further = [&lexicon.found, &lexicon.scope, &lexicon.some, &lexicon.generic].into_iter().flat_map(WordSet::iter);
            let totals = lexicon.totals.iter().flat_map(|total| total.split(' '));
            let words = lexicon.common.iter().chain(further).map(String::as_str).chain(totals);
            words.for_each(|word| *common.entry(word).or_default() |= 1 << at);
        }
        common
    });
    let mut counts = [0_u32; FILES.len()];
    for word in words {
        let of = common.get(word.lower.as_str()).copied().unwrap_or(0);
        counts.iter_mut().enumerate().for_each(|(at, count)| *count += (of >> at) & 1);
    }
    let most = counts.iter().copied().max().unwrap_or(0);
    let ties = counts.iter().filter(|count| **count == most).count();
    let known = before.filter(|_| most == 0 || ties > 1);
    let best = counts.iter().position(|count| *count == most && most > 0).and_then(|at| all().get(at));
    known.or(best).unwrap_or_else(english)
}

/// English, in which tools are named.
pub fn english() -> &'static Lexicon {
    static NONE: OnceLock<Lexicon> = OnceLock::new();
    all().first().unwrap_or_else(|| NONE.get_or_init(Lexicon::default))
}

/// May this text say of something that it was done, in any language? Cheap, and rather once too often.
pub fn may_say_done(text: &str) -> bool {
    static DONE: OnceLock<Option<AhoCorasick>> = OnceLock::new();
    let automaton = DONE.get_or_init(|| automaton(all().iter().flat_map(|lexicon| &lexicon.verbs).flat_map(|verb| &verb.said)));
    automaton.as_ref().is_none_or(|automaton| automaton.is_match(text))
}

/// May this text say of something that it isn't there?
pub fn may_say_absent(text: &str) -> bool {
    static ABSENT: OnceLock<Option<AhoCorasick>> = OnceLock::new();
    let automaton = ABSENT.get_or_init(|| automaton(all().iter().flat_map(|lexicon| &lexicon.cues)));
    automaton.as_ref().is_none_or(|automaton| automaton.is_match(text))
}

/// Does it say in any language that something went well? `lower`: in lower case.
pub fn says_success(lower: &str) -> bool {
    static SUCCESS: OnceLock<Option<AhoCorasick>> = OnceLock::new();
    let build = || {
        let parts = all().iter().flat_map(|lexicon| &lexicon.successes);
        AhoCorasick::builder().kind(Some(AhoCorasickKind::DFA)).build(parts).ok()
    };
    SUCCESS.get_or_init(build).as_ref().is_none_or(|automaton| automaton.is_match(lower))
}

/// Reads every file and makes every automaton and every pattern ready, so that no exchange holds its worker for it.
/// It takes a good part of a second: not for a thread that serves.
pub fn warm_up() {
    let _ready = (may_say_done(""), may_say_absent(""), says_success(""), month("may"), language(&[], None));
    for lexicon in all() {
        let _compiled = (lexicon.frames().len(), lexicon.absences().len(), lexicon.not_found().len());
        let _compiled = (lexicon.may_be_absent(""), lexicon.english(""), lexicon.verb(""));
    }
}

#[cold]
#[inline(never)]
fn automaton<'w>(words: impl Iterator<Item = &'w String>) -> Option<AhoCorasick> {
    AhoCorasick::builder().ascii_case_insensitive(true).kind(Some(AhoCorasickKind::DFA)).build(words).ok()
}

/// Months of the languages without a lexicon of their own: Portuguese, Dutch, Polish, Turkish, Swedish, Hindi.
const MONTHS: [&str; 12] = [
    "janeiro januari stycznia styczeń styczniu ocak जनवरी",
    "fevereiro fev februari lutego luty lutym şubat फरवरी फ़रवरी",
    "março maart marca marzec marcu mart मार्च",
    "abril april kwietnia kwiecień kwietniu nisan अप्रैल",
    "maio mei maja maju mayıs maj मई",
    "junho juni czerwca czerwiec czerwcu haziran जून",
    "julho juli lipca lipiec lipcu temmuz जुलाई",
    "agosto augustus sierpnia sierpień sierpniu ağustos augusti अगस्त",
    "setembro september września wrzesień wrześniu eylül सितंबर सितम्बर",
    "outubro oktober października październik październiku ekim अक्टूबर अक्तूबर",
    "novembro november listopada listopad listopadzie kasım नवंबर नवम्बर",
    "dezembro december grudnia grudzień grudniu aralık दिसंबर दिसम्बर",
];

/// The number of the month of that name in any language, 1 to 12.
pub fn month(word: &str) -> Option<u32> {
    static KNOWN: OnceLock<KnownWords<&'static str, u32>> = OnceLock::new();
    // Bytes: those of Devanagari take three for each letter.
    if word.len() < 3 || word.len() > 30 {
        return None;
    }
    let months = KNOWN.get_or_init(|| {
        let of = |names: &'static str, number: u32| names.split(' ').map(move |name| (name, number));
        let own = all().iter().flat_map(|lexicon| lexicon.months.iter().zip(1..));
        own.map(|(names, number)| (names.as_str(), number))
            .chain(MONTHS.into_iter().zip(1..))
            .flat_map(|(names, number)| of(names, number))
            .collect()
    });
    months.get(word).or_else(|| months.get(&*lower(word))).copied()
}

/// Number words of the languages without a lexicon.
fn number_word(word: &str) -> Option<u64> {
    const WORDS: &[(&str, u64)] = &[
        ("दो", 2),
        ("तीन", 3),
        ("चार", 4),
        ("पाँच", 5),
        ("पांच", 5),
        ("छह", 6),
        ("छः", 6),
        ("सात", 7),
        ("आठ", 8),
        ("नौ", 9),
        ("दस", 10),
        ("बारह", 12),
        ("dois", 2),
        ("duas", 2),
        ("três", 3),
        ("quatro", 4),
        ("cinco", 5),
        ("seis", 6),
        ("sete", 7),
        ("oito", 8),
        ("nove", 9),
        ("dez", 10),
        ("doze", 12),
        ("twee", 2),
        ("drie", 3),
        ("vier", 4),
        ("vijf", 5),
        ("zes", 6),
        ("zeven", 7),
        ("acht", 8),
        ("negen", 9),
        ("tien", 10),
        ("twaalf", 12),
        ("dwa", 2),
        ("dwie", 2),
        ("trzy", 3),
        ("cztery", 4),
        ("pięć", 5),
        ("sześć", 6),
        ("siedem", 7),
        ("osiem", 8),
        ("dziewięć", 9),
        ("dziesięć", 10),
        ("iki", 2),
        ("üç", 3),
        ("dört", 4),
        ("beş", 5),
        ("altı", 6),
        ("yedi", 7),
        ("sekiz", 8),
        ("dokuz", 9),
        ("on", 10),
        ("två", 2),
        ("tre", 3),
        ("fyra", 4),
        ("fem", 5),
        ("sex", 6),
        ("sju", 7),
        ("åtta", 8),
        ("nio", 9),
        ("tio", 10),
        ("tolv", 12),
    ];
    static BY_WORD: OnceLock<HashMap<&str, u64, FixedState>> = OnceLock::new();
    let words = BY_WORD.get_or_init(|| WORDS.iter().rev().copied().collect());
    // Short ones are words of other languages too.
    words.get(word).copied().filter(|_| word.chars().count() > 3 || !word.is_ascii())
}

/// Small numbers that Chinese or Japanese words say: the 3 of `三个人`, `三人`.
pub fn spaceless_counts(text: &str) -> impl Iterator<Item = u64> {
    const DIGITS: [char; 12] = ['零', '一', '二', '三', '四', '五', '六', '七', '八', '九', '十', '两'];
    let of = |c: char| DIGITS.iter().position(|digit| *digit == c);
    let mut before = None;
    let single = text.chars().zip(text.chars().skip(1).chain([' '])).filter_map(move |(c, next)| {
        let alone = before.is_none_or(|before| of(before).is_none()) && of(next).is_none();
        before = Some(c);
        of(c).filter(|_| alone).map(|digit| if digit == 11 { 2 } else { digit as u64 })
    });
    single.filter(|count| *count > 1).take(8)
}

/// A word of a text.
#[derive(Clone, Debug)]
pub struct Word {
    /// Start in the text, in bytes.
    pub start: usize,
    /// End in the text, in bytes.
    pub end: usize,
    /// In lower case.
    pub lower: SmolStr,
}

impl Word {
    /// It as [`fold`] makes it. Most words are so already.
    pub fn folded(&self) -> Cow<'_, str> {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        if self.lower.bytes().all(plain) { Cow::Borrowed(&self.lower) } else { Cow::Owned(fold(&self.lower)) }
    }
}

/// The words of a text: letters and digits, with apostrophes and hyphens inside.
pub fn words(text: &str) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::with_capacity(text.len() / 5);
    let class = |at: usize| text.as_bytes().get(at).map(|byte| CLASSES[usize::from(*byte)]);
    let mut at = 0;
    while at < text.len() {
        let (start, mut ascii, mut upper) = (at, true, false);
        // Most words are ASCII in lower case.
        let plain = text.as_bytes().get(at..).unwrap_or_default().iter();
        at += plain.take_while(|byte| CLASSES[usize::from(**byte)] == LetterClass::Letter).count();
        loop {
            match class(at) {
                // Most text is ASCII, and in lower case: one look-up a byte.
                Some(LetterClass::Letter) => at += 1,
                Some(LetterClass::Upper) => (at, upper) = (at + 1, true),
                Some(LetterClass::Inside) if at > start => at += 1,
                Some(LetterClass::Unknown) => match text.get(at..).and_then(|rest| rest.chars().next()) {
                    Some(c) if c.is_alphanumeric() || c == '’' && at > start => (at, ascii) = (at + c.len_utf8(), false),
                    Some(_) | None => break,
                },
                Some(LetterClass::Inside | LetterClass::Never) | None => break,
            }
        }
        if at == start {
            at += match class(at) {
                Some(LetterClass::Unknown) => text.get(at..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8),
                _ => 1,
            };
            continue;
        }
        let mut word = text.get(start..at).unwrap_or_default();
        // Most words end with a letter, behind which there is nothing to trim.
        if !word.as_bytes().last().is_some_and(u8::is_ascii_alphanumeric) {
            word = word.trim_end_matches(['\'', '’', '-']);
        }
        let lower = match ascii {
            true if !upper => word.into(),
            true => word.to_ascii_lowercase_smolstr(),
            false => word.to_lowercase().into(),
        };
        words.push(Word { start, end: start + word.len(), lower });
    }
    words
}

/// Role of a byte in a word.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum LetterClass {
    /// A letter in lower case, a digit or `_`: a word can begin with it.
    Letter,
    /// A letter in upper case.
    Upper,
    /// An apostrophe or a hyphen: it can stand within a word.
    Inside,
    /// No part of a word.
    Never,
    /// Part of a character that isn't ASCII.
    Unknown,
}

const CLASSES: [LetterClass; 256] = {
    let mut classes = [LetterClass::Unknown; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        classes[byte as usize] = match byte {
            b'_' | b'0'..=b'9' | b'a'..=b'z' => LetterClass::Letter,
            b'A'..=b'Z' => LetterClass::Upper,
            b'\'' | b'-' => LetterClass::Inside,
            _ => LetterClass::Never,
        };
        byte += 1;
    }
    classes
};

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use figment::{
        Figment,
        providers::{Format as _, Toml},
    };

    use super::*;

    #[test]
    fn every_file_is_whole() {
        let means: HashSet<&str> = english().verbs.iter().map(|verb| verb.means.as_str()).collect();
        for (lexicon, file) in all().iter().zip(FILES) {
            assert!(!lexicon.language.is_empty(), "{}", Figment::from(Toml::string(file)).extract::<Lexicon>().unwrap_err());
            assert_eq!(lexicon.months.len(), 12);
            for (patterns, compiled) in
                [(&lexicon.absences, lexicon.absences()), (&lexicon.not_found, lexicon.not_found()), (&lexicon.frames, lexicon.frames())]
            {
                assert!(!patterns.is_empty() && patterns.len() == compiled.len(), "{}", lexicon.language);
            }
            assert!(lexicon.frames().iter().all(|frame| frame.has_group("verb")));
            assert!(lexicon.verbs.iter().all(|verb| means.contains(verb.means.as_str())));
            assert!(lexicon.nouns.keys().all(|noun| english().nouns.contains_key(noun)));
        }
    }

    #[test]
    fn languages() {
        for (text, language_of) in [
            ("I found 12 players in the list.", "en"),
            ("Ich habe 12 Spieler gefunden.", "de"),
            ("Se encontraron 12 jugadores en la lista.", "es"),
            ("J'ai trouvé 12 joueurs dans la liste.", "fr"),
            ("Ho trovato 12 giocatori nella lista.", "it"),
            ("Encontrei 12 jogadores na lista.", "pt"),
            ("Ik heb 12 spelers gevonden op de lijst.", "nl"),
            ("Znalazłem 12 graczy na liście.", "pl"),
            ("Listede 12 oyuncu buldum.", "tr"),
        ] {
            assert_eq!(language(&words(text), None).language, language_of, "{text}");
        }
        assert_eq!(language(&words("12"), Some(&all()[1])).language, "de");
        assert_eq!((month("Mai"), month("DEC"), month("dog")), (Some(5), Some(12), None));
    }
}
