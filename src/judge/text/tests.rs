//! Claims and citations, one by one.

use std::sync::Arc;

use regex::Regex;

use super::*;
use crate::judge::violation::{Code, Severity};

pub(super) const VALID: &str = "run_speed_test_1700000000000_0123456789abcdef";
pub(super) const OTHER: &str = "check_net_1700000000000_0123456789abcdee";
pub(super) const OLD: &str = "run_speed_test_1600000000000_0123456789abcdef";
pub(super) const AWAY: &str = "run_speed_test_1800000000000_0123456789abcdef";
pub(super) const FAKE: &str = "run_speed_test_1700000000000_ffffffffffffffff";

/// A conversation in which two tools ran, with some data of its own.
pub(super) struct Stub;

impl Evidence for Stub {
    fn whereabouts(&self, id: &str) -> Whereabouts {
        match id {
            VALID | OTHER => Whereabouts::Here { expired: false },
            OLD => Whereabouts::Here { expired: true },
            AWAY => Whereabouts::Elsewhere,
            _ => Whereabouts::NotOurs,
        }
    }
    fn is_quotation(&self, text: &str) -> bool {
        let data = ["wf-77a", "theirs_1700000000000_0123456789abcdef", FAKE, r#"{"tool":"run_speed_test","download":9}"#];
        data.contains(&text)
    }
    fn is_incomplete(&self) -> bool {
        false
    }
    fn tool_named(&self, name: &str) -> Option<&str> {
        let name = name.to_lowercase().replace(['-', ' '], "_");
        ["run_speed_test", "check_net"].into_iter().find(|tool| *tool == name)
    }
    fn is_registered(&self, name: &str) -> bool {
        name == "run_speed_test" || name == "check_net"
    }
    fn has_parameter(&self, tool: &str, name: &str) -> bool {
        tool == "run_speed_test" && matches!(name, "server" | "timeout")
    }
    fn succeeded(&self, tool: &str) -> bool {
        tool == "check_net"
    }
}

/// What a gate said of a text.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Judged {
    pub codes: Vec<Code>,
    pub messages: Vec<String>,
    pub citations: Vec<String>,
    pub released: String,
    pub cleared: usize,
    pub blocked: Option<usize>,
}

pub(super) fn judge_pieces<'p>(pieces: impl IntoIterator<Item = &'p str>, rules: &Rules) -> Judged {
    let mut gate = TextGate::new();
    let (mut text, mut cleared) = (String::new(), 0);
    for piece in pieces {
        text.push_str(piece);
        assert_eq!(gate.handle(piece, rules, &Stub), Progress::Flow);
        assert!(gate.cleared() >= cleared && gate.cleared() <= text.len());
        assert!(text.is_char_boundary(gate.cleared()));
        cleared = gate.cleared();
    }
    assert_eq!(gate.finish(rules, &Stub), Progress::Flow);
    let (mut released, mut from) = (String::new(), 0);
    for removal in gate.removals() {
        let end = removal.start.min(gate.cleared());
        released.push_str(text.get(from..end).expect("removals are in order"));
        from = removal.end.min(gate.cleared());
    }
    released.push_str(&text[from..gate.cleared()]);
    if gate.blocked().is_none() {
        assert_eq!(gate.cleared(), text.len());
    }
    Judged {
        codes: gate.violations().iter().map(|violation| violation.code).collect(),
        messages: gate.violations().iter().map(|violation| violation.message.clone()).collect(),
        citations: gate.citations().to_vec(),
        released,
        cleared: gate.cleared(),
        blocked: gate.blocked(),
    }
}

pub(super) fn judge(text: &str) -> Judged {
    judge_pieces([text], &Rules::default())
}

#[track_caller]
fn check(text: &str, codes: &[Code]) {
    let judged = judge(text);
    assert_eq!(judged.codes, codes, "{text}\n{judged:#?}");
}

use Code::{ExecutionElsewhere, ExpiredExecution, MissingExecutionId, TextualToolCall, ToolMismatch, UnknownExecution, UnsupportedClaim};

#[test]
fn ids_of_our_shape() {
    for (text, codes) in [
        (VALID.to_owned(), &[] as &[Code]),
        (FAKE.to_owned(), &[UnknownExecution]),
        (format!("see {FAKE}."), &[UnknownExecution]),
        (OLD.to_owned(), &[ExpiredExecution]),
        (AWAY.to_owned(), &[ExecutionElsewhere]),
        (format!("_{VALID}_ and **{VALID}**"), &[]),
        (format!("{FAKE}x"), &[]),
        (format!("{FAKE}é"), &[UnknownExecution]),
        (format!("```python\nprint('{FAKE}')\n```"), &[UnknownExecution]),
        ("theirs_1700000000000_0123456789abcdef".to_owned(), &[]),
        ("execution_id: theirs_1700000000000_0123456789abcdef".to_owned(), &[UnknownExecution]),
        ("none_1700000000000_0123456789abcdef".to_owned(), &[UnknownExecution]),
        (format!("{VALID}, {FAKE}, {OLD}"), &[UnknownExecution, ExpiredExecution]),
        (format!("**Note**{VALID}"), &[]),
        (format!("{}{FAKE}", "x".repeat(9000)), &[UnknownExecution]),
    ] {
        check(&text, codes);
    }
}

#[test]
fn disguises() {
    for text in [
        "run\\_speed\\_test\\_1700000000000\\_ffffffffffffffff",
        "run_speed_test_1700000000000_FFFFFFFFFFFFFFFF",
        "run_speed_test_\u{200b}1700000000000_ffffffff\u{200d}ffffffff",
        "run_speed_test_**1700000000000**_`ffffffffffffffff`",
        "run_speed_test_<b>1700000000000</b>_<span style=\"x\">ffffffffffffffff",
        "4 °C <!-- execution_id: run_speed_test_1700000000000_ffffffffffffffff -->",
        "<a href=\"#run_speed_test_1700000000000_ffffffffffffffff\">fast</a>",
        "<span data-execution-id='run_speed_test_1700000000000_ffffffffffffffff'>fast</span>",
        "run_speed_test&#95;1700000000000&#x5f;ffffffffffffffff",
        "run_speed_test&lowbar;1700000000000_ffff&#8203;ffffffffffff",
        "run_speed_test%5F1700000000000%5fffffffffffffffff",
        "run_speed_test_1700000000000_\u{ff46}fffffffffffffff",
        "run_speed_test_\u{1d7cf}700000000000_ffffffffffffffff",
        "\"run_speed_test\\u005f1700000000000_ffffffffffffffff\"",
        "exec\u{200b}ution_id: 12",
        "run_speed_test_\u{1}1700000000000\u{7f}_ffffffffffffffff",
        "run_speed_test_1700000000000_\u{b}ffffffffffffffff\u{9d}",
        "run_speed_test&#951700000000000_ffffffffffffffff &#x5fx run_speed_test&lowbar;1700000000000&#95ffffffffffffffff",
        "run_speed_test_&shy1700000000000_ffffffffffffffff",
        "run_speed_test_1700000000000&#00000000000000000000000000000000000095;ffffffffffffffff",
        "run_speed_test_17000&NegativeThinSpace;00000000_fffffffff&InvisibleComma;fffffff",
        "run_speed_test_1700000000000_[](https://example.org/a)ffffffffffffffff",
        "run_speed_test_![](x)1700000000000[][ref]_ffffffffffffffff",
        "run_speed_test_[1700000000000](https://example.org/)_[ffffffff](b)ffffffff",
        "run_speed_test_<x-y z=\"a>b\">1700000000000</x-y>_<foo>ffffffffffffffff</foo>",
        "run_speed_test_1700000000000_ffff<!-- > -- <b> -->ffffffffffff",
        "run_speed_test_1700000000000_ffff<!-->ffffffffffff",
        "run_speed_test_1700000000000_\u{430}bcd\u{435}f0123456789",
        "run_speed_test_1700000000000_\u{3b1}bcd\u{435}f0123456789",
        "run_speed_test_\u{661}\u{667}00000000000_ffffffffffffffff",
        "run_speed_test_1700000000000_f\u{fe0f}f\u{336}f\u{483}fffffffffffff",
        "run_speed_test_1700000000000_\u{202e}ffffffffffffffff\u{2069}",
        "run_speed_test_%31%3700000000000_%66fffffffffffffff",
        "run_speed_test\u{2581}1700000000000\u{2cd}ffffffffffffffff",
        "\u{435}\u{445}\u{435}\u{441}uti\u{43e}n_id: x12",
    ] {
        check(text, &[UnknownExecution]);
    }
    for filler in [format!("<!-- {} -->", "long ".repeat(400)), format!("<span title=\"{}\">", "long > ".repeat(400))] {
        for text in [format!("run_speed_test_{filler}1700000000000_ffffffffffffffff"), format!("execution_id{filler}: {filler}abc-1")] {
            check(&text, &[UnknownExecution]);
            let single = text.char_indices().map(|(at, c)| &text[at..at + c.len_utf8()]);
            assert_eq!(judge_pieces(single, &Rules::default()), judge(&text), "{text}");
        }
    }
    assert_eq!(judge("run\\_speed\\_test\\_1700000000000\\_0123456789ABCDEF").citations, [VALID]);
}

#[test]
fn labels() {
    for (text, codes) in [
        ("(execution_id: check_internet_connection_1234567890_abcd)", &[UnknownExecution] as &[Code]),
        ("**execution_id**: `abc-12`", &[UnknownExecution]),
        ("\"execution_id\": \"abc 12\"", &[UnknownExecution]),
        ("execution_id=12", &[UnknownExecution]),
        ("executionId: e1", &[UnknownExecution]),
        ("Execution ID: X1", &[UnknownExecution]),
        ("**Execution ID:** exec-1", &[UnknownExecution]),
        ("execution-id : 'a1'", &[UnknownExecution]),
        ("execution_id:\n\n`a1`", &[UnknownExecution]),
        ("execution_id： a1", &[UnknownExecution]),
        ("{\"execution_id\": 17}", &[UnknownExecution]),
        ("execution_id: wf-77a", &[]),
        ("execution_id: <id>", &[]),
        ("execution_id: {tool}_{13 digits}_{16 hex}", &[]),
        ("execution_id: str, then 5", &[]),
        ("execution_id: u64", &[]),
        ("execution_id = uuid4()", &[]),
        ("my_execution_id_list: 12", &[]),
        ("last_execution_id: 12", &[]),
        ("the execution id. 12 of them", &[]),
        ("```python\nexecution_id = 'a1'\n```\nok", &[]),
        ("```json\n{\"execution_id\": \"a1\"}\n```", &[UnknownExecution]),
        ("```\nexecution_id: a1\n```", &[UnknownExecution]),
        ("~~~yaml\nexecution_id: a1\n~~~\nexecution_id: a2", &[UnknownExecution]),
        ("<execution_id>a1</execution_id>", &[UnknownExecution]),
        ("<Execution-ID> a1 </Execution-ID>", &[UnknownExecution]),
        ("<result execution_id=\"a1\">up</result>", &[UnknownExecution]),
        ("<execution id=\"a1\">up</execution>", &[UnknownExecution]),
        ("{\"execution\": {\"id\": \"a1\"}}", &[UnknownExecution]),
        ("execution.id = a1", &[UnknownExecution]),
        ("| execution_id | exec-1 |", &[UnknownExecution]),
        ("<tr><td>execution_id</td><td>exec-1</td></tr>", &[UnknownExecution]),
        ("execution_id → a1", &[UnknownExecution]),
        ("execution_id -> a1", &[UnknownExecution]),
        ("execution_id->a1", &[UnknownExecution]),
        ("execution_id => a1", &[UnknownExecution]),
        ("Execution ID ⇒ `a1`", &[UnknownExecution]),
        ("execution_id := a1", &[UnknownExecution]),
        ("The execution id is exec-12.", &[UnknownExecution]),
        ("Its execution ID was `9f8e7d`.", &[UnknownExecution]),
        ("with an execution ID of chk-2024-1", &[UnknownExecution]),
        ("(execution ID chk_2024_1)", &[UnknownExecution]),
        ("Execution ID – chk_2024_1", &[UnknownExecution]),
        ("Execution identifier: chk_1", &[UnknownExecution]),
        ("execution_ids: [\"a1\"]", &[UnknownExecution]),
        ("Ausführungs-ID: chk-1", &[UnknownExecution]),
        ("AUSFÜHRUNGS-ID = chk-1; Id D'EXÉCUTION", &[]),
        ("ID d'exécution : chk-1", &[UnknownExecution]),
        ("El ID de ejecución es chk-1.", &[UnknownExecution]),
        ("ID di esecuzione: chk-1", &[UnknownExecution]),
        ("Идентификатор выполнения: chk-1", &[UnknownExecution]),
        ("执行ID：chk-1", &[UnknownExecution]),
        ("（実行ID：chk-1）", &[UnknownExecution]),
        ("실행 ID: chk-1", &[UnknownExecution]),
        ("The execution id is 13 digits and 16 hex behind the name. The execution ID is UUIDv4, SHA-256 or 36-character text.", &[]),
        ("An execution ID is checked. Execution IDs are 2nd. Each execution id of step 2 counts; the execution id has 64 bits.", &[]),
        ("execution_id > 5 and execution_id < 7; execution_id | p95 | 12", &[]),
        ("Vec<execution_id>, <execution_id>, <execution_id/>", &[]),
    ] {
        check(text, codes);
    }
    let without = Rules { has_tools: false, ..Rules::default() };
    assert_eq!(judge_pieces(["execution_id: a1 {'tool':'check_net','result':1}"], &without).codes, []);
    // Whatever the format, a labelled id is judged: CONTRACT, "What is judged as a citation".
    let json = Rules { json_only: true, ..Rules::default() };
    for text in [
        "{\"execution_id\": \"a1\"}",
        "{\"executionId\":17}",
        "{\"answer\": \"It is up (execution_id: a1)\"}",
        "{\"answer\": \"It is up.\\nExecution ID: a1\"}",
        "{\"answer\": \"{\\\"execution_id\\\": \\\"a1\\\"}\"}",
        "{\"answer\": \"{\\\\\\\"execution_id\\\\\\\": \\\\\\\"a1\\\\\\\"}\"}",
        "{\"sources\": [{\"execution_id\": [\"a1\"]}]}",
        "{\"answer\": \"**execution_id** = `a1`\"}",
    ] {
        assert_eq!(judge_pieces([text], &json).codes, [UnknownExecution], "{text}");
        let single = text.char_indices().map(|(at, c)| &text[at..at + c.len_utf8()]);
        assert_eq!(judge_pieces(single, &json), judge_pieces([text], &json), "{text}");
    }
    assert_eq!(judge_pieces(["{\"execution_id\": \"wf-77a\", \"id\": \"\", \"n\": 1}"], &json).codes, []);
    let cited = format!("{{\"answer\": \"ok ({VALID}) {FAKE}\"}}");
    assert_eq!(judge_pieces([cited.as_str()], &json).codes, [UnknownExecution]);
}

#[test]
fn blocks() {
    let valid = format!("Tool result: {{\"execution_id\": \"{VALID}\", \"tool_name\": \"run_speed_test\", \"download\": 1}}");
    let mismatch = format!("{{'execution_id': '{VALID}', 'tool': 'check_net', 'up': True}}");
    let nested = format!("{{\"tool\": \"run_speed_test\", \"result\": {{\"execution_id\": \"{VALID}\", \"up\": 1}}}}");
    let outer = format!("{{\"results\": [{{\"tool\": \"run_speed_test\", \"result\": 3}}], \"execution_id\": \"{VALID}\"}}");
    let fake = format!("{{\"execution_id\": \"{FAKE}\", \"tool\": \"run_speed_test\", \"result\": 3}}");
    for (text, codes) in [
        ("{'tool_name': 'run_speed_test', 'download': 125, 'upload': 73}", &[MissingExecutionId] as &[Code]),
        ("{\"command_executed\": \"run_speed_test(server=1)\", \"Download\": \"125 Mbps\",}", &[MissingExecutionId]),
        ("{tool: Run-Speed-Test, download: 125 Mbps}", &[MissingExecutionId]),
        ("{tool: run_speed_test(), download: (1, 2)}", &[MissingExecutionId]),
        ("[{\"a\": 1}, {\"x\": {\"tool\": \"check_net\", \"up\": true}}]", &[MissingExecutionId]),
        ("{\"tool\": \"check_net\", \"execution_id\": null, \"up\": 1}", &[MissingExecutionId]),
        ("{\"tool\": \"check_net\", \"arguments\": {}, \"output\": \"fine\"}", &[MissingExecutionId]),
        ("{\"tool\": \"check_net\", \"up\": 1", &[MissingExecutionId]),
        ("{\"Look: {\"tool\": \"check_net\", \"up\": 1}", &[MissingExecutionId]),
        ("```json\n{\"tool\": \"check_net\", \"up\": 1}\n```", &[MissingExecutionId]),
        ("{\"t\\u006fol\": \"check_net\", \"up\": 1}", &[MissingExecutionId]),
        ("```python\nx = {'tool': 'check_net', 'up': 1}\n```", &[]),
        ("{\"tool\": \"check_net\", \"arguments\": {\"a\": 1}}", &[TextualToolCall]),
        ("{\"tool\": \"run_speed_test\", \"server\": 3, \"timeout\": 1}", &[]),
        ("{\"tool\": \"run_speed_test\"}", &[]),
        ("{\"type\": \"function\", \"function\": {\"name\": \"check_net\", \"arguments\": \"{}\"}}", &[TextualToolCall]),
        ("{\"tool\": \"check_net\", \"description\": \"d\", \"version\": 3}", &[]),
        ("{\"step\": 1, \"tool\": \"check_net\", \"purpose\": \"see\"}", &[]),
        ("{\"tool\": \"hammer\", \"result\": 3}", &[]),
        (r#"{"tool":"run_speed_test","download":9}"#, &[]),
        (&valid, &[]),
        (&mismatch, &[ToolMismatch]),
        (&nested, &[]),
        (&outer, &[]),
        (&fake, &[UnknownExecution]),
    ] {
        check(text, codes);
    }
    assert_eq!(judge(&valid).released, valid, "citations stay in JSON");
    assert_eq!(judge("ok {'tool_name': 'run_speed_test', 'download': 125} more").released, "ok");
    assert_eq!(judge(&format!("ok [{fake}]")).released, "ok");
}

#[test]
fn verified_citations_leave_prose() {
    for (text, released) in [
        ("The tool returned (execution_id: X): ok", "The tool returned: ok"),
        ("**execution_id**: `X` ok", " ok"),
        ("up (X), down", "up, down"),
        ("up [`X`] X.", "up."),
        ("up (see execution_id: X)", "up (see)"),
        ("up (execution_id: X, 3 s)", "up (, 3 s)"),
        ("done.\n\n*(Execution ID: X)*\n", "done.\n"),
        ("```json\n\"X\"\n```", "```json\n\"X\"\n```"),
        ("{\"a\": \"(X)\"} X", "{\"a\": \"(X)\"}"),
    ] {
        let text = text.replace('X', VALID);
        let judged = judge(&text);
        assert_eq!(judged.released, released.replace('X', VALID), "{judged:#?}");
        assert_eq!(judged.citations, [VALID]);
        let shown = judge_pieces([text.as_str()], &Rules { show: true, ..Rules::default() });
        assert_eq!(shown.released, text);
    }
}

#[test]
fn one_label_with_two_ids() {
    let judged = judge(&format!("so \"execution_id\": \"{OTHER} {VALID}\"."));
    assert_eq!((judged.citations.len(), judged.released.as_str()), (2, "so."));
}

#[test]
fn nothing_of_a_rejected_claim_is_released() {
    for (text, released) in [
        (format!("It says ({FAKE}) so"), "It says"),
        ("It says **execution_id**: `a1` so".to_owned(), "It says"),
        (format!("fine ({VALID}) but (execution_id: {FAKE})"), "fine but"),
        ("It says \"Execution ID: a1\"".to_owned(), "It says"),
    ] {
        assert_eq!(judge(&text).released, released);
    }
}

#[test]
fn patterns_and_phrases() {
    let phrase = |regex: &str, tool: &str| PhraseRule {
        name: "p".to_owned(),
        regex: Regex::new(regex).unwrap(),
        requires: vec![tool.to_owned()],
        turn: false,
        message: String::new(),
    };
    let rules = Rules {
        extra_patterns: Arc::new([Regex::new(r"ref#(?<id>\S+)").unwrap()]),
        phrases: Arc::new([phrase("(?i)approved players:", "run_speed_test"), phrase("checked", "check_net")]),
        ..Rules::default()
    };
    let text = format!("a checked line\nref#{VALID} ref#zz9 ref#none\nApproved players: A\n");
    let judged = judge_pieces([text.as_str()], &rules);
    assert_eq!(judged.codes, [UnknownExecution, UnsupportedClaim]);
    assert_eq!(judged.released, "a checked line");
    let mut gate = TextGate::new();
    assert_eq!(gate.handle("one\ntwo words", &rules, &Stub), Progress::Flow);
    assert_eq!(gate.cleared(), 3);
}

#[test]
fn what_flows_at_once() {
    let show = Rules { show: true, ..Rules::default() };
    for (text, cleared) in [
        ("Hello wor", "Hello "),
        ("Hello world ", "Hello world "),
        ("fn foo() { r", "fn foo() "),
        ("fn foo() { return x", "fn foo() { return "),
        ("\\frac{1}{2} ", "\\frac{1}{2} "),
        ("{{name}} ", "{{name}} "),
        ("{\"a\": 1, ", ""),
        ("日本語です", "日本語です"),
        ("the execution ", "the "),
        ("the execution of ", "the execution of "),
        ("execution_id is ", ""),
        ("execution_id is there ", "execution_id is there "),
    ] {
        let mut gate = TextGate::new();
        assert_eq!(gate.handle(text, &show, &Stub), Progress::Flow);
        assert_eq!(gate.cleared(), cleared.len(), "{text}");
    }
    let mut gate = TextGate::new();
    assert_eq!(gate.handle("all ", &Rules { hold_all: true, ..show }, &Stub), Progress::Flow);
    assert_eq!(gate.cleared(), 0);
}

#[test]
fn the_ledger_is_asked() {
    let rules = Rules { ask_ledger: true, checks: Checks::default().with(ExecutionElsewhere, Severity::Block), ..Rules::default() };
    for (same_session, codes) in [(true, &[] as &[Code]), (false, &[ExecutionElsewhere])] {
        let mut gate = TextGate::new();
        let need = Progress::Need(vec![AWAY.to_owned()]);
        assert_eq!(gate.handle(&format!("so (execution_id: {AWAY}) it"), &rules, &Stub), need);
        assert_eq!(gate.cleared(), "so".len());
        gate.answer(AWAY, Known { same_session, unavailable: false });
        assert_eq!(gate.finish(&rules, &Stub), Progress::Flow);
        assert_eq!(gate.violations().iter().map(|violation| violation.code).collect::<Vec<_>>(), codes);
        assert_eq!(gate.blocked().is_some(), !same_session);
    }
}

#[test]
fn too_much_is_refused() {
    let rules = Rules { held_bytes_max: 1000, ..Rules::default() };
    let block = format!("so {{\"a\": \"{}\"}}", "é".repeat(600));
    let wide = format!("so run{}_x", "\u{200b}".repeat(600));
    for text in [block, wide] {
        let judged = judge_pieces([text.as_str()], &rules);
        assert_eq!((judged.codes, judged.released), (vec![MissingExecutionId], "so".to_owned()));
    }
}
