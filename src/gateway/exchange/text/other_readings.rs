//! Other readings of an answer's texts than the one that is judged first. Clients join and divide texts in different ways: each alone, all
//! of them, or only those of the kinds that they know. A claim in one of these readings is a claim. Pure.

use std::{cell::LazyCell, cmp::Reverse};

use super::place::TextPlace;
use crate::{
    exchange::context::Context,
    judge::text::{TextGate, TextRules},
    wire::json::Value,
};

/// Limit for the readings of one answer that are reported; those that block come first.
const READINGS_MAX: usize = 16;

/// Those of the readings that have violations or citations which none of `judged` has. `gate`: the gate of a reading.
pub fn adding<R>(readings: impl IntoIterator<Item = R>, gate: impl Fn(&R) -> &TextGate, judged: &[&TextGate]) -> Vec<R> {
    let mut adding: Vec<R> = readings.into_iter().filter(|reading| adds_to(gate(reading), judged)).collect();
    adding.sort_by_key(|reading| Reverse(gate(reading).blocked().is_some()));
    adding.truncate(READINGS_MAX);
    adding
}

fn adds_to(reading: &TextGate, judged: &[&TextGate]) -> bool {
    let objects = reading.violations().iter().any(|violation| !judged.iter().any(|gate| gate.violations().contains(violation)));
    objects || reading.citations().iter().any(|id| !judged.iter().any(|gate| gate.citations().contains(id)))
}

/// Readings of whole texts for ids: all strings of all runs joined, where there are several runs, and each string alone, where its run has
/// several. `runs`: strings that were judged joined.
pub fn of_runs(runs: &[Vec<Value<'_>>], context: &Context) -> Vec<TextPlace> {
    let several = |strings: &&Vec<Value<'_>>| strings.len() > 1;
    let alone = runs.iter().filter(several).flatten().map(|string| vec![*string]);
    let joined = (runs.len() > 1).then(|| runs.iter().flatten().copied().collect());
    let rules = LazyCell::new(|| context.id_rules());
    joined.into_iter().chain(alone).filter_map(|strings: Vec<Value<'_>>| TextPlace::read_for_ids(strings, &rules, context)).collect()
}

/// A streamed text that is read for ids.
pub struct IdReading {
    rules: TextRules,
    gate: TextGate,
    /// Bytes received.
    pub fed: usize,
}

impl IdReading {
    /// A reading that begins with this text.
    pub fn of(text: &str, context: &Context) -> Self {
        let mut reading = Self { rules: context.id_rules(), gate: TextGate::default(), fed: 0 };
        reading.feed(text, context);
        reading
    }

    /// Receives the next piece.
    pub fn feed(&mut self, text: &str, context: &Context) {
        self.fed += text.len();
        context.feed_by(&self.rules, &mut self.gate, text);
    }

    /// Ends the text. If the ledger must be asked, call it again after the answer.
    pub fn close(&mut self, context: &Context) {
        context.close_by(&self.rules, &mut self.gate);
    }

    /// True if the text can end here for whoever waits for what follows: what isn't decided has no digit of an id.
    pub fn may_pause(&self) -> bool {
        let harmless = |byte: u8| byte.is_ascii() && !byte.is_ascii_digit();
        self.gate.blocked().is_none() && self.gate.undecided().is_some_and(|text| text.bytes().all(harmless))
    }

    /// Gate of the text.
    pub fn gate(&self) -> &TextGate {
        &self.gate
    }
}
