//! Translates a chat stream to a Responses stream, event by event.
//!
//! ```text
//!  event ─▶ errors, usage ─▶ delta ─▶ texts leave at once ([`crate::translate::answer::writer`])
//!                                └──▶ calls are assembled
//!  [DONE] or the end ─▶ calls, then `response.completed` or `response.incomplete`
//! ```
//! Sans-IO. The terminal event waits for the end of the stream, because usage comes last.

use std::sync::Arc;

use super::message::{self, MessageKind};
use crate::{
    chat::{
        assembler::{AssembleError, Assembler},
        places,
        stream::chunk::{delta_of, finish_of},
    },
    exchange::{context::Context, text::place::is_nothing},
    translate::answer::{
        self, Origin, SEVERAL, TranslateFault,
        writer::{AnswerEnding, ResponseWriter},
    },
    wire::{
        json::{Document, Value},
        sse::SseEvent,
    },
};

/// Translator of one chat stream.
pub struct StreamTranslator {
    origin: Origin,
    output: ResponseWriter,
    assembler: Assembler,
    /// The events that begin an answer were sent.
    begun: bool,
    /// A choice has arrived.
    spoken: bool,
    /// There were calls outside the deltas.
    copied_calls: bool,
    finish_reason: Option<String>,
    /// For the response object, JSON.
    usage: Option<String>,
    model: Option<String>,
    done: bool,
    /// Context for judging text outside the answer.
    context: Option<Arc<Context>>,
    stray: bool,
}

impl StreamTranslator {
    /// `held_bytes_max`: limit for one call's arguments, in bytes.
    pub fn new(origin: Origin, held_bytes_max: usize) -> Self {
        let output = ResponseWriter::new(&origin.id, MessageKind::Delta);
        let assembler = Assembler::new(held_bytes_max);
        Self {
            origin,
            output,
            assembler,
            begun: false,
            spoken: false,
            copied_calls: false,
            finish_reason: None,
            usage: None,
            model: None,
            done: false,
            context: None,
            stray: false,
        }
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

    /// Handles one event of the chat stream; passes Responses events to `each`.
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
            return self.conclude(each);
        }
        let document = Document::parse(data)?;
        let root = document.root();
        if event.name.as_deref() == Some(b"error") {
            return Err(TranslateFault::Reported(root.raw_str().to_owned()));
        }
        answer::check_root(root)?;
        let mut choices = root.get("choices").into_iter().flat_map(Value::items);
        let choice = choices.next();
        if choices.next().is_some() {
            return Err(TranslateFault::Unknown(SEVERAL));
        }
        if choice.is_none() && !self.choiceless(root, &event)? {
            return Ok(());
        }
        self.usage = answer::usage_of(root).or(self.usage.take());
        self.model = answer::model_of(root).or(self.model.take());
        if let Some(context) = self.context.as_ref().filter(|_| !self.stray) {
            self.stray = places::swept_event(document.clone(), context).is_ok_and(|(_, stray)| stray);
        }
        self.begin(each);
        choice.map_or(Ok(()), |choice| self.choice(choice, each))
    }

    /// Writes the last events at the end of the stream, unless `[DONE]` did so already.
    ///
    /// # Errors
    /// [`TranslateFault::Cut`] if the answer is incomplete.
    pub fn finish(&mut self, each: &mut dyn FnMut(SseEvent)) -> Result<(), TranslateFault> {
        match (self.done, &self.finish_reason) {
            (true, _) => Ok(()),
            (false, None) => Err(TranslateFault::Cut),
            (false, Some(_)) => self.conclude(each),
        }
    }

    /// True if an event without choices belongs to the answer.
    fn choiceless(&self, root: Value<'_>, event: &SseEvent) -> Result<bool, TranslateFault> {
        let flat_error = root.get("choices").is_none() && root.get("message").is_some();
        if flat_error && (root.get("code").is_some() || root.get("type").is_some()) {
            return Err(TranslateFault::Reported(root.raw_str().to_owned()));
        }
        // `event: ping` and the like.
        Ok(root.get("choices").is_some() || event.name.is_none() || root.get_some("usage").is_some())
    }

    fn begin(&mut self, each: &mut dyn FnMut(SseEvent)) {
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        let response = self.origin.response(None, "[]", None, self.model.as_deref());
        let members = format!("\"response\":{response}");
        self.output.emit("response.created", &members, each);
        self.output.emit("response.in_progress", &members, each);
    }

    fn choice(&mut self, choice: Value<'_>, each: &mut dyn FnMut(SseEvent)) -> Result<(), TranslateFault> {
        answer::check_choice(choice, &places::CHOICE_OF_EVENT, None)?;
        self.spoken = true;
        if let Some(delta) = delta_of(choice) {
            if !delta.is_object() && !is_nothing(delta) {
                return Err(AssembleError::Text.into());
            }
            let Self { assembler, origin, .. } = self;
            for (kind, text) in message::read(delta, MessageKind::Delta, assembler, |name| origin.knows(name))? {
                self.output.piece(kind, &text, each)?;
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
        self.copied_calls |= places::copies_calls(message);
        Ok(())
    }

    fn conclude(&mut self, each: &mut dyn FnMut(SseEvent)) -> Result<(), TranslateFault> {
        if !self.spoken {
            return Err(TranslateFault::Cut);
        }
        if self.copied_calls && self.assembler.slots().is_empty() {
            return Err(TranslateFault::Unknown("a choice whose calls stand beside its deltas only"));
        }
        self.done = true;
        let ending = answer::ending(self.finish_reason.as_deref())?;
        self.output.end(self.assembler.slots(), ending, each)?;
        let response = self.origin.response(Some(ending), &self.output.items(), self.usage.as_deref(), self.model.as_deref());
        let kind = match ending {
            AnswerEnding::Complete => "response.completed",
            AnswerEnding::Cut(_) => "response.incomplete",
        };
        self.output.emit(kind, &format!("\"response\":{response}"), each);
        Ok(())
    }
}

#[cfg(test)]
#[path = "stream_tests.rs"]
pub(in crate::translate) mod tests;
