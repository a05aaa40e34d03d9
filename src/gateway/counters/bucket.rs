//! Quotas as buckets: the terms in which a client's rate or a budget is counted in the store. Pure.

use std::time::Duration;

use super::{Adjust, CounterKey, Take};

/// So much within a span of time, which may be used at once and comes back evenly.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Bucket {
    key: CounterKey,
    capacity: u64,
    span_us: u64,
}

impl Bucket {
    /// A full bucket of this capacity, which `span` fills.
    pub fn new(key: CounterKey, capacity: u64, span: Duration) -> Self {
        Self { key, capacity: capacity.max(1), span_us: u64::try_from(span.as_micros()).unwrap_or(u64::MAX).clamp(1, SPAN_US_MAX) }
    }

    /// Taking this amount; 0 asks whether anything is left.
    pub fn take(&self, amount: u64) -> Take {
        Take { key: self.key, cost_us: self.cost_us(amount), span_us: self.span_us }
    }

    /// Taking, after the fact, this amount more.
    pub fn spend(&self, amount: u64) -> Adjust {
        self.adjust(i64::try_from(self.cost_us(amount)).unwrap_or(i64::MAX))
    }

    /// Giving this amount back.
    pub fn give_back(&self, amount: u64) -> Adjust {
        self.adjust(i64::try_from(self.cost_us(amount)).map_or(i64::MIN, |cost| -cost))
    }

    /// Replacing the amount that was taken by the amount that was used.
    pub fn settle(&self, taken: u64, used: u64) -> Adjust {
        if used < taken { self.give_back(taken - used) } else { self.spend(used - taken) }
    }

    fn adjust(&self, delta_us: i64) -> Adjust {
        Adjust { key: self.key, delta_us, span_us: self.span_us }
    }

    /// Time that brings this amount back. Rounded down, so that `capacity` times 1 fits into the span; but nothing is free.
    fn cost_us(&self, amount: u64) -> u64 {
        let cost = u128::from(amount) * u128::from(self.span_us) / u128::from(self.capacity);
        u64::try_from(cost).unwrap_or(u64::MAX).clamp(amount.min(1), SPAN_US_MAX)
    }
}

/// Longest span: a year. With it, sums of times stay far below 2^53, where Lua's numbers end.
const SPAN_US_MAX: u64 = 366 * 24 * 3_600 * 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capacity_fits_into_its_span_whatever_it_divides_by() {
        for capacity in [1, 3, 7, 600, 999_983, u64::MAX] {
            let bucket = Bucket::new([0; 32], capacity, Duration::from_secs(3_600));
            let take = bucket.take(1);
            assert!(take.cost_us >= 1 && (capacity > 3_600_000_000 || take.cost_us * capacity <= take.span_us), "{capacity}");
            assert!(bucket.take(capacity).cost_us <= take.span_us, "{capacity}: all at once");
        }
        let bucket = Bucket::new([0; 32], 1_000, Duration::from_secs(1));
        assert_eq!((bucket.take(0).cost_us, bucket.take(5).cost_us), (0, 5_000));
        assert_eq!((bucket.settle(5, 2).delta_us, bucket.settle(2, 5).delta_us, bucket.give_back(1).delta_us), (-3_000, 3_000, -1_000));
        assert_eq!(bucket.take(u64::MAX).cost_us, SPAN_US_MAX);
    }
}
