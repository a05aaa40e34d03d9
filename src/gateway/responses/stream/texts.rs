//! Texts of a streamed response: parts, gates, and released text. Pure.
//!
//! All output text of a response is joined, as clients do, so that no claim hides at the boundary of two parts or
//! messages; its refusals are joined separately. If there are several parts, each is also judged alone, as it may make
//! a claim when shown apart from the others; and what a copy lists in another order, or by halves, as it is listed.

use std::{borrow::Cow, ops::Range};

use crate::{
    exchange::context::WordsMember,
    exchange::{context::Context, error::ShapeError, text::other_readings},
    judge::text::TextGate,
    wire::json::{Value, string::StringJoiner},
};

/// Limit for the parts of one response.
const PARTS_MAX: usize = 4096;
/// Kind of output text.
pub const TEXT: usize = 0;
/// Kind of refusals.
pub const REFUSAL: usize = 1;

/// One content part of one message.
#[derive(Debug)]
pub struct ContentPart {
    /// Index of the message.
    pub item: usize,
    /// Index within the message.
    pub content_index: u64,
    /// [`TEXT`] or [`REFUSAL`].
    pub kind: usize,
    /// Start in the joined text.
    start: usize,
    /// Text from the upstream so far.
    pub text: String,
    /// Text released so far.
    pub left: String,
    /// End of the released text in the joined text.
    taken: usize,
    /// Removed ranges, in bytes of [`Self::text`].
    pub removals: Vec<Range<usize>>,
    joiner: StringJoiner,
}

impl ContentPart {
    /// Member that has its text.
    pub fn member(&self) -> WordsMember {
        if self.kind == TEXT { WordsMember::Content } else { WordsMember::Refusal }
    }

    /// End in the joined text so far.
    pub fn end(&self) -> usize {
        self.start + self.text.len()
    }

    /// End of the released text in the joined text.
    pub fn taken(&self) -> usize {
        self.taken
    }

    /// True if all of its text was released.
    pub fn is_taken(&self) -> bool {
        self.taken >= self.end()
    }
}

/// Parts of a copy, in its order.
#[derive(Debug, Default)]
pub struct ListedParts {
    /// All with text.
    pub all: Vec<usize>,
    /// Those that the official clients read.
    pub official: Vec<usize>,
}

/// Texts of a response, with their gates.
#[derive(Debug, Default)]
pub struct ResponseTexts {
    /// Gates of the joined texts, by kind.
    pub gates: [TextGate; 2],
    fed: [usize; 2],
    /// Start of the first part that, judged alone, makes a blocked claim; by kind.
    limits: [Option<usize>; 2],
    /// Gates of parts that are judged alone, with their kind and start.
    apart: Vec<(usize, usize, TextGate)>,
    closed: bool,
    /// Memory held by the parts (received and released text), in bytes.
    pub held_bytes: usize,
    /// Parts, in the order in which they began.
    pub parts: Vec<ContentPart>,
    /// An earlier attempt's text was released: the next text starts a new paragraph.
    pub gap: bool,
}

impl ResponseTexts {
    /// Index of the part at this position; a new part is begun if needed.
    ///
    /// # Errors
    /// [`ShapeError::Text`] if there are too many parts.
    pub fn part(&mut self, item: usize, content_index: u64, kind: usize) -> Result<usize, ShapeError> {
        let found = self.parts.iter().rposition(|part| part.item == item && part.content_index == content_index && part.kind == kind);
        if let Some(found) = found {
            return Ok(found);
        }
        if self.parts.len() >= PARTS_MAX {
            return Err(ShapeError::Text);
        }
        let start = self.fed[kind];
        self.held_bytes += size_of::<ContentPart>();
        let (text, left) = (String::new(), String::new());
        self.parts.push(ContentPart {
            item,
            content_index,
            kind,
            start,
            text,
            left,
            taken: start,
            removals: Vec::new(),
            joiner: StringJoiner::default(),
        });
        Ok(self.parts.len() - 1)
    }

    /// Text of the next string of a part: a pair of surrogates may lie in two of them.
    pub fn text_of(&mut self, part: usize, string: Value<'_>) -> String {
        let own = self.parts.get_mut(part);
        own.and_then(|own| own.joiner.text(string)).map(Cow::into_owned).unwrap_or_default()
    }

    /// Feeds a piece of a part through its gate; returns its end in the joined text.
    ///
    /// # Errors
    /// [`ShapeError::Text`] if another part has begun since: clients could read the two in either order.
    pub fn feed(&mut self, part: usize, text: &str, context: &Context) -> Result<usize, ShapeError> {
        let Some(own) = self.parts.get_mut(part) else { return Err(ShapeError::Text) };
        if own.text.is_empty() && !text.is_empty() {
            (own.start, own.taken) = (self.fed[own.kind], self.fed[own.kind]);
            let kind = own.kind;
            self.separate(kind, context);
        }
        let Some(own) = self.parts.get_mut(part) else { return Err(ShapeError::Text) };
        if own.text.is_empty() {
            own.start = self.fed[own.kind];
        } else if own.end() != self.fed[own.kind] {
            return Err(ShapeError::Text);
        }
        own.text.push_str(text);
        self.held_bytes += 2 * text.len();
        self.fed[own.kind] += text.len();
        context.feed(&mut self.gates[own.kind], text);
        Ok(own.end())
    }

    /// Judges the last part of a kind alone, which isn't its only one.
    fn separate(&mut self, kind: usize, context: &Context) {
        let Some((start, text)) = self.last_part(kind).map(|part| (part.start, part.text.clone())) else { return };
        self.read_apart(kind, start, &text, context);
    }

    /// The last part of a kind with text.
    fn last_part(&self, kind: usize) -> Option<&ContentPart> {
        self.parts.iter().filter(|part| part.kind == kind && !part.text.is_empty()).max_by_key(|part| part.start)
    }

    /// Gates of the joined texts, and of other readings that make claims which the joined texts don't.
    pub fn judged(&self) -> Vec<&TextGate> {
        let judged: Vec<&TextGate> = self.gates.iter().collect();
        let of_kind = |kind: usize| self.apart.iter().filter(move |(own, ..)| *own == kind).map(|(.., gate)| gate);
        let others = [TEXT, REFUSAL].map(|kind| other_readings::adding(of_kind(kind), |gate| *gate, &judged[kind..=kind]));
        judged.into_iter().chain(others.into_iter().flatten()).collect()
    }

    /// Judges the texts as a copy lists them: all of them, and those that the official clients read. `item`: the message that it is a copy
    /// of, else all are meant.
    pub fn judge_copy(&mut self, copy: &ListedParts, item: Option<usize>, context: &Context) {
        self.judge_listed(&copy.all, item, context);
        if copy.official != copy.all {
            self.judge_listed(&copy.official, item, context);
        }
    }

    /// Judges the texts of these parts in their order, if that isn't how they were judged.
    fn judge_listed(&mut self, listed: &[usize], item: Option<usize>, context: &Context) {
        for kind in [TEXT, REFUSAL] {
            let says = |part: &&ContentPart| part.kind == kind && !part.text.is_empty();
            let copy: Vec<&ContentPart> = listed.iter().filter_map(|at| self.parts.get(*at)).filter(says).collect();
            let mut judged: Vec<&ContentPart> =
                self.parts.iter().filter(says).filter(|part| item.is_none_or(|item| part.item == item)).collect();
            judged.sort_by_key(|part| part.start);
            let same = copy.len() == judged.len() && copy.iter().zip(&judged).all(|(own, other)| std::ptr::eq(*own, *other));
            if !same {
                let (start, text) = joined(&copy);
                self.read_apart(kind, start, &text, context);
            }
        }
    }

    /// Judges texts that clients join which go by the index alone: parts of several messages with the same one.
    fn by_index(&mut self, context: &Context) {
        let first = self.parts.first().map(|first| first.item);
        if self.parts.iter().all(|part| part.content_index == 0) || self.parts.iter().all(|part| Some(part.item) == first) {
            return;
        }
        let mut indexes: Vec<u64> = self.parts.iter().map(|part| part.content_index).collect();
        indexes.sort_unstable();
        indexes.dedup();
        for index in indexes {
            let mut own: Vec<&ContentPart> = self.parts.iter().filter(|part| part.kind == TEXT && part.content_index == index).collect();
            own.sort_by_key(|part| part.start);
            if own.len() > 1 {
                let (start, text) = joined(&own);
                self.read_apart(TEXT, start, &text, context);
            }
        }
    }

    /// Judges a text in another reading. `start`: where it begins in the joined text.
    fn read_apart(&mut self, kind: usize, start: usize, text: &str, context: &Context) {
        let mut gate = TextGate::default();
        context.take(&mut gate, text);
        let blocked = gate.blocked().map(|at| start + at);
        self.limits[kind] = self.limits[kind].or(blocked);
        self.apart.push((kind, start, gate));
    }

    /// Handles a copy of a complete part: text that the deltas didn't have is fed through the gate. A copy with other
    /// text is ignored, as the released text overwrites it.
    pub fn complete(&mut self, part: usize, copy: &str, context: &Context) {
        let Some(own) = self.parts.get(part) else { return };
        let last = own.text.is_empty() || own.end() == self.fed[own.kind];
        let Some(rest) = copy.strip_prefix(&*own.text).filter(|rest| last && !rest.is_empty()) else { return };
        // INVARIANT: it is the last part of its kind, so it can be fed.
        let _end = self.feed(part, rest, context);
    }

    /// End of the text that is cleared for release, in bytes of the joined text.
    pub fn cleared(&self, kind: usize) -> usize {
        self.gates[kind].cleared().min(self.limits[kind].unwrap_or(usize::MAX))
    }

    /// Text that closes any open markup at the end of the released output text.
    pub fn closing(&self) -> String {
        self.gates[TEXT].closing()
    }

    /// True if a text of this kind has a blocked claim.
    pub fn blocked(&self, kind: usize) -> bool {
        self.gates[kind].blocked().is_some() || self.limits[kind].is_some()
    }

    /// Releases a part up to `end` (in the joined text); returns the text to send.
    pub fn take(&mut self, part: usize, end: usize) -> String {
        let Some(own) = self.parts.get_mut(part) else { return String::new() };
        let gate = &mut self.gates[own.kind];
        let (start, end) = (own.start, end.min(own.end()));
        let mut text = String::new();
        let mut from = own.taken;
        let slice = |from: usize, to: usize| own.text.get(from - start..to - start).unwrap_or_default();
        for removal in gate.removals() {
            let cut = removal.start.clamp(from, end.max(from))..removal.end.clamp(from, end.max(from));
            text.push_str(slice(from, cut.start));
            if !cut.is_empty() {
                own.removals.push(cut.start - start..cut.end - start);
            }
            from = cut.end;
        }
        text.push_str(slice(from, end.max(from)));
        own.taken = own.taken.max(end);
        gate.forget_removals(own.taken);
        if !text.is_empty() && own.kind == TEXT && std::mem::take(&mut self.gap) {
            text.insert_str(0, "\n\n");
        }
        own.left.push_str(&text);
        text
    }

    /// Ends all texts. If the ledger must be asked, call it again after the answer.
    pub fn close(&mut self, context: &Context) {
        if !self.closed {
            self.by_index(context);
        }
        for kind in [TEXT, REFUSAL] {
            // The only part is the whole text.
            if !self.closed && self.last_part(kind).is_some_and(|part| part.start > 0) {
                self.separate(kind, context);
            }
            context.close(&mut self.gates[kind]);
        }
        if std::mem::replace(&mut self.closed, true) {
            for (kind, start, gate) in &mut self.apart {
                context.close(gate);
                self.limits[*kind] = self.limits[*kind].or(gate.blocked().map(|at| *start + at));
            }
        }
    }

    /// Parts of this item.
    pub fn parts_of(&self, item: Option<usize>) -> impl Iterator<Item = usize> {
        self.parts.iter().enumerate().filter(move |(_, part)| Some(part.item) == item).map(|(at, _)| at)
    }

    /// Released text of all parts of a message, in the order of its content.
    pub fn released_text(&self, item: usize) -> String {
        let mut parts: Vec<&ContentPart> = self.parts.iter().filter(|part| part.item == item).collect();
        parts.sort_by_key(|part| part.content_index);
        parts.into_iter().map(|part| part.left.as_str()).collect()
    }

    /// True if there is any text of this kind.
    pub fn has(&self, kind: usize) -> bool {
        self.fed[kind] > 0
    }

    /// All output text, as received from the upstream.
    pub fn said(&self) -> String {
        self.parts.iter().filter(|part| part.kind == TEXT).map(|part| part.text.as_str()).collect()
    }
}

/// The first start of these parts, and their texts, joined as they stand.
fn joined(parts: &[&ContentPart]) -> (usize, String) {
    let start = parts.iter().map(|part| part.start).min().unwrap_or_default();
    (start, parts.iter().map(|part| &*part.text).collect())
}
