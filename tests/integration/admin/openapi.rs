//! The document at `/api/openapi.json` against the answers: each path is asked, and each answer fits its schema.

use serde_json::{Value, json};

use super::stage::{Stage, get, get_as, send};

/// Checks a value against the schema of an answer in the document.
fn check(document: &Value, path: &str, method: &str, status: &str, value: &Value) {
    let schema = &document["paths"][path][method]["responses"][status]["content"]["application/json"]["schema"];
    assert!(schema.is_object(), "{path} has no schema for {status}");
    let mut whole = schema.clone();
    whole["components"] = document["components"].clone();
    let errors: Vec<String> =
        jsonschema::validator_for(&whole).unwrap().iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "{method} {path}: {errors:#?}\n{value}");
}

#[test]
fn answers_fit_the_document() {
    let settings = "bodies = \"everyone\"\n[ledger]\nurl = \"sqlite:api.db\"\nstore = \"bodies\"\n";
    let stage = Stage::new("mode = \"enforce\"\n", settings);
    let called = stage.repaired("abc");
    let answered = stage.answered(&called, "abc");
    for answer in [&called, &answered, &stage.blocked(), &stage.claiming(), &stage.failing(), &stage.calling("{}"), &stage.streamed()] {
        stage.exchange(answer);
    }
    stage.write_policy("mode = \"observe\"\n[checks]\nunknown_tool = \"warn\"\n");
    stage.proxy.reload();
    let document = get(&stage.url("/api/openapi.json")).json();
    let executions = get(&stage.url("/api/executions")).json();
    let execution = executions["data"][0]["id"].as_str().unwrap();
    let mut asked = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            let ids: Vec<String> = match path.as_str() {
                path if path.contains("/exchanges/{id}") => {
                    [&called, &answered].map(|answer| answer.header("toolmark-exchange").to_owned()).to_vec()
                }
                path if path.contains("/executions/{id}") => vec![execution.to_owned()],
                _ => vec!["abc".to_owned()],
            };
            for id in ids {
                let url = stage.url(&path.replace("{id}", &id).replace("{name}", &id));
                match (method.as_str(), path.as_str()) {
                    // No end, and no JSON.
                    ("get", "/api/events") => continue,
                    ("get", "/api/exchanges/{id}/cassette") => {
                        let cassette = get(&url);
                        assert!(
                            cassette.status == 200
                                && cassette.header("content-type") == "application/jsonl"
                                && cassette.body.starts_with("{\"cassette\":1,")
                        );
                    }
                    ("get", _) => {
                        let answer = get(&url);
                        assert_eq!(answer.status, 200, "{url}: {answer:?}");
                        check(&document, path, method, "200", &answer.json());
                    }
                    (_, _) => {
                        let body = if path.ends_with("what-if") { json!({"policy": "[calls]\nmax_repairs = 0\n"}) } else { json!({}) };
                        let answer = send("POST", &url, &[], &body.to_string());
                        assert_eq!(answer.status, 200, "{url}: {answer:?}");
                        check(&document, path, method, "200", &answer.json());
                    }
                }
                asked += 1;
            }
        }
    }
    assert!(asked >= 19, "{asked}");
    // What the check is worth: the same answer with a member that isn't described.
    let mut wrong = get(&stage.url("/api/whoami")).json();
    check(&document, "/api/whoami", "get", "200", &wrong);
    wrong["more"] = json!(1);
    let caught = std::panic::catch_unwind(|| check(&document, "/api/whoami", "get", "200", &wrong));
    assert!(caught.is_err());
}

#[test]
fn roles_are_those_of_the_document() {
    let stage = Stage::with_environment("default", "", &[("TOOLMARK_ADMIN_TOKEN", "s3cret"), ("TOOLMARK_ADMIN_READ_TOKEN", "r3ader")]);
    let document = get(&stage.url("/api/openapi.json")).json();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let url = stage.url(&path.replace("{id}", "0193547d-f000-7000-8000-000000000000").replace("{name}", "x"));
            let role = operation["x-role"].as_str().unwrap();
            let ask = |token: &str| {
                let authorization = format!("Bearer {token}");
                if method == "post" {
                    send("POST", &url, &[("authorization", &authorization)], "{").status
                } else if path == "/api/events" && token != "wrong" {
                    // It would not end.
                    200
                } else {
                    get_as(&url, &[("authorization", &authorization)]).status
                }
            };
            let (wrong, reader, admin) = (ask("wrong"), ask("r3ader"), ask("s3cret"));
            assert_eq!(wrong == 401, role != "nobody", "{path}: {wrong}");
            assert_eq!(reader == 403, matches!(role, "admin" | "bodies"), "{path}: {reader}");
            assert!(!matches!(admin, 401 | 403), "{path}: {admin}");
        }
    }
}
