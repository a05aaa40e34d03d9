//! Values of a passage that belong together in it, and in no record of the results: "Noah – 9" where Ann has 9. Pure.
//!
//! A passage is read clause by clause. What a clause names of one record (a name, an id, a citation of its result) and what it tells
//! (numbers, dates, times, words of other columns) must stand in one record, or follow from that record's own values.

use std::ops::Range;

use crate::{
    checks::{states, values},
    context::{CheckContext, CitationScope, ClaimFinding},
    evidence::{
        self, ToolResult, failure, reckon,
        rows::{Cell, ROWS_MAX, Row},
    },
    language::{
        changes, cues,
        fold::{fold, folded, name_words, stands_in, words_of},
        lexicon::{self, Word},
        number::{Number, Precision},
        polarity::negation,
        word_list::WordList,
    },
    passage::Kind,
};
use toolmark_base::violation::{Certainty, Code};

/// Numbers of a record that may be told for another amount.
const RESCALED_OF: usize = 12;
/// Words that begin another clause, beside conjunctions, in any language.
static SUBORDINATES: WordList = WordList::new(&[
    "while",
    "whereas",
    "während",
    "sowie",
    "tandis",
    "mientras",
    "mentre",
    "enquanto",
    "terwijl",
    "a",
    "oraz",
    "ise",
    "जबकि",
    "और",
]);
/// Words of a comparison: what stands beside them is another record's.
static COMPARES: WordList = WordList::new(&[
    "than",
    "versus",
    "vs",
    "compared",
    "against",
    "instead",
    "ahead",
    "behind",
    "above",
    "below",
    "before",
    "after",
    "from",
    "previously",
    "both",
    "respectively",
    "together",
    "between",
    "except",
    "average",
    "total",
    "als",
    "statt",
    "gegenüber",
    "vor",
    "nach",
    "jeweils",
    "zusammen",
    "zwischen",
    "von",
    "que",
    "contre",
    "avant",
    "après",
    "entre",
    "ensemble",
    "contra",
    "frente",
    "antes",
    "después",
    "juntos",
    "che",
    "di",
    "contro",
    "prima",
    "dopo",
    "insieme",
    "do",
    "dan",
    "tegenover",
    "voor",
    "na",
    "niż",
    "przed",
    "po",
    "göre",
    "unlike",
    "like",
    "same",
    "also",
    "plus",
    "or",
    "oder",
    "ou",
    "o",
    "of",
    "next",
    "second",
    "third",
    "followed",
    "not",
    "no",
    "nicht",
    "pas",
    "non",
    "não",
    "niet",
    "nie",
    "to",
    "bis",
    "other",
    "others",
    "rest",
    "remaining",
]);
/// Those of them that are prepositions or particles, too.
static PREPOSITIONS: WordList =
    WordList::new(&["of", "from", "to", "von", "vor", "nach", "bis", "di", "do", "que", "che", "voor", "na", "po", "no", "o"]);
/// Words between the values of two results that are compared.
static BESIDE: WordList = WordList::new(&[
    "than", "als", "que", "che", "dan", "niż", "vs", "versus", "compared", "against", "gegen", "contre", "contra", "tegen",
]);
/// Words behind a number that may name a column, and letters of its name.
const COLUMN_WORDS_MAX: usize = 3;
const COLUMN_CHARS_MIN: usize = 4;
/// Records of which those of several results are compared.
const SOURCES_MAX: usize = 4;
/// Words of a name, and letters of one that stands for all of it.
const NAME_PARTS_MAX: usize = 4;
const NAME_CHARS_MIN: usize = 3;
/// Values of a clause that are compared with one another.
const MENTIONS_MAX: usize = 16;

/// A text of the results that a passage has.
struct Mention {
    span: Range<usize>,
    /// The rows that have it.
    rows: u64,
    /// Key of their column.
    column: String,
}

/// A value told of a record that another one has.
pub fn bindings(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
    if scene.bond < CitationScope::Introduced && scene.kind != Kind::Line || scene.plain.asks() || scene.sources.len() > SOURCES_MAX {
        return None;
    }
    let table = Table::of(scene)?;
    let texts = table.texts(scene);
    if let Some(found) = table.listed_apart(scene, &texts) {
        return Some(found);
    }
    let mut records = texts.iter().map(|mention| mention.rows).filter(|rows| rows.count_ones() == 1);
    let first = records.next();
    let several = records.any(|rows| Some(rows) != first);
    // A line of a list that names one record tells of that one, to its end.
    let of_one = scene.kind == Kind::Line && table.columns && !scene.text().contains('|') && !several;
    // `Mert, Defne'ye 900 TL`: what one owes the other.
    let between = scene.kind == Kind::Line && several && scene.plain.numbers().len() == 1;
    let clauses = clauses(scene, &texts);
    let mut last: Option<u64> = None;
    for clause in clauses {
        let inside = |span: &Range<usize>| clause.start <= span.start && span.end <= clause.end;
        let named: Vec<&Mention> = texts.iter().filter(|mention| inside(&mention.span)).take(MENTIONS_MAX).collect();
        // In a line of a list prepositions lead to what the record has.
        let weak = |word: &Word| scene.kind == Kind::Line && PREPOSITIONS.has(&word.lower);
        let compares =
            scene.plain.words.iter().enumerate().any(|(at, word)| {
                inside(&(word.start..word.end)) && COMPARES.has(&word.lower) && !weak(word) && !compares_nothing(scene, at)
            });
        let anchors: Vec<&&Mention> = named.iter().filter(|mention| mention.rows.count_ones() == 1).collect();
        // Two of one column are a comparison, or a list.
        let mixed = anchors.iter().enumerate().any(|(at, one)| {
            anchors.iter().skip(at + 1).any(|other| one.rows != other.rows && (one.column == other.column || !table.columns))
        });
        // Another sentence of the same line speaks of another record.
        let fresh = scene.text().get(..clause.start).is_some_and(|before| before.ends_with('.'));
        let inherited = last.filter(|_| !fresh);
        last = match anchors.as_slice() {
            // What has no figure may name something that the results call otherwise.
            [] => inherited.filter(|_| {
                let figures = || scene.text().get(clause.clone()).is_some_and(|text| text.bytes().any(|byte| byte.is_ascii_digit()));
                named.is_empty() && (!of_one || figures())
            }),
            [first, rest @ ..] if rest.iter().all(|other| other.rows == first.rows) => Some(first.rows),
            _ => None,
        };
        if let Some(found) = table.counted_of(scene, &clause, &named) {
            return Some(found);
        }
        if mixed {
            continue;
        }
        if !compares && let Some(found) = table.texts_apart(scene, &named, &anchors) {
            return Some(found);
        }
        if between {
            continue;
        }
        // `L01 (55 dm²) and L02 (48 dm²)`: what stands in brackets is of the name before them.
        let bracketed = anchors.is_empty().then(|| {
            let before = scene.text().get(..clause.start)?.strip_suffix('(')?.trim_end_matches([' ', '*', '_', '`']);
            texts.iter().find(|mention| mention.span.end == before.len() && mention.rows.count_ones() == 1).map(|mention| mention.rows)
        });
        let bracketed = bracketed.flatten().filter(|_| named.is_empty() && table.columns);
        let bare = named.is_empty();
        let own = anchors.first().map(|first| first.rows).or(bracketed);
        let own = own.or_else(|| inherited.filter(|_| bare && of_one));
        let own = own.or_else(|| bare.then(|| table.day(scene, &clause)).flatten());
        let Some(own) = own.or_else(|| inherited.filter(|_| bare)) else { continue };
        let inherited = anchors.is_empty() && bracketed.is_none() && inherited.is_some_and(|rows| rows == own);
        if let Some(found) = table.value_apart(scene, &clause, own, compares, inherited, of_one) {
            return Some(found);
        }
    }
    table.apart_by_citation(scene)
}

/// The rows of the cited results, those of a result with one record being one row.
struct Table<'s> {
    rows: Vec<&'s Row>,
    columns: bool,
    sources: Vec<&'s ToolResult>,
}

impl<'s> Table<'s> {
    fn of(scene: &CheckContext<'s>) -> Option<Self> {
        let sources: Vec<&'s ToolResult> = scene.sources.iter().copied().filter(|source| !source.failed && !source.is_partial()).collect();
        let mut rows: Vec<&Row> = Vec::new();
        let mut columns = true;
        for source in &sources {
            let own = source.rows();
            columns &= own.columns;
            rows.extend(&own.rows);
        }
        // Results of one record each, of calls of one tool: each is a row.
        if rows.is_empty()
            && let Some(first) = sources.first()
        {
            let alike = scene
                .grounds
                .results
                .iter()
                .filter(|other| other.recent && other.tool == first.tool && !other.failed && !other.is_partial());
            rows.extend(alike.take(ROWS_MAX).filter(|other| other.rows().rows.is_empty()).map(|other| other.single()));
            columns = true;
        }
        (rows.len() > 1 && rows.len() <= ROWS_MAX && !sources.is_empty()).then_some(Self { rows, columns, sources })
    }

    fn all(&self) -> u64 {
        if self.rows.len() >= 64 { u64::MAX } else { (1 << self.rows.len()) - 1 }
    }

    /// The row of the only day that a clause tells, where one row has it.
    fn day(&self, scene: &CheckContext<'_>, clause: &Range<usize>) -> Option<u64> {
        let mut days = scene.plain.dates().dates.iter().filter(|day| clause.start <= day.span.start && day.span.end <= clause.end);
        let (Some(day), None) = (days.next(), days.next()) else { return None };
        // `From 1 to 5 May`: of all days between.
        let before = scene.words_before(day.span.start);
        let is_figure = |word: &Word| word.lower.bytes().any(|byte| byte.is_ascii_digit());
        let ranges = |word: &Word| {
            matches!(
                word.lower.as_str(),
                "to" | "till" | "until" | "and" | "bis" | "au" | "al" | "a" | "tot" | "do" | "e" | "y" | "et" | "und"
            )
        };
        if let [.., from, link] = before
            && ranges(link)
            && is_figure(from)
        {
            return None;
        }
        let rows = self.with(|row| row.dates.iter().any(|own| own.is(day)));
        (self.columns && rows.count_ones() == 1).then_some(rows)
    }

    fn with(&self, has: impl Fn(&Row) -> bool) -> u64 {
        self.rows.iter().enumerate().filter(|(_, row)| has(row)).fold(0, |mask, (at, _)| mask | 1 << at)
    }

    /// The texts of the rows that the passage has, the longest first, none inside another.
    fn texts(&self, scene: &CheckContext<'_>) -> Vec<Mention> {
        let mut said: Vec<(String, usize, usize)> = Vec::new();
        for word in &scene.plain.words {
            let own = word.lower.as_str();
            // `Ann's`, `Defne'ye`, `l'Orme`
            let lower = match own.split_once(['\'', '’']) {
                Some((before, behind)) if before.chars().count() > 2 && !behind.is_empty() => before,
                Some((_, behind)) if !behind.is_empty() => behind,
                _ => own,
            };
            said.extend(words_of(&folded(lower)).filter(|part| !part.is_empty()).map(|part| (part.to_owned(), word.start, word.end)));
        }
        let mut cells: Vec<(&str, &str, &str)> = Vec::new();
        for cell in self.rows.iter().flat_map(|row| &row.cells).filter(|cell| cell.is_text) {
            // Most cells have no word of the passage.
            let is_named = || words_of(&cell.folded).any(|part| said.iter().any(|own| own.0 == part));
            if (!cell.raw.is_ascii() || is_named()) && !cells.iter().any(|known| known.0 == cell.folded && known.1 == cell.column) {
                cells.push((&cell.folded, &cell.column, &cell.raw));
            }
        }
        cells.sort_by_key(|cell| std::cmp::Reverse(cell.0.len()));
        let mut found: Vec<Mention> = Vec::new();
        for (folded, column, raw) in cells {
            // `Ship's log`, of which the passage has `ship` and `log`.
            let owned = raw.contains(['\'', '’']);
            let parts: Vec<&str> = folded.split(' ').filter(|part| *part != "s" || !owned).collect();
            if parts.iter().all(|part| *part == "s") {
                continue;
            }
            let spaced = said.windows(parts.len()).find(|window| window.iter().zip(&parts).all(|(own, part)| own.0 == **part));
            let span = match spaced {
                Some(window) => window.first().zip(window.last()).map(|(first, last)| first.1..last.2),
                None => {
                    let whole = || scene.text().find(raw).map(|at| at..at + raw.len());
                    (if raw.is_ascii() { None } else { whole() }).or_else(|| self.short_name(scene, raw, folded))
                }
            };
            let Some(span) = span else { continue };
            let taken = found.iter().any(|other| other.span.start < span.end && span.start < other.span.end && other.span != span);
            let common = scene.lexicon.common.contains(folded) || lexicon::month(folded).is_some();
            let rows = self.with(|row| row.cells.iter().any(|cell| cell.folded == folded));
            if !taken && !common && rows != self.all() {
                found.push(Mention { span, rows, column: column.to_owned() });
            }
        }
        found
    }

    /// The place of a name of a row that the passage writes otherwise: `P. Girard` of `Girard, P.`, `Grace` of `Grace Mbeki`. It is a word
    /// with a capital that no other row has, and no other name beside it.
    fn short_name(&self, scene: &CheckContext<'_>, raw: &str, folded: &str) -> Option<Range<usize>> {
        let capital = |text: &str| text.chars().next().is_some_and(char::is_uppercase);
        let parts: Vec<&str> = raw.split([' ', ',']).filter(|part| !part.is_empty()).collect();
        let proper = |part: &&str| capital(part) && part.chars().all(|c| c.is_alphabetic() || matches!(c, '.' | '-' | '\'' | '’'));
        if !(2..=NAME_PARTS_MAX).contains(&parts.len()) || !parts.iter().all(proper) {
            return None;
        }
        let words = &scene.plain.words;
        let text = |word: &Word| scene.text().get(word.start..word.end).unwrap_or_default();
        let of_name = |word: &Word| words_of(folded).any(|part| part == word.folded());
        // `Ann Brown` isn't Ann Smith.
        let alone = |at: usize| {
            let beside = |one: usize, other: usize| {
                let pair = words.get(one).zip(words.get(other));
                pair.is_some_and(|(one, other)| {
                    scene.text().get(one.end..other.start) == Some(" ") && capital(text(one)) && capital(text(other))
                })
            };
            let free = |own: usize, other: usize| !beside(own.min(other), own.max(other)) || words.get(other).is_some_and(of_name);
            at.checked_sub(1).is_none_or(|before| before == 0 || free(at, before)) && free(at, at + 1)
        };
        let is = |(at, word): (usize, &Word)| {
            let own = word.folded();
            let said = capital(text(word)) && own.chars().count() >= NAME_CHARS_MIN && of_name(word) && alone(at);
            let common = scene.lexicon.common.contains(&own) || lexicon::month(&own).is_some();
            let of_others =
                || self.rows.iter().flat_map(|row| &row.cells).any(|cell| cell.folded != folded && stands_in(&cell.folded, &own));
            (said && !common && !of_others()).then_some(word.start..word.end)
        };
        words.iter().enumerate().find_map(is)
    }

    /// Records that are listed as being all of one kind, one of which is of another: `Free: A1, A2 and A3` where A2 is taken.
    fn listed_apart(&self, scene: &CheckContext<'_>, texts: &[Mention]) -> Option<ClaimFinding> {
        if !self.columns || texts.len() > MENTIONS_MAX {
            return None;
        }
        let mut named: Vec<(Range<usize>, u64, &str)> = texts
            .iter()
            .filter(|mention| mention.rows.count_ones() == 1)
            .map(|mention| (mention.span.clone(), mention.rows, mention.column.as_str()))
            .collect();
        named.extend(self.numbered(scene));
        named.sort_by_key(|(span, ..)| span.start);
        let column = named.iter().map(|(.., column)| *column).find(|column| named.iter().filter(|(.., own)| own == column).count() > 1)?;
        let (listed, others): (Vec<_>, Vec<_>) = named.iter().partition(|(.., own)| *own == column);
        let is_joined = |gap: &str| {
            gap.split([',', '、', '，', '&', ' ', '*', '`']).all(|word| word.is_empty() || joins(word) || matches!(word, "と" | "和"))
        };
        // `4 are free: 2, 3 and 5`: the first isn't one of the list.
        let joined = |one: &Range<usize>, next: &Range<usize>| scene.text().get(one.end..next.start).is_some_and(is_joined);
        let mut runs = listed.chunk_by(|one, next| joined(&one.0, &next.0)).filter(|run| run.len() > 1);
        let (Some(listed), None) = (runs.next(), runs.next()) else { return None };
        let of_others = others.iter().any(|(_, rows, _)| !listed.iter().any(|(_, own, _)| own == rows));
        if of_others || negation::denies(scene.text()) || states::is_unsure(scene.plain.folded(), &scene.plain.words) {
            return None;
        }
        // `Medium and above`, `open in some form`.
        static LIMITS: WordList = WordList::new(&[
            "above",
            "below",
            "least",
            "most",
            "or",
            "higher",
            "lower",
            "up",
            "under",
            "over",
            "than",
            "mindestens",
            "höchstens",
            "ab",
            "bis",
            "oder",
            "über",
            "unter",
            "au",
            "moins",
            "plus",
            "ou",
            "menos",
            "más",
            "o",
            "meno",
            "più",
            "mais",
            "minstens",
            "hoogstens",
            "vanaf",
            "of",
            "co",
            "najmniej",
            "lub",
            "en",
            "az",
            "veya",
            "guess",
            "suggestion",
            "suggest",
            "effort",
            "my",
            "from",
        ]);
        let first = listed.first()?.0.start;
        if scene.plain.words.iter().any(|word| word.end <= first && LIMITS.has(&word.lower)) {
            return None;
        }
        // The only kind that the passage names, in front of the list.
        let is_one = |mention: &&Mention| {
            mention.rows.count_ones() != 1 || self.is_kind(&mention.column) && self.having(&mention.column).count_ones() > 2
        };
        let mut kinds = texts.iter().filter(|mention| mention.column != column).filter(is_one);
        let (Some(kind), None) = (kinds.next(), kinds.next()) else { return None };
        let inside = named.iter().any(|(span, ..)| span.start < kind.span.end && kind.span.start < span.end);
        let wide = matches!(
            scene.text().get(kind.span.clone()).unwrap_or_default().to_lowercase().as_str(),
            "open" | "active" | "offen" | "aktiv"
        );
        if !self.is_kind(&kind.column) || inside || wide || kind.span.start > first {
            return None;
        }
        let (span, rows, _) = listed.iter().find(|(_, rows, _)| rows & kind.rows == 0 && rows & self.having(&kind.column) != 0)?;
        Some(self.finding(scene, span.clone(), *rows, Certainty::Likely, "record_kind"))
    }

    /// Is it a column of kinds: of texts, of which some repeat?
    fn is_kind(&self, column: &str) -> bool {
        let values: Vec<&str> = self
            .rows
            .iter()
            .flat_map(|row| &row.cells)
            .filter(|cell| cell.column == column && cell.number.is_none())
            .map(|cell| cell.folded.as_str())
            .collect();
        let distinct: std::collections::BTreeSet<&str> = values.iter().copied().collect();
        distinct.len() > 1 && distinct.len() < values.len()
    }

    /// The rows that have a value in a column.
    fn having(&self, column: &str) -> u64 {
        self.with(|row| row.cells.iter().any(|cell| cell.column == column))
    }

    /// Numbers of the passage that number records: those of a column of ids.
    fn numbered(&self, scene: &CheckContext<'_>) -> Vec<(Range<usize>, u64, &str)> {
        static IDS: WordList =
            WordList::new(&["no", "nr", "num", "number", "id", "numero", "nummer", "numer", "sira", "n", "番号", "号", "编号"]);
        let cells = || self.rows.iter().flat_map(|row| &row.cells);
        let Some(column) = cells().map(|cell| cell.column.as_str()).find(|column| IDS.has(column)) else { return Vec::new() };
        let numbers = scene.plain.numbers().iter().filter(|number| !number.ordinal && number.unit.is_none() && number.whole().is_some());
        let of = |number: &Number| {
            let has = |row: &Row| {
                row.cells.iter().any(|cell| cell.column == column && cell.number.is_some_and(|value| number.whole() == Some(value as u64)))
            };
            let rows = self.with(has);
            (rows.count_ones() == 1).then(|| (number.span.clone(), rows, column))
        };
        numbers.filter_map(of).collect()
    }

    /// More records told of a name than have it: `Ann made 6` of five lines.
    fn counted_of(&self, scene: &CheckContext<'_>, clause: &Range<usize>, named: &[&Mention]) -> Option<ClaimFinding> {
        let [mention] = named else { return None };
        let real = u64::from(mention.rows.count_ones());
        let figures = || self.rows.iter().flat_map(|row| &row.cells).any(|cell| cell.number.is_some());
        if real < 2 || self.rows.len() >= 64 || self.sources.len() > 1 || figures() {
            return None;
        }
        let mut numbers = scene.plain.numbers().iter().filter(|number| clause.start <= number.span.start && number.end <= clause.end);
        let (Some(number), None) = (numbers.next(), numbers.next()) else { return None };
        let span = number.span.start..number.end;
        let count = number.whole().filter(|_| !number.ordinal && number.unit.is_none() && !scene.plain.is_taken(&span))?;
        let stands = || self.sources.iter().any(|source| evidence::fits(number, Precision::Exact, &source.facts().numbers));
        (count > real && count <= self.rows.len() as u64 && !stands()).then(|| {
            let found = scene.text().get(span.clone()).unwrap_or_default().to_owned();
            ClaimFinding {
                rule: "counted_of",
                code: Code::CountMismatch,
                span,
                found,
                expected: real.to_string(),
                certainty: Certainty::Likely,
            }
        })
    }

    /// Texts of one clause that no record has together.
    fn texts_apart(&self, scene: &CheckContext<'_>, named: &[&Mention], anchors: &[&&Mention]) -> Option<ClaimFinding> {
        let is_name = |mention: &Mention| {
            let name = scene.text().get(mention.span.clone()).unwrap_or_default();
            name.chars().any(|c| c.is_uppercase() || !c.is_ascii() || c.is_ascii_digit() || matches!(c, '-' | '_' | '@'))
        };
        let anchor = anchors.first().filter(|anchor| self.columns && is_name(anchor))?;
        let folded = |mention: &Mention| fold(scene.text().get(mention.span.clone()).unwrap_or_default());
        let other = named.iter().find(|other| {
            let of_anchor = || {
                self.rows
                    .iter()
                    .enumerate()
                    .any(|(at, row)| anchor.rows & (1 << at) != 0 && row.cells.iter().any(|cell| stands_in(&cell.folded, &folded(other))))
            };
            other.column != anchor.column && other.rows & anchor.rows == 0 && is_name(other) && !of_anchor()
        })?;
        Some(self.finding(scene, other.span.clone(), anchor.rows, Certainty::Likely, "record_text"))
    }

    /// A number, date or time of a clause that this record lacks and another one has.
    fn value_apart(
        &self,
        scene: &CheckContext<'_>,
        clause: &Range<usize>,
        own: u64,
        compares: bool,
        inherited: bool,
        of_one: bool,
    ) -> Option<ClaimFinding> {
        let inside = |span: &Range<usize>| clause.start <= span.start && span.end <= clause.end;
        let plain = scene.plain;
        let rows = |mask: u64| self.rows.iter().enumerate().filter(move |(at, _)| mask & (1 << at) != 0).map(|(_, row)| *row);
        if compares {
            return None;
        }
        // A value is bound where its own clause names the record; further on in a line only where that names no other one.
        if inherited && !of_one {
            return None;
        }
        // A record without any number is bound to none: the line of the names above a table.
        if rows(own).all(|row| row.numbers.is_empty()) {
            return None;
        }
        // A number where the result says what it is of.
        let of_columns = if self.columns { plain.numbers() } else { &[] };
        for number in of_columns.iter().filter(|number| inside(&number.span) && !number.ordinal) {
            let span = number.span.start..number.end;
            if plain.is_taken(&span) {
                continue;
            }
            if let Some(value) = self.named_value(scene, clause, number, own) {
                let said = || number.readings().any(|reading| scene.grounds.said_numbers_have(reading.value));
                let rescaled = || reckon::is_rescaled(scene, number, value);
                if !evidence::fits(number, Precision::Approximate, &[value.abs()]) && !said() && !rescaled() {
                    return Some(self.finding(scene, span, own, Certainty::Likely, "record_field"));
                }
                continue;
            }
            if !is_telling(scene, number) || is_of_duration(scene, number) {
                continue;
            }
            let precision = if inherited { Precision::Exact } else { values::precision_of(scene, number) };
            let mut mask = self.with(|row| evidence::fits(number, precision, &row.numbers));
            if mask == 0 {
                // So much in all of one record's figures, told of another.
                let total = |row: &Row| {
                    let figures: Vec<f64> = row.cells.iter().filter_map(|cell| cell.number).collect();
                    figures.len() > 2 && number.readings().any(|shown| shown.rounds(figures.iter().sum()))
                };
                mask = self.with(total);
            }
            if mask == 0
                || mask & own != 0
                || changes::is_of_change(scene.text(), plain.numbers(), number)
                || self.is_free(scene, number)
                || rows(own).any(|row| makes(row, number))
            {
                continue;
            }
            if rows(own).any(|row| row.numbers.iter().take(RESCALED_OF).any(|base| reckon::is_rescaled(scene, number, *base))) {
                continue;
            }
            // A share is made of a record's values; a column's own name is none: `Petrol 95`.
            let name = || {
                let figures = scene.text().get(number.span.clone()).unwrap_or_default();
                self.rows.iter().flat_map(|row| &row.cells).any(|cell| cell.column.split(' ').any(|word| word == figures))
            };
            if number.percent && !self.has_percents() || name() || reckon::is_shown_result(scene, number) || reckon::is_term(scene, number)
            {
                continue;
            }
            return Some(self.finding(scene, span, own, Certainty::Likely, "record_number"));
        }
        for date in plain.dates().dates.iter().filter(|date| inside(&date.span)) {
            let days = |row: &Row| row.dates.iter().any(|other| date.is(other));
            let mask = self.with(days);
            let near = rows(own).any(|row| row.dates.is_empty());
            let free = scene.grounds.said_dates().dates.iter().any(|other| date.is(other))
                || self.sources.iter().any(|source| days(&source.rows().free));
            if mask != 0 && mask & own == 0 && !near && !free {
                return Some(self.finding(scene, date.span.clone(), own, Certainty::Likely, "record_day"));
            }
        }
        // Words of a log's lines name no record.
        let log = || {
            self.sources.iter().any(|source| failure::is_log(&source.text))
                || scene.text().contains('|') && !self.sources.iter().all(|source| source.facts().is_structured())
        };
        for time in plain.dates().times.iter().filter(|time| inside(&time.span)) {
            let has = |row: &Row| row.times.contains(&time.minutes);
            let mask = self.with(has);
            let none = rows(own).any(|row| row.times.is_empty());
            let free = scene.grounds.said_dates().times.iter().any(|other| other.minutes == time.minutes)
                || self.sources.iter().any(|source| has(&source.rows().free));
            // `08:30`, for 30 minutes: over at 9.
            let after = |row: &Row| {
                row.times.iter().any(|from| {
                    let spans = row.numbers.iter().filter(|span| (1.0..=1440.0).contains(*span) && span.fract() == 0.0);
                    spans.flat_map(|span| [*span as u32, *span as u32 * 60]).any(|span| (from + span) % 1440 == time.minutes)
                })
            };
            if mask != 0 && mask & own == 0 && !none && !free && !log() && !rows(own).any(after) {
                return Some(self.finding(scene, time.span.clone(), own, Certainty::Likely, "record_hour"));
            }
        }
        None
    }

    /// The value that the only record has in the column which the words behind a number name: `5 refills left` of `refills_left`.
    fn named_value(&self, scene: &CheckContext<'_>, clause: &Range<usize>, number: &Number, own: u64) -> Option<f64> {
        let row = self.rows.get(own.trailing_zeros() as usize).filter(|_| self.columns && own.count_ones() == 1)?;
        // `15 guests in all: Ann (6)`: the name stands in a list of what was added up.
        if cues::tells_total(scene.plain) || scene.text().get(number.end..clause.end).is_some_and(|behind| behind.contains(':')) {
            return None;
        }
        // `11 beds free`, of `free: 11` beside `beds: 72`.
        let of_another = |word: &Word| {
            let own = folded(&word.lower);
            let is =
                |cell: &&Cell| cell.column == *own && cell.number.is_some_and(|value| evidence::fits(number, Precision::Exact, &[value]));
            row.cells.iter().any(|cell| is(&cell))
        };
        let behind = || scene.words_after(number.end).iter().take_while(|word| word.end <= clause.end).take(COLUMN_WORDS_MAX);
        if behind().any(of_another) {
            return None;
        }
        let behind = behind();
        let mut named = String::new();
        behind.into_iter().find_map(|word| {
            named.push_str(&folded(&word.lower));
            let is = |cell: &&Cell| {
                cell.column == named || cell.column.strip_suffix('s') == Some(&named) || named.strip_suffix('s') == Some(&cell.column)
            };
            row.cells.iter().find(is).filter(|cell| cell.column.len() >= COLUMN_CHARS_MIN)?.number
        })
    }

    /// Has a value a percent sign, or a column a name of percents?
    fn has_percents(&self) -> bool {
        const PERCENTS: &[&str] = &["percent", "pct", "rate", "share", "ratio", "prozent", "anteil", "taux", "porcentaje", "percentuale"];
        let of =
            |cell: &Cell| cell.raw.contains('%') || cell.column.contains('%') || PERCENTS.iter().any(|name| cell.column.contains(name));
        self.rows.iter().flat_map(|row| &row.cells).any(of)
    }

    /// Does a number stand on something else than one record: what was said, what belongs to none, a count? A sum or an average that
    /// isn't told as one is another record's value.
    fn is_free(&self, scene: &CheckContext<'_>, number: &Number) -> bool {
        let reckoned = || {
            number.whole().is_some_and(|whole| whole <= ROWS_MAX as u64)
                || number.unit.is_some_and(|unit| unit.dimension == "time")
                || cues::role(scene.plain, number) != cues::Role::Any
        };
        number.readings().any(|reading| scene.grounds.said_numbers_have(reading.value))
            || self.sources.iter().any(|source| {
                evidence::fits(number, Precision::Exact, &source.rows().free.numbers)
                    || evidence::equals(number, Precision::Exact, &source.facts().derived().plain) && reckoned()
            })
    }

    /// Two results of one tool are cited in one passage, and a value told before the one's citation stands in the other only.
    fn apart_by_citation(&self, scene: &CheckContext<'_>) -> Option<ClaimFinding> {
        let mut from = 0;
        for (place, together) in together(scene) {
            let own = *together.first()?;
            let part = from..place;
            from = place;
            let is_own = |other: &&&ToolResult| together.iter().any(|own| std::ptr::eq(**other, *own));
            let others = || scene.sources.iter().filter(|other| !is_own(other) && other.tool == own.tool);
            if others().next().is_none() || together.iter().any(|own| own.failed) || others().any(|other| other.failed) {
                continue;
            }
            let inside = |span: &Range<usize>| part.start <= span.start && span.end <= part.end;
            let compares = scene.plain.words.iter().any(|word| inside(&(word.start..word.end)) && BESIDE.has(&word.lower))
                || scene
                    .text()
                    .get(part.clone())
                    .is_some_and(|text| text.contains(['对', '比']) || text.contains("より") || text.contains(" से "));
            if compares {
                continue;
            }
            for number in scene.plain.numbers().iter().filter(|number| inside(&number.span) && !number.ordinal) {
                let span = number.span.start..number.end;
                let telling = number.whole().is_none_or(|whole| whole > 12);
                let has = |source: &ToolResult| evidence::fits(number, Precision::Exact, &source.facts().numbers);
                let own_has = together.iter().any(|own| has(own) || evidence::follows(number, Precision::Approximate, own.facts()));
                let said = number.readings().any(|reading| scene.grounds.said_numbers_have(reading.value));
                let shown = || reckon::is_shown_result(scene, number) || reckon::is_term(scene, number);
                if telling && !scene.plain.is_taken(&span) && !own_has && !said && others().any(|other| has(other)) && !shown() {
                    return Some(finding(
                        scene,
                        span,
                        "another_call",
                        format!("the result of the call {} doesn't have it", own.arguments),
                        Certainty::Certain,
                    ));
                }
            }
            for time in scene.plain.dates().times.iter().filter(|time| inside(&time.span)) {
                let has = |source: &ToolResult| source.facts().dates.times.iter().any(|other| other.minutes == time.minutes);
                let said = scene.grounds.said_dates().times.iter().any(|other| other.minutes == time.minutes);
                let own_has = together.iter().any(|own| has(own) || own.facts().dates.times.is_empty());
                if !own_has && !said && others().any(|other| has(other)) {
                    return Some(finding(
                        scene,
                        time.span.clone(),
                        "another_call",
                        format!("the result of the call {} doesn't have it", own.arguments),
                        Certainty::Certain,
                    ));
                }
            }
        }
        None
    }

    fn finding(&self, scene: &CheckContext<'_>, span: Range<usize>, own: u64, certainty: Certainty, rule: &'static str) -> ClaimFinding {
        let row = self.rows.iter().enumerate().find(|(at, _)| own & (1 << at) != 0);
        let expected: Vec<&str> = row.iter().flat_map(|(_, row)| &row.cells).take(8).map(|cell| cell.raw.as_str()).collect();
        finding(scene, span, rule, expected.join(", "), certainty)
    }
}

/// The results that a passage cites, those of citations side by side together: `(id of one, id of the other)` covers what both say. With each
/// the place of its last citation.
fn together<'s>(scene: &CheckContext<'s>) -> Vec<(usize, Vec<&'s ToolResult>)> {
    let mut groups: Vec<(usize, Vec<&ToolResult>)> = Vec::new();
    for (place, at) in scene.cites {
        let Some(source) = scene.sources.get(*at).copied() else { continue };
        let beside = |from: usize| {
            let mut words = scene.plain.words.iter().filter(|word| from <= word.start && word.start < *place);
            let first = words.next();
            words.next().is_none() && first.is_none_or(|word| word.lower.bytes().all(|byte| !byte.is_ascii_digit()))
        };
        match groups.last_mut() {
            // One word at most stands between them: `and`.
            Some((last, group)) if beside(*last) => {
                *last = *place;
                group.push(source);
            }
            _ => groups.push((*place, vec![source])),
        }
    }
    groups
}

fn finding(scene: &CheckContext<'_>, span: Range<usize>, rule: &'static str, expected: String, certainty: Certainty) -> ClaimFinding {
    let found = scene.text().get(span.clone()).unwrap_or_default().to_owned();
    ClaimFinding { rule, code: Code::ClaimMismatch, span, found, expected, certainty }
}

/// Does a number say something of one record: not a small count, unless it stands in a line of a list?
fn is_telling(scene: &CheckContext<'_>, number: &Number) -> bool {
    number.whole().is_none_or(|whole| whole > 12) || scene.kind == Kind::Line && number.whole().is_some_and(|whole| whole > 2)
}

/// Is it a part of a duration: the 54 of `8 min 54 s`?
fn is_of_duration(scene: &CheckContext<'_>, number: &Number) -> bool {
    let of_time = |number: &Number| number.unit.is_some_and(|unit| unit.dimension == "time");
    let beside = |other: &Number| {
        let (one, two) = if other.end <= number.span.start { (other.end, number.span.start) } else { (number.end, other.span.start) };
        of_time(other) && scene.text().get(one..two).is_some_and(|gap| gap.trim().is_empty())
    };
    of_time(number) && scene.plain.numbers().iter().any(beside)
}

/// Do two values of the record make this number?
fn makes(row: &Row, number: &Number) -> bool {
    let is = |value: f64| {
        number.readings().any(|shown| shown.rounds(value.abs()) || number.percent && shown.rounds(value.abs() * 100.0))
            || evidence::fits(number, Precision::Approximate, &[value.abs()])
    };
    let own = row.numbers.get(..row.numbers.len().min(12)).unwrap_or_default();
    own.iter().enumerate().any(|(at, one)| {
        own.iter().skip(at + 1).any(|other| {
            [one + other, one - other, one * other, one / other, other / one, (one - other) / one, (one - other) / other]
                .into_iter()
                // A price per kilo, of grams.
                .any(|value| is(value) || is(value * 1000.0))
        })
    }) || row.dates.len() + row.times.len() > 1 && number.unit.is_some_and(|unit| unit.dimension == "time")
}

/// The clauses of a passage; names of records are not cut apart.
fn clauses(scene: &CheckContext<'_>, texts: &[Mention]) -> Vec<Range<usize>> {
    let text = scene.text();
    let kept = |at: usize| texts.iter().any(|mention| mention.span.contains(&at));
    // `26-01の純米で、1月29日でした`: what follows the only name goes on telling of it.
    let one = texts.iter().all(|mention| mention.rows.count_ones() == 1) && texts.windows(2).all(|two| two[0].rows == two[1].rows);
    let last = texts.iter().map(|mention| mention.span.end).max();
    let first_mark = last.and_then(|last| Some(last + text.get(last..)?.find(['、', '，'])?));
    let cuts_here = |at: usize| !one || first_mark != Some(at);
    let mut cuts: Vec<(usize, usize)> = Vec::new();
    for (at, c) in text.char_indices() {
        let digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
        let mark = match c {
            // `Stout (TK2)`: what stands in brackets is another name.
            '(' | ')' => !brackets(text, at).is_some_and(|inside| texts.iter().any(|mention| mention.span == inside)),
            ';' | '\n' | '；' | '。' | '।' | '：' => true,
            '、' | '，' => cuts_here(at),
            '–' | '—' => scene.kind != Kind::Line,
            '.' => text.get(at + 1..).is_some_and(|rest| rest.starts_with(' ')),
            ',' => {
                !(digit(text.get(..at).and_then(|before| before.chars().next_back()))
                    && digit(text.get(at + 1..).and_then(|after| after.chars().next())))
            }
            _ => false,
        };
        if mark && !kept(at) {
            cuts.push((at, at + c.len_utf8()));
        }
    }
    let cuts_apart = |word: &&Word| joins(&word.lower) && !kept(word.start);
    cuts.extend(scene.plain.words.iter().filter(cuts_apart).map(|word| (word.start, word.end)));
    cuts.sort_unstable();
    let mut found = Vec::new();
    let mut from = 0;
    for (start, end) in cuts {
        if start > from {
            found.push(from..start);
        }
        from = from.max(end);
    }
    found.push(from..text.len().max(from));
    found
}

/// Is the word of a comparison there none: the `to` of what has to be done, or a preposition that leads to a name and no figure (`has to be
/// back`, `from Ruvex`)?
fn compares_nothing(scene: &CheckContext<'_>, at: usize) -> bool {
    static NEEDS: WordList =
        WordList::new(&["has", "have", "had", "need", "needs", "due", "scheduled", "set", "planned", "supposed", "expected"]);
    let words = &scene.plain.words;
    let own = words.get(at).map_or("", |word| &word.lower);
    let before = at.checked_sub(1).and_then(|at| words.get(at)).map_or("", |word| &word.lower);
    let figure = || words.get(at + 1).is_some_and(|next| next.lower.bytes().any(|byte| byte.is_ascii_digit()));
    own == "to" && NEEDS.has(before) || matches!(own, "from" | "of" | "to") && !figure() && leads_to_name(before)
}

/// May a name follow on a preposition behind this word? `Up from`, `apart from` compare.
fn leads_to_name(before: &str) -> bool {
    !matches!(before, "up" | "down" | "rose" | "fell" | "dropped" | "changed" | "moved" | "apart" | "different" | "compared" | "next")
}

/// Does this word begin another clause, or another member of a list?
fn joins(word: &str) -> bool {
    cues::CONJUNCTIONS.has(word) || SUBORDINATES.has(word)
}

/// The text between the brackets of which one stands there: its place.
fn brackets(text: &str, at: usize) -> Option<Range<usize>> {
    let (before, from) = text.split_at_checked(at)?;
    let start = if from.starts_with('(') { at } else { before.rfind('(')? };
    let inside = text.get(start + 1..)?;
    Some(start + 1..start + 1 + inside.find(')')?)
}

/// Words by which a part of what was counted is counted.
const OF_THEM: &[&[&str]] = &[
    &["of", "them"],
    &["of", "these"],
    &["of", "those"],
    &["of", "which"],
    &["davon"],
    &["dont"],
    &["de", "ellos"],
    &["de", "ellas"],
    &["di", "cui"],
    &["deles"],
    &["delas"],
    &["daarvan"],
    &["ervan"],
    &["z", "nich"],
];

/// Names of columns that hold units of measure.
static UNIT_COLUMNS: WordList = WordList::new(&[
    "unit",
    "units",
    "uom",
    "currency",
    "einheit",
    "unite",
    "unidad",
    "unita",
    "unidade",
    "eenheid",
    "jednostka",
    "birim",
    "单位",
    "単位",
]);

/// A number of records with one value that the rows have another number of: `6 delivered` where five are.
pub fn tallies(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
    let [source] = scene.sources.as_slice() else { return None };
    let covered = scene.bond == CitationScope::Introduced && scene.kind != Kind::Line;
    if scene.bond < CitationScope::Introduced || covered || source.fails() || source.is_partial() || scene.text().contains(['?', '？', '|'])
    {
        return None;
    }
    let rows = &source.rows().rows;
    if rows.len() < 2 {
        return None;
    }
    let count_of = |word: &Word| {
        let digits = || {
            scene.plain.numbers().iter().find(|number| {
                let span = number.span.start..number.end;
                number.span.start == word.start && number.span.end == word.end && number.unit.is_none() && !scene.plain.is_taken(&span)
            })
        };
        // `un sujet`, `eine Sendung`: an article counts nothing.
        let value = scene.lexicon.numbers.get(&*word.lower).copied().filter(|count| *count > 1 || word.lower == "one");
        value.or_else(|| digits()?.whole()).filter(|value| *value <= ROWS_MAX as u64)
    };
    for (at, number) in scene.plain.words.iter().enumerate() {
        let Some(count) = count_of(number) else { continue };
        let behind = scene.plain.words.get(at + 1..).unwrap_or_default();
        // `three of them high priority`
        let of_them =
            OF_THEM.iter().find(|phrase| behind.len() >= phrase.len() && phrase.iter().zip(behind).all(|(own, word)| *own == word.lower));
        let from = of_them.map_or(number.end, |phrase| behind.get(phrase.len() - 1).map_or(number.end, |last| last.end));
        let Some(kind) = behind.get(of_them.map_or(0, |phrase| phrase.len())) else { continue };
        let gap = scene.text().get(from..kind.start).unwrap_or_default();
        let ordinal = scene
            .plain
            .numbers()
            .iter()
            .any(|known| known.span.start == number.start && (known.ordinal || known.unit.is_some() || known.percent));
        if ordinal || !gap.trim_matches([' ', '*', '_']).is_empty() {
            continue;
        }
        // `in transit`, `out_of_order`: the next words too.
        let tail = scene.text().get(kind.start..).unwrap_or_default();
        let words: Vec<String> = name_words(tail.get(..tail.floor_char_boundary(60)).unwrap_or(tail)).into_iter().take(3).collect();
        let length = |cell: &str| {
            if !words.first().is_some_and(|first| cell.starts_with(first.as_str())) {
                return None;
            }
            let parts: Vec<&str> = words_of(cell).collect();
            (words.len() >= parts.len() && words.iter().zip(&parts).all(|(one, other)| one == other)).then_some(parts.len())
        };
        // A column that tells kinds of records apart has a value that stands more than once.
        let repeats = |column: &str| {
            let values: Vec<&str> =
                rows.iter().flat_map(|row| &row.cells).filter(|cell| cell.column == column).map(|cell| cell.folded.as_str()).collect();
            let distinct: std::collections::BTreeSet<&&str> = values.iter().collect();
            distinct.len() < values.len()
        };
        let kinds = rows
            .iter()
            .flat_map(|row| &row.cells)
            .filter(|cell| cell.number.is_none() && cell.folded.chars().count() >= 3 && !cell.column.is_empty())
            .filter(|cell| !UNIT_COLUMNS.has(&cell.column));
        let Some(folded) =
            kinds.filter(|cell| length(&cell.folded).is_some()).map(|cell| cell.folded.as_str()).max_by_key(|cell| cell.len())
        else {
            continue;
        };
        if !rows.iter().flat_map(|row| &row.cells).any(|cell| cell.folded == folded && repeats(&cell.column)) {
            continue;
        }
        let of_kind = |row: &&Row| row.cells.iter().any(|cell| cell.folded == folded);
        let real = rows.iter().filter(of_kind).count() as u64;
        // `Four are open, two of them high`: of the open ones.
        let before = scene.words_before(number.start);
        let chosen = |word: &Word| {
            let own = word.folded();
            let has = |row: &&Row| row.cells.iter().any(|cell| cell.folded == own);
            rows.iter().any(|row| has(&row)) && rows.iter().filter(of_kind).filter(has).count() as u64 == count
        };
        if of_them.is_some() && before.iter().any(chosen) {
            continue;
        }
        // `6 places left`, of a result that has `places 6`.
        let stands = [format!("{folded} {count}"), format!("{count} {folded}")];
        if stands.iter().any(|words| stands_in(source.folded(), words)) {
            continue;
        }
        let taken = length(folded).unwrap_or(1);
        let at = scene.plain.words.iter().position(|word| word.start == kind.start).unwrap_or(0);
        let after = scene.plain.words.get(at + taken..).unwrap_or_default();
        let narrows = after.first().is_some_and(|word| {
            scene.text().get(..word.start).is_some_and(|text| !text.trim_end().ends_with([',', ';', '.', ')', ':']))
                && (scene.lexicon.narrows.contains(&word.lower) || word.lower.bytes().any(|byte| byte.is_ascii_digit()))
        });
        let told = source.facts().leaves.iter().any(|leaf| leaf.record == 0 && leaf.value.number() == Some(count as f64));
        if real != count && real > 0 && !narrows && !told && !scene.grounds.said_numbers_have(count as f64) {
            let span = number.start..kind.end;
            let found = scene.text().get(span.clone()).unwrap_or_default().to_owned();
            return Some(ClaimFinding {
                rule: "tallies",
                code: Code::CountMismatch,
                span,
                found,
                expected: real.to_string(),
                certainty: Certainty::Likely,
            });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        evidence::EvidenceIndex,
        language::lexicon::{language, words},
        plain::AnalyzedPassage,
    };

    /// The check that finds something in a text that cites these results, of one tool each with these arguments.
    fn rule(results: &[(&str, &str)], kind: Kind, text: &str) -> Option<&'static str> {
        let source = |(arguments, result): &(&str, &str)| {
            let mut source = ToolResult::new("get_list", arguments, result);
            source.recent = true;
            source
        };
        let grounds = EvidenceIndex::new(results.iter().map(source).collect(), Vec::new(), "".into());
        let plain = AnalyzedPassage::of(text);
        let lexicon = language(&words(text), None);
        let sources = grounds.results.iter().collect();
        let scene = CheckContext::new(&plain, kind, lexicon, sources, CitationScope::Cited, &grounds);
        bindings(&scene).or_else(|| tallies(&scene)).map(|finding| finding.rule)
    }

    #[test]
    fn a_name_may_be_written_otherwise() {
        let marks = r#"[{"pupil":"Brandt, L.","points":48},{"pupil":"Girard, P.","points":39},{"pupil":"Ann Smith","points":91}]"#;
        for (text, wrong) in [
            ("P. Girard has 39.", false),
            ("P. Girard has 91.", true),
            ("Smith did best with 91.", false),
            ("Smith did best with 48.", true),
            // Another Ann.
            ("Ann Brown has 48.", false),
        ] {
            assert_eq!(rule(&[("{}", marks)], Kind::Sentence, text) == Some("record_number"), wrong, "{text}");
        }
    }

    #[test]
    fn a_line_tells_of_its_record_where_nothing_near_cites() {
        let mut source = ToolResult::new(
            "get_list",
            "{}",
            r#"[{"name":"Haiyun","days":36},{"name":"Nordhav","days":21},{"name":"BlueKeel","days":31}]"#,
        );
        source.recent = true;
        let grounds = EvidenceIndex::new(vec![source], Vec::new(), "".into());
        for (kind, text, wrong) in [
            (Kind::Line, "| Nordhav | 36 |", true),
            (Kind::Line, "| Nordhav | 21 |", false),
            // A sentence may speak of anything.
            (Kind::Sentence, "Nordhav took 36 days last year.", false),
        ] {
            let plain = AnalyzedPassage::of(text);
            let sources = grounds.results.iter().collect();
            let scene = CheckContext::new(&plain, kind, language(&words(text), None), sources, CitationScope::Implied, &grounds);
            assert_eq!(bindings(&scene).is_some(), wrong, "{text}");
        }
    }

    #[test]
    fn values_belong_to_the_call_that_is_cited() {
        let ids = ["get_list_1795304000000_00029246cdd07aba", "get_list_1795304000000_000a5ec78c7ca76e"];
        let source = |(id, result): (&&str, &str)| {
            let mut source = ToolResult::new("get_list", r#"{"day":1}"#, result);
            (source.recent, source.execution_id) = (true, Some((*id).into()));
            source
        };
        let results = ids.iter().zip([r#"{"passages":30}"#, r#"{"passages":39}"#]).map(source).collect();
        let grounds = EvidenceIndex::new(results, Vec::new(), "".into());
        for (text, wrong) in [
            ("30 on Saturday and 39 on Sunday (execution_id=A, execution_id=B).", false),
            ("39 on Sunday, 30 on Saturday (execution_id=A and execution_id=B).", false),
            ("30 on Saturday (execution_id=A), 39 on Sunday (execution_id=B).", false),
            ("39 on Saturday (execution_id=A), 30 on Sunday (execution_id=B).", true),
            ("39 (execution_id=A), 30 (execution_id=B).", true),
        ] {
            let text = text.replace("=A", &format!("={}", ids[0])).replace("=B", &format!("={}", ids[1]));
            let cites: Vec<(usize, usize)> = ids.iter().enumerate().filter_map(|(at, id)| Some((text.find(id)?, at))).collect();
            let plain = AnalyzedPassage::of(&text);
            let sources = grounds.results.iter().collect();
            let scene = CheckContext::new(&plain, Kind::Sentence, language(&words(&text), None), sources, CitationScope::Cited, &grounds);
            let found = bindings(&CheckContext { cites: &cites, ..scene }).map(|finding| finding.rule);
            assert_eq!(found, wrong.then_some("another_call"), "{text}");
        }
    }

    #[test]
    fn values_belong_to_their_records() {
        let pulls = r#"[{"number":412,"title":"Drop 3.8","author":"oksana-k"},{"number":415,"title":"Retry","author":"m-brandt"}]"#;
        let visits = r#"[{"at":"13:30","patient":"Pickles","vet":"Amara Nwosu"},{"at":"13:50","patient":"Socks","vet":"Helen Farrow"}]"#;
        let seats = r#"[{"zone":"zaal","prijs":34.5},{"zone":"balkon","prijs":27.0},{"zone":"loge","prijs":49.0}]"#;
        let refills = r#"[{"drug":"Ramipril","mg":5,"refills_left":0},{"drug":"Atorvastatin","mg":20,"refills_left":5},{"drug":"Salbutamol","mg":1,"refills_left":2}]"#;
        let berths = r#"[{"berth":"A01","status":"free"},{"berth":"A02","status":"taken"},{"berth":"A03","status":"taken"},{"berth":"A04","status":"free"}]"#;
        let tanks = r#"[{"tank":"TK1","beer":"Pilsner","plato":12.5},{"tank":"TK2","beer":"Stout","plato":18.2},{"tank":"TK3","beer":"Cider","plato":9.1}]"#;
        let hearings = r#"[{"date":"2026-10-06","time":"09:30","minutes":90},{"date":"2026-12-15","time":"11:00","minutes":45}]"#;
        let brews = r#"[{"batch":"26-01","name":"純米","pressed":"2026-02-11"},{"batch":"26-03","name":"本醸造","pressed":"2026-01-29"}]"#;
        let loans = r#"[{"due":"2026-10-06","title":"The Overstory","pages":612},{"due":"2026-09-22","title":"Atlas of Clouds","pages":184},{"due":"2026-11-02","title":"Ship's Log","pages":410}]"#;
        let pages = r#"[{"title":"The Overstory","pages":612},{"title":"Atlas of Clouds","pages":184},{"title":"Salt","pages":447}]"#;
        let skins = r#"[{"skin":"L01","dm2":62.5},{"skin":"L02","dm2":48.5},{"skin":"L03","dm2":71.5}]"#;
        let runs = r#"[{"suite":"e2e","tests":42,"seconds":1182},{"suite":"unit","tests":412,"seconds":54},{"suite":"wide","tests":7,"seconds":42.5}]"#;
        let letters = r#"[{"name":"s s","v":12.5},{"name":"s s s","v":4.5},{"name":"s","v":7.5}]"#;
        let debts = r#"[{"payer":"Defne","amount":5400},{"payer":"Mert","amount":1800},{"payer":"Ece","amount":900}]"#;
        let boxes = "S-601 DELIVERED\nS-602 DELIVERED\nS-603 IN_TRANSIT\nS-604 DELIVERED";
        let hives = r#"[{"hive":"OL1","weight_kg":38.2,"before_kg":33.9},{"hive":"OL2","weight_kg":29.5,"before_kg":30.1}]"#;
        for (result, kind, text, wrong) in [
            (pulls, Kind::Line, "- \"Drop 3.8\" by m-brandt", Some("record_text")),
            (pulls, Kind::Line, "- \"Drop 3.8\" by oksana-k", None),
            (visits, Kind::Sentence, "Pickles is with Helen Farrow at 13:30.", Some("record_text")),
            (visits, Kind::Sentence, "Pickles is with Amara Nwosu at 13:50.", Some("record_hour")),
            (visits, Kind::Sentence, "Pickles is with Amara Nwosu at 13:30, and Socks with Helen Farrow at 13:50.", None),
            (visits, Kind::Sentence, "Pickles comes before Socks.", None),
            (seats, Kind::Sentence, "Een plaats in de zaal kost € 27,00.", Some("record_number")),
            (seats, Kind::Sentence, "Een plaats in de zaal kost € 34,50 en op het balkon € 27,00.", None),
            (refills, Kind::Sentence, "You have 5 refills left on Ramipril.", Some("record_field")),
            (refills, Kind::Sentence, "You have 5 refills left on Atorvastatin.", None),
            (refills, Kind::Sentence, "There are 7 refills left in all: Ramipril (0), Atorvastatin (5), Salbutamol (2).", None),
            (hives, Kind::Sentence, "OL1 gained 4.3 kg.", None),
            (berths, Kind::Sentence, "Free: A01, A03 and A04.", Some("record_kind")),
            (berths, Kind::Sentence, "Free: A01 and A04.", None),
            (berths, Kind::Sentence, "Of A01, A03 and A04 two are free.", None),
            (berths, Kind::Sentence, "A01 and A04 are free, A03 is taken.", None),
            (tanks, Kind::Line, "- Stout (TK2): 12.5", Some("record_number")),
            (tanks, Kind::Line, "- Stout (TK2): 18.2", None),
            (hearings, Kind::Sentence, "The hearing is on 15 December at 9:30.", Some("record_hour")),
            (hearings, Kind::Sentence, "The hearing is on 15 December at 11:00.", None),
            (hearings, Kind::Sentence, "The hearing of 6 October is over at 11:00.", None),
            (brews, Kind::Sentence, "最も早いのは26-01の純米で、2026年1月29日でした", Some("record_day")),
            // Further on in the line of one record, in brackets behind its name, behind a preposition.
            (loans, Kind::Line, "- The Overstory, due on 22 September", Some("record_day")),
            (loans, Kind::Line, "- The Overstory, due on 6 October", None),
            (pages, Kind::Line, "- Atlas of Clouds, hardback, 612", None),
            (pages, Kind::Line, "- Atlas of Clouds, 612", Some("record_number")),
            (pages, Kind::Line, "- Atlas of Clouds, 184", None),
            (loans, Kind::Line, "- Ship's Log (410 pages)", None),
            (runs, Kind::Line, "- e2e: 19 min 42 s", None),
            (runs, Kind::Line, "- e2e: 54 s", Some("record_number")),
            (skins, Kind::Line, "- black: L01 (48.5 dm²) and L02 (62.5 dm²)", Some("record_number")),
            (skins, Kind::Line, "- black: L01 (62.5 dm²) and L02 (48.5 dm²)", None),
            (visits, Kind::Line, "- 13:50: visit of Pickles", Some("record_hour")),
            (visits, Kind::Line, "- 13:30: visit of Pickles", None),
            (letters, Kind::Line, "- s s, 4 of s's 12.5", None),
            (debts, Kind::Line, "- Mert, Defne'ye 900 TL", None),
            (boxes, Kind::Line, "- 2 delivered", Some("tallies")),
            (boxes, Kind::Line, "- 3 delivered", None),
        ] {
            assert_eq!(rule(&[("{}", result)], kind, text), wrong, "{text}");
        }
    }
}
