//! Trace context of an exchange. Does nothing if traces are off.

use http::HeaderMap;

use crate::{ledger::record::ExchangeRecord, proxy::exchange::driver::Run};

impl Run {
    /// Headers of the next attempt, with its span in `traceparent`; without traces the caller's own passes like any header.
    pub(in crate::proxy) fn traced_headers(&mut self) -> HeaderMap {
        let mut headers = self.way.headers();
        if let (Some(traces), Some(trace)) = (&self.worker.app.observed.traces, &mut self.trace) {
            traces.attempt(trace, &mut headers);
        }
        headers
    }

    /// Exports the spans of an exchange that has ended.
    pub(in crate::proxy) fn end_trace(&mut self, record: &ExchangeRecord) {
        if let (Some(traces), Some(trace)) = (&self.worker.app.observed.traces, self.trace.take()) {
            traces.end(&trace, record);
        }
    }
}
