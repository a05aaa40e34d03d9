//! Requests as they are read: what they say, what is refused, what is offered.

#[cfg(test)]
pub(in crate::responses) mod prepare;
#[cfg(test)]
pub(in crate::responses) mod properties;
#[cfg(test)]
pub(in crate::responses) mod support;

use std::sync::Arc;

use bytes::Bytes;
use serde_json::json;

use crate::{
    judge::call::{CallKind, turn::ToolChoice},
    policy::{Inject, PolicyMode, Undeclared},
    responses::{
        call_name::tool_name,
        request::{Head, Stateful, Wanted},
    },
    wire::json::Document,
};
use support::{Bench, MOMENT, TOOL, TOOLS, none, output, plain};

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
        {"type":"mcp_call","arguments":"called","output":"returned"},{"role":"critic","content":"judged"}],"instructions":"told","tools":[1]}"#;
    let read = document(text);
    let head = Head::read(&read).unwrap();
    let strings = |own: &[&str]| own.iter().map(|own| (*own).to_owned()).collect::<Vec<_>>();
    let wanted = Wanted { calls: strings(&["b"]), items: strings(&["i1", "i2", "i3"]), ..Wanted::default() };
    assert_eq!(head.wanted(), wanted);
    let kept = document(r#"{"previous_response_id":"r","conversation":{"id":"c"}}"#);
    let wanted = Head::read(&kept).unwrap().wanted();
    assert_eq!((wanted.response.as_deref(), wanted.conversation.as_deref()), (Some("r"), Some("c")));
    assert_eq!(head.further_tools(), [Arc::from(r#"[{"type":"function","name":"x"}]"#), Arc::from("[]")]);
    let data = head.data();
    assert_eq!(data, ["told", "", "seen b", "part", r#"[{"type":"function","name":"x"}]"#, "[]", "asked", "returned", "judged", "[1]"]);
    assert_eq!(Head::read(&document(r#"{"input":"asked"}"#)).unwrap().data(), ["asked"]);
}

#[test]
fn namespaces() {
    let bench = plain();
    let text = format!(r#"{{"input":"x","tools":{TOOLS}}}"#);
    let registry = bench.begin(text.as_bytes(), &none()).unwrap().context.tools().registry.clone();
    for (namespace, name, expected) in [
        (None, "find", "find"),
        (Some(""), "find", "find"),
        (Some("crm"), "find", "crm.find"),
        (Some("find"), "find", "find"),
        // A namespace that nobody made is no way to a tool.
        (Some("other"), TOOL, "other.run_speed_test"),
        (Some("other"), "nothing", "other.nothing"),
    ] {
        assert_eq!(tool_name(&registry, namespace, name), expected, "{namespace:?} {name}");
    }
    let scope = crate::marks::Scope::shared();
    let mark = bench.ring.mint_behind("call_1", &scope, "crm.find", "{}", MOMENT).unwrap();
    let items =
        json!([{"type": "function_call", "call_id": mark, "namespace": "crm", "name": "find", "arguments": "{}"}, output(&mark, "r")]);
    let text = format!(r#"{{"input":{items},"tools":{TOOLS}}}"#);
    assert_eq!(bench.codes(&text, &none()), Vec::<&str>::new());
    assert_eq!(bench.begin(text.as_bytes(), &none()).unwrap().context.executions[0].tool.as_ref(), "crm.find");
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
        let observing = Bench::new(|policy| (policy.mode, policy.responses.stateful) = (PolicyMode::Observe, Stateful::Refuse));
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
