//! Rows: violations in the calls that a model makes.

use serde_json::json;
use toolmark::violation::Code;

use super::{
    exchange::{Arguments, Case, Choice, EXHAUSTED, Ending, Got, Said, Turn, Which, call, call_as, case, custom, function, good, text},
    requests::OBSERVED,
};

const CANARY: &str = "s3cret";
const SECRET: &str = r#"{"server":"s3cret"}"#;
pub const ENDS_IN_ERROR: &str = "the status is sent: a stream that fails says its code in the last event";

pub fn cases() -> Vec<Case> {
    [arguments(), shapes(), warnings(), turns(), choices(), endings()].concat()
}

/// One bad call, then a good one.
fn mended(name: &'static str, code: Code, bad: Said) -> Case {
    case(name).model([bad]).model([good()]).repaired(&[code], 1).never(CANARY)
}

fn arguments() -> Vec<Case> {
    vec![
        mended("unknown_tool", Code::UnknownTool, call("delete_all", SECRET)),
        mended("malformed_name", Code::UnknownTool, call("multi_tool_use.parallel", SECRET)),
        mended("malformed_arguments", Code::MalformedArguments, call("run_speed_test", r#"{"server":"s3cret"#)),
        mended("a_name_twice", Code::MalformedArguments, call("run_speed_test", r#"{"server":"s3cret","server":"b"}"#)),
        mended("no_object", Code::MalformedArguments, call("run_speed_test", r#"["s3cret"]"#)),
        mended("missing_required", Code::MissingRequired, call("run_speed_test", "{}")),
        mended("wrong_type", Code::WrongType, call("run_speed_test", r#"{"server":["s3cret"]}"#)),
        mended("schema_violation", Code::SchemaViolation, call("check_net", r#"{"host":"s3cret","tries":0}"#)),
        mended("null_optional", Code::NullOptional, call("check_net", r#"{"host":null}"#)).policy("[calls]\ncorrections = []\n"),
        mended("function_for_custom", Code::MalformedArguments, call("sql", SECRET)),
        case("undeclared_tool")
            .policy("[tools]\nfiles = [\"tools.json\"]\nundeclared = \"reject\"\n")
            .model([call("run_speed_test", SECRET)])
            .model([call("add_task", r#"{"title":"x"}"#)])
            .repaired(&[Code::UndeclaredTool], 1)
            .never(CANARY),
        case("two_faults_at_once")
            .model([call("delete_all", SECRET), call_as("call_u2", "check_net", r#"{"tries":"s3cret"}"#)])
            .model([good()])
            .repaired(&[Code::UnknownTool, Code::WrongType], 1)
            .never(CANARY),
        case("one_good_one_bad")
            .model([call_as("call_u2", "check_net", r#"{"host":"s3cret"}"#), call("delete_all", "{}")])
            .model([good()])
            .repaired(&[Code::UnknownTool], 1)
            .never(CANARY),
        case("id_in_arguments")
            .model([call("run_speed_test", r#"{"server":"run_speed_test_1700000000000_deadbeefdeadbeef"}"#)])
            .model([good()])
            .repaired(&[Code::UnknownExecution], 1)
            .never("deadbeefdeadbeef"),
    ]
}

/// Arguments that aren't a string, names that are none.
fn shapes() -> Vec<Case> {
    let call = |tool: &str, arguments| Said::Call { id: "call_u1", tool: tool.into(), arguments, custom: false };
    vec![
        case("null_arguments").model([call("check_net", Arguments::Null)]),
        case("bare_arguments").model([call("run_speed_test", Arguments::Bare(json!({"server": "a"})))]),
        mended("null_arguments_where_some_are_needed", Code::MissingRequired, call("run_speed_test", Arguments::Null)),
        mended("bare_list", Code::MalformedArguments, call("run_speed_test", Arguments::Bare(json!(["s3cret"])))),
        mended("bare_number", Code::MalformedArguments, call("run_speed_test", Arguments::Bare(json!(7)))),
        mended("empty_name", Code::UnknownTool, call("", Arguments::Text(SECRET.into()))),
        mended("empty_arguments", Code::MissingRequired, call("run_speed_test", Arguments::Text(String::new()))),
        case("empty_arguments_where_none_are_needed")
            .model([call("check_net", Arguments::Text(" ".into()))])
            .gets("", &[("check_net", "{}")]),
        mended("custom_for_function", Code::MalformedArguments, custom("call_u1", "run_speed_test", "s3cret")),
        mended("truncated_custom", Code::TruncatedCall, good())
            .turns([])
            .turn(Turn::Says(vec![custom("call_u1", "sql", "select s3cret fro")], Ending::Length))
            .model([good()]),
        case("no_id").model([Said::Call { id: "", tool: "check_net".into(), arguments: Arguments::Text("{}".into()), custom: false }]),
        case("a_long_id").model([call_as("call_0123456789abcdef0123456789abcdef0123456789abcdef01234567", "check_net", "{}")]),
    ]
}

fn warnings() -> Vec<Case> {
    vec![
        case("unknown_parameter").model([call("run_speed_test", r#"{"server":"a","mood":"b"}"#)]).warns(&[Code::UnknownParameter]),
        mended("unknown_parameter_strict", Code::UnknownParameter, call("run_speed_test", r#"{"server":"a","mood":"s3cret"}"#))
            .policy("strict"),
        case("placeholder_value").model([call("run_speed_test", r#"{"server":"TODO"}"#)]).warns(&[Code::PlaceholderValue]),
        case("suspicious_length")
            .policy("[calls]\nlong_argument = 20\n")
            .model([call("run_speed_test", r#"{"server":"much longer than a server is"}"#)])
            .warns(&[Code::SuspiciousLength]),
        case("corrected_null_optional")
            .model([call("check_net", r#"{"host": null, "tries": 2}"#)])
            .notes(&[Code::CorrectedNullOptional])
            .gets("", &[("check_net", r#"{"tries": 2}"#)]),
        case("duplicate_call_id").model([good(), call("check_net", "{}")]).notes(&[Code::DuplicateCallId]),
        case("duplicate_call_id_repaired")
            .model([good(), call("delete_all", SECRET)])
            .model([good()])
            .repaired(&[Code::UnknownTool, Code::DuplicateCallId], 1)
            .never(CANARY),
        case("invalid_schema_of_a_called_tool")
            .tools(vec![function("odd", json!({"type": "nonsense"}))])
            .model([call("odd", r#"{"a":1}"#)])
            .model([call("odd", r#"{"a":2}"#)])
            .warns(&[Code::InvalidToolSchema])
            .gets("", &[("odd", r#"{"a":1}"#)]),
    ]
}

fn turns() -> Vec<Case> {
    let cut = |arguments: &str| Turn::Says(vec![call("run_speed_test", arguments)], Ending::Length);
    vec![
        case("too_many_calls")
            .policy("[calls]\nmax_per_turn = 1\n")
            .model([good(), call_as("call_u2", "check_net", r#"{"host":"s3cret"}"#)])
            .model([good()])
            .repaired(&[Code::TooManyCalls], 1)
            .never(CANARY),
        case("truncated_call").turn(cut(r#"{"server":"s3cret"#)).model([good()]).repaired(&[Code::TruncatedCall], 1).never(CANARY),
        case("truncated_by_a_filter")
            .turn(Turn::Says(vec![call("run_speed_test", r#"{"server":"s3cret"#)], Ending::Filter))
            .model([good()])
            .repaired(&[Code::TruncatedCall], 1)
            .never(CANARY),
        case("empty_answer").model([]).warns(&[Code::EmptyAnswer]),
        case("empty_answer_strict").policy("strict").model([]).model([text("Here I am.")]).repaired(&[Code::EmptyAnswer], 1),
        case("refused_by_the_upstream").turn(Turn::CallRefused).model([good()]).repaired(&[Code::MalformedArguments], 1).never(CANARY),
        case("refused_by_the_upstream_again").turn(Turn::CallRefused).replaced(&[Code::MalformedArguments], 1, EXHAUSTED).never(CANARY),
        case("mended_by_nothing")
            .model([call("delete_all", SECRET)])
            .model([])
            .repaired(&[Code::UnknownTool, Code::EmptyAnswer], 1)
            .never(CANARY),
        case("mended_by_text")
            .model([call("delete_all", SECRET)])
            .model([text("I can't.")])
            .repaired(&[Code::UnknownTool], 1)
            .never(CANARY),
        case("refused_after_a_bad_call")
            .model([call("delete_all", SECRET)])
            .turn(Turn::CallRefused)
            .model([good()])
            .repaired(&[Code::UnknownTool, Code::MalformedArguments], 2)
            .never(CANARY),
        case("observed_call").policy("observe").model([call("delete_all", r#"{"server":"a"}"#)]).warns(&[Code::UnknownTool]).differs(
            Which::Streams,
            OBSERVED,
            |expected| (expected.codes, expected.verdict) = (vec![], ""),
        ),
        case("announced_and_bad")
            .model([text("Let me look that up for you."), call("delete_all", SECRET)])
            .model([good()])
            .repaired(&[Code::UnknownTool], 1)
            .never(CANARY)
            .differs(Which::Streams, "what was said before the call has left already; the call itself is mended", |expected| {
                expected.got = Some(Got::Said(
                    "Let me look that up for you.".into(),
                    String::new(),
                    vec![("run_speed_test".into(), r#"{"server":"ams2"}"#.into())],
                ));
            }),
    ]
}

fn choices() -> Vec<Case> {
    let ignored = |name: &'static str, choice: Choice, bad: Said, then: Said| {
        case(name).choice(choice).model([bad]).model([then]).repaired(&[Code::ToolChoiceIgnored], 1).never(CANARY)
    };
    let check = || call("check_net", r#"{"host":"s3cret"}"#);
    vec![
        ignored("required_ignored", Choice::Required, text("I know the s3cret by heart."), good()),
        case("required_ignored_with_a_refusal_beside_it")
            .choice(Choice::Required)
            .model([text("I know the s3cret by heart."), Said::Refusal("No.".into())])
            .model([good()])
            .repaired(&[Code::ToolChoiceIgnored], 1)
            .never(CANARY),
        ignored("none_ignored", Choice::None, check(), text("As you like.")),
        ignored("named_ignored", Choice::Named("run_speed_test"), check(), good()),
        ignored("allowed_ignored", Choice::Allowed(&["run_speed_test"]), check(), good()),
        ignored("allowed_demands", Choice::Allowed(&["run_speed_test"]), text("I know the s3cret by heart."), good()),
        case("one_at_a_time")
            .one_at_a_time()
            .model([good(), call_as("call_u2", "check_net", r#"{"host":"s3cret"}"#)])
            .model([good()])
            .repaired(&[Code::ToolChoiceIgnored], 1)
            .never(CANARY),
    ]
}

fn endings() -> Vec<Case> {
    let never_mends = |name: &'static str| {
        case(name).model([call("delete_all", SECRET)]).model([call("drop_all", SECRET)]).model([call("purge_all", SECRET)]).never(CANARY)
    };
    vec![
        never_mends("never_mends").replaced(&[Code::UnknownTool], 2, EXHAUSTED),
        never_mends("never_mends_error").policy("[calls]\non_exhausted = \"error\"\n").refused(&[Code::UnknownTool], 2, 422).differs(
            Which::Streams,
            ENDS_IN_ERROR,
            |expected| {
                expected.got = Some(Got::Error(200, "unknown_tool".into()));
            },
        ),
        case("same_again").model([call("delete_all", SECRET)]).replaced(&[Code::UnknownTool], 1, EXHAUSTED).never(CANARY),
        case("no_repairs")
            .policy("[calls]\nmax_repairs = 0\n")
            .model([call("delete_all", SECRET)])
            .replaced(&[Code::UnknownTool], 0, EXHAUSTED)
            .never(CANARY),
        case("json_is_never_words").policy("[calls]\nmax_repairs = 0\n").json().model([call("delete_all", SECRET)]).never(CANARY).replaced(
            &[Code::UnknownTool],
            0,
            EXHAUSTED,
        ),
        case("two_repairs")
            .model([call("delete_all", SECRET)])
            .model([call("run_speed_test", r#"{"sever":"s3cret"}"#)])
            .model([good()])
            .repaired(&[Code::UnknownTool, Code::MissingRequired, Code::UnknownParameter], 2),
    ]
}
