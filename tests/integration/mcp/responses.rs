//! Tools that toolmark runs on the Responses API: the same rounds by the same code.

use serde_json::{Value, json};
use toolmark::testing::{Misbehaviour, Proxy};

use super::world::World;
use crate::{
    clients::{model::Turn, responses_model::strict},
    harness::{Answer, post},
    responses_folded::{consistent, events},
};

/// What the model does, seeing the conversation.
type Script = fn(&Value, &[Value]) -> Turn;

struct Stage {
    world: World,
    proxy: Proxy,
}

struct Seen {
    response: Value,
    text: String,
    verdict: String,
    raw: String,
}

impl Stage {
    fn new(script: Script, more: &str) -> Self {
        let world = World::with(strict(script));
        let proxy = world.proxy_with(&format!("{more}[ledger]\nurl = \"memory:\"\n"));
        Self { world, proxy }
    }

    fn ask(&self, mut request: Value, stream: bool) -> Seen {
        request["stream"] = stream.into();
        request["model"] = if request["model"].is_null() { "gpt-4o".into() } else { request["model"].clone() };
        let answer: Answer = post(&format!("{}/responses", self.proxy.base_url()), &request.to_string(), "Bearer test");
        assert_eq!(answer.status, 200, "{}", answer.body);
        let (response, verdict) = if stream {
            let events = events(&answer.body);
            consistent(&events).unwrap_or_else(|error| panic!("{error}: {}", answer.body));
            let said: String = answer.body.lines().filter_map(|line| line.strip_prefix(": toolmark ")).collect();
            let said: Value = serde_json::from_str(&said).unwrap();
            (events.last().unwrap()["response"].clone(), said["verdict"].as_str().unwrap().to_owned())
        } else {
            (answer.json(), answer.header("toolmark-verdict").to_owned())
        };
        let items = response["output"].as_array().cloned().unwrap_or_default();
        let parts = items.iter().flat_map(|item| item["content"].as_array().cloned().unwrap_or_default());
        let text = parts.filter_map(|part| part["text"].as_str().map(str::to_owned)).collect();
        Seen { response, text, verdict, raw: answer.body }
    }

    /// The last result that the model got in the request of this number.
    fn result(&self, number: usize) -> String {
        let asked = self.world.asked();
        let last = asked[number]["input"].as_array().and_then(|items| items.last()).cloned().unwrap_or_default();
        assert_eq!(last["type"], "function_call_output", "{last}");
        last["output"].as_str().unwrap_or_default().to_owned()
    }
}

fn last_result(messages: &[Value]) -> Option<Value> {
    let last = messages.last().filter(|message| message["role"] == "tool")?;
    Some(serde_json::from_str(last["content"].as_str()?).unwrap_or_else(|_| last["content"].clone()))
}

/// Adds milk, then cites what came of it.
fn add_and_cite(_: &Value, messages: &[Value]) -> Turn {
    match last_result(messages) {
        Some(result) => Turn::Say(format!("I added it (execution_id: {}).", result["execution_id"].as_str().unwrap_or("none"))),
        None => Turn::Call("Let me add it.", vec![("todo__add_task", r#"{"title":"milk"}"#)]),
    }
}

#[test]
fn a_call_runs_and_its_result_is_stamped_and_cited() {
    for stream in [false, true] {
        for more in [
            json!({}),
            json!({"store": false}),
            json!({"model": "o1", "store": false}),
            json!({"model": "o1"}),
            json!({"conversation": "conv_1"}),
        ] {
            let stage = Stage::new(add_and_cite, "");
            let mut request = more.clone();
            request["input"] = "Add milk".into();
            let seen = stage.ask(request, stream);
            // Text between rounds flows where the answer streams.
            let text = if stream { "Let me add it.\n\nI added it." } else { "I added it." };
            assert_eq!((seen.text.as_str(), seen.verdict.as_str()), (text, "pass"), "{more}: {}", seen.raw);
            assert!(
                !seen.raw.contains("todo__add_task\",\"arguments") && !seen.raw.contains("function_call_arguments"),
                "{more}: {}",
                seen.raw
            );
            assert_eq!((stage.world.todo.ran(), stage.world.todo.titles()), (vec!["add_task".to_owned()], vec!["milk".to_owned()]));
            let asked = stage.world.asked();
            assert_eq!(asked.len(), 2);
            let tools = asked[0]["tools"].as_array().unwrap();
            assert!(tools.len() == 5 && tools.iter().all(|tool| tool["name"].is_string() && tool["strict"].is_boolean()), "{tools:?}");
            assert!(stage.result(1).contains("execution_id") && seen.response["usage"]["total_tokens"] == 30, "{}", seen.raw);
            let record = stage.proxy.store().recent(0, 1).unwrap().pop();
            if let Some(record) = record {
                let json = serde_json::to_string(&*record).unwrap();
                assert!(json.contains("\"proxy\""), "witness: {json}");
            }
        }
    }
}

#[test]
fn the_conversation_goes_on_from_the_last_response() {
    fn script(_: &Value, messages: &[Value]) -> Turn {
        let users = messages.iter().filter(|message| message["role"] == "user").count();
        match (users, messages.last().map(|message| message["role"] == "tool")) {
            (_, Some(true)) => Turn::Say("Done.".into()),
            (1, _) => Turn::Call("", vec![("todo__add_task", r#"{"title":"milk"}"#)]),
            _ => Turn::Say(format!("There were {} results.", messages.iter().filter(|message| message["role"] == "tool").count())),
        }
    }
    for stream in [false, true] {
        let stage = Stage::new(script, "");
        let first = stage.ask(json!({"input": "Add milk"}), stream);
        let second = stage.ask(json!({"input": "And?", "previous_response_id": first.response["id"]}), stream);
        assert_eq!(second.text, "There were 1 results.", "{}", second.raw);
        assert_eq!(stage.world.todo.ran().len(), 1);
    }
}

#[test]
fn an_invalid_call_is_repaired_before_anything_runs_and_rounds_are_bounded() {
    fn mends(_: &Value, messages: &[Value]) -> Turn {
        let said = messages.last().and_then(|message| message["content"].as_str()).unwrap_or_default();
        match messages.last().filter(|message| message["role"] == "tool") {
            Some(_) if said.starts_with("Tool call rejected") => Turn::Call("", vec![("todo__add_task", r#"{"title":"milk"}"#)]),
            Some(_) => Turn::Say("Done.".into()),
            None => Turn::Call("", vec![("todo__add_task", r#"{"name":"milk"}"#)]),
        }
    }
    fn never_ends(_: &Value, messages: &[Value]) -> Turn {
        const TITLES: [&str; 4] = [r#"{"title":"a"}"#, r#"{"title":"b"}"#, r#"{"title":"c"}"#, r#"{"title":"d"}"#];
        Turn::Call("", vec![("todo__add_task", TITLES[messages.len() % 4])])
    }
    for stream in [false, true] {
        let stage = Stage::new(mends, "");
        let seen = stage.ask(json!({"input": "Add milk"}), stream);
        assert_eq!((seen.verdict.as_str(), seen.text.as_str(), stage.world.todo.ran().len()), ("repaired", "Done.", 1), "{}", seen.raw);
        let stage = Stage::new(never_ends, "max_rounds = 3\n");
        let seen = stage.ask(json!({"input": "Go on for ever"}), stream);
        assert_eq!((stage.world.todo.ran().len(), stage.world.asked().len(), seen.verdict.as_str()), (3, 5, "blocked"), "{}", seen.raw);
        assert!(seen.text.contains("3 rounds"), "{}", seen.raw);
    }
}

#[test]
fn what_may_have_run_is_said_and_a_demanded_call_is_demanded_once() {
    fn script(_: &Value, messages: &[Value]) -> Turn {
        match messages.last().filter(|message| message["role"] == "tool") {
            Some(_) => Turn::Say("So it is.".into()),
            None => Turn::Call("", vec![("todo__add_task", r#"{"title":"milk"}"#)]),
        }
    }
    for stream in [false, true] {
        let stage = Stage::new(script, "");
        stage.world.todo.becomes_for(Misbehaviour::DiesInMidCall, 1);
        let choice = json!({"type": "function", "name": "todo__add_task"});
        let seen = stage.ask(json!({"input": [{"role": "user", "content": "Add milk"}], "tool_choice": choice}), stream);
        assert!(seen.text == "So it is." && stage.result(1).contains("UNKNOWN"), "{}: {}", seen.raw, stage.result(1));
        let asked = stage.world.asked();
        assert_eq!((&asked[0]["tool_choice"], &asked[1]["tool_choice"]), (&choice, &json!("auto")));
    }
}

/// What was done is looked up on this API as on the others.
#[test]
fn what_a_call_did_is_looked_up() {
    const STATE: &str = "[[state]]\nname = \"added\"\nwhen = { tool = \"add_task\" }\nprobe = { mcp = \"todo\", tool = \"list_tasks\" }\n\
                         expect = \"$.tasks[?@.title == '{{title}}']\"\nmessage = \"the list has no such task\"\n";
    for (stream, (mood, verdict)) in [false, true]
        .into_iter()
        .flat_map(|stream| [(Misbehaviour::Fine, "pass"), (Misbehaviour::Lies, "blocked")].map(|own| (stream, own)))
    {
        let world = World::with(strict(add_and_cite));
        world.todo.becomes(mood);
        std::fs::write(world.directory().join("state.toml"), STATE).unwrap();
        let settings = format!("policy = \"state.toml\"\n{}", world.settings(""));
        let proxy = Proxy::start(&settings, &[], world.directory()).unwrap();
        let stage = Stage { world, proxy };
        let seen = stage.ask(json!({"input": "Add milk"}), stream);
        assert_eq!((seen.verdict.as_str(), seen.text.contains("I added it.")), (verdict, verdict == "pass"), "{}", seen.raw);
    }
}
