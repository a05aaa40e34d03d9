//! Content in wrong places: calls and texts in members of events that aren't theirs, and in events unknown to toolmark.
//! Pure.
//!
//! Some clients go by an event's type, others by its members: anything that one of them might read is judged, or
//! refused.

use super::{EventRole, ReceivedResponse};
use crate::{
    chat::stream::chunk::is_disguise,
    exchange::{
        error::Fault,
        text::{place::is_nothing, places::refuse_calls_beside},
    },
    responses::{
        output_items::{ItemKind, MessageStrings, kind_of, part_strings},
        places::speaks,
        response::read::says_outside,
        stream::receive::output_index,
    },
    wire::{
        json::{Document, Value},
        sse::SseEvent,
    },
};

/// Members of events that belong only in a response.
const OUTSIDE: [&str; 5] = ["choices", "messages", "output_text", "output_messages", "tool_use"];
/// Members that may list items.
const LISTS: [&str; 3] = ["output", "outputs", "items"];

impl ReceivedResponse {
    /// True if an event of an unknown type has content that belongs only in other events.
    ///
    /// # Errors
    /// [`Fault`] for a call.
    fn beside(&self, root: Value<'_>) -> Result<bool, Fault> {
        refuse_calls_beside(root, &[], None)?;
        let mut says_more = false;
        for member in root.members() {
            let (name, value) = (&*member.name(), member.value);
            says_more |= match name {
                "response" => {
                    let output = value.get("output").into_iter().flat_map(Value::items);
                    output.map(|item| self.is_said(item)).collect::<Result<Vec<bool>, Fault>>()?;
                    says(value)
                }
                "item" => self.is_said(value)?,
                "part" => says_part(value),
                _ if LISTS.contains(&name) => value.items().try_fold(false, |said, item| Ok::<_, Fault>(self.is_said(item)? || said))?,
                _ => (is_disguise(name) || OUTSIDE.contains(&name)) && !is_nothing(value),
            };
        }
        Ok(says_more)
    }

    /// True for an item with content.
    ///
    /// # Errors
    /// [`Fault`] for a call.
    fn is_said(&self, value: Value<'_>) -> Result<bool, Fault> {
        if !value.is_object() {
            return Ok(false);
        }
        match kind_of(value, &self.context)? {
            ItemKind::Call(_) => Err(Fault::Unknown("a call in an event that isn't of its type")),
            ItemKind::Message => Ok(true),
            ItemKind::Hosted | ItemKind::Reasoning | ItemKind::Other => Ok(false),
        }
    }

    /// Handles an event of an unknown type: it passes unless it might contain a call or a text.
    pub(super) fn unknown(&mut self, event: SseEvent, document: Document, kind: &str) -> Result<(), Fault> {
        let root = document.root();
        let beside = self.beside(root)?;
        let kind = kind.to_ascii_lowercase();
        let named = |words: &[&str]| words.iter().any(|word| kind.contains(word));
        let item = match (output_index(root)?, root.get("item_id").and_then(Value::text)) {
            (None, None) => None,
            (index, id) => self.find(index, &id.unwrap_or_default()),
        };
        // What was thought is no answer; what the upstream's own tools say is theirs.
        let theirs =
            item.and_then(|item| self.items.get(item)).is_some_and(|item| matches!(item.kind, ItemKind::Hosted | ItemKind::Reasoning));
        if named(&["function_call", "custom_tool_call", "output_item"]) {
            return Err(Fault::Unknown("an event of an unknown type that may carry a call"));
        }
        let hosted = named(&["reasoning", "mcp_", "code_interpreter", "image_generation", "web_search", "file_search"]);
        let spoken =
            || Ok::<_, Fault>(named(&["output_text", "refusal", "transcript", "response.text"]) || speaks(root, &kind, &self.context)?);
        if beside || (!theirs && !hosted && spoken()?) {
            // Left out: whether it is a copy isn't known.
            self.stray = true;
            return Ok(());
        }
        self.wait(event, document, item, EventRole::Passes);
        Ok(())
    }
}

/// True for a response object that already has output.
pub(super) fn says(response: Value<'_>) -> bool {
    let some = |name: &str| response.get(name).is_some_and(|value| !is_nothing(value));
    response.is_object() && (some("output") || some("output_text") || says_outside(response))
}

/// True for a part of an answer with content; reasoning doesn't count.
fn says_part(part: Value<'_>) -> bool {
    let mut strings = MessageStrings::default();
    let thought = part.get("type").is_some_and(|kind| kind.is_text("summary_text") || kind.is_text("reasoning_text"));
    let read = part_strings(part, &mut strings);
    !thought && (read.is_err() || strings.texts.iter().chain(&strings.refusals).any(|string| !is_nothing(*string)))
}
