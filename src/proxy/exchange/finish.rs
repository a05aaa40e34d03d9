//! End of an exchange, also of an abandoned one: its log line, its record, and the wait until the record is on disk.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, Response, StatusCode, header::InvalidHeaderValue};
use uuid::Uuid;

use crate::{
    exchange::decision::ExchangeFindings,
    ledger::{record::ExchangeRecord, sealed_kv::IntentSlot},
    proxy::{
        conversations::owners,
        exchange::{driver::Run, record_builder},
        http::{
            body::Body,
            failure::Failure,
            headers::{EXCHANGE, REPAIRS, UPSTREAM, VERDICT, VIOLATIONS},
        },
    },
    violation::{Code, Severity, Verdict, Violation},
};

impl Drop for Run {
    fn drop(&mut self) {
        if let Some(mut memo) = self.unanswered.take() {
            memo.items.append(&mut self.dropped);
            self.keep_memo(memo);
        }
        if !self.owned.is_empty() {
            let shelf = self.worker.app.recorder.shelf();
            // What couldn't be kept is known to this process.
            let _kept = shelf.put_behind(std::mem::take(&mut self.owned), IntentSlot::default(), self.worker.app.now_ms());
        }
        if let Some(since) = self.waiting {
            self.waited(since);
        }
        let total = self.started.at.elapsed();
        self.log(total);
        self.tape_end();
        if !self.recorded {
            let record = self.record(total);
            self.worker.app.recorder.take(&record, false);
        }
    }
}

impl Run {
    /// Waits until the record is on disk, if the settings ask for it, before the end of the answer is sent.
    ///
    /// # Errors
    /// 503 if that takes too long and the policy blocks on it; otherwise a violation is recorded.
    pub async fn commit(&mut self) -> Result<(), Failure> {
        let app = self.worker.app.clone();
        let owned = std::mem::take(&mut self.owned);
        if !owned.is_empty() {
            owners::keep(&app, owned).await;
        }
        if !app.recorder.commits() {
            return Ok(());
        }
        self.recorded = true;
        let record = self.record(self.started.at.elapsed());
        let told = app.recorder.take(&record, true);
        let stored = async {
            match told {
                Some(told) => told.await.is_ok(),
                None => false,
            }
        };
        if tokio::time::timeout(app.settings.ledger.wait, stored).await == Ok(true) {
            return Ok(());
        }
        let message = "the ledger can't be written: the record of this exchange isn't on disk yet";
        let violation = self.context.rules.checks.violation(Code::LedgerUnavailable, None, message, "try again in a moment");
        let blocks = violation.as_ref().is_some_and(Violation::blocks) && !self.context.observes();
        if blocks {
            self.attempts.block();
            self.finish(StatusCode::SERVICE_UNAVAILABLE);
        }
        if let Some(violation) = violation {
            self.attempts.report([violation.clone()]);
            app.recorder.take(&self.amendment(&record, violation), false);
        }
        if !blocks {
            return Ok(());
        }
        Err(Failure::new(StatusCode::SERVICE_UNAVAILABLE, Code::LedgerUnavailable.as_str(), message))
    }

    /// [`Self::commit`] for a complete response, which an error replaces.
    pub async fn committed(&mut self, mut response: Response<Body>) -> Response<Body> {
        let known = self.attempts.findings().violations.len();
        if let Err(failure) = self.commit().await {
            response = failure.response();
        }
        if self.attempts.findings().violations.len() > known {
            self.mark_headers(response.headers_mut(), true);
        }
        response
    }
}

impl Run {
    fn log(&self, total: Duration) {
        for execution in &self.context.executions {
            tracing::debug!(exchange = %self.context.id, tool = &*execution.tool, execution = &*execution.id, "result of {}", execution.tool);
        }
        let findings = self.attempts.findings();
        for violation in &findings.violations {
            let (code, severity) = (violation.code.as_str(), violation.severity);
            if severity >= Severity::Warn {
                let tool = violation.tool.as_deref().filter(|tool| self.context.tools.registry.tool(tool).is_some()).unwrap_or("-");
                tracing::warn!(exchange = %self.context.id, code, tool, severity = ?severity, "violation {code}");
            }
        }
        let verdict = match self.outcome {
            None => "abandoned",
            Some(400..) if !findings.blocked => "failed",
            Some(_) => findings.word(),
        };
        let mut buffer = Uuid::encode_buffer();
        tracing::info!(
            exchange = &*self.context.id.hyphenated().encode_lower(&mut buffer),
            model = &*self.model,
            upstream = &*self.endpoint().settings.name,
            stream = self.stream,
            tools = self.context.tools.registry.tools().len(),
            tool_choice = self.context.turn.tool_choice.as_str(),
            status = self.outcome.unwrap_or(499),
            verdict,
            attempts = self.attempts.started(),
            repairs = findings.repairs,
            violations = findings.violations.len(),
            total_ms = total.as_millis() as u64,
            upstream_ms = self.upstream_time.as_millis() as u64,
            "exchange {verdict}"
        );
    }

    /// Amending record for a violation found after the first record was handed over, which may be written by now.
    fn amendment(&self, first: &ExchangeRecord, late: Violation) -> ExchangeRecord {
        let late = ExchangeFindings { violations: vec![late], ..ExchangeFindings::default() };
        ExchangeRecord {
            id: Uuid::now_v7(),
            amends: Some(first.id),
            status: self.outcome,
            verdict: self.attempts.findings().verdict(),
            total_us: record_builder::micros(self.started.at.elapsed()),
            attempts: Vec::new(),
            calls: Vec::new(),
            executions: Vec::new(),
            claims: Vec::new(),
            violations: self.notes.violations(&late, &self.worker.app.settings.ledger),
            ..first.clone()
        }
    }

    /// Record of the exchange.
    fn record(&mut self, total: Duration) -> ExchangeRecord {
        let app = &self.worker.app;
        let rules = &self.context.rules;
        let verdict = match self.outcome {
            // What nobody waited for was not judged to its end: it never counts as passed.
            None => self.attempts.findings().verdict().max(Verdict::Warn),
            Some(_) => self.attempts.findings().verdict(),
        };
        let violations = self.notes.violations(self.attempts.findings(), &app.settings.ledger);
        let (attempts, calls) = self.notes.take(&self.context.inquiry.marks());
        let record = ExchangeRecord {
            id: self.context.id,
            amends: None,
            at_ms: self.started.ms,
            api: self.api,
            stream: self.stream,
            observed: self.context.observes(),
            scope: app.recorder.scope(&self.context.scope),
            client: self.who.client.clone(),
            session: self.who.session.clone(),
            policy: rules.digest.get(..16).unwrap_or(&rules.digest).into(),
            model: self.model.as_str().into(),
            status: self.outcome,
            verdict,
            repairs: self.attempts.findings().repairs,
            total_us: record_builder::micros(total),
            upstream_us: record_builder::micros(self.upstream_time),
            attempts,
            calls,
            executions: record_builder::executions(&self.context, &self.fresh, self.api, self.came_ms, &app.settings.ledger),
            claims: record_builder::claims(self.attempts.findings()),
            violations,
        };
        self.end_trace(&record);
        record
    }
}

impl Run {
    /// Sets the headers of a response with this status. An error of the upstream has the verdict `failed`, as in the log and the metrics.
    pub fn mark_passed(&self, headers: &mut HeaderMap, status: StatusCode) {
        self.mark_headers(headers, true);
        if status.as_u16() >= 400 && !self.attempts.findings().blocked {
            headers.insert(VERDICT, HeaderValue::from_static("failed"));
        }
    }

    /// Sets the headers that every enforced response has; verdict and repairs only if they are `known` by now.
    pub fn mark_headers(&self, headers: &mut HeaderMap, known: bool) {
        let mut buffer = Uuid::encode_buffer();
        let id = self.context.id.hyphenated().encode_lower(&mut buffer);
        let mut set = |name, value: Result<HeaderValue, InvalidHeaderValue>| {
            if let Ok(value) = value {
                headers.insert(name, value);
            }
        };
        set(EXCHANGE, HeaderValue::from_str(id));
        match self.attempts.findings().codes()[..] {
            [] => {}
            // The usual case needs no text of its own.
            [only] => set(VIOLATIONS, Ok(HeaderValue::from_static(only.as_str()))),
            ref codes => set(VIOLATIONS, codes.iter().map(|code| code.as_str()).collect::<Vec<_>>().join(",").try_into()),
        }
        if let Some(name) = self.way.answered.as_deref() {
            set(UPSTREAM, HeaderValue::from_str(name));
        }
        if known {
            set(VERDICT, Ok(HeaderValue::from_static(self.attempts.findings().word())));
            let repairs = self.attempts.findings().repairs;
            set(REPAIRS, Ok(if repairs == 0 { HeaderValue::from_static("0") } else { repairs.into() }));
        }
    }
}
