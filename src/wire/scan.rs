//! The scanner behind [`super::json`]: one pass over a document, checking its grammar and noting its values.
//!
//! RFC 8259. Recursion, nodes and nesting are bounded. Pure.

use super::json::JsonError;

/// Nesting that is accepted at all, as deep as `serde_json` goes.
pub const DEPTH_MAX: usize = 127;
/// Values are noted down to this depth: `messages[].tool_calls[].function.arguments.x` and then some.
pub const DEPTH_NOTED_MAX: usize = 8;
/// Values noted in one document; a chat request of 32 MiB has a few thousand.
pub const NODES_MAX: usize = 1 << 20;

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

/// Where a value lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub start: u32,
    pub end: u32,
    /// The node after this one and all that is inside it.
    pub next: u32,
    /// What it is.
    pub kind: Kind,
}

/// See the module.
pub(super) struct Scanner<'b> {
    bytes: &'b [u8],
    at: usize,
    nodes: Vec<Node>,
    depth_noted: usize,
    known: &'b [&'b [u8]],
}

impl<'b> Scanner<'b> {
    /// Scans `bytes`, which are to be UTF-8: every value down to `depth_noted`; `known` values of a member of
    /// the document's object are passed over.
    pub fn scan(bytes: &'b [u8], depth_noted: usize, known: &'b [&'b [u8]]) -> Result<Vec<Node>, JsonError> {
        let nodes = Vec::with_capacity(if depth_noted < 3 { 32 } else { bytes.len() / 24 + 8 });
        let mut scanner = Self { bytes, at: 0, nodes, depth_noted, known };
        scanner.blank();
        scanner.value(0)?;
        scanner.blank();
        if scanner.at != bytes.len() {
            return Err(JsonError::Syntax(scanner.at));
        }
        Ok(scanner.nodes)
    }

    /// The string that `bytes` begin with: what it is and how many bytes it takes, quotes included.
    pub fn leading_string(bytes: &'b [u8]) -> Option<(Kind, usize)> {
        let mut scanner = Self { bytes, at: 0, nodes: Vec::new(), depth_noted: 0, known: &[] };
        let kind = scanner.string().ok().filter(|_| bytes.first() == Some(&b'"'))?;
        Some((kind, scanner.at))
    }

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
        let bytes = self.bytes;
        let mut at = self.at + 1;
        loop {
            at = plain_end(bytes, at);
            match bytes.get(at) {
                Some(b'"') => {
                    self.at = at + 1;
                    return Ok(kind);
                }
                Some(b'\\') => {
                    kind = Kind::Escaped;
                    // JSON within JSON is full of these.
                    if matches!(bytes.get(at + 1), Some(b'"' | b'\\' | b'n')) {
                        at += 2;
                        continue;
                    }
                    self.at = at;
                    self.escape()?;
                    at = self.at;
                }
                _ => return Err(JsonError::Syntax(at)),
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

/// Where the next quote, backslash or control character is, or the end: eight at a time, and where strings are long
/// thirty-two.
#[inline]
fn plain_end(bytes: &[u8], from: usize) -> usize {
    let mut at = from;
    for _ in 0..2 {
        let Some(found) = bytes.get(at..).and_then(|rest| rest.first_chunk()).map(|chunk| special(u64::from_le_bytes(*chunk))) else {
            return plain_tail(bytes, at);
        };
        if found != 0 {
            return at + (found.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    plain_long(bytes, at)
}

fn plain_long(bytes: &[u8], from: usize) -> usize {
    let mut at = from;
    while let Some(chunk) = bytes.get(at..).and_then(|rest| rest.first_chunk::<32>()) {
        // Without a branch inside, so that it is done on all of them at once.
        if chunk.iter().fold(false, |found, byte| found | (*byte == b'"') | (*byte == b'\\') | (*byte < 0x20)) {
            break;
        }
        at += 32;
    }
    while let Some(chunk) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        let found = special(u64::from_le_bytes(*chunk));
        if found != 0 {
            return at + (found.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    plain_tail(bytes, at)
}

fn plain_tail(bytes: &[u8], from: usize) -> usize {
    let plain = |byte: &&u8| !matches!(**byte, b'"' | b'\\' | 0..=0x1f);
    from + bytes.get(from..).unwrap_or_default().iter().take_while(plain).count()
}

/// Of each of eight bytes the high bit, where it is a quote, a backslash or a control character.
fn special(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = ONES * 0x80;
    // The high bit is set where subtracting borrows: where the byte equals the quote or the backslash, or is
    // below the blank. A borrow only ever spoils the bytes above the first one found.
    let quote = (word ^ (ONES * 0x22)).wrapping_sub(ONES);
    let slash = (word ^ (ONES * 0x5c)).wrapping_sub(ONES);
    let control = word.wrapping_sub(ONES * 0x20);
    (quote | slash | control) & !word & HIGH
}
