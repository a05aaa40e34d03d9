//! Writes a judged response by splices: marks, arguments, texts without citations, or toolmark's own text. Pure.

use std::{collections::HashSet, ops::Range};

use super::{BufferedResponse, read::is_built_in};
use crate::{
    exchange::context::WordsMember,
    exchange::{
        call_ids::CallIdMinter,
        context::Context,
        text::{
            annotations,
            place::{Part, TextPlace, is_nothing},
        },
    },
    judge::call::{CallKind, ValidCall},
    marks::MarkTime,
    responses::{
        output_items::{ItemKind, OutputCall},
        synthetic,
    },
    wire::json::{Value, splice::Splices, string::quote},
};

impl BufferedResponse {
    /// Passes the answer on with these calls; returns the calls with their marks.
    pub(super) fn accept<'a>(
        &'a self,
        edits: &mut Splices,
        calls: &'a [(ValidCall, MarkTime)],
        context: &Context,
    ) -> Vec<(String, &'a OutputCall, &'a ValidCall, MarkTime)> {
        let (mut minter, mut marked) = (CallIdMinter::default(), Vec::with_capacity(calls.len()));
        let runs = |call: &ValidCall| context.tools().runs(call.name()).is_some();
        let mut hidden = HashSet::new();
        let items = self.items().zip(&self.kinds).enumerate().filter(|(_, (_, kind))| matches!(kind, ItemKind::Call(_)));
        for ((at, (item, _)), (slot, (call, moment))) in items.zip(self.slots.iter().zip(calls)) {
            // Where the policy lets it through although nobody offered the tool, it isn't ours to mark.
            if is_built_in(item) {
                continue;
            }
            let mark = minter.mint(context, &slot.call_id, call.name(), call.arguments(), *moment);
            if runs(call) {
                hidden.insert(at);
                continue;
            }
            edits.set_member(item, "call_id", &quote(&mark));
            write_arguments(edits, item, slot.kind, call);
            marked.push((mark, slot, call, *moment));
        }
        // What toolmark runs never leaves.
        if let Some(output) = self.document.root().get("output").filter(|_| !hidden.is_empty()) {
            edits.remove_items(output, |at| hidden.contains(&at));
        }
        for place in self.texts() {
            let removals: Vec<Range<usize>> = place.gate.removals().collect();
            if removals.is_empty() {
                continue;
            }
            for (part, text) in place.parts.iter().filter_map(|part| Some((part, place.changed(part, &removals)?))) {
                edits.replace(part.span.clone(), quote(&text));
            }
            let messages = self.items().zip(&self.kinds).filter(|(_, kind)| **kind == ItemKind::Message);
            messages.for_each(|(message, _)| shift_message(edits, message, place, &removals));
        }
        self.write_copy(edits);
        marked
    }

    /// Sets `output_text` to the text of the messages, whatever the upstream wrote there.
    fn write_copy(&self, edits: &mut Splices) {
        let Some(copy) = self.document.root().get("output_text").filter(|copy| copy.text().is_some_and(|text| !text.is_empty())) else {
            return;
        };
        let Some(place) = self.text.as_ref().filter(|place| place.parts.iter().all(|part| part.span != copy.span())) else { return };
        let leaving = place.leaving(&place.gate.removals().collect::<Vec<_>>());
        if !copy.is_text(&leaving) {
            edits.replace(copy.span(), quote(&leaving));
        }
    }

    /// Replaces all output by a message with the text `said`.
    pub(super) fn say(&self, edits: &mut Splices, said: &str, context: &Context) {
        let item = synthetic::message_item(said, &synthetic::item_id(context), context.words_member());
        self.replace(edits, &item, if context.words_member() == WordsMember::Refusal { "" } else { said });
    }

    /// Replaces all output by an item; `copy` is its text, for `output_text`.
    pub(super) fn replace(&self, edits: &mut Splices, item: &str, copy: &str) {
        let root = self.document.root();
        edits.set_member(root, "output", &format!("[{item}]"));
        edits.set_member(root, "status", "\"completed\"");
        for name in ["incomplete_details", "error"] {
            if let Some(value) = root.get_some(name) {
                edits.replace(value.span(), "null");
            }
        }
        if let Some(own) = root.get_some("output_text") {
            edits.replace(own.span(), quote(copy));
        }
    }
}

fn write_arguments(edits: &mut Splices, item: Value<'_>, kind: CallKind, call: &ValidCall) {
    let (own, other) = if kind == CallKind::Custom { ("input", "arguments") } else { ("arguments", "input") };
    if !item.get(own).is_some_and(|value| value.is_text(call.arguments())) {
        edits.set_member(item, own, &quote(call.arguments()));
    }
    rename(edits, item, call, &[other]);
}

/// Writes a corrected tool name, and removes the members `without`.
pub(in crate::responses) fn rename(edits: &mut Splices, item: Value<'_>, call: &ValidCall, without: &[&str]) {
    if call.renamed() {
        edits.set_member(item, "name", &quote(call.name()));
    }
    // What came under another name was judged under its own, or not at all. Who is renamed stands in no namespace.
    edits.remove_members(item, |name| without.contains(&name) || call.renamed() && name == "namespace");
}

/// Shifts the annotations of a message's parts with their texts, and drops their `logprobs`, which spell the removed
/// text.
fn shift_message(edits: &mut Splices, message: Value<'_>, place: &TextPlace, removals: &[Range<usize>]) {
    let Some(content) = message.get("content") else { return };
    let changed = |value: Value<'_>| changed_part(value, place, removals);
    if let Some((part, own)) = changed(content) {
        annotations::shift(edits, message, place.text_of(part), &own);
        drop_logprobs(edits, message);
    }
    for whole in content.items() {
        // Of several strings in one part the annotations belong to the first.
        if let Some((part, own)) = whole.members().find_map(|member| changed(member.value)) {
            annotations::shift(edits, whole, place.text_of(part), &own);
            drop_logprobs(edits, whole);
        }
    }
}

/// The part with this value's position, and the removals in it.
fn changed_part<'p>(value: Value<'_>, place: &'p TextPlace, removals: &[Range<usize>]) -> Option<(&'p Part, Vec<Range<usize>>)> {
    let span = value.span();
    let at = place.parts.binary_search_by_key(&span.start, |part| part.span.start).ok()?;
    let part = place.parts.get(at).filter(|part| part.span == span)?;
    let own = place.removals_in(part, removals);
    (!own.is_empty()).then_some((part, own))
}

fn drop_logprobs(edits: &mut Splices, holder: Value<'_>) {
    if let Some(logprobs) = holder.get("logprobs").filter(|logprobs| !is_nothing(*logprobs)) {
        edits.replace(logprobs.span(), "[]");
    }
}
