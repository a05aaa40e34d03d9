//! Fixed environment of the targets: keys, the built-in policies, two policies with all corrections and with none, and a conversation in
//! which one tool ran.

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};

use crate::{
    exchange::{
        active_policy::Standard,
        context::{Begun, Upstream},
    },
    marks::{KeyRing, MarkTime, Scope},
    openai::Api,
    policy::{Correction, Policy, load::PolicySource},
    replay::offline::{Bench, HELD_BYTES_MAX, When},
    responses::request::Recalled,
    wire::json::Document,
};

/// Tool that ran in the conversation.
pub(super) const TOOL: &str = "run_speed_test";
/// An execution ID in toolmark's form that was not issued.
pub(super) const FORGED: &str = "run_speed_test_1700000000000_deadbeefdeadbeef";
/// Time at which the tool ran, and the mark time of each call that is sent.
pub(super) const MOMENT: MarkTime = MarkTime { time_ms: 1_700_000_000_000, counter: 7 };
const ARGUMENTS: &str = r#"{"server":"a"}"#;

/// Policy that a target judges by.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum By {
    Default,
    Strict,
    Observe,
    /// The default policy with every correction.
    Correcting,
    /// The default policy without corrections.
    Exact,
}

impl By {
    /// Chooses among all but `Exact`, by the lowest two bits.
    pub fn of(flags: u8) -> Self {
        [Self::Default, Self::Strict, Self::Observe, Self::Correcting][usize::from(flags & 3)]
    }

    /// The bench with this policy.
    pub fn bench(self) -> &'static Bench {
        static ALL: LazyLock<[Bench; 5]> = LazyLock::new(|| {
            use Correction::{Name, NullOptional, Parameters, Syntax, Types};
            let correcting = |policy: &mut Policy| policy.calls.corrections = vec![Syntax, Name, Types, NullOptional, Parameters];
            [
                bench(PolicySource::Default, |_| {}),
                bench(PolicySource::Strict, |_| {}),
                bench(PolicySource::Observe, |_| {}),
                bench(PolicySource::Default, correcting),
                bench(PolicySource::Default, |policy| policy.calls.corrections.clear()),
            ]
        });
        &ALL[self as usize]
    }
}

fn bench(source: PolicySource, change: impl Fn(&mut Policy)) -> Bench {
    let made = source.load().ok().and_then(|mut rules| {
        change(&mut rules.policy);
        Standard::new(rules, HELD_BYTES_MAX).ok()
    });
    assert!(made.is_some(), "a built-in policy can't be used");
    let standard = Arc::new(made.into_iter().next().unwrap_or_else(|| std::process::abort()));
    Bench { standard, ring: Arc::new(KeyRing::new(&[[7; 32]])), schemas: Arc::default() }
}

/// Metadata of an exchange that follows the run of [`TOOL`].
pub(super) fn when() -> When {
    When { id: uuid::Uuid::nil(), scope: Scope::shared(), now_ms: MOMENT.time_ms + 1000, upstream: Upstream::default() }
}

/// Begins an exchange; `None` if its request is refused.
pub(super) fn begin(by: By, api: Api, request: &Document) -> Option<Begun> {
    by.bench().begin(api, request, &when(), &Recalled::default()).ok()
}

/// The tools of the targets' conversation, in the form of chat completions.
fn tools() -> Value {
    let function = |name: &str, parameters: Value| json!({"type": "function", "function": {"name": name, "parameters": parameters}});
    json!([
        function(TOOL, json!({"type": "object", "properties": {"server": {"type": "string"}, "runs": {"type": ["integer", "null"]}}, "required": ["server"]})),
        function("book", json!({
            "type": "object", "additionalProperties": false, "required": ["city", "nights"],
            "properties": {
                "city": {"enum": ["Paris", "Rome"]}, "nights": {"type": "integer", "minimum": 1}, "smoker": {"type": "boolean"},
                "guests": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}},
                "code": {"type": "string", "pattern": "^[A-Z]{2}[0-9]+$"}
            }
        })),
        {"type": "function", "function": {"name": "check_net"}}
    ])
}

/// A request in which [`TOOL`] ran once. `user`: the user's message; `result`: the tool's result.
pub(super) fn request(api: Api, user: &str, result: &str) -> Document {
    let mark = By::Default.bench().ring.mint(&Scope::shared(), TOOL, ARGUMENTS, MOMENT);
    let request = match api {
        Api::Chat => json!({"model": "m", "tools": tools(), "messages": [
            {"role": "user", "content": user},
            {"role": "assistant", "content": null, "tool_calls": [{"id": mark, "type": "function", "function": {"name": TOOL, "arguments": ARGUMENTS}}]},
            {"role": "tool", "tool_call_id": mark, "content": result},
        ]}),
        Api::Messages => {
            let tool = |tool: &Value| {
                let own = &tool["function"];
                let schema = own.get("parameters").cloned().unwrap_or_else(|| json!({"type": "object"}));
                json!({"name": own["name"], "input_schema": schema})
            };
            let tools: Vec<Value> = tools().as_array().into_iter().flatten().map(tool).collect();
            let input: Value = serde_json::from_str(ARGUMENTS).unwrap_or_default();
            json!({"model": "m", "max_tokens": 9, "tools": tools, "messages": [
                {"role": "user", "content": user},
                {"role": "assistant", "content": [{"type": "tool_use", "id": mark, "name": TOOL, "input": input}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": mark, "content": result}]},
            ]})
        }
        Api::Responses => {
            let flat = |tool: &Value| {
                let mut flat = tool["function"].clone();
                flat["type"] = json!("function");
                flat
            };
            let flat: Vec<Value> = tools().as_array().into_iter().flatten().map(flat).collect();
            json!({"model": "m", "store": false, "tools": flat, "input": [
                {"type": "message", "role": "user", "content": user},
                {"type": "function_call", "call_id": mark, "name": TOOL, "arguments": ARGUMENTS},
                {"type": "function_call_output", "call_id": mark, "output": result},
            ]})
        }
    };
    let document = Document::parse(request.to_string().into());
    assert!(document.is_ok(), "the targets' own request is no JSON");
    document.into_iter().next().unwrap_or_else(|| std::process::abort())
}

/// An issued execution ID and [`FORGED`]: see [`super::words`].
pub(super) fn words() -> Vec<String> {
    vec![By::Default.bench().ring.execution_id(&Scope::shared(), TOOL, MOMENT), FORGED.to_owned()]
}
