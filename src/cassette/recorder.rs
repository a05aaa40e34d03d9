//! Records exchanges while they happen. An exchange only collects its data; a separate thread splits streams, removes
//! secrets and writes. Others may take the same data: [`CaptureSink`].
//!
//! Nothing is lost under load: an exchange begins only when the queue has room for it, so callers that are faster than the
//! disk wait at the start of their exchange, and the memory used for recording is bounded.

use std::{
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::{SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use http::{HeaderMap, header::CONTENT_TYPE};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::redact::Redactor;
use crate::{
    capture::{BodyEnd, CapturedAttempt, CapturedExchange, CapturedRequest},
    format::RecordedExchange,
    writer::{CassetteWriter, Rotation, TailRepair, WriteError},
};
use toolmark_core::{marks::KeyRing, sys::clock::Began, violation::Verdict, wire::rope::Rope};

/// Capacity of the queue: one unit for each exchange, and one for each `UNIT_BYTES` of its request.
const UNITS: usize = 4096;
const UNIT_BYTES: usize = 64 << 10;
/// Exchanges and bytes written at once, at most.
const BATCH: usize = 256;
const BATCH_BYTES: usize = 4 << 20;

/// Settings of recording.
#[derive(Clone, Debug)]
pub struct Recording {
    /// A file, or a directory.
    pub path: std::path::PathBuf,
    /// Rotation of the files in a directory.
    pub rotation: Rotation,
    /// The redaction rules.
    pub redactor: Redactor,
    /// Names of headers to record in addition to the fixed ones, in lower case.
    pub headers: Vec<String>,
}

/// Cassette recorder: a bounded queue and the thread that redacts and writes.
pub struct CassetteRecorder {
    queue: Option<mpsc::Sender<Job>>,
    room: Arc<Semaphore>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// Extent of what is captured of an exchange.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum CaptureExtent {
    /// Everything.
    #[default]
    Whole,
    /// Enough passed lately: of this exchange only what is needed if it doesn't pass, and not the headers that only a reader would miss.
    /// Kept are the `Content-Type` of answers, and of requests upstream toolmark's own key.
    UnlessPassed,
}

/// Takes captured exchanges when they have ended, on the worker of the exchange: it must neither block nor take long.
pub trait CaptureSink: Send + Sync {
    /// The extent that is wanted of an exchange that begins now, in Unix milliseconds.
    fn extent(&self, _now_ms: u64) -> CaptureExtent {
        CaptureExtent::Whole
    }

    /// Called once for each captured exchange, when all of it was sent; not for those that were [discarded](RecordingHandle::discard).
    fn take(&self, captured: CapturedExchange);

    /// Called in place of [`take`](Self::take) for each that was discarded. `at_ms`: time at which it began.
    fn pass_over(&self, _at_ms: u64) {}
}

type Job = (Box<CapturedExchange>, Option<OwnedSemaphorePermit>);

impl CassetteRecorder {
    /// Opens the cassette and starts its writer.
    ///
    /// # Errors
    /// [`WriteError`].
    pub fn start(recording: Recording, ring: Arc<KeyRing>) -> Result<Self, WriteError> {
        let writer = CassetteWriter::open(&recording.path, recording.rotation, now_ms())?;
        match writer.mended() {
            TailRepair::Whole => {}
            TailRepair::Recovered => {
                tracing::warn!(cassette = %writer.path().display(), "the cassette's last line lacked its end, which was added")
            }
            TailRepair::Dropped => {
                tracing::warn!(cassette = %writer.path().display(), "the cassette's last line was cut off, and is dropped")
            }
        }
        tracing::info!(cassette = %writer.path().display(), "exchanges are recorded in {}", recording.path.display());
        let (queue, jobs) = mpsc::channel();
        let failed = |source| WriteError::Open { path: recording.path.clone(), source };
        let behind = RecorderThread { writer, recording: recording.clone(), ring, unwritten: 0 };
        let thread = std::thread::Builder::new().name("recorder".into()).spawn(move || behind.run(&jobs)).map_err(failed)?;
        Ok(Self { queue: Some(queue), room: Arc::new(Semaphore::new(UNITS)), thread: Some(thread) })
    }

    /// Starts recording an exchange that began at this time. Waits while the queue is full.
    pub async fn begin(&self, method: &str, url: String, headers: HeaderMap, body: Bytes, began: Began) -> Option<RecordingHandle> {
        let units = 1 + (body.len() / UNIT_BYTES).min(UNITS / 4);
        // Never closed.
        let room = self.room.clone().acquire_many_owned(units as u32).await.ok();
        let to = CassettePlace { queue: self.queue.clone()?, room };
        let message = CapturedRequest { method: method.to_owned(), url, headers, body: body.into() };
        Some(RecordingHandle::begin(message, began, Some(to), Arc::default()))
    }
}

impl Drop for CassetteRecorder {
    /// Writes the queued exchanges. INVARIANT: no exchange is running any more.
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // A panic there was reported by its own hook.
            let _ended = thread.join();
        }
    }
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Handle of an exchange that is being recorded. The exchange is written when the last clone is dropped.
#[derive(Clone)]
pub struct RecordingHandle(Arc<Inner>);

/// Sinks of a process, shared by its exchanges.
pub type CaptureSinks = Arc<[Arc<dyn CaptureSink>]>;

struct Inner {
    raw: Mutex<Box<CapturedExchange>>,
    cassette: Option<CassettePlace>,
    sinks: CaptureSinks,
    extent: CaptureExtent,
    discarded: AtomicBool,
}

/// An exchange's place in the queue of the cassette's writer.
struct CassettePlace {
    queue: mpsc::Sender<Job>,
    room: Option<OwnedSemaphorePermit>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        if *self.discarded.get_mut() {
            let at_ms = self.raw.get_mut().unwrap_or_else(PoisonError::into_inner).at_ms();
            return self.sinks.iter().for_each(|sink| sink.pass_over(at_ms));
        }
        let raw = std::mem::take(self.raw.get_mut().unwrap_or_else(PoisonError::into_inner));
        let (last, others) = match self.sinks.split_last() {
            Some((last, others)) if self.cassette.is_none() => (Some(last), others),
            _ => (None, &self.sinks[..]),
        };
        for sink in others {
            // Bodies are shared, not copied.
            sink.take((*raw).clone());
        }
        if let Some(last) = last {
            last.take(*raw);
        } else if let Some(CassettePlace { queue, room }) = self.cassette.take() {
            // The send fails only if the writer has panicked, which its own hook reported.
            let _gone = queue.send((raw, room));
        }
    }
}

impl RecordingHandle {
    /// Starts capturing an exchange that began at this time, for these sinks only.
    pub fn for_sinks(method: &str, url: String, headers: HeaderMap, body: Bytes, began: Began, sinks: CaptureSinks) -> Self {
        let message = CapturedRequest { method: method.to_owned(), url, headers, body: body.into() };
        Self::begin(message, began, None, sinks)
    }

    /// This handle, whose exchange also goes to these sinks. INVARIANT: called before the handle is shared.
    #[must_use]
    pub fn with_sinks(mut self, sinks: CaptureSinks) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.sinks = sinks;
        }
        self
    }

    fn begin(message: CapturedRequest, began: Began, cassette: Option<CassettePlace>, sinks: CaptureSinks) -> Self {
        let at_ms = began.ms;
        let is_light = cassette.is_none() && sinks.iter().all(|sink| sink.extent(at_ms) == CaptureExtent::UnlessPassed);
        let extent = if is_light { CaptureExtent::UnlessPassed } else { CaptureExtent::Whole };
        let raw = CapturedExchange::new(at_ms, began.at, message);
        Self(Arc::new(Inner { raw: Mutex::new(Box::new(raw)), cassette, sinks, extent, discarded: AtomicBool::new(false) }))
    }

    fn raw(&self) -> MutexGuard<'_, Box<CapturedExchange>> {
        // Never contended: an exchange is one task.
        self.0.raw.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The extent of what is captured.
    pub fn extent(&self) -> CaptureExtent {
        self.0.extent
    }

    /// Drops what is captured if the exchange has passed and nobody wants more of those. Returns whether that is so.
    pub fn discard(&self, verdict: Verdict) -> bool {
        let unwanted = verdict == Verdict::Pass && self.0.extent == CaptureExtent::UnlessPassed;
        if unwanted {
            self.0.discarded.store(true, Ordering::Relaxed);
        }
        unwanted
    }

    /// Holds the request's body here from now on: the same bytes, in other memory.
    pub fn hold_body(&self, body: Bytes) {
        self.raw().hold_body(body);
    }

    /// The headers of an answer, as far as they are captured.
    fn captured(&self, headers: &HeaderMap) -> HeaderMap {
        match self.0.extent {
            CaptureExtent::Whole => headers.clone(),
            CaptureExtent::UnlessPassed => {
                let kind = headers.get(CONTENT_TYPE).map(|kind| (CONTENT_TYPE, kind.clone()));
                kind.into_iter().collect()
            }
        }
    }

    /// Records a request sent upstream; returns the attempt's number.
    pub fn attempt(&self, upstream: &str, url: String, headers: HeaderMap, body: Rope) -> usize {
        let mut raw = self.raw();
        let after_ms = raw.elapsed_ms();
        let message = CapturedRequest { method: "POST".to_owned(), url, headers, body };
        raw.attempts.push(CapturedAttempt::new(upstream, after_ms, message));
        raw.attempts.len() - 1
    }

    /// Changes one attempt; `change` also gets the milliseconds since the attempt's request.
    fn change(&self, attempt: usize, change: impl FnOnce(&mut CapturedAttempt, u64)) {
        let mut raw = self.raw();
        let now_ms = raw.elapsed_ms();
        if let Some(attempt) = raw.attempts.get_mut(attempt) {
            let since = now_ms.saturating_sub(attempt.after_ms);
            change(attempt, since);
        }
    }

    /// Records the head of the attempt's response.
    pub fn head(&self, attempt: usize, status: u16, headers: &HeaderMap) {
        let headers = self.captured(headers);
        self.change(attempt, |attempt, ms| attempt.answer.head(status, headers, ms));
    }

    /// Records a piece of the attempt's response.
    pub fn piece(&self, attempt: usize, bytes: Bytes) {
        self.change(attempt, |attempt, ms| attempt.answer.piece(bytes, ms));
    }

    /// Records the end of the attempt's response.
    pub fn end(&self, attempt: usize, end: BodyEnd) {
        self.change(attempt, |attempt, _| attempt.answer.end(end));
    }

    /// Records that the attempt failed without a response.
    pub fn failed(&self, attempt: usize, status: u16, code: &str, message: &str) {
        self.change(attempt, |attempt, _| attempt.fail(status, code, message));
    }

    /// Records the fault that was injected into the attempt.
    pub fn fault(&self, attempt: usize, kind: &str) {
        self.change(attempt, |attempt, _| attempt.fault = Some(kind.to_owned()));
    }

    /// Records the head of the response to the application.
    pub fn respond(&self, status: u16, headers: &HeaderMap) {
        let headers = self.captured(headers);
        let mut raw = self.raw();
        let ms = raw.elapsed_ms();
        raw.response.head(status, headers, ms);
    }

    /// Records a piece of the response to the application.
    pub fn send(&self, bytes: Bytes) {
        let mut raw = self.raw();
        let ms = raw.elapsed_ms();
        raw.response.piece(bytes, ms);
    }

    /// Records that the application got the whole response.
    pub fn sent(&self) {
        self.raw().response.end(BodyEnd::Complete);
    }

    /// Changes the captured exchange, to add its id, scope, policy, verdict and so on.
    pub fn note(&self, note: impl FnOnce(&mut CapturedExchange)) {
        note(&mut self.raw());
    }
}

/// The recorder's thread.
struct RecorderThread {
    writer: CassetteWriter,
    recording: Recording,
    ring: Arc<KeyRing>,
    /// Exchanges that could not be written.
    unwritten: u64,
}

impl RecorderThread {
    fn run(mut self, jobs: &mpsc::Receiver<Job>) {
        while let Ok(first) = jobs.recv() {
            let (mut lines, mut held, mut count) = (String::new(), Vec::new(), 0_u64);
            let mut next = Some(first);
            while let Some((raw, room)) = next {
                let exchange = self.exchange(*raw);
                lines.push_str(&exchange.line());
                lines.push('\n');
                held.push(room);
                count += 1;
                next = if held.len() < BATCH && lines.len() < BATCH_BYTES { jobs.try_recv().ok() } else { None };
            }
            match self.writer.append(lines.as_bytes(), now_ms()) {
                Ok(()) => {}
                Err(error) => {
                    self.unwritten += count;
                    tracing::error!(%error, lost = count, lost_in_all = self.unwritten, "exchanges could not be recorded");
                }
            }
            // Only now does the queue have room again.
            drop(held);
        }
        if let Err(error) = self.writer.sync() {
            tracing::error!(%error, "the cassette may not be on disk");
        }
    }

    fn exchange(&self, raw: CapturedExchange) -> RecordedExchange {
        redacted(raw, &self.ring, &self.recording.headers, &self.recording.redactor)
    }
}

/// The exchange as a cassette has it, without its secrets. `headers`: names of headers to keep in addition to the fixed ones.
pub fn redacted(raw: CapturedExchange, ring: &KeyRing, headers: &[String], redactor: &Redactor) -> RecordedExchange {
    // INVARIANT: what the application and the upstreams were called with is known before the headers are chosen.
    let secrets = raw.credentials();
    let exchange = raw.exchange(ring, headers);
    redactor.knowing(secrets.iter().map(String::as_str)).exchange(exchange)
}

/// True if both paths are the same: a cassette that is being written must not be played.
pub fn same(path: &Path, other: &Path) -> bool {
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    absolute(path) == absolute(other)
}
