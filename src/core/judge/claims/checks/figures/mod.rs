//! What a passage says of its own figures, reckoned again: changes, conversions, lists that were counted. Pure.
//!
//! Each check compares figures that stand beside each other, so what it finds is wrong whatever the rest of the result says.

pub mod changes;
pub mod conversions;
pub mod units;

use crate::judge::claims::context::{CheckContext, CitationScope, ClaimFinding};

/// The findings of a passage about its own figures.
pub fn figures(scene: &CheckContext<'_>) -> Vec<ClaimFinding> {
    if scene.bond < CitationScope::Introduced || scene.plain.asks() {
        return Vec::new();
    }
    [changes::change(scene), conversions::conversion(scene), units::unit_of_another_column(scene)].into_iter().flatten().collect()
}
