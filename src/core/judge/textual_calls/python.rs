//! Calls as Python writes them, `[f(a="x", b=1), g()]`, with their arguments as JSON. Pure.

use super::{
    TextualArguments, TextualCall,
    cursor::{CallCertainty, Cursor, ParseResult, ParseStop},
};
use crate::{claims::text_input::TextInput, wire::json::string::quote};

/// Levels of nesting of lists and dictionaries.
const DEPTH_MAX: usize = 16;

impl Cursor<'_> {
    /// Consumes a list of calls. A list followed by an address in parentheses is a link, not calls.
    pub(super) fn python_list(&mut self, certainty: CallCertainty, calls: &mut Vec<TextualCall>, input: TextInput) -> ParseResult<()> {
        self.need("[")?;
        let mut certainty = certainty;
        loop {
            self.skip(char::is_whitespace);
            calls.push(self.python_call(certainty)?);
            // Behind one of a known tool the others are calls too.
            certainty = CallCertainty::Certain;
            self.skip(char::is_whitespace);
            if self.token(",")? {
                continue;
            }
            self.need("]")?;
            return match self.rest().chars().next() {
                None if input.is_partial() => Err(ParseStop::More),
                Some('(') => Err(ParseStop::No),
                None | Some(_) => Ok(()),
            };
        }
    }

    /// Consumes a statement that is a call, or prints one.
    pub(super) fn python_statement(&mut self) -> ParseResult<TextualCall> {
        let prints = self.token("print(")?;
        self.skip(char::is_whitespace);
        let prefixed = self.any(&["default_api.", "functions.", "tools."])?;
        let call = self.python_call(if prefixed { CallCertainty::Certain } else { CallCertainty::Possible })?;
        self.skip(char::is_whitespace);
        if prints {
            self.need(")")?;
        }
        Ok(call)
    }

    fn python_call(&mut self, certainty: CallCertainty) -> ParseResult<TextualCall> {
        let tool = self.tool(certainty)?;
        self.need("(")?;
        let mut members = Vec::new();
        loop {
            self.skip(char::is_whitespace);
            if self.token(")")? {
                break;
            }
            let name = self.word()?;
            self.skip(char::is_whitespace);
            self.need("=")?;
            self.skip(char::is_whitespace);
            members.push(format!("{}:{}", quote(name), self.literal(0)?));
            self.skip(char::is_whitespace);
            if !self.token(",")? && !self.rest().starts_with(')') {
                return Err(if self.rest().is_empty() { ParseStop::More } else { ParseStop::No });
            }
        }
        Ok(TextualCall { tool, arguments: TextualArguments::Json(format!("{{{}}}", members.join(","))) })
    }

    /// Parses a literal as JSON. INVARIANT: `depth` bounds the recursion.
    fn literal(&mut self, depth: usize) -> ParseResult<String> {
        if depth > DEPTH_MAX {
            return Err(ParseStop::No);
        }
        match self.rest().chars().next() {
            None => Err(ParseStop::More),
            Some(mark @ ('"' | '\'')) => self.text(mark).map(|text| quote(&text)),
            Some('[') => Ok(format!("[{}]", self.elements("[", "]", depth, None)?.join(","))),
            Some('{') => Ok(format!("{{{}}}", self.elements("{", "}", depth, Some(":"))?.join(","))),
            Some(_) => {
                let inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '+');
                let length = self.rest().find(|c| !inside(c)).ok_or(ParseStop::More)?;
                let word = self.rest().get(..length).unwrap_or_default();
                self.advance(length);
                match word {
                    "True" | "true" => Ok("true".to_owned()),
                    "False" | "false" => Ok("false".to_owned()),
                    "None" | "null" => Ok("null".to_owned()),
                    number if serde_json::from_str::<serde_json::Number>(number).is_ok() => Ok(number.to_owned()),
                    _ => Err(ParseStop::No),
                }
            }
        }
    }

    /// Parses the elements between two brackets; with `colon` they are pairs.
    fn elements(&mut self, open: &str, close: &str, depth: usize, colon: Option<&str>) -> ParseResult<Vec<String>> {
        self.need(open)?;
        let mut elements = Vec::new();
        loop {
            self.skip(char::is_whitespace);
            if self.token(close)? {
                return Ok(elements);
            }
            let mut element = match (colon, self.rest().chars().next()) {
                (Some(_), Some(mark @ ('"' | '\''))) => quote(&self.text(mark)?),
                (Some(_), Some(_)) => return Err(ParseStop::No),
                _ => self.literal(depth + 1)?,
            };
            if let Some(colon) = colon {
                self.skip(char::is_whitespace);
                self.need(colon)?;
                self.skip(char::is_whitespace);
                element = format!("{element}:{}", self.literal(depth + 1)?);
            }
            elements.push(element);
            self.skip(char::is_whitespace);
            if !self.token(",")? && !self.rest().starts_with(close) {
                return Err(if self.rest().is_empty() { ParseStop::More } else { ParseStop::No });
            }
        }
    }

    /// Parses a string. Escapes without a meaning stay as they are, as in Python.
    fn text(&mut self, mark: char) -> ParseResult<String> {
        let mut out = String::new();
        let mut chars = self.rest().char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => match chars.next().ok_or(ParseStop::More)?.1 {
                    'n' => out.push('\n'),
                    't' => out.push('\t'),
                    'r' => out.push('\r'),
                    same @ ('\\' | '"' | '\'') => out.push(same),
                    // Not read: what it stands for would be guessed.
                    'x' | 'u' | 'U' | 'N' | '0'..='7' => return Err(ParseStop::No),
                    other => out.extend(['\\', other]),
                },
                '\n' => return Err(ParseStop::No),
                c if c == mark => {
                    self.advance(at + 1);
                    return Ok(out);
                }
                c => out.push(c),
            }
        }
        Err(ParseStop::More)
    }
}
