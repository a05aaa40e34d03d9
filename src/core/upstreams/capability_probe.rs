//! Probe for tool calling: the request, and the reading of its answer. Pure.
//!
//! One request with one tool that must be called. Motivated by a model behind Cerebras that accepted `tools` and ignored them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    openai::error::Reported,
    upstreams::quirks::learn::{LearnedQuirk, lesson},
    wire::json::{
        Document, Value,
        string::{cut, quote},
    },
};

/// Name of the tool that must be called.
pub const TOOL: &str = "toolmark_probe";
/// Longest quotation of an upstream's own error text in a reason, in bytes.
const SAID_BYTES_MAX: usize = 200;
/// Number of refused parameters that are dropped before the probe is given up.
pub const REFUSALS_MAX: usize = 4;
/// Token limit of the answer: a call takes about thirty, a reasoning model some more; an endless answer is cut off.
pub const TOKENS_MAX: u32 = 512;
/// Timeout of one probe.
pub const TIME_MAX: Duration = Duration::from_secs(30);

/// Tool calling of a model, as far as known.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToolCalling {
    /// Not known, or no longer.
    #[default]
    Unknown,
    /// Tool calling works.
    Yes,
    /// The model answers with text, or the upstream refuses tools.
    No,
    /// The model writes calls as text.
    TextLeak,
}

impl ToolCalling {
    /// Name in `/readyz` and in the log.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Yes => "yes",
            Self::No => "no",
            Self::TextLeak => "text-leak",
        }
    }
}

/// Result of one probe request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ProbeResult {
    /// Tool calling is known; if it doesn't work, with the reason.
    Known(ToolCalling, String),
    /// The upstream refuses this parameter: the probe is repeated without it.
    Refuses(&'static str),
    /// The answer reached the token limit without a call: nothing is known, because the limit may be too low.
    Cut(String),
    /// The probe failed, with the reason: nothing is known.
    Open(String),
}

/// Builds the probe as a chat completions request. `refused`: parameters to leave out.
pub fn question(model: &str, refused: &[&str]) -> String {
    let choice = if refused.contains(&"tool_choice") { "" } else { r#","tool_choice":"required""# };
    // Some upstreams accept only the newer name and refuse the older one.
    let limit = match () {
        () if !refused.contains(&"max_tokens") => format!(r#","max_tokens":{TOKENS_MAX}"#),
        () if !refused.contains(&"max_completion_tokens") => format!(r#","max_completion_tokens":{TOKENS_MAX}"#),
        () => String::new(),
    };
    format!(
        r#"{{"model":{},"messages":[{{"role":"user","content":"Call the tool {TOOL} with the word \"ready\". Don't answer in words."}}],"tools":[{{"type":"function","function":{{"name":"{TOOL}","description":"Says that tools can be called.","parameters":{{"type":"object","properties":{{"word":{{"type":"string","description":"ready"}}}},"required":["word"]}}}}}}]{choice}{limit}}}"#,
        quote(model)
    )
}

/// Reads the answer to a probe. `status`: HTTP status of the response.
pub fn finding(status: u16, body: &[u8]) -> ProbeResult {
    if !(200..300).contains(&status) {
        return of_error(status, body);
    }
    let Ok(document) = Document::parse(bytes::Bytes::copy_from_slice(body)) else {
        return ProbeResult::Open("its answer is no JSON".into());
    };
    let root = document.root();
    let Some(choices) = root.get("choices").filter(|choices| choices.is_array()) else {
        // An error with status 200, as OpenRouter sends them.
        let inner = Reported::read(body).filter(|_| root.get_some("error").is_some()).and_then(|error| error.status);
        return inner.map_or_else(|| ProbeResult::Open("its answer has no choices".into()), |status| of_error(status, body));
    };
    let Some(message) = choices.items().next().and_then(|choice| choice.get("message")) else {
        return ProbeResult::Open("its answer has no message".into());
    };
    let calls = message.get("tool_calls").into_iter().flat_map(Value::items);
    let names: Vec<_> = calls.filter_map(|call| call.get("function").unwrap_or(call).get("name")?.text()).collect();
    // A call of another tool is a call, too: a name that doesn't exist is what repair is for.
    if !names.is_empty() {
        return ProbeResult::Known(ToolCalling::Yes, String::new());
    }
    let says = |name: &str| message.get(name).is_some_and(|text| text.raw_str().contains(TOOL));
    let cut = choices.items().next().and_then(|choice| choice.get("finish_reason")).is_some_and(|reason| reason.is_text("length"));
    match () {
        // Reasoning isn't an answer: only the content is checked for a leaked call.
        () if says("content") => ProbeResult::Known(ToolCalling::TextLeak, "it writes the call as text".into()),
        () if cut => ProbeResult::Cut(format!("it wrote {TOKENS_MAX} tokens and no call: it may think for longer")),
        () => ProbeResult::Known(ToolCalling::No, "it answers in words, though a call was required".into()),
    }
}

fn of_error(status: u16, body: &[u8]) -> ProbeResult {
    let error = Reported::read(body).unwrap_or_default();
    match lesson(status, &error) {
        Some(LearnedQuirk::NoTools) => ProbeResult::Known(ToolCalling::No, "tools are refused".into()),
        Some(LearnedQuirk::Refuses(path)) => ProbeResult::Refuses(path),
        // Not learnt for callers' requests, which keep their own limit.
        None if matches!(status, 400 | 422) && refused_limit(&error).is_some() => {
            ProbeResult::Refuses(refused_limit(&error).unwrap_or("max_tokens"))
        }
        None if error.message.trim().is_empty() => ProbeResult::Open(format!("status {status}")),
        None => ProbeResult::Open(format!("status {status}: {}", cut(error.message.trim(), SAID_BYTES_MAX))),
    }
}

/// The length limit that an error concerns: the one that it names first.
fn refused_limit(error: &Reported) -> Option<&'static str> {
    let place = |name: &&'static str| error.message.find(*name).or_else(|| (error.param.as_deref() == Some(*name)).then_some(usize::MAX));
    LIMITS.into_iter().filter(|name| place(name).is_some()).min_by_key(place)
}

/// Parameters that limit the length of an answer.
pub const LIMITS: [&str; 2] = ["max_tokens", "max_completion_tokens"];

/// `[[upstreams]] probe`
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ProbeSchedule {
    /// No probes.
    #[default]
    Off,
    /// At startup, and before the first use of a new model.
    Startup,
    /// Like `Startup`, and then at this interval.
    Every(Duration),
}

impl ProbeSchedule {
    /// Returns whether probes are sent at all.
    pub fn asks(self) -> bool {
        self != Self::Off
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_question_is_a_request() {
        for refused in [&[][..], &["tool_choice"]] {
            let value: serde_json::Value = serde_json::from_str(&question("a \"b\"", refused)).unwrap();
            assert_eq!((&value["model"], &value["tools"][0]["function"]["name"]), (&"a \"b\"".into(), &TOOL.into()));
            assert_eq!(value.get("tool_choice").is_some(), refused.is_empty());
            assert_eq!(value["max_tokens"], TOKENS_MAX);
        }
        for (refused, limits) in
            [(&["max_tokens"][..], [false, true]), (&["max_tokens", "max_completion_tokens"], [false, false]), (&[], [true, false])]
        {
            let value: serde_json::Value = serde_json::from_str(&question("m", refused)).unwrap();
            assert_eq!(["max_tokens", "max_completion_tokens"].map(|name| value.get(name).is_some()), limits);
        }
    }

    #[test]
    fn findings() {
        let yes = || ProbeResult::Known(ToolCalling::Yes, String::new());
        let known = |calls, why: &str| ProbeResult::Known(calls, why.into());
        let message = |message: &str| format!(r#"{{"choices":[{{"index":0,"message":{message},"finish_reason":"stop"}}]}}"#);
        for (status, body, expected) in [
            (200, message(r#"{"tool_calls":[{"id":"","type":"function","function":{"name":"toolmark_probe","arguments":"{}"}}]}"#), yes()),
            (200, message(r#"{"content":null,"tool_calls":[{"name":"toolmark_probe","arguments":{}}]}"#), yes()),
            (200, message(r#"{"content":"I am ready."}"#), known(ToolCalling::No, "it answers in words, though a call was required")),
            (
                200,
                message(r#"{"content":"<tool_call>{\"name\":\"toolmark_probe\"}</tool_call>"}"#),
                known(ToolCalling::TextLeak, "it writes the call as text"),
            ),
            (
                200,
                message(r#"{"content":"","reasoning":"I should call toolmark_probe"}"#),
                known(ToolCalling::No, "it answers in words, though a call was required"),
            ),
            (200, message(r#"{"tool_calls":[{"function":{"name":"other"}}]}"#), yes()),
            (200, "<html>".into(), ProbeResult::Open("its answer is no JSON".into())),
            (200, "{}".into(), ProbeResult::Open("its answer has no choices".into())),
            (200, r#"{"error":{"message":"busy","code":503}}"#.into(), ProbeResult::Open("status 503: busy".into())),
            (401, r#"{"error":{"message":"bad key"}}"#.into(), ProbeResult::Open("status 401: bad key".into())),
            (
                200,
                r#"{"choices":[{"message":{"content":"","reasoning":"Let me"},"finish_reason":"length"}]}"#.into(),
                ProbeResult::Cut("it wrote 512 tokens and no call: it may think for longer".into()),
            ),
            (
                400,
                r#"{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.","param":"max_tokens"}}"#.into(),
                ProbeResult::Refuses("max_tokens"),
            ),
            (400, r#"{"error":{"message":"max_completion_tokens: unknown field"}}"#.into(), ProbeResult::Refuses("max_completion_tokens")),
            (429, String::new(), ProbeResult::Open("status 429".into())),
            (400, r#"{"message":"tool_choice required is not supported"}"#.into(), ProbeResult::Refuses("tool_choice")),
            (400, r#"{"error":{"message":"m does not support tools"}}"#.into(), known(ToolCalling::No, "tools are refused")),
        ] {
            assert_eq!(finding(status, body.as_bytes()), expected, "{body}");
        }
    }
}
