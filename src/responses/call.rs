//! Names of called tools on the Responses API, where tools may stand in namespaces. Pure.

use crate::judge::registry::Registry;

/// The registry's name of a tool that is called as `name` in `namespace`: `namespace.name` where that is registered;
/// a tool that was loaded later by itself is called in a namespace of its own name (FACTS §2, recorded traffic).
pub fn tool_name(registry: &Registry, namespace: Option<&str>, name: &str) -> String {
    let Some(namespace) = namespace.filter(|namespace| !namespace.is_empty()) else { return name.to_owned() };
    let whole = format!("{namespace}.{name}");
    if registry.tool(&whole).is_none() && namespace == name { name.to_owned() } else { whole }
}
