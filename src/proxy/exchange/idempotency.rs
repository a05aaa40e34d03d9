//! Journal of tool calls with their outcomes, so that a request that a client retries runs no call twice.
//!
//! OpenAI's clients retry a request after a broken connection or a timeout, and say so. The model then generates its calls
//! anew: a call equal to one of the first attempt gets the outcome of that one. If the outcome can't be known, because
//! toolmark itself was stopped meanwhile, the result says so. Calls that are safe to repeat are run again.

use std::{collections::HashMap, sync::Arc};

use futures_util::future::join_all;
use http::HeaderMap;
use quick_cache::sync::Cache;
use serde::{Deserialize, Serialize};

use crate::{
    exchange::hidden_turns::Key,
    ledger::{lookup::Unanswered, sealed_kv},
    marks::{Moment, Scope},
    mcp::{Mcp, outcome::Outcome, runner::Asked},
    proxy::app::App,
    wire::json::canonical::canonical,
};

/// Maximum calls in the cache of this process.
const RECENT_MAX: usize = 1 << 16;

/// Journal entry of a call that was started.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Begun {
    /// Mark of the call.
    mark: Box<str>,
    time_ms: u64,
    counter: u16,
    /// Outcome; `None` while it isn't known.
    outcome: Option<Outcome>,
}

/// Calls that this process started, by request, tool, arguments and ordinal.
pub struct Journal(Cache<Key, Begun>);

impl Default for Journal {
    fn default() -> Self {
        Self(Cache::new(RECENT_MAX))
    }
}

/// Fingerprint of a request, and whether the request may be a retry.
#[derive(Clone, Debug, Default)]
pub struct Identity {
    digest: Key,
    again: bool,
}

impl Identity {
    /// Fingerprint of a request with these headers and this body.
    pub fn of(scope: &Scope, path: &str, headers: &HeaderMap, body: &[u8]) -> Self {
        let header = |name: &str| headers.get(name).map_or(&b""[..], |value| value.as_bytes());
        let key = header("idempotency-key");
        let mut hasher = blake3::Hasher::new_derive_key("toolmark 2026-11-22 a request that may come again v1");
        for part in [format!("{scope:?}").as_bytes(), path.as_bytes(), key, body] {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
        }
        let count = std::str::from_utf8(header("x-stainless-retry-count")).ok().and_then(|count| count.trim().parse::<u32>().ok());
        Self { digest: *hasher.finalize().as_bytes(), again: !key.is_empty() || count.is_some_and(|count| count > 0) }
    }
}

/// Number of equal calls in one exchange, by tool and arguments.
#[derive(Clone, Debug, Default)]
pub struct Ordinals(HashMap<Key, u32>);

impl Ordinals {
    /// Key of a call. A second call with the same tool and arguments gets another key.
    fn key(&mut self, identity: &Identity, tool: &str, arguments: &str) -> Key {
        let mut hasher = blake3::Hasher::new_keyed(&identity.digest);
        let arguments = canonical(if arguments.trim().is_empty() { "{}" } else { arguments }).unwrap_or_else(|| arguments.to_owned());
        for part in [tool.as_bytes(), arguments.as_bytes()] {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
        }
        let ordinal = self.0.entry(*hasher.finalize().as_bytes()).or_default();
        *ordinal += 1;
        *hasher.update(&ordinal.to_le_bytes()).finalize().as_bytes()
    }
}

/// Call that is to be executed.
pub struct Due {
    /// Request to run the tool.
    pub asked: Asked,
    /// Moment of the call's mark.
    pub moment: Moment,
    key: Key,
    known: Known,
    /// Place in which the ledger notes the call's start.
    noted: sealed_kv::Noted,
}

/// Knowledge about an earlier run of the same call.
enum Known {
    /// It was not run.
    Nothing,
    /// It runs, or ran, in this process.
    Here(Begun),
    /// The ledger has its start, and perhaps its outcome.
    Before(Begun),
    /// The ledger can't be asked.
    Untold,
}

impl Due {
    /// Moment for the call's mark: that of the call that it repeats, if it does.
    pub fn moment(&self) -> Moment {
        match &self.known {
            Known::Here(begun) | Known::Before(begun) => Moment { time_ms: begun.time_ms, counter: begun.counter },
            Known::Nothing | Known::Untold => self.moment,
        }
    }
}

/// Looks up whether an earlier attempt started these calls. To be called before their marks are used.
pub(super) async fn plan(app: &App, identity: &Identity, ordinals: &mut Ordinals, asked: Vec<(Asked, Moment)>) -> Vec<Due> {
    let mut dues: Vec<Due> = Vec::new();
    for (asked, moment) in asked {
        let key = ordinals.key(identity, &asked.tool.name, &asked.arguments);
        dues.push(Due { asked, moment, key, known: Known::Nothing, noted: sealed_kv::Noted::default() });
    }
    if !identity.again {
        return dues;
    }
    let mut unknown = Vec::new();
    for due in dues.iter_mut().filter(|due| is_journaled(&due.asked)) {
        match app.journal.0.get(&due.key) {
            Some(begun) => due.known = Known::Here(begun),
            None => unknown.push(due.key),
        }
    }
    let told = app.recorder.shelf().find(unknown.clone(), app.now_ms()).await;
    for due in dues.iter_mut().filter(|due| unknown.contains(&due.key)) {
        due.known = before(told.as_deref(), &due.key);
    }
    dues
}

/// Records in the journal that these calls start, before they do.
///
/// # Errors
/// [`Unanswered`] if that can't be recorded.
pub(super) async fn record_starts(app: &App, dues: &mut [Due]) -> Result<(), Unanswered> {
    let begin = async |due: &mut Due| -> Result<(), Unanswered> {
        let begun = Begun::of(due, None);
        let body = begun.bytes();
        app.journal.0.insert(due.key, begun);
        if let Some(body) = body {
            due.noted = app.recorder.shelf().begin(due.key, body, app.now_ms()).await?;
        }
        Ok(())
    };
    let new = dues.iter_mut().filter(|due| is_journaled(&due.asked) && matches!(due.known, Known::Nothing));
    join_all(new.map(begin)).await.into_iter().collect()
}

impl Begun {
    fn of(due: &Due, outcome: Option<Outcome>) -> Self {
        let Moment { time_ms, counter } = due.moment;
        Self { mark: due.asked.mark.clone(), time_ms, counter, outcome }
    }

    fn bytes(&self) -> Option<Vec<u8>> {
        serde_json::to_vec(self).ok()
    }
}

/// True if the call needs the journal: a read-only or idempotent one doesn't.
fn is_journaled(asked: &Asked) -> bool {
    !(asked.tool.read_only || asked.tool.idempotent)
}

/// The ledger's knowledge about a call.
fn before(told: Result<&[(Key, Vec<u8>)], &Unanswered>, key: &Key) -> Known {
    let Ok(rows) = told else { return Known::Untold };
    match rows.iter().find(|(own, _)| own == key).map(|(_, body)| serde_json::from_slice::<Begun>(body)) {
        None => Known::Nothing,
        Some(Ok(begun)) => Known::Before(begun),
        Some(Err(_)) => Known::Untold,
    }
}

/// Executes a call, or returns the outcome of its earlier run. It runs to its end, which is recorded, even if the caller stops waiting.
pub async fn run(app: Arc<App>, mcp: Arc<Mcp>, due: Due) -> Outcome {
    let name = due.asked.tool.name.clone();
    let running = tokio::spawn(run_due(app, mcp, due));
    running.await.unwrap_or_else(|_| {
        tracing::error!(tool = &*name, "running {name} broke off");
        Outcome::failure("toolmark itself broke off while the tool ran: whether it took effect is unknown")
    })
}

async fn run_due(app: Arc<App>, mcp: Arc<Mcp>, due: Due) -> Outcome {
    let unknown = |why: &str| {
        Outcome::failure(&format!(
            "`{}` was begun by an earlier attempt at this request, and {why}. Whether it took effect is UNKNOWN; toolmark did not run it \
             again. Say so, or find out by other means; don't report it as done or as not done.",
            due.asked.tool.name
        ))
    };
    match &due.known {
        Known::Nothing => {}
        Known::Here(begun) => {
            if let Some(outcome) = mcp.ended(&begun.mark).await {
                return outcome;
            }
            // Forgotten here; its end was noted all the same.
            let told = app.recorder.shelf().find(vec![due.key], app.now_ms()).await;
            let noted = if let Known::Before(begun) = before(told.as_deref(), &due.key) { begun.outcome } else { None };
            return noted.unwrap_or_else(|| unknown("what came of it is forgotten"));
        }
        Known::Before(begun) => return begun.outcome.clone().unwrap_or_else(|| unknown("its end was never noted")),
        Known::Untold => {
            return Outcome::failure("it was not run: whether an earlier attempt at this request has run it can't be looked up now");
        }
    }
    let outcome = mcp.run(due.asked.clone()).await;
    if is_journaled(&due.asked) {
        let begun = Begun::of(&due, Some(outcome.clone()));
        let entries = begun.bytes().map(|bytes| (due.key, bytes)).into_iter().collect();
        let noted = app.recorder.shelf().put_behind(entries, due.noted, app.now_ms());
        if noted.is_err() {
            tracing::error!(tool = &*due.asked.tool.name, "the end of a call can't be noted in the ledger: too much waits");
        }
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(headers: &[(&'static str, &'static str)], body: &str) -> Identity {
        let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        Identity::of(&Scope::anonymous(), "/chat/completions", &headers, body.as_bytes())
    }

    #[test]
    fn a_request_says_whether_it_comes_again() {
        let first = identity(&[("x-stainless-retry-count", "0")], "{}");
        let second = identity(&[("x-stainless-retry-count", "1")], "{}");
        assert!(!first.again && second.again && first.digest == second.digest);
        assert!(identity(&[("idempotency-key", "k")], "{}").again && !identity(&[], "{}").again);
        assert_ne!(first.digest, identity(&[("idempotency-key", "k")], "{}").digest);
        assert_ne!(first.digest, identity(&[], "{ }").digest);
        for count in ["", "x", "-1"] {
            assert!(!identity(&[("x-stainless-retry-count", count)], "{}").again, "{count}");
        }
    }

    #[test]
    fn the_same_call_twice_is_two() {
        let identity = identity(&[], "{}");
        let keys = |calls: &[(&str, &str)]| {
            let mut ordinals = Ordinals::default();
            calls.iter().map(|(tool, arguments)| ordinals.key(&identity, tool, arguments)).collect::<Vec<_>>()
        };
        let one = keys(&[("add", r#"{"a":1,"b":2}"#), ("add", r#"{"b":2,"a":1}"#), ("add", "{}"), ("drop", "{}")]);
        assert_eq!(one, keys(&[("add", r#"{"b":2,"a":1}"#), ("add", r#"{"a":1,"b":2}"#), ("add", ""), ("drop", "{}")]));
        assert!((0..one.len()).all(|at| !one[at + 1..].contains(&one[at])));
    }
}
