//! The newest exchanges in memory, with their bodies, for whoever looks at them. Never on disk.
//!
//! An exchange's record and its captured bodies come separately, in any order, and share its id. On the path of an exchange
//! this only stores what was shared with it; the work is done when somebody looks.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

use uuid::Uuid;

use crate::{
    cassette::{capture::CapturedExchange, recorder::CaptureSink},
    ledger::{record::ExchangeRecord, recorder::RecordObserver},
};

/// Longest body that is kept whole, in bytes; longer ones are cut.
pub const BODY_BYTES_MAX: usize = 256 << 10;
/// Bytes of all bodies; the oldest exchanges are dropped for newer ones.
const BODIES_BYTES_MAX: usize = 64 << 20;

/// An exchange in memory.
#[derive(Clone, Debug, Default)]
pub struct RecentExchange {
    /// Its record, once the exchange has ended.
    pub record: Option<ExchangeRecord>,
    /// Its bodies, once all of it was sent. Secrets are still in it.
    pub captured: Option<CapturedExchange>,
    /// A body was longer than [`BODY_BYTES_MAX`].
    pub is_cut: bool,
}

#[derive(Default)]
struct RecentState {
    /// Ids in the order of their arrival.
    order: VecDeque<Uuid>,
    exchanges: HashMap<Uuid, RecentExchange>,
    bytes: usize,
}

/// Ring of the newest exchanges.
pub struct RecentExchanges {
    exchanges_max: usize,
    state: Mutex<RecentState>,
}

impl fmt::Debug for RecentExchanges {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("RecentExchanges")
    }
}

impl RecentExchanges {
    /// A ring of at most so many exchanges.
    pub fn new(exchanges_max: usize) -> Self {
        Self { exchanges_max, state: Mutex::default() }
    }

    /// The exchange with this id.
    pub fn find(&self, id: Uuid) -> Option<RecentExchange> {
        self.state().exchanges.get(&id).cloned()
    }

    /// The id of the newest exchange that has ended.
    pub fn newest(&self) -> Option<Uuid> {
        let state = self.state();
        state.order.iter().rev().find(|id| state.exchanges.get(id).is_some_and(|own| own.record.is_some())).copied()
    }

    /// The exchanges whose bodies are in the ring, the newest first.
    pub fn captured(&self) -> Vec<RecentExchange> {
        let state = self.state();
        let all = state.order.iter().rev().filter_map(|id| state.exchanges.get(id));
        all.filter(|exchange| exchange.captured.is_some()).cloned().collect()
    }

    fn state(&self) -> MutexGuard<'_, RecentState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, id: Uuid, bytes: usize, change: impl FnOnce(&mut RecentExchange)) {
        if self.exchanges_max == 0 {
            return;
        }
        let mut dropped = Vec::new();
        let mut state = self.state();
        if !state.exchanges.contains_key(&id) {
            state.order.push_back(id);
        }
        let entry = state.exchanges.entry(id).or_default();
        let before = entry.captured.as_ref().map_or(0, CapturedExchange::body_bytes);
        change(entry);
        let replaced = if bytes > 0 { before } else { 0 };
        state.bytes = (state.bytes + bytes).saturating_sub(replaced);
        while state.order.len() > self.exchanges_max || (state.bytes > BODIES_BYTES_MAX && state.order.len() > 1) {
            let Some(oldest) = state.order.pop_front() else { break };
            let Some(gone) = state.exchanges.remove(&oldest) else { continue };
            state.bytes = state.bytes.saturating_sub(gone.captured.as_ref().map_or(0, CapturedExchange::body_bytes));
            dropped.push(gone);
        }
        // Freed outside the lock.
        drop(state);
        drop(dropped);
    }
}

impl CaptureSink for RecentExchanges {
    fn take(&self, mut captured: CapturedExchange) {
        let Some(id) = captured.id else { return };
        let is_cut = captured.cut_bodies(BODY_BYTES_MAX);
        let bytes = captured.body_bytes();
        self.change(id, bytes, |exchange| (exchange.captured, exchange.is_cut) = (Some(captured), is_cut));
    }
}

impl RecordObserver for RecentExchanges {
    fn observe(&self, record: &ExchangeRecord) {
        let Some(first) = record.amends else {
            return self.change(record.id, 0, |exchange| exchange.record = Some(record.clone()));
        };
        // Something became known only afterwards.
        self.change(first, 0, |exchange| {
            if let Some(own) = &mut exchange.record {
                (own.verdict, own.status) = (record.verdict, record.status);
                own.violations.extend(record.violations.iter().cloned());
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use bytes::Bytes;
    use http::HeaderMap;

    use super::*;
    use crate::{cassette::capture::CapturedRequest, ledger::fixtures::RecordGenerator};

    fn captured(id: Uuid, bytes: usize) -> CapturedExchange {
        let message =
            CapturedRequest { method: "POST".into(), url: "/".into(), headers: HeaderMap::new(), body: Bytes::from(vec![b'x'; bytes]) };
        let mut captured = CapturedExchange::new(0, Instant::now(), message);
        captured.id = Some(id);
        captured
    }

    #[test]
    fn the_ring_is_bounded_in_exchanges_and_bytes() {
        let ring = RecentExchanges::new(3);
        let ids: Vec<Uuid> = (0..5).map(Uuid::from_u128).collect();
        for id in &ids {
            ring.take(captured(*id, 10));
            ring.observe(&ExchangeRecord { id: *id, ..RecordGenerator::record(1) });
        }
        assert!(ring.find(ids[1]).is_none() && ring.find(ids[2]).is_some_and(|found| found.record.is_some() && !found.is_cut));
        assert_eq!((ring.newest(), ring.captured().len()), (Some(ids[4]), 3));
        assert_eq!(ring.state().bytes, 30);
        let ring = RecentExchanges::new(10_000);
        let many = BODIES_BYTES_MAX / BODY_BYTES_MAX + 10;
        for number in 0..many {
            ring.take(captured(Uuid::from_u128(number as u128), BODY_BYTES_MAX + 1));
        }
        assert!(
            ring.state().bytes <= BODIES_BYTES_MAX && ring.captured().len() == many - 10 && ring.captured().iter().all(|one| one.is_cut)
        );
        // The same exchange again, as where a cassette is played: counted once.
        (0..3).for_each(|_| ring.take(captured(Uuid::from_u128(many as u128 - 1), 5)));
        let counted: usize = ring.captured().iter().filter_map(|one| one.captured.as_ref()).map(CapturedExchange::body_bytes).sum();
        assert_eq!(ring.state().bytes, counted);
    }

    #[test]
    fn a_ring_of_none_keeps_nothing() {
        let ring = RecentExchanges::new(0);
        ring.take(captured(Uuid::from_u128(1), 10));
        assert!(ring.captured().is_empty() && ring.find(Uuid::from_u128(1)).is_none());
    }
}
