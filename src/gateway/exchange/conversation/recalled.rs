//! What a request needs of the part of its conversation that only the upstream has: what to look up, and what was found. Pure.

use std::{collections::HashSet, sync::Arc, time::Duration};

use super::{Fate, KnownCall, Thread};
use crate::judge::history::{self, Execution, StoredCall};

/// Maximum objects that one request may name: each is looked up.
pub const NAMED_MAX: usize = 1024;

/// Kind of a stored object.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum ObjectKind {
    /// A response.
    Response,
    /// An answer that a message thread goes on from.
    Thread,
    /// A conversation.
    Conversation,
    /// An item of a response or a conversation.
    Item,
}

/// Object that a request names.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NamedObject {
    /// Kind of the object.
    pub kind: ObjectKind,
    /// Its ID.
    pub id: String,
    /// Member of the request that names it, if it is named in the body.
    pub param: Option<&'static str>,
}

/// Keys to look up before a request can be prepared.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Wanted {
    /// ID of the response that the request goes on from.
    pub response: Option<String>,
    /// ID of the conversation that the request belongs to.
    pub conversation: Option<String>,
    /// Ids of results' calls that aren't in the request.
    pub calls: Vec<String>,
    /// Ids of items: references, and the ids of the request's own items.
    pub items: Vec<String>,
}

/// Stored state that was looked up for a request.
#[derive(Clone, Debug, Default)]
pub struct Recalled {
    /// The conversation up to this request, if the upstream stores it.
    pub thread: Option<Arc<Thread>>,
    /// Calls that were passed on, by the ids that the application has.
    pub calls: Vec<(String, KnownCall)>,
    /// Dispositions of items, by id.
    pub items: Vec<(String, Fate)>,
}

impl Recalled {
    /// True if nothing was looked up, or found.
    pub fn is_empty(&self) -> bool {
        self.thread.is_none() && self.calls.is_empty() && self.items.is_empty()
    }

    /// The calls in the terms of the history's verification.
    pub fn stored_calls(&self) -> Vec<StoredCall> {
        let stored = |(id, call): &(String, KnownCall)| {
            let KnownCall { tool, moment, digest, arguments, .. } = call;
            StoredCall { id: id.clone(), tool: tool.to_string(), moment: *moment, digest: *digest, arguments: arguments.clone() }
        };
        self.calls.iter().map(stored).collect()
    }

    /// Arrays of tools of earlier requests, and then those of this one: JSON.
    pub fn tools_with(&self, own: Vec<Arc<str>>) -> Vec<Arc<str>> {
        match &self.thread {
            Some(thread) => thread.tools.iter().cloned().chain(own).collect(),
            None => own,
        }
    }
}

impl Thread {
    /// Puts the known executions and tools in front of those that a request proves. `spoke`: the request has a user message.
    pub fn prepend_to(
        &self,
        executions: &mut Vec<Execution>,
        succeeded: &mut Vec<String>,
        spoke: bool,
        window: Option<Duration>,
        now_ms: u64,
    ) {
        let own: HashSet<&str> = executions.iter().map(|execution| &*execution.id).collect();
        let earlier = self.executions.iter().filter(|execution| !own.contains(&*execution.id));
        let earlier = earlier.map(|execution| Execution {
            recent: execution.recent && !spoke,
            expired: history::is_expired(execution.moment, window, now_ms),
            item: usize::MAX,
            ..execution.clone()
        });
        let earlier: Vec<Execution> = earlier.collect();
        executions.splice(0..0, earlier);
        let known: HashSet<&str> = succeeded.iter().map(String::as_str).collect();
        let further: Vec<String> = self.succeeded.iter().filter(|tool| !known.contains(&***tool)).cloned().collect();
        succeeded.extend(further);
    }
}
