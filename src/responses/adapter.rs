//! Adapter of the Responses API for the shell. Pure.

use bytes::Bytes;

use super::{repair, stream::ResponseStream};
use crate::{
    exchange::{
        adapter::{Adapter, Made},
        context::Context,
        turn::EchoedTurn,
    },
    responses::{response::Answer, synthetic},
    wire::json::JsonError,
};

/// `POST /v1/responses`
pub enum Responses {}

impl Adapter for Responses {
    type Answer = Answer;
    type Stream = ResponseStream;

    fn next_request(body: &Bytes, turn: &EchoedTurn, attempt: u32, context: &Context) -> Result<Bytes, JsonError> {
        repair::next_request(body, turn, attempt, context)
    }

    fn words(made: &Made<'_>, context: &Context) -> Bytes {
        synthetic::words(made, context)
    }
}
