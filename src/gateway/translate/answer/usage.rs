//! Token counts of an answer, and their form in each API.
//!
//! OpenAI counts cached input as a part of the input, Anthropic beside it. Source: OpenAI API reference, `ResponseUsage` and
//! `CompletionUsage`; Anthropic API reference, `Usage`. Pure.

use crate::{
    translate::request::push_member,
    wire::json::{Kind, Value},
};

/// Detail of the input: read from the cache.
const CACHED: &str = "cached_tokens";
/// Detail of the input: written to the cache. OpenRouter's name; OpenAI has none.
const CACHE_WRITTEN: &str = "cache_write_tokens";
/// Detail of the output: spent on reasoning.
const REASONING: &str = "reasoning_tokens";

/// Tokens used for an answer.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(in crate::translate) struct TokenUsage {
    /// Input, including what was cached.
    input: u64,
    output: u64,
    total: u64,
    /// Parts of the input: name and JSON number.
    input_details: Vec<(String, String)>,
    /// Parts of the output: name and JSON number.
    output_details: Vec<(String, String)>,
}

impl TokenUsage {
    /// Counts of a chat completion.
    pub(super) fn of_chat(chat: Value<'_>) -> Self {
        let count = |name: &str| chat.get(name).and_then(Value::integer);
        let (input, output) = (count("prompt_tokens").unwrap_or(0), count("completion_tokens").unwrap_or(0));
        // DeepSeek, Moonshot and others say it outside the details.
        let cached = ["prompt_cache_hit_tokens", "cached_tokens", "num_cached_tokens"].into_iter().find_map(count).unwrap_or(0);
        Self {
            input,
            output,
            total: count("total_tokens").unwrap_or(input.saturating_add(output)),
            input_details: details(chat.get("prompt_tokens_details"), CACHED, cached),
            output_details: details(chat.get("completion_tokens_details"), REASONING, count(REASONING).unwrap_or(0)),
        }
    }

    /// Counts of a Messages answer. `count`: the count of this name, `None` if the answer has none.
    pub(super) fn of_messages(count: impl Fn(&str) -> Option<u64>) -> Self {
        let own = |name: &str| count(name).unwrap_or(0);
        let (read, written) = (own("cache_read_input_tokens"), own("cache_creation_input_tokens"));
        let (input, output) = (own("input_tokens").saturating_add(read).saturating_add(written), own("output_tokens"));
        let mut input_details = vec![(CACHED.to_owned(), read.to_string())];
        if written > 0 {
            input_details.push((CACHE_WRITTEN.to_owned(), written.to_string()));
        }
        let output_details = vec![(REASONING.to_owned(), own("thinking_tokens").to_string())];
        Self { input, output, total: input.saturating_add(output), input_details, output_details }
    }

    /// Counts before the answer: so much input.
    pub(super) fn of_input(tokens: usize) -> Self {
        Self { input: tokens as u64, ..Self::default() }
    }

    /// `usage` of a response object, JSON.
    pub(super) fn to_responses(&self) -> String {
        let Self { input, output, total, .. } = self;
        let (of_input, of_output) = (object(&self.input_details), object(&self.output_details));
        format!(
            r#"{{"input_tokens":{input},"input_tokens_details":{of_input},"output_tokens":{output},"output_tokens_details":{of_output},"total_tokens":{total}}}"#
        )
    }

    /// `usage` of a chat completion, JSON.
    pub(super) fn to_chat(&self) -> String {
        let Self { input, output, total, .. } = self;
        let (of_input, of_output) = (object(&self.input_details), object(&self.output_details));
        format!(
            r#"{{"prompt_tokens":{input},"completion_tokens":{output},"total_tokens":{total},"prompt_tokens_details":{of_input},"completion_tokens_details":{of_output}}}"#
        )
    }

    /// `usage` of a message, JSON.
    pub(super) fn to_messages(&self) -> String {
        let detail = |name: &str| {
            let found = self.input_details.iter().find(|(own, _)| own == name);
            found.and_then(|(_, count)| count.parse::<u64>().ok()).unwrap_or(0)
        };
        let (read, written, output) = (detail(CACHED), detail(CACHE_WRITTEN), self.output);
        let input = self.input.saturating_sub(read).saturating_sub(written);
        format!(
            r#"{{"input_tokens":{input},"cache_creation_input_tokens":{written},"cache_read_input_tokens":{read},"output_tokens":{output}}}"#
        )
    }
}

/// The numbers of `chat`, and always the member `needed`, as clients read it unconditionally.
fn details(chat: Option<Value<'_>>, needed: &str, otherwise: u64) -> Vec<(String, String)> {
    let own = chat.and_then(|details| details.get(needed)).filter(|value| value.kind() == Kind::Number);
    let mut out = vec![(needed.to_owned(), own.map_or_else(|| otherwise.to_string(), |value| value.raw_str().to_owned()))];
    let others = chat.into_iter().flat_map(Value::members).filter(|member| member.value.kind() == Kind::Number && !member.is(needed));
    out.extend(others.map(|member| (member.name().into_owned(), member.value.raw_str().to_owned())));
    out
}

fn object(numbers: &[(String, String)]) -> String {
    let mut out = String::from("{");
    for (name, number) in numbers {
        push_member(&mut out, name, number);
    }
    out.push('}');
    out
}
