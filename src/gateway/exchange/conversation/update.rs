//! Conversation update after an exchange, where the upstream stores the conversation. Pure.
//!
//! The next request may contain none of the conversation. By then, toolmark must know the evidence of this exchange, and the
//! calls that were passed on.

use super::{KnownCall, Memo, Thread, kept_arguments};
use crate::{
    exchange::{context::Context, evidence::material},
    judge::{call::ValidCall, history::calls::call_digest},
    marks::MarkTime,
};

/// A call that was passed on, by its mark. `upstream_id`: the upstream's id of the call, if it has one.
pub fn known_call(mark: &str, upstream_id: &str, call: &ValidCall, moment: MarkTime) -> (String, KnownCall) {
    // Without an id of its own the call has its mark upstream too.
    let upstream_id = if upstream_id.is_empty() { mark } else { upstream_id };
    let (digest, arguments) = (call_digest(call.name(), call.arguments()), kept_arguments(call.arguments()));
    let (upstream_id, tool) = (upstream_id.into(), call.name().into());
    (mark.to_owned(), KnownCall { upstream_id, tool, moment, digest, arguments, read_by_code: false })
}

/// Update for an exchange that ends with the response of this ID, as the application has it, in this conversation.
pub fn memo_of(context: &Context, response_id: Option<&str>, conversation: Option<String>, calls: Vec<(String, KnownCall)>) -> Memo {
    let hidden = &context.hidden;
    let earlier = hidden.earlier.as_deref().cloned().unwrap_or_default();
    // The request has paid what was owed before, and an id of another response is none of this one's.
    let mut thread = Thread { owed: Vec::new(), upstream_id: None, ..earlier };
    thread.incomplete |= hidden.unseen;
    thread.unseen_results = material::ran_hosted(context);
    let mut thread = thread.with(&context.executions, &context.succeeded, &hidden.tools, context.data());
    thread.follow(&context.loops.trail);
    let has_results = material::prove(context, &mut thread);
    // Of what isn't the model's, the tools come last, and before them what the user said; where there are results they know it.
    let tools = usize::from(context.request().root().get_some("tools").is_some());
    let asked = context.data().iter().rev().nth(tools).filter(|_| hidden.spoke && !has_results);
    thread.hear(calls.iter().map(|(_, call)| call.arguments.clone()), asked.map(String::as_str));
    let response_id = response_id.filter(|id| !id.is_empty());
    if let Some(id) = response_id {
        thread.answer(id);
    }
    let responses = response_id.filter(|_| hidden.store).map(str::to_owned).into_iter().collect();
    Memo { responses, conversation, thread, calls, items: Vec::new(), left: None }
}
