//! Memoised classification of results: a conversation sends its earlier results again with every turn.
//!
//! The memory changes no result, only its cost, so this counts as pure.

use std::{
    borrow::Cow,
    cell::OnceCell,
    hash::{BuildHasher as _, RandomState},
    sync::atomic::{AtomicU64, Ordering},
};

use regex::RegexSet;

use super::{
    memo::ItemMemo,
    stamp::{ResultTraits, nature},
};
use crate::judge::history::PastResult;

/// Results that are stored; 8 bytes each.
const SLOTS: usize = 4096;
/// Bits of a slot that hold the classification; the others hold the result's hash.
const FLAGS: u64 = 0b11_1111;

/// Classifies results; those seen before aren't read again.
#[derive(Debug)]
pub struct ResultClassifier {
    patterns: RegexSet,
    /// Keyed, so that no one can construct two results with the same hash.
    hasher: RandomState,
    /// Hash of a result, with its classification in the last six bits; 0: empty.
    seen: Box<[AtomicU64]>,
}

impl ResultClassifier {
    /// Classifier with these error patterns.
    pub fn new(patterns: RegexSet) -> Self {
        Self { patterns, hasher: RandomState::new(), seen: (0..SLOTS).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Classifies a text.
    pub fn of(&self, text: &str) -> ResultTraits {
        nature(text, &self.patterns)
    }

    /// Builds a result in the history. `raw`: its content in the request; `text`: computes its text, called only if needed; `large`: bytes
    /// above which a result is large; `memo`: what was read from it before.
    pub fn result<'h>(
        &self,
        id: Option<Cow<'h, str>>,
        name: Option<Cow<'h, str>>,
        raw: impl Into<Cow<'h, str>>,
        large: u64,
        memo: Option<&'h ItemMemo>,
        text: impl Fn() -> Cow<'h, str>,
    ) -> PastResult<'h> {
        let raw = raw.into();
        // Who needs the text later needn't resolve its escapes again.
        let (kept, own) = (memo.map(|memo| &memo.text), OnceCell::new());
        let text = || match kept {
            Some(kept) => &**kept.get_or_init(|| text().into()),
            None => &**own.get_or_init(&text),
        };
        let read = || {
            let bytes = if raw.len() as u64 > large { text().len() } else { raw.len() };
            (self.remembered(&raw, || self.of(text())), bytes)
        };
        let memo = memo.map(|memo| memo.result(read));
        let (nature, bytes) = memo.map_or_else(read, |memo| (memo.nature, memo.bytes));
        PastResult { id, name, nature, bytes, raw, memo, text: kept }
    }

    fn remembered(&self, raw: &str, read: impl FnOnce() -> ResultTraits) -> ResultTraits {
        let hash = self.hasher.hash_one(raw);
        let Some(slot) = self.seen.get((hash >> 6) as usize % SLOTS) else { return read() };
        let seen = slot.load(Ordering::Relaxed);
        if seen != 0 && seen & !FLAGS == hash & !FLAGS {
            return unpacked(seen);
        }
        let nature = read();
        slot.store(hash & !FLAGS | packed(nature), Ordering::Relaxed);
        nature
    }
}

fn packed(nature: ResultTraits) -> u64 {
    let ResultTraits { failed, stamped, object, members, told_at_top } = nature;
    let flags = [failed, stamped, object, members, told_at_top.is_some(), told_at_top == Some(true)];
    flags.iter().fold(0, |bits, bit| bits << 1 | u64::from(*bit))
}

fn unpacked(bits: u64) -> ResultTraits {
    let bit = |at: u32| bits >> at & 1 == 1;
    ResultTraits { failed: bit(5), stamped: bit(4), object: bit(3), members: bit(2), told_at_top: bit(1).then(|| bit(0)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::json::string::quote;

    fn natures() -> ResultClassifier {
        ResultClassifier::new(RegexSet::new(crate::policy::Results::default().error_patterns).unwrap())
    }

    #[test]
    fn what_is_remembered_is_what_was_read() {
        let natures = natures();
        let texts = [r#"{"error":"no"}"#, "{}", r#"{"a":1}"#, r#"{"execution_id":"x"}"#, "Error: x", "[execution_id: x]", "", "fine"];
        for round in 0..3 {
            for text in texts {
                let raw = quote(text);
                let read = natures.result(None, None, &*raw, 1 << 20, None, || Cow::Borrowed(text)).nature;
                assert_eq!(read, natures.of(text), "{text:?} in round {round}");
            }
        }
        for bits in 0..=FLAGS {
            // Without the bit that says that something is told, the last one says nothing.
            let expected = if bits & 0b10 == 0 { bits & !1 } else { bits };
            assert_eq!(packed(unpacked(bits)), expected);
        }
    }

    #[test]
    fn what_came_before_is_not_read_again() {
        let natures = natures();
        let count = std::cell::Cell::new(0);
        let text = || {
            count.set(count.get() + 1);
            Cow::Borrowed(r#"{"success":false}"#)
        };
        for _ in 0..3 {
            assert!(natures.result(None, None, "raw", 1 << 20, None, text).nature.failed);
        }
        assert_eq!(count.get(), 1);
        // Only what may be large is measured.
        assert_eq!(natures.result(None, None, "raw", 2, None, text).bytes, 17);
        assert_eq!(natures.result(None, None, "raw", 3, None, text).bytes, 3);
        assert_eq!(count.get(), 2);
    }

    #[test]
    fn more_results_than_there_is_room_for() {
        let natures = natures();
        for number in 0..3 * SLOTS {
            let text = if number % 2 == 0 { format!("Error: {number}") } else { number.to_string() };
            let read = natures.result(None, None, &text, 1 << 20, None, || Cow::Borrowed(&text)).nature;
            assert_eq!(read, natures.of(&text), "{text}");
        }
    }
}
