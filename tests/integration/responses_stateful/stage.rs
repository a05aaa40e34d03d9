//! Proxies that share a key in front of one Responses API that keeps conversations, and what an application reads of
//! its answers: the same whole and streamed.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tempfile::TempDir;
use toolmark::testing::{Proxy, Received, ScriptedReply, ScriptedUpstream};

use crate::{
    clients::{
        model::{Turn, next_turn},
        responses_model::strict,
    },
    harness::post,
    in_turns::has_replicas,
    postgres::Ledger,
    responses_folded::{consistent, events},
};

/// Both ways in which a response comes.
pub const WAYS: [bool; 2] = [false, true];

/// Tools that the script may call, as it must.
const CALLS: [(&str, &str); 4] = [
    ("get_weather", r#"{"city":"Paris"}"#),
    ("get_wether", r#"{"city":"Paris"}"#),
    ("get_time", r#"{"city":"Paris"}"#),
    ("add_task", r#"{"title":"water plants"}"#),
];

/// See the module.
pub struct Stage {
    pub upstream: ScriptedUpstream,
    proxies: Vec<Proxy>,
    directories: Vec<TempDir>,
    /// The shared ledger, if there is one: then the proxies are asked in turn.
    ledger: Option<Ledger>,
    asked: AtomicUsize,
}

/// What the application got.
#[derive(Debug)]
pub struct Turned {
    pub status: u16,
    /// The response object; what else came, where it is none.
    pub response: Value,
    pub verdict: String,
    pub violations: Vec<String>,
    /// All of the body.
    pub raw: String,
}

/// Does what `metadata` asks for: `say` or `call`, and once it heard of a fault, `then_say` or `then_call`; `then_fail`
/// is an upstream that fails. Else what the conversation asks for.
fn script(request: &Value, messages: &[Value]) -> Turn {
    let last = messages.last().and_then(|message| message["content"].as_str()).unwrap_or_default();
    let faulted = last.starts_with("Your last answer was not delivered") || last.starts_with("Tool call ");
    let asked = |name: &str| request["metadata"][name].as_str();
    let call = |tool: &str| Turn::Call("Let me look.", CALLS.iter().filter(|(name, _)| *name == tool).copied().collect());
    if faulted {
        match (asked("then_say"), asked("then_call"), asked("then_fail")) {
            (Some(say), ..) => return Turn::Say(say.to_owned()),
            (_, Some(tool), _) => return call(tool),
            (.., Some(_)) => return Turn::Reject,
            (None, None, None) => {}
        }
    }
    match (asked("say"), asked("call")) {
        (Some(say), _) => Turn::Say(say.to_owned()),
        (None, Some(tool)) => call(tool),
        (None, None) => next_turn(messages),
    }
}

impl Stage {
    /// One proxy with this policy: a built-in one's name, or TOML. Within [`crate::in_turns`], two that share a ledger and are asked in turn.
    pub fn new(policy: &str) -> Self {
        if has_replicas() { Self::sharing(policy, 2, Ledger::postgres(), "bodies") } else { Self::with_replicas(policy, 1) }
    }

    /// Several that share no more than the key.
    pub fn with_replicas(policy: &str, replicas: usize) -> Self {
        Self::in_front_of(policy, replicas, strict(script))
    }

    /// Several that share a ledger, which stores `digests` or `bodies`. They are asked in turn.
    pub fn sharing(policy: &str, replicas: usize, ledger: Ledger, store: &str) -> Self {
        let settings = format!("[ledger]\nurl = \"{}\"\nstore = \"{store}\"\n", ledger.url());
        let stage = Self::start(policy, replicas, strict(script), &settings);
        Self { ledger: Some(ledger), ..stage }
    }

    /// Several that share the ledger at this URL.
    pub fn at(policy: &str, replicas: usize, url: &str, store: &str) -> Self {
        Self::start(policy, replicas, strict(script), &format!("[ledger]\nurl = \"{url}\"\nstore = \"{store}\"\n"))
    }

    /// Ends all proxies and starts as many on the same ledger.
    pub fn restarted(mut self, policy: &str, store: &str) -> Self {
        let ledger = self.ledger.take().unwrap();
        let settings = format!("[ledger]\nurl = \"{}\"\nstore = \"{store}\"\n", ledger.url());
        self.proxies.clear();
        self.proxies = self.directories.iter().map(|directory| proxy(policy, &self.upstream, &settings, directory)).collect();
        self.ledger = Some(ledger);
        self
    }

    /// In front of another upstream.
    pub fn in_front_of(policy: &str, replicas: usize, upstream: impl Fn(&Received) -> ScriptedReply + Send + Sync + 'static) -> Self {
        Self::start(policy, replicas, upstream, "")
    }

    fn start(policy: &str, replicas: usize, upstream: impl Fn(&Received) -> ScriptedReply + Send + Sync + 'static, settings: &str) -> Self {
        let upstream = ScriptedUpstream::start(upstream).unwrap();
        let directories: Vec<TempDir> = (0..replicas).map(|_| tempfile::tempdir().unwrap()).collect();
        let proxies = directories.iter().map(|directory| proxy(policy, &upstream, settings, directory)).collect();
        Self { upstream, proxies, directories, ledger: None, asked: AtomicUsize::new(0) }
    }

    /// Asks the first proxy; with a shared ledger, the next one.
    pub fn ask(&self, stream: bool, request: Value) -> Turned {
        self.ask_as(self.next(), "Bearer test", stream, request)
    }

    /// The proxy to ask.
    pub fn next(&self) -> usize {
        if self.ledger.is_some() { self.asked.fetch_add(1, Ordering::Relaxed) % self.proxies.len() } else { 0 }
    }

    /// Asks one of them with this `Authorization`. `model`, `tools` and `stream` are added.
    pub fn ask_as(&self, proxy: usize, authorization: &str, stream: bool, mut request: Value) -> Turned {
        for (name, value) in [("model", json!("gpt-4o")), ("tools", tools()), ("stream", json!(stream))] {
            if request[name].is_null() {
                request[name] = value;
            }
        }
        let answer = post(&format!("{}/responses", self.proxies[proxy].base_url()), &request.to_string(), authorization);
        let list = |codes: &Value| codes.as_array().into_iter().flatten().filter_map(|code| code.as_str().map(str::to_owned)).collect();
        if answer.header("content-type").starts_with("text/event-stream") {
            let events = events(&answer.body);
            consistent(&events).unwrap_or_else(|error| panic!("{error}: {}", answer.body));
            let said = answer.body.lines().find_map(|line| line.strip_prefix(": toolmark "));
            let said: Value = said.map_or(Value::Null, |said| serde_json::from_str(said).unwrap());
            let verdict = said["verdict"].as_str().unwrap_or_default().to_owned();
            let response = events.last().unwrap()["response"].clone();
            return Turned { status: answer.status, response, verdict, violations: list(&said["violations"]), raw: answer.body };
        }
        let codes = answer.header("toolmark-violations").split(',').filter(|code| !code.is_empty()).map(str::to_owned).collect();
        let verdict = answer.header("toolmark-verdict").to_owned();
        Turned { status: answer.status, response: answer.json(), verdict, violations: codes, raw: answer.body }
    }

    /// The requests that came upstream, from this one on.
    pub fn sent_since(&self, number: usize) -> Vec<Value> {
        self.upstream.received().iter().skip(number).map(Received::json).collect()
    }

    /// How many came.
    pub fn sent(&self) -> usize {
        self.upstream.received().len()
    }

    /// The one that came last.
    pub fn last_sent(&self) -> Value {
        self.upstream.received().last().unwrap().json()
    }

    /// Asks for the weather and answers the call: what was asked with, both turns, the execution ID upstream.
    pub fn weather(&self, stream: bool, more: &Value) -> (Turned, Turned, String) {
        let first = self.ask(stream, with(more, &json!({"input": "What is the weather in Paris?"})));
        let call = first.call();
        let kept = if more["conversation"].is_null() { json!({"previous_response_id": first.id()}) } else { json!({}) };
        let second = self.ask(stream, with(&with(more, &kept), &json!({"input": [output(&call["call_id"])]})));
        let execution = execution(&self.last_sent()["input"][0]["output"]).unwrap_or_else(|| panic!("no stamp: {}", self.last_sent()));
        (first, second, execution)
    }
}

fn proxy(policy: &str, upstream: &ScriptedUpstream, settings: &str, directory: &TempDir) -> Proxy {
    let own = policy.contains('\n');
    std::fs::write(directory.path().join("policy.toml"), if own { policy } else { "" }).unwrap();
    let name = if own { "policy.toml" } else { policy };
    let url = upstream.base_url();
    let settings = format!("policy = \"{name}\"\n{settings}[[upstreams]]\nname = \"scripted\"\nbase_url = \"{url}\"\n");
    Proxy::start(&settings, &[("TOOLMARK_KEY", &"ab".repeat(32))], directory.path()).unwrap()
}

impl Turned {
    pub fn id(&self) -> Value {
        self.response["id"].clone()
    }

    pub fn items(&self) -> Vec<Value> {
        self.response["output"].as_array().cloned().unwrap_or_else(|| panic!("{self:?}"))
    }

    /// The only call.
    pub fn call(&self) -> Value {
        let calls: Vec<Value> = self.items().into_iter().filter(|item| item["type"] == "function_call").collect();
        let [call] = &calls[..] else { panic!("{self:?}") };
        assert!(call["call_id"].as_str().is_some_and(|id| id.len() == 52), "no mark: {call}");
        call.clone()
    }

    /// All that its messages say.
    pub fn text(&self) -> String {
        let items = self.items();
        let parts = items.iter().flat_map(|item| item["content"].as_array().into_iter().flatten());
        parts.filter_map(|part| part["text"].as_str().map(str::to_owned)).collect()
    }

    /// What toolmark says of it.
    #[track_caller]
    pub fn judged(&self, verdict: &str, violations: &[&str]) -> &Self {
        let own: Vec<&str> = self.violations.iter().map(String::as_str).collect();
        assert_eq!((self.status, &*self.verdict, &own[..]), (200, verdict, violations), "{}", self.raw);
        self
    }
}

/// Flat function tools.
pub fn tools() -> Value {
    let city = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    json!([{"type": "function", "name": "get_weather", "parameters": city}])
}

/// The weather.
pub fn output(call_id: &Value) -> Value {
    json!({"type": "function_call_output", "call_id": call_id, "output": r#"{"degrees":18,"city":"Paris"}"#})
}

/// The first object and the members of the second.
pub fn with(object: &Value, members: &Value) -> Value {
    let mut object = object.clone();
    for (name, value) in members.as_object().unwrap() {
        object[name] = value.clone();
    }
    object
}

/// The execution ID that a result was stamped with.
pub fn execution(output: &Value) -> Option<String> {
    let stamped: Value = serde_json::from_str(output.as_str()?).ok()?;
    stamped["execution_id"].as_str().map(str::to_owned)
}
