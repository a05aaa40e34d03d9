//! Connections by the `rmcp` SDK, in builds with the feature `mcp`.

use std::{
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::future::BoxFuture;
use rmcp::{
    ClientHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ClientConfig, ClientRequest, ContentBlock,
        Implementation, ListToolsRequest, PaginatedRequestParams, ProtocolVersion, ResourceContents, ServerResult, SubscriptionFilter,
    },
    service::{
        ClientInitializeError, ClientLifecycleMode, ClientServiceExt as _, NotificationContext, Peer, RoleClient, RunningService,
        RunningServiceCancellationToken, ServiceError,
    },
    transport::{
        DynamicTransportError, StreamableHttpClientTransport, TokioChildProcess,
        streamable_http_client::{StreamableHttpClientTransportConfig, StreamableHttpError},
    },
};
use serde_json::{Map, Value};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader},
    process::{ChildStderr, Command},
    sync::Notify,
};

use super::{
    catalog::ServerTool,
    connection::{CONNECT_MAX, CallError, Connector, McpConnection, ToolList},
};
use crate::{
    mcp::outcome::{RESULT_BYTES_MAX, ToolOutcome},
    settings::{McpServer, Transport},
    sys::tls,
};

/// Limit for the pages of one list.
const PAGES_MAX: usize = 100;
/// Limit for the tools of one server.
const TOOLS_MAX: usize = 1000;
/// Limit for one event of a server, in bytes.
const EVENT_BYTES_MAX: usize = 16 << 20;
/// Limit for one line that a child process writes to its standard error, in bytes.
const LINE_BYTES_MAX: u64 = 4 << 10;

/// Connects by the `rmcp` SDK.
#[derive(Debug, Default)]
pub struct RmcpConnector;

impl Connector for RmcpConnector {
    fn connect<'c>(&'c self, server: &'c McpServer, changed: Arc<Notify>) -> BoxFuture<'c, Result<Arc<dyn McpConnection>, String>> {
        Box::pin(async move {
            let connecting = connect(server, changed);
            match tokio::time::timeout(CONNECT_MAX, connecting).await {
                Ok(connected) => connected.map(|connection| Arc::new(connection) as Arc<dyn McpConnection>),
                Err(_) => Err(format!("no answer within {} s", CONNECT_MAX.as_secs())),
            }
        })
    }
}

async fn connect(server: &McpServer, changed: Arc<Notify>) -> Result<RmcpConnection, String> {
    // Plain `initialize` would ask for a version that must not be asked for that way (docs/wire-facts.md#mcp).
    let lifecycle = ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::LATEST],
        legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
    };
    let handler = ToolListListener { changed: changed.clone() };
    let service = match &server.transport {
        Transport::Command { program, arguments, environment } => {
            let mut command = Command::new(&**program);
            command.args(arguments).env_clear().envs(environment.iter().map(|(name, value)| (name, value.expose())));
            let spawned = TokioChildProcess::builder(command).stderr(Stdio::piped()).spawn();
            let (child, stderr) = spawned.map_err(|error| format!("`{program}` can't be started: {error}"))?;
            if let Some(stderr) = stderr {
                tokio::spawn(pass_on(stderr, server.name.clone()));
            }
            handler.serve_with_lifecycle(child, lifecycle).await
        }
        Transport::Http { url, headers } => {
            let client = reqwest::Client::builder().no_proxy().redirect(refused()).connect_timeout(CONNECT_MAX / 3);
            let tls = tls::http_client_config(tls::TrustedRoots::Platform).map_err(|error| error.to_string())?;
            let client = client.tls_backend_preconfigured(tls).build().map_err(|error| error.to_string())?;
            let config = StreamableHttpClientTransportConfig::with_uri(&**url)
                .custom_headers(headers.iter().cloned().collect())
                .max_sse_event_size(EVENT_BYTES_MAX)
                // A call is never sent again behind our back.
                .reinit_on_expired_session(false);
            handler.serve_with_lifecycle(StreamableHttpClientTransport::with_client(client, config), lifecycle).await
        }
    };
    let service = service.map_err(|error| match &error {
        ClientInitializeError::TransportError { error: sent, .. } => told_by_http(sent).unwrap_or_else(|| shortened(&error.to_string())),
        _ => shortened(&error.to_string()),
    })?;
    let peer = service.peer().clone();
    if peer.peer_info().is_some_and(|info| info.protocol_version == ProtocolVersion::LATEST) {
        tokio::spawn(listen(peer.clone(), changed));
    }
    let ending = service.cancellation_token();
    Ok(RmcpConnection { peer, service: tokio::sync::Mutex::new(Some(service)), ending: Mutex::new(Some(ending)) })
}

/// Redirect policy that follows none: another server would get the calls and the authentication headers.
fn refused() -> reqwest::redirect::Policy {
    reqwest::redirect::Policy::custom(|attempt| {
        let mut place = attempt.url().clone();
        // Keys are sent in these.
        place.set_query(None);
        let _bare = place.set_username("").and_then(|()| place.set_password(None));
        let status = attempt.status().as_u16();
        attempt.error(format!("it is a redirect (status {status}) to `{place}`, and none is followed: set `url` of this `[[mcp]]` to that"))
    })
}

/// Message for a redirect or a connection that failed; `None` for other failures. The SDK's own words name types of Rust.
fn told_by_http(error: &DynamicTransportError) -> Option<String> {
    let StreamableHttpError::Client(error) = error.error.downcast_ref::<StreamableHttpError<reqwest::Error>>()? else { return None };
    let cause = std::error::Error::source(error)?;
    if error.is_redirect() {
        return Some(shortened(&cause.to_string()));
    }
    let first = std::iter::successors(Some(cause), |error| error.source()).last()?;
    error.is_connect().then(|| shortened(&format!("no connection to its `url`: {first}")))
}

/// Notifies `changed` through a subscription, for protocol versions that announce changes in no other way.
async fn listen(peer: Peer<RoleClient>, changed: Arc<Notify>) {
    let Ok(mut subscription) = peer.listen(SubscriptionFilter::builder().tools_list_changed().build()).await else { return };
    while let Ok(Some(_)) = subscription.next().await {
        changed.notify_one();
    }
}

/// Logs a child process's standard error at debug level.
async fn pass_on(stderr: ChildStderr, server: Box<str>) {
    let mut reader = BufReader::new(stderr);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut reader).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => tracing::debug!(server = &*server, "{}", String::from_utf8_lossy(&line).trim_end()),
        }
    }
}

struct ToolListListener {
    changed: Arc<Notify>,
}

impl ClientHandler for ToolListListener {
    fn get_info(&self) -> ClientConfig {
        let own = Implementation::new("toolmark", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), own).with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }
}

struct RmcpConnection {
    peer: Peer<RoleClient>,
    service: tokio::sync::Mutex<Option<RunningService<RoleClient, ToolListListener>>>,
    ending: Mutex<Option<RunningServiceCancellationToken>>,
}

impl McpConnection for RmcpConnection {
    fn list(&self) -> BoxFuture<'_, Result<ToolList, String>> {
        Box::pin(async {
            match tokio::time::timeout(CONNECT_MAX, list(&self.peer)).await {
                Ok(listed) => listed,
                Err(_) => Err(format!("no list of tools within {} s", CONNECT_MAX.as_secs())),
            }
        })
    }

    fn call(&self, tool: &str, arguments: Map<String, Value>, timeout: Duration) -> BoxFuture<'_, Result<ToolOutcome, CallError>> {
        let mut params = CallToolRequestParams::new(tool.to_owned());
        params.arguments = Some(arguments);
        Box::pin(async move {
            if self.peer.is_transport_closed() {
                return Err(CallError::NotSent("the connection is closed".into()));
            }
            match tokio::time::timeout(timeout, self.peer.call_tool_once(params)).await {
                Err(_) => Err(CallError::TimedOut(timeout)),
                Ok(Err(error)) => Err(fault(error)),
                Ok(Ok(CallToolResponse::Complete(result))) => Ok(outcome(&result)),
                Ok(Ok(CallToolResponse::InputRequired(_))) => {
                    Ok(ToolOutcome::failure("the tool asks its user something, which toolmark can't answer"))
                }
                Ok(Ok(_)) => Ok(ToolOutcome::failure("the tool answered with a task to wait for, which toolmark doesn't do")),
            }
        })
    }

    fn closed(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let service = self.service.lock().await.take();
            if let Some(service) = service {
                let _quit = service.waiting().await;
            }
        })
    }

    fn close(&self) {
        if let Some(ending) = self.ending.lock().unwrap_or_else(PoisonError::into_inner).take() {
            ending.cancel();
        }
    }

    fn version(&self) -> String {
        self.peer.peer_info().map_or_else(|| "unknown".into(), |info| info.protocol_version.to_string())
    }
}

/// Lists tools without the SDK's cache, which would return a dead server's last list.
async fn list(peer: &Peer<RoleClient>) -> Result<ToolList, String> {
    let mut listed = ToolList::default();
    let mut cursor = None;
    for _ in 0..PAGES_MAX {
        let params = PaginatedRequestParams::default().with_cursor(cursor.take());
        let request = ListToolsRequest { method: Default::default(), params: Some(params), extensions: Default::default() };
        let answer = peer.send_request(ClientRequest::ListToolsRequest(request)).await;
        let page = match answer.map_err(|error| shortened(&error.to_string()))? {
            ServerResult::ListToolsResult(page) => page,
            _ => return Err("it doesn't list its tools".into()),
        };
        listed.ttl = page.ttl_ms.map(Duration::from_millis);
        listed.tools.extend(page.tools.into_iter().map(tool));
        if listed.tools.len() > TOOLS_MAX {
            return Err(format!("it has more than {TOOLS_MAX} tools"));
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(listed);
        }
    }
    Err(format!("its list of tools has more than {PAGES_MAX} pages"))
}

fn tool(tool: rmcp::model::Tool) -> ServerTool {
    let hint = |said: Option<bool>| said == Some(true);
    let annotations = tool.annotations.as_ref();
    ServerTool {
        name: tool.name.into(),
        description: tool.description.map(Into::into),
        read_only: annotations.is_some_and(|own| hint(own.read_only_hint)),
        idempotent: annotations.is_some_and(|own| hint(own.idempotent_hint)),
        schema: tool.input_schema,
    }
}

/// Classifies a failed call by the possibility that it ran.
fn fault(error: ServiceError) -> CallError {
    let said = shortened(&error.to_string());
    match error {
        ServiceError::McpError(error) => CallError::Refused(shortened(&error.message)),
        ServiceError::TransportSend(error) => {
            if let Some(said) = told_by_http(&error) {
                return CallError::NotSent(said);
            }
            let unsent = match error.error.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
                Some(StreamableHttpError::Client(error)) => error.is_connect(),
                Some(StreamableHttpError::SessionExpired) => true,
                Some(_) => false,
                // A pipe that nobody reads.
                None => error.error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe),
            };
            if unsent { CallError::NotSent(said) } else { CallError::Broken(said) }
        }
        _ => CallError::Broken(said),
    }
}

/// Truncates an SDK error, which may quote whole messages.
fn shortened(text: &str) -> String {
    crate::wire::json::string::cut(text, 300).to_string()
}

/// Outcome from a server's result.
fn outcome(result: &CallToolResult) -> ToolOutcome {
    let mut parts: Vec<String> = result.content.iter().map(part).collect();
    let has_text = result.content.iter().any(|block| matches!(block, ContentBlock::Text(_)));
    if let Some(structured) = result.structured_content.as_ref().filter(|_| !has_text) {
        parts.insert(0, structured.to_string());
    }
    let text = bounded(parts.join("\n"));
    if result.is_error != Some(true) {
        return ToolOutcome { text, failed: false, structured: result.structured_content.clone() };
    }
    // Said so that it is read as a failure wherever results are looked at.
    let said = text.get(..6).is_some_and(|begin| begin.eq_ignore_ascii_case("error:"));
    let text = if said { text } else { format!("Error: {}", if text.is_empty() { "the tool failed and didn't say why" } else { &text }) };
    ToolOutcome { text, failed: true, structured: None }
}

fn part(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => left_out("an image", &image.mime_type, image.data.len()),
        ContentBlock::Audio(audio) => left_out("audio", &audio.mime_type, audio.data.len()),
        ContentBlock::Resource(resource) => match &resource.resource {
            ResourceContents::TextResourceContents { text, .. } => text.clone(),
            ResourceContents::BlobResourceContents { mime_type, blob, .. } => {
                left_out("a resource", mime_type.as_deref().unwrap_or("of an unknown type"), blob.len())
            }
            _ => "[a resource of an unknown kind is left out]".into(),
        },
        ContentBlock::ResourceLink(link) => format!("[{}]({})", link.name, link.uri),
        _ => "[content of an unknown kind is left out]".into(),
    }
}

fn left_out(what: &str, kind: &str, base64_bytes: usize) -> String {
    format!("[{what}, {kind}, {} bytes, is left out: results are text here]", base64_bytes / 4 * 3)
}

fn bounded(mut text: String) -> String {
    let whole = text.len();
    if whole > RESULT_BYTES_MAX {
        let mut end = RESULT_BYTES_MAX;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push_str(&format!("\n[cut here by toolmark: the result has {whole} bytes]"));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(result: serde_json::Value) -> ToolOutcome {
        outcome(&serde_json::from_value(result).unwrap())
    }

    #[test]
    fn results_become_text() {
        for (result, text, failed) in [
            (json!({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}), "a\nb", false),
            (json!({"content": [{"type": "text", "text": "[1]"}], "structuredContent": {"x": [1]}}), "[1]", false),
            (json!({"content": [], "structuredContent": {"x": [1]}}), r#"{"x":[1]}"#, false),
            (json!({"content": [{"type": "text", "text": "no such task"}], "isError": true}), "Error: no such task", true),
            (json!({"content": [], "isError": true}), "Error: the tool failed and didn't say why", true),
            (
                json!({"content": [{"type": "image", "data": "AAAA", "mimeType": "image/png"}]}),
                "[an image, image/png, 3 bytes, is left out: results are text here]",
                false,
            ),
            (json!({"content": [{"type": "resource_link", "uri": "file:///a", "name": "a"}]}), "[a](file:///a)", false),
            (json!({"content": [{"type": "resource", "resource": {"uri": "x:", "text": "t"}}]}), "t", false),
        ] {
            let own = read(result.clone());
            assert_eq!((own.text.as_str(), own.failed), (text, failed), "{result}");
        }
    }

    #[test]
    fn a_long_result_is_cut_and_says_so() {
        let long = read(json!({"content": [{"type": "text", "text": "ü".repeat(RESULT_BYTES_MAX)}]}));
        assert!(long.text.len() < RESULT_BYTES_MAX + 100 && long.text.ends_with("the result has 524288 bytes]"), "{}", long.text.len());
    }
}
