//! What some upstreams do that others don't, and that no client should notice.

use serde_json::json;
use toolmark::testing::ScriptedReply;

use crate::folded::fold;
use crate::harness::{Fixture, post};
use crate::streams::{NO_REPAIR, call, chunk, delta, finish, play, request, streamed};

#[test]
fn a_stream_under_another_name_is_a_stream() {
    let events = [delta(r#"{"role":"assistant","content":"Hel"}"#), delta(r#"{"content":"lo"}"#), finish("stop")];
    for kind in ["", "text/plain", "application/octet-stream", "application/json"] {
        let (answer, _) = play("", vec![ScriptedReply::chunks(&events).header("content-type", kind)], &request(r#","stream":true"#));
        assert_eq!((answer.status, answer.header("content-type")), (200, "text/event-stream"), "{kind}: {}", answer.body);
        assert_eq!(fold(&answer).choices[0].text, "Hello", "{kind}");
        assert!(answer.body.ends_with("data: [DONE]\n\n"), "{kind}");
    }
    // Nobody asked for one here.
    let (answer, _) = play("", vec![ScriptedReply::chunks(&events).header("content-type", "text/plain")], &request(""));
    assert_eq!(answer.status, 502);
}

#[test]
fn whole_answers_to_whoever_asked_for_a_stream() {
    let whole = json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}]});
    for body in [whole.to_string(), format!("\n  {whole}"), format!("\u{feff}{whole}")] {
        let (answer, _) =
            play("", vec![ScriptedReply::json(200, body).header("content-type", "text/plain")], &request(r#","stream":true"#));
        assert_eq!((answer.status, answer.json()["choices"][0]["message"]["content"].as_str()), (200, Some("Hello")), "{}", answer.body);
    }
}

#[test]
fn a_call_that_broke_off_is_completed_by_nobody() {
    for reason in ["length", "model_length", "MAX_TOKENS", "error", "abort", "insufficient_system_resource"] {
        let broken = call("check_net", "");
        let message =
            json!({"role": "assistant", "content": null, "tool_calls": [serde_json::from_str::<serde_json::Value>(&broken).unwrap()]});
        let whole = json!({"id": "c", "choices": [{"index": 0, "message": message, "finish_reason": reason}]}).to_string();
        let (answer, _) = play(NO_REPAIR, vec![ScriptedReply::json(200, whole)], &request(""));
        assert!(answer.header("toolmark-violations").contains("truncated_call"), "{reason}: {}", answer.body);
        assert!(!answer.body.contains("\"tool_calls\":["), "{reason}: {}", answer.body);
        let (answer, folded) = streamed(NO_REPAIR, &[delta(&format!(r#"{{"tool_calls":[{broken}]}}"#)), finish(reason)], "");
        assert!(
            folded.choices.iter().all(|choice| choice.calls.is_empty()) && !answer.body.contains("\"tool_calls\":["),
            "{reason}: {}",
            answer.body
        );
    }
}

#[test]
fn a_tool_of_the_upstreams_own_kind_may_be_called() {
    let tools = r#"[{"type":"builtin_function","function":{"name":"$web_search"}}]"#;
    let body = format!(r#"{{"model":"m","messages":[{{"role":"user","content":"go"}}],"tools":{tools}}}"#);
    let call = r#"{"id":"x","type":"builtin_function","function":{"name":"$web_search","arguments":"{\"q\":\"a\"}"}}"#;
    let reply = format!(
        r#"{{"id":"c","choices":[{{"index":0,"message":{{"role":"assistant","content":null,"tool_calls":[{call}]}},"finish_reason":"tool_calls"}}]}}"#
    );
    let (answer, received) = play("", vec![ScriptedReply::json(200, reply)], &body);
    assert_eq!((answer.status, answer.header("toolmark-verdict"), received.len()), (200, "pass", 1), "{}", answer.body);
    assert_eq!(answer.json()["choices"][0]["message"]["tool_calls"][0]["function"]["name"], "$web_search");
    assert!(String::from_utf8_lossy(&received[0].body).contains(tools), "as it came");
}

#[test]
fn an_id_that_changes_with_every_piece_and_a_pair_in_two() {
    let piece = |id: &str, name: &str, arguments: &str| {
        chunk(&format!(
            r#"{{"index":0,"delta":{{"tool_calls":[{{"index":0,"id":"{id}","type":"function","function":{{{name}"arguments":"{arguments}"}}}}]}},"finish_reason":null}}"#
        ))
    };
    let events = [
        piece("a", r#""name":"run_speed_test","#, ""),
        piece("b", "", r#"{\"server\":\"\ud83d"#),
        piece("c", "", r#"\ude00\"}"#),
        finish("tool_calls"),
    ];
    let (answer, folded) = streamed("", &events, "");
    let [call] = folded.choices[0].calls.as_slice() else { panic!("{}", answer.body) };
    assert_eq!((call.name.as_str(), call.arguments.as_str()), ("run_speed_test", "{\"server\":\"😀\"}"));
}

#[test]
fn an_upstream_that_broke_off_excuses_no_empty_answer() {
    let whole = |reason: &str| json!({"id": "c", "choices": [{"index": 0, "message": {"role": "assistant", "content": ""}, "finish_reason": reason}]});
    for (reason, empty) in [("stop", true), ("error", true), ("abort", true), ("length", false), ("content_filter", false)] {
        let (answer, _) = play(NO_REPAIR, vec![ScriptedReply::json(200, whole(reason).to_string())], &request(""));
        assert_eq!(answer.header("toolmark-violations").contains("empty_answer"), empty, "{reason}: {}", answer.body);
    }
}

/// A model of NVIDIA's says what it thought twice.
#[test]
fn what_was_thought_may_stand_there_twice() {
    for twice in [r#""reasoning_content":"hm","reasoning_content":"hm""#, r#""reasoning_content":"hm","reasoning_content":null"#] {
        let whole = format!(
            r#"{{"id":"c","choices":[{{"index":0,"message":{{"role":"assistant","content":"Hello",{twice}}},"finish_reason":"stop"}}]}}"#
        );
        let (answer, _) = play("", vec![ScriptedReply::json(200, whole)], &request(""));
        assert_eq!((answer.status, answer.header("toolmark-verdict")), (200, "pass"), "{}", answer.body);
        let events = [delta(&format!(r#"{{"role":"assistant",{twice}}}"#)), delta(r#"{"content":"Hello"}"#), finish("stop")];
        let (answer, folded) = streamed("", &events, "");
        assert_eq!(folded.choices[0].text, "Hello", "{}", answer.body);
    }
    // What is judged may not.
    let whole = r#"{"id":"c","choices":[{"index":0,"message":{"role":"assistant","reasoning_content":"a","reasoning_content":"b","content":"x","content":"y"},"finish_reason":"stop"}]}"#;
    assert_eq!(play("", vec![ScriptedReply::json(200, whole)], &request("")).0.status, 502);
}

/// Azure leaves out the message of a choice that it filtered.
#[test]
fn a_choice_that_was_filtered_has_no_message() {
    let choice = |reason: &str| json!({"id": "c", "choices": [{"index": 0, "finish_reason": reason, "logprobs": null, "content_filter_results": {"hate": {"filtered": true, "severity": "high"}}}]});
    for (reason, status) in [("content_filter", 200), ("length", 200), ("stop", 502)] {
        let (answer, _) = play("", vec![ScriptedReply::json(200, choice(reason).to_string())], &request(""));
        assert_eq!(answer.status, status, "{reason}: {}", answer.body);
        if status == 200 {
            assert_eq!((answer.header("toolmark-verdict"), answer.json()), ("pass", choice(reason)), "{reason}");
        }
    }
}

/// MiniMax ends a stream with the whole message: what the deltas said doesn't leave again, also where they said no text.
#[test]
fn a_whole_message_behind_deltas_says_nothing_twice() {
    let call = r#"[{"id":"call_1","type":"function","function":{"name":"check_net","arguments":"{}"},"index":0}]"#;
    let whole = |message: &str, reason: &str| {
        format!(
            r#"{{"id":"c1","object":"chat.completion","created":1,"model":"m","choices":[{{"index":0,"finish_reason":"{reason}","message":{{"role":"assistant","content":"","reasoning_content":"hm",{message}"name":"MiniMax AI"}}}}]}}"#
        )
    };
    let thought = delta(r#"{"role":"assistant","content":"","reasoning_content":"hm","name":"MiniMax AI"}"#);
    for (events, calls) in [
        (vec![thought.clone(), finish("length"), whole("", "length")], 0),
        (
            vec![
                thought.clone(),
                delta(&format!(r#"{{"tool_calls":{call}}}"#)),
                finish("tool_calls"),
                whole(&format!(r#""tool_calls":{call},"#), "tool_calls"),
            ],
            1,
        ),
    ] {
        let (answer, folded) = streamed("", &events, "");
        assert_eq!(answer.body.matches(r#""reasoning_content":"hm""#).count(), 1, "{}", answer.body);
        assert_eq!(folded.choices[0].calls.len(), calls, "{}", answer.body);
    }
}

/// Gemini's API names a tool that it runs itself by its only member.
#[test]
fn a_tool_that_the_upstream_runs_may_be_named_by_its_member() {
    let reply =
        json!({"id": "c", "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}]});
    let ask = |tool: &str| {
        let body = format!(r#"{{"model":"m","messages":[{{"role":"user","content":"go"}}],"tools":[{tool}]}}"#);
        play("", vec![ScriptedReply::json(200, reply.to_string())], &body)
    };
    for tool in [r#"{"googleSearch": {}}"#, r#"{"urlContext":{}}"#, r#"{"systemTool":{"name":"x"}}"#] {
        let (answer, received) = ask(tool);
        assert_eq!((answer.status, received.len()), (200, 1), "{tool}: {}", answer.body);
        assert!(String::from_utf8_lossy(&received[0].body).contains(tool), "as it came");
    }
    for tool in [r#"{"function":{}}"#, r#"{"name":"x"}"#, r#"{"name":"x","parameters":{}}"#, r#"{"googleSearch":1}"#] {
        assert_eq!(ask(tool).0.status, 400, "{tool}");
    }
}

/// Clients mark what is to be cached in the last message, a result: its text becomes a part, and is a string again in the next turn.
#[test]
fn a_result_marked_for_the_cache_is_the_same_result() {
    let fixture = Fixture::with_policy("[checks]\nrewritten_result = \"block\"\n", "", |received| {
        let asked = received.json()["messages"].as_array().map_or(0, Vec::len) == 1;
        let message = match asked {
            true => {
                json!({"role": "assistant", "content": null, "tool_calls": [serde_json::from_str::<serde_json::Value>(&call("check_net", "{}")).unwrap()]})
            }
            false => json!({"role": "assistant", "content": "Hello"}),
        };
        let reason = if asked { "tool_calls" } else { "stop" };
        ScriptedReply::json(200, json!({"id": "c", "choices": [{"index": 0, "message": message, "finish_reason": reason}]}).to_string())
    });
    let text = "all is well";
    let part = |more: bool| match more {
        true => json!([{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]),
        false => json!([{"type": "text", "text": text}]),
    };
    let forms = [json!(text), part(true), part(false)];
    for (first, second) in forms.iter().flat_map(|first| forms.iter().map(move |second| (first, second))) {
        let called = fixture.chat(&request("")).json()["choices"][0]["message"].clone();
        let with = |content: &serde_json::Value| {
            let mut body: serde_json::Value = serde_json::from_str(&request("")).unwrap();
            let result = json!({"role": "tool", "tool_call_id": called["tool_calls"][0]["id"], "content": content});
            body["messages"].as_array_mut().unwrap().extend([called.clone(), result]);
            fixture.chat(&body.to_string())
        };
        for content in [first, second] {
            let answer = with(content);
            assert_eq!((answer.status, answer.header("toolmark-verdict")), (200, "pass"), "{content}: {}", answer.body);
        }
        assert_eq!(with(&json!("all is lost")).status, 400, "another text");
    }
}

/// xAI runs `x_search` itself, and streams what it asks as the input of a custom tool's call.
#[test]
fn the_input_of_a_hosted_call_passes() {
    let item = json!({"type": "custom_tool_call", "id": "ctc_1", "call_id": "xs_1", "name": "x_keyword_search", "input": "{\"query\":\"a\"}", "status": "completed"});
    let message = json!({"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": "Hello", "annotations": []}]});
    let response = |status: &str, output: serde_json::Value| json!({"id": "r", "object": "response", "created_at": 1, "status": status, "model": "m", "output": output});
    let place =
        |kind: &str, name: &str, value: serde_json::Value| json!({"type": kind, "item_id": "ctc_1", "output_index": 0, name: value});
    let events = [
        json!({"type": "response.created", "response": response("in_progress", json!([]))}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": item}),
        place("response.custom_tool_call_input.delta", "delta", item["input"].clone()),
        place("response.custom_tool_call_input.done", "input", item["input"].clone()),
        json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
        json!({"type": "response.output_item.added", "output_index": 1, "item": message}),
        json!({"type": "response.output_item.done", "output_index": 1, "item": message}),
        json!({"type": "response.completed", "response": response("completed", json!([item, message]))}),
    ];
    let served: Vec<String> = events.iter().map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap())).collect();
    let fixture = Fixture::with_policy("", "", move |_| ScriptedReply::events(served.clone()));
    for (tool, passes) in [("x_search", true), ("web_search", false)] {
        let body = json!({"model": "m", "stream": true, "input": "hi", "tools": [{"type": tool}]}).to_string();
        let answer = post(&format!("{}/responses", fixture.proxy.base_url()), &body, "Bearer sk-x");
        assert_eq!(answer.body.contains("response.custom_tool_call_input.delta"), passes, "{tool}: {}", answer.body);
        assert_eq!(answer.body.contains(r#""verdict":"pass""#), passes, "{tool}: {}", answer.body);
    }
}

/// OpenRouter's stream ends with a chunk that has the usage beside a choice that says nothing more. Some clients add up what chunks say.
#[test]
fn usage_beside_a_choice_that_has_ended_is_said_once() {
    let usage = r#"{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null,"native_finish_reason":null,"logprobs":null}],"usage":{"prompt_tokens":20,"completion_tokens":10,"total_tokens":30}}"#;
    for text in ["", "Hello"] {
        let events = [delta(&format!(r#"{{"role":"assistant","content":"Hi. {text}"}}"#)), finish("stop"), usage.to_owned()];
        let (answer, _) = play("", vec![ScriptedReply::chunks(&events)], &request(r#","stream":true"#));
        let said: Vec<_> = answer.events().into_iter().filter(|event| event["usage"].is_object()).collect();
        assert_eq!(said.len(), 1, "{}", answer.body);
        assert_eq!(said[0]["usage"]["prompt_tokens"], 20);
        let finished = answer.events().iter().position(|event| event["choices"][0]["finish_reason"] == "stop");
        let used = answer.events().iter().position(|event| event["usage"].is_object());
        assert!(finished.is_some() && finished <= used, "{}", answer.body);
    }
    // What it says besides is no less judged.
    let hidden = usage.replace(r#""content":"""#, &format!(r#""content":"(execution_id: {})""#, crate::streams::FORGED));
    let events = [delta(r#"{"role":"assistant","content":"Hi."}"#), finish("stop"), hidden];
    let (answer, _) = play(NO_REPAIR, vec![ScriptedReply::chunks(&events)], &request(r#","stream":true"#));
    assert!(!answer.body.contains(crate::streams::FORGED), "{}", answer.body);
}

/// Gemini marks what it thought by a member beside the text: each piece of it must have that.
#[test]
fn the_sign_of_a_thought_stays_with_each_piece() {
    let thought = |text: &str| {
        chunk(&format!(
            r#"{{"index":0,"delta":{{"role":"assistant","content":{},"extra_content":{{"google":{{"thought":true}}}}}},"finish_reason":null}}"#,
            json!(text)
        ))
    };
    let events = [
        thought("<thought>**Weighing options**\nIt may rain in Ghent.\n\n\n"),
        delta(r#"{"content":"</thought>Ghent has rain."}"#),
        finish("stop"),
    ];
    let (answer, _) = play("", vec![ScriptedReply::chunks(&events)], &request(r#","stream":true"#));
    let (mut thoughts, mut said) = (String::new(), String::new());
    for event in answer.events() {
        let delta = &event["choices"][0]["delta"];
        let text = delta["content"].as_str().unwrap_or_default();
        if delta["extra_content"]["google"]["thought"] == true { thoughts.push_str(text) } else { said.push_str(text) }
    }
    assert_eq!(
        (&*thoughts, &*said),
        ("<thought>**Weighing options**\nIt may rain in Ghent.\n\n\n", "</thought>Ghent has rain."),
        "{}",
        answer.body
    );
}

#[test]
fn an_image_is_an_answer() {
    let passes =
        |answer: &crate::harness::Answer| answer.header("toolmark-verdict") == "pass" || answer.body.contains(r#""verdict":"pass""#);
    let message =
        json!({"role": "assistant", "content": "", "images": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]});
    let whole = json!({"id": "c", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).to_string();
    for stream in [false, true] {
        let more = if stream { r#","stream":true"# } else { "" };
        let events = [delta(&message.to_string()), finish("stop")];
        let reply = if stream { ScriptedReply::chunks(&events) } else { ScriptedReply::json(200, &*whole) };
        let (answer, received) = play("[checks]\nempty_answer = \"block\"\n", vec![reply], &request(more));
        assert!(passes(&answer) && received.len() == 1, "{}", answer.body);
        assert!(answer.body.contains("data:image/png"), "{}", answer.body);
    }
    // Nothing at all is none, whole or streamed.
    for (more, reply) in [
        ("", ScriptedReply::json(200, r#"{"id":"c","choices":[]}"#)),
        (r#","stream":true"#, ScriptedReply::chunks([r#"{"id":"c","choices":[]}"#])),
    ] {
        let (answer, _) = play("[checks]\nempty_answer = \"block\"\n", vec![reply], &request(more));
        assert!(!passes(&answer), "{}", answer.body);
    }
}

/// A repair is another request than the caller's: under its key an upstream would play its first answer again.
#[test]
fn a_repair_has_a_key_of_its_own() {
    let bad = json!({"id": "c", "choices": [{"index": 0, "message": {"role": "assistant", "content": null, "tool_calls": [{"id": "x", "type": "function", "function": {"name": "no_such_tool", "arguments": "{}"}}]}, "finish_reason": "tool_calls"}]}).to_string();
    let good = json!({"id": "c", "choices": [{"index": 0, "message": {"role": "assistant", "content": "I can't do that."}, "finish_reason": "stop"}]}).to_string();
    let keys = || {
        let (bad, good) = (bad.clone(), good.clone());
        let fixture = Fixture::with_policy("", "", move |received| {
            let repairs = String::from_utf8_lossy(&received.body).contains("no_such_tool");
            ScriptedReply::json(200, if repairs { good.clone() } else { bad.clone() })
        });
        let mut connection = crate::wire::Connection::open(fixture.proxy.address());
        let reply = connection.post("/v1/chat/completions", "idempotency-key: k-1\r\n", request("").as_bytes());
        assert_eq!(reply.header("toolmark-verdict"), "repaired");
        let of = |received: &toolmark::testing::Received| received.headers["idempotency-key"].to_str().unwrap().to_owned();
        fixture.upstream.received().iter().map(of).collect::<Vec<_>>()
    };
    let (first, again) = (keys(), keys());
    assert_eq!((first.len(), &*first[0]), (2, "k-1"));
    assert_ne!(first[0], first[1]);
    assert_eq!(again[0], "k-1");
}

#[test]
fn an_error_without_a_body_is_passed_on_as_it_is() {
    for status in [400, 404, 413, 431] {
        let fixture = Fixture::with_policy("", "", move |_| ScriptedReply::json(status, "").header("x-request-id", "req_1"));
        for stream in [false, true] {
            let more = if stream { r#","stream":true"# } else { "" };
            let answer = fixture.chat(&request(more));
            assert_eq!((answer.status, answer.header("x-request-id"), &*answer.body), (status, "req_1", ""), "{status} {stream}");
        }
    }
}
