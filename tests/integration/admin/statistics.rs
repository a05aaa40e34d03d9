//! The statistics, over HTTP.

use serde_json::{Value, json};

use super::stage::{Stage, get};
use crate::program::finish;

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
        let [model, tool] = ["models", "tools"].map(|list| &stats[list][0]["duration_ms"]);
        assert!(model["p50"].as_u64() <= model["p99"].as_u64() && model["p99"].is_u64() && tool["p99"].is_u64(), "{stats}");
    }
}

#[test]
fn what_went_wrong_is_told_over_time() {
    let stage = Stage::new("default", "");
    for answer in [&stage.repaired("s"), &stage.repaired("s"), &stage.calling("{}"), &stage.claiming()] {
        stage.exchange(answer);
    }
    for (query, step_ms) in [("", 3_600_000), ("?window=72h", 3_600_000), ("?window=7d", 24 * 3_600_000_u64)] {
        let history = get(&stage.url(&format!("/api/failures{query}"))).json();
        assert_eq!(history["step_ms"], json!(step_ms));
        let find = |list: &str, name: &str, code: &str| {
            let all = history[list].as_array().unwrap();
            all.iter().find(|one| one["name"] == name && one["code"] == code).unwrap_or_else(|| panic!("{name} {code}: {history}")).clone()
        };
        let invented = find("tools", "fetch_weather", "unknown_tool");
        let blocked: u64 = invented["points"].as_array().unwrap().iter().map(|point| point["block"].as_u64().unwrap()).sum();
        assert_eq!((&invented["count"], blocked), (&json!(2), 2), "{history}");
        assert!(find("tools", "get_weather", "missing_required")["count"].as_u64() > Some(0));
        assert_eq!(find("models", "m", "unknown_tool")["count"], json!(2));
        // A claim is nobody's tool, but the model's.
        assert_eq!(find("models", "m", "unsupported_action")["points"][0]["warn"], json!(1));
    }
    assert_eq!(get(&stage.url("/api/failures?window=soon")).status, 400);
}

#[test]
fn the_terminal_shows_the_same() {
    let stage = Stage::new("default", "[ledger]\nurl = \"sqlite:stats.db\"\n");
    let called = stage.repaired("s");
    stage.exchange(&stage.returned(&called, "s", "{\"error\":\"no such city\"}"));
    let config = ["--config", "toolmark-under-test.toml"];
    let of_all = finish(&[&["stats"], &config[..]].concat(), stage.directory());
    assert_eq!(of_all.code, Some(0), "{of_all:?}");
    for words in [
        "exchanges          2: 1 pass, 0 warn, 1 repaired, 0 blocked",
        "get_weather",
        "fetch_weather",
        "unknown_tool",
        "Tools that fail now",
    ] {
        assert!(of_all.stdout.contains(words), "{words:?}:\n{}", of_all.stdout);
    }
    let of_minute = finish(&[&["stats", "--window", "60s", "--json"], &config[..]].concat(), stage.directory());
    let stats: Value = serde_json::from_str(&of_minute.stdout).unwrap_or_else(|error| panic!("{error}: {of_minute:?}"));
    assert_eq!((&stats["totals"]["exchanges"], &stats["complete"]), (&json!(2), &json!(true)));
    let served = get(&stage.url("/api/stats?window=60s")).json();
    assert_eq!((&stats["totals"], &stats["tools"]), (&served["totals"], &served["tools"]));
    let refused = finish(&["stats", "--window", "soon"], stage.directory());
    assert!(refused.code == Some(2) && refused.stderr.contains("--window"), "{refused:?}");
    std::fs::write(stage.directory().join("memory.toml"), "[ledger]\nurl = \"memory:\"\n").unwrap();
    let memory = finish(&["stats", "--config", "memory.toml"], stage.directory());
    assert!(memory.code == Some(2) && memory.stderr.contains("GET /api/stats"), "{memory:?}");
}
