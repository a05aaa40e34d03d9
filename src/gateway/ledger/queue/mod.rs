//! The queue from exchanges to the writer: bounded, and cheap for the exchange.
//!
//! Records are encoded and summed up as they arrive, into buffers that are allocated and freed as a whole. Each worker has its own
//! portions; the writer takes the oldest ones first, each as a whole. Handing over never waits, because the exchange has ended by then;
//! instead an exchange doesn't begin while the queue is full. So the queue holds at most the bound and the records of exchanges that were
//! under way when it filled up.

pub mod segment;
pub mod writer;

use std::{
    cell::Cell,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::Thread,
    time::Duration,
};

use tokio::sync::{Notify, oneshot};

use super::{record::ExchangeRecord, store::HourlyAggregator};
use segment::{QueueShard, Segment};

/// Records that may wait for the writer.
pub const RECORDS_MAX: usize = 20_000;
/// Bytes that waiting records may take.
pub const BYTES_MAX: usize = 64 << 20;
/// Number of waiting records that wakes the writer early: few enough that they are still in the processor's cache.
const CALLED_AT: usize = 256;
/// Records after which one read of the queue takes no further portion.
const BATCH: usize = 4_000;

/// Sending end of the queue, used by the exchanges.
pub struct RecordSender(Arc<QueueState>);

/// State shared by both ends of the queue.
struct QueueState {
    shards: Vec<Mutex<QueueShard>>,
    records: AtomicUsize,
    bytes: AtomicUsize,
    /// The writer sleeps until it is woken.
    asleep: AtomicBool,
    writer: Mutex<Option<Thread>>,
    room: Notify,
    closed: AtomicBool,
}

thread_local! {
    /// Index of this thread's shard; `usize::MAX` until it is assigned.
    static OWN: Cell<usize> = const { Cell::new(usize::MAX) };
}
/// Threads that have a shard.
static THREADS: AtomicUsize = AtomicUsize::new(0);

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl QueueState {
    fn is_full(&self) -> bool {
        self.records.load(Ordering::Relaxed) >= RECORDS_MAX || self.bytes.load(Ordering::Relaxed) >= BYTES_MAX
    }

    fn call(&self) {
        if let Some(writer) = &*locked(&self.writer) {
            writer.unpark();
        }
    }

    /// Locks this thread's shard: contended only while the writer takes a portion out.
    fn own(&self) -> MutexGuard<'_, QueueShard> {
        if OWN.get() == usize::MAX {
            OWN.set(THREADS.fetch_add(1, Ordering::Relaxed));
        }
        // INVARIANT: there is at least one shard.
        locked(&self.shards[OWN.get() % self.shards.len()])
    }
}

impl RecordSender {
    /// Creates a queue and its writer's end. `hourly` sums records up by the hour.
    pub fn new(hourly: &dyn HourlyAggregator) -> (Self, RecordReceiver) {
        let count = std::thread::available_parallelism().map_or(1, usize::from);
        let state = Arc::new(QueueState {
            shards: (0..count).map(|_| Mutex::new(QueueShard::new(hourly.apart()))).collect(),
            records: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            asleep: AtomicBool::new(false),
            writer: Mutex::new(None),
            room: Notify::new(),
            closed: AtomicBool::new(false),
        });
        (Self(state.clone()), RecordReceiver(state))
    }

    /// Waits for capacity; false if there was none within `patience`. Called before an exchange begins.
    pub async fn room(&self, patience: Duration) -> bool {
        if !self.0.is_full() {
            return true;
        }
        let room = async {
            loop {
                let notified = self.0.room.notified();
                if !self.0.is_full() {
                    return;
                }
                notified.await;
            }
        };
        tokio::time::timeout(patience, room).await.is_ok()
    }

    /// Hands a record over.
    pub fn put(&self, record: &ExchangeRecord) {
        self.put_with(record, None);
    }

    /// Hands a record over. Returns a receiver that is notified once the record is on disk.
    pub fn put_committed(&self, record: &ExchangeRecord) -> oneshot::Receiver<()> {
        let (committed, told) = oneshot::channel();
        self.put_with(record, Some(committed));
        told
    }

    fn put_with(&self, record: &ExchangeRecord, committed: Option<oneshot::Sender<()>>) {
        let (state, waits) = (&*self.0, committed.is_some());
        let before = {
            let mut own = state.own();
            // The writer's last look is behind this lock.
            if state.closed.load(Ordering::Acquire) {
                tracing::error!("a record came after the ledger was closed, and is lost");
                return;
            }
            let bytes = own.put(record, committed);
            state.bytes.fetch_add(bytes, Ordering::Relaxed);
            state.records.fetch_add(1, Ordering::SeqCst)
        };
        if waits || before == CALLED_AT || state.asleep.swap(false, Ordering::SeqCst) {
            state.call();
        }
    }

    /// Records that wait for the writer.
    pub fn depth(&self) -> usize {
        self.0.records.load(Ordering::Relaxed)
    }

    /// Closes the queue: further records are lost.
    pub fn close(&self) {
        self.0.closed.store(true, Ordering::Release);
        self.0.call();
    }
}

impl Drop for RecordSender {
    /// Closes the queue, so that the writer ends.
    fn drop(&mut self) {
        self.close();
    }
}

/// Receiving end of the queue, used by the writer.
pub struct RecordReceiver(Arc<QueueState>);

/// Records that were taken out of the queue.
pub struct DrainedBatch {
    /// The records; no portion is empty.
    pub portions: Vec<Segment>,
    /// More records wait in the queue.
    pub more: bool,
    /// The queue was closed before it was read: no more records will come.
    pub closed: bool,
}

impl DrainedBatch {
    /// Number of records in all portions.
    pub fn len(&self) -> usize {
        self.portions.iter().map(Segment::len).sum()
    }

    /// Returns whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.portions.is_empty()
    }
}

impl RecordReceiver {
    /// Makes the calling thread the writer, which is woken from now on.
    pub fn attach(&self) {
        *locked(&self.0.writer) = Some(std::thread::current());
    }

    /// Takes the oldest portions of all workers, some thousands of records at most. They count as waiting until they are passed to
    /// [`Self::written`].
    pub fn drain(&self) -> DrainedBatch {
        // Before the look: what comes after it finds the queue closed.
        let closed = self.is_closed();
        // What is put meanwhile waits for the next time.
        let mut left: Vec<usize> = self.0.shards.iter().map(|shard| locked(shard).portions()).collect();
        let mut drained = DrainedBatch { portions: Vec::new(), more: false, closed };
        let mut count = 0;
        loop {
            let shards = self.0.shards.iter().zip(&mut left).filter(|(_, left)| **left > 0);
            let oldest = shards.min_by_key(|(shard, _)| locked(shard).begun_ms());
            let Some((shard, left)) = oldest else { return drained };
            if count >= BATCH {
                drained.more = true;
                return drained;
            }
            *left -= 1;
            if let Some(portion) = locked(shard).pop() {
                count += portion.len();
                drained.portions.push(portion);
            }
        }
    }

    /// Returns whether records wait.
    pub fn is_waiting(&self) -> bool {
        self.0.records.load(Ordering::Relaxed) > 0
    }

    /// Returns whether so many records wait that the writer should go on at once.
    pub fn is_called(&self) -> bool {
        self.0.records.load(Ordering::Relaxed) >= CALLED_AT
    }

    /// Returns whether the queue was closed. Records may still wait in it.
    pub fn is_closed(&self) -> bool {
        self.0.closed.load(Ordering::Acquire)
    }

    /// Reports that these portions are on disk.
    pub fn written(&self, portions: Vec<Segment>) {
        for portion in portions {
            self.0.records.fetch_sub(portion.len(), Ordering::Relaxed);
            self.0.bytes.fetch_sub(portion.bytes(), Ordering::Relaxed);
            portion.written();
        }
        self.0.room.notify_waiters();
    }

    /// Pauses the writer for `time`, or until it is woken.
    pub fn rest(&self, time: Duration) {
        std::thread::park_timeout(time);
    }

    /// Sleeps until a record arrives, for at most `longest`.
    pub fn sleep(&self, longest: Duration) {
        self.0.asleep.store(true, Ordering::SeqCst);
        // A record that arrived just before doesn't wake the writer.
        if self.0.records.load(Ordering::SeqCst) == 0 {
            std::thread::park_timeout(longest);
        }
        self.0.asleep.store(false, Ordering::SeqCst);
    }
}

impl Drop for RecordReceiver {
    /// Closes the queue: without its writer it accepts nothing, and those waiting for a record get an error.
    fn drop(&mut self) {
        self.0.closed.store(true, Ordering::Release);
        let left = || self.0.shards.iter().find_map(|shard| locked(shard).pop());
        let lost: usize = std::iter::from_fn(left).map(|portion| portion.len()).sum();
        if lost > 0 {
            tracing::error!(lost, "records that waited for the ledger's writer are lost");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ledger::{codec, fixtures::RecordGenerator},
        telemetry::stats::rollup::Rollup,
    };

    fn run<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
    }

    fn queue() -> (RecordSender, RecordReceiver) {
        RecordSender::new(&Rollup::default())
    }

    #[test]
    fn nobody_begins_while_it_is_full_and_nothing_is_dropped() {
        let (queue, inlet) = queue();
        let mut put = 0;
        while !queue.0.is_full() {
            queue.put(&RecordGenerator::record(put));
            put += 1;
        }
        let short = Duration::from_millis(20);
        assert!(!run(queue.room(short)));
        // What was under way gets in all the same, and whoever waits for it is told once it is written.
        let mut told = queue.put_committed(&RecordGenerator::record(put));
        assert_eq!(queue.depth() as u64, put + 1);
        let mut records = Vec::new();
        loop {
            let drained = inlet.drain();
            if drained.is_empty() {
                break;
            }
            assert!(drained.len() < BATCH + 1000 && told.try_recv().is_err());
            records.extend(drained.portions.iter().flat_map(Segment::records).map(|(_, body)| codec::read(body).unwrap()));
            assert_eq!(drained.more, (records.len() as u64) <= put);
            inlet.written(drained.portions);
        }
        assert!(records.into_iter().eq((0..=put).map(RecordGenerator::record)));
        assert_eq!((queue.depth(), inlet.0.bytes.load(Ordering::Relaxed)), (0, 0));
        assert!(told.try_recv().is_ok() && run(queue.room(short)));
    }

    #[test]
    fn what_comes_after_the_end_is_told_so() {
        let (queue, inlet) = queue();
        queue.put(&RecordGenerator::record(1));
        queue.close();
        let drained = inlet.drain();
        assert!(drained.closed && drained.len() == 1);
        let told = queue.put_committed(&RecordGenerator::record(2));
        assert!(run(told).is_err() && inlet.drain().is_empty());
    }

    #[test]
    fn who_waits_for_room_goes_on_once_there_is_some() {
        let (queue, inlet) = queue();
        while !queue.0.is_full() {
            queue.put(&RecordGenerator::record(1));
        }
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| run(queue.room(Duration::from_secs(30))));
            inlet.written(inlet.drain().portions);
            assert!(waiting.join().unwrap());
        });
    }

    #[test]
    fn without_a_writer_nothing_is_taken_and_nobody_waits_in_vain() {
        let (queue, inlet) = queue();
        let told = queue.put_committed(&RecordGenerator::record(1));
        drop(inlet);
        assert!(run(told).is_err());
        assert!(run(queue.put_committed(&RecordGenerator::record(2))).is_err());
        // And without those who put, the writer ends.
        let (queue, inlet) = self::queue();
        drop(queue);
        assert!(inlet.drain().closed);
    }

    #[test]
    fn what_two_workers_put_over_minutes_comes_in_order() {
        let (queue, inlet) = queue();
        // Both had their turns over ten minutes, one after the other: they may share a shard.
        let turns = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            for own in 0..2 {
                let (queue, turns) = (&queue, &turns);
                scope.spawn(move || {
                    for number in (0..600).filter(|number| number % 2 == own) {
                        turns.wait();
                        queue.put(&RecordGenerator::record(number));
                    }
                });
            }
        });
        let times: Vec<u64> = inlet.drain().portions.iter().flat_map(Segment::records).map(|(ended_ms, _)| ended_ms).collect();
        let mut latest = 0;
        for time in &times {
            assert!(*time + 10_000 >= latest, "at most ten seconds out of order");
            latest = latest.max(*time);
        }
        assert_eq!(times.len(), 600);
    }

    #[test]
    fn threads_put_side_by_side_and_all_of_it_comes_and_counts() {
        let (queue, inlet) = queue();
        let mut hourly = Rollup::default();
        let (mut bodies, mut drained) = (Vec::new(), Vec::new());
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4_u64)
                .map(|of| {
                    scope.spawn({
                        let queue = &queue;
                        move || (0..500).for_each(|number| queue.put(&RecordGenerator::record(of * 500 + number)))
                    })
                })
                .collect();
            while threads.iter().any(|thread| !thread.is_finished()) {
                drained.extend(inlet.drain().portions);
            }
        });
        drained.extend(inlet.drain().portions);
        for mut portion in drained {
            bodies.extend(portion.records().map(|(_, body)| codec::read(body).unwrap().id));
            hourly.take_up(&portion.hours());
        }
        bodies.sort();
        assert!(bodies.into_iter().eq((0..2000).map(|number| RecordGenerator::record(number).id)));
        let mut whole = Rollup::default();
        (0..2000).for_each(|number| whole.add(&RecordGenerator::record(number)));
        assert_eq!(hourly.changed(1), whole.changed(1));
    }
}
