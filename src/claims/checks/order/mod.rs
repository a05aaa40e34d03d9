//! The order in which a passage or a list tells things: `from highest to lowest: 397, 412, 368`. Pure.
//!
//! Only where the question, the passage or what introduces the list speaks of an order. The figures of its items must go one way.

pub mod ends;
pub mod superlative;

use crate::{
    checks::{account::sentence, states},
    context::{CheckContext, CitationScope, ClaimFinding},
    language::{fold::fold, number::Number},
    passage::Kind,
};
use toolmark_base::violation::{Certainty, Code};

/// Figures of an item, and items, that are looked at.
const FIGURES_MAX: usize = 6;
const ITEMS_MAX: usize = 40;

/// The items of the list at hand, as far as they have come.
#[derive(Debug, Default)]
pub(crate) struct OrderedList {
    /// The text that introduces it.
    introduction: String,
    /// The introduction speaks of an order; `None` if it wasn't read yet.
    introduced: Option<bool>,
    items: Vec<Vec<f64>>,
}

impl OrderedList {
    /// Takes what may introduce a list.
    pub(crate) fn begin(&mut self, text: String) {
        *self = Self { introduction: text, introduced: None, items: Vec::new() };
    }

    fn is_introduced(&mut self) -> bool {
        *self.introduced.get_or_insert_with(|| states::ranks(&fold(&self.introduction)))
    }

    /// Takes an item; the finding where it breaks the order of those before it.
    pub(crate) fn take(&mut self, scene: &CheckContext<'_>) -> Option<ClaimFinding> {
        let line = scene.kind == Kind::Line && scene.text().trim_start().starts_with(|c: char| c.is_ascii_digit());
        if !line {
            return None;
        }
        let figures: Vec<f64> = figures(scene).take(FIGURES_MAX).map(value).collect();
        if scene.bond < CitationScope::Introduced
            || figures.is_empty()
            || self.items.len() >= ITEMS_MAX
            || !(self.is_introduced() || states::ranks(scene.grounds.asked.folded()))
        {
            return None;
        }
        self.items.push(figures);
        let shared = self.items.iter().map(Vec::len).min().unwrap_or(0);
        let broken = self.items.len() >= 3 && (0..shared).all(|at| !is_sorted(self.items.iter().filter_map(|item| item.get(at).copied())));
        broken.then(|| {
            // The rest of a list that is out of order is told by this one.
            self.introduced = Some(false);
            self.items.clear();
            sentence::whole(scene, "order", Code::ClaimMismatch, "its figures aren't in that order", Certainty::Likely)
        })
    }
}

/// The finding of a passage that tells an order of its own figures.
pub(crate) fn order(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
    if scene.bond < CitationScope::Introduced || scene.plain.asks() || scene.plain.numbers().len() < 3 {
        return None;
    }
    let all: Vec<&Number> = figures(scene).collect();
    if all.len() < 3 || !states::ranks(scene.plain.folded()) {
        return None;
    }
    let unit = all.first()?.unit.map(|unit| unit.factor.to_bits());
    let alike = all.len() >= 3
        && all.iter().all(|number| {
            number.unit.map(|unit| unit.factor.to_bits()) == unit && Some(number.percent) == all.first().map(|first| first.percent)
        });
    // The figures of one column, and nothing else.
    let column = || {
        scene.sources.iter().any(|source| {
            source.facts().columns().values().any(|column| {
                all.iter().all(|number| crate::evidence::fits(number, crate::language::number::Precision::Exact, &sorted(column)))
            })
        })
    };
    (alike && !is_sorted(all.iter().map(|number| value(number))) && column())
        .then(|| sentence::whole(scene, "order", Code::ClaimMismatch, "its figures aren't in that order", Certainty::Likely))
}

fn sorted(column: &[f64]) -> Vec<f64> {
    let mut own: Vec<f64> = column.iter().map(|value| value.abs()).collect();
    own.sort_by(f64::total_cmp);
    own
}

fn figures<'s>(scene: &CheckContext<'s>) -> impl Iterator<Item = &'s Number> {
    let plain = scene.plain;
    plain.numbers().iter().filter(move |number| !number.ordinal && !plain.is_taken(&(number.span.start..number.end)))
}

fn value(number: &Number) -> f64 {
    number.readings().next().map_or(0.0, |reading| reading.value)
}

/// Do these figures only rise, or only fall?
fn is_sorted(figures: impl Iterator<Item = f64> + Clone) -> bool {
    let pairs = || figures.clone().zip(figures.clone().skip(1));
    pairs().all(|(one, other)| one <= other) || pairs().all(|(one, other)| one >= other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        evidence::{EvidenceIndex, ToolResult},
        language::lexicon::{language, words},
        plain::AnalyzedPassage,
    };

    #[test]
    fn figures_out_of_order() {
        let usage = "Jan 412\nFeb 368\nMar 301\nDec 397";
        let grounds = EvidenceIndex::new(vec![ToolResult::new("get_usage", "{}", usage)], Vec::new(), "".into());
        let check = |list: &mut OrderedList, text: &str, kind: Kind| {
            let plain = AnalyzedPassage::of(text);
            let (lexicon, sources) = (language(&words(text), None), grounds.results.iter().collect());
            let bond = CitationScope::Introduced;
            let scene = CheckContext::new(&plain, kind, lexicon, sources, bond, &grounds);
            list.take(&scene).or_else(|| order(&scene)).is_some()
        };
        let mut list = OrderedList::default();
        for (text, wrong) in [
            ("From highest to lowest: December 397, January 412, February 368.", true),
            ("From highest to lowest: January 412, December 397, February 368.", false),
            ("December 397, January 412, February 368.", false),
        ] {
            assert_eq!(check(&mut list, text, Kind::Sentence), wrong, "{text}");
        }
        list.begin("Ordenadas de mayor a menor:".to_owned());
        let items = ["1. C2: 25,6", "2. C3: 23,9", "3. C1: 24,8", "4. E3: 17,5"];
        let found: Vec<bool> = items.iter().map(|item| check(&mut list, item, Kind::Line)).collect();
        assert_eq!(found, [false, false, true, false]);
    }
}
