//! What tests of answers start with: a context as the request's adapter would make it, without a request.

use std::{path::Path, sync::Arc};

use bytes::Bytes;

use crate::{
    exchange::active_policy::Standard,
    exchange::{
        context::{Basis, Begun, Context, Prepared, Upstream},
        conversation::Hidden,
        conversation::request_prefix::PreparedBody,
        evidence::material::Material,
        tool_set::{Brought, Dialect},
    },
    judge::{
        call::turn::ToolChoice,
        history::{Execution, ExecutionProof},
    },
    marks::{KeyRing, MarkTime, Scope},
    policy::load::PolicySource,
    tools::registry::SchemaCache,
    wire::json::Document,
};

/// Ran once in every conversation; see [`TOOLS`].
pub(super) const TOOL: &str = "run_speed_test";
/// When it ran, and when every call of these tests is let through.
pub(super) const MOMENT: MarkTime = MarkTime { time_ms: 1_760_000_000_000, counter: 7 };
/// A function with a required parameter, one without, a custom tool, a namespace and a tool that the upstream runs.
pub(super) const TOOLS: &str = r#"[
    {"type":"function","name":"run_speed_test","parameters":{"type":"object","properties":{"server":{"type":"string"}},"required":["server"]}},
    {"type":"function","name":"check_net"},
    {"type":"custom","name":"note"},
    {"type":"namespace","name":"crm","tools":[{"type":"function","name":"find","parameters":{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"]}}]},
    {"type":"web_search"}
]"#;

/// A policy, by its built-in name, and the keys.
pub(super) struct Bench {
    pub standard: Standard,
    pub ring: Arc<KeyRing>,
    schemas: Arc<SchemaCache>,
}

impl Bench {
    pub fn new(policy: &str) -> Self {
        let rules = PolicySource::choose(Some(policy), Path::new(".")).load().unwrap();
        Self { standard: Standard::new(rules, 1 << 20).unwrap(), ring: Arc::new(KeyRing::new(&[[7; 32]])), schemas: Arc::default() }
    }

    /// The execution ID of [`TOOL`]'s one run.
    pub fn execution_id(&self) -> String {
        self.ring.execution_id(&Scope::shared(), TOOL, MOMENT)
    }

    /// An exchange whose request brings these tools; the upstream keeps it, unless `more` says otherwise.
    pub fn context(&self, tools_json: &str, more: impl Fn(&mut Prepared)) -> Arc<Context> {
        let request = format!(r#"{{"model":"m","input":"go","tools":{tools_json}}}"#);
        let document = Document::parse(Bytes::from(request)).unwrap();
        let rules = &self.standard.rules;
        let brought = Brought { dialect: Dialect::Flat, array: document.root().get("tools"), further: &[] };
        let tools = self.standard.tools.get(brought, &rules.policy, &rules.checks, &self.schemas).unwrap();
        let (id, tool, mark, result) = (self.execution_id().into(), TOOL.into(), String::new(), [0; 32]);
        let proof = Arc::new(ExecutionProof { id, tool, moment: MOMENT, failed: false, mark, result });
        let ran = Execution { proof, recent: false, expired: false, item: 0 };
        let mut prepared = Prepared {
            body: PreparedBody { rope: document.bytes().clone().into(), known: None },
            tool_choice: ToolChoice::Auto,
            parallel: None,
            executions: vec![ran],
            succeeded: vec![TOOL.to_owned()],
            trail: Vec::new(),
            evidence: Material::default(),
            violations: Vec::new(),
            json_only: false,
            choices: 1,
            hidden: Hidden { store: true, ..Hidden::default() },
            data_of: |request| request.root().get("input").and_then(|input| input.text()).into_iter().map(Into::into).collect(),
            exhibits_of: |_, _| Default::default(),
        };
        more(&mut prepared);
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
        Begun::new(&document, prepared, basis).context
    }
}
