//! What toolmark must remember of conversations that the upstream keeps: values only, the shell keeps them.
//!
//! DESIGN.md, "Marks"; issue "Responses API", `[responses] stateful = "track"`. Everything here is bounded, so
//! that a conversation without end takes no memory without end. Pure.

use std::sync::Arc;

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
}

impl Thread {
    /// This and what an exchange adds to it, within bounds.
    #[must_use]
    pub fn with(mut self, executions: &[Execution], succeeded: &[String], tools: &[Arc<str>], data: &[String]) -> Self {
        for execution in executions {
            match self.executions.iter_mut().find(|own| own.id == execution.id) {
                Some(own) => own.recent = execution.recent,
                None => self.executions.push(Execution { item: usize::MAX, ..execution.clone() }),
            }
        }
        let surplus = self.executions.len().saturating_sub(EXECUTIONS_MAX);
        self.executions.drain(..surplus);
        for tool in succeeded {
            if !self.succeeded.contains(tool) && self.succeeded.len() < EXECUTIONS_MAX {
                self.succeeded.push(tool.clone());
            }
        }
        let mut bytes: usize = self.tools.iter().map(|tools| tools.len()).sum();
        for array in tools {
            // What came in earlier comes again, and says nothing new.
            if self.tools.contains(array) {
                continue;
            }
            bytes += array.len();
            if bytes > TOOLS_BYTES_MAX {
                self.incomplete = true;
                break;
            }
            self.tools.push(array.clone());
        }
        let mut bytes: usize = self.data.iter().map(|text| text.len()).sum();
        for text in data {
            if self.data.iter().any(|own| **own == **text) {
                continue;
            }
            bytes += text.len();
            if bytes > DATA_BYTES_MAX {
                self.incomplete = true;
                break;
            }
            self.data.push(text.as_str().into());
        }
        self
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
        (512 + results + said + data + owed + executions + succeeded + tools + trail) as u64
    }
}
