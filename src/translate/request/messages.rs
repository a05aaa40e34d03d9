//! `instructions` and `input` as chat's `messages`.
//!
//! Chat demands that the outputs of an assistant's calls follow it at once; Responses items may stand in nearly
//! any order. So a run of assistant items becomes one [`PendingTurn`], each output finds its call first, and the
//! outputs leave behind their turn, in the order of its calls. Source: docs/wire-facts.md#chat-requests and
//! #responses-requests. Pure.

use std::{
    borrow::Cow,
    collections::{HashMap, VecDeque},
};

use super::{
    content::{AssistantContent, ContentRole, content, said, string},
    tools::kind_of,
};
use crate::{
    translate::{
        answer::writer::{ReasoningSource, source_of_id},
        request::{Untranslatable, push_member},
    },
    wire::json::{Value, string::quote},
};

/// Chat's `messages`, JSON.
///
/// # Errors
/// [`Untranslatable`] for items that chat doesn't have, and for calls without outputs or outputs without calls.
pub(in crate::translate) fn messages(root: Value<'_>) -> Result<String, Untranslatable> {
    let mut history = MessagesBuilder::default();
    if let Some(instructions) = root.get_some("instructions") {
        if !instructions.is_string() {
            return Err(Untranslatable::malformed("instructions", "a string"));
        }
        history.message("system", instructions.raw_str());
    }
    match root.get("input") {
        Some(input) if input.is_string() => history.message("user", input.raw_str()),
        Some(input) if input.is_array() => {
            input.items().enumerate().try_for_each(|(at, item)| history.item(item, &format!("input[{at}]")))?;
        }
        _ => return Err(Untranslatable::malformed("input", "a string or an array")),
    }
    history.write()
}

#[derive(Default)]
struct MessagesBuilder<'d> {
    past: Vec<PendingTurn<'d>>,
    last: PendingTurn<'d>,
    /// Calls without an output so far, by id: index of the turn, and of the call in it.
    waiting: HashMap<Cow<'d, str>, VecDeque<(usize, usize)>>,
}

/// One assistant turn (empty at the start), and the other messages that follow it.
#[derive(Default)]
struct PendingTurn<'d> {
    /// By [`ReasoningSource`]: `reasoning_content`, `reasoning`.
    reasoning: [String; 2],
    /// Each with the number of messages before it.
    texts: Vec<(usize, Value<'d>)>,
    messages: usize,
    refusal: String,
    calls: Vec<PendingCall<'d>>,
    /// An output has arrived since the turn began.
    interrupted: bool,
    /// The messages after the turn, JSON.
    others: Vec<String>,
}

struct PendingCall<'d> {
    id: Cow<'d, str>,
    json: String,
    /// The content of the tool message, JSON.
    output: Option<String>,
}

impl<'d> MessagesBuilder<'d> {
    fn message(&mut self, role: &str, content: &str) {
        self.last.others.push(format!(r#"{{"role":"{role}","content":{content}}}"#));
    }

    fn item(&mut self, item: Value<'d>, param: &str) -> Result<(), Untranslatable> {
        // An easy message says no type.
        let easy = item.is_object() && item.get_some("type").is_none() && item.get("role").is_some();
        let kind = if easy { "message".into() } else { kind_of(item, param)? };
        if let Some(name) = item.duplicate_name().filter(|_| easy) {
            return Err(Untranslatable::new(param, format!("`{param}` says `{name}` twice")));
        }
        match &*kind {
            "message" => self.spoken(item, param),
            "reasoning" => {
                self.reasoned(item);
                Ok(())
            }
            "function_call" => {
                let (name, arguments) = (string(item, "name", param)?, string(item, "arguments", param)?);
                let body = format!(r#"{{"name":{},"arguments":{}}}"#, name.raw_str(), arguments.raw_str());
                self.called(item, "function", &body, param)
            }
            "custom_tool_call" => {
                let (name, input) = (string(item, "name", param)?, string(item, "input", param)?);
                let body = format!(r#"{{"name":{},"input":{}}}"#, name.raw_str(), input.raw_str());
                self.called(item, "custom", &body, param)
            }
            "function_call_output" | "custom_tool_call_output" => self.answered(item, param),
            kind => Err(Untranslatable::uncarried(param, kind)),
        }
    }

    fn spoken(&mut self, item: Value<'d>, param: &str) -> Result<(), Untranslatable> {
        let inner = item.get("content").ok_or_else(|| Untranslatable::malformed(format!("{param}.content"), "a string or an array"))?;
        let inner_param = format!("{param}.content");
        let role = item.get("role").and_then(Value::text);
        match role.as_deref() {
            Some("user") => self.message("user", &content(inner, ContentRole::User, &inner_param)?),
            Some("system" | "developer") => self.message("system", &content(inner, ContentRole::System, &inner_param)?),
            Some("assistant") => {
                let AssistantContent { texts, refusals } = said(inner, &inner_param)?;
                let turn = self.turn(|turn| turn.interrupted && turn.calls.iter().all(|call| call.output.is_some()));
                turn.texts.extend(texts.into_iter().map(|text| (turn.messages, text)));
                turn.messages += 1;
                turn.refusal.extend(refusals.into_iter().filter_map(Value::text));
            }
            role => return Err(Untranslatable::uncarried(format!("{param}.role"), role.unwrap_or("a message without a role"))),
        }
        Ok(())
    }

    /// Adds reasoning to the turn, but only if [`crate::translate::answer::writer`] made it from a chat upstream's reasoning.
    fn reasoned(&mut self, item: Value<'d>) {
        let place = match item.get("id").and_then(Value::text).and_then(|id| source_of_id(&id)) {
            Some(ReasoningSource::ReasoningContent) => 0,
            Some(ReasoningSource::Reasoning) => 1,
            Some(ReasoningSource::Thinking) | None => return,
        };
        let parts = item.get("content").into_iter().flat_map(Value::items);
        let text: String = parts.filter_map(|part| part.get("text").and_then(Value::text)).collect();
        if let Some(reasoning) = self.turn(|turn| turn.interrupted).reasoning.get_mut(place) {
            reasoning.push_str(&text);
        }
    }

    fn called(&mut self, item: Value<'d>, kind: &str, body: &str, param: &str) -> Result<(), Untranslatable> {
        if let Some(namespace) = item.get_some("namespace") {
            return Err(Untranslatable::uncarried(format!("{param}.namespace"), namespace.raw_str()));
        }
        let id = string(item, "call_id", param)?;
        let json = format!(r#"{{"id":{},"type":"{kind}","{kind}":{body}}}"#, id.raw_str());
        let id = id.text().unwrap_or_default();
        let turn = self.turn(|turn| turn.interrupted);
        turn.calls.push(PendingCall { id: id.clone(), json, output: None });
        let place = turn.calls.len() - 1;
        self.waiting.entry(id).or_default().push_back((self.past.len(), place));
        Ok(())
    }

    fn answered(&mut self, item: Value<'d>, param: &str) -> Result<(), Untranslatable> {
        let id = string(item, "call_id", param)?.text().unwrap_or_default();
        let param = format!("{param}.output");
        let output = item.get("output").ok_or_else(|| Untranslatable::malformed(&*param, "a string or an array"))?;
        let output = content(output, ContentRole::Tool, &param)?;
        // Ids may come again in a later turn: the call that has waited longest is meant.
        let found = self.waiting.get_mut(&id).and_then(VecDeque::pop_front);
        let call = found.and_then(|(number, place)| {
            let turn = if number == self.past.len() { &mut self.last } else { self.past.get_mut(number)? };
            turn.calls.get_mut(place)
        });
        let missing = || Untranslatable::new("input", format!("No tool call found for function call output with call_id {id}."));
        call.ok_or_else(missing)?.output = Some(output);
        self.last.interrupted = true;
        Ok(())
    }

    /// The turn that the next item belongs to: the last one, or a new one if that is over.
    fn turn(&mut self, over: impl FnOnce(&PendingTurn<'d>) -> bool) -> &mut PendingTurn<'d> {
        if !self.last.others.is_empty() || over(&self.last) {
            self.past.push(std::mem::take(&mut self.last));
        }
        &mut self.last
    }

    fn write(self) -> Result<String, Untranslatable> {
        let mut messages = Vec::new();
        for turn in self.past.into_iter().chain([self.last]) {
            turn.write(&mut messages)?;
        }
        Ok(format!("[{}]", messages.join(",")))
    }
}

impl PendingTurn<'_> {
    fn write(self, messages: &mut Vec<String>) -> Result<(), Untranslatable> {
        let content = self.content();
        // Thoughts alone are no message.
        if content.is_some() || !self.refusal.is_empty() || !self.calls.is_empty() {
            messages.push(self.message(content.as_deref()));
        }
        for PendingCall { id, output, .. } in &self.calls {
            let missing = || Untranslatable::new("input", format!("No tool output found for function call {id}."));
            let output = output.as_ref().ok_or_else(missing)?;
            messages.push(format!(r#"{{"role":"tool","tool_call_id":{},"content":{output}}}"#, quote(id)));
        }
        messages.extend(self.others);
        Ok(())
    }

    fn message(&self, content: Option<&str>) -> String {
        let mut message = String::from("{\"role\":\"assistant\"");
        push_member(&mut message, "content", content.unwrap_or("null"));
        if !self.refusal.is_empty() {
            push_member(&mut message, "refusal", &quote(&self.refusal));
        }
        for (name, text) in ["reasoning_content", "reasoning"].into_iter().zip(&self.reasoning) {
            if !text.is_empty() {
                push_member(&mut message, name, &quote(text));
            }
        }
        if !self.calls.is_empty() {
            let calls: Vec<&str> = self.calls.iter().map(|call| &*call.json).collect();
            push_member(&mut message, "tool_calls", &format!("[{}]", calls.join(",")));
        }
        message.push('}');
        message
    }

    /// The content as one string: many chat upstreams accept nothing else from an assistant.
    fn content(&self) -> Option<String> {
        if let [(_, text)] = &self.texts[..] {
            return Some(text.raw_str().to_owned());
        }
        let mut joined = String::new();
        let mut before = self.texts.first()?.0;
        for (message, text) in &self.texts {
            if *message != before {
                joined.push_str("\n\n");
            }
            before = *message;
            joined.push_str(&text.text().unwrap_or_default());
        }
        Some(quote(&joined))
    }
}
