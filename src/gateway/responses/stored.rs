//! Filters data that the upstream stores when it is read back: items of conversations and requests, and the objects
//! around them.
//!
//! Of the model's messages and calls, only those pass that the application was given before, or wrote itself, and in
//! the form it was given: with marks instead of the upstream's ids. Rejected ones, and those that can't be told from
//! them, are left out. Items with nothing to run (texts of users and tools, work of the upstream's own tools) pass.
//! Pure.
//!
//! Source: OpenAI API reference, "Conversations", "Responses: input items".

use std::collections::{HashMap, HashSet};

use bytes::Bytes;

use crate::{
    exchange::{
        context::Context,
        conversation::{Fate, KnownCall, digest},
        error::{Fault, ShapeError, unique},
        text::places::is_call_part,
    },
    judge::{call::CallKind, history::calls::call_digest, messages, text::TextGate},
    openai::content::text_of,
    responses::{
        output_items::{is_like_call, nests_call},
        request::input_items::{InputItem, Kind},
    },
    violation::Violation,
    wire::json::{Document, Value, splice::Splices, string::quote},
};

/// Item types of the upstream's own tools, and others with nothing that an application runs.
const PASSING: [&str; 18] = [
    "reasoning",
    "web_search_call",
    "file_search_call",
    "code_interpreter_call",
    "image_generation_call",
    "mcp_call",
    "mcp_list_tools",
    "mcp_approval_response",
    "program",
    "program_output",
    "compaction",
    "context_compaction",
    "compaction_summary",
    "computer_call_output",
    "local_shell_call_output",
    "shell_call_output",
    "apply_patch_call_output",
    "item_reference",
];

/// Types of items that stand for earlier ones.
const COMPACTIONS: [&str; 3] = ["compaction", "context_compaction", "compaction_summary"];

/// Known state of the data that the upstream stores.
pub struct StoredKnowledge<'k> {
    /// Items of answers as the application got them, by id: JSON.
    pub given: HashMap<String, String>,
    /// Disposition of an item, by id.
    pub fate: &'k dyn Fn(&str) -> Option<Fate>,
    /// Mark of a call, by the upstream's id.
    pub mark: &'k dyn Fn(&str) -> Option<String>,
    /// The call that was passed on with a mark.
    pub call: &'k dyn Fn(&str) -> Option<KnownCall>,
    /// True if a call with this mark, tool and arguments was passed on.
    pub verifies: &'k dyn Fn(&str, &str, &str) -> bool,
    /// True for a mark of toolmark's.
    pub is_mark: &'k dyn Fn(&str) -> bool,
    /// [`digest`]s of assistant texts that the application wrote.
    pub written: &'k [u64],
    /// The texts of compactions were judged.
    pub judged: bool,
}

/// Items that may be passed on.
#[derive(Debug, Default, Eq, PartialEq)]
pub struct ForwardedItems {
    /// The items: JSON.
    pub items: Vec<String>,
    /// Number of items left out because nothing is known of them.
    pub unknown: usize,
}

/// Treatment of an item.
enum ItemTreatment {
    Passes(String),
    /// It was rejected, or is toolmark's own.
    Gone,
    Unknown,
}

impl StoredKnowledge<'_> {
    /// Filters the items of an array.
    ///
    /// # Errors
    /// [`Fault`] if it isn't an array of items.
    pub fn items(&self, array: Value<'_>) -> Result<ForwardedItems, Fault> {
        if !array.is_array() {
            return Err(Fault::Unknown("no list of items"));
        }
        let (mut rulings, mut gone) = (Vec::new(), HashSet::new());
        for value in array.items() {
            if !value.is_object() {
                return Err(ShapeError::NoObject.into());
            }
            unique(value, "an item").map_err(|_| ShapeError::Duplicate)?;
            let ruling = if is_output(value) { None } else { Some(self.ruling(value, &HashSet::new())) };
            if matches!(ruling, Some(ItemTreatment::Gone | ItemTreatment::Unknown)) {
                // A result without its call would be refused wherever it is sent.
                gone.extend(value.get("call_id").and_then(Value::text).map(|id| id.into_owned()));
            }
            rulings.push((value, ruling));
        }
        // Lists come in either order: results are looked at when all calls are known.
        let mut passed = ForwardedItems::default();
        for (value, ruling) in rulings {
            match ruling.unwrap_or_else(|| self.ruling(value, &gone)) {
                ItemTreatment::Passes(json) => passed.items.push(json),
                ItemTreatment::Unknown => passed.unknown += 1,
                ItemTreatment::Gone => {}
            }
        }
        Ok(passed)
    }

    fn ruling(&self, value: Value<'_>, gone: &HashSet<String>) -> ItemTreatment {
        let Ok(item) = InputItem::read(value) else { return ItemTreatment::Unknown };
        let id = item.id().unwrap_or_default();
        // A rejected call and the output that toolmark sent for it have one id.
        let is_dropped = |id: &str| matches!((self.fate)(id), Some(Fate::Dropped));
        if is_dropped(&id) || item.call_id().is_some_and(|id| is_dropped(&id)) {
            return ItemTreatment::Gone;
        }
        let kind = value.get("type").and_then(Value::text).unwrap_or_default();
        if let Some(given) = self.given.get(&*id).filter(|given| is_of_type(given, &kind)) {
            return ItemTreatment::Passes(given.clone());
        }
        match item.kind {
            Kind::User | Kind::Instructions => said(&item),
            Kind::Assistant => self.assistant(&item),
            Kind::Call(kind) => self.call(&item, kind),
            Kind::Output(_) => self.output(&item, gone),
            // Rebuilt: what lacks a type reads as a reference, and may be anything.
            Kind::Reference if kind == "item_reference" => {
                ItemTreatment::Passes(format!("{{\"type\":\"item_reference\",\"id\":{}}}", quote(&id)))
            }
            Kind::Other if COMPACTIONS.contains(&&*kind) && !self.judged && plain_texts(value).next().is_some() => ItemTreatment::Unknown,
            Kind::Other if PASSING.contains(&&*kind) && !nests_call(value) => passing(value, &kind),
            Kind::Reference | Kind::Other | Kind::Tools => ItemTreatment::Unknown,
        }
    }

    /// Treatment of an assistant message: it passes if the application wrote it.
    fn assistant(&self, item: &InputItem<'_>) -> ItemTreatment {
        let text = item.content().and_then(text_of).unwrap_or_default();
        match said(item) {
            // An item without text has the digest of any other such.
            ItemTreatment::Passes(json) if !text.is_empty() && self.written.contains(&digest(&text)) => ItemTreatment::Passes(json),
            _ => ItemTreatment::Unknown,
        }
    }

    fn call(&self, item: &InputItem<'_>, kind: CallKind) -> ItemTreatment {
        if item.value.members().any(|member| matches!(&*member.name(), "function" | "custom" | "tool_calls" | "function_call")) {
            return ItemTreatment::Unknown;
        }
        let text = |name: &str| item.value.get(name).and_then(Value::text);
        let (own, other) = if kind == CallKind::Custom { ("input", "arguments") } else { ("arguments", "input") };
        let (Some(id), Some(name), Some(arguments), None) = (item.call_id(), text("name"), text(own), item.value.get_some(other)) else {
            return ItemTreatment::Unknown;
        };
        let space = text("namespace").filter(|space| !space.is_empty());
        let whole = space.as_ref().map(|space| format!("{space}.{name}"));
        let names = [Some(&*name), whole.as_deref()];
        let Some(mark) = (self.mark)(&id).or_else(|| Some(id.clone().into_owned()).filter(|id| (self.is_mark)(id))) else {
            return ItemTreatment::Unknown;
        };
        let mut changes = Vec::new();
        let is = |tool: &str, arguments: &str| (self.verifies)(&mark, tool, arguments);
        if !names.iter().flatten().any(|tool| is(tool, &arguments)) {
            // It was corrected before it was let through.
            let Some(known) = (self.call)(&mark).filter(|known| names.contains(&Some(&*known.tool))) else { return ItemTreatment::Unknown };
            if call_digest(&known.tool, &known.arguments) != known.digest || !is(&known.tool, &known.arguments) {
                return ItemTreatment::Unknown;
            }
            changes.push((own, quote(&known.arguments)));
        }
        if *id != *mark {
            changes.push(("call_id", quote(&mark)));
        }
        edited(item.value, &changes)
    }

    fn output(&self, item: &InputItem<'_>, gone: &HashSet<String>) -> ItemTreatment {
        let Some(id) = item.call_id().filter(|id| !gone.contains(&**id)) else { return ItemTreatment::Gone };
        match (self.mark)(&id) {
            Some(mark) => edited(item.value, &[("call_id", quote(&mark))]),
            None if (self.is_mark)(&id) => edited(item.value, &[]),
            // Of a call that was never passed on, or that nobody knows.
            None => ItemTreatment::Unknown,
        }
    }
}

/// Treatment of a message by someone other than the model.
fn said(item: &InputItem<'_>) -> ItemTreatment {
    let content = item.content();
    let parts = || content.into_iter().flat_map(Value::items);
    if nests_call(item.value) || is_like_call(item.value) || parts().any(is_call_part) {
        return ItemTreatment::Unknown;
    }
    // What a model was told of an answer that was rejected is toolmark's own.
    let own = content.and_then(text_of).is_some_and(|text| text.starts_with(messages::OBJECTION));
    if own && item.kind == Kind::User { ItemTreatment::Gone } else { ItemTreatment::Passes(item.value.raw_str().to_owned()) }
}

/// True for the output of a call.
fn is_output(value: Value<'_>) -> bool {
    InputItem::read(value).is_ok_and(|item| item.kind.is_output())
}

/// Texts of a compaction that can be read: all but its names and what is encrypted.
fn plain_texts(compaction: Value<'_>) -> impl Iterator<Item = String> {
    let own = |name: &str| matches!(name, "type" | "id" | "status" | "object" | "created_by" | "encrypted_content");
    let mut texts = Vec::new();
    for member in compaction.members().filter(|member| !own(&member.name())) {
        texts_in(member.value, &mut texts);
    }
    texts.into_iter()
}

/// Texts in a value, without the types of its parts. What is nested too deeply to be read is one text.
fn texts_in(value: Value<'_>, into: &mut Vec<String>) {
    if value.is_object() || value.is_array() {
        let before = into.len();
        for member in value.members().filter(|member| !member.is("type")) {
            texts_in(member.value, into);
        }
        value.items().for_each(|item| texts_in(item, into));
        let unread = value.members().next().is_none() && value.items().next().is_none() && !is_plain(value);
        if into.len() == before && unread {
            into.push(value.raw_str().to_owned());
        }
    } else if let Some(text) = value.text().filter(|text| !text.is_empty()) {
        into.push(text.into_owned());
    }
}

/// Violations in the texts that a model wrote in place of earlier items: in compactions, and in messages that weren't in the
/// request. `output`: the items.
pub fn compaction_violations(output: Value<'_>, context: &Context) -> Vec<Violation> {
    let mut texts = Vec::new();
    for value in output.items() {
        let Ok(item) = InputItem::read(value) else { continue };
        match item.kind {
            Kind::User | Kind::Instructions => {
                let text = item.content().and_then(text_of).unwrap_or_default();
                let known = |data: &String| *data == *text;
                let earlier = context.hidden.earlier.iter().flat_map(|thread| &thread.data).any(|data| **data == *text);
                texts.extend((!earlier && !context.data().iter().any(known)).then(|| text.into_owned()));
            }
            Kind::Other if value.get("type").and_then(Value::text).is_some_and(|kind| COMPACTIONS.contains(&&*kind)) => {
                texts.extend(plain_texts(value));
            }
            Kind::Assistant | Kind::Call(_) | Kind::Output(_) | Kind::Reference | Kind::Tools | Kind::Other => {}
        }
    }
    texts.iter().filter(|text| !text.is_empty()).flat_map(|text| in_prose(text, context)).collect()
}

fn in_prose(text: &str, context: &Context) -> Vec<Violation> {
    let mut gate = TextGate::default();
    context.take_prose(&mut gate, text);
    gate.violations().to_vec()
}

fn passing(value: Value<'_>, kind: &str) -> ItemTreatment {
    let hosted = kind.ends_with("_call") || kind.ends_with("_output") || kind.starts_with("mcp_");
    let is_call = !hosted && is_like_call(value);
    if is_call { ItemTreatment::Unknown } else { ItemTreatment::Passes(value.raw_str().to_owned()) }
}

fn is_of_type(given: &str, kind: &str) -> bool {
    let document = Document::parse(Bytes::copy_from_slice(given.as_bytes()));
    let own = document.as_ref().ok().and_then(|document| document.root().get("type")).and_then(Value::text);
    own.is_some_and(|own| own == kind || kind.is_empty())
}

/// The item with these members set.
fn edited(value: Value<'_>, members: &[(&str, String)]) -> ItemTreatment {
    if members.is_empty() {
        return ItemTreatment::Passes(value.raw_str().to_owned());
    }
    let Ok(document) = Document::parse(value.raw_bytes()) else { return ItemTreatment::Unknown };
    let mut edits = Splices::default();
    members.iter().for_each(|(name, value)| edits.set_member(document.root(), name, value));
    String::from_utf8(edits.apply(document.bytes()).to_vec()).map_or(ItemTreatment::Unknown, ItemTreatment::Passes)
}

/// IDs of the objects that an answer made.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Ids {
    /// ID of the response.
    pub response: Option<String>,
    /// ID of its conversation.
    pub conversation: Option<String>,
    /// IDs of its items.
    pub items: Vec<String>,
}

impl Ids {
    /// IDs in an answer. `left`: a response, or the event that contains it.
    pub fn of(left: &Bytes) -> Self {
        let Ok(document) = Document::parse(left.clone()) else { return Self::default() };
        let response = response_of(document.root());
        let text = |value: Value<'_>| value.text().map(|text| text.into_owned());
        let conversation = response.get_some("conversation");
        Self {
            response: response.get("id").and_then(text),
            conversation: conversation.and_then(|own| text(own).or_else(|| text(own.get("id")?))),
            items: response.get("output").map(Self::items_of).unwrap_or_default(),
        }
    }

    /// IDs of the items of an array.
    pub fn items_of(array: Value<'_>) -> Vec<String> {
        array.items().filter_map(|item| item.get("id")?.text()).map(|id| id.into_owned()).collect()
    }
}

/// Collects the items of an answer as the application got them, by id. `left`: a response, or the event that contains
/// it.
pub fn given(left: &Bytes, into: &mut HashMap<String, String>) {
    let Ok(document) = Document::parse(left.clone()) else { return };
    let items = response_of(document.root()).get("output").into_iter().flat_map(Value::items);
    for item in items {
        if let Some(id) = item.get("id").and_then(Value::text).filter(|id| !id.is_empty()) {
            into.insert(id.into_owned(), item.raw_str().to_owned());
        }
    }
}

/// The response object in `root`, which is the response itself or the event that ends a stream.
pub fn response_of(root: Value<'_>) -> Value<'_> {
    root.get("response").filter(|response| response.is_object() && root.get("object").is_none()).unwrap_or(root)
}

/// True for an error in place of what was asked for.
pub fn is_error(root: Value<'_>) -> bool {
    let listed = ["output", "data"].iter().any(|name| root.get(name).is_some_and(Value::is_array));
    let response = root.get("object").is_some_and(|object| object.is_text("response"));
    let error = root.get_some("error").is_some_and(|error| !error.is_text(""));
    let flat = root.get("message").is_some_and(Value::is_string) && root.get("code").is_some();
    // An item may have an error of its own, such as a call of an MCP server that failed.
    let item = root.get("type").is_some_and(Value::is_string) && root.get("id").is_some_and(Value::is_string);
    let in_array = root.items().next().is_some_and(|first| first.get("error").is_some());
    in_array || (!listed && !response && !item && (error || flat))
}

/// Page of a list, to be passed on.
#[derive(Debug)]
pub struct Page {
    /// The page with its paging members: JSON.
    pub json: String,
    /// Number of its items.
    pub passed: usize,
    /// Number of items left out because nothing is known of them.
    pub unknown: usize,
    /// ID of the upstream's last item, if there are more behind it.
    pub next: Option<String>,
}

/// A page of a list of items to pass on.
///
/// # Errors
/// [`Fault`] if it isn't a list of items.
pub fn list(document: &Document, known: &StoredKnowledge<'_>) -> Result<Page, Fault> {
    let root = object(document)?;
    let data = root.get("data").ok_or(Fault::Unknown("no list of items"))?;
    let ForwardedItems { items, unknown } = known.items(data)?;
    let mut members = vec!["\"object\":\"list\"".to_owned(), format!("\"data\":[{}]", items.join(","))];
    for name in ["first_id", "last_id", "has_more"] {
        members.extend(root.get(name).filter(|value| is_plain(*value)).map(|value| format!("\"{name}\":{}", value.raw_str())));
    }
    let more = root.get("has_more").is_some_and(|more| more.raw() == b"true");
    let next = data.items().last().and_then(|item| item.get("id")?.text()).filter(|id| more && !id.is_empty());
    let json = format!("{{{}}}", members.join(","));
    Ok(Page { json, passed: items.len(), unknown, next: next.map(|id| id.into_owned()) })
}

/// An object to pass on, reduced to these members, none of which contains anything to run. `id`: the id to give it.
///
/// # Errors
/// [`Fault`] if it isn't an object.
pub fn bare(document: &Document, names: &[&str], id: Option<&str>) -> Result<String, Fault> {
    let root = object(document)?;
    let member = |name: &&str| {
        let value = root.get(name)?;
        let plain = is_plain(value) || (*name == "metadata" && value.is_object() && value.members().all(|member| is_plain(member.value)));
        let own = id.filter(|_| *name == "id" && value.is_string()).map(quote);
        plain.then(|| format!("\"{name}\":{}", own.unwrap_or_else(|| value.raw_str().to_owned())))
    };
    Ok(format!("{{{}}}", names.iter().filter_map(member).collect::<Vec<_>>().join(",")))
}

/// A response that is still being made, without its output, which isn't judged yet; `None` if it is finished.
///
/// # Errors
/// [`Fault`] if it isn't an object.
pub fn unfinished(document: &Document, id: &str) -> Result<Option<String>, Fault> {
    let root = object(document)?;
    let status = root.get("status").and_then(Value::text).unwrap_or_default();
    if !matches!(&*status, "queued" | "in_progress") {
        return Ok(None);
    }
    const PLAIN: [&str; 9] =
        ["object", "created_at", "model", "background", "parallel_tool_calls", "temperature", "top_p", "service_tier", "metadata"];
    let head = bare(document, &PLAIN, None)?;
    let head = head.strip_prefix('{').and_then(|head| head.strip_suffix('}')).unwrap_or_default();
    let comma = if head.is_empty() { "" } else { "," };
    let echo = r#""error":null,"incomplete_details":null,"instructions":null,"output":[],"tools":[],"tool_choice":"auto""#;
    Ok(Some(format!(r#"{{"id":{},"status":"{status}",{head}{comma}{echo},"usage":null}}"#, quote(id))))
}

fn object(document: &Document) -> Result<Value<'_>, Fault> {
    let root = document.root();
    if !root.is_object() {
        return Err(Fault::Unknown("no JSON object"));
    }
    unique(root, "the answer").map_err(|_| Fault::Unknown("two members of one name"))?;
    Ok(root)
}

fn is_plain(value: Value<'_>) -> bool {
    !value.is_object() && !value.is_array() || value.raw() == b"{}" || value.raw() == b"[]"
}

/// True for an object of plain values and of objects with plain values, none of them strings.
pub fn is_figures(value: Value<'_>) -> bool {
    let plain = |value: Value<'_>| !value.is_object() && !value.is_array() && !value.is_string();
    let flat = |value: Value<'_>| plain(value) || (value.is_object() && value.members().all(|member| plain(member.value)));
    value.is_object() && value.members().all(|member| flat(member.value))
}

/// The event stream for a complete response.
pub fn events(response: Value<'_>) -> String {
    let (mut out, mut number) = (String::new(), 0_u64);
    let mut event = |kind: &str, members: String| {
        out.push_str(&format!("event: {kind}\ndata: {{\"type\":\"{kind}\",\"sequence_number\":{number}{members}}}\n\n"));
        number += 1;
    };
    let begun = begun(response);
    event("response.created", format!(",\"response\":{begun}"));
    event("response.in_progress", format!(",\"response\":{begun}"));
    for (at, item) in response.get("output").into_iter().flat_map(Value::items).enumerate() {
        let kind = item.get("type").and_then(Value::text).unwrap_or_default();
        let id = item.get("id").map_or("\"\"", |id| id.raw_str());
        let of = format!(",\"item_id\":{id},\"output_index\":{at}");
        event("response.output_item.added", format!(",\"output_index\":{at},\"item\":{}", opened(item, &kind)));
        if let Some((events, member)) = match &*kind {
            "function_call" => Some(("response.function_call_arguments", "arguments")),
            "custom_tool_call" => Some(("response.custom_tool_call_input", "input")),
            _ => None,
        } {
            let said = item.get(member).map_or("\"\"", |value| value.raw_str());
            let name = item.get("name").filter(|_| member == "arguments").map(|name| format!(",\"name\":{}", name.raw_str()));
            event(&format!("{events}.delta"), format!("{of},\"delta\":{said}"));
            event(&format!("{events}.done"), format!("{of},\"{member}\":{said}{}", name.unwrap_or_default()));
        }
        if kind == "message" {
            for (part, value) in item.get("content").into_iter().flat_map(Value::items).enumerate() {
                let of = format!("{of},\"content_index\":{part}");
                let refuses = value.get("type").is_some_and(|kind| kind.is_text("refusal"));
                let (member, events) = if refuses { ("refusal", "response.refusal") } else { ("text", "response.output_text") };
                let said = value.get(member).map_or("\"\"", |value| value.raw_str());
                event("response.content_part.added", format!("{of},\"part\":{}", with(value, &[(member, "\"\"")])));
                let logprobs = if refuses { "" } else { ",\"logprobs\":[]" };
                event(&format!("{events}.delta"), format!("{of},\"delta\":{said}{logprobs}"));
                event(&format!("{events}.done"), format!("{of},\"{member}\":{said}{logprobs}"));
                event("response.content_part.done", format!("{of},\"part\":{}", value.raw_str()));
            }
        }
        event("response.output_item.done", format!(",\"output_index\":{at},\"item\":{}", item.raw_str()));
    }
    let status = response.get("status").and_then(Value::text).unwrap_or_default();
    let last = match &*status {
        "incomplete" => "response.incomplete",
        "failed" => "response.failed",
        _ => "response.completed",
    };
    event(last, format!(",\"response\":{}", response.raw_str()));
    out
}

/// The response object before any output.
fn begun(response: Value<'_>) -> String {
    let mut members = vec![("output", "[]"), ("status", "\"in_progress\"")];
    members.extend(
        ["usage", "incomplete_details", "error"].into_iter().filter(|name| response.get(name).is_some()).map(|name| (name, "null")),
    );
    members.extend(response.get("output_text").map(|_| ("output_text", "\"\"")));
    with(response, &members)
}

/// An item before any content.
fn opened(item: Value<'_>, kind: &str) -> String {
    let member = match kind {
        "message" => ("content", "[]"),
        "function_call" => ("arguments", "\"\""),
        "custom_tool_call" => ("input", "\"\""),
        _ => return item.raw_str().to_owned(),
    };
    let status = item.get("status").map(|_| ("status", "\"in_progress\""));
    with(item, &[member].into_iter().chain(status).collect::<Vec<_>>())
}

/// The object with these members set.
fn with(value: Value<'_>, members: &[(&str, &str)]) -> String {
    let members: Vec<(&str, String)> = members.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    match edited(value, &members) {
        ItemTreatment::Passes(json) => json,
        ItemTreatment::Gone | ItemTreatment::Unknown => "{}".to_owned(),
    }
}
