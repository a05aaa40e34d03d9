//! Stored responses and conversations: what comes out of them is what was given, or was judged; never what was refused.

mod faults;
mod keeper;
mod ownership;
mod replicas;

use serde_json::{Value, json};
use toolmark::testing::{Received, ScriptedReply as Scripted};

use self::keeper::{INVENTED, keeper};
use crate::{
    clients::{model::FORGED, runtimes},
    in_turns::has_replicas,
    upstreams::stage::Stage,
    wire::{Connection, Reply, events, is_mark},
};

/// One upstream that gets the callers' keys.
fn stage(policy: &str) -> Stage {
    Stage::new(&format!("policy = \"{policy}\"\n[[upstreams]]\nname = \"own\"\nbase_url = \"$0\"\n"), vec![Box::new(keeper())])
}

fn ask(stage: &Stage, method: &str, path: &str, key: &str, body: &Value) -> Reply {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let head = format!(
        "{method} /v1/{path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut connection = Connection::open(stage.address());
    connection.send(head.as_bytes());
    connection.reply()
}

fn get(stage: &Stage, path: &str) -> Reply {
    ask(stage, "GET", path, "test", &Value::Null)
}

fn post(stage: &Stage, path: &str, body: Value) -> Reply {
    ask(stage, "POST", path, "test", &body)
}

fn delete(stage: &Stage, path: &str) -> Reply {
    ask(stage, "DELETE", path, "test", &Value::Null)
}

/// What a request answers, whole or streamed: the response.
fn respond(stage: &Stage, stream: bool, mut request: Value) -> Value {
    let city = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    request["model"] = json!("m");
    request["stream"] = json!(stream);
    if request["tools"].is_null() {
        request["tools"] = json!([{"type": "function", "name": "get_weather", "parameters": city}]);
    }
    let reply = post(stage, "responses", request);
    assert_eq!(reply.status, 200, "{}", reply.text());
    if stream { events(&reply.text()).last().unwrap()["response"].clone() } else { reply.json() }
}

fn said(response: &Value) -> String {
    let items = response["output"].as_array().cloned().unwrap_or_default();
    items.iter().filter_map(|item| item["content"][0]["text"].as_str().map(str::to_owned)).collect()
}

fn id(value: &Value) -> &str {
    value["id"].as_str().unwrap_or_else(|| panic!("{value}"))
}

#[track_caller]
fn refused(reply: &Reply, status: u16, code: &str) {
    assert_eq!((reply.status, &*reply.error_code()), (status, code), "{}", reply.text());
}

fn sent(stage: &Stage) -> usize {
    stage.upstreams[0].received().len()
}

#[test]
fn a_response_is_retrieved_as_it_was_given() {
    for (policy, stream, lie) in [("default", false, "no"), ("strict", true, "yes"), ("default", true, "yes"), ("strict", false, "yes")] {
        let stage = stage(policy);
        let given = respond(&stage, stream, json!({"input": "Hi", "metadata": {"call": "get_weather", "lie": lie}}));
        let call = &given["output"][0];
        is_mark(call["call_id"].as_str().unwrap());
        for _ in 0..2 {
            let again = get(&stage, &format!("responses/{}?include[]=x", id(&given)));
            assert_eq!(
                (again.status, &again.json()["output"], &again.json()["id"]),
                (200, &given["output"], &given["id"]),
                "{}",
                again.text()
            );
            assert!(!again.text().contains(INVENTED), "{}", again.text());
        }
        assert!(stage.upstreams[0].received().last().unwrap().line.ends_with("?include[]=x"));
        // As a stream, too.
        let events = events(&get(&stage, &format!("responses/{}?stream=true", id(&given))).text());
        let kinds: Vec<&str> = events.iter().filter_map(|event| event["type"].as_str()).collect();
        assert_eq!((kinds[0], *kinds.last().unwrap()), ("response.created", "response.completed"), "{kinds:?}");
        assert_eq!(
            events.iter().filter_map(|event| event["sequence_number"].as_u64()).collect::<Vec<_>>(),
            (0..events.len() as u64).collect::<Vec<_>>()
        );
        assert_eq!(events.last().unwrap()["response"]["output"], given["output"]);
        let arguments = events.iter().find(|event| event["type"] == "response.function_call_arguments.done").unwrap();
        assert_eq!(arguments["arguments"], call["arguments"]);
        refused(&get(&stage, &format!("responses/{}?stream=true&starting_after=3", id(&given))), 400, "invalid_request");
        // The input, without anything of toolmark's.
        let items = get(&stage, &format!("responses/{}/input_items?order=asc", id(&given))).json();
        assert_eq!((items["data"].as_array().unwrap().len(), &items["data"][0]["role"]), (1, &json!("user")), "{items}");
        // Deleted is deleted, here and there.
        let gone = delete(&stage, &format!("responses/{}", id(&given)));
        assert_eq!(gone.json(), json!({"id": given["id"], "object": "response", "deleted": true}));
        // A replica that doesn't know yet that it was deleted asks the upstream, which doesn't have it.
        let code = if has_replicas() { "" } else { "unknown_response" };
        refused(&get(&stage, &format!("responses/{}", id(&given))), 404, code);
    }
}

#[test]
fn what_was_refused_doesnt_come_out() {
    for stream in [false, true] {
        let stage = stage("default");
        let forged = format!("It is sunny (execution_id: {FORGED}).");
        let conversation = post(&stage, "conversations", json!({"metadata": {"topic": "x"}})).json();
        assert_eq!(conversation, json!({"id": conversation["id"], "object": "conversation", "created_at": 1, "metadata": {"topic": "x"}}));
        let kept = id(&conversation);
        for request in [json!({"say": forged}), json!({"call": INVENTED})] {
            let given = respond(&stage, stream, json!({"input": "Hi", "metadata": request, "conversation": kept}));
            let again = get(&stage, &format!("responses/{}", id(&given)));
            assert_eq!(again.json()["output"], given["output"]);
            let output = again.json()["output"].to_string();
            assert!(said(&given).contains("[un") && !output.contains("sunny") && !output.contains("function_call"), "{output}");
        }
        let fine = respond(&stage, stream, json!({"input": "Hi", "metadata": {"call": "get_weather"}, "conversation": kept}));
        let items = get(&stage, &format!("conversations/{kept}/items?order=asc&limit=100"));
        assert!(
            !items.text().contains(INVENTED) && !items.text().contains(FORGED) && !items.text().contains("Your last answer"),
            "{}",
            items.text()
        );
        assert_eq!(items.json()["data"].as_array().unwrap().last(), Some(&fine["output"][0]), "{}", items.text());
        // A single one, by its id as the upstream has it.
        let sent: Vec<Value> = stage.upstreams[0].received().iter().map(Received::json).collect();
        assert!(!sent.is_empty());
        for number in 1..40 {
            let item = get(&stage, &format!("conversations/{kept}/items/item_{number:04}"));
            assert!(!item.text().contains(INVENTED) && !item.text().contains(FORGED), "{}", item.text());
        }
        let own = get(&stage, &format!("conversations/{kept}/items/{}", id(&fine["output"][0])));
        assert_eq!(own.json(), fine["output"][0]);
    }
}

#[test]
fn a_response_made_in_the_background_is_judged_when_it_is_there() {
    for (policy, stream) in [("default", false), ("strict", false), ("default", true), ("strict", true)] {
        let stage = stage(policy);
        let begin = |metadata: Value| {
            let given = respond(&stage, false, json!({"input": "Hi", "background": true, "metadata": metadata}));
            assert_eq!((&given["status"], &given["output"]), (&json!("queued"), &json!([])));
            id(&given).to_owned()
        };
        let fetch = |id: &str| -> (Value, String) {
            if !stream {
                let reply = get(&stage, &format!("responses/{id}"));
                return (reply.json(), reply.header("toolmark-verdict").to_owned());
            }
            let reply = get(&stage, &format!("responses/{id}?stream=true"));
            (events(&reply.text()).last().unwrap()["response"].clone(), reply.verdict().0)
        };
        let fine = begin(json!({"call": "get_weather"}));
        // While it is made nothing of it is shown.
        let early = get(&stage, &format!("responses/{fine}"));
        assert_eq!(
            (&early.json()["status"], &early.json()["output"], &early.json()["id"]),
            (&json!("in_progress"), &json!([]), &json!(fine)),
            "{}",
            early.text()
        );
        assert!(!early.text().contains("function_call"), "{}", early.text());
        let (there, verdict) = fetch(&fine);
        assert_eq!((&*verdict, &there["status"]), ("pass", &json!("completed")), "{there}");
        let call = there["output"][0].clone();
        is_mark(call["call_id"].as_str().unwrap());
        // From here on it is what it was.
        assert_eq!(get(&stage, &format!("responses/{fine}")).json()["output"], there["output"]);
        // Its result is one of a call that was let through.
        let result = json!({"type": "function_call_output", "call_id": call["call_id"], "output": "{\"degrees\":18}"});
        let next = respond(&stage, false, json!({"input": [result], "previous_response_id": fine, "metadata": {"say": "Thanks."}}));
        assert!(next["toolmark"].is_null() || policy == "strict", "{next}");
        let upstream = stage.upstreams[0].received().last().unwrap().json();
        assert!(upstream["input"][0]["output"].as_str().unwrap().contains("execution_id"), "{upstream}");
        // What may not be passed on is replaced, and nobody is asked again.
        for metadata in [
            json!({"call": INVENTED}),
            json!({"call": "get_weather", "arguments": "{}"}),
            json!({"say": format!("(execution_id: {FORGED})")}),
        ] {
            let bad = begin(metadata.clone());
            get(&stage, &format!("responses/{bad}"));
            let before = sent(&stage);
            let (there, verdict) = fetch(&bad);
            assert_eq!((&*verdict, sent(&stage)), ("blocked", before + 1), "{metadata} {there}");
            let calls = there["output"].as_array().unwrap().iter().any(|item| item["type"] == "function_call");
            assert!(!calls && !there["output"].to_string().contains("(execution_id: get"), "{there}");
            assert_eq!(get(&stage, &format!("responses/{bad}")).json()["output"], there["output"]);
        }
        // A lie is judged like anything else.
        let lie = begin(json!({"say": "Well.", "lie": "yes"}));
        get(&stage, &format!("responses/{lie}"));
        assert!(!fetch(&lie).0["output"].to_string().contains("function_call"));
        // Cancelled: what there is of it is judged.
        let cancelled = begin(json!({"call": INVENTED}));
        let reply = post(&stage, &format!("responses/{cancelled}/cancel"), Value::Null);
        assert_eq!((reply.status, reply.json()["id"].as_str()), (200, Some(&*cancelled)), "{}", reply.text());
        assert!(!reply.json()["output"].to_string().contains("function_call"), "{}", reply.text());
    }
}

/// Who loses a stream that is made in the background finds it again.
#[test]
fn a_stream_in_the_background_that_broke_is_found_again() {
    let stage = stage("default");
    let request = json!({"model": "m", "input": "Hi", "background": true, "stream": true, "metadata": {"say": "Hello."}});
    let mut connection = Connection::open(stage.proxy.address());
    let body = request.to_string();
    let head = format!(
        "POST /v1/responses HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer test\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    connection.send(head.as_bytes());
    let begun = std::iter::from_fn(|| connection.line().ok()).find(|line| line.starts_with("data: ")).unwrap();
    let id = serde_json::from_str::<Value>(&begun[6..]).unwrap()["response"]["id"].as_str().unwrap().to_owned();
    drop(connection);
    assert!(stage.upstreams[0].wait(1, 1));
    // Another replica knows of it once the broken exchange has its record in the ledger.
    let there = crate::program::until("the response is there", || {
        Some(get(&stage, &format!("responses/{id}"))).filter(|reply| reply.status == 200 && !said(&reply.json()).is_empty())
    });
    assert_eq!(said(&there.json()), "Hello.", "{}", there.text());
}

#[test]
fn nobody_gets_anothers_objects_and_no_other_upstream_is_asked() {
    let one = stage("default");
    let given = respond(&one, false, json!({"input": "Hi"}));
    let before = sent(&one);
    for (method, path) in [
        ("GET", format!("responses/{}", id(&given))),
        ("GET", format!("responses/{}?stream=true", id(&given))),
        ("GET", format!("responses/{}/input_items", id(&given))),
        ("POST", format!("responses/{}/cancel", id(&given))),
        ("DELETE", format!("responses/{}", id(&given))),
        ("GET", "responses/resp_unknown".to_owned()),
    ] {
        let reply = ask(&one, method, &path, "other", &Value::Null);
        refused(&reply, 404, "unknown_response");
        assert!(reply.text().contains("Ask again with POST /v1/responses"), "{}", reply.text());
    }
    assert_eq!(sent(&one), before);
    // With the caller's own key a conversation that isn't known is the upstream's to refuse.
    let conversation = post(&one, "conversations", json!({})).json();
    assert_eq!(ask(&one, "GET", &format!("conversations/{}", id(&conversation)), "other", &Value::Null).status, 200);
    assert_eq!(get(&one, "conversations/conv_none").status, 404);
    assert_eq!(one.upstreams[0].received().last().unwrap().headers["authorization"], "Bearer test");
    // With toolmark's it would be anybody's.
    let settings = "[[upstreams]]\nname = \"chat\"\nbase_url = \"$0\"\nresponses = \"translate\"\nmodels = [\"x\"]\n\
        [[upstreams]]\nname = \"own\"\nbase_url = \"$1\"\napi_key_env = \"OWN_KEY\"\nmodels = [\"m\"]\n\
        [[upstreams]]\nname = \"other\"\nbase_url = \"$2\"\nmodels = [\"n\"]\n";
    let refuse = |_: &Received| Scripted::json(500, "{}");
    let three = Stage::new(settings, vec![Box::new(refuse), Box::new(keeper()), Box::new(refuse)]);
    let given = respond(&three, false, json!({"input": "Hi"}));
    let conversation = post(&three, "conversations", json!({})).json();
    let paths = [
        format!("responses/{}", id(&given)),
        format!("conversations/{}", id(&conversation)),
        format!("conversations/{}/items", id(&conversation)),
    ];
    for path in &paths {
        assert_eq!(get(&three, path).status, 200, "{path}");
        let other = ask(&three, "GET", path, "other", &Value::Null);
        assert_eq!(other.status, 404, "{}", other.text());
    }
    let got = three.upstreams[1].received();
    assert_eq!((got.len(), three.upstreams[0].received().len(), three.upstreams[2].received().len()), (5, 0, 0));
    assert!(got.iter().all(|received| received.headers["authorization"] == "Bearer sk-own"), "{got:?}");
    // To name it makes nobody its owner.
    let naming = json!({"model": "m", "input": "Hi", "conversation": id(&conversation)});
    ask(&three, "POST", "responses", "other", &naming);
    for (method, path) in [("GET", &paths[1]), ("GET", &paths[2]), ("DELETE", &paths[1])] {
        assert_eq!(ask(&three, method, path, "other", &Value::Null).status, 404, "{method} {path}");
    }
    assert_eq!(get(&three, &paths[1]).status, 200);
}

#[test]
fn a_fallback_that_has_a_response_never_sees_the_callers_key() {
    let settings = "[[upstreams]]\nname = \"a\"\nbase_url = \"$0\"\nfallback = [\"b\"]\n[[upstreams]]\nname = \"b\"\nbase_url = \"$1\"\napi_key_env = \"\"\n";
    let stage = Stage::new(settings, vec![Box::new(|_: &Received| Scripted::json(503, "{}")), Box::new(keeper())]);
    let given = respond(&stage, false, json!({"input": "Hi"}));
    let before = stage.upstreams[0].received().len();
    let reply = get(&stage, &format!("responses/{}?other=hidden&api-version=7", id(&given)));
    assert_eq!((reply.status, reply.header("toolmark-upstream")), (200, "b"));
    let last = stage.upstreams[1].received().pop().unwrap();
    assert!(!format!("{} {:?}", last.line, last.headers).contains("hidden") && !last.headers.contains_key("authorization"), "{last:?}");
    assert_eq!(stage.upstreams[0].received().len(), before);
}

#[test]
fn items_are_written_as_input_is_and_read_with_marks() {
    for policy in ["default", "strict"] {
        let stage = stage(policy);
        let given = respond(&stage, false, json!({"input": "Hi", "store": false, "metadata": {"call": "get_weather"}}));
        let call = given["output"][0].clone();
        let mark = call["call_id"].as_str().unwrap();
        let result = json!({"type": "function_call_output", "call_id": mark, "output": "{\"degrees\":18}"});
        let own = [
            json!({"role": "user", "content": "Hi"}),
            call.clone(),
            result.clone(),
            json!({"role": "assistant", "content": "It is 18 degrees."}),
        ];
        let conversation = post(&stage, "conversations", json!({"items": [{"role": "user", "content": "Before"}]})).json();
        let items = format!("conversations/{}/items", id(&conversation));
        let written = post(&stage, &items, json!({"items": own}));
        assert_eq!((written.status, written.json()["data"].as_array().map(Vec::len)), (200, Some(4)), "{}", written.text());
        let upstream = stage.upstreams[0].received().last().unwrap().json();
        let raw = upstream["items"][1]["call_id"].as_str().unwrap();
        assert!(raw.len() == 29 && upstream["items"][2]["call_id"] == raw, "{upstream}");
        assert!(upstream["items"][2]["output"].as_str().unwrap().contains("execution_id"), "{upstream}");
        let read = get(&stage, &format!("{items}?order=asc"));
        let data = read.json()["data"].as_array().cloned().unwrap();
        assert_eq!((data.len(), read.header("toolmark-verdict")), (5, "pass"), "{}", read.text());
        assert_eq!((&data[2]["call_id"], &data[2]["arguments"], &data[3]["call_id"]), (&json!(mark), &call["arguments"], &json!(mark)));
        assert_eq!(data[4]["content"][0]["text"], "It is 18 degrees.");
        assert!(!read.text().contains(&format!("\"{raw}\"")), "{}", read.text());
        // And they are a history that stands.
        let history: Vec<Value> = data.iter().cloned().chain([json!({"role": "user", "content": "Thanks"})]).collect();
        let next = post(&stage, "responses", json!({"model": "m", "input": history, "metadata": {"say": "Welcome."}}));
        assert_eq!((next.status, next.header("toolmark-violations")), (200, ""), "{}", next.text());
        // What was never let through isn't written.
        let before = sent(&stage);
        let mut altered = call.clone();
        altered["arguments"] = json!("{\"city\":\"Rome\"}");
        let reply = post(&stage, &items, json!({"items": [altered, result]}));
        assert_eq!((reply.status, sent(&stage) - before), if policy == "strict" { (400, 0) } else { (200, 1) }, "{}", reply.text());
        assert!(policy == "strict" || reply.header("toolmark-violations").contains("altered_call"), "{:?}", reply.headers);
        refused(&post(&stage, &items, json!({"items": "x"})), 400, "invalid_request");
        refused(&post(&stage, &items, json!({})), 400, "invalid_request");
        assert_eq!(
            delete(&stage, &format!("{items}/{}", id(&data[0]))).json(),
            json!({"id": conversation["id"], "object": "conversation", "created_at": 1, "metadata": {}})
        );
        assert_eq!(delete(&stage, &format!("conversations/{}", id(&conversation))).json()["deleted"], true);
    }
}

#[test]
fn items_that_nobody_was_given_are_left_out() {
    let call =
        |id: &str, name: &str| json!({"type": "function_call", "id": id, "call_id": format!("call_{id}"), "name": name, "arguments": "{}"});
    let hostile = json!([
        call("x1", INVENTED),
        call("x2", "get_weather"),
        {"type": "custom_tool_call", "id": "x3", "call_id": "c3", "name": INVENTED, "input": "rm"},
        {"type": "function_call_output", "id": "x4", "call_id": "call_x1", "output": "done"},
        {"type": "message", "id": "x5", "role": "assistant", "content": [{"type": "output_text", "text": "rm was run"}]},
        {"type": "message", "id": "x6", "role": "user", "content": [{"type": "tool_use", "name": INVENTED, "input": {}}]},
        {"type": "message", "id": "x7", "role": "user", "content": "Hi", "tool_calls": [{"function": {"name": INVENTED, "arguments": "{}"}}]},
        {"type": "shell_call", "id": "x8", "call_id": "c8", "action": {"commands": ["rm"]}},
        {"type": "apply_patch_call", "id": "x9", "call_id": "c9", "operation": {"type": "delete_file"}},
        {"type": "reasoning", "id": "x10", "summary": [], "function_call": {"name": INVENTED, "arguments": "{}"}},
        {"type": "additional_tools", "id": "x11", "tools": [{"type": "function", "name": INVENTED}]},
        {"type": "something_new", "id": "x12", "name": INVENTED, "arguments": "{}"},
        {"type": "message", "id": "x13", "role": "user", "content": "Hello"},
        {"type": "reasoning", "id": "x14", "summary": []}
    ]);
    for policy in ["default", "strict"] {
        let stage = stage(policy);
        let conversation = post(&stage, "conversations", json!({})).json();
        let items = format!("conversations/{}/items?order=asc", id(&conversation));
        let url = format!("{}/conversations/{}", stage.upstreams[0].base_url(), id(&conversation));
        crate::harness::run(async {
            crate::harness::http_client().put(url).body(json!({"items": hostile}).to_string()).send().await.unwrap()
        });
        let read = get(&stage, &items);
        if policy == "strict" {
            refused(&read, 400, "history_incomplete");
            continue;
        }
        let ids: Vec<String> = read.json()["data"].as_array().unwrap().iter().map(|item| id(item).to_owned()).collect();
        assert_eq!(
            (ids, read.header("toolmark-verdict"), read.header("toolmark-violations")),
            (vec!["x13".into(), "x14".into()], "warn", "history_incomplete")
        );
        assert_eq!((read.json()["first_id"].clone(), read.json()["last_id"].clone()), (json!("x1"), json!("x14")));
        for number in 1..=12 {
            refused(&get(&stage, &format!("conversations/{}/items/x{number}", id(&conversation))), 404, "unknown_item");
        }
    }
}

#[test]
fn compacting_and_counting() {
    for policy in ["default", "strict"] {
        let stage = stage(policy);
        let given = respond(&stage, false, json!({"input": "Hi", "metadata": {"call": "get_weather"}}));
        let call = &given["output"][0];
        let history =
            json!([{"role": "user", "content": "Hi"}, call, {"type": "function_call_output", "call_id": call["call_id"], "output": "18"}]);
        let compacted = post(&stage, "responses/compact", json!({"model": "m", "input": history}));
        let kinds: Vec<Value> = compacted.json()["output"].as_array().unwrap().iter().map(|item| item["type"].clone()).collect();
        assert_eq!(
            (kinds, compacted.header("toolmark-verdict")),
            (vec![json!("message"), json!("compaction")], "pass"),
            "{}",
            compacted.text()
        );
        assert!(!compacted.text().contains("lost"), "{}", compacted.text());
        assert_eq!(stage.upstreams[0].received().last().unwrap().json()["input"][1]["call_id"].as_str().map(str::len), Some(29));
        let lie = post(&stage, "responses/compact", json!({"model": "m", "input": "Hi", "metadata": {"lie": true}}));
        assert!(!lie.text().contains(INVENTED), "{}", lie.text());
        assert_eq!((lie.status, &*lie.error_code()), if policy == "strict" { (400, "history_incomplete") } else { (200, "") });
        let counted = post(&stage, "responses/input_tokens", json!({"model": "m", "input": history, "previous_response_id": given["id"]}));
        assert_eq!(counted.json(), json!({"object": "response.input_tokens", "input_tokens": 11}));
    }
}

#[test]
fn what_the_policy_and_the_upstream_keep_nothing_of_is_refused() {
    for stateful in ["stateless", "refuse"] {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("p.toml"), format!("[responses]\nstateful = \"{stateful}\"\n")).unwrap();
        let stage = stage(directory.path().join("p.toml").to_str().unwrap());
        for (method, path) in [
            ("GET", "responses/r"),
            ("DELETE", "responses/r"),
            ("POST", "responses/r/cancel"),
            ("GET", "responses/r/input_items"),
            ("POST", "conversations"),
            ("GET", "conversations/c"),
            ("POST", "conversations/c/items"),
        ] {
            let reply = ask(&stage, method, path, "test", &json!({"items": []}));
            refused(&reply, 400, "invalid_request");
            assert!(reply.text().contains("send the whole conversation in `input`"), "{}", reply.text());
        }
        assert_eq!(sent(&stage), 0);
    }
    let translated = Stage::new("[[upstreams]]\nname = \"a\"\nbase_url = \"$0\"\nresponses = \"translate\"\n", vec![Box::new(keeper())]);
    for path in ["conversations", "responses/compact", "responses/input_tokens"] {
        refused(&post(&translated, path, json!({"model": "m", "input": "Hi"})), 501, "endpoint_not_enforced");
    }
    // Where nothing is enforced everything comes as it is.
    let observed = stage("observe");
    let given = respond(&observed, false, json!({"input": "Hi", "metadata": {"lie": "yes"}}));
    assert!(get(&observed, &format!("responses/{}", id(&given))).text().contains(INVENTED));
    assert!(post(&observed, "conversations", json!({})).text().contains("lost"));
}

/// The real client, as its documentation has it.
#[test]
fn the_openai_client_keeps_conversations() {
    if runtimes::skipped("the openai client's stored responses and conversations") {
        return;
    }
    let stage = stage("default");
    let url = format!("http://{}/v1", stage.proxy.address());
    let environment = [("OPENAI_BASE_URL", &*url), ("OPENAI_API_KEY", "sk-test")];
    let printed = runtimes::run_python(&runtimes::repository("tests/clients/stored.py"), &environment);
    let seen: Value = serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"));
    assert_eq!(seen["same"], true, "{seen}");
    assert_eq!(seen["kinds"], json!(["message", "function_call", "function_call_output", "message"]), "{seen}");
    assert_eq!(
        (&seen["background"], &seen["deleted"], &seen["tokens"], &seen["input"]),
        (&json!(["queued", "in_progress", "completed", "Hello."]), &json!([true, 404]), &json!(11), &json!(["user"])),
        "{seen}"
    );
    assert_eq!(seen["cancelled"], "cancelled", "{seen}");
    is_mark(seen["mark"].as_str().unwrap());
}
