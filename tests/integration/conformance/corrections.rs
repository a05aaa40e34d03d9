//! Rows: calls that are corrected without asking the model, where the policy lists that.

use toolmark::judge::violation::Code;

use super::exchange::{Case, Choice, call, call_as, case, custom, good, text};

const ALL: &str = "[calls]\ncorrections = ['syntax', 'name', 'types', 'null_optional', 'parameters']\n";

pub fn cases() -> Vec<Case> {
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
