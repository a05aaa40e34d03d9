//! Judges one citation or block against the evidence. Pure; the gate acts on the outcome.

use std::collections::HashMap;

use super::{
    Evidence, ExecutionOrigin, LedgerAnswer, PhraseRule, TextRules,
    item::{Labelling, ScannedBlock, ScannedId},
    object::{self, BlockObject},
    shape,
    tail::TextWindow,
};
use crate::{
    claims::{evidence::ToolResult, language::fold::fold},
    judge::text::{
        fence::TextMode,
        scan::{label, record::Record},
    },
    violation::{Code, Severity, Violation},
};

/// Characters of an input that a message quotes.
const QUOTED_CHARS_MAX: usize = 200;
/// Objects of one block that are looked up in the conversation one by one.
const LOOKUPS_MAX: usize = 16;
/// Values of a record that are looked up.
const GROUNDED_MAX: usize = 8;
/// Words before a block that are searched for the tool whose result it is.
const LEAD_WORDS_MAX: usize = 32;
/// Words that introduce a result.
const RESULT_WORDS: [&str; 24] = [
    "result",
    "output",
    "returned",
    "response",
    "gave",
    "reports",
    "reported",
    "ergebnis",
    "ausgabe",
    "antwort",
    "résultat",
    "sortie",
    "resultado",
    "salida",
    "respuesta",
    "risultato",
    "wynik",
    "sonuç",
    "saída",
    "结果",
    "输出",
    "結果",
    "出力",
    "результат",
];
/// Words that introduce a definition, a request or an example instead of a result.
const NO_RESULT: [&str; 30] = [
    "schema",
    "argument",
    "parameter",
    "input",
    "request",
    "payload",
    "calling",
    "invoke",
    "definition",
    "config",
    "signature",
    "example",
    "sample",
    "format",
    "template",
    "mock",
    "stub",
    "would",
    "could",
    "might",
    "e.g.",
    "looks like",
    "beispiel",
    "ejemplo",
    "exemple",
    "esempio",
    "exemplo",
    "przykład",
    "例",
    "пример",
];
/// Executions inside one object that are checked for covering it.
const INNER_MAX: usize = 64;

/// Outcome of judging one citation.
#[derive(Debug)]
pub(super) enum CitationVerdict {
    /// A quotation, not a citation.
    Quotation,
    /// A valid citation of this execution.
    Verified(String),
    /// Only the ledger knows if this id may be cited.
    Ask(String),
    /// A violation; `None` if the policy has it off.
    Against(Option<Violation>),
}

/// Judges an id in the form of an execution ID.
pub(super) fn judge_id(
    id: &ScannedId,
    labelling: Labelling,
    rules: &TextRules,
    evidence: &dyn Evidence,
    known: &HashMap<String, LedgerAnswer>,
) -> CitationVerdict {
    let tool_registered = |text: &str| evidence.is_registered(shape::tool(text));
    for reading in readings(id) {
        let canonical = shape::canonical(reading);
        let ours = match evidence.whereabouts(&canonical) {
            ExecutionOrigin::NotOurs => continue,
            ExecutionOrigin::Here { expired: false } => return CitationVerdict::Verified(canonical),
            ExecutionOrigin::Here { expired: true } => Code::ExpiredExecution,
            ExecutionOrigin::Elsewhere => match known.get(&canonical) {
                Some(LedgerAnswer { same_session: true, .. }) => return CitationVerdict::Verified(canonical),
                Some(LedgerAnswer { unavailable: true, .. }) => return CitationVerdict::Against(unanswered(rules, &canonical)),
                None if rules.ask_ledger => return CitationVerdict::Ask(canonical),
                // It was issued here, and its result may stand where nobody can see it.
                Some(_) | None if evidence.is_incomplete() => return CitationVerdict::Against(unknowable(rules)),
                Some(_) | None => Code::ExecutionElsewhere,
            },
        };
        return CitationVerdict::Against(citation(rules, ours, &canonical));
    }
    let quotable = labelling == Labelling::Bare && !readings(id).into_iter().any(tool_registered);
    if quotable && (evidence.is_quotation(&id.text) || evidence.is_quotation(&shape::canonical(&id.text))) {
        return CitationVerdict::Quotation;
    }
    if quotable && evidence.is_incomplete() {
        return CitationVerdict::Against(unknowable(rules));
    }
    let [_, bare, _] = readings(id);
    CitationVerdict::Against(citation(rules, Code::UnknownExecution, bare))
}

/// The ids that a run may hold: all of it, without underscores of emphasis, from the last markup on.
fn readings(id: &ScannedId) -> [&str; 3] {
    let bare = |text: &'_ str| text.len() - text.trim_start_matches(['_', '-']).len();
    let from = |at: usize| id.text.get(at..).unwrap_or_default();
    let cut = from(id.cut);
    [&id.text, from(bare(&id.text)), from(id.cut + bare(cut))]
}

/// Judges a labelled value that doesn't have the form of an execution ID.
pub(super) fn judge_value(text: &str, raw: &str, rules: &TextRules, evidence: &dyn Evidence) -> CitationVerdict {
    if !label::asserts(text) || evidence.is_quotation(text) || evidence.is_quotation(raw) {
        return CitationVerdict::Quotation;
    }
    if evidence.is_incomplete() {
        return CitationVerdict::Against(unknowable(rules));
    }
    CitationVerdict::Against(citation(rules, Code::UnknownExecution, text))
}

/// Violation for an id that only the ledger knows, if it didn't answer in time.
fn unanswered(rules: &TextRules, id: &str) -> Option<Violation> {
    let message = format!("the ledger didn't say in time whether `{}` belongs to this session", quoted(id));
    let advice = "cite only executions whose results are in this conversation, or call the tool again";
    rules.checks.violation(Code::LedgerUnavailable, Some(shape::tool(id)), message, advice)
}

/// Violation for a claim that depends on an unknown part of the conversation.
fn unknowable(rules: &TextRules) -> Option<Violation> {
    let message = "an earlier part of the conversation, which toolmark can't see, may hold what is said here";
    rules.checks.violation(Code::NotJudged, None, message, "")
}

fn citation(rules: &TextRules, code: Code, id: &str) -> Option<Violation> {
    let tool = Some(shape::tool(id)).filter(|tool| !tool.is_empty() && shape::is_id(id));
    let (wrong, advice) = match code {
        Code::ExpiredExecution => ("is too old to be cited", "call the tool again and cite the execution_id of its new result"),
        Code::ExecutionElsewhere => (
            "was issued, but its result isn't in this conversation (agents that work together may share a session: the request header `toolmark-session`)",
            "cite only executions whose results are in this conversation, or call the tool again",
        ),
        _ => (
            "is no execution ID that was issued here",
            "call the tool and cite the execution_id that its result carries; never make one up",
        ),
    };
    rules.checks.violation(code, tool, format!("`{}` {wrong}", quoted(id)), advice)
}

/// Violation for a block that is too long to be judged; it blocks whatever the policy's severities.
pub(super) fn too_long(rules: &TextRules) -> Violation {
    Violation {
        code: Code::MissingExecutionId,
        severity: Severity::Block,
        tool: None,
        message: format!("a block of more than {} bytes is too long to be judged", rules.held_bytes_max),
        advice: "write it in smaller parts, or as prose".to_owned(),
        pointer: None,
        detail: None,
    }
}

/// Judges a phrase that requires a tool's success.
pub(super) fn judge_phrase(said: &str, number: usize, rules: &TextRules, evidence: &dyn Evidence) -> Option<Violation> {
    let rule = rules.phrases.get(number)?;
    if rule.requires.iter().any(|tool| is_backed(rule, tool, said, evidence)) {
        return None;
    }
    if evidence.is_incomplete() {
        return unknowable(rules);
    }
    let tools = rule.requires.join("`, `");
    let message = match rule.message.as_str() {
        "" => format!("`{}` may be said only after `{tools}` succeeded ({})", quoted(said), rule.name),
        message => format!("`{}`: {message}", quoted(said)),
    };
    rules.checks.violation(
        Code::UnsupportedClaim,
        rule.requires.first().map(String::as_str),
        message,
        format!("call `{tools}` first, or don't say so"),
    )
}

/// True if `tool` succeeded as the rule requires, and its results contain the matches of the rule's groups.
fn is_backed(rule: &PhraseRule, tool: &str, said: &str, evidence: &dyn Evidence) -> bool {
    let names: Vec<&str> = rule.regex.capture_names().flatten().collect();
    if !evidence.succeeded(tool) || !rule.turn && names.is_empty() {
        return evidence.succeeded(tool);
    }
    let Some(grounds) = evidence.grounds() else { return true };
    let of_tool = |source: &&ToolResult| *source.tool == *tool && !source.failed && (source.recent || !rule.turn);
    let results: Vec<&ToolResult> = grounds.results.iter().filter(of_tool).collect();
    if results.is_empty() {
        // It succeeded in a part of the conversation that isn't here: what it said can't be told.
        return !rule.turn;
    }
    let captures = rule.regex.captures(said);
    let words = captures.iter().flat_map(|captures| names.iter().filter_map(|name| captures.name(name)));
    words.into_iter().all(|words| {
        let folded = fold(words.as_str());
        folded.is_empty() || results.iter().any(|source| source.has_words(&folded))
    })
}

/// An execution that an object names, if toolmark issued its id.
struct CitedExecution {
    start: usize,
    tool: String,
    id: String,
}

/// Judges the objects of a block; the ids in it are judged separately.
pub(super) fn judge_block(
    block: &ScannedBlock,
    whole: &str,
    tail: &TextWindow,
    rules: &TextRules,
    evidence: &dyn Evidence,
) -> Vec<Violation> {
    let mut objects: Vec<&BlockObject> = block.objects.iter().collect();
    objects.sort_by_key(|object| object.span.start);
    let cited: Vec<CitedExecution> = objects.iter().filter_map(|object| cited(object, tail, evidence)).collect();
    let mut covered = 0;
    let mut looked_up = 0;
    let mut quotation = None;
    let mut violations = Vec::new();
    for object in objects {
        let inside = object.span.start < covered;
        let own = cited.binary_search_by_key(&object.span.start, |cited| cited.start).ok().and_then(|at| cited.get(at));
        if own.is_some() {
            covered = covered.max(object.span.end);
        }
        let Some(violation) = judge_object(object, own, inside, &cited, tail, rules, evidence) else {
            let compare = |own: &CitedExecution| super::compare::compare(object, &own.id, tail, rules, evidence);
            violations.extend(own.into_iter().flat_map(compare));
            continue;
        };
        let mut is_quotation = *quotation.get_or_insert_with(|| evidence.is_quotation(whole));
        if !is_quotation && looked_up < LOOKUPS_MAX {
            looked_up += 1;
            is_quotation = evidence.is_quotation(tail.slice(object.span.clone()));
        }
        if !is_quotation {
            violations.push(violation);
        }
    }
    violations
}

fn judge_object(
    object: &BlockObject,
    own: Option<&CitedExecution>,
    inside: bool,
    cited: &[CitedExecution],
    tail: &TextWindow,
    rules: &TextRules,
    evidence: &dyn Evidence,
) -> Option<Violation> {
    let NamedTool { named, tool, bond } = named(object, tail, evidence)?;
    let tool = &*tool;
    if let Some(own) = own {
        if own.tool == tool || own.tool == named {
            return None;
        }
        return mismatch(&named, &own.tool, tool, rules);
    }
    let from = cited.partition_point(|cited| cited.start <= object.span.start);
    let inner = cited.iter().skip(from).take(INNER_MAX).take_while(|cited| cited.start < object.span.end);
    if inside
        || inner.into_iter().any(|cited| cited.tool == tool)
        || asserts_id(object, tail, evidence)
        || !object.is_result(tail, tool, evidence)
        || bond == ToolRelation::Name && !object.is_strong()
    {
        return None;
    }
    missing_id(tool, rules)
}

/// `named`: the tool that is named; `own`: that of its execution ID; `tool`: the registered one.
fn mismatch(named: &str, own: &str, tool: &str, rules: &TextRules) -> Option<Violation> {
    let message = format!("the block names the tool `{}`, but its execution_id is one of `{}`", quoted(named), quoted(own));
    rules.checks.violation(Code::ToolMismatch, Some(tool), message, "cite the execution of the tool whose result it is")
}

fn missing_id(tool: &str, rules: &TextRules) -> Option<Violation> {
    rules.checks.violation(
        Code::MissingExecutionId,
        Some(tool),
        format!("the block presents a result of `{tool}` without an execution_id"),
        format!("call `{tool}`, wait for its result, and give the execution_id that it carries"),
    )
}

/// Judges a record: lines about a tool. `mode`: that of the text; labelled ids of prose and
/// JSON are judged separately.
pub(super) fn judge_record(record: &Record, whole: &str, mode: TextMode, rules: &TextRules, evidence: &dyn Evidence) -> Option<Violation> {
    let labels = matches!(mode, TextMode::Prose | TextMode::Json) && !record.row;
    let named = object::tool_name(record.tool.as_deref()?);
    let tool = evidence.tool_named(&named)?;
    if !is_result(record, tool, evidence) {
        return None;
    }
    if let Some(raw) = &record.id {
        let id = super::fold::plain(raw);
        let id = id.trim();
        if shape::is_id(id) {
            let own = shape::tool(id);
            let ours = evidence.whereabouts(&shape::canonical(id)) != ExecutionOrigin::NotOurs;
            return (ours && own != tool && own != named).then(|| mismatch(&named, own, tool, rules)).flatten();
        }
        if label::asserts(id) && !evidence.is_quotation(id) && !evidence.is_quotation(raw) {
            return match judge_value(id, raw, rules, evidence) {
                CitationVerdict::Against(violation) if !labels => violation,
                _ => None,
            };
        }
    }
    if evidence.is_quotation(whole.trim()) || evidence.succeeded(tool) && is_grounded(record, evidence) {
        return None;
    }
    missing_id(tool, rules)
}

/// True if a block with an execution id presents a result of a tool.
pub(super) fn presents(block: &ScannedBlock, tail: &TextWindow, evidence: &dyn Evidence) -> bool {
    let with_id = block.objects.iter().any(|object| object.id.is_some());
    let presents = |object: &BlockObject| named(object, tail, evidence).is_some_and(|named| object.is_result(tail, &named.tool, evidence));
    with_id && block.objects.iter().take(INNER_MAX).any(presents)
}

/// True if a record looks like a result of the tool rather than a call of it.
fn is_result(record: &Record, tool: &str, evidence: &dyn Evidence) -> bool {
    let is_call = || record.said.may_be_call() && record.names.iter().all(|name| evidence.has_parameter(tool, name));
    record.said.is_result() && !is_call()
}

/// True if a record presents a result of a tool.
pub(super) fn presents_record(record: &Record, evidence: &dyn Evidence) -> bool {
    let named = record.tool.as_deref().map(object::tool_name).unwrap_or_default();
    let Some(tool) = evidence.tool_named(&named).filter(|_| !named.is_empty()) else { return false };
    is_result(record, tool, evidence)
}

/// True if most of the record's values are in the conversation, in any form: a tool's result may be reported in lines of one's own.
fn is_grounded(record: &Record, evidence: &dyn Evidence) -> bool {
    let (mut told, mut grounded) = (0, 0);
    for value in record.values.iter().take(GROUNDED_MAX) {
        let word = |word: &&str| word.len() >= 4 || word.bytes().any(|byte| byte.is_ascii_digit());
        let mut words = value.split(|c: char| !(c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | ':'))).filter(word).peekable();
        if words.peek().is_none() {
            continue;
        }
        told += 1;
        grounded +=
            usize::from(evidence.is_quotation(value) || words.take(4).any(|word| evidence.is_quotation(word.trim_matches(['.', ':']))));
    }
    grounded > 0 && 2 * grounded >= told
}

/// Relation of an object to its tool.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum ToolRelation {
    /// A member names the tool.
    Member,
    /// The object's introduction says that it is a result of the tool.
    Lead,
    /// The object is under the tool's name.
    Name,
}

/// The tool that an object is about.
struct NamedTool {
    named: String,
    tool: String,
    bond: ToolRelation,
}

fn named(object: &BlockObject, tail: &TextWindow, evidence: &dyn Evidence) -> Option<NamedTool> {
    if let Some(span) = object.tool.clone() {
        let named = object::tool_name(tail.slice(span));
        let tool = evidence.tool_named(&named)?.to_owned();
        return Some(NamedTool { named, tool, bond: ToolRelation::Member });
    }
    let registered = |name: &str| evidence.is_registered(name).then(|| name.to_owned());
    if let Some(name) = object.under.clone().map(|span| super::fold::plain(tail.slice(span)))
        && let Some(tool) = registered(without_result(&name))
    {
        let bond = if without_result(&name) == name { ToolRelation::Name } else { ToolRelation::Lead };
        return Some(NamedTool { named: tool.clone(), tool, bond });
    }
    let lead = object.lead.clone().map(|span| super::fold::plain(tail.slice(span)))?;
    let (tool, bond) = introduced(&lead, evidence)?;
    Some(NamedTool { named: tool.clone(), tool, bond })
}

/// `name` without a suffix for results: `check_net_result` names `check_net`.
fn without_result(name: &str) -> &str {
    let endings = ["_result", "_results", "_output", "_response", "Result", "Output", "Response"];
    endings.iter().find_map(|ending| name.strip_suffix(ending)).filter(|name| !name.is_empty()).unwrap_or(name)
}

/// The tool whose result `lead` introduces: `check_net() ->`, `check_net_result =`, `The result of check_net:`.
fn introduced(lead: &str, evidence: &dyn Evidence) -> Option<(String, ToolRelation)> {
    let lower = lead.to_lowercase();
    if NO_RESULT.iter().any(|word| lower.contains(word)) {
        return None;
    }
    let inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let mut from = 0;
    for _ in 0..LEAD_WORDS_MAX {
        let start = from + lead.get(from..)?.find(inside)?;
        let rest = lead.get(start..).unwrap_or_default();
        let length = rest.find(|c| !inside(c)).unwrap_or(rest.len());
        let word = rest.get(..length).unwrap_or_default().trim_matches(['.', '-']);
        let bare = word.strip_prefix("functions.").or_else(|| word.strip_prefix("tools.")).unwrap_or(word);
        let name = without_result(bare);
        from = start + length;
        if !evidence.is_registered(name) {
            continue;
        }
        let after = rest.get(length..).unwrap_or_default().trim_start_matches(['`', '*', '"', '\'', ' ']);
        let said = name != bare || after.starts_with('(') || RESULT_WORDS.iter().any(|word| lower.contains(word));
        let last = after.trim_end_matches([' ', '*', '`']).len() <= 2;
        return match (said, last) {
            (true, _) => Some((name.to_owned(), ToolRelation::Lead)),
            (false, true) => Some((name.to_owned(), ToolRelation::Name)),
            (false, false) => None,
        };
    }
    None
}

fn cited(object: &BlockObject, tail: &TextWindow, evidence: &dyn Evidence) -> Option<CitedExecution> {
    let value = object.id.clone()?;
    let plain = super::fold::plain(tail.slice(value));
    let id = plain.trim();
    if !shape::is_id(id) {
        return None;
    }
    let ours = match evidence.whereabouts(&shape::canonical(id)) {
        ExecutionOrigin::Here { .. } | ExecutionOrigin::Elsewhere => true,
        ExecutionOrigin::NotOurs => false,
    };
    ours.then(|| CitedExecution { start: object.span.start, tool: shape::tool(id).to_owned(), id: shape::canonical(id) })
}

/// True if the object's execution id is judged as a citation of its own.
fn asserts_id(object: &BlockObject, tail: &TextWindow, evidence: &dyn Evidence) -> bool {
    let Some(value) = object.id.clone() else { return false };
    let raw = tail.slice(value);
    let text = super::fold::plain(raw);
    let text = text.trim();
    let quotation = !shape::is_id(text) && (evidence.is_quotation(text) || evidence.is_quotation(raw));
    label::asserts(text) && !quotation
}

/// `text`, cut to the length that a message may quote.
fn quoted(text: &str) -> &str {
    text.char_indices().nth(QUOTED_CHARS_MAX).and_then(|(at, _)| text.get(..at)).unwrap_or(text)
}
