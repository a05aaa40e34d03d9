//! When an exchange began, by both clocks: what comes later is told by one of them, which costs a third of asking again.

use std::time::Instant;

use crate::proxy::app::unix_ms;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Began {
    /// By the clock that only rises.
    pub at: Instant,
    /// In Unix milliseconds.
    pub ms: u64,
}

impl Began {
    /// Now.
    pub fn now() -> Self {
        Self { at: Instant::now(), ms: unix_ms() }
    }

    /// A later moment, in Unix milliseconds.
    pub fn ms_at(&self, later: Instant) -> u64 {
        self.ms.saturating_add(later.saturating_duration_since(self.at).as_millis() as u64)
    }
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
