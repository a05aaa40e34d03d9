//! Recorded sessions played again: the same results, twice the same bytes, and no upstream anywhere.

use std::path::Path;

use serde_json::Value;
use toolmark::{
    cassette::{body::Body, line::Exchange},
    testing::{Proxy, Reply},
};

use super::stage::{self, Recording};
use crate::{
    clients::{model::model, responses_model::responses_model, runtimes},
    wire::Connection,
};

/// Without a repair, so that one request of the client is one to upstream.
const ERROR_POLICY: &str = "[calls]\nmax_repairs = 0\non_exhausted = \"error\"\n";

/// What a script printed in front of these three.
fn run(script: &Path, proxies: [&Proxy; 3]) -> Value {
    let [default, error, strict] = proxies.map(Proxy::base_url);
    let environment = [("DEFAULT_URL", &*default), ("ERROR_URL", &error), ("STRICT_URL", &strict), ("OPENAI_API_KEY", "sk-test-key")];
    let python = script.extension().is_some_and(|extension| extension == "py");
    let printed = if python { runtimes::run_python(script, &environment) } else { runtimes::run_node(script, &environment) };
    serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"))
}

/// Every scene of the clients' own tests: whole, streamed, repaired, blocked, refused, broken off.
fn session_of(script: &str) {
    let script = runtimes::repository(script);
    let recordings = ["default", ERROR_POLICY, "strict"].map(|policy| Recording::start(policy, "", "", model));
    let lived = run(&script, recordings.each_ref().map(|recording| &recording.proxy));
    let directories = recordings.map(|recording| recording.end().0);
    let players = directories.each_ref().map(|directory| stage::play(directory.path(), ""));
    for round in 0..2 {
        let played = run(&script, players.each_ref());
        for (scene, expected) in lived.as_object().unwrap() {
            assert_eq!(&played[scene], expected, "round {round}, {scene}");
        }
    }
}

#[test]
fn openai_of_pypi() {
    if !runtimes::skipped("cassettes::played::openai_of_pypi") {
        session_of("tests/clients/chat.py");
    }
}

#[test]
fn openai_of_npm() {
    if !runtimes::skipped("cassettes::played::openai_of_npm") {
        session_of("tests/clients/chat.mjs");
    }
}

/// A session over chat and Responses, each turn whole and streamed, with a repair and a block among them.
fn recorded() -> (tempfile::TempDir, Vec<Exchange>) {
    let recording = Recording::start("default", "", "", responses_model());
    let mut connection = Connection::open(recording.proxy.address());
    let tools = r#"[{"type":"function","function":{"name":"get_weather","parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"],"additionalProperties":false}}}]"#;
    for stream in [false, true] {
        for ask in
            ["What is the weather in Paris?", "Invent a tool.", "Forge a citation.", "Never mend.", "Break off.", "Be a bad request."]
        {
            let user = format!(r#"{{"role":"user","content":"{ask}"}}"#);
            let body = |messages: &str| format!(r#"{{"model":"m","stream":{stream},"tools":{tools},"messages":[{messages}]}}"#);
            let reply = connection.post_as("/v1/chat/completions", "Bearer sk-of-the-caller", "", body(&user).as_bytes());
            let text = reply.text();
            let Some(at) = text.find("\"call_") else { continue };
            let (mark, result) = (&text[at + 1..at + 38], r#"{\"city\":\"Paris\",\"degrees\":18}"#);
            let call = format!(
                r#"{{"role":"assistant","content":null,"tool_calls":[{{"id":"{mark}","type":"function","function":{{"name":"get_weather","arguments":"{{\"city\":\"Paris\"}}"}}}}]}}"#
            );
            let messages = format!(r#"{user},{call},{{"role":"tool","tool_call_id":"{mark}","content":"{result}"}}"#);
            connection.post_as("/v1/chat/completions", "Bearer sk-of-the-caller", "", body(&messages).as_bytes());
        }
    }
    let tools = tools.replace(r#""function":{"name""#, r#""name""#).replace("}}}]", "}}]");
    for stream in [false, true] {
        for ask in ["What is the weather in Paris?", "Invent a tool.", "Forge a citation."] {
            let body = format!(r#"{{"model":"m","stream":{stream},"tools":{tools},"input":"{ask}"}}"#);
            assert_eq!(connection.post("/v1/responses", "", body.as_bytes()).status, 200);
        }
    }
    recording.end()
}

/// What the application sent, as it can be sent again.
fn request(exchange: &Exchange) -> String {
    exchange.downstream.request.body.as_ref().and_then(Body::text).unwrap()
}

#[test]
fn twice_the_same_bytes() {
    let (directory, exchanges) = recorded();
    assert!(exchanges.len() >= 20, "{}", exchanges.len());
    let player = stage::play(directory.path(), "");
    let round = || -> Vec<_> {
        let mut connection = Connection::open(player.address());
        let play = |exchange: &Exchange| {
            let reply = connection.post(&exchange.downstream.request.url, "", request(exchange).as_bytes());
            // The server's own clock.
            let headers: Vec<_> = reply.headers.iter().filter(|(name, _)| name != "date").cloned().collect();
            (reply.status, headers, reply.text(), reply.whole)
        };
        exchanges.iter().map(play).collect()
    };
    let (first, second) = (round(), round());
    assert_eq!(first, second);
    for ((status, headers, body, _), exchange) in first.iter().zip(&exchanges) {
        let lived = exchange.downstream.response.as_ref().unwrap();
        // Nobody is kept waiting by a cassette.
        let heard = lived.body.as_ref().unwrap().text().unwrap().replace(": keep-alive\n\n", "");
        assert_eq!((*status, body), (lived.status, &heard), "{}", request(exchange));
        let id = headers.iter().find(|(name, _)| name == "toolmark-exchange").map(|(_, value)| value.as_str());
        assert_eq!(id, lived.header("toolmark-exchange"), "{}", request(exchange));
    }
}

#[test]
fn what_was_not_recorded_says_what_is_nearest() {
    let (directory, _) = recorded();
    let player = stage::play(directory.path(), "");
    let mut connection = Connection::open(player.address());
    let body = r#"{"model":"m","stream":false,"tools":[],"messages":[{"role":"user","content":"What is the weather in Rome?"}]}"#;
    let reply = connection.post("/v1/chat/completions", "", body.as_bytes());
    let error = reply.json();
    assert_eq!((reply.status, &error["error"]["code"]), (404, &"cassette_miss".into()), "{error}");
    let message = error["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("The nearest, ") && message.contains("/messages/0/content: recorded ") && message.contains("Rome"),
        "{message}"
    );
}

#[test]
fn in_order_and_at_the_recorded_pace() {
    let (directory, exchanges) = recorded();
    let player = stage::play(directory.path(), "mode = \"in_order\"\npace = \"recorded\"");
    let mut connection = Connection::open(player.address());
    let chat = |exchange: &&Exchange| exchange.path() == "/chat/completions";
    for exchange in exchanges.iter().filter(chat).take(3) {
        let body = request(exchange).replace("What is the weather", "Anything else");
        let reply = connection.post("/v1/chat/completions", "", body.as_bytes());
        assert_eq!(reply.status, exchange.downstream.response.as_ref().unwrap().status);
    }
}

#[test]
fn what_is_new_goes_out_and_is_recorded() {
    let directory = tempfile::tempdir().unwrap();
    let say = |text: &str| {
        format!(
            r#"{{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{{"index":0,"message":{{"role":"assistant","content":"{text}"}},"finish_reason":"stop"}}]}}"#
        )
    };
    let body = |ask: &str| format!(r#"{{"model":"m","messages":[{{"role":"user","content":"{ask}"}}]}}"#);
    let rounds: [(&[&str], usize); 3] = [(&["a", "b"], 2), (&["b", "c", "a"], 1), (&["a", "b", "c"], 0)];
    for (asks, out) in rounds {
        let upstream = toolmark::testing::ScriptedUpstream::start(move |received| {
            Reply::json(200, say(received.json()["messages"][0]["content"].as_str().unwrap()))
        })
        .unwrap();
        let settings = format!(
            "[[upstreams]]\nname = \"live\"\nbase_url = \"{}\"\n[replay]\nfile = \"session.jsonl\"\nmode = \"passthrough\"\n",
            upstream.base_url()
        );
        let proxy = Proxy::start(&settings, &[], directory.path()).unwrap();
        let mut connection = Connection::open(proxy.address());
        for ask in asks {
            let reply = connection.post("/v1/chat/completions", "", body(ask).as_bytes());
            assert_eq!(reply.json()["choices"][0]["message"]["content"], *ask);
        }
        assert_eq!(upstream.received().len(), out, "{asks:?}");
    }
}
