//! Clocks. Of an exchange only the start is read by both clocks: later timestamps are derived from the `Instant`, which avoids a second
//! clock read.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Monotonic clock that counts from the process's start.
#[derive(Clone, Copy, Debug)]
pub struct Uptime(Instant);

impl Uptime {
    /// Clock that starts now.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Milliseconds since the start.
    pub fn ms(self) -> u64 {
        self.ms_at(Instant::now())
    }

    /// Milliseconds from the start to a known instant.
    pub fn ms_at(self, at: Instant) -> u64 {
        at.saturating_duration_since(self.0).as_millis() as u64
    }
}

/// Start of an exchange, as an `Instant` and as Unix time.
#[derive(Clone, Copy, Debug)]
pub struct Began {
    /// Start by the monotonic clock.
    pub at: Instant,
    /// Start as Unix time in milliseconds.
    pub ms: u64,
}

impl Began {
    /// Now.
    pub fn now() -> Self {
        Self { at: Instant::now(), ms: unix_ms() }
    }

    /// Unix time of a later instant, in milliseconds.
    pub fn ms_at(&self, later: Instant) -> u64 {
        self.ms.saturating_add(later.saturating_duration_since(self.at).as_millis() as u64)
    }
}

/// The time, in Unix milliseconds.
pub fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn later_moments_by_the_one_clock() {
        let began = Began { at: Instant::now(), ms: 1000 };
        assert_eq!(began.ms_at(began.at + Duration::from_micros(2999)), 1002);
        assert_eq!(began.ms_at(began.at), 1000);
        assert!(Began::now().ms > 1_700_000_000_000);
    }
}
