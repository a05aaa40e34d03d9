//! Scenes about calls: unknown tools, wrong arguments, repairs.

use super::{AnswerForm, DemoApi, DemoScene, Expectations, ModelRequest, SceneRequests, SceneRun};
use crate::cli::demo::script::DemoTurn;

/// The scenes.
pub fn scenes() -> Vec<DemoScene> {
    let weather = "What's the weather in Oslo?";
    let both = "Compare the weather in Oslo and Bergen.";
    let scene = |name, model_does, ask, script: fn(&ModelRequest) -> DemoTurn, check: fn(&SceneRun, &mut Expectations)| DemoScene {
        name,
        api: DemoApi::Chat,
        model_does,
        ask,
        rounds: SceneRequests::One,
        script,
        check,
    };
    vec![
        scene("valid-call", "calls a tool as it should", weather, |_| oslo(), valid),
        scene("invented-tool", "calls a tool that doesn't exist", weather, |asked| first(asked, DemoTurn::call(INVENTED, OSLO)), invented),
        scene(
            "malformed-arguments",
            "writes arguments that are no JSON",
            weather,
            |asked| first(asked, DemoTurn::call("get_weather", BROKEN)),
            malformed,
        ),
        scene(
            "schema-breaking",
            "forgets a parameter, exceeds a bound, makes one up",
            weather,
            |asked| first(asked, DemoTurn::call("get_weather", UNFIT)),
            unfit,
        ),
        scene("one-of-two-invalid", "calls twice at once; one call is invalid", both, one_of_two, siblings),
        scene("repeated-ids", "gives two calls the same id", both, |_| oslo().and("call_0", "get_weather", BERGEN), repeated),
        scene("never-mends", "keeps inventing tools, however often it is told", weather, never, never_mends),
        scene(
            "cut-off",
            "breaks off in mid-answer, without finish_reason",
            weather,
            |_| DemoTurn::say(&["It is ", "going to be a fine day. ", "In Oslo, with "]).cut(),
            cut_off,
        ),
    ]
}

fn oslo() -> DemoTurn {
    DemoTurn::call("get_weather", OSLO)
}

/// The wrong turn at first, the right call after a repair.
fn first(asked: &ModelRequest, wrong: DemoTurn) -> DemoTurn {
    if asked.repairs() == 0 { wrong } else { oslo() }
}

fn one_of_two(asked: &ModelRequest) -> DemoTurn {
    let second = if asked.repairs() == 0 { r#"{"town":"Bergen"}"# } else { BERGEN };
    oslo().and("call_1", "get_weather", second)
}

fn never(asked: &ModelRequest) -> DemoTurn {
    DemoTurn::call(&format!("imagined_tool_{}", asked.repairs()), "{}")
}

fn valid(played: &SceneRun, check: &mut Expectations) {
    check.that("the verdict is pass, with nothing to object to", played.is("pass", &[]));
    check.that("the upstream was asked once", played.upstream.len() == 1);
    got_oslo(played, check);
}

/// Checks that the application got the one right call, and no trace of the repair.
fn got_oslo(played: &SceneRun, check: &mut Expectations) {
    let calls = &played.last().calls;
    check.that("the application got one call", calls.len() == 1);
    check.that(
        "it is get_weather for Oslo, as the model wrote it",
        calls.first().is_some_and(|call| call.name == "get_weather" && call.arguments == OSLO),
    );
    check.that("finish_reason is tool_calls", played.last().finish.as_deref() == Some("tool_calls"));
}

/// Checks that the model was asked again once, and that the rejection contains these texts.
fn mended(played: &SceneRun, check: &mut Expectations, codes: &[&str], told: &[&str]) {
    check.that("the verdict is repaired, with its codes", played.is("repaired", codes));
    check.that("the upstream was asked twice", played.upstream.len() == 2);
    let tools = played.sent(1, "tool");
    for words in told {
        check.that(
            &format!("the model was told: {words}"),
            tools.iter().any(|text| text.starts_with("Tool call rejected: ") && text.contains(words)),
        );
    }
}

fn invented(played: &SceneRun, check: &mut Expectations) {
    mended(played, check, &["unknown_tool"], &["[unknown_tool]", "get_weather"]);
    check.that("the invented name never reached the application", !played.leaked(INVENTED));
    got_oslo(played, check);
}

fn malformed(played: &SceneRun, check: &mut Expectations) {
    mended(played, check, &["malformed_arguments"], &["[malformed_arguments]", BROKEN]);
    let echoed = played.upstream.get(1).map(ToString::to_string).unwrap_or_default();
    check.that("what is echoed to the model is legal upstream", echoed.contains(r#""arguments":"{}""#));
    got_oslo(played, check);
}

fn unfit(played: &SceneRun, check: &mut Expectations) {
    mended(
        played,
        check,
        &["missing_required", "schema_violation", "unknown_parameter"],
        &["[missing_required]", "[schema_violation]", "[unknown_parameter]", "city"],
    );
    check.that("the arguments that don't fit never reached the application", !played.leaked("town"));
    got_oslo(played, check);
}

fn siblings(played: &SceneRun, check: &mut Expectations) {
    mended(played, check, &["missing_required", "unknown_parameter"], &["[missing_required]"]);
    let told = played.sent(1, "tool");
    check.that("each of the two calls got an answer of its own", told.len() == 2);
    check.that("the valid one was told that nothing was run", told.iter().any(|text| text.starts_with("Tool call not run: get_weather")));
    got_both(played, check);
    check.that("nothing of the rejected turn reached the application", !played.leaked("town"));
}

fn got_both(played: &SceneRun, check: &mut Expectations) {
    let arguments: Vec<&str> = played.last().calls.iter().map(|call| &*call.arguments).collect();
    check.that("the application got both calls, in their order", arguments == [OSLO, BERGEN]);
}

fn repeated(played: &SceneRun, check: &mut Expectations) {
    check.that("the verdict is pass, with the repeated id noted", played.is("pass", &["duplicate_call_id"]));
    check.that("the model's own ids never reached the application", !played.leaked("\"call_0\""));
    got_both(played, check);
}

fn never_mends(played: &SceneRun, check: &mut Expectations) {
    check.that("the verdict is blocked", played.is("blocked", &["unknown_tool"]));
    check.that("the upstream was asked three times, and no more", played.upstream.len() == 3);
    let last = played.last();
    check.that("no call reached the application", last.calls.is_empty());
    check.that(
        "it says in plain words that nothing was run",
        last.text.starts_with("I could not finish this") && last.text.contains("Nothing was run"),
    );
    check.that("finish_reason is stop", last.finish.as_deref() == Some("stop"));
}

fn cut_off(played: &SceneRun, check: &mut Expectations) {
    let last = played.last();
    check.that("the application got an error", last.error.as_deref() == Some("upstream_protocol"));
    check.that("the answer doesn't pose as a whole one", last.finish.is_none() && !last.raw.contains("[DONE]"));
    match played.mode {
        AnswerForm::Whole => check.that("the status is 502", last.status == 502),
        AnswerForm::Streamed => check.that(
            "what was said before has arrived, or the part of it that no check held",
            !last.text.is_empty() && SAID.starts_with(&last.text),
        ),
    }
}

const SAID: &str = "It is going to be a fine day. In Oslo, with ";
const INVENTED: &str = "fetch_forecast_now";
const OSLO: &str = r#"{"city":"Oslo"}"#;
const BERGEN: &str = r#"{"city":"Bergen"}"#;
const BROKEN: &str = r#"{"city": "Oslo", "days": "#;
const UNFIT: &str = r#"{"town":"Oslo","days":99}"#;
