//! Fault injection for testing agents: failures of models and upstreams, chosen by rule and seed.
//!
//! Off unless `[[faults]]` is set. The same seed gives the same faults for the same sequence of requests. Pure.

use std::sync::LazyLock;

use regex::Regex;
use serde::Deserialize;

use crate::scripted_answer::{EncodedAnswer, ScriptedAnswer};
use toolmark_core::{openai::Api, wire::json::Document};

/// A kind of injected fault.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// The model calls a tool that doesn't exist.
    UnknownTool,
    /// The model calls a tool with arguments that aren't JSON.
    MalformedArguments,
    /// The model cites an execution that doesn't exist.
    ForgedCitation,
    /// All calls of the answer get the same id, `call_0`.
    WrongId,
    /// The answer breaks off in the middle.
    DroppedStream,
    /// The answer is sent a piece at a time, with pauses.
    SlowStream,
    /// The upstream answers HTTP 429.
    #[serde(rename = "429")]
    TooManyRequests,
}

impl FaultKind {
    /// Every kind.
    pub const ALL: [Self; 7] = [
        Self::UnknownTool,
        Self::MalformedArguments,
        Self::ForgedCitation,
        Self::WrongId,
        Self::DroppedStream,
        Self::SlowStream,
        Self::TooManyRequests,
    ];

    /// Name of the kind in settings, logs and cassettes.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UnknownTool => "unknown_tool",
            Self::MalformedArguments => "malformed_arguments",
            Self::ForgedCitation => "forged_citation",
            Self::WrongId => "wrong_id",
            Self::DroppedStream => "dropped_stream",
            Self::SlowStream => "slow_stream",
            Self::TooManyRequests => "429",
        }
    }
}

/// One rule of `[[faults]]`.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultRule {
    /// The fault to inject.
    pub kind: FaultKind,
    /// Probability for one request, from 0 to 1.
    pub probability: f64,
    /// Seed of the pseudorandom numbers.
    pub seed: u64,
    /// Also applies to repairs; otherwise only to first requests.
    pub repairs: bool,
}

/// The fault of the first rule that applies. `request`: counts upstream requests from 0; `repairs`: number of repairs of the exchange so far.
pub fn pick(rules: &[FaultRule], request: u64, repairs: u32) -> Option<FaultKind> {
    let falls = |rule: &&FaultRule| (rule.repairs || repairs == 0) && dice(rule.seed, request) < rule.probability;
    rules.iter().find(falls).map(|rule| rule.kind)
}

/// A pseudorandom number from 0, below 1. Source: Steele et al., "Fast splittable pseudorandom number generators" (SplitMix64).
fn dice(seed: u64, number: u64) -> f64 {
    let mut state = seed.wrapping_add((number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^= state >> 31;
    (state >> 11) as f64 / (1_u64 << 53) as f64
}

/// A synthetic response that replaces the upstream's.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SyntheticFault {
    /// The HTTP status.
    pub status: u16,
    /// Content type and body.
    pub answer: EncodedAnswer,
}

/// The synthetic response for a fault; `None` if the request has no tools to build it from, and for faults that modify real
/// answers.
pub fn made(kind: FaultKind, api: Api, request: &Document) -> Option<SyntheticFault> {
    let root = request.root();
    let tool = || {
        let tool = root.get("tools")?.items().next()?;
        let name = tool.get("function").unwrap_or(tool).get("name")?.text()?;
        Some(name.into_owned())
    };
    let call =
        |tool: String, arguments: &str| ScriptedAnswer { text: None, calls: vec![("call_fault".to_owned(), tool, arguments.to_owned())] };
    let saying = match kind {
        FaultKind::UnknownTool => call(format!("{}_v2", tool()?), "{}"),
        FaultKind::MalformedArguments => call(tool()?, "{\"broken\": "),
        FaultKind::ForgedCitation => {
            let text = format!("Done (execution_id: {}_1700000000000_0123456789abcdef).", tool()?);
            ScriptedAnswer { text: Some(text), calls: Vec::new() }
        }
        FaultKind::TooManyRequests => {
            let body = match api {
                Api::Messages => {
                    r#"{"type":"error","error":{"type":"rate_limit_error","message":"a fault on purpose: too many requests"}}"#
                }
                Api::Chat | Api::Responses => {
                    r#"{"error":{"message":"a fault on purpose: too many requests","type":"rate_limit_error","param":null,"code":"rate_limit_exceeded"}}"#
                }
            };
            let answer = EncodedAnswer { content_type: "application/json", pieces: vec![body.to_owned()] };
            return Some(SyntheticFault { status: 429, answer });
        }
        FaultKind::WrongId | FaultKind::DroppedStream | FaultKind::SlowStream => return None,
    };
    let model = root.get("model").and_then(|model| model.text()).unwrap_or_default();
    let answer = match root.get("stream").is_some_and(|stream| stream.raw_str() == "true") {
        true => saying.stream(api, &model, "fault"),
        false => saying.whole(api, &model, "fault"),
    };
    Some(SyntheticFault { status: 200, answer })
}

/// Ids of calls, before or after their type; the Responses API has a separate member for them.
static CHAT_IDS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r#"("type"\s*:\s*"(?:function|custom)"\s*,\s*)?"id"\s*:\s*"[^"]*"(\s*,\s*"(?:type|function|custom|index)"\s*:)?"#).ok()
});
static TOOL_USE_IDS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r#"("type"\s*:\s*"tool_use"\s*,\s*)"id"\s*:\s*"[^"]*""#).ok());
static CALL_IDS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r#""call_id"\s*:\s*"[^"]*""#).ok());

/// Replaces the ids of all calls by `call_0`. `answer`: JSON, or the events of a stream.
pub fn with_wrong_ids(answer: &str, api: Api) -> String {
    let changed = match api {
        Api::Responses => CALL_IDS.as_ref().map(|ids| ids.replace_all(answer, r#""call_id":"call_0""#).into_owned()),
        Api::Messages => TOOL_USE_IDS.as_ref().map(|ids| ids.replace_all(answer, r#"${1}"id":"call_0""#).into_owned()),
        Api::Chat => CHAT_IDS.as_ref().map(|ids| {
            let replace = |hit: &regex::Captures<'_>| match (hit.get(1), hit.get(2)) {
                // The answer's own id.
                (None, None) => hit[0].to_owned(),
                (before, behind) => {
                    let text = |part: Option<regex::Match<'_>>| part.map_or(String::new(), |part| part.as_str().to_owned());
                    format!(r#"{}"id":"call_0"{}"#, text(before), text(behind))
                }
            };
            ids.replace_all(answer, replace).into_owned()
        }),
    };
    changed.unwrap_or_else(|| answer.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: &str = r#"{"model":"m","stream":true,"tools":[{"type":"function","function":{"name":"get_weather"}}]}"#;

    #[test]
    fn as_often_as_asked_and_the_same_each_time() {
        let rule = |probability: f64| vec![FaultRule { kind: FaultKind::UnknownTool, probability, seed: 7, repairs: false }];
        let count = |probability: f64| (0..10_000).filter(|number| pick(&rule(probability), *number, 0).is_some()).count();
        assert_eq!((count(0.0), count(1.0)), (0, 10_000));
        let some = count(0.2);
        assert!((1800..2200).contains(&some), "{some}");
        assert_eq!(some, count(0.2));
        assert_eq!(pick(&rule(1.0), 3, 1), None, "not where the model is asked again");
        assert_eq!(pick(&[FaultRule { repairs: true, ..rule(1.0).remove(0) }], 3, 1), Some(FaultKind::UnknownTool));
    }

    #[test]
    fn answers_of_both_apis() {
        let document = Document::parse(REQUEST.into()).unwrap();
        let flat = REQUEST.replace(r#""function":{"name":"get_weather"}"#, r#""name":"get_weather""#);
        let responses = Document::parse(flat.into()).unwrap();
        let without = Document::parse(r#"{"model":"m"}"#.into()).unwrap();
        for kind in FaultKind::ALL {
            let made = made(kind, Api::Chat, &document);
            assert_eq!(made.is_none(), matches!(kind, FaultKind::WrongId | FaultKind::DroppedStream | FaultKind::SlowStream), "{kind:?}");
            let on_responses = super::made(kind, Api::Responses, &responses);
            assert_eq!(on_responses.is_none(), made.is_none());
            let quiet = super::made(kind, Api::Chat, &without);
            assert_eq!(quiet.is_some(), kind == FaultKind::TooManyRequests, "{kind:?}");
        }
        let chunks = made(FaultKind::UnknownTool, Api::Chat, &document).unwrap();
        let (body, kind) = (chunks.answer.pieces.concat(), chunks.answer.content_type);
        assert!(body.contains("get_weather_v2") && body.ends_with("data: [DONE]\n\n") && kind == "text/event-stream");
    }

    #[test]
    fn only_the_ids_of_calls_become_wrong() {
        let chat = r#"{"id":"chatcmpl-1","object":"x","tool_calls":[{"id":"a","type":"function"},{"index":1, "id": "b" , "function":{}},{"type":"function","id":"c"}]}"#;
        let expected = r#"{"id":"chatcmpl-1","object":"x","tool_calls":[{"id":"call_0","type":"function"},{"index":1, "id":"call_0" , "function":{}},{"type":"function","id":"call_0"}]}"#;
        assert_eq!(with_wrong_ids(chat, Api::Chat), expected);
        assert_eq!(
            with_wrong_ids(r#"{"id":"fc_1","type":"function_call","call_id":"a"}"#, Api::Responses),
            r#"{"id":"fc_1","type":"function_call","call_id":"call_0"}"#
        );
    }
}
