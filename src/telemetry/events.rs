//! Live feed of events for up to [`READERS_MAX`] readers.
//!
//! Publishing never waits. A slow reader loses events and gets their number. Without readers no event is built.

use std::sync::{
    Arc,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

use serde_json::json;
use tokio::sync::broadcast::{self, error::RecvError};

use crate::{ledger::record::ExchangeRecord, telemetry::summary::ExchangeSummary, violation::Severity};

/// Readers at the same time, at most.
pub const READERS_MAX: usize = 32;
/// Events that a reader may fall behind by.
const BEHIND_MAX: usize = 1024;

/// One event: its kind and its data as JSON.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LiveEvent {
    /// `exchange`, `violation`, `execution`, `alert` or `lost`.
    pub kind: &'static str,
    /// A JSON object in one line.
    pub data: Arc<str>,
}

/// The live feed: publishes events to its readers.
#[derive(Debug)]
pub struct Events {
    feed: broadcast::Sender<LiveEvent>,
    readers: Arc<AtomicUsize>,
    lost: Arc<AtomicU64>,
}

impl Default for Events {
    fn default() -> Self {
        Self { feed: broadcast::Sender::new(BEHIND_MAX), readers: Arc::default(), lost: Arc::default() }
    }
}

impl Events {
    /// True if there is at least one reader.
    pub fn are_read(&self) -> bool {
        self.readers.load(Ordering::Relaxed) > 0
    }

    /// Number of readers.
    pub fn readers(&self) -> usize {
        self.readers.load(Ordering::Relaxed)
    }

    /// Number of events that slow readers lost.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Publishes an exchange with its violations and executions.
    pub fn exchange(&self, record: &ExchangeRecord) {
        if !self.are_read() {
            return;
        }
        for violation in record.violations.iter().filter(|violation| violation.severity >= Severity::Info) {
            let (code, severity, tool) = (violation.code, violation.severity, &violation.tool);
            self.publish(
                "violation",
                &json!({"exchange": record.id, "code": code, "severity": severity, "tool": tool, "attempt": violation.attempt}),
            );
        }
        for execution in &record.executions {
            let (id, tool, failed) = (&execution.id, &execution.tool, execution.failed);
            self.publish(
                "execution",
                &json!({"exchange": record.id, "id": id, "tool": tool, "failed": failed, "duration_ms": execution.duration_ms()}),
            );
        }
        let ended = serde_json::to_value(ExchangeSummary::of(record)).unwrap_or_default();
        self.publish("exchange", &ended);
    }

    /// Publishes an event, if there are readers.
    pub fn publish(&self, kind: &'static str, data: &serde_json::Value) {
        if self.are_read() {
            // If the last reader has just left, no one misses the event.
            let _nobody = self.feed.send(LiveEvent { kind, data: data.to_string().into() });
        }
    }

    /// Subscribes a reader; `None` if there are [`READERS_MAX`] already.
    pub fn read(&self) -> Option<Subscription> {
        let before = self.readers.fetch_add(1, Ordering::Relaxed);
        let counted = ReaderPermit(self.readers.clone());
        (before < READERS_MAX).then(|| Subscription { feed: self.feed.subscribe(), lost: self.lost.clone(), _counted: counted })
    }
}

#[derive(Debug)]
struct ReaderPermit(Arc<AtomicUsize>);

impl Drop for ReaderPermit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A subscription to the events published from now on.
#[derive(Debug)]
pub struct Subscription {
    feed: broadcast::Receiver<LiveEvent>,
    lost: Arc<AtomicU64>,
    _counted: ReaderPermit,
}

impl Subscription {
    /// The next event; `lost` if this reader was too slow for some. `None` when the feed is closed.
    pub async fn next(&mut self) -> Option<LiveEvent> {
        match self.feed.recv().await {
            Ok(event) => Some(event),
            Err(RecvError::Lagged(count)) => {
                self.lost.fetch_add(count, Ordering::Relaxed);
                Some(LiveEvent { kind: "lost", data: format!("{{\"events\":{count}}}").into() })
            }
            Err(RecvError::Closed) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_is_slow_is_told_what_was_lost() {
        let events = Events::default();
        events.publish("alert", &json!({"number": -1}));
        let mut reader = events.read().unwrap();
        for number in 0..BEHIND_MAX + 3 {
            events.publish("alert", &json!({"number": number}));
        }
        let lost = reader.next().await.unwrap();
        assert_eq!((lost.kind, &*lost.data, events.lost()), ("lost", "{\"events\":3}", 3));
        assert_eq!(&*reader.next().await.unwrap().data, "{\"number\":3}");
    }

    #[test]
    fn readers_are_bounded() {
        let events = Events::default();
        let readers: Vec<_> = (0..READERS_MAX).map(|_| events.read().unwrap()).collect();
        assert!(events.read().is_none());
        drop(readers);
        assert!(!events.are_read() && events.read().is_some());
    }
}
