//! Loop control: detects calls that exceed a limit.
//!
//! Works on the [`CallHistory`] of the conversation: marks carry the calls' times, so nothing needs to be stored, and replicas agree. Counts from
//! outside the conversation ([`ExternalCounts`]: a session's other conversations, resets) are passed in as values. Pure.
//!
//! Counted are: failures of one tool in a row since the last user message; calls of one tool, and of all tools, in a window; the same call
//! with the same result in consecutive turns, in quick succession or in a long row. All calls of one turn are one step. A success ends a
//! row of failures, any other call a row of identical calls, and a user message ends both.

use std::{cmp::Reverse, collections::HashMap, sync::Arc, time::Duration};

use crate::{
    judge::{
        call::issues::quote,
        history::calls::{CallHistory, CallTurn, PastUse, call_digest},
    },
    marks::MarkTime,
    policy::{Identical, LoopsPolicy},
    schema::strict_json::brief,
};

/// Latest calls of a session's other conversations that are counted.
pub const SESSION_CALLS_MAX: usize = 256;

/// Characters of a tool's name in a message.
const TOOL_CHARS_MAX: usize = 128;

/// A limit that was reached.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LimitHit {
    /// The limit.
    pub limit: Limit,
    /// Number of occurrences.
    pub times: u32,
    /// End of the stop in Unix milliseconds; `None`: until a success or the next user message.
    pub until_ms: Option<u64>,
}

impl LimitHit {
    /// One-line explanation that names the policy's setting. `tool`: the tool that was called, if a single one is stopped.
    pub fn message(&self, tool: Option<&str>) -> String {
        format!("{} (setting `{}`)", self.what(tool), self.limit.setting())
    }

    fn what(&self, tool: Option<&str>) -> String {
        let (tool, times) = (tool.map_or_else(|| "a tool".to_owned(), |tool| quote(&brief(tool, TOOL_CHARS_MAX))), self.times);
        match self.limit {
            Limit::ConsecutiveFailures => format!("{tool} has failed {times} times in a row"),
            Limit::SameTool => format!("{tool} was called {times} times within a short time"),
            Limit::AllTools => format!("tools were called {times} times within a short time"),
            Limit::IdenticalCalls => format!("this very call of {tool} has returned the same result {times} times in a row"),
            Limit::InventedTools => format!("tools that don't exist were called {times} times in a row"),
        }
    }

    /// One-line advice on what to do instead.
    pub fn advice(&self, now_ms: u64) -> String {
        let seconds = self.until_ms.map(|until_ms| until_ms.saturating_sub(now_ms).div_ceil(1000));
        let pause = seconds.map_or_else(String::new, |seconds| format!(" for the next {seconds} s"));
        match self.limit {
            Limit::ConsecutiveFailures => {
                format!("don't call it again{pause}: use another tool, or tell the user what went wrong and what you need")
            }
            Limit::SameTool => {
                format!("don't call it again{pause}: work with the results you have, or tell the user how far you came")
            }
            Limit::AllTools => {
                format!("call nothing{pause}: work with the results you have, or tell the user how far you came")
            }
            Limit::IdenticalCalls => {
                format!("calling it again{pause} won't change that: use this result, call it with other arguments, or tell the user")
            }
            Limit::InventedTools => "answer without a tool, and say what you could not do".to_owned(),
        }
    }
}

/// Limits of loop control.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Limit {
    /// `consecutive_failures`
    ConsecutiveFailures,
    /// `same_tool`
    SameTool,
    /// `all_tools`
    AllTools,
    /// `identical_calls`
    IdenticalCalls,
    /// `consecutive_failures`, for calls of tools that don't exist, under any name.
    InventedTools,
}

impl Limit {
    /// Every limit.
    pub const ALL: [Self; 5] = [Self::ConsecutiveFailures, Self::SameTool, Self::AllTools, Self::IdenticalCalls, Self::InventedTools];

    /// Name in statistics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ConsecutiveFailures => "consecutive_failures",
            Self::SameTool => "same_tool",
            Self::AllTools => "all_tools",
            Self::IdenticalCalls => "identical_calls",
            Self::InventedTools => "invented_tools",
        }
    }

    /// The policy's setting that defines the limit.
    pub fn setting(self) -> &'static str {
        match self {
            Self::ConsecutiveFailures | Self::InventedTools => "loops.consecutive_failures",
            Self::SameTool => "loops.same_tool",
            Self::AllTools => "loops.all_tools",
            Self::IdenticalCalls => "loops.identical_calls",
        }
    }
}

/// A call of another conversation of the same session, read from the records of its exchanges.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SessionCall {
    /// Name of the tool.
    pub tool: Arc<str>,
    /// Mark time: when the call was let through, by the clock of the replica that did it. It tells calls apart.
    pub moment: MarkTime,
    /// The same by this process's clock.
    pub at: MarkTime,
    /// True if the call failed; `None` while there is no result.
    pub failed: Option<bool>,
}

/// Times at which an administrator reset the counts, in Unix milliseconds.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Resets {
    /// Reset of all tools.
    pub all_ms: u64,
    /// Resets of single tools, by name.
    pub tools: HashMap<Box<str>, u64>,
}

impl Resets {
    fn of(&self, tool: &str) -> u64 {
        self.tools.get(tool).copied().unwrap_or_default().max(self.all_ms)
    }
}

/// Counts from outside the conversation.
#[derive(Clone, Debug, Default)]
pub struct ExternalCounts {
    /// Calls of the session's other conversations, oldest first.
    pub session: Vec<SessionCall>,
    /// Resets that concern this session.
    pub resets: Resets,
}

/// Inputs of loop control.
#[derive(Clone, Copy, Debug)]
pub struct LoopDetector<'w> {
    /// The policy's limits.
    pub limits: &'w LoopsPolicy,
    /// Calls of the conversation since the last user message.
    pub trail: &'w CallHistory,
    /// Counts from outside the conversation.
    pub beyond: &'w ExternalCounts,
    /// The time of judging, in Unix milliseconds.
    pub now_ms: u64,
}

impl LoopDetector<'_> {
    /// Checks the limit on calls of all tools; `Some` if it is reached.
    pub fn turn(&self) -> Option<LimitHit> {
        let rate = self.limits.all_tools;
        let since_ms = self.beyond.resets.all_ms;
        let own = self.trail.iter().filter_map(|step| step.moment);
        let times = own.chain(self.beyond.session.iter().map(|call| call.at)).map(|moment| moment.time_ms);
        self.full(times.filter(|time_ms| *time_ms > since_ms), rate.calls, rate.window, Limit::AllTools)
    }

    /// Checks the limits on one call of `tool`; `Some` if one is reached.
    pub fn call(&self, tool: &str, arguments: &str) -> Option<LimitHit> {
        let limits = self.limits.of_tool(tool);
        let cooldown_ms = millis(limits.cooldown);
        let stopped = |limit: Limit, (times, last): (u32, LastSeen), most: u32| {
            // A replica's clock may be ahead: nothing is stopped for longer than from now on.
            let until_ms = last.ms.map(|ms| ms.min(self.now_ms).saturating_add(cooldown_ms));
            let stands = most > 0 && times >= most && until_ms.is_none_or(|until_ms| self.now_ms < until_ms);
            stands.then_some(LimitHit { limit, times, until_ms })
        };
        let identical = || {
            let row = self.identical(tool, arguments);
            let Identical { calls, within, in_a_row } = limits.identical_calls;
            let last = LastSeen { ms: row.iter().copied().flatten().max() };
            let long = stopped(Limit::IdenticalCalls, (u32::try_from(row.len()).unwrap_or(u32::MAX), last), in_a_row);
            let hasty = || in_haste(&row, calls, within).then(|| stopped(Limit::IdenticalCalls, (calls, last), calls)).flatten();
            long.or_else(hasty)
        };
        let rate = || {
            let calls = self.calls_of(|own| own == tool, self.beyond.resets.of(tool));
            let times = calls.filter_map(|called| called.moment).map(|moment| moment.time_ms);
            self.full(times, limits.same_tool.calls, limits.same_tool.window, Limit::SameTool)
        };
        stopped(Limit::ConsecutiveFailures, self.failures(|own| own == tool, tool), limits.consecutive_failures)
            .or_else(identical)
            .or_else(rate)
    }

    /// Checks the limit on calls of tools that don't exist. `attempts`: consecutive turns of this exchange with such calls, this one
    /// included. `exists`: is there such a tool?
    pub fn invented(&self, attempts: u32, exists: impl Fn(&str) -> bool) -> Option<LimitHit> {
        let (before, _) = self.failures(|own| !exists(own), "");
        let (times, most) = (before.saturating_add(attempts), self.limits.consecutive_failures);
        (most > 0 && attempts > 0 && times >= most).then_some(LimitHit { limit: Limit::InventedTools, times, until_ms: None })
    }

    /// Checks a rate: `Some` if there were `calls` within `window` before now.
    fn full(&self, times: impl Iterator<Item = u64>, calls: u32, window: Duration, limit: Limit) -> Option<LimitHit> {
        if calls == 0 {
            return None;
        }
        let window_ms = millis(window);
        // What another replica's clock puts far ahead is no hurry.
        let since = self.now_ms.saturating_sub(window_ms)..=self.now_ms.saturating_add(window_ms);
        let mut recent: Vec<u64> = times.filter(|time_ms| since.contains(time_ms) && *since.start() < *time_ms).collect();
        recent.sort_unstable();
        recent.dedup();
        let first = *recent.get(recent.len().checked_sub(calls as usize)?)?;
        let times = u32::try_from(recent.len()).unwrap_or(u32::MAX);
        Some(LimitHit { limit, times, until_ms: Some(first.saturating_add(window_ms)) })
    }

    /// Calls of the `wanted` tools, newest first: one entry for each step, and for each call of the session.
    fn calls_of(&self, wanted: impl Fn(&str) -> bool, since_ms: u64) -> impl Iterator<Item = CallCount> {
        let counts = move |moment: Option<MarkTime>| moment.map_or(since_ms == 0, |moment| moment.time_ms > since_ms);
        let session = self.beyond.session.iter().rev().filter(|call| counts(Some(call.at)) && wanted(&call.tool));
        let session = session.map(|call| CallCount { moment: Some(call.at), failed: call.failed, next_ms: None });
        let session: Vec<CallCount> = session.collect();
        let own = self.trail.iter().rev().scan(None, |later_ms, step| {
            let next_ms = std::mem::replace(later_ms, step.moment.map(|moment| moment.time_ms));
            Some((step, next_ms))
        });
        let own = own.filter(move |(step, _)| counts(step.moment));
        let mut own = own.filter_map(move |(step, next_ms)| {
            let failed = failed(step.uses.iter().filter(|own| wanted(&own.tool)))?;
            Some(CallCount { moment: step.moment, failed, next_ms })
        });
        let mut merged = Vec::new();
        if !self.beyond.session.is_empty() {
            merged.extend(own.by_ref());
            merged.extend(session);
            merged.sort_by_key(|call| Reverse(call.moment));
        }
        merged.into_iter().chain(own)
    }

    /// Length of the current row of failures, and the time of the last one.
    fn failures(&self, wanted: impl Fn(&str) -> bool, tool: &str) -> (u32, LastSeen) {
        let (mut times, mut last, mut gap_ms) = (0, LastSeen::default(), None);
        let calls = self.calls_of(wanted, self.beyond.resets.of(tool));
        for call in calls.filter(|call| call.failed.is_some()).take_while(|call| call.failed == Some(true)) {
            times += 1;
            let own_ms = call.moment.map(|moment| moment.time_ms);
            last.ms = last.ms.max(own_ms);
            let own_gap = call.next_ms.zip(own_ms).map(|(next, own)| next.saturating_sub(own));
            gap_ms = [gap_ms, own_gap].into_iter().flatten().min();
        }
        // A mark says when a call began. How long this tool takes to fail, its earlier failures tell.
        last.ms = last.ms.map(|ms| ms.saturating_add(gap_ms.unwrap_or(0)));
        (times, last)
    }

    /// Times at which this same call had the same result in a row, latest first, in Unix milliseconds; `None` if unknown.
    fn identical(&self, tool: &str, arguments: &str) -> Vec<Option<u64>> {
        let (mut row, mut result) = (Vec::new(), None);
        let ours = |step: &CallTurn| step.uses.iter().any(|own| *own.tool == *tool && own.same.is_some());
        if !self.trail.last().is_some_and(ours) {
            return row;
        }
        let (call, since_ms) = (call_digest(tool, arguments), self.beyond.resets.of(tool));
        for step in self.trail.iter().rev() {
            let same = step.uses.iter().filter_map(|own| own.same).find(|same| same.call == call);
            let Some(same) = same.filter(|same| result.is_none_or(|result| result == same.result)) else { break };
            if step.moment.map_or(since_ms > 0, |moment| moment.time_ms <= since_ms) {
                break;
            }
            result = Some(same.result);
            row.push(step.moment.map(|moment| moment.time_ms));
        }
        row
    }
}

/// True if the latest `calls` of a row came within this time. Unknown times don't count.
fn in_haste(row: &[Option<u64>], calls: u32, within: Duration) -> bool {
    let first = (calls as usize).checked_sub(1).and_then(|at| row.get(at)).copied().flatten();
    let last = row.first().copied().flatten();
    first.zip(last).is_some_and(|(first, last)| last.saturating_sub(first) <= millis(within))
}

/// Time of the last occurrence in Unix milliseconds, if known.
#[derive(Clone, Copy, Debug, Default)]
struct LastSeen {
    ms: Option<u64>,
}

struct CallCount {
    moment: Option<MarkTime>,
    failed: Option<bool>,
    /// Time of the model's next call, in Unix milliseconds.
    next_ms: Option<u64>,
}

/// Outcome of one tool's calls in one turn: failed only if all of them failed; the inner `None` if unknown, the outer one if there are no calls.
fn failed<'u>(uses: impl Iterator<Item = &'u PastUse>) -> Option<Option<bool>> {
    uses.map(|own| own.failed).reduce(|one, other| match (one, other) {
        (Some(one), Some(other)) => Some(one && other),
        (known, None) | (None, known) => known,
    })
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "loops_tests.rs"]
mod tests;
