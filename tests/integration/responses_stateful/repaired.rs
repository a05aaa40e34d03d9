//! What the upstream keeps of turns that the application never saw: the next request must not meet a call without its
//! output, nor an item that nobody knows.

use serde_json::{Value, json};

use super::stage::{Stage, Turned, WAYS, execution, output, with};

const MENDS: &str = r#"{"call": "get_wether", "then_call": "get_weather"}"#;
const FORGES: &str = "(execution_id: get_weather_1700000000000_0123456789abcdef) It is sunny in Paris.";

fn metadata(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// The types of a request's input items.
fn kinds(request: &Value) -> Vec<&str> {
    let items = request["input"].as_array().unwrap_or_else(|| panic!("{request}"));
    items.iter().map(|item| item["type"].as_str().unwrap_or("message")).collect()
}

#[test]
pub fn the_application_goes_on_from_the_attempt_that_was_passed_on() {
    for stream in WAYS {
        let stage = Stage::new("default");
        let first = stage.ask(stream, json!({"input": "Weather?", "metadata": metadata(MENDS)}));
        let call = first.judged("repaired", &["unknown_tool"]).call();
        assert_eq!(call["name"], "get_weather");
        let second = stage.ask(stream, json!({"input": [output(&call["call_id"])], "previous_response_id": first.id()}));
        assert_eq!(second.judged("pass", &[]).text(), "It is 18 degrees in Paris.");
        let sent = stage.last_sent();
        assert_eq!(sent["previous_response_id"], format!("resp_{:048x}", 2));
        let execution = execution(&sent["input"][0]["output"]).unwrap();
        let say = format!("Still 18 (execution_id: {execution}).");
        let third = json!({"input": "And now?", "previous_response_id": second.id(), "metadata": {"say": say}});
        assert_eq!(stage.ask(stream, third).judged("pass", &[]).text(), "Still 18.");
    }
}

/// A stream has said its first attempt's id before that was rejected. Another process can't know what became of it, and
/// the upstream's own error is passed on; a whole answer has the id of the attempt that it is.
#[test]
fn another_process_goes_on_from_whole_answers_only() {
    for stream in WAYS {
        let stage = Stage::with_replicas("default", 2);
        let first = stage.ask(stream, json!({"input": "Weather?", "metadata": metadata(MENDS)}));
        let call = first.judged("repaired", &["unknown_tool"]).call();
        let request = json!({"input": [output(&call["call_id"])], "previous_response_id": first.id()});
        let second = stage.ask_as(1, "Bearer test", stream, request);
        if stream {
            let message = second.response["error"]["message"].as_str().unwrap();
            assert!(second.status == 400 && message.starts_with("No tool call found for function call output"), "{second:?}");
        } else {
            second.judged("warn", &["history_incomplete"]);
        }
    }
}

#[test]
pub fn a_repair_within_a_conversation_sends_only_the_outputs() {
    for stream in WAYS {
        let stage = Stage::new("default");
        let first = stage.ask(stream, json!({"input": "Weather?", "conversation": "conv_1", "metadata": metadata(MENDS)}));
        let call = first.judged("repaired", &["unknown_tool"]).call();
        let repair = stage.last_sent();
        assert_eq!((kinds(&repair), &repair["conversation"]), (vec!["function_call_output"], &json!("conv_1")));
        let second = stage.ask(stream, json!({"input": [output(&call["call_id"])], "conversation": "conv_1"}));
        assert_eq!(second.judged("pass", &[]).text(), "It is 18 degrees in Paris.");
        assert!(execution(&stage.last_sent()["input"][0]["output"]).is_some());
        // Text is objected to by what the user says, and nothing else.
        let text = json!({"input": "And?", "conversation": "conv_1", "metadata": {"say": FORGES, "then_say": "I can't say."}});
        assert_eq!(stage.ask(stream, text).judged("repaired", &["unknown_execution"]).text(), "I can't say.");
        assert_eq!(kinds(&stage.last_sent()), ["message"]);
    }
}

#[test]
pub fn every_call_of_a_rejected_turn_is_answered() {
    for (stream, kept) in WAYS.into_iter().flat_map(|stream| [json!({}), json!({"conversation": "conv_1"})].map(|kept| (stream, kept))) {
        let stage = Stage::new("default");
        // One of the two is right.
        let first = stage.ask(stream, with(&json!({"input": "Weather in Paris and Rome?"}), &kept));
        assert_eq!(first.verdict, "repaired", "{first:?}");
        let calls: Vec<Value> = first.items().into_iter().filter(|item| item["type"] == "function_call").collect();
        assert_eq!(calls.len(), 2, "{first:?}");
        let outputs = kinds(&stage.last_sent()).iter().filter(|kind| **kind == "function_call_output").count();
        assert_eq!(outputs, 2);
        let input: Vec<Value> = calls.iter().map(|call| output(&call["call_id"])).collect();
        let kept = if kept["conversation"].is_null() { json!({"previous_response_id": first.id()}) } else { kept };
        stage.ask(stream, with(&json!({ "input": input }), &kept)).judged("pass", &[]);
        let sent = stage.last_sent();
        let stamped = sent["input"].as_array().unwrap().iter().filter_map(|item| execution(&item["output"]));
        assert_eq!(stamped.count(), 2, "{sent}");
    }
}

#[test]
pub fn what_was_never_passed_on_is_answered_once() {
    for (stream, kept) in WAYS.into_iter().flat_map(|stream| ["previous_response_id", "conversation"].map(|kept| (stream, kept))) {
        let stage = Stage::new("default");
        let after = |turned: &Turned| if kept == "conversation" { json!("conv_1") } else { turned.id() };
        let begun = json!({"input": "Weather?", "metadata": {"call": "get_wether"}});
        let begun = if kept == "conversation" { with(&begun, &json!({"conversation": "conv_1"})) } else { begun };
        let first = stage.ask(stream, begun);
        assert_eq!(first.verdict, "blocked", "{first:?}");
        assert!(first.text().contains("get_wether") && first.items().iter().all(|item| item["type"] == "message"), "{first:?}");
        let thanks = |turned: &Turned| json!({"input": "Thanks", kept: after(turned), "metadata": {"say": "Welcome."}});
        let second = stage.ask(stream, thanks(&first));
        second.judged("pass", &[]);
        assert_eq!(kinds(&stage.last_sent()), ["function_call_output", "message"]);
        stage.ask(stream, thanks(&second)).judged("pass", &[]);
        assert_eq!(stage.last_sent()["input"], "Thanks");
        if kept == "previous_response_id" {
            // From the same response once more: it still waits there.
            stage.ask(stream, thanks(&first)).judged("pass", &[]);
            assert_eq!(kinds(&stage.last_sent()), ["function_call_output", "message"]);
        }
    }
}

#[test]
pub fn a_conversation_goes_on_where_a_repair_came_to_nothing() {
    for (stream, policy, asked) in WAYS.into_iter().flat_map(|stream| {
        [
            (stream, "[calls]\non_exhausted = \"error\"\n", json!({"call": "get_wether"})),
            (stream, "default", json!({"call": "get_wether", "then_fail": "yes"})),
        ]
    }) {
        let stage = Stage::new(policy);
        let failed = stage.ask(stream, json!({"input": "Weather?", "conversation": "conv_1", "metadata": asked}));
        let status = &failed.response["status"];
        assert!(if stream { *status == "failed" } else { matches!(failed.status, 400 | 422) }, "{failed:?}");
        let thanks = json!({"input": "Thanks", "conversation": "conv_1", "metadata": {"say": "Welcome."}});
        for kinds_sent in [Some(["function_call_output", "message"]), None] {
            stage.ask(stream, thanks.clone()).judged("pass", &[]);
            let sent = stage.last_sent();
            match kinds_sent {
                Some(expected) => assert_eq!(kinds(&sent), expected, "{policy}"),
                None => assert_eq!(sent["input"], "Thanks"),
            }
        }
    }
}

/// An application that sends the items back: as references, or as it got them.
fn again(turned: &Turned, as_references: bool, further: Value) -> Value {
    let reference = |item: &Value| json!({"type": "item_reference", "id": item["id"]});
    let items = turned.items();
    let items = items.iter().map(|item| if as_references { reference(item) } else { item.clone() });
    let user = json!({"role": "user", "content": "Weather?"});
    std::iter::once(user).chain(items).chain([further]).collect()
}

#[test]
pub fn items_of_a_rejected_attempt_are_never_referred_to() {
    for (stream, as_references, model) in WAYS
        .into_iter()
        .flat_map(|stream| [true, false].into_iter().flat_map(move |own| ["gpt-4o", "o4-mini"].map(|model| (stream, own, model))))
    {
        let stage = Stage::new("default");
        let first = stage.ask(stream, json!({"input": "Weather?", "model": model, "metadata": metadata(MENDS)}));
        let call = first.judged("repaired", &["unknown_tool"]).call();
        let input = again(&first, as_references, output(&call["call_id"]));
        let second = stage.ask(stream, json!({"input": input, "model": model}));
        assert_eq!(second.judged("pass", &[]).text(), "It is 18 degrees in Paris.", "{input}");
        assert!(execution(stage.last_sent()["input"].as_array().unwrap().last().map(|item| &item["output"]).unwrap()).is_some());
        // Nor where the text was repaired, or nothing was mended.
        let forging = json!({"say": FORGES, "then_say": "I can't say."});
        for (metadata, verdict) in [(forging, "repaired"), (json!({"call": "get_wether"}), "blocked")] {
            let first = stage.ask(stream, json!({"input": "Weather?", "model": model, "metadata": metadata}));
            assert_eq!(first.verdict, verdict, "{}", first.raw);
            let input = again(&first, as_references, json!({"role": "user", "content": "Thanks"}));
            stage.ask(stream, json!({"input": input, "model": model, "metadata": {"say": "Welcome."}})).judged("pass", &[]);
        }
    }
}

#[test]
pub fn a_forged_text_isnt_what_the_model_reads_again() {
    let late = format!("It is sunny in Paris, I can tell. {FORGES}");
    for (stream, as_references, model) in WAYS
        .into_iter()
        .flat_map(|stream| [true, false].into_iter().flat_map(move |own| ["gpt-4o", "o4-mini"].map(|model| (stream, own, model))))
    {
        for say in [FORGES, &late] {
            let stage = Stage::new("default");
            let first = stage.ask(stream, json!({"input": "Weather?", "model": model, "metadata": {"say": say}}));
            first.judged("blocked", &["unknown_execution"]);
            let thanks = json!({"role": "user", "content": "Thanks"});
            let input = again(&first, as_references, thanks);
            let second = stage.ask(stream, json!({"input": input, "model": model, "metadata": {"say": "Welcome."}}));
            second.judged("pass", &[]);
            let sent = stage.last_sent();
            let references = kinds(&sent).contains(&"item_reference");
            assert!(!references && !sent["input"].to_string().contains("0123456789abcdef"), "{sent}");
            assert!(sent["input"].to_string().contains("I reported a tool result"), "{sent}");
        }
    }
}
