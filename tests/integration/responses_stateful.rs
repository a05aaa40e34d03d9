//! Conversations that the upstream keeps: what toolmark knows of them, and what it says where it can't know.

mod policies;
mod repaired;
mod stage;

use serde_json::{Value, json};

use self::stage::{Stage, WAYS, execution, output};
use crate::clients::model::FORGED;

#[test]
fn a_result_of_an_earlier_responses_call_is_verified() {
    for stream in WAYS {
        let stage = Stage::new("default");
        let (first, second, execution) = stage.weather(stream, &json!({}));
        first.judged("pass", &[]);
        assert_eq!(second.judged("pass", &[]).text(), "It is 18 degrees in Paris.");
        let sent = stage.last_sent();
        assert!(first.call()["call_id"].as_str().unwrap().starts_with(sent["input"][0]["call_id"].as_str().unwrap()));
        assert_eq!(sent["input"][0]["call_id"].as_str().unwrap().len(), 29, "{sent}");
        let say = format!("Still 18 (execution_id: {execution}).");
        let third = stage.ask(stream, json!({"input": "And now?", "previous_response_id": second.id(), "metadata": {"say": say}}));
        assert_eq!(third.judged("pass", &[]).text(), "Still 18.");
        // Of a response that was made before the result was there, it isn't part.
        let aside = json!({"input": [output(&first.call()["call_id"])], "previous_response_id": first.id(), "metadata": {"say": say}});
        stage.ask(stream, aside).judged("pass", &[]);
    }
}

#[test]
fn a_conversation_is_remembered_too() {
    for (stream, conversation) in WAYS.into_iter().flat_map(|stream| [(stream, json!("conv_1")), (stream, json!({"id": "conv_1"}))]) {
        let stage = Stage::new("default");
        let (_, second, execution) = stage.weather(stream, &json!({"conversation": conversation}));
        assert_eq!(second.judged("pass", &[]).text(), "It is 18 degrees in Paris.");
        let say = format!("Still 18 (execution_id: {execution}).");
        let third = stage.ask(stream, json!({"input": "And now?", "conversation": "conv_1", "metadata": {"say": say}}));
        assert_eq!(third.judged("pass", &[]).text(), "Still 18.");
    }
}

#[test]
fn what_another_process_let_through_is_unknown_and_never_taken_for_proven() {
    for stream in WAYS {
        let stage = Stage::with_replicas("default", 2);
        let first = stage.ask(stream, json!({"input": "What is the weather in Paris?"}));
        let request = |metadata: Value| json!({"input": [output(&first.call()["call_id"])], "previous_response_id": first.id(), "metadata": metadata});
        let ask = |metadata| stage.ask_as(1, "Bearer test", stream, request(metadata));
        let second = ask(json!({}));
        assert_eq!(second.judged("pass", &["unverified_call"]).text(), "It is 18 degrees in Paris.");
        let sent = stage.last_sent();
        assert_eq!(execution(&sent["input"][0]["output"]), None, "{sent}");
        assert_eq!(sent["input"][0]["call_id"].as_str().unwrap().len(), 29, "{sent}");
        let forged = ask(json!({"say": format!("(execution_id: {FORGED}) It is sunny.")}));
        assert!(!forged.text().contains("sunny"), "{}", forged.raw);
        forged.judged("blocked", &["unverified_call", "unknown_execution"]);
        // What it answered itself it knows from there on, and no more than that.
        let third = stage.ask_as(
            1,
            "Bearer test",
            stream,
            json!({"input": "Thanks", "previous_response_id": second.id(), "metadata": {"say": "Welcome."}}),
        );
        third.judged("pass", &[]);
        // The one that knows the call stamps its result; the other can't tell whether it stands in the conversation.
        let known = stage.ask(stream, request(json!({})));
        let real = execution(&stage.last_sent()["input"][0]["output"]).unwrap();
        known.judged("pass", &[]);
        let cites =
            json!({"input": "And?", "previous_response_id": known.id(), "metadata": {"say": format!("Still 18 (execution_id: {real}).")}});
        let elsewhere = stage.ask_as(1, "Bearer test", stream, cites);
        elsewhere.judged("pass", &["not_judged"]);
    }
}

#[test]
fn anothers_response_is_worth_nothing() {
    for stream in WAYS {
        let stage = Stage::new("default");
        let (_, second, real) = stage.weather(stream, &json!({"conversation": "conv_1"}));
        let chained = stage.ask(stream, json!({"input": "What is the weather in Paris?"}));
        let (call_id, previous) = (&chained.call()["call_id"], chained.id());
        let thief = |request| stage.ask_as(0, "Bearer other", stream, request);
        thief(json!({"input": [output(call_id)], "previous_response_id": previous})).judged("pass", &["unverified_call"]);
        assert_eq!(execution(&stage.last_sent()["input"][0]["output"]), None);
        for (kept, id) in [("previous_response_id", second.id()), ("conversation", json!("conv_1"))] {
            let say = format!("Still 18 (execution_id: {real}).");
            let cited = thief(json!({"input": "And now?", kept: id, "metadata": {"say": say}}));
            cited.judged("blocked", &["unknown_execution"]);
        }
    }
}

#[test]
fn tools_that_came_in_earlier_may_be_called_later() {
    let city = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    let found = json!([{"type": "function", "name": "get_time", "parameters": city}]);
    for stream in WAYS {
        let stage = Stage::new("default");
        let search = json!({"type": "tool_search_output", "id": "tso_1", "tools": found});
        let user = json!({"role": "user", "content": "What time is it?"});
        let first = stage.ask(stream, json!({"input": [user, search], "metadata": {"say": "Where?"}}));
        first.judged("pass", &[]);
        let request = json!({"input": "In Paris.", "previous_response_id": first.id(), "metadata": {"call": "get_time"}});
        let second = stage.ask(stream, request);
        assert_eq!(second.judged("pass", &[]).call()["name"], "get_time");
        let mut last = output(&second.call()["call_id"]);
        last["output"] = json!("12:30");
        let third = json!({"input": [last], "previous_response_id": second.id(), "metadata": {"call": "get_time"}});
        stage.ask(stream, third).judged("pass", &[]);
        // In no other conversation.
        let other = json!({"input": "In Paris.", "metadata": {"call": "get_time", "then_say": "I can't."}});
        stage.ask(stream, other).judged("repaired", &["unknown_tool"]);
    }
}

#[test]
fn an_id_that_may_stand_in_an_unseen_turn_is_no_forgery_unless_it_looks_like_ours() {
    for stream in WAYS {
        let stage = Stage::new("default");
        for (say, verdict, violations) in [
            ("Their log has `execution_id: job-4711`.", "pass", &["not_judged"][..]),
            (&format!("Their log has `execution_id: {FORGED}`."), "blocked", &["unknown_execution"]),
            (&format!("As you saw, {FORGED}."), "blocked", &["unknown_execution"]),
        ] {
            for kept in ["conversation", "previous_response_id"] {
                let id = if kept == "conversation" { json!("conv_old") } else { stage_id(&stage) };
                let turned = stage.ask(stream, json!({"input": "What happened?", kept: id, "metadata": {"say": say}}));
                turned.judged(verdict, violations);
            }
        }
    }
}

/// A response that the proxy never saw.
fn stage_id(stage: &Stage) -> Value {
    let request = json!({"model": "m", "input": "Hello", "metadata": {"say": "execution_id: job-4711"}});
    let answer = crate::harness::post(&format!("{}/responses", stage.upstream.base_url()), &request.to_string(), "Bearer test");
    answer.json()["id"].clone()
}
