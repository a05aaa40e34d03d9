//! Splices: the only way in which bytes that are passed on are changed.
//!
//! An edit replaces a range of the original. All other bytes are passed on unchanged. Pure.

use std::ops::Range;

use bytes::{Bytes, BytesMut};

use crate::wire::{json::Value, rope::Rope};

/// Bytes from which on an unchanged range is shared with the original, and not copied.
const SHARED_BYTES_MIN: usize = 16 << 10;
/// Pieces of a known beginning that are left apart: each costs a part of a system call whenever it is sent.
const PIECES_MAX: usize = 12;

/// One edit: a range of the original, and the bytes in its place, which those who keep them share.
type Edit = (Range<usize>, Bytes);

/// The beginning of an edited document: its edits, and what became of it.
#[derive(Debug, Default)]
pub struct EditedPrefix {
    /// Number of the original's bytes.
    end: usize,
    edits: Vec<Edit>,
    pieces: Vec<Piece>,
}

/// A piece of an edited document.
#[derive(Clone, Debug)]
enum Piece {
    /// A range of the original.
    Original(Range<usize>),
    /// Bytes of its own, and the bytes of the allocation that they lie in.
    Own(Bytes, usize),
}

impl Piece {
    fn of(rope: Rope) -> Option<Self> {
        let held = rope.len();
        (held > 0).then(|| Self::Own(rope.joined(), held))
    }

    fn len(&self) -> usize {
        match self {
            Self::Original(range) => range.len(),
            Self::Own(bytes, _) => bytes.len(),
        }
    }

    /// The first `len` bytes of it.
    fn first(&self, len: usize) -> Self {
        match self {
            Self::Original(range) => Self::Original(range.start..range.start + len.min(range.len())),
            Self::Own(bytes, held) => Self::Own(bytes.slice(..len.min(bytes.len())), *held),
        }
    }
}

impl EditedPrefix {
    /// The pieces of the part that was made of the original's first `end` bytes. `None` if the edits there aren't `edits`, or one of the
    /// edits lies on both sides of `end`.
    fn pieces(&self, end: usize, edits: &[Edit]) -> Option<Vec<Piece>> {
        let (before, _) = split(&self.edits, end).filter(|(before, _)| end <= self.end && *before == edits)?;
        let removed: usize = before.iter().map(|(range, _)| range.len()).sum();
        let added: usize = before.iter().map(|(_, with)| with.len()).sum();
        let mut left = (end + added).checked_sub(removed)?;
        let mut pieces = Vec::with_capacity(self.pieces.len() + 2);
        for piece in &self.pieces {
            if left == 0 {
                break;
            }
            let len = piece.len().min(left);
            pieces.push(if len == piece.len() { piece.clone() } else { piece.first(len) });
            left -= len;
        }
        (left == 0).then_some(pieces)
    }

    /// Bytes of memory that it takes, without those of the original.
    pub fn bytes(&self) -> usize {
        let of_edit = |(_, with): &Edit| size_of::<Edit>() + with.len();
        let of_piece = |piece: &Piece| size_of::<Piece>() + if let Piece::Own(_, held) = piece { *held } else { 0 };
        self.edits.iter().map(of_edit).sum::<usize>() + self.pieces.iter().map(of_piece).sum::<usize>()
    }

    /// Joins neighbouring pieces if there are too many.
    fn join(&mut self) {
        if self.pieces.len() <= PIECES_MAX {
            return;
        }
        let mut joined: Vec<Piece> = Vec::new();
        let mut rope = Rope::default();
        for piece in std::mem::take(&mut self.pieces) {
            match piece {
                Piece::Own(bytes, _) => rope.push(bytes),
                Piece::Original(range) => {
                    joined.extend(Piece::of(std::mem::take(&mut rope)));
                    joined.push(Piece::Original(range));
                }
            }
        }
        joined.extend(Piece::of(rope));
        self.pieces = joined;
    }
}

/// Result of applying edits.
#[derive(Debug)]
pub struct Edited {
    /// The edited document.
    pub rope: Rope,
    /// Its beginning, if one was to be kept.
    pub prefix: Option<EditedPrefix>,
}

/// Changes to one document, in any order, without overlaps.
#[derive(Clone, Debug, Default)]
pub struct Splices {
    splices: Vec<Edit>,
}

impl Splices {
    /// Returns whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.splices.is_empty()
    }

    /// Adds the edits of another, which are for the same original.
    pub fn extend(&mut self, other: &Self) {
        self.splices.extend_from_slice(&other.splices);
    }

    /// Adds the edits of another, whose offsets count from `start`.
    pub fn extend_from(&mut self, other: &Self, start: usize) {
        self.splices.extend(other.splices.iter().map(|(range, with)| (range.start + start..range.end + start, with.clone())));
    }

    /// The same edits with offsets that count from `start`, before which none of them lies.
    #[must_use]
    pub fn relative_to(mut self, start: usize) -> Self {
        self.splices.iter_mut().for_each(|(range, _)| *range = range.start.saturating_sub(start)..range.end.saturating_sub(start));
        self
    }

    /// Bytes of memory that it takes.
    pub fn bytes(&self) -> usize {
        self.splices.iter().map(|(_, with)| with.len() + size_of::<Edit>()).sum()
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
        self.splices.push((range, Bytes::from(with.into())));
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
        self.sort();
        let mut assembly = Assembly::new(original, usize::MAX);
        assembly.add(&self.splices, 0..original.len());
        assembly.rope().joined()
    }

    /// Applies the edits, leaving what is long and unchanged where it is. `known`: an earlier document that begins with the same bytes, and
    /// their number; what became of them is taken over if the edits are the same. `keep`: number of bytes of the beginning to be kept.
    pub fn apply_in_pieces(mut self, original: &Bytes, known: Option<(&EditedPrefix, usize)>, keep: Option<usize>) -> Edited {
        if self.splices.is_empty() && keep.is_none() {
            return Edited { rope: original.clone().into(), prefix: None };
        }
        self.sort();
        let mut assembly = Assembly::new(original, SHARED_BYTES_MIN);
        let mut rest = &self.splices[..];
        let mut from = 0;
        if let Some((known, end)) = known
            && let Some((own, behind)) = split(rest, end)
            && is_plain(own)
            && let Some(pieces) = known.pieces(end, own)
        {
            (assembly.pieces, rest, from) = (pieces, behind, end);
        }
        let parted = keep.filter(|end| (from..=original.len()).contains(end)).and_then(|end| Some((end, split(rest, end)?)));
        let parted = parted.filter(|(_, (own, _))| is_plain(own));
        let Some((end, (own, behind))) = parted else {
            assembly.add(rest, from..original.len());
            return Edited { rope: assembly.rope(), prefix: None };
        };
        assembly.add(own, from..end);
        let mut prefix = EditedPrefix { end, edits: Vec::new(), pieces: assembly.pieces.clone() };
        assembly.add(behind, end..original.len());
        let rope = assembly.rope();
        let kept = self.splices.len() - behind.len();
        self.splices.truncate(kept);
        prefix.edits = self.splices;
        prefix.join();
        Edited { rope, prefix: Some(prefix) }
    }

    fn sort(&mut self) {
        self.splices.sort_by_key(|(range, _)| (range.start, range.end));
    }
}

/// Sorted edits before `end`, and those from there on. `None` if one lies on both sides.
fn split(edits: &[Edit], end: usize) -> Option<(&[Edit], &[Edit])> {
    let (before, behind) = edits.split_at(edits.partition_point(|(range, _)| range.start < end));
    before.iter().all(|(range, _)| range.end <= end).then_some((before, behind))
}

/// True if none of these sorted edits lies within another: all of them are applied.
fn is_plain(edits: &[Edit]) -> bool {
    edits.windows(2).all(|pair| matches!(pair, [(one, _), (next, _)] if one.end <= next.start))
}

/// An edited document that is put together.
struct Assembly<'o> {
    original: &'o Bytes,
    /// Bytes from which on an unchanged range is shared.
    shared_min: usize,
    pieces: Vec<Piece>,
}

impl<'o> Assembly<'o> {
    fn new(original: &'o Bytes, shared_min: usize) -> Self {
        Self { original, shared_min, pieces: Vec::new() }
    }

    /// Appends a range of the original with these edits, sorted, which all lie in it.
    fn add(&mut self, edits: &[Edit], range: Range<usize>) {
        let copied = |range: &Range<usize>| if range.len() < self.shared_min { range.len() } else { 0 };
        let (mut from, mut size) = (range.start, 0);
        for (own, with) in edits.iter().filter(|(own, _)| own.start >= range.start) {
            size += copied(&(from..own.start.max(from))) + with.len();
            from = own.end.max(from);
        }
        size += copied(&(from..range.end.max(from)));
        let mut out = BytesMut::with_capacity(size);
        let mut from = range.start;
        for (own, with) in edits {
            debug_assert!(own.start >= from && own.end <= range.end, "edits overlap: {own:?} after {from}");
            // An edit inside an earlier one is dropped, never misplaced.
            if own.start < from {
                continue;
            }
            self.unchanged(&mut out, from..own.start);
            out.extend_from_slice(with);
            from = own.end;
        }
        self.unchanged(&mut out, from..range.end);
        self.flush(&mut out);
    }

    fn unchanged(&mut self, out: &mut BytesMut, range: Range<usize>) {
        if range.len() < self.shared_min {
            out.extend_from_slice(self.original.get(range).unwrap_or_default());
        } else {
            self.flush(out);
            self.pieces.push(Piece::Original(range));
        }
    }

    fn flush(&mut self, out: &mut BytesMut) {
        if !out.is_empty() {
            let own = out.split().freeze();
            let held = own.len();
            self.pieces.push(Piece::Own(own, held));
        }
    }

    fn rope(self) -> Rope {
        let mut rope = Rope::default();
        for piece in self.pieces {
            rope.push(match piece {
                Piece::Own(bytes, _) => bytes,
                Piece::Original(range) => self.original.slice(range),
            });
        }
        rope
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

    /// Applies edits to `text` in pieces, behind what is known, and whole.
    fn in_pieces(text: &str, edits: &[Edit], known: Option<(&EditedPrefix, usize)>, keep: Option<usize>) -> (Edited, Bytes) {
        let original = Bytes::copy_from_slice(text.as_bytes());
        let splices = || Splices { splices: edits.to_vec() };
        (splices().apply_in_pieces(&original, known, keep), splices().apply(&original))
    }

    #[test]
    fn a_known_beginning_is_taken_over_if_its_edits_are_the_same() {
        let long = "x".repeat(SHARED_BYTES_MIN);
        let text = format!("ab{long}cdef");
        let edits: Vec<Edit> = vec![(1..1, "+".into()), (2 + long.len()..3 + long.len(), "C".into()), (text.len()..text.len(), "!".into())];
        let end = text.len() - 1;
        let (first, whole) = in_pieces(&text, &edits, None, Some(end));
        assert_eq!(first.rope.joined(), whole);
        let known = first.prefix.unwrap();
        assert!(first.rope.pieces().iter().any(|piece| piece.len() >= long.len()), "what is long isn't copied");
        let further = format!("{}, and more", &text[..end]);
        for (edits, end) in [
            (&edits[..2], end),
            (&edits[..2], end - 1),
            (&edits[..1], 2),
            (&edits[..1], end),
            (&[][..], end),
            (&[(0..end + 1, Bytes::new())], end),
        ] {
            let (again, whole) = in_pieces(&further, edits, Some((&known, end)), Some(further.len()));
            assert_eq!(again.rope.joined(), whole);
            let (later, whole) = in_pieces(&further, edits, again.prefix.as_ref().map(|prefix| (prefix, further.len())), None);
            assert_eq!(later.rope.joined(), whole);
        }
    }

    proptest::proptest! {
        #[test]
        fn pieces_make_the_whole(marks in proptest::collection::vec((0_usize..40, 0_usize..3, "[A-Z]{0,3}"), 0..12), end in 0_usize..60, grown in 0_usize..20) {
            let text: String = (0..40 + grown).map(|at| char::from(b'a' + (at % 26) as u8)).collect();
            let mut edits: Vec<Edit> = Vec::new();
            for (at, len, with) in marks {
                if at + len <= 40 && edits.iter().all(|(own, _)| at + len <= own.start || own.end <= at) {
                    edits.push((at..at + len, with.into_bytes().into()));
                }
            }
            let (mut known, mut ends) = (None, 0);
            // Each round knows what the one before it kept.
            for keep in [end.min(text.len()), end / 2, text.len(), text.len()] {
                let (edited, whole) = in_pieces(&text, &edits, known.as_ref().map(|known| (known, keep.min(ends))), Some(keep));
                proptest::prop_assert_eq!(edited.rope.joined(), whole);
                (known, ends) = (edited.prefix, keep);
            }
        }
    }
}
