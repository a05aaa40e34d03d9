//! What verifying the beginning of a history found, for later histories that begin with the same items.
//!
//! It is taken at the last turn of the model: what comes before it is closed, so that nothing that follows changes what was found there.
//! What depends on the time or on later items (whether a result is recent, and whether it may still be cited) is computed anew. It changes
//! no result, only what results cost, so this counts as pure.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU64, Ordering},
};

use super::{
    AnsweredCall, Execution, HistoryItem, HistoryRules, HistoryVerifier, PastResult, Preceding, VerifiedHistory,
    calls::{CallHistoryBuilder, KnownTrail},
    is_expired,
    stamp::ResultTraits,
};
use crate::{claims::evidence::beginning::KnownTexts, judge::history::Adjacency, violation::Violation, wire::json::splice::Splices};

/// Bytes that a violation takes, about.
const VIOLATION_BYTES: usize = 512;

/// Result of verifying the first items of a history, and the edits that stamp their results.
#[derive(Debug)]
pub struct HistoryBeginning {
    /// Number of items. The one behind them, a turn of the model, is the same in every history that this is taken over for.
    count: usize,
    last_user: Option<usize>,
    executions: Vec<Execution>,
    succeeded: Vec<String>,
    answered: Vec<AnsweredCall>,
    violations: Vec<Violation>,
    /// The tools that were answered for; true for those with a successful result.
    tools: Vec<(Arc<str>, bool)>,
    trail: KnownTrail,
    edits: Splices,
    /// Texts of the items, once a claim needed them.
    texts: OnceLock<Arc<KnownTexts>>,
    compared: ComparedResults,
    /// Bytes of memory without those of the texts.
    bytes: usize,
}

/// Number of a beginning's first executions that have the first results of their calls, as an exchange found.
///
/// A call's first result stays the first one, so that isn't looked up again until `epoch`, the cache's count of what it forgot, changes.
#[derive(Debug, Default)]
struct ComparedResults(AtomicU64);

impl ComparedResults {
    fn at(&self, epoch: u32) -> usize {
        let known = self.0.load(Ordering::Relaxed);
        if (known >> 32) as u32 == epoch { known as u32 as usize } else { 0 }
    }

    fn set(&self, count: usize, epoch: u32) {
        self.0.store(u64::from(epoch) << 32 | u64::from(u32::try_from(count).unwrap_or(u32::MAX)), Ordering::Relaxed);
    }
}

/// A history that was verified from some item on.
#[derive(Debug)]
pub struct ResumedHistory<'h> {
    /// The history, with what was taken over.
    pub history: VerifiedHistory,
    /// False if it depends on items that weren't read: it must be verified from its first item on.
    pub complete: bool,
    /// Findings that may be taken over for later histories, if it is more than before.
    draft: Option<BeginningDraft<'h>>,
}

/// Findings up to one item.
#[derive(Debug)]
struct BeginningDraft<'h> {
    count: usize,
    last_user: Option<usize>,
    executions: usize,
    succeeded: usize,
    answered: usize,
    violations: usize,
    tools: Vec<(Arc<str>, bool)>,
    /// The trail so far; its digests may be read later.
    trail: CallHistoryBuilder<'h>,
}

impl HistoryBeginning {
    /// Number of items.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Number of executions in them.
    pub fn executions(&self) -> usize {
        self.executions.len()
    }

    /// Number of the first of these executions whose results were found to be the first ones of their calls, while the cache of those was at
    /// this `epoch`.
    pub fn compared(&self, executions: &[Execution], epoch: u32) -> usize {
        let own = self.executions.iter().take(self.compared.at(epoch));
        own.zip(executions).take_while(|(own, other)| Arc::ptr_eq(&own.proof, &other.proof)).count()
    }

    /// Takes note that the first `count` executions have the first results of their calls.
    pub fn set_compared(&self, count: usize, epoch: u32) {
        self.compared.set(count.min(self.executions.len()), epoch);
    }

    /// The edits that stamp their results.
    pub fn edits(&self) -> &Splices {
        &self.edits
    }

    /// Number of answered calls in them.
    pub fn answered(&self) -> usize {
        self.answered.len()
    }

    /// Texts of the items, if a claim needed them.
    pub fn texts(&self) -> Option<&Arc<KnownTexts>> {
        self.texts.get()
    }

    /// Keeps the texts of the items.
    pub fn keep_texts(&self, read: impl FnOnce() -> KnownTexts) -> &Arc<KnownTexts> {
        self.texts.get_or_init(|| Arc::new(read()))
    }

    /// Bytes of memory that it takes.
    pub fn bytes(&self) -> usize {
        self.bytes + self.texts.get().map_or(0, |texts| texts.bytes())
    }
}

impl ResumedHistory<'_> {
    /// Number of items of the new beginning, if there is one.
    pub fn kept(&self) -> Option<usize> {
        self.draft.as_ref().map(|draft| draft.count)
    }

    /// The new beginning. `edits`: those that stamp the results of its items.
    pub fn beginning(&self, edits: Splices) -> Option<HistoryBeginning> {
        let draft = self.draft.as_ref()?;
        let history = &self.history;
        let own = HistoryBeginning {
            count: draft.count,
            last_user: draft.last_user,
            executions: history.executions.get(..draft.executions)?.to_vec(),
            succeeded: history.succeeded.get(..draft.succeeded)?.to_vec(),
            answered: history.answered.get(..draft.answered)?.to_vec(),
            violations: history.violations.get(..draft.violations)?.to_vec(),
            tools: draft.tools.clone(),
            trail: draft.trail.known(),
            edits,
            texts: OnceLock::new(),
            compared: ComparedResults::default(),
            bytes: 0,
        };
        let bytes = size_of::<HistoryBeginning>()
            + own.executions.len() * size_of::<Execution>()
            + own.succeeded.iter().chain([&String::new()]).map(|tool| tool.len() + size_of::<String>()).sum::<usize>()
            + own.answered.len() * size_of::<AnsweredCall>()
            + own.violations.len() * VIOLATION_BYTES
            + own.tools.iter().map(|(tool, _)| tool.len() + size_of::<(Arc<str>, bool)>()).sum::<usize>()
            + own.trail.bytes()
            + own.edits.bytes();
        Some(HistoryBeginning { bytes, ..own })
    }
}

/// Handling of what later histories may take over.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BeginningUse {
    /// It isn't gathered.
    Dropped,
    /// It is gathered.
    Kept,
}

/// Verifies a history of an API that requires results right behind their calls, of which the first items were verified before. `items`: those
/// behind `known`, or all without it; `keep`: handling of what later histories may take over.
pub fn verify_behind<'h>(
    items: &'h [HistoryItem<'h>],
    known: Option<&'h HistoryBeginning>,
    rules: &'h HistoryRules<'_>,
    keep: BeginningUse,
) -> ResumedHistory<'h> {
    let mut walk = HistoryVerifier::new(items, rules);
    let first = known.map_or(0, |known| known.count);
    let mut items = items.iter().enumerate().map(|(at, item)| (first + at, item));
    if let Some(known) = known {
        walk.resume(known);
        // INVARIANT: its turn began when the beginning was taken.
        if let Some((at, item @ HistoryItem::Assistant(calls))) = items.next() {
            walk.calls(at, calls);
            walk.before = Preceding::of(item);
        } else {
            walk.complete = false;
        }
    }
    let last = walk.items.iter().rposition(|item| matches!(item, HistoryItem::Assistant(_))).map(|at| first + at).filter(|at| *at > first);
    let stamped =
        |item: &HistoryItem<'_>| matches!(item, HistoryItem::Result(PastResult { nature: ResultTraits { stamped: true, .. }, .. }));
    // Results that come with stamps are read every time. What a thread has is known in each request anew.
    let plain = rules.adjacency == Adjacency::Required && rules.remembered.is_empty() && rules.trail.is_empty() && !rules.unseen;
    let takes = |at: usize| keep == BeginningUse::Kept && plain && !walk.items.iter().take(at - first).any(stamped);
    let last = last.filter(|at| takes(*at));
    let mut draft = None;
    for (at, item) in items {
        match item {
            HistoryItem::Assistant(calls) if last == Some(at) => {
                walk.begin_turn(at, calls);
                draft = walk.settled.then(|| walk.draft(at));
                walk.calls(at, calls);
                walk.before = Preceding::of(item);
            }
            HistoryItem::Assistant(_) | HistoryItem::Result(_) | HistoryItem::User | HistoryItem::Other => walk.step(at, item),
        }
    }
    walk.close_turn(first + walk.items.len());
    let HistoryVerifier { mut history, tracer, mut complete, .. } = walk;
    match tracer.finish(rules) {
        Ok(trail) => history.trail = trail,
        Err(_) => complete = false,
    }
    ResumedHistory { history, complete, draft }
}

impl<'h> HistoryVerifier<'h, '_> {
    /// Takes over what was found in the items before.
    fn resume(&mut self, known: &'h HistoryBeginning) {
        self.first = known.count;
        self.closed = known.count;
        self.known_user = known.last_user;
        self.last_user = self.last_user.map(|at| known.count + at).or(known.last_user);
        let (last_user, window, now_ms) = (self.last_user, self.rules.window, self.rules.now_ms);
        let recent = |item: usize| last_user.is_none_or(|user| item > user);
        let execution = |own: &Execution| Execution {
            proof: own.proof.clone(),
            recent: recent(own.item),
            expired: is_expired(own.moment, window, now_ms),
            item: own.item,
        };
        self.history.executions.reserve(known.executions.len() + self.items.len());
        self.history.executions.extend(known.executions.iter().map(execution));
        self.history.answered.reserve(known.answered.len() + self.items.len());
        self.history.answered.extend(known.answered.iter().map(|own| AnsweredCall { recent: recent(own.item), ..own.clone() }));
        self.history.succeeded.clone_from(&known.succeeded);
        self.history.violations.clone_from(&known.violations);
        self.tools.extend(known.tools.iter().map(|(tool, succeeded)| (&**tool, (tool.clone(), *succeeded))));
        self.tracer = CallHistoryBuilder::resume(&known.trail);
    }

    /// Findings up to the item at `at`, whose turn has begun.
    fn draft(&self, at: usize) -> BeginningDraft<'h> {
        let own = self.items.get(..at - self.first).unwrap_or_default();
        let user = own.iter().rposition(|item| matches!(item, HistoryItem::User));
        BeginningDraft {
            count: at,
            last_user: user.map(|at| self.first + at).or(self.known_user),
            executions: self.history.executions.len(),
            succeeded: self.history.succeeded.len(),
            answered: self.history.answered.len(),
            violations: self.history.violations.len(),
            tools: self.tools.values().cloned().collect(),
            trail: self.tracer.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_compared_holds_until_the_cache_forgets() {
        let compared = ComparedResults::default();
        assert_eq!(compared.at(1), 0);
        compared.set(7, 1);
        assert_eq!((compared.at(1), compared.at(2)), (7, 0));
        compared.set(usize::MAX, u32::MAX);
        assert_eq!((compared.at(u32::MAX), compared.at(1)), (u32::MAX as usize, 0));
    }
}
