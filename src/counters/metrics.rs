//! Health and metrics of the shared counters: for `/readyz` and the metrics endpoint.

use std::sync::Arc;

use super::SharedCounters;
use crate::telemetry::{Telemetry, metrics::sources::MetricFamily, readiness::PartState};

/// Registers the counters for health and metrics.
pub fn register(counters: &Arc<SharedCounters>, observed: &Telemetry) {
    let own = counters.clone();
    observed.readiness.register("counters", move || match own.status().away() {
        Some(why) => PartState::Degraded(format!("each replica counts for itself: {why}")),
        None => PartState::Ready,
    });
    let own = counters.clone();
    observed.samples.register(move || {
        let [asked, local, lapses] = own.status().figures();
        let up = if own.status().away().is_none() { 1.0 } else { 0.0 };
        vec![
            MetricFamily::gauge("toolmark_counters_up", "Do the shared counters answer", up),
            MetricFamily::counter("toolmark_counters_asked", "Questions to the shared counters", asked),
            MetricFamily::counter("toolmark_counters_local", "Questions that this process's own counts decided alone", local),
            MetricFamily::counter("toolmark_counters_lapses", "How often the shared counters were away", lapses),
        ]
    });
}
