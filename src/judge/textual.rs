//! Reads a text that is nothing but calls: what a model writes where it should have called. Pure.
//!
//! FACTS, section 4, has the families. Their wrappers are taken off; what is left must be calls of known tools, one behind
//! the other, to the last character: an object or a list of objects (`name`, `arguments`), a name with an object behind
//! it, tags with a value each, or Python's calls in a list. Anything else is no call, and is known to be none as soon as
//! possible, so that a stream isn't held for it.

mod cursor;
mod python;

use bytes::Bytes;

pub use self::cursor::Stop;
use self::cursor::{Cursor, Step};
use crate::wire::json::{Document, Value};

/// Calls of one text.
const CALLS_MAX: usize = 32;
/// What wraps calls, and says nothing itself.
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
/// What may stand between a tool's name and its arguments.
const JOINTS: [&str; 8] =
    ["[ARGS]", "<｜tool▁sep｜>", "<|tool_call_argument_begin|>", "<|constrain|>", "<|message|>", "json", "```json", "```"];
/// What may stand before a tool's name.
const PREFIXES: [&str; 4] = ["to=functions.", "functions.", "tools.", "function<｜tool▁sep｜>"];
/// Tags that name a tool, each with those of a parameter and with the closing ones.
const TAGS: [Tags; 3] = [
    Tags { call: "<function=", parameter: "<parameter=", parameter_end: "</parameter>", end: "</function>" },
    Tags { call: "<invoke name=", parameter: "<parameter name=", parameter_end: "</parameter>", end: "</invoke>" },
    Tags {
        call: "<｜DSML｜invoke name=",
        parameter: "<｜DSML｜parameter name=",
        parameter_end: "</｜DSML｜parameter>",
        end: "</｜DSML｜invoke>",
    },
];
/// The members of a call that is an object.
const MEMBERS: [&str; 9] = ["name", "tool_name", "tool", "arguments", "parameters", "id", "tool_call_id", "type", "function"];

struct Tags {
    call: &'static str,
    parameter: &'static str,
    parameter_end: &'static str,
    end: &'static str,
}

/// A call as it is written.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WrittenCall {
    /// The tool.
    pub tool: String,
    /// Its arguments.
    pub arguments: WrittenArguments,
}

/// Arguments as they are written.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum WrittenArguments {
    /// As JSON.
    Json(String),
    /// Names and values, whose types only the tool's schema can say.
    Values(Vec<(String, String)>),
}

/// What a text is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Reading {
    /// These calls, and nothing else.
    Calls(Vec<WrittenCall>),
    /// What is there may become calls.
    More,
    /// Something else.
    Nothing,
}

/// How a text is read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fences {
    /// What stands in a code fence is code.
    Code,
    /// A fence around all of it is a wrapper too.
    Wrapper,
}

/// Reads a whole text. `known`: is a tool of that name known? `last`: no more comes.
pub fn read(text: &str, known: &dyn Fn(&str) -> bool, fences: Fences, last: bool) -> Reading {
    let mut cursor = Cursor::new(text, known);
    match message(&mut cursor, fences, last) {
        Ok(calls) => Reading::Calls(calls),
        Err(Stop::More) if !last => Reading::More,
        Err(Stop::More | Stop::No) => Reading::Nothing,
    }
}

/// The tool that is called by how a line begins, whatever follows: Python's calls in a list, or a name right before an object.
/// And the call as it is written.
///
/// # Errors
/// [`Stop`]: it is none, or more is needed to say.
pub(super) fn at_line<'t>(text: &'t str, known: &'t dyn Fn(&str) -> bool, last: bool) -> Step<(String, &'t str)> {
    let mut cursor = Cursor::new(text, known);
    let mut calls = Vec::new();
    let read = match text.starts_with('[') {
        true => cursor.python_list(&mut calls, last),
        false => named(&mut cursor, false).map(|call| calls.push(call)),
    };
    match (read, calls.into_iter().next()) {
        (Ok(()), Some(call)) => {
            let written = text.get(..text.len() - cursor.rest().len()).unwrap_or_default();
            // Whether what may follow is there yet makes no difference.
            Ok((call.tool, written.trim_end_matches("</function>").trim_end_matches("```").trim_end()))
        }
        (Err(Stop::More), _) if !last => Err(Stop::More),
        _ => Err(Stop::No),
    }
}

fn message(cursor: &mut Cursor<'_>, fences: Fences, last: bool) -> Step<Vec<WrittenCall>> {
    let (mut calls, mut wrapped) = (Vec::new(), false);
    if fences == Fences::Wrapper && cursor.rest().trim_start().starts_with('`') {
        return fenced(cursor, last);
    }
    loop {
        cursor.skip(|c| c.is_whitespace() || matches!(c, ';' | ','));
        if cursor.rest().is_empty() {
            return if last && !calls.is_empty() { Ok(calls) } else { Err(Stop::More) };
        }
        if cursor.any(&WRAPPERS)? {
            wrapped = true;
            continue;
        }
        item(cursor, wrapped, last, &mut calls)?;
        if calls.len() > CALLS_MAX {
            return Err(Stop::No);
        }
    }
}

/// Objects in a code fence of JSON, and nothing around it.
fn fenced(cursor: &mut Cursor<'_>, last: bool) -> Step<Vec<WrittenCall>> {
    cursor.skip(char::is_whitespace);
    cursor.need("```")?;
    cursor.token("json")?;
    cursor.skip(|c| matches!(c, ' ' | '\r'));
    cursor.need("\n")?;
    let mut calls = Vec::new();
    loop {
        cursor.skip(char::is_whitespace);
        match cursor.rest().chars().next() {
            None => return Err(Stop::More),
            Some('{' | '[') => objects(cursor, &mut calls)?,
            Some(_) => break,
        }
    }
    cursor.need("```")?;
    cursor.skip(char::is_whitespace);
    match (cursor.rest().is_empty(), last) {
        (true, true) if !calls.is_empty() => Ok(calls),
        (true, false) => Err(Stop::More),
        _ => Err(Stop::No),
    }
}

fn item(cursor: &mut Cursor<'_>, wrapped: bool, last: bool, calls: &mut Vec<WrittenCall>) -> Step<()> {
    match cursor.rest().chars().next() {
        Some('{') => objects(cursor, calls),
        Some('[') => {
            let inner = cursor.rest().get(1..).unwrap_or_default().trim_start();
            match inner.chars().next() {
                None => Err(Stop::More),
                Some('{') => objects(cursor, calls),
                Some(_) => cursor.python_list(calls, last),
            }
        }
        Some('<') => {
            for tags in &TAGS {
                if cursor.token(tags.call)? {
                    calls.push(tagged(cursor, tags)?);
                    return Ok(());
                }
            }
            Err(Stop::No)
        }
        Some(_) => {
            calls.push(named(cursor, wrapped)?);
            Ok(())
        }
        None => Err(Stop::More),
    }
}

/// A call that is an object, or a list of such.
fn objects(cursor: &mut Cursor<'_>, calls: &mut Vec<WrittenCall>) -> Step<()> {
    begins_call(cursor)?;
    let raw = cursor.balanced()?;
    let document = Document::parse(Bytes::copy_from_slice(raw.as_bytes())).map_err(|_| Stop::No)?;
    let root = document.root();
    let elements: Vec<Value<'_>> = if root.is_array() { root.items().collect() } else { vec![root] };
    for element in elements {
        calls.push(of_object(element, cursor).ok_or(Stop::No)?);
    }
    Ok(())
}

/// Its first member is one that a call has; a name is one of a tool.
fn begins_call(cursor: &Cursor<'_>) -> Step<()> {
    let inner = cursor.rest().trim_start_matches(['[', ' ', '\n', '\r', '\t']);
    let Some(inner) = inner.strip_prefix('{') else { return if inner.is_empty() { Err(Stop::More) } else { Err(Stop::No) } };
    let mut inner = Cursor::new(inner.trim_start(), cursor.known());
    inner.need("\"")?;
    let member = MEMBERS.iter().find(|member| inner.rest().strip_prefix(**member).is_some_and(|rest| rest.starts_with('"')));
    let Some(member) = member else {
        return Err(if MEMBERS.iter().any(|member| member.starts_with(inner.rest())) { Stop::More } else { Stop::No });
    };
    if !member.contains("name") {
        return Ok(());
    }
    inner.advance(member.len() + 1);
    inner.skip(char::is_whitespace);
    inner.need(":")?;
    inner.skip(char::is_whitespace);
    inner.need("\"")?;
    let (name, _) = inner.rest().split_once('"').ok_or(Stop::More)?;
    if cursor.knows(bare(name)) { Ok(()) } else { Err(Stop::No) }
}

fn of_object(object: Value<'_>, cursor: &Cursor<'_>) -> Option<WrittenCall> {
    let odd = |own: Value<'_>| own.duplicate_name().is_some() || own.members().any(|member| !MEMBERS.contains(&&*member.name()));
    let inner = object.get("function").filter(|function| function.is_object() && object.get("name").is_none());
    if !object.is_object() || odd(object) || inner.is_some_and(odd) {
        return None;
    }
    let object = inner.unwrap_or(object);
    let name = ["name", "tool_name", "tool"].iter().find_map(|name| object.get(name)?.text())?;
    let tool = bare(&name).to_owned();
    let arguments = object.get("arguments").or_else(|| object.get("parameters"))?;
    let json = if arguments.is_object() {
        // A definition's parameters are a schema.
        let schema = arguments.get("properties").is_some() || arguments.get("type").is_some_and(|kind| kind.is_text("object"));
        (!schema).then(|| arguments.raw_str().to_owned())?
    } else {
        arguments.text()?.into_owned()
    };
    cursor.knows(&tool).then_some(WrittenCall { tool, arguments: WrittenArguments::Json(json) })
}

/// The name of a tool without what some write before it.
fn bare(name: &str) -> &str {
    name.strip_prefix("functions.").or_else(|| name.strip_prefix("tools.")).unwrap_or(name)
}

/// `<function=f>…` and the like. Some leave out the `>` before an object.
fn tagged(cursor: &mut Cursor<'_>, tags: &Tags) -> Step<WrittenCall> {
    cursor.skip(|c| c == '"');
    let tool = cursor.tool()?;
    cursor.skip(|c| c == '"');
    if !cursor.token(">")? && !cursor.rest().starts_with('{') {
        return Err(if cursor.rest().is_empty() { Stop::More } else { Stop::No });
    }
    cursor.skip(char::is_whitespace);
    let arguments = match cursor.rest().chars().next() {
        None => return Err(Stop::More),
        Some('{') => WrittenArguments::Json(cursor.balanced()?.to_owned()),
        Some(_) => WrittenArguments::Values(values(cursor, tags)?),
    };
    cursor.skip(char::is_whitespace);
    cursor.token(tags.end)?;
    Ok(WrittenCall { tool, arguments })
}

fn values(cursor: &mut Cursor<'_>, tags: &Tags) -> Step<Vec<(String, String)>> {
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

/// A name, and its arguments behind it. `wrapped`: a wrapper stands before it; else the object must follow at once.
fn named(cursor: &mut Cursor<'_>, wrapped: bool) -> Step<WrittenCall> {
    let prefixed = cursor.any(&PREFIXES)?;
    let tool = cursor.tool()?;
    let wrapped = wrapped || prefixed;
    if wrapped {
        joints(cursor)?;
    }
    let mut pairs = Vec::new();
    while wrapped && cursor.token("<arg_key>")? {
        let name = cursor.until("</arg_key>")?.trim().to_owned();
        cursor.skip(char::is_whitespace);
        cursor.need("<arg_value>")?;
        pairs.push((name, cursor.until("</arg_value>")?.to_owned()));
        cursor.skip(char::is_whitespace);
    }
    let arguments = match cursor.rest().chars().next() {
        _ if !pairs.is_empty() => WrittenArguments::Values(pairs),
        Some('{') => {
            object_begins(cursor)?;
            WrittenArguments::Json(cursor.balanced()?.to_owned())
        }
        // One without parameters.
        Some('<') if wrapped && cursor.rest().starts_with("</tool_call>") => WrittenArguments::Json("{}".to_owned()),
        Some('<') if wrapped && "</tool_call>".starts_with(cursor.rest()) => return Err(Stop::More),
        None => return Err(Stop::More),
        Some(_) => return Err(Stop::No),
    };
    cursor.skip(char::is_whitespace);
    cursor.token("```")?;
    cursor.skip(char::is_whitespace);
    cursor.token("</function>")?;
    Ok(WrittenCall { tool, arguments })
}

/// Passes over what stands between a name and its arguments.
fn joints(cursor: &mut Cursor<'_>) -> Step<()> {
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

/// A brace that begins JSON, not something of a programming language.
fn object_begins(cursor: &Cursor<'_>) -> Step<()> {
    match cursor.rest().chars().skip(1).find(|c| !c.is_whitespace()) {
        None => Err(Stop::More),
        Some('"' | '}') => Ok(()),
        Some(_) => Err(Stop::No),
    }
}

#[cfg(test)]
mod tests;
