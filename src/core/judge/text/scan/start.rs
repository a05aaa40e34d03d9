//! Scanner for calls written as text without a marker: at the beginning of a line, or as the whole text. Pure.
//!
//! A line: `[f(a=1)]`, `f{"a":1}`. The whole text: objects of `name` and `arguments`, in a fence, a wrapper or nothing, also of tools that
//! don't exist. Such objects beside prose don't count: documentation and APIs show calls that way.

use super::written::{self, MarkedCall};
use crate::{
    claims::text_input::TextInput,
    judge::{
        text::{
            Evidence, TextRules,
            fence::{CodeFenceTracker, TextMode},
            item::{Kind, ScannedItem},
            tail::TextWindow,
        },
        textual_calls::{self, ParseStop, TextualParse, ToolFilter},
    },
};

/// Bytes of the beginning of a call that are quoted.
const SAID: usize = 64;
/// Bytes within which a call at the beginning of a line must end; a longer one counts as a call.
const LINE_CALL_BYTES_MAX: usize = 4096;

/// A call that was found.
struct BareCall {
    tool: String,
    /// The call as written, cut to the length that is quoted.
    said: String,
    /// Bytes of a call that is too long to be read: they are skipped, so that many such lines cost no more than one.
    passed: usize,
}

impl BareCall {
    fn new(tool: &str, said: &str, passed: usize) -> Self {
        Self { tool: tool.to_owned(), said: said.get(..said.floor_char_boundary(SAID)).unwrap_or_default().to_owned(), passed }
    }
}

/// Scanner for calls without a marker.
#[derive(Debug, Default)]
pub(in crate::judge::text) struct BareCallScanner {
    /// Place before which nothing more will be found.
    at: usize,
    /// The line at `at` is no call: it is skipped.
    passing: bool,
    /// Bytes that must be available before another try.
    next: usize,
}

impl BareCallScanner {
    /// Reads all available text.
    pub fn advance(
        &mut self,
        tail: &TextWindow,
        fences: &CodeFenceTracker,
        rules: &TextRules,
        evidence: &dyn Evidence,
        input: TextInput,
        found: &mut Vec<ScannedItem>,
    ) {
        loop {
            if self.passing {
                let Some(newline) = memchr::memchr(b'\n', tail.bytes(self.at..tail.end())) else {
                    self.at = tail.end();
                    return;
                };
                (self.at, self.passing, self.next) = (self.at + newline + 1, false, 0);
            }
            let text = tail.from(self.at);
            let line = text.trim_start();
            if line.is_empty() {
                self.at = if input.is_complete() { tail.end() } else { self.at };
                return;
            }
            if text.len() < self.next && input.is_partial() {
                return;
            }
            let start = tail.end() - line.len();
            let mode = fences.mode(start);
            let of_text = self.at == 0 && begins_whole(line);
            let read = match of_text {
                true if line.len() > rules.held_bytes_max => Err(ParseStop::No),
                true => whole(line, mode, evidence, input),
                false => at_line(line, mode, evidence, input),
            };
            let mut passed = start;
            match read {
                Err(ParseStop::More) => {
                    // Looked at again when there is a good part more of it.
                    self.next = text.len() + text.len() / 4;
                    return;
                }
                Err(ParseStop::No) => {}
                Ok(own) => {
                    passed = start + own.passed;
                    let written = MarkedCall { call: true, tool: Some(own.tool), said: own.said };
                    found.push(ScannedItem { span: start..start + 1, kind: Kind::Written(written) });
                }
            }
            (self.at, self.passing) = (passed, true);
        }
    }

    /// Place before which nothing more will be found.
    pub fn hold(&self) -> usize {
        self.at
    }
}

/// True if a text that begins like this may consist only of calls.
fn begins_whole(text: &str) -> bool {
    match text.chars().next() {
        Some('`' | '{' | '<') => true,
        Some('[') => text.get(1..).unwrap_or_default().trim_start().starts_with('{'),
        _ => false,
    }
}

/// The tool called by a text that consists only of calls.
fn whole(text: &str, mode: TextMode, evidence: &dyn Evidence, input: TextInput) -> Result<BareCall, ParseStop> {
    if mode != TextMode::Prose {
        return Err(ParseStop::No);
    }
    match textual_calls::read(text, &|name| evidence.is_registered(name), ToolFilter::Any, textual_calls::FenceMode::Wrapper, input) {
        // What a mark begins is found by that.
        TextualParse::Calls(_) if !text.starts_with('`') && written::is_marked(text, evidence) => Err(ParseStop::No),
        TextualParse::Calls(calls)
            if evidence.written_calls() != Some(ToolFilter::Any) && calls.iter().any(|call| !evidence.is_registered(&call.tool)) =>
        {
            Err(ParseStop::No)
        }
        TextualParse::Calls(calls) => calls.first().map(|call| BareCall::new(&call.tool, text.trim_end(), 0)).ok_or(ParseStop::No),
        TextualParse::More => Err(ParseStop::More),
        TextualParse::Nothing => Err(ParseStop::No),
    }
}

/// The tool that a line begins to call.
fn at_line(line: &str, mode: TextMode, evidence: &dyn Evidence, input: TextInput) -> Result<BareCall, ParseStop> {
    let inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if mode != TextMode::Prose || !line.starts_with(|c: char| c == '[' || inside(c)) {
        return Err(ParseStop::No);
    }
    let window = line.get(..line.floor_char_boundary(LINE_CALL_BYTES_MAX)).unwrap_or(line);
    let cut = window.len() < line.len();
    match textual_calls::at_line(window, &|name| evidence.is_registered(name), if cut { TextInput::Partial } else { input }) {
        // Only behind a tool's name there can be so much to come.
        Err(ParseStop::More) if cut => {
            let name = window.trim_start_matches(|c: char| c == '[' || c.is_whitespace());
            let name = name.get(..name.find(|c| !inside(c)).unwrap_or(0)).unwrap_or_default();
            Ok(BareCall::new(name, window, window.len()))
        }
        read => read.map(|(tool, said)| BareCall::new(&tool, said, 0)),
    }
}
