//! A place in a text that is read from left to right, and that may not be there to its end yet. Pure.

use super::Names;

/// Why reading stops.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Stop {
    /// The text isn't there to its end.
    More,
    /// It isn't what is looked for.
    No,
}

/// What a step gives.
pub type Step<T> = Result<T, Stop>;

/// No tool's name is longer, nor that of a parameter worth a thought.
const WORD_BYTES_MAX: usize = 128;

/// See the module.
pub(super) struct Cursor<'t> {
    rest: &'t str,
    known: &'t dyn Fn(&str) -> bool,
    names: Names,
}

impl<'t> Cursor<'t> {
    /// At the beginning. `known`: is a tool of that name known?
    pub fn new(text: &'t str, known: &'t dyn Fn(&str) -> bool, names: Names) -> Self {
        Self { rest: text, known, names }
    }

    /// At the beginning of another text.
    pub fn at(&self, text: &'t str) -> Self {
        Self { rest: text, ..*self }
    }

    /// What is ahead.
    pub fn rest(&self) -> &'t str {
        self.rest
    }

    /// Is a tool of that name known?
    pub fn knows(&self, tool: &str) -> bool {
        (self.known)(tool)
    }

    /// May a call of a tool of that name be meant? `wrapped`: by what stands before it, it is a call.
    pub fn names(&self, tool: &str, wrapped: bool) -> bool {
        let surely = match self.names {
            Names::Known => false,
            Names::Wrapped => wrapped,
            Names::Any => true,
        };
        self.knows(tool) || surely && is_name(tool)
    }

    /// May a name that begins like this still become a tool's?
    pub fn may_name(&self, begun: &str) -> bool {
        begun.len() <= WORD_BYTES_MAX && (self.names == Names::Known || begun.is_empty() || is_name(begun))
    }

    /// Goes on by so many bytes.
    pub fn advance(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }

    /// Passes over such characters.
    pub fn skip(&mut self, such: impl Fn(char) -> bool) {
        self.rest = self.rest.trim_start_matches(such);
    }

    /// Takes this, if it is ahead.
    pub fn token(&mut self, token: &str) -> Step<bool> {
        if let Some(rest) = self.rest.strip_prefix(token) {
            self.rest = rest;
            return Ok(true);
        }
        if !self.rest.is_empty() && token.starts_with(self.rest) { Err(Stop::More) } else { Ok(false) }
    }

    /// Takes the longest of these that is ahead.
    pub fn any(&mut self, tokens: &[&str]) -> Step<bool> {
        let longest = tokens.iter().filter(|token| self.rest.starts_with(**token)).map(|token| token.len()).max();
        // A longer one may still come.
        let longer = |token: &&str| token.len() > self.rest.len() && token.starts_with(self.rest);
        match longest {
            Some(length) => self.advance(length),
            None if !self.rest.is_empty() && tokens.iter().any(longer) => return Err(Stop::More),
            None => return Ok(false),
        }
        Ok(true)
    }

    /// Takes this, which must be ahead.
    pub fn need(&mut self, token: &str) -> Step<()> {
        match self.token(token)? {
            true => Ok(()),
            false if self.rest.is_empty() => Err(Stop::More),
            false => Err(Stop::No),
        }
    }

    /// Takes everything up to this, and this.
    pub fn until(&mut self, end: &str) -> Step<&'t str> {
        let (taken, rest) = self.rest.split_once(end).ok_or(Stop::More)?;
        self.rest = rest;
        Ok(taken)
    }

    /// Takes a word; there must be something behind it.
    pub fn word(&mut self) -> Step<&'t str> {
        let inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let length = self.rest.find(|c| !inside(c));
        if length == Some(0) || length.unwrap_or(self.rest.len()) > WORD_BYTES_MAX {
            return Err(Stop::No);
        }
        let (word, rest) = self.rest.split_at(length.ok_or(Stop::More)?);
        self.rest = rest;
        Ok(word)
    }

    /// Takes the name of a tool. `surely`: by what stands before it, it is one, whether it is known or not.
    pub fn tool(&mut self, surely: bool) -> Step<String> {
        let word = self.word()?;
        if self.knows(word) || surely && self.names(word, true) { Ok(word.to_owned()) } else { Err(Stop::No) }
    }

    /// Takes a string of JSON.
    pub fn string(&mut self) -> Step<()> {
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
        Err(Stop::More)
    }

    /// Takes an object or array of JSON with all that is in it.
    pub fn balanced(&mut self) -> Step<&'t str> {
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
        Err(Stop::More)
    }
}

/// Could it name a tool? No sentence does, and no person.
fn is_name(name: &str) -> bool {
    let inside = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '/');
    !name.is_empty() && name.len() <= WORD_BYTES_MAX && name.chars().all(inside)
}
