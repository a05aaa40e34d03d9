//! Quirks learnt from an upstream's error: a refused parameter, or no tool calling. Pure.
//!
//! Read from the words, because codes differ from provider to provider (docs/wire-facts.md#providers). An error that can't be told teaches
//! nothing.

use crate::openai::error::Reported;

/// Quirk learnt from an error.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LearnedQuirk {
    /// This parameter is refused, as a path of `drop`; toolmark enforces it itself or it changes no answer, so it can be dropped.
    Refuses(&'static str),
    /// Tools are refused altogether.
    NoTools,
}

/// Parameters that may be dropped once they were refused, with their paths: those that toolmark enforces itself (`tool_choice`,
/// `parallel_tool_calls`, `strict`), and those that change no answer. Other refusals are passed on to the caller.
const LEARNT: [(&str, &str); 10] = [
    ("parallel_tool_calls", "parallel_tool_calls"),
    ("tool_choice", "tool_choice"),
    ("strict", "tools.function.strict"),
    ("stream_options", "stream_options"),
    ("include_obfuscation", "stream_options.include_obfuscation"),
    ("prompt_cache_key", "prompt_cache_key"),
    ("safety_identifier", "safety_identifier"),
    ("service_tier", "service_tier"),
    ("metadata", "metadata"),
    ("store", "store"),
];

/// The parameter with this path, if it is one that may be dropped.
pub fn droppable(path: &str) -> Option<&'static str> {
    LEARNT.iter().map(|(_, own)| *own).find(|own| *own == path)
}

/// Phrases of errors about unsupported parameters.
const REFUSALS: [&str; 14] = [
    "not supported",
    "unsupported",
    "not support",
    "doesn't support",
    "not permitted",
    "not allowed",
    "unrecognized",
    "unknown",
    "extra inputs",
    "unexpected",
    "is invalid",
    "not available",
    "mixed values",
    "must be",
];

/// Phrases of errors about unsupported tool calling.
const NO_TOOLS: [&str; 12] = [
    "does not support tools",
    "does not support tool",
    "doesn't support tool",
    "does not support function",
    "tool calling is not supported",
    "tool use is not supported",
    "tools are not supported",
    "tools is not supported",
    "function calling is not supported",
    "function calling is not enabled",
    "support tool use",
    "requires --jinja",
];

/// Learns a quirk from an error with this status, if it shows one.
pub fn lesson(status: u16, error: &Reported) -> Option<LearnedQuirk> {
    let words = error.message.to_lowercase();
    // llama.cpp reports it with status 500, OpenRouter with 404.
    let no_tools = NO_TOOLS.iter().any(|refusal| words.contains(refusal)) || words.contains("--enable-auto-tool-choice");
    if no_tools && matches!(status, 400 | 404 | 422 | 500 | 501) {
        return Some(LearnedQuirk::NoTools);
    }
    if !matches!(status, 400 | 422) || !REFUSALS.iter().any(|refusal| words.contains(refusal)) {
        return None;
    }
    let named = |name: &str| {
        let own = error.param.as_deref().is_some_and(|param| param.rsplit('.').next() == Some(name));
        // Compared as a complete word: `restored` contains `store`.
        own || words.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).any(|word| word == name)
    };
    let (_, path) = LEARNT.iter().find(|(name, _)| named(name))?;
    Some(LearnedQuirk::Refuses(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lessons() {
        for (status, body, expected) in [
            // As providers word it: docs/wire-facts.md#providers.
            (
                400,
                r#"{"message":"parallel_tool_calls=False is not supported by this model.","type":"invalid_request_error","param":"parallel_tool_calls","code":"wrong_api_format"}"#,
                Some(LearnedQuirk::Refuses("parallel_tool_calls")),
            ),
            (
                422,
                r#"{"message":"Tools with mixed values for 'strict' are not allowed. Please set all tools to 'strict: true' or 'strict: false'"}"#,
                Some(LearnedQuirk::Refuses("tools.function.strict")),
            ),
            (
                500,
                r#"{"error":{"code":500,"message":"tools param requires --jinja flag","type":"server_error"}}"#,
                Some(LearnedQuirk::NoTools),
            ),
            (
                400,
                r#"{"object":"error","message":"\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set"}"#,
                Some(LearnedQuirk::NoTools),
            ),
            (
                400,
                r#"{"error":{"message":"registry.ollama.ai/library/gemma3:1b does not support tools","type":"api_error"}}"#,
                Some(LearnedQuirk::NoTools),
            ),
            (404, r#"{"error":{"message":"No endpoints found that support tool use.","code":404}}"#, Some(LearnedQuirk::NoTools)),
            (400, r#"{"error":{"message":"Unrecognized request argument supplied: store"}}"#, Some(LearnedQuirk::Refuses("store"))),
            (
                400,
                r#"{"error":{"message":"Unknown parameter: 'stream_options.include_obfuscation'","param":"stream_options.include_obfuscation"}}"#,
                Some(LearnedQuirk::Refuses("stream_options")),
            ),
            // Another fault of the request, other statuses, other parameters: nothing.
            (400, r#"{"error":{"message":"Unsupported value: 'temperature'","param":"temperature"}}"#, None),
            (400, r#"{"error":{"message":"the value can't be restored: not supported"}}"#, None),
            (401, r#"{"error":{"message":"tool_choice is not supported"}}"#, None),
            (400, r#"{"error":{"message":"tool_choice names a tool that isn't there"}}"#, None),
        ] {
            assert_eq!(lesson(status, &Reported::read(body.as_bytes()).unwrap()), expected, "{body}");
        }
    }
}
