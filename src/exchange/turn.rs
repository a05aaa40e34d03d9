//! What a model said in one turn, and the turn as it is echoed to it when it isn't passed on. Pure.

use super::error::Reported;
use crate::{
    judge::{
        call::{Call, CallKind},
        violation::{Checks, Violation},
    },
    wire::json::Document,
};

/// One choice of an answer, in the core's terms.
#[derive(Clone, Debug, Default)]
pub struct Said {
    /// What the model said.
    pub text: String,
    /// What it thought, as far as it is kept.
    pub reasoning: String,
    /// Its calls, each with the members that toolmark doesn't know, as `"name":value`.
    pub calls: Vec<(Call, Vec<String>)>,
    /// Its output items in order, where the API has such.
    pub items: Vec<SaidItem>,
}

/// One item of an answer, for APIs that have items.
#[derive(Clone, Debug)]
pub enum SaidItem {
    /// Anything but a call, as it came: JSON.
    Raw(String),
    /// The call at this place of [`Said::calls`]: its item as it came, JSON.
    Call(usize, String),
}

impl Said {
    /// The types of its calls of tools that the upstream runs itself, or defines: they pass unjudged.
    pub fn hosted(&self) -> Vec<String> {
        let kind = |item: &SaidItem| {
            let SaidItem::Raw(json) = item else { return None };
            let document = Document::parse(json.clone().into()).ok()?;
            document.root().get("type")?.text().filter(|kind| kind.ends_with("_call")).map(Into::into)
        };
        self.items.iter().filter_map(kind).collect()
    }
}

/// One call of the turn that is not passed on.
#[derive(Clone, Debug)]
pub struct EchoedCall {
    /// As the model named it.
    pub name: String,
    /// Its kind.
    pub kind: CallKind,
    /// Its id, as the upstream gave it.
    pub id: Option<String>,
    /// JSON text of an object, or a custom tool's input; else what came.
    pub arguments: String,
    /// What was wrong with it; empty for a valid sibling.
    pub violations: Vec<Violation>,
    /// How it should have looked.
    pub example: Option<String>,
    /// Members of the call that must come back, as `"name":value`.
    pub extras: Vec<String>,
}

/// The turn that is not passed on.
#[derive(Clone, Debug, Default)]
pub struct EchoedTurn {
    /// What the model said.
    pub text: String,
    /// `reasoning_content`, which some upstreams demand back with calls.
    pub reasoning: String,
    /// Its calls.
    pub calls: Vec<EchoedCall>,
    /// Its output items in order, where the API has such.
    pub items: Vec<SaidItem>,
    /// What was wrong with the text, or with the turn as a whole.
    pub violations: Vec<Violation>,
}

impl EchoedTurn {
    /// The turn that the upstream refused itself (Groq's `tool_use_failed`), where that is what the error says and the
    /// policy holds it for wrong.
    pub fn of_failed_call(error: &Reported, checks: &Checks) -> Option<Self> {
        let (code, generation) = error.failed_call()?;
        let advice = "call one of the tools with arguments that fit its schema";
        let message = format!("the upstream could not make a tool call of what you wrote: {}", error.message);
        let violation = checks.violation(code, None, message, advice)?;
        violation.blocks().then(|| Self { text: generation, violations: vec![violation], ..Self::default() })
    }
}

impl EchoedCall {
    /// The arguments as they can be echoed, and the raw ones where those can't.
    pub fn legal_arguments(&self) -> (String, Option<&str>) {
        if self.kind == CallKind::Custom {
            return (self.arguments.clone(), None);
        }
        let bytes = bytes::Bytes::copy_from_slice(self.arguments.as_bytes());
        let object = Document::parse(bytes).is_ok_and(|document| document.root().is_object());
        if object { (self.arguments.clone(), None) } else { ("{}".to_owned(), Some(&self.arguments)) }
    }

    /// A name that every upstream takes: 1 to 64 of `A-Z a-z 0-9 _ -`.
    pub fn legal_name(&self) -> String {
        let legal = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
        let name: String = self.name.chars().take(64).map(legal).collect();
        if name.is_empty() { "unnamed".to_owned() } else { name }
    }

    /// What the model is told about it, as the content of a tool message.
    pub fn answer(&self) -> String {
        use crate::judge::reply;
        if self.violations.is_empty() {
            return reply::sibling(&self.name);
        }
        let violations: Vec<&Violation> = self.violations.iter().collect();
        reply::rejection(&self.name, &violations, self.legal_arguments().1, self.example.as_deref())
    }
}
