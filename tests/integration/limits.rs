//! What is turned away before memory or descriptors run out, and clients that want too much, or stall.

use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};
use tokio::io::AsyncReadExt as _;
use toolmark::testing::{BodyPart, Proxy, Received, ScriptedReply, ScriptedUpstream};

use crate::{
    harness::{self, Fixture, post},
    stall::{STAGES, Stage, exchange, request, stall, upstream},
};

const REQUEST: &str = r#"{"model":"m","messages":[{"role":"user","content":"Hello?"}]}"#;

/// How long anything here may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// A proxy with two clients, whose keys are their names.
fn with_clients(limits: &str, script: impl Fn(&Received) -> ScriptedReply + Send + Sync + 'static) -> Fixture {
    let digest = |key: &str| Sha256::digest(key).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let settings = format!(
        "api_key_env = \"\"\n[[clients]]\nname = \"one\"\nkey_sha256 = \"{}\"\n{limits}\n[[clients]]\nname = \"two\"\nkey_sha256 = \"{}\"\n",
        digest("one"),
        digest("two")
    );
    Fixture::with_policy("default", &settings, script)
}

#[test]
fn a_client_has_its_rate() {
    let fixture = with_clients("rate = { requests = 3, window = \"1h\" }", upstream);
    for _ in 0..3 {
        assert_eq!(fixture.chat_as(REQUEST, "Bearer one").status, 200);
    }
    let answer = fixture.chat_as(REQUEST, "Bearer one");
    assert_eq!((answer.status, answer.json()["error"]["code"].as_str()), (429, Some("rate_limit_exceeded")), "{}", answer.body);
    let wait: u64 = answer.header("retry-after").parse().unwrap();
    assert!((1..=1_200).contains(&wait), "{wait}");
    // Nobody else's concern, and nothing of it went upstream.
    assert_eq!(fixture.chat_as(REQUEST, "Bearer two").status, 200);
    assert_eq!(fixture.upstream.received().len(), 4);
}

#[test]
fn a_client_has_so_many_at_a_time() {
    let fixture = with_clients("concurrent = 1", |received: &Received| match received.number {
        0 => ScriptedReply::events(["data: {\"id\":\"c\",\"choices\":[]}\n\n"]).then(BodyPart::Hang),
        _ => upstream(received),
    });
    let url = format!("{}/chat/completions", fixture.proxy.base_url());
    harness::run(async {
        let client = crate::harness::http_client();
        let streaming = REQUEST.replace("\"model\"", "\"stream\":true,\"model\"");
        let running = client.post(&url).header("authorization", "Bearer one").body(streaming).send().await.unwrap();
        assert_eq!(running.status(), 200);
        let refused = client.post(&url).header("authorization", "Bearer one").body(REQUEST).send().await.unwrap();
        assert_eq!((refused.status().as_u16(), refused.headers().contains_key("retry-after")), (429, true));
        let other = client.post(&url).header("authorization", "Bearer two").body(REQUEST).send().await.unwrap();
        assert_eq!(other.status(), 200);
        drop(running);
    });
    // The stream's end is noticed, and makes room.
    assert!(fixture.upstream.wait(0, 1));
    let began = Instant::now();
    while fixture.chat_as(REQUEST, "Bearer one").status != 200 {
        assert!(began.elapsed() < PATIENCE, "what ended still counts");
    }
}

#[test]
fn what_is_too_much_is_turned_away() {
    let limits = "[limits]\nrequest_bytes = \"1MiB\"\nbytes_in_flight = \"3MiB\"\nexchanges = 2\n";
    let fixture = Fixture::with_policy("default", limits, |received: &Received| match received.json()["stream"].as_bool() {
        Some(true) => ScriptedReply::events(["data: {\"id\":\"c\",\"choices\":[]}\n\n"]).then(BodyPart::Hang),
        _ => upstream(received),
    });
    let url = format!("{}/chat/completions", fixture.proxy.base_url());
    let body = |stream: bool, bytes: usize| {
        format!(r#"{{"model":"m","stream":{stream},"messages":[{{"role":"user","content":"{}"}}]}}"#, "x".repeat(bytes))
    };
    harness::run(async {
        let client = crate::harness::http_client();
        let send = |body: String| client.post(&url).body(body).send();
        let first = send(body(true, 700 << 10)).await.unwrap();
        assert_eq!(first.status(), 200);
        let refused = send(body(false, 700 << 10)).await.unwrap();
        assert_eq!((refused.status().as_u16(), refused.headers()["retry-after"].to_str().unwrap()), (503, "1"));
        let text = refused.text().await.unwrap();
        assert!(text.contains("\"overloaded\"") && text.contains("bytes_in_flight"), "{text}");
        assert_eq!(send(body(false, 10)).await.unwrap().status(), 200, "what is small still goes");
        // What was answered ends behind its answer: until then it counts.
        let began = Instant::now();
        let second = loop {
            let second = send(body(true, 10)).await.unwrap();
            if second.status() == 200 {
                break second;
            }
            assert!(began.elapsed() < PATIENCE, "what ended still counts");
        };
        let refused = send(body(false, 10)).await.unwrap();
        let status = refused.status().as_u16();
        let text = refused.text().await.unwrap();
        assert!(status == 503 && text.contains("\"overloaded\"") && text.contains("limits.exchanges"), "{text}");
        drop((first, second));
    });
    assert!(fixture.upstream.wait(0, 2));
    let began = Instant::now();
    while post(&url, &body(false, 700 << 10), "").status != 200 {
        assert!(began.elapsed() < PATIENCE, "what ended still counts");
    }
}

#[test]
fn who_stalls_is_let_go_and_bothers_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let scripted = ScriptedUpstream::start(upstream).unwrap();
    let base_url = scripted.base_url();
    let settings = format!(
        "[[upstreams]]\nname = \"scripted\"\nbase_url = \"{base_url}\"\ntimeouts = {{ first_byte = \"1s\", idle = \"1s\" }}\n[limits]\nclient_idle = \"1s\"\n"
    );
    let proxy = Proxy::start(&settings, &[], directory.path()).unwrap();
    let address = proxy.address();
    harness::run(async {
        let mut stalled = Vec::new();
        for stage in STAGES.into_iter().cycle().take(30) {
            stalled.push((stage, stall(address, stage).await));
        }
        for _ in 0..50 {
            let mut honest = tokio::net::TcpStream::connect(address).await.unwrap();
            assert_eq!(exchange(&mut honest, &request("m", false)).await, 200);
        }
        // Each of them sees an end, whatever it did: in time, or as a broken connection.
        for (stage, mut stream) in stalled {
            if stage == Stage::Answer {
                // It never reads, so that nothing but the proxy can end it.
                continue;
            }
            let mut rest = Vec::new();
            let ended = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut rest)).await;
            let text = String::from_utf8_lossy(&rest);
            assert!(ended.is_ok(), "{stage:?} isn't let go: {text}");
            let told = match stage {
                Stage::Body => text.contains("request_timeout"),
                Stage::Upstream | Stage::Stream => text.contains("upstream_timeout"),
                Stage::Connected | Stage::Head | Stage::Answer => true,
            };
            assert!(told, "{stage:?}: {text}");
        }
    });
    let began = Instant::now();
    while proxy.going_on() != (0, 0, 0) {
        assert!(began.elapsed() < PATIENCE, "{:?} connections, exchanges and bytes are left", proxy.going_on());
        std::thread::yield_now();
    }
}
