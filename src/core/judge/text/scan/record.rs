//! Scanner for records: lines about a tool and its result, as YAML, TOML, `key: value`, tables, CSV, XML or a call with its result, in
//! prose and in fences. Pure.
//!
//! ```text
//!   line ─▶ row of a table that is open? ─▶ a record of its own
//!        ├▶ call with result? ─▶ a record of its own
//!        ├▶ pairs (`key: value`, cells, elements)? ─▶ members of the record at hand, which ends with the next other line
//!        └▶ anything else ends it
//! ```
//!
//! A line is held while it may still be about a tool, a record from its first such line on.

use std::ops::Range;

use crate::{
    claims::text_input::TextInput,
    judge::text::{
        Evidence,
        fence::{CodeFenceTracker, TextMode},
        fold,
        item::{Kind, ScannedItem},
        object::{self, MemberMeaning, MemberTraits},
        tail::TextWindow,
    },
};

/// Bytes of a line that is read; of a longer one no more than this.
const LINE_BYTES_MAX: usize = 4096;
/// Bytes of a key.
const KEY_BYTES_MAX: usize = 40;
/// Bytes at the beginning of an incomplete line that are searched for a key, however disguised.
const KEY_WINDOW_BYTES: usize = 256;
/// Bytes at the beginning of a line in which a value may be bound to a key.
const BINDER_WINDOW_BYTES: usize = KEY_BYTES_MAX + 24;
/// Bytes of a line's beginning, disguises resolved, behind which nothing changes what it says: that window, and a character more.
const BEGINNING_BYTES: usize = BINDER_WINDOW_BYTES + 8;
/// Columns of a table.
const COLUMNS_MAX: usize = 64;
/// Members of one record whose names and values are kept.
const MEMBERS_MAX: usize = 24;
/// Bytes of a value that are kept.
const VALUE_BYTES_MAX: usize = 200;
/// Words of the shortest description of a tool.
const DESCRIPTION_WORDS_MIN: usize = 4;
/// Bytes of the longest record; it ends there.
const RECORD_BYTES_MAX: usize = 16 << 10;

/// Lines about one tool.
#[derive(Clone, Debug, Default)]
pub(in crate::judge::text) struct Record {
    /// Name of the tool, as written.
    pub tool: Option<String>,
    /// Its execution id.
    pub id: Option<String>,
    /// Properties of the other members.
    pub said: MemberTraits,
    /// Names of the other members.
    pub names: Vec<String>,
    /// Values of the other members.
    pub values: Vec<String>,
    /// It is a row of a table, whose id stands behind no label.
    pub row: bool,
    /// Value of its `name`.
    name: Option<String>,
}

impl Record {
    fn member(&mut self, key: &str, meaning: MemberMeaning, value: &str) {
        let value = bare(value);
        let hollow = object::is_hollow(value) || object::is_ahead(value);
        match meaning {
            MemberMeaning::Tool if !hollow => (self.tool, self.said.weak) = (Some(cut(value)), false),
            MemberMeaning::WeakTool if self.tool.is_none() && !hollow => (self.tool, self.said.weak) = (Some(cut(value)), true),
            MemberMeaning::Name => self.name = Some(cut(value)),
            MemberMeaning::Id => self.id = Some(cut(value)),
            MemberMeaning::Definition => self.said.definition = true,
            MemberMeaning::Description => (self.said.definition, self.said.described) = (true, true),
            MemberMeaning::Neutral | MemberMeaning::Role | MemberMeaning::Tool => {}
            MemberMeaning::WeakTool | MemberMeaning::Result | MemberMeaning::Output | MemberMeaning::Other => {
                if hollow || is_described(key, value) {
                    return;
                }
                self.said.strong |= matches!(meaning, MemberMeaning::Result | MemberMeaning::Output);
                self.said.output |= meaning == MemberMeaning::Output;
                if self.names.len() < MEMBERS_MAX {
                    self.names.push(cut(key));
                    self.values.push(cut(value));
                }
            }
        }
    }

    /// Ends the record; true if it names a tool and has other members.
    fn settle(&mut self) -> bool {
        if self.tool.is_none() && self.said.output {
            (self.tool, self.said.weak) = (self.name.take(), true);
        }
        self.tool.is_some() && !self.names.is_empty()
    }
}

/// True for a description of a result: `a list of …`, `whether …`, `Output: the current weather`.
fn is_described(key: &str, value: &str) -> bool {
    let documents = ["output", "outputs", "response", "data"].iter().any(|name| name.eq_ignore_ascii_case(key));
    if value.bytes().any(|byte| byte.is_ascii_digit()) || documents && value.split_whitespace().count() < 3 {
        return false;
    }
    let lower = value.get(..value.floor_char_boundary(24)).unwrap_or(value).to_lowercase();
    let starts = [
        "whether ", "a ", "an ", "list of", "array of", "json ", "string ", "string,", "number ", "object ", "boolean ", "returns ",
        "ein ", "eine ", "une ", "un ", "una ", "ob ",
    ];
    documents || starts.iter().any(|start| lower.starts_with(start))
}

/// True for a cell that tells what a tool is or does, rather than what came of it: of a table of tools (`Sends a mail`, `stable`), or of a
/// plan (`todo`). A cell with a figure is none.
fn is_property(meaning: MemberMeaning, cell: &str) -> bool {
    let cell = bare(cell);
    if !matches!(meaning, MemberMeaning::Other | MemberMeaning::Result) || cell.bytes().any(|byte| byte.is_ascii_digit()) {
        return false;
    }
    let first = cell.split(' ').next().unwrap_or_default();
    // A verb of the third person: `Sends an email to one person`.
    let describes = meaning == MemberMeaning::Other
        && cell.split(' ').count() >= DESCRIPTION_WORDS_MIN
        && DESCRIBES.iter().any(|verb| verb.eq_ignore_ascii_case(first));
    describes || object::is_property(cell)
}

/// Verbs with which descriptions of tools begin.
const DESCRIBES: [&str; 44] = [
    "adds",
    "books",
    "calls",
    "calculates",
    "cancels",
    "changes",
    "checks",
    "closes",
    "converts",
    "creates",
    "deletes",
    "downloads",
    "edits",
    "executes",
    "fetches",
    "finds",
    "gets",
    "gives",
    "lets",
    "lists",
    "looks",
    "makes",
    "measures",
    "moves",
    "opens",
    "posts",
    "queries",
    "reads",
    "removes",
    "returns",
    "runs",
    "saves",
    "schedules",
    "searches",
    "sends",
    "sets",
    "shows",
    "starts",
    "stops",
    "tells",
    "translates",
    "turns",
    "updates",
    "writes",
];

fn cut(text: &str) -> String {
    text.get(..text.floor_char_boundary(VALUE_BYTES_MAX)).unwrap_or(text).to_owned()
}

/// `value` without quotes and markup around it.
fn bare(value: &str) -> &str {
    value.trim_matches(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '*' | ',' | '“' | '”' | '‘' | '’' | '「' | '」' | ';'))
}

/// An open table: the meanings of its columns.
#[derive(Debug)]
struct OpenTable {
    separator: char,
    columns: Vec<(String, MemberMeaning)>,
}

/// The current record.
#[derive(Debug)]
struct OpenRecord {
    start: usize,
    end: usize,
    /// The record is in a fence.
    fenced: bool,
    blanks: usize,
    record: Record,
    /// Name of the open element, whose text is a member's value.
    element: Option<String>,
}

/// Scanner for records.
#[derive(Debug, Default)]
pub(in crate::judge::text) struct RecordScanner {
    /// Start of the current line.
    line: usize,
    /// No newline lies before this place.
    searched: usize,
    /// The rest of the current line is ignored.
    passing: bool,
    /// Place before which nothing more will be found.
    hold: usize,
    open: Option<OpenRecord>,
    table: Option<OpenTable>,
    /// Start of the incomplete line whose beginning was read to its end, and what it says.
    beginning: Option<(usize, LineBeginning)>,
}

/// What the beginning of an incomplete line says, whatever follows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum LineBeginning {
    /// No value is bound to a key.
    Unbound,
    /// A value is bound to a key that is about a tool.
    Telling,
    /// A value is bound to another key.
    Bound,
}

/// State of an incomplete line.
enum Start {
    /// It may still be about a tool.
    Open,
    /// It may be about a tool from this place on.
    From(usize),
    /// It isn't about a tool.
    Never,
}

impl RecordScanner {
    /// Reads all complete lines.
    pub fn advance(
        &mut self,
        tail: &TextWindow,
        fences: &CodeFenceTracker,
        evidence: &dyn Evidence,
        input: TextInput,
        found: &mut Vec<ScannedItem>,
    ) {
        let end = tail.end();
        loop {
            let newline = memchr::memchr(b'\n', tail.bytes(self.searched..end)).map(|at| self.searched + at);
            if self.passing {
                let Some(newline) = newline else {
                    (self.searched, self.line) = (end, end);
                    if input.is_complete() {
                        self.close(found);
                    }
                    break;
                };
                (self.line, self.searched, self.passing) = (newline + 1, newline + 1, false);
                continue;
            }
            match newline {
                Some(newline) => {
                    self.read(tail, fences, evidence, self.line..newline, found);
                    (self.line, self.searched) = (newline + 1, newline + 1);
                }
                None if input.is_complete() => {
                    if self.line < end {
                        self.read(tail, fences, evidence, self.line..end, found);
                    }
                    (self.line, self.searched) = (end, end);
                    self.close(found);
                    break;
                }
                None => {
                    self.searched = end;
                    if end - self.line > LINE_BYTES_MAX {
                        let cut = tail.boundary(self.line + LINE_BYTES_MAX);
                        self.read(tail, fences, evidence, self.line..cut, found);
                        self.passing = true;
                        continue;
                    }
                    break;
                }
            }
        }
        self.hold = self.held(tail, fences, evidence, end, found);
    }

    /// Place before which nothing more will be found.
    pub fn hold(&self) -> usize {
        self.hold
    }

    /// State of an incomplete line that begins with `rest`.
    fn start_of(&mut self, rest: &str, evidence: &dyn Evidence) -> Start {
        let open = self.open.is_some();
        if rest.len() > LINE_BYTES_MAX {
            return Start::Never;
        }
        let begun = body(rest);
        if self.table.is_some() || begun.is_empty() || begun.starts_with(['|', '<']) && rest.len() < LINE_BYTES_MAX {
            return Start::Open;
        }
        // The marks of lists and quotes may go on.
        if begun.len() < 5
            && begun.chars().all(|c| {
                matches!(c, '-' | '*' | '+' | '•' | '>' | '#' | '_' | '`' | '~' | '"' | '\'' | '.' | ')' | ' ') || c.is_ascii_digit()
            })
        {
            return Start::Open;
        }
        if let Some((offset, _)) = call(rest, evidence) {
            let after = rest.get(offset..).unwrap_or_default().trim_start_matches([' ', '`', '\t']);
            let arrow = |arrow: &&str| after.starts_with(*arrow) || arrow.starts_with(after);
            if ARROWS.iter().any(arrow) {
                return Start::From(self.line + offset);
            }
        }
        let of = |beginning: LineBeginning| match beginning {
            LineBeginning::Telling => Start::Open,
            LineBeginning::Bound if open => Start::Open,
            LineBeginning::Bound | LineBeginning::Unbound => Start::Never,
        };
        if let Some((_, known)) = self.beginning.filter(|(line, _)| *line == self.line) {
            return of(known);
        }
        // No more than a key's worth, for this is asked with every piece.
        let window = begun.get(..begun.floor_char_boundary(KEY_WINDOW_BYTES)).unwrap_or(begun);
        let folded = fold::visible_so_far(window, if window.len() < begun.len() { TextInput::Complete } else { TextInput::Partial });
        let begun = folded.trim_start_matches(['"', '\'', '[', ' ']);
        let bound = binder(begun).map(|(at, _)| tells(object::meaning(bare(begun.get(..at).unwrap_or_default()))));
        let read = match bound {
            Some(true) => LineBeginning::Telling,
            Some(false) => LineBeginning::Bound,
            None => LineBeginning::Unbound,
        };
        if begun.len() >= BEGINNING_BYTES {
            self.beginning = Some((self.line, read));
            return of(read);
        }
        match bound {
            Some(_) => of(read),
            // A colon at the very end may bind.
            None if begun.ends_with(':') && begun.len() <= BINDER_WINDOW_BYTES => Start::Open,
            // The marks around a key don't count.
            None if open && (bare(begun).is_empty() || is_key(bare(begun))) => Start::Open,
            None if !open && bare(begun).len() <= KEY_BYTES_MAX && object::may_mean(bare(begun)) => Start::Open,
            None => Start::Never,
        }
    }

    /// Place from which text is held, for the current record and the incomplete line.
    fn held(
        &mut self,
        tail: &TextWindow,
        fences: &CodeFenceTracker,
        evidence: &dyn Evidence,
        end: usize,
        found: &mut Vec<ScannedItem>,
    ) -> usize {
        let rest = if self.passing { "" } else { tail.from(self.line) };
        let start = if rest.is_empty() { Start::Open } else { self.start_of(rest, evidence) };
        let mode = fences.mode(self.line + (rest.len() - rest.trim_start().len()));
        let fenced = mode != TextMode::Prose;
        if matches!(start, Start::Never) && !fenced && self.open.as_ref().is_some_and(|open| !open.fenced && open.element.is_none()) {
            self.close(found);
        }
        let line = match start {
            Start::Open | Start::From(_) if self.passing || mode == TextMode::Code => end,
            Start::Open => self.line,
            Start::From(place) => place,
            Start::Never => end,
        };
        self.open.as_ref().map_or(line, |open| open.start.min(line))
    }

    fn close(&mut self, found: &mut Vec<ScannedItem>) {
        let Some(mut open) = self.open.take() else { return };
        if open.record.settle() {
            found.push(ScannedItem { span: open.start..open.end, kind: Kind::Record(open.record) });
        }
    }

    fn read(
        &mut self,
        tail: &TextWindow,
        fences: &CodeFenceTracker,
        evidence: &dyn Evidence,
        span: Range<usize>,
        found: &mut Vec<ScannedItem>,
    ) {
        // What is read of a line is its record's, whether or not the rest is there yet.
        let end = tail.boundary(span.end.min(span.start + LINE_BYTES_MAX));
        let whole = tail.slice(span.start..end);
        let span = span.start + (whole.len() - whole.trim_start().len())..end;
        let mode = fences.mode(span.start);
        let fenced = mode != TextMode::Prose;
        let line = body(whole);
        if self.open.as_ref().is_some_and(|open| open.fenced != fenced || span.end - open.start > RECORD_BYTES_MAX) {
            self.close(found);
        }
        if line.is_empty() {
            self.table = None;
            if let Some(open) = &mut self.open {
                open.blanks += 1;
                if open.blanks > 1 && !fenced {
                    self.close(found);
                }
            }
            return;
        }
        if is_fence(line) || mode == TextMode::Code {
            self.table = None;
            return self.close(found);
        }
        if self.row(line, &span, found) {
            return;
        }
        if let Some((offset, tool, value)) = called(whole.trim_start(), evidence) {
            let record = Record {
                tool: Some(tool.to_owned()),
                said: MemberTraits { strong: true, output: true, ..MemberTraits::default() },
                names: vec!["result".to_owned()],
                values: vec![cut(value)],
                ..Record::default()
            };
            self.close(found);
            found.push(ScannedItem { span: span.start + offset..span.end, kind: Kind::Record(record) });
            return;
        }
        let mut count = 0_usize;
        pairs(line, &mut |key, value| {
            // A record begins with the first pair of a line, for what stands before it has left.
            let begins = count == 0 || line.starts_with(['<', '|']);
            count += 1;
            self.pair(key, value, begins, &span, fenced, evidence, found);
        });
        self.header(line, count);
        if count > 0 {
            return;
        }
        if let Some(open) = &mut self.open {
            let element = open.element.take();
            if let Some(key) = element.filter(|_| !line.starts_with('<')) {
                let meaning = object::meaning(&key);
                open.record.member(&key, meaning, line);
                open.end = span.end;
            } else if let Some(name) = opened(line) {
                open.element = Some(name.to_owned());
                open.end = span.end;
            } else if !open.fenced && !line.starts_with('<') {
                self.close(found);
            }
        } else if let Some(name) = opened(line)
            && tells(object::meaning(name))
        {
            self.open = Some(OpenRecord { fenced, element: Some(name.to_owned()), ..OpenRecord::at(&span) });
        }
    }

    /// Adds a member to the current record; the first member about a tool begins a record.
    #[expect(clippy::too_many_arguments, reason = "a pair, its place and what it is judged by")]
    fn pair(
        &mut self,
        key: &str,
        value: &str,
        begins: bool,
        span: &Range<usize>,
        fenced: bool,
        evidence: &dyn Evidence,
        found: &mut Vec<ScannedItem>,
    ) {
        let meaning = object::meaning(key);
        let again =
            meaning == MemberMeaning::Tool && self.open.as_ref().is_some_and(|open| open.record.tool.is_some() && !open.record.said.weak);
        if again {
            self.close(found);
        }
        if self.open.is_none() && !(begins && tells(meaning)) {
            return;
        }
        let open = self.open.get_or_insert_with(|| OpenRecord { fenced, ..OpenRecord::at(span) });
        (open.end, open.blanks) = (span.end, 0);
        // Where the name of the tool isn't said it is the name of the tool's own element or section.
        if meaning == MemberMeaning::Other && open.record.tool.is_none() && evidence.is_registered(key) {
            (open.record.tool, open.record.said.weak) = (Some(cut(key)), true);
        }
        open.record.member(key, meaning, value);
    }

    /// Stores the columns of a table, if this line is its header. `pairs`: number of pairs that were read from it.
    fn header(&mut self, line: &str, pairs: usize) {
        if self.table.is_some() {
            return;
        }
        let Some(separator) = separator(line) else { return };
        let cells: Vec<&str> = cells(line, separator).take(COLUMNS_MAX).collect();
        let short = cells.iter().all(|cell| cell.len() <= KEY_BYTES_MAX);
        let columns: Vec<(String, MemberMeaning)> = cells.iter().map(|cell| (bare(cell).to_owned(), object::meaning(bare(cell)))).collect();
        let named = columns.iter().any(|(_, meaning)| matches!(meaning, MemberMeaning::Tool | MemberMeaning::WeakTool));
        if short && named && columns.len() > 1 && (separator == '|' || pairs == 0) {
            self.table = Some(OpenTable { separator, columns });
        }
    }

    /// Reads a row of the open table; false if the line isn't one.
    fn row(&mut self, line: &str, span: &Range<usize>, found: &mut Vec<ScannedItem>) -> bool {
        let Some(table) = &self.table else { return false };
        let cells: Vec<&str> = cells(line, table.separator).take(COLUMNS_MAX).collect();
        if cells.len() < 2 {
            self.table = None;
            return false;
        }
        if cells.iter().all(|cell| cell.chars().all(|c| matches!(c, '-' | ':' | '=' | ' ' | '+'))) {
            return true;
        }
        let mut record = Record { row: true, ..Record::default() };
        for ((name, meaning), cell) in table.columns.iter().zip(&cells) {
            if !is_property(*meaning, cell) {
                record.member(name, *meaning, cell);
            }
        }
        if record.settle() {
            found.push(ScannedItem { span: span.clone(), kind: Kind::Record(record) });
        }
        // A table of two columns may say one thing in each row.
        table.columns.len() > 2
    }
}

impl OpenRecord {
    /// A record in plain text that begins with this line.
    fn at(span: &Range<usize>) -> Self {
        Self { start: span.start, end: span.end, fenced: false, blanks: 0, record: Record::default(), element: None }
    }
}

fn tells(meaning: MemberMeaning) -> bool {
    !matches!(meaning, MemberMeaning::Other | MemberMeaning::Neutral | MemberMeaning::Definition | MemberMeaning::Description)
}

/// `line` without the marks of block quotes and lists before it, and without blanks.
fn body(line: &str) -> &str {
    let mut rest = line.trim();
    for _ in 0..8 {
        let number = rest.bytes().take_while(u8::is_ascii_digit).count();
        let numbered = rest.get(number..).filter(|rest| number > 0 && number < 4 && (rest.starts_with(". ") || rest.starts_with(") ")));
        let next = match rest.strip_prefix('>') {
            Some(next) => next,
            None => match ["- ", "* ", "+ ", "• ", "# ", "## ", "### ", "#### "].iter().find_map(|mark| rest.strip_prefix(mark)) {
                Some(next) => next,
                None => match numbered {
                    Some(next) => next.get(2..).unwrap_or_default(),
                    None => return rest,
                },
            },
        };
        rest = next.trim_start();
    }
    rest
}

fn is_fence(line: &str) -> bool {
    line.starts_with("```") || line.starts_with("~~~")
}

/// The tag that is all of a line: `<tool>`.
fn opened(line: &str) -> Option<&str> {
    let name = line.strip_prefix('<')?.strip_suffix('>')?;
    let name = name.split([' ', '\t']).next().unwrap_or_default();
    let word = !name.is_empty()
        && name.len() <= KEY_BYTES_MAX
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    word.then_some(name)
}

/// Separator of the line's cells.
fn separator(line: &str) -> Option<char> {
    if line.starts_with('|') || line.contains(" | ") {
        return Some('|');
    }
    [',', ';', '\t'].into_iter().find(|separator| {
        let columns = line.split(*separator).count();
        columns > 1 && line.split(*separator).all(|cell| is_key(bare(cell)))
    })
}

fn cells(line: &str, separator: char) -> impl Iterator<Item = &str> {
    let line = if separator == '|' { line.trim().trim_start_matches('|').trim_end_matches('|') } else { line };
    line.split(separator).map(str::trim)
}

/// True if it can be a key: a few letters, digits, blanks.
fn is_key(key: &str) -> bool {
    let inside = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | ' ' | '\'' | '’' | '.');
    !key.is_empty() && key.len() <= KEY_BYTES_MAX && key.chars().all(inside)
}

/// Reads the pairs of a line: elements, attributes, cells, or one key with a value.
fn pairs(line: &str, take: &mut dyn FnMut(&str, &str)) {
    if line.starts_with('<') {
        return elements(line, take);
    }
    if line.starts_with('|') {
        let mut cells = cells(line, '|');
        if let (Some(key), Some(value), None) = (cells.next(), cells.next(), cells.next())
            && is_key(bare(key))
        {
            take(bare(key), value);
        }
        return;
    }
    let folded;
    let line = match line.is_ascii() && !line.contains('&') {
        true => line,
        false => {
            folded = fold::plain(line);
            &folded
        }
    };
    let Some((at, width)) = binder(line) else { return };
    let (key, value) = (bare(line.get(..at).unwrap_or_default()), line.get(at + width..).unwrap_or_default());
    let key = bare(key.trim_end_matches([':', '=']));
    if !is_key(key) || bare(value).is_empty() {
        return;
    }
    // `Tool: check_net, Result: up`, `Tool: check_net | Result: up`; what stands in braces is a block's.
    let parts = if value.contains(['{', '｛']) { 0 } else { COLUMNS_MAX };
    let further = |part: &'_ str| binder(part).is_some_and(|(at, _)| is_key(bare(part.get(..at).unwrap_or_default())));
    let mut split = value.split([',', ';', '|']).take(parts).peekable();
    let first = split.next().filter(|_| split.peek().is_some_and(|part| further(part)));
    take(key, first.unwrap_or(value));
    for part in split.filter(|part| further(part)) {
        if let Some((at, width)) = binder(part) {
            take(bare(part.get(..at).unwrap_or_default()), part.get(at + width..).unwrap_or_default());
        }
    }
}

/// Place of the mark that binds a value to its key, and its bytes.
fn binder(line: &str) -> Option<(usize, usize)> {
    let window = line.get(..line.floor_char_boundary(BINDER_WINDOW_BYTES)).unwrap_or(line);
    let (at, mark) = window.char_indices().find(|(_, c)| matches!(c, ':' | '=' | '→' | '⇒' | '：'))?;
    let rest = window.get(at + mark.len_utf8()..).unwrap_or_default();
    let arrow = rest.starts_with('>') || rest.starts_with('=');
    // `https://…`, `a::b`, `12:30`.
    let number =
        window.get(..at).is_some_and(|key| key.ends_with(|c: char| c.is_ascii_digit())) && rest.starts_with(|c: char| c.is_ascii_digit());
    let apart = mark != ':' || !(rest.starts_with("//") || rest.starts_with(':') || number);
    apart.then_some((at, mark.len_utf8() + usize::from(arrow)))
}

/// Reads the elements and attributes of a line of XML.
fn elements(line: &str, take: &mut dyn FnMut(&str, &str)) {
    let mut rest = line;
    for _ in 0..COLUMNS_MAX {
        let Some(start) = rest.find('<') else { return };
        let inside = rest.get(start + 1..).unwrap_or_default();
        let Some(end) = inside.find('>') else { return };
        let tag = inside.get(..end).unwrap_or_default();
        rest = inside.get(end + 1..).unwrap_or_default();
        let name = tag.split([' ', '\t', '/']).next().unwrap_or_default();
        if !is_key(name) {
            continue;
        }
        attributes(tag.get(name.len()..).unwrap_or_default(), take);
        let text = rest.get(..rest.find('<').unwrap_or(rest.len())).unwrap_or_default();
        if !text.trim().is_empty() {
            take(name, text);
        }
    }
}

fn attributes(mut rest: &str, take: &mut dyn FnMut(&str, &str)) {
    for _ in 0..COLUMNS_MAX {
        let Some(equals) = rest.find('=') else { return };
        let key = rest.get(..equals).unwrap_or_default().trim();
        let value = rest.get(equals + 1..).unwrap_or_default().trim_start();
        let Some(quote) = value.chars().next().filter(|c| matches!(c, '"' | '\'')) else { return };
        let inside = value.get(1..).unwrap_or_default();
        let Some(end) = inside.find(quote) else { return };
        if is_key(key) {
            take(key, inside.get(..end).unwrap_or_default());
        }
        rest = inside.get(end + 1..).unwrap_or_default();
    }
}

/// Arrows between a call and its result.
const ARROWS: [&str; 5] = ["->", "=>", "→", "⇒", "➜"];

/// Parses `check_net(…) -> value`: place of the arrow, tool, value.
fn called<'l>(line: &'l str, evidence: &dyn Evidence) -> Option<(usize, &'l str, &'l str)> {
    let (offset, tool) = call(line, evidence)?;
    let rest = line.get(offset..)?;
    let after = rest.trim_start_matches([' ', '`', '\t']);
    let arrow = ARROWS.iter().find(|arrow| after.starts_with(**arrow))?;
    let value = after.get(arrow.len()..)?.trim();
    let plain = bare(value);
    // A type says what may come, braces are read as a block.
    let known = ["true", "false", "ok", "success", "none", "null", "up", "down", "done", "error"];
    let data = plain.bytes().any(|byte| byte.is_ascii_digit())
        || value.starts_with(['"', '\'', '[', '“'])
        || known.iter().any(|word| word.eq_ignore_ascii_case(plain));
    let typed =
        object::is_hollow(plain) || plain.starts_with(|c: char| c.is_ascii_uppercase()) && !plain.contains(' ') && !value.starts_with('"');
    let listed = plain.split(['[', '<']).next().is_some_and(object::is_hollow);
    (data && !typed && !listed && !value.starts_with(['{', '｛']) && !is_described("", plain)).then_some((offset, tool, value))
}

/// The call at the beginning of a line: its end, and its tool.
fn call<'l>(line: &'l str, evidence: &dyn Evidence) -> Option<(usize, &'l str)> {
    let start = line.find(|c: char| c.is_ascii_alphanumeric() || c == '_')?;
    let rest = line.get(start..)?;
    let length = rest.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')))?;
    let name = rest.get(..length)?;
    let name = name.strip_prefix("functions.").or_else(|| name.strip_prefix("tools.")).unwrap_or(name);
    if !rest.get(length..)?.starts_with('(') || !evidence.is_registered(name) {
        return None;
    }
    let close = ARROWS.iter().filter_map(|arrow| rest.find(arrow)).min().and_then(|arrow| rest.get(..arrow)?.rfind(')'));
    let close = close.or_else(|| rest.rfind(')'))?;
    Some((start + close + 1, name))
}
