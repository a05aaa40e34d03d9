//! Verifies a conversation's history: which of its calls toolmark let through, which results answer them, and which executions may
//! therefore be cited.
//!
//! docs/wire-facts.md#marks and #stamps. The adapters turn their wire form into [`HistoryItem`]s and put the stamps
//! back into it. Pure.

pub(super) mod altered;
pub(super) mod answered;
pub mod beginning;
pub mod calls;
pub mod memo;
pub mod result_classifier;
pub mod stamp;

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet, VecDeque},
    ops::Deref,
    sync::{Arc, OnceLock},
    time::Duration,
};

use foldhash::quality::RandomState;
use serde::{Deserialize, Serialize};

use crate::{
    judge::call::imprecise::imprecise,
    marks::{CallMark, KeyRing, MarkTime, Scope},
    violation::{Checks, Code, Violation},
    wire::json::{
        canonical::canonical,
        string::{JsonText, unescape},
    },
};
pub use answered::AnsweredCall;
use answered::CallRef;
use calls::{CallHistory, CallHistoryBuilder, CallIndex, CallTurn};
use memo::{CallMemo, ResultMemo, VerifiedCall};
use stamp::ResultTraits;

/// A call in the history.
#[derive(Clone, Debug)]
pub struct PastCall<'h> {
    /// Id as the client holds it; absent for legacy calls.
    pub id: Option<Cow<'h, str>>,
    /// Name of the tool.
    pub name: Cow<'h, str>,
    /// JSON text, or a custom tool's input.
    pub arguments: JsonText<'h>,
    /// Earlier reading of the call.
    pub memo: Option<&'h CallMemo>,
}

/// A result in the history.
#[derive(Clone, Debug)]
pub struct PastResult<'h> {
    /// The id of the call it answers; absent for legacy results.
    pub id: Option<Cow<'h, str>>,
    /// Name of the tool, if a legacy result has it.
    pub name: Option<Cow<'h, str>>,
    /// Properties read from the result's text.
    pub nature: ResultTraits,
    /// Bytes of its text. For a result that can't be large: bytes of its raw content, which are at least as many.
    pub bytes: usize,
    /// Content by which results are compared: JSON; what the API says about its form or caching is left out.
    pub raw: Cow<'h, str>,
    /// Earlier reading of the result.
    pub memo: Option<&'h ResultMemo>,
    /// Where its text is kept once it was read, if it is kept.
    pub text: Option<&'h OnceLock<Arc<str>>>,
}

/// One item of the conversation, in its order.
#[derive(Clone, Debug)]
pub enum HistoryItem<'h> {
    /// A turn of the model, with its calls.
    Assistant(Vec<PastCall<'h>>),
    /// A tool's result.
    Result(PastResult<'h>),
    /// A user message.
    User,
    /// Instructions, or anything else.
    Other,
}

/// Order of calls and results that an API requires.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Adjacency {
    /// Chat: results follow their calls directly.
    Required,
    /// Responses: text may come between a call and its output.
    Free,
}

/// A verified call with its result: evidence that may be cited.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Execution {
    /// Proof of it that holds whatever the time and the rest of the conversation.
    pub proof: Arc<ExecutionProof>,
    /// The result comes after the last user message.
    pub recent: bool,
    /// Too old to be cited.
    pub expired: bool,
    /// Index of the result's item; meaningless if the result lies outside the request.
    pub item: usize,
}

impl Deref for Execution {
    type Target = ExecutionProof;

    fn deref(&self) -> &ExecutionProof {
        &self.proof
    }
}

/// A verified call with its result, as both stand in a request.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ExecutionProof {
    /// Its execution ID.
    pub id: Arc<str>,
    /// Name of the tool.
    pub tool: Arc<str>,
    /// Mark time: when the call was let through.
    pub moment: MarkTime,
    /// The result reports a failure.
    pub failed: bool,
    /// The call's id, as the client holds it.
    pub mark: String,
    /// BLAKE3 of the result: of its text, or of its canonical JSON if it isn't just a text.
    pub result: [u8; 32],
}

/// A call that was let through but isn't in the request, because the upstream keeps the conversation.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StoredCall {
    /// The call's id, as the client holds it.
    pub id: String,
    /// Name of the tool.
    pub tool: String,
    /// Mark time of the call.
    pub moment: MarkTime,
    /// [`crate::judge::history::calls::call_digest`] of the call.
    pub digest: u64,
    /// The call's arguments.
    pub arguments: Arc<str>,
}

/// Result of verifying a history.
#[derive(Clone, Debug, Default)]
pub struct VerifiedHistory {
    /// Executions, in the order of their results.
    pub executions: Vec<Execution>,
    /// Tools with at least one successful result, stamped or not; each once.
    pub succeeded: Vec<String>,
    /// Calls since the last user message.
    pub trail: CallHistory,
    /// Answered calls in the order of their results, stamped or not.
    pub answered: Vec<AnsweredCall>,
    /// Violations found in the history.
    pub violations: Vec<Violation>,
}

/// Inputs of verification besides the history.
#[derive(Clone, Copy, Debug)]
pub struct HistoryRules<'r> {
    /// Severity of each code.
    pub checks: &'r Checks,
    /// Keys that marks are verified with.
    pub ring: &'r KeyRing,
    /// Scope whose marks are accepted.
    pub scope: &'r Scope,
    /// Time for which an execution may be cited; `None`: without limit.
    pub window: Option<Duration>,
    /// The time of the exchange, in Unix milliseconds.
    pub now_ms: u64,
    /// Bytes above which a result is large.
    pub large: u64,
    /// Required order of calls and results.
    pub adjacency: Adjacency,
    /// Calls in the part of the conversation that isn't in the request.
    pub remembered: &'r [StoredCall],
    /// True if part of the conversation isn't in the request: unknown calls and results may be in it.
    pub unseen: bool,
    /// Trail of that part.
    pub trail: &'r [CallTurn],
    /// Fingerprint the calls of every step of the trail, even if no two steps look alike.
    pub told_apart: bool,
}

/// Verifies a history.
pub fn verify<'h>(items: &'h [HistoryItem<'h>], rules: &'h HistoryRules<'_>) -> VerifiedHistory {
    let mut walk = HistoryVerifier::new(items, rules);
    for (at, item) in items.iter().enumerate() {
        walk.step(at, item);
    }
    walk.close_turn(items.len());
    let HistoryVerifier { mut history, tracer, .. } = walk;
    // INVARIANT: all steps were read just now, so that they can be told apart.
    history.trail = tracer.finish(rules).unwrap_or_default();
    history
}

struct OpenCall<'h> {
    call: &'h PastCall<'h>,
    /// Index of its item, and of the call within the item.
    place: (usize, usize),
    moment: Option<MarkTime>,
    spot: CallIndex,
    answered: bool,
}

/// The item before one, as far as it matters.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Preceding {
    /// A turn of the model without calls.
    Words,
    /// A result.
    Result,
    /// Another item, or none.
    #[default]
    Other,
}

impl Preceding {
    fn of(item: &HistoryItem<'_>) -> Self {
        match item {
            HistoryItem::Assistant(calls) if calls.is_empty() => Self::Words,
            HistoryItem::Result(_) => Self::Result,
            HistoryItem::Assistant(_) | HistoryItem::User | HistoryItem::Other => Self::Other,
        }
    }
}

struct HistoryVerifier<'h, 'r> {
    rules: &'h HistoryRules<'r>,
    /// The items that are read, and the number of those before them, which were verified earlier.
    items: &'h [HistoryItem<'h>],
    first: usize,
    /// False once something depends on items that aren't read.
    complete: bool,
    /// False once something was found that later items may change.
    settled: bool,
    history: VerifiedHistory,
    /// Calls that results may answer now.
    open: Vec<OpenCall<'h>>,
    /// Indexes of the open calls without a result, by id; `None` for calls without an id.
    waiting: HashMap<Option<&'h str>, VecDeque<usize>, RandomState>,
    /// Ids of calls that have a result.
    answered: HashSet<Option<&'h str>, RandomState>,
    /// Ids under which several calls waited of which one isn't verified.
    doubtful: HashSet<Option<&'h str>, RandomState>,
    /// Number of items whose calls belong to turns that have ended.
    closed: usize,
    /// Ids of the calls of those items, once a result was found that answers no open call.
    earlier: Option<HashSet<&'h str, RandomState>>,
    before: Preceding,
    /// Index of the last user message. Without one, everything comes after a user message outside the request.
    last_user: Option<usize>,
    /// The same among the items that were verified earlier.
    known_user: Option<usize>,
    tracer: CallHistoryBuilder<'h>,
    /// The tools that were answered for, shared; true for those with a successful result.
    tools: HashMap<&'h str, (Arc<str>, bool), RandomState>,
}

impl<'h, 'r> HistoryVerifier<'h, 'r> {
    fn new(items: &'h [HistoryItem<'h>], rules: &'h HistoryRules<'r>) -> Self {
        Self {
            rules,
            items,
            first: 0,
            complete: true,
            settled: true,
            history: VerifiedHistory::default(),
            open: Vec::new(),
            waiting: HashMap::default(),
            answered: HashSet::default(),
            doubtful: HashSet::default(),
            closed: 0,
            earlier: None,
            before: Preceding::Other,
            last_user: items.iter().rposition(|item| matches!(item, HistoryItem::User)),
            known_user: None,
            tracer: CallHistoryBuilder::default(),
            tools: HashMap::default(),
        }
    }

    fn report(&mut self, code: Code, tool: Option<&str>, message: impl FnOnce() -> String, advice: &str) {
        if self.rules.checks.severity(code) != crate::violation::Severity::Off {
            self.history.violations.extend(self.rules.checks.violation(code, tool, message(), advice));
        }
    }

    fn step(&mut self, at: usize, item: &'h HistoryItem<'h>) {
        match item {
            HistoryItem::Assistant(calls) => {
                self.begin_turn(at, calls);
                self.calls(at, calls);
            }
            HistoryItem::Result(result) => self.result(at, result),
            HistoryItem::User => {
                if self.before == Preceding::Result {
                    let advice = "let the model answer the results before the user speaks again";
                    self.report(Code::MessageOrder, None, || "a user message follows a tool result at once".into(), advice);
                }
                self.close_turn_if_adjacent(at);
                self.tracer.user();
            }
            HistoryItem::Other => self.close_turn_if_adjacent(at),
        }
        self.before = Preceding::of(item);
    }

    /// Begins the model's turn at `at`, if turns follow each other.
    fn begin_turn(&mut self, at: usize, calls: &[PastCall<'_>]) {
        if self.rules.adjacency != Adjacency::Required {
            return;
        }
        if self.before == Preceding::Words && calls.is_empty() {
            let advice = "join them, or send what the user said between them";
            self.report(Code::MessageOrder, None, || "two assistant messages follow each other".into(), advice);
        }
        self.close_turn(at);
        self.tracer.begin_turn();
    }

    fn calls(&mut self, at: usize, calls: &'h [PastCall<'h>]) {
        for (number, call) in calls.iter().enumerate() {
            let moment = self.verify_call(call);
            let spot = self.tracer.call(call, moment);
            self.waiting.entry(call.id.as_deref()).or_default().push_back(self.open.len());
            self.open.push(OpenCall { call, place: (at, number), moment, spot, answered: false });
        }
    }

    fn close_turn_if_adjacent(&mut self, at: usize) {
        if self.rules.adjacency == Adjacency::Required {
            self.close_turn(at);
        }
    }

    /// Ends the turn before the item at `at`.
    fn close_turn(&mut self, at: usize) {
        let open = std::mem::take(&mut self.open);
        for OpenCall { call, answered, .. } in open {
            if !answered {
                let name = &call.name;
                let advice = "send one result for every call, right behind it";
                self.report(Code::UnansweredCall, Some(name), || format!("the call of `{name}` has no result"), advice);
            }
        }
        let (items, first) = (self.items, self.first);
        let new = items.get(self.closed - first..at - first).unwrap_or_default();
        self.earlier.iter_mut().for_each(|earlier| earlier.extend(call_ids(new)));
        self.closed = at;
        self.waiting.clear();
        self.answered.clear();
    }

    /// True if a call of a turn that has ended has this id.
    fn is_earlier(&mut self, id: &str) -> bool {
        // Those that were verified earlier aren't read.
        self.complete &= self.first == 0;
        let ended = self.items.get(..self.closed - self.first).unwrap_or_default();
        self.earlier.get_or_insert_with(|| call_ids(ended).collect()).contains(id)
    }

    fn verify_call(&mut self, call: &PastCall<'_>) -> Option<MarkTime> {
        if let Some(known) = call.memo.and_then(|memo| memo.verified.get()) {
            self.history.violations.extend(known.violations.iter().cloned());
            return Some(known.moment);
        }
        let before = self.history.violations.len();
        let moment = self.verify_new_call(call);
        if let (Some(moment), Some(memo)) = (moment, call.memo) {
            let violations = self.history.violations.get(before..).unwrap_or_default().into();
            // Whoever was faster found the same.
            let _known = memo.verified.set(VerifiedCall { moment, violations });
        }
        moment
    }

    fn verify_new_call(&mut self, call: &PastCall<'_>) -> Option<MarkTime> {
        let name = &*call.name;
        let mark = call.id.as_deref().and_then(CallMark::parse);
        if call.id.is_none() {
            let advice = "send `tools` and `tool_calls` in place of `functions` and `function_call`; `[checks] unverified_call = \"info\"` admits such calls, whose results can't be cited then";
            let message = || format!("the call of `{name}` is a legacy `function_call`, which has no id that could carry toolmark's mark");
            self.report(Code::UnverifiedCall, Some(name), message, advice);
            return None;
        }
        let Some(mark) = mark else {
            let advice = "send tool calls back with the ids that toolmark gave them; `[checks] unverified_call = \"info\"` admits calls from before toolmark, or of frameworks that make ids of their own, whose results can't be cited then";
            self.report(Code::UnverifiedCall, Some(name), || format!("the call of `{name}` has an id that is none of toolmark's"), advice);
            return None;
        };
        let (ring, scope, items) = (self.rules.ring, self.rules.scope, self.items);
        let arguments = call.arguments.get();
        let moment = ring.verify(&mark, scope, name, &arguments);
        if moment.is_none() && ring.made(&mark, scope) {
            // Other calls explain it, wherever they stand.
            self.complete &= self.first == 0;
            self.settled = false;
            let message = || {
                let calls = items.iter().filter_map(|item| if let HistoryItem::Assistant(calls) = item { Some(calls) } else { None });
                let what = altered::what(call, &mark, ring, scope, calls.flatten());
                format!("the call of `{name}` isn't the one that its id was given to: {what}")
            };
            self.report(Code::AlteredCall, Some(name), message, "send tool calls back unaltered");
            return None;
        }
        if moment.is_none() {
            let message = || {
                format!(
                    "the id of the call of `{name}` has the form of toolmark's, and no key here gave it to this caller: it is another caller's or toolmark's, or its key was taken out"
                )
            };
            let advice = "keep a key that is exchanged behind the new one in TOOLMARK_KEY; `[checks] unverified_call = \"info\"` admits such calls, whose results can't be cited then";
            self.report(Code::UnverifiedCall, Some(name), message, advice);
            return None;
        }
        for number in imprecise(&arguments) {
            let message = || {
                format!(
                    "the argument `{}` of `{name}` is {}, beyond 2^53: an application that reads numbers as doubles may have rounded it",
                    number.pointer, number.digits
                )
            };
            self.report(Code::ImpreciseNumber, Some(name), message, "have the tool take such values as strings");
        }
        if let Some(segment) = duplicate_segment(&arguments) {
            let message = || format!("an argument of `{name}` has the path segment `{segment}` twice in a row");
            self.report(Code::DuplicatePathSegment, Some(name), message, "check the path");
        }
        moment
    }

    /// Finds the call that a result answers: its tool, and its mark time if the mark is verified.
    fn answers(&mut self, result: &'h PastResult<'h>) -> Option<CallRef> {
        let id = result.id.as_deref();
        let fits = |at: &usize| id.is_some() || result.name.as_ref().is_none_or(|name| *name == self.open[*at].call.name);
        // Where ids come back in later turns and nothing parts the turns, the latest call is meant.
        let waiting = self.waiting.get_mut(&id);
        let open = &self.open;
        // Which of several is answered isn't sure: the upstream may read the other one.
        let doubtful = waiting.as_ref().is_some_and(|waiting| waiting.len() > 1 && waiting.iter().any(|at| open[*at].moment.is_none()));
        if doubtful {
            self.doubtful.insert(id);
        }
        let doubtful = !self.doubtful.is_empty() && self.doubtful.contains(&id);
        let free = waiting.and_then(|waiting| match self.rules.adjacency {
            Adjacency::Required => waiting.pop_front_if(|at| fits(at)),
            Adjacency::Free => waiting.pop_back_if(|at| fits(at)),
        });
        if let Some(index) = free {
            self.open[index].answered = true;
            self.tracer.result(self.open[index].spot, result);
            self.answered.insert(id);
            let OpenCall { call, place, moment, .. } = &self.open[index];
            let (call, place, moment) = (*call, *place, moment.filter(|_| !doubtful));
            return Some(CallRef { tool: self.tool(&call.name), place: Some(place), arguments: None, moment });
        }
        let known = self.rules.remembered.iter().find(|call| id == Some(&*call.id));
        if let Some(call) = known.filter(|_| !self.answered.contains(&id)) {
            self.answered.insert(id);
            let spot = self.tracer.remembered(&call.tool, call.digest, call.moment);
            self.tracer.result(spot, result);
            return Some(CallRef {
                tool: self.tool(&call.tool),
                place: None,
                arguments: Some(call.arguments.clone()),
                moment: Some(call.moment),
            });
        }
        if self.answered.contains(&id) {
            self.repeated(result);
        } else {
            self.unpaired(result);
        }
        None
    }

    fn tool(&mut self, name: &'h str) -> Arc<str> {
        self.tools.entry(name).or_insert_with(|| (name.into(), false)).0.clone()
    }

    fn result(&mut self, at: usize, result: &'h PastResult<'h>) {
        let Some(CallRef { tool: name, place: call, arguments, moment }) = self.answers(result) else { return };
        if result.bytes as u64 > self.rules.large {
            let size = result.bytes >> 10;
            self.report(Code::LargeResult, Some(&name), || format!("the result of `{name}` has {size} KiB"), "have the tool return less");
        }
        if result.nature.failed {
            self.report(Code::FailedResult, Some(&name), || format!("the result of `{name}` reports a failure"), "");
        } else if let Some((_, succeeded)) = self.tools.get_mut(&*name)
            && !std::mem::replace(succeeded, true)
        {
            self.history.succeeded.push(name.to_string());
        }
        let (failed, recent) = (result.nature.failed, self.last_user.is_none_or(|user| at > user));
        let execution = moment.is_some().then_some(self.history.executions.len());
        self.history.answered.push(AnsweredCall { tool: name.clone(), item: at, call, arguments, failed, recent, execution });
        let Some(moment) = moment else { return };
        let expired = is_expired(moment, self.rules.window, self.rules.now_ms);
        let proof = self.proof(name, moment, result);
        self.history.executions.push(Execution { proof, recent, expired, item: at });
    }

    /// Proof of the execution of this result. `moment`: mark time of the call that it answers.
    fn proof(&self, tool: Arc<str>, moment: MarkTime, result: &PastResult<'_>) -> Arc<ExecutionProof> {
        let known = result.memo.and_then(|memo| memo.proof.get());
        if let Some(known) = known.filter(|known| known.moment == moment && *known.tool == *tool) {
            return known.clone();
        }
        let id = self.rules.ring.execution_id(self.rules.scope, &tool, moment).into();
        let mark = result.id.as_deref().unwrap_or_default().to_owned();
        let digest = || result_digest(result);
        let digest = result.memo.map_or_else(digest, |memo| *memo.digest.get_or_init(digest));
        let proof = Arc::new(ExecutionProof { id, tool, moment, failed: result.nature.failed, mark, result: digest });
        if let Some(memo) = result.memo {
            let _known = memo.proof.set(proof.clone());
        }
        proof
    }

    fn repeated(&mut self, result: &PastResult<'_>) {
        let message = || format!("a second result answers the call `{}`", result.id.as_deref().unwrap_or_default());
        self.report(Code::DuplicateResult, None, message, "send one result for each call");
    }

    fn unpaired(&mut self, result: &PastResult<'_>) {
        let id = result.id.as_deref().unwrap_or_default().to_owned();
        let is_ours = |mark: &CallMark<'_>| self.rules.ring.made(mark, self.rules.scope);
        if self.rules.unseen && CallMark::parse(&id).as_ref().is_some_and(is_ours) {
            let message = || format!("the result for `{id}` answers a call that toolmark let through and doesn't know any more");
            return self.report(Code::HistoryIncomplete, None, message, "send the whole conversation");
        }
        if self.rules.unseen {
            let message = || format!("the result for `{id}` answers a call that toolmark didn't see");
            let advice = "send the whole conversation, or the requests of one conversation through one toolmark";
            return self.report(Code::UnverifiedCall, None, message, advice);
        }
        if self.is_earlier(&id) {
            let message = || format!("the result for `{id}` doesn't follow its call");
            return self.report(Code::MisorderedResult, None, message, "send results right behind the turn that called");
        }
        let message = || format!("the result for `{id}` answers no call of this conversation");
        self.report(Code::OrphanResult, None, message, "send the assistant message with the call before its result");
    }
}

/// Ids of the calls of these items.
fn call_ids<'h>(items: &'h [HistoryItem<'h>]) -> impl Iterator<Item = &'h str> {
    let calls = items.iter().filter_map(|item| if let HistoryItem::Assistant(calls) = item { Some(calls) } else { None });
    calls.flatten().filter_map(|call| call.id.as_deref())
}

/// BLAKE3 of a result's content, independent of how the request escapes it.
fn result_digest(result: &PastResult<'_>) -> [u8; 32] {
    let raw = &*result.raw;
    let inside = raw.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let digest = match (inside, result.text) {
        (Some(text), _) if !text.contains('\\') => blake3::hash(text.as_bytes()),
        (Some(text), Some(kept)) => blake3::hash(kept.get_or_init(|| unescape(text).into()).as_bytes()),
        (Some(text), None) => blake3::hash(unescape(text).as_bytes()),
        (None, _) => blake3::hash(canonical(raw).as_deref().unwrap_or(raw).as_bytes()),
    };
    *digest.as_bytes()
}

/// True if an execution of that moment is too old to be cited. `now_ms`: Unix milliseconds. Without a `window` nothing expires.
pub fn is_expired(moment: MarkTime, window: Option<Duration>, now_ms: u64) -> bool {
    window.is_some_and(|window| moment.time_ms.saturating_add(window.as_millis() as u64) < now_ms)
}

/// A path segment that is repeated directly, as in `src/src/main.rs`.
fn duplicate_segment(text: &str) -> Option<&str> {
    if !text.contains('/') {
        return None;
    }
    let path = |c: char| c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '-');
    text.split(|c| !path(c)).find_map(|token| {
        let mut before = "";
        token.split('/').find(|segment| {
            let twice = !segment.is_empty() && !segment.starts_with('.') && *segment == before;
            before = segment;
            twice
        })
    })
}

#[cfg(test)]
mod tests;
