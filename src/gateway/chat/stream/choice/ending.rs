//! End of one choice of a streamed answer: the rest of its events, its calls, its `finish_reason`.
//!
//! Comes when all is decided. Source: docs/wire-facts.md#emission-rules, rules 2, 3, 8 and 10. Sans-IO.

use bytes::{Bytes, BytesMut};

use super::{ChoiceStream, pending::HeldEvent};
use crate::{
    chat::{
        assembler::PartialCall,
        stream::chunk::{self, ChunkEdit, CompletionIdentity},
    },
    exchange::context::WordsMember,
    exchange::{context::Context, decision::ChoiceOutcome},
    judge::call::{CallKind, ValidCall},
    marks::MarkTime,
    wire::{
        json::{
            Document,
            string::{quote, quote_into},
        },
        sse::SseEvent,
    },
};

impl ChoiceStream {
    /// Ends the choice: writes the rest of its events, and returns the one with the `finish_reason`.
    pub fn end(
        &mut self,
        ending: ChoiceOutcome,
        context: &Context,
        identity: Option<&CompletionIdentity>,
        out: &mut BytesMut,
    ) -> Option<Bytes> {
        let mut queue: Vec<HeldEvent> = std::mem::take(&mut self.queue).into();
        let template = self.last_event.clone();
        match ending {
            ChoiceOutcome::Accept(calls) => {
                // Only the very last event may both end the choice and say something: what follows it would be too late.
                let last = queue.pop_if(|pending| pending.finish);
                let ended = queue.iter().rfind(|pending| pending.finish).and_then(HeldEvent::data);
                // INVARIANT: nothing blocks, so every gate has cleared all of its text.
                for pending in &queue {
                    self.emit(pending, identity, out);
                }
                self.emit_calls(&calls, context, identity, out);
                let legacy = self.slots().iter().any(|slot| slot.kind == CallKind::Legacy);
                let kind = if legacy { CallKind::Legacy } else { CallKind::Function };
                let finish = chunk::fitting_finish(self.finish_reason.as_deref(), calls.len(), kind).map(str::to_owned);
                let elsewhere = || self.finish_reason.as_deref().filter(|_| self.finish_elsewhere).map(quote);
                let finish = finish.or_else(elsewhere);
                let finish = finish.as_deref();
                match last {
                    Some(pending) => self.finish_with(&pending, finish, identity),
                    None => finish_made(ended.or(template), finish, identity),
                }
            }
            ChoiceOutcome::Replace(text) => {
                self.say(&text, context.words_member(), identity, template.as_ref(), out);
                let ended = queue.iter().rfind(|pending| pending.finish).and_then(HeldEvent::data);
                finish_made(ended.or(template), Some("\"stop\""), identity)
            }
            ChoiceOutcome::ReplaceByCall(call) => {
                let mark = context.mint(call.0.name(), call.0.arguments(), call.1);
                self.say_as_call(&call.0, &mark, identity, template.as_ref(), out);
                let ended = queue.iter().rfind(|pending| pending.finish).and_then(HeldEvent::data);
                finish_made(ended.or(template), Some("\"tool_calls\""), identity)
            }
        }
    }

    fn finish_with(&mut self, pending: &HeldEvent, finish: Option<&str>, identity: Option<&CompletionIdentity>) -> Option<Bytes> {
        let texts = self.leaving(pending);
        let finish = finish.map(str::to_owned);
        let drop_logprobs = pending.logprobs_of_nothing();
        let changes = ChunkEdit {
            identity,
            texts,
            drop_calls: pending.has_calls,
            drop_logprobs,
            role: self.role_of(pending),
            finish,
            ..ChunkEdit::default()
        };
        self.role_said = true;
        Some(pending.write(&changes))
    }

    fn emit_calls(
        &mut self,
        calls: &[(ValidCall, MarkTime)],
        context: &Context,
        identity: Option<&CompletionIdentity>,
        out: &mut BytesMut,
    ) {
        let Some(template) = self.call_event.clone() else { return };
        let slots = self.assembler.slots();
        let mut deltas = Vec::new();
        // What toolmark runs never leaves.
        let theirs = calls.iter().zip(slots).filter(|((call, _), _)| context.tools().runs(call.name()).is_none());
        for (at, ((call, moment), slot)) in theirs.enumerate() {
            let mark = context.mint(call.name(), call.arguments(), *moment);
            deltas.push(call_json(at, slot, call, &mark));
        }
        for delta in deltas {
            let role = if self.role_said { "" } else { "\"role\":\"assistant\",\"content\":null," };
            self.role_said = true;
            let changes = ChunkEdit {
                identity,
                delta: Some(format!("{{{role}{delta}}}")),
                finish: Some("null".into()),
                drop_usage: true,
                ..ChunkEdit::default()
            };
            out.extend(made(template.clone(), &changes));
        }
    }

    fn say_as_call(
        &mut self,
        call: &ValidCall,
        mark: &str,
        identity: Option<&CompletionIdentity>,
        template: Option<&Bytes>,
        out: &mut BytesMut,
    ) {
        let role = if self.role_said { "" } else { "\"role\":\"assistant\",\"content\":null," };
        self.role_said = true;
        let mut delta = format!("{{{role}\"tool_calls\":[{{\"index\":0,\"id\":\"{mark}\",\"type\":\"function\",\"function\":{{\"name\":");
        quote_into(&mut delta, call.name());
        delta.push_str(",\"arguments\":");
        quote_into(&mut delta, call.arguments());
        delta.push_str("}}]}");
        let changes = ChunkEdit { identity, delta: Some(delta), finish: Some("null".into()), drop_usage: true, ..ChunkEdit::default() };
        out.extend(template.and_then(|data| made(data.clone(), &changes)).unwrap_or_default());
    }

    fn say(
        &mut self,
        text: &str,
        member: WordsMember,
        identity: Option<&CompletionIdentity>,
        template: Option<&Bytes>,
        out: &mut BytesMut,
    ) {
        let mut delta = String::from("{");
        if !self.role_said {
            delta.push_str("\"role\":\"assistant\",");
        }
        self.role_said = true;
        let is_content = member == WordsMember::Content;
        delta.push_str(if is_content { "\"content\":" } else { "\"refusal\":" });
        // What it says doesn't stand in a fence or element that the model had opened.
        let open = if self.released && is_content { self.gates[0].closing() } else { String::new() };
        let gap = if self.follows && is_content { "\n\n" } else { "" };
        quote_into(&mut delta, &format!("{open}{gap}{text}"));
        delta.push('}');
        let changes = ChunkEdit { identity, delta: Some(delta), finish: Some("null".into()), drop_usage: true, ..ChunkEdit::default() };
        out.extend(template.and_then(|data| made(data.clone(), &changes)).unwrap_or_default());
    }
}

/// The last event of a choice whose text and calls were already sent; built from `template`.
fn finish_made(template: Option<Bytes>, finish: Option<&str>, identity: Option<&CompletionIdentity>) -> Option<Bytes> {
    let document = Document::parse(template?).ok()?;
    let own = chunk::choice_of(&document)?.get_some("finish_reason").map(|reason| reason.raw_str().to_owned());
    let ended = own.is_some();
    let finish = finish.map(str::to_owned).or(own).or_else(|| Some("\"stop\"".to_owned()));
    let changes = ChunkEdit { identity, delta: Some("{}".into()), finish, drop_usage: !ended, ..ChunkEdit::default() };
    made(document.bytes().clone(), &changes)
}

/// An event built from an earlier one.
fn made(data: Bytes, changes: &ChunkEdit<'_>) -> Option<Bytes> {
    let document = Document::parse(data).ok()?;
    let event = SseEvent::without_bytes(None, None);
    Some(chunk::write(&event, &document, changes))
}

/// `"tool_calls":[…]` or `"function_call":…` with one complete call.
pub fn call_json(index: usize, slot: &PartialCall, call: &ValidCall, mark: &str) -> String {
    let mut out = String::with_capacity(call.arguments().len() + 160);
    let inner = |out: &mut String, text: &str| {
        out.push_str("{\"name\":");
        quote_into(out, call.name());
        out.push_str(text);
        quote_into(out, call.arguments());
        for extra in &slot.inner_extras {
            out.push(',');
            out.push_str(extra);
        }
        out.push('}');
    };
    if slot.kind == CallKind::Legacy {
        out.push_str("\"function_call\":");
        inner(&mut out, ",\"arguments\":");
        return out;
    }
    out.push_str(&format!("\"tool_calls\":[{{\"index\":{index},\"id\":\"{mark}\",\"type\":"));
    match slot.kind {
        CallKind::Custom => {
            out.push_str("\"custom\",\"custom\":");
            inner(&mut out, ",\"input\":");
        }
        CallKind::Function | CallKind::Legacy => {
            out.push_str("\"function\",\"function\":");
            inner(&mut out, ",\"arguments\":");
        }
    }
    for extra in &slot.extras {
        out.push(',');
        out.push_str(extra);
    }
    out.push_str("}]");
    out
}
