//! The list of models in Anthropic's form. Pure.
//!
//! Source: Anthropic's API reference, "List Models".

use std::time::{Duration, UNIX_EPOCH};

use super::history::document;
use crate::wire::json::{Value, string::quote};

/// The list of these entries, each JSON as an upstream lists it: an entry in OpenAI's form is converted.
pub fn list(entries: &[String]) -> String {
    let entries: Vec<String> = entries.iter().map(|entry| converted(entry).unwrap_or_else(|| entry.clone())).collect();
    let id = |entry: Option<&String>| {
        let id = entry.and_then(|entry| document(entry)?.root().get("id")?.text().map(|id| quote(&id)));
        id.unwrap_or_else(|| "null".to_owned())
    };
    let (first, last) = (id(entries.first()), id(entries.last()));
    format!(r#"{{"data":[{}],"has_more":false,"first_id":{first},"last_id":{last}}}"#, entries.join(","))
}

/// An entry in Anthropic's form; `None` if it is in that form, or has no id.
fn converted(entry: &str) -> Option<String> {
    let entry = document(entry)?;
    let root = entry.root();
    if root.get("type").is_some_and(|kind| kind.is_text("model")) {
        return None;
    }
    let id = quote(&root.get("id")?.text()?);
    let created = Duration::from_secs(root.get("created").and_then(Value::integer).unwrap_or_default().min(u64::from(u32::MAX)));
    let created = humantime::format_rfc3339_seconds(UNIX_EPOCH + created);
    Some(format!(r#"{{"type":"model","id":{id},"display_name":{id},"created_at":"{created}"}}"#))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        let own = r#"{"type":"model","id":"a","display_name":"A","created_at":"2026-01-01T00:00:00Z","more":1}"#;
        let list = list(&[own.to_owned(), r#"{"id":"b","object":"model","created":1700000000}"#.to_owned()]);
        let value: serde_json::Value = serde_json::from_str(&list).unwrap();
        assert!(list.contains(own) && value["data"][1]["created_at"] == "2023-11-14T22:13:20Z", "{list}");
        assert_eq!((&value["first_id"], &value["last_id"], &value["has_more"]), (&"a".into(), &"b".into(), &false.into()));
        assert_eq!(super::list(&[]), r#"{"data":[],"has_more":false,"first_id":null,"last_id":null}"#);
    }
}
