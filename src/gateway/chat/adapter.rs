//! Adapter of chat completions for the shell. Pure.

use bytes::Bytes;

use super::{
    repair,
    request::{self, Head},
    stream::ChatStream,
};
use crate::{
    chat::completion::ChatCompletion,
    exchange::context::WordsMember,
    exchange::{
        adapter::{Adapter, Made, WholeConversation},
        context::{Basis, Begun, Context},
        conversation::recalled::Recalled,
        error::Refusal,
        turn::EchoedTurn,
    },
    wire::json::{Document, JsonError, string::quote},
};

/// `POST /v1/chat/completions`
pub enum Chat {}

impl Adapter for Chat {
    type Answer = ChatCompletion;
    type Stream = ChatStream;

    fn next_request(body: &Bytes, turn: &EchoedTurn, attempt: u32, _: &Context) -> Result<Bytes, JsonError> {
        repair::next_request(body, turn, attempt)
    }

    fn words(made: &Made<'_>, context: &Context) -> Bytes {
        let (id, created, model, quoted) = (context.id.simple(), made.created, quote(made.model), quote(made.words));
        let (content, refusal) = match context.words_member() {
            WordsMember::Content => (&*quoted, "null"),
            WordsMember::Refusal => ("null", &*quoted),
        };
        let message = format!(r#"{{"role":"assistant","content":{content},"refusal":{refusal}}}"#);
        let choice = format!(r#"{{"index":0,"message":{message},"logprobs":null,"finish_reason":"stop"}}"#);
        let head = format!(r#"{{"id":"chatcmpl-{id}","object":"chat.completion","created":{created},"model":{model}"#);
        format!(r#"{head},"choices":[{choice}],"toolmark":{}}}"#, made.verdict).into()
    }
}

impl WholeConversation for Chat {
    /// `messages[].tool_calls[].function.arguments`
    const DEPTH_NOTED: usize = 6;
    type Head<'d> = Head<'d>;

    fn begin(document: &Document, head: &Head<'_>, _recalled: &Recalled, basis: Basis<'_>) -> Result<Begun, Refusal> {
        request::begin(document, head, basis)
    }
}
