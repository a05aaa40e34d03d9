//! One event of a chat stream: finds its text and calls, and rewrites it if needed.
//!
//! Source: docs/wire-facts.md#emission-rules. An event that nothing changes leaves as the bytes that came. Pure.

use bytes::Bytes;

use crate::{
    exchange::text::place::is_nothing,
    judge::call::CallKind,
    judge::call::turn::FinishReason,
    wire::{
        json::{Document, Value, splice::Splices, string::quote},
        sse::{self, SseEvent, one_line},
    },
};

/// Parts of a delta that are text; each has its own gate.
pub const TEXTS: [&str; 3] = ["content", "refusal", "audio"];
/// Members of a message or a delta that are calls.
pub const CALLS: [&str; 2] = ["tool_calls", "function_call"];

/// Identity of the completion, as raw JSON values. The first attempt's is used in all events.
#[derive(Clone, Debug, Default)]
pub struct CompletionIdentity {
    members: [Option<String>; 3],
}

const IDENTITY: [&str; 3] = ["id", "created", "model"];

impl CompletionIdentity {
    /// Reads the identity of an event.
    pub fn read(root: Value<'_>) -> Self {
        Self { members: IDENTITY.map(|name| root.get_some(name).map(|value| value.raw_str().to_owned())) }
    }

    /// A chunk of the first choice that says nothing, JSON.
    pub fn empty_chunk(&self) -> String {
        let members = IDENTITY.iter().zip(&self.members).filter_map(|(name, value)| Some(format!("\"{name}\":{},", value.as_ref()?)));
        let identity: String = members.collect();
        format!(r#"{{{identity}"object":"chat.completion.chunk","choices":[{{"index":0,"delta":{{}},"finish_reason":null}}]}}"#)
    }

    fn write(&self, edits: &mut Splices, root: Value<'_>) {
        for (name, value) in IDENTITY.iter().zip(&self.members) {
            if let (Some(old), Some(value)) = (root.get(name), value)
                && old.raw_str() != value
            {
                edits.replace(old.span(), value.as_str());
            }
        }
    }
}

/// A piece of text in an event.
#[derive(Clone, Debug)]
pub struct TextSpan {
    /// Index into [`TEXTS`].
    pub kind: usize,
    /// Start in the joined text of that kind.
    pub start: usize,
    /// End in the joined text of that kind.
    pub end: usize,
    /// The piece itself.
    pub text: String,
    /// It isn't what the event says by itself.
    pub respelled: bool,
}

/// Treatment of the `role` in an event.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum RoleEdit {
    /// Unchanged.
    #[default]
    Keep,
    /// Removed: it was already sent.
    Drop,
    /// Added: it is missing.
    Add,
}

/// Changes to an event.
#[derive(Debug, Default)]
pub struct ChunkEdit<'c> {
    /// Identity of the first attempt.
    pub identity: Option<&'c CompletionIdentity>,
    /// Changed texts, by kind.
    pub texts: Vec<(usize, String)>,
    /// Removes the calls, which are held.
    pub drop_calls: bool,
    /// Removes the `logprobs`: they belong to nothing in the event.
    pub drop_logprobs: bool,
    /// Treatment of the role.
    pub role: RoleEdit,
    /// New `finish_reason`, JSON.
    pub finish: Option<String>,
    /// New delta, JSON.
    pub delta: Option<String>,
    /// Sum of `usage` over all attempts, JSON.
    pub usage: Option<String>,
    /// Removes the usage: it is sent in another event.
    pub drop_usage: bool,
}

impl ChunkEdit<'_> {
    /// True if the event is unchanged.
    pub fn is_nothing(&self) -> bool {
        let kept = self.identity.is_none() && self.texts.is_empty() && self.role == RoleEdit::Keep;
        let dropped = self.drop_calls || self.drop_logprobs || self.drop_usage;
        kept && !dropped && self.finish.is_none() && self.delta.is_none() && self.usage.is_none()
    }
}

/// Members of an event, found in one pass.
#[derive(Default)]
pub struct ChunkFields<'d> {
    /// `error`, also where it is `null`.
    pub error: Option<Value<'d>>,
    /// `x_groq`, unless it is `null`.
    pub groq: Option<Value<'d>>,
    /// `usage`, also where it is `null`.
    pub usage: Option<Value<'d>>,
    /// `choices`.
    pub choices: Option<Value<'d>>,
}

impl<'d> ChunkFields<'d> {
    /// Reads an event.
    pub fn of(root: Value<'d>) -> Self {
        let mut parts = Self::default();
        for member in root.members() {
            match &*member.name() {
                "error" => parts.error = Some(member.value),
                "x_groq" => parts.groq = Some(member.value).filter(|groq| !groq.is_null()),
                "usage" => parts.usage = Some(member.value),
                "choices" => parts.choices = Some(member.value),
                _ => {}
            }
        }
        parts
    }
}

/// The first choice of an event.
pub fn choice_of(document: &Document) -> Option<Value<'_>> {
    document.root().get("choices")?.items().next()
}

/// Delta of a choice; some upstreams name it `message`.
pub fn delta_of(choice: Value<'_>) -> Option<Value<'_>> {
    choice.get_some("delta").or_else(|| choice.get_some("message"))
}

/// Kinds of content that the deltas of a stream had so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeltaSpeech {
    /// Text of the answer.
    pub text: bool,
    /// Calls.
    pub calls: bool,
    /// Anything else, as what was thought.
    pub other: bool,
}

impl DeltaSpeech {
    /// Notes what the deltas of an event say. Where a choice has a whole `message` instead, behind deltas, it is returned without what they
    /// have said: MiniMax ends a stream so (docs/wire-facts.md#odd-answers-to-accept). `None`: the event stays as it is.
    pub fn without_copies(&mut self, document: &Document) -> Option<Document> {
        let before = *self;
        let mut edits = Splices::default();
        for choice in document.root().get("choices").into_iter().flat_map(Value::items) {
            if let Some(delta) = choice.get_some("delta") {
                self.text |= TEXTS.iter().any(|name| delta.get(name).is_some_and(|text| !is_nothing(text)));
                self.calls |= has_calls(delta);
                let is_other = |name: &str| name != "role" && !TEXTS.contains(&name) && !CALLS.contains(&name);
                self.other |= delta.members().any(|member| is_other(&member.name()) && !is_nothing(member.value));
            } else if let Some(message) = choice.get_some("message").filter(|message| message.is_object()) {
                let said = |name: &str| match name {
                    "role" => false,
                    name if CALLS.contains(&name) => before.calls,
                    name if TEXTS.contains(&name) => before.text,
                    _ => before.text || before.other,
                };
                edits.remove_members(message, said);
            }
        }
        if edits.is_empty() { None } else { Document::parse(edits.apply(document.bytes())).ok() }
    }
}

/// True if a message or a delta has calls.
pub fn has_calls(message: Value<'_>) -> bool {
    CALLS.iter().any(|name| message.get(name).is_some_and(|calls| !is_nothing(calls)))
}

/// The value that holds the text of a kind.
pub fn text_value<'d>(delta: Value<'d>, kind: usize) -> Option<Value<'d>> {
    let value = delta.get_some(TEXTS.get(kind)?)?;
    if TEXTS[kind] == "audio" { value.get_some("transcript") } else { Some(value) }
}

/// Ending of a choice in OpenAI's terms: its `finish_reason`, else a substitute (`finish_details`,
/// `native_finish_reason`, `done_reason`). Of the substitutes, only `finish_details` may report a normal end: the
/// others may come early.
pub fn finish_of(choice: Value<'_>) -> Option<String> {
    if let Some(own) = choice.get("finish_reason").filter(|own| !is_nothing(*own)) {
        return Some(own.text().map_or_else(|| own.raw_str().to_owned(), Into::into));
    }
    let details = choice.get_some("finish_details");
    let detail = details.and_then(|details| details.get("type").or(Some(details)).and_then(Value::text)).filter(|text| !text.is_empty());
    let other = || {
        let reason = choice.get("incomplete_details").and_then(|details| details.get("reason")).and_then(Value::text);
        let named = ["native_finish_reason", "done_reason", "finishReason"].iter().find_map(|name| choice.get(name).and_then(Value::text));
        named.or(reason).filter(|text| !text.is_empty())
    };
    let plain = detail.is_some();
    match FinishReason::of_finish(&detail.or_else(other)?) {
        FinishReason::Length => Some("length".to_owned()),
        FinishReason::ContentFilter => Some("content_filter".to_owned()),
        FinishReason::Broken => Some("error".to_owned()),
        FinishReason::Complete | FinishReason::Refusal => plain.then(|| "stop".to_owned()),
    }
}

/// True for other names and spellings under which some client might look for a call or a text.
pub fn is_disguise(name: &str) -> bool {
    let names = ["tool_call", "tool_calls", "function_call", "function_calls", "custom_tool_call", "content", "refusal", "audio"];
    names.iter().any(|own| own.eq_ignore_ascii_case(name))
}

/// Writes an event; the original bytes if nothing changes.
pub fn write(event: &SseEvent, document: &Document, changes: &ChunkEdit<'_>) -> Bytes {
    let root = document.root();
    // Nearly every event of nearly every stream.
    let renamed = || choice_of(document).is_some_and(|choice| choice.get("message").is_some());
    if event.plain && changes.is_nothing() && root.get("toolmark").is_none() && !renamed() {
        return event.raw.clone();
    }
    let mut edits = Splices::default();
    if let Some(identity) = changes.identity {
        identity.write(&mut edits, root);
    }
    if let Some(choice) = choice_of(document) {
        write_choice(&mut edits, choice, changes);
    }
    if let Some(usage) = root.get_some("usage") {
        match &changes.usage {
            Some(sum) => edits.replace(usage.span(), sum.as_str()),
            None if changes.drop_usage => edits.replace(usage.span(), "null"),
            None => {}
        }
    }
    // The verdict is toolmark's to give; padding against guessing sizes belongs to the event that came.
    edits.remove_members(root, |name| name == "toolmark" || (changes.delta.is_some() && name == "obfuscation"));
    if edits.is_empty() && event.plain {
        return event.raw.clone();
    }
    frame(&edits.apply(document.bytes()))
}

fn write_choice(edits: &mut Splices, choice: Value<'_>, changes: &ChunkEdit<'_>) {
    if let (Some(finish), Some(old)) = (&changes.finish, choice.get("finish_reason")) {
        edits.replace(old.span(), finish.as_str());
    } else if let Some(finish) = &changes.finish {
        edits.append_member(choice, &format!("\"finish_reason\":{finish}"));
    }
    let message = choice.members().find(|member| member.is("message") && !member.value.is_null());
    match (message, choice.get_some("delta")) {
        // Clients look for a delta.
        (Some(message), None) => {
            edits.remove_members(choice, |name| name == "delta");
            edits.replace(message.key.span(), "\"delta\"");
        }
        // Perplexity repeats here what the deltas have said so far; nothing of it was judged.
        (Some(_), Some(_)) => edits.remove_members(choice, |name| name == "message"),
        (None, _) => {}
    }
    let Some(delta) = delta_of(choice) else {
        let bare = if changes.role == RoleEdit::Add { "{\"role\":\"assistant\"}" } else { "{}" };
        // Clients look for one in every choice.
        edits.set_member(choice, "delta", changes.delta.as_deref().unwrap_or(bare));
        return;
    };
    if let Some(new) = &changes.delta {
        edits.replace(delta.span(), new.as_str());
        if let Some(logprobs) = choice.get_some("logprobs") {
            edits.replace(logprobs.span(), "null");
        }
        return;
    }
    let gone = |name: &str| (changes.drop_calls && CALLS.contains(&name)) || (changes.role == RoleEdit::Drop && name == "role");
    edits.remove_members(delta, gone);
    if let (RoleEdit::Add, Some(role)) = (changes.role, delta.get("role")) {
        edits.replace(role.span(), "\"assistant\"");
    } else if changes.role == RoleEdit::Add {
        let stays = delta.members().any(|member| !gone(&member.name()));
        let at = if stays { delta.span().start + 1 } else { delta.span().end - 1 };
        edits.insert(at, if stays { "\"role\":\"assistant\"," } else { "\"role\":\"assistant\"" });
    }
    for (kind, text) in &changes.texts {
        if let Some(value) = text_value(delta, *kind) {
            edits.replace(value.span(), quote(text));
        }
    }
    if (!changes.texts.is_empty() || changes.drop_calls || changes.drop_logprobs)
        && let Some(logprobs) = choice.get_some("logprobs")
    {
        // They spell out what was taken away.
        edits.replace(logprobs.span(), "null");
    }
}

/// Frames `data` as an event.
pub fn frame(data: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(data.len() + 16);
    out.extend_from_slice(b"data: ");
    out.extend_from_slice(&one_line(data));
    out.extend_from_slice(b"\n\n");
    out.into()
}

/// The `finish_reason` that fits the calls, as JSON; `None` if the upstream's does. Source:
/// docs/wire-facts.md#emission-rules, rule 10.
pub fn fitting_finish(reason: Option<&str>, calls: usize, kind: CallKind) -> Option<&'static str> {
    let (own, quoted) = if kind == CallKind::Legacy { ("function_call", "\"function_call\"") } else { ("tool_calls", "\"tool_calls\"") };
    match (reason, calls > 0) {
        (Some(said), true) if said == own => None,
        (Some("length" | "content_filter"), _) => None,
        (_, true) => Some(quoted),
        (None | Some("" | "tool_calls" | "function_call" | "tool_use" | "end_turn"), false) => Some("\"stop\""),
        (Some(_), false) => None,
    }
}

/// Parsed data of a one-line event.
pub fn data_of(event: &Bytes) -> Option<Document> {
    let mut parser = sse::SseParser::default();
    let mut data = None;
    parser.handle(event.clone(), |event| data = event.data).ok()?;
    Document::parse(data?).ok()
}

/// A one-line event with `usage` set.
pub fn with_usage(event: &Bytes, usage: &str) -> Bytes {
    let Some(document) = data_of(event) else { return event.clone() };
    let mut edits = Splices::default();
    edits.set_member(document.root(), "usage", usage);
    frame(&edits.apply(document.bytes()))
}

/// A one-line event with the verdict as a member.
pub fn with_member(event: Bytes, verdict: &str) -> Bytes {
    let Some(document) = data_of(&event) else { return event };
    let mut edits = Splices::default();
    edits.set_member(document.root(), "toolmark", verdict);
    frame(&edits.apply(document.bytes()))
}
