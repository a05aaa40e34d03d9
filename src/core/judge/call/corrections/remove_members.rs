//! Removes members from arguments; the rest stays unchanged. Pure.

use std::ops::Range;

use bytes::Bytes;

use crate::wire::json::{Document, Value};

/// Removes the members at these JSON pointers from `text`; `None` if one of them can't be removed.
pub(super) fn without(text: &str, pointers: &[&str]) -> Option<String> {
    let document = Document::parse(Bytes::copy_from_slice(text.as_bytes())).ok()?;
    let mut cuts = Vec::with_capacity(pointers.len());
    let mut parents: Vec<(&str, Vec<String>)> = Vec::new();
    for pointer in pointers {
        let (parent, name) = pointer.rsplit_once('/')?;
        let name = unescape(name);
        match parents.iter_mut().find(|(own, _)| *own == parent) {
            Some((_, names)) => names.push(name),
            None => parents.push((parent, vec![name])),
        }
    }
    for (parent, names) in &parents {
        cut(at(document.root(), parent)?, names, &mut cuts)?;
    }
    cuts.sort_by_key(|range| range.start);
    let mut kept = String::with_capacity(text.len());
    let mut from = 0;
    for range in cuts {
        kept.push_str(text.get(from..range.start)?);
        from = range.end;
    }
    kept.push_str(text.get(from..)?);
    Some(kept)
}

pub(super) fn unescape(token: &str) -> String {
    token.replace("~1", "/").replace("~0", "~")
}

pub(super) fn at<'d>(root: Value<'d>, pointer: &str) -> Option<Value<'d>> {
    pointer.split('/').skip(1).try_fold(root, |value, token| {
        let token = unescape(token);
        if value.is_array() { value.items().nth(token.parse().ok()?) } else { value.get(&token) }
    })
}

/// Records the byte ranges of the members of these names, each with one comma.
fn cut(object: Value<'_>, names: &[String], cuts: &mut Vec<Range<usize>>) -> Option<()> {
    let members: Vec<(Range<usize>, bool)> =
        object.members().map(|member| (member.span(), names.contains(&member.name().into_owned()))).collect();
    if members.iter().filter(|(_, goes)| *goes).count() != names.len() {
        return None;
    }
    let (mut kept_before, mut previous_end) = (false, 0);
    for (place, (span, goes)) in members.iter().enumerate() {
        if !goes {
            kept_before = true;
        } else if kept_before {
            cuts.push(previous_end..span.end);
        } else {
            let next = members.get(place + 1).map_or(span.end, |(next, _)| next.start);
            cuts.push(span.start..next);
        }
        previous_end = span.end;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_cut_out() {
        for (text, pointers, left) in [
            (r#"{"a": null}"#, &["/a"][..], Some("{}")),
            (r#"{ "a" : null , "b":1 }"#, &["/a"], Some(r#"{ "b":1 }"#)),
            (r#"{"b":1.0, "a":null}"#, &["/a"], Some(r#"{"b":1.0}"#)),
            (r#"{"a":null,"b":null,"c":1,"d":null,"e":2}"#, &["/a", "/b", "/d"], Some(r#"{"c":1,"e":2}"#)),
            (r#"{"a":1,"b":null,"c":null}"#, &["/b", "/c"], Some(r#"{"a":1}"#)),
            (r#"{"a":null,"b":null}"#, &["/b", "/a"], Some("{}")),
            (r#"{"x":[{"a":null,"b":2}],"y":null}"#, &["/x/0/a", "/y"], Some(r#"{"x":[{"b":2}]}"#)),
            (r#"{"a/b~":null,"é":1}"#, &["/a~1b~0"], Some(r#"{"é":1}"#)),
            (r#"{"a":null}"#, &["/b"], None),
            (r#"{"a":null}"#, &[""], None),
            (r#"{"a":"#, &["/a"], None),
        ] {
            assert_eq!(without(text, pointers).as_deref(), left, "{text}");
        }
    }
}
