//! Tests of the JSON scanner.

use proptest::prelude::*;

use super::*;

fn check(text: &str) -> Result<Document, JsonError> {
    Document::parse(Bytes::copy_from_slice(text.as_bytes()))
}

#[test]
fn places() {
    let document = check(r#" {"a" : [1, {"b\u0063": "x\n"}, "é"], "d":-1.5e+3 , "e":{} }"#).unwrap();
    let root = document.root();
    assert_eq!(root.get("a").unwrap().items().count(), 3);
    let inner = root.get("a").unwrap().items().nth(1).unwrap();
    assert_eq!(inner.get("bc").unwrap().text().unwrap(), "x\n");
    assert_eq!(root.get("d").unwrap().raw(), b"-1.5e+3");
    assert_eq!(root.get("e").unwrap().members().count(), 0);
    assert_eq!(root.members().map(|m| m.name().into_owned()).collect::<Vec<_>>(), ["a", "d", "e"]);
}

#[test]
fn refusals() {
    for text in [
        "",
        "{",
        "[1,]",
        "{\"a\":1,}",
        "01",
        "1.",
        "+1",
        "nul",
        "\"\u{1}\"",
        "\"\\x\"",
        "{\"a\" 1}",
        "1 2",
        "'a'",
        "\"\\u12g4\"",
        "{a:1}",
        "[1}",
        "NaN",
        "-",
        "\"abc",
    ] {
        assert!(matches!(check(text), Err(JsonError::Syntax(_))), "{text:?}");
    }
    assert_eq!(check(&"[".repeat(100_000)).unwrap_err(), JsonError::TooDeep);
    assert!(check(&format!("{}{}", "[".repeat(127), "]".repeat(127))).is_ok());
    assert!(matches!(Document::parse(Bytes::from_static(b"\"\xff\"")), Err(JsonError::Utf8(1))));
}

proptest! {
    #[test]
    fn no_duplicate_is_overlooked(names in prop::collection::vec("[a-d]{0,3}|[a-z_]{1,9}|\\\\u006[1-4]", 0..30)) {
        let members: Vec<String> = names.iter().enumerate().map(|(at, name)| format!("\"{name}\":{at}")).collect();
        let document = check(&format!("[{{{}}}]", members.join(","))).unwrap();
        let mut seen = std::collections::HashSet::new();
        let object = document.root().items().next().unwrap();
        let expected = object.members().any(|member| !seen.insert(member.name()));
        prop_assert_eq!(object.duplicate_name().is_some(), expected);
    }
}

#[test]
fn duplicates() {
    assert_eq!(check(r#"{"a":1,"\u0061":2}"#).unwrap().root().duplicate_name().unwrap(), "a");
    assert!(check(r#"{"a":{"a":1},"b":[{"a":1}]}"#).unwrap().root().duplicate_name().is_none());
    let many: String = (0..40).map(|n| format!("\"k{n}\":0,")).collect();
    assert!(check(&format!("{{{many}\"k3\":1}}")).unwrap().root().duplicate_name().is_some());
    assert!(check(&format!("{{{many}\"z\":1}}")).unwrap().root().duplicate_name().is_none());
}

#[test]
fn known_values_are_passed_over() {
    let known: &[&[u8]] = &[b"[1,{\"a\":2}]", b"{}", b"12"];
    for (text, fine) in [
        (r#"{"tools":[1,{"a":2}],"b":3}"#, true),
        (r#"{"tools":[1,{"a":2}]}"#, true),
        (r#"{"tools":[1,{"a":2}]x}"#, false),
        (r#"{"tools":{}}"#, true),
        (r#"{"tools":{"x":1}}"#, true),
        (r#"{"tools":123}"#, true),
        (r#"{"tools":[[1,{"a":2}]]}"#, true),
    ] {
        let document = Document::parse_noting(Bytes::copy_from_slice(text.as_bytes()), 4, known);
        assert_eq!(document.is_ok(), fine, "{text}");
        if let Ok(document) = document {
            let value = document.root().get("tools").unwrap();
            assert_eq!(value.raw(), check(text).unwrap().root().get("tools").unwrap().raw(), "{text}");
        }
    }
    let items = |text: &'static str| {
        let document = Document::parse_noting(Bytes::from_static(text.as_bytes()), 4, known).unwrap();
        document.root().members().next().unwrap().value.items().count()
    };
    assert_eq!((items(r#"{"tools":[1,{"a":2}]}"#), items(r#"{"functions":[1,{"a":2}]}"#)), (0, 0));
    // Whatever else has such a value is read.
    for text in [r#"{"messages":[1,{"a":2}]}"#, r#"{"input":[1,{"a":2}]}"#, r#"{"Tools":[1,{"a":2}]}"#, r#"{"\u0074ools":[1,{"a":2}]}"#] {
        assert_eq!(items(text), 2, "{text}");
    }
}

proptest! {
    #[test]
    fn agrees_with_serde_json(text in r#"[\[\]{}",:0-9eE+.\\/ untrfalse-]{0,24}"#) {
        let theirs = serde_json::from_str::<serde_json::Value>(&text);
        let ours = check(&text);
        // serde_json refuses numbers beyond f64 and lone surrogates; the grammar does not.
        if let Err(error) = &ours {
            prop_assert!(theirs.is_err(), "{text:?} {error}");
        } else if let Err(error) = theirs {
            let known = ["number out of range", "surrogate", "unexpected end of hex escape"];
            prop_assert!(known.iter().any(|k| error.to_string().contains(k)), "{text:?} {error}");
        }
    }

    #[test]
    fn strings_are_found_whole(text in ".{0,40}") {
        let json = serde_json::to_string(&text).unwrap();
        let document = check(&json).unwrap();
        let found = document.root().text().unwrap().into_owned();
        prop_assert_eq!(found, text);
    }
}

fn nodes(document: &Document) -> String {
    format!("{:?}", document.nodes)
}

/// Parses `text` behind what it shares with `earlier`, and as if it were the first.
fn resumed(earlier: &str, text: &str) -> Option<(Result<Document, JsonError>, Result<Document, JsonError>)> {
    let earlier = check(earlier).unwrap();
    let beginning = earlier.beginning(earlier.root().get("m")?)?;
    let bytes = Bytes::copy_from_slice(text.as_bytes());
    let shared = beginning.shared_by(&bytes)?;
    let kept = Document::resume(bytes.clone(), TextMemory::Kept, &beginning, &shared, &[])?;
    let copied = Document::resume(bytes.clone(), TextMemory::Copied, &beginning, &shared, &[])?;
    match (&kept, &copied) {
        (Ok(kept), Ok(copied)) => {
            assert_eq!((kept.bytes().as_ptr(), copied.bytes()), (bytes.as_ptr(), &bytes));
            assert_ne!(copied.bytes().as_ptr(), bytes.as_ptr());
            assert_eq!(nodes(kept), nodes(copied));
        }
        _ => assert_eq!(kept.as_ref().err(), copied.as_ref().err()),
    }
    Some((kept, check(text)))
}

#[test]
fn what_is_shared_ends_with_an_element() {
    let earlier = check(r#"{"a":1,"m":[{"x":1},{"x":2} , [3], 4, "5"],"z":0}"#).unwrap();
    let beginning = earlier.beginning(earlier.root().get("m").unwrap()).unwrap();
    for (text, count) in [
        (r#"{"a":1,"m":[{"x":1},{"x":2} , [3], 4, "5"],"z":0}"#, 3),
        (r#"{"a":1,"m":[{"x":1},{"x":2} , [3], 45]}"#, 3),
        (r#"{"a":1,"m":[{"x":1},{"x":2}]}"#, 2),
        (r#"{"a":1,"m":[{"x":1},{"x":3}]}"#, 1),
        (r#"{"a":1,"m":[{"x":1}"#, 1),
        (r#"{"a":1,"m":[{"x":1"#, 0),
        (r#"{"a":2,"m":[{"x":1},{"x":2}]}"#, 0),
        ("", 0),
    ] {
        let shared = beginning.shared_by(&Bytes::copy_from_slice(text.as_bytes()));
        assert_eq!(shared.map_or(0, |shared| shared.elements.count), count, "{text}");
    }
    // An array elsewhere, or another value, is no beginning.
    assert!(earlier.beginning(earlier.root()).is_none() && earlier.beginning(earlier.root().get("a").unwrap()).is_none());
    let shallow = Document::parse_noting(earlier.bytes().clone(), 1, &[]).unwrap();
    assert!(shallow.beginning(shallow.root().get("m").unwrap()).is_none());
    let own = earlier.bytes();
    let shared = beginning.shared_by(own).unwrap();
    let other = check(r#"{"a":2,"m":[{"x":1}]}"#).unwrap();
    let elsewhere = other.beginning(other.root().get("m").unwrap()).unwrap();
    let again = Document::resume(Bytes::copy_from_slice(own), TextMemory::Copied, &beginning, &shared, &[]);
    assert!(again.is_none(), "bytes that weren't compared");
    for place in [TextMemory::Kept, TextMemory::Copied] {
        let copy = Bytes::copy_from_slice(own);
        let shared = beginning.shared_by(&copy).unwrap();
        let again = Document::resume(copy, place, &beginning, &shared, &[]).unwrap().unwrap();
        assert_eq!((again.bytes().as_ptr(), nodes(&again)), (own.as_ptr(), nodes(&earlier)), "the same document again");
    }
    assert!(Document::resume(own.clone(), TextMemory::Copied, &beginning, &shared, &[]).is_some());
    assert!(Document::resume(other.bytes().clone(), TextMemory::Copied, &beginning, &shared, &[]).is_none(), "other bytes");
    assert!(Document::resume(own.slice(1..), TextMemory::Copied, &beginning, &shared, &[]).is_none(), "a part of them");
    assert!(Document::resume(own.clone(), TextMemory::Copied, &elsewhere, &shared, &[]).is_none(), "another document");
}

proptest! {
    #[test]
    fn resuming_finds_the_same(
        head in prop_oneof![Just(""), Just(r#""a":[1,{"b":2}], "#), Just(r#""m\u0031":0,"#), Just(r#""m":1,"#)],
        elements in prop::collection::vec(prop_oneof![
            Just(r#"{"role":"user","content":"é\n"}"#), Just(r#"{"a":1,"a":2}"#), Just("[]"), Just("12"), Just(r#""x""#), Just(" {} ")], 1..6),
        kept in 0_usize..6,
        rest in prop_oneof![
            Just("]}"), Just(r#",{"role":"x"}],"z":1}"#), Just(r#"],"m":[]}"#), Just("]"), Just(",]}"), Just("}"), Just(" , null ] , \"a\" : 1 } "),
            Just("]}x"), Just("\u{7f}"), Just("")],
    ) {
        let earlier = format!(r#"{{{head}"m":[{}],"tail":[1]}}"#, elements.join(","));
        let text = format!(r#"{{{head}"m":[{}{rest}"#, elements.iter().take(kept.max(1)).copied().collect::<Vec<_>>().join(","));
        if let Some((resumed, parsed)) = resumed(&earlier, &text) {
            match (resumed, parsed) {
                (Ok(resumed), Ok(parsed)) => prop_assert_eq!(nodes(&resumed), nodes(&parsed)),
                (resumed, parsed) => prop_assert_eq!(resumed.err(), parsed.err()),
            }
        }
    }
}
