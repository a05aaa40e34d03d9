//! `/metrics`: both formats, judged by Prometheus's own tool.

use std::{
    collections::HashSet,
    io::Write as _,
    process::{Command, Stdio},
};

use serde_json::Value;

use super::stage::{Stage, get, get_as};

#[test]
fn promtool_is_content() {
    let stage = Stage::new("default", "");
    let called = stage.repaired("s");
    stage.exchange(&stage.answered(&called, "s"));
    stage.exchange(&stage.blocked());
    stage.exchange(&stage.failing());
    let scraped = get(&stage.url("/metrics"));
    assert_eq!(scraped.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    let checked =
        Command::new("promtool").args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut checking =
        checked.unwrap_or_else(|error| panic!("promtool can't be run ({error}): install Debian's package `prometheus`, as .ci/run does"));
    checking.stdin.take().unwrap().write_all(scraped.body.as_bytes()).unwrap();
    let checked = checking.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&[checked.stdout, checked.stderr].concat()).into_owned();
    assert!(checked.status.success() && said.trim().is_empty(), "{said}\n{}", scraped.body);
}

#[test]
fn what_happened_is_counted() {
    let stage = Stage::new("default", "");
    let called = stage.repaired("s");
    let answers = [stage.answered(&called, "s"), stage.blocked(), stage.failing(), called];
    answers.iter().for_each(|answer| drop(stage.exchange(answer)));
    let accept =
        "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5";
    let scraped = get_as(&stage.url("/metrics"), &[("accept", accept)]);
    assert!(scraped.header("content-type").starts_with("application/openmetrics-text; version=1.0.0") && scraped.body.ends_with("# EOF\n"));
    for line in [
        r#"toolmark_requests_total{api="chat",stream="false",verdict="repaired"} 1"#,
        r#"toolmark_requests_total{api="chat",stream="false",verdict="blocked"} 1"#,
        r#"toolmark_requests_total{api="chat",stream="false",verdict="failed"} 1"#,
        r#"toolmark_repairs_total{outcome="mended"} 1"#,
        r#"toolmark_violations_total{code="unknown_tool",action="block"} 1"#,
        r#"toolmark_calls_total{tool="get_weather",outcome="accepted"} 1"#,
        r#"toolmark_calls_total{tool="other",outcome="rejected"} 1"#,
        r#"toolmark_executions_total{tool="get_weather",outcome="success"} 1"#,
        r#"toolmark_upstream_requests_total{upstream="scripted",status="5xx"} 3"#,
        r#"toolmark_overhead_seconds_count 4"#,
    ] {
        assert!(scraped.body.lines().any(|own| own == line), "{line}\n{}", scraped.body);
    }
    assert!(!scraped.body.contains("fetch_weather"), "an invented name became a label");
}

#[test]
fn the_grafana_dashboard_names_only_what_is_there() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/grafana.json");
    let dashboard: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let alert = "[[alerts]]\nname = \"a\"\nmetric = \"blocked\"\nthreshold = 5\nwindow = \"1m\"\nurl = \"http://127.0.0.1:9/\"\n";
    let stage = Stage::new("default", alert);
    stage.exchange(&stage.repaired("s"));
    let scraped = get(&stage.url("/metrics")).body;
    let there: HashSet<&str> =
        scraped.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split(['{', ' ']).next()).collect();
    let (mut expressions, mut open) = (Vec::new(), vec![&dashboard]);
    while let Some(value) = open.pop() {
        match value {
            Value::Object(members) => {
                expressions.extend(["expr", "query"].iter().filter_map(|name| members.get(*name)?.as_str()));
                open.extend(members.values());
            }
            Value::Array(items) => open.extend(items),
            _ => {}
        }
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let named: HashSet<&str> =
        expressions.iter().flat_map(|text| text.split(|c| !is_name(c))).filter(|word| word.starts_with("toolmark_")).collect();
    assert!(named.len() > 12, "{named:?}");
    for name in &named {
        assert!(there.contains(name), "{name} is no metric of toolmark's");
    }
    // Labels too: a query by a label that isn't there finds nothing.
    for expression in expressions.iter().filter(|text| text.contains("toolmark_")) {
        for label in expression.split("by (").skip(1).filter_map(|rest| rest.split(')').next()).flat_map(|list| list.split(", ")) {
            let metric = expression.split(|c| !is_name(c)).find(|word| word.starts_with("toolmark_")).unwrap();
            let has = |line: &&str| line.starts_with(&format!("{metric}{{")) && line.contains(&format!("{label}=\""));
            assert!(scraped.lines().any(|line| has(&line)), "{metric} has no label {label}: {expression}");
        }
    }
}
