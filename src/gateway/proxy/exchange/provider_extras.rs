//! Provider extras of calls (reasoning, thought signatures) are cached by mark, because frameworks drop members that they don't know.
//!
//! Cached in this process, bounded, by scope, and in the ledger ([`crate::proxy::conversations::replicated`]); for calls that are
//! in neither, requests are converted instead ([`crate::upstreams::quirks`]).

use std::sync::Arc;

use crate::{
    exchange::{context::Context, decision::ChoiceOutcome, turn::Said},
    proxy::{
        app::App,
        conversations::replicated::{self, KvEntry},
        upstream::Endpoint,
    },
    upstreams::quirks::ProviderExtras,
};

/// Maximum bytes of the reasoning before one turn's calls.
const REASONING_BYTES_MAX: usize = 256 << 10;
/// Maximum bytes of one call's `extra_content`.
const EXTRA_BYTES_MAX: usize = 64 << 10;

/// Caches the provider extras of calls that are passed on. `said`: the content of a choice. Returns their rows for the ledger.
#[must_use]
pub fn keep(app: &App, endpoint: &Endpoint, context: &Context, finals: &[ChoiceOutcome], said: impl Fn(usize) -> Said) -> Vec<KvEntry> {
    let put_back = endpoint.settings.fitting.put_back;
    let mut rows = Vec::new();
    if put_back.is_nothing() || context.observes() {
        return rows;
    }
    for (at, ending) in finals.iter().enumerate() {
        let ChoiceOutcome::Accept(calls) = ending else { continue };
        if calls.is_empty() {
            continue;
        }
        let Said { reasoning, calls: came, .. } = said(at);
        let thought = put_back.reasoning && !reasoning.is_empty() && reasoning.len() <= REASONING_BYTES_MAX;
        let reasoning: Option<Arc<str>> = thought.then(|| reasoning.into());
        for ((call, moment), (_, extras)) in calls.iter().zip(came) {
            let extra = extras.iter().find_map(|extra| extra.strip_prefix("\"extra_content\":"));
            let extra_content = extra.filter(|extra| put_back.signatures && extra.len() <= EXTRA_BYTES_MAX).map(Box::from);
            if extra_content.is_some() || reasoning.is_some() {
                let mark = context.mint(call.name(), call.arguments(), *moment);
                let kept = ProviderExtras { extra_content, reasoning: reasoning.clone() };
                if app.recorder.shelf().is_lasting() {
                    rows.push(replicated::extras_row(&context.scope, &mark, &kept));
                }
                app.memory.keep_beside(&context.scope, &mark, kept);
            }
        }
    }
    rows
}
