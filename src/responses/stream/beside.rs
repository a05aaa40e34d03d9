//! What stands where it doesn't belong: calls and texts in members of events that aren't theirs, and in events that
//! toolmark doesn't know. Pure.
//!
//! Clients differ in what they look at first, an event's type or its members: what one of them might read is judged,
//! or refused.

use super::{ResponseStream, What, take::output_index};
use crate::{
    chat::chunk::is_disguise,
    exchange::{fault::Fault, texts::is_nothing},
    responses::{
        answer::read::says_outside,
        output::{ItemKind, Strings, kind_of, part_strings},
    },
    wire::{
        json::{Document, Value},
        sse::Event,
    },
};

/// Members of events that would say what only a response may say.
const OUTSIDE: [&str; 5] = ["choices", "messages", "output_text", "output_messages", "tool_use"];
/// Members that may list items.
const LISTS: [&str; 3] = ["output", "outputs", "items"];

impl ResponseStream {
    /// Looks whether an event says something beside what events of its type say.
    ///
    /// # Errors
    /// [`Fault::Unknown`] where it does.
    pub(super) fn beside(&self, root: Value<'_>, kind: &str) -> Result<(), Fault> {
        let own = |names: &[&str]| names.iter().any(|name| kind.strip_prefix("response.") == Some(*name));
        let says_more = root.members().any(|member| {
            let (name, value) = (&*member.name(), member.value);
            match name {
                "type" | "sequence_number" | "output_index" | "item_id" | "content_index" | "delta" | "logprobs" | "obfuscation" => false,
                "response" if !own(&ENDS_AND_BEGINNINGS) => says(value),
                "item" if !own(&["output_item.added", "output_item.done"]) => self.is_judged(value),
                "part" if !own(&["content_part.added", "content_part.done"]) => says_part(value),
                "text" => own(&["output_text.delta", "refusal.delta"]) && !is_nothing(value),
                "refusal" => !own(&["refusal.done"]) && !is_nothing(value),
                _ if LISTS.contains(&name) => value.items().any(|item| self.is_judged(item)),
                _ => (is_disguise(name) || OUTSIDE.contains(&name)) && !is_nothing(value),
            }
        });
        if says_more { Err(Fault::Unknown("a call or text in an event that isn't of its type")) } else { Ok(()) }
    }

    /// Is it an item that is judged, or can't be?
    fn is_judged(&self, value: Value<'_>) -> bool {
        value.is_object() && !matches!(kind_of(value, &self.context), Ok(ItemKind::Hosted | ItemKind::Reasoning | ItemKind::Other))
    }

    /// Events that toolmark doesn't know pass, unless they might carry a call or a text past it.
    pub(super) fn unknown(&mut self, event: Event, document: Document, kind: &str) -> Result<(), Fault> {
        let root = document.root();
        let kind = kind.to_ascii_lowercase();
        let speaks = ["output_text", "refusal", "transcript", "function_call", "custom_tool_call", "output_item", "response.text"];
        if speaks.iter().any(|word| kind.contains(word)) && !kind.contains("reasoning") {
            return Err(Fault::Unknown("an event of an unknown type that may carry a call or a text"));
        }
        let item = match (output_index(root)?, root.get("item_id").and_then(Value::text)) {
            (None, None) => None,
            (index, id) => self.find(index, &id.unwrap_or_default()),
        };
        self.wait(event, document, item, What::Passes);
        Ok(())
    }
}

/// Events that bring the response itself, without `response.`.
const ENDS_AND_BEGINNINGS: [&str; 7] = ["created", "in_progress", "queued", "completed", "incomplete", "failed", "cancelled"];

/// A response object that already has output.
pub(super) fn says(response: Value<'_>) -> bool {
    let some = |name: &str| response.get(name).is_some_and(|value| !is_nothing(value));
    response.is_object() && (some("output") || some("output_text") || says_outside(response))
}

/// A part of an answer that says something; those of what was thought pass.
fn says_part(part: Value<'_>) -> bool {
    let mut strings = Strings::default();
    let thought = part.get("type").is_some_and(|kind| kind.is_text("summary_text") || kind.is_text("reasoning_text"));
    let read = part_strings(part, &mut strings);
    !thought && (read.is_err() || strings.texts.iter().chain(&strings.refusals).any(|string| !is_nothing(*string)))
}
