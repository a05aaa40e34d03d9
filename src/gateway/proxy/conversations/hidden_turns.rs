//! Store of rounds that applications never saw, for their next requests: in this process, and in the ledger if that is
//! durable. Bounded in size and age, and separate for each scope.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use quick_cache::{Weighter, sync::Cache};

use crate::{
    exchange::{
        active_policy::Standard,
        adapter::Adapter,
        hidden_turns::{Back, Kept, Key, PLACES_MAX, Place, key_of_response, places},
    },
    ledger::{lookup::LookupUnavailable, sealed_kv::SealedKv},
    marks::Scope,
    policy::PolicyMode,
    settings::Settings,
    violation::{Code, Violation},
    wire::json::Document,
};

/// Maximum bytes of all entries in this process.
const BYTES_MAX: u64 = 64 << 20;
const EXPECTED: usize = 1 << 12;
/// Maximum age of an entry in this process, in milliseconds.
const MS_MAX: u64 = 7 * 24 * 60 * 60 * 1000;

/// Cache of hidden rounds by key, each with the Unix time of its insertion in milliseconds.
pub struct HiddenTurnStore {
    entries: Cache<Key, (u64, Arc<Kept>), HiddenTurnWeight>,
    /// toolmark runs the tools of an MCP server; else no round was ever hidden.
    runs_tools: bool,
}

#[derive(Clone)]
struct HiddenTurnWeight;

impl Weighter<Key, (u64, Arc<Kept>)> for HiddenTurnWeight {
    fn weight(&self, _: &Key, (_, kept): &(u64, Arc<Kept>)) -> u64 {
        kept.bytes() as u64 + 256
    }
}

/// Request with its hidden rounds restored.
#[derive(Default)]
pub struct RestoredRequest {
    /// The new request; `None` if no round was hidden.
    pub body: Option<Bytes>,
    /// Rounds that were restored.
    pub back: Vec<Back>,
    /// Violations for rounds that couldn't be restored.
    pub violations: Vec<Violation>,
}

impl HiddenTurnStore {
    /// An empty store.
    pub fn new(settings: &Settings) -> Self {
        Self { entries: Cache::with_weighter(EXPECTED, BYTES_MAX, HiddenTurnWeight), runs_tools: settings.runs_tools() }
    }

    fn get(&self, key: &Key, now_ms: u64) -> Option<Arc<Kept>> {
        self.entries.get(key).filter(|(at, _)| at.saturating_add(MS_MAX) > now_ms).map(|(_, kept)| kept)
    }

    fn put(&self, key: Key, kept: Arc<Kept>, now_ms: u64) {
        self.entries.insert(key, (now_ms, kept));
    }

    /// Stores rounds for turns that the application has, each under all of its keys. Returns once the next request can find them.
    ///
    /// # Errors
    /// [`LookupUnavailable`] if it isn't known whether they were stored.
    pub async fn keep(&self, shelf: &SealedKv, all: Vec<(Vec<Key>, Kept)>, now_ms: u64) -> Result<(), LookupUnavailable> {
        let mut entries = Vec::new();
        for (keys, kept) in all {
            let kept = Arc::new(kept.bounded());
            keys.iter().for_each(|key| self.put(*key, kept.clone(), now_ms));
            if shelf.is_lasting() {
                // INVARIANT: it is strings, which are always JSON.
                let body = serde_json::to_vec(&*kept).unwrap_or_default();
                entries.extend(keys.into_iter().map(|key| (key, body.clone())));
            }
        }
        shelf.put_for_next(entries, now_ms).await
    }

    /// The upstream's ID of a response, if the application knows the response by another.
    pub async fn upstream_id(&self, shelf: &SealedKv, scope: &Scope, id: &str, now_ms: u64) -> Option<Arc<str>> {
        let key = key_of_response(scope, id);
        let (found, _) = self.look_up(shelf, vec![key], now_ms).await;
        found.get(&key)?.whole.first().map(|own| own.as_str().into())
    }

    /// Restores the rounds that were hidden from the sender of this request.
    pub async fn restore<A: Adapter>(
        &self,
        shelf: &SealedKv,
        standard: &Standard,
        came: &Document,
        scope: &Scope,
        now_ms: u64,
    ) -> RestoredRequest {
        let mut restored = RestoredRequest::default();
        if !self.runs_tools || standard.rules.policy.mode == PolicyMode::Observe {
            return restored;
        }
        let turns = A::turns(came);
        let mut places = places(A::API, scope, &turns, A::extent(came));
        if places.is_empty() {
            return restored;
        }
        let surplus = places.len().saturating_sub(PLACES_MAX);
        let mut lost = places.drain(..surplus).filter(|place| place.surely).count();
        let keys = places.iter().flat_map(|place| place.keys.iter().copied()).collect();
        let (found, unanswered) = self.look_up(shelf, keys, now_ms).await;
        let mut untold = 0;
        for Place { turn, how, keys, surely } in places {
            match keys.iter().find_map(|key| found.get(key)) {
                Some(kept) if kept.lost => lost += 1,
                Some(kept) => restored.back.push(Back { turn, how, kept: kept.clone() }),
                None if surely => lost += 1,
                None => untold += usize::from(unanswered),
            }
        }
        let checks = &standard.rules.checks;
        if lost + untold > 0 {
            let message = match lost {
                0 => "the ledger didn't say in time whether toolmark ran calls that this history lacks".to_owned(),
                count => format!("calls that toolmark ran itself beside {count} of the turns in this history aren't known any more"),
            };
            restored.violations.extend(checks.violation(Code::HistoryIncomplete, None, message, "begin a new conversation if they matter"));
        }
        restored.body = A::put_back(came, &turns, &restored.back);
        restored
    }

    /// Entries under these keys, and true if there may be more, because the ledger didn't answer.
    async fn look_up(&self, shelf: &SealedKv, keys: Vec<Key>, now_ms: u64) -> (HashMap<Key, Arc<Kept>>, bool) {
        let mut found: HashMap<Key, Arc<Kept>> = keys.iter().filter_map(|key| Some((*key, self.get(key, now_ms)?))).collect();
        let unknown: Vec<Key> = keys.into_iter().filter(|key| !found.contains_key(key)).collect();
        let Ok(rows) = shelf.find(unknown, now_ms).await else { return (found, true) };
        for (key, body) in rows {
            match serde_json::from_slice::<Kept>(&body) {
                Ok(kept) => {
                    let kept = Arc::new(kept);
                    self.put(key, kept.clone(), now_ms);
                    found.insert(key, kept);
                }
                Err(error) => tracing::error!(%error, "rounds that are kept in the ledger can't be read"),
            }
        }
        (found, false)
    }
}
