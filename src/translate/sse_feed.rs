//! The bytes of one attempt's stream on their way to its judge: cut into events, and translated where the upstream
//! speaks another API.

use bytes::{Bytes, BytesMut};

use crate::{
    exchange::{
        adapter::{AnswerStream, Flow},
        answer_error::Fault,
    },
    translate::answer::stream::StreamTranslator,
    wire::sse::{Event, EventTooLong, Parser},
};

/// What of a stream can't be read.
pub enum Unread {
    /// What it says.
    Fault(Fault),
    /// How it says it.
    TooLong(EventTooLong),
}

/// See the module.
pub struct Reader {
    parser: Parser,
    translator: Option<StreamTranslator>,
    done: bool,
}

impl Reader {
    /// For a stream; `translator`: where it is one of chat completions that stands for another.
    pub fn new(translator: Option<StreamTranslator>) -> Self {
        Self { parser: Parser::default(), translator, done: false }
    }

    /// The answer is whole.
    pub fn done(&self) -> bool {
        self.done
    }

    /// Takes the next bytes; what may leave is appended to `out`.
    ///
    /// # Errors
    /// [`Unread`]: the stream is to be given up.
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

    /// No more bytes come.
    ///
    /// # Errors
    /// As [`Self::handle`].
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
    event: Event,
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

fn pass<S: AnswerStream>(judge: &mut S, event: Event, out: &mut BytesMut, flow: &mut Result<Flow, Fault>) {
    if matches!(flow, Ok(Flow::More)) {
        *flow = judge.handle(event, out);
    }
}
