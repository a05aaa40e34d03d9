//! Scanner for blocks: `{…}` as JSON, JSON5 or a Python dict, read leniently and once. Pure.
//!
//! A brace begins a block only if a quote, a closing brace or `name:` follows; otherwise it is prose or code. A block that breaks off is
//! judged by the part that was read, and its last string is read again for braces inside it. A string holds no quote of its own kind, so
//! that happens at most once per kind, and reading stays linear. Disguises that a parser fails on and a reader doesn't notice are folded:
//! invisible characters, comments, typographic and full-width marks, entities, the marks of block quotes.

use std::ops::Range;

use crate::{
    claims::text_input::TextInput,
    judge::text::{
        TextRules,
        fence::{CodeFenceTracker, TextMode},
        fold::{self, VisibleSymbol},
        item::{Kind, ScannedBlock, ScannedItem},
        object::{self, BlockObject, MemberValue},
        tail::TextWindow,
    },
};

/// Levels of nesting of a block.
const DEPTH_MAX: usize = 64;
/// Bytes of a bare word, a member's name, or the blanks before it.
const BARE_BYTES_MAX: usize = 256;

/// Bytes before a block that are searched for its introduction.
pub(in crate::judge::text) const LEAD_BYTES_MAX: usize = 256;
/// Bytes of the longest entity that is taken for a quote.
const ENTITY_BYTES_MAX: usize = 64;
/// Objects of one block that are kept because of the name of the member that holds them.
const UNDER_MAX: usize = 256;
/// Full-width marks, and the ASCII marks that they stand for.
const FULL_WIDTH: [(char, u8); 10] = [
    ('：', b':'),
    ('，', b','),
    ('、', b','),
    ('｛', b'{'),
    ('｝', b'}'),
    ('［', b'['),
    ('］', b']'),
    ('（', b'('),
    ('）', b')'),
    ('＝', b'='),
];

/// Quote around a string.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Quote {
    /// This byte.
    Byte(u8),
    /// Typographic or full-width quotes, double or single.
    Double,
    Single,
    /// `&quot;` and its like, of this character.
    Entity(char),
    /// `\"`.
    Escaped,
}

impl Quote {
    /// Place and bytes of the quote in `rest` that closes the string. `Err`: bytes of `rest` that don't contain it.
    fn close(self, rest: &[u8], input: TextInput) -> Result<(usize, usize), usize> {
        let find = |marks: &[&str]| {
            let mut at = 0;
            while let Some(offset) = rest.get(at..).and_then(|rest| memchr::memchr2(0xe2, 0xef, rest)) {
                at += offset;
                let here = rest.get(at..).unwrap_or_default();
                if marks.iter().any(|mark| here.starts_with(mark.as_bytes())) {
                    return Ok((at, 3));
                }
                at += 1;
            }
            Err(rest.len())
        };
        match self {
            Quote::Byte(byte) => memchr::memchr(byte, rest).map(|at| (at, 1)).ok_or(rest.len()),
            Quote::Double => find(&["”", "“", "„", "‟", "″", "＂"]),
            Quote::Single => find(&["’", "‘", "‚", "‛", "′", "＇"]),
            Quote::Escaped => {
                let found = memchr::memmem::find(rest, b"\\\"").map(|at| (at, 2));
                found.ok_or(if rest.ends_with(b"\\") && input.is_partial() { rest.len() - 1 } else { rest.len() })
            }
            Quote::Entity(quote) => {
                let mut at = 0;
                while let Some(offset) = rest.get(at..).and_then(|rest| memchr::memchr(b'&', rest)) {
                    at += offset;
                    let window = rest.get(at..rest.len().min(at + ENTITY_BYTES_MAX)).unwrap_or_default();
                    let here = window.utf8_chunks().next().map_or("", |chunk| chunk.valid());
                    match fold::next(here, if window.len() == ENTITY_BYTES_MAX { TextInput::Complete } else { input }) {
                        Some((VisibleSymbol::Other(c), length)) if c == quote => return Ok((at, length)),
                        Some((_, length)) => at += length.max(1),
                        None => return Err(at),
                    }
                }
                Err(rest.len())
            }
        }
    }
}

/// Comment that is skipped.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Skip {
    /// A comment up to the end of the line.
    Line,
    /// A comment up to `*/`.
    Comment,
}

/// A token between words: a mark of the grammar, or nothing.
enum BlockMark {
    Byte(u8),
    Quote(Quote),
    Nothing,
    Comment(Skip),
}

/// State of the parser in the grammar.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum BlockState {
    /// Before a member's name or `}`.
    Name,
    /// After a name.
    Colon,
    /// Before a value, or the end of a list.
    Value,
    /// After a value.
    Next,
    /// In a string in this quote that began here.
    Text(Quote, usize),
    /// In a bare word that began here.
    Bare(usize),
}

#[derive(Debug)]
enum BlockFrame {
    Object {
        object: BlockObject,
        name: Range<usize>,
        named: bool,
    },
    List,
    /// The parentheses after a bare word; the word itself is the value.
    Call,
}

#[derive(Debug)]
struct OpenBlock {
    start: usize,
    state: BlockState,
    /// Number of blanks in a row.
    blanks: usize,
    frames: Vec<BlockFrame>,
    objects: Vec<BlockObject>,
    /// Start of the last string's inside, while nothing was read after it.
    string: Option<usize>,
    skip: Option<Skip>,
    /// Only blanks are before the current place in its line.
    fresh: bool,
    unders: usize,
}

/// End of a block.
#[derive(Clone, Copy, Eq, PartialEq)]
enum BlockEnd {
    /// Its brackets are closed.
    Closed,
    /// It ends within its brackets.
    Broken,
}

enum BlockOutcome {
    Closed,
    Broken,
    Hungry,
}

/// Scanner for blocks.
#[derive(Debug, Default)]
pub(in crate::judge::text) struct BlockScanner {
    at: usize,
    open: Option<OpenBlock>,
}

impl BlockScanner {
    /// Reads all available text.
    pub fn advance(
        &mut self,
        tail: &TextWindow,
        fences: &CodeFenceTracker,
        rules: &TextRules,
        input: TextInput,
        found: &mut Vec<ScannedItem>,
    ) {
        // A fence that ends with what it stands in is known to have ended once its next line begins.
        let end = if input.is_complete() { tail.end() } else { fences.known() };
        loop {
            let Some(open) = &mut self.open else {
                let Some(start) = begin(tail, fences, self.at, end) else {
                    self.at = end;
                    return;
                };
                let width = tail.after(start).map_or(1, char::len_utf8);
                self.at = start + width;
                self.open = Some(OpenBlock::new(start, width, lead(tail, fences, start)));
                continue;
            };
            let full = open.start.saturating_add(rules.held_bytes_max);
            let fence = fences.change_after(open.start).filter(|at| *at <= end);
            let limit = end.min(full).min(fence.unwrap_or(end));
            // What is undecided where the bound is, is too long, whether or not what follows is there yet.
            let ends = fence == Some(limit) || input.is_complete() && limit < full;
            match open.read(tail, &mut self.at, limit, if ends { TextInput::Complete } else { TextInput::Partial }) {
                BlockOutcome::Closed => self.close(tail, BlockEnd::Closed, found),
                BlockOutcome::Broken => self.close(tail, BlockEnd::Broken, found),
                BlockOutcome::Hungry if fence == Some(limit) => self.close(tail, BlockEnd::Broken, found),
                BlockOutcome::Hungry if limit == full => {
                    found.push(ScannedItem { span: open.start..tail.boundary(limit), kind: Kind::TooLong });
                    self.at = limit;
                    self.open = None;
                }
                BlockOutcome::Hungry if input.is_complete() => {
                    self.at = limit;
                    self.close(tail, BlockEnd::Broken, found);
                }
                BlockOutcome::Hungry => return,
            }
        }
    }

    /// Place before which nothing more will be found.
    pub fn hold(&self) -> usize {
        self.open.as_ref().map_or(self.at, |open| open.start)
    }

    fn close(&mut self, tail: &TextWindow, end: BlockEnd, found: &mut Vec<ScannedItem>) {
        let complete = end == BlockEnd::Closed;
        let Some(mut open) = self.open.take() else { return };
        let end = tail.boundary(self.at.min(tail.end()));
        open.cut_off(tail, end);
        for frame in open.frames.drain(..).rev() {
            match frame {
                BlockFrame::Object { mut object, .. } => {
                    if object.settle(None) {
                        object.span.end = end;
                        open.objects.push(object);
                    }
                }
                BlockFrame::List | BlockFrame::Call => {}
            }
        }
        if complete || !open.objects.is_empty() {
            found.push(ScannedItem { span: open.start..end, kind: Kind::Block(ScannedBlock { complete, objects: open.objects }) });
        }
        if let (false, Some(string)) = (complete, open.string) {
            self.at = string;
        }
    }
}

/// The next brace before `end` that may begin a block. In a fence of a programming language only a brace that is all of the fence counts,
/// apart from a name that it is assigned to.
fn begin(tail: &TextWindow, fences: &CodeFenceTracker, from: usize, end: usize) -> Option<usize> {
    let mut at = from;
    loop {
        let bytes = tail.bytes(at..end);
        let brace = at + memchr::memchr2(b'{', 0xef, bytes)?;
        at = brace + 1;
        let here = tail.bytes(brace..end);
        if here.first() == Some(&0xef) && !here.starts_with("｛".as_bytes()) {
            continue;
        }
        if fences.mode(brace) != TextMode::Code || is_first(tail, fences, brace) {
            return Some(brace);
        }
    }
}

/// True if only comments, and a name that it is assigned to, are before `brace` in its fence.
fn is_first(tail: &TextWindow, fences: &CodeFenceTracker, brace: usize) -> bool {
    let Some((_, start)) = fences.fence_at(brace).filter(|(_, start)| brace - start <= LEAD_BYTES_MAX) else { return false };
    let before = tail.slice(start..brace).trim_start();
    let comment = |line: &&str| ["#", "//", "--", ">>>", "$ "].iter().any(|mark| line.trim_start().starts_with(mark));
    let mut lines = before.lines().filter(|line| !line.trim().is_empty() && !comment(line));
    let first = lines.next().unwrap_or_default();
    lines.next().is_none()
        && !first.contains(['{', '}', ';'])
        && (first.is_empty() || !before.ends_with('\n') || first.trim_end().ends_with(['=', '(', '[']))
}

/// Introduction of a block: the rest of its line, or the line before; it ends with `:`, `=` or an arrow.
fn lead(tail: &TextWindow, fences: &CodeFenceTracker, brace: usize) -> Option<Range<usize>> {
    let from = tail.boundary(brace.saturating_sub(LEAD_BYTES_MAX));
    let before = tail.slice(from..brace);
    let mut end = before.len();
    for _ in 0..4 {
        let text = before.get(..end)?.trim_end_matches([' ', '\t', '[', '(', '`', '*', '"', '\'', '\r', '｛']);
        let line = text.rfind('\n').map_or(0, |at| at + 1);
        let said = text.get(line..)?;
        let fence = fences.fence_at(brace).is_some_and(|(fence, start)| (fence.line..start).contains(&(from + line)));
        if said.trim_matches([' ', '>', '\t']).is_empty() || fence {
            end = line.checked_sub(1)?;
            continue;
        }
        // Arguments: `check_net({`.
        let called =
            before.get(text.len()..end).is_some_and(|between| between.contains('(')) && text.ends_with(|c: char| c.is_alphanumeric());
        let words = text.to_lowercase();
        let ends = [":", "=", "->", "=>", "→", "⇒", "：", "returned", "returns", "gives", "gave", "is", "was"]
            .iter()
            .any(|end| words.ends_with(end));
        return (ends && !called).then(|| from + line..from + text.len());
    }
    None
}

impl OpenBlock {
    fn new(start: usize, width: usize, lead: Option<Range<usize>>) -> Self {
        let mut object = BlockObject::new(start);
        object.lead = lead;
        let inside = start + width;
        let frames = vec![BlockFrame::Object { object, name: inside..inside, named: false }];
        Self { start, state: BlockState::Name, blanks: 0, frames, objects: Vec::new(), string: None, skip: None, fresh: false, unders: 0 }
    }

    /// The mark at the current place, folded, and its bytes; `None` if more text is needed.
    fn fold(&self, rest: &str, input: TextInput) -> Option<(BlockMark, usize)> {
        let c = rest.chars().next()?;
        let value = self.state == BlockState::Value;
        let one = |mark| Some((mark, c.len_utf8()));
        match c {
            '>' if self.fresh => one(BlockMark::Nothing),
            '`' | '"' | '\'' => one(BlockMark::Quote(Quote::Byte(c as u8))),
            '/' => match rest.as_bytes().get(1) {
                Some(b'/') => Some((BlockMark::Comment(Skip::Line), 2)),
                Some(b'*') => Some((BlockMark::Comment(Skip::Comment), 2)),
                None if input.is_partial() => None,
                Some(_) | None => one(BlockMark::Byte(b'/')),
            },
            '#' if !value || rest.as_bytes().get(1).is_some_and(|next| *next == b' ') => one(BlockMark::Comment(Skip::Line)),
            '#' if rest.len() == 1 && input.is_partial() => None,
            '\\' => match rest.as_bytes().get(1) {
                Some(b'"') => Some((BlockMark::Quote(Quote::Escaped), 2)),
                Some(b'n' | b't' | b'r') => Some((BlockMark::Nothing, 2)),
                Some(b'_') if value => one(BlockMark::Byte(b'\\')),
                None if input.is_partial() => None,
                Some(_) | None => one(BlockMark::Byte(b'\\')),
            },
            '&' => match fold::next(rest, input)? {
                (VisibleSymbol::Other(quote @ ('"' | '\'')), length) => Some((BlockMark::Quote(Quote::Entity(quote)), length)),
                (VisibleSymbol::Other(c), length) if c.is_ascii() && length > 1 => Some((BlockMark::Byte(c as u8), length)),
                (VisibleSymbol::Invisible | VisibleSymbol::Blank(_), length) => Some((BlockMark::Nothing, length)),
                _ => one(BlockMark::Byte(b'&')),
            },
            '<' => match fold::next(rest, input)? {
                (VisibleSymbol::Markup(_), length) => Some((BlockMark::Nothing, length)),
                _ => one(BlockMark::Byte(b'<')),
            },
            '“' | '”' | '„' | '‟' | '″' | '＂' => one(BlockMark::Quote(Quote::Double)),
            '‘' | '’' | '‚' | '‛' | '′' | '＇' => one(BlockMark::Quote(Quote::Single)),
            _ if c.is_ascii_control() => one(BlockMark::Nothing),
            _ if c.is_ascii() => one(BlockMark::Byte(c as u8)),
            _ => match (FULL_WIDTH.iter().find(|(wide, _)| *wide == c), fold::next(rest, input)) {
                (Some((_, byte)), _) => one(BlockMark::Byte(*byte)),
                (None, Some((VisibleSymbol::Invisible | VisibleSymbol::Blank(_), length))) => Some((BlockMark::Nothing, length)),
                (None, _) => Some((BlockMark::Byte(0x80), c.len_utf8())),
            },
        }
    }

    /// Reads up to `limit`. `input` is complete if nothing follows `limit`.
    fn read(&mut self, tail: &TextWindow, at: &mut usize, limit: usize, input: TextInput) -> BlockOutcome {
        while *at < limit {
            let rest = tail.bytes(*at..limit);
            let Some(byte) = rest.first().copied() else { break };
            if let Some(skip) = self.skip {
                let end = match skip {
                    Skip::Line => memchr::memchr(b'\n', rest),
                    Skip::Comment => memchr::memmem::find(rest, b"*/").map(|at| at + 2),
                };
                match end {
                    Some(length) => {
                        *at += length;
                        self.skip = None;
                    }
                    // A `*` at the end may be half of the mark.
                    None if skip == Skip::Comment && byte != b'*' && rest.ends_with(b"*") => *at += rest.len() - 1,
                    None if skip == Skip::Comment && rest == b"*" && input.is_partial() => return BlockOutcome::Hungry,
                    None => *at += rest.len(),
                }
                continue;
            }
            match self.state {
                BlockState::Text(_, start) if self.at_name() && *at - start > BARE_BYTES_MAX => return BlockOutcome::Broken,
                BlockState::Text(Quote::Byte(quote), start) => match memchr::memchr2(quote, b'\\', self.piece(start, *at, rest)) {
                    None => *at += self.piece(start, *at, rest).len(),
                    Some(slash) if rest.get(slash) == Some(&b'\\') => *at += slash + 2,
                    Some(length) => self.close_string(tail, start, at, length, 1),
                },
                BlockState::Text(quote, start) => match quote.close(self.piece(start, *at, rest), input) {
                    Ok((length, width)) => self.close_string(tail, start, at, length, width),
                    Err(0) => return if input.is_complete() { BlockOutcome::Broken } else { BlockOutcome::Hungry },
                    Err(length) => *at += length,
                },
                BlockState::Bare(start) => {
                    if is_bare(byte) && !self.ends_bare(tail, *at) || (byte == b':' && !self.at_name()) {
                        *at += 1;
                        if *at - start > BARE_BYTES_MAX {
                            return BlockOutcome::Broken;
                        }
                    } else if matches!(byte, b'"' | b'\'') && *at - start <= 2 && !self.at_name() {
                        // Python's b'…', u'…', rb'…'.
                        *at += 1;
                        self.string = Some(*at);
                        self.state = BlockState::Text(Quote::Byte(byte), *at);
                    } else if byte == b' ' && !self.at_name() {
                        *at += 1;
                    } else {
                        self.word(tail, start..*at);
                        if byte == b'(' && self.state == BlockState::Next {
                            *at += 1;
                            self.state = BlockState::Value;
                            if !self.nest(BlockFrame::Call) {
                                return BlockOutcome::Broken;
                            }
                        }
                    }
                }
                BlockState::Name | BlockState::Colon | BlockState::Value | BlockState::Next => {
                    if matches!(byte, b' ' | b'\n' | b'\t' | b'\r') {
                        *at += 1;
                        self.blanks += 1;
                        self.fresh |= byte == b'\n';
                        if self.blanks > BARE_BYTES_MAX {
                            return BlockOutcome::Broken;
                        }
                        continue;
                    }
                    let Some((mark, width)) = self.fold(tail.slice(*at..tail.boundary(limit)), input) else { return BlockOutcome::Hungry };
                    let byte = match mark {
                        BlockMark::Nothing => {
                            *at += width;
                            continue;
                        }
                        BlockMark::Comment(skip) => {
                            self.skip = Some(skip);
                            *at += width;
                            continue;
                        }
                        BlockMark::Quote(quote) if matches!(self.state, BlockState::Name | BlockState::Value) => {
                            self.string = Some(*at + width);
                            self.state = BlockState::Text(quote, *at + width);
                            *at += width;
                            (self.blanks, self.fresh) = (0, false);
                            continue;
                        }
                        BlockMark::Quote(_) => return BlockOutcome::Broken,
                        BlockMark::Byte(byte) => byte,
                    };
                    (self.blanks, self.fresh) = (0, false);
                    if !self.mark(tail, byte, *at, width) {
                        return BlockOutcome::Broken;
                    }
                    if !matches!(self.state, BlockState::Bare(_)) {
                        *at += width;
                    }
                    if self.frames.is_empty() {
                        return BlockOutcome::Closed;
                    }
                }
            }
        }
        BlockOutcome::Hungry
    }

    /// True if a non-ASCII character of the grammar ends a bare word at `at`.
    fn ends_bare(&self, tail: &TextWindow, at: usize) -> bool {
        let wide = tail.bytes(at..at + 3);
        matches!(wide.first(), Some(0xef | 0xe3)) && FULL_WIDTH.iter().any(|(mark, _)| wide.starts_with(mark.to_string().as_bytes()))
    }

    fn close_string(&mut self, tail: &TextWindow, start: usize, at: &mut usize, length: usize, width: usize) {
        let inside = start..*at + length;
        *at += length + width;
        self.word(tail, inside);
        self.string = Some(start);
    }

    /// Handles a text that breaks off at `end`: a value that was begun counts as far as it got.
    fn cut_off(&mut self, tail: &TextWindow, end: usize) {
        match self.state {
            BlockState::Text(_, start) | BlockState::Bare(start) if !self.at_name() && start < end => {
                self.value(tail, MemberValue::Plain(start..end))
            }
            BlockState::Name | BlockState::Colon | BlockState::Value | BlockState::Next | BlockState::Text(..) | BlockState::Bare(_) => {}
        }
    }

    /// Part of a string that may be read at once: of a member's name no more than the longest name has.
    fn piece<'r>(&self, start: usize, at: usize, rest: &'r [u8]) -> &'r [u8] {
        let room = (start + BARE_BYTES_MAX + 1).saturating_sub(at);
        if self.at_name() { rest.get(..room).unwrap_or(rest) } else { rest }
    }

    /// True if the current word is a member's name.
    fn at_name(&self) -> bool {
        matches!(self.frames.last(), Some(BlockFrame::Object { named: false, .. }))
    }

    /// Handles one mark of the grammar; false if it isn't allowed there.
    fn mark(&mut self, tail: &TextWindow, byte: u8, at: usize, width: usize) -> bool {
        let in_object = matches!(self.frames.last(), Some(BlockFrame::Object { .. }));
        let string = self.string.take();
        let legal = match (self.state, byte) {
            (BlockState::Name | BlockState::Next, b'}') if in_object => self.shut(tail, at + width),
            (BlockState::Value | BlockState::Next, b']' | b')') if !in_object => self.shut(tail, at + width),
            (BlockState::Name, _)
                if byte.is_ascii_alphabetic() || byte == b'_' || byte == b'$' || (self.frames.len() > 1 && byte.is_ascii_digit()) =>
            {
                self.state = BlockState::Bare(at);
                true
            }
            (BlockState::Colon, b':') => {
                self.state = BlockState::Value;
                true
            }
            (BlockState::Value, b'{') => {
                self.state = BlockState::Name;
                let mut object = BlockObject::new(at);
                if self.unders < UNDER_MAX
                    && let Some(BlockFrame::Object { name, .. }) = self.frames.last()
                {
                    object.under = Some(name.clone());
                    self.unders += 1;
                }
                self.nest(BlockFrame::Object { object, name: at..at, named: false })
            }
            (BlockState::Value, b'[' | b'(') => self.nest(BlockFrame::List),
            (BlockState::Value, _) if is_bare(byte) => {
                self.state = BlockState::Bare(at);
                true
            }
            (BlockState::Next, b',') => {
                self.state = if in_object { BlockState::Name } else { BlockState::Value };
                true
            }
            (
                BlockState::Name | BlockState::Colon | BlockState::Value | BlockState::Next | BlockState::Text(..) | BlockState::Bare(_),
                _,
            ) => false,
        };
        if !legal {
            self.string = string;
        }
        legal
    }

    fn nest(&mut self, frame: BlockFrame) -> bool {
        self.frames.push(frame);
        self.frames.len() <= DEPTH_MAX
    }

    /// Ends the innermost object or list at `end`.
    fn shut(&mut self, tail: &TextWindow, end: usize) -> bool {
        let mut inner = None;
        match self.frames.pop() {
            Some(BlockFrame::Call) => {
                self.state = BlockState::Next;
                return true;
            }
            Some(BlockFrame::Object { mut object, .. }) => {
                let under = match self.frames.last() {
                    Some(BlockFrame::Object { name, .. }) => Some(object::meaning(tail.slice(name.clone()))),
                    Some(BlockFrame::List | BlockFrame::Call) | None => None,
                };
                inner.clone_from(&object.name);
                if object.settle(under) {
                    object.span.end = end;
                    self.objects.push(object);
                }
            }
            Some(BlockFrame::List) | None => {}
        }
        self.value(tail, MemberValue::Nested(inner));
        true
    }

    /// Handles the end of a string or bare word: a name or a value.
    fn word(&mut self, tail: &TextWindow, span: Range<usize>) {
        match self.frames.last_mut() {
            Some(BlockFrame::Object { name, named, .. }) if !*named => {
                (*name, *named) = (span, true);
                self.state = BlockState::Colon;
            }
            Some(BlockFrame::Object { .. } | BlockFrame::List | BlockFrame::Call) | None => self.value(tail, MemberValue::Plain(span)),
        }
    }

    fn value(&mut self, tail: &TextWindow, value: MemberValue) {
        if let Some(BlockFrame::Object { object, name, named }) = self.frames.last_mut() {
            object.member(tail, name.clone(), value);
            *named = false;
        }
        self.state = BlockState::Next;
    }
}

/// True for bytes of bare words: numbers with units, identifiers, `<object at 0x…>`, any script.
fn is_bare(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte >= 0x80 || b"_$.+-%/#@<>!?".contains(&byte)
}
