//! What this process knows of the objects that upstreams keep: which of them has each, and what the application got of it.
//!
//! Keyed by scope, so that nobody finds another's. What isn't found here isn't given out: nobody could say whether it was
//! refused when it was answered. Bounded.

use std::sync::Arc;

use bytes::Bytes;
use quick_cache::{Weighter, sync::Cache};

use crate::marks::Scope;

/// Bytes that all of it may take, by estimate.
const BYTES_MAX: u64 = 32 << 20;
const EXPECTED: usize = 1 << 12;
/// Bytes of one response, or of one request whose response is waited for, that are kept.
const ONE_BYTES_MAX: usize = 1 << 20;

/// What the application got of a response.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Got {
    /// All of it: the response, or the event that ended its stream with it. JSON.
    Whole(Bytes),
    /// Nothing yet, as it is made in the background: the request, by which it will be judged.
    Awaited(Bytes),
    /// Not all of it: it was refused, broke off, or is too large to be kept.
    Withheld,
}

/// One object.
#[derive(Clone, Debug)]
pub struct Object {
    /// Which of `[[upstreams]]` has it.
    pub upstream: usize,
    /// That isn't the one that the caller's request was for: it never sees the caller's own key.
    pub foreign: bool,
    /// What the application got of it.
    pub got: Got,
}

impl Object {
    /// As it is kept.
    fn bounded(self) -> Self {
        match &self.got {
            Got::Whole(bytes) | Got::Awaited(bytes) if bytes.len() > ONE_BYTES_MAX => Self { got: Got::Withheld, ..self },
            Got::Whole(_) | Got::Awaited(_) | Got::Withheld => self,
        }
    }
}

/// See the module.
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
        Self(Cache::with_weighter(EXPECTED, BYTES_MAX, ByBytes))
    }
}

impl Originals {
    /// Keeps what is known of an object.
    pub fn keep(&self, scope: &Scope, id: &str, object: Object) {
        self.0.insert((scope.clone(), id.into()), Arc::new(object.bounded()));
    }

    /// What is known of an object.
    pub fn get(&self, scope: &Scope, id: &str) -> Option<Arc<Object>> {
        self.0.get(&(scope.clone(), id.into()))
    }

    /// Its owner deleted it.
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
        originals.forget(&own, "resp_199");
        assert!(originals.get(&own, "resp_199").is_none());
    }
}
