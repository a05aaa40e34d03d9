//! Metrics of other parts: a registry of sources that are read at each scrape.

use std::{
    fmt,
    sync::{Mutex, PoisonError},
};

/// Type of a metric.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MetricKind {
    /// A value that only grows; the metric's name is given without `_total`.
    Counter,
    /// A value that goes up and down.
    Gauge,
}

/// Labels of one value, as names and values. The number of combinations must be bounded.
pub type Labels = Vec<(&'static str, String)>;

/// One metric with its values.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricFamily {
    /// The metric's name: `toolmark_…`, with its unit last.
    pub name: &'static str,
    /// Help text of one line.
    pub help: &'static str,
    /// Type of the metric.
    pub shape: MetricKind,
    /// The values with their labels.
    pub values: Vec<(Labels, f64)>,
}

impl MetricFamily {
    /// A gauge without labels.
    pub fn gauge(name: &'static str, help: &'static str, value: f64) -> Self {
        Self { name, help, shape: MetricKind::Gauge, values: vec![(Vec::new(), value)] }
    }

    /// A counter without labels.
    pub fn counter(name: &'static str, help: &'static str, value: u64) -> Self {
        Self { name, help, shape: MetricKind::Counter, values: vec![(Vec::new(), value as f64)] }
    }
}

type MetricSource = Box<dyn Fn() -> Vec<MetricFamily> + Send + Sync>;

/// Registry of metric sources.
#[derive(Default)]
pub struct MetricSources(Mutex<Vec<MetricSource>>);

impl fmt::Debug for MetricSources {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Samples")
    }
}

impl MetricSources {
    /// Registers a source. It runs on the admin listener's thread and must not wait.
    pub fn register(&self, source: impl Fn() -> Vec<MetricFamily> + Send + Sync + 'static) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(source));
    }

    /// Reads all sources.
    pub fn collect(&self) -> Vec<MetricFamily> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().flat_map(|source| source()).collect()
    }
}
