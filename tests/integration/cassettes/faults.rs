//! Faults on purpose: every kind is put in, logged, and caught or passed on as what it is.

use serde_json::{Value, json};
use toolmark::testing::{Proxy, Script};

use super::stage::Recording;
use crate::{clients::model::model, wire::Connection};

fn tools() -> Value {
    json!([{"type": "function", "function": {"name": "get_weather", "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": false}}}])
}

fn ask(stream: bool) -> Value {
    json!({"model": "m", "stream": stream, "tools": tools(), "messages": [{"role": "user", "content": "What is the weather in Paris?"}]})
}

fn proxy(kind: &str, more: &str) -> (Proxy, toolmark::testing::ScriptedUpstream) {
    let upstream = Script::new().call("get_weather", json!({"city": "Paris"})).start().unwrap();
    let faults = format!("[[faults]]\nkind = \"{kind}\"\n{more}");
    let proxy = Proxy::builder().upstream(&upstream).settings(&faults).start().unwrap();
    (proxy, upstream)
}

#[test]
fn what_a_model_may_do_is_caught_and_repaired() {
    for (kind, code) in
        [("unknown_tool", "unknown_tool"), ("malformed_arguments", "malformed_arguments"), ("forged_citation", "unknown_execution")]
    {
        for stream in [false, true] {
            let (proxy, upstream) = proxy(kind, "");
            let answer = proxy.chat(&ask(stream)).unwrap();
            let verdict = (answer.verdict(), answer.violations());
            // The fault's sentence may report an act: it is held until it has ended, and repaired in a stream too.
            let expected = "repaired";
            assert_eq!(verdict, (expected.to_owned(), vec![code.to_owned()]), "{kind} {stream}: {}", answer.body);
            assert_eq!(upstream.received().len(), 1, "the model itself was asked for the repair only");
            assert!(answer.body.contains("Paris"), "{}", answer.body);
        }
        let (proxy, upstream) = proxy(kind, "repairs = true");
        assert_eq!(proxy.chat(&ask(false)).unwrap().verdict(), "blocked");
        assert!(upstream.received().is_empty());
    }
}

#[test]
fn what_an_upstream_may_do_is_told() {
    let (slow, _upstream) = proxy("429", "repairs = true");
    let answer = slow.chat(&ask(false)).unwrap();
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (429, &json!("rate_limit_exceeded")));
    let (dropped, _upstream) = proxy("dropped_stream", "");
    let answer = dropped.chat(&ask(true)).unwrap();
    assert_eq!(answer.events().last().unwrap()["error"]["code"], "upstream_protocol", "{}", answer.body);
    assert!(!answer.whole, "the connection breaks off behind the error");
    let (wrong, _upstream) = proxy("wrong_id", "");
    let answer = wrong.chat(&ask(false)).unwrap();
    assert!(crate::wire::is_mark(answer.json()["choices"][0]["message"]["tool_calls"][0]["id"].as_str().unwrap()), "{}", answer.body);
    let (slow, _upstream) = proxy("slow_stream", "");
    assert_eq!(slow.chat(&ask(true)).unwrap().verdict(), "pass");
}

#[test]
fn off_unless_the_dice_fall_so_and_recorded_where_they_do() {
    let (never, upstream) = proxy("unknown_tool", "probability = 0.0");
    assert_eq!(never.chat(&ask(false)).unwrap().verdict(), "pass");
    assert_eq!(upstream.received().len(), 1);
    let recording = Recording::start("default", "[[faults]]\nkind = \"unknown_tool\"\nprobability = 0.5\nseed = 11\n", "", model);
    let mut connection = Connection::open(recording.proxy.address());
    let verdicts: Vec<String> = (0..12).map(|_| connection.chat(&ask(false).to_string()).verdict().0).collect();
    let (_directory, exchanges) = recording.end();
    for (verdict, exchange) in verdicts.iter().zip(&exchanges) {
        let faulty = exchange.attempts[0].fault.as_deref() == Some("unknown_tool");
        assert_eq!(verdict, if faulty { "repaired" } else { "pass" });
    }
    assert!(verdicts.iter().any(|verdict| verdict == "pass") && verdicts.iter().any(|verdict| verdict == "repaired"), "{verdicts:?}");
}

#[test]
fn loudly() {
    use crate::program::{Running, command};
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(
        directory.path().join("toolmark.toml"),
        "[[upstreams]]\nname = \"x\"\nbase_url = \"http://127.0.0.1:9/v1\"\n[ledger]\nurl = \"memory:\"\n[[faults]]\nkind = \"429\"\nprobability = 0.25\n",
    )
    .unwrap();
    let mut serving = Running::start(command(&["serve", "--listen", "127.0.0.1:0"], directory.path()));
    let line = serving.line_with("FAULTS ARE ON");
    assert!(line.contains("WARN") && line.contains("429") && line.contains("0.25"), "{line}");
    serving.signal("TERM");
    assert_eq!(serving.end().code, Some(0));
}
