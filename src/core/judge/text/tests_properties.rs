//! Properties: however a text is cut, the verdict and the released text are the same.

use std::sync::Arc;

use proptest::{collection::vec, prelude::*, sample::select};
use regex::Regex;

use super::{
    GateProgress, PhraseRule, TextGate, TextRules,
    tests::{AWAY, FAKE, OLD, OTHER, Stub, VALID, judge_pieces},
};
use crate::violation::Code;

const SCRAPS: [&str; 116] = [
    " with an ",
    "see ",
    "whose ",
    "; its ",
    ", ",
    "- ",
    "mit der Ausführungs-",
    "l'identifiant d'exé",
    "For example ",
    "returned",
    "\n\n",
    "<details>",
    "$$",
    "\n```js x\n",
    "The id is ",
    "1. ",
    "Tool: run_speed_test\n",
    "Result: 125",
    "\nStatus",
    "| Tool | Up |\n",
    "| check_net | 1 |",
    "check_net() -> ",
    "> ",
    "- ",
    "```",
    "“",
    "”",
    "&quot;",
    "\\\"",
    "/*",
    "*/",
    "// ",
    "<!-- ",
    "-->",
    "[](u)",
    "](u)",
    "<x>",
    "</td><td>",
    " is ",
    " -> ",
    "|",
    "实行",
    "执行ID",
    "ID d'exécution",
    "а",
    "\u{1}",
    "&shy",
    "&#95",
    "%31",
    VALID,
    FAKE,
    OLD,
    AWAY,
    OTHER,
    "execution_id",
    "Execution ID",
    "execution",
    " ",
    "id",
    ": ",
    "=",
    "\"",
    "'",
    "`",
    "**",
    "*",
    "_",
    "\n",
    "\n```\n",
    "\n```json\n",
    "\n~~~py\n",
    "~~~",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "{\"tool\": \"run_speed_test\", ",
    "\"download\": 1}",
    "\"execution_id\": \"",
    "tool",
    "check_net",
    "a1",
    "12",
    ",",
    ", ",
    "<b>",
    "</b>",
    "<",
    "&#95;",
    "&",
    "\u{200b}",
    "\\",
    "\\_",
    "\\u005f",
    "%5F",
    "%",
    "é",
    "日",
    "ﬁ",
    "wf-77a",
    "x",
    "  ",
    "1700000000000",
    "_0123456789abcdef",
    "{'a': ",
    "(1, 2)",
    "ref#",
    "<tool_call>",
    "Action: check_net\n",
    "\nObservation:",
    ". ",
    "{\"name\": \"check_net\", \"arguments\": {}}",
    "said",
    ".",
];

fn text() -> impl Strategy<Value = String> {
    vec(select(&SCRAPS[..]), 0..24).prop_map(|scraps| scraps.concat())
}

fn rules() -> impl Strategy<Value = TextRules> {
    (any::<bool>(), any::<bool>(), any::<bool>(), select(vec![40, 300, 1 << 20])).prop_map(|(show, json_only, lines, held_bytes_max)| {
        let mut rules = TextRules { show, json_only, held_bytes_max, ..TextRules::default() };
        if lines {
            let regex = Regex::new("said").unwrap();
            rules.extra_patterns = Arc::new([Regex::new(r"ref#(?<id>\S+)").unwrap()]);
            rules.phrases =
                Arc::new([PhraseRule { name: "p".into(), regex, requires: vec!["none".into()], turn: false, message: String::new() }]);
        }
        rules
    })
}

fn pieces<'t>(text: &'t str, cuts: &[usize]) -> Vec<&'t str> {
    let mut places: Vec<usize> = cuts.iter().map(|cut| text.floor_char_boundary(cut % (text.len() + 1))).collect();
    places.extend([0, text.len()]);
    places.sort_unstable();
    places.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn cuts_change_nothing(text in text(), cuts in vec(any::<usize>(), 0..8), rules in rules()) {
        let whole = judge_pieces([text.as_str()], &rules);
        prop_assert_eq!(&judge_pieces(pieces(&text, &cuts), &rules), &whole);
        let single = text.char_indices().map(|(at, c)| &text[at..at + c.len_utf8()]);
        prop_assert_eq!(&judge_pieces(single, &rules), &whole);
    }

    #[test]
    fn the_quick_way_past_texts_passes_no_id(text in text(), rules in rules()) {
        let judged = judge_pieces([text.as_str()], &rules);
        let ids = [Code::UnknownExecution, Code::ExpiredExecution, Code::ExecutionElsewhere, Code::LedgerUnavailable];
        let found = judged.codes.iter().any(|code| ids.contains(code)) || !judged.citations.is_empty();
        prop_assert!(!found || TextGate::may_find_ids(&text, &rules));
    }

    #[test]
    fn ids_that_are_not_ours_never_leave(text in text(), before in "[a-z(*` \n]{0,8}", after in "[) .,\n]{1,4}") {
        let text = format!("{text} {before}{FAKE}{after}");
        let judged = judge_pieces([text.as_str()], &TextRules { show: true, ..TextRules::default() });
        prop_assert!(judged.blocked.is_some());
        let hex = text.rfind("ffffffffffffffff").unwrap();
        prop_assert!(judged.cleared <= hex - "run_speed_test_1700000000000_".len());
    }

    #[test]
    fn any_text_is_judged(text in any::<String>(), cuts in vec(any::<usize>(), 0..4)) {
        let whole = judge_pieces([text.as_str()], &TextRules::default());
        prop_assert_eq!(judge_pieces(pieces(&text, &cuts), &TextRules::default()), whole);
    }
}

/// What random texts seldom come to: something undecided where a bound is, or where a line has only begun.
#[test]
fn cuts_change_nothing_where_it_is_hard() {
    let small = TextRules { held_bytes_max: 40, ..TextRules::default() };
    let left = |blanks: usize| format!("> ```\n> {{\"tool\": \"run_speed_test\", \"a\": 1,\n{}x", " ".repeat(blanks));
    let long = format!("tool: check_net\nresult: 1 {}. For example, execution_id: abc-1.", "x ".repeat(2500));
    let mut texts = vec![
        "{\"tool\": \"run_speed_test\", <!-- | Tool | Up |\n".to_owned(),
        "\nStatus{}{\"tool\": \"run_speed_test\", Action: check_net\n with an \"".to_owned(),
        "{\"tool\": \"run_speed_test\", \"download\":&quot;}".to_owned(),
        "{\"tool\": \"run_speed_test\", \"download\": é}".to_owned(),
        "Tool: run_speed_test\n1. <tool_call> with an ".to_owned(),
        "Tool: run_speed_test\n&shyResult: 125".to_owned(),
        "Tool: run_speed_test\n; its 1700000000000- tool1700000000000Tool: run_speed_test\n".to_owned(),
        "Tool: run_speed_test\nRésult <b>&colon; 125".to_owned(),
        "> | tool | run_speed_test |\n> | result | 125 |\n".to_owned(),
        format!("** (execution_id: {VALID}) "),
        format!("It is up, '[({VALID})]. So"),
        format!("({VALID}; its "),
        format!("~~~”\"execution_id\": \"~~~mit der Ausführungs-\n{FAKE} with an "),
        "~~~Execution IDrun_speed_test_1700000000000_0123456789abcdef>  with an \n\n".to_owned(),
        "```”run_speed_test_1700000000000_ffffffffffffffff; its \n".to_owned(),
        "\"execution_id\": \"'ID d'exécution: 1700000000000".to_owned(),
        long.clone(),
        format!("{long}\nso"),
    ];
    texts.extend((0..16).map(left));
    for text in &texts {
        for rules in [&small, &TextRules::default()] {
            let whole = judge_pieces([text.as_str()], rules);
            let single = text.char_indices().map(|(at, c)| &text[at..at + c.len_utf8()]);
            assert_eq!(judge_pieces(single, rules), whole, "{text}");
        }
    }
    let judged = judge_pieces([texts[0].as_str()], &small);
    assert_eq!((judged.codes, judged.released), (vec![Code::MissingExecutionId], String::new()));
    // A line that is too long to be read to its end is judged all the same where the text ends in it.
    assert_eq!(judge_pieces([long.as_str()], &TextRules::default()).codes, [Code::MissingExecutionId]);
}

#[test]
fn long_runs_in_small_pieces() {
    let text = format!("{}_{FAKE} {}", "ab_1".repeat(5000), "x*y".repeat(5000));
    let whole = judge_pieces([text.as_str()], &TextRules::default());
    assert_eq!(whole.codes.len(), 1);
    assert_eq!(judge_pieces(pieces(&text, &(0..3000).map(|n| n * 13).collect::<Vec<_>>()), &TextRules::default()), whole);
    let mut gate = TextGate::new();
    for _ in 0..10_000 {
        assert_eq!(gate.handle("abcdefgh", &TextRules::default(), &Stub), GateProgress::Flow);
    }
    assert!(gate.cleared() > 70_000);
}

/// What would take minutes if anything were read again and again.
#[test]
fn adversaries_cost_no_more_than_their_length() {
    for scrap in [
        "{",
        "{\"a\":",
        "{\"a\":{'b':[",
        "`",
        "execution_id: ",
        "execution_id: \"",
        "execution_id:'\"",
        "{'{\"",
        "<b",
        "&#9",
        "\\",
        "*a",
        "a*",
        "((((",
        "\n```\n",
        "{\"tool\":\"check_net\",\"up\":1},",
        "execution ",
        "a_1700000000000_",
        "{\"a\":\"",
        "\u{200b}",
        "<!--",
        "a<!--",
        "a<b '\"",
        "a<b x",
        "[](",
        "_1_](",
        "{“",
        "{/*",
        "{&quot;&",
        "{\\\"",
        "Tool: x\n",
        "Tool: check_net\nResult: 1\n",
        "tool,a\n",
        "|tool|a|",
        "check_net() -",
        "<tool>",
        "> - 1. ",
        "id de ",
        "execution_id is <!-- ",
        "(execution_id:",
    ] {
        let text = scrap.repeat((128 << 10) / scrap.len());
        let whole = judge_pieces([text.as_str()], &TextRules::default());
        let cuts: Vec<&str> = text.as_bytes().chunks(scrap.len() * 3).map(|piece| std::str::from_utf8(piece).unwrap()).collect();
        assert_eq!(judge_pieces(cuts, &TextRules::default()), whole, "{scrap}");
    }
}
