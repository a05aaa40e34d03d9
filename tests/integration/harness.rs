//! A scripted upstream, a proxy in front of it, and a plain HTTP client: what most tests start with.

use std::{path::Path, time::Duration};

use tempfile::TempDir;
use toolmark::testing::{Proxy, Received, ScriptedReply, ScriptedUpstream};

/// Upstream and proxy; both end with it.
pub struct Fixture {
    pub proxy: Proxy,
    pub upstream: ScriptedUpstream,
    /// Kept for as long as the proxy reads from it.
    _directory: TempDir,
}

/// What the proxy answered.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: reqwest::header::HeaderMap,
    pub body: String,
}

impl Fixture {
    /// With one of the built-in policies.
    pub fn new(policy: &str, script: impl Fn(&Received) -> ScriptedReply + Send + Sync + 'static) -> Self {
        Self::with_policy(policy, "", script)
    }

    /// With a policy of its own (TOML), or settings besides the upstream's (TOML).
    pub fn with_policy(policy: &str, settings: &str, script: impl Fn(&Received) -> ScriptedReply + Send + Sync + 'static) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let upstream = ScriptedUpstream::start(script).unwrap();
        let policy = policy_setting(policy, directory.path());
        let settings =
            format!("policy = \"{policy}\"\n[[upstreams]]\nname = \"scripted\"\nbase_url = \"{}\"\n{settings}", upstream.base_url());
        let proxy = Proxy::start(&settings, &[], directory.path()).unwrap();
        Self { proxy, upstream, _directory: directory }
    }

    /// Posts to chat completions.
    pub fn chat(&self, body: &str) -> Answer {
        self.chat_as(body, "Bearer test")
    }

    /// Posts to chat completions with this `Authorization`.
    pub fn chat_as(&self, body: &str, authorization: &str) -> Answer {
        post(&format!("{}/chat/completions", self.proxy.base_url()), body, authorization)
    }
}

/// A built-in policy's name stays; TOML becomes a file.
fn policy_setting(policy: &str, directory: &Path) -> String {
    if matches!(policy, "default" | "strict" | "observe") {
        return policy.to_owned();
    }
    std::fs::write(directory.join("policy.toml"), policy).unwrap();
    "policy.toml".to_owned()
}

/// HTTP client of the tests. `reqwest` is built without a TLS provider: a client that isn't given one can't be made.
pub fn http_client() -> reqwest::Client {
    let tls = toolmark::sys::tls::http_client_config(toolmark::sys::tls::TrustedRoots::None).unwrap();
    reqwest::Client::builder().no_proxy().tls_backend_preconfigured(tls).build().unwrap()
}

/// Posts JSON and reads the answer to its end; a body that breaks off ends with `<broken off>`.
pub fn post(url: &str, body: &str, authorization: &str) -> Answer {
    let request = crate::harness::http_client().post(url);
    let request = request.header("content-type", "application/json").header("authorization", authorization).body(body.to_owned());
    run(async {
        let mut response = request.timeout(Duration::from_secs(60)).send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let mut bytes = Vec::new();
        loop {
            match response.chunk().await {
                Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
                Ok(None) => break,
                Err(_) => {
                    bytes.extend_from_slice(b"<broken off>");
                    break;
                }
            }
        }
        Answer { status, headers, body: String::from_utf8_lossy(&bytes).into_owned() }
    })
}

/// Runs a future to its end.
pub fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

impl Answer {
    /// The body as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// A header as text; empty where it is missing.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The data of all events but `[DONE]`, as JSON.
    pub fn events(&self) -> Vec<serde_json::Value> {
        let data = self.body.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]");
        data.map(|data| serde_json::from_str(data).unwrap_or_else(|error| panic!("{error}: {data}"))).collect()
    }
}
