//! The counters as exchanges use them: a bounded queue before one thread, a deadline for every wait, and what happens when the store is away.
//!
//! ```text
//!  answers ──(an error, or nobody hears within `wait`)──▶ away: nobody waits, local counts decide; tried again every [`RETRY`]
//!     ▲                                                     │
//!     └───────────────(the store answers)───────────────────┘
//! ```
//! Jobs of several exchanges share a round trip. Being away is said in the log once a minute at most.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError, SyncSender},
    },
    time::{Duration, Instant},
};

use tokio::sync::oneshot;

use super::{Adjust, Append, CounterError, CounterKey, CounterStore, ENTRIES_MAX, Entry, Take, Taken};
use crate::settings::{CountersSettings, CountersUrl};

/// Jobs that may wait.
const WAITING_MAX: usize = 1024;
/// Jobs that share a round trip.
const TOGETHER_MAX: usize = 128;
/// Appends that are kept for a store that is away.
const KEPT_MAX: usize = 1024;
/// Pause before a store that is away is tried again.
const RETRY: Duration = Duration::from_millis(500);
/// Idle time after which a store is tended.
const TEND: Duration = Duration::from_secs(1);
/// Shortest time between two lines that say that the store is away.
const SAID_EVERY: Duration = Duration::from_secs(60);
/// Longest time that the end of the process waits for appends to be stored.
const END: Duration = Duration::from_millis(500);

/// Opens a connection to the store. Blocks, for a bounded time.
pub type Connect = Box<dyn FnMut() -> Result<Box<dyn CounterStore>, CounterError> + Send>;

enum Job {
    Take(Vec<Take>, oneshot::Sender<Vec<Taken>>),
    Adjust(Adjust),
    Append(Append),
    Entries(CounterKey, oneshot::Sender<Vec<Entry>>),
    Publish(Vec<u8>),
}

/// Counters that this process shares with its replicas.
pub struct SharedCounters {
    jobs: Option<SyncSender<Job>>,
    ended: Mutex<Receiver<()>>,
    status: Arc<CounterStatus>,
    wait: Duration,
    secret: [u8; 32],
    channel: String,
}

/// Whether the store, or its channel, answers, and what was counted without it.
pub struct CounterStatus {
    /// What can't be asked while it is away, what is done instead, and what is done again afterwards.
    words: [&'static str; 3],
    is_away: AtomicBool,
    asked: AtomicU64,
    local: AtomicU64,
    lapses: AtomicU64,
    lapse: Mutex<Lapse>,
}

#[derive(Default)]
struct Lapse {
    why: String,
    since: Option<Instant>,
    said: Option<Instant>,
    is_said: bool,
}

impl CounterStatus {
    /// It answers. `what` can't be asked while it is away; `instead`, `again`: what replicas do then, and afterwards.
    pub(super) fn new(what: &'static str, instead: &'static str, again: &'static str) -> Self {
        Self {
            words: [what, instead, again],
            is_away: AtomicBool::new(false),
            asked: AtomicU64::new(0),
            local: AtomicU64::new(0),
            lapses: AtomicU64::new(0),
            lapse: Mutex::default(),
        }
    }

    /// Why the store is away; `None` while it answers.
    pub fn away(&self) -> Option<String> {
        let is_away = self.is_away.load(Ordering::Relaxed);
        is_away.then(|| self.lapse.lock().unwrap_or_else(PoisonError::into_inner).why.clone())
    }

    /// Numbers of questions to the store, of those that local counts decided, and of times that the store was away.
    pub fn figures(&self) -> [u64; 3] {
        [&self.asked, &self.local, &self.lapses].map(|count| count.load(Ordering::Relaxed))
    }

    /// Notes that the store is away, and says it if that is due.
    pub(super) fn leave(&self, why: &str) {
        if self.is_away.swap(true, Ordering::Relaxed) {
            return;
        }
        self.lapses.fetch_add(1, Ordering::Relaxed);
        let mut lapse = self.lapse.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        (lapse.why, lapse.since) = (why.to_owned(), Some(now));
        lapse.is_said = lapse.said.is_none_or(|said| now.duration_since(said) >= SAID_EVERY);
        if lapse.is_said {
            lapse.said = Some(now);
            let [what, instead, _] = self.words;
            tracing::warn!(why, "{what} can't be reached ({why}): {instead} until then");
        }
    }

    /// Notes that the store answers.
    pub(super) fn come_back(&self) {
        if !self.is_away.swap(false, Ordering::Relaxed) {
            return;
        }
        let mut lapse = self.lapse.lock().unwrap_or_else(PoisonError::into_inner);
        let away_ms = lapse.since.take().map_or(0, |since| since.elapsed().as_millis() as u64);
        if lapse.is_said {
            let [what, _, again] = self.words;
            tracing::info!(away_ms, "{what} can be reached again after {away_ms} ms: {again}");
        }
    }
}

/// How the store is reached; `None` for counts in this process.
fn connector(url: &CountersUrl) -> Option<Connect> {
    match url {
        CountersUrl::Memory => None,
        #[cfg(feature = "postgres")]
        CountersUrl::Postgres(url) => {
            let url = url.clone();
            Some(Box::new(move || Ok(Box::new(super::postgres::PostgresCounters::open(url.expose())?))))
        }
        #[cfg(feature = "redis")]
        CountersUrl::Redis(url) => {
            let url = url.clone();
            Some(Box::new(move || Ok(Box::new(super::redis::RedisCounters::open(url.expose())?))))
        }
        // INVARIANT: settings refuse what this build lacks.
        #[cfg(not(feature = "postgres"))]
        CountersUrl::Postgres(_) => None,
        #[cfg(not(feature = "redis"))]
        CountersUrl::Redis(_) => None,
    }
}

/// Tries whether the store answers; `None` for counts in this process. Blocks.
pub fn try_out(url: &CountersUrl) -> Option<Result<(), CounterError>> {
    connector(url).map(|mut connect| connect()?.tend())
}

impl SharedCounters {
    /// Starts what the settings ask for; `None` for counts in this process. `keys`: those of the marks, from which the counters' is derived.
    ///
    /// # Errors
    /// [`std::io::Error`] if its thread can't be started. A store that can't be reached is no error: it is away.
    pub fn of_settings(settings: &CountersSettings, keys: &[[u8; 32]]) -> std::io::Result<Option<Arc<Self>>> {
        let Some(connect) = connector(&settings.url) else { return Ok(None) };
        Self::start(connect, &keys.first().copied().unwrap_or_default(), settings.wait).map(Arc::new).map(Some)
    }

    /// Starts the thread. `wait`: longest time that an exchange waits for an answer.
    ///
    /// # Errors
    /// [`std::io::Error`] if the thread can't be started.
    pub fn start(connect: Connect, key: &[u8; 32], wait: Duration) -> std::io::Result<Self> {
        let (jobs, received) = mpsc::sync_channel(WAITING_MAX);
        let (ends, ended) = mpsc::channel();
        let words = ("the shared counters", "each replica counts for itself", "replicas count together again");
        let status = Arc::new(CounterStatus::new(words.0, words.1, words.2));
        let secret = blake3::derive_key("toolmark 2026-11-25 shared counters v1", key);
        // Each deployment has its own.
        let digest = blake3::keyed_hash(&secret, b"channel").to_hex();
        let channel = format!("toolmark_{}", digest.get(..16).unwrap_or_default());
        let mut server =
            Server { connect, store: None, status: status.clone(), kept: Vec::new(), tried: Instant::now(), channel: channel.clone() };
        // So that the first exchanges find the store, if it is there.
        server.attempt(|store| store.tend());
        std::thread::Builder::new().name("counters".into()).spawn(move || {
            server.run(&received);
            // Nobody may wait for it any more.
            let _unheard = ends.send(());
        })?;
        Ok(Self { jobs: Some(jobs), ended: Mutex::new(ended), status, wait, secret, channel })
    }

    /// Whether the store answers.
    pub fn status(&self) -> &CounterStatus {
        &self.status
    }

    /// Name of the channel between replicas.
    pub fn channel(&self) -> &str {
        &self.channel
    }

    /// Sends a message to all replicas, this one too, without waiting. Lost if the store is away.
    pub fn publish(&self, message: Vec<u8>) {
        self.send(Job::Publish(message));
    }

    /// Key of what these parts name, such as a client's rate.
    pub fn key(&self, kind: &str, parts: &[&[u8]]) -> CounterKey {
        let mut hasher = blake3::Hasher::new_keyed(&self.secret);
        for part in [kind.as_bytes()].iter().chain(parts) {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
        }
        *hasher.finalize().as_bytes()
    }

    /// Takes from buckets. `None`: the store is away or late, and local counts decide.
    pub async fn take(&self, takes: Vec<Take>) -> Option<Vec<Taken>> {
        let (answer, answered) = oneshot::channel();
        let count = takes.len();
        let taken = self.ask(Job::Take(takes, answer), answered).await?;
        (taken.len() == count).then_some(taken)
    }

    /// The entries of a session. `None`: the store is away or late.
    pub async fn entries(&self, key: CounterKey) -> Option<Vec<Entry>> {
        let (answer, answered) = oneshot::channel();
        self.ask(Job::Entries(key, answer), answered).await
    }

    /// Corrects a bucket, without waiting. Lost if the store is away.
    pub fn adjust(&self, adjust: Adjust) {
        self.send(Job::Adjust(adjust));
    }

    /// Adds entries to a session, without waiting. Kept for a store that is away, within bounds.
    pub fn append(&self, append: Append) {
        self.send(Job::Append(append));
    }

    fn send(&self, job: Job) -> bool {
        self.jobs.as_ref().is_some_and(|jobs| jobs.try_send(job).is_ok())
    }

    async fn ask<T>(&self, job: Job, answered: oneshot::Receiver<T>) -> Option<T> {
        self.status.asked.fetch_add(1, Ordering::Relaxed);
        let is_away = self.status.is_away.load(Ordering::Relaxed);
        let answer = if is_away || !self.send(job) {
            None
        } else {
            match tokio::time::timeout(self.wait, answered).await {
                Ok(answer) => answer.ok(),
                Err(_) => {
                    self.status.leave(&format!("no answer within {} ms", self.wait.as_millis()));
                    None
                }
            }
        };
        if answer.is_none() {
            self.status.local.fetch_add(1, Ordering::Relaxed);
        }
        answer
    }
}

impl Drop for SharedCounters {
    fn drop(&mut self) {
        self.jobs = None;
        // What was to be added is stored, if that takes no longer.
        let _late = self.ended.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(END);
    }
}

/// The thread that talks to the store.
struct Server {
    connect: Connect,
    store: Option<Box<dyn CounterStore>>,
    status: Arc<CounterStatus>,
    /// Appends for a store that is away; the latest are kept.
    kept: Vec<Append>,
    /// Time of the last attempt to reach the store.
    tried: Instant,
    channel: String,
}

impl Server {
    fn run(mut self, received: &Receiver<Job>) {
        loop {
            let rest = if self.store.is_some() { TEND } else { RETRY.saturating_sub(self.tried.elapsed()) };
            match received.recv_timeout(rest) {
                Ok(first) => self.serve(std::iter::once(first).chain(received.try_iter()).take(TOGETHER_MAX).collect()),
                Err(RecvTimeoutError::Timeout) => drop(self.attempt(|store| store.tend())),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Does something with the store, which is connected before if necessary. `None` if that failed.
    fn attempt<T>(&mut self, act: impl FnOnce(&mut dyn CounterStore) -> Result<T, CounterError>) -> Option<T> {
        self.tried = Instant::now();
        let connected = match self.store.take() {
            Some(store) => Ok(store),
            None => (self.connect)(),
        };
        let done = connected.and_then(|mut store| {
            if !self.kept.is_empty() {
                store.append(&self.kept)?;
                self.kept.clear();
            }
            let done = act(&mut *store)?;
            self.store = Some(store);
            Ok(done)
        });
        match done {
            Ok(done) => {
                self.status.come_back();
                Some(done)
            }
            Err(error) => {
                self.status.leave(&error.to_string());
                None
            }
        }
    }

    fn serve(&mut self, jobs: Vec<Job>) {
        let (mut takes, mut takers, mut adjusts, mut keys, mut readers) = (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (mut messages, channel) = (Vec::new(), self.channel.clone());
        for job in jobs {
            match job {
                // Whoever gave up has counted for itself.
                Job::Take(_, answer) if answer.is_closed() => {}
                Job::Entries(_, answer) if answer.is_closed() => {}
                Job::Take(own, answer) => {
                    takers.push((own.len(), answer));
                    takes.extend(own);
                }
                Job::Entries(key, answer) => {
                    keys.push(key);
                    readers.push(answer);
                }
                Job::Adjust(adjust) => adjusts.push(adjust),
                Job::Append(append) => self.kept.push(append),
                Job::Publish(message) => messages.push(message),
            }
        }
        let surplus = self.kept.len().saturating_sub(KEPT_MAX);
        self.kept.drain(..surplus);
        if self.store.is_none() {
            return;
        }
        // Whoever isn't answered hears of it when these are dropped: after the store is known to be away.
        self.attempt(|store| {
            if !takes.is_empty() {
                let mut taken = store.take(&takes)?.into_iter();
                for (count, answer) in takers.drain(..) {
                    // The caller may have gone.
                    let _gone = answer.send(taken.by_ref().take(count).collect());
                }
            }
            if !messages.is_empty() {
                store.publish(&channel, &messages)?;
            }
            if !adjusts.is_empty() {
                store.adjust(&adjusts)?;
            }
            if !keys.is_empty() {
                for (answer, mut entries) in readers.drain(..).zip(store.entries(&keys)?) {
                    entries.truncate(ENTRIES_MAX);
                    let _gone = answer.send(entries);
                }
            }
            Ok(())
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::{bucket::Bucket, memory::MemoryStore};

    fn run<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
    }

    fn counters(store: &MemoryStore, wait: Duration) -> SharedCounters {
        let store = store.clone();
        let connect = move || {
            let mut own = store.clone();
            own.tend().map(|()| Box::new(own) as Box<dyn CounterStore>)
        };
        SharedCounters::start(Box::new(connect), &[7; 32], wait).unwrap()
    }

    /// Waits until it holds, for at most ten seconds.
    fn until(what: &str, holds: impl Fn() -> bool) {
        let began = Instant::now();
        while !holds() {
            assert!(began.elapsed() < Duration::from_secs(10), "{what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn two_processes_take_from_one_bucket() {
        let store = MemoryStore::default();
        let replicas = [counters(&store, LONG), counters(&store, LONG)];
        let bucket = |own: &SharedCounters| Bucket::new(own.key("rate", &[b"client"]), 3, Duration::from_secs(30));
        let granted: Vec<Option<Vec<Taken>>> =
            (0..5).map(|at| run(replicas[at % 2].take(vec![bucket(&replicas[at % 2]).take(1)]))).collect();
        let refused = Some(vec![Taken::Refused(10_000_000)]);
        assert_eq!(granted[..3], [(); 3].map(|()| Some(vec![Taken::Granted])));
        assert_eq!(granted[3..], [refused.clone(), refused]);
        store.0.lock().unwrap().now_us = 10_000_000;
        assert_eq!(run(replicas[1].take(vec![bucket(&replicas[1]).take(1); 2])).unwrap()[0], Taken::Granted);
        // What was given back is there at once.
        replicas[0].adjust(bucket(&replicas[0]).give_back(1));
        until("given back", || run(replicas[0].take(vec![bucket(&replicas[0]).take(1)])) == Some(vec![Taken::Granted]));
        let other = SharedCounters::start(Box::new(|| Err(CounterError::Unavailable("no".into()))), &[8; 32], LONG).unwrap();
        assert_ne!(other.key("rate", &[b"client"]), replicas[0].key("rate", &[b"client"]), "another key, another deployment");
        assert_ne!(replicas[0].key("rate", &[b"a", b"b"]), replicas[0].key("rate", &[b"ab"]));
    }

    #[test]
    fn a_store_that_is_away_costs_one_wait_and_comes_back() {
        let store = MemoryStore::default();
        let own = counters(&store, LONG);
        let take = || run(own.take(vec![Bucket::new([1; 32], 100, Duration::from_secs(30)).take(1)]));
        assert!(take().is_some());
        store.0.lock().unwrap().is_away = true;
        assert_eq!(take(), None);
        assert_eq!(own.status().away().as_deref(), Some("the cable is cut"));
        let began = Instant::now();
        assert!((0..1_000).all(|_| take().is_none()) && began.elapsed() < LONG / 2, "nobody waits");
        let [asked, local, lapses] = own.status().figures();
        assert_eq!((asked, local, lapses), (1_002, 1_001, 1));
        let entry = Entry { age_ms: 0, body: b"kept".to_vec() };
        own.append(Append { key: [2; 32], entries: vec![entry.clone()], keep: LONG });
        store.0.lock().unwrap().is_away = false;
        until("back", || own.status().away().is_none());
        assert!(take().is_some());
        assert_eq!(run(own.entries([2; 32])), Some(vec![entry]), "what nobody waited for came, too");
    }

    #[test]
    fn a_store_that_is_slow_is_left_alone() {
        let store = MemoryStore::default();
        let own = counters(&store, Duration::from_millis(20));
        until("connected", || run(own.entries([0; 32])).is_some());
        store.0.lock().unwrap().delay = Duration::from_millis(300);
        let began = Instant::now();
        for _ in 0..50 {
            assert_eq!(run(own.entries([0; 32])), None);
        }
        assert!(began.elapsed() < Duration::from_millis(250), "one wait for all: {:?}", began.elapsed());
        assert_eq!(own.status().away().as_deref(), Some("no answer within 20 ms"));
        store.0.lock().unwrap().delay = Duration::ZERO;
        until("back", || run(own.entries([0; 32])).is_some());
    }

    #[test]
    fn what_is_kept_for_a_store_that_is_away_is_bounded_and_stored_at_the_end() {
        let store = MemoryStore::default();
        store.0.lock().unwrap().is_away = true;
        let own = counters(&store, LONG);
        for number in 0..2 * KEPT_MAX as u64 {
            let entry = Entry { age_ms: 0, body: number.to_le_bytes().to_vec() };
            let append = || Append { key: [3; 32], entries: vec![entry.clone()], keep: LONG };
            until("room in the queue", || own.send(Job::Append(append())));
        }
        store.0.lock().unwrap().is_away = false;
        until("stored", || store.0.lock().unwrap().sessions.get(&[3; 32]).is_some_and(|entries| entries.len() >= KEPT_MAX));
        assert!(store.0.lock().unwrap().sessions[&[3; 32]].len() <= KEPT_MAX + WAITING_MAX);
        until("back", || own.status().away().is_none());
        own.append(Append { key: [4; 32], entries: vec![Entry { age_ms: 0, body: vec![1] }], keep: LONG });
        drop(own);
        assert!(store.0.lock().unwrap().sessions.contains_key(&[4; 32]));
    }
}
