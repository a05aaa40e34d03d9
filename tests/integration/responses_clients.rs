//! Real clients of the Responses API through toolmark: agents with two tools run to their end, whole and streamed, with
//! calls that are repaired and fabrications that are blocked. `tests/clients/` has the scripts; what they print is judged here.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};
use toolmark::testing::{Received, ScriptedUpstream};

use crate::{
    clients::{
        is_mark,
        model::FORGED,
        responses_model::responses_model,
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
    /// What toolmark says of the first answer, and what it has against what came upstream.
    verdict: &'static str,
    violations: &'static [&'static str],
}

impl Scene {
    const fn new(name: &'static str, ask: &'static str) -> Self {
        Self { name, ask, said: &[LOOK, BOTH], calls: &["get_weather", "get_time"], sends: 2, verdict: "pass", violations: &[] }
    }
}

/// Those that need no toolmark.
const PLAIN: [Scene; 2] = [
    Scene::new("parallel", "What is the weather and the time in Paris?"),
    Scene { sends: 3, ..Scene::new("one_by_one", "First the weather in Paris, then the time.") },
];

const REPAIRED: Scene = Scene { said: &[LOOK, WEATHER], calls: &["get_weather"], verdict: "repaired", ..Scene::new("", "") };
const FORGING: Scene = Scene { calls: &[], sends: 1, violations: &["unknown_execution"], ..Scene::new("", "") };

/// Those that toolmark makes what they are.
const ENFORCED: [Scene; 5] = [
    Scene { name: "invented", ask: "Invent a tool.", violations: &["unknown_tool"], ..REPAIRED },
    Scene { name: "left_out", ask: "Leave out an argument.", violations: &["missing_required"], ..REPAIRED },
    Scene { verdict: "repaired", violations: &["missing_required"], ..Scene::new("mixed", "Leave out one of two.") },
    Scene { name: "objected", ask: "Forge, then mend.", said: &["I can't check that now."], verdict: "repaired", ..FORGING },
    Scene { name: "blocked", ask: "Forge a citation.", said: &[SAFE], verdict: "blocked", ..FORGING },
];

/// What its scripts ask in their scenes, by the scene's name: JSON.
pub fn asks() -> String {
    Between::Toolmark.asks()
}

/// What stands between a client and the model.
#[derive(Clone, Copy, PartialEq)]
enum Between {
    Toolmark,
    Nothing,
}

impl Between {
    fn scenes(self) -> impl Iterator<Item = &'static Scene> {
        let enforced: &[Scene] = if self == Self::Toolmark { &ENFORCED } else { &[] };
        PLAIN.iter().chain(enforced)
    }

    fn asks(self) -> String {
        let asks: HashMap<&str, &str> = self.scenes().map(|scene| (scene.name, scene.ask)).collect();
        json!(asks).to_string()
    }

    /// Runs a script: what it printed. What came upstream is judged.
    fn play(self, script: &str) -> Value {
        let asks = self.asks();
        let run = |url: &str| {
            let environment =
                [("OPENAI_BASE_URL", url), ("OPENAI_API_KEY", "sk-test"), ("SCENES", &asks), ("OPENAI_AGENTS_DISABLE_TRACING", "1")];
            let script = repository("tests/clients").join(script);
            let python = script.extension().is_some_and(|extension| extension == "py");
            if python { runtimes::run_python(&script, &environment) } else { runtimes::run_node(&script, &environment) }
        };
        let (printed, received) = match self {
            Self::Toolmark => {
                let fixture = Fixture::new("default", responses_model());
                (run(&fixture.proxy.base_url()), fixture.upstream.received())
            }
            Self::Nothing => {
                let upstream = ScriptedUpstream::start(responses_model()).unwrap();
                (run(&upstream.base_url()), upstream.received())
            }
        };
        assert!(!printed.contains(FORGED), "{script}: {printed}");
        received.iter().for_each(|received| self.check_received(received));
        serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"))
    }

    /// A script's scenes, each in all these modes.
    fn check(self, script: &str, version: &str, modes: &[&str]) -> Value {
        let results = self.play(script);
        assert_eq!(results["version"], version);
        for scene in self.scenes() {
            for mode in modes {
                self.check_scene(scene, mode, &results[format!("{}_{mode}", scene.name)]);
            }
        }
        results
    }

    fn check_scene(self, scene: &Scene, mode: &str, played: &Value) {
        let at = format!("{} {mode}: {played}", scene.name);
        let said: Vec<&str> =
            played["said"].as_array().unwrap_or_else(|| panic!("{at}")).iter().map(|text| text.as_str().unwrap()).collect();
        check_said(scene, &said, played["deltas"].is_string(), &at);
        assert_eq!(played["text"].as_str(), said.last().copied(), "{at}");
        assert_eq!(played["sends"], scene.sends, "{at}");
        if let Some(deltas) = played["deltas"].as_str() {
            assert_eq!(deltas, said.concat(), "{at}");
        }
        for tool in ["get_weather", "get_time"] {
            assert_eq!(played["runs"][tool], scene.calls.iter().filter(|call| **call == tool).count(), "{at}");
        }
        let calls = played["calls"].as_array().unwrap();
        assert_eq!(calls.iter().map(|call| call["name"].as_str().unwrap()).collect::<Vec<_>>(), scene.calls, "{at}");
        if let Some(streamed) = played["arguments"].as_array() {
            assert_eq!(streamed.iter().collect::<Vec<_>>(), calls.iter().map(|call| &call["arguments"]).collect::<Vec<_>>(), "{at}");
        }
        for call in calls {
            let arguments: Value = serde_json::from_str(call["arguments"].as_str().unwrap()).unwrap();
            assert_eq!(arguments, json!({"city": "Paris"}), "{at}");
            match (self, mode.starts_with("chat")) {
                (Self::Toolmark, true) => is_mark(&call["id"]),
                (Self::Toolmark, false) => assert!(is_marked(call["id"].as_str().unwrap()), "{at}"),
                (Self::Nothing, _) => assert!(is_upstream_id(call["id"].as_str().unwrap()), "{at}"),
            }
        }
        let mut ids: Vec<&str> = calls.iter().map(|call| call["id"].as_str().unwrap()).collect();
        let mut answered: Vec<&str> = played["results"].as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect();
        if self == Self::Toolmark {
            assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len(), "{at}");
        }
        ids.sort_unstable();
        answered.sort_unstable();
        assert_eq!(ids, answered, "{at}");
    }

    /// One request upstream: sent once, with the upstream's own ids, and every result with its stamp.
    fn check_received(self, received: &Received) {
        let retries = received.headers.get("x-stainless-retry-count").map(|value| value.to_str().unwrap());
        assert!(retries.is_none_or(|retries| retries == "0"), "{retries:?}");
        assert_eq!(received.headers["authorization"], "Bearer sk-test");
        let request = received.json();
        let results = request["messages"].as_array().into_iter().flatten().filter(|message| message["role"] == "tool");
        for message in results {
            self.check_result(&message["content"]);
        }
        for item in request["input"].as_array().into_iter().flatten() {
            if let Some(call_id) = item["call_id"].as_str() {
                assert!(is_upstream_id(call_id), "{item}");
            }
            if item["type"] == "function_call_output" {
                self.check_result(&item["output"]);
            }
        }
    }

    fn check_result(self, content: &Value) {
        let result = content.as_str().or_else(|| content[0]["text"].as_str()).unwrap_or_else(|| panic!("{content}"));
        let stamps = [r#"{"execution_id":"get_weather_"#, r#"{"execution_id": "get_weather_"#, "[execution_id: get_time_"];
        let stamped = stamps.iter().any(|stamp| result.starts_with(stamp));
        assert!(result.starts_with("Tool call ") || stamped == (self == Self::Toolmark), "{result}");
    }
}

/// What was said; the safe reply follows what had left before the fabrication came, where anything had.
fn check_said(scene: &Scene, said: &[&str], streamed: bool, at: &str) {
    if scene.verdict != "blocked" {
        return assert_eq!(said, scene.said, "{at}");
    }
    let [only] = said else { panic!("{at}") };
    let (before, _) = only.split_once(SAFE).unwrap_or_else(|| panic!("{at}"));
    assert!(before.is_empty() || streamed && "It is sunny in Paris, 25 degrees".starts_with(before.trim_end()), "{at}");
}

/// `call_` and 24 hex digits, as the scripted model has them.
fn is_upstream_id(id: &str) -> bool {
    id.strip_prefix("call_").is_some_and(|hex| hex.len() == 24 && hex.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// The upstream's ID, `_`, and 22 base64url characters.
fn is_marked(id: &str) -> bool {
    let base64url = |b: u8| b.is_ascii_alphanumeric() || b"-_".contains(&b);
    id.len() == 52
        && id.is_char_boundary(29)
        && is_upstream_id(&id[..29])
        && id[29..].strip_prefix('_').is_some_and(|mark| mark.bytes().all(base64url))
}

/// What the openai clients themselves were told of each answer: IDs, tokens, toolmark's own word.
fn check_turns(results: &Value, modes: &[&str]) {
    for (scene, mode) in Between::Toolmark.scenes().flat_map(|scene| modes.iter().map(move |mode| (scene, mode))) {
        let turns = results[format!("{}_{mode}", scene.name)]["turns"].as_array().unwrap();
        for (number, turn) in turns.iter().enumerate() {
            let verdict = if number == 0 { scene.verdict } else { "pass" };
            let at = format!("{} {mode}: {turn}", scene.name);
            assert!(turn["id"].as_str().unwrap().starts_with("resp_") && turn["status"] == "completed", "{at}");
            let member = &turn["member"];
            if verdict == "pass" {
                assert_eq!((member, &turn["tokens"]), (&Value::Null, &json!(15)), "{at}");
            } else {
                assert_eq!((&member["verdict"], &member["violations"]), (&json!(verdict), &json!(scene.violations)), "{at}");
            }
            if verdict == "repaired" {
                assert_eq!((&member["repairs"], &turn["tokens"]), (&json!(1), &json!(30)), "{at}");
            }
            if *mode == "whole" {
                let violations = if verdict == "pass" { Value::Null } else { json!(scene.violations.join(",")) };
                assert_eq!((&turn["header"]["verdict"], &turn["header"]["violations"]), (&json!(verdict), &violations), "{at}");
                assert_eq!(turn["header"]["exchange"].as_str().map(str::len), Some(36), "{at}");
            }
        }
    }
}

/// An error of upstream's is the application's, of its client's own type; a stream that fails says so at its end.
fn check_failures(results: &Value) {
    let Value::Object(failures) = &results["failures"] else { panic!("{results}") };
    let refused = json!({"class": "BadRequestError", "status": 400, "type": "invalid_request_error", "message": "the script says no"});
    assert_eq!(failures["refused"], refused);
    let failed = &failures["failed"];
    assert!(failed["seen"].as_str().is_some_and(|seen| seen.starts_with("It is sunny")), "{failed}");
    assert_eq!((&failed["last"], &failed["status"]), (&json!("response.failed"), &json!("failed")), "{failed}");
    assert_eq!(failed["error"], json!({"code": "server_error", "message": "the model fell over"}), "{failed}");
}

const OPENAI_MODES: [&str; 6] = ["whole", "stateless", "chained", "parsed", "streamed", "helper"];
const AI_SDK_MODES: [&str; 6] =
    ["responses_whole", "responses_streamed", "stateless_whole", "stateless_streamed", "chat_whole", "chat_streamed"];

#[test]
fn openai_agents() {
    if !runtimes::skipped("responses_clients::openai_agents") {
        Between::Toolmark.check("openai_agents.py", "0.24.0", &["whole", "streamed"]);
    }
}

#[test]
fn pydantic_ai() {
    if !runtimes::skipped("responses_clients::pydantic_ai") {
        Between::Toolmark.check("pydantic_ai_responses.py", "2.68.0", &["whole", "streamed"]);
    }
}

#[test]
fn langchain() {
    if !runtimes::skipped("responses_clients::langchain") {
        Between::Toolmark.check("langchain_responses.py", "1.7.4", &["whole", "streamed", "chained"]);
    }
}

#[test]
fn ai_sdk() {
    if !runtimes::skipped("responses_clients::ai_sdk") {
        Between::Toolmark.check("ai_sdk.mjs", "6.0.326", &AI_SDK_MODES);
    }
}

#[test]
fn openai_of_pypi() {
    if !runtimes::skipped("responses_clients::openai_of_pypi") {
        let results = Between::Toolmark.check("responses.py", "3.54.0", &OPENAI_MODES);
        check_turns(&results, &OPENAI_MODES);
        check_failures(&results);
        assert_eq!(results["async"], json!([["get_weather"], ["get_weather"]]));
    }
}

#[test]
fn openai_of_npm() {
    if !runtimes::skipped("responses_clients::openai_of_npm") {
        let results = Between::Toolmark.check("responses.mjs", "6.49.0", &OPENAI_MODES);
        check_turns(&results, &OPENAI_MODES);
        check_failures(&results);
    }
}

/// The plain scenes with nothing in between: where this fails too, a failure above is not toolmark's. Without chat, whose
/// model calls everything `call_0`: only toolmark mends that.
#[test]
#[ignore = "says nothing about toolmark"]
fn without_toolmark() {
    for (script, version, modes) in [
        ("openai_agents.py", "0.24.0", &["whole", "streamed"][..]),
        ("pydantic_ai_responses.py", "2.68.0", &["whole", "streamed"]),
        ("langchain_responses.py", "1.7.4", &["whole", "streamed", "chained"]),
        ("ai_sdk.mjs", "6.0.326", &AI_SDK_MODES[..4]),
        ("responses.py", "3.54.0", &OPENAI_MODES),
        ("responses.mjs", "6.49.0", &OPENAI_MODES),
    ] {
        let results = Between::Nothing.check(script, version, modes);
        if modes == OPENAI_MODES {
            check_failures(&results);
        }
    }
}
