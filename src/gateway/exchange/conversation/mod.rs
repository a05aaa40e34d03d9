//! State of conversations that the upstream stores: plain values, held by the shell.
//!
//! For `[responses] stateful = "track"`: docs/wire-facts.md#conversations-that-the-upstream-keeps. Everything here is
//! bounded, so that a conversation without end takes no memory without end. Pure.

pub mod known_items;
pub mod recalled;
mod request_index;
pub mod request_prefix;
pub mod update;

use std::{
    collections::{HashMap, HashSet},
    hash::{Hash, Hasher},
    sync::Arc,
};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{
    judge::history::{
        Execution,
        calls::{CallHistory, CallTurn, STEPS_MAX},
    },
    marks::MarkTime,
};

/// Limit for the remembered executions of one conversation; the latest are kept.
const EXECUTIONS_MAX: usize = 512;
/// Limit for the remembered data of one conversation, in bytes.
const DATA_BYTES_MAX: usize = 256 << 10;
/// Limit for one conversation's tools from input items, in bytes.
const TOOLS_BYTES_MAX: usize = 1 << 20;
/// Limit for the remembered calls of one conversation's trail; the latest are kept.
const TRAIL_USES_MAX: usize = 1024;
/// Limit for one conversation's results that are kept as evidence, with their calls' arguments, in bytes; the latest
/// are kept.
const RESULTS_BYTES_MAX: usize = 192 << 10;
/// Limit for the remembered calls of one conversation, and separately for the last user message, in bytes.
const SAID_BYTES_MAX: usize = 64 << 10;
/// Limit for one call's arguments, in bytes.
const ARGUMENTS_BYTES_MAX: usize = 32 << 10;
/// Limit for calls whose outputs the upstream waits for.
const OWED_MAX: usize = 128;
/// Limit for the remembered response ids of one conversation; the latest are kept.
const ANSWERS_MAX: usize = 256;
/// Limit for the remembered assistant texts that the application wrote; the latest are kept.
const WRITTEN_MAX: usize = 1024;
/// Up to this many comparisons are made without a hash table.
const FEW: usize = 256;

/// Known state of a conversation up to one response.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Thread {
    /// Results that were stamped.
    pub executions: Vec<Execution>,
    /// Tools with a successful result.
    pub succeeded: Vec<String>,
    /// Calls since the last user message.
    pub trail: CallHistory,
    /// Arrays of tools from input items: JSON.
    pub tools: Vec<Arc<str>>,
    /// Texts of users, tools and instructions.
    pub data: Vec<Arc<str>>,
    /// Results, as evidence for what later answers claim.
    pub results: Vec<Arc<KnownResult>>,
    /// Index of the first result that came after the last user message.
    pub recent_from: usize,
    /// Calls of the model, as they were passed on.
    pub said: Vec<Arc<str>>,
    /// The last user message.
    pub asked: Arc<str>,
    /// Part of the conversation is unknown or was dropped.
    pub incomplete: bool,
    /// Since the last user message the upstream ran a tool of its own, whose result only the model has.
    pub unseen_results: bool,
    /// Its evidence (texts, arguments, results) was left out where it was stored.
    pub lacks_evidence: bool,
    /// Calls that the upstream stores and that were never passed on: it must be sent outputs for them.
    pub owed: Vec<Owed>,
    /// The upstream's id of the response, if the application has another.
    pub upstream_id: Option<Arc<str>>,
    /// Ids of the responses so far, as the application has them.
    pub answers: Vec<Arc<str>>,
    /// [`digest`]s of assistant texts that the application itself wrote.
    pub written: Vec<u64>,
    /// Id of the response that this state goes on from, if the ledger didn't say in time what is known of it.
    pub unread: Option<Arc<str>>,
}

/// A call that was never passed on, and the output to send for it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Owed {
    /// The upstream's id of the call.
    pub call_id: String,
    /// It is a call of a custom tool.
    pub custom: bool,
    /// Output in place of a result.
    pub output: String,
}

/// A result of a call.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct KnownResult {
    /// The tool.
    pub tool: Box<str>,
    /// Arguments of the call.
    pub arguments: Box<str>,
    /// Text of the result.
    pub text: Box<str>,
    /// A part of it isn't text: an image, a file.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_media: bool,
    /// It reports a failure.
    pub failed: bool,
    /// Execution ID of the result, if any.
    pub execution_id: Option<Box<str>>,
}

impl KnownResult {
    fn bytes(&self) -> usize {
        self.tool.len() + self.arguments.len() + self.text.len() + self.execution_id.as_ref().map_or(0, |id| id.len()) + 96
    }
}

/// A call that was passed on.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct KnownCall {
    /// The upstream's id of the call.
    pub upstream_id: Arc<str>,
    /// The tool.
    pub tool: Arc<str>,
    /// Time of its mark.
    pub moment: MarkTime,
    /// Its [`crate::judge::history::calls::call_digest`].
    pub digest: u64,
    /// Its arguments, as evidence for claims about its result; long ones are truncated.
    pub arguments: Arc<str>,
    /// Code that the upstream runs reads its result, not the model.
    #[serde(default)]
    pub read_by_code: bool,
}

/// Arguments, truncated for storage.
pub fn kept_arguments(arguments: &str) -> Arc<str> {
    arguments[..arguments.floor_char_boundary(ARGUMENTS_BYTES_MAX)].into()
}

/// Disposition of an output item that the upstream stores but the application did not get.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Fate {
    /// It belongs to a rejected attempt: requests must not refer to it.
    Dropped,
    /// The application got this input item instead: JSON.
    Instead(Arc<str>),
}

/// Effect of a rejected turn on a conversation that the upstream stores.
#[derive(Clone, Debug, Default)]
pub struct RejectedUpdate {
    /// Dispositions of the turn's items.
    pub items: Vec<(String, Fate)>,
    /// Update to store if the exchange ends after this turn.
    pub unanswered: Option<Memo>,
}

/// Conversation update to store after an exchange.
#[derive(Clone, Debug, Default)]
pub struct Memo {
    /// Ids of its response, as the application has them; empty if the upstream stores nothing.
    pub responses: Vec<String>,
    /// Id of the conversation that it belongs to.
    pub conversation: Option<String>,
    /// State of the conversation up to the response.
    pub thread: Thread,
    /// Calls that were passed on, by their marks.
    pub calls: Vec<(String, KnownCall)>,
    /// Items by their ids.
    pub items: Vec<(String, Fate)>,
    /// The application's version of the response, if the upstream stores its own.
    pub left: Option<Left>,
}

/// The application's version of a response.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Left {
    /// All of it: the response object, or the event with it that ended a stream. JSON.
    Whole(Bytes),
    /// Nothing yet: the response is made in the background.
    Nothing,
}

/// Hash for comparing texts.
pub fn digest(text: &str) -> u64 {
    blake3::hash(text.as_bytes()).as_bytes().first_chunk().map_or(0, |first| u64::from_le_bytes(*first))
}

/// The part of the conversation that isn't in the request.
#[derive(Clone, Debug, Default)]
pub struct Hidden {
    /// Known state of that part.
    pub earlier: Option<Arc<Thread>>,
    /// Such a part exists, and not all of it is known.
    pub unseen: bool,
    /// Evidence of that part is missing: what an answer says of it can be neither proven nor refuted.
    pub lacks_evidence: bool,
    /// The request has a user message.
    pub spoke: bool,
    /// The upstream stores this exchange.
    pub store: bool,
    /// Id of the conversation that the upstream appends to.
    pub conversation: Option<String>,
    /// Arrays of tools from this request's items: JSON.
    pub tools: Vec<Arc<str>>,
    /// Original values of request members that were changed for the upstream: JSON. Answers repeat them.
    pub echo: Vec<(&'static str, Box<str>)>,
    /// The response is made in the background: it may be retrieved before it was passed on.
    pub background: bool,
    /// The request names a stored prompt and no tools: those of the prompt are known to the upstream alone until it answers.
    pub stored_prompt: bool,
}

/// A text as a lookup key.
#[derive(Clone, Copy, Eq)]
struct Sought<'s>(&'s str);

impl PartialEq for Sought<'_> {
    fn eq(&self, other: &Self) -> bool {
        #[cfg(test)]
        tests::COMPARED.set(tests::COMPARED.get() + 1);
        self.0 == other.0
    }
}

impl Hash for Sought<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

/// The new texts that aren't known yet, without duplicates, in order.
fn new_ones<'n>(known: &[impl AsRef<str>], new: &'n [impl AsRef<str>]) -> Vec<&'n str> {
    let mut found: Vec<&str> = Vec::new();
    if known.len().saturating_add(new.len()).saturating_mul(new.len()) <= FEW {
        for text in new.iter().map(AsRef::as_ref) {
            let is = |own: &str| Sought(own) == Sought(text);
            if !known.iter().any(|own| is(own.as_ref())) && !found.iter().any(|own| is(own)) {
                found.push(text);
            }
        }
        return found;
    }
    let mut seen: HashSet<Sought<'_>> = known.iter().map(|text| Sought(text.as_ref())).collect();
    found.extend(new.iter().map(AsRef::as_ref).filter(|text| seen.insert(Sought(text))));
    found
}

impl Thread {
    /// The state with an exchange's additions, within the limits.
    #[must_use]
    pub fn with(mut self, executions: &[Execution], succeeded: &[String], tools: &[Arc<str>], data: &[String]) -> Self {
        self.take_executions(executions);
        let surplus = self.executions.len().saturating_sub(EXECUTIONS_MAX);
        self.executions.drain(..surplus);
        let room = EXECUTIONS_MAX.saturating_sub(self.succeeded.len());
        let new: Vec<String> = new_ones(&self.succeeded, succeeded).into_iter().take(room).map(str::to_owned).collect();
        self.succeeded.extend(new);
        // What came in earlier comes again, and says nothing new.
        let new = new_ones(&self.tools, tools);
        self.incomplete |= !keep_within(&mut self.tools, new, TOOLS_BYTES_MAX);
        let new = new_ones(&self.data, data);
        self.incomplete |= !keep_within(&mut self.data, new, DATA_BYTES_MAX);
        self
    }

    fn take_executions(&mut self, executions: &[Execution]) {
        let known = self.executions.len();
        let mut places: HashMap<Sought<'_>, usize> = HashMap::with_capacity(known + executions.len());
        for (at, own) in self.executions.iter().enumerate() {
            places.entry(Sought(&own.id)).or_insert(at);
        }
        let (mut recent, mut added) = (Vec::new(), Vec::new());
        for execution in executions {
            match places.get(&Sought(&execution.id)) {
                Some(at) => recent.push((*at, execution.recent)),
                None => {
                    places.insert(Sought(&execution.id), known + added.len());
                    added.push(Execution { item: usize::MAX, ..execution.clone() });
                }
            }
        }
        self.executions.extend(added);
        for (at, recent) in recent {
            if let Some(own) = self.executions.get_mut(at) {
                own.recent = recent;
            }
        }
    }

    /// The state without texts, arguments and results.
    #[must_use]
    pub fn without_evidence(mut self) -> Self {
        let has_evidence = !(self.data.is_empty() && self.results.is_empty() && self.said.is_empty() && self.asked.is_empty());
        self.lacks_evidence |= has_evidence;
        (self.data, self.results, self.said) = (Vec::new(), Vec::new(), Vec::new());
        (self.asked, self.recent_from) = (Arc::default(), 0);
        self
    }

    /// Adds the id of a response that the application got, or will get.
    pub fn answer(&mut self, id: &str) {
        self.answers.retain(|own| **own != *id);
        self.answers.push(id.into());
        let surplus = self.answers.len().saturating_sub(ANSWERS_MAX);
        self.answers.drain(..surplus);
    }

    /// Adds digests of assistant texts that the application wrote.
    pub fn write(&mut self, texts: impl IntoIterator<Item = u64>) {
        let mut seen: HashSet<u64> = self.written.iter().copied().collect();
        self.written.extend(texts.into_iter().filter(|text| seen.insert(*text)));
        let surplus = self.written.len().saturating_sub(WRITTEN_MAX);
        self.written.drain(..surplus);
    }

    /// Replaces the trail: `trail` has all calls since the last user message.
    pub fn follow(&mut self, trail: &[CallTurn]) {
        let mut uses = 0;
        let fits = |step: &&CallTurn| {
            uses += step.uses.len();
            uses <= TRAIL_USES_MAX
        };
        let mut kept: CallHistory = trail.iter().rev().take(STEPS_MAX).take_while(fits).cloned().collect();
        kept.reverse();
        self.trail = kept;
    }

    /// Adds the results of a request as evidence; the latest within the limit are kept. `recent`: number of results
    /// after the last user message; `None` if that message came with an earlier request.
    pub fn prove(&mut self, results: impl IntoIterator<Item = KnownResult>, recent: Option<usize>) {
        let before = self.results.len();
        self.results.extend(results.into_iter().map(Arc::new));
        if let Some(recent) = recent {
            self.recent_from = self.results.len().saturating_sub(recent).max(before);
        }
        let mut bytes = 0;
        let kept = self.results.iter().rev().take_while(|result| {
            bytes += result.bytes();
            bytes <= RESULTS_BYTES_MAX
        });
        let surplus = self.results.len() - kept.count();
        self.results.drain(..surplus);
        self.recent_from = self.recent_from.saturating_sub(surplus);
        self.incomplete |= surplus > 0;
    }

    /// Adds calls as they were passed on, and sets the last user message.
    pub fn hear(&mut self, calls: impl IntoIterator<Item = Arc<str>>, asked: Option<&str>) {
        if let Some(asked) = asked {
            self.asked = asked[..asked.floor_char_boundary(SAID_BYTES_MAX)].into();
        }
        self.said.extend(calls);
        let mut bytes = 0;
        let kept = self.said.iter().rev().take_while(|text| {
            bytes += text.len() + 16;
            bytes <= SAID_BYTES_MAX
        });
        let surplus = self.said.len() - kept.count();
        self.said.drain(..surplus);
        self.incomplete |= surplus > 0;
    }

    /// The state with the additions of an answer that is judged after others began: its request is in it already, and what
    /// they owe stays owed.
    #[must_use]
    pub fn answered(&self, memo: &Memo) -> Self {
        let mut thread = self.clone();
        let new = memo.thread.owed.iter().filter(|owed| !self.owed.contains(owed)).cloned();
        thread.owe(new.collect::<Vec<_>>());
        thread.hear(memo.calls.iter().map(|(_, call)| call.arguments.clone()), None);
        memo.responses.iter().for_each(|id| thread.answer(id));
        thread.incomplete |= memo.thread.incomplete;
        thread.unseen_results |= memo.thread.unseen_results;
        thread
    }

    /// State of a conversation that went on from a response whose state wasn't read in time.
    pub fn after_unread(response_id: &str) -> Self {
        Self { unread: Some(response_id.into()), incomplete: true, ..Self::default() }
    }

    /// The state with that of the response before it, which [wasn't read](Self::unread) in time.
    #[must_use]
    pub fn after(&self, earlier: &Self) -> Self {
        let spoke = !self.asked.is_empty();
        let mut base = Self { owed: self.owed.clone(), upstream_id: self.upstream_id.clone(), ..earlier.clone() };
        base.executions.iter_mut().for_each(|execution| execution.recent &= !spoke);
        let data: Vec<String> = self.data.iter().map(|text| text.to_string()).collect();
        let mut thread = base.with(&self.executions, &self.succeeded, &self.tools, &data);
        let before = if spoke { &[][..] } else { &earlier.trail[..] };
        let trail: Vec<CallTurn> = before.iter().chain(self.trail.iter()).cloned().collect();
        thread.follow(&trail);
        let recent = spoke.then(|| self.results.len().saturating_sub(self.recent_from));
        thread.prove(self.results.iter().map(|result| (**result).clone()), recent);
        thread.hear(self.said.iter().cloned(), spoke.then_some(&*self.asked));
        self.answers.iter().for_each(|id| thread.answer(id));
        thread.write(self.written.iter().copied());
        thread.lacks_evidence |= self.lacks_evidence;
        thread.unseen_results = self.unseen_results || !spoke && earlier.unseen_results;
        thread
    }

    /// Adds calls that were never passed on.
    pub fn owe(&mut self, owed: impl IntoIterator<Item = Owed>) {
        self.owed.extend(owed);
        let surplus = self.owed.len().saturating_sub(OWED_MAX);
        self.owed.drain(..surplus);
    }

    /// Estimated size in bytes.
    pub fn weight(&self) -> u64 {
        let data: usize = self.data.iter().map(|text| text.len() + 16).sum();
        let owed: usize = self.owed.iter().map(|owed| owed.output.len() + owed.call_id.len() + 64).sum();
        let executions: usize = self.executions.iter().map(|execution| execution.id.len() + execution.tool.len() + 96).sum();
        let succeeded: usize = self.succeeded.iter().map(|tool| tool.len() + 24).sum();
        let tools: usize = self.tools.iter().map(|tools| tools.len() + 16).sum();
        let of_step = |step: &CallTurn| step.uses.iter().map(|own| own.tool.len() + 64).sum::<usize>() + 48;
        let trail: usize = self.trail.iter().map(of_step).sum();
        let results: usize = self.results.iter().map(|result| result.bytes()).sum();
        let said: usize = self.said.iter().map(|text| text.len() + 16).sum::<usize>() + self.asked.len();
        let answers: usize = self.answers.iter().map(|id| id.len() + 16).sum::<usize>() + 8 * self.written.len();
        (512 + answers + results + said + data + owed + executions + succeeded + tools + trail) as u64
    }
}

/// Adds texts up to the limit; true if all of them fit.
fn keep_within(own: &mut Vec<Arc<str>>, new: Vec<&str>, bytes_max: usize) -> bool {
    let mut bytes: usize = own.iter().map(|text| text.len()).sum();
    for text in new {
        bytes += text.len();
        if bytes > bytes_max {
            return false;
        }
        own.push(text.into());
    }
    true
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::judge::history::ExecutionProof;

    thread_local! {
        /// Texts that were compared with one another.
        pub static COMPARED: Cell<u64> = const { Cell::new(0) };
    }

    fn execution(number: usize, recent: bool) -> Execution {
        let (id, moment) = (format!("t_{number:013}_0123456789abcdef"), MarkTime { time_ms: number as u64, counter: 0 });
        let (id, tool, mark, result) = (id.into(), "t".into(), String::new(), [0; 32]);
        let proof = Arc::new(ExecutionProof { id, tool, moment, failed: false, mark, result });
        Execution { proof, recent, expired: false, item: 3 }
    }

    /// Twice the conversation makes no more than about twice the comparisons, sent whole with every turn or not.
    #[test]
    fn what_an_exchange_adds_is_found_in_linear_time() {
        let compared = |size: usize| {
            let texts = |name: &str| -> Vec<String> { (0..size).map(|number| format!("{name} {number:06}")).collect() };
            let tools: Vec<Arc<str>> = texts("tool").iter().map(|text| text.as_str().into()).collect();
            let executions: Vec<Execution> = (0..size).map(|number| execution(number, true)).collect();
            let (data, succeeded) = (texts("said"), texts("done"));
            COMPARED.set(0);
            let thread = Thread::default().with(&executions, &succeeded, &tools, &data);
            let thread = thread.with(&executions, &succeeded, &tools, &data);
            assert_eq!((thread.data.len(), thread.tools.len(), thread.incomplete), (size, size, false));
            COMPARED.get()
        };
        let (once, twice) = (compared(2_000), compared(4_000));
        assert!(twice <= once * 5 / 2 && once <= 2_000 * 16, "{once} {twice}");
    }

    #[test]
    fn what_wasnt_read_in_time_is_put_before_what_came_after() {
        let texts = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let mut earlier = Thread::default().with(&[execution(1, true)], &texts(&["a"]), &[], &texts(&["said first"]));
        earlier.hear(["{}".into()], Some("asked first"));
        earlier.answer("resp_1");
        for spoke in [false, true] {
            let mut later = Thread::after_unread("resp_1").with(&[execution(2, true)], &texts(&["b"]), &[], &texts(&["said then"]));
            later.hear([], spoke.then_some("asked then"));
            later.answer("resp_2");
            assert_eq!((later.unread.as_deref(), later.incomplete), (Some("resp_1"), true));
            let whole = later.after(&earlier);
            let recent: Vec<bool> = whole.executions.iter().map(|execution| execution.recent).collect();
            assert_eq!(recent, [!spoke, true]);
            assert_eq!(whole.data.iter().map(|text| &**text).collect::<Vec<_>>(), ["said first", "said then"]);
            assert_eq!((&*whole.asked, whole.answers.len()), (if spoke { "asked then" } else { "asked first" }, 2));
            assert_eq!((whole.unread, whole.incomplete, whole.succeeded), (None, false, texts(&["a", "b"])));
        }
    }

    #[test]
    fn what_is_known_is_taken_up_once_however_much_there_is() {
        for size in [3, 300] {
            let data: Vec<String> = (0..size).flat_map(|number| [format!("a {number}"), format!("a {number}")]).collect();
            let first: Vec<Execution> = (0..size).map(|number| execution(number, true)).collect();
            let again: Vec<Execution> =
                (0..size + 1).flat_map(|number| [execution(number, true), execution(number, number == 1)]).collect();
            let thread = Thread::default().with(&first, &data, &[], &data).with(&again, &data, &[], &data);
            assert_eq!((thread.data.len(), thread.succeeded.len(), thread.executions.len()), (size, size, size + 1));
            assert_eq!(thread.data.first().map(|text| &**text), Some("a 0"));
            let recent: Vec<usize> = (0..=size).filter(|at| thread.executions[*at].recent).collect();
            assert_eq!(recent, [1]);
            assert!(thread.executions.iter().all(|execution| execution.item == usize::MAX));
        }
        let long = vec!["x".repeat(DATA_BYTES_MAX), "y".to_owned()];
        let thread = Thread::default().with(&[], &[], &[], &long);
        assert!(thread.incomplete && thread.data.len() == 1);
    }
}
