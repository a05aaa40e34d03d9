//! A buffered response: read once, judged as one choice, and written by splices.
//!
//! Source: OpenAI API reference, "The response object"; docs/wire-facts.md#responses-answers. Pure.

pub mod read;
pub(super) mod write;

use std::sync::OnceLock;

use bytes::Bytes;

use super::places;
use crate::{
    exchange::{
        adapter::{WholeAnswer, Written},
        context::{AnswerNature, Context, JudgedChoice},
        conversation::{Left, Owed},
        decision::ChoiceOutcome,
        error::Fault,
        loop_guard::AttemptInputs,
        text::{place::TextPlace, places::stray},
        turn::{Said, SaidItem},
    },
    judge::{call::Call, text::TextGate},
    openai::usage,
    responses::{
        conversation_update,
        output_items::{ItemKind, OutputCall},
        promotion, synthetic,
    },
    wire::json::{Document, Value, splice::Splices, string::quote},
};

/// A buffered response.
pub struct BufferedResponse {
    /// The upstream's bytes.
    came: Bytes,
    document: Document,
    /// Kinds of its output items, in order.
    kinds: Vec<ItemKind>,
    /// Its calls, in order.
    slots: Vec<OutputCall>,
    /// Its calls in the terms common to all APIs.
    calls: Vec<Call>,
    /// Joined text of all its messages.
    text: Option<TextPlace>,
    /// Joined refusals of all its messages.
    refusal: Option<TextPlace>,
    /// Other readings of the texts, in which they claim more than joined.
    others: Vec<TextPlace>,
    nature: AnswerNature,
    /// Tools of calls that were promoted from text.
    promoted: Vec<String>,
    /// Text outside the answer was left out.
    stray: bool,
    /// Outputs to send to the model for its calls, should they not be passed on. INVARIANT: filled by [`Self::judge`],
    /// which is called once, before [`Self::write`].
    owed: OnceLock<Vec<Owed>>,
}

impl WholeAnswer for BufferedResponse {
    fn read(body: Bytes, context: &Context) -> Result<Self, Fault> {
        let came = body.clone();
        let document = Document::parse(body)?;
        context.learn_tools(document.root());
        let (document, stray) = places::swept(document, context)?;
        let (document, promoted) = promotion::whole(&document, context).unwrap_or_else(|| (document.clone(), Vec::new()));
        let read = read::read(document.root(), context)?;
        let read::ParsedResponse { kinds, slots, calls, text, refusal, others, nature } = read;
        Ok(Self { came, document, kinds, slots, calls, text, refusal, others, nature, promoted, stray, owed: OnceLock::new() })
    }

    fn judge(&self, context: &Context, inputs: AttemptInputs) -> Vec<JudgedChoice> {
        let gates: Vec<&TextGate> = self.texts().chain(&self.others).map(|place| &place.gate).collect();
        let mut judged = context.judge_choice(&self.calls, &gates, self.nature, inputs);
        judged.turn.violations.extend(crate::exchange::promotion::notes(&self.promoted, context));
        judged.turn.violations.extend(self.stray.then(|| stray(context)).flatten());
        self.owed.get_or_init(|| conversation_update::owed(context, &judged, &self.calls, &self.slots));
        vec![judged]
    }

    fn note_stray(&mut self) {
        self.stray = true;
    }

    fn said(&self, choice: usize) -> Said {
        if choice > 0 {
            return Said::default();
        }
        let text = self.texts().map(|place| &*place.text).collect();
        let calls = self.calls.iter().map(|call| (call.clone(), Vec::new())).collect();
        let mut places = 0..self.slots.len();
        let item = |(item, kind): (Value<'_>, &ItemKind)| match kind {
            ItemKind::Call(_) => {
                let at = places.next().unwrap_or_default();
                let raw = self.slots.get(at).filter(|_| read::is_built_in(item)).map(echoed);
                SaidItem::Call(at, raw.unwrap_or_else(|| item.raw_str().to_owned()))
            }
            ItemKind::Message | ItemKind::Reasoning | ItemKind::Hosted | ItemKind::Other => SaidItem::Raw(item.raw_str().to_owned()),
        };
        let items = self.items().zip(&self.kinds).map(item).collect();
        Said { text, calls, items, ..Said::default() }
    }

    fn usage(&self) -> Option<Value<'_>> {
        self.document.root().get_some("usage")
    }

    fn write(&self, finals: Vec<ChoiceOutcome>, context: &Context, earlier: Option<serde_json::Value>, verdict: Option<&str>) -> Written {
        if context.observes() {
            return Written { body: self.came.clone(), memo: None };
        }
        let (root, mut edits) = (self.document.root(), Splices::default());
        let text = |value: Option<Value<'_>>| value.and_then(Value::text).map(|text| text.into_owned());
        let id = text(root.get("id"));
        let conversation = root.get("conversation").and_then(|own| text(own.get("id").or(Some(own))));
        let remember =
            |calls: &[_], owed, items| conversation_update::remember(context, id.as_deref(), conversation.as_deref(), calls, owed, items);
        // Without a word about it nothing of the answer leaves.
        let ending = finals.into_iter().next().unwrap_or_else(|| ChoiceOutcome::Replace(String::new()));
        let memo = match ending {
            ChoiceOutcome::Accept(calls) => remember(&self.accept(&mut edits, &calls, context), Vec::new(), Vec::new()),
            ChoiceOutcome::Replace(said) => {
                self.say(&mut edits, &said, context);
                let ids: Vec<String> = self.items().filter_map(|item| text(item.get("id"))).collect();
                let items = conversation_update::replaced(ids.iter().map(String::as_str), &synthetic::item_id(context), &said);
                remember(&[], self.owed.get().cloned().unwrap_or_default(), items)
            }
            // INVARIANT: only where the upstream keeps nothing, so there is nothing to be remembered.
            ChoiceOutcome::ReplaceByCall(call) => {
                let mark = context.mint(call.0.name(), call.0.arguments(), call.1);
                self.replace(&mut edits, &synthetic::call_item(&call.0, call.0.arguments(), &mark, "completed", context), "");
                remember(&[], self.owed.get().cloned().unwrap_or_default(), Vec::new())
            }
        };
        if let Some(mut sum) = earlier {
            if let Some(own) = self.usage().map(Value::raw_str) {
                usage::merge(&mut sum, own);
            }
            edits.set_member(root, "usage", &sum.to_string());
        }
        match verdict {
            Some(verdict) => edits.set_member(root, "toolmark", verdict),
            // Whatever the upstream says there isn't toolmark's.
            None => edits.remove_members(root, |name| name == "toolmark"),
        }
        let body = edits.apply(self.document.bytes());
        let running = root.get("status").is_some_and(|status| status.is_text("queued") || status.is_text("in_progress"));
        let memo = conversation_update::with_left(memo, || if running { Left::Nothing } else { Left::Whole(body.clone()) });
        Written { body, memo: conversation_update::worth_keeping(memo) }
    }
}

impl BufferedResponse {
    fn items(&self) -> impl Iterator<Item = Value<'_>> {
        self.document.root().get("output").into_iter().flat_map(Value::items)
    }

    fn texts(&self) -> impl Iterator<Item = &TextPlace> {
        self.text.iter().chain(&self.refusal)
    }
}

/// A call of a built-in tool that wasn't offered, as a function call, so that the model can get a result for it.
fn echoed(slot: &OutputCall) -> String {
    let (id, name) = (quote(&slot.call_id), quote(&slot.name));
    format!(r#"{{"type":"function_call","call_id":{id},"name":{name},"arguments":"{{}}"}}"#)
}

#[cfg(test)]
mod tests;
