//! Scenes about what answers claim: real results, made-up ones, and histories that were changed.

use super::{AnswerForm, DemoApi, DemoScene, Expectations, ModelRequest, SceneRequests, SceneRun, stamp_of};
use crate::{cli::demo::script::DemoTurn, marks::ExecutionId};

/// The scenes.
pub fn scenes() -> Vec<DemoScene> {
    let weather = "What's the weather in Oslo?";
    let speed = "How fast is my internet connection?";
    let scene = |name, model_does, ask, rounds, script: fn(&ModelRequest) -> DemoTurn, check: fn(&SceneRun, &mut Expectations)| DemoScene {
        name,
        api: DemoApi::Chat,
        model_does,
        ask,
        rounds,
        script,
        check,
    };
    vec![
        scene("real-result", "calls, gets the result, cites it", weather, SceneRequests::Two, real, real_result),
        scene(
            "forged-citation",
            "cites an execution that never was",
            weather,
            SceneRequests::One,
            |asked| forged(asked, &[FORGED_CITATION, " It is sunny, 25 °C."]),
            forged_citation,
        ),
        scene("claim-without-id", "presents a speed test that it never ran", speed, SceneRequests::One, speed_test, claim_without_id),
        scene(
            "forged-in-mid-stream",
            "forges a citation after it has said much",
            weather,
            SceneRequests::One,
            |asked| forged(asked, &LATE),
            forged_late,
        ),
        scene("wrong-tools-id", "passes off the weather's id as a speed test's", weather, SceneRequests::Two, wrong_tool, tool_mismatch),
        scene(
            "altered-history",
            "gets a history in which its call was changed",
            weather,
            SceneRequests::TwoAltered,
            altered,
            altered_history,
        ),
    ]
}

fn weather() -> DemoTurn {
    DemoTurn::call("get_weather", r#"{"city":"Oslo"}"#)
}

fn real(asked: &ModelRequest) -> DemoTurn {
    match asked.stamp() {
        Some(id) => DemoTurn::say(&["It is 7 °C ", "in Oslo, with rain (execution", "_id: ", &id, ")."]),
        None => weather(),
    }
}

fn forged(asked: &ModelRequest, wrong: &[&str]) -> DemoTurn {
    if asked.repairs() == 0 { DemoTurn::say(wrong) } else { weather() }
}

fn speed_test(asked: &ModelRequest) -> DemoTurn {
    if asked.repairs() == 0 {
        DemoTurn::say(&["{'tool_name': 'run_speed", "_test', 'download': 125, ", "'upload': 73}\n", "You have 125 Mbit/s."])
    } else {
        DemoTurn::call("run_speed_test", "{}")
    }
}

fn wrong_tool(asked: &ModelRequest) -> DemoTurn {
    match asked.stamp() {
        None => weather(),
        Some(id) if asked.repairs() == 0 => {
            DemoTurn::say(&[&format!(r#"{{"tool_name": "run_speed_test", "execution_id": "{id}", "download": 125}}"#)])
        }
        Some(id) => DemoTurn::say(&[&format!("It is 7 °C in Oslo (execution_id: {id}). I ran no speed test.")]),
    }
}

fn altered(asked: &ModelRequest) -> DemoTurn {
    match (asked.has_result(), asked.stamp()) {
        (false, _) => weather(),
        (true, Some(id)) => DemoTurn::say(&[&format!("It is 7 °C in Bergen (execution_id: {id}).")]),
        (true, None) => DemoTurn::say(&["A result came back, but nothing vouches for it."]),
    }
}

fn real_result(played: &SceneRun, check: &mut Expectations) {
    check.that("the verdict is pass, with nothing to object to", played.is("pass", &[]));
    check.that("the upstream was asked once per request", played.upstream.len() == 2);
    let stamped = played.sent(1, "tool").first().copied().unwrap_or_default().to_owned();
    let id = stamp_of(&stamped).unwrap_or_default();
    check.that(
        "the result went upstream with an execution ID in front",
        stamped.starts_with(r#"{"execution_id":"get_weather_"#) && ExecutionId::parse(&id).is_some(),
    );
    check.that("the result's own bytes stayed as they were", stamped.ends_with(r#""temperature_c": 7, "sky": "rain"}"#));
    if played.mode == AnswerForm::Streamed {
        check.that("the verdict names the citation", played.last().citations == [id.clone()]);
    }
    check.that("the text arrived without the citation", played.last().text == "It is 7 °C in Oslo, with rain.");
}

/// Checks that the answer was rejected, and that the repair has a call of the tool.
fn mended(played: &SceneRun, check: &mut Expectations, code: &str, tool: &str) {
    check.that("the verdict is repaired, with its code", played.is("repaired", &[code]));
    objected(played, check, 1, code);
    let calls = &played.last().calls;
    check.that("the application got a real call instead", calls.len() == 1 && calls.first().is_some_and(|call| call.name == tool));
}

fn objected(played: &SceneRun, check: &mut Expectations, at: usize, code: &str) {
    check.that("the upstream was asked once more, and no more", played.upstream.len() == at + 1);
    let told = played.sent(at, "user").iter().any(|text| text.starts_with("Your last answer was not delivered") && text.contains(code));
    check.that("the model was told what was wrong", told);
}

fn forged_citation(played: &SceneRun, check: &mut Expectations) {
    mended(played, check, "unknown_execution", "get_weather");
    check.that("nothing of the made-up answer reached the application", !played.leaked("25 °C") && !played.leaked(FORGED_DIGITS));
}

fn claim_without_id(played: &SceneRun, check: &mut Expectations) {
    mended(played, check, "missing_execution_id", "run_speed_test");
    check.that("nothing of the made-up speed test reached the application", !played.leaked("download") && !played.leaked("Mbit"));
}

fn forged_late(played: &SceneRun, check: &mut Expectations) {
    check.that("nothing behind the forged id reached the application", !played.leaked("just in case"));
    match played.mode {
        AnswerForm::Whole => {
            mended(played, check, "unknown_execution", "get_weather");
            check.that("the forged id never reached the application", !played.leaked(FORGED_DIGITS));
        }
        AnswerForm::Streamed => {
            let text = &played.last().text;
            check.that("the verdict is blocked, with its code", played.is("blocked", &["unknown_execution"]));
            check.that("the text before the claim had flowed", text.starts_with(LATE[0]));
            let (before, reply) = text.split_once(SAFE_REPLY).unwrap_or_default();
            check.that("the stream ends with the safe reply, which says why", reply.contains("[unknown_execution]"));
            // The reply may name the id as what is wrong; the claim itself never left.
            check.that(
                "no character of the claim reached the application",
                LATE.concat().starts_with(before.trim_end()) && !before.contains("execution_id"),
            );
            check.that("finish_reason is stop", played.last().finish.as_deref() == Some("stop"));
        }
    }
}

fn tool_mismatch(played: &SceneRun, check: &mut Expectations) {
    check.that("the verdict is repaired, with its code", played.is("repaired", &["tool_mismatch"]));
    objected(played, check, 2, "tool_mismatch");
    check.that("nothing of the made-up speed test reached the application", !played.leaked("download") && !played.leaked("Mbit"));
    check.that("the application got what was really measured", played.last().text == "It is 7 °C in Oslo. I ran no speed test.");
}

fn altered_history(played: &SceneRun, check: &mut Expectations) {
    check.that("the verdict warns, with its code", played.is("warn", &["altered_call"]));
    let results = played.sent(1, "tool");
    check.that("the result got no execution ID, so it can't be cited", results == [r#"{"temperature_c": 7, "sky": "rain"}"#]);
    check.that("the answer arrived", played.last().text == "A result came back, but nothing vouches for it.");
}

const SAFE_REPLY: &str = "I reported a tool result that I can't back with an execution.";
const FORGED_DIGITS: &str = "1763000000000_0123456789abcdef";
const FORGED_CITATION: &str = "(execution_id: get_weather_1763000000000_0123456789abcdef)";
const LATE: [&str; 4] = [
    "Here is some advice for your walk in Oslo. ",
    "Better take a coat with you, (execution_id: get_weather_17630000",
    "00000_0123456789abcdef)",
    " just in case.",
];
