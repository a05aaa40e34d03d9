//! The ledger: what happened is kept, can be looked up, and can't be quietly changed.
//!
//! One [`record::ExchangeRecord`] is made at the end of an exchange and handed to the [`recorder::Recorder`],
//! which shows it to whoever observes and gives it to the [`store::Store`].

pub mod chain;
pub mod digest;
pub mod lookup;
pub mod memory;
pub mod open;
pub mod page;
pub mod portion;
pub mod postgres;
pub mod queue;
pub mod record;
pub mod recorder;
pub mod rows;
pub mod sample;
pub mod seen;
pub mod shelf;
pub mod sqlite;
pub mod store;
pub mod stored;
pub mod vault;
pub mod verify;
pub mod writer;
