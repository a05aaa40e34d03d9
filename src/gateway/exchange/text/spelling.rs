//! Names of members that some parsers take for others. Pure.

use crate::wire::json::Value;

/// A name as Go's `encoding/json` compares it: it ignores case, and folds two non-ASCII characters.
fn folded(name: &str) -> String {
    name.replace('\u{17f}', "s").replace('\u{212a}', "k").to_ascii_lowercase()
}

/// True if the object has two members whose names differ only in their spelling. As [`is_respelled`], but for objects in which applications
/// may have members of their own.
pub fn is_spelled_twice(object: Value<'_>) -> bool {
    let twin = |name: &str| {
        let folded = folded(name);
        // A name beyond ASCII, or with escapes, is none of another spelling by that.
        folded != name && object.get(&folded).is_some()
    };
    object.may_have_odd_names() && object.members().any(|member| member.has_odd_name() && twin(&member.name()))
}

/// True if the object has a member whose name some clients take for another.
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
    const COMMON: [&str; 7] = ["id", "index", "value", "model", "stream", "tool_choice", "n"];
    let same = |name: &str| {
        let folded = folded(name);
        NAMES.contains(&&*folded) || COMMON.contains(&&*folded) && folded != name && object.get(&folded).is_some()
    };
    object.may_have_odd_names() && object.members().any(|member| member.has_odd_name() && same(&member.name()))
}

/// True if the object, a request or a part of its conversation's state, has a member whose name some servers take for one by which the state
/// is found, or by which the request is judged.
pub fn is_respelled_in_request(object: Value<'_>) -> bool {
    const NAMES: [&str; 27] = [
        "id",
        "model",
        "stream",
        "stream_options",
        "n",
        "tool_choice",
        "parallel_tool_calls",
        "response_format",
        "store",
        "background",
        "previous_response_id",
        "conversation",
        "prompt",
        "include",
        "items",
        "item_reference",
        "thread",
        "previous_message_id",
        "container",
        "mcp_servers",
        "context_management",
        "web_search_options",
        "search_parameters",
        "plugins",
        "output_config",
        "output_format",
        "starting_after",
    ];
    let same = |name: &str| {
        let folded = folded(name);
        folded != name && NAMES.contains(&&*folded)
    };
    is_respelled(object) || object.may_have_odd_names() && object.members().any(|member| member.has_odd_name() && same(&member.name()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::json::Document;

    #[test]
    fn names_of_requests() {
        for (object, respelled) in [
            (r#"{"Previous_Response_Id":"resp_1"}"#, true),
            ("{\"previou\u{17f}_response_id\":\"resp_1\"}", true),
            (r#"{"type":"item_reference","ID":"msg_1"}"#, true),
            (r#"{"Store":true}"#, true),
            (r#"{"\u0073tore":true}"#, false),
            (r#"{"store":true,"id":"a","userId":"b","X-Trace":1}"#, false),
        ] {
            let document = Document::parse(object.into()).unwrap();
            assert_eq!(is_respelled_in_request(document.root()), respelled, "{object}");
        }
    }

    #[test]
    fn names_in_two_spellings() {
        for (object, twice, respelled) in [
            (r#"{"type":"text","Text":"a","text":"b"}"#, true, true),
            ("{\"me\u{17f}sage\":1,\"message\":2}", true, true),
            (r#"{"Text":"a"}"#, false, true),
            (r#"{"Id":1,"id":2}"#, true, true),
            (r#"{"stream":false,"Stream":true}"#, true, true),
            (r#"{"Id":1}"#, false, false),
            (r#"{"größe":1,"gr\u00f6sse":2,"Farbe":"rot"}"#, false, false),
            (r#"{"\u0069d":1}"#, false, false),
        ] {
            let document = Document::parse(object.into()).unwrap();
            assert_eq!((is_spelled_twice(document.root()), is_respelled(document.root())), (twice, respelled), "{object}");
        }
    }
}
