//! Honest text is never stopped, and never changed.

use super::{
    TextRules,
    tests::{VALID, judge, judge_pieces},
};

#[test]
fn honest_text_passes_unchanged() {
    for text in [
        "id 550e8400-e29b-41d4-a716-446655440000, commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
        "arn:aws:iam::123456789012:role/x AKIAIOSFODNN7EXAMPLE i-0abcdef1234567890 ami_2024_01",
        "snake_case_with_123_digits_4 and file_1700000000000_backup.tar.gz and img_20240101_123456",
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "Every result carries an execution_id, which you cite. Execution IDs are checked. The execution ID is in front.",
        "{\"type\": \"object\", \"properties\": {\"execution_id\": {\"type\": \"string\", \"maxLength\": 64}}, \"required\": [\"execution_id\"]}",
        "[{\"type\": \"function\", \"function\": {\"name\": \"run_speed_test\", \"description\": \"d\", \"parameters\": {\"type\": \"object\"}}}]",
        "Tools:\n- {\"tool\": \"run_speed_test\", \"description\": \"Measures 2 things\"}\n- {\"tool\": \"check_net\", \"parameters\": {}}",
        "body { color: red; margin: 0 } .a > b { content: \"{\"; }",
        "{\"steps\":[{\"tool\":\"check_net\",\"status\":\"pending\"},{\"tool\":\"run_speed_test\",\"status\":\"To do\"}]}",
        "{\"tool\": \"check_net\", \"priority\": 1, \"timeout_s\": 30, \"expected_output\": \"up or down\", \"depends_on\": []}",
        "const x = { a: 1, b: [2, 3], c: () => { return 4; } };",
        "function f() { if (a) { return { b: c }; } }",
        "$\\frac{1}{2} + \\sqrt{x_{1}}$ and \\textbf{bold}",
        "Hello {{name}}, {{ user.id }}, {% if x %}, ${HOME}, {0}, {:?}, f'{value:.2f}' and {\"x\" | upper}",
        "```rust\nstruct A { execution_id: u64 }\nlet a = A { execution_id: 12 };\n```\n",
        "~~~python\nd = {'tool': 'run_speed_test', 'download': 1}\nexecution_id = 'a1'\n~~~\n",
        "a < b && c > d; 50% of 5 <br> R&D &amp; AT&T <div>x</div> \\n \\u00e9 \\alpha",
        "*bold* **stars** `code` ~~gone~~ ***\n---\n```\nplain\n```\n",
        "“quoted” (bracketed) [link](http://x.y/z_1?a=1%20b) <mailto:a@b.c>",
        "日本語、한국어, Русский, ελληνικά, ﬁne, ½, ①, 😀👍🏽, naïve café",
        "regex \\d{13}_[0-9a-f]{16} and {1,128}",
        "{\"name\": \"run_speed_test\", \"arguments\": {\"server\": 1}} calls it.",
        "{\"users\": [{\"id\": 1, \"tool\": \"hammer\", \"status\": \"ok\"}], \"note\": \"it's {fine}\"}",
        "{'a': 'it's broken', \"b\"} {\"unclosed",
        "",
        " \n\n ",
        // Configurations, manifests, documentation and code that name tools.
        "```yaml\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: check_net\ndata:\n  interval: 30\n  status: on\n```",
        "```yaml\nagent: net\ntools:\n  - tool: check_net\n    schedule: \"*/5 * * * *\"\n    on_failure: notify\n```",
        "```yaml\nsteps:\n  - name: run_speed_test\n    uses: actions/speed@v4\n    with:\n      server: 3\n```",
        "```toml\n[tools.check_net]\nenabled = true\ntimeout = 5\n```",
        "```ini\n[check_net]\ntool=check_net\nenv=prod\npolicy=strict\n```",
        "| Tool | Description |\n|---|---|\n| check_net | Tells whether the net is up |\n| run_speed_test | Measures it |",
        "| Tool | Parameters | Returns |\n|---|---|---|\n| run_speed_test | server, timeout | the speed in Mbps |",
        "| Name | Score |\n|---|---|\n| Ada | 12 |\n| Bob | 7 |\n\nTool: hammer\nResult: a hole of 3 mm",
        "Tool: check_net\nDescription: tells whether the net is up\nInput: none\nOutput: whether it is up",
        "- `check_net()` → whether the net is up\n- `run_speed_test(server)` -> dict\n- `run_speed_test(server) -> Result<Speed, Error>`",
        "```python\ndef check_net() -> bool:\n    return {\"tool\": \"check_net\", \"up\": True}\n```",
        "```ts\nrun_speed_test(): Promise<{download: number, upload: number}>\n```\nrun_speed_test() -> {download: number, upload: string}",
        "To run it: `check_net({\"host\": \"a\", \"depth\": 3})`. The arguments of check_net: {\"host\": \"a\"}",
        "{\"tools\": {\"check_net\": {\"enabled\": true, \"timeout\": 5}}}",
        "{\"mcpServers\": {\"net\": {\"command\": \"check_net\", \"args\": [\"-v\"]}}}",
        "{\"type\": \"function\", \"function\": {\"name\": \"check_net\", \"description\": \"d\", \"parameters\": {}}, \"strict\": true}",
        "Result: all 12 tests passed.\nStatus: done\nNext: deploy",
        "Name: Ada\nRole: admin\nAction: none needed\nOutput: 3 files",
        "Status of the work: fine.\n\n**Result:** We won 3:1.\n\n**Note:** check_net is one of the tools.",
        "Tools I have: check_net, run_speed_test. Tool: none was used.",
        "<details><summary>check_net</summary>Tells whether the net is up.</details>",
        "<p>tool</p><ul><li>check_net</li></ul>",
        "{“quoted”: “words”} 「工具」と結果",
    ] {
        let judged = judge(text);
        assert!(judged.codes.is_empty(), "{text}\n{judged:#?}");
        assert_eq!(judged.released, text);
        let single = text.char_indices().map(|(at, c)| &text[at..at + c.len_utf8()]);
        assert_eq!(judge_pieces(single, &TextRules::default()), judged, "{text}");
    }
}

/// What stands right before a citation is the answer's, whatever lies between.
#[test]
fn only_the_citation_is_taken_out() {
    for (text, released) in [
        (format!("It is 21<sup>{VALID}</sup> now"), "It is 21<sup></sup> now"),
        (format!("not shipped<sup>{VALID}</sup>"), "not shipped<sup></sup>"),
        (format!("The price is **1250**{VALID}."), "The price is **1250**."),
        (format!("The price is 1250`{VALID}`."), "The price is 1250."),
        (format!("**Note**_{VALID}_ x"), "**Note** x"),
        (format!("so **{VALID}** x"), "so x"),
        (format!("It is up (execution_id: {VALID})."), "It is up."),
    ] {
        let judged = judge(&text);
        assert_eq!((judged.codes.as_slice(), judged.released.as_str()), (&[][..], released), "{text}");
        let single = text.char_indices().map(|(at, c)| &text[at..at + c.len_utf8()]);
        assert_eq!(judge_pieces(single, &TextRules::default()), judged, "{text}");
    }
}
