//! What the shell asks of an API's adapter: to read answers, whole and streamed, and to write what leaves.
//!
//! The shell ([`crate::proxy`]) knows no wire form but through these; judging and deciding is common to all
//! ([`super::context`], [`super::decide`]). All of it is pure.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::{
    context::{Context, JudgedChoice},
    decide::Final,
    fault::Fault,
    rounds::RoundForm,
    thread::Memo,
    turn::{EchoedTurn, Said},
};
use crate::wire::{
    json::{JsonError, Value},
    sse::Event,
};

/// An API that is enforced.
pub trait Adapter: RoundForm + Send + Sync + 'static {
    /// Its path below an upstream's base URL, as `/chat/completions`.
    const PATH: &'static str;
    /// Its whole answers.
    type Answer: WholeAnswer + Send;
    /// Its streamed answers.
    type Stream: AnswerStream + Send;

    /// The request for the next attempt. `attempt`: counts from 1, for the ids of echoed calls.
    ///
    /// # Errors
    /// [`JsonError`] where `body` is not the request that was prepared, which can't be.
    fn next_request(body: &Bytes, turn: &EchoedTurn, attempt: u32, context: &Context) -> Result<Bytes, JsonError>;

    /// A whole answer in toolmark's own words.
    fn words(made: &Made<'_>, context: &Context) -> Bytes;
}

/// What an answer in toolmark's own words is made of.
#[derive(Clone, Copy, Debug)]
pub struct Made<'m> {
    /// What it says.
    pub words: &'m str,
    /// The model asked for.
    pub model: &'m str,
    /// Unix seconds.
    pub created: u64,
    /// The verdict: a JSON object.
    pub verdict: &'m str,
}

/// A whole answer.
pub trait WholeAnswer: Sized {
    /// Reads an answer and takes its texts through their gates.
    ///
    /// # Errors
    /// [`Fault`] where it isn't one, or can't be judged.
    fn read(body: Bytes, context: &Context) -> Result<Self, Fault>;
    /// Judges every choice.
    fn judge(&self, context: &Context) -> Vec<JudgedChoice>;
    /// Text beside it was left out before it was read.
    fn note_stray(&mut self) {}
    /// What its choices say, in the order of [`Self::judge`].
    fn said(&self, choice: usize) -> Said;
    /// Its `usage`.
    fn usage(&self) -> Option<Value<'_>>;
    /// The answer as it leaves: every choice as `finals` say, usage added to `earlier`, and the verdict as
    /// a member where there is one. In observe mode the bytes that came.
    fn write(&self, finals: Vec<Final>, context: &Context, earlier: Option<serde_json::Value>, verdict: Option<&str>) -> Written;
}

/// An answer as it leaves, and what is to be remembered of it.
pub struct Written {
    /// What leaves.
    pub body: Bytes,
    /// What is to be remembered.
    pub memo: Option<Memo>,
}

/// Does more come?
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Flow {
    /// Perhaps.
    More,
    /// The answer has ended.
    Done,
}

/// How a stream ends.
pub struct End<'e> {
    /// How its choices end.
    pub finals: Vec<Final>,
    /// The usage of the attempts before.
    pub earlier: Option<serde_json::Value>,
    /// The verdict: a JSON object.
    pub verdict: &'e str,
    /// It is also said as a member of the last event.
    pub as_member: bool,
}

/// One attempt's streamed answer: from the upstream's events to what the application gets.
pub trait AnswerStream: Sized {
    /// For an attempt; `earlier`: that of the attempt before, whose identity goes on.
    fn new(context: Arc<Context>, earlier: Option<&Self>) -> Self;
    /// Takes one event; what may leave is appended to `out`.
    ///
    /// # Errors
    /// [`Fault`]: the stream is to be given up, with an error downstream.
    fn handle(&mut self, event: Event, out: &mut BytesMut) -> Result<Flow, Fault>;
    /// Text beside the answer was left out before it came here.
    fn note_stray(&mut self) {}
    /// No more events: judges every choice.
    ///
    /// # Errors
    /// [`Fault::Cut`] where the answer isn't whole.
    fn conclude(&mut self) -> Result<Vec<JudgedChoice>, Fault>;
    /// What its choices say, in the order of [`Self::conclude`].
    fn said(&self, choice: usize) -> Said;
    /// In observe mode: what came could not be judged.
    fn unjudged(&self) -> bool;
    /// Text has left.
    fn released(&self) -> bool;
    /// The response's id as the application knows it, once it does, where the upstream may keep it.
    fn response_id(&self) -> Option<String> {
        None
    }
    /// Bytes in memory of what it holds.
    fn held_bytes(&self) -> usize;
    /// This attempt's usage, JSON.
    fn usage(&self) -> Option<&str>;
    /// Lets go of the text that is left, but not of the end: what is still to be said about a judged answer that nothing
    /// blocks is waited for without it.
    fn release(&mut self, out: &mut BytesMut);
    /// Lets go of all text that is left, where an accepted attempt is followed by another.
    fn flush(&mut self, out: &mut BytesMut);
    /// Ends the stream, in observe mode without a word.
    fn end(&mut self, end: End<'_>, out: &mut BytesMut) -> Option<Memo>;
    /// Ends the stream in toolmark's own words, where the attempt gave nothing to end it with.
    fn explain(&mut self, made: &Made<'_>, out: &mut BytesMut) -> Option<Memo>;
    /// Ends the stream with an error: OpenAI's envelope, JSON.
    fn fail(&mut self, envelope: &str, out: &mut BytesMut);
}
