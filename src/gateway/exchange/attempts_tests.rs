//! One table for the attempts of buffered answers, streams and recordings: the same steps in each.

use std::{path::Path, sync::Arc};

use bytes::Bytes;

use super::*;
use crate::{
    chat::request::{self, Head},
    exchange::{
        active_policy::Standard,
        context::{Basis, Begun, Upstream},
    },
    judge::{
        call::turn::TurnVerdict,
        loops::{Limit, LimitHit},
    },
    marks::{KeyRing, Scope},
    policy::{OnBlockedJson, Policy, load::PolicySource},
    tools::registry::SchemaCache,
    violation::Severity,
    wire::json::Document,
};

/// What happens in an exchange.
enum Event {
    /// An upstream request, and an answer that nothing blocks.
    Good,
    /// An answer whose text blocks, with this message.
    BadText(&'static str),
    /// An answer with a turn that blocks, with this message.
    BadTurn(&'static str),
    /// An answer with a good choice and a bad one.
    Mixed,
    /// An answer that loop control stops.
    Stopped,
    /// The upstream rejects the model's call.
    Rejected(&'static str),
    /// Text is sent to the application.
    Sent,
    /// Seconds go by.
    Wait(u64),
    /// A round of calls was run.
    Round,
    /// Nothing more is asked of the model.
    NoRepairs,
}
use Event::*;

fn context(change: impl FnOnce(&mut Policy), members: &str) -> Arc<Context> {
    let mut rules = PolicySource::choose(Some("default"), Path::new(".")).load().unwrap();
    let calls = &mut rules.policy.calls;
    (calls.max_repairs, calls.max_attempts, calls.repair_deadline) = (2, 4, Duration::from_secs(30));
    calls.on_exhausted = OnExhausted::Explain;
    change(&mut rules.policy);
    let standard = Standard::new(rules, 1 << 20).unwrap();
    let document = format!(r#"{{"model":"m","messages":[{{"role":"user","content":"go"}}]{members}}}"#);
    let document = Document::parse(Bytes::from(document)).unwrap();
    let (head, ring, rules) = (Head::read(&document).unwrap(), Arc::new(KeyRing::new(&[[7; 32]])), &standard.rules);
    let tools = standard.tools.get(head.brought(), &rules.policy, &rules.checks, &SchemaCache::default()).unwrap();
    let basis = Basis {
        id: uuid::Uuid::nil(),
        rules,
        call_rules: &standard.calls,
        natures: &standard.natures,
        text: &standard.text,
        ring: &ring,
        scope: Scope::shared(),
        tools,
        schemas: &Arc::default(),
        now_ms: 1,
        upstream: Upstream::default(),
        protocol: None,
        held_bytes_max: 1 << 20,
        beyond: Default::default(),
        prefix: Default::default(),
    };
    let Begun { context, .. } = request::begin(&document, &head, basis).unwrap();
    context
}

fn violation(code: Code, message: &str) -> Violation {
    Violation {
        code,
        severity: Severity::Block,
        tool: None,
        message: message.to_owned(),
        advice: String::new(),
        pointer: None,
        detail: None,
    }
}

fn choice(of_turn: Option<Violation>, of_text: Option<Violation>) -> JudgedChoice {
    let turn = TurnVerdict { calls: Vec::new(), violations: of_turn.into_iter().collect() };
    JudgedChoice { turn, of_text: of_text.into_iter().collect(), citations: Vec::new(), stops: Vec::new(), answer_blocked: false }
}

/// Names of the steps, and the verdict.
fn play(context: &Context, events: &[Event]) -> String {
    let (mut attempts, mut elapsed, mut steps) = (Attempts::default(), Duration::ZERO, Vec::new());
    for event in events {
        let bad = |text: &str| choice(None, Some(violation(Code::UnknownExecution, text)));
        let judged = match event {
            Good => vec![choice(None, None)],
            BadText(text) => vec![bad(text)],
            BadTurn(text) => vec![choice(Some(violation(Code::UnknownTool, text)), None)],
            Mixed => vec![choice(None, None), bad("x")],
            Stopped => {
                let stop = LimitHit { limit: Limit::AllTools, times: 3, until_ms: None };
                let stopped = crate::exchange::loop_guard::Stopped { tool: None, stop };
                vec![JudgedChoice { stops: vec![stopped], ..choice(Some(violation(Code::LoopDetected, "again")), None) }]
            }
            Rejected(_) => Vec::new(),
            Sent => {
                attempts.text_sent();
                continue;
            }
            Wait(seconds) => {
                elapsed += Duration::from_secs(*seconds);
                continue;
            }
            Round => {
                assert_eq!(attempts.start_round(9), RoundPermit::Run);
                attempts.end_round(elapsed);
                continue;
            }
            NoRepairs => {
                attempts.end_repairs();
                continue;
            }
        };
        attempts.start();
        let step = match event {
            Rejected(text) => {
                let turn = EchoedTurn { violations: vec![violation(Code::MalformedArguments, text)], ..EchoedTurn::default() };
                attempts.call_rejected(context, turn, elapsed)
            }
            _ => attempts.judged(context, judged, |_| Said::default(), elapsed),
        };
        steps.push(match step {
            NextStep::Repair(_) => "repair",
            NextStep::RunTools(_) => "run",
            NextStep::Finish(finished) if finished.choices.iter().all(|own| matches!(own, ChoiceOutcome::Accept(_))) => "accept",
            NextStep::Finish(FinishedAnswer { runs_ended: 1, .. }) => "end",
            NextStep::Finish(_) => "words",
            NextStep::Replace { .. } => "replace",
            NextStep::Refuse { .. } => "refuse",
        });
    }
    format!("{}: {}", steps.join(" "), attempts.findings().word())
}

#[test]
fn attempts_table_takes_the_same_steps_for_every_driver() {
    let usual = || context(|_| {}, "");
    let error = || context(|policy| policy.calls.on_exhausted = OnExhausted::Error, "");
    let json = r#","response_format":{"type":"json_object"}"#;
    let json_error = || context(|policy| policy.calls.on_blocked_json = OnBlockedJson::Error, json);
    let cases: [(&str, Arc<Context>, &[Event], &str); 24] = [
        ("a good answer", usual(), &[Good], "accept: pass"),
        ("one repair", usual(), &[BadTurn("a"), Good], "repair accept: repaired"),
        ("repairs end", usual(), &[BadTurn("a"), BadTurn("b"), BadTurn("c")], "repair repair words: blocked"),
        ("the same turn again", usual(), &[BadTurn("a"), BadTurn("a")], "repair words: blocked"),
        ("the same turn after another", usual(), &[BadTurn("a"), BadTurn("b"), BadTurn("a")], "repair repair words: blocked"),
        ("text that blocks", usual(), &[BadText("a"), Good], "repair accept: repaired"),
        ("text that blocks and was sent", usual(), &[Sent, BadText("a")], "words: blocked"),
        ("text that was sent in an earlier attempt", usual(), &[Sent, BadTurn("a"), BadText("b")], "repair words: blocked"),
        ("a bad call after text was sent", usual(), &[Sent, BadTurn("a"), Good], "repair accept: repaired"),
        ("time for the first repair never ends", usual(), &[Wait(99), BadTurn("a"), Good], "repair accept: repaired"),
        ("time ends", usual(), &[BadTurn("a"), Wait(30), BadTurn("b")], "repair words: blocked"),
        ("time is left", usual(), &[Wait(99), BadTurn("a"), Wait(29), BadTurn("b")], "repair repair: repaired"),
        ("time begins anew after a round", usual(), &[BadTurn("a"), Wait(99), Good, Round, BadTurn("b")], "repair accept repair: repaired"),
        ("attempts end", context(|policy| policy.calls.max_attempts = 1, ""), &[BadTurn("a")], "words: blocked"),
        (
            "a round is no attempt",
            context(|policy| policy.calls.max_attempts = 1, ""),
            &[Good, Round, BadTurn("a")],
            "accept words: blocked",
        ),
        (
            "rounds leave the attempts",
            context(|policy| policy.calls.max_attempts = 2, ""),
            &[Good, Round, Good, Round, BadTurn("a")],
            "accept accept repair: repaired",
        ),
        ("an answer that was asked for earlier", usual(), &[NoRepairs, BadTurn("a")], "words: blocked"),
        ("several choices are never repaired", context(|_| {}, r#","n":2"#), &[Mixed], "words: blocked"),
        ("an error for a turn", error(), &[BadTurn("a"), BadTurn("a")], "repair refuse: blocked"),
        ("words for text all the same", error(), &[BadText("a"), BadText("a")], "repair words: blocked"),
        ("an error where words are none", json_error(), &[BadText("a"), BadText("a")], "repair refuse: blocked"),
        ("a call that the upstream rejects", usual(), &[Rejected("a"), Rejected("b"), Rejected("c")], "repair repair replace: blocked"),
        ("an error for it", error(), &[Rejected("a"), Rejected("a")], "repair refuse: blocked"),
        (
            "two warnings, then the run ends",
            context(|policy| policy.calls.max_repairs = 9, ""),
            &[Stopped, Stopped, Stopped],
            "repair repair end: blocked",
        ),
    ];
    for (name, context, events, expected) in cases {
        assert_eq!(play(&context, events), expected, "{name}");
    }
}

#[test]
fn attempts_in_observe_mode_accept_everything() {
    let context = context(|policy| policy.mode = PolicyMode::Observe, "");
    assert_eq!(play(&context, &[BadTurn("a")]), "accept: warn");
    let mut attempts = Attempts::new(vec![violation(Code::UnverifiedCall, "x")]);
    assert!(attempts.refusal(&context).is_none());
}

#[test]
fn attempts_of_a_bad_request_never_start() {
    let context = context(|_| {}, "");
    let mut attempts = Attempts::new(vec![violation(Code::UnverifiedCall, "x")]);
    assert_eq!(attempts.refusal(&context).map(|violation| violation.code), Some(Code::UnverifiedCall));
    assert_eq!(attempts.findings().word(), "blocked");
}

#[test]
fn rounds_table_warns_once_and_then_ends() {
    let mut attempts = Attempts::default();
    let permits: Vec<RoundPermit> = (0..4).map(|_| attempts.start_round(2)).collect();
    assert_eq!(permits, [RoundPermit::Run, RoundPermit::Run, RoundPermit::LimitReached, RoundPermit::LimitExceeded]);
}
