//! Ledger checks of an exchange: whether a result is the first one recorded for its call, and the session that an execution
//! belongs to. Each has a deadline; a missing reply is a violation of its own, never a pass.

use crate::{
    exchange::{context::Context, evidence::trimmed},
    judge::{
        history::{Execution, beginning::HistoryBeginning},
        text::LedgerAnswer,
    },
    ledger::{
        execution_cache::{CachedExecution, session_key},
        index::ExecutionKey,
        lookup::{LookupUnavailable, PendingFirstResults},
        record::Digest,
        store::FirstResult,
    },
    marks::ExecutionId,
    proxy::app::App,
    violation::{Code, Severity, Violation},
};

/// Checks of one exchange that ask the ledger.
#[derive(Default)]
pub struct LedgerChecks {
    /// The caller's name for the conversation.
    session: Option<Box<str>>,
    /// Indices of the context's executions that are shown for the first time, with those that the ledger is still asked for.
    first_shown: Vec<usize>,
    /// Results that the ledger was asked for, if its answer wasn't waited for.
    pending: Option<PendingResults>,
}

/// Results that the ledger is asked for.
struct PendingResults {
    unknown: Vec<UnknownResult>,
    reply: PendingFirstResults,
}

/// A result that this process doesn't know: index of its execution, key, and what the request says of it.
type UnknownResult = (usize, ExecutionKey, CachedExecution);

/// Key of an execution. Its ID was made from its tool and its moment, so that only the rest is read.
fn key_of(execution: &Execution) -> Option<ExecutionKey> {
    let tail = ExecutionId::tail_of(&execution.id)?;
    let key = ExecutionKey { started_ms: execution.moment.time_ms, tail };
    debug_assert_eq!(ExecutionKey::of(&execution.id), Some(key), "an execution's id has its moment");
    Some(key)
}

impl LedgerChecks {
    /// Checks of an exchange in this session.
    pub fn new(session: Option<Box<str>>) -> Self {
        Self { session, ..Self::default() }
    }

    /// Indices of the context's executions that are shown for the first time.
    pub fn first_shown(&self) -> &[usize] {
        &self.first_shown
    }

    /// Compares the results in the request with the first ones recorded, for executions from this index on. Returns the violations
    /// that are known at once: what only the ledger knows is asked for, and [`Self::settle`] waits for its answer.
    pub fn begin(&mut self, app: &App, context: &Context, from: usize) -> Vec<Violation> {
        if context.executions.len() <= from {
            return Vec::new();
        }
        let (seen, shared) = (app.recorder.seen(), app.recorder.is_shared());
        let session = session_key(self.session.as_deref());
        let (mut rewritten, mut unknown) = (Vec::new(), Vec::new());
        // Those of the beginning were compared in an earlier request that had it, too.
        let (epoch, beginnings) = (seen.epoch(), [context.evidence.known.as_deref(), context.evidence.kept.as_deref()]);
        let of_beginning = |known: &HistoryBeginning| known.compared(&context.executions, epoch);
        let compared = beginnings.iter().flatten().map(|known| of_beginning(known)).max().unwrap_or(0);
        for (at, execution) in context.executions.iter().enumerate().skip(from.max(compared)) {
            let Some(key) = key_of(execution) else { continue };
            let entry = CachedExecution { result: Digest(execution.result), session };
            let known = match seen.get(&key) {
                None if !shared && seen.is_new(&key) => seen.first(key, entry),
                None => {
                    unknown.push((at, key, entry));
                    continue;
                }
                known => known,
            };
            match known {
                None => self.first_shown.push(at),
                Some(known) if known.result != entry.result => rewritten.push(at),
                Some(_) => {}
            }
        }
        if from == 0 {
            let first_other = rewritten.iter().chain(unknown.iter().map(|(at, ..)| at)).min().copied();
            let count = first_other.unwrap_or(context.executions.len());
            beginnings.iter().flatten().for_each(|known| known.set_compared(count, epoch));
        }
        if !unknown.is_empty() {
            let first = |(_, key, entry): &UnknownResult| FirstResult {
                key: *key,
                result: entry.result,
                session: self.session.clone(),
                recorded: false,
            };
            let reply = app.recorder.lookup().claim(unknown.iter().map(first).collect(), app.now_ms());
            // Until the ledger says otherwise: what is recorded twice can be told, what is missing can't.
            self.first_shown.extend(unknown.iter().map(|(at, ..)| *at));
            self.pending = Some(PendingResults { unknown, reply });
        }
        violations_of(context, &rewritten)
    }

    /// True if the ledger's answer must be waited for before anything goes upstream: the policy may refuse the request for it.
    pub fn may_refuse(&self, context: &Context) -> bool {
        let checks = &context.rules.checks;
        let codes = [Code::RewrittenResult, Code::TrimmedResult, Code::LedgerUnavailable];
        self.pending.is_some() && codes.iter().any(|code| checks.severity(*code) == Severity::Block)
    }

    /// Waits for what the ledger was asked for. Returns the violations.
    pub async fn settle(&mut self, app: &App, context: &Context) -> Vec<Violation> {
        let Some(PendingResults { unknown, reply }) = self.pending.take() else { return Vec::new() };
        let Ok(firsts) = reply.wait().await else {
            let message = "the ledger didn't say in time whether the results are the first ones for their calls";
            return context.rules.checks.violation(Code::LedgerUnavailable, None, message, "try again in a moment").into_iter().collect();
        };
        let mut rewritten = Vec::new();
        for (at, key, entry) in unknown {
            let first = firsts.iter().find(|first| first.key == key);
            let known =
                first.map_or(entry, |first| CachedExecution { result: first.result, session: session_key(first.session.as_deref()) });
            let before = app.recorder.seen().first(key, known);
            let differs = before.unwrap_or(known).result != entry.result;
            if differs {
                rewritten.push(at);
            }
            if differs || before.is_some() || first.is_some_and(|first| first.recorded) {
                self.first_shown.retain(|shown| *shown != at);
            }
        }
        violations_of(context, &rewritten)
    }

    /// Looks up the sessions of the executions that the answer cites, as judging has asked.
    pub async fn answer_queries(&self, app: &App, context: &Context) {
        let asked = context.inquiry.asked();
        let own = session_key(self.session.as_deref());
        let mut known: Vec<(ExecutionKey, u64)> = Vec::new();
        let mut unknown = Vec::new();
        for key in asked.iter().filter_map(|id| ExecutionKey::of(id)) {
            match app.recorder.seen().get(&key) {
                Some(entry) => known.push((key, entry.session)),
                None => unknown.push(key),
            }
        }
        let mut failed = Ok(());
        if !unknown.is_empty() {
            match app.recorder.lookup().known(unknown, app.now_ms()).await {
                Ok(firsts) => known.extend(firsts.iter().map(|first| (first.key, session_key(first.session.as_deref())))),
                Err(LookupUnavailable) => failed = Err(LookupUnavailable),
            }
        }
        context.inquiry.answer(|id| {
            let key = ExecutionKey::of(id);
            let found = known.iter().find(|(known, _)| Some(*known) == key);
            LedgerAnswer {
                same_session: own != 0 && found.is_some_and(|(_, session)| *session == own),
                unavailable: found.is_none() && failed.is_err(),
            }
        });
    }
}

/// Violations of results, by their executions' indices, that aren't the first ones for their calls.
fn violations_of(context: &Context, rewritten: &[usize]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for execution in rewritten.iter().filter_map(|at| context.executions.get(*at)) {
        let (checks, tool) = (&context.rules.checks, &*execution.tool);
        let shown = context.exhibits(&[&execution.mark]).remove(&*execution.mark).and_then(|shown| shown.result);
        let trimmed = shown.is_some_and(|text| trimmed::is_trimmed(&text));
        violations.extend(if trimmed {
            context.inquiry.trim(&execution.id);
            let message = format!("the result of `{tool}` was taken out of the conversation or cut: it can't be cited any more");
            checks.violation(Code::TrimmedResult, Some(tool), message, "")
        } else {
            let message = format!("the result of `{tool}` isn't the one that was first returned for this call");
            let advice = "send every result back as the tool returned it first, or a placeholder such as `[cleared]` in its place";
            checks.violation(Code::RewrittenResult, Some(tool), message, advice)
        });
    }
    violations
}
