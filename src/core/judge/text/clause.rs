//! The clause that introduces a citation and is removed with it. Pure.
//!
//! `…, with an execution ID of X.` loses all from the comma on, `Execution ID: X` on a line of its own the whole line. If no clause can be
//! removed so that a whole sentence is left, the citation stays.

use std::{ops::Range, sync::OnceLock};

use super::{around, item::Labelling, tail::TextWindow};
use crate::claims::{language::fold::lower, text_input::TextInput};

/// Words and marks before a citation that are looked at.
const TOKENS_MAX: usize = 20;
/// Bytes of these words and marks.
const BYTES_MAX: usize = 200;
/// Blanks that are removed with a mark.
const BLANKS_MAX: usize = 16;
/// Bytes of one word.
const WORD_BYTES_MAX: usize = 24;
/// Marks of emphasis that a removed line or sentence may leave open.
const MARKS_MAX: usize = 4;

/// Role of a word in a clause that introduces an id.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum WordRole {
    /// Begins a phrase that can be removed from the middle of a sentence: `with`.
    Preposition,
    /// Begins a clause that can be removed from the end of a sentence: `see`, `whose`, `and`.
    Conjunction,
    /// Belongs to the clause: `the`, `execution`, `is`.
    Part,
}

const PREPOSITIONS: [&str; 60] = [
    "with",
    "under",
    "via",
    "by",
    "using",
    "per",
    "carrying",
    "bearing",
    "having",
    "through",
    "in",
    "for",
    "from",
    "during",
    "mit",
    "unter",
    "laut",
    "gemäß",
    "mittels",
    "bei",
    "avec",
    "sous",
    "par",
    "selon",
    "pour",
    "con",
    "bajo",
    "según",
    "mediante",
    "para",
    "com",
    "sob",
    "conforme",
    "por",
    "sotto",
    "tramite",
    "secondo",
    "met",
    "onder",
    "volgens",
    "voor",
    "pod",
    "według",
    "z",
    "ze",
    "ile",
    "med",
    "under",
    "enligt",
    "ifølge",
    "под",
    "с",
    "по",
    "для",
    "згідно",
    "over",
    "through",
    "in",
    "identified",
    "recorded",
];
const CONJUNCTIONS: [&str; 42] = [
    "see", "cf", "whose", "which", "that", "where", "and", "siehe", "vgl", "deren", "dessen", "wobei", "und", "voir", "dont", "et", "ver",
    "véase", "cuyo", "cuya", "y", "veja", "cujo", "cuja", "e", "vedi", "cui", "zie", "waarvan", "en", "zob", "którego", "której", "i",
    "bkz", "se", "og", "och", "см", "и", "чей", "refer",
];
const PARTS: [&str; 136] = [
    "a",
    "an",
    "the",
    "its",
    "their",
    "this",
    "following",
    "of",
    "is",
    "was",
    "are",
    "to",
    "as",
    "has",
    "had",
    "execution",
    "executions",
    "execution_id",
    "execution-id",
    "exec",
    "id",
    "ids",
    "identifier",
    "identifiers",
    "ref",
    "reference",
    "source",
    "sources",
    "run",
    "citation",
    "evidence",
    "proof",
    "unique",
    "corresponding",
    "tool",
    "tool's",
    "call",
    "result",
    "result's",
    "number",
    "no",
    "nr",
    "here",
    "identified",
    "recorded",
    "logged",
    "tracked",
    "stamped",
    "der",
    "die",
    "das",
    "dem",
    "den",
    "des",
    "ein",
    "eine",
    "einem",
    "einer",
    "lautet",
    "ist",
    "ausführung",
    "ausführungs-id",
    "ausführungs",
    "ausführungskennung",
    "kennung",
    "quelle",
    "beleg",
    "nachweis",
    "referenz",
    "le",
    "la",
    "les",
    "l",
    "d",
    "du",
    "de",
    "un",
    "une",
    "son",
    "sa",
    "est",
    "exécution",
    "identifiant",
    "référence",
    "el",
    "los",
    "una",
    "su",
    "del",
    "es",
    "ejecución",
    "identificador",
    "fuente",
    "referencia",
    "o",
    "um",
    "uma",
    "seu",
    "sua",
    "do",
    "da",
    "é",
    "execução",
    "fonte",
    "referência",
    "il",
    "lo",
    "suo",
    "di",
    "dell",
    "è",
    "esecuzione",
    "identificativo",
    "riferimento",
    "het",
    "een",
    "zijn",
    "van",
    "uitvoering",
    "uitvoerings-id",
    "bron",
    "referentie",
    "wykonania",
    "identyfikator",
    "źródło",
    "jest",
    "kaynak",
    "kimliği",
    "yürütme",
    "выполнения",
    "идентификатор",
    "источник",
    "körnings-id",
    "källa",
    "kilde",
    "number",
];

/// The words of such clauses, sorted, each with its role: of two roles the first one listed above.
fn roles() -> &'static [(&'static str, WordRole)] {
    static ROLES: OnceLock<Vec<(&str, WordRole)>> = OnceLock::new();
    ROLES.get_or_init(|| {
        let of = |words: &'static [&'static str], role: WordRole| words.iter().map(move |word| (*word, role));
        let all =
            of(&PREPOSITIONS, WordRole::Preposition).chain(of(&CONJUNCTIONS, WordRole::Conjunction)).chain(of(&PARTS, WordRole::Part));
        let mut roles: Vec<(&str, WordRole)> = all.collect();
        // Stable: what is listed first stays first, and is kept.
        roles.sort_by_key(|(word, _)| *word);
        roles.dedup_by_key(|(word, _)| *word);
        roles
    })
}

/// `word`: in lower case.
fn role(word: &str) -> Option<WordRole> {
    let at = roles().binary_search_by_key(&word, |(own, _)| own).ok()?;
    roles().get(at).map(|(_, role)| *role)
}

/// True if a word of such a clause begins with `start`, in lower case.
fn may_begin(start: &str) -> bool {
    let from = roles().partition_point(|(word, _)| *word < start);
    roles().get(from).is_some_and(|(word, _)| word.starts_with(start))
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum ClauseToken {
    Word(WordRole),
    /// An opening bracket.
    Open(char),
    /// A comma, a dash, a colon.
    Mark(char),
}

/// Text before the tokens.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Edge {
    /// The beginning of the line, perhaps with the mark of a list item or a block quote.
    Line,
    /// The end of a sentence.
    Sentence,
    /// Something else.
    Other,
}

/// Tokens before a place, the nearest first, each with its start.
struct BeforeCitation {
    tokens: Vec<(usize, ClauseToken)>,
    edge: Edge,
    /// Start of the outermost token, or of the list item's mark.
    start: usize,
    /// The number that begins the line: of a list item, or what the line says.
    number: Option<u32>,
}

impl BeforeCitation {
    fn says_words(&self) -> bool {
        self.tokens.iter().any(|(_, token)| matches!(token, ClauseToken::Word(_)))
    }
}

fn inside(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '\'' | '’')
}

/// Reads backwards from `from`, never past `floor`. `input`: whether the word that ends there may go on.
fn before(tail: &TextWindow, from: usize, floor: usize, input: TextInput) -> BeforeCitation {
    let text = tail.slice(tail.boundary(from.saturating_sub(BYTES_MAX).max(floor))..from);
    let base = from - text.len();
    let mut read = BeforeCitation { tokens: Vec::new(), edge: Edge::Other, start: from, number: None };
    let mut at = text.len();
    loop {
        let rest = text.get(..at).unwrap_or_default();
        let trimmed = rest.trim_end_matches([' ', '\t', '\u{a0}', '*', '_', '`', '"', '“', '„', '«']);
        let Some(c) = trimmed.chars().next_back() else {
            if base == 0 {
                (read.edge, read.start) = (Edge::Line, 0);
            }
            return read;
        };
        if c == '\n' {
            (read.edge, read.start) = (Edge::Line, base + trimmed.len());
            return read;
        }
        if read.tokens.len() >= TOKENS_MAX {
            return read;
        }
        let end = trimmed.len();
        if inside(c) || c == '-' && trimmed.get(..end - 1).is_some_and(|rest| rest.ends_with(inside)) {
            let word = trimmed.trim_end_matches(|c| inside(c) || c == '-').len();
            let (start, said) = (word, trimmed.get(word..).unwrap_or_default());
            let said = said.trim_end_matches(['\'', '’']);
            // `l'exécution`, `d’exécution`.
            let (start, said) = match said.rfind(['\'', '’']).filter(|at| *at <= 2) {
                Some(at) => (start + at, said.get(at..).unwrap_or_default().trim_start_matches(['\'', '’'])),
                None => (start, said),
            };
            let (length, said) = (said.len(), &*lower(said));
            let known = role(said);
            let open =
                input == TextInput::Partial && read.tokens.is_empty() && end == text.len() && length <= WORD_BYTES_MAX && may_begin(said);
            match known {
                Some(role) => read.tokens.push((base + start, ClauseToken::Word(role))),
                None if open => read.tokens.push((base + start, ClauseToken::Word(WordRole::Part))),
                None => {
                    // The number of a list item begins its line.
                    return read;
                }
            }
            (at, read.start) = (start, base + start);
            continue;
        }
        let place = end - c.len_utf8();
        let line = trimmed.get(..place).unwrap_or_default();
        let fresh = line.trim_end_matches([' ', '\t', '>']).ends_with('\n') || line.trim_matches([' ', '\t', '>']).is_empty() && base == 0;
        match c {
            '-' | '+' | '•' | '>' | '#' if fresh => {
                read.start = base + place;
                read.edge = Edge::Line;
                return read;
            }
            '(' | '[' | '（' | '［' | '【' => {
                read.tokens.push((base + place, ClauseToken::Open(c)));
                read.start = base + place;
                return read;
            }
            ',' | ';' | ':' | '–' | '—' | '-' | '|' | '·' | '：' | '，' | '\'' | '’' => {
                read.tokens.push((base + place, ClauseToken::Mark(c)))
            }
            '.' | '!' | '?' | '。' | '…' => {
                // `1. ` begins an item.
                let number = line.trim_end_matches(|c: char| c.is_ascii_digit());
                if number.len() < line.len()
                    && (number.trim_end_matches([' ', '\t', '>']).ends_with('\n') || number.trim().is_empty() && base == 0)
                {
                    read.start = base + number.len();
                    read.edge = Edge::Line;
                    read.number = line.get(number.len()..).map(|digits| digits.parse().unwrap_or(u32::MAX));
                } else {
                    (read.edge, read.start) = (Edge::Sentence, base + end);
                }
                return read;
            }
            _ => return read,
        }
        (at, read.start) = (place, base + place);
    }
}

/// Earliest start of the text that may be removed with a citation at `from`.
pub(super) fn beginning(tail: &TextWindow, from: usize, floor: usize) -> usize {
    let start = around::beginning(tail, from, floor);
    let read = before(tail, from, floor, TextInput::Partial);
    // In brackets it may be all that its line says, too.
    let marks = around::marks_beginning(tail, from, floor);
    let around = Some(before(tail, marks, floor, TextInput::Complete)).filter(|read| !read.says_words());
    // `[source: (X)]`: the outer bracket holds no more than what introduces the id.
    let is_open = |read: &BeforeCitation| matches!(read.tokens.last(), Some((_, ClauseToken::Open(_))));
    let outer = Some(&read).filter(|read| is_open(read)).map(|read| before(tail, read.start, floor, TextInput::Complete));
    let outer = outer.filter(is_open).map_or(read.start, |outer| outer.start);
    let earliest = around.map_or(read.start, |around| around.start.min(read.start)).min(outer);
    if earliest < start { around::beginning(tail, earliest, floor) } else { start }
}

/// Text after a citation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum AfterCitation {
    End,
    Newline,
    /// The end of a sentence, and its place.
    Stop(usize),
    /// A comma or semicolon, and the place after it.
    Comma(usize),
    Close(usize),
    Bar,
    Other,
}

/// Classifies the text after a citation; `None`: it isn't known yet.
fn next(tail: &TextWindow, from: usize, input: TextInput) -> Option<AfterCitation> {
    let rest = tail.from(from);
    let rest = rest.get(..rest.floor_char_boundary(BYTES_MAX)).unwrap_or(rest);
    let after = rest.trim_start_matches([' ', '\t', '\u{a0}', '*', '_', '`', '"', '”', '»']);
    let Some(c) = after.chars().next() else {
        return if input.is_complete() || rest.len() >= BYTES_MAX { Some(AfterCitation::End) } else { None };
    };
    let end = from + (rest.len() - after.len()) + c.len_utf8();
    Some(match c {
        '\n' | '\r' => AfterCitation::Newline,
        '.' | '!' | '?' | '。' => match after.chars().nth(1) {
            None if input.is_partial() => return None,
            Some(next) if !next.is_whitespace() && c != '。' && !matches!(next, '*' | '_' | ')' | '"') => AfterCitation::Other,
            Some(_) | None => AfterCitation::Stop(end),
        },
        ',' | ';' | '，' => AfterCitation::Comma(end),
        ')' | ']' | '）' | '］' | '】' => AfterCitation::Close(end),
        '|' => AfterCitation::Bar,
        _ => AfterCitation::Other,
    })
}

/// Span to remove for the citation in `span`, which includes its enclosing marks and the blanks before. Labelled: a label with a colon or
/// the like belongs to it. `item`: number of the list item that was removed last, 0 for none. `Some(None)`: it stays. `None`: the following
/// text isn't known yet.
pub(super) fn removal(
    tail: &TextWindow,
    span: Range<usize>,
    labelling: Labelling,
    item: &mut u32,
    floor: usize,
    input: TextInput,
) -> Option<Option<Range<usize>>> {
    let whole = tail.slice(span.clone());
    let from = span.start + (whole.len() - whole.trim_start().len());
    let enclosed = whole.trim_start().starts_with(['(', '[', '（', '［', '【', '<', '「']);
    let next = next(tail, span.end, input)?;
    let blanks = |at: usize| around::beginning(tail, at, at).min(back(tail, at, floor));
    let read = before(tail, from, floor, TextInput::Complete);
    let ends = matches!(next, AfterCitation::End | AfterCitation::Newline | AfterCitation::Stop(_));
    let outermost = read.tokens.last().copied();
    // A bracket that holds no more than what introduces the id.
    if let Some((at, ClauseToken::Open(_))) = outermost {
        return Some(match next {
            AfterCitation::Close(end) => Some(blanks(at)..end),
            AfterCitation::Comma(end) => Some(at + tail.after(at).map_or(1, char::len_utf8)..past_blanks(tail, end, input)?),
            AfterCitation::End | AfterCitation::Newline | AfterCitation::Stop(_) | AfterCitation::Bar | AfterCitation::Other => None,
        });
    }
    if !read.says_words() {
        // `1. (X)` and `2. (X)` are a list of citations; `975. (X)` says a number.
        let says_number = read.number.is_some_and(|number| {
            let listed = read.start > 0 && number == item.saturating_add(1) || labelling == Labelling::Labelled && !enclosed;
            !listed
        });
        return Some(match outermost {
            None if says_number => Some(span),
            None if read.edge != Edge::Other && next == AfterCitation::Other && labelling == Labelling::Bare && !enclosed => None,
            None if read.edge == Edge::Line && ends => {
                let whole = with_closers(tail, line(tail, &read, span, next, floor), input)?;
                *item = read.number.unwrap_or(*item);
                Some(whole)
            }
            None if read.edge == Edge::Sentence && labelling == Labelling::Labelled && ends => {
                Some(with_closers(tail, sentence(span, next), input)?)
            }
            None => Some(span),
            Some((_, ClauseToken::Mark('|'))) => None,
            Some((_, ClauseToken::Mark(':' | '：' | '\'' | '’'))) => enclosed.then_some(span),
            // `It is up, X.`
            Some((at, _)) if ends || matches!(next, AfterCitation::Close(_)) => Some(blanks(at)..span.end),
            Some(_) => Some(span),
        });
    }
    if enclosed {
        return Some(Some(span));
    }
    // All of a sentence or line.
    if read.edge != Edge::Other {
        return Some(match (read.edge, ends) {
            (Edge::Line, true) => Some(with_closers(tail, line(tail, &read, span, next, floor), input)?),
            (_, true) => Some(with_closers(tail, sentence(blanks(read.start)..span.end, next), input)?),
            (_, false) => None,
        });
    }
    let lead = read.tokens.iter().enumerate().rev().find_map(|(number, (at, token))| match token {
        ClauseToken::Word(role) if *role != WordRole::Part => Some((number, *at, *role)),
        _ => None,
    });
    let Some((number, at, role)) = lead else {
        return Some(match outermost {
            // `It is up, execution X.`, `It is up – execution X.`
            Some((at, ClauseToken::Mark(',' | ';' | '–' | '—' | '-' | '·' | '，'))) if ends || matches!(next, AfterCitation::Close(_)) => {
                Some(blanks(at)..span.end)
            }
            _ => None,
        });
    };
    if !(ends
        || matches!(next, AfterCitation::Comma(_) | AfterCitation::Close(_))
        || role == WordRole::Preposition && next == AfterCitation::Other)
    {
        return Some(None);
    }
    Some(match read.tokens.get(number + 1) {
        Some((mark, ClauseToken::Mark(',' | ';' | '–' | '—' | '-' | '，'))) => match next {
            AfterCitation::Comma(end) => Some(blanks(*mark)..end),
            _ => Some(blanks(*mark)..span.end),
        },
        Some((_, ClauseToken::Mark(_))) => None,
        Some(_) | None => Some(blanks(at)..span.end),
    })
}

/// Start of the blanks before `at`.
fn back(tail: &TextWindow, at: usize, floor: usize) -> usize {
    let text = tail.slice(tail.boundary(at.saturating_sub(BLANKS_MAX).max(floor))..at);
    at - (text.len() - text.trim_end().len())
}

/// End of the blanks after `at`; `None`: more may follow.
fn past_blanks(tail: &TextWindow, at: usize, input: TextInput) -> Option<usize> {
    let rest = tail.from(at);
    let blanks = rest.bytes().take(BLANKS_MAX).take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    (input.is_complete() || blanks < rest.len() || blanks == BLANKS_MAX).then_some(at + blanks)
}

/// `span` with the marks behind it that close what it opens: `*Source: X.*`. `None`: the following text isn't known yet.
fn with_closers(tail: &TextWindow, span: Range<usize>, input: TextInput) -> Option<Range<usize>> {
    let mut open: Vec<&str> = Vec::new();
    let text = tail.slice(span.clone());
    let mut at = 0;
    while let Some(offset) = text.get(at..).and_then(|rest| rest.find(['*', '_', '`'])) {
        at += offset;
        let (before, rest) = text.split_at(at);
        let Some(mark) = rest.chars().next() else { break };
        let run = rest.len() - rest.trim_start_matches(mark).len();
        let behind = rest.get(run..).unwrap_or_default();
        // `execution_id`
        let within = mark == '_' && before.ends_with(char::is_alphanumeric) && behind.starts_with(char::is_alphanumeric);
        let run = rest.get(..run).unwrap_or_default();
        match open.last() {
            _ if within => {}
            // `***a** b*`
            Some(last) if last.starts_with(run) => {
                let rest = last.get(run.len()..).unwrap_or_default();
                let _closed = open.pop();
                open.extend(Some(rest).filter(|rest| !rest.is_empty()));
            }
            Some(_) | None if open.len() < MARKS_MAX => open.push(run),
            Some(_) | None => break,
        }
        at += run.len();
    }
    let mut end = span.end;
    while let Some(run) = open.pop() {
        let rest = tail.from(end);
        if input.is_partial() && run.starts_with(rest.get(..rest.len().min(run.len())).unwrap_or_default()) && rest.len() < run.len() {
            return None;
        }
        if !rest.starts_with(run) {
            break;
        }
        end += run.len();
    }
    Some(span.start..end)
}

/// Span of a line with only the citation, from its list item's mark on, with the blanks before.
fn line(tail: &TextWindow, read: &BeforeCitation, span: Range<usize>, next: AfterCitation, floor: usize) -> Range<usize> {
    let end = if let AfterCitation::Stop(end) = next { end } else { span.end };
    back(tail, read.start.min(span.start.max(read.start)), floor).min(span.start)..end
}

fn sentence(span: Range<usize>, next: AfterCitation) -> Range<usize> {
    let end = if let AfterCitation::Stop(end) = next { end } else { span.end };
    span.start..end
}
