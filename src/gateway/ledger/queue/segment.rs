//! Records of one worker that wait for the writer, encoded as they are stored, in portions that span a short time.

use std::{collections::VecDeque, mem};

use tokio::sync::oneshot;

use crate::ledger::{
    codec,
    record::ExchangeRecord,
    store::{HourlyAggregator, HourlyRow},
};

/// Records of a portion at most.
const RECORDS_MAX: usize = 1000;
/// Longest time between the ends of a portion's exchanges, in milliseconds: the order of the written records may be off by that much.
const SPAN_MS: u64 = 10_000;
/// Bytes that are reserved for a portion at most, if the portion before had as many.
const RESERVED_BYTES_MAX: usize = 1 << 20;

/// Encoded records, in the order of their arrival.
pub struct Segment {
    bodies: Vec<u8>,
    entries: Vec<SegmentEntry>,
    hourly: Box<dyn HourlyAggregator>,
    waiting: Vec<oneshot::Sender<()>>,
}

struct SegmentEntry {
    /// End of its body in [`Segment::bodies`], as a byte offset.
    end: usize,
    ended_ms: u64,
}

impl Segment {
    fn new(hourly: Box<dyn HourlyAggregator>) -> Self {
        Self { bodies: Vec::new(), entries: Vec::new(), hourly, waiting: Vec::new() }
    }

    /// An empty portion with the same capacity.
    fn next(&self) -> Self {
        let bodies = Vec::with_capacity(self.bodies.len().min(RESERVED_BYTES_MAX));
        Self { bodies, entries: Vec::with_capacity(self.entries.len()), hourly: self.hourly.apart(), waiting: Vec::new() }
    }

    /// The records, as [`codec::write`] writes them, each with the time at which its exchange ended, in Unix milliseconds.
    pub fn records(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let begins = std::iter::once(0).chain(self.entries.iter().map(|entry| entry.end));
        begins.zip(&self.entries).filter_map(|(begin, entry)| Some((entry.ended_ms, self.bodies.get(begin..entry.end)?)))
    }

    /// The hourly sums of its records.
    pub fn hours(&mut self) -> Vec<HourlyRow> {
        self.hourly.changed(0)
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes of the records.
    pub fn bytes(&self) -> usize {
        self.entries.last().map_or(0, |last| last.end)
    }

    /// Notifies everyone waiting that all of its records are on disk.
    pub fn written(self) {
        for waiting in self.waiting {
            // Whoever waited may have gone.
            let _gone = waiting.send(());
        }
    }

    fn begun_ms(&self) -> Option<u64> {
        self.entries.first().map(|first| first.ended_ms)
    }

    fn takes(&self, ended_ms: u64) -> bool {
        self.len() < RECORDS_MAX && self.begun_ms().is_none_or(|begun| ended_ms.abs_diff(begun) <= SPAN_MS)
    }

    fn put(&mut self, record: &ExchangeRecord) {
        // A panic may have left half a record.
        self.bodies.truncate(self.bytes());
        codec::write(record, &mut self.bodies);
        self.hourly.add(record);
        self.entries.push(SegmentEntry { end: self.bodies.len(), ended_ms: record.ended_ms() });
    }
}

/// The portions of one worker.
pub struct QueueShard {
    full: VecDeque<Segment>,
    current: Segment,
}

impl QueueShard {
    /// An empty shard. `hourly` sums records up by the hour.
    pub fn new(hourly: Box<dyn HourlyAggregator>) -> Self {
        Self { full: VecDeque::new(), current: Segment::new(hourly) }
    }

    /// Appends a record; `waiting` is notified once it is on disk. Returns the bytes that the record takes.
    pub fn put(&mut self, record: &ExchangeRecord, waiting: Option<oneshot::Sender<()>>) -> usize {
        if !self.current.takes(record.ended_ms()) {
            let next = self.current.next();
            self.full.push_back(mem::replace(&mut self.current, next));
        }
        let before = self.current.bytes();
        self.current.put(record);
        self.current.waiting.extend(waiting);
        self.current.bytes() - before
    }

    /// Number of portions with at least one record.
    pub fn portions(&self) -> usize {
        self.full.len() + usize::from(!self.current.is_empty())
    }

    /// End of the first exchange in the oldest portion, in Unix milliseconds.
    pub fn begun_ms(&self) -> Option<u64> {
        self.full.front().unwrap_or(&self.current).begun_ms()
    }

    /// Removes and returns the oldest portion.
    pub fn pop(&mut self) -> Option<Segment> {
        self.full.pop_front().or_else(|| {
            let next = (!self.current.is_empty()).then(|| self.current.next())?;
            Some(mem::replace(&mut self.current, next))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ledger::fixtures::RecordGenerator, telemetry::stats::rollup::Rollup};

    #[test]
    fn portions_are_short_in_time_and_in_number() {
        let mut shard = QueueShard::new(Box::<Rollup>::default());
        assert!(shard.pop().is_none() && shard.begun_ms().is_none());
        // One per second: eleven fit into ten seconds.
        let bytes: usize = (0..30).map(|number| shard.put(&RecordGenerator::record(number), None)).sum();
        assert_eq!((shard.portions(), shard.begun_ms()), (3, Some(RecordGenerator::record(0).ended_ms())));
        let portions: Vec<_> = std::iter::from_fn(|| shard.pop()).collect();
        assert_eq!(portions.iter().map(Segment::len).collect::<Vec<_>>(), [11, 11, 8]);
        assert_eq!(portions.iter().map(Segment::bytes).sum::<usize>(), bytes);
        let records = portions.iter().flat_map(Segment::records).map(|(ended_ms, body)| (ended_ms, codec::read(body).unwrap()));
        assert!(records.eq((0..30).map(RecordGenerator::record).map(|record| (record.ended_ms(), record))));
        for _ in 0..2500 {
            shard.put(&RecordGenerator::record(1), None);
        }
        assert_eq!(std::iter::from_fn(|| shard.pop()).map(|portion| portion.len()).collect::<Vec<_>>(), [1000, 1000, 500]);
    }
}
