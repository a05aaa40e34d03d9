//! A buffered chat answer: read once, judged choice by choice, and written by splices.
//!
//! Source: OpenAI API reference, "The chat completion object"; docs/wire-facts.md#odd-answers-to-accept. Pure.

use std::ops::Range;

use bytes::Bytes;

use super::places;
use crate::{
    chat::{
        assembler::{AssembleError, Assembler, PartialCall},
        promotion,
        stream::chunk::{finish_of, fitting_finish},
    },
    exchange::context::WordsMember,
    exchange::{
        adapter::{WholeAnswer, Written},
        context::{AnswerNature, Context, JudgedChoice},
        decision::ChoiceOutcome,
        error::Fault,
        loop_guard::AttemptInputs,
        text::{
            annotations,
            place::{PartOrder, TextPlace, is_ambiguous, is_nothing, strings_of},
            places::stray,
        },
        turn::Said,
    },
    judge::call::turn::FinishReason,
    judge::{
        call::{CallKind, ValidCall},
        text::TextGate,
    },
    openai::{error::is_base_error, usage},
    violation::{Code, Severity},
    wire::json::{Document, Value, splice::Splices, string::quote},
};

/// One choice of a buffered answer.
struct CompletionChoice {
    assembler: Assembler,
    texts: Vec<TextPlace>,
    /// Text of the choice.
    text: String,
    /// Reasoning of the choice.
    reasoning: String,
    finish_reason: Option<String>,
    answer: AnswerNature,
}

impl CompletionChoice {
    fn slots(&self) -> &[PartialCall] {
        self.assembler.slots()
    }
}

/// A buffered answer.
pub struct ChatCompletion {
    /// The upstream's bytes.
    came: Bytes,
    document: Document,
    /// The choices, in order.
    choices: Vec<CompletionChoice>,
    /// Tools of calls that were promoted from text.
    promoted: Vec<String>,
    /// Text outside the answer was left out.
    stray: bool,
}

impl WholeAnswer for ChatCompletion {
    fn read(body: Bytes, context: &Context) -> Result<Self, Fault> {
        let came = body.clone();
        let document = Document::parse(body)?;
        let (document, stray) = places::swept(document, context)?;
        let (document, promoted) = promotion::whole(&document, context).unwrap_or_else(|| (document.clone(), Vec::new()));
        let root = document.root();
        if root.is_array() || !root.is_object() {
            let reported = root.items().next().is_some_and(|first| first.get("error").is_some());
            return Err(if reported { Fault::Reported(root.raw_str().to_owned()) } else { Fault::Unknown("no JSON object") });
        }
        if is_ambiguous(root) {
            return Err(Fault::Unknown("two members of one name"));
        }
        let error = root.get_some("error").is_some_and(|error| !error.is_text(""));
        let flat = root.get("choices").is_none() && root.get("message").is_some();
        if error || flat || is_base_error(root) {
            return Err(Fault::Reported(root.raw_str().to_owned()));
        }
        let choices = root.get("choices").filter(|choices| choices.is_array()).ok_or(Fault::Unknown("no `choices`"))?;
        // There is nothing of which the violation could be said, or that could be asked for again.
        if choices.items().next().is_none() && context.rules.checks.severity(Code::EmptyAnswer) == Severity::Block && !context.observes() {
            return Err(Fault::Unknown("no choice"));
        }
        let choices = choices.items().map(|choice| read_choice(choice, context)).collect::<Result<_, _>>()?;
        Ok(Self { came, document, choices, promoted, stray })
    }

    fn judge(&self, context: &Context, inputs: AttemptInputs) -> Vec<JudgedChoice> {
        let judge = |choice: &CompletionChoice| {
            let calls: Vec<_> = choice.slots().iter().map(PartialCall::call).collect();
            let gates: Vec<&TextGate> = choice.texts.iter().map(|place| &place.gate).collect();
            context.judge_choice(&calls, &gates, choice.answer, inputs)
        };
        let mut judged: Vec<JudgedChoice> = self.choices.iter().map(judge).collect();
        let notes = crate::exchange::promotion::notes(&self.promoted, context);
        if let Some(first) = judged.first_mut() {
            first.turn.violations.extend(notes);
            first.turn.violations.extend(self.stray.then(|| stray(context)).flatten());
        }
        judged
    }

    fn said(&self, choice: usize) -> Said {
        let Some(choice) = self.choices.get(choice) else { return Said::default() };
        let calls = choice.slots().iter().map(|slot| (slot.call(), slot.extras.clone())).collect();
        Said { text: choice.text.clone(), reasoning: choice.reasoning.clone(), calls, ..Said::default() }
    }

    fn usage(&self) -> Option<Value<'_>> {
        self.document.root().get_some("usage")
    }

    fn write(&self, finals: Vec<ChoiceOutcome>, context: &Context, earlier: Option<serde_json::Value>, verdict: Option<&str>) -> Written {
        let root = self.document.root();
        let mut edits = Splices::default();
        if context.observes() {
            return Written { body: self.came.clone(), memo: None };
        }
        let values = root.get("choices").into_iter().flat_map(Value::items);
        for ((value, choice), ending) in values.zip(&self.choices).zip(finals) {
            match ending {
                ChoiceOutcome::Accept(calls) => accept(&mut edits, value, choice, &calls, context),
                ChoiceOutcome::Replace(text) => say(&mut edits, value, &text, context.words_member()),
                ChoiceOutcome::ReplaceByCall(call) => {
                    say_as_call(&mut edits, value, &call.0, &context.mint(call.0.name(), call.0.arguments(), call.1))
                }
            }
        }
        if let Some(mut sum) = earlier {
            if let Some(own) = root.get_some("usage") {
                usage::merge(&mut sum, own.raw_str());
            }
            edits.set_member(root, "usage", &sum.to_string());
        }
        match verdict {
            Some(verdict) => edits.set_member(root, "toolmark", verdict),
            // Whatever the upstream says there isn't toolmark's.
            None => edits.remove_members(root, |name| name == "toolmark"),
        }
        Written { body: edits.apply(self.document.bytes()), memo: None }
    }
}

fn read_choice(choice: Value<'_>, context: &Context) -> Result<CompletionChoice, Fault> {
    if !choice.is_object() || is_ambiguous(choice) {
        return Err(Fault::Unknown("a choice that is no object, or has two members of one name"));
    }
    let finish_reason = finish_of(choice);
    // Azure leaves out a message that it filtered.
    let cut = matches!(finish_reason.as_deref(), Some("content_filter" | "length"));
    let message = choice.get_some("message").filter(|message| message.is_object());
    if message.is_none() && !(cut && choice.get("message").is_none_or(Value::is_null)) {
        return Err(Fault::Unknown("a choice without a message"));
    }
    if message.is_some_and(is_ambiguous) {
        return Err(Fault::Unknown("a message with two members of one name"));
    }
    let mut read = CompletionChoice {
        assembler: Assembler::new(usize::MAX),
        texts: Vec::new(),
        text: String::new(),
        reasoning: String::new(),
        finish_reason,
        answer: AnswerNature::default(),
    };
    let (mut has_text, mut refused, mut audio) = (false, false, false);
    for member in message.into_iter().flat_map(Value::members) {
        let value = member.value;
        match &*member.name() {
            "content" => has_text = read.take_text(value, context)?,
            "refusal" => refused = read.take_text(value, context)?,
            "audio" if !value.is_null() => {
                if is_ambiguous(value) {
                    return Err(AssembleError::Text.into());
                }
                audio = true;
                if let Some(transcript) = value.get("transcript") {
                    read.take_text(transcript, context)?;
                }
            }
            "tool_calls" => read.assembler.handle_whole(value)?,
            "function_call" if !is_nothing(value) => read.assembler.handle_legacy(value)?,
            "images" => audio |= !is_nothing(value),
            "function_call" | "audio" => {}
            "reasoning_content" => read.reasoning = value.text().unwrap_or_default().into_owned(),
            _ => {}
        }
    }
    let ending = read.finish_reason.as_deref().map_or(FinishReason::Complete, FinishReason::of_finish);
    read.answer = AnswerNature { has_text, has_audio: audio, ending, ..AnswerNature::default() };
    if refused {
        read.answer = read.answer.refused();
    }
    Ok(read)
}

impl CompletionChoice {
    /// Feeds a text through its gate; true if there is any.
    fn take_text(&mut self, value: Value<'_>, context: &Context) -> Result<bool, AssembleError> {
        PartOrder::default().note(value)?;
        let Some(place) = TextPlace::read(strings_of(value)?, context) else { return Ok(false) };
        self.text.push_str(&place.text);
        self.texts.push(place);
        Ok(true)
    }
}

fn accept(
    edits: &mut Splices,
    value: Value<'_>,
    choice: &CompletionChoice,
    calls: &[(ValidCall, crate::marks::MarkTime)],
    context: &Context,
) {
    let Some(message) = value.get("message") else { return };
    let elements = message.get("tool_calls").into_iter().flat_map(Value::items);
    // Both forms in one answer were refused.
    let legacy = choice.slots().first().is_some_and(|slot| slot.kind == CallKind::Legacy);
    // What toolmark runs never leaves.
    let hidden = |at: usize| calls.get(at).is_some_and(|(call, _)| context.tools().runs(call.name()).is_some());
    if let Some(array) = message.get("tool_calls").filter(|_| (0..calls.len()).any(hidden)) {
        edits.remove_items(array, hidden);
    }
    for (at, (element, (slot, (call, moment)))) in elements.zip(choice.slots().iter().zip(calls)).enumerate() {
        if hidden(at) {
            continue;
        }
        let mark = context.mint(call.name(), call.arguments(), *moment);
        edits.set_member(element, "id", &quote(&mark));
        let (kind, inner) = if slot.kind == CallKind::Custom { ("custom", "input") } else { ("function", "arguments") };
        if !element.get("type").is_some_and(|own| own.is_text(kind)) {
            edits.set_member(element, "type", &quote(kind));
        }
        match element.get_some(kind) {
            Some(body) => write_arguments(edits, body, inner, call),
            None => edits
                .append_member(element, &format!(r#""{kind}":{{"name":{},"{inner}":{}}}"#, quote(call.name()), quote(call.arguments()))),
        }
    }
    if let (true, Some(body), Some((call, _))) = (legacy, message.get_some("function_call"), calls.last()) {
        write_arguments(edits, body, "arguments", call);
    }
    let own = choice.finish_reason.as_deref();
    if let Some(finish) = fitting_finish(own, calls.len(), if legacy { CallKind::Legacy } else { CallKind::Function }) {
        edits.set_member(value, "finish_reason", finish);
    } else if let Some(own) = own.filter(|_| value.get("finish_reason").is_none_or(is_nothing)) {
        // It was said elsewhere.
        edits.set_member(value, "finish_reason", &quote(own));
    }
    let mut changed = false;
    for place in &choice.texts {
        let removals: Vec<Range<usize>> = place.gate.removals().collect();
        for (part, text) in place.parts.iter().filter_map(|part| Some((part, place.changed(part, &removals)?))) {
            edits.replace(part.span.clone(), quote(&text));
            changed = true;
        }
        let content = message.get("content").map(|content| content.span());
        if place.parts.iter().any(|part| content.as_ref() == Some(&part.span)) {
            annotations::shift(edits, message, &place.text, &removals);
        }
    }
    if let Some(logprobs) = value.get_some("logprobs").filter(|_| changed) {
        // They spell out what was taken away.
        edits.replace(logprobs.span(), "null");
    }
}

fn write_arguments(edits: &mut Splices, body: Value<'_>, name: &str, call: &ValidCall) {
    if call.renamed() {
        edits.set_member(body, "name", &quote(call.name()));
    }
    let unchanged = body.get(name).and_then(Value::text).is_some_and(|text| text == call.arguments());
    if !unchanged {
        edits.set_member(body, name, &quote(call.arguments()));
    }
}

fn say_as_call(edits: &mut Splices, value: Value<'_>, call: &ValidCall, mark: &str) {
    let function = format!(r#"{{"name":{},"arguments":{}}}"#, quote(call.name()), quote(call.arguments()));
    let calls = format!(r#"[{{"id":{},"type":"function","function":{function}}}]"#, quote(mark));
    edits.set_member(value, "message", &format!(r#"{{"role":"assistant","content":null,"refusal":null,"tool_calls":{calls}}}"#));
    edits.set_member(value, "finish_reason", "\"tool_calls\"");
    if let Some(logprobs) = value.get_some("logprobs") {
        edits.replace(logprobs.span(), "null");
    }
}

fn say(edits: &mut Splices, value: Value<'_>, text: &str, member: WordsMember) {
    let quoted = quote(text);
    let (content, refusal) = match member {
        WordsMember::Content => (&*quoted, "null"),
        WordsMember::Refusal => ("null", &*quoted),
    };
    edits.set_member(value, "message", &format!(r#"{{"role":"assistant","content":{content},"refusal":{refusal}}}"#));
    edits.set_member(value, "finish_reason", "\"stop\"");
    if let Some(logprobs) = value.get_some("logprobs") {
        edits.replace(logprobs.span(), "null");
    }
}
