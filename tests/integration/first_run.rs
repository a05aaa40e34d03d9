//! A newcomer's first commands: `init`, `doctor`, `serve`, and a call of an openai client, without editing anything.

use serde_json::{Value, json};
use toolmark::testing::{Received, ScriptedReply, ScriptedUpstream};

use crate::{
    clients::{is_mark, runtimes},
    postgres::Ledger,
    program::{Finished, Running, command, finish},
};

const KEY: &str = "sk-good";

/// A server that calls functions as it should, and speaks as this provider does.
fn server(provider: &'static str) -> ScriptedUpstream {
    ScriptedUpstream::start(move |received| {
        let reply = answer(provider, received);
        if provider == "llamacpp" { reply.header("server", "llama.cpp") } else { reply }
    })
    .unwrap()
}

fn answer(provider: &str, received: &Received) -> ScriptedReply {
    let authorized = match provider {
        "anthropic" => {
            received.headers.get("x-api-key").is_some_and(|value| value == KEY) && received.headers.contains_key("anthropic-version")
        }
        _ => received.headers.get("authorization").is_some_and(|value| value == &format!("Bearer {KEY}")),
    };
    if provider != "llamacpp" && !authorized {
        return ScriptedReply::json(
            401,
            json!({"error": {"message": "Incorrect API key provided", "code": "invalid_api_key"}}).to_string(),
        );
    }
    if received.line.contains("/models") {
        let data = json!([{"id": "text-embedding", "object": "model"}, {"id": "scripted", "object": "model", "owned_by": provider}]);
        return ScriptedReply::json(200, json!({"object": "list", "data": data}).to_string());
    }
    let request = received.json();
    if provider == "cerebras" && request.get("parallel_tool_calls").is_some() {
        return ScriptedReply::json(
            400,
            json!({"message": "parallel_tool_calls is not for this model", "code": "wrong_api_format"}).to_string(),
        );
    }
    if provider == "anthropic" {
        return anthropics_answer(&request);
    }
    if request["stream"] == true {
        let chunk = |delta: Value, finish: Value| json!({"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "scripted", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
        let chunks = [chunk(json!({"role": "assistant", "content": "1, 2"}), Value::Null), chunk(json!({}), json!("stop"))];
        return ScriptedReply::chunks(chunks);
    }
    let asked = request["messages"][0]["content"].as_str().unwrap_or_default();
    let message = match asked.split_once(" in ").and_then(|(_, rest)| rest.split_once(',')) {
        Some((city, _)) if request["tools"].is_array() => {
            let arguments = json!({"city": city, "unit": "celsius"}).to_string();
            json!({"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "get_temperature", "arguments": arguments}}]})
        }
        _ => json!({"role": "assistant", "content": "ready"}),
    };
    let finish = if message["content"].is_null() { "tool_calls" } else { "stop" };
    let choice = json!({"index": 0, "message": message, "finish_reason": finish});
    ScriptedReply::json(
        200,
        json!({"id": "c", "object": "chat.completion", "created": 0, "model": "scripted", "choices": [choice]}).to_string(),
    )
}

/// What a server says that has the Messages API only.
fn anthropics_answer(request: &Value) -> ScriptedReply {
    let message = |content: Value, reason: Value| json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "scripted", "content": content, "stop_reason": reason, "stop_sequence": null, "usage": {"input_tokens": 1, "output_tokens": 1}});
    if request["stream"] == true {
        let event = |event: Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
        return ScriptedReply::events([
            event(json!({"type": "message_start", "message": message(json!([]), Value::Null)})),
            event(json!({"type": "message_stop"})),
        ]);
    }
    let asked = request["messages"][0]["content"].to_string();
    let (content, reason) = match asked.split_once(" in ").and_then(|(_, rest)| rest.split_once(',')) {
        Some((city, _)) if request["tools"].is_array() => {
            let call = json!({"type": "tool_use", "id": "toolu_1", "name": "get_temperature", "input": {"city": city, "unit": "celsius"}});
            (json!([call]), json!("tool_use"))
        }
        _ => (json!([{"type": "text", "text": "ready"}]), json!("end_turn")),
    };
    ScriptedReply::json(200, message(content, reason).to_string())
}

fn run(arguments: &[&str], directory: &std::path::Path, environment: &[(&str, &str)]) -> Finished {
    let mut command = command(arguments, directory);
    for name in ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "CEREBRAS_API_KEY", "OPENAI_BASE_URL"] {
        command.env_remove(name);
    }
    command.envs(environment.iter().copied()).output().unwrap().into()
}

/// Three commands; what `doctor` says in between must be good.
fn three_commands(provider: &'static str, flags: &[&str], environment: &[(&str, &str)], says: &str) {
    let directory = tempfile::tempdir().unwrap();
    let upstream = server(provider);
    let url = upstream.base_url();
    let init = [&["init", "--listen", "127.0.0.1:0", "--url", &url][..], flags].concat();
    let written = run(&init, directory.path(), environment);
    assert_eq!(written.code, Some(0), "{written:?}");
    assert!(written.stdout.contains(says), "{written:?}");

    let doctor = run(&["doctor"], directory.path(), environment);
    assert_eq!(doctor.code, Some(0), "{doctor:?}");
    for good in ["10 of 10 calls right", "2 events", "made on the first start"] {
        assert!(doctor.stdout.contains(good), "{good}: {}", doctor.stdout);
    }
    assert!(!directory.path().join("toolmark.db").exists(), "the doctor makes no ledger");

    if runtimes::skipped("first_run: the openai client") {
        return;
    }
    let mut serve = command(&["serve"], directory.path());
    serve.envs(environment.iter().copied());
    let mut served = Running::start(serve);
    let base = format!("http://{}/v1", served.address());
    let script = runtimes::repository("tests/clients/first.py");
    let printed = runtimes::run_python(&script, &[("OPENAI_BASE_URL", &base), ("OPENAI_API_KEY", "unused")]);
    let call: Value = serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"));
    assert_eq!(
        (&call["verdict"], &call["name"], &call["arguments"]["city"]),
        (&json!("pass"), &json!("get_temperature"), &json!("Oslo")),
        "{call}"
    );
    is_mark(&call["id"]);
    served.signal("TERM");
    assert_eq!(served.end().code, Some(0));
}

#[test]
fn llamacpp_is_recognised_by_what_it_answers() {
    three_commands("llamacpp", &[], &[], "llama.cpp at http://127.0.0.1:");
}

#[test]
fn openai_with_its_key() {
    three_commands("openai", &["--provider", "openai"], &[("OPENAI_API_KEY", KEY)], "key from OPENAI_API_KEY");
}

/// The same client of OpenAI's: its chat completions are translated.
#[test]
fn anthropic_with_its_key() {
    three_commands("anthropic", &["--provider", "anthropic"], &[("ANTHROPIC_API_KEY", KEY)], "key from ANTHROPIC_API_KEY");
}

#[test]
fn cerebras_with_its_key() {
    three_commands("cerebras", &["--provider", "cerebras"], &[("CEREBRAS_API_KEY", KEY)], "key from CEREBRAS_API_KEY");
}

#[test]
fn init_replaces_nothing_unasked() {
    let directory = tempfile::tempdir().unwrap();
    let init = ["init", "--provider", "openai"];
    assert_eq!(run(&init, directory.path(), &[]).code, Some(0));
    let again = run(&init, directory.path(), &[]);
    assert_eq!(again.code, Some(2), "{again:?}");
    assert!(again.stderr.contains("exists already"), "{again:?}");
    assert_eq!(run(&[&init[..], &["--force"]].concat(), directory.path(), &[]).code, Some(0));
    // Flags that make no settings leave the good file as it is, and none where there was none.
    let good = std::fs::read(directory.path().join("toolmark.toml")).unwrap();
    for wrong in [["--policy", "nope"], ["--listen", "8787"]] {
        let refused = run(&[&init[..], &["--force"], &wrong[..]].concat(), directory.path(), &[]);
        assert!(refused.code == Some(2) && !refused.stderr.contains(".new"), "{refused:?}");
        assert_eq!(std::fs::read(directory.path().join("toolmark.toml")).unwrap(), good);
        let empty = tempfile::tempdir().unwrap();
        assert_eq!(run(&[&init[..], &wrong[..]].concat(), empty.path(), &[]).code, Some(2));
        assert_eq!(std::fs::read_dir(empty.path()).unwrap().count(), 0);
    }
}

#[test]
fn doctor_looks_at_databases_and_mcp_servers() {
    let upstream = server("openai");
    for (ledger, says) in [(Ledger::sqlite(), "made on the first start"), (Ledger::postgres(), "PostgreSQL is reached")] {
        let directory = ledger.directory();
        let settings = format!(
            "[[upstreams]]\nname = \"own\"\nbase_url = \"{}\"\napi_key_env = \"OPENAI_API_KEY\"\n[ledger]\nurl = \"{}\"\n[[mcp]]\nname = \"gone\"\ncommand = [\"/no/such/program\"]\nrequired = true\n",
            upstream.base_url(),
            ledger.url()
        );
        std::fs::write(directory.join("toolmark.toml"), settings).unwrap();
        let key = "5e".repeat(32);
        let doctor = run(&["doctor"], directory, &[("OPENAI_API_KEY", "sk-good"), ("TOOLMARK_KEY", &key)]);
        assert_eq!(doctor.code, Some(1), "{doctor:?}");
        for said in [says, "❌ mcp: gone", "/no/such/program` can't be started"] {
            assert!(doctor.stdout.contains(said), "{said}: {doctor:?}");
        }
    }
}

#[test]
fn doctor_says_what_to_mend() {
    let directory = tempfile::tempdir().unwrap();
    let upstream = server("openai");
    let url = upstream.base_url();
    let environment = [("OPENAI_API_KEY", "sk-bad")];
    assert_eq!(run(&["init", "--provider", "openai", "--url", &url], directory.path(), &environment).code, Some(0));
    let doctor = run(&["doctor"], directory.path(), &environment);
    assert_eq!(doctor.code, Some(1), "{doctor:?}");
    for said in ["❌ openai: key", "put a valid key into OPENAI_API_KEY", "–  openai: answers", "1 to mend"] {
        assert!(doctor.stdout.contains(said), "{said}: {}", doctor.stdout);
    }

    // Nobody there.
    drop(upstream);
    let doctor = run(&["doctor", "--upstream", "http://127.0.0.1:9/v1"], directory.path(), &[]);
    assert_eq!(doctor.code, Some(1), "{doctor:?}");
    assert!(doctor.stdout.contains("is base_url right, and does the server run?"), "{}", doctor.stdout);

    // A model that can't: it answers in words.
    let talker = ScriptedUpstream::start(|received| match received.line.contains("/models") {
        true => ScriptedReply::json(200, json!({"data": [{"id": "m"}]}).to_string()),
        false => ScriptedReply::json(
            200,
            json!({"choices": [{"index": 0, "message": {"content": "warm"}, "finish_reason": "stop"}]}).to_string(),
        ),
    })
    .unwrap();
    let doctor = run(&["doctor", "--upstream", &talker.base_url()], directory.path(), &[]);
    assert_eq!(doctor.code, Some(1), "{doctor:?}");
    assert!(doctor.stdout.contains("0 of 10 calls right, 0 wrong, 10 answered in words"), "{}", doctor.stdout);
}

#[test]
fn serve_without_an_upstream_says_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let served = finish(&["serve"], directory.path());
    assert_eq!(served.code, Some(2), "{served:?}");
    for said in ["nothing says where the model server is", "toolmark init", "toolmark serve --upstream"] {
        assert!(served.stderr.contains(said), "{served:?}");
    }
}

#[test]
fn descriptors_are_no_warning_where_nobody_set_the_limit() {
    for (settings, says, warns) in [
        ("", "descriptors for 9872 connections; for more", false),
        ("limits.connections = 10001\n", "descriptors for 9872 connections, not the 10001", true),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let upstream = "[[upstreams]]\nname = 'a'\nbase_url = 'http://127.0.0.1:9/v1'\n";
        std::fs::write(directory.path().join("toolmark.toml"), format!("listen = '127.0.0.1:0'\n{settings}{upstream}")).unwrap();
        let program = command(&[], directory.path());
        let mut limited = std::process::Command::new("prlimit");
        limited.args(["--nofile=20000:20000"]).arg(program.get_program()).arg("serve").current_dir(directory.path());
        limited.env("TOOLMARK_ADMIN__LISTEN", "127.0.0.1:0").env_remove("RUST_LOG").stdin(std::process::Stdio::null());
        let mut served = Running::start(limited);
        let line = served.line_with(says);
        assert_eq!(line.to_lowercase().contains("warn"), warns, "{line}");
        served.address();
    }
}
