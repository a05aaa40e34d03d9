//! Cache of the executions that this process saw last: bounded, in front of the database.
//!
//! It has two generations: an entry that is read moves to the younger one; when that is full, the older one is dropped. The time of the
//! newest dropped call is remembered, so that a later call that isn't cached is certainly new.

use std::{
    collections::HashMap,
    mem,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
};

use foldhash::quality::RandomState;

use super::record::Digest;
use crate::ledger::index::ExecutionKey;

const SHARDS: usize = 16;
/// Entries of one generation of one shard; the whole cache takes some 12 MiB at most.
const ENTRIES_MAX: usize = 4096;

/// Cached facts of one execution.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CachedExecution {
    /// Its first result.
    pub result: Digest,
    /// Key of its session: see [`session_key`].
    pub session: u64,
}

#[derive(Default)]
struct CacheShard {
    young: HashMap<ExecutionKey, CachedExecution, RandomState>,
    old: HashMap<ExecutionKey, CachedExecution, RandomState>,
}

/// Cache of executions and their first results.
pub struct ExecutionCache {
    shards: [Mutex<CacheShard>; SHARDS],
    /// Time of a call up to which executions may be known but not cached, in Unix milliseconds.
    horizon: AtomicU64,
    epoch: AtomicU32,
}

impl ExecutionCache {
    /// An empty cache. `horizon_ms`: calls up to this time (Unix milliseconds) may be known to the database.
    pub fn new(horizon_ms: u64) -> Self {
        Self { shards: std::array::from_fn(|_| Mutex::default()), horizon: AtomicU64::new(horizon_ms), epoch: AtomicU32::new(1) }
    }

    fn shard<T>(&self, key: &ExecutionKey, act: impl FnOnce(&mut CacheShard) -> T) -> T {
        // The last bits are those of a MAC: evenly spread. The lock is held for one look-up only.
        let at = key.tail as usize % SHARDS;
        act(&mut self.shards[at].lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the cached entry of an execution.
    pub fn get(&self, key: &ExecutionKey) -> Option<CachedExecution> {
        self.shard(key, |shard| {
            if let Some(entry) = shard.young.get(key) {
                return Some(*entry);
            }
            let entry = shard.old.remove(key)?;
            self.put(shard, *key, entry);
            Some(entry)
        })
    }

    /// Caches an execution unless it is cached already; then the earlier entry is returned.
    pub fn first(&self, key: ExecutionKey, entry: CachedExecution) -> Option<CachedExecution> {
        self.shard(&key, |shard| {
            let known = shard.young.get(&key).or_else(|| shard.old.get(&key)).copied();
            if known.is_none() {
                self.put(shard, key, entry);
            }
            known
        })
    }

    fn put(&self, shard: &mut CacheShard, key: ExecutionKey, entry: CachedExecution) {
        if shard.young.len() >= ENTRIES_MAX {
            let dropped = mem::replace(&mut shard.old, mem::take(&mut shard.young));
            let newest = dropped.keys().map(|key| key.started_ms).max().unwrap_or(0);
            self.horizon.fetch_max(newest, Ordering::Relaxed);
            self.epoch.fetch_add(1, Ordering::Relaxed);
        }
        shard.young.insert(key, entry);
    }

    /// Number that changes whenever entries are dropped. What was found at the same number is cached still.
    pub fn epoch(&self) -> u32 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// Returns whether an execution that isn't cached is certainly new.
    pub fn is_new(&self, key: &ExecutionKey) -> bool {
        key.started_ms > self.horizon.load(Ordering::Relaxed)
    }
}

/// Hash of a session's name; 0 without a session.
pub fn session_key(session: Option<&str>) -> u64 {
    let Some(session) = session else { return 0 };
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&blake3::hash(session.as_bytes()).as_bytes()[..8]);
    u64::from_le_bytes(bytes).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u64) -> ExecutionKey {
        ExecutionKey { started_ms: 1000 + number, tail: number.wrapping_mul(0x9e37_79b9_7f4a_7c15) }
    }

    fn entry(number: u64) -> CachedExecution {
        CachedExecution { result: Digest::of(&number.to_le_bytes()), session: number }
    }

    #[test]
    fn it_is_bounded_and_knows_what_it_forgot() {
        let seen = ExecutionCache::new(1000);
        let many = (SHARDS * ENTRIES_MAX * 4) as u64;
        assert!(!seen.is_new(&key(0)) && seen.is_new(&key(1)));
        assert_eq!(seen.first(key(1), entry(1)), None);
        assert_eq!(seen.first(key(1), entry(2)), Some(entry(1)));
        let epoch = seen.epoch();
        for number in 2..many {
            seen.first(key(number), entry(number));
            // What is asked for stays.
            assert_eq!(seen.get(&key(1)), Some(entry(1)), "{number}");
        }
        let kept: usize = seen.shards.iter().map(|shard| shard.lock().map(|shard| shard.young.len() + shard.old.len()).unwrap_or(0)).sum();
        assert_ne!(seen.epoch(), epoch);
        assert!(kept <= 2 * SHARDS * ENTRIES_MAX, "{kept}");
        for number in 2..many {
            assert!(seen.get(&key(number)).is_some() || !seen.is_new(&key(number)), "{number}");
        }
        assert!(seen.is_new(&key(many)));
    }
}
