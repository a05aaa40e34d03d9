//! What the model says it did, checked against the list.

use serde_json::json;
use toolmark::testing::Misbehaviour;

use super::stage::{Stage, TODO, call, say, user};

const BY_TOOL: &str = "[[state]]\nname = \"added\"\nwhen = { tool = \"add_task\" }\nprobe = { mcp = \"todo\", tool = \"list_tasks\" }\n\
                       expect = \"$.tasks[?@.title == '{{title}}']\"\nmessage = \"the list has no such task\"\n";
const BY_PHRASE: &str = "[[state]]\nname = \"said\"\nwhen = { phrase = '(?i)added \"(?<title>[^\"]+)\"' }\nprobe = { mcp = \"todo\", tool = \"list_tasks\" }\n\
                         expect = { type = \"object\", properties = { tasks = { contains = { properties = { title = { const = \"{{title}}\" } } } } } }\n";

fn add() -> super::stage::Line {
    call("todo__add_task", r#"{"title":"milk"}"#)
}

#[test]
fn a_call_whose_effect_the_list_lacks_is_a_mismatch() {
    for (mood, stream, verdict) in [
        (Misbehaviour::Fine, false, "pass"),
        (Misbehaviour::Lies, false, "blocked"),
        (Misbehaviour::Fine, true, "pass"),
        (Misbehaviour::Lies, true, "blocked"),
    ] {
        let stage = Stage::new(BY_TOOL, TODO, vec![add(), say("It is on the list.")]);
        stage.todo.becomes(mood);
        let seen = stage.ask(&[user("Add milk")], stream);
        assert_eq!(seen.verdict, verdict, "{mood:?} {stream}: {seen:?}");
        assert_eq!(seen.text.contains("It is on the list."), verdict == "pass", "{seen:?}");
        assert_eq!(seen.codes.contains("state_mismatch"), verdict == "blocked", "{seen:?}");
        // Asked once for the same claim, however often the model is asked again.
        assert_eq!(stage.todo.ran(), ["add_task", "list_tasks"]);
    }
}

#[test]
fn an_honest_answer_after_a_call_without_effect_passes() {
    let honest = || say("I could not add it.");
    // A call that failed has no effect to look for.
    let stage = Stage::new(BY_TOOL, TODO, vec![add(), honest()]);
    stage.todo.becomes_for(Misbehaviour::Refuses, 1);
    let seen = stage.ask(&[user("Add milk")], false);
    assert_eq!((seen.verdict.as_str(), seen.text.as_str()), ("pass", "I could not add it."), "{seen:?}");
    assert!(stage.todo.ran().is_empty());
    // One that says it succeeded has; the rule says which answers need no look.
    let unless = BY_TOOL.replace("{ tool = \"add_task\" }", "{ tool = \"add_task\", unless = '(?i)could not add' }");
    for (policy, verdict) in [(BY_TOOL, "blocked"), (&unless, "repaired")] {
        let stage = Stage::new(policy, TODO, vec![add(), say("It is on the list."), honest()]);
        stage.todo.becomes(Misbehaviour::Lies);
        let seen = stage.ask(&[user("Add milk")], false);
        assert_eq!(seen.verdict, verdict, "{seen:?}");
        assert_eq!(seen.text == "I could not add it.", verdict == "repaired", "{seen:?}");
    }
}

#[test]
fn a_claim_in_words_is_looked_up_too() {
    for (text, verdict) in [("I added \"tea\".", "blocked"), ("I added \"milk\".", "pass")] {
        let stage = Stage::new(BY_PHRASE, TODO, vec![add(), say(text)]);
        let seen = stage.ask(&[user("Add milk")], false);
        assert_eq!(seen.verdict, verdict, "{text}: {seen:?}");
    }
    let stage = Stage::new(BY_PHRASE, TODO, vec![say("Hello.")]);
    assert_eq!((stage.ask(&[user("Hi")], false).verdict.as_str(), stage.todo.ran().len()), ("pass", 0));
}

#[test]
fn a_model_that_does_what_it_said_is_repaired() {
    let stage = Stage::new(BY_PHRASE, TODO, vec![say("I added \"milk\"."), add(), say("I added \"milk\".")]);
    let seen = stage.ask(&[user("Add milk")], false);
    assert_eq!(
        (seen.verdict.as_str(), seen.text.as_str(), stage.todo.titles()),
        ("repaired", "I added \"milk\".", vec!["milk".to_owned()]),
        "{seen:?}"
    );
}

#[test]
fn what_cannot_be_asked_is_unknown_and_never_passed() {
    let by_writing = BY_PHRASE.replace("list_tasks", "add_task");
    for (policy, code, verdict) in [
        (BY_PHRASE.replace("\"todo\"", "\"gone\""), "state_unknown", "warn"),
        (by_writing.clone(), "state_unknown", "warn"),
        (format!("{by_writing}[checks]\nstate_unknown = \"block\"\n"), "state_unknown", "blocked"),
    ] {
        let stage = Stage::new(&policy, TODO, vec![say("I added \"tea\".")]);
        let seen = stage.ask(&[user("Add tea")], false);
        assert!(seen.codes.contains(code) && seen.verdict == verdict, "{policy}: {seen:?}");
        assert!(stage.todo.ran().is_empty(), "what may write is never a probe");
    }
}

#[test]
fn readiness_and_metrics_show_the_server() {
    let stage = Stage::new("default", TODO, vec![call("todo__delete_task", r#"{"id":1}"#), say("Gone.")]);
    stage.ask(&[user("Delete 1")], false);
    let observed = &stage.fixture.proxy.app().observed;
    let report = serde_json::to_value(observed.readiness.report()).unwrap();
    assert_eq!(report["parts"]["mcp"]["state"], json!("ready"), "{report}");
    let text = observed.exposition.text();
    for line in [
        "toolmark_mcp_up{server=\"todo\"} 1",
        "toolmark_mcp_calls_total{server=\"todo\",tool=\"delete_task\"} 1",
        "toolmark_mcp_errors_total{server=\"todo\",tool=\"delete_task\"} 1",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
}
