//! Loop control over whole runs: a model that never stops is ended, and recorded conversations never are.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use bytes::Bytes;
use serde_json::{Value, json};
use toolmark::{
    chat::request::{self, Head},
    exchange::active_policy::Standard,
    exchange::context::{AnswerNature, Basis, Begun, Upstream},
    judge::{
        call::{Arguments, Call, CallKind},
        loops::ExternalCounts,
    },
    marks::{KeyRing, MarkTime, Scope},
    policy::load::PolicySource,
    testing::ScriptedReply,
    tools::registry::SchemaCache,
    violation::Code,
    wire::json::Document,
};

use crate::{harness::Fixture, wire};

/// Requests that an application makes before the test gives up on it.
const TURNS_MAX: usize = 200;
/// As fast as recordings are taken to have been.
const TURN_MS: u64 = 2000;

/// Plays an application that runs every call, with a model that never stops calling. `arguments` and `result`: of the
/// call that the model makes for the n-th time. How many requests the application made, how many the upstream got, and
/// the last answer.
fn never_stops(
    policy: &str,
    arguments: impl Fn(usize) -> String + Send + Sync + 'static,
    result: impl Fn(usize) -> String,
) -> (usize, usize, Value) {
    let calls = AtomicUsize::new(0);
    let fixture = Fixture::with_policy(policy, "", move |_| {
        let arguments = arguments(calls.fetch_add(1, Ordering::Relaxed));
        let call = json!({"id": "call_1", "type": "function", "function": {"name": "work", "arguments": arguments}});
        let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
        ScriptedReply::json(200, json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}).to_string())
    });
    let mut messages = vec![json!({"role": "user", "content": "Work."})];
    for turn in 0..TURNS_MAX {
        let tools = json!([{"type": "function", "function": {"name": "work", "parameters": {"type": "object"}}}]);
        let answer = fixture.chat(&json!({"model": "m", "messages": messages, "tools": tools}).to_string()).json();
        let message = answer["choices"][0]["message"].clone();
        let Some(calls) = message["tool_calls"].as_array().filter(|calls| !calls.is_empty()) else {
            return (turn + 1, fixture.upstream.received().len(), answer);
        };
        let results = calls.iter().map(|call| json!({"role": "tool", "tool_call_id": call["id"], "content": result(turn)}));
        let results: Vec<Value> = results.collect();
        messages.push(message);
        messages.extend(results);
    }
    panic!("never ended");
}

#[test]
fn a_model_that_never_stops_is_ended() {
    let same = |_| "{}".to_owned();
    let other = |turn: usize| format!("{{\"at\":{turn}}}");
    let failed = |_| "Error: no route to host".to_owned();
    let fine = |_| "ok".to_owned();
    // However fast this machine is.
    let window = "[loops]\nsame_tool = { calls = 20, window = '1h' }\n";
    type Make = fn(usize) -> String;
    let cases: [(&str, &str, Make, Make, usize); 7] = [
        ("failures, default", "default", other, failed, 8),
        ("failures, strict", "strict", other, failed, 3),
        ("identical calls, strict's number", "[loops]\nidentical_calls = 5\n", same, fine, 5),
        ("identical calls in a row", "[loops]\nidentical_calls = { in_a_row = 7 }\n", same, fine, 7),
        ("identical calls in haste", "[loops]\nidentical_calls = { calls = 4, within = '1h', in_a_row = 7 }\n", same, fine, 4),
        ("one tool", window, other, fine, 20),
        ("at once", "[loops]\nidentical_calls = 2\non_limit = 'end'\n", same, fine, 2),
    ];
    for (name, policy, arguments, result, allowed) in cases {
        let (requests, upstream, answer) = never_stops(policy, arguments, result);
        // One request for each call that was let through; then the call that is one too many, told twice.
        let told = if name == "at once" { 1 } else { 3 };
        assert_eq!((requests, upstream), (allowed + 1, allowed + told), "{name}: {answer}");
        let (choice, verdict) = (&answer["choices"][0], &answer["toolmark"]);
        let words = choice["message"]["content"].as_str().unwrap_or_default();
        assert!(words.starts_with("I stopped here, because I was going in circles."), "{name}: {answer}");
        assert_eq!((&choice["finish_reason"], &verdict["verdict"]), (&json!("stop"), &json!("blocked")), "{name}");
        assert!(verdict["violations"].as_array().unwrap().contains(&json!("loop_detected")), "{name}: {verdict}");
    }
}

#[test]
fn a_conversation_that_the_upstream_keeps_is_one_run() {
    let fixture = Fixture::with_policy("[loops]\nconsecutive_failures = 3\nidentical_calls = 4\n", "", |received| {
        let (body, number) = (received.json(), uuid::Uuid::now_v7().simple().to_string());
        let arguments = body["metadata"]["arguments"].as_str().unwrap_or("{}");
        let call = json!({"type": "function_call", "id": "fc_1", "call_id": format!("call_{}", &number[..20]), "name": "work", "arguments": arguments, "status": "completed"});
        ScriptedReply::json(200, json!({"id": format!("resp_{number}"), "object": "response", "created_at": 1, "status": "completed", "model": "m", "output": [call]}).to_string())
    });
    let ended = |result: &str, arguments: fn(usize) -> String, speaks: Option<usize>| -> usize {
        let (mut input, mut previous) = (json!("Work."), Value::Null);
        for turn in 0..TURNS_MAX {
            let tools = json!([{"type": "function", "name": "work", "parameters": {"type": "object"}}]);
            let body = json!({"model": "m", "input": input, "previous_response_id": previous, "tools": tools, "metadata": {"arguments": arguments(turn)}});
            let answer = crate::harness::post(&format!("{}/responses", fixture.proxy.base_url()), &body.to_string(), "Bearer test").json();
            let item = &answer["output"][0];
            if item["type"] == "message" {
                assert!(item["content"][0]["text"].as_str().unwrap().starts_with("I stopped here"), "{answer}");
                return turn;
            }
            let mut items = vec![json!({"type": "function_call_output", "call_id": item["call_id"], "output": result})];
            items.extend((speaks == Some(turn)).then(|| json!({"role": "user", "content": "Go on."})));
            (input, previous) = (json!(items), answer["id"].clone());
        }
        panic!("never ended");
    };
    assert_eq!(ended("Error: no", |turn| format!("{{\"at\":{turn}}}"), None), 3);
    assert_eq!(ended("Error: no", |turn| format!("{{\"at\":{turn}}}"), Some(1)), 5, "the user's word begins anew");
    assert_eq!(ended("the same", |_| "{}".to_owned(), None), 4);
}

#[test]
fn conversations_of_a_session_count_together() {
    let calls = AtomicUsize::new(0);
    let fixture = Fixture::with_policy("[loops]\nconsecutive_failures = 2\non_limit = 'end'\n", "", move |_| {
        let arguments = format!("{{\"at\":{}}}", calls.fetch_add(1, Ordering::Relaxed));
        let message = json!({"role": "assistant", "content": null, "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "work", "arguments": arguments}}]});
        ScriptedReply::json(200, json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}).to_string())
    });
    let (address, store) = (fixture.proxy.address(), fixture.proxy.store());
    // The message that comes, once the exchange has been recorded.
    let ask = |session: &str, messages: &Value| {
        let tools = json!([{"type": "function", "function": {"name": "work", "parameters": {"type": "object"}}}]);
        let body = json!({"model": "m", "messages": messages, "tools": tools}).to_string();
        let session = if session.is_empty() { String::new() } else { format!("toolmark-session: {session}\r\n") };
        let reply = wire::Connection::open(address).post("/v1/chat/completions", &session, body.as_bytes());
        let exchange = &reply.headers.iter().find(|(name, _)| name == "toolmark-exchange").unwrap().1;
        let exchange = exchange.parse().unwrap();
        for _ in 0..500 {
            if store.exchange(exchange).unwrap().is_some() {
                return reply.json()["choices"][0]["message"].clone();
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("no record of {exchange}");
    };
    // A conversation of its own: the user asks, the tool is called and comes to this. Is it called then?
    let goes_on = |session: &str, result: &str| {
        let called = ask(session, &json!([{"role": "user", "content": "Work."}]));
        let Some(id) = called["tool_calls"][0]["id"].as_str().map(str::to_owned) else { return false };
        let result = json!({"role": "tool", "tool_call_id": id, "content": result});
        ask(session, &json!([{"role": "user", "content": "Work."}, called, result]))["tool_calls"].is_array()
    };
    let failed = "Error: no route to host";
    assert!(goes_on("a", failed) && !goes_on("a", failed), "the second failure of the session is one too many");
    assert!(!goes_on("a", failed), "and so is a conversation that begins with it");
    assert!(goes_on("b", failed) && goes_on("", failed) && goes_on("", failed), "another session, or none");
    assert!(goes_on("c", failed) && goes_on("c", "fine") && goes_on("c", failed), "a success ends the row");
}

#[test]
fn a_reset_begins_anew() {
    let calls = AtomicUsize::new(0);
    let fixture = Fixture::with_policy("[loops]\nconsecutive_failures = 1\non_limit = 'end'\n", "", move |_| {
        let arguments = format!("{{\"at\":{}}}", calls.fetch_add(1, Ordering::Relaxed));
        let message = json!({"role": "assistant", "content": null, "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "work", "arguments": arguments}}]});
        ScriptedReply::json(200, json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}).to_string())
    });
    let ask = |messages: &Value| {
        let tools = json!([{"type": "function", "function": {"name": "work", "parameters": {"type": "object"}}}]);
        fixture.chat(&json!({"model": "m", "messages": messages, "tools": tools}).to_string()).json()["choices"][0]["message"].clone()
    };
    let called = ask(&json!([{"role": "user", "content": "Work."}]));
    let result = json!({"role": "tool", "tool_call_id": called["tool_calls"][0]["id"], "content": "Error: no"});
    let failed = json!([{"role": "user", "content": "Work."}, called, result]);
    let passes = || ask(&failed)["tool_calls"].is_array();
    assert!(!passes());
    let app = fixture.proxy.app();
    let figures = app.loops.figures();
    assert_eq!((figures.ended, figures.recent.len(), figures.recent[0].tool.as_deref()), (1, 1, Some("work")), "{figures:?}");
    assert!(figures.stops.contains(&("consecutive_failures", 1)), "{figures:?}");
    app.reset_loops(Some("another"), None);
    app.reset_loops(Some("work"), Some("another session"));
    assert!(!passes());
    app.reset_loops(Some("work"), None);
    assert!(passes() && app.loops.figures().recent.is_empty());
}

/// A judge of prefixes of recorded conversations, whose calls get marks as if each turn had taken two seconds.
struct Replay {
    standard: Standard,
    ring: Arc<KeyRing>,
    schemas: Arc<SchemaCache>,
}

impl Replay {
    fn new() -> Self {
        let rules = PolicySource::Default.load().unwrap();
        Self { standard: Standard::new(rules, 1 << 20).unwrap(), ring: Arc::new(KeyRing::new(&[[7; 32]])), schemas: Arc::default() }
    }

    fn moment(turn: usize, at: usize) -> MarkTime {
        MarkTime { time_ms: 1_763_760_000_000 + turn as u64 * TURN_MS, counter: at as u16 }
    }

    /// The messages with ids of toolmark's own; the number of turns with calls.
    fn marked(&self, messages: &[Value]) -> (Vec<Value>, usize) {
        let (mut turns, mut ids, mut marked) = (0, Vec::<(Value, String)>::new(), messages.to_vec());
        for message in &mut marked {
            let calls = message["tool_calls"].as_array_mut().filter(|calls| !calls.is_empty());
            if let Some(calls) = calls {
                for (at, call) in calls.iter_mut().enumerate() {
                    let (name, arguments) =
                        (call["function"]["name"].as_str().unwrap(), call["function"]["arguments"].as_str().unwrap_or_default());
                    let mark = self.ring.mint(&Scope::shared(), name, arguments, Self::moment(turns, at));
                    ids.push((call["id"].clone(), mark.clone()));
                    call["id"] = json!(mark);
                }
                turns += 1;
            } else if let Some((_, mark)) = ids.iter().rev().find(|(id, _)| message["role"] == "tool" && *id == message["tool_call_id"]) {
                message["tool_call_id"] = json!(mark);
            }
        }
        (marked, turns)
    }

    /// Which of `calls` loop control objects to, behind these messages; and how many of their calls are known by their marks.
    fn stops(&self, messages: &[Value], tools: &Value, calls: &[Call]) -> (Vec<String>, usize) {
        let (messages, turns) = self.marked(messages);
        let body = json!({"model": "m", "messages": messages, "tools": tools}).to_string();
        let document = Document::parse(Bytes::from(body)).unwrap();
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
            now_ms: Self::moment(turns, 0).time_ms,
            upstream: Upstream::default(),
            protocol: None,
            held_bytes_max: 1 << 20,
            beyond: ExternalCounts::default(),
            prefix: Default::default(),
        };
        let Begun { context, .. } = request::begin(&document, &head, basis).unwrap();
        let judged = context.judge_choice(calls, &[], AnswerNature::default(), context.first_attempt());
        let stops = judged.violations().filter(|violation| violation.code == Code::LoopDetected);
        (stops.map(|violation| violation.message.clone()).collect(), context.executions.len())
    }
}

fn calls_of(message: &Value) -> Vec<Call> {
    let call = |call: &Value| Call {
        name: call["function"]["name"].as_str().unwrap_or_default().to_owned(),
        kind: CallKind::Function,
        arguments: Arguments::Text(call["function"]["arguments"].as_str().unwrap_or("{}").to_owned()),
        id: None,
    };
    message["tool_calls"].as_array().into_iter().flatten().map(call).collect()
}

/// Recorded conversations as chat's messages, with their tools.
fn conversations() -> Option<Vec<(String, Vec<Value>, Value)>> {
    let mut all = Vec::new();
    for (at, line) in wire::recorded("tau.jsonl")?.into_iter().enumerate() {
        let messages = line["messages"].as_array().cloned().unwrap_or_default();
        let tools = tools_of(&messages, &line["tools"]);
        all.push((format!("tau {at}"), messages, tools));
    }
    for exchange in wire::recorded("exchanges.jsonl")? {
        let request = &exchange["request_body"];
        let messages = if exchange["api"] == "chat" {
            let mut messages = request["messages"].as_array().cloned().unwrap_or_default();
            let answer = serde_json::from_str::<Value>(exchange["response_body"].as_str().unwrap_or_default()).unwrap_or_default();
            messages.extend(answer["choices"].get(0).map(|choice| choice["message"].clone()));
            messages
        } else {
            of_items(request["input"].as_array().map(Vec::as_slice).unwrap_or_default())
        };
        let tools = tools_of(&messages, &Value::Null);
        all.push((exchange["sha"].to_string(), messages, tools));
    }
    Some(all)
}

/// Tools of every name that is called: loop control looks at calls that may run.
fn tools_of(messages: &[Value], known: &Value) -> Value {
    let mut tools = known.as_array().cloned().unwrap_or_default();
    for call in messages.iter().flat_map(calls_of) {
        if !tools.iter().any(|tool| tool["function"]["name"] == json!(call.name)) {
            tools.push(json!({"type": "function", "function": {"name": call.name}}));
        }
    }
    json!(tools)
}

/// The items of the Responses API as chat's messages: calls that follow each other are one turn.
fn of_items(items: &[Value]) -> Vec<Value> {
    let mut messages: Vec<Value> = Vec::new();
    for item in items {
        match item["type"].as_str().unwrap_or("message") {
            "function_call" => {
                let call =
                    json!({"id": item["call_id"], "type": "function", "function": {"name": item["name"], "arguments": item["arguments"]}});
                match messages.last_mut().and_then(|last| last["tool_calls"].as_array_mut()) {
                    Some(calls) => calls.push(call),
                    None => messages.push(json!({"role": "assistant", "content": null, "tool_calls": [call]})),
                }
            }
            "function_call_output" => {
                messages.push(json!({"role": "tool", "tool_call_id": item["call_id"], "content": item["output"].to_string()}))
            }
            "message" if item["role"] == "user" => messages.push(json!({"role": "user", "content": "(what the user said)"})),
            _ => {}
        }
    }
    messages
}

#[test]
fn no_recorded_conversation_is_a_loop() {
    let Some(conversations) = conversations() else { return };
    let replay = Replay::new();
    let (mut judged, mut verified, mut deepest, mut wrong) = (0, 0, 0, Vec::new());
    for (name, messages, tools) in &conversations {
        for (at, message) in messages.iter().enumerate() {
            let calls = calls_of(message);
            if calls.is_empty() {
                continue;
            }
            judged += 1;
            deepest = deepest.max(messages[..at].iter().filter(|message| !calls_of(message).is_empty()).count());
            let (stops, executions) = replay.stops(&messages[..at], tools, &calls);
            verified += executions;
            wrong.extend(stops.into_iter().map(|stop| format!("{name} at {at}: {stop}")));
        }
    }
    eprintln!("{judged} turns with calls of {} conversations, at most {deepest} turns with calls before one", conversations.len());
    assert!(judged > 300 && verified > 200 && deepest >= 5, "there is something to judge: {judged} turns, {verified} executions");
    assert!(wrong.is_empty(), "{} of {judged}:\n{}", wrong.len(), wrong.join("\n"));
}
