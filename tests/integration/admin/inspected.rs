//! Exchanges as the inspector shows them: lists, timelines, who may see bodies, what another policy would have said.

use std::path::Path;

use serde_json::{Value, json};

use super::stage::{Stage, get, get_as, send};
use crate::{harness::Answer, program::until};

const OPEN: &str = "bodies = \"everyone\"\n";
const TOKENS: [(&str, &str); 2] = [("TOOLMARK_ADMIN_TOKEN", "s3cret"), ("TOOLMARK_ADMIN_READ_TOKEN", "r3ader")];
const ADMIN: [(&str, &str); 1] = [("authorization", "Bearer s3cret")];
const READER: [(&str, &str); 1] = [("authorization", "Bearer r3ader")];

fn timeline_as(stage: &Stage, answer: &Answer, headers: &[(&str, &str)]) -> Value {
    let url = stage.url(&format!("/api/exchanges/{}/timeline", answer.header("toolmark-exchange")));
    // The record is made behind the answer.
    until("the timeline", || {
        let found = get_as(&url, headers);
        (found.status == 200).then(|| found.json())
    })
}

fn timeline(stage: &Stage, answer: &Answer) -> Value {
    timeline_as(stage, answer, &[])
}

fn ids(page: &Value) -> Vec<&str> {
    page["data"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap()).collect()
}

#[test]
fn a_repaired_call_is_told_from_beginning_to_end() {
    let stage = Stage::new("default", OPEN);
    let called = stage.repaired("abc");
    let shown = timeline(&stage, &called);
    assert_eq!((&shown["kept"], &shown["bodies"], &shown["cut"]), (&json!("memory"), &json!(true), &json!(false)), "{shown}");
    assert!(shown["request"]["body"].as_str().unwrap().contains("Weather?") && shown["request"]["line"] == "POST /v1/chat/completions");
    let [first, second] = &shown["attempts"].as_array().unwrap()[..] else { panic!("{shown}") };
    let call = &first["calls"][0];
    assert_eq!(
        (&call["tool"], &call["outcome"], &call["arguments"]),
        (&json!("fetch_weather"), &json!("rejected"), &json!("{\"city\":\"Paris\"}"))
    );
    let finding = &call["findings"][0];
    assert_eq!(
        (&finding["code"], &finding["severity"], &finding["means"]),
        (&json!("unknown_tool"), &json!("block"), &json!("no tool of this name"))
    );
    assert!(
        finding["message"].as_str().unwrap().contains("fetch_weather") && finding["advice"].as_str().unwrap().contains("get_weather"),
        "{finding}"
    );
    let told = second["told"][0].as_str().unwrap();
    assert!(told.starts_with("Tool call rejected: fetch_weather\n- [unknown_tool]"), "{told}");
    let added = second["changes"].as_array().unwrap().iter().all(|change| change["before"].is_null());
    assert!(added && second["changes"].as_array().unwrap().len() == 2, "{second}");
    let right = &second["calls"][0];
    assert_eq!((&right["outcome"], right["mark"].is_string(), &right["findings"]), (&json!("accepted"), true, &json!([])));
    assert!(right["declared"].as_str().unwrap().contains("\"required\""), "{right}");
    assert_eq!((&shown["answer"]["status"], &shown["answer"]["calls"][0]["id"]), (&json!(200), &right["mark"]));

    let answered = timeline(&stage, &stage.answered(&called, "abc"));
    let execution = &answered["executions"][0];
    assert!(execution["tool"] == "get_weather" && answered["answer"]["text"] == "Sunny.", "{answered}");
    // The result was stamped on its way up.
    let change = &answered["attempts"][0]["changes"][0];
    assert!(
        change["at"] == "/messages/2/content" && change["after"].as_str().unwrap().contains(execution["id"].as_str().unwrap()),
        "{change}"
    );
}

#[test]
fn faults_are_marked_where_they_are() {
    let stage = Stage::new("default", OPEN);
    let marked = |answer: &Answer| timeline(&stage, answer)["attempts"][0].clone();
    let cited = marked(&stage.blocked());
    let (text, finding) = (cited["text"].as_str().unwrap(), &cited["findings"][0]);
    let [start, end] = [0, 1].map(|at| finding["span"][at].as_u64().unwrap() as usize);
    let words: String = text.chars().skip(start).take(end - start).collect();
    assert!(finding["code"] == "unknown_execution" && words.starts_with("get_weather_17000000"), "{cited}");
    let claimed = marked(&stage.claiming());
    assert_eq!(claimed["findings"][0]["code"], "unsupported_action", "{claimed}");
    assert_eq!(claimed["findings"][0]["span"][0], json!(0), "{claimed}");
    for (arguments, code, pointer) in [
        ("{}", "missing_required", ""),
        ("{\"city\":7}", "wrong_type", "/city"),
        ("{\"city\":\"Paris\",\"unit\":\"C\"}", "unknown_parameter", "/unit"),
        ("{\"city\":\"<city>\"}", "placeholder_value", "/city"),
        ("{\"city\":", "malformed_arguments", "-"),
    ] {
        let attempt = marked(&stage.calling(arguments));
        let finding = &attempt["calls"][0]["findings"][0];
        let found = finding["pointer"].as_str().unwrap_or("-");
        assert_eq!((finding["code"].as_str(), found), (Some(code), pointer), "{arguments}: {attempt}");
    }
}

#[test]
fn the_list_is_filtered_and_paged() {
    let stage = Stage::new("default", OPEN);
    // Exchanges are listed in the order in which they end, which is behind their answers.
    let ended = |answer: Answer| {
        stage.exchange(&answer);
        answer
    };
    let repaired = ended(stage.repaired("first"));
    let blocked = ended(stage.blocked());
    let failed = ended(stage.failing());
    let id = |answer: &Answer| answer.header("toolmark-exchange").to_owned();
    let [repaired, blocked, failed] = [&repaired, &blocked, &failed].map(id);
    let list = |query: &str| get(&stage.url(&format!("/api/exchanges?{query}"))).json();
    let all = list("");
    assert_eq!(ids(&all), [&failed, &blocked, &repaired]);
    for (query, found) in [
        ("verdict=repaired", &[&repaired][..]),
        ("verdict=failed", &[&failed]),
        ("code=unknown_execution", &[&blocked]),
        ("tool=fetch_weather", &[&repaired]),
        ("session=first", &[&repaired]),
        ("model=m&session=s", &[&failed, &blocked]),
        ("model=other", &[]),
        ("text=FETCH", &[&repaired]),
        // In the body of the request.
        ("text=cite%21", &[&blocked]),
        ("until=2020-01-01T00:00:00Z", &[]),
    ] {
        assert_eq!(ids(&list(query)), found.iter().map(|id| id.as_str()).collect::<Vec<_>>(), "{query}");
    }
    let first = list("limit=2");
    let rest = list(&format!("limit=2&after={}", first["next"].as_str().unwrap()));
    assert_eq!((ids(&first).len(), ids(&rest), &rest["next"]), (2, vec![repaired.as_str()], &Value::Null));
    for (query, words) in [("verdict=block", "did you mean `blocked`?"), ("code=x", "is no code"), ("vredict=x", "did you mean `verdict`?")]
    {
        assert!(list(query)["error"]["message"].as_str().unwrap().contains(words), "{query}");
    }
}

#[test]
fn bodies_are_closed_without_a_token() {
    let bodies = "[ledger]\nstore = \"bodies\"\n";
    for (settings, environment, headers, reads) in [
        (bodies, &[][..], &[][..], false),
        (bodies, &TOKENS, &ADMIN, true),
        (bodies, &TOKENS, &READER, false),
        ("bodies = \"everyone\"\n[ledger]\nstore = \"bodies\"\n", &TOKENS, &READER, true),
        ("bodies = \"everyone\"\n[ledger]\nstore = \"bodies\"\n", &[], &[], true),
    ] {
        let stage = Stage::with_environment("default", settings, environment);
        let called = stage.repaired("abc");
        let answered = stage.answered(&called, "abc");
        timeline_as(&stage, &answered, headers);
        let shown = timeline_as(&stage, &called, headers);
        let text = shown.to_string();
        assert_eq!(
            (shown["bodies"].as_bool().unwrap(), text.contains("Paris"), text.contains("Weather?")),
            (reads, reads, reads),
            "{settings}: {shown}"
        );
        // What happened is told all the same.
        assert_eq!(
            (&shown["attempts"][0]["calls"][0]["outcome"], &shown["attempts"][0]["calls"][0]["findings"][0]["code"]),
            (&json!("rejected"), &json!("unknown_tool")),
            "{shown}"
        );
        let id = called.header("toolmark-exchange");
        let cassette = get_as(&stage.url(&format!("/api/exchanges/{id}/cassette")), headers);
        assert_eq!(cassette.status, if reads { 200 } else { 403 }, "{cassette:?}");
        until("the records", || {
            let executions = get_as(&stage.url("/api/executions"), headers).json();
            (!ids(&executions).is_empty()).then_some(())
        });
        for path in [
            format!("/api/exchanges/{id}"),
            "/api/executions".into(),
            "/api/violations".into(),
            "/api/refusals".into(),
            "/api/sessions/abc".into(),
        ] {
            let found = get_as(&stage.url(&path), headers);
            let quotes = ["Paris", "clear", "does not exist"].iter().any(|words| found.body.contains(words));
            assert_eq!((found.status, quotes), (200, reads), "{path}: {found:?}");
        }
    }
}

#[test]
fn readers_change_nothing() {
    let stage = Stage::with_environment("default", "", &TOKENS);
    for path in ["/api/loops/reset", "/api/ledger/verify", "/api/policy/what-if"] {
        let body = "{\"policy\":\"\"}";
        assert_eq!(send("POST", &stage.url(path), &READER, body).status, 403, "{path}");
        assert_eq!(send("POST", &stage.url(path), &[], body).status, 401, "{path}");
    }
    for (headers, role, bodies) in [(&ADMIN[..], "admin", true), (&READER, "read", false), (&[], "nobody", false)] {
        let own = get_as(&stage.url("/api/whoami"), headers).json();
        assert_eq!((own["role"].as_str(), own["bodies"].as_bool(), &own["needs_token"]), (Some(role), Some(bodies), &json!(true)));
    }
}

#[test]
fn what_if_tells_what_would_change() {
    let stage = Stage::new("default", "");
    let repaired = stage.repaired("a");
    let passing = stage.answered(&repaired, "a");
    stage.blocked();
    stage.exchange(&stage.failing());
    let what_if = |policy: &str| {
        let answer = send("POST", &stage.url("/api/policy/what-if"), &[], &json!({ "policy": policy }).to_string());
        (answer.status, answer.json())
    };
    let (status, same) = what_if("mode = \"enforce\"\n");
    assert_eq!((status, &same["data"], &same["changes"]), (200, &json!([]), &json!([])), "{same}");
    let (_, laxer) = what_if("[checks]\nunknown_execution = \"warn\"\n");
    let [row] = &laxer["data"].as_array().unwrap()[..] else { panic!("{laxer}") };
    assert_eq!((&row["before"], &row["after"]), (&json!("blocked"), &json!("warn")), "{laxer}");
    assert_eq!(laxer["changes"], json!([{"code": "unknown_execution", "before": "block", "after": "warn"}]));
    let (_, stricter) = what_if("[citations]\nrequire = true\n[checks]\nmissing_citation = \"block\"\n");
    let [row] = &stricter["data"].as_array().unwrap()[..] else { panic!("{stricter}") };
    assert_eq!(
        (&row["id"], &row["before"], &row["new"]),
        (&json!(passing.header("toolmark-exchange")), &json!("pass"), &json!(["missing_citation"]))
    );
    let (status, wrong) = what_if("mode = \"enforse\"\n");
    assert!(status == 400 && wrong["error"]["message"].as_str().unwrap().contains("enforse"), "{wrong}");
    let (status, foreign) = what_if("[tools]\nfiles = [\"/etc/passwd\"]\n");
    assert!(status == 400 && foreign["error"]["message"].as_str().unwrap().contains("tool files"), "{foreign}");
    assert_eq!(get(&stage.url("/api/policy")).json()["data"][0]["mode"], "enforce", "nothing was saved");
}

#[test]
fn the_policy_and_its_last_reload_are_told() {
    let stage = Stage::new("mode = \"enforce\"\n", "");
    let policy = || get(&stage.url("/api/policy")).json()["data"][0].clone();
    let first = policy();
    assert_eq!((&first["judges"], &first["reload"], &first["text"]), (&json!(["settings"]), &Value::Null, &json!("mode = \"enforce\"\n")));
    let check =
        |policy: &Value, code: &str| policy["checks"].as_array().unwrap().iter().find(|check| check["code"] == code).unwrap().clone();
    assert_eq!(check(&first, "unknown_tool")["severity"], "block");
    stage.write_policy("mode = \"observe\"\n[checks]\nunknown_tool = \"warn\"\n");
    stage.proxy.reload();
    let changed = policy();
    assert_eq!(changed["reload"]["changes"], json!([{"code": "unknown_tool", "before": "block", "after": "warn"}]), "{changed}");
    assert_eq!((&changed["reload"]["mode"], &changed["reload"]["before"]), (&json!(["enforce", "observe"]), &first["digest"]));
    stage.write_policy("mode = \"enforse\"\n");
    stage.proxy.reload();
    let failed = policy();
    assert!(failed["reload"]["error"].as_str().unwrap().contains("enforse") && failed["mode"] == "observe", "{failed}");
}

#[test]
fn sessions_refusals_upstreams_and_the_ledger_are_told() {
    let stage = Stage::new("default", &format!("{OPEN}[ledger]\nurl = \"sqlite:told.db\"\n"));
    let called = stage.repaired("a b/c");
    stage.exchange(&called);
    stage.exchange(&stage.answered(&called, "a b/c"));
    let sessions = get(&stage.url("/api/sessions")).json();
    assert_eq!((&sessions["data"][0]["session"], &sessions["data"][0]["exchanges"]), (&json!("a b/c"), &json!(2)));
    let session = get(&stage.url("/api/sessions/a%20b%2Fc")).json();
    let [first, second] = &session["data"].as_array().unwrap()[..] else { panic!("{session}") };
    assert_eq!((first["marks"].as_array().unwrap().len(), &second["verified"][0]["tool"]), (1, &json!("get_weather")), "{session}");
    let refused = get(&stage.url("/api/refusals")).json();
    assert_eq!((&refused["data"][0]["tool"], &refused["data"][0]["count"]), (&json!("fetch_weather"), &json!(1)));
    let upstreams = get(&stage.url("/api/upstreams")).json();
    assert_eq!((&upstreams["data"][0]["name"], &upstreams["data"][0]["breaker"]), (&json!("scripted"), &json!("closed")));
    assert_eq!(get(&stage.url("/api/ledger")).json()["verification"]["state"], "never");
    assert_eq!(send("POST", &stage.url("/api/ledger/verify"), &[], "").status, 200);
    let ended = until("the verification", || {
        let ledger = get(&stage.url("/api/ledger")).json();
        (ledger["verification"]["state"] == "ended").then_some(ledger)
    });
    let outcome = &ended["verification"]["outcome"];
    assert!(
        outcome["whole"] == true && outcome["records"] == 2 && ended["verification"]["of"] == 2 && ended["chains"][0]["records"] == 2,
        "{ended}"
    );
}

fn on_disk(directory: &Path) -> String {
    let files = std::fs::read_dir(directory).unwrap().map(|file| file.unwrap().path()).filter(|path| path.is_file());
    files.map(|path| String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned()).collect()
}

#[test]
fn nothing_of_a_body_is_on_disk_by_default() {
    for store in ["digests", "bodies"] {
        let stage = Stage::new("default", &format!("{OPEN}[ledger]\nstore = \"{store}\"\n"));
        let called = stage.repaired("abc");
        let shown = timeline(&stage, &called);
        assert!(shown["request"]["body"].as_str().unwrap().contains("Weather?"));
        stage.exchange(&called);
        let disk = on_disk(stage.directory());
        assert!(!disk.contains("Weather?"), "{store}");
        assert!(disk.contains("fetch_weather"), "the record itself is there");
        assert_eq!(disk.contains("Paris"), store == "bodies", "arguments, as ever");
    }
}

#[test]
fn whole_exchanges_outlive_the_process_and_no_secret_does() {
    const SECRET: &str = "sk-proj-ZZZZ0123456789abcdefABCDEF99";
    let directory = tempfile::tempdir().unwrap();
    let settings = format!("{OPEN}recent = 0\n[ledger]\nstore = \"bodies\"\n");
    let stage = Stage::in_directory(directory.path(), "default", &settings);
    let called = stage.with_secret(SECRET);
    let shown = until("the bodies in the ledger", || {
        let shown = timeline(&stage, &called);
        (shown["kept"] == "ledger").then_some(shown)
    });
    assert!(shown["request"]["body"].as_str().unwrap().contains("[redacted]") && shown["redactions"].as_u64().unwrap() > 0, "{shown}");
    assert_eq!(shown["attempts"][0]["calls"][0]["findings"][0]["code"], "unknown_tool");
    assert!(!shown.to_string().contains(SECRET));
    drop(stage);
    assert!(!on_disk(directory.path()).contains(SECRET));
    let again = Stage::in_directory(directory.path(), "default", &settings);
    assert_eq!(timeline(&again, &called), shown);
    // Kept exchanges are judged again, too.
    let trial = json!({"policy": "[calls]\nmax_repairs = 0\n"}).to_string();
    let answer = send("POST", &again.url("/api/policy/what-if"), &[], &trial).json();
    assert_eq!((&answer["judged"], &answer["data"][0]["after"]), (&json!(1), &json!("blocked")), "{answer}");
}

#[test]
fn the_ring_holds_as_many_as_are_asked_for() {
    let stage = Stage::new("default", &format!("{OPEN}recent = 1\n"));
    // The ring's order is that in which exchanges end, and they end behind their answers: the second begins when the first has ended.
    let first = stage.repaired("a");
    assert_eq!(timeline(&stage, &first)["kept"], "memory");
    let second = stage.repaired("a");
    stage.exchange(&second);
    assert_eq!((&timeline(&stage, &first)["kept"], &timeline(&stage, &second)["kept"]), (&json!("nowhere"), &json!("memory")));
    let none = Stage::new("default", &format!("{OPEN}recent = 0\n"));
    assert_eq!(timeline(&none, &none.repaired("a"))["kept"], "nowhere");
}

#[test]
fn streams_are_told_like_whole_answers() {
    let stage = Stage::new("default", OPEN);
    let answer = stage.streamed();
    let shown = timeline(&stage, &answer);
    assert_eq!((&shown["attempts"][0]["text"], &shown["answer"]["text"]), (&json!("It is sunny."), &json!("It is sunny.")), "{shown}");
    assert!(shown["attempts"][0]["response"].as_str().unwrap().starts_with("data: {"));
}
