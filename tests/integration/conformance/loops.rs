//! Rows: runs that go in circles, and runs that don't.

use toolmark::violation::Code;

use super::{
    calls::ENDS_IN_ERROR,
    exchange::{Case, Choice, Got, Id, Said, Step, Which, call, case, good, past, text},
};

/// What the application is told where a run is ended.
const CIRCLES: &str = "I stopped here, because I was going in circles.";
const CANARY: &str = "s3cret";
const FAILED: &str = "Error: no route to host";
/// Limits that need no hurry: the marks are made as the tests begin.
const FAILURES: &str = "[loops]\nconsecutive_failures = 3\ncooldown = '24h'\n";
const RATES: &str = "[loops]\nsame_tool = { calls = 3, window = '1h' }\nall_tools = { calls = 4, window = '1h' }\n";

pub fn cases() -> Vec<Case> {
    [found(), ended(), honest()].concat()
}

/// What the user asked for, then turns of one call each: the tool, its arguments, what came of it.
fn run(turns: &[(&'static str, &str, &str)]) -> Vec<Step> {
    let turn = |(number, (tool, arguments, result)): (u16, &(&'static str, &str, &str))| {
        let id = Id::Marked(number);
        [Step::Turn("", vec![past(id, tool, arguments)]), Step::Result(id, (*result).to_owned())]
    };
    let turns = (1..).zip(turns).flat_map(turn);
    std::iter::once(Step::User("go".into())).chain(turns).collect()
}

fn failed(times: usize) -> Vec<Step> {
    run(&[
        ("run_speed_test", r#"{"server":"fra1"}"#, FAILED),
        ("run_speed_test", r#"{"server":"fra2"}"#, FAILED),
        ("run_speed_test", r#"{"server":"fra3"}"#, FAILED),
    ][..times])
}

fn again() -> Said {
    call("run_speed_test", r#"{"server":"s3cret"}"#)
}

/// The call that is one too many, then something else.
fn stopped(name: &'static str, policy: &'static str, history: Vec<Step>, one_more: Said) -> Case {
    case(name).policy(policy).history(history).model([one_more]).model([text("It can't be measured now.")]).never(CANARY)
}

fn found() -> Vec<Case> {
    let same = ("check_net", r#"{"host":"s3cret-not"}"#, "unreachable");
    let once_more = || call("check_net", r#"{ "host": "s3cret-not" }"#);
    vec![
        stopped("loop_of_failures", FAILURES, failed(3), again()).repaired(&[Code::LoopDetected, Code::FailedResult], 1),
        case("loop_of_identical_calls")
            .policy("[loops]\ncooldown = '24h'\nidentical_calls = 5\n")
            .history(run(&[same; 5]))
            .model([once_more()])
            .model([good()])
            .repaired(&[Code::LoopDetected], 1),
        stopped("loop_of_one_tool", RATES, run(&[("run_speed_test", "{\"server\":\"a\"}", "1"); 3]), again())
            .repaired(&[Code::LoopDetected], 1),
        stopped(
            "loop_of_all_tools",
            RATES,
            run(&[
                ("check_net", "{}", "1"),
                ("run_speed_test", "{\"server\":\"a\"}", "1"),
                ("check_net", "{}", "2"),
                ("run_speed_test", "{\"server\":\"b\"}", "1"),
            ]),
            again(),
        )
        .repaired(&[Code::LoopDetected], 1),
        case("loop_of_a_tool_of_its_own_limit")
            .policy("[loops.tools.run_speed_test]\nconsecutive_failures = 1\ncooldown = '24h'\n")
            .history(failed(1))
            .model([again()])
            .model([call("check_net", "{}")])
            .repaired(&[Code::LoopDetected, Code::FailedResult], 1)
            .never(CANARY),
        case("loop_that_is_only_told")
            .policy("[loops]\nconsecutive_failures = 2\ncooldown = '24h'\n[checks]\nloop_detected = 'warn'\n")
            .history(failed(2))
            .model([good()])
            .warns(&[Code::LoopDetected, Code::FailedResult]),
    ]
}

fn ended() -> Vec<Case> {
    let codes = [Code::LoopDetected, Code::FailedResult];
    let on = |name, policy| case(name).policy(policy).history(failed(3)).model([again()]).never(CANARY);
    let invents = |name: &'static str| [text("One moment."), call(name, r#"{"x":"s3cret"}"#)];
    vec![
        // The same again is told once more.
        on("loop_that_ends", FAILURES).replaced(&codes, 2, CIRCLES),
        on("loop_that_ends_at_once", "[loops]\nconsecutive_failures = 3\ncooldown = '24h'\non_limit = 'end'\n")
            .replaced(&codes, 0, CIRCLES),
        on(
            "loop_that_ends_however_many_repairs",
            "[loops]\nconsecutive_failures = 3\ncooldown = '24h'\n[calls]\nmax_repairs = 10\nmax_attempts = 50\n",
        )
        .replaced(&codes, 2, CIRCLES),
        on("loop_that_ends_in_an_error", "[loops]\nconsecutive_failures = 3\ncooldown = '24h'\n[calls]\non_exhausted = 'error'\n")
            .refused(&codes, 2, 422)
            .differs(Which::Streams, ENDS_IN_ERROR, |expected| expected.got = Some(Got::Error(200, "loop_detected".into()))),
        on("loop_where_a_call_is_asked_for", FAILURES).choice(Choice::Named("run_speed_test")).replaced(&codes, 2, CIRCLES),
        case("loop_of_invented_tools")
            .policy("[loops]\nconsecutive_failures = 4\n[calls]\nmax_repairs = 10\nmax_attempts = 50\n")
            .model([call("make_up", "{}")])
            .model([call("made_up_2", r#"{"x":"s3cret"}"#)])
            .model([call("made_up_3", r#"{"x":"s3cret"}"#)])
            .model([call("made_up_4", r#"{"x":"s3cret"}"#)])
            .never(CANARY)
            .replaced(&[Code::UnknownTool, Code::LoopDetected], 3, CIRCLES),
        case("loop_behind_a_text")
            .policy("[loops]\nconsecutive_failures = 2\non_limit = 'end'\n")
            .model(invents("make_up"))
            .model(invents("made_up_2"))
            .never(CANARY)
            .replaced(&[Code::UnknownTool, Code::LoopDetected], 1, CIRCLES)
            .differs(Which::Streams, "what was said is said", |expected| expected.got = Some(Got::Words("One moment.", CIRCLES))),
    ]
}

fn honest() -> Vec<Case> {
    let success = ("run_speed_test", "{\"server\":\"a\"}", "90 Mbit/s");
    let failure = ("run_speed_test", "{\"server\":\"b\"}", FAILED);
    let with_user = |at: usize| {
        let mut history = failed(3);
        history.insert(at, Step::User("And now?".into()));
        history
    };
    let fan_out = || {
        let id = |at: u16| Id::Marked(100 + at);
        let calls = (0..20).map(|at| past(id(at), "run_speed_test", &format!("{{\"server\":\"s{at}\"}}"))).collect();
        let results = (0..20).map(|at| Step::Result(id(at), FAILED.to_owned()));
        std::iter::once(Step::User("all".into())).chain([Step::Turn("", calls)]).chain(results).collect::<Vec<_>>()
    };
    let pages: Vec<String> = (0..40).map(|page| format!("{{\"host\":\"page{page}\"}}")).collect();
    let pages: Vec<(&str, &str, &str)> = pages.iter().map(|arguments| ("check_net", &**arguments, "[]")).collect();
    let poll = ("check_net", r#"{"host":"job"}"#);
    let polls: Vec<String> = (0..19).map(|at| format!("{{\"progress\":{at}}}")).collect();
    let polls: Vec<(&str, &str, &str)> = polls.iter().map(|result| (poll.0, poll.1, &**result)).collect();
    let slow = "[loops]\nsame_tool = { calls = 0, window = '1s' }\n";
    vec![
        case("no_loop_after_a_success")
            .policy(FAILURES)
            .history(run(&[failure, failure, success, failure, failure]))
            .model([good()])
            .notes(&[Code::FailedResult]),
        case("no_loop_after_the_users_word")
            .policy(FAILURES)
            .history(with_user(7))
            .model([good()])
            .notes(&[Code::FailedResult, Code::MessageOrder]),
        case("no_loop_of_a_fan_out").policy(FAILURES).history(fan_out()).model([good()]).notes(&[Code::FailedResult]),
        case("no_loop_page_by_page").policy(slow).history(run(&pages)).model([call("check_net", r#"{"host":"page40"}"#)]),
        case("no_loop_of_equal_polls").history(run(&[("check_net", r#"{"host":"job"}"#, "running"); 12])).model([call(poll.0, poll.1)]),
        case("no_loop_of_polls").history(run(&polls)).model([call(poll.0, poll.1)]),
        case("no_loop_where_switched_off")
            .policy("[loops]\nconsecutive_failures = 0\n")
            .history(failed(3))
            .model([good()])
            .notes(&[Code::FailedResult]),
    ]
}
