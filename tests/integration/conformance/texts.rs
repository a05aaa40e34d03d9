//! Rows: violations in what the model says.

use toolmark::violation::Code;

use super::{
    exchange::{Case, Ending, Got, SAFE, Said, Step, Turn, Which, after, call_as, case, custom, good, text},
    requests::OBSERVED,
    stage::execution,
};

const FORGED: &str = "run_speed_test_1700000000000_deadbeefdeadbeef";
const RELEASED: &str = "what was said before the claim has left, so the answer can't be had anew";
const BEFORE: &str = "The line was measured from three places in the afternoon, by hand. ";
const PHRASE: &str =
    "[[claims]]\nname = \"approved\"\npattern = '(?i)approved players:'\nrequires = [\"run_speed_test\"]\nmessage = \"Call it first.\"\n";

pub fn cases() -> Vec<Case> {
    [citations(), places(), blocks(), released(), required()].concat()
}

/// A claim that blocks, then something harmless.
fn mended(name: &'static str, code: Code, claim: String) -> Case {
    case(name).model([text(claim)]).model([text("I would have to run it first.")]).repaired(&[code], 1).never("s3cret")
}

fn cited(tool: &str, number: u16) -> String {
    format!("(execution_id: {}) says s3cret.", execution(tool, number))
}

fn citations() -> Vec<Case> {
    let elsewhere = execution("run_speed_test", 7);
    vec![
        mended("unknown_execution", Code::UnknownExecution, format!("(execution_id: {FORGED}) says s3cret.")).never("deadbeefdeadbeef"),
        mended("unknown_execution_label", Code::UnknownExecution, "Execution ID: 8f3a-s3cret-771b".into()),
        mended("unknown_execution_exhausted", Code::UnknownExecution, format!("(execution_id: {FORGED}) says s3cret."))
            .policy("[calls]\nmax_repairs = 0\n")
            .replaced(&[Code::UnknownExecution], 0, SAFE)
            .never("deadbeefdeadbeef"),
        mended("unknown_execution_in_json", Code::UnknownExecution, format!("{{\"id\": \"{FORGED}\", \"mbit\": \"s3cret\"}}"))
            .json()
            .policy("[calls]\nmax_repairs = 0\n")
            .replaced(&[Code::UnknownExecution], 0, SAFE)
            .differs(Which::Streams, RELEASED, |expected| expected.got = Some(Got::Words("{\"id\":", SAFE))),
        case("claim_and_bad_call")
            .model([text(format!("(execution_id: {FORGED}) s3cret")), super::exchange::call("delete_all", r#"{"a":"s3cret"}"#)])
            .model([good()])
            .repaired(&[Code::UnknownTool, Code::UnknownExecution], 1)
            .never("s3cret"),
        mended("expired_execution", Code::ExpiredExecution, cited("run_speed_test", 900))
            .policy("[results]\nwindow = \"1h\"\n")
            .history(after(900, "90")),
        case("execution_elsewhere")
            .model([text(format!("It is 90 Mbit/s (execution_id: {elsewhere})."))])
            .warns(&[Code::ExecutionElsewhere]),
        mended("execution_elsewhere_blocked", Code::ExecutionElsewhere, cited("run_speed_test", 7))
            .policy("[checks]\nexecution_elsewhere = \"block\"\n"),
    ]
}

/// Claims in odd places.
fn places() -> Vec<Case> {
    let id = execution("run_speed_test", 1);
    let half = "(execution_id: run_speed_test_1700000000000_dead";
    vec![
        mended("unknown_execution_in_a_refusal", Code::UnknownExecution, String::new())
            .turns([vec![Said::Refusal(format!("(execution_id: {FORGED}) says s3cret."))], vec![text("I would have to run it first.")]]),
        mended("unknown_execution_behind_a_call", Code::UnknownExecution, String::new())
            .turns([vec![good(), text(format!("(execution_id: {FORGED}) says s3cret."))], vec![good()]]),
        mended("unknown_execution_in_two_texts", Code::UnknownExecution, String::new()).turns([
            vec![text("(execution_id: run_speed_test_1700000000000_dead"), text("beefdeadbeef) says s3cret.")],
            vec![text("I would have to run it first.")],
        ]),
        mended("unknown_execution_between_calls", Code::UnknownExecution, String::new())
            .turns([vec![good(), text(format!("(execution_id: {FORGED}) s3cret.")), call_as("call_u2", "check_net", "{}")], vec![good()]]),
        mended("unknown_execution_in_custom_input", Code::UnknownExecution, String::new())
            .turns([vec![custom("call_u1", "sql", &format!("select '{FORGED}' -- s3cret"))], vec![good()]]),
        mended("unknown_execution_with_a_verified_one", Code::UnknownExecution, format!("(execution_id: {FORGED}), ({id}) s3cret."))
            .history(after(1, "90")),
        mended("unknown_execution_in_capitals", Code::UnknownExecution, format!("Execution ID: {} s3cret.", FORGED.to_uppercase())),
        case("cut_in_an_id").turn(Turn::Says(vec![text(half)], Ending::Length)).replaced(&[Code::UnknownExecution], 1, SAFE),
        mended("registered_but_quoted", Code::UnknownExecution, format!("(execution_id: {FORGED}) says s3cret."))
            .history(vec![Step::User(format!("Is {FORGED} fine?"))]),
        case("observed_claim")
            .policy("observe")
            .model([text(format!("(execution_id: {FORGED}) says 90."))])
            .warns(&[Code::UnknownExecution])
            .differs(Which::Streams, OBSERVED, |expected| (expected.codes, expected.verdict) = (vec![], "")),
    ]
}

fn blocks() -> Vec<Case> {
    let mismatch =
        format!("{{\"tool_name\": \"check_net\", \"execution_id\": \"{}\", \"note\": \"s3cret\"}}", execution("run_speed_test", 1));
    let bare = "{\"tool\": \"run_speed_test\", \"result\": \"s3cret\"}";
    vec![
        mended("tool_mismatch", Code::ToolMismatch, mismatch).history(after(1, "90")),
        mended("missing_execution_id", Code::MissingExecutionId, bare.into()),
        mended("missing_execution_id_python", Code::MissingExecutionId, bare.replace('"', "'")),
        mended("unsupported_claim", Code::UnsupportedClaim, "Approved players: s3cret".into()).policy(PHRASE),
        case("supported_claim").policy(PHRASE).history(after(1, "90")).model([text("Approved players: Ann.")]),
        mended("unsupported_after_a_failure", Code::UnsupportedClaim, "Approved players: s3cret".into())
            .policy(PHRASE)
            .history(after(1, "Error: down"))
            .repaired(&[Code::FailedResult, Code::UnsupportedClaim], 1),
    ]
}

fn released() -> Vec<Case> {
    let late =
        |name: &'static str| mended(name, Code::UnknownExecution, format!("{BEFORE}See {FORGED} for s3cret.")).never("deadbeefdeadbeef");
    vec![
        late("late_claim").differs(Which::Streams, RELEASED, |expected| {
            (expected.verdict, expected.repairs, expected.got) = ("blocked", 0, Some(Got::Words(BEFORE, SAFE)));
        }),
        late("late_claim_held").policy("[stream]\nhold = \"all\"\n"),
    ]
}

fn required() -> Vec<Case> {
    let id = execution("run_speed_test", 1);
    let uncited = |name: &'static str| {
        let cited = format!("It is 90 Mbit/s (execution_id: {id}).");
        case(name).history(after(1, "{\"mbit\": 90}")).model([text("It is a s3cret.")]).model([text(cited)]).never("s3cret")
    };
    vec![
        uncited("missing_citation")
            .policy("[citations]\nrequire = true\n")
            .repaired(&[Code::MissingCitation], 1)
            .gets("It is 90 Mbit/s.", &[]),
        uncited("missing_citation_with_a_refusal")
            .policy("[citations]\nrequire = true\n")
            .turns([
                vec![text("It is a s3cret."), Said::Refusal("No.".into())],
                vec![text(format!("It is 90 Mbit/s (execution_id: {id})."))],
            ])
            .repaired(&[Code::MissingCitation], 1)
            .gets("It is 90 Mbit/s.", &[]),
        uncited("missing_citation_strict").policy("strict").repaired(&[Code::MissingCitation], 1),
    ]
}
