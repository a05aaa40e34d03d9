//! Promotes calls written as text in a response, before anything else reads the response. Pure.
//!
//! Only if the upstream doesn't store the response: a stored conversation would have a message where the application
//! has a call, and the call's output would answer nothing. A stream is held from its message on, as long as that may
//! become calls.

use bytes::Bytes;

use crate::{
    claims::text_input::TextInput,
    exchange::{
        context::Context,
        promotion::{self, Held, Passed, Promoted, Promotion, made},
        text::place::is_nothing,
    },
    wire::{
        json::{Document, Value, splice::Splices, string::quote},
        sse::SseEvent,
    },
};

/// Calls in place of a message.
struct PromotedMessage {
    items: Vec<PromotedItem>,
}

/// The item of a call.
struct PromotedItem {
    id: String,
    /// JSON of the item up to its arguments.
    head: String,
    arguments: String,
    tool: String,
}

impl PromotedItem {
    fn json(&self, arguments: &str, status: &str) -> String {
        format!(r#"{{{},"arguments":{},"status":"{status}"}}"#, self.head, quote(arguments))
    }

    fn whole(&self) -> String {
        self.json(&self.arguments, "completed")
    }
}

fn allowed(context: &Context) -> bool {
    promotion::allowed(context)
}

/// The response with its message replaced by calls, and the names of their tools; `None` if it is unchanged.
pub fn whole(document: &Document, context: &Context) -> Option<(Document, Vec<String>)> {
    if !allowed(context) {
        return None;
    }
    let mut edits = Splices::default();
    let instead = instead(document.root(), context, &mut edits)?;
    let document = Document::parse(edits.apply(document.bytes())).ok()?;
    Some((document, instead.tools()))
}

impl PromotedMessage {
    fn tools(&self) -> Vec<String> {
        self.items.iter().map(|item| item.tool.clone()).collect()
    }
}

/// Replaces the only message of a response by calls.
fn instead(response: Value<'_>, context: &Context, edits: &mut Splices) -> Option<PromotedMessage> {
    let kind = |item: &Value<'_>| item.get("type").and_then(Value::text).unwrap_or_default().into_owned();
    let mut others = response.get("output")?.items().filter(|item| kind(item) != "reasoning");
    let (message, None) = (others.next()?, others.next()) else { return None };
    let mut parts = message.get("content")?.items();
    let (part, None) = (parts.next()?, parts.next()) else { return None };
    let cut = response.get_some("status").is_some_and(|status| !status.is_text("completed"));
    if kind(&message) != "message" || kind(&part) != "output_text" || cut {
        return None;
    }
    let text = part.get("text").and_then(Value::text)?;
    let Promotion::Calls(calls) = promotion::calls(&text, context, TextInput::Complete) else { return None };
    let id = message.get("id").and_then(Value::text).unwrap_or_default();
    let instead = PromotedMessage { items: calls.into_iter().enumerate().map(|(at, call)| item(&id, at, call)).collect() };
    edits.replace(message.span(), instead.items.iter().map(PromotedItem::whole).collect::<Vec<_>>().join(","));
    if let Some(copy) = response.get_some("output_text").filter(|copy| !is_nothing(*copy)) {
        edits.replace(copy.span(), "\"\"");
    }
    Some(instead)
}

/// The item of a promoted call. Its ids derive from the message's id, so that the same answer gives the same ids.
fn item(message_id: &str, at: usize, call: Promoted) -> PromotedItem {
    let hash = blake3::hash(format!("{message_id}\n{at}").as_bytes()).to_hex();
    let digits = hash.get(..24).unwrap_or_default();
    let id = format!("fc_{digits}");
    let head = format!(r#""type":"function_call","id":"{id}","call_id":"call_{digits}","name":{}"#, quote(&call.tool));
    PromotedItem { id, head, arguments: call.arguments, tool: call.tool }
}

/// Stage in front of a streamed response's judge that promotes calls.
pub struct StreamPromoter {
    /// Held events: the message, from its start.
    pub held: Held,
}

impl StreamPromoter {
    /// Starts an attempt.
    pub fn new(context: &Context) -> Self {
        Self { held: Held::for_attempt(context) }
    }

    /// Handles an event; returns the events to forward.
    pub fn take(&mut self, event: SseEvent, document: Document, context: &Context) -> Passed {
        let root = document.root();
        let kind = root.get("type").and_then(Value::text).unwrap_or_default();
        let of_item = root.get("item").and_then(|item| item.get("type")).and_then(Value::text).unwrap_or_default();
        let held = !self.held.events.is_empty();
        let (mut release, mut end, mut hold) = (false, false, held);
        match &*kind {
            "response.output_item.added" if of_item == "message" && !held => hold = true,
            "response.output_item.added" | "response.output_item.done" => release = of_item != if held { "message" } else { "reasoning" },
            "response.output_text.delta" => self.held.text.push(&root.get("delta").and_then(Value::text).unwrap_or_default()),
            "response.content_part.added" | "response.content_part.done" | "response.output_text.done" => {}
            "response.completed" => end = true,
            _ => release = held,
        }
        if !hold && !release && !end {
            return vec![(event, document)];
        }
        let room = self.held.hold(event, document, context);
        if end {
            return self.end(context);
        }
        let more = self.held.text.is_empty() || self.held.text.read(context, TextInput::Partial) == Promotion::More;
        if release || !more || !room { self.held.release() } else { Vec::new() }
    }

    /// Handles the terminal event, which repeats the complete output; returns the events to forward.
    fn end(&mut self, context: &Context) -> Passed {
        let promoted = self.held.events.last().and_then(|(event, document)| {
            let mut edits = Splices::default();
            let instead = instead(document.root().get("response")?, context, &mut edits)?;
            Some((instead, made(event, edits.apply(document.bytes()))?))
        });
        // Without its message's events they would stand in no order.
        let (Some((instead, terminal)), Some((begun, first))) = (promoted, self.held.events.first().filter(|_| self.held.events.len() > 1))
        else {
            return self.held.release();
        };
        let mut passed = events(&instead, begun, first.root());
        passed.push(terminal);
        self.held.tools = instead.tools();
        let _replaced = self.held.release();
        passed
    }
}

/// The events of the calls, in place of the message's; `begun` is the event that began the message.
fn events(instead: &PromotedMessage, begun: &SseEvent, first: Value<'_>) -> Passed {
    let integer = |name: &str| first.get_some(name).and_then(Value::integer);
    let (place, number) = (integer("output_index").unwrap_or(0), integer("sequence_number"));
    let mut passed = Vec::new();
    for (at, item) in instead.items.iter().enumerate() {
        let index = place + at as u64;
        let (id, arguments) = (quote(&item.id), quote(&item.arguments));
        let events = [
            ("output_item.added", format!("\"item\":{}", item.json("", "in_progress"))),
            ("function_call_arguments.delta", format!("\"item_id\":{id},\"delta\":{arguments}")),
            ("function_call_arguments.done", format!("\"item_id\":{id},\"name\":{},\"arguments\":{arguments}", quote(&item.tool))),
            ("output_item.done", format!("\"item\":{}", item.whole())),
        ];
        for (kind, members) in events {
            let number = number.map(|number| format!("\"sequence_number\":{},", number + passed.len() as u64)).unwrap_or_default();
            let data = format!(r#"{{"type":"response.{kind}",{number}"output_index":{index},{members}}}"#);
            let name = begun.name.as_ref().map(|_| Bytes::from(format!("response.{kind}")));
            passed.extend(made(&SseEvent { name, ..begun.clone() }, data.into()));
        }
    }
    passed
}
