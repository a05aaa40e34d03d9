//! A Messages request: read once, verified, and prepared for the upstream by splices.
//!
//! Source: Anthropic's API reference, "Create a Message"; docs/wire-facts.md#messages. Pure. What is added upstream is a
//! function of the request alone, so that a conversation always goes up as the same bytes: thinking is bound to them.
//! Unknown members are refused there, so nothing is added but in places that exist.

use std::{borrow::Cow, collections::HashSet, sync::Arc};

use super::{
    exhibit::exhibits,
    history::{self, Place, inline_tools, places, places_within, texts},
    material::words_of,
    thread::{self, ThreadUse},
};
use crate::{
    exchange::{
        adapter::RequestHead,
        context::{Basis, Begun, Prepared, Upstream},
        conversation::{
            Hidden,
            recalled::{NamedObject, ObjectKind, Recalled, Wanted},
        },
        error::{Refusal, array, unique_in_request},
        evidence::material::Material,
        tool_set::{Brought, Dialect, ToolSet, ToolsEdit},
    },
    judge::{
        call::{CallKind, turn::ToolChoice},
        history::{
            Adjacency, HistoryItem, HistoryRules, PastResult, VerifiedHistory,
            memo::HistoryMemo,
            stamp::{self, ResultReader, Stamp},
        },
    },
    openai::content::text_of,
    policy::{PolicyMode, compiled::CompiledPolicy},
    wire::json::{Document, Value, splice::Splices},
};

/// Models that refuse a request in which a call is forced, by the beginnings of their names. Source: Anthropic's
/// documentation, "Define tools".
const UNFORCED_MODELS: [&str; 4] = ["claude-fable-5", "claude-opus-5-5", "claude-sonnet-5-5", "claude-mythos"];

/// Members of a request that toolmark uses.
#[derive(Clone, Debug)]
pub struct Head<'d> {
    /// Model requested; empty if the request has none.
    pub model: Cow<'d, str>,
    /// Server-sent events are requested.
    pub stream: bool,
    /// The answer must be JSON.
    pub json_only: bool,
    pub(super) tools: Option<Value<'d>>,
    pub(super) system: Option<Value<'d>>,
    pub(super) messages: Value<'d>,
    /// Use that it makes of threads.
    thread: ThreadUse<'d>,
    /// Definitions of tools inside messages.
    further: Vec<Arc<str>>,
}

impl<'d> Head<'d> {
    /// Reads the members that are needed before an upstream is chosen.
    ///
    /// # Errors
    /// [`Refusal`] for members of the wrong type, and for two members of the same name where it matters.
    pub fn read(document: &'d Document) -> Result<Self, Refusal> {
        let root = document.root();
        if !root.is_object() {
            return Err(Refusal::new("invalid_request", None, "the request must be a JSON object"));
        }
        unique_in_request(root, "the request")?;
        let mut head = Self {
            model: Cow::Borrowed(""),
            stream: false,
            json_only: false,
            tools: None,
            system: None,
            messages: root,
            thread: ThreadUse::Without,
            further: Vec::new(),
        };
        let mut messages = None;
        let is_json = |format: Value<'_>| format.get("type").is_some_and(|kind| kind.is_text("json_schema"));
        for member in root.members() {
            let value = member.value;
            match &*member.name() {
                "model" => head.model = value.text().ok_or_else(|| Refusal::wrong("model", "a string"))?,
                "messages" => messages = Some(value),
                "stream" => head.stream = value.raw() == b"true",
                "tools" if !value.is_null() => head.tools = Some(array(value, "tools")?),
                "system" if !value.is_null() => head.system = Some(value),
                "output_config" => head.json_only |= value.get("format").is_some_and(is_json),
                "thread" => head.thread = ThreadUse::read(value)?,
                "output_format" => head.json_only |= is_json(value),
                _ => {}
            }
        }
        let missing = || Refusal::new("invalid_request", Some("messages"), "`messages` is missing");
        head.messages = array(messages.ok_or_else(missing)?, "messages")?;
        head.further = inline_tools(head.messages).into_iter().map(Into::into).collect();
        Ok(head)
    }

    /// Texts of the conversation's own data: those of users, tools and instructions, without the model's.
    pub fn data(&self) -> Vec<String> {
        let mut data: Vec<String> = self.system.into_iter().flat_map(texts).collect();
        for message in self.messages.items().filter(|message| !message.get("role").is_some_and(|role| role.is_text("assistant"))) {
            data.extend(texts(message));
            let results = history::blocks(message).filter_map(|block| block.get("tool_use_id").and(block.get("content")));
            data.extend(results.filter_map(|content| text_of(content).map(Cow::into_owned)));
        }
        data.extend(self.tools.map(|tools| tools.raw_str().to_owned()));
        data
    }
}

impl<'d> RequestHead<'d> for Head<'d> {
    fn read(document: &'d Document) -> Result<Self, Refusal> {
        Head::read(document)
    }

    fn model(&self) -> &str {
        &self.model
    }

    fn streams(&self) -> bool {
        self.stream
    }

    fn choices(&self) -> u64 {
        1
    }

    fn further_tools(&self) -> Vec<Arc<str>> {
        self.further.clone()
    }

    fn brought<'x>(&'x self, further: &'x [Arc<str>]) -> Brought<'x> {
        Brought { dialect: Dialect::InputSchema, array: self.tools, further }
    }

    fn named(&self) -> Vec<NamedObject> {
        let named = self.thread.previous().map(|id| NamedObject { kind: ObjectKind::Thread, id, param: Some("thread") });
        named.into_iter().collect()
    }

    fn wanted(&self) -> Wanted {
        let blocks = || self.messages.items().flat_map(history::blocks);
        let ids = |name: &'static str| blocks().filter_map(move |block| block.get(name).and_then(Value::text));
        let mut seen: HashSet<Cow<'_, str>> = ids("id").collect();
        let calls = ids("tool_use_id").filter(|id| !id.is_empty() && seen.insert(id.clone())).map(Cow::into_owned).collect();
        Wanted { response: self.thread.previous(), calls, ..Wanted::default() }
    }

    fn unknown(&self, recalled: &Recalled) -> Option<Refusal> {
        self.thread.previous().filter(|_| recalled.thread.is_none()).map(|id| thread::not_found(&id))
    }
}

/// Reads, verifies and prepares a request, and starts its exchange.
///
/// # Errors
/// [`Refusal`] for a shape that can't be judged.
pub fn begin(document: &Document, head: &Head<'_>, recalled: &Recalled, basis: Basis<'_>) -> Result<Begun, Refusal> {
    let root = document.root();
    let (rules, tools) = (basis.rules.clone(), basis.tools.clone());
    let enforced = rules.policy.mode == PolicyMode::Enforce;
    if enforced {
        head.thread.check(rules.policy.responses.stateful, tools.runs_any())?;
    }
    let places = places(head.messages, recalled)?;
    let (remembered, continues) = (recalled.stored_calls(), head.thread.continues());
    // What a place is follows from the request alone where nothing is recalled.
    let memo = match recalled.is_empty() {
        true => basis.prefix.memo(&tools, places.iter().map(Place::bytes), |shared| places_within(&places, shared.len())),
        false => HistoryMemo::new(),
    };
    let items = history::items(&places, basis.natures, rules.policy.results.large, &memo);
    let past = crate::judge::history::verify(
        &items,
        &HistoryRules {
            checks: &rules.checks,
            ring: basis.ring,
            scope: &basis.scope,
            window: rules.policy.results.window,
            now_ms: basis.now_ms,
            large: rules.policy.results.large,
            adjacency: Adjacency::Required,
            remembered: &remembered,
            unseen: continues,
            trail: recalled.thread.as_ref().map_or(&[], |thread| &thread.trail),
            told_apart: continues || rules.policy.loops.forbids_repeating(),
        },
    );
    let mut edits = Splices::default();
    if enforced {
        stamp_results(&mut edits, &past, &items, &places, &rules);
        thread::name_as_upstream(&mut edits, &places, recalled);
        // A thread has the instructions and tools of the request that created it, and takes no others.
        if !continues {
            edit_tools(&mut edits, root, head, &tools, basis.upstream);
            if let Some(protocol) = basis.protocol.filter(|_| tools.any && !head.json_only) {
                add_instructions(&mut edits, root, head.system, protocol);
            }
        }
    }
    let mut forged = Vec::new();
    for (at, (item, place)) in items.iter().zip(&places).enumerate() {
        if let (HistoryItem::Result(PastResult { nature, .. }), Place::Result(block, _)) = (item, place)
            && nature.stamped
        {
            let own = past.executions.iter().find(|execution| execution.item == at);
            let text = block.get("content").and_then(text_of).unwrap_or_default();
            forged.extend(stamp::forged(&rules.checks, own, &text));
        }
    }
    let spoke = items.iter().any(|item| matches!(item, HistoryItem::User));
    let VerifiedHistory { mut executions, mut succeeded, trail, answered, mut violations } = past;
    violations.extend(forged);
    violations.extend(tools.violations.iter().cloned());
    if let Some(thread) = &recalled.thread {
        thread.prepend_to(&mut executions, &mut succeeded, spoke, rules.policy.results.window, basis.now_ms);
    }
    let hidden = match head.thread.is_kept() {
        false => Hidden::default(),
        true => Hidden {
            unseen: continues && recalled.thread.as_ref().is_none_or(|thread| thread.incomplete),
            lacks_evidence: recalled.thread.as_ref().is_some_and(|thread| thread.lacks_evidence),
            earlier: recalled.thread.clone(),
            spoke,
            store: true,
            tools: recalled.tools_with(head.tools.iter().map(|tools| tools.raw_str().into()).chain(head.further_tools()).collect()),
            ..Hidden::default()
        },
    };
    let choice = root.get_some("tool_choice");
    let serial = choice.and_then(|choice| choice.get("disable_parallel_tool_use")).map(|flag| flag.raw() != b"true");
    let prepared = Prepared {
        body: basis.prefix.apply(edits, document, Some(head.messages), &tools, &memo, None),
        tool_choice: match read_tool_choice(choice, &tools) {
            ToolChoice::Named(_, name) if tools.edit != ToolsEdit::Keep && tools.removed.contains(&name) => ToolChoice::Auto,
            choice => choice,
        },
        parallel: serial,
        executions,
        succeeded,
        trail,
        evidence: Material::new(answered, memo, words_of),
        violations,
        json_only: head.json_only,
        choices: 1,
        hidden,
        data_of: |document| Head::read(document).map(|head| head.data()).unwrap_or_default(),
        exhibits_of: exhibits,
    };
    Ok(Begun::new(document, prepared, basis))
}

fn stamp_results(edits: &mut Splices, past: &VerifiedHistory, items: &[HistoryItem<'_>], places: &[Place<'_>], rules: &CompiledPolicy) {
    let form = rules.policy.results.stamp;
    for execution in &past.executions {
        let (Some(Place::Result(block, reader)), Some(HistoryItem::Result(result))) =
            (places.get(execution.item), items.get(execution.item))
        else {
            continue;
        };
        let stamp = Stamp { execution_id: &execution.id, tool: &execution.tool, moment: execution.moment };
        let Some(content) = block.get_some("content") else {
            if *reader == ResultReader::Model {
                stamp::stamp_once(edits, result.memo, (&execution.proof, *reader), block.span().start, |edits| {
                    stamp::stamp_nothing(edits, *block, &stamp, form, "text");
                });
            }
            continue;
        };
        // Code that reads a result as JSON finds a member more; a line in front would break it.
        let readable = *reader == ResultReader::Model || (result.nature.object && !result.nature.stamped);
        stamp::stamp_once(edits, result.memo, (&execution.proof, *reader), block.span().start, |edits| {
            if content.is_string() && readable {
                stamp::stamp_string(edits, content, result.nature, &stamp, form);
            } else if content.is_array() && *reader == ResultReader::Model && content.items().all(takes_text_beside) {
                stamp::stamp_parts(edits, content, &stamp, form, "text");
            }
        });
    }
}

/// True if a text may stand beside this part of a result.
fn takes_text_beside(part: Value<'_>) -> bool {
    let kind = part.get("type").and_then(Value::text).unwrap_or_default();
    matches!(&*kind, "text" | "image" | "document" | "search_result")
}

fn edit_tools(edits: &mut Splices, root: Value<'_>, head: &Head<'_>, tools: &ToolSet, upstream: Upstream) {
    match &tools.edit {
        ToolsEdit::Keep => {}
        ToolsEdit::Replace(json) => edits.set_member(root, "tools", json),
        ToolsEdit::Remove => {
            // Legal only where there are tools.
            edits.remove_members(root, |name| name == "tools" || name == "tool_choice");
            return;
        }
    }
    let choice = root.get_some("tool_choice");
    if let Some(choice) = choice
        && let Some(name) = choice.get("name").and_then(Value::text)
        && tools.removed.iter().any(|removed| *removed == name)
    {
        edits.replace(choice.span(), r#"{"type":"auto"}"#);
    }
    let wanted = upstream.tool_choice.filter(|_| tools.any && choice.is_none() && head.tools.is_some());
    match wanted {
        Some("required") if may_force(root, &head.model) => edits.set_member(root, "tool_choice", r#"{"type":"any"}"#),
        Some("none") => edits.set_member(root, "tool_choice", r#"{"type":"none"}"#),
        Some(_) | None => {}
    }
}

/// True if the upstream takes a request in which a call is forced.
fn may_force(root: Value<'_>, model: &str) -> bool {
    let thinks = root.get("thinking").and_then(|thinking| thinking.get("type")).is_some_and(|kind| kind.is_text("enabled"));
    !thinks && !UNFORCED_MODELS.iter().any(|own| model.contains(own))
}

fn read_tool_choice(choice: Option<Value<'_>>, tools: &ToolSet) -> ToolChoice {
    let kind = choice.and_then(|choice| choice.get("type")).and_then(Value::text).unwrap_or_default();
    let name = choice.and_then(|choice| choice.get("name")).and_then(Value::text);
    match (&*kind, name) {
        ("none", _) => ToolChoice::None,
        ("any", _) if tools.any => ToolChoice::Required,
        ("tool", Some(name)) => ToolChoice::Named(CallKind::Function, name.into_owned()),
        _ => ToolChoice::Auto,
    }
}

/// Adds the protocol text behind the instructions: what stands in front stays what it was, as caches and billing need it.
fn add_instructions(edits: &mut Splices, root: Value<'_>, system: Option<Value<'_>>, quoted: &str) {
    match system {
        Some(system) if system.is_string() => {
            let gap = if system.raw() == b"\"\"" { "" } else { "\\n\\n" };
            edits.insert(system.span().end - 1, format!("{gap}{}", &quoted[1..quoted.len() - 1]));
        }
        Some(system) if system.is_array() => edits.append_items(system, &format!(r#"{{"type":"text","text":{quoted}}}"#)),
        _ => edits.set_member(root, "system", quoted),
    }
}
