//! Rows: calls that are corrected without asking the model, where the policy lists that.

use toolmark::judge::violation::Code;

use super::exchange::{Case, Choice, Ending, Turn, call, call_as, case, custom, good, text};

const ALL: &str = "[calls]\ncorrections = ['syntax', 'name', 'types', 'null_optional', 'parameters']\n";

/// Nothing is kept upstream, where the Responses API would have it otherwise.
const PROMOTE: &str = "[calls]\npromote_textual = true\n[responses]\nstateful = \"stateless\"\n";

pub fn cases() -> Vec<Case> {
    [corrected(), promoted()].concat()
}

fn promoted() -> Vec<Case> {
    let written = "<tool_call>\n{\"name\": \"run_speed_test\", \"arguments\": {\"server\": \"ams\"}}\n</tool_call>";
    let promotes = |name: &'static str, said: &str, calls: &[(&str, &str)]| {
        case(name).policy(PROMOTE).model([text(said)]).notes(&[Code::CorrectedTextual]).gets("", calls)
    };
    let stays =
        |name: &'static str, said: &str| case(name).policy(PROMOTE).model([text(said)]).warns(&[Code::TextualToolCall]).gets(said, &[]);
    let values = "<tool_call>\n<function=check_net>\n<parameter=host>\n7\n</parameter>\n<parameter=tries>\n2\n</parameter>\n</function>\n</tool_call>";
    vec![
        promotes("promoted", written, &[("run_speed_test", r#"{"server": "ams"}"#)]),
        promotes(
            "promoted_in_parallel",
            "[run_speed_test(server=\"a\"), check_net(tries=2)]",
            &[("run_speed_test", r#"{"server":"a"}"#), ("check_net", r#"{"tries":2}"#)],
        ),
        promotes("promoted_with_typed_values", values, &[("check_net", r#"{"host":"7","tries":2}"#)]),
        promotes(
            "promoted_without_a_wrapper",
            "run_speed_test{\"server\": \"ams\"}</function>",
            &[("run_speed_test", r#"{"server": "ams"}"#)],
        ),
        promotes("promoted_where_one_was_demanded", written, &[("run_speed_test", r#"{"server": "ams"}"#)]).choice(Choice::Required),
        stays("not_promoted_with_arguments_that_do_not_fit", "<tool_call>{\"name\": \"run_speed_test\", \"arguments\": {}}</tool_call>"),
        stays("not_promoted_beside_words", "One moment. <tool_call>{\"name\": \"check_net\", \"arguments\": {}}</tool_call>"),
        stays("not_promoted_before_words", "<tool_call>{\"name\": \"check_net\", \"arguments\": {}}</tool_call> One moment."),
        stays("not_promoted_in_a_fence", "```json\n{\"name\": \"check_net\", \"arguments\": {}}\n```"),
        stays("not_promoted_against_the_choice", written).choice(Choice::None),
        case("not_promoted_where_it_was_cut")
            .policy(PROMOTE)
            .turn(Turn::Says(vec![text(written)], Ending::Length))
            .warns(&[Code::TextualToolCall])
            .gets(written, &[]),
        case("not_promoted_without_a_known_tool")
            .policy(PROMOTE)
            .model([text("<tool_call>{\"name\": \"hammer\", \"arguments\": {}}</tool_call>")])
            .gets("<tool_call>{\"name\": \"hammer\", \"arguments\": {}}</tool_call>", &[]),
        case("not_promoted_beside_a_call")
            .policy(PROMOTE)
            .model([text(written), good()])
            .warns(&[Code::TextualToolCall])
            .gets(written, &[("run_speed_test", r#"{"server":"ams2"}"#)]),
        case("not_promoted_in_json").policy(PROMOTE).json().model([text("{\"name\": \"check_net\", \"parameters\": {}}")]),
        case("honest_text_where_calls_are_promoted")
            .policy(PROMOTE)
            .model([text("[A list](https://example.org) of <b>nets</b>: {\"a\": 1}.")]),
    ]
}

fn corrected() -> Vec<Case> {
    let corrected = |name: &'static str, code: Code, tool: &str, arguments: &str, left: &[(&str, &str)]| {
        case(name).policy(ALL).model([call(tool, arguments)]).notes(&[code]).gets("", left)
    };
    let server = [("run_speed_test", r#"{"server": "a"}"#)];
    vec![
        corrected("corrected_name", Code::CorrectedName, "RunSpeedTest", r#"{"server": "a"}"#, &server),
        corrected("corrected_prefix", Code::CorrectedName, "functions.run_speed_test", r#"{"server": "a"}"#, &server),
        case("corrected_name_of_a_custom_tool")
            .policy(ALL)
            .model([custom("call_u2", "SQL", "select 1"), good()])
            .notes(&[Code::CorrectedName])
            .gets("", &[("sql", "select 1"), ("run_speed_test", r#"{"server":"ams2"}"#)]),
        corrected("corrected_name_of_the_one_asked_for", Code::CorrectedName, "run-speed-test", r#"{"server": "a"}"#, &server)
            .choice(Choice::Named("run_speed_test")),
        corrected("corrected_syntax", Code::CorrectedSyntax, "run_speed_test", "```json\n{'server': 'a',}\n```", &server),
        corrected(
            "corrected_types",
            Code::CorrectedTypes,
            "check_net",
            r#"{"host":"7", "tries":"2"}"#,
            &[("check_net", r#"{"host":"7", "tries":2}"#)],
        ),
        corrected("corrected_parameters", Code::CorrectedParameters, "run_speed_test", r#"{"Server": "a"}"#, &server),
        case("corrected_in_many_ways")
            .policy(ALL)
            .model([call("CheckNet", r#"{"host": None, "tries": "2"}"#), call_as("call_u2", "check_net", r#"{"host":null}"#)])
            .notes(&[Code::CorrectedName, Code::CorrectedSyntax, Code::CorrectedTypes, Code::CorrectedNullOptional])
            .gets("", &[("check_net", r#"{"tries": 2}"#), ("check_net", "{}")]),
        case("corrected_beside_a_bad_call")
            .policy(ALL)
            .model([call("RunSpeedTest", r#"{"server":"s3cret"}"#), call_as("call_u2", "delete_all", "{}")])
            .model([good()])
            .repaired(&[Code::CorrectedName, Code::UnknownTool], 1)
            .never("s3cret"),
        case("not_corrected_in_two_ways")
            .policy(ALL)
            .model([call("run_speed_test", r#"{"server":"a"}{"server":"s3cret"}"#)])
            .model([text("As you like.")])
            .repaired(&[Code::MalformedArguments], 1)
            .never("s3cret"),
    ]
}
