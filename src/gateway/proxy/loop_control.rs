//! Loop control across conversations: an administrator's resets, and the stops, for statistics.
//!
//! A session's conversations count together if the caller names the session (`toolmark-session`), by the records of its exchanges.
//!
//! A session's calls are those that this process knows, and, with shared counters, those of the replicas. A reset applies to the exchanges
//! of this process and ends with it, and the figures are its own.
//! The limits themselves need none of this ([`crate::judge::loops`]).

use std::{
    collections::VecDeque,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use serde::Serialize;

use crate::{
    counters::session_log::SessionLog,
    exchange::{context::JudgedChoice, loop_guard::Stopped},
    judge::loops::{ExternalCounts, Limit, Resets},
    ledger::{
        record::{ExchangeRecord, SESSION_CHARS_MAX, ScopeDigest},
        recorder::RecordObserver,
    },
    proxy::conversations::session_calls::SessionCalls,
    sys::clock::unix_ms,
};

/// Maximum resets stored; the latest are kept.
const RESETS_MAX: usize = 1024;
/// Age in milliseconds after which a reset has no effect: no cooldown is longer.
const RESET_MS_MAX: u64 = 24 * 60 * 60 * 1000;
/// Shortest time for which a session's calls are shared.
const SHARED_MIN: Duration = Duration::from_secs(600);
/// Maximum stops shown; the latest are kept.
const STOPS_MAX: usize = 64;

/// Resets, recent stops, and counts of loop control.
#[derive(Default)]
pub struct LoopControl {
    resets: ArcSwap<Vec<Reset>>,
    counts: [AtomicU64; Limit::ALL.len()],
    ended: AtomicU64,
    reset: AtomicU64,
    stops: Mutex<VecDeque<StopEvent>>,
    sessions: SessionCalls,
    /// Calls that replicas share; `None` without shared counters.
    log: Option<SessionLog>,
    /// Time for which calls are shared, in milliseconds: the longest for which a policy counts one.
    shared_ms: AtomicU64,
}

impl RecordObserver for LoopControl {
    fn observe(&self, record: &ExchangeRecord) {
        let new = self.sessions.take(record);
        if let (Some(log), Some(session), false) = (&self.log, &record.session, new.is_empty()) {
            let keep = Duration::from_millis(self.shared_ms.load(Ordering::Relaxed)).max(SHARED_MIN);
            log.add(record.scope, session, &new, unix_ms(), keep);
        }
    }
}

#[derive(Clone, Debug, Eq, PartialEq)]
struct Reset {
    tool: Option<Box<str>>,
    session: Option<Box<str>>,
    at_ms: u64,
}

/// Stop of a tool, or of all tools.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct StopEvent {
    /// The tool; `null` if all tools were stopped.
    pub tool: Option<Box<str>>,
    /// The session; `null` if the caller named none.
    pub session: Option<Box<str>>,
    /// Name of the limit that was reached.
    pub limit: &'static str,
    /// Number of times that it had happened.
    pub times: u32,
    /// Time of the stop, in Unix milliseconds.
    pub at_ms: u64,
    /// Time until which it stays stopped, in Unix milliseconds; `null` until a success or the user's next message.
    pub until_ms: Option<u64>,
}

/// Statistics of loop control.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct LoopStats {
    /// Stops since the process began, by limit.
    pub stops: Vec<(&'static str, u64)>,
    /// Number of runs that were ended.
    pub ended: u64,
    /// Number of resets.
    pub resets: u64,
    /// The latest stops that haven't been reset, newest first.
    pub recent: Vec<StopEvent>,
}

impl LoopControl {
    /// Loop control whose sessions count together with those of other replicas.
    pub fn shared(log: SessionLog) -> Self {
        Self { log: Some(log), ..Self::default() }
    }

    /// Sets the longest time for which a policy counts a call.
    pub fn count_for(&self, longest: Duration) {
        self.shared_ms.store(u64::try_from(longest.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Counts for an exchange of this session from outside its conversation: resets, and the session's calls. `scope`: that of the session.
    pub async fn beyond(&self, scope: impl Fn() -> ScopeDigest, session: Option<&str>, now_ms: u64) -> ExternalCounts {
        if let (Some(log), Some(session)) = (&self.log, session)
            // Boxed: without shared counters no exchange is larger for it.
            && let Some(calls) = Box::pin(log.calls(scope(), session, now_ms)).await
        {
            self.sessions.add(scope(), session, calls.into_iter());
        }
        self.known(scope, session)
    }

    /// The same, of what this process knows.
    fn known(&self, scope: impl FnOnce() -> ScopeDigest, session: Option<&str>) -> ExternalCounts {
        let mut resets = Resets::default();
        for reset in self.resets.load().iter().filter(|reset| reset.session.is_none() || reset.session.as_deref() == session) {
            match &reset.tool {
                None => resets.all_ms = resets.all_ms.max(reset.at_ms),
                Some(tool) => {
                    let own = resets.tools.entry(tool.clone()).or_default();
                    *own = reset.at_ms.max(*own);
                }
            }
        }
        ExternalCounts { resets, session: session.map(|session| self.sessions.of(scope(), session)).unwrap_or_default() }
    }

    /// Resets the counts at this time (Unix milliseconds): for this tool or all, in this session or all. `POST /api/loops/reset`.
    pub fn reset(&self, tool: Option<&str>, session: Option<&str>, now_ms: u64) {
        let own = Reset { tool: tool.map(Into::into), session: session.map(session_name), at_ms: now_ms };
        self.resets.rcu(|resets| {
            let stays = |reset: &&Reset| {
                reset.at_ms.saturating_add(RESET_MS_MAX) > now_ms && (&reset.tool, &reset.session) != (&own.tool, &own.session)
            };
            let mut kept: Vec<Reset> = resets.iter().filter(stays).cloned().collect();
            kept.push(own.clone());
            let surplus = kept.len().saturating_sub(RESETS_MAX);
            kept.drain(..surplus);
            kept
        });
        self.reset.fetch_add(1, Ordering::Relaxed);
        let concerns = |recent: &StopEvent| {
            (own.tool.is_none() || own.tool == recent.tool) && (own.session.is_none() || own.session == recent.session)
        };
        self.stops.lock().unwrap_or_else(PoisonError::into_inner).retain(|recent| !concerns(recent));
    }

    /// Counts the stops in a judged answer. Costs nothing if there are none.
    pub fn note(&self, judged: &[JudgedChoice], session: Option<&str>, now_ms: u64) {
        let mut stops = judged.iter().flat_map(|choice| &choice.stops).peekable();
        if stops.peek().is_none() {
            return;
        }
        let mut recent = self.stops.lock().unwrap_or_else(PoisonError::into_inner);
        for Stopped { tool, stop } in stops {
            if let Some(count) = self.counts.get(stop.limit as usize) {
                count.fetch_add(1, Ordering::Relaxed);
            }
            let session = session.map(Into::into);
            let limit = stop.limit.as_str();
            recent.retain(|own| (&own.tool, &own.session, own.limit) != (tool, &session, limit));
            recent.push_front(StopEvent { tool: tool.clone(), session, limit, times: stop.times, at_ms: now_ms, until_ms: stop.until_ms });
            recent.truncate(STOPS_MAX);
        }
    }

    /// Counts a run that was ended by loop control.
    pub fn end(&self) {
        self.ended.fetch_add(1, Ordering::Relaxed);
    }

    /// Statistics for `GET /api/stats`.
    pub fn figures(&self) -> LoopStats {
        let count = |limit: Limit| self.counts.get(limit as usize).map_or(0, |count| count.load(Ordering::Relaxed));
        LoopStats {
            stops: Limit::ALL.map(|limit| (limit.as_str(), count(limit))).into(),
            ended: self.ended.load(Ordering::Relaxed),
            resets: self.reset.load(Ordering::Relaxed),
            recent: self.stops.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect(),
        }
    }
}

fn session_name(name: &str) -> Box<str> {
    name.chars().take(SESSION_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resets_concern_their_tool_and_session() {
        let control = LoopControl::default();
        control.reset(Some("a"), None, 5);
        control.reset(Some("b"), Some("s"), 7);
        control.reset(None, Some("t"), 9);
        let resets = |session| {
            let Resets { all_ms, tools } = control.known(ScopeDigest::default, session).resets;
            let of = |tool: &str| tools.get(tool).copied().unwrap_or_default();
            (all_ms, of("a"), of("b"))
        };
        assert_eq!((resets(None), resets(Some("s")), resets(Some("t"))), ((0, 5, 0), (0, 5, 7), (9, 5, 0)));
        control.reset(Some("a"), None, 11);
        assert_eq!((resets(None), control.resets.load().len(), control.figures().resets), ((0, 11, 0), 3, 4));
        (0..3000).for_each(|number| control.reset(Some(&number.to_string()), None, 12));
        assert_eq!(control.resets.load().len(), RESETS_MAX);
        control.reset(None, None, 12 + RESET_MS_MAX);
        assert_eq!(control.resets.load().len(), 1, "what is old goes");
    }
}
