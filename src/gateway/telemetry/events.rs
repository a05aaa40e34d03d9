//! Live feed of events for up to [`READERS_MAX`] readers.
//!
//! Publishing never waits. A slow reader loses events and gets their number. An event that nobody reads isn't built, and an exchange's is
//! written as JSON only where it is read.

use std::{
    borrow::Cow,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use serde_json::json;
use tokio::sync::broadcast::{
    self,
    error::{RecvError, TryRecvError},
};

use crate::{ledger::record::ExchangeRecord, telemetry::summary::ExchangeSummary, violation::Severity};

/// Readers at the same time, at most.
pub const READERS_MAX: usize = 32;
/// Events that a reader may fall behind by.
const BEHIND_MAX: usize = 4096;

/// One event: its kind and its data as JSON.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveEvent {
    /// `exchange`, `violation`, `execution`, `alert` or `lost`.
    pub kind: &'static str,
    /// What it says.
    pub data: EventData,
}

/// Data of an event. An exchange's is written as JSON by those who read it, not on the exchange's way.
#[derive(Clone, Debug, PartialEq)]
pub enum EventData {
    /// A JSON object in one line.
    Json(Arc<str>),
    /// An exchange.
    Exchange(Arc<ExchangeRecord>),
}

impl EventData {
    /// A JSON object in one line.
    pub fn json(&self) -> Cow<'_, str> {
        match self {
            Self::Json(data) => Cow::Borrowed(data),
            Self::Exchange(record) => serde_json::to_string(&ExchangeSummary::of(record)).unwrap_or_default().into(),
        }
    }
}

/// Events that a reader wants.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum EventKinds {
    /// All.
    #[default]
    All,
    /// Only `exchange`, and `lost`.
    Exchanges,
}

/// The live feed: publishes events to its readers.
#[derive(Debug)]
pub struct Events {
    feed: broadcast::Sender<LiveEvent>,
    readers: Arc<AtomicUsize>,
    /// Readers of all kinds.
    of_all_kinds: Arc<AtomicUsize>,
    lost: Arc<AtomicU64>,
}

impl Default for Events {
    fn default() -> Self {
        Self { feed: broadcast::Sender::new(BEHIND_MAX), readers: Arc::default(), of_all_kinds: Arc::default(), lost: Arc::default() }
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
    pub fn exchange(&self, record: &Arc<ExchangeRecord>) {
        if !self.are_read() {
            return;
        }
        if self.of_all_kinds.load(Ordering::Relaxed) > 0 {
            self.parts(record);
        }
        self.send("exchange", EventData::Exchange(record.clone()));
    }

    /// Publishes the violations and executions of an exchange.
    fn parts(&self, record: &ExchangeRecord) {
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
    }

    /// Publishes an event, if there are readers.
    pub fn publish(&self, kind: &'static str, data: &serde_json::Value) {
        if self.are_read() {
            self.send(kind, EventData::Json(data.to_string().into()));
        }
    }

    fn send(&self, kind: &'static str, data: EventData) {
        // If the last reader has just left, no one misses the event.
        let _nobody = self.feed.send(LiveEvent { kind, data });
    }

    /// Subscribes a reader; `None` if there are [`READERS_MAX`] already.
    pub fn read(&self, kinds: EventKinds) -> Option<Subscription> {
        let permit = |counted: &Arc<AtomicUsize>| (counted.fetch_add(1, Ordering::Relaxed), ReaderPermit(counted.clone()));
        let (before, counted) = permit(&self.readers);
        let of_all_kinds = (kinds == EventKinds::All).then(|| permit(&self.of_all_kinds).1);
        let subscription =
            || Subscription { feed: self.feed.subscribe(), kinds, lost: self.lost.clone(), _counted: (counted, of_all_kinds) };
        (before < READERS_MAX).then(subscription)
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
    kinds: EventKinds,
    lost: Arc<AtomicU64>,
    _counted: (ReaderPermit, Option<ReaderPermit>),
}

impl Subscription {
    /// The next event; `lost` if this reader was too slow for some. `None` when the feed is closed.
    pub async fn next(&mut self) -> Option<LiveEvent> {
        loop {
            match self.feed.recv().await {
                Ok(event) if self.wants(&event) => return Some(event),
                Ok(_) => {}
                Err(RecvError::Lagged(count)) => return Some(self.lost(count)),
                Err(RecvError::Closed) => return None,
            }
        }
    }

    /// The next event, if it is there already.
    pub fn next_now(&mut self) -> Option<LiveEvent> {
        loop {
            match self.feed.try_recv() {
                Ok(event) if self.wants(&event) => return Some(event),
                Ok(_) => {}
                Err(TryRecvError::Lagged(count)) => return Some(self.lost(count)),
                Err(TryRecvError::Empty | TryRecvError::Closed) => return None,
            }
        }
    }

    fn wants(&self, event: &LiveEvent) -> bool {
        self.kinds == EventKinds::All || event.kind == "exchange"
    }

    fn lost(&self, count: u64) -> LiveEvent {
        self.lost.fetch_add(count, Ordering::Relaxed);
        LiveEvent { kind: "lost", data: EventData::Json(format!("{{\"events\":{count}}}").into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_is_slow_is_told_what_was_lost() {
        let events = Events::default();
        events.publish("alert", &json!({"number": -1}));
        let mut reader = events.read(EventKinds::All).unwrap();
        for number in 0..BEHIND_MAX + 3 {
            events.publish("alert", &json!({"number": number}));
        }
        let lost = reader.next().await.unwrap();
        assert_eq!((lost.kind, &*lost.data.json(), events.lost()), ("lost", "{\"events\":3}", 3));
        assert_eq!(&*reader.next().await.unwrap().data.json(), "{\"number\":3}");
    }

    #[test]
    fn readers_are_bounded() {
        let events = Events::default();
        let readers: Vec<_> = (0..READERS_MAX).map(|_| events.read(EventKinds::All).unwrap()).collect();
        assert!(events.read(EventKinds::Exchanges).is_none());
        drop(readers);
        assert!(!events.are_read() && events.read(EventKinds::Exchanges).is_some());
    }

    #[tokio::test]
    async fn a_reader_gets_the_kinds_that_it_wants() {
        let events = Events::default();
        let mut exchanges = events.read(EventKinds::Exchanges).unwrap();
        let record = Arc::new(crate::ledger::fixtures::RecordGenerator::record(2));
        events.exchange(&record);
        assert_eq!(exchanges.next().await.unwrap().kind, "exchange");
        assert!(exchanges.next_now().is_none() && events.feed.is_empty(), "nobody wants the others, so they weren't built");
        let mut all = events.read(EventKinds::All).unwrap();
        events.exchange(&record);
        let kinds = |own: &mut Subscription| std::iter::from_fn(|| own.next_now()).map(|event| event.kind).collect::<Vec<_>>();
        assert_eq!((kinds(&mut all), kinds(&mut exchanges)), (vec!["violation", "execution", "exchange"], vec!["exchange"]));
    }
}
