//! Surplus of a table beyond its bound in bytes: measured now and then, then counted down while rows are removed.

use std::time::{Duration, Instant};

/// Time between measurements while nothing is to be removed.
const INTERVAL: Duration = Duration::from_secs(300);

/// Bytes that are to be removed of a table.
#[derive(Debug, Default)]
pub(super) struct Surplus {
    bytes: u64,
    /// When it was measured, and against which bound.
    measured: Option<(Instant, u64)>,
}

impl Surplus {
    /// Bytes that are still to be removed.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// True if the table should be measured: nothing is known to be surplus, and some time has passed or the bound is another one.
    pub(super) fn is_due(&self, bytes_max: u64) -> bool {
        self.bytes == 0 && self.measured.is_none_or(|(at, bound)| bound != bytes_max || at.elapsed() >= INTERVAL)
    }

    /// Notes how large the table is.
    pub(super) fn measure(&mut self, bytes: u64, bytes_max: u64) {
        self.bytes = bytes.saturating_sub(bytes_max);
        self.measured = Some((Instant::now(), bytes_max));
    }

    /// Notes that so many bytes were removed; if there were none, nothing is left to remove.
    pub(super) fn remove(&mut self, bytes: u64) {
        self.bytes = if bytes == 0 { 0 } else { self.bytes.saturating_sub(bytes) };
    }
}
