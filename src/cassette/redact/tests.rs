//! Whole exchanges: whatever the secret looks like, no byte of it is written.

use super::*;
use crate::format::{ImportSource, RecordedAttempt, RecordedDownstream, RecordedFailure, RecordedVerdict, RecordedViolation, VERSION};

const CALLER: &str = "no-known-shape-9000";
const UPSTREAM: &str = "another.one/of=ours";
const SHAPED: &str = "sk-proj-abcdefghijklmnop0123";

fn exchange() -> RecordedExchange {
    let body = |text: String| Some(RecordedBody::Text(text));
    let headers = |pairs: &[(&str, &str)]| pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect::<Vec<_>>();
    let request = RecordedRequest {
        method: "POST".into(),
        url: format!("/v1/chat/completions?api-version=1&key={CALLER}&sig=0123"),
        headers: headers(&[("authorization", &format!("Bearer {CALLER}")), ("x-company-auth", "tiny"), ("user-agent", "x")]),
        body: body(format!(
            r#"{{"messages":[{{"role":"tool","content":"{{\"config\":{{\"db_password\":\"p\\u0077d1\"}},\"env\":\"TOKEN={SHAPED}\"}}"}}],"user":"bob"}}"#
        )),
        ..RecordedRequest::default()
    };
    let upstream = RecordedRequest {
        url: "https://user:hunter2@up.example/v1/chat/completions".into(),
        headers: headers(&[("authorization", &format!("Bearer {UPSTREAM}"))]),
        ..request.clone()
    };
    let deltas = ["s", "k-pro", "j-abcdefghijklmnop", "0123"].map(|text| (1, format!("data: {{\"delta\":\"{text}\"}}\n\n")));
    let error = RecordedResponse {
        status: 401,
        headers: headers(&[("set-cookie", "id=1"), ("content-type", "application/json")]),
        body: body(format!(r#"{{"error":{{"message":"wrong key {UPSTREAM}, or {CALLER}"}}}}"#)),
        ..RecordedResponse::default()
    };
    let streamed = RecordedResponse { status: 200, body: Some(RecordedBody::Events(deltas.to_vec())), ..RecordedResponse::default() };
    let failed = RecordedFailure { status: 502, code: "x".into(), message: format!("no {UPSTREAM}") };
    RecordedExchange {
        cassette: VERSION,
        id: "1".into(),
        at_ms: None,
        scope: None,
        policy: None,
        downstream: RecordedDownstream { request, response: Some(error.clone()) },
        attempts: vec![
            RecordedAttempt { request: Some(upstream), response: Some(error), failure: Some(failed), ..RecordedAttempt::default() },
            RecordedAttempt { response: Some(streamed), ..RecordedAttempt::default() },
        ],
        verdict: Some(RecordedVerdict {
            violations: vec![RecordedViolation { code: "x".into(), message: format!("`{SHAPED}`"), ..RecordedViolation::default() }],
            ..RecordedVerdict::default()
        }),
        moments: Vec::new(),
        mcp: None,
        redactions: 0,
        origin: Some(ImportSource { format: "har".into(), rest: serde_json::json!({"cookies": [{"name": "a", "value": CALLER}]}) }),
    }
}

#[test]
fn no_secret_survives() {
    let redactor = Redactor { pointers: vec![vec!["user".into()]], ..Redactor::default() };
    let redacted = redactor.exchange(exchange());
    let line = redacted.line();
    for secret in [CALLER, UPSTREAM, SHAPED, "hunter2", "pwd1", "tiny", "bob", "id=1", "sig=0123"] {
        assert!(!line.contains(secret), "{secret}: {line}");
    }
    let streamed: String = redacted.attempts[1].response.as_ref().unwrap().body.as_ref().unwrap().text().unwrap();
    assert!(!streamed.contains("j-abc") && streamed.contains(REDACTED), "{streamed}");
    for kept in ["api-version=1", "user-agent", "\"status\":401", "up.example"] {
        assert!(line.contains(kept), "{kept}: {line}");
    }
    assert!(redacted.redactions > 10, "{}", redacted.redactions);
    assert_eq!(redactor.exchange(redacted.clone()), redacted, "twice is once");
}

#[test]
fn all_stays_where_that_is_asked() {
    let keep = Redactor { credentials: Credentials::Keep, ..Redactor::default() };
    assert_eq!(keep.exchange(exchange()), exchange());
}
