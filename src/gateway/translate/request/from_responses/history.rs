//! `instructions` and `input` of a Responses request as turns.
//!
//! Chat and Messages demand that the outputs of an assistant's calls follow it at once; Responses items may stand in nearly
//! any order. So a run of assistant items becomes one [`PendingTurn`], and each output finds its call first.
//! Source: docs/wire-facts.md#chat-requests and #responses-requests. Pure.

use std::{
    borrow::Cow,
    collections::{HashMap, VecDeque},
};

use super::content::{AssistantContent, ContentRole, content, said};
use crate::{
    translate::{
        answer::{ReasoningSource, to_responses::source_of_id},
        request::{
            Untranslatable,
            form::{AssistantHistory, CalledInput, CalledTool, HistoryTurn, ToolEnding, ToolOutput, TurnContent},
            kind_of, string,
        },
    },
    wire::json::Value,
};

/// Reads the turns.
///
/// # Errors
/// [`Untranslatable`] for items that chat doesn't have, and for calls without outputs or outputs without calls.
pub(super) fn turns(root: Value<'_>) -> Result<Vec<HistoryTurn<'_>>, Untranslatable> {
    let mut history = HistoryBuilder::default();
    if let Some(instructions) = root.get_some("instructions") {
        if !instructions.is_string() {
            return Err(Untranslatable::malformed("instructions", "a string"));
        }
        history.last.others.push(HistoryTurn::System(TurnContent::Plain(instructions.raw_str().into())));
    }
    match root.get("input") {
        Some(input) if input.is_string() => history.last.others.push(HistoryTurn::User(TurnContent::Plain(input.raw_str().into()))),
        Some(input) if input.is_array() => {
            input.items().enumerate().try_for_each(|(at, item)| history.item(item, &format!("input[{at}]")))?;
        }
        _ => return Err(Untranslatable::malformed("input", "a string or an array")),
    }
    history.turns()
}

#[derive(Default)]
struct HistoryBuilder<'d> {
    past: Vec<PendingTurn<'d>>,
    last: PendingTurn<'d>,
    /// Calls without an output so far, by id: index of the turn, and of the call in it.
    waiting: HashMap<Cow<'d, str>, VecDeque<(usize, usize)>>,
}

/// One assistant turn (empty at the start), and the other turns that follow it.
#[derive(Default)]
struct PendingTurn<'d> {
    said: AssistantHistory<'d>,
    messages: usize,
    /// An output has arrived since the turn began.
    interrupted: bool,
    others: Vec<HistoryTurn<'d>>,
}

impl<'d> HistoryBuilder<'d> {
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
                self.called(item, name, CalledInput::Arguments(arguments.raw_str().into()), param)
            }
            "custom_tool_call" => {
                let (name, input) = (string(item, "name", param)?, string(item, "input", param)?);
                self.called(item, name, CalledInput::Custom(input.raw_str().into()), param)
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
            Some("user") => self.last.others.push(HistoryTurn::User(content(inner, ContentRole::User, &inner_param)?)),
            Some("system" | "developer") => {
                self.last.others.push(HistoryTurn::System(content(inner, ContentRole::System, &inner_param)?));
            }
            Some("assistant") => {
                let AssistantContent { texts, refusals } = said(inner, &inner_param)?;
                let turn = self.turn(|turn| turn.interrupted && turn.said.calls.iter().all(|call| call.output.is_some()));
                turn.said.texts.extend(texts.into_iter().map(|text| (turn.messages, text.raw_str().into())));
                turn.messages += 1;
                turn.said.refusal.extend(refusals.into_iter().filter_map(Value::text));
            }
            role => return Err(Untranslatable::uncarried(format!("{param}.role"), role.unwrap_or("a message without a role"))),
        }
        Ok(())
    }

    /// Adds reasoning to the turn, but only if [`crate::translate::answer::to_responses`] made it from a chat upstream's reasoning.
    fn reasoned(&mut self, item: Value<'d>) {
        let place = match item.get("id").and_then(Value::text).and_then(|id| source_of_id(&id)) {
            Some(ReasoningSource::ReasoningContent) => 0,
            Some(ReasoningSource::Reasoning) => 1,
            Some(ReasoningSource::Thinking) | None => return,
        };
        let parts = item.get("content").into_iter().flat_map(Value::items);
        let text: String = parts.filter_map(|part| part.get("text").and_then(Value::text)).collect();
        if let Some(reasoning) = self.turn(|turn| turn.interrupted).said.reasoning.get_mut(place) {
            reasoning.push_str(&text);
        }
    }

    fn called(&mut self, item: Value<'d>, name: Value<'d>, input: CalledInput<'d>, param: &str) -> Result<(), Untranslatable> {
        if let Some(namespace) = item.get_some("namespace") {
            return Err(Untranslatable::uncarried(format!("{param}.namespace"), namespace.raw_str()));
        }
        let id = string(item, "call_id", param)?.text().unwrap_or_default();
        let turn = self.turn(|turn| turn.interrupted);
        turn.said.calls.push(CalledTool { id: id.clone(), name: name.text().unwrap_or_default(), input, output: None });
        let place = turn.said.calls.len() - 1;
        self.waiting.entry(id).or_default().push_back((self.past.len(), place));
        Ok(())
    }

    fn answered(&mut self, item: Value<'d>, param: &str) -> Result<(), Untranslatable> {
        let id = string(item, "call_id", param)?.text().unwrap_or_default();
        let param = format!("{param}.output");
        let output = item.get("output").ok_or_else(|| Untranslatable::malformed(&*param, "a string or an array"))?;
        let output = ToolOutput { content: content(output, ContentRole::Tool, &param)?, ended: ToolEnding::Unsaid };
        // Ids may come again in a later turn: the call that has waited longest is meant.
        let found = self.waiting.get_mut(&id).and_then(VecDeque::pop_front);
        let call = found.and_then(|(number, place)| {
            let turn = if number == self.past.len() { &mut self.last } else { self.past.get_mut(number)? };
            turn.said.calls.get_mut(place)
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

    fn turns(self) -> Result<Vec<HistoryTurn<'d>>, Untranslatable> {
        let mut turns = Vec::new();
        for PendingTurn { said, others, .. } in self.past.into_iter().chain([self.last]) {
            if let Some(call) = said.calls.iter().find(|call| call.output.is_none()) {
                return Err(Untranslatable::new("input", format!("No tool output found for function call {}.", call.id)));
            }
            // Thoughts alone are no turn.
            if !said.is_empty() {
                turns.push(HistoryTurn::Assistant(said));
            }
            turns.extend(others);
        }
        Ok(turns)
    }
}
