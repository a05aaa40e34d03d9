//! Thousands of bad calls with every correction allowed: what is saved without asking the model is the very call that
//! the bad one was made from.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use bytes::Bytes;
use serde_json::{Map, Value, json};
use toolmark::{
    chat::{
        adapter::Chat,
        request::{self, Head},
    },
    exchange::active_policy::Standard,
    exchange::{
        adapter::{Adapter, WholeAnswer as _},
        context::{Basis, Context, Upstream},
        decision::ChoiceOutcome,
    },
    judge::loops::ExternalCounts,
    marks::{KeyRing, MarkTime, Scope},
    policy::load::PolicySource,
    tools::registry::SchemaCache,
    wire::json::Document,
};

use crate::wire;

const ALL: &str = "[calls]\ncorrections = ['syntax', 'name', 'types', 'null_optional', 'parameters']\n";

/// Kinds that are labelled `reject` and are right as they are: two calls with one id, which marks mend.
const PASSES: [&str; 1] = ["duplicate_id"];

/// The judge of a policy.
struct Bench {
    standard: Standard,
    ring: Arc<KeyRing>,
    schemas: Arc<SchemaCache>,
}

impl Bench {
    fn new(policy: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("policy.toml");
        std::fs::write(&path, policy).unwrap();
        let rules = PolicySource::File(path).load().unwrap();
        Self { standard: Standard::new(rules, 1 << 20).unwrap(), ring: Arc::new(KeyRing::new(&[[7; 32]])), schemas: Arc::default() }
    }

    fn context(&self, messages: &Value, tools: &Value) -> Arc<Context> {
        let request = json!({"model": "m", "messages": messages, "tools": tools}).to_string();
        let document = Document::parse(Bytes::from(request)).unwrap();
        let head = Head::read(&document).unwrap();
        let rules = &self.standard.rules;
        let tools = self.standard.tools.get(head.brought(), &rules.policy, &rules.checks, &self.schemas).unwrap();
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
            now_ms: 1_763_760_000_000,
            upstream: Upstream::default(),
            protocol: None,
            held_bytes_max: 1 << 20,
            beyond: ExternalCounts::default(),
            prefix: Default::default(),
        };
        request::begin(&document, &head, basis).unwrap().context
    }

    /// What becomes of these calls: as they leave, with the codes of what was found; `None` where they don't.
    fn judge(&self, context: &Context, calls: &[Value]) -> Option<(Vec<Value>, Vec<&'static str>)> {
        let message = json!({"role": "assistant", "content": null, "tool_calls": calls});
        let choice = json!({"index": 0, "message": message, "finish_reason": "tool_calls"});
        let body = json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}).to_string();
        let answer = <Chat as Adapter>::Answer::read(Bytes::from(body), context).ok()?;
        let judged = answer.judge(context, context.first_attempt()).pop().unwrap();
        let codes = judged.violations().map(|violation| violation.code.as_str()).collect();
        let calls = judged.turn.into_calls().ok()?;
        let moment = |at: usize| MarkTime { time_ms: 1_763_760_000_000, counter: at as u16 };
        let calls = calls.into_iter().enumerate().map(|(at, call)| (call, moment(at))).collect();
        let written = answer.write(vec![ChoiceOutcome::Accept(calls)], context, None, None);
        let left: Value = serde_json::from_slice(&written.body).unwrap();
        let left = left["choices"][0]["message"]["tool_calls"].as_array().cloned().unwrap_or_default();
        for call in &left {
            let (id, function) = (call["id"].as_str().unwrap(), &call["function"]);
            let (name, arguments) = (function["name"].as_str().unwrap(), function["arguments"].as_str().unwrap());
            let mark = toolmark::marks::CallMark::parse(id).unwrap();
            assert!(
                self.ring.verify(&mark, &Scope::shared(), name, arguments).is_some(),
                "{call}: the mark is that of the call that leaves"
            );
        }
        Some((left.iter().map(|call| call["function"].clone()).collect(), codes))
    }
}

/// A call as JSON: its name, and its arguments as an object.
fn meant(function: &Value) -> (String, Map<String, Value>) {
    let arguments = &function["arguments"];
    let parsed = arguments.as_str().map_or_else(|| Ok(arguments.clone()), serde_json::from_str);
    (function["name"].as_str().unwrap_or_default().to_owned(), parsed.ok().and_then(|value| value.as_object().cloned()).unwrap_or_default())
}

/// The same values, whether numbers have a fraction of nothing or not.
fn same(a: &Map<String, Value>, b: &Map<String, Value>) -> bool {
    let canonical = |map: &Map<String, Value>| toolmark::wire::json::canonical::canonical(&json!(map).to_string());
    canonical(a) == canonical(b)
}

#[test]
fn what_is_saved_is_what_was_meant() {
    let Some(mutants) = wire::recorded("bfcl_mutants.jsonl") else { return };
    let bases: HashMap<String, Value> =
        wire::recorded("bfcl.jsonl").unwrap().into_iter().map(|base| (base["id"].as_str().unwrap().to_owned(), base)).collect();
    let bench = Bench::new(ALL);
    let (mut table, mut wrong, mut saved, mut rejects) = (BTreeMap::<&str, [usize; 2]>::new(), Vec::new(), 0, 0);
    let mut contexts = HashMap::new();
    for mutant in &mutants {
        let base = &bases[mutant["base_id"].as_str().unwrap()];
        let mut tools = base["tools"].clone();
        if let Some(other) = mutant.get("tools_override") {
            let own = tools.as_array_mut().unwrap().iter_mut().find(|tool| tool["function"]["name"] == other["name"]);
            own.unwrap()["function"]["parameters"] = other["parameters"].clone();
        }
        let (kind, at) = (mutant["kind"].as_str().unwrap(), mutant["call_index"].as_u64().unwrap() as usize);
        let calls = mutant["tool_calls"].as_array().unwrap();
        let context =
            contexts.entry((mutant["base_id"].to_string(), tools.to_string())).or_insert_with(|| bench.context(&base["messages"], &tools));
        let judged = bench.judge(context, calls);
        let corrected = |codes: &[&str]| codes.iter().any(|code| code.starts_with("corrected_"));
        if let Some((left, codes)) = &judged
            && !corrected(codes)
        {
            // What passes by itself passes unchanged.
            let unchanged = |(left, sent): (&Value, &Value)| meant(left) == meant(&sent["function"]);
            if mutant["expect"] == "reject" && !PASSES.contains(&kind) || !left.iter().zip(calls).all(unchanged) {
                wrong.push(format!("{}: it passed, {codes:?}: {left:?}", mutant["id"]));
            }
            continue;
        }
        rejects += 1;
        let row = table.entry(kind).or_default();
        row[1] += 1;
        let Some((left, codes)) = judged else { continue };
        (saved, row[0]) = (saved + 1, row[0] + 1);
        let (name, mut arguments) = meant(&base["valid_calls"][at]);
        // What stood where the null is, nobody knows any more.
        let (_, sent) = meant(&calls[at]["function"]);
        arguments.retain(|name, _| !sent.get(name).is_some_and(Value::is_null));
        let own = meant(&left[at]);
        let others = (0..calls.len()).filter(|other| *other != at).all(|other| meant(&left[other]) == meant(&calls[other]["function"]));
        if own.0 != name || !same(&own.1, &arguments) || !others {
            wrong.push(format!("{}: {codes:?} {own:?} instead of {name} {arguments:?}", mutant["id"]));
        }
    }
    eprintln!("{saved} of {rejects} rejected calls are saved without asking the model: {table:#?}");
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    for kind in [
        "name_case",
        "name_prefix",
        "json_trailing_comma",
        "json_single_quotes",
        "json_code_fence",
        "json_concatenated",
        "number_or_bool_as_string",
        "required_renamed",
    ] {
        assert!(table[kind][0] > 0, "{kind}: {table:?}");
    }
    for kind in ["json_truncated", "name_plausible_other", "wrong_type", "missing_required", "enum_violation", "json_trailing_text"] {
        assert_eq!(table[kind][0], 0, "{kind} can't be told: {table:?}");
    }
}
