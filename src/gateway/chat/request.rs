//! A chat-completions request: read once, verified, and prepared for the upstream by splices.
//!
//! Source: OpenAI API reference, "Create chat completion". Pure. Members that toolmark doesn't use pass unread; a
//! member that it needs and can't read is refused here.

use std::{borrow::Cow, sync::Arc};

use super::{exhibit::exhibits, material::words_of, messages::read_messages};
use crate::{
    exchange::{
        adapter::RequestHead,
        context::{Basis, Begun, Prepared, Upstream},
        conversation::Hidden,
        conversation::known_items::ItemBytes,
        conversation::request_prefix::{PrefixUse, SharedPrefix},
        error::{Refusal, array, unique_in_request},
        evidence::material::Material,
        tool_set::{Brought, Dialect, ToolSet, ToolsEdit},
    },
    judge::{
        call::{CallKind, turn::ToolChoice},
        history::{
            Adjacency, HistoryItem, HistoryRules, PastResult, VerifiedHistory,
            beginning::{HistoryBeginning, verify_behind},
            memo::HistoryMemo,
            result_classifier::ResultClassifier,
            stamp::{self, ResultReader, ResultTraits, Stamp},
        },
    },
    marks::{KeyRing, Scope},
    openai::content::text_of,
    policy::{PolicyMode, compiled::CompiledPolicy},
    violation::Violation,
    wire::json::{Document, Value, splice::Splices, string::quote},
};

/// Inputs of the preparation besides the request.
#[derive(Clone, Copy, Debug)]
pub struct PrepareInputs<'i> {
    /// The policy.
    pub rules: &'i CompiledPolicy,
    /// Facts known of the request's beginning.
    pub prefix: &'i PrefixUse,
    /// Classifier of results.
    pub natures: &'i ResultClassifier,
    /// Keys of the marks.
    pub ring: &'i KeyRing,
    /// Scope in which marks are valid.
    pub scope: &'i Scope,
    /// Current time in Unix milliseconds.
    pub now_ms: u64,
    /// Requirements of the upstream.
    pub upstream: Upstream,
    /// Protocol text as a JSON string, if it is to be added to the instructions.
    pub protocol: Option<&'i str>,
}

/// Members of a request that toolmark uses.
#[derive(Clone, Debug)]
pub struct Head<'d> {
    /// Model requested; empty if the request has none.
    pub model: Cow<'d, str>,
    /// Server-sent events are requested.
    pub stream: bool,
    /// Number of choices requested.
    pub choices: u64,
    /// `response_format` asks for JSON.
    pub json_only: bool,
    /// The request's `tools`.
    tools: Option<Value<'d>>,
    /// The legacy `functions`.
    functions: Option<Value<'d>>,
    pub(super) messages: Value<'d>,
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
        let (mut head, mut messages) = (
            Self { model: Cow::Borrowed(""), stream: false, choices: 1, json_only: false, tools: None, functions: None, messages: root },
            None,
        );
        for member in root.members() {
            let value = member.value;
            match &*member.name() {
                "model" => head.model = value.text().ok_or_else(|| Refusal::wrong("model", "a string"))?,
                "messages" => messages = Some(value),
                "stream" => head.stream = value.raw() == b"true",
                "n" if !value.is_null() => head.choices = value.integer().ok_or_else(|| Refusal::wrong("n", "a whole number"))?,
                "tools" if !value.is_null() => head.tools = Some(array(value, "tools")?),
                "functions" if !value.is_null() => head.functions = Some(array(value, "functions")?),
                "response_format" => {
                    let kind = value.get("type").and_then(Value::text);
                    head.json_only = matches!(kind.as_deref(), Some("json_object" | "json_schema"));
                }
                _ => {}
            }
        }
        head.messages =
            array(messages.ok_or_else(|| Refusal::new("invalid_request", Some("messages"), "`messages` is missing"))?, "messages")?;
        Ok(head)
    }

    /// The request's tools.
    pub fn brought(&self) -> Brought<'d> {
        match (self.tools, self.functions) {
            (None, Some(functions)) => Brought { dialect: Dialect::Legacy, array: Some(functions), further: &[] },
            (tools, _) => Brought { dialect: Dialect::Nested, array: tools, further: &[] },
        }
    }

    /// Texts of the conversation's own data: those of users, tools and instructions, without the model's.
    pub fn data(&self) -> Vec<String> {
        let mut data: Vec<String> = Vec::new();
        for message in self.messages.items() {
            if message.get("role").is_some_and(|role| role.is_text("assistant")) {
                continue;
            }
            data.extend(message.get("content").and_then(text_of).map(Cow::into_owned));
        }
        let tools = self.tools.into_iter().chain(self.functions);
        data.extend(tools.map(|tools| tools.raw_str().to_owned()));
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
        self.choices
    }

    fn brought<'x>(&'x self, _further: &'x [Arc<str>]) -> Brought<'x> {
        Head::brought(self)
    }
}

/// Reads, verifies and prepares a request, and starts its exchange.
///
/// # Errors
/// [`Refusal`] for a shape that can't be judged.
pub fn begin(document: &Document, head: &Head<'_>, basis: Basis<'_>) -> Result<Begun, Refusal> {
    let inputs = PrepareInputs {
        rules: basis.rules,
        prefix: &basis.prefix,
        natures: basis.natures,
        ring: basis.ring,
        scope: &basis.scope,
        now_ms: basis.now_ms,
        upstream: basis.upstream,
        protocol: basis.protocol,
    };
    let prepared = prepare(document, head, &basis.tools, &inputs)?;
    Ok(Begun::new(document, prepared, basis))
}

fn data_of(document: &Document) -> Vec<String> {
    Head::read(document).map(|head| head.data()).unwrap_or_default()
}

/// Verifies the history and prepares the request.
///
/// # Errors
/// [`Refusal`] for a shape that can't be judged.
pub fn prepare(document: &Document, head: &Head<'_>, tools: &Arc<ToolSet>, inputs: &PrepareInputs<'_>) -> Result<Prepared, Refusal> {
    let root = document.root();
    let rules = inputs.rules;
    let memo = inputs.prefix.memo(tools, head.messages.items().map(|message| Some(ItemBytes::of(message))), SharedPrefix::elements);
    let mut known = inputs.prefix.history(tools);
    let mut read = read_history(head, &memo, known, inputs)?;
    if !read.complete {
        known = None;
        read = read_history(head, &memo, known, inputs)?;
    }
    let ReadHistory { past, stamps: mut edits, forged, beginning, .. } = read;
    if rules.policy.mode == PolicyMode::Enforce {
        edit_tools(&mut edits, root, head, tools, inputs.upstream);
        if let Some(protocol) = inputs.protocol.filter(|_| tools.any && !head.json_only) {
            inject_protocol(&mut edits, head.messages, protocol);
        }
    }
    let VerifiedHistory { executions, succeeded, trail, answered, mut violations } = past;
    violations.extend(forged);
    violations.extend(tools.violations.iter().cloned());
    Ok(Prepared {
        body: inputs.prefix.apply(edits, document, Some(head.messages), tools, &memo, beginning.clone()),
        // A tool that was left out can't be asked for.
        tool_choice: match read_tool_choice(root, tools) {
            ToolChoice::Named(_, name) if tools.edit != ToolsEdit::Keep && tools.removed.contains(&name) => ToolChoice::Auto,
            choice => choice,
        },
        parallel: root.get("parallel_tool_calls").and_then(|value| match value.raw() {
            b"true" => Some(true),
            b"false" => Some(false),
            _ => None,
        }),
        executions,
        succeeded,
        trail,
        evidence: Material::new(answered, memo, words_of).behind(known.cloned(), beginning),
        violations,
        json_only: head.json_only,
        choices: head.choices,
        hidden: Hidden::default(),
        data_of,
        exhibits_of: exhibits,
    })
}

/// A history that was read and verified.
struct ReadHistory {
    past: VerifiedHistory,
    /// The edits that stamp its results.
    stamps: Splices,
    /// Violations for results that have an execution ID.
    forged: Vec<Violation>,
    /// False if it must be read from its first message on.
    complete: bool,
    /// What later requests may take over.
    beginning: Option<Arc<HistoryBeginning>>,
}

/// Reads and verifies the history, taking over `known` for its beginning.
fn read_history(
    head: &Head<'_>,
    memo: &HistoryMemo,
    known: Option<&Arc<HistoryBeginning>>,
    inputs: &PrepareInputs<'_>,
) -> Result<ReadHistory, Refusal> {
    let rules = inputs.rules;
    let first = known.map_or(0, |known| known.count());
    let (items, contents) = read_messages(head.messages, first, inputs.natures, rules.policy.results.large, memo)?;
    let history_rules = HistoryRules {
        checks: &rules.checks,
        ring: inputs.ring,
        scope: inputs.scope,
        window: rules.policy.results.window,
        now_ms: inputs.now_ms,
        large: rules.policy.results.large,
        adjacency: Adjacency::Required,
        remembered: &[],
        unseen: false,
        trail: &[],
        told_apart: rules.policy.loops.forbids_repeating(),
    };
    let read = verify_behind(&items, known.map(|known| &**known), &history_rules, inputs.prefix.of_history());
    let mut stamps = known.map(|known| known.edits().clone()).unwrap_or_default();
    let mut of_rest = Splices::default();
    if rules.policy.mode == PolicyMode::Enforce {
        let form = rules.policy.results.stamp;
        for execution in read.history.executions.iter().skip(known.map_or(0, |known| known.executions())) {
            let at = execution.item - first;
            let (Some(content), Some(HistoryItem::Result(result))) = (contents.get(at), items.get(at)) else { continue };
            let stamp = Stamp { execution_id: &execution.id, tool: &execution.tool, moment: execution.moment };
            let edits = if read.kept().is_some_and(|kept| execution.item < kept) { &mut stamps } else { &mut of_rest };
            let start = content.map_or(0, |content| content.span().start);
            stamp::stamp_once(edits, result.memo, (&execution.proof, ResultReader::Model), start, |edits| match *content {
                Some(content) if content.is_array() => stamp::stamp_parts(edits, content, &stamp, form, "text"),
                Some(content) if content.is_string() => stamp::stamp_string(edits, content, result.nature, &stamp, form),
                _ => {}
            });
        }
    }
    let mut forged = Vec::new();
    for (at, (item, content)) in items.iter().zip(&contents).enumerate() {
        if let HistoryItem::Result(PastResult { nature: ResultTraits { stamped: true, .. }, .. }) = item {
            let own = read.history.executions.iter().find(|execution| execution.item == first + at);
            forged.extend(stamp::forged(&rules.checks, own, &content.and_then(text_of).unwrap_or_default()));
        }
    }
    let beginning = match read.kept() {
        Some(_) => read.beginning(stamps.clone()).map(Arc::new),
        None => known.cloned(),
    };
    stamps.extend(&of_rest);
    Ok(ReadHistory { complete: read.complete, past: read.history, stamps, forged, beginning })
}

fn edit_tools(edits: &mut Splices, root: Value<'_>, head: &Head<'_>, tools: &ToolSet, upstream: Upstream) {
    let member = if tools.dialect == Dialect::Legacy { "functions" } else { "tools" };
    let choice = if tools.dialect == Dialect::Legacy { "function_call" } else { "tool_choice" };
    match &tools.edit {
        ToolsEdit::Keep => {}
        ToolsEdit::Replace(json) => edits.set_member(root, member, json),
        ToolsEdit::Remove => {
            // Legal only where there are tools.
            edits.remove_members(root, |name| name == member || name == choice || name == "parallel_tool_calls");
            return;
        }
    }
    if let Some(name) = named_tool(root, choice)
        && tools.removed.iter().any(|removed| *removed == name)
        && let Some(value) = root.get(choice)
    {
        edits.replace(value.span(), "\"auto\"");
    }
    let asked = root.get_some(choice).is_some();
    if let Some(wanted) = upstream.tool_choice.filter(|_| tools.any && tools.dialect != Dialect::Legacy && !asked && head.tools.is_some()) {
        edits.set_member(root, "tool_choice", &quote(wanted));
    }
}

fn named_tool<'d>(root: Value<'d>, choice: &str) -> Option<Cow<'d, str>> {
    let choice = root.get(choice)?;
    let body = choice.get("function").or_else(|| choice.get("custom")).unwrap_or(choice);
    body.get("name").and_then(Value::text)
}

fn read_tool_choice(root: Value<'_>, tools: &ToolSet) -> ToolChoice {
    let Some(choice) = root.get_some("tool_choice").or_else(|| root.get_some("function_call")) else { return ToolChoice::Auto };
    if let Some(word) = choice.text() {
        return match &*word {
            "none" => ToolChoice::None,
            "required" | "any" if tools.any => ToolChoice::Required,
            _ => ToolChoice::Auto,
        };
    }
    if let Some(allowed) = choice.get("allowed_tools") {
        let name = |tool: Value<'_>| {
            let body = tool.get("function").or_else(|| tool.get("custom")).unwrap_or(tool);
            body.get("name").and_then(Value::text).map(Cow::into_owned)
        };
        let names = allowed.get("tools").into_iter().flat_map(Value::items).filter_map(name).collect();
        return ToolChoice::Allowed { required: allowed.get("mode").is_some_and(|mode| mode.is_text("required")), names };
    }
    let kind = if choice.get("custom").is_some() { CallKind::Custom } else { CallKind::Function };
    let named = named_tool(root, "tool_choice").or_else(|| named_tool(root, "function_call"));
    named.map_or(ToolChoice::Auto, |name| ToolChoice::Named(kind, name.into_owned()))
}

/// Appends the protocol text to the first system or developer message, or adds a new first message.
fn inject_protocol(edits: &mut Splices, messages: Value<'_>, quoted: &str) {
    let instructs = |message: &Value<'_>| message.get("role").is_some_and(|role| role.is_text("system") || role.is_text("developer"));
    let content = messages.items().find(instructs).and_then(|message| message.get("content"));
    match content {
        Some(content) if content.is_string() => {
            let gap = if content.raw() == b"\"\"" { "" } else { "\\n\\n" };
            edits.insert(content.span().end - 1, format!("{gap}{}", &quoted[1..quoted.len() - 1]));
        }
        Some(content) if content.is_array() => edits.append_items(content, &format!(r#"{{"type":"text","text":{quoted}}}"#)),
        _ => {
            let comma = if messages.items().next().is_some() { "," } else { "" };
            let message = format!(r#"{{"role":"system","content":{quoted}}}{comma}"#);
            edits.insert(messages.span().start + 1, message);
        }
    }
}
