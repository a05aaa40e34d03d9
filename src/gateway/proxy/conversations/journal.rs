//! Journal of tool calls that were started, by which a call that a retried request makes again is known.
//!
//! In this process, and in the ledger if that is durable. It runs nothing: `proxy/exchange/idempotency.rs` does.

use std::collections::HashMap;

use futures_util::future::join_all;
use http::HeaderMap;
use quick_cache::sync::Cache;
use serde::{Deserialize, Serialize};

use crate::{
    exchange::hidden_turns::Key,
    ledger::{
        lookup::LookupUnavailable,
        sealed_kv::{self, SealedKv},
    },
    marks::{MarkTime, Scope},
    mcp::{outcome::ToolOutcome, runner::ToolCallRequest},
    wire::json::canonical::canonical,
};

/// Maximum calls in the cache of this process.
const RECENT_MAX: usize = 1 << 16;

/// Journal entry of a call that was started.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct JournalEntry {
    /// Mark of the call.
    pub mark: Box<str>,
    time_ms: u64,
    counter: u16,
    /// Outcome; `None` while it isn't known.
    pub outcome: Option<ToolOutcome>,
}

/// Calls that this process started, by request, tool, arguments and ordinal.
pub struct CallJournal(Cache<Key, JournalEntry>);

impl Default for CallJournal {
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
    pub asked: ToolCallRequest,
    /// Moment of the call's mark.
    pub moment: MarkTime,
    key: Key,
    /// Knowledge about an earlier run.
    pub known: Known,
    /// Place in which the ledger notes the call's start.
    noted: sealed_kv::IntentSlot,
}

/// Knowledge about an earlier run of the same call.
pub enum Known {
    /// It was not run.
    Nothing,
    /// It runs, or ran, in this process.
    Here(JournalEntry),
    /// The ledger has its start, and perhaps its outcome.
    Before(JournalEntry),
    /// The ledger can't be asked.
    Untold,
}

impl Due {
    /// True if the call needs the journal: a read-only or idempotent one doesn't.
    fn is_journaled(&self) -> bool {
        !(self.asked.tool.read_only || self.asked.tool.idempotent)
    }

    /// Knowledge about an earlier run of the call, as the ledger has it now.
    pub async fn noted_before(&self, shelf: &SealedKv, now_ms: u64) -> Known {
        before(shelf.find(vec![self.key], now_ms).await.as_deref(), &self.key)
    }

    /// Notes the call's outcome in the ledger, if the call is in the journal.
    ///
    /// # Errors
    /// [`LookupUnavailable`] if too much waits to be written.
    pub fn note_end(&self, shelf: &SealedKv, outcome: &ToolOutcome, now_ms: u64) -> Result<(), LookupUnavailable> {
        if !self.is_journaled() {
            return Ok(());
        }
        let begun = JournalEntry::of(self, Some(outcome.clone()));
        let entries = begun.bytes().map(|bytes| (self.key, bytes)).into_iter().collect();
        shelf.put_behind(entries, self.noted, now_ms)
    }

    /// Moment for the call's mark: that of the call that it repeats, if it does.
    pub fn moment(&self) -> MarkTime {
        match &self.known {
            Known::Here(begun) | Known::Before(begun) => MarkTime { time_ms: begun.time_ms, counter: begun.counter },
            Known::Nothing | Known::Untold => self.moment,
        }
    }
}

impl CallJournal {
    /// Looks up whether an earlier attempt at a request started these calls. To be called before their marks are used.
    pub async fn due(
        &self,
        shelf: &SealedKv,
        identity: &Identity,
        ordinals: &mut Ordinals,
        asked: Vec<(ToolCallRequest, MarkTime)>,
        now_ms: u64,
    ) -> Vec<Due> {
        let mut dues: Vec<Due> = Vec::new();
        for (asked, moment) in asked {
            let key = ordinals.key(identity, &asked.tool.name, &asked.arguments);
            dues.push(Due { asked, moment, key, known: Known::Nothing, noted: sealed_kv::IntentSlot::default() });
        }
        if !identity.again {
            return dues;
        }
        let mut unknown = Vec::new();
        for due in dues.iter_mut().filter(|due| due.is_journaled()) {
            match self.0.get(&due.key) {
                Some(begun) => due.known = Known::Here(begun),
                None => unknown.push(due.key),
            }
        }
        let told = shelf.find(unknown.clone(), now_ms).await;
        for due in dues.iter_mut().filter(|due| unknown.contains(&due.key)) {
            due.known = before(told.as_deref(), &due.key);
        }
        dues
    }

    /// Records that these calls start, before they do.
    ///
    /// # Errors
    /// [`LookupUnavailable`] if the ledger didn't record the start of one.
    pub async fn begin(&self, shelf: &SealedKv, dues: &mut [Due], now_ms: u64) -> Result<(), LookupUnavailable> {
        let begin = async |due: &mut Due| -> Result<(), LookupUnavailable> {
            let begun = JournalEntry::of(due, None);
            let body = begun.bytes();
            self.0.insert(due.key, begun);
            if let Some(body) = body {
                due.noted = shelf.begin(due.key, body, now_ms).await?;
            }
            Ok(())
        };
        let new = dues.iter_mut().filter(|due| due.is_journaled() && matches!(due.known, Known::Nothing));
        join_all(new.map(begin)).await.into_iter().collect()
    }
}

impl JournalEntry {
    fn of(due: &Due, outcome: Option<ToolOutcome>) -> Self {
        let MarkTime { time_ms, counter } = due.moment;
        Self { mark: due.asked.mark.clone(), time_ms, counter, outcome }
    }

    fn bytes(&self) -> Option<Vec<u8>> {
        serde_json::to_vec(self).ok()
    }
}

/// The ledger's knowledge about a call.
fn before(told: Result<&[(Key, Vec<u8>)], &LookupUnavailable>, key: &Key) -> Known {
    let Ok(rows) = told else { return Known::Untold };
    match rows.iter().find(|(own, _)| own == key).map(|(_, body)| serde_json::from_slice::<JournalEntry>(body)) {
        None => Known::Nothing,
        Some(Ok(begun)) => Known::Before(begun),
        Some(Err(_)) => Known::Untold,
    }
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
