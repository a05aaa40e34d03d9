//! Times of day, ids and names of a passage that nobody said and no result has. Pure.
//!
//! What is listed is what is allowed: a time that stands in the conversation, lies a time zone or a span of it away, or is told about;
//! an id that stands anywhere in the conversation, in whatever dress.

use std::ops::Range;

use crate::{
    checks::{
        account::sentence::{LEAVES_OF, is_known_word},
        acts,
        values::{self, quoted, ungrounded},
    },
    context::{CheckContext, CitationScope, ClaimFinding},
    evidence::{
        ToolResult,
        facts::{NamedValue, Scalar},
    },
    language::{
        cues,
        date::Time,
        fold::fold,
        lexicon::{self, Word},
        number::{Number, is_within_digits},
        unit,
        word_list::{PhraseList, WordList},
    },
};

/// Times of day and spans of time that are put together.
const TIMES_MAX: usize = 64;
const SPANS_MAX: usize = 48;
/// Times of cited results between which the time may be told.
const APART_OF: usize = 6;
/// Results, cited results, bytes and numbers of each that are looked through for them.
const RESULTS_MAX: usize = 20;
const SOURCES_MAX: usize = 4;
const BARE_BYTES_MAX: usize = 2048;
const NUMBERS_MAX: usize = 400;
/// Ids of a passage that are looked for, and bytes of a text in which they are looked for with the blanks left out.
const IDS_MAX: usize = 16;
const SQUASHED_BYTES_MAX: usize = 8192;
/// Minutes by which a time that is told about may be off.
const ABOUT_MINUTES: u32 = 20;
/// Letters of an id.
const ID_CHARS: std::ops::RangeInclusive<usize> = 4..=64;
/// Letters and figures of a short id.
const SHORT_ID_CHARS: usize = 5;
/// Letters of a name that everybody knows.
const SHORT_ID_LETTERS: usize = 3;
/// Beginnings of names with figures that everybody knows: standards, formats, quarters.
const KNOWN: &[&str] = &[
    "iso", "rfc", "utf", "sha", "md5", "ipv", "din", "en1", "en6", "covid", "http", "base", "gpt", "mp3", "mp4", "h26", "x86", "x64",
    "arm", "win", "usb", "ddr", "pm2", "pm1", "co2", "b12", "omega", "vitamin", "form", "tls", "oauth", "python", "java", "node", "g20",
];

/// The findings of a passage: times, then ids, then names.
pub(crate) fn unaccounted(scene: &CheckContext<'_>) -> Vec<ClaimFinding> {
    let mut found = without_names(scene, CitationScope::Near);
    found.extend(scene.is_judged(CitationScope::Near).then(|| named_by_nobody(scene)).flatten());
    found
}

/// Those of a sentence that cites what failed, but for names: who is told of it, the conversation needn't have.
pub(crate) fn of_failure(scene: &CheckContext<'_>) -> Vec<ClaimFinding> {
    without_names(scene, CitationScope::Cited)
}

fn without_names(scene: &CheckContext<'_>, from: CitationScope) -> Vec<ClaimFinding> {
    if !scene.is_judged(from) {
        return Vec::new();
    }
    let mut found = times(scene);
    found.extend(ids(scene));
    found.extend(versions(scene));
    found
}

fn times(scene: &CheckContext<'_>) -> Vec<ClaimFinding> {
    let own = &scene.plain.dates().times;
    let has_times = scene.sources.iter().any(|source| !source.facts().dates.times.is_empty());
    let epoch = scene.sources.iter().any(|source| source.facts().numbers.last().is_some_and(|number| *number > 1e8));
    // Where nothing has a time, what looks like one may be a pace or a ratio.
    // `doors open at 9:30`, of a result without any time.
    static AT: WordList = WordList::new(&["at", "um", "alle", "om", "à", "às", "las", "ore", "o"]);
    // `12:35发`, `在12:35`
    let spaceless = |time: &Time| {
        let behind = scene.text().get(time.span.end..).unwrap_or_default().trim_start();
        let before = scene.text().get(..time.span.start).unwrap_or_default().trim_end();
        behind.starts_with(['発', '发', '着', '起', '开', '開', '出', '到', '始', '终', '終']) || before.ends_with(['在', '于', '於'])
    };
    let told_at = |time: &Time| {
        scene.words_before(time.span.start).last().is_some_and(|word| AT.has(&word.lower)) || !scene.text().is_ascii() && spaceless(time)
    };
    // `It leaves at 9:30` reckons nothing.
    let reckons = || cues::reckons(scene.plain) && (has_operand(scene) || !own.iter().all(told_at));
    if own.is_empty() || epoch || reckons() {
        return Vec::new();
    }
    if !has_times && (scene.bond != CitationScope::Cited || !own.iter().all(told_at) || scene.sources.iter().any(|source| !source.reads()))
    {
        return Vec::new();
    }
    let stands = |time: &Time| {
        let is = |other: &Time| other.minutes == time.minutes;
        scene.sources.iter().any(|source| source.facts().dates.times.iter().any(is)) || scene.grounds.said_dates().times.iter().any(is)
    };
    if own.iter().all(stands) {
        return Vec::new();
    }
    let mut known = KnownTimes::of(scene);
    // `10:30 in New York, over by 11:15`: times of the passage that follow from those of the conversation are told from there on.
    let (told, open): (Vec<&Time>, Vec<&Time>) = own.iter().partition(|time| stands(time) || known.accounts_for(scene, time));
    known.times.extend(told.iter().map(|time| time.minutes));
    let wrong = |time: &&Time| !known.accounts_for(scene, time);
    open.into_iter().filter(wrong).map(|time| ungrounded(scene, "times", time.span.clone())).take(1).collect()
}

/// The times of a conversation, and the minutes by which others may lie from them.
struct KnownTimes {
    times: Vec<u32>,
    spans: Vec<u32>,
    /// Minutes between the times of the cited results, where they are few: `3:44` between 4:40 and 8:24.
    apart: Vec<u32>,
}

impl KnownTimes {
    fn of(scene: &CheckContext<'_>) -> Self {
        let grounds = scene.grounds;
        let results = grounds.results.iter().rev().take(RESULTS_MAX).flat_map(|source| source.facts().dates.times.iter().take(TIMES_MAX));
        let mut times: Vec<u32> = results.chain(grounds.said_dates().times.iter().take(TIMES_MAX)).map(|time| time.minutes).collect();
        // `0930`, `9.30`, `9`: as a timetable or the user writes them.
        let texts = scene.sources.iter().map(|source| &*source.text).take(SOURCES_MAX).chain([&*grounds.asked]);
        for text in texts {
            times.extend(bare_times(text.get(..text.floor_char_boundary(BARE_BYTES_MAX)).unwrap_or_default()));
        }
        times.sort_unstable();
        times.dedup();
        let numbers = scene.sources.iter().take(SOURCES_MAX).flat_map(|source| span_numbers(source));
        let tells =
            tells_span(&grounds.asked) || scene.sources.iter().any(|source| tells_span(&source.arguments)) || tells_span(&scene.plain.text);
        let said = grounds.said_numbers().iter().copied().take(if tells { NUMBERS_MAX } else { 0 });
        let mut spans: Vec<u32> = numbers
            .chain(said)
            .filter(|number| *number >= 1.0 && *number <= 1440.0 && number.fract() == 0.0)
            .flat_map(|number| {
                let minutes = number as u32;
                [Some(minutes), (minutes <= 24).then_some(minutes * 60)]
            })
            .flatten()
            .collect();
        spans.sort_unstable();
        spans.dedup();
        spans.truncate(SPANS_MAX);
        let cited = scene.sources.iter().take(SOURCES_MAX).flat_map(|source| source.facts().dates.times.iter());
        let cited: Vec<u32> = cited.map(|time| time.minutes).take(APART_OF + 1).collect();
        let pairs = cited.iter().flat_map(|one| cited.iter().map(|other| one.abs_diff(*other)));
        let apart = if cited.len() <= APART_OF { pairs.filter(|minutes| *minutes != 0).collect() } else { Vec::new() };
        Self { times, spans, apart }
    }

    fn accounts_for(&self, scene: &CheckContext<'_>, time: &Time) -> bool {
        let own = time.minutes;
        let is = |other: u32| other % 1440 == own || (other + 720) % 1440 == own;
        let hedged = scene.is_hedged(&time.span)
            || scene.words_before(time.span.start).iter().rev().take(3).any(|word| scene.lexicon.near.contains(&word.lower));
        let about = |other: &u32| hedged && other.abs_diff(own) <= ABOUT_MINUTES;
        // Round hours of a day are told as bounds: `before 8:00`.
        if self.times.iter().any(|other| is(*other) || about(other)) {
            return true;
        }
        let zone = scene.sources.iter().any(|source| has_zone(source)) || says_zone(&scene.plain.words);
        let away = |other: &u32| zone && other.abs_diff(own).is_multiple_of(30);
        if self.times.iter().any(away) {
            return true;
        }
        if self.apart.contains(&own) {
            return true;
        }
        self.times
            .iter()
            .take(TIMES_MAX)
            .any(|other| self.spans.iter().any(|span| (other + span) % 1440 == own || (other + 1440 - span) % 1440 == own))
    }
}

/// Has the passage what a time can be reckoned with: another time, or a number?
fn has_operand(scene: &CheckContext<'_>) -> bool {
    let times = &scene.plain.dates().times;
    let apart = |number: &&Number| !times.iter().any(|time| time.span.start < number.end && number.span.start < time.span.end);
    // The figures of a name are none.
    let counts = |number: &&Number| !values::is_of_name(scene.text(), number.span.start);
    times.len() > 1 || scene.plain.numbers().iter().filter(apart).any(|number| counts(&number))
}

/// Parts of words that tell how long something takes, folded or in their script.
static SPAN_WORDS: PhraseList = PhraseList::in_any_case(&[
    "min",
    "hour",
    "hrs",
    "durat",
    "delay",
    "late",
    "wait",
    "length",
    "takes",
    "travel",
    "time",
    "eta",
    "every",
    "interval",
    "notice",
    "buffer",
    "setup",
    "transfer",
    "walk",
    "drive",
    "ride",
    "lap",
    "cook",
    "bake",
    "prep",
    "rest",
    "prove",
    "lead",
    "offset",
    "long",
    "dauer",
    "stund",
    "std",
    "verspat",
    "verspät",
    "heure",
    "duree",
    "durée",
    "temps",
    "retard",
    "hora",
    "tiempo",
    "ora",
    "ore",
    "ritardo",
    "tempo",
    "uur",
    "duur",
    "godz",
    "czas",
    "opoz",
    "opóź",
    "saat",
    "sure",
    "süre",
    "dakika",
    "atraso",
    "分",
    "時間",
    "小时",
    "小時",
    "मिनट",
    "घंट",
    "देर",
    "समय",
]);

/// True of a text in which a word tells how long something takes.
fn tells_span(text: &str) -> bool {
    SPAN_WORDS.stands_in(text.get(..text.floor_char_boundary(BARE_BYTES_MAX)).unwrap_or_default())
}

/// The numbers of a result that may tell how long something takes: by the member's name, or in a text.
fn span_numbers(source: &ToolResult) -> Vec<f64> {
    let facts = source.facts();
    if !facts.is_structured() {
        return facts.numbers.iter().copied().take(NUMBERS_MAX).collect();
    }
    let of_leaf = |leaf: &NamedValue| match &leaf.value {
        Scalar::Number(number) if tells_span(&leaf.key) => vec![*number],
        Scalar::Text(text) if tells_span(text) || tells_span(&leaf.key) => {
            let digits = text.split(|c: char| !c.is_ascii_digit()).filter(|digits| (1..=4).contains(&digits.len()));
            digits.filter_map(|digits| digits.parse().ok()).collect()
        }
        _ => Vec::new(),
    };
    facts.leaves.iter().take(NUMBERS_MAX).flat_map(of_leaf).collect()
}

/// Does a result tell times with their zone?
fn has_zone(source: &ToolResult) -> bool {
    let text = source.text.get(..source.text.floor_char_boundary(4096)).unwrap_or_default();
    let bytes = text.as_bytes();
    let suffix = |at: usize| {
        let digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
        match bytes.get(at) {
            Some(b'Z') => digit(at.checked_sub(1)),
            Some(b'+') => digit(at.checked_sub(1)) && digit(Some(at + 1)),
            _ => false,
        }
    };
    (0..bytes.len()).any(suffix) || ["UTC", "GMT"].iter().any(|zone| text.contains(zone))
}

fn says_zone(words: &[Word]) -> bool {
    static ZONES: WordList =
        WordList::new(&["utc", "gmt", "cet", "cest", "est", "edt", "pst", "pdt", "bst", "local", "zone", "ortszeit", "locale", "local"]);
    words.iter().any(|word| ZONES.has(&word.lower))
}

/// Minutes of figures that may be a time of day: `0930`, `930`, `9`.
fn bare_times(text: &str) -> Vec<u32> {
    let mut found = Vec::new();
    for digits in text.split(|c: char| !c.is_ascii_digit()).filter(|digits| (1..=4).contains(&digits.len())) {
        let Ok(number) = digits.parse::<u32>() else { continue };
        match digits.len() {
            1 | 2 if number <= 24 => found.push(number * 60 % 1440),
            3 | 4 if number / 100 < 24 && number % 100 < 60 => found.push(number / 100 * 60 + number % 100),
            _ => {}
        }
        if found.len() >= 512 {
            break;
        }
    }
    found
}

fn ids(scene: &CheckContext<'_>) -> Vec<ClaimFinding> {
    let text = scene.text();
    let mut found = Vec::new();
    for span in id_spans(text).into_iter().take(IDS_MAX) {
        if scene.plain.urls.iter().any(|url| url.start < span.end && span.start < url.end)
            || scene.plain.dates().dates.iter().any(|date| date.span.start < span.end && span.start < date.span.end)
        {
            continue;
        }
        let id = text.get(span.clone()).unwrap_or_default();
        // `Q1-Q3` of what has both.
        let known = stands_anywhere(scene, id) || id.split(['-', '_']).all(|part| stands_as_word(scene, part));
        // `A260`, of what was measured at 260 nm.
        let figures = id.trim_start_matches(|c: char| c.is_ascii_uppercase());
        let known = known || id.len() - figures.len() == 1 && stands_as_word(scene, figures);
        // `16-vCPU` of `n2-std-16`: a figure that stands there, and what it is of.
        let compound = |id: &str| {
            let of = |(figures, unit): (&str, &str)| {
                figures.bytes().all(|byte| byte.is_ascii_digit())
                    && unit.bytes().all(|byte| byte.is_ascii_alphabetic())
                    && stands_as_word(scene, figures)
            };
            id.split_once('-').is_some_and(of)
        };
        let known = known || compound(id);
        // `both A100s`: more than one of them.
        let known =
            known || id.strip_suffix('s').is_some_and(|one| one.ends_with(|c: char| c.is_ascii_digit()) && stands_anywhere(scene, one));
        if is_placeholder(id) || is_age(id) {
            continue;
        }
        // `FAT32`: a short one is a name that everybody knows rather than an id, unless what is cited has ids of that form.
        let letters = id.bytes().filter(u8::is_ascii_alphabetic).count();
        let name = || {
            letters >= SHORT_ID_LETTERS
                && id.len() <= SHORT_ID_CHARS
                && !scene.sources.iter().take(SOURCES_MAX).any(|source| has_of_form(source, id))
        };
        if !known && !name() {
            found.push(ungrounded(scene, "ids", span));
            break;
        }
    }
    found
}

/// Versions and addresses of a passage that are looked for.
const VERSIONS_MAX: usize = 8;

/// Versions and IP addresses that stand nowhere: `3.19.0`, `198.51.100.7`.
fn versions(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
    let text = scene.text();
    let is_free = |span: &Range<usize>| {
        !scene.plain.is_taken(span) && !scene.plain.urls.iter().any(|url| url.start < span.end && span.start < url.end)
    };
    let is_known = |span: &Range<usize>| scene.grounds.has_raw(text.get(span.clone()).unwrap_or_default());
    let wrong = version_spans(text).filter(is_free).take(VERSIONS_MAX).find(|span| !is_known(span))?;
    Some(ungrounded(scene, "versions", wrong))
}

/// The places of figures with at least two points between them, but for numbers whose points part thousands: `1.234.567`.
fn version_spans(text: &str) -> impl Iterator<Item = Range<usize>> {
    let bytes = text.as_bytes();
    let inside = |byte: &&u8| byte.is_ascii_digit() || **byte == b'.';
    let mut end = 0;
    memchr::memchr_iter(b'.', bytes).filter_map(move |at| {
        let digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
        if at < end || !digit(at.checked_sub(1)) || !digit(Some(at + 1)) {
            return None;
        }
        let from = at - bytes.iter().take(at).rev().take_while(inside).count();
        end = at + bytes.iter().skip(at).take_while(inside).count();
        let word = text.get(from..end)?;
        let (bare, start) = (word.trim_matches('.'), from + word.len() - word.trim_start_matches('.').len());
        let grouped = bare.split('.').skip(1).all(|part| part.len() == 3);
        let dotted = bare.split('.').count() > 2 && bare.split('.').all(|part| !part.is_empty()) && !grouped;
        dotted.then(|| start..start + bare.len())
    })
}

/// `under-16s`, `over-60s`, `mid-90s`: words with a number, and no id, as `web-4` is.
fn is_age(id: &str) -> bool {
    let Some((word, figures)) = id.strip_suffix('s').and_then(|id| id.split_once('-')) else { return false };
    word.bytes().all(|byte| byte.is_ascii_lowercase())
        && (1..=2).contains(&figures.len())
        && figures.bytes().all(|byte| byte.is_ascii_digit())
}

/// `ABC-123`: letters and figures that stand for any.
fn is_placeholder(id: &str) -> bool {
    let (letters, figures): (String, String) =
        (id.chars().filter(|c| c.is_alphabetic()).collect::<String>().to_lowercase(), id.chars().filter(char::is_ascii_digit).collect());
    ["abc", "xyz", "foo", "xxx"].contains(&letters.as_str()) && ["12", "123", "1234", "12345", "000"].contains(&figures.as_str())
}

/// Does a result have an id of the same form: as many letters, then as many figures?
fn has_of_form(source: &ToolResult, id: &str) -> bool {
    let form = |word: &str| -> Vec<u8> {
        word.bytes()
            .map(|byte| {
                if byte.is_ascii_digit() {
                    b'0'
                } else if byte.is_ascii_alphabetic() {
                    b'a'
                } else {
                    byte
                }
            })
            .collect()
    };
    let own = form(id);
    let text = source.text.get(..source.text.floor_char_boundary(SQUASHED_BYTES_MAX)).unwrap_or_default();
    text.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))).any(|word| form(word) == own)
}

/// Does anything in the conversation have these letters and digits; in what is cited and was said, the blanks left out, too?
fn stands_anywhere(scene: &CheckContext<'_>, id: &str) -> bool {
    let grounds = scene.grounds;
    let bare = fold(id).replace(' ', "");
    let squashed = |text: &str| {
        let text = text.get(..text.floor_char_boundary(SQUASHED_BYTES_MAX)).unwrap_or_default();
        text.contains(&bare) || text.replace(' ', "").contains(&bare)
    };
    let cited = || scene.sources.iter().take(SOURCES_MAX).any(|source| squashed(source.folded()) || squashed(source.folded_arguments()));
    scene.sources.first().is_some_and(|source| grounds.has_words(id, source))
        || cited()
        || squashed(grounds.said_folded())
        || grounds.definitions.contains(id)
}

/// Does anything in the conversation have this as a word, or in one with letters before it or behind it: the `381` of `Q381`?
fn stands_as_word(scene: &CheckContext<'_>, part: &str) -> bool {
    let own = fold(part);
    let has = |text: &str| {
        let text = text.get(..text.floor_char_boundary(SQUASHED_BYTES_MAX)).unwrap_or_default();
        text.match_indices(own.as_str()).any(|(at, found)| !is_within_digits(text.as_bytes(), at..at + found.len()))
    };
    scene.sources.first().is_some_and(|source| scene.grounds.has_words(part, source))
        || scene.sources.iter().take(SOURCES_MAX).any(|source| has(source.folded()) || has(source.folded_arguments()))
        || has(scene.grounds.said_folded())
}

/// The places of words that are ids: letters and at least two digits.
pub(super) fn id_spans(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let inside = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let (mut found, mut at) = (Vec::new(), 0);
    // From one digit to the next: most words have none.
    while let Some(digit) = bytes.get(at..).and_then(|rest| rest.iter().position(u8::is_ascii_digit)).map(|ahead| at + ahead) {
        let from = digit - bytes.iter().take(digit).rev().take_while(inside).count();
        let end = digit + bytes.iter().skip(digit).take_while(inside).count();
        let word = text.get(from..end).unwrap_or_default().trim_end_matches('-');
        let before = text.get(..from).and_then(|before| before.chars().next_back());
        // `毎分5km12` begins with a number.
        let spaceless = |c: char| unit::is_spaceless(c) && word.starts_with(|c: char| c.is_ascii_alphabetic());
        let joined = before.is_some_and(|c| c.is_alphanumeric() && !spaceless(c) || matches!(c, '.' | '/' | '@' | '#' | ':'))
            || matches!(bytes.get(end), Some(b'@' | b'/' | b'='));
        if !joined && is_id(word) {
            found.push(from..from + word.len());
        }
        at = end;
    }
    found
}

fn is_id(word: &str) -> bool {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    let letters = word.bytes().filter(u8::is_ascii_alphabetic).count();
    if digits < 2 || letters == 0 || !ID_CHARS.contains(&word.len()) {
        return false;
    }
    let lower = word.to_ascii_lowercase();
    // `10h15`, `2x400`
    let hour = lower
        .split_once(['h', 'x'])
        .is_some_and(|(one, other)| [one, other].iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit())));
    // An execution ID, whole or in parts: it is judged where ids are.
    let of_execution = digits >= 12 || word.len() >= 14 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    // `250ml`, `05JAN`, `3-4 m`
    let measure = word.trim_start_matches(|c: char| c.is_ascii_digit()).bytes().all(|byte| byte.is_ascii_alphabetic());
    // `30-minute`, `16-A-Kreis`
    let lower_behind = |part: &str| part.get(1..).is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_lowercase()));
    let compound =
        word.split(['-', '_']).any(|part| part.len() >= 3 && part.bytes().all(|byte| byte.is_ascii_alphabetic()) && lower_behind(part))
            && word.split(['-', '_']).next().is_some_and(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
    word.starts_with(|c: char| c.is_ascii_alphanumeric())
        && !of_execution
        && !measure
        && !hour
        && !compound
        && !KNOWN.iter().any(|known| lower.starts_with(known))
}

/// Names that are known to everybody: places in time, units, currencies, formats, languages.
const KNOWN_NAMES: &str = " new year years eve valentine halloween thanksgiving ramadan diwali eid utc gmt cet cest est pst edt pdt bst usd eur gbp chf jpy euro dollar dollars euros francs pounds yen api url id ids pdf html json xml csv sql cpu gpu ram wi-fi wifi ok tv vat tax am pm ip dns http https ssl tls vpn lan usb kb mb gb tb monday tuesday wednesday thursday friday saturday sunday mon tue wed thu fri sat sun january february march april may june july august september october november december jan feb mar apr jun jul aug sep sept oct nov dec english german french spanish italian dutch polish turkish japanese chinese hindi portuguese european american british us usa uk eu germany france spain italy austria switzerland netherlands belgium poland england britain america europe asia africa celsius fahrenheit kelvin hz khz mhz ghz christmas easter internet web google github linux windows mac mr mrs ms dr prof sir st street avenue road north south east west central good great note tip ps fyi asap etc total sum average mean markdown yaml iban swift sepa lundi mardi mercredi jeudi vendredi samedi dimanche janvier février mars avril mai juin juillet août septembre octobre novembre décembre lunes martes miércoles jueves viernes sábado domingo enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre iso kwh mwh kw bpm km kg cm mm ml min hours days i sie ihr ihnen ihre ihren what who whose where when how why which here there let somebody someone anybody anyone nobody everybody everyone jemand niemand quelqu alguien qualcuno alguém iemand niemand ktoś biri ";

/// Words before a name that say who somebody is: whoever stands behind one is a person, in German too.
static ROLES: WordList = WordList::new(&[
    "mr",
    "mrs",
    "ms",
    "dr",
    "prof",
    "professor",
    "teacher",
    "coach",
    "trainer",
    "nurse",
    "inspector",
    "mechanic",
    "engineer",
    "driver",
    "doctor",
    "colleague",
    "herr",
    "herrn",
    "frau",
    "familie",
    "kollege",
    "kollegin",
    "lehrer",
    "lehrerin",
    "trainerin",
    "monteur",
    "techniker",
    "arzt",
    "ärztin",
    "señor",
    "señora",
    "sr",
    "sra",
    "profesor",
    "profesora",
    "doctora",
    "inspectora",
    "compañero",
    "compañera",
    "familia",
    "técnico",
    "técnica",
    "monsieur",
    "madame",
    "mme",
    "docteur",
    "famille",
    "collègue",
    "technicien",
    "signor",
    "signora",
    "dott",
    "dottor",
    "dottoressa",
    "ispettore",
    "collega",
    "famiglia",
    "tecnico",
    "doutor",
    "doutora",
    "professora",
    "senhor",
    "senhora",
    "família",
    "mevrouw",
    "meneer",
    "dhr",
    "mevr",
    "dokter",
    "meester",
    "juf",
    "pan",
    "pani",
    "pana",
    "panią",
    "panem",
    "inspektor",
    "trener",
    "trenerka",
    "lekarz",
    "lekarka",
    "rodzina",
    "technik",
    "bay",
    "bayan",
    "doktor",
    "uzman",
]);
/// Such words behind a name, in Turkish.
static ROLES_BEHIND: WordList = WordList::new(&["usta", "bey", "hanım", "hoca", "öğretmen"]);
/// Words by which somebody did something.
static DOERS: WordList =
    WordList::new(&["by", "named", "called", "por", "par", "da", "with", "avec", "con", "pelo", "pela", "com", "przez", "door"]);
/// Words behind which a name is a place.
static PLACES: WordList = WordList::new(&["in", "en", "à", "a", "em", "no", "na", "te", "w", "z", "we"]);
/// Words that join names.
static NAME_JOINS: WordList = WordList::new(&["and", "y", "et", "e", "i", "en", "ve", "und"]);

/// Characters of a result among which another script is looked for.
const SCRIPT_CHARS_MAX: usize = 8192;

/// True of a name that the conversation has as it is, or as others write it: `Müller` and `Mueller`, `Weiß` and `Weiss`, `Marka` of `Marek`.
fn is_spelt_otherwise(scene: &CheckContext<'_>, name: &str, language: &str) -> bool {
    // `Dr. Chen Li` of 陈丽: the two can't be compared.
    let foreign = |c: char| c.is_alphabetic() && !matches!(c, '\0'..='\u{24f}' | '\u{1e00}'..='\u{1eff}');
    let other_script = |source: &&ToolResult| !source.text.is_ascii() && source.text.chars().take(SCRIPT_CHARS_MAX).any(foreign);
    if is_known_word(scene, &fold(name)) || scene.sources.iter().any(other_script) {
        return true;
    }
    let spelt = |pairs: &[(&str, &str)]| pairs.iter().fold(name.to_owned(), |name, (one, other)| name.replace(one, other));
    let ways = [
        spelt(&[("ä", "ae"), ("ö", "oe"), ("ü", "ue"), ("ß", "ss")]),
        spelt(&[("ae", "a"), ("oe", "o"), ("ue", "u")]),
        spelt(&[("ss", "ß")]),
        spelt(&[("ø", "o"), ("å", "a"), ("ł", "l")]),
    ];
    let other = |way: &String| *way != name && is_known_word(scene, &fold(way));
    // A vowel of the last syllable comes and goes: `Dudek`, `Dudka`.
    let begins = || {
        let stem: String = fold(name).chars().take(STEM_CHARS).collect();
        let near = |word: &str| word.starts_with(&stem) && word.chars().count().abs_diff(name.chars().count()) <= 2;
        let said = scene.sources.iter().map(|source| source.folded()).chain([scene.grounds.said_folded()]);
        stem.chars().count() == STEM_CHARS && said.flat_map(|text| text.split(' ')).any(near)
    };
    ways.iter().any(other) || language == "pl" && begins()
}

/// Letters with which two forms of a Polish name begin.
const STEM_CHARS: usize = 3;

/// Is it the first letter of a name: `K.`?
fn is_initial(scene: &CheckContext<'_>, word: &Word) -> bool {
    let letter = scene.text().get(word.start..word.end).unwrap_or_default();
    letter.chars().count() == 1 && letter.starts_with(char::is_uppercase) && word.start > 0
}

/// A name that nobody said, told beside a citation: "authored by Priya Nair".
fn named_by_nobody(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
    if scene.bond != CitationScope::Cited || scene.text().contains('|') || scene.sources.iter().any(|source| source.is_partial()) {
        return None;
    }
    let language = acts::speech::language_of(scene.text(), &scene.plain.words).unwrap_or(scene.lexicon.language.as_str());
    let german = language == "de";
    if !german && !matches!(language, "en" | "es" | "fr" | "it" | "pt" | "pl" | "nl" | "tr") {
        return None;
    }
    let quoted = quoted(scene.text());
    let name = scene.plain.words.iter().find(|word| {
        let text = scene.text().get(word.start..word.end).unwrap_or_default();
        let capital = text.chars().next().is_some_and(char::is_uppercase)
            && text.chars().all(|c| c.is_alphabetic() || matches!(c, '-' | '\'' | '’'))
            && text.chars().count() >= 3;
        if !capital {
            return false;
        }
        let before = scene.text().get(..word.start).unwrap_or_default();
        let last = before.trim_end_matches([' ', '*', '_', '`']).chars().next_back();
        let inside = last.is_some_and(|c| c.is_alphanumeric() || c == ',' || c == '(') && before.ends_with([' ', '(', '*', '_'])
            // `Dr. Mehra`, `K. Weiss`
            || last == Some('.')
                && scene.words_before(word.start).last().is_some_and(|role| ROLES.has(&role.lower) || is_initial(scene, role));
        if !inside {
            return false;
        }
        let bare = text.split(['\'', '’']).next().unwrap_or(text).to_lowercase();
        let known = KNOWN_NAMES.contains(&format!(" {bare} ")) || scene.lexicon.common.contains(&bare) || lexicon::month(&bare).is_some();
        let previous = scene.words_before(word.start).last().map(|word| word.lower.as_str());
        let unit = scene.plain.numbers().iter().any(|number| number.span.start <= word.start && word.start < number.end)
            || previous.is_some_and(|word| word.bytes().all(|byte| byte.is_ascii_digit()));
        let open = before.rfind('(').is_some_and(|open| before.get(open..).is_some_and(|rest| !rest.contains(')')));
        let placed = previous.is_some_and(|word| PLACES.has(word)) && !before.ends_with("room ");
        let excused = || {
            scene.plain.urls.iter().any(|url| url.start < word.end && word.start < url.end)
                || quoted.iter().any(|span| span.contains(&word.start))
        };
        if known || unit || open || placed || excused() {
            return false;
        }
        // One capital may be a nationality, a language, a word of another language; a name has two words, or somebody did it.
        let next = scene.words_after(word.end).first();
        let two = next.is_some_and(|next| {
            scene.text().get(word.end..next.start) == Some(" ")
                && scene.text().get(next.start..next.end).is_some_and(|text| text.chars().next().is_some_and(char::is_uppercase))
                && !is_known_word(scene, &next.folded())
        });
        // `Cabo Verde` of a result that has `CV`.
        let initials_of = |next: &Word| {
            let initial = |at: usize| scene.text().get(at..).and_then(|text| text.chars().next());
            let initials: String = [initial(word.start), initial(next.start)].into_iter().flatten().collect();
            scene.sources.iter().any(|source| source.text.split(|c: char| !c.is_alphanumeric()).any(|own| own == initials))
        };
        // `Liberal Democrat` of `Lib Dem`.
        let is_short = |word: &Word| {
            let long = word.folded();
            let begins = |own: &str| own.len() >= 3 && own.len() < long.len() && long.starts_with(own);
            scene.sources.iter().any(|source| source.folded().split(' ').any(begins))
        };
        let written_out = || next.is_some_and(|next| initials_of(next) || is_short(word) && is_short(next));
        // One more of those that the result has: `Nadia, Jo and Bastian`.
        let siblings = || {
            let earlier = scene.words_before(word.start);
            let joined = previous.is_some_and(|word| NAME_JOINS.has(word));
            earlier.iter().rev().nth(usize::from(joined)).is_some_and(|sibling| {
                let text = scene.text().get(sibling.start..sibling.end).unwrap_or_default();
                joined
                    && text.chars().next().is_some_and(char::is_uppercase)
                    && scene.sources.iter().any(|source| {
                        source.facts().leaves.iter().take(LEAVES_OF).any(|leaf| matches!(&leaf.value, Scalar::Text(own) if own == text))
                    })
            })
        };
        let role = previous.is_some_and(|word| ROLES.has(word))
            || scene.words_before(word.start).last().is_some_and(|first| is_initial(scene, first))
            || next.is_some_and(|next| language == "tr" && ROLES_BEHIND.has(&next.lower));
        let by = || role || siblings() || previous.is_some_and(|word| DOERS.has(word));
        (if german { role } else { two || by() }) && !written_out() && !is_spelt_otherwise(scene, &bare, language)
    })?;
    Some(ClaimFinding {
        expected: "a name that a result or the conversation has".to_owned(),
        ..ungrounded(scene, "named_by_nobody", name.start..name.end)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        evidence::EvidenceIndex,
        language::lexicon::{language, words},
        passage::Kind,
        plain::AnalyzedPassage,
    };

    fn rules(result: &str, text: &str) -> Vec<&'static str> {
        let grounds = EvidenceIndex::new(vec![ToolResult::new("list_items", "{}", result)], vec!["at 9".into()], "at 9".into());
        let plain = AnalyzedPassage::of(text);
        let lexicon = language(&words(text), None);
        let sources = grounds.results.iter().collect();
        let bond = CitationScope::Cited;
        let scene = CheckContext::new(&plain, Kind::Sentence, lexicon, sources, bond, &grounds);
        unaccounted(&scene).into_iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn versions_of_a_text() {
        let found = |text: &'static str| version_spans(text).filter_map(|span| text.get(span)).collect::<Vec<_>>();
        assert_eq!(found("v3.19.0 and 198.51.100.7, not 3.5 or 1.234.567."), ["3.19.0", "198.51.100.7"]);
        assert_eq!(found("版本3.4.1です... 1..2"), ["3.4.1"]);
    }

    #[test]
    fn versions_ids_and_codes_that_stand_nowhere() {
        let result = r#"{"version":"3.18.0","host":"198.51.100.7","job":"Q-301","room":4}"#;
        for (text, wrong) in [
            ("It runs 3.18.0 on 198.51.100.7.", &[][..]),
            ("It runs 3.19.0.", &["versions"]),
            ("It answers at 198.51.170.7.", &["versions"]),
            ("ジョブはQ-301です。", &[]),
            ("ジョブはQ-381です。", &["ids"]),
            ("The job is U-65.", &["ids"]),
        ] {
            assert_eq!(rules(result, text), wrong, "{text}");
        }
    }

    #[test]
    fn times_and_ids_that_stand_nowhere() {
        let stops = "08:00 Am Wehr 3, 45 min\n13:00 Schulstr. 20";
        for (text, wrong) in [
            ("14:37 Schulstr. 22.", &["times"][..]),
            ("You start at 8:00 at Am Wehr 3.", &[]),
            ("You leave there at 8:45.", &[]),
            ("At 1 pm it is Schulstr. 20.", &[]),
            ("Be there at 9:00.", &[]),
            ("The code is PLN-77204.", &["ids"]),
            ("It takes 45min, as ISO-8601 has it.", &[]),
        ] {
            assert_eq!(rules(stops, text), wrong, "{text}");
        }
        assert!(rules(r#"{"code":"PLN-77204"}"#, "Show PLN 77204 or `PLN-77204`.").is_empty());
    }

    #[test]
    fn a_time_lies_only_as_far_away_as_something_takes() {
        let flights =
            r#"[{"flight":"SK4680","departs":"11:35","stops":1,"price":142},{"flight":"DY1793","departs":"18:20","stops":1,"price":97}]"#;
        let taking = r#"[{"flight":"SK4680","departs":"11:35","duration_min":60}]"#;
        for (result, text, wrong) in [
            (flights, "SK4680 leaves at 11:35.", false),
            // One stop is no hour.
            (flights, "SK4680 leaves at 12:35.", true),
            (flights, "SK4680在12:35起飞。", true),
            (flights, "SK4680 leaves around 11:30.", false),
            (flights, "SK4680 leaves at 12:35 local time, 11:35 here.", false),
            (taking, "SK4680 arrives at 12:35.", false),
        ] {
            assert_eq!(rules(result, text).contains(&"times"), wrong, "{text}");
        }
    }

    #[test]
    fn who_stands_behind_a_role_is_a_person() {
        let lift = r#"{"lift":"L-402","date":"2026-05-18","inspector":null,"result":"pass"}"#;
        for (text, wrong) in [
            ("Ostatnią kontrolę dźwigu L-402 przeprowadził 18 maja 2026 inspektor Wójcik.", true),
            ("Der Lift L-402 wurde am 18. Mai 2026 von Herrn Brandt geprüft.", true),
            ("The lift was passed on 18 May 2026 by Dr. Mehra.", true),
            ("Der Lift L-402 hat die Prüfung am 18. Mai 2026 bestanden.", false),
            ("It passed, dr. What's left is the paperwork.", false),
        ] {
            assert_eq!(rules(lift, text).contains(&"named_by_nobody"), wrong, "{text}");
        }
    }

    #[test]
    fn figures_with_a_unit_and_names_written_out() {
        let result = r#"{"type":"n2-std-16","party":"Lib Dem","candidate":"D. Baines"}"#;
        assert_eq!(rules(result, "It is a 16-vCPU box."), [""; 0]);
        assert_eq!(rules(result, "It is a 24-vCPU box."), ["ids"]);
        assert_eq!(rules(result, "D. Baines is a Liberal Democrat."), [""; 0]);
        assert_eq!(rules(result, "The seat went to the Liberal Reformer."), ["named_by_nobody"]);
    }
}
