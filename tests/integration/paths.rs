//! Spellings of a path that some server may read as another: none goes upstream, and what has no `/v1` is served.

use toolmark::testing::ScriptedReply;

use crate::{
    bad_input::{ANSWER, refused},
    harness::Fixture,
    wire::Connection,
};

const BODY: &str = r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#;

#[test]
fn no_spelling_gets_past_the_routes() {
    let settings = "";
    let fixture = Fixture::with_policy("default", settings, |_| ScriptedReply::json(200, ANSWER));
    let address = fixture.proxy.address();
    for part in [
        "..;",
        "..;x=1",
        "..%3b",
        "..%3B/x",
        "%2e%2e",
        "%2E%2E%3B",
        "..%00",
        "..%09",
        "..%20",
        "%c0%ae%c0%ae",
        "%e0%80%ae%e0%80%ae",
        "%ef%bc%8e%ef%bc%8e",
        "\u{ff0e}\u{ff0e}",
        "\u{2025}",
        "%e2%80%a4%e2%80%a4",
        "..%5c",
        "..\\",
        "%252e%252e",
        "%25%32%65%25%32%65",
        ".",
        "..",
        "...",
        ";",
        ";jsessionid=1",
        "%u002e%u002e",
        "%2f..%2f",
        "\u{2215}",
        "%ef%bc%8f",
        "a%0d%0aHost:%20x",
    ] {
        for path in [
            format!("/v1/files/{part}/chat/completions"),
            format!("/v1/models/{part}/responses"),
            format!("/v1/{part}/chat/completions"),
            format!("/v1/files/f/{part}"),
        ] {
            // Some are no HTTP, after which the connection is closed.
            let mut connection = Connection::open(address);
            let reply = connection.post(&path, "", BODY.as_bytes());
            assert_eq!(reply.status, 400, "{path}: {}", reply.text());
            if path.is_ascii() {
                refused(&reply, 400, "invalid_path", &path);
            }
        }
    }
    assert!(fixture.upstream.received().is_empty(), "{:?}", fixture.upstream.received());
}

#[test]
fn a_client_without_v1_is_served() {
    let fixture = Fixture::new("default", |_| ScriptedReply::json(200, ANSWER));
    let mut connection = Connection::open(fixture.proxy.address());
    for path in ["/chat/completions", "/v1/chat/completions", "/openai/v1/chat/completions", "//chat//completions/"] {
        let reply = connection.post(path, "", BODY.as_bytes());
        assert_eq!((reply.status, reply.header("toolmark-verdict")), (200, "pass"), "{path}: {}", reply.text());
    }
    connection.post("/responses", "", br#"{"model":"m","input":"hi"}"#);
    connection.post("/embeddings", "", b"{}");
    let lines: Vec<_> = fixture.upstream.received().iter().map(|received| received.line.clone()).collect();
    assert_eq!(lines[..4], ["POST /v1/chat/completions"; 4]);
    assert_eq!(lines[4..], ["POST /v1/responses", "POST /v1/embeddings"]);
}

#[test]
fn what_stands_beside_v1_can_be_let_through() {
    let directory = tempfile::tempdir().unwrap();
    let upstream = toolmark::testing::ScriptedUpstream::start(|_| ScriptedReply::json(200, r#"{"status":"ok"}"#)).unwrap();
    let settings = format!(
        "passthrough = [\"/health\", \"/props\", \"/slots/*\", \"/v1/rerank\"]\n[[upstreams]]\nname = \"a\"\nbase_url = \"{}\"\n",
        upstream.base_url()
    );
    let proxy = toolmark::testing::Proxy::start(&settings, &[], directory.path()).unwrap();
    let mut connection = Connection::open(proxy.address());
    for path in ["/health", "/props?x=1", "/slots/0"] {
        assert_eq!(connection.get(path).status, 200, "{path}");
    }
    assert_eq!(connection.post("/rerank", "", b"{}").status, 200);
    let lines: Vec<_> = upstream.received().iter().map(|received| received.line.clone()).collect();
    assert_eq!(lines, ["GET /health", "GET /props?x=1", "GET /slots/0", "POST /v1/rerank"]);
    let reply = connection.post("/tokenize", "", b"{}");
    refused(&reply, 501, "endpoint_not_enforced", "tokenize");
    assert!(reply.text().contains(r#"`passthrough = [\"/tokenize\"]`"#), "{}", reply.text());
    // What can't be let through isn't offered.
    let reply = connection.post("/v1/messages/batches", "", b"{}");
    let error = &reply.json()["error"];
    assert_eq!((reply.status, error["type"].as_str()), (501, Some("invalid_request_error")));
    assert_eq!(error["details"]["error_code"], "endpoint_not_enforced");
    assert!(!reply.text().contains("passthrough"), "{}", reply.text());
}
