//! Cache of objects that upstreams store: for each, the upstream that has it and what the application got of it.
//!
//! Keyed by scope, so that no caller finds another's. An object that isn't found isn't given out, as it isn't known whether
//! it was refused when it was answered. Bounded.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use bytes::Bytes;
use quick_cache::{
    DefaultHashBuilder, OptionsBuilder, Weighter,
    sync::{Cache, DefaultLifecycle},
};
use tokio::sync::OwnedMutexGuard;

use crate::marks::Scope;

/// Maximum bytes of the cache, by estimate.
const BYTES_MAX: u64 = 32 << 20;
const EXPECTED: usize = 1 << 12;
/// Number of shards, regardless of the number of cores: an entry heavier than its shard's capacity is never stored.
const SHARDS: usize = 8;
/// Share of the capacity for entries that were looked up again. The rest is for new ones, so that a response that was just
/// begun isn't displaced by those that were fetched long ago.
const HOT_SHARE: f64 = 0.5;
/// Minimum bytes of an object that is kept among the large ones.
const LARGE_BYTES_MIN: usize = 1 << 20;
/// Number of the largest objects that the cache of large ones holds at least.
const LARGEST_MIN: u64 = 2;

/// Part of a response that the application got.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Got {
    /// All of it: the response, or the event that ended its stream and contains it. JSON.
    Whole(Bytes),
    /// Nothing yet, as it is generated in the background: the request, which it will be judged by.
    Awaited(Bytes),
    /// An error, after it was generated in the background: the error's JSON.
    Refused(Bytes),
    /// Not all of it: it was refused, or broke off.
    Withheld,
}

/// Object that an upstream stores.
#[derive(Clone, Debug)]
pub struct Object {
    /// Index of its upstream in `[[upstreams]]`.
    pub upstream: usize,
    /// The upstream is a fallback, not the one that the request was routed to: it never sees the caller's own key.
    pub foreign: bool,
    /// Part of it that the application got.
    pub got: Got,
}

impl Object {
    fn bytes(&self) -> usize {
        match &self.got {
            Got::Whole(bytes) | Got::Awaited(bytes) | Got::Refused(bytes) => bytes.len(),
            Got::Withheld => 0,
        }
    }
}

type Key = (Scope, Box<str>);

/// Cache of objects by scope and ID.
pub struct Originals {
    small: Cache<Key, Arc<Object>, ObjectWeight>,
    large: Cache<Key, Arc<Object>, ObjectWeight>,
    /// Responses that are being judged.
    judged: Mutex<HashMap<Key, Weak<tokio::sync::Mutex<()>>>>,
}

/// Permit to judge a response: nobody else judges it meanwhile.
pub type Turn = OwnedMutexGuard<()>;

#[derive(Clone)]
struct ObjectWeight;

impl Weighter<Key, Arc<Object>> for ObjectWeight {
    fn weight(&self, (_, id): &Key, object: &Arc<Object>) -> u64 {
        (object.bytes() + id.len() + 192) as u64
    }
}

fn cache(shards: usize, bytes_max: u64) -> Cache<Key, Arc<Object>, ObjectWeight> {
    let mut options = OptionsBuilder::new();
    options.shards(shards).estimated_items_capacity(EXPECTED).weight_capacity(bytes_max).hot_allocation(HOT_SHARE);
    let (hasher, lifecycle) = (DefaultHashBuilder::default(), DefaultLifecycle::default());
    match options.build() {
        Ok(options) => Cache::with_options(options, ObjectWeight, hasher, lifecycle),
        // INVARIANT: both capacities are set, which is all that could be missing.
        Err(_) => Cache::with_weighter(EXPECTED, bytes_max, ObjectWeight),
    }
}

impl Originals {
    /// Cache for objects of at most this many bytes.
    pub fn new(one_bytes_max: u64) -> Self {
        let large = one_bytes_max.saturating_add(1 << 10).saturating_mul(LARGEST_MIN);
        Self { small: cache(SHARDS, BYTES_MAX), large: cache(1, large), judged: Mutex::default() }
    }

    /// Stores an object.
    pub fn keep(&self, scope: &Scope, id: &str, object: Object) {
        let (cache, other) = if object.bytes() < LARGE_BYTES_MIN { (&self.small, &self.large) } else { (&self.large, &self.small) };
        let key = (scope.clone(), id.into());
        other.remove(&key);
        cache.insert(key, Arc::new(object));
    }

    /// The object with this ID.
    pub fn get(&self, scope: &Scope, id: &str) -> Option<Arc<Object>> {
        let key = (scope.clone(), id.into());
        self.small.get(&key).or_else(|| self.large.get(&key))
    }

    /// Removes an object that its owner deleted.
    pub fn forget(&self, scope: &Scope, id: &str) {
        let key = (scope.clone(), id.into());
        self.small.remove(&key);
        self.large.remove(&key);
    }

    /// Waits until nobody judges this response.
    pub async fn turn(&self, scope: &Scope, id: &str) -> Turn {
        let lock = {
            let mut judged = self.judged.lock().unwrap_or_else(PoisonError::into_inner);
            judged.retain(|_, lock| lock.strong_count() > 0);
            let known = judged.get(&(scope.clone(), id.into())).and_then(Weak::upgrade);
            known.unwrap_or_else(|| {
                let lock = Arc::<tokio::sync::Mutex<()>>::default();
                judged.insert((scope.clone(), id.into()), Arc::downgrade(&lock));
                lock
            })
        };
        lock.lock_owned().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_their_owners_and_bounded() {
        let one_max = 4 << 20;
        let (originals, own, other) = (Originals::new(one_max), Scope::credential(b"a"), Scope::credential(b"b"));
        let object = |bytes: usize| Object { upstream: 1, foreign: false, got: Got::Whole(vec![b'x'; bytes].into()) };
        originals.keep(&own, "resp_1", object(8));
        assert!(originals.get(&other, "resp_1").is_none());
        assert_eq!(originals.get(&own, "resp_1").unwrap().got, Got::Whole(Bytes::from_static(b"xxxxxxxx")));
        for bytes in [LARGE_BYTES_MIN - 1, LARGE_BYTES_MIN, one_max as usize] {
            originals.keep(&own, "resp_2", object(bytes));
            assert_eq!(originals.get(&own, "resp_2").unwrap().bytes(), bytes);
        }
        originals.keep(&own, "resp_2", object(8));
        assert_eq!((originals.get(&own, "resp_2").unwrap().bytes(), originals.large.len()), (8, 0));
        for number in 0..200 {
            originals.keep(&own, &format!("resp_{number}"), object(LARGE_BYTES_MIN / 2));
            originals.keep(&own, &format!("large_{number}"), object(LARGE_BYTES_MIN));
            assert!(originals.small.weight() <= BYTES_MAX && originals.large.weight() <= 3 * one_max);
        }
        // Those that are asked for again and again don't displace what is new.
        for number in 100..160 {
            originals.get(&own, &format!("resp_{number}"));
        }
        originals.keep(&own, "resp_new", object(3_000));
        for number in 0..400 {
            originals.keep(&other, &format!("resp_{number}"), object(3_000));
        }
        assert!(originals.get(&own, "resp_new").is_some());
        originals.forget(&own, "resp_199");
        assert!(originals.get(&own, "resp_199").is_none());
    }
}
