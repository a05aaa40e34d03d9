//! The ledger: the state of its chains, and verifying them with progress.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use http::Response;
use serde::Serialize;
use serde_json::{Value, json};

use super::{AdminState, api::read_blocking, query::Parameters, responses};
use crate::{
    proxy::http::{body::Body, failure::Failure},
    settings::{LedgerUrl, StoredContent},
};

/// A verification: running, or the last one.
#[derive(Debug, Default)]
pub struct Verification {
    state: Mutex<VerificationState>,
    records: AtomicU64,
    of: AtomicU64,
}

#[derive(Clone, Debug, Default)]
enum VerificationState {
    /// Nobody asked for one yet.
    #[default]
    Never,
    Running {
        since_ms: u64,
    },
    Ended {
        at_ms: u64,
        outcome: VerificationOutcome,
    },
}

/// What a verification found.
#[derive(Clone, Debug, Serialize)]
struct VerificationOutcome {
    /// The chain is whole.
    whole: bool,
    records: u64,
    rows: u64,
    removed: u64,
    chains: usize,
    /// The first fault, or why the ledger can't be read.
    fault: Option<String>,
}

impl Verification {
    fn view(&self) -> Value {
        let progress =
            |state: &str| json!({"state": state, "records": self.records.load(Ordering::Relaxed), "of": self.of.load(Ordering::Relaxed)});
        match &*self.state.lock().unwrap_or_else(PoisonError::into_inner) {
            VerificationState::Never => json!({"state": "never"}),
            VerificationState::Running { since_ms } => {
                let mut view = progress("running");
                view["since_ms"] = json!(since_ms);
                view
            }
            VerificationState::Ended { at_ms, outcome } => {
                let mut view = progress("ended");
                (view["at_ms"], view["outcome"]) = (json!(at_ms), json!(outcome));
                view
            }
        }
    }

    fn set(&self, state: VerificationState) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }

    /// False if one runs already.
    fn begin(&self, since_ms: u64) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*state, VerificationState::Running { .. }) {
            return false;
        }
        *state = VerificationState::Running { since_ms };
        self.records.store(0, Ordering::Relaxed);
        self.of.store(0, Ordering::Relaxed);
        true
    }
}

/// `GET /api/ledger`
pub async fn ledger(state: &Arc<AdminState>, query: &str) -> Result<Response<Body>, Failure> {
    Parameters::read(query, &[])?;
    let own = state.app.clone();
    let chains = read_blocking(move || own.recorder.chains()).await?;
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let chain = |chain: &crate::ledger::store::Chain| {
        let removed = chain.anchor.as_ref().map_or(0, |anchor| anchor.sequence);
        let sequence = chain.tip.as_ref().map_or(0, |tip| tip.sequence);
        let mac = chain.tip.as_ref().map(|tip| hex(&tip.mac[..]));
        json!({"writer": chain.writer, "sequence": sequence, "records": sequence.saturating_sub(removed), "removed": removed, "mac": mac})
    };
    let settings = &state.app.settings.ledger;
    let kind = match settings.url {
        LedgerUrl::Sqlite(_) => "sqlite",
        LedgerUrl::Postgres(_) => "postgres",
        LedgerUrl::Memory => "memory",
    };
    let store = match settings.store {
        StoredContent::Digests => "digests",
        StoredContent::Bodies => "bodies",
    };
    let view = json!({
        "kind": kind, "store": store, "keep_s": settings.keep.as_secs(), "exchanges_kept": state.app.bodies.is_some(),
        "waiting": state.app.recorder.depth(), "trouble": state.app.recorder.trouble().now(),
        "chains": chains.iter().map(chain).collect::<Vec<_>>(), "verification": state.verification.view(),
    });
    Ok(responses::json(&view))
}

/// `POST /api/ledger/verify`: starts a verification, or says how far the running one is.
pub fn verify(state: &Arc<AdminState>, query: &str) -> Result<Response<Body>, Failure> {
    Parameters::read(query, &[])?;
    if state.verification.begin(state.app.now_ms()) {
        let own = state.clone();
        tokio::task::spawn_blocking(move || {
            let verification = &own.verification;
            let told = own.app.recorder.verify(&|records, of| {
                verification.records.store(records, Ordering::Relaxed);
                verification.of.store(of, Ordering::Relaxed);
            });
            let outcome = match told {
                Ok(report) => VerificationOutcome {
                    whole: report.fault.is_none(),
                    records: report.records,
                    rows: report.rows,
                    removed: report.removed,
                    chains: report.chains,
                    fault: report.fault.map(|fault| fault.to_string()),
                },
                Err(error) => {
                    VerificationOutcome { whole: false, records: 0, rows: 0, removed: 0, chains: 0, fault: Some(error.to_string()) }
                }
            };
            verification.set(VerificationState::Ended { at_ms: own.app.now_ms(), outcome });
        });
    }
    Ok(responses::json(&state.verification.view()))
}
