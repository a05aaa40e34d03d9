//! An event of a choice that waits until its text is decided.

use bytes::Bytes;

use crate::{
    chat::chunk::{self, Changes, TextSpan, choice_of, delta_of},
    exchange::texts::is_nothing,
    wire::{
        json::{Document, Value},
        sse::Event,
    },
};

/// See the module.
pub(super) struct Pending {
    pub event: Event,
    /// `None` where the event differs from one before in nothing but its text: it is read only where it must be changed.
    pub document: Option<Document>,
    pub texts: Vec<TextSpan>,
    pub has_calls: bool,
    pub has_role: bool,
    pub finish: bool,
    /// A part of its text has left already.
    pub begun: bool,
}

impl Pending {
    /// Bytes that it takes in memory.
    pub fn held_bytes(&self) -> usize {
        let texts: usize = self.texts.iter().map(|span| size_of::<TextSpan>() + span.text.capacity()).sum();
        size_of::<Self>() + self.event.held_bytes() + self.document.as_ref().map_or(0, Document::noted_bytes) + texts
    }

    /// What it says. INVARIANT: it was checked that it is JSON, so there is something.
    pub fn document(&self) -> Option<Document> {
        self.document.clone().or_else(|| Document::parse(self.event.data.clone()?).ok())
    }

    /// The same as it came.
    pub fn data(&self) -> Option<Bytes> {
        self.document.as_ref().map(|document| document.bytes().clone()).or_else(|| self.event.data.clone())
    }

    /// The event as it leaves.
    pub fn write(&self, changes: &Changes<'_>) -> Bytes {
        // INVARIANT: what a repeated event has besides its text is what the event before had, which left as it came.
        if self.document.is_none() && self.event.plain && changes.is_nothing() {
            return self.event.raw.clone();
        }
        self.document().map(|document| chunk::write(&self.event, &document, changes)).unwrap_or_default()
    }

    /// Tokens that stand for neither text nor reasoning of this event may be those of a call that is held.
    pub fn logprobs_of_nothing(&self) -> bool {
        let reasons = |delta: Value<'_>| delta.members().any(|member| member.name().starts_with("reasoning") && !is_nothing(member.value));
        let reasons = |document: &Document| choice_of(document).and_then(delta_of).is_some_and(reasons);
        self.texts.is_empty() && !self.document().as_ref().is_some_and(reasons)
    }
}
