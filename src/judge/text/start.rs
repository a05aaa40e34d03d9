//! Calls written as text that no mark begins: where a line begins with one, or the whole text is nothing else. Pure.
//!
//! A line: `[f(a=1)]`, `f{"a":1}`. The whole text: a fence with objects of `name` and `arguments`. Such objects beside prose,
//! or without a fence, are how documentation and APIs show calls, and count for nothing; nor does what names no tool of the
//! exchange.

use super::{
    Evidence, Rules,
    fence::{Fences, Mode},
    item::{Item, Kind},
    tail::Tail,
    written::Written,
};
use crate::judge::textual::{self, Reading, Stop};

/// Bytes of a beginning that are quoted.
const SAID: usize = 64;

/// The reader of beginnings.
#[derive(Debug, Default)]
pub(super) struct Starts {
    /// Nothing before it will be found any more.
    at: usize,
    /// The line at `at` is no call: the next one is looked for.
    passing: bool,
    /// Bytes that must be there before it is worth another look.
    next: usize,
}

impl Starts {
    /// Reads all that is there.
    pub fn advance(&mut self, tail: &Tail, fences: &Fences, rules: &Rules, evidence: &dyn Evidence, last: bool, found: &mut Vec<Item>) {
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
                self.at = if last { tail.end() } else { self.at };
                return;
            }
            if text.len() < self.next && !last {
                return;
            }
            let start = tail.end() - line.len();
            match self.read(line, fences.mode(start), evidence, last) {
                Err(Stop::More) if line.len() <= rules.held_bytes_max => {
                    // Looked at again when there is a good part more of it.
                    self.next = text.len() + text.len() / 4;
                    return;
                }
                Err(Stop::More | Stop::No) => {}
                Ok(tool) => {
                    let said = line.lines().next().unwrap_or_default();
                    let said = said.get(..said.floor_char_boundary(SAID)).unwrap_or_default().to_owned();
                    let written = Written { call: true, tool: Some(tool), said };
                    found.push(Item { span: start..start + 1, kind: Kind::Written(written) });
                }
            }
            (self.at, self.passing) = (start, true);
        }
    }

    /// Nothing that starts before this place will be found any more.
    pub fn hold(&self) -> usize {
        self.at
    }

    fn read(&self, line: &str, mode: Mode, evidence: &dyn Evidence, last: bool) -> Result<String, Stop> {
        let known = |name: &str| evidence.is_registered(name);
        let fenced = line.starts_with('`');
        if mode != Mode::Prose || !(fenced || line.starts_with(|c: char| matches!(c, '[' | '_') || c.is_ascii_alphanumeric())) {
            return Err(Stop::No);
        }
        if !fenced {
            return textual::at_line(line, &known, last);
        }
        match textual::read(line, &known, textual::Fences::Wrapper, last) {
            Reading::Calls(calls) if self.at == 0 => calls.into_iter().next().map(|call| call.tool).ok_or(Stop::No),
            Reading::More if self.at == 0 => Err(Stop::More),
            Reading::Calls(_) | Reading::More | Reading::Nothing => Err(Stop::No),
        }
    }
}
