//! `toolmark::testing` in a build without default features: it judges as always, and settings that need what was left out say so.
#![cfg(test)]

use serde_json::json;
use toolmark::{
    cli,
    testing::{Proxy, Script},
};

#[test]
fn an_agents_test() {
    let upstream = Script::new().call("get_wether", json!({"city": "Paris"})).call("get_weather", json!({"city": "Paris"})).start().unwrap();
    let proxy = Proxy::builder().upstream(&upstream).start().unwrap();
    let request = json!({
        "model": "scripted",
        "messages": [{"role": "user", "content": "What is the weather in Paris?"}],
        "tools": [{"type": "function", "function": {"name": "get_weather", "parameters": {
            "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}],
    });
    let answer = proxy.chat(&request).unwrap();
    assert_eq!(answer.verdict(), "repaired");
    assert_eq!(answer.calls(), [("get_weather".to_owned(), json!({"city": "Paris"}))]);
}

#[test]
fn settings_that_need_what_was_left_out_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let refused = |settings: &str, environment: &[(&str, &str)], says: &str| {
        let settings = format!("{settings}\n[[upstreams]]\nname = 'a'\nbase_url = 'http://127.0.0.1:9/v1'\n");
        let error = Proxy::start(&settings, environment, directory.path()).err().unwrap().to_string();
        assert!(error.contains(says), "{error}");
    };
    let key = [("TOOLMARK_KEY", "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef")];
    refused("[ledger]\nurl = 'postgres://a@b/c'", &key, "this build has no PostgreSQL: build it with the feature `postgres`");
    refused("mcp = [{ name = 'todo', url = 'http://127.0.0.1:9/mcp' }]", &[], "this build has no MCP: build it with the feature `mcp`");
    let traces = [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")];
    refused("", &traces, "this build can't send traces: build it with the feature `otlp`");
}

#[test]
fn commands_that_were_left_out_say_so() {
    let arguments = cli::import::ImportArgs {
        form: cli::import::ImportFormat::Vcr,
        files: vec!["a.yaml".into()],
        output: "b.jsonl".into(),
        redact: Vec::new(),
        keep_credentials: false,
    };
    let error = cli::import::import(&arguments).unwrap_err().to_string();
    assert!(error.contains("build it with the feature `cassette-import`"), "{error}");
}
