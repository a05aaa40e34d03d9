//! Findings of the scanners, which the gate judges. Values only.

use std::ops::Range;

use super::object::BlockObject;
use crate::judge::text::scan::{record::Record, written::MarkedCall};

/// A text in the form of an execution ID.
#[derive(Clone, Debug)]
pub(super) struct ScannedId {
    /// Its characters, disguises folded, case kept.
    pub text: String,
    /// Offset in `text` of the last markup before the digits: the id may begin there.
    pub cut: usize,
    /// Place of `cut` in the whole text.
    pub from: usize,
}

/// A label with its value.
#[derive(Clone, Debug)]
pub(super) struct ScannedLabel {
    /// Span of the value.
    pub value: Range<usize>,
    /// The value, disguises folded.
    pub text: String,
    /// Marks between label and value that are closed after the value, in order.
    pub openers: String,
    /// Marks right after the label's name that close some before it, in order.
    pub closers: String,
}

/// Presence of a label at an id.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Labelling {
    /// The id stands alone.
    Bare,
    /// A label says what it is.
    Labelled,
}

/// A `{…}` of members.
#[derive(Clone, Debug)]
pub(super) struct ScannedBlock {
    /// True if it was read to its closing brace; otherwise it broke off, and `objects` are those read so far.
    pub complete: bool,
    /// Objects that name a tool or an execution, in order of their end.
    pub objects: Vec<BlockObject>,
}

/// Kind of a finding.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// A block.
    Block(ScannedBlock),
    /// Lines about a tool and its result.
    Record(Record),
    /// A block or id that is too long to be held.
    TooLong,
    /// A match of the phrase rule with this index.
    Phrase(usize),
    /// A labelled value.
    Label(ScannedLabel),
    /// A call or a result written as text.
    Written(MarkedCall),
    /// A text in the form of an execution ID.
    Id(ScannedId),
}

/// A finding and its place.
#[derive(Clone, Debug)]
pub(super) struct ScannedItem {
    /// Span from its own first character; brackets before it aren't included.
    pub span: Range<usize>,
    /// Kind of the finding.
    pub kind: Kind,
}

impl ScannedItem {
    /// Order in which findings are judged: by place, outer ones before those inside.
    pub fn key(&self) -> (usize, u8, usize) {
        match &self.kind {
            Kind::TooLong => (self.span.start, 0, 0),
            Kind::Block(_) => (self.span.start, 1, 0),
            Kind::Phrase(number) => (self.span.start, 2, *number),
            Kind::Label(label) => (self.span.start, 3, label.value.start),
            Kind::Written(_) => (self.span.start, 4, 0),
            Kind::Id(_) => (self.span.start, 5, 0),
            Kind::Record(record) => (self.span.start, 6, record.names.len()),
        }
    }
}
