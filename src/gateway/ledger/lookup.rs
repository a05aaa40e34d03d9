//! Queries of exchanges to the ledger: sent without blocking a worker, answered by dedicated threads.
//!
//! The number of waiting queries is bounded, and so is the time that an exchange waits. Queries of several exchanges are combined.

use std::{
    sync::{
        Arc, Mutex, PoisonError, TryLockError,
        mpsc::{self, TryRecvError},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use tokio::sync::oneshot;

use super::{
    query_times::{QueryKind, QueryTimes},
    store::{ChainStore, FirstResult, StoreError},
};
use crate::ledger::index::ExecutionKey;

/// Queries that may wait.
const WAITING_MAX: usize = 1024;
/// Exchanges' queries that are combined into one.
const TOGETHER_MAX: usize = 64;
/// Threads for a shared database; an embedded one needs one.
const THREADS: usize = 3;
/// First results that a thread remembers where the database didn't take them; what is more is only recorded.
const LATE_MAX: usize = 4096;
/// Pause between tries to claim them.
const LATE_PAUSE: Duration = Duration::from_millis(200);

/// The ledger didn't answer in time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LookupUnavailable;

enum LookupQuery {
    Known(Vec<ExecutionKey>),
    Claim(Vec<FirstResult>),
}

struct PendingQuery {
    question: LookupQuery,
    now_ms: u64,
    asked: Instant,
    answer: oneshot::Sender<Vec<FirstResult>>,
}

/// A query that was asked; its answer is waited for later.
#[must_use = "a query is asked for its answer"]
pub struct PendingFirstResults {
    /// `None` if it couldn't be asked.
    answered: Option<oneshot::Receiver<Vec<FirstResult>>>,
    end: Instant,
}

impl PendingFirstResults {
    /// The first results that were asked for.
    ///
    /// # Errors
    /// [`LookupUnavailable`] if they aren't there when the deadline, counted from asking, has passed.
    pub async fn wait(self) -> Result<Vec<FirstResult>, LookupUnavailable> {
        let answered = self.answered.ok_or(LookupUnavailable)?;
        // An answer that is there is taken, however late somebody asks for it.
        match tokio::time::timeout_at(self.end.into(), answered).await {
            Ok(Ok(found)) => Ok(found),
            Ok(Err(_)) | Err(_) => Err(LookupUnavailable),
        }
    }
}

/// Pool of threads that look up executions in the store. The threads end when it is dropped.
pub struct LookupPool {
    sender: Option<mpsc::SyncSender<PendingQuery>>,
    deadline: Duration,
    /// Threads of an embedded store, which never wait for another machine: joined on drop, so that the store is released.
    threads: Vec<JoinHandle<()>>,
}

impl Drop for LookupPool {
    fn drop(&mut self) {
        self.sender = None;
        for thread in self.threads.drain(..) {
            // A panic there was reported by its own hook.
            let _ended = thread.join();
        }
    }
}

impl LookupPool {
    /// Starts the threads. `deadline`: longest time that an exchange waits.
    ///
    /// # Errors
    /// [`StoreError`] where they can't be started.
    pub fn start(store: &Arc<dyn ChainStore>, deadline: Duration, times: &Arc<QueryTimes>) -> Result<Self, StoreError> {
        let (sender, receiver) = mpsc::sync_channel(WAITING_MAX);
        let receiver = Arc::new(Mutex::new(receiver));
        let (shared, mut threads) = (store.is_shared(), Vec::new());
        for number in 0..if shared { THREADS } else { 1 } {
            let (store, receiver, times) = (store.clone(), receiver.clone(), times.clone());
            let thread = std::thread::Builder::new().name(format!("lookup-{number}"));
            let thread = thread.spawn(move || answer_all(&*store, &receiver, &times));
            let thread = thread.map_err(|error| StoreError::Unavailable(format!("its thread can't be started: {error}")))?;
            threads.extend((!shared).then_some(thread));
        }
        Ok(Self { sender: Some(sender), deadline, threads })
    }

    /// Looks up the first results of these executions; unknown ones are left out.
    ///
    /// # Errors
    /// [`LookupUnavailable`] within the deadline.
    pub async fn known(&self, keys: Vec<ExecutionKey>, now_ms: u64) -> Result<Vec<FirstResult>, LookupUnavailable> {
        self.ask(LookupQuery::Known(keys), now_ms).wait().await
    }

    /// Asks for the first results of these executions. Where several processes share the store, a result that isn't known becomes the
    /// first, also if nobody waits for the answer.
    pub fn claim(&self, claims: Vec<FirstResult>, now_ms: u64) -> PendingFirstResults {
        self.ask(LookupQuery::Claim(claims), now_ms)
    }

    fn ask(&self, question: LookupQuery, now_ms: u64) -> PendingFirstResults {
        let (answer, answered) = oneshot::channel();
        let asked = Instant::now();
        let query = PendingQuery { question, now_ms, asked, answer };
        let sent = self.sender.as_ref().is_some_and(|sender| sender.try_send(query).is_ok());
        PendingFirstResults { answered: sent.then_some(answered), end: asked + self.deadline }
    }
}

fn answer_all(store: &dyn ChainStore, receiver: &Mutex<mpsc::Receiver<PendingQuery>>, times: &QueryTimes) {
    let mut late: Vec<FirstResult> = Vec::new();
    loop {
        let asked = if late.is_empty() { next(receiver) } else { next_beside_late(receiver) };
        let Some(asked) = asked else { return };
        let (mut claims, mut known): (Vec<_>, Vec<_>) =
            asked.into_iter().partition(|asked| matches!(asked.question, LookupQuery::Claim(_)));
        // Whoever gave up needs no answer; what they saw first is claimed all the same.
        known.retain(|asked| !asked.answer.is_closed());
        claim_late(store, &mut late, &mut claims);
        answer(store, claims, &mut late, times);
        answer(store, known, &mut late, times);
    }
}

/// The next query, which is waited for, with those that wait behind it; `None` once there will be no more.
fn next(receiver: &Mutex<mpsc::Receiver<PendingQuery>>) -> Option<Vec<PendingQuery>> {
    let receiver = receiver.lock().unwrap_or_else(PoisonError::into_inner);
    let first = receiver.recv().ok()?;
    waiting(&receiver, vec![first])
}

/// The queries that wait after a pause, perhaps none: late claims are tried again besides. `None` once there will be no more.
fn next_beside_late(receiver: &Mutex<mpsc::Receiver<PendingQuery>>) -> Option<Vec<PendingQuery>> {
    std::thread::park_timeout(LATE_PAUSE);
    match receiver.try_lock() {
        Ok(receiver) => waiting(&receiver, Vec::new()),
        Err(TryLockError::Poisoned(receiver)) => waiting(&receiver.into_inner(), Vec::new()),
        // Another thread waits there for the next query.
        Err(TryLockError::WouldBlock) => Some(Vec::new()),
    }
}

/// `asked` with the queries that wait; `None` if there is none, and will be no more.
fn waiting(receiver: &mpsc::Receiver<PendingQuery>, mut asked: Vec<PendingQuery>) -> Option<Vec<PendingQuery>> {
    while asked.len() < TOGETHER_MAX {
        match receiver.try_recv() {
            Ok(further) => asked.push(further),
            Err(TryRecvError::Disconnected) if asked.is_empty() => return None,
            Err(TryRecvError::Disconnected | TryRecvError::Empty) => break,
        }
    }
    Some(asked)
}

/// Claims what couldn't be claimed in time, so that a later result is found to be another one.
fn claim_late(store: &dyn ChainStore, late: &mut Vec<FirstResult>, claims: &mut Vec<PendingQuery>) {
    claims.retain(|asked| {
        let LookupQuery::Claim(own) = &asked.question else { return true };
        let given_up = asked.answer.is_closed();
        if given_up {
            late.extend(own.iter().cloned());
        }
        !given_up
    });
    late.truncate(LATE_MAX);
    if !late.is_empty() && store.claim(late, late_ms()).is_ok() {
        late.clear();
    }
}

/// Time of a late claim, in Unix milliseconds.
fn late_ms() -> u64 {
    crate::ledger::queue::writer::now_ms()
}

fn answer(store: &dyn ChainStore, asked: Vec<PendingQuery>, late: &mut Vec<FirstResult>, times: &QueryTimes) {
    let now_ms = asked.iter().map(|asked| asked.now_ms).max().unwrap_or(0);
    let (mut claims, mut keys) = (Vec::new(), Vec::new());
    for asked in &asked {
        match &asked.question {
            LookupQuery::Claim(own) => claims.extend(own.iter().cloned()),
            LookupQuery::Known(own) => keys.extend(own.iter().copied()),
        }
    }
    if claims.is_empty() && keys.is_empty() {
        return;
    }
    let found = if claims.is_empty() { store.known(&keys) } else { store.claim(&claims, now_ms) };
    let kind = if claims.is_empty() { QueryKind::Sessions } else { QueryKind::FirstResults };
    asked.iter().for_each(|asked| times.observe(kind, asked.asked.elapsed()));
    let found = match found {
        Ok(found) => found,
        Err(error) => {
            tracing::error!(%error, questions = asked.len(), "the ledger can't be asked");
            late.extend(claims);
            late.truncate(LATE_MAX);
            return;
        }
    };
    for PendingQuery { question, answer, .. } in asked {
        let own = |first: &&FirstResult| match &question {
            LookupQuery::Claim(claims) => claims.iter().any(|claim| claim.key == first.key),
            LookupQuery::Known(keys) => keys.contains(&first.key),
        };
        // Whoever asked may have gone.
        let _gone = answer.send(found.iter().filter(own).cloned().collect());
    }
}
