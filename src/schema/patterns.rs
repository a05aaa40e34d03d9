//! The patterns of a schema: compiled within a budget of bytes, matched within a budget of steps.
//!
//! Replaces `jsonschema`'s own `pattern`. A pattern without look-around becomes a lazy DFA, which reads each byte once and fails if it
//! would need more states than its cache holds; one with look-around backtracks, less the longer the text. A match that can't be decided
//! within these bounds ends the check as if its steps were used up. Pure.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use jsonschema::{Keyword, ValidationError};
use regex_automata::{
    Input,
    hybrid::dfa::{Cache, DFA},
    nfa::thompson::{self, WhichCaptures, pikevm::PikeVM},
};
use serde_json::Value;

use crate::{
    fuel::{Looked, MeteredJson, exhaust, spend},
    strict_json::brief,
};

/// Bytes of one compiled pattern.
const BYTES_MAX: u64 = 2 << 20;
/// Bytes of all the compiled patterns of one schema.
pub(crate) const SCHEMA_BYTES_MAX: u64 = 4 << 20;
/// Parts of a pattern before it is compiled, repetitions expanded.
const PARTS_MAX: u64 = 200_000;
/// The same for a pattern with look-around, whose compiled size isn't known.
const LOOKAROUND_PARTS_MAX: u64 = 20_000;
/// Bytes of one such part, compiled.
const PART_BYTES: u64 = 64;
/// Parts of a Unicode class.
const CLASS_PARTS: u64 = 1500;
/// Bytes of the states that a lazy DFA caches.
const CACHE_BYTES_MAX: usize = 1 << 20;
/// Bytes of the cache that are kept between texts.
const CACHE_BYTES_KEPT: usize = 64 << 10;
/// States of a pattern times bytes of a text, up to which states are simulated if the lazy DFA fails.
const SIMULATED_MAX: u64 = 1_000_000;
/// Limits of backtracking: steps back, and bytes of the longest text for them; each step may read the whole text. Small limits are tried
/// first, because a try counts as if its limit were used up.
const BACKTRACKS: [(usize, usize); 5] = [(100, 4 << 10), (30, 1 << 20), (5_000, 256), (1_000, 4 << 10), (200, 64 << 10)];
/// Number of [`BACKTRACKS`] that are for the quick try.
const QUICK: usize = 2;
/// Bytes that a step back reads besides the text's.
const BACKTRACK_BYTES: usize = 50;
/// Steps back on a member's name.
pub(crate) const NAME_BACKTRACKS_MAX: usize = 2000;
/// Bytes of a pattern that a fault quotes.
const QUOTED_CHARS_MAX: usize = 200;

/// Reason why a pattern isn't compiled.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum PatternFault {
    /// Not a regular expression.
    Invalid,
    /// Too large, alone or together with the schema's other patterns.
    TooLarge,
}

/// The patterns of one schema, each compiled once.
#[derive(Debug)]
pub(crate) struct Patterns {
    compiled: HashMap<Box<str>, Result<Arc<CompiledPattern>, PatternFault>>,
    bytes_left: u64,
    parts_left: u64,
}

impl Default for Patterns {
    fn default() -> Self {
        Self { compiled: HashMap::new(), bytes_left: SCHEMA_BYTES_MAX, parts_left: 2 * PARTS_MAX }
    }
}

impl Patterns {
    /// Compiles a pattern, or returns it from the cache. `copies`: number of times that its bytes are needed.
    pub(crate) fn compile(&mut self, source: &str, copies: u64) -> Result<Arc<CompiledPattern>, PatternFault> {
        if let Some(known) = self.compiled.get(source) {
            return known.clone();
        }
        let parts = parts(source);
        let fits = parts <= self.parts_left;
        self.parts_left = self.parts_left.saturating_sub(parts);
        let compiled = if fits { CompiledPattern::compile(source, parts, self.bytes_left / copies) } else { Err(PatternFault::TooLarge) };
        if let Ok(pattern) = &compiled {
            self.bytes_left = self.bytes_left.saturating_sub(pattern.bytes.saturating_mul(copies));
        }
        let compiled = compiled.map(Arc::new);
        self.compiled.insert(source.into(), compiled.clone());
        compiled
    }

    /// True if a pattern was too large.
    pub(crate) fn too_large(&self) -> bool {
        self.compiled.values().any(|own| own.as_ref().is_err_and(|fault| *fault == PatternFault::TooLarge))
    }

    /// Bytes of all compiled patterns.
    pub(crate) fn bytes(&self) -> u64 {
        SCHEMA_BYTES_MAX - self.bytes_left
    }
}

/// One compiled pattern.
#[derive(Debug)]
pub(crate) struct CompiledPattern {
    source: Box<str>,
    bytes: u64,
    engine: Engine,
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "few are made, and each lives in a compiled schema")]
enum Engine {
    Linear { dfa: Box<DFA>, cache: Mutex<Option<Box<Cache>>>, states: u64 },
    Backtracking { translated: Box<str>, by_backtracks: [OnceLock<Option<fancy_regex::Regex>>; BACKTRACKS.len()] },
}

impl CompiledPattern {
    fn compile(source: &str, parts: u64, bytes_max: u64) -> Result<Self, PatternFault> {
        let translated = jsonschema_regex::to_rust_regex(source).map_err(|()| PatternFault::Invalid)?;
        let bytes_max = bytes_max.min(BYTES_MAX);
        if let Ok(syntax) = regex_syntax::parse(&translated) {
            if parts > PARTS_MAX {
                return Err(PatternFault::TooLarge);
            }
            let config = thompson::Config::new()
                .nfa_size_limit(Some(usize::try_from(bytes_max).unwrap_or(usize::MAX)))
                .which_captures(WhichCaptures::None)
                .shrink(false);
            let nfa = thompson::Compiler::new().configure(config).build_from_hir(&syntax).map_err(|_| PatternFault::TooLarge)?;
            let (states, bytes) = (nfa.states().len() as u64, nfa.memory_usage() as u64);
            let config = DFA::config()
                .cache_capacity(CACHE_BYTES_MAX)
                .skip_cache_capacity_check(true)
                .minimum_cache_clear_count(Some(0))
                .unicode_word_boundary(true);
            let dfa = DFA::builder().configure(config).build_from_nfa(nfa).map_err(|_| PatternFault::Invalid)?;
            let engine = Engine::Linear { dfa: Box::new(dfa), cache: Mutex::new(None), states };
            return Ok(Self { source: source.into(), bytes: bytes + CACHE_BYTES_KEPT as u64 / 16, engine });
        }
        let bytes = parts.saturating_mul(PART_BYTES).saturating_mul(2);
        if parts > LOOKAROUND_PARTS_MAX || bytes > bytes_max {
            return Err(PatternFault::TooLarge);
        }
        let by_backtracks: [OnceLock<Option<fancy_regex::Regex>>; BACKTRACKS.len()] = Default::default();
        let pattern = Self { source: source.into(), bytes, engine: Engine::Backtracking { translated: translated.into(), by_backtracks } };
        // What isn't valid for one of them isn't for any.
        if pattern.backtracking(0).is_some() { Ok(pattern) } else { Err(PatternFault::Invalid) }
    }

    /// True if the pattern has look-around, so that it must backtrack.
    pub(crate) fn looks_around(&self) -> bool {
        matches!(self.engine, Engine::Backtracking { .. })
    }

    /// Number of its states; 0 for a pattern with look-around.
    pub(crate) fn states(&self) -> u64 {
        match &self.engine {
            Engine::Linear { states, .. } => *states,
            Engine::Backtracking { .. } => 0,
        }
    }

    /// The regex with the backtracking limit at this index of [`BACKTRACKS`].
    fn backtracking(&self, at: usize) -> Option<&fancy_regex::Regex> {
        let Engine::Backtracking { translated, by_backtracks } = &self.engine else { return None };
        let build = || {
            let mut builder = fancy_regex::RegexBuilder::new(translated);
            builder.delegate_size_limit(BYTES_MAX as usize / 8).delegate_dfa_size_limit(CACHE_BYTES_KEPT);
            builder.backtrack_limit(BACKTRACKS.get(at).map_or(0, |(backtracks, _)| *backtracks)).build().ok()
        };
        by_backtracks.get(at)?.get_or_init(build).as_ref()
    }

    /// Matches a pattern with look-around, first quickly and, if that wasn't enough, thoroughly.
    fn look_around(&self, text: &str) -> Option<bool> {
        for tries in [0..QUICK, QUICK..BACKTRACKS.len()] {
            let at = tries.into_iter().find(|at| BACKTRACKS.get(*at).is_some_and(|(_, bytes_max)| text.len() <= *bytes_max))?;
            let backtracks = BACKTRACKS.get(at).map_or(0, |(backtracks, _)| *backtracks);
            spend((backtracks * (text.len() + BACKTRACK_BYTES) / 16) as u64);
            if let Ok(matches) = self.backtracking(at)?.is_match(text) {
                return Some(matches);
            }
        }
        None
    }

    /// True if it matches anywhere in `text`. Leaves the check if that can't be decided.
    pub(crate) fn is_match(&self, text: &str) -> bool {
        spend(4 + text.len() as u64 / 8);
        match &self.engine {
            Engine::Linear { dfa, cache, states } => {
                if let Some(matches) = search(dfa, cache, text) {
                    return matches;
                }
                let simulated = states.saturating_mul(text.len() as u64);
                if simulated > SIMULATED_MAX {
                    exhaust();
                }
                spend(simulated);
                let Ok(machine) = PikeVM::new_from_nfa(dfa.get_nfa().clone()) else { exhaust() };
                machine.is_match(&mut machine.create_cache(), text)
            }
            Engine::Backtracking { .. } => {
                let Some(matches) = self.look_around(text) else { exhaust() };
                matches
            }
        }
    }
}

/// Searches with the lazy DFA; `None` if that fails.
fn search(dfa: &DFA, kept: &Mutex<Option<Box<Cache>>>, text: &str) -> Option<bool> {
    let warm = kept.lock().unwrap_or_else(PoisonError::into_inner).take();
    let was_warm = warm.is_some();
    let mut cache = warm.unwrap_or_else(|| Box::new(dfa.create_cache()));
    let before = cache.memory_usage();
    let input = Input::new(text).earliest(true);
    let mut found = dfa.try_search_fwd(&mut cache, &input);
    if found.is_err() && was_warm {
        dfa.reset_cache(&mut cache);
        found = dfa.try_search_fwd(&mut cache, &input);
    }
    let grown = cache.memory_usage().saturating_sub(before);
    if cache.memory_usage() <= CACHE_BYTES_KEPT {
        *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(cache);
    }
    // States are made in time like their size.
    spend(grown as u64 / 4);
    found.ok().map(|found| found.is_some())
}

/// The keyword `pattern`.
pub(crate) struct PatternKeyword(pub(crate) Arc<CompiledPattern>);

impl<'i> Keyword<'i, MeteredJson> for PatternKeyword {
    fn validate(&self, instance: Looked<'i>) -> Result<(), ValidationError<'i>> {
        if Keyword::<MeteredJson>::is_valid(self, instance) {
            return Ok(());
        }
        Err(ValidationError::custom(format!("text that matches /{}/", brief(&self.0.source, QUOTED_CHARS_MAX))))
    }

    fn is_valid(&self, instance: Looked<'i>) -> bool {
        match instance.0 {
            Value::String(text) => self.0.is_match(text),
            _ => {
                spend(1);
                true
            }
        }
    }
}

/// Number of a pattern's parts with repetitions expanded: the cost of compiling, estimated beforehand. Rather too high than too low.
fn parts(source: &str) -> u64 {
    // By open group: the parts so far, and those of the last atom.
    let mut open: Vec<(u64, u64)> = Vec::new();
    let (mut sum, mut last) = (1_u64, 0_u64);
    let mut rest = source.chars();
    while let Some(c) = rest.next() {
        let atom = match c {
            '(' => {
                open.push((sum, last));
                (sum, last) = (1, 0);
                continue;
            }
            ')' => {
                let (outer, _) = open.pop().unwrap_or((1, 0));
                last = sum;
                sum = outer.saturating_add(last);
                continue;
            }
            '{' => {
                let counts: String = rest.clone().take_while(|c| *c != '}').take(24).collect();
                let mut numbers = counts.split(',').map(|own| own.trim().parse::<u64>());
                let times = match (numbers.next(), numbers.next()) {
                    (Some(Ok(least)), None) => least,
                    (Some(Ok(least)), Some(Ok(most))) => most.max(least),
                    (Some(Ok(least)), Some(Err(_))) => least.saturating_add(1),
                    _ => continue,
                };
                let repeated = last.saturating_mul(times.max(1));
                sum = sum.saturating_add(repeated - last);
                last = repeated;
                rest.by_ref().nth(counts.chars().count());
                continue;
            }
            '\\' => match rest.next() {
                Some('p' | 'P') => {
                    if rest.as_str().starts_with('{') {
                        rest.by_ref().find(|c| *c == '}');
                    }
                    CLASS_PARTS
                }
                Some('w' | 'W' | 'd' | 'D' | 's' | 'S') => 40,
                _ => 4,
            },
            '[' => {
                let mut class = 12_u64;
                while let Some(c) = rest.next().filter(|c| *c != ']') {
                    let member = match c {
                        '\\' if matches!(rest.next(), Some('p' | 'P')) => CLASS_PARTS,
                        '^' => 12,
                        _ => 4,
                    };
                    class = class.saturating_add(member);
                }
                class
            }
            '.' => 12,
            c if c.is_ascii() => 2,
            _ => 6,
        };
        last = atom;
        sum = sum.saturating_add(atom);
    }
    // Groups that are never closed are no pattern.
    open.iter().fold(sum, |all, (sum, _)| all.saturating_add(*sum))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuel::{Costs, TURN_STEPS_MAX, within};

    #[test]
    fn sizes_are_told_before() {
        for (source, least, most) in [
            ("", 1, 1),
            ("^[a-z0-9_-]{1,64}$", 64, 4_000),
            (r"^\p{L}{20}$", 20 * CLASS_PARTS, 40 * CLASS_PARTS),
            (r"^[\p{L}' -]{20}$", 20 * CLASS_PARTS, 40 * CLASS_PARTS),
            ("(a{1000}){1000}", 1_000_000, 10_000_000),
            ("((((a{99}){99}){99}){99}){99}){99}", 1_000_000_000, u64::MAX),
            ("(?=(a{500}){500})x", 250_000, 2_000_000),
            ("a{,5}{", 1, 10),
            ("[{}]{3}(", 1, 200),
        ] {
            assert!((least..=most).contains(&parts(source)), "{source} {}", parts(source));
        }
    }

    #[test]
    fn patterns_match_as_before() {
        for (source, text, matches) in [
            ("^a+$", "aaa", true),
            ("^a+$", "aab", false),
            ("b", "abc", true),
            (r"^\d{3}-\d{4}$", "555-0100", true),
            (r"\bfoo\b", "a foo é", true),
            (r"^\S+$", "a b", false),
            ("^(?!x)a", "ab", true),
            ("^(?!x)a", "xa", false),
            (r"^(?=.*\d)(?=.*[a-z]).{4,}$", "abc1", true),
            (r"(a)\1", "aa", true),
            ("", "anything", true),
        ] {
            let pattern = Patterns::default().compile(source, 1).expect(source);
            for _ in 0..2 {
                assert_eq!(within(TURN_STEPS_MAX, Costs::default(), || pattern.is_match(text)), Ok(matches), "{source} {text}");
            }
        }
    }

    #[test]
    fn what_cant_be_told_in_bounds_isnt_waited_for() {
        // Without a period, so that no two places look alike.
        let next = |n: &mut u32| {
            *n = n.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            Some(if *n >> 31 == 0 { 'a' } else { 'b' })
        };
        let long: String = std::iter::repeat(()).scan(7, |n, ()| next(n)).take(400_000).collect();
        for (source, told) in [
            ("^[ab]+$", true),
            ("^(a|b)*c", true),
            ("^.{1,2000}", true),
            ("(a|b)*a(a|b){30}c", false),
            ("(?=.*x).*y", false),
            ("(?=(a+)+$)b", false),
        ] {
            let pattern = Patterns::default().compile(source, 1).expect(source);
            assert_eq!(within(TURN_STEPS_MAX, Costs::default(), || pattern.is_match(&long)).is_ok(), told, "{source}");
        }
    }
}
