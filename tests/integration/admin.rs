//! The admin listener, as operators and Prometheus meet it.

mod alerts;
mod browser;
mod dashboard;
mod feed;
mod inspected;
mod metrics;
mod openapi;
mod secrets;
pub mod stage;
mod statistics;
mod terminal;

use serde_json::{Value, json};

use stage::{CLAIM, Stage, get, get_as, send};

#[test]
fn what_happened_is_found() {
    let stage = Stage::new("default", "");
    let first = stage.repaired("abc");
    let answered = stage.answered(&first, "abc");
    let exchange = stage.exchange(&first);
    assert_eq!((&exchange["verdict"], &exchange["repairs"], &exchange["session"]), (&json!("repaired"), &json!(1), &json!("abc")));
    stage.exchange(&answered);

    let page = get(&stage.url("/api/executions?tool=get_weather&session=abc&since=1h&limit=10")).json();
    let [execution] = &page["data"].as_array().unwrap()[..] else { panic!("{page}") };
    assert_eq!((&execution["exchange"], &execution["failed"]), (&json!(answered.header("toolmark-exchange")), &Value::Null));
    assert!(execution["duration_ms"].as_u64().is_some() && page["next"].is_null(), "{page}");
    let id = execution["id"].as_str().unwrap();
    assert_eq!(get(&stage.url(&format!("/api/executions/{id}"))).json()["id"], json!(id));
    for nothing in ["/api/executions?tool=other", "/api/executions?session=abd", "/api/executions?until=2020-01-01T00:00:00Z"] {
        assert_eq!(get(&stage.url(nothing)).json(), json!({"data": [], "next": null}), "{nothing}");
    }

    let page = get(&stage.url("/api/violations?code=unknown_tool&tool=fetch_weather&model=m")).json();
    assert_eq!(page["data"][0]["severity"], "block", "{page}");
    assert_eq!(get(&stage.url("/api/violations?code=wrong_type")).json()["data"], json!([]));
}

#[test]
fn a_false_claim_is_shown_with_what_it_was_compared_with() {
    for (settings, found, expected) in [
        ("bodies = \"everyone\"\n", Value::Null, false),
        ("[ledger]\nstore = \"bodies\"\n", Value::Null, false),
        ("bodies = \"everyone\"\n[ledger]\nstore = \"bodies\"\n", json!(CLAIM), true),
    ] {
        let stage = Stage::new("default", settings);
        stage.exchange(&stage.claiming());
        let page = get(&stage.url("/api/violations?code=unsupported_action")).json();
        let row = &page["data"][0];
        assert_eq!((&row["certainty"], &row["found"], row["expected"].is_string()), (&json!("likely"), &found, expected), "{page}");
        assert_eq!((row["message"].is_string(), &row["execution"]), (expected, &Value::Null), "{page}");
    }
}

#[test]
fn pages_follow_each_other() {
    let stage = Stage::new("default", "");
    let mut all: Vec<String> = (0..5).map(|_| stage.exchange(&stage.repaired("s"))["id"].as_str().unwrap().to_owned()).collect();
    let (mut found, mut after) = (Vec::new(), String::new());
    loop {
        let page = get(&stage.url(&format!("/api/violations?limit=2{after}"))).json();
        let rows = page["data"].as_array().unwrap();
        assert!((1..=2).contains(&rows.len()), "{page}");
        found.extend(rows.iter().map(|row| row["exchange"].as_str().unwrap().to_owned()));
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    found.sort();
    all.sort();
    assert_eq!(found, all);
}

#[test]
fn what_is_refused() {
    let stage = Stage::new("default", "");
    for (path, status, code, words) in [
        ("/api/executions?tol=x", 400, "invalid_parameter", "unknown parameter `tol` (did you mean `tool`?)"),
        ("/api/executions?limit=5000", 400, "invalid_parameter", "1 to 1000"),
        ("/api/executions?after=nonsense", 400, "invalid_parameter", "`after` is no cursor"),
        ("/api/executions?since=yesterday", 400, "invalid_parameter", "is no time"),
        ("/api/violations?code=unknown_tols", 400, "invalid_parameter", "did you mean `unknown_tool`?"),
        ("/api/stats?window=soon", 400, "invalid_parameter", "no window"),
        ("/api/stats?windw=1h", 400, "invalid_parameter", "did you mean `window`?"),
        ("/api/exchanges/x", 400, "invalid_parameter", "is a UUID"),
        ("/api/exchanges/0193547d-f000-7000-8000-000000000000", 404, "not_found", "no such exchange"),
        ("/api/executions/nothing_1_2", 404, "not_found", "no such execution"),
        ("/api/events?x=1", 400, "invalid_parameter", "known: `kinds`"),
        ("/api/events?kinds=x", 400, "invalid_parameter", "`all` or `exchange`"),
        ("/v1/models", 404, "not_found", "/api/executions"),
    ] {
        let answer = get(&stage.url(path));
        let error = &answer.json()["error"];
        assert_eq!((answer.status, error["code"].as_str()), (status, Some(code)), "{path}: {answer:?}");
        assert!(error["message"].as_str().unwrap().contains(words), "{path}: {error}");
    }
    assert_eq!(send("POST", &stage.url("/api/stats"), &[], "").status, 405);
    assert_eq!(send("POST", &stage.url("/api/stats"), &[], "").header("allow"), "GET, HEAD");
    for (name, value) in [("host", "evil.example"), ("origin", "https://evil.example")] {
        let refused = get_as(&stage.url("/api/stats"), &[(name, value)]);
        assert_eq!((refused.status, &refused.json()["error"]["code"]), (403, &json!("host_not_allowed")), "{name}");
    }
}

#[test]
fn loops_can_be_reset() {
    let stage = Stage::new("default", "");
    let reset = |body: &str| send("POST", &stage.url("/api/loops/reset"), &[], body);
    assert_eq!(reset("").json(), json!({"reset": {"tool": null, "session": null}}));
    assert_eq!(reset("{\"tool\":\"get_weather\",\"session\":\"a\"}").json()["reset"]["tool"], "get_weather");
    assert_eq!(get(&stage.url("/api/stats")).json()["loops"]["resets"], 2);
    for (body, status) in [("{\"tol\":\"x\"}", 400), ("[", 400), (&*" ".repeat(17 << 10), 413)] {
        assert_eq!(reset(body).status, status);
    }
    assert!(get(&stage.url("/metrics")).body.contains("toolmark_loop_resets_total 2"));
}

#[test]
fn the_token_is_needed_where_there_is_one() {
    let stage = Stage::with_environment("default", "", &[("TOOLMARK_ADMIN_TOKEN", "s3cret")]);
    for path in ["/metrics", "/api/stats", "/api/executions", "/api/violations", "/api/events", "/api/executions/x"] {
        for headers in
            [&[][..], &[("authorization", "Bearer s3cre")], &[("authorization", "Bearer s3cret2")], &[("authorization", "s3cret")]]
        {
            let refused = get_as(&stage.url(path), headers);
            assert_eq!((refused.status, refused.header("www-authenticate")), (401, "Bearer"), "{path} {headers:?}");
        }
    }
    assert_eq!(send("POST", &stage.url("/api/loops/reset"), &[], "").status, 401);
    assert_eq!(get_as(&stage.url("/api/stats"), &[("authorization", "Bearer s3cret")]).status, 200);
    // Orchestrators' probes and the page itself need none, and tell nothing.
    assert_eq!(get(&stage.url("/healthz")).json(), json!({"status": "ok"}));
    assert_eq!(get(&stage.url("/readyz")).json(), json!({"ready": true}));
    assert!(get_as(&stage.url("/readyz"), &[("authorization", "Bearer s3cret")]).json()["parts"]["ledger"].is_object());
}

#[test]
fn parts_say_how_they_are() {
    let stage = Stage::new("mode = \"enforce\"\n", "");
    let parts = || get(&stage.url("/readyz")).json();
    let ready = json!({"state": "ready"});
    let said = parts();
    assert_eq!((&said["ready"], &said["parts"]), (&json!(true), &json!({"ledger": ready, "policy": ready, "upstreams": ready})));
    assert_eq!(said["details"]["upstreams"]["scripted"]["breaker"], "closed");
    stage.write_policy("mode = \"enforse\"\n");
    stage.proxy.reload();
    let said = parts();
    assert_eq!((&said["ready"], &said["parts"]["policy"]["state"]), (&json!(true), &json!("degraded")));
    assert!(said["parts"]["policy"]["why"].as_str().unwrap().contains("enforse"), "{said}");
    stage.write_policy("mode = \"observe\"\n");
    stage.proxy.reload();
    assert_eq!(parts()["parts"]["policy"], ready);
    for _ in 0..3 {
        stage.exchange(&stage.failing());
    }
    assert!(parts()["parts"]["upstreams"]["why"].as_str().unwrap().contains("`scripted` failed"), "{}", parts());
}
