//! The demo's application: posts to chat completions or to the Messages API, and reads answers as an SDK would.

use serde_json::Value;

use super::{messages, scenes::DemoApi};

/// A client of one proxy.
pub struct DemoClient {
    http: reqwest::Client,
    url: String,
}

/// A call in the answer.
#[derive(Clone, Debug, Default)]
pub struct SeenCall {
    /// The call's id.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments, as JSON text.
    pub arguments: String,
}

/// The application's view of one response.
#[derive(Clone, Debug, Default)]
pub struct ClientView {
    /// The HTTP status.
    pub status: u16,
    /// toolmark's verdict, from the header or from the comment at the end of a stream.
    pub verdict: String,
    /// The codes reported with the verdict.
    pub codes: Vec<String>,
    /// Number of repairs.
    pub repairs: u64,
    /// Verified citations; streams only.
    pub citations: Vec<String>,
    /// The answer's text.
    pub text: String,
    /// The answer's calls.
    pub calls: Vec<SeenCall>,
    /// `finish_reason`, or what a `stop_reason` is in its terms.
    pub finish: Option<String>,
    /// The code of an error.
    pub error: Option<String>,
    /// The stream ended with `[DONE]` or `message_stop`, or the body is valid JSON.
    pub ended: bool,
    /// The whole body as text.
    pub raw: String,
}

impl DemoClient {
    /// A client of the proxy at this base URL.
    ///
    /// # Errors
    /// The HTTP client can't be built.
    pub fn new(base_url: &str) -> Result<Self, Box<dyn std::error::Error>> {
        let tls = crate::sys::tls::http_client_config(crate::sys::tls::TrustedRoots::None)?;
        let http =
            reqwest::Client::builder().no_proxy().tls_backend_preconfigured(tls).timeout(std::time::Duration::from_secs(30)).build()?;
        Ok(Self { http, url: base_url.to_owned() })
    }

    /// Sends one request and reads the response.
    ///
    /// # Errors
    /// The connection fails, except in a stream that has already begun.
    pub async fn ask(&self, api: DemoApi, request: &Value) -> Result<ClientView, reqwest::Error> {
        let (path, request) = match api {
            DemoApi::Chat => ("chat/completions", request.clone()),
            DemoApi::Messages => ("messages", messages::request_of(request)),
        };
        let post = self.http.post(format!("{}/{path}", self.url)).header("content-type", "application/json").body(request.to_string());
        let mut response = post.send().await?;
        let headers = response.headers().clone();
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
        let mut seen = ClientView { status: response.status().as_u16(), verdict: header("toolmark-verdict"), ..ClientView::default() };
        seen.codes = header("toolmark-violations").split(',').filter(|code| !code.is_empty()).map(str::to_owned).collect();
        seen.repairs = header("toolmark-repairs").parse().unwrap_or_default();
        let stream = header("content-type").starts_with("text/event-stream");
        let mut body = Vec::new();
        loop {
            match response.chunk().await {
                Ok(Some(chunk)) => body.extend_from_slice(&chunk),
                Ok(None) => break,
                // A stream that its upstream cut ends with an error, and then breaks off.
                Err(_) if stream && !body.is_empty() => break,
                Err(error) => return Err(error),
            }
        }
        seen.raw = String::from_utf8_lossy(&body).into_owned();
        if stream {
            seen.read_events()
        } else {
            seen.read_whole()
        }
        Ok(seen)
    }
}

impl ClientView {
    /// Describes toolmark's verdict, repairs and codes.
    pub fn toolmark(&self) -> String {
        let verdict = match (&*self.verdict, &self.error) {
            ("" | "pass", Some(_)) => "an error instead",
            (verdict, _) => verdict,
        };
        let repairs = match (verdict, self.repairs) {
            (_, 0) | ("repaired", 1) => String::new(),
            (_, repairs) => format!(" after {repairs} repairs"),
        };
        let codes = if self.codes.is_empty() { String::new() } else { format!(": {}", self.codes.join(", ")) };
        format!("{verdict}{repairs}{codes}")
    }

    /// Describes the text, calls and error that the application got.
    pub fn saw(&self) -> Vec<String> {
        let mut parts: Vec<String> = Vec::new();
        if !self.text.is_empty() {
            parts.push(format!("“{}”", self.text.split_whitespace().collect::<Vec<_>>().join(" ")));
        }
        parts.extend(self.calls.iter().map(|call| format!("{}({})", call.name, call.arguments)));
        if let Some(code) = &self.error {
            let status = if self.status == 200 { "an error in the stream".to_owned() } else { format!("HTTP {}", self.status) };
            parts.push(format!("{status}: {code}"));
        }
        if parts.is_empty() { vec!["nothing".into()] } else { parts }
    }

    fn read_whole(&mut self) {
        let Ok(body) = serde_json::from_str::<Value>(&self.raw) else { return };
        self.ended = true;
        self.note_error(&body);
        let message = &body["choices"][0]["message"];
        self.text = message["content"].as_str().unwrap_or_default().to_owned();
        self.finish = body["choices"][0]["finish_reason"].as_str().map(str::to_owned);
        if body["type"] == "message" {
            let blocks = || body["content"].as_array().into_iter().flatten();
            self.text = blocks().filter_map(|block| block["text"].as_str()).collect();
            self.calls = blocks().filter_map(messages::seen_call).collect();
            self.finish = body["stop_reason"].as_str().map(|stop| messages::finish_of(stop).to_owned());
        }
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let function = &call["function"];
            self.calls.push(SeenCall { id: text(&call["id"]), name: text(&function["name"]), arguments: text(&function["arguments"]) });
        }
    }

    fn read_events(&mut self) {
        for line in self.raw.clone().lines() {
            if let Some(verdict) = line.strip_prefix(": toolmark ").and_then(|json| serde_json::from_str::<Value>(json).ok()) {
                self.read_verdict(&verdict);
            }
            match line.strip_prefix("data: ") {
                Some("[DONE]") => self.ended = true,
                Some(data) => {
                    let event = serde_json::from_str(data).unwrap_or_default();
                    self.read_chunk(&event);
                    self.read_message_event(&event);
                }
                None => {}
            }
        }
    }

    fn read_verdict(&mut self, verdict: &Value) {
        let list = |value: &Value| value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
        self.verdict = verdict["verdict"].as_str().unwrap_or_default().to_owned();
        self.codes = list(&verdict["violations"]);
        self.citations = list(&verdict["citations"]);
        self.repairs = verdict["repairs"].as_u64().unwrap_or_default();
    }

    fn read_chunk(&mut self, chunk: &Value) {
        self.note_error(chunk);
        let choice = &chunk["choices"][0];
        self.text.push_str(choice["delta"]["content"].as_str().unwrap_or_default());
        if let Some(finish) = choice["finish_reason"].as_str() {
            self.finish = Some(finish.to_owned());
        }
        for delta in choice["delta"]["tool_calls"].as_array().into_iter().flatten() {
            let at = delta["index"].as_u64().and_then(|at| usize::try_from(at).ok()).filter(|at| *at < CALLS_MAX).unwrap_or_default();
            if self.calls.len() <= at {
                self.calls.resize(at + 1, SeenCall::default());
            }
            let Some(call) = self.calls.get_mut(at) else { continue };
            for (into, piece) in [
                (&mut call.id, &delta["id"]),
                (&mut call.name, &delta["function"]["name"]),
                (&mut call.arguments, &delta["function"]["arguments"]),
            ] {
                into.push_str(piece.as_str().unwrap_or_default());
            }
        }
    }

    fn read_message_event(&mut self, event: &Value) {
        let delta = &event["delta"];
        match event["type"].as_str() {
            Some("content_block_start") => self.calls.extend(messages::seen_call(&event["content_block"])),
            Some("content_block_delta") => {
                self.text.push_str(delta["text"].as_str().unwrap_or_default());
                if let (Some(call), Some(piece)) = (self.calls.last_mut(), delta["partial_json"].as_str()) {
                    call.arguments.push_str(piece);
                }
            }
            Some("message_delta") => self.finish = delta["stop_reason"].as_str().map(|stop| messages::finish_of(stop).to_owned()),
            Some("message_stop") => self.ended = true,
            _ => {}
        }
    }

    fn note_error(&mut self, body: &Value) {
        let error = &body["error"];
        if error.is_object() {
            let code = error["code"].as_str().or(error["details"]["error_code"].as_str());
            self.error = Some(code.or(error["type"].as_str()).unwrap_or("error").to_owned());
        }
    }
}

/// Calls of one answer; the scripted upstream makes two at most.
const CALLS_MAX: usize = 8;
