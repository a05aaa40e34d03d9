//! A call of a streamed response, held until it is judged: joined from the four kinds of events that carry it.
//!
//! The four places are the argument deltas, `arguments.done`, `output_item.done` and `response.completed.output`
//! (docs/wire-facts.md#responses-streams). All of them must say the same; nothing of a call is released from here. Pure.

use crate::{
    exchange::error::ShapeError,
    judge::call::{Arguments, CallKind},
    responses::output_items::OutputCall,
    wire::json::{canonical::canonical, string::StringJoiner},
};

/// A partial call.
#[derive(Debug, Default)]
pub struct HeldCall {
    slot: OutputCall,
    deltas: String,
    too_long: bool,
    /// Joins the strings that its arguments come in.
    pub joiner: StringJoiner,
}

impl HeldCall {
    /// Begins a call of this kind; `slot`: its item, if received.
    pub fn new(kind: CallKind, slot: Option<OutputCall>) -> Self {
        let slot = slot.unwrap_or_else(|| OutputCall { kind, ..OutputCall::default() });
        Self { slot, ..Self::default() }
    }

    /// Appends a fragment of its arguments. If they exceed `bytes_max`, they are discarded and the call is refused when
    /// judged.
    pub fn push(&mut self, fragment: &str, bytes_max: usize) {
        if self.too_long || self.deltas.len() + fragment.len() > bytes_max {
            self.too_long = true;
            self.deltas = String::new();
            return;
        }
        self.deltas.push_str(fragment);
    }

    /// Sets its complete arguments.
    ///
    /// # Errors
    /// [`ShapeError::Ambiguous`] if other arguments came before.
    pub fn whole(&mut self, arguments: Arguments, bytes_max: usize) -> Result<(), ShapeError> {
        let text = match &arguments {
            Arguments::Text(text) | Arguments::Object(text) | Arguments::Other(text) => text,
            Arguments::Absent | Arguments::Null => "",
        };
        if text.len() > bytes_max {
            self.too_long = true;
            return Ok(());
        }
        let before = if self.slot.text().is_empty() { &self.deltas } else { self.slot.text() };
        if text.is_empty() {
            if self.slot.arguments.is_none() {
                self.slot.arguments = Some(arguments);
            }
            return Ok(());
        }
        if !before.is_empty() && *before != *text && canonical(before).is_none_or(|before| canonical(text) != Some(before)) {
            return Err(ShapeError::Ambiguous);
        }
        self.slot.arguments = Some(arguments);
        Ok(())
    }

    /// Merges its item, begun or done.
    ///
    /// # Errors
    /// [`ShapeError::Ambiguous`] if the item names another tool, another call, or other arguments.
    pub fn merge(&mut self, item: OutputCall, bytes_max: usize) -> Result<(), ShapeError> {
        let same = |own: &mut String, new: &str| {
            if own.is_empty() {
                new.clone_into(own);
            }
            if new.is_empty() || own == new { Ok(()) } else { Err(ShapeError::Ambiguous) }
        };
        same(&mut self.slot.name, &item.name)?;
        same(&mut self.slot.call_id, &item.call_id)?;
        // Some upstreams give an item another id with every event; its call's stays.
        if !item.item_id.is_empty() {
            self.slot.item_id = item.item_id;
        }
        match (&self.slot.namespace, item.namespace) {
            (None, namespace) => self.slot.namespace = namespace,
            (Some(own), Some(new)) if *own != new => return Err(ShapeError::Ambiguous),
            _ => {}
        }
        if self.slot.kind != item.kind {
            return Err(ShapeError::Ambiguous);
        }
        self.slot.raw = item.raw;
        match item.arguments {
            Some(arguments) => self.whole(arguments, bytes_max),
            None => Ok(()),
        }
    }

    /// Checks the tool name that an `arguments.done` event repeats.
    ///
    /// # Errors
    /// [`ShapeError::Ambiguous`] if it is another name.
    pub fn named(&mut self, name: &str) -> Result<(), ShapeError> {
        if self.slot.name.is_empty() {
            name.clone_into(&mut self.slot.name);
        }
        if self.slot.name == name { Ok(()) } else { Err(ShapeError::Ambiguous) }
    }

    /// True if this may be the call of the item.
    pub fn may_be(&self, item: &OutputCall) -> bool {
        let fits = |own: &str, new: &str| own.is_empty() || new.is_empty() || own == new;
        let own = &self.slot;
        let same_item = fits(&own.item_id, &item.item_id) || self.is_called(Some(item));
        same_item && fits(&own.call_id, &item.call_id) && fits(&own.name, &item.name) && own.kind == item.kind
    }

    /// True if the item has the same `call_id`.
    pub fn is_called(&self, item: Option<&OutputCall>) -> bool {
        item.is_some_and(|item| !item.call_id.is_empty() && item.call_id == self.slot.call_id)
    }

    /// The call as received so far.
    pub fn slot(&self) -> OutputCall {
        let mut slot = self.slot.clone();
        if self.too_long {
            slot.arguments = Some(Arguments::Other("(longer than `limits.held_bytes`)".to_owned()));
        } else if slot.text().is_empty() && !self.deltas.is_empty() {
            slot.arguments = Some(Arguments::Text(self.deltas.clone()));
        }
        slot
    }
}
