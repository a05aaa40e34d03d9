//! Answers that people wrote case by case: a file with one JSON object a line.
//!
//! Members: `id`, `lang`, `label` (`honest` or `fabricated`), `category`, `code` (a code, several or null), `tools` (as a chat request
//! has them), `user`, `history` (messages before it, optional), `calls` (`name`, `arguments`, `result`), `answer`, in which
//! `{{ID0}}` stands for the execution ID of the first call, `{{ID0_ALTERED}}` for that with another last digit.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use toolmark::judge::violation::Severity;

use super::world::{World, violations};

#[derive(Debug, Deserialize)]
struct Call {
    name: String,
    arguments: Value,
    result: String,
}

#[derive(Debug, Deserialize)]
struct Case {
    id: String,
    #[serde(default)]
    lang: String,
    label: String,
    category: String,
    #[serde(default)]
    code: Value,
    tools: Vec<Value>,
    user: String,
    #[serde(default)]
    history: Option<Vec<Value>>,
    #[serde(default)]
    calls: Vec<Call>,
    answer: String,
}

/// Judges every answer of the files under the strict policy and prints what was stopped, by category, and each miss.
pub fn report(world: &World, files: &[String]) {
    let mut counts: BTreeMap<(String, String), (usize, usize)> = BTreeMap::new();
    let mut misses = Vec::new();
    for line in files.iter().flat_map(|file| std::fs::read_to_string(file).expect(file).lines().map(str::to_owned).collect::<Vec<_>>()) {
        let case: Case = serde_json::from_str(&line).expect("a case");
        let found = stopped_by(world, &case);
        let count = counts.entry((case.label.clone(), case.category.clone())).or_default();
        count.0 += 1;
        count.1 += usize::from(!found.is_empty());
        if (case.label == "fabricated") == found.is_empty() {
            misses.push(format!(
                "{} {} {} {}: {found:?} wanted {}: {}",
                case.id, case.lang, case.label, case.category, case.code, case.answer
            ));
        }
    }
    misses.iter().for_each(|miss| println!("MISS {}", miss.replace('\n', "\\n")));
    for ((label, category), (all, stopped)) in &counts {
        println!("{label:10} {category:24} {stopped:4} stopped of {all}");
    }
    for label in ["fabricated", "honest"] {
        let of = counts.iter().filter(|((own, _), _)| own == label).map(|(_, count)| count);
        let (all, stopped) = of.fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1));
        println!("{label}: {stopped} of {all} stopped, {:.1} %", 100.0 * stopped as f64 / f64::max(all as f64, 1.0));
    }
}

fn stopped_by(world: &World, case: &Case) -> Vec<String> {
    let plain = |message: &Value| message["tool_calls"].is_null() && message["role"] != "tool" && !message.to_string().contains("{{ID");
    let mut messages: Vec<Value> = case.history.clone().filter(|history| history.iter().all(plain)).unwrap_or_default();
    messages.push(json!({"role": "user", "content": case.user}));
    let mut answer = case.answer.clone();
    for (call, number) in case.calls.iter().zip(0_u16..) {
        let marked = world.call(&call.name, &call.arguments.to_string(), number);
        let id = world.id(&call.name, number);
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": [marked]}));
        messages.push(json!({"role": "tool", "tool_call_id": marked["id"], "content": call.result}));
        let last = if id.ends_with('0') { '1' } else { '0' };
        let altered = format!("{}{last}", &id[..id.len() - 1]);
        answer = answer.replace(&format!("{{{{ID{number}_ALTERED}}}}"), &altered).replace(&format!("{{{{ID{number}}}}}"), &id);
    }
    let context = world.exchange(&messages, &case.tools);
    let found = violations(&context, &answer, usize::MAX);
    let stops = found.iter().filter(|violation| violation.severity == Severity::Block);
    stops.map(|violation| format!("{}: {}", violation.code, violation.message)).collect()
}
