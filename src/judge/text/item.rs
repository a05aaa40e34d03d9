//! What the readers find and the gate judges. Values only.

use std::ops::Range;

use super::{object::Object, record::Record, written::Written};

/// Something of our shape.
#[derive(Clone, Debug)]
pub(super) struct Id {
    /// Its characters, disguises folded, case kept.
    pub text: String,
    /// Where in `text` the last markup before the digits stood: the id may begin there.
    pub cut: usize,
    /// Where in the whole text that is.
    pub from: usize,
}

/// A label with its value.
#[derive(Clone, Debug)]
pub(super) struct Label {
    /// Where the value lies.
    pub value: Range<usize>,
    /// The value, disguises folded.
    pub text: String,
    /// Marks between label and value that are closed after the value, in order.
    pub openers: String,
    /// Marks right after the label's name that close some before it, in order.
    pub closers: String,
}

/// A `{…}` of members.
#[derive(Clone, Debug)]
pub(super) struct Block {
    /// Read to its closing brace; otherwise it broke off, and its objects are what was read.
    pub complete: bool,
    /// Those that name a tool or an execution, in order of their end.
    pub objects: Vec<Object>,
}

/// One thing found.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// A block.
    Block(Block),
    /// What lines say of a tool and its result.
    Record(Record),
    /// More than may be held of one block or id.
    TooLong,
    /// A match of the phrase rule with this number.
    Phrase(usize),
    /// A labelled value.
    Label(Label),
    /// A call or a result, written as text.
    Written(Written),
    /// Something of our shape.
    Id(Id),
}

/// One thing found, and where.
#[derive(Clone, Debug)]
pub(super) struct Item {
    /// Where it lies: from its first own character (brackets before it not counted).
    pub span: Range<usize>,
    /// What it is.
    pub kind: Kind,
}

impl Item {
    /// The order in which items are judged: by place, then what surrounds before what is inside.
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
