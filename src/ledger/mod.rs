//! The ledger: keeps a record of every exchange, serves look-ups, and detects changes to what it stored.
//!
//! At the end of an exchange one [`record::ExchangeRecord`] is made and handed to the [`recorder::Recorder`], which passes it to the
//! observers and to the [`store::Store`].

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
