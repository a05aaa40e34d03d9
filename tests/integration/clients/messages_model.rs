//! The scripted model of `model.rs` behind a Messages API as strict as Anthropic's: members it doesn't know, blank texts, ids,
//! calls and results that don't pair, and thinking that is bound to another conversation are refused.
//!
//! Sources: Anthropic API reference, "Messages", "Handle tool calls" and "Preserved thinking"; the errors' words are those of the live API.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Mutex,
};

use serde_json::{Map, Value, json};
use toolmark::testing::{Received, ScriptedReply};

use super::model::{Turn, next_turn, pieces};

/// What an application gets instead of an answer.
type Refusal = (u16, &'static str, String);

/// What a model behind [`strict`] does: the request, and the conversation as messages of chat completions.
pub type Script = fn(&Value, &[Value]) -> Turn;

const MEMBERS: [&str; 17] = [
    "model",
    "max_tokens",
    "messages",
    "system",
    "tools",
    "tool_choice",
    "stream",
    "stop_sequences",
    "thinking",
    "output_config",
    "metadata",
    "cache_control",
    "service_tier",
    "context_management",
    "temperature",
    "top_p",
    "top_k",
];

/// The model of `model.rs`.
pub fn messages_model(received: &Received) -> ScriptedReply {
    strict(received, |_, messages| next_turn(messages))
}

/// The API with another model behind it.
pub fn strict(received: &Received, script: Script) -> ScriptedReply {
    strict_with(received, script, None)
}

/// Threads that the API keeps, by the ids of the answers that they can go on from. `None`: it went on.
#[derive(Default)]
pub struct Threads(Mutex<HashMap<String, Option<Value>>>);

/// The API with message threads, as strict about them: an answer can be gone on from once, and `system` and `tools` are the thread's.
///
/// Source: Anthropic's documentation, "Message threads".
pub fn strict_with_threads(script: Script) -> impl Fn(&Received) -> ScriptedReply + Send + Sync + 'static {
    let threads = Threads::default();
    move |received| strict_with(received, script, Some(&threads))
}

impl Threads {
    /// The whole conversation of a request, as the API has it.
    fn whole(&self, request: &Value) -> Result<Value, Refusal> {
        let thread = &request["thread"];
        let mut whole = request.clone();
        whole.as_object_mut().unwrap().remove("thread");
        match thread["type"].as_str() {
            Some("create") => Ok(whole),
            Some("continue") => {
                let mut kept = self.0.lock().unwrap();
                let known = kept.get_mut(thread["previous_message_id"].as_str().unwrap_or_default());
                let known = known.ok_or((404, "thread_not_found", "No usable Thread state was found".into()))?;
                if ["system", "tools"].iter().any(|name| whole.get(*name).is_some()) {
                    return Err(bad("thread: `system` and `tools` can't be sent with `continue`".into()));
                }
                let known = known.take().ok_or((400, "thread_already_continued", "The response has already been continued".into()))?;
                for name in ["system", "tools"] {
                    if known.get(name).is_some() {
                        whole[name] = known[name].clone();
                    }
                }
                let both = [&known["messages"], &request["messages"]].map(|own| own.as_array().cloned().unwrap_or_default());
                whole["messages"] = both.concat().into();
                Ok(whole)
            }
            _ => Err(bad("thread: unexpected".into())),
        }
    }

    /// Keeps the conversation up to an answer.
    fn keep(&self, mut whole: Value, id: String, content: &[Value]) {
        whole["messages"].as_array_mut().unwrap().push(json!({"role": "assistant", "content": content}));
        self.0.lock().unwrap().insert(id, Some(whole));
    }
}

fn strict_with(received: &Received, script: Script, threads: Option<&Threads>) -> ScriptedReply {
    let line = received.line.split('?').next().unwrap_or_default();
    match line {
        "POST /v1/messages" => answer(received, script, threads).unwrap_or_else(|(status, kind, message)| error(status, kind, &message)),
        "POST /v1/messages/count_tokens" => ScriptedReply::json(200, r#"{"input_tokens":10}"#),
        "HEAD /api/hello" | "GET /api/hello" => ScriptedReply::json(200, "{}"),
        line => error(404, "not_found_error", &format!("Not found: {line}")),
    }
}

fn answer(received: &Received, script: Script, threads: Option<&Threads>) -> Result<ScriptedReply, Refusal> {
    let header = |name: &str| received.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if header("x-api-key") != "sk-test" && header("authorization") != "Bearer sk-test" {
        return Err((401, "authentication_error", "invalid x-api-key".into()));
    }
    let version = header("anthropic-version");
    if !matches!(version, "2023-06-01" | "2026-10-21") {
        return Err(bad(format!("anthropic-version: \"{version}\" is not a valid version")));
    }
    let sent = received.json();
    let threads = threads.filter(|_| header("anthropic-beta").contains("message-threads-2026-08-12") && !sent["thread"].is_null());
    let request = threads.map_or(Ok(sent.clone()), |threads| threads.whole(&sent))?;
    let messages = checked(&request, version)?;
    let conversation = as_chat(&messages);
    let asked = conversation.iter().rev().find(|message| message["role"] == "user").map(|message| message["content"].clone());
    let mut reply = Reply::new(&request, &messages);
    if asked == Some(json!("Cut the stream.")) {
        return Ok(reply.cut());
    }
    let (text, calls) = match script(&request, &conversation) {
        Turn::Reject => return Err(bad("the script says no".into())),
        Turn::Break if request["stream"] == true => return Ok(reply.broken()),
        Turn::Break => return Err((500, "api_error", "the model fell over".into())),
        Turn::Say(text) => (text, Vec::new()),
        Turn::Call(text, calls) => (text.to_owned(), calls),
    };
    reply.say(&text, &calls);
    if let Some(threads) = threads {
        threads.keep(request, reply.message_id(), &reply.content);
    }
    Ok(reply.end(!calls.is_empty()))
}

fn bad(message: String) -> Refusal {
    (400, "invalid_request_error", message)
}

fn error(status: u16, kind: &str, message: &str) -> ScriptedReply {
    let error = match kind.strip_prefix("thread_") {
        Some(_) => {
            let named = if status == 404 { "not_found_error" } else { "invalid_request_error" };
            json!({"type": named, "message": message, "details": {"error_code": kind}})
        }
        None => json!({"type": kind, "message": message}),
    };
    let error = json!({"type": "error", "error": error, "request_id": "req_1"});
    ScriptedReply::json(status, error.to_string()).header("x-should-retry", "false").header("request-id", "req_1")
}

/// Blocks of a content.
fn blocks(content: &Value) -> Vec<Value> {
    match content {
        Value::String(text) => vec![json!({"type": "text", "text": text})],
        blocks => blocks.as_array().cloned().unwrap_or_default(),
    }
}

/// The same without `cache_control`, which is outside of every comparison.
pub fn without_cache_control(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(without_cache_control).collect(),
        Value::Object(members) => {
            let kept = members.iter().filter(|(name, _)| *name != "cache_control");
            Value::Object(kept.map(|(name, value)| (name.clone(), without_cache_control(value))).collect())
        }
        other => other.clone(),
    }
}

/// Messages as the API reads them: contents are blocks, consecutive messages of one role are one.
pub fn merged(request: &Value) -> Vec<Value> {
    let mut messages: Vec<Value> = Vec::new();
    for message in request["messages"].as_array().into_iter().flatten() {
        let own = blocks(&without_cache_control(&message["content"]));
        match messages.last_mut().filter(|last| last["role"] == message["role"]) {
            Some(last) => last["content"].as_array_mut().unwrap().extend(own),
            None => messages.push(json!({"role": message["role"], "content": own})),
        }
    }
    messages
}

/// The request's messages, if the API takes them.
fn checked(request: &Value, version: &str) -> Result<Vec<Value>, Refusal> {
    let members = request.as_object().ok_or_else(|| bad("not an object".into()))?;
    if let Some(name) = members.keys().find(|name| !MEMBERS.contains(&name.as_str())) {
        return Err(bad(format!("{name}: Extra inputs are not permitted")));
    }
    if version != "2023-06-01"
        && let Some(name) = ["temperature", "top_p", "top_k"].into_iter().find(|name| members.contains_key(*name))
    {
        return Err(bad(format!("{name}: Extra inputs are not permitted")));
    }
    for name in ["model", "max_tokens", "messages"] {
        if !members.contains_key(name) {
            return Err(bad(format!("{name}: Field required")));
        }
    }
    check_tools(request)?;
    let messages = merged(request);
    if messages.last().is_none_or(|last| last["role"] == "assistant") {
        return Err(bad("messages: the conversation must end with a user message".into()));
    }
    let mut before: Option<&Value> = None;
    for (at, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        match role {
            "system" if before.is_none_or(|before| before["role"] != "user") => {
                return Err(bad(format!("messages.{at}: role system must follow a user message")));
            }
            "user" | "assistant" | "system" => {}
            role => return Err(bad(format!("messages.{at}.role: unexpected `{role}`"))),
        }
        for (place, block) in message["content"].as_array().unwrap().iter().enumerate() {
            check_block(&format!("messages.{at}.content.{place}"), role, block)?;
        }
        check_pairs(at, before, message)?;
        before = Some(message);
    }
    check_thinking(request, &messages)?;
    Ok(messages)
}

fn is_name(text: &Value, longest: usize) -> bool {
    let text = text.as_str().unwrap_or_default();
    !text.is_empty() && text.len() <= longest && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}

fn check_tools(request: &Value) -> Result<(), Refusal> {
    let mut names = HashSet::new();
    for (at, tool) in request["tools"].as_array().into_iter().flatten().enumerate() {
        let known = [
            "name",
            "description",
            "input_schema",
            "type",
            "strict",
            "cache_control",
            "eager_input_streaming",
            "defer_loading",
            "input_examples",
            "allowed_callers",
        ];
        if let Some(name) = tool.as_object().into_iter().flat_map(Map::keys).find(|name| !known.contains(&name.as_str())) {
            return Err(bad(format!("tools.{at}.custom.{name}: Extra inputs are not permitted")));
        }
        if !is_name(&tool["name"], 128) || !names.insert(tool["name"].as_str().unwrap_or_default()) {
            return Err(bad(format!("tools.{at}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")));
        }
        let schema = &tool["input_schema"];
        if schema["type"] != "object" || ["oneOf", "anyOf", "allOf"].iter().any(|name| !schema[*name].is_null()) {
            return Err(bad(format!("tools.{at}.custom.input_schema: Input should be an object")));
        }
    }
    let choice = &request["tool_choice"];
    if !choice.is_null() && !matches!(choice["type"].as_str(), Some("auto" | "any" | "tool" | "none")) {
        return Err(bad("tool_choice: unexpected".into()));
    }
    if matches!(choice["type"].as_str(), Some("any" | "tool")) && request["thinking"]["type"] == "enabled" {
        return Err(bad("Thinking may not be enabled when tool_choice forces tool use.".into()));
    }
    Ok(())
}

fn check_block(place: &str, role: &str, block: &Value) -> Result<(), Refusal> {
    let known: &[&str] = match (role, block["type"].as_str().unwrap_or_default()) {
        (_, "text") => &["type", "text", "citations"],
        ("assistant", "thinking") => &["type", "thinking", "signature"],
        ("assistant", "tool_use") => &["type", "id", "name", "input", "caller"],
        ("user", "tool_result") => &["type", "tool_use_id", "content", "is_error"],
        ("user", "image" | "document") => &["type", "source", "title", "context", "citations"],
        (role, kind) => return Err(bad(format!("{place}.type: `{kind}` is not allowed in a message of role {role}"))),
    };
    if let Some(name) = block.as_object().into_iter().flat_map(Map::keys).find(|name| !known.contains(&name.as_str())) {
        return Err(bad(format!("{place}.{name}: Extra inputs are not permitted")));
    }
    if block["type"] == "text" && block["text"].as_str().is_none_or(|text| text.trim().is_empty()) {
        return Err(bad("messages: text content blocks must be non-empty".into()));
    }
    for name in ["id", "tool_use_id"] {
        if !block[name].is_null() && !is_name(&block[name], 64) {
            return Err(bad(format!("{place}.{}.{name}: String should match pattern '^[a-zA-Z0-9_-]+$'", block["type"].as_str().unwrap())));
        }
    }
    if block["type"] == "tool_use" && (!block["input"].is_object() || !is_name(&block["name"], 200)) {
        return Err(bad(format!("{place}.tool_use.input: Input should be a valid dictionary")));
    }
    Ok(())
}

/// Results stand in the message after their calls, first, one for each.
fn check_pairs(at: usize, before: Option<&Value>, message: &Value) -> Result<(), Refusal> {
    let ids = |message: &Value, kind: &str, name: &str| -> Vec<String> {
        let own = message["content"].as_array().into_iter().flatten().filter(|block| block["type"] == kind);
        own.map(|block| block[name].as_str().unwrap_or_default().to_owned()).collect()
    };
    let calls = before.filter(|before| before["role"] == "assistant").map(|before| ids(before, "tool_use", "id")).unwrap_or_default();
    let results = ids(message, "tool_result", "tool_use_id");
    if let Some(id) = results.iter().find(|id| !calls.contains(id)) {
        let words = "Each `tool_result` block must have a corresponding `tool_use` block in the previous message.";
        return Err(bad(format!("messages.{at}.content.0: unexpected `tool_use_id` found in `tool_result` blocks: {id}. {words}")));
    }
    let missing: Vec<&str> = calls.iter().filter(|id| !results.contains(id)).map(|id| &**id).collect();
    let first = message["content"].as_array().into_iter().flatten().take(results.len()).all(|block| block["type"] == "tool_result");
    if !missing.is_empty() || !first || results.iter().collect::<HashSet<_>>().len() != results.len() {
        let words = "Each `tool_use` block must have a corresponding `tool_result` block in the next message.";
        let at = at.saturating_sub(1);
        return Err(bad(format!(
            "messages.{at}: `tool_use` ids were found without `tool_result` blocks immediately after: {}. {words}",
            missing.join(", ")
        )));
    }
    Ok(())
}

/// The same, whatever the order in which a client writes its members.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(sorted).collect(),
        Value::Object(members) => {
            members.iter().map(|(name, value)| (name.clone(), sorted(value))).collect::<BTreeMap<_, _>>().into_iter().collect()
        }
        other => other.clone(),
    }
}

/// What a thinking block is signed with: where thinking is adaptive everything that was sent before it, else its text alone.
fn signature(request: &Value, before: &[Value], thought: &str) -> String {
    let bound = match request["thinking"]["type"] == "adaptive" {
        true => {
            sorted(&json!([blocks(&without_cache_control(&request["system"])), without_cache_control(&request["tools"]), before, thought]))
        }
        false => json!(thought),
    };
    blake3::hash(bound.to_string().as_bytes()).to_hex().to_string()
}

fn check_thinking(request: &Value, messages: &[Value]) -> Result<(), Refusal> {
    for (at, message) in messages.iter().enumerate() {
        let content = message["content"].as_array().unwrap();
        for (place, block) in content.iter().enumerate().filter(|(_, block)| block["type"] == "thinking") {
            let thought = block["thinking"].as_str().unwrap_or_default();
            if block["signature"] != json!(signature(request, &messages[..at], thought)) {
                let words = "The block is bound to a different conversation.";
                return Err(bad(format!("messages.{at}.content.{place}: Invalid `signature` in `thinking` block. {words}")));
            }
        }
        let in_tool_loop = at + 2 == messages.len() && content.iter().any(|block| block["type"] == "tool_use");
        if in_tool_loop && request["thinking"]["type"] == "enabled" && content[0]["type"] != "thinking" {
            return Err(bad(format!("messages.{at}.content.0.type: Expected `thinking` or `redacted_thinking`, but found another block")));
        }
    }
    Ok(())
}

/// The conversation as chat completions have it, for the script.
fn as_chat(messages: &[Value]) -> Vec<Value> {
    let mut chat = Vec::new();
    let text = |content: &Value| {
        blocks(content).iter().filter_map(|block| block["text"].as_str().map(str::to_owned)).collect::<Vec<_>>().join("\n")
    };
    for message in messages {
        let mut said = Vec::new();
        for block in message["content"].as_array().unwrap() {
            match block["type"].as_str().unwrap() {
                "tool_result" => chat.push(json!({"role": "tool", "content": text(&block["content"]), "is_error": block["is_error"]})),
                "text" => said.push(block["text"].as_str().unwrap().to_owned()),
                _ => {}
            }
        }
        if !said.is_empty() || message["role"] == "assistant" {
            let role = if message["role"] == "system" { "user" } else { message["role"].as_str().unwrap() };
            chat.push(json!({"role": role, "content": said.join("\n")}));
        }
    }
    chat
}

/// An answer that is being written.
struct Reply {
    /// Part of its ids: another conversation has others, as Claude Code takes equal ids for the same message.
    id: String,
    streamed: bool,
    model: String,
    content: Vec<Value>,
    events: Vec<String>,
}

impl Reply {
    /// With a thought first, where the request asks for thinking.
    fn new(request: &Value, messages: &[Value]) -> Self {
        let model = request["model"].as_str().unwrap_or_default().to_owned();
        let id = blake3::hash(json!(messages).to_string().as_bytes()).to_hex()[..20].to_owned();
        let mut reply = Self { id, streamed: request["stream"] == true, model, content: Vec::new(), events: Vec::new() };
        let message = reply.message(&Value::Null);
        reply.event("message_start", json!({ "message": message }));
        if matches!(request["thinking"]["type"].as_str(), Some("enabled" | "adaptive")) {
            let thought = if request["thinking"]["display"] == "omitted" { "" } else { "What is asked for?" };
            let signature = signature(request, messages, thought);
            reply.block(json!({"type": "thinking", "thinking": thought, "signature": signature}));
        }
        reply
    }

    fn message_id(&self) -> String {
        format!("msg_01{}", self.id)
    }

    fn message(&self, stop_reason: &Value) -> Value {
        let usage = json!({"input_tokens": 10, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 5});
        json!({"id": self.message_id(), "type": "message", "role": "assistant", "model": self.model, "content": self.content,
            "stop_reason": stop_reason, "stop_sequence": null, "usage": usage})
    }

    /// Blanks before the closing brace, as Anthropic has them.
    fn event(&mut self, kind: &str, members: Value) {
        let mut data = json!({ "type": kind });
        data.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        let text = data.to_string();
        self.events.push(format!("event: {kind}\ndata: {}   }}\n\n", &text[..text.len() - 1]));
    }

    fn block(&mut self, block: Value) {
        let index = self.content.len();
        self.open(index, &block);
        let deltas: Vec<Value> = match block["type"].as_str().unwrap() {
            "text" => pieces(block["text"].as_str().unwrap()).map(|text| json!({"type": "text_delta", "text": text})).collect(),
            "thinking" => {
                let thought = block["thinking"].as_str().unwrap();
                let mut deltas: Vec<Value> = pieces(thought).map(|text| json!({"type": "thinking_delta", "thinking": text})).collect();
                deltas.push(json!({"type": "signature_delta", "signature": block["signature"]}));
                deltas
            }
            _ => {
                let input = block["input"].to_string();
                let empty = json!({"type": "input_json_delta", "partial_json": ""});
                let input = pieces(&input).map(|text| json!({"type": "input_json_delta", "partial_json": text}));
                [empty].into_iter().chain(input).collect()
            }
        };
        for delta in deltas {
            self.event("content_block_delta", json!({"index": index, "delta": delta}));
        }
        self.event("content_block_stop", json!({ "index": index }));
        self.content.push(block);
    }

    fn open(&mut self, index: usize, block: &Value) {
        let mut start = block.clone();
        match block["type"].as_str().unwrap() {
            "text" => start["text"] = json!(""),
            "thinking" => (start["thinking"], start["signature"]) = (json!(""), json!("")),
            _ => start["input"] = json!({}),
        }
        self.event("content_block_start", json!({"index": index, "content_block": start}));
        if index == 0 {
            self.events.push("event: ping\ndata: {\"type\": \"ping\"}\n\n".into());
        }
    }

    fn say(&mut self, text: &str, calls: &[(&str, &str)]) {
        if !text.is_empty() {
            self.block(json!({"type": "text", "text": text}));
        }
        for (at, (tool, input)) in calls.iter().enumerate() {
            let input: Value = serde_json::from_str(input).unwrap();
            self.block(json!({"type": "tool_use", "id": format!("toolu_01{}{at:02}", self.id), "name": tool, "input": input}));
        }
    }

    fn end(mut self, calls: bool) -> ScriptedReply {
        let stop_reason = json!(if calls { "tool_use" } else { "end_turn" });
        if !self.streamed {
            return ScriptedReply::json(200, self.message(&stop_reason).to_string()).header("request-id", "req_1");
        }
        let usage = self.message(&stop_reason)["usage"].clone();
        self.event("message_delta", json!({"delta": {"stop_reason": stop_reason, "stop_sequence": null}, "usage": usage}));
        self.event("message_stop", json!({}));
        ScriptedReply::events(self.events).header("request-id", "req_1")
    }

    /// A text, and an error in its midst.
    fn broken(mut self) -> ScriptedReply {
        self.begun();
        self.event("error", json!({"error": {"type": "api_error", "message": "the model fell over"}}));
        ScriptedReply::events(self.events)
    }

    /// A text, and nothing more; whole answers have no such end.
    fn cut(mut self) -> ScriptedReply {
        self.begun();
        if self.streamed { ScriptedReply::events(self.events) } else { error(500, "api_error", "the model fell over") }
    }

    fn begun(&mut self) {
        let index = self.content.len();
        self.open(index, &json!({"type": "text", "text": ""}));
        self.event("content_block_delta", json!({"index": index, "delta": {"type": "text_delta", "text": "It is sunny in Paris, and "}}));
    }
}
