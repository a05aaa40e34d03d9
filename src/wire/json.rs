//! JSON as it lies on the wire: one pass checks a document and notes where its values are.
//!
//! The document is never rebuilt: whoever changes a value splices bytes ([`super::edit`]), so that all
//! the rest leaves as it came. Values deeper than [`DEPTH_NOTED_MAX`] are checked and passed over, not
//! noted. Grammar: RFC 8259. Pure; it never allocates more than [`NODES_MAX`] nodes.

use std::{borrow::Cow, ops::Range};

use bytes::Bytes;

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
    bytes: Bytes,
    nodes: Vec<Node>,
}

impl Document {
    /// Checks `bytes` from end to end.
    ///
    /// # Errors
    /// [`JsonError`], with the place.
    pub fn parse(bytes: Bytes) -> Result<Self, JsonError> {
        if u32::try_from(bytes.len()).is_err() {
            return Err(JsonError::TooLong);
        }
        if let Err(error) = std::str::from_utf8(&bytes) {
            return Err(JsonError::Utf8(error.valid_up_to()));
        }
        let mut scanner = Scanner { bytes: &bytes, at: 0, nodes: Vec::with_capacity(bytes.len() / 24 + 8) };
        scanner.blank();
        scanner.value(0)?;
        scanner.blank();
        if scanner.at != bytes.len() {
            return Err(JsonError::Syntax(scanner.at));
        }
        let nodes = scanner.nodes;
        Ok(Self { bytes, nodes })
    }

    /// The document's one value.
    pub fn root(&self) -> Value<'_> {
        Value { document: self, index: 0 }
    }

    /// The bytes as they came.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
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
        &self.document.bytes[self.span()]
    }

    /// Its bytes as text.
    pub fn raw_str(self) -> &'d str {
        std::str::from_utf8(self.raw()).unwrap_or_default()
    }

    /// The same bytes, shared.
    pub fn raw_bytes(self) -> Bytes {
        self.document.bytes.slice(self.span())
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
        let mut seen: Vec<Cow<'d, str>> = Vec::with_capacity(8);
        for member in self.members() {
            let name = member.name();
            if seen.len() < 24 {
                if seen.contains(&name) {
                    return Some(name);
                }
                seen.push(name);
            } else {
                return self.duplicate_name_of_many();
            }
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
        if depth > DEPTH_NOTED_MAX {
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
            self.value(depth + 1)?;
            if self.more(b'}')? {
                return Ok(());
            }
        }
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
            self.at += plain_bytes(&self.bytes[self.at..]);
            match self.bytes.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(kind);
                }
                Some(b'\\') => {
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
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let mut at = 0;
    while let Some(chunk) = bytes.get(at..at + 8).and_then(|chunk| <[u8; 8]>::try_from(chunk).ok()) {
        let word = u64::from_le_bytes(chunk);
        let zero = |x: u64| x.wrapping_sub(ONES) & !x & HIGH;
        let quote = zero(word ^ (ONES * u64::from(b'"')));
        let slash = zero(word ^ (ONES * u64::from(b'\\')));
        let control = word.wrapping_sub(ONES * 0x20) & !word & HIGH;
        let found = quote | slash | control;
        if found != 0 {
            // The lowest bit found is exact; borrows only ever spoil the bits above it.
            return at + (found.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    let plain = |byte: &&u8| !matches!(**byte, b'"' | b'\\' | 0..=0x1f);
    at + bytes[at..].iter().take_while(plain).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str) -> Result<Document, JsonError> {
        Document::parse(Bytes::copy_from_slice(text.as_bytes()))
    }

    #[test]
    fn places() {
        let document = check(r#" {"a" : [1, {"b\u0063": "x\n"}, "é"], "d":-1.5e+3 , "e":{} }"#).unwrap();
        let root = document.root();
        assert_eq!(root.get("a").unwrap().items().count(), 3);
        let inner = root.get("a").unwrap().items().nth(1).unwrap();
        assert_eq!(inner.get("bc").unwrap().text().unwrap(), "x\n");
        assert_eq!(root.get("d").unwrap().raw(), b"-1.5e+3");
        assert_eq!(root.get("e").unwrap().members().count(), 0);
        assert_eq!(root.members().map(|m| m.name().into_owned()).collect::<Vec<_>>(), ["a", "d", "e"]);
    }

    #[test]
    fn refusals() {
        for text in [
            "", "{", "[1,]", "{\"a\":1,}", "01", "1.", "+1", "nul", "\"\u{1}\"", "\"\\x\"", "{\"a\" 1}", "1 2", "'a'", "\"\\u12g4\"",
            "{a:1}", "[1}", "NaN", "-", "\"abc",
        ] {
            assert!(matches!(check(text), Err(JsonError::Syntax(_))), "{text:?}");
        }
        assert_eq!(check(&"[".repeat(100_000)).unwrap_err(), JsonError::TooDeep);
        assert!(check(&format!("{}{}", "[".repeat(127), "]".repeat(127))).is_ok());
        assert!(matches!(Document::parse(Bytes::from_static(b"\"\xff\"")), Err(JsonError::Utf8(1))));
    }

    #[test]
    fn duplicates() {
        assert_eq!(check(r#"{"a":1,"\u0061":2}"#).unwrap().root().duplicate_name().unwrap(), "a");
        assert!(check(r#"{"a":{"a":1},"b":[{"a":1}]}"#).unwrap().root().duplicate_name().is_none());
        let many: String = (0..40).map(|n| format!("\"k{n}\":0,")).collect();
        assert!(check(&format!("{{{many}\"k3\":1}}")).unwrap().root().duplicate_name().is_some());
        assert!(check(&format!("{{{many}\"z\":1}}")).unwrap().root().duplicate_name().is_none());
    }

    proptest! {
        #[test]
        fn agrees_with_serde_json(text in r#"[\[\]{}",:0-9eE+.\\/ untrfalse-]{0,24}"#) {
            let theirs = serde_json::from_str::<serde_json::Value>(&text);
            let ours = check(&text);
            // serde_json refuses numbers beyond f64 and lone surrogates; the grammar does not.
            if let Err(error) = &ours {
                prop_assert!(theirs.is_err(), "{text:?} {error}");
            } else if let Err(error) = theirs {
                let known = ["number out of range", "surrogate", "unexpected end of hex escape"];
                prop_assert!(known.iter().any(|k| error.to_string().contains(k)), "{text:?} {error}");
            }
        }

        #[test]
        fn strings_are_found_whole(text in ".{0,40}") {
            let json = serde_json::to_string(&text).unwrap();
            let document = check(&json).unwrap();
            let found = document.root().text().unwrap().into_owned();
            prop_assert_eq!(found, text);
        }
    }
}
