//! `toolmark import` and `toolmark replay` over recorded traffic of real providers.

use std::{collections::BTreeSet, path::Path};

use serde_json::Value;
use toolmark::{
    cassette::{body::RecordedBody, format::RecordedExchange, reader},
    violation::{Code, Severity},
};

use crate::{
    program::{Finished, finish},
    wire,
};

/// Exchanges that the default policy and the strict one object to, by their `sha`: which codes. All are Groq's
/// `tool_use_failed`: a call that its own server refused, which toolmark would have had repaired; what the model would
/// have said then isn't recorded.
const BLOCKED: [(&str, &str); 4] = [
    ("a1f27ae3a5439280", "schema_violation"),
    ("4076cb6d752bd7f1", "schema_violation"),
    ("072c506497a218b8", "tool_choice_ignored"),
    ("e89617c3c3651644", "tool_choice_ignored"),
];
/// Codes at warn or above that are found elsewhere, by policy, and why that is right. `message_order`: real applications
/// do that, and the strict policy warns of it. Where nothing is enforced, a stream of Groq's that breaks off with such an
/// error is judged as far as it came: no call, no answer.
const WARNED: [(&str, &[&str]); 3] =
    [("default", &[]), ("strict", &["message_order"]), ("observe", &["empty_answer", "tool_choice_ignored"])];

/// The recorded traffic as a cassette; `None` where it isn't there.
fn imported(directory: &Path, more: &[&str]) -> Option<(Vec<Value>, Vec<RecordedExchange>)> {
    let sources = wire::recorded("exchanges.jsonl")?;
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/traffic/exchanges.jsonl");
    let arguments = [&["import", "exchanges", file.to_str().unwrap(), "-o", "traffic.jsonl"], more].concat();
    let finished = finish(&arguments, directory);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let (exchanges, notices) = reader::all(&directory.join("traffic.jsonl")).unwrap();
    assert!(notices.is_empty(), "{notices:?}");
    Some((sources, exchanges))
}

/// The `sha` of an exchange's source.
fn sha(exchange: &RecordedExchange) -> String {
    exchange.origin.as_ref().unwrap().rest["sha"].as_str().unwrap().to_owned()
}

fn text(body: Option<&RecordedBody>) -> String {
    body.map_or_else(String::new, |body| body.text().unwrap())
}

#[test]
fn recorded_traffic_is_imported_without_loss() {
    let directory = tempfile::tempdir().unwrap();
    let Some((sources, exchanges)) = imported(directory.path(), &["--keep-credentials"]) else { return };
    assert_eq!(exchanges.len(), sources.len());
    for (source, exchange) in sources.iter().zip(&exchanges) {
        let (request, response) = (&exchange.downstream.request, exchange.attempts[0].response.as_ref().unwrap());
        let mut whole = exchange.origin.as_ref().unwrap().rest.as_object().unwrap().clone();
        let headers = response.headers.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str())));
        whole.insert("method".into(), request.method.as_str().into());
        whole.insert("url".into(), request.url.as_str().into());
        whole.insert("request_body".into(), serde_json::from_str(&text(request.body.as_ref())).unwrap());
        whole.insert("status".into(), response.status.into());
        whole.insert("response_headers".into(), headers.collect::<serde_json::Map<_, _>>().into());
        whole.insert("response_body".into(), text(response.body.as_ref()).into());
        assert_eq!(Value::Object(whole), *source);
    }
}

#[test]
fn recorded_traffic_under_every_policy() {
    let directory = tempfile::tempdir().unwrap();
    let Some((_, exchanges)) = imported(directory.path(), &[]) else { return };
    for (policy, warned) in WARNED {
        let arguments = ["replay", "traffic.jsonl", "--policy", policy, "--strict", "--json", "--junit", "out.xml"];
        let Finished { code, stdout, stderr } = finish(&arguments, directory.path());
        let report: Value = serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stdout} {stderr}"));
        assert_eq!(report["exchanges"], exchanges.len());
        let blocked = report["differences"].as_array().unwrap().iter().map(|difference| {
            let exchange = exchanges.iter().find(|exchange| exchange.id == difference["id"].as_str().unwrap()).unwrap();
            (sha(exchange), difference["after"]["violations"][0]["code"].as_str().unwrap().to_owned())
        });
        let blocked: BTreeSet<(String, String)> = blocked.collect();
        let expected = BLOCKED.iter().filter(|_| policy != "observe").map(|(sha, code)| ((*sha).to_owned(), (*code).to_owned()));
        assert_eq!(blocked, expected.collect(), "{policy}");
        assert_eq!(code, Some(i32::from(!blocked.is_empty())), "{policy}");
        let found = |code: &Value| Code::parse(code.as_str().unwrap()).unwrap();
        let severity = |code: Code| if policy == "strict" { code.strict_severity() } else { code.default_severity() };
        let codes =
            report["codes"].as_array().unwrap().iter().map(|row| found(&row["code"])).filter(|code| severity(*code) >= Severity::Warn);
        let others: BTreeSet<&str> = codes.map(Code::as_str).filter(|code| blocked.iter().all(|(_, own)| own != code)).collect();
        assert_eq!(others, warned.iter().copied().collect(), "{policy}");
        junit(directory.path(), exchanges.len(), blocked.len());
    }
}

/// Python's own reader of XML, and the counts that every reader of JUnit goes by.
fn junit(directory: &Path, cases: usize, failures: usize) {
    let script = "import sys, xml.etree.ElementTree as tree\n\
        root = tree.parse('out.xml').getroot()\n\
        suites = root.findall('testsuite')\n\
        cases = root.findall('testsuite/testcase')\n\
        assert root.tag == 'testsuites' and all(case.get('name') and case.get('classname') for case in cases)\n\
        assert len({case.get('name') for case in cases}) == len(cases)\n\
        assert sum(int(suite.get('tests')) for suite in suites) == len(cases)\n\
        assert all(case.find('failure').get('message') for case in cases if case.find('failure') is not None)\n\
        print(len(cases), sum(int(suite.get('failures')) for suite in suites), sum(case.find('failure') is not None for case in cases))";
    let output = std::process::Command::new("python3").args(["-c", script]).current_dir(directory).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    assert_eq!(printed, format!("{cases} {failures} {failures}"), "{}", String::from_utf8_lossy(&output.stderr));
}
