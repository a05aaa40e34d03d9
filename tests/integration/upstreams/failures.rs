//! Upstreams that fail before they answer: once more, then elsewhere, then an error; never after anything went downstream.

use std::{
    net::TcpListener,
    sync::atomic::{AtomicUsize, Ordering},
};

use serde_json::json;
use toolmark::testing::{BodyPart, Received, ScriptedReply};

use super::stage::{Script, Stage, calls, error, says, streamed, with_tool};

const ONE: &str = "[[upstreams]]\nname = \"own\"\nbase_url = \"$0\"\n";
const TWO: &str = "[[upstreams]]\nname = \"own\"\nbase_url = \"$0\"\nfallback = [\"other\"]\nfallback_models = { m = \"stand-in\" }\n\
                   [[upstreams]]\nname = \"other\"\nbase_url = \"$1\"\napi_key_env = \"OTHER_KEY\"\nmodels = [\"stand-in\"]\n";

/// The first answers are these, and then it answers.
fn failing(replies: Vec<ScriptedReply>) -> Script {
    let at = AtomicUsize::new(0);
    Box::new(move |received: &Received| match replies.get(at.fetch_add(1, Ordering::Relaxed)) {
        Some(reply) => reply.clone(),
        None => calls(received),
    })
}

fn always(reply: ScriptedReply) -> Script {
    Box::new(move |_: &Received| reply.clone())
}

#[test]
fn what_passes_is_tried_again() {
    for (replies, sent) in [
        (vec![error(503, "busy")], 2),
        (vec![error(500, "oops"), error(502, "bad gateway")], 3),
        (vec![error(429, "slow down").header("retry-after-ms", "5")], 2),
        (vec![ScriptedReply::json(200, r#"{"error":{"message":"provider fell over","code":502}}"#)], 2),
        (
            vec![
                ScriptedReply::events(Vec::<String>::new()).header("content-type", "application/json").header("retry-after", "0"),
                error(529, "x"),
            ],
            1,
        ),
    ] {
        let stage = Stage::new(ONE, vec![failing(replies)]);
        let answer = stage.chat(&with_tool("m"));
        if sent > 1 {
            assert_eq!((answer.status, answer.header("toolmark-upstream")), (200, "own"), "{}", answer.body);
            assert!(answer.body.contains("get_weather"), "{}", answer.body);
        } else {
            // An answer that is none isn't asked for again.
            assert_eq!(answer.status, 502, "{}", answer.body);
        }
        assert_eq!(stage.got(0).len(), sent);
    }
}

#[test]
fn what_would_not_pass_is_not() {
    for reply in
        [error(400, "no"), error(401, "no"), error(404, "no"), error(501, "no"), error(429, "tomorrow").header("retry-after", "86400")]
    {
        let stage = Stage::new(ONE, vec![always(reply)]);
        let answer = stage.chat(&streamed(with_tool("m")));
        assert!((400..=501).contains(&answer.status) && answer.header("toolmark-upstream") == "own", "{}", answer.body);
        assert_eq!((answer.json()["error"]["code"].as_str(), stage.got(0).len()), (Some("scripted"), 1));
    }
    // Bounded, and then the upstream's own error.
    let stage = Stage::new(ONE, vec![always(error(503, "busy"))]);
    let answer = stage.chat(&with_tool("m"));
    assert_eq!((answer.status, answer.json()["error"]["message"].as_str(), stage.got(0).len()), (503, Some("busy"), 3));
}

#[test]
fn what_fails_is_asked_elsewhere_with_a_key_and_model_of_its_own() {
    for reply in [
        error(503, "busy"),
        error(429, "full").header("retry-after", "60"),
        ScriptedReply::events(Vec::<String>::new()).then(BodyPart::Cut),
    ] {
        let stage = Stage::new(TWO, vec![always(reply.clone()), Box::new(calls)]);
        let answer = stage.chat(&with_tool("m"));
        let begun = stage.got(1).is_empty();
        if begun {
            // A stream that had begun is never asked for again.
            assert_eq!(answer.status, 502, "{}", answer.body);
            continue;
        }
        assert_eq!((answer.status, answer.header("toolmark-upstream")), (200, "other"), "{}", answer.body);
        let got = &stage.upstreams[1].received()[0];
        assert_eq!((&got.json()["model"], &got.headers["authorization"]), (&json!("stand-in"), &"Bearer sk-other".parse().unwrap()));
        assert_eq!(stage.upstreams[0].received()[0].headers["authorization"], "Bearer caller");
    }
}

#[test]
fn a_tool_loop_goes_on_elsewhere() {
    let stage = Stage::new(TWO, vec![failing(vec![]), Box::new(|_: &Received| says("It is 18 degrees."))]);
    let mut request = with_tool("m");
    let first = stage.chat(&request).json();
    let call = first["choices"][0]["message"].clone();
    let mut signed = call.clone();
    signed["tool_calls"][0]["extra_content"] = json!({"google": {"thought_signature": "c2ln"}});
    signed["reasoning_content"] = json!("hm");
    let result = json!({"role": "tool", "tool_call_id": call["tool_calls"][0]["id"], "content": "18"});
    request["messages"].as_array_mut().unwrap().extend([signed, result]);
    request["model"] = json!("m");
    drop(stage);
    let stage = Stage::new(
        &TWO.replace("[[upstreams]]\nname = \"other\"", "[[upstreams]]\nname = \"other\"\ncall_ids = \"short9\""),
        vec![always(error(500, "down")), Box::new(|_: &Received| says("It is 18 degrees."))],
    );
    let answer = stage.chat(&request);
    assert_eq!((answer.status, answer.header("toolmark-upstream")), (200, "other"), "{}", answer.body);
    let history = &stage.got(1)[0]["messages"];
    let assistant = history.as_array().unwrap().iter().find(|message| message["role"] == "assistant").unwrap();
    // What only the other upstream could read is gone, and the ids have the form that this one takes.
    assert!(assistant.get("reasoning_content").is_none() && assistant["tool_calls"][0].get("extra_content").is_none(), "{assistant}");
    assert_eq!(assistant["tool_calls"][0]["id"].as_str().map(str::len), Some(9));
    // A conversation that an upstream keeps can't be taken over, and the error says so.
    let url = format!("{}/responses", stage.proxy.base_url());
    let answer = crate::harness::post(&url, r#"{"model":"m","previous_response_id":"resp_1","input":"x"}"#, "Bearer caller");
    assert_eq!((answer.status, stage.got(1).len()), (500, 1), "{}", answer.body);
}

#[test]
fn both_down_is_the_documented_error_and_at_once_from_then_on() {
    let down = TcpListener::bind("127.0.0.3:0").unwrap().local_addr().unwrap();
    let settings = TWO.replace("$0", &format!("http://{down}/v1")).replace("$1", &format!("http://{down}/v1"));
    let stage = Stage::new(&settings, vec![]);
    for stream in [false, true, false, true, false, false] {
        let request = if stream { streamed(with_tool("m")) } else { with_tool("m") };
        let answer = stage.chat(&request);
        assert_eq!((answer.status, answer.json()["error"]["code"].as_str()), (502, Some("upstream_unreachable")), "{}", answer.body);
        assert_eq!(answer.header("toolmark-upstream"), "");
    }
    // By now both are left alone for a while, and the caller is told for how long.
    assert!(!stage.chat(&with_tool("m")).header("retry-after").is_empty());
}

#[test]
fn nothing_is_sent_twice_once_something_went_downstream() {
    let begun = r#"{"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":"It is"},"finish_reason":null}]}"#;
    let fell = r#"{"error":{"message":"fell over","code":503}}"#;
    for (end, code) in [(BodyPart::Bytes(format!("data: {fell}\n\n").into()), "fell over"), (BodyPart::Hang, "upstream_timeout")] {
        let settings = TWO.replace("fallback = ", "timeouts = { idle = \"200ms\" }\nfallback = ");
        let stage = Stage::new(&settings, vec![always(ScriptedReply::events([format!("data: {begun}\n\n")]).then(end)), Box::new(calls)]);
        let answer = stage.chat(&streamed(with_tool("m")));
        assert!(answer.body.contains("\"error\"") && answer.body.contains(code), "{}", answer.body);
        assert_eq!((stage.got(0).len(), stage.got(1).len()), (1, 0));
    }
    // A repair in mid-stream that fails isn't sent again either.
    let stage = Stage::new(
        TWO,
        vec![
            Box::new(|received: &Received| match received.number {
                0 => {
                    let call = json!({"index": 0, "id": "x", "type": "function", "function": {"name": "get_wether", "arguments": "{}"}});
                    let chunk = |delta, finish| json!({"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
                    ScriptedReply::chunks([
                        chunk(json!({"role": "assistant", "tool_calls": [call]}), json!(null)),
                        chunk(json!({}), json!("tool_calls")),
                    ])
                }
                _ => error(503, "busy"),
            }),
            Box::new(calls),
        ],
    );
    let answer = stage.chat(&streamed(with_tool("m")));
    assert!(answer.body.contains("\"error\"") && answer.body.contains("busy"), "{}", answer.body);
    assert_eq!((stage.got(0).len(), stage.got(1).len()), (2, 0));
}

#[test]
fn lists_are_merged_and_a_callers_key_is_shown_to_one_upstream() {
    let settings = "[[upstreams]]\nname = \"own\"\nbase_url = \"$0\"\nmodels = [\"a*\"]\n\
                    [[upstreams]]\nname = \"keyed\"\nbase_url = \"$1\"\napi_key_env = \"OTHER_KEY\"\nmodels = [\"b*\", \"a2\"]\n\
                    [[upstreams]]\nname = \"another\"\nbase_url = \"$2\"\nmodels = [\"c\", \"d*\"]\n\
                    [[upstreams]]\nname = \"down\"\nbase_url = \"http://127.0.0.4:9/v1\"\napi_key_env = \"\"\nmodels = [\"e\"]\n";
    let list = |ids: &'static str| -> Script {
        let models: Vec<_> = ids.split(',').map(|id| json!({"id": id, "x": 1})).collect();
        always(ScriptedReply::json(200, json!({"object": "list", "data": models}).to_string()))
    };
    let stage = Stage::new(settings, vec![list("a1,b9"), list("a2,b1"), list("d1")]);
    let client = crate::harness::http_client();
    let url = format!("{}/models", stage.proxy.base_url());
    let answer: serde_json::Value = crate::harness::run(async {
        let text = client.get(url).header("authorization", "Bearer caller").send().await.unwrap().text().await.unwrap();
        serde_json::from_str(&text).unwrap()
    });
    let ids: Vec<_> = answer["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap()).collect();
    // Of each what it serves here; of one that the key isn't meant for, what is known by name.
    assert_eq!(ids, ["a1", "b1", "c"]);
    let key = |upstream: usize| {
        stage.upstreams[upstream].received().iter().map(|received| received.headers["authorization"].clone()).collect::<Vec<_>>()
    };
    assert_eq!((key(0), key(1), key(2)), (vec!["Bearer caller".parse().unwrap()], vec!["Bearer sk-other".parse().unwrap()], vec![]));
}

#[test]
fn retries_and_fallbacks_count_as_attempts() {
    let policy = "[calls]\nmax_attempts = 2\n";
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("policy.toml");
    std::fs::write(&file, policy).unwrap();
    let settings = format!("policy = \"{}\"\n{TWO}", file.display());
    let stage = Stage::new(&settings, vec![always(error(503, "busy")), always(error(503, "busy too"))]);
    let answer = stage.chat(&with_tool("m"));
    assert_eq!((answer.status, stage.got(0).len() + stage.got(1).len()), (503, 2), "{}", answer.body);
}
