//! A queued event of a choice, waiting for its text to be judged.

use bytes::Bytes;

use crate::{
    chat::stream::chunk::{self, ChunkEdit, TextSpan, choice_of, delta_of},
    exchange::text::place::is_nothing,
    wire::{
        json::{Document, Value},
        sse::SseEvent,
    },
};

/// An event of a choice that waits for its text to be judged.
pub(super) struct HeldEvent {
    pub event: SseEvent,
    /// `None` if the event differs from an earlier one only in its text; it is parsed only if it must be changed.
    pub document: Option<Document>,
    pub texts: Vec<TextSpan>,
    pub has_calls: bool,
    pub has_role: bool,
    pub finish: bool,
    /// Part of its text was already sent.
    pub begun: bool,
}

impl HeldEvent {
    /// Memory held by the event, in bytes.
    pub fn held_bytes(&self) -> usize {
        let texts: usize = self.texts.iter().map(|span| size_of::<TextSpan>() + span.text.capacity()).sum();
        size_of::<Self>() + self.event.held_bytes() + self.document.as_ref().map_or(0, Document::noted_bytes) + texts
    }

    /// The parsed data. INVARIANT: it was checked to be JSON, so this is never `None`.
    pub fn document(&self) -> Option<Document> {
        self.document.clone().or_else(|| Document::parse(self.event.data.clone()?).ok())
    }

    /// The data as received.
    pub fn data(&self) -> Option<Bytes> {
        self.document.as_ref().map(|document| document.bytes().clone()).or_else(|| self.event.data.clone())
    }

    /// The event as sent to the application.
    pub fn write(&self, changes: &ChunkEdit<'_>) -> Bytes {
        // INVARIANT: what a repeated event has besides its text is what the event before had, which left as it came.
        if self.document.is_none() && self.event.plain && changes.is_nothing() {
            return self.event.raw.clone();
        }
        self.document().map(|document| chunk::write(&self.event, &document, changes)).unwrap_or_default()
    }

    /// True if the event has neither text nor reasoning: its `logprobs` may be those of a held call.
    pub fn logprobs_of_nothing(&self) -> bool {
        let reasons = |delta: Value<'_>| delta.members().any(|member| member.name().starts_with("reasoning") && !is_nothing(member.value));
        let reasons = |document: &Document| choice_of(document).and_then(delta_of).is_some_and(reasons);
        self.texts.is_empty() && !self.document().as_ref().is_some_and(reasons)
    }
}
