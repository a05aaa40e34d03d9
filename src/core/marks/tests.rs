//! Marks: whatever is altered is noticed, and nothing else is.

use proptest::prelude::*;

use super::*;

const ARGUMENTS: &str = r#"{"city":"Paris","days":3}"#;

fn ring() -> KeyRing {
    KeyRing::new(&[[7; 32]])
}

fn moment() -> MarkTime {
    MarkTime { time_ms: 1_763_760_000_123, counter: 0xabc }
}

fn verified(ring: &KeyRing, id: &str, scope: &Scope, tool: &str, arguments: &str) -> bool {
    CallMark::parse(id).is_some_and(|mark| ring.verify(&mark, scope, tool, arguments) == Some(moment()))
}

#[test]
fn call_marks() {
    let scope = Scope::client("a");
    let id = ring().mint(&scope, "get_weather", ARGUMENTS, moment());
    assert_eq!(id.len(), CALL_MARK_BYTES);
    assert!(verified(&ring(), &id, &scope, "get_weather", ARGUMENTS));
    assert!(verified(&ring(), &id, &scope, "get_weather", "{ \"days\": 3.0, \"city\":\"P\\u0061ris\" }"), "re-serialised");
    for (scope, tool, arguments) in [
        (Scope::client("b"), "get_weather", ARGUMENTS),
        (scope.clone(), "get_weathe", ARGUMENTS),
        (scope.clone(), "get_weather", r#"{"city":"Paris","days":4}"#),
        (scope.clone(), "get_weather", ""),
    ] {
        assert!(!verified(&ring(), &id, &scope, tool, arguments), "{scope:?} {tool} {arguments}");
    }
    assert!(!verified(&KeyRing::new(&[[8; 32]]), &id, &scope, "get_weather", ARGUMENTS));
    assert!(verified(&KeyRing::new(&[[8; 32], [7; 32]]), &id, &scope, "get_weather", ARGUMENTS), "an older key verifies");
}

#[test]
fn marks_behind_an_upstreams_id() {
    let (ring, scope) = (ring(), Scope::client("a"));
    let upstream_id = "call_DZoEYbCUNWpaXTOfzpJYTkLs";
    let id = ring.mint_behind(upstream_id, &scope, "t", ARGUMENTS, moment()).unwrap();
    assert_eq!(id.len(), upstream_id.len() + 23);
    assert!(verified(&ring, &id, &scope, "t", "{\"days\":3,\"city\":\"Paris\"}"));
    assert_eq!(CallMark::parse(&id).and_then(|mark| mark.upstream_id()), Some(upstream_id));
    assert!(!verified(&ring, &id, &Scope::client("b"), "t", ARGUMENTS) && !verified(&ring, &id, &scope, "u", ARGUMENTS));
    for other in "0123456789abcdefABCDEFgxyz_-AQ é".chars() {
        for at in 0..id.len() {
            let flipped: String = id.chars().enumerate().map(|(n, c)| if n == at { other } else { c }).collect();
            assert!(flipped == id || !verified(&ring, &flipped, &scope, "t", ARGUMENTS), "{flipped}");
        }
    }
    assert_eq!(ring.mint_behind("", &scope, "t", ARGUMENTS, moment()), None);
    assert_eq!(ring.mint_behind(&"x".repeat(42), &scope, "t", ARGUMENTS, moment()), None, "no room");
    assert!(ring.mint_behind(&"x".repeat(41), &scope, "t", ARGUMENTS, moment()).is_some_and(|id| id.len() == 64));
    // Ids of providers are never taken for marks.
    for foreign in [upstream_id, "chatcmpl-tool-0123456789abcdef0123456789abcdef", "functions.get_weather_in_some_city:0", "call_0"] {
        assert_eq!(CallMark::parse(foreign), None, "{foreign}");
    }
}

#[test]
fn numbers_are_compared_as_doubles() {
    let scope = Scope::shared();
    let call = |n: &str| format!(r#"{{"id":{n},"to":[{n}]}}"#);
    let ours = |ring: &KeyRing, n: &str| ring.mint(&scope, "t", &call(n), moment());
    let id = ours(&ring(), "1234567890123456789");
    for (came_back, fits) in [
        ("1234567890123456789", true),
        ("1234567890123456800", true),
        ("1.2345678901234568e+18", true),
        ("1234567890123456768", true),
        ("1234567890123457000", false),
        ("1234567890123456000", false),
        ("-1234567890123456800", false),
        ("\"1234567890123456789\"", false),
    ] {
        assert_eq!(verified(&ring(), &id, &scope, "t", &call(came_back)), fits, "{came_back}");
    }
    let small = ours(&ring(), "9007199254740991");
    assert!(!verified(&ring(), &small, &scope, "t", &call("9007199254740992")), "what a double tells apart counts");
    // A mark as it was minted before: over the digits.
    let keys = &ring().keys[0];
    for upstream_id in [None, Some("fc_1")] {
        let earlier = CallMacInput { scope: &scope, upstream_id, tool: "t", moment: moment() };
        let mac = earlier.earlier_mac(keys, &Signed::of(&call("1234567890123456789"), canonical));
        let mark = CallMark { moment: moment(), mac, upstream_id };
        assert_eq!(ring().verify(&mark, &scope, "t", &call("1234567890123456789")), Some(moment()));
        assert_eq!(ring().verify(&mark, &scope, "t", &call("1234567890123456800")), None);
    }
}

#[test]
fn whose_a_mark_is_shows_whatever_the_call() {
    let (scope, other) = (Scope::client("a"), KeyRing::new(&[[9; 32]]));
    let (mut foreign, mut elsewhere) = (0, 0);
    for counter in 0..400 {
        let at = MarkTime { counter, ..moment() };
        let id = ring().mint(&scope, "t", ARGUMENTS, at);
        let mark = CallMark::parse(&id).unwrap();
        assert!(ring().made(&mark, &scope));
        foreign += u32::from(other.made(&mark, &scope));
        elsewhere += u32::from(ring().made(&mark, &Scope::client("b")));
        let behind = ring().mint_behind("fc_1", &scope, "t", ARGUMENTS, at).unwrap();
        assert!(ring().made(&CallMark::parse(&behind).unwrap(), &scope));
    }
    assert!(foreign < 20 && elsewhere < 20, "{foreign} {elsewhere}");
}

#[test]
fn credentials_have_scopes_of_their_own() {
    assert_eq!(Scope::credential(b"Bearer x"), Scope::credential(b"Bearer x"));
    assert_ne!(Scope::credential(b"Bearer x"), Scope::credential(b"Bearer y"));
}

#[test]
fn a_scope_has_a_digest_for_each_key() {
    let (one, other) = ([1; 32], [2; 32]);
    let digests = |scope: &Scope, keys: [&[u8; 32]; 4]| keys.map(|key| scope.digest(key));
    let keys = [&one, &other, &one, &other];
    let scope = Scope::client("a");
    let [first, second, ..] = digests(&scope, keys);
    assert_ne!(first, second);
    for same in [scope.clone(), Scope::client("a")] {
        assert_eq!(digests(&same, keys), [first, second, first, second]);
    }
    assert_ne!(Scope::client("b").digest(&one), first);
    assert_eq!(format!("{scope:?}"), "Scope(\"client:a\")", "what is stored lies under keys made of it");
}

#[test]
fn any_flipped_character_is_noticed() {
    let scope = Scope::shared();
    let id = ring().mint(&scope, "t", ARGUMENTS, moment());
    let execution = ring().execution_id(&scope, "get_weather", moment());
    let good = |id: &str| ExecutionId::parse(id).is_some_and(|id| ring().is_execution(&id, &scope));
    assert!(good(&execution), "{execution}");
    for other in "0123456789abcdefABCDEFgxyz_- \u{200b}é".chars() {
        for at in 0..execution.len().max(id.len()) {
            let flip = |text: &str| text.chars().enumerate().map(|(n, c)| if n == at { other } else { c }).collect::<String>();
            if flip(&id) != id {
                assert!(!verified(&ring(), &flip(&id), &scope, "t", ARGUMENTS), "{}", flip(&id));
            }
            if flip(&execution) != execution {
                assert!(!good(&flip(&execution)), "{}", flip(&execution));
            }
        }
    }
}

#[test]
fn execution_ids_of_odd_tools() {
    let scope = Scope::shared();
    for tool in ["a.b/c", "", &"x".repeat(200), "ünï"] {
        let id = ring().execution_id(&scope, tool, moment());
        let parsed = ExecutionId::parse(&id).unwrap();
        assert!(ring().is_execution(&parsed, &scope), "{id}");
        assert_eq!(parsed.moment(), moment());
    }
}

proptest! {
    #[test]
    fn any_changed_value_is_noticed(a in ".{0,12}", b in ".{0,12}", n in any::<u64>(), m in any::<u64>()) {
        let json = |text: &str, n: u64| serde_json::json!({"text": text, "n": n}).to_string();
        let scope = Scope::anonymous();
        let id = ring().mint(&scope, "t", &json(&a, n), moment());
        prop_assert_eq!(verified(&ring(), &id, &scope, "t", &json(&b, m)), (a, n as f64) == (b, m as f64));
    }

    #[test]
    fn parsing_never_panics(text in ".{0,64}") {
        let _ = (CallMark::parse(&text), ExecutionId::parse(&text));
    }
}
