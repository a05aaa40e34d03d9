//! Servers of others, from npm and PyPI and by the official Python SDK: stdio and HTTP, the old protocol and the new.

use std::{net::TcpListener, path::Path, process::Command, sync::Arc};

use toolmark::{
    mcp::{Mcp, outcome::ToolOutcome, runner::ToolCallRequest, sdk::RmcpConnector},
    settings::{self, Environment, Flags},
};

use super::{
    faults::until,
    stage::{Stage, TODO, call, turn},
};
use crate::clients::runtimes;

const NEW: &str = "2026-07-28";
const OLD: &str = "2025-11-25";

/// Connected with these settings, and one secret in the environment.
fn connected(toml: &str) -> Arc<Mcp> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("toolmark.toml");
    let upstream = "[[upstreams]]\nname = 'a'\nbase_url = 'http://a/v1'\n[ledger]\nurl = 'memory:'\n";
    std::fs::write(&file, format!("{upstream}[[mcp]]\nname = 's'\nexecute = 'proxy'\n{toml}")).unwrap();
    let flags = Flags { config: Some(file), ..Flags::default() };
    let path = std::env::var("PATH").unwrap();
    let environment = Environment::of(&[("PATH", &path), ("HOME", "/tmp"), ("SECRET_KEY", "s"), ("NAMED", "x")]);
    let settings = settings::load(&flags, &environment, directory.path()).unwrap();
    Arc::new(Mcp::connect(settings.mcp, directory.path().join("pins.json"), Arc::new(RmcpConnector)).unwrap())
}

fn command(words: &[&Path], rest: &str) -> String {
    let words: Vec<String> = words.iter().map(|word| format!("'{}'", word.display())).collect();
    format!("command = [{}]\n{rest}", words.join(", "))
}

fn run(mcp: &Arc<Mcp>, tool: &str, arguments: &str) -> ToolOutcome {
    // A server is up a moment before its tools are offered.
    until(|| mcp.catalog().1.tool(tool).is_some());
    let catalog = mcp.catalog();
    let tool = catalog.1.tool(tool).unwrap_or_else(|| panic!("no {tool}: {:?}", mcp.health())).clone();
    let mark = format!("{:?}", std::time::Instant::now()).into();
    crate::harness::run(mcp.run(ToolCallRequest { mark, tool, arguments: arguments.to_owned() }))
}

fn speaks(mcp: &Mcp, version: &str) {
    assert_eq!(mcp.health()[0].version.as_deref(), Some(version), "{:?}", mcp.health());
}

fn is_up(mcp: &Mcp) -> bool {
    mcp.health()[0].down.is_none()
}

#[test]
fn the_python_sdk_over_stdio() {
    if runtimes::skipped("mcp::real::the_python_sdk_over_stdio") {
        return;
    }
    let script = runtimes::repository("tests/clients/mcp_todo.py");
    let mcp = connected(&command(&[&runtimes::python(), &script], "env = ['NAMED']\n"));
    speaks(&mcp, NEW);
    let added = run(&mcp, "s__add_task", r#"{"title":"milk"}"#);
    assert!(!added.failed && added.text.contains("milk"), "{added:?}");
    let listed = run(&mcp, "s__list_tasks", "{}");
    assert!(listed.text.contains("NAMED") && !listed.text.contains("SECRET_KEY"), "its environment is cleared: {listed:?}");
    let failed = run(&mcp, "s__fail", "{}");
    assert!(failed.failed && failed.text.starts_with("Error"), "{failed:?}");
    assert!(mcp.catalog().1.tool("s__later").is_none());
    assert!(!run(&mcp, "s__grow", "{}").failed);
    until(|| mcp.catalog().1.tool("s__later").is_some());
    // It dies in mid-call: that is said, it isn't called again, and it is started anew.
    let died = run(&mcp, "s__add_task", r#"{"title":"die"}"#);
    assert!(died.failed && died.text.contains("UNKNOWN"), "{died:?}");
    until(|| is_up(&mcp) && !run(&mcp, "s__list_tasks", "{}").failed);
    assert!(!run(&mcp, "s__list_tasks", "{}").text.contains("milk"), "another process");
}

/// Ends with it.
struct Child(std::process::Child);

impl Drop for Child {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn the_python_sdk_over_http() {
    if runtimes::skipped("mcp::real::the_python_sdk_over_http") {
        return;
    }
    let (script, port) = (runtimes::repository("tests/clients/mcp_todo.py"), free_port());
    let start = || {
        let mut command = Command::new(runtimes::python());
        command.arg(&script).arg(port.to_string()).stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        Child(command.spawn().unwrap())
    };
    let child = start();
    let mcp = connected(&format!("url = 'http://127.0.0.1:{port}/mcp'\nretries = 0\n"));
    until(|| is_up(&mcp));
    speaks(&mcp, NEW);
    assert!(run(&mcp, "s__add_task", r#"{"title":"milk"}"#).text.contains("milk"));
    let died = run(&mcp, "s__add_task", r#"{"title":"die"}"#);
    assert!(died.failed && died.text.contains("UNKNOWN"), "{died:?}");
    until(|| !is_up(&mcp));
    drop(child);
    let _again = start();
    until(|| is_up(&mcp));
    assert!(!run(&mcp, "s__list_tasks", "{}").failed);
}

#[test]
fn everything_of_npm_over_stdio_and_http() {
    if runtimes::skipped("mcp::real::everything_of_npm_over_stdio_and_http") {
        return;
    }
    let script = runtimes::node_modules().join("@modelcontextprotocol/server-everything/dist/index.js");
    let port = free_port();
    let mut serving = Command::new("node");
    serving.arg(&script).arg("streamableHttp").env("PORT", port.to_string());
    let _child = Child(serving.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap());
    for how in [command(&[Path::new("node"), &script], ""), format!("url = 'http://127.0.0.1:{port}/mcp'\n")] {
        let mcp = connected(&format!("{how}timeout = '2s'\n"));
        until(|| is_up(&mcp));
        speaks(&mcp, OLD);
        let sum = run(&mcp, "s__get-sum", r#"{"a":2,"b":3}"#);
        assert!(!sum.failed && sum.text.contains('5'), "{sum:?}");
        let wrong = run(&mcp, "s__get-sum", r#"{"a":"two"}"#);
        assert!(wrong.failed, "{wrong:?}");
        let long = run(&mcp, "s__trigger-long-running-operation", r#"{"duration":60,"steps":2}"#);
        assert!(long.failed && long.text.contains("2s"), "{long:?}");
    }
}

#[test]
fn the_time_of_pypi() {
    if runtimes::skipped("mcp::real::the_time_of_pypi") {
        return;
    }
    let server = runtimes::python().with_file_name("python");
    let mcp = connected(&format!("command = ['{}', '-m', 'mcp_server_time']\n", server.display()));
    let time = run(&mcp, "s__get_current_time", r#"{"timezone":"Europe/Paris"}"#);
    assert!(!time.failed && time.text.contains("Europe/Paris"), "{time:?}");
    let nowhere = run(&mcp, "s__get_current_time", r#"{"timezone":"No/Where"}"#);
    assert!(nowhere.failed && nowhere.text.starts_with("Error"), "{nowhere:?}");
}

#[test]
fn the_to_do_scenario_with_the_openai_client() {
    if runtimes::skipped("mcp::real::the_to_do_scenario_with_the_openai_client") {
        return;
    }
    let cite = |messages: &[serde_json::Value]| {
        let result: serde_json::Value = serde_json::from_str(messages.last().unwrap()["content"].as_str().unwrap()).unwrap();
        let (title, id) = (result["title"].as_str().unwrap().to_owned(), result["execution_id"].as_str().unwrap().to_owned());
        turn(&format!("{title} is on the list (execution_id: {id})."), &[])
    };
    let add = |title: &str| call("todo__add_task", &format!(r#"{{"title":"{title}"}}"#));
    let stage = Stage::new("default", TODO, vec![add("milk"), Box::new(cite), add("tea"), Box::new(cite)]);
    let url = stage.fixture.proxy.base_url();
    let printed =
        runtimes::run_python(&runtimes::repository("tests/clients/mcp_openai.py"), &[("DEFAULT_URL", &url), ("OPENAI_API_KEY", "sk-test")]);
    let expected = serde_json::json!({"whole": {"text": "milk is on the list.", "calls": 0, "verdict": "pass"},
        "streamed": {"text": "tea is on the list.", "calls": 0}});
    assert_eq!(serde_json::from_str::<serde_json::Value>(&printed).unwrap(), expected);
    assert_eq!(stage.todo.titles(), ["milk", "tea"]);
    // The second question's history has the first one's round.
    let roles: Vec<String> =
        stage.asked()[2]["messages"].as_array().unwrap().iter().map(|message| message["role"].as_str().unwrap().to_owned()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "assistant", "user"]);
}
