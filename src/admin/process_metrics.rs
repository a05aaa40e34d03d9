//! Prometheus metrics of the process itself, besides those that exchanges count.

use std::sync::Arc;

use crate::{
    proxy::app::App,
    telemetry::metrics::sources::{MetricFamily, MetricKind},
};

/// Registers these metrics for every scrape. The app is held weakly, as it holds the registry.
pub fn register(app: &Arc<App>) {
    let held = Arc::downgrade(app);
    app.observed.samples.register(move || held.upgrade().map(|app| samples(&app)).unwrap_or_default());
}

fn samples(app: &App) -> Vec<MetricFamily> {
    let loops = app.loops.figures();
    let of_limit = |(limit, count): &(&'static str, u64)| (vec![("limit", (*limit).to_owned())], *count as f64);
    let version = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
    vec![
        MetricFamily { name: "toolmark_build_info", help: "The version that runs", shape: MetricKind::Gauge, values: vec![(version, 1.0)] },
        MetricFamily::gauge("toolmark_ledger_queue_depth", "Records that wait to be written", app.recorder.depth() as f64),
        MetricFamily::gauge("toolmark_connections", "Connections of callers", app.connections() as f64),
        MetricFamily {
            name: "toolmark_loop_stops",
            help: "Tools that loop control stopped, by limit",
            shape: MetricKind::Counter,
            values: loops.stops.iter().map(of_limit).collect(),
        },
        MetricFamily::counter("toolmark_loop_ends", "Runs that loop control ended", loops.ended),
        MetricFamily::counter("toolmark_loop_resets", "Resets of loop control", loops.resets),
    ]
}
