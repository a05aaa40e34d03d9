//! Tool calls of a request that a client retries: none runs twice.
//!
//! OpenAI's clients retry a request after a broken connection or a timeout, and say so. The model then generates its calls
//! anew: a call equal to one of the first attempt gets the outcome of that one, by the journal. If the outcome can't be known, because
//! toolmark itself was stopped meanwhile, the result says so. Calls that are safe to repeat are run again.

use std::sync::Arc;

use crate::{
    mcp::{Mcp, outcome::ToolOutcome},
    proxy::{
        app::App,
        conversations::journal::{Due, Known},
    },
};

/// Executes a call, or returns the outcome of its earlier run. It runs to its end, which is recorded, even if the caller stops waiting.
pub async fn run(app: Arc<App>, mcp: Arc<Mcp>, due: Due) -> ToolOutcome {
    let name = due.asked.tool.name.clone();
    let running = tokio::spawn(run_due(app, mcp, due));
    running.await.unwrap_or_else(|_| {
        tracing::error!(tool = &*name, "running {name} broke off");
        ToolOutcome::failure("toolmark itself broke off while the tool ran: whether it took effect is unknown")
    })
}

async fn run_due(app: Arc<App>, mcp: Arc<Mcp>, due: Due) -> ToolOutcome {
    let unknown = |why: &str| {
        ToolOutcome::failure(&format!(
            "`{}` was begun by an earlier attempt at this request, and {why}. Whether it took effect is UNKNOWN; toolmark did not run it \
             again. Say so, or find out by other means; don't report it as done or as not done.",
            due.asked.tool.name
        ))
    };
    match &due.known {
        Known::Nothing => {}
        Known::Here(begun) => {
            if let Some(outcome) = mcp.ended(&begun.mark).await {
                return outcome;
            }
            // Forgotten here; its end was noted all the same.
            let known = due.noted_before(app.recorder.shelf(), app.now_ms()).await;
            let noted = if let Known::Before(begun) = known { begun.outcome } else { None };
            return noted.unwrap_or_else(|| unknown("what came of it is forgotten"));
        }
        Known::Before(begun) => return begun.outcome.clone().unwrap_or_else(|| unknown("its end was never noted")),
        Known::Untold => {
            return ToolOutcome::failure("it was not run: whether an earlier attempt at this request has run it can't be looked up now");
        }
    }
    let outcome = mcp.run(due.asked.clone()).await;
    if due.note_end(app.recorder.shelf(), &outcome, app.now_ms()).is_err() {
        tracing::error!(tool = &*due.asked.tool.name, "the end of a call can't be noted in the ledger: too much waits");
    }
    outcome
}
