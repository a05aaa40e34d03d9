//! A request made to fit the upstream that gets it: by splices, and nothing where nothing is to be changed.
//!
//! Comes last, when all else about the request is decided: parameters that the upstream refuses are left out or said
//! otherwise, ids get its form, and what it wants back with calls is put back where a framework dropped it. What can't
//! be made to fit is refused by name. Source: docs/wire-facts.md#providers. Pure.

pub mod learn;
mod messages;
pub mod presets;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{
    openai::stored_item::is_named_by_id,
    wire::json::{Document, JsonError, Value, splice::Splices, string::quote},
};

/// Highest number of names in a path of `drop`, as in `tools.function.parameters.$schema`.
pub const PATH_DEPTH_MAX: usize = 4;

/// Quirks of a provider, applied to an upstream's requests.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Quirks {
    /// Paths of members that are dropped, as `logprobs` or `messages.name`; paths go through arrays.
    pub drop: Vec<Box<str>>,
    /// Values that are replaced by the upstream's names for them.
    pub map: Vec<ParameterMapping>,
    /// Values that are added if the request sets none.
    pub defaults: Vec<ParameterDefault>,
    /// All tools must have the same value of `strict`: if they differ, it is dropped from all.
    pub uniform_strict: bool,
    /// Drops members that are `null` from assistant messages.
    pub drop_nulls: bool,
    /// Shortens call ids to nine alphanumerics.
    pub short_ids: bool,
    /// Provider extras that must be sent back with calls.
    pub put_back: ExtrasToRestore,
    /// Its errors are converted to OpenAI's error format.
    pub wrap_errors: bool,
    /// It accepts tools of type `custom`.
    pub custom_tools: bool,
}

impl std::default::Default for Quirks {
    fn default() -> Self {
        Self {
            drop: Vec::new(),
            map: Vec::new(),
            defaults: Vec::new(),
            uniform_strict: false,
            drop_nulls: false,
            short_ids: false,
            put_back: ExtrasToRestore::default(),
            wrap_errors: false,
            custom_tools: true,
        }
    }
}

impl Quirks {
    /// Returns whether a request of this attempt is sent unchanged.
    pub fn leaves(&self, attempt: &AdaptContext<'_>) -> bool {
        self.is_idle() && attempt.model.is_none() && !attempt.foreign && attempt.refused.is_empty()
    }

    /// Returns whether requests are sent unchanged.
    pub fn is_idle(&self) -> bool {
        let Self { drop, map, defaults, uniform_strict, drop_nulls, short_ids, put_back, wrap_errors: _, custom_tools: _ } = self;
        drop.is_empty() && map.is_empty() && defaults.is_empty() && !uniform_strict && !drop_nulls && !short_ids && put_back.is_nothing()
    }
}

/// Replacement of one value of a parameter.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ParameterMapping {
    /// The parameter, as `tool_choice`.
    pub parameter: Box<str>,
    /// Value to replace; `named` stands for any object.
    pub from: Box<str>,
    /// Replacement, a string.
    pub to: Box<str>,
}

impl ParameterMapping {
    /// A mapping of these values.
    pub fn new(parameter: &str, from: &str, to: &str) -> Self {
        Self { parameter: parameter.into(), from: from.into(), to: to.into() }
    }
}

/// Value of a parameter for requests that set none.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ParameterDefault {
    /// The parameter.
    pub parameter: Box<str>,
    /// Its value, as JSON.
    pub json: Box<str>,
}

impl ParameterDefault {
    /// A default of these values; `json` is not checked.
    pub fn new(parameter: &str, json: &str) -> Self {
        Self { parameter: parameter.into(), json: json.into() }
    }
}

/// Provider extras that must be sent back with the calls they came with.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ExtrasToRestore {
    /// A call's `extra_content` (Gemini's `thought_signature`).
    pub signatures: bool,
    /// The `reasoning_content` of a message with calls (DeepSeek).
    pub reasoning: bool,
}

impl ExtrasToRestore {
    /// Returns whether no extras are needed.
    pub fn is_nothing(self) -> bool {
        self == Self::default()
    }
}

/// Provider extras of a call, stored by the call's mark.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct ProviderExtras {
    /// The call's `extra_content`, as JSON.
    pub extra_content: Option<Box<str>>,
    /// The `reasoning_content` of its message, as text.
    pub reasoning: Option<Arc<str>>,
}

/// Inputs that differ between attempts.
#[derive(Clone, Copy)]
pub struct AdaptContext<'a> {
    /// Model to ask for instead, in a fallback.
    pub model: Option<&'a str>,
    /// The history was made with another upstream.
    pub foreign: bool,
    /// Parameters that the upstream was found to refuse.
    pub refused: &'a [&'static str],
    /// Looks up the provider extras of the call with this mark.
    pub recall: &'a dyn Fn(&str) -> Option<Arc<ProviderExtras>>,
}

/// Reasons why a request can't be adapted to an upstream.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Incompatible {
    /// The request depends on data that another upstream stores.
    #[error("`{0}` refers to what another upstream keeps")]
    Kept(&'static str),
    /// The upstream doesn't accept tools of type `custom`.
    #[error("it takes no tools of type `custom`")]
    CustomTools,
    /// Two call ids of the request have the same short form.
    #[error("two call ids have the same short form; resend the turn with other ids")]
    ShortIds,
    /// The request isn't JSON. Doesn't happen: it was checked before.
    #[error("the request is {0}")]
    Json(#[from] JsonError),
}

/// Adapts a request to an upstream. Returns the same bytes if nothing is to be changed.
///
/// # Errors
/// [`Incompatible`]: the request can't be adapted.
pub fn fit(body: &Bytes, fitting: &Quirks, attempt: &AdaptContext<'_>) -> Result<Bytes, Incompatible> {
    if fitting.leaves(attempt) {
        return Ok(body.clone());
    }
    let document = Document::parse(body.clone())?;
    let root = document.root();
    let mut edits = Splices::default();
    if attempt.foreign {
        portable(root, fitting)?;
    }
    if let (Some(model), Some(own)) = (attempt.model, root.get("model")) {
        edits.replace(own.span(), quote(model));
    }
    let mut paths: Vec<&str> = fitting.drop.iter().map(|path| &**path).chain(attempt.refused.iter().copied()).collect();
    if fitting.uniform_strict && has_mixed_strict(root) {
        paths.extend(["tools.function.strict", "tools.strict"]);
    }
    let messages = root.get("messages").filter(|messages| messages.is_array());
    // Messages are edited in one pass, because two edits of one object would overlap.
    let (of_messages, paths): (Vec<&str>, Vec<&str>) = paths.into_iter().partition(|path| path.starts_with("messages."));
    drop_paths(&mut edits, root, &paths, 0);
    say_otherwise(&mut edits, root, fitting, &paths);
    if let Some(messages) = messages {
        let names: Vec<&str> = of_messages.iter().filter_map(|path| path.strip_prefix("messages.")).collect();
        messages::edit(&mut edits, messages, fitting, attempt, &names)?;
    }
    Ok(edits.apply(body))
}

/// Checks that the request can be sent to another upstream.
fn portable(root: Value<'_>, fitting: &Quirks) -> Result<(), Incompatible> {
    for name in ["previous_response_id", "conversation", "prompt"] {
        if root.get_some(name).is_some() {
            return Err(Incompatible::Kept(name));
        }
    }
    if root.get("background").is_some_and(|value| value.raw() == b"true") {
        return Err(Incompatible::Kept("background"));
    }
    for item in root.get("input").into_iter().flat_map(Value::items) {
        let kind = item.get_some("type").and_then(Value::text);
        match kind.as_deref() {
            // Encrypted, or known by its id alone.
            Some("reasoning") => return Err(Incompatible::Kept("reasoning")),
            Some("image_generation_call") if item.get_some("result").is_none() => return Err(Incompatible::Kept("image_generation_call")),
            Some("item_reference") => return Err(Incompatible::Kept("item_reference")),
            _ if is_named_by_id(item) => return Err(Incompatible::Kept("item_reference")),
            _ => {}
        }
    }
    let custom = |value: Value<'_>| value.get("type").is_some_and(|kind| kind.is_text("custom"));
    let in_tools = root.get("tools").into_iter().flat_map(Value::items).any(custom);
    let of_message = |message: Value<'_>| message.get("tool_calls").into_iter().flat_map(Value::items).any(custom);
    let in_history = root.get("messages").into_iter().flat_map(Value::items).any(of_message);
    if !fitting.custom_tools && (in_tools || in_history) {
        return Err(Incompatible::CustomTools);
    }
    Ok(())
}

fn has_mixed_strict(root: Value<'_>) -> bool {
    let strict = |tool: Value<'_>| tool.get("function").unwrap_or(tool).get("strict").is_some_and(|strict| strict.raw() == b"true");
    let mut said = root.get("tools").into_iter().flat_map(Value::items).map(strict);
    let first = said.next();
    said.any(|strict| Some(strict) != first)
}

/// Drops the members below `value` that `paths` name.
fn drop_paths(edits: &mut Splices, value: Value<'_>, paths: &[&str], depth: usize) {
    if depth > PATH_DEPTH_MAX || paths.is_empty() {
        return;
    }
    if value.is_array() {
        return value.items().for_each(|item| drop_paths(edits, item, paths, depth));
    }
    if value.members().any(|member| paths.contains(&&*member.name())) {
        edits.remove_members(value, |name| paths.contains(&name));
    }
    for member in value.members() {
        let name = member.name();
        if paths.contains(&&*name) {
            continue;
        }
        let below: Vec<&str> = paths.iter().filter_map(|path| path.strip_prefix(&*name)?.strip_prefix('.')).collect();
        drop_paths(edits, member.value, &below, depth + 1);
    }
}

fn say_otherwise(edits: &mut Splices, root: Value<'_>, fitting: &Quirks, dropped: &[&str]) {
    let says = |name: &str| root.get_some(name).filter(|_| !dropped.contains(&name));
    for parameter in fitting.map.iter().map(|mapping| &*mapping.parameter).collect::<std::collections::BTreeSet<_>>() {
        let Some(value) = says(parameter) else { continue };
        let fits = |mapping: &&ParameterMapping| {
            let own = if value.is_object() { *mapping.from == *NAMED } else { value.text().is_some_and(|text| text == *mapping.from) };
            *mapping.parameter == *parameter && own
        };
        if let Some(mapping) = fitting.map.iter().find(fits) {
            edits.replace(value.span(), quote(&mapping.to));
        }
    }
    let has_tools = root.get("tools").is_some_and(|tools| tools.items().next().is_some());
    for default in &fitting.defaults {
        let name = &*default.parameter;
        // Allowed only with tools.
        let legal = has_tools || !matches!(name, "tool_choice" | "parallel_tool_calls");
        if legal && root.get_some(name).is_none() && !dropped.contains(&name) {
            edits.set_member(root, name, &default.json);
        }
    }
}

/// In `map`: stands for every value that is an object, as a `tool_choice` that names a tool.
pub const NAMED: &str = "named";
