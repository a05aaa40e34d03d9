//! Index of kept requests: finds those that a request may share a long beginning with, however many are kept.
//!
//! A request is sampled at places that lie closer together than its length matters: eight between each length and its double. A key stands
//! for all samples up to a place, so two requests with the same key are most probably alike up to there. That proves nothing: what they
//! share is found by comparing them.

use std::{
    collections::{HashMap, hash_map::Entry},
    hash::BuildHasher as _,
    sync::{Arc, OnceLock},
};

use foldhash::quality::RandomState;

use super::request_prefix::PrefixOwner;

/// Offset of the first place. Requests of tests are short.
const FIRST: usize = if cfg!(debug_assertions) { 32 } else { 512 };
/// Places between an offset and its double.
const STEPS: usize = 8;
/// Bytes of a sample, in front of its place.
const SAMPLE_BYTES: usize = 16;
/// Requests that are remembered for one key at most: the latest.
const SLOTS: usize = 4;

/// Keys of a request, for each place up to its end.
#[derive(Clone, Debug)]
pub(super) struct SampleKeys(Arc<[u64]>);

impl SampleKeys {
    /// Computes the keys of an owner's request.
    pub fn of(owner: &PrefixOwner, body: &[u8]) -> Self {
        // Random for each process, so that nobody can make requests that have the same keys.
        static HASHER: OnceLock<RandomState> = OnceLock::new();
        let hasher = HASHER.get_or_init(RandomState::default);
        let mut key = hasher.hash_one((owner.api.path(), &owner.scope, Arc::as_ptr(&owner.rules) as usize));
        let mut keys = Vec::with_capacity(places_within(body.len()));
        let samples = (0..).map_while(|number| body.get(place(number) - SAMPLE_BYTES..).and_then(<[u8]>::first_chunk::<SAMPLE_BYTES>));
        keys.extend(samples.map(|sample| {
            key = hasher.hash_one((key, u128::from_le_bytes(*sample)));
            key
        }));
        Self(keys.into())
    }

    /// The keys by which a request is found whose first `end` bytes may be shared: those of its last places, and of a few before.
    pub fn kept(&self, end: usize) -> Box<[u64]> {
        let count = places_within(end).min(self.0.len());
        let keys = self.0.iter().take(count).enumerate();
        keys.filter(|(number, _)| number % STEPS == 0 || number + STEPS >= count).map(|(_, key)| *key).collect()
    }
}

/// Offset of a place, by its number.
fn place(number: usize) -> usize {
    let from = FIRST << (number / STEPS).min(usize::BITS as usize / 2);
    from + from / STEPS * (number % STEPS)
}

/// Number of places up to this offset.
fn places_within(end: usize) -> usize {
    if end < FIRST {
        return 0;
    }
    let doublings = (end / FIRST).ilog2() as usize;
    let from = FIRST << doublings;
    doublings * STEPS + (end - from) / (from / STEPS) + 1
}

/// The kept requests of each key, by their slots.
#[derive(Debug, Default)]
pub(super) struct RequestIndex(HashMap<u64, LatestSlots, RandomState>);

/// The latest slots of a key, the last one first.
#[derive(Clone, Copy, Debug)]
struct LatestSlots([Option<u32>; SLOTS]);

impl LatestSlots {
    /// The slots but one; those before it move up.
    fn without(self, slot: u32) -> impl Iterator<Item = Option<u32>> {
        self.0.into_iter().filter(move |own| own.is_some_and(|own| own != slot))
    }

    fn of(slots: impl Iterator<Item = Option<u32>>) -> Self {
        let mut own = [None; SLOTS];
        own.iter_mut().zip(slots).for_each(|(place, slot)| *place = slot);
        Self(own)
    }
}

impl RequestIndex {
    /// Bytes of memory that a key takes at most.
    pub const KEY_BYTES: usize = size_of::<u64>() + 2 * size_of::<(u64, LatestSlots)>();

    /// Slots of kept requests that are alike up to one of these keys, the longest likeness first; each once.
    pub fn alike(&self, keys: &SampleKeys) -> impl Iterator<Item = usize> {
        let found = keys.0.iter().rev().filter_map(|key| self.0.get(key)).flat_map(|slots| slots.0.into_iter().flatten());
        let mut seen: Vec<u32> = Vec::new();
        found.filter_map(move |slot| {
            let new = !seen.contains(&slot);
            seen.extend(new.then_some(slot));
            new.then_some(slot as usize)
        })
    }

    /// Adds a request with these keys. One whose slot is too high to be noted isn't found.
    pub fn insert(&mut self, keys: &[u64], slot: usize) {
        let Ok(slot) = u32::try_from(slot) else { return };
        for key in keys {
            let slots = self.0.entry(*key).or_insert(LatestSlots([None; SLOTS]));
            *slots = LatestSlots::of(std::iter::once(Some(slot)).chain(slots.without(slot)));
        }
    }

    /// Removes a request with these keys.
    pub fn remove(&mut self, keys: &[u64], slot: usize) {
        let Ok(slot) = u32::try_from(slot) else { return };
        for key in keys {
            let Entry::Occupied(mut entry) = self.0.entry(*key) else { continue };
            let slots = LatestSlots::of(entry.get().without(slot));
            if slots.0 == [None; SLOTS] {
                entry.remove();
            } else {
                entry.insert(slots);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{exchange::active_policy::Standard, marks::Scope, openai::Api, policy::load::PolicySource};

    fn owner(scope: &str) -> PrefixOwner {
        let Standard { rules, .. } = Standard::new(PolicySource::choose(None, Path::new(".")).load().unwrap(), 1 << 20).unwrap();
        PrefixOwner { api: Api::Chat, scope: Scope::client(scope), rules }
    }

    /// A text of this many bytes; texts of two seeds differ nearly everywhere.
    fn text(seed: u64, bytes: usize) -> Vec<u8> {
        let mut state = seed;
        let byte = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(seed | 1);
            (state >> 56) as u8
        };
        std::iter::repeat_with(byte).take(bytes).collect()
    }

    #[test]
    fn places_go_up_and_come_closer_than_an_eighth() {
        let places: Vec<usize> = (0..200).map(place).collect();
        for pair in places.windows(2) {
            assert!(pair[0] < pair[1] && pair[1] - pair[0] <= pair[0] / STEPS, "{pair:?}");
        }
        assert_eq!(places[0], FIRST);
        for end in (0..5000).chain([1 << 20, (1 << 20) - 1, 3 << 20]) {
            assert_eq!(places_within(end), places.iter().filter(|place| **place <= end).count(), "{end}");
        }
    }

    #[test]
    fn of_many_alike_the_one_that_goes_on_is_found_first() {
        let own = owner("a");
        let mut index = RequestIndex::default();
        let begins = text(1, 20_000);
        let bodies: Vec<Vec<u8>> = (0..3000).map(|seed| [begins.clone(), text(seed + 2, 6000)].concat()).collect();
        let kept: Vec<Box<[u64]>> = bodies.iter().map(|body| SampleKeys::of(&own, body).kept(body.len())).collect();
        kept.iter().enumerate().for_each(|(slot, keys)| index.insert(keys, slot));
        for slot in [0, 7, 2999] {
            let later = [bodies[slot].clone(), text(9, 2000)].concat();
            assert_eq!(index.alike(&SampleKeys::of(&own, &later)).next(), Some(slot));
            // All begin as it does, but only the latest are remembered for that.
            assert!(index.alike(&SampleKeys::of(&own, &later)).count() < 60);
        }
        let other = owner("b");
        assert_eq!(index.alike(&SampleKeys::of(&other, &bodies[7])).next(), None);
        let parted = [begins, text(1 << 40, 9000)].concat();
        assert!(index.alike(&SampleKeys::of(&own, &parted)).next().is_some(), "what all share is found");
        kept.iter().enumerate().for_each(|(slot, keys)| index.remove(keys, slot));
        assert!(index.0.is_empty());
    }

    #[test]
    fn what_is_too_short_has_no_keys() {
        let own = owner("a");
        let keys = SampleKeys::of(&own, &text(1, FIRST - 1));
        assert!(keys.0.is_empty() && keys.kept(FIRST).is_empty());
        let keys = SampleKeys::of(&own, &text(1, 3 * FIRST));
        assert!(keys.kept(FIRST - 1).is_empty() && keys.kept(FIRST).len() == 1);
    }
}
