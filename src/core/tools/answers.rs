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
        // `{"city": …, "degrees": …}` is data, of which no member is the answer; flags and grades stand beside one.
        ([only], _) if all.iter().all(|own| &*own.name == *only || is_beside_answer(&own.name, &own.types)) || is_named(only) => texts,
        // A parameter of any type.
        ([], [only]) if only.types.is_empty() => vec![&*only.name],
        _ => texts.into_iter().filter(|name| PARAMETERS.contains(name)).collect(),
    }
}

/// True if a word of this name is one for an answer: `final_answer`, `answerText`.
fn is_named(name: &str) -> bool {
    let mut words = String::with_capacity(name.len() + 4);
    for c in name.chars() {
        if c.is_uppercase() {
            words.push('_');
        }
        words.extend(c.to_lowercase());
    }
    words.split(['_', '-', ' ']).any(|word| PARAMETERS.contains(&word) || PARAMETERS.iter().any(|own| word.strip_suffix('s') == Some(own)))
}

/// True of a parameter that stands beside an answer: a flag, or a grade of it.
fn is_beside_answer(name: &str, types: &str) -> bool {
    const GRADES: [&str; 9] = ["confidence", "score", "probability", "certainty", "rating", "status_code", "statuscode", "code", "n"];
    types == "boolean" || GRADES.contains(&name.to_lowercase().as_str())
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
            ("final_answer", r#"{"finalAnswer":{"type":"string"},"weight":{"type":"number"}}"#, &["finalAnswer"]),
            ("finish", r#"{"outcome":{"type":"string"},"status_code":{"type":"integer"}}"#, &["outcome"]),
            ("final_result", r#"{"explanation":{"type":"string"},"success":{"type":"boolean"}}"#, &["explanation"]),
            ("final_answer", "{}", &none),
            ("send_email", r#"{"text":{"type":"string"}}"#, &none),
        ] {
            assert_eq!(holds(name, properties, "[]"), expected, "{name} {properties}");
        }
    }
}
