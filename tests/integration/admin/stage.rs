//! A proxy with an admin listener, and exchanges whose outcome is known.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;
use toolmark::testing::{Proxy, Received, ScriptedReply as Scripted, ScriptedUpstream};

use crate::{
    harness::{Answer, run},
    program::until,
};

pub struct Stage {
    pub proxy: Proxy,
    pub upstream: ScriptedUpstream,
    directory: PathBuf,
    _own: Option<TempDir>,
}

impl Stage {
    /// With a built-in policy's name or a policy's text, and settings besides the upstream's.
    pub fn new(policy: &str, settings: &str) -> Self {
        Self::with_environment(policy, settings, &[])
    }

    pub fn with_environment(policy: &str, settings: &str, environment: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self::start(directory.path(), policy, settings, environment).owning(directory)
    }

    /// In a directory that outlives it.
    pub fn in_directory(directory: &Path, policy: &str, settings: &str) -> Self {
        Self::start(directory, policy, settings, &[])
    }

    fn owning(self, directory: TempDir) -> Self {
        Self { _own: Some(directory), ..self }
    }

    fn start(directory: &Path, policy: &str, settings: &str, environment: &[(&str, &str)]) -> Self {
        let upstream = ScriptedUpstream::start(script).unwrap();
        let builtin = matches!(policy, "default" | "strict" | "observe");
        std::fs::write(directory.join("policy.toml"), policy).unwrap();
        let policy = if builtin { policy } else { "policy.toml" };
        let base_url = upstream.base_url();
        let settings = format!(
            "policy = \"{policy}\"\n[[upstreams]]\nname = \"scripted\"\nbase_url = \"{base_url}\"\n[admin]\nlisten = \"127.0.0.1:0\"\n{settings}"
        );
        let proxy = Proxy::start(&settings, environment, directory).unwrap();
        Self { proxy, upstream, directory: directory.to_owned(), _own: None }
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    pub fn write_policy(&self, text: &str) {
        std::fs::write(self.directory.join("policy.toml"), text).unwrap();
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.proxy.admin_url())
    }

    fn chat(&self, session: &str, body: &Value) -> Answer {
        let url = format!("{}/chat/completions", self.proxy.base_url());
        send("POST", &url, &[("content-type", "application/json"), ("toolmark-session", session)], &body.to_string())
    }

    /// The model invents a tool, and then calls the right one.
    pub fn repaired(&self, session: &str) -> Answer {
        let answer = self.chat(session, &json!({"model": "m", "messages": [question("Weather?")], "tools": tools()}));
        assert_eq!(answer.header("toolmark-verdict"), "repaired", "{answer:?}");
        answer
    }

    /// The result of the call in that answer, and what the model says to it.
    pub fn answered(&self, called: &Answer, session: &str) -> Answer {
        self.returned(called, session, "{\"sky\":\"clear\"}")
    }

    /// The same with this result.
    pub fn returned(&self, called: &Answer, session: &str, result: &str) -> Answer {
        let call = &called.json()["choices"][0]["message"];
        let result = json!({"role": "tool", "tool_call_id": call["tool_calls"][0]["id"], "content": result});
        self.chat(session, &json!({"model": "m", "messages": [question("Weather?"), call, result], "tools": tools()}))
    }

    /// The model cites an execution that never was, again and again.
    pub fn blocked(&self) -> Answer {
        let answer = self.chat("s", &json!({"model": "m", "messages": [question("Cite!")], "tools": tools()}));
        assert_eq!(answer.header("toolmark-verdict"), "blocked", "{answer:?}");
        answer
    }

    /// The model says that it did what no tool did, again and again.
    pub fn claiming(&self) -> Answer {
        self.chat("s", &json!({"model": "m", "messages": [question("Book!")], "tools": tools()}))
    }

    /// The model calls the right tool with these arguments, and never mends it.
    pub fn calling(&self, arguments: &str) -> Answer {
        let text = format!("Call with {arguments}");
        self.chat("s", &json!({"model": "m", "messages": [question(&text)], "tools": tools()}))
    }

    /// Like [`Self::repaired`], with a secret in the request's header and text.
    pub fn with_secret(&self, secret: &str) -> Answer {
        let url = format!("{}/chat/completions", self.proxy.base_url());
        let body = json!({"model": "m", "messages": [question(&format!("Weather? My key is {secret}"))], "tools": tools()});
        let authorization = format!("Bearer {secret}");
        send("POST", &url, &[("content-type", "application/json"), ("authorization", &authorization)], &body.to_string())
    }

    /// A stream.
    pub fn streamed(&self) -> Answer {
        self.chat("s", &json!({"model": "m", "stream": true, "messages": [question("Stream!")], "tools": tools()}))
    }

    /// The upstream fails.
    pub fn failing(&self) -> Answer {
        self.chat("s", &json!({"model": "m", "messages": [question("Fail!")], "tools": tools()}))
    }

    /// The exchange's record, once it is there: it is made behind the answer.
    pub fn exchange(&self, answer: &Answer) -> Value {
        let url = self.url(&format!("/api/exchanges/{}", answer.header("toolmark-exchange")));
        until("the exchange's record", || {
            let found = get(&url);
            (found.status == 200).then(|| found.json())
        })
    }
}

/// What no tool did.
pub const CLAIM: &str = "I have booked a table for two at the harbour.";

fn question(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn tools() -> Value {
    json!([{"type": "function", "function": {"name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}])
}

fn completion(message: &Value) -> Scripted {
    let finish = if message["tool_calls"].is_array() { "tool_calls" } else { "stop" };
    let choice = json!({"index": 0, "message": message, "finish_reason": finish});
    let usage = json!({"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18});
    let body = json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage});
    Scripted::json(200, body.to_string())
}

fn script(received: &Received) -> Scripted {
    let body = received.json();
    let messages = body["messages"].as_array().cloned().unwrap_or_default();
    let said = |text: &str| messages.iter().any(|message| message["content"] == text);
    let call = |name: &str| {
        json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": "call_0", "type": "function", "function": {"name": name, "arguments": "{\"city\":\"Paris\"}"}}]})
    };
    let calls_with = messages.iter().find_map(|message| message["content"].as_str()?.strip_prefix("Call with "));
    if let Some(arguments) = calls_with {
        return completion(&json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": "call_0", "type": "function", "function": {"name": "get_weather", "arguments": arguments}}]}));
    }
    let starting = |start: &str| messages.iter().find_map(|message| message["content"].as_str()?.strip_prefix(start));
    if let Some(text) = starting("Say ") {
        return completion(&json!({"role": "assistant", "content": text}));
    }
    if let Some(name) = starting("Invent ") {
        return completion(&call(name));
    }
    if let Some(words) = starting("Everything ") {
        let own = |id: &str, name: &str, arguments: &Value| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments.to_string()}});
        let calls =
            [own("call_0", words, &json!({ "city": words })), own("call_1", "get_weather", &json!({(words): words, "city": [words]}))];
        return completion(&json!({"role": "assistant", "content": words, "tool_calls": calls}));
    }
    if let Some(words) = starting("Fail with ") {
        return Scripted::json(400, json!({"error": {"message": words, "type": words, "code": words}}).to_string());
    }
    if said("Stream!") {
        let chunk = |delta: Value, finish: Value| {
            json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
                "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
        };
        let words = ["It is ", "sunny."].map(|words| chunk(json!({"content": words}), Value::Null));
        return Scripted::chunks(words.into_iter().chain([chunk(json!({}), json!("stop"))]));
    }
    if said("What will the weather be in Paris for three days?") {
        let told = messages.iter().rev().find(|message| message["role"] == "tool").and_then(|message| message["content"].as_str());
        let with = |days: Value| {
            let arguments = json!({"city": "Paris", "days": days}).to_string();
            json!({"role": "assistant", "content": null, "tool_calls": [
                {"id": "call_0", "type": "function", "function": {"name": "get_weather", "arguments": arguments}}]})
        };
        return match told {
            None => completion(&with(json!("three"))),
            Some(result) if result.contains("rejected") => completion(&with(json!(3))),
            Some(_) => completion(&json!({"role": "assistant", "content": "It will be clear in Paris."})),
        };
    }
    if said("Fail!") {
        return Scripted::json(500, "{\"error\":{\"message\":\"down\"}}");
    }
    if said("Book!") {
        return completion(&json!({"role": "assistant", "content": CLAIM}));
    }
    if said("Cite!") {
        let number = received.number;
        let text = format!("It is sunny (execution_id: get_weather_17000000{number:05}_0123456789abcdef).");
        return completion(&json!({"role": "assistant", "content": text}));
    }
    match messages.iter().rev().find(|message| message["role"] == "tool").and_then(|message| message["content"].as_str()) {
        Some(result) if result.contains("rejected") => completion(&call("get_weather")),
        Some(_) => completion(&json!({"role": "assistant", "content": "Sunny."})),
        None => completion(&call("fetch_weather")),
    }
}

/// Asks and reads the answer whole.
pub fn send(method: &str, url: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let client = crate::harness::http_client();
    let mut request = client.request(method.parse().unwrap(), url).body(body.to_owned());
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    run(async {
        let response = request.timeout(toolmark::testing::PATIENCE).send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Answer { status, headers, body: response.text().await.unwrap() }
    })
}

pub fn get(url: &str) -> Answer {
    get_as(url, &[])
}

pub fn get_as(url: &str, headers: &[(&str, &str)]) -> Answer {
    send("GET", url, headers, "")
}
