//! Rows: honest traffic. It passes in every form, and what leaves is what the model said.

use toolmark::violation::Code;

use super::{
    exchange::{Case, Choice, Ending, Id, PastCall, Said, Step, Turn, after, call, call_as, case, custom, good, past, text},
    stage::execution,
};

pub fn cases() -> Vec<Case> {
    [calls(), texts(), cited(), histories()].concat()
}

fn calls() -> Vec<Case> {
    vec![
        case("honest_call").model([good()]),
        case("honest_parallel_calls").model([good(), call_as("call_u2", "check_net", r#"{ "host" : "a", "tries": 2 }"#)]),
        case("honest_call_without_arguments").model([call("check_net", "{}")]),
        case("honest_custom_tool").model([custom("call_u2", "sql", "select \"a\" -- 'x'\nfrom t;")]),
        case("honest_custom_and_function").model([good(), custom("call_u2", "sql", "select 1")]),
        case("honest_unicode_arguments").model([call("run_speed_test", r#"{"server":"Zürich — 東京 😀 \u00e9\n"}"#)]),
        case("honest_text_then_call").model([text("I'll measure that now."), good()]),
        case("honest_call_then_text").model([good(), text("Let me know if you need more.")]),
        case("honest_calls_around_text").model([good(), text("And the net: "), call_as("call_u2", "check_net", "{}")]),
        case("honest_required").choice(Choice::Required).model([good()]),
        case("honest_named").choice(Choice::Named("run_speed_test")).model([good()]),
        case("honest_allowed").choice(Choice::Allowed(&["run_speed_test", "check_net"])).model([good()]),
        case("honest_none").choice(Choice::None).model([text("As you like.")]),
        case("honest_one_at_a_time").one_at_a_time().model([good()]),
        case("honest_strict_call").policy("strict").model([good()]),
        case("honest_tool_of_the_policy").policy("[tools]\nfiles = [\"tools.json\"]\n").model([call("add_task", r#"{"title":"x"}"#)]),
        case("honest_whole_call_at_the_limit").turn(Turn::Says(vec![good(), call_as("call_u2", "check_net", "{}")], Ending::Itself)),
    ]
}

fn texts() -> Vec<Case> {
    let foreign = "Commit 9fceb02d0ae598e95dc970b74767f19372d61af8, id 550e8400-e29b-41d4-a716-446655440000, img_20240101_123456.";
    let about = "Every result carries an execution_id, which you cite. The execution ID is in front.";
    let code = "```rust\nstruct A { execution_id: u64 }\nlet a = A { execution_id: 12 };\n```\nThat's all.";
    vec![
        case("honest_text").model([text("Good morning. What shall I measure?")]),
        case("honest_text_without_tools").tools(vec![]).model([text("Good morning.")]),
        case("honest_unicode").model([text("日本語、한국어, Русский, ﬁne ½ ① 😀👍🏽 naïve café \u{200d}\u{feff}\"\\\n\ttab")]),
        case("honest_long_text").model([text("The line was measured from three places in the afternoon. ".repeat(400))]),
        case("honest_foreign_ids").model([text(foreign)]),
        case("honest_talk_of_ids").model([text(about)]),
        case("honest_code").model([text(code)]),
        case("honest_json").json().model([text("{\"mbit\": 90, \"ok\": true, \"tool\": \"hammer\"}")]),
        case("honest_json_in_prose").model([text("{\"users\": [{\"id\": 1, \"status\": \"ok\"}]} and [1, 2]")]),
        case("honest_refusal").model([Said::Refusal("I can't help with that.".into())]),
        case("honest_refusal_where_a_call_was_asked_for").choice(Choice::Required).model([Said::Refusal("I won't.".into())]),
        case("honest_cut_text").turn(Turn::Says(vec![text("The first of many")], Ending::Length)),
        case("honest_filtered_text").turn(Turn::Says(vec![text("The first of")], Ending::Filter)),
        case("honest_blanks").model([text(" \n\n a \n ")]),
        case("honest_tool_by_name").model([text("I could call run_speed_test with {\"server\": \"ams2\"} next.")]),
    ]
}

fn cited() -> Vec<Case> {
    let id = execution("run_speed_test", 1);
    let prose = format!("It is 90 Mbit/s (execution_id: {id}), which is fine.");
    let result = "{\"mbit\": 90}";
    let json = format!("{{\"mbit\": 90, \"execution_id\": \"{id}\"}}");
    let block = format!("{{\"tool_name\": \"run_speed_test\", \"execution_id\": \"{id}\", \"mbit\": 90}}");
    let cites = |name: &'static str| case(name).history(after(1, result)).model([text(prose.clone())]);
    vec![
        cites("honest_citation_taken_out").gets("It is 90 Mbit/s, which is fine.", &[]),
        cites("honest_citation_shown").policy("[citations]\nshow = true\n"),
        cites("honest_citation_strict").policy("strict"),
        cites("honest_citation_of_a_line").history(after(1, "90 Mbit/s")).gets("It is 90 Mbit/s, which is fine.", &[]),
        cites("honest_citation_wrapped")
            .policy("[results]\nstamp = \"json\"\n")
            .history(after(1, "90"))
            .gets("It is 90 Mbit/s, which is fine.", &[]),
        cites("honest_citation_in_its_window").policy("[results]\nwindow = \"1h\"\n").gets("It is 90 Mbit/s, which is fine.", &[]),
        case("honest_citation_in_json").json().history(after(1, result)).model([text(json)]),
        case("honest_block_with_its_id").history(after(1, result)).model([text(block)]),
        case("honest_citation_and_call")
            .history(after(1, result))
            .model([text(prose.clone()), good()])
            .gets("It is 90 Mbit/s, which is fine.", &[("run_speed_test", r#"{"server":"ams2"}"#)]),
        case("honest_answer_that_needs_no_citation").history(after(1, result)).model([text("It is 90 Mbit/s.")]),
    ]
}

fn histories() -> Vec<Case> {
    let quoted = "other_1700000000000_deadbeefdeadbeef";
    let user = |text: &str| Step::User(text.to_owned());
    let result = |number, text: &str| Step::Result(Id::Marked(number), text.to_owned());
    let parallel = vec![
        Step::System("Be brief."),
        user("go"),
        Step::Turn(
            "Both at once.",
            vec![past(Id::Marked(1), "run_speed_test", r#"{"server":"fra1"}"#), past(Id::Marked(2), "check_net", "{ \"tries\": 1.0 }")],
        ),
        result(2, "up"),
        result(1, "{\"mbit\": 90}"),
    ];
    let query = PastCall { id: Id::Marked(3), tool: "sql", arguments: "select 1".into(), custom: true };
    let turns = vec![
        user("go"),
        Step::Turn("", vec![query]),
        result(3, "1 row"),
        Step::Turn("One row.", vec![]),
        user("And now?"),
        Step::Turn("", vec![past(Id::Marked(4), "check_net", "{}")]),
        result(4, "[{\"up\": true}]"),
    ];
    let again = [after(1, "90"), vec![Step::Turn("It is 90.", vec![])], after(1, "91")].concat();
    vec![
        case("honest_id_that_comes_back").history(again).model([text("Done.")]),
        case("honest_two_rounds").history([after(1, "90"), after(2, "91")[1..].to_vec()].concat()).model([text("Done.")]),
        case("honest_parallel_history").history(parallel).model([text("Done.")]),
        case("honest_turns").history(turns.clone()).model([text("Done.")]),
        case("honest_turns_strict")
            .policy("strict")
            .history(turns)
            .model([text(format!("Up (execution_id: {}).", execution("check_net", 4)))]),
        case("honest_quotation").history(vec![user(&format!("What is {quoted}?"))]).model([text(format!("I don't know {quoted}."))]),
        case("honest_quotation_of_a_result")
            .history(after(1, &format!("{{\"ref\": \"{quoted}\"}}")))
            .model([text(format!("The ref is {quoted}."))]),
        case("honest_report_of_a_failure")
            .history(after(1, "{\"error\": \"no route\"}"))
            .model([text("It failed.")])
            .notes(&[Code::FailedResult]),
    ]
}
