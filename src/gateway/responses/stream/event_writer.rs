//! Writes events: numbered without gaps, and framed so that every client can read them. Pure.
//!
//! Source: docs/wire-facts.md#responses-streams: `sequence_number` rises, `event:` names what `type` names; for what
//! upsets clients, #emission-rules, rule 7. An event that nothing changes leaves as the bytes that came.

use bytes::BytesMut;

use crate::wire::{
    json::{Document, Value, splice::Splices, string::quote_into},
    sse::{SseEvent, one_line, splits},
};

/// Numbers and frames events; one for all attempts of an exchange.
#[derive(Clone, Debug)]
pub struct Emitter {
    next: u64,
    /// The upstream numbers its events.
    numbered: bool,
    /// The upstream names its events.
    named: bool,
    begun: bool,
}

impl Default for Emitter {
    fn default() -> Self {
        Self { next: 0, numbered: true, named: true, begun: false }
    }
}

impl Emitter {
    /// Detects by the first event if the upstream numbers and names its events.
    fn begin(&mut self, event: &SseEvent, root: Value<'_>) {
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        let first = root.get("sequence_number").and_then(Value::integer);
        self.numbered = first.is_some();
        self.next = first.unwrap_or(0);
        self.named = event.name.is_some();
    }

    fn number(&mut self) -> u64 {
        let number = self.next;
        self.next = self.next.saturating_add(1);
        number
    }

    /// Writes an upstream event with these changes.
    pub fn pass(&mut self, event: &SseEvent, document: &Document, mut edits: Splices, out: &mut BytesMut) {
        let root = document.root();
        self.begin(event, root);
        let number = self.number();
        if let Some(own) = root.get("sequence_number").filter(|own| own.integer() != Some(number)) {
            edits.replace(own.span(), number.to_string());
        }
        let kind = root.get("type").and_then(Value::text).unwrap_or_default();
        let same = event.name.as_deref().is_none_or(|name| name == kind.as_bytes());
        if edits.is_empty() && same && is_framed(&event.raw) {
            out.extend_from_slice(&event.raw);
            return;
        }
        let name = event.name.is_some().then_some(&*kind);
        frame(name, &edits.apply(document.bytes()), out);
    }

    /// Writes an event of toolmark's own. `members`: its members besides type and number, `,"name":value…`.
    pub fn made(&mut self, kind: &str, members: &str, out: &mut BytesMut) {
        let number = self.number();
        let number = if self.numbered { format!(",\"sequence_number\":{number}") } else { String::new() };
        let data = format!("{{\"type\":\"{kind}\"{number}{members}}}");
        frame(self.named.then_some(kind), data.as_bytes(), out);
    }

    /// Writes a text delta of toolmark's own.
    pub fn made_delta(&mut self, kind: &str, item_id: &str, place: usize, content_index: u64, delta: &str, out: &mut BytesMut) {
        let mut members = String::from(",\"item_id\":");
        quote_into(&mut members, item_id);
        members.push_str(&format!(",\"output_index\":{place},\"content_index\":{content_index},\"delta\":"));
        quote_into(&mut members, delta);
        if kind == "response.output_text.delta" {
            members.push_str(",\"logprobs\":[]");
        }
        self.made(kind, &members, out);
    }
}

/// True for bytes that can be passed on unchanged: one `event` line, one `data` line and a blank line, with line breaks
/// that every client understands.
fn is_framed(raw: &[u8]) -> bool {
    let text = raw.strip_suffix(b"\n").or_else(|| raw.strip_suffix(b"\r")).unwrap_or_default();
    let text = text.strip_suffix(b"\r").unwrap_or(text);
    if !matches!(text.last(), Some(b'\n' | b'\r')) {
        return false;
    }
    // Clients that read line by line take each `data` line for an event.
    let (mut datas, mut names) = (0, 0);
    text.split(|byte| matches!(byte, b'\n' | b'\r')).filter(|line| !line.is_empty()).all(|line| {
        let mut fields = line.splitn(2, |byte| *byte == b':');
        let (field, value) = (fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
        datas += usize::from(field == b"data");
        names += usize::from(field == b"event");
        let whole = || if field == b"event" { is_name(value.trim_ascii()) } else { !splits(value) };
        datas <= 1 && names <= 1 && matches!(field, b"data" | b"event") && whole()
    })
}

/// True for a name without characters that a client might misread.
fn is_name(name: &[u8]) -> bool {
    name.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}

/// Frames `data` as an event with this name.
fn frame(name: Option<&str>, data: &[u8], out: &mut BytesMut) {
    if let Some(name) = name.filter(|name| is_name(name.as_bytes())) {
        out.extend_from_slice(b"event: ");
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\n");
    }
    out.extend_from_slice(b"data: ");
    out.extend_from_slice(&one_line(data));
    out.extend_from_slice(b"\n\n");
}
