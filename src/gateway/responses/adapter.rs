//! Adapter of the Responses API for the shell. Pure.

use bytes::Bytes;

use super::{conversation_update, repair, stream::ResponseStream};
use crate::{
    exchange::{
        adapter::{Adapter, Made},
        context::Context,
        conversation::RejectedUpdate,
        turn::EchoedTurn,
    },
    responses::{response::BufferedResponse, synthetic},
    wire::json::JsonError,
};

/// `POST /v1/responses`
pub enum Responses {}

impl Adapter for Responses {
    type Answer = BufferedResponse;
    type Stream = ResponseStream;

    fn next_request(body: &Bytes, turn: &EchoedTurn, attempt: u32, context: &Context) -> Result<Bytes, JsonError> {
        repair::next_request(body, turn, attempt, context)
    }

    fn rejected(context: &Context, turn: &EchoedTurn) -> RejectedUpdate {
        RejectedUpdate { items: conversation_update::dropped(context, turn), unanswered: conversation_update::unanswered(context, turn) }
    }

    fn words(made: &Made<'_>, context: &Context) -> Bytes {
        synthetic::words(made, context)
    }
}
