//! Recorded sessions played again: the same results, twice the same bytes, and no upstream anywhere.

use std::path::Path;

use serde_json::Value;
use toolmark::{
    cassette::{body::RecordedBody, format::RecordedExchange},
    testing::{Proxy, Received, ScriptedReply},
};

use super::stage::{self, Recording};
use crate::{
    clients::{model::model, responses_model::responses_model, runtimes},
    responses_clients,
    wire::Connection,
};

/// Without a repair, so that one request of the client is one to upstream.
const ERROR_POLICY: &str = "[calls]\nmax_repairs = 0\non_exhausted = \"error\"\n";

/// What a script printed with these variables besides its key.
fn run(script: &Path, environment: &[(&str, String)]) -> Value {
    let mut all: Vec<(&str, &str)> = environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
    all.push(("OPENAI_API_KEY", "sk-test-key"));
    let python = script.extension().is_some_and(|extension| extension == "py");
    let printed = if python { runtimes::run_python(script, &all) } else { runtimes::run_node(script, &all) };
    serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"))
}

/// A script in front of proxies that record, then twice in front of what they recorded. `fronts`: for each the variable
/// that names it to the script, and its policy; `more`: further variables.
fn session_of<M: Fn(&Received) -> ScriptedReply + Send + Sync + 'static>(
    script: &str,
    fronts: &[(&'static str, &str)],
    more: &[(&'static str, String)],
    model: impl Fn() -> M,
) {
    let script = runtimes::repository(script);
    let environment = |proxies: &[&Proxy]| -> Vec<(&str, String)> {
        let urls = fronts.iter().zip(proxies).map(|((name, _), proxy)| (*name, proxy.base_url()));
        urls.chain(more.iter().cloned()).collect()
    };
    let recordings: Vec<Recording> = fronts.iter().map(|(_, policy)| Recording::start(policy, "", "", model())).collect();
    let lived = run(&script, &environment(&recordings.iter().map(|recording| &recording.proxy).collect::<Vec<_>>()));
    let directories: Vec<_> = recordings.into_iter().map(|recording| recording.end().0).collect();
    let players: Vec<Proxy> = directories.iter().map(|directory| stage::play(directory.path(), "")).collect();
    for round in 0..2 {
        let played = run(&script, &environment(&players.iter().collect::<Vec<_>>()));
        for (scene, expected) in lived.as_object().unwrap() {
            assert_eq!(&played[scene], expected, "round {round}, {scene}");
        }
    }
}

/// Every scene of the clients' own tests: whole, streamed, repaired, blocked, refused, broken off.
fn chat_session_of(script: &str) {
    session_of(script, &[("DEFAULT_URL", "default"), ("ERROR_URL", ERROR_POLICY), ("STRICT_URL", "strict")], &[], || model);
}

/// The same on the Responses API, conversations that the upstream keeps among them.
fn responses_session_of(script: &str) {
    session_of(script, &[("OPENAI_BASE_URL", "default")], &[("SCENES", responses_clients::asks())], responses_model);
}

#[test]
fn openai_of_pypi() {
    if !runtimes::skipped("cassettes::played::openai_of_pypi") {
        chat_session_of("tests/clients/chat.py");
    }
}

#[test]
fn openai_of_npm() {
    if !runtimes::skipped("cassettes::played::openai_of_npm") {
        chat_session_of("tests/clients/chat.mjs");
    }
}

#[test]
fn openai_of_pypi_on_responses() {
    if !runtimes::skipped("cassettes::played::openai_of_pypi_on_responses") {
        responses_session_of("tests/clients/responses.py");
    }
}

#[test]
fn openai_of_npm_on_responses() {
    if !runtimes::skipped("cassettes::played::openai_of_npm_on_responses") {
        responses_session_of("tests/clients/responses.mjs");
    }
}

/// A session over chat and Responses, each turn whole and streamed, with a repair and a block among them.
fn recorded() -> (tempfile::TempDir, Vec<RecordedExchange>) {
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
        for ask in ["What is the weather in Paris?", "Invent a tool.", "Forge a citation.", "Never mend.", "Break off."] {
            respond(&mut connection, stream, &tools, ask);
        }
    }
    recording.end()
}

/// A turn on the Responses API; and, where there is a call, its result to what the upstream keeps, and to the whole history.
fn respond(connection: &mut Connection, stream: bool, tools: &str, ask: &str) {
    let mut post = |input: &str, more: &str| {
        let body = format!(r#"{{"model":"m","stream":{stream},"tools":{tools},"input":{input}{more}}}"#);
        connection.post_as("/v1/responses", "Bearer sk-of-the-caller", "", body.as_bytes()).text()
    };
    let user = format!(r#"{{"role":"user","content":"{ask}"}}"#);
    let answer = post(&format!("[{user}]"), "");
    let text = |from: &str| answer.split_once(from).map(|(_, rest)| rest.split('"').next().unwrap_or_default().to_owned());
    let (Some(call), Some(response)) = (text(r#""call_id":""#), text(r#""id":"resp_"#)) else { return };
    let output = format!(r#"{{"type":"function_call_output","call_id":"{call}","output":"{{\"city\":\"Paris\",\"degrees\":18}}"}}"#);
    post(&format!("[{output}]"), &format!(r#","previous_response_id":"resp_{response}""#));
    let item = format!(r#"{{"type":"function_call","call_id":"{call}","name":"get_weather","arguments":"{{\"city\":\"Paris\"}}"}}"#);
    post(&format!("[{user},{item},{output}]"), "");
}

/// What the application sent, as it can be sent again.
fn request(exchange: &RecordedExchange) -> String {
    exchange.downstream.request.body.as_ref().and_then(RecordedBody::text).unwrap()
}

#[test]
fn twice_the_same_bytes() {
    let (directory, exchanges) = recorded();
    assert!(exchanges.len() >= 20, "{}", exchanges.len());
    let player = stage::play(directory.path(), "");
    let round = || -> Vec<_> {
        let mut connection = Connection::open(player.address());
        let play = |exchange: &RecordedExchange| {
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
    let chat = |exchange: &&RecordedExchange| exchange.path() == "/chat/completions";
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
            ScriptedReply::json(200, say(received.json()["messages"][0]["content"].as_str().unwrap()))
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
