//! Cursor in a text that is parsed from left to right and may be incomplete. Pure.

use super::ToolFilter;

/// Reason why parsing stops.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ParseStop {
    /// More text is needed.
    More,
    /// The text doesn't match.
    No,
}

/// Result of one parsing step.
pub type ParseResult<T> = Result<T, ParseStop>;

/// Bytes of the longest name of a tool or parameter.
const WORD_BYTES_MAX: usize = 128;

/// Certainty that a call stands at a place, from the text before it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CallCertainty {
    /// Only the name of a known tool shows that it is a call.
    Possible,
    /// The text before it shows that it is a call: a wrapper, or another call.
    Certain,
}

impl CallCertainty {
    /// True if the text before shows that it is a call.
    pub const fn is_certain(self) -> bool {
        matches!(self, Self::Certain)
    }
}

/// Cursor over the rest of a text.
pub(super) struct Cursor<'t> {
    rest: &'t str,
    known: &'t dyn Fn(&str) -> bool,
    names: ToolFilter,
}

impl<'t> Cursor<'t> {
    /// Cursor at the beginning of `text`. `known`: is a tool of that name known?
    pub fn new(text: &'t str, known: &'t dyn Fn(&str) -> bool, names: ToolFilter) -> Self {
        Self { rest: text, known, names }
    }

    /// Cursor at the beginning of another text, with the same settings.
    pub fn at(&self, text: &'t str) -> Self {
        Self { rest: text, ..*self }
    }

    /// The text after the cursor.
    pub fn rest(&self) -> &'t str {
        self.rest
    }

    /// True if a tool of that name is known.
    pub fn knows(&self, tool: &str) -> bool {
        (self.known)(tool)
    }

    /// True if a call of a tool of that name may be meant.
    pub fn names(&self, tool: &str, certainty: CallCertainty) -> bool {
        let surely = match self.names {
            ToolFilter::Known => false,
            ToolFilter::Wrapped => certainty.is_certain(),
            ToolFilter::Any => true,
        };
        self.knows(tool) || surely && is_name(tool)
    }

    /// True if a name that begins like this may still become a tool's.
    pub fn may_name(&self, begun: &str) -> bool {
        begun.len() <= WORD_BYTES_MAX && (self.names == ToolFilter::Known || begun.is_empty() || is_name(begun))
    }

    /// Moves forward by `bytes` bytes.
    pub fn advance(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }

    /// Skips all characters for which `such` is true.
    pub fn skip(&mut self, such: impl Fn(char) -> bool) {
        self.rest = self.rest.trim_start_matches(such);
    }

    /// Consumes `token` if it comes next; true if it does.
    pub fn token(&mut self, token: &str) -> ParseResult<bool> {
        if let Some(rest) = self.rest.strip_prefix(token) {
            self.rest = rest;
            return Ok(true);
        }
        if !self.rest.is_empty() && token.starts_with(self.rest) { Err(ParseStop::More) } else { Ok(false) }
    }

    /// Consumes the longest of `tokens` that comes next; false if none does.
    pub fn any(&mut self, tokens: &[&str]) -> ParseResult<bool> {
        let longest = tokens.iter().filter(|token| self.rest.starts_with(**token)).map(|token| token.len()).max();
        // A longer one may still come.
        let longer = |token: &&str| token.len() > self.rest.len() && token.starts_with(self.rest);
        match longest {
            Some(length) => self.advance(length),
            None if !self.rest.is_empty() && tokens.iter().any(longer) => return Err(ParseStop::More),
            None => return Ok(false),
        }
        Ok(true)
    }

    /// Consumes `token`, which must come next.
    pub fn need(&mut self, token: &str) -> ParseResult<()> {
        match self.token(token)? {
            true => Ok(()),
            false if self.rest.is_empty() => Err(ParseStop::More),
            false => Err(ParseStop::No),
        }
    }

    /// Consumes everything up to and including `end`; returns the part before it.
    pub fn until(&mut self, end: &str) -> ParseResult<&'t str> {
        let (taken, rest) = self.rest.split_once(end).ok_or(ParseStop::More)?;
        self.rest = rest;
        Ok(taken)
    }

    /// Consumes a word, which must be followed by something.
    pub fn word(&mut self) -> ParseResult<&'t str> {
        let inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let length = self.rest.find(|c| !inside(c));
        if length == Some(0) || length.unwrap_or(self.rest.len()) > WORD_BYTES_MAX {
            return Err(ParseStop::No);
        }
        let (word, rest) = self.rest.split_at(length.ok_or(ParseStop::More)?);
        self.rest = rest;
        Ok(word)
    }

    /// Consumes the name of a tool. It may be unknown if a call is certain.
    pub fn tool(&mut self, certainty: CallCertainty) -> ParseResult<String> {
        let word = self.word()?;
        if self.knows(word) || certainty.is_certain() && self.names(word, certainty) { Ok(word.to_owned()) } else { Err(ParseStop::No) }
    }

    /// Consumes a JSON string.
    pub fn string(&mut self) -> ParseResult<()> {
        self.need("\"")?;
        let mut escaped = false;
        for (at, byte) in self.rest.bytes().enumerate() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => {
                    self.advance(at + 1);
                    return Ok(());
                }
                _ => {}
            }
        }
        Err(ParseStop::More)
    }

    /// Consumes a whole JSON object or array.
    pub fn balanced(&mut self) -> ParseResult<&'t str> {
        let (mut depth, mut in_string, mut escaped) = (0usize, false, false);
        for (at, byte) in self.rest.bytes().enumerate() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' if in_string => escaped = true,
                b'"' => in_string = !in_string,
                _ if in_string => {}
                b'{' | b'[' => depth += 1,
                b'}' | b']' => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        let (taken, rest) = self.rest.split_at(at + 1);
                        self.rest = rest;
                        return Ok(taken);
                    }
                }
                _ => {}
            }
        }
        Err(ParseStop::More)
    }
}

/// True for a text that could name a tool: a single word, no sentence or person.
fn is_name(name: &str) -> bool {
    let inside = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '/');
    !name.is_empty() && name.len() <= WORD_BYTES_MAX && name.chars().all(inside)
}
