//! Answers that a client of HTTP/2 doesn't take: their streams wait for the client's flow control (RFC 9113, section 5.2) while its
//! connection is well, so that no timer of the socket ever fires.
//!
//! A body that handed on a part and isn't asked for the next one waits for the client. The connection ends once one has waited for too long.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use slab::Slab;

/// The answers of one connection that are being sent.
#[derive(Clone, Debug, Default)]
pub struct StallWatch(Arc<SentAnswers>);

#[derive(Debug, Default)]
struct SentAnswers {
    count: AtomicUsize,
    /// For each, since when it waits for the client; `None` while it waits for its upstream.
    waiting: Mutex<Slab<Option<Instant>>>,
}

/// One answer that is being sent; it is forgotten on drop.
#[derive(Debug)]
pub struct SentAnswer {
    all: StallWatch,
    slot: usize,
}

impl StallWatch {
    /// Adds an answer.
    pub fn begin(&self) -> SentAnswer {
        self.0.count.fetch_add(1, Ordering::Relaxed);
        let slot = self.waiting().insert(None);
        SentAnswer { all: self.clone(), slot }
    }

    /// True if the client has taken nothing of an answer for `limit`, though there was something to take.
    pub fn is_stalled(&self, limit: Duration) -> bool {
        self.0.count.load(Ordering::Relaxed) > 0
            && self.waiting().iter().any(|(_, since)| since.is_some_and(|since| since.elapsed() > limit))
    }

    fn waiting(&self) -> MutexGuard<'_, Slab<Option<Instant>>> {
        // One connection's tasks share one thread: it is never contended.
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SentAnswer {
    /// Notes that a part was handed on.
    pub fn hand_on(&self) {
        self.set(Some(Instant::now()));
    }

    /// Notes that the next part is asked for.
    pub fn ask(&self) {
        self.set(None);
    }

    fn set(&self, since: Option<Instant>) {
        if let Some(own) = self.all.waiting().get_mut(self.slot) {
            *own = since;
        }
    }
}

impl Drop for SentAnswer {
    fn drop(&mut self) {
        self.all.waiting().try_remove(self.slot);
        self.all.0.count.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_handed_on_waits_for_the_client() {
        let all = StallWatch::default();
        assert!(!all.is_stalled(Duration::ZERO));
        let (one, other) = (all.begin(), all.begin());
        assert!(!all.is_stalled(Duration::ZERO), "both wait for their upstreams");
        one.hand_on();
        std::thread::sleep(Duration::from_millis(1));
        assert!(all.is_stalled(Duration::ZERO) && !all.is_stalled(Duration::from_secs(60)));
        one.ask();
        assert!(!all.is_stalled(Duration::ZERO));
        other.hand_on();
        std::thread::sleep(Duration::from_millis(1));
        drop(other);
        assert!(!all.is_stalled(Duration::ZERO), "what is gone waits no more");
    }
}
