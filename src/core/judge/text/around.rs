//! Brackets, quotes, markup and blanks around an id that belong to it. Pure.

use std::ops::Range;

use super::tail::TextWindow;
use crate::{claims::text_input::TextInput, judge::text::TextRules};

/// Brackets and marks before an id that count as its own.
const OPENERS_MAX: usize = 8;
/// Blanks before those that are removed with it.
const BLANKS_MAX: usize = 16;

/// The mark that closes `opener`.
pub(super) fn closer(opener: char) -> Option<char> {
    match opener {
        '(' => Some(')'),
        '[' => Some(']'),
        '<' => Some('>'),
        '"' | '\'' | '`' | '*' | '~' => Some(opener),
        '“' => Some('”'),
        '‘' => Some('’'),
        '«' => Some('»'),
        '「' => Some('」'),
        '（' => Some('）'),
        '【' => Some('】'),
        '［' => Some('］'),
        _ => None,
    }
}

/// Start of the span that begins at `from`, extended by the marks directly before it and the blanks before those. Never before `floor`.
pub(super) fn beginning(tail: &TextWindow, from: usize, floor: usize) -> usize {
    before_blanks(tail, marks_beginning(tail, from, floor), floor)
}

/// Start of a removed span: as [`beginning`], but without the blanks if citations are shown.
pub(super) fn shown_beginning(tail: &TextWindow, from: usize, floor: usize, rules: &TextRules) -> usize {
    if rules.show { marks_beginning(tail, from, floor) } else { beginning(tail, from, floor) }
}

/// Start of the span that begins at `from`, extended by the marks directly before it. Never before `floor`.
pub(super) fn marks_beginning(tail: &TextWindow, from: usize, floor: usize) -> usize {
    let mut start = from;
    for _ in 0..OPENERS_MAX {
        match tail.before(start) {
            Some(c) if start > floor && closer(c).is_some() => start -= c.len_utf8(),
            Some(_) | None => break,
        }
    }
    start
}

fn before_blanks(tail: &TextWindow, from: usize, floor: usize) -> usize {
    let mut start = from;
    for _ in 0..BLANKS_MAX {
        match tail.before(start) {
            Some(c) if start > floor && c.is_whitespace() => start -= c.len_utf8(),
            Some(_) | None => break,
        }
    }
    start
}

/// Extends a citation's `span`, for removal, by the marks that enclose it directly and the blanks before. `inner`: marks opened inside
/// `span`; `closed`: marks closed inside it. `None`: the following text isn't known yet.
pub(super) fn enclosed(
    tail: &TextWindow,
    span: Range<usize>,
    inner: &str,
    closed: &str,
    floor: usize,
    input: TextInput,
) -> Option<Range<usize>> {
    let Range { mut start, mut end } = span;
    for opener in inner.chars().rev() {
        match tail.after(end) {
            None if input.is_partial() => return None,
            Some(c) if closer(opener) == Some(c) => end += c.len_utf8(),
            Some(_) | None => break,
        }
    }
    for close in closed.chars() {
        match tail.before(start) {
            Some(c) if start > floor && closer(c) == Some(close) => start -= c.len_utf8(),
            Some(_) | None => break,
        }
    }
    for _ in 0..OPENERS_MAX {
        let Some(open) = tail.before(start).filter(|c| start > floor && closer(*c).is_some()) else { break };
        match tail.after(end) {
            None if input.is_partial() => return None,
            Some(c) if closer(open) == Some(c) => {
                start -= open.len_utf8();
                end += c.len_utf8();
            }
            Some(_) | None => break,
        }
    }
    Some(before_blanks(tail, start, floor)..end)
}
