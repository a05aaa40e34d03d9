//! What replicas share besides the ledger: counts of requests, tokens and sessions' calls, and what they learn of upstreams.
//!
//! ```text
//!  an exchange ─ a local count, always ─▶ refused
//!       │ passes
//!       └─ [`SharedCounters`] (bounded queue) ─▶ one thread ─▶ [`CounterStore`]: PostgreSQL, Valkey or Redis
//!               ◀─ an answer within `[counters] wait`, else the local count alone decides ─┘
//! ```
//! Beside it replicas tell each other what they learn of upstreams, over a channel of the same store ([`news`]).
//! Without `[counters]` none of this exists: each process counts for itself, as `memory:` says.
//!
//! - Exactness: a bucket is taken from atomically in the store, so all replicas together never take more than one would. While the store is
//!   away each replica has its own counts, so all together take at most as many times as much as there are replicas.
//! - Time is the store's: no clock of a replica is compared with another one's.
//! - The store sees keyed digests and sealed entries: no names, keys, arguments or results.
//! - Everything in the store has an end: a bucket when it is full again, a session's calls after [`Append::keep`].

pub mod bucket;
mod metrics;
pub mod news;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "redis")]
pub mod redis;
mod service;
pub mod session_log;

use std::time::Duration;

pub use metrics::register;
pub use service::{SharedCounters, try_out};

/// Key of a bucket or a session: a keyed digest.
pub type CounterKey = [u8; 32];

/// Entries of one session that a store keeps; the latest are kept.
pub const ENTRIES_MAX: usize = 256;
/// Bytes of one entry.
pub const ENTRY_BYTES_MAX: usize = 512;

/// Reasons why a store doesn't count.
#[derive(Debug, thiserror::Error)]
pub enum CounterError {
    /// It can't be reached, or failed. The message never quotes the URL, which may hold a password.
    #[error("{0}")]
    Unavailable(String),
    /// It answered with something else than was asked for.
    #[error("it gave an answer that can't be read: {0}")]
    Answer(String),
}

/// Taking from a bucket that fills evenly: `cost` of what `span` brings back. Everything is in microseconds of the store's clock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Take {
    /// The bucket.
    pub key: CounterKey,
    /// Time that brings back what is taken; 0 asks whether anything is left.
    pub cost_us: u64,
    /// Time that fills the empty bucket: what it holds.
    pub span_us: u64,
}

/// Answer to a [`Take`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Taken {
    /// It was there, and is taken.
    Granted,
    /// Too little is left: there will be enough in this many microseconds, if nobody else takes any.
    Refused(u64),
}

/// Correction of a bucket after the fact: what was used beyond what was taken, or less.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Adjust {
    /// The bucket.
    pub key: CounterKey,
    /// Microseconds that are taken, or given back.
    pub delta_us: i64,
    /// Time that fills the empty bucket, in microseconds. A bucket is overdrawn by at most this much.
    pub span_us: u64,
}

/// Entries that are added to a session. One that is there already changes nothing.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Append {
    /// The session.
    pub key: CounterKey,
    /// The entries.
    pub entries: Vec<Entry>,
    /// Time after which an entry, and a session without others, is gone.
    pub keep: Duration,
}

/// An entry of a session.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Entry {
    /// Its age in milliseconds, when it is written or read.
    pub age_ms: u64,
    /// The sealed content, which also tells entries apart.
    pub body: Vec<u8>,
}

/// A service that counts for all replicas. Its methods block; a failure is followed by a new connection.
pub trait CounterStore: Send {
    /// Takes from buckets, in this order. One answer for each.
    ///
    /// # Errors
    /// [`CounterError`]: some may have been taken.
    fn take(&mut self, takes: &[Take]) -> Result<Vec<Taken>, CounterError>;

    /// Corrects buckets.
    ///
    /// # Errors
    /// [`CounterError`]: some may have been corrected.
    fn adjust(&mut self, adjusts: &[Adjust]) -> Result<(), CounterError>;

    /// Adds entries to sessions; each then has the latest [`ENTRIES_MAX`].
    ///
    /// # Errors
    /// [`CounterError`]: some may have been added.
    fn append(&mut self, appends: &[Append]) -> Result<(), CounterError>;

    /// The entries of sessions, at most [`ENTRIES_MAX`] each, in any order. One list for each key.
    ///
    /// # Errors
    /// [`CounterError`].
    fn entries(&mut self, keys: &[CounterKey]) -> Result<Vec<Vec<Entry>>, CounterError>;

    /// Sends messages to all who listen on a channel.
    ///
    /// # Errors
    /// [`CounterError`]: some may have been sent.
    fn publish(&mut self, channel: &str, messages: &[Vec<u8>]) -> Result<(), CounterError>;

    /// Does what is due now and then, such as removing what is expired; also tells whether the store answers.
    ///
    /// # Errors
    /// [`CounterError`].
    fn tend(&mut self) -> Result<(), CounterError>;
}

#[cfg(test)]
mod memory;
