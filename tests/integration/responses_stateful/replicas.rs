//! Conversations that the upstream keeps and that go on at another replica, or after a restart: known from the ledger.

use serde_json::{Value, json};

use super::{
    repaired,
    stage::{Stage, WAYS, execution, output},
};
use crate::{
    clients::model::FORGED,
    in_turns::in_turns,
    postgres::{Database, Ledger},
    program::until,
};

const REPLICAS: usize = 3;

/// Everything that a run of one proxy that never ends would say.
fn goes_on(stage: Stage, stream: bool, by_conversation: bool, between: impl Fn(Stage) -> Stage) {
    let kept = |id: Value| if by_conversation { json!({"conversation": "conv_1"}) } else { json!({"previous_response_id": id}) };
    let asked = |more: Value, kept: &Value| super::stage::with(&more, kept);
    let start = if by_conversation { kept(Value::Null) } else { json!({}) };
    let first = stage.ask(stream, asked(json!({"input": "What is the weather in Paris?"}), &start));
    first.judged("pass", &[]);
    let stage = between(stage);
    let second = stage.ask(stream, asked(json!({"input": [output(&first.call()["call_id"])]}), &kept(first.id())));
    let real = execution(&stage.last_sent()["input"][0]["output"]).unwrap_or_else(|| panic!("no stamp: {}", stage.last_sent()));
    assert_eq!(second.judged("pass", &[]).text(), "It is 18 degrees in Paris.");
    let stage = between(stage);
    let say = |text: String| asked(json!({"input": "And now?", "metadata": {"say": text}}), &kept(second.id()));
    let third = stage.ask(stream, say(format!("Still 18 (execution_id: {real}).")));
    assert_eq!(third.judged("pass", &[]).text(), "Still 18.");
    let stage = between(stage);
    let forged = stage.ask(stream, say(format!("It is sunny (execution_id: {FORGED}).")));
    assert!(!forged.text().contains("sunny"), "{}", forged.raw);
    forged.judged("blocked", &["unknown_execution"]);
    // Another caller's, at each replica.
    for replica in 0..REPLICAS {
        let request =
            asked(json!({"input": "And now?", "metadata": {"say": format!("Still 18 (execution_id: {real}).")}}), &kept(second.id()));
        stage.ask_as(replica, "Bearer other", stream, request).judged("blocked", &["unknown_execution"]);
    }
}

#[test]
fn a_conversation_goes_on_at_any_replica() {
    for (stream, by_conversation) in WAYS.into_iter().flat_map(|stream| [(stream, false), (stream, true)]) {
        for store in ["digests", "bodies"] {
            let stage = Stage::sharing("default", REPLICAS, Ledger::postgres(), store);
            goes_on(stage, stream, by_conversation, |stage| stage);
        }
    }
}

#[test]
fn a_conversation_goes_on_after_restarts() {
    for (stream, by_conversation) in [(false, false), (true, true)] {
        let stage = Stage::sharing("default", REPLICAS, Ledger::postgres(), "digests");
        goes_on(stage, stream, by_conversation, |stage| stage.restarted("default", "digests"));
    }
}

#[test]
fn a_conversation_that_the_ledger_doesnt_tell_of_in_time_is_said_and_refused_by_strict() {
    for (policy, status) in [("default", 200), ("strict", 400)] {
        let database = Database::new();
        let line = database.line();
        let stage = Stage::at(policy, 2, &line.url(), "digests");
        let first = stage.ask_as(0, "Bearer test", false, json!({"input": "What is the weather in Paris?"}));
        let request = json!({"input": [output(&first.call()["call_id"])], "previous_response_id": first.id()});
        line.cut();
        let second = stage.ask_as(1, "Bearer test", false, request.clone());
        assert_eq!(second.status, status, "{}", second.raw);
        assert!(second.violations.contains(&"ledger_unavailable".to_owned()) || second.raw.contains("ledger_unavailable"), "{second:?}");
        assert_ne!(second.verdict, "pass", "{}", second.raw);
        line.mend();
        // As soon as it is there again, the conversation is known.
        let known = until("the ledger tells", || {
            let answer = stage.ask_as(1, "Bearer test", false, request.clone());
            (answer.status == 200 && !answer.violations.contains(&"ledger_unavailable".to_owned())).then_some(answer)
        });
        assert!(known.violations.iter().all(|code| code != "unverified_call"), "{known:?}");
    }
}

#[test]
fn a_conversation_that_the_ledger_doesnt_take_in_time_is_said_and_known_once_it_does() {
    for stream in WAYS {
        for policy in ["default", "strict"] {
            let database = Database::new();
            let line = database.line();
            let stage = Stage::at(policy, 2, &line.url(), "digests");
            line.cut();
            let question = json!({"input": "What is the weather in Paris?"});
            let first = stage.ask_as(0, "Bearer test", stream, question);
            if policy == "strict" {
                let refused = first.status == 503 || first.raw.contains("response.failed");
                assert!(refused && first.raw.contains("ledger_unavailable"), "{}", first.raw);
                continue;
            }
            first.judged("warn", &["ledger_unavailable"]);
            line.mend();
            // Nobody asks the first replica again: it stores what it has by itself.
            let request = json!({"input": [output(&first.call()["call_id"])], "previous_response_id": first.id()});
            let known = until("the ledger has it", || {
                let answer = stage.ask_as(1, "Bearer test", stream, request.clone());
                (answer.verdict == "pass").then_some(answer)
            });
            assert!(execution(&stage.last_sent()["input"][0]["output"]).is_some(), "{known:?}");
        }
    }
}

/// A turn that was begun without what is known of the turn before goes on with it as soon as the ledger says it.
#[test]
fn what_wasnt_read_in_time_is_read_later() {
    let database = Database::new();
    let line = database.line();
    let stage = Stage::at("default", 2, &line.url(), "bodies");
    let first = stage.ask_as(0, "Bearer test", false, json!({"input": "What is the weather in Paris?"}));
    let called = output(&first.call()["call_id"]);
    let second = stage.ask_as(0, "Bearer test", false, json!({"input": [called], "previous_response_id": first.id()}));
    let real = execution(&stage.last_sent()["input"][0]["output"]).unwrap();
    second.judged("pass", &[]);
    line.cut();
    let blind = json!({"input": "Thanks", "previous_response_id": second.id(), "metadata": {"say": "Welcome."}});
    let blind = stage.ask_as(1, "Bearer test", false, blind);
    blind.judged("warn", &["ledger_unavailable"]);
    line.mend();
    let cites = |degrees: u64| {
        let say = format!("It is {degrees} degrees (execution_id: {real}).");
        json!({"input": "And now?", "previous_response_id": blind.id(), "metadata": {"say": say}})
    };
    for replica in [1, 0] {
        let known = until("the ledger tells", || {
            let answer = stage.ask_as(replica, "Bearer test", false, cites(18));
            (!answer.violations.contains(&"ledger_unavailable".to_owned())).then_some(answer)
        });
        known.judged("pass", &[]);
        // It is compared with the result again.
        stage.ask_as(replica, "Bearer test", false, cites(99)).judged("warn", &["ungrounded_value"]);
    }
}

#[test]
fn what_holds_at_one_process_holds_at_two_replicas() {
    in_turns(&[
        super::a_result_of_an_earlier_responses_call_is_verified,
        super::evidence_is_the_same_whether_history_is_sent_or_kept,
        super::a_conversation_is_remembered_too,
        super::tools_that_came_in_earlier_may_be_called_later,
        super::an_id_that_may_stand_in_an_unseen_turn_is_no_forgery_unless_it_looks_like_ours,
    ]);
}

#[test]
fn repairs_at_one_process_are_the_same_at_two_replicas() {
    in_turns(&[
        repaired::the_application_goes_on_from_the_attempt_that_was_passed_on,
        repaired::a_repair_within_a_conversation_sends_only_the_outputs,
        repaired::every_call_of_a_rejected_turn_is_answered,
        repaired::what_was_never_passed_on_is_answered_once,
        repaired::a_conversation_goes_on_where_a_repair_came_to_nothing,
        repaired::items_of_a_rejected_attempt_are_never_referred_to,
        repaired::a_forged_text_isnt_what_the_model_reads_again,
    ]);
}
