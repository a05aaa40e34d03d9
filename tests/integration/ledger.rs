//! The ledger: what an exchange leaves, how it is found again, and what becomes of it when things go wrong.

mod commands;
mod crash;
mod failures;
mod first;
mod policies;
mod replicas;
mod search;
mod talk;
mod tamper;
mod upgrades;

use std::sync::Arc;

use toolmark::{
    ledger::{
        record::{CallOutcome, Digest, ExchangeRecord},
        store::Store,
    },
    openai::Api,
    violation::{Code, Verdict},
};

use crate::{
    harness::{Answer, Fixture},
    program::until,
};
use talk::{call, request, result, script, user};

/// The record of the exchange that this answers. It is made behind the answer.
fn record_of(store: &Arc<dyn Store>, answer: &Answer) -> Arc<ExchangeRecord> {
    let id = answer.header("toolmark-exchange").parse().unwrap();
    until("the exchange's record", || store.exchange(id).unwrap())
}

#[test]
fn a_record_says_what_happened() {
    let fixture = Fixture::new("default", script);
    let store = fixture.proxy.store();
    let question = user("invent");
    let answer = fixture.chat(&request(std::slice::from_ref(&question)));
    let record = record_of(&store, &answer);
    let outline = (record.api, record.stream, record.status, record.verdict, record.repairs);
    assert_eq!(outline, (Api::Chat, false, Some(200), Verdict::Repaired, 1));
    assert_eq!(
        record.attempts.iter().map(|attempt| (&*attempt.upstream, attempt.status)).collect::<Vec<_>>(),
        [("scripted", Some(200)); 2]
    );
    assert!(record.attempts.iter().all(|attempt| attempt.tokens.is_some_and(|tokens| (tokens.input, tokens.output) == (11, 7))));
    let calls: Vec<_> = record.calls.iter().map(|call| (call.attempt, &*call.tool, call.outcome)).collect();
    assert_eq!(calls, [(1, "fetch_weather", CallOutcome::Rejected), (2, "get_weather", CallOutcome::Accepted)]);
    assert_eq!(record.calls.first().unwrap().violations, [Code::UnknownTool]);
    assert_eq!(record.violations.iter().map(|violation| (violation.code, violation.attempt)).collect::<Vec<_>>(), [(Code::UnknownTool, 1)]);
    assert!(record.total_us >= record.upstream_us && record.executions.is_empty());

    let called = &answer.json()["choices"][0]["message"];
    let mark = called["tool_calls"][0]["id"].as_str();
    assert_eq!(record.calls.last().unwrap().mark.as_deref(), mark);
    let conversation = [question, called.clone(), result(called, "{\"sky\":\"cl\\u00e9ar\"}")];
    let answer = fixture.chat(&request(&conversation));
    let record = record_of(&store, &answer);
    assert_eq!((record.verdict, record.executions.len()), (Verdict::Pass, 1));
    let execution = record.executions.first().unwrap();
    assert!(execution.id.starts_with("get_weather_") && execution.seen_ms >= execution.started_ms && !execution.failed);
    assert_eq!((Some(&*execution.mark), execution.arguments), (mark, Some(Digest::of(br#"{"city":"Paris"}"#))));
    assert_eq!(execution.result, Digest::of(r#"{"sky":"cl\u00e9ar"}"#.as_bytes()));
    assert!(execution.result_body.is_none() && execution.arguments_body.is_none());
    assert_eq!(store.execution(&execution.id).unwrap().unwrap().exchange, record.id);
    // What came before isn't said again.
    let again = record_of(&store, &fixture.chat(&request(&conversation)));
    assert!(again.executions.is_empty() && again.violations.is_empty());
}

#[test]
fn bodies_are_kept_where_that_is_asked_for_and_cut() {
    for (settings, kept) in [("", Some(&b"0123"[..])), ("except_tools = [\"get_*\"]\n", None), ("only_tools = [\"other\"]\n", None)] {
        let settings = format!("[ledger]\nurl = \"memory:\"\nstore = \"bodies\"\nbody_bytes = \"16B\"\n{settings}");
        let fixture = Fixture::with_policy("default", &settings, script);
        let store = fixture.proxy.store();
        let answer = fixture.chat(&request(&[user("invent")]));
        let record = record_of(&store, &answer);
        let message = record.violations.first().unwrap().message.is_some();
        let called = answer.json()["choices"][0]["message"].clone();
        let long = "0123456789".repeat(5);
        let record = record_of(&store, &fixture.chat(&request(&[user("x"), called.clone(), result(&called, &long)])));
        let execution = record.executions.first().unwrap();
        let body = execution.result_body.as_ref();
        assert_eq!(body.map(|body| &body.text.as_bytes()[..4]), kept);
        assert_eq!(body.map(|body| (body.text.len(), body.bytes, body.is_cut())), kept.map(|_| (16, 50, true)));
        assert_eq!(execution.arguments_body.is_some(), kept.is_some());
        // The message is about `fetch_weather`, which no pattern names but by leaving it out.
        assert_eq!(message, !settings.contains("only_tools"));
    }
    assert_eq!(call("x")["role"], "assistant");
}
