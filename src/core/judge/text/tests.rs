//! Claims and citations, one by one.

use std::sync::Arc;

use regex::Regex;

use super::*;
use crate::violation::{Code, Severity};

pub(super) const VALID: &str = "run_speed_test_1700000000000_0123456789abcdef";
pub(super) const OTHER: &str = "check_net_1700000000000_0123456789abcdee";
pub(super) const OLD: &str = "run_speed_test_1600000000000_0123456789abcdef";
pub(super) const AWAY: &str = "run_speed_test_1800000000000_0123456789abcdef";
pub(super) const FAKE: &str = "run_speed_test_1700000000000_ffffffffffffffff";

/// A conversation in which two tools ran, with some data of its own.
pub(super) struct Stub;

impl Evidence for Stub {
    fn whereabouts(&self, id: &str) -> ExecutionOrigin {
        match id {
            VALID | OTHER => ExecutionOrigin::Here { expired: false },
            OLD => ExecutionOrigin::Here { expired: true },
            AWAY => ExecutionOrigin::Elsewhere,
            _ => ExecutionOrigin::NotOurs,
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

impl ClaimEvidence for Stub {}

/// What a gate said of a text.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Judged {
    pub codes: Vec<Code>,
    pub messages: Vec<String>,
    pub citations: Vec<String>,
    pub released: String,
    pub cleared: usize,
    pub blocked: Option<usize>,
    /// What closes what is open where the text was blocked.
    pub closing: String,
}

pub(super) fn judge_pieces<'p>(pieces: impl IntoIterator<Item = &'p str>, rules: &TextRules) -> Judged {
    let mut gate = TextGate::new();
    let (mut text, mut cleared) = (String::new(), 0);
    for piece in pieces {
        text.push_str(piece);
        assert_eq!(gate.handle(piece, rules, &Stub), GateProgress::Flow);
        assert!(gate.cleared() >= cleared && gate.cleared() <= text.len());
        assert!(text.is_char_boundary(gate.cleared()));
        cleared = gate.cleared();
    }
    assert_eq!(gate.finish(rules, &Stub), GateProgress::Flow);
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
        closing: if gate.blocked().is_some() { gate.closing() } else { String::new() },
    }
}

pub(super) fn judge(text: &str) -> Judged {
    judge_pieces([text], &TextRules::default())
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
            assert_eq!(judge_pieces(single, &TextRules::default()), judge(&text), "{text}");
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
    let without = TextRules { has_tools: false, ..TextRules::default() };
    assert_eq!(judge_pieces(["execution_id: a1 {'tool':'check_net','result':1}"], &without).codes, []);
    // Without tools in the request text leaves as it comes: no phrase is read that could hold it.
    let words = "The execution of it was fine and the id is in the result of the tool, as we said before in this answer. ".repeat(20);
    let json = format!("{{\"todos\": [{}]}}", "{\"title\": \"buy milk\", \"done\": false}, ".repeat(20));
    let code = format!("```js\nmodule.exports = {{\n{}}};\n```\n", "  port: 8080,\n".repeat(40));
    for (rules, words) in
        [(&without, &words), (&TextRules { json_only: true, ..without.clone() }, &words), (&without, &json), (&without, &code)]
    {
        let mut gate = TextGate::new();
        for (at, c) in words.char_indices() {
            assert_eq!(gate.handle(&words[at..at + c.len_utf8()], rules, &Stub), GateProgress::Flow);
            let held = at + c.len_utf8() - gate.cleared();
            assert!(held <= 64, "{held} bytes are held: {}", &words[gate.cleared()..=at]);
        }
    }
    // Whatever the format, a labelled id is judged: docs/contract.md#what-is-judged-as-a-citation.
    let json = TextRules { json_only: true, ..TextRules::default() };
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
        ("```python\nx = {'tool': 'check_net', 'up': 1}\n```", &[MissingExecutionId]),
        ("```python\nx = {'tool': 'check_net', 'up': 1}\nassert run(x)\n```", &[]),
        ("```python\nfrom tools import run\nx = {'tool': 'check_net', 'up': 1}\n```", &[]),
        ("```python\n# what it said\nprint({'tool': 'check_net', 'up': 1})\n```\nok", &[MissingExecutionId]),
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

/// One result in every dress that it was seen in: docs/contract.md#what-is-judged-as-a-result.
const DRESSES: [&str; 74] = [
    "```yaml\ntool_name: run_speed_test\ndownload: 125\nupload: 73\n```",
    "```yaml\nresults:\n  - tool: run_speed_test\n    download: 125\n```",
    "```\ntool: run_speed_test\nstatus: ok\n```",
    "```text\n{\"tool\": \"run_speed_test\", \"download\": 125}\n```",
    "```none\n{\"tool\": \"run_speed_test\", \"download\": 125}\n```",
    "```console\n{\"tool\": \"run_speed_test\", \"download\": 125}\n```",
    "```xyz\n{\"tool\": \"run_speed_test\", \"download\": 125}\n```",
    "~~~javascript\nconst r = {tool: 'run_speed_test', download: 125};\n~~~",
    "```python\nresult = {'tool': 'run_speed_test', 'download': 125}\n```",
    "    {\"tool\": \"run_speed_test\", \"download\": 125}",
    "\t{\"tool\": \"run_speed_test\", \"download\": 125}",
    "> {\"tool\": \"run_speed_test\",\n> \"download\": 125}",
    "> ```json\n> {\n>   \"tool\": \"run_speed_test\",\n>   \"download\": 125\n> }\n> ```",
    "> ```python\n> x = 1\n\n{\"tool\": \"run_speed_test\", \"download\": 125}",
    "     ```python\n{\"tool\": \"run_speed_test\", \"download\": 125}",
    "- ```python\n  x = 1\nThe result: {\"tool\": \"run_speed_test\", \"download\": 125}",
    "``` a`b\n{\"tool\": \"run_speed_test\", \"download\": 125}",
    "```xml\n<result>\n  <tool>run_speed_test</tool>\n  <download>125</download>\n</result>\n```",
    "<tool_name>run_speed_test</tool_name><download>125</download>",
    "<execution tool=\"run_speed_test\" download=\"125\" status=\"ok\"/>",
    "<tool>\nrun_speed_test\n</tool>\n<result>\n125 Mbps\n</result>",
    "```toml\n[result]\ntool = \"run_speed_test\"\ndownload = 125\n```",
    "```ini\ntool=run_speed_test\ndownload=125\n```",
    "```csv\ntool,download,upload\nrun_speed_test,125,73\n```",
    "tool;download;upload\nrun_speed_test;125;73",
    "```tsv\ntool\tdownload\nrun_speed_test\t125\n```",
    "| Tool | Download |\n|---|---|\n| run_speed_test | 125 |",
    "Tool | Download | Upload\n--- | --- | ---\nrun_speed_test | 125 | 73",
    "| Field | Value |\n|---|---|\n| Tool | `run_speed_test` |\n| Download | 125 Mbps |",
    "{\"tool\": {\"name\": \"run_speed_test\", \"download\": 125}}",
    "{\"tool\": {\"name\": \"run_speed_test\"}, \"result\": {\"download\": 125}}",
    "{\"run_speed_test\": {\"result\": 125}}",
    "{\"run_speed_test_result\": {\"status\": \"ok\", \"download\": 125}}",
    "{\"result\": {\"download\": 125}, \"function\": \"run_speed_test\"}",
    "{\"function\": {\"name\": \"run_speed_test\", \"arguments\": {}}, \"output\": \"125\"}",
    "{\"name\": \"run_speed_test\", \"result\": 125}",
    "{\"role\": \"tool\", \"name\": \"run_speed_test\", \"content\": \"125 Mbps\"}",
    "{\"action\": \"run_speed_test\", \"action_input\": {}, \"observation\": \"125 Mbps\"}",
    "Action: run_speed_test\nAction Input: {}\nObservation: 125 Mbps",
    "```\nThought: hm\nAction: run_speed_test\nAction Input: {}\nObservation: 125 Mbps\n```",
    "Action:\n```json\n{\"action\": \"run_speed_test\", \"action_input\": {}}\n```\nObservation: {\"download\": 125}",
    "Tool: run_speed_test\nDownload: 125 Mbps\nUpload: 73 Mbps",
    "**Tool:** run_speed_test\n\n**Result:** 125 Mbps",
    "- **Tool**: `run_speed_test`\n- **Status**: success\n- **Download**: 125 Mbps",
    "> Tool: run_speed_test\n> Result: 125 Mbps",
    "1. Tool: run_speed_test\n2. Result: 125 Mbps",
    "Tool: run_speed_test, Result: 125 Mbps",
    "Status: ok\nTool: run_speed_test\nDownload: 125",
    "Tool name = run_speed_test\nOutput = 125",
    "Tool → run_speed_test\nResult → 125",
    "Outil : run_speed_test\nRésultat : 125",
    "Werkzeug: run_speed_test\nErgebnis: 125",
    "工具：run_speed_test\n结果：125",
    "To\u{200b}ol: run_speed\u{ad}_test\nResult: 125",
    "result = {\"tool\": \"run_speed_test\", \"download\": 125}",
    "run_speed_test_result = {\"download\": 125}",
    "run_speed_test() -> {\"download\": 125}",
    "run_speed_test(server=1) => 125 Mbps",
    "`run_speed_test()` → \"125 Mbps\"",
    "```python\n>>> run_speed_test()\n{'tool': 'run_speed_test', 'download': 125}\n```",
    "run_speed_test(server=1) returned:\n```json\n{\"download\": 125}\n```",
    "The result of `run_speed_test`:\n\n```\n{\"download\": 125}\n```",
    "{\"to\u{200b}ol\": \"run_speed_test\", \u{200b}\"download\": 125}",
    "{\u{200b}\"tool\": \"run_speed_test\", \"download\": 125}",
    "{/* r */\"tool\": \"run_speed_test\", // x\n\"download\": 125}",
    "{\"tool\": \"run_speed_test\", # x\n\"download\": 125}",
    "{“tool”: “run_speed_test”, “download”: 125}",
    "{‘tool’: ‘run_speed_test’, ‘download’: 125}",
    "｛\"tool\"：\"run_speed_test\"，\"download\"：125｝",
    "{&quot;tool&quot;: &quot;run_speed_test&quot;, &quot;download&quot;: 125}",
    "{\\\"tool\\\": \\\"run_speed_test\\\", \\\"download\\\": 125}",
    "{`tool`: `run_speed_test`, `download`: 125}",
    "{\"tool\"\u{1}: <!-- x -->\"run_speed_test\", \"download\": 125}",
    "{\"tool\": \"run_\u{455}peed_test\", \"download\": 125}",
];

#[test]
fn a_result_in_any_dress() {
    let mut wrong = Vec::new();
    for text in DRESSES {
        for text in [text.to_owned(), format!("It is fast.\n\n{text}\n\nSo it is."), text.replace('\n', "\r\n")] {
            let judged = judge(&text);
            let codes = judged.codes.contains(&MissingExecutionId)
                && judged.codes.iter().all(|code| matches!(code, MissingExecutionId | TextualToolCall));
            if !codes || judged.released.contains("125") || judged.released.contains("ok") {
                wrong.push((text.clone(), judged.clone()));
            }
            let single = text.char_indices().map(|(at, c)| &text[at..at + c.len_utf8()]);
            assert_eq!(judge_pieces(single, &TextRules::default()), judged, "{text}");
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// An id in a table's cell stands behind no label: it is judged with its row.
#[test]
fn ids_in_columns() {
    for (head, cells, code) in [
        ("| Tool | Execution ID | Status |", "| check_net | exec_001 | ok |", Some(UnknownExecution)),
        ("| Tool | execution_id | Download |", "| run_speed_test | made-up-17 | 125 |", Some(UnknownExecution)),
        ("| Tool | Execution ID | Status |", &format!("| check_net | {VALID} | ok |"), Some(ToolMismatch)),
        ("| Tool | Execution ID | Status |", &format!("| run_speed_test | {VALID} | ok |"), None),
    ] {
        let text = format!("It went so:\n\n{head}\n|---|---|---|\n{cells}\n");
        let judged = judge(&text);
        assert_eq!(judged.codes.as_slice(), code.as_slice(), "{text}");
        let single = text.char_indices().map(|(at, c)| &text[at..at + c.len_utf8()]);
        assert_eq!(judge_pieces(single, &TextRules::default()), judged, "{text}");
    }
}

#[test]
fn verified_citations_leave_prose() {
    for (text, released) in [
        ("The tool returned (execution_id: X): ok", "The tool returned: ok"),
        ("**execution_id**: `X` ok", " ok"),
        ("up (X), down", "up, down"),
        ("up [`X`] X.", "up."),
        ("up (see execution_id: X)", "up"),
        ("up (execution_id: X, 3 s)", "up (3 s)"),
        ("done.\n\n*(Execution ID: X)*\n", "done.\n"),
        ("```json\n\"X\"\n```", "```json\n\"X\"\n```"),
        ("{\"a\": \"(X)\"} X", "{\"a\": \"(X)\"}"),
    ] {
        let text = text.replace('X', VALID);
        let judged = judge(&text);
        assert_eq!(judged.released, released.replace('X', VALID), "{judged:#?}");
        assert_eq!(judged.citations, [VALID]);
        let shown = judge_pieces([text.as_str()], &TextRules { show: true, ..TextRules::default() });
        assert_eq!(shown.released, text);
    }
}

/// Where a citation is taken out whole sentences are left, or it stays.
#[test]
fn the_clause_goes_with_the_citation() {
    for (text, released) in [
        ("The net is up with an execution ID of X.", "The net is up."),
        ("The net is up, with execution ID X.", "The net is up."),
        ("The net is up with the execution_id `X` and fast.", "The net is up and fast."),
        ("The net is up (execution ID of X).", "The net is up."),
        ("The net is up (see execution X).", "The net is up."),
        ("The net is up (execution: X).", "The net is up."),
        ("The net is up (3 s, execution_id: X).", "The net is up (3 s)."),
        ("The net is up [ref: X].", "The net is up."),
        ("I ran the check, whose execution id is X.", "I ran the check."),
        ("The net is up, see execution X.", "The net is up."),
        ("The net is up; its execution ID is X.", "The net is up."),
        ("The net is up, and the execution ID is X.", "The net is up."),
        ("The net is up, X.", "The net is up."),
        ("The net is up – execution_id: X.", "The net is up."),
        ("The net is up (X) now.", "The net is up now."),
        ("The net is up. The execution ID is X. All is well.", "The net is up. All is well."),
        ("The net is up. See execution X.", "The net is up."),
        ("The net is up. Execution ID: X.", "The net is up."),
        ("The test with execution ID X shows 5.", "The test shows 5."),
        ("The test, with execution ID X, shows 5.", "The test shows 5."),
        ("The net is up.\nExecution ID: X\nAll is well.", "The net is up.\nAll is well."),
        ("The net is up.\n\n**Execution ID:** `X`", "The net is up."),
        ("- Up: yes\n- Execution ID: X\n- Fast: no", "- Up: yes\n- Fast: no"),
        ("1. Up: yes\n2. Execution ID: X", "1. Up: yes"),
        ("It is 975 [source: (execution_id: X)].", "It is 975."),
        // A number that a line says is no list item's.
        ("975. (execution_id: X)", "975."),
        ("12.(X)", "12."),
        ("1. (X)", "1."),
        ("It was in\n1975. (execution_id: X)", "It was in\n1975."),
        ("The answer:\n\n975. (X)", "The answer:\n\n975."),
        ("7. (X)\n8. (X)", "7.\n8."),
        ("The net is up.\n1. (X)\n2. (X)\n3. X", "The net is up."),
        ("The net is up.\n1. execution_id: X", "The net is up."),
        // What the line or sentence opens goes with it.
        ("The net is up.\n\n*Source: execution_id X*", "The net is up."),
        ("The net is up.\n\n**Source: execution_id X**\nSo", "The net is up.\nSo"),
        ("The net is up.\n\n- *Source: execution_id X*\n- Bye", "The net is up.\n- Bye"),
        ("The net is up.\n\n***Source:** execution_id `X`*", "The net is up."),
        ("The net is up. *Source: execution X.* All is well.", "The net is up. All is well."),
        ("**The net is up.\nSource: execution_id X**", "**The net is up.**"),
        ("> Up\n> Source: X\n", "> Up\n"),
        ("Das Netz läuft mit der Ausführungs-ID X.", "Das Netz läuft."),
        ("Das Netz läuft (siehe Ausführung X).", "Das Netz läuft."),
        ("Le réseau marche avec l'identifiant d'exécution X.", "Le réseau marche."),
        ("La red funciona con el ID de ejecución X.", "La red funciona."),
        ("A rede funciona com o ID de execução X.", "A rede funciona."),
        ("La rete funziona con l'ID di esecuzione X.", "La rete funziona."),
        ("Het net werkt met uitvoerings-ID X.", "Het net werkt."),
        ("网络正常（执行ID：X）。", "网络正常。"),
        // What leaves no whole sentence without it stays.
        ("Execution X shows that it is up.", "Execution X shows that it is up."),
        ("I cite the execution X here.", "I cite the execution X here."),
        ("According to execution X, it is up.", "According to execution X, it is up."),
        ("| Speed | Execution ID |\n|---|---|\n| 125 | X |", "| Speed | Execution ID |\n|---|---|\n| 125 | X |"),
        ("| execution_id | X |", "| execution_id | X |"),
        ("The id of the check is X.", "The id of the check is X."),
        ("X says that it is up.", "X says that it is up."),
        ("You can look it up under the following line: X.", "You can look it up under the following line: X."),
    ] {
        let (text, released) = (text.replace('X', VALID), released.replace('X', VALID));
        let judged = judge(&text);
        assert_eq!((judged.codes.as_slice(), judged.released.as_str()), (&[][..], released.as_str()), "{text}");
        assert_eq!(judged.citations, [VALID]);
        let single = text.char_indices().map(|(at, c)| &text[at..at + c.len_utf8()]);
        assert_eq!(judge_pieces(single, &TextRules::default()), judged, "{text}");
    }
}

/// What is said instead of a claim doesn't stand in what the model had opened before it.
#[test]
fn what_is_open_is_closed() {
    let block = "{\"tool\": \"check_net\", \"up\": 1}";
    for (before, released, closing) in [
        ("It is:\n```json\n", "It is:", ""),
        ("It is:\n\n~~~\n  ", "It is:", ""),
        ("```json\n// it\n", "```json\n// it", "\n```"),
        ("````yaml\na: 1\n\n", "````yaml\na: 1", "\n````"),
        ("~~~\nx\n```\n", "~~~\nx\n```", "\n~~~"),
        ("```\nx\n```\n", "```\nx\n```", ""),
        ("> ```\n> x\n> ", "> ```\n> x\n>", ""),
        ("so <!-- it is ", "so <!-- it is", " -->"),
        ("<details><summary>It</summary>\n\n", "<details><summary>It</summary>", "</details>"),
        ("<b>it</b> <pre><code>x ", "<b>it</b> <pre><code>x", "</code></pre>"),
        ("so\n$$\nx = ", "so\n$$\nx =", "\n$$"),
        ("so\n$$\nx\n$$\n", "so\n$$\nx\n$$", ""),
        ("`<details>` and `<!--` are ", "`<details>` and `<!--` are", ""),
        ("Vec<T> a < b $5 $$ ", "Vec<T> a < b $5 $$", ""),
    ] {
        let text = format!("{before}{block}");
        let judged = judge(&text);
        assert_eq!(judged.codes, [MissingExecutionId], "{text}");
        assert_eq!((judged.released.as_str(), judged.closing.as_str()), (released, closing), "{text}");
        let single = text.char_indices().map(|(at, c)| &text[at..at + c.len_utf8()]);
        assert_eq!(judge_pieces(single, &TextRules::default()), judged, "{text}");
    }
}

/// docs/contract.md#what-is-judged-as-a-citation.
#[test]
fn what_explains_an_id_claims_none() {
    for (text, codes) in [
        ("An execution id looks like `execution_id: abc123`.", &[] as &[Code]),
        ("For example, a result carries (execution_id: exec-1).", &[]),
        ("Here is an example:\n\n```json\n{\"execution_id\": \"abc123\", \"speed\": 5}\n```", &[]),
        ("## Format\n\n- execution_id: exec_12345", &[]),
        ("Use `GET /runs?execution_id=1` or `--execution-id=17`, or SELECT * FROM runs WHERE execution_id = 1.", &[]),
        ("Replace YOUR_ID in `execution_id=YOUR_ID_1` with the id.", &[]),
        ("execution_id: 12345 is only a placeholder.", &[]),
        ("Zum Beispiel steht dort execution_id: abc-1.", &[]),
        ("An id such as search_1234567890123_abcdef0123456789 would be an example.", &[]),
        ("An id such as search_1234567890123_abcdef0123456789 came back.", &[UnknownExecution]),
        ("For example, execution_id: search_1234567890123_abcdef0123456789.", &[UnknownExecution]),
        ("For example search_1700000000000_abcdef0123456789.", &[UnknownExecution]),
        ("For example, I checked it (execution_id: abc123).", &[UnknownExecution]),
        ("That is an example. The net is up (execution_id: abc123).", &[UnknownExecution]),
        ("Here is an example:\n\n```json\n{\"tool\": \"check_net\", \"up\": 1, \"execution_id\": \"abc123\"}\n```", &[UnknownExecution]),
        ("For example:\n\nexecution_id: abc123\ntool: check_net\nresult: up in 3 s", &[UnknownExecution]),
        ("```yaml\nexecution_id: abc123\ntool: check_net\nresult: up in 3 s\n```", &[UnknownExecution]),
    ] {
        check(text, codes);
        let single = text.char_indices().map(|(at, c)| &text[at..at + c.len_utf8()]);
        assert_eq!(judge_pieces(single, &TextRules::default()), judge(text), "{text}");
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
    let rules = TextRules {
        extra_patterns: Arc::new([Regex::new(r"ref#(?<id>\S+)").unwrap()]),
        phrases: Arc::new([phrase("(?i)approved players:", "run_speed_test"), phrase("checked", "check_net")]),
        ..TextRules::default()
    };
    let text = format!("a checked line\nref#{VALID} ref#zz9 ref#none\nApproved players: A\n");
    let judged = judge_pieces([text.as_str()], &rules);
    assert_eq!(judged.codes, [UnknownExecution, UnsupportedClaim]);
    assert_eq!(judged.released, "a checked line");
    let mut gate = TextGate::new();
    assert_eq!(gate.handle("one\ntwo words", &rules, &Stub), GateProgress::Flow);
    assert_eq!(gate.cleared(), 3);
}

/// The default checks without those of claims that block: with them a sentence is held until it has ended.
fn no_claims() -> Checks {
    let claims = [Code::ClaimMismatch, Code::UnsupportedAction, Code::FailedExecution];
    claims.into_iter().fold(Checks::default(), |checks, code| checks.with(code, Severity::Warn))
}

#[test]
fn what_flows_at_once() {
    let show = TextRules { show: true, checks: no_claims(), ..TextRules::default() };
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
        assert_eq!(gate.handle(text, &show, &Stub), GateProgress::Flow);
        assert_eq!(gate.cleared(), cleared.len(), "{text}");
    }
    let mut gate = TextGate::new();
    assert_eq!(gate.handle("all ", &TextRules { hold_all: true, ..show }, &Stub), GateProgress::Flow);
    assert_eq!(gate.cleared(), 0);
}

#[test]
fn the_ledger_is_asked() {
    let rules = TextRules { ask_ledger: true, checks: no_claims().with(ExecutionElsewhere, Severity::Block), ..TextRules::default() };
    for (same_session, codes) in [(true, &[] as &[Code]), (false, &[ExecutionElsewhere])] {
        let mut gate = TextGate::new();
        let need = GateProgress::Need(vec![AWAY.to_owned()]);
        assert_eq!(gate.handle(&format!("so (execution_id: {AWAY}) it"), &rules, &Stub), need);
        assert_eq!(gate.cleared(), "so".len());
        gate.answer(AWAY, LedgerAnswer { same_session, unavailable: false });
        assert_eq!(gate.finish(&rules, &Stub), GateProgress::Flow);
        assert_eq!(gate.violations().iter().map(|violation| violation.code).collect::<Vec<_>>(), codes);
        assert_eq!(gate.blocked().is_some(), !same_session);
    }
}

#[test]
fn too_much_is_refused() {
    let rules = TextRules { held_bytes_max: 1000, ..TextRules::default() };
    let block = format!("so {{\"a\": \"{}\"}}", "é".repeat(600));
    let wide = format!("so run{}_x", "\u{200b}".repeat(600));
    for text in [block, wide] {
        let judged = judge_pieces([text.as_str()], &rules);
        assert_eq!((judged.codes, judged.released), (vec![MissingExecutionId], "so".to_owned()));
    }
}
