//! Names of called tools on the Responses API, where tools may stand in namespaces. Pure.

use crate::{tools::registry::Registry, wire::json::Document};

/// The registry's name of a tool that is called as `name` in `namespace`: `namespace.name` where that is registered;
/// a tool that was loaded later by itself is called in a namespace of its own name (docs/wire-facts.md#responses-requests).
pub fn tool_name(registry: &Registry, namespace: Option<&str>, name: &str) -> String {
    let Some(namespace) = namespace.filter(|namespace| !namespace.is_empty()) else { return bare_name(registry, name) };
    let whole = format!("{namespace}.{name}");
    if registry.tool(&whole).is_none() && namespace == name { name.to_owned() } else { whole }
}

/// A qualified name (`namespace.name`) in a call without a namespace: the application knows no such tool, so it is made
/// unknown unless the tool itself has that name.
fn bare_name(registry: &Registry, name: &str) -> String {
    let Some(tool) = registry.tool(name).filter(|_| name.contains('.')) else { return name.to_owned() };
    let document = Document::parse(tool.raw.to_string().into());
    let own = document.as_ref().ok().map(Document::root);
    let own = own.and_then(|tool| tool.get("function").or_else(|| tool.get("custom")).unwrap_or(tool).get("name"));
    if own.is_some_and(|own| own.is_text(name)) { name.to_owned() } else { format!(".{name}") }
}
