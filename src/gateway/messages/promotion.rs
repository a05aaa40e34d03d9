//! Promotes calls written as text in a Messages answer, before anything else reads the answer. Pure.

use super::blocks::{BlockKind, finish_of, kind_of};
use crate::{
    claims::text_input::TextInput,
    exchange::{
        context::Context,
        promotion::{self, Promoted, Promotion},
    },
    judge::call::turn::FinishReason,
    wire::json::{Document, Value, splice::Splices, string::quote},
};

/// The answer with its text promoted to calls, and the names of their tools; `None` if it is unchanged.
pub fn whole(document: &Document, context: &Context) -> Option<(Document, Vec<String>)> {
    if !promotion::allowed(context) {
        return None;
    }
    let root = document.root();
    let content = root.get("content")?;
    let reason = root.get_some("stop_reason").and_then(Value::text);
    let says_more = content.items().any(|block| !matches!(kind_of(block), BlockKind::Text | BlockKind::Thinking));
    if says_more || finish_of(reason.as_deref()) != FinishReason::Complete {
        return None;
    }
    let is_text = |block: Value<'_>| kind_of(block) == BlockKind::Text;
    let first = content.items().position(is_text)?;
    let text: String = content.items().filter(|block| is_text(*block)).filter_map(|block| block.get("text")?.text()).collect();
    let Promotion::Calls(calls) = promotion::calls(&text, context, TextInput::Complete) else { return None };
    let kept = content.items().take(first).chain(content.items().skip(first).filter(|block| !is_text(*block)));
    let blocks: Vec<String> = kept.map(|block| block.raw_str().to_owned()).chain(calls.iter().enumerate().map(block)).collect();
    let mut edits = Splices::default();
    edits.replace(content.span(), format!("[{}]", blocks.join(",")));
    edits.set_member(root, "stop_reason", "\"tool_use\"");
    let document = Document::parse(edits.apply(document.bytes())).ok()?;
    Some((document, calls.into_iter().map(|call| call.tool).collect()))
}

/// A promoted call as a block. Arguments that aren't an object are judged as they are.
fn block((at, call): (usize, &Promoted)) -> String {
    let json = super::history::document(&call.arguments).is_some();
    let input = if json { call.arguments.clone() } else { quote(&call.arguments) };
    format!(r#"{{"type":"tool_use","id":"toolu_{at}","name":{},"input":{input}}}"#, quote(&call.tool))
}
