//! Tools through which an answer is given (`[tools] answers`): their parameters that hold it. Pure.

use super::registry::{Tool, ToolKind};

/// Names of parameters that hold the answer if a tool has several string parameters.
const PARAMETERS: [&str; 11] =
    ["answer", "final_answer", "result", "response", "reply", "output", "text", "message", "content", "summary", "completion"];

/// Names of the parameters that hold the answer; empty if the tool isn't an answer tool.
pub fn parameters<'t>(tool: &'t Tool, names: &[String]) -> Vec<&'t str> {
    if tool.kind != ToolKind::Function || !names.iter().any(|name| is_same(name, &tool.name)) {
        return Vec::new();
    }
    let Ok(schema) = tool.schema.as_ref() else { return Vec::new() };
    let text = |types: &str| types.split(" or ").any(|kind| kind == "string");
    let all = schema.parameters();
    let texts: Vec<&str> = all.iter().filter(|own| text(&own.types)).map(|own| &*own.name).collect();
    match (&texts[..], all) {
        // `{"city": …, "degrees": …}` is data, of which no member is the answer.
        ([only], _) if all.len() == 1 || only.split(['_', '-', ' ']).any(|word| PARAMETERS.contains(&word)) => texts,
        // A parameter of any type.
        ([], [only]) if only.types.is_empty() => vec![&*only.name],
        _ => texts.into_iter().filter(|name| PARAMETERS.contains(name)).collect(),
    }
}

/// Compares names, ignoring case and separators.
fn is_same(name: &str, tool: &str) -> bool {
    let folded = |text: &str| -> String { text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect() };
    name == tool || folded(name) == folded(tool)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        policy::Tools,
        schema::FormatChecks,
        tools::registry::{Registry, SchemaCache, ToolSource},
        violation::Checks,
    };

    fn holds(name: &str, properties: &str, required: &str) -> Vec<String> {
        let raw = format!(
            r#"{{"type":"function","function":{{"name":"{name}","parameters":{{"type":"object","properties":{properties},"required":{required}}}}}}}"#
        );
        let (registry, _) = Registry::build(
            &[ToolSource::parse(&raw).unwrap()],
            &[],
            &Tools::default(),
            FormatChecks::Assert,
            &Checks::default(),
            &SchemaCache::default(),
        );
        registry.tools().iter().flat_map(|tool| parameters(tool, &Tools::default().answers)).map(str::to_owned).collect()
    }

    #[test]
    fn which_tools_are_answers() {
        let none: [&str; 0] = [];
        for (name, properties, expected) in [
            ("final_answer", r#"{"answer":{"type":"string"}}"#, &["answer"][..]),
            ("FinalAnswer", r#"{"answer":{"type":["string","null"]}}"#, &["answer"]),
            ("final_answer", r#"{"answer":{"description":"anything"}}"#, &["answer"]),
            ("submit", r#"{"anything":{"type":"string"}}"#, &["anything"]),
            ("finish", r#"{"result":{"type":"string"},"done":{"type":"boolean"}}"#, &["result"]),
            ("MarkTaskSuccessful", r#"{"task_id":{"type":"string"},"result":{"type":"string"}}"#, &["result"]),
            ("final_result", r#"{"city":{"type":"string"},"country":{"type":"string"}}"#, &none),
            ("final_answer", r#"{"answer":{"type":"number"}}"#, &none),
            ("final_result", r#"{"city":{"type":"string"},"degrees":{"type":"number"}}"#, &none),
            ("final_answer", "{}", &none),
            ("send_email", r#"{"text":{"type":"string"}}"#, &none),
        ] {
            assert_eq!(holds(name, properties, "[]"), expected, "{name} {properties}");
        }
    }
}
