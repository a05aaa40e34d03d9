//! Sliding window over the part of a text that is still being judged, addressed by places in the whole text. Pure.
//!
//! Text before it is dropped in strides, so that a small piece costs no copy of the rest.

use std::ops::Range;

/// Bytes that are kept before the needed part: a block's introduction is read again when the block begins.
const KEPT_BYTES: usize = 512;
/// Bytes that must be droppable before a copy is worth it.
const STRIDE_BYTES: usize = 4096;

/// The last part of a text. Places are byte offsets into the whole text.
#[derive(Debug, Default)]
pub(super) struct TextWindow {
    base: usize,
    text: String,
}

impl TextWindow {
    /// Appends the next piece.
    pub fn push(&mut self, piece: &str) {
        self.text.push_str(piece);
    }

    /// End of the text so far.
    pub fn end(&self) -> usize {
        self.base + self.text.len()
    }

    /// The text in `span`; empty if part of it isn't in the window, or a character would be split.
    pub fn slice(&self, span: Range<usize>) -> &str {
        let (Some(start), Some(end)) = (span.start.checked_sub(self.base), span.end.checked_sub(self.base)) else {
            return "";
        };
        self.text.get(start..end).unwrap_or_default()
    }

    /// The text from `at` on.
    pub fn from(&self, at: usize) -> &str {
        self.slice(at..self.end())
    }

    /// The bytes in `span`; empty if part of them isn't in the window.
    pub fn bytes(&self, span: Range<usize>) -> &[u8] {
        let (Some(start), Some(end)) = (span.start.checked_sub(self.base), span.end.checked_sub(self.base)) else {
            return &[];
        };
        self.text.as_bytes().get(start..end).unwrap_or_default()
    }

    /// The character that ends at `at`.
    pub fn before(&self, at: usize) -> Option<char> {
        self.slice(self.base..at).chars().next_back()
    }

    /// The character that starts at `at`.
    pub fn after(&self, at: usize) -> Option<char> {
        self.from(at).chars().next()
    }

    /// `at`, or the nearest place before it that lies between characters.
    pub fn boundary(&self, at: usize) -> usize {
        self.base + self.text.floor_char_boundary(at.saturating_sub(self.base))
    }

    /// Drops the text before `place`, once that is worth a copy.
    pub fn discard(&mut self, place: usize) {
        let drop = self.boundary(place.saturating_sub(KEPT_BYTES)).saturating_sub(self.base);
        if drop >= STRIDE_BYTES && drop * 2 >= self.text.len() {
            self.text.drain(..drop);
            self.base += drop;
        }
    }
}
