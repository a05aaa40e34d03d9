//! Containers open at the end of the released text: a fence, a comment, an element, display mathematics. Pure.
//!
//! A text that is appended must not be part of them. Inline code, emphasis, list items, block quotes and tables end with an empty line, so
//! they need no closing.

use super::{
    fence::{CodeFenceTracker, TextMode},
    tail::TextWindow,
};
use crate::claims::text_input::TextInput;

/// Nested elements that are closed.
const ELEMENTS_MAX: usize = 32;
/// Bytes of a tag's name.
const NAME_BYTES_MAX: usize = 16;
/// Elements that hide, move or restyle their contents, even across an empty line.
const ELEMENTS: [&str; 33] = [
    "blockquote",
    "button",
    "center",
    "code",
    "del",
    "details",
    "div",
    "font",
    "kbd",
    "math",
    "noscript",
    "pre",
    "reasoning",
    "samp",
    "script",
    "select",
    "small",
    "span",
    "strike",
    "style",
    "sub",
    "summary",
    "sup",
    "svg",
    "table",
    "td",
    "template",
    "textarea",
    "think",
    "thinking",
    "title",
    "tr",
    "xmp",
];

/// Containers open at the end of the released text.
#[derive(Clone, Debug, Default)]
pub(super) struct Containers {
    at: usize,
    comment: bool,
    mathematics: Option<&'static str>,
    elements: Vec<&'static str>,
    /// Open inline code, by its number of backticks.
    code: Option<usize>,
    /// Only blanks follow the last newline.
    fresh: bool,
}

impl Containers {
    /// Reads the released text up to `end`.
    pub fn advance(&mut self, tail: &TextWindow, fences: &CodeFenceTracker, end: usize, input: TextInput) {
        while self.at < end {
            let rest = tail.bytes(self.at..end);
            if self.comment {
                match memchr::memmem::find(rest, b"-->") {
                    Some(at) => (self.at, self.comment) = (self.at + at + 3, false),
                    None => {
                        // The end may be half of the mark.
                        self.at = self.at.max(end.saturating_sub(2));
                        return;
                    }
                }
                continue;
            }
            let Some(offset) = rest.iter().position(|byte| matches!(byte, b'`' | b'<' | b'$' | b'\\' | b'\n')) else {
                self.fresh &= rest.iter().all(|byte| *byte == b' ');
                self.at = end;
                return;
            };
            if offset > 0 {
                self.fresh = false;
            }
            let here = rest.get(offset..).unwrap_or_default();
            let place = self.at + offset;
            let length =
                if fences.mode(place) == TextMode::Prose || here.first() == Some(&b'\n') { self.read(here, place, fences) } else { 1 };
            // A mark that may go on is read again with what follows.
            if length >= here.len() && here.first() != Some(&b'\n') && here.len() <= NAME_BYTES_MAX && input.is_partial() {
                self.at = place;
                return;
            }
            self.at = place + self.take(here, length, place, fences);
        }
    }

    /// Number of bytes of the mark at the beginning of `here`.
    fn read(&self, here: &[u8], _place: usize, _fences: &CodeFenceTracker) -> usize {
        match here.first() {
            Some(b'`') => here.iter().take_while(|byte| **byte == b'`').count(),
            Some(b'<') if here.starts_with(b"<!--") => 4,
            Some(b'<') if b"<!--".starts_with(here) => here.len(),
            Some(b'<') => 1 + usize::from(here.get(1) == Some(&b'/')) + name(here).len() + usize::from(!name(here).is_empty()),
            Some(b'$') => here.iter().take(2).take_while(|byte| **byte == b'$').count() + usize::from(here.len() == 1),
            Some(b'\\') => 2,
            Some(_) | None => 1,
        }
    }

    /// Handles that mark; returns the number of bytes consumed.
    fn take(&mut self, here: &[u8], length: usize, place: usize, fences: &CodeFenceTracker) -> usize {
        let prose = fences.mode(place) == TextMode::Prose;
        let fresh = std::mem::replace(&mut self.fresh, false);
        match here.first() {
            Some(b'\n') => {
                // An empty line, or a fence, ends inline code.
                if fresh || fences.mode(place + 1) != fences.mode(place) {
                    self.code = None;
                }
                self.fresh = true;
            }
            Some(b'`') if prose => {
                self.code = match self.code {
                    Some(open) if open == length => None,
                    Some(open) => Some(open),
                    None => Some(length),
                };
            }
            Some(_) if !prose || self.code.is_some() => {}
            Some(b'<') if here.starts_with(b"<!--") => self.comment = true,
            Some(b'<') => {
                let closes = here.get(1) == Some(&b'/');
                if let Some(element) = ELEMENTS.iter().find(|element| element.as_bytes().eq_ignore_ascii_case(name(here))) {
                    if !closes && self.elements.len() < ELEMENTS_MAX {
                        self.elements.push(element);
                    } else if let Some(at) = self.elements.iter().rposition(|open| open == element).filter(|_| closes) {
                        self.elements.truncate(at);
                    }
                }
            }
            Some(b'$') if here.starts_with(b"$$") => match self.mathematics {
                Some("$$") => self.mathematics = None,
                None if fresh || place == 0 => self.mathematics = Some("$$"),
                Some(_) | None => {}
            },
            Some(b'\\') => match here.get(1) {
                Some(b'[') if fresh || place == 0 => self.mathematics = Some("\\]"),
                Some(b']') => self.mathematics = self.mathematics.filter(|open| *open != "\\]"),
                Some(_) | None => {}
            },
            Some(_) | None => {}
        }
        // What a backslash stands before may be a newline or another mark.
        if here.first() == Some(&b'\\') && !matches!(here.get(1), Some(b'[' | b']' | b'\\' | b'`' | b'$' | b'<')) {
            1
        } else {
            length.max(1).min(here.len().max(1))
        }
    }

    /// Place up to which it has read.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Text that closes everything open at `end`, the end of the released text.
    pub fn closing(&self, tail: &TextWindow, fences: &CodeFenceTracker, end: usize) -> String {
        let mut closing = String::new();
        // One in a block quote or list item ends with it, at the empty line that follows.
        let over = fences.change_after(end).is_some_and(|after| tail.slice(end..after).trim().is_empty());
        if let Some((fence, start)) = fences.fence_at(end).filter(|(fence, _)| fence.is_outermost() && !over) {
            if end > start && tail.before(end) != Some('\n') {
                closing.push('\n');
            }
            closing.extend(std::iter::repeat_n(char::from(fence.mark), fence.count));
        }
        if self.comment {
            closing.push_str(" -->");
        }
        if let Some(mark) = self.mathematics {
            closing.push('\n');
            closing.push_str(mark);
        }
        for element in self.elements.iter().rev() {
            closing.push_str("</");
            closing.push_str(element);
            closing.push('>');
        }
        closing
    }
}

/// Name of the tag at the beginning of `here`.
fn name(here: &[u8]) -> &[u8] {
    let body = here.get(1..).unwrap_or_default();
    let body = body.strip_prefix(b"/").unwrap_or(body);
    body.get(..body.iter().take(NAME_BYTES_MAX).take_while(|byte| byte.is_ascii_alphabetic()).count()).unwrap_or_default()
}
