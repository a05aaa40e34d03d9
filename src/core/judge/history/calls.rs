//! The trail of a run: the calls since the last user message, turn by turn, with their outcome.
//!
//! Built by [`crate::judge::history`], used by [`crate::judge::loops`]. All calls of one turn are one step. Pure.

use std::sync::Arc;

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
    pub uses: Arc<[PastUse]>,
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
#[derive(Clone, Debug, Default)]
pub(in crate::judge) struct CallHistoryBuilder<'h> {
    steps: Vec<TrailStep<'h>>,
    /// Number of user messages so far.
    turn: u32,
    /// True if a result came since the last call: the next call begins a step.
    answered: bool,
}

#[derive(Clone, Debug)]
enum TrailStep<'h> {
    /// A step of a beginning that was verified before.
    Known(&'h Arc<KnownStep>),
    New(Draft<'h>),
}

/// A step whose calls won't get any more results.
#[derive(Debug)]
struct KnownStep {
    /// The step without fingerprints.
    plain: CallTurn,
    /// The step with the fingerprints of its calls, if all of them were read.
    told_apart: Option<CallTurn>,
    /// Length of each call's result.
    lengths: Box<[Option<usize>]>,
}

/// The trail of the beginning of a conversation.
#[derive(Debug, Default)]
pub(in crate::judge) struct KnownTrail {
    steps: Vec<Arc<KnownStep>>,
    turn: u32,
    answered: bool,
}

impl KnownTrail {
    /// Bytes of memory that it takes.
    pub(in crate::judge) fn bytes(&self) -> usize {
        let of_turn = |turn: &CallTurn| turn.uses.iter().map(|own| size_of::<PastUse>() + own.tool.len()).sum::<usize>();
        let of_step = |step: &Arc<KnownStep>| {
            let told_apart = step.told_apart.as_ref().map_or(0, of_turn);
            size_of::<KnownStep>() + size_of::<Arc<KnownStep>>() + of_turn(&step.plain) + told_apart + size_of_val(&*step.lengths)
        };
        self.steps.iter().map(of_step).sum()
    }
}

#[derive(Clone, Debug, Default)]
struct Draft<'h> {
    moment: Option<MarkTime>,
    uses: Vec<DraftUse<'h>>,
}

#[derive(Clone, Debug)]
struct DraftUse<'h> {
    tool: &'h str,
    call: ArgumentsOrDigest<'h>,
    result: Option<ResultOrDigest<'h>>,
}

#[derive(Clone, Copy, Debug)]
enum ArgumentsOrDigest<'h> {
    With(&'h PastCall<'h>),
    /// Digest of a call that isn't in the request.
    Digest(u64),
    /// A call that isn't read again, and whose digest isn't known.
    Unread,
}

#[derive(Clone, Copy, Debug)]
enum ResultOrDigest<'h> {
    With(&'h PastResult<'h>),
    /// A result that isn't read again. Its digest may not be known.
    Earlier {
        failed: bool,
        length: usize,
        digest: Option<u64>,
    },
}

impl ResultOrDigest<'_> {
    fn failed(self) -> bool {
        match self {
            Self::With(result) => result.nature.failed,
            Self::Earlier { failed, .. } => failed,
        }
    }

    fn length(self) -> usize {
        match self {
            Self::With(result) => result.raw.len(),
            Self::Earlier { length, .. } => length,
        }
    }
}

/// Fingerprints that were asked for and can't be told: what they are of isn't read again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::judge) struct Untold;

impl<'h> CallHistoryBuilder<'h> {
    /// Goes on from the trail of a beginning.
    pub(in crate::judge) fn resume(known: &'h KnownTrail) -> Self {
        Self { steps: known.steps.iter().map(TrailStep::Known).collect(), turn: known.turn, answered: known.answered }
    }

    /// The trail so far, for later requests, with all digests that were read by now.
    pub(in crate::judge) fn known(&self) -> KnownTrail {
        let known = |step: &TrailStep<'_>| match step {
            TrailStep::Known(step) => (*step).clone(),
            TrailStep::New(draft) => Arc::new(draft.known()),
        };
        KnownTrail { steps: self.steps.iter().map(known).collect(), turn: self.turn, answered: self.answered }
    }

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
        let same_time = |step: &TrailStep<'_>| time.is_some() && step.moment().map(|own| own.time_ms) == time;
        let goes_on = self.steps.last().is_some_and(|step| !self.answered || same_time(step));
        if !goes_on {
            self.steps.push(TrailStep::New(Draft::default()));
        }
        self.answered = false;
        let step = self.steps.len() - 1;
        let mut at = 0;
        if let Some(draft) = self.steps.last_mut().and_then(TrailStep::draft) {
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
        if let Some(own) = own.and_then(TrailStep::draft).and_then(|step| step.uses.get_mut(spot.at)) {
            own.result = Some(ResultOrDigest::With(result));
        }
    }

    /// Finishes the trail. The calls of a step get fingerprints if it looks like its neighbour, or if the rules
    /// tell all of them apart.
    ///
    /// # Errors
    /// [`Untold`], if a step that isn't read again needs fingerprints.
    pub(in crate::judge) fn finish(self, rules: &HistoryRules<'_>) -> Result<CallHistory, Untold> {
        let earlier = if self.turn == 0 { rules.trail } else { &[] };
        let alike = |at: usize| matches!((at.checked_sub(1).and_then(|at| self.steps.get(at)), self.steps.get(at)), (Some(a), Some(b)) if look_alike(a, b));
        // From here on each step looks like the one before it.
        let mut from = self.steps.len();
        while from > 0 && (rules.told_apart || alike(from - 1) || from < self.steps.len() && alike(from)) {
            from -= 1;
        }
        let surplus = (earlier.len() + self.steps.len()).saturating_sub(STEPS_MAX);
        let mut trail: CallHistory = Vec::with_capacity(earlier.len() + self.steps.len() - surplus);
        trail.extend(earlier.iter().skip(surplus).cloned());
        for (at, step) in self.steps.iter().enumerate().skip(surplus.saturating_sub(earlier.len())) {
            trail.push(if at >= from { step.told_apart()? } else { step.plain() });
        }
        Ok(trail)
    }
}

impl<'h> TrailStep<'h> {
    fn moment(&self) -> Option<MarkTime> {
        match self {
            Self::Known(step) => step.plain.moment,
            Self::New(draft) => draft.moment,
        }
    }

    /// The step as one that calls and results are added to.
    fn draft(&mut self) -> Option<&mut Draft<'h>> {
        if let Self::Known(step) = self {
            *self = Self::New(step.draft());
        }
        if let Self::New(draft) = self { Some(draft) } else { None }
    }

    /// The step without fingerprints.
    fn plain(&self) -> CallTurn {
        match self {
            Self::Known(step) => step.plain.clone(),
            Self::New(draft) => draft.plain(),
        }
    }

    /// The step with the fingerprints of its calls.
    fn told_apart(&self) -> Result<CallTurn, Untold> {
        match self {
            Self::Known(step) => step.told_apart.clone().ok_or(Untold),
            Self::New(draft) => draft.told_apart(),
        }
    }

    /// The tool of a call, and the length of its result.
    fn call(&self, at: usize) -> Option<(&str, Option<usize>)> {
        match self {
            Self::Known(step) => Some((&step.plain.uses.get(at)?.tool, *step.lengths.get(at)?)),
            Self::New(draft) => draft.uses.get(at).map(|own| (own.tool, own.result.map(ResultOrDigest::length))),
        }
    }
}

impl KnownStep {
    fn draft(&self) -> Draft<'_> {
        let known = self.told_apart.as_ref().unwrap_or(&self.plain);
        let uses = known.uses.iter().zip(&self.lengths).map(|(own, length)| {
            let digest = own.same.map(|same| same.result);
            DraftUse {
                tool: &own.tool,
                call: own.same.map_or(ArgumentsOrDigest::Unread, |same| ArgumentsOrDigest::Digest(same.call)),
                result: own.failed.zip(*length).map(|(failed, length)| ResultOrDigest::Earlier { failed, length, digest }),
            }
        });
        Draft { moment: self.plain.moment, uses: uses.collect() }
    }
}

impl Draft<'_> {
    fn plain(&self) -> CallTurn {
        CallTurn { moment: self.moment, uses: self.uses.iter().map(|own| own.used(None)).collect() }
    }

    fn told_apart(&self) -> Result<CallTurn, Untold> {
        let own = |(at, own): (usize, &DraftUse<'_>)| {
            let same = own.result.filter(|_| at < COMPARED_MAX).map(|result| own.same(result)).transpose()?;
            Ok(own.used(same))
        };
        Ok(CallTurn { moment: self.moment, uses: self.uses.iter().enumerate().map(own).collect::<Result<_, Untold>>()? })
    }

    /// The step for later requests, with the digests that were read.
    fn known(&self) -> KnownStep {
        let own = |(at, own): (usize, &DraftUse<'_>)| {
            let result = own.result.filter(|_| at < COMPARED_MAX);
            Some(own.used(match result {
                Some(result) => Some(own.same_if_read(result)?),
                None => None,
            }))
        };
        let told_apart: Option<Arc<[PastUse]>> = self.uses.iter().enumerate().map(own).collect();
        let lengths = self.uses.iter().map(|own| own.result.map(ResultOrDigest::length)).collect();
        let told_apart = told_apart.map(|uses| CallTurn { moment: self.moment, uses });
        KnownStep { plain: self.plain(), told_apart, lengths }
    }
}

impl DraftUse<'_> {
    fn used(&self, same: Option<CallFingerprint>) -> PastUse {
        PastUse { tool: self.tool.into(), failed: self.result.map(ResultOrDigest::failed), same }
    }

    fn same(&self, result: ResultOrDigest<'_>) -> Result<CallFingerprint, Untold> {
        let call = match self.call {
            ArgumentsOrDigest::With(call) => {
                let read = || call_digest(self.tool, &call.arguments.get());
                call.memo.map_or_else(read, |memo| *memo.digest.get_or_init(read))
            }
            ArgumentsOrDigest::Digest(digest) => digest,
            ArgumentsOrDigest::Unread => return Err(Untold),
        };
        let result = match result {
            ResultOrDigest::With(result) => {
                let read = || digest(&[result.raw.as_bytes()]);
                result.memo.map_or_else(read, |memo| *memo.raw_digest.get_or_init(read))
            }
            ResultOrDigest::Earlier { digest, .. } => digest.ok_or(Untold)?,
        };
        Ok(CallFingerprint { call, result })
    }

    /// The fingerprint, if it takes no reading.
    fn same_if_read(&self, result: ResultOrDigest<'_>) -> Option<CallFingerprint> {
        let call = match self.call {
            ArgumentsOrDigest::With(call) => *call.memo?.digest.get()?,
            ArgumentsOrDigest::Digest(digest) => digest,
            ArgumentsOrDigest::Unread => return None,
        };
        let result = match result {
            ResultOrDigest::With(result) => *result.memo?.raw_digest.get()?,
            ResultOrDigest::Earlier { digest, .. } => digest?,
        };
        Some(CallFingerprint { call, result })
    }
}

/// True if a call in each of the steps may be the same with the same result.
fn look_alike(a: &TrailStep<'_>, b: &TrailStep<'_>) -> bool {
    fn calls<'s>(step: &'s TrailStep<'_>) -> impl Iterator<Item = (&'s str, Option<usize>)> {
        (0..COMPARED_MAX).map_while(|at| step.call(at))
    }
    calls(a).any(|own| own.1.is_some() && calls(b).any(|other| own == other))
}
