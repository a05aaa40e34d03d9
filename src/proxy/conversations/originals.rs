//! Cache of objects that upstreams store: for each, the upstream that has it and what the application got of it.
//!
//! Keyed by scope, so that no caller finds another's. An object that isn't found isn't given out, as it isn't known whether
//! it was refused when it was answered. Bounded.

use std::sync::Arc;

use bytes::Bytes;
use quick_cache::{
    DefaultHashBuilder, OptionsBuilder, Weighter,
    sync::{Cache, DefaultLifecycle},
};

use crate::marks::Scope;

/// Maximum bytes of the cache, by estimate.
const BYTES_MAX: u64 = 32 << 20;
const EXPECTED: usize = 1 << 12;
/// Number of shards, regardless of the number of cores: an entry heavier than its shard's capacity is never stored.
const SHARDS: usize = 8;
/// Share of the capacity for entries that were looked up again. The rest is for new ones, so that a response that was just
/// begun isn't displaced by those that were fetched long ago.
const HOT_SHARE: f64 = 0.5;
/// Maximum bytes stored of one response, or of one request whose response is awaited.
const ONE_BYTES_MAX: usize = 1 << 20;

/// Part of a response that the application got.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Got {
    /// All of it: the response, or the event that ended its stream and contains it. JSON.
    Whole(Bytes),
    /// Nothing yet, as it is generated in the background: the request, which it will be judged by.
    Awaited(Bytes),
    /// Not all of it: it was refused, broke off, or is too large to be stored.
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
    /// The object as it is stored; one that is too large becomes [`Got::Withheld`].
    fn bounded(self) -> Self {
        match &self.got {
            Got::Whole(bytes) | Got::Awaited(bytes) if bytes.len() > ONE_BYTES_MAX => Self { got: Got::Withheld, ..self },
            Got::Whole(_) | Got::Awaited(_) | Got::Withheld => self,
        }
    }
}

/// Cache of objects by scope and ID.
pub struct Originals(Cache<(Scope, Box<str>), Arc<Object>, ByBytes>);

#[derive(Clone)]
struct ByBytes;

impl Weighter<(Scope, Box<str>), Arc<Object>> for ByBytes {
    fn weight(&self, (_, id): &(Scope, Box<str>), object: &Arc<Object>) -> u64 {
        let own = match &object.got {
            Got::Whole(bytes) | Got::Awaited(bytes) => bytes.len(),
            Got::Withheld => 0,
        };
        (own + id.len() + 192) as u64
    }
}

impl Default for Originals {
    fn default() -> Self {
        let mut options = OptionsBuilder::new();
        options.shards(SHARDS).estimated_items_capacity(EXPECTED).weight_capacity(BYTES_MAX).hot_allocation(HOT_SHARE);
        let (hasher, lifecycle) = (DefaultHashBuilder::default(), DefaultLifecycle::default());
        match options.build() {
            Ok(options) => Self(Cache::with_options(options, ByBytes, hasher, lifecycle)),
            // INVARIANT: both capacities are set, which is all that could be missing.
            Err(_) => Self(Cache::with_weighter(EXPECTED, BYTES_MAX, ByBytes)),
        }
    }
}

impl Originals {
    /// Stores an object.
    pub fn keep(&self, scope: &Scope, id: &str, object: Object) {
        self.0.insert((scope.clone(), id.into()), Arc::new(object.bounded()));
    }

    /// The object with this ID.
    pub fn get(&self, scope: &Scope, id: &str) -> Option<Arc<Object>> {
        self.0.get(&(scope.clone(), id.into()))
    }

    /// Removes an object that its owner deleted.
    pub fn forget(&self, scope: &Scope, id: &str) {
        self.0.remove(&(scope.clone(), id.into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_their_owners_and_bounded() {
        let (originals, own, other) = (Originals::default(), Scope::credential(b"a"), Scope::credential(b"b"));
        let object = |bytes: usize| Object { upstream: 1, foreign: false, got: Got::Whole(vec![b'x'; bytes].into()) };
        originals.keep(&own, "resp_1", object(8));
        assert!(originals.get(&other, "resp_1").is_none());
        assert_eq!(originals.get(&own, "resp_1").unwrap().got, Got::Whole(Bytes::from_static(b"xxxxxxxx")));
        originals.keep(&own, "resp_2", object(ONE_BYTES_MAX + 1));
        assert_eq!(originals.get(&own, "resp_2").unwrap().got, Got::Withheld);
        for number in 0..200 {
            originals.keep(&own, &format!("resp_{number}"), object(ONE_BYTES_MAX / 2));
            assert!(originals.0.weight() <= BYTES_MAX);
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
