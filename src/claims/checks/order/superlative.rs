//! Superlatives that a sentence tells with the figures of what lies at no end: `The deepest was the
//! one at Lourdes, at 11.7 km`, of four of which one lay at 14.9. Pure.
//!
//! No word is compared with the name of a column: the figures that the sentence tells are those of one record, and in none of their
//! columns does that record lie at an end.

use std::{ops::Range, sync::OnceLock};

use regex::Regex;

use crate::{
    checks::account::sentence,
    context::{CheckContext, CitationScope, ClaimFinding},
    evidence::{
        ToolResult,
        facts::Scalar,
        rows::{Cell, Row, Rows},
    },
    language::{
        cues, date,
        fold::{akin, fold, stands_in},
        lexicon::Word,
        number::numbers,
        word_list::{PhraseList, WordList},
    },
    passage::Kind,
};
use toolmark_base::violation::{Certainty, Code};

/// Rows from which one of them can be wrongly said to lie at an end.
const ROWS_MIN: usize = 3;
/// Bytes between a superlative and a figure that it may be told of.
const NEAR_BYTES: usize = 90;

/// Bytes of a phrase with a superlative in it: `am höchsten`.
const PHRASE_BYTES: usize = 24;
/// Bytes from a superlative in which it is said to be one of a rate.
const RATE_BYTES: usize = 30;

/// Words of the end of a scale that hold for their neighbours, or of a limit, in any language.
static OTHERS: PhraseList = PhraseList::in_any_case(&[
    "second",
    "third",
    "next",
    "2nd",
    "3rd",
    "at least",
    "at most",
    "one of the",
    "among",
    "after",
    "besides",
    "apart from",
    "other than",
    "except",
    "so far",
    "than",
    "zweit",
    "dritt",
    "nächst",
    "mindestens",
    "höchstens",
    "eine der",
    "einer der",
    "eines der",
    "unter den",
    "nach dem",
    "außer",
    "bisher",
    "als ",
    "deuxième",
    "troisième",
    "suivant",
    "au moins",
    "au plus",
    "l'un des",
    "l’un des",
    "l'une des",
    "l’une des",
    "parmi",
    "après",
    "hormis",
    "sauf",
    "que ",
    "segund",
    "tercer",
    "siguiente",
    "al menos",
    "como máximo",
    "uno de los",
    "una de las",
    "entre l",
    "después",
    "salvo",
    "secondo",
    "seconda",
    "terz",
    "prossim",
    "almeno",
    "al massimo",
    "uno dei",
    "una delle",
    "tra i",
    "tra le",
    "dopo",
    "tranne",
    "che ",
    "terceir",
    "próxim",
    "pelo menos",
    "no máximo",
    "um dos",
    "uma das",
    "depois",
    "exceto",
    "tweede",
    "derde",
    "volgend",
    "minstens",
    "hoogstens",
    "een van de",
    "na de",
    "behalve",
    "dan ",
    "drug",
    "trzeci",
    "następn",
    "co najmniej",
    "co najwyżej",
    "jeden z",
    "jedna z",
    "spośród",
    "oprócz",
    "niż",
    "ikinci",
    "üçüncü",
    "sonraki",
    "en az",
    "en fazla",
    "en çok",
    "birisi",
    "sonra",
    "hariç",
    "以外",
    "次",
    "二番",
    "第二",
    "中で",
    "のうち",
    "其次",
    "之一",
    "除",
    "以后",
    "दूसर",
    "तीसर",
    "कम से कम",
    "के बाद",
    "के अलावा",
]);

/// Does a text speak of a neighbour of an end, or of a limit: `the second cheapest`?
pub(super) fn holds_for_neighbours(text: &str) -> bool {
    OTHERS.stands_in(text)
}

/// Superlatives, in the languages with blanks. Those of time (`latest`, `next`) and of quality (`best`) are none: they are told of
/// the hour, or of several things together.
fn superlatives() -> Option<&'static Regex> {
    static ALL: OnceLock<Option<Regex>> = OnceLock::new();
    ALL.get_or_init(|| {
        let all = [
            r"\b(?:the|your|his|her|their|our|its)\s+(?:most|least)\s+\p{L}{4,}",
            r"\bam\s+(?:höch|niedrig|tief|größ|klein|läng|kürz|billig|günstig|teuer|schnell|langsam|wärm|kält|schwer|leicht|stärk|schwäch|äl|jüng|weit|voll|früh|spä)\p{L}{0,4}sten\b",
            r"\b(?:le|la|les)\s+(?:plus|moins)\s+(?:haut|bas|basse|élev|profond|grand|petit|long|court|cher|chère|rapide|lent|chaud|froid|lourd|lég|fort|faible|vieux|vieille|âgé|jeune|proche|éloigné|loin|charg|plein|rempli|bondé|fréquent|pluvieu|sec|sèche|humide|ancien|récent|coûteu|économique|précoce|tardi)\p{L}*",
            r"\b(?:el|la|los|las)\s+(?:más|menos)\s+\p{L}{4,}",
            r"\b(?:il|la|i|le|gli)\s+(?:più|meno)\s+\p{L}{4,}",
            r"\b(?:o|a|os|as)\s+(?:mais|menos)\s+\p{L}{4,}",
            r"\b(?:de|het)\s+(?:hoog|laag|diep|groot|klein|lang|kort|goedkoop|duur|snel|langzaam|traag|warm|koud|zwaar|licht|sterk|zwak|oud|jong|druk|vol|vroeg|laat)ste\b",
            r"\bnaj(?:wyż|niż|głęb|więk|mniej|dłuż|krót|tań|taj|droż|szyb|woln|ciepl|zimn|cięż|lżej|silni|słab|star|młod|wcześ|późn)\p{L}*",
            r"\ben\s+(?:yüksek|düşük|derin|büyük|küçük|uzun|kısa|ucuz|pahalı|hızlı|yavaş|sıcak|soğuk|ağır|hafif|güçlü|zayıf|yaşlı|genç|dolu|kalabalık|erken|geç|yağışlı)\b",
        ];
        Regex::new(&all.join("|")).ok()
    })
    .as_ref()
}

/// The finding of a passage that tells an end of a scale with the figures of what doesn't lie there.
pub(crate) fn superlative(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
    let [source] = scene.sources.as_slice() else { return None };
    let plain = scene.plain;
    let told = !plain.numbers().is_empty() || !plain.dates().dates.is_empty() || !plain.dates().times.is_empty();
    if !told
        || scene.bond < CitationScope::Introduced
        || scene.endless
        || scene.kind == Kind::Heading
        || plain.asks()
        || source.is_partial()
    {
        return None;
    }
    let rows = source.rows();
    if !rows.columns || rows.rows.len() < ROWS_MIN {
        return None;
    }
    let place = place(scene)?;
    if OTHERS.stands_in(scene.text()) || sentence::tells_nothing(scene) || narrows(scene, source, &place) {
        return None;
    }
    let cells = told_cells(scene, rows, place.start)?;
    let row = cells.first()?.0;
    if cells.iter().any(|(own, _)| *own != row) {
        return None;
    }
    let own = rows.rows.get(row)?;
    let ends = |column: &str| is_end(rows.rows.iter(), own, column) || ends_among_its_like(rows, own, column);
    // `the cheapest per night`: of what is reckoned from several columns.
    static RATES: WordList = WordList::new(&["per", "pro", "par", "por", "je", "each", "ratio", "average", "value", "przez", "başına"]);
    let beside = || plain.words.iter().filter(|word| word.start.abs_diff(place.start) <= RATE_BYTES);
    let reckoned = || scene.grounds.asked.words().iter().chain(beside()).any(|word| RATES.has(&word.lower));
    let wrong = !cells.iter().any(|(_, column)| ends(column)) && !reckoned();
    wrong.then(|| sentence::whole(scene, "superlative", Code::ClaimMismatch, "another one has the most or the least", Certainty::Likely))
}

/// The place of the passage's only superlative.
fn place(scene: &CheckContext<'_>) -> Option<Range<usize>> {
    let words = cues::extremes(scene.plain).map(|word: &Word| word.start..word.end);
    let phrases = superlatives()?.find_iter(scene.plain.lower()).map(|found| found.range());
    let mut all = words.chain(phrases);
    let first = all.next()?;
    let place = all.try_fold(first, |place, next| {
        let both = place.start.min(next.start)..place.end.max(next.end);
        (both.len() <= PHRASE_BYTES).then_some(both)
    })?;
    Some(place)
}

/// Does the question or the passage narrow what the end is looked for among: by a number that the call wasn't given, a condition, a word
/// that neither the call nor the result has (`the fastest junior`)?
fn narrows(scene: &CheckContext<'_>, source: &ToolResult, place: &Range<usize>) -> bool {
    static LIMITS: WordList = WordList::new(&[
        "under", "below", "above", "over", "between", "without", "with", "need", "must", "that", "mit", "unter", "über", "zwischen",
        "ohne", "moins", "sous", "avec", "sans", "bajo", "con", "sin", "sotto", "sopra", "senza", "abaixo", "acima", "com", "sem", "onder",
        "boven", "met", "zonder", "poniżej", "powyżej", "bez", "dla",
    ]);
    let asked = &scene.grounds.asked;
    let given = source.folded_arguments();
    let limits =
        |word: &Word| LIMITS.has(&word.lower) || word.lower.bytes().any(|byte| byte.is_ascii_digit()) && !stands_in(given, &word.folded());
    // `The wettest day`: of what the result holds; `the fastest junior` isn't.
    let behind = scene.plain.words.iter().find(|word| word.start >= place.end);
    let of_part = behind.is_some_and(|word| !word.lower.bytes().any(|byte| byte.is_ascii_digit()) && !is_known(scene, source, word));
    asked.words().len() > ASKED_WORDS_MAX
        || source.facts().leaves.iter().any(|leaf| leaf.record > 0 && matches!(leaf.value, Scalar::Flag(_)))
        || of_part
        || asked.words().iter().any(|word| limits(word) || !is_known(scene, source, word))
}

/// Words of a question that are looked at: a longer one narrows what is looked among.
const ASKED_WORDS_MAX: usize = 100;
/// Letters from which a word can narrow anything.
const WORD_CHARS: usize = 4;

/// Is it a word of the call or the result, of grammar, of time, or one that asks?
fn is_known(scene: &CheckContext<'_>, source: &ToolResult, word: &Word) -> bool {
    static PLAIN: WordList = WordList::new(&[
        "which",
        "what",
        "when",
        "where",
        "week",
        "weeks",
        "month",
        "months",
        "year",
        "years",
        "days",
        "hour",
        "hours",
        "time",
        "today",
        "tonight",
        "yesterday",
        "last",
        "past",
        "this",
        "these",
        "those",
        "there",
        "have",
        "total",
        "best",
        "tell",
        "show",
        "give",
        "please",
        "most",
        "least",
        "ones",
        "quel",
        "quelle",
        "quels",
        "quelles",
        "été",
        "était",
        "jours",
        "jour",
        "semaine",
        "mois",
        "dernier",
        "derniers",
        "dernière",
        "dernières",
        "dans",
        "cette",
        "welcher",
        "welche",
        "welches",
        "wann",
        "woche",
        "monat",
        "jahr",
        "tage",
        "tagen",
        "letzte",
        "letzten",
        "letzter",
        "heute",
        "gestern",
        "diese",
        "dieser",
        "dieses",
        "cuál",
        "cual",
        "semana",
        "último",
        "última",
        "últimos",
        "últimas",
        "días",
        "esta",
        "este",
        "quale",
        "quali",
        "settimana",
        "mese",
        "ultimo",
        "ultimi",
        "ultima",
        "giorni",
        "giorno",
        "questa",
        "questo",
        "qual",
        "quais",
        "mês",
        "dias",
        "welke",
        "maand",
        "vorige",
        "afgelopen",
        "dagen",
        "deze",
        "który",
        "która",
        "które",
        "tygodniu",
        "miesiącu",
        "hangi",
        "hafta",
        "geçen",
        "gece",
        "much",
        "long",
        "many",
        "lowest",
        "highest",
    ]);
    let lower = word.lower.as_str();
    let folded = fold(lower);
    // A name in the question, which the call may give by a code.
    let name = || {
        let written = scene.grounds.asked.get(word.start..word.end).filter(|written| written.to_lowercase() == lower);
        word.start > 0 && scene.lexicon.language != "de" && written.is_some_and(|written| written.starts_with(char::is_uppercase))
    };
    let keys = || source.facts().keys().iter().any(|key| akin(key, &folded) || key.contains(&folded));
    lower.chars().count() < WORD_CHARS
        || PLAIN.has(lower)
        || scene.lexicon.common.contains(lower)
        || cues::is_extreme(lower)
        || name()
        || stands_in(source.folded_arguments(), &folded)
        || stands_in(source.folded(), &folded)
        || source.tool_words().split(' ').any(|own| akin(own, &folded))
        || keys()
        || told_in(scene, &folded)
}

/// Has the passage this word of the question beside its superlative, as that itself: `profond` of `le plus profond`?
fn told_in(scene: &CheckContext<'_>, folded: &str) -> bool {
    superlatives()
        .into_iter()
        .flat_map(|all| all.find_iter(scene.plain.lower()))
        .any(|found| fold(found.as_str()).split(' ').any(|own| own == folded || akin(own, folded)))
}

/// The cells whose values the passage tells near its superlative, each with its row; of a value that stands in several, none. `None` if it
/// tells one that stands in no cell: the end may be that one's, which is reckoned or told in another form.
fn told_cells<'r>(scene: &CheckContext<'_>, rows: &'r Rows, place: usize) -> Option<Vec<(usize, &'r str)>> {
    let plain = scene.plain;
    let near = |at: usize| {
        let between = scene.text().get(at.min(place)..at.max(place)).unwrap_or_default();
        between.len() <= NEAR_BYTES && !between.contains([';', '\n', '；'])
    };
    let mut found = Vec::new();
    let mut take = |is: &dyn Fn(&Cell) -> bool| -> Option<()> {
        let all = rows.rows.iter().enumerate();
        let mut cells = all.flat_map(|(at, row)| row.cells.iter().map(move |cell| (at, cell))).filter(|(_, cell)| is(cell));
        let (at, cell) = cells.next()?;
        if cells.next().is_none() && !cell.column.is_empty() {
            found.push((at, cell.column.as_str()));
        }
        Some(())
    };
    for number in plain.numbers().iter().filter(|number| !number.ordinal && near(number.span.start)) {
        if plain.is_taken(&(number.span.start..number.end)) {
            continue;
        }
        take(&|cell| cell.number.is_some_and(|value| number.readings().any(|reading| reading.rounds(value))))?;
    }
    for day in plain.dates().dates.iter().filter(|day| near(day.span.start)) {
        take(&|cell| date::dates(&cell.raw).dates.iter().any(|own| own.is(day)))?;
    }
    for time in plain.dates().times.iter().filter(|time| near(time.span.start)) {
        take(&|cell| date::dates(&cell.raw).times.iter().any(|own| own.minutes == time.minutes))?;
    }
    Some(found)
}

/// The value of a row in a column, by which rows can be put in order.
fn value(row: &Row, column: &str) -> Option<f64> {
    let cell = row.cells.iter().find(|cell| cell.column == column)?;
    let moment = || {
        let found = date::dates(&cell.raw);
        let day = found.dates.first().and_then(|day| day.days().next());
        let minutes = found.times.first().map(|time| f64::from(time.minutes));
        if day.is_none() && minutes.is_none() { None } else { Some(day.unwrap_or(0) as f64 * 1440.0 + minutes.unwrap_or(0.0)) }
    };
    moment().or(cell.number).or_else(|| numbers(&cell.raw).first()?.readings().next().map(|reading| reading.value))
}

/// Does a row lie at an end of a column among these?
fn is_end<'r>(rows: impl Iterator<Item = &'r Row> + Clone, own: &Row, column: &str) -> bool {
    let Some(mine) = value(own, column) else { return true };
    let others = || rows.clone().filter_map(|row| value(row, column));
    others().all(|other| other <= mine) || others().all(|other| other >= mine)
}

/// Does it lie at an end among the rows that share one of its other values: the cheapest of those that are free?
fn ends_among_its_like(rows: &Rows, own: &Row, column: &str) -> bool {
    own.cells.iter().filter(|cell| cell.column != column && !cell.column.is_empty()).any(|cell| {
        let of = |row: &&Row| row.cells.iter().any(|other| other.column == cell.column && other.folded == cell.folded);
        let values =
            rows.rows.iter().filter_map(|row| row.cells.iter().find(|other| other.column == cell.column).map(|other| &other.folded));
        let distinct = values.collect::<std::collections::BTreeSet<_>>().len();
        let group = rows.rows.iter().filter(of).count();
        match group {
            0 | 1 => 2 * distinct <= rows.rows.len(),
            _ => group < rows.rows.len() && is_end(rows.rows.iter().filter(of).collect::<Vec<_>>().into_iter(), own, column),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        evidence::EvidenceIndex,
        language::lexicon::{language, words},
        plain::AnalyzedPassage,
    };

    #[test]
    fn an_end_is_told_with_the_figures_of_what_lies_there() {
        let quakes = "date;place;magnitude;depth_km\n2026-10-28;Arette;2.9;8.1\n2026-11-02;Lourdes;3.4;11.7\n2026-11-09;Bigorre;2.2;14.9\n2026-11-17;Laruns;3.1;6.0";
        let flats = r#"[{"flat":"F1","rent":610,"heating":"gas"},{"flat":"F2","rent":420,"heating":"oil"},{"flat":"F3","rent":890,"heating":"gas"},{"flat":"F4","rent":760,"heating":"oil"}]"#;
        let houses = r#"[{"flat":"F1","rent":610,"sqm":54},{"flat":"F2","rent":420,"sqm":31},{"flat":"F3","rent":890,"sqm":78}]"#;
        let balconies =
            r#"[{"flat":"F1","rent":610,"balcony":true},{"flat":"F2","rent":420,"balcony":false},{"flat":"F3","rent":890,"balcony":true}]"#;
        for (result, asked, text, wrong) in [
            (quakes, "Which quake was the deepest?", "The deepest quake lay at 11.7 km.", true),
            (quakes, "Où était le plus profond ?", "Le plus profond est celui de Lourdes, le 2 novembre, à 11,7 km.", true),
            (quakes, "Wo war es am tiefsten?", "Am tiefsten lag es mit 11,7 km.", true),
            (quakes, "Which quake was the deepest?", "The deepest quake lay at 14.9 km.", false),
            // Another end, another figure, a part, a rank, a rate.
            (quakes, "Which quake was the strongest?", "The strongest quake had 3.4, at 11.7 km.", false),
            (quakes, "Which quake was the deepest?", "The deepest quake lay 23 km from town, at 11.7 km.", false),
            (quakes, "Which quake was the second deepest?", "The second deepest lay at 11.7 km.", false),
            (quakes, "The deepest per magnitude?", "The deepest lay at 11.7 km.", false),
            (houses, "Which flat is the cheapest?", "The cheapest flat costs 610.", true),
            (flats, "Which flat is the cheapest?", "The cheapest flat costs 610.", false),
            (flats, "Which flat with gas is the cheapest?", "The cheapest flat costs 610.", false),
            (flats, "I have a dog, so which flat is the cheapest?", "The cheapest flat costs 610.", false),
            (flats, "Which flat is the cheapest below 700?", "The cheapest flat costs 610.", false),
            (flats, "Which flat is the cheapest?", "The cheapest family home costs 760.", false),
            (balconies, "Need a balcony. Cheapest?", "The cheapest flat costs 610.", false),
        ] {
            let grounds = EvidenceIndex::new(vec![ToolResult::new("list_quakes", "{}", result)], vec![asked.into()], asked.into());
            let plain = AnalyzedPassage::of(text);
            let (lexicon, sources) = (language(&words(text), None), grounds.results.iter().collect());
            let scene = CheckContext::new(&plain, Kind::Sentence, lexicon, sources, CitationScope::Cited, &grounds);
            assert_eq!(superlative(&scene).is_some(), wrong, "{asked} / {text}");
        }
    }
}
