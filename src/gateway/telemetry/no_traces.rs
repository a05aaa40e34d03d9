//! Builds without the feature `otlp`: the settings refuse traces, and no exporter exists.

use http::HeaderMap;

use crate::{
    ledger::record::ExchangeRecord,
    settings::{self, UpstreamSettings},
};

/// Error of starting the exporter.
#[derive(Debug, thiserror::Error)]
#[error("{}", settings::NO_TRACES)]
pub struct Error(());

/// Exporter of spans: there is none.
#[derive(Debug)]
pub enum Traces {}

/// Ids and times of one exchange's spans: there are none.
#[derive(Debug)]
pub enum ExchangeTrace {}

impl Traces {
    /// Starts nothing.
    ///
    /// # Errors
    /// Always.
    pub fn start(_: &settings::TraceSettings, _: &[UpstreamSettings]) -> Result<Self, Error> {
        Err(Error(()))
    }

    /// Begins the trace of an exchange.
    pub fn begin(&self, _: &HeaderMap) -> ExchangeTrace {
        match *self {}
    }

    /// Begins an attempt.
    pub fn attempt(&self, _: &mut ExchangeTrace, _: &mut HeaderMap) {
        match *self {}
    }

    /// Sends the spans of an exchange that has ended.
    pub fn end(&self, _: &ExchangeTrace, _: &ExchangeRecord) {
        match *self {}
    }

    /// Sends the remaining spans.
    pub fn close(&self) {
        match *self {}
    }
}
