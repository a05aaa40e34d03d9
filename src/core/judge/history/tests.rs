//! Histories: calls, results, and what of them is proved.

use super::*;

const NOW: u64 = 1_763_760_000_000;

fn ring() -> KeyRing {
    KeyRing::new(&[[1; 32]])
}

fn mark(tool: &str, arguments: &str, counter: u16) -> String {
    ring().mint(&Scope::shared(), tool, arguments, MarkTime { time_ms: NOW, counter })
}

fn call(id: &str, arguments: &'static str) -> PastCall<'static> {
    PastCall { id: Some(id.to_owned().into()), name: "t".into(), arguments: JsonText::Plain(arguments), memo: None }
}

fn result(id: &str) -> HistoryItem<'static> {
    let id = Some(id.to_owned().into());
    HistoryItem::Result(PastResult {
        id,
        name: None,
        nature: ResultTraits::default(),
        bytes: 1,
        raw: "\"\"".into(),
        memo: None,
        text: None,
    })
}

fn codes(items: &[HistoryItem<'_>], adjacency: Adjacency) -> (Vec<&'static str>, usize) {
    let (checks, ring, scope) = (Checks::default(), ring(), Scope::shared());
    let window = Some(Duration::from_secs(60));
    let known = [StoredCall {
        id: "kept".into(),
        tool: "t".into(),
        moment: MarkTime { time_ms: NOW, counter: 9 },
        digest: 0,
        arguments: "{}".into(),
    }];
    let (remembered, unseen) = if adjacency == Adjacency::Free { (&known[..], true) } else { (&[][..], false) };
    let (now_ms, large) = (NOW + 1, 1 << 20);
    let (trail, told_apart) = (&[][..], false);
    let rules = HistoryRules {
        checks: &checks,
        ring: &ring,
        scope: &scope,
        window,
        now_ms,
        large,
        adjacency,
        remembered,
        unseen,
        trail,
        told_apart,
    };
    let history = verify(items, &rules);
    (history.violations.iter().map(|violation| violation.code.as_str()).collect(), history.executions.len())
}

#[test]
fn pairings() {
    let (a, b) = (mark("t", "{}", 1), mark("t", "{\"x\":1}", 2));
    let turn = |calls: Vec<PastCall<'static>>| HistoryItem::Assistant(calls);
    let ours = || turn(vec![call(&a, "{}"), call(&b, "{\"x\":1.0}")]);
    let said = || HistoryItem::Assistant(Vec::new());
    let strict: Vec<(Vec<HistoryItem<'_>>, Vec<&str>, usize)> = vec![
        (vec![HistoryItem::User, ours(), result(&b), result(&a)], vec![], 2),
        (vec![ours(), result(&a)], vec!["unanswered_call"], 1),
        (vec![ours(), result(&a), result(&b), result(&a)], vec!["duplicate_result"], 2),
        (vec![result(&a)], vec!["orphan_result"], 0),
        (vec![ours(), result(&a), HistoryItem::User, result(&b)], vec!["message_order", "unanswered_call", "misordered_result"], 1),
        (vec![turn(vec![call(&a, "{\"y\":1}")]), result(&a)], vec!["altered_call"], 0),
        (vec![turn(vec![call("call_0", "{}")]), result("call_0")], vec!["unverified_call"], 0),
        (
            vec![turn(vec![call("x", "{}")]), result("x"), turn(vec![call("x", "{}")]), result("x")],
            vec!["unverified_call", "unverified_call"],
            0,
        ),
        (vec![said(), said()], vec!["message_order"], 0),
    ];
    for (items, expected, executions) in strict {
        assert_eq!(codes(&items, Adjacency::Required), (expected, executions), "{items:?}");
    }
    let free = vec![ours(), said(), HistoryItem::User, result(&a), result(&b)];
    assert_eq!(codes(&free, Adjacency::Free), (vec![], 2));
    let reused = vec![turn(vec![call("x", "{}")]), result("x"), turn(vec![call("x", "{}")]), result("x")];
    assert_eq!(codes(&reused, Adjacency::Free), (vec!["unverified_call"; 2], 0));
    let parallel = vec![turn(vec![call(&a, "{}")]), turn(vec![call(&b, "{\"x\":1}")]), said(), result(&a), said(), result(&b)];
    assert_eq!(codes(&parallel, Adjacency::Free), (vec![], 2));
    // Which of two calls of one id a result answers isn't sure: it proves nothing.
    for calls in [["{\"y\":1}", "{}"], ["{}", "{\"y\":1}"]] {
        let twice = vec![turn(vec![call(&a, calls[0])]), turn(vec![call(&a, calls[1])]), result(&a), result(&a)];
        assert_eq!(codes(&twice, Adjacency::Free).1, 0, "{calls:?}");
    }
    assert_eq!(codes(&[HistoryItem::User, result("kept"), result("gone")], Adjacency::Free), (vec!["unverified_call"], 1));
}

#[test]
fn segments() {
    for (text, expected) in [("{\"p\":\"a2ia/a2ia/x\"}", Some("a2ia")), ("a/b/a", None), ("https://x", None), ("../../x", None)] {
        assert_eq!(duplicate_segment(text), expected, "{text}");
    }
}
