//! HTTP of the commands that try things out: bounded answers, no redirects, no proxies, a time limit.

use std::time::Duration;

use http::HeaderMap;

use super::Error;
use crate::sys::tls::{self, TrustedRoots};

/// Bytes of an answer that are read.
const ANSWER_BYTES_MAX: usize = 4 << 20;

/// Answer of a server.
#[derive(Debug)]
pub struct HttpAnswer {
    /// Status code.
    pub status: u16,
    /// Its `server` header.
    pub server: Option<String>,
    /// Its `date` header.
    pub date: Option<String>,
    /// The body, cut at a limit.
    pub text: String,
    /// The body as JSON, if it is.
    pub json: Option<serde_json::Value>,
}

/// A runtime for one command.
///
/// # Errors
/// The system refuses.
pub fn runtime() -> Result<tokio::runtime::Runtime, Error> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| Error::Failed(error.to_string()))
}

/// A client whose requests take this long at most, and that trusts these roots.
///
/// # Errors
/// Roots are needed and the platform has none.
pub fn client(timeout: Duration, roots: TrustedRoots) -> Result<reqwest::Client, Error> {
    let failed = |error: &dyn std::fmt::Display| Error::Failed(format!("no HTTP client can be made: {error}"));
    let tls = tls::http_client_config(roots).map_err(|error| failed(&error))?;
    let client = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).timeout(timeout);
    client
        .user_agent(concat!("toolmark/", env!("CARGO_PKG_VERSION")))
        .tls_backend_preconfigured(tls)
        .build()
        .map_err(|error| failed(&error))
}

/// Gets a URL.
///
/// # Errors
/// A message: there is no answer.
pub async fn get_json(client: &reqwest::Client, url: &str, headers: HeaderMap) -> Result<HttpAnswer, String> {
    answer(client.get(url).headers(headers)).await
}

/// Posts JSON.
///
/// # Errors
/// A message: there is no answer.
pub async fn post_json(
    client: &reqwest::Client,
    url: &str,
    headers: HeaderMap,
    body: impl Into<reqwest::Body>,
) -> Result<HttpAnswer, String> {
    answer(client.post(url).headers(headers).header("content-type", "application/json").body(body)).await
}

async fn answer(request: reqwest::RequestBuilder) -> Result<HttpAnswer, String> {
    let mut response = request.send().await.map_err(|error| innermost(&error))?;
    let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let (status, server, date) = (response.status().as_u16(), header("server"), header("date"));
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| innermost(&error))? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > ANSWER_BYTES_MAX {
            bytes.truncate(ANSWER_BYTES_MAX);
            break;
        }
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Ok(HttpAnswer { status, server, date, json: serde_json::from_str(&text).ok(), text })
}

/// The innermost cause, which says most: "connection refused", not "error sending request".
fn innermost(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "no answer in time".into();
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
