//! Items of a request's input: their meaning, and their position in the request.
//!
//! Source: OpenAI API reference, "Create a model response", `input`; docs/wire-facts.md#responses-requests. Pure.

use std::{borrow::Cow, collections::HashSet, sync::Arc};

use crate::{
    exchange::error::{Refusal, array, unique, unique_in_request},
    judge::{
        call::CallKind,
        history::{HistoryItem, PastCall, memo::ItemMemo, result_classifier::ResultClassifier},
    },
    openai::content::{arguments_text, compared, text_of},
    responses::{call_name::tool_name, output_items::is_x_search},
    tools::registry::Registry,
    wire::json::Value,
};

/// Kind of an input item.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// A system or developer message.
    Instructions,
    /// A user message.
    User,
    /// A message of the model.
    Assistant,
    /// A call for the application to run.
    Call(CallKind),
    /// Output of such a call.
    Output(CallKind),
    /// A reference to an item that the upstream stores.
    Reference,
    /// An item that adds tools.
    Tools,
    /// Anything else.
    Other,
}

/// One item of the input.
#[derive(Clone, Copy, Debug)]
pub struct InputItem<'d> {
    /// The item's object in the request.
    pub value: Value<'d>,
    /// Kind of the item.
    pub kind: Kind,
    members: ItemMembers<'d>,
}

/// Members of an item that are read, found in one pass.
#[derive(Clone, Copy, Debug, Default)]
struct ItemMembers<'d> {
    kind: Option<Value<'d>>,
    role: Option<Value<'d>>,
    id: Option<Value<'d>>,
    call_id: Option<Value<'d>>,
    name: Option<Value<'d>>,
    namespace: Option<Value<'d>>,
    arguments: Option<Value<'d>>,
    input: Option<Value<'d>>,
    content: Option<Value<'d>>,
    output: Option<Value<'d>>,
    caller: Option<Value<'d>>,
}

impl<'d> ItemMembers<'d> {
    fn of(item: Value<'d>) -> Self {
        let mut members = Self::default();
        for member in item.members() {
            let place = match &*member.name() {
                "type" => &mut members.kind,
                "role" => &mut members.role,
                "id" => &mut members.id,
                "call_id" => &mut members.call_id,
                "name" => &mut members.name,
                "namespace" => &mut members.namespace,
                "arguments" => &mut members.arguments,
                "input" => &mut members.input,
                "content" => &mut members.content,
                "output" => &mut members.output,
                "caller" => &mut members.caller,
                _ => continue,
            };
            *place = Some(member.value);
        }
        members
    }
}

/// The value unless it is `null`.
fn some(value: Option<Value<'_>>) -> Option<Value<'_>> {
    value.filter(|value| !value.is_null())
}

impl Kind {
    /// True for a call for the application to run.
    pub fn is_call(self) -> bool {
        matches!(self, Self::Call(_))
    }

    /// True for the output of such a call.
    pub fn is_output(self) -> bool {
        matches!(self, Self::Output(_))
    }

    fn of(item: &ItemMembers<'_>) -> Result<Self, Refusal> {
        let has = |member: Option<Value<'_>>| some(member).is_some();
        let kind = match some(item.kind) {
            Some(kind) => kind.text().ok_or_else(|| Refusal::wrong("input", "an array of items whose `type` is a string"))?,
            // Easy messages and references may leave it out; calls and outputs may not, but an upstream may guess.
            None if has(item.role) => "message".into(),
            None if has(item.call_id) && has(item.output) => "function_call_output".into(),
            None if has(item.call_id) && has(item.name) => "function_call".into(),
            None if has(item.id) => "item_reference".into(),
            None => return Ok(Self::Other),
        };
        Ok(match &*kind {
            "message" => {
                let role = item.role.and_then(Value::text);
                match role.ok_or_else(|| Refusal::wrong("input", "an array of items, the messages with a `role`"))?.as_ref() {
                    "user" => Self::User,
                    "assistant" => Self::Assistant,
                    "system" | "developer" => Self::Instructions,
                    _ => Self::Other,
                }
            }
            "function_call" => Self::Call(CallKind::Function),
            "custom_tool_call" => Self::Call(CallKind::Custom),
            "function_call_output" => Self::Output(CallKind::Function),
            "custom_tool_call_output" => Self::Output(CallKind::Custom),
            "item_reference" => Self::Reference,
            "tool_search_output" | "additional_tools" => Self::Tools,
            _ => Self::Other,
        })
    }
}

impl<'d> InputItem<'d> {
    /// Reads an item.
    ///
    /// # Errors
    /// [`Refusal`] if it isn't an object, has two members of the same name, or a shape that can't be judged.
    pub fn read(value: Value<'d>) -> Result<Self, Refusal> {
        if !value.is_object() {
            return Err(Refusal::wrong("input", "a string or an array of objects"));
        }
        unique_in_request(value, "an item of `input`")?;
        let members = ItemMembers::of(value);
        let item = Self { value, kind: Kind::of(&members)?, members };
        let mut parts = item.content().into_iter().chain(item.output()).flat_map(Value::items);
        parts.try_for_each(|part| unique(part, "a part of an item of `input`"))?;
        if item.kind == Kind::Tools
            && let Some(tools) = value.get_some("tools")
        {
            array(tools, "input")?;
        }
        Ok(item)
    }

    /// Id of the item itself.
    pub fn id(&self) -> Option<Cow<'d, str>> {
        self.members.id.and_then(Value::text)
    }

    /// The `call_id` of a call or output, as a value in the request.
    pub fn call_id_value(&self) -> Option<Value<'d>> {
        let of_call = self.kind.is_call() || self.kind.is_output();
        self.members.call_id.filter(|id| of_call && id.is_string())
    }

    /// The `call_id` of a call or output.
    pub fn call_id(&self) -> Option<Cow<'d, str>> {
        self.call_id_value().and_then(Value::text)
    }

    /// True for a call that code in a sandbox of the upstream makes, and for its output, if it says so: the code reads it.
    pub fn is_programmatic(&self) -> bool {
        let kind = some(self.members.caller).and_then(|caller| caller.get("type"));
        kind.is_some_and(|kind| !kind.is_text("direct"))
    }

    /// Content of a message.
    pub fn content(&self) -> Option<Value<'d>> {
        some(self.members.content)
    }

    /// Content of an output.
    pub fn output(&self) -> Option<Value<'d>> {
        some(self.members.output).filter(|_| self.kind.is_output())
    }
}

/// Reads the items of an input array.
///
/// # Errors
/// As [`InputItem::read`].
pub fn read_items(input: Value<'_>) -> Result<Vec<InputItem<'_>>, Refusal> {
    input.items().map(InputItem::read).collect()
}

/// The items as history, one element for each. `gone` tells if the item at an index is not sent to the upstream; `large`:
/// bytes above which a result is large; `memo`: what was read from each item before, empty or as long as `items`.
pub fn history<'d>(
    items: &[InputItem<'d>],
    registry: &Registry,
    natures: &ResultClassifier,
    large: u64,
    memo: &'d [Arc<ItemMemo>],
    gone: impl Fn(usize) -> bool,
) -> Vec<HistoryItem<'d>> {
    // Results of built-in calls, as a search for tools, come as a function's too.
    let built_in: HashSet<Cow<'d, str>> =
        items.iter().filter(|item| item.kind == Kind::Other).filter_map(|item| item.members.call_id?.text()).collect();
    let has_built_in = !built_in.is_empty();
    let of_built_in =
        |item: &InputItem<'d>| has_built_in && item.kind.is_output() && item.call_id().is_some_and(|id| built_in.contains(&id));
    let memo_at = |at: usize| memo.get(at).map(|memo| &**memo);
    let step = |(at, item): (usize, &InputItem<'d>)| match item.kind {
        _ if gone(at) || of_built_in(item) => HistoryItem::Other,
        Kind::Assistant => HistoryItem::Assistant(Vec::new()),
        // It came without a mark, and comes back without one.
        Kind::Call(CallKind::Custom) if item.members.name.and_then(Value::text).is_some_and(|name| is_x_search(&name, registry)) => {
            HistoryItem::Other
        }
        Kind::Call(_) => HistoryItem::Assistant(vec![past_call(item, registry, memo_at(at))]),
        Kind::Output(_) => {
            let raw = item.output().map_or(Cow::Borrowed(""), compared);
            let text = || item.output().and_then(text_of).unwrap_or_default();
            HistoryItem::Result(natures.result(item.call_id(), None, raw, large, memo_at(at), text))
        }
        Kind::User => HistoryItem::User,
        Kind::Instructions | Kind::Reference | Kind::Tools | Kind::Other => HistoryItem::Other,
    };
    items.iter().enumerate().map(step).collect()
}

fn past_call<'d>(item: &InputItem<'d>, registry: &Registry, memo: Option<&'d ItemMemo>) -> PastCall<'d> {
    let arguments = if item.kind == Kind::Call(CallKind::Custom) { item.members.input } else { item.members.arguments };
    let name = item.members.name.and_then(Value::text).unwrap_or_default();
    let namespace = item.members.namespace.and_then(Value::text);
    let name = match namespace {
        Some(namespace) => tool_name(registry, Some(&namespace), &name).into(),
        None => name,
    };
    let memo = memo.and_then(|memo| memo.calls(1).first());
    // Without an id it can't be told from any other.
    PastCall { id: Some(item.call_id().unwrap_or_default()), name, arguments: arguments_text(arguments), memo }
}
