//! What an upstream sends beside its answer, how a stream ends that has no end, and what an answer repeats of the request:
//! over real sockets.

use serde_json::{Value, json};
use toolmark::testing::{BodyPart, Received, ScriptedReply as Scripted};

use crate::{
    harness::{Answer, Fixture, post},
    streams::{FORGED, NO_REPAIR, chunk, delta, finish, play, request},
    wire::{self, Connection},
};

const STREAM: &str = r#","stream":true"#;

fn responses(fixture: &Fixture, body: &str) -> Answer {
    post(&format!("{}/responses", fixture.proxy.base_url()), body, "Bearer test")
}

fn responses_request(more: &str) -> String {
    format!(
        r#"{{"model":"m","input":"go","tools":[{{"type":"function","name":"run_speed_test","parameters":{{"type":"object","properties":{{}}}}}}]{more}}}"#
    )
}

/// The verdict in a stream's comment.
fn verdict(answer: &Answer) -> Value {
    let comment = answer.body.lines().find_map(|line| line.strip_prefix(": toolmark ")).unwrap_or("null");
    serde_json::from_str(comment).unwrap()
}

#[test]
fn text_in_unknown_places_is_left_out_and_recorded() {
    let answer = |text: &str| {
        format!(
            r#"{{"id":"c","choices":[{{"index":0,"message":{{"role":"assistant","content":"hi"}},"text":"{text}","finish_reason":"stop"}}]}}"#
        )
    };
    for (policy, text, seen) in [
        ("default", "hi", ("pass", "")),
        ("default", "ho", ("pass", "stray_text")),
        ("strict", "ho", ("warn", "stray_text")),
        ("[checks]\nstray_text = \"block\"\n[calls]\nmax_repairs = 0\n", "ho", ("blocked", "stray_text")),
        ("[checks]\nstray_text = \"off\"\n", "ho", ("pass", "")),
    ] {
        let (whole, _) = play(policy, vec![Scripted::json(200, answer(text))], &request(""));
        assert_eq!((whole.header("toolmark-verdict"), whole.header("toolmark-violations")), seen, "{policy}: {}", whole.body);
        assert!(!whole.body.contains("\"ho\"") && !whole.body.contains("\"text\""), "{}", whole.body);
        let event = chunk(&format!(r#"{{"index":0,"delta":{{"role":"assistant","content":"hi"}},"text":"{text}","finish_reason":null}}"#));
        let (stream, _) = play(policy, vec![Scripted::chunks([event, finish("stop")])], &request(STREAM));
        let codes: Vec<Value> = if seen.1.is_empty() { vec![] } else { vec![json!(seen.1)] };
        assert_eq!((&verdict(&stream)["verdict"], &verdict(&stream)["violations"]), (&json!(seen.0), &json!(codes)), "{}", stream.body);
        assert!(!stream.body.contains("\"ho\""), "{}", stream.body);
    }
}

/// The events of a response that says "Hello", up to where its upstream may cut it.
fn response_events() -> Vec<String> {
    let event = |kind: &str, more: Value| {
        let mut event = json!({"type": kind, "sequence_number": 0});
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        format!("event: {kind}\ndata: {event}\n\n")
    };
    let item = json!({"type": "message", "id": "msg_1", "role": "assistant", "content": []});
    vec![
        event("response.created", json!({"response": {"id": "resp_1", "object": "response", "status": "in_progress", "output": []}})),
        event("response.output_item.added", json!({"output_index": 0, "item": item})),
        event(
            "response.output_text.delta",
            json!({"item_id": "msg_1", "output_index": 0, "content_index": 0, "delta": "Hello, this is a plain answer. "}),
        ),
    ]
}

/// Who knows nothing of errors in streams must not take the beginning for the answer.
#[test]
fn a_stream_without_its_end_is_broken_off() {
    let chat = |_: &Received| {
        Scripted::events([format!("data: {}\n\n", delta(r#"{"role":"assistant","content":"Hello, this is a plain answer. "}"#))])
    };
    let of_responses = |cut: bool| {
        move |_: &Received| {
            let reply = Scripted::events(response_events());
            if cut { reply.then(BodyPart::Cut) } else { reply }
        }
    };
    let chat_cut = move |received: &Received| chat(received).then(BodyPart::Cut);
    let chat_stream = request(STREAM);
    for policy in ["default", "strict", "[stream]\nhold = \"all\"\n"] {
        for (fixture, path, body, translated) in [
            (Fixture::with_policy(policy, "", chat_cut), "/v1/chat/completions", chat_stream.clone(), false),
            (Fixture::with_policy(policy, "", chat), "/v1/chat/completions", chat_stream.clone(), false),
            (Fixture::with_policy(policy, "", of_responses(true)), "/v1/responses", responses_request(STREAM), false),
            (Fixture::with_policy(policy, "", of_responses(false)), "/v1/responses", responses_request(STREAM), false),
            (Fixture::with_policy(policy, "responses = \"translate\"\n", chat_cut), "/v1/responses", responses_request(STREAM), true),
        ] {
            let reply = Connection::open(fixture.proxy.address()).post(path, "", body.as_bytes());
            let text = reply.text();
            // A break may show already instead of the head.
            if reply.status == 502 {
                continue;
            }
            assert_eq!((reply.status, reply.whole), (200, false), "{policy} {path} {translated}: {text}");
            assert!(text.contains("upstream_protocol") && !text.contains("[DONE]"), "{policy} {path}: {text}");
            assert!(text.contains(r#": toolmark {"verdict":"failed","repairs":0,"violations":[]"#), "{policy} {path}: {text}");
            let last = wire::events(&text).pop().unwrap();
            assert!(last["error"]["message"].is_string() || last["type"] == "response.failed", "{text}");
        }
    }
}

/// What the upstream itself says of its failure ends a stream as it would without toolmark.
#[test]
fn an_upstreams_own_error_ends_a_stream_as_before() {
    let error = r#"{"error":{"message":"m","type":"t","param":null,"code":"c"}}"#;
    let fixture = Fixture::new("default", move |_| {
        Scripted::events([format!("data: {}\n\n", delta(r#"{"content":"Hi "}"#)), format!("data: {error}\n\n")])
    });
    let reply = Connection::open(fixture.proxy.address()).chat(&request(STREAM));
    assert!(reply.whole && reply.text().contains(r#""verdict":"failed""#), "{}", reply.text());
    assert_eq!(wire::events(&reply.text()).pop().unwrap()["error"]["message"], "m");
}

/// An error's message is an error's, bounded, and none of the model's words.
#[test]
fn errors_in_streams_quote_no_answer() {
    let claim = format!("Done (execution_id: {FORGED}).");
    let failed = |response: Value| format!("data: {}\n\n", json!({"type": "response.failed", "response": response}));
    let output = json!([{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "An answer of its own."}]}]);
    for (event, said) in [
        (failed(json!({"id": "resp_1", "status": "failed", "output": output})), "didn't say which"),
        (failed(json!({"id": "resp_1", "status": "failed", "output": output, "error": null})), "didn't say which"),
        (failed(json!({"id": "resp_1", "status": "failed", "error": {"code": "c", "message": claim}})), "isn't passed on"),
        (failed(json!({"id": "resp_1", "status": "failed", "error": {"code": "c", "message": "x".repeat(100_000)}})), "xxx"),
        (
            failed(json!({"id": "resp_1", "status": "failed", "error": {"code": "c", "message": "The model is busy."}})),
            "The model is busy.",
        ),
    ] {
        let events: Vec<String> = response_events().into_iter().take(1).chain([event]).collect();
        let fixture = Fixture::new("default", move |_| Scripted::events(events.clone()));
        let answer = responses(&fixture, &responses_request(STREAM));
        assert!(answer.body.contains(said) && !answer.body.contains("deadbeef"), "{}", answer.body);
        assert!(!answer.body.contains("An answer of its own") && answer.body.len() < 6_000, "{}", answer.body.len());
    }
    for (data, said) in [
        (json!({"choices": [{"index": 0, "delta": {"content": "An answer of its own."}}]}), "didn't say which"),
        (json!({"message": claim}), "isn't passed on"),
        (json!({"error": {"message": claim, "code": claim}}), "isn't passed on"),
        (json!({"error": {"oops": "An odd error."}}), "An odd error."),
    ] {
        let events = format!("event: error\ndata: {data}\n\n");
        let (answer, _) = play("default", vec![Scripted::events([events])], &request(STREAM));
        assert!(answer.body.contains(said) && !answer.body.contains("deadbeef"), "{}", answer.body);
        assert!(!answer.body.contains("An answer of its own"), "{}", answer.body);
    }
    // With status 200 and no stream.
    let (answer, _) = play("default", vec![Scripted::json(200, json!({"error": {"message": claim}}).to_string())], &request(""));
    assert!(answer.body.contains("isn't passed on") && !answer.body.contains("deadbeef"), "{}", answer.body);
}

/// Events that wait are bounded by what they take in memory.
#[test]
fn events_that_are_held_are_weighed() {
    let policy = "[stream]\nhold = \"all\"\n";
    let events = |count: usize| {
        move |_: &Received| {
            let one = "data: {\"choices\":[{\"delta\":{\"content\":\"a \"}}]}\n\n";
            Scripted::events((0..count / 1000).map(|_| one.repeat(1000)).chain([format!("data: {}\n\ndata: [DONE]\n\n", finish("stop"))]))
        }
    };
    let settings = "[limits]\nresponse_bytes = \"256KiB\"\n";
    let fixture = Fixture::with_policy(policy, settings, events(5_000));
    let held = fixture.chat(&request(STREAM));
    assert!(held.body.contains("takes more than") && held.body.contains("in memory"), "{}", &held.body[..held.body.len().min(500)]);
    let fixture = Fixture::with_policy(policy, settings, events(2_000));
    assert!(fixture.chat(&request(STREAM)).body.contains("[DONE]"));
    // Where nothing is held nothing is weighed.
    let fixture = Fixture::with_policy("default", settings, events(5_000));
    assert!(fixture.chat(&request(STREAM)).body.contains("[DONE]"));
}

/// What an answer repeats of the request is what the application sent.
#[test]
fn an_answer_repeats_the_request_as_it_was_sent() {
    let policy = "[protocol]\ninject = true\n[responses]\nstateful = \"stateless\"\n";
    let echo = |received: &Received| {
        let sent = received.json();
        let output = json!([{"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": "Hi.", "annotations": []}]}]);
        let mut response = json!({"id": "resp_1", "object": "response", "status": "completed", "output": output});
        for name in ["instructions", "tools", "tool_choice", "store"] {
            response[name] = sent[name].clone();
        }
        response
    };
    let whole = Fixture::with_policy(policy, "", move |received| Scripted::json(200, echo(received).to_string()));
    let stream = Fixture::with_policy(policy, "", move |received| {
        let (done, mut begun) = (echo(received), echo(received));
        (begun["status"], begun["output"]) = (json!("in_progress"), json!([]));
        let event = |kind: &str, response: &Value| {
            format!("event: {kind}\ndata: {}\n\n", json!({"type": kind, "sequence_number": 0, "response": response}))
        };
        Scripted::events([event("response.created", &begun), event("response.completed", &done)])
    });
    for (more, instructions) in
        [("", Value::Null), (r#","instructions":"Be brief.""#, json!("Be brief.")), (r#","instructions":null"#, Value::Null)]
    {
        let answer = responses(&whole, &responses_request(more));
        assert_eq!(answer.json()["instructions"], instructions, "{}", answer.body);
        let sent = whole.upstream.received().pop().unwrap().json();
        assert_ne!(sent["instructions"], instructions, "{sent}");
        let answer = responses(&stream, &responses_request(&format!("{more}{STREAM}")));
        let events = answer.events();
        assert!(events.len() >= 2);
        for event in events.iter().filter(|event| event["response"].is_object()) {
            assert_eq!(event["response"]["instructions"], instructions, "{event}");
        }
    }
}

/// Where the words of a blocked answer go when JSON was asked for.
#[test]
fn blocked_json_goes_where_the_policy_says() {
    let said = format!(r#"{{\"id\":\"{FORGED}\"}}"#);
    let answer =
        format!(r#"{{"id":"c","choices":[{{"index":0,"message":{{"role":"assistant","content":"{said}"}},"finish_reason":"stop"}}]}}"#);
    let json_asked = r#","response_format":{"type":"json_object"}"#;
    for (setting, status) in [
        ("", 200),
        ("on_blocked_json = \"refusal\"\n", 200),
        ("on_blocked_json = \"content\"\n", 200),
        ("on_blocked_json = \"error\"\n", 422),
    ] {
        let policy = NO_REPAIR.replace("[calls]\n", &format!("[calls]\n{setting}"));
        let (whole, _) = play(&policy, vec![Scripted::json(200, answer.clone())], &request(json_asked));
        assert_eq!((whole.status, whole.header("toolmark-verdict")), (status, "blocked"), "{setting}: {}", whole.body);
        let message = whole.json()["choices"][0]["message"].clone();
        assert_eq!(message["refusal"].is_string(), status == 200 && !setting.contains("content"), "{setting}: {}", whole.body);
        assert_eq!(message["content"].is_string(), setting.contains("content"), "{setting}: {}", whole.body);
        let events = [delta(&format!(r#"{{"role":"assistant","content":"{said}"}}"#)), finish("stop")];
        let (stream, _) = play(&policy, vec![Scripted::chunks(events)], &request(&format!("{json_asked}{STREAM}")));
        assert_eq!(stream.body.contains(r#""error":{"#), status == 422, "{setting}: {}", stream.body);
        assert_eq!(stream.body.contains(r#""refusal":"I"#), status == 200 && !setting.contains("content"), "{setting}: {}", stream.body);
        assert!(!stream.body.contains("deadbeef"), "{}", stream.body);
        // Words have their place where no JSON was asked for.
        let (plain, _) = play(&policy, vec![Scripted::json(200, answer.clone())], &request(""));
        assert_eq!(plain.status, 200, "{setting}: {}", plain.body);
    }
}

/// The same where answers are translated, whole and streamed.
#[test]
fn what_is_left_out_of_translated_answers_is_recorded_too() {
    let whole = |text: &str| {
        format!(
            r#"{{"id":"c","choices":[{{"index":0,"message":{{"role":"assistant","content":"hi"}},"text":"{text}","finish_reason":"stop"}}]}}"#
        )
    };
    for (policy, text, seen) in [
        ("default", "hi", ("pass", "")),
        ("default", "ho", ("pass", "stray_text")),
        ("strict", "ho", ("warn", "stray_text")),
        ("[checks]\nstray_text = \"block\"\n[calls]\nmax_repairs = 0\n", "ho", ("blocked", "stray_text")),
        ("[checks]\nstray_text = \"off\"\n", "ho", ("pass", "")),
    ] {
        let text = text.to_owned();
        let fixture = Fixture::with_policy(policy, "responses = \"translate\"\n", move |received: &Received| {
            if received.json()["stream"] != true {
                return Scripted::json(200, whole(&text));
            }
            let event =
                chunk(&format!(r#"{{"index":0,"delta":{{"role":"assistant","content":"hi"}},"text":"{text}","finish_reason":null}}"#));
            Scripted::chunks([event, finish("stop")])
        });
        let answer = responses(&fixture, &responses_request(""));
        assert_eq!((answer.header("toolmark-verdict"), answer.header("toolmark-violations")), seen, "{policy}: {}", answer.body);
        assert!(!answer.body.contains("\"ho\""), "{}", answer.body);
        let stream = responses(&fixture, &responses_request(STREAM));
        let codes: Vec<Value> = if seen.1.is_empty() { vec![] } else { vec![json!(seen.1)] };
        assert_eq!((&verdict(&stream)["verdict"], &verdict(&stream)["violations"]), (&json!(seen.0), &json!(codes)), "{}", stream.body);
        assert!(!stream.body.contains("\"ho\""), "{}", stream.body);
    }
}
