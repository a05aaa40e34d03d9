//! Ledger checks of an exchange: whether a result is the first one recorded for its call, and the session that an execution
//! belongs to. Each has a deadline; a missing reply is a violation of its own, never a pass.

use bytes::Bytes;

use crate::{
    exchange::{
        adapter::{Adapter, WholeAnswer as _},
        answer_error::Fault,
        context::JudgedChoice,
        evidence::trimmed,
    },
    judge::text::LedgerAnswer,
    ledger::{
        execution_cache::{CachedExecution, session_key},
        index::ExecutionKey,
        lookup::LookupUnavailable,
        record::Digest,
        store::FirstResult,
    },
    proxy::exchange::driver::Run,
    translate,
    violation::Code,
};

impl Run {
    /// Compares the results in the request with the first ones recorded, before anything goes upstream.
    pub async fn witness(&mut self) {
        self.witness_from(0).await;
    }

    /// [`Self::witness`] for executions from this index on.
    pub(in crate::proxy) async fn witness_from(&mut self, from: usize) {
        if self.context.executions.len() <= from {
            return;
        }
        let app = self.worker.app.clone();
        let (seen, shared) = (app.recorder.seen(), app.recorder.is_shared());
        let session = session_key(self.who.session.as_deref());
        let (mut rewritten, mut unsure) = (Vec::new(), Vec::new());
        for (at, execution) in self.context.executions.iter().enumerate().skip(from) {
            let Some(key) = ExecutionKey::of(&execution.id) else { continue };
            let entry = CachedExecution { result: Digest(execution.result), session };
            let known = match seen.get(&key) {
                None if !shared && seen.is_new(&key) => seen.first(key, entry),
                None => {
                    unsure.push((at, key, entry));
                    continue;
                }
                known => known,
            };
            match known {
                None => self.fresh.push(at),
                Some(known) if known.result != entry.result => rewritten.push(at),
                Some(_) => {}
            }
        }
        if !unsure.is_empty() {
            self.settle(unsure, &mut rewritten).await;
        }
        let context = self.context.clone();
        let checks = &context.rules.checks;
        for execution in rewritten.into_iter().filter_map(|at| context.executions.get(at)) {
            let tool = &*execution.tool;
            let trimmed = trimmed::content(context.request(), execution.item).is_some_and(|text| trimmed::is_trimmed(&text));
            let violation = if trimmed {
                context.inquiry.trim(&execution.id);
                let message = format!("the result of `{tool}` was taken out of the conversation or cut: it can't be cited any more");
                checks.violation(Code::TrimmedResult, Some(tool), message, "")
            } else {
                let message = format!("the result of `{tool}` isn't the one that was first returned for this call");
                let advice = "send every result back as the tool returned it first, or a placeholder such as `[cleared]` in its place";
                checks.violation(Code::RewrittenResult, Some(tool), message, advice)
            };
            self.attempts.report(violation);
        }
    }

    /// Looks up executions that this process doesn't know in the ledger.
    async fn settle(&mut self, unsure: Vec<(usize, ExecutionKey, CachedExecution)>, rewritten: &mut Vec<usize>) {
        let app = self.worker.app.clone();
        let first = |(_, key, entry): &(usize, ExecutionKey, CachedExecution)| FirstResult {
            key: *key,
            result: entry.result,
            session: self.who.session.clone(),
            recorded: false,
        };
        let answered = app.recorder.lookup().claim(unsure.iter().map(first).collect(), self.worker.app.now_ms()).await;
        let Ok(firsts) = answered else {
            // They are recorded all the same: what is there twice can be told, what is missing can't.
            self.fresh.extend(unsure.iter().map(|(at, ..)| *at));
            return self.unavailable("whether the results are the first ones for their calls");
        };
        for (at, key, entry) in unsure {
            let first = firsts.iter().find(|first| first.key == key);
            let known =
                first.map_or(entry, |first| CachedExecution { result: first.result, session: session_key(first.session.as_deref()) });
            let before = app.recorder.seen().first(key, known);
            if before.unwrap_or(known).result != entry.result {
                rewritten.push(at);
            } else if before.is_none() && first.is_none_or(|first| !first.recorded) {
                self.fresh.push(at);
            }
        }
    }

    fn unavailable(&mut self, what: &str) {
        let checks = &self.context.rules.checks;
        if self.attempts.findings().violations.iter().all(|violation| violation.code != Code::LedgerUnavailable) {
            let message = format!("the ledger didn't say in time {what}");
            let violation = checks.violation(Code::LedgerUnavailable, None, message, "try again in a moment");
            self.attempts.report(violation);
        }
    }

    /// Reads and judges a buffered answer; again with the ledger's replies, if judging asks the ledger.
    ///
    /// # Errors
    /// [`Fault`] if the answer can't be read or judged.
    pub async fn judge_whole<A: Adapter>(&mut self, body: &Bytes) -> Result<(A::Answer, Vec<JudgedChoice>), Fault> {
        let context = self.context.clone();
        loop {
            let (body, stray) = match self.origin() {
                Some(origin) => translate::answer::watched(body, &origin, &context)?,
                None => (body.clone(), false),
            };
            let mut answer = A::Answer::read(body, &context)?;
            if stray {
                answer.note_stray();
            }
            self.judging();
            let judged = answer.judge(&context);
            if !context.inquiry.is_open() {
                return Ok((answer, judged));
            }
            drop(answer);
            self.answer().await;
        }
    }

    /// Looks up the sessions of the executions that the answer cites, as judging has asked.
    pub async fn answer(&self) {
        let app = self.worker.app.clone();
        let asked = self.context.inquiry.asked();
        let own = session_key(self.who.session.as_deref());
        let mut known: Vec<(ExecutionKey, u64)> = Vec::new();
        let mut unknown = Vec::new();
        for key in asked.iter().filter_map(|id| ExecutionKey::of(id)) {
            match app.recorder.seen().get(&key) {
                Some(entry) => known.push((key, entry.session)),
                None => unknown.push(key),
            }
        }
        let mut failed = Ok(());
        if !unknown.is_empty() {
            match app.recorder.lookup().known(unknown, self.worker.app.now_ms()).await {
                Ok(firsts) => known.extend(firsts.iter().map(|first| (first.key, session_key(first.session.as_deref())))),
                Err(LookupUnavailable) => failed = Err(LookupUnavailable),
            }
        }
        self.context.inquiry.answer(|id| {
            let key = ExecutionKey::of(id);
            let found = known.iter().find(|(known, _)| Some(*known) == key);
            LedgerAnswer {
                same_session: own != 0 && found.is_some_and(|(_, session)| *session == own),
                unavailable: found.is_none() && failed.is_err(),
            }
        });
    }
}
