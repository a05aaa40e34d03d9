//! The form of execution IDs, `[A-Za-z0-9_-]{1,128}_[0-9]{13}_[0-9a-f]{16}`, in folded runs. Pure.
//!
//! Source: docs/contract.md#ids. Upper-case hex counts as a disguise and is found too.

use std::ops::Range;

use crate::claims::text_input::TextInput;

/// Bytes of the longest tool name.
pub(super) const TOOL_BYTES_MAX: usize = 128;
/// Digits of the milliseconds.
const DIGITS: usize = 13;
/// Hex digits of the counter and MAC.
const HEX: usize = 16;
/// Bytes after the tool's name: `_`, 13 digits, `_`, 16 hex digits.
const ENDING_BYTES: usize = 1 + DIGITS + 1 + HEX;
/// Bytes of the longest id, and of the part of an unfinished run that must be kept.
pub(super) const ID_BYTES_MAX: usize = TOOL_BYTES_MAX + ENDING_BYTES;
/// Bytes of the shortest id.
pub(super) const ID_BYTES_MIN: usize = 1 + ENDING_BYTES;

/// Finds ids in a run of letters, digits, `_` and `-`, each once, without overlaps. Returns the end of the last one. If the run may
/// go on, anything that its end doesn't decide is left out.
pub(super) fn find(run: &[u8], input: TextInput, mut found: impl FnMut(Range<usize>)) -> usize {
    let mut floor = 0;
    let mut segment = 0;
    let mut digits = None;
    for at in 0..=run.len() {
        let byte = run.get(at).copied();
        if byte.is_some_and(|byte| byte.is_ascii_alphanumeric()) || (byte.is_none() && input.is_partial()) {
            continue;
        }
        let part = run.get(segment..at).unwrap_or_default();
        if let Some(digits) = digits
            && part.len() == HEX
            && part.iter().all(u8::is_ascii_hexdigit)
        {
            let tool_end: usize = digits - 1;
            let start = floor.max(tool_end.saturating_sub(TOOL_BYTES_MAX));
            if start < tool_end {
                found(start..at);
                floor = at;
            }
        }
        if byte == Some(b'_') {
            let is_time = part.len() == DIGITS && segment > floor && part.iter().all(u8::is_ascii_digit);
            digits = is_time.then_some(segment);
            segment = at + 1;
        }
    }
    floor
}

/// Finds the ids in any text, each in a run of its own.
pub(super) fn find_apart(text: &[u8], mut found: impl FnMut(Range<usize>)) {
    let mut start = 0;
    for run in text.split(|byte| !(byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))) {
        if run.len() >= ID_BYTES_MIN {
            find(run, TextInput::Complete, |span| found(start + span.start..start + span.end));
        }
        start += run.len() + 1;
    }
}

/// True if something in `text` has the form of an id.
pub(in crate::judge) fn has_id(text: &str) -> bool {
    let mut has = false;
    find_apart(text.as_bytes(), |_| has = true);
    has
}

/// True if `run` can go on as an id and already has its tool's name and `_`: digits come next, or the rest of them.
pub(super) fn is_piece(run: &[u8]) -> bool {
    let segment = run.iter().rposition(|byte| *byte == b'_').map_or(0, |at| at + 1);
    let part = run.get(segment..).unwrap_or_default();
    let time = |part: &[u8]| part.len() == DIGITS && part.iter().all(u8::is_ascii_digit);
    let before = segment.checked_sub(DIGITS + 1).and_then(|from| run.get(from..segment - 1)).is_some_and(time);
    let digits = part.len() <= DIGITS && part.iter().all(u8::is_ascii_digit);
    segment > 1 && (digits || before && part.len() < HEX && part.iter().all(u8::is_ascii_hexdigit))
}

/// True if the whole of `text` is one id.
pub(super) fn is_id(text: &str) -> bool {
    let word = text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    let mut whole = false;
    word && text.len() <= ID_BYTES_MAX && {
        find(text.as_bytes(), TextInput::Complete, |span| whole |= span == (0..text.len()));
        whole
    }
}

/// The tool that an execution ID names.
pub(super) fn tool(id: &str) -> &str {
    id.len().checked_sub(ENDING_BYTES).and_then(|end| id.get(..end)).unwrap_or_default()
}

/// Earliest plausible time of an ID, in Unix milliseconds: 2020-01-01.
const FIRST_MS: u64 = 1_577_836_800_000;
/// Milliseconds by which clocks may differ: one day.
const AHEAD_MS: u64 = 24 * 3600 * 1000;

/// True if the ID can have been issued by `now_ms`, in Unix milliseconds (0: unknown).
pub(super) fn is_possible(id: &str, now_ms: u64) -> bool {
    let end = id.len().saturating_sub(HEX + 1);
    let time = id.get(end.saturating_sub(DIGITS)..end).and_then(|digits| digits.parse::<u64>().ok());
    time.is_none_or(|time| time >= FIRST_MS && (now_ms == 0 || time <= now_ms.saturating_add(AHEAD_MS)))
}

/// An id with its hex in lower case: the form that is verified.
pub(super) fn canonical(id: &str) -> String {
    let mut canonical = id.to_owned();
    if let Some(hex) = canonical.len().checked_sub(HEX).and_then(|at| canonical.get_mut(at..)) {
        hex.make_ascii_lowercase();
    }
    canonical
}
