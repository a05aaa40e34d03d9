//! Every preset in front of a provider that behaves as docs/wire-facts.md says, with the openai clients of PyPI and npm: a tool loop,
//! whole and streamed, whose history keeps only what frameworks keep, and errors. One process of each client runs all.

use serde_json::{Value, json};
use toolmark::testing::{Proxy, ScriptedUpstream};

use super::providers::{ALL, serve};
use crate::clients::{is_mark, runtimes};

/// All providers behind one proxy, told apart by the model's name.
fn play(run: impl FnOnce(&[(&str, &str)]) -> String) -> Value {
    let directory = tempfile::tempdir().unwrap();
    let upstream = ScriptedUpstream::start(serve).unwrap();
    let settings: String = ALL
        .iter()
        .map(|name| {
            let base_url = format!("{}/{name}", upstream.base_url());
            format!("[[upstreams]]\nname = \"{name}\"\nbase_url = \"{base_url}\"\nmodels = [\"{name}-*\"]\npreset = \"{name}\"\n")
        })
        .collect();
    let proxy = Proxy::start(&settings, &[], directory.path()).unwrap();
    let printed = run(&[("OPENAI_BASE_URL", &proxy.base_url()), ("OPENAI_API_KEY", "sk-test"), ("PROVIDERS", &ALL.join(","))]);
    serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"))
}

fn check(results: &Value, modes: &[&str]) {
    for name in ALL {
        for mode in modes {
            let played = &results[name][mode];
            let calls = played["calls"].as_array().unwrap_or_else(|| panic!("{name} {mode}: {played}"));
            let arguments: Vec<&Value> = calls.iter().map(|call| &call["arguments"]).collect();
            assert_eq!(arguments, [&json!({"city": "Paris"}), &json!({"city": "Rome"})], "{name} {mode}: {played}");
            assert!(calls.iter().all(|call| call["name"] == "get_weather"), "{name} {mode}: {played}");
            calls.iter().for_each(|call| is_mark(&call["id"]));
            assert_eq!(
                (&played["finish"], &played["text"]),
                (&json!("tool_calls"), &json!("It is 18 degrees in Paris and in Rome.")),
                "{name} {mode}"
            );
            assert_eq!(played["upstream"], name, "{mode}");
        }
        let error = &results[name]["error"];
        assert_eq!(error["status"], 400, "{name}: {error}");
        assert!(error["message"].as_str().unwrap().contains(&format!("bad request of {name}")), "{name}: {error}");
        let broken = &results[name]["breaks"];
        // The last words may introduce a citation: they are held, and don't leave where the answer breaks off.
        assert!(broken["seen"].as_str().is_some_and(|seen| seen.starts_with("It is sunny")), "{name}: {broken}");
        assert_eq!(broken["status"], Value::Null, "{name}: {broken}");
        assert!(broken["message"].as_str().unwrap().contains("fell over"), "{name}: {broken}");
    }
}

#[test]
fn openai_of_pypi_with_every_provider() {
    if runtimes::skipped("upstreams::presets::openai_of_pypi_with_every_provider") {
        return;
    }
    let script = runtimes::repository("tests/clients/presets.py");
    check(&play(|environment| runtimes::run_python(&script, environment)), &["whole", "streamed", "helper"]);
}

#[test]
fn openai_of_npm_with_every_provider() {
    if runtimes::skipped("upstreams::presets::openai_of_npm_with_every_provider") {
        return;
    }
    let script = runtimes::repository("tests/clients/presets.mjs");
    check(&play(|environment| runtimes::run_node(&script, environment)), &["whole", "streamed", "helper"]);
}
