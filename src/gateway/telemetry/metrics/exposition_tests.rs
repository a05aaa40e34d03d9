//! Records in, lines for Prometheus out.

use serde_json::json;

use super::*;
use crate::telemetry::stats::tests::record;

fn exposed() -> Exposition {
    let (metrics, samples) = (Arc::<Metrics>::default(), Arc::<MetricSources>::default());
    let executions = json!([{"id": "e", "tool": "get", "result": "0".repeat(64), "started_ms": 0, "seen_ms": 5, "failed": true}]);
    let call = |tool: &str, violations: &[&str]| json!({"attempt": 1, "tool": tool, "outcome": "rejected", "arguments": "0".repeat(64), "violations": violations});
    metrics.count(&record(
        3_600_000,
        json!({
            "stream": true, "verdict": "repaired", "repairs": 3, "executions": executions,
            "calls": [call("get", &["wrong_type"]), call("in\"vented", &["unknown_tool"])],
            "attempts": [{"upstream": "u", "model": "m", "status": 503, "duration_us": 7000}, {"upstream": "u", "model": "m\n", "duration_us": 1, "tokens": {"input": 3, "output": 4}}],
            "violations": [{"code": "wrong_type", "severity": "block", "attempt": 1}],
        }),
    ));
    samples.register(|| {
        vec![MetricFamily { values: vec![(vec![("part", "a".into())], 2.0)], ..MetricFamily::gauge("toolmark_depth", "How deep", 0.0) }]
    });
    samples.register(|| vec![MetricFamily::counter("toolmark_lost", "How many", 3)]);
    Exposition::new(metrics, samples)
}

#[test]
fn both_formats() {
    let exposed = exposed();
    let (openmetrics, text) = (exposed.openmetrics(), exposed.text());
    for line in [
        r#"toolmark_requests_total{api="chat",stream="true",verdict="repaired"} 1"#,
        r#"toolmark_requests_total{api="responses",stream="false",verdict="pass"} 0"#,
        r#"toolmark_violations_total{code="wrong_type",action="block"} 1"#,
        r#"toolmark_repairs_total{outcome="mended"} 1"#,
        r#"toolmark_repairs_total{outcome="rejected_again"} 2"#,
        r#"toolmark_calls_total{tool="get",outcome="rejected"} 1"#,
        r#"toolmark_calls_total{tool="other",outcome="rejected"} 1"#,
        r#"toolmark_executions_total{tool="get",outcome="error"} 1"#,
        r#"toolmark_tokens_total{model="m\n",attempt="first",type="output"} 4"#,
        r#"toolmark_upstream_requests_total{upstream="u",status="5xx"} 1"#,
        r#"toolmark_upstream_requests_total{upstream="u",status="none"} 1"#,
        r#"toolmark_upstream_seconds_bucket{le="0.005",upstream="u"} 1"#,
        r#"toolmark_upstream_seconds_count{upstream="u"} 2"#,
        r#"toolmark_overhead_seconds_bucket{le="0.001"} 1"#,
        r#"toolmark_overhead_seconds_bucket{le="+Inf"} 1"#,
        r#"toolmark_depth{part="a"} 2.0"#,
        "toolmark_lost_total 3.0",
    ] {
        for format in [&openmetrics, &text] {
            assert!(format.lines().any(|own| own == line), "{line}\n{format}");
        }
    }
    assert!(openmetrics.contains("# TYPE toolmark_requests counter\n") && openmetrics.ends_with("# EOF\n"));
    assert!(
        text.contains("# TYPE toolmark_requests_total counter\n")
            && text.contains("# HELP toolmark_requests_total ")
            && !text.contains("# EOF")
    );
    assert!(!openmetrics.contains("vented"), "an invented name became a label");
}
