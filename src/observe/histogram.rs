//! A histogram of times that costs two atomic additions. Its buckets are fixed when it is made.
//!
//! Kept per shard by [`super::metrics`] and summed when somebody asks.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// Upper bounds of what toolmark itself takes, in microseconds.
pub const OVERHEAD_US: [u64; 15] = [10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000];
/// Upper bounds of what upstreams take, in microseconds.
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

/// Times, counted by how long they were.
#[derive(Debug)]
pub struct Histogram {
    bounds_us: &'static [u64; BUCKETS],
    /// One more than there are bounds: the last is what exceeds them all.
    counts: [AtomicU64; BUCKETS + 1],
    sum_us: AtomicU64,
}

/// What a histogram holds, or several together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counted {
    /// Upper bound in seconds, and how many were within it but above the one before; the last bound is infinite.
    pub buckets: Vec<(f64, u64)>,
    /// All times together.
    pub sum: Duration,
}

impl Histogram {
    /// With these bounds.
    pub const fn new(bounds_us: &'static [u64; BUCKETS]) -> Self {
        Self { bounds_us, counts: [const { AtomicU64::new(0) }; BUCKETS + 1], sum_us: AtomicU64::new(0) }
    }

    /// Counts one.
    pub fn observe(&self, time: Duration) {
        let time_us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let at = self.bounds_us.partition_point(|bound| *bound < time_us);
        if let Some(count) = self.counts.get(at) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.sum_us.fetch_add(time_us, Ordering::Relaxed);
    }

    /// Adds what it holds to `counted`, which is empty or of the same bounds.
    pub fn add_to(&self, counted: &mut Counted) {
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

impl Counted {
    /// How many there were.
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
        let mut counted = Counted::default();
        histogram.add_to(&mut counted);
        histogram.add_to(&mut counted);
        let filled: Vec<_> = counted.buckets.iter().copied().filter(|(_, count)| *count > 0).collect();
        assert_eq!(filled, [(1e-5, 4), (2.5e-5, 2), (1.0, 2), (f64::INFINITY, 2)]);
        assert_eq!((counted.count(), counted.sum), (10, Duration::from_micros(2 * 2_000_022)));
    }
}
