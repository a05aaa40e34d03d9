//! A conversation in which tools ran, and an answer's judgement in it, through the product's own core.

use std::sync::Arc;

use serde_json::{Value, json};
use toolmark::{
    chat::request::{self, Head},
    exchange::active_policy::Standard,
    exchange::context::{Basis, Context, Upstream},
    judge::text::TextGate,
    marks::{KeyRing, MarkTime, Scope},
    policy::load::PolicySource,
    tools::registry::SchemaCache,
    violation::{Code, Violation},
    wire::json::Document,
};

const NOW_MS: u64 = 1_795_304_000_000;

/// A tool and, where it ran, what it returned.
#[derive(Clone, Debug)]
pub struct Ran {
    pub tool: String,
    pub about: String,
    pub arguments: String,
    pub result: Option<String>,
}

/// The policy, the keys and the schemas.
pub struct World {
    standard: Standard,
    ring: Arc<KeyRing>,
    schemas: Arc<SchemaCache>,
}

impl World {
    /// Under the strict policy: whatever is found blocks.
    pub fn new() -> Self {
        Self::under(&PolicySource::Strict)
    }

    /// Under one of the product's policies.
    pub fn under(policy: &PolicySource) -> Self {
        let rules = policy.load().expect("a policy");
        let standard = Standard::new(rules, 1 << 20).expect("a policy");
        Self { standard, ring: Arc::new(KeyRing::new(&[[1; 32]])), schemas: Arc::default() }
    }

    /// The execution ID of the call with this number.
    pub fn id(&self, tool: &str, number: u16) -> String {
        self.ring.execution_id(&Scope::shared(), tool, MarkTime { time_ms: NOW_MS, counter: number })
    }

    /// The exchange after these tools ran.
    pub fn context(&self, ran: &[Ran], asked: &str) -> Arc<Context> {
        let mut messages = vec![json!({"role": "user", "content": asked})];
        let mut calls = Vec::new();
        for (tool, number) in ran.iter().zip(0..).filter(|(tool, _)| tool.result.is_some()) {
            let moment = MarkTime { time_ms: NOW_MS, counter: number };
            let mark = self.ring.mint(&Scope::shared(), &tool.tool, &tool.arguments, moment);
            calls.push((mark, tool));
        }
        if !calls.is_empty() {
            let call = |(mark, tool): &(String, &Ran)| json!({"id": mark, "type": "function", "function": {"name": tool.tool, "arguments": tool.arguments}});
            messages.push(json!({"role": "assistant", "content": null, "tool_calls": calls.iter().map(call).collect::<Vec<Value>>()}));
            messages.extend(calls.iter().map(|(mark, tool)| json!({"role": "tool", "tool_call_id": mark, "content": tool.result})));
        }
        let tools: Vec<Value> =
            ran.iter().map(|tool| json!({"type": "function", "function": {"name": tool.tool, "description": tool.about}})).collect();
        self.exchange(&messages, &tools)
    }

    /// A call of this tool as a message has it, with a mark. `number`: of the call in its conversation.
    #[allow(dead_code, reason = "the integration tests share this file and judge no written cases")]
    pub fn call(&self, tool: &str, arguments: &str, number: u16) -> Value {
        let mark = self.ring.mint(&Scope::shared(), tool, arguments, MarkTime { time_ms: NOW_MS, counter: number });
        json!({"id": mark, "type": "function", "function": {"name": tool, "arguments": arguments}})
    }

    /// The exchange of a request with these messages and tools.
    pub fn exchange(&self, messages: &[Value], tools: &[Value]) -> Arc<Context> {
        let body = json!({"model": "m", "messages": messages, "tools": tools}).to_string();
        let document = Document::parse(body.into()).expect("JSON");
        let head = Head::read(&document).expect("a request");
        let rules = &self.standard.rules;
        let tools = self.standard.tools.get(head.brought(), &rules.policy, &rules.checks, &self.schemas).expect("tools");
        let basis = Basis {
            id: uuid::Uuid::nil(),
            rules,
            call_rules: &self.standard.calls,
            natures: &self.standard.natures,
            text: &self.standard.text,
            ring: &self.ring,
            scope: Scope::shared(),
            tools,
            schemas: &self.schemas,
            now_ms: NOW_MS + 1000,
            upstream: Upstream::default(),
            protocol: self.standard.protocol.as_deref(),
            held_bytes_max: 1 << 20,
            beyond: Default::default(),
            prefix: Default::default(),
        };
        request::begin(&document, &head, basis).expect("a request").context
    }
}

/// What is wrong with an answer, taken in pieces of so many characters.
pub fn judge(context: &Context, answer: &str, characters: usize) -> Vec<Code> {
    violations(context, answer, characters).iter().map(|violation| violation.code).collect()
}

/// What is wrong with an answer, explained.
pub fn violations(context: &Context, answer: &str, characters: usize) -> Vec<Violation> {
    let mut gate = TextGate::new();
    let mut rest = answer;
    while !rest.is_empty() {
        let (piece, further) = rest.split_at(rest.char_indices().nth(characters.max(1)).map_or(rest.len(), |(at, _)| at));
        context.feed(&mut gate, piece);
        rest = further;
    }
    context.close(&mut gate);
    gate.violations().to_vec()
}
