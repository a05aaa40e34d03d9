//! `[responses] stateful`: what each policy takes, and what it tells the upstream.

use serde_json::{Value, json};

use super::stage::{Stage, WAYS, tools, with};
use crate::program::{Running, command};

const STATELESS: &str = "[responses]\nstateful = \"stateless\"\n";
const REFUSE: &str = "[responses]\nstateful = \"refuse\"\n";

/// What refers to something that isn't in the request, and the member that is named.
fn referring() -> [(Value, &'static str); 5] {
    let input = json!("Hello");
    [
        (json!({"input": input, "previous_response_id": "resp_1"}), "previous_response_id"),
        (json!({"input": input, "conversation": "conv_1"}), "conversation"),
        (json!({"input": input, "conversation": {"id": "conv_1"}}), "conversation"),
        (json!({"input": input, "background": true}), "background"),
        (json!({"input": [{"role": "user", "content": "Hello"}, {"type": "item_reference", "id": "msg_1"}]}), "input"),
    ]
}

#[test]
fn what_refers_to_more_is_refused() {
    for (policy, stream) in [STATELESS, REFUSE].into_iter().flat_map(|policy| WAYS.map(|stream| (policy, stream))) {
        let stage = Stage::new(policy);
        for (request, param) in referring() {
            let refused = stage.ask(stream, request);
            assert_eq!(refused.status, 400, "{refused:?}");
            let error = &refused.response["error"];
            assert_eq!((&error["param"], &error["type"]), (&json!(param), &json!("invalid_request_error")), "{error}");
            let name = if param == "input" { "item_reference" } else { param };
            assert!(error["message"].as_str().unwrap().contains(&format!("`{name}`")), "{error}");
        }
        assert_eq!(stage.sent(), 0);
    }
}

#[test]
fn stateless_has_the_upstream_keep_nothing() {
    let hello = |more: Value| with(&json!({"input": "Hello", "metadata": {"say": "Hello."}}), &more);
    let encrypted = json!(["reasoning.encrypted_content"]);
    for stream in WAYS {
        let stage = Stage::new(STATELESS);
        for (more, include) in [
            (json!({}), Value::Null),
            (json!({"store": true}), Value::Null),
            (json!({"store": false, "background": false, "previous_response_id": null}), Value::Null),
            (json!({"model": "o4-mini"}), encrypted.clone()),
            (json!({"model": "gpt-5-nano", "include": []}), encrypted.clone()),
            (json!({"model": "openai/o3", "include": ["file_search_call.results"]}), json!(["file_search_call.results", encrypted[0]])),
            (json!({"model": "o3", "include": encrypted}), encrypted.clone()),
            (json!({"model": "mine", "reasoning": {"effort": "low"}}), encrypted.clone()),
            (json!({"model": "gpt-4o", "include": ["message.output_text.logprobs"]}), json!(["message.output_text.logprobs"])),
        ] {
            stage.ask(stream, hello(more.clone())).judged("pass", &[]);
            let sent = stage.last_sent();
            assert_eq!((&sent["store"], &sent["include"]), (&json!(false), &include), "{more}");
        }
        // A repair keeps nothing either.
        let before = stage.sent();
        for model in ["gpt-4o", "o4-mini"] {
            let request = json!({"input": "Hello", "model": model, "metadata": {"call": "get_wether", "then_call": "get_weather"}});
            stage.ask(stream, request).judged("repaired", &["unknown_tool"]).call();
        }
        let sent = stage.sent_since(before);
        assert!(sent.len() == 4 && sent.iter().all(|request| request["store"] == false), "{sent:?}");
        // Nor is anything kept where the application says so itself, and the model's thoughts can't be read again.
        let stage = Stage::new("default");
        let asked = json!({"call": "get_wether", "then_call": "get_weather"});
        let request = json!({"input": "Hello", "model": "o4-mini", "store": false, "metadata": asked});
        stage.ask(stream, request).judged("repaired", &["unknown_tool"]).call();
    }
}

#[test]
fn refuse_takes_the_rest_as_it_is_and_observe_takes_all() {
    for stream in WAYS {
        let stage = Stage::new(REFUSE);
        stage.ask(stream, json!({"input": "Hello", "model": "o4-mini", "metadata": {"say": "Hello."}})).judged("pass", &[]);
        let sent = stage.last_sent();
        assert!(sent["store"].is_null() && sent["include"].is_null(), "{sent}");
        for policy in [STATELESS, REFUSE] {
            let stage = Stage::new(&format!("mode = \"observe\"\n{policy}"));
            let first = stage.ask(stream, json!({"input": "What is the weather in Paris?", "model": "o4-mini"}));
            assert_eq!(first.status, 200, "{first:?}");
            for (request, _) in referring() {
                let request =
                    with(&request, &json!({"model": "o4-mini", "stream": stream, "tools": tools(), "metadata": {"say": "Hello."}}));
                stage.ask(stream, request.clone());
                assert_eq!(stage.last_sent(), request);
            }
        }
    }
}

#[test]
fn a_response_in_the_background_passes() {
    let stage = Stage::new("default");
    let request = json!({"input": "What is the weather in Paris?", "background": true});
    let queued = stage.ask(false, request.clone());
    queued.judged("pass", &[]);
    assert_eq!((&queued.response["status"], &queued.response["output"]), (&json!("queued"), &json!([])));
    assert_eq!(stage.last_sent()["background"], true);
    stage.ask(true, request).judged("pass", &[]).call();
}

/// What is logged before the line that says where it listens.
fn said_at_start(policy: &str, key: Option<String>) -> Vec<String> {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("policy.toml"), policy).unwrap();
    let settings =
        "policy = \"policy.toml\"\n[[upstreams]]\nname = \"u\"\nbase_url = \"http://127.0.0.1:9/v1\"\n[ledger]\nurl = \"memory:\"\n";
    std::fs::write(directory.path().join("toolmark.toml"), settings).unwrap();
    let mut command = command(&["serve", "--listen", "127.0.0.1:0"], directory.path());
    command.envs(key.map(|key| ("TOOLMARK_KEY", key)));
    let mut toolmark = Running::start(command);
    toolmark.address();
    toolmark.lines()
}

#[test]
fn that_replicas_need_affinity_is_said_at_start_once() {
    let key = || Some("ab".repeat(32));
    for (policy, key, said) in [
        ("", key(), 1),
        ("[responses]\nstateful = \"track\"\n", key(), 1),
        ("", None, 0),
        (STATELESS, key(), 0),
        (REFUSE, key(), 0),
        ("mode = \"observe\"\n", key(), 0),
    ] {
        let lines = said_at_start(policy, key);
        let about: Vec<&String> = lines.iter().filter(|line| line.contains("remembered by this process and its ledger only")).collect();
        assert_eq!(about.len(), said, "{policy:?}: {lines:?}");
        for line in about {
            assert!(
                line.contains("INFO") && ["session affinity", "stateless", "shared ledger"].iter().all(|word| line.contains(word)),
                "{line}"
            );
        }
    }
}
