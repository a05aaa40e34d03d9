//! Dates and times of day, in texts and in results. Pure.
//!
//! Months are named by the lexicons. Two dates are the same if they are a day apart: time zones move them that far.

use std::ops::Range;

use super::lexicon;

/// Dates read of one text.
const DATES_MAX: usize = 5000;

/// A date as it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct Date {
    /// Byte range in the text.
    pub span: Range<usize>,
    /// Possible readings, year 0 if it names none: (year, month, day).
    pub readings: [Option<(i32, u32, u32)>; 2],
}

/// A time of day as it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct Time {
    /// Where.
    pub span: Range<usize>,
    /// Minutes since midnight.
    pub minutes: u32,
}

/// The dates and times of a text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dates {
    /// Dates.
    pub dates: Vec<Date>,
    /// Times of day.
    pub times: Vec<Time>,
}

impl Date {
    /// Days since the epoch, for each reading that has a year.
    pub fn days(&self) -> impl Iterator<Item = i64> {
        self.readings.iter().flatten().filter(|(year, ..)| *year != 0).map(|(year, month, day)| days(*year, *month, *day))
    }

    /// Is it `other`? Where one says no year, the years aren't compared.
    pub fn is(&self, other: &Date) -> bool {
        let same = |a: (i32, u32, u32), b: (i32, u32, u32)| (a.1, a.2) == (b.1, b.2) && (a.0 == b.0 || a.0 == 0 || b.0 == 0);
        self.readings.iter().flatten().any(|a| other.readings.iter().flatten().any(|b| same(*a, *b)))
    }

    /// Is it `other`, or within a day of it? Where one says no year, the years aren't compared.
    pub fn agrees(&self, other: &Date) -> bool {
        let pair = |a: (i32, u32, u32), b: (i32, u32, u32)| {
            let year = if a.0 == 0 { b.0 } else { a.0 };
            let other = if b.0 == 0 { a.0 } else { b.0 };
            (days(year, a.1, a.2) - days(other, b.1, b.2)).abs() <= 1
        };
        self.readings.iter().flatten().any(|a| other.readings.iter().flatten().any(|b| pair(*a, *b)))
    }
}

/// The day of the week of so many days since the epoch, which was a Thursday: 0 for Monday.
pub fn weekday(days: i64) -> i64 {
    (days + 3).rem_euclid(7)
}

/// Days since 1970-01-01 of the Gregorian calendar (Hinnant, `days_from_civil`).
pub fn days(year: i32, month: u32, day: u32) -> i64 {
    let (year, month, day) = (i64::from(year), i64::from(month), i64::from(day));
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The date that many days after 1970-01-01 (Hinnant, `civil_from_days`).
pub fn civil(days: i64) -> (i32, u32, u32) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    (i32::try_from(year).unwrap_or(0), u32::try_from(month).unwrap_or(1), u32::try_from(day).unwrap_or(1))
}

/// A word or number of the text.
struct DateToken<'t> {
    span: Range<usize>,
    text: &'t str,
    number: Option<u32>,
}

/// Reads all of a text.
pub fn dates(text: &str) -> Dates {
    let tokens = tokens(text);
    let mut found = Dates::default();
    let mut at = 0;
    let has_number = |at: usize| tokens.get(at).is_some_and(|token| token.number.is_some());
    while at < tokens.len() && found.dates.len() < DATES_MAX {
        // A date or time begins with a number, or with a month and a number behind it.
        if !has_number(at) && !has_number(at + 1) {
            at += 1;
            continue;
        }
        let step = numeric(text, &tokens, at).or_else(|| named(text, &tokens, at)).or_else(|| spaceless_date(&tokens, at));
        if let Some((date, used)) = step {
            found.dates.push(date);
            at += used;
            continue;
        }
        if let Some((date, time)) = compact(&tokens, at) {
            at += if time.is_some() { 3 } else { 1 };
            found.dates.push(date);
            found.times.extend(time);
            continue;
        }
        if let Some((time, used)) = clock(text, &tokens, at).or_else(|| spaceless_time(text, &tokens, at)) {
            found.times.push(time);
            at += used;
            continue;
        }
        at += 1;
    }
    found
}

fn tokens(text: &str) -> Vec<DateToken<'_>> {
    let bytes = text.as_bytes();
    let (mut tokens, mut at) = (Vec::with_capacity(text.len() / 4), 0);
    while let Some(first) = bytes.get(at) {
        let digit = first.is_ascii_digit();
        let letter = first.is_ascii_alphabetic() || *first >= 0x80;
        let class = |byte: &u8| if digit { byte.is_ascii_digit() } else { byte.is_ascii_alphabetic() || *byte >= 0x80 };
        let length = if digit || letter { bytes.get(at..).unwrap_or_default().iter().take_while(|byte| class(byte)).count() } else { 1 };
        if digit || letter {
            let word = text.get(at..at + length).unwrap_or_default();
            tokens.push(DateToken { span: at..at + length, text: word, number: if digit { word.parse().ok() } else { None } });
        }
        at += length;
    }
    tokens
}

fn between<'t>(text: &'t str, tokens: &[DateToken<'_>], at: usize) -> &'t str {
    match (tokens.get(at), tokens.get(at + 1)) {
        (Some(one), Some(two)) => text.get(one.span.end..two.span.start).unwrap_or_default(),
        _ => "",
    }
}

fn legal(year: i32, month: u32, day: u32) -> Option<(i32, u32, u32)> {
    ((1..=12).contains(&month) && (1..=31).contains(&day) && (year == 0 || (1500..=2999).contains(&year))).then_some((year, month, day))
}

/// `20251104T190000`, `DTSTART;VALUE=DATE:20251203`: the basic format of ISO 8601, as calendars have it (RFC 5545, 3.3.4 and 3.3.5).
fn compact(tokens: &[DateToken<'_>], at: usize) -> Option<(Date, Option<Time>)> {
    let digits = |token: &DateToken<'_>, count: usize| token.text.len() == count && token.number.is_some();
    let token = tokens.get(at).filter(|token| digits(token, 8))?;
    let number = |span: Range<usize>| token.text.get(span)?.parse::<u32>().ok();
    let (year, month, day) = (number(0..4)?, number(4..6)?, number(6..8)?);
    let reading = legal(i32::try_from(year).ok()?, month, day).filter(|_| (1970..=2099).contains(&year))?;
    let beside = |one: &DateToken<'_>, other: &DateToken<'_>| one.span.end == other.span.start;
    let time = match (tokens.get(at + 1), tokens.get(at + 2)) {
        (Some(mark), Some(clock)) if mark.text == "T" && digits(clock, 6) && beside(token, mark) && beside(mark, clock) => {
            let part = |span: Range<usize>| clock.text.get(span)?.parse::<u32>().ok();
            let (hour, minute) = (part(0..2)?, part(2..4)?);
            (hour < 24 && minute < 60).then(|| Time { span: clock.span.clone(), minutes: hour * 60 + minute })
        }
        _ => None,
    };
    let named = || {
        at.checked_sub(1)
            .and_then(|before| tokens.get(before))
            .is_some_and(|before| matches!(before.text, "DATE" | "DTSTART" | "DTEND" | "DUE"))
    };
    (time.is_some() || named()).then(|| (Date { span: token.span.clone(), readings: [Some(reading), None] }, time))
}

/// `2025-05-03`, `2025/05/03`, `3.5.2025`, `05/03/2025`, `3.5.`
fn numeric(text: &str, tokens: &[DateToken<'_>], at: usize) -> Option<(Date, usize)> {
    let (one, two, three) = (tokens.get(at)?, tokens.get(at + 1)?, tokens.get(at + 2)?);
    let (a, b, c) = (one.number?, two.number?, three.number?);
    let mark = between(text, tokens, at);
    if !matches!(mark, "-" | "/" | "." | ". ") || mark.trim_end() != between(text, tokens, at + 1).trim_end() {
        return None;
    }
    let year = |digits: &DateToken<'_>, value: u32| match digits.text.len() {
        4 => i32::try_from(value).ok(),
        2 => i32::try_from(2000 + value).ok(),
        _ => None,
    };
    // `So 13.07. 1702`: a day, and what it had.
    let apart = !mark.ends_with(' ') && between(text, tokens, at + 1).ends_with(' ');
    if apart && !(three.text.len() == 4 && (1990..=2099).contains(&c)) {
        return None;
    }
    let readings = if one.text.len() == 4 {
        [legal(year(one, a)?, b, c), None]
    } else {
        let year = year(three, c)?;
        [legal(year, b, a), legal(year, a, b).filter(|_| a != b && mark == "/")]
    };
    let readings = if readings[0].is_none() { [readings[1], None] } else { readings };
    readings[0]?;
    Some((Date { span: one.span.start..three.span.end, readings }, 3))
}

/// `3.5.` and `3/5`, the month first or last: a day without a year. All of `text` must be that.
pub fn short(text: &str) -> Option<Date> {
    let (one, two) = match text.strip_suffix('.') {
        Some(dotted) if !text.contains('/') => dotted.split_once('.')?,
        _ => text.trim_end_matches('.').split_once('/')?,
    };
    let number = |part: &str| part.parse::<u32>().ok().filter(|_| part.len() <= 2);
    let (one, two) = (number(one)?, number(two)?);
    let readings = [legal(0, two, one), legal(0, one, two).filter(|_| text.contains('/'))];
    readings.iter().any(Option::is_some).then_some(Date { span: 0..text.len(), readings })
}

/// `May 3, 2025`, `3 May`, `3. Mai 2025`, `3 de mayo de 2025`, `1er mai`
fn named(text: &str, tokens: &[DateToken<'_>], at: usize) -> Option<(Date, usize)> {
    let small = |token: Option<&DateToken<'_>>| token.and_then(|token| token.number.filter(|_| token.text.len() <= 2));
    let month_at = |at: usize| tokens.get(at).and_then(|token| lexicon::month(token.text));
    let skip = |mut at: usize, words: &[&str]| {
        if tokens.get(at).is_some_and(|token| words.iter().any(|word| token.text.eq_ignore_ascii_case(word))) {
            at += 1;
        }
        at
    };
    // Most words are no months, and have no number behind them.
    let begins = tokens.get(at)?.number.is_none().then(|| small(tokens.get(at + 1))).flatten();
    let (month, day, mut next) = if let Some((day, month)) = begins.and_then(|day| Some((day, month_at(at)?))) {
        (month, day, skip(at + 2, &["st", "nd", "rd", "th"]))
    } else {
        // `D-1 may do that`: the figure of an id.
        let of_id = |token: &DateToken<'_>| {
            let mut before = text.get(..token.span.start).unwrap_or_default().chars().rev();
            before.next() == Some('-') && before.next().is_some_and(char::is_uppercase)
        };
        let day = small(tokens.get(at).filter(|token| !of_id(token)))?;
        let after = skip(skip(at + 1, &["st", "nd", "rd", "th", "er", "º"]), &["de", "of", "di"]);
        (month_at(after)?, day, after + 1)
    };
    let close = |from: usize, to: usize| match (tokens.get(from), tokens.get(to)) {
        (Some(from), Some(to)) => {
            text.get(from.span.end..to.span.start).is_some_and(|gap| gap.len() <= 3 && !gap.contains(['\n', '(', ')', '[', ']']))
        }
        _ => false,
    };
    let last = tokens.get(next - 1)?;
    if !close(at, at + 1) {
        return None;
    }
    let mut end = last.span.end;
    let with = skip(next, &["de", "del", "of"]);
    let year = tokens.get(with).filter(|token| token.text.len() == 4 && close(next - 1, next)).and_then(|token| token.number);
    let year = year.and_then(|year| i32::try_from(year).ok()).filter(|year| (1500..=2999).contains(year));
    if let (Some(_), Some(token)) = (year, tokens.get(with)) {
        (end, next) = (token.span.end, with + 1);
    }
    let date = legal(year.unwrap_or(0), month, day)?;
    let start = tokens.get(at)?.span.start;
    Some((Date { span: start..end, readings: [Some(date), None] }, next - at))
}

/// `2025年5月3日`, `5月3日`, `5月3号`
fn spaceless_date(tokens: &[DateToken<'_>], at: usize) -> Option<(Date, usize)> {
    let is = |at: usize, word: &str| tokens.get(at).is_some_and(|token| token.text == word);
    let number = |at: usize| tokens.get(at).and_then(|token| token.number);
    let (year, first) = if is(at + 1, "年") { (i32::try_from(number(at)?).ok()?, at + 2) } else { (0, at) };
    let (month, day) = (number(first)?, number(first + 2)?);
    let last = tokens.get(first + 3).filter(|last| is(first + 1, "月") && last.text.starts_with(['日', '号', '號']))?;
    let date = legal(year, month, day)?;
    // The last token goes on with the words behind it.
    let end = last.span.start + last.text.chars().next()?.len_utf8();
    Some((Date { span: tokens.get(at)?.span.start..end, readings: [Some(date), None] }, first + 3 - at))
}

/// `14時`, `14時30分`, `午後2時`, `下午2点半`, `14点30分`
fn spaceless_time(text: &str, tokens: &[DateToken<'_>], at: usize) -> Option<(Time, usize)> {
    const LATE: [&str; 6] = ["午後", "下午", "晚上", "傍晚", "今晚", "晚"];
    const EARLY: [&str; 5] = ["午前", "上午", "早上", "凌晨", "清晨"];
    let first = tokens.get(at)?;
    let hour = first.number.filter(|hour| *hour <= 24 && first.text.len() <= 2)?;
    let mark = tokens.get(at + 1).filter(|mark| mark.span.start == first.span.end)?;
    let before = text.get(..first.span.start).unwrap_or_default().trim_end();
    let (late, early) = (LATE.iter().any(|word| before.ends_with(word)), EARLY.iter().any(|word| before.ends_with(word)));
    let oclock = ["点", "點", "時", "时"].iter().find_map(|oclock| mark.text.strip_prefix(oclock))?;
    // `3点建议` are three points, `3時間` three hours.
    let points =
        mark.text.starts_with(['点', '點']) && !(late || early || oclock.starts_with(['钟', '鐘', '整', '半']) || oclock.is_empty());
    if points || oclock.starts_with(['間', '间']) {
        return None;
    }
    let next = tokens.get(at + 2).filter(|next| oclock.is_empty() && next.span.start == mark.span.end && next.text.len() <= 2);
    let minutes = next.and_then(|next| next.number).filter(|minutes| *minutes < 60);
    let end_of = next.map_or(0, |next| next.span.end);
    let minutes = minutes.filter(|_| tokens.get(at + 3).is_some_and(|mark| mark.text.starts_with('分') && mark.span.start == end_of));
    // Alone a point may be any.
    if mark.text.starts_with(['点', '點']) && oclock.is_empty() && minutes.is_none() && !(late || early) {
        return None;
    }
    let (end, used) = match (minutes, next) {
        (Some(_), Some(next)) => (next.span.end + '分'.len_utf8(), 3),
        _ => (mark.span.start + (mark.text.len() - oclock.len()), 1),
    };
    let half = if oclock.starts_with('半') { 30 } else { 0 };
    let hour = if late && hour < 12 { hour + 12 } else { hour };
    Some((Time { span: first.span.start..end, minutes: (hour * 60 + minutes.unwrap_or(half)) % 1440 }, used))
}

/// `14:30`, `14:30:05`, `2:30 PM`, `2 p.m.`, `14h30`, `14 Uhr`
fn clock(text: &str, tokens: &[DateToken<'_>], at: usize) -> Option<(Time, usize)> {
    let first = tokens.get(at)?;
    let hour = first.number.filter(|hour| *hour <= 24 && first.text.len() <= 2)?;
    let second = tokens.get(at + 1)?;
    let gap = between(text, tokens, at);
    let mut used = 1;
    let mut minutes = None;
    let mut end = first.span.end;
    if gap == ":" && second.text.len() == 2 {
        minutes = second.number.filter(|minutes| *minutes < 60);
        (used, end) = (2, second.span.end);
        if between(text, tokens, at + 1) == ":"
            && let Some(third) = tokens.get(at + 2).filter(|third| third.text.len() == 2 && third.number.is_some())
        {
            (used, end) = (3, third.span.end);
        }
    } else if gap.is_empty() && second.text == "h" {
        let third = tokens.get(at + 2).filter(|third| third.text.len() == 2 && between(text, tokens, at + 1).is_empty());
        minutes = Some(third.and_then(|third| third.number).filter(|minutes| *minutes < 60)?);
        (used, end) = (3, third.map_or(second.span.end, |third| third.span.end));
    }
    let after = tokens.get(at + used);
    let near = text.get(end..).is_some_and(|rest| rest.trim_start_matches([' ', '\u{202f}', '\u{a0}']).len() + 3 >= rest.len());
    let half = after.filter(|_| near).map(|token| token.text.to_ascii_lowercase()).unwrap_or_default();
    let dotted = |letter: &str| half == letter && text.get(end..).is_some_and(|rest| rest.trim_start().get(1..3) == Some(".m"));
    let (pm, am, oclock) = (half == "pm" || dotted("p"), half == "am" || dotted("a"), half == "uhr");
    if pm || am || oclock {
        let token = after?;
        end = token.span.end;
        used += 1;
        minutes = minutes.or(Some(0));
    }
    let minutes = minutes?;
    let hour = match (pm, am, hour) {
        (true, _, 12) => 12,
        (_, true, 12) => 0,
        (true, _, hour) => hour + 12,
        _ => hour,
    };
    Some((Time { span: first.span.start..end, minutes: (hour * 60 + minutes) % 1440 }, used))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_several_countries() {
        for (text, expected) in [
            ("on 2025-05-03T14:30:00Z", (2025, 5, 3)),
            ("am 3.5.2025", (2025, 5, 3)),
            ("May 3, 2025", (2025, 5, 3)),
            ("the 3rd of May 2025", (2025, 5, 3)),
            ("3. Mai 2025", (2025, 5, 3)),
            ("el 3 de mayo de 2025", (2025, 5, 3)),
            ("le 1er mai 2025", (2025, 5, 1)),
            ("il 3 maggio 2025", (2025, 5, 3)),
            ("3 August", (0, 8, 3)),
            ("于2025年5月3日发布", (2025, 5, 3)),
            ("9月27日(土)の23時から", (0, 9, 27)),
            ("11 जून को", (0, 6, 11)),
            ("3 de junho de 2025", (2025, 6, 3)),
        ] {
            let found = dates(text).dates;
            assert_eq!(found.first().map(|date| date.readings), Some([Some(expected), None]), "{text}");
        }
        assert_eq!(dates("1.2 and 3 of 4, version 1.2.3").dates, []);
        assert_eq!(civil(days(2024, 2, 29)), (2024, 2, 29));
        let agrees = |a: &str, b: &str| dates(a).dates[0].agrees(&dates(b).dates[0]);
        assert!(agrees("2025-12-31", "January 1, 2026") && agrees("05/03/2025", "3.5.2025") && !agrees("2025-05-03", "2025-05-07"));
    }

    #[test]
    fn dates_of_calendars() {
        for (text, days, times) in [
            ("DTSTART:20251104T190000", vec![(2025, 11, 4)], vec![19 * 60]),
            ("DTSTART;VALUE=DATE:20251203", vec![(2025, 12, 3)], vec![]),
            ("order 20251203", vec![], vec![]),
            ("20251399T190000", vec![], vec![]),
        ] {
            let found = dates(text);
            assert_eq!(found.dates.iter().filter_map(|date| date.readings[0]).collect::<Vec<_>>(), days, "{text}");
            assert_eq!(found.times.iter().map(|time| time.minutes).collect::<Vec<_>>(), times, "{text}");
        }
    }

    #[test]
    fn times_of_day() {
        for (text, minutes) in [
            ("14:30", 870),
            ("at 2:30 PM", 870),
            ("2 p.m.", 840),
            ("14h30", 870),
            ("14 Uhr", 840),
            ("12 am", 0),
            ("27日の23時から", 1380),
            ("午後2時30分", 870),
            ("今天下午2点半", 870),
            ("14点30分", 870),
        ] {
            assert_eq!(dates(text).times.first().map(|time| time.minutes), Some(minutes), "{text}");
        }
        for text in ["ratio 14 to 30", "有3点建议", "3時間かかります"] {
            assert_eq!(dates(text).times, [], "{text}");
        }
    }

    #[test]
    fn a_day_and_what_it_had() {
        let first = |text: &str| dates(text).dates.first().and_then(|date| date.readings[0]);
        assert_eq!(first("So 13.07. 1702"), None);
        assert_eq!(first("am 13.07. 2025"), Some((2025, 7, 13)));
        assert_eq!(first("am 13. 7. 1702"), Some((1702, 7, 13)));
    }
}
