//! Difference of two exchanges as JSON: members to set and members to remove. An export in another format carries it, so that
//! importing the file gives the same exchange again. Pure.

use serde_json::{Map, Value, json};

use crate::format::RecordedExchange;

/// Levels of objects that are compared member by member; deeper values are set as a whole.
const DEPTH: usize = 3;

/// The patch that turns `from` into `to`; `None` if they are equal.
pub fn between(from: &RecordedExchange, to: &RecordedExchange) -> Option<Value> {
    if from == to {
        return None;
    }
    let (from, to) = (serde_json::to_value(from).unwrap_or_default(), serde_json::to_value(to).unwrap_or_default());
    let (mut set, mut unset) = (Map::new(), Vec::new());
    compare(&from, &to, String::new(), DEPTH, &mut set, &mut unset);
    Some(json!({ "set": set, "unset": unset }))
}

/// Applies `patch` to an exchange.
///
/// # Errors
/// A message if the patch names a place that doesn't exist, or if the result isn't an exchange.
pub fn applied(from: &RecordedExchange, patch: &Value) -> Result<RecordedExchange, String> {
    let mut value = serde_json::to_value(from).map_err(|error| error.to_string())?;
    for pointer in patch.get("unset").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
        if let Some((parent, name)) = pointer.rsplit_once('/')
            && let Some(Value::Object(members)) = value.pointer_mut(parent)
        {
            let _gone = members.shift_remove(name);
        }
    }
    for (pointer, new) in patch.get("set").and_then(Value::as_object).into_iter().flatten() {
        let (parent, name) = pointer.rsplit_once('/').ok_or("its `toolmark` member sets what is no place")?;
        match value.pointer_mut(parent) {
            Some(Value::Object(members)) => {
                members.insert(name.to_owned(), new.clone());
            }
            _ => return Err(format!("its `toolmark` member sets `{pointer}`, which isn't there")),
        }
    }
    RecordedExchange::parse(&value.to_string()).map_err(|error| error.to_string())
}

// INVARIANT: the recursion ends at `depth` 0. The members' names are ours, and need no escapes.
fn compare(from: &Value, to: &Value, at: String, depth: usize, set: &mut Map<String, Value>, unset: &mut Vec<String>) {
    match (from, to) {
        _ if from == to => {}
        (Value::Object(a), Value::Object(b)) if depth > 0 => {
            unset.extend(a.keys().filter(|name| !b.contains_key(*name)).map(|name| format!("{at}/{name}")));
            for (name, value) in b {
                let at = format!("{at}/{name}");
                match a.get(name) {
                    // Members of `origin` may have any names, so it is set as a whole.
                    Some(own) if name != "origin" => compare(own, value, at, depth - 1, set, unset),
                    Some(own) if own == value => {}
                    _ => {
                        set.insert(at, value.clone());
                    }
                }
            }
        }
        _ => {
            set.insert(at, to.clone());
        }
    }
}
