//! A model that takes tools and ignores them: found out, remembered, and never relied on. Seeds: Cerebras, OpenAI.

use serde_json::json;
use toolmark::testing::{Received, ScriptedReply};

use super::stage::{Stage, calls, error, is_probe, says, streamed, with_tool};

/// Cerebras first, OpenAI where its model can't call functions; both with keys of toolmark's own.
const BOTH: &str = r#"
[[upstreams]]
name = "cerebras"
base_url = "$0"
api_key_env = "OWN_KEY"
models = ["llama*", "qwen"]
fallback = ["openai"]
fallback_models = { "llama-3.3-70b" = "gpt-4o" }
probe = "startup"
[[upstreams]]
name = "openai"
base_url = "$1"
api_key_env = "OTHER_KEY"
models = ["gpt-4o"]
probe = "startup"
[admin]
listen = "127.0.0.1:0"
"#;

/// What was asked at startup has been asked: the questions that `$0` and `$1` got, by model.
fn asked(stage: &Stage, upstream: usize, count: usize) -> Vec<String> {
    assert!(stage.upstreams[upstream].wait(count, 0), "{:?}", stage.got(upstream));
    let probes = stage.upstreams[upstream].received().into_iter().filter(is_probe);
    probes.map(|received| received.json()["model"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_model_that_ignores_tools_is_found_out_at_startup_and_its_fallback_answers() {
    let ignoring = |received: &Received| match received.line.as_str() {
        "GET /v1/models" => toolmark::testing::ScriptedReply::json(200, r#"{"data":[{"id":"llama-4"},{"id":"gpt-oss"}]}"#),
        _ => says("I am ready."),
    };
    let stage = Stage::new(BOTH, vec![Box::new(ignoring), Box::new(calls)]);
    // Known by name, listed for the globs, and what stands in.
    let mut probed = asked(&stage, 0, 4);
    probed.sort();
    assert_eq!((probed, asked(&stage, 1, 1)), (vec!["llama-3.3-70b".into(), "llama-4".into(), "qwen".into()], vec!["gpt-4o".into()]));
    for request in [with_tool("llama-3.3-70b"), streamed(with_tool("llama-3.3-70b"))] {
        let answer = stage.chat(&request);
        assert_eq!((answer.status, answer.header("toolmark-upstream")), (200, "openai"), "{}", answer.body);
        assert!(answer.body.contains("get_weather") && answer.body.contains("tool_calls"), "{}", answer.body);
    }
    let served: Vec<_> = stage.upstreams[1].received().into_iter().filter(|received| !is_probe(received)).collect();
    assert_eq!(served.len(), 2);
    for received in served {
        assert_eq!(
            (&received.json()["model"], &received.headers["authorization"]),
            (&json!("gpt-4o"), &"Bearer sk-other".parse().unwrap())
        );
    }
    // It is shown where operators look.
    let url = format!("{}/readyz", stage.proxy.admin_url());
    let shown = crate::harness::run(async { crate::harness::http_client().get(url).send().await.unwrap().text().await.unwrap() });
    let details: serde_json::Value = serde_json::from_str(&shown).unwrap();
    let model = &details["details"]["upstreams"]["cerebras"]["models"]["llama-3.3-70b"];
    assert_eq!((&model["calls"], &details["details"]["upstreams"]["openai"]["breaker"]), (&json!("no"), &json!("closed")), "{shown}");
    assert!(model["reason"].as_str().is_some_and(|reason| reason.contains("answers in words")), "{shown}");
    // Without tools it answers itself.
    let mut plain = with_tool("llama-3.3-70b");
    plain.as_object_mut().unwrap().remove("tools");
    assert_eq!(stage.chat(&plain).header("toolmark-upstream"), "cerebras");
    // Nothing stands in for this one: an error at once, and no model sees the tools.
    let answer = stage.chat(&with_tool("qwen"));
    assert_eq!((answer.status, answer.json()["error"]["code"].as_str()), (503, Some("no_upstream_for_tools")), "{}", answer.body);
    let wait: u64 = answer.header("retry-after").parse().unwrap();
    // A finding lasts an hour: clients needn't ask again before.
    assert!((3_000..=3_600).contains(&wait) && answer.body.contains("it answers in words"), "{wait} {}", answer.body);
    assert!(stage.upstreams[0].received().iter().all(|received| is_probe(received) || received.json().get("tools").is_none()));
}

#[test]
fn what_is_new_is_asked_before_its_first_use_and_once() {
    let stage = Stage::new(
        "[[upstreams]]\nname = \"own\"\nbase_url = \"$0\"\nprobe = \"startup\"\n",
        vec![Box::new(|received: &Received| match received.json()["model"].as_str() {
            Some("unknown") => error(404, "no such model"),
            Some("busy") => error(503, "busy"),
            _ => calls(received),
        })],
    );
    for _ in 0..3 {
        assert_eq!(stage.chat(&with_tool("good")).status, 200);
    }
    let got = stage.upstreams[0].received();
    let probes: Vec<_> = got.iter().filter(|received| is_probe(received)).collect();
    assert_eq!((got.len(), probes.len(), is_probe(&got[0])), (4, 1, true));
    // Asked with the caller's own key, because there is no other.
    assert_eq!(probes[0].headers["authorization"], "Bearer caller");
    // The upstream's own words where it refuses the question as it would the request.
    let answer = stage.chat(&with_tool("unknown"));
    assert_eq!((answer.status, answer.json()["error"]["message"].as_str()), (404, Some("no such model")), "{}", answer.body);
    // What couldn't be found out never counts as found.
    let answer = stage.chat(&with_tool("busy"));
    assert_eq!((answer.status, answer.json()["error"]["code"].as_str()), (503, Some("no_upstream_for_tools")), "{}", answer.body);
    let busy: Vec<_> = stage.upstreams[0].received().into_iter().filter(|received| received.json()["model"] == "busy").collect();
    assert!(busy.iter().all(is_probe), "{busy:?}");
}

#[test]
fn calls_that_are_mended_anyway_keep_no_model_away() {
    let leaks = |received: &Received| {
        let name = received.json()["tools"][0]["function"]["name"].as_str().unwrap_or_default().to_owned();
        says(&format!(r#"<tool_call>{{"name":"{name}","arguments":{{}}}}</tool_call>"#))
    };
    let invents = |received: &Received| {
        let call = json!({"id": "call_0", "type": "function", "function": {"name": "invented", "arguments": "{}"}});
        let choice =
            json!({"index": 0, "message": {"role": "assistant", "content": null, "tool_calls": [call]}, "finish_reason": "tool_calls"});
        let completion = json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]});
        if is_probe(received) || received.json()["messages"].as_array().is_some_and(|messages| messages.len() == 1) {
            ScriptedReply::json(200, completion.to_string())
        } else {
            calls(received)
        }
    };
    let directory = tempfile::tempdir().unwrap();
    let policy = directory.path().join("policy.toml");
    std::fs::write(&policy, "[calls]\npromote_textual = false\n").unwrap();
    let upstreams = "[[upstreams]]\nname = \"leaky\"\nbase_url = \"$0\"\nprobe = \"startup\"\nmodels = [\"leaky\"]\n\
        [[upstreams]]\nname = \"inventive\"\nbase_url = \"$1\"\nprobe = \"startup\"\nmodels = [\"inventive\"]\n";
    let stage = Stage::new(upstreams, vec![Box::new(leaks), Box::new(invents)]);
    for model in ["leaky", "inventive"] {
        let answer = stage.chat(&with_tool(model));
        assert_eq!(answer.status, 200, "{}", answer.body);
        assert_eq!(answer.json()["choices"][0]["message"]["tool_calls"][0]["function"]["name"], "get_weather", "{model}: {}", answer.body);
    }
    // Where the policy makes no real calls of them, such a model is no use.
    let stage = Stage::new(&format!("policy = \"{}\"\n{upstreams}", policy.display()), vec![Box::new(leaks), Box::new(invents)]);
    let answer = stage.chat(&with_tool("leaky"));
    assert_eq!((answer.status, answer.json()["error"]["code"].as_str()), (503, Some("no_upstream_for_tools")), "{}", answer.body);
}

#[test]
fn live_traffic_teaches_what_is_refused() {
    let stage = Stage::new(
        "[[upstreams]]\nname = \"own\"\nbase_url = \"$0\"\nfallback = [\"other\"]\n[[upstreams]]\nname = \"other\"\nbase_url = \"$1\"\napi_key_env = \"\"\n",
        vec![
            Box::new(|received: &Received| match received.json() {
                request if request["model"] == "toolless" => error(400, "toolless does not support tools"),
                request if !request["parallel_tool_calls"].is_null() => {
                    error(400, "parallel_tool_calls=False is not supported by this model.")
                }
                _ => calls(received),
            }),
            Box::new(calls),
        ],
    );
    let mut request = with_tool("m");
    request["parallel_tool_calls"] = json!(false);
    for (stream, count) in [(false, 2), (true, 3)] {
        let answer = stage.chat(&if stream { streamed(request.clone()) } else { request.clone() });
        assert_eq!((answer.status, answer.header("toolmark-upstream"), stage.got(0).len()), (200, "own", count), "{}", answer.body);
        assert!(stage.got(0)[count - 1].get("parallel_tool_calls").is_none());
    }
    // Nobody asked it beforehand, but from now on it is known.
    for before in [4, 4] {
        let answer = stage.chat(&with_tool("toolless"));
        assert_eq!((answer.status, answer.header("toolmark-upstream"), stage.got(0).len()), (200, "other", before), "{}", answer.body);
    }
}

/// Who says in the header `server` that it is llama.cpp gets what that needs, from its second request on.
#[test]
fn a_server_that_says_who_it_is_gets_its_preset() {
    for (server, settings, fits) in [
        ("llama.cpp", "", true),
        ("LLaMA.cpp", "", true),
        ("uvicorn", "", false),
        ("llama.cpp", "preset = \"none\"\n", false),
        ("llama.cpp", "preset = \"vllm\"\n", false),
    ] {
        let script = move |received: &Received| calls(received).header("server", server);
        let stage = Stage::new(&format!("[[upstreams]]\nname = \"own\"\nbase_url = \"$0\"\n{settings}"), vec![Box::new(script)]);
        for request in [with_tool("m"), streamed(with_tool("m")), with_tool("m")] {
            assert_eq!(stage.chat(&request).status, 200);
        }
        let parallel: Vec<bool> = stage.got(0).iter().map(|request| request["parallel_tool_calls"] == true).collect();
        assert_eq!(parallel, [false, fits, fits], "{server} {settings}");
    }
}

/// A model that thinks for long is no model that can't call: nothing is known, why is shown, and requests pass.
#[test]
fn a_probe_is_bounded_and_says_why_it_is_undecided() {
    let cut = |received: &Received| {
        if !is_probe(received) {
            return calls(received);
        }
        let choice =
            json!({"index": 0, "message": {"role": "assistant", "content": "", "reasoning_content": "Hm."}, "finish_reason": "length"});
        toolmark::testing::ScriptedReply::json(200, json!({"id": "c", "object": "chat.completion", "choices": [choice]}).to_string())
    };
    let settings = "[[upstreams]]\nname = \"own\"\nbase_url = \"$0\"\napi_key_env = \"OWN_KEY\"\nmodels = [\"m\"]\nprobe = \"startup\"\n[admin]\nlisten = \"127.0.0.1:0\"\n";
    let stage = Stage::new(settings, vec![Box::new(cut)]);
    assert_eq!(asked(&stage, 0, 1), ["m"]);
    let probe = stage.upstreams[0].received().into_iter().find(is_probe).unwrap().json();
    assert_eq!(probe["max_tokens"], 512);
    let url = format!("{}/readyz", stage.proxy.admin_url());
    let reason = crate::program::until("the probe's answer", || {
        let shown = crate::harness::run(async { crate::harness::http_client().get(&url).send().await.unwrap().text().await.unwrap() });
        let details: serde_json::Value = serde_json::from_str(&shown).unwrap();
        let model = details["details"]["upstreams"]["own"]["models"]["m"].clone();
        model["reason"].as_str().filter(|reason| !reason.is_empty()).map(|reason| (model["calls"].clone(), reason.to_owned()))
    });
    assert_eq!(reason, (json!("unknown"), "it wrote 512 tokens and no call: it may think for longer".to_owned()));
    let answer = stage.chat(&with_tool("m"));
    assert_eq!((answer.status, answer.header("toolmark-upstream")), (200, "own"), "{}", answer.body);
}

/// Anthropic's clients must say a limit; OpenAI's newer models take it under its newer name only.
#[test]
fn messages_in_front_of_openai_have_the_newer_limit() {
    for (preset, name) in [("openai", "max_completion_tokens"), ("none", "max_tokens")] {
        let settings = format!(
            "[[upstreams]]\nname = \"own\"\nbase_url = \"$0\"\npreset = \"{preset}\"\nmessages = \"translate\"\napi_key_env = \"OWN_KEY\"\n"
        );
        let stage = Stage::new(&settings, vec![Box::new(|_: &Received| says("Hello."))]);
        let body = json!({"model": "m", "max_tokens": 77, "stop_sequences": [], "messages": [{"role": "user", "content": "Hi"}]});
        let answer = crate::harness::post(&format!("{}/messages", stage.proxy.base_url()), &body.to_string(), "Bearer caller");
        assert_eq!(answer.status, 200, "{}", answer.body);
        let got = &stage.got(0)[0];
        assert_eq!(
            (&got[name], got.get("stop"), got.as_object().unwrap().keys().filter(|key| key.contains("tokens")).count()),
            (&json!(77), None, 1),
            "{got}"
        );
    }
}
