//! The command line as people meet it: words, exit codes, and what to do next.

use std::path::Path;

use toolmark::testing::{Received, ScriptedReply, ScriptedUpstream};

use crate::{
    process::Process,
    program::{command, finish},
};

fn write(directory: &Path, name: &str, text: &str) {
    let path = directory.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

const UPSTREAM: &str = "[[upstreams]]\nname = 'main'\nbase_url = 'http://127.0.0.1:9/v1'\n";

/// Runs a command; its exit code, and words that its output must have.
fn check(directory: &Path, arguments: &str, code: i32, words: &[&str]) -> String {
    let arguments: Vec<&str> = arguments.split(' ').collect();
    let finished = finish(&arguments, directory);
    let text = format!("{}{}", finished.stdout, finished.stderr);
    assert_eq!(finished.code, Some(code), "{arguments:?}: {text}");
    for word in words {
        assert!(text.contains(word), "{arguments:?}: {word:?} isn't in:\n{text}");
    }
    text
}

#[test]
fn help_and_version() {
    let directory = tempfile::tempdir().unwrap();
    check(directory.path(), "--version", 0, &["toolmark 0."]);
    check(directory.path(), "--help", 0, &["serve", "demo", "check", "judge", "EXAMPLE", "Exit codes"]);
    for name in ["serve", "demo", "check", "judge", "health"] {
        check(directory.path(), &format!("{name} --help"), 0, &["EXAMPLE", &format!("toolmark {name}")]);
    }
    check(directory.path(), "sevre", 2, &["serve"]);
    check(directory.path(), "serve --lisen x", 2, &["--listen"]);
}

#[test]
fn commands_without_what_they_need() {
    let directory = tempfile::tempdir().unwrap();
    check(directory.path(), "stats", 2, &["there is no file toolmark.db", "has `toolmark serve` run"]);
    check(directory.path(), "replay a.jsonl", 2, &["the cassette a.jsonl can't be read"]);
    check(directory.path(), "import har a.har -o c.jsonl", 2, &["the file a.har can't be read"]);
    check(directory.path(), "serve --replay c.jsonl", 2, &["the cassette", "c.jsonl can't be read"]);
}

#[test]
fn a_policy_can_be_checked_by_itself() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    write(directory, "own.toml", "[tools]\nexpect = [\"add_task\"]\n");
    let words = [
        "only the policy is checked",
        "a request without them is answered 400: add_task",
        "claim_mismatch (if certain",
        "The policy is well.",
    ];
    check(directory, "check --policy own.toml", 0, &words);
    check(directory, "check --policy own.toml --upstream http://127.0.0.1:9/v1", 0, &["dashboard, /readyz", "All is well."]);
    check(directory, "check", 2, &["no upstream"]);
    check(directory, "serve --upstream localhost:11434", 2, &["put http:// or https:// in front of it"]);
    write(directory, "own.toml", "[checks]\nunknwn_tool = \"warn\"\n");
    check(directory, "check --policy own.toml", 2, &["own.toml:2", "unknown_tool"]);
}

#[test]
fn settings_that_are_wrong_say_where() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    check(directory, "serve", 2, &["no upstream", "toolmark serve --upstream"]);
    check(directory, "serve --config nowhere.toml", 2, &["nowhere.toml", "can't be read"]);
    check(directory, "check --config nowhere.toml", 2, &["nowhere.toml"]);
    check(directory, "serve --upstream http://127.0.0.1:9/v1 --policy nowhere.toml", 2, &["nowhere.toml"]);
    write(directory, "toolmark.toml", &format!("lisen = '127.0.0.1:0'\n{UPSTREAM}"));
    for name in ["check", "serve"] {
        check(directory, name, 2, &["toolmark.toml:1", "lisen", "`listen`"]);
    }
    write(directory, "toolmark.toml", &format!("{UPSTREAM}[limits]\nrequest_bytes = 'many'\n"));
    check(directory, "check", 2, &["toolmark.toml:5", "request_bytes"]);
    let finished = command(&["check"], directory).env("TOOLMARK_LIMITS__CONECTIONS", "5").output().unwrap();
    assert_eq!(finished.status.code(), Some(2));
}

#[test]
fn a_port_in_use_says_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    check(
        directory.path(),
        &format!("serve --upstream http://127.0.0.1:9/v1 --listen {address}"),
        2,
        &[&address, "another process listens there", "--listen"],
    );
}

#[test]
fn health_asks_a_running_toolmark() {
    let upstream = ScriptedUpstream::start(|_: &Received| ScriptedReply::json(200, "{}")).unwrap();
    let running = Process::start(&upstream, "", None);
    let directory = tempfile::tempdir().unwrap();
    let address = running.address();
    // The settings aren't there: the address alone is enough.
    check(directory.path(), &format!("health --listen {address}"), 0, &["answers"]);
    write(
        directory.path(),
        "toolmark.toml",
        &format!("listen = \"{address}\"\n[[upstreams]]\nname = \"a\"\nbase_url = \"{}\"", upstream.base_url()),
    );
    check(directory.path(), "health", 0, &["answers"]);
    // Upstreams that `serve` was given by a flag, or whose key isn't here.
    write(directory.path(), "toolmark.toml", &format!("listen = \"{address}\""));
    check(directory.path(), "health", 0, &["answers"]);
    write(directory.path(), "toolmark.toml", &format!("listen = \"{address}\"\n{UPSTREAM}api_key_env = 'NO_SUCH_KEY_HERE'\n"));
    check(directory.path(), "health", 0, &["answers"]);
    running.stop();
    check(directory.path(), "health", 1, &["doesn't answer"]);
    check(directory.path(), "health --listen here", 2, &["--listen"]);
}

#[test]
fn no_open_relay() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), "toolmark.toml", &format!("listen = '0.0.0.0:0'\n{UPSTREAM}api_key_env = 'MAIN_KEY'\n"));
    let finished = command(&["serve"], directory.path()).env("MAIN_KEY", "sk-very-secret").output().unwrap();
    let text = String::from_utf8_lossy(&finished.stderr).into_owned();
    assert_eq!(finished.status.code(), Some(2), "{text}");
    assert!(
        text.contains("can be reached from other machines") && text.contains("[[clients]]") && !text.contains("sk-very-secret"),
        "{text}"
    );
}

#[test]
fn check_explains_or_says_which_tool_is_wrong() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    write(directory, "toolmark.toml", &format!("policy = 'policies/mine.toml'\n{UPSTREAM}"));
    write(directory, "policies/mine.toml", "[tools]\nfiles = ['../tools/*.json']\n");
    let tool = |name: &str, parameters: &str| format!(r#"{{"type":"function","function":{{"name":"{name}","parameters":{parameters}}}}}"#);
    let good = tool("get_weather", r#"{"type":"object","properties":{"city":{"type":"string"}}}"#);
    write(directory, "tools/good.json", &format!("[{good}]"));
    check(directory, "check", 0, &["All is well", "get_weather", "main: http://127.0.0.1:9/v1"]);
    write(directory, "translated.toml", &format!("{UPSTREAM}responses = 'translate'\n"));
    check(directory, "check --config translated.toml", 0, &["Responses API translated"]);
    let messages = "[[upstreams]]\nname = 'claude'\nbase_url = 'https://api.anthropic.com/v1'\napi_key_env = 'PATH'\nchat = 'translate'\nresponses = 'translate'\n\
                    [[upstreams]]\nname = 'fast'\nbase_url = 'https://api.cerebras.ai/v1'\nmessages = 'translate'\nmodels = ['llama*']\n";
    write(directory, "messages.toml", messages);
    let words = [
        "claude: https://api.anthropic.com/v1, key from PATH, sent in x-api-key, all models, Responses API translated, chat completions translated, preset anthropic",
        "models llama*, Responses API translated, Messages API translated",
    ];
    check(directory, "check --config messages.toml", 0, &words);
    write(directory, "messages.toml", &messages.replace("messages = 'translate'", "messages = 'translat'"));
    check(directory, "check --config messages.toml", 2, &["messages.toml:10", "translate"]);
    for (parameters, why) in [
        (r#"{"type":"objekt"}"#, "isn't valid"),
        (r##"{"type":"object","properties":{"a":{"$ref":"https://example.org/a.json"}}}"##, "isn't valid"),
        (r#"{"type":"object","properties":{"a":{"type":"string","pattern":"("}}}"#, "isn't valid"),
    ] {
        write(directory, "tools/bad.json", &format!("[{good},{}]", tool("send_mail", parameters)).replace("get_weather", "other"));
        check(directory, "check", 2, &["bad.json", "tool `send_mail`", why]);
    }
}

const REQUEST: &str = r#"{"model":"m","messages":[{"role":"user","content":"How fast is my line?"}],
    "tools":[{"type":"function","function":{"name":"run_speed_test","parameters":{"type":"object","properties":{}}}}]}"#;

fn answer(message: &str) -> String {
    format!(
        r#"{{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{{"index":0,"message":{message},"finish_reason":"stop"}}]}}"#
    )
}

fn call(name: &str) -> String {
    answer(&format!(
        r#"{{"role":"assistant","content":null,"tool_calls":[{{"id":"a","type":"function","function":{{"name":"{name}","arguments":"{{}}"}}}}]}}"#
    ))
}

#[test]
fn judge_reports_calls_and_claims() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    write(directory, "request.json", REQUEST);
    let judge = "judge --request request.json --response response.json";
    let text = |text: &str| answer(&format!(r#"{{"role":"assistant","content":"{text}"}}"#));
    let forged = text("It is fast (execution_id: run_speed_test_1763000000000_0123456789abcdef).");
    let claim = text("{'tool_name': 'run_speed_test', 'download': 125}");
    for (response, code, words) in [
        (call("run_speed_test"), 0, &["✅ call run_speed_test({})", "pass: nothing to object to"][..]),
        (call("run_sped_test"), 1, &["❌ call run_sped_test", "[unknown_tool]", "did you mean", "blocked: unknown_tool"]),
        (text("I can't tell."), 0, &["✅ text", "pass"]),
        (forged.clone(), 1, &["❌ [unknown_execution]", "never make one up", "blocked"]),
        (claim, 1, &["❌ [missing_execution_id]", "run_speed_test"]),
    ] {
        write(directory, "response.json", &response);
        check(directory, judge, code, words);
    }
    check(directory, &format!("{judge} --policy observe"), 0, &["✅ text"][..0]);
    write(directory, "response.json", &forged);
    check(directory, &format!("{judge} --policy observe"), 0, &["[unknown_execution]", "observes"]);
    assert!(!directory.join("toolmark.key").exists(), "judging makes no key");
}

#[test]
fn judge_reads_streams() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    write(directory, "request.json", REQUEST);
    let chunk = |delta: &str, finish: &str| {
        format!(
            "data: {{\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{finish}}}]}}\n\n"
        )
    };
    let call = |name: &str| {
        chunk(
            &format!(
                r#"{{"role":"assistant","tool_calls":[{{"index":0,"id":"a","type":"function","function":{{"name":"{name}","arguments":"{{}}"}}}}]}}"#
            ),
            "null",
        )
    };
    let end = format!("{}data: [DONE]\n\n", chunk("{}", "\"tool_calls\""));
    for (events, code, words) in [
        (format!("{}{end}", call("run_speed_test")), 0, &["✅ call run_speed_test", "pass"][..]),
        (format!("{}{end}", call("made_up")), 1, &["❌ call made_up", "[unknown_tool]"]),
        (call("run_speed_test"), 1, &["❌ the upstream's stream ended before the answer did", "upstream_protocol"]),
    ] {
        write(directory, "stream.sse", &events);
        check(directory, "judge --request request.json --response stream.sse", code, words);
    }
}

#[test]
fn judge_says_what_it_could_not_judge() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let id = "run_speed_test_1763000000000_0123456789abcdef";
    let history = format!(
        r#"{{"model":"m","messages":[{{"role":"user","content":"x"}},
        {{"role":"assistant","content":null,"tool_calls":[{{"id":"call_01234567890123456789012345678901","type":"function","function":{{"name":"run_speed_test","arguments":"{{}}"}}}}]}},
        {{"role":"tool","tool_call_id":"call_01234567890123456789012345678901","content":"{{\"execution_id\":\"{id}\",\"download\":92}}"}}],
        "tools":[{{"type":"function","function":{{"name":"run_speed_test","parameters":{{"type":"object","properties":{{}}}}}}}}]}}"#
    );
    write(directory, "request.json", &history);
    write(directory, "response.json", &answer(&format!(r#"{{"role":"assistant","content":"92 Mbit/s (execution_id: {id})."}}"#)));
    let judge = "judge --request request.json --response response.json";
    let text = check(directory, judge, 0, &["not_judged: there is no key", "[not_judged]", "can't be told without the key"]);
    assert!(!text.contains("✅ citation"), "not judged is no pass: {text}");
    let finished = command(&judge.split(' ').collect::<Vec<_>>(), directory).env("TOOLMARK_KEY", "7".repeat(64)).output().unwrap();
    let text = String::from_utf8_lossy(&finished.stdout).into_owned();
    assert_eq!(finished.status.code(), Some(1), "with a key it is judged: {text}");
    assert!(text.contains("❌ [unknown_execution]"), "{text}");
}

#[test]
fn judge_refuses_files_that_are_not_what_they_should_be() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    write(directory, "request.json", REQUEST);
    write(directory, "response.json", &call("run_speed_test"));
    write(directory, "broken.json", "{\"a\":");
    write(directory, "empty.json", "\n");
    write(directory, "error.json", r#"{"error":{"message":"no","type":"server_error"}}"#);
    for (request, response, words) in [
        ("nowhere.json", "response.json", &["request file nowhere.json", "can't be read"][..]),
        ("request.json", "nowhere.json", &["response file nowhere.json"]),
        ("broken.json", "response.json", &["broken.json", "chat/completions"]),
        ("response.json", "response.json", &["`messages` is missing"]),
        ("request.json", "broken.json", &["broken.json", "as JSON, or the events of a stream"]),
        ("request.json", "request.json", &["it has no `choices`"]),
        ("request.json", "empty.json", &["is empty"]),
        ("request.json", "error.json", &["nothing to judge"]),
    ] {
        check(directory, &format!("judge --request {request} --response {response}"), 2, words);
    }
}

#[test]
fn judge_reads_the_responses_api_too() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let tools = r#"[{"type":"function","name":"run_speed_test","parameters":{"type":"object","properties":{}}}]"#;
    write(directory, "request.json", &format!(r#"{{"model":"m","input":"How fast am I?","tools":{tools}}}"#));
    let call = |name: &str| format!(r#"{{"type":"function_call","id":"fc_1","call_id":"call_1","name":"{name}","arguments":"{{}}"}}"#);
    let response = |name: &str| format!(r#"{{"id":"resp_1","object":"response","status":"completed","output":[{}]}}"#, call(name));
    let stream =
        |name: &str| format!("event: response.completed\ndata: {{\"type\":\"response.completed\",\"response\":{}}}\n\n", response(name));
    for (name, body, code, words) in [
        ("good.json", response("run_speed_test"), 0, "✅"),
        ("bad.json", response("run_speed_tests"), 1, "[unknown_tool]"),
        ("good.txt", stream("run_speed_test"), 0, "✅"),
        ("bad.txt", stream("run_speed_tests"), 1, "[unknown_tool]"),
    ] {
        write(directory, name, &body);
        check(directory, &format!("judge --request request.json --response {name}"), code, &[words]);
    }
}
