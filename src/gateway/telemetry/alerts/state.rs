//! State of an alert: fires by the growth of a counter within a window. Pure.
//!
//! ```text
//!            more than the threshold within the window
//!   quiet ───────────────────────────────────────────▶ firing
//!     ▲                                                   │
//!     └───────────────── no longer ◀──────────────────────┘
//! ```

use std::{collections::VecDeque, time::Duration};

/// Samples stored per window. The counted time may be longer than the window by this fraction, but never shorter.
const LOOKS: u64 = 60;

/// Change of an alert's state.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AlertTransition {
    /// The alert starts to fire, with this count.
    Fire(u64),
    /// The alert stops firing, with this count.
    Resolve(u64),
}

/// State of one alert.
#[derive(Debug)]
pub struct AlertState {
    length_ms: u64,
    threshold: u64,
    /// Time and total of earlier samples, the oldest first. INVARIANT: at most the first is older than the window.
    looks: VecDeque<(u64, u64)>,
    firing: bool,
}

impl AlertState {
    /// An alert that fires when the counter grows by more than `threshold` within `length`.
    pub fn new(threshold: u64, length: Duration) -> Self {
        Self { length_ms: u64::try_from(length.as_millis()).unwrap_or(u64::MAX).max(1), threshold, looks: [(0, 0)].into(), firing: false }
    }

    /// True if the alert is firing.
    pub fn is_firing(&self) -> bool {
        self.firing
    }

    /// Evaluates the counter's total. `now_ms`: milliseconds since the counter was 0. Returns a change of state, if any.
    pub fn look(&mut self, now_ms: u64, total: u64) -> Option<AlertTransition> {
        let begin = now_ms.saturating_sub(self.length_ms);
        while self.looks.get(1).is_some_and(|(at_ms, _)| *at_ms <= begin) {
            self.looks.pop_front();
        }
        let before = self.looks.front().map_or(total, |(_, total)| *total);
        if self.looks.back().is_none_or(|(at_ms, _)| now_ms.saturating_sub(*at_ms) >= self.length_ms / LOOKS) {
            self.looks.push_back((now_ms, total));
        }
        let count = total.saturating_sub(before);
        let firing = count > self.threshold;
        let turned = firing != self.firing;
        self.firing = firing;
        turned.then_some(if firing { AlertTransition::Fire(count) } else { AlertTransition::Resolve(count) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_fires_once_and_resolves() {
        let mut window = AlertState::new(5, Duration::from_secs(600));
        let total = |at_s| match at_s {
            0 => 0,
            1 => 5,
            2..300 => 6,
            _ => 7,
        };
        let turns: Vec<_> = (0..2000).filter_map(|at_s| window.look(at_s * 1000, total(at_s)).map(|turn| (at_s, turn))).collect();
        // 5 are still fine; 6 are too many.
        assert_eq!(turns, [(2, AlertTransition::Fire(6)), (610, AlertTransition::Resolve(1))]);
    }

    #[test]
    fn a_long_life_needs_no_more_room() {
        let mut window = AlertState::new(0, Duration::from_secs(60));
        for at_s in 0..10_000 {
            window.look(at_s * 1000, 0);
            assert!(window.looks.len() as u64 <= LOOKS + 2);
        }
        assert_eq!(window.look(10_000_000, 1), Some(AlertTransition::Fire(1)));
        assert!(window.is_firing());
    }
}
