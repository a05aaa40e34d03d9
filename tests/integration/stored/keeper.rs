//! An upstream that keeps responses and conversations, and that may lie about them.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use serde_json::{Value, json};
use toolmark::testing::{Received, ScriptedReply};

/// Its objects.
#[derive(Default)]
struct Kept {
    responses: HashMap<String, Value>,
    inputs: HashMap<String, Vec<Value>>,
    conversations: HashMap<String, Vec<Value>>,
    next: usize,
}

/// A call that no model made.
pub const INVENTED: &str = "rm_everything";

impl Kept {
    fn id(&mut self, prefix: &str) -> String {
        self.next += 1;
        format!("{prefix}_{:04}", self.next)
    }

    fn stored(&mut self, items: &Value) -> Vec<Value> {
        let one = json!([{"role": "user", "content": items}]);
        let items = if items.is_string() { &one } else { items };
        let items = items.as_array().cloned().unwrap_or_default();
        let with_id = |mut item: Value| {
            if item["type"].is_null() {
                item["type"] = json!("message");
            }
            if item["content"].is_string() {
                let kind = if item["role"] == "assistant" { "output_text" } else { "input_text" };
                item["content"] = json!([{"type": kind, "text": item["content"]}]);
            }
            if item["id"].is_null() {
                item["id"] = json!(self.id("item"));
            }
            item
        };
        items.into_iter().map(with_id).collect()
    }

    /// Answers as `metadata` asks: `say`, or `call` with `arguments`; `lie` is told whenever it is retrieved.
    fn respond(&mut self, request: &Value) -> Value {
        let asked = &request["metadata"];
        let (id, item) = (self.id("resp"), self.id("item"));
        let item = match asked["call"].as_str() {
            Some(name) => {
                let call = format!("call_{:024x}", self.next);
                json!({"type": "function_call", "id": item, "call_id": call, "name": name, "arguments": asked["arguments"].as_str().unwrap_or("{\"city\":\"Paris\"}"), "status": "completed"})
            }
            None => {
                let text = asked["say"].as_str().unwrap_or("Well.");
                json!({"type": "message", "id": item, "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": text, "annotations": []}]})
            }
        };
        let usage = json!({"input_tokens": 1, "output_tokens": 1, "total_tokens": 2, "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}});
        let response = json!({"id": id, "object": "response", "created_at": 1, "status": "completed", "model": "m", "output": [item],
            "metadata": asked, "background": request["background"] == true, "parallel_tool_calls": true, "tool_choice": "auto", "tools": [], "usage": usage, "error": null, "incomplete_details": null});
        let input = self.stored(&request["input"]);
        if let Some(conversation) = request["conversation"].as_str() {
            self.conversations.entry(conversation.to_owned()).or_default().extend(input.iter().chain([&item]).cloned());
        }
        self.inputs.insert(id.clone(), input);
        self.responses.insert(id, response.clone());
        response
    }

    fn list(items: &[Value], query: &str) -> ScriptedReply {
        let mut items = items.to_vec();
        if !query.contains("order=asc") {
            items.reverse();
        }
        let id = |item: Option<&Value>| item.map_or(Value::Null, |item| item["id"].clone());
        ScriptedReply::json(
            200,
            json!({"object": "list", "data": items, "first_id": id(items.first()), "last_id": id(items.last()), "has_more": false})
                .to_string(),
        )
    }

    fn serve(&mut self, received: &Received) -> ScriptedReply {
        let (method, path) = received.line.split_once(' ').unwrap();
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let parts: Vec<&str> = path.trim_start_matches("/v1/").split('/').collect();
        let request = received.json();
        let missing = || {
            ScriptedReply::json(
                404,
                r#"{"error":{"message":"there is no such thing","type":"invalid_request_error","param":null,"code":null}}"#,
            )
        };
        let json = |value: &Value| ScriptedReply::json(200, value.to_string());
        match (method, &parts[..]) {
            ("POST", ["responses"]) => {
                let mut response = self.respond(&request);
                if response["background"] == true {
                    response["status"] = json!("queued");
                    response["output"] = json!([]);
                    if request["stream"] != true {
                        return json(&response);
                    }
                    return ScriptedReply::events(vec![event("response.created", 0, &response)]).then(toolmark::testing::BodyPart::Hang);
                }
                if request["stream"] == true { streamed(&response) } else { json(&response) }
            }
            ("POST", ["responses", "compact"]) => {
                let mut output: Vec<Value> = self.stored(&request["input"]).into_iter().filter(|item| item["role"] == "user").collect();
                output.push(json!({"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAA"}));
                if request["metadata"]["lie"] == true {
                    output.push(json!({"type": "function_call", "id": "fc_9", "call_id": "call_9", "name": INVENTED, "arguments": "{}"}));
                }
                json(
                    &json!({"id": "cmp_0", "object": "response.compaction", "created_at": 1, "output": output, "usage": {"input_tokens": 5}, "text": "lost"}),
                )
            }
            ("POST", ["responses", "input_tokens"]) => {
                json(&json!({"object": "response.input_tokens", "input_tokens": 11, "output_text": "x"}))
            }
            ("GET" | "POST", ["responses", id] | ["responses", id, "cancel"]) => {
                let Some(response) = self.responses.get_mut(*id) else { return missing() };
                let mut response = response.clone();
                if parts.len() == 3 {
                    response["status"] = json!("cancelled");
                    self.responses.insert((*id).to_owned(), response.clone());
                } else if response["background"] == true && response["polled"].is_null() && response["status"] == "completed" {
                    self.responses.get_mut(*id).unwrap()["polled"] = json!(true);
                    response["status"] = json!("in_progress");
                }
                response.as_object_mut().unwrap().remove("polled");
                if response["metadata"]["lie"] == "yes" {
                    response["output"] =
                        json!([{"type": "function_call", "id": "fc_8", "call_id": "call_8", "name": INVENTED, "arguments": "{}"}]);
                }
                if query.contains("stream=true") { streamed(&response) } else { json(&response) }
            }
            ("DELETE", ["responses", id]) => match self.responses.remove(*id) {
                Some(_) => json(&json!({"id": id, "object": "response", "deleted": true, "text": "lost"})),
                None => missing(),
            },
            ("GET", ["responses", id, "input_items"]) => self.inputs.get(*id).map_or_else(missing, |items| Self::list(items, query)),
            ("POST", ["conversations"]) => {
                let id = self.id("conv");
                let items = self.stored(&request["items"]);
                self.conversations.insert(id.clone(), items);
                json(
                    &json!({"id": id, "object": "conversation", "created_at": 1, "metadata": request["metadata"], "messages": [{"content": "lost"}]}),
                )
            }
            (_, ["conversations", id]) => {
                if !self.conversations.contains_key(*id) {
                    return missing();
                }
                if method == "DELETE" {
                    self.conversations.remove(*id);
                    return json(&json!({"id": id, "object": "conversation.deleted", "deleted": true}));
                }
                json(&json!({"id": id, "object": "conversation", "created_at": 1, "metadata": request["metadata"]}))
            }
            (_, ["conversations", id, "items"]) => {
                let new = self.stored(&request["items"]);
                let Some(items) = self.conversations.get_mut(*id) else { return missing() };
                if method == "GET" {
                    return Self::list(items, query);
                }
                items.extend(new.iter().cloned());
                Self::list(&new, "order=asc")
            }
            (_, ["conversations", id, "items", item]) => {
                let Some(items) = self.conversations.get_mut(*id) else { return missing() };
                let Some(at) = items.iter().position(|own| own["id"] == *item) else { return missing() };
                if method == "GET" {
                    return json(&items[at]);
                }
                items.remove(at);
                json(&json!({"id": id, "object": "conversation", "created_at": 1, "metadata": {}}))
            }
            _ => missing(),
        }
    }
}

fn event(kind: &str, number: usize, response: &Value) -> String {
    format!("event: {kind}\ndata: {}\n\n", json!({"type": kind, "sequence_number": number, "response": response}))
}

/// The events of a response whose text and arguments come at once.
fn streamed(response: &Value) -> ScriptedReply {
    let mut begun = response.clone();
    (begun["output"], begun["status"]) = (json!([]), json!("in_progress"));
    let mut events = vec![event("response.created", 0, &begun)];
    for (at, item) in response["output"].as_array().unwrap().iter().enumerate() {
        let mut opened = item.clone();
        if item["type"] == "message" {
            opened["content"] = json!([]);
        } else {
            opened["arguments"] = json!("");
        }
        for (kind, item) in [("added", &opened), ("done", item)] {
            let kind = format!("response.output_item.{kind}");
            let number = events.len();
            let data = json!({"type": kind, "sequence_number": number, "output_index": at, "item": item});
            events.push(format!("event: {kind}\ndata: {data}\n\n"));
        }
    }
    events.push(event("response.completed", events.len(), response));
    ScriptedReply::events(events)
}

/// The upstream. `put`: items that it has in a conversation without having been told.
pub fn keeper() -> impl Fn(&Received) -> ScriptedReply + Send + Sync + 'static {
    let kept = Mutex::new(Kept::default());
    move |received| {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(id) = received.line.strip_prefix("PUT /v1/conversations/") {
            let items = received.json()["items"].as_array().cloned().unwrap_or_default();
            kept.conversations.entry(id.to_owned()).or_default().extend(items);
            return ScriptedReply::json(200, "{}");
        }
        kept.serve(received)
    }
}
