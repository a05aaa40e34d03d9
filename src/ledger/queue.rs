//! The way from exchanges to the writer: bounded, and cheap for the exchange.
//!
//! Handing over never waits, as nobody is there to wait for any more when an exchange has ended; instead an exchange
//! doesn't begin while the queue is full. So at most the bound is in it, and what was under way when it got full.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    thread::Thread,
    time::Duration,
};

use tokio::sync::{Notify, oneshot};

use super::record::ExchangeRecord;

/// Records that may wait for the writer.
pub const RECORDS_MAX: usize = 20_000;
/// Bytes that they may take, by estimate.
pub const BYTES_MAX: usize = 64 << 20;
/// So many that the writer is called before its time: few enough that they are still in the processor's cache.
const CALLED_AT: usize = 256;

/// A record on its way, and who waits for it to be on disk.
pub struct Queued {
    /// The record.
    pub record: Arc<ExchangeRecord>,
    /// Told once it is.
    pub committed: Option<oneshot::Sender<()>>,
    weight: usize,
}

/// The exchanges' end.
pub struct Queue {
    sender: Mutex<Option<mpsc::Sender<Queued>>>,
    state: Arc<State>,
}

/// What both ends know.
#[derive(Default)]
struct State {
    records: AtomicUsize,
    bytes: AtomicUsize,
    /// The writer sleeps until it is called.
    asleep: AtomicBool,
    writer: Mutex<Option<Thread>>,
    room: Notify,
    closed: AtomicBool,
}

impl State {
    fn is_full(&self) -> bool {
        self.records.load(Ordering::Relaxed) >= RECORDS_MAX || self.bytes.load(Ordering::Relaxed) >= BYTES_MAX
    }

    fn call(&self) {
        if let Some(writer) = &*self.writer.lock().unwrap_or_else(PoisonError::into_inner) {
            writer.unpark();
        }
    }
}

impl Queue {
    /// A queue, and its writer's end.
    pub fn new() -> (Self, Inlet) {
        let (sender, receiver) = mpsc::channel();
        let state = Arc::new(State::default());
        (Self { sender: Mutex::new(Some(sender)), state: state.clone() }, Inlet { receiver, state })
    }

    /// Waits for room where there is none; false where there was none in time. Called before an exchange begins.
    pub async fn room(&self, patience: Duration) -> bool {
        if !self.state.is_full() {
            return true;
        }
        let room = async {
            loop {
                let notified = self.state.room.notified();
                if !self.state.is_full() {
                    return;
                }
                notified.await;
            }
        };
        tokio::time::timeout(patience, room).await.is_ok()
    }

    /// Hands a record over. `wait`: returns what is told once it is on disk.
    pub fn put(&self, record: Arc<ExchangeRecord>, wait: bool) -> Option<oneshot::Receiver<()>> {
        let (committed, told) = if wait { Some(oneshot::channel()).unzip() } else { (None, None) };
        let weight = record.weight();
        let before = self.state.records.fetch_add(1, Ordering::Relaxed);
        self.state.bytes.fetch_add(weight, Ordering::Relaxed);
        let queued = Queued { record, committed, weight };
        // Held for a few instructions: nobody waits inside.
        let sent = self.sender.lock().unwrap_or_else(PoisonError::into_inner).as_ref().is_some_and(|sender| sender.send(queued).is_ok());
        if !sent {
            tracing::error!("a record came after the ledger was closed, and is lost");
        }
        if wait || before == CALLED_AT || self.state.asleep.swap(false, Ordering::AcqRel) {
            self.state.call();
        }
        told
    }

    /// Records that wait for the writer.
    pub fn depth(&self) -> usize {
        self.state.records.load(Ordering::Relaxed)
    }

    /// Nothing more comes.
    pub fn close(&self) {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.state.closed.store(true, Ordering::Release);
        self.state.call();
    }
}

/// The writer's end.
pub struct Inlet {
    receiver: mpsc::Receiver<Queued>,
    state: Arc<State>,
}

/// What came out of the queue.
pub struct Drained {
    /// The records, in order.
    pub records: Vec<Queued>,
    /// Nothing more will come.
    pub closed: bool,
}

impl Inlet {
    /// The thread that calls this is the writer from now on.
    pub fn attach(&self) {
        *self.state.writer.lock().unwrap_or_else(PoisonError::into_inner) = Some(std::thread::current());
    }

    /// What is there, `records_max` at most. It counts as waiting until it is [`Self::written`].
    pub fn drain(&self, records_max: usize) -> Drained {
        let mut records = Vec::new();
        while records.len() < records_max {
            match self.receiver.try_recv() {
                Ok(queued) => records.push(queued),
                Err(mpsc::TryRecvError::Empty) => return Drained { records, closed: false },
                Err(mpsc::TryRecvError::Disconnected) => return Drained { records, closed: true },
            }
        }
        Drained { records, closed: false }
    }

    /// Does anything wait?
    pub fn is_waiting(&self) -> bool {
        self.state.records.load(Ordering::Relaxed) > 0
    }

    /// Do so many wait that the writer is to go on at once?
    pub fn is_called(&self) -> bool {
        self.state.records.load(Ordering::Relaxed) >= CALLED_AT
    }

    /// Has it been closed? Something may still be in it.
    pub fn is_closed(&self) -> bool {
        self.state.closed.load(Ordering::Acquire)
    }

    /// These are on disk.
    pub fn written(&self, records: Vec<Queued>) {
        let bytes = records.iter().map(|queued| queued.weight).sum();
        self.state.records.fetch_sub(records.len(), Ordering::Relaxed);
        self.state.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.state.room.notify_waiters();
        for queued in records {
            if let Some(committed) = queued.committed {
                // Whoever waited may have gone.
                let _gone = committed.send(());
            }
        }
    }

    /// Rests for so long, or until called.
    pub fn rest(&self, time: Duration) {
        std::thread::park_timeout(time);
    }

    /// Sleeps until a record comes, for at most so long.
    pub fn sleep(&self, longest: Duration) {
        self.state.asleep.store(true, Ordering::SeqCst);
        // A record that came just before has nobody called.
        if self.state.records.load(Ordering::SeqCst) == 0 {
            std::thread::park_timeout(longest);
        }
        self.state.asleep.store(false, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::sample::Sample;

    fn run<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
    }

    #[test]
    fn nobody_begins_while_it_is_full_and_nothing_is_dropped() {
        let (queue, inlet) = Queue::new();
        let record = Arc::new(Sample::record(1));
        let full = RECORDS_MAX.min(BYTES_MAX.div_ceil(record.weight()));
        for _ in 0..full {
            assert!(queue.put(record.clone(), false).is_none());
        }
        let short = Duration::from_millis(20);
        assert!(!run(queue.room(short)));
        // What was under way gets in all the same, and whoever waits for it is told once it is written.
        let mut told = queue.put(record.clone(), true).unwrap();
        assert_eq!(queue.depth(), full + 1);
        let mut written = 0;
        loop {
            let drained = inlet.drain(1000);
            if drained.records.is_empty() {
                break;
            }
            assert!(told.try_recv().is_err());
            written += drained.records.len();
            inlet.written(drained.records);
        }
        assert_eq!((written, queue.depth()), (full + 1, 0));
        assert!(told.try_recv().is_ok() && run(queue.room(short)));
        queue.close();
        assert!(inlet.drain(1).closed);
    }

    #[test]
    fn who_waits_for_room_goes_on_once_there_is_some() {
        let (queue, inlet) = Queue::new();
        let record = Arc::new(Sample::record(1));
        while !queue.state.is_full() {
            queue.put(record.clone(), false);
        }
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| run(queue.room(Duration::from_secs(30))));
            loop {
                let records = inlet.drain(1000).records;
                if records.is_empty() {
                    break;
                }
                inlet.written(records);
            }
            assert!(waiting.join().unwrap());
        });
    }
}
