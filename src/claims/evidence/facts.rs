//! What one result says: its values, lists and numbers, so that claims can be compared with it. Pure.
//!
//! A JSON result is read as such, JSON in its strings too (MCP puts it there); any other text by its lines: `key: value`,
//! list items, rows. A result too large to be read whole is `partial`: nothing is held against it.

use std::{borrow::Cow, collections::BTreeMap, sync::OnceLock};

use bytes::Bytes;

use super::{
    derive::{self, Derived},
    markup,
};
use crate::{
    evidence::{csv, table},
    language::{
        date::{self, Dates},
        fold::{akin, fold, key, name_words},
        lexicon::Word,
        number::{self, Number, numbers},
        unit,
    },
};
use toolmark_base::wire::json::{DEPTH_MAX, Document, Kind, Value};

/// Bytes that a date or a time takes, about.
const DATE_BYTES: usize = 64;
/// Bytes of a result that are read.
const RESULT_BYTES_MAX: usize = 512 << 10;
/// Values kept of one result.
pub const LEAVES_MAX: usize = 20_000;
/// Values whose keys are looked at.
const KEYS_OF: usize = 500;
/// Values among which spans of time are looked for.
const SPANS_OF: usize = 500;
/// Spans of time after which no further ones are looked for.
const SPANS_MAX: usize = 64;
/// Bytes of a text that is a span of time for its key's sake: `3-5` of `working_days`.
const SPAN_BYTES_MAX: usize = 12;
/// Bytes of a number with its unit.
const MEASURE_BYTES_MAX: usize = 24;
/// Numbers of a line that are taken for its columns.
const MEMBERS_MAX: usize = 4;
/// Maximum depth to which JSON inside strings is read.
const NESTED_MAX: usize = 3;
/// Lines of a text that is no JSON.
const LINES_MAX: usize = 5000;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Scalar {
    /// A number.
    Number(f64),
    /// A string.
    Text(String),
    /// `true` or `false`.
    Flag(bool),
    /// `null`
    Null,
}

/// A value with its name.
#[derive(Clone, Debug)]
pub struct NamedValue {
    /// Its member's name as one key; that of the list where it is an element.
    pub key: String,
    /// Number of the object that it is a member of, counted from 1; 0 for none.
    pub object: usize,
    /// Number of the record that it belongs to: the innermost element of a list that it lies in, numbered from 1; 0 for none.
    pub record: usize,
    /// It.
    pub value: Scalar,
}

/// Letters of a word that may name a member.
const NAME_CHARS: usize = 4;

impl NamedValue {
    /// True if the word is the name of its member, or of one stem with it.
    pub fn is_named_by(&self, word: &Word) -> bool {
        let own = word.folded();
        own.chars().count() >= NAME_CHARS && (own == self.key || akin(&own, &self.key))
    }
}

/// A list.
#[derive(Clone, Debug)]
pub struct ResultList {
    /// Its member's name in words; none at the top.
    pub words: Vec<String>,
    /// Its elements.
    pub length: usize,
    /// Number of lists around it.
    pub depth: usize,
    /// Its elements are objects or strings, not numbers.
    pub of_things: bool,
}

/// Values of a result, read once.
#[derive(Debug, Default)]
pub struct ResultFacts {
    /// Values in their order.
    pub leaves: Vec<NamedValue>,
    /// Lists in their order.
    pub lists: Vec<ResultList>,
    /// Every number in it, without signs, sorted.
    pub numbers: Vec<f64>,
    /// Dates and times in its strings.
    pub dates: Dates,
    /// It is JSON.
    pub json: bool,
    /// It is XML.
    pub markup: bool,
    /// Not all of it was read.
    pub partial: bool,
    /// The number of objects.
    pub objects: usize,
    /// Elements of lists that are objects or lists themselves, rows of tables, lines of a listing: of each the record it lies in.
    pub records: Vec<usize>,
    /// The lines of a text that is no JSON, blank ones left out.
    pub lines: usize,
    /// Bytes of memory that all of the above takes.
    read_bytes: usize,
    derived: OnceLock<Derived>,
    counts: OnceLock<Vec<u64>>,
    folded: OnceLock<String>,
    keys: OnceLock<Vec<String>>,
    spans: OnceLock<Vec<f64>>,
    measures: OnceLock<Vec<Measure>>,
}

/// A text that is a number with its unit: `410Mi`.
#[derive(Clone, Copy, Debug)]
struct Measure {
    /// Its place among the values.
    leaf: usize,
    number: f64,
    /// The place of its unit, in bytes.
    unit: usize,
}

/// The member of an object that holds rows, and the names of their columns, where the object has both.
fn columns(object: Value<'_>) -> Option<(String, Vec<String>)> {
    if object.members().filter(|member| member.value.is_array()).take(2).count() < 2 {
        return None;
    }
    let list = |name: &str| object.get(name).filter(|value| value.is_array());
    let names: Vec<String> = ["columns", "headers", "header", "fields", "column_names"]
        .into_iter()
        .find_map(list)?
        .items()
        .filter_map(|name| name.text().map(Cow::into_owned).or_else(|| name.get("name")?.text().map(Cow::into_owned)))
        .collect();
    let rows = ["rows", "data", "values", "records", "results"]
        .into_iter()
        .find(|name| list(name).is_some_and(|rows| rows.items().all(|row| row.is_array() && row.items().count() == names.len())))?;
    (!names.is_empty()).then(|| (rows.to_owned(), names))
}

fn bytes_of_texts(texts: &[String]) -> usize {
    texts.iter().map(|text| text.capacity() + size_of::<String>()).sum()
}

/// Place of a value in a result.
#[derive(Clone, Copy, Debug, Default)]
struct Within {
    object: usize,
    record: usize,
    /// Lists around it.
    depth: usize,
}

impl ResultFacts {
    /// Bytes of memory that they take.
    pub fn bytes(&self) -> usize {
        let derived = self.derived.get().map_or(0, |derived| {
            derived.plain.capacity() + derived.amounts.capacity() + derived.percents.capacity() + derived.ratios.capacity()
        });
        let words = (self.counts.get().map_or(0, Vec::len) + self.spans.get().map_or(0, Vec::len) + derived) * 8
            + self.measures.get().map_or(0, Vec::len) * size_of::<Measure>();
        self.read_bytes + words + self.folded.get().map_or(0, String::capacity) + self.keys.get().map_or(0, |keys| bytes_of_texts(keys))
    }

    fn counted_bytes(&self) -> usize {
        let leaf = |leaf: &NamedValue| leaf.key.capacity() + if let Scalar::Text(text) = &leaf.value { text.capacity() } else { 0 };
        let lists: usize = self.lists.iter().map(|list| size_of::<ResultList>() + bytes_of_texts(&list.words)).sum();
        let dates = (self.dates.dates.capacity() + self.dates.times.capacity()) * DATE_BYTES;
        let words = (self.numbers.capacity() + self.records.capacity()) * 8;
        self.leaves.capacity() * size_of::<NamedValue>() + self.leaves.iter().map(leaf).sum::<usize>() + lists + dates + words
    }

    /// Reads a result.
    pub fn read(text: &str) -> Self {
        let mut facts = ResultFacts::default();
        let cut = text.get(..text.floor_char_boundary(RESULT_BYTES_MAX)).unwrap_or(text);
        facts.partial = cut.len() < text.len();
        if let Some(document) = parse(cut) {
            facts.json = !document.root().is_string();
            facts.value(document.root(), "", Within::default(), 0);
        } else if let Some(document) = markup::as_json(cut).and_then(|json| parse(&json)) {
            facts.markup = true;
            facts.value(document.root(), "", Within::default(), 0);
        } else {
            facts.lines(cut);
        }
        facts.numbers.sort_by(f64::total_cmp);
        facts.numbers.dedup();
        facts.read_bytes = facts.counted_bytes();
        facts
    }

    /// Numbers that follow from others in it: sums, differences, shares, averages, numbers of things.
    pub fn derived(&self) -> &Derived {
        self.derived.get_or_init(|| derive::derived(self))
    }

    /// Every number of things that it may be said to have.
    pub fn counts(&self) -> &[u64] {
        self.counts.get_or_init(|| derive::counts(self))
    }

    /// Its text folded for comparison, `text` being what it was read from.
    pub fn folded(&self, text: &str) -> &str {
        self.folded.get_or_init(|| fold(text))
    }

    /// Its spans of time, in whatever unit it has them: numbers whose key names a unit of time, and numbers of its texts that have one.
    pub fn spans(&self) -> &[f64] {
        self.spans.get_or_init(|| {
            let mut found = Vec::new();
            for leaf in self.leaves.iter().take(SPANS_OF) {
                if found.len() >= SPANS_MAX {
                    break;
                }
                match &leaf.value {
                    Scalar::Number(number) if unit::is_key_of_time(&leaf.key) => found.push(*number),
                    Scalar::Text(text) if text.bytes().any(|byte| byte.is_ascii_digit()) => {
                        let named = text.len() <= SPAN_BYTES_MAX && unit::is_key_of_time(&leaf.key);
                        let spans = numbers(text).into_iter();
                        let spans = spans.filter(|number| named || number.unit.is_some_and(|unit| unit.dimension == "time"));
                        found.extend(spans.filter_map(|number| number.readings().next()).map(|reading| reading.value));
                    }
                    _ => {}
                }
            }
            found.sort_by(f64::total_cmp);
            found.dedup();
            found
        })
    }

    /// The keys of the first values, each once.
    pub fn keys(&self) -> &[String] {
        self.keys.get_or_init(|| {
            let mut keys: Vec<String> = self.leaves.iter().take(KEYS_OF).map(|leaf| leaf.key.clone()).collect();
            keys.sort_unstable();
            keys.dedup();
            keys
        })
    }

    /// It says of each value what it is of: JSON or XML.
    pub fn is_structured(&self) -> bool {
        self.json || self.markup
    }

    /// The values of this key.
    pub fn of_key<'f>(&'f self, key: &'f str) -> impl Iterator<Item = &'f NamedValue> {
        self.leaves.iter().filter(move |leaf| leaf.key == key)
    }

    /// The numbers by key, of keys that stand more than once. `410Mi` and `95Mi` are numbers too, as far as their unit is one.
    pub fn columns(&self) -> BTreeMap<&str, Vec<f64>> {
        self.columns_of(|_, number| number)
    }

    /// The columns, of each number what `of` makes of the record it lies in and of itself.
    pub fn columns_of<T>(&self, of: impl Fn(usize, f64) -> T) -> BTreeMap<&str, Vec<T>> {
        let mut columns: BTreeMap<&str, (&str, Vec<T>)> = BTreeMap::new();
        let mut measures = self.measures().iter().peekable();
        for (at, leaf) in self.leaves.iter().enumerate() {
            let measure = measures.next_if(|measure| measure.leaf == at);
            let (number, unit) = match (measure, &leaf.value) {
                (Some(measure), Scalar::Text(text)) => (measure.number, text.get(measure.unit..).unwrap_or_default()),
                (_, value) => match value.number() {
                    Some(number) => (number, ""),
                    None => continue,
                },
            };
            let column = columns.entry(&leaf.key).or_insert((unit, Vec::new()));
            if column.0 == unit {
                column.1.push(of(leaf.record, number));
            }
        }
        columns.into_iter().filter(|(_, (_, numbers))| numbers.len() > 1).map(|(key, (_, numbers))| (key, numbers)).collect()
    }

    /// Its texts that are numbers with a unit, in their order.
    fn measures(&self) -> &[Measure] {
        self.measures.get_or_init(|| {
            let measured = |(leaf, named): (usize, &NamedValue)| {
                let Scalar::Text(text) = &named.value else { return None };
                if text.len() > MEASURE_BYTES_MAX || !text.starts_with(|c: char| c.is_ascii_digit()) {
                    return None;
                }
                let [number] = <[Number; 1]>::try_from(numbers(text)).ok()?;
                let [Some(reading), None] = number.readings else { return None };
                let whole = number.span.start == 0 && number.end == text.len() && number.unit.is_some();
                whole.then_some(Measure { leaf, number: reading.value, unit: number.span.end })
            };
            self.leaves.iter().enumerate().filter_map(measured).collect()
        })
    }

    /// It has values at all, besides `null`, empty strings and flags.
    pub fn says_something(&self) -> bool {
        self.leaves.iter().any(|leaf| match &leaf.value {
            Scalar::Number(_) => true,
            Scalar::Text(text) => !text.trim().is_empty(),
            Scalar::Flag(_) | Scalar::Null => false,
        })
    }

    // INVARIANT: a document's depth is bounded, and so is how often one may lie in another.
    fn value(&mut self, value: Value<'_>, name: &str, within: Within, nested: usize) {
        if self.leaves.len() >= LEAVES_MAX || self.lists.len() >= LEAVES_MAX {
            self.partial = true;
            return;
        }
        match value.kind() {
            Kind::Null => self.leaf(name, within, Scalar::Null),
            Kind::True | Kind::False => self.leaf(name, within, Scalar::Flag(value.kind() == Kind::True)),
            Kind::Number => {
                let number = number(value);
                self.numbers.push(number.abs());
                self.leaf(name, within, Scalar::Number(number));
            }
            Kind::Plain | Kind::Escaped => self.text(&value.text().unwrap_or_default(), name, within, nested),
            Kind::Array => {
                let (mut length, mut of_things) = (0, true);
                for item in value.items() {
                    length += 1;
                    of_things &= item.is_object() || item.is_string() || item.is_array();
                }
                self.lists.push(ResultList { words: name_words(name), length, depth: within.depth, of_things });
                for item in value.items() {
                    let record = if item.is_object() || item.is_array() { self.record(within.record) } else { within.record };
                    self.value(item, name, Within { record, depth: within.depth + 1, ..within }, nested);
                }
            }
            Kind::Object => {
                self.objects += 1;
                let own = self.objects;
                let map = self.map(value, name, within.depth);
                let columns = columns(value);
                for member in value.members() {
                    let name = member.name();
                    if let Some((_, names)) = columns.as_ref().filter(|(rows, _)| *rows == name) {
                        self.rows(member.value, names, Within { object: own, ..within }, nested);
                        continue;
                    }
                    let mut within = Within { object: own, ..within };
                    if map {
                        within.record = self.record(within.record);
                        self.leaf("name", within, Scalar::Text(name.clone().into_owned()));
                    }
                    self.value(member.value, &name, within, nested);
                }
            }
        }
    }

    /// Rows of values whose names stand in a list beside them: `{"columns": [...], "rows": [[...], ...]}`.
    fn rows(&mut self, rows: Value<'_>, names: &[String], within: Within, nested: usize) {
        self.lists.push(ResultList { words: vec!["rows".to_owned()], length: rows.items().count(), depth: within.depth, of_things: true });
        for row in rows.items() {
            self.objects += 1;
            let within = Within { object: self.objects, record: self.record(within.record), depth: within.depth + 1 };
            for (item, name) in row.items().zip(names) {
                self.value(item, name, within, nested);
            }
        }
    }

    /// An object whose members are things of one kind, by their names, is a list of them.
    fn map(&mut self, object: Value<'_>, name: &str, depth: usize) -> bool {
        let length = object.members().count();
        let map = length > 1 && object.members().all(|member| member.value.is_object());
        if map {
            self.lists.push(ResultList { words: name_words(name), length, depth, of_things: true });
            let names: Vec<f64> = object.members().flat_map(|member| number::values(&member.name())).collect();
            self.numbers.extend(names);
        }
        map
    }

    fn leaf(&mut self, name: &str, within: Within, value: Scalar) {
        self.leaves.push(NamedValue { key: key(name), object: within.object, record: within.record, value });
    }

    /// The number of a new record that lies in `parent`.
    fn record(&mut self, parent: usize) -> usize {
        self.records.push(parent);
        self.records.len()
    }

    /// Does this record lie in `outer`, or is it that?
    pub fn lies_in(&self, record: usize, outer: usize) -> bool {
        let mut at = record;
        while at != outer && at > 0 {
            // INVARIANT: a record lies in one with a smaller number.
            at = self.records.get(at - 1).copied().unwrap_or(0);
        }
        at == outer
    }

    fn text(&mut self, text: &str, name: &str, within: Within, nested: usize) {
        let trimmed = text.trim_start();
        if nested < NESTED_MAX
            && trimmed.starts_with(['{', '['])
            && let Some(inner) = parse(trimmed)
        {
            self.json = true;
            return self.value(inner.root(), name, within, nested + 1);
        }
        self.words(text);
        if within.object == 0 && text.contains('\n') {
            return self.lines(text);
        }
        self.leaf(name, within, Scalar::Text(text.to_owned()));
    }

    /// The numbers and dates of a string.
    fn words(&mut self, text: &str) {
        if !text.bytes().any(|byte| byte.is_ascii_digit()) || is_name(text) {
            return;
        }
        self.numbers.extend(number::values(text));
        self.numbers.extend(sizes(text));
        self.numbers.extend(durations(text));
        if text.contains(',') {
            let listings = text.lines().take(LINES_MAX).filter(|line| csv::is_listing(line));
            // Each value apart: what joins `120,19.90` to one number joins nothing across lines.
            let parted: Vec<f64> = listings.flat_map(|line| number::values(&line.replace(',', "\n"))).collect();
            self.numbers.extend(parted);
        }
        let found = date::dates(text);
        self.dates.dates.extend(found.dates);
        self.dates.times.extend(found.times);
    }

    /// A table's rows, as a list of objects.
    fn table(&mut self, names: &[&str], rows: &[Vec<&str>]) {
        self.lists.push(ResultList { words: Vec::new(), length: rows.len(), depth: 0, of_things: true });
        for row in rows {
            if self.leaves.len() + row.len() > LEAVES_MAX {
                self.partial = true;
                return;
            }
            self.objects += 1;
            let within = Within { object: self.objects, record: self.record(0), depth: 1 };
            for (name, field) in names.iter().zip(row) {
                let value = scalar(&decimal(field));
                self.numbers.extend(value.number().map(f64::abs));
                self.leaf(name, within, value);
            }
        }
    }

    /// The rows of a table whose columns stand below their names.
    fn aligned(&mut self, table: &table::TextTable<'_>) {
        self.lists.push(ResultList { words: Vec::new(), length: table.rows.len(), depth: 0, of_things: true });
        for (_, row) in &table.rows {
            if self.leaves.len() + row.len() > LEAVES_MAX {
                self.partial = true;
                return;
            }
            self.objects += 1;
            let within = Within { object: self.objects, record: self.record(0), depth: 1 };
            for (column, field) in row {
                let value = amount(field);
                self.numbers.extend(value.number().map(f64::abs));
                self.leaf(table.names.get(*column).copied().unwrap_or_default(), within, value);
            }
        }
    }

    /// The numbers of a line without names, as members of its record: `worker-1  71  ok`.
    fn members(&mut self, line: &str, within: Within) {
        let dates = date::dates(line);
        let taken = |span: &std::ops::Range<usize>| {
            let mut spans = dates.dates.iter().map(|date| &date.span).chain(dates.times.iter().map(|time| &time.span));
            spans.any(|own| own.start < span.end && span.start < own.end)
        };
        let found = numbers(line);
        let free = found.iter().filter(|number| !number.ordinal && !taken(&number.span));
        for (at, number) in free.take(MEMBERS_MAX).enumerate() {
            if let Some(reading) = number.readings().next() {
                self.leaf(&format!("column {at}"), within, Scalar::Number(reading.value));
            }
        }
    }

    /// A text that is no JSON.
    fn lines(&mut self, text: &str) {
        self.words(text);
        if let Some((names, rows)) = csv::read(text) {
            return self.table(&names, &rows);
        }
        let (mut items, mut rows) = (0, 0);
        let mut separator = false;
        let all: Vec<&str> = text.lines().take(LINES_MAX).collect();
        // What a table below names has is read as records.
        let table = table::aligned(&all).or_else(|| csv::within(&all));
        if let Some(table) = &table {
            self.aligned(table);
        }
        let of_table = |at: usize| {
            table.as_ref().is_some_and(|table| table.head == at || table.rows.binary_search_by_key(&at, |(line, _)| *line).is_ok())
        };
        // Records of the blocks, each with the number of its object.
        let blocks = if table.is_none() { table::blocks(&all) } else { None };
        let count = blocks.iter().flatten().copied().max().unwrap_or(0);
        let records: Vec<Within> = (0..count)
            .map(|_| {
                self.objects += 1;
                Within { object: self.objects, record: self.record(0), depth: 1 }
            })
            .collect();
        if count > 0 {
            self.lists.push(ResultList { words: Vec::new(), length: count, depth: 0, of_things: true });
        }
        let of_block = |at: usize| -> Option<Within> {
            let block = *blocks.as_ref()?.get(at)?;
            records.get(block.checked_sub(1)?).copied()
        };
        for (at, line) in all.iter().enumerate() {
            if of_table(at) {
                self.lines += 1;
                continue;
            }
            let bare = line.trim();
            self.lines += usize::from(!bare.is_empty());
            let item = bare.trim_start_matches(['-', '*', '•', '–']).trim_start();
            let digits = item.bytes().take_while(u8::is_ascii_digit).count();
            let numbered = digits > 0 && item.get(digits..).is_some_and(|rest| rest.starts_with(". ") || rest.starts_with(") "));
            items += usize::from(item.len() < bare.len() || numbered);
            separator |= bare.starts_with('|') && bare.contains("---");
            rows += usize::from(separator && bare.starts_with('|') && !bare.contains("---"));
            match table::pair(line) {
                Some((name, value)) => {
                    let name = name.trim_matches(['*', '"', '\'', '`', ' ']);
                    self.leaf(name, of_block(at).unwrap_or_default(), scalar(value.trim().trim_end_matches(',')));
                }
                None if !bare.is_empty() => {
                    let within = Within { record: self.record(0), ..Within::default() };
                    self.leaf("", within, Scalar::Text(item.to_owned()));
                    self.members(item, within);
                }
                None => {}
            }
        }
        for length in [items, rows].into_iter().filter(|length| *length > 0) {
            self.lists.push(ResultList { words: Vec::new(), length, depth: 0, of_things: true });
        }
    }
}

impl Scalar {
    /// The number that it is, also as a string without anything else.
    pub fn number(&self) -> Option<f64> {
        match self {
            Scalar::Number(number) => Some(*number),
            Scalar::Text(text) => finite(text.trim()),
            Scalar::Flag(_) | Scalar::Null => None,
        }
    }

    /// As it is shown.
    pub fn shown(&self) -> String {
        match self {
            Scalar::Number(number) => number.to_string(),
            Scalar::Text(text) => text.clone(),
            Scalar::Flag(flag) => flag.to_string(),
            Scalar::Null => "null".to_owned(),
        }
    }
}

/// The finite number that a text is. Most texts are told to be none by their first letter.
fn finite(text: &str) -> Option<f64> {
    let begins = text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.'));
    if begins { text.parse().ok().filter(|number: &f64| number.is_finite()) } else { None }
}

/// A value as it is written without quotes.
pub fn scalar(word: &str) -> Scalar {
    let word = word.trim().trim_matches(['"', '\'', '`']);
    match word {
        "true" | "True" | "TRUE" => Scalar::Flag(true),
        "false" | "False" | "FALSE" => Scalar::Flag(false),
        "null" | "None" | "nil" | "undefined" => Scalar::Null,
        _ => finite(word).map_or_else(|| Scalar::Text(word.to_owned()), Scalar::Number),
    }
}

/// A cell of a table with thousands parted, as a number.
pub fn amount(text: &str) -> Scalar {
    let plain = scalar(text);
    let digits = text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b',' | b'.' | b'-' | b'+' | b'\'' | b' '));
    if plain.number().is_some() || !digits {
        return plain;
    }
    let all = numbers(text);
    match all.as_slice() {
        [one] => one
            .readings()
            .next()
            .map_or(plain, |reading| Scalar::Number(if text.starts_with('-') { -reading.value } else { reading.value })),
        _ => plain,
    }
}

/// A field of a table, a decimal comma as a point.
fn decimal(field: &str) -> Cow<'_, str> {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    match field.split_once(',') {
        Some((whole, part)) if digits(whole.trim_start_matches('-')) && digits(part) && part.len() != 3 => {
            Cow::Owned(format!("{whole}.{part}"))
        }
        _ => Cow::Borrowed(field),
    }
}

/// True for a name with a long number at its end, as `ord_20481`: it has neither numbers nor dates, as [`numbers`] and [`date::dates`] read it.
fn is_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    let digits = bytes.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let letters = bytes.get(..bytes.len() - digits).unwrap_or_default();
    // A day and a month, or an hour, have two digits at most.
    digits > 2 && !letters.is_empty() && letters.iter().all(|byte| byte.is_ascii_alphabetic() || *byte == b'_')
}

/// A text as JSON, if it is that.
fn parse(text: &str) -> Option<Document> {
    parse_to(text, DEPTH_MAX)
}

/// A text as JSON, if it is that, with its values down to `depth`; 0 is the root.
pub fn parse_to(text: &str, depth: usize) -> Option<Document> {
    Document::parse_noting(Bytes::copy_from_slice(text.as_bytes()), depth, &[]).ok()
}

/// The value of a JSON number; 0 for one that is too large.
pub fn number(value: Value<'_>) -> f64 {
    value.raw_str().parse().ok().filter(|number: &f64| number.is_finite()).unwrap_or_default()
}

/// Figures of an amount of data, and letters and figures of a span of time.
const SIZE_FIGURES_MAX: usize = 12;
const DURATION_CHARS: std::ops::RangeInclusive<usize> = 4..=16;

/// Amounts of data as `du`, `df` and `top` write them: `840G`, `2.9T`, `512K`; each as it is written, and in bytes.
fn sizes(text: &str) -> Vec<f64> {
    let mut found = Vec::new();
    let bytes = text.as_bytes();
    for (letter, power) in [(b'K', 1), (b'M', 2), (b'G', 3), (b'T', 4)] {
        for at in memchr::memchr_iter(letter, bytes).take(number::NUMBERS_MAX) {
            let figure = |byte: &&u8| byte.is_ascii_digit() || matches!(byte, b'.' | b',');
            let length = bytes.get(..at).unwrap_or_default().iter().rev().take(SIZE_FIGURES_MAX).take_while(figure).count();
            let ends = bytes.get(at + 1).is_none_or(|byte| !byte.is_ascii_alphanumeric());
            let begins = at.checked_sub(length + 1).and_then(|before| bytes.get(before)).is_none_or(|byte| !byte.is_ascii_alphanumeric());
            let figures = text.get(at - length..at).filter(|figures| ends && begins && !figures.is_empty());
            let Some(value) = figures.and_then(|figures| figures.replace(',', "").parse::<f64>().ok()) else { continue };
            found.extend([value, value * 1000_f64.powi(power), value * 1024_f64.powi(power)]);
        }
    }
    found
}

/// Spans of time as programs write them, in seconds and in minutes: `1m12s`, `2h05m`, `1m07.250s`.
fn durations(text: &str) -> Vec<f64> {
    let mut found = Vec::new();
    let words = text
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '.'))
        .map(|word| word.trim_matches('.'))
        .filter(|word| DURATION_CHARS.contains(&word.len()) && word.ends_with(['s', 'm']));
    for word in words.filter(|word| word.starts_with(|c: char| c.is_ascii_digit())).take(number::NUMBERS_MAX) {
        let (mut seconds, mut parts, mut digits, mut step) = (0.0, 0, 0.0, 1.0);
        for c in word.chars() {
            let factor = match c {
                '0'..='9' if step < 1.0 => {
                    digits += f64::from(c.to_digit(10).unwrap_or(0)) * step;
                    step /= 10.0;
                    continue;
                }
                '0'..='9' => {
                    digits = digits * 10.0 + f64::from(c.to_digit(10).unwrap_or(0));
                    continue;
                }
                '.' if step == 1.0 => {
                    step = 0.1;
                    continue;
                }
                'h' => 3600.0,
                'm' => 60.0,
                's' => 1.0,
                _ => {
                    parts = 0;
                    break;
                }
            };
            (seconds, digits, step, parts) = (seconds + digits * factor, 0.0, 1.0, parts + 1);
        }
        if parts > 1 {
            found.extend([seconds, seconds / 60.0]);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_as_programs_write_them() {
        let facts = ResultFacts::read("840G /vol1/photos\n1,840G /vol1\nstage build: ok (1m12s)\ndeck 3 112.2 t");
        for value in [840.0, 840e9, 1840.0, 72.0, 1.2, 112.2] {
            assert!(facts.numbers.contains(&value), "{value}");
        }
        assert!(sizes("MEGA G4 3M9").is_empty() && durations("forms 12 items 9m").is_empty());
        assert!(durations(&format!("{}m1s", "9".repeat(400))).is_empty());
        assert_eq!(durations("1m07.250s. 1.2.3s"), [67.25, 67.25 / 60.0]);
    }

    #[test]
    fn json_results() {
        let facts = ResultFacts::read(
            r#"{"players":[{"name":"Ann","points":12},{"name":"Bob","points":"7"}],"meta":{"took":"93 ms","when":"2025-05-03T10:00:00Z"},"raw":"{\"total\": 57}"}"#,
        );
        assert!(facts.json && !facts.partial);
        assert_eq!(facts.lists.len(), 1);
        assert_eq!((facts.lists[0].words.as_slice(), facts.lists[0].length), (&["players".to_owned()][..], 2));
        assert_eq!(facts.columns()["points"], [12.0, 7.0]);
        assert_eq!(facts.of_key("total").count(), 1);
        assert!(facts.numbers.contains(&93.0) && facts.numbers.contains(&57.0));
        assert_eq!(facts.dates.dates.len(), 1);
    }

    #[test]
    fn a_long_name_takes_its_bytes_once() {
        let (name, values) = ("k".repeat(150_000), vec!["1"; 15_000].join(","));
        let facts = ResultFacts::read(&format!(r#"{{"{name}":[{values}]}}"#));
        assert_eq!(facts.leaves.len(), 15_000);
        assert!(facts.bytes() < 8 << 20, "{} bytes", facts.bytes());
        let header = format!("{name},b\n{}", "1,2\n".repeat(4_000));
        assert!(ResultFacts::read(&header).bytes() < 8 << 20);
    }

    #[test]
    fn spans_of_time() {
        let facts = ResultFacts::read(
            r#"{"appeal_period_days":30,"garantie_jaar":2,"停留天数":90,"price":14,"takes":"12 minutes","is_gunu":"3-5"}"#,
        );
        assert_eq!(facts.spans(), [2.0, 3.0, 5.0, 12.0, 30.0, 90.0]);
    }

    #[test]
    fn other_results() {
        let facts = ResultFacts::read("Temperature: 21\nWind: 5 km/h\n\n- a\n- b\n- c\n");
        assert_eq!(facts.of_key("temperature").count(), 1);
        assert_eq!(facts.lists.iter().map(|list| list.length).collect::<Vec<_>>(), [3]);
        let table = ResultFacts::read("sku,name,stock,price\n1001,Lamp,120,19.90\n1002,Desk,4,249\n");
        assert_eq!((table.lists[0].length, table.columns()["stock"].as_slice()), (2, &[120.0, 4.0][..]));
        assert!([120.0, 19.9, 249.0].iter().all(|number| table.numbers.contains(number)));
        let many = ResultFacts::read(&format!("a,b\n{}", "1,2\n".repeat(LEAVES_MAX)));
        assert!(many.partial && many.leaves.len() <= LEAVES_MAX);
        for name in ["ord_20481", "may_2025", "a123", "_1999"] {
            assert!(is_name(name) && numbers(name).is_empty() && date::dates(name) == Dates::default(), "{name}");
        }
        assert!(["12345", "may12", "a-123", "a1b234", "ord_20481 ", "é123", ""].iter().all(|other| !is_name(other)));
        assert!(ResultFacts::read("").leaves.is_empty() && !ResultFacts::read("null").says_something());
    }
}
