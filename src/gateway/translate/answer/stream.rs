//! Translates a stream, event by event.
//!
//! ```text
//!  event ─▶ errors, usage ─▶ texts leave at once ([`crate::translate::answer`]: the writers)
//!                       └──▶ calls are assembled
//!  the end ─▶ calls, then the last events
//! ```
//! Sans-IO. The terminal event waits for the end of the stream, because usage comes last.

use std::sync::Arc;

use bytes::Bytes;

use super::{
    AnswerEnd, Origin, TranslateFault,
    chat_message::{self, MessageKind},
    from_chat::{self, SEVERAL},
    from_messages::{EventEffect, MessageStreamReader},
    usage::TokenUsage,
    writer::AnswerWriter,
};
use crate::{
    chat::{
        assembler::{AssembleError, Assembler},
        places,
        stream::chunk::{DeltaSpeech, delta_of, finish_of, has_calls},
    },
    exchange::{context::Context, text::place::is_nothing},
    translate::UpstreamForm,
    wire::{
        json::{Document, Value},
        sse::{KEEP_ALIVE, SseEvent},
    },
};

/// Translator of one stream.
pub struct StreamTranslator {
    origin: Origin,
    output: AnswerWriter,
    reader: StreamReader,
    done: bool,
    /// Context for judging text outside the answer.
    context: Option<Arc<Context>>,
    stray: bool,
}

/// Reader, by the upstream's API.
enum StreamReader {
    Chat(ChatStreamReader),
    Messages(MessageStreamReader),
}

impl StreamTranslator {
    /// `held_bytes_max`: limit for one call's arguments, in bytes.
    pub fn new(origin: Origin, held_bytes_max: usize) -> Self {
        let output = AnswerWriter::new(&origin, MessageKind::Delta);
        let reader = match origin.translation.upstream {
            UpstreamForm::Chat => StreamReader::Chat(ChatStreamReader::new(held_bytes_max)),
            UpstreamForm::Messages => StreamReader::Messages(MessageStreamReader::new(held_bytes_max)),
        };
        Self { origin, output, reader, done: false, context: None, stray: false }
    }

    /// Also records text outside the answer that was left out.
    #[must_use]
    pub fn watched(self, context: Arc<Context>) -> Self {
        Self { context: Some(context), ..self }
    }

    /// True if text outside the answer was left out that isn't a copy of it.
    pub fn stray(&self) -> bool {
        self.stray
    }

    /// Handles one event of the upstream's stream; passes the application's events to `each`.
    ///
    /// # Errors
    /// [`TranslateFault`]: the stream must be aborted, with an error downstream.
    pub fn handle(&mut self, event: SseEvent, each: &mut dyn FnMut(SseEvent)) -> Result<(), TranslateFault> {
        if self.done {
            return Ok(());
        }
        let Some(data) = event.data.clone() else {
            // Comments keep connections alive.
            if event.is_comment() {
                each(event);
            }
            return Ok(());
        };
        let trimmed = data.trim_ascii();
        if trimmed.is_empty() {
            return Ok(());
        }
        if trimmed == b"[DONE]" {
            return match self.reader {
                StreamReader::Chat(_) => self.conclude(each),
                // It isn't Anthropic's, and says nothing.
                StreamReader::Messages(_) => Ok(()),
            };
        }
        let document = Document::parse(data)?;
        if event.name.as_deref() == Some(b"error") {
            return Err(TranslateFault::Reported(document.root().raw_str().to_owned()));
        }
        let Self { origin, output, reader, context, stray, .. } = self;
        match reader {
            StreamReader::Chat(reader) => {
                if reader.handle(&document, &event, origin, output, each)?
                    && let Some(context) = context.as_ref().filter(|_| !*stray)
                {
                    *stray = places::swept_event(document.clone(), context).is_ok_and(|(_, stray)| stray);
                }
                Ok(())
            }
            StreamReader::Messages(reader) => {
                if document.root().get("type").is_some_and(|kind| kind.is_text("ping")) {
                    let raw = Bytes::from_static(KEEP_ALIVE);
                    each(SseEvent { raw, data: None, name: None, plain: false });
                    return Ok(());
                }
                match reader.handle(&document, origin, output, each)? {
                    EventEffect::More => Ok(()),
                    EventEffect::Done => self.conclude(each),
                }
            }
        }
    }

    /// Writes the last events at the end of the stream, unless its last event did so already.
    ///
    /// # Errors
    /// [`TranslateFault::Cut`] if the answer is incomplete.
    pub fn finish(&mut self, each: &mut dyn FnMut(SseEvent)) -> Result<(), TranslateFault> {
        let may_end = match &self.reader {
            StreamReader::Chat(reader) => reader.finish_reason.is_some(),
            StreamReader::Messages(reader) => reader.may_end(),
        };
        match (self.done, may_end) {
            (true, _) => Ok(()),
            (false, false) => Err(TranslateFault::Cut),
            (false, true) => self.conclude(each),
        }
    }

    fn conclude(&mut self, each: &mut dyn FnMut(SseEvent)) -> Result<(), TranslateFault> {
        let end = match &mut self.reader {
            StreamReader::Chat(reader) => reader.end(&self.origin),
            StreamReader::Messages(reader) => reader.end(&self.origin),
        }?;
        self.done = true;
        self.output.end(&end, &self.origin, each)
    }
}

/// Reader of one chat stream.
struct ChatStreamReader {
    assembler: Assembler,
    /// The events that begin an answer were sent.
    begun: bool,
    /// A choice has arrived.
    spoken: bool,
    /// There were calls outside the deltas.
    copied_calls: bool,
    /// Content of the deltas so far.
    deltas: DeltaSpeech,
    finish_reason: Option<String>,
    usage: Option<TokenUsage>,
    model: Option<String>,
}

impl ChatStreamReader {
    fn new(held_bytes_max: usize) -> Self {
        let assembler = Assembler::new(held_bytes_max);
        Self {
            assembler,
            begun: false,
            spoken: false,
            copied_calls: false,
            deltas: DeltaSpeech::default(),
            finish_reason: None,
            usage: None,
            model: None,
        }
    }

    /// Handles one event. True if it belongs to the answer.
    fn handle(
        &mut self,
        document: &Document,
        event: &SseEvent,
        origin: &Origin,
        output: &mut AnswerWriter,
        each: &mut dyn FnMut(SseEvent),
    ) -> Result<bool, TranslateFault> {
        let rest = self.deltas.without_copies(document);
        let root = rest.as_ref().unwrap_or(document).root();
        from_chat::check_root(root)?;
        let mut choices = root.get("choices").into_iter().flat_map(Value::items);
        let choice = choices.next();
        if choices.next().is_some() {
            return Err(TranslateFault::Unknown(SEVERAL));
        }
        if choice.is_none() && !choiceless(root, event)? {
            return Ok(false);
        }
        self.usage = from_chat::usage_of(root).or(self.usage.take());
        self.model = from_chat::model_of(root).or(self.model.take());
        if !std::mem::replace(&mut self.begun, true) {
            output.begin(self.model.as_deref(), origin, each);
        }
        choice.map_or(Ok(()), |choice| self.choice(choice, origin, output, each))?;
        Ok(true)
    }

    fn choice(
        &mut self,
        choice: Value<'_>,
        origin: &Origin,
        output: &mut AnswerWriter,
        each: &mut dyn FnMut(SseEvent),
    ) -> Result<(), TranslateFault> {
        from_chat::check_choice(choice, &places::CHOICE_OF_EVENT, None)?;
        self.spoken = true;
        if let Some(delta) = delta_of(choice) {
            if !delta.is_object() && !is_nothing(delta) {
                return Err(AssembleError::Text.into());
            }
            for (kind, text) in chat_message::read(delta, MessageKind::Delta, &mut self.assembler, |name| origin.knows(name))? {
                output.piece(kind, &text, each)?;
            }
        }
        if let (Some(_), Some(message)) = (choice.get_some("delta"), choice.get_some("message")) {
            self.repeated(message)?;
        }
        self.finish_reason = finish_of(choice).or(self.finish_reason.take());
        Ok(())
    }

    /// Handles Perplexity's `message`, which repeats the deltas so far: it is left out.
    fn repeated(&mut self, message: Value<'_>) -> Result<(), TranslateFault> {
        places::check_copy(message)?;
        self.copied_calls |= has_calls(message);
        Ok(())
    }

    fn end(&mut self, origin: &Origin) -> Result<AnswerEnd, TranslateFault> {
        if !self.spoken {
            return Err(TranslateFault::Cut);
        }
        if self.copied_calls && self.assembler.slots().is_empty() {
            return Err(TranslateFault::Unknown("a choice whose calls stand beside its deltas only"));
        }
        from_chat::end(&self.assembler, self.finish_reason.as_deref(), self.usage.take(), self.model.take(), origin)
    }
}

/// True if an event without choices belongs to the answer.
fn choiceless(root: Value<'_>, event: &SseEvent) -> Result<bool, TranslateFault> {
    let flat_error = root.get("choices").is_none() && root.get("message").is_some();
    if flat_error && (root.get("code").is_some() || root.get("type").is_some()) {
        return Err(TranslateFault::Reported(root.raw_str().to_owned()));
    }
    // `event: ping` and the like.
    Ok(root.get("choices").is_some() || event.name.is_none() || root.get_some("usage").is_some())
}

#[cfg(test)]
#[path = "stream_tests.rs"]
pub(crate) mod tests;
