//! Clients and upstreams that stall, at every stage of an exchange. Used by the suite and by `benches/stalled.rs`.

use std::net::SocketAddr;

use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
};
use toolmark::testing::{BodyPart, Received, ScriptedReply};

/// Where a connection stalls.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Stage {
    /// It says nothing at all.
    Connected,
    /// In the middle of its headers.
    Head,
    /// In the middle of its body.
    Body,
    /// It reads nothing of a long answer.
    Answer,
    /// The upstream says nothing.
    Upstream,
    /// The upstream stops in the middle of its stream.
    Stream,
}

pub const STAGES: [Stage; 6] = [Stage::Connected, Stage::Head, Stage::Body, Stage::Answer, Stage::Upstream, Stage::Stream];

/// What the upstream does, by the model asked for.
pub fn upstream(received: &Received) -> ScriptedReply {
    let begun = || json!({"id": "c", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "It is"}, "finish_reason": null}]});
    match received.json()["model"].as_str() {
        Some("silent") => ScriptedReply::events(Vec::<String>::new()).then(BodyPart::Hang),
        Some("stops") => ScriptedReply::events([format!("data: {}\n\n", begun())]).then(BodyPart::Hang),
        Some("long") => {
            let chunk = json!({"id": "c", "choices": [{"index": 0, "delta": {"content": "long ".repeat(2_000)}, "finish_reason": null}]});
            ScriptedReply::events(vec![format!("data: {chunk}\n\n"); 2_000]).then(BodyPart::Hang)
        }
        _ => {
            let choice = json!({"index": 0, "message": {"role": "assistant", "content": "Hello."}, "finish_reason": "stop"});
            ScriptedReply::json(
                200,
                json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}).to_string(),
            )
        }
    }
}

/// A request as it lies on the wire.
pub fn request(model: &str, stream: bool) -> String {
    let tool = json!({"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}});
    let body = json!({"model": model, "stream": stream, "messages": [{"role": "user", "content": "Hello?"}], "tools": [tool]}).to_string();
    format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nauthorization: Bearer x\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Opens a connection that stalls there.
pub async fn stall(address: SocketAddr, stage: Stage) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    // So that what isn't read is soon felt.
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(address).await.unwrap();
    let request = match stage {
        Stage::Connected => String::new(),
        Stage::Head => request("m", false)[..40].to_owned(),
        Stage::Body => {
            let whole = request("m", false);
            whole[..whole.len() - 10].to_owned()
        }
        Stage::Answer => request("long", true),
        Stage::Upstream => request("silent", true),
        Stage::Stream => request("stops", true),
    };
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// One exchange on a connection that is kept: the status.
pub async fn exchange(stream: &mut TcpStream, request: &str) -> u16 {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut read = Vec::with_capacity(1024);
    loop {
        let count = stream.read_buf(&mut read).await.unwrap();
        let text = String::from_utf8_lossy(&read);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).and_then(|length| length.parse().ok());
            if length.is_none_or(|length: usize| body.len() >= length) {
                return head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap();
            }
        }
        assert!(count > 0, "the connection ended: {text}");
    }
}
