//! The inspector's page: whole in itself, and closed to what it doesn't bring.

use super::stage::{Stage, get};

#[test]
fn the_page_runs_only_its_own() {
    let stage = Stage::new("default", "");
    for (path, kind) in [("/", "text/html"), ("/app.js", "text/javascript"), ("/app.css", "text/css")] {
        let file = get(&stage.url(path));
        assert_eq!((file.status, file.header("content-type")), (200, &*format!("{kind}; charset=utf-8")), "{path}");
        let policy = file.header("content-security-policy");
        assert!(policy.contains("default-src 'none'") && policy.contains("script-src 'self'") && !policy.contains("unsafe"), "{policy}");
        assert_eq!((file.header("x-frame-options"), file.header("x-content-type-options")), ("DENY", "nosniff"));
    }
}
