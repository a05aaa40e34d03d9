//! A plain client for tests: one request, and what came back.

use std::{net::SocketAddr, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Request, header};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use serde_json::Value;

/// Longest that an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The system.
    #[error(transparent)]
    System(#[from] std::io::Error),
    /// The connection.
    #[error(transparent)]
    Connection(#[from] hyper::Error),
    /// The request.
    #[error(transparent)]
    Request(#[from] http::Error),
    /// It took too long.
    #[error("no answer within {} s", PATIENCE.as_secs())]
    TooLate,
}

/// What came back.
#[derive(Clone, Debug)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Headers.
    pub headers: HeaderMap,
    /// The body: JSON, or the events of a stream, as far as it came.
    pub body: String,
    /// The body came to its end. toolmark breaks the connection off behind the error of a stream that its upstream cut.
    pub whole: bool,
}

/// Posts JSON and reads the answer to its end.
pub(super) fn post(address: SocketAddr, path: &str, body: &Value) -> Result<Answer, AskError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let request = Request::post(path)
        .header(header::HOST, address.to_string())
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body.to_string())))?;
    runtime.block_on(async {
        let asked = async {
            let stream = tokio::net::TcpStream::connect(address).await?;
            let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
            // It ends with the sender; what breaks it the sender reports too.
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
            Ok(Answer { status: parts.status.as_u16(), headers: parts.headers, body, whole })
        };
        tokio::time::timeout(PATIENCE, asked).await.map_err(|_| AskError::TooLate)?
    })
}

impl Answer {
    /// The body as JSON; `null` where it is none.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    /// The data of a stream's events, but for `[DONE]`.
    pub fn events(&self) -> Vec<Value> {
        self.body.lines().filter_map(|line| line.strip_prefix("data: ")).filter_map(|data| serde_json::from_str(data).ok()).collect()
    }

    /// A header; empty where it is missing.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// `pass`, `warn`, `repaired` or `blocked`; of a stream what its last comment says.
    pub fn verdict(&self) -> String {
        match self.header("toolmark-verdict") {
            "" => self.comment()["verdict"].as_str().unwrap_or_default().to_owned(),
            verdict => verdict.to_owned(),
        }
    }

    /// The codes of what was found.
    pub fn violations(&self) -> Vec<String> {
        let listed = self.header("toolmark-violations");
        if listed.is_empty() {
            let codes = self.comment()["violations"].as_array().cloned().unwrap_or_default();
            return codes.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        }
        listed.split(',').map(str::to_owned).collect()
    }

    /// The calls of the first choice of a whole chat completion: tools, and their arguments.
    pub fn calls(&self) -> Vec<(String, Value)> {
        let json = self.json();
        let calls = json["choices"][0]["message"]["tool_calls"].as_array().cloned().unwrap_or_default();
        let call = |call: &Value| {
            let arguments = call["function"]["arguments"].as_str().and_then(|text| serde_json::from_str(text).ok());
            (call["function"]["name"].as_str().unwrap_or_default().to_owned(), arguments.unwrap_or_default())
        };
        calls.iter().map(call).collect()
    }

    /// The text of the first choice of a whole chat completion.
    pub fn text(&self) -> String {
        self.json()["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned()
    }

    fn comment(&self) -> Value {
        let mut comments = self.body.lines().filter_map(|line| line.strip_prefix(": toolmark "));
        comments.next_back().and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default()
    }
}
