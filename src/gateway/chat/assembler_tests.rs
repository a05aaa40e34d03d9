//! What upstreams make of calls, and what is made of that.

use super::*;
use crate::wire::json::Document;

fn joined(deltas: &[&str]) -> Vec<(String, String, String)> {
    let mut assembler = Assembler::new(1000);
    for delta in deltas {
        let document = Document::parse(bytes::Bytes::copy_from_slice(delta.as_bytes())).unwrap();
        assembler.handle(document.root(), |name| matches!(name, "f" | "g")).unwrap();
    }
    assembler.slots().iter().map(|slot| (slot.id.clone(), slot.name.clone(), format!("{:?}", slot.call().arguments))).collect()
}

fn check(deltas: &[&str], expected: &[(&str, &str, &str)]) {
    let expected: Vec<_> =
        expected.iter().map(|(id, name, arguments)| ((*id).to_owned(), (*name).to_owned(), (*arguments).to_owned())).collect();
    assert_eq!(joined(deltas), expected, "{deltas:?}");
}

#[test]
fn shapes() {
    let text = r#"Text("{\"a\":1}")"#;
    let f = |arguments: &str| format!(r#"[{{"index":0,"id":"x","type":"function","function":{{"name":"f","arguments":{arguments}}}}}]"#);
    let (head, half) = (f("\"\""), r#"[{"index":0,"function":{"arguments":"1}"}}]"#);
    check(&[&head, r#"[{"index":0,"function":{"arguments":"{\"a\":"}}]"#, half], &[("x", "f", text)]);
    // id and name repeated
    check(&[&f(r#""{\"a\":""#), &f("\"1}\"")], &[("x", "f", text)]);
    // all calls on index 0
    check(
        &[&f(r#""{\"a\":1}""#), r#"[{"index":0,"id":"y","function":{"name":"f","arguments":"{\"a\":1}"}}]"#],
        &[("x", "f", text), ("y", "f", text)],
    );
    // no index, no id
    check(
        &[
            r#"[{"function":{"name":"f","arguments":"{\"a\""}}]"#,
            r#"[{"function":{"arguments":":1}"}}]"#,
            r#"[{"function":{"name":"g","arguments":""}}]"#,
        ],
        &[("", "f", text), ("", "g", "Text(\"\")")],
    );
    // no index, ids repeated
    check(&[r#"[{"id":"x","function":{"name":"f","arguments":"{\"a\""}},{"id":"x","function":{"arguments":":1}"}}]"#], &[("x", "f", text)]);
    // name split
    check(
        &[r#"[{"index":0,"id":"x","function":{"name":"get_"}}]"#, r#"[{"index":0,"function":{"name":"x"}}]"#],
        &[("x", "get_x", "Absent")],
    );
    // two known tools without arguments on one index
    check(
        &[r#"[{"index":0,"function":{"name":"f"}}]"#, r#"[{"index":0,"function":{"name":"g"}}]"#],
        &[("", "f", "Absent"), ("", "g", "Absent")],
    );
    check(&[&f("null")], &[("x", "f", "Null")]);
    check(&[&f("{\"a\":1}")], &[("x", "f", r#"Object("{\"a\":1}")"#)]);
    check(&[r#"{"id":"x","name":"f","arguments":"{}"}"#], &[("x", "f", "Text(\"{}\")")]);
    // index 1 first
    check(&[r#"[{"index":1,"id":"y","function":{"name":"g"}}]"#, &f("\"{}\"")], &[("y", "g", "Absent"), ("x", "f", "Text(\"{}\")")]);
}

#[test]
fn extras_stay() {
    let mut assembler = Assembler::new(1000);
    for delta in
        [r#"[{"index":0,"id":"x","function":{"name":"f","z":1}}]"#, r#"[{"index":0,"extra_content":{"google":{"thought_signature":"s"}}}]"#]
    {
        let document = Document::parse(bytes::Bytes::from(delta)).unwrap();
        assembler.handle(document.root(), |_| true).unwrap();
    }
    let slot = &assembler.slots()[0];
    assert_eq!(slot.extras, [r#""extra_content":{"google":{"thought_signature":"s"}}"#]);
    assert_eq!(slot.inner_extras, [r#""z":1"#]);
}

/// Snowflake's answers have every member there is, empty where it says nothing.
#[test]
fn members_that_say_nothing() {
    let whole = r#"[{"custom":{"input":"","name":""},"function":{"arguments":"{}","name":"f"},"id":"x","type":"function"}]"#;
    check(&[whole], &[("x", "f", "Text(\"{}\")")]);
    let mut assembler = Assembler::new(10);
    for (call, slots) in [(r#"{"arguments":"","name":""}"#, 0), (r#"{"arguments":"{}","name":""}"#, 1)] {
        let document = Document::parse(bytes::Bytes::copy_from_slice(call.as_bytes())).unwrap();
        assembler.handle_legacy(document.root()).unwrap();
        assert_eq!(assembler.slots().len(), slots, "{call}");
    }
}

#[test]
fn refusals() {
    for delta in [
        "\"x\"",
        "[1]",
        r#"[{"function":{"name":"f"},"custom":{"name":"g"}}]"#,
        r#"[{"function":{"name":"f","arguments":"{}"},"arguments":"{}"}]"#,
        r#"[{"function":{"name":"f"},"name":"g"}]"#,
        r#"[{"function":{"name":"f","arguments":"{}","input":"x"}}]"#,
        r#"[{"id":"a","id":"b"}]"#,
        r#"[{"function":"f"}]"#,
        r#"[{"function":{"name":"a","name":"b"}}]"#,
    ] {
        let document = Document::parse(bytes::Bytes::copy_from_slice(delta.as_bytes())).unwrap();
        assert!(Assembler::new(10).handle(document.root(), |_| true).is_err(), "{delta}");
    }
    let long = format!(r#"[{{"function":{{"name":"f","arguments":"{}"}}}}]"#, "x".repeat(1001));
    assert!(joined(&[&long])[0].2.contains("held_bytes"));
}

#[test]
fn a_pair_of_surrogates_in_two_pieces() {
    let piece = |arguments: &str| format!(r#"[{{"index":0,"function":{{"name":"f","arguments":"{arguments}"}}}}]"#);
    let (open, rest) = (piece(r#"{\"a\":\"\ud83d"#), piece(r#"\ude00\"}"#));
    check(&[&open, &rest], &[("", "f", "Text(\"{\\\"a\\\":\\\"😀\\\"}\")")]);
    check(&[&open, &piece(r#""#), &rest], &[("", "f", "Text(\"{\\\"a\\\":\\\"😀\\\"}\")")]);
    // Half of one alone, in the middle and at the end; and what only looks like one.
    check(&[&open, &piece(r#"x"#)], &[("", "f", "Text(\"{\\\"a\\\":\\\"\u{fffd}x\")")]);
    check(&[&open], &[("", "f", "Text(\"{\\\"a\\\":\\\"\u{fffd}\")")]);
    check(&[&piece(r#"\\ud83d"#)], &[("", "f", r#"Text("\\ud83d")"#)]);
}

#[test]
fn an_id_that_changes_with_every_piece() {
    let piece = |id: &str, name: &str, arguments: &str| {
        format!(r#"[{{"index":0,"id":"{id}","type":"function","function":{{{name}"arguments":"{arguments}"}}}}]"#)
    };
    let text = r#"Text("{\"a\":1}")"#;
    for name in ["", r#""name":null,"#, r#""name":"","#] {
        let pieces = [piece("x", r#""name":"f","#, ""), piece("y", name, r#"{\"a\":"#), piece("z", name, "1}")];
        check(&[&pieces[0], &pieces[1], &pieces[2]], &[("x", "f", text)]);
    }
    let named = [piece("x", r#""name":"f","#, r#"{\"a\":"#), piece("y", r#""name":"f","#, "1}")];
    check(&[&named[0], &named[1]], &[("x", "f", text)]);
    // Two calls, and the second without arguments at first.
    let two = [piece("x", r#""name":"f","#, r#"{\"a\":1}"#), piece("y", r#""name":"f","#, ""), piece("y", "", r#"{\"a\":1}"#)];
    check(&[&two[0], &two[1], &two[2]], &[("x", "f", text), ("y", "f", text)]);
}
