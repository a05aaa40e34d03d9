//! Files made by the tools themselves: pytest-recording (vcrpy) and mitmproxy, of PyPI, recorded here and now.

use std::{collections::BTreeMap, io::Write as _};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use toolmark::{
    cassette::{body::RecordedBody, format::RecordedExchange, reader},
    testing::{Received, ScriptedReply, ScriptedUpstream},
};

use crate::{clients::runtimes, program::finish};

const STREAM: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Grüße\"}}]}\n\n: ping\r\n\r\ndata: [DONE]\n\n";

fn whole() -> String {
    json!({"id": "c", "object": "chat.completion", "choices": [{"index": 0, "message": {"role": "assistant", "content": "Grüße \u{1f600}\n"}, "finish_reason": "stop"}]}).to_string()
}

/// Whole, streamed, or packed, as the request says.
fn script(received: &Received) -> ScriptedReply {
    let request = received.json();
    if request["stream"] == true {
        return ScriptedReply::events([STREAM]).header("x-two", "a");
    }
    if request["packed"] == true {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        packed.write_all(whole().as_bytes()).unwrap();
        return ScriptedReply::events([packed.finish().unwrap()])
            .header("content-type", "application/json")
            .header("content-encoding", "gzip");
    }
    ScriptedReply::json(200, whole())
}

fn text(body: Option<&RecordedBody>) -> String {
    body.and_then(RecordedBody::text).unwrap_or_default()
}

/// What was sent and came, as the cassette has it.
fn check(exchanges: &[RecordedExchange], upstream: &ScriptedUpstream) {
    let received = upstream.received();
    assert_eq!((exchanges.len(), received.len()), (3, 3));
    for (exchange, received) in exchanges.iter().zip(&received) {
        let request = &exchange.downstream.request;
        assert_eq!(
            format!("{} {}", request.method, request.url.split_once("/v1").map_or("", |(_, rest)| rest)),
            received.line.replace(" /v1", " ")
        );
        assert_eq!(text(request.body.as_ref()).as_bytes(), received.body);
        let response = exchange.attempts[0].response.as_ref().unwrap();
        let streamed = received.json()["stream"] == true;
        assert_eq!((response.status, text(response.body.as_ref())), (200, if streamed { STREAM.to_owned() } else { whole() }));
        assert_eq!(response.is_stream(), streamed);
    }
}

/// Imports a file; credentials stay, so that everything can be compared.
fn imported(form: &str, file: &str, directory: &std::path::Path) -> Vec<RecordedExchange> {
    let done = finish(&["import", form, file, "-o", "imported.jsonl", "--keep-credentials"], directory);
    assert_eq!(done.code, Some(0), "{done:?}");
    reader::all(&directory.join("imported.jsonl")).unwrap().0
}

/// Exported and imported again it is the same; and so is what is judged of it.
fn round_trip(form: &str, exchanges: &[RecordedExchange], directory: &std::path::Path) {
    let file = format!("exported.{form}");
    assert_eq!(finish(&["export", form, "imported.jsonl", "-o", &file], directory).code, Some(0));
    let done = finish(&["import", form, &file, "-o", "again.jsonl", "--keep-credentials"], directory);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(reader::all(&directory.join("again.jsonl")).unwrap().0, exchanges);
    let judged = finish(&["replay", "imported.jsonl", "--strict"], directory);
    assert_eq!(judged.code, Some(0), "{judged:?}");
}

#[test]
fn pytest_recording() {
    if runtimes::skipped("cassettes::tools::pytest_recording") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let upstream = ScriptedUpstream::start(script).unwrap();
    let (url, path) = (upstream.base_url(), directory.path().to_str().unwrap());
    let recorder = runtimes::repository("tests/clients/record_vcr.py");
    let printed = runtimes::run_recorder(&recorder, &[("UPSTREAM", &url), ("CASSETTES", path)]);
    let shown: Value = serde_json::from_str(printed.trim().lines().last().unwrap()).unwrap();
    let exchanges = imported("vcr", shown["path"].as_str().unwrap(), directory.path());
    check(&exchanges, &upstream);
    // Everything that is in the file is in the cassette.
    for (interaction, exchange) in shown["yaml"]["interactions"].as_array().unwrap().iter().zip(&exchanges) {
        let (request, response) = (&exchange.downstream.request, exchange.attempts[0].response.as_ref().unwrap());
        let headers = |headers: &[(String, String)]| {
            let mut grouped: BTreeMap<String, Vec<Value>> = BTreeMap::new();
            headers.iter().for_each(|(name, value)| grouped.entry(name.clone()).or_default().push(value.as_str().into()));
            json!(grouped)
        };
        let mut left = interaction.clone();
        assert_eq!(left["request"]["headers"].take(), headers(&request.headers));
        assert_eq!(left["response"]["headers"].take(), headers(&response.headers));
        assert_eq!(left["request"]["body"].take(), text(request.body.as_ref()));
        let body = left["response"]["body"]["string"].take();
        match response.encoded.as_deref() {
            Some("gzip") => assert!(STANDARD.decode(body["!!binary"].as_str().unwrap()).unwrap().starts_with(&[0x1f, 0x8b])),
            _ => assert_eq!(body, text(response.body.as_ref())),
        }
        let rest = &exchange.origin.as_ref().unwrap().rest;
        let expected = json!({"request": {"body": null, "headers": null, "method": request.method, "uri": request.url},
            "response": {"body": {"string": null}, "headers": null, "status": {"code": response.status, "message": rest["response"]["status"]["message"]}}});
        assert_eq!(left, expected);
    }
    round_trip("vcr", &exchanges, directory.path());
    let exported = directory.path().join("exported.vcr");
    let played = runtimes::run_recorder(&recorder, &[("PLAY", exported.to_str().unwrap())]);
    assert_eq!(serde_json::from_str::<Value>(&played).unwrap(), json!([whole(), STREAM, whole()]), "vcrpy plays what toolmark exports");
}

#[test]
fn mitmproxy() {
    if runtimes::skipped("cassettes::tools::mitmproxy") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let upstream = ScriptedUpstream::start(script).unwrap();
    let (url, har) = (upstream.base_url(), directory.path().join("recorded.har"));
    let recorder = runtimes::repository("tests/clients/record_har.py");
    runtimes::run_recorder(&recorder, &[("UPSTREAM", &url), ("HAR", har.to_str().unwrap())]);
    let exchanges = imported("har", "recorded.har", directory.path());
    check(&exchanges, &upstream);
    // With what was taken out put back, every entry is as it was.
    let archive: Value = serde_json::from_slice(&std::fs::read(&har).unwrap()).unwrap();
    for (number, (entry, exchange)) in archive["log"]["entries"].as_array().unwrap().iter().zip(&exchanges).enumerate() {
        let (request, response) = (&exchange.downstream.request, exchange.attempts[0].response.as_ref().unwrap());
        let headers =
            |headers: &[(String, String)]| headers.iter().map(|(name, value)| json!({"name": name, "value": value})).collect::<Value>();
        let mut whole = exchange.origin.as_ref().unwrap().rest.clone();
        let beside = whole.as_object_mut().unwrap().remove("log");
        assert_eq!(beside.is_some(), number == 0);
        whole["request"]["method"] = request.method.as_str().into();
        whole["request"]["url"] = request.url.as_str().into();
        whole["request"]["headers"] = headers(&request.headers);
        whole["request"]["postData"]["text"] = text(request.body.as_ref()).into();
        whole["response"]["status"] = response.status.into();
        whole["response"]["headers"] = headers(&response.headers);
        whole["response"]["content"]["text"] = entry["response"]["content"]["text"].clone();
        assert_eq!(&whole, entry);
    }
    round_trip("har", &exchanges, directory.path());
}
