//! A to-do server, a scripted model, and a proxy between.

use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};

use serde_json::{Value, json};
use toolmark::testing::{Received, ScriptedReply, TodoServer};

use crate::harness::{Answer, Fixture};

/// Settings of the to-do server; `URL` stands for where it is.
pub const TODO: &str =
    "[[mcp]]\nname = \"todo\"\nurl = \"URL\"\nexecute = \"proxy\"\nrequired = true\nexpect = [\"add_task\", \"list_tasks\"]\n";

/// What the model says, seeing these messages: text, and calls as name and arguments.
pub type Turn = (String, Vec<(String, String)>);
pub type Line = Box<dyn Fn(&[Value]) -> Turn + Send + Sync>;

pub fn turn(text: &str, calls: &[(&str, &str)]) -> Turn {
    (text.to_owned(), calls.iter().map(|(name, arguments)| ((*name).to_owned(), (*arguments).to_owned())).collect())
}

pub fn say(text: &str) -> Line {
    let text = text.to_owned();
    Box::new(move |_| turn(&text, &[]))
}

pub fn call(name: &str, arguments: &str) -> Line {
    let (name, arguments) = (name.to_owned(), arguments.to_owned());
    Box::new(move |_| turn("", &[(&name, &arguments)]))
}

pub fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

/// Not from somebody whose own server had this port before.
fn is_ours(received: &Received) -> bool {
    received.headers.get("authorization").is_some_and(|value| value == "Bearer test" || value == "Bearer sk-test")
}

pub struct Stage {
    pub fixture: Fixture,
    pub todo: TodoServer,
}

/// What the application saw.
#[derive(Debug, Default)]
pub struct Seen {
    pub status: u16,
    pub text: String,
    /// Name, arguments, mark.
    pub calls: Vec<(String, String, String)>,
    pub verdict: String,
    pub codes: String,
    pub body: String,
}

impl Seen {
    /// As the application keeps it.
    pub fn message(&self) -> Value {
        let mut message = json!({"role": "assistant", "content": self.text});
        if !self.calls.is_empty() {
            let call = |(name, arguments, id): &(String, String, String)| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
            message["tool_calls"] = self.calls.iter().map(call).collect();
        }
        message
    }
}

/// The model's answer on the wire.
pub fn wire((text, calls): Turn, stream: bool) -> ScriptedReply {
    let finish = if calls.is_empty() { "stop" } else { "tool_calls" };
    let call = |(at, (name, arguments)): (usize, &(String, String))| json!({"index": at, "id": format!("call_{at}"), "type": "function", "function": {"name": name, "arguments": arguments}});
    let calls: Vec<Value> = calls.iter().enumerate().map(call).collect();
    if !stream {
        let mut message = json!({"role": "assistant", "content": if text.is_empty() { Value::Null } else { text.into() }});
        if !calls.is_empty() {
            message["tool_calls"] = calls.into();
        }
        let choice = json!({"index": 0, "message": message, "finish_reason": finish});
        return ScriptedReply::json(
            200,
            json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}).to_string(),
        );
    }
    let chunk = |delta: Value, finish: Value| json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
    let mut chunks = vec![chunk(json!({"role": "assistant", "content": ""}), Value::Null)];
    if !text.is_empty() {
        chunks.push(chunk(json!({ "content": text }), Value::Null));
    }
    chunks.extend(calls.into_iter().map(|call| chunk(json!({"tool_calls": [call]}), Value::Null)));
    chunks.push(chunk(json!({}), finish.into()));
    ScriptedReply::chunks(chunks)
}

impl Stage {
    /// With these settings of servers, and a model that says one line after the other, the last for ever.
    pub fn new(policy: &str, settings: &str, lines: Vec<Line>) -> Self {
        let todo = TodoServer::start().unwrap();
        let settings = settings.replace("URL", &todo.url());
        let (lines, at) = (Mutex::new(lines), AtomicUsize::new(0));
        let fixture = Fixture::with_policy(policy, &settings, move |received| {
            if !is_ours(received) {
                return ScriptedReply::json(404, "{}");
            }
            let request = received.json();
            let messages = request["messages"].as_array().cloned().unwrap_or_default();
            let lines = lines.lock().unwrap();
            let line = lines.get(at.fetch_add(1, Ordering::Relaxed)).or(lines.last()).unwrap();
            wire(line(&messages), request["stream"] == true)
        });
        Self { fixture, todo }
    }

    pub fn ask(&self, messages: &[Value], stream: bool) -> Seen {
        self.ask_with(messages, &[], stream)
    }

    /// With these tools of the application's own.
    pub fn ask_with(&self, messages: &[Value], tools: &[&str], stream: bool) -> Seen {
        let mut request = json!({"model": "m", "messages": messages, "stream": stream});
        if !tools.is_empty() {
            let tool =
                |name: &&str| json!({"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}});
            request["tools"] = tools.iter().map(tool).collect();
        }
        read(&self.fixture.chat(&request.to_string()), stream)
    }

    /// The requests that the model got.
    pub fn asked(&self) -> Vec<Value> {
        self.fixture.upstream.received().iter().filter(|received| is_ours(received)).map(Received::json).collect()
    }

    /// The last message's content of the request of this number.
    pub fn result(&self, number: usize) -> String {
        let asked = self.asked();
        let last = asked[number]["messages"].as_array().and_then(|messages| messages.last()).cloned().unwrap_or_default();
        assert_eq!(last["role"], "tool", "{last}");
        last["content"].as_str().unwrap_or_default().to_owned()
    }
}

pub fn read(answer: &Answer, stream: bool) -> Seen {
    let mut seen = Seen { status: answer.status, body: answer.body.clone(), ..Seen::default() };
    if !stream || answer.status != 200 {
        let json = answer.json();
        let message = &json["choices"][0]["message"];
        seen.text = message["content"].as_str().unwrap_or_default().to_owned();
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            seen.calls.push((text(&call["function"]["name"]), text(&call["function"]["arguments"]), text(&call["id"])));
        }
        seen.verdict = answer.header("toolmark-verdict").to_owned();
        seen.codes = answer.header("toolmark-violations").to_owned();
        return seen;
    }
    for event in answer.events() {
        let delta = &event["choices"][0]["delta"];
        seen.text.push_str(delta["content"].as_str().unwrap_or_default());
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            let at = call["index"].as_u64().unwrap() as usize;
            if seen.calls.len() <= at {
                seen.calls.resize(at + 1, Default::default());
            }
            let own = &mut seen.calls[at];
            own.0.push_str(call["function"]["name"].as_str().unwrap_or_default());
            own.1.push_str(call["function"]["arguments"].as_str().unwrap_or_default());
            own.2.push_str(call["id"].as_str().unwrap_or_default());
        }
    }
    let comment = answer.body.lines().filter_map(|line| line.strip_prefix(": toolmark ")).next_back().unwrap_or("{}");
    let verdict: Value = serde_json::from_str(comment).unwrap();
    seen.verdict = verdict["verdict"].as_str().unwrap_or_default().to_owned();
    seen.codes = verdict["violations"].to_string();
    seen
}
