//! The statistics, over HTTP.

use serde_json::json;

use super::stage::{Stage, get};

#[test]
fn what_happened_adds_up() {
    let stage = Stage::new("default", "");
    let called = stage.repaired("s");
    let failed = stage.returned(&called, "s", "{\"error\":\"no such city\"}");
    let blocked = stage.blocked();
    for answer in [&called, &failed, &blocked] {
        stage.exchange(answer);
    }
    for path in ["/api/stats", "/api/stats?window=60s", "/api/stats?window=24h"] {
        let stats = get(&stage.url(path)).json();
        let totals = &stats["totals"];
        assert_eq!(
            (&totals["exchanges"], &totals["endings"]["repaired"], &totals["endings"]["blocked"]),
            (&json!(3), &json!(1), &json!(1)),
            "{stats}"
        );
        assert_eq!(totals["calls"], json!({"accepted": 1, "rejected": 1, "withheld": 0}));
        assert_eq!((&totals["executions"], &totals["failed_executions"], &totals["success_rate"]), (&json!(1), &json!(1), &json!(0.0)));
        assert_eq!((&totals["blocked_per_1000"], &totals["rejected_calls_per_1000"]), (&json!(333.3333), &json!(333.3333)));
        let repair_tokens = totals["repair_tokens"]["input"].as_u64().unwrap();
        assert!(repair_tokens >= 22 && repair_tokens.is_multiple_of(11), "{totals}");
        assert_eq!((&stats["tools"][0]["tool"], &stats["tools"][0]["failed"]), (&json!("get_weather"), &json!(1)));
        assert_eq!(stats["invented"], json!([{"name": "fetch_weather", "calls": 1}]));
        assert_eq!((&stats["failing"][0]["tool"], &stats["failing"][0]["failures"]), (&json!("get_weather"), &json!(1)));
        let unknown = stats["codes"].as_array().unwrap().iter().find(|row| row["code"] == "unknown_execution");
        assert!(unknown.is_some_and(|row| row["block"].as_u64() > Some(0)), "{stats}");
        assert_eq!(stats["models"][0]["model"], "m");
    }
}
