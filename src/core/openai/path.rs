//! Paths of requests. Pure.

use unicode_normalization::UnicodeNormalization as _;

/// The path of a URL below its version: `https://host/openai/v1/chat/completions?x` is `/chat/completions`.
pub fn path_of(url: &str) -> &str {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let path = url.split_once("://").map_or(url, |(_, rest)| rest.find('/').map_or("", |at| &rest[at..]));
    let known = ["/chat/completions", "/responses", "/messages"].iter().find_map(|end| path.strip_suffix(end).map(|_| *end));
    let version = || path.split_once("/v1/").and_then(|(before, rest)| path.get(before.len() + 3..).filter(|_| !rest.is_empty()));
    known.or_else(version).unwrap_or(path)
}

/// The path with single slashes and none at the end; `None` if any server might read it as another path.
///
/// Accepts an allowlist, as the readings of servers can't be enumerated. Refused are dot segments, also before a parameter
/// (`..;x`), with an escape, with blanks or after a second decoding; backslashes; overlong, full-width and other spellings
/// of a dot or a slash.
pub fn normalised(path: &str) -> Option<String> {
    let mut out = String::with_capacity(path.len());
    for segment in path.split('/').filter(|segment| !segment.is_empty()) {
        let decoded = decoded(segment)?;
        // Some servers drop blanks at the end of a name, and some read three dots as a parent's parent.
        if decoded.trim().bytes().all(|byte| byte == b'.') {
            return None;
        }
        out.push('/');
        out.push_str(segment);
    }
    Some(out)
}

/// Bytes that stand for themselves in a segment.
const PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        let own = byte as u8;
        plain[byte] = own.is_ascii_alphanumeric()
            || matches!(
                own,
                b'-' | b'.' | b'_' | b'~' | b':' | b'@' | b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b'='
            );
        byte += 1;
    }
    plain
};

/// A segment without its escapes; `None` if it has characters that some server may read differently.
fn decoded(segment: &str) -> Option<std::borrow::Cow<'_, str>> {
    let is_plain = |byte: u8| PLAIN[usize::from(byte)];
    if segment.bytes().all(is_plain) {
        return Some(segment.into());
    }
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            if byte.is_ascii() && !is_plain(byte) {
                return None;
            }
            bytes.push(byte);
            continue;
        }
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let (high, low) = (digit(rest.next()?)?, digit(rest.next()?)?);
        let byte = u8::try_from(high * 16 + low).ok()?;
        // An escaped dot or percent sign is there to be decoded by one server and not by the other.
        if byte.is_ascii() && !(byte.is_ascii_alphanumeric() || b" -_~:@!$&'()*+,=".contains(&byte)) {
            return None;
        }
        bytes.push(byte);
    }
    // Overlong forms are no UTF-8.
    let text = String::from_utf8(bytes).ok()?;
    let stands_for_itself = |c: char| c.is_ascii() || (c.is_alphanumeric() && std::iter::once(c).nfkc().eq(std::iter::once(c)));
    text.chars().all(stands_for_itself).then(|| text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        for (url, path) in [
            ("https://api.openai.com/v1/chat/completions", "/chat/completions"),
            ("/v1/chat/completions?api-version=1", "/chat/completions"),
            ("https://x.azure.com/openai/deployments/d/chat/completions?api-version=1", "/chat/completions"),
            ("/v1/responses", "/responses"),
            ("https://api.groq.com/openai/v1/models", "/models"),
            ("http://localhost", ""),
            ("/v1/embeddings", "/embeddings"),
        ] {
            assert_eq!(path_of(url), path, "{url}");
        }
    }
}
