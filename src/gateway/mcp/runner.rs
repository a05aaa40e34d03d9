//! Execution of proxied tool calls, each at most once per mark, however often it is requested.
//!
//! A call runs on the MCP thread, and goes on there if its exchange is cancelled: every request with the same mark gets
//! the same outcome. A call is retried only if it certainly didn't run, or may run twice. If it isn't known, the result
//! says so.
//!
//! Per process, and bounded: a mark is minted for one call of one exchange. Calls of a repeated client request are
//! `proxy/exchange/idempotency.rs`'s task.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use quick_cache::sync::Cache;
use serde_json::{Map, Value};
use tokio::sync::watch;

use super::{Mcp, catalog::OfferedTool, server::SupervisedServer};
use crate::mcp::{
    connection::{CallError, McpConnection},
    outcome::ToolOutcome,
};

/// Limit for the marks whose calls are remembered.
const MARKS_MAX: usize = 1 << 16;
/// First pause before a call is retried; it doubles each time.
const PAUSE: Duration = Duration::from_millis(200);

/// Receives the outcome of a call when it has ended.
type OutcomeReceiver = watch::Receiver<Option<ToolOutcome>>;

/// Outcomes of calls, by mark.
pub struct CallRunner(Cache<Box<str>, OutcomeReceiver>);

impl Default for CallRunner {
    fn default() -> Self {
        Self(Cache::new(MARKS_MAX))
    }
}

/// A request to run a call.
#[derive(Clone, Debug)]
pub struct ToolCallRequest {
    /// Mark of the call.
    pub mark: Box<str>,
    /// The tool.
    pub tool: OfferedTool,
    /// Arguments of the call: JSON text of an object.
    pub arguments: String,
}

impl Mcp {
    /// Runs a call, unless one with the same mark was run before: then it returns that call's outcome, waiting if
    /// needed.
    pub async fn run(self: &Arc<Self>, asked: ToolCallRequest) -> ToolOutcome {
        let mut first = None;
        let begin = || {
            let (tells, told) = watch::channel(None);
            first = Some(tells);
            Ok::<_, std::convert::Infallible>(told)
        };
        let Ok(told) = self.calls.0.get_or_insert_with(&asked.mark, begin);
        let tool = asked.tool.name.clone();
        if let Some(tells) = first {
            let own = self.clone();
            self.runtime().spawn(async move {
                let outcome = own.run_once(asked).await;
                tells.send_replace(Some(outcome));
            });
        }
        end(told).await.unwrap_or_else(|| {
            tracing::error!(tool = &*tool, "running {tool} broke off");
            ToolOutcome::failure("toolmark itself broke off while the tool ran: whether it took effect is unknown")
        })
    }

    /// Outcome of the call with this mark, waiting if needed; `None` if the mark isn't remembered.
    pub async fn ended(&self, mark: &str) -> Option<ToolOutcome> {
        end(self.calls.0.get(mark)?).await
    }

    async fn run_once(&self, asked: ToolCallRequest) -> ToolOutcome {
        let ToolCallRequest { mark, tool, arguments } = asked;
        let Some(server) = self.servers().get(tool.server) else { return ToolOutcome::failure("the tool's server is gone") };
        let begun = Instant::now();
        let outcome = match serde_json::from_str::<Map<String, Value>>(if arguments.trim().is_empty() { "{}" } else { &arguments }) {
            Ok(arguments) => attempts(server, &tool, arguments).await,
            // INVARIANT: calls are judged before they are run.
            Err(_) => ToolOutcome::failure("the arguments are no JSON object"),
        };
        let took = begun.elapsed();
        server.count(&tool.tool, took, &outcome);
        let (name, took_ms) = (&*server.settings.name, took.as_millis() as u64);
        tracing::info!(server = name, tool = &*tool.name, mark = &*mark, failed = outcome.failed, took_ms, "ran {}", tool.name);
        outcome
    }
}

/// Waits for the outcome; `None` if the task that ran the call is gone.
async fn end(mut told: OutcomeReceiver) -> Option<ToolOutcome> {
    told.wait_for(Option::is_some).await.ok()?.clone()
}

/// Makes the call, with retries if that is safe and useful.
async fn attempts(server: &SupervisedServer, tool: &OfferedTool, arguments: Map<String, Value>) -> ToolOutcome {
    let (settings, name) = (&server.settings, &tool.name);
    let mut pause = PAUSE;
    for attempt in 0..=settings.retries {
        let called = match server.connection() {
            Ok(connection) => call(&*connection, tool, arguments.clone(), settings.timeout).await,
            Err(why) => Err(CallError::NotSent(why.to_string())),
        };
        let fault = match called {
            Ok(outcome) => return outcome,
            Err(fault) => fault,
        };
        let (again, words) = match &fault {
            CallError::NotSent(why) => (true, format!("the server `{}` can't be reached, so `{name}` was not run: {why}", settings.name)),
            CallError::Broken(why) => {
                (tool.idempotent || tool.read_only, broken(settings.name.as_ref(), tool, &format!("the connection broke ({why})")))
            }
            CallError::TimedOut(_) => (false, broken(settings.name.as_ref(), tool, &fault.to_string())),
            CallError::Refused(_) => (false, fault.to_string()),
        };
        tracing::warn!(server = &*settings.name, tool = &**name, attempt, %fault, "{name} failed: {fault}");
        if !matches!(fault, CallError::Refused(_)) {
            server.suspect();
        }
        if !again || attempt == settings.retries {
            return ToolOutcome::failure(&words);
        }
        wait(server, pause).await;
        pause *= 2;
    }
    // INVARIANT: the last attempt returned.
    ToolOutcome::failure("it was not run")
}

/// Waits until the server's state changes, but no longer than `pause`.
async fn wait(server: &SupervisedServer, pause: Duration) {
    tokio::select! {
        () = tokio::time::sleep(pause) => {}
        () = server.moved.notified() => {}
    }
}

async fn call(
    connection: &dyn McpConnection,
    tool: &OfferedTool,
    arguments: Map<String, Value>,
    timeout: Duration,
) -> Result<ToolOutcome, CallError> {
    connection.call(&tool.tool, arguments, timeout).await
}

fn broken(server: &str, tool: &OfferedTool, why: &str) -> String {
    let name = &tool.name;
    if tool.read_only {
        return format!("`{name}` gave no result: {why} at the server `{server}`. It only reads, so nothing was changed.");
    }
    format!(
        "`{name}` was sent to the server `{server}` and gave no result: {why}. Whether it took effect is UNKNOWN; toolmark did not run it \
         again. Say so, or find out by other means; don't report it as done or as not done."
    )
}
