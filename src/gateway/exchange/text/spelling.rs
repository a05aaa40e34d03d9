//! Names of members that some parsers take for others. Pure.

use crate::wire::json::Value;

/// True if the object has two members whose names differ only in their spelling. As [`is_respelled`], but for objects in which applications
/// may have members of their own.
pub fn is_spelled_twice(object: Value<'_>) -> bool {
    let twin = |name: &str| object.get(&name.replace('\u{17f}', "s").replace('\u{212a}', "k").to_ascii_lowercase()).is_some();
    object.may_have_odd_names() && object.members().any(|member| member.has_odd_name() && twin(&member.name()))
}

/// True if the object has a member whose name some clients take for another. Go's `encoding/json` ignores case in
/// names, and folds two non-ASCII characters.
pub fn is_respelled(object: Value<'_>) -> bool {
    const NAMES: [&str; 41] = [
        "type",
        "name",
        "arguments",
        "input",
        "call_id",
        "namespace",
        "role",
        "content",
        "text",
        "refusal",
        "transcript",
        "output_text",
        "item",
        "response",
        "part",
        "delta",
        "output",
        "function",
        "custom",
        "action",
        "choices",
        "message",
        "tool_calls",
        "function_call",
        "content_block",
        "partial_json",
        "thinking",
        "stop_details",
        "explanation",
        "messages",
        "tools",
        "functions",
        "tool_call_id",
        "tool_use_id",
        "is_error",
        "item_id",
        "content_index",
        "output_index",
        "summary",
        "system",
        "instructions",
    ];
    // Names that others may have in their own spelling, where the usual one isn't there as well.
    const COMMON: [&str; 3] = ["id", "index", "value"];
    let same = |name: &str| {
        let folded = name.replace('\u{17f}', "s").replace('\u{212a}', "k");
        let is = |own: &str| own.eq_ignore_ascii_case(&folded);
        NAMES.iter().any(|own| is(own)) || COMMON.iter().any(|own| is(own) && object.get(own).is_some())
    };
    object.may_have_odd_names() && object.members().any(|member| member.has_odd_name() && same(&member.name()))
}
