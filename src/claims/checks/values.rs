//! Values in prose: numbers, dates, addresses, quotations that no result and nothing else in the conversation has. Pure.

use std::ops::Range;

use crate::{
    checks::{compound_numbers::stands, consistency},
    context::{CheckContext, CitationScope, ClaimFinding},
    evidence::{ToolResult, derive, fits, parts, reckon},
    language::{
        cues, date,
        fold::{behind_last, fold},
        lexicon::{self, Word},
        number::{Number, Precision, is_within_digits},
        unit, url,
        word_list::{PhraseList, WordList},
    },
    passage::Kind,
};
use toolmark_base::violation::{Certainty, Code};

/// Numbers of a passage that stand nowhere: what is behind so many isn't looked at.
const OPEN_MAX: usize = 48;
/// Steps of a reckoning, each from what those before it made.
const ROUNDS_MAX: usize = 5;
/// Whole numbers up to here are used for anything.
const SMALL: u64 = 10;
/// Numbers of hours, minutes, percent and such that need no source.
const COMMON: [u64; 9] = [12, 15, 20, 24, 30, 60, 90, 100, 365];
/// Characters of a quotation in a script without blanks that says too little to be told from a translation.
const SPACELESS_CHARS: usize = 8;
/// Bytes of a quotation that is judged.
const QUOTED_BYTES: Range<usize> = 8..400;

/// Addresses that nothing in the conversation has.
pub fn addresses(scene: &CheckContext<'_>) -> Vec<ClaimFinding> {
    if scene.unseen {
        return Vec::new();
    }
    let judge = |span: &Range<usize>| {
        let said = scene.text().get(span.clone())?;
        let plain = url::plain(said);
        let host = url::host(&plain);
        // An answer that cites nothing may name addresses of its own knowledge, but not of the result's own place.
        let bound = scene.bond >= CitationScope::Near || scene.grounds.knows_host(host);
        let wrong = bound && !url::is_placeholder(host) && !scene.grounds.has_address(said);
        wrong.then(|| ClaimFinding {
            rule: "addresses",
            code: Code::FabricatedUrl,
            span: span.clone(),
            found: said.to_owned(),
            expected: "an address that a result or the conversation has".to_owned(),
            certainty: Certainty::Certain,
        })
    };
    scene.plain.urls.iter().filter_map(judge).collect()
}

/// Numbers, dates and quotations that nothing in the conversation has. Only of what a citation covers.
pub fn values(scene: &CheckContext<'_>) -> Vec<ClaimFinding> {
    let Some(source) = scene.sources.first().filter(|_| scene.is_judged(CitationScope::Near)) else { return Vec::new() };
    let mut found = dates(scene);
    found.extend(numbers_of(scene));
    found.extend(places(scene));
    found.extend(quotations(scene, source));
    found.extend(addresses_of_mail(scene, source));
    found
}

/// Numbers and dates beside the citation of what failed that nothing in the conversation has: `error 507` of a 504.
pub fn of_failure(scene: &CheckContext<'_>) -> Vec<ClaimFinding> {
    if !scene.is_judged(CitationScope::Cited) {
        return Vec::new();
    }
    let mut found = dates(scene);
    found.extend(numbers_of(scene));
    found
}

/// A value that nothing accounts for.
pub(super) fn ungrounded(scene: &CheckContext<'_>, rule: &'static str, span: Range<usize>) -> ClaimFinding {
    let found = scene.text().get(span.clone()).unwrap_or_default().to_owned();
    ClaimFinding {
        rule,
        code: Code::UngroundedValue,
        span,
        found,
        expected: "a value that a result or the conversation has".to_owned(),
        certainty: Certainty::Likely,
    }
}

fn dates(scene: &CheckContext<'_>) -> Vec<ClaimFinding> {
    // A result without any date may be of a day that both sides know.
    let dated = scene.sources.iter().any(|source| !source.facts().dates.dates.is_empty());
    let wrong = |date: &&date::Date| dated && !scene.grounds.has_date(date) && !reckon::dates_from(scene, date);
    scene.plain.dates().dates.iter().filter(wrong).map(|date| ungrounded(scene, "dates", date.span.clone())).collect()
}

fn numbers_of(scene: &CheckContext<'_>) -> Vec<ClaimFinding> {
    if tells_the_usual(scene) {
        return Vec::new();
    }
    let (mut known, mut open) = sort(scene);
    if !open.is_empty() && supposes(scene) {
        known.extend(open.drain(..).flat_map(Number::readings).map(|reading| reading.value));
    }
    scene.known.get_or_init(|| known);
    open.into_iter().map(|number| ungrounded(scene, "numbers", number.span.start..number.end)).collect()
}

/// Places in an order up to here are counted; further ones may be days of a month.
const COUNTED_PLACE: f64 = 12.0;
const LAST_DAY: f64 = 31.0;

/// A number of a ticket, a room or an order that nobody said (`#114`, `47番`, `No. 22`), or a place in an order that no day of a month has.
fn places(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
    let text = scene.text();
    let is_counted = |number: &Number, named: bool| {
        let most = if named { COUNTED_PLACE } else { LAST_DAY };
        number.readings().all(|reading| reading.value <= most)
    };
    // `just short of her 82nd birthday`
    static YEARS_OLD: WordList = WordList::new(&[
        "birthday",
        "geburtstag",
        "anniversaire",
        "cumpleaños",
        "compleanno",
        "aniversário",
        "verjaardag",
        "urodziny",
        "urodzinami",
        "anniversary",
    ]);
    let of_age = |number: &Number| scene.words_after(number.end).first().is_some_and(|word| YEARS_OLD.has(&word.lower));
    let stands = |number: &Number| scene.has_number(number, Precision::Exact) || is_figure_of_name(scene, number) || of_age(number);
    let is_wrong = |number: &&Number| {
        let named = has_number_sign(text, number);
        number.ordinal
            && !is_counted(number, named)
            && (named || !begins_line(text, number.span.start))
            && !scene.plain.is_taken(&(number.span.start..number.end))
            && !stands(number)
    };
    let number = scene.plain.numbers().iter().find(is_wrong)?;
    Some(ungrounded(scene, "places", number.span.clone()))
}

/// `#114`, `No. 22`, `47番`
fn has_number_sign(text: &str, number: &Number) -> bool {
    let before = text.get(..number.span.start).unwrap_or_default();
    let behind = text.get(number.end..).unwrap_or_default();
    ["#", "№", "No. ", "Nr. "].iter().any(|sign| before.ends_with(sign)) || behind.starts_with(['号', '號', '番'])
}

/// Has its line nothing but marks before this place?
fn begins_line(text: &str, place: usize) -> bool {
    let before = text.get(..place).unwrap_or_default();
    before.rsplit('\n').next().is_some_and(|line| !line.contains(char::is_alphanumeric))
}

/// Does a passage that another one's citation covers tell what is so in general: `it is usually around 35 °C`?
fn tells_the_usual(scene: &CheckContext<'_>) -> bool {
    static USUAL: PhraseList = PhraseList::new(&[
        "usually",
        "typically",
        "normally",
        "as a rule",
        "rule of thumb",
        "in general",
        "generally",
        "ublicherweise",
        "normalerweise",
        "in der regel",
        "meist ",
        "meistens",
        "faustregel",
        "habituellement",
        "generalement",
        "d habitude",
        "en general",
        "normalmente",
        "habitualmente",
        "por lo general",
        "di solito",
        "in genere",
        "geralmente",
        "em geral",
        "meestal",
        "doorgaans",
        "gewoonlijk",
        "zwykle",
        "zazwyczaj",
        "genellikle",
        "普通は",
        "通常",
        "一般に",
        "一般的",
        "一般来说",
        "आमतौर",
        "सामान्यतः",
    ]);
    scene.bond < CitationScope::Cited && USUAL.stands_in(scene.plain.folded())
}

/// Does a passage tell what would be, as the user asks: `What if we got it down to 20 %?`
fn supposes(scene: &CheckContext<'_>) -> bool {
    static ASKS: PhraseList = PhraseList::new(&[
        "what if",
        "what would",
        "if we ",
        "if i ",
        "suppose",
        "assuming",
        "was ware",
        "was passiert wenn",
        "angenommen",
        "et si ",
        "que se passe",
        "y si ",
        "que pasa si",
        "e se ",
        "cosa succede se",
        "wat als",
        "co jesli",
        "ya ",
        "もし",
        "如果",
        "अगर",
    ]);
    static WOULD: WordList = WordList::new(&[
        "would", "'d", "you'd", "it'd", "we'd", "could", "würde", "würden", "wäre", "wären", "serait", "seraient", "sería", "serían",
        "sarebbe", "seria", "seriam", "zou", "zouden", "byłoby",
    ]);
    ASKS.stands_in(scene.grounds.asked.folded()) && scene.plain.words.iter().any(|word| WOULD.has(&word.lower))
}

/// The numbers of a passage that stand on its results and the conversation, or are reckoned from such.
pub fn standing(scene: &CheckContext<'_>) -> Vec<f64> {
    sort(scene).0
}

/// The numbers of a passage that stand, and those that don't.
fn sort<'s>(scene: &'s CheckContext<'_>) -> (Vec<f64>, Vec<&'s Number>) {
    let (mut known, mut open): (Vec<f64>, Vec<(&Number, Precision)>) = (Vec::new(), Vec::new());
    for number in scene.plain.numbers().iter().filter(|number| !number.ordinal) {
        if open.len() >= OPEN_MAX {
            break;
        }
        let taken = scene.plain.is_taken(&(number.span.start..number.end))
            || in_code(scene.text(), number.span.start)
            || is_of_name(scene.text(), number.span.start);
        let precision = precision_of(scene, number);
        let named = || {
            is_http_status(scene, number)
                || is_figure_of_name(scene, number)
                || is_section(scene, number)
                || is_full_hour(scene, number)
                || is_between_results(scene, number)
                || is_in_other_degrees(scene, number)
                || is_of_formula(scene, number)
                || ends_an_id(scene, number)
                || is_of_race(scene, number)
                || is_known_port(scene, number)
                || is_fee_of_some(scene, number)
        };
        if !(taken || is_common(scene, number) || stands_alone(scene, number, precision) || named()) {
            open.push((number, precision));
        } else if !taken {
            known.extend(number.readings().map(|reading| reading.value));
        }
    }
    // What is reckoned from those that stand makes the next one known: from those of the results too where the passage shows that it
    // reckons, else from those that it tells itself, and from the question's.
    let reckons = may_reckon(scene);
    let may_be = |number: &Number| reckon::may_be(scene, number);
    let mut rounds = if open.len() <= reckon::RECKONED_MAX && open.iter().any(|(number, _)| may_be(number)) { ROUNDS_MAX } else { 0 };
    while rounds > 0 && !open.is_empty() {
        let all = reckon::Operands::new(scene, &known, if reckons { reckon::Reach::Results } else { reckon::Reach::Passage });
        let is_made = |(number, precision): &&(&Number, Precision)| may_be(number) && all.make(number, *precision, role_of(scene, number));
        let (made, rest): (Vec<_>, Vec<_>) = open.iter().partition(is_made);
        known.extend(made.iter().flat_map(|(number, _)| number.readings()).map(|reading| reading.value));
        rounds = if made.is_empty() { 0 } else { rounds - 1 };
        open = rest;
    }
    if reckons && !open.is_empty() && open.len() <= reckon::RECKONED_MAX && !reckon::is_plain_report(scene) {
        let all = reckon::Operands::new(scene, &known, reckon::Reach::Results);
        let (made, rest): (Vec<_>, Vec<_>) = open.iter().partition(|(number, _)| may_be(number) && all.make_with_constant(number));
        known.extend(made.iter().flat_map(|(number, _)| number.readings()).map(|reading| reading.value));
        open = rest;
    }
    (known, open.into_iter().map(|(number, _)| number).collect())
}

/// Times of day, and spans between them, of which others are counted.
const DOTTED_TIMES_OF: usize = 32;
const DOTTED_SPANS_OF: usize = 32;

/// `11.15` of 11:15, as some languages write times of day.
fn is_dotted_time(scene: &CheckContext<'_>, number: &Number) -> bool {
    let text = scene.text().get(number.span.clone()).unwrap_or_default();
    let Some((hour, minute)) = text.split_once('.').filter(|(hour, minute)| hour.len() <= 2 && minute.len() == 2) else { return false };
    let (Ok(hour), Ok(minute)) = (hour.parse::<u32>(), minute.parse::<u32>()) else { return false };
    let told = scene.sources.iter().flat_map(|source| &source.facts().dates.times).chain(&scene.grounds.said_dates().times);
    let mut told = told.take(DOTTED_TIMES_OF).map(|time| i64::from(time.minutes));
    // So many minutes before or after one, too: it leaves at 18.15 and takes 20 minutes.
    let spans =
        || scene.sources.iter().flat_map(|source| source.facts().numbers.iter()).take(DOTTED_SPANS_OF).filter(|span| span.fract() == 0.0);
    let own = i64::from(hour * 60 + minute);
    // `at 7.30` of 19:30.
    let is = |time: i64| time == own || hour <= 12 && (time == own + 720 || time + 720 == own);
    hour < 24 && minute < 60 && told.any(|time| is(time) || spans().any(|span| (time - own).abs() == *span as i64))
}

/// Results, and members of each, between which a difference is looked for.
const COMPARED_RESULTS: usize = 4;
const COMPARED_MEMBERS: usize = 64;

/// By how much a member of one cited result differs from the same one of another: `12,840 lines, 204 more than on main`.
fn is_between_results(scene: &CheckContext<'_>, number: &Number) -> bool {
    if scene.sources.len() < 2 {
        return false;
    }
    let members: Vec<Vec<(&str, f64)>> = scene.sources.iter().take(COMPARED_RESULTS).map(|source| members_of(source)).collect();
    let differs = |one: &[(&str, f64)], other: &[(&str, f64)]| {
        one.iter()
            .any(|(key, value)| other.iter().any(|(own, against)| own == key && fits(number, Precision::Exact, &[(value - against).abs()])))
    };
    members.iter().enumerate().any(|(at, one)| members.iter().skip(at + 1).any(|other| differs(one, other)))
}

/// The numbers of a result that belong to no record, each with its member's name.
fn members_of(source: &ToolResult) -> Vec<(&str, f64)> {
    let leaves = source.facts().leaves.iter().filter(|leaf| leaf.record == 0).take(COMPARED_MEMBERS);
    leaves.filter_map(|leaf| Some((leaf.key.as_str(), leaf.value.number()?))).collect()
}

/// `24.5 °C, i.e. 76.1 °F`: a temperature of the passage, in the other unit.
fn is_in_other_degrees(scene: &CheckContext<'_>, number: &Number) -> bool {
    let degrees = |number: &Number| {
        let text = scene.text().get(number.span.start..number.end).unwrap_or_default();
        if text.ends_with(['F', 'f']) { Some(true) } else { text.ends_with(['C', 'c']).then_some(false) }
    };
    let hot = |number: &Number| number.unit.is_some_and(|unit| unit.dimension == "temperature");
    let Some(own) = degrees(number).filter(|_| hot(number)) else { return false };
    let convert = |value: f64| if own { value * 1.8 + 32.0 } else { (value - 32.0) / 1.8 };
    let others =
        scene.plain.numbers().iter().filter(|other| other.span.start < number.span.start && hot(other) && degrees(other) == Some(!own));
    others.flat_map(Number::readings).any(|other| number.readings().any(|shown| shown.rounds(convert(other.value))))
}

/// `the usual 131.25 formula`: a constant that has a name.
fn is_of_formula(scene: &CheckContext<'_>, number: &Number) -> bool {
    static NAMES: WordList = WordList::new(&[
        "formula",
        "factor",
        "constant",
        "rule",
        "faktor",
        "formel",
        "faustformel",
        "facteur",
        "formule",
        "fórmula",
        "fattore",
        "fator",
    ]);
    number.unit.is_none() && scene.words_after(number.end).first().is_some_and(|word| NAMES.has(&word.lower))
}

/// `port 23`, of a service that everybody knows.
fn is_known_port(scene: &CheckContext<'_>, number: &Number) -> bool {
    const PORTS: [u64; 16] = [20, 21, 22, 23, 25, 53, 80, 110, 123, 143, 443, 445, 3306, 3389, 5432, 8080];
    let named =
        || scene.words_before(number.span.start).last().is_some_and(|word| word.lower.starts_with("port") || &*word.lower == "puerto");
    number.whole().is_some_and(|port| PORTS.contains(&port)) && named()
}

/// Kilometres of a marathon, and of half of one.
const RACES: [f64; 4] = [42.195, 42.2, 21.0975, 21.1];

fn is_of_race(scene: &CheckContext<'_>, number: &Number) -> bool {
    number.readings().any(|reading| RACES.contains(&reading.value)) && scene.plain.lower().contains("marat")
}

/// `54 is still out`, of three who owe 18 each: what the result has once, for as many of its records as have one value.
fn is_fee_of_some(scene: &CheckContext<'_>, number: &Number) -> bool {
    let [source] = scene.sources[..] else { return false };
    let facts = source.facts();
    let mut once = facts.leaves.iter().filter(|leaf| leaf.record == 0).filter_map(|leaf| leaf.value.number());
    let (Some(fee), None) = (once.next(), once.next()) else { return false };
    let lists = facts.lists.iter().map(|list| list.length as u64);
    let counts = facts.counts().iter().copied().chain(lists).filter(|count| *count > 1).take(FEES_OF);
    counts.into_iter().any(|count| number.readings().any(|shown| shown.rounds(fee * count as f64)))
}

/// Counts of a result's records by which a fee is multiplied.
const FEES_OF: usize = 12;

/// Figures at the end of a number that somebody named: `the account ending in 3000`.
fn ends_an_id(scene: &CheckContext<'_>, number: &Number) -> bool {
    static ENDS: WordList = WordList::new(&[
        "ending",
        "ends",
        "endet",
        "endend",
        "endung",
        "terminant",
        "termina",
        "terminada",
        "terminado",
        "finisce",
        "eindigend",
        "eindigt",
        "kończące",
        "kończący",
        "biten",
    ]);
    let figures = scene.text().get(number.span.clone()).unwrap_or_default();
    let plain = figures.len() >= 3 && figures.bytes().all(|byte| byte.is_ascii_digit());
    let cut = scene.text().get(..number.span.start).is_some_and(|before| before.ends_with('…') || before.ends_with("..."));
    let told = || cut || scene.words_before(number.span.start).iter().rev().take(3).any(|word| ENDS.has(&word.lower));
    let ends =
        |text: &str| text.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word.len() > figures.len() && word.ends_with(figures));
    plain && told() && (ends(&scene.grounds.asked) || scene.sources.iter().any(|source| ends(&source.text) || ends(&source.arguments)))
}

/// `14h` or `14 Uhr` of 14:00.
fn is_full_hour(scene: &CheckContext<'_>, number: &Number) -> bool {
    static HOUR: WordList = WordList::new(&["h", "Uhr", "uhr", "hrs", "uur", "時", "点", "点钟", "시", "बजे"]);
    let text = scene.text();
    let Ok(hour) = text.get(number.span.clone()).unwrap_or_default().parse::<u32>() else { return false };
    let behind = text.get(number.span.end..).unwrap_or_default().trim_start();
    let word: String = behind.chars().take_while(|c| c.is_alphabetic()).collect();
    let told = scene.sources.iter().flat_map(|source| &source.facts().dates.times).chain(&scene.grounds.said_dates().times);
    hour < 24 && HOUR.has(&word) && told.take(DOTTED_TIMES_OF).any(|time| i64::from(time.minutes) == i64::from(hour * 60))
}

/// Is it a part of a name: the 8859 of `ISO-8859-1`?
pub(super) fn is_of_name(text: &str, place: usize) -> bool {
    let mut before = text.get(..place).unwrap_or_default().chars().rev();
    before.next() == Some('-') && before.next().is_some_and(char::is_alphabetic)
}

/// May it reckon with the numbers of its results: does it show that it does, or is it only covered by another one's citation?
fn may_reckon(scene: &CheckContext<'_>) -> bool {
    scene.bond < CitationScope::Cited && (scene.kind == Kind::Sentence || !scene.told.is_empty() && scene.grounds.asked.numbers().len() > 1)
        || cues::reckons(scene.plain)
        || scene.grounds.asks_to_reckon()
}

/// Numbers of a result of which any two may make a share.
const LEVEL_OF: usize = 6;
/// Members of a result of which a share may be told.
const LEVEL_LEAVES: usize = 64;

/// A level in percent is a share: `70 % full`.
fn is_level(scene: &CheckContext<'_>, number: &Number) -> bool {
    static LEVELS: WordList = WordList::new(&[
        "full",
        "used",
        "booked",
        "occupied",
        "complete",
        "completed",
        "done",
        "taken",
        "utilised",
        "utilized",
        "capacity",
        "voll",
        "belegt",
        "ausgelastet",
        "erledigt",
        "plein",
        "rempli",
        "occupé",
        "lleno",
        "ocupado",
        "pieno",
        "occupato",
        "cheio",
        "vol",
        "bezet",
        "dolu",
        "zajęte",
    ]);
    // `48 % of the electorate`, of a member of that name.
    let of_member = || {
        let after = scene.words_after(number.end);
        let of = after.first().is_some_and(|of| scene.lexicon.parts.contains(&of.lower));
        let names = |word: &Word| {
            scene.sources.iter().any(|source| source.facts().leaves.iter().take(LEVEL_LEAVES).any(|leaf| leaf.key == word.folded()))
        };
        of && after.iter().skip(1).take(2).any(names)
    };
    // `You're at 78 %`, of the two figures that the result has of it.
    static AT: WordList = WordList::new(&["at", "bei", "à", "al", "em", "op", "na"]);
    let of_few = || {
        let at = scene.words_before(number.span.start).last().is_some_and(|word| AT.has(&word.lower));
        at && scene.sources.iter().all(|source| source.facts().numbers.len() <= LEVEL_OF && source.facts().lists.is_empty())
    };
    number.percent && (of_few() || scene.words_after(number.end).iter().take(2).any(|word| LEVELS.has(&word.lower)) || of_member())
}

/// Precision with which a passage states a number.
pub(super) fn precision_of(scene: &CheckContext<'_>, number: &Number) -> Precision {
    if scene.is_hedged(&(number.span.start..number.end)) { Precision::Approximate } else { Precision::Exact }
}

/// Does it stand in a result or the conversation, or follow from one result, or is it a bound?
fn stands_alone(scene: &CheckContext<'_>, number: &Number, precision: Precision) -> bool {
    let before = scene.words_before(number.span.start);
    let sign = scene.sign_before(number.span.start);
    // `600'ü aşkın`: Turkish tells a bound behind its number.
    let behind = || {
        scene.lexicon.language == "tr"
            && scene.words_after(number.span.end).iter().take(2).any(|word| scene.lexicon.bounds.contains(&word.lower))
    };
    let bound = is_round(number) && (is_bound(scene, before) || behind() || matches!(sign, Some('<' | '>' | '≥' | '≤')));
    // `one of 143 tests`, of 142 that passed and one that failed.
    let is_whole = || {
        before.last().is_some_and(|word| scene.lexicon.parts.contains(&word.lower))
            && before.iter().rev().nth(1).is_some_and(|part| scene.lexicon.count(&part.lower).is_some())
    };
    let reckons = may_reckon(scene) || is_level(scene, number) || is_whole();
    let has = || {
        let plain = || scene.sources.iter().any(|source| scene.grounds.has_plain_number(number, precision, source));
        if reckons { scene.has_number(number, precision) } else { plain() || reckon::lies_between_times(scene, number) }
    };
    bound
        || has()
        || stands(scene, number, precision)
        || reckon::was_told(scene, number, precision)
        || reckon::lies_between_dates(scene, number)
        || reckon::is_of_another_kind(scene, number)
        || reckon::is_scaled(scene, number, precision)
        || reckon::is_price(scene, number, precision)
        || reckon::is_unit_price(scene, number)
        || reckon::is_amount_each(scene, number)
        || reckon::shares_unit(scene, number, precision)
        || reckon::is_other_concentration(scene, number)
        || reckon::is_temperature_apart(scene, number)
        || reckon::is_operand(scene, number)
        || reckon::is_shown_result(scene, number)
        || consistency::follows_from_rows(scene, number, precision)
        || consistency::follows_from_record(scene, number)
        || is_dotted_time(scene, number)
        || is_length_of_month(scene, number)
        || consistency::lies_between_figures(scene, number)
        || consistency::is_sum_of_neighbours(scene, number)
        || consistency::is_step_of_column(scene, number)
        || is_sum_of_some(scene, number)
        || parts::is_part(scene, number)
        || is_share_of_end(scene, number)
        || reckon::is_kelvin(scene, number)
        || reckon::is_left_of_line(scene, number)
        || reckon::is_area(scene, number)
        || reckon::is_of_prefix(scene, number)
        || reckon::is_of_lines(scene, number, role_of(scene, number))
}

/// Values of a column of which some may be added up, columns, and the least sum that is looked for.
const SUMMED_OF: usize = 12;
const SUMMED_COLUMNS: usize = 4;
const SUM_FROM: f64 = 13.0;

/// Is it told as a total, and the sum of some values of a column: of those that expire this week?
fn is_sum_of_some(scene: &CheckContext<'_>, number: &Number) -> bool {
    if number.percent
        || scene.plain.numbers().len() > reckon::RECKONED_MAX
        || !cues::tells_total(scene.plain)
        || number.readings().all(|reading| reading.value < SUM_FROM)
    {
        return false;
    }
    let makes = |column: &Vec<f64>| {
        column.len() <= SUMMED_OF && derive::sums_of_some(column).any(|(_, sum)| number.readings().any(|shown| shown.rounds(sum)))
    };
    scene.sources.iter().any(|source| source.facts().columns().values().take(SUMMED_COLUMNS).any(makes))
}

/// Members of an object of numbers of which the first or the last are added up.
const ENDS_OF: usize = 12;

/// Is it the share of what lies at one end of a scale: `90 % gave four stars or more` of `{"5": 12, "4": 6, "3": 2}`?
fn is_share_of_end(scene: &CheckContext<'_>, number: &Number) -> bool {
    static ENDS: PhraseList = PhraseList::new(&[
        "or more",
        "or better",
        "or higher",
        "or less",
        "or lower",
        "or worse",
        "or above",
        "or below",
        "at least",
        "at most",
        "oder mehr",
        "oder besser",
        "mindestens",
        "hochstens",
        "ou plus",
        "ou mieux",
        "au moins",
        "o mas",
        "o mejor",
        "al menos",
        "o piu",
        "almeno",
        "ou mais",
        "pelo menos",
        "of meer",
        "minstens",
        "lub wiecej",
        "co najmniej",
        "以上",
        "以下",
    ]);
    let makes = |numbers: Vec<f64>| {
        let whole: f64 = numbers.iter().sum();
        let is = |sum: f64| number.readings().any(|shown| shown.rounds(sum / whole * 100.0));
        let ends = (2..numbers.len()).flat_map(|at| [numbers.get(..at), numbers.get(at..)]).flatten();
        numbers.len() <= ENDS_OF && whole > 0.0 && ends.map(|end| end.iter().sum::<f64>()).any(is)
    };
    number.percent
        && ENDS.stands_in(scene.plain.folded())
        && scene.sources.iter().any(|source| derive::objects_of_numbers(source.facts()).take(SUMMED_COLUMNS).any(makes))
}

/// The days of a month of which the call, the question or the passage speaks.
fn is_length_of_month(scene: &CheckContext<'_>, number: &Number) -> bool {
    let days = number.readings().next().filter(|_| number.unit.is_some_and(|unit| unit.dimension == "time")).map(|reading| reading.value);
    if !days.is_some_and(|days| (28.0..=31.0).contains(&days) && days.fract() == 0.0) {
        return false;
    }
    let named = |words: &[Word]| words.iter().any(|word| lexicon::month(&word.lower).is_some());
    let dated = || {
        scene.sources.iter().any(|source| !source.facts().dates.dates.is_empty() || has_month(&source.arguments) || has_month(&source.text))
    };
    named(&scene.plain.words) || named(scene.grounds.asked.words()) || dated()
}

/// Bytes of a text in which a month is looked for.
const MONTH_BYTES_MAX: usize = 2048;

/// Does a text have a month as ISO 8601 writes it: `2026-08`?
fn has_month(text: &str) -> bool {
    let digits = |part: &[u8]| part.iter().all(u8::is_ascii_digit);
    text.as_bytes()
        .windows(7)
        .take(MONTH_BYTES_MAX)
        .any(|part| matches!(part, [year @ .., b'-', a, b] if year.len() == 4 && digits(year) && digits(&[*a, *b])))
}

/// Whole numbers up to here are a bound whatever they are.
const SMALL_BOUND: f64 = 30.0;

/// Is it a number that one chooses for a bound, not one that was measured or counted: `over 1,200`, `up to 175`, `below 0.5`?
fn is_round(number: &Number) -> bool {
    number.readings().all(|reading| {
        let units = (reading.value / reading.step).round();
        let whole = reading.step >= 1.0;
        let step = match reading.step {
            _ if whole && units >= 1000.0 => 50.0,
            step if step < 0.1 => 25.0,
            _ => 5.0,
        };
        whole && reading.value <= SMALL_BOUND || units < 10.0 || units % step == 0.0
    })
}

/// Do these words, the last of them right before a number, say that it is a bound, or what something is a part of?
fn is_bound(scene: &CheckContext<'_>, before: &[Word]) -> bool {
    let lexicon = scene.lexicon;
    let says = |word: &Word| lexicon.bounds.contains(&word.lower) || lexicon.parts.contains(&word.lower);
    // `above some 1200`
    let about = before.iter().rev().take(2).take_while(|word| lexicon.near.contains(&word.lower)).count();
    let before = before.get(..before.len() - about).unwrap_or_default();
    let [rest @ .., last] = before else { return false };
    if comes_to(rest, last) {
        return false;
    }
    if !says(last) || !lexicon.links.contains(&last.lower) {
        return says(last);
    }
    // `más de 5`, `3 of 5`; but not `a total of 5`.
    let number = scene.text().get(..last.start).is_some_and(|text| text.trim_end().ends_with(|c: char| c.is_ascii_digit() || c == '%'));
    number || rest.last().is_some_and(|word| says(word) || lexicon.near.contains(&word.lower) || lexicon.numbers.contains_key(&*word.lower))
}

/// Role of a number: what things come to is a total.
fn role_of(scene: &CheckContext<'_>, number: &Number) -> cues::Role {
    let before = scene.words_before(number.span.start);
    let [rest @ .., last] = before else { return cues::role(scene.plain, number) };
    if comes_to(rest, last) { cues::Role::Total } else { cues::role(scene.plain, number) }
}

/// `come to`, `add up to`
fn comes_to(before: &[Word], last: &Word) -> bool {
    static COMES: WordList = WordList::new(&["come", "comes", "came", "up", "amount", "amounts", "amounted", "adds", "sums"]);
    last.lower == "to" && before.last().is_some_and(|word| COMES.has(&word.lower) && (word.lower != "up" || is_added_up(before)))
}

/// `add up`, `adds it up`
fn is_added_up(before: &[Word]) -> bool {
    before.iter().rev().skip(1).take(2).any(|word| matches!(word.lower.as_str(), "add" | "adds" | "added" | "adding"))
}

/// Numbers that an answer may use without a source: small ones, round ones, years.
fn is_common(scene: &CheckContext<'_>, number: &Number) -> bool {
    let Some(whole) = number.whole() else {
        let hundred = number.percent && number.readings().any(|reading| reading.value == 100.0 || reading.value == 0.0);
        return hundred;
    };
    let year = YEARS.contains(&whole) && number.unit.is_none() && is_near_year(scene, whole);
    // With a unit a small number says something: `5 °C`.
    let small = whole <= SMALL && number.unit.is_none_or(|unit| unit.dimension == "time") || whole <= 2;
    // A month or a year in hours.
    let hours = HOURS.contains(&whole) && number.unit.is_some_and(|unit| unit.dimension == "time" && unit.factor == HOUR);
    small || COMMON.contains(&whole) && number.unit.is_none_or(|unit| unit.dimension == "time") || year || hours
}

/// Hours of the months, of a year and of a leap year; seconds of one.
const HOURS: [u64; 6] = [672, 696, 720, 744, 8760, 8784];
const HOUR: f64 = 3600.0;

/// Whole numbers that are read as years.
const YEARS: std::ops::RangeInclusive<u64> = 1900..=2100;

/// Does a year lie beside one that the conversation has, or so far from one as it says? Where it has none, any may be known.
fn is_near_year(scene: &CheckContext<'_>, year: u64) -> bool {
    let (mut any, mut near) = (false, false);
    let own = i32::try_from(year).unwrap_or(0);
    let mut compare = |known: i32| {
        any = true;
        near |= (own - known).abs() <= 1;
    };
    let dates = scene.sources.iter().flat_map(|source| &source.facts().dates.dates).chain(&scene.grounds.said_dates().dates);
    dates.flat_map(|date| date.readings.iter().flatten()).map(|(year, ..)| *year).filter(|year| *year != 0).for_each(&mut compare);
    let is_year = |value: &&f64| value.fract() == 0.0 && YEARS.contains(&(**value as u64));
    let numbers = scene.sources.iter().flat_map(|source| {
        let numbers = &source.facts().numbers;
        let from = numbers.partition_point(|number| *number < *YEARS.start() as f64);
        numbers.get(from..).unwrap_or_default().iter().take_while(|number| **number <= *YEARS.end() as f64)
    });
    numbers.chain(scene.grounds.said_numbers()).filter(is_year).map(|value| *value as i32).for_each(&mut compare);
    !any || near || may_reckon(scene)
}

/// `a 413`, `HTTP 504`: a status code as the protocol has it (RFC 9110, section 15).
fn is_http_status(scene: &CheckContext<'_>, number: &Number) -> bool {
    static SAYS: WordList = WordList::new(&["http", "status", "code", "error", "fehler", "erreur", "errore", "erro", "código", "kod"]);
    static BEHIND: WordList = WordList::new(&["error", "errors", "response", "responses", "status", "fehler"]);
    // Where a result has such a code, it is that one.
    let told = scene.sources.iter().any(|source| source.facts().numbers.iter().any(|code| (400.0..600.0).contains(code)));
    let known = !told && matches!(number.whole(), Some(400..=418 | 421..=426 | 428 | 429 | 431 | 451 | 500..=508 | 510 | 511));
    let plain = number.unit.is_none() && !number.percent && !number.scaled;
    let before = scene.words_before(number.span.start).last().map_or("", |word| word.lower.as_str());
    // `gets a 413.`, `a 504 timeout`
    let ends = || !scene.text().get(number.end..).is_some_and(|rest| rest.trim_start().starts_with(char::is_alphanumeric));
    let named = || scene.words_after(number.end).first().is_some_and(|word| BEHIND.has(&word.lower));
    known && plain && (SAYS.has(before) || matches!(before, "a" | "an" | "with") && (ends() || named()))
}

/// `§ 517`, `Art. 28`: a place in a law or a standard, which everybody can look up.
fn is_section(scene: &CheckContext<'_>, number: &Number) -> bool {
    static NAMES: WordList = WordList::new(&[
        "art",
        "article",
        "articles",
        "artikel",
        "artículo",
        "articolo",
        "artigo",
        "abs",
        "absatz",
        "section",
        "sections",
        "sec",
        "rfc",
        "iso",
        "din",
        "madde",
        "ustawa",
        "第",
    ]);
    let sign = scene.sign_before(number.span.start);
    let named = || scene.words_before(number.span.start).last().is_some_and(|word| NAMES.has(&word.lower));
    number.unit.is_none() && !number.percent && !number.scaled && (sign == Some('§') || named())
}

/// Figures of a name, at least.
const FIGURES_MIN: usize = 2;

/// `0041` of `0041_add_index`: figures of a name that a result has.
fn is_figure_of_name(scene: &CheckContext<'_>, number: &Number) -> bool {
    let figures = scene.text().get(number.span.clone()).unwrap_or_default();
    let sign = scene.text().get(..number.span.start).and_then(|before| before.chars().next_back());
    let plain = figures.len() >= FIGURES_MIN
        && figures.bytes().all(|byte| byte.is_ascii_digit())
        && (number.unit.is_none() || scene.text().get(number.span.end..).is_some_and(|rest| rest.starts_with(['-', '‑'])))
        && !number.percent
        && !number.scaled
        && !sign.is_some_and(unit::is_currency_sign);
    plain
        && scene.sources.iter().any(|source| {
            let text = source.text.as_bytes();
            memchr::memmem::find_iter(text, figures.as_bytes()).take(FINDS_MAX).any(|at| {
                let letter = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_');
                let (before, behind) = (at.checked_sub(1).and_then(|before| text.get(before)), text.get(at + figures.len()));
                !is_within_digits(text, at..at + figures.len()) && (letter(before) || letter(behind))
            })
        })
}

/// Places of a result at which figures are looked at.
const FINDS_MAX: usize = 64;

/// Inside backticks it is a name.
fn in_code(text: &str, place: usize) -> bool {
    text.get(..place).is_some_and(|before| before.matches('`').count() % 2 == 1)
}

/// Quotations of which nothing stands anywhere.
fn quotations(scene: &CheckContext<'_>, source: &ToolResult) -> Vec<ClaimFinding> {
    let mut found = Vec::new();
    for span in quoted(scene.text()) {
        let said = scene.text().get(span.clone()).unwrap_or_default();
        if !QUOTED_BYTES.contains(&said.len()) || scene.plain.urls.iter().any(|url| url.start < span.end && span.start < url.end) {
            continue;
        }
        let parts = said.split(['…', '[', ']']).flat_map(|part| part.split("...")).map(str::trim).filter(|part| !part.is_empty());
        let stands = parts.clone().all(|part| scene.grounds.has_words(part, source));
        // A translation shares no words with what it translates; a made-up quotation shares some.
        let folded = fold(said);
        let words: Vec<&str> = folded.split(' ').filter(|word| word.len() > 3).collect();
        let known = words.iter().filter(|word| scene.grounds.has_words(word, source)).count();
        let same_language = source.language() == scene.lexicon.language;
        let spaceless = said.chars().any(unit::is_spaceless) && !said.bytes().any(|byte| byte.is_ascii_alphanumeric());
        let short = spaceless && said.chars().count() <= SPACELESS_CHARS;
        let few = short || words.len() < 2 && !said.contains(['_', '-', '@', '/']);
        // `212 ("very unhealthy")`: what a value means, in the answer's words.
        let before = scene.text().get(..span.start).unwrap_or_default().trim_end_matches(['"', '“', '”', '„', '«', '\'', '‘', '’']);
        let gloss = before.strip_suffix('(').is_some_and(|before| before.trim_end().ends_with(|c: char| c.is_ascii_digit() || c == '%'));
        let few = few || gloss && words.len() <= 3;
        // `Here's a line you could send: "…"`, where a text is asked for: the answer's own words.
        let begins = before.trim().is_empty() && said.len() * 2 > scene.text().len();
        let own_text = words.len() >= OWN_TEXT_WORDS && (begins || before.trim_end().ends_with(':')) && wants_text(scene);
        if !stands && !few && !own_text && (known > 0 || same_language) && known < words.len() {
            found.push(ungrounded(scene, "quotations", span));
        }
    }
    found
}

/// Words of four letters or more from which on a quotation may be a text that was asked for.
const OWN_TEXT_WORDS: usize = 6;

/// True where the user asks for a text, which an answer may give in quotation marks.
fn wants_text(scene: &CheckContext<'_>) -> bool {
    static TEXTS: WordList = WordList::new(&[
        "line",
        "sentence",
        "summary",
        "text",
        "message",
        "note",
        "post",
        "caption",
        "headline",
        "announcement",
        "mail",
        "email",
        "letter",
        "reply",
        "wording",
        "draft",
        "blurb",
        "description",
        "satz",
        "nachricht",
        "zusammenfassung",
        "entwurf",
        "phrase",
        "texte",
        "résumé",
        "frase",
        "texto",
        "mensaje",
        "resumen",
        "testo",
        "messaggio",
        "riassunto",
        "mensagem",
        "resumo",
        "zin",
        "tekst",
        "bericht",
        "samenvatting",
        "zdanie",
        "wiadomość",
        "cümle",
        "metin",
        "mesaj",
    ]);
    scene.grounds.asked.words().iter().any(|word| word.lower.split('-').any(|part| TEXTS.has(part)))
}

/// Texts in quotation marks.
pub fn quoted(text: &str) -> Vec<Range<usize>> {
    if text.is_ascii() && memchr::memchr(b'"', text.as_bytes()).is_none() {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut open: Option<(usize, char)> = None;
    for (at, c) in text.char_indices() {
        match open {
            Some((from, close)) if c == close => {
                found.push(from..at);
                open = None;
            }
            Some(_) => {}
            None => {
                let close = match c {
                    '"' => '"',
                    '“' => '”',
                    '„' => '“',
                    '«' => '»',
                    '»' => '«',
                    _ => continue,
                };
                open = Some((at + c.len_utf8(), close));
            }
        }
    }
    found
}

/// E-mail addresses that stand nowhere.
fn addresses_of_mail(scene: &CheckContext<'_>, source: &ToolResult) -> Vec<ClaimFinding> {
    if scene.unseen {
        return Vec::new();
    }
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '+' | '%');
    let judge = |at: usize| {
        let before = scene.text().get(..at)?;
        let after = scene.text().get(at + 1..)?;
        let start = behind_last(before, |c| !word(c));
        let length = after.find(|c| !word(c)).unwrap_or(after.len());
        let host = after.get(..length)?.trim_end_matches(['.', '-']);
        let span = start..at + 1 + host.len();
        let said = scene.text().get(span.clone())?;
        // `minimist@1.2.6` is a version.
        let named = host.rsplit('.').next().is_some_and(|last| last.contains(|c: char| c.is_ascii_alphabetic()));
        let real = start < at && host.contains('.') && named && !url::is_placeholder(&host.to_lowercase());
        (real && !scene.grounds.has_words(said, source)).then(|| ungrounded(scene, "mail", span))
    };
    memchr::memchr_iter(b'@', scene.text().as_bytes()).filter_map(judge).collect()
}

/// Names at the heads of list items that stand nowhere: `- Jane Roe (FC Bayern)`.
pub fn names(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
    let source = scene.sources.first().filter(|_| scene.kind == Kind::Line && scene.bond >= CitationScope::Introduced)?;
    if scene.endless || scene.text().trim_start().starts_with(['|', '#']) {
        return None;
    }
    let head =
        scene.text().trim_start_matches([' ', '\t', '-', '*', '•', '+', '–', '.', ')']).trim_start_matches(|c: char| c.is_ascii_digit());
    let head = head.trim_start_matches(['.', ')', ' ', '*']);
    let start = scene.text().len() - head.len();
    let length =
        head.find(['(', ':', ',', '—', '–', '|', '*', '\n', '[', '`', '"', '.']).or_else(|| head.find(" - ")).unwrap_or(head.len());
    let length = head.find(" - ").map_or(length, |dash| dash.min(length));
    // `Label: value`
    let labelled = head.get(length..).is_some_and(|rest| rest.trim_start_matches('*').starts_with(':'));
    let name = head.get(..length)?.trim_end();
    let words: Vec<&str> = name.split(' ').collect();
    let proper = (2..=4).contains(&words.len())
        && words.iter().all(|word| word.chars().next().is_some_and(char::is_uppercase) && word.chars().all(char::is_alphabetic));
    if labelled || !proper || scene.lexicon.language == "de" && words.len() < 2 {
        return None;
    }
    let json = source.facts().is_structured() && !source.facts().lists.is_empty();
    let any = words.iter().any(|word| scene.grounds.has_words(word, source));
    (json && !any).then(|| ungrounded(scene, "names", start..start + name.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        evidence::EvidenceIndex,
        language::lexicon::{language, words},
        plain::AnalyzedPassage,
    };

    fn found(result: &str, said: &str, check: impl Fn(&CheckContext<'_>) -> Vec<ClaimFinding>) -> Vec<String> {
        let source = ToolResult::new("get_tickets", r#"{"floor":3}"#, result);
        let grounds = EvidenceIndex::new(vec![source], Vec::new(), "".into());
        let plain = AnalyzedPassage::of(said);
        let sources = grounds.results.iter().collect();
        let lexicon = language(&words(said), None);
        let scene = CheckContext::new(&plain, Kind::Sentence, lexicon, sources, CitationScope::Cited, &grounds);
        check(&scene).into_iter().map(|finding| finding.found).collect()
    }

    #[test]
    fn numbers_of_tickets_and_rooms() {
        let tickets = r#"[{"id":31,"day":"2026-05-14"},{"id":214,"day":"2026-05-20"}]"#;
        for (said, wrong) in [
            ("#214 is open.", &[][..]),
            ("#114 is open.", &["114"]),
            ("31番は開いています。", &[]),
            ("61番は開いています。", &["61"]),
            ("It is due on the 20th.", &[]),
            ("It is due on the 59th.", &["59"]),
            ("It is the 3rd of them.", &[]),
        ] {
            assert_eq!(found(tickets, said, values), wrong, "{said}");
        }
    }

    #[test]
    fn addresses_and_versions_behind_an_at() {
        let audit = r#"[{"package":"tiny-left","fixed_in":"1.2.6","owner":"kim@corp.example.net"}]"#;
        for (said, wrong) in [
            ("`npm ls` shows tiny-left@1.2.6 then.", &[][..]),
            ("Write to kim@corp.example.net.", &[]),
            ("Write to lee@corp.test.net.", &["lee@corp.test.net"]),
        ] {
            assert_eq!(found(audit, said, values), wrong, "{said}");
        }
    }

    #[test]
    fn codes_of_what_failed() {
        let failed = "504 Gateway Timeout after 30 seconds";
        for (said, wrong) in [
            ("The service didn't answer within 30 seconds (error 504).", &[][..]),
            ("The service didn't answer within 30 seconds (error 507).", &["507"]),
            ("The service gave up after 70 seconds.", &["70 seconds"]),
        ] {
            assert_eq!(found(failed, said, of_failure), wrong, "{said}");
        }
        // Where the result has no code, the one of the protocol is known.
        assert_eq!(found("too many requests", "It answered with a 429.", of_failure), Vec::<String>::new());
    }
}
