//! `/metrics`: both formats, judged by Prometheus's own tool.

use std::{
    collections::HashSet,
    io::Write as _,
    process::{Command, Stdio},
};

use serde_json::Value;
use toolmark::testing::{BodyPart, Proxy, Received, ScriptedReply, ScriptedUpstream};

use super::stage::{Stage, get, get_as};
use crate::program::until;

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
    // Each is documented, under its name.
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/observability.md")).unwrap();
    let families: Vec<&str> = scraped
        .body
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
        .filter(|name| name.starts_with("toolmark_"))
        .collect();
    assert!(families.len() > 15, "{families:?}");
    for name in families {
        assert!(page.contains(&format!("`{name}`")), "docs/observability.md doesn't name {name}");
    }
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

/// What a histogram of seconds sums up to.
fn sum(body: &str, name: &str) -> Option<f64> {
    body.lines().find_map(|line| line.strip_prefix(&format!("{name}_sum ")))?.parse().ok()
}

/// Whoever leaves while the upstream thinks has waited for it, not for toolmark.
#[test]
fn waiting_that_a_client_ends_is_the_upstreams() {
    let first = "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"Well\"},\"finish_reason\":null}]}\n\n";
    for (api, stream) in [("chat/completions", false), ("chat/completions", true), ("responses", false)] {
        let directory = tempfile::tempdir().unwrap();
        let hanging = move |_: &Received| {
            if stream { ScriptedReply::events([first]).then(BodyPart::Hang) } else { ScriptedReply::json(200, "").then(BodyPart::Hang) }
        };
        let upstream = ScriptedUpstream::start(hanging).unwrap();
        let settings =
            format!("[[upstreams]]\nname = \"own\"\nbase_url = \"{}\"\n[admin]\nlisten = \"127.0.0.1:0\"\n", upstream.base_url());
        let proxy = Proxy::start(&settings, &[], directory.path()).unwrap();
        let body =
            serde_json::json!({"model": "m", "stream": stream, "messages": [{"role": "user", "content": "hi"}], "input": "hi"}).to_string();
        let mut connection = std::net::TcpStream::connect(proxy.address()).unwrap();
        let head = format!(
            "POST /v1/{api} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        connection.write_all(head.as_bytes()).unwrap();
        assert!(upstream.wait(1, 0));
        std::thread::sleep(std::time::Duration::from_millis(1500));
        drop(connection);
        let seconds = until("the exchange is counted", || {
            let body = get(&format!("{}/metrics", proxy.admin_url())).body;
            body.contains("toolmark_overhead_seconds_count 1").then(|| sum(&body, "toolmark_overhead_seconds")).flatten()
        });
        assert!(seconds < 0.75, "{api}, {stream}: {seconds} s of toolmark's own");
    }
}

/// Of every way in which an exchange fails, the header says what the log, the record and the metrics say.
#[test]
fn verdicts_on_errors_agree() {
    let hi = r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#;
    let tool = r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]}"#;
    let invented = r#"{"choices":[{"index":0,"message":{"role":"assistant","tool_calls":[{"id":"x","type":"function","function":{"name":"rm","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}"#;
    let unverified = r#"{"model":"m","messages":[{"role":"user","content":"hi"},{"role":"assistant","tool_calls":[{"id":"x","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"x","content":"1"}],"tools":[{"type":"function","function":{"name":"f"}}]}"#;
    let error = "[calls]\non_exhausted = \"error\"\nmax_repairs = 0\n";
    let own = |status: u16| ScriptedReply::json(status, r#"{"error":{"message":"no","type":"x","param":null,"code":"own"}}"#);
    for (name, policy, reply, request, status, verdict) in [
        ("an error of the upstream's", "default", own(401), hi, 401, "failed"),
        ("a limit of the upstream's", "default", own(429).header("retry-after", "0"), hi, 429, "failed"),
        ("an upstream that fails", "default", own(500), hi, 500, "failed"),
        ("an error with status 200", "default", ScriptedReply::json(200, r#"{"error":{"message":"no","code":400}}"#), hi, 400, "failed"),
        ("upstream_protocol: a redirect", "default", ScriptedReply::json(302, "").header("location", "/x"), hi, 502, "failed"),
        ("upstream_protocol: no JSON", "default", ScriptedReply::json(200, "<html>"), hi, 502, "failed"),
        ("upstream_protocol: no answer", "default", ScriptedReply::json(200, "{}"), hi, 502, "failed"),
        ("upstream_protocol: cut", "default", ScriptedReply::json(200, "{\"choices\":").then(BodyPart::Cut), hi, 502, "failed"),
        ("upstream_timeout", "default", ScriptedReply::json(200, "{").then(BodyPart::Hang), hi, 504, "failed"),
        ("a refused answer", error, ScriptedReply::json(200, invented), tool, 422, "blocked"),
        ("a refused request", "strict", own(500), unverified, 400, "blocked"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("p.toml"), if policy.contains('\n') { policy } else { "" }).unwrap();
        let upstream = ScriptedUpstream::start(move |_| reply.clone()).unwrap();
        let policy = if policy.contains('\n') { "p.toml" } else { policy };
        let settings = format!(
            "policy = \"{policy}\"\n[[upstreams]]\nname = \"own\"\nbase_url = \"{}\"\ntimeouts = {{ idle = \"1s\" }}\n[admin]\nlisten = \"127.0.0.1:0\"\n",
            upstream.base_url()
        );
        let proxy = Proxy::start(&settings, &[], directory.path()).unwrap();
        let answer =
            super::stage::send("POST", &format!("{}/chat/completions", proxy.base_url()), &[("content-type", "application/json")], request);
        assert_eq!((answer.status, answer.header("toolmark-verdict")), (status, verdict), "{name}: {}", answer.body);
        let counted = format!("toolmark_requests_total{{api=\"chat\",stream=\"false\",verdict=\"{verdict}\"}} 1");
        until(name, || get(&format!("{}/metrics", proxy.admin_url())).body.contains(&counted).then_some(()));
        let shown = until(name, || {
            let found = get(&format!("{}/api/exchanges/{}", proxy.admin_url(), answer.header("toolmark-exchange")));
            (found.status == 200).then(|| found.json())
        });
        assert_eq!(shown["status"], status, "{name}: {shown}");
        if verdict == "blocked" {
            assert_eq!(shown["verdict"], "blocked", "{name}: {shown}");
        }
    }
    // Nobody is there.
    let directory = tempfile::tempdir().unwrap();
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let settings = format!("[[upstreams]]\nname = \"own\"\nbase_url = \"http://{closed}/v1\"\n[admin]\nlisten = \"127.0.0.1:0\"\n");
    let proxy = Proxy::start(&settings, &[], directory.path()).unwrap();
    let answer = super::stage::send("POST", &format!("{}/chat/completions", proxy.base_url()), &[("content-type", "application/json")], hi);
    assert_eq!((answer.status, answer.header("toolmark-verdict")), (502, "failed"), "{}", answer.body);
    until("unreachable", || get(&format!("{}/metrics", proxy.admin_url())).body.contains("verdict=\"failed\"} 1").then_some(()));
}
