//! Promotes calls written as text in a chat answer, before anything else reads the answer. Pure.
//!
//! A stream is held from its first character of text, as long as the text may become calls; none of a call's text is
//! passed on.

use crate::{
    chat::stream::chunk::{self, choice_of},
    claims::text_input::TextInput,
    exchange::{
        context::Context,
        promotion::{self, Held, Passed, Promoted, Promotion, made},
        text::place::is_nothing,
    },
    judge::call::turn::FinishReason,
    wire::{
        json::{Document, Value, splice::Splices, string::quote},
        sse::SseEvent,
    },
};

/// The answer with its text promoted to calls, and the names of their tools; `None` if it is unchanged.
pub fn whole(document: &Document, context: &Context) -> Option<(Document, Vec<String>)> {
    if !promotion::allowed(context) {
        return None;
    }
    let mut choices = document.root().get("choices")?.items();
    let (choice, None) = (choices.next()?, choices.next()) else { return None };
    let message = choice.get("message")?;
    let content = message.get("content").filter(|content| content.is_string())?;
    if says_more(message) || is_cut(choice) {
        return None;
    }
    let Promotion::Calls(calls) = promotion::calls(&content.text()?, context, TextInput::Complete) else { return None };
    let mut edits = Splices::default();
    edits.replace(content.span(), "null");
    edits.set_member(message, "tool_calls", &elements(&calls, |_| String::new()));
    edits.set_member(choice, "finish_reason", "\"tool_calls\"");
    if let Some(logprobs) = choice.get_some("logprobs") {
        edits.replace(logprobs.span(), "null");
    }
    let document = Document::parse(edits.apply(document.bytes())).ok()?;
    Some((document, calls.into_iter().map(|call| call.tool).collect()))
}

/// True if there is a call, a refusal or audio beside the text.
fn says_more(message: Value<'_>) -> bool {
    let names = ["tool_calls", "function_call", "refusal", "audio"];
    names.iter().any(|name| message.get(name).is_some_and(|value| !is_nothing(value)))
}

/// True if the answer was truncated.
fn is_cut(choice: Value<'_>) -> bool {
    choice.get_some("finish_reason").and_then(Value::text).is_some_and(|reason| FinishReason::of_finish(&reason) != FinishReason::Complete)
}

/// The calls as an array; `index`: first member of each element, as the elements of chunks have one.
fn elements(calls: &[Promoted], index: impl Fn(usize) -> String) -> String {
    let element = |(at, call): (usize, &Promoted)| {
        let index = index(at);
        let function = format!(r#"{{"name":{},"arguments":{}}}"#, quote(&call.tool), quote(&call.arguments));
        format!(r#"{{{index}"id":"call_{at}","type":"function","function":{function}}}"#)
    };
    format!("[{}]", calls.iter().enumerate().map(element).collect::<Vec<_>>().join(","))
}

/// Stage in front of a streamed answer's judge that promotes calls.
pub struct ChatPromoter {
    /// Held events.
    pub held: Held,
}

impl ChatPromoter {
    /// Starts an attempt.
    pub fn new(context: &Context) -> Self {
        Self { held: Held::for_attempt(context) }
    }

    /// Handles an event; returns the events to forward.
    pub fn take(&mut self, event: SseEvent, document: Document, context: &Context) -> Passed {
        if !self.held.is_open() {
            return vec![(event, document)];
        }
        let choice = choice_of(&document);
        let delta = choice.and_then(chunk::delta_of);
        let several = document.root().get("choices").is_some_and(|choices| choices.items().nth(1).is_some());
        let content = delta.and_then(|delta| delta.get_some("content"));
        // An error, or what else has no place for choices, waits for nothing.
        let apart = document.root().get("choices").is_none();
        let odd = apart || several || delta.is_some_and(says_more) || content.is_some_and(|content| !content.is_string());
        let piece = content.and_then(Value::text).unwrap_or_default().into_owned();
        let finish = choice.and_then(|choice| choice.get_some("finish_reason")).is_some();
        let cut = choice.is_some_and(is_cut);
        if self.held.text.is_empty() && piece.is_empty() && (!odd || apart) && !finish {
            return vec![(event, document)];
        }
        self.held.text.push(&piece);
        if !self.held.hold(event, document, context) || odd || cut {
            return self.held.release();
        }
        let input = if finish { TextInput::Complete } else { TextInput::Partial };
        match (self.held.text.read(context, input), finish) {
            (Promotion::Calls(calls), true) => self.promote(&calls),
            (Promotion::More, false) => Vec::new(),
            (Promotion::Calls(_), false) | (Promotion::More | Promotion::Text, _) => self.held.release(),
        }
    }

    /// Ends a stream that has no `finish_reason`; returns the events to forward.
    pub fn finish(&mut self, context: &Context) -> Passed {
        if self.held.events.is_empty() {
            return Vec::new();
        }
        match self.held.text.read(context, TextInput::Complete) {
            Promotion::Calls(calls) => self.promote(&calls),
            Promotion::More | Promotion::Text => self.held.release(),
        }
    }

    /// Puts the calls in place of the text; the other members of the events are kept.
    fn promote(&mut self, calls: &[Promoted]) -> Passed {
        self.held.tools = calls.iter().map(|call| call.tool.clone()).collect();
        let mut first = Some(elements(calls, |at| format!("\"index\":{at},")));
        let mut passed = Vec::new();
        for (event, document) in self.held.release() {
            let Some(choice) = choice_of(&document) else {
                passed.push((event, document));
                continue;
            };
            let mut edits = Splices::default();
            if let Some(logprobs) = choice.get_some("logprobs") {
                edits.replace(logprobs.span(), "null");
            }
            if let Some(delta) = chunk::delta_of(choice).filter(|delta| delta.get_some("content").is_some()) {
                edits.set_member(delta, "content", "null");
                if let Some(calls) = first.take() {
                    edits.set_member(delta, "tool_calls", &calls);
                }
            }
            if let Some(finish) = choice.get_some("finish_reason") {
                edits.replace(finish.span(), "\"tool_calls\"");
            }
            passed.extend(made(&event, edits.apply(document.bytes())));
        }
        passed
    }
}
