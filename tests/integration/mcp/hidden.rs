//! What the application never saw is put back: mixed turns, and rounds behind an answer.

use serde_json::{Value, json};

use super::{
    stage::{Line, Stage, TODO, call, say, turn, user},
    world::{legal, prefixes},
};

#[test]
fn mixed_turns_over_ten_rounds_are_whole_upstream() {
    for stream in [false, true] {
        let mixed = |at: usize| -> Line {
            let title = format!(r#"{{"title":"{at}"}}"#);
            Box::new(move |_| turn("", &[("todo__add_task", &title), ("get_weather", "{}"), ("todo__list_tasks", "{}")]))
        };
        let mut script: Vec<Line> = (0..10).map(mixed).collect();
        script.push(say("All done."));
        let stage = Stage::new("default", TODO, script);
        let mut messages = vec![user("Ten times")];
        for at in 0..10 {
            let seen = stage.ask_with(&messages, &["get_weather"], stream);
            let names: Vec<&str> = seen.calls.iter().map(|call| call.0.as_str()).collect();
            assert_eq!(names, ["get_weather"], "{at}: {seen:?}");
            messages.push(seen.message());
            messages.push(json!({"role": "tool", "tool_call_id": seen.calls[0].2, "content": format!("{{\"day\":{at}}}")}));
        }
        let seen = stage.ask_with(&messages, &["get_weather"], stream);
        assert_eq!((seen.text.as_str(), stage.todo.titles().len()), ("All done.", 10), "{seen:?}");
        let asked = stage.asked();
        assert_eq!(asked.len(), 11);
        for (at, request) in asked.iter().enumerate() {
            legal(&request["messages"]);
            let results = request["messages"].as_array().unwrap().iter().filter(|message| message["role"] == "tool").count();
            assert_eq!(results, at * 3, "{at}");
        }
        prefixes(&asked, "messages");
    }
}

#[test]
fn rounds_behind_an_answer_come_back_with_the_next_question() {
    for stream in [false, true] {
        let first: Line = Box::new(|_| turn("Let me see.", &[("todo__add_task", r#"{"title":"milk"}"#)]));
        let stage = Stage::new("default", TODO, vec![first, say("Done."), call("todo__list_tasks", "{}"), say("Milk."), say("Bye.")]);
        let mut messages = vec![user("Add milk")];
        for question in ["What is there?", "Bye"] {
            messages.push(stage.ask(&messages, stream).message());
            messages.push(user(question));
        }
        stage.ask(&messages, stream);
        let asked = stage.asked();
        let last = &asked[4]["messages"];
        legal(last);
        let roles: Vec<&str> = last.as_array().unwrap().iter().filter_map(|message| message["role"].as_str()).collect();
        let round = ["assistant", "tool", "assistant"];
        let expected: Vec<&str> = ["user"].iter().chain(&round).chain(&["user"]).chain(&round).chain(&["user"]).copied().collect();
        assert_eq!(roles, expected, "{last}");
        let texts: Vec<&Value> =
            last.as_array().unwrap().iter().filter(|own| own["role"] == "assistant").map(|own| &own["content"]).collect();
        assert_eq!(texts, [&json!("Let me see."), &json!("Done."), &Value::Null, &json!("Milk.")]);
        prefixes(&asked, "messages");
    }
}
