//! A store in this process, for tests of what is before the store: it can be slow or away.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use super::{Adjust, Append, CounterError, CounterKey, CounterStore, Entry, Take, Taken};

/// Content of the store and its clock.
#[derive(Default)]
pub struct Shelf {
    pub now_us: u64,
    pub is_away: bool,
    pub delay: Duration,
    pub buckets: HashMap<CounterKey, u64>,
    pub sessions: HashMap<CounterKey, Vec<(u64, Vec<u8>)>>,
}

/// A connection to the store.
#[derive(Clone, Default)]
pub struct MemoryStore(pub Arc<Mutex<Shelf>>);

impl MemoryStore {
    fn with<T>(&self, act: impl FnOnce(&mut Shelf) -> T) -> Result<T, CounterError> {
        let delay = self.0.lock().unwrap().delay;
        std::thread::sleep(delay);
        let mut shelf = self.0.lock().unwrap();
        if shelf.is_away { Err(CounterError::Unavailable("the cable is cut".into())) } else { Ok(act(&mut shelf)) }
    }
}

impl CounterStore for MemoryStore {
    fn take(&mut self, takes: &[Take]) -> Result<Vec<Taken>, CounterError> {
        self.with(|shelf| {
            let one = |take: &Take| {
                let now = shelf.now_us;
                let full = shelf.buckets.get(&take.key).copied().unwrap_or(0).clamp(now, now + 2 * take.span_us);
                let left = (now + take.span_us).saturating_sub(full);
                if left > 0 && take.cost_us <= left {
                    shelf.buckets.insert(take.key, full + take.cost_us);
                    Taken::Granted
                } else {
                    Taken::Refused((full + take.cost_us).saturating_sub(now + take.span_us).max(1))
                }
            };
            takes.iter().map(one).collect()
        })
    }

    fn adjust(&mut self, adjusts: &[Adjust]) -> Result<(), CounterError> {
        self.with(|shelf| {
            for adjust in adjusts {
                let full = shelf.buckets.entry(adjust.key).or_default();
                *full = (*full).max(shelf.now_us).saturating_add_signed(adjust.delta_us).min(shelf.now_us + 2 * adjust.span_us);
            }
        })
    }

    fn append(&mut self, appends: &[Append]) -> Result<(), CounterError> {
        self.with(|shelf| {
            for append in appends {
                let entries = shelf.sessions.entry(append.key).or_default();
                for entry in &append.entries {
                    if !entries.iter().any(|(_, body)| *body == entry.body) {
                        entries.push((shelf.now_us / 1000 - entry.age_ms, entry.body.clone()));
                    }
                }
            }
        })
    }

    fn entries(&mut self, keys: &[CounterKey]) -> Result<Vec<Vec<Entry>>, CounterError> {
        self.with(|shelf| {
            let now_ms = shelf.now_us / 1000;
            let entry = |(at_ms, body): &(u64, Vec<u8>)| Entry { age_ms: now_ms - at_ms, body: body.clone() };
            keys.iter().map(|key| shelf.sessions.get(key).into_iter().flatten().map(entry).collect()).collect()
        })
    }

    fn publish(&mut self, _: &str, _: &[Vec<u8>]) -> Result<(), CounterError> {
        self.with(|_| ())
    }

    fn tend(&mut self) -> Result<(), CounterError> {
        self.with(|_| ())
    }
}
