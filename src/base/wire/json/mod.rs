//! JSON documents in their original bytes: one pass checks a document and notes the positions of its values.
//!
//! The document is never rebuilt: values are changed by splicing bytes ([`crate::wire::json::splice`]), so that all other bytes stay as they are. Values
//! deeper than [`DEPTH_NOTED_MAX`] are checked but not noted. Grammar: RFC 8259. Pure; it never allocates more than [`NODES_MAX`] nodes.

pub mod canonical;
pub(super) mod scan;
pub mod splice;
pub mod string;

use std::{borrow::Cow, ops::Range, sync::Arc};

use bytes::Bytes;
use bytestring::ByteString;

use string::JsonText;

pub use scan::{DEPTH_MAX, DEPTH_NOTED_MAX, Kind, NODES_MAX};
use scan::{NameSet, NameTraits, Scanner, ValueSpan};

/// Reasons why bytes are not accepted as a JSON document.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum JsonError {
    /// A syntax error at this byte.
    #[error("not valid JSON at byte {0}")]
    Syntax(usize),
    /// Invalid UTF-8 at this byte.
    #[error("not valid UTF-8 at byte {0}")]
    Utf8(usize),
    /// Nested deeper than [`DEPTH_MAX`].
    #[error("nested deeper than {DEPTH_MAX} levels")]
    TooDeep,
    /// More than [`NODES_MAX`] values.
    #[error("more than {NODES_MAX} values")]
    TooMany,
    /// Longer than 4 GiB, the range of the positions.
    #[error("longer than 4 GiB")]
    TooLong,
}

/// The JSON string at the start of `bytes`: its text with escapes resolved, and its length in bytes, quotes included.
pub fn leading_string(bytes: &[u8]) -> Option<(Cow<'_, str>, usize)> {
    let (kind, length) = Scanner::leading_string(bytes)?;
    let inside = std::str::from_utf8(bytes.get(1..length - 1)?).ok()?;
    let text = if kind == Kind::Escaped { Cow::Owned(string::unescape(inside)) } else { Cow::Borrowed(inside) };
    Some((text, length))
}

/// Memory of a document's text.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TextMemory {
    /// The bytes that it was parsed from.
    Kept,
    /// A copy of them: they lie in a buffer that others use too.
    Copied,
}

impl TextMemory {
    /// The bytes that a document is parsed from.
    pub fn of(self, bytes: Bytes) -> Bytes {
        match self {
            Self::Kept => bytes,
            Self::Copied => Bytes::copy_from_slice(&bytes),
        }
    }
}

/// A checked document with the positions of its values.
#[derive(Clone, Debug)]
pub struct Document {
    text: ByteString,
    /// Shared, so that a document is cheap to clone.
    nodes: Arc<Vec<ValueSpan>>,
    /// Depth down to which values are noted.
    depth: usize,
}

impl Document {
    /// Parses `bytes`, which must be one JSON document.
    ///
    /// # Errors
    /// [`JsonError`], with the position.
    pub fn parse(bytes: Bytes) -> Result<Self, JsonError> {
        Self::parse_noting(bytes, DEPTH_NOTED_MAX, &[])
    }

    /// Parses `bytes`, noting values only down to `depth`; 0 is the document's root. A member `tools` or `functions` of the root object whose value
    /// is one of `known`, byte for byte, is skipped as a whole: each of them must be a JSON array or object that was checked before.
    ///
    /// # Errors
    /// [`JsonError`], with the position.
    pub fn parse_noting(bytes: Bytes, depth: usize, known: &[&[u8]]) -> Result<Self, JsonError> {
        if u32::try_from(bytes.len()).is_err() {
            return Err(JsonError::TooLong);
        }
        let text = ByteString::try_from(bytes).map_err(|error| JsonError::Utf8(error.valid_up_to()))?;
        let nodes = Arc::new(Scanner::scan(text.as_bytes(), depth, known)?);
        Ok(Self { text, nodes, depth })
    }

    /// Marks `array`, the value of one of the root object's members, as what later documents may begin with. `None` if it isn't one,
    /// or its elements' ends aren't noted.
    pub fn beginning(&self, array: Value<'_>) -> Option<DocumentBeginning> {
        let mut names = NameSet::default();
        for member in self.root().members() {
            names.add(member.key.raw(), member.key.kind());
            if member.value.index == array.index {
                let own = array.is_array() && self.depth >= 2;
                let whole = own.then(|| self.elements_within(array, self.text.len()));
                return whole.map(|whole| DocumentBeginning { document: self.clone(), array: array.index, names, whole });
            }
        }
        None
    }

    /// The elements of `array` in the first `end` bytes; `None` if there isn't even one.
    fn elements_within(&self, array: Value<'_>, end: usize) -> Option<SharedElements> {
        let (mut shared, mut count) = (None, 0);
        for element in array.items() {
            let node = element.node();
            // Only what has a closing bracket is complete whatever follows.
            if node.end as usize > end || !matches!(node.kind, Kind::Object | Kind::Array) {
                break;
            }
            count += 1;
            shared = Some(SharedElements { count, end: node.end as usize, nodes: node.next as usize });
        }
        shared
    }

    /// Parses `bytes` like [`Self::parse_noting`], taking over what is known of their beginning. `None` if `shared` was found in other bytes, or
    /// is what they share with another document than `earlier`. `place`: memory of the document's text. Bytes that are the
    /// earlier document again, to the last one, share its text and its positions instead.
    ///
    /// # Errors
    /// [`JsonError`], with the position.
    pub fn resume(
        bytes: Bytes,
        place: TextMemory,
        earlier: &DocumentBeginning,
        shared: &SharedBeginning,
        known: &[&[u8]],
    ) -> Option<Result<Self, JsonError>> {
        let SharedElements { end, nodes, .. } = shared.elements;
        // INVARIANT: bytes that are kept don't change, so what was compared needn't be compared again.
        let same = |one: &Bytes, other: &Bytes| one.as_ptr() == other.as_ptr() && one.len() == other.len();
        if u32::try_from(bytes.len()).is_err() || !same(&bytes, &shared.bytes) || !same(earlier.document.bytes(), &shared.with) {
            return None;
        }
        if shared.all {
            return Some(Ok(earlier.document.clone()));
        }
        let (noted, depth) = (earlier.document.nodes.get(..nodes)?, earlier.document.depth);
        // INVARIANT: an element ends with an ASCII byte.
        let beginning = earlier.document.text.get(..end)?;
        let resume = || {
            let text = match place {
                TextMemory::Kept => ByteString::try_from(bytes).map_err(|error| JsonError::Utf8(error.valid_up_to()))?,
                // What was checked before is copied from there, so that it needn't be checked again.
                TextMemory::Copied => {
                    let rest = std::str::from_utf8(bytes.get(end..).unwrap_or_default());
                    let rest = rest.map_err(|error| JsonError::Utf8(end + error.valid_up_to()))?;
                    let mut text = String::with_capacity(bytes.len());
                    text.push_str(beginning);
                    text.push_str(rest);
                    text.into()
                }
            };
            let mut nodes = Vec::with_capacity(noted.len() + (text.len() - end) / 24 + 8);
            nodes.extend_from_slice(noted);
            let nodes = Scanner::resume(text.as_bytes(), end, nodes, earlier.array as usize, earlier.names, depth, known)?;
            Ok(Self { text, nodes: Arc::new(nodes), depth })
        };
        Some(resume())
    }

    /// The root value.
    #[inline]
    pub fn root(&self) -> Value<'_> {
        Value { document: self, index: 0 }
    }

    /// Bytes of memory that the noted values take, in addition to the text.
    pub fn noted_bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<ValueSpan>() + size_of::<Vec<ValueSpan>>()
    }

    /// The original bytes.
    #[inline]
    pub fn bytes(&self) -> &Bytes {
        self.text.as_bytes()
    }
}

/// A checked document whose beginning, up to the end of any element of one array, others may share.
#[derive(Clone, Debug)]
pub struct DocumentBeginning {
    document: Document,
    /// Index of the array's node.
    array: u32,
    /// Names of the root object's members up to the array.
    names: NameSet,
    /// All elements of the array; `None` if it has none.
    whole: Option<SharedElements>,
}

/// Elements of an array that two documents have in common, with all that stands in front of them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SharedElements {
    /// Number of elements.
    pub count: usize,
    /// Number of bytes up to the end of the last.
    pub end: usize,
    /// Number of noted values up to there.
    nodes: usize,
}

/// Elements of an array that the bytes of another document begin with.
#[derive(Clone, Debug)]
pub struct SharedBeginning {
    /// The elements.
    pub elements: SharedElements,
    /// The bytes that were compared.
    bytes: Bytes,
    /// The document that they were compared with.
    with: Bytes,
    /// They are all of that document, and nothing more.
    all: bool,
}

impl DocumentBeginning {
    /// What `bytes` begin with; `None` if that isn't even one element.
    pub fn shared_by(&self, bytes: &Bytes) -> Option<SharedBeginning> {
        let end = common(self.document.bytes(), bytes);
        let whole = self.whole.filter(|whole| whole.end <= end);
        let elements = whole.or_else(|| self.document.elements_within(self.array(), end))?;
        let all = end == bytes.len() && end == self.document.bytes().len();
        Some(SharedBeginning { elements, bytes: bytes.clone(), with: self.document.bytes().clone(), all })
    }

    /// The document.
    pub fn document(&self) -> &Document {
        &self.document
    }

    /// The array.
    pub fn array(&self) -> Value<'_> {
        Value { document: &self.document, index: self.array }
    }

    /// All elements of the array; `None` if it has none.
    pub fn whole(&self) -> Option<SharedElements> {
        self.whole
    }
}

/// Number of bytes that both begin with.
fn common(one: &[u8], other: &[u8]) -> usize {
    // Large blocks first, then smaller ones of the block that differs.
    let mut same = 0;
    for block in [1024, 32, 1] {
        let (one, other) = (one.get(same..).unwrap_or_default(), other.get(same..).unwrap_or_default());
        same += one.chunks_exact(block).zip(other.chunks_exact(block)).take_while(|(one, other)| one == other).count() * block;
    }
    same
}

/// A value in a document.
#[derive(Clone, Copy, Debug)]
pub struct Value<'d> {
    document: &'d Document,
    index: u32,
}

impl<'d> Value<'d> {
    #[inline]
    fn node(self) -> ValueSpan {
        self.document.nodes[self.index as usize]
    }

    /// Kind of the value.
    #[inline]
    pub fn kind(self) -> Kind {
        self.node().kind
    }

    /// Byte range of the value, quotes and brackets included.
    #[inline]
    pub fn span(self) -> Range<usize> {
        let node = self.node();
        node.start as usize..node.end as usize
    }

    /// The original bytes of the value.
    #[inline]
    pub fn raw(self) -> &'d [u8] {
        &self.document.text.as_bytes()[self.span()]
    }

    /// The original bytes of the value, as text.
    pub fn raw_str(self) -> &'d str {
        // INVARIANT: a value starts and ends at an ASCII byte.
        self.document.text.get(self.span()).unwrap_or_default()
    }

    /// The original bytes of the value, sharing the document's buffer.
    pub fn raw_bytes(self) -> Bytes {
        self.document.text.as_bytes().slice(self.span())
    }

    /// The text of a string, escapes resolved; a lone surrogate becomes U+FFFD. `None` if the value isn't a string.
    #[inline]
    pub fn text(self) -> Option<Cow<'d, str>> {
        let node = self.node();
        // INVARIANT: a string's quotes are ASCII.
        let inside = || self.document.text.get(node.start as usize + 1..node.end as usize - 1).unwrap_or_default();
        match node.kind {
            Kind::Plain => Some(Cow::Borrowed(inside())),
            Kind::Escaped => Some(Cow::Owned(string::unescape(inside()))),
            _ => None,
        }
    }

    /// The text of a string, escapes not yet resolved. `None` if the value isn't a string.
    pub fn json_text(self) -> Option<JsonText<'d>> {
        let inside = || self.raw_str().get(1..self.raw_str().len() - 1).unwrap_or_default();
        match self.kind() {
            Kind::Plain => Some(JsonText::Plain(inside())),
            Kind::Escaped => Some(JsonText::Escaped(inside())),
            _ => None,
        }
    }

    /// Returns whether the value is a string with this text.
    pub fn is_text(self, text: &str) -> bool {
        self.text().is_some_and(|own| own == text)
    }

    /// Returns whether the value is `null`.
    #[inline]
    pub fn is_null(self) -> bool {
        self.kind() == Kind::Null
    }

    /// Returns whether the value is a string.
    #[inline]
    pub fn is_string(self) -> bool {
        matches!(self.kind(), Kind::Plain | Kind::Escaped)
    }

    /// Returns whether the value is an object.
    #[inline]
    pub fn is_object(self) -> bool {
        self.kind() == Kind::Object
    }

    /// Returns whether the value is an array.
    #[inline]
    pub fn is_array(self) -> bool {
        self.kind() == Kind::Array
    }

    /// The value of a non-negative whole number, also in the spelling `1.0`.
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

    #[inline]
    fn children(self) -> Children<'d> {
        let node = self.node();
        let inside = matches!(node.kind, Kind::Array | Kind::Object);
        Children { document: self.document, at: self.index + 1, end: if inside { node.next } else { self.index + 1 } }
    }

    /// The elements of an array; empty for other values.
    #[inline]
    pub fn items(self) -> impl Iterator<Item = Value<'d>> {
        let mut children = self.children();
        if !self.is_array() {
            children.at = children.end;
        }
        children
    }

    /// The members of an object in their order; empty for other values.
    #[inline]
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

    /// The value of the first member with this name.
    pub fn get(self, name: &str) -> Option<Value<'d>> {
        // The most frequent query, so without the detour over `members`.
        let (nodes, text) = (&self.document.nodes[..], &**self.document.text.as_bytes());
        let own = nodes.get(self.index as usize).filter(|node| node.kind == Kind::Object)?;
        let mut at = self.index + 1;
        while at < own.next {
            let key = nodes.get(at as usize)?;
            // INVARIANT: a name has no nodes inside, so its value is the node after it.
            let value = Value { document: self.document, index: at + 1 };
            let found = match key.kind {
                Kind::Plain if (key.end - key.start) as usize != name.len() + 2 => false,
                Kind::Plain => text.get(key.start as usize + 1..key.end as usize - 1)? == name.as_bytes(),
                _ => (Value { document: self.document, index: at }).is_text(name),
            };
            if found {
                return Some(value);
            }
            at = nodes.get(value.index as usize)?.next;
        }
        None
    }

    /// The value of the first member with this name, unless it is `null`.
    #[inline]
    pub fn get_some(self, name: &str) -> Option<Value<'d>> {
        self.get(name).filter(|value| !value.is_null())
    }

    /// A name that two members of this object share, if any.
    #[inline]
    pub fn duplicate_name(self) -> Option<Cow<'d, str>> {
        if self.node().names.twins { self.duplicate_name_of_few() } else { None }
    }

    fn duplicate_name_of_few(self) -> Option<Cow<'d, str>> {
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

    /// True if a member of this object may have a name with an upper-case letter, a character beyond ASCII or an escape. If false, none
    /// has.
    #[inline]
    pub fn may_have_odd_names(self) -> bool {
        self.node().names.odd
    }
}

/// A member of an object.
#[derive(Clone, Copy, Debug)]
pub struct Member<'d> {
    /// The name, a string.
    pub key: Value<'d>,
    /// The value.
    pub value: Value<'d>,
}

impl<'d> Member<'d> {
    /// The name, escapes resolved.
    #[inline]
    pub fn name(self) -> Cow<'d, str> {
        self.key.text().unwrap_or_default()
    }

    /// True if the name has an upper-case letter, a character beyond ASCII or an escape.
    pub fn has_odd_name(self) -> bool {
        NameTraits::of(self.key.raw(), self.key.kind()).odd
    }

    /// Returns whether the member has this name.
    #[inline]
    pub fn is(self, name: &str) -> bool {
        let node = self.key.node();
        match node.kind {
            Kind::Plain => (node.end - node.start) as usize == name.len() + 2 && self.key.raw()[1..=name.len()] == *name.as_bytes(),
            _ => self.key.is_text(name),
        }
    }

    /// Byte range of the member, from its name to the end of its value.
    #[inline]
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
    #[inline]
    fn next(&mut self) -> Option<Value<'d>> {
        if self.at >= self.end {
            return None;
        }
        let value = Value { document: self.document, index: self.at };
        self.at = value.node().next;
        Some(value)
    }
}

#[cfg(test)]
mod tests;
