//! What may follow a number: percent signs, magnitudes, ordinal endings, units with their conversions. Pure.
//!
//! The table is data (`units.toml`); a unit's names may be in any language.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    sync::OnceLock,
};

use foldhash::fast::FixedState;
use serde::Deserialize;

use super::{
    fold::{key, lower},
    word_list::data_file,
};

/// A unit of measure.
#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Unit {
    /// Spellings; names with an upper-case letter count only so.
    pub names: Vec<String>,
    /// Dimension: only units of one dimension convert.
    pub dimension: String,
    /// One of it in the dimension's base unit.
    pub factor: f64,
    /// Zero of it in the base unit.
    #[serde(default)]
    pub offset: f64,
}

/// Dimensions of money.
const MONEY: [&str; 10] = ["euro", "dollar", "sterling", "franc", "yen", "yuan", "rupee", "lira", "zloty", "won"];

/// Is it a currency's sign, as it stands before an amount?
pub fn is_currency_sign(c: char) -> bool {
    matches!(c, '€' | '$' | '£' | '¥' | '₹' | '₺')
}

impl Unit {
    /// Is it a currency?
    pub fn is_money(&self) -> bool {
        MONEY.contains(&self.dimension.as_str())
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Magnitude {
    names: Vec<String>,
    factor: f64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct UnitTable {
    percent: Vec<String>,
    ordinals: Vec<String>,
    magnitude: Vec<Magnitude>,
    unit: Vec<Unit>,
}

/// Unit or magnitude behind a number.
#[derive(Clone, Copy, Debug)]
pub struct NumberSuffix {
    /// Bytes of it, blanks before it included.
    pub length: usize,
    /// Factor of the number.
    pub scale: f64,
    /// Percent.
    pub percent: bool,
    /// The number says a place in an order.
    pub ordinal: bool,
    /// The unit.
    pub unit: Option<&'static Unit>,
}

impl Default for NumberSuffix {
    fn default() -> Self {
        Self { length: 0, scale: 1.0, percent: false, ordinal: false, unit: None }
    }
}

/// Words of the longest name: `miles per hour`.
const WORDS_MAX: usize = 3;
/// Bytes of the longest name.
const NAME_BYTES_MAX: usize = 32;

/// The unit of this name or sign.
pub fn named(word: &str) -> Option<&'static Unit> {
    let window = word.get(..word.floor_char_boundary(NAME_BYTES_MAX)).unwrap_or(word);
    suffix_behind(window.trim_start_matches(BLANKS), 1)?.unit
}

/// Bytes of a unit's name that stands anywhere in a key, not at one of its ends.
const INNER_NAME_BYTES: usize = 4;
/// Bytes of a unit's name that a key ends with: a letter says too little.
const LAST_NAME_BYTES: usize = 2;

/// Does a key name a unit of time: `appealperioddays`, `garantiejaar`, `停留天数`?
pub fn is_key_of_time(own: &str) -> bool {
    static NAMES: OnceLock<Vec<String>> = OnceLock::new();
    let names = NAMES.get_or_init(|| {
        let of_time = table().unit.iter().filter(|unit| unit.dimension == "time");
        of_time.flat_map(|unit| &unit.names).map(|name| key(name)).filter(|name| name.len() >= LAST_NAME_BYTES).collect()
    });
    let inner = |name: &str| (name.len() >= INNER_NAME_BYTES || !name.is_ascii()) && own.contains(name);
    names.iter().any(|name| own.ends_with(name.as_str()) || inner(name))
}

/// Marks between a number and its unit.
const BLANKS: [char; 4] = [' ', '\u{a0}', '\u{202f}', '-'];

/// What `rest`, the text right behind a number, begins with; `None` where that is neither unit nor magnitude.
pub fn suffix(rest: &str) -> Option<NumberSuffix> {
    let window = rest.get(..rest.floor_char_boundary(NAME_BYTES_MAX)).unwrap_or(rest);
    let body = window.trim_start_matches(BLANKS);
    let blanks = window.len() - body.len();
    if blanks > 3 { None } else { suffix_behind(body, blanks) }
}

/// The unit or magnitude that `body` begins with, so many bytes behind a number.
fn suffix_behind(body: &str, blanks: usize) -> Option<NumberSuffix> {
    let names = names();
    let (meaning, length) = longest(names, body)?;
    let mut suffix = NumberSuffix { length: blanks + length, ..NumberSuffix::default() };
    match meaning {
        SuffixMeaning::Percent => suffix.percent = true,
        SuffixMeaning::Ordinal if blanks == 0 => suffix.ordinal = true,
        SuffixMeaning::Ordinal => return None,
        SuffixMeaning::Unit(unit) => suffix.unit = Some(unit),
        SuffixMeaning::Magnitude(factor) => {
            suffix.scale = factor;
            // `1.2 million km`, `3 Mio. €`
            let further = body.get(length..).unwrap_or_default();
            let gap = further.len() - further.trim_start_matches(['.', ' ', '\u{a0}']).len();
            if let Some((SuffixMeaning::Unit(unit), more)) = further.get(gap..).and_then(|body| longest(names, body)) {
                suffix.unit = Some(unit);
                suffix.length += gap + more;
            }
        }
    }
    Some(suffix)
}

/// Every unit of this one's dimension.
pub fn siblings(unit: &Unit) -> impl Iterator<Item = &'static Unit> {
    let dimension = unit.dimension.clone();
    table().unit.iter().filter(move |other| other.dimension == dimension)
}

#[derive(Clone, Copy, Debug)]
enum SuffixMeaning {
    Percent,
    Ordinal,
    Magnitude(f64),
    Unit(&'static Unit),
}

/// Meanings of names, and the first words of names of several words.
#[derive(Default)]
struct UnitNames {
    known: HashMap<&'static str, SuffixMeaning, FixedState>,
    heads: HashSet<String, FixedState>,
}

/// Is it a letter of a script whose words stand without blanks?
pub fn is_spaceless(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}')
}

/// The longest name that `body` begins with and that ends with a word.
fn longest(names: &UnitNames, body: &str) -> Option<(SuffixMeaning, usize)> {
    let mut found = None;
    let (mut words, mut begun) = (0, false);
    let mut before = ' ';
    let ends = body.char_indices().map(|(at, c)| (at, Some(c))).chain([(body.len(), None)]);
    for (at, c) in ends {
        let inside = c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        if at > 0 && (!(inside && before.is_alphanumeric()) || is_spaceless(before) || at > 1 && c.is_some_and(is_spaceless)) {
            let name = body.get(..at).unwrap_or_default();
            let folded = lower(name);
            let changed = matches!(folded, Cow::Owned(_));
            let in_any_case = || names.known.get(&*folded).filter(|_| changed && name.chars().count() > 1);
            let known = names.known.get(name).or_else(in_any_case);
            found = known.map(|meaning| (*meaning, at)).or(found);
            // Most words begin no name of several.
            let first = !std::mem::replace(&mut begun, true) && before.is_alphanumeric();
            if first && !names.heads.contains(name) && !(changed && names.heads.contains(&*folded)) {
                break;
            }
        }
        match c {
            Some(' ') => {
                words += 1;
                if words >= WORDS_MAX {
                    break;
                }
            }
            Some('\n') | None => break,
            Some(_) => {}
        }
        before = c.unwrap_or(' ');
    }
    found
}

fn table() -> &'static UnitTable {
    static TABLE: OnceLock<UnitTable> = OnceLock::new();
    TABLE.get_or_init(|| data_file(include_str!("units.toml")))
}

fn names() -> &'static UnitNames {
    static NAMES: OnceLock<UnitNames> = OnceLock::new();
    NAMES.get_or_init(|| {
        let (table, mut names) = (table(), UnitNames::default());
        let known = &mut names.known;
        known.extend(table.percent.iter().map(|name| (name.as_str(), SuffixMeaning::Percent)));
        known.extend(table.ordinals.iter().map(|name| (name.as_str(), SuffixMeaning::Ordinal)));
        for magnitude in &table.magnitude {
            known.extend(magnitude.names.iter().map(|name| (name.as_str(), SuffixMeaning::Magnitude(magnitude.factor))));
        }
        for unit in &table.unit {
            known.extend(unit.names.iter().map(|name| (name.as_str(), SuffixMeaning::Unit(unit))));
        }
        let head = |name: &str| name.find(|c: char| !c.is_alphanumeric()).and_then(|end| Some(name.get(..end)?.to_owned()));
        names.heads = names.known.keys().filter_map(|name| head(name)).collect();
        let parts =
            |name: &&'static str| name.char_indices().skip(1).filter_map(|(at, _)| name.get(..at)).map(str::to_owned).collect::<Vec<_>>();
        let spaceless: Vec<String> = names.known.keys().filter(|name| name.chars().all(is_spaceless)).flat_map(parts).collect();
        names.heads.extend(spaceless);
        names
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_whole() {
        assert!(table().unit.len() > 40 && table().magnitude.len() > 3);
        assert!(MONEY.iter().all(|money| table().unit.iter().any(|unit| unit.dimension == *money)));
        for unit in &table().unit {
            assert!(unit.factor > 0.0 && !unit.names.is_empty(), "{unit:?}");
        }
    }

    #[test]
    fn suffixes() {
        for (rest, dimension, scale) in [
            (" km away", Some("length"), 1.0),
            ("°C", Some("temperature"), 1.0),
            (" miles per hour", Some("speed"), 1.0),
            (" million dollars", Some("dollar"), 1e6),
            (" Mbit/s.", Some("rate"), 1.0),
        ] {
            let suffix = suffix(rest).unwrap();
            assert_eq!((suffix.unit.map(|unit| &*unit.dimension), suffix.scale), (dimension, scale), "{rest}");
        }
        assert!(suffix(" players").is_none() && suffix("D").is_none() && suffix(" minimal").is_none());
    }
}
