//! A text in passages: sentences, lines of lists and tables, each once it is whole. Pure.
//!
//! Where a passage ends depends on the text alone, never on how it was cut. A bracket behind a sentence's end belongs to
//! it: that is where citations stand.

use crate::text_input::TextInput;

/// Bytes of a passage above which it is cut.
const PASSAGE_BYTES_MAX: usize = 4096;
/// Bytes beyond that which may tell where a passage ends: whatever else follows isn't looked at, however much is there.
const WINDOW_BYTES: usize = 2 * PASSAGE_BYTES_MAX;
/// Bytes that may have been read before dropping them is worth a copy.
const STRIDE_BYTES: usize = 16 << 10;
/// Words after which a point ends no sentence.
const ABBREVIATIONS: [&str; 37] = [
    "mr", "mrs", "ms", "dr", "prof", "st", "no", "nr", "vs", "approx", "ca", "bzw", "z", "b", "d", "h", "u", "a", "e.g", "i.e", "g", "e",
    "i", "etc", "inkl", "usw", "dhr", "mevr", "dra", "sra", "sr", "srta", "sig", "av", "avda", "ul", "tel",
];

/// Kind of a passage.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// A sentence.
    Sentence,
    /// An item of a list, a row of a table, a `key: value` line.
    Line,
    /// A heading, or a line that is all bold.
    Heading,
    /// A line of code: it claims nothing.
    Code,
    /// An empty line.
    Blank,
}

/// A passage.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Passage {
    /// Start in the whole text, in bytes, with the blanks before it.
    pub start: usize,
    /// It itself.
    pub text: String,
    /// Kind of the passage.
    pub kind: Kind,
    /// It lies in a fenced block.
    pub fenced: bool,
}

impl Passage {
    /// End in the whole text, in bytes.
    pub fn end(&self) -> usize {
        self.start + self.text.len()
    }
}

/// The reader of passages.
#[derive(Debug, Default)]
pub struct PassageSplitter {
    start: usize,
    text: String,
    /// Start of the current passage in `text`.
    from: usize,
    /// No passage ends before this place, counted from its beginning.
    scanned: usize,
    /// The passage doesn't begin its line.
    inside: bool,
    fence: Option<(char, bool)>,
}

impl PassageSplitter {
    /// Takes the next piece of the text.
    pub fn push(&mut self, piece: &str) {
        self.text.push_str(piece);
    }

    /// Start of the incomplete passage.
    pub fn hold(&self) -> usize {
        self.start
    }

    /// The text from the passage at hand on.
    pub fn pending(&self) -> &str {
        self.buffer()
    }

    /// The next whole passage.
    pub fn take(&mut self, input: TextInput) -> Option<Passage> {
        let end = self.end(input)?;
        let text = self.buffer().get(..end)?.to_owned();
        self.from += end;
        if self.from > STRIDE_BYTES && self.from * 2 > self.text.len() {
            self.text.drain(..self.from);
            self.from = 0;
        }
        let kind = self.kind(&text);
        let start = self.start;
        self.start += text.len();
        self.scanned = 0;
        self.inside = !text.ends_with('\n');
        Some(Passage { start, text, kind, fenced: self.fence.is_some() })
    }

    /// The text from the passage at hand on, as far as it is looked at.
    fn buffer(&self) -> &str {
        let rest = self.text.get(self.from..).unwrap_or_default();
        if rest.len() <= WINDOW_BYTES { rest } else { rest.get(..rest.floor_char_boundary(WINDOW_BYTES)).unwrap_or_default() }
    }

    fn end(&mut self, input: TextInput) -> Option<usize> {
        // What more could come wouldn't be looked at.
        let input = if self.text.len() - self.from > WINDOW_BYTES { TextInput::Complete } else { input };
        let line_only = self.fence.is_some() || self.is_line();
        while let Some(at) = mark(self.buffer(), self.scanned) {
            let rest = self.buffer().get(at..).unwrap_or_default();
            let mark = rest.chars().next().unwrap_or(' ');
            let after = at + mark.len_utf8();
            if after > PASSAGE_BYTES_MAX {
                break;
            }
            if mark == '\n' {
                return Some(after);
            }
            if line_only {
                self.scanned = after;
                continue;
            }
            if !mark.is_ascii() && mark != DANDA {
                // A bracket behind the mark belongs to it: there stands what it cites.
                let rest = self.buffer().get(after..).unwrap_or_default();
                let closer = match rest.chars().next() {
                    None if input.is_partial() => return None,
                    Some('（') => '）',
                    Some('(') => ')',
                    _ => return Some(after),
                };
                let line = rest.find('\n').unwrap_or(rest.len());
                return match rest.get(..line).unwrap_or_default().find(closer) {
                    Some(close) => Some(after + close + closer.len_utf8()),
                    None if line == rest.len() && input.is_partial() && rest.len() < PASSAGE_BYTES_MAX => None,
                    None => Some(after),
                };
            }
            match self.sentence_end(at, after, input) {
                SentenceEnd::Ends(end) => return Some(end),
                SentenceEnd::GoesOn => self.scanned = after,
                SentenceEnd::Unknown => return None,
            }
        }
        if self.buffer().len() > PASSAGE_BYTES_MAX {
            return Some(self.buffer().floor_char_boundary(PASSAGE_BYTES_MAX));
        }
        if input.is_partial() {
            // What was looked at holds no end; a mark whose meaning isn't known yet returned before.
            self.scanned = self.buffer().len();
            return None;
        }
        (!self.buffer().is_empty()).then_some(self.buffer().len())
    }

    /// Does the mark at `at` end a sentence, brackets behind it included?
    fn sentence_end(&self, at: usize, after: usize, input: TextInput) -> SentenceEnd {
        let rest = self.buffer().get(after..).unwrap_or_default();
        let closed = rest.trim_start_matches(['"', '\'', '”', '’', '»', ')', ']', '*', '_', '`', '.', '!', '?']);
        let end = self.buffer().len() - closed.len();
        let Some(next) = closed.chars().next() else {
            return if input.is_complete() { SentenceEnd::Ends(end) } else { SentenceEnd::Unknown };
        };
        if !next.is_whitespace() {
            return SentenceEnd::GoesOn;
        }
        if next == '\n' {
            return SentenceEnd::Ends(end);
        }
        let beyond = closed.trim_start_matches([' ', '\t', '\u{a0}']);
        let bare = beyond.trim_start_matches(['*', '_', '`', '~']);
        let Some(first) = bare.chars().next() else {
            return if input.is_complete() { SentenceEnd::Ends(end) } else { SentenceEnd::Unknown };
        };
        let point = self.buffer().get(at..after) == Some(".");
        if point && (first.is_lowercase() || first.is_ascii_digit() || self.abbreviates(at)) {
            return SentenceEnd::GoesOn;
        }
        let closer = match first {
            '(' => ')',
            '[' => ']',
            _ => return SentenceEnd::Ends(end),
        };
        let open = self.buffer().len() - bare.len();
        let line = bare.find('\n').unwrap_or(bare.len());
        // Only as far as is waited for: where it ends must not depend on how the text was cut.
        match bare.get(..bare.floor_char_boundary(line.min(PASSAGE_BYTES_MAX))).unwrap_or_default().find(closer) {
            Some(close) => self.bracket_end(open + close + 1, input),
            None if line == bare.len() && input.is_partial() && bare.len() < PASSAGE_BYTES_MAX => SentenceEnd::Unknown,
            None => SentenceEnd::Ends(end),
        }
    }

    /// The end of a sentence whose bracket is closed before `end`: behind further citations, each in a bracket of its own.
    fn bracket_end(&self, mut end: usize, input: TextInput) -> SentenceEnd {
        for _ in 0..CITATIONS_MAX {
            let tail = self.buffer().get(end..).unwrap_or_default();
            let trimmed = tail.trim_start_matches(['*', '_', '`', '.', ')', ']']);
            let own = self.buffer().len() - trimmed.len();
            let beyond = trimmed.trim_start_matches([' ', '\t', '\u{a0}']);
            let closer = match beyond.chars().next() {
                None if input.is_partial() => return SentenceEnd::Unknown,
                Some('(') => ')',
                Some('[') => ']',
                _ => return SentenceEnd::Ends(own),
            };
            let within = beyond.get(..beyond.floor_char_boundary(CITATION_BYTES_MAX)).unwrap_or_default();
            match within.find(closer) {
                Some(close) if is_citation(within.get(..close).unwrap_or_default()) => end = self.buffer().len() - beyond.len() + close + 1,
                None if input.is_partial() && beyond.len() < CITATION_BYTES_MAX => return SentenceEnd::Unknown,
                _ => return SentenceEnd::Ends(own),
            }
        }
        SentenceEnd::Ends(end)
    }

    fn abbreviates(&self, at: usize) -> bool {
        let before = self.buffer().get(..at).unwrap_or_default();
        let word = before.rsplit(|c: char| c.is_whitespace() || matches!(c, '(' | '"' | '*')).next().unwrap_or_default();
        let digits = (1..=2).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_digit());
        digits || ABBREVIATIONS.iter().any(|known| word.eq_ignore_ascii_case(known))
    }

    /// Does the buffer begin with a line of a list or table?
    fn is_line(&self) -> bool {
        !self.inside && is_line(self.buffer())
    }

    fn kind(&mut self, text: &str) -> Kind {
        let bare = text.trim_start_matches([' ', '\t', '>']);
        let mark = bare.chars().next().filter(|c| matches!(c, '`' | '~'));
        let count = mark.map_or(0, |mark| bare.chars().take_while(|c| *c == mark).count());
        if let Some(mark) = mark.filter(|_| count >= 3 && !self.inside) {
            match self.fence {
                Some((open, _)) if open == mark => self.fence = None,
                Some(_) => {}
                None => {
                    let info = bare.trim_start_matches(mark).trim();
                    let data = ["", "text", "txt", "plain", "plaintext", "output", "yaml", "yml"];
                    self.fence = Some((mark, data.iter().any(|name| info.eq_ignore_ascii_case(name))));
                }
            }
            return Kind::Code;
        }
        match self.fence {
            Some((_, true)) if !text.trim().is_empty() => return Kind::Line,
            Some(_) => return Kind::Code,
            None => {}
        }
        let words = text.trim();
        if words.is_empty() {
            return if text.contains('\n') && !self.inside { Kind::Blank } else { Kind::Code };
        }
        let bold = words.starts_with("**") && words.trim_end_matches(':').ends_with("**") && words.matches("**").count() == 2;
        let hashes = words.starts_with('#') && words.trim_start_matches('#').starts_with([' ', '\t']);
        if !self.inside && (hashes || bold) {
            return Kind::Heading;
        }
        if !self.inside && is_line(text) { Kind::Line } else { Kind::Sentence }
    }
}

/// The full stop of Hindi, behind which a blank stands.
const DANDA: char = '।';

/// Citations behind a sentence, each in a bracket of its own, and bytes of one.
const CITATIONS_MAX: usize = 16;
const CITATION_BYTES_MAX: usize = 200;
/// Digits of the time in an execution's id.
const TIME_DIGITS: usize = 13;

/// Has a bracket an execution's id?
fn is_citation(bracket: &str) -> bool {
    bracket.split(|c: char| !c.is_ascii_digit()).any(|digits| digits.len() == TIME_DIGITS)
}

/// Bytes with which a mark that may end a passage begins.
const MAY_END: [bool; 256] = {
    let mut marks = [false; 256];
    // The last three begin `।`, `。`, `！` and `？`, and other characters.
    let own = [b'.', b'!', b'?', b'\n', 0xe0, 0xe3, 0xef];
    let mut at = 0;
    while at < own.len() {
        marks[own[at] as usize] = true;
        at += 1;
    }
    marks
};

/// Position of the next mark that may end a passage.
fn mark(text: &str, from: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = from;
    loop {
        at += bytes.get(at..)?.iter().position(|byte| MAY_END[usize::from(*byte)])?;
        if bytes[at].is_ascii() || text.get(at..).is_some_and(|rest| rest.starts_with([DANDA, '。', '！', '？'])) {
            return Some(at);
        }
        at += 1;
    }
}

enum SentenceEnd {
    Ends(usize),
    GoesOn,
    Unknown,
}

/// Is this the beginning of an item of a list, a row of a table, or a heading?
fn is_line(text: &str) -> bool {
    let bare = text.trim_start_matches([' ', '\t', '>']);
    let digits = bare.bytes().take_while(u8::is_ascii_digit).count();
    let numbered = (1..=3).contains(&digits) && bare.get(digits..).is_some_and(|rest| rest.starts_with(". ") || rest.starts_with(") "));
    numbered
        || ["- ", "* ", "• ", "+ ", "– ", "|", "# ", "## ", "### ", "#### ", "##### ", "###### "].iter().any(|mark| bare.starts_with(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<(String, Kind)> {
        let mut passages = PassageSplitter::default();
        let mut found = Vec::new();
        for c in text.chars() {
            passages.push(c.encode_utf8(&mut [0; 4]));
            while let Some(passage) = passages.take(TextInput::Partial) {
                found.push((passage.text, passage.kind));
            }
        }
        while let Some(passage) = passages.take(TextInput::Complete) {
            found.push((passage.text, passage.kind));
        }
        let mut whole = PassageSplitter::default();
        whole.push(text);
        let all: Vec<_> = std::iter::from_fn(|| whole.take(TextInput::Complete)).map(|passage| (passage.text, passage.kind)).collect();
        assert_eq!(found, all);
        assert_eq!(all.iter().map(|(text, _)| text.as_str()).collect::<String>(), text);
        all
    }

    #[test]
    fn passages() {
        use Kind::{Blank, Code, Heading, Line, Sentence};
        for (text, expected) in [
            ("One. Two! Three", vec![("One.", Sentence), (" Two!", Sentence), (" Three", Sentence)]),
            ("बस 4:10 की है। (id) रुकूँ? ठीक।", vec![("बस 4:10 की है। (id)", Sentence), (" रुकूँ?", Sentence), (" ठीक।", Sentence)]),
            (
                "It is 3.5 at e.g. noon. (execution_id: a_1) Next.",
                vec![("It is 3.5 at e.g. noon. (execution_id: a_1)", Sentence), (" Next.", Sentence)],
            ),
            ("Am 3. Mai. Dann.", vec![("Am 3. Mai.", Sentence), (" Dann.", Sentence)]),
            ("# H\n\n- a. b\n- c\n", vec![("# H\n", Heading), ("\n", Blank), ("- a. b\n", Line), ("- c\n", Line)]),
            ("```json\n{}\n```\nso", vec![("```json\n", Code), ("{}\n", Code), ("```\n", Code), ("so", Sentence)]),
            ("```\na: 1\n```\n", vec![("```\n", Code), ("a: 1\n", Line), ("```\n", Code)]),
            ("| a | b. c |\n1. x. y", vec![("| a | b. c |\n", Line), ("1. x. y", Line)]),
        ] {
            let expected: Vec<(String, Kind)> = expected.into_iter().map(|(text, kind)| (text.to_owned(), kind)).collect();
            assert_eq!(split(text), expected, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text(text in "[a-z0-9.!? \n()*`#|-]{0,60}") {
            split(&text);
        }
    }
}
