//! Members that are `null` and can be left out. Pure.

use serde_json::Value;

use crate::{
    judge::call::corrections::remove_members::unescape,
    schema::{IssueKind, Schema, SchemaIssue, strict_json::Parsed},
};

/// JSON pointers of the members that are `null`, may not be, and can be left out.
pub(crate) fn needless_nulls(schema: &Schema, parsed: &Parsed, issues: &[SchemaIssue]) -> Vec<String> {
    let mut nulls: Vec<String> = Vec::new();
    for issue in issues.iter().filter(|issue| issue.null) {
        let (parent, _) = issue.pointer.rsplit_once('/').unwrap_or_default();
        let member = !issue.pointer.is_empty() && parsed.value.pointer(parent).is_some_and(Value::is_object);
        if member && !nulls.contains(&issue.pointer) {
            nulls.push(issue.pointer.clone());
        }
    }
    if nulls.is_empty() {
        return nulls;
    }
    // Left out by way of trial: what is then missed was required.
    let mut trial = parsed.value.clone();
    for pointer in &nulls {
        let (parent, name) = pointer.rsplit_once('/').unwrap_or_default();
        if let Some(Value::Object(map)) = trial.pointer_mut(parent) {
            map.shift_remove(&unescape(name));
        }
    }
    let missed: Vec<String> = schema
        .violations(&trial, super::ISSUES_MAX)
        .into_iter()
        .filter_map(|issue| match issue.kind {
            IssueKind::Missing(name) => Some(format!("{}/{}", issue.pointer, name.replace('~', "~0").replace('/', "~1"))),
            IssueKind::Unexpected(_) | IssueKind::Type | IssueKind::Other => None,
        })
        .collect();
    nulls.retain(|pointer| !missed.contains(pointer));
    nulls
}
