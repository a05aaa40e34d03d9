//! Telemetry: counters, statistics, live events, alerts, traces. [`Telemetry`] gets the record of every exchange when it
//! ends; `admin/` serves the results.
//!
//! On the path of an exchange this only counts, and never waits.

pub mod alerts;
pub mod events;
pub mod log;
pub mod metrics;
pub mod readiness;
pub mod recent;
pub mod stats;
pub mod summary;
#[cfg(feature = "otlp")]
pub mod traces;
#[cfg(not(feature = "otlp"))]
#[path = "no_traces.rs"]
pub mod traces;

use std::{fmt, sync::Arc};

use events::Events;
use metrics::Metrics;
use readiness::{PartState, Readiness};
use recent::RecentExchanges;
use traces::Traces;

use crate::{
    ledger::{record::ExchangeRecord, recorder::RecordObserver},
    settings::Settings,
};
use metrics::{
    exposition::Exposition,
    sources::{MetricFamily, MetricSources},
};

/// The telemetry of one process.
pub struct Telemetry {
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// Metrics of other parts, collected at each scrape.
    pub samples: Arc<MetricSources>,
    /// The live feed.
    pub events: Arc<Events>,
    /// The newest exchanges, with their bodies.
    pub recent: Arc<RecentExchanges>,
    /// The parts that must be ready.
    pub readiness: Readiness,
    /// The exporter of traces, if configured.
    pub traces: Option<Traces>,
    /// The metrics in Prometheus' formats.
    pub exposition: Exposition,
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Observed")
    }
}

impl Telemetry {
    /// Builds the telemetry that the settings ask for.
    ///
    /// # Errors
    /// The settings ask for traces, and their exporter can't be built.
    pub fn new(settings: &Settings) -> Result<Self, traces::Error> {
        let (metrics, samples, events) = (Arc::<Metrics>::default(), Arc::<MetricSources>::default(), Arc::<Events>::default());
        let own = events.clone();
        samples.register(move || {
            vec![
                MetricFamily::gauge("toolmark_event_readers", "Readers of the live feed", own.readers() as f64),
                MetricFamily::counter("toolmark_events_lost", "Events that slow readers of the live feed lost", own.lost()),
            ]
        });
        let readiness = Readiness::default();
        readiness.say("policy", PartState::Ready);
        let counted = metrics.clone();
        readiness.register("upstreams", move || metrics::upstreams(&counted));
        let traces = settings.traces.as_ref().map(|traces| Traces::start(traces, &settings.upstreams)).transpose()?;
        let exposition = Exposition::new(metrics.clone(), samples.clone());
        let recent = Arc::new(RecentExchanges::new(settings.admin.recent));
        Ok(Self { metrics, samples, events, recent, readiness, traces, exposition })
    }

    /// Sends the remaining traces. Blocks, at most five seconds.
    pub fn close(&self) {
        if let Some(traces) = &self.traces {
            traces.close();
        }
    }
}

impl RecordObserver for Telemetry {
    fn observe(&self, record: &ExchangeRecord) {
        self.metrics.count(record);
        if self.events.are_read() || self.recent.takes(record) {
            let shared = Arc::new(record.clone());
            self.events.exchange(&shared);
            self.recent.note(shared);
        }
    }
}
