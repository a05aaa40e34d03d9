//! Feeds the bytes of one attempt's stream to its judge: parsed into events, and translated if the upstream speaks another API.

use bytes::{Bytes, BytesMut};

use crate::{
    exchange::{
        adapter::{AnswerStream, Flow},
        error::Fault,
    },
    translate::answer::stream::StreamTranslator,
    wire::sse::{EventTooLong, SseEvent, SseParser},
};

/// Error of a stream that can't be read.
pub enum Unread {
    /// An event's content can't be judged.
    Fault(Fault),
    /// An event is too long.
    TooLong(EventTooLong),
}

/// Parser, optional translator, and end of one attempt's stream.
pub struct Reader {
    parser: SseParser,
    translator: Option<StreamTranslator>,
    done: bool,
}

impl Reader {
    /// Reader of a stream. `translator`: for chat completions that are read as the Responses API.
    pub fn new(translator: Option<StreamTranslator>) -> Self {
        Self { parser: SseParser::default(), translator, done: false }
    }

    /// True if the answer is complete.
    pub fn done(&self) -> bool {
        self.done
    }

    /// Processes the next bytes; text that may be sent is appended to `out`.
    ///
    /// # Errors
    /// [`Unread`] if the stream can't be continued.
    pub fn handle<S: AnswerStream>(&mut self, chunk: Bytes, judge: &mut S, out: &mut BytesMut) -> Result<(), Unread> {
        let Self { parser, translator, done } = self;
        let mut fault = None;
        let fed = parser.handle(chunk, |event| {
            if !*done && fault.is_none() {
                match take(judge, translator, event, out) {
                    Ok(flow) => *done = flow == Flow::Done,
                    Err(error) => fault = Some(error),
                }
            }
        });
        match fault {
            Some(fault) => Err(Unread::Fault(fault)),
            None => fed.map_err(Unread::TooLong),
        }
    }

    /// Ends the stream.
    ///
    /// # Errors
    /// [`Fault`] if the rest can't be judged.
    pub fn finish<S: AnswerStream>(self, judge: &mut S, out: &mut BytesMut) -> Result<(), Fault> {
        let Self { parser, mut translator, mut done } = self;
        if !done && let Some(event) = parser.finish() {
            done = take(judge, &mut translator, event, out)? == Flow::Done;
        }
        let Some(mut translator) = translator.filter(|_| !done) else { return Ok(()) };
        let mut flow = Ok(Flow::More);
        let ended = translator.finish(&mut |event| pass(judge, event, out, &mut flow));
        flow.and(ended)
    }
}

fn take<S: AnswerStream>(
    judge: &mut S,
    translator: &mut Option<StreamTranslator>,
    event: SseEvent,
    out: &mut BytesMut,
) -> Result<Flow, Fault> {
    let Some(translator) = translator else { return judge.handle(event, out) };
    let mut flow = Ok(Flow::More);
    let translated = translator.handle(event, &mut |event| pass(judge, event, out, &mut flow));
    if translator.stray() {
        judge.note_stray();
    }
    translated.and(flow)
}

fn pass<S: AnswerStream>(judge: &mut S, event: SseEvent, out: &mut BytesMut, flow: &mut Result<Flow, Fault>) {
    if matches!(flow, Ok(Flow::More)) {
        *flow = judge.handle(event, out);
    }
}
