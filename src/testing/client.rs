//! A plain HTTP client for tests: sends one request and collects the response.

use std::{net::SocketAddr, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Request, header};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use serde_json::Value;

/// Timeout of a request.
const PATIENCE: Duration = Duration::from_secs(60);

/// Reasons why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// An error of the operating system.
    #[error(transparent)]
    System(#[from] std::io::Error),
    /// An error of the connection.
    #[error(transparent)]
    Connection(#[from] hyper::Error),
    /// The request is invalid.
    #[error(transparent)]
    Request(#[from] http::Error),
    /// The answer took too long.
    #[error("no answer within {} s", PATIENCE.as_secs())]
    TooLate,
}

/// A response.
#[derive(Clone, Debug)]
pub struct ClientResponse {
    /// HTTP status.
    pub status: u16,
    /// Headers.
    pub headers: HeaderMap,
    /// The body as far as it was received: JSON, or the events of a stream.
    pub body: String,
    /// The body was received completely. toolmark cuts the connection after the error event of a stream that its upstream cut.
    pub whole: bool,
}

/// Posts JSON and reads the answer to its end.
pub(super) fn post(address: SocketAddr, path: &str, body: &Value) -> Result<ClientResponse, ClientError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let request = Request::post(path)
        .header(header::HOST, address.to_string())
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body.to_string())))?;
    runtime.block_on(async {
        let asked = async {
            let stream = tokio::net::TcpStream::connect(address).await?;
            let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
            // It ends with the sender, which also reports connection errors.
            tokio::spawn(async move { connection.await.ok() });
            let response = sender.send_request(request).await?;
            let (parts, mut frames) = response.into_parts();
            let (mut body, mut whole) = (Vec::new(), true);
            while let Some(frame) = frames.frame().await {
                match frame {
                    Ok(frame) => body.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data)),
                    Err(error) if body.is_empty() => return Err(error.into()),
                    Err(_) => {
                        whole = false;
                        break;
                    }
                }
            }
            let body = String::from_utf8_lossy(&body).into_owned();
            Ok(ClientResponse { status: parts.status.as_u16(), headers: parts.headers, body, whole })
        };
        tokio::time::timeout(PATIENCE, asked).await.map_err(|_| ClientError::TooLate)?
    })
}

impl ClientResponse {
    /// The body as JSON; `null` if it isn't JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    /// The data of a stream's events, except `[DONE]`.
    pub fn events(&self) -> Vec<Value> {
        self.body.lines().filter_map(|line| line.strip_prefix("data: ")).filter_map(|data| serde_json::from_str(data).ok()).collect()
    }

    /// The value of a header; empty if it is missing.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// Verdict on the answer: `pass`, `warn`, `repaired` or `blocked`; for a stream, the one in its last comment.
    pub fn verdict(&self) -> String {
        match self.header("toolmark-verdict") {
            "" => self.comment()["verdict"].as_str().unwrap_or_default().to_owned(),
            verdict => verdict.to_owned(),
        }
    }

    /// Codes of the violations that were found.
    pub fn violations(&self) -> Vec<String> {
        let listed = self.header("toolmark-violations");
        if listed.is_empty() {
            let codes = self.comment()["violations"].as_array().cloned().unwrap_or_default();
            return codes.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        }
        listed.split(',').map(str::to_owned).collect()
    }

    /// The calls of the first choice of a buffered chat completion, or of a message: tool names and arguments.
    pub fn calls(&self) -> Vec<(String, Value)> {
        let json = self.json();
        let calls = json["choices"][0]["message"]["tool_calls"].as_array().cloned().unwrap_or_default();
        let call = |call: &Value| {
            let arguments = call["function"]["arguments"].as_str().and_then(|text| serde_json::from_str(text).ok());
            (call["function"]["name"].as_str().unwrap_or_default().to_owned(), arguments.unwrap_or_default())
        };
        let block = |block: &Value| (block["name"].as_str().unwrap_or_default().to_owned(), block["input"].clone());
        let blocks = json["content"].as_array().into_iter().flatten().filter(|block| block["type"] == "tool_use");
        calls.iter().map(call).chain(blocks.map(block)).collect()
    }

    /// The text of the first choice of a buffered chat completion, or of a message.
    pub fn text(&self) -> String {
        let json = self.json();
        let blocks = json["content"].as_array().into_iter().flatten().filter_map(|block| block["text"].as_str());
        json["choices"][0]["message"]["content"].as_str().into_iter().chain(blocks).collect()
    }

    fn comment(&self) -> Value {
        let mut comments = self.body.lines().filter_map(|line| line.strip_prefix(": toolmark "));
        comments.next_back().and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default()
    }
}
