//! Hidden turns as messages of a conversation: appended to a request, and restored in later ones. Pure.
//!
//! A hidden turn has the form in which an application would have sent it, with the marks as ids and the thinking as it
//! came, so that the upstream sees the same in this exchange and in the next.

use std::collections::HashSet;

use bytes::Bytes;

use super::{
    adapter::Messages,
    blocks::{BlockKind, call_with, kind_of},
    history::{blocks, document, texts},
    material::answer_texts,
};
use crate::{
    exchange::{
        context::Context,
        hidden_turns::{Back, HistoryExtent, How, RoundForm, Speaker, Turn},
        turn::{Said, SaidItem},
    },
    judge::call::ValidCall,
    marks::MarkTime,
    openai::Api,
    wire::json::{Document, Value, splice::Splices, string::quote},
};

impl RoundForm for Messages {
    const API: Api = Api::Messages;

    fn turns(request: &Document) -> Vec<Turn<'_>> {
        let messages = request.root().get("messages").into_iter().flat_map(Value::items);
        messages.enumerate().map(|(at, message)| turn(at, message)).collect()
    }

    fn extent(_: &Document) -> HistoryExtent {
        HistoryExtent::Whole
    }

    fn put_back(request: &Document, turns: &[Turn<'_>], back: &[Back]) -> Option<Bytes> {
        let messages: Vec<Value<'_>> = request.root().get("messages")?.items().collect();
        let mut edits = Splices::default();
        for Back { turn, how, kept } in back {
            let Some(message) = messages.get(*turn).filter(|_| *how == How::Whole && !kept.lost) else { continue };
            let visible = kept.whole.is_empty().then(|| message.raw_str().to_owned());
            let ids: HashSet<&str> = turns.get(*turn).into_iter().flat_map(|turn| &turn.ids).map(|id| &**id).collect();
            let own = kept.whole.iter().map(|message| without_dropped(message, &kept.behind, &ids)).chain(visible);
            let parts: Vec<String> = kept.before.iter().cloned().chain(own).chain(kept.behind.iter().cloned()).collect();
            edits.replace(message.span(), parts.join(","));
        }
        (!edits.is_empty()).then(|| edits.apply(request.bytes()))
    }

    fn marks(_: &Said, calls: &[(ValidCall, MarkTime)], context: &Context) -> Vec<String> {
        calls.iter().map(|(call, moment)| context.mint(call.name(), call.arguments(), *moment)).collect()
    }

    fn said_again(said: &Said, calls: &[(&ValidCall, &str)], _: &Context) -> Vec<String> {
        let block = |item: &SaidItem| match item {
            SaidItem::Raw(json) if document(json).is_some_and(|block| block.root().get("text").is_some_and(|text| text.is_text(""))) => {
                None
            }
            SaidItem::Raw(json) => Some(json.clone()),
            SaidItem::Call(at, json) => {
                let (call, mark) = calls.get(*at)?;
                call_with(json, mark, Some(call.name()), Some(call.arguments()))
            }
        };
        let blocks: Vec<String> = said.items.iter().filter_map(block).collect();
        if blocks.is_empty() { Vec::new() } else { vec![format!(r#"{{"role":"assistant","content":[{}]}}"#, blocks.join(","))] }
    }

    fn result(mark: &str, text: &str) -> String {
        let block = format!(r#"{{"type":"tool_result","tool_use_id":{},"content":{}}}"#, quote(mark), quote(text));
        format!(r#"{{"role":"user","content":[{block}]}}"#)
    }

    fn append(request: &Document, added: &[String]) -> Option<Bytes> {
        let root = request.root();
        let mut edits = Splices::default();
        edits.append_items(root.get("messages").filter(|own| own.is_array())?, &added.join(","));
        let kind = root.get_some("tool_choice").and_then(|choice| choice.get("type"));
        if let Some(kind) = kind.filter(|kind| kind.is_text("any") || kind.is_text("tool")) {
            edits.replace(kind.span(), "\"auto\"");
            edits.remove_members(root.get("tool_choice")?, |name| name == "name");
        }
        Some(edits.apply(request.bytes()))
    }

    fn upstream(body: Bytes, _: usize, _: &Context) -> Bytes {
        body
    }

    fn text_of(answer: &Bytes) -> Option<String> {
        let document = Document::parse(answer.clone()).ok()?;
        Some(answer_texts(document.root()).concat())
    }

    fn tap(data: &Bytes, text: &mut String) {
        if memchr::memmem::find(data, b"text_delta").is_none() {
            return;
        }
        let Ok(document) = Document::parse(data.clone()) else { return };
        let delta = || {
            document
                .root()
                .get("delta")
                .filter(|delta| delta.get("type").is_some_and(|kind| kind.is_text("text_delta")))?
                .get("text")?
                .text()
        };
        if let Some(delta) = delta() {
            text.push_str(&delta);
        }
    }
}

fn turn(at: usize, message: Value<'_>) -> Turn<'_> {
    let role = message.get("role").and_then(Value::text).unwrap_or_default();
    let (speaker, text, ids) = match &*role {
        "system" => (Speaker::Instructions, texts(message).join("\n"), Vec::new()),
        "assistant" => {
            let calls = blocks(message).filter(|block| kind_of(*block) == BlockKind::Call);
            (Speaker::Model, answer_texts(message).concat(), calls.filter_map(|call| call.get("id")?.text()).collect())
        }
        _ => {
            let ids: Vec<_> = blocks(message).filter_map(|block| block.get("tool_use_id")?.text()).collect();
            let results = blocks(message).filter(|block| block.get("tool_use_id").is_some()).filter_map(|block| block.get("content"));
            let text = texts(message).into_iter().chain(results.flat_map(texts)).collect::<Vec<_>>().join("\n");
            (if ids.is_empty() { Speaker::Other } else { Speaker::Result }, text, ids)
        }
    };
    Turn { items: at..at + 1, speaker, text: text.into(), ids }
}

/// A turn without the calls that the application was given but no longer has: no result would answer them.
fn without_dropped(message: &str, behind: &[String], ids: &HashSet<&str>) -> String {
    let Some(whole) = document(message) else { return message.to_owned() };
    let Some(content) = whole.root().get("content") else { return message.to_owned() };
    let results: Vec<Document> = behind.iter().filter_map(|result| document(result)).collect();
    let run: HashSet<_> =
        results.iter().flat_map(|result| blocks(result.root())).filter_map(|block| block.get("tool_use_id")?.text()).collect();
    let is_gone = |block: Value<'_>| {
        let id = block.get("id").and_then(Value::text).unwrap_or_default();
        kind_of(block) == BlockKind::Call && !ids.contains(&*id) && !run.contains(&*id)
    };
    let gone: HashSet<usize> = content.items().enumerate().filter(|(_, block)| is_gone(*block)).map(|(at, _)| at).collect();
    let mut edits = Splices::default();
    edits.remove_items(content, |at| gone.contains(&at));
    String::from_utf8_lossy(&edits.apply(whole.bytes())).into_owned()
}
