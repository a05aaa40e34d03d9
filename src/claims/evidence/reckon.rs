//! What an answer may reckon: numbers and dates that two or three known ones make. Asked for only where a value stands nowhere. Pure.
//!
//! Known are the numbers of the cited results, of the question and the calls, of the answer so far as they were found right, and of
//! the passage as far as they stand by themselves. A chain of steps is allowed as each step makes the next one's number known.

use std::{cell::OnceCell, ops::RangeInclusive};

use crate::{
    context::{CheckContext, CitationScope},
    evidence::{self, EvidenceIndex, ToolResult, derive, equals, facts::NamedValue, fits},
    language::{
        cues::{self, Role},
        date::{self, Date},
        lexicon::{self, Word},
        number::{Interpretation, Number, Precision, is_within_digits, numbers},
        unit::{self, Unit},
        word_list::PhraseList,
    },
};

/// Numbers that are put together in pairs.
const OPERANDS_MAX: usize = 40;
/// Of those, numbers of one result.
const OF_RESULT: usize = 14;
/// Numbers of the answer so far.
const OF_ANSWER: usize = 14;
/// Of those, the first.
const FIRST_OF_ANSWER: usize = 3;
/// Numbers of a passage that are put together in threes.
const THREES_OF: usize = 9;
/// Numbers of the answer so far of which some may be added up.
const SUMMED_OF: usize = 8;
/// Bytes of a question in which amounts are looked for.
const ASKED_BYTES_MAX: usize = 2000;
/// Words for numbers of a question that are reckoned with.
const COUNTS_OF: usize = 4;
/// Numbers of a passage that are added up as so many of this and so many of that, and how many of one there are.
const TERMS_MIN: usize = 4;
const TERMS_MAX: usize = 8;
const COUNTS_MAX: f64 = 100.0;
/// Numbers of one passage for which that is done.
pub const RECKONED_MAX: usize = 24;
/// Times of day that are compared with one another.
const TIMES_OF: usize = 16;
/// Dates from which others are counted, and steps by which they are.
const DATES_OF: usize = 24;
const STEPS_OF: usize = 16;
/// Spans of time of one result that are such steps.
const STEPS_OF_RESULT: usize = 8;
/// Minutes of a day.
const DAY: u32 = 1440;
/// Seconds of a week.
const WEEK: f64 = 604_800.0;
/// Values of a result among which one names the day of a month.
const LEAVES_OF: usize = 200;
/// Percent of a tax or a discount, less than.
const PERCENT_MAX: f64 = 31.0;
/// Numbers of common knowledge: days of a week, months, hours, minutes, hundreds.
const CONSTANTS: [f64; 8] = [2.0, 7.0, 12.0, 24.0, 30.0, 52.0, 60.0, 365.0];

/// Results, and words of a passage, its question and its results, by which numbers of common knowledge are chosen.
const SOURCES_OF: usize = 3;
const WORDS_OF: usize = 200;

/// Days of a month, of two, of a quarter, of a year.
pub const DAYS: [f64; 12] = [28.0, 29.0, 31.0, 59.0, 61.0, 62.0, 89.0, 90.0, 91.0, 92.0, 365.0, 366.0];

/// Numbers that a passage may have reckoned with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reach {
    /// Its own, those of the question and of the answer so far.
    Passage,
    /// Those of the results besides.
    Results,
}

/// Numbers from which others are reckoned.
pub struct Operands<'s> {
    /// The passage.
    scene: &'s CheckContext<'s>,
    wide: Vec<f64>,
    near: Vec<f64>,
    told: Vec<f64>,
    /// The passage's numbers and words for numbers that stand, in their order.
    terms: Vec<f64>,
    /// The passage tells how much it is a day.
    daily: bool,
    /// Numbers of common knowledge that the passage, its question or its results speak of, once they are asked for.
    known: OnceCell<Vec<f64>>,
    /// Numbers that two of `wide` and the constants make, sorted, once they are asked for.
    pairs: OnceCell<Vec<f64>>,
}

impl<'s> Operands<'s> {
    /// Those of a passage. `own`: its numbers that stand by themselves.
    pub fn new(scene: &'s CheckContext<'s>, own: &[f64], reach: Reach) -> Self {
        let mut near: Vec<f64> = own.to_vec();
        let counts = scene.plain.words.iter().filter_map(|word| scene.lexicon.count(&word.lower));
        near.extend(counts.map(|count| count as f64));
        if !scene.text().is_ascii() {
            let said = lexicon::spaceless_counts(scene.text()).chain(lexicon::spaceless_counts(&scene.grounds.asked));
            near.extend(said.map(|count| count as f64));
        }
        // `We are three.`
        let asked = scene.grounds.asked.words().iter().filter_map(|word| scene.lexicon.count(&word.lower));
        near.extend(asked.filter(|count| *count > 1).take(COUNTS_OF).map(|count| count as f64));
        let asked = scene.grounds.asked.numbers();
        near.extend(asked.iter().flat_map(Number::readings).map(|reading| reading.value));
        near.extend(pence(&scene.grounds.asked));
        let mut wide = near.clone();
        wide.extend(scene.told.iter().rev().take(OF_ANSWER));
        // Those that an answer begins with are often totals.
        wide.extend(scene.told.iter().take(FIRST_OF_ANSWER));
        for source in scene.sources.iter().take(SOURCES_OF) {
            let facts = source.facts();
            // So many of one result, less those that another one lists.
            let lists = facts.lists.iter().filter(|list| list.depth == 0 && list.length > 1 && scene.sources.len() > 1);
            wide.extend(lists.map(|list| list.length as f64).take(2));
            if reach == Reach::Passage {
                continue;
            }
            wide.extend(facts.columns().values().take(4).map(|column| column.iter().sum::<f64>()));
            wide.extend(facts.numbers.iter().filter(|number| **number > 0.0).take(OF_RESULT));
        }
        wide.extend(scene.grounds.said_numbers().iter().rev().take(6));
        near.extend(scene.told.iter().rev().take(4));
        near.truncate(THREES_OF);
        let told = scene.told.iter().rev().take(SUMMED_OF).copied().collect();
        Self {
            scene,
            wide: once(wide, OPERANDS_MAX),
            near: once(near, THREES_OF),
            told,
            terms: terms(scene, own),
            daily: says_daily(scene),
            known: OnceCell::new(),
            pairs: OnceCell::new(),
        }
    }

    /// Do two or three of them make this number?
    pub fn make(&self, number: &Number, precision: Precision, role: Role) -> bool {
        // Of what is written exactly, nothing but its last digit was rounded.
        let share = if precision.is_approximate() {
            0.02
        } else if number.whole().is_some_and(|whole| whole % 10 == 0) {
            0.004
        } else {
            0.0
        };
        let fits = |made: f64| number.readings().any(|shown| shown.rounds(made) || share > 0.0 && shown.nears(made, share));
        let is = |made: f64| {
            let made = made.abs();
            // In metres of what the result has in centimetres.
            let centi = || number.unit.is_some_and(|unit| unit.dimension == "length" && unit.factor == 1.0) && fits(made / 100.0);
            fits(made)
                || number.percent && fits(made * 100.0)
                || number.unit.is_some() && (fits(made * 1000.0) || fits(made / 1000.0) || centi())
        };
        let whole = number.whole().is_some();
        // 750 g of 1 kg.
        let scaled = || self.known().contains(&1000.0);
        let of_constant = || {
            self.wide.iter().any(|one| {
                CONSTANTS.iter().any(|constant| is(one * constant) || is(one / constant) || role == Role::Any && is(constant / one))
            })
        };
        // Two figures of the results that the passage doesn't name are compared, not put together.
        let is_told = |value: &f64| self.near.contains(value) || self.told.contains(value);
        let pairs = || {
            self.wide.iter().enumerate().any(|(at, one)| {
                self.wide.iter().skip(at + 1).any(|other| {
                    let share = || shares_of(*one, *other).into_iter().any(&is);
                    let mean = || is((one + other) / 2.0) || is(one / other) || is(other / one);
                    match role {
                        Role::Share => {
                            share()
                                || shares_of(*one, *other).into_iter().any(|made| is(made / 1000.0)) && scaled()
                                || mean()
                                || is(one + other)
                                || is(one - other)
                        }
                        Role::Average => mean() || is(one - other),
                        Role::Total => {
                            // With a tax, less a discount.
                            let with_percent = |number: f64, percent: f64| {
                                let told = percent < PERCENT_MAX && percent.fract() == 0.0 && is_told(&number);
                                told && derive::with_percent(number, percent).into_iter().any(&is)
                            };
                            is(one + other)
                                || is(one * other)
                                || is(one - other)
                                || is(one * other / 100.0)
                                || with_percent(*one, *other)
                                || with_percent(*other, *one)
                        }
                        Role::Any if is_told(one) || is_told(other) => {
                            let per_million = || is(one * other / MILLION) && self.millions();
                            made_of(*one, *other, whole).into_iter().any(&is) || share() || per_million()
                        }
                        Role::Any => is(one - other) || is(one / other) || is(other / one),
                    }
                })
            })
        };
        // So much a day, of a month or two.
        let daily = || self.daily && role == Role::Average && self.wide.iter().any(|one| DAYS.iter().any(|days| is(one / days)));
        let rate = || role == Role::Average && self.rates(is);
        of_constant()
            || pairs()
            || daily()
            || rate()
            || role != Role::Average && self.threes(is)
            || role != Role::Average && self.is_sum_of_products(number)
            || (role == Role::Total || role == Role::Any && is_long(number)) && self.is_sum_of_told(is)
    }

    /// The question, or the passage, speaks of millions: prices are told of so many.
    fn millions(&self) -> bool {
        let says = |word: &Word| {
            matches!(
                word.lower.as_str(),
                "million"
                    | "millions"
                    | "millionen"
                    | "millón"
                    | "millones"
                    | "milione"
                    | "milioni"
                    | "milhão"
                    | "milhões"
                    | "miljoen"
                    | "milyon"
                    | "1m"
            )
        };
        self.scene.grounds.asked.words().iter().chain(&self.scene.plain.words).any(says)
    }

    fn known(&self) -> &[f64] {
        self.known.get_or_init(|| constants(self.scene))
    }

    /// True if two of them make this number with one of common knowledge: two prices a month, in a year.
    pub fn make_with_constant(&self, number: &Number) -> bool {
        let constants = || self.known().iter().copied();
        let made = self.pairs.get_or_init(|| {
            let single: Vec<f64> = self.near.iter().chain(&self.told).copied().collect();
            let of = |one: f64, other: f64| [one + other, (one - other).abs(), one * other, one / other, other / one];
            let others = || self.wide.iter().copied().chain(constants());
            let mut made: Vec<f64> = single.iter().flat_map(|one| others().flat_map(|other| of(*one, other))).collect();
            made.extend(single);
            made.sort_by(f64::total_cmp);
            made
        });
        let has = |value: f64, slack: f64| {
            let from = made.partition_point(|own| *own < value - slack);
            made.get(from).is_some_and(|own| *own <= value + slack)
        };
        let scales = if number.percent { &[0.01, 1.0][..] } else { &[1.0] };
        number.readings().any(|shown| {
            scales.iter().any(|scale| {
                let (value, half) = (shown.value * scale, shown.step * scale / 2.0);
                let steps = |own: f64| {
                    has(value - own, half)
                        || has(value + own, half)
                        || has(own - value, half)
                        || has(value / own, half / own)
                        || has(value * own, half * own)
                };
                constants().any(steps)
            })
        })
    }

    /// The total of a table: a sum of some of the numbers that were told before it.
    fn is_sum_of_told(&self, is: impl Fn(f64) -> bool) -> bool {
        derive::sums_of_some(&self.told).any(|(count, sum)| count > 2 && is(sum))
    }

    /// So many of one price and so many of another: `two adults at 95, a child at 48, two bicycles at 40` come to 318.
    fn is_sum_of_products(&self, number: &Number) -> bool {
        let terms = self.terms.as_slice();
        if !(TERMS_MIN..=TERMS_MAX).contains(&terms.len()) {
            return false;
        }
        // Each number is a term of its own, or counts the one behind it: a flag for each two neighbours.
        (0..1_u32 << (terms.len() - 1)).any(|joins| {
            let (mut sum, mut at) = (0.0, 0);
            while let Some(one) = terms.get(at) {
                let counts = joins & (1 << at) != 0;
                match terms.get(at + 1).filter(|_| counts && one.fract() == 0.0 && *one <= COUNTS_MAX) {
                    Some(price) => {
                        sum += one * price;
                        at += 2;
                    }
                    None => {
                        sum += one;
                        at += 1;
                    }
                }
            }
            joins != 0 && number.readings().any(|shown| shown.rounds(sum))
        })
    }

    /// So much of one number for so much of another: litres for 100 km, of all litres and all kilometres.
    fn rates(&self, is: impl Fn(f64) -> bool) -> bool {
        let all = &self.near;
        let other = |at: usize| all.iter().enumerate().filter(move |(own, _)| *own != at).map(|(_, number)| *number);
        all.iter().enumerate().any(|(at, of)| other(at).any(|one| other(at).any(|two| one != two && is(one * two / of))))
    }

    fn threes(&self, is: impl Fn(f64) -> bool) -> bool {
        let all = &self.near;
        all.iter().enumerate().any(|(first, one)| {
            all.iter().enumerate().skip(first + 1).any(|(second, two)| {
                all.iter().skip(second + 1).any(|three| {
                    is(one * two * three)
                        || is(one + two + three)
                        || [(one, two, three), (two, one, three), (three, one, two)].into_iter().any(|(one, two, three)| {
                            is(one - two - three) || is(one * two / three) || is((one + two) * three) || is(one - two * three)
                        })
                })
            })
        })
    }
}

/// Units of its last digit from which on a number is rarely a sum of some others by chance.
const LONG_FROM: f64 = 10_000.0;

fn is_long(number: &Number) -> bool {
    number.readings().any(|reading| reading.value / reading.step >= LONG_FROM)
}

/// The passage's words for numbers and its numbers that stand, `own`, in their order.
fn terms(scene: &CheckContext<'_>, own: &[f64]) -> Vec<f64> {
    let plain = scene.plain;
    let counts = plain.words.iter().filter_map(|word| Some((word.start, scene.lexicon.count(&word.lower)? as f64)));
    // `one way` counts nothing.
    let words = counts.filter(|(_, count)| *count > 1.0);
    let numbers = plain.numbers().iter().filter_map(|number| Some((number.span.start, number.readings().next()?.value)));
    let mut found: Vec<(usize, f64)> = words.chain(numbers.filter(|(_, value)| own.contains(value))).collect();
    found.sort_by_key(|(at, _)| *at);
    found.dedup_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, value)| value).take(TERMS_MAX + 1).collect()
}

/// Numbers of common knowledge that a passage may put between two others: those of time where it, its question or its results speak of spans
/// of time, a hundred where one of them speaks of percent, a thousand where one has a unit that goes by thousands.
fn constants(scene: &CheckContext<'_>) -> Vec<f64> {
    let asked = &scene.grounds.asked;
    let sources = || scene.sources.iter().take(SOURCES_OF).copied();
    let words = scene.plain.words.iter().chain(asked.words()).take(WORDS_OF).filter_map(|word| unit::named(&word.lower));
    let numbers = scene.plain.numbers().iter().chain(asked.numbers()).take(WORDS_OF).filter_map(|number| number.unit);
    let keys = sources().flat_map(|source| source.facts().keys().iter().take(WORDS_OF));
    let of_keys = keys.clone().filter_map(|key| unit::named(key));
    let units: Vec<&Unit> = words.chain(numbers).chain(of_keys).collect();
    let spans = |source: &ToolResult| source.facts().dates.times.len() + source.facts().dates.dates.len() > 1;
    let of_time =
        units.iter().any(|unit| unit.dimension == "time") || keys.clone().any(|key| unit::is_key_of_time(key)) || sources().any(spans);
    // All but the two are of time.
    let mut found = if of_time { CONSTANTS.to_vec() } else { vec![2.0] };
    let sign = |text: &str| text.contains(['%', '％']);
    const SHARES: [&str; 3] = ["percent", "pct", "rate"];
    let of_shares =
        |source: &ToolResult| sign(&source.text) || source.facts().keys().iter().any(|key| SHARES.iter().any(|share| key.contains(share)));
    if sign(scene.text()) || sign(asked) || sources().any(of_shares) {
        found.push(100.0);
    }
    if units.iter().any(|unit| !matches!(unit.dimension.as_str(), "time" | "temperature") && !unit.is_money()) {
        found.push(1000.0);
    }
    found
}

/// True of a passage that reports what its results say, to a user who brought no figures. What it reckons takes one step or two, and no
/// numbers of common knowledge but those that it names.
pub fn is_plain_report(scene: &CheckContext<'_>) -> bool {
    let asked = &scene.grounds.asked;
    let counts = || asked.words().iter().any(|word| scene.lexicon.count(&word.lower).is_some_and(|count| count > 1));
    scene.bond >= CitationScope::Introduced && asked.numbers().is_empty() && !counts() && !spans_time(scene)
}

/// True of results with times of day, or of days, of which spans are reckoned: so much a day from the third to the seventh.
fn spans_time(scene: &CheckContext<'_>) -> bool {
    let dates = || scene.sources.iter().map(|source| &source.facts().dates);
    static WEEKS: PhraseList =
        PhraseList::new(&["week", "woche", "semaine", "semana", "settimana", "weken", "tydzien", "tygodn", "hafta", "週", "周", "हफ़्त"]);
    let days = || dates().map(|dates| dates.dates.len()).sum::<usize>() > 1 && (says_daily(scene) || WEEKS.stands_in(scene.plain.folded()));
    dates().map(|dates| dates.times.len()).sum::<usize>() > 1 || days()
}

/// Does the passage tell how much of something a day is?
pub fn says_daily(scene: &CheckContext<'_>) -> bool {
    static DAILY: PhraseList = PhraseList::new(&[
        "a day",
        "per day",
        "daily",
        "each day",
        "am tag",
        "pro tag",
        "taglich",
        "par jour",
        "al dia",
        "por dia",
        "diari",
        "al giorno",
        "ao dia",
        "per dag",
        "dziennie",
        "na dzien",
        "gunde",
        "gunluk",
        "om dagen",
        "1日",
        "毎日",
        "一日",
        "每天",
        "每日",
        "प्रतिदिन",
        "रोज",
        "하루",
    ]);
    DAILY.stands_in(scene.plain.folded())
}

/// Amounts in pence or cents, and numbers of times, as they are written for short: `45p`, `30c`, `2x`.
fn pence(text: &str) -> impl Iterator<Item = f64> {
    let words = text.get(..text.floor_char_boundary(ASKED_BYTES_MAX)).unwrap_or(text).split(|c: char| !c.is_ascii_alphanumeric());
    words.filter_map(|word| word.strip_suffix(['p', 'c', 'x'])?.parse::<u32>().ok()).map(f64::from)
}

fn once(mut values: Vec<f64>, most: usize) -> Vec<f64> {
    let mut found: Vec<f64> = Vec::with_capacity(most);
    values.retain(|value| value.is_finite() && *value != 0.0);
    for value in values {
        if found.len() < most && !found.contains(&value.abs()) {
            found.push(value.abs());
        }
    }
    found
}

/// Numbers derived from two: sum, difference, product, ratios, shares, one with a share more or less.
fn made_of(one: f64, other: f64, whole: bool) -> impl IntoIterator<Item = f64> {
    let (least, most) = if one < other { (one, other) } else { (other, one) };
    let share = |number: f64, percent: f64| {
        if percent < 100.0 { [number * (1.0 + percent / 100.0), number * (1.0 - percent / 100.0)] } else { [0.0; 2] }
    };
    let [more, less] = share(most, least);
    let [more_of_least, less_of_least] = share(least, most);
    [
        one + other,
        one - other,
        one * other,
        one / other,
        other / one,
        one * other / 100.0,
        more,
        less,
        more_of_least,
        less_of_least,
        most / (1.0 + least / 100.0),
        least / (1.0 + most / 100.0),
        (one + other) / 2.0,
        if whole { (most / least).floor() } else { 0.0 },
        if whole { (most / least).ceil() } else { 0.0 },
        if whole && most.fract() == 0.0 && least.fract() == 0.0 { most % least } else { 0.0 },
    ]
}

/// Percentages derived from two numbers.
fn shares_of(one: f64, other: f64) -> [f64; 4] {
    [one / other * 100.0, other / one * 100.0, (one - other) / other * 100.0, (other - one) / one * 100.0]
}

/// Figures without a mark between them from which on a number without a unit is one of a telephone or an order.
const NAME_FIGURES: usize = 7;

/// May it be reckoned from others at all? A temperature is none of them more or less, and a number that names something is of none.
pub fn may_be(scene: &CheckContext<'_>, number: &Number) -> bool {
    let figures = scene.text().get(number.span.clone()).unwrap_or_default();
    let plain = number.unit.is_none() && !number.scaled && figures.bytes().all(|byte| byte.is_ascii_digit());
    let names = plain && figures.len() > 1 && (figures.len() >= NAME_FIGURES || figures.starts_with('0'));
    !names && number.unit.is_none_or(|unit| unit.dimension != "temperature")
}

/// A price may be told of so many.
const MILLION: f64 = 1e6;

/// Kelvin of 0 °C.
const KELVIN: f64 = 273.15;

/// Is it a temperature of the result in kelvin: `294.65 K` of 21.5 °C? The sign is that of thousands, too.
pub fn is_kelvin(scene: &CheckContext<'_>, number: &Number) -> bool {
    let sign = number.scaled && scene.text().get(number.span.end..number.end).is_some_and(|sign| sign.trim() == "K");
    let celsius = |leaf: &&NamedValue| leaf.key.contains("temp") || leaf.key.contains("celsius");
    let is = |value: f64| {
        number.readings().any(|shown| Interpretation { value: shown.value / 1000.0, step: shown.step / 1000.0 }.rounds(value + KELVIN))
    };
    sign && scene.sources.iter().any(|source| source.facts().leaves.iter().filter(celsius).filter_map(|leaf| leaf.value.number()).any(is))
}

/// Is it by how much two temperatures of its passage differ, one of which may lie below zero?
pub fn is_temperature_apart(scene: &CheckContext<'_>, number: &Number) -> bool {
    let of = |number: &Number| number.unit.filter(|unit| unit.dimension == "temperature");
    let Some(unit) = of(number) else { return false };
    // `63 °F (35 °C) warmer`: what lies between two, in the other unit, which has no zero to be moved.
    let beside = scene.plain.numbers().iter().rfind(|other| other.end <= number.span.start);
    let converted = beside.filter(|other| of(other).is_some_and(|own| own != unit)).is_some_and(|other| {
        let gap = scene.text().get(other.end..number.span.start).unwrap_or_default();
        let factor = of(other).map_or(0.0, |own| own.factor / unit.factor);
        let is = |shown: Interpretation| other.readings().any(|base| shown.rounds(base.value * factor));
        gap.trim_matches([' ', '(', '/', '=', '≈', '\u{a0}']).is_empty() && number.readings().any(is)
    });
    if converted {
        return true;
    }
    // Only those that stand make another one stand.
    let others = scene.plain.numbers().iter().filter(|other| other.span != number.span && of(other).is_none_or(|own| own == unit));
    let results = || scene.sources.iter().copied().chain(scene.grounds.results.iter().filter(|other| other.recent).take(RESULTS_OF));
    let stands = |other: &&Number| results().any(|source| fits(other, Precision::Exact, &source.facts().numbers));
    let others = others.filter(stands);
    // One of them may have been told before, or asked for.
    let asked = scene.grounds.asked.numbers().iter().flat_map(Number::readings).map(|reading| reading.value).take(TEMPERATURES_OF);
    let told = scene.told.iter().rev().take(TEMPERATURES_OF).copied();
    let own = others.flat_map(Number::readings).map(|reading| reading.value).take(THREES_OF);
    let values: Vec<f64> = own.chain(asked).chain(told).collect();
    let is = |value: f64| number.readings().any(|shown| shown.rounds(value.abs()));
    values.iter().enumerate().any(|(at, one)| values.iter().skip(at + 1).any(|other| is(one - other) || is(one + other)))
}

/// Results of the turn in which a temperature may stand.
const RESULTS_OF: usize = 4;
/// Temperatures of the question and of the answer so far that are compared.
const TEMPERATURES_OF: usize = 4;

/// Numbers of a sum that a passage shows.
const SHOWN_MAX: usize = 12;

/// Is it what the sum that the passage shows comes to: `2,400 + 110 × 38 = 6,580`?
pub fn is_shown_result(scene: &CheckContext<'_>, number: &Number) -> bool {
    let numbers = scene.plain.numbers();
    let Some(at) = numbers.iter().position(|other| other.span == number.span) else { return false };
    if !matches!(sign_before(scene, at), "=" | "≈") {
        return false;
    }
    // From the first operand on.
    let joins = |at: &usize| matches!(sign_before(scene, *at), "×" | "x" | "·" | "/" | "÷" | "+" | "-" | "−" | "–");
    let operators = (1..at).rev().take(SHOWN_MAX).take_while(joins).count();
    let first = (at - 1).checked_sub(operators).filter(|_| (1..SHOWN_MAX).contains(&operators));
    let made = first.and_then(|first| shown_sum(scene, first..=at - 1));
    made.is_some_and(|made| number.readings().any(|shown| shown.rounds(made)))
}

/// The sign between the number at this place of the passage and the one before it; empty if there is none, or more than a sign.
pub fn sign_before<'s>(scene: &CheckContext<'s>, at: usize) -> &'s str {
    let beside = |c: char| matches!(c, ' ' | '\u{a0}' | '\u{202f}' | '*' | '(' | ')') || unit::is_currency_sign(c);
    let numbers = scene.plain.numbers();
    match (at.checked_sub(1).and_then(|before| numbers.get(before)), numbers.get(at)) {
        (Some(before), Some(own)) => match scene.text().get(before.end..own.span.start).unwrap_or_default().trim_matches(beside) {
            "plus" => "+",
            "minus" | "less" => "−",
            "times" | "mal" => "×",
            sign => word_of_sum(sign).unwrap_or(sign),
        },
        _ => "",
    }
}

/// Words between two numbers of which the last one adds or takes away: `14 book boxes plus 9 kitchen boxes`.
const SUM_WORDS: usize = 4;

fn word_of_sum(gap: &str) -> Option<&'static str> {
    let plain = gap.chars().all(|c| c.is_alphabetic() || c == ' ') && gap.split(' ').count() <= SUM_WORDS;
    match gap.rsplit(' ').next().filter(|_| plain) {
        Some("plus") => Some("+"),
        Some("minus") => Some("−"),
        _ => None,
    }
}

/// The value of these numbers of the passage by the signs between them, products within sums; brackets are passed over.
pub fn shown_sum(scene: &CheckContext<'_>, operands: RangeInclusive<usize>) -> Option<f64> {
    let value = |at: usize| {
        let number = scene.plain.numbers().get(at)?;
        let value = number.readings().next()?.value;
        Some(if number.percent { value / 100.0 } else { value })
    };
    let (mut sum, mut product) = (0.0, value(*operands.start())?);
    for at in operands.skip(1) {
        let operand = value(at)?;
        match sign_before(scene, at) {
            "+" => (sum, product) = (sum + product, operand),
            "-" | "−" | "–" => (sum, product) = (sum + product, -operand),
            "/" | "÷" => product /= operand,
            _ => product *= operand,
        }
    }
    Some(sum + product)
}

/// Does it stand beside a sign of multiplication: a figure of a formula, which the passage shows?
pub fn is_operand(scene: &CheckContext<'_>, number: &Number) -> bool {
    signs_beside(scene, number).any(|sign| matches!(sign, '×' | '÷'))
}

/// The characters before and behind a number, blanks left out.
fn signs_beside(scene: &CheckContext<'_>, number: &Number) -> impl Iterator<Item = char> {
    let behind = scene.text().get(number.end..).unwrap_or_default().trim_start().chars().next();
    scene.sign_before(number.span.start).into_iter().chain(behind)
}

/// Does it stand in a sum that the passage shows: one of `14 + 19 + 8.50 = 41.50`?
pub fn is_term(scene: &CheckContext<'_>, number: &Number) -> bool {
    scene.text().contains('=') && signs_beside(scene, number).any(|sign| matches!(sign, '+' | '−'))
}

/// For how many a result is, as its members say.
fn portions(source: &evidence::ToolResult) -> impl Iterator<Item = f64> {
    let leaves = source.facts().leaves.iter().take(LEAVES_OF);
    let own = leaves.filter(|leaf| leaf.record == 0 && PORTIONS.iter().any(|part| leaf.key.contains(part)));
    own.filter_map(|leaf| leaf.value.number()).filter(|value| *value >= 1.0).take(2)
}

/// Members of a result that say for how many it is.
const PORTIONS: &[&str] =
    &["serv", "portion", "person", "people", "yield", "guest", "batch", "kisi", "porsiyon", "osob", "porc", "人", "份", "人数", "लोग"];

/// Is it an amount of the result for another number of portions, which somebody named: 300 g for six is 200 g for four?
pub fn is_scaled(scene: &CheckContext<'_>, number: &Number, precision: Precision) -> bool {
    let asked: Vec<f64> = scene.grounds.asked.numbers().iter().flat_map(Number::readings).map(|reading| reading.value).take(4).collect();
    scene.sources.iter().any(|source| {
        portions(source).any(|portions| {
            asked.iter().filter(|asked| **asked > 0.0 && **asked != portions).any(|asked| {
                let ratio = asked / portions;
                let back = |reading: Interpretation| Interpretation { value: reading.value / ratio, step: reading.step / ratio };
                let readings = [number.readings().next().map(back), number.readings().nth(1).map(back)];
                fits(&Number { readings, ..number.clone() }, precision, &source.facts().numbers)
            })
        })
    })
}

/// Ratios of so many numbers of the question are looked at.
const FACTORS_OF: usize = 6;

/// Is it this value of a result for another amount, or with a share more or less, as the question names it: 375 g of 250 g
/// "for 12 instead of 8", 23,000 of 18,400 "if the rent rises by 25 %", 0.84 TB of 840? What the answer says itself is no such amount.
pub fn is_rescaled(scene: &CheckContext<'_>, number: &Number, base: f64) -> bool {
    let of = |numbers: &[Number]| -> Vec<(f64, bool)> {
        let plain = numbers.iter().filter(|other| !other.ordinal);
        plain
            .filter_map(|other| Some((other.readings().next()?.value, other.percent)))
            .filter(|(value, _)| *value > 0.0)
            .take(FACTORS_OF)
            .collect()
    };
    let asked = of(scene.grounds.asked.numbers());
    // Of a unit a thousand times as large.
    let mut factors: Vec<f64> = vec![0.001, 1000.0];
    for (value, percent) in &asked {
        if *percent {
            factors.extend([value / 100.0, 1.0 + value / 100.0, 1.0 - value / 100.0]);
        } else if (2.0..=100.0).contains(value) && value.fract() == 0.0 {
            factors.push(*value);
        }
    }
    // `per_100g`, of 150 g.
    if scene.sources.iter().any(|source| source.text.contains("100g") || source.text.contains("100 g") || source.text.contains("100ml")) {
        factors.extend(asked.iter().map(|(value, _)| value / 100.0));
    }
    let said = scene.grounds.asked.words().iter().filter_map(|word| scene.lexicon.count(&word.lower)).map(|count| count as f64);
    let counts: Vec<f64> = asked.iter().map(|(value, _)| *value).chain(said.take(FACTORS_OF)).collect();
    // `Scale it to 9`, of what serves 6.
    let portions = scene.sources.iter().flat_map(|source| portions(source));
    factors.extend(portions.flat_map(|own| counts.iter().map(move |count| count / own).collect::<Vec<_>>()));
    factors.extend(counts.iter().flat_map(|one| counts.iter().filter(move |other| *other != one).map(move |other| one / other)));
    factors.into_iter().any(|factor| factor.is_finite() && factor > 0.0 && number.readings().any(|shown| shown.rounds(base * factor)))
}

/// A price of the user's from which multiples are hardly chance, and how often it is taken at most.
const PRICE_FROM: f64 = 20.0;
const COUNT_MAX: f64 = 366.0;

/// Is it an amount of money that a price of the results makes with a number that somebody named: three seats at 28?
pub fn is_price(scene: &CheckContext<'_>, number: &Number, precision: Precision) -> bool {
    let money = number.unit.is_some_and(Unit::is_money) || scene.sign_before(number.span.start).is_some_and(unit::is_currency_sign);
    if !(money || scene.grounds.asks_to_reckon() || cues::reckons(scene.plain)) {
        return false;
    }
    // What the user names as a price, so many times: how many it is, the answer may tell further on.
    let asked = &scene.grounds.asked;
    let priced = |price: &&Number| {
        let sign = asked.get(..price.span.start).unwrap_or_default().trim_end().chars().next_back();
        price.unit.is_some_and(Unit::is_money) || sign.is_some_and(unit::is_currency_sign)
    };
    let mut prices = asked.numbers().iter().filter(priced).flat_map(Number::readings).map(|reading| reading.value);
    let times = |price: f64| {
        let count = number.readings().next().map_or(0.0, |reading| reading.value / price);
        price >= PRICE_FROM && count.fract() == 0.0 && (2.0..=COUNT_MAX).contains(&count)
    };
    if prices.any(times) {
        return true;
    }
    if !money {
        return false;
    }
    // `€834 for the three nights`
    let told = scene.plain.words.iter().filter_map(|word| scene.lexicon.count(&word.lower)).map(|count| count as f64);
    let counts: Vec<f64> = told
        .chain(scene.grounds.said_numbers().iter().copied())
        .chain(scene.grounds.asked.numbers().iter().flat_map(Number::readings).map(|reading| reading.value))
        .filter(|count| (2.0..=100.0).contains(count) && count.fract() == 0.0)
        .take(12)
        .collect();
    let prices = scene.sources.iter().flat_map(|source| source.facts().numbers.iter().filter(|price| **price > 1.0).take(OF_RESULT * 2));
    let mut made: Vec<f64> = prices.flat_map(|price| counts.iter().map(move |count| price * count)).collect();
    made.sort_by(f64::total_cmp);
    fits(number, precision, &made)
}

/// Is it an amount of the results, shared out among as many as a list has or the call names: `€126 in all (42 a seat)`?
pub fn is_amount_each(scene: &CheckContext<'_>, number: &Number) -> bool {
    const EACH: [&str; 7] = ["a ", "an ", "per ", "each", "apiece", "pro ", "par "];
    let behind = scene.text().get(number.end..).unwrap_or_default().trim_start();
    if !EACH.iter().any(|each| behind.starts_with(each)) {
        return false;
    }
    scene.sources.iter().any(|source| {
        let named = source.arguments.matches(',').count() + 1;
        let lengths =
            source.facts().lists.iter().map(|list| list.length).chain([named]).filter(|length| (2..=SHARED_AMONG_MAX).contains(length));
        lengths.into_iter().any(|length| {
            let each = source.facts().numbers.iter().take(SHARED_AMOUNTS_MAX).map(|amount| amount / length as f64);
            let each: Vec<f64> = each.collect();
            equals(number, Precision::Exact, &each)
        })
    })
}

/// Is it a concentration by mass beside the same one by amount: `214 µmol/L is about 2.42 mg/dL`? What a mole weighs isn't known here.
pub fn is_other_concentration(scene: &CheckContext<'_>, number: &Number) -> bool {
    let behind = |number: &Number| scene.text().get(number.span.end..).unwrap_or_default().trim_start().to_lowercase();
    let by_amount =
        |number: &Number| ["mmol/l", "µmol/l", "μmol/l", "umol/l", "nmol/l", "pmol/l"].iter().any(|unit| behind(number).starts_with(unit));
    let by_mass =
        |number: &Number| ["mg/dl", "g/dl", "ng/ml", "µg/dl", "μg/dl", "ug/dl", "mg/l"].iter().any(|unit| behind(number).starts_with(unit));
    let others = || scene.plain.numbers().iter().filter(|other| other.span != number.span);
    by_mass(number) && others().any(by_amount) || by_amount(number) && others().any(by_mass)
}

/// Is it `6.88 of 8 TB`: has it the unit of the number that it is a part of?
pub fn shares_unit(scene: &CheckContext<'_>, number: &Number, precision: Precision) -> bool {
    const PARTS: [&str; 6] = ["of", "out of", "von", "de", "di", "van"];
    let next = scene.plain.numbers().iter().find(|other| other.span.start > number.end);
    let joined = next.and_then(|next| scene.text().get(number.end..next.span.start)).is_some_and(|gap| PARTS.contains(&gap.trim()));
    let Some(whole) = next.filter(|next| joined && number.unit.is_none() && next.unit.is_some()) else { return false };
    let own = Number { unit: whole.unit, ..number.clone() };
    scene.sources.iter().any(|source| scene.grounds.has_plain_number(&own, precision, source)) || is_scaled(scene, &own, precision)
}

/// Things that an amount is shared out among, and amounts that are looked at.
const SHARED_AMONG_MAX: usize = 40;
const SHARED_AMOUNTS_MAX: usize = 24;

/// Is it a price of the results for another unit: ₹31.50 a kilo of ₹3,150 a quintal?
pub fn is_unit_price(scene: &CheckContext<'_>, number: &Number) -> bool {
    let Some(unit) = number.unit.filter(|_| scene.sign_before(number.span.start).is_some_and(unit::is_currency_sign)) else { return false };
    let priced = |other: &Unit, shown: Interpretation| {
        let ratio = other.factor / unit.factor;
        let scaled = Interpretation { value: shown.value * ratio, step: shown.step * ratio };
        let number = Number { readings: [Some(scaled), None], unit: None, ..number.clone() };
        scene.sources.iter().any(|source| fits(&number, Precision::Exact, &source.facts().numbers))
    };
    !unit.is_money() && unit::siblings(unit).any(|other| number.readings().any(|shown| priced(other, shown)))
}

/// Is it told as what is left, and what one figure of a line leaves of another: 18.5 hours of `41.5 h of 60 h life used`?
pub fn is_left_of_line(scene: &CheckContext<'_>, number: &Number) -> bool {
    static LEFT: PhraseList = PhraseList::new(&[
        " left",
        "remain",
        " to go",
        "ubrig",
        "verbleib",
        " noch ",
        "reste",
        "restan",
        "queda",
        "falta",
        "riman",
        "manca",
        "sobra",
        "zosta",
        "kald",
        "kalan",
        "残",
        "剩",
        "余",
        "शेष",
        "बचे",
        "बाकी",
    ]);
    let Some(unit) = number.unit.filter(|_| LEFT.stands_in(scene.plain.folded())) else { return false };
    let mut apart = scene.sources.iter().flat_map(|source| &source.figures().apart);
    apart.any(|(own, apart)| {
        own.dimension == unit.dimension && own.factor == unit.factor && number.readings().any(|shown| shown.rounds(*apart))
    })
}

/// Is it told as a total or an average, and that of figures which stand below one another: `build.css 48.20 kB`, `build.js 412.75 kB`?
pub fn is_of_lines(scene: &CheckContext<'_>, number: &Number, role: Role) -> bool {
    let total = role == Role::Total || cues::tells_total(scene.plain);
    let average = role == Role::Average || cues::tells_average(scene.plain);
    let is = |made: &f64| number.readings().any(|shown| shown.rounds(*made));
    let figures = || scene.sources.iter().map(|source| source.figures());
    total && figures().any(|figures| figures.sums.iter().any(is)) || average && figures().any(|figures| figures.averages.iter().any(is))
}

/// Is it the product of two numbers that stand side by side as the sides of something, as in `(50000, 25000)` or `1920 × 1080`?
pub fn is_area(scene: &CheckContext<'_>, number: &Number) -> bool {
    let mut areas = scene.sources.iter().flat_map(|source| &source.figures().areas);
    areas.any(|area| number.readings().any(|shown| shown.rounds(*area)))
}

/// Bits of an IPv4 address (RFC 4632).
const ADDRESS_BITS: u32 = 32;

/// Is it how many addresses a prefix has that the passage names: 256 of a `/24`, or the 254 of them that hosts can have?
pub fn is_of_prefix(scene: &CheckContext<'_>, number: &Number) -> bool {
    let Some(whole) = number.whole().filter(|_| number.unit.is_none()) else { return false };
    let prefix = |other: &&Number| scene.text().get(..other.span.start).is_some_and(|before| before.ends_with('/'));
    let bits = scene.plain.numbers().iter().filter(prefix).filter_map(Number::whole).filter_map(|bits| u32::try_from(bits).ok());
    bits.filter_map(|bits| ADDRESS_BITS.checked_sub(bits)).any(|free| {
        let all = 1_u64.checked_shl(free).unwrap_or_default();
        free > 1 && (whole == all || whole + 2 == all)
    })
}

/// Is it a number of the answer so far, in another unit?
pub fn was_told(scene: &CheckContext<'_>, number: &Number, precision: Precision) -> bool {
    let mut told: Vec<f64> = scene.told.iter().rev().take(OF_ANSWER).copied().collect();
    told.sort_by(f64::total_cmp);
    !told.is_empty() && fits(number, precision, &told)
}

/// Is it the time between two times of day, of the passage or of its results, or what such spans of a result come to: the hours in two trains?
pub fn lies_between_times(scene: &CheckContext<'_>, number: &Number) -> bool {
    let Some(unit) = number.unit.filter(|unit| unit.dimension == "time") else { return false };
    let few = |source: &&&ToolResult| (4..=TIMES_OF).contains(&source.facts().dates.times.len());
    let spans = scene.sources.iter().filter(few).any(|source| {
        let (pairs, rest) = source.facts().dates.times.as_chunks::<2>();
        let all: u32 = pairs.iter().map(|[from, to]| (to.minutes + DAY - from.minutes) % DAY).sum();
        rest.is_empty() && number.readings().any(|shown| shown.rounds(f64::from(all) * 60.0 / unit.factor))
    });
    if spans {
        return true;
    }
    let own = scene.plain.dates().times.iter();
    let theirs = scene.sources.iter().flat_map(|source| &source.facts().dates.times);
    let times: Vec<u32> = own.chain(theirs).map(|time| time.minutes).take(TIMES_OF).collect();
    times.iter().enumerate().any(|(at, one)| {
        times.iter().skip(at + 1).any(|other| {
            let apart = f64::from(one.abs_diff(*other));
            let is = |minutes: f64| number.readings().any(|shown: Interpretation| shown.rounds(minutes * 60.0 / unit.factor));
            is(apart) || is(f64::from(DAY) - apart)
        })
    })
}

/// Is it the time between two dates, of the passage, of its results or of what was said?
pub fn lies_between_dates(scene: &CheckContext<'_>, number: &Number) -> bool {
    let Some(unit) = number.unit.filter(|unit| unit.dimension == "time" && unit.factor >= 86_400.0) else { return false };
    let own = scene.plain.dates().dates.iter().chain(&scene.grounds.said_dates().dates);
    let theirs = scene.sources.iter().flat_map(|source| &source.facts().dates.dates);
    let dates: Vec<&Date> = own.chain(theirs).take(DATES_OF).collect();
    // A day without a year is one of the years that the others have.
    let mut years: Vec<i32> = dates.iter().flat_map(|date| date.readings.iter().flatten()).map(|(year, ..)| *year).collect();
    years.retain(|year| *year != 0);
    years.sort_unstable();
    years.dedup();
    let without = |date: &&&Date| date.readings.iter().flatten().all(|(year, ..)| *year == 0);
    let guessed = dates.iter().filter(without).flat_map(|date| date.readings.iter().flatten());
    let guessed: Vec<i64> =
        guessed.flat_map(|(_, month, day)| years.iter().take(2).map(|year| date::days(*year, *month, *day))).take(DATES_OF).collect();
    let days: Vec<i64> = dates.iter().flat_map(|date| date.days()).chain(guessed).collect();
    days.iter().enumerate().any(|(at, one)| {
        days.iter().skip(at + 1).any(|other| {
            let apart = (one - other).unsigned_abs() as f64;
            let is = |days: f64| number.readings().any(|shown| shown.rounds(days * 86_400.0 / unit.factor));
            is(apart) || is(apart + 1.0)
        })
    })
}

/// Is a measure of a kind that the results don't have: grams of what they have in millilitres, watts of kilowatt hours? What
/// it is worth takes knowledge of the world.
pub fn is_of_another_kind(scene: &CheckContext<'_>, number: &Number) -> bool {
    let Some(unit) = number.unit.filter(|unit| unit.dimension != "time" && !unit.is_money()) else { return false };
    let others = scene.plain.numbers().iter().filter(|other| other.span != number.span);
    let of_another =
        |other: &&Number| other.unit.is_some_and(|own| own.dimension != unit.dimension) && scene.has_number(other, Precision::Exact);
    let told = |source: &&evidence::ToolResult| {
        numbers(source.text.get(..source.text.floor_char_boundary(4096)).unwrap_or_default())
            .iter()
            .any(|number| number.unit.is_some_and(|own| own.dimension == unit.dimension))
            || source.facts().keys().iter().take(40).any(|key| unit.names.iter().any(|name| name.len() > 1 && key.ends_with(name.as_str())))
    };
    others.clone().any(|other| of_another(&other)) && !scene.sources.iter().any(told)
}

/// Does this date follow from one that is known: some days, weeks, months or years before or after it?
pub fn dates_from(scene: &CheckContext<'_>, date: &Date) -> bool {
    let grounds = scene.grounds;
    let of_passage = scene.plain.dates().dates.iter().filter(|own| own.span != date.span);
    let of_results = scene.sources.iter().flat_map(|source| &source.facts().dates.dates);
    let known: Vec<i64> = of_results.chain(&grounds.said_dates().dates).chain(of_passage).flat_map(Date::days).take(DATES_OF).collect();
    let steps = steps(scene, grounds);
    // Of eighteen payments the last is due seventeen months after the first.
    let by_months = |months: i64| months > 0 && (steps.contains(&months) || steps.contains(&(months + 1)));
    let by_years = |years: i64| years == 1 || years > 1 && (steps.contains(&years) || steps.contains(&(years * 12)));
    // `{"amount": 305, "day": 1}`
    let named_day = {
        let leaves = scene.sources.iter().flat_map(|source| source.facts().leaves.iter().take(LEAVES_OF));
        leaves
            .filter(|leaf| leaf.key.ends_with("day"))
            .filter_map(|leaf| leaf.value.number())
            .find(|day| (1.0..=31.0).contains(day))
            .map(|day| day as u32)
    };
    let working = says_working_days(scene);
    // The next one behind a weekend.
    let behind_weekend =
        |from: i64, to: i64| working && to > from && to - from <= 3 && date::weekday(from) >= SATURDAY && date::weekday(to) < SATURDAY;
    let on_working_days = |apart: i64| {
        working
            && steps.iter().any(|step| *step <= WORKING_DAYS_MAX && (step + 2 * (step / 5)..=step + 2 * (step / 5 + 1)).contains(&apart))
    };
    date.readings.iter().flatten().any(|(year, month, day)| {
        known.iter().any(|from| {
            let (known_year, known_month, known_day) = date::civil(*from);
            let years = if *year == 0 { known_year - 1..=known_year + 1 } else { *year..=*year };
            years.into_iter().any(|year| {
                let day_number = date::days(year, *month, *day);
                let apart = (day_number - from).abs();
                // A term of months ends on the day before, or on the last day of a shorter month.
                let months_apart = |(year, month): (i32, u32)| {
                    let of = |year: i32, month: u32| year * 12 + i32::try_from(month).unwrap_or(0);
                    i64::from((of(year, month) - of(known_year, known_month)).abs())
                };
                let (next_year, next_month, next_day) = date::civil(day_number + 1);
                let on_day = *day == known_day || next_day == 1 && *day < known_day || named_day == Some(*day);
                apart != 0 && steps.iter().any(|step| apart == *step || apart + 1 == *step || apart == step * 7)
                    || on_working_days(apart)
                    || behind_weekend(*from, day_number)
                    || (*month, *day) == (known_month, known_day) && by_years(i64::from((year - known_year).abs()))
                    || on_day && by_months(months_apart((year, *month)))
                    || next_day == known_day && by_months(months_apart((next_year, next_month)))
            })
        })
    }) || follows_yearless(scene, date, &steps)
        || written_short(scene, date)
        || is_day_of_question(scene, date)
}

/// Number of Saturday among the days of a week, from Monday's 0.
const SATURDAY: i64 = 5;

/// A year of 365 days and one of 366, for dates without one.
const YEARS: [i32; 2] = [2025, 2024];

/// Does this date lie so many days from one that somebody said without its year: `counting from 12 January`?
fn follows_yearless(scene: &CheckContext<'_>, date: &Date, steps: &[i64]) -> bool {
    let said = scene.grounds.said_dates().dates.iter().flat_map(|said| said.readings.iter().flatten());
    let of_passage = scene.plain.dates().dates.iter().filter(|own| own.span != date.span).flat_map(|own| own.readings.iter().flatten());
    let said = said.chain(of_passage);
    let yearless: Vec<(u32, u32)> = said.filter(|(year, ..)| *year == 0).map(|(_, month, day)| (*month, *day)).take(DATES_OF).collect();
    // `Six months from 20 May`; three before the end of June; two full months, to the last day of one.
    static AT_END: PhraseList = PhraseList::in_any_case(&[
        "last day",
        "end of the month",
        "end of a month",
        "month end",
        "monatsende",
        "fin de mois",
        "fin du mois",
        "fin de mes",
        "fine mese",
        "fim do mês",
        "einde van de maand",
        "koniec miesiąca",
        "ay sonu",
    ]);
    let at_end = || scene.sources.iter().any(|source| AT_END.stands_in(&source.text));
    let by_months = |(month, day): (u32, u32), (own_month, own_day): (u32, u32)| {
        let apart = (i64::from(month) - i64::from(own_month)).rem_euclid(12);
        let last = |month: u32, day: u32| date::civil(date::days(YEARS[0], month, day) + 1).2 == 1;
        (day == own_day || last(own_month, own_day) && (last(month, day) || at_end()))
            && apart != 0
            && (steps.contains(&apart) || steps.contains(&(12 - apart)))
    };
    if date.readings.iter().flatten().any(|(_, month, day)| yearless.iter().any(|known| by_months(*known, (*month, *day)))) {
        return true;
    }
    date.readings.iter().flatten().any(|(year, month, day)| {
        let years = if *year == 0 { YEARS } else { [*year, *year - 1] };
        years.into_iter().any(|known_year| {
            let own = date::days(if *year == 0 { known_year } else { *year }, *month, *day);
            yearless.iter().any(|(month, day)| steps.contains(&(own - date::days(known_year, *month, *day)).abs()))
        })
    })
}

/// Does the question name the day without its month, and the month beside another day: `17-21 August and Monday 24`?
fn is_day_of_question(scene: &CheckContext<'_>, date: &Date) -> bool {
    let asked = &scene.grounds.asked;
    let has_month =
        |month: u32| asked.dates().dates.iter().flat_map(|other| other.readings.iter().flatten()).any(|(_, other, _)| *other == month);
    let has_day = |day: u32| asked.numbers().iter().any(|number| number.whole() == Some(u64::from(day)));
    date.readings.iter().flatten().any(|(_, month, day)| has_month(*month) && has_day(*day))
}

/// Working days from which others are counted.
const WORKING_DAYS_MAX: i64 = 60;

/// Does the passage, the question or a result speak of working days, which leave out weekends?
fn says_working_days(scene: &CheckContext<'_>) -> bool {
    static DAYS_AT_WORK: PhraseList = PhraseList::new(&[
        "business day",
        "working day",
        "werktag",
        "arbeitstag",
        "jours ouvr",
        "jour ouvr",
        "dias habil",
        "dia habil",
        "dias laborable",
        "giorni lavorativ",
        "giorni feriali",
        "dias uteis",
        "dia util",
        "werkdag",
        "dni robocz",
        "is gunu",
        "営業日",
        "工作日",
        "कार्य दिवस",
        "कार्यदिवस",
    ]);
    let texts = scene.sources.iter().map(|source| source.folded()).chain([scene.plain.folded(), scene.grounds.asked.folded()]);
    texts.into_iter().any(|text| DAYS_AT_WORK.stands_in(text))
}

fn steps(scene: &CheckContext<'_>, grounds: &EvidenceIndex) -> Vec<i64> {
    let words = scene.plain.words.iter().filter_map(|word| scene.lexicon.numbers.get(&*word.lower)).map(|count| *count as f64);
    let own = scene.plain.numbers().iter().filter(|number| !number.ordinal && !scene.plain.is_taken(&(number.span.start..number.end)));
    let asked = grounds.asked.numbers();
    let mut all: Vec<f64> = words.collect();
    all.extend(
        own.chain(asked)
            .filter_map(|number| number.whole().map(|whole| whole as f64).or_else(|| number.readings().next().map(|one| one.value))),
    );
    // `1,120 GB left and 14 GB a day`: so many days.
    let in_turn: Vec<f64> =
        scene.plain.numbers().iter().take(STEPS_OF).filter_map(|number| Some(number.readings().next()?.value)).collect();
    all.extend(in_turn.windows(2).filter(|two| two[1] > 1.0).map(|two| (two[0] / two[1]).round()));
    all.extend(grounds.said_numbers().iter().take(8));
    for source in &scene.sources {
        let spans = source.facts().spans();
        all.extend(spans.iter().take(STEPS_OF_RESULT));
        // Two years, and three more.
        if let [one, other] = spans {
            all.push(one + other);
        }
    }
    // `72 hours before`
    let hours = scene
        .plain
        .numbers()
        .iter()
        .filter(|number| number.unit.is_some_and(|unit| unit.dimension == "time" && unit.factor * 168.0 == WEEK));
    all.extend(hours.filter_map(|number| Some(number.readings().next()?.value / 24.0)));
    // `six months' validity`, as the user says it.
    let of_time = |two: &[Word]| {
        let count = scene.lexicon.count(&two[0].lower)?;
        unit::named(two[1].lower.trim_end_matches(['\'', '’'])).filter(|unit| unit.dimension == "time").map(|_| count as f64)
    };
    all.extend(grounds.asked.words().windows(2).filter_map(of_time));
    // `within a week`
    let units = scene.plain.words.iter().chain(grounds.asked.words()).filter_map(|word| unit::named(&word.lower));
    all.extend(units.filter(|unit| unit.dimension == "time").flat_map(|unit| match unit.factor {
        WEEK => vec![7.0],
        factor if factor > WEEK => vec![30.0, 31.0],
        _ => vec![],
    }));
    let days = |value: &f64| (*value >= 1.0 && *value <= 400.0 && value.fract() == 0.0).then_some(*value as i64);
    all.iter().filter_map(days).take(STEPS_OF).collect()
}

/// Does a result write it without a year, in figures: `12/29`, `12月29日`?
fn written_short(scene: &CheckContext<'_>, date: &Date) -> bool {
    let has_year = |year: i32| scene.sources.iter().any(|source| source.text.contains(&year.to_string()));
    date.readings.iter().flatten().any(|(year, month, day)| {
        let forms = [
            format!("{month}/{day}"),
            format!("{day}/{month}"),
            format!("{day}.{month}."),
            format!("{month:02}-{day:02}"),
            format!("{day:02}.{month:02}"),
            format!("{month}月{day}日"),
        ];
        (*year == 0 || has_year(*year))
            && scene.sources.iter().any(|source| {
                forms.iter().any(|form| {
                    let bytes = source.text.as_bytes();
                    memchr::memmem::find_iter(bytes, form.as_bytes()).any(|at| !is_within_digits(bytes, at..at + form.len()))
                })
            })
    })
}

#[cfg(test)]
mod tests {
    use crate::{
        checks::values::values,
        context::{CheckContext, CitationScope},
        evidence::{EvidenceIndex, ToolResult},
        language::lexicon::{language, words},
        passage::Kind,
        plain::AnalyzedPassage,
    };

    fn wrong(result: &str, asked: &str, told: &[f64], said: &str) -> Vec<String> {
        let source = ToolResult::new("t", "{}", result);
        let grounds = EvidenceIndex::new(vec![source], vec![asked.into()], asked.into());
        let plain = AnalyzedPassage::of(said);
        let lexicon = language(&words(said), None);
        let sources = grounds.results.iter().collect();
        let scene = CheckContext { told, ..CheckContext::new(&plain, Kind::Sentence, lexicon, sources, CitationScope::Cited, &grounds) };
        values(&scene).into_iter().map(|finding| finding.found).collect()
    }

    /// What one line or its neighbours make, what two sides make, and what a price makes for as many as are told.
    #[test]
    fn figures_of_lines_sides_and_prefixes() {
        let sizes = "index.html 0.62 kB gzip 0.38 kB\nindex.css 48.20 kB gzip 9.11 kB\nindex.js 412.75 kB gzip 131.40 kB\n\
                     charts.js 688.30 kB gzip 214.92 kB\n\n(!) Some are larger than 500 kB.";
        let log = "[06:00] temp=17.2C rh=81%\n[08:00] temp=19.6C rh=76% vent=25%\n[10:00] temp=23.3C rh=68% vent=60%";
        let array = "MemoryError: no room for an array with shape (50000, 25000)";
        let room = r#"[{"room":"lake","per_night":189.0},{"room":"suite","per_night":278.0}]"#;
        for (result, right, false_one) in [
            ("tool: 41.5 h of 60 h life used", "The tool has 18.5 hours left.", "The tool has 16.5 hours left."),
            (sizes, "The files add up to 1,149.87 kB.", "The files add up to 1,289.87 kB."),
            (log, "On average it was 20.03 °C.", "On average it was 21.43 °C."),
            (log, "The humidity averaged 75.0 %.", "The humidity averaged 71.4 %."),
            (array, "Those are 1.25 billion cells.", "Those are 1.35 billion cells."),
            ("prefixes shorter than /28 need a review", "A /24 is 256 addresses.", "A /24 is 263 addresses."),
            (room, "The suite is at €834 for the three nights.", "The suite is at €854 for the three nights."),
            (r#"{"btc_sat":1850000}"#, "It holds 0.0185 BTC.", "It holds 0.0195 BTC."),
        ] {
            assert_eq!(wrong(result, "", &[], right), Vec::<String>::new(), "{right}");
            assert_eq!(wrong(result, "", &[], false_one).len(), 1, "{false_one}");
        }
    }

    #[test]
    fn what_is_reckoned() {
        let stay = r#"{"nights":4,"guests":2,"rate_eur":142.50,"tax_eur":3.20}"#;
        let shop = r#"{"cost":9.40,"retail":16.90,"bottles":66}"#;
        for (result, asked, told, said) in [
            (stay, "", &[][..], "2 people × 4 nights × 3.20 = 25.60"),
            (stay, "", &[570.0, 25.6], "Together that makes 595.60, or 297.80 each."),
            (shop, "Prices include 20 % VAT", &[], "Less VAT that is 14.08."),
            (shop, "", &[4.68], "All 66 would bring roughly 309."),
            (r#"{"bottles":214}"#, "", &[], "That fills 17 cases of 12, with 10 over."),
            (r#"{"kwh":42.6}"#, "I pay 31 cents a kWh", &[13.21], "At that pace it makes about 158 a year."),
            (r#"{"pct":[46,53,61]}"#, "", &[], "On average that is 53.3 %."),
            (r#"{"start":"13:30","end":"15:06"}"#, "", &[], "It takes 1 h 36 min."),
            (r#"{"gen":205,"feb":171,"mar":138,"unit":"Smc"}"#, "", &[], "You used 514 Smc."),
            (r#"{"month":"2026-08","sold":1054}"#, "We have 40 rooms", &[], "With 40 rooms and 31 days there were 1,240."),
            (r#"{"km":97350,"next_service_km":96000}"#, "", &[], "It is 1,350 km overdue."),
            (r#"[{"n":"V","eur":12.99},{"n":"T","eur":29.99}]"#, "", &[], "Over a year V and T cost you 515.76."),
            ("date;kwh\n2026-01-01;18204\n2026-02-01;18552\n2026-03-01;18839", "", &[], "January took 348 kWh."),
            (r#"[{"n":"A","pcs":24},{"n":"B","pcs":18},{"n":"C","pcs":47},{"n":"D","pcs":7}]"#, "", &[], "That is 71 pieces altogether."),
        ] {
            assert_eq!(wrong(result, asked, told, said), Vec::<String>::new(), "{said}");
        }
        // What is shown is reckoned after, and what the user names as a price is taken so many times.
        let hall = r#"{"hire":1900,"catering_pp":34}"#;
        let temperatures = r#"[{"city":"A","min":3},{"city":"B","min":-2}]"#;
        for (result, asked, said) in [
            (hall, "For 110 people", "1,900 + 110 × 34 = 5,640"),
            (hall, "", "With 118.25 × 2 it comes to 236.5."),
            (r#"{"litres":42}"#, "It's 62 rupees a litre", "That is ₹2,604."),
            (temperatures, "", "B has -2 °C, 5 °C less than A with 3 °C."),
            (r#"{"m3":[11.4,9.8]}"#, "", "On average some 348 litres a day."),
            (r#"{"passed":5,"failed":2}"#, "", "71.4 % passed."),
            (r#"{"rows":100,"skipped":2}"#, "", "98 of the 100 rows were imported."),
            ("real 1m07.000s", "", "It took 67 seconds."),
        ] {
            assert_eq!(wrong(result, asked, &[], said), Vec::<String>::new(), "{said}");
        }
        // Sums of so many of this and so many of that; what the question counts; percent of grams and kilos.
        let ferry = r#"{"adult_kr":95,"child_kr":48,"bicycle_kr":40}"#;
        let family = "two adults at 95, a child at 48, two bicycles at 40";
        let water = r#"{"water_l":450}"#;
        for (result, asked, told, right, false_one) in [
            (ferry, "What does it cost?", &[][..], format!("It makes 318 one way: {family}."), format!("It makes 338 one way: {family}.")),
            (water, "We are three.", &[], "So 150 litres each.".into(), "So 163 litres each.".into()),
            (r#"{"flour_kg":1,"water_g":750}"#, "", &[], "750 g of water, so 75 %.".into(), "750 g of water, so 65 %.".into()),
        ] {
            assert_eq!(wrong(result, asked, told, &right), Vec::<String>::new(), "{right}");
            assert_eq!(wrong(result, asked, told, &false_one).len(), 1, "{false_one}");
        }
        let meter = r#"{"month":"2024-02","day_kwh":131,"evening_kwh":64,"night_kwh":53,"paid":545.60}"#;
        assert_eq!(wrong(meter, "", &[], "In February it was 248 kWh."), Vec::<String>::new());
        assert_eq!(wrong(meter, "", &[], "In February it was 258 kWh."), ["258 kWh"]);
        // A number of common knowledge stands between two others only where something speaks of what it counts.
        let rooms = r#"{"price":4200,"sea_price":3100,"floor":204}"#;
        assert_eq!(wrong(rooms, "", &[], "So the other one makes 8,300."), ["8,300"]);
        assert_eq!(wrong(r#"{"passed":5,"failed":2}"#, "", &[], "75.4 % passed."), ["75.4 %"]);
        assert_eq!(wrong(r#"{"rows":100,"skipped":2}"#, "", &[], "97 of the 100 rows were imported."), ["97"]);
        assert_eq!(wrong(hall, "For 110 people", &[], "1,900 + 110 × 34 = 5,740"), ["5,740"]);
        assert_eq!(wrong(r#"{"litres":42}"#, "What did I pay on 20 June?", &[], "You paid $1,247."), ["1,247"]);
        assert_eq!(wrong(r#"{"sky":"clear","no":7}"#, "", &[], "Day 30 °C, night 12 °C, 18 °C apart.").len(), 3);
        assert_eq!(wrong(stay, "", &[], "The rate is 168.90."), ["168.90"]);
        assert_eq!(wrong(shop, "", &[], "It costs 12.75 in all."), ["12.75"]);
    }

    #[test]
    fn what_is_reckoned_from_parts_of_results() {
        let trains = "S 07:12 -> P 09:26\nP 09:51 -> L 12:24";
        let sales = "item|sold|returned\nsocks|212|9\nscarf|14|0\nhat|97|6\ngloves|31|2";
        let market = "veg   yesterday (₹/quintal)   today (₹/quintal)\nonion   1900   1820\ntomato   2600   3150";
        let pods = "NAME      MEMORY\ncart-0    410Mi\ncart-1    402Mi\nsearch-0  1850Mi\nmail-0    96Mi";
        let grades = "course: B-1\ncategory | weight | score\nhomework | 20 | 88\nquizzes | 15 | 76\nmidterm | 25 | 81\nfinal | 25 | (open)\nextra: none";
        let bill = r#"{"net":645.90,"vat_pct":23}"#;
        for (result, told, right, false_one, found) in [
            (trains, &[][..], "You sit in trains for 4 h 47 min.", "You sit in trains for 4 h 17 min.", "17 min"),
            (sales, &[], "Without returns: socks 203, hat 91, gloves 29.", "Without returns: socks 203, hat 93, gloves 29.", "93"),
            (market, &[], "Tomatoes cost ₹31.50 kilo now.", "Tomatoes cost ₹41.93 kilo now.", "41.93 kilo"),
            (pods, &[], "All pods use 2758 MiB.", "All pods use 2858 MiB.", "2858 MiB"),
            (grades, &[], "So far that earned 49.25 points.", "So far that earned 47.15 points.", "47.15"),
            (bill, &[645.90], "In total that is 794.46 with tax on 645.90.", "In total that is 784.46 with tax on 645.90.", "784.46"),
            (r#"{"gallons":52000}"#, &[], "The pool holds 196,800 L.", "The pool holds 216,800 L.", "216,800 L"),
            (r#"{"bake_c":220}"#, &[], "Bake at 430 °F.", "Bake at 460 °F.", "460 °F"),
        ] {
            assert_eq!(wrong(result, "", told, right), Vec::<String>::new(), "{right}");
            assert_eq!(wrong(result, "", told, false_one), [found], "{false_one}");
        }
    }

    #[test]
    fn what_names_something_is_not_reckoned() {
        let calls = r#"[{"to":"13800000001","sent":true},{"to":"13800000002","sent":false}]"#;
        assert_eq!(wrong(calls, "", &[], "13800000001 was reached."), Vec::<String>::new());
        assert_eq!(wrong(calls, "to 50 parents", &[], "13800000051 was not reached."), ["13800000051"]);
        assert_eq!(wrong(r#"{"no":"0033"}"#, "", &[], "Invoice 0031 is valid."), ["0031"]);
    }

    #[test]
    fn two_figures_of_the_result_alone_make_no_product() {
        let prices = r#"[{"n":"A","eur":47.5},{"n":"B","eur":12.25},{"n":"C","eur":88},{"n":"D","eur":19.75}]"#;
        // Their difference or ratio may be meant, their sum or product is told as one.
        assert_eq!(wrong(prices, "", &[], "D is 7.50 more than B, so take it."), Vec::<String>::new());
        assert_eq!(wrong(prices, "", &[], "Therefore the board shows 938.13."), ["938.13"]);
        assert_eq!(wrong(prices, "", &[], "Together that makes 938.13."), Vec::<String>::new());
        // Not the last digit, but the number itself is another.
        assert_eq!(wrong(r#"{"rows":1296,"bad":4}"#, "", &[], "So 1,297 rows are left."), ["1,297"]);
    }

    #[test]
    fn a_bound_is_round() {
        let night = r#"{"bpm":[51,58,97],"rows":18230}"#;
        for (said, found) in [
            ("It stayed below 100.", &[][..]),
            ("It stayed above 50 and under 120.", &[]),
            ("It stayed below 99.", &["99"]),
            ("It wrote 51 of 68,230 rows.", &["68,230"]),
        ] {
            assert_eq!(wrong(night, "", &[], said), found, "{said}");
        }
    }

    #[test]
    fn days_that_follow_from_others() {
        let result = r#"{"given":"2024-11-03","taken":"2025-04-10","days":5}"#;
        for said in
            ["It is due on 3 November 2025.", "The last word comes around 15 April 2025.", "Three weeks later, on 1 May 2025, it ends."]
        {
            assert_eq!(wrong(result, "", &[], said), Vec::<String>::new(), "{said}");
        }
        assert_eq!(wrong(result, "", &[], "It is due on 19 August 2025."), ["19 August 2025"]);
        let lease = r#"{"start":"2024-10-01","term_months":24}"#;
        assert_eq!(wrong(lease, "", &[], "It runs for 24 months, to 30 September 2026."), Vec::<String>::new());
        assert_eq!(wrong(lease, "", &[], "It runs for 24 months, to 14 September 2026."), ["14 September 2026"]);
        let refund = r#"{"approved":"2026-04-06","business_days":"3-5"}"#;
        assert_eq!(wrong(refund, "", &[], "It comes by 13 April 2026."), Vec::<String>::new());
        assert_eq!(wrong(refund, "", &[], "It comes by 24 April 2026."), ["24 April 2026"]);
        // Another year needs a term, a day's difference a time.
        let warranty = r#"{"bought":"2023-11-20","warranty_years":2,"extended_years":3}"#;
        assert_eq!(wrong(warranty, "", &[], "It ends on 20 November 2028."), Vec::<String>::new());
        assert_eq!(wrong(warranty, "", &[], "It ends on 20 November 2032."), ["20 November 2032"]);
        assert_eq!(wrong(r#"{"bought":"2023-11-20"}"#, "", &[], "You bought it on 21 November 2023."), ["21 November 2023"]);
        assert_eq!(wrong(r#"{"bought":"2023-11-20T23:30:00Z"}"#, "", &[], "You bought it on 21 November 2023."), Vec::<String>::new());
        let asked = "May I take 17–21 August and Monday 24?";
        assert_eq!(wrong(warranty, asked, &[], "You are off until 24 August."), Vec::<String>::new());
        assert_eq!(wrong(warranty, asked, &[], "You are off until 27 August."), ["27 August"]);
        // A year without a day, too.
        assert_eq!(wrong(warranty, "", &[], "It was made in 2022."), Vec::<String>::new());
        assert_eq!(wrong(warranty, "", &[], "It was made in 1987."), ["1987"]);
    }

    /// Levels, prices of a million, amounts for so many people, bounds behind their number.
    #[test]
    fn levels_and_prices_of_a_million() {
        let disk = "Filesystem  Size  Used  Avail\n/dev/md0    2000  1400  600";
        let tokens = r#"{"input_tokens":1830000,"output_tokens":412000}"#;
        let recipe = r#"{"servings":4,"items":[{"item":"flour","qty":300},{"item":"eggs","qty":3}]}"#;
        let hotel = r#"{"puan":8.4,"yorum":612}"#;
        let class = r#"{"fee":18,"people":[{"name":"Orla","paid":true},{"name":"Ben","paid":false},{"name":"Gwen","paid":false},{"name":"Tariq","paid":false}]}"#;
        let account = r#"{"iban":"DE89370400440532013000"}"#;
        for (result, asked, said) in [
            (class, "Who hasn't paid?", "Ben, Gwen and Tariq, so 54 of the 72 is still out."),
            (account, "Is it in?", "Your account ending in 3000 is saved."),
            (disk, "Is it full?", "The volume is 70 % full."),
            (tokens, "$3 per million input, $15 per million output?", "That's $5.49 for input and $6.18 for output."),
            (recipe, "I need it for ten people", "You need 750 g of flour: the recipe serves four."),
            (hotel, "Otel nasıl?", "600'ü aşkın yorum var."),
        ] {
            assert_eq!(wrong(result, asked, &[], said), [""; 0], "{said}");
        }
        assert_eq!(wrong(disk, "Is it full?", &[], "The volume is 81 % full."), ["81 %"]);
        assert_eq!(wrong(tokens, "$3 per million input, $15 per million output?", &[], "That's $5.83 for input."), ["5.83"]);
    }

    /// Days so many hours before, months that the user names, the working day behind a weekend.
    #[test]
    fn dates_by_hours_months_and_weekends() {
        let booking = r#"{"check_in":"2025-09-19","free_cancellation_h_before":72}"#;
        let passport = r#"{"expiry":"2026-05-08"}"#;
        let form = r#"{"due":"2026-02-28","rule":"If it falls on a weekend, the next working day applies."}"#;
        for (result, asked, said) in [
            (booking, "Till when can I cancel?", "Until 72 hours before, so up to 16 September 2025."),
            (passport, "We fly on 20 December 2025 and they want six months' validity.", "It must be valid until 20 June 2026."),
            (form, "By when?", "By Monday, 2 March 2026."),
        ] {
            assert_eq!(wrong(result, asked, &[], said), [""; 0], "{said}");
        }
        assert_eq!(
            wrong(booking, "Till when can I cancel?", &[], "Until 72 hours before, so up to 11 September 2025."),
            ["11 September 2025"]
        );
        assert_eq!(wrong(form, "By when?", &[], "By Wednesday, 4 March 2026."), ["4 March 2026"]);
    }
}
