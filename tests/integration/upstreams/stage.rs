//! Scripted upstreams side by side, and a proxy in front of them.

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicUsize, Ordering},
};

use serde_json::{Value, json};
use tempfile::TempDir;
use toolmark::testing::{Proxy, Received, ScriptedReply, ScriptedUpstream};

use crate::{
    harness::{Answer, post},
    in_turns::has_replicas,
    postgres::Ledger,
};

/// Upstreams by name, and the proxy.
pub struct Stage {
    pub proxy: Proxy,
    /// A second proxy, and the ledger that both share, within [`crate::in_turns`].
    replica: Option<(Proxy, TempDir, Ledger)>,
    asked: AtomicUsize,
    pub upstreams: Vec<ScriptedUpstream>,
    settings: String,
    directory: TempDir,
}

const KEYS: [(&str, &str); 3] = [
    ("OWN_KEY", "sk-own"),
    ("OTHER_KEY", "sk-other"),
    ("TOOLMARK_KEY", "cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd"),
];

pub type Script = Box<dyn Fn(&Received) -> ScriptedReply + Send + Sync>;

impl Stage {
    /// `settings`: TOML in which `$0`, `$1` stand for the upstreams' base URLs.
    pub fn new(settings: &str, scripts: Vec<Script>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let upstreams: Vec<_> = scripts.into_iter().map(|script| ScriptedUpstream::start(script).unwrap()).collect();
        let mut settings = settings.to_owned();
        for (at, upstream) in upstreams.iter().enumerate() {
            settings = settings.replace(&format!("${at}"), &upstream.base_url());
        }
        let replica = (has_replicas() && !settings.contains("[ledger]")).then(|| {
            let (ledger, other) = (Ledger::postgres(), tempfile::tempdir().unwrap());
            settings = format!("{settings}\n[ledger]\nurl = \"{}\"\nstore = \"bodies\"\n", ledger.url());
            (Proxy::start(&settings, &KEYS, other.path()).unwrap(), other, ledger)
        });
        let proxy = Proxy::start(&settings, &KEYS, directory.path()).unwrap();
        Self { proxy, replica, asked: AtomicUsize::new(0), upstreams, settings, directory }
    }

    /// Address to ask: the proxy's, or those of the replicas in turn.
    pub fn address(&self) -> SocketAddr {
        match &self.replica {
            Some((other, ..)) if self.asked.fetch_add(1, Ordering::Relaxed) % 2 == 1 => other.address(),
            Some(_) | None => self.proxy.address(),
        }
    }

    /// The same after the proxy was stopped and started again.
    pub fn restarted(self) -> Self {
        let Self { proxy, upstreams, settings, directory, .. } = self;
        drop(proxy);
        let proxy = Proxy::start(&settings, &KEYS, directory.path()).unwrap();
        Self { proxy, replica: None, asked: AtomicUsize::new(0), upstreams, settings, directory }
    }

    pub fn chat(&self, body: &Value) -> Answer {
        post(&format!("{}/chat/completions", self.proxy.base_url()), &body.to_string(), "Bearer caller")
    }

    /// What the upstream of this number got, as JSON.
    pub fn got(&self, upstream: usize) -> Vec<Value> {
        self.upstreams[upstream].received().iter().map(Received::json).collect()
    }
}

/// A request with one tool.
pub fn with_tool(model: &str) -> Value {
    let tool = json!({"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}});
    json!({"model": model, "messages": [{"role": "user", "content": "The weather in Paris?"}], "tools": [tool]})
}

/// The same in a stream.
pub fn streamed(mut request: Value) -> Value {
    request["stream"] = json!(true);
    request
}

/// Is it a probe?
pub fn is_probe(received: &Received) -> bool {
    received.json()["tools"][0]["function"]["name"] == "toolmark_probe"
}

/// An answer in words.
pub fn says(text: &str) -> ScriptedReply {
    let choice = json!({"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"});
    ScriptedReply::json(200, json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}).to_string())
}

/// A call of the request's first tool.
pub fn calls(received: &Received) -> ScriptedReply {
    let request = received.json();
    let name = request["tools"][0]["function"]["name"].clone();
    let arguments = if name == "toolmark_probe" { r#"{"word":"ready"}"# } else { r#"{"city":"Paris"}"# };
    let call = json!({"id": "call_0", "type": "function", "function": {"name": name, "arguments": arguments}});
    if request["stream"] == json!(true) {
        let chunk = |delta: Value, finish: Value| json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
        let mut call = call;
        call["index"] = json!(0);
        return ScriptedReply::chunks([
            chunk(json!({"role": "assistant", "tool_calls": [call]}), Value::Null),
            chunk(json!({}), json!("tool_calls")),
        ]);
    }
    let choice =
        json!({"index": 0, "message": {"role": "assistant", "content": null, "tool_calls": [call]}, "finish_reason": "tool_calls"});
    ScriptedReply::json(200, json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}).to_string())
}

/// An error as most have it.
pub fn error(status: u16, message: &str) -> ScriptedReply {
    ScriptedReply::json(status, json!({"error": {"message": message, "type": "scripted", "param": null, "code": "scripted"}}).to_string())
}
