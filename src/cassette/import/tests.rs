//! What is read of each form, and that writing and reading it again loses nothing.

use std::io::Write as _;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use proptest::prelude::*;

use super::*;
use crate::{
    export,
    format::{RecordedFailure, RecordedMcp, RecordedPolicy, RecordedToolRun, RecordedVerdict, RecordedViolation},
};

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

fn body_text(exchange: &RecordedExchange) -> String {
    exchange.attempts[0].response.as_ref().unwrap().body.as_ref().unwrap().text().unwrap()
}

#[test]
fn vcr() {
    let packed = STANDARD.encode(gzip(r#"{"a":"é"}"#));
    let text = format!(
        "interactions:\n- request:\n    body: '{{\"model\":\"m\"}}'\n    headers:\n      Content-Type:\n      - application/json\n      X-Two: [a, b]\n    method: POST\n    uri: https://h/v1/chat/completions\n\
         \x20 response:\n    body:\n      string: !!binary |\n        {packed}\n    headers:\n      content-encoding: [gzip]\n    status: {{code: 200, message: OK}}\n  recorded_at: 2024-05-06T07:08:09+02:00\n\
         - request:\n    headers: {{}}\n    method: POST\n    parsed_body: {{model: m, n: 1}}\n    uri: https://h/v1/chat/completions\n\
         \x20 response:\n    headers: {{content-type: [application/json]}}\n    parsed_body: {{choices: [{{index: 0}}]}}\n    status: {{code: 429, message: Too Many}}\n\
         - request: {{body: null, headers: {{}}, method: GET, uri: 'https://h/v1/models'}}\n  response: {{body: {{base64_string: aGk=}}, headers: {{}}, status: {{code: 200}}}}\nversion: 1\n"
    );
    let read = vcr::read(&text).unwrap();
    assert_eq!(read.len(), 3);
    assert_eq!(body_text(&read[0]), r#"{"a":"é"}"#);
    let response = read[0].attempts[0].response.as_ref().unwrap();
    assert_eq!((response.encoded.as_deref(), response.header("Content-Encoding")), (Some("gzip"), Some("gzip")));
    assert_eq!(read[0].downstream.request.headers.len(), 3);
    assert_eq!(read[0].at_ms, Some(1_714_972_089_000));
    assert_eq!(read[1].downstream.request.body, Some(RecordedBody::Text(r#"{"model":"m","n":1}"#.into())));
    assert_eq!(body_text(&read[1]), r#"{"choices":[{"index":0}]}"#);
    assert_eq!(read[1].origin.as_ref().unwrap().rest.pointer("/response/status/message"), Some(&"Too Many".into()));
    assert_eq!((body_text(&read[2]), &read[2].downstream.request.body), ("hi".into(), &None));
    assert_eq!(vcr::read(&text).unwrap(), read, "ids are the same each time");
    let ids: std::collections::HashSet<&str> = read.iter().map(|exchange| exchange.id.as_str()).collect();
    assert_eq!(ids.len(), 3);
}

#[test]
fn har() {
    let packed = STANDARD.encode("data: é\n\n");
    let text = format!(
        r#"{{"log":{{"version":"1.2","creator":{{"name":"x"}},"entries":[{{"startedDateTime":"2024-05-06T05:08:09.123456+00:00","time":5,
        "request":{{"method":"POST","url":"https://h/v1/responses?a=1","headers":[{{"name":"A","value":"1"}},{{"name":"B","value":"2"}},{{"name":"A","value":"3"}}],"cookies":[{{"name":"c"}}],"postData":{{"mimeType":"application/json","text":"{{}}","params":[]}}}},
        "response":{{"status":200,"statusText":"OK","headers":[],"content":{{"size":3,"mimeType":"text/event-stream","text":"{packed}","encoding":"base64"}}}},"_extra":7}}]}}}}"#
    );
    let read = har::read(&text).unwrap();
    assert_eq!(body_text(&read[0]), "data: é\n\n");
    assert_eq!((read[0].at_ms, read[0].downstream.request.headers.len()), (Some(1_714_972_089_123), 3));
    let rest = &read[0].origin.as_ref().unwrap().rest;
    for (pointer, value) in [
        ("/_extra", Value::from(7)),
        ("/time", 5.into()),
        ("/request/cookies/0/name", "c".into()),
        ("/request/postData/mimeType", "application/json".into()),
        ("/response/content/encoding", "base64".into()),
        ("/log/creator/name", "x".into()),
        ("/startedDateTime", "2024-05-06T05:08:09.123456+00:00".into()),
    ] {
        assert_eq!(rest.pointer(pointer), Some(&value), "{pointer}");
    }
    assert!(rest.pointer("/response/content/text").is_none(), "said once");
}

#[test]
fn what_is_none_says_why() {
    for (format, text, why) in [
        (Format::Vcr, "a: 1", "no list `interactions`"),
        (Format::Vcr, "interactions:\n- response: {}\n", "interaction 1: it has no `request`"),
        (Format::Vcr, "a: [", "no YAML"),
        (Format::Har, "{}", "no list `log.entries`"),
        (Format::Har, "nope", "no JSON"),
        (Format::Har, r#"{"log":{"entries":[{"request":{"method":"GET"}}]}}"#, "entry 1: its request has no `url`"),
        (Format::Exchanges, "{}\n", "line 1: it has no `url`"),
        (Format::Exchanges, "\n{", "line 2: not valid JSON"),
    ] {
        let error = read(format, text).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

fn body() -> impl Strategy<Value = Option<RecordedBody>> {
    let text = prop_oneof!["[ -~]{0,20}", ".{0,12}", "[\\x00-\\x20\\x7f-\\xa0\u{2028}\u{feff}\u{ffff}é😀:#'\"\\\\-]{0,12}"];
    prop_oneof![
        Just(None),
        text.clone().prop_map(|text| Some(RecordedBody::Text(text))),
        prop::collection::vec(any::<u8>(), 0..12).prop_map(|bytes| Some(RecordedBody::of_bytes(bytes.into()))),
        prop::collection::vec((0u64..900, text), 0..4).prop_map(|events| Some(RecordedBody::Events(events))),
    ]
}

fn headers() -> impl Strategy<Value = Vec<(String, String)>> {
    let name = prop::sample::select(vec!["content-type", "Content-Type", "content-encoding", "x-a", "on"]);
    prop::collection::vec((name.prop_map(str::to_owned), "[ -~é]{0,8}"), 0..5)
}

prop_compose! {
    fn response()(status in 100u16..600, head_ms in prop::option::of(0u64..999), headers in headers(), body in body(), cut in any::<bool>(), encoded in prop::option::of(Just("gzip".to_owned())))
        -> RecordedResponse { RecordedResponse { status, head_ms, headers, body, encoded, cut } }
}

prop_compose! {
    fn request()(method in "[A-Z]{1,4}", url in prop::sample::select(vec!["/v1/chat/completions", "https://h/v1/x?a=b&c", "/"]), headers in headers(), body in body(), encoded in prop::option::of(Just("deflate".to_owned())))
        -> RecordedRequest { RecordedRequest { method, url: url.to_owned(), headers, body, encoded } }
}

prop_compose! {
    fn exchange()(
        id in "[a-z0-9-]{0,8}", at_ms in prop::option::of(0u64..2_000_000_000_000), request in request(), downstream in prop::option::of(response()),
        attempts in prop::collection::vec((prop::option::of(request()), prop::option::of(response()), any::<bool>()), 0..3),
        judged in any::<bool>(), redactions in 0u32..2, origin in prop::option::of(prop::sample::select(vec!["vcr", "har"])),
    ) -> RecordedExchange {
        let failed = RecordedFailure { status: 502, code: "x".into(), message: "é".into() };
        let attempt = |(request, response, fails): (Option<RecordedRequest>, Option<RecordedResponse>, bool)| RecordedAttempt {
            upstream: Some("up".into()), after_ms: Some(1), request, response, failure: fails.then(|| failed.clone()), fault: None,
        };
        let found = RecordedViolation { code: "unknown_tool".into(), severity: "block".into(), tool: Some("x".into()), message: "m".into() };
        let ran = RecordedToolRun { call: "call_1".into(), tool: "t__x".into(), arguments: "{}".into(), result: "é".into(), failed: false };
        RecordedExchange {
            cassette: VERSION, id, at_ms, scope: judged.then(|| "anonymous".into()),
            policy: judged.then(|| RecordedPolicy { source: "default".into(), mode: "enforce".into(), digest: "00".into() }),
            downstream: RecordedDownstream { request, response: downstream }, attempts: attempts.into_iter().map(attempt).collect(),
            verdict: judged.then(|| RecordedVerdict { verdict: "warn".into(), repairs: 1, violations: vec![found], citations: vec!["a".into()] }),
            moments: if judged { vec![(1, 2)] } else { Vec::new() }, redactions,
            mcp: judged.then(|| RecordedMcp { tools: vec!["t__x".into()], ran: vec![ran] }),
            origin: origin.map(|format| ImportSource { format: format.to_owned(), rest: serde_json::json!({"a/b": {"~": [1, null]}}) }),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn exported_and_imported_is_the_same(exchanges in prop::collection::vec(exchange(), 0..3)) {
        prop_assert_eq!(&vcr::read(&export::vcr::write(&exchanges)).unwrap(), &exchanges);
        prop_assert_eq!(&har::read(&export::har::write(&exchanges)).unwrap(), &exchanges);
        let lines: Vec<RecordedExchange> = exchanges.iter().map(|exchange| RecordedExchange::parse(&exchange.line()).unwrap()).collect();
        prop_assert_eq!(&lines, &exchanges);
    }
}
