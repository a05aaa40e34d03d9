//! Adapter of Anthropic's Messages API for the shell. Pure.

use bytes::Bytes;

use super::{
    repair,
    request::{self, Head},
    response::{MessagesAnswer, Words},
    stream::MessagesStream,
};
use crate::{
    exchange::{
        adapter::{Adapter, Made, WholeConversation},
        context::{Basis, Begun, Context},
        conversation::recalled::Recalled,
        error::Refusal,
        turn::EchoedTurn,
    },
    wire::json::{Document, JsonError, string::quote},
};

/// `POST /v1/messages`
pub enum Messages {}

impl Adapter for Messages {
    type Answer = MessagesAnswer;
    type Stream = MessagesStream;

    fn next_request(body: &Bytes, turn: &EchoedTurn, attempt: u32, _: &Context) -> Result<Bytes, JsonError> {
        repair::next_request(body, turn, attempt)
    }

    fn words(made: &Made<'_>, context: &Context) -> Bytes {
        let words = Words::new(made.words, context);
        let (id, model, details) = (context.id.simple(), quote(made.model), words.stop_details());
        let head = format!(r#"{{"id":"msg_{id}","type":"message","role":"assistant","model":{model},"content":[{}]"#, words.blocks());
        let stop = format!(r#""stop_reason":"{}","stop_sequence":null,"stop_details":{details}"#, words.stop_reason());
        format!(r#"{head},{stop},"usage":{{"input_tokens":0,"output_tokens":0}},"toolmark":{}}}"#, made.verdict).into()
    }
}

impl WholeConversation for Messages {
    /// `messages[].content[].content[].text`, and the inputs of calls.
    const DEPTH_NOTED: usize = 8;
    type Head<'d> = Head<'d>;

    fn begin(document: &Document, head: &Head<'_>, recalled: &Recalled, basis: Basis<'_>) -> Result<Begun, Refusal> {
        request::begin(document, head, recalled, basis)
    }
}
