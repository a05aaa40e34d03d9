//! Tests of [`super`]: tables of what passes and, more, of what doesn't.

use super::*;
use crate::{
    judge::call::Arguments,
    policy::{CallsPolicy, Tools},
    schema::FormatChecks,
    tools::registry::{RequestTool, SchemaCache, ToolKind},
    violation::Checks,
};

fn check(names: &[&str], turn: &TurnRules, checks: &Checks) -> TurnVerdict {
    let tool = |name| RequestTool { name, kind: ToolKind::Function, parameters_raw: None, description: None, raw: name };
    let (registry, _) =
        Registry::build(&[], &[tool("a"), tool("b")], &Tools::default(), FormatChecks::Assert, checks, &SchemaCache::default());
    let calls: Vec<Call> = names
        .iter()
        .map(|name| Call {
            name: (*name).into(),
            kind: CallKind::Function,
            arguments: Arguments::Text("{}".into()),
            id: Some("call_0".into()),
        })
        .collect();
    let rules = CallRules::new(&CallsPolicy { max_per_turn: 3, ..CallsPolicy::default() }, checks).expect("patterns");
    judge_turn(&calls, &registry, &rules, turn, &|_: &str| None)
}

#[test]
fn tool_choice() {
    let allowed = |required, names: &[&str]| ToolChoice::Allowed { required, names: names.iter().map(|name| (*name).to_owned()).collect() };
    let named = |name: &str| ToolChoice::Named(CallKind::Function, name.into());
    for (choice, names, blocks) in [
        (ToolChoice::Auto, &[][..], false),
        (ToolChoice::Auto, &["a", "b"], false),
        (ToolChoice::None, &[], false),
        (ToolChoice::None, &["a"], true),
        (ToolChoice::Required, &[], true),
        (ToolChoice::Required, &["b"], false),
        (named("a"), &[], true),
        (named("a"), &["a", "a"], false),
        (named("a"), &["a", "b"], true),
        (allowed(false, &["a"]), &[], false),
        (allowed(true, &["a"]), &[], true),
        (allowed(true, &["a"]), &["a"], false),
        (allowed(false, &["a"]), &["b"], true),
        (allowed(false, &[]), &["a"], true),
    ] {
        let turn = TurnRules { tool_choice: choice, ..TurnRules::default() };
        let verdict = check(names, &turn, &Checks::default());
        assert_eq!(verdict.blocks(), blocks, "{turn:?} {names:?}");
        let ignored = verdict.all_violations().any(|violation| violation.code == Code::ToolChoiceIgnored);
        assert_eq!(ignored, blocks);
        assert_eq!(verdict.into_calls().is_err(), blocks);
    }
    for ending in [FinishReason::Length, FinishReason::ContentFilter, FinishReason::Refusal] {
        let turn = TurnRules { tool_choice: ToolChoice::Required, ending, ..TurnRules::default() };
        assert!(!check(&[], &turn, &Checks::default()).blocks(), "{ending:?}");
    }
}

#[test]
fn numbers() {
    let one = TurnRules { parallel_tool_calls: Some(false), ..TurnRules::default() };
    assert!(check(&["a", "b"], &one, &Checks::default()).blocks());
    assert!(!check(&["a"], &one, &Checks::default()).blocks());
    let turn = TurnRules::default();
    assert!(!check(&["a"; 3], &turn, &Checks::default()).blocks());
    let verdict = check(&["a"; 5], &turn, &Checks::default());
    assert_eq!(verdict.calls.iter().filter(|judged| judged.outcome == CallVerdict::Reject).count(), 2);
    assert!(verdict.into_calls().is_err());
    let verdict = check(&["a"; 5], &turn, &Checks::default().with(Code::TooManyCalls, Severity::Warn));
    assert_eq!(verdict.into_calls().map(|calls| calls.len()), Ok(5));
}

#[test]
fn one_bad_call_holds_back_all() {
    let verdict = check(&["a", "c"], &TurnRules::default(), &Checks::default());
    assert!(matches!(verdict.calls.first(), Some(JudgedCall { outcome: CallVerdict::Accept(_), .. })));
    assert!(verdict.into_calls().is_err());
}

#[test]
fn ids_may_come_twice() {
    let verdict = check(&["a", "b"], &TurnRules::default(), &Checks::default());
    assert_eq!(verdict.violations.iter().map(|violation| violation.code).collect::<Vec<_>>(), [Code::DuplicateCallId]);
    assert!(!verdict.blocks());
    assert!(check(&["a"], &TurnRules::default(), &Checks::default()).violations.is_empty());
}

#[test]
fn endings_by_finish_reason() {
    for (ending, reasons) in [
        (FinishReason::Length, &["length", "max_tokens", "MAX_TOKENS", "model_length"][..]),
        (FinishReason::ContentFilter, &["content_filter", "sensitive"]),
        (FinishReason::Broken, &["error", "abort", "incomplete", "insufficient_system_resource"]),
        (
            FinishReason::Complete,
            &["stop", "tool_calls", "function_call", "end_turn", "eos_token", "STOP", "COMPLETE", "tool_use", "", "safety"],
        ),
    ] {
        for reason in reasons {
            assert_eq!(FinishReason::of_finish(reason), ending, "{reason}");
        }
    }
}
