//! Matches a slightly wrong name to the tool or parameter that was meant.
//!
//! Stricter than the similarity of [`crate::schema::suggest`], which only words advice: a match found here is called. Finds exactly one
//! candidate or none. Pure.

use serde_json::{Map, Value};

use crate::{
    judge::call::CallKind,
    schema::Schema,
    tools::registry::{Registry, Tool, ToolKind},
};

/// Prefixes that models put before a tool's name, from other providers' naming.
const PREFIXES: [&str; 6] = ["functions", "function", "tools", "tool", "default_api", "multi_tool_use"];
/// Bytes of the longest name that is compared; tools' names are at most half as long.
const NAME_BYTES_MAX: usize = 256;
/// Characters from which on names may differ by one letter and still match.
const TYPO_CHARS_MIN: usize = 6;

/// The only tool whose name is `name` apart from case, separators and a known prefix.
pub(crate) fn tool<'r>(name: &str, kind: CallKind, registry: &'r Registry) -> Option<&'r Tool> {
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    let whole = folded(name);
    let prefix = |at: usize| PREFIXES.contains(&name.get(..at).unwrap_or_default().trim().to_ascii_lowercase().as_str());
    let rest = name.find(['.', ':', '/']).filter(|at| prefix(*at)).and_then(|at| name.get(at + 1..)).map(folded);
    let meant = |tool: &&Tool| {
        let own = folded(&tool.name);
        !own.is_empty() && (own == whole || Some(&own) == rest.as_ref())
    };
    let mut candidates = registry.tools().iter().filter(meant);
    let tool = candidates.next().filter(|_| candidates.next().is_none())?;
    let fits =
        matches!((tool.kind, kind), (ToolKind::Function, CallKind::Function | CallKind::Legacy) | (ToolKind::Custom, CallKind::Custom));
    // One in a namespace can't be called by another name alone.
    (fits && tool.declared && !tool.name.contains('.')).then_some(tool)
}

/// The only unknown parameter and the only missing required one, if their names nearly match.
pub(crate) fn parameter<'a>(schema: &'a Schema, arguments: &'a Map<String, Value>) -> Option<(&'a str, &'a str)> {
    let mut unknown = arguments.keys().filter(|name| schema.is_unknown(name));
    let mut missing = schema.required().filter(|name| !arguments.contains_key(*name));
    let (from, to) = (unknown.next()?.as_str(), missing.next()?);
    if unknown.next().is_some() || missing.next().is_some() || from.len() > NAME_BYTES_MAX {
        return None;
    }
    // Near another one as well, whether that is there or not, it may have been meant for that.
    let near_another = schema.parameters().iter().any(|own| *own.name != *to && close(from, &own.name));
    (close(from, to) && !near_another).then_some((from, to))
}

/// True if the names are the same apart from case and separators, or, from six letters on, apart from one that isn't the first.
fn close(a: &str, b: &str) -> bool {
    let (a, b) = (folded(a), folded(b));
    let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
    let long = a.chars().count().min(b.chars().count()) >= TYPO_CHARS_MIN;
    !a.is_empty()
        && (a == b || long && a.chars().next() == b.chars().next() && digits(&a) == digits(&b) && strsim::damerau_levenshtein(&a, &b) == 1)
}

/// Normalizes a name: lower case, no separators except between digits (`v1_1` isn't `v11`).
fn folded(name: &str) -> String {
    let (mut folded, mut parted) = (String::with_capacity(name.len()), false);
    for c in name.chars() {
        if !c.is_alphanumeric() {
            parted = true;
            continue;
        }
        if parted && c.is_ascii_digit() && folded.ends_with(|before: char| before.is_ascii_digit()) {
            folded.push('_');
        }
        parted = false;
        folded.extend(c.to_lowercase());
    }
    folded
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        policy::Tools,
        schema::FormatChecks,
        tools::registry::{RequestTool, SchemaCache},
        violation::Checks,
    };

    fn registry(names: &[(&'static str, ToolKind)]) -> Registry {
        let tool =
            |(name, kind): &(&'static str, ToolKind)| RequestTool { name, kind: *kind, parameters_raw: None, description: None, raw: "" };
        let tools: Vec<_> = names.iter().map(tool).collect();
        Registry::build(&[], &tools, &Tools::default(), FormatChecks::Assert, &Checks::default(), &SchemaCache::default()).0
    }

    #[test]
    fn tools_that_were_meant() {
        use ToolKind::{Custom, Function};
        let tools = [
            ("get_weather", Function),
            ("list", Function),
            ("tools_list", Function),
            ("v1_1", Function),
            ("shell", Custom),
            ("crm.find", Function),
        ];
        let twins = [("get_time", Function), ("getTime", Function)];
        let registry = registry(&[&tools[..], &twins[..]].concat());
        for (name, meant) in [
            ("GET_WEATHER", Some("get_weather")),
            ("getWeather", Some("get_weather")),
            ("get weather ", Some("get_weather")),
            ("get.weather", Some("get_weather")),
            ("functions.get_weather", Some("get_weather")),
            ("default_api:getWeather", Some("get_weather")),
            ("Functions/List", Some("list")),
            ("tools.list", None),
            ("get_wether", None),
            ("get_weather_tool", None),
            ("container.get_weather", None),
            ("functions.functions.list", None),
            ("get-time", None),
            ("functions.GET_TIME", None),
            ("v11", None),
            ("V1.1", Some("v1_1")),
            ("crm_find", None),
            ("functions.", None),
            ("", None),
            ("Shell", None),
        ] {
            assert_eq!(tool(name, CallKind::Function, &registry).map(|tool| &*tool.name), meant, "{name:?}");
        }
        assert_eq!(tool("Shell", CallKind::Custom, &registry).map(|tool| &*tool.name), Some("shell"));
        assert!(tool("List", CallKind::Custom, &registry).is_none());
        assert!(tool(&format!("{}list", "_".repeat(NAME_BYTES_MAX)), CallKind::Function, &registry).is_none());
    }

    #[test]
    fn parameters_that_were_meant() {
        for (required, others, given, meant) in [
            ("[\"city\"]", "\"days\":{}", "{\"City\":1}", Some(("City", "city"))),
            ("[\"num1\",\"num2\"]", "\"days\":{}", "{\"num1\":1,\"num2_\":2}", Some(("num2_", "num2"))),
            ("[\"num1\",\"num2\"]", "\"days\":{}", "{\"num1\":1,\"num3\":2}", None),
            ("[\"param1\",\"param2\"]", "\"days\":{}", "{\"param1\":1,\"param3\":2}", None),
            ("[\"location\"]", "\"days\":{}", "{\"locaton\":1}", Some(("locaton", "location"))),
            ("[\"location\"]", "\"days\":{}", "{\"locaion\":1,\"day\":2}", None),
            ("[\"location\",\"region\"]", "\"days\":{}", "{\"locaton\":1}", None),
            ("[\"latitude\"]", "\"days\":{}", "{\"altitude\":1}", None),
            ("[\"sender\"]", "\"days\":{}", "{\"gender\":1}", None),
            ("[\"user_id\"]", "\"user_ids\":{}", "{\"user_idd\":1}", None),
            ("[\"user_id\"]", "\"user_ids\":{}", "{\"user_ids\":[],\"user_idd\":1}", None),
            ("[\"from\"]", "\"days\":{}", "{\"form\":1}", None),
            ("[\"city\"]", "\"days\":{}", "{\"town\":1}", None),
            ("[\"city\"]", "\"days\":{}", "{\"days\":1}", None),
        ] {
            let named: String = required.trim_matches(['[', ']']).split(',').map(|name| format!("{name}:{{}},")).collect();
            let schema = format!("{{\"type\":\"object\",\"properties\":{{{named}{others}}},\"required\":{required}}}");
            let schema = Schema::compile(&schema, FormatChecks::Assert).unwrap();
            let given: Map<String, Value> = serde_json::from_str(given).unwrap();
            assert_eq!(parameter(&schema, &given), meant, "{required} {given:?}");
        }
    }
}
