//! The second opinion on an answer that cites: which answers get one, and what becomes of its findings.
//!
//! Only a finding that the policy blocks stops or changes an answer.

use crate::{
    claims::rules::ClaimEvidence as _,
    exchange::context::{Context, JudgedChoice},
    judge::verifier::{ShownResult, check, question::VerifierQuestion, undecided::is_undecided},
    proxy::{exchange::clock::ExchangeClock, helper_threads, upstream::verifier::Verifier, worker::Worker},
    settings::VerifyWhen,
    telemetry::metrics::verifier::VerifierOutcome,
    violation::{Code, Severity},
};

/// True if the verifier is to be asked about this answer: a single text that cites something, isn't blocked, and isn't JSON alone.
pub fn is_asked(context: &Context, judged: &[JudgedChoice]) -> bool {
    let [choice] = judged else { return false };
    !choice.citations.is_empty()
        && !choice.turn.has_calls()
        && !choice.blocks()
        && !context.json_only
        && !context.observes()
        && context.choices <= 1
        && context.rules.checks.severity(Code::VerifierContradiction) != Severity::Off
}

/// True if a stream's text must be held until the second opinion.
pub fn holds_text(context: &Context) -> bool {
    context.rules.checks.severity(Code::VerifierContradiction) == Severity::Block
}

/// Gets a second opinion on an answer, and adds its findings to the violations. It never fails, and takes no longer than its deadline.
pub async fn verify(
    verifier: &Verifier,
    worker: &Worker,
    context: &Context,
    clock: &mut ExchangeClock,
    judged: &mut [JudgedChoice],
    answer: String,
) {
    let ([choice], Some(grounds)) = (judged, context.grounds()) else { return };
    let source = |id: &String| {
        let source = grounds.result(id)?;
        Some(ShownResult {
            execution_id: source.execution_id.as_deref()?,
            tool: &source.tool,
            arguments: &source.arguments,
            text: &source.text,
        })
    };
    let results: Vec<ShownResult<'_>> = choice.citations.iter().filter_map(source).collect();
    if results.is_empty() || answer.trim().is_empty() {
        return;
    }
    let (settings, counts) = (verifier.settings(), verifier.counts());
    let question = VerifierQuestion { answer: &answer, results };
    // Of a longer stream not all is kept.
    if question.bytes() > settings.max_bytes || answer.len() >= context.held_bytes_max {
        return counts.count(VerifierOutcome::TooLarge);
    }
    helper_threads::step_for(question.bytes().saturating_mul(2)).await;
    if settings.when == VerifyWhen::Undecided && !is_undecided(&answer, &question.results, &grounds.asked, &choice.of_text) {
        return counts.count(VerifierOutcome::Decided);
    }
    let at = verifier.upstream();
    let upstream = worker.endpoints.get(at).zip(worker.app.standings.get(at));
    clock.start_wait();
    let opinion = verifier.opinion(upstream, worker.app.uptime(), &question).await;
    // It is waited for like an upstream, but is none of the attempts.
    clock.end_wait();
    if let Some(checked) = opinion {
        let checks = &context.rules.checks;
        choice.of_text.extend(check::violations(&checked.findings, &question.results, &settings.model, checks));
    }
}
