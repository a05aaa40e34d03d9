//! Does a passage claim that something went well? Pure.

use super::values;
use crate::judge::claims::{context::CheckContext, language::lexicon};

/// Does it report what a failed execution can't have given?
pub fn claims_success(scene: &CheckContext<'_>) -> bool {
    says_success(&scene.text().to_lowercase())
        || scene.plain.words.iter().any(|word| scene.lexicon.verb(&word.lower).is_some_and(|verb| verb.means != "read"))
        || !values::values(scene).is_empty()
}

/// Does it say so in any language? `lower`: in lower case.
pub fn says_success(lower: &str) -> bool {
    lexicon::all().iter().flat_map(|lexicon| &lexicon.successes).any(|part| lower.contains(part.as_str()))
}
