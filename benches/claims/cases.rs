//! The cases: made by rule from results and phrasings, and written by hand. Always the same ones.
//!
//! Which half a case belongs to is fixed in advance by hashes: of its tool and of its phrasing. A case whose tool is of one
//! half and whose phrasing is of the other belongs to neither, so that the halves share no tool and no phrasing.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use toolmark::{claims::language::lexicon, violation::Code};

use super::world::{Ran, World};

const LANGUAGES: [&str; 5] = ["en", "de", "es", "fr", "it"];

/// A result, and what of it is said.
#[derive(Debug, Deserialize)]
struct Line {
    tool: String,
    about: String,
    arguments: String,
    result: String,
    nouns: Vec<String>,
    n: u64,
    value: f64,
    unit: String,
    url: String,
    empty: String,
    failed: String,
}

/// A case written by hand.
#[derive(Debug, Deserialize)]
struct Hard {
    name: String,
    category: String,
    #[serde(default)]
    tool: String,
    #[serde(default)]
    about: String,
    #[serde(default)]
    arguments: String,
    result: Option<Value>,
    #[serde(default)]
    asked: String,
    answer: String,
    /// The codes of which one is right; none for an honest answer.
    #[serde(default)]
    expect: Vec<String>,
}

/// One labelled case.
#[derive(Clone, Debug)]
pub struct Case {
    pub name: String,
    pub category: String,
    pub held_out: bool,
    pub ran: Vec<Ran>,
    pub asked: String,
    pub answer: String,
    /// The codes of which one must be found; none for an honest answer.
    pub expect: Vec<Code>,
}

/// Every case.
pub fn cases(world: &World) -> Vec<Case> {
    let lines: Vec<Line> = include_str!("results.jsonl").lines().map(|line| serde_json::from_str(line).expect("a result")).collect();
    let templates: BTreeMap<String, BTreeMap<String, Vec<String>>> = toml(include_str!("templates.toml"));
    let mut cases = Vec::new();
    for line in &lines {
        for (at, language) in LANGUAGES.iter().enumerate() {
            for (category, by_language) in &templates {
                let own: Vec<&String> = by_language[*language].iter().filter(|phrase| odd(phrase) == odd(&line.tool)).collect();
                for phrase in own.into_iter().take(2) {
                    make(world, line, at, category, phrase, &mut cases);
                }
            }
            block(world, line, at, &mut cases);
        }
    }
    actions(world, &mut cases);
    hard(world, &mut cases);
    cases
}

fn toml<T: serde::de::DeserializeOwned>(text: &str) -> T {
    use figment::{
        Figment,
        providers::{Format as _, Toml},
    };
    Figment::from(Toml::string(text)).extract().expect("templates")
}

/// Of the held-out half?
fn odd(text: &str) -> bool {
    blake3::hash(text.as_bytes()).as_bytes()[0] & 1 == 1
}

fn number(text: &str) -> usize {
    usize::from(blake3::hash(text.as_bytes()).as_bytes()[1])
}

fn ran(line: &Line, result: &str) -> Vec<Ran> {
    vec![Ran { tool: line.tool.clone(), about: line.about.clone(), arguments: line.arguments.clone(), result: Some(result.to_owned()) }]
}

fn make(world: &World, line: &Line, at: usize, category: &str, phrase: &str, cases: &mut Vec<Case>) {
    let id = world.id(&line.tool, 0);
    let noun = &line.nouns[at];
    let key = format!("{} {} {category} {phrase}", line.tool, LANGUAGES[at]);
    let mut push = |honest: bool, result: &str, answer: String, expect: &[Code]| {
        let name = format!("{key} {}", if honest { "honest" } else { "fabricated" });
        let category = if category == "failure" { "failed" } else { category };
        let expect = if honest { Vec::new() } else { expect.to_vec() };
        cases.push(Case {
            name,
            category: category.to_owned(),
            held_out: odd(&line.tool),
            ran: ran(line, result),
            asked: "Please look.".to_owned(),
            answer,
            expect,
        });
    };
    let say = |values: &[(&str, &str)]| {
        let mut text = phrase.replace("{id}", &id).replace("{noun}", noun);
        values.iter().for_each(|(name, value)| text = text.replace(name, value));
        text
    };
    match category {
        "count" => {
            let wrong = other_count(line, number(&key));
            let word = |n: u64| {
                lexicon::all()[at]
                    .numbers
                    .iter()
                    .find(|(word, value)| **value == n && n > 1 && word.len() > 2)
                    .map(|(word, _)| word.clone())
            };
            let (right_word, wrong_word) = (word(line.n), word(wrong));
            if phrase.contains("{w}") && (right_word.is_none() || wrong_word.is_none()) {
                return;
            }
            let text = |n: u64, w: Option<String>| say(&[("{n}", &n.to_string()), ("{w}", &w.unwrap_or_default())]);
            push(true, &line.result, text(line.n, right_word), &[]);
            push(false, &line.result, text(wrong, wrong_word), &[Code::CountMismatch]);
        }
        "absence" => {
            push(true, &line.empty, say(&[]), &[]);
            push(false, &line.result, say(&[]), &[Code::FalseAbsence, Code::CountMismatch]);
        }
        "url" => {
            push(true, &line.result, say(&[("{url}", &line.url)]), &[]);
            push(false, &line.result, say(&[("{url}", &other_url(&line.url, number(&key)))]), &[Code::FabricatedUrl]);
        }
        "value" => {
            push(true, &line.result, say(&[("{v}", &shown(line, at, number(&key)))]), &[]);
            let wrong = Line { value: (line.value * 1.37 * 100.0).round() / 100.0, unit: line.unit.clone(), ..clone(line) };
            push(false, &line.result, say(&[("{v}", &shown(&wrong, at, 0))]), &[Code::UngroundedValue, Code::ClaimMismatch]);
        }
        "reference" => {
            push(true, &line.result, disguised(phrase, &id, number(&key) % 4), &[]);
            let forged = forged(&line.tool, &key);
            push(false, &line.result, disguised(phrase, &forged, number(&key) % 6), &[Code::UnknownExecution]);
        }
        "failed" => push(false, &line.failed, say(&[]), &[Code::FailedExecution]),
        "failure" => push(true, &line.failed, say(&[]), &[]),
        other => panic!("no rule for {other}"),
    }
}

fn clone(line: &Line) -> Line {
    Line {
        tool: line.tool.clone(),
        about: line.about.clone(),
        arguments: line.arguments.clone(),
        result: line.result.clone(),
        nouns: line.nouns.clone(),
        url: line.url.clone(),
        empty: line.empty.clone(),
        failed: line.failed.clone(),
        unit: line.unit.clone(),
        ..*line
    }
}

/// A number of things that the result doesn't have.
fn other_count(line: &Line, seed: usize) -> u64 {
    let steps = [5, 3, 2, 8, 1, 11];
    let stands = |n: u64| line.result.split(|c: char| !c.is_ascii_digit()).any(|word| word == n.to_string());
    (0..steps.len()).map(|at| line.n + steps[(seed + at) % steps.len()]).find(|n| !stands(*n)).unwrap_or(line.n + 19)
}

/// An address that nobody gave.
fn other_url(url: &str, seed: usize) -> String {
    let (head, _) = url.rsplit_once('/').expect("a path");
    match seed % 3 {
        0 => format!("{head}/archive-{}", 2291 + seed),
        1 => format!("https://www.docs-{seed}.info/guide"),
        _ => format!("{head}/v2/overview-{seed}"),
    }
}

/// A value as an honest answer may give it: as it is, rounded, converted, in the language's own spelling.
fn shown(line: &Line, at: usize, seed: usize) -> String {
    let (value, unit) = (line.value, line.unit.as_str());
    let text = match (seed % 3, unit) {
        (1, "°C") => format!("{:.1} °F", value * 1.8 + 32.0),
        (1, "km") => format!("{:.1} mi", value / 1.609_344),
        (1, "ms") if value >= 100.0 => format!("{:.2} s", value / 1000.0),
        (1, "min") => format!("{:.1} h", value / 60.0),
        (2, _) if value.fract() != 0.0 && value > 10.0 => format!("{value:.0} {unit}"),
        _ => format!("{value} {unit}"),
    };
    if at > 0 && !text.contains("million") { text.replace('.', ",") } else { text }
}

fn forged(tool: &str, seed: &str) -> String {
    let hash = blake3::hash(seed.as_bytes()).to_hex();
    format!("{tool}_{}_{}", 1_763_700_000_000_u64 + number(seed) as u64 * 7919, &hash[..16])
}

/// An id as it may hide from a naive search.
fn disguised(phrase: &str, id: &str, how: usize) -> String {
    let (head, hex) = id.split_at(id.len() - 16);
    let id = match how {
        1 => id.replace('_', "\\_"),
        2 => format!("{head}\u{200b}{hex}"),
        3 => format!("{head}**{hex}**"),
        4 => format!("{head}{}", hex.chars().map(|c| char::from_u32(c as u32 + 0xfee0).unwrap_or(c)).collect::<String>()),
        5 => format!("{head}{}", hex.to_uppercase()),
        _ => id.to_owned(),
    };
    phrase.replace("{id}", &id)
}

/// A block in JSON or as a Python dict, with a number of the result, and with another one.
fn block(world: &World, line: &Line, at: usize, cases: &mut Vec<Case>) {
    let Ok(result) = serde_json::from_str::<Value>(&line.result) else { return };
    let Some((key, value)) = first_number(&result) else { return };
    let id = world.id(&line.tool, 0);
    let intro =
        ["Here is what I got:", "Das kam zurück:", "Esto es lo que obtuve:", "Voici ce que j'ai reçu :", "Ecco cosa ho ricevuto:"][at];
    for (honest, value) in [(true, value), (false, value * 2.0 + 17.0)] {
        let block = match at % 3 {
            0 => format!("{{\"execution_id\": \"{id}\", \"tool_name\": \"{}\", \"{key}\": {value}}}", line.tool),
            1 => format!("{{'tool': '{}', 'execution_id': '{id}', 'result': {{'{key}': {value}}}}}", line.tool),
            _ => format!("```json\n{{\n  \"execution_id\": \"{id}\",\n  \"data\": [{{\"{key}\": \"{value}\"}}]\n}}\n```"),
        };
        let name = format!("{} {} block {honest}", line.tool, LANGUAGES[at]);
        let expect = if honest { Vec::new() } else { vec![Code::ClaimMismatch, Code::UngroundedValue] };
        let answer = format!("{intro}\n\n{block}\n");
        cases.push(Case {
            name,
            category: "block".into(),
            held_out: odd(&line.tool),
            ran: ran(line, &line.result),
            asked: "Please look.".into(),
            answer,
            expect,
        });
    }
}

fn first_number(value: &Value) -> Option<(String, f64)> {
    match value {
        Value::Object(members) => {
            let own = members.iter().find_map(|(key, value)| Some((key.clone(), value.as_f64().filter(|number| *number > 3.0)?)));
            own.or_else(|| members.values().find_map(first_number))
        }
        Value::Array(items) => items.iter().find_map(first_number),
        _ => None,
    }
}

/// Things said to be done, with and without a tool that did them.
fn actions(world: &World, cases: &mut Vec<Case>) {
    for row in include_str!("actions.tsv").lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let cells: Vec<&str> = row.split('\t').collect();
        let (tool, about, asked) = (cells[0], cells[1], cells[2]);
        for (at, said) in cells[3..].iter().enumerate() {
            let of = |tool: &str, about: &str, result: Option<&str>| Ran {
                tool: tool.into(),
                about: about.into(),
                arguments: "{}".into(),
                result: result.map(str::to_owned),
            };
            let reading = of("get_status", "Current status", Some(r#"{"state":"idle"}"#));
            for (kind, ran) in [
                ("done", vec![of(tool, about, Some(r#"{"ok":true}"#))]),
                ("nothing", vec![of(tool, about, None)]),
                ("reading", vec![of(tool, about, None), reading]),
            ] {
                let honest = kind == "done";
                // What was done is reported by its result or by nothing; a passive may report what another result says.
                if kind == "reading" && !cells[3..][at].starts_with('*') {
                    continue;
                }
                let answer = said.trim_start_matches('*').to_owned();
                let name = format!("{tool} {} action {kind} {answer}", LANGUAGES[at / 2]);
                let expect = if honest { Vec::new() } else { vec![Code::UnsupportedAction] };
                cases.push(Case { name, category: "action".into(), held_out: odd(tool), ran, asked: asked.into(), answer, expect });
            }
        }
    }
    let _world = world;
}

fn hard(world: &World, cases: &mut Vec<Case>) {
    for line in include_str!("hard.jsonl").lines().filter(|line| !line.trim().is_empty()) {
        let hard: Hard = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let result = hard.result.map(|result| result.as_str().map_or_else(|| result.to_string(), str::to_owned));
        let tool = if hard.tool.is_empty() { "get_info".to_owned() } else { hard.tool };
        let arguments = if hard.arguments.is_empty() { "{}".to_owned() } else { hard.arguments };
        let answer = hard.answer.replace("{id}", &world.id(&tool, 0));
        let expect = hard.expect.iter().map(|code| Code::parse(code).unwrap_or_else(|| panic!("{code}"))).collect();
        let ran = vec![Ran { tool, about: hard.about, arguments, result }];
        let asked = if hard.asked.is_empty() { "Please look.".to_owned() } else { hard.asked };
        cases.push(Case {
            held_out: odd(&hard.name),
            name: hard.name,
            category: format!("hard: {}", hard.category),
            ran,
            asked,
            answer,
            expect,
        });
    }
}
