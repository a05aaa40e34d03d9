//! Two replicas that count together, and each for itself while the counters are away.

use std::{
    collections::HashSet,
    sync::atomic::{AtomicUsize, Ordering},
};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;
use toolmark::testing::{Proxy, Received, ScriptedReply, ScriptedUpstream};

use super::Place;
use crate::{
    harness::{Answer, post},
    postgres::Line,
    program::{Running, command, until},
    wire,
};

const KEY: &str = "cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd";
const REQUEST: &str = r#"{"model":"m","messages":[{"role":"user","content":"Hello?"}]}"#;

/// Two replicas before one upstream.
pub struct Replicas {
    pub proxies: [Proxy; 2],
    pub upstream: ScriptedUpstream,
    pub line: Line,
    pub _directories: [TempDir; 2],
}

/// The settings of a replica that counts there.
pub fn counting(place: &Place, url: &str) -> String {
    match place {
        Place::Valkey(_) => format!("[counters]\nurl = \"{url}\"\nwait = \"5s\"\n"),
        Place::Postgres(_) | Place::OwnPostgres(_) => {
            format!("[counters]\nurl = \"postgres\"\nwait = \"5s\"\n[ledger]\nurl = \"{url}\"\n")
        }
    }
}

impl Replicas {
    pub fn start(place: &Place, policy: &str, settings: &str, script: impl Fn(&Received) -> ScriptedReply + Send + Sync + 'static) -> Self {
        Self::with(place, policy, ["", settings], script)
    }

    /// The same, with other upstreams before their own.
    pub fn start_before(place: &Place, settings: &str, script: impl Fn(&Received) -> ScriptedReply + Send + Sync + 'static) -> Self {
        Self::with(place, "", [settings, ""], script)
    }

    fn with(
        place: &Place,
        policy: &str,
        [before, behind]: [&str; 2],
        script: impl Fn(&Received) -> ScriptedReply + Send + Sync + 'static,
    ) -> Self {
        let upstream = ScriptedUpstream::start(script).unwrap();
        let (line, url) = place.line();
        let all = format!(
            "policy = \"policy.toml\"\n{before}[[upstreams]]\nname = \"scripted\"\nbase_url = \"{}\"\napi_key_env = \"\"\n{behind}{}",
            upstream.base_url(),
            counting(place, &url)
        );
        let directories = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let proxies = directories.each_ref().map(|directory| {
            std::fs::write(directory.path().join("policy.toml"), policy).unwrap();
            Proxy::start(&all, &[("TOOLMARK_KEY", KEY), ("OWN_KEY", "sk-own")], directory.path()).unwrap()
        });
        Self { proxies, upstream, line, _directories: directories }
    }

    pub fn chat(&self, at: usize, key: &str) -> Answer {
        post(&format!("{}/chat/completions", self.proxies[at].base_url()), REQUEST, &format!("Bearer {key}"))
    }

    /// Waits until both say that the counters are this.
    pub fn counters_are(&self, state: &str) {
        let is =
            |proxy: &Proxy| serde_json::to_value(proxy.app().observed.readiness.report()).unwrap()["parts"]["counters"]["state"] == state;
        until(&format!("the counters are {state}"), || self.proxies.iter().all(is).then_some(()));
    }

    /// Waits until both say that the channel between them is this.
    pub fn channel_is(&self, state: &str) {
        let wanted = if state == "ready" { 1.0 } else { 0.0 };
        let is = |at: &usize| self.metric(*at, "toolmark_news_up") == wanted && self.metric(*at, "toolmark_news_beats_total") >= 1.0;
        until(&format!("the channel is {state}"), || [0, 1].iter().all(is).then_some(()));
    }

    /// Name of the channel.
    pub fn channel(&self) -> String {
        self.proxies[0].app().news.as_ref().unwrap().channel().to_owned()
    }

    pub fn metric(&self, at: usize, name: &str) -> f64 {
        let text = self.proxies[at].app().observed.exposition.text();
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).unwrap_or_else(|| panic!("{name}:\n{text}"));
        line.parse().unwrap()
    }
}

fn clients(rate: &str) -> String {
    let digest = |key: &str| Sha256::digest(key).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let client = |name: &str| format!("[[clients]]\nname = \"client-{name}\"\nkey_sha256 = \"{}\"\n{rate}\n", digest(name));
    client("one") + &client("two")
}

pub fn says(text: &str) -> ScriptedReply {
    let choice = json!({"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"});
    let usage = json!({"prompt_tokens": 1_500, "completion_tokens": 500, "total_tokens": 2_000});
    ScriptedReply::json(
        200,
        json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}).to_string(),
    )
}

#[test]
fn a_clients_rate_is_one_over_replicas() {
    for place in Place::all() {
        let replicas = Replicas::start(&place, "", &clients("rate = { requests = 6, window = \"1h\" }"), |_| says("Hello."));
        let statuses: Vec<u16> = (0..8).map(|turn| replicas.chat(turn % 2, "one").status).collect();
        assert_eq!(statuses, [200, 200, 200, 200, 200, 200, 429, 429], "{}", place.name());
        let refused = replicas.chat(0, "one");
        let wait: u64 = refused.header("retry-after").parse().unwrap();
        assert!((1..=600).contains(&wait) && refused.json()["error"]["code"] == "rate_limit_exceeded", "{wait}: {}", refused.body);
        assert_eq!(replicas.chat(1, "two").status, 200, "another client has its own");
        assert_eq!(replicas.upstream.received().len(), 7, "{}", place.name());
        assert_eq!((replicas.metric(0, "toolmark_counters_up"), replicas.metric(0, "toolmark_counters_local_total")), (1.0, 0.0));
        clean(&place, &["client-one", "one"]);
    }
}

/// None of this is in what is stored, nor are the keys.
fn clean(place: &Place, words: &[&str]) {
    let stored = place.stored();
    assert!(!stored.is_empty(), "{}: nothing is stored", place.name());
    let key: Vec<u8> = KEY.as_bytes().chunks(2).map(|_| 0xcd).collect();
    let words = words.iter().map(|word| word.as_bytes()).chain([&key[..8], &KEY.as_bytes()[..16]]);
    for word in words {
        let found = stored.iter().find(|row| row.windows(word.len()).any(|part| part == word));
        assert!(found.is_none(), "{}: `{}` stands in {found:?}", place.name(), String::from_utf8_lossy(word));
    }
}

/// A model that calls `look_up` each time, with other arguments.
pub fn always_calls() -> impl Fn(&Received) -> ScriptedReply + Send + Sync + 'static {
    let calls = AtomicUsize::new(0);
    move |_| {
        let arguments = format!("{{\"secret-argument\":{}}}", calls.fetch_add(1, Ordering::Relaxed));
        let call = json!({"id": "call_1", "type": "function", "function": {"name": "look_up", "arguments": arguments}});
        let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
        let choice = json!({"index": 0, "message": message, "finish_reason": "tool_calls"});
        ScriptedReply::json(
            200,
            json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}).to_string(),
        )
    }
}

/// Number of sessions' calls that are stored.
fn calls_stored(place: &Place) -> i64 {
    match place {
        Place::Valkey(own) => {
            let mut client = own.client();
            let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut client).unwrap();
            keys.iter().map(|key| redis::cmd("ZCARD").arg(key).query::<i64>(&mut client).unwrap_or(0)).sum()
        }
        Place::Postgres(own) => own.client().query_one("SELECT count(*) FROM toolmark_sessions", &[]).unwrap().get(0),
        Place::OwnPostgres(_) => unreachable!("nobody looks there"),
    }
}

#[test]
fn loop_control_of_a_session_counts_over_replicas() {
    for place in Place::all() {
        let replicas = Replicas::start(&place, "[loops]\nconsecutive_failures = 3\non_limit = 'end'\n", "", always_calls());
        let ask = |at: usize, session: &str, messages: &Value| {
            let tools = json!([{"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}]);
            let body = json!({"model": "m", "messages": messages, "tools": tools}).to_string();
            let session = format!("toolmark-session: {session}\r\n");
            let reply = wire::Connection::open(replicas.proxies[at].address()).post("/v1/chat/completions", &session, body.as_bytes());
            assert_eq!(reply.status, 200, "{}", reply.text());
            reply.json()["choices"][0]["message"].clone()
        };
        let mut stored = 0;
        // A conversation of its own: the user asks, the tool is called and comes to this. Is it called then?
        let mut goes_on = |at: usize, session: &str, result: &str| {
            let called = ask(at, session, &json!([{"role": "user", "content": "Work."}]));
            let Some(id) = called["tool_calls"][0]["id"].as_str().map(str::to_owned) else { return false };
            let result = json!({"role": "tool", "tool_call_id": id, "content": result});
            let again = ask(at, session, &json!([{"role": "user", "content": "Work."}, called, result]))["tool_calls"].is_array();
            // What is counted is behind the answer.
            until("the exchange is over", || (replicas.proxies[at].going_on().1 == 0).then_some(()));
            if replicas.proxies[at].app().observed.readiness.report().parts["counters"] == toolmark::telemetry::readiness::PartState::Ready
            {
                stored += 1;
                until("the call is shared", || (calls_stored(&place) >= stored).then_some(()));
            }
            again
        };
        let failed = "Error: no route to host";
        assert!(goes_on(0, "secret-session", failed) && goes_on(1, "secret-session", failed), "{}", place.name());
        assert!(!goes_on(0, "secret-session", failed), "{}: the third failure of the session is one too many", place.name());
        assert!(!goes_on(1, "secret-session", failed), "{}: a conversation that begins with it", place.name());
        assert!(goes_on(1, "another", failed), "{}: another session", place.name());
        assert!(goes_on(0, "c", failed) && goes_on(1, "c", failed) && goes_on(0, "c", "fine"), "{}", place.name());
        assert!(goes_on(1, "c", failed) && goes_on(0, "c", failed), "{}: a success at one replica ends the row at all", place.name());
        clean(&place, &["secret-session", "look_up", "secret-argument", "no route"]);
        if matches!(place, Place::Valkey(_)) {
            // Without the counters each has its own sessions.
            replicas.line.cut();
            replicas.counters_are("degraded");
            assert!(goes_on(0, "d", failed) && goes_on(0, "d", failed) && goes_on(1, "d", failed), "each counts for itself");
            assert!(!goes_on(0, "d", failed), "and does count");
        }
    }
}

#[test]
fn a_token_budget_is_one_over_replicas() {
    const ANSWER: &str = "Noah Keller performed brilliantly all along (execution_id: ID).";
    let id = regex::Regex::new(r"get_players_\d{13}_[0-9a-f]{16}").unwrap();
    for place in Place::all() {
        let id = id.clone();
        let verifier = ScriptedUpstream::start(|_: &Received| {
            says(
                &json!({"verdicts": [{"claim": "Noah Keller performed brilliantly all along", "evidence": null, "verdict": "supported"}]})
                    .to_string(),
            )
        })
        .unwrap();
        // Two questions use 4,000 of them. A third reserves some 2,000, of which a replica alone would have 3,000.
        let settings = format!(
            "[[upstreams]]\nname = \"judge\"\nbase_url = \"{}\"\nmodels = [\"judge-*\"]\napi_key_env = \"\"\n\
             [verifier]\nupstream = \"judge\"\nmodel = \"judge-1\"\ntokens_per_hour = 5000\ncache = 0\n",
            verifier.base_url()
        );
        let replicas = Replicas::start(&place, "[protocol]\ninject = false\n", &settings, move |received| {
            let body = String::from_utf8_lossy(&received.body).into_owned();
            match id.find(&body) {
                Some(found) => says(&ANSWER.replace("ID", found.as_str())),
                None => {
                    let call = json!({"id": "call_1", "type": "function", "function": {"name": "get_players", "arguments": "{}"}});
                    let choice = json!({"index": 0, "message": {"role": "assistant", "content": null, "tool_calls": [call]}, "finish_reason": "tool_calls"});
                    ScriptedReply::json(
                        200,
                        json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}).to_string(),
                    )
                }
            }
        });
        let run = |at: usize| {
            let tools =
                json!([{"type": "function", "function": {"name": "get_players", "parameters": {"type": "object", "properties": {}}}}]);
            let url = format!("{}/chat/completions", replicas.proxies[at].base_url());
            let user = json!({"role": "user", "content": "How is my nephew doing?"});
            let ask =
                |messages: Value| post(&url, &json!({"model": "m", "messages": messages, "tools": tools}).to_string(), "Bearer k").json();
            let called = ask(json!([user]))["choices"][0]["message"].clone();
            let result = json!({"role": "tool", "tool_call_id": called["tool_calls"][0]["id"], "content": r#"{"players":[{"name":"Noah Keller","goals":6}]}"#});
            let answer = ask(json!([user, called, result]));
            assert!(answer["choices"][0]["message"]["content"].as_str().is_some_and(|text| text.contains("brilliantly")), "{answer}");
        };
        (0..6).for_each(|turn| run(turn % 2));
        let asked = verifier.received().len();
        assert_eq!(asked, 2, "{}: questions to the verifier", place.name());
        let over = |at: usize| replicas.metric(at, "toolmark_verifier_total{outcome=\"over_cap\"}");
        assert_eq!(over(0) + over(1), 4.0, "{}", place.name());
    }
}

#[test]
fn without_the_counters_each_counts_for_itself_and_together_when_they_are_back() {
    for place in Place::all() {
        let replicas = Replicas::start(&place, "", &clients("rate = { requests = 3, window = \"1h\" }"), |_| says("Hello."));
        let asks = |key: &str, at: &[usize]| -> Vec<u16> { at.iter().map(|at| replicas.chat(*at, key).status).collect() };
        assert_eq!(asks("one", &[0, 0, 1, 1]), [200, 200, 200, 429], "{}", place.name());
        replicas.line.cut();
        replicas.counters_are("degraded");
        // Each has let one less through than it may, and counts what it refused itself.
        assert_eq!(asks("one", &[0, 0, 1, 1]), [200, 429, 200, 429], "{}", place.name());
        assert!(replicas.metric(0, "toolmark_counters_up") == 0.0 && replicas.metric(0, "toolmark_counters_lapses_total") == 1.0);
        assert!(replicas.metric(0, "toolmark_counters_local_total") >= 1.0, "{}", place.name());
        replicas.line.mend();
        replicas.counters_are("ready");
        assert_eq!(asks("two", &[0, 1, 0, 1, 0]), [200, 200, 200, 429, 429], "{}: together again", place.name());
        assert_eq!(replicas.metric(0, "toolmark_counters_up"), 1.0);
    }
}

#[test]
fn the_log_says_once_that_the_counters_are_away() {
    for place in Place::all() {
        let upstream = ScriptedUpstream::start(|_: &Received| says("Hello.")).unwrap();
        let (line, url) = place.line();
        let directory = tempfile::tempdir().unwrap();
        let settings = format!(
            "listen = \"127.0.0.1:0\"\n[[upstreams]]\nname = \"scripted\"\nbase_url = \"{}\"\napi_key_env = \"\"\n{}{}",
            upstream.base_url(),
            clients("rate = { requests = 1000, window = \"1h\" }"),
            counting(&place, &url)
        );
        std::fs::write(directory.path().join("toolmark.toml"), settings).unwrap();
        let mut serve = command(&["serve"], directory.path());
        serve.env("TOOLMARK_KEY", KEY);
        let mut running = Running::start(serve);
        let address = running.address();
        line.cut();
        let said = running.line_with("each replica counts for itself");
        assert!(said.contains("WARN") && !said.contains("toolmark@"), "{said}");
        let url = format!("http://{address}/v1/chat/completions");
        let statuses: HashSet<u16> = (0..20).map(|_| post(&url, REQUEST, "Bearer one").status).collect();
        assert_eq!(statuses, HashSet::from([200]), "{}", place.name());
        line.mend();
        running.line_with("count together again");
        let lines = running.lines();
        let count = |words: &str| lines.iter().filter(|line| line.contains(words)).count();
        assert_eq!((count("each replica counts for itself"), count("count together again")), (1, 1), "{lines:?}");
    }
}
