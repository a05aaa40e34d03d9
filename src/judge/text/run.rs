//! Word runs: finds ids of our shape and labels, through disguises, each character looked at once. Pure.
//!
//! ```text
//! no run ──word──▶ plain run ──mark, then word──▶ folded run
//!    ▲─────────────────┴──────────breaker──────────────┘   the run is read: ids? a label?
//! ```
//!
//! A run that goes on for ever is read in strides; only what may still begin an id is kept of it.

use std::{collections::VecDeque, ops::Range};

use super::{
    Rules,
    fence::{Fences, Mode},
    fold::{self, CLASSES, Class, Symbol},
    item::{Id, Item, Kind},
    label::{self, Name, Reading},
    shape,
    tail::Tail,
};

/// Bytes of a run above which its beginning is read and let go.
const RUN_BYTES_MAX: usize = 4096;
/// Letters kept of such a run: one id, and the character that would end it.
const KEPT: usize = shape::ID_BYTES_MAX + 1;
/// Bytes over which one id may be spread, however little may be held.
const SPREAD_BYTES_MIN: usize = 1024;
/// Bytes of the shortest word that matters.
const WORD_BYTES_MIN: usize = "execution".len();
/// Bytes of the longest word that is looked at as a label.
const LABEL_BYTES_MAX: usize = 24;

/// What lay between the last letter of the run and here.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
enum Gap {
    #[default]
    None,
    Invisible,
    Markup,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    start: usize,
    end: usize,
    /// Markup stood before it.
    cut: bool,
}

#[derive(Debug)]
struct Waiting {
    start: usize,
    from: usize,
    name: Name,
}

/// The reader of word runs.
#[derive(Debug, Default)]
pub(super) struct Runs {
    at: usize,
    open: bool,
    start: usize,
    end: usize,
    gap: Gap,
    /// The folded run; empty while it is plain, that is the text from `start` to `end`.
    letters: Vec<u8>,
    places: Vec<Place>,
    labels: VecDeque<Waiting>,
}

impl Runs {
    /// Is there anything in a whole text that [`Self::advance`] looks at closely?
    pub fn may_find(text: &[u8]) -> bool {
        let mut word = 0;
        text.iter().any(|byte| {
            word = if class(*byte) == Class::Word { word + 1 } else { 0 };
            word >= WORD_BYTES_MIN || class(*byte) == Class::Special
        })
    }

    /// Reads all that is there.
    pub fn advance(&mut self, tail: &Tail, fences: &Fences, rules: &Rules, last: bool, found: &mut Vec<Item>) {
        let begin = self.at;
        let bytes = tail.bytes(begin..tail.end());
        while let Some(first) = bytes.get(self.at - begin) {
            let rest = bytes.get(self.at - begin..).unwrap_or_default();
            match class(*first) {
                Class::Word => {
                    let length = rest.iter().position(|b| class(*b) != Class::Word).unwrap_or(rest.len());
                    let short = !self.open && length < WORD_BYTES_MIN;
                    if !short || rest.get(length).is_none_or(|b| class(*b) == Class::Special) {
                        self.word(tail, rules, self.at..self.at + length, found);
                    }
                    self.at += length;
                }
                Class::Breaker => {
                    if self.open {
                        self.close(tail, fences, rules, found);
                    }
                    self.at += 1;
                }
                Class::Special => {
                    let Some((symbol, length)) = fold::next(tail.from(self.at), last) else { break };
                    self.symbol(tail, fences, rules, symbol, length, found);
                    self.at += length;
                }
            }
        }
        if last {
            self.close(tail, fences, rules, found);
        } else {
            self.slide(tail, found);
        }
        self.read_labels(tail, last, found);
    }

    /// Nothing that starts before this place will be found any more.
    pub fn hold(&self) -> usize {
        let run = if self.open { self.start } else { self.at };
        self.labels.front().map_or(run, |label| label.start.min(run))
    }

    fn word(&mut self, tail: &Tail, rules: &Rules, span: Range<usize>, found: &mut Vec<Item>) {
        if span.is_empty() {
            return;
        }
        if !self.open {
            (self.open, self.start, self.end) = (true, span.start, span.end);
        } else if self.letters.is_empty() && self.gap == Gap::None {
            self.end = span.end;
        } else {
            self.fold(tail);
            for (at, byte) in span.clone().zip(tail.bytes(span.clone())) {
                self.push(*byte, at..at + 1);
                if self.bound(at + 1, rules, found) {
                    return self.word(tail, rules, at + 1..span.end, found);
                }
            }
        }
    }

    fn symbol(&mut self, tail: &Tail, fences: &Fences, rules: &Rules, symbol: Symbol, length: usize, found: &mut Vec<Item>) {
        if symbol == Symbol::Markup('<') {
            hidden(tail, self.at..self.at + length, found);
        }
        match symbol {
            Symbol::Word(letters) => {
                if self.open {
                    self.fold(tail);
                } else {
                    (self.open, self.start) = (true, self.at);
                }
                for letter in letters.as_bytes() {
                    self.push(*letter, self.at..self.at + length);
                }
            }
            Symbol::Invisible => self.gap = self.gap.max(Gap::Invisible),
            Symbol::Markup(_) => self.gap = Gap::Markup,
            Symbol::Blank(_) | Symbol::Other(_) => self.close(tail, fences, rules, found),
        }
        if !self.open {
            self.gap = Gap::None;
        }
        self.bound(self.at + length, rules, found);
    }

    /// From now on the run is kept letter by letter.
    fn fold(&mut self, tail: &Tail) {
        if self.letters.is_empty() {
            let plain = self.start..self.end;
            self.letters.extend_from_slice(tail.bytes(plain.clone()));
            self.places.extend(plain.map(|at| Place { start: at, end: at + 1, cut: false }));
        }
    }

    fn push(&mut self, letter: u8, span: Range<usize>) {
        self.letters.push(letter);
        self.places.push(Place { start: span.start, end: span.end, cut: self.gap == Gap::Markup });
        self.end = span.end;
        self.gap = Gap::None;
    }

    /// An id that is spread too wide to be held is refused unread: true if that was so.
    fn bound(&mut self, at: usize, rules: &Rules, found: &mut Vec<Item>) -> bool {
        let width = rules.held_bytes_max.max(SPREAD_BYTES_MIN);
        if !self.open || at - self.start <= width {
            return false;
        }
        let oldest = match self.places.len().checked_sub(KEPT) {
            Some(kept) => self.places.get(kept).map_or(self.start, |place| place.start),
            None if self.places.is_empty() => self.start.max(self.end.saturating_sub(KEPT)),
            None => self.start,
        };
        let wide = at - oldest > width;
        if wide {
            found.push(Item { span: oldest..at, kind: Kind::TooLong });
            self.drop_run();
        }
        wide
    }

    fn drop_run(&mut self) {
        (self.open, self.gap) = (false, Gap::None);
        self.letters.clear();
        self.places.clear();
    }

    /// The run has ended: what was it?
    fn close(&mut self, tail: &Tail, fences: &Fences, rules: &Rules, found: &mut Vec<Item>) {
        if !self.open {
            return;
        }
        if self.letters.is_empty() && self.end - self.start < WORD_BYTES_MIN {
            (self.open, self.gap) = (false, Gap::None);
            return;
        }
        self.find(tail, true, found);
        let word = if self.letters.is_empty() { tail.bytes(self.start..self.end) } else { &self.letters };
        let labels = rules.has_tools && !rules.json_only && word.len() <= LABEL_BYTES_MAX;
        if labels
            && let Some(name) = label::name(word)
            && fences.mode(self.start) != Mode::Code
        {
            self.labels.push_back(Waiting { start: self.start, from: self.end, name });
        }
        self.drop_run();
    }

    /// Notes the ids in the run; returns where in the run the last one ends.
    fn find(&self, tail: &Tail, closed: bool, found: &mut Vec<Item>) -> usize {
        let plain = self.letters.is_empty();
        let run = if plain { tail.bytes(self.start..self.end) } else { &self.letters };
        if run.len() < shape::ID_BYTES_MIN {
            return 0;
        }
        shape::find(run, closed, |span| {
            if plain {
                return found.push(as_it_stands(run, self.start, span));
            }
            let text = text_of(run, span.clone());
            let tool = span.start..span.start + shape::tool(&text).len();
            let places = self.places.get(span).unwrap_or_default();
            let cut = self.places.get(tool).and_then(|places| places.iter().rposition(|place| place.cut)).unwrap_or(0);
            if let (Some(first), Some(end), Some(from)) = (places.first(), places.last(), places.get(cut)) {
                found.push(Item { span: first.start..end.end, kind: Kind::Id(Id { text, cut, from: from.start }) });
            }
        })
    }

    /// Lets go of the beginning of a long run.
    fn slide(&mut self, tail: &Tail, found: &mut Vec<Item>) {
        let length = if self.letters.is_empty() { self.end - self.start } else { self.letters.len() };
        if !self.open || length <= RUN_BYTES_MAX {
            return;
        }
        let done = self.find(tail, false, found).max(length - KEPT);
        if self.letters.is_empty() {
            self.start += done;
        } else {
            self.letters.drain(..done);
            self.places.drain(..done);
            self.start = self.places.first().map_or(self.at, |place| place.start);
        }
    }

    fn read_labels(&mut self, tail: &Tail, last: bool, found: &mut Vec<Item>) {
        while let Some(waiting) = self.labels.front() {
            let (start, from) = (waiting.start, waiting.from);
            match label::read(tail.from(from), waiting.name, last) {
                Reading::More => return,
                Reading::Nothing => {
                    self.labels.pop_front();
                }
                Reading::Found(mut label) => {
                    label.value = from + label.value.start..from + label.value.end;
                    let end = label.value.end;
                    while self.labels.front().is_some_and(|waiting| waiting.start < end) {
                        self.labels.pop_front();
                    }
                    found.push(Item { span: start..end, kind: Kind::Label(label) });
                }
            }
        }
    }
}

/// Notes the ids inside a tag or a comment, which nobody sees and programs read all the same.
fn hidden(tail: &Tail, tag: Range<usize>, found: &mut Vec<Item>) {
    let inside = tail.bytes(tag.clone());
    shape::find_apart(inside, |span| found.push(as_it_stands(inside, tag.start, span)));
}

/// An id that stands in `bytes` undisguised, they beginning at `start` in the whole text.
fn as_it_stands(bytes: &[u8], start: usize, span: Range<usize>) -> Item {
    let text = text_of(bytes, span.clone());
    let span = start + span.start..start + span.end;
    Item { kind: Kind::Id(Id { text, cut: 0, from: span.start }), span }
}

fn text_of(bytes: &[u8], span: Range<usize>) -> String {
    String::from_utf8_lossy(bytes.get(span).unwrap_or_default()).into_owned()
}

fn class(byte: u8) -> Class {
    CLASSES.get(usize::from(byte)).copied().unwrap_or(Class::Breaker)
}
