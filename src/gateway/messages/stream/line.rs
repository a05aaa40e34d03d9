//! The stream as the application gets it: indexes without gaps, one block at a time. Sans-IO.
//!
//! Source: docs/wire-facts.md#messages: every event has its name, indexes count from 0 over all attempts, texts come in
//! deltas only, and no text block is empty.

use bytes::{Bytes, BytesMut};

use super::block::HeldDelta;
use crate::wire::{
    json::{Document, splice::Splices, string::quote},
    sse::one_line,
};

/// State of the application's stream; it goes on over all attempts of an exchange.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// `message_start` was sent.
    pub begun: bool,
    /// Index of the next block.
    next: u64,
    /// Index of the block that is open.
    open: Option<u64>,
    /// Text was sent.
    pub has_text: bool,
    /// The next text starts a paragraph: it follows an earlier attempt's.
    pub gap: bool,
    /// Text was taken out of what was sent: thinking that follows is bound to a text that the application doesn't have.
    pub edited: bool,
}

impl Line {
    /// Starts a block: `start` is its `content_block_start`, whose index is replaced.
    pub fn start(&mut self, start: &Document, block: Option<&str>, out: &mut BytesMut) {
        self.stop(out);
        let (root, index) = (start.root(), self.next);
        let mut edits = Splices::default();
        if let (Some(block), Some(own)) = (block, root.get("content_block")) {
            edits.replace(own.span(), block);
        }
        set_index(&mut edits, start, index);
        frame(out, "content_block_start", &edits.apply(start.bytes()));
        (self.next, self.open) = (index + 1, Some(index));
    }

    /// Starts a block that the upstream didn't send. `block`: JSON.
    pub fn start_made(&mut self, block: &str, out: &mut BytesMut) {
        self.stop(out);
        let data = format!(r#"{{"type":"content_block_start","index":{},"content_block":{block}}}"#, self.next);
        frame(out, "content_block_start", data.as_bytes());
        (self.next, self.open) = (self.next + 1, Some(self.next));
    }

    /// Sends a delta of the open block, as the upstream sent it.
    pub fn delta(&self, delta: &HeldDelta, out: &mut BytesMut) {
        let index = self.open.unwrap_or_default();
        match delta.index == Some(index) {
            true => frame(out, "content_block_delta", &delta.data),
            false => frame(out, "content_block_delta", &with_members(&delta.data, &[("index", &index.to_string())])),
        }
    }

    /// Sends a piece of text or JSON as a delta of the open block. `kind`: its type; `member`: the member that holds it.
    pub fn delta_made(&self, kind: &str, member: &str, text: &str, out: &mut BytesMut) {
        let index = self.open.unwrap_or_default();
        let delta = format!(r#"{{"type":"{kind}","{member}":{}}}"#, quote(text));
        frame(out, "content_block_delta", format!(r#"{{"type":"content_block_delta","index":{index},"delta":{delta}}}"#).as_bytes());
    }

    /// Stops the open block, if there is one.
    pub fn stop(&mut self, out: &mut BytesMut) {
        if let Some(index) = self.open.take() {
            frame(out, "content_block_stop", format!(r#"{{"type":"content_block_stop","index":{index}}}"#).as_bytes());
        }
    }

    /// A text as it leaves: after a gap, it starts a paragraph.
    pub fn spaced(&mut self, text: String) -> String {
        self.has_text = true;
        if std::mem::take(&mut self.gap) { format!("\n\n{text}") } else { text }
    }
}

fn set_index(edits: &mut Splices, event: &Document, index: u64) {
    if let Some(own) = event.root().get("index").filter(|own| own.integer() != Some(index)) {
        edits.replace(own.span(), index.to_string());
    }
}

/// Writes an event.
pub fn frame(out: &mut BytesMut, kind: &str, data: &[u8]) {
    let data = one_line(data);
    out.reserve(data.len() + kind.len() + 18);
    out.extend_from_slice(b"event: ");
    out.extend_from_slice(kind.as_bytes());
    out.extend_from_slice(b"\ndata: ");
    out.extend_from_slice(&data);
    out.extend_from_slice(b"\n\n");
}

/// An event's data with members set or replaced. `changes`: names and JSON.
pub fn with_members(event: &Bytes, changes: &[(&str, &str)]) -> Bytes {
    let Ok(document) = Document::parse(event.clone()) else { return event.clone() };
    let mut edits = Splices::default();
    for (name, json) in changes {
        edits.set_member(document.root(), name, json);
    }
    edits.apply(event)
}
