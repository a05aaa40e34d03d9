//! The text of a streamed response: its parts, the gates they go through, and what of them has left. Pure.
//!
//! All output text of a response is one text, as clients join it, so that no claim hides in the seam between two
//! parts or two messages; its refusals are another. Where there are several parts each is judged by itself too, for
//! what claims nothing when joined may claim something when shown apart.

use std::ops::Range;

use crate::{
    exchange::{context::Context, fault::ShapeError},
    judge::text::TextGate,
    responses::answer::read::adds_to,
};

/// Parts that are reported of by themselves.
const APART_MAX: usize = 16;
/// Parts of one response.
const PARTS_MAX: usize = 4096;
/// Output text.
pub const TEXT: usize = 0;
/// Refusals.
pub const REFUSAL: usize = 1;

/// One content part of one message.
#[derive(Debug)]
pub struct Part {
    /// The message, by its number.
    pub item: usize,
    /// Its place in the message.
    pub content_index: u64,
    /// [`TEXT`] or [`REFUSAL`].
    pub kind: usize,
    /// Where it begins in the text as a whole.
    start: usize,
    /// As the upstream sent it, so far.
    pub text: String,
    /// As it has left, so far.
    pub left: String,
    /// Up to where that goes, in the text as a whole.
    taken: usize,
    /// What was taken out, in bytes of [`Self::text`].
    pub removals: Vec<Range<usize>>,
}

impl Part {
    /// Where it ends in the text as a whole, so far.
    pub fn end(&self) -> usize {
        self.start + self.text.len()
    }

    /// Up to where it has left, in the text as a whole.
    pub fn taken(&self) -> usize {
        self.taken
    }

    /// Has all of it left?
    pub fn is_taken(&self) -> bool {
        self.taken >= self.end()
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct Texts {
    /// By kind.
    pub gates: [TextGate; 2],
    fed: [usize; 2],
    /// By kind: where the first part begins to claim, by itself, what may not be claimed.
    limits: [Option<usize>; 2],
    /// Parts by themselves: their kind, and where they start.
    apart: Vec<(usize, usize, TextGate)>,
    closed: bool,
    /// Bytes in memory of its parts: what came, and what has left.
    pub held_bytes: usize,
    /// In the order in which they began.
    pub parts: Vec<Part>,
    /// The next text that leaves begins a paragraph: an earlier attempt's text has left.
    pub gap: bool,
}

impl Texts {
    /// The part at this place, begun if it is new.
    ///
    /// # Errors
    /// [`ShapeError::Text`] where there are too many.
    pub fn part(&mut self, item: usize, content_index: u64, kind: usize) -> Result<usize, ShapeError> {
        let found = self.parts.iter().rposition(|part| part.item == item && part.content_index == content_index && part.kind == kind);
        if let Some(found) = found {
            return Ok(found);
        }
        if self.parts.len() >= PARTS_MAX {
            return Err(ShapeError::Text);
        }
        let start = self.fed[kind];
        self.held_bytes += size_of::<Part>();
        let (text, left) = (String::new(), String::new());
        self.parts.push(Part { item, content_index, kind, start, text, left, taken: start, removals: Vec::new() });
        Ok(self.parts.len() - 1)
    }

    /// Takes a piece of a part through its gate; gives back where it ends in the text as a whole.
    ///
    /// # Errors
    /// [`ShapeError::Text`] where another part has begun meanwhile: the two would be read in either order.
    pub fn feed(&mut self, part: usize, text: &str, context: &Context) -> Result<usize, ShapeError> {
        let Some(own) = self.parts.get_mut(part) else { return Err(ShapeError::Text) };
        if own.text.is_empty() && !text.is_empty() {
            (own.start, own.taken) = (self.fed[own.kind], self.fed[own.kind]);
            let kind = own.kind;
            self.separate(kind, false, context);
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

    /// Judges the last part of a kind by itself. `last`: no other follows.
    fn separate(&mut self, kind: usize, last: bool, context: &Context) {
        let with_text = |part: &&Part| part.kind == kind && !part.text.is_empty();
        let Some(part) = self.parts.iter().filter(with_text).max_by_key(|part| part.start) else { return };
        // The only part is the whole text.
        if last && part.start == 0 {
            return;
        }
        let mut gate = TextGate::default();
        context.feed(&mut gate, &part.text);
        context.close(&mut gate);
        let blocked = gate.blocked().map(|at| part.start + at);
        self.limits[kind] = self.limits[kind].or(blocked);
        self.apart.push((kind, part.start, gate));
    }

    /// The gates of all texts, and of parts that claim by themselves what they don't when joined.
    pub fn judged(&self) -> Vec<&TextGate> {
        let adds = |(kind, _, gate): &&(usize, usize, TextGate)| adds_to(gate, &self.gates[*kind]);
        let mut apart: Vec<&TextGate> = self.apart.iter().filter(adds).map(|(.., gate)| gate).collect();
        // What blocks is never the part that is left out.
        apart.sort_by_key(|gate| gate.blocked().is_none());
        apart.truncate(APART_MAX);
        self.gates.iter().chain(apart).collect()
    }

    /// A copy of a whole part: what it says beyond the deltas goes through the gate too. A copy that says
    /// something else counts for nothing: it is overwritten by what leaves.
    pub fn complete(&mut self, part: usize, copy: &str, context: &Context) {
        let Some(own) = self.parts.get(part) else { return };
        let last = own.text.is_empty() || own.end() == self.fed[own.kind];
        let Some(rest) = copy.strip_prefix(&*own.text).filter(|rest| last && !rest.is_empty()) else { return };
        // INVARIANT: it is the last part of its kind, so it can be fed.
        let _end = self.feed(part, rest, context);
    }

    /// How much of a text is decided.
    pub fn cleared(&self, kind: usize) -> usize {
        self.gates[kind].cleared().min(self.limits[kind].unwrap_or(usize::MAX))
    }

    /// What closes whatever is open where the output text that was released ends.
    pub fn closing(&self) -> String {
        self.gates[TEXT].closing()
    }

    /// Has anything of a kind been found that may not leave?
    pub fn blocked(&self, kind: usize) -> bool {
        self.gates[kind].blocked().is_some() || self.limits[kind].is_some()
    }

    /// Lets go of a part up to `end` (of the text as a whole): what leaves of it.
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

    /// There is no more text. Is called again where the ledger had to be asked.
    pub fn close(&mut self, context: &Context) {
        for kind in [TEXT, REFUSAL] {
            if !self.closed {
                self.separate(kind, true, context);
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

    /// Is there any text of this kind?
    pub fn has(&self, kind: usize) -> bool {
        self.fed[kind] > 0
    }

    /// All output text as the upstream sent it.
    pub fn said(&self) -> String {
        self.parts.iter().filter(|part| part.kind == TEXT).map(|part| part.text.as_str()).collect()
    }
}
