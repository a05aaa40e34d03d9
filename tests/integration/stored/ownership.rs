//! Where toolmark's own key opens what the upstream stores, nobody names another caller's objects.

use serde_json::{Value, json};
use toolmark::testing::{Received, ScriptedReply as Scripted};

use super::{ask, id, keeper::keeper, refused, sent};
use crate::upstreams::stage::Stage;

/// One upstream with toolmark's key.
fn own_key(policy: &str, further: &str) -> Stage {
    let settings = format!(
        "policy = \"{policy}\"\n[[upstreams]]\nname = \"own\"\nbase_url = \"$0\"\napi_key_env = \"OWN_KEY\"\n[ledger]\nurl = \"sqlite:toolmark.db\"\n{further}"
    );
    Stage::new(&settings, vec![Box::new(keeper())])
}

/// Requests that name a response, a conversation and an item: path, body, and the code where they aren't the caller's.
fn naming(response: &str, conversation: &str, item: &str) -> Vec<(String, Value, &'static str)> {
    let reference = json!({"type": "item_reference", "id": item});
    let mut all = Vec::new();
    for path in ["responses", "responses/compact", "responses/input_tokens"] {
        for (named, code) in [
            (json!({"previous_response_id": response}), "unknown_response"),
            (json!({"conversation": conversation}), "unknown_conversation"),
            (json!({"conversation": {"id": conversation}}), "unknown_conversation"),
            (json!({"input": [{"role": "user", "content": "Hi"}, reference]}), "unknown_item"),
            (json!({"input": [{"role": "user", "content": "Hi"}, {"id": item}]}), "unknown_item"),
            (json!({"input": [{"type": "reasoning", "id": item, "summary": []}]}), "unknown_item"),
            (json!({"input": [{"type": "image_generation_call", "id": item}]}), "unknown_item"),
        ] {
            let mut body = json!({"model": "m", "input": "Hi"});
            body.as_object_mut().unwrap().extend(named.as_object().cloned().unwrap());
            all.push((path.to_owned(), body, code));
        }
    }
    all.push(("conversations".to_owned(), json!({"items": [reference]}), "unknown_item"));
    all.push((
        format!("conversations/{conversation}/items"),
        json!({"items": [{"role": "user", "content": "Hi"}]}),
        "unknown_conversation",
    ));
    all
}

/// A response, a conversation and an item of this caller.
fn made(stage: &Stage, key: &str, stream: bool) -> (String, String, String) {
    let conversation = ask(stage, "POST", "conversations", key, &json!({})).json();
    let request = json!({"model": "m", "input": "Hi", "stream": stream, "metadata": {"say": "Hello."}});
    let reply = ask(stage, "POST", "responses", key, &request);
    assert_eq!(reply.status, 200, "{}", reply.text());
    let response = if stream { crate::wire::events(&reply.text()).last().unwrap()["response"].clone() } else { reply.json() };
    (id(&response).to_owned(), id(&conversation).to_owned(), id(&response["output"][0]).to_owned())
}

fn refuses(stage: &Stage, key: &str, (response, conversation, item): &(String, String, String)) {
    let before = sent(stage);
    for (path, body, code) in naming(response, conversation, item) {
        let reply = ask(stage, "POST", &path, key, &body);
        assert_eq!((reply.status, &*reply.error_code()), (404, code), "{path} {body}: {}", reply.text());
        assert!(reply.text().contains("not found") && !reply.text().contains("sk-own"), "{}", reply.text());
    }
    for (method, path, code) in [
        ("GET", format!("responses/{response}"), "unknown_response"),
        ("GET", format!("responses/{response}/input_items"), "unknown_response"),
        ("POST", format!("responses/{response}/cancel"), "unknown_response"),
        ("DELETE", format!("responses/{response}"), "unknown_response"),
        ("GET", format!("conversations/{conversation}"), "unknown_conversation"),
        ("GET", format!("conversations/{conversation}/items"), "unknown_conversation"),
        ("GET", format!("conversations/{conversation}/items/{item}"), "unknown_conversation"),
        ("DELETE", format!("conversations/{conversation}/items/{item}"), "unknown_conversation"),
        ("DELETE", format!("conversations/{conversation}"), "unknown_conversation"),
    ] {
        refused(&ask(stage, method, &path, key, &Value::Null), 404, code);
    }
    assert_eq!(sent(stage), before);
}

fn takes(stage: &Stage, key: &str, (response, conversation, item): &(String, String, String)) {
    for (path, body, _) in naming(response, conversation, item) {
        let reply = ask(stage, "POST", &path, key, &body);
        assert_eq!(reply.status, 200, "{path} {body}: {}", reply.text());
    }
}

#[test]
fn nobody_names_anothers_objects_before_or_after_a_restart() {
    for (policy, stream) in [("default", false), ("default", true)] {
        let stage = own_key(policy, "");
        let mine = made(&stage, "a", stream);
        let before = sent(&stage);
        refuses(&stage, "b", &mine);
        refuses(&stage, "a", &("resp_none".into(), "conv_none".into(), "item_none".into()));
        assert_eq!(sent(&stage), before);
        takes(&stage, "a", &mine);
        // What is remembered of owners lasts as long as the ledger does.
        let stage = stage.restarted();
        refuses(&stage, "b", &mine);
        takes(&stage, "a", &mine);
        for path in [format!("conversations/{}", mine.1), format!("conversations/{}/items", mine.1)] {
            let reply = ask(&stage, "GET", &path, "a", &Value::Null);
            assert_eq!(reply.status, 200, "{}", reply.text());
        }
        // Who is refused becomes no owner by it.
        refuses(&stage, "b", &mine);
    }
}

#[test]
fn items_that_were_listed_may_be_named() {
    let stage = own_key("default", "");
    let conversation = ask(&stage, "POST", "conversations", "a", &json!({"items": [{"role": "user", "content": "Hi"}]})).json();
    let items = format!("conversations/{}/items", id(&conversation));
    let listed = ask(&stage, "GET", &items, "a", &Value::Null).json();
    let request =
        json!({"model": "m", "input": [{"type": "item_reference", "id": listed["data"][0]["id"]}, {"role": "user", "content": "Hi"}]});
    assert_eq!(ask(&stage, "POST", "responses", "a", &request).status, 200);
    refused(&ask(&stage, "POST", "responses", "b", &request), 404, "unknown_item");
}

#[test]
fn where_callers_bring_their_keys_or_are_one_the_upstream_decides() {
    let stage = super::stage("default");
    let mine = made(&stage, "a", false);
    takes(&stage, "b", &mine);
    let shared = own_key("default", "[marks]\nscope = \"shared\"\n");
    let mine = made(&shared, "a", false);
    takes(&shared, "b", &mine);
    let before = sent(&shared);
    let other = json!({"model": "m", "input": "Hi", "previous_response_id": "resp_other"});
    assert_eq!((ask(&shared, "POST", "responses", "b", &other).status, sent(&shared)), (200, before + 1));
}

#[test]
fn in_observe_mode_what_is_known_to_be_anothers_stays_closed() {
    for stream in [false, true] {
        let stage = own_key("observe", "");
        let (response, conversation, _) = made(&stage, "a", stream);
        let before = sent(&stage);
        for (path, body, code) in naming(&response, &conversation, "item").into_iter().filter(|(_, _, code)| *code != "unknown_item") {
            refused(&ask(&stage, "POST", &path, "b", &body), 404, code);
        }
        for path in [format!("responses/{response}"), format!("conversations/{conversation}/items")] {
            assert_eq!(ask(&stage, "GET", &path, "b", &Value::Null).status, 404, "{path}");
        }
        assert_eq!(sent(&stage), before);
        // What nobody is known to own is the upstream's to refuse, and to name it makes nobody its owner.
        for (key, status) in [("b", 404), ("a", 200)] {
            let unknown = json!({"model": "m", "input": "Hi", "conversation": "conv_old", "previous_response_id": "resp_old"});
            assert_eq!(ask(&stage, "POST", "responses", key, &unknown).status, 200);
            assert_eq!(ask(&stage, "GET", &format!("responses/{response}"), key, &Value::Null).status, status);
        }
    }
}

#[test]
fn a_fallback_with_a_key_of_its_own_reads_nothing_that_it_stores() {
    let settings = "[[upstreams]]\nname = \"a\"\nbase_url = \"$0\"\nfallback = [\"b\"]\n[[upstreams]]\nname = \"b\"\nbase_url = \"$1\"\napi_key_env = \"OWN_KEY\"\n";
    let stage = Stage::new(settings, vec![Box::new(|_: &Received| Scripted::json(503, "{}")), Box::new(keeper())]);
    for (path, body, _) in naming("resp_1", "conv_1", "item_1").into_iter().filter(|(path, ..)| path == "responses") {
        let reply = ask(&stage, "POST", &path, "a", &body);
        assert_ne!(reply.status, 200, "{body}: {}", reply.text());
    }
    assert_eq!(stage.upstreams[1].received().len(), 0);
}
