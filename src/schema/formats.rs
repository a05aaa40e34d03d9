//! Formats of texts that are read as applications read them, wider than the RFC that JSON Schema names. Pure.
//!
//! A date with a time, or a time, needs no zone: models write them so, and libraries such as pydantic take them. Who made a model add one
//! would get another moment than was meant. A URI may have letters of any script and blanks, which browsers, pydantic and `fetch` encode
//! themselves, and a host name `_`, as service names of containers have it. Source: JSON Schema 2020-12, "Validation", 7.3; RFC 3339, section
//! 5.6; the URL standard (<https://url.spec.whatwg.org/>).

use uuid::Uuid;

/// True of `2026-11-28T12:30:00`, with or without seconds, a fraction of them and a zone; a blank may stand for the `T`. A date alone is its
/// first moment, as pydantic, `Date` and SQL have it.
pub(super) fn is_date_time(text: &str) -> bool {
    text.get(..DATE_BYTES).is_some_and(is_date)
        && text.get(DATE_BYTES..).is_some_and(|rest| rest.is_empty() || rest.strip_prefix(['T', 't', ' ']).is_some_and(is_time))
}

/// True of 32 hex digits, with or without the hyphens of RFC 9562, in braces or behind `urn:uuid:`.
pub(super) fn is_uuid(text: &str) -> bool {
    Uuid::try_parse(text).is_ok()
}

/// True of a duration of ISO 8601 (`P3DT12H30M`, `P2W`, `PT1.5S`, `-P1D`), or as `[days] [HH:]MM:SS`, as pydantic and SQL have it.
pub(super) fn is_duration(text: &str) -> bool {
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    match text.strip_prefix(['P', 'p']) {
        Some(rest) => is_iso_duration(rest),
        None => is_clock_duration(text),
    }
}

fn is_iso_duration(text: &str) -> bool {
    let (date, time) = text.split_once(['T', 't']).map_or((text, None), |(date, time)| (date, Some(time)));
    let of_date = are_amounts(date, "YMWD");
    let of_time = time.is_none_or(|time| !time.is_empty() && are_amounts(time, "HMS"));
    of_date && of_time && !text.is_empty()
}

/// True of numbers, each with one of these letters behind it, in their order; also of none.
fn are_amounts(text: &str, units: &str) -> bool {
    let (mut rest, mut left) = (text, units);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.' && c != ',').unwrap_or(rest.len());
        let (number, behind) = rest.split_at(digits);
        let Some(unit) = behind.chars().next() else { return false };
        let Some(place) = left.find(unit.to_ascii_uppercase()) else { return false };
        if !is_decimal(number) {
            return false;
        }
        (rest, left) = (behind.get(1..).unwrap_or_default(), left.get(place + 1..).unwrap_or_default());
    }
    true
}

fn is_clock_duration(text: &str) -> bool {
    let (days, clock) = text.split_once(' ').map_or((None, text), |(days, clock)| (Some(days), clock));
    let clock = clock.strip_prefix("days").or_else(|| clock.strip_prefix("day")).map_or(clock, |rest| rest.trim_start_matches([',', ' ']));
    let parts: Vec<&str> = clock.split(':').collect();
    let [heads @ .., seconds] = &parts[..] else { return false };
    let whole = |text: &&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (1..=2).contains(&heads.len()) && heads.iter().all(whole) && is_decimal(seconds) && days.is_none_or(|days| whole(&days))
}

/// True of digits, with more of them behind a point or a comma or not.
fn is_decimal(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.split_once(['.', ',']) {
        Some((whole, fraction)) => digits(whole) && digits(fraction),
        None => digits(text),
    }
}

/// True of a regular expression in any of the usual dialects: what closes is opened, and nothing is repeated that isn't there. Each dialect
/// has forms of its own (`(?P<y>…)`, `\Z`, `(?>…)`), and which one the application has isn't known.
pub(super) fn is_regex(text: &str) -> bool {
    let (mut depth, mut class, mut chars) = (0_usize, false, text.chars().peekable());
    let mut repeatable = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                if chars.next().is_none() {
                    return false;
                }
                repeatable = true;
            }
            '[' if !class => {
                class = true;
                // A bracket that closes is a member where it comes first.
                chars.next_if_eq(&'^');
                chars.next_if_eq(&']');
            }
            ']' if class => (class, repeatable) = (false, true),
            _ if class => {}
            '(' => {
                depth += 1;
                repeatable = chars.next_if_eq(&'?').is_some();
            }
            ')' => match depth.checked_sub(1) {
                Some(less) => (depth, repeatable) = (less, true),
                None => return false,
            },
            '*' | '+' | '?' if !repeatable => return false,
            '|' => repeatable = false,
            _ => repeatable = true,
        }
    }
    depth == 0 && !class
}

/// True of `12:30:00`, with or without seconds, a fraction of them and a zone.
pub(super) fn is_time(text: &str) -> bool {
    let zone = text.find(['Z', 'z', '+', '-']).unwrap_or(text.len());
    let (clock, zone) = text.split_at(zone);
    let (whole, fraction) = clock.split_once('.').map_or((clock, None), |(whole, fraction)| (whole, Some(fraction)));
    let mut parts = whole.split(':').map(two_digits);
    let (hour, minute) = (parts.next().flatten(), parts.next().flatten());
    let second = parts.next();
    let seconds = match second {
        Some(second) => second.is_some_and(|second| second <= 60) && parts.next().is_none(),
        None => fraction.is_none(),
    };
    hour.is_some_and(|hour| hour < 24)
        && minute.is_some_and(|minute| minute < 60)
        && seconds
        && fraction.is_none_or(|digits| !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit()))
        && is_zone(zone)
}

/// True of an absolute address that the URL standard can read: `https://ghent.be/fr/où`, `s3://bucket/a key`, `urn:isbn:1`.
pub(super) fn is_uri(text: &str) -> bool {
    let plain = |c: char| !c.is_control() && !matches!(c, '\\' | '{' | '}' | '<' | '>' | '"' | '`');
    // A blank stands in an address of a place, and not in `note: unknown`; one letter before the colon is a drive.
    let placed = || !text.contains(' ') || text.contains("://");
    let scheme = text.split_once(':').is_some_and(|(scheme, _)| scheme.len() > 1);
    scheme && text.chars().all(plain) && text.trim() == text && placed() && url::Url::parse(text).is_ok()
}

/// True of labels of 1 to 63 letters, digits, `-` and `_`, with dots between them, of 253 bytes at most. Neither end of a label is a `-`.
pub(super) fn is_hostname(text: &str) -> bool {
    let name = text.strip_suffix('.').unwrap_or(text);
    let is_label = |label: &str| {
        !label.is_empty()
            && label.chars().count() <= 63
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.chars().any(char::is_alphanumeric)
            && label.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_'))
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

const DATE_BYTES: usize = "2026-11-28".len();

fn is_date(text: &str) -> bool {
    let mut parts = text.split('-');
    let year = parts.next().filter(|year| year.len() == 4 && year.bytes().all(|digit| digit.is_ascii_digit()));
    let (year, month, day) =
        (year.and_then(|year| year.parse::<u32>().ok()), parts.next().and_then(two_digits), parts.next().and_then(two_digits));
    let (Some(year), Some(month), Some(day), None) = (year, month, day, parts.next()) else { return false };
    let leap = year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 => 28 + u32::from(leap),
        _ => 0,
    };
    (1..=days).contains(&day)
}

fn is_zone(text: &str) -> bool {
    match text.strip_prefix(['+', '-']) {
        Some(offset) => {
            let (hours, minutes) = offset.split_once(':').unwrap_or((offset, "00"));
            two_digits(hours).is_some_and(|hours| hours < 24) && two_digits(minutes).is_some_and(|minutes| minutes < 60)
        }
        None => matches!(text, "" | "Z" | "z"),
    }
}

fn two_digits(text: &str) -> Option<u32> {
    (text.len() == 2 && text.bytes().all(|digit| digit.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_durations_and_expressions() {
        for text in
            ["67e55044-10b1-426f-9247-bb680e5fe0c8", "67e5504410b1426f9247bb680e5fe0c8", "urn:uuid:67e55044-10b1-426f-9247-bb680e5fe0c8"]
        {
            assert!(is_uuid(text), "{text}");
        }
        assert!(!is_uuid("67e5504") && !is_uuid("order-17") && !is_uuid(""));
        for text in ["P3D", "PT12H30M", "P1Y2M3DT4H5M6.5S", "P2W", "-PT1S", "01:30:00", "90:00", "3 04:05:06.25", "1 day, 2:03:04"] {
            assert!(is_duration(text), "{text}");
        }
        for text in ["", "P", "PT", "3D", "P3", "PD", "PT3D", "P1D2Y", "an hour", "90", "1:", ":30", "P1.D"] {
            assert!(!is_duration(text), "{text}");
        }
        for text in ["", "a+", "(?i)error", r"(?P<y>\d{4})", r"end\Z", "(?>a|b)", "a{,3}", "[]a]", "[^]]x", r"\(", "(?:a)+?", "a|b"] {
            assert!(is_regex(text), "{text}");
        }
        for text in ["(", ")", "a)", "[a", "+a", "a|*", r"a\", "(*)"] {
            assert!(!is_regex(text), "{text}");
        }
    }

    #[test]
    fn dates_with_times() {
        for text in [
            "2026-11-28T12:30:00",
            "2026-11-28T12:30:00Z",
            "2026-11-28t12:30:00.25z",
            "2026-11-28 12:30",
            "2026-11-28T12:30:00+01:00",
            "2024-02-29T00:00:60-11:30",
            "2026-01-01T10:00Z",
            "2026-11-28",
        ] {
            assert!(is_date_time(text), "{text}");
        }
        for text in [
            "",
            "2026-11-28T",
            "2026-11-31T12:30:00",
            "2025-02-29T12:30:00",
            "2026-13-01T12:30:00",
            "2026-11-28T24:00:00",
            "2026-11-28T12:60:00",
            "2026-11-28T12:30:00.",
            "2026-11-28T12:30.5",
            "2026-11-28T12:30:00+1",
            "2026-11-28T12:30:00 UTC",
            "26-11-28T12:30:00",
            "2026-11-28T12",
            "tomorrow at 9",
            "２026-11-28T12:30:00",
            "2026-11-28T12:30:00:00",
        ] {
            assert!(!is_date_time(text), "{text}");
        }
    }

    #[test]
    fn times() {
        assert!(["10:30:00", "10:30", "23:59:60Z", "10:30:00.5-05:00", "10:30+02"].into_iter().all(is_time));
        assert!(!["", "10", "10:3", "25:00:00", "10:30:00 ", "10.30", "1030", "10:30:61", "-10:30", "noon"].into_iter().any(is_time));
    }

    #[test]
    fn addresses() {
        let uris =
            ["https://x.org/", "https://ghent.be/fr/où?q=a b", "s3://bucket/key with space", "mailto:a@b.c", "urn:isbn:1", "file:///tmp/a"];
        assert!(uris.into_iter().all(is_uri));
        assert!(
            ![
                "",
                "x.org/a",
                "/a",
                "http://",
                "https://a b/",
                " https://x.org",
                "https://x.org/\n",
                "no uri",
                "note: unknown",
                "C:\\Users",
                "https://{host}/x"
            ]
            .into_iter()
            .any(is_uri)
        );
        assert!(["localhost", "my_host", "a-b.example.com", "bücher.example", "x.", "10.0.0.1"].into_iter().all(is_hostname));
        assert!(!["", ".", "a..b", "-a.b", "a-.b", "a b", "http://a", "a/b", "_", &"a".repeat(64)].into_iter().any(is_hostname));
    }
}
