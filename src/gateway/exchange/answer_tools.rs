//! Answers that are given through a tool: `[tools] answers`. Pure.
//!
//! A framework that demands a call for every turn has a tool for the answer itself (`final_answer`, `submit`), and shows its
//! text to people. That text is judged and cleaned like any other: claims, forged ids, blocks, and verified citations,
//! which are taken out. Where a call is demanded and none can be passed on, the safe reply is given through such a tool.

use super::context::Context;
use crate::{
    exchange::text::place::TextPlace,
    judge::call::{
        Arguments, Call, CallKind, CallVerdict, Truncation, ValidCall, judge_call,
        turn::{ToolChoice, TurnVerdict},
    },
    tools::registry::Tool,
    violation::Violation,
    wire::json::{Document, Value, splice::Splices, string::quote},
};

/// Result of judging the answers that a turn gives through calls.
#[derive(Default)]
pub(super) struct Answered {
    /// Verified execution IDs that the answers cite.
    pub citations: Vec<String>,
    /// True if one of the answers must not be passed on.
    pub blocked: bool,
}

/// True if there are calls and each is a call of an answer tool.
pub(super) fn are_answers(context: &Context, calls: &[Call]) -> bool {
    !calls.is_empty() && calls.iter().all(|call| !context.tools().answer_parameters(&call.name).is_empty())
}

/// Judges the texts of answer calls, and removes from them what is removed from any text (such as verified
/// citations).
pub(super) fn judge(context: &Context, calls: &[Call], turn: &mut TurnVerdict) -> Answered {
    let mut answered = Answered::default();
    for (call, judged) in calls.iter().zip(&mut turn.calls) {
        let CallVerdict::Accept(valid) = &judged.outcome else { continue };
        let parameters = context.tools().answer_parameters(valid.name());
        let Some(document) = (!parameters.is_empty()).then(|| document_of(valid.arguments())).flatten() else { continue };
        let (mut edits, mut found) = (Splices::default(), Vec::new());
        for text in parameters.iter().filter_map(|name| document.root().get(name)).filter(|text| text.is_string()) {
            judge_answer(context, text, &mut edits, &mut found, &mut answered);
        }
        context.excuse_marks(&mut found);
        found.retain(|violation| judged.violations.iter().all(|own| own.code != violation.code));
        let blocks = found.iter().any(Violation::blocks);
        judged.violations.extend(found);
        if blocks {
            answered.blocked = true;
            judged.outcome = CallVerdict::Reject;
        } else if !edits.is_empty()
            && let Some(cleaned) = rejudged(context, call, &edits.apply(document.bytes()))
        {
            judged.outcome = CallVerdict::Accept(cleaned);
        }
    }
    answered
}

fn judge_answer(context: &Context, text: Value<'_>, edits: &mut Splices, found: &mut Vec<Violation>, answered: &mut Answered) {
    let Some(place) = TextPlace::read_as_prose([text], context) else { return };
    found.extend(place.gate.violations().iter().cloned());
    answered.citations.extend(place.gate.citations().iter().cloned());
    let removals: Vec<_> = place.gate.removals().collect();
    for part in &place.parts {
        if let Some(changed) = place.changed(part, &removals) {
            edits.replace(part.span.clone(), quote(&changed));
        }
    }
}

/// The call with new arguments; `None` if it isn't valid with them.
fn rejudged(context: &Context, call: &Call, arguments: &[u8]) -> Option<ValidCall> {
    let arguments = String::from_utf8(arguments.to_vec()).ok()?;
    let call = Call { arguments: Arguments::Text(arguments), ..call.clone() };
    match judge_call(&call, &context.tools().registry, &context.call_rules, Truncation::Whole, &|_: &str| None).outcome {
        CallVerdict::Accept(valid) => Some(valid.into_corrected()),
        CallVerdict::Reject => None,
    }
}

/// A call of an answer tool that carries `words`, for requests that demand a call. `None` if no such tool exists,
/// or if it requires more arguments than the text: nothing else is made up.
pub fn words_as_call(context: &Context, words: &str) -> Option<ValidCall> {
    let kept = context.hidden.store || context.hidden.conversation.is_some();
    if !context.turn.tool_choice.demands() || context.observes() || kept || context.choices > 1 {
        return None;
    }
    let allowed = |tool: &&Tool| match &context.turn.tool_choice {
        ToolChoice::Named(_, name) => **name == *tool.name,
        ToolChoice::Allowed { names, .. } => names.iter().any(|name| **name == *tool.name),
        ToolChoice::Auto | ToolChoice::None | ToolChoice::Required => true,
    };
    context.tools().registry.tools().iter().filter(allowed).find_map(|tool| {
        let [parameter] = context.tools().answer_parameters(&tool.name) else { return None };
        let arguments = format!("{{{}:{}}}", quote(parameter), quote(words));
        let call = Call { name: tool.name.to_string(), kind: CallKind::Function, arguments: Arguments::Text(arguments), id: None };
        match judge_call(&call, &context.tools().registry, &context.call_rules, Truncation::Whole, &|_: &str| None).outcome {
            CallVerdict::Accept(valid) => Some(valid),
            CallVerdict::Reject => None,
        }
    })
}

fn document_of(arguments: &str) -> Option<Document> {
    Document::parse(bytes::Bytes::copy_from_slice(arguments.as_bytes())).ok()
}
