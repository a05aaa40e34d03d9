//! The Messages API beside everything that isn't an API: caches and thinking over many turns, faults, cassettes and their tools, probes,
//! loops, fallbacks, tools that toolmark runs, state rules, what operators see.

use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;
use toolmark::{
    cassette::reader,
    testing::{Misbehaviour, Proxy, Received, Script, ScriptedReply, ScriptedUpstream, TodoServer},
};

use crate::{
    cassettes::stage::in_order,
    harness::{Fixture, http_client, post, run},
    messages_folded::fold,
    program::finish,
};

const CACHED: &str = r#""cache_control":{"type":"ephemeral"}"#;
const KEY: [u8; 32] = [0xcd; 32];

fn tools() -> Value {
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    json!([{"name": "get_weather", "description": "Weather of a city.", "input_schema": schema}])
}

fn request(stream: bool, messages: &[Value]) -> Value {
    json!({"model": "m", "max_tokens": 100, "stream": stream, "tools": tools(), "messages": messages})
}

fn asks(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn message(content: &Value) -> ScriptedReply {
    let calls = content.as_array().into_iter().flatten().any(|block| block["type"] == "tool_use");
    let stop = if calls { "tool_use" } else { "end_turn" };
    let body = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": content, "stop_reason": stop,
        "stop_sequence": null, "usage": {"input_tokens": 10, "output_tokens": 5}});
    ScriptedReply::json(200, body.to_string())
}

fn call(name: &str, input: Value) -> Value {
    json!({"type": "tool_use", "id": "toolu_1", "name": name, "input": input})
}

/// The results of all calls of an answer, as the next message.
fn results(answer: &Value, text: &str) -> Value {
    let calls = answer["content"].as_array().into_iter().flatten().filter(|block| block["type"] == "tool_use");
    let block = |call: &Value| json!({"type": "tool_result", "tool_use_id": call["id"], "content": [{"type": "text", "text": text}]});
    json!({"role": "user", "content": calls.map(block).collect::<Vec<_>>()})
}

fn kept(answer: &Value) -> Value {
    json!({"role": "assistant", "content": answer["content"]})
}

/// What a client reads, whole or streamed.
fn ask(proxy: &Proxy, body: &Value) -> Value {
    let answer = proxy.post("/messages", body).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.body);
    if body["stream"] == true { fold(&answer.body).unwrap_or_else(|why| panic!("{why}: {}", answer.body)) } else { answer.json() }
}

/// The model calls; the second question's call is wrong at first.
fn cached_model(received: &Received) -> ScriptedReply {
    let body = String::from_utf8_lossy(&received.body).into_owned();
    let (results, repaired) = (body.matches("tool_result").count(), body.contains(r#""is_error":true"#));
    let name = if results == 1 && !repaired { "get_wether" } else { "get_weather" };
    message(&json!([{"type": "text", "text": format!("Look {results}.")}, call(name, json!({"city": format!("city {results}")}))]))
}

/// As written by hand: the order of members is the client's, and breakpoints stay where they were set.
fn with_breakpoints(messages: &[String]) -> String {
    let system = format!(r#"[{{"type":"text","text":"x-anthropic-billing-header: 1"}},{{"type":"text","text":"Be brief.",{CACHED}}}]"#);
    let tools = tools().to_string();
    format!(r#"{{"model":"m","max_tokens":100,"tools":{tools},"system":{system},"messages":[{}]}}"#, messages.join(","))
}

#[test]
fn bytes_before_the_last_breakpoint_are_the_same_from_turn_to_turn() {
    for policy in ["[protocol]\ninject = true\n[calls]\ncorrections = []\n", "[calls]\ncorrections = []\n"] {
        let (directory, upstream) = (tempfile::tempdir().unwrap(), ScriptedUpstream::start(cached_model).unwrap());
        let file = directory.path().join("policy.toml");
        std::fs::write(&file, policy).unwrap();
        let start = || {
            let proxy = Proxy::builder().upstream(&upstream).policy(file.to_str().unwrap()).key(KEY).directory(directory.path());
            proxy.start().unwrap()
        };
        let mut proxy = start();
        let mut messages = vec![asks("Weather?").to_string()];
        let mut sent: Vec<String> = Vec::new();
        for turn in 0..6 {
            let before = upstream.received().len();
            let answer = post(&format!("{}/messages", proxy.base_url()), &with_breakpoints(&messages), "Bearer test");
            assert_eq!(answer.status, 200, "{}", answer.body);
            let received = upstream.received();
            let bodies: Vec<String> = received[before..].iter().map(|one| String::from_utf8_lossy(&one.body).into_owned()).collect();
            assert_eq!(bodies.len(), if turn == 1 { 2 } else { 1 }, "turn {turn}");
            // The repair shares the beginning too.
            for body in &bodies {
                if let Some(last) = sent.last() {
                    let end = last.rfind(CACHED).unwrap() + CACHED.len();
                    assert!(body.starts_with(&last[..end]), "turn {turn}:\n{}\n{body}", &last[..end]);
                    assert!(turn < 2 || last[..end].contains("execution_id: get_weather_1"), "{last}");
                }
            }
            sent.push(bodies[0].clone());
            let answer = answer.json();
            messages.push(kept(&answer).to_string());
            let result = results(&answer, "18 degrees").to_string();
            messages.push(result.replacen(r#""text":"18 degrees""#, &format!(r#""text":"18 degrees",{CACHED}"#), 1));
            match turn {
                // As after a deployment, and as a mount that is renewed with the same text.
                2 => {
                    drop(proxy);
                    proxy = start();
                }
                3 => {
                    std::fs::write(&file, policy).unwrap();
                    proxy.reload();
                }
                _ => {}
            }
        }
    }
}

/// A signature over all that came before it, as Anthropic binds thinking.
fn signature(request: &Value, before: usize) -> String {
    let messages = &request["messages"].as_array().unwrap()[..before];
    let bound = json!([request["system"], request["tools"], messages]).to_string();
    format!("sig_{}", &blake3::hash(bound.as_bytes()).to_hex()[..16])
}

/// Refuses thinking that is bound to another conversation, and where thinking is manual an open turn without it.
fn binding_model(received: &Received) -> ScriptedReply {
    let request = received.json();
    let refuse = |message: String| {
        ScriptedReply::json(400, json!({"type": "error", "error": {"type": "invalid_request_error", "message": message}}).to_string())
    };
    let messages = request["messages"].as_array().unwrap();
    let manual = request["thinking"]["type"] == "enabled";
    for (at, message) in messages.iter().enumerate().filter(|(_, message)| message["role"] == "assistant") {
        let blocks = message["content"].as_array().cloned().unwrap_or_default();
        let bound = blocks.iter().filter(|block| block["type"] == "thinking").all(|block| block["signature"] == signature(&request, at));
        if !manual && !bound {
            return refuse(format!(
                "messages.{at}.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation."
            ));
        }
        if manual && blocks.iter().any(|block| block["type"] == "tool_use") && blocks[0]["type"] != "thinking" {
            return refuse(format!(
                "messages.{at}.content.0.type: Expected `thinking` or `redacted_thinking`, but found `{}`",
                blocks[0]["type"]
            ));
        }
    }
    let last = messages.last().unwrap().to_string();
    let thinking = json!({"type": "thinking", "thinking": "Hm.", "signature": signature(&request, messages.len())});
    let said = match () {
        () if last.contains("is_error") => call("get_weather", json!({"city": "Rome"})),
        () if last.contains("tool_result") => json!({"type": "text", "text": "It is 18 degrees."}),
        () => call("get_wether", json!({"city": "Rome"})),
    };
    let reply = json!([thinking, said]);
    if request["stream"] != true {
        return message(&reply);
    }
    let event = |data: Value| format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap());
    let start = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": null, "stop_sequence": null,
        "usage": {"input_tokens": 1, "output_tokens": 1}});
    let mut out = event(json!({"type": "message_start", "message": start}));
    for (index, block) in reply.as_array().unwrap().iter().enumerate() {
        let (empty, deltas) = match block["type"].as_str() {
            Some("thinking") => (
                json!({"type": "thinking", "thinking": "", "signature": ""}),
                vec![
                    json!({"type": "thinking_delta", "thinking": "Hm."}),
                    json!({"type": "signature_delta", "signature": block["signature"]}),
                ],
            ),
            Some("text") => (json!({"type": "text", "text": ""}), vec![json!({"type": "text_delta", "text": block["text"]})]),
            _ => {
                let mut begun = block.clone();
                begun["input"] = json!({});
                (begun, vec![json!({"type": "input_json_delta", "partial_json": block["input"].to_string()})])
            }
        };
        out += &event(json!({"type": "content_block_start", "index": index, "content_block": empty}));
        deltas.into_iter().for_each(|delta| out += &event(json!({"type": "content_block_delta", "index": index, "delta": delta})));
        out += &event(json!({"type": "content_block_stop", "index": index}));
    }
    let stop = if reply.to_string().contains("tool_use") { "tool_use" } else { "end_turn" };
    out += &event(json!({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": null}, "usage": {"output_tokens": 2}}));
    ScriptedReply::events([out + &event(json!({"type": "message_stop"}))])
}

#[test]
fn thinking_is_never_sent_back_where_it_is_bound_to_a_hidden_turn() {
    for (thinking, stream) in [("adaptive", false), ("adaptive", true), ("enabled", false), ("enabled", true)] {
        let fixture = Fixture::with_policy("[protocol]\ninject = true\n[calls]\ncorrections = []\n", "", binding_model);
        let mut messages = vec![asks("Weather?")];
        let body = |messages: &[Value]| {
            let mut body = request(stream, messages);
            body["thinking"] =
                if thinking == "enabled" { json!({"type": thinking, "budget_tokens": 1024}) } else { json!({"type": thinking}) };
            body
        };
        // A repaired call, its result, a further question with a repaired call, and its result.
        for turn in 0..4 {
            let answer = ask(&fixture.proxy, &body(&messages));
            messages.push(kept(&answer));
            messages.push(if turn % 2 == 0 { results(&answer, "18 degrees") } else { asks("And tomorrow?") });
        }
        let repairs = fixture.upstream.received().iter().filter(|one| String::from_utf8_lossy(&one.body).contains("is_error")).count();
        assert_eq!((fixture.upstream.received().len(), repairs), (6, 2), "{thinking} {stream}");
        // The upstream does check: the thinking of a repair is refused without the hidden turn.
        let last = fixture.upstream.received().iter().rfind(|one| String::from_utf8_lossy(&one.body).contains("is_error")).unwrap().json();
        let hidden = last["messages"].as_array().unwrap().len();
        let mut forged = body(&messages[..1]);
        forged["messages"] = json!([messages[0], {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm.", "signature": signature(&last, hidden)}]}, asks("And?")]);
        let refused = post(&format!("{}/messages", fixture.proxy.base_url()), &forged.to_string(), "Bearer test");
        assert_eq!(refused.status, if thinking == "enabled" { 200 } else { 400 }, "{}", refused.body);
    }
}

fn faulty(kind: &str, more: &str) -> (Proxy, ScriptedUpstream) {
    let upstream = Script::new().call("get_weather", json!({"city": "Paris"})).start().unwrap();
    let proxy = Proxy::builder().upstream(&upstream).settings(&format!("[[faults]]\nkind = \"{kind}\"\n{more}")).start().unwrap();
    (proxy, upstream)
}

#[test]
fn faults_are_caught() {
    for stream in [false, true] {
        let asked = request(stream, &[asks("Weather in Paris?")]);
        for (kind, code) in
            [("unknown_tool", "unknown_tool"), ("malformed_arguments", "malformed_arguments"), ("forged_citation", "unknown_execution")]
        {
            let (proxy, upstream) = faulty(kind, "");
            let answer = proxy.post("/messages", &asked).unwrap();
            assert_eq!((answer.verdict(), answer.violations()), ("repaired".to_owned(), vec![code.to_owned()]), "{kind}: {}", answer.body);
            assert!(upstream.received().len() == 1 && answer.body.contains("Paris"), "{}", answer.body);
        }
        let (wrong, _upstream) = faulty("wrong_id", "");
        let got = ask(&wrong, &asked);
        assert!(crate::wire::is_mark(got["content"][0]["id"].as_str().unwrap()), "{got}");
    }
    let (dropped, _upstream) = faulty("dropped_stream", "");
    let answer = dropped.post("/messages", &request(true, &[asks("Weather?")])).unwrap();
    assert_eq!(answer.events().last().unwrap()["type"], "error", "{}", answer.body);
    let (slow, _upstream) = faulty("429", "repairs = true");
    let answer = slow.post("/messages", &request(false, &[asks("Weather?")])).unwrap();
    assert_eq!((answer.status, &answer.json()["type"]), (429, &json!("error")), "{}", answer.body);
}

/// A recorded conversation: a repaired call, its result, and an answer that cites it; whole and streamed.
fn recorded(directory: &Path) -> Vec<Value> {
    let upstream = ScriptedUpstream::start(|received| match received.json()["messages"].to_string() {
        asked if asked.contains("is_error") => said(received, Script::new().call("get_weather", json!({"city": "Rome"}))),
        asked if asked.contains("tool_result") => said(received, Script::new().say("It is 18 degrees in Rome.")),
        _ => said(received, Script::new().call("get_wether", json!({"city": "Rome"}))),
    })
    .unwrap();
    std::fs::write(directory.join("policy.toml"), "[calls]\ncorrections = []\n").unwrap();
    let policy = directory.join("policy.toml");
    let proxy = Proxy::builder().upstream(&upstream).policy(policy.to_str().unwrap()).key(KEY).record(directory.join("session.jsonl"));
    conversation(&proxy.start().unwrap())
}

/// The reply that a script of one turn gives.
fn said(received: &Received, script: Script) -> ScriptedReply {
    script.answer(received)
}

fn conversation(proxy: &Proxy) -> Vec<Value> {
    let mut answers = Vec::new();
    for stream in [false, true] {
        let mut messages = vec![asks("Weather in Rome?")];
        for _ in 0..2 {
            let answer = ask(proxy, &request(stream, &messages));
            messages.push(kept(&answer));
            messages.push(results(&answer, "18 degrees"));
            answers.push(answer);
        }
    }
    answers
}

/// Without what is new each time: marks.
fn bare(answers: &[Value]) -> Vec<Value> {
    let mut answers = answers.to_vec();
    for block in answers.iter_mut().flat_map(|answer| answer["content"].as_array_mut().unwrap().iter_mut()) {
        if block["type"] == "tool_use" {
            block["id"] = json!("mark");
        }
    }
    answers
}

#[test]
fn cassettes_are_recorded_played_judged_exported_and_imported() {
    let directory: TempDir = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let lived = recorded(directory);
    let exchanges = in_order(&directory.join("session.jsonl"));
    assert_eq!((exchanges.len(), exchanges[0].attempts.len()), (4, 2));
    let policy = directory.join("policy.toml");
    for _ in 0..2 {
        let played = Proxy::builder().cassette(directory.join("session.jsonl")).policy(policy.to_str().unwrap()).key(KEY).start().unwrap();
        assert_eq!(bare(&conversation(&played)), bare(&lived));
        // What wasn't counted then can't be counted now.
        assert_eq!(played.post("/messages/count_tokens", &request(false, &[asks("Weather?")])).unwrap().status, 404);
    }
    let replayed = finish(&["replay", "session.jsonl", "--policy", "policy.toml", "--json"], directory);
    assert_eq!(replayed.code, Some(0), "{replayed:?}");
    let strict = finish(&["replay", "session.jsonl", "--policy", "strict", "--strict"], directory);
    assert!(strict.stdout.contains("unknown_tool"), "{strict:?}");
    for form in ["vcr", "har"] {
        let (file, again) = (format!("session.{form}"), format!("{form}.jsonl"));
        assert_eq!(finish(&["export", form, "session.jsonl", "-o", &file], directory).code, Some(0));
        assert_eq!(finish(&["import", form, &file, "-o", &again], directory).code, Some(0));
        let (exchanges, _) = reader::all(&directory.join(&again)).unwrap();
        assert!(exchanges.iter().all(|exchange| exchange.downstream.request.url.ends_with("/messages")), "{form}");
        let replayed = finish(&["replay", &again, "--policy", "policy.toml"], directory);
        assert!(replayed.code == Some(0) || replayed.stdout.contains("unknown_tool"), "{replayed:?}");
    }
}

#[test]
fn counts_of_tokens_are_recorded_and_played() {
    let directory: TempDir = tempfile::tempdir().unwrap();
    let path = directory.path().join("session.jsonl");
    let upstream = ScriptedUpstream::start(|received| {
        assert!(received.line.starts_with("POST /v1/messages/count_tokens"), "{}", received.line);
        let status = if received.json()["messages"].to_string().contains("Too much") { 400 } else { 200 };
        ScriptedReply::json(status, r#"{"input_tokens":7}"#)
    })
    .unwrap();
    std::fs::write(directory.path().join("policy.toml"), "[protocol]\ninject = true\n").unwrap();
    let policy = directory.path().join("policy.toml").to_str().unwrap().to_owned();
    let counted = |proxy: &Proxy| {
        ["Weather?", "Too much"].map(|text| {
            let answer = proxy.post("/messages/count_tokens?beta=true", &request(false, &[asks(text)])).unwrap();
            (answer.status, answer.body)
        })
    };
    let lived = counted(&Proxy::builder().upstream(&upstream).policy(&policy).key(KEY).record(path.clone()).start().unwrap());
    assert_eq!((lived[0].0, &*lived[0].1, lived[1].0), (200, r#"{"input_tokens":7}"#, 400));
    let (exchanges, notices) = reader::all(&path).unwrap();
    assert_eq!((exchanges.len(), notices.len()), (2, 0));
    let sent = exchanges[0].attempts[0].request.as_ref().unwrap().body.as_ref().unwrap().text().unwrap();
    assert!(sent.contains("execution_id"), "as it went up: {sent}");
    let played = Proxy::builder().cassette(path.clone()).policy(&policy).key(KEY).start().unwrap();
    assert_eq!([counted(&played), counted(&played)], [lived.clone(), lived]);
    let unknown = played.post("/messages/count_tokens", &request(false, &[asks("Other")])).unwrap();
    assert_eq!((unknown.status, &unknown.json()["error"]["details"]["error_code"]), (404, &"cassette_miss".into()));
    // There is nothing in it to judge.
    let replayed = finish(&["replay", "session.jsonl"], directory.path());
    assert_eq!(replayed.code, Some(0), "{replayed:?}");
}

#[test]
fn judge_reads_messages() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    std::fs::write(directory.join("request.json"), request(false, &[asks("Weather?")]).to_string()).unwrap();
    for (content, code, word) in [
        (json!([call("get_weather", json!({"city": "Rome"}))]), 0, "get_weather"),
        (json!([call("get_wether_now", json!({"city": "Rome"}))]), 1, "unknown_tool"),
        (json!([call("get_weather", json!({"city": 1.5}))]), 1, "wrong_type"),
    ] {
        let body = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": content, "stop_reason": "tool_use",
            "stop_sequence": null, "usage": {"input_tokens": 1, "output_tokens": 1}});
        std::fs::write(directory.join("response.json"), body.to_string()).unwrap();
        let judged = finish(&["judge", "--request", "request.json", "--response", "response.json"], directory);
        assert_eq!((judged.code, judged.stdout.contains(word)), (Some(code), true), "{judged:?}");
    }
}

#[test]
fn an_upstream_that_speaks_only_messages_is_probed_in_its_own_form() {
    for (model, status) in [("calls", 200), ("talks", 503)] {
        let upstream = ScriptedUpstream::start(|received| {
            let request = received.json();
            let name = request["tools"][0]["name"].as_str().unwrap_or_default().to_owned();
            let input = if name == "toolmark_probe" { json!({"word": "ready"}) } else { json!({"city": "Rome"}) };
            match request["model"].as_str() {
                Some("talks") => message(&json!([{"type": "text", "text": "I am ready."}])),
                _ => message(&json!([call(&name, input)])),
            }
        })
        .unwrap();
        let settings = format!(
            "[[upstreams]]\nname = \"claude\"\nbase_url = \"{}\"\nchat = \"translate\"\nresponses = \"translate\"\nprobe = \"startup\"\n",
            upstream.base_url()
        );
        let directory = tempfile::tempdir().unwrap();
        let proxy = Proxy::start(&settings, &[], directory.path()).unwrap();
        let mut asked = request(false, &[asks("Weather?")]);
        asked["model"] = json!(model);
        let answer = proxy.post("/messages", &asked).unwrap();
        assert_eq!(answer.status, status, "{}", answer.body);
        let received = upstream.received();
        assert!(
            received.iter().all(|one| one.line == "POST /v1/messages"),
            "{:?}",
            received.iter().map(|one| &one.line).collect::<Vec<_>>()
        );
        let probe = received[0].json();
        assert_eq!((&probe["tools"][0]["name"], &probe["tool_choice"]["type"]), (&json!("toolmark_probe"), &json!("any")));
        assert!(probe["max_tokens"].is_number() && received[0].headers.contains_key("anthropic-version"));
    }
}

#[test]
fn a_model_that_never_stops_is_ended() {
    let policy = "[loops]\nidentical_calls = 3\non_limit = 'end'\n";
    let fixture = Fixture::with_policy(policy, "", |_| message(&json!([call("get_weather", json!({"city": "Rome"}))])));
    let mut messages = vec![asks("Weather?")];
    for turn in 0.. {
        let answer = ask(&fixture.proxy, &request(false, &messages));
        if answer["stop_reason"] == "end_turn" {
            assert_eq!(turn, 3);
            assert!(answer["content"][0]["text"].as_str().unwrap().starts_with("I stopped here"), "{answer}");
            assert!(answer["toolmark"]["violations"].as_array().unwrap().contains(&json!("loop_detected")), "{answer}");
            break;
        }
        assert!(turn < 8, "never ended");
        messages.extend([kept(&answer), results(&answer, "18 degrees")]);
    }
}

#[test]
fn a_fallback_may_speak_another_api() {
    let down =
        ScriptedUpstream::start(|_| ScriptedReply::json(529, r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#))
            .unwrap();
    let chat = Script::new().call("get_weather", json!({"city": "Rome"})).start().unwrap();
    let settings = format!(
        "[[upstreams]]\nname = \"claude\"\nbase_url = \"{}\"\nfallback = [\"other\"]\nfallback_models = {{ m = \"gpt\" }}\n\
         [[upstreams]]\nname = \"other\"\nbase_url = \"{}\"\nmodels = [\"gpt\"]\napi_key_env = \"\"\nmessages = \"translate\"\n",
        down.base_url(),
        chat.base_url()
    );
    let directory = tempfile::tempdir().unwrap();
    let proxy = Proxy::start(&settings, &[], directory.path()).unwrap();
    for stream in [false, true] {
        let answer = proxy.post("/messages", &request(stream, &[asks("Weather?")])).unwrap();
        assert_eq!((answer.status, answer.header("toolmark-upstream")), (200, "other"), "{}", answer.body);
        assert!(answer.body.contains("tool_use") && answer.body.contains("Rome"), "{}", answer.body);
    }
    assert!(chat.received().iter().all(|one| one.line == "POST /v1/chat/completions" && one.json()["model"] == "gpt"));
}

/// Adds milk to the list, with thinking in front, then says so.
fn shopper(received: &Received) -> ScriptedReply {
    let request = received.json();
    let last = request["messages"].as_array().unwrap().last().unwrap().clone();
    let stamp = last["content"][0]["content"].to_string();
    if last["content"][0]["type"] != "tool_result" {
        return message(&json!([call("todo__add_task", json!({"title": "milk"}))]));
    }
    let id = stamp
        .split("todo__add_task_")
        .nth(1)
        .map(|rest| rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect::<String>());
    let id = id.map_or_else(|| "none".to_owned(), |rest| format!("todo__add_task_{rest}"));
    message(&json!([{"type": "text", "text": format!("It is on the list (execution_id: {id}).")}]))
}

#[test]
fn tools_of_mcp_servers_run_and_what_they_did_is_looked_up() {
    const STATE: &str = "[[state]]\nname = \"added\"\nwhen = { tool = \"add_task\" }\nprobe = { mcp = \"todo\", tool = \"list_tasks\" }\n\
                         expect = \"$.tasks[?@.title == '{{title}}']\"\nmessage = \"the list has no such task\"\n";
    for (mood, policy, verdict) in
        [(Misbehaviour::Fine, "", "pass"), (Misbehaviour::Fine, STATE, "pass"), (Misbehaviour::Lies, STATE, "blocked")]
    {
        let todo = TodoServer::start().unwrap();
        todo.becomes(mood);
        let servers = format!("[[mcp]]\nname = \"todo\"\nurl = \"{}\"\nexecute = \"proxy\"\nrequired = true\n", todo.url());
        let fixture = Fixture::with_policy(policy, &servers, shopper);
        let asked = json!({"model": "m", "max_tokens": 100, "messages": [asks("Add milk")]});
        let answer = fixture.proxy.post("/messages", &asked).unwrap();
        assert_eq!((answer.status, &*answer.verdict()), (200, verdict), "{}", answer.body);
        assert!(!answer.body.contains("tool_use\",\"id"), "a call of toolmark's own leaves: {}", answer.body);
        if verdict == "pass" {
            assert_eq!((answer.text(), todo.titles()), ("It is on the list.".to_owned(), vec!["milk".to_owned()]), "{}", answer.body);
        } else {
            assert!(answer.violations().contains(&"state_mismatch".to_owned()), "{}", answer.body);
        }
        // A thread would have calls that the application hasn't: clients send whole conversations.
        let threaded = json!({"model": "m", "max_tokens": 100, "messages": [asks("Add milk")], "thread": {"type": "create"}});
        let refused = fixture.proxy.post("/messages", &threaded).unwrap();
        assert_eq!((refused.status, &refused.json()["error"]["details"]["error_code"]), (400, &"thread_unsupported_request".into()));
        // The round is in the next request again, as the model saw it.
        let before = fixture.upstream.received().len();
        let further = json!({"model": "m", "max_tokens": 100, "messages": [asks("Add milk"), kept(&answer.json()), asks("Add milk")]});
        fixture.proxy.post("/messages", &further).unwrap();
        let received = fixture.upstream.received();
        let restored = received[before].json()["messages"].clone();
        assert!(
            verdict != "pass" || restored[1]["content"][0]["type"] == "tool_use" && restored[2]["content"][0]["type"] == "tool_result",
            "{restored}"
        );
    }
}

#[test]
fn operators_see_messages() {
    let upstream =
        Script::new().call("get_wether_now", json!({"city": "Rome"})).call("get_weather", json!({"city": "Rome"})).start().unwrap();
    let collector = ScriptedUpstream::start(|_| ScriptedReply::json(200, "").header("content-type", "application/x-protobuf")).unwrap();
    let settings = format!(
        "[admin]\nlisten = \"127.0.0.1:0\"\n[[upstreams]]\nname = \"anthropic\"\nbase_url = \"{}\"\n[ledger]\nurl = \"memory:\"\n",
        upstream.base_url()
    );
    let directory = tempfile::tempdir().unwrap();
    let endpoint = collector.base_url().replace("/v1", "");
    let proxy = Proxy::start(&settings, &[("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint)], directory.path()).unwrap();
    let answer = proxy.post("/messages", &request(false, &[asks("Weather?")])).unwrap();
    assert_eq!(answer.verdict(), "repaired", "{}", answer.body);
    let read = |path: &str| {
        let url = format!("{}{path}", proxy.admin_url());
        run(async { http_client().get(url).send().await.unwrap().text().await.unwrap() })
    };
    let metrics = crate::program::until("the exchange is counted", || {
        Some(read("/metrics"))
            .filter(|text| text.contains(r#"toolmark_requests_total{api="messages",stream="false",verdict="repaired"} 1"#))
    });
    assert!(metrics.contains(r#"toolmark_violations_total{code="unknown_tool",action="block"} 1"#), "{metrics}");
    let listed: Value = serde_json::from_str(&read("/api/exchanges")).unwrap();
    let row = &listed["data"][0];
    assert_eq!((&row["api"], &row["verdict"]), (&json!("messages"), &json!("repaired")), "{listed}");
    let id = answer.header("toolmark-exchange").to_owned();
    let timeline = read(&format!("/api/exchanges/{id}/timeline"));
    assert!(timeline.contains("get_weather") && timeline.contains("unknown_tool"), "{timeline}");
    drop(proxy);
    let spans: Vec<u8> = collector.received().into_iter().flat_map(|one| one.body).collect();
    let spans = String::from_utf8_lossy(&spans).into_owned();
    for word in ["gen_ai.provider.name", "anthropic", "POST /v1/messages"] {
        assert!(spans.contains(word), "{word}");
    }
}
