//! Anthropic's Messages API beyond what every API has in common: streams with repairs, thinking, caches, credentials,
//! errors, counts of tokens.

use serde_json::{Value, json};
use toolmark::{
    marks::CallMark,
    testing::{BodyPart, Received, ScriptedReply},
};

use crate::{
    harness::{Answer, Fixture, post, run},
    messages_folded::{events, fold},
};

const KEY: &str = "Bearer test";

fn request(more: Value) -> Value {
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    let tools = json!([{"name": "get_weather", "description": "Weather of a city.", "input_schema": schema}]);
    let mut body =
        json!({"model": "claude-opus-5-5", "max_tokens": 100, "tools": tools, "messages": [{"role": "user", "content": "Weather?"}]});
    for (name, value) in more.as_object().into_iter().flatten() {
        body[name] = value.clone();
    }
    body
}

fn message(content: Value, stop: &str) -> Value {
    json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-opus-5-5", "content": content, "stop_reason": stop,
        "stop_sequence": null, "usage": {"input_tokens": 10, "output_tokens": 5}})
}

fn call(id: &str, tool: &str, input: Value) -> Value {
    json!({"type": "tool_use", "id": id, "name": tool, "input": input})
}

fn thinking(signature: &str) -> Value {
    json!({"type": "thinking", "thinking": "Hm.", "signature": signature})
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// The message as its events.
fn streamed(message: &Value) -> Vec<String> {
    let mut start = message.clone();
    let stop = std::mem::take(&mut start["stop_reason"]);
    let content = std::mem::replace(&mut start["content"], json!([]));
    let mut out = vec![json!({"type": "message_start", "message": start})];
    for (index, block) in content.as_array().into_iter().flatten().enumerate() {
        let mut begun = block.clone();
        let deltas = match block["type"].as_str() {
            Some("text") => vec![("text", "text_delta", "text", json!(""))],
            Some("thinking") => {
                vec![("thinking", "thinking_delta", "thinking", json!("")), ("signature", "signature_delta", "signature", json!(""))]
            }
            Some("tool_use") => vec![("input", "input_json_delta", "partial_json", json!({}))],
            _ => vec![],
        };
        deltas.iter().for_each(|(member, .., empty)| begun[*member] = empty.clone());
        out.push(json!({"type": "content_block_start", "index": index, "content_block": begun}));
        for (member, kind, name, _) in deltas {
            let said = block[member].as_str().map_or_else(|| block[member].to_string(), str::to_owned);
            let mut delta = json!({"type": kind});
            delta[name] = json!(said);
            out.push(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        }
        out.push(json!({"type": "content_block_stop", "index": index}));
    }
    out.push(json!({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": null}, "usage": message["usage"]}));
    out.push(json!({"type": "message_stop"}));
    out.iter().map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap())).collect()
}

/// A proxy in front of a model that says these messages, in turn, as it is asked to.
fn fixture(policy: &str, settings: &str, messages: Vec<Value>) -> Fixture {
    Fixture::with_policy(policy, settings, move |received| {
        let message = messages.get(received.number).or(messages.last()).unwrap();
        if received.json()["stream"] == true {
            ScriptedReply::events(streamed(message))
        } else {
            ScriptedReply::json(200, message.to_string())
        }
    })
}

fn ask(fixture: &Fixture, body: &Value) -> Answer {
    post(&format!("{}/messages", fixture.proxy.base_url()), &body.to_string(), KEY)
}

/// Asks for a stream, or for a whole message: the message, as a client reads it.
fn ask_for(fixture: &Fixture, stream: bool, more: Value) -> Value {
    let mut body = request(more);
    body["stream"] = json!(stream);
    let answer = ask(fixture, &body);
    if stream { fold(&answer.body).unwrap_or_else(|why| panic!("{why}: {}", answer.body)) } else { answer.json() }
}

fn kinds(message: &Value) -> Vec<&str> {
    message["content"].as_array().into_iter().flatten().filter_map(|block| block["type"].as_str()).collect()
}

#[test]
fn a_repair_stays_inside_the_message() {
    let bad = message(json!([text("One moment."), call("toolu_1", "get_wether", json!({"city": "Rome"}))]), "tool_use");
    let good = message(json!([call("toolu_1", "get_weather", json!({"city": "Rome"}))]), "tool_use");
    for stream in [false, true] {
        let fixture = fixture("[calls]\ncorrections = []\n", "", vec![bad.clone(), good.clone()]);
        let got = ask_for(&fixture, stream, json!({}));
        let expected: &[&str] = if stream { &["text", "tool_use"] } else { &["tool_use"] };
        assert_eq!(kinds(&got), expected, "{got}");
        let call = got["content"].as_array().unwrap().last().unwrap();
        assert!(CallMark::parse(call["id"].as_str().unwrap()).is_some() && call["input"]["city"] == "Rome", "{got}");
        assert_eq!(
            (&got["usage"]["input_tokens"], &got["usage"]["output_tokens"], &got["stop_reason"]),
            (&20.into(), &10.into(), &"tool_use".into())
        );
        let again = fixture.upstream.received()[1].json();
        let messages = again["messages"].as_array().unwrap();
        assert_eq!((&messages[1]["content"][0]["text"], &messages[2]["content"][0]["is_error"]), (&"One moment.".into(), &true.into()));
        assert_eq!(again["tool_choice"], Value::Null, "nothing is forced");
    }
}

#[test]
fn thinking_after_a_repair_stays_only_where_it_is_not_bound_to_the_rejected_turn() {
    let bad = message(json!([thinking("sig_1"), call("toolu_1", "get_weather", json!({}))]), "tool_use");
    let good = message(json!([thinking("sig_2"), call("toolu_2", "get_weather", json!({"city": "Rome"}))]), "tool_use");
    for stream in [false, true] {
        let play = |more| ask_for(&fixture("default", "", vec![bad.clone(), good.clone()]), stream, more);
        let signatures = |message: &Value| -> Vec<String> {
            let blocks = message["content"].as_array().unwrap().iter();
            blocks.filter_map(|block| block["signature"].as_str().map(str::to_owned)).collect()
        };
        let adaptive = play(json!({"thinking": {"type": "adaptive"}}));
        // What had left before the rejection is bound to nothing that is hidden.
        let expected: &[&str] = if stream { &["sig_1"] } else { &[] };
        assert_eq!(signatures(&adaptive), expected, "{adaptive}");
        let manual = play(json!({"thinking": {"type": "enabled", "budget_tokens": 1024}}));
        assert_eq!(signatures(&manual).last().map(String::as_str), Some("sig_2"), "{manual}");
        let first = ask_for(&fixture("default", "", vec![good.clone()]), stream, json!({"thinking": {"type": "adaptive"}}));
        assert_eq!(signatures(&first), ["sig_2"]);
    }
}

#[test]
fn a_rejected_turn_goes_back_as_it_came() {
    let bad = message(json!([thinking("sig_1"), text("Let me see."), call("toolu_1", "get_weather", json!({}))]), "tool_use");
    let good = message(json!([text("I can't.")]), "end_turn");
    for stream in [false, true] {
        let fixture = fixture("default", "", vec![bad.clone(), good.clone()]);
        ask_for(&fixture, stream, json!({}));
        let echoed = fixture.upstream.received()[1].json()["messages"][1]["content"].clone();
        assert_eq!((&echoed[0], &echoed[1]), (&bad["content"][0], &bad["content"][1]));
    }
}

/// A turn of an agent: what was called, and what came of it.
fn turns(first: &Value, result: Value) -> Vec<Value> {
    let answer = json!({"role": "assistant", "content": first["content"]});
    let block = json!({"type": "tool_result", "tool_use_id": first["content"][0]["id"], "content": result});
    vec![json!({"role": "user", "content": "Weather?"}), answer, json!({"role": "user", "content": [block]})]
}

#[test]
fn results_are_stamped_in_their_form() {
    let calls = message(json!([call("toolu_1", "get_weather", json!({"city": "Rome"}))]), "tool_use");
    let said = message(json!([text("It is noted.")]), "end_turn");
    let fixture = fixture("default", "", vec![calls, said]);
    let first = ask_for(&fixture, false, json!({}));
    let sent = |result: Value| {
        ask_for(&fixture, false, json!({"messages": turns(&first, result)}));
        fixture.upstream.received().last().unwrap().json()["messages"][2]["content"][0]["content"].clone()
    };
    assert!(sent(json!("18 degrees")).as_str().unwrap().starts_with("[execution_id: get_weather_"));
    assert!(sent(json!("{\"degrees\":18}")).as_str().unwrap().starts_with("{\"execution_id\":\"get_weather_"));
    let parts = sent(json!([{"type": "text", "text": "18", "cache_control": {"type": "ephemeral"}}]));
    assert_eq!((parts[0]["text"].as_str().unwrap().starts_with("[execution_id: "), &parts[1]["text"]), (true, &"18".into()));
    for untouched in [json!([{"type": "tool_reference", "tool_name": "x"}]), json!([{"type": "browser_state", "tabs": []}])] {
        assert_eq!(sent(untouched.clone()), untouched);
    }
}

#[test]
fn code_that_called_reads_its_result_unchanged_unless_it_is_an_object() {
    let programmatic = json!({"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Rome"},
        "caller": {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}});
    let code = json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "code_execution", "input": {"code": "x"}});
    let calls = message(json!([programmatic, code]), "tool_use");
    let fixture = fixture("default", "", vec![calls, message(json!([text("Noted.")]), "end_turn")]);
    let first = ask_for(&fixture, false, json!({}));
    assert_eq!(first["content"][1], code, "what the upstream runs passes");
    let sent = |result: &str| {
        ask_for(&fixture, false, json!({"messages": turns(&first, json!(result))}));
        fixture.upstream.received().last().unwrap().json()["messages"][2]["content"][0]["content"].clone()
    };
    assert_eq!(sent("18 degrees"), "18 degrees");
    assert_eq!(sent("[18]"), "[18]");
    assert!(sent("{\"degrees\":18}").as_str().unwrap().starts_with("{\"execution_id\":"));
}

#[test]
fn a_conversation_goes_up_with_the_same_beginning_every_time() {
    let cached = json!({"type": "ephemeral"});
    let system =
        json!([{"type": "text", "text": "x-anthropic-billing-header: 1"}, {"type": "text", "text": "Be brief.", "cache_control": cached}]);
    let calls = message(json!([call("toolu_1", "get_weather", json!({"city": "Rome"}))]), "tool_use");
    let fixture = fixture("[protocol]\ninject = true\n", "", vec![calls]);
    let first = ask_for(&fixture, false, json!({"system": system}));
    let mut messages = turns(&first, json!("18 degrees"));
    let mut bodies = Vec::new();
    for _ in 0..4 {
        // The breakpoint moves along with the last message, as Claude Code's does.
        let mut marked = messages.clone();
        let last = marked.last_mut().unwrap();
        last["content"][0]["cache_control"] = cached.clone();
        let answer = ask_for(&fixture, false, json!({"system": system, "messages": marked}));
        let received: Received = fixture.upstream.received().last().unwrap().clone();
        bodies.push(String::from_utf8(received.body.to_vec()).unwrap());
        let next = turns(&answer, json!([{"type": "text", "text": format!("{} degrees", bodies.len())}]));
        messages.extend(next.into_iter().skip(1));
    }
    // Up to the last breakpoint, the bytes of one turn are those of the next, but for the breakpoint itself.
    let bare =
        |body: &str| body.replace(r#","cache_control":{"type":"ephemeral"}"#, "").replace(r#""cache_control":{"type":"ephemeral"},"#, "");
    let head = |body: &str| -> Value { serde_json::from_str(body).unwrap() };
    for pair in bodies.windows(2) {
        let (one, two) = (head(&bare(&pair[0])), head(&bare(&pair[1])));
        assert_eq!((&one["system"], &one["tools"]), (&two["system"], &two["tools"]));
        let (one, two) = (one["messages"].as_array().unwrap().clone(), two["messages"].as_array().unwrap().clone());
        assert_eq!(one[..], two[..one.len()]);
        assert!(one[2]["content"][0]["content"].as_str().unwrap().contains("execution_id"));
    }
    let system = &head(&bodies[0])["system"];
    assert_eq!((&system[0]["text"], &system[1]["cache_control"]["type"]), (&"x-anthropic-billing-header: 1".into(), &"ephemeral".into()));
    assert!(system[2]["text"].as_str().unwrap().contains("execution_id") && system[2].get("cache_control").is_none(), "{system}");
}

#[test]
fn a_result_is_the_same_one_however_a_client_writes_it() {
    let calls = message(json!([call("toolu_1", "get_weather", json!({"city": "Rome"}))]), "tool_use");
    let fixture = fixture("default", "", vec![calls, message(json!([text("Noted.")]), "end_turn")]);
    let first = ask_for(&fixture, false, json!({}));
    let codes = |result: Value| {
        let body = request(json!({"messages": turns(&first, result)}));
        ask(&fixture, &body).header("toolmark-violations").to_owned()
    };
    assert_eq!(codes(json!("18 degrees")), "");
    assert_eq!(codes(json!([{"type": "text", "text": "18 degrees", "cache_control": {"type": "ephemeral"}}])), "");
    assert!(codes(json!("19 degrees")).contains("rewritten_result"));
    let mut failed = turns(&first, json!("18 degrees"));
    failed[2]["content"][0]["is_error"] = json!(true);
    assert!(ask(&fixture, &request(json!({"messages": failed}))).header("toolmark-violations").contains("failed_result"));
}

#[test]
fn indexes_have_no_gap_and_no_text_is_empty() {
    let content = json!([text(""), thinking("s"), text(""), text("It is."), call("toolu_1", "get_weather", json!({"city": "Rome"}))]);
    let got = ask_for(&fixture("default", "", vec![message(content, "end_turn")]), true, json!({}));
    assert_eq!((kinds(&got), &got["stop_reason"]), (vec!["thinking", "text", "tool_use"], &"tool_use".into()));
}

#[test]
fn a_stream_that_is_cut_ends_with_an_error() {
    let events = streamed(&message(json!([text("It is"), call("toolu_1", "get_weather", json!({"city": "Rome"}))]), "tool_use"));
    for kept in 1..events.len() - 1 {
        let pieces: Vec<String> = events[..kept].to_vec();
        let fixture = Fixture::new("default", move |_| ScriptedReply::events(pieces.clone()).then(BodyPart::Cut));
        let mut body = request(json!({}));
        body["stream"] = json!(true);
        let answer = ask(&fixture, &body);
        if answer.status == 502 {
            // Cut with the head of the answer: nothing of a stream was sent.
            assert_eq!(answer.json()["error"]["type"], "api_error", "{kept}");
            continue;
        }
        let whole = answer.body.strip_suffix("<broken off>");
        let got = fold(whole.unwrap_or_else(|| panic!("{kept}: {}", answer.body))).unwrap();
        assert_eq!((&got["type"], &got["error"]["type"]), (&"error".into(), &"api_error".into()), "{kept}");
        assert!(!answer.body.contains("tool_use"), "{}", answer.body);
    }
}

#[test]
fn errors_of_the_upstream_pass_unwrapped() {
    let error = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"req_1"}"#;
    let fixture = Fixture::new("default", move |_| ScriptedReply::json(400, error));
    assert_eq!(ask(&fixture, &request(json!({}))).body, error);
    let event = format!("event: error\ndata: {error}\n\n");
    let start = streamed(&message(json!([]), "end_turn"))[0].clone();
    let fixture = Fixture::new("default", move |_| ScriptedReply::events([start.clone(), event.clone()]));
    let mut body = request(json!({}));
    body["stream"] = json!(true);
    let got = fold(&ask(&fixture, &body).body).unwrap();
    assert_eq!((&got["error"]["type"], &got["error"]["message"]), (&"overloaded_error".into(), &"Overloaded".into()));
}

#[test]
fn odd_streams_are_put_in_order() {
    let whole = message(json!([text("One."), text("Two.")]), "end_turn");
    let mut events = streamed(&whole);
    events[0] = events[0].repeat(2);
    // The second block starts before the first has ended, indexes begin at 3, and one end is missing.
    let [start, one, said_one, _, two, said_two, end_two, delta, stop] = <[String; 9]>::try_from(events).unwrap();
    let moved = |event: &String| event.replace("\"index\":1", "\"index\":9").replace("\"index\":0", "\"index\":3");
    let unknown = "event: news\ndata: {\"type\":\"news\",\"text\":\"s3cret\"}\n\n".to_owned();
    let pieces = [start, moved(&one), moved(&two), moved(&said_two), unknown, moved(&said_one), moved(&end_two), delta, stop];
    let fixture = Fixture::new("default", move |_| ScriptedReply::events(pieces.clone()));
    let got = ask_for(&fixture, true, json!({}));
    assert_eq!(got["content"], whole["content"]);
}

#[test]
fn what_no_client_should_run_is_refused() {
    let start = streamed(&message(json!([]), "end_turn"))[0].clone();
    let event = |event: Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
    let open = |block: Value| event(json!({"type": "content_block_start", "index": 0, "content_block": block}));
    let delta = |delta: Value| event(json!({"type": "content_block_delta", "index": 0, "delta": delta}));
    let end: String = streamed(&message(json!([]), "tool_use"))[1..].concat();
    let evil = call("toolu_1", "s3cret", json!({}));
    for events in [
        open(json!({"type": "surprise", "tool_use": evil})),
        open(json!({"type": "server_thing", "name": "s3cret", "input": {"a": 1}, "content": [evil]}))
            .replace("server_thing", "function_call"),
        open(evil.clone()).replace("event: content_block_start", "event: ping"),
        format!(
            "{}{}",
            open(json!({"type": "text", "text": ""})),
            delta(json!({"type": "input_json_delta", "partial_json": "{\"s3cret\":1}"}))
        ),
        start.replace("\"content\":[]", &format!("\"content\":[{evil}]")),
    ] {
        let body = format!("{}{events}{end}", if events.contains("message_start") { "" } else { &start });
        let fixture = Fixture::new("default", move |_| ScriptedReply::events([body.clone()]));
        let mut body = request(json!({}));
        body["stream"] = json!(true);
        let answer = ask(&fixture, &body);
        assert!(!answer.body.contains("s3cret") && answer.body.contains("event: error"), "{}", answer.body);
    }
}

#[test]
fn keys_go_up_in_the_header_that_they_came_in() {
    let fixture = fixture("default", "", vec![message(json!([text("Hi.")]), "end_turn")]);
    let url = format!("http://{}/v1/messages?beta=true", fixture.proxy.address());
    let send = |headers: &[(&'static str, &'static str)]| {
        let mut asked = crate::harness::http_client().post(&url).body(request(json!({})).to_string());
        for (name, value) in headers {
            asked = asked.header(*name, *value);
        }
        assert_eq!(run(asked.send()).unwrap().status(), 200);
        fixture.upstream.received().last().unwrap().clone()
    };
    let received = send(&[("x-api-key", "k1"), ("anthropic-version", "2023-06-01"), ("anthropic-beta", "a,b")]);
    let header = |received: &Received, name: &str| received.headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    assert_eq!((header(&received, "x-api-key").as_deref(), header(&received, "authorization")), (Some("k1"), None));
    assert_eq!(
        (header(&received, "anthropic-version").as_deref(), header(&received, "anthropic-beta").as_deref()),
        (Some("2023-06-01"), Some("a,b"))
    );
    assert!(received.line.starts_with("POST /v1/messages?beta=true"), "{}", received.line);
    let received = send(&[("authorization", "Bearer k2")]);
    assert_eq!((header(&received, "x-api-key"), header(&received, "authorization").as_deref()), (None, Some("Bearer k2")));
}

#[test]
fn toolmarks_own_keys_are_known_in_either_header_and_the_upstreams_goes_where_it_is_wanted() {
    let digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    let settings =
        format!("api_key_env = \"MESSAGES_TEST_KEY\"\nkey_header = \"x-api-key\"\n[[clients]]\nname = \"a\"\nkey_sha256 = \"{digest}\"\n");
    let directory = tempfile::tempdir().unwrap();
    let said = message(json!([text("Hi.")]), "end_turn").to_string();
    let upstream = toolmark::testing::ScriptedUpstream::start(move |_| ScriptedReply::json(200, said.clone())).unwrap();
    let settings = format!("[[upstreams]]\nname = \"u\"\nbase_url = \"{}\"\n{settings}", upstream.base_url());
    let proxy = toolmark::testing::Proxy::start(&settings, &[("MESSAGES_TEST_KEY", "sk-up")], directory.path()).unwrap();
    for (name, value, status) in [("x-api-key", "test", 200), ("authorization", "Bearer test", 200), ("x-api-key", "other", 401)] {
        let asked = crate::harness::http_client().post(format!("{}/messages", proxy.base_url()));
        let answer = run(async {
            let answer = asked.header(name, value).body(request(json!({})).to_string()).send().await.unwrap();
            (answer.status().as_u16(), answer.json::<Value>().await.unwrap())
        });
        assert_eq!(answer.0, status, "{answer:?}");
        if status == 401 {
            assert_eq!((&answer.1["type"], &answer.1["error"]["type"]), (&"error".into(), &"authentication_error".into()));
            continue;
        }
        let headers = upstream.received().last().unwrap().headers.clone();
        assert_eq!(
            (headers.get("x-api-key").unwrap(), headers.get("authorization")),
            (&"sk-up".parse::<reqwest::header::HeaderValue>().unwrap(), None)
        );
    }
}

#[test]
fn tokens_are_counted_as_they_would_be_sent() {
    let fixture = Fixture::with_policy("[protocol]\ninject = true\n", "", |received| {
        assert!(received.line.starts_with("POST /v1/messages/count_tokens"), "{}", received.line);
        ScriptedReply::json(200, r#"{"input_tokens":7}"#)
    });
    let mut body = request(json!({}));
    body.as_object_mut().unwrap().remove("max_tokens");
    let answer = post(&format!("{}/messages/count_tokens", fixture.proxy.base_url()), &body.to_string(), KEY);
    assert_eq!((answer.status, &*answer.body), (200, r#"{"input_tokens":7}"#));
    assert!(fixture.upstream.received()[0].json()["system"].as_str().unwrap().contains("execution_id"), "the protocol text counts");
}

#[test]
fn models_come_in_the_form_of_the_client() {
    let fixture =
        Fixture::new("default", |_| ScriptedReply::json(200, r#"{"object":"list","data":[{"id":"m","object":"model","created":1}]}"#));
    let get = |version: bool| {
        let asked = crate::harness::http_client().get(format!("{}/models?limit=1000", fixture.proxy.base_url()));
        let asked = if version { asked.header("anthropic-version", "2023-06-01") } else { asked };
        run(async { asked.send().await.unwrap().json::<Value>().await.unwrap() })
    };
    assert_eq!((&get(true)["data"][0]["type"], &get(true)["has_more"]), (&"model".into(), &false.into()));
    assert_eq!(get(false)["object"], "list");
    let hello = run(crate::harness::http_client().head(format!("http://{}/api/hello", fixture.proxy.address())).send());
    assert_eq!(hello.unwrap().status(), 200);
}

#[test]
fn toolsets_and_servers_tools_pass_unjudged() {
    let member =
        json!({"type": "tool_use", "id": "toolu_9", "name": "left_click", "toolset_name": "computer", "input": {"coordinate": [1, 2]}});
    let found = json!({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"type": "web_search_result", "title": "T", "url": "https://a.b", "encrypted_content": "x"}]});
    let search = json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}});
    let content = json!([search, found, text("See there."), member]);
    let mut tools = request(json!({}))["tools"].clone();
    tools
        .as_array_mut()
        .unwrap()
        .extend([json!({"type": "computer_toolset_20260801"}), json!({"type": "web_search_20260318", "name": "web_search"})]);
    let fixture = fixture("default", "", vec![message(content.clone(), "tool_use")]);
    for stream in [false, true] {
        let got = ask_for(&fixture, stream, json!({"tools": tools}));
        assert_eq!(got["content"], content, "{got}");
        assert_eq!(fixture.upstream.received().last().unwrap().json()["tools"], tools);
    }
}

/// The name of a toolset excuses only calls of a toolset that the request offers, and never one of the request's own tools.
#[test]
fn a_toolset_that_is_not_offered_excuses_no_call() {
    let member = |name: &str, toolset: &str, input: Value| json!({"type": "tool_use", "id": "toolu_9", "name": name, "toolset_name": toolset, "input": input});
    let own = request(json!({}))["tools"].clone();
    let with = |kind: &str| {
        let mut tools = own.clone();
        tools.as_array_mut().unwrap().push(json!({"type": kind}));
        tools
    };
    for (tools, choice, call) in [
        (own.clone(), json!("auto"), member("delete_everything", "x", json!({"a": 1}))),
        (own.clone(), json!("auto"), member("delete_everything", "", json!({}))),
        (with("mcp_toolset"), json!("auto"), member("left_click", "mcp", json!({}))),
        (with("browser_toolset_20260801"), json!("auto"), member("left_click", "computer", json!({}))),
        (with("computer_toolset_20260801"), json!("auto"), member("get_weather", "computer", json!({"town": 5}))),
        (with("computer_toolset_20260801"), json!("none"), member("left_click", "computer", json!({}))),
    ] {
        let fixture = fixture("[calls]\nmax_repairs = 0\n", "", vec![message(json!([call]), "tool_use")]);
        for stream in [false, true] {
            let got = ask_for(&fixture, stream, json!({"tools": tools, "tool_choice": {"type": choice}}));
            assert_eq!(kinds(&got), ["text"], "{call}: {got}");
        }
    }
}

#[test]
fn text_before_later_thinking_is_not_edited_where_the_thinking_stays() {
    let calls = message(json!([call("toolu_1", "get_weather", json!({"city": "Rome"}))]), "tool_use");
    let fixture = Fixture::new("default", move |received: &Received| {
        let body = String::from_utf8_lossy(&received.body).into_owned();
        let id = regex::Regex::new(r"get_weather_\d{13}_[0-9a-f]{16}").unwrap().find(&body).map(|found| found.as_str().to_owned());
        let message = match id {
            None => calls.clone(),
            Some(id) => {
                let cited = format!("It is 18 degrees (execution_id: {id}).");
                message(json!([text(&cited), thinking("s"), text(&cited)]), "end_turn")
            }
        };
        if received.json()["stream"] == true {
            ScriptedReply::events(streamed(&message))
        } else {
            ScriptedReply::json(200, message.to_string())
        }
    });
    let first = ask_for(&fixture, false, json!({}));
    let more = json!({"messages": turns(&first, json!("18 degrees"))});
    let whole = ask_for(&fixture, false, more.clone());
    assert_eq!(kinds(&whole), ["text", "thinking", "text"]);
    assert!(whole["content"][0]["text"].as_str().unwrap().contains("execution_id"), "{whole}");
    assert_eq!(whole["content"][2]["text"], "It is 18 degrees.");
    // A stream has sent the text before it knows of the thinking, which goes instead.
    let streamed = ask_for(&fixture, true, more);
    assert_eq!(kinds(&streamed), ["text", "text"]);
    assert_eq!(streamed["content"][0]["text"], "It is 18 degrees.");
}

#[test]
fn every_event_has_its_name() {
    let fixture = fixture("default", "", vec![message(json!([text("Hi.")]), "end_turn")]);
    let mut body = request(json!({}));
    body["stream"] = json!(true);
    let answer = ask(&fixture, &body);
    assert!(events(&answer.body).is_ok() && !answer.body.contains("[DONE]"), "{}", answer.body);
}
