//! Sums of many exchanges under one name: sparse counters that can be added and stored. Pure.
//!
//! Stored as pairs of variable-length integers (LEB128): field number, value. A number is never reused for another field, so
//! that later versions can read the ledger; fields that a version doesn't know are preserved.

/// A counted quantity. The numbers are stored.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u16)]
pub enum CounterField {
    /// Exchanges.
    Exchanges = 1,
    /// Exchanges with verdict `pass`.
    Pass = 2,
    /// Exchanges with verdict `warn`.
    Warn = 3,
    /// Exchanges with verdict `repaired`.
    Repaired = 4,
    /// Exchanges with verdict `blocked`.
    Blocked = 5,
    /// Exchanges with an error status that weren't blocked.
    Failed = 6,
    /// Exchanges whose caller closed the connection before the end.
    Abandoned = 7,
    /// Repairs.
    Repairs = 8,
    /// Upstream requests.
    Attempts = 9,
    /// Calls passed on.
    Accepted = 10,
    /// Calls rejected for their own violations.
    Rejected = 11,
    /// Calls withheld with their turn.
    Withheld = 12,
    /// Executions.
    Executions = 13,
    /// Executions whose result reports a failure.
    FailedExecutions = 14,
    /// Input tokens of first attempts.
    InputFirst = 15,
    /// Output tokens of first attempts.
    OutputFirst = 16,
    /// Input tokens of all later attempts.
    InputRepair = 17,
    /// Output tokens of all later attempts.
    OutputRepair = 18,
    /// toolmark's own time, in microseconds.
    OverheadUs = 19,
    /// The upstreams' time, in microseconds.
    UpstreamUs = 20,
    /// Violations at `info`.
    Info = 21,
    /// Violations at `warn`.
    Warned = 22,
    /// Violations at `block`.
    BlockedOn = 23,
    /// Calls of tools that don't exist.
    Invented = 24,
    /// Tokens of the attempts that called a tool; an attempt's tokens are divided equally among its calls.
    Tokens = 25,
    /// Sum of the durations, in milliseconds: of executions in a tool's row, of exchanges in others.
    DurationMs = 26,
}

/// Fields from this number on count executions (in a tool's row) or exchanges (in others) by duration, one for each bucket of [`bucket_of`].
const DURATIONS: u16 = 1000;
/// Buckets per doubling: a bucket is at most an eighth wide.
const BUCKETS_PER_DOUBLING: u32 = 8;
/// Fields under one name, at most: more than are ever written.
const FIELDS_MAX: usize = 1024;

/// Sums under one name.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct CounterSet(Vec<(u16, u64)>);

impl CounterSet {
    /// Empty sums, with capacity for one exchange.
    pub fn with_room() -> Self {
        Self(Vec::with_capacity(18))
    }

    /// Adds to one field.
    pub fn add(&mut self, field: CounterField, amount: u64) {
        self.add_number(field as u16, amount);
    }

    /// Counts an execution or an exchange with this duration.
    pub fn add_duration(&mut self, duration_ms: u64) {
        self.add(CounterField::DurationMs, duration_ms);
        self.add_number(DURATIONS + bucket_of(duration_ms), 1);
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        let mut at = 0;
        for (number, amount) in &other.0 {
            // Both are sorted by number.
            while self.0.get(at).is_some_and(|(own, _)| own < number) {
                at += 1;
            }
            match self.0.get_mut(at) {
                Some((own, sum)) if own == number => *sum = sum.saturating_add(*amount),
                _ => self.0.insert(at, (*number, *amount)),
            }
        }
    }

    fn add_number(&mut self, number: u16, amount: u64) {
        if amount == 0 {
            return;
        }
        match self.0.binary_search_by_key(&number, |(own, _)| *own) {
            Ok(at) => {
                if let Some((_, sum)) = self.0.get_mut(at) {
                    *sum = sum.saturating_add(amount);
                }
            }
            Err(at) => self.0.insert(at, (number, amount)),
        }
    }

    /// The value of a field.
    pub fn of(&self, field: CounterField) -> u64 {
        self.0.binary_search_by_key(&(field as u16), |(own, _)| *own).ok().and_then(|at| self.0.get(at)).map_or(0, |(_, sum)| *sum)
    }

    /// Number of durations that were counted.
    pub fn durations(&self) -> u64 {
        self.0.iter().filter(|(number, _)| *number >= DURATIONS).map(|(_, sum)| sum).sum()
    }

    /// The duration within which this share of the executions or exchanges ended, in milliseconds: exact up to 16 ms, above that at most a
    /// sixteenth off. `None` if there are none.
    pub fn percentile_ms(&self, share: f64) -> Option<u64> {
        let durations = || self.0.iter().filter(|(number, _)| *number >= DURATIONS);
        let count = self.durations();
        let rank = ((count as f64 * share).ceil() as u64).clamp(1, count.max(1));
        let mut before = 0;
        durations().find_map(|(number, sum)| {
            before += sum;
            (before >= rank).then(|| middle_of(number - DURATIONS))
        })
    }

    /// Encodes the sums for storage.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.0.len() * 4);
        for (number, sum) in &self.0 {
            write(&mut bytes, u64::from(*number));
            write(&mut bytes, *sum);
        }
        bytes
    }

    /// Decodes stored sums; `None` if the bytes aren't sums.
    pub fn decode(mut bytes: &[u8]) -> Option<Self> {
        let mut sums = Self::default();
        while !bytes.is_empty() {
            let number = u16::try_from(read(&mut bytes)?).ok()?;
            let sum = read(&mut bytes)?;
            if sums.0.last().is_some_and(|(last, _)| *last >= number) || sums.0.len() >= FIELDS_MAX {
                return None;
            }
            sums.0.push((number, sum));
        }
        Some(sums)
    }
}

/// The bucket of a duration: one per millisecond up to 15 ms, then eight per doubling.
fn bucket_of(duration_ms: u64) -> u16 {
    let exact = u64::from(2 * BUCKETS_PER_DOUBLING);
    if duration_ms < exact {
        return duration_ms as u16;
    }
    let duration_ms = duration_ms.min(u64::from(u32::MAX));
    let doubling = duration_ms.ilog2() - BUCKETS_PER_DOUBLING.ilog2();
    // Four significant bits: 8 to 15.
    let significant = (duration_ms >> doubling) as u32;
    (doubling * BUCKETS_PER_DOUBLING + significant) as u16
}

/// The duration that represents a bucket, in milliseconds.
fn middle_of(bucket: u16) -> u64 {
    let bucket = u64::from(bucket);
    let per = u64::from(BUCKETS_PER_DOUBLING);
    if bucket < 2 * per {
        return bucket;
    }
    let doubling = bucket / per - 1;
    let significant = bucket - doubling * per;
    (significant << doubling) + (1 << doubling) / 2
}

fn write(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn read(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn percentiles() {
        let mut sums = CounterSet::default();
        assert_eq!(sums.percentile_ms(0.5), None);
        (1..=10).for_each(|duration_ms| sums.add_duration(duration_ms));
        assert_eq!([0.0, 0.5, 0.9, 1.0].map(|share| sums.percentile_ms(share)), [Some(1), Some(5), Some(9), Some(10)]);
        sums.add_duration(u64::MAX);
        assert!(sums.percentile_ms(1.0) > Some(4_000_000_000));
    }

    proptest! {
        #[test]
        fn a_bucket_is_near_its_durations(duration_ms in 0..=u64::from(u32::MAX)) {
            let middle = middle_of(bucket_of(duration_ms));
            prop_assert!(middle.abs_diff(duration_ms) * 16 <= duration_ms.max(16), "{duration_ms} {middle}");
            prop_assert!(duration_ms >= 16 || middle == duration_ms);
        }

        #[test]
        fn buckets_are_in_order(a in any::<u64>(), b in any::<u64>()) {
            prop_assert_eq!(bucket_of(a.min(b)).max(bucket_of(a.max(b))), bucket_of(a.max(b)));
        }

        #[test]
        fn what_is_stored_is_read(pairs in proptest::collection::vec((any::<u16>(), 1_u64..), 0..40)) {
            let mut sums = CounterSet::default();
            pairs.iter().for_each(|(number, amount)| sums.add_number(*number, *amount));
            prop_assert_eq!(CounterSet::decode(&sums.encode()), Some(sums));
        }

        #[test]
        fn anything_may_stand_there(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            if let Some(sums) = CounterSet::decode(&bytes) {
                prop_assert_eq!(CounterSet::decode(&sums.encode()), Some(sums));
            }
        }

        #[test]
        fn the_order_of_adding_makes_no_difference(pairs in proptest::collection::vec((0..40_u16, 0_u64..1000), 0..40), at in 0..40_usize) {
            let fold = |pairs: &[(u16, u64)]| pairs.iter().fold(CounterSet::default(), |mut sums, (number, amount)| { sums.add_number(*number, *amount); sums });
            let (first, second) = pairs.split_at(at.min(pairs.len()));
            let mut merged = fold(second);
            merged.merge(&fold(first));
            prop_assert_eq!(merged, fold(&pairs));
        }
    }
}
