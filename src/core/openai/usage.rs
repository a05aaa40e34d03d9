//! Token counts of several attempts, summed. Pure.

use serde_json::{Map, Number, Value};

/// Adds `more` (JSON text of a `usage` object) to `sum`, number by number at any depth. Members that only one of them
/// has are kept.
pub fn add(sum: &mut Option<Value>, more: &str) {
    match sum {
        Some(sum) => merge(sum, more),
        None => *sum = serde_json::from_str(more).ok(),
    }
}

/// Like [`add`], for an existing sum.
pub fn merge(sum: &mut Value, more: &str) {
    if let Ok(more) = serde_json::from_str(more) {
        merge_values(sum, more);
    }
}

fn merge_values(sum: &mut Value, more: Value) {
    match (sum, more) {
        (Value::Object(sum), Value::Object(more)) => merge_members(sum, more),
        (Value::Number(sum), Value::Number(more)) => {
            if let Some(total) = total(sum, &more) {
                *sum = total;
            }
        }
        (sum @ Value::Null, more) => *sum = more,
        _ => {}
    }
}

fn merge_members(sum: &mut Map<String, Value>, more: Map<String, Value>) {
    for (name, value) in more {
        match sum.get_mut(&name) {
            Some(own) => merge_values(own, value),
            None => {
                sum.insert(name, value);
            }
        }
    }
}

fn total(a: &Number, b: &Number) -> Option<Number> {
    match (a.as_u64(), b.as_u64()) {
        (Some(a), Some(b)) => Some(a.saturating_add(b).into()),
        _ => Number::from_f64(a.as_f64()? + b.as_f64()?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums() {
        let mut sum = None;
        for usage in [r#"{"a":1,"d":{"x":2},"t":0.5,"s":"v"}"#, "null", "broken", r#"{"a":2,"d":{"x":3,"y":1},"t":1.0,"n":null}"#] {
            if usage != "null" {
                add(&mut sum, usage);
            }
        }
        assert_eq!(sum.unwrap().to_string(), r#"{"a":3,"d":{"x":5,"y":1},"t":1.5,"s":"v","n":null}"#);
    }
}
