//! Tools from an MCP server, run by toolmark: the to-do scenario from the first list to the last answer.

mod again;
mod client;
mod faults;
mod hidden;
mod http;
mod pins;
mod ready;
mod real;
mod responses;
mod restarts;
pub mod stage;
mod state;
mod world;

use serde_json::{Value, json};
use toolmark::testing::{Misbehaviour, TodoServer};

use stage::{Stage, TODO, call, say, user};

const NAMES: [&str; 5] = ["todo__add_task", "todo__list_tasks", "todo__complete_task", "todo__update_task", "todo__delete_task"];

#[test]
fn all_five_tools_reach_the_model_in_every_request() {
    let stage = Stage::new("default", TODO, vec![say("Hello."), say("Hello.")]);
    for stream in [false, true] {
        stage.ask(&[user("Hello")], stream);
    }
    for request in stage.asked() {
        let tools = request["tools"].as_array().unwrap();
        let names: Vec<&str> = tools.iter().filter_map(|tool| tool["function"]["name"].as_str()).collect();
        assert_eq!(names, NAMES);
        assert!(!request.to_string().contains("$schema"), "{request}");
        assert_eq!(tools[0]["function"]["parameters"]["required"], json!(["title"]));
    }
}

#[test]
fn a_call_runs_and_its_result_is_stamped_and_cited() {
    for stream in [false, true] {
        let cite = |messages: &[Value]| {
            let stamped: Value = serde_json::from_str(messages.last().unwrap()["content"].as_str().unwrap()).unwrap();
            assert_eq!(stamped["title"], "Buy milk", "{stamped}");
            say(&format!("I added it (execution_id: {}).", stamped["execution_id"].as_str().unwrap()))(messages)
        };
        let stage = Stage::new("default", TODO, vec![call("todo__add_task", r#"{"title":"Buy milk"}"#), Box::new(cite)]);
        let seen = stage.ask(&[user("Add milk")], stream);
        assert_eq!((seen.text.trim(), seen.verdict.as_str(), seen.calls.len()), ("I added it.", "pass", 0), "{seen:?}");
        assert_eq!((stage.todo.ran(), stage.todo.titles()), (vec!["add_task".to_owned()], vec!["Buy milk".to_owned()]));
        let second = &stage.asked()[1]["messages"];
        let roles: Vec<&str> = second.as_array().unwrap().iter().filter_map(|message| message["role"].as_str()).collect();
        assert_eq!(roles, ["user", "assistant", "tool"], "{second}");
        assert_eq!(second[1]["tool_calls"][0]["id"], second[2]["tool_call_id"]);
    }
}

#[test]
fn calls_of_one_turn_run_and_the_model_is_asked_on_until_it_answers() {
    for stream in [false, true] {
        let both = |_: &[Value]| {
            let calls = [("todo__add_task", r#"{"title":"a"}"#), ("todo__add_task", r#"{"title":"b"}"#)];
            stage::turn("Two at once.", &calls)
        };
        let script: Vec<stage::Line> = vec![Box::new(both), call("todo__list_tasks", "{}"), say("There are two.")];
        let stage = Stage::new("default", TODO, script);
        let seen = stage.ask(&[user("Add a and b")], stream);
        let mut titles = stage.todo.titles();
        titles.sort();
        assert_eq!((titles, stage.asked().len()), (vec!["a".to_owned(), "b".to_owned()], 3));
        // Text between rounds flows where the answer streams.
        let text = if stream { "Two at once.\n\nThere are two." } else { "There are two." };
        assert_eq!(seen.text, text, "{seen:?}");
        let results = stage.asked()[2]["messages"].as_array().unwrap().iter().filter(|message| message["role"] == "tool").count();
        assert_eq!(results, 3);
    }
}

#[test]
fn a_claim_without_a_call_is_blocked_and_with_one_it_passes() {
    let policy = "[[claims]]\nname = \"added\"\npattern = '(?i)added the task'\nrequires = [\"todo__add_task\"]\n";
    let claim = || say("I added the task.");
    let stage = Stage::new(policy, TODO, vec![claim(), claim(), claim()]);
    let seen = stage.ask(&[user("Add milk")], false);
    assert!(seen.verdict == "blocked" && seen.codes.contains("unsupported_claim") && !seen.text.contains("added the task"), "{seen:?}");
    assert!(stage.todo.ran().is_empty());
    let stage = Stage::new(policy, TODO, vec![call("todo__add_task", r#"{"title":"Buy milk"}"#), claim()]);
    let seen = stage.ask(&[user("Add milk")], false);
    assert_eq!((seen.text.as_str(), seen.verdict.as_str()), ("I added the task.", "pass"), "{seen:?}");
}

#[test]
fn an_invalid_call_is_repaired_before_anything_runs() {
    let stage = Stage::new(
        "default",
        TODO,
        vec![call("todo__add_task", r#"{"name":"milk"}"#), call("todo__add_task", r#"{"title":"milk"}"#), say("Done.")],
    );
    let seen = stage.ask(&[user("Add milk")], false);
    assert_eq!((seen.verdict.as_str(), seen.text.as_str(), stage.todo.ran().len()), ("repaired", "Done.", 1), "{seen:?}");
}

#[test]
fn rounds_are_bounded() {
    for stream in [false, true] {
        let script = (0..20).map(|at| call("todo__add_task", &format!(r#"{{"title":"{at}"}}"#))).collect();
        let stage = Stage::new("default", &format!("{TODO}max_rounds = 3\n"), script);
        let seen = stage.ask(&[user("Go on for ever")], stream);
        assert_eq!((stage.todo.ran().len(), stage.asked().len(), seen.verdict.as_str()), (3, 5, "blocked"), "{seen:?}");
        assert!(seen.text.contains("3 rounds") && seen.codes.contains("loop_detected"), "{seen:?}");
    }
}

#[test]
fn only_schemas_are_injected_where_the_application_runs_them() {
    let settings = TODO.replace("execute = \"proxy\"\n", "");
    let stage = Stage::new("default", &settings, vec![call("todo__add_task", r#"{"title":"milk"}"#)]);
    let seen = stage.ask(&[user("Add milk")], true);
    assert_eq!((seen.calls.len(), seen.calls[0].0.as_str(), stage.todo.ran().len()), (1, "todo__add_task", 0), "{seen:?}");
}

#[test]
fn nothing_changes_and_nothing_runs_in_observe_mode() {
    let stage = Stage::new("observe", TODO, vec![call("todo__add_task", r#"{"title":"milk"}"#)]);
    let seen = stage.ask(&[user("Add milk")], false);
    assert_eq!((seen.calls.len(), stage.todo.ran().len(), stage.asked()[0]["tools"].is_null()), (1, 0, true), "{seen:?}");
}

#[test]
fn a_server_is_called_by_name_and_reports_its_own_errors() {
    let stage = Stage::new("default", TODO, vec![call("todo__delete_task", r#"{"id":7}"#), say("There is no such task.")]);
    let seen = stage.ask(&[user("Delete 7")], false);
    let result = stage.result(1);
    assert!(result.contains("Error: no task has the id 7"), "{result}");
    assert!(seen.codes.contains("failed_result") && seen.verdict == "pass", "{seen:?}");
    let todo = TodoServer::start().unwrap();
    todo.becomes(Misbehaviour::Down);
    assert!(todo.ran().is_empty());
}

#[test]
fn the_example_says_all_settings() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/mcp.toml");
    let environment = toolmark::settings::Environment::of(&[("TODO_TOKEN", "x")]);
    let flags = toolmark::settings::Flags { config: Some(path), ..Default::default() };
    let directory = tempfile::tempdir().unwrap();
    let server = toolmark::settings::load(&flags, &environment, directory.path()).unwrap().mcp.remove(0);
    assert_eq!(server.idempotent.selects("complete_task"), Some(true));
    assert_eq!((server.tools.selects("add_task"), server.tools.selects("drop_table")), (Some(true), Some(false)));
}
