//! Template of a streamed event, for events that differ from an earlier one only in their text, as most do: the rest was judged and
//! isn't parsed again. Pure.

use std::{borrow::Cow, ops::Range};

use bytes::Bytes;

use super::places::is_token;
use crate::wire::json::leading_string;

/// Common part of such events: pieces of JSON, with a string between each two.
pub struct EventTemplate {
    pieces: Vec<Bytes>,
    /// Index of the string that is the text.
    text: usize,
}

impl EventTemplate {
    /// Template of a judged event. `data`: its JSON; `text`, `padding`: where the strings stand that other events may have
    /// otherwise, quotes included. Padding says nothing: it is one word of letters and digits.
    /// `None` if the text has an escape of half a pair of surrogates, which may go on in the next event.
    pub fn new(data: &Bytes, text: Range<usize>, padding: Option<Range<usize>>) -> Option<Self> {
        let escapes = data.get(text.clone())?.windows(3).any(|bytes| matches!(bytes, [b'\\', b'u', b'd' | b'D']));
        if escapes {
            return None;
        }
        let at = usize::from(padding.as_ref().is_some_and(|padding| padding.start < text.start));
        let mut strings: Vec<Range<usize>> = padding.into_iter().chain([text]).collect();
        strings.sort_by_key(|span| span.start);
        let mut from = 0;
        let mut pieces = Vec::with_capacity(3);
        for span in &strings {
            pieces.push(data.slice(from..span.start));
            from = span.end;
        }
        pieces.push(data.slice(from..));
        Some(Self { pieces, text: at })
    }

    /// Text of an event that matches; `None` if the event doesn't match, or has no text.
    pub fn text<'d>(&self, data: &'d [u8]) -> Option<Cow<'d, str>> {
        // Most often it is at the end that they differ.
        let last = self.pieces.last().filter(|last| data.ends_with(last))?;
        let (mut at, mut text) = (0, None);
        for (number, piece) in self.pieces.iter().enumerate().take(self.pieces.len() - 1) {
            at += data.get(at..).filter(|rest| rest.starts_with(piece)).map(|_| piece.len())?;
            let (string, length) = leading_string(data.get(at..)?)?;
            at += length;
            if number == self.text {
                // Half a pair of surrogates belongs to what stands before or behind it.
                text = Some(string).filter(|string| matches!(string, Cow::Borrowed(_)) || !string.contains('\u{fffd}'));
            } else if !is_token(string.as_bytes()) {
                return None;
            }
        }
        text.filter(|text| at + last.len() == data.len() && !text.is_empty())
    }
}
