//! The response as the application has it so far, and the items that toolmark itself adds to it: text in place of held
//! content, the ends of a rejected attempt's items. Pure.

use bytes::BytesMut;

use super::{ReceivedResponse, ResponseStream, event_writer::Emitter, texts::TEXT};
use crate::{
    exchange::context::WordsMember,
    exchange::conversation::Fate,
    judge::call::ValidCall,
    marks::MarkTime,
    responses::{output_items::ItemKind, request::prepare::assistant_item, synthetic},
    wire::json::string::{quote, quote_into},
};

/// An output item as sent to the application.
#[derive(Clone, Debug, Default)]
pub(super) struct EmittedItem {
    /// Id of the item.
    pub id: String,
    /// The item when done: JSON.
    pub json: Option<String>,
    /// Text of the item if it is a message.
    pub text: Option<String>,
}

/// The response as sent to the application so far.
#[derive(Default)]
pub(super) struct SentResponse {
    pub emitter: Emitter,
    /// Its items, including those of earlier attempts.
    pub items: Vec<EmittedItem>,
    /// Number of them that belong to earlier attempts.
    pub earlier_items: usize,
    /// Events that end everything an earlier attempt had begun.
    closing_events: Vec<(String, String)>,
    /// Dispositions of the items of rejected attempts.
    pub fates: Vec<(String, Fate)>,
    /// Text of this attempt was sent.
    pub released: bool,
    /// Text of an earlier attempt was sent.
    pub released_before: bool,
}

impl SentResponse {
    /// Writes a piece of a part as an event of toolmark's own.
    pub(super) fn say(&mut self, received: &mut ReceivedResponse, part: usize, text: &str, out: &mut BytesMut) {
        let Some(part) = received.texts.parts.get(part).filter(|_| !text.is_empty()) else { return };
        let (item, content_index) = (part.item, part.content_index);
        let kind = if part.kind == TEXT { "response.output_text.delta" } else { "response.refusal.delta" };
        let place = self.place(received, item);
        let id = received.items.get(item).map(|item| item.id.clone()).unwrap_or_default();
        self.released = true;
        self.emitter.made_delta(kind, &id, place, content_index, text, out);
    }

    /// Index of an item downstream, assigned with the first event about it.
    pub(super) fn place(&mut self, received: &mut ReceivedResponse, item: usize) -> usize {
        let next = self.items.len();
        let Some(item) = received.items.get_mut(item) else { return next };
        *item.place.get_or_insert_with(|| {
            self.items.push(EmittedItem { id: item.id.clone(), ..EmittedItem::default() });
            next
        })
    }

    /// Adds toolmark's own text: to the open message, else in a new one.
    pub(super) fn speak(&mut self, received: &mut ReceivedResponse, words: &str, out: &mut BytesMut) {
        let member = received.context.words_member();
        let open = self.open_text(received).filter(|_| member == WordsMember::Content);
        if let Some(part) = open {
            let gap = if received.texts.parts.get(part).is_some_and(|part| !part.left.is_empty()) { "\n\n" } else { "" };
            // What it says doesn't stand in a fence or element that the model had opened.
            let open = if gap.is_empty() { String::new() } else { received.texts.closing() };
            let words = format!("{open}{gap}{words}");
            self.say(received, part, &words, out);
            if let Some(part) = received.texts.parts.get_mut(part) {
                part.left.push_str(&words);
            }
            self.close_open(received, out);
            return;
        }
        self.close_open(received, out);
        let gap = if (self.released || self.released_before) && member == WordsMember::Content { "\n\n" } else { "" };
        let words = format!("{gap}{words}");
        let (place, id) = (self.items.len(), synthetic::item_id(&received.context));
        let added = format!(r#"{{"type":"message","id":"{id}","status":"in_progress","role":"assistant","content":[]}}"#);
        self.emitter.made("response.output_item.added", &format!(",\"output_index\":{place},\"item\":{added}"), out);
        let at = format!(",\"item_id\":\"{id}\",\"output_index\":{place},\"content_index\":0");
        self.emitter.made("response.content_part.added", &format!("{at},\"part\":{}", synthetic::message_part("", member)), out);
        let kind = member_name(member);
        self.emitter.made_delta(&format!("response.{kind}.delta"), &id, place, 0, &words, out);
        let item = synthetic::message_item(&words, &id, member);
        for (kind, members) in done_events(&at, kind, &words, &synthetic::message_part(&words, member)) {
            self.emitter.made(&kind, &members, out);
        }
        self.emitter.made("response.output_item.done", &format!(",\"output_index\":{place},\"item\":{item}"), out);
        self.items.push(EmittedItem { id, json: Some(item), text: Some(words) });
    }

    /// Sends toolmark's own text as a call, because one was demanded.
    pub(super) fn speak_as_call(&mut self, received: &ReceivedResponse, call: &ValidCall, moment: MarkTime, out: &mut BytesMut) {
        self.close_open(received, out);
        let mark = received.context.mint(call.name(), call.arguments(), moment);
        let (place, id) = (self.items.len(), synthetic::call_item_id(&received.context));
        let item = |arguments: &str, status: &str| synthetic::call_item(call, arguments, &mark, status, &received.context);
        let (added, done) = (item("", "in_progress"), item(call.arguments(), "completed"));
        let arguments = quote(call.arguments());
        let at = format!(",\"item_id\":\"{id}\",\"output_index\":{place}");
        for (kind, members) in [
            ("output_item.added", format!(",\"output_index\":{place},\"item\":{added}")),
            ("function_call_arguments.delta", format!("{at},\"delta\":{arguments}")),
            ("function_call_arguments.done", format!("{at},\"arguments\":{arguments},\"name\":{}", quote(call.name()))),
            ("output_item.done", format!(",\"output_index\":{place},\"item\":{done}")),
        ] {
            self.emitter.made(&format!("response.{kind}"), &members, out);
        }
        self.items.push(EmittedItem { id, json: Some(done), text: None });
    }

    /// The text part that was begun downstream and isn't done.
    fn open_text(&self, received: &ReceivedResponse) -> Option<usize> {
        let last = received.texts.parts.iter().rposition(|part| !part.left.is_empty())?;
        let part = received.texts.parts.get(last).filter(|part| part.kind == TEXT)?;
        let place = received.items.get(part.item)?.place?;
        self.items.get(place).is_some_and(|sent| sent.json.is_none()).then_some(last)
    }

    /// Ends everything that was begun downstream.
    fn close_open(&mut self, received: &ReceivedResponse, out: &mut BytesMut) {
        let (events, sent) = self.closing(received);
        for (kind, members) in events {
            self.emitter.made(&kind, &members, out);
        }
        self.items = sent;
    }

    /// The events that end everything begun downstream, and the items as the application then has them.
    fn closing(&self, received: &ReceivedResponse) -> (Vec<(String, String)>, Vec<EmittedItem>) {
        let (mut events, mut sent) = (Vec::new(), self.items.clone());
        for (number, item) in received.items.iter().enumerate() {
            let Some((place, own)) = item.place.and_then(|place| Some((place, sent.get_mut(place)?))) else { continue };
            if own.json.is_some() {
                continue;
            }
            if item.kind != ItemKind::Message {
                // Nothing of a call is begun before it is judged.
                if item.call.is_none() && !item.raw.is_empty() {
                    events.push(("response.output_item.done".to_owned(), format!(",\"output_index\":{place},\"item\":{}", item.raw)));
                    own.json = Some(item.raw.clone());
                }
                continue;
            }
            for part in received.texts.parts.iter().filter(|part| part.item == number) {
                let at = format!(",\"item_id\":{},\"output_index\":{place},\"content_index\":{}", quote(&item.id), part.content_index);
                let json = synthetic::message_part(&part.left, part.member());
                events.extend(done_events(&at, member_name(part.member()), &part.left, &json));
            }
            let json = received.released_message(number);
            events.push(("response.output_item.done".to_owned(), format!(",\"output_index\":{place},\"item\":{json}")));
            own.json = Some(json);
            own.text = Some(received.texts.released_text(number));
        }
        (events, sent)
    }

    /// State after an earlier attempt; everything that it had begun is ended first.
    pub(super) fn after(earlier: &ResponseStream) -> Self {
        let (events, items) = earlier.sent.closing(&earlier.received);
        // What was accepted stands for itself.
        let rejected = items.iter().skip(earlier.sent.earlier_items).filter(|_| !earlier.settled);
        Self {
            emitter: earlier.sent.emitter.clone(),
            closing_events: earlier.sent.closing_events.iter().cloned().chain(events).collect(),
            fates: earlier.sent.fates.iter().cloned().chain(rejected.filter_map(fate_of)).collect(),
            earlier_items: items.len(),
            items,
            released: false,
            released_before: earlier.sent.released || earlier.sent.released_before,
        }
    }

    /// Writes the events that end an earlier attempt's items, before anything else is sent.
    pub(super) fn flush(&mut self, out: &mut BytesMut) {
        for (kind, members) in std::mem::take(&mut self.closing_events) {
            self.emitter.made(&kind, &members, out);
        }
    }

    pub(super) fn output(&self) -> String {
        format!("[{}]", self.items.iter().filter_map(|sent| sent.json.as_deref()).collect::<Vec<_>>().join(","))
    }
}

/// Disposition of an item of a rejected attempt, for later requests.
pub(super) fn fate_of(sent: &EmittedItem) -> Option<(String, Fate)> {
    let id = Some(sent.id.clone()).filter(|id| !id.is_empty())?;
    sent.json.as_ref()?;
    let fate = match &sent.text {
        Some(text) => Fate::Instead(assistant_item(&quote(text)).into()),
        None => Fate::Dropped,
    };
    Some((id, fate))
}

/// Name of a text's member in types of events and parts.
fn member_name(member: WordsMember) -> &'static str {
    match member {
        WordsMember::Content => "output_text",
        WordsMember::Refusal => "refusal",
    }
}

/// `…_text.done` and `content_part.done` events of a part.
fn done_events(at: &str, kind: &str, text: &str, part: &str) -> [(String, String); 2] {
    let member = if kind == "refusal" { "refusal" } else { "text" };
    let mut said = format!("{at},\"{member}\":");
    quote_into(&mut said, text);
    if kind == "output_text" {
        said.push_str(",\"logprobs\":[]");
    }
    [(format!("response.{kind}.done"), said), ("response.content_part.done".to_owned(), format!("{at},\"part\":{part}"))]
}
