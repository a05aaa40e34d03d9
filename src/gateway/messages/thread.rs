//! Message threads: conversations that the upstream keeps, so that a request has only what is new. Pure.
//!
//! Source: Anthropic's documentation, "Message threads"; docs/wire-facts.md#messages. A thread goes on from the id of an answer, once
//! from each; `system` and `tools` are those of the request that created it. Every client has the whole conversation, and sends it where
//! it is told that a thread isn't there. So a thread that isn't known is refused, and so is one whose last answer toolmark changed: later
//! thinking would be bound to an answer, or to rejected turns, that the application doesn't have and can't send when the thread is gone.

use std::{collections::HashMap, sync::atomic::Ordering};

use super::history::Place;
use crate::{
    exchange::{
        call_ids::CallIdMinter,
        context::Context,
        conversation::{KnownCall, Memo, recalled::Recalled, update},
        error::{Refusal, unique_in_request},
    },
    judge::call::ValidCall,
    marks::{CallMark, MarkTime},
    policy::Stateful,
    wire::json::{Value, splice::Splices, string::quote},
};

/// Code and beginning of the message by which clients know to send the whole conversation without a thread. Source: anthropic
/// (PyPI), `lib/threads`; issue raine/claude-code-proxy#148.
pub const UNSUPPORTED: &str = "thread_unsupported_request";
/// See [`UNSUPPORTED`].
pub const CAPABILITY_REJECTED: &str = "capability_rejected: beta_header:message-threads-2026-08-12";
/// Code by which clients know to send the whole conversation in a new thread. Source: as for [`UNSUPPORTED`].
const NOT_FOUND: &str = "thread_not_found";
/// The member of a request.
const MEMBER: &str = "thread";

/// Use that a request makes of threads.
#[derive(Clone, Copy, Debug)]
pub enum ThreadUse<'d> {
    /// None.
    Without,
    /// It has the whole conversation, and the upstream keeps it from here on.
    Create,
    /// It goes on from the answer with this id.
    Continue(Value<'d>),
    /// One that nobody knows.
    Unknown,
}

impl<'d> ThreadUse<'d> {
    /// Reads the member `thread`.
    ///
    /// # Errors
    /// [`Refusal`] for two members of one name.
    pub fn read(thread: Value<'d>) -> Result<Self, Refusal> {
        if thread.is_null() {
            return Ok(Self::Without);
        }
        unique_in_request(thread, "`thread`")?;
        let kind = thread.get("type").and_then(Value::text).unwrap_or_default();
        let previous = thread.get("previous_message_id").filter(|id| id.is_string() && !id.is_text(""));
        Ok(match (&*kind, previous) {
            ("create", None) => Self::Create,
            ("continue", Some(id)) => Self::Continue(id),
            _ => Self::Unknown,
        })
    }

    /// True if the upstream keeps the answer.
    pub fn is_kept(self) -> bool {
        !matches!(self, Self::Without)
    }

    /// True if a part of the conversation isn't in the request.
    pub fn continues(self) -> bool {
        matches!(self, Self::Continue(_) | Self::Unknown)
    }

    /// Id of the answer that the request goes on from.
    pub fn previous(self) -> Option<String> {
        if let Self::Continue(id) = self { id.text().map(|id| id.into_owned()) } else { None }
    }

    /// Refuses threads where the policy doesn't allow them, and where toolmark runs tools: what it runs is a part of the conversation
    /// that the application doesn't have.
    ///
    /// # Errors
    /// [`Refusal`]
    pub fn check(self, stateful: Stateful, runs_tools: bool) -> Result<(), Refusal> {
        let unsupported = |why: &str| Err(Refusal::new(UNSUPPORTED, Some(MEMBER), format!("{CAPABILITY_REJECTED}; {why}")));
        match (self, stateful) {
            (Self::Without, _) => Ok(()),
            (_, Stateful::Stateless) => {
                unsupported("this proxy's policy takes whole conversations only: send all messages, without `thread`")
            }
            (_, Stateful::Refuse) => {
                let message = "`thread` can't be used, because this proxy's policy takes only requests that stand alone (`[responses] stateful`): send all messages, without `thread`";
                Err(Refusal::new("invalid_request", Some(MEMBER), message))
            }
            (Self::Unknown, Stateful::Track) => unsupported("toolmark doesn't know this use of `thread`: send all messages, without it"),
            _ if runs_tools => unsupported("toolmark runs tools of MCP servers here: send all messages, without `thread`"),
            (Self::Create | Self::Continue(_), Stateful::Track) => Ok(()),
        }
    }
}

/// Error for a thread that isn't known.
pub fn not_found(id: &str) -> Refusal {
    let message = format!(
        "No thread found for previous_message_id '{id}': toolmark doesn't know it as this caller's, or its last answer isn't what the upstream kept. Send the whole conversation with thread {{\"type\":\"create\"}}"
    );
    Refusal::not_found(NOT_FOUND, MEMBER, message)
}

/// Names the calls of a request as the upstream knows them.
pub fn name_as_upstream(edits: &mut Splices, places: &[Place<'_>], recalled: &Recalled) {
    let known: HashMap<&str, &KnownCall> = recalled.calls.iter().map(|(mark, call)| (&**mark, call)).collect();
    let mut marks: HashMap<String, Option<String>> = HashMap::new();
    let mut found = Vec::new();
    for value in places.iter().flat_map(ids_of) {
        let Some(mark) = value.text() else { continue };
        let upstream =
            CallMark::parse(&mark).and_then(|own| own.upstream_id()).or_else(|| known.get(&*mark).map(|call| &*call.upstream_id));
        let Some(upstream) = upstream.filter(|own| *own != mark) else { continue };
        // Two calls that the upstream gave one id keep their marks, which tell them apart.
        let first = marks.entry(upstream.to_owned()).or_insert_with(|| Some(mark.to_string()));
        if first.as_deref() != Some(&*mark) {
            *first = None;
        }
        found.push((value, upstream.to_owned()));
    }
    for (value, upstream) in found {
        if marks.get(&upstream).is_some_and(Option::is_some) {
            edits.replace(value.span(), quote(&upstream));
        }
    }
}

/// Ids of calls at a place.
fn ids_of<'d>(place: &Place<'d>) -> Vec<Value<'d>> {
    match place {
        Place::Model(_, calls) => calls.iter().filter_map(|call| call.get("id")).collect(),
        Place::Result(block, _) => block.get("tool_use_id").into_iter().collect(),
        Place::User(_) | Place::Beside(_) | Place::Instructions(_) => Vec::new(),
    }
}

/// Ids of an answer's calls as the application gets them, and what is to be known of them later.
#[derive(Default)]
pub struct MarkedCalls {
    minter: CallIdMinter,
    known: Vec<(String, KnownCall)>,
    is_changed: bool,
}

impl MarkedCalls {
    /// The id of the next call. `block`: as the upstream sent it.
    pub fn mark(&mut self, context: &Context, block: Value<'_>, call: &ValidCall, moment: MarkTime) -> String {
        if !context.hidden.store {
            return context.mint(call.name(), call.arguments(), moment);
        }
        let id = block.get("id").and_then(Value::text).unwrap_or_default();
        let mark = self.minter.mint(context, &id, call.name(), call.arguments(), moment);
        let (mark, mut known) = update::known_call(&mark, &id, call, moment);
        known.read_by_code = super::blocks::is_programmatic(block);
        self.is_changed |= call.corrected();
        self.known.push((mark.clone(), known));
        mark
    }

    /// Records that the application gets other texts than the upstream keeps.
    pub fn change(&mut self) {
        self.is_changed = true;
    }

    /// The update for an answer with this id that was passed on; `None` if no thread goes on from it.
    pub fn memo(self, context: &Context, id: Option<&str>) -> Option<Memo> {
        let goes_on = context.hidden.store && !self.is_changed && !context.repaired.load(Ordering::Relaxed);
        let id = id.filter(|id| goes_on && !id.is_empty())?;
        Some(update::memo_of(context, Some(id), None, self.known))
    }
}
