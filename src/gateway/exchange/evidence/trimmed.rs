//! Detects results that the application removed or shortened to save context (context editing). Pure.
//!
//! Used only if a result differs from the one first returned. A trimmed result can't be cited any more, so there is
//! nothing to gain from imitating one.

use std::sync::LazyLock;

use regex::Regex;

/// Limit for a placeholder, in bytes.
const PLACEHOLDER_BYTES_MAX: usize = 240;
/// Length of the tail, in characters, that is searched for a note of truncation; notes in brackets are found anywhere.
const ENDING_CHARS: usize = 120;

const WORDS: &str = "clear(?:ed)?|remov(?:ed|al)|omit(?:ted)?|truncat(?:ed|ion)|trimm?(?:ed)?|elided|pruned|redacted|compact(?:ed|ion)|dropped|snipp?(?:ed)?|cut|shortened|hidden|deleted|evicted|no longer (?:available|shown|kept)";

/// A text that is a placeholder as a whole: bracketed, or a few words about removed content.
static PLACEHOLDER: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let about = "(?:tool|results?|outputs?|content|contents|message|response|observation|context|old|older|earlier|previous|data)";
    let bracketed = format!(r#"[\[(<*_.…\s]+[^\n"{{}}]{{0,160}}\b(?:{WORDS})\b[^\n"{{}}]{{0,160}}[\])>*_.…\s]+"#);
    let plain = format!(r"(?:the |this |an? )?(?:{about}\b[ ,]*){{1,4}}[^\n]{{0,60}}\b(?:{WORDS})\b[^\n]{{0,100}}");
    let word = format!(r"(?:{WORDS})[.!]?|null|none|nil|n/a|-+");
    Regex::new(&format!(r"(?is)\A\s*(?:{bracketed}|{plain}|{word}|[.…\s]*)\s*\z")).ok()
});
/// A note within a text that something was left out.
static MARK: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(&format!(r#"(?i)(?:\[|\(|<|\.\.\.|…)[^\n\[\]()<>"]{{0,80}}\b(?:{WORDS})\b[^\n\[\]()<>"]{{0,80}}(?:\]|\)|>|\.\.\.|…)"#)).ok()
});

/// A line of dots, behind which the rest of a text follows, or the reference to a file that has the whole.
static GAP: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?im)^[ \t]*(?:\.{3,}|…|\[(?:\.{3}|…)\])[ \t]*$|\A\s*<persisted-output>").ok());

/// True if the text is a placeholder for a result, or a result with a note of truncation.
pub fn is_trimmed(text: &str) -> bool {
    let is = |regex: &LazyLock<Option<Regex>>, text: &str| regex.as_ref().is_some_and(|regex| regex.is_match(text));
    if text.len() <= PLACEHOLDER_BYTES_MAX && is(&PLACEHOLDER, text) {
        return true;
    }
    let end = text.trim_end();
    let tail = end.char_indices().rev().take(ENDING_CHARS).last().map_or("", |(at, _)| &end[at..]);
    end.ends_with("...")
        || end.ends_with('…')
        || end.ends_with("[...]")
        || end.ends_with("[…]")
        || is(&MARK, tail)
        || is(&MARK, text)
        || is(&GAP, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_and_cut_results() {
        for text in [
            "",
            "…",
            "[cleared]",
            "[Old tool result content cleared]",
            "<tool result removed>",
            "(omitted to save tokens)",
            "Tool output truncated.",
            "Previous tool result was removed to save context.",
            "[tool output compacted]",
            "{\"mbit\": 90, \"server\": \"fr...",
            "first line\nsecond li… [truncated]",
            "head\n... [1234 characters truncated] ...\ntail",
            "a long text (truncated)",
            "REDACTED",
            "null",
            "first line\n...\nlast line",
            "<persisted-output>\nOutput too large (40 KB). Full output saved to: /tmp/a.txt\n</persisted-output>",
        ] {
            assert!(is_trimmed(text), "{text}");
        }
        for text in [
            "91",
            "{\"mbit\": 91}",
            "ok",
            "The grass was cut.",
            "42 files were removed from the disk of the server fra1",
            "It is 19 degrees in Paris.",
            "{\"status\":\"deleted\"}",
            "[\"deleted\"]",
            "[1, 2]",
        ] {
            assert!(!is_trimmed(text), "{text}");
        }
    }
}
