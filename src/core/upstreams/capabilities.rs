//! Capabilities of each model at one upstream: tool calling and refused parameters. Shared by all workers.
//!
//! Read on the path of every exchange, therefore without a lock; written rarely. Nothing in it is proof: unknown capabilities are probed,
//! and known ones may change.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use arc_swap::ArcSwap;
use foldhash::quality::RandomState;

use crate::upstreams::capability_probe::ToolCalling;

/// Models of one upstream that are stored at most: their names come from requests.
pub const MODELS_MAX: usize = 1_000;
/// Time after which a finding that calls don't work expires, in milliseconds.
const NO_MS: u64 = 3_600_000;
/// Time after a failed probe in which no other one is sent, in milliseconds.
const OPEN_MS: u64 = 5_000;
/// Answers in a row with calls in their text after which the model counts as leaking.
const LEAKS_MAX: u32 = 3;

/// Known capabilities of a model.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ModelCapabilities {
    /// Result for tool calling.
    pub calls: ToolCalling,
    /// Reason why calls don't work, or why that isn't known.
    pub reason: Box<str>,
    /// Parameters that it refuses, as paths of `drop`.
    pub refused: Vec<&'static str>,
    /// Time of the finding, in Unix milliseconds; 0: never.
    pub at_ms: u64,
    /// Kind of the last probe's failure, if it failed.
    open: Option<Inconclusive>,
}

/// Kind of failure of a probe.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Inconclusive {
    /// The probe was refused as any request would be: wrong key, unknown model.
    Refused,
    /// The probe couldn't be sent, or wasn't answered.
    Failed,
}

impl ModelCapabilities {
    /// Tool calling as it is known at this time. A finding that calls don't work expires, because it may have been fixed.
    pub fn calls_at(&self, now_ms: u64) -> ToolCalling {
        match self.calls {
            ToolCalling::No | ToolCalling::TextLeak if now_ms.saturating_sub(self.at_ms) > NO_MS => ToolCalling::Unknown,
            calls => calls,
        }
    }

    /// Milliseconds until what was found that keeps exchanges with tools away counts no longer.
    pub fn asked_again_in_ms(&self, now_ms: u64) -> u64 {
        let lifetime_ms = if self.calls == ToolCalling::Unknown { OPEN_MS } else { NO_MS };
        self.at_ms.saturating_add(lifetime_ms).saturating_sub(now_ms).clamp(1, lifetime_ms)
    }

    /// Failure of a probe that was sent a moment ago: another one would fail, too.
    pub fn open_at(&self, now_ms: u64) -> Option<Inconclusive> {
        self.open.filter(|_| now_ms.saturating_sub(self.at_ms) <= OPEN_MS)
    }
}

/// One model at one upstream.
#[derive(Default)]
pub struct ModelEntry {
    known: ArcSwap<ModelCapabilities>,
    leaks: AtomicU32,
    /// Held during a probe, so that other exchanges wait for its result.
    pub asking: tokio::sync::Mutex<()>,
}

impl ModelEntry {
    /// The current capabilities.
    pub fn known(&self) -> arc_swap::Guard<Arc<ModelCapabilities>> {
        self.known.load()
    }

    /// Stores a finding. Returns whether it changes the previous one.
    pub fn learn(&self, calls: ToolCalling, reason: &str, now_ms: u64) -> bool {
        self.leaks.store(0, Ordering::Relaxed);
        let before = self.known.load_full();
        let changed = before.calls != calls || *before.reason != *reason;
        self.known.store(Arc::new(ModelCapabilities {
            calls,
            reason: reason.into(),
            at_ms: now_ms,
            refused: before.refused.clone(),
            open: None,
        }));
        changed
    }

    /// Records a failed probe; a previous finding stays. Returns whether the reason is new.
    pub fn open(&self, reason: &str, open: Inconclusive, now_ms: u64) -> bool {
        let before = self.known.load_full();
        if before.calls != ToolCalling::Unknown {
            return false;
        }
        self.known.store(Arc::new(ModelCapabilities {
            reason: reason.into(),
            at_ms: now_ms,
            open: Some(open),
            ..ModelCapabilities::clone(&before)
        }));
        *before.reason != *reason
    }

    /// Records a refused parameter. Returns whether it is new.
    pub fn refuse(&self, path: &'static str, now_ms: u64) -> bool {
        let mut new = false;
        self.known.rcu(|known| {
            new = !known.refused.contains(&path);
            let mut known = ModelCapabilities::clone(known);
            if new {
                known.refused.push(path);
                known.at_ms = now_ms;
            }
            known
        });
        new
    }

    /// Records an answer with calls. Returns whether that changes the previous finding.
    pub fn called(&self, now_ms: u64) -> bool {
        if self.leaks.load(Ordering::Relaxed) != 0 {
            self.leaks.store(0, Ordering::Relaxed);
        }
        self.known.load().calls != ToolCalling::Yes && self.learn(ToolCalling::Yes, "", now_ms)
    }

    /// Records an answer with a call in its text and none elsewhere. Returns whether the model counts as leaking now.
    pub fn leaked(&self, now_ms: u64) -> bool {
        let leaks = self.leaks.fetch_add(1, Ordering::Relaxed) + 1;
        leaks >= LEAKS_MAX && self.learn(ToolCalling::TextLeak, "it writes calls as text", now_ms)
    }
}

/// The models of one upstream.
#[derive(Default)]
pub struct CapabilityTable(ArcSwap<HashMap<Box<str>, Arc<ModelEntry>, RandomState>>);

impl CapabilityTable {
    /// Returns a model's entry, creating it if necessary.
    pub fn model(&self, name: &str) -> Arc<ModelEntry> {
        if let Some(model) = self.0.load().get(name) {
            return model.clone();
        }
        let made = Arc::new(ModelEntry::default());
        self.0.rcu(|models| {
            let mut models = HashMap::clone(models);
            if models.len() >= MODELS_MAX {
                // Prefers an entry without findings; else removes any, which is probed again when needed.
                let useless = models.iter().find(|(_, model)| model.known.load().at_ms == 0).or_else(|| models.iter().next());
                if let Some(name) = useless.map(|(name, _)| name.clone()) {
                    models.remove(&name);
                }
            }
            models.entry(name.into()).or_insert_with(|| made.clone());
            models
        });
        self.0.load().get(name).cloned().unwrap_or(made)
    }

    /// Returns a model's entry, if there is one.
    pub fn find(&self, name: &str) -> Option<Arc<ModelEntry>> {
        self.0.load().get(name).cloned()
    }

    /// All known capabilities, sorted by model.
    pub fn all(&self) -> Vec<(Box<str>, Arc<ModelCapabilities>)> {
        let mut all: Vec<_> = self.0.load().iter().map(|(name, model)| (name.clone(), model.known.load_full())).collect();
        all.sort_by(|one, two| one.0.cmp(&two.0));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_without_end_take_no_memory_without_end() {
        let table = CapabilityTable::default();
        assert!(table.model("kept").learn(ToolCalling::Yes, "", 1));
        for number in 0..MODELS_MAX * 2 {
            table.model(&format!("model-{number}"));
        }
        assert_eq!(table.all().len(), MODELS_MAX);
        assert_eq!(table.find("kept").map(|model| model.known().calls), Some(ToolCalling::Yes));
    }

    #[test]
    fn live_traffic_teaches() {
        let table = CapabilityTable::default();
        let model = table.model("m");
        assert_eq!(model.known().calls, ToolCalling::Unknown);
        assert!(model.called(5) && !model.called(6));
        assert_eq!((model.known().calls, model.known().at_ms), (ToolCalling::Yes, 5));
        // One leak is an accident; calls in between show that it was.
        assert!(!model.leaked(7) && !model.leaked(8) && !model.called(9));
        assert!(!model.leaked(10) && !model.leaked(11) && model.leaked(12));
        assert_eq!(model.known().calls, ToolCalling::TextLeak);
        assert!(model.refuse("tool_choice", 13) && !model.refuse("tool_choice", 14));
        assert!(model.called(15) && model.known().refused == ["tool_choice"]);
    }
}
