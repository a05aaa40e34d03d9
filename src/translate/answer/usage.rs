//! Translates chat's `usage` to that of a Responses answer. Source: OpenAI API reference, `ResponseUsage`. Pure.

use crate::{
    translate::request::push_member,
    wire::json::{Kind, Value},
};

/// Usage of a Responses answer, JSON.
pub(in crate::translate) fn usage(chat: Value<'_>) -> String {
    let count = |name: &str| chat.get(name).and_then(Value::integer);
    let (input, output) = (count("prompt_tokens").unwrap_or(0), count("completion_tokens").unwrap_or(0));
    let total = count("total_tokens").unwrap_or(input.saturating_add(output));
    // DeepSeek, Moonshot and others say it outside the details.
    let cached = ["prompt_cache_hit_tokens", "cached_tokens", "num_cached_tokens"].into_iter().find_map(count).unwrap_or(0);
    let input_details = details(chat.get("prompt_tokens_details"), "cached_tokens", cached);
    let reasoning = count("reasoning_tokens").unwrap_or(0);
    let output_details = details(chat.get("completion_tokens_details"), "reasoning_tokens", reasoning);
    format!(
        r#"{{"input_tokens":{input},"input_tokens_details":{input_details},"output_tokens":{output},"output_tokens_details":{output_details},"total_tokens":{total}}}"#
    )
}

/// The numbers of `chat`, and always the member `needed`, as clients read it unconditionally.
fn details(chat: Option<Value<'_>>, needed: &str, otherwise: u64) -> String {
    let mut out = String::from("{");
    let own = chat.and_then(|details| details.get(needed)).filter(|value| value.kind() == Kind::Number);
    push_member(&mut out, needed, &own.map_or_else(|| otherwise.to_string(), |value| value.raw_str().to_owned()));
    for member in chat.into_iter().flat_map(Value::members) {
        if member.value.kind() == Kind::Number && !member.is(needed) {
            push_member(&mut out, &member.name(), member.value.raw_str());
        }
    }
    out.push('}');
    out
}
