//! How a change is told: `from 230 to 198`, `1450 → 1480`, `risen`. The words lie in `lexicon/changes.toml`. Pure.

use std::sync::OnceLock;

use serde::Deserialize;

use super::{
    fold::fold,
    number::Number,
    word_list::{FoldedParts, data_file},
};

/// Bytes between the two figures of a change.
const GAP_BYTES_MAX: usize = 48;

/// The words of `lexicon/changes.toml`, as they are written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenChangeWords {
    arrows: Vec<String>,
    behind: Vec<String>,
    rises: Vec<String>,
    falls: Vec<String>,
    apart: Vec<String>,
    places: Vec<String>,
    from: Vec<FromTo>,
}

/// The words before the two figures of a change.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct FromTo {
    before: String,
    between: Vec<String>,
}

/// The words of `lexicon/changes.toml`.
#[derive(Debug)]
struct ChangeWords {
    arrows: Vec<String>,
    behind: Vec<String>,
    rises: FoldedParts,
    falls: FoldedParts,
    apart: FoldedParts,
    places: FoldedParts,
    from: Vec<FromTo>,
}

fn data() -> &'static ChangeWords {
    static ALL: OnceLock<ChangeWords> = OnceLock::new();
    ALL.get_or_init(|| {
        let read: WrittenChangeWords = data_file(include_str!("lexicon/changes.toml"));
        let parts = |list: &[String]| FoldedParts::new(list, fold);
        let (rises, falls, apart, places) = (parts(&read.rises), parts(&read.falls), parts(&read.apart), parts(&read.places));
        ChangeWords { arrows: read.arrows, behind: read.behind, rises, falls, apart, places, from: read.from }
    })
}

/// The direction of a change.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Direction {
    /// It is more.
    Up,
    /// It is less.
    Down,
}

/// The direction that a part of the passage tells of, if it tells of one only.
pub fn direction_of(part: &str) -> Option<Direction> {
    let folded = fold(part);
    match (data().rises.stand_in(&folded), data().falls.stand_in(&folded)) {
        (true, false) => Some(Direction::Up),
        (false, true) => Some(Direction::Down),
        _ => None,
    }
}

/// True of a text that tells how far two figures lie apart, with or without a direction.
pub fn tells_distance(text: &str) -> bool {
    direction_of(text).is_some() || data().apart.stand_in(&fold(text))
}

/// True of a text that speaks of ranks, which rise where their number falls.
pub fn tells_places(text: &str) -> bool {
    data().places.stand_in(&fold(text))
}

/// `from 230 to 198`, `1450 → 1480`: is the first of these numbers what was, and the second what became of it?
pub fn is_from_to(text: &str, one: &Number, other: &Number) -> bool {
    let same = one.percent == other.percent && (one.unit == other.unit || one.unit.is_none() || other.unit.is_none());
    let Some(gap) = text.get(one.end..other.span.start).filter(|gap| same && gap.len() <= GAP_BYTES_MAX) else { return false };
    if gap.contains([';', '.', ':', '\n', '(', ')', '。', '，', '、']) {
        return false;
    }
    let gap = gap.to_lowercase();
    if data().arrows.iter().any(|arrow| gap.contains(arrow.as_str())) {
        return true;
    }
    let trimmed = gap.trim_start_matches(['\'', '’', ' ']);
    if data().behind.iter().any(|word| trimmed.strip_prefix(word.as_str()).is_some_and(|rest| !word.is_ascii() || rest.starts_with(' '))) {
        return true;
    }
    let before = text.get(..one.span.start).unwrap_or_default().trim_end_matches(|c: char| !c.is_alphanumeric());
    data().from.iter().any(|pair| {
        let begins = if pair.before.is_ascii() {
            let word = before.rsplit(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
            word.eq_ignore_ascii_case(&pair.before)
        } else {
            before.ends_with(pair.before.as_str())
        };
        begins
            && pair.between.iter().any(|word| {
                if pair.before.is_ascii() {
                    gap.split(|c: char| !c.is_alphanumeric()).any(|own| own == word)
                } else {
                    gap.contains(word.as_str())
                }
            })
    })
}

/// True of one of the two figures of a change: what was, or what became of it. `numbers`: those of the text, in order.
pub fn is_of_change(text: &str, numbers: &[Number], number: &Number) -> bool {
    let of_pair = |one: &Number, other: &Number| one.span == number.span || other.span == number.span;
    numbers.windows(2).any(|pair| matches!(pair, [one, other] if of_pair(one, other) && is_from_to(text, one, other)))
}
