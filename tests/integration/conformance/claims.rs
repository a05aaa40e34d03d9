//! Rows: what an answer claims, compared with what the tools returned.

use toolmark::violation::Code;

use super::{
    exchange::{Case, after, case, text},
    stage::execution,
};

const RESULT: &str = r#"{"mbit": 90.4, "servers": ["fra1", "ams2", "ber3"], "page": "https://speed.test.io/r/12"}"#;

pub fn cases() -> Vec<Case> {
    [warned(), written(), blocked(), honest()].concat()
}

/// Every wrong claim, with `ID` for the id of the result: name, code, claim.
const WRONG: [(&str, &str, Code, &str); 6] = [
    ("claim_mismatch", "claim_mismatch_blocked", Code::ClaimMismatch, r#"So: {"execution_id": "ID", "mbit": 47.2, "note": "s3cret"}"#),
    ("ungrounded_value", "ungrounded_value_blocked", Code::UngroundedValue, "It is 47.2 Mbit/s (execution_id: ID), s3cret."),
    ("fabricated_url", "fabricated_url_blocked", Code::FabricatedUrl, "See https://speed.test.io/s3cret (execution_id: ID)."),
    ("count_mismatch", "count_mismatch_blocked", Code::CountMismatch, "I found 12 servers (execution_id: ID), s3cret."),
    ("false_absence", "false_absence_blocked", Code::FalseAbsence, "No servers were found (execution_id: ID), s3cret."),
    ("unsupported_action", "unsupported_action_blocked", Code::UnsupportedAction, "I ran the speed test, s3cret."),
];

/// The default policy blocks what is certain of these; here everything warns.
const WARN: &str = "[checks]\nclaim_mismatch = \"warn\"\nunsupported_action = \"warn\"\nfailed_execution = \"warn\"\n";
const BLOCK: &str = "[checks]\nclaim_mismatch = \"block\"\nungrounded_value = \"block\"\nfabricated_url = \"block\"\ncount_mismatch = \"block\"\nfalse_absence = \"block\"\nunsupported_action = \"block\"\nfailed_execution = \"block\"\n";

fn wrong(name: &'static str, code: Code, claim: &str) -> Case {
    let claim = claim.replace("ID", &execution("run_speed_test", 1));
    let case = case(name).model([text(claim)]);
    if code == Code::UnsupportedAction { case } else { case.history(after(1, RESULT)) }
}

fn warned() -> Vec<Case> {
    let plain = |claim: &str| claim.replace(" (execution_id: ID)", "").replace("ID", &execution("run_speed_test", 1));
    let of = |name: &'static str, code: Code, claim: &str| wrong(name, code, claim).policy(WARN).warns(&[code]).gets(&plain(claim), &[]);
    let mut cases: Vec<Case> = WRONG.iter().map(|(name, _, code, claim)| of(name, *code, claim)).collect();
    // Nothing but an address and a citation says that the result has the address.
    cases.push(of("fabricated_url_alone", Code::FabricatedUrl, "https://speed.test.io/secret (execution_id: ID)"));
    cases.push(of("claim_mismatch_line", Code::ClaimMismatch, "From (execution_id: ID):\n- Mbit: 47.2\n"));
    let id = execution("run_speed_test", 1);
    cases.push(
        case("failed_execution")
            .policy(WARN)
            .history(after(1, "Error: down"))
            .model([text(format!("The speed test was completed successfully (execution_id: {id})."))])
            .warns(&[Code::FailedResult, Code::FailedExecution])
            .gets("The speed test was completed successfully.", &[]),
    );
    cases
}

/// Calls and results written as text.
fn written() -> Vec<Case> {
    let call = "<tool_call>\n{\"name\": \"check_net\", \"arguments\": {}}\n</tool_call>";
    let mended = |name: &'static str, words: &str| {
        case(name)
            .model([text(words)])
            .model([text("I would have to run it first.")])
            .repaired(&[Code::MissingExecutionId], 1)
            .never("s3cret")
    };
    vec![
        case("textual_tool_call")
            .policy("[calls]\npromote_textual = \"off\"\n")
            .model([text(call)])
            .warns(&[Code::TextualToolCall])
            .gets(call, &[]),
        case("textual_tool_call_blocked")
            .policy("[calls]\npromote_textual = \"off\"\n[checks]\ntextual_tool_call = \"block\"\n")
            .model([text(call)])
            .model([text("One moment.")])
            .repaired(&[Code::TextualToolCall], 1)
            .never("tool_call>"),
        mended("transcript", "Action: check_net\nObservation: s3cret").policy("[stream]\nhold = \"all\"\n"),
        mended("output_written", "<tool_response>\ns3cret\n</tool_response>"),
    ]
}

fn blocked() -> Vec<Case> {
    let mended =
        |case: Case, codes: &[Code]| case.policy(BLOCK).model([text("I would have to look again.")]).repaired(codes, 1).never("s3cret");
    let mut cases: Vec<Case> = WRONG.iter().map(|(_, name, code, claim)| mended(wrong(name, *code, claim), &[*code])).collect();
    let id = execution("run_speed_test", 1);
    let failed = case("failed_execution_blocked")
        .history(after(1, "Error: down"))
        .model([text(format!("The speed test was completed successfully, s3cret (execution_id: {id})."))]);
    cases.push(mended(failed, &[Code::FailedResult, Code::FailedExecution]));
    cases
}

/// True, rounded, converted, counted, and about nothing that a tool returned.
fn honest() -> Vec<Case> {
    let id = execution("run_speed_test", 1);
    let says = |name: &'static str, words: &str| {
        case(name)
            .policy(BLOCK)
            .history(after(1, RESULT))
            .model([text(words.replace("ID", &id))])
            .gets(Box::leak(words.replace(" (execution_id: ID)", "").into_boxed_str()), &[])
    };
    vec![
        says("rounded", "It is 90 Mbit/s (execution_id: ID)."),
        says("converted", "That is 11.3 MB/s (execution_id: ID)."),
        says("counted", "I found 3 servers (execution_id: ID). See https://speed.test.io/r/12."),
        says("uncited", "A good line has 100 Mbit/s or 250. No servers are in Rome."),
    ]
}
