//! Request matching: two requests are the same if they differ only in marks, stamps and times. Pure.
//!
//! Call ids become numbers in the order in which they are first seen, stamps are removed, execution IDs lose their digits,
//! and values at configured pointers are removed. Times count in the first comparison but not in the second: a date in an
//! instruction doesn't prevent a match, and two recorded questions that differ only in a date are still told apart.

use std::{borrow::Cow, collections::HashMap, sync::LazyLock};

use regex::Regex;
use serde_json::Value;

use toolmark_core::wire::json::canonical::canonical;

/// Hash of a normalised request. Equal keys mean equal requests.
pub type MatchKey = blake3::Hash;

/// Treatment of dates and times in a comparison.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TimePolicy {
    /// Compared as they are.
    Count,
    /// Replaced by a placeholder.
    Ignore,
}

/// The first line of a stamped result that isn't a JSON object, in the present and the earlier form of [`toolmark_core::judge::history::stamp`].
static STAMP_LINE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"\A\[execution_id: (?:[A-Za-z0-9_-]{1,128}_[0-9]{13}_[0-9a-f]{16}|\S{1,200} tool: .{1,128}? executed_at: [0-9T:.Z+-]{10,40})\]\n",
    )
    .ok()
});
/// The first member of a stamped JSON object, or the first two in the earlier form.
static STAMP_MEMBERS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r#"\A(\s*\{\s*)"execution_id"\s*:\s*(?:"[A-Za-z0-9_-]{1,160}"\s*,\s*"executed_at"\s*:\s*"[0-9T:.Z+-]{10,40}"|"[A-Za-z0-9_-]{1,128}_[0-9]{13}_[0-9a-f]{16}")(?:\s*,\s*|(\s*\}))"#,
    )
    .ok()
});
/// Execution IDs and call marks, anywhere in a text.
static IDS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"\b([A-Za-z0-9_-]{1,128})_[0-9]{13}_[0-9a-f]{16}\b|\bcall_[0-9a-f]{32}\b").ok());
/// Dates, times of day, and dates with times.
static TIMES: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let time = r"[0-2]?\d:[0-5]\d(?::[0-5]\d(?:[.,]\d{1,9})?)?(?:\s?[AaPp]\.?[Mm]\b\.?)?(?:\s?(?:Z|UTC|GMT|[+-]\d{2}:?\d{2}))?";
    let months = "Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sep(?:tember)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?";
    let days = "(?:(?:Mon|Tue|Tues|Wed|Wednes|Thu|Thurs|Fri|Sat|Satur|Sun)(?:day)?,? )?";
    let dates = format!(
        r"\d{{4}}-\d{{2}}-\d{{2}}|{days}(?:{months}) \d{{1,2}}(?:st|nd|rd|th)?,? \d{{4}}|{days}\d{{1,2}} (?:{months}),? \d{{4}}|\d{{1,2}}/\d{{1,2}}/\d{{4}}"
    );
    Regex::new(&format!(r"\b(?:(?:{dates})(?:(?:T|, | at | ){time})?|{time})")).ok()
});

/// Request matcher: normalises requests and computes their keys.
#[derive(Clone, Debug, Default)]
pub struct RequestMatcher {
    /// JSON pointers of values that are ignored; `*` is any member or element.
    pub ignore: Vec<Vec<String>>,
}

impl RequestMatcher {
    /// The key of a request. `path`: the path below the API version, as `/chat/completions`.
    pub fn key(&self, method: &str, path: &str, body: &str, times: TimePolicy) -> MatchKey {
        let mut hasher = blake3::Hasher::new();
        for part in [method, path] {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
        }
        match self.json(body, times) {
            // Members in canonical order.
            Some(value) => {
                let json = value.to_string();
                hasher.update(canonical(&json).unwrap_or(json).as_bytes());
            }
            None => {
                hasher.update(b"\0").update(text(body, times).as_bytes());
            }
        }
        hasher.finalize()
    }

    /// The normalised body; `None` if it isn't JSON.
    pub fn json(&self, body: &str, times: TimePolicy) -> Option<Value> {
        let mut value: Value = serde_json::from_str(body).ok()?;
        for pointer in &self.ignore {
            remove(&mut value, pointer);
        }
        let mut ids = CallIdNumbering::default();
        normalise(&mut value, "", &mut ids, times);
        Some(value)
    }
}

fn remove(value: &mut Value, pointer: &[String]) {
    let Some((first, rest)) = pointer.split_first() else { return };
    match value {
        Value::Object(members) if rest.is_empty() => {
            if first == "*" {
                members.clear();
            } else {
                // Not `remove`, which would move the last member here.
                let _gone = members.shift_remove(first);
            }
        }
        Value::Object(members) if first == "*" => members.values_mut().for_each(|value| remove(value, rest)),
        Value::Object(members) => members.get_mut(first).into_iter().for_each(|value| remove(value, rest)),
        Value::Array(items) if rest.is_empty() => {
            for (at, item) in items.iter_mut().enumerate() {
                if first == "*" || *first == at.to_string() {
                    *item = Value::Null;
                }
            }
        }
        Value::Array(items) => {
            let meant = |at: usize| first == "*" || *first == at.to_string();
            items.iter_mut().enumerate().filter(|(at, _)| meant(*at)).for_each(|(_, item)| remove(item, rest));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Numbers for call ids, in the order in which they are first seen.
#[derive(Default)]
struct CallIdNumbering(HashMap<String, usize>);

impl CallIdNumbering {
    fn number(&mut self, id: &str) -> String {
        let next = self.0.len() + 1;
        format!("<call {}>", self.0.entry(id.to_owned()).or_insert(next))
    }
}

// INVARIANT: serde_json refuses what is nested deeper than 128, so the recursion is bounded.
fn normalise(value: &mut Value, name: &str, ids: &mut CallIdNumbering, times: TimePolicy) {
    match value {
        Value::Object(members) => {
            for (name, value) in members.iter_mut() {
                match value {
                    Value::String(id) if matches!(name.as_str(), "tool_call_id" | "call_id") => *id = ids.number(id),
                    _ => normalise(value, name, ids, times),
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                if name == "tool_calls"
                    && let Some(Value::String(id)) = item.get_mut("id")
                {
                    *id = ids.number(id);
                }
                normalise(item, "", ids, times);
            }
        }
        Value::String(own) => {
            if let Cow::Owned(new) = text(own, times) {
                *own = new;
            }
            // Arguments and results are JSON in strings: their spacing and member order don't count either.
            if own.starts_with(['{', '[', ' ', '\n'])
                && let Ok(mut inner @ (Value::Object(_) | Value::Array(_))) = serde_json::from_str(own)
            {
                normalise(&mut inner, "", ids, times);
                let json = inner.to_string();
                *own = canonical(&json).unwrap_or(json);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn text(text: &str, times: TimePolicy) -> Cow<'_, str> {
    let mut text = Cow::Borrowed(text);
    let replaced = [(&STAMP_LINE, ""), (&STAMP_MEMBERS, "$1$2"), (&IDS, "<id $1>"), (&TIMES, "<time>")];
    let count = if times == TimePolicy::Ignore { replaced.len() } else { replaced.len() - 1 };
    for (regex, with) in replaced.into_iter().take(count) {
        if let Some(regex) = &**regex
            && let Cow::Owned(new) = regex.replace_all(&text, with)
        {
            text = Cow::Owned(new);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redact::pointer;

    fn same(a: &str, b: &str, times: TimePolicy) -> bool {
        let canonical = RequestMatcher { ignore: vec![pointer("/user").unwrap(), pointer("/messages/*/name").unwrap()] };
        canonical.key("POST", "/chat/completions", a, times) == canonical.key("POST", "/chat/completions", b, times)
    }

    #[test]
    fn marks_stamps_and_what_is_ignored_do_not_count() {
        let one = r#"{"model":"m","user":"a","messages":[{"role":"assistant","name":"x","tool_calls":[{"id":"call_abc","type":"function"}]},
            {"role":"tool","tool_call_id":"call_abc","content":"{\"a\":1}"},{"role":"tool","tool_call_id":"call_z","content":"text"}]}"#;
        let other = r#"{"messages":[{"role":"assistant","tool_calls":[{"type":"function","id":"call_0123456789abcdef0123456789abcdef"}]},
            {"role":"tool","tool_call_id":"call_0123456789abcdef0123456789abcdef","content":"{\"execution_id\":\"get_weather_1700000000000_0123456789abcdef\",\"executed_at\":\"2023-11-14T22:13:20.000Z\",\"a\":1}"},
            {"role":"tool","tool_call_id":"9","content":"[execution_id: x_1700000000000_0123456789abcdef tool: x executed_at: 2023-11-14T22:13:20.000Z]\ntext"}],
            "user":"b","model":"m"}"#;
        assert!(same(one, other, TimePolicy::Count));
        let shorter = other
            .replace(r#"\"executed_at\":\"2023-11-14T22:13:20.000Z\","#, "")
            .replace(" tool: x executed_at: 2023-11-14T22:13:20.000Z", "");
        assert!(shorter.len() + 80 < other.len());
        assert!(same(one, &shorter, TimePolicy::Count), "today's stamps");
        assert!(
            !same(one, &other.replace("\"9\"", "\"call_0123456789abcdef0123456789abcdef\""), TimePolicy::Count),
            "another call's result"
        );
        assert!(!same(one, &other.replace("\"model\":\"m\"", "\"model\":\"n\""), TimePolicy::Ignore));
        assert!(!same(one, &other.replace("\\\"a\\\":1", "\\\"a\\\":2"), TimePolicy::Ignore));
    }

    #[test]
    fn an_object_with_only_its_stamp() {
        let stamped = r#"{"m":"{\"execution_id\":\"x_1700000000000_0123456789abcdef\",\"executed_at\":\"2023-11-14T22:13:20.000Z\"}"}"#;
        assert!(same(stamped, r#"{"m":"{}"}"#, TimePolicy::Count));
        assert!(same(&stamped.replace(r#",\"executed_at\":\"2023-11-14T22:13:20.000Z\""#, ""), r#"{"m":"{}"}"#, TimePolicy::Count));
        assert!(!same(r#"{"m":"{\"execution_id\":\"mine\"}"}"#, r#"{"m":"{}"}"#, TimePolicy::Count), "another system's id");
    }

    #[test]
    fn times_count_first_and_then_do_not() {
        for (a, b) in [
            ("2026-11-22", "2025-01-02"),
            ("2026-11-22T05:12:00.123Z", "2025-01-02T01:00:00Z"),
            ("2026-11-22 05:12:00", "2025-01-02 01:00:00"),
            ("November 22, 2026", "Jan 2, 2025"),
            ("Sunday, November 22, 2026 at 5:12 AM", "Monday, January 2, 2025 at 11:12 PM"),
            ("22 November 2026", "1 May 2025"),
            ("17:04", "09:00"),
            ("11/22/2026", "1/2/2025"),
        ] {
            let body = |time: &str| format!(r#"{{"messages":[{{"role":"system","content":"Now it is {time}, really."}}]}}"#);
            assert!(same(&body(a), &body(b), TimePolicy::Ignore), "{a} {b}");
            assert!(!same(&body(a), &body(b), TimePolicy::Count), "{a} {b}");
        }
        for (a, b) in [("12", "13"), ("3:1", "4:1"), ("1.5", "1.6"), ("room 101", "room 102"), ("2026", "2025")] {
            assert!(!same(&format!("{{\"a\":\"{a}\"}}"), &format!("{{\"a\":\"{b}\"}}"), TimePolicy::Ignore), "{a} {b}");
        }
    }

    #[test]
    fn how_json_is_written_does_not_count() {
        assert!(same(r#"{"a":"{\"b\": 1.0, \"c\": [ ]}"}"#, r#"{ "a" : "{\"c\":[],\"b\":1}" }"#, TimePolicy::Count));
        assert!(!same(r#"{"a":"{\"b\": 1}"}"#, r#"{"a":"{\"b\": 2}"}"#, TimePolicy::Count));
    }

    #[test]
    fn what_is_no_json_is_compared_as_text() {
        assert!(same("at 12:00", "at 13:00", TimePolicy::Ignore) && !same("a", "b", TimePolicy::Ignore) && same("", "", TimePolicy::Count));
    }
}
