//! The dashboard's page: whole in itself, and closed to what it doesn't bring.

use super::stage::{Stage, get};

#[test]
fn the_page_runs_only_its_own() {
    let stage = Stage::new("default", "");
    let page = get(&stage.url("/"));
    assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"));
    let policy = page.header("content-security-policy");
    assert!(policy.contains("default-src 'none'") && policy.contains("script-src 'sha256-") && !policy.contains("unsafe"), "{policy}");
    assert_eq!((page.header("x-frame-options"), page.header("x-content-type-options")), ("DENY", "nosniff"));
    // What the page asks for is there, and has the members that it shows.
    for path in ["/api/stats", "/api/stats?window=60s", "/api/stats?window=24h", "/api/violations?limit=25"] {
        assert_eq!(get(&stage.url(path)).status, 200, "{path}");
    }
    let stats = get(&stage.url("/api/stats")).json();
    for member in ["totals", "tools", "models", "codes", "invented", "failing", "hours"] {
        assert!(!stats[member].is_null() && page.body.contains(&format!("stats.{member}")) | (member == "hours"), "{member}: {stats}");
    }
}
