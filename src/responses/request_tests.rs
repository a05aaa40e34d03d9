//! Requests in, prepared ones, violations or refusals out.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use super::{
    call::tool_name,
    request::{Head, Recalled, Stateful, Wanted},
    request_support_tests::{Bench, MOMENT, PROTOCOL, TOOL, TOOLS, call, known, output, request},
};
use crate::{
    exchange::thread::{Fate, Owed, Thread},
    judge::{call::CallKind, call_turn::ToolChoice, history::Execution},
    policy::{Inject, Mode, Undeclared},
    wire::json::Document,
};

fn plain() -> Bench {
    Bench::new(|_| {})
}

fn none() -> Recalled {
    Recalled::default()
}

fn document(text: &str) -> Document {
    Document::parse(Bytes::copy_from_slice(text.as_bytes())).unwrap()
}

#[test]
fn heads() {
    let read = document(
        r#"{"model":"m","stream":true,"store":false,"background":true,"previous_response_id":"resp_1","conversation":{"id":"conv_1"},"text":{"format":{"type":"json_schema"}}}"#,
    );
    let head = Head::read(&read).unwrap();
    assert_eq!((&*head.model, head.stream, head.store, head.background, head.json_only), ("m", true, false, true, true));
    assert_eq!((head.previous.as_deref(), head.conversation.as_deref()), (Some("resp_1"), Some("conv_1")));
    let read = document(r#"{"input":"x","conversation":"c","store":null,"stream":null,"tools":null,"text":{"format":{"type":"text"}}}"#);
    let head = Head::read(&read).unwrap();
    assert_eq!((head.store, head.stream, head.json_only, head.conversation.as_deref()), (true, false, false, Some("c")));
}

#[test]
fn refusals_of_shape() {
    let bench = plain();
    for (text, code, param) in [
        ("[]", "invalid_request", None),
        ("{}", "invalid_request", Some("input")),
        (r#"{"model":"m","input":null}"#, "invalid_request", Some("input")),
        (r#"{"input":1}"#, "invalid_request", Some("input")),
        (r#"{"input":"x","input":"y"}"#, "invalid_json", None),
        (r#"{"input":["x"]}"#, "invalid_request", Some("input")),
        (r#"{"input":[null]}"#, "invalid_request", Some("input")),
        (r#"{"input":[{"type":7}]}"#, "invalid_request", Some("input")),
        (r#"{"input":[{"type":"message","content":"x"}]}"#, "invalid_request", Some("input")),
        (r#"{"input":[{"role":1,"content":"x"}]}"#, "invalid_request", Some("input")),
        (r#"{"input":[{"role":"user","content":"x","content":"y"}]}"#, "invalid_json", None),
        (r#"{"input":[{"role":"user","content":[{"text":"x","te\u0078t":"y"}]}]}"#, "invalid_json", None),
        (r#"{"input":[{"type":"function_call_output","call_id":"x","output":[{"a":1,"a":2}]}]}"#, "invalid_json", None),
        (r#"{"input":[{"type":"function_call","call_id":"x","call_id":"y"}]}"#, "invalid_json", None),
        (r#"{"input":[{"type":"additional_tools","tools":7}]}"#, "invalid_request", Some("input")),
        (r#"{"input":"x","model":7}"#, "invalid_request", Some("model")),
        (r#"{"input":"x","stream":"true"}"#, "invalid_request", Some("stream")),
        (r#"{"input":"x","store":0}"#, "invalid_request", Some("store")),
        (r#"{"input":"x","background":"no"}"#, "invalid_request", Some("background")),
        (r#"{"input":"x","previous_response_id":7}"#, "invalid_request", Some("previous_response_id")),
        (r#"{"input":"x","conversation":{}}"#, "invalid_request", Some("conversation")),
        (r#"{"input":"x","conversation":{"id":"a","id":"b"}}"#, "invalid_json", None),
        (r#"{"input":"x","instructions":[]}"#, "invalid_request", Some("instructions")),
        (r#"{"input":"x","tools":{}}"#, "invalid_request", Some("tools")),
        (r#"{"input":"x","text":{"format":{"type":"text","type":"json_object"}}}"#, "invalid_json", None),
        (r#"{"input":"x","tool_choice":{"type":"function","name":"a","name":"b"}}"#, "invalid_json", None),
        (r#"{"input":"x","tool_choice":{"type":"allowed_tools","tools":[{"name":"a","name":"b"}]}}"#, "invalid_json", None),
    ] {
        let refusal = bench.begin(text.as_bytes(), &none()).unwrap_err();
        assert_eq!((refusal.code, refusal.param.as_deref()), (code, param), "{text}: {refusal}");
    }
}

#[test]
fn what_is_wanted_and_brought() {
    let text = r#"{"input":[{"type":"function_call","call_id":"a","name":"t","arguments":"{}"},{"type":"function_call_output","call_id":"a","output":""},
        {"type":"function_call_output","call_id":"b","output":"seen b"},{"type":"custom_tool_call_output","call_id":"b","output":[{"type":"input_text","text":"part"}]},
        {"id":"i1"},{"type":"item_reference","id":"i2"},{"type":null,"id":"i1"},{"type":"reasoning","id":"i3","summary":[{"text":"thought"}]},
        {"type":"tool_search_output","tools":[{"type":"function","name":"x"}]},{"type":"additional_tools","tools":[]},
        {"role":"assistant","content":"said"},{"role":"user","content":[{"type":"input_text","text":"asked"}]},
        {"type":"mcp_call","arguments":"called","output":"returned"}],"instructions":"told","tools":[1]}"#;
    let read = document(text);
    let head = Head::read(&read).unwrap();
    let strings = |own: &[&str]| own.iter().map(|own| (*own).to_owned()).collect::<Vec<_>>();
    assert_eq!(head.wanted(), Wanted { calls: strings(&["b"]), items: strings(&["i1", "i2", "i3"]) });
    assert_eq!(head.further_tools(), [Arc::from(r#"[{"type":"function","name":"x"}]"#), Arc::from("[]")]);
    let data = head.data();
    assert_eq!(data, ["told", "", "seen b", "part", r#"[{"type":"function","name":"x"}]"#, "[]", "asked", "returned", "[1]"]);
    assert_eq!(Head::read(&document(r#"{"input":"asked"}"#)).unwrap().data(), ["asked"]);
}

#[test]
fn histories() {
    let bench = plain();
    let mark = bench.mark("call_1");
    let lost = json!({"type": "item_reference", "id": "i"});
    for (items, more, recalled, expected) in [
        (vec![call(&mark), output(&mark, "r")], "", none(), vec![]),
        (vec![call(&mark)], "", none(), vec!["unanswered_call"]),
        (vec![output(&mark, "r")], "", none(), vec!["orphan_result"]),
        (vec![output(&mark, "r")], r#","previous_response_id":"resp_1""#, none(), vec!["unverified_call"]),
        (vec![output(&mark, "r")], r#","conversation":"c""#, none(), vec!["unverified_call"]),
        (vec![lost, output(&mark, "r")], "", none(), vec!["unverified_call"]),
        (
            vec![output(&mark, "r")],
            r#","previous_response_id":"resp_1""#,
            Recalled { calls: vec![known(&mark, "call_1")], ..none() },
            vec![],
        ),
        (vec![call("call_1"), output("call_1", "r")], "", none(), vec!["unverified_call"]),
        (
            vec![json!({"type": "function_call", "call_id": mark, "name": TOOL, "arguments": "{\"x\":1}"})],
            "",
            none(),
            vec!["altered_call", "unanswered_call"],
        ),
        (vec![json!({"type": "function_call", "name": TOOL})], "", none(), vec!["unverified_call", "unanswered_call"]),
        (vec![call(&mark), output(&mark, "{\"execution_id\":\"mine\"}")], "", none(), vec!["forged_stamp"]),
        (vec![call(&mark), output(&mark, &format!("{}\nr", bench.stamp()))], "", none(), vec![]),
        (vec![json!({"type": "function_call_output", "output": {"a": 1}})], "", none(), vec!["orphan_result"]),
    ] {
        let text = request(&items);
        let text = format!("{}{more}}}", &text[..text.len() - 1]);
        assert_eq!(bench.codes(&text, &recalled), expected, "{text}");
    }
}

#[test]
fn stamps_and_marks() {
    let bench = plain();
    let (mark, other, chat) = (bench.mark("call_1"), bench.mark("call_2"), bench.chat_mark());
    let stamp = bench.stamp();
    let parts = |id: &str, parts: Value| json!({"type": "function_call_output", "call_id": id, "output": parts});
    let text = |text: &str| json!({"type": "input_text", "text": text});
    let custom = |id: &str| json!({"type": "custom_tool_call", "call_id": id, "name": TOOL, "input": "{}"});
    let custom_output = |id: &str, output: &str| json!({"type": "custom_tool_call_output", "call_id": id, "output": output});
    let remembered = Recalled { calls: vec![known(&chat, "call_9"), known(&mark, "call_1")], ..none() };
    for (items, recalled, expected) in [
        (vec![call(&mark), output(&mark, "r")], none(), vec![call("call_1"), output("call_1", &format!("{stamp}\nr"))]),
        (vec![call(&chat), output(&chat, "r")], remembered.clone(), vec![call(&chat), output(&chat, &format!("{stamp}\nr"))]),
        (vec![output(&chat, "r")], remembered.clone(), vec![output("call_9", "r")]),
        (vec![output(&mark, "r")], none(), vec![output("call_1", "r")]),
        (
            vec![call(&mark), parts(&mark, json!([{"type": "input_image", "image_url": "u"}]))],
            none(),
            vec![call("call_1"), parts("call_1", json!([text(&stamp), {"type": "input_image", "image_url": "u"}]))],
        ),
        (vec![call(&mark), parts(&mark, json!([]))], none(), vec![call("call_1"), parts("call_1", json!([text(&stamp)]))]),
        (vec![call(&mark), parts(&mark, json!(null))], none(), vec![call("call_1"), parts("call_1", json!(null))]),
        (vec![custom(&other), custom_output(&other, "r")], none(), vec![custom("call_2"), custom_output("call_2", &format!("{stamp}\nr"))]),
    ] {
        let (text, expected) = (request(&items), request(&expected));
        // An output whose call isn't here is stamped on the first pass only where the call is remembered.
        let expected = if recalled.calls.is_empty() || items.len() > 1 {
            expected
        } else {
            expected.replace("\"r\"", &json!(format!("{stamp}\nr")).to_string())
        };
        assert_eq!(bench.prepared(&text, &recalled), expected, "{text}");
    }
    // Two ids that would become one stay two.
    let again = bench.ring.mint_behind(
        "call_1",
        &crate::judge::marks::Scope::shared(),
        TOOL,
        "{}",
        crate::judge::marks::Moment { counter: 8, ..MOMENT },
    );
    let twice = request(&[call(&mark), call(&again.unwrap())]);
    assert_eq!(bench.prepared(&twice, &none()), twice);
}

#[test]
fn objects_are_stamped_inside() {
    let bench = plain();
    let mark = bench.mark("call_1");
    let body = bench.prepared(&request(&[call(&mark), output(&mark, r#"{"mbit": 90.10}"#)]), &none());
    let expected = format!(r#"{{"execution_id":"{}","executed_at":"2025-11-21T21:20:00.000Z","mbit": 90.10}}"#, bench.execution_id());
    assert_eq!(body, request(&[call("call_1"), output("call_1", &expected)]));
}

#[test]
fn namespaces() {
    let bench = plain();
    let text = format!(r#"{{"input":"x","tools":{TOOLS}}}"#);
    let registry = bench.begin(text.as_bytes(), &none()).unwrap().context.tools.registry.clone();
    for (namespace, name, expected) in [
        (None, "find", "find"),
        (Some(""), "find", "find"),
        (Some("crm"), "find", "crm.find"),
        (Some("find"), "find", "find"),
        (Some("other"), TOOL, TOOL),
        (Some("other"), "nothing", "other.nothing"),
    ] {
        assert_eq!(tool_name(&registry, namespace, name), expected, "{namespace:?} {name}");
    }
    let scope = crate::judge::marks::Scope::shared();
    let mark = bench.ring.mint_behind("call_1", &scope, "crm.find", "{}", MOMENT).unwrap();
    let items =
        json!([{"type": "function_call", "call_id": mark, "namespace": "crm", "name": "find", "arguments": "{}"}, output(&mark, "r")]);
    let text = format!(r#"{{"input":{items},"tools":{TOOLS}}}"#);
    assert_eq!(bench.codes(&text, &none()), Vec::<&str>::new());
    assert_eq!(bench.begin(text.as_bytes(), &none()).unwrap().context.executions[0].tool, "crm.find");
}

#[test]
fn fates() {
    let bench = plain();
    let item = |id: &str| json!({"type": "reasoning", "id": id});
    let reference = |id: &str| json!({"type": "item_reference", "id": id});
    let user = json!({"role": "user", "content": "x"});
    let instead = json!({"type": "message", "role": "assistant", "content": "instead"});
    let mark = bench.mark("call_1");
    let called = Fate::Instead(call(&mark).to_string().into());
    let items = vec![("d".to_owned(), Fate::Dropped), ("i".into(), Fate::Instead(instead.to_string().into())), ("c".into(), called)];
    let recalled = Recalled { items, ..none() };
    for (items, expected) in [
        (vec![item("d"), user.clone()], vec![user.clone()]),
        (vec![user.clone(), reference("d")], vec![user.clone()]),
        (vec![user.clone(), reference("d"), item("x"), item("d")], vec![user.clone(), item("x")]),
        (vec![item("d"), reference("d")], vec![]),
        (vec![reference("i"), item("d"), item("i")], vec![instead.clone(), instead.clone()]),
        (vec![reference("c"), output(&mark, "r")], vec![call("call_1"), output("call_1", "r")]),
    ] {
        let body = bench.begin(request(&items).as_bytes(), &recalled).unwrap().body;
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["input"], Value::from(expected), "{items:?}");
    }
}

fn thread() -> Thread {
    let owed = |call_id: &str, custom| Owed { call_id: call_id.into(), custom, output: "not \"run\"".into() };
    Thread { owed: vec![owed("call_5", false), owed("call_6", true)], upstream_id: Some("resp_own".into()), ..Thread::default() }
}

#[test]
fn what_is_owed() {
    let bench = plain();
    let recalled = Recalled { thread: Some(Arc::new(thread())), items: vec![("d".into(), Fate::Dropped)], ..none() };
    let five = r#"{"type":"function_call_output","call_id":"call_5","output":"not \"run\""}"#;
    let six = r#"{"type":"custom_tool_call_output","call_id":"call_6","output":"not \"run\""}"#;
    let answered = output(&bench.mark("call_5"), "r");
    let own = output("call_5", "r").to_string();
    for (input, expected) in [
        ("\"h\\u0069\"", format!(r#"[{five},{six},{{"role":"user","content":"h\u0069"}}]"#)),
        ("[ ]", format!("[{five},{six} ]")),
        (r#"[ {"role":"user","content":"x"}]"#, format!(r#"[{five},{six}, {{"role":"user","content":"x"}}]"#)),
        (&format!("[{answered}]"), format!("[{six},{own}]")),
        (r#"[{"type":"item_reference","id":"d"}]"#, format!("[{five},{six}]")),
        ("null", format!("[{five},{six}]")),
    ] {
        let body = bench.prepared(&format!(r#"{{"input":{input},"previous_response_id":"resp_seen"}}"#), &recalled);
        assert_eq!(body, format!(r#"{{"input":{expected},"previous_response_id":"resp_own"}}"#));
    }
    let body = bench.prepared(r#"{"previous_response_id":"resp_seen"}"#, &recalled);
    assert_eq!(body, format!(r#"{{"previous_response_id":"resp_own","input":[{five},{six}]}}"#));
}

#[test]
fn what_is_remembered() {
    let bench = Bench::new(|policy| policy.results.window = Some(std::time::Duration::from_millis(1500)));
    let mark = bench.mark("call_1");
    let execution = |id: &str, age: u64| Execution {
        id: id.into(),
        tool: "old".into(),
        moment: crate::judge::marks::Moment { time_ms: MOMENT.time_ms - age, counter: 0 },
        failed: false,
        recent: true,
        expired: true,
        item: 3,
    };
    let executions = vec![execution("a", 400), execution("b", 600), execution(&bench.execution_id(), 0)];
    let earlier = Thread { executions, succeeded: vec!["old".into(), TOOL.into()], ..Thread::default() };
    let begin = |incomplete, more: &str| {
        let thread = Some(Arc::new(Thread { incomplete, ..earlier.clone() }));
        let recalled = Recalled { thread, calls: vec![known(&mark, "call_1")], ..none() };
        let text = request(&[output(&mark, "r"), json!({"type": "additional_tools", "tools": []})]);
        bench.begin(format!("{}{more}}}", &text[..text.len() - 1]).as_bytes(), &recalled).unwrap().context
    };
    let context = begin(false, r#","previous_response_id":"resp_1","store":false"#);
    let seen: Vec<_> = context.executions.iter().map(|own| (&*own.id, own.recent, own.expired)).collect();
    assert_eq!(seen, [("a", false, false), ("b", false, true), (&*bench.execution_id(), true, false)]);
    assert_eq!(context.succeeded, [TOOL, "old"]);
    let hidden = &context.hidden;
    assert_eq!((hidden.unseen, hidden.store, hidden.conversation.is_none(), hidden.tools.len()), (false, false, true, 1));
    let hidden = begin(true, r#","conversation":"conv_1""#).hidden;
    assert_eq!((hidden.unseen, hidden.store, hidden.conversation.as_deref()), (true, true, Some("conv_1")));
    let lost = bench.begin(br#"{"input":[{"id":"i"}]}"#, &none()).unwrap().context.hidden;
    assert!(lost.unseen && lost.earlier.is_none());
    assert!(!bench.begin(br#"{"input":"x"}"#, &none()).unwrap().context.hidden.unseen);
}

#[test]
fn statefulness() {
    let bench = |stateful| Bench::new(move |policy| policy.responses.stateful = stateful);
    for (member, param) in [
        (r#""previous_response_id":"r""#, "previous_response_id"),
        (r#""conversation":"c""#, "conversation"),
        (r#""background":true"#, "background"),
        (r#""input":[{"type":"item_reference","id":"i"}]"#, "input"),
    ] {
        let text = if param == "input" { format!("{{{member}}}") } else { format!(r#"{{"input":"x",{member}}}"#) };
        for stateful in [Stateful::Stateless, Stateful::Refuse] {
            let refusal = bench(stateful).begin(text.as_bytes(), &none()).unwrap_err();
            assert_eq!((refusal.code, refusal.param.as_deref()), ("invalid_request", Some(param)), "{text}");
        }
        assert_eq!(bench(Stateful::Track).prepared(&text, &none()), text);
        let observing = Bench::new(|policy| (policy.mode, policy.responses.stateful) = (Mode::Observe, Stateful::Refuse));
        assert_eq!(observing.prepared(&text, &none()), text);
    }
    let both = r#"{"input":"x","conversation":"c","previous_response_id":"r"}"#;
    assert_eq!(bench(Stateful::Track).prepared(both, &none()), both);
    let plain = r#"{"input":"x","background":false,"model":"o3"}"#;
    assert_eq!(bench(Stateful::Refuse).prepared(plain, &none()), plain);
}

#[test]
fn nothing_is_kept() {
    let bench = Bench::new(|policy| policy.responses.stateful = Stateful::Stateless);
    let include = r#""include":["reasoning.encrypted_content"]"#;
    for (before, after) in [
        (r#"{"input":"x"}"#, r#"{"input":"x","store":false}"#.to_owned()),
        (r#"{"input":"x","store":null}"#, r#"{"input":"x","store":false}"#.to_owned()),
        (r#"{"store":true,"input":"x","model":"gpt-4o"}"#, r#"{"store":false,"input":"x","model":"gpt-4o"}"#.to_owned()),
        (r#"{"input":"x","store":false,"reasoning":null}"#, r#"{"input":"x","store":false,"reasoning":null}"#.to_owned()),
        (r#"{"input":"x","store":false,"reasoning":{}}"#, format!(r#"{{"input":"x","store":false,"reasoning":{{}},{include}}}"#)),
        (r#"{"input":"x","model":"openai/o3-mini"}"#, format!(r#"{{"input":"x","model":"openai/o3-mini","store":false,{include}}}"#)),
        (r#"{"input":"x","model":"o1/other"}"#, r#"{"input":"x","model":"o1/other","store":false}"#.to_owned()),
        (r#"{"model":"my-codex","include":[],"input":"x"}"#, format!(r#"{{"model":"my-codex",{include},"input":"x","store":false}}"#)),
        (
            r#"{"model":"gpt-5","include":["a"],"input":"x","store":false}"#,
            r#"{"model":"gpt-5","include":["a","reasoning.encrypted_content"],"input":"x","store":false}"#.to_owned(),
        ),
        (
            r#"{"model":"gpt-oss","include":null,"input":"x","store":false}"#,
            format!(r#"{{"model":"gpt-oss",{include},"input":"x","store":false}}"#),
        ),
        (r#"{"model":"o4","include":7,"input":"x","store":false}"#, r#"{"model":"o4","include":7,"input":"x","store":false}"#.to_owned()),
    ] {
        assert_eq!(bench.prepared(before, &none()), after);
    }
    assert!(!bench.begin(br#"{"input":"x"}"#, &none()).unwrap().context.hidden.store);
}

#[test]
fn choices() {
    let bench = plain();
    let named = |kind, name: &str| ToolChoice::Named(kind, name.into());
    let allowed = |required, names: &[&str]| ToolChoice::Allowed { required, names: names.iter().map(|name| (*name).into()).collect() };
    for (choice, expected) in [
        ("null", ToolChoice::Auto),
        ("\"none\"", ToolChoice::None),
        ("\"required\"", ToolChoice::Required),
        ("\"other\"", ToolChoice::Auto),
        ("7", ToolChoice::Auto),
        (r#"{"type":"function","name":"run_speed_test"}"#, named(CallKind::Function, TOOL)),
        (r#"{"type":"custom","name":"x"}"#, named(CallKind::Custom, "x")),
        (r#"{"type":"function","name":"find"}"#, named(CallKind::Function, "crm.find")),
        (r#"{"type":"function","name":"find","namespace":"crm"}"#, named(CallKind::Function, "crm.find")),
        (r#"{"type":"function"}"#, ToolChoice::Auto),
        (r#"{"type":"mcp","server_label":"s","name":"run_speed_test"}"#, ToolChoice::Auto),
        (r#"{"type":"web_search"}"#, ToolChoice::Auto),
        (r#"{"type":"allowed_tools","mode":"required","tools":[{"type":"function","name":"run_speed_test"}]}"#, allowed(true, &[TOOL])),
        (r#"{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"find"}]}"#, allowed(false, &["crm.find"])),
        (
            r#"{"type":"allowed_tools","mode":"required","tools":[{"type":"custom","name":"x"},{"type":"mcp","server_label":"s","name":"y"}]}"#,
            allowed(false, &["x"]),
        ),
        (r#"{"type":"allowed_tools","mode":"required","tools":[{"type":"namespace","name":"crm"}]}"#, allowed(true, &["crm.find"])),
        (r#"{"type":"allowed_tools","tools":7}"#, allowed(false, &[])),
    ] {
        let text = format!(r#"{{"input":"x","tools":{TOOLS},"tool_choice":{choice}}}"#);
        assert_eq!(bench.begin(text.as_bytes(), &none()).unwrap().context.turn.tool_choice, expected, "{choice}");
    }
    let context = bench.begin(br#"{"input":"x","tool_choice":"required","parallel_tool_calls":false}"#, &none()).unwrap().context;
    assert_eq!((context.turn.tool_choice.clone(), context.turn.parallel_tool_calls), (ToolChoice::Auto, Some(false)));
}

#[test]
fn tools_that_go_and_come() {
    let reject = Bench::new(|policy| policy.tools.undeclared = Undeclared::Reject);
    let one = r#"[{"type":"function","name":"t"}]"#;
    let choice = r#""tool_choice":{"type":"function","name":"t"}"#;
    let text = format!(r#"{{"tools":{one},{choice},"input":"x","parallel_tool_calls":true}}"#);
    assert_eq!(reject.prepared(&text, &none()), r#"{"input":"x"}"#);
    let text = format!(r#"{{"tools":[{{"type":"web_search"}},{}],{choice},"input":"x"}}"#, &one[1..one.len() - 1]);
    assert_eq!(reject.prepared(&text, &none()), r#"{"tools":[{"type":"web_search"}],"tool_choice":"auto","input":"x"}"#);
    assert_eq!(reject.begin(text.as_bytes(), &none()).unwrap().context.turn.tool_choice, ToolChoice::Auto);
    let mut asking = Bench::new(|policy| policy.tools.inject = Inject::Off);
    asking.upstream.tool_choice = Some("auto");
    for (before, after) in [
        (format!(r#"{{"input":"x","tools":{one}}}"#), format!(r#"{{"input":"x","tools":{one},"tool_choice":"auto"}}"#)),
        (format!(r#"{{"input":"x","tools":{one},"tool_choice":null}}"#), format!(r#"{{"input":"x","tools":{one},"tool_choice":"auto"}}"#)),
        (
            format!(r#"{{"input":"x","tools":{one},"tool_choice":"none"}}"#),
            format!(r#"{{"input":"x","tools":{one},"tool_choice":"none"}}"#),
        ),
        (r#"{"input":"x"}"#.to_owned(), r#"{"input":"x"}"#.to_owned()),
    ] {
        assert_eq!(asking.prepared(&before, &none()), after);
    }
}

#[test]
fn the_protocol() {
    let bench = Bench::new(|policy| policy.protocol.inject = true);
    let inside = &PROTOCOL[1..PROTOCOL.len() - 1];
    let developer = format!(r#"{{"role":"developer","content":{PROTOCOL}}}"#);
    let part = format!(r#"{{"type":"input_text","text":{PROTOCOL}}}"#);
    for (before, after) in [
        (r#""input":"x","instructions":"a""#, format!(r#""input":"x","instructions":"a\n\n{inside}""#)),
        (r#""input":"x","instructions":"""#, format!(r#""input":"x","instructions":"{inside}""#)),
        (r#""input":"x","instructions":null"#, format!(r#""input":"x","instructions":{PROTOCOL}"#)),
        (r#""input":"x","prompt":{"id":"p"}"#, format!(r#""input":[{developer},{{"role":"user","content":"x"}}],"prompt":{{"id":"p"}}"#)),
        (
            r#""input":[{"role":"user","content":"x"}],"prompt":{"id":"p"}"#,
            format!(r#""input":[{developer},{{"role":"user","content":"x"}}],"prompt":{{"id":"p"}}"#),
        ),
        (
            r#""input":[{"role":"user","content":"x"},{"type":"message","role":"system","content":"a"}],"prompt":{"id":"p"}"#,
            format!(
                r#""input":[{{"role":"user","content":"x"}},{{"type":"message","role":"system","content":"a\n\n{inside}"}}],"prompt":{{"id":"p"}}"#
            ),
        ),
        (r#""input":[{"role":"developer","content":[]}]"#, format!(r#""input":[{{"role":"developer","content":[{part}]}}]"#)),
        (
            r#""input":[{"role":"developer","content":[{"text":"a"}]}],"instructions":"""#,
            format!(r#""input":[{{"role":"developer","content":[{{"text":"a"}}]}}],"instructions":"{inside}""#),
        ),
        (
            r#""input":"x","instructions":"a","text":{"format":{"type":"json_object"}}"#,
            r#""input":"x","instructions":"a","text":{"format":{"type":"json_object"}}"#.into(),
        ),
    ] {
        assert_eq!(bench.prepared(&format!(r#"{{{before},"tools":{TOOLS}}}"#), &none()), format!(r#"{{{after},"tools":{TOOLS}}}"#));
    }
    let added = bench.prepared(&format!(r#"{{"tools":{TOOLS},"input":"x"}}"#), &none());
    assert_eq!(added, format!(r#"{{"tools":{TOOLS},"input":"x","instructions":{PROTOCOL}}}"#));
    let without_tools = r#"{"input":"x","instructions":"a"}"#;
    assert_eq!(bench.prepared(without_tools, &none()), without_tools);
}

#[test]
fn observing_changes_nothing() {
    let bench = Bench::new(|policy| (policy.mode, policy.protocol.inject) = (Mode::Observe, true));
    let mark = bench.mark("call_1");
    let items = vec![("d".to_owned(), Fate::Dropped)];
    let recalled = Recalled { thread: Some(Arc::new(thread())), items, ..none() };
    let text = request(&[call(&mark), output(&mark, "r"), json!({"id": "d"})]);
    let text = format!(r#"{},"previous_response_id":"resp_seen","tools":{TOOLS}}}"#, &text[..text.len() - 1]);
    assert_eq!(bench.prepared(&text, &recalled), text);
}
