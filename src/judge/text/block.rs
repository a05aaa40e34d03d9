//! Blocks: `{…}` as JSON, JSON5 or a Python dict, read leniently and once. Pure.
//!
//! A brace begins a block only if a quote, a closing brace or `name:` follows; anything else proves it
//! prose or code at once. What breaks off is judged by what was read of it. The last string of a block
//! that broke off is read again, for braces inside it: a string holds no quote of its own kind, so that
//! happens at most once per kind, and reading stays linear.

use std::ops::Range;

use super::{
    Rules,
    fence::{Fences, Mode},
    item::{Block, Item, Kind},
    object::{Object, Value},
    tail::Tail,
};

/// Nesting of a block.
const DEPTH_MAX: usize = 64;
/// Bytes of a bare word, a member's name, or the blanks before it.
const BARE_BYTES_MAX: usize = 256;

/// Where in the grammar a block stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    /// Before a member's name or `}`.
    Name,
    /// After a name.
    Colon,
    /// Before a value, or the end of a list.
    Value,
    /// After a value.
    Next,
    /// In a string in this quote that began here.
    Text(u8, usize),
    /// In a bare word that began here.
    Bare(usize),
}

#[derive(Debug)]
enum Frame {
    Object {
        object: Object,
        name: Range<usize>,
        named: bool,
    },
    List,
    /// The parentheses after a bare word, which is the value itself.
    Call,
}

#[derive(Debug)]
struct Open {
    start: usize,
    state: State,
    /// Blanks in a row.
    blanks: usize,
    frames: Vec<Frame>,
    objects: Vec<Object>,
    /// Where the last string's inside began, while nothing was read after it.
    string: Option<usize>,
}

enum Outcome {
    Closed,
    Broken,
    Hungry,
}

/// The reader of blocks.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    at: usize,
    open: Option<Open>,
}

impl Blocks {
    /// Reads all that is there.
    pub fn advance(&mut self, tail: &Tail, fences: &Fences, rules: &Rules, last: bool, found: &mut Vec<Item>) {
        let end = tail.end();
        loop {
            let Some(open) = &mut self.open else {
                let Some(start) = begin(tail, fences, self.at) else {
                    self.at = end;
                    return;
                };
                self.at = start + 1;
                self.open = Some(Open::new(start));
                continue;
            };
            let full = open.start.saturating_add(rules.held_bytes_max);
            let fence = fences.change_after(open.start).filter(|at| *at <= end);
            let limit = end.min(full).min(fence.unwrap_or(end));
            match open.read(tail, &mut self.at, limit) {
                Outcome::Closed => self.close(tail, true, found),
                Outcome::Broken => self.close(tail, false, found),
                Outcome::Hungry if fence == Some(limit) => self.close(tail, false, found),
                Outcome::Hungry if limit == full => {
                    found.push(Item { span: open.start..tail.boundary(limit), kind: Kind::TooLong });
                    self.at = limit;
                    self.open = None;
                }
                Outcome::Hungry if last => {
                    self.at = limit;
                    self.close(tail, false, found);
                }
                Outcome::Hungry => return,
            }
        }
    }

    /// Nothing that starts before this place will be found any more.
    pub fn hold(&self) -> usize {
        self.open.as_ref().map_or(self.at, |open| open.start)
    }

    fn close(&mut self, tail: &Tail, complete: bool, found: &mut Vec<Item>) {
        let Some(mut open) = self.open.take() else { return };
        let end = tail.boundary(self.at.min(tail.end()));
        open.cut_off(tail, end);
        for frame in open.frames.drain(..).rev() {
            match frame {
                Frame::Object { mut object, .. } if object.counts() => {
                    object.span.end = end;
                    open.objects.push(object);
                }
                Frame::Object { .. } | Frame::List | Frame::Call => {}
            }
        }
        if complete || !open.objects.is_empty() {
            found.push(Item { span: open.start..end, kind: Kind::Block(Block { complete, objects: open.objects }) });
        }
        if let (false, Some(string)) = (complete, open.string) {
            self.at = string;
        }
    }
}

/// The next brace that may begin a block.
fn begin(tail: &Tail, fences: &Fences, from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        let brace = at + memchr::memchr(b'{', tail.bytes(at..tail.end()))?;
        if fences.mode(brace) != Mode::Code {
            return Some(brace);
        }
        at = fences.change_after(brace)?;
    }
}

impl Open {
    fn new(start: usize) -> Self {
        let frames = vec![Frame::Object { object: Object::new(start), name: start..start, named: false }];
        Self { start, state: State::Name, blanks: 0, frames, objects: Vec::new(), string: None }
    }

    fn read(&mut self, tail: &Tail, at: &mut usize, limit: usize) -> Outcome {
        while *at < limit {
            let rest = tail.bytes(*at..limit);
            let Some(byte) = rest.first().copied() else { break };
            match self.state {
                State::Text(_, start) if self.at_name() && *at - start > BARE_BYTES_MAX => return Outcome::Broken,
                State::Text(quote, start) => match memchr::memchr2(quote, b'\\', self.piece(start, *at, rest)) {
                    None => *at += self.piece(start, *at, rest).len(),
                    Some(slash) if rest.get(slash) == Some(&b'\\') => *at += slash + 2,
                    Some(length) => {
                        let inside = start..*at + length;
                        *at += length + 1;
                        self.word(tail, inside);
                        self.string = Some(start);
                    }
                },
                State::Bare(start) => {
                    if is_bare(byte) || (byte == b':' && !self.at_name()) {
                        *at += 1;
                        if *at - start > BARE_BYTES_MAX {
                            return Outcome::Broken;
                        }
                    } else if matches!(byte, b'"' | b'\'') && *at - start <= 2 && !self.at_name() {
                        // Python's b'…', u'…', rb'…'.
                        *at += 1;
                        self.string = Some(*at);
                        self.state = State::Text(byte, *at);
                    } else if byte == b' ' && !self.at_name() {
                        *at += 1;
                    } else {
                        self.word(tail, start..*at);
                        if byte == b'(' && self.state == State::Next {
                            *at += 1;
                            self.state = State::Value;
                            if !self.nest(Frame::Call) {
                                return Outcome::Broken;
                            }
                        }
                    }
                }
                State::Name | State::Colon | State::Value | State::Next => {
                    if matches!(byte, b' ' | b'\n' | b'\t' | b'\r') {
                        *at += 1;
                        self.blanks += 1;
                        if self.blanks > BARE_BYTES_MAX {
                            return Outcome::Broken;
                        }
                        continue;
                    }
                    self.blanks = 0;
                    if !self.mark(tail, byte, *at) {
                        return Outcome::Broken;
                    }
                    if !matches!(self.state, State::Bare(_)) {
                        *at += 1;
                    }
                    if self.frames.is_empty() {
                        return Outcome::Closed;
                    }
                }
            }
        }
        Outcome::Hungry
    }

    /// The text breaks off at `end`: a value that was begun counts as far as it got.
    fn cut_off(&mut self, tail: &Tail, end: usize) {
        match self.state {
            State::Text(_, start) | State::Bare(start) if !self.at_name() && start < end => self.value(tail, Value::Plain(start..end)),
            State::Name | State::Colon | State::Value | State::Next | State::Text(..) | State::Bare(_) => {}
        }
    }

    /// What may be read at once of a string: of a name no more than a name may have.
    fn piece<'r>(&self, start: usize, at: usize, rest: &'r [u8]) -> &'r [u8] {
        let room = (start + BARE_BYTES_MAX + 1).saturating_sub(at);
        if self.at_name() { rest.get(..room).unwrap_or(rest) } else { rest }
    }

    /// In a bare word that is a member's name.
    fn at_name(&self) -> bool {
        matches!(self.frames.last(), Some(Frame::Object { named: false, .. }))
    }

    /// Takes one mark of the grammar; false where it can't stand.
    fn mark(&mut self, tail: &Tail, byte: u8, at: usize) -> bool {
        let in_object = matches!(self.frames.last(), Some(Frame::Object { .. }));
        let string = self.string.take();
        let legal = match (self.state, byte) {
            (State::Name | State::Value, b'"' | b'\'') => {
                self.string = Some(at + 1);
                self.state = State::Text(byte, at + 1);
                return true;
            }
            (State::Name | State::Next, b'}') if in_object => self.shut(tail, at),
            (State::Value | State::Next, b']' | b')') if !in_object => self.shut(tail, at),
            (State::Name, _)
                if byte.is_ascii_alphabetic() || byte == b'_' || byte == b'$' || (self.frames.len() > 1 && byte.is_ascii_digit()) =>
            {
                self.state = State::Bare(at);
                true
            }
            (State::Colon, b':') => {
                self.state = State::Value;
                true
            }
            (State::Value, b'{') => {
                self.state = State::Name;
                self.nest(Frame::Object { object: Object::new(at), name: at..at, named: false })
            }
            (State::Value, b'[' | b'(') => self.nest(Frame::List),
            (State::Value, _) if is_bare(byte) => {
                self.state = State::Bare(at);
                true
            }
            (State::Next, b',') => {
                self.state = if in_object { State::Name } else { State::Value };
                true
            }
            (State::Name | State::Colon | State::Value | State::Next | State::Text(..) | State::Bare(_), _) => false,
        };
        if !legal {
            self.string = string;
        }
        legal
    }

    fn nest(&mut self, frame: Frame) -> bool {
        self.frames.push(frame);
        self.frames.len() <= DEPTH_MAX
    }

    /// The innermost object or list ends with the mark at `at`.
    fn shut(&mut self, tail: &Tail, at: usize) -> bool {
        match self.frames.pop() {
            Some(Frame::Call) => {
                self.state = State::Next;
                return true;
            }
            Some(Frame::Object { mut object, .. }) if object.counts() => {
                object.span.end = at + 1;
                self.objects.push(object);
            }
            Some(Frame::Object { .. } | Frame::List) | None => {}
        }
        self.value(tail, Value::Nested);
        true
    }

    /// A string or bare word has ended: a name or a value.
    fn word(&mut self, tail: &Tail, span: Range<usize>) {
        match self.frames.last_mut() {
            Some(Frame::Object { name, named, .. }) if !*named => {
                (*name, *named) = (span, true);
                self.state = State::Colon;
            }
            Some(Frame::Object { .. } | Frame::List | Frame::Call) | None => self.value(tail, Value::Plain(span)),
        }
    }

    fn value(&mut self, tail: &Tail, value: Value) {
        if let Some(Frame::Object { object, name, named }) = self.frames.last_mut() {
            object.member(tail, name.clone(), value);
            *named = false;
        }
        self.state = State::Next;
    }
}

/// Bytes of bare words: numbers with units, identifiers, `<object at 0x…>`, any script.
fn is_bare(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte >= 0x80 || b"_$.+-%/#@<>!?".contains(&byte)
}
