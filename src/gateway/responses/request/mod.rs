//! A Responses request: read once, before an upstream is chosen and the conversation's state is looked up.
//!
//! Source: OpenAI API reference, "Create a model response". Pure. Members that toolmark doesn't use pass unread; a
//! member that it needs and can't read is refused here. [`crate::responses::request::prepare`] builds the upstream's request.

pub mod exhibit;
pub mod input_items;
pub mod material;
pub mod named;
pub mod prepare;
pub mod statefulness;
#[cfg(test)]
pub(super) mod tests;
pub mod tools;

use std::{borrow::Cow, collections::HashSet, sync::Arc};

use foldhash::quality::RandomState;

pub use crate::{
    exchange::conversation::recalled::{Recalled, Wanted},
    policy::Stateful,
};
use crate::{
    exchange::{
        context::{Basis, Begun},
        error::{Refusal, array, unique, unique_in_request},
        tool_set::{Brought, Dialect},
    },
    openai::content::text_of,
    wire::json::{Document, Value},
};
use input_items::{InputItem, Kind, read_items};

/// Depth to which a request is indexed: `input[].content[].text`, and an object there.
pub const DEPTH_NOTED: usize = 5;

/// Members of a request that toolmark uses.
#[derive(Clone, Debug)]
pub struct Head<'d> {
    /// Model requested; empty if the request has none.
    pub model: Cow<'d, str>,
    /// Server-sent events are requested.
    pub stream: bool,
    /// `text.format` asks for JSON.
    pub json_only: bool,
    /// The upstream is asked to store the response, which is the default.
    pub store: bool,
    /// `previous_response_id`
    pub previous: Option<Cow<'d, str>>,
    /// Id of the conversation, given as a string or in an object.
    pub conversation: Option<String>,
    /// The response is to be made in the background.
    pub background: bool,
    /// `instructions`, unless `null`.
    pub(super) instructions: Option<Value<'d>>,
    /// The request has a `prompt`, which may have instructions of its own.
    pub(super) prompt: bool,
    pub(super) tools: Option<Value<'d>>,
    pub(super) input: Input<'d>,
}

/// Input of a request.
#[derive(Clone, Debug)]
pub(super) enum Input<'d> {
    /// The request has no input.
    Absent,
    /// A string: the user's message.
    Text(Value<'d>),
    /// The array and its items.
    Items(Value<'d>, Vec<InputItem<'d>>),
}

impl<'d> Head<'d> {
    /// Reads the members that are needed before an upstream is chosen and anything is looked up.
    ///
    /// # Errors
    /// [`Refusal`] for members of the wrong type, and for two members of the same name where it matters.
    pub fn read(document: &'d Document) -> Result<Self, Refusal> {
        let root = document.root();
        if !root.is_object() {
            return Err(Refusal::new("invalid_request", None, "the request must be a JSON object"));
        }
        unique_in_request(root, "the request")?;
        let mut head = Self::empty();
        for member in root.members().filter(|member| !member.value.is_null()) {
            head.take(&member.name(), member.value)?;
        }
        if matches!(head.input, Input::Absent) && !head.prompt && head.previous.is_none() && head.conversation.is_none() {
            return Err(Refusal::new("invalid_request", Some("input"), "`input` is missing"));
        }
        Ok(head)
    }

    fn empty() -> Self {
        Self {
            model: Cow::Borrowed(""),
            stream: false,
            json_only: false,
            store: true,
            previous: None,
            conversation: None,
            background: false,
            instructions: None,
            prompt: false,
            tools: None,
            input: Input::Absent,
        }
    }

    fn take(&mut self, name: &str, value: Value<'d>) -> Result<(), Refusal> {
        match name {
            "model" => self.model = text(value, name)?,
            "stream" => self.stream = flag(value, name)?,
            "store" => self.store = flag(value, name)?,
            "background" => self.background = flag(value, name)?,
            "previous_response_id" => self.previous = Some(text(value, name)?),
            "conversation" => self.conversation = Some(conversation(value)?),
            "prompt" => self.prompt = true,
            "tools" => self.tools = Some(array(value, name)?),
            "text" => {
                unique(value, "`text`")?;
                let Some(format) = value.get_some("format") else { return Ok(()) };
                unique(format, "`text.format`")?;
                let kind = format.get("type").and_then(Value::text);
                self.json_only = matches!(kind.as_deref(), Some("json_object" | "json_schema"));
            }
            "tool_choice" => {
                unique(value, "`tool_choice`")?;
                value.get("tools").into_iter().flat_map(Value::items).try_for_each(|tool| unique(tool, "a tool of `tool_choice`"))?;
            }
            "instructions" => {
                text(value, name)?;
                self.instructions = Some(value);
            }
            "input" if value.is_string() => self.input = Input::Text(value),
            "input" if value.is_array() => self.input = Input::Items(value, read_items(value)?),
            "input" => return Err(Refusal::wrong("input", "a string or an array")),
            _ => {}
        }
        Ok(())
    }

    pub(super) fn items(&self) -> &[InputItem<'d>] {
        match &self.input {
            Input::Items(_, items) => items,
            Input::Absent | Input::Text(_) => &[],
        }
    }

    /// The array of the input's items.
    pub(super) fn array(&self) -> Option<Value<'d>> {
        match self.input {
            Input::Items(array, _) => Some(array),
            Input::Absent | Input::Text(_) => None,
        }
    }

    /// Keys to look up before the request can be prepared.
    pub fn wanted(&self) -> Wanted {
        let ids = |of: fn(Kind) -> bool| self.items().iter().filter(move |item| of(item.kind)).filter_map(InputItem::call_id);
        let mut seen: HashSet<_, RandomState> = ids(Kind::is_call).collect();
        let calls = ids(Kind::is_output).filter(|id| !id.is_empty() && seen.insert(id.clone())).map(Cow::into_owned).collect();
        let mut seen: HashSet<_, RandomState> = HashSet::default();
        let items = self.items().iter().filter_map(InputItem::id);
        let items = items.filter(|id| !id.is_empty() && seen.insert(id.clone())).map(Cow::into_owned).collect();
        let response = self.previous.as_deref().map(str::to_owned);
        Wanted { response, conversation: self.conversation.clone(), calls, items }
    }

    /// The request's tools. `further`: arrays from input items.
    pub fn brought<'x>(&'x self, further: &'x [Arc<str>]) -> Brought<'x> {
        Brought { dialect: Dialect::Flat, array: self.tools, further }
    }

    /// Arrays of tools from input items: JSON, in order.
    pub fn further_tools(&self) -> Vec<Arc<str>> {
        let brings = self.items().iter().filter(|item| item.kind == Kind::Tools);
        brings.filter_map(|item| item.value.get_some("tools")).map(|tools| tools.raw_str().into()).collect()
    }

    /// Texts of the conversation's own data: those of users, tools and instructions, without the model's.
    pub fn data(&self) -> Vec<String> {
        let mut data: Vec<String> = Vec::new();
        data.extend(self.instructions.and_then(Value::text).map(Cow::into_owned));
        if let Input::Text(text) = self.input {
            data.extend(text.text().map(Cow::into_owned));
        }
        for item in self.items() {
            let said = match item.kind {
                Kind::Assistant | Kind::Call(_) | Kind::Reference => None,
                Kind::User | Kind::Instructions => item.content().and_then(text_of),
                Kind::Output(_) => item.output().and_then(text_of),
                Kind::Tools => item.value.get("tools").map(|tools| tools.raw_str().into()),
                // A message of another role than the known ones.
                Kind::Other if item.value.get_some("role").is_some() => item.content().and_then(text_of),
                // Results of tools that the upstream runs: what of such an item isn't the model's.
                Kind::Other => ["output", "results"].iter().find_map(|name| item.value.get_some(name)).map(|value| match value.text() {
                    Some(text) => text,
                    None => value.raw_str().into(),
                }),
            };
            data.extend(said.map(Cow::into_owned));
        }
        data.extend(self.tools.map(|tools| tools.raw_str().to_owned()));
        data
    }
}

/// Reads, verifies and prepares a request, and starts its exchange. `further`: arrays of tools from the items of this
/// request and earlier ones.
///
/// # Errors
/// [`Refusal`] for a shape that can't be judged, and for anything that the policy doesn't allow.
pub fn begin(
    document: &Document,
    head: &Head<'_>,
    recalled: &Recalled,
    further: Vec<Arc<str>>,
    basis: Basis<'_>,
) -> Result<Begun, Refusal> {
    let mut prepared = prepare::prepare(document, head, recalled, &basis)?;
    prepared.hidden.tools = further;
    Ok(Begun::new(document, prepared, basis))
}

fn text<'d>(value: Value<'d>, name: &str) -> Result<Cow<'d, str>, Refusal> {
    value.text().ok_or_else(|| Refusal::wrong(name, "a string"))
}

fn flag(value: Value<'_>, name: &str) -> Result<bool, Refusal> {
    match value.raw() {
        b"true" => Ok(true),
        b"false" => Ok(false),
        _ => Err(Refusal::wrong(name, "`true` or `false`")),
    }
}

fn conversation(value: Value<'_>) -> Result<String, Refusal> {
    unique_in_request(value, "`conversation`")?;
    let id = value.text().or_else(|| value.get("id").and_then(Value::text));
    id.map(Cow::into_owned).ok_or_else(|| Refusal::wrong("conversation", "a string, or an object with an `id`"))
}
