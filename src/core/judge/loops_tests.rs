//! Loop control: what is one call too many, and what isn't.

use super::*;
use crate::{
    judge::history::calls::CallFingerprint,
    policy::{CallRate, Identical, ToolLoops},
};

const NOW: u64 = 1_763_800_000_000;

fn strict() -> LoopsPolicy {
    LoopsPolicy {
        consecutive_failures: 3,
        same_tool: CallRate { calls: 5, window: Duration::from_secs(10) },
        all_tools: CallRate { calls: 10, window: Duration::from_secs(5) },
        identical_calls: Identical::in_a_row(5),
        ..LoopsPolicy::default()
    }
}

fn moment(ago_ms: u64) -> MarkTime {
    MarkTime { time_ms: NOW - ago_ms, counter: 0 }
}

/// A turn of these calls, so long ago: the tool, its arguments, its result; `!` in front of what is a failure.
fn step(ago_ms: u64, calls: &[(&str, &str, &str)]) -> CallTurn {
    let called = |(tool, arguments, result): &(&str, &str, &str)| PastUse {
        tool: (*tool).into(),
        failed: Some(result.starts_with('!')),
        same: Some(CallFingerprint { call: call_digest(tool, arguments), result: call_digest(result, "") }),
    };
    CallTurn { moment: Some(moment(ago_ms)), uses: calls.iter().map(called).collect() }
}

/// One call of `tool` in each turn, always with other arguments; the results from the oldest on, `every_ms` apart, the
/// last one as long ago.
fn turns(tool: &str, results: &[&str], every_ms: u64) -> CallHistory {
    let count = results.len() as u64;
    let turn = |(at, result): (u64, &&str)| step((count - at) * every_ms, &[(tool, &format!("{{\"at\":{at}}}"), result)]);
    (0..).zip(results).map(turn).collect()
}

fn stop(limits: &LoopsPolicy, trail: &CallHistory, tool: &str, arguments: &str) -> Option<Limit> {
    let watch = LoopDetector { limits, trail, beyond: &ExternalCounts::default(), now_ms: NOW };
    watch.turn().or_else(|| watch.call(tool, arguments)).map(|stop| stop.limit)
}

#[test]
fn failures_in_a_row() {
    use Limit::ConsecutiveFailures;
    for (results, expected) in [
        (&["!", "!", "!"][..], Some(ConsecutiveFailures)),
        (&["!", "!"], None),
        (&["!", "!", "ok", "!"], None),
        (&["!", "!", "!", "ok"], None),
        (&["ok", "!", "!", "!", "!"], Some(ConsecutiveFailures)),
    ] {
        assert_eq!(stop(&strict(), &turns("a", results, 4000), "a", "{}"), expected, "{results:?}");
        assert_eq!(stop(&strict(), &turns("a", results, 4000), "b", "{}"), None, "of another tool: {results:?}");
    }
    let eight = turns("a", &["!"; 8], 2000);
    assert_eq!(stop(&LoopsPolicy::default(), &eight, "a", "{}"), Some(ConsecutiveFailures));
    assert_eq!(stop(&LoopsPolicy::default(), &eight[1..].to_vec(), "a", "{}"), None);
    let off = LoopsPolicy { consecutive_failures: 0, ..strict() };
    assert_eq!(stop(&off, &turns("a", &["!"; 20], 20_000), "a", "{}"), None);
    // Calls of others between them don't matter, nor a call without a result.
    let mut between = turns("a", &["!", "!", "!"], 9000);
    between.insert(1, step(20_000, &[("b", "{}", "ok")]));
    between.push(CallTurn { moment: Some(moment(1)), uses: [PastUse { tool: "a".into(), failed: None, same: None }].into() });
    assert_eq!(stop(&strict(), &between, "a", "{}"), Some(ConsecutiveFailures));
}

#[test]
fn a_turn_is_one_step() {
    let fan: Vec<(String, &str)> = (0..20).map(|at| (format!("{{\"at\":{at}}}"), "!")).collect();
    let failing: Vec<(&str, &str, &str)> = fan.iter().map(|(arguments, result)| ("a", arguments.as_str(), *result)).collect();
    assert_eq!(stop(&strict(), &vec![step(1000, &failing)], "a", "{}"), None, "twenty at once failed once");
    let mut one_fine = failing.clone();
    one_fine[7].2 = "ok";
    let three = |calls: &[(&str, &str, &str)]| vec![step(3000, calls), step(2000, calls), step(1000, calls)];
    assert_eq!(stop(&strict(), &three(&failing), "a", "{}"), Some(Limit::ConsecutiveFailures));
    assert_eq!(stop(&strict(), &three(&one_fine), "a", "{}"), None, "one success is a success");
    assert_eq!(stop(&strict(), &vec![step(1000, &[("a", "{}", "x"); 9])], "a", "{}"), None, "the same at once is no row");
}

#[test]
fn stopped_tools_cool_down() {
    let failed =
        |ago_ms| vec![step(ago_ms + 2000, &[("a", "{}", "!")]), step(ago_ms + 1000, &[("a", "1", "!")]), step(ago_ms, &[("a", "2", "!")])];
    assert_eq!(stop(&strict(), &failed(59_000), "a", "{}"), Some(Limit::ConsecutiveFailures));
    assert_eq!(stop(&strict(), &failed(62_000), "a", "{}"), None);
    // It takes a minute and more to fail: the pause begins when it has.
    let slow: CallHistory = (0..4).map(|at| step(70_000 * (4 - at), &[("a", &at.to_string(), "!")])).collect();
    assert_eq!(stop(&strict(), &slow, "a", "{}"), Some(Limit::ConsecutiveFailures));
    // Whose times aren't known can't cool down.
    let unmarked: CallHistory = failed(62_000).into_iter().map(|step| CallTurn { moment: None, ..step }).collect();
    assert_eq!(stop(&strict(), &unmarked, "a", "{}"), Some(Limit::ConsecutiveFailures));
}

#[test]
fn calls_in_a_window() {
    let calls = |count: usize, every_ms: u64| turns("a", &vec!["ok"; count], every_ms);
    for (trail, tool, expected) in [
        (calls(5, 1900), "a", Some(Limit::SameTool)),
        (calls(4, 1900), "a", None),
        (calls(5, 2100), "a", None),
        (calls(50, 2100), "a", None),
        (calls(5, 1900), "b", None),
        (calls(10, 490), "b", Some(Limit::AllTools)),
        (calls(9, 490), "b", None),
        (calls(10, 600), "b", None),
    ] {
        assert_eq!(stop(&strict(), &trail, tool, "{}"), expected, "{tool} after {} calls", trail.len());
    }
    let off = CallRate { calls: 0, window: Duration::from_secs(10) };
    let off = LoopsPolicy { same_tool: off, all_tools: off, ..strict() };
    assert_eq!(stop(&off, &calls(500, 1), "a", "{}"), None);
    let watch = LoopDetector { limits: &strict(), trail: &calls(5, 1900), beyond: &ExternalCounts::default(), now_ms: NOW };
    let stop = watch.call("a", "{}").unwrap();
    assert_eq!((stop.times, stop.until_ms), (5, Some(NOW + 500)), "until the first of them is long enough ago");
}

#[test]
fn identical_calls() {
    let row = |count: u64, every_ms: u64| -> CallHistory {
        (0..count).map(|at| step((count - at) * every_ms, &[("a", "{\"x\":1}", "same")])).collect()
    };
    let rates = CallRate { calls: 0, window: Duration::from_secs(1) };
    let limits = LoopsPolicy { same_tool: rates, all_tools: rates, ..strict() };
    let check = |trail: &CallHistory, arguments: &str| stop(&limits, trail, "a", arguments);
    assert_eq!(check(&row(5, 3000), "{ \"x\": 1.0 }"), Some(Limit::IdenticalCalls), "however they are written");
    assert_eq!(check(&row(4, 3000), "{\"x\":1}"), None);
    assert_eq!(check(&row(5, 3000), "{\"x\":2}"), None, "other arguments");
    assert_eq!(check(&row(50, 61_000), "{\"x\":1}"), None, "a patient poll");
    let mut changed = row(5, 3000);
    changed[4] = step(3000, &[("a", "{\"x\":1}", "other")]);
    assert_eq!(check(&changed, "{\"x\":1}"), None, "the result changes");
    let mut between = row(9, 3000);
    between.insert(8, step(4000, &[("sleep", "{}", "slept")]));
    assert_eq!(check(&between, "{\"x\":1}"), None, "something else between");
    let pages: CallHistory = (0..40).map(|page| step((40 - page) * 2000, &[("a", &format!("{{\"page\":{page}}}"), "[]")])).collect();
    assert_eq!(check(&pages, "{\"page\":40}"), None, "page by page");
}

/// The runs that the default policy stopped, and those that it is for.
#[test]
fn no_honest_run_meets_the_defaults() {
    let check = |trail: &CallHistory, arguments: &str| stop(&LoopsPolicy::default(), trail, "a", arguments);
    let poll = |count: u64, every_ms: u64| -> CallHistory {
        (0..count).map(|at| step((count - at) * every_ms, &[("a", "{\"job\":1}", "{\"state\":\"running\"}")])).collect()
    };
    for (count, every_ms) in [(5, 5), (5, 200), (12, 200), (19, 50), (29, 200), (29, 10_000)] {
        assert_eq!(check(&poll(count, every_ms), "{\"job\":1}"), None, "{count} polls, {every_ms} ms apart");
    }
    for (count, every_ms) in [(20, 50), (20, 100), (30, 200), (30, 30_000)] {
        assert_eq!(check(&poll(count, every_ms), "{\"job\":1}"), Some(Limit::IdenticalCalls), "{count} polls, {every_ms} ms apart");
    }
    for (rows, every_ms) in [(25, 5), (25, 200), (299, 200), (300, 201)] {
        assert_eq!(check(&turns("a", &vec!["ok"; rows], every_ms), "{}"), None, "{rows} rows, {every_ms} ms apart");
    }
    assert_eq!(check(&turns("a", &["ok"; 300], 150), "{}"), Some(Limit::SameTool));
    let unmarked: CallHistory = poll(29, 1).into_iter().map(|step| CallTurn { moment: None, ..step }).collect();
    assert_eq!(check(&unmarked, "{\"job\":1}"), None, "whose times aren't known are in no haste");
}

#[test]
fn a_stop_says_its_setting() {
    let watch = LoopDetector { limits: &strict(), trail: &turns("a", &["!"; 3], 4000), beyond: &ExternalCounts::default(), now_ms: NOW };
    let said = watch.call("a", "{}").unwrap().message(Some("a"));
    assert_eq!(said, "\"a\" has failed 3 times in a row (setting `loops.consecutive_failures`)");
    for limit in Limit::ALL {
        let stop = LimitHit { limit, times: 1, until_ms: None };
        assert!(stop.message(None).ends_with(&format!("(setting `{}`)", limit.setting())), "{limit:?}");
    }
}

#[test]
fn a_clock_that_is_ahead_stops_nothing_for_long() {
    let ahead = |trail: CallHistory| -> CallHistory {
        let later = |step: CallTurn| CallTurn { moment: step.moment.map(|own| MarkTime { time_ms: own.time_ms + 600_000, ..own }), ..step };
        trail.into_iter().map(later).collect()
    };
    assert_eq!(stop(&strict(), &ahead(turns("a", &["ok"; 40], 4000)), "a", "{}"), None);
    let trail = ahead(turns("a", &["!"; 3], 4000));
    let watch = LoopDetector { limits: &strict(), trail: &trail, beyond: &ExternalCounts::default(), now_ms: NOW };
    assert_eq!(watch.call("a", "{}").and_then(|stop| stop.until_ms), Some(NOW + 60_000));
}

#[test]
fn tools_have_limits_of_their_own() {
    let own = ToolLoops { identical_calls: Some(Identical::in_a_row(0)), cooldown: Some(Duration::from_secs(5)), ..ToolLoops::default() };
    let limits = LoopsPolicy { tools: [("a".to_owned(), own)].into(), ..strict() };
    let same: CallHistory = (0..9).map(|at| step((9 - at) * 3000, &[("a", "{}", "same"), ("b", "{}", "same")])).collect();
    assert_eq!((stop(&limits, &same, "a", "{}"), stop(&limits, &same, "b", "{}")), (None, Some(Limit::IdenticalCalls)));
    let failed = |tool: &str| -> CallHistory { (0..3).map(|at| step(30_000 - at * 3000, &[(tool, &at.to_string(), "!")])).collect() };
    let stopped = |tool: &str| stop(&limits, &failed(tool), tool, "x");
    assert_eq!((stopped("a"), stopped("b")), (None, Some(Limit::ConsecutiveFailures)), "more than five seconds have passed");
}

#[test]
fn resets_begin_anew() {
    let trail = turns("a", &["!"; 3], 4000);
    let reset = |all_ms: u64, tool_ms: u64| {
        let resets = Resets { all_ms, tools: [("a".into(), tool_ms)].into() };
        let beyond = ExternalCounts { resets, ..ExternalCounts::default() };
        LoopDetector { limits: &strict(), trail: &trail, beyond: &beyond, now_ms: NOW }.call("a", "{}").is_some()
    };
    assert_eq!((reset(0, 0), reset(NOW - 1, 0), reset(0, NOW - 1), reset(NOW - 12_001, 0)), (true, false, false, true));
}

#[test]
fn a_session_s_other_conversations_count() {
    let call = |ago_ms, failed| SessionCall { tool: "a".into(), moment: moment(ago_ms), at: moment(ago_ms), failed: Some(failed) };
    let stopped = |session: Vec<SessionCall>, trail: &CallHistory| {
        let beyond = ExternalCounts { session, ..ExternalCounts::default() };
        LoopDetector { limits: &strict(), trail, beyond: &beyond, now_ms: NOW }.call("a", "{}").map(|stop| stop.limit)
    };
    let one = turns("a", &["!"], 1500);
    assert_eq!(stopped(vec![call(9000, true), call(5000, true)], &one), Some(Limit::ConsecutiveFailures));
    assert_eq!(stopped(vec![call(9000, true), call(5000, true), call(1000, false)], &one), None, "a success elsewhere");
    let fine = turns("a", &["ok"], 1500);
    assert_eq!(stopped((1..5).map(|at| call(at * 2000, false)).collect(), &fine), Some(Limit::SameTool));
    assert_eq!(stopped((2..6).map(|at| call(at * 2500, false)).collect(), &fine), None);
}

#[test]
fn invented_tools_are_counted_together() {
    let invented = |trail: &CallHistory, attempts| {
        let watch = LoopDetector { limits: &strict(), trail, beyond: &ExternalCounts::default(), now_ms: NOW };
        watch.invented(attempts, |tool| tool == "real").map(|stop| stop.times)
    };
    let none = Vec::new();
    assert_eq!((invented(&none, 2), invented(&none, 3)), (None, Some(3)));
    // A history that went another way may hold them.
    let names: CallHistory = ["made_up", "made_up_2"].iter().map(|tool| step(5000, &[(tool, "{}", "!")])).collect();
    assert_eq!((invented(&names, 1), invented(&names, 0)), (Some(3), None));
    assert_eq!(invented(&turns("real", &["!"; 9], 1000), 1), None);
}
