//! Looks up the part of a request's conversation that only its upstream has: in this process's caches, and in the ledger.

use crate::{
    exchange::{
        active_policy::Standard,
        adapter::RequestHead,
        conversation::recalled::{Recalled, Wanted},
    },
    marks::Scope,
    policy::{PolicyMode, Stateful},
    proxy::{
        app::App,
        conversations::{
            cache::Memory,
            owners::{self, UnownedObjects},
            replicated,
        },
        http::failure::Failure,
        upstream::Endpoint,
    },
};

/// What this process knows of a conversation.
pub fn recall(memory: &Memory, scope: &Scope, wanted: Wanted) -> Recalled {
    let Wanted { response, conversation, calls, items } = wanted;
    let by_response = || memory.response(scope, response.as_deref()?);
    let by_conversation = || memory.conversation(scope, conversation.as_deref()?);
    Recalled {
        thread: by_response().or_else(by_conversation),
        calls: calls.into_iter().filter_map(|mark| Some((memory.call(scope, &mark)?, mark))).map(|(call, mark)| (mark, call)).collect(),
        items: items.into_iter().filter_map(|id| Some((memory.item(scope, &id)?, id))).map(|(fate, id)| (id, fate)).collect(),
    }
}

/// Stored state of the conversation that a request goes on from.
///
/// # Errors
/// [`Failure`] if it must be known and isn't, or is another caller's.
pub async fn recall_for<'d>(
    app: &App,
    standard: &Standard,
    scope: &Scope,
    endpoint: &Endpoint,
    head: &impl RequestHead<'d>,
) -> Result<Recalled, Failure> {
    let (named, policy) = (head.named(), &standard.rules.policy);
    let observes = policy.mode == PolicyMode::Observe;
    if named.is_empty() || (!observes && policy.responses.stateful != Stateful::Track) {
        return Ok(Recalled::default());
    }
    let wanted = head.wanted();
    if replicated::load(app, scope, named.clone(), wanted.clone()).await.is_err() {
        tracing::warn!("the ledger didn't say in time what is known of the conversation that a request continues");
    }
    let recalled = recall(&app.memory, scope, wanted);
    if observes && endpoint.opens_everybodys(app.caller_credential()) {
        owners::check(app, scope, &endpoint.settings.name, &named, UnownedObjects::Allowed).await?;
    }
    match head.unknown(&recalled).filter(|_| !observes) {
        Some(refusal) => Err(refusal.into()),
        None => Ok(recalled),
    }
}
