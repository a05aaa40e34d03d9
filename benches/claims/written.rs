//! Answers that people wrote case by case: a file with one JSON object a line.
//!
//! Members of a case: `id`, `lang`, `label` (`honest` or `fabricated`), `category`, `code` (a code, several or null), `tools` (as a
//! chat request has them), `user`, `history` (messages before it, optional), `calls` (`name`, `arguments`, `result`), `answer`, in
//! which `{{ID0}}` stands for the execution ID of the first call, `{{ID0_ALTERED}}` for that with another last digit. In the compact
//! form a line with `world` and `tools` names the tools, and cases name the world.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;
use serde_json::{Value, json};

use toolmark::violation::{Severity, Violation};

use super::world::{World, violations};

#[derive(Debug, Deserialize)]
struct Call {
    name: String,
    arguments: Value,
    result: String,
}

/// The tools of the cases of one domain.
#[derive(Debug, Deserialize)]
struct Domain {
    world: String,
    tools: Vec<Value>,
}

/// An answer, with the conversation that it ends.
#[derive(Debug, Deserialize)]
pub struct Case {
    /// Its name.
    pub id: String,
    #[serde(default)]
    #[allow(dead_code, reason = "the integration tests share this file and print nothing")]
    lang: String,
    label: String,
    #[allow(dead_code, reason = "the integration tests share this file and print nothing")]
    category: String,
    #[serde(default)]
    #[allow(dead_code, reason = "the integration tests share this file and print nothing")]
    code: Value,
    #[serde(default)]
    world: Option<String>,
    #[serde(default)]
    tools: Vec<Value>,
    user: String,
    #[serde(default)]
    history: Option<Vec<Value>>,
    #[serde(default)]
    calls: Vec<Call>,
    answer: String,
}

impl Case {
    /// It says what nothing supports.
    pub fn is_fabricated(&self) -> bool {
        self.label == "fabricated"
    }

    /// It says that something was done or looked up, and nothing ran.
    #[allow(dead_code, reason = "the integration tests share this file and print nothing")]
    fn is_idle_act(&self) -> bool {
        let unsupported = |code: &Value| code == "unsupported_action";
        let code = unsupported(&self.code) || self.code.as_array().is_some_and(|codes| codes.iter().any(unsupported));
        self.is_fabricated() && self.calls.is_empty() && code
    }
}

/// The cases of a file, each with its tools.
pub fn read(text: &str) -> Vec<Case> {
    let mut domains: HashMap<String, Vec<Value>> = HashMap::new();
    let mut cases = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let value: Value = serde_json::from_str(line).expect("JSON");
        if value["id"].is_null() {
            let domain: Domain = serde_json::from_value(value).expect("a domain's tools");
            domains.insert(domain.world, domain.tools);
            continue;
        }
        let mut case: Case = serde_json::from_value(value).expect("a case");
        if let Some(world) = &case.world {
            case.tools.clone_from(domains.get(world).expect(world));
        }
        cases.push(case);
    }
    cases
}

/// What was stopped of how many.
#[derive(Clone, Copy, Debug, Default)]
pub struct Count {
    /// Cases.
    pub all: usize,
    /// Those that were stopped.
    pub stopped: usize,
}

impl Count {
    /// One more case.
    pub fn add(&mut self, stopped: bool) {
        self.all += 1;
        self.stopped += usize::from(stopped);
    }

    /// In percent.
    pub fn share(&self) -> f64 {
        100.0 * self.stopped as f64 / f64::max(self.all as f64, 1.0)
    }
}

/// A violation for which an answer is stopped.
#[derive(Debug)]
#[allow(dead_code, reason = "the integration tests share this file and print nothing")]
pub struct Stop {
    /// The check that found it.
    pub rule: &'static str,
    /// Its code and message.
    pub why: String,
}

/// Cases that one check stopped: (all of them, those that no other check stopped).
#[derive(Clone, Copy, Debug, Default)]
struct Hits {
    fabricated: (usize, usize),
    honest: (usize, usize),
}

/// The checks that made the stops, each with the cases it stopped in each file, the worst first.
#[allow(dead_code, reason = "the integration tests share this file and print nothing")]
#[derive(Debug, Default)]
struct Rules {
    hits: BTreeMap<&'static str, BTreeMap<String, Hits>>,
}

#[allow(dead_code, reason = "the integration tests share this file and print nothing")]
impl Rules {
    fn add(&mut self, file: &str, case: &Case, found: &[Stop]) {
        let rules: std::collections::BTreeSet<&'static str> = found.iter().map(|stop| stop.rule).collect();
        let name = std::path::Path::new(file).file_stem().unwrap_or_default().to_string_lossy().to_lowercase();
        for rule in &rules {
            for name in ["all", &name] {
                let hits = self.hits.entry(rule).or_default().entry(name.to_owned()).or_default();
                let count = if case.is_fabricated() { &mut hits.fabricated } else { &mut hits.honest };
                count.0 += 1;
                count.1 += usize::from(rules.len() == 1);
            }
        }
    }

    fn print(&self) {
        let mut rows: Vec<_> = self.hits.iter().collect();
        let all = |files: &BTreeMap<String, Hits>| files.get("all").copied().unwrap_or_default();
        rows.sort_by_key(|(_, files)| std::cmp::Reverse((all(files).honest.0, all(files).fabricated.0)));
        println!("RULE true positives (alone) / false positives (alone), by file");
        for (rule, files) in rows {
            let show = |hits: &Hits| format!("{}({})/{}({})", hits.fabricated.0, hits.fabricated.1, hits.honest.0, hits.honest.1);
            let parts: Vec<String> = files.iter().map(|(name, hits)| format!("{name} {}", show(hits))).collect();
            println!("RULE {rule:18} {}", parts.join("  "));
        }
    }
}

/// Judges every answer of the files and prints what was stopped, by file and category, and each miss.
#[allow(dead_code, reason = "the integration tests share this file and print nothing")]
pub fn report(world: &World, files: &[String]) {
    let mut all: BTreeMap<&str, Count> = BTreeMap::new();
    let mut categories: BTreeMap<(String, String), Count> = BTreeMap::new();
    let mut rules = Rules::default();
    for file in files {
        let mut own: BTreeMap<&str, Count> = BTreeMap::new();
        for case in read(&std::fs::read_to_string(file).expect(file)) {
            let found = stopped_by(world, &case, usize::MAX);
            let stopped = !found.is_empty();
            rules.add(file, &case, &found);
            let label = if case.is_fabricated() { "fabricated" } else { "honest" };
            for counts in [&mut own, &mut all] {
                counts.entry(label).or_default().add(stopped);
                if case.is_idle_act() {
                    counts.entry("acts without any execution").or_default().add(stopped);
                }
            }
            categories.entry((case.label.clone(), case.category.clone())).or_default().add(stopped);
            for characters in [1, 7] {
                let streamed = stopped_by(world, &case, characters);
                if streamed.is_empty() == stopped {
                    println!("STREAMED {} differs by {characters}: whole {found:?}, streamed {streamed:?}", case.id);
                }
            }
            if case.is_fabricated() != stopped {
                let found: Vec<String> = found.iter().map(|stop| format!("[{}] {}", stop.rule, stop.why)).collect();
                let line =
                    format!("{} {} {} {}: {found:?} wanted {}: {}", case.id, case.lang, case.label, case.category, case.code, case.answer);
                println!("MISS {}", line.replace('\n', "\\n"));
            }
        }
        let parts: Vec<String> =
            own.iter().map(|(name, count)| format!("{name} {} of {}, {:.1} %", count.stopped, count.all, count.share())).collect();
        println!("FILE {file}: {}", parts.join("; "));
    }
    rules.print();
    for ((label, category), count) in &categories {
        println!("{label:10} {category:24} {:4} stopped of {}", count.stopped, count.all);
    }
    for (name, count) in &all {
        println!("{name}: {} of {} stopped, {:.1} %", count.stopped, count.all, count.share());
    }
}

/// Prints a digest of all that is found in each answer, whole and streamed.
#[allow(dead_code, reason = "the integration tests share this file and print nothing")]
pub fn verdicts(world: &World, files: &[String]) {
    for file in files {
        for case in read(&std::fs::read_to_string(file).expect(file)) {
            println!("{file} {} {}", case.id, digest(&[usize::MAX, 1, 7].map(|characters| found_in(world, &case, characters))));
        }
    }
}

/// A digest of what was found in each form of an answer.
#[allow(dead_code, reason = "the integration tests share this file and print nothing")]
pub fn digest(found: &[Vec<Violation>]) -> String {
    let digests = found.iter().map(|found| blake3::hash(format!("{found:?}").as_bytes()).to_hex()[..16].to_owned());
    digests.collect::<Vec<String>>().join(" ")
}

/// The violations for which this answer is stopped, taken in pieces of so many characters.
pub fn stopped_by(world: &World, case: &Case, characters: usize) -> Vec<Stop> {
    let found = found_in(world, case, characters);
    let stops = found.iter().filter(|violation| violation.severity == Severity::Block);
    stops
        .map(|violation| Stop {
            rule: violation.detail.as_ref().map_or("(none)", |detail| detail.rule),
            why: format!("{}: {}", violation.code, violation.message),
        })
        .collect()
}

/// All that is found in this answer, taken in pieces of so many characters.
fn found_in(world: &World, case: &Case, characters: usize) -> Vec<Violation> {
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
    violations(&context, &answer, characters)
}
