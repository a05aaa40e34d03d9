//! What other parts have to say when somebody scrapes: a small registry of sources, asked each time.

use std::{
    fmt,
    sync::{Mutex, PoisonError},
};

/// What a metric is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Shape {
    /// Only grows; its name is given without `_total`.
    Counter,
    /// Goes up and down.
    Gauge,
}

/// Labels of one value: name and value. Their number must be bounded.
pub type Labels = Vec<(&'static str, String)>;

/// One metric with its values.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// `toolmark_…`, units last.
    pub name: &'static str,
    /// What it is, in one line.
    pub help: &'static str,
    /// What it is.
    pub shape: Shape,
    /// The values.
    pub values: Vec<(Labels, f64)>,
}

impl Sample {
    /// A gauge without labels.
    pub fn gauge(name: &'static str, help: &'static str, value: f64) -> Self {
        Self { name, help, shape: Shape::Gauge, values: vec![(Vec::new(), value)] }
    }

    /// A counter without labels.
    pub fn counter(name: &'static str, help: &'static str, value: u64) -> Self {
        Self { name, help, shape: Shape::Counter, values: vec![(Vec::new(), value as f64)] }
    }
}

type Source = Box<dyn Fn() -> Vec<Sample> + Send + Sync>;

/// See the module.
#[derive(Default)]
pub struct Samples(Mutex<Vec<Source>>);

impl fmt::Debug for Samples {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Samples")
    }
}

impl Samples {
    /// Adds a source. It is asked on the admin listener's thread and must not wait.
    pub fn register(&self, source: impl Fn() -> Vec<Sample> + Send + Sync + 'static) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(source));
    }

    /// What all of them say now.
    pub fn collect(&self) -> Vec<Sample> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().flat_map(|source| source()).collect()
    }
}
