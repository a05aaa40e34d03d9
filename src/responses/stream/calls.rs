//! A call of a streamed response, held until it is judged: joined from the four places in which it comes.
//!
//! FACTS §2: argument deltas, `arguments.done`, `output_item.done`, `response.completed.output`. All of them must
//! say the same; nothing of a call is released from here. Pure.

use crate::{
    exchange::fault::ShapeError,
    judge::call::{Arguments, CallKind},
    responses::output::Slot,
    wire::canonical::canonical,
};

/// One call as far as it has come.
#[derive(Debug, Default)]
pub struct HeldCall {
    slot: Slot,
    deltas: String,
    too_long: bool,
}

impl HeldCall {
    /// A call of this kind that begins; `slot`: its item, where that has come.
    pub fn new(kind: CallKind, slot: Option<Slot>) -> Self {
        let slot = slot.unwrap_or_else(|| Slot { kind, ..Slot::default() });
        Self { slot, ..Self::default() }
    }

    /// Takes a fragment of its arguments; more than `bytes_max` are refused when it is judged.
    pub fn push(&mut self, fragment: &str, bytes_max: usize) {
        if self.too_long || self.deltas.len() + fragment.len() > bytes_max {
            self.too_long = true;
            self.deltas = String::new();
            return;
        }
        self.deltas.push_str(fragment);
    }

    /// Takes its arguments as a whole.
    ///
    /// # Errors
    /// [`ShapeError::Ambiguous`] where others came before.
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

    /// Takes its item, begun or done.
    ///
    /// # Errors
    /// [`ShapeError::Ambiguous`] where it names another tool, another call or other arguments than before.
    pub fn merge(&mut self, item: Slot, bytes_max: usize) -> Result<(), ShapeError> {
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

    /// Takes the name that an `arguments.done` event repeats.
    ///
    /// # Errors
    /// [`ShapeError::Ambiguous`] where it is another.
    pub fn named(&mut self, name: &str) -> Result<(), ShapeError> {
        if self.slot.name.is_empty() {
            name.clone_into(&mut self.slot.name);
        }
        if self.slot.name == name { Ok(()) } else { Err(ShapeError::Ambiguous) }
    }

    /// Could it be the call of this item?
    pub fn may_be(&self, item: &Slot) -> bool {
        let fits = |own: &str, new: &str| own.is_empty() || new.is_empty() || own == new;
        let own = &self.slot;
        let same_item = fits(&own.item_id, &item.item_id) || self.is_called(Some(item));
        same_item && fits(&own.call_id, &item.call_id) && fits(&own.name, &item.name) && own.kind == item.kind
    }

    /// Has it the same id of the call?
    pub fn is_called(&self, item: Option<&Slot>) -> bool {
        item.is_some_and(|item| !item.call_id.is_empty() && item.call_id == self.slot.call_id)
    }

    /// The call, as far as it has come.
    pub fn slot(&self) -> Slot {
        let mut slot = self.slot.clone();
        if self.too_long {
            slot.arguments = Some(Arguments::Other("(longer than `limits.held_bytes`)".to_owned()));
        } else if slot.text().is_empty() && !self.deltas.is_empty() {
            slot.arguments = Some(Arguments::Text(self.deltas.clone()));
        }
        slot
    }
}
