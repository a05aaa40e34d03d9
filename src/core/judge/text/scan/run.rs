//! Scanner for word runs: finds execution IDs and labels through disguises, looking at each character once. Pure.
//!
//! ```text
//! no run ──word──▶ plain run ──mark, then word──▶ folded run
//!    ▲─────────────────┴──────────breaker──────────────┘   the run is read: ids? a label?
//! ```
//!
//! A run without an end is read in strides; only the part that may still begin an id is kept.

use std::{collections::VecDeque, ops::Range};

use super::label::{self, LabelParse, LabelWord, NamePosition, Phrases};
use crate::{
    claims::text_input::TextInput,
    judge::text::{
        TextRules,
        fence::{CodeFenceTracker, TextMode},
        fold::{self, CLASSES, Class, TAG_BYTES_MAX, VisibleSymbol},
        item::{Kind, ScannedId, ScannedItem},
        shape,
        tail::TextWindow,
    },
};

/// Bytes of a run above which its beginning is read and dropped.
const RUN_BYTES_MAX: usize = 4096;
/// Letters kept of such a run: one id, and the character that would end it.
const KEPT: usize = shape::ID_BYTES_MAX + 1;
/// Bytes over which one id may be spread, even if less may be held.
const SPREAD_BYTES_MIN: usize = 1024;
/// Bytes of the shortest word that matters.
const WORD_BYTES_MIN: usize = "execution".len();
/// Bytes of the longest escape or entity; a longer invisible text may hold an id.
const ESCAPE_BYTES_MAX: usize = 12;
/// Bytes of the longest word that is looked at as a label.
const LABEL_BYTES_MAX: usize = 24;

/// Kind of text between the last letter of the run and the current place.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
enum Gap {
    #[default]
    None,
    Invisible,
    Markup,
}

#[derive(Clone, Copy, Debug)]
struct RunPlace {
    start: usize,
    end: usize,
    /// Markup is directly before this letter.
    cut: bool,
}

#[derive(Debug)]
struct WaitingLabel {
    start: usize,
    from: usize,
    name: LabelWord,
    /// Bytes that must be available before another try.
    retry: usize,
}

/// Scanner for word runs.
#[derive(Debug, Default)]
pub(in crate::judge::text) struct IdScanner {
    at: usize,
    open: bool,
    start: usize,
    end: usize,
    gap: Gap,
    /// The folded run; empty while it is plain, that is the text from `start` to `end`.
    letters: Vec<u8>,
    places: Vec<RunPlace>,
    labels: VecDeque<WaitingLabel>,
    /// End of the last labelled value that was found: a label that begins before it is part of that value.
    labelled: usize,
    /// Bytes that must be available before the text at `at` is tried again.
    retry: usize,
    /// Place up to which the end of a comment was searched for.
    commented: usize,
    phrases: Phrases,
    /// Labels in other languages are searched for: the exchange has tools.
    phrased: bool,
}

impl IdScanner {
    /// True if a whole text has anything that [`Self::advance`] looks at closely.
    pub fn may_find(text: &[u8]) -> bool {
        let (mut word, mut before) = (0, 0);
        text.iter().any(|byte| {
            word = if class(*byte) == Class::Word { word + 1 } else { 0 };
            // Of brackets only empty ones hide anything.
            let special = class(*byte) == Class::Special && !matches!(byte, b'[' | b']' | b'!') || (before, *byte) == (b'[', b']');
            before = *byte;
            word >= WORD_BYTES_MIN || special
        })
    }

    /// Reads all available text.
    pub fn advance(
        &mut self,
        tail: &TextWindow,
        fences: &CodeFenceTracker,
        rules: &TextRules,
        input: TextInput,
        found: &mut Vec<ScannedItem>,
    ) {
        let begin = self.at;
        let bytes = if tail.end() < self.retry && input.is_partial() { &[] } else { tail.bytes(begin..tail.end()) };
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
                    let Some((symbol, length)) = self.special(tail, rest, input) else {
                        // What goes on for long is looked at again when there is a good part more of it.
                        self.retry = tail.end() + rest.len() / 4;
                        break;
                    };
                    self.symbol(tail, fences, rules, symbol, length, found);
                    self.at += length;
                }
            }
        }
        if input.is_complete() {
            self.close(tail, fences, rules, found);
        } else {
            self.slide(tail, found);
        }
        self.phrased = rules.has_tools;
        if rules.has_tools {
            let end = if input.is_complete() { tail.end() } else { self.at };
            let labelled = self.labelled;
            self.phrases.advance(tail, end, input, |span| {
                if span.start < labelled {
                    return;
                }
                let after = self.labels.partition_point(|label| label.start <= span.start);
                self.labels.insert(after, WaitingLabel { start: span.start, from: span.end, name: LabelWord::Whole, retry: 0 });
            });
        }
        self.read_labels(tail, input, found);
    }

    /// The symbol at the current place, at the beginning of `rest`.
    fn special(&mut self, tail: &TextWindow, rest: &[u8], input: TextInput) -> Option<(VisibleSymbol, usize)> {
        let itself = rest.first().map(|byte| (VisibleSymbol::Other(char::from(*byte)), 1));
        if rest.starts_with(b"<!--") {
            // Between words a comment is read as text: programs read it, too.
            return if self.open { self.comment(rest, input) } else { itself };
        }
        if rest.first() == Some(&b']') {
            return if self.is_piece(tail) { link_end(rest, input) } else { itself };
        }
        let (symbol, length) = fold::next(tail.from(self.at), input)?;
        match symbol {
            // Inside an id any tag, and the brackets of a link, are markup.
            VisibleSymbol::Tag if self.is_piece(tail) => Some((VisibleSymbol::Markup('<'), length)),
            VisibleSymbol::Tag => itself,
            VisibleSymbol::Other('[') if self.is_piece(tail) => Some((VisibleSymbol::Markup('['), length)),
            _ => Some((symbol, length)),
        }
    }

    /// The comment at the beginning of `rest`; each byte is searched for its end once.
    fn comment(&mut self, rest: &[u8], input: TextInput) -> Option<(VisibleSymbol, usize)> {
        let short = [&b">"[..], b"->"].iter().find(|end| rest.get(4..).is_some_and(|body| body.starts_with(end))).map(|end| 4 + end.len());
        let limit = rest.len().min(TAG_BYTES_MAX);
        let from = self.commented.saturating_sub(self.at + 2).max(4);
        let find = || rest.get(from..limit).and_then(|window| memchr::memmem::find(window, b"-->")).map(|at| from + at + 3);
        if let Some(length) = short.or_else(find) {
            return Some((VisibleSymbol::Markup('<'), length));
        }
        self.commented = self.at + limit;
        (input.is_complete() || rest.len() >= TAG_BYTES_MAX).then_some((VisibleSymbol::Other('<'), 1))
    }

    /// True if the run so far can be the beginning of an id whose tool name is complete.
    fn is_piece(&self, tail: &TextWindow) -> bool {
        if !self.open {
            return false;
        }
        let run = if self.letters.is_empty() { tail.bytes(self.start..self.end) } else { &self.letters };
        shape::is_piece(run)
    }

    /// Place before which nothing more will be found.
    pub fn hold(&self) -> usize {
        let run = if self.open { self.start } else { self.at };
        // Without tools no phrase is read, and none holds anything.
        let run = if self.phrased { run.min(self.phrases.hold()) } else { run };
        self.labels.front().map_or(run, |label| label.start.min(run))
    }

    fn word(&mut self, tail: &TextWindow, rules: &TextRules, span: Range<usize>, found: &mut Vec<ScannedItem>) {
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

    fn symbol(
        &mut self,
        tail: &TextWindow,
        fences: &CodeFenceTracker,
        rules: &TextRules,
        symbol: VisibleSymbol,
        length: usize,
        found: &mut Vec<ScannedItem>,
    ) {
        if matches!(symbol, VisibleSymbol::Markup('<' | '[')) || (symbol == VisibleSymbol::Invisible && length > ESCAPE_BYTES_MAX) {
            hidden(tail, self.at..self.at + length, found);
        }
        match symbol {
            VisibleSymbol::Word(letters) => {
                if self.open {
                    self.fold(tail);
                } else {
                    (self.open, self.start) = (true, self.at);
                }
                for letter in letters.as_bytes() {
                    self.push(*letter, self.at..self.at + length);
                }
            }
            VisibleSymbol::Invisible => self.gap = self.gap.max(Gap::Invisible),
            VisibleSymbol::Markup(_) => self.gap = Gap::Markup,
            VisibleSymbol::Blank(_) | VisibleSymbol::Other(_) | VisibleSymbol::Tag => self.close(tail, fences, rules, found),
        }
        if !self.open {
            self.gap = Gap::None;
        }
        self.bound(self.at + length, rules, found);
    }

    /// Switches to storing the run letter by letter.
    fn fold(&mut self, tail: &TextWindow) {
        if self.letters.is_empty() {
            let plain = self.start..self.end;
            self.letters.extend_from_slice(tail.bytes(plain.clone()));
            self.places.extend(plain.map(|at| RunPlace { start: at, end: at + 1, cut: false }));
        }
    }

    fn push(&mut self, letter: u8, span: Range<usize>) {
        self.letters.push(letter);
        self.places.push(RunPlace { start: span.start, end: span.end, cut: self.gap == Gap::Markup });
        self.end = span.end;
        self.gap = Gap::None;
    }

    /// Refuses, unread, an id that is spread too wide to be held; true if it did.
    fn bound(&mut self, at: usize, rules: &TextRules, found: &mut Vec<ScannedItem>) -> bool {
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
            found.push(ScannedItem { span: oldest..at, kind: Kind::TooLong });
            self.drop_run();
        }
        wide
    }

    fn drop_run(&mut self) {
        (self.open, self.gap) = (false, Gap::None);
        self.letters.clear();
        self.places.clear();
    }

    /// Ends the run, and classifies it.
    fn close(&mut self, tail: &TextWindow, fences: &CodeFenceTracker, rules: &TextRules, found: &mut Vec<ScannedItem>) {
        if !self.open {
            return;
        }
        if self.letters.is_empty() && self.end - self.start < WORD_BYTES_MIN {
            (self.open, self.gap) = (false, Gap::None);
            return;
        }
        self.find(tail, TextInput::Complete, found);
        let word = if self.letters.is_empty() { tail.bytes(self.start..self.end) } else { &self.letters };
        let labels = rules.has_tools && word.len() <= LABEL_BYTES_MAX && self.start >= self.labelled;
        if labels
            && let Some(name) = label::name(word)
            && matches!(fences.mode(self.start), TextMode::Prose | TextMode::Json)
        {
            self.labels.push_back(WaitingLabel { start: self.start, from: self.end, name, retry: 0 });
        }
        self.drop_run();
    }

    /// Records the ids in the run; returns the place in the run where the last one ends.
    fn find(&self, tail: &TextWindow, input: TextInput, found: &mut Vec<ScannedItem>) -> usize {
        let plain = self.letters.is_empty();
        let run = if plain { tail.bytes(self.start..self.end) } else { &self.letters };
        if run.len() < shape::ID_BYTES_MIN {
            return 0;
        }
        shape::find(run, input, |span| {
            if plain {
                return found.push(as_it_stands(run, self.start, span));
            }
            let text = text_of(run, span.clone());
            let tool = span.start..span.start + shape::tool(&text).len();
            let places = self.places.get(span).unwrap_or_default();
            let cut = self.places.get(tool).and_then(|places| places.iter().rposition(|place| place.cut)).unwrap_or(0);
            if let (Some(first), Some(end), Some(from)) = (places.first(), places.last(), places.get(cut)) {
                found.push(ScannedItem { span: first.start..end.end, kind: Kind::Id(ScannedId { text, cut, from: from.start }) });
            }
        })
    }

    /// Drops the beginning of a long run.
    fn slide(&mut self, tail: &TextWindow, found: &mut Vec<ScannedItem>) {
        let length = if self.letters.is_empty() { self.end - self.start } else { self.letters.len() };
        if !self.open || length <= RUN_BYTES_MAX {
            return;
        }
        let done = self.find(tail, TextInput::Partial, found).max(length - KEPT);
        if self.letters.is_empty() {
            self.start += done;
        } else {
            self.letters.drain(..done);
            self.places.drain(..done);
            self.start = self.places.first().map_or(self.at, |place| place.start);
        }
    }

    fn read_labels(&mut self, tail: &TextWindow, input: TextInput, found: &mut Vec<ScannedItem>) {
        while let Some(waiting) = self.labels.front_mut() {
            let (start, from) = (waiting.start, waiting.from);
            if tail.end() < waiting.retry && input.is_partial() {
                return;
            }
            let is_element = tail.before(start) == Some('<') || tail.before(from) == Some('-');
            let position = if is_element { NamePosition::Element } else { NamePosition::Text };
            match label::read(tail.from(from), waiting.name, position, input) {
                LabelParse::More => {
                    waiting.retry = tail.end() + (tail.end() - from) / 4;
                    return;
                }
                LabelParse::Nothing => {
                    self.labels.pop_front();
                }
                LabelParse::Found(mut label) => {
                    label.value = from + label.value.start..from + label.value.end;
                    let end = label.value.end;
                    self.labelled = end;
                    while self.labels.front().is_some_and(|waiting| waiting.start < end) {
                        self.labels.pop_front();
                    }
                    found.push(ScannedItem { span: start..end, kind: Kind::Label(label) });
                }
            }
        }
    }
}

/// The `](…)` or `][…]` at the beginning of `rest` that ends a link with words.
fn link_end(rest: &[u8], input: TextInput) -> Option<(VisibleSymbol, usize)> {
    let close = match rest.get(1) {
        Some(b'(') => b')',
        Some(b'[') => b']',
        None if input.is_partial() => return None,
        Some(_) | None => return Some((VisibleSymbol::Other(']'), 1)),
    };
    let window = rest.get(2..rest.len().min(TAG_BYTES_MAX)).unwrap_or_default();
    match memchr::memchr2(close, b'\n', window) {
        Some(end) if window.get(end) == Some(&close) => Some((VisibleSymbol::Markup('['), end + 3)),
        None if input.is_partial() && rest.len() < TAG_BYTES_MAX => None,
        Some(_) | None => Some((VisibleSymbol::Other(']'), 1)),
    }
}

/// Records the ids inside a tag or a comment, which are invisible, but read by programs.
fn hidden(tail: &TextWindow, tag: Range<usize>, found: &mut Vec<ScannedItem>) {
    let inside = tail.bytes(tag.clone());
    shape::find_apart(inside, |span| found.push(as_it_stands(inside, tag.start, span)));
}

/// An undisguised id in `bytes`, which begin at `start` in the whole text.
fn as_it_stands(bytes: &[u8], start: usize, span: Range<usize>) -> ScannedItem {
    let text = text_of(bytes, span.clone());
    let span = start + span.start..start + span.end;
    ScannedItem { kind: Kind::Id(ScannedId { text, cut: 0, from: span.start }), span }
}

fn text_of(bytes: &[u8], span: Range<usize>) -> String {
    String::from_utf8_lossy(bytes.get(span).unwrap_or_default()).into_owned()
}

fn class(byte: u8) -> Class {
    CLASSES.get(usize::from(byte)).copied().unwrap_or(Class::Breaker)
}
