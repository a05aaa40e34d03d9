//! The trail of a run: the calls since the last user message, turn by turn, with their outcome.
//!
//! Built by [`crate::judge::history`], used by [`crate::judge::loops`]. All calls of one turn are one step. Pure.

use serde::{Deserialize, Serialize};

use crate::{
    judge::history::HistoryRules,
    judge::history::{PastCall, PastResult},
    marks::MarkTime,
    wire::json::canonical::canonical,
};

/// Latest steps that are kept. Larger limits never apply within one user turn.
pub const STEPS_MAX: usize = 1024;
/// Calls of one step that are compared with those of another.
const COMPARED_MAX: usize = 32;

/// Steps since the last user message, in order.
pub type CallHistory = Vec<CallTurn>;

/// The calls of one model turn.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct CallTurn {
    /// Mark time of the turn; `None` if none of its calls is verified.
    pub moment: Option<MarkTime>,
    /// The calls of the turn.
    pub uses: Vec<PastUse>,
}

/// A call with its outcome.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct PastUse {
    /// Name of the tool.
    pub tool: Box<str>,
    /// True if the call failed; `None` while there is no result.
    pub failed: Option<bool>,
    /// Fingerprint of the call and its result, if it was computed.
    pub same: Option<CallFingerprint>,
}

/// Fingerprint of a call and its result.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct CallFingerprint {
    /// Digest of the tool and its canonical arguments.
    pub call: u64,
    /// Digest of the result as it is in the request.
    pub result: u64,
}

/// Digest of a tool and its arguments, independent of how they are written.
pub fn call_digest(tool: &str, arguments: &str) -> u64 {
    let canonical = canonical(if arguments.trim().is_empty() { "{}" } else { arguments });
    digest(&[tool.as_bytes(), canonical.as_deref().unwrap_or(arguments).as_bytes()])
}

/// Digest for comparing values; proves nothing.
fn digest(parts: &[&[u8]]) -> u64 {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
    }
    let mut bytes = [0; 8];
    hasher.finalize_xof().fill(&mut bytes);
    u64::from_le_bytes(bytes)
}

/// Position of a call in a [`CallHistoryBuilder`].
#[derive(Clone, Copy, Debug)]
pub(in crate::judge) struct CallIndex {
    /// Number of the user's turn that the call belongs to.
    turn: u32,
    step: usize,
    at: usize,
}

/// Builds the trail of a conversation.
#[derive(Debug, Default)]
pub(in crate::judge) struct CallHistoryBuilder<'h> {
    steps: Vec<Draft<'h>>,
    /// Number of user messages so far.
    turn: u32,
    /// True if a result came since the last call: the next call begins a step.
    answered: bool,
}

#[derive(Debug, Default)]
struct Draft<'h> {
    moment: Option<MarkTime>,
    uses: Vec<DraftUse<'h>>,
}

#[derive(Debug)]
struct DraftUse<'h> {
    tool: &'h str,
    call: ArgumentsOrDigest<'h>,
    result: Option<&'h PastResult<'h>>,
}

#[derive(Clone, Copy, Debug)]
enum ArgumentsOrDigest<'h> {
    With(&'h PastCall<'h>),
    /// Digest of a call that isn't in the request.
    Digest(u64),
}

impl<'h> CallHistoryBuilder<'h> {
    /// Records a user message: earlier steps belong to another run.
    pub(in crate::judge) fn user(&mut self) {
        self.steps.clear();
        (self.turn, self.answered) = (self.turn + 1, false);
    }

    /// Begins a new turn: the calls of the next message of the model belong to it.
    pub(in crate::judge) fn begin_turn(&mut self) {
        self.answered = true;
    }

    /// Records a call.
    pub(in crate::judge) fn call(&mut self, call: &'h PastCall<'h>, moment: Option<MarkTime>) -> CallIndex {
        self.add(&call.name, ArgumentsOrDigest::With(call), moment)
    }

    /// Records a call that isn't in the request but has a result there.
    pub(in crate::judge) fn remembered(&mut self, tool: &'h str, digest: u64, moment: MarkTime) -> CallIndex {
        self.add(tool, ArgumentsOrDigest::Digest(digest), Some(moment))
    }

    fn add(&mut self, tool: &'h str, call: ArgumentsOrDigest<'h>, moment: Option<MarkTime>) -> CallIndex {
        // The calls of one turn get their marks at one time, wherever a client puts them then.
        let time = moment.map(|moment| moment.time_ms);
        let same_time = |step: &Draft<'_>| time.is_some() && step.moment.map(|own| own.time_ms) == time;
        let goes_on = self.steps.last().is_some_and(|step| !self.answered || same_time(step));
        if !goes_on {
            self.steps.push(Draft::default());
        }
        self.answered = false;
        let step = self.steps.len() - 1;
        let mut at = 0;
        if let Some(draft) = self.steps.last_mut() {
            at = draft.uses.len();
            draft.moment = draft.moment.max(moment);
            draft.uses.push(DraftUse { tool, call, result: None });
        }
        CallIndex { turn: self.turn, step, at }
    }

    /// Records the result of a call.
    pub(in crate::judge) fn result(&mut self, spot: CallIndex, result: &'h PastResult<'h>) {
        self.answered = true;
        let own = self.steps.get_mut(spot.step).filter(|_| spot.turn == self.turn);
        if let Some(own) = own.and_then(|step| step.uses.get_mut(spot.at)) {
            own.result = Some(result);
        }
    }

    /// Finishes the trail. The calls of a step get fingerprints if it looks like its neighbour, or if the rules
    /// tell all of them apart.
    pub(in crate::judge) fn finish(self, rules: &HistoryRules<'_>) -> CallHistory {
        let earlier = if self.turn == 0 { rules.trail } else { &[] };
        let alike = |at: usize| matches!((at.checked_sub(1).and_then(|at| self.steps.get(at)), self.steps.get(at)), (Some(a), Some(b)) if look_alike(a, b));
        // From here on each step looks like the one before it.
        let mut from = self.steps.len();
        while from > 0 && (rules.told_apart || alike(from - 1) || from < self.steps.len() && alike(from)) {
            from -= 1;
        }
        let surplus = (earlier.len() + self.steps.len()).saturating_sub(STEPS_MAX);
        let own = self.steps.iter().enumerate().map(|(at, step)| step.step(at >= from));
        earlier.iter().cloned().chain(own).skip(surplus).collect()
    }
}

impl Draft<'_> {
    fn step(&self, told_apart: bool) -> CallTurn {
        let uses = self.uses.iter().enumerate().map(|(at, own)| PastUse {
            tool: own.tool.into(),
            failed: own.result.map(|result| result.nature.failed),
            same: own.result.filter(|_| told_apart && at < COMPARED_MAX).map(|result| own.same(result)),
        });
        CallTurn { moment: self.moment, uses: uses.collect() }
    }
}

impl DraftUse<'_> {
    fn same(&self, result: &PastResult<'_>) -> CallFingerprint {
        let call = match self.call {
            ArgumentsOrDigest::With(call) => {
                let read = || call_digest(self.tool, &call.arguments.get());
                call.memo.map_or_else(read, |memo| *memo.digest.get_or_init(read))
            }
            ArgumentsOrDigest::Digest(digest) => digest,
        };
        let read = || digest(&[result.raw.as_bytes()]);
        CallFingerprint { call, result: result.memo.map_or_else(read, |memo| *memo.raw_digest.get_or_init(read)) }
    }
}

/// True if a call in each of the steps may be the same with the same result.
fn look_alike(a: &Draft<'_>, b: &Draft<'_>) -> bool {
    let alike = |a: &DraftUse<'_>, b: &DraftUse<'_>| {
        let length = |own: &DraftUse<'_>| own.result.map(|result| result.raw.len());
        a.tool == b.tool && length(a).is_some() && length(a) == length(b)
    };
    a.uses.iter().take(COMPARED_MAX).any(|a| b.uses.iter().take(COMPARED_MAX).any(|b| alike(a, b)))
}
