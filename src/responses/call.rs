//! What a call is named, where tools stand in namespaces. Pure.
//!
//! Source: OpenAI API reference, "Create a model response", `tools[].namespace`, `function_call.namespace`.

use crate::judge::registry::Registry;

/// The registry's name of the tool that a call of `name` in `namespace` means: `namespace.name` where the registry
/// has it; else `name` where the namespace is called like the tool or the registry has only that.
pub fn tool_name(registry: &Registry, namespace: Option<&str>, name: &str) -> String {
    let Some(namespace) = namespace.filter(|namespace| !namespace.is_empty()) else { return name.to_owned() };
    let full = format!("{namespace}.{name}");
    if registry.tool(&full).is_some() || (namespace != name && registry.tool(name).is_none()) { full } else { name.to_owned() }
}
