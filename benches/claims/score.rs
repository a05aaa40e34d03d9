//! How the cases came out, by category.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use super::{
    cases::Case,
    world::{World, judge},
};

/// The counts of one category.
#[derive(Clone, Copy, Debug, Default)]
pub struct Count {
    pub fabricated: usize,
    /// Fabricated ones that were found.
    pub found: usize,
    pub honest: usize,
    /// Honest ones of which something was found.
    pub alarms: usize,
    /// What judging all of them took.
    pub taken: Duration,
}

/// The counts, and what went wrong.
#[derive(Debug, Default)]
pub struct Tally {
    pub categories: BTreeMap<String, Count>,
    pub wrong: Vec<String>,
    /// Cases that came out otherwise in pieces.
    pub torn: Vec<String>,
}

impl Tally {
    /// Of all categories together.
    pub fn all(&self) -> Count {
        self.categories.values().fold(Count::default(), |sum, count| Count {
            fabricated: sum.fabricated + count.fabricated,
            found: sum.found + count.found,
            honest: sum.honest + count.honest,
            alarms: sum.alarms + count.alarms,
            taken: sum.taken + count.taken,
        })
    }
}

/// Judges every case, whole and in pieces.
pub fn tally(world: &World, cases: &[&Case]) -> Tally {
    let mut tally = Tally::default();
    for case in cases {
        let context = world.context(&case.ran, &case.asked);
        let begun = Instant::now();
        let found = judge(&context, &case.answer, usize::MAX);
        let taken = begun.elapsed();
        if judge(&context, &case.answer, 7) != found {
            tally.torn.push(case.name.clone());
        }
        let category = case.category.split(": ").next().unwrap_or_default();
        let count = tally.categories.entry(category.to_owned()).or_default();
        count.taken += taken;
        let right = if case.expect.is_empty() {
            count.honest += 1;
            count.alarms += usize::from(!found.is_empty());
            found.is_empty()
        } else {
            let hit = found.iter().any(|code| case.expect.contains(code));
            count.fabricated += 1;
            count.found += usize::from(hit);
            hit
        };
        if !right {
            tally.wrong.push(format!("{} [{}]: expected {:?}, found {found:?}: {}", case.name, case.category, case.expect, case.answer));
        }
    }
    tally
}
