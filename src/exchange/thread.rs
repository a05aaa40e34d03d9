//! What toolmark must remember of conversations that the upstream keeps: values only, the shell keeps them.
//!
//! DESIGN.md, "Marks"; issue "Responses API", `[responses] stateful = "track"`. Everything here is bounded, so
//! that a conversation without end takes no memory without end. Pure.

use std::{
    collections::{HashMap, HashSet},
    hash::{Hash, Hasher},
    sync::Arc,
};

use bytes::Bytes;

use crate::judge::{
    history::Execution,
    marks::Moment,
    trail::{STEPS_MAX, Step, Trail},
};

/// Executions of one conversation that are remembered, the latest.
const EXECUTIONS_MAX: usize = 512;
/// Bytes of one conversation's own data that are remembered.
const DATA_BYTES_MAX: usize = 256 << 10;
/// Bytes of one conversation's tools that came in through items.
const TOOLS_BYTES_MAX: usize = 1 << 20;
/// Calls of one conversation's trail that are remembered, the latest.
const TRAIL_USES_MAX: usize = 1024;
/// Bytes of one conversation's results that are remembered as evidence, with their calls' arguments; the latest.
const RESULTS_BYTES_MAX: usize = 192 << 10;
/// Bytes of one conversation's calls, and of what the user said last, that are remembered as said.
const SAID_BYTES_MAX: usize = 64 << 10;
/// Bytes of one call's arguments.
const ARGUMENTS_BYTES_MAX: usize = 32 << 10;
/// Calls that the upstream waits for outputs of.
const OWED_MAX: usize = 128;
/// Responses of one conversation whose ids are remembered, the latest.
const ANSWERS_MAX: usize = 256;
/// Texts that the application wrote in the model's name, the latest.
const WRITTEN_MAX: usize = 1024;
/// Comparisons for which no table is made.
const FEW: usize = 256;

/// What a conversation is known to hold, up to one response.
#[derive(Clone, Debug, Default)]
pub struct Thread {
    /// Results that were stamped.
    pub executions: Vec<Execution>,
    /// Tools with a result that is no failure.
    pub succeeded: Vec<String>,
    /// What was called since the user spoke last.
    pub trail: Trail,
    /// Arrays of tools that came in through items: JSON.
    pub tools: Vec<Arc<str>>,
    /// What users, tools and instructions said.
    pub data: Vec<Arc<str>>,
    /// Results, as evidence for what later answers claim.
    pub results: Vec<Arc<KnownResult>>,
    /// From which of them on they came after what the user said last.
    pub recent_from: usize,
    /// What the model called with, as it was let through.
    pub said: Vec<Arc<str>>,
    /// What the user said last.
    pub asked: Arc<str>,
    /// Not all of it is known or kept.
    pub incomplete: bool,
    /// Calls that the upstream keeps and that were never passed on: it must hear what became of them.
    pub owed: Vec<Owed>,
    /// The response's id as the upstream has it, where the application knows it by another.
    pub upstream_id: Option<Arc<str>>,
    /// The responses up to here, by the ids that the application knows them by.
    pub answers: Vec<Arc<str>>,
    /// [`digest`]s of what the application itself wrote in the model's name.
    pub written: Vec<u64>,
}

/// A call that was never passed on, and what the model is to be told of it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Owed {
    /// Its id, as the upstream has it.
    pub call_id: String,
    /// It is a custom tool's.
    pub custom: bool,
    /// What stands instead of a result.
    pub output: String,
}

/// A result that answered a call.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct KnownResult {
    /// The tool.
    pub tool: Box<str>,
    /// What it was called with.
    pub arguments: Box<str>,
    /// What it returned.
    pub text: Box<str>,
    /// It reports a failure.
    pub failed: bool,
    /// Its execution ID, where it has one.
    pub execution_id: Option<Box<str>>,
}

impl KnownResult {
    fn bytes(&self) -> usize {
        self.tool.len() + self.arguments.len() + self.text.len() + self.execution_id.as_ref().map_or(0, |id| id.len()) + 96
    }
}

/// A call that was let through.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct KnownCall {
    /// Its id as the upstream has it.
    pub upstream_id: Arc<str>,
    /// The tool.
    pub tool: Arc<str>,
    /// Its mark's moment.
    pub moment: Moment,
    /// [`crate::judge::trail::call_digest`] of it.
    pub digest: u64,
    /// Its arguments, which are evidence for what an answer says of its result; the beginning of long ones.
    pub arguments: Arc<str>,
}

/// Arguments as they are remembered.
pub fn kept_arguments(arguments: &str) -> Arc<str> {
    arguments[..arguments.floor_char_boundary(ARGUMENTS_BYTES_MAX)].into()
}

/// What became of an output item that the upstream keeps, where the application saw another.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Fate {
    /// It belongs to an attempt that was rejected: nothing may refer to it.
    Dropped,
    /// The application got this instead: an input item, JSON.
    Instead(Arc<str>),
}

/// What is to be remembered of an exchange that has ended.
#[derive(Clone, Debug, Default)]
pub struct Memo {
    /// Its response, as the application knows it; empty where the upstream keeps nothing.
    pub responses: Vec<String>,
    /// The conversation that it belongs to.
    pub conversation: Option<String>,
    /// What is known up to there.
    pub thread: Thread,
    /// Calls let through, by their marks.
    pub calls: Vec<(String, KnownCall)>,
    /// Items by their ids.
    pub items: Vec<(String, Fate)>,
    /// What the application got, where the upstream keeps its own of it.
    pub left: Option<Left>,
}

/// What the application got of a response.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Left {
    /// All of it: the response object, or the event with it that ended a stream. JSON.
    Whole(Bytes),
    /// Nothing yet: it is made in the background.
    Nothing,
}

/// What tells one text from another.
pub fn digest(text: &str) -> u64 {
    blake3::hash(text.as_bytes()).as_bytes().first_chunk().map_or(0, |first| u64::from_le_bytes(*first))
}

/// The part of the conversation that isn't in the request.
#[derive(Clone, Debug, Default)]
pub struct Hidden {
    /// What is known of it.
    pub earlier: Option<Arc<Thread>>,
    /// There is such a part, and not all of it is known.
    pub unseen: bool,
    /// The user speaks in this request.
    pub spoke: bool,
    /// The upstream keeps this exchange.
    pub store: bool,
    /// The conversation that the upstream appends to.
    pub conversation: Option<String>,
    /// Arrays of tools that this request brings in items: JSON.
    pub tools: Vec<Arc<str>>,
    /// Members of the request that went up otherwise than they came, as they came: JSON. Answers repeat them.
    pub echo: Vec<(&'static str, Box<str>)>,
    /// The response is made in the background: it may be retrieved before it was ever passed on.
    pub background: bool,
}

/// A text that is looked up.
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

/// Those that aren't known, each once, in their order.
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
    /// This and what an exchange adds to it, within bounds.
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

    /// Takes up a response that the application got, or is to get.
    pub fn answer(&mut self, id: &str) {
        self.answers.retain(|own| **own != *id);
        self.answers.push(id.into());
        let surplus = self.answers.len().saturating_sub(ANSWERS_MAX);
        self.answers.drain(..surplus);
    }

    /// Takes up what the application wrote in the model's name.
    pub fn write(&mut self, texts: impl IntoIterator<Item = u64>) {
        let mut seen: HashSet<u64> = self.written.iter().copied().collect();
        self.written.extend(texts.into_iter().filter(|text| seen.insert(*text)));
        let surplus = self.written.len().saturating_sub(WRITTEN_MAX);
        self.written.drain(..surplus);
    }

    /// Goes on with what was called since the user spoke last: `trail` has all of it.
    pub fn follow(&mut self, trail: &[Step]) {
        let mut uses = 0;
        let fits = |step: &&Step| {
            uses += step.uses.len();
            uses <= TRAIL_USES_MAX
        };
        let mut kept: Trail = trail.iter().rev().take(STEPS_MAX).take_while(fits).cloned().collect();
        kept.reverse();
        self.trail = kept;
    }

    /// Takes up the results of a request as evidence, the latest within bounds. `recent`: how many of them came after what
    /// the user said last; `spoke`: whether that is in the same request.
    pub fn prove(&mut self, results: impl IntoIterator<Item = KnownResult>, recent: usize, spoke: bool) {
        let before = self.results.len();
        self.results.extend(results.into_iter().map(Arc::new));
        if spoke {
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

    /// Takes up what was said: calls as they were let through, and the user's last words.
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

    /// Takes up what is owed.
    pub fn owe(&mut self, owed: impl IntoIterator<Item = Owed>) {
        self.owed.extend(owed);
        let surplus = self.owed.len().saturating_sub(OWED_MAX);
        self.owed.drain(..surplus);
    }

    /// About how many bytes it takes.
    pub fn weight(&self) -> u64 {
        let data: usize = self.data.iter().map(|text| text.len() + 16).sum();
        let owed: usize = self.owed.iter().map(|owed| owed.output.len() + owed.call_id.len() + 64).sum();
        let executions: usize = self.executions.iter().map(|execution| execution.id.len() + execution.tool.len() + 96).sum();
        let succeeded: usize = self.succeeded.iter().map(|tool| tool.len() + 24).sum();
        let tools: usize = self.tools.iter().map(|tools| tools.len() + 16).sum();
        let of_step = |step: &Step| step.uses.iter().map(|own| own.tool.len() + 64).sum::<usize>() + 48;
        let trail: usize = self.trail.iter().map(of_step).sum();
        let results: usize = self.results.iter().map(|result| result.bytes()).sum();
        let said: usize = self.said.iter().map(|text| text.len() + 16).sum::<usize>() + self.asked.len();
        let answers: usize = self.answers.iter().map(|id| id.len() + 16).sum::<usize>() + 8 * self.written.len();
        (512 + answers + results + said + data + owed + executions + succeeded + tools + trail) as u64
    }
}

/// Takes these up as far as they fit; did all of them?
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

    thread_local! {
        /// Texts that were compared with one another.
        pub static COMPARED: Cell<u64> = const { Cell::new(0) };
    }

    fn execution(number: usize, recent: bool) -> Execution {
        let (id, moment) = (format!("t_{number:013}_0123456789abcdef"), Moment { time_ms: number as u64, counter: 0 });
        Execution { id, tool: "t".to_owned(), moment, failed: false, recent, expired: false, item: 3, mark: String::new(), result: [0; 32] }
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
