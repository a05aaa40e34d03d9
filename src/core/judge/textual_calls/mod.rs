//! Parses a text that consists only of tool calls, written by a model instead of calling. Pure.
//!
//! docs/wire-facts.md#calls-written-as-text has the families. Their wrappers are taken off; what is left must be calls,
//! one behind the other, to the last character: an object or a list of objects (`name` and `arguments`, and the other
//! spellings of `NAMES` and `ARGUMENTS`), a name with an object behind it, tags with a value each, or Python's calls
//! in a list. Anything else isn't a call, and is rejected as soon as possible, so that a stream isn't held for it.
//!
//! A call of an unknown tool counts only in forms that nothing else has ([`ToolFilter::Any`]): behind a wrapper, in a tag, or as an object with
//! a name, arguments and nothing else.

mod cursor;
mod python;

use bytes::Bytes;

pub use self::cursor::ParseStop;
use self::cursor::{CallCertainty, Cursor, ParseResult};
use crate::{
    claims::text_input::TextInput,
    wire::json::{Document, Value},
};

/// Calls of one text.
const CALLS_MAX: usize = 32;
/// Markers that wrap calls and have no content of their own.
const WRAPPERS: [&str; 47] = [
    "<tool_call>",
    "</tool_call>",
    "<tool_calls>",
    "</tool_calls>",
    "<|python_tag|>",
    "<|python_start|>",
    "<|python_end|>",
    "<|tool_call_start|>",
    "<|tool_call_end|>",
    "[TOOL_CALLS]",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁calls▁end｜>",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁call▁end｜>",
    "<|tool_calls_section_begin|>",
    "<|tool_calls_section_end|>",
    "<|tool_call_begin|>",
    "<minimax:tool_call>",
    "</minimax:tool_call>",
    "<seed:tool_call>",
    "</seed:tool_call>",
    "<｜DSML｜function_calls>",
    "</｜DSML｜function_calls>",
    "<｜DSML｜tool_calls>",
    "</｜DSML｜tool_calls>",
    "<|START_ACTION|>",
    "<|END_ACTION|>",
    "<|action_start|>",
    "<|action_end|>",
    "<|plugin|>",
    "<function_calls>",
    "</function_calls>",
    "<function_call>",
    "</function_call>",
    "<dots_function_call>",
    "</dots_function_call>",
    "<|start|>assistant",
    "<|channel|>commentary",
    "<|channel|>analysis",
    "commentary",
    "<|call|>",
    "<|eom_id|>",
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "</s>",
    ">>>",
];
/// Separators between a tool's name and its arguments.
const JOINTS: [&str; 8] =
    ["[ARGS]", "<｜tool▁sep｜>", "<|tool_call_argument_begin|>", "<|constrain|>", "<|message|>", "json", "```json", "```"];
/// Prefixes of a tool's name.
const PREFIXES: [&str; 4] = ["to=functions.", "functions.", "tools.", "function<｜tool▁sep｜>"];
/// Tags that name a tool, each with those of a parameter and with the closing ones.
const TAGS: [WrapperTags; 3] = [
    WrapperTags { call: "<function=", parameter: "<parameter=", parameter_end: "</parameter>", end: "</function>" },
    WrapperTags { call: "<invoke name=", parameter: "<parameter name=", parameter_end: "</parameter>", end: "</invoke>" },
    WrapperTags {
        call: "<｜DSML｜invoke name=",
        parameter: "<｜DSML｜parameter name=",
        parameter_end: "</｜DSML｜parameter>",
        end: "</｜DSML｜invoke>",
    },
];
/// Members of an object that name the tool.
const NAMES: [&str; 6] = ["name", "tool_name", "function_name", "tool", "action", "function"];
/// Members of an object that hold its arguments.
const ARGUMENTS: [&str; 7] = ["arguments", "parameters", "args", "tool_input", "action_input", "tool_args", "input"];
/// Members of an object that hold calls.
const CALLS: [&str; 3] = ["function", "tool_calls", "function_call"];
/// Members of a call that neither name the tool nor hold arguments.
const LABELS: [&str; 3] = ["id", "tool_call_id", "type"];
/// Levels of nesting of objects that hold calls.
const HOLDING_MAX: usize = 5;
/// Languages of a fence that may hold a call.
const LANGUAGES: [&str; 8] = ["json", "jsonc", "tool_call", "tool_calls", "tool_code", "function_call", "xml", ""];

struct WrapperTags {
    call: &'static str,
    parameter: &'static str,
    parameter_end: &'static str,
    end: &'static str,
}

/// A call written as text.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TextualCall {
    /// Name of the tool.
    pub tool: String,
    /// Its arguments.
    pub arguments: TextualArguments,
}

/// Arguments of a call written as text.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum TextualArguments {
    /// As JSON.
    Json(String),
    /// Names and values; only the tool's schema knows their types.
    Values(Vec<(String, String)>),
}

/// Result of parsing a text.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum TextualParse {
    /// The text consists of these calls only.
    Calls(Vec<TextualCall>),
    /// Incomplete: the text may still become calls.
    More,
    /// The text is something else.
    Nothing,
}

/// Tools whose calls are read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ToolFilter {
    /// Known tools.
    Known,
    /// Also tools that don't exist, behind a wrapper or in a tag.
    Wrapped,
    /// Also tools that don't exist, in any form that nothing else has.
    Any,
}

/// Treatment of code fences.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FenceMode {
    /// The contents of a fence are code, not calls.
    Code,
    /// A fence around the whole text is a wrapper.
    Wrapper,
}

/// Parses a whole text. `known`: is a tool of that name known?
pub fn read(text: &str, known: &dyn Fn(&str) -> bool, names: ToolFilter, fences: FenceMode, input: TextInput) -> TextualParse {
    let mut cursor = Cursor::new(text, known, names);
    match message(&mut cursor, fences, input) {
        Ok(calls) => TextualParse::Calls(calls),
        Err(ParseStop::More) if input.is_partial() => TextualParse::More,
        Err(ParseStop::More | ParseStop::No) => TextualParse::Nothing,
    }
}

/// True if the text is a single word so far.
pub fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
}

/// True if the text may be the beginning of a wrapper or of a tool name's prefix.
pub fn begins_mark(text: &str) -> bool {
    WRAPPERS.iter().chain(&PREFIXES).any(|mark| mark.starts_with(text) || text.starts_with(mark))
}

/// Tool and text of the call that a line begins with, whatever follows it: Python's calls in a list, or a name directly before an object.
///
/// # Errors
/// [`ParseStop`] if it isn't a call, or more text is needed to decide.
pub(super) fn at_line<'t>(text: &'t str, known: &'t dyn Fn(&str) -> bool, input: TextInput) -> ParseResult<(String, &'t str)> {
    let mut cursor = Cursor::new(text, known, ToolFilter::Known);
    let mut calls = Vec::new();
    let read = match text.starts_with('[') {
        true => cursor.python_list(CallCertainty::Possible, &mut calls, input),
        false => named(&mut cursor, CallCertainty::Possible).map(|call| calls.push(call)),
    };
    match (read, calls.into_iter().next()) {
        (Ok(()), Some(call)) => {
            let written = text.get(..text.len() - cursor.rest().len()).unwrap_or_default();
            // Whether what may follow is there yet makes no difference.
            Ok((call.tool, written.trim_end_matches("</function>").trim_end_matches("```").trim_end()))
        }
        (Err(ParseStop::More), _) if input.is_partial() => Err(ParseStop::More),
        _ => Err(ParseStop::No),
    }
}

fn message(cursor: &mut Cursor<'_>, fences: FenceMode, input: TextInput) -> ParseResult<Vec<TextualCall>> {
    cursor.skip(char::is_whitespace);
    if fences == FenceMode::Wrapper && cursor.rest().starts_with('`') {
        return fenced(cursor, input);
    }
    let (mut calls, mut certainty) = (Vec::new(), CallCertainty::Possible);
    loop {
        cursor.skip(|c| c.is_whitespace() || matches!(c, ';' | ','));
        if cursor.rest().is_empty() {
            return if input.is_complete() && !calls.is_empty() { Ok(calls) } else { Err(ParseStop::More) };
        }
        if cursor.any(&WRAPPERS)? {
            certainty = CallCertainty::Certain;
            continue;
        }
        item(cursor, certainty, input, &mut calls)?;
        if calls.len() > CALLS_MAX {
            return Err(ParseStop::No);
        }
    }
}

/// Parses calls in code fences with nothing around them.
fn fenced(cursor: &mut Cursor<'_>, input: TextInput) -> ParseResult<Vec<TextualCall>> {
    let mut calls = Vec::new();
    loop {
        cursor.skip(char::is_whitespace);
        if cursor.rest().is_empty() {
            return if input.is_complete() && !calls.is_empty() { Ok(calls) } else { Err(ParseStop::More) };
        }
        let code = fence_begins(cursor)?;
        let before = calls.len();
        loop {
            cursor.skip(|c| c.is_whitespace() || matches!(c, ';' | ','));
            match cursor.rest().chars().next() {
                // Some forget the fence's end.
                None if input.is_complete() && calls.len() > before => return Ok(calls),
                None => return Err(ParseStop::More),
                Some('`') => break,
                Some('{' | '[') => item(cursor, CallCertainty::Possible, TextInput::Partial, &mut calls)?,
                Some('<') if cursor.any(&WRAPPERS)? => {}
                Some('<') => item(cursor, CallCertainty::Certain, TextInput::Partial, &mut calls)?,
                Some(_) if code => calls.push(cursor.python_statement()?),
                Some(_) => return Err(ParseStop::No),
            }
        }
        cursor.need("```")?;
        if calls.len() == before || calls.len() > CALLS_MAX {
            return Err(ParseStop::No);
        }
    }
}

/// Consumes a fence's opening; true if it says that the fence holds calls as code.
fn fence_begins(cursor: &mut Cursor<'_>) -> ParseResult<bool> {
    cursor.need("```")?;
    let line = cursor.rest();
    let Some((language, _)) = line.split_once('\n') else {
        let language = line.trim();
        return Err(if LANGUAGES.iter().any(|own| own.starts_with(language)) { ParseStop::More } else { ParseStop::No });
    };
    cursor.advance(language.len() + 1);
    match language.trim() {
        "tool_code" => Ok(true),
        language if LANGUAGES.contains(&language) => Ok(false),
        _ => Err(ParseStop::No),
    }
}

fn item(cursor: &mut Cursor<'_>, certainty: CallCertainty, input: TextInput, calls: &mut Vec<TextualCall>) -> ParseResult<()> {
    match cursor.rest().chars().next() {
        Some('{') => objects(cursor, certainty, calls),
        Some('[') => {
            let inner = cursor.rest().get(1..).unwrap_or_default().trim_start();
            match inner.chars().next() {
                None => Err(ParseStop::More),
                Some('{') => objects(cursor, certainty, calls),
                Some(_) => cursor.python_list(certainty, calls, input),
            }
        }
        Some('<') => {
            for tags in &TAGS {
                if cursor.token(tags.call)? {
                    calls.push(tagged(cursor, tags)?);
                    return Ok(());
                }
            }
            Err(ParseStop::No)
        }
        Some(_) => {
            calls.push(named(cursor, certainty)?);
            Ok(())
        }
        None => Err(ParseStop::More),
    }
}

/// Parses a call that is an object, or a list of such.
fn objects(cursor: &mut Cursor<'_>, certainty: CallCertainty, calls: &mut Vec<TextualCall>) -> ParseResult<()> {
    begins_call(cursor, certainty)?;
    let raw = cursor.balanced()?;
    let document = Document::parse(Bytes::copy_from_slice(raw.as_bytes())).map_err(|_| ParseStop::No)?;
    of_value(document.root(), cursor, certainty, HOLDING_MAX, calls).ok_or(ParseStop::No)
}

/// Checks that the members so far are those of a call, and that a name among them may be a tool's.
fn begins_call(cursor: &Cursor<'_>, certainty: CallCertainty) -> ParseResult<()> {
    let inner = cursor.rest().trim_start_matches(['[', ' ', '\n', '\r', '\t']);
    let Some(inner) = inner.strip_prefix('{') else { return if inner.is_empty() { Err(ParseStop::More) } else { Err(ParseStop::No) } };
    let mut inner = cursor.at(inner);
    loop {
        inner.skip(char::is_whitespace);
        inner.need("\"")?;
        let member = members().find(|member| inner.rest().strip_prefix(member).is_some_and(|rest| rest.starts_with('"')));
        let Some(member) = member else {
            return Err(if members().any(|member| member.starts_with(inner.rest())) { ParseStop::More } else { ParseStop::No });
        };
        inner.advance(member.len() + 1);
        inner.skip(char::is_whitespace);
        inner.need(":")?;
        inner.skip(char::is_whitespace);
        match inner.rest().chars().next() {
            None => return Err(ParseStop::More),
            Some('"') if NAMES.contains(&member) => {
                inner.need("\"")?;
                let Some((name, _)) = inner.rest().split_once('"') else {
                    return Err(if inner.may_name(inner.rest()) { ParseStop::More } else { ParseStop::No });
                };
                if !inner.names(bare(name), certainty) {
                    return Err(ParseStop::No);
                }
                inner.advance(name.len() + 1);
            }
            Some('"') => inner.string()?,
            Some('{' | '[') => {
                inner.balanced()?;
            }
            // An id that is a number, or nothing.
            Some(c) if c.is_ascii_alphanumeric() => inner.skip(|c| c.is_ascii_alphanumeric()),
            Some(_) => return Err(ParseStop::No),
        }
        inner.skip(char::is_whitespace);
        if !inner.token(",")? {
            return match inner.rest().chars().next() {
                None => Err(ParseStop::More),
                Some('}') => Ok(()),
                Some(_) => Err(ParseStop::No),
            };
        }
    }
}

/// Names of the members that an object of calls may have.
fn members() -> impl Iterator<Item = &'static str> {
    NAMES.into_iter().chain(ARGUMENTS).chain(CALLS).chain(LABELS)
}

/// INVARIANT: `depth` bounds the recursion.
fn of_value(value: Value<'_>, cursor: &Cursor<'_>, certainty: CallCertainty, depth: usize, calls: &mut Vec<TextualCall>) -> Option<()> {
    let depth = depth.checked_sub(1)?;
    if value.is_array() {
        value.items().next()?;
        return value.items().try_for_each(|element| {
            (calls.len() <= CALLS_MAX).then_some(())?;
            of_value(element, cursor, certainty, depth, calls)
        });
    }
    let odd = value.duplicate_name().is_some() || value.members().any(|member| members().all(|own| *member.name() != *own));
    if !value.is_object() || odd {
        return None;
    }
    let held = CALLS.iter().find_map(|name| value.get(name).filter(|held| held.is_object() || held.is_array()));
    match held {
        Some(held) => of_value(held, cursor, CallCertainty::Certain, depth, calls),
        None => of_object(value, cursor, certainty).map(|call| calls.push(call)),
    }
}

fn of_object(object: Value<'_>, cursor: &Cursor<'_>, certainty: CallCertainty) -> Option<TextualCall> {
    let mut names = NAMES.iter().filter_map(|name| object.get(name)?.text());
    let (name, None) = (names.next()?, names.next()) else { return None };
    let tool = bare(&name).to_owned();
    let mut arguments = ARGUMENTS.iter().filter_map(|name| object.get(name));
    let (arguments, None) = (arguments.next()?, arguments.next()) else { return None };
    let known = cursor.knows(&tool);
    let json = if arguments.is_object() {
        // A definition's parameters are a schema.
        let schema = arguments.get("properties").is_some() || arguments.get("type").is_some_and(|kind| kind.is_text("object"));
        (!schema).then(|| arguments.raw_str().to_owned())?
    } else {
        let text = arguments.text()?;
        // Of an unknown tool a text could be anything.
        (known || certainty.is_certain() || text.trim_start().starts_with('{')).then(|| text.into_owned())?
    };
    cursor.names(&tool, certainty).then_some(TextualCall { tool, arguments: TextualArguments::Json(json) })
}

/// The tool's name without the prefixes that some models write.
fn bare(name: &str) -> &str {
    name.strip_prefix("functions.").or_else(|| name.strip_prefix("tools.")).unwrap_or(name)
}

/// Parses `<function=f>…` and the like. Some models leave out the `>` before an object.
fn tagged(cursor: &mut Cursor<'_>, tags: &WrapperTags) -> ParseResult<TextualCall> {
    cursor.skip(|c| c == '"');
    let tool = cursor.tool(CallCertainty::Certain)?;
    cursor.skip(|c| c == '"');
    if !cursor.token(">")? && !cursor.rest().starts_with('{') {
        return Err(if cursor.rest().is_empty() { ParseStop::More } else { ParseStop::No });
    }
    cursor.skip(char::is_whitespace);
    let arguments = match cursor.rest().chars().next() {
        None => return Err(ParseStop::More),
        Some('{') => TextualArguments::Json(cursor.balanced()?.to_owned()),
        Some(_) => TextualArguments::Values(values(cursor, tags)?),
    };
    cursor.skip(char::is_whitespace);
    cursor.token(tags.end)?;
    Ok(TextualCall { tool, arguments })
}

fn values(cursor: &mut Cursor<'_>, tags: &WrapperTags) -> ParseResult<Vec<(String, String)>> {
    let mut values = Vec::new();
    loop {
        cursor.skip(char::is_whitespace);
        if !cursor.token(tags.parameter)? {
            return Ok(values);
        }
        let head = cursor.until(">")?;
        let name = head.trim_start_matches('"').split(['"', ' ']).next().unwrap_or_default().to_owned();
        let value = cursor.until(tags.parameter_end)?;
        // A line break behind the tag and one before the next are its own.
        let value = value.strip_prefix('\n').unwrap_or(value);
        values.push((name, value.strip_suffix('\n').unwrap_or(value).to_owned()));
    }
}

/// Parses a name followed by its arguments. Unless a call is certain, the object must follow directly.
fn named(cursor: &mut Cursor<'_>, certainty: CallCertainty) -> ParseResult<TextualCall> {
    let prefixed = cursor.any(&PREFIXES)?;
    let certainty = if prefixed { CallCertainty::Certain } else { certainty };
    let tool = cursor.tool(certainty)?;
    if certainty.is_certain() {
        joints(cursor)?;
    }
    let mut pairs = Vec::new();
    while certainty.is_certain() && cursor.token("<arg_key>")? {
        let name = cursor.until("</arg_key>")?.trim().to_owned();
        cursor.skip(char::is_whitespace);
        cursor.need("<arg_value>")?;
        pairs.push((name, cursor.until("</arg_value>")?.to_owned()));
        cursor.skip(char::is_whitespace);
    }
    let arguments = match cursor.rest().chars().next() {
        _ if !pairs.is_empty() => TextualArguments::Values(pairs),
        Some('{') => {
            object_begins(cursor)?;
            TextualArguments::Json(cursor.balanced()?.to_owned())
        }
        // One without parameters.
        Some('<') if certainty.is_certain() && cursor.rest().starts_with("</tool_call>") => TextualArguments::Json("{}".to_owned()),
        Some('<') if certainty.is_certain() && "</tool_call>".starts_with(cursor.rest()) => return Err(ParseStop::More),
        None => return Err(ParseStop::More),
        Some(_) => return Err(ParseStop::No),
    };
    cursor.skip(char::is_whitespace);
    cursor.token("```")?;
    cursor.skip(char::is_whitespace);
    cursor.token("</function>")?;
    Ok(TextualCall { tool, arguments })
}

/// Consumes the separators between a name and its arguments.
fn joints(cursor: &mut Cursor<'_>) -> ParseResult<()> {
    loop {
        cursor.skip(char::is_whitespace);
        if cursor.token(":")? {
            cursor.skip(|c| c.is_ascii_digit());
        } else if cursor.token("[CALL_ID]")? {
            cursor.skip(|c| c.is_ascii_alphanumeric());
        } else if !cursor.any(&JOINTS)? {
            return Ok(());
        }
    }
}

/// Checks that a brace begins JSON, not source code.
fn object_begins(cursor: &Cursor<'_>) -> ParseResult<()> {
    match cursor.rest().chars().skip(1).find(|c| !c.is_whitespace()) {
        None => Err(ParseStop::More),
        Some('"' | '}') => Ok(()),
        Some(_) => Err(ParseStop::No),
    }
}

#[cfg(test)]
mod tests;
