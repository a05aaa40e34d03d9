//! The first result wins, and a session may cite what it saw.

use serde_json::json;

use super::{
    crash::store_of,
    talk::{self, KEY, request, result, script, user},
};
use crate::{
    harness::Fixture,
    postgres::Ledger,
    process::Process,
    wire::{Connection, Reply},
};
use toolmark::{
    ledger::store::{ExecutionFilter, PageQuery},
    testing::ScriptedUpstream,
};

fn as_session(connection: &mut Connection, session: &str, body: &str) -> Reply {
    connection.post("/v1/chat/completions", &format!("toolmark-session: {session}\r\n"), body.as_bytes())
}

fn codes(reply: &Reply) -> String {
    reply.header("toolmark-violations").to_owned()
}

/// The execution ID that the upstream saw last.
fn stamped(upstream: &ScriptedUpstream) -> String {
    let body = upstream.received().last().unwrap().json();
    let result = body["messages"].as_array().unwrap().iter().rev().find(|message| message["role"] == "tool").unwrap();
    let text = result["content"].as_str().unwrap();
    text.split(['"', ' ', ']']).find(|word| word.starts_with("get_weather_")).unwrap().to_owned()
}

#[test]
fn another_result_for_the_same_call_is_noticed() {
    for (policy, status, code) in [("default", 200, None), ("strict", 400, Some("rewritten_result"))] {
        let fixture = Fixture::new(policy, script);
        let question = user("Weather?");
        let called = fixture.chat(&request(std::slice::from_ref(&question))).json()["choices"][0]["message"].clone();
        let with = |content: &str| request(&[question.clone(), called.clone(), result(&called, content)]);
        let first = fixture.chat(&with("{\"a\":\"\\u00e9\"}"));
        assert!(!first.header("toolmark-violations").contains("rewritten_result"), "{first:?}");
        let other = fixture.chat(&with("{\"a\":2}"));
        assert_eq!(other.status, status, "{other:?}");
        assert!(other.header("toolmark-violations").contains("rewritten_result"), "{other:?}");
        assert_eq!(other.json()["error"]["code"].as_str(), code);
        // The first one stays the first.
        let again = fixture.chat(&with("{\"a\":\"\\u00e9\"}"));
        assert!(!again.header("toolmark-violations").contains("rewritten_result"), "{again:?}");
    }
}

/// Context editing: what was a result is a placeholder, or cut.
#[test]
fn a_result_that_was_taken_out_harms_nothing_unless_it_is_cited() {
    for policy in ["default", "strict"] {
        let fixture = Fixture::new(policy, script);
        let question = user("Weather?");
        let called = fixture.chat(&request(std::slice::from_ref(&question))).json()["choices"][0]["message"].clone();
        let with = |content: &str, more: &str| request(&[question.clone(), called.clone(), result(&called, content), user(more)]);
        fixture.chat(&with("It is sunny, and will be for days to come.", "Well?"));
        let id = stamped(&fixture.upstream);
        for trimmed in ["[cleared]", "[Old tool result content cleared]", "It is sunny, and wi...", ""] {
            let reply = fixture.chat(&with(trimmed, "say Well."));
            let found = reply.header("toolmark-violations").to_owned();
            assert_eq!(reply.status, 200, "{policy} {trimmed}: {reply:?}");
            assert!(found.contains("trimmed_result") && !found.contains("rewritten_result"), "{policy} {trimmed}: {found}");
            let cites = fixture.chat(&with(trimmed, &format!("say It is sunny (execution_id: {id}).")));
            let found = cites.header("toolmark-violations").to_owned();
            assert!(found.contains("execution_elsewhere"), "{policy} {trimmed}: {found}");
            // Strict has the model answer again.
            assert_eq!(cites.header("toolmark-verdict"), if policy == "strict" { "repaired" } else { "warn" }, "{trimmed}");
        }
        let other = fixture.chat(&with("It is raining.", "say Well."));
        assert!(other.header("toolmark-violations").contains("rewritten_result"), "{other:?}");
    }
}

/// After a restart, when nothing is in memory any more.
fn survives_a_restart(ledger: &Ledger) {
    let upstream = ScriptedUpstream::start(script).unwrap();
    let settings = format!("[ledger]\nurl = \"{}\"\n", ledger.url());
    let start = || Process::start_in(ledger.directory(), &upstream, &settings, Some(KEY));
    let before = start();
    let mut connection = before.connect();
    let question = user("Weather?");
    let called = as_session(&mut connection, "s1", &request(std::slice::from_ref(&question))).json()["choices"][0]["message"].clone();
    let with = |content: &str| request(&[question.clone(), called.clone(), result(&called, content)]);
    assert_eq!(codes(&as_session(&mut connection, "s1", &with("first"))), "");
    let id = stamped(&upstream);
    drop(connection);
    assert!(before.stop().success());

    let after = start();
    let mut connection = after.connect();
    for (session, stream, expected) in [("s1", false, "pass"), ("s1", true, "pass"), ("s2", false, "warn"), ("s2", true, "warn")] {
        let say = user(&format!("say It was sunny (execution_id: {id}), all day long."));
        let body = json!({"model": "m", "messages": [say], "tools": talk::tools(), "stream": stream}).to_string();
        // The process doesn't know it: the ledger is asked.
        let reply = as_session(&mut connection, session, &body);
        let text = reply.text();
        assert_eq!(text.contains("execution_elsewhere"), expected == "warn", "{session} {stream}: {text}");
        if !stream {
            let found = if expected == "warn" { "execution_elsewhere" } else { "" };
            assert_eq!((codes(&reply).as_str(), reply.header("toolmark-verdict")), (found, expected));
            // Of a verified citation only the prose is left.
            let shown = reply.json()["choices"][0]["message"]["content"].as_str().unwrap_or_default().contains(&id);
            assert_eq!(shown, expected == "warn", "{text}");
        }
    }
    let rewritten = as_session(&mut connection, "s1", &with("second"));
    assert_eq!(codes(&rewritten), "rewritten_result");
    assert_eq!(codes(&as_session(&mut connection, "s1", &with("first"))), "");
    drop(connection);
    assert!(after.stop().success());
    let record = store_of(ledger).exchange(rewritten.header("toolmark-exchange").parse().unwrap()).unwrap().unwrap();
    let found: Vec<_> = record.violations.iter().map(|own| (own.code.as_str(), own.attempt)).collect();
    assert_eq!(found, [("rewritten_result", 0)], "it is the request's, although the ledger said so while the upstream answered");
}

#[test]
fn what_was_first_and_whose_survives_a_restart() {
    survives_a_restart(&Ledger::sqlite());
    survives_a_restart(&Ledger::postgres());
}

#[test]
fn a_result_is_seen_when_it_has_come_and_not_when_its_upload_began() {
    let upstream = ScriptedUpstream::start(script).unwrap();
    let ledger = Ledger::sqlite();
    let settings = format!("[ledger]\nurl = \"{}\"\n", ledger.url());
    let process = Process::start_in(ledger.directory(), &upstream, &settings, Some(KEY));
    let mut slow = process.connect();
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer test\r\nexpect: 100-continue\r\n\
                transfer-encoding: chunked\r\n\r\n";
    slow.send(head.as_bytes());
    let told = [slow.line().unwrap(), slow.line().unwrap()];
    assert_eq!(told, ["HTTP/1.1 100 Continue", ""], "the head has been read");
    // Only now the call is made whose result the body will bring.
    let called = process.connect().chat(&request(&[user("Weather?")])).json()["choices"][0]["message"].clone();
    let body = request(&[user("Weather?"), called.clone(), result(&called, "clear")]);
    slow.send(format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len()).as_bytes());
    assert_eq!(slow.reply().status, 200);
    drop(slow);
    assert!(process.stop().success());
    let found = store_of(&ledger)
        .executions(&ExecutionFilter { page: PageQuery { limit: 9, ..PageQuery::default() }, ..ExecutionFilter::default() });
    let [row] = &found.unwrap().rows[..] else { panic!("one execution") };
    let exchange = store_of(&ledger).exchange(row.exchange).unwrap().unwrap();
    let (began, called, seen) = (exchange.at_ms, row.execution.started_ms, row.execution.seen_ms);
    assert!(began <= called && called <= seen && seen <= exchange.ended_ms(), "{began} {called} {seen}");
}

/// An agent repeats the citation of another agent of its session, which reached it as its tool's result, and no other.
#[test]
fn a_citation_that_another_agent_handed_over_is_a_citation() {
    let id_in = |text: &str| {
        text.split(|c: char| !c.is_alphanumeric() && c != '_').find(|word| word.starts_with("get_weather_")).map(str::to_owned)
    };
    let fixture = Fixture::new("strict", move |received| {
        let body = received.json();
        let last = body["messages"].as_array().unwrap().last().unwrap().clone();
        let text = last["content"].as_str().unwrap_or_default();
        match (last["role"] == "tool", text.contains("DESK")) {
            (true, true) => {
                let cites = id_in(text).map(|id| format!(" (execution_id: {id})")).unwrap_or_default();
                talk::completion(&json!({"role": "assistant", "content": format!("It is clear in Paris{cites}.")}))
            }
            (true, false) => talk::completion(
                &json!({"role": "assistant", "content": format!("It is clear (execution_id: {}).", id_in(text).unwrap_or_default())}),
            ),
            (false, _) => talk::completion(&talk::call(body["tools"][0]["function"]["name"].as_str().unwrap())),
        }
    });
    let mut connection = Connection::open(fixture.proxy.address());
    let called = as_session(&mut connection, "s1", &request(&[user("Weather?")])).json()["choices"][0]["message"].clone();
    let own = as_session(&mut connection, "s1", &request(&[user("Weather?"), called.clone(), result(&called, "clear in Paris")]));
    assert_eq!((own.status, codes(&own).as_str()), (200, ""), "{}", own.text());
    let id = stamped(&fixture.upstream);
    let desk = json!([{"type": "function", "function": {"name": "ask_desk", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}]);
    let parent = |connection: &mut Connection, session: &str, report: &str| {
        let ask = |messages: &[serde_json::Value]| json!({"model": "m", "messages": messages, "tools": desk}).to_string();
        let called = as_session(connection, session, &ask(&[user("Ask the desk.")])).json()["choices"][0]["message"].clone();
        as_session(connection, session, &ask(&[user("Ask the desk."), called.clone(), result(&called, report)]))
    };
    let report = format!("DESK: it is clear in Paris (execution_id: {id})");
    let same = parent(&mut connection, "s1", &report);
    assert_eq!((same.status, same.header("toolmark-verdict"), codes(&same).as_str()), (200, "pass", ""), "{}", same.text());
    // Of another session, or nowhere.
    assert!(codes(&parent(&mut connection, "s2", &report)).contains("execution_elsewhere"));
    assert!(codes(&parent(&mut connection, "s1", "DESK: it is clear in Paris")).contains("missing_citation"));
}
