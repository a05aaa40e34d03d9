//! End of an exchange: its headers, its trace, its record, and the wait until the record is on disk.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, Response, StatusCode, header::InvalidHeaderValue};
use uuid::Uuid;

use super::driver::ExchangeDriver;
use crate::{
    ledger::record::ExchangeRecord,
    proxy::{
        app::App,
        conversations::replicated,
        http::{
            body::Body,
            failure::Failure,
            headers::{EXCHANGE, REPAIRS, UPSTREAM, VERDICT, VIOLATIONS},
        },
    },
    telemetry::traces::ExchangeTrace,
    violation::{Code, Violation},
};

/// Knowledge of the verdict at the time when headers are written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum VerdictState {
    /// The answer still streams.
    Pending,
    /// It is final.
    Final,
}

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

impl ExchangeDriver {
    /// Makes the record of the exchange, which took `total`, and exports its trace.
    pub(super) fn make_record(&mut self, total: Duration) -> ExchangeRecord {
        let (record, state) = self.recording();
        let made = record.build(&state, total);
        self.tracer.end(&self.worker.app, &made);
        made
    }

    /// Waits until another replica would find what it must know of this exchange, and, if the settings ask for it, until the record is on
    /// disk, before the end of the answer is sent.
    ///
    /// # Errors
    /// 503 if that takes too long and the policy blocks on it; otherwise a violation is recorded.
    pub(super) async fn wait_for_durability(&mut self) -> Result<(), Failure> {
        let app = self.worker.app.clone();
        self.conversation.settle(&app, &self.context);
        let rows = self.conversation.take_rows();
        let mut late = None;
        if !rows.is_empty() && replicated::store(&app, rows).await.is_err() && !self.context.observes() {
            late = Some("the ledger didn't say in time that it has what another replica must know of this conversation");
            if let Some(violation) = self.late_violation(late) {
                self.attempts.report([violation]);
            }
        }
        if app.recorder.commits() {
            let first = self.make_record(self.clock.elapsed());
            let told = app.recorder.take_committed(&first);
            if !tokio::time::timeout(app.settings.ledger.wait, told).await.is_ok_and(|told| told.is_ok()) {
                late = Some("the ledger can't be written: the record of this exchange isn't on disk yet");
                if let Some(violation) = self.late_violation(late) {
                    self.attempts.report([violation.clone()]);
                    let (record, state) = self.recording();
                    let amendment = record.amendment(&state, &first, violation);
                    app.recorder.take(&amendment);
                }
            }
        }
        let blocks = self.late_violation(late).as_ref().is_some_and(Violation::blocks) && !self.context.observes();
        let Some(message) = late.filter(|_| blocks) else { return Ok(()) };
        self.attempts.block();
        self.record.finish(StatusCode::SERVICE_UNAVAILABLE);
        Err(Failure::new(StatusCode::SERVICE_UNAVAILABLE, Code::LedgerUnavailable.as_str(), message))
    }

    fn late_violation(&self, message: Option<&str>) -> Option<Violation> {
        self.context.rules.checks.violation(Code::LedgerUnavailable, None, message?, "try again in a moment")
    }

    /// Ends the exchange with a complete response, which an error replaces if the record can't be written.
    pub(super) async fn finish(mut self: Box<Self>, mut response: Response<Body>) -> Response<Body> {
        let known = self.attempts.findings().violations.len();
        if let Err(failure) = self.wait_for_durability().await {
            response = failure.response(self.selection.api());
        }
        if self.attempts.findings().violations.len() > known {
            self.set_headers(response.headers_mut(), VerdictState::Final);
        }
        self.finish_in_background();
        response
    }

    /// Sets the headers of a response with this status. An error of the upstream has the verdict `failed`, as in the log and the metrics.
    pub(super) fn set_headers_of(&self, headers: &mut HeaderMap, status: StatusCode) {
        self.set_headers(headers, VerdictState::Final);
        if status.as_u16() >= 400 && !self.attempts.findings().blocked {
            headers.insert(VERDICT, HeaderValue::from_static("failed"));
        }
    }

    /// Sets the headers that every enforced response has; verdict and repairs only if they are final.
    pub(super) fn set_headers(&self, headers: &mut HeaderMap, verdict: VerdictState) {
        let findings = self.attempts.findings();
        let mut buffer = Uuid::encode_buffer();
        let id = self.context.id.hyphenated().encode_lower(&mut buffer);
        let mut set = |name, value: Result<HeaderValue, InvalidHeaderValue>| {
            if let Ok(value) = value {
                headers.insert(name, value);
            }
        };
        set(EXCHANGE, HeaderValue::from_str(id));
        match findings.codes()[..] {
            [] => {}
            // The usual case needs no text of its own.
            [only] => set(VIOLATIONS, Ok(HeaderValue::from_static(only.as_str()))),
            ref codes => set(VIOLATIONS, codes.iter().map(|code| code.as_str()).collect::<Vec<_>>().join(",").try_into()),
        }
        if let Some(name) = self.selection.answered() {
            set(UPSTREAM, HeaderValue::from_str(name));
        }
        if verdict == VerdictState::Final {
            set(VERDICT, Ok(HeaderValue::from_static(findings.word())));
            let repairs = findings.repairs;
            set(REPAIRS, Ok(if repairs == 0 { HeaderValue::from_static("0") } else { repairs.into() }));
        }
    }
}
