//! JSON as it lies on the wire: one pass checks a document and notes where its values are.
//!
//! The document is never rebuilt: whoever changes a value splices bytes ([`super::edit`]), so that all
//! the rest leaves as it came. Values deeper than [`DEPTH_NOTED_MAX`] are checked and passed over, not
//! noted. Grammar: RFC 8259. Pure; it never allocates more than [`NODES_MAX`] nodes.

use std::{borrow::Cow, ops::Range, sync::Arc};

use bytes::Bytes;
use bytestring::ByteString;

/// Nesting that is accepted at all, as deep as `serde_json` goes.
pub const DEPTH_MAX: usize = 127;
/// Values are noted down to this depth: `messages[].tool_calls[].function.arguments.x` and then some.
pub const DEPTH_NOTED_MAX: usize = 8;
/// Values noted in one document; a chat request of 32 MiB has a few thousand.
pub const NODES_MAX: usize = 1 << 20;

/// Why bytes are no JSON document that we take.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum JsonError {
    /// The grammar is broken at this byte.
    #[error("not valid JSON at byte {0}")]
    Syntax(usize),
    /// Not UTF-8 at this byte.
    #[error("not valid UTF-8 at byte {0}")]
    Utf8(usize),
    /// Nested deeper than [`DEPTH_MAX`].
    #[error("nested deeper than {DEPTH_MAX} levels")]
    TooDeep,
    /// More than [`NODES_MAX`] values.
    #[error("more than {NODES_MAX} values")]
    TooMany,
    /// Longer than can be addressed.
    #[error("longer than 4 GiB")]
    TooLong,
}

/// What a value is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// `null`
    Null,
    /// `true`
    True,
    /// `false`
    False,
    /// A number, in whatever spelling.
    Number,
    /// A string without escapes.
    Plain,
    /// A string with escapes.
    Escaped,
    /// `[…]`
    Array,
    /// `{…}`
    Object,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    start: u32,
    end: u32,
    /// The node after this one and all that is inside it.
    next: u32,
    kind: Kind,
}

/// A checked document and the places of its values.
#[derive(Clone, Debug)]
pub struct Document {
    text: ByteString,
    /// Shared, so that a document is cheap to clone.
    nodes: Arc<Vec<Node>>,
}

impl Document {
    /// Checks `bytes` from end to end.
    ///
    /// # Errors
    /// [`JsonError`], with the place.
    pub fn parse(bytes: Bytes) -> Result<Self, JsonError> {
        Self::parse_noting(bytes, DEPTH_NOTED_MAX, &[])
    }

    /// The same, noting values only down to `depth`: 0 is the document's one value. A member of the
    /// document's object whose value is one of `known`, byte for byte, is passed over as a whole: each of
    /// them is to be a JSON array or object that was checked before.
    ///
    /// # Errors
    /// [`JsonError`], with the place.
    pub fn parse_noting(bytes: Bytes, depth: usize, known: &[&[u8]]) -> Result<Self, JsonError> {
        if u32::try_from(bytes.len()).is_err() {
            return Err(JsonError::TooLong);
        }
        let text = ByteString::try_from(bytes).map_err(|error| JsonError::Utf8(error.valid_up_to()))?;
        let bytes = text.as_bytes();
        let nodes = Vec::with_capacity(if depth < 3 { 32 } else { bytes.len() / 24 + 8 });
        let mut scanner = Scanner { bytes, at: 0, nodes, depth_noted: depth, known };
        scanner.blank();
        scanner.value(0)?;
        scanner.blank();
        if scanner.at != bytes.len() {
            return Err(JsonError::Syntax(scanner.at));
        }
        let nodes = Arc::new(scanner.nodes);
        Ok(Self { text, nodes })
    }

    /// The document's one value.
    pub fn root(&self) -> Value<'_> {
        Value { document: self, index: 0 }
    }

    /// The bytes as they came.
    pub fn bytes(&self) -> &Bytes {
        self.text.as_bytes()
    }
}

/// A value in a document.
#[derive(Clone, Copy, Debug)]
pub struct Value<'d> {
    document: &'d Document,
    index: u32,
}

impl<'d> Value<'d> {
    fn node(self) -> Node {
        self.document.nodes[self.index as usize]
    }

    /// What it is.
    pub fn kind(self) -> Kind {
        self.node().kind
    }

    /// Where it lies, quotes and brackets included.
    pub fn span(self) -> Range<usize> {
        let node = self.node();
        node.start as usize..node.end as usize
    }

    /// Its bytes as they came.
    pub fn raw(self) -> &'d [u8] {
        &self.document.text.as_bytes()[self.span()]
    }

    /// Its bytes as text.
    pub fn raw_str(self) -> &'d str {
        // INVARIANT: a value starts and ends at an ASCII byte.
        self.document.text.get(self.span()).unwrap_or_default()
    }

    /// The same bytes, shared.
    pub fn raw_bytes(self) -> Bytes {
        self.document.text.as_bytes().slice(self.span())
    }

    /// The text of a string, escapes resolved; a lone surrogate becomes U+FFFD. `None` for what is no string.
    pub fn text(self) -> Option<Cow<'d, str>> {
        let raw = self.raw_str();
        match self.kind() {
            Kind::Plain => Some(Cow::Borrowed(&raw[1..raw.len() - 1])),
            Kind::Escaped => Some(Cow::Owned(super::text::unescape(&raw[1..raw.len() - 1]))),
            _ => None,
        }
    }

    /// True for a string that says exactly this.
    pub fn is_text(self, text: &str) -> bool {
        self.text().is_some_and(|own| own == text)
    }

    /// True for `null`.
    pub fn is_null(self) -> bool {
        self.kind() == Kind::Null
    }

    /// True for strings.
    pub fn is_string(self) -> bool {
        matches!(self.kind(), Kind::Plain | Kind::Escaped)
    }

    /// True for objects.
    pub fn is_object(self) -> bool {
        self.kind() == Kind::Object
    }

    /// True for arrays.
    pub fn is_array(self) -> bool {
        self.kind() == Kind::Array
    }

    /// A whole number of 0 or more, also in the spelling `1.0`.
    pub fn integer(self) -> Option<u64> {
        if self.kind() != Kind::Number {
            return None;
        }
        let raw = self.raw_str();
        raw.parse().ok().or_else(|| {
            let float: f64 = raw.parse().ok()?;
            (float.fract() == 0.0 && (0.0..9e15).contains(&float)).then_some(float as u64)
        })
    }

    fn children(self) -> Children<'d> {
        let node = self.node();
        let inside = matches!(node.kind, Kind::Array | Kind::Object);
        Children { document: self.document, at: self.index + 1, end: if inside { node.next } else { self.index + 1 } }
    }

    /// The elements of an array; nothing for anything else.
    pub fn items(self) -> impl Iterator<Item = Value<'d>> {
        let mut children = self.children();
        if !self.is_array() {
            children.at = children.end;
        }
        children
    }

    /// The members of an object in their order; nothing for anything else.
    pub fn members(self) -> impl Iterator<Item = Member<'d>> {
        let mut children = self.children();
        if !self.is_object() {
            children.at = children.end;
        }
        std::iter::from_fn(move || {
            let key = children.next()?;
            Some(Member { key, value: children.next()? })
        })
    }

    /// The first member of this name.
    pub fn get(self, name: &str) -> Option<Value<'d>> {
        self.members().find(|member| member.is(name)).map(|member| member.value)
    }

    /// The first member of this name, unless it is `null`.
    pub fn get_some(self, name: &str) -> Option<Value<'d>> {
        self.get(name).filter(|value| !value.is_null())
    }

    /// A name that two members of this object share, if any.
    pub fn duplicate_name(self) -> Option<Cow<'d, str>> {
        const FEW: usize = 24;
        let mut seen: [&[u8]; FEW] = [b""; FEW];
        for (count, member) in self.members().enumerate() {
            let raw = member.key.raw();
            if count >= FEW || member.key.kind() == Kind::Escaped {
                return self.duplicate_name_of_many();
            }
            if seen[..count].contains(&raw) {
                return Some(member.name());
            }
            seen[count] = raw;
        }
        None
    }

    fn duplicate_name_of_many(self) -> Option<Cow<'d, str>> {
        let mut seen = std::collections::HashSet::new();
        self.members().map(Member::name).find(|name| !seen.insert(name.clone()))
    }
}

/// A member of an object.
#[derive(Clone, Copy, Debug)]
pub struct Member<'d> {
    /// Its name, a string.
    pub key: Value<'d>,
    /// Its value.
    pub value: Value<'d>,
}

impl<'d> Member<'d> {
    /// The name, escapes resolved.
    pub fn name(self) -> Cow<'d, str> {
        self.key.text().unwrap_or_default()
    }

    /// True where the name is this.
    pub fn is(self, name: &str) -> bool {
        let raw = self.key.raw();
        match self.key.kind() {
            Kind::Plain => &raw[1..raw.len() - 1] == name.as_bytes(),
            _ => self.key.is_text(name),
        }
    }

    /// Where the member lies, from its name to the end of its value.
    pub fn span(self) -> Range<usize> {
        self.key.span().start..self.value.span().end
    }
}

struct Children<'d> {
    document: &'d Document,
    at: u32,
    end: u32,
}

impl<'d> Iterator for Children<'d> {
    type Item = Value<'d>;
    fn next(&mut self) -> Option<Value<'d>> {
        if self.at >= self.end {
            return None;
        }
        let value = Value { document: self.document, index: self.at };
        self.at = value.node().next;
        Some(value)
    }
}

struct Scanner<'b> {
    bytes: &'b [u8],
    at: usize,
    nodes: Vec<Node>,
    depth_noted: usize,
    known: &'b [&'b [u8]],
}

impl Scanner<'_> {
    fn peek(&self) -> u8 {
        // 0 is legal nowhere outside strings, so it also stands for the end.
        self.bytes.get(self.at).copied().unwrap_or(0)
    }

    fn blank(&mut self) {
        while matches!(self.peek(), b' ' | b'\n' | b'\r' | b'\t') {
            self.at += 1;
        }
    }

    fn open(&mut self, depth: usize) -> Result<Option<usize>, JsonError> {
        if depth > self.depth_noted {
            return Ok(None);
        }
        if self.nodes.len() >= NODES_MAX {
            return Err(JsonError::TooMany);
        }
        self.nodes.push(Node { start: self.at as u32, end: 0, next: 0, kind: Kind::Null });
        Ok(Some(self.nodes.len() - 1))
    }

    fn close(&mut self, index: Option<usize>, kind: Kind) {
        let next = self.nodes.len() as u32;
        if let Some(node) = index.and_then(|index| self.nodes.get_mut(index)) {
            node.end = self.at as u32;
            node.next = next;
            node.kind = kind;
        }
    }

    // INVARIANT: depth is at most DEPTH_MAX, so the recursion is bounded.
    fn value(&mut self, depth: usize) -> Result<(), JsonError> {
        if depth > DEPTH_MAX {
            return Err(JsonError::TooDeep);
        }
        let node = self.open(depth)?;
        let kind = match self.peek() {
            b'"' => self.string()?,
            b'{' => {
                self.object(depth)?;
                Kind::Object
            }
            b'[' => {
                self.array(depth)?;
                Kind::Array
            }
            b'-' | b'0'..=b'9' => {
                self.number()?;
                Kind::Number
            }
            b't' => self.word(b"true", Kind::True)?,
            b'f' => self.word(b"false", Kind::False)?,
            b'n' => self.word(b"null", Kind::Null)?,
            _ => return Err(JsonError::Syntax(self.at)),
        };
        self.close(node, kind);
        Ok(())
    }

    fn object(&mut self, depth: usize) -> Result<(), JsonError> {
        self.at += 1;
        self.blank();
        if self.peek() == b'}' {
            self.at += 1;
            return Ok(());
        }
        loop {
            if self.peek() != b'"' {
                return Err(JsonError::Syntax(self.at));
            }
            let key = self.open(depth + 1)?;
            let kind = self.string()?;
            self.close(key, kind);
            self.blank();
            if self.peek() != b':' {
                return Err(JsonError::Syntax(self.at));
            }
            self.at += 1;
            self.blank();
            if depth > 0 || !self.pass_known()? {
                self.value(depth + 1)?;
            }
            if self.more(b'}')? {
                return Ok(());
            }
        }
    }

    /// Passes over a value that was checked before.
    fn pass_known(&mut self) -> Result<bool, JsonError> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        // An array or object ends where its own text does, whatever follows.
        let Some(known) = self.known.iter().find(|known| rest.starts_with(known) && matches!(known.first(), Some(b'[' | b'{'))) else {
            return Ok(false);
        };
        let node = self.open(1)?;
        self.at += known.len();
        self.close(node, if known[0] == b'[' { Kind::Array } else { Kind::Object });
        Ok(true)
    }

    fn array(&mut self, depth: usize) -> Result<(), JsonError> {
        self.at += 1;
        self.blank();
        if self.peek() == b']' {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.value(depth + 1)?;
            if self.more(b']')? {
                return Ok(());
            }
        }
    }

    /// Past a comma: false. Past the closing bracket: true.
    fn more(&mut self, close: u8) -> Result<bool, JsonError> {
        self.blank();
        let byte = self.peek();
        if byte == close {
            self.at += 1;
            return Ok(true);
        }
        if byte != b',' {
            return Err(JsonError::Syntax(self.at));
        }
        self.at += 1;
        self.blank();
        Ok(false)
    }

    fn word(&mut self, word: &[u8], kind: Kind) -> Result<Kind, JsonError> {
        if !self.bytes[self.at..].starts_with(word) {
            return Err(JsonError::Syntax(self.at));
        }
        self.at += word.len();
        Ok(kind)
    }

    fn digits(&mut self) -> Result<(), JsonError> {
        if !self.peek().is_ascii_digit() {
            return Err(JsonError::Syntax(self.at));
        }
        while self.peek().is_ascii_digit() {
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), JsonError> {
        if self.peek() == b'-' {
            self.at += 1;
        }
        if self.peek() == b'0' {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == b'.' {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), b'e' | b'E') {
            self.at += 1;
            if matches!(self.peek(), b'+' | b'-') {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn string(&mut self) -> Result<Kind, JsonError> {
        let mut kind = Kind::Plain;
        self.at += 1;
        loop {
            self.at += plain_bytes(self.bytes.get(self.at..).unwrap_or_default());
            match self.peek() {
                b'"' => {
                    self.at += 1;
                    return Ok(kind);
                }
                b'\\' => {
                    kind = Kind::Escaped;
                    self.escape()?;
                }
                _ => return Err(JsonError::Syntax(self.at)),
            }
        }
    }

    fn escape(&mut self) -> Result<(), JsonError> {
        self.at += 1;
        match self.peek() {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => self.at += 1,
            b'u' => {
                let digits = self.bytes.get(self.at + 1..self.at + 5).ok_or(JsonError::Syntax(self.at))?;
                if !digits.iter().all(u8::is_ascii_hexdigit) {
                    return Err(JsonError::Syntax(self.at));
                }
                self.at += 5;
            }
            _ => return Err(JsonError::Syntax(self.at)),
        }
        Ok(())
    }
}

/// How many bytes pass before a quote, a backslash or a control character; eight at a time.
fn plain_bytes(bytes: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = ONES * 0x80;
    let (chunks, tail) = bytes.as_chunks::<8>();
    for (at, chunk) in chunks.iter().enumerate() {
        let word = u64::from_le_bytes(*chunk);
        // Of each byte the high bit is set where subtracting borrows: where it equals the quote or the
        // backslash, or is below the blank. A borrow only ever spoils the bytes above the first one found.
        let quote = (word ^ (ONES * 0x22)).wrapping_sub(ONES);
        let slash = (word ^ (ONES * 0x5c)).wrapping_sub(ONES);
        let control = word.wrapping_sub(ONES * 0x20);
        let found = (quote | slash | control) & !word & HIGH;
        if found != 0 {
            return at * 8 + (found.trailing_zeros() / 8) as usize;
        }
    }
    let plain = |byte: &&u8| !matches!(**byte, b'"' | b'\\' | 0..=0x1f);
    bytes.len() - tail.len() + tail.iter().take_while(plain).count()
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
