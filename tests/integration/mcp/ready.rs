//! A server that is down is reported at the start, in `/readyz` and in the log.

use serde_json::Value;
use toolmark::testing::Misbehaviour;

use super::{faults::until, stage::TODO, world::World};

/// What `/readyz` says.
fn readiness(admin: &str) -> (u16, Value) {
    let response = crate::harness::run(async { crate::harness::http_client().get(format!("{admin}/readyz")).send().await.unwrap() });
    let status = response.status().as_u16();
    (status, crate::harness::run(async { serde_json::from_str(&response.text().await.unwrap()).unwrap() }))
}

#[test]
fn readiness_names_the_server_that_is_down_and_says_when_it_is_back() {
    for (required, status, state) in [(true, 503, "down"), (false, 200, "degraded")] {
        let world = World::new();
        let settings = world.settings("[admin]\nlisten = \"127.0.0.1:0\"\n");
        let settings = if required { settings } else { settings.replace("required = true", "required = false") };
        let proxy = toolmark::testing::Proxy::start(&settings, &[], world.directory()).unwrap();
        let (code, report) = readiness(&proxy.admin_url());
        assert!(code == 200 && report["parts"]["mcp"]["state"] == "ready", "{report}");
        world.todo.becomes(Misbehaviour::Down);
        // It is looked at when a call fails.
        let app = proxy.app();
        let mcp = app.mcp.as_ref().unwrap();
        mcp.servers()[0].suspect();
        until(|| mcp.health()[0].down.is_some());
        let (code, report) = readiness(&proxy.admin_url());
        assert!(code == status && report["parts"]["mcp"]["state"] == state, "{required}: {code} {report}");
        assert!(report.to_string().contains("`todo`"), "{report}");
        world.todo.becomes(Misbehaviour::Fine);
        until(|| mcp.health()[0].down.is_none());
        assert_eq!(readiness(&proxy.admin_url()).1["parts"]["mcp"]["state"], "ready");
    }
}

#[test]
fn a_server_that_is_down_from_the_start_is_reported_too() {
    let world = World::new();
    world.todo.becomes(Misbehaviour::Down);
    let settings = world.settings("[admin]\nlisten = \"127.0.0.1:0\"\n");
    let error = toolmark::testing::Proxy::start(&settings, &[], world.directory()).err().unwrap().to_string();
    assert!(error.contains("`todo`") && error.contains("can't be reached"), "{error}");
    assert!(TODO.contains("required = true"));
    let settings = settings.replace("required = true", "required = false");
    let proxy = toolmark::testing::Proxy::start(&settings, &[], world.directory()).unwrap();
    let (code, report) = readiness(&proxy.admin_url());
    assert!(code == 200 && report["parts"]["mcp"]["state"] == "degraded" && report.to_string().contains("`todo` is down"), "{report}");
}
