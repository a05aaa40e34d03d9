//! The scripted model of `model.rs` behind a Responses API as strict as OpenAI's: calls and their outputs must pair
//! up, references must lead somewhere, and what it stored it knows again.
//!
//! Sources: the API reference, "Create a model response" and "Streaming events"; the errors' words are those of the live API.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, PoisonError},
};

use serde_json::{Value, json};
use toolmark::testing::{Received, ScriptedReply, ScriptedUpstream};

use super::{
    model::{self, Turn, next_turn},
    responses_events::streamed,
};
use crate::harness::post;

/// Longest that a `call_id` may be.
const CALL_ID_MAX: usize = 64;

/// What an application gets instead of an answer.
type Refusal = (u16, &'static str, String);

/// What a model behind [`strict`] does: the request, and the conversation as messages.
pub type Script = fn(&Value, &[Value]) -> Turn;

/// A model with a memory: a script for [`toolmark::testing::ScriptedUpstream`].
pub fn responses_model() -> impl Fn(&Received) -> ScriptedReply + Send + Sync + 'static {
    strict(|_, messages| next_turn(messages))
}

/// The API with another model behind it. One named `o…` thinks before it speaks.
pub fn strict(script: Script) -> impl Fn(&Received) -> ScriptedReply + Send + Sync + 'static {
    let memory = Mutex::new(Memory::default());
    move |received| match &*received.line {
        "POST /v1/responses" => memory.lock().unwrap_or_else(PoisonError::into_inner).answer(&received.json(), script),
        "POST /v1/chat/completions" => model::model(received),
        line => match line.strip_prefix("GET /v1/responses/") {
            Some(id) => memory.lock().unwrap_or_else(PoisonError::into_inner).fetch(id),
            None => error(404, "invalid_request_error", &format!("Invalid URL ({line})")),
        },
    }
}

/// What the API stored, unless it was told not to.
#[derive(Default)]
struct Memory {
    answered: usize,
    calls: usize,
    /// By a response's ID: its whole conversation, its own items included.
    conversations: HashMap<String, Vec<Value>>,
    /// Made in the background: the request, the response, its conversation, and true if somebody asked for it.
    awaited: HashMap<String, (Value, Value, Vec<Value>, bool)>,
    /// By their own IDs.
    items: HashMap<String, Value>,
    /// The ID of the reasoning right before an item, by the item's ID.
    thought: HashMap<String, String>,
}

impl Memory {
    fn answer(&mut self, request: &Value, script: Script) -> ScriptedReply {
        let conversation = match check_tools(request).and_then(|()| self.conversation(request)) {
            Ok(conversation) => conversation,
            Err((status, kind, message)) => return error(status, kind, &message),
        };
        let messages: Vec<Value> = conversation.iter().filter_map(message).collect();
        let thinks = request["model"].as_str().is_some_and(|model| model.starts_with('o'));
        let (mut output, broken) = match script(request, &messages) {
            Turn::Reject => return error(400, "invalid_request_error", "the script says no"),
            Turn::Break if request["stream"] != true => return error(500, "server_error", "the model fell over"),
            Turn::Break => (self.output(thinks, "It is sunny in Paris, and ", &[]), true),
            Turn::Say(text) => (self.output(thinks, &text, &[]), false),
            Turn::Call(text, calls) => (self.output(thinks, text, &calls), false),
        };
        let encrypted = request["include"].as_array().is_some_and(|include| include.contains(&json!("reasoning.encrypted_content")));
        output
            .iter_mut()
            .filter(|item| encrypted && item["type"] == "reasoning")
            .for_each(|item| item["encrypted_content"] = json!("gAAA"));
        self.answered += 1;
        let id = format!("resp_{:048x}", self.answered);
        if request["background"] == true && request["stream"] != true {
            let queued = response(&id, request, Vec::new());
            self.awaited.insert(id.clone(), (request.clone(), response(&id, request, output), conversation, false));
            return ScriptedReply::json(200, queued.to_string()).header("x-request-id", "req_1");
        }
        let response = response(&id, request, output);
        if !broken {
            self.store(request, &response, conversation);
        }
        match (request["stream"] == true, broken) {
            (true, broken) => streamed(&response, broken),
            (false, _) => ScriptedReply::json(200, response.to_string()).header("x-request-id", "req_1"),
        }
    }

    /// A response that is made in the background is there when it is asked for a second time.
    fn fetch(&mut self, id: &str) -> ScriptedReply {
        let missing = || error(404, "invalid_request_error", &format!("Response with id '{id}' not found."));
        let Some((request, response, conversation, asked)) = self.awaited.get_mut(id) else { return missing() };
        if !std::mem::replace(asked, true) {
            let mut running = response.clone();
            (running["status"], running["output"], running["usage"]) = (json!("in_progress"), json!([]), Value::Null);
            return ScriptedReply::json(200, running.to_string());
        }
        let (request, response, conversation) = (request.clone(), response.clone(), conversation.clone());
        if !self.conversations.contains_key(id) {
            self.store(&request, &response, conversation);
        }
        ScriptedReply::json(200, response.to_string())
    }

    /// A conversation is appended to, whatever `store` says.
    fn store(&mut self, request: &Value, response: &Value, mut conversation: Vec<Value>) {
        let conversation_id = conversation_id(request);
        if request["store"] == false && conversation_id.is_none() {
            return;
        }
        let mut thought = None;
        for item in response["output"].as_array().into_iter().flatten() {
            let id = text(&item["id"]);
            if let Some(thought) = thought.take() {
                self.thought.insert(id.clone(), thought);
            }
            thought = Some(id.clone()).filter(|_| item["type"] == "reasoning");
            self.items.insert(id, item.clone());
            conversation.push(item.clone());
        }
        self.conversations.extend(conversation_id.map(|id| (id, conversation.clone())));
        if request["store"] != false {
            self.conversations.insert(text(&response["id"]), conversation);
        }
    }

    /// All items that the model sees, references looked up.
    fn conversation(&self, request: &Value) -> Result<Vec<Value>, Refusal> {
        let mut conversation = match &request["previous_response_id"] {
            Value::String(id) => {
                self.conversations.get(id).cloned().ok_or_else(|| bad(format!("Previous response with id '{id}' not found.")))?
            }
            // A new one has nothing in it.
            _ => conversation_id(request).and_then(|id| self.conversations.get(&id)).cloned().unwrap_or_default(),
        };
        if request["previous_response_id"].is_string() && !request["conversation"].is_null() {
            return Err(bad("Mutually exclusive parameters: 'conversation' and 'previous_response_id'.".into()));
        }
        if let Some(input) = request["input"].as_str() {
            conversation.push(json!({"type": "message", "role": "user", "content": input}));
        }
        let mut ids = HashSet::new();
        for (at, item) in request["input"].as_array().into_iter().flatten().enumerate() {
            check_item(at, item)?;
            if let Some(id) = item["id"].as_str()
                && !ids.insert(id)
            {
                return Err(bad(format!("Duplicate item found with id {id}. Remove duplicate items from your input and try again.")));
            }
            let id = text(&item["id"]);
            if item["type"] == "reasoning" && !self.items.contains_key(&id) && !item["encrypted_content"].is_string() {
                let why = "Items are not persisted when `store` is set to false.";
                return Err((404, "invalid_request_error", format!("Item with id '{id}' not found. {why}")));
            }
            if item["type"] == "item_reference" {
                let missing = || (404, "invalid_request_error", format!("Item with id '{id}' not found."));
                conversation.push(self.items.get(&id).cloned().ok_or_else(missing)?);
            } else {
                conversation.push(item.clone());
            }
        }
        check_pairs(&conversation)?;
        self.check_thoughts(&conversation)?;
        Ok(conversation)
    }

    /// What follows reasoning comes with it, by their IDs, and the other way round.
    fn check_thoughts(&self, conversation: &[Value]) -> Result<(), Refusal> {
        for (at, item) in conversation.iter().enumerate() {
            let id = text(&item["id"]);
            let next = conversation.get(at + 1).map(|next| text(&next["id"])).unwrap_or_default();
            let bound = self.thought.get(&next) == Some(&id) || !self.items.contains_key(&id) && !next.is_empty();
            if item["type"] == "reasoning" && !bound {
                return Err(bad(format!("Item '{id}' of type 'reasoning' was provided without its required following item.")));
            }
            let before = at.checked_sub(1).map(|before| text(&conversation[before]["id"])).unwrap_or_default();
            if let Some(thought) = self.thought.get(&id).filter(|thought| **thought != before) {
                let kind = text(&item["type"]);
                return Err(bad(format!("Item '{id}' of type '{kind}' was provided without its required 'reasoning' item: '{thought}'.")));
            }
        }
        Ok(())
    }

    /// A thought, if it thinks, a message, if there is something to say, and then the calls.
    fn output(&mut self, thinks: bool, said: &str, calls: &[(&str, &str)]) -> Vec<Value> {
        let mut output = Vec::new();
        if thinks {
            output.push(json!({"type": "reasoning", "id": format!("rs_{:048x}", self.answered), "summary": []}));
        }
        if !said.is_empty() {
            let part = json!({"type": "output_text", "text": said, "annotations": [], "logprobs": []});
            let id = format!("msg_{:048x}", self.answered);
            output.push(json!({"type": "message", "id": id, "status": "completed", "role": "assistant", "content": [part]}));
        }
        for (tool, arguments) in calls {
            self.calls += 1;
            let hash = blake3::hash(&self.calls.to_le_bytes()).to_hex();
            output.push(json!({
                "type": "function_call", "id": format!("fc_{:048x}", self.calls), "call_id": format!("call_{}", &hash[..24]),
                "name": tool, "arguments": arguments, "status": "completed",
            }));
        }
        output
    }
}

fn bad(message: String) -> Refusal {
    (400, "invalid_request_error", message)
}

/// Function tools are flat here.
fn check_tools(request: &Value) -> Result<(), Refusal> {
    let tools = request["tools"].as_array().into_iter().flatten().enumerate();
    for (at, tool) in tools.filter(|(_, tool)| tool["type"] == "function") {
        if !tool["name"].is_string() {
            return Err(bad(format!("Missing required parameter: 'tools[{at}].name'.")));
        }
    }
    Ok(())
}

fn check_item(at: usize, item: &Value) -> Result<(), Refusal> {
    let prefix = match item["type"].as_str().unwrap_or("message") {
        "message" if item["role"].is_string() && (item["content"].is_string() || item["content"].is_array()) => "msg",
        "function_call" if item["name"].is_string() && item["arguments"].is_string() => "fc",
        "function_call_output" if item["output"].is_string() || item["output"].is_array() => "fc",
        "reasoning" if item["summary"].is_array() => "rs",
        "tool_search_output" if item["tools"].is_array() => "",
        "item_reference" if item["id"].is_string() => "",
        kind => return Err(bad(format!("Invalid value: '{kind}' at 'input[{at}]'."))),
    };
    if let Some(id) = item["id"].as_str()
        && !id.starts_with(prefix)
    {
        return Err(bad(format!("Invalid 'input[{at}].id': '{id}'. Expected an ID that begins with '{prefix}'.")));
    }
    if item["call_id"].as_str().is_some_and(|id| id.is_empty() || id.len() > CALL_ID_MAX) {
        return Err(bad(format!("Invalid 'input[{at}].call_id': string too long. Expected a string with maximum length {CALL_ID_MAX}.")));
    }
    Ok(())
}

/// Every output has its call before it, and every call one output.
fn check_pairs(conversation: &[Value]) -> Result<(), Refusal> {
    let mut open: Vec<&str> = Vec::new();
    for item in conversation {
        let call_id = item["call_id"].as_str().unwrap_or_default();
        match item["type"].as_str() {
            Some("function_call") => open.push(call_id),
            Some("function_call_output") => {
                let call = open.iter().position(|open| *open == call_id);
                let orphan = || bad(format!("No tool call found for function call output with call_id {call_id}."));
                open.remove(call.ok_or_else(orphan)?);
            }
            _ => {}
        }
    }
    open.first().map_or(Ok(()), |call_id| Err(bad(format!("No tool output found for function call {call_id}."))))
}

/// An item as chat completions would have it; calls say nothing to the script.
fn message(item: &Value) -> Option<Value> {
    match item["type"].as_str() {
        Some("function_call" | "reasoning" | "tool_search_output") => None,
        Some("function_call_output") => Some(json!({"role": "tool", "content": item["output"]})),
        _ => Some(json!({"role": item["role"], "content": item["content"]})),
    }
}

fn conversation_id(request: &Value) -> Option<String> {
    let conversation = &request["conversation"];
    conversation.as_str().or_else(|| conversation["id"].as_str()).map(str::to_owned)
}

fn response(id: &str, request: &Value, output: Vec<Value>) -> Value {
    let status = if request["background"] == true && output.is_empty() { "queued" } else { "completed" };
    let conversation = conversation_id(request).map_or(Value::Null, |id| json!({ "id": id }));
    let given = |name: &str, default: Value| if request[name].is_null() { default } else { request[name].clone() };
    json!({
        "id": id, "object": "response", "created_at": 1_700_000_000, "status": status, "background": request["background"] == true, "error": null,
        "conversation": conversation,
        "incomplete_details": null, "instructions": request["instructions"], "max_output_tokens": null, "max_tool_calls": null,
        "model": "scripted-1", "output": output, "parallel_tool_calls": given("parallel_tool_calls", json!(true)),
        "previous_response_id": request["previous_response_id"], "prompt_cache_key": null,
        "reasoning": {"effort": null, "summary": null}, "safety_identifier": null, "service_tier": "default",
        "store": given("store", json!(true)), "temperature": 1.0, "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "tool_choice": given("tool_choice", json!("auto")), "tools": given("tools", json!([])), "top_logprobs": 0, "top_p": 1.0,
        "truncation": "disabled", "user": null, "metadata": {},
        "usage": {
            "input_tokens": 10, "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 1}, "total_tokens": 15,
        },
    })
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn error(status: u16, kind: &str, message: &str) -> ScriptedReply {
    let error = json!({"message": message, "type": kind, "param": "input", "code": null});
    ScriptedReply::json(status, json!({ "error": error }).to_string())
}

#[test]
fn the_model_is_strict() {
    let upstream = ScriptedUpstream::start(responses_model()).unwrap();
    let ask = |request: Value| {
        let answer = post(&format!("{}/responses", upstream.base_url()), &request.to_string(), "Bearer test");
        (answer.status, answer.json())
    };
    let user = json!({"role": "user", "content": "What is the weather in Paris?"});
    let (status, first) = ask(json!({"model": "m", "input": [user]}));
    let [said, call] = &first["output"].as_array().unwrap()[..] else { panic!("{first}") };
    assert_eq!((status, &said["type"], &call["name"]), (200, &json!("message"), &json!("get_weather")));
    let output = |call_id: &Value| json!({"type": "function_call_output", "call_id": call_id, "output": "18 degrees"});
    let answered = output(&call["call_id"]);
    let bare = json!({"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": "{}"});
    let (reference, nowhere) = (json!({"type": "item_reference", "id": said["id"]}), json!({"type": "item_reference", "id": "msg_none"}));
    let foreign = json!({"type": "function_call", "id": "call_1", "call_id": "call_1", "name": "get_weather", "arguments": "{}"});
    for (input, previous, status, said) in [
        (json!([user, said, call, answered]), Value::Null, 200, ""),
        (json!([user, call, said, answered]), Value::Null, 200, ""),
        (json!([user, reference, call, answered]), Value::Null, 200, ""),
        (json!([answered]), first["id"].clone(), 200, ""),
        (json!([answered]), json!("resp_none"), 400, "Previous response with id 'resp_none' not found."),
        (json!([user, nowhere, call, answered]), Value::Null, 404, "Item with id 'msg_none' not found."),
        (json!([user, answered]), Value::Null, 400, "No tool call found for function call output with call_id call_"),
        (json!([user, answered, call]), Value::Null, 400, "No tool call found for function call output with call_id call_"),
        (json!([user, call, answered, answered]), Value::Null, 400, "No tool call found for function call output with call_id call_"),
        (json!([user, call]), Value::Null, 400, "No tool output found for function call call_"),
        (json!("And now?"), first["id"].clone(), 400, "No tool output found for function call call_"),
        (json!([output(&json!("call_1"))]), first["id"].clone(), 400, "No tool call found for function call output with call_id call_1."),
        (json!([user, call, answered, said, said]), Value::Null, 400, "Duplicate item found with id msg_"),
        (json!([user, foreign, output(&json!("call_1"))]), Value::Null, 400, "Invalid 'input[1].id': 'call_1'."),
        (json!([user, bare, output(&json!("call_1"))]), Value::Null, 200, ""),
        (json!([user, {"type": "no_such"}]), Value::Null, 400, "Invalid value: 'no_such' at 'input[1]'."),
    ] {
        let (found, body) = ask(json!({"model": "m", "input": input, "previous_response_id": previous}));
        assert_eq!(found, status, "{input}: {body}");
        assert!(body["error"]["message"].as_str().unwrap_or_default().starts_with(said), "{input}: {body}");
    }
    let (_, kept) = ask(json!({"model": "m", "input": "Hello", "store": false}));
    let (status, body) = ask(json!({"model": "m", "input": [answered], "previous_response_id": kept["id"]}));
    assert_eq!(status, 400, "{body}");
    let chat = json!({"type": "function", "function": {"name": "get_weather"}});
    let (status, body) = ask(json!({"model": "m", "input": "Hello", "tools": [chat]}));
    assert_eq!((status, &body["error"]["message"]), (400, &json!("Missing required parameter: 'tools[0].name'.")));
}
