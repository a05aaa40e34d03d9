//! Time of one exchange: its start, the last reading of the clock, and the waits for upstreams.

use std::time::{Duration, Instant};

use crate::sys::clock::Began;

/// Clock of one exchange. Reads the system's clock only where time may have gone by.
#[derive(Debug)]
pub struct ExchangeClock {
    began: Began,
    /// Last reading: at the start of an attempt, or at the end of a wait.
    read_at: Instant,
    /// Time at which the request had arrived completely, in Unix milliseconds.
    arrived_ms: u64,
    upstream_time: Duration,
    /// Start of the current wait for an upstream. A client that disconnects meanwhile has waited for the upstream, not for toolmark.
    waits_since: Option<Instant>,
}

impl ExchangeClock {
    /// Clock of an exchange whose request has arrived now.
    pub fn new(began: Began) -> Self {
        let read_at = Instant::now();
        Self { began, read_at, arrived_ms: began.ms_at(read_at), upstream_time: Duration::ZERO, waits_since: None }
    }

    /// Time since the exchange began.
    pub fn elapsed(&self) -> Duration {
        self.began.at.elapsed()
    }

    /// Start of the exchange.
    pub fn began_at(&self) -> Instant {
        self.began.at
    }

    /// Start of the exchange, in Unix milliseconds.
    pub fn began_ms(&self) -> u64 {
        self.began.ms
    }

    /// Time at which the request had arrived completely, in Unix milliseconds.
    pub fn arrived_ms(&self) -> u64 {
        self.arrived_ms
    }

    /// Last reading.
    pub fn read_at(&self) -> Instant {
        self.read_at
    }

    /// Last reading, in Unix milliseconds.
    pub fn read_ms(&self) -> u64 {
        self.began.ms_at(self.read_at)
    }

    /// Time spent waiting for upstreams.
    pub fn upstream_time(&self) -> Duration {
        self.upstream_time
    }

    /// Starts a wait for an upstream now.
    pub fn start_wait(&mut self) {
        self.read_at = Instant::now();
        self.resume_wait();
    }

    /// Starts a wait that follows the last one without a pause.
    pub fn resume_wait(&mut self) {
        self.waits_since = Some(self.read_at);
    }

    /// Ends the wait, if there is one. Returns its time.
    pub fn end_wait(&mut self) -> Option<Duration> {
        let since = self.waits_since.take()?;
        self.read_at = Instant::now();
        let time = self.read_at.saturating_duration_since(since);
        self.upstream_time += time;
        Some(time)
    }
}
