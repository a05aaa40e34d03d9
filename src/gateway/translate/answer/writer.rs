//! The writer of a translated answer, by the application's API.

use super::{
    AnswerEnd, Origin, PartKind, TranslateFault, chat_message::MessageKind, to_chat::ChatWriter, to_messages::MessageWriter,
    to_responses::ResponseWriter,
};
use crate::{openai::Api, wire::sse::SseEvent};

/// Writer of one answer.
pub(super) enum AnswerWriter {
    Chat(ChatWriter),
    Responses(ResponseWriter),
    Messages(MessageWriter),
}

impl AnswerWriter {
    /// Events are written for deltas only.
    pub(super) fn new(origin: &Origin, form: MessageKind) -> Self {
        match origin.translation.downstream {
            Api::Chat => Self::Chat(ChatWriter::new(origin, form)),
            Api::Responses => Self::Responses(ResponseWriter::new(&origin.id, form)),
            Api::Messages => Self::Messages(MessageWriter::new(origin, form)),
        }
    }

    /// Writes the events that begin an answer. `model`: as in the answer.
    pub(super) fn begin(&mut self, model: Option<&str>, origin: &Origin, each: &mut dyn FnMut(SseEvent)) {
        match self {
            Self::Chat(writer) => writer.begin(model, each),
            Self::Responses(writer) => writer.begin(model, origin, each),
            Self::Messages(writer) => writer.begin(model, origin, each),
        }
    }

    /// Adds a piece of text.
    ///
    /// # Errors
    /// [`TranslateFault::Unknown`] if the answer is too long.
    pub(super) fn piece(&mut self, kind: PartKind, text: &str, each: &mut dyn FnMut(SseEvent)) -> Result<(), TranslateFault> {
        match self {
            Self::Chat(writer) => writer.piece(kind, text, each),
            Self::Responses(writer) => writer.piece(kind, text, each),
            Self::Messages(writer) => writer.piece(kind, text, each),
        }
    }

    /// Ends the answer: writes the calls and the last event.
    ///
    /// # Errors
    /// [`TranslateFault::Unknown`] for a call that can't be written unchanged.
    pub(super) fn end(&mut self, end: &AnswerEnd, origin: &Origin, each: &mut dyn FnMut(SseEvent)) -> Result<(), TranslateFault> {
        match self {
            Self::Chat(writer) => writer.end(end, each),
            Self::Responses(writer) => writer.end(end, origin, each),
            Self::Messages(writer) => writer.end(end, each),
        }
    }

    /// The whole answer, JSON, after [`Self::end`].
    pub(super) fn whole(&self, end: &AnswerEnd, origin: &Origin) -> String {
        match self {
            Self::Chat(writer) => writer.whole(end),
            Self::Responses(writer) => writer.whole(end, origin),
            Self::Messages(writer) => writer.whole(end, origin),
        }
    }
}
