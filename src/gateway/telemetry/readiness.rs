//! Readiness of the process's parts: each one registers a probe that runs when `/readyz` is requested.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Mutex, PoisonError},
};

use serde::Serialize;

/// State of one part.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(tag = "state", content = "why", rename_all = "lowercase")]
pub enum PartState {
    /// The part works.
    Ready,
    /// The part works with restrictions. This is reported, but requests needn't go elsewhere.
    Degraded(String),
    /// The part doesn't work; requests should go elsewhere.
    Down(String),
}

type Probe = Box<dyn Fn() -> PartState + Send + Sync>;
type Detail = Box<dyn Fn() -> serde_json::Value + Send + Sync>;

/// Registry of the parts' probes and states.
#[derive(Default)]
pub struct Readiness {
    probes: Mutex<Vec<(&'static str, Probe)>>,
    said: Mutex<BTreeMap<&'static str, PartState>>,
    details: Mutex<Vec<(&'static str, Detail)>>,
}

impl fmt::Debug for Readiness {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Readiness")
    }
}

/// State of all parts.
#[derive(Clone, Debug, Serialize)]
pub struct ReadinessReport {
    /// True if no part is down.
    pub ready: bool,
    /// The state of each part.
    pub parts: BTreeMap<&'static str, PartState>,
    /// Additional details that don't affect readiness.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub details: BTreeMap<&'static str, serde_json::Value>,
}

impl Readiness {
    /// Registers a part. `probe` runs outside the workers, and may block for a moment.
    pub fn register(&self, name: &'static str, probe: impl Fn() -> PartState + Send + Sync + 'static) {
        self.probes.lock().unwrap_or_else(PoisonError::into_inner).push((name, Box::new(probe)));
    }

    /// Registers a detail that doesn't affect readiness. `detail` runs outside the workers, and may block for a moment.
    pub fn describe(&self, name: &'static str, detail: impl Fn() -> serde_json::Value + Send + Sync + 'static) {
        self.details.lock().unwrap_or_else(PoisonError::into_inner).push((name, Box::new(detail)));
    }

    /// Sets a part's state.
    pub fn say(&self, name: &'static str, state: PartState) {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).insert(name, state);
    }

    /// Runs all probes and collects the states.
    pub fn report(&self) -> ReadinessReport {
        let mut parts = self.said.lock().unwrap_or_else(PoisonError::into_inner).clone();
        parts.extend(self.probes.lock().unwrap_or_else(PoisonError::into_inner).iter().map(|(name, probe)| (*name, probe())));
        let details = self.details.lock().unwrap_or_else(PoisonError::into_inner).iter().map(|(name, detail)| (*name, detail())).collect();
        ReadinessReport { ready: !parts.values().any(|state| matches!(state, PartState::Down(_))), parts, details }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_down_is_not_ready() {
        let readiness = Readiness::default();
        readiness.say("policy", PartState::Degraded("old".into()));
        readiness.register("upstreams", || PartState::Ready);
        let report = readiness.report();
        assert!(report.ready);
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["parts"], serde_json::json!({"policy": {"state": "degraded", "why": "old"}, "upstreams": {"state": "ready"}}));
        readiness.register("ledger", || PartState::Down("full".into()));
        readiness.say("policy", PartState::Ready);
        let report = readiness.report();
        assert!(!report.ready && report.parts["policy"] == PartState::Ready);
    }
}
