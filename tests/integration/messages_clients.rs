//! Real clients of the Messages API: agents with two tools run to their end, whole and streamed, directly at a strict scripted upstream.
//! `tests/clients/` has the scripts; what they print is judged here.

use std::collections::HashMap;

use serde_json::{Value, json};
use toolmark::testing::{Received, ScriptedUpstream};

use crate::clients::{
    messages_model::messages_model,
    runtimes::{self, repository},
};

const LOOK: &str = "Let me look.";
const BOTH: &str = "It is 18 degrees in Paris and 12:30 in Paris.";

/// What a client plays, and what its application must see.
struct Scene {
    name: &'static str,
    ask: &'static str,
    /// All that the assistant said.
    said: &'static [&'static str],
    /// The calls, each of them run once and of no other city than Paris.
    calls: &'static [&'static str],
    /// What the client sends.
    sends: usize,
}

/// Those that need no toolmark.
const PLAIN: [Scene; 2] = [
    Scene {
        name: "parallel",
        ask: "What is the weather and the time in Paris?",
        said: &[LOOK, BOTH],
        calls: &["get_weather", "get_time"],
        sends: 2,
    },
    Scene {
        name: "one_by_one",
        ask: "First the weather in Paris, then the time.",
        said: &[LOOK, BOTH],
        calls: &["get_weather", "get_time"],
        sends: 3,
    },
];

/// Those that end in an error.
const FAILING: [(&str, &str); 3] =
    [("failing_refused", "Be a bad request."), ("failing_broken", "Break off."), ("failing_cut", "Cut the stream.")];

/// A script with the lock of its packages, where it is Python's.
struct Client {
    script: &'static str,
    lock: &'static str,
    version: &'static str,
    modes: &'static [&'static str],
}

const ANTHROPIC: Client =
    Client { script: "messages.py", lock: "messages.txt", version: "2.12.0", modes: &["whole", "raw", "helper", "thinking"] };
const ANTHROPIC_0: Client = Client { lock: "messages_0.txt", version: "0.94.1", ..ANTHROPIC };
const ANTHROPIC_NPM: Client = Client { script: "messages.mjs", lock: "", version: "1.12.0", modes: &["whole", "helper", "thinking"] };
const AI_SDK: Client = Client { script: "ai_sdk_messages.mjs", lock: "", version: "3.0.140", modes: &["whole", "streamed", "thinking"] };
const LANGCHAIN: Client =
    Client { script: "langchain_messages.py", lock: "messages.txt", version: "1.7.7", modes: &["whole", "streamed", "thinking"] };
const PYDANTIC_AI: Client =
    Client { script: "pydantic_ai_messages.py", lock: "messages.txt", version: "2.68.0", modes: &["whole", "streamed"] };

impl Client {
    /// Runs the script against a server: what it printed.
    fn run(&self, url: &str) -> Value {
        let asks: HashMap<&str, &str> = PLAIN.iter().map(|scene| (scene.name, scene.ask)).chain(FAILING).collect();
        let (asks, root) = (json!(asks).to_string(), url.strip_suffix("/v1").unwrap());
        let environment = [
            ("ANTHROPIC_BASE_URL", root),
            ("ANTHROPIC_API_KEY", "sk-test"),
            ("OPENAI_BASE_URL", url),
            ("OPENAI_API_KEY", "sk-test"),
            ("SCENES", &asks),
        ];
        let script = repository("tests/clients").join(self.script);
        let printed = match self.lock.strip_suffix(".txt") {
            Some(name) => runtimes::run_python_of(name, &format!("tests/clients/{}", self.lock), &script, &environment),
            None => runtimes::run_node(&script, &environment),
        };
        serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"))
    }

    /// Plays all scenes directly at the upstream.
    fn check_directly(&self) {
        let upstream = ScriptedUpstream::start(messages_model).unwrap();
        let results = self.run(&upstream.base_url());
        self.check(&results);
        upstream.received().iter().for_each(check_received);
    }

    fn check(&self, results: &Value) {
        assert_eq!(results["version"], self.version);
        for mode in self.modes {
            for scene in &PLAIN {
                check_scene(scene, mode, &results[format!("{}_{mode}", scene.name)]);
            }
            for (scene, _) in FAILING {
                println!("{} {scene} {mode}: {}", self.script, results[format!("{scene}_{mode}")]);
            }
        }
    }
}

fn check_scene(scene: &Scene, mode: &str, played: &Value) {
    let at = format!("{} {mode}: {played}", scene.name);
    assert_eq!(played["said"], json!(scene.said), "{at}");
    assert_eq!(played["sends"], scene.sends, "{at}");
    if let Some(deltas) = played["deltas"].as_str() {
        assert_eq!(deltas, scene.said.concat(), "{at}");
    }
    for tool in ["get_weather", "get_time"] {
        assert_eq!(played["runs"][tool], scene.calls.iter().filter(|call| **call == tool).count(), "{at}");
    }
    let calls = played["calls"].as_array().unwrap_or_else(|| panic!("{at}"));
    assert_eq!(calls.iter().map(|call| call["name"].as_str().unwrap()).collect::<Vec<_>>(), scene.calls, "{at}");
    for call in calls {
        assert_eq!(serde_json::from_str::<Value>(call["arguments"].as_str().unwrap()).unwrap(), json!({"city": "Paris"}), "{at}");
    }
    let ids: Vec<&Value> = calls.iter().map(|call| &call["id"]).collect();
    assert_eq!(ids, played["results"].as_array().unwrap().iter().collect::<Vec<_>>(), "{at}");
}

/// Sent once.
fn check_received(received: &Received) {
    let retries = received.headers.get("x-stainless-retry-count").map(|value| value.to_str().unwrap());
    assert!(retries.is_none_or(|retries| retries == "0"), "{retries:?}");
}

#[test]
fn directly() {
    if runtimes::skipped("messages_clients::directly") {
        return;
    }
    for client in [ANTHROPIC, ANTHROPIC_0, ANTHROPIC_NPM, AI_SDK, LANGCHAIN, PYDANTIC_AI] {
        client.check_directly();
    }
}
