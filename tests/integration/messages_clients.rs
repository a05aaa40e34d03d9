//! Real clients of the Messages API: agents with two tools run to their end, whole and streamed, with calls that are repaired, fabrications
//! that are blocked, and upstreams that fail. Directly at a strict scripted upstream, through toolmark, and through toolmark at an upstream
//! that speaks only chat completions; and OpenAI's client at one that speaks only Messages.
//!
//! `tests/clients/` has the scripts; what they print is judged here.

use std::collections::HashMap;

use serde_json::{Value, json};
use toolmark::testing::{Received, ScriptedReply, ScriptedUpstream};

use crate::{
    clients::{
        messages_model::messages_model,
        model::{FORGED, model},
        runtimes::{self, repository},
    },
    harness::Fixture,
};

const LOOK: &str = "Let me look.";
const WEATHER: &str = "It is 18 degrees in Paris.";
const BOTH: &str = "It is 18 degrees in Paris and 12:30 in Paris.";
const SAFE: &str = "I reported a tool result that I can't back with an execution.\n- [unknown_execution] ";

/// What a client plays, and what its application must see.
struct Scene {
    name: &'static str,
    ask: &'static str,
    /// All that the assistant said; `SAFE` stands for the safe reply.
    said: &'static [&'static str],
    /// The calls, each of them run once and of no other city than Paris.
    calls: &'static [&'static str],
    /// What the client sends.
    sends: usize,
}

impl Scene {
    const fn new(name: &'static str, ask: &'static str) -> Self {
        Self { name, ask, said: &[LOOK, BOTH], calls: &["get_weather", "get_time"], sends: 2 }
    }
}

/// Those that need no toolmark.
const PLAIN: [Scene; 2] = [
    Scene::new("parallel", "What is the weather and the time in Paris?"),
    Scene { sends: 3, ..Scene::new("one_by_one", "First the weather in Paris, then the time.") },
];

const REPAIRED: Scene = Scene { said: &[LOOK, WEATHER], calls: &["get_weather"], ..Scene::new("", "") };
const FORGING: Scene = Scene { calls: &[], sends: 1, ..Scene::new("", "") };

/// Those that toolmark makes what they are.
const ENFORCED: [Scene; 5] = [
    Scene { name: "invented", ask: "Invent a tool.", ..REPAIRED },
    Scene { name: "left_out", ask: "Leave out an argument.", ..REPAIRED },
    Scene::new("mixed", "Leave out one of two."),
    Scene { name: "objected", ask: "Forge, then mend.", said: &["I can't check that now."], ..FORGING },
    Scene { name: "blocked", ask: "Forge a citation.", said: &[SAFE], ..FORGING },
];

/// Those that end in an error.
const FAILING: [(&str, &str); 3] = [("failing_refused", "Be a bad request."), ("failing_broken", "Break off."), ("failing_cut", CUT)];
const CUT: &str = "Cut the stream.";

/// What stands between a client and the model.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Between {
    Nothing,
    /// toolmark, and an upstream of the same API.
    Toolmark,
    /// toolmark, and an upstream of the other API.
    Translation,
}

impl Between {
    fn scenes(self) -> impl Iterator<Item = &'static Scene> {
        let enforced: &[Scene] = if self == Self::Nothing { &[] } else { &ENFORCED };
        PLAIN.iter().chain(enforced)
    }
}

/// The scripted model behind chat completions, which also cuts streams.
fn chat_model(received: &Received) -> ScriptedReply {
    let request = received.json();
    if request["messages"].as_array().and_then(|messages| messages.last()).is_some_and(|last| last.to_string().contains(CUT)) {
        if request["stream"] != true {
            return ScriptedReply::json(
                500,
                r#"{"error":{"message":"the model fell over","type":"server_error","param":null,"code":null}}"#,
            );
        }
        let delta = json!({"role": "assistant", "content": "It is sunny in Paris, and "});
        let choice = json!({"index": 0, "delta": delta, "finish_reason": null});
        let chunk =
            json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "scripted-1", "choices": [choice]});
        return ScriptedReply::events([format!("data: {chunk}\n\n")]);
    }
    model(received)
}

/// A script with the lock of its packages, where it is Python's.
struct Client {
    script: &'static str,
    lock: &'static str,
    version: &'static str,
    modes: &'static [&'static str],
}

const ANTHROPIC: Client = Client {
    script: "messages.py",
    lock: "messages.txt",
    version: "2.12.0",
    modes: &["whole", "raw", "helper", "manual", "adaptive_whole", "adaptive_raw"],
};
const ANTHROPIC_0: Client = Client { lock: "messages_0.txt", version: "0.94.1", ..ANTHROPIC };
const ANTHROPIC_NPM: Client = Client { script: "messages.mjs", lock: "", version: "1.12.0", modes: &["whole", "helper", "thinking"] };
const AI_SDK: Client = Client { script: "ai_sdk_messages.mjs", lock: "", version: "3.0.140", modes: &["whole", "streamed", "thinking"] };
const LANGCHAIN: Client =
    Client { script: "langchain_messages.py", lock: "messages.txt", version: "1.7.7", modes: &["whole", "streamed", "thinking"] };
const PYDANTIC_AI: Client =
    Client { script: "pydantic_ai_messages.py", lock: "messages.txt", version: "2.68.0", modes: &["whole", "streamed"] };
const OPENAI: Client = Client { script: "chat_agent.py", lock: "messages.txt", version: "3.54.0", modes: &["whole", "helper"] };

impl Client {
    /// Runs the script against a server: what it printed.
    fn run(&self, between: Between, url: &str) -> Value {
        let asks: HashMap<&str, &str> = between.scenes().map(|scene| (scene.name, scene.ask)).chain(FAILING).collect();
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
        assert!(!printed.contains(FORGED), "{}: {printed}", self.script);
        serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"))
    }

    /// Plays all scenes.
    fn check(&self, between: Between) {
        let chat = self.script == OPENAI.script;
        let (results, received) = match between {
            Between::Nothing => {
                let upstream = if chat { ScriptedUpstream::start(chat_model) } else { ScriptedUpstream::start(messages_model) }.unwrap();
                (self.run(between, &upstream.base_url()), upstream.received())
            }
            Between::Toolmark | Between::Translation => {
                let translates = between == Between::Translation;
                let settings = match (translates, chat) {
                    (false, _) => "",
                    (true, true) => "chat = \"translate\"\n",
                    (true, false) => "messages = \"translate\"\n",
                };
                let speaks_chat = chat != translates;
                let script = move |received: &Received| if speaks_chat { chat_model(received) } else { messages_model(received) };
                let fixture = Fixture::with_policy("default", settings, script);
                (self.run(between, &fixture.proxy.base_url()), fixture.upstream.received())
            }
        };
        let path = if chat == (between == Between::Translation) { "/v1/messages" } else { "/v1/chat/completions" };
        for received in &received {
            assert_eq!(received.line.split('?').next(), Some(format!("POST {path}").as_str()), "{}", self.script);
            check_received(between, received);
        }
        assert_eq!(results["version"], self.version);
        for mode in self.modes {
            for scene in between.scenes() {
                check_scene(scene, mode, &results[format!("{}_{mode}", scene.name)]);
            }
            for (scene, _) in FAILING {
                let played = &results[format!("{scene}_{mode}")];
                // Directly, some take a cut stream for an answer.
                if between != Between::Nothing || scene == "failing_refused" {
                    assert!(played["failed"].is_string(), "{} {scene} {mode}: {played}", self.script);
                }
            }
        }
    }
}

fn check_scene(scene: &Scene, mode: &str, played: &Value) {
    let at = format!("{} {mode}: {played}", scene.name);
    let said: Vec<&str> = played["said"].as_array().unwrap_or_else(|| panic!("{at}")).iter().map(|text| text.as_str().unwrap()).collect();
    if scene.said == [SAFE] {
        // Where it is streamed, what left before the fabrication came stays.
        let all = said.concat();
        let (before, _) = all.split_once(SAFE).unwrap_or_else(|| panic!("{at}"));
        assert!("It is sunny in Paris, 25 degrees".starts_with(before.trim_end()), "{at}");
    } else {
        assert_eq!(said, scene.said, "{at}");
    }
    assert_eq!(played["sends"], scene.sends, "{at}");
    if let Some(deltas) = played["deltas"].as_str() {
        assert_eq!(deltas, said.concat(), "{at}");
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

/// Sent once, and through toolmark every result with its stamp.
fn check_received(between: Between, received: &Received) {
    let retries = received.headers.get("x-stainless-retry-count").map(|value| value.to_str().unwrap());
    assert!(retries.is_none_or(|retries| retries == "0"), "{retries:?}");
    let request = received.json();
    let text = |content: &Value| content.as_str().or_else(|| content[0]["text"].as_str()).unwrap_or_default().to_owned();
    for message in request["messages"].as_array().into_iter().flatten() {
        let blocks = message["content"].as_array().into_iter().flatten().filter(|block| block["type"] == "tool_result");
        let results = blocks.map(|block| text(&block["content"])).chain((message["role"] == "tool").then(|| text(&message["content"])));
        for result in results {
            let stamps = [r#"{"execution_id":"get_weather_"#, r#"{"execution_id": "get_weather_"#, "[execution_id: get_"];
            let stamped = stamps.iter().any(|stamp| result.starts_with(stamp));
            assert!(result.contains("Tool call ") || stamped == (between != Between::Nothing), "{result}");
        }
    }
}

fn play(name: &str, between: Between, clients: &[Client]) {
    if !runtimes::skipped(&format!("messages_clients::{name}")) {
        clients.iter().for_each(|client| client.check(between));
    }
}

#[test]
fn directly() {
    play("directly", Between::Nothing, &[ANTHROPIC, ANTHROPIC_0, ANTHROPIC_NPM, AI_SDK, LANGCHAIN, PYDANTIC_AI, OPENAI]);
}

#[test]
fn anthropic_of_pypi() {
    play("anthropic_of_pypi", Between::Toolmark, &[ANTHROPIC, ANTHROPIC_0]);
}

#[test]
fn anthropic_and_ai_sdk_of_npm() {
    play("anthropic_and_ai_sdk_of_npm", Between::Toolmark, &[ANTHROPIC_NPM, AI_SDK]);
}

#[test]
fn langchain_and_pydantic_ai() {
    play("langchain_and_pydantic_ai", Between::Toolmark, &[LANGCHAIN, PYDANTIC_AI]);
}

/// The same agent, four ways: each client at an upstream of its own API, and of the other one.
#[test]
fn four_ways() {
    play("four_ways", Between::Toolmark, &[OPENAI, ANTHROPIC]);
    play("four_ways", Between::Translation, &[OPENAI, ANTHROPIC]);
}

#[test]
fn other_clients_translated() {
    play("other_clients_translated", Between::Translation, &[ANTHROPIC_NPM, AI_SDK, LANGCHAIN, PYDANTIC_AI]);
}
