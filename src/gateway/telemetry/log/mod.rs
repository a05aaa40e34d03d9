//! The log: one line per event to stdout, as text or JSON, written in batches.
//!
//! A line costs its caller a copy into a shared buffer; one thread writes the buffer out. Nothing is ever dropped: if the
//! writer can't keep up, callers write themselves. Bodies, tokens and arguments are never logged.

pub(crate) mod format;

use std::{
    io::{self, IsTerminal as _, Write},
    mem,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tracing_subscriber::{EnvFilter, fmt::MakeWriter, layer::SubscriberExt as _, util::SubscriberInitExt as _};

use crate::settings::{Log, LogFormat, LogLevel};
use format::TextFormat;

/// Error at the start of the log.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// `RUST_LOG` is malformed.
    #[error("RUST_LOG: {0}; write it like `info` or `toolmark=debug`")]
    Filter(#[from] tracing_subscriber::filter::ParseError),
    /// Another log is set already.
    #[error("the log can't be started: {0}")]
    Taken(#[from] tracing_subscriber::util::TryInitError),
    /// The writer's thread can't start.
    #[error("the log's writer can't be started: {0}")]
    Thread(#[from] io::Error),
}

/// Starts the process's log. All lines have reached stdout at the latest when the guard is dropped.
///
/// `rust_log` is the value of `RUST_LOG`, which wins over the level of the settings.
///
/// # Errors
/// [`Error`] if `rust_log` is malformed, another log is set already, or the writer's thread can't start.
pub fn start(log: Log, rust_log: Option<&str>) -> Result<FlushGuard, Error> {
    let filter = EnvFilter::builder().parse(directives(log.level, rust_log))?;
    let (lines, guard) = BatchedWriter::start(io::stdout())?;
    let registry = tracing_subscriber::registry().with(filter);
    let layer = tracing_subscriber::fmt::layer().with_writer(lines.clone());
    match log.format {
        LogFormat::Text => registry.with(layer.with_ansi(io::stdout().is_terminal()).event_format(TextFormat)).try_init()?,
        LogFormat::Json => {
            let layer = layer.json().flatten_event(true).with_current_span(false).with_span_list(false);
            registry.with(layer).try_init()?;
        }
    }
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        before(panic);
        lines.flush_now();
    }));
    Ok(guard)
}

/// The level, with third parties at warn unless `RUST_LOG` names them.
fn directives(level: LogLevel, rust_log: Option<&str>) -> String {
    let own = rust_log.filter(|text| !text.trim().is_empty()).unwrap_or(level.as_str());
    let cap = if matches!(own.trim(), "off" | "error") { own.trim() } else { "warn" };
    let mut directives: Vec<String> = THIRD_PARTIES.iter().map(|target| format!("{target}={cap}")).collect();
    directives.push(own.to_owned());
    directives.join(",")
}

/// Flushes the log on drop, and on demand.
#[derive(Debug)]
pub struct FlushGuard {
    lines: BatchedWriter,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl FlushGuard {
    /// Writes out the pending lines.
    pub fn flush(&self) {
        self.lines.flush_now();
    }
}

impl Drop for FlushGuard {
    fn drop(&mut self) {
        self.lines.shared.pending().stop = true;
        self.lines.shared.wake.notify_all();
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
        self.lines.flush_now();
    }
}

/// Handle to the shared buffer of lines.
#[derive(Clone, Debug)]
struct BatchedWriter {
    shared: Arc<LogBuffer>,
}

struct LogBuffer {
    pending: Mutex<PendingLines>,
    wake: Condvar,
    /// Locked before `pending` is emptied, so that lines leave in their order.
    out: Mutex<LogOutput>,
}

#[derive(Default)]
struct PendingLines {
    bytes: Vec<u8>,
    stop: bool,
}

struct LogOutput {
    to: Box<dyn Write + Send>,
    /// Emptied and handed back, so that no batch allocates.
    spare: Vec<u8>,
}

impl std::fmt::Debug for LogBuffer {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("LogBuffer")
    }
}

impl LogBuffer {
    fn pending(&self) -> MutexGuard<'_, PendingLines> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, line: &[u8]) {
        let mut pending = self.pending();
        let before = pending.bytes.len();
        pending.bytes.extend_from_slice(line);
        let after = pending.bytes.len();
        drop(pending);
        if after > PENDING_BYTES_MAX {
            self.write_out();
        } else if before == 0 || (before < BATCH_BYTES && after >= BATCH_BYTES) {
            self.wake.notify_one();
        }
    }

    fn write_out(&self) {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        let spare = mem::take(&mut out.spare);
        let mut bytes = mem::replace(&mut self.pending().bytes, spare);
        if bytes.is_empty() {
            out.spare = bytes;
            return;
        }
        // A closed stdout is no reason to stop serving, and there is nowhere to say so.
        let _closed = out.to.write_all(&bytes).and_then(|()| out.to.flush());
        bytes.clear();
        bytes.shrink_to(4 * BATCH_BYTES);
        out.spare = bytes;
    }

    /// The writing thread: a batch as soon as it is full, and at the latest [`DELAY`] after its first line.
    fn run(&self) {
        loop {
            let wait = |pending: &mut PendingLines| pending.bytes.is_empty() && !pending.stop;
            let pending = self.wake.wait_while(self.pending(), wait).unwrap_or_else(PoisonError::into_inner);
            let wait = |pending: &mut PendingLines| pending.bytes.len() < BATCH_BYTES && !pending.stop;
            let (pending, _) = self.wake.wait_timeout_while(pending, DELAY, wait).unwrap_or_else(PoisonError::into_inner);
            let stop = pending.stop;
            drop(pending);
            self.write_out();
            if stop {
                return;
            }
        }
    }
}

impl BatchedWriter {
    fn start(to: impl Write + Send + 'static) -> io::Result<(Self, FlushGuard)> {
        let out = Mutex::new(LogOutput { to: Box::new(to), spare: Vec::new() });
        let shared = Arc::new(LogBuffer { pending: Mutex::default(), wake: Condvar::new(), out });
        let writer = shared.clone();
        let thread = std::thread::Builder::new().name("log".into()).spawn(move || writer.run())?;
        let lines = Self { shared };
        Ok((lines.clone(), FlushGuard { lines, thread: Some(thread) }))
    }

    fn flush_now(&self) {
        self.shared.write_out();
    }
}

impl Write for &BatchedWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.shared.add(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'l> MakeWriter<'l> for BatchedWriter {
    type Writer = &'l BatchedWriter;

    fn make_writer(&'l self) -> Self::Writer {
        self
    }
}

/// Bytes that make a batch.
const BATCH_BYTES: usize = 64 << 10;
/// Bytes of pending lines above which the caller writes them itself.
const PENDING_BYTES_MAX: usize = 8 << 20;
/// Maximum time that a line waits.
const DELAY: Duration = Duration::from_millis(50);
const THIRD_PARTIES: &[&str] = &[
    "postgres",
    "tokio_postgres",
    "hyper",
    "hyper_util",
    "reqwest",
    "h2",
    "rustls",
    "tower",
    "mio",
    "notify",
    "globset",
    "opentelemetry",
    "opentelemetry_sdk",
    "opentelemetry-otlp",
    "rmcp",
    "sse_stream",
    "process_wrap",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn nothing_is_dropped_and_order_is_kept() {
        let sink = Sink::default();
        let (lines, guard) = BatchedWriter::start(sink.clone()).unwrap();
        let padding = "x".repeat(300);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (lines, padding) = (&lines, &padding);
                scope.spawn(move || {
                    let mut writer = lines.make_writer();
                    for number in 0..20_000 {
                        writer.write_all(format!("{thread} {number} {padding}\n").as_bytes()).unwrap();
                    }
                });
            }
        });
        drop(guard);
        let written = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
        assert_eq!(written.lines().count(), 80_000);
        for thread in 0..4 {
            let own = written.lines().filter(|line| line.starts_with(&format!("{thread} ")));
            assert!(own.enumerate().all(|(number, line)| line.split(' ').nth(1) == Some(&number.to_string())));
        }
    }

    #[test]
    fn a_line_does_not_wait_for_a_full_batch() {
        let sink = Sink::default();
        let (lines, _guard) = BatchedWriter::start(sink.clone()).unwrap();
        lines.make_writer().write_all(b"one\n").unwrap();
        let begun = std::time::Instant::now();
        while sink.0.lock().unwrap().is_empty() {
            assert!(begun.elapsed() < Duration::from_secs(5));
            std::thread::yield_now();
        }
    }

    #[test]
    fn json_is_one_object_per_line() {
        let sink = Sink::default();
        let (lines, guard) = BatchedWriter::start(sink.clone()).unwrap();
        let layer = tracing_subscriber::fmt::layer().with_writer(lines).json().flatten_event(true).with_current_span(false);
        let filter = EnvFilter::builder().parse(directives(LogLevel::Info, None)).unwrap();
        let subscriber = tracing_subscriber::registry().with(filter).with(layer);
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(model = "gpt \"x\"\n", repairs = 1, "exchange");
            tracing::info!(target: "hyper::proto", "noise");
            tracing::debug!("too fine");
        });
        drop(guard);
        let written = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
        let objects: Vec<serde_json::Value> = written.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(objects.len(), 1, "{written}");
        assert_eq!((&objects[0]["model"], &objects[0]["message"]), (&"gpt \"x\"\n".into(), &"exchange".into()));
    }

    #[test]
    fn filters() {
        for (level, rust_log, ends, third) in [
            (LogLevel::Info, None, ",info", "h2=warn,"),
            (LogLevel::Error, None, ",error", "h2=error,"),
            (LogLevel::Info, Some("toolmark=trace,h2=debug"), ",toolmark=trace,h2=debug", "h2=warn,"),
            (LogLevel::Debug, Some(" "), ",debug", "h2=warn,"),
        ] {
            let text = directives(level, rust_log);
            assert!(text.ends_with(ends) && text.contains(third), "{text}");
        }
        assert!(EnvFilter::builder().parse(directives(LogLevel::Info, Some("a=b=c"))).is_err());
    }
}
