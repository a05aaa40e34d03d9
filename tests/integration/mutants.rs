//! Thousands of good and bad calls, whole and streamed: the bad ones never reach the application, the good
//! ones arrive unchanged, and both ways give the same verdict.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Value, json};
use toolmark::testing::ScriptedReply as Scripted;

use crate::{
    harness::Fixture,
    wire::{self, Connection, Reply, fold},
};

const POLICY: &str = "[calls]\nmax_repairs = 0\non_exhausted = \"error\"\n";
const NO_CORRECTIONS: &str = "[calls]\nmax_repairs = 0\non_exhausted = \"error\"\ncorrections = []\n";

/// How a call is served.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Whole,
    /// A stream, each call in one delta.
    Deltas,
    /// A stream, arguments in fragments of three bytes.
    Fragments,
}

const FORMS: [Form; 3] = [Form::Whole, Form::Deltas, Form::Fragments];

/// What must become of a call. The table of choices in docs/concepts.md follows this one.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Expected {
    Reject,
    /// The same arguments, with this violation if one is named.
    Same(Option<&'static str>),
    /// Accepted as `{}`.
    Empty,
    /// Accepted without the nulls of optional parameters, and recorded; or rejected.
    WithoutNulls,
}

fn expected(kind: &str, label: &str) -> Expected {
    match (label, kind) {
        (_, "duplicate_id") => Expected::Same(Some("duplicate_call_id")),
        ("accept", _) | ("policy", "args_object_not_string" | "id_empty" | "id_missing") => Expected::Same(None),
        ("reject", "null_value") => Expected::WithoutNulls,
        ("reject", _) | ("policy", "json_duplicate_key") => Expected::Reject,
        ("policy", "extra_param_open_schema") => Expected::Same(Some("unknown_parameter")),
        ("policy", "args_empty_string" | "args_null" | "args_absent" | "args_whitespace" | "json_literal_null") => Expected::Empty,
        _ => panic!("no choice was made for {label} {kind}"),
    }
}

struct Mutant {
    id: String,
    kind: String,
    expected: Expected,
    request: String,
    call_index: usize,
    calls: Vec<Value>,
}

fn mutants() -> Option<Vec<Mutant>> {
    let bases: HashMap<String, Value> =
        wire::recorded("bfcl.jsonl")?.into_iter().map(|base| (base["id"].as_str().unwrap().to_owned(), base)).collect();
    let read = |mutant: Value| {
        let base = &bases[mutant["base_id"].as_str().unwrap()];
        let mut tools = base["tools"].clone();
        if let Some(other) = mutant.get("tools_override") {
            let own = tools.as_array_mut().unwrap().iter_mut().find(|tool| tool["function"]["name"] == other["name"]);
            own.unwrap()["function"]["parameters"] = other["parameters"].clone();
        }
        let kind = mutant["kind"].as_str().unwrap().to_owned();
        Mutant {
            id: mutant["id"].as_str().unwrap().to_owned(),
            expected: expected(&kind, mutant["expect"].as_str().unwrap()),
            kind,
            request: json!({"model": "m", "messages": base["messages"], "tools": tools}).to_string(),
            call_index: mutant["call_index"].as_u64().unwrap() as usize,
            calls: mutant["tool_calls"].as_array().unwrap().clone(),
        }
    };
    Some(wire::recorded("bfcl_mutants.jsonl")?.into_iter().map(read).collect())
}

/// The upstream serves what the request's header holds; a header takes any length that is needed here.
fn fixture(policy: &str) -> Fixture {
    Fixture::with_policy(policy, "", |received| {
        let served =
            received.headers.get("x-served").map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).unwrap_or_default();
        match served.split_once('\t') {
            // Tabs part the events. All in one piece, for speed: the cutting of streams is tested elsewhere.
            Some(_) => Scripted::events([format!("data: {}\n\ndata: [DONE]\n\n", served.replace('\t', "\n\ndata: "))]),
            None => Scripted::json(200, served),
        }
    })
}

fn served(mutant: &Mutant, form: Form) -> String {
    let chunk = |delta: Value, finish: &str| {
        format!(
            r#"{{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{{"index":0,"delta":{delta},"finish_reason":{finish}}}]}}"#
        )
    };
    if form == Form::Whole {
        let message = json!({"role": "assistant", "content": null, "tool_calls": mutant.calls});
        return json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}).to_string();
    }
    let mut events = vec![chunk(json!({"role": "assistant", "content": null}), "null")];
    for (index, call) in mutant.calls.iter().enumerate() {
        let mut call = call.clone();
        call["index"] = json!(index);
        let mut parts = Vec::new();
        if form == Form::Fragments
            && let Some(text) = call["function"]["arguments"].as_str().map(str::to_owned)
        {
            let characters: Vec<char> = text.chars().collect();
            call["function"]["arguments"] = json!("");
            parts = characters
                .chunks(3)
                .map(|part| json!({"index": index, "function": {"arguments": part.iter().collect::<String>()}}))
                .collect();
        }
        let all = std::iter::once(call).chain(parts);
        events.extend(all.map(|call| chunk(json!({"tool_calls": [call]}), "null")));
    }
    events.push(chunk(json!({}), "\"tool_calls\""));
    events.join("\t")
}

fn ask(connection: &mut Connection, mutant: &Mutant, form: Form) -> Reply {
    // ASCII only, as headers are.
    let served: String = served(mutant, form).chars().map(|c| if c.is_ascii() { c.to_string() } else { escaped(c) }).collect();
    let stream = if form == Form::Whole { "" } else { "\"stream\":true," };
    let request = mutant.request.replacen('{', &format!("{{{stream}"), 1);
    connection.post("/v1/chat/completions", &format!("x-served: {served}\r\n"), request.as_bytes())
}

fn escaped(c: char) -> String {
    c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect()
}

/// The calls as the application gets them: id, name, arguments.
fn calls(reply: &Reply) -> Vec<(String, String, String)> {
    if reply.is_stream() {
        let folded = fold(&wire::events(&reply.text()));
        let calls = folded.choices.into_values().flat_map(|choice| choice.calls);
        return calls.map(|call| (call.id, call.name, call.arguments.unwrap_or_default())).collect();
    }
    let body = reply.json();
    let text = |value: &Value| value.as_str().unwrap_or("(no string)").to_owned();
    let calls = body["choices"][0]["message"]["tool_calls"].as_array().cloned().unwrap_or_default();
    calls.iter().map(|call| (text(&call["id"]), text(&call["function"]["name"]), text(&call["function"]["arguments"]))).collect()
}

/// What became of a call: rejected with a code, or accepted with these codes.
#[derive(Clone, Debug, PartialEq)]
enum Outcome {
    Rejected(String),
    Accepted(Vec<String>),
}

fn check(connection: &mut Connection, mutant: &Mutant, form: Form, expected: Expected) -> Result<Outcome, String> {
    let reply = ask(connection, mutant, form);
    let (calls, fault) = (calls(&reply), |what: &str| Err(format!("{form:?} {}: {what}: {} {}", mutant.id, reply.status, reply.text())));
    // A stream that ends with an error breaks off behind it; nothing else does.
    if !reply.whole && (!reply.is_stream() || reply.error_code().is_empty()) {
        return fault("broke off");
    }
    let rejected = (reply.status == 422 && !reply.is_stream()) || (reply.is_stream() && !reply.error_code().is_empty());
    if rejected {
        let said = reply.text();
        if !calls.is_empty() || said.contains("\"tool_calls\":[") {
            return fault("a rejected call got out");
        }
        return if matches!(expected, Expected::Reject | Expected::WithoutNulls) {
            Ok(Outcome::Rejected(reply.error_code()))
        } else {
            fault("rejected")
        };
    }
    let codes = reply.verdict().1;
    if calls.len() != mutant.calls.len() || reply.status != 200 || !calls.iter().all(|(id, ..)| wire::is_mark(id)) {
        return fault("not the calls that came, each with a mark");
    }
    let ids: std::collections::BTreeSet<_> = calls.iter().map(|(id, ..)| id).collect();
    if ids.len() != calls.len() {
        return fault("two calls with one mark");
    }
    for (at, ((_, name, arguments), sent)) in calls.iter().zip(&mutant.calls).enumerate() {
        let own = &sent["function"]["arguments"];
        let raw = own.as_str().map_or_else(|| own.to_string(), str::to_owned);
        let same = *arguments == raw || (!own.is_string() && serde_json::from_str(arguments).ok().as_ref() == Some(own));
        let fits = match expected {
            _ if at != mutant.call_index => same,
            Expected::Same(code) => same && code.is_none_or(|code| codes.iter().any(|found| found == code)),
            Expected::Empty => arguments == "{}",
            Expected::WithoutNulls => without_nulls(&raw, arguments) && codes.iter().any(|code| code == "corrected_null_optional"),
            Expected::Reject => false,
        };
        if sent["function"]["name"] != json!(name) || !fits {
            return fault("accepted");
        }
    }
    Ok(Outcome::Accepted(codes))
}

/// Nothing but members whose value was null is gone.
fn without_nulls(sent: &str, got: &str) -> bool {
    let (Ok(Value::Object(mut sent)), Ok(Value::Object(got))) = (serde_json::from_str(sent), serde_json::from_str(got)) else {
        return false;
    };
    sent.retain(|_, value| !value.is_null());
    sent == got
}

fn run(mutants: &[Mutant], policy: &str, choose: impl Fn(&Mutant) -> Expected + Sync) {
    let fixture = fixture(policy);
    let address = fixture.proxy.address();
    let outcomes = wire::on_threads(mutants, |connection, mutant| {
        let connection = connection.get_or_insert_with(|| Connection::open(address));
        let expected = choose(mutant);
        let outcomes = FORMS.map(|form| check(connection, mutant, form, expected));
        if let [Ok(whole), Ok(deltas), Ok(fragments)] = &outcomes
            && (whole != deltas || whole != fragments)
        {
            return Err(format!("{}: whole {whole:?}, streamed {deltas:?} and {fragments:?}", mutant.id));
        }
        let [whole, deltas, fragments] = outcomes;
        deltas.and(fragments).and(whole)
    });
    let mut table: BTreeMap<&str, BTreeMap<String, usize>> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (mutant, outcome) in mutants.iter().zip(outcomes) {
        match outcome {
            Ok(outcome) => *table.entry(&mutant.kind).or_default().entry(format!("{outcome:?}")).or_default() += 1,
            Err(why) => wrong.push(format!("{} {why}", mutant.kind)),
        }
    }
    eprintln!("{} mutants, each in {} forms: {table:#?}", mutants.len(), FORMS.len());
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), mutants.len(), wrong.join("\n"));
}

#[test]
fn bad_calls_never_arrive_and_good_ones_do() {
    let Some(mutants) = mutants() else { return };
    run(&mutants, POLICY, |mutant| mutant.expected);
}

#[test]
fn nulls_are_rejected_where_no_correction_is_allowed() {
    let Some(mut mutants) = mutants() else { return };
    mutants.retain(|mutant| mutant.kind == "null_value");
    run(&mutants, NO_CORRECTIONS, |_| Expected::Reject);
}

/// Calls as `tool_calls` and as `function_call` in one message.
#[test]
fn calls_in_two_forms_are_refused() {
    let message = json!({
        "role": "assistant",
        "function_call": {"name": "f", "arguments": "{}"},
        "tool_calls": [{"id": "x", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
    });
    let fixture = fixture("default");
    let tool = json!({"type": "function", "function": {"name": "f"}});
    let request = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}], "tools": [tool]});
    let served = json!({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]});
    let reply = Connection::open(fixture.proxy.address()).post(
        "/v1/chat/completions",
        &format!("x-served: {served}\r\n"),
        request.to_string().as_bytes(),
    );
    // An application may run the one, the other, or both: which were judged for it can't be said.
    assert_eq!((reply.status, &reply.json()["error"]["code"]), (502, &json!("upstream_protocol")));
}
