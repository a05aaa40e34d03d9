//! What judging an exchange asks the ledger, what the ledger answered, and what the record is told of the marks that
//! were given: by value. The shell carries it.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use super::context::Context;
use crate::judge::{
    marks::Moment,
    text::{Known, Progress, Rules, TextGate},
};

/// Ids of one exchange that are asked for; further ones count as unknown.
const ASKED_MAX: usize = 256;

/// See the module.
#[derive(Debug, Default)]
pub struct Inquiry {
    open: AtomicBool,
    trims: AtomicBool,
    ids: Mutex<Ids>,
}

#[derive(Debug, Default)]
struct Ids {
    asked: Vec<String>,
    known: Vec<(String, Known)>,
    marks: Vec<(Moment, Box<str>)>,
    trimmed: Vec<String>,
}

impl Inquiry {
    fn ids(&self) -> MutexGuard<'_, Ids> {
        // Never contended: an exchange is one task.
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of an id; where nothing is, it is asked for.
    pub fn ask(&self, id: &str) -> Option<Known> {
        let mut ids = self.ids();
        if let Some((_, known)) = ids.known.iter().find(|(known, _)| known == id) {
            return Some(*known);
        }
        if ids.known.len() + ids.asked.len() >= ASKED_MAX {
            return Some(Known::default());
        }
        if !ids.asked.iter().any(|asked| asked == id) {
            ids.asked.push(id.to_owned());
        }
        self.open.store(true, Ordering::Relaxed);
        None
    }

    /// Notes the mark that a call of that moment got.
    pub fn minted(&self, moment: Moment, mark: &str) {
        self.ids().marks.push((moment, mark.into()));
    }

    /// The marks that calls got; none are left.
    pub fn marks(&self) -> Vec<(Moment, Box<str>)> {
        std::mem::take(&mut self.ids().marks)
    }

    /// Notes that the application took this execution's result out of the conversation: it can't be cited any more.
    pub fn trim(&self, execution_id: &str) {
        self.ids().trimmed.push(execution_id.to_owned());
        self.trims.store(true, Ordering::Relaxed);
    }

    /// Did it?
    pub fn is_trimmed(&self, execution_id: &str) -> bool {
        self.trims.load(Ordering::Relaxed) && self.ids().trimmed.iter().any(|own| own == execution_id)
    }

    /// Is anything asked for and not answered?
    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }

    /// The ids that are asked for.
    pub fn asked(&self) -> Vec<String> {
        self.ids().asked.clone()
    }

    /// The answers to all that is asked: what is left out isn't known to the ledger.
    pub fn answer(&self, mut known: impl FnMut(&str) -> Known) {
        let mut ids = self.ids();
        let asked = std::mem::take(&mut ids.asked);
        ids.known.extend(asked.into_iter().map(|id| {
            let answer = known(&id);
            (id, answer)
        }));
        self.open.store(false, Ordering::Relaxed);
    }
}

impl Context {
    /// Takes a piece of text through its gate.
    pub fn feed(&self, gate: &mut TextGate, text: &str) {
        self.feed_by(&self.text, gate, text);
    }

    /// Takes a whole text through its gate, for which the answer's format doesn't count.
    pub fn take_prose(&self, gate: &mut TextGate, text: &str) {
        let prose = self.json_only.then(|| Rules { json_only: false, ..self.text.clone() });
        let rules = prose.as_ref().unwrap_or(&self.text);
        self.feed_by(rules, gate, text);
        self.close_by(rules, gate);
    }

    fn feed_by(&self, rules: &Rules, gate: &mut TextGate, text: &str) {
        let mut progress = gate.handle(text, rules, self);
        while let Progress::Need(ids) = progress {
            if !self.tell(gate, &ids) {
                return;
            }
            progress = gate.handle("", rules, self);
        }
    }

    /// Ends a text. Where the ledger must be asked first ([`Inquiry::is_open`]), it is to be called again.
    pub fn close(&self, gate: &mut TextGate) {
        self.close_by(&self.text, gate);
    }

    fn close_by(&self, rules: &Rules, gate: &mut TextGate) {
        while let Progress::Need(ids) = gate.finish(rules, self) {
            if !self.tell(gate, &ids) {
                return;
            }
        }
    }

    /// Tells a gate what is known of the ids that it needs; false where the ledger must be asked.
    fn tell(&self, gate: &mut TextGate, ids: &[String]) -> bool {
        let mut all = true;
        for id in ids {
            match self.inquiry.ask(id) {
                Some(known) => gate.answer(id, known),
                None => all = false,
            }
        }
        all
    }
}
