//! Errors in settings, with their place, their key and the expected value.
//!
//! Serves `toolmark.toml`, the environment, flags and policies alike. Pure; it never quotes a secret,
//! because secrets are no settings.

use std::fmt;

use figment::error::{Error, Kind};

/// One error in settings or a policy.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub struct ConfigError {
    /// The file, environment variable or flag that contains it.
    pub place: String,
    /// The line in the file, counting from 1, if known.
    pub line: Option<usize>,
    /// The key, as `limits.connections` or `upstreams[1].base_url`; empty if the error concerns no key.
    pub key: String,
    /// Description of the error and its remedy, in one line.
    pub message: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.place)?;
        if let Some(line) = self.line {
            write!(out, ":{line}")?;
        }
        out.write_str(": ")?;
        if !self.key.is_empty() {
            write!(out, "`{}`: ", self.key)?;
        }
        out.write_str(&self.message)
    }
}

/// Describes an error of figment's, without its place.
pub fn explain(error: &Error) -> String {
    match &error.kind {
        Kind::Message(message) => message.clone(),
        Kind::InvalidType(found, expected) | Kind::InvalidValue(found, expected) => {
            format!("found {found}, expected {}", plain(expected))
        }
        Kind::InvalidLength(found, expected) => format!("found {found} items, expected {}", plain(expected)),
        Kind::UnknownVariant(found, known) => {
            format!("`{found}` is none of the known values{}; known: {}", maybe(found, known), list(known))
        }
        Kind::UnknownField(found, known) => {
            format!("unknown key{}{}; known here: {}", maybe(found, known), secret_hint(found), list(known))
        }
        Kind::MissingField(name) => format!("`{name}` is missing"),
        Kind::DuplicateField(name) => format!("`{name}` is there twice"),
        Kind::ISizeOutOfRange(number) => format!("{number} is out of range"),
        Kind::USizeOutOfRange(number) => format!("{number} is out of range"),
        Kind::Unsupported(found) => format!("{found} isn't supported here"),
        Kind::UnsupportedKey(found, expected) => format!("the key {found} isn't supported here, expected {expected}"),
    }
}

fn secret_hint(found: &str) -> &'static str {
    match found {
        "api_key" | "key" | "token" | "secret" | "password" => " (secrets are named by environment variable, never written in the file)",
        _ => "",
    }
}

/// Translates serde's name of a type for users.
fn plain(expected: &str) -> String {
    match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number of 0 or more".into(),
        "a nonzero u32" | "a nonzero u64" => "a whole number of 1 or more".into(),
        "a boolean" => "true or false".into(),
        "a sequence" => "an array".into(),
        "a map" => "a table".into(),
        "string or table" | "enum" => "one of the known words".into(),
        other if other.starts_with("struct ") => "a table".into(),
        other if other.starts_with("enum ") => "a string, one of the known words".into(),
        other => other.into(),
    }
}

/// ` (did you mean …?)` if a known word is similar, else empty.
pub fn maybe(word: &str, known: &[&str]) -> String {
    closest(word, known).map(|close| format!(" (did you mean `{close}`?)")).unwrap_or_default()
}

/// The most similar known word, if it is similar enough.
pub fn closest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let score = |other: &str| strsim::jaro_winkler(&word.to_lowercase(), other).max(strsim::normalized_damerau_levenshtein(word, other));
    let best = known.iter().copied().map(|other| (score(other), other)).max_by(|one, two| one.0.total_cmp(&two.0))?;
    (best.0 >= CLOSE).then_some(best.1)
}

pub fn list(known: &[&str]) -> String {
    known.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

/// Formats a key path: `upstreams.1.base_url` becomes `upstreams[1].base_url`.
pub fn key_text(path: &[String]) -> String {
    let mut text = String::new();
    for part in path {
        if !text.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()) {
            text.push_str(&format!("[{part}]"));
        } else {
            if !text.is_empty() {
                text.push('.');
            }
            text.push_str(part);
        }
    }
    text
}

/// The line that contains a byte, counting from 1.
pub fn line_of(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count()
}

/// The line in TOML `text` that sets `path`, or the nearest one that encloses it.
///
/// Reads lines, not grammar: used only to point at an error.
pub fn find_line(text: &str, path: &[String]) -> Option<usize> {
    let mut header: Vec<String> = Vec::new();
    let mut counts = std::collections::HashMap::<String, usize>::new();
    let mut best: Option<(usize, usize)> = None;
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        let full = if let Some(inside) = line.strip_prefix("[[").and_then(|rest| rest.split_once("]]")) {
            let count = counts.entry(inside.0.trim().into()).or_default();
            header = keys(inside.0);
            header.push(count.to_string());
            *count += 1;
            header.clone()
        } else if let Some(inside) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            header = keys(inside.0);
            header.clone()
        } else if let Some((key, _)) = line.split_once('=').filter(|_| !line.starts_with('#')) {
            header.iter().cloned().chain(keys(key)).collect()
        } else {
            continue;
        };
        let common = full.iter().zip(path).take_while(|(one, two)| one == two).count();
        let encloses = common == full.len() || common == path.len();
        if encloses && common > 0 && best.is_none_or(|(most, _)| common > most) {
            best = Some((common, number + 1));
        }
    }
    best.map(|(_, line)| line)
}

fn keys(dotted: &str) -> Vec<String> {
    dotted.split('.').map(|key| key.trim().trim_matches(['"', '\'']).to_owned()).collect()
}

/// Similarity from which a word is suggested for another one (0 to 1).
const CLOSE: f64 = 0.75;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found() {
        let text = "listen = 1\n[limits]\n# x = 1\nconnections = 2\n[[upstreams]]\nname = 'a'\n[[upstreams]]\nname = 'b'\nbase_url='x'\n";
        for (path, line) in [
            ("listen", Some(1)),
            ("limits.connections", Some(4)),
            ("limits.other", Some(2)),
            ("upstreams.0.name", Some(6)),
            ("upstreams.1.base_url", Some(9)),
            ("upstreams.1.models.0", Some(7)),
            ("log.level", None),
        ] {
            let path: Vec<String> = path.split('.').map(String::from).collect();
            assert_eq!(find_line(text, &path), line, "{path:?}");
        }
    }

    #[test]
    fn closest_words() {
        let known = ["connections", "request_bytes", "api_key_env"];
        assert_eq!(closest("conections", &known), Some("connections"));
        assert_eq!(closest("api_key", &known), Some("api_key_env"));
        assert_eq!(closest("zebra", &known), None);
    }
}
