//! Labels: `execution_id: X` in all its spellings, read from the end of the label's name. Pure.
//!
//! Reading starts over while the text is too short to decide; [`READ_BYTES_MAX`] bounds the cost. Without a colon, equals sign, arrow or
//! element between name and value (`execution id is X`, a table's cell), the value must look like an id: such words also explain what an id
//! is.

use std::{ops::Range, sync::OnceLock};

use aho_corasick::{AhoCorasick, AhoCorasickKind, Input, MatchKind};

use super::beginnings::Beginnings;
use crate::{
    claims::text_input::TextInput,
    judge::text::{
        around,
        fold::{self, VisibleSymbol},
        item::ScannedLabel,
        shape,
        tail::TextWindow,
    },
};

/// Bytes that are read after a label's name.
const READ_BYTES_MAX: usize = 2 * fold::TAG_BYTES_MAX;
/// Symbols between name and value.
const BETWEEN_MAX: usize = 24;
/// Bytes of most values.
const VALUE_BYTES: usize = 64;
/// Bytes of the longest copula.
const COPULA_BYTES: usize = 8;
/// Marks stored on either side.
const MARKS_MAX: usize = 8;
/// Words between a label and its value.
const COPULAS: [&str; 17] =
    ["is", "was", "of", "equals", "to", "are", "ist", "war", "lautet", "est", "es", "fue", "foi", "jest", "are", "als", "dengan"];
/// Names of standards and algorithms; a number after one of them is no id.
const STANDARDS: [&str; 14] = ["sha", "md", "uuid", "uuidv", "utf", "iso", "rfc", "base", "int", "uint", "ascii", "version", "v", "ed"];
/// Labels in other languages, in any case of ASCII letters.
const PHRASES: [&str; 66] = [
    "ausführungs-id",
    "ausführungs‑id",
    "ausführungsid",
    "ausführungs id",
    "ausführungskennung",
    "ausfuehrungs-id",
    "id der ausführung",
    "id d'exécution",
    "id d’exécution",
    "id d'execution",
    "identifiant d'exécution",
    "identifiant d’exécution",
    "id de l'exécution",
    "id de l’exécution",
    "identifiant de l'exécution",
    "identifiant de l’exécution",
    "id de ejecución",
    "id de ejecucion",
    "id de la ejecución",
    "identificador de ejecución",
    "identificador de la ejecución",
    "id di esecuzione",
    "id esecuzione",
    "id dell'esecuzione",
    "id dell’esecuzione",
    "identificativo di esecuzione",
    "identificativo dell'esecuzione",
    "id de execução",
    "id da execução",
    "id de execucao",
    "identificador de execução",
    "identificador da execução",
    "uitvoerings-id",
    "uitvoeringsid",
    "uitvoerings id",
    "id van de uitvoering",
    "identyfikator wykonania",
    "id wykonania",
    "yürütme kimliği",
    "yürütme id",
    "çalıştırma kimliği",
    "çalıştırma id",
    "идентификатор выполнения",
    "Идентификатор выполнения",
    "id выполнения",
    "идентификатор запуска",
    "id запуска",
    "ідентифікатор виконання",
    "id виконання",
    "执行id",
    "执行 id",
    "执行编号",
    "执行标识",
    "執行id",
    "執行 id",
    "実行id",
    "実行 id",
    "실행 id",
    "실행id",
    "निष्पादन आईडी",
    "निष्पादन id",
    "körnings-id",
    "exekverings-id",
    "udførelses-id",
    "معرف التنفيذ",
    "mã thực thi",
];
/// Bytes of the longest of these labels.
const PHRASE_BYTES_MAX: usize = {
    let (mut longest, mut at) = (0, 0);
    while at < PHRASES.len() {
        longest = if PHRASES[at].len() > longest { PHRASES[at].len() } else { longest };
        at += 1;
    }
    longest
};
/// Words in the place of a value that have digits, but are types or ways of making one.
const TYPES: [&str; 22] = [
    "u8", "u16", "u32", "u64", "u128", "i8", "i16", "i32", "i64", "i128", "int32", "int64", "uint32", "uint64", "uuid1", "uuid4", "uuid7",
    "uuidv4", "uuidv7", "sha256", "base64", "md5",
];

/// Part of a label that a word is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::judge::text) enum LabelWord {
    /// The whole label: `execution_id`.
    Whole,
    /// The first half, `execution`, which `id` must follow.
    Half,
}

/// Result of reading after a label's name.
#[derive(Debug)]
pub(in crate::judge::text) enum LabelParse {
    /// More text is needed.
    More,
    /// No label, or a label without a value.
    Nothing,
    /// A label; places are relative to the start of reading.
    Found(ScannedLabel),
}

/// Classifies `word` as a label or the first half of one.
pub(in crate::judge::text) fn name(word: &[u8]) -> Option<LabelWord> {
    let word = trim(word);
    let whole = [
        "execution_id",
        "execution-id",
        "executionid",
        "execution_ids",
        "execution-ids",
        "executionids",
        "data-execution-id",
        "tool_execution_id",
        "toolexecutionid",
        "x-execution-id",
    ];
    if whole.iter().any(|name| word.eq_ignore_ascii_case(name.as_bytes())) {
        return Some(LabelWord::Whole);
    }
    word.eq_ignore_ascii_case(b"execution").then_some(LabelWord::Half)
}

fn trim(word: &[u8]) -> &[u8] {
    let inside = |b: &u8| !matches!(b, b'_' | b'-');
    let start = word.iter().position(inside).unwrap_or(word.len());
    let end = word.iter().rposition(inside).map_or(start, |at| at + 1);
    word.get(start..end).unwrap_or_default()
}

/// True if `value` asserts an id: it has a digit, and isn't a type.
pub(in crate::judge::text) fn asserts(value: &str) -> bool {
    value.bytes().any(|b| b.is_ascii_digit()) && !TYPES.iter().any(|name| value.eq_ignore_ascii_case(name))
}

struct LabelReader<'t> {
    text: &'t str,
    at: usize,
    input: TextInput,
}

impl<'t> LabelReader<'t> {
    /// Consumes the ASCII word characters that come next.
    fn plain(&mut self) -> &'t str {
        let rest = self.text.get(self.at..self.text.floor_char_boundary(READ_BYTES_MAX)).unwrap_or_default();
        let length = rest.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')).count();
        self.at += length;
        rest.get(..length).unwrap_or_default()
    }

    /// The next symbol, and its start. `Err`: no more text, now or within the bound.
    fn next(&mut self) -> Result<(VisibleSymbol, usize), LabelParse> {
        if self.at >= READ_BYTES_MAX {
            return Err(LabelParse::Nothing);
        }
        let rest = self.text.get(self.at..).unwrap_or_default();
        match fold::next(rest, self.input) {
            Some((symbol, length)) => {
                let start = self.at;
                self.at += length;
                Ok((symbol, start))
            }
            None if self.input.is_complete() => Err(LabelParse::Nothing),
            None => Err(LabelParse::More),
        }
    }
}

/// True if `value` looks like an id, not like a word, a number or a unit.
fn is_likely(value: &str) -> bool {
    let digits = value.bytes().filter(u8::is_ascii_digit).count();
    let letters = value.bytes().filter(u8::is_ascii_alphabetic).count();
    let word = value.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b':' | b'#' | b'/'));
    let head = value.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    let standard = STANDARDS.iter().any(|name| name.eq_ignore_ascii_case(head)) && value.len() <= head.len() + 4;
    // `13-digit`, `64bit`, `2nd`.
    let counts = value.starts_with(|c: char| c.is_ascii_digit())
        && value.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start_matches('-').bytes().all(|b| b.is_ascii_alphabetic())
        && letters > 0
        && digits <= 3;
    word && !standard && !counts && (digits >= 5 && letters == 0 && digits == value.len() || digits > 0 && letters > 0 && value.len() >= 4)
}

/// Relation of a value to its label.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum LabelLink {
    /// Bound by a mark, such as a colon.
    Mark,
    /// Bound by words or by position.
    Words,
}

/// Position of a label's name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::judge::text) enum NamePosition {
    /// In running text.
    Text,
    /// In an element or before an arrow: `<execution_id>`, `execution_id->`.
    Element,
}

/// Reads the text after a label's name.
pub(in crate::judge::text) fn read(text: &str, name: LabelWord, position: NamePosition, input: TextInput) -> LabelParse {
    let mut reader = LabelReader { text, at: 0, input };
    match read_label(&mut reader, name, position) {
        Ok((label, _)) if label.text.is_empty() => LabelParse::Nothing,
        Ok((label, LabelLink::Words)) if !is_likely(&label.text) => LabelParse::Nothing,
        Ok((label, _)) => LabelParse::Found(label),
        Err(reading) => reading,
    }
}

fn read_label(reader: &mut LabelReader, name: LabelWord, position: NamePosition) -> Result<(ScannedLabel, LabelLink), LabelParse> {
    if name == LabelWord::Half {
        second_half(reader)?;
    }
    let Separated { closers, openers: mut opened, bond } = separator(reader, position)?;
    let (openers, start) = opening(reader)?;
    opened.push_str(&openers);
    Ok((value(reader, start, opened, closers)?, bond))
}

fn second_half(reader: &mut LabelReader) -> Result<(), LabelParse> {
    let (mut between, mut word) = (0, String::new());
    loop {
        let before = reader.at;
        match reader.next()?.0 {
            VisibleSymbol::Blank(_) if word.is_empty() && between < 12 => between += 1,
            // `"execution": {"id": …`, `execution.id`, `execution/id`.
            VisibleSymbol::Other('"' | '\'' | ':' | '{' | '.' | '/' | '[' | '\\') if word.is_empty() && between < 12 => between += 1,
            VisibleSymbol::Markup(_) | VisibleSymbol::Invisible if word.is_empty() => {}
            VisibleSymbol::Word(letters) if between > 0 && word.len() < 12 => {
                word.extend(letters.as_bytes().iter().copied().map(char::from))
            }
            _ if ["id", "ids", "identifier"].iter().any(|name| word.trim_end_matches('_').eq_ignore_ascii_case(name)) => {
                reader.at = before;
                return Ok(());
            }
            _ => return Err(LabelParse::Nothing),
        }
    }
}

/// Separator between a label's name and its value.
struct Separated {
    /// Marks closed directly after the name.
    closers: String,
    /// Marks opened before the value.
    openers: String,
    bond: LabelLink,
}

/// Reads the separator that binds the value to the label.
fn separator(reader: &mut LabelReader, position: NamePosition) -> Result<Separated, LabelParse> {
    let (mut closers, mut openers) = (String::new(), String::new());
    let (mut blanks, mut dashes) = (0, 0);
    let mut bond = None;
    for _ in 0..BETWEEN_MAX {
        let before = reader.at;
        let mark = match reader.next()?.0 {
            VisibleSymbol::Other(':' | '=' | '→' | '⇒' | '➔' | '➜' | '➡' | '⟶' | '⟹' | '⇨' | '›') => {
                // What stands before the colon was closed, not opened.
                closers.push_str(&std::mem::take(&mut openers));
                bond = Some(LabelLink::Mark);
                break;
            }
            // `->`, `<execution_id>`, and the end of a name's own element.
            VisibleSymbol::Other('>') => {
                bond = Some(if position == NamePosition::Element || dashes > 0 { LabelLink::Mark } else { LabelLink::Words });
                break;
            }
            VisibleSymbol::Other('|' | '–' | '—' | '―' | '#' | '│' | '┃') => {
                bond = Some(LabelLink::Words);
                break;
            }
            VisibleSymbol::Word(letters) if letters.as_bytes() == b"-" && dashes < 3 => {
                dashes += 1;
                continue;
            }
            VisibleSymbol::Other('<') => {
                reader.at = before;
                cell(reader)?;
                bond = Some(LabelLink::Words);
                break;
            }
            VisibleSymbol::Other('\\') | VisibleSymbol::Tag => continue,
            VisibleSymbol::Other(c @ ('"' | '\'' | ')' | ']' | '”' | '’' | '»' | '」')) => c,
            VisibleSymbol::Markup(c) if c != '<' => c,
            VisibleSymbol::Blank(' ' | '\t' | '\u{a0}' | '\u{3000}') => {
                blanks += 1;
                continue;
            }
            VisibleSymbol::Markup(_) | VisibleSymbol::Invisible => continue,
            // The value stands beside the label, or words do.
            VisibleSymbol::Word(_) | VisibleSymbol::Other('(' | '“' | '‘' | '«' | '「') if blanks > 0 => {
                reader.at = before;
                copula(reader)?;
                bond = Some(LabelLink::Words);
                break;
            }
            VisibleSymbol::Word(_) | VisibleSymbol::Blank(_) | VisibleSymbol::Other(_) => return Err(LabelParse::Nothing),
        };
        let marks = if blanks > 0 { &mut openers } else { &mut closers };
        if marks.chars().count() < MARKS_MAX {
            marks.push(mark);
        }
    }
    bond.map(|bond| Separated { closers, openers, bond }).ok_or(LabelParse::Nothing)
}

/// Reads `</td><td>`: the end of one cell, and the beginning of the next.
fn cell(reader: &mut LabelReader) -> Result<(), LabelParse> {
    let rest = reader.text.get(reader.at..).unwrap_or_default();
    let window = rest.get(..rest.floor_char_boundary(BETWEEN_MAX * 16)).unwrap_or(rest);
    let inside = |tag: &str| {
        let name = tag.trim_start_matches(['<', '/']).split([' ', '>', '\n', '\t']).next().unwrap_or_default();
        ["td", "th", "dt", "dd", "tr"].iter().any(|own| own.eq_ignore_ascii_case(name))
    };
    let mut at = 0;
    while let Some(tag) = window.get(at..).filter(|rest| rest.starts_with('<')) {
        let Some(end) = tag.find('>') else {
            return Err(if reader.input.is_complete() || window.len() < rest.len() { LabelParse::Nothing } else { LabelParse::More });
        };
        if !inside(tag) {
            return if at > 0 { found_cell(reader, at) } else { Err(LabelParse::Nothing) };
        }
        at += end + 1;
        at += window.get(at..).map_or(0, |rest| rest.len() - rest.trim_start().len());
    }
    if at == window.len() && reader.input.is_partial() && window.len() == rest.len() {
        return Err(LabelParse::More);
    }
    found_cell(reader, at)
}

fn found_cell(reader: &mut LabelReader, length: usize) -> Result<(), LabelParse> {
    reader.at += length;
    if length > 0 { Ok(()) } else { Err(LabelParse::Nothing) }
}

/// Skips a word such as `is`.
fn copula(reader: &mut LabelReader) -> Result<(), LabelParse> {
    for _ in 0..2 {
        let before = reader.at;
        let mut word = String::new();
        loop {
            let at = reader.at;
            match reader.next()?.0 {
                VisibleSymbol::Word(letters) if word.len() < COPULA_BYTES => {
                    word.extend(letters.as_bytes().iter().copied().map(char::from))
                }
                VisibleSymbol::Blank(' ' | '\t' | '\u{a0}') if !word.is_empty() => break,
                _ => {
                    reader.at = at;
                    word.clear();
                    break;
                }
            }
        }
        if !COPULAS.iter().any(|copula| copula.eq_ignore_ascii_case(&word)) {
            reader.at = before;
            break;
        }
    }
    Ok(())
}

/// Reads up to the value's first character; returns the marks opened before it, and its place.
fn opening(reader: &mut LabelReader) -> Result<(String, usize), LabelParse> {
    let mut openers = String::new();
    let mut lines = 0;
    for _ in 0..BETWEEN_MAX {
        let (symbol, start) = reader.next()?;
        let mark = match symbol {
            VisibleSymbol::Blank('\n') if lines == 2 => return Err(LabelParse::Nothing),
            VisibleSymbol::Blank(c) => {
                lines += usize::from(c == '\n');
                continue;
            }
            VisibleSymbol::Invisible | VisibleSymbol::Other(':' | '=' | '>' | '\\' | '#' | '→') => continue,
            // `->` and `=>`, but not a number below zero.
            VisibleSymbol::Word(letters)
                if letters.as_bytes() == b"-" && reader.text.get(reader.at..).is_some_and(|rest| rest.starts_with('>')) =>
            {
                continue;
            }
            VisibleSymbol::Markup(c) if c != '<' => c,
            VisibleSymbol::Markup(_) => continue,
            VisibleSymbol::Other(c) if around::closer(c).is_some() => c,
            // A placeholder: `<id>`.
            VisibleSymbol::Tag => return Err(LabelParse::Nothing),
            VisibleSymbol::Word(_) | VisibleSymbol::Other(_) => {
                reader.at = start;
                return Ok((openers, start));
            }
        };
        if openers.chars().count() < MARKS_MAX {
            openers.push(mark);
        }
    }
    Err(LabelParse::Nothing)
}

fn value(reader: &mut LabelReader, start: usize, openers: String, closers: String) -> Result<ScannedLabel, LabelParse> {
    let quote = openers.chars().rfind(|c| matches!(c, '"' | '\'' | '`' | '“' | '‘' | '«' | '「')).and_then(around::closer);
    let mut text = String::with_capacity(VALUE_BYTES);
    let (mut end, mut called) = (start, false);
    loop {
        // Letters that stand for themselves, as nearly all do.
        let plain = reader.plain();
        if !plain.is_empty() {
            text.push_str(plain);
            end = reader.at;
        }
        let (symbol, from) = match reader.next() {
            Ok(next) => next,
            Err(LabelParse::More) => return Err(LabelParse::More),
            Err(_) => break,
        };
        match symbol {
            VisibleSymbol::Markup(c) | VisibleSymbol::Other(c) if quote == Some(c) => break,
            VisibleSymbol::Blank('\n') | VisibleSymbol::Markup('`') => break,
            VisibleSymbol::Blank(_) | VisibleSymbol::Other(',' | ';' | ')' | ']' | '}' | '|' | '"' | '\'' | '{' | '<' | '>' | '&')
                if quote.is_none() =>
            {
                break;
            }
            VisibleSymbol::Other('(') if quote.is_none() => {
                called = !shape::is_id(&text);
                break;
            }
            VisibleSymbol::Other(c) if !c.is_ascii() && quote.is_none() => break,
            VisibleSymbol::Tag if reader.text.get(from..).is_some_and(|rest| rest.starts_with("</")) => break,
            VisibleSymbol::Invisible | VisibleSymbol::Markup(_) | VisibleSymbol::Tag => continue,
            VisibleSymbol::Word(letters) => text.extend(letters.as_bytes().iter().copied().map(char::from)),
            VisibleSymbol::Blank(c) | VisibleSymbol::Other(c) => text.push(c),
        }
        end = reader.at;
    }
    let kept = text.trim_end_matches(['.', ':', '!', '?']).len();
    if reader.text.get(..end).is_some_and(|read| read.ends_with(text.get(kept..).unwrap_or_default())) {
        end -= text.len() - kept;
        text.truncate(kept);
    }
    // `execution_id = uuid4()` calls something; it cites nothing.
    if called {
        text.clear();
    }
    Ok(ScannedLabel { value: start..end, text, openers, closers })
}

/// Scanner for labels in other languages, which have several words, or letters that no id has.
#[derive(Debug, Default)]
pub(in crate::judge::text) struct Phrases {
    at: usize,
    /// Place from which the end of the text may be the beginning of a label.
    open: usize,
}

impl Phrases {
    /// Reads up to `end`.
    pub fn advance(&mut self, tail: &TextWindow, end: usize, input: TextInput, mut found: impl FnMut(Range<usize>)) {
        let end = end.max(self.at);
        let Some(automaton) = automaton() else {
            (self.at, self.open) = (end, end);
            return;
        };
        let bytes = tail.bytes(self.open..end);
        let mut done = 0;
        let may_find = may_have_phrase(bytes);
        while may_find && let Some(phrase) = automaton.find(Input::new(bytes).range(done..)) {
            done = phrase.end();
            // `valid de ejecución` is another word.
            if tail.before(self.open + phrase.start()).is_some_and(|before| before.is_ascii_alphanumeric()) {
                continue;
            }
            found(self.open + phrase.start()..self.open + phrase.end());
        }
        let kept = if input.is_complete() { 0 } else { partial(bytes.get(done..).unwrap_or_default()) };
        (self.at, self.open) = (end, end - kept);
    }

    /// Place before which nothing more will be found.
    pub fn hold(&self) -> usize {
        self.open
    }
}

/// False if no phrase stands in a text: all in ASCII have `id` at the beginning of a word, or behind `gs`.
fn may_have_phrase(bytes: &[u8]) -> bool {
    let begins = |at: usize| {
        let before = |back: usize| at.checked_sub(back).and_then(|at| bytes.get(at)).map(u8::to_ascii_lowercase);
        before(1) == Some(b'i')
            && match before(2) {
                Some(b's') => before(3).is_none_or(|byte| byte == b'g'),
                Some(byte) => !byte.is_ascii_alphanumeric(),
                None => true,
            }
    };
    !bytes.is_ascii() || memchr::memchr2_iter(b'd', b'D', bytes).any(begins)
}

/// Number of bytes at the end of `rest` that may begin a phrase.
fn partial(rest: &[u8]) -> usize {
    let end = rest.get(rest.len().saturating_sub(PHRASE_BYTES_MAX - 1)..).unwrap_or_default();
    let begins = |from: &usize| {
        let end = end.get(*from..).unwrap_or_default();
        PHRASES.iter().any(|phrase| phrase.as_bytes().get(..end.len()).is_some_and(|start| start.eq_ignore_ascii_case(end)))
    };
    let likely = |from: &usize| BEGINNINGS.may_begin_with(end.get(*from..).unwrap_or_default());
    (0..end.len()).filter(likely).find(begins).map_or(0, |from| end.len() - from)
}

static BEGINNINGS: Beginnings = Beginnings::of(&PHRASES);

fn automaton() -> Option<&'static AhoCorasick> {
    static AUTOMATON: OnceLock<Option<AhoCorasick>> = OnceLock::new();
    let build = || {
        AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .ascii_case_insensitive(true)
            .kind(Some(AhoCorasickKind::DFA))
            .build(PHRASES)
            .ok()
    };
    AUTOMATON.get_or_init(build).as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_phrase_is_looked_for() {
        for phrase in PHRASES {
            for text in [phrase.to_owned(), format!("The {phrase}: x"), phrase.to_uppercase(), format!("({})", phrase.to_ascii_uppercase())]
            {
                assert!(may_have_phrase(text.as_bytes()), "{text}");
            }
        }
        for text in ["", "It did rain inside, I said.", "Consider the side of it"] {
            assert!(!may_have_phrase(text.as_bytes()), "{text}");
        }
    }
}
