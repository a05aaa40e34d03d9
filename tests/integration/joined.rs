//! Clients join an answer's texts in different ways. A claim in a text that some client joins is judged, however the upstream divides it,
//! and what is honest passes in the same forms.

use std::slice::from_ref;

use serde_json::{Value, json};
use toolmark::testing::ScriptedReply as Scripted;

use crate::{
    harness::Fixture,
    wire::{self, Connection, Reply},
};

const POLICY: &str = "[calls]\nmax_repairs = 0\n";
/// An id that was never issued.
const FORGED: &str = "run_it_1700000000000_deadbeefdeadbeef";
/// A claim, cut in its middle.
const CLAIM: [&str; 2] = ["As the tool (execution_id: run_it", "_1700000000000_deadbeefdeadbeef) says, it is 90 Mbit/s."];
/// A claim, in a text that goes on with letters in the next.
const ENDING: [&str; 2] = ["It is 90 Mbit/s, see run_it_1700000000000_deadbeefdeadbeef", "ably so."];
/// An honest answer, cut in its middle.
const HONEST: [&str; 2] = ["All is well with run_it", "_now, as far as I can see."];
/// What stands between the halves, for whoever reads it.
const BETWEEN: &str = ". Hmm, let me see. ";

/// An answer of the upstream's: path, events or body.
struct Served {
    path: &'static str,
    events: Vec<Value>,
    stream: bool,
}

impl Served {
    fn whole(path: &'static str, body: Value) -> Self {
        Self { path, events: vec![body], stream: false }
    }

    fn reply(&self, fixture: &Fixture) -> Reply {
        let served = self.events.iter().map(Value::to_string).collect::<Vec<_>>().join("|");
        let tool = match self.path {
            "/v1/messages" => json!({"name": "run_it", "input_schema": {"type": "object"}}),
            "/v1/responses" => json!({"type": "function", "name": "run_it", "parameters": {"type": "object"}}),
            _ => json!({"type": "function", "function": {"name": "run_it", "parameters": {"type": "object"}}}),
        };
        let mut request = json!({"model": "m", "stream": self.stream, "tools": [tool]});
        match self.path {
            "/v1/responses" => request["input"] = json!("hi"),
            _ => request["messages"] = json!([{"role": "user", "content": "hi"}]),
        }
        if self.path == "/v1/messages" {
            request["max_tokens"] = json!(9);
        }
        let mut connection = Connection::open(fixture.proxy.address());
        connection.post(self.path, &format!("x-served: {served}\r\n"), request.to_string().as_bytes())
    }

    /// The texts that clients make of the reply.
    fn readings(&self, reply: &Reply) -> Vec<String> {
        let all = |texts: &[String]| texts.concat();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let parts = |value: &Value, kind: &str| -> Vec<String> {
            let parts = value.as_array().into_iter().flatten().filter(|part| part["type"] == kind);
            parts.map(|part| text(&part["text"])).collect()
        };
        let output = |items: &Value| -> Vec<String> {
            let messages = items.as_array().into_iter().flatten().filter(|item| item["type"] == "message");
            messages.flat_map(|item| parts(&item["content"], "output_text")).collect()
        };
        let texts: Vec<String> = match (self.path, self.stream) {
            ("/v1/chat/completions", false) => {
                let content = &reply.json()["choices"][0]["message"]["content"];
                if content.is_string() { vec![text(content)] } else { parts(content, "text") }
            }
            ("/v1/messages", false) => parts(&reply.json()["content"], "text"),
            ("/v1/responses", false) => output(&reply.json()["output"]),
            ("/v1/chat/completions", true) => {
                let events = wire::events(&reply.text());
                let contents = events.iter().map(|event| &event["choices"][0]["delta"]["content"]);
                contents.flat_map(|content| if content.is_array() { parts(content, "text") } else { vec![text(content)] }).collect()
            }
            ("/v1/messages", true) => {
                let events = wire::events(&reply.text());
                let mut blocks: Vec<String> = Vec::new();
                for event in &events {
                    if event["type"] == "content_block_start" {
                        blocks.push(String::new());
                    }
                    if let Some(block) = blocks.last_mut() {
                        block.push_str(&text(&event["delta"]["text"]));
                    }
                }
                blocks
            }
            _ => {
                let events = wire::events(&reply.text());
                let done = events.iter().filter(|event| event["type"] == "response.output_item.done");
                let items: Vec<String> = done.flat_map(|event| [all(&output(&json!([event["item"]])))]).collect();
                // Live, by the place of the item alone.
                let deltas = || events.iter().filter(|event| event["type"] == "response.output_text.delta");
                let first = deltas().next().map(|event| event["item_id"].clone());
                let own: String =
                    deltas().filter(|event| Some(&event["item_id"]) == first.as_ref()).map(|event| text(&event["delta"])).collect();
                let ended = events.iter().find(|event| event["type"] == "response.completed");
                let ended = ended.map(|event| output(&event["response"]["output"])).unwrap_or_default();
                return [items, vec![own, all(&ended)], ended].concat();
            }
        };
        [vec![all(&texts)], texts].concat()
    }
}

fn messages([first, second]: [&str; 2], between: Option<Value>) -> [Served; 2] {
    let text = |text: &str| json!({"type": "text", "text": text});
    messages_of([Some(text(first)), between, Some(text(second))].into_iter().flatten().collect())
}

/// The same, with a thought between every few characters.
fn messages_in_pieces(pieces: [&str; 2]) -> [Served; 2] {
    let characters: Vec<char> = pieces.concat().chars().collect();
    let text = |piece: &[char]| json!({"type": "text", "text": piece.iter().collect::<String>()});
    let thought = json!({"type": "thinking", "thinking": "", "signature": "x"});
    messages_of(characters.chunks(5).flat_map(|piece| [text(piece), thought.clone()]).collect())
}

fn messages_of(blocks: Vec<Value>) -> [Served; 2] {
    let text = |text: &str| json!({"type": "text", "text": text});
    let message = |content: Value, stop: Value| json!({"id": "m", "type": "message", "role": "assistant", "model": "m", "content": content, "stop_reason": stop, "stop_sequence": null, "usage": {"input_tokens": 1, "output_tokens": 1}});
    let mut events = vec![json!({"type": "message_start", "message": message(json!([]), Value::Null)})];
    for (index, block) in blocks.iter().enumerate() {
        let (start, delta) = match block["type"].as_str() {
            Some("text") => (text(""), Some(json!({"type": "text_delta", "text": block["text"]}))),
            _ => (block.clone(), None),
        };
        events.push(json!({"type": "content_block_start", "index": index, "content_block": start}));
        events.extend(delta.map(|delta| json!({"type": "content_block_delta", "index": index, "delta": delta})));
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events
        .push(json!({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null}, "usage": {"output_tokens": 3}}));
    events.push(json!({"type": "message_stop"}));
    let whole = message(json!(blocks), json!("end_turn"));
    [Served::whole("/v1/messages", whole), Served { path: "/v1/messages", events, stream: true }]
}

fn response(status: &str, output: &[Value]) -> Value {
    json!({"id": "r", "object": "response", "created_at": 1, "status": status, "model": "m", "output": output})
}

fn item(id: &str, parts: &[Value]) -> Value {
    json!({"type": "message", "id": id, "status": "completed", "role": "assistant", "content": parts})
}

fn output_text(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": []})
}

/// A stream of messages, each of these parts, with what its `output_item.done` and the last event list.
fn response_stream(said: &[(&str, &[&str])], done: &[Value], listed: &[Value]) -> Served {
    let mut events = vec![json!({"type": "response.created", "response": response("in_progress", &[])})];
    for (at, (id, texts)) in said.iter().enumerate() {
        events.push(json!({"type": "response.output_item.added", "output_index": at, "item": item(id, &[])}));
        for (part, text) in texts.iter().enumerate() {
            events.push(
                json!({"type": "response.output_text.delta", "item_id": id, "output_index": at, "content_index": part, "delta": text}),
            );
        }
        events.push(json!({"type": "response.output_item.done", "output_index": at, "item": done[at]}));
    }
    events.push(json!({"type": "response.completed", "response": response("completed", listed)}));
    Served { path: "/v1/responses", events, stream: true }
}

/// Answers whose texts clients join otherwise than the upstream listed or sent them.
fn divided(pieces: [&str; 2]) -> Vec<Served> {
    let [first, second] = pieces;
    let mut all = Vec::new();
    for between in [
        json!({"type": "thinking", "thinking": "", "signature": "x"}),
        json!({"type": "redacted_thinking", "data": "x"}),
        json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}),
        json!({"type": "foo"}),
    ] {
        all.extend(messages(pieces, Some(between)));
    }
    let chat =
        |parts: &[Value]| json!({"choices": [{"index": 0, "message": {"role": "assistant", "content": parts}, "finish_reason": "stop"}]});
    all.extend(messages_in_pieces(pieces));
    // Most clients read the first choice of an event, whatever its index.
    let choice = |(index, text): (usize, &str)| json!({"choices": [{"index": index, "delta": {"content": text}, "finish_reason": null}]});
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
    let events = [first, second].into_iter().enumerate().map(choice).chain([end.clone()]).collect();
    all.push(Served { path: "/v1/chat/completions", events, stream: true });
    let (skipped_part, text) = (json!({"type": "foo", "text": BETWEEN}), |text: &str| json!({"type": "text", "text": text}));
    all.push(Served::whole("/v1/chat/completions", chat(&[text(first), skipped_part.clone(), text(second)])));
    let chunk = |content: Value| json!({"choices": [{"index": 0, "delta": {"content": content}}]});
    let events = vec![chunk(json!(first)), chunk(json!([skipped_part])), chunk(json!(second)), end];
    all.push(Served { path: "/v1/chat/completions", events, stream: true });
    for skipped in [json!({"type": "foo", "text": BETWEEN}), json!({"type": "output_text", "text": "", "content": BETWEEN}), json!(BETWEEN)]
    {
        let parts = [output_text(first), skipped, output_text(second)];
        all.push(Served::whole("/v1/responses", response("completed", &[item("a", &parts)])));
    }
    let untyped = json!({"id": "b", "role": "assistant", "content": [output_text(BETWEEN)]});
    let own = |id: &str, text: &str| item(id, &[output_text(text)]);
    all.push(Served::whole("/v1/responses", response("completed", &[own("a", first), untyped, own("c", second)])));
    // The last event lists them the other way round, or not all; so does an item's own.
    let (one, two, other) = (own("a", second), own("b", first), own("c", BETWEEN));
    all.push(response_stream(&[("a", &[second]), ("b", &[first])], &[one.clone(), two.clone()], &[two, one]));
    let (one, two) = (own("a", first), own("b", second));
    let said: [(&str, &[&str]); 3] = [("a", &[first]), ("c", &[BETWEEN]), ("b", &[second])];
    all.push(response_stream(&said, &[one.clone(), other, two.clone()], &[one, two]));
    let short = item("a", &[output_text(first), json!({"type": "foo", "text": BETWEEN}), output_text(second)]);
    all.push(response_stream(&[("a", &[first, BETWEEN, second])], from_ref(&short), from_ref(&short)));
    all
}

fn fixture() -> Fixture {
    Fixture::with_policy(POLICY, "", |received| {
        let served = received.headers.get("x-served").map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default();
        if received.json()["stream"] != true {
            return Scripted::json(200, served);
        }
        Scripted::events(served.split('|').map(|event| {
            let kind = serde_json::from_str::<Value>(event).unwrap()["type"].as_str().map(|kind| format!("event: {kind}\n"));
            format!("{}data: {event}\n\n", kind.unwrap_or_default())
        }))
    })
}

#[test]
fn no_claim_is_put_together_by_clients() {
    let fixture = fixture();
    let neighbours = || messages(ENDING, None).into_iter().chain(messages(ENDING, Some(json!({"type": "foo"}))));
    for served in divided(CLAIM).into_iter().chain(neighbours()) {
        let reply = served.reply(&fixture);
        let readings = served.readings(&reply);
        assert!(readings.iter().all(|reading| !reading.contains(FORGED)), "{:?}\n{readings:?}\n{}", served.events, reply.text());
        assert!(!reply.text().contains(r#""verdict":"pass""#) && reply.header("toolmark-verdict") != "pass", "{}", reply.text());
    }
}

/// But text that only some clients read, between what all read: in chat completions that is refused.
#[test]
fn honest_answers_pass_however_they_are_divided() {
    let fixture = fixture();
    let all = divided(HONEST).into_iter().chain(messages(HONEST, None));
    let refused =
        |served: &Served| served.path == "/v1/chat/completions" && served.events.iter().any(|event| event.to_string().contains("foo"));
    for served in all.filter(|served| !refused(served)) {
        let reply = served.reply(&fixture);
        let readings = served.readings(&reply);
        assert!(reply.text().contains(r#""verdict":"pass""#) || reply.header("toolmark-verdict") == "pass", "{}", reply.text());
        assert!(readings.iter().any(|reading| reading.contains("well with run_it")), "{readings:?}\n{}", reply.text());
    }
    // What only some read may stand before and behind what all read.
    let parts = json!([{"type": "foo", "text": BETWEEN}, {"type": "text", "text": "All is well."}, {"type": "foo", "text": BETWEEN}]);
    let body = json!({"choices": [{"index": 0, "message": {"role": "assistant", "content": parts}, "finish_reason": "stop"}]});
    let reply = Served::whole("/v1/chat/completions", body).reply(&fixture);
    assert_eq!((reply.status, reply.header("toolmark-verdict")), (200, "pass"), "{}", reply.text());
}

/// Whose place in the answer isn't said, or is said otherwise than before, leaves with the place as which it was judged.
#[test]
fn the_place_of_a_text_is_that_of_its_part() {
    let fixture = fixture();
    let delta = |members: Value| {
        let mut event = json!({"type": "response.output_text.delta", "item_id": "a", "output_index": 0, "content_index": 0, "delta": "-"});
        members.as_object().unwrap().iter().for_each(|(name, value)| event[name] = value.clone());
        event
    };
    for odd in [
        json!({"item_id": "b"}),
        json!({"item_id": null}),
        json!({"item_id": 7}),
        json!({"output_index": null}),
        json!({"content_index": null}),
    ] {
        let mut served =
            response_stream(&[("a", &["All", "is"])], &[item("a", &[output_text("All-well")])], &[item("a", &[output_text("All-well")])]);
        served.events[3] = delta(odd.clone());
        served.events.insert(4, delta(json!({"delta": "well"})));
        let reply = served.reply(&fixture);
        let events = wire::events(&reply.text());
        let deltas: Vec<&Value> = events.iter().filter(|event| event["type"] == "response.output_text.delta").collect();
        assert_eq!(deltas.len(), 3, "{odd}: {}", reply.text());
        for event in deltas {
            let place = [&event["item_id"], &event["output_index"], &event["content_index"]];
            assert_eq!(place, [&json!("a"), &json!(0), &json!(0)], "{odd}: {}", reply.text());
        }
    }
    // What no client can place is refused.
    for index in [json!("1"), json!(-1), json!(0.5), json!(1e300)] {
        let mut served = response_stream(&[("a", &["All"])], &[item("a", &[output_text("All")])], &[item("a", &[output_text("All")])]);
        served.events[2]["content_index"] = index;
        assert!(served.reply(&fixture).text().contains(r#""code":"upstream_protocol""#));
    }
}

/// A call leaves in the namespace in which it was judged.
#[test]
fn a_calls_namespace_is_the_same_in_all_its_copies() {
    let fixture = fixture();
    let tools = json!([{"type": "namespace", "name": "crm", "description": "x", "tools": [{"type": "function", "name": "delete", "parameters": {"type": "object"}}]}]);
    let call = |namespace: bool, arguments: &str| {
        let mut call =
            json!({"type": "function_call", "id": "fc", "call_id": "c", "name": "delete", "arguments": arguments, "status": "completed"});
        if namespace {
            call["namespace"] = json!("crm");
        }
        call
    };
    for [added, done, ended] in [[true, false, false], [false, true, false], [false, false, true], [true, true, true]] {
        let events = [
            json!({"type": "response.created", "response": response("in_progress", &[])}),
            json!({"type": "response.output_item.added", "output_index": 0, "item": call(added, "")}),
            json!({"type": "response.output_item.done", "output_index": 0, "item": call(done, "{}")}),
            json!({"type": "response.completed", "response": response("completed", &[call(ended, "{}")])}),
        ];
        let served = events.iter().map(Value::to_string).collect::<Vec<_>>().join("|");
        let request = json!({"model": "m", "stream": true, "input": "hi", "tools": tools});
        let mut connection = Connection::open(fixture.proxy.address());
        let reply = connection.post("/v1/responses", &format!("x-served: {served}\r\n"), request.to_string().as_bytes());
        let events = wire::events(&reply.text());
        let items = events
            .iter()
            .flat_map(|event| [&event["item"], &event["response"]["output"][0]])
            .filter(|item| item["type"] == "function_call");
        let namespaces: Vec<&Value> = items.map(|item| &item["namespace"]).collect();
        assert_eq!(namespaces, [&json!("crm"); 3], "{}", reply.text());
    }
}

/// How an answer ends is said at its end.
#[test]
fn a_beginning_explains_no_refusal() {
    let fixture = fixture();
    let mut served = messages(["Hello", " there."], None).into_iter().nth(1).unwrap();
    served.events[0]["message"]["stop_details"] = json!({"type": "refusal", "explanation": CLAIM.concat()});
    let reply = served.reply(&fixture);
    assert!(!reply.text().contains(FORGED) && reply.text().contains("Hello"), "{}", reply.text());
}

/// LangChain looks for choices in a `chunk` where there are none.
#[test]
fn no_choices_leave_in_a_chunk() {
    let fixture = fixture();
    let piece = |text: &str| json!({"choices": [], "chunk": {"choices": [{"index": 0, "delta": {"content": text}}]}});
    let said = json!({"choices": [{"index": 0, "delta": {"content": "Hello."}, "finish_reason": "stop"}]});
    let served = Served { path: "/v1/chat/completions", events: vec![piece(CLAIM[0]), piece(CLAIM[1]), said], stream: true };
    let text = served.reply(&fixture).text();
    assert!(text.contains("Hello.") && !text.contains("chunk\":{") && !text.contains("90 Mbit/s"), "{text}");
}

/// Applications append an answer's message as it is: as a user's it would begin the conversation anew.
#[test]
fn an_answers_role_is_the_assistants() {
    let fixture = fixture();
    for role in ["user", "tool", "system", "assistant"] {
        let mut all: Vec<Served> = messages(HONEST, None).into();
        let message = json!({"role": role, "content": "Hello."});
        all.push(Served::whole("/v1/chat/completions", json!({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})));
        let events = vec![json!({"choices": [{"index": 0, "delta": message, "finish_reason": "stop"}]})];
        all.push(Served { path: "/v1/chat/completions", events, stream: true });
        let own = item("a", &[output_text("Hello.")]);
        all.push(Served::whole("/v1/responses", response("completed", from_ref(&own))));
        all.push(response_stream(&[("a", &["Hello."])], from_ref(&own), from_ref(&own)));
        for mut served in all {
            let text = serde_json::to_string(&served.events).unwrap().replace(r#""role":"assistant""#, &format!(r#""role":"{role}""#));
            served.events = serde_json::from_str(&text).unwrap();
            let reply = served.reply(&fixture);
            assert!(reply.text().contains(r#""role":"assistant""#) || reply.text().contains(r#""role": "assistant""#), "{}", reply.text());
            assert!(
                ["user", "tool", "system"].iter().all(|other| !reply.text().contains(&format!(r#""role":"{other}""#))),
                "{}",
                reply.text()
            );
        }
    }
}

/// What is verified is what goes up.
#[test]
fn a_call_of_the_history_says_one_thing() {
    let fixture = fixture();
    let function = json!({"name": "run_it", "arguments": "{}"});
    for call in [
        json!({"id": "x", "type": "function", "function": function, "custom": {"name": "shell", "input": "rm"}}),
        json!({"id": "x", "type": "function", "function": {"name": "run_it", "arguments": "{}", "input": "rm"}}),
    ] {
        let messages = json!([{"role": "user", "content": "hi"}, {"role": "assistant", "content": null, "tool_calls": [call]}]);
        let mut connection = Connection::open(fixture.proxy.address());
        let reply = connection.post("/v1/chat/completions", "", json!({"model": "m", "messages": messages}).to_string().as_bytes());
        assert_eq!((reply.status, reply.error_code()), (400, "invalid_request".to_owned()), "{call}: {}", reply.text());
    }
}
