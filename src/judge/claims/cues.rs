//! Words that show how a passage means its numbers: that it reckons, that something is the most of its kind. Data. Pure.

use std::sync::OnceLock;

use figment::{
    Figment,
    providers::{Format as _, Toml},
};
use serde::Deserialize;

use super::{lexicon::Words, plain::Plain};

/// The words of `lexicon/reckon.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Cues {
    reckons: Words,
    extremes: Words,
}

fn cues() -> &'static Cues {
    static ALL: OnceLock<Cues> = OnceLock::new();
    ALL.get_or_init(|| Figment::from(Toml::string(include_str!("lexicon/reckon.toml"))).extract().unwrap_or_default())
}

/// Does the passage show that it reckons? Scripts without blanks show it by no word: it is taken for granted.
pub fn reckons(plain: &Plain) -> bool {
    let sign = plain.text.contains(['=', '×', '÷', '≈', '~', '%', '+', '|']) || plain.text.contains(" x ") || plain.text.contains(" * ");
    let spaceless = plain.text.chars().any(|c| matches!(c, '\u{3040}'..='\u{9fff}' | '\u{0900}'..='\u{097f}' | '\u{ac00}'..='\u{d7af}'));
    sign || spaceless || plain.words.iter().any(|word| cues().reckons.contains(&word.lower))
}

/// Words of the passage that tell of an end of a scale, by their places.
pub fn extremes(plain: &Plain) -> impl Iterator<Item = &super::lexicon::Word> {
    plain.words.iter().filter(|word| cues().extremes.contains(&word.lower))
}
