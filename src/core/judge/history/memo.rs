//! Readings of the items of histories, for later requests with items of the same bytes.
//!
//! A reading follows from its item alone, for one API, scope, ring of keys, policy and set of tools: it is the same in every conversation
//! that has the item, wherever it stands. What depends on other items, too, is kept with what it depends on. All of it is read when it is
//! first needed. It changes no result, only what results cost, so this counts as pure.

use std::sync::{Arc, OnceLock};

use super::{
    ExecutionProof,
    stamp::{ResultReader, ResultTraits},
};
use crate::{claims::evidence::ResultReading, marks::MarkTime, violation::Violation, wire::json::splice::Splices};

/// Bytes that a violation takes, about.
const VIOLATION_BYTES: usize = 512;

/// Readings of the items of a history, in order. Empty: nothing is to be remembered.
pub type HistoryMemo = Vec<Arc<ItemMemo>>;

/// Reading of one item of a history.
#[derive(Debug, Default)]
pub struct ItemMemo {
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
    /// The edits that stamp it.
    pub stamp: OnceLock<StampMemo>,
    /// Evidence read from it, with the call that it answered.
    pub reading: OnceLock<(AnsweredItem, Arc<ResultReading>)>,
}

/// The edits that stamp a result.
#[derive(Debug)]
pub struct StampMemo {
    /// The execution that they name.
    pub proof: Arc<ExecutionProof>,
    /// The reader that they are for.
    pub reader: ResultReader,
    /// The edits, at offsets from the item's start.
    pub edits: Splices,
}

/// The call that a result answered.
#[derive(Debug)]
pub struct AnsweredItem {
    /// The call's item.
    pub item: Arc<ItemMemo>,
    /// Number of the call in it.
    pub number: usize,
}

impl ItemMemo {
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
            Box::new(ResultMemo {
                nature,
                bytes,
                digest: OnceLock::new(),
                raw_digest: OnceLock::new(),
                proof: OnceLock::new(),
                stamp: OnceLock::new(),
                reading: OnceLock::new(),
            })
        })
    }
}

impl ItemMemo {
    /// Bytes of memory that it takes.
    pub fn bytes(&self) -> usize {
        let text = self.text.get().map_or(0, |text| text.len());
        let calls: usize = self.known_calls().iter().map(CallMemo::bytes).sum();
        let result = self.known_result().map_or(0, ResultMemo::bytes);
        2 * size_of::<usize>() + size_of::<Self>() + text + calls + result
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
        // Its text and arguments are counted with the items that they stand in.
        let stamp = self.stamp.get().map_or(0, |stamp| stamp.edits.bytes());
        size_of::<Self>() + proof + stamp + self.reading.get().map_or(0, |(_, reading)| reading.bytes())
    }
}

/// A memo for a history that begins with the items of `known`. `new`: readings of the items behind them, as far as they were read before.
pub fn memo_of(known: &[Arc<ItemMemo>], new: impl Iterator<Item = Arc<ItemMemo>>) -> HistoryMemo {
    known.iter().cloned().chain(new).collect()
}
