//! Removes secrets from a stream, also those split over several events: the deltas of one text are searched as one text,
//! and each delta loses its part. Pure.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::text::{self, RedactionRules, Splice, applied, splices, whole};
use crate::body::Event;
use toolmark_core::wire::json::{Document, Kind, Value, string::quote};

/// Members that tell which text an event belongs to.
const DISCRIMINATORS: [&str; 6] = ["type", "index", "output_index", "content_index", "summary_index", "item_id"];
const DEPTH: usize = 127;

/// A string in an event: number of the event, position in it, and text.
struct TextLeaf {
    event: usize,
    at: usize,
    end: usize,
    text: String,
}

/// The events without their secrets, and the number of secrets; `None` if there are none.
pub fn redact(events: &[Event], rules: &RedactionRules<'_>) -> Option<(Vec<Event>, u32)> {
    let mut changes: Vec<Vec<Splice>> = vec![Vec::new(); events.len()];
    let mut texts: BTreeMap<String, Vec<TextLeaf>> = BTreeMap::new();
    for (number, (_, event)) in events.iter().enumerate() {
        let Some((start, payload)) = payload(event) else {
            changes[number] = splices(event, rules, &[], 0);
            continue;
        };
        // Secrets that are complete in one event, and values at pointers.
        let own = splices(payload, rules, &whole(rules.pointers), 0);
        if !own.is_empty() {
            changes[number] = own.into_iter().map(|(range, with)| (range.start + start..range.end + start, with)).collect();
            continue;
        }
        if let Ok(document) = Document::parse_noting(Bytes::copy_from_slice(payload.as_bytes()), DEPTH, &[]) {
            leaves(document.root(), String::new(), &mut |key, value: Value<'_>| {
                let text = value.text().unwrap_or_default().into_owned();
                let (at, end) = (value.span().start + start, value.span().end + start);
                texts.entry(key).or_default().push(TextLeaf { event: number, at, end, text });
            });
        }
    }
    for leaves in texts.values().filter(|leaves| leaves.len() > 1) {
        joined(leaves, rules, &mut changes);
    }
    let count = changes.iter().map(Vec::len).sum::<usize>() as u32;
    if count == 0 {
        return None;
    }
    let change = |((ms, event), mut splices): (&Event, Vec<Splice>)| {
        splices.sort_by_key(|(range, _)| range.start);
        (*ms, applied(event, &splices))
    };
    Some((events.iter().zip(changes).map(change).collect(), count))
}

/// Removes secrets from a text that is split over several events.
fn joined(leaves: &[TextLeaf], rules: &RedactionRules<'_>, changes: &mut [Vec<Splice>]) {
    let all: String = leaves.iter().map(|leaf| leaf.text.as_str()).collect();
    let found = splices(&all, rules, &[], 0);
    if found.is_empty() {
        return;
    }
    let mut start = 0;
    for leaf in leaves {
        let end = start + leaf.text.len();
        let mut own: Vec<Splice> = Vec::new();
        for (range, with) in found.iter().filter(|(range, _)| range.start < end && range.end > start) {
            let (from, to) = (range.start.max(start) - start, range.end.min(end) - start);
            // The replacement goes where the secret began.
            own.push((from..to, if range.start >= start { with.clone() } else { String::new() }));
        }
        if !own.is_empty()
            && let Some(changes) = changes.get_mut(leaf.event)
        {
            changes.push((leaf.at..leaf.end, quote(&applied(&leaf.text, &own))));
        }
        start = end;
    }
}

/// The single `data` line of an event: start of its payload, and the payload.
fn payload(event: &str) -> Option<(usize, &str)> {
    let mut found = None;
    let mut at = 0;
    for line in event.split_inclusive(['\n', '\r']) {
        let bare = line.trim_end_matches(['\n', '\r']);
        if let Some(rest) = bare.strip_prefix("data:") {
            if found.is_some() {
                return None;
            }
            let blank = usize::from(rest.starts_with(' '));
            found = Some((at + 5 + blank, &rest[blank..]));
        } else if bare.starts_with(':') && !text::plain_is_clean(bare) {
            return None;
        }
        at += line.len();
    }
    found
}

/// Calls `each` with every string and a key for the text that it is a piece of.
// INVARIANT: a document is at most `DEPTH` deep, so the recursion is bounded.
fn leaves(value: Value<'_>, key: String, each: &mut dyn FnMut(String, Value<'_>)) {
    match value.kind() {
        Kind::Object => {
            let mut key = key;
            for name in DISCRIMINATORS {
                if let Some(value) = value.get(name).filter(|value| !value.is_object() && !value.is_array()) {
                    key.push_str(&format!("/{name}={}", value.raw_str()));
                }
            }
            for member in value.members() {
                leaves(member.value, format!("{key}/{}", member.name()), each);
            }
        }
        Kind::Array => {
            // An element with an `index` member is identified by that, not by its position.
            for (at, item) in value.items().enumerate() {
                let place = if item.get("index").is_some() { String::new() } else { at.to_string() };
                leaves(item, format!("{key}/{place}"), each);
            }
        }
        Kind::Plain | Kind::Escaped => each(key, value),
        Kind::Number | Kind::True | Kind::False | Kind::Null => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(data: &[&str]) -> (Vec<String>, u32) {
        let events: Vec<Event> = data.iter().map(|data| (1, format!("data: {data}\n\n"))).collect();
        let (events, count) = redact(&events, &RedactionRules::default()).unwrap_or((events, 0));
        (events.into_iter().map(|(_, text)| text.trim_end().trim_start_matches("data: ").to_owned()).collect(), count)
    }

    #[test]
    fn a_secret_in_pieces() {
        let delta = |text: &str| format!(r#"{{"choices":[{{"index":0,"delta":{{"content":"{text}"}}}}]}}"#);
        let other = r#"{"choices":[{"index":1,"delta":{"content":"0123"}}]}"#;
        let (redacted, count) = check(&[&delta("the key is s"), &delta("k-abcd"), other, &delta("efghijklmn"), &delta("op."), "[DONE]"]);
        assert_eq!(redacted, [&delta("the key is [redacted]"), &delta(""), other, &delta(""), &delta("."), "[DONE]"]);
        assert!(count > 0);
    }

    #[test]
    fn arguments_in_pieces() {
        let delta = |text: &str| {
            format!(r#"{{"choices":[{{"delta":{{"tool_calls":[{{"index":0,"function":{{"arguments":{}}}}}]}}}}]}}"#, quote(text))
        };
        let (redacted, _) = check(&[&delta("{\"pass"), &delta("word\":\"hun"), &delta("ter2\",\"n\":1}")]);
        let all: String = redacted
            .iter()
            .filter_map(|json| serde_json::from_str::<serde_json::Value>(json).ok())
            .map(|json| json["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"].as_str().unwrap_or_default().to_owned())
            .collect();
        assert_eq!(all, r#"{"password":"[redacted]","n":1}"#);
    }

    #[test]
    fn whole_in_one_event() {
        let (redacted, count) = check(&[r#"{"type":"x","delta":"Bearer abcdefghijkl1"}"#, r#"{"a":1}"#]);
        assert_eq!((redacted, count), (vec![r#"{"type":"x","delta":"[redacted]"}"#.to_owned(), r#"{"a":1}"#.to_owned()], 1));
        assert_eq!(check(&[r#"{"a":"nothing"}"#]).1, 0);
    }
}
