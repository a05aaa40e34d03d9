//! The model's turn, and the rejected turn that is echoed to it. Pure.

use crate::{
    judge::call::{Call, CallKind},
    openai::error::Reported,
    violation::{Checks, Violation},
    wire::json::Document,
};

/// The model's turn in one choice, common to all APIs.
#[derive(Clone, Debug, Default)]
pub struct Said {
    /// Text of the turn.
    pub text: String,
    /// Reasoning, as far as it was kept.
    pub reasoning: String,
    /// Its calls, each with the members unknown to toolmark, as `"name":value`.
    pub calls: Vec<(Call, Vec<String>)>,
    /// Its output items in order, for APIs that have items.
    pub items: Vec<SaidItem>,
    /// The upstream's id of the answer, if a request may go on from it.
    pub answer_id: Option<String>,
}

/// One item of an answer, for APIs that have items.
#[derive(Clone, Debug)]
pub enum SaidItem {
    /// Anything but a call, unchanged: JSON.
    Raw(String),
    /// The call at this index of [`Said::calls`], with its unchanged item: JSON.
    Call(usize, String),
}

impl Said {
    /// Types of its calls of tools that the upstream runs itself, or defines: they pass unjudged.
    pub fn hosted(&self) -> Vec<String> {
        let kind = |item: &SaidItem| {
            let SaidItem::Raw(json) = item else { return None };
            let document = Document::parse(json.clone().into()).ok()?;
            document.root().get("type")?.text().filter(|kind| kind.ends_with("_call") || kind.ends_with("_tool_use")).map(Into::into)
        };
        self.items.iter().filter_map(kind).collect()
    }
}

/// One call of a rejected turn.
#[derive(Clone, Debug)]
pub struct EchoedCall {
    /// Name as written by the model.
    pub name: String,
    /// Its kind.
    pub kind: CallKind,
    /// The upstream's id of the call.
    pub id: Option<String>,
    /// JSON text of an object, or a custom tool's input; otherwise as received.
    pub arguments: String,
    /// Its violations; empty for a valid sibling of a bad call.
    pub violations: Vec<Violation>,
    /// Example of a valid call.
    pub example: Option<String>,
    /// Members of the call that must be sent back, as `"name":value`.
    pub extras: Vec<String>,
}

/// A rejected turn.
#[derive(Clone, Debug, Default)]
pub struct EchoedTurn {
    /// Text of the turn.
    pub text: String,
    /// `reasoning_content`, which some upstreams require back with calls.
    pub reasoning: String,
    /// Its calls.
    pub calls: Vec<EchoedCall>,
    /// Its output items in order, for APIs that have items.
    pub items: Vec<SaidItem>,
    /// The upstream's id of the answer, if a request may go on from it.
    pub answer_id: Option<String>,
    /// Violations of the text, or of the turn as a whole.
    pub violations: Vec<Violation>,
}

impl EchoedTurn {
    /// The turn that the upstream itself rejected (Groq's `tool_use_failed`); `None` for other errors, and if the
    /// policy allows it.
    pub fn of_failed_call(error: &Reported, checks: &Checks) -> Option<Self> {
        let (code, generation) = error.failed_call()?;
        let advice = "call one of the tools with arguments that fit its schema";
        let message = format!("the upstream could not make a tool call of what you wrote: {}", error.message);
        let violation = checks.violation(code, None, message, advice)?;
        violation.blocks().then(|| Self { text: generation, violations: vec![violation], ..Self::default() })
    }
}

impl EchoedCall {
    /// The arguments in a form that can be echoed, and the raw ones if they can't.
    pub fn legal_arguments(&self) -> (String, Option<&str>) {
        if self.kind == CallKind::Custom {
            return (self.arguments.clone(), None);
        }
        let bytes = bytes::Bytes::copy_from_slice(self.arguments.as_bytes());
        let object = Document::parse(bytes).is_ok_and(|document| document.root().is_object());
        if object { (self.arguments.clone(), None) } else { ("{}".to_owned(), Some(&self.arguments)) }
    }

    /// A name that every upstream accepts: 1 to 64 of `A-Z a-z 0-9 _ -`.
    pub fn legal_name(&self) -> String {
        let legal = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
        let name: String = self.name.chars().take(64).map(legal).collect();
        if name.is_empty() { "unnamed".to_owned() } else { name }
    }

    /// Message for the model about the call, as the content of a tool message.
    pub fn answer(&self) -> String {
        use crate::judge::messages;
        if self.violations.is_empty() {
            return messages::sibling(&self.name);
        }
        let violations: Vec<&Violation> = self.violations.iter().collect();
        messages::rejection(&self.name, &violations, self.legal_arguments().1, self.example.as_deref())
    }
}
