//! Questions for the ledger that come up while an exchange is judged, with their answers, and the marks minted for the
//! record. The shell asks the ledger.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use crate::{judge::text::LedgerAnswer, marks::MarkTime};

/// Limit for the ids looked up in one exchange; further ones count as unknown.
const ASKED_MAX: usize = 256;

/// Ledger queries of one exchange, and the marks minted in it.
#[derive(Debug, Default)]
pub struct Inquiry {
    open: AtomicBool,
    trims: AtomicBool,
    ids: Mutex<Ids>,
}

#[derive(Debug, Default)]
struct Ids {
    asked: Vec<String>,
    known: Vec<(String, LedgerAnswer)>,
    marks: Vec<(MarkTime, Box<str>)>,
    trimmed: Vec<String>,
}

impl Inquiry {
    fn ids(&self) -> MutexGuard<'_, Ids> {
        // Never contended: an exchange is one task.
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ledger's answer about an id; `None` queues the id for lookup. Beyond the limit an id counts as unknown.
    pub fn ask(&self, id: &str) -> Option<LedgerAnswer> {
        let mut ids = self.ids();
        if let Some((_, known)) = ids.known.iter().find(|(known, _)| known == id) {
            return Some(*known);
        }
        if ids.known.len() + ids.asked.len() >= ASKED_MAX {
            return Some(LedgerAnswer::default());
        }
        if !ids.asked.iter().any(|asked| asked == id) {
            ids.asked.push(id.to_owned());
        }
        self.open.store(true, Ordering::Relaxed);
        None
    }

    /// Records the mark that was minted for a call at that moment.
    pub fn minted(&self, moment: MarkTime, mark: &str) {
        self.ids().marks.push((moment, mark.into()));
    }

    /// Takes the recorded marks.
    pub fn marks(&self) -> Vec<(MarkTime, Box<str>)> {
        std::mem::take(&mut self.ids().marks)
    }

    /// Records that the application trimmed this execution's result, so that it can't be cited any more.
    pub fn trim(&self, execution_id: &str) {
        self.ids().trimmed.push(execution_id.to_owned());
        self.trims.store(true, Ordering::Relaxed);
    }

    /// True if the result of this execution was trimmed.
    pub fn is_trimmed(&self, execution_id: &str) -> bool {
        self.trims.load(Ordering::Relaxed) && self.ids().trimmed.iter().any(|own| own == execution_id)
    }

    /// True if a lookup is pending.
    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }

    /// Ids queued for lookup.
    pub fn asked(&self) -> Vec<String> {
        self.ids().asked.clone()
    }

    /// Answers all queued lookups by `known`.
    pub fn answer(&self, mut known: impl FnMut(&str) -> LedgerAnswer) {
        let mut ids = self.ids();
        let asked = std::mem::take(&mut ids.asked);
        ids.known.extend(asked.into_iter().map(|id| {
            let answer = known(&id);
            (id, answer)
        }));
        self.open.store(false, Ordering::Relaxed);
    }
}
