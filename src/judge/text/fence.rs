//! Code fences, line by line: is a place prose, JSON or other code? Pure.
//!
//! CommonMark, section 4.5, a little wider: any indentation, and block quotes. A fence counts from the
//! line after it, so its own line is read as what stood before.

use std::collections::VecDeque;

use super::tail::Tail;

/// Bytes of a fence's language that are kept.
const LANGUAGE_BYTES_MAX: usize = 16;
/// Marks that make a fence.
const MARKS_MIN: usize = 3;

/// What a place is part of.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Mode {
    /// Not fenced.
    #[default]
    Prose,
    /// Fenced as JSON, as plain text, or without a language.
    Json,
    /// Fenced as any other language.
    Code,
}

/// How far the line at hand may be a fence.
#[derive(Debug, Default)]
enum Line {
    /// Only indentation so far.
    #[default]
    Indent,
    /// So many marks of one kind.
    Marks(u8, usize),
    /// Something after the marks.
    Info(u8, usize, String),
    /// No fence.
    Plain,
}

/// The fences of a text.
#[derive(Debug, Default)]
pub(super) struct Fences {
    at: usize,
    line: Line,
    open: Option<(u8, usize)>,
    base: Mode,
    changes: VecDeque<(usize, Mode)>,
}

impl Fences {
    /// Reads all that is there.
    pub fn advance(&mut self, tail: &Tail) {
        let end = tail.end();
        while self.at < end {
            let rest = tail.bytes(self.at..end);
            if matches!(self.line, Line::Plain) {
                let Some(newline) = memchr::memchr(b'\n', rest) else { break };
                self.at += newline + 1;
                self.line = Line::Indent;
                continue;
            }
            let Some(byte) = rest.first() else { break };
            self.at += 1;
            self.read(*byte);
        }
        self.at = end;
    }

    /// What `place` is part of.
    pub fn mode(&self, place: usize) -> Mode {
        let after = self.changes.partition_point(|(at, _)| *at <= place);
        after.checked_sub(1).and_then(|before| self.changes.get(before)).map_or(self.base, |(_, mode)| *mode)
    }

    /// The first change of mode after `place`.
    pub fn change_after(&self, place: usize) -> Option<usize> {
        let after = self.changes.partition_point(|(at, _)| *at <= place);
        self.changes.get(after).map(|(at, _)| *at)
    }

    /// Nobody will ask for what lies before `place` any more.
    pub fn forget(&mut self, place: usize) {
        while let Some((at, mode)) = self.changes.front()
            && *at <= place
        {
            self.base = *mode;
            self.changes.pop_front();
        }
    }

    fn read(&mut self, byte: u8) {
        if byte == b'\n' {
            let line = std::mem::take(&mut self.line);
            match line {
                Line::Marks(mark, count) => self.fence(mark, count, ""),
                Line::Info(mark, count, info) => self.fence(mark, count, info.trim()),
                Line::Indent | Line::Plain => {}
            }
            return;
        }
        match &mut self.line {
            Line::Indent if matches!(byte, b' ' | b'\t' | b'>') => {}
            Line::Indent if matches!(byte, b'`' | b'~') => self.line = Line::Marks(byte, 1),
            Line::Marks(mark, count) if *mark == byte => *count += 1,
            Line::Marks(mark, count) if *count >= MARKS_MIN => self.line = Line::Info(*mark, *count, String::from(char::from(byte))),
            Line::Info(b'`', _, _) if byte == b'`' => self.line = Line::Plain,
            Line::Info(_, _, info) => {
                if info.len() < LANGUAGE_BYTES_MAX {
                    info.push(char::from(byte));
                }
            }
            Line::Indent | Line::Marks(..) | Line::Plain => self.line = Line::Plain,
        }
    }

    fn fence(&mut self, mark: u8, count: usize, info: &str) {
        let mode = match self.open {
            Some((open, least)) if mark == open && count >= least && info.is_empty() => {
                self.open = None;
                Mode::Prose
            }
            None if count >= MARKS_MIN => {
                self.open = Some((mark, count));
                mode_of(info)
            }
            Some(_) | None => return,
        };
        self.changes.push_back((self.at, mode));
    }
}

/// JSON, text that is no code, and what says nothing are read as JSON; the rest is code.
fn mode_of(info: &str) -> Mode {
    let language = info.split([' ', '\t', '\r', '{', ',']).next().unwrap_or_default();
    let readable = ["", "json", "jsonc", "json5", "jsonl", "text", "txt", "plain", "plaintext", "output"];
    if readable.iter().any(|name| language.eq_ignore_ascii_case(name)) { Mode::Json } else { Mode::Code }
}
