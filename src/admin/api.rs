//! Queries of the ledger: executions, violations, exchanges and statistics.

use std::{sync::Arc, time::Duration};

use http::Response;
use serde::Serialize;

use super::{
    access::AdminCaller,
    exchanges::timeline::{hide_words, without_bodies},
    query::{PAGED, Parameters},
};
use crate::{
    admin::responses::{self, invalid},
    config::error::maybe,
    ledger::store::{ExecutionFilter, FoundExecution, ResultPage, Store, StoreError, ViolationFilter},
    proxy::{
        app::App,
        http::{body::Body, failure::Failure},
        loop_control::LoopStats,
    },
    telemetry::stats::{Stats, failures::failures, query},
    violation::Code,
};

/// Time limit of a query.
const DEADLINE: Duration = Duration::from_secs(10);

/// Runs a query of the ledger on a blocking thread.
pub async fn look_up<T: Send + 'static>(
    app: &App,
    look: impl FnOnce(&dyn Store) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, Failure> {
    let store = app.recorder.store();
    read_blocking(move || look(&*store)).await
}

/// Runs something that blocks on a thread for it.
pub async fn read_blocking<T: Send + 'static>(read: impl FnOnce() -> Result<T, StoreError> + Send + 'static) -> Result<T, Failure> {
    let looking = tokio::task::spawn_blocking(read);
    match tokio::time::timeout(DEADLINE, looking).await {
        Ok(Ok(found)) => found.map_err(|error| responses::ledger(&error)),
        Ok(Err(_)) => Err(responses::ledger(&StoreError::Unavailable("the look-up broke off".into()))),
        Err(_) => Err(responses::ledger(&StoreError::Unavailable(format!("no answer within {} s", DEADLINE.as_secs())))),
    }
}

/// A page of a list.
#[derive(Serialize)]
struct PageResponse<T> {
    data: Vec<T>,
    /// Value of `after` for the next page.
    next: Option<String>,
}

impl<T> From<ResultPage<T>> for PageResponse<T> {
    fn from(found: ResultPage<T>) -> Self {
        Self { data: found.rows, next: found.next }
    }
}

/// An execution in a response.
#[derive(Serialize)]
struct ExecutionView {
    #[serde(flatten)]
    found: FoundExecution,
    duration_ms: u64,
}

impl From<FoundExecution> for ExecutionView {
    fn from(found: FoundExecution) -> Self {
        Self { duration_ms: found.execution.duration_ms(), found }
    }
}

/// An execution without its arguments and result.
fn closed(found: FoundExecution) -> FoundExecution {
    FoundExecution { execution: without_bodies(&found.execution), ..found }
}

/// Statistics of the ledger, and those of loop control, which are this process's own.
#[derive(Serialize)]
struct StatsWithLoops {
    #[serde(flatten)]
    stats: Stats,
    loops: LoopStats,
}

/// `GET /api/executions`
pub async fn executions(app: &Arc<App>, caller: &AdminCaller, query: &str) -> Result<Response<Body>, Failure> {
    let parameters = Parameters::read(query, &[&["tool", "session", "until"][..], &PAGED].concat())?;
    let page = parameters.page(app.now_ms())?;
    let filter = ExecutionFilter { tool: parameters.text("tool"), session: parameters.text("session"), page };
    let ResultPage { rows, next } = look_up(app, move |store| store.executions(&filter)).await?;
    if caller.reads_bodies && rows.iter().any(|row| row.execution.result_body.is_some()) {
        caller.audit("executions", "");
    }
    let shown = |row: FoundExecution| ExecutionView::from(if caller.reads_bodies { row } else { closed(row) });
    Ok(responses::json(&PageResponse { data: rows.into_iter().map(shown).collect(), next }))
}

/// `GET /api/executions/{id}`
pub async fn execution(app: &Arc<App>, caller: &AdminCaller, id: String, query: &str) -> Result<Response<Body>, Failure> {
    Parameters::read(query, &[])?;
    let found = look_up(app, move |store| store.execution(&id)).await?;
    let found = found.ok_or_else(|| responses::not_found("execution"))?;
    if !caller.reads_bodies {
        return Ok(responses::json(&ExecutionView::from(closed(found))));
    }
    if found.execution.result_body.is_some() {
        caller.audit("execution", &found.exchange.to_string());
    }
    Ok(responses::json(&ExecutionView::from(found)))
}

/// `GET /api/violations`
pub async fn violations(app: &Arc<App>, caller: &AdminCaller, query: &str) -> Result<Response<Body>, Failure> {
    let parameters = Parameters::read(query, &[&["code", "tool", "model", "until"][..], &PAGED].concat())?;
    let code = parameters.text("code");
    if let Some(code) = code.as_deref().filter(|code| Code::parse(code).is_none()) {
        let known: Vec<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
        return Err(invalid("code", format!("`{code}` is no code of a violation{}", maybe(code, &known))));
    }
    let page = parameters.page(app.now_ms())?;
    let filter = ViolationFilter { code, tool: parameters.text("tool"), model: parameters.text("model"), page };
    let mut found = look_up(app, move |store| store.violations(&filter)).await?;
    if !caller.reads_bodies {
        found.rows.iter_mut().for_each(|row| hide_words(&mut row.violation));
    } else if found.rows.iter().any(|row| row.violation.message.is_some()) {
        caller.audit("violations", "");
    }
    Ok(responses::json(&PageResponse::from(found)))
}

/// `GET /api/stats`
pub async fn statistics(app: &Arc<App>, query: &str) -> Result<Response<Body>, Failure> {
    let window = Parameters::read(query, &["window"])?.window("window")?;
    let now_ms = app.now_ms();
    let stats = look_up(app, move |store| query::statistics(store, window, now_ms)).await?;
    Ok(responses::json(&StatsWithLoops { stats, loops: app.loops.figures() }))
}

/// `GET /api/failures`
pub async fn failure_history(app: &Arc<App>, query: &str) -> Result<Response<Body>, Failure> {
    let window = Parameters::read(query, &["window"])?.window("window")?;
    let now_ms = app.now_ms();
    let history = look_up(app, move |store| failures(store, window, now_ms)).await?;
    Ok(responses::json(&history))
}
