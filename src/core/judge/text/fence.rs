//! Tracks code fences line by line, and tells prose, JSON, other data and code apart. Pure.
//!
//! CommonMark, section 4.5: up to three blanks before the marks, no backtick after backticks, a closing fence at least as long as the
//! opening one with nothing after it; a fence in a block quote or list item ends with it. A fence counts from the line after it, so its own
//! line is read in the mode of the text before.

use std::collections::VecDeque;

/// Bytes of a fence's language that are kept.
const LANGUAGE_BYTES_MAX: usize = 16;
/// Marks that make a fence.
const MARKS_MIN: usize = 3;
/// Blanks that make a line of indented code.
const INDENT_MAX: usize = 4;
/// Nested list items that are told apart.
const ITEMS_MAX: usize = 16;
/// Digits of a list item's number.
const NUMBER_MAX: usize = 9;

use super::tail::TextWindow;

/// Kind of text at a place.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum TextMode {
    /// Not fenced.
    #[default]
    Prose,
    /// Fenced as JSON, as plain text, or without a language.
    Json,
    /// Fenced as a language that describes instead of doing: YAML, CSV, a console's output, anything unknown.
    Data,
    /// Fenced as a programming language.
    Code,
}

/// State of the current line as a possible fence.
#[derive(Debug, Default)]
enum FenceLine {
    /// Only indentation and the marks of block quotes and list items so far.
    #[default]
    Prefix,
    /// A bullet, or a list item's number and its mark: a blank must follow.
    Bullet,
    /// So many digits.
    Number(usize),
    /// So many marks of one kind.
    Marks(u8, usize),
    /// Something after the marks.
    Info(u8, usize, String),
    /// No fence.
    Plain,
}

/// An open fence.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Fence {
    /// `` ` `` or `~`.
    pub mark: u8,
    /// Number of its marks.
    pub count: usize,
    /// Start of its own line.
    pub line: usize,
    /// Start of its marks.
    pub marks: usize,
    /// Number of block quotes around it.
    quotes: usize,
    /// Column in which the content of the list item around it begins.
    offset: usize,
}

impl Fence {
    /// True if no block quote or list item is around it: an empty line doesn't end it.
    pub fn is_outermost(&self) -> bool {
        self.quotes == 0 && self.offset == 0
    }
}

/// Mode and open fence from a place on.
#[derive(Clone, Copy, Debug, Default)]
struct Change {
    at: usize,
    mode: TextMode,
    fence: Option<Fence>,
}

/// Code fences of a text.
#[derive(Debug, Default)]
pub(super) struct CodeFenceTracker {
    at: usize,
    line: FenceLine,
    /// Start of the current line, and of its marks.
    start: usize,
    marks: usize,
    column: usize,
    /// Column from which indentation is counted.
    base: usize,
    quotes: usize,
    /// The mark of a block quote includes the blank after it.
    takes_blank: bool,
    /// Columns in which the contents of the open list items begin, and the block quotes around them.
    items: Vec<usize>,
    items_quotes: usize,
    open: Option<Fence>,
    base_change: Change,
    changes: VecDeque<Change>,
}

impl CodeFenceTracker {
    /// Reads all available text.
    pub fn advance(&mut self, tail: &TextWindow) {
        let end = tail.end();
        while self.at < end {
            let rest = tail.bytes(self.at..end);
            if matches!(self.line, FenceLine::Plain) {
                let Some(newline) = memchr::memchr(b'\n', rest) else { break };
                self.at += newline + 1;
                self.begin_line();
                continue;
            }
            let Some(byte) = rest.first() else { break };
            self.at += 1;
            self.read(*byte);
        }
        self.at = end;
    }

    /// Kind of text at `place`.
    pub fn mode(&self, place: usize) -> TextMode {
        self.change(place).mode
    }

    /// The fence that `place` is in, and the first place inside it.
    pub fn fence_at(&self, place: usize) -> Option<(Fence, usize)> {
        let change = self.change(place);
        change.fence.map(|fence| (fence, change.at))
    }

    /// The fence with `place` in its opening line, and the first place inside it.
    pub fn opened_by_line_of(&self, place: usize) -> Option<(Fence, usize)> {
        let after = self.changes.partition_point(|change| change.at <= place);
        let next = self.changes.get(after)?;
        next.fence.filter(|fence| fence.marks <= place).map(|fence| (fence, next.at))
    }

    fn change(&self, place: usize) -> Change {
        let after = self.changes.partition_point(|change| change.at <= place);
        after.checked_sub(1).and_then(|before| self.changes.get(before)).copied().unwrap_or(self.base_change)
    }

    /// Start of the current line's marks, if they may open a fence.
    pub fn opening(&self) -> Option<usize> {
        (self.open.is_none() && matches!(self.line, FenceLine::Marks(..) | FenceLine::Info(..))).then_some(self.marks)
    }

    /// Place up to which every change of mode is known. A fence in a block quote or list item has ended before the current line if that
    /// line is outside of it; only the text after the line's blanks shows that.
    pub fn known(&self) -> usize {
        let undecided = matches!(self.line, FenceLine::Prefix) && self.open.is_some_and(|open| !open.is_outermost());
        if undecided { self.start } else { self.at }
    }

    /// The first change of mode after `place`.
    pub fn change_after(&self, place: usize) -> Option<usize> {
        let after = self.changes.partition_point(|change| change.at <= place);
        self.changes.get(after).map(|change| change.at)
    }

    /// Drops everything before `place`.
    pub fn forget(&mut self, place: usize) {
        while let Some(change) = self.changes.front()
            && change.at <= place
        {
            self.base_change = *change;
            self.changes.pop_front();
        }
    }

    fn begin_line(&mut self) {
        (self.line, self.start) = (FenceLine::Prefix, self.at);
        (self.column, self.base, self.quotes, self.takes_blank) = (0, 0, 0, false);
    }

    fn read(&mut self, byte: u8) {
        if byte == b'\n' {
            match std::mem::take(&mut self.line) {
                FenceLine::Marks(mark, count) => self.mark(mark, count, ""),
                FenceLine::Info(mark, count, info) => self.mark(mark, count, info.trim()),
                // An empty line ends a block quote.
                FenceLine::Prefix if self.open.is_some_and(|open| self.quotes < open.quotes) => self.leave(),
                FenceLine::Prefix | FenceLine::Bullet | FenceLine::Number(_) | FenceLine::Plain => {}
            }
            self.begin_line();
            return;
        }
        match &mut self.line {
            FenceLine::Prefix => self.read_prefix(byte),
            FenceLine::Bullet if matches!(byte, b' ' | b'\t') => {
                self.step(byte);
                if self.items.len() < ITEMS_MAX {
                    self.items.push(self.column);
                }
                (self.base, self.items_quotes, self.line) = (self.column, self.quotes, FenceLine::Prefix);
            }
            FenceLine::Number(count) if byte.is_ascii_digit() && *count < NUMBER_MAX => {
                *count += 1;
                self.column += 1;
            }
            FenceLine::Number(_) if matches!(byte, b'.' | b')') => {
                self.column += 1;
                self.line = FenceLine::Bullet;
            }
            FenceLine::Marks(mark, count) if *mark == byte => *count += 1,
            FenceLine::Marks(mark, count) if *count >= MARKS_MIN => {
                self.line = FenceLine::Info(*mark, *count, String::from(char::from(byte)))
            }
            FenceLine::Info(b'`', _, _) if byte == b'`' => self.line = FenceLine::Plain,
            FenceLine::Info(_, _, info) => {
                if info.len() < LANGUAGE_BYTES_MAX {
                    info.push(char::from(byte));
                }
            }
            FenceLine::Bullet | FenceLine::Number(_) | FenceLine::Marks(..) | FenceLine::Plain => self.line = FenceLine::Plain,
        }
    }

    fn step(&mut self, byte: u8) {
        self.column = if byte == b'\t' { self.column / INDENT_MAX * INDENT_MAX + INDENT_MAX } else { self.column + 1 };
    }

    fn read_prefix(&mut self, byte: u8) {
        if matches!(byte, b' ' | b'\t') {
            self.step(byte);
            if std::mem::take(&mut self.takes_blank) {
                self.base = self.column;
            }
            return;
        }
        self.takes_blank = false;
        if byte == b'\r' {
            return;
        }
        let quoted = self.open.is_none_or(|open| self.quotes < open.quotes);
        if byte == b'>' && quoted && self.indent() < INDENT_MAX {
            self.quotes += 1;
            self.column += 1;
            (self.base, self.takes_blank) = (self.column, true);
            return;
        }
        if let Some(open) = self.open {
            let inside = self.quotes >= open.quotes && self.column >= open.offset;
            if inside {
                let indent = self.column.saturating_sub(self.base.max(open.offset));
                self.marks = self.at - 1;
                self.line = if byte == open.mark && indent < INDENT_MAX { FenceLine::Marks(byte, 1) } else { FenceLine::Plain };
                return;
            }
            // What it stands in has ended, and so has it.
            self.leave();
        }
        if self.items_quotes != self.quotes {
            self.items.clear();
            self.items_quotes = self.quotes;
        }
        let indent = self.indent();
        self.marks = self.at - 1;
        self.line = match byte {
            _ if indent >= INDENT_MAX => FenceLine::Plain,
            b'`' | b'~' => FenceLine::Marks(byte, 1),
            b'-' | b'+' | b'*' => {
                self.column += 1;
                FenceLine::Bullet
            }
            b'0'..=b'9' => {
                self.column += 1;
                FenceLine::Number(1)
            }
            _ => FenceLine::Plain,
        };
    }

    /// Indentation at the current column, relative to the list item that it is in; items that it isn't in are closed.
    fn indent(&mut self) -> usize {
        if self.open.is_none() && self.items_quotes == self.quotes {
            while self.items.last().is_some_and(|offset| *offset > self.column) {
                self.items.pop();
            }
            if let Some(offset) = self.items.last() {
                self.base = self.base.max(*offset);
            }
        }
        self.column.saturating_sub(self.base)
    }

    /// Ends the open fence before the current line.
    fn leave(&mut self) {
        self.open = None;
        self.changes.push_back(Change { at: self.start, ..Change::default() });
    }

    fn mark(&mut self, mark: u8, count: usize, info: &str) {
        let change = match self.open {
            Some(open) if mark == open.mark && count >= open.count && info.is_empty() => {
                self.open = None;
                Change { at: self.at, ..Change::default() }
            }
            None if count >= MARKS_MIN => {
                let offset = if self.items_quotes == self.quotes { self.items.last().copied().unwrap_or(0) } else { 0 };
                self.open = Some(Fence { mark, count, line: self.start, marks: self.marks, quotes: self.quotes, offset });
                Change { at: self.at, mode: mode_of(info), fence: self.open }
            }
            Some(_) | None => return,
        };
        self.changes.push_back(change);
    }
}

/// Languages read as JSON: JSON itself, texts that aren't code, and labels without meaning.
const READABLE: [&str; 20] = [
    "",
    "json",
    "jsonc",
    "json5",
    "jsonl",
    "ndjson",
    "jsonld",
    "geojson",
    "text",
    "txt",
    "plain",
    "plaintext",
    "output",
    "none",
    "result",
    "response",
    "tool_result",
    "tool_output",
    "tool_response",
    "markdown",
];
/// Programming languages.
const PROGRAMMING: [&str; 74] = [
    "python",
    "py",
    "python3",
    "javascript",
    "js",
    "mjs",
    "node",
    "typescript",
    "ts",
    "tsx",
    "jsx",
    "rust",
    "rs",
    "go",
    "golang",
    "java",
    "c",
    "h",
    "cpp",
    "c++",
    "cc",
    "csharp",
    "cs",
    "c#",
    "fsharp",
    "kotlin",
    "kt",
    "swift",
    "ruby",
    "rb",
    "php",
    "perl",
    "lua",
    "r",
    "julia",
    "scala",
    "dart",
    "sql",
    "bash",
    "sh",
    "shell",
    "zsh",
    "fish",
    "powershell",
    "ps1",
    "bat",
    "cmd",
    "makefile",
    "dockerfile",
    "graphql",
    "haskell",
    "elixir",
    "erlang",
    "clojure",
    "css",
    "scss",
    "less",
    "vue",
    "svelte",
    "solidity",
    "zig",
    "nim",
    "ocaml",
    "matlab",
    "groovy",
    "hcl",
    "terraform",
    "proto",
    "protobuf",
    "jinja",
    "latex",
    "tex",
    "diff",
    "html",
];

fn mode_of(info: &str) -> TextMode {
    let language = info.split([' ', '\t', '\r', '{', ',']).next().unwrap_or_default();
    let is = |names: &[&str]| names.iter().any(|name| language.eq_ignore_ascii_case(name));
    match () {
        () if is(&READABLE) => TextMode::Json,
        () if is(&PROGRAMMING) => TextMode::Code,
        () => TextMode::Data,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mode of the `X` in each text, as CommonMark has it.
    #[test]
    fn fences_of_commonmark() {
        for (text, mode) in [
            ("```\nX", TextMode::Json),
            ("``\nX", TextMode::Prose),
            ("   ```\nX", TextMode::Json),
            ("    ```\nX", TextMode::Prose),
            ("\t```\nX", TextMode::Prose),
            ("a\n~~~ py\nX", TextMode::Code),
            ("``` a`b\nX", TextMode::Prose),
            ("~~~ a`b\nX", TextMode::Data),
            ("````\n```\nX", TextMode::Json),
            ("```\n````\nX", TextMode::Prose),
            ("```\n``` x\nX", TextMode::Json),
            ("```\n~~~\nX", TextMode::Json),
            ("```\n    ```\nX", TextMode::Json),
            ("```\n   ```  \nX", TextMode::Prose),
            ("```yaml\nX", TextMode::Data),
            ("> ```py\n> X", TextMode::Code),
            ("> ```py\nX", TextMode::Prose),
            ("> ```py\n\nX", TextMode::Prose),
            ("> ```py\n>\n> X", TextMode::Code),
            ("> ```py\n> ```\n> X", TextMode::Prose),
            (">>```py\n>> X", TextMode::Code),
            (">> ```py\n> X", TextMode::Prose),
            ("```py\n> ```\nX", TextMode::Code),
            ("- ```py\n  X", TextMode::Code),
            ("- ```py\n\n  X", TextMode::Code),
            ("- ```py\nX", TextMode::Prose),
            ("- ```py\n  ```\n  X", TextMode::Prose),
            ("1. a\n\n   ```py\n   X", TextMode::Code),
            ("1. a\n\n   ```py\n   x\n\nX", TextMode::Prose),
            ("10) ```py\n    X", TextMode::Code),
            ("- a\n  - b\n    ```py\n    X", TextMode::Code),
            ("- a\n\n      ```py\n      X", TextMode::Prose),
            ("-```py\nX", TextMode::Prose),
            ("**```py\nX", TextMode::Prose),
            ("```py\r\nX", TextMode::Code),
            ("```py\r\n```\r\nX", TextMode::Prose),
        ] {
            for step in [1, 3, text.len()] {
                let (mut tail, mut fences) = (TextWindow::default(), CodeFenceTracker::default());
                for piece in text.as_bytes().chunks(step) {
                    tail.push(std::str::from_utf8(piece).unwrap());
                    fences.advance(&tail);
                }
                assert_eq!(fences.mode(text.rfind('X').unwrap()), mode, "{text}");
            }
        }
    }
}
