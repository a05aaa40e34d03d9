//! Names and ids that one API allows and the other doesn't, in a form that both allow. Pure.

use std::borrow::Cow;

use crate::wire::json::string::cut;

/// Longest name of a tool in chat, in bytes. Source: docs/wire-facts.md#chat-requests.
const CHAT_NAME_BYTES_MAX: usize = 64;
/// Characters of the digest in a short name.
const DIGEST_CHARS: usize = 8;

/// The name under which a tool goes to a chat upstream: its own, or its beginning and a digest of the whole where it is too long for chat.
/// The same name always becomes the same.
pub(in crate::translate) fn chat_name(name: &str) -> Cow<'_, str> {
    if name.len() <= CHAT_NAME_BYTES_MAX {
        return Cow::Borrowed(name);
    }
    let start = cut(name, CHAT_NAME_BYTES_MAX - DIGEST_CHARS - 1);
    Cow::Owned(format!("{start}_{}", digest("toolmark 2026-11-24 short tool name v1", name, DIGEST_CHARS)))
}

/// The id under which a call goes to a Messages upstream: its own if that is legal there, else one derived from it. Source:
/// docs/wire-facts.md#messages-requests.
pub(in crate::translate) fn messages_id(id: &str) -> Cow<'_, str> {
    if !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')) {
        return Cow::Borrowed(id);
    }
    Cow::Owned(format!("call_{}", digest("toolmark 2026-11-24 legal call id v1", id, 32)))
}

/// The first `count` hexadecimal digits of a digest of `text`; at most 64.
fn digest(context: &str, text: &str, count: usize) -> String {
    let digest = blake3::derive_key(context, text.as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>().chars().take(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chat_name_long_names_are_short_and_stay_apart() {
        for (name, same) in [("f".to_owned(), true), ("x".repeat(64), true), ("x".repeat(65), false), ("é".repeat(60), false)] {
            let short = chat_name(&name);
            assert_eq!(short == name, same, "{name}");
            assert!(short.len() <= 64 && (same || short.len() > 60), "{short}");
            assert_eq!(chat_name(&short), short);
        }
        assert_ne!(chat_name(&("x".repeat(80) + "a")), chat_name(&("x".repeat(80) + "b")));
    }

    #[test]
    fn messages_id_is_always_legal() {
        for (id, same) in [("call_1", true), ("toolu_01-x", true), ("", false), ("functions.f:0", false), ("é", false)] {
            let legal = messages_id(id);
            assert_eq!(legal == id, same, "{id}");
            assert!(!legal.is_empty() && legal.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)));
        }
    }
}
