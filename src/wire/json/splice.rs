//! Splices: the only way in which bytes that are passed on are changed.
//!
//! An edit replaces a range of the original. All other bytes are passed on unchanged. Pure.

use std::ops::Range;

use bytes::{Bytes, BytesMut};

use crate::wire::json::Value;

/// Changes to one document, in any order, without overlaps.
#[derive(Debug, Default)]
pub struct Splices {
    splices: Vec<(Range<usize>, Vec<u8>)>,
}

impl Splices {
    /// Returns whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.splices.is_empty()
    }

    /// Returns whether any edit lies within `range`.
    pub fn touches(&self, range: &Range<usize>) -> bool {
        self.splices.iter().any(|(own, _)| own.start >= range.start && own.end <= range.end)
    }

    /// Returns whether one edit covers all of `range`.
    pub fn covers(&self, range: &Range<usize>) -> bool {
        self.splices.iter().any(|(own, _)| own.start <= range.start && own.end >= range.end)
    }

    /// The bytes that are inserted before the byte at `at`.
    pub fn added(&self, at: usize) -> Vec<u8> {
        self.splices.iter().filter(|(own, _)| *own == (at..at)).flat_map(|(_, with)| with.iter().copied()).collect()
    }

    /// Replaces `range` by `with`.
    pub fn replace(&mut self, range: Range<usize>, with: impl Into<Vec<u8>>) {
        self.splices.push((range, with.into()));
    }

    /// Inserts `with` before the byte at `at`. Several inserts at one position keep the order of the calls.
    pub fn insert(&mut self, at: usize, with: impl Into<Vec<u8>>) {
        self.replace(at..at, with);
    }

    /// Removes every member of `object` for whose name `gone` is true, with its comma.
    pub fn remove_members(&mut self, object: Value<'_>, gone: impl Fn(&str) -> bool) {
        let mut kept_before = false;
        let mut members = object.members().peekable();
        while let Some(member) = members.next() {
            if !gone(&member.name()) {
                kept_before = true;
                continue;
            }
            // Up to the next member if none before is kept; else from the comma before this one.
            let next = members.peek().map(|next| next.span().start);
            let range = match (kept_before, next) {
                (false, Some(next)) => member.span().start..next,
                (false, None) => member.span(),
                (true, _) => comma_before(object, member.span().start)..member.span().end,
            };
            self.replace(range, Vec::new());
        }
    }

    /// Removes the elements of `array` for whose index `gone` is true, with their commas.
    pub fn remove_items(&mut self, array: Value<'_>, gone: impl Fn(usize) -> bool) {
        let mut kept_before = false;
        let mut items = array.items().enumerate().peekable();
        while let Some((at, item)) = items.next() {
            if !gone(at) {
                kept_before = true;
                continue;
            }
            let span = item.span();
            let next = items.peek().map(|(_, next)| next.span().start);
            let range = match (kept_before, next) {
                (false, Some(next)) => span.start..next,
                (false, None) => span,
                (true, _) => comma_before(array, span.start)..span.end,
            };
            self.replace(range, Vec::new());
        }
    }

    /// Appends `member` (`"name":value`) to `object`.
    pub fn append_member(&mut self, object: Value<'_>, member: &str) {
        let at = object.span().end - 1;
        let comma = if object.members().next().is_some() { "," } else { "" };
        self.insert(at, format!("{comma}{member}"));
    }

    /// Sets the member `name` of `object` to `value`, JSON text; appends it if it is missing.
    pub fn set_member(&mut self, object: Value<'_>, name: &str, value: &str) {
        match object.get(name) {
            Some(old) => self.replace(old.span(), value),
            None => self.append_member(object, &format!("\"{name}\":{value}")),
        }
    }

    /// Appends elements (JSON text, comma-separated) to `array`.
    pub fn append_items(&mut self, array: Value<'_>, items: &str) {
        let at = array.span().end - 1;
        let comma = if array.items().next().is_some() { "," } else { "" };
        self.insert(at, format!("{comma}{items}"));
    }

    /// Applies the edits; returns the same bytes if there are none.
    pub fn apply(mut self, original: &Bytes) -> Bytes {
        if self.splices.is_empty() {
            return original.clone();
        }
        self.splices.sort_by_key(|(range, _)| (range.start, range.end));
        let grown: usize = self.splices.iter().map(|(_, with)| with.len()).sum();
        let mut out = BytesMut::with_capacity(original.len() + grown);
        let mut from = 0;
        for (range, with) in &self.splices {
            debug_assert!(range.start >= from && range.end <= original.len(), "edits overlap: {range:?} after {from}");
            // An edit inside an earlier one is dropped, never misplaced.
            if range.start < from {
                continue;
            }
            out.extend_from_slice(&original[from..range.start]);
            out.extend_from_slice(with);
            from = range.end;
        }
        out.extend_from_slice(&original[from..]);
        out.freeze()
    }
}

/// Position of the comma before a member or element. INVARIANT: it is not the first.
fn comma_before(around: Value<'_>, member_start: usize) -> usize {
    let start = around.span().start;
    let before = &around.raw()[..member_start - start];
    start + memchr::memrchr(b',', before).unwrap_or(before.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::json::Document;

    fn edited(text: &'static str, edit: impl Fn(&mut Splices, Value<'_>)) -> String {
        let document = Document::parse(Bytes::from_static(text.as_bytes())).unwrap();
        let mut edits = Splices::default();
        edit(&mut edits, document.root());
        String::from_utf8(edits.apply(document.bytes()).to_vec()).unwrap()
    }

    #[test]
    fn members_go_with_their_commas() {
        for (gone, left) in [
            ("a", r#"{ "b":2 , "c" : 3}"#),
            ("b", r#"{ "a":1 , "c" : 3}"#),
            ("c", r#"{ "a":1, "b":2 }"#),
            ("ab", r#"{ "c" : 3}"#),
            ("ac", r#"{ "b":2 }"#),
            ("bc", r#"{ "a":1 }"#),
            ("abc", r#"{ }"#),
            ("", r#"{ "a":1, "b":2 , "c" : 3}"#),
        ] {
            let out = edited(r#"{ "a":1, "b":2 , "c" : 3}"#, |edits, root| edits.remove_members(root, |name| gone.contains(name)));
            assert_eq!(out, left, "{gone}");
        }
    }

    #[test]
    fn elements_go_with_their_commas() {
        for (gone, left) in [
            (&[0][..], "[ 2 , \",\"]"),
            (&[1], "[ 1 , \",\"]"),
            (&[2], "[ 1, 2 ]"),
            (&[0, 1], "[ \",\"]"),
            (&[0, 2], "[ 2 ]"),
            (&[1, 2], "[ 1 ]"),
            (&[0, 1, 2], "[ ]"),
            (&[], "[ 1, 2 , \",\"]"),
        ] {
            assert_eq!(edited("[ 1, 2 , \",\"]", |edits, root| edits.remove_items(root, |at| gone.contains(&at))), left, "{gone:?}");
        }
    }

    #[test]
    fn additions() {
        assert_eq!(edited("{}", |edits, root| edits.append_member(root, "\"a\":1")), r#"{"a":1}"#);
        assert_eq!(edited(r#"{"a":1 }"#, |edits, root| edits.set_member(root, "b", "2")), r#"{"a":1 ,"b":2}"#);
        assert_eq!(edited(r#"{"a":1}"#, |edits, root| edits.set_member(root, "a", "2")), r#"{"a":2}"#);
        assert_eq!(edited("[]", |edits, root| edits.append_items(root, "1,2")), "[1,2]");
        assert_eq!(edited("[0]", |edits, root| edits.append_items(root, "1")), "[0,1]");
    }
}
