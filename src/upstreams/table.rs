//! What is known of each model at one upstream: do calls work, which parameters are refused. Shared by all workers.
//!
//! Read on the path of every exchange, so without a lock; written when something is learnt, which is rare. Nothing in
//! it is ever a proof: what isn't known is asked, what was found out may change.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use arc_swap::ArcSwap;

use super::probe::Calls;

/// Models of one upstream that are known at a time: their names come from outside.
pub const MODELS_MAX: usize = 1_000;
/// How long it is believed that calls don't work.
const NO_MS: u64 = 3_600_000;
/// How long it is believed that asking is of no use.
const OPEN_MS: u64 = 5_000;
/// Answers with calls in their text, one after another, until it is believed.
const LEAKS_MAX: u32 = 3;

/// What is known.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Known {
    /// Do calls work?
    pub calls: Calls,
    /// Why not, or why it isn't known.
    pub reason: Box<str>,
    /// Parameters that it refuses, as paths of `drop`.
    pub refused: Vec<&'static str>,
    /// When that was found out, in milliseconds since the epoch; 0: never.
    pub at_ms: u64,
    /// Why the last question was of no use, where it was.
    open: Option<Open>,
}

/// Why a question was of no use.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Open {
    /// It was refused, as a request would be: a wrong key, no such model.
    Refused,
    /// It couldn't be asked, or wasn't answered.
    Failed,
}

impl Known {
    /// Do calls work, as far as is believed at this time? What doesn't work may have been mended.
    pub fn calls_at(&self, now_ms: u64) -> Calls {
        match self.calls {
            Calls::No | Calls::TextLeak if now_ms.saturating_sub(self.at_ms) > NO_MS => Calls::Unknown,
            calls => calls,
        }
    }

    /// Was a question of no use a moment ago? Then the next one would be too.
    pub fn open_at(&self, now_ms: u64) -> Option<Open> {
        self.open.filter(|_| now_ms.saturating_sub(self.at_ms) <= OPEN_MS)
    }
}

/// One model at one upstream.
#[derive(Default)]
pub struct Model {
    known: ArcSwap<Known>,
    leaks: AtomicU32,
    /// Held by whoever asks, so that all others wait for the one answer.
    pub asking: tokio::sync::Mutex<()>,
}

impl Model {
    /// What is known now.
    pub fn known(&self) -> arc_swap::Guard<Arc<Known>> {
        self.known.load()
    }

    /// Notes what was found out. True where it changes what was known.
    pub fn learn(&self, calls: Calls, reason: &str, now_ms: u64) -> bool {
        self.leaks.store(0, Ordering::Relaxed);
        let before = self.known.load_full();
        let changed = before.calls != calls || *before.reason != *reason;
        self.known.store(Arc::new(Known { calls, reason: reason.into(), at_ms: now_ms, refused: before.refused.clone(), open: None }));
        changed
    }

    /// Notes that it couldn't be found out. What was known stays known. True where the reason is news.
    pub fn open(&self, reason: &str, open: Open, now_ms: u64) -> bool {
        let before = self.known.load_full();
        if before.calls != Calls::Unknown {
            return false;
        }
        self.known.store(Arc::new(Known { reason: reason.into(), at_ms: now_ms, open: Some(open), ..Known::clone(&before) }));
        *before.reason != *reason
    }

    /// Notes a parameter that is refused. True where that is new.
    pub fn refuse(&self, path: &'static str, now_ms: u64) -> bool {
        let mut new = false;
        self.known.rcu(|known| {
            new = !known.refused.contains(&path);
            let mut known = Known::clone(known);
            if new {
                known.refused.push(path);
                known.at_ms = now_ms;
            }
            known
        });
        new
    }

    /// An answer had calls. True where that is news.
    pub fn called(&self, now_ms: u64) -> bool {
        if self.leaks.load(Ordering::Relaxed) != 0 {
            self.leaks.store(0, Ordering::Relaxed);
        }
        self.known.load().calls != Calls::Yes && self.learn(Calls::Yes, "", now_ms)
    }

    /// An answer had a call in its text, and none elsewhere. True where that is believed now.
    pub fn leaked(&self, now_ms: u64) -> bool {
        let leaks = self.leaks.fetch_add(1, Ordering::Relaxed) + 1;
        leaks >= LEAKS_MAX && self.learn(Calls::TextLeak, "it writes calls as text", now_ms)
    }
}

/// The models of one upstream.
#[derive(Default)]
pub struct Table(ArcSwap<HashMap<Box<str>, Arc<Model>>>);

impl Table {
    /// A model's entry; made where there is none.
    pub fn model(&self, name: &str) -> Arc<Model> {
        if let Some(model) = self.0.load().get(name) {
            return model.clone();
        }
        let made = Arc::new(Model::default());
        self.0.rcu(|models| {
            let mut models = HashMap::clone(models);
            if models.len() >= MODELS_MAX {
                // Of no use is what was never found out; else any: it is asked again.
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

    /// A model's entry, where there is one.
    pub fn find(&self, name: &str) -> Option<Arc<Model>> {
        self.0.load().get(name).cloned()
    }

    /// All that is known, by the names of the models.
    pub fn all(&self) -> Vec<(Box<str>, Arc<Known>)> {
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
        let table = Table::default();
        assert!(table.model("kept").learn(Calls::Yes, "", 1));
        for number in 0..MODELS_MAX * 2 {
            table.model(&format!("model-{number}"));
        }
        assert_eq!(table.all().len(), MODELS_MAX);
        assert_eq!(table.find("kept").map(|model| model.known().calls), Some(Calls::Yes));
    }

    #[test]
    fn live_traffic_teaches() {
        let table = Table::default();
        let model = table.model("m");
        assert_eq!(model.known().calls, Calls::Unknown);
        assert!(model.called(5) && !model.called(6));
        assert_eq!((model.known().calls, model.known().at_ms), (Calls::Yes, 5));
        // One leak is an accident; calls in between show that it was.
        assert!(!model.leaked(7) && !model.leaked(8) && !model.called(9));
        assert!(!model.leaked(10) && !model.leaked(11) && model.leaked(12));
        assert_eq!(model.known().calls, Calls::TextLeak);
        assert!(model.refuse("tool_choice", 13) && !model.refuse("tool_choice", 14));
        assert!(model.called(15) && model.known().refused == ["tool_choice"]);
    }
}
