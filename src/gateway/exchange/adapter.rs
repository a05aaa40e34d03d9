//! Interface between the shell and an API's adapter: reading answers, buffered and streamed, and writing responses.
//!
//! The shell (`proxy/`) knows no wire form but through these; judging and deciding is common to all
//! ([`super::context`], [`crate::exchange::decision`]). All of it is pure.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::{
    context::{Basis, Begun, Context, JudgedChoice},
    turn::{EchoedTurn, Said},
};
use crate::{
    exchange::{
        conversation::{
            Memo, RejectedUpdate,
            recalled::{NamedObject, Recalled, Wanted},
        },
        decision::ChoiceOutcome,
        error::{Fault, Refusal},
        hidden_turns::RoundForm,
        loop_guard::AttemptInputs,
        tool_set::Brought,
    },
    wire::{
        json::{Document, JsonError, Value},
        sse::{self, SseEvent},
    },
};

/// An enforced API: its adapter.
pub trait Adapter: RoundForm + Send + Sync + 'static {
    /// Its whole answers.
    type Answer: WholeAnswer + Send;
    /// Its streamed answers.
    type Stream: AnswerStream + Send;

    /// Builds the request for the next attempt. `attempt` counts from 1 and is used in the ids of echoed calls.
    ///
    /// # Errors
    /// [`JsonError`] if `body` isn't the prepared request, which can't happen.
    fn next_request(body: &Bytes, turn: &EchoedTurn, attempt: u32, context: &Context) -> Result<Bytes, JsonError>;

    /// Effect of a rejected turn on the conversation; none where upstreams store no conversations.
    fn rejected(_context: &Context, _turn: &EchoedTurn) -> RejectedUpdate {
        RejectedUpdate::default()
    }

    /// Builds a complete answer that contains toolmark's own text.
    fn words(made: &Made<'_>, context: &Context) -> Bytes;
}

/// Members of a request that are read before an upstream is chosen.
pub trait RequestHead<'d>: Sized + Send + Sync {
    /// Reads them.
    ///
    /// # Errors
    /// [`Refusal`] for members of the wrong type, and for two members of the same name where it matters.
    fn read(document: &'d Document) -> Result<Self, Refusal>;
    /// The model requested; empty if the request has none.
    fn model(&self) -> &str;
    /// True if server-sent events are requested.
    fn streams(&self) -> bool;
    /// Number of choices requested.
    fn choices(&self) -> u64;
    /// Definitions of tools outside the request's array of tools, each an array: JSON.
    fn further_tools(&self) -> Vec<Arc<str>> {
        Vec::new()
    }
    /// The request's tools. `further`: further arrays of tools.
    fn brought<'x>(&'x self, further: &'x [Arc<str>]) -> Brought<'x>;
    /// Objects that the upstream stores and the request names.
    fn named(&self) -> Vec<NamedObject> {
        Vec::new()
    }
    /// Keys of what must be known of the conversation before the request can be prepared.
    fn wanted(&self) -> Wanted {
        Wanted::default()
    }
    /// Error for a request that goes on from a part of its conversation that only the upstream has, if that part isn't known.
    fn unknown(&self, _recalled: &Recalled) -> Option<Refusal> {
        None
    }
}

/// An API whose requests contain the whole conversation.
pub trait WholeConversation: Adapter {
    /// Depth to which a request is indexed.
    const DEPTH_NOTED: usize;
    /// Members of a request that are read first.
    type Head<'d>: RequestHead<'d>;

    /// Verifies the history, prepares the request, and starts its exchange. `recalled`: stored state of its conversation.
    ///
    /// # Errors
    /// [`Refusal`] for a shape that can't be judged.
    fn begin(document: &Document, head: &Self::Head<'_>, recalled: &Recalled, basis: Basis<'_>) -> Result<Begun, Refusal>;
}

/// Contents of an answer in toolmark's own words.
#[derive(Clone, Copy, Debug)]
pub struct Made<'m> {
    /// Text of the answer.
    pub words: &'m str,
    /// The model asked for.
    pub model: &'m str,
    /// Unix seconds.
    pub created: u64,
    /// The verdict: a JSON object.
    pub verdict: &'m str,
}

/// A buffered (non-streamed) answer.
pub trait WholeAnswer: Sized {
    /// Reads an answer and feeds its texts through their gates.
    ///
    /// # Errors
    /// [`Fault`] if it isn't an answer, or can't be judged.
    fn read(body: Bytes, context: &Context) -> Result<Self, Fault>;
    /// Judges every choice.
    fn judge(&self, context: &Context, inputs: AttemptInputs) -> Vec<JudgedChoice>;
    /// Records that text outside the answer was left out before the answer was read.
    fn note_stray(&mut self) {}
    /// The model's turn in one choice; `choice` is an index into the result of [`Self::judge`].
    fn said(&self, choice: usize) -> Said;
    /// Its `usage`.
    fn usage(&self) -> Option<Value<'_>>;
    /// The answer to send: every choice as in `finals`, usage added to `earlier`, and the verdict as a member if given.
    /// In observe mode, the upstream's bytes.
    fn write(&self, finals: Vec<ChoiceOutcome>, context: &Context, earlier: Option<serde_json::Value>, verdict: Option<&str>) -> Written;
}

/// An answer to send, with the conversation update to store.
pub struct Written {
    /// Body of the answer.
    pub body: Bytes,
    /// Conversation update to store, if any.
    pub memo: Option<Memo>,
}

/// State of a stream after an event.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Flow {
    /// More events may follow.
    More,
    /// The answer has ended.
    Done,
}

/// Outcome with which a stream ends.
pub struct End<'e> {
    /// Outcome of each choice.
    pub finals: Vec<ChoiceOutcome>,
    /// Summed usage of the earlier attempts.
    pub earlier: Option<serde_json::Value>,
    /// The verdict: a JSON object.
    pub verdict: &'e str,
    /// The verdict is also written as a member of the last event.
    pub as_member: bool,
}

/// One attempt's streamed answer: from the upstream's events to what the application gets.
pub trait AnswerStream: Sized {
    /// Starts an attempt. `earlier` is the previous attempt's stream, whose identity (id, created, model) is kept.
    fn new(context: Arc<Context>, earlier: Option<&Self>) -> Self;
    /// Handles one event; what may be released is appended to `out`.
    ///
    /// # Errors
    /// [`Fault`]: the stream must be aborted, with an error downstream.
    fn handle(&mut self, event: SseEvent, out: &mut BytesMut) -> Result<Flow, Fault>;
    /// Records that text outside the answer was left out before the events arrived here.
    fn note_stray(&mut self) {}
    /// Judges every choice after the last event.
    ///
    /// # Errors
    /// [`Fault::Cut`] if the answer is incomplete.
    fn conclude(&mut self, inputs: AttemptInputs) -> Result<Vec<JudgedChoice>, Fault>;
    /// The model's turn in one choice; `choice` is an index into the result of [`Self::conclude`].
    fn said(&self, choice: usize) -> Said;
    /// True in observe mode if the answer could not be judged.
    fn unjudged(&self) -> bool;
    /// True if text has been released to the application.
    fn released(&self) -> bool;
    /// The response's id as sent to the application, once known, if the upstream may store the response.
    fn response_id(&self) -> Option<String> {
        None
    }
    /// Memory held by the stream, in bytes.
    fn held_bytes(&self) -> usize;
    /// This attempt's usage, JSON.
    fn usage(&self) -> Option<&str>;
    /// Releases the remaining text, but not the end of the answer. Used while the verdict on an answer that nothing
    /// blocks is still pending.
    fn release(&mut self, out: &mut BytesMut);
    /// Releases all remaining text; used if another attempt follows an accepted one.
    fn flush(&mut self, out: &mut BytesMut);
    /// Ends the stream; in observe mode nothing is added.
    fn end(&mut self, end: End<'_>, out: &mut BytesMut) -> Option<Memo>;
    /// Ends the stream with toolmark's own text, if the attempt gave nothing to end it with.
    fn explain(&mut self, made: &Made<'_>, out: &mut BytesMut) -> Option<Memo>;
    /// Shows a client that waits that the answer goes on: by an event that says nothing, where the API has one, as some clients count only
    /// events; else by a comment.
    fn keep_alive(&self, out: &mut BytesMut) {
        sse::keep_alive(out);
    }
    /// Ends the stream with an error: OpenAI's envelope, JSON.
    fn fail(&mut self, envelope: &str, out: &mut BytesMut);
}
