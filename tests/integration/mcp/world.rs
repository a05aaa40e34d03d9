//! A to-do server, a scripted model of either API, and proxies that come and go in front of them.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;
use toolmark::testing::{Proxy, Received, ScriptedReply, ScriptedUpstream, TodoServer};

use super::stage::{TODO, turn, wire};
use crate::{
    clients::{model::Turn, responses_model::strict},
    harness::{Answer, post},
    responses_folded::{consistent, events},
};

const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const WEATHER: &str = "get_weather";
/// Rounds in which the model calls what is toolmark's and what is the application's.
pub const ROUNDS: usize = 10;
const ADDS: [&str; ROUNDS] = [
    r#"{"title":"0"}"#,
    r#"{"title":"1"}"#,
    r#"{"title":"2"}"#,
    r#"{"title":"3"}"#,
    r#"{"title":"4"}"#,
    r#"{"title":"5"}"#,
    r#"{"title":"6"}"#,
    r#"{"title":"7"}"#,
    r#"{"title":"8"}"#,
    r#"{"title":"9"}"#,
];

/// What is asked where one is to be called after the other.
pub const STEP_BY_STEP: &str = "Step by step";

/// The credentials that are used here.
const OWN: [&str; 4] = ["Bearer mixed-turns", "Bearer another", "Bearer test", "Bearer sk-test"];

/// How an application speaks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Api {
    /// Chat completions.
    Chat,
    /// The Responses API, the whole conversation with every request.
    Items,
    /// The same where nothing is stored.
    Unstored,
    /// The Responses API, on from the last response.
    Previous,
    /// The Responses API, within a conversation of the upstream's.
    Conversation,
}

/// See the module.
pub struct World {
    pub upstream: ScriptedUpstream,
    pub todo: TodoServer,
    directory: TempDir,
}

/// What the application got.
#[derive(Debug)]
pub struct Got {
    pub status: u16,
    pub text: String,
    /// Names and ids of calls.
    pub calls: Vec<(String, String)>,
    pub codes: String,
    /// The message, or the response.
    pub whole: Value,
    pub body: String,
}

/// Ten mixed turns, then an answer; to further questions a look at the list, then an answer.
fn next(messages: &[Value]) -> Turn {
    let is = |message: &&Value, role: &str| message["role"] == role;
    let results = messages.iter().filter(|message| is(message, "tool")).count();
    let (asked, last) = (messages.iter().filter(|message| is(message, "user")).count(), messages.last());
    if asked > 1 {
        let looked = last.is_some_and(|message| is(&message, "tool"));
        return if looked { Turn::Say(format!("Seen {results}.")) } else { Turn::Call("Let me see.", vec![("todo__list_tasks", "{}")]) };
    }
    if messages.iter().any(|message| is(&message, "user") && message["content"] == STEP_BY_STEP) {
        // First what is toolmark's, then what is the application's, then an answer.
        return match results {
            0 => Turn::Call("First.", vec![("todo__add_task", ADDS[0])]),
            1 => Turn::Call("Second.", vec![(WEATHER, "{}")]),
            _ => Turn::Say("All done.".into()),
        };
    }
    match ADDS.get(results / 3) {
        Some(add) => Turn::Call("One more.", vec![("todo__add_task", *add), (WEATHER, "{}"), ("todo__list_tasks", "{}")]),
        None => Turn::Say("All done.".into()),
    }
}

fn chat(received: &Received) -> ScriptedReply {
    let request = received.json();
    let said = match next(request["messages"].as_array().map_or(&[], Vec::as_slice)) {
        Turn::Say(text) => turn(&text, &[]),
        Turn::Call(text, calls) => turn(text, &calls),
        Turn::Break | Turn::Reject => turn("", &[]),
    };
    wire(said, request["stream"] == true)
}

impl World {
    pub fn new() -> Self {
        let responses = strict(|_, messages| next(messages));
        let script = move |received: &Received| if received.line.contains("responses") { responses(received) } else { chat(received) };
        Self::with(script)
    }

    pub fn with(script: impl Fn(&Received) -> ScriptedReply + Send + Sync + 'static) -> Self {
        let (upstream, todo) = (ScriptedUpstream::start(script).unwrap(), TodoServer::start().unwrap());
        Self { upstream, todo, directory: tempfile::tempdir().unwrap() }
    }

    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub fn database(&self) -> PathBuf {
        self.directory.path().join("toolmark.db")
    }

    /// The settings of a proxy, with these besides.
    pub fn settings(&self, more: &str) -> String {
        let todo = TODO.replace("URL", &self.todo.url());
        format!("[[upstreams]]\nname = \"scripted\"\nbase_url = \"{}\"\n{todo}{more}", self.upstream.base_url())
    }

    /// A proxy with this ledger.
    pub fn proxy(&self, ledger: &str) -> Proxy {
        self.proxy_with(&format!("[ledger]\nurl = \"{ledger}\"\n"))
    }

    pub fn proxy_with(&self, more: &str) -> Proxy {
        Proxy::start(&self.settings(more), &[("TOOLMARK_KEY", KEY)], self.directory.path()).unwrap()
    }

    /// The requests that the model got; not what somebody sent whose own server had this port before.
    pub fn asked(&self) -> Vec<Value> {
        let own = |received: &&Received| received.headers.get("authorization").is_some_and(|value| OWN.iter().any(|own| value == own));
        self.upstream.received().iter().filter(own).map(Received::json).collect()
    }
}

/// An application and what it has of its conversation.
pub struct Application {
    api: Api,
    stream: bool,
    credential: &'static str,
    /// Messages or items, those that come next included.
    pub items: Vec<Value>,
    previous: Value,
    /// Results so far: no two are the same.
    results: usize,
}

impl Application {
    pub fn new(api: Api, stream: bool) -> Self {
        Self { api, stream, credential: OWN[0], items: vec![user("Ten times")], previous: Value::Null, results: 0 }
    }

    /// Another caller with the same conversation.
    pub fn stolen(&self) -> Self {
        let (items, previous) = (self.items.clone(), self.previous.clone());
        Self { api: self.api, stream: self.stream, credential: OWN[1], items, previous, results: self.results }
    }

    pub fn says(&mut self, text: &str) {
        self.items.push(user(text));
    }

    fn request(&mut self) -> (&'static str, Value) {
        let parameters = json!({"type": "object", "properties": {}});
        if self.api == Api::Chat {
            let tool = json!({"type": "function", "function": {"name": WEATHER, "parameters": parameters}});
            return ("chat/completions", json!({"model": "m", "messages": self.items, "tools": [tool], "stream": self.stream}));
        }
        let tool = json!({"type": "function", "name": WEATHER, "parameters": parameters});
        let mut request = json!({"model": "m", "input": self.items, "tools": [tool], "stream": self.stream});
        match self.api {
            Api::Unstored => {
                request["model"] = "o1".into();
                request["store"] = false.into();
                request["include"] = json!(["reasoning.encrypted_content"]);
            }
            Api::Previous => request["previous_response_id"] = self.previous.clone(),
            Api::Conversation => request["conversation"] = "conv_1".into(),
            Api::Chat | Api::Items => {}
        }
        if matches!(self.api, Api::Previous | Api::Conversation) {
            self.items.clear();
        }
        ("responses", request)
    }

    /// Asks, keeps the answer, and has the results of its calls ready for the next request.
    pub fn ask(&mut self, proxy: &Proxy) -> Got {
        let (path, request) = self.request();
        let answer = post(&format!("{}/{path}", proxy.base_url()), &request.to_string(), self.credential);
        let got = if self.api == Api::Chat { read_chat(&answer, self.stream) } else { read_response(&answer, self.stream) };
        if got.status != 200 {
            return got;
        }
        match self.api {
            Api::Chat => self.items.push(got.whole.clone()),
            Api::Items | Api::Unstored => self.items.extend(got.whole["output"].as_array().cloned().unwrap_or_default()),
            Api::Previous => self.previous = got.whole["id"].clone(),
            Api::Conversation => {}
        }
        for (_, id) in &got.calls {
            self.results += 1;
            let content = format!("{{\"day\":{}}}", self.results);
            self.items.push(match self.api {
                Api::Chat => json!({"role": "tool", "tool_call_id": id, "content": content}),
                _ => json!({"type": "function_call_output", "call_id": id, "output": content}),
            });
        }
        got
    }
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn read_chat(answer: &Answer, stream: bool) -> Got {
    let seen = super::stage::read(answer, stream);
    let calls = seen.calls.iter().map(|(name, _, id)| (name.clone(), id.clone())).collect();
    Got { status: seen.status, whole: seen.message(), text: seen.text, calls, codes: seen.codes, body: answer.body.clone() }
}

fn read_response(answer: &Answer, stream: bool) -> Got {
    let mut codes = answer.header("toolmark-violations").to_owned();
    let whole = if stream && answer.status == 200 {
        let events = events(&answer.body);
        consistent(&events).unwrap_or_else(|error| panic!("{error}: {}", answer.body));
        codes = answer.body.lines().filter_map(|line| line.strip_prefix(": toolmark ")).collect();
        events.last().unwrap()["response"].clone()
    } else {
        answer.json()
    };
    let items = || whole["output"].as_array().into_iter().flatten();
    let parts = items().flat_map(|item| item["content"].as_array().into_iter().flatten());
    let said = parts.map(|part| text(&part["text"])).collect();
    let calls = items().filter(|item| item["type"] == "function_call").map(|item| (text(&item["name"]), text(&item["call_id"]))).collect();
    Got { status: answer.status, text: said, calls, codes, body: answer.body.clone(), whole }
}

/// Every call has one result right behind its turn, and no result stands alone.
pub fn legal(messages: &Value) {
    let messages = messages.as_array().unwrap();
    let mut open: Vec<&str> = Vec::new();
    for message in messages {
        match message["role"].as_str().unwrap() {
            "tool" => {
                let id = message["tool_call_id"].as_str().unwrap();
                let at = open.iter().position(|own| *own == id).unwrap_or_else(|| panic!("{id} answers nothing: {messages:#?}"));
                open.remove(at);
            }
            _ => {
                assert!(open.is_empty(), "{open:?} have no results: {messages:#?}");
                open = message["tool_calls"].as_array().into_iter().flatten().filter_map(|call| call["id"].as_str()).collect();
            }
        }
    }
    assert!(open.is_empty(), "{open:?} have no results: {messages:#?}");
}

/// What the upstream saw stays as it was, for its cache.
pub fn prefixes(asked: &[Value], member: &str) {
    for pair in asked.windows(2) {
        let [one, two] = [&pair[0], &pair[1]].map(|request| request[member].as_array().unwrap());
        assert_eq!(two.get(..one.len()), Some(&one[..]), "{one:#?}\n{two:#?}");
    }
}
