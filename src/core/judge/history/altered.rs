//! Explains why a call doesn't fit its mark, as far as that can be found out. Pure.
//!
//! A mark is a MAC: it shows that something was altered, not what. So the alterations that frameworks commonly make are undone one by one;
//! the one that makes the mark fit is reported. Used only if a mark doesn't fit.

use bytes::Bytes;

use crate::{
    judge::history::PastCall,
    marks::{CallMark, KeyRing, Scope},
    schema::strict_json::brief,
    wire::json::{Document, Value, splice::Splices, string::quote},
};

/// Bytes of the longest arguments that are tried.
const ARGUMENTS_BYTES_MAX: usize = 16 << 10;
/// Members that are tried.
const MEMBERS_MAX: usize = 24;
/// Other calls of the conversation that are tried.
const CALLS_MAX: usize = 64;
/// Characters of a value in a message.
const VALUE_CHARS_MAX: usize = 64;

/// Explains in words why the mark of `call` doesn't fit it. `others`: the conversation's calls.
pub fn what<'c>(
    call: &PastCall<'_>,
    mark: &CallMark<'_>,
    ring: &KeyRing,
    scope: &Scope,
    others: impl Iterator<Item = &'c PastCall<'c>>,
) -> String {
    let fits = |tool: &str, arguments: &str| ring.verify(mark, scope, tool, arguments).is_some();
    if let Some(other) = others.take(CALLS_MAX).find(|other| fits(&other.name, &other.arguments.get())) {
        return format!("the id is that of the call of `{}`", brief(&other.name, VALUE_CHARS_MAX));
    }
    value(&call.arguments.get(), |arguments| fits(&call.name, arguments))
        .unwrap_or_else(|| "its name or a value of its arguments was altered".to_owned())
}

fn value(arguments: &str, fits: impl Fn(&str) -> bool) -> Option<String> {
    if arguments.len() > ARGUMENTS_BYTES_MAX {
        return None;
    }
    let document = Document::parse(Bytes::copy_from_slice(arguments.as_bytes())).ok()?;
    let root = document.root();
    let with = |edits: Splices| String::from_utf8(edits.apply(document.bytes()).to_vec()).ok().filter(|json| fits(json));
    for member in root.members().take(MEMBERS_MAX) {
        let (name, value) = (member.name(), member.value);
        let mut edits = Splices::default();
        edits.remove_members(root, |own| own == &*name);
        if with(edits).is_some() {
            return Some(format!("the argument `/{}` was added", brief(&name, VALUE_CHARS_MAX)));
        }
        let Some(before) = retyped(value) else { continue };
        let mut edits = Splices::default();
        edits.replace(value.span(), before.clone());
        if with(edits).is_some() {
            let (name, now) = (brief(&name, VALUE_CHARS_MAX), brief(value.raw_str(), VALUE_CHARS_MAX));
            return Some(format!("the argument `/{name}` was {} and is {now}", brief(&before, VALUE_CHARS_MAX)));
        }
    }
    None
}

/// The value with its type changed: a string that spells another scalar becomes that scalar, anything else a string.
fn retyped(value: Value<'_>) -> Option<String> {
    if let Some(text) = value.text() {
        let scalar = Document::parse(Bytes::copy_from_slice(text.as_bytes())).ok()?;
        return (!scalar.root().is_string()).then(|| text.into_owned());
    }
    Some(quote(value.raw_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::marks::MarkTime;
    use crate::wire::json::string::JsonText;

    #[test]
    fn what_was_altered_is_said_where_it_can_be_told() {
        let (ring, scope) = (KeyRing::new(&[[7; 32]]), Scope::shared());
        let mint = |tool: &str, arguments: &str| ring.mint(&scope, tool, arguments, MarkTime { time_ms: 1_800_000_000_000, counter: 1 });
        let call = |name: &'static str, arguments: &'static str| PastCall {
            id: None,
            name: name.into(),
            arguments: JsonText::Plain(arguments),
            memo: None,
        };
        let other = call("other", r#"{"x":1}"#);
        for (mark, now, said) in [
            (mint("t", r#"{"a":1}"#), r#"{"a":1,"b":null}"#, "the argument `/b` was added"),
            (mint("t", r#"{"a":"5"}"#), r#"{"a":5}"#, "the argument `/a` was \"5\" and is 5"),
            (mint("t", r#"{"a":5,"b":[1]}"#), r#"{"a":5,"b":"[1]"}"#, "the argument `/b` was [1] and is \"[1]\""),
            (mint("other", r#"{"x":1}"#), r#"{"a":5}"#, "the id is that of the call of `other`"),
            (mint("t", r#"{"a":5}"#), r#"{"a":6}"#, "its name or a value of its arguments was altered"),
            (mint("t", r#"{"a":5}"#), "[", "its name or a value of its arguments was altered"),
        ] {
            let parsed = CallMark::parse(&mark).unwrap();
            assert_eq!(what(&call("t", now), &parsed, &ring, &scope, [&other].into_iter()), said, "{now}");
        }
    }
}
