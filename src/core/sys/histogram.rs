//! A histogram of durations whose update is two atomic additions. Its buckets are fixed when it is built.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// Upper bounds for toolmark's own time, in microseconds.
pub const OVERHEAD_US: [u64; 15] = [10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000];
/// Upper bounds for the ledger's time, in microseconds.
pub const LEDGER_US: [u64; 15] =
    [50, 100, 250, 500, 1_000, 1_500, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000, 5_000_000];
/// Upper bounds for upstreams' time, in microseconds.
pub const UPSTREAM_US: [u64; 15] = [
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    30_000_000,
    60_000_000,
    180_000_000,
    600_000_000,
];
const BUCKETS: usize = 15;

/// Counts of durations by bucket.
#[derive(Debug)]
pub struct Histogram {
    bounds_us: &'static [u64; BUCKETS],
    /// One more than there are bounds: the last counts durations above all bounds.
    counts: [AtomicU64; BUCKETS + 1],
    sum_us: AtomicU64,
}

/// Snapshot of one histogram, or of several added up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HistogramSnapshot {
    /// Upper bound in seconds, and the number of durations up to it and above the previous bound; the last bound is infinite.
    pub buckets: Vec<(f64, u64)>,
    /// Sum of all durations.
    pub sum: Duration,
}

impl Histogram {
    /// An empty histogram with these bounds, in microseconds.
    pub const fn new(bounds_us: &'static [u64; BUCKETS]) -> Self {
        Self { bounds_us, counts: [const { AtomicU64::new(0) }; BUCKETS + 1], sum_us: AtomicU64::new(0) }
    }

    /// Counts one duration.
    pub fn observe(&self, time: Duration) {
        let time_us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let at = self.bounds_us.partition_point(|bound| *bound < time_us);
        if let Some(count) = self.counts.get(at) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.sum_us.fetch_add(time_us, Ordering::Relaxed);
    }

    /// Adds this histogram to `counted`, which is empty or has the same bounds.
    pub fn add_to(&self, counted: &mut HistogramSnapshot) {
        if counted.buckets.is_empty() {
            let bounds = self.bounds_us.iter().map(|bound| *bound as f64 / 1e6);
            counted.buckets = bounds.chain([f64::INFINITY]).map(|bound| (bound, 0)).collect();
        }
        for ((_, sum), count) in counted.buckets.iter_mut().zip(&self.counts) {
            *sum += count.load(Ordering::Relaxed);
        }
        counted.sum += Duration::from_micros(self.sum_us.load(Ordering::Relaxed));
    }
}

impl HistogramSnapshot {
    /// Number of durations.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|(_, count)| count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_fall_into_their_buckets() {
        let histogram = Histogram::new(&OVERHEAD_US);
        for time_us in [0, 10, 11, 1_000_000, 1_000_001] {
            histogram.observe(Duration::from_micros(time_us));
        }
        let mut counted = HistogramSnapshot::default();
        histogram.add_to(&mut counted);
        histogram.add_to(&mut counted);
        let filled: Vec<_> = counted.buckets.iter().copied().filter(|(_, count)| *count > 0).collect();
        assert_eq!(filled, [(1e-5, 4), (2.5e-5, 2), (1.0, 2), (f64::INFINITY, 2)]);
        assert_eq!((counted.count(), counted.sum), (10, Duration::from_micros(2 * 2_000_022)));
    }
}
