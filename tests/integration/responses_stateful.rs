//! Conversations that the upstream keeps: what toolmark knows of them, and what it says where it can't know.

mod policies;
mod repaired;
mod replicas;
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

/// What a call said, and what a result was, is as good as in the request where the upstream keeps it.
#[test]
fn evidence_is_the_same_whether_history_is_sent_or_kept() {
    let title = json!({"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]});
    let tools = json!([{"type": "function", "name": "add_task", "parameters": title}]);
    for stream in WAYS {
        let stage = Stage::new("strict");
        let ask = |input: Value, previous: &Value, metadata: Value| {
            stage.ask(stream, json!({"input": input, "previous_response_id": previous, "tools": tools, "metadata": metadata}))
        };
        let result = |call_id: &Value, number: u8| {
            let mut result = output(call_id);
            result["output"] = json!(format!("{{\"number\": {number}}}"));
            json!([result])
        };
        let first = ask(json!("Note what we spoke about."), &Value::Null, json!({"call": "add_task"}));
        let sent = |metadata: Value| ask(result(&first.call()["call_id"], 7), &first.id(), metadata);
        sent(json!({"say": "Well."}));
        let one = execution(&stage.last_sent()["input"][0]["output"]).unwrap();
        // The argument says so.
        let second = sent(json!({"say": format!("I've added \"water plants\" (execution_id: {one}).")}));
        second.judged("pass", &[]);
        // A result of an earlier request, and a value that is in none.
        let third = |number: u8| {
            let say = format!("\"water plants\" has number {number} (execution_id: {one}).");
            ask(json!("Which was it?"), &second.id(), json!({"say": say}))
        };
        third(7).judged("pass", &[]);
        assert_eq!(third(8).verdict, "blocked", "{:?}", third(8).violations);
        // One call after another: the first result is as recent as the last.
        let again = sent(json!({"call": "add_task"}));
        let say = format!("I've added \"water plants\" as number 7 (execution_id: {one}).");
        ask(result(&again.call()["call_id"], 9), &again.id(), json!({"say": say})).judged("pass", &[]);
    }
}

/// After a restart nobody knows what an earlier request offered.
#[test]
fn a_built_in_call_that_only_an_unknown_part_can_offer_is_said_and_blocked_in_strict() {
    for (kind, action) in [
        ("shell_call", json!({"commands": ["rm -rf /"]})),
        ("local_shell_call", json!({"type": "exec", "command": ["rm"]})),
        ("computer_call", json!({"type": "click"})),
        ("apply_patch_call", json!({"type": "delete_file"})),
    ] {
        for (policy, verdict) in [("default", "warn"), ("strict", "blocked")] {
            let (call, action) = (kind.to_owned(), action.clone());
            let stage = Stage::in_front_of(policy, 1, move |_| {
                let item =
                    json!({"type": call, "id": "sh_1", "call_id": "call_1", "status": "completed", "action": action, "operation": action});
                let response =
                    json!({"id": "resp_2", "object": "response", "created_at": 1, "status": "completed", "model": "m", "output": [item]});
                toolmark::testing::ScriptedReply::json(200, response.to_string())
            });
            let answer = stage.ask(false, json!({"input": "Go on.", "previous_response_id": "resp_unknown"}));
            assert_eq!((answer.status, &*answer.verdict), (200, verdict), "{kind} {policy}: {}", answer.raw);
            assert_eq!(answer.violations.contains(&"unoffered_call".to_owned()), policy == "default", "{kind}: {:?}", answer.violations);
            assert_eq!(answer.items().iter().any(|item| item["type"] == kind), policy == "default", "{kind} {policy}: {}", answer.raw);
            let offered = json!([{"type": kind.trim_end_matches("_call")}]);
            let offered = stage.ask(false, json!({"input": "Go on.", "previous_response_id": "resp_unknown", "tools": offered}));
            assert!(offered.items().iter().any(|item| item["type"] == kind), "{kind} {policy}: {}", offered.raw);
            assert_eq!(offered.verdict, "pass", "{:?}", offered.violations);
        }
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
        assert_eq!(second.judged("warn", &["history_incomplete"]).text(), "It is 18 degrees in Paris.");
        let sent = stage.last_sent();
        assert_eq!(execution(&sent["input"][0]["output"]), None, "{sent}");
        assert_eq!(sent["input"][0]["call_id"].as_str().unwrap().len(), 29, "{sent}");
        let forged = ask(json!({"say": format!("(execution_id: {FORGED}) It is sunny.")}));
        assert!(!forged.text().contains("sunny"), "{}", forged.raw);
        forged.judged("blocked", &["history_incomplete", "unknown_execution"]);
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
        let stolen = thief(json!({"input": [output(call_id)], "previous_response_id": previous}));
        // One foreign mark in 256 looks like one that this caller was given.
        assert!(matches!(&*stolen.violations.join(","), "unverified_call" | "history_incomplete"), "{stolen:?}");
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
