//! What the exchanges of a session ran, over all its conversations, as far as this process has seen them.
//!
//! Fed by the records of exchanges as they end, looked at by loop control. Bounded; a session is its caller's own, so
//! that nobody's calls count for another. Losing an entry loses a count, never a check of the conversation itself.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quick_cache::sync::Cache;

use crate::{
    judge::loops::{SESSION_CALLS_MAX, SessionCall},
    ledger::record::{ExchangeRecord, ScopeDigest},
    marks::ExecutionId,
};

/// Sessions that are kept, those met last.
const SESSIONS_MAX: usize = 4096;

type Calls = Arc<Mutex<Vec<SessionCall>>>;

/// See the module.
pub struct Sessions(Cache<(ScopeDigest, Box<str>), Calls>);

impl Default for Sessions {
    fn default() -> Self {
        Self(Cache::new(SESSIONS_MAX))
    }
}

impl Sessions {
    /// Takes up what an exchange has shown.
    pub fn take(&self, record: &ExchangeRecord) {
        let Some(session) = record.session.as_ref().filter(|_| !record.executions.is_empty()) else { return };
        let key = (record.scope, session.clone());
        let calls = self.0.get(&key).unwrap_or_else(|| {
            let calls = Calls::default();
            self.0.insert(key, calls.clone());
            calls
        });
        let mut calls = locked(&calls);
        for execution in &record.executions {
            let Some(moment) = ExecutionId::parse(&execution.id).map(|id| id.moment()) else { continue };
            let call = SessionCall { tool: (*execution.tool).into(), moment, failed: Some(execution.failed) };
            // A conversation shows its executions again and again.
            match calls.binary_search_by_key(&moment, |own| own.moment) {
                Ok(at) => calls[at] = call,
                Err(at) => calls.insert(at, call),
            }
        }
        let surplus = calls.len().saturating_sub(SESSION_CALLS_MAX);
        calls.drain(..surplus);
    }

    /// What is known of a session, the oldest call first.
    pub fn of(&self, scope: ScopeDigest, session: &str) -> Vec<SessionCall> {
        self.0.get(&(scope, session.into())).map(|calls| locked(&calls).clone()).unwrap_or_default()
    }
}

/// Held for as long as a few hundred entries take, and by nobody who waits.
fn locked(calls: &Mutex<Vec<SessionCall>>) -> MutexGuard<'_, Vec<SessionCall>> {
    calls.lock().unwrap_or_else(PoisonError::into_inner)
}
