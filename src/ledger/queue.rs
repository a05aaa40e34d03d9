//! The way from exchanges to the writer: bounded, and cheap for the exchange.
//!
//! Records wait in the form in which they are stored, one behind the other, and are summed up as they come: nothing that one
//! thread takes from the heap is given back by another. Each worker has a portion of its own; the writer takes all of it at
//! once. Handing over never waits, as nobody is there to wait for any more when an exchange has ended; instead an exchange
//! doesn't begin while the queue is full. So at most the bound is in it, and what was under way when it got full.

use std::{
    cell::Cell,
    mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::Thread,
    time::Duration,
};

use tokio::sync::{Notify, oneshot};

use super::{
    record::ExchangeRecord,
    store::{HourRow, Hourly},
    stored,
};

/// Records that may wait for the writer.
pub const RECORDS_MAX: usize = 20_000;
/// Bytes that they may take.
pub const BYTES_MAX: usize = 64 << 20;
/// So many that the writer is called before its time: few enough that they are still in the processor's cache.
const CALLED_AT: usize = 256;
/// Bytes that are set aside for a portion at most, when as many came before.
const RESERVED_BYTES_MAX: usize = 1 << 20;

/// Records on their way, in order.
pub struct Portion {
    bodies: Vec<u8>,
    /// Where in `bodies` each ends.
    ends: Vec<usize>,
    hourly: Box<dyn Hourly>,
    /// Told once all of it is on disk.
    waiting: Vec<oneshot::Sender<()>>,
}

impl Portion {
    fn new(hourly: Box<dyn Hourly>) -> Self {
        Self { bodies: Vec::new(), ends: Vec::new(), hourly, waiting: Vec::new() }
    }

    /// An empty one, with room for as much.
    fn next(&self) -> Self {
        let bodies = Vec::with_capacity(self.bodies.len().min(RESERVED_BYTES_MAX));
        Self { bodies, ends: Vec::with_capacity(self.ends.len()), hourly: self.hourly.apart(), waiting: Vec::new() }
    }

    /// The records, as [`stored::write`] writes them.
    pub fn bodies(&self) -> impl Iterator<Item = &[u8]> {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        begins.zip(&self.ends).filter_map(|(begin, end)| self.bodies.get(begin..*end))
    }

    /// Their hourly sums.
    pub fn hours(&mut self) -> Vec<HourRow> {
        self.hourly.changed(0)
    }

    /// How many they are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Is there none?
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes that it takes.
    fn put(&mut self, record: &ExchangeRecord) -> usize {
        // A panic may have left half a record.
        let begin = self.ends.last().copied().unwrap_or(0);
        self.bodies.truncate(begin);
        stored::write(record, &mut self.bodies);
        self.hourly.add(record);
        self.ends.push(self.bodies.len());
        self.bodies.len() - begin
    }
}

/// The exchanges' end.
pub struct Queue(Arc<State>);

/// What both ends know.
struct State {
    portions: Vec<Mutex<Portion>>,
    records: AtomicUsize,
    bytes: AtomicUsize,
    /// The writer sleeps until it is called.
    asleep: AtomicBool,
    writer: Mutex<Option<Thread>>,
    room: Notify,
    closed: AtomicBool,
}

thread_local! {
    /// Which portion is this thread's.
    static OWN: Cell<usize> = const { Cell::new(usize::MAX) };
}
/// Threads that have one.
static THREADS: AtomicUsize = AtomicUsize::new(0);

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    fn is_full(&self) -> bool {
        self.records.load(Ordering::Relaxed) >= RECORDS_MAX || self.bytes.load(Ordering::Relaxed) >= BYTES_MAX
    }

    fn call(&self) {
        if let Some(writer) = &*locked(&self.writer) {
            writer.unpark();
        }
    }

    /// This thread's portion: nobody waits for it, but while the writer takes it.
    fn own(&self) -> MutexGuard<'_, Portion> {
        if OWN.get() == usize::MAX {
            OWN.set(THREADS.fetch_add(1, Ordering::Relaxed));
        }
        // INVARIANT: there is one at least.
        locked(&self.portions[OWN.get() % self.portions.len()])
    }
}

impl Queue {
    /// A queue, and its writer's end. `hourly`: what sums up.
    pub fn new(hourly: &dyn Hourly) -> (Self, Inlet) {
        let count = std::thread::available_parallelism().map_or(1, usize::from);
        let state = Arc::new(State {
            portions: (0..count).map(|_| Mutex::new(Portion::new(hourly.apart()))).collect(),
            records: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            asleep: AtomicBool::new(false),
            writer: Mutex::new(None),
            room: Notify::new(),
            closed: AtomicBool::new(false),
        });
        (Self(state.clone()), Inlet(state))
    }

    /// Waits for room where there is none; false where there was none in time. Called before an exchange begins.
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

    /// Hands a record over. `wait`: returns what is told once it is on disk.
    pub fn put(&self, record: &ExchangeRecord, wait: bool) -> Option<oneshot::Receiver<()>> {
        let state = &*self.0;
        let (committed, told) = if wait { Some(oneshot::channel()).unzip() } else { (None, None) };
        let before = {
            let mut own = state.own();
            // The writer's last look is behind this lock.
            if state.closed.load(Ordering::Acquire) {
                tracing::error!("a record came after the ledger was closed, and is lost");
                return told;
            }
            let bytes = own.put(record);
            own.waiting.extend(committed);
            state.bytes.fetch_add(bytes, Ordering::Relaxed);
            state.records.fetch_add(1, Ordering::SeqCst)
        };
        if wait || before == CALLED_AT || state.asleep.swap(false, Ordering::SeqCst) {
            state.call();
        }
        told
    }

    /// Records that wait for the writer.
    pub fn depth(&self) -> usize {
        self.0.records.load(Ordering::Relaxed)
    }

    /// Nothing more comes.
    pub fn close(&self) {
        self.0.closed.store(true, Ordering::Release);
        self.0.call();
    }
}

/// The writer's end.
pub struct Inlet(Arc<State>);

/// What came out of the queue.
pub struct Drained {
    /// The records; none of the portions is empty.
    pub portions: Vec<Portion>,
    /// Nothing more will come.
    pub closed: bool,
}

impl Drained {
    /// Records in all of it.
    pub fn len(&self) -> usize {
        self.portions.iter().map(Portion::len).sum()
    }

    /// Is there none?
    pub fn is_empty(&self) -> bool {
        self.portions.is_empty()
    }
}

impl Inlet {
    /// The thread that calls this is the writer from now on.
    pub fn attach(&self) {
        *locked(&self.0.writer) = Some(std::thread::current());
    }

    /// All that is there. It counts as waiting until it is [`Self::written`].
    pub fn drain(&self) -> Drained {
        // Before the look: what comes after it finds the queue closed.
        let closed = self.is_closed();
        let take = |portion: &Mutex<Portion>| {
            let mut portion = locked(portion);
            let next = (!portion.is_empty()).then(|| portion.next())?;
            Some(mem::replace(&mut *portion, next))
        };
        Drained { portions: self.0.portions.iter().filter_map(take).collect(), closed }
    }

    /// Does anything wait?
    pub fn is_waiting(&self) -> bool {
        self.0.records.load(Ordering::Relaxed) > 0
    }

    /// Do so many wait that the writer is to go on at once?
    pub fn is_called(&self) -> bool {
        self.0.records.load(Ordering::Relaxed) >= CALLED_AT
    }

    /// Has it been closed? Something may still be in it.
    pub fn is_closed(&self) -> bool {
        self.0.closed.load(Ordering::Acquire)
    }

    /// These are on disk.
    pub fn written(&self, portions: Vec<Portion>) {
        for portion in portions {
            self.0.records.fetch_sub(portion.len(), Ordering::Relaxed);
            self.0.bytes.fetch_sub(portion.ends.last().copied().unwrap_or(0), Ordering::Relaxed);
            for committed in portion.waiting {
                // Whoever waited may have gone.
                let _gone = committed.send(());
            }
        }
        self.0.room.notify_waiters();
    }

    /// Rests for so long, or until called.
    pub fn rest(&self, time: Duration) {
        std::thread::park_timeout(time);
    }

    /// Sleeps until a record comes, for at most so long.
    pub fn sleep(&self, longest: Duration) {
        self.0.asleep.store(true, Ordering::SeqCst);
        // A record that came just before has nobody called.
        if self.0.records.load(Ordering::SeqCst) == 0 {
            std::thread::park_timeout(longest);
        }
        self.0.asleep.store(false, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ledger::sample::Sample, observe::rollup::Rollup};

    fn run<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
    }

    fn queue() -> (Queue, Inlet) {
        Queue::new(&Rollup::default())
    }

    #[test]
    fn nobody_begins_while_it_is_full_and_nothing_is_dropped() {
        let (queue, inlet) = queue();
        let mut put = 0;
        while !queue.0.is_full() {
            assert!(queue.put(&Sample::record(put), false).is_none());
            put += 1;
        }
        let short = Duration::from_millis(20);
        assert!(!run(queue.room(short)));
        // What was under way gets in all the same, and whoever waits for it is told once it is written.
        let mut told = queue.put(&Sample::record(put), true).unwrap();
        assert_eq!(queue.depth() as u64, put + 1);
        let drained = inlet.drain();
        let records = drained.portions.iter().flat_map(Portion::bodies).map(|body| stored::read(body).unwrap());
        assert!(records.eq((0..=put).map(Sample::record)));
        assert!(told.try_recv().is_err() && inlet.drain().is_empty());
        inlet.written(drained.portions);
        assert_eq!((queue.depth(), inlet.0.bytes.load(Ordering::Relaxed)), (0, 0));
        assert!(told.try_recv().is_ok() && run(queue.room(short)));
    }

    #[test]
    fn what_comes_after_the_end_is_told_so() {
        let (queue, inlet) = queue();
        queue.put(&Sample::record(1), false);
        queue.close();
        let drained = inlet.drain();
        assert!(drained.closed && drained.len() == 1);
        let told = queue.put(&Sample::record(2), true).unwrap();
        assert!(run(told).is_err() && inlet.drain().is_empty());
    }

    #[test]
    fn who_waits_for_room_goes_on_once_there_is_some() {
        let (queue, inlet) = queue();
        while !queue.0.is_full() {
            queue.put(&Sample::record(1), false);
        }
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| run(queue.room(Duration::from_secs(30))));
            inlet.written(inlet.drain().portions);
            assert!(waiting.join().unwrap());
        });
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
                        move || (0..500).for_each(|number| drop(queue.put(&Sample::record(of * 500 + number), false)))
                    })
                })
                .collect();
            while threads.iter().any(|thread| !thread.is_finished()) {
                drained.extend(inlet.drain().portions);
            }
        });
        drained.extend(inlet.drain().portions);
        for mut portion in drained {
            bodies.extend(portion.bodies().map(|body| stored::read(body).unwrap().id));
            hourly.take_up(&portion.hours());
        }
        bodies.sort();
        assert!(bodies.into_iter().eq((0..2000).map(|number| Sample::record(number).id)));
        let mut whole = Rollup::default();
        (0..2000).for_each(|number| whole.add(&Sample::record(number)));
        assert_eq!(hourly.changed(1), whole.changed(1));
    }
}
