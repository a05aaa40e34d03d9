//! What tests of the request side start with: a policy, the keys, and what is remembered; without a proxy.

use std::{path::Path, sync::Arc};

use bytes::Bytes;
use serde_json::{Value, json};

use crate::{
    exchange::{
        active_policy::Standard,
        context::{Basis, Begun, Upstream},
        conversation::KnownCall,
        error::Refusal,
    },
    marks::{KeyRing, MarkTime, Scope},
    policy::{Policy, load::PolicySource},
    responses::request::{self, Head, Recalled},
    tools::registry::SchemaCache,
    wire::json::Document,
};

pub(in crate::responses) const TOOL: &str = "run_speed_test";
pub(in crate::responses) const MOMENT: MarkTime = MarkTime { time_ms: 1_763_760_000_000, counter: 7 };
pub(in crate::responses) const PROTOCOL: &str = "\"Use \\\"tools\\\" honestly.\"";
pub(in crate::responses) const TOOLS: &str = r#"[{"type":"function","name":"run_speed_test","parameters":{"type":"object"}},{"type":"web_search"},{"type":"namespace","name":"crm","tools":[{"type":"function","name":"find"}]}]"#;

/// A policy and the keys.
pub(in crate::responses) struct Bench {
    pub standard: Standard,
    pub ring: Arc<KeyRing>,
    pub upstream: Upstream,
    schemas: Arc<SchemaCache>,
}

impl Bench {
    /// The default policy, as `change` leaves it.
    pub fn new(change: impl Fn(&mut Policy)) -> Self {
        let mut rules = PolicySource::choose(Some("default"), Path::new(".")).load().unwrap();
        change(&mut rules.policy);
        let standard = Standard::new(rules, 1 << 20).unwrap();
        let ring = Arc::new(KeyRing::new(&[[7; 32]]));
        Self { standard, ring, upstream: Upstream::default(), schemas: Arc::default() }
    }

    /// The mark of a call of [`TOOL`] with `{}`, behind this id of the upstream's.
    pub fn mark(&self, upstream_id: &str) -> String {
        self.ring.mint_behind(upstream_id, &Scope::shared(), TOOL, "{}", MOMENT).unwrap()
    }

    /// The mark that hides the upstream's id.
    pub fn chat_mark(&self) -> String {
        self.ring.mint(&Scope::shared(), TOOL, "{}", MOMENT)
    }

    /// The execution ID of that call.
    pub fn execution_id(&self) -> String {
        self.ring.execution_id(&Scope::shared(), TOOL, MOMENT)
    }

    /// The line that stands in front of that call's result.
    pub fn stamp(&self) -> String {
        format!("[execution_id: {}]", self.execution_id())
    }

    /// An exchange that begins with this request.
    pub fn begin(&self, request: &[u8], recalled: &Recalled) -> Result<Begun, Refusal> {
        let unread = |error| Refusal::new("invalid_json", None, format!("{error}"));
        let document = Document::parse_noting(Bytes::copy_from_slice(request), request::DEPTH_NOTED, &[]).map_err(unread)?;
        let head = Head::read(&document)?;
        let rules = &self.standard.rules;
        let further = head.further_tools();
        let tools = self.standard.tools.get(head.brought(&further), &rules.policy, &rules.checks, &self.schemas)?;
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
            now_ms: MOMENT.time_ms + 1000,
            upstream: self.upstream,
            protocol: self.standard.protocol.as_ref().map(|_| PROTOCOL),
            held_bytes_max: 1 << 20,
            beyond: Default::default(),
            prefix: Default::default(),
        };
        request::begin(&document, &head, recalled, further, basis)
    }

    /// What goes upstream of this request; preparing that again changes nothing.
    #[track_caller]
    pub fn prepared(&self, request: &str, recalled: &Recalled) -> String {
        let body = self.begin(request.as_bytes(), recalled).unwrap().body.joined();
        let again = self.begin(&body, recalled).unwrap().body.joined();
        assert_eq!(String::from_utf8_lossy(&again), String::from_utf8_lossy(&body), "prepared twice");
        String::from_utf8(body.to_vec()).unwrap()
    }

    /// The codes of what is wrong with this request.
    #[track_caller]
    pub fn codes(&self, request: &str, recalled: &Recalled) -> Vec<&'static str> {
        let begun = self.begin(request.as_bytes(), recalled).unwrap();
        begun.violations.iter().map(|violation| violation.code.as_str()).collect()
    }
}

/// The default policy.
pub(in crate::responses) fn plain() -> Bench {
    Bench::new(|_| {})
}

/// Nothing was looked up.
pub(in crate::responses) fn none() -> Recalled {
    Recalled::default()
}

/// [`TOOL`]'s call, remembered.
pub(in crate::responses) fn known(mark: &str, upstream_id: &str) -> (String, KnownCall) {
    (
        mark.to_owned(),
        KnownCall {
            upstream_id: upstream_id.into(),
            tool: TOOL.into(),
            moment: MOMENT,
            digest: 0,
            arguments: "{}".into(),
            read_by_code: false,
        },
    )
}

pub(in crate::responses) fn call(id: &str) -> Value {
    json!({"type": "function_call", "call_id": id, "name": TOOL, "arguments": "{}"})
}

pub(in crate::responses) fn output(id: &str, output: &str) -> Value {
    json!({"type": "function_call_output", "call_id": id, "output": output})
}

/// A request with these items.
pub(in crate::responses) fn request(items: &[Value]) -> String {
    let items: Vec<String> = items.iter().map(Value::to_string).collect();
    format!(r#"{{"model":"m","input":[{}]}}"#, items.join(" , "))
}
