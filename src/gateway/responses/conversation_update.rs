//! Conversation updates after an exchange on the Responses API, for buffered and streamed answers. Pure.
//!
//! The upstream stores the conversation unless told otherwise, so the next request may contain none of it. By then,
//! toolmark must know the evidence of this exchange, and the calls that were passed on or withheld.

use std::collections::{BTreeMap, btree_map::Entry};

use crate::{
    exchange::{
        context::{Context, JudgedChoice},
        conversation::{
            Fate, KnownCall, Left, Memo, Owed, digest,
            update::{known_call, memo_of},
        },
        decision,
        turn::{EchoedTurn, Said, SaidItem},
    },
    judge::call::{Call, CallKind, ValidCall},
    marks::MarkTime,
    openai::content::text_of,
    responses::{
        output_items::OutputCall,
        request::{
            input_items::{InputItem, Kind},
            prepare::assistant_item,
        },
    },
    wire::json::{Document, Value, string::quote},
};

/// Conversation update for an exchange that ends with this response.
///
/// `calls`: those passed on, with their marks. `owed`: outputs to send for those that weren't. `items`: dispositions of
/// output items that the application never got. Calls are always stored; the rest only if the upstream stores the
/// exchange.
pub fn remember(
    context: &Context,
    response_id: Option<&str>,
    conversation: Option<&str>,
    calls: &[(String, &OutputCall, &ValidCall, MarkTime)],
    owed: Vec<Owed>,
    items: Vec<(String, Fate)>,
) -> Memo {
    let hidden = &context.hidden;
    let known = |(mark, slot, call, moment): &(String, &OutputCall, &ValidCall, MarkTime)| known_call(mark, &slot.call_id, call, *moment);
    let calls: Vec<(String, KnownCall)> = calls.iter().map(known).collect();
    let text = |id: &str| Some(id.to_owned()).filter(|id| !id.is_empty());
    let conversation = hidden.conversation.clone().or_else(|| conversation.and_then(text));
    if !hidden.store && conversation.is_none() {
        return Memo { calls, ..Memo::default() };
    }
    let mut memo = memo_of(context, response_id, conversation, calls);
    memo.items = items;
    memo.thread.owe(owed);
    memo.thread.write(written(context.request()));
    memo
}

/// Digests of the assistant texts in a request.
fn written(request: &Document) -> Vec<u64> {
    let bytes = request.bytes();
    if memchr::memmem::find(bytes, b"assistant").is_none() {
        return Vec::new();
    }
    let items = request.root().get("input").filter(|input| input.is_array()).into_iter().flat_map(Value::items);
    let texts = items.filter_map(|item| InputItem::read(item).ok()).filter(|item| item.kind == Kind::Assistant);
    texts.filter_map(|item| item.content().and_then(text_of)).map(|text| digest(&text)).collect()
}

/// The update with the application's version of the response: all of it, or nothing yet while the response is still
/// being made.
pub fn with_left(mut memo: Memo, left: impl FnOnce() -> Left) -> Memo {
    if !memo.responses.is_empty() || memo.conversation.is_some() {
        memo.left = Some(left());
    }
    memo
}

/// Dispositions of the items of a rejected turn; empty if the upstream doesn't store them.
pub fn dropped(context: &Context, turn: &EchoedTurn) -> Vec<(String, Fate)> {
    if !context.hidden.store && context.hidden.conversation.is_none() {
        return Vec::new();
    }
    let ids_of = |item: &SaidItem| {
        let (SaidItem::Raw(json) | SaidItem::Call(_, json)) = item;
        let document = Document::parse(bytes::Bytes::copy_from_slice(json.as_bytes())).ok();
        // Outputs that are sent for a call have its id only.
        let id = |name: &str| document.as_ref()?.root().get(name)?.text().filter(|id| !id.is_empty()).map(|id| id.into_owned());
        [id("id"), id("call_id")]
    };
    turn.items.iter().flat_map(ids_of).flatten().map(|id| (id, Fate::Dropped)).collect()
}

/// The update, or `None` if it has no content.
pub fn worth_keeping(memo: Memo) -> Option<Memo> {
    let worth = !(memo.responses.is_empty() && memo.conversation.is_none() && memo.calls.is_empty());
    worth.then_some(memo)
}

/// Outputs to send for the calls of a rejected choice; `slots` and `calls` are the same calls. Empty if the choice may
/// pass, or the upstream stores nothing.
pub fn owed(context: &Context, judged: &JudgedChoice, calls: &[Call], slots: &[OutputCall]) -> Vec<Owed> {
    let keeps = context.hidden.store || context.hidden.conversation.is_some();
    let mut owed: Vec<Owed> = Vec::new();
    if !keeps || calls.is_empty() || !judged.blocks() {
        return owed;
    }
    let said = Said { calls: calls.iter().map(|call| (call.clone(), Vec::new())).collect(), ..Said::default() };
    for (call, slot) in decision::rejected_turn(judged, said).calls.iter().zip(slots) {
        let known = owed.iter().any(|owed| owed.call_id == slot.call_id);
        if !known && !slot.call_id.is_empty() {
            owed.push(Owed { call_id: slot.call_id.clone(), custom: slot.kind == CallKind::Custom, output: call.answer() });
        }
    }
    owed
}

/// Conversation update if the exchange ends after a rejected turn: the upstream's conversation has its calls already,
/// and needs outputs for them.
pub fn unanswered(context: &Context, turn: &EchoedTurn) -> Option<Memo> {
    context.hidden.conversation.as_ref()?;
    let mut owed: Vec<Owed> = Vec::new();
    for call in &turn.calls {
        let id = call.id.as_ref().filter(|id| !id.is_empty() && !owed.iter().any(|owed| owed.call_id == **id));
        owed.extend(id.map(|id| Owed { call_id: id.clone(), custom: call.kind == CallKind::Custom, output: call.answer() }));
    }
    Some(remember(context, None, None, &[], owed, Vec::new()))
}

/// Dispositions of items, without those of ids that name more than one item: some upstreams number the items of each
/// answer anew, so that one item would be taken for another. `passed`: ids of items that were passed on.
pub fn of_one_item<'i>(items: impl IntoIterator<Item = (String, Fate)>, passed: impl IntoIterator<Item = &'i str>) -> Vec<(String, Fate)> {
    let mut known: BTreeMap<String, Option<Fate>> = passed.into_iter().map(|id| (id.to_owned(), None)).collect();
    for (id, fate) in items {
        match known.entry(id) {
            Entry::Vacant(free) => drop(free.insert(Some(fate))),
            Entry::Occupied(mut own) if own.get().as_ref() != Some(&fate) => drop(own.insert(None)),
            Entry::Occupied(_) => {}
        }
    }
    known.into_iter().filter_map(|(id, fate)| Some((id, fate?))).collect()
}

/// Dispositions of the items of a replaced answer: `ids` are discarded, and `made_id` is a message that says `words`.
pub fn replaced<'i>(ids: impl IntoIterator<Item = &'i str>, made_id: &str, words: &str) -> Vec<(String, Fate)> {
    let dropped = ids.into_iter().filter(|id| !id.is_empty()).map(|id| (id.to_owned(), Fate::Dropped));
    let message = assistant_item(&quote(words));
    dropped.chain([(made_id.to_owned(), Fate::Instead(message.into()))]).collect()
}
