//! Parameters of the admin API: a request with an unknown, repeated or malformed one is refused. Pure.

use std::{
    collections::BTreeMap,
    time::{Duration, UNIX_EPOCH},
};

use crate::{
    admin::responses::invalid,
    config::error::{list, maybe},
    ledger::store::{PAGE_MAX, PageQuery},
    proxy::http::failure::Failure,
};

/// Rows of a page by default.
const LIMIT: usize = 100;
/// Maximum bytes of one parameter's value.
const VALUE_BYTES_MAX: usize = 1024;
/// Parameters for pages of a list.
pub const PAGED: [&str; 3] = ["since", "limit", "after"];

/// The parameters of one request.
#[derive(Debug, Default)]
pub struct Parameters(BTreeMap<String, String>);

impl Parameters {
    /// Reads a query.
    ///
    /// # Errors
    /// 400 for a parameter that isn't in `known`, is repeated, or is too long.
    pub fn read(query: &str, known: &[&str]) -> Result<Self, Failure> {
        let mut read = BTreeMap::new();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            if !known.contains(&&*name) {
                let shown: String = name.chars().take(64).collect();
                let which = if known.is_empty() { "none".to_owned() } else { list(known) };
                return Err(invalid(&shown, format!("unknown parameter `{shown}`{}; known: {which}", maybe(&shown, known))));
            }
            if value.len() > VALUE_BYTES_MAX {
                return Err(invalid(&name, format!("`{name}` is longer than {VALUE_BYTES_MAX} bytes")));
            }
            if read.insert(name.to_string(), value.into_owned()).is_some() {
                return Err(invalid(&name, format!("`{name}` is there twice")));
            }
        }
        Ok(Self(read))
    }

    /// Text of a parameter; `None` if it is missing or empty.
    pub fn text(&self, name: &str) -> Option<String> {
        self.0.get(name).filter(|text| !text.is_empty()).cloned()
    }

    /// Length of a time window that ends now.
    ///
    /// # Errors
    /// 400 if it is no duration of at least a second.
    pub fn window(&self, name: &str) -> Result<Option<Duration>, Failure> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let window = humantime::parse_duration(&text).ok().filter(|window| *window >= Duration::from_secs(1));
        window.map(Some).ok_or_else(|| invalid(name, format!("`{text}` is no window of at least 1s: write it like 60s, 1h or 7d")))
    }

    /// Time of a parameter in Unix milliseconds; written as such, as RFC 3339, or as a duration before now.
    ///
    /// # Errors
    /// 400 for any other form.
    pub fn time(&self, name: &str, now_ms: u64) -> Result<Option<u64>, Failure> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let milliseconds = || text.parse::<u64>().ok();
        let ago = || {
            let ago = humantime::parse_duration(&text).ok()?;
            Some(now_ms.saturating_sub(u64::try_from(ago.as_millis()).ok()?))
        };
        let written = || {
            let since = humantime::parse_rfc3339_weak(&text).ok()?.duration_since(UNIX_EPOCH).ok()?;
            u64::try_from(since.as_millis()).ok()
        };
        let wrong = || {
            invalid(
                name,
                format!("`{text}` is no time: write it like 2026-11-22T07:30:00Z, in Unix milliseconds, or as 1h for an hour ago"),
            )
        };
        milliseconds().or_else(ago).or_else(written).map(Some).ok_or_else(wrong)
    }

    /// The page that is requested.
    ///
    /// # Errors
    /// 400 for malformed values, or a `limit` above the maximum.
    pub fn page(&self, now_ms: u64) -> Result<PageQuery, Failure> {
        let limit = match self.text("limit") {
            None => LIMIT,
            Some(text) => match text.parse::<usize>() {
                Ok(limit) if (1..=PAGE_MAX).contains(&limit) => limit,
                _ => return Err(invalid("limit", format!("`limit` must be a number of 1 to {PAGE_MAX}"))),
            },
        };
        Ok(PageQuery { since_ms: self.time("since", now_ms)?, until_ms: self.time("until", now_ms)?, limit, after: self.text("after") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let now_ms = 1_800_000_000_000;
        for (text, time) in [
            ("", Some(None)),
            ("1700000000000", Some(Some(1_700_000_000_000))),
            ("1h", Some(Some(now_ms - 3_600_000))),
            ("2026-11-22T07:30:00Z", Some(Some(1_795_332_600_000))),
            ("2026-11-22T07:30:00", Some(Some(1_795_332_600_000))),
            ("yesterday", None),
            ("-5", None),
        ] {
            let parameters = Parameters::read(&format!("since={text}"), &PAGED).unwrap();
            assert_eq!(parameters.time("since", now_ms).ok(), time, "{text}");
        }
    }

    #[test]
    fn what_is_refused() {
        for (query, words) in [
            ("tol=x", "unknown parameter `tol` (did you mean `tool`?); known: `tool`, `limit`"),
            ("tool=a&tool=b", "twice"),
            (&format!("tool={}", "x".repeat(2000)), "longer than"),
            ("limit=0", "1 to 1000"),
            ("limit=1001", "1 to 1000"),
            ("limit=many", "1 to 1000"),
        ] {
            let refused = Parameters::read(query, &["tool", "limit"]).and_then(|parameters| parameters.page(0)).unwrap_err();
            assert!(refused.message.contains(words), "{}", refused.message);
        }
        let parameters = Parameters::read("tool=a%20b&limit=", &["tool", "limit"]).unwrap();
        assert_eq!((parameters.text("tool").as_deref(), parameters.page(0).unwrap().limit), (Some("a b"), LIMIT));
        for (text, fine) in [("60s", true), ("7d", true), ("0s", false), ("soon", false)] {
            assert_eq!(Parameters::read(&format!("window={text}"), &["window"]).unwrap().window("window").is_ok(), fine, "{text}");
        }
    }
}
