//! Scanner for the policy's own patterns and phrases, line by line. Pure.

use crate::{
    claims::text_input::TextInput,
    judge::text::{
        TextRules, fold,
        item::{Kind, ScannedItem, ScannedLabel},
        tail::TextWindow,
    },
};

/// Bytes of a line above which it is read in parts.
const LINE_BYTES_MAX: usize = 64 << 10;

/// Scanner for lines; idle if the policy has no such rules.
#[derive(Debug, Default)]
pub(in crate::judge::text) struct LineScanner {
    start: usize,
    /// No newline lies before this place.
    searched: usize,
}

impl LineScanner {
    /// Reads all complete lines.
    pub fn advance(&mut self, tail: &TextWindow, rules: &TextRules, input: TextInput, found: &mut Vec<ScannedItem>) {
        let end = tail.end();
        if rules.extra_patterns.is_empty() && rules.phrases.is_empty() {
            self.start = end;
            return;
        }
        while self.start < end {
            let full = self.start.saturating_add(LINE_BYTES_MAX);
            let limit = end.min(full);
            let newline = memchr::memchr(b'\n', tail.bytes(self.searched..limit)).map(|at| self.searched + at + 1);
            let next = match newline {
                Some(next) => next,
                None if limit == full => tail.boundary(full).max(self.start + 1),
                None if input.is_complete() => end,
                None => {
                    self.searched = end;
                    return;
                }
            };
            self.read(tail, rules, next, found);
            (self.start, self.searched) = (next, next);
        }
    }

    /// Place before which nothing more will be found.
    pub fn hold(&self) -> usize {
        self.start
    }

    fn read(&self, tail: &TextWindow, rules: &TextRules, end: usize, found: &mut Vec<ScannedItem>) {
        let line = tail.slice(self.start..end).trim_end_matches(['\n', '\r']);
        let place = |span: std::ops::Range<usize>| self.start + span.start..self.start + span.end;
        for (number, phrase) in rules.phrases.iter().enumerate() {
            let matches = phrase.regex.find_iter(line).filter(|found| !found.is_empty());
            found.extend(matches.map(|found| ScannedItem { span: place(found.range()), kind: Kind::Phrase(number) }));
        }
        for pattern in rules.extra_patterns.iter() {
            for captures in pattern.captures_iter(line) {
                let (Some(whole), Some(id)) = (captures.get(0), captures.name("id")) else { continue };
                if id.is_empty() {
                    continue;
                }
                let label = ScannedLabel {
                    value: place(id.range()),
                    text: fold::plain(id.as_str()),
                    openers: String::new(),
                    closers: String::new(),
                };
                found.push(ScannedItem { span: place(whole.range()), kind: Kind::Label(label) });
            }
        }
    }
}
