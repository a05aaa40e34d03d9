//! The newest exchanges in memory, with their bodies, for whoever looks at them. Never on disk.
//!
//! An exchange's record and its captured bodies come separately, in any order, and share its id. On the path of an exchange
//! this only stores what was shared with it; the work is done when somebody looks. Of exchanges that passed, only [`PASSED_PER_SECOND`]
//! a second are kept: more would push the others out within moments, and memory that was used just now is the fastest to use again. Past that,
//! the headers of answers aren't captured either.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use uuid::Uuid;

use crate::{
    cassette::{
        capture::CapturedExchange,
        recorder::{CaptureExtent, CaptureSink},
    },
    ledger::record::ExchangeRecord,
    violation::Verdict,
};

/// Longest body that is kept whole, in bytes; longer ones are cut.
pub const BODY_BYTES_MAX: usize = 256 << 10;
/// Bytes of all bodies; the oldest exchanges are dropped for newer ones.
const BODIES_BYTES_MAX: usize = 64 << 20;

/// Exchanges kept of those that began in the same second and passed, with or without violations of the severity `info`.
pub const PASSED_PER_SECOND: u32 = 100;
/// Exchanges of one second that may have ended between the end of an exchange's bodies and its record.
const BETWEEN_MAX: u32 = 1024;

/// An exchange in memory.
#[derive(Clone, Debug, Default)]
pub struct RecentExchange {
    /// Its record, once the exchange has ended.
    pub record: Option<Arc<ExchangeRecord>>,
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

/// Count of events in the newest second.
#[derive(Debug, Default)]
struct SecondCount(AtomicU64);

impl SecondCount {
    /// Number of events counted in the second of this time, in Unix milliseconds, before now; an older second counts as the newest.
    fn count(&self, at_ms: u64) -> u32 {
        let second = at_ms / 1000;
        let next = |known: u64| {
            let (newest, count) = (known >> 24, known & 0xff_ffff);
            Some(if second > newest { second << 24 | 1 } else { newest << 24 | (count + 1).min(0xff_ffff) })
        };
        Self::of(self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).unwrap_or_default(), second)
    }

    /// The same without counting another.
    fn peek(&self, at_ms: u64) -> u32 {
        Self::of(self.0.load(Ordering::Relaxed), at_ms / 1000)
    }

    /// The count that a value holds for this second.
    fn of(value: u64, second: u64) -> u32 {
        if second > value >> 24 { 0 } else { (value & 0xff_ffff) as u32 }
    }
}

/// Ring of the newest exchanges.
pub struct RecentExchanges {
    exchanges_max: usize,
    passed: SecondCount,
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
        Self { exchanges_max, passed: SecondCount::default(), state: Mutex::default() }
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

    /// False if the ring has no place for this record.
    pub fn takes(&self, record: &ExchangeRecord) -> bool {
        let passed = record.amends.is_none() && record.verdict == Verdict::Pass;
        let before = if passed { self.passed.peek(record.at_ms) } else { 0 };
        match before {
            _ if self.exchanges_max == 0 => false,
            0..PASSED_PER_SECOND => true,
            // Its bodies may have been among the last that were taken.
            _ => before < PASSED_PER_SECOND + BETWEEN_MAX && self.state().exchanges.contains_key(&record.id),
        }
    }

    /// Takes the record of an exchange that has ended, if there is a place for it.
    pub fn note(&self, record: Arc<ExchangeRecord>) {
        if !self.takes(&record) {
            return;
        }
        let Some(first) = record.amends else {
            return self.change(record.id, 0, |exchange| exchange.record = Some(record));
        };
        // Something became known only afterwards.
        if let Some(own) = self.state().exchanges.get_mut(&first).and_then(|exchange| exchange.record.as_mut()) {
            let own = Arc::make_mut(own);
            (own.verdict, own.status) = (record.verdict, record.status);
            own.violations.extend(record.violations.iter().cloned());
        }
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
    fn extent(&self, now_ms: u64) -> CaptureExtent {
        if self.passed.peek(now_ms) < PASSED_PER_SECOND { CaptureExtent::Whole } else { CaptureExtent::UnlessPassed }
    }

    fn take(&self, mut captured: CapturedExchange) {
        let Some(id) = captured.id else { return };
        if captured.passed() && self.passed.count(captured.at_ms()) >= PASSED_PER_SECOND {
            return;
        }
        let is_cut = captured.cut_bodies(BODY_BYTES_MAX);
        let bytes = captured.body_bytes();
        self.change(id, bytes, |exchange| (exchange.captured, exchange.is_cut) = (Some(captured), is_cut));
    }

    fn pass_over(&self, at_ms: u64) {
        self.passed.count(at_ms);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use bytes::Bytes;
    use http::HeaderMap;

    use super::*;
    use crate::{
        cassette::{
            capture::CapturedRequest,
            format::{RecordedVerdict, RecordedViolation},
            recorder::{CaptureSinks, RecordingHandle},
        },
        ledger::fixtures::RecordGenerator,
        sys::clock::Began,
    };

    fn captured(id: Uuid, bytes: usize) -> CapturedExchange {
        captured_at(id, 0, bytes)
    }

    fn captured_at(id: Uuid, at_ms: u64, bytes: usize) -> CapturedExchange {
        let message = CapturedRequest {
            method: "POST".into(),
            url: "/".into(),
            headers: HeaderMap::new(),
            body: Bytes::from(vec![b'x'; bytes]).into(),
        };
        let mut captured = CapturedExchange::new(at_ms, Instant::now(), message);
        captured.id = Some(id);
        captured
    }

    #[test]
    fn the_ring_is_bounded_in_exchanges_and_bytes() {
        let ring = RecentExchanges::new(3);
        let ids: Vec<Uuid> = (0..5).map(Uuid::from_u128).collect();
        for id in &ids {
            ring.take(captured(*id, 10));
            ring.note(Arc::new(ExchangeRecord { id: *id, ..RecordGenerator::record(1) }));
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
    fn what_passes_beyond_the_limit_is_counted_and_not_gathered() {
        let ring = Arc::new(RecentExchanges::new(10));
        let sinks: CaptureSinks = Arc::new([ring.clone() as Arc<dyn CaptureSink>]);
        let began = Began::now();
        let ends = |id: u128, verdict| {
            let handle = RecordingHandle::for_sinks("POST", "/".into(), HeaderMap::new(), Bytes::new(), began, sinks.clone());
            handle.note(|raw| raw.id = Some(Uuid::from_u128(id)));
            handle.discard(verdict)
        };
        assert!(!ends(1, Verdict::Pass) && ring.captured().len() == 1, "the first of its second is taken");
        (0..PASSED_PER_SECOND).for_each(|_| ring.pass_over(began.ms));
        assert!(ends(2, Verdict::Pass) && ring.captured().len() == 1);
        assert_eq!(ring.passed.peek(began.ms), PASSED_PER_SECOND + 1);
        assert!(!ends(3, Verdict::Warn) && ring.captured().len() == 2, "one that didn't pass is taken");
    }

    #[test]
    fn of_many_in_a_second_those_that_did_not_pass_stay() {
        // Each with an `info`, which doesn't make it one that didn't pass.
        let info = RecordedViolation { code: "unverified_call".into(), severity: "info".into(), tool: None, message: String::new() };
        let verdict = |verdict: Verdict| {
            let violations = vec![info.clone()];
            Some(RecordedVerdict { verdict: verdict.as_str().into(), repairs: 0, violations, citations: Vec::new() })
        };
        let (ring, passed_max) = (RecentExchanges::new(10_000), PASSED_PER_SECOND as usize);
        let kept_of = |from: u128, at_ms: u64, found: Verdict| {
            let before = ring.captured().len();
            for number in 0..300 {
                let id = Uuid::from_u128(from + number);
                let mut captured = captured_at(id, at_ms, 10);
                captured.verdict = verdict(found);
                ring.take(captured);
                let record = ExchangeRecord { id, at_ms, verdict: found, violations: Vec::new(), ..RecordGenerator::record(1) };
                ring.note(Arc::new(record));
            }
            ring.captured().len() - before
        };
        assert_eq!(kept_of(0, 5_000, Verdict::Pass), passed_max);
        assert_eq!(kept_of(1000, 5_500, Verdict::Blocked), 300);
        // A later second has room again, an earlier one has none of its own.
        assert_eq!(kept_of(2000, 6_000, Verdict::Pass), passed_max);
        assert_eq!(kept_of(3000, 5_999, Verdict::Pass), 0);
        assert!(ring.find(Uuid::from_u128(0)).is_some_and(|found| found.record.is_some()));
        assert!(ring.find(Uuid::from_u128(299)).is_none(), "a record without bodies takes nobody's place");
    }

    #[test]
    fn a_ring_of_none_keeps_nothing() {
        let ring = RecentExchanges::new(0);
        ring.take(captured(Uuid::from_u128(1), 10));
        assert!(ring.captured().is_empty() && ring.find(Uuid::from_u128(1)).is_none());
    }
}
