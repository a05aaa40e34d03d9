//! Rows: calls that are corrected without asking the model, where the policy lists that.

use toolmark::violation::Code;

use super::exchange::{Case, Choice, Ending, Step, Turn, call, call_as, case, custom, good, text};

const ALL: &str = "[calls]\ncorrections = ['syntax', 'name', 'types', 'null_optional', 'parameters']\n";

/// Nothing is kept upstream, where the Responses API would have it otherwise.
const PROMOTE: &str = "[calls]\npromote_textual = \"exact\"\n[responses]\nstateful = \"stateless\"\n";
/// The default, and the same.
const JUDGE: &str = "[responses]\nstateful = \"stateless\"\n";

pub fn cases() -> Vec<Case> {
    [corrected(), promoted(), judged()].concat()
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
        stays("not_promoted_without_a_known_tool", "<tool_call>{\"name\": \"hammer\", \"arguments\": {}}</tool_call>"),
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

/// Calls as text are judged like calls.
fn judged() -> Vec<Case> {
    let fits = |name: &'static str, said: &str| {
        let left = &[("run_speed_test", r#"{"server": "ams"}"#)];
        case(name).policy(JUDGE).model([text(said)]).notes(&[Code::CorrectedTextual]).gets("", left)
    };
    let mended = |name: &'static str, said: &str, code: Code| {
        let codes = if code < Code::CorrectedTextual { [code, Code::CorrectedTextual] } else { [Code::CorrectedTextual, code] };
        case(name).policy(JUDGE).model([text(said)]).model([good()]).repaired(&codes, 1).never("s3cret")
    };
    let asked = |name: &'static str, question: &str, said: &str| {
        case(name).policy(JUDGE).history(vec![Step::User(question.into())]).model([text(said)])
    };
    let known = r#"{"name": "run_speed_test", "arguments": {"server": "ams"}}"#;
    vec![
        fits("promoted_bare", known),
        fits("promoted_with_parameters", r#"{"name": "run_speed_test", "parameters": {"server": "ams"}}"#),
        fits("promoted_of_a_function", r#"{"function": {"name": "run_speed_test", "arguments": {"server": "ams"}}}"#),
        fits("promoted_of_a_tool", r#"{"tool": "run_speed_test", "arguments": {"server": "ams"}}"#),
        fits("promoted_of_an_action", r#"{"action": "run_speed_test", "action_input": {"server": "ams"}}"#),
        fits("promoted_of_a_list", r#"[{"name": "run_speed_test", "arguments": {"server": "ams"}}]"#),
        fits("promoted_in_a_fence", "```json\n{\"name\": \"run_speed_test\", \"arguments\": {\"server\": \"ams\"}}\n```"),
        fits("promoted_in_a_fence_without_a_language", "```\n{\"name\": \"run_speed_test\", \"arguments\": {\"server\": \"ams\"}}\n```\n"),
        mended("textual_call_of_an_unknown_tool", r#"{"name": "hammer", "arguments": {"a": "s3cret"}}"#, Code::UnknownTool),
        mended(
            "textual_call_of_an_unknown_tool_in_a_fence",
            "```json\n{\"tool\": \"hammer\", \"tool_input\": {\"a\": \"s3cret\"}}\n```",
            Code::UnknownTool,
        ),
        mended(
            "textual_call_of_an_unknown_tool_in_a_wrapper",
            "<tool_call>{\"name\": \"hammer\", \"arguments\": {\"a\": \"s3cret\"}}</tool_call>",
            Code::UnknownTool,
        ),
        mended("textual_call_that_lacks_a_parameter", r#"{"name": "run_speed_test", "arguments": {}}"#, Code::MissingRequired),
        mended("textual_call_of_another_type", r#"{"name": "run_speed_test", "arguments": {"server": ["s3cret"]}}"#, Code::WrongType),
        mended("textual_call_whose_arguments_are_a_text", r#"{"name": "run_speed_test", "arguments": "s3cret"}"#, Code::MalformedArguments),
        mended("one_of_two_textual_calls", &format!("[{known}, {{\"name\": \"hammer\", \"arguments\": {{}}}}]"), Code::UnknownTool),
        asked("an_example_of_a_call", "Show me an example call of run_speed_test.", known),
        asked("a_call_as_json", "Answer in JSON: which tool would you take?", known),
        asked("a_call_that_is_not_to_be_made", "How would you call run_speed_test? Do not call it.", known),
        asked("data_like_a_call", "Extract the job as an object.", r#"{"name": "backup", "parameters": {"keep": 7}}"#),
        asked("no_call_but_data", "Who is it?", r#"{"name": "Anna Berg", "arguments": {"age": 7}}"#),
        asked("a_fence_and_words", "go", "Like this:\n```json\n{\"a\": 1}\n```\nThat is all."),
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
