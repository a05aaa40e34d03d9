//! The scanner behind [`crate::wire::json`]: one pass over a document that checks its grammar and notes its values.
//!
//! RFC 8259. Recursion, nodes and nesting are bounded. Pure.

use wide::u8x16;

use crate::wire::json::JsonError;

/// Deepest nesting that is accepted, the same as that of `serde_json`.
pub const DEPTH_MAX: usize = 127;
/// Depth down to which values are noted by default: some levels below `messages[].tool_calls[].function.arguments`.
pub const DEPTH_NOTED_MAX: usize = 8;
/// Values that are noted in one document at most; a chat request of 32 MiB has a few thousand.
pub const NODES_MAX: usize = 1 << 20;

/// Members of a request whose values may be known, as they are spelled: its tools. What is skipped seems empty to whoever reads it.
const NAMES_OF_KNOWN: [&[u8]; 2] = [br#""tools""#, br#""functions""#];

/// Length, in bytes, below which a document is short.
const SHORT: usize = 2048;

/// Kind of a value.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// `null`
    Null,
    /// `true`
    True,
    /// `false`
    False,
    /// A number, in any spelling.
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

/// Position of a noted value.
#[derive(Clone, Copy, Debug)]
pub(in crate::wire) struct ValueSpan {
    pub start: u32,
    pub end: u32,
    /// Index of the next node that isn't inside this one.
    pub next: u32,
    /// Kind of the value.
    pub kind: Kind,
    /// For an object: its names.
    pub names: NameTraits,
}

/// Traits of the names of an object's members, or of one.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::wire) struct NameTraits {
    /// Two may be the same. If false, all differ. Of one: it has an escape, so that another may be the same in other characters.
    pub twins: bool,
    /// One may have an upper-case letter, a character beyond ASCII or an escape. If false, none has.
    pub odd: bool,
}

impl NameTraits {
    /// Those of names that weren't looked at.
    const UNKNOWN: Self = Self { twins: true, odd: true };
    /// Those of no names at all.
    const NONE: Self = Self { twins: false, odd: false };

    /// Those of one name.
    pub fn of(name: &[u8], kind: Kind) -> Self {
        let escaped = kind == Kind::Escaped;
        Self { twins: escaped, odd: escaped || name.iter().any(|byte| byte.is_ascii_uppercase() || !byte.is_ascii()) }
    }
}

/// Names of an object's members.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::wire) struct NameSet {
    bits: u64,
    traits: NameTraits,
}

impl NameSet {
    /// Adds a name. `quoted`: with its quotes; `own`: its traits.
    #[inline]
    fn insert(&mut self, quoted: &[u8], own: NameTraits) {
        let bit = name_bit(quoted);
        self.traits.twins |= self.bits & bit != 0 || own.twins;
        self.traits.odd |= own.odd;
        self.bits |= bit;
    }

    /// Adds a name. `quoted`: with its quotes.
    pub fn add(&mut self, quoted: &[u8], kind: Kind) {
        self.insert(quoted, NameTraits::of(quoted, kind));
    }
}

/// Sign that a scan has failed. It is empty, so that results are passed in registers; the reason is in [`Scanner::error`].
#[derive(Debug)]
struct ScanFailure;

/// State of one scan.
pub(in crate::wire) struct Scanner<'b> {
    bytes: &'b [u8],
    at: usize,
    nodes: Vec<ValueSpan>,
    depth_noted: usize,
    known: &'b [&'b [u8]],
    error: JsonError,
}

impl<'b> Scanner<'b> {
    /// Scans `bytes`, which must be UTF-8, noting every value down to `depth_noted`. `known` values of the root object's members are
    /// skipped.
    pub fn scan(bytes: &'b [u8], depth_noted: usize, known: &'b [&'b [u8]]) -> Result<Vec<ValueSpan>, JsonError> {
        // A value for each eight bytes in what is short, as most answers are; for each 24 in conversations, which are texts.
        let bytes_each = if bytes.len() < SHORT { 8 } else { 24 };
        let nodes = Vec::with_capacity(if depth_noted < 3 { 32 } else { bytes.len() / bytes_each + 8 });
        let mut scanner = Self::at(bytes, 0, nodes, depth_noted, known);
        scanner.blank();
        let scanned = scanner.value(0);
        scanner.finish(scanned)
    }

    fn at(bytes: &'b [u8], at: usize, nodes: Vec<ValueSpan>, depth_noted: usize, known: &'b [&'b [u8]]) -> Self {
        Self { bytes, at, nodes, depth_noted, known, error: JsonError::Syntax(0) }
    }

    /// The values, if nothing follows the document.
    fn finish(mut self, scanned: Result<(), ScanFailure>) -> Result<Vec<ValueSpan>, JsonError> {
        if let Err(ScanFailure) = scanned {
            return Err(self.error);
        }
        self.blank();
        if self.at == self.bytes.len() { Ok(self.nodes) } else { Err(JsonError::Syntax(self.at)) }
    }

    #[cold]
    fn fail(&mut self, error: JsonError) -> ScanFailure {
        self.error = error;
        ScanFailure
    }

    /// Fails at the current position: its character isn't allowed there.
    #[cold]
    fn unexpected(&mut self) -> ScanFailure {
        self.fail(JsonError::Syntax(self.at))
    }

    /// Continues a scan at the end of an element of an array that is the value of one of the root object's members, with the nodes up to
    /// there. `array`: index of the array's node; `names`: the root object's names up to there.
    pub fn resume(
        bytes: &'b [u8],
        at: usize,
        nodes: Vec<ValueSpan>,
        array: usize,
        names: NameSet,
        depth_noted: usize,
        known: &'b [&'b [u8]],
    ) -> Result<Vec<ValueSpan>, JsonError> {
        let mut scanner = Self::at(bytes, at, nodes, depth_noted, known);
        let scanned = scanner.rest(array, names);
        scanner.finish(scanned)
    }

    /// Scans what follows an element of the array whose node has this index, up to the end of the root object.
    fn rest(&mut self, array: usize, names: NameSet) -> Result<(), ScanFailure> {
        while !self.more(b']')? {
            self.value(2)?;
        }
        self.close(Some(array), Kind::Array, NameTraits::NONE);
        let names = if self.more(b'}')? { names.traits } else { self.members(0, names)? };
        self.close(Some(0), Kind::Object, names);
        Ok(())
    }

    /// The string at the start of `bytes`: its kind and its length in bytes, quotes included.
    pub fn leading_string(bytes: &'b [u8]) -> Option<(Kind, usize)> {
        let mut scanner = Self::at(bytes, 0, Vec::new(), 0, &[]);
        let kind = scanner.string().ok().filter(|_| bytes.first() == Some(&b'"'))?;
        Some((kind, scanner.at))
    }

    #[inline]
    fn peek(&self) -> u8 {
        // 0 is allowed nowhere outside strings, so it also represents the end.
        self.bytes.get(self.at).copied().unwrap_or(0)
    }

    #[inline]
    fn blank(&mut self) {
        // Nearly always there is none, or one.
        if self.peek() <= b' ' {
            self.blanks();
        }
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), b' ' | b'\n' | b'\r' | b'\t') {
            self.at += 1;
        }
    }

    fn open(&mut self, depth: usize) -> Result<Option<usize>, ScanFailure> {
        if depth > self.depth_noted {
            return Ok(None);
        }
        if self.nodes.len() >= NODES_MAX {
            return Err(self.fail(JsonError::TooMany));
        }
        self.nodes.push(ValueSpan { start: self.at as u32, end: 0, next: 0, kind: Kind::Null, names: NameTraits::NONE });
        Ok(Some(self.nodes.len() - 1))
    }

    fn close(&mut self, index: Option<usize>, kind: Kind, names: NameTraits) {
        let next = self.nodes.len() as u32;
        if let Some(node) = index.and_then(|index| self.nodes.get_mut(index)) {
            (node.end, node.next, node.kind, node.names) = (self.at as u32, next, kind, names);
        }
    }

    /// Notes a value without inner values, which begins at `start` and ends at the current position.
    #[inline(always)]
    fn note(&mut self, start: usize, depth: usize, kind: Kind) -> Result<(), ScanFailure> {
        if depth <= self.depth_noted {
            let next = self.nodes.len() + 1;
            if next > NODES_MAX {
                return Err(self.fail(JsonError::TooMany));
            }
            self.nodes.push(ValueSpan { start: start as u32, end: self.at as u32, next: next as u32, kind, names: NameTraits::NONE });
        }
        Ok(())
    }

    // INVARIANT: depth is at most DEPTH_MAX, so the recursion is bounded.
    #[inline(always)]
    fn value(&mut self, depth: usize) -> Result<(), ScanFailure> {
        if depth > DEPTH_MAX {
            return Err(self.fail(JsonError::TooDeep));
        }
        let start = self.at;
        let kind = match self.peek() {
            b'"' => self.string()?,
            b'{' | b'[' => return self.container(depth),
            b'-' | b'0'..=b'9' => self.number()?,
            b't' => self.word(b"true", Kind::True)?,
            b'f' => self.word(b"false", Kind::False)?,
            b'n' => self.word(b"null", Kind::Null)?,
            _ => return Err(self.unexpected()),
        };
        self.note(start, depth, kind)
    }

    /// Scans an object or an array.
    fn container(&mut self, depth: usize) -> Result<(), ScanFailure> {
        let (node, is_object) = (self.open(depth)?, self.peek() == b'{');
        let names = if is_object { self.object(depth)? } else { self.array(depth)? };
        self.close(node, if is_object { Kind::Object } else { Kind::Array }, names);
        Ok(())
    }

    /// Scans the members of an object, and tells of their names.
    fn object(&mut self, depth: usize) -> Result<NameTraits, ScanFailure> {
        self.at += 1;
        self.blank();
        if self.peek() == b'}' {
            self.at += 1;
            return Ok(NameTraits::NONE);
        }
        self.members(depth, NameSet::default())
    }

    /// Scans members up to the end of their object. `names`: those of its members so far.
    fn members(&mut self, depth: usize, mut names: NameSet) -> Result<NameTraits, ScanFailure> {
        loop {
            if self.peek() != b'"' {
                return Err(self.unexpected());
            }
            let start = self.at;
            let (kind, traits) = self.name()?;
            let end = self.at;
            names.insert(&self.bytes[start..end], traits);
            self.note(start, depth + 1, kind)?;
            self.blank();
            if self.peek() != b':' {
                return Err(self.unexpected());
            }
            self.at += 1;
            self.blank();
            let known = depth == 0 && NAMES_OF_KNOWN.iter().any(|name| *name == &self.bytes[start..end]);
            if !known || !self.pass_known()? {
                self.value(depth + 1)?;
            }
            if self.more(b'}')? {
                return Ok(names.traits);
            }
        }
    }

    /// Skips a value that was checked before. Returns whether there was one.
    fn pass_known(&mut self) -> Result<bool, ScanFailure> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        // An array or object ends with its own text, whatever follows.
        let Some(known) = self.known.iter().find(|known| rest.starts_with(known) && matches!(known.first(), Some(b'[' | b'{'))) else {
            return Ok(false);
        };
        let node = self.open(1)?;
        self.at += known.len();
        self.close(node, if known[0] == b'[' { Kind::Array } else { Kind::Object }, NameTraits::UNKNOWN);
        Ok(true)
    }

    /// Scans the elements of an array, which has no names.
    fn array(&mut self, depth: usize) -> Result<NameTraits, ScanFailure> {
        self.at += 1;
        self.blank();
        if self.peek() == b']' {
            self.at += 1;
            return Ok(NameTraits::NONE);
        }
        loop {
            self.value(depth + 1)?;
            if self.more(b']')? {
                return Ok(NameTraits::NONE);
            }
        }
    }

    /// Scans a comma (false) or the closing bracket (true).
    #[inline(always)]
    fn more(&mut self, close: u8) -> Result<bool, ScanFailure> {
        self.blank();
        let byte = self.peek();
        if byte == close {
            self.at += 1;
            return Ok(true);
        }
        if byte != b',' {
            return Err(self.unexpected());
        }
        self.at += 1;
        self.blank();
        Ok(false)
    }

    fn word(&mut self, word: &[u8], kind: Kind) -> Result<Kind, ScanFailure> {
        if !self.bytes[self.at..].starts_with(word) {
            return Err(self.unexpected());
        }
        self.at += word.len();
        Ok(kind)
    }

    fn digits(&mut self) -> Result<(), ScanFailure> {
        if !self.peek().is_ascii_digit() {
            return Err(self.unexpected());
        }
        while self.peek().is_ascii_digit() {
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<Kind, ScanFailure> {
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
        Ok(Kind::Number)
    }

    /// Scans a name: its kind and its traits.
    #[inline(always)]
    fn name(&mut self) -> Result<(Kind, NameTraits), ScanFailure> {
        let (start, mut at, mut found) = (self.at, self.at + 1, 0);
        // Nearly every name ends within one block, or two, and few at the document's end.
        while let Some(chunk) = self.bytes.get(at..).and_then(|rest| rest.first_chunk()) {
            let end = special(chunk).trailing_zeros();
            if end < LANES as u32 {
                found |= odd(chunk) & ((1 << end) - 1);
                if chunk[end as usize] != b'"' {
                    break;
                }
                self.at = at + 1 + end as usize;
                return Ok((Kind::Plain, NameTraits { twins: false, odd: found != 0 }));
            }
            found |= odd(chunk);
            at += LANES;
        }
        let kind = self.string()?;
        Ok((kind, NameTraits::of(&self.bytes[start..self.at], kind)))
    }

    #[inline(always)]
    fn string(&mut self) -> Result<Kind, ScanFailure> {
        if let Some(chunk) = self.bytes.get(self.at + 1..).and_then(|rest| rest.first_chunk()) {
            let end = special(chunk).trailing_zeros() as usize;
            if chunk.get(end) == Some(&b'"') {
                self.at += end + 2;
                return Ok(Kind::Plain);
            }
        }
        self.long_string()
    }

    fn long_string(&mut self) -> Result<Kind, ScanFailure> {
        let at = plain_end(self.bytes, self.at + 1);
        match self.bytes.get(at) {
            Some(b'"') => {
                self.at = at + 1;
                Ok(Kind::Plain)
            }
            Some(b'\\') => {
                self.at = at;
                self.escaped_string().map(|()| Kind::Escaped)
            }
            _ => Err(self.fail(JsonError::Syntax(at))),
        }
    }

    /// Scans a string from its first backslash on. JSON within JSON has one every few bytes, so blocks are looked at as a whole.
    fn escaped_string(&mut self) -> Result<(), ScanFailure> {
        // True if the next byte belongs to the escape before it.
        let mut within = false;
        while let Some(block) = self.bytes.get(self.at..).and_then(|rest| rest.first_chunk::<64>()) {
            let StringBlock { quotes, slashes, control } = StringBlock::of(block);
            let (escaped, open) = escaped_bytes(slashes, within);
            let ends = quotes & !escaped;
            // Bits below the string's end, or below the first byte that isn't allowed.
            let inside = (ends | control).wrapping_sub(1) & !(ends | control);
            let rare = escaped & inside & !(quotes | slashes);
            if rare != 0 {
                self.rare_escapes(rare, block)?;
            }
            if inside != u64::MAX {
                let end = self.at + inside.trailing_ones() as usize;
                if control >> inside.trailing_ones() & 1 == 1 {
                    return Err(self.fail(JsonError::Syntax(end)));
                }
                self.at = end + 1;
                return Ok(());
            }
            within = open;
            self.at += 64;
        }
        // From the backslash on, if one is open.
        self.at -= usize::from(within);
        loop {
            self.at = plain_end(self.bytes, self.at);
            match self.bytes.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape()?,
                _ => return Err(self.unexpected()),
            }
        }
    }

    /// Checks escapes other than those of quotes and backslashes. `rare`: one bit for the byte behind each one's backslash.
    fn rare_escapes(&mut self, mut rare: u64, block: &[u8; 64]) -> Result<(), ScanFailure> {
        let start = self.at;
        while rare != 0 {
            let place = rare.trailing_zeros() as usize;
            if block[place] != b'n' {
                // INVARIANT: a byte of this string is in front of the block.
                self.at = start + place - 1;
                self.escape()?;
            }
            rare &= rare - 1;
        }
        self.at = start;
        Ok(())
    }

    fn escape(&mut self) -> Result<(), ScanFailure> {
        self.at += 1;
        match self.peek() {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => self.at += 1,
            b'u' => {
                let digits = self.bytes.get(self.at + 1..self.at + 5).unwrap_or_default();
                if digits.len() != 4 || !digits.iter().all(u8::is_ascii_hexdigit) {
                    return Err(self.unexpected());
                }
                self.at += 5;
            }
            _ => return Err(self.unexpected()),
        }
        Ok(())
    }
}

/// Position of the next quote, backslash or control character from `from` on, or the end.
pub(in crate::wire) fn plain_end(bytes: &[u8], from: usize) -> usize {
    let mut at = from;
    while let Some(chunk) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        let found = special(chunk);
        if found != 0 {
            return at + found.trailing_zeros() as usize;
        }
        at += LANES;
    }
    match bytes.last_chunk() {
        // Bytes of the last chunk that were checked already are shifted out.
        Some(chunk) => match special(chunk) >> (at + LANES - bytes.len()).min(LANES) {
            0 => at.max(bytes.len()),
            found => at + found.trailing_zeros() as usize,
        },
        None => {
            let plain = |byte: &&u8| !matches!(**byte, b'"' | b'\\' | 0..=0x1f);
            at + bytes.get(at..).unwrap_or_default().iter().take_while(plain).count()
        }
    }
}

/// One bit for a name, quotes included: the same for equal names, mostly different for others.
#[inline]
fn name_bit(quoted: &[u8]) -> u64 {
    // Its first and its last character.
    let [_, first, .., last, _] = *quoted else { return 1 };
    1_u64.rotate_left((quoted.len() as u32).wrapping_mul(11) ^ (u32::from(first) * 7 + u32::from(last)))
}

/// Places of the bytes of a string that matter, one bit for each byte of a block.
struct StringBlock {
    quotes: u64,
    slashes: u64,
    control: u64,
}

impl StringBlock {
    #[inline]
    fn of(block: &[u8; 64]) -> Self {
        let mut found = Self { quotes: 0, slashes: 0, control: 0 };
        for (number, chunk) in block.as_chunks::<LANES>().0.iter().enumerate() {
            let bytes = u8x16::new(*chunk);
            let bits = |mask: u8x16| u64::from(mask.to_bitmask()) << (number * LANES);
            found.quotes |= bits(bytes.simd_eq(u8x16::splat(b'"')));
            found.slashes |= bits(bytes.simd_eq(u8x16::splat(b'\\')));
            found.control |= bits(control(bytes));
        }
        found
    }
}

/// The bytes of a block that a backslash in front of them escapes, and whether the last byte escapes the next block's first. `within`: the
/// first byte is escaped. As in simdjson: G. Langdale and D. Lemire, "Parsing gigabytes of JSON per second", section 3.1.1.
#[inline]
fn escaped_bytes(slashes: u64, within: bool) -> (u64, bool) {
    const ODD: u64 = 0xaaaa_aaaa_aaaa_aaaa;
    if slashes == 0 {
        return (u64::from(within), false);
    }
    // Backslashes that may begin an escape.
    let begin = slashes & !u64::from(within);
    // In each row of backslashes, every second one begins an escape: subtraction carries through the row and tells odd rows from even ones.
    let codes = (((begin << 1) | ODD).wrapping_sub(begin)) ^ ODD;
    (codes ^ (slashes | u64::from(within)), (codes & slashes) >> 63 == 1)
}

/// Bytes that are checked at once.
const LANES: usize = 16;

/// One bit for each byte, the first byte's being the lowest: set for a quote, a backslash or a control character.
#[inline]
fn special(chunk: &[u8; LANES]) -> u32 {
    let bytes = u8x16::new(*chunk);
    (bytes.simd_eq(u8x16::splat(b'"')) | bytes.simd_eq(u8x16::splat(b'\\')) | control(bytes)).to_bitmask()
}

/// One bit for each byte, the first byte's being the lowest: set for an upper-case letter or what isn't ASCII.
#[inline]
fn odd(chunk: &[u8; LANES]) -> u32 {
    let bytes = u8x16::new(*chunk);
    let letters = bytes - u8x16::splat(b'A');
    // The highest bit of each is what counts.
    (bytes | letters.min(u8x16::splat(b'Z' - b'A')).simd_eq(letters)).to_bitmask()
}

/// The control characters among these bytes, as a mask.
#[inline]
fn control(bytes: u8x16) -> u8x16 {
    bytes.min(u8x16::splat(0x1f)).simd_eq(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The end of the string at the start, told byte by byte, or the place of the fault.
    fn end_of_string(bytes: &[u8]) -> Result<usize, usize> {
        let mut at = 1;
        loop {
            match bytes.get(at) {
                Some(b'"') => return Ok(at + 1),
                Some(b'\\') => match bytes.get(at + 1) {
                    Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => at += 2,
                    Some(b'u') if bytes.get(at + 2..at + 6).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) => at += 6,
                    _ => return Err(at + 1),
                },
                Some(0..=0x1f) | None => return Err(at),
                Some(_) => at += 1,
            }
        }
    }

    proptest! {
        #[test]
        fn a_string_ends_where_it_does_byte_by_byte(
            inside in proptest::collection::vec(
                prop_oneof![
                    30 => Just("\\\""), 20 => Just("\\\\"), 20 => Just("x"), 10 => Just("word and word"), 6 => Just("\\n"),
                    3 => Just("\\u00e9"), 2 => Just("\\/"), 2 => Just("é"), 1 => Just("\\u00g9"), 1 => Just("\\x"), 1 => Just("\n"), 1 => Just("\\\u{1}"), 1 => Just("\\"), 1 => Just("\"")
                ],
                0..120,
            ),
            cut in 0_usize..2000,
        ) {
            let text = format!("\"{}\"", inside.concat());
            let bytes = &text.as_bytes()[..(text.len() - cut.min(text.len()) / 8).max(1)];
            let mut scanner = Scanner::at(bytes, 0, Vec::new(), 0, &[]);
            let found = scanner.string().map(|_| scanner.at).map_err(|ScanFailure| scanner.error);
            match (found, end_of_string(bytes)) {
                (Ok(found), Ok(expected)) => prop_assert_eq!(found, expected),
                (Err(JsonError::Syntax(found)), Err(expected)) => prop_assert_eq!(found, expected),
                (found, expected) => prop_assert!(false, "{found:?}, not {expected:?}"),
            }
        }

        #[test]
        fn odd_names(bytes in proptest::collection::vec(prop_oneof![30 => 0x23_u8..0x5b, 30 => 0x61_u8..0x7f, 3 => Just(0xc3_u8)], 0..40), behind in 0_usize..30) {
            let text = [b"\"", &*bytes, b"\"", &vec![b'Z'; behind]].concat();
            let mut scanner = Scanner::at(&text, 0, Vec::new(), 0, &[]);
            let odd = bytes.iter().any(|byte| byte.is_ascii_uppercase() || !byte.is_ascii());
            prop_assert_eq!(scanner.name().ok().map(|(kind, traits)| (kind, traits.twins, traits.odd)), Some((Kind::Plain, false, odd)));
            prop_assert_eq!(scanner.at, bytes.len() + 2);
        }

        #[test]
        fn where_a_plain_text_ends(bytes in proptest::collection::vec(prop_oneof![8 => any::<u8>(), 40 => Just(b'x'), 1 => Just(b'"')], 0..70), from in 0_usize..72) {
            let from = from.min(bytes.len());
            let special = |byte: &u8| matches!(*byte, b'"' | b'\\' | 0..=0x1f);
            let expected = bytes[from..].iter().position(special).map_or(bytes.len(), |at| from + at);
            prop_assert_eq!(plain_end(&bytes, from), expected);
        }
    }
}
