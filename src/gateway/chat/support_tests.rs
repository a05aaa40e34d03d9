//! What tests of this adapter start with: a context as `proxy/` makes it, without a proxy.

use std::{path::Path, sync::Arc};

use bytes::Bytes;

use super::request::{self, Head};
use crate::{
    exchange::active_policy::Standard,
    exchange::{
        context::{Basis, Begun, Upstream},
        error::Refusal,
    },
    marks::{KeyRing, MarkTime, Scope},
    policy::load::PolicySource,
    tools::registry::SchemaCache,
    wire::json::Document,
};

pub(super) const TOOL: &str = "run_speed_test";
pub(super) const MOMENT: MarkTime = MarkTime { time_ms: 1_700_000_000_000, counter: 7 };

/// A policy, by its built-in name, and the keys.
pub(super) struct Bench {
    pub standard: Standard,
    pub ring: Arc<KeyRing>,
    schemas: Arc<SchemaCache>,
}

impl Bench {
    pub fn new(policy: &str) -> Self {
        Self::made(policy, |_| {})
    }

    /// The default policy, changed.
    pub fn with(change: impl Fn(&mut crate::policy::Policy)) -> Self {
        Self::made("default", change)
    }

    fn made(policy: &str, change: impl Fn(&mut crate::policy::Policy)) -> Self {
        let mut rules = PolicySource::choose(Some(policy), Path::new(".")).load().unwrap();
        change(&mut rules.policy);
        Self { standard: Standard::new(rules, 1 << 20).unwrap(), ring: Arc::new(KeyRing::new(&[[7; 32]])), schemas: Arc::default() }
    }

    /// A conversation in which [`TOOL`] ran once; `more`: further members of the request.
    pub fn request(&self, more: &str) -> String {
        let mark = self.ring.mint(&Scope::shared(), TOOL, r#"{"server":"a"}"#, MOMENT);
        let parameters = r#"{"type":"object","properties":{"server":{"type":"string"}},"required":["server"]}"#;
        format!(
            r#"{{"model":"m","messages":[{{"role":"user","content":"go"}},{{"role":"assistant","content":null,"tool_calls":[{{"id":"{mark}","type":"function","function":{{"name":"{TOOL}","arguments":"{{\"server\":\"a\"}}"}}}}]}},{{"role":"tool","tool_call_id":"{mark}","content":"{{\"mbit\": 90}}"}}],"tools":[{{"type":"function","function":{{"name":"{TOOL}","parameters":{parameters}}}}},{{"type":"function","function":{{"name":"check_net"}}}}]{more}}}"#
        )
    }

    /// The execution ID of that run.
    pub fn execution_id(&self) -> String {
        self.ring.execution_id(&Scope::shared(), TOOL, MOMENT)
    }

    /// An exchange that begins with this request.
    pub fn begin(&self, request: &[u8]) -> Result<Begun, Refusal> {
        let unread = |error| Refusal::new("invalid_json", None, format!("{error}"));
        let document = Document::parse(Bytes::copy_from_slice(request)).map_err(unread)?;
        let head = Head::read(&document)?;
        let rules = &self.standard.rules;
        let tools = self.standard.tools.get(head.brought(), &rules.policy, &rules.checks, &self.schemas)?;
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
            upstream: Upstream::default(),
            protocol: Some("\"Use tools honestly.\""),
            held_bytes_max: 1 << 20,
            beyond: Default::default(),
            prefix: Default::default(),
        };
        request::begin(&document, &head, basis)
    }
}
