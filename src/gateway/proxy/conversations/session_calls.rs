//! Calls of sessions, over all their conversations, as far as this process knows them: it has seen them, or read them from the shared counters.
//!
//! Filled from exchange records, and read by loop control. Bounded; a session belongs to its caller's scope, so that no
//! caller's calls count for another. Losing an entry loses a count, never a check of the conversation itself.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quick_cache::sync::Cache;

use crate::{
    judge::loops::{SESSION_CALLS_MAX, SessionCall},
    ledger::record::{ExchangeRecord, ScopeDigest},
    marks::ExecutionId,
};

/// Maximum sessions; those used last are kept.
const SESSIONS_MAX: usize = 4096;

type Calls = Arc<Mutex<Vec<SessionCall>>>;

/// Calls by scope and session.
pub struct SessionCalls(Cache<(ScopeDigest, Box<str>), Calls>);

impl Default for SessionCalls {
    fn default() -> Self {
        Self(Cache::new(SESSIONS_MAX))
    }
}

impl SessionCalls {
    /// Adds the executions in an exchange's record. Returns those that weren't known.
    pub fn take(&self, record: &ExchangeRecord) -> Vec<SessionCall> {
        let Some(session) = record.session.as_ref().filter(|_| !record.executions.is_empty()) else { return Vec::new() };
        let calls = record.executions.iter().filter_map(|execution| {
            let moment = ExecutionId::parse(&execution.id).map(|id| id.moment())?;
            Some(SessionCall { tool: (*execution.tool).into(), moment, at: moment, failed: Some(execution.failed) })
        });
        self.add(record.scope, session, calls)
    }

    /// Adds calls of a session. Returns those that weren't known.
    pub fn add(&self, scope: ScopeDigest, session: &str, added: impl Iterator<Item = SessionCall>) -> Vec<SessionCall> {
        let key = (scope, session.into());
        let calls = self.0.get(&key).unwrap_or_else(|| {
            let calls = Calls::default();
            self.0.insert(key, calls.clone());
            calls
        });
        let (mut calls, mut new) = (locked(&calls), Vec::new());
        for call in added {
            // A conversation shows its executions again and again.
            match calls.binary_search_by_key(&call.moment, |own| own.moment) {
                // The time by this process's clock stays as it was first known.
                Ok(at) => calls[at].failed = call.failed,
                Err(at) => {
                    calls.insert(at, call.clone());
                    new.push(call);
                }
            }
        }
        let surplus = calls.len().saturating_sub(SESSION_CALLS_MAX);
        calls.drain(..surplus);
        new
    }

    /// Calls of a session, the oldest first.
    pub fn of(&self, scope: ScopeDigest, session: &str) -> Vec<SessionCall> {
        self.0.get(&(scope, session.into())).map(|calls| locked(&calls).clone()).unwrap_or_default()
    }
}

/// Locked only for as long as a few hundred entries take, never across a wait.
fn locked(calls: &Mutex<Vec<SessionCall>>) -> MutexGuard<'_, Vec<SessionCall>> {
    calls.lock().unwrap_or_else(PoisonError::into_inner)
}
