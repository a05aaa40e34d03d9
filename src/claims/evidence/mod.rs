//! What a conversation gives an answer to stand on: every result, and whatever else was said. Pure.
//!
//! Made once for an exchange and shared by its choices; each result is read when a claim first needs it. Results without
//! a stamp count too: they can't be cited, but what they say was said.

mod aim;
pub mod beginning;
pub mod csv;
pub mod derive;
pub mod facts;
pub mod failure;
pub mod lists;
mod markup;
pub mod parts;
pub mod reckon;
pub mod rows;
pub mod table;
pub mod text_figures;
pub mod tool_capabilities;

use std::{
    borrow::Cow,
    collections::HashMap,
    ops::Deref,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use crate::{
    evidence::tool_capabilities::{Effect, ToolCapability},
    language::{
        cues,
        date::{self, Dates},
        fold::{fold, name_text, stands_in},
        lexicon,
        number::{self, Interpretation, Number, Precision},
        request::UserRequest,
        tool_names::tool_nouns,
        unit, url,
    },
    word_index::{LazyWordIndex, WordForm},
};
use aim::CallAim;
use beginning::KnownTexts;
use facts::{NamedValue, ResultFacts, Scalar};
use rows::{Row, Rows};
use text_figures::TextFigures;

/// Bytes of all that was said besides results; beyond it nothing is called ungrounded.
const SAID_BYTES_MAX: usize = 4 << 20;

/// Bytes of a result that are read first, as what is said of one mostly stands there.
const NEAR_BYTES: usize = 16 << 10;

/// Numbers that are looked up one result at a time, before those of all results are sorted.
const SINGLE_LOOKUPS_MAX: usize = 3;
/// Dates and numbers that the dates of an exchange's answers are compared with.
const COMPARED_MAX: usize = 4 << 20;

/// Recent results of which what follows from one may be said beside another.
const FEW: usize = 4;

/// Results with which a result's values are compared, and values of each.
const ACROSS_RESULTS_MAX: usize = 8;
const ACROSS_VALUES_MAX: usize = 24;

/// Numbers of the last question that an answer may have reckoned with, and numbers of a result that it may have reckoned
/// them with.
const ASKED_OF: usize = 8;
const RECKONED_OF: usize = 64;

/// A result in the conversation, as an exchange sees it.
#[derive(Debug, Default)]
pub struct ToolResult {
    /// What was read from it.
    pub reading: Arc<ResultReading>,
    /// It reports a failure.
    pub failed: bool,
    /// It came after the last user message.
    pub recent: bool,
    /// Its execution ID, where it has one.
    pub execution_id: Option<Arc<str>>,
    /// What few results of a conversation are ever asked for: apart, so that the others are small.
    further: OnceLock<Box<FurtherReading>>,
}

/// Readings of a result that only an answer which cites it needs.
#[derive(Debug, Default)]
struct FurtherReading {
    reckoned: OnceLock<Vec<f64>>,
    standing: LazyWordIndex,
    differences: OnceLock<Vec<ArgumentDifference>>,
    across: OnceLock<Vec<f64>>,
    figures: OnceLock<TextFigures>,
}

/// A value that a call asked for, and what its result has in its place.
#[derive(Debug)]
pub struct ArgumentDifference {
    /// Name of the result's member.
    pub key: String,
    /// The argument.
    pub asked: Scalar,
    /// The value that the result has.
    pub done: Scalar,
}

/// A result and the call that it answers, with what was read from them; the same in every exchange.
#[derive(Debug, Default)]
pub struct ResultReading {
    /// The tool.
    pub tool: Arc<str>,
    /// Arguments of the call: JSON text.
    pub arguments: Arc<str>,
    /// Text that the tool returned.
    pub text: Arc<str>,
    /// A part of it isn't text: an image, a file.
    pub has_media: bool,
    /// Whether its top tells a failure, where its classification told that.
    pub told_at_top: Option<bool>,
    facts: OnceLock<ResultFacts>,
    folded_arguments: OnceLock<String>,
    argument_numbers: OnceLock<Box<[f64]>>,
    tool_words: OnceLock<String>,
    tool_folded: OnceLock<String>,
    nouns: OnceLock<Vec<String>>,
    told: OnceLock<Vec<(u64, String)>>,
    says_none: OnceLock<bool>,
    tells_failure: OnceLock<bool>,
    effect: OnceLock<Effect>,
    language: OnceLock<&'static str>,
    rows: OnceLock<Rows>,
    single: OnceLock<Row>,
}

impl Deref for ToolResult {
    type Target = ResultReading;

    fn deref(&self) -> &ResultReading {
        &self.reading
    }
}

impl ToolResult {
    /// One that hasn't been read yet.
    pub fn new(tool: &str, arguments: &str, text: &str) -> Self {
        Self::of(Arc::new(ResultReading::new(tool.into(), arguments.into(), text.into())))
    }

    /// One with this reading.
    pub fn of(reading: Arc<ResultReading>) -> Self {
        // Not by `default`, which would make another reading.
        Self { reading, failed: false, recent: false, execution_id: None, further: OnceLock::new() }
    }

    fn further(&self) -> &FurtherReading {
        self.further.get_or_init(Box::default)
    }

    /// Numbers that its figures, and its call's, make by where they stand.
    pub fn figures(&self) -> &TextFigures {
        self.further().figures.get_or_init(|| {
            let mut figures = TextFigures::default();
            figures.add_areas(&self.text);
            figures.add_areas(&self.arguments);
            if !self.facts().json {
                figures.add_lines(&self.text);
            }
            figures
        })
    }

    /// Do these folded words stand in it?
    pub fn has_words(&self, folded: &str) -> bool {
        self.further().standing.has(&|at: usize| (at == 0).then(|| self.folded()), folded, WordForm::Folded)
    }

    /// The values that its call asked for and that it has otherwise, which `find` finds the first time.
    pub fn differences(&self, find: impl FnOnce() -> Vec<ArgumentDifference>) -> &[ArgumentDifference] {
        self.further().differences.get_or_init(find)
    }

    /// It reports a failure, by the policy's rules or in its own words.
    pub fn fails(&self) -> bool {
        self.failed || self.tells_failure()
    }
}

impl ResultReading {
    /// One that hasn't been read yet.
    pub fn new(tool: Arc<str>, arguments: Arc<str>, text: Arc<str>) -> Self {
        Self { tool, arguments, text, ..Self::default() }
    }

    /// Bytes of memory that it takes, without its call's arguments and its text, which are shared.
    pub fn bytes(&self) -> usize {
        let words = |words: &[String]| words.iter().map(|word| word.len() + size_of::<String>()).sum::<usize>();
        let told = |told: &Vec<(u64, String)>| told.iter().map(|(_, word)| word.len() + size_of::<(u64, String)>()).sum::<usize>();
        size_of::<Self>()
            + self.facts.get().map_or(0, ResultFacts::bytes)
            + [&self.folded_arguments, &self.tool_words, &self.tool_folded]
                .map(|text| text.get().map_or(0, String::len))
                .iter()
                .sum::<usize>()
            + self.argument_numbers.get().map_or(0, |numbers| size_of_val(&**numbers))
            + self.nouns.get().map_or(0, |nouns| words(nouns))
            + self.told.get().map_or(0, told)
            + self.rows.get().map_or(0, Rows::bytes)
            + self.single.get().map_or(0, Row::bytes)
    }

    /// Its values, read on demand.
    pub fn facts(&self) -> &ResultFacts {
        self.facts.get_or_init(|| ResultFacts::read(&self.text))
    }

    /// Its records side by side, read on demand.
    pub fn rows(&self) -> &Rows {
        self.rows.get_or_init(|| Rows::read(&self.text, self.facts()))
    }

    /// All of it as one record, with what it was called with.
    pub fn single(&self) -> &Row {
        self.single.get_or_init(|| rows::single(self.facts(), &self.arguments))
    }

    /// Not all of it was read, or can be.
    pub fn is_partial(&self) -> bool {
        self.has_media || self.is_cut()
    }

    /// Its text has more values than are read.
    fn is_cut(&self) -> bool {
        // A value takes a byte at least.
        self.text.len() >= facts::LEAVES_MAX && self.facts().partial
    }

    /// Its text folded for comparison.
    pub fn folded(&self) -> &str {
        self.facts().folded(&self.text)
    }

    /// Its call's arguments, folded.
    pub fn folded_arguments(&self) -> &str {
        self.folded_arguments.get_or_init(|| fold(&self.arguments))
    }

    /// The numbers in its call's arguments.
    pub fn argument_numbers(&self) -> &[f64] {
        self.argument_numbers.get_or_init(|| number::values(&self.arguments).into())
    }

    /// The words of its tool's name, folded, with blanks between.
    pub fn tool_words(&self) -> &str {
        self.tool_words.get_or_init(|| name_text(&self.tool))
    }

    /// Its tool's name, folded.
    pub fn tool_folded(&self) -> &str {
        self.tool_folded.get_or_init(|| fold(&self.tool))
    }

    /// Words of its tool's name that say what it is about.
    pub fn nouns(&self) -> &[String] {
        self.nouns.get_or_init(|| tool_nouns(&self.tool, lexicon::english()))
    }

    /// The whole numbers in it, each with what follows it.
    pub fn told(&self) -> &[(u64, String)] {
        self.told.get_or_init(|| lists::told(&self.text))
    }

    /// The code of its language.
    pub fn language(&self) -> &'static str {
        self.language.get_or_init(|| &lexicon::language(&lexicon::words(&self.text), None).language)
    }

    /// It reports a failure in its own words.
    pub fn tells_failure(&self) -> bool {
        *self.tells_failure.get_or_init(|| {
            // What a log holds happened to others.
            if self.effect() == Effect::Unknown && failure::is_log(&self.text) {
                return false;
            }
            let unread = self.reads() && self.facts.get().is_none();
            let at_top = if unread { self.told_at_top.or_else(|| failure::tells_failure_at_top(&self.text)) } else { None };
            at_top.unwrap_or_else(|| {
                let aim = (!self.reads()).then(|| CallAim::new(&self.tool, &self.arguments));
                failure::tells_failure(&self.text, self.facts(), aim.as_ref())
            })
        })
    }

    /// It lists records and says no more than that, as what was looked up does, where its tool's name doesn't tell what the tool does.
    /// Beside a list an act tells its outcome: by a flag, a state, a text of its own.
    pub fn lists_records(&self) -> bool {
        if self.effect() != Effect::Unknown {
            return false;
        }
        let facts = self.facts();
        if !facts.is_structured() {
            return self.rows().columns && self.rows().rows.len() > 1;
        }
        let echoed = |text: &str| text.is_empty() || self.folded_arguments().contains(&fold(text));
        // The elements of a list follow one another, under its name.
        let top: Vec<&NamedValue> = facts.leaves.iter().filter(|leaf| leaf.object <= 1 && leaf.record == 0).collect();
        let mut members = top.chunk_by(|one, next| one.key == next.key && one.object == next.object);
        let plain = |member: &[&NamedValue]| {
            member.iter().all(|leaf| match &leaf.value {
                Scalar::Text(text) => member.len() > 1 || echoed(text),
                Scalar::Flag(_) => false,
                Scalar::Number(_) | Scalar::Null => true,
            })
        };
        // `{"added":[…],"failed":[…]}` tells what became of each.
        let outcomes = facts.lists.iter().flat_map(|list| &list.words).any(|word| failure::names_failure(word));
        !outcomes && facts.lists.iter().any(|list| list.length > 1) && members.all(plain) && !failure::tells_success(facts)
    }

    /// Its tool only reads, as far as its name says.
    pub fn reads(&self) -> bool {
        self.effect() == Effect::Reads
    }

    /// The effect of its tool, as far as the name says.
    fn effect(&self) -> Effect {
        *self.effect.get_or_init(|| ToolCapability::effect_of(&self.tool))
    }

    /// Takes the effect of its tool from another result of the same tool, which needs no second look at the name.
    pub fn take_effect(&self, of_same_tool: &Self) {
        // Not by `get_or_init`: it may be this very result.
        if self.effect.get().is_none() {
            let _known = self.effect.set(of_same_tool.effect());
        }
    }

    /// It says of a part of what was asked for that it wasn't done.
    pub fn refuses_some(&self) -> bool {
        failure::refuses_some(self.facts())
    }

    /// It says that it was only a trial, and nothing was done.
    pub fn is_trial(&self) -> bool {
        !self.reads() && failure::is_trial(&self.text, self.facts())
    }

    /// It is of an act that changed nothing.
    pub fn changed_nothing(&self) -> bool {
        !self.reads() && failure::changed_nothing(&self.text, self.facts())
    }

    /// It says in words that there is nothing.
    pub fn says_none(&self) -> bool {
        *self.says_none.get_or_init(|| lists::says_none(&self.text))
    }
}

/// The grounds of one exchange.
#[derive(Debug, Default)]
pub struct EvidenceIndex {
    /// Every result that answers a call, in order.
    pub results: Vec<ToolResult>,
    /// Texts of users, instructions, tool definitions, earlier answers and calls.
    pub said: Vec<Arc<str>>,
    /// Texts of earlier answers; they are in `said` too.
    pub answers: Vec<Arc<str>>,
    /// The last user message.
    pub asked: UserRequest,
    /// The tools as they were brought: only addresses count of it.
    pub definitions: String,
    /// The first of the results and of what was said, if an earlier exchange had them too.
    pub beginning: Option<Arc<KnownTexts>>,
    /// A tool of the upstream's own ran, and only the model has what it returned.
    unseen: AtomicBool,
    asked_numbers: OnceLock<Vec<f64>>,
    asks_to_reckon: OnceLock<bool>,
    answers_folded: OnceLock<Vec<String>>,
    said_numbers: OnceLock<Vec<f64>>,
    new_said_numbers: OnceLock<Vec<f64>>,
    said_dates: OnceLock<Dates>,
    said_folded: OnceLock<String>,
    told: OnceLock<Vec<(u64, String)>>,
    addresses: OnceLock<Vec<String>>,
    numbers: OnceLock<Vec<f64>>,
    /// How often numbers were looked up one result at a time.
    looked_up: AtomicUsize,
    by_id: OnceLock<HashMap<Arc<str>, usize>>,
    /// Index of the folded words of the results and of the conversation.
    standing: LazyWordIndex,
    /// And in what was said alone.
    standing_said: LazyWordIndex,
    /// Index of the addresses in them, unfolded.
    standing_raw: LazyWordIndex,
    /// Dates and numbers that dates were compared with.
    compared: AtomicUsize,
}

impl EvidenceIndex {
    /// Does the question ask for something reckoned: per kilo, altogether, on average?
    pub fn asks_to_reckon(&self) -> bool {
        *self.asks_to_reckon.get_or_init(|| cues::asks_to_reckon(self.asked.words()))
    }

    /// Those of these results and words.
    pub fn new(results: Vec<ToolResult>, said: Vec<Arc<str>>, asked: UserRequest) -> Self {
        Self { results, said, asked, ..Self::default() }
    }

    /// The result of this execution.
    pub fn result(&self, execution_id: &str) -> Option<&ToolResult> {
        let by_id = || {
            let ids = self.results.iter().enumerate().rev();
            ids.filter_map(|(at, source)| Some((source.execution_id.clone()?, at))).collect()
        };
        self.by_id.get_or_init(by_id).get(execution_id).and_then(|at| self.results.get(*at))
    }

    /// Notes that the model has a result that isn't among these: that of a search which the upstream ran.
    pub fn note_unseen(&self) {
        self.unseen.store(true, Ordering::Relaxed);
    }

    /// The model has results of this turn, or parts of them, that can't be read here: images, files, those of the upstream's own tools.
    pub fn has_unseen(&self) -> bool {
        self.unseen.load(Ordering::Relaxed) || self.results.iter().any(|source| source.has_media && source.recent)
    }

    /// More was said than is looked through: nothing can be said to stand nowhere.
    pub fn is_endless(&self) -> bool {
        self.has_unseen()
            || self.said.iter().map(|said| said.len()).sum::<usize>() > SAID_BYTES_MAX
            || self.results.iter().any(|source| source.is_cut())
    }

    /// Does `number` follow from `source`, or stand anywhere in the conversation?
    pub fn has_number(&self, number: &Number, precision: Precision, source: &ToolResult) -> bool {
        self.has_plain_number(number, precision, source) || self.makes_number(number, precision, source)
    }

    /// Does `number` stand in the conversation, or is it one that the result may be said to have without any reckoning?
    pub fn has_plain_number(&self, number: &Number, precision: Precision, source: &ToolResult) -> bool {
        let facts = source.facts();
        fits(number, precision, &facts.numbers)
            || self.fits_any(number, precision)
            || equals(number, precision, &facts.derived().plain)
            || self.in_minor_units(number, precision, source)
    }

    /// Does `number` follow from what `source` and the question say?
    fn makes_number(&self, number: &Number, precision: Precision, source: &ToolResult) -> bool {
        let facts = source.facts();
        follows(number, precision, facts)
            || equals(number, precision, self.reckoned(source))
            || self.few().any(|other| follows(number, precision, other.facts()))
            || equals(number, precision, self.across(source))
    }

    /// Values that one field has in two results, put together: the difference and the sum of `source` and another one, and the sum and the average over all.
    fn across<'s>(&self, source: &'s ToolResult) -> &'s [f64] {
        source.further().across.get_or_init(|| {
            let numbers = |result: &'_ ToolResult| -> Vec<(String, f64)> {
                let leaves = result.facts().leaves.iter().filter(|leaf| leaf.record == 0);
                leaves.filter_map(|leaf| Some((leaf.key.clone(), leaf.value.number()?))).take(ACROSS_VALUES_MAX).collect()
            };
            let own = numbers(source);
            if own.is_empty() {
                return Vec::new();
            }
            let others = self.results.iter().rev().filter(|other| !std::ptr::eq(*other, source) && !other.failed);
            let others: Vec<(String, f64)> = others.take(ACROSS_RESULTS_MAX).flat_map(numbers).collect();
            let mut found = Vec::new();
            for (key, value) in &own {
                let (mut total, mut count) = (*value, 1.0);
                for (_, other) in others.iter().filter(|(other, _)| other == key) {
                    (total, count) = (total + other, count + 1.0);
                    found.extend([(value - other).abs(), value + other]);
                }
                found.extend([total, total / count]);
            }
            found
        })
    }

    /// Is it an amount that the result has in cents: `$49.99` of 4999?
    fn in_minor_units(&self, number: &Number, precision: Precision, source: &ToolResult) -> bool {
        let cents = |reading: Interpretation| Interpretation { value: reading.value * 100.0, step: 1.0 };
        let [Some(reading), None] = number.readings else { return false };
        if number.percent || !(reading.step - 0.01).abs().lt(&1e-9) && reading.value.fract() != 0.0 {
            return false;
        }
        let whole =
            source.facts().leaves.iter().any(|leaf| leaf.value.number().is_some_and(|value| value >= 100.0 && value.fract() == 0.0));
        let minor = Number { readings: [Some(cents(reading)), None], unit: None, ..number.clone() };
        let said = || {
            ["cent", "minor", "amount", "price", "total", "pence", "penny", "ore", "grosz"]
                .iter()
                .any(|word| source.folded().contains(word))
        };
        whole && said() && (fits(&minor, precision, &source.facts().numbers) || follows(&minor, precision, source.facts()))
    }

    /// Does `number` stand in any result, or in anything that was said? The first few times it is looked up in each of them: to sort all
    /// of them costs more.
    fn fits_any(&self, number: &Number, precision: Precision) -> bool {
        if self.numbers.get().is_some() || self.looked_up.fetch_add(1, Ordering::Relaxed) >= SINGLE_LOOKUPS_MAX {
            return fits(number, precision, self.numbers());
        }
        let said = self.beginning.as_deref().map_or(&[][..], KnownTexts::said_numbers);
        let each = [said, self.new_said_numbers()].into_iter().chain(self.results.iter().map(|source| &source.facts().numbers[..]));
        each.into_iter().any(|known| fits(number, precision, known))
    }

    /// The numbers of all results and of all that was said, sorted.
    fn numbers(&self) -> &[f64] {
        self.numbers.get_or_init(|| {
            let mut all = self.said_numbers().to_vec();
            all.extend(self.results.iter().flat_map(|source| &source.facts().numbers));
            all.sort_by(f64::total_cmp);
            all.dedup();
            all
        })
    }

    /// The recent results, where they are few enough for an answer to have reckoned with them all.
    fn few(&self) -> impl Iterator<Item = &ToolResult> {
        let recent = self.results.iter().filter(|source| source.recent);
        let few = recent.clone().count() <= FEW;
        recent.filter(move |_| few)
    }

    /// Numbers derived from one of the result and one of the user's: a rate and an amount.
    fn reckoned<'s>(&self, source: &'s ToolResult) -> &'s [f64] {
        let asked = || {
            let values = |number: &Number| number.readings().map(|reading| reading.value).collect::<Vec<f64>>();
            self.asked.numbers().iter().flat_map(values).take(ASKED_OF).collect::<Vec<f64>>()
        };
        source.further().reckoned.get_or_init(|| {
            let mut found = Vec::new();
            for one in self.asked_numbers.get_or_init(asked) {
                let others = source.facts().numbers.iter().take(RECKONED_OF);
                others.for_each(|other| found.extend(made_of(*one, *other)));
            }
            // What was asked for, and what came of it: 82.50 for three.
            for one in ResultFacts::read(&source.arguments).leaves.iter().filter_map(|leaf| leaf.value.number()).take(ASKED_OF) {
                let others = source.facts().numbers.iter().take(RECKONED_OF);
                others.for_each(|other| found.extend(made_of(one, *other)));
            }
            // What the user's own numbers make: 40 shares at 180.
            let own = self.asked_numbers.get_or_init(asked);
            for (at, one) in own.iter().enumerate() {
                for other in own.iter().skip(at + 1) {
                    found.extend(made_of(*one, *other));
                }
            }
            found.retain(|number| number.is_finite());
            found
        })
    }

    /// Does the conversation have this date, or one that is a day apart?
    pub fn has_date(&self, date: &date::Date) -> bool {
        // Where more was compared than an honest answer asks for, no date is found any more.
        let in_bounds = |count: usize| self.compared.fetch_add(count, Ordering::Relaxed) < COMPARED_MAX;
        // Only what has a time may be of another day in another time zone.
        let agrees = |dates: &Dates| {
            let zoned = !dates.times.is_empty();
            in_bounds(dates.dates.len()) && dates.dates.iter().any(|other| date.is(other) || zoned && date.agrees(other))
        };
        let epoch = |facts: &ResultFacts| {
            let of = |number: &f64| [number / 86_400.0, number / 86_400_000.0].map(|days| days.floor() as i64);
            let days = |days: i64| {
                date.readings.iter().flatten().any(|(year, month, day)| {
                    let own = if *year == 0 { date::days(date::civil(days).0, *month, *day) } else { date::days(*year, *month, *day) };
                    (own - days).abs() <= 1
                })
            };
            let from = facts.numbers.partition_point(|number| *number <= 1e8);
            let large = facts.numbers.get(from..).unwrap_or_default();
            in_bounds(large.len()) && large.iter().any(|number| of(number).into_iter().any(days))
        };
        agrees(self.said_dates()) || self.results.iter().any(|source| agrees(&source.facts().dates) || epoch(source.facts()))
    }

    /// Do these words stand anywhere in the conversation?
    pub fn has_words(&self, words: &str, first: &ToolResult) -> bool {
        let folded = fold(words);
        let near = first.folded();
        folded.is_empty() || near.len() <= NEAR_BYTES && stands_in(near, &folded) || self.has_folded(&folded)
    }

    /// Do these folded words stand in what was said besides results?
    pub fn has_said(&self, folded: &str) -> bool {
        self.standing_said.has(&|at: usize| (at == 0).then(|| self.said_folded()), folded, WordForm::Folded)
    }

    fn has_folded(&self, folded: &str) -> bool {
        let text = |at: usize| match at.checked_sub(self.results.len()) {
            None => self.results.get(at).map(|source| source.folded()),
            Some(0) => Some(self.said_folded()),
            Some(_) => None,
        };
        self.standing.has(&text, folded, WordForm::Folded)
    }

    /// Does this address stand in the conversation, or is it made of what stands there?
    pub fn has_address(&self, address: &str) -> bool {
        let plain = url::plain(address);
        let words = |part: &str| self.has_folded(&fold(part));
        plain.is_empty() || self.has_raw(&plain) || url::is_made_of(&plain, self.addresses(), words)
    }

    /// Do these characters stand anywhere in the conversation or in a tool's definition, be it within a word?
    pub fn has_raw(&self, sought: &str) -> bool {
        let text = |at: usize| match at.checked_sub(2 * self.results.len()) {
            None => self.results.get(at / 2).map(|source| if at.is_multiple_of(2) { &*source.text } else { &*source.arguments }),
            Some(at) if at == self.said.len() => Some(self.definitions.as_str()),
            Some(at) => self.said.get(at).map(|said| &**said),
        };
        self.standing_raw.has(&text, sought, WordForm::Parts)
    }

    /// Is this host one of which the conversation has an address?
    pub fn knows_host(&self, host: &str) -> bool {
        url::begins_one(host, self.addresses(), &['/', '?', ':'])
    }

    fn addresses(&self) -> &[String] {
        self.addresses.get_or_init(|| {
            let texts = self.results.iter().map(|source| &*source.text).chain(self.said.iter().map(|said| &**said));
            let read = |text: &str| -> Vec<String> {
                // JSON may escape its slashes.
                let text = if text.contains("\\/") { Cow::Owned(text.replace("\\/", "/")) } else { Cow::Borrowed(text) };
                url::urls(&text).into_iter().filter_map(|span| text.get(span).map(url::plain)).collect()
            };
            let mut known: Vec<String> = texts.flat_map(read).collect();
            known.sort_unstable();
            known.dedup();
            known
        })
    }

    /// Every number that anybody said or called a tool with, sorted.
    pub fn said_numbers(&self) -> &[f64] {
        let Some(known) = self.beginning.as_deref() else { return self.new_said_numbers() };
        self.said_numbers.get_or_init(|| {
            let mut all = [known.said_numbers(), self.new_said_numbers()].concat();
            all.sort_by(f64::total_cmp);
            all
        })
    }

    /// Those that nobody said in [`Self::beginning`], sorted.
    fn new_said_numbers(&self) -> &[f64] {
        self.new_said_numbers.get_or_init(|| {
            let (results, said) = self.beginning.as_deref().map_or((0, 0), |known| (known.results.len(), known.said.len()));
            beginning::said_numbers(&[], self.results.get(results..).unwrap_or_default(), self.said.get(said..).unwrap_or_default())
        })
    }

    /// A tool's definition: JSON text, empty if unknown.
    pub fn definition_of(&self, tool: &str) -> &str {
        let name = format!("\"{tool}\"");
        let Some(at) = self.definitions.find(&name) else { return "" };
        let rest = self.definitions.get(at..).unwrap_or_default();
        let end = rest.find("\"parameters\"").unwrap_or(rest.len()).min(600);
        rest.get(..rest.floor_char_boundary(end)).unwrap_or_default()
    }

    /// Did anybody say this number, or call a tool with it?
    pub fn said_numbers_have(&self, value: f64) -> bool {
        let known = self.said_numbers();
        let from = known.partition_point(|other| *other < value - 1e-9);
        known.get(from).is_some_and(|other| *other <= value + 1e-9)
    }

    /// The dates that anybody said or called a tool with.
    pub fn said_dates(&self) -> &Dates {
        self.said_dates.get_or_init(|| {
            let mut all = Dates::default();
            let texts = self.said.iter().map(|said| &**said).chain(self.results.iter().map(|source| &*source.arguments));
            for found in texts.filter(|text| text.bytes().any(|byte| byte.is_ascii_digit())).map(date::dates) {
                all.dates.extend(found.dates);
                all.times.extend(found.times);
            }
            all
        })
    }

    /// The whole numbers in what was said, each with what follows it.
    pub fn told(&self) -> &[(u64, String)] {
        self.told.get_or_init(|| self.said.iter().flat_map(|said| lists::told(said)).collect())
    }

    /// Texts of earlier answers, folded.
    pub fn answers_folded(&self) -> &[String] {
        self.answers_folded.get_or_init(|| self.answers.iter().map(|answer| fold(answer)).collect())
    }

    /// Texts of the conversation and arguments of calls, folded.
    pub fn said_folded(&self) -> &str {
        self.said_folded.get_or_init(|| {
            let arguments = self.results.iter().map(|source| &*source.arguments);
            let texts: Vec<String> = self.said.iter().map(|said| &**said).chain(arguments).map(fold).collect();
            texts.join(" ")
        })
    }
}

/// Is `number` one of `known` (sorted), rounded, in another unit or magnitude?
pub fn fits(number: &Number, precision: Precision, known: &[f64]) -> bool {
    number.readings().any(|reading| {
        let direct = |scale: f64| is_of(reading, scale, precision, known);
        let percent = number.percent && (direct(0.01) || direct(100.0));
        let magnitude = number.scaled && [1e-3, 1e-4, 1e-6, 1e-8, 1e-9].into_iter().any(direct);
        direct(1.0) || percent || magnitude || converts(number, reading, known)
    })
}

/// What two numbers make that were asked with or stand in a result: product, sum, difference, ratios, and those in percent.
fn made_of(one: f64, other: f64) -> [f64; 7] {
    [one * other, one + other, (one - other).abs(), one / other, other / one, one / other * 100.0, other / one * 100.0]
}

/// Does `number` follow from what a result says: an amount from amounts, a percentage from shares?
pub fn follows(number: &Number, precision: Precision, facts: &ResultFacts) -> bool {
    let derived = facts.derived();
    // An average of percentages is one.
    equals(number, precision, &derived.amounts) || number.percent && equals(number, precision, &derived.percents)
}

/// Is `number` one of `known`, which are in no order, rounded?
pub fn equals(number: &Number, precision: Precision, known: &[f64]) -> bool {
    number.readings().any(|shown| {
        let (share, reach) = reach(shown, precision);
        // Thousands are passed over by this alone.
        let mut around = known.iter().filter(|value| (value.abs() - shown.value).abs() <= reach);
        around.any(|value| shown.rounds(*value) || precision.is_approximate() && shown.nears(*value, share))
    })
}

/// The share that may be missing of a number, and how far one may lie from it that it still stands for.
fn reach(shown: Interpretation, precision: Precision) -> (f64, f64) {
    let share = if precision.is_approximate() { 0.06 } else { 0.0 };
    (share, shown.step.max(shown.value * share * 1.1) + shown.value * 1e-6 + 1e-9)
}

fn is_of(reading: Interpretation, scale: f64, precision: Precision, known: &[f64]) -> bool {
    let shown = Interpretation { value: reading.value * scale, step: reading.step * scale };
    let (share, reach) = reach(shown, precision);
    let from = known.partition_point(|value| *value < shown.value - reach);
    let mut around = known.get(from..).unwrap_or_default().iter().take_while(|value| **value <= shown.value + reach);
    around.any(|value| shown.rounds(*value) || precision.is_approximate() && shown.nears(*value, share))
}

/// Degrees of an oven, in °C or °F, from.
const OVEN_FROM: f64 = 120.0;

/// Is it one of `known` in another unit of the same dimension? What unit a result means, only its reader knows: each is tried.
fn converts(number: &Number, reading: Interpretation, known: &[f64]) -> bool {
    let Some(own) = number.unit else { return false };
    let base = |value: f64, unit: &unit::Unit| value * unit.factor + unit.offset;
    let shown = base(reading.value, own);
    // Half a unit of the last digit, and as much as a rounded factor (1.6 km to the mile) is off.
    // An oven is set in steps of five degrees.
    let step = if own.dimension == "temperature" && reading.step >= 1.0 && reading.value >= OVEN_FROM && reading.value % 5.0 == 0.0 {
        5.0
    } else {
        reading.step
    };
    let slack = step * own.factor * 0.51 + if own.offset == 0.0 { shown.abs() * 0.006 } else { 0.02 };
    unit::siblings(own).any(|unit| {
        let least = (shown - slack - unit.offset) / unit.factor;
        let most = (shown + slack - unit.offset) / unit.factor;
        let within = |least: f64, most: f64| {
            let from = known.partition_point(|value| *value < least);
            known.get(from).is_some_and(|value| *value <= most)
        };
        within(least, most) || within(-most, -least)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grounds(text: &str, said: &str) -> EvidenceIndex {
        EvidenceIndex::new(vec![ToolResult::new("t", "{}", text)], vec![said.into()], said.into())
    }

    #[test]
    fn what_only_lists_records() {
        for (tool, arguments, result, lists) in [
            ("yayin_akisi", r#"{"gun":"27"}"#, r#"[{"saat":"19:00"},{"saat":"20:00"}]"#, true),
            ("horarios", r#"{"sala":"B2"}"#, r#"{"sala":"B2","dias":["12-01","12-08"],"limite":3}"#, true),
            ("horarios", "{}", "dia;hora\n1;9:00\n2;10:00", true),
            // An outcome beside the list: a text, a flag, a state, what failed.
            ("horarios", "{}", r#"{"mensagem":"guardado","dias":["12-01","12-08"]}"#, false),
            ("horarios", "{}", r#"{"guardado":true,"dias":["12-01","12-08"]}"#, false),
            ("horarios", "{}", r#"[{"dia":1,"status":"created"},{"dia":2,"status":"created"}]"#, false),
            ("horarios", "{}", r#"{"feitos":["a","b"],"errors":["c","d"]}"#, false),
            ("horarios", "{}", r#"{"dia":"12-01"}"#, false),
            // Its name tells what it does.
            ("add_shift", "{}", r#"[{"day":1},{"day":2}]"#, false),
        ] {
            assert_eq!(ToolResult::new(tool, arguments, result).lists_records(), lists, "{tool} {result}");
        }
        // As many lists as a hostile result has: each is looked at once.
        let many: Vec<String> = (0..9000).map(|at| format!(r#""a{at}":["x","y"]"#)).collect();
        assert!(ToolResult::new("horarios", "{}", &format!("{{{}}}", many.join(","))).lists_records());
    }

    #[test]
    fn numbers_that_stand_on_something() {
        let grounds =
            grounds(r#"{"temp_c":21.4,"distance_m":5300,"share":0.42,"users":1234567,"prices":[10,20,30]}"#, "100 dollars at 14 percent");
        for (said, stands) in [
            ("21.4 °C", true),
            ("21 degrees", true),
            ("70.5 °F", true),
            ("5.3 km", true),
            ("3.3 miles", true),
            ("42%", true),
            ("1.2 million", true),
            ("60", true),
            ("100", true),
            ("25.5 °C", false),
            ("7.7 km", false),
            ("57%", false),
            ("2.4 million", false),
            ("873", false),
        ] {
            let number = &number::numbers(said)[0];
            assert_eq!(grounds.has_number(number, Precision::Exact, &grounds.results[0]), stands, "{said}");
        }
    }

    #[test]
    fn dates_and_addresses() {
        let grounds = grounds(r#"{"due":"2025-05-03T22:30:00Z","at":1746311400,"url":"https:\/\/a.io\/b"}"#, "see https://c.io/d");
        let date = |text: &str| date::dates(text).dates.remove(0);
        assert!(grounds.has_date(&date("May 4, 2025")) && !grounds.has_date(&date("May 14, 2025")));
        let wiki = ToolResult::new("t", "{}", "https://a.io/Rust_(language)");
        assert!(EvidenceIndex::new(vec![wiki], Vec::new(), "".into()).has_address("https://a.io/Rust_%28language%29"));
        assert!(
            grounds.has_address("https://c.io/d") && grounds.has_address("http://www.a.io/b/") && !grounds.has_address("https://a.io/x")
        );
    }
}
