//! Prepares a Responses request for the upstream: verifies it, and changes it by splices.
//!
//! docs/wire-facts.md#marks and #stamps. What toolmark doesn't change leaves byte for byte; in observe mode that is
//! everything. Preparing a prepared request changes nothing. Pure.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use bytes::Bytes;
use foldhash::quality::RandomState;

use super::material::words_of;
use crate::{
    exchange::{
        context::{Basis, Prepared},
        conversation::{Fate, Hidden, KnownCall, Owed, known_items::ItemBytes, request_prefix::SharedPrefix},
        error::Refusal,
        evidence::material::Material,
        hidden_turns::HistoryExtent,
    },
    judge::call::CallKind,
    judge::history::{
        self, Adjacency, HistoryItem, VerifiedHistory,
        stamp::{self, ResultReader, Stamp},
    },
    marks::CallMark,
    openai::content::text_of,
    policy::{PolicyMode, compiled::CompiledPolicy},
    responses::request::{
        Head, Input, Recalled, Stateful,
        input_items::{self, InputItem, Kind},
        statefulness, tools,
    },
    violation::Violation,
    wire::json::{Document, Value, splice::Splices, string::quote},
};

/// Verifies the history and prepares the request. The caller sets the result's `hidden.tools`.
///
/// # Errors
/// [`Refusal`] for anything that the policy doesn't allow.
pub fn prepare(document: &Document, head: &Head<'_>, recalled: &Recalled, basis: &Basis<'_>) -> Result<Prepared, Refusal> {
    let (root, rules, tools) = (document.root(), &**basis.rules, &basis.tools);
    let enforced = rules.policy.mode == PolicyMode::Enforce;
    let stateful = if enforced { rules.policy.responses.stateful } else { Stateful::Track };
    statefulness::check(head, stateful)?;
    let fates = if enforced { fates(head, recalled) } else { HashMap::new() };
    let referring = head.items().iter().any(|item| item.kind == Kind::Reference);
    let hidden_part = head.previous.is_some() || head.conversation.is_some() || referring;
    let memo = basis.prefix.memo(tools, head.items().iter().map(|item| Some(ItemBytes::of(item.value))), SharedPrefix::elements);
    let steps = input_items::history(head.items(), &tools.registry, basis.natures, rules.policy.results.large, &memo, |at| {
        matches!(fates.get(&at), Some(Fate::Dropped))
    });
    let past = verify(&steps, recalled, if hidden_part { HistoryExtent::Continued } else { HistoryExtent::Whole }, basis);
    let mut edits = Splices::default();
    if enforced {
        let gone = |at: usize| fates.contains_key(&at);
        stamp_results(&mut edits, &past, &steps, head, rules, gone);
        let ids = CallIdMap::of(head, recalled, &fates);
        replace_ids(&mut edits, head, &ids, gone);
        let mut front = owed(head, recalled, &ids);
        if let (Some(previous), Some(own)) =
            (root.get_some("previous_response_id"), recalled.thread.as_ref().and_then(|thread| thread.upstream_id.as_deref()))
            && !previous.is_text(own)
        {
            edits.replace(previous.span(), quote(own));
        }
        if stateful == Stateful::Stateless {
            statefulness::forget(&mut edits, root, head);
        }
        tools::edit_tools(&mut edits, root, head, tools, basis.upstream);
        if let Some(protocol) = basis.protocol.filter(|_| tools.any && !head.json_only) {
            front.extend(tools::inject_protocol(&mut edits, root, head, protocol, gone));
        }
        edit_input(&mut edits, root, head, &fates, &front, &ids);
    }
    let echo = echo(root, &edits);
    let forged = forged_stamps(rules, &past, &steps, head);
    let spoke = matches!(head.input, Input::Text(_)) || steps.iter().any(|step| matches!(step, HistoryItem::User));
    let VerifiedHistory { mut executions, mut succeeded, trail, answered, mut violations } = past;
    violations.extend(forged);
    violations.extend(tools.violations.iter().cloned());
    if let Some(thread) = &recalled.thread {
        thread.prepend_to(&mut executions, &mut succeeded, spoke, rules.policy.results.window, basis.now_ms);
    }
    Ok(Prepared {
        body: basis.prefix.apply(edits, document, head.array(), tools, &memo, None),
        tool_choice: tools::read_tool_choice(root, tools),
        parallel: root.get("parallel_tool_calls").and_then(|value| match value.raw() {
            b"true" => Some(true),
            b"false" => Some(false),
            _ => None,
        }),
        executions,
        succeeded,
        trail,
        evidence: Material::new(answered, memo, words_of),
        violations,
        json_only: head.json_only,
        choices: 1,
        hidden: Hidden {
            unseen: hidden_part && recalled.thread.as_ref().is_none_or(|thread| thread.incomplete),
            lacks_evidence: recalled.thread.as_ref().is_some_and(|thread| thread.lacks_evidence),
            earlier: recalled.thread.clone(),
            spoke,
            store: head.store && stateful != Stateful::Stateless,
            conversation: head.conversation.clone(),
            tools: Vec::new(),
            echo,
            background: head.background,
            stored_prompt: head.prompt && !tools.any,
        },
        data_of,
        exhibits_of: super::exhibit::exhibits,
    })
}

/// Original values of the request's members that answers repeat and that were changed for the upstream, with defaults
/// for missing ones.
fn echo(root: Value<'_>, edits: &Splices) -> Vec<(&'static str, Box<str>)> {
    const ECHOED: [(&str, &str); 5] =
        [("instructions", "null"), ("tools", "[]"), ("tool_choice", "\"auto\""), ("store", "true"), ("previous_response_id", "null")];
    if edits.is_empty() {
        return Vec::new();
    }
    let end = root.span().end - 1;
    let added = edits.added(end);
    let changed = |(name, default): (&'static str, &str)| {
        let own = root.members().find(|member| member.is(name));
        let changed = match own {
            // A member that is taken out goes with the comma beside it.
            Some(own) => edits.touches(&own.value.span()) || edits.covers(&own.value.span()),
            None => memchr::memmem::find(&added, format!("\"{name}\":").as_bytes()).is_some(),
        };
        changed.then(|| (name, own.map_or(default, |own| own.value.raw_str()).into()))
    };
    ECHOED.into_iter().filter_map(changed).collect()
}

fn data_of(document: &Document) -> Vec<String> {
    Head::read(document).map(|head| head.data()).unwrap_or_default()
}

/// Dispositions of the input items whose ids are known, by index.
fn fates<'r>(head: &Head<'_>, recalled: &'r Recalled) -> HashMap<usize, &'r Fate> {
    let known: HashMap<&str, &Fate> = recalled.items.iter().map(|(id, fate)| (&**id, fate)).collect();
    let fate = |(at, item): (usize, &InputItem<'_>)| Some((at, *known.get(&*item.id()?).filter(|fate| is_meant(item, fate))?));
    if known.is_empty() { HashMap::new() } else { head.items().iter().enumerate().filter_map(fate).collect() }
}

/// True if an item is the one that the disposition is about. Upstreams may give messages of several answers the same
/// id: a message with different text is another one.
fn is_meant(item: &InputItem<'_>, fate: &Fate) -> bool {
    match item.kind {
        Kind::Reference | Kind::Other => return true,
        Kind::Assistant => {}
        // Nobody was given one of those.
        Kind::User | Kind::Instructions | Kind::Call(_) | Kind::Output(_) | Kind::Tools => return false,
    }
    let Fate::Instead(json) = fate else { return false };
    let Ok(document) = Document::parse(Bytes::copy_from_slice(json.as_bytes())) else { return true };
    let said = |message: Value<'_>| -> String {
        let content = message.get_some("content");
        let part = |part: Value<'_>| part.get_some("text").or_else(|| part.get_some("refusal"))?.text().map(Cow::into_owned);
        let whole = content.and_then(Value::text).map(Cow::into_owned);
        whole.unwrap_or_else(|| content.into_iter().flat_map(Value::items).filter_map(part).collect())
    };
    said(document.root()) == said(item.value)
}

fn verify(steps: &[HistoryItem<'_>], recalled: &Recalled, extent: HistoryExtent, basis: &Basis<'_>) -> VerifiedHistory {
    let remembered = recalled.stored_calls();
    let rules = history::HistoryRules {
        checks: &basis.rules.checks,
        ring: basis.ring,
        scope: &basis.scope,
        window: basis.rules.policy.results.window,
        now_ms: basis.now_ms,
        large: basis.rules.policy.results.large,
        adjacency: Adjacency::Free,
        remembered: &remembered,
        unseen: extent == HistoryExtent::Continued,
        trail: recalled.thread.as_ref().map_or(&[], |thread| &thread.trail),
        // Of what comes now, steps that come later may be repetitions.
        told_apart: extent == HistoryExtent::Continued || basis.rules.policy.loops.forbids_repeating(),
    };
    history::verify(steps, &rules)
}

fn stamp_results(
    edits: &mut Splices,
    past: &VerifiedHistory,
    steps: &[HistoryItem<'_>],
    head: &Head<'_>,
    rules: &CompiledPolicy,
    gone: impl Fn(usize) -> bool,
) {
    let form = rules.policy.results.stamp;
    // Few requests have such calls.
    let of_code: HashSet<Cow<'_, str>> =
        head.items().iter().filter(|item| item.kind.is_call() && item.is_programmatic()).filter_map(InputItem::call_id).collect();
    for execution in past.executions.iter().filter(|execution| !gone(execution.item)) {
        let (Some(item), Some(HistoryItem::Result(result))) = (head.items().get(execution.item), steps.get(execution.item)) else {
            continue;
        };
        let stamp = Stamp { execution_id: &execution.id, tool: &execution.tool, moment: execution.moment };
        let read_by_code = item.is_programmatic() || (!of_code.is_empty() && item.call_id().is_some_and(|id| of_code.contains(&id)));
        let reader = if read_by_code { ResultReader::Code } else { ResultReader::Model };
        stamp::stamp_once(edits, result.memo, (&execution.proof, reader), item.value.span().start, |edits| match item.output() {
            // Code that reads a result as JSON finds a member more; a line in front would break it.
            Some(output) if read_by_code && !(output.is_string() && result.nature.object && !result.nature.stamped) => {}
            Some(output) if output.is_array() => stamp::stamp_parts(edits, output, &stamp, form, "input_text"),
            Some(output) if output.is_string() => stamp::stamp_string(edits, output, result.nature, &stamp, form),
            _ => {}
        });
    }
}

/// Violations for results that already have an execution ID, unless it is the very stamp that they would get.
fn forged_stamps(rules: &CompiledPolicy, past: &VerifiedHistory, steps: &[HistoryItem<'_>], head: &Head<'_>) -> Vec<Violation> {
    let forged = |(at, (step, item)): (usize, (&HistoryItem<'_>, &InputItem<'_>))| {
        let HistoryItem::Result(result) = step else { return None };
        if !result.nature.stamped {
            return None;
        }
        let text = item.output().and_then(text_of)?;
        let own = past.executions.iter().find(|execution| execution.item == at);
        stamp::forged(&rules.checks, own, &text)
    };
    steps.iter().zip(head.items()).enumerate().filter_map(forged).collect()
}

/// Maps the application's call ids to the upstream's.
struct CallIdMap<'i> {
    known: HashMap<&'i str, &'i KnownCall, RandomState>,
    /// Ids of the calls in the input sent to the upstream, as the application has them.
    present: HashSet<Cow<'i, str>, RandomState>,
    /// Upstream ids that two of the application's ids would map to: those keep their marks, to be distinct.
    ambiguous: HashSet<String, RandomState>,
}

impl<'i> CallIdMap<'i> {
    fn of(head: &Head<'i>, recalled: &'i Recalled, fates: &HashMap<usize, &Fate>) -> Self {
        let kept = head.items().iter().enumerate().filter(|(at, _)| !fates.contains_key(at)).map(|(_, item)| item);
        let ids: Vec<(&InputItem<'i>, Cow<'i, str>)> = kept.filter_map(|item| Some((item, item.call_id()?))).collect();
        let mut present: HashSet<Cow<'i, str>, RandomState> =
            ids.iter().filter(|(item, _)| item.kind.is_call()).map(|(_, id)| id.clone()).collect();
        let instead = |fate: &&Fate| if let Fate::Instead(json) = fate { called(json).map(Cow::Owned) } else { None };
        present.extend(fates.values().filter_map(instead));
        let mut ambiguous = HashSet::default();
        let mut first: HashMap<&str, &str, RandomState> = HashMap::default();
        for id in ids.iter().map(|(_, id)| &**id).chain(present.iter().map(|id| &**id)) {
            let own = behind(id).unwrap_or(id);
            if *first.entry(own).or_insert(id) != id {
                ambiguous.insert(own.to_owned());
            }
        }
        Self { known: recalled.calls.iter().map(|(id, call)| (&**id, call)).collect(), present, ambiguous }
    }

    /// The upstream's id of a call.
    fn upstream<'s>(&'s self, id: &'s str) -> &'s str {
        if self.present.contains(id) {
            return behind(id).filter(|own| !self.ambiguous.contains(*own)).unwrap_or(id);
        }
        behind(id).or_else(|| self.known.get(id).map(|call| &*call.upstream_id)).unwrap_or(id)
    }
}

/// The upstream's id in front of a mark.
fn behind(id: &str) -> Option<&str> {
    CallMark::parse(id).and_then(|mark| mark.upstream_id())
}

/// The `call_id` of an item if it is a call. `json`: the item.
fn called(json: &str) -> Option<String> {
    let document = Document::parse(Bytes::copy_from_slice(json.as_bytes())).ok()?;
    let item = InputItem::read(document.root()).ok()?;
    item.call_id().filter(|_| item.kind.is_call()).map(Cow::into_owned)
}

fn replace_ids(edits: &mut Splices, head: &Head<'_>, ids: &CallIdMap<'_>, gone: impl Fn(usize) -> bool) {
    let kept = head.items().iter().enumerate().filter(|(at, _)| !gone(*at));
    for (_, item) in kept {
        replace_id(edits, item, ids);
    }
}

fn replace_id(edits: &mut Splices, item: &InputItem<'_>, ids: &CallIdMap<'_>) {
    if let Some(value) = item.call_id_value() {
        let id = value.text().unwrap_or_default();
        let own = ids.upstream(&id);
        if *id != *own {
            edits.replace(value.span(), quote(own));
        }
    }
}

/// Input items with the outputs for calls that were never passed on, unless the request has outputs for them.
fn owed(head: &Head<'_>, recalled: &Recalled, ids: &CallIdMap<'_>) -> Vec<String> {
    if recalled.thread.as_ref().is_none_or(|thread| thread.owed.is_empty()) {
        return Vec::new();
    }
    let outputs = head.items().iter().filter(|item| item.kind.is_output()).filter_map(InputItem::call_id);
    let answered: HashSet<String> = outputs.map(|id| ids.upstream(&id).to_owned()).collect();
    let owed = recalled.thread.iter().flat_map(|thread| &thread.owed).filter(|owed| !answered.contains(&owed.call_id));
    let kind = |custom: bool| if custom { CallKind::Custom } else { CallKind::Function };
    owed.map(|Owed { call_id, custom, output }| output_item(kind(*custom), call_id, output)).collect()
}

/// An input item with the output of a call: JSON.
pub(in crate::responses) fn output_item(kind: CallKind, call_id: &str, output: &str) -> String {
    let kind = if kind == CallKind::Custom { "custom_tool_call_output" } else { "function_call_output" };
    format!(r#"{{"type":"{kind}","call_id":{},"output":{}}}"#, quote(call_id), quote(output))
}

/// A user message as an input item: JSON. `quoted`: a JSON string.
pub(in crate::responses) fn user_item(quoted: &str) -> String {
    format!(r#"{{"role":"user","content":{quoted}}}"#)
}

/// An assistant message as an input item: JSON. `quoted`: a JSON string.
pub(in crate::responses) fn assistant_item(quoted: &str) -> String {
    format!(r#"{{"role":"assistant","content":{quoted}}}"#)
}

/// Removes items, replaces others, and puts `front` in front.
fn edit_input(edits: &mut Splices, root: Value<'_>, head: &Head<'_>, fates: &HashMap<usize, &Fate>, front: &[String], ids: &CallIdMap<'_>) {
    let mut added = front.join(",");
    match &head.input {
        Input::Items(array, items) => {
            let dropped = |at: usize| matches!(fates.get(&at), Some(Fate::Dropped));
            if !added.is_empty() {
                if (0..items.len()).any(|at| !dropped(at)) {
                    added.push(',');
                }
                edits.insert(array.span().start + 1, added);
            }
            edits.remove_items(*array, dropped);
            for (at, fate) in fates {
                if let (Fate::Instead(json), Some(item)) = (fate, items.get(*at)) {
                    edits.replace(item.value.span(), with_upstream_id(json, ids));
                }
            }
        }
        Input::Text(_) | Input::Absent if added.is_empty() => {}
        Input::Text(text) => edits.replace(text.span(), format!("[{added},{}]", user_item(text.raw_str()))),
        Input::Absent => edits.set_member(root, "input", &format!("[{added}]")),
    }
}

/// A remembered item, with its call id as in the rest of the input.
fn with_upstream_id(json: &str, ids: &CallIdMap<'_>) -> Bytes {
    let bytes = Bytes::copy_from_slice(json.as_bytes());
    let Ok(document) = Document::parse(bytes.clone()) else { return bytes };
    let mut edits = Splices::default();
    if let Ok(item) = InputItem::read(document.root()) {
        replace_id(&mut edits, &item, ids);
    }
    edits.apply(&bytes)
}
