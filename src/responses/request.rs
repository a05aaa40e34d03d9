//! A Responses request: read once, before its policy's upstream and what is remembered of its conversation are known.
//!
//! Source: OpenAI API reference, "Create a model response". Pure. What toolmark needs not understand passes; what
//! it must understand and can't is refused here. What goes upstream is [`super::prepare`]'s.

use std::{borrow::Cow, collections::HashSet, sync::Arc};

use super::{
    items::{InputItem, Kind, read_items},
    prepare,
};
pub use crate::policy::Stateful;
use crate::{
    chat::messages::text_of,
    exchange::{
        context::{Basis, Begun},
        refusal::{Refusal, array, unique},
        thread::{Fate, KnownCall, Thread},
        tools::{Brought, Dialect},
    },
    wire::json::{Document, Value},
};

/// How deep a request must be known: `input[].content[].text`, and an object there.
pub const DEPTH_NOTED: usize = 5;

/// What a request says, as far as toolmark must know.
#[derive(Clone, Debug)]
pub struct Head<'d> {
    /// The model asked for; empty where none is named.
    pub model: Cow<'d, str>,
    /// Server-sent events are asked for.
    pub stream: bool,
    /// `text.format` asks for JSON.
    pub json_only: bool,
    /// The upstream is to keep the response; so by default.
    pub store: bool,
    /// `previous_response_id`
    pub previous: Option<Cow<'d, str>>,
    /// The conversation's id, given as such or in an object.
    pub conversation: Option<String>,
    /// The response is to be made in the background.
    pub background: bool,
    /// `instructions`, unless `null`.
    pub(super) instructions: Option<Value<'d>>,
    /// There is a `prompt`, which may bring instructions of its own.
    pub(super) prompt: bool,
    pub(super) tools: Option<Value<'d>>,
    pub(super) input: Input<'d>,
}

/// The input as it lies in the request.
#[derive(Clone, Debug)]
pub(super) enum Input<'d> {
    /// There is none.
    Absent,
    /// What the user says.
    Text(Value<'d>),
    /// The array, and what is in it.
    Items(Value<'d>, Vec<InputItem<'d>>),
}

/// What must be looked up before a request can be prepared.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Wanted {
    /// The `call_id`s of results whose calls aren't in the input.
    pub calls: Vec<String>,
    /// The ids of items: those referred to, and those of the input's own that have one.
    pub items: Vec<String>,
}

/// What was looked up.
#[derive(Clone, Debug, Default)]
pub struct Recalled {
    /// The conversation up to this request, where the upstream keeps it.
    pub thread: Option<Arc<Thread>>,
    /// Calls let through, by the ids that the application knows them by.
    pub calls: Vec<(String, KnownCall)>,
    /// Items by their ids.
    pub items: Vec<(String, Fate)>,
}

impl<'d> Head<'d> {
    /// Reads what must be known before an upstream is chosen and anything looked up.
    ///
    /// # Errors
    /// [`Refusal`] for members of a wrong type and for two members of one name where it matters.
    pub fn read(document: &'d Document) -> Result<Self, Refusal> {
        let root = document.root();
        if !root.is_object() {
            return Err(Refusal::new("invalid_request", None, "the request must be a JSON object"));
        }
        unique(root, "the request")?;
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

    /// What must be looked up before the request can be prepared.
    pub fn wanted(&self) -> Wanted {
        let ids = |of: fn(Kind) -> bool| self.items().iter().filter(move |item| of(item.kind)).filter_map(InputItem::call_id);
        let mut seen: HashSet<_> = ids(Kind::is_call).collect();
        let calls = ids(Kind::is_output).filter(|id| !id.is_empty() && seen.insert(id.clone())).map(Cow::into_owned).collect();
        let mut seen = HashSet::new();
        let items = self.items().iter().filter_map(InputItem::id);
        let items = items.filter(|id| !id.is_empty() && seen.insert(id.clone())).map(Cow::into_owned).collect();
        Wanted { calls, items }
    }

    /// The tools that it brings. `further`: arrays that came in through items.
    pub fn brought<'x>(&'x self, further: &'x [Arc<str>]) -> Brought<'x> {
        Brought { dialect: Dialect::Flat, array: self.tools, further }
    }

    /// Arrays of tools that came in through input items: JSON, in their order.
    pub fn further_tools(&self) -> Vec<Arc<str>> {
        let brings = self.items().iter().filter(|item| item.kind == Kind::Tools);
        brings.filter_map(|item| item.value.get_some("tools")).map(|tools| tools.raw_str().into()).collect()
    }

    /// The conversation's own data as text: what users, tools and instructions said, not the model.
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

/// Reads, verifies and prepares a request: an exchange begins. `further`: arrays of tools from items, this
/// request's and earlier ones'.
///
/// # Errors
/// [`Refusal`] for a shape that can't be judged, and for what the policy doesn't take.
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
    unique(value, "`conversation`")?;
    let id = value.text().or_else(|| value.get("id").and_then(Value::text));
    id.map(Cow::into_owned).ok_or_else(|| Refusal::wrong("conversation", "a string, or an object with an `id`"))
}
