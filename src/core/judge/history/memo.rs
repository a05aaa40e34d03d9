//! What was read from the items of a history, for later requests that begin with the same bytes.
//!
//! A [`ItemReading`] follows from its item alone, for one API, scope, ring of keys, policy and set of tools: it is the same in every
//! conversation that has the item. What an [`ItemMemo`] has beside it depends on what stands in front of the item, too: it is the same in
//! every request that begins with the same bytes. All of it is read when it is first needed. It changes no result, only what results cost,
//! so this counts as pure.

use std::sync::{Arc, OnceLock};

use super::{ExecutionProof, stamp::ResultTraits};
use crate::{claims::evidence::ResultReading, marks::MarkTime, violation::Violation, wire::json::splice::Splices};

/// Bytes that a violation takes, about.
const VIOLATION_BYTES: usize = 512;

/// Readings of the items of a history, in order. Empty: nothing is to be remembered.
pub type HistoryMemo = Vec<Arc<ItemMemo>>;

/// Reading of one item of a history, in one conversation.
#[derive(Debug, Default)]
pub struct ItemMemo {
    /// Reading that follows from the item alone.
    pub own: Arc<ItemReading>,
    /// The edits that stamp it, a result, with the execution that they name.
    pub stamp: OnceLock<(Arc<ExecutionProof>, Splices)>,
    /// Evidence read from it, a result, with the place of the call that it answered: the call's item, and its number there.
    pub reading: OnceLock<((usize, usize), Arc<ResultReading>)>,
}

/// Reading of one item, whatever conversation it stands in.
#[derive(Debug, Default)]
pub struct ItemReading {
    calls: OnceLock<Box<[CallMemo]>>,
    result: OnceLock<Box<ResultMemo>>,
    /// Text of a message.
    pub text: OnceLock<Arc<str>>,
}

/// Reading of a call.
#[derive(Debug, Default)]
pub struct CallMemo {
    /// Result of verifying the call, if it is one that was let through.
    pub verified: OnceLock<VerifiedCall>,
    /// [`super::calls::call_digest`] of the call.
    pub digest: OnceLock<u64>,
    /// Text of its arguments.
    pub arguments: OnceLock<Arc<str>>,
}

/// A call whose mark fits.
#[derive(Debug)]
pub struct VerifiedCall {
    /// Mark time of the call.
    pub moment: MarkTime,
    /// Violations found in the call.
    pub violations: Box<[Violation]>,
}

/// Reading of a result.
#[derive(Debug)]
pub struct ResultMemo {
    /// Properties read from its text.
    pub nature: ResultTraits,
    /// [`super::PastResult::bytes`].
    pub bytes: usize,
    /// BLAKE3 of the result.
    pub digest: OnceLock<[u8; 32]>,
    /// Digest of its raw content.
    pub raw_digest: OnceLock<u64>,
    /// The execution that it proves, with the call that it answered.
    pub proof: OnceLock<Arc<ExecutionProof>>,
}

impl ItemReading {
    /// Readings of the item's calls, of which there are `count`.
    pub fn calls(&self, count: usize) -> &[CallMemo] {
        self.calls.get_or_init(|| (0..count).map(|_| CallMemo::default()).collect())
    }

    /// Readings of the item's calls so far.
    pub fn known_calls(&self) -> &[CallMemo] {
        self.calls.get().map_or(&[], |calls| calls)
    }

    /// Reading of the item as a result so far.
    pub fn known_result(&self) -> Option<&ResultMemo> {
        self.result.get().map(|result| &**result)
    }

    /// Reading of the item, a result. `read`: its properties and the bytes of its text.
    pub fn result(&self, read: impl FnOnce() -> (ResultTraits, usize)) -> &ResultMemo {
        self.result.get_or_init(|| {
            let (nature, bytes) = read();
            Box::new(ResultMemo { nature, bytes, digest: OnceLock::new(), raw_digest: OnceLock::new(), proof: OnceLock::new() })
        })
    }

    fn bytes(&self) -> usize {
        let text = self.text.get().map_or(0, |text| text.len());
        let calls: usize = self.known_calls().iter().map(CallMemo::bytes).sum();
        let result = self.known_result().map_or(0, ResultMemo::bytes);
        2 * size_of::<usize>() + size_of::<Self>() + text + calls + result
    }
}

impl ItemMemo {
    /// A memo of an item that was read before, in this conversation or another.
    pub fn of(own: Arc<ItemReading>) -> Self {
        Self { own, ..Self::default() }
    }

    /// Bytes of memory that it takes, with those that other conversations share.
    pub fn bytes(&self) -> usize {
        // Its text and arguments are counted with the items that they stand in.
        let stamp = self.stamp.get().map_or(0, |(_, edits)| edits.bytes());
        let reading = self.reading.get().map_or(0, |(_, reading)| reading.bytes());
        2 * size_of::<usize>() + size_of::<Self>() + self.own.bytes() + stamp + reading
    }
}

impl CallMemo {
    fn bytes(&self) -> usize {
        let violations = self.verified.get().map_or(0, |verified| verified.violations.len() * VIOLATION_BYTES);
        size_of::<Self>() + self.arguments.get().map_or(0, |text| text.len()) + violations
    }
}

impl ResultMemo {
    fn bytes(&self) -> usize {
        let proof = self.proof.get().map_or(0, |proof| size_of::<ExecutionProof>() + proof.id.len() + proof.mark.len());
        size_of::<Self>() + proof
    }
}

/// A memo for a history that begins with the items of `known`. `new`: readings of the items behind them, as far as they were read before.
pub fn memo_of(known: &[Arc<ItemMemo>], new: impl Iterator<Item = Arc<ItemReading>>) -> HistoryMemo {
    known.iter().cloned().chain(new.map(|own| Arc::new(ItemMemo::of(own)))).collect()
}
