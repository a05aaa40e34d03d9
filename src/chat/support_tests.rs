//! What tests of this adapter start with: a context as [`crate::proxy`] makes it, without a proxy.

use std::{
    path::Path,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;

use super::{
    context::Context,
    request::{self, Head, Inputs, Prepared, Refusal, Upstream},
};
use crate::{
    judge::{
        call_turn::TurnRules,
        marks::{KeyRing, Moment, Scope},
        registry::SchemaCache,
    },
    policy::load::PolicySource,
    proxy::app::Standard,
    wire::json::Document,
};

pub(super) const TOOL: &str = "run_speed_test";
pub(super) const MOMENT: Moment = Moment { time_ms: 1_700_000_000_000, counter: 7 };

/// A policy, by its built-in name, and the keys.
pub(super) struct Bench {
    pub standard: Standard,
    pub ring: Arc<KeyRing>,
    schemas: SchemaCache,
}

impl Bench {
    pub fn new(policy: &str) -> Self {
        let rules = PolicySource::choose(Some(policy), Path::new(".")).load().unwrap();
        Self { standard: Standard::new(rules, 1 << 20).unwrap(), ring: Arc::new(KeyRing::new(&[[7; 32]])), schemas: SchemaCache::default() }
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

    /// What goes upstream for a request, and what its answer is judged by.
    pub fn prepare(&self, request: &[u8]) -> Result<(Prepared, Context), Refusal> {
        let unread = |error| Refusal { code: "invalid_json", message: format!("{error}"), param: None };
        let document = Document::parse(Bytes::copy_from_slice(request)).map_err(unread)?;
        let head = Head::read(&document)?;
        let rules = &self.standard.rules;
        let tools = self.standard.tools.get(head.tools, head.functions, &rules.policy, &rules.checks, &self.schemas)?;
        let scope = Scope::shared();
        let inputs = Inputs {
            rules,
            ring: &self.ring,
            scope: &scope,
            now_ms: MOMENT.time_ms + 1000,
            upstream: Upstream::default(),
            protocol: "\"Use tools honestly.\"",
        };
        let prepared = request::prepare(&document, &head, &tools, &inputs)?;
        let mut text = self.standard.text.clone();
        (text.json_only, text.has_tools) = (head.json_only, tools.any || !prepared.executions.is_empty());
        let context = Context {
            rules: rules.clone(),
            call_rules: self.standard.calls.clone(),
            ring: self.ring.clone(),
            scope: scope.clone(),
            turn: TurnRules { tool_choice: prepared.tool_choice.clone(), parallel_tool_calls: prepared.parallel, ..TurnRules::default() },
            executions: prepared.executions.clone(),
            succeeded: prepared.succeeded.clone(),
            text,
            json_only: head.json_only,
            choices: head.choices,
            held_bytes_max: 1 << 20,
            request: document.clone(),
            data: OnceLock::new(),
            tools,
        };
        Ok((prepared, context))
    }
}
