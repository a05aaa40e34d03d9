//! Trace context of an exchange. Does nothing if traces are off.

use http::HeaderMap;

use crate::{ledger::record::ExchangeRecord, proxy::app::App, telemetry::traces::ExchangeTrace};

/// Trace of one exchange; `None` if traces are off, or it was exported.
pub struct ExchangeTracer(Option<Box<ExchangeTrace>>);

impl ExchangeTracer {
    /// Trace of an exchange whose request has these headers.
    pub fn new(app: &App, headers: &HeaderMap) -> Self {
        Self(app.observed.traces.as_ref().map(|traces| Box::new(traces.begin(headers))))
    }

    /// Headers of the next attempt, with its span in `traceparent`; without traces the caller's own passes like any header.
    pub fn attempt(&mut self, app: &App, mut headers: HeaderMap) -> HeaderMap {
        if let (Some(traces), Some(trace)) = (&app.observed.traces, &mut self.0) {
            traces.attempt(trace, &mut headers);
        }
        headers
    }

    /// Exports the spans of an exchange that has ended.
    pub fn end(&mut self, app: &App, record: &ExchangeRecord) {
        if let (Some(traces), Some(trace)) = (&app.observed.traces, self.0.take()) {
            traces.end(&trace, record);
        }
    }
}
