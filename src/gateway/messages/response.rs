//! A buffered answer: read once, judged as one choice, and written by splices.
//!
//! Source: Anthropic's API reference, "Create a Message"; docs/wire-facts.md#messages. Pure.

use std::{ops::Range, sync::atomic::Ordering};

use bytes::Bytes;

use super::{
    blocks::{BlockKind, REFUSAL, finish_of, fitting_stop, has_unseen_result, kind_of, set_call},
    places, promotion,
    thread::MarkedCalls,
};
use crate::{
    exchange::context::WordsMember,
    exchange::{
        adapter::{WholeAnswer, Written},
        context::{AnswerNature, Context, JudgedChoice},
        decision::ChoiceOutcome,
        error::{CALLS_MAX, Fault, ShapeError},
        loop_guard::AttemptInputs,
        text::{
            other_readings,
            place::{TextPlace, is_ambiguous},
            places::stray,
        },
        turn::{Said, SaidItem},
    },
    judge::{
        call::{
            Arguments, Call, CallKind, ValidCall,
            turn::{FinishReason, ToolChoice},
        },
        text::TextGate,
    },
    marks::MarkTime,
    openai::usage,
    wire::json::{Document, Value, splice::Splices, string::quote},
};

/// A buffered answer.
pub struct MessagesAnswer {
    /// The upstream's bytes.
    came: Bytes,
    document: Document,
    /// Kinds of its blocks, in order.
    kinds: Vec<BlockKind>,
    calls: Vec<Call>,
    /// Texts: the blocks of each run of text blocks, joined.
    texts: Vec<TextPlace>,
    /// Other readings of the blocks, in which ids claim what they don't in [`Self::texts`].
    others: Vec<TextPlace>,
    nature: AnswerNature,
    stop_reason: Option<String>,
    /// Tools of calls that were promoted from text.
    promoted: Vec<String>,
    /// Text outside the answer was left out.
    stray: bool,
}

impl WholeAnswer for MessagesAnswer {
    fn read(body: Bytes, context: &Context) -> Result<Self, Fault> {
        let came = body.clone();
        let document = Document::parse(body)?;
        let root = document.root();
        if !root.is_object() {
            return Err(Fault::Unknown("no JSON object"));
        }
        if is_ambiguous(root) {
            return Err(Fault::Unknown("two members of one name"));
        }
        if root.get("type").is_some_and(|kind| kind.is_text("error")) || root.get_some("error").is_some() {
            return Err(Fault::Reported(root.raw_str().to_owned()));
        }
        let (document, stray) = places::swept(document, context)?;
        let (document, promoted) = promotion::whole(&document, context).unwrap_or_else(|| (document.clone(), Vec::new()));
        let root = document.root();
        let content = root.get("content").filter(|content| content.is_array()).ok_or(Fault::Unknown("no `content`"))?;
        let stop_reason = root.get_some("stop_reason").and_then(Value::text).map(|reason| reason.into_owned());
        let ending = finish_of(stop_reason.as_deref());
        let count = content.items().count();
        let (mut kinds, mut calls, mut texts, mut runs) = (Vec::with_capacity(count), Vec::new(), Vec::new(), Vec::new());
        let mut run = Vec::new();
        for (at, block) in content.items().enumerate() {
            if !block.is_object() || is_ambiguous(block) {
                return Err(Fault::Unknown("a block that is no object, or has two members of one name"));
            }
            let kind = answer_kind(block, context);
            kinds.push(kind);
            if kind == BlockKind::Text {
                run.push(block.get("text").filter(|text| text.is_string()).ok_or(ShapeError::Text)?);
                continue;
            }
            texts.extend(TextPlace::read(run.iter().copied(), context));
            runs.extend((!run.is_empty()).then(|| std::mem::take(&mut run)));
            // As in a stream, what was found counts for the texts behind it.
            if has_unseen_result(block) {
                context.evidence.note_unseen();
            }
            if kind == BlockKind::Call {
                calls.push(read_call(block, if at + 1 == count { ending } else { FinishReason::Complete }));
            }
        }
        texts.extend(TextPlace::read(run.iter().copied(), context));
        runs.extend((!run.is_empty()).then_some(run));
        let judged: Vec<&TextGate> = texts.iter().map(|place| &place.gate).collect();
        let others = other_readings::adding(other_readings::of_runs(&runs, context), |place| &place.gate, &judged);
        if calls.len() > CALLS_MAX {
            return Err(ShapeError::TooMany.into());
        }
        let nature = nature_of(&kinds, texts.len(), stop_reason.as_deref(), context);
        texts.extend(TextPlace::read(explanation_of(root.get("stop_details")), context));
        Ok(Self { came, document, kinds, calls, texts, others, nature, stop_reason, promoted, stray })
    }

    fn judge(&self, context: &Context, inputs: AttemptInputs) -> Vec<JudgedChoice> {
        let gates: Vec<&TextGate> = self.texts.iter().chain(&self.others).map(|place| &place.gate).collect();
        let mut judged = context.judge_choice(&self.calls, &gates, self.nature, inputs);
        judged.turn.violations.extend(crate::exchange::promotion::notes(&self.promoted, context));
        judged.turn.violations.extend(self.stray.then(|| stray(context)).flatten());
        vec![judged]
    }

    fn note_stray(&mut self) {
        self.stray = true;
    }

    fn said(&self, choice: usize) -> Said {
        if choice > 0 {
            return Said::default();
        }
        let text = self.texts.iter().map(|place| &*place.text).collect();
        let calls = self.calls.iter().map(|call| (call.clone(), Vec::new())).collect();
        let mut places = 0..self.calls.len();
        let item = |(block, kind): (Value<'_>, &BlockKind)| match kind {
            BlockKind::Call => SaidItem::Call(places.next().unwrap_or_default(), block.raw_str().to_owned()),
            _ => SaidItem::Raw(block.raw_str().to_owned()),
        };
        let items = self.blocks().zip(&self.kinds).map(item).collect();
        Said { text, calls, items, answer_id: self.id(), ..Said::default() }
    }

    fn usage(&self) -> Option<Value<'_>> {
        self.document.root().get_some("usage")
    }

    fn write(&self, finals: Vec<ChoiceOutcome>, context: &Context, earlier: Option<serde_json::Value>, verdict: Option<&str>) -> Written {
        if context.observes() {
            return Written { body: self.came.clone(), memo: None };
        }
        let (root, mut edits) = (self.document.root(), Splices::default());
        let mut memo = None;
        match finals.into_iter().next().unwrap_or_else(|| ChoiceOutcome::Replace(String::new())) {
            ChoiceOutcome::Accept(calls) => memo = self.accept(&mut edits, &calls, context).memo(context, self.id().as_deref()),
            ChoiceOutcome::Replace(text) => {
                let words = Words::new(&text, context);
                self.replace(&mut edits, &words.blocks(), words.stop_reason(), &words.stop_details());
            }
            ChoiceOutcome::ReplaceByCall(call) => {
                let mark = context.mint(call.0.name(), call.0.arguments(), call.1);
                self.replace(&mut edits, &call_block(&call.0, &mark), "tool_use", "null");
            }
        }
        if let Some(mut sum) = earlier {
            if let Some(own) = self.usage() {
                usage::merge(&mut sum, own.raw_str());
            }
            edits.set_member(root, "usage", &sum.to_string());
        }
        match verdict {
            Some(verdict) => edits.set_member(root, "toolmark", verdict),
            // Whatever the upstream says there isn't toolmark's.
            None => edits.remove_members(root, |name| name == "toolmark"),
        }
        Written { body: edits.apply(self.document.bytes()), memo }
    }
}

impl MessagesAnswer {
    fn blocks(&self) -> impl Iterator<Item = Value<'_>> {
        self.document.root().get("content").into_iter().flat_map(Value::items)
    }

    fn id(&self) -> Option<String> {
        self.document.root().get("id").and_then(Value::text).map(|id| id.into_owned())
    }

    /// Writes the model's turn with these calls; returns what is to be known of them.
    fn accept(&self, edits: &mut Splices, calls: &[(ValidCall, MarkTime)], context: &Context) -> MarkedCalls {
        let mut marked = MarkedCalls::default();
        let Some(content) = self.document.root().get("content") else { return marked };
        let drops_thinking = drops_thinking(context);
        let last_thinking = self.kinds.iter().rposition(|kind| *kind == BlockKind::Thinking).filter(|_| !drops_thinking);
        let mut gone = vec![false; self.kinds.len()];
        if let Some(explanation) = explanation_of(self.document.root().get("stop_details"))
            && let Some(text) = self.changed(&explanation.span())
        {
            edits.replace(explanation.span(), quote(&text));
        }
        let (mut accepted, mut left) = (calls.iter(), 0);
        for (at, (block, kind)) in content.items().zip(&self.kinds).enumerate() {
            match kind {
                BlockKind::Text => {
                    let Some(text) = block.get("text") else { continue };
                    // Thinking is bound to the text before it.
                    let is_bound = last_thinking.is_some_and(|last| at < last);
                    let changed = if is_bound { None } else { self.changed(&text.span()) };
                    gone[at] = changed.as_ref().map_or_else(|| text.is_text(""), String::is_empty);
                    if changed.is_some() {
                        marked.change();
                    }
                    if let Some(text_left) = changed.filter(|_| !gone[at]) {
                        edits.replace(text.span(), quote(&text_left));
                    }
                }
                BlockKind::Thinking => gone[at] = drops_thinking,
                BlockKind::Call => {
                    let Some((call, moment)) = accepted.next() else { continue };
                    // What toolmark runs never leaves.
                    gone[at] = context.tools().runs(call.name()).is_some();
                    if !gone[at] {
                        left += 1;
                        let mark = marked.mark(context, block, call, *moment);
                        let unchanged = block.get("input").is_some_and(|input| input.raw_str() == call.arguments());
                        set_call(edits, block, &mark, call.renamed().then(|| call.name()), (!unchanged).then(|| call.arguments()));
                    }
                }
                BlockKind::ToolsetCall => left += 1,
                BlockKind::Hosted | BlockKind::Other => {}
            }
        }
        edits.remove_items(content, |at| gone.get(at).is_some_and(|gone| *gone));
        if let Some(stop) = fitting_stop(self.stop_reason.as_deref(), left) {
            edits.set_member(self.document.root(), "stop_reason", stop);
        }
        marked
    }

    /// The text of a block without what is taken out; `None` if it is unchanged.
    fn changed(&self, span: &Range<usize>) -> Option<String> {
        let place = self.texts.iter().find(|place| place.parts.iter().any(|part| part.span == *span))?;
        let removals: Vec<Range<usize>> = place.gate.removals().collect();
        place.changed(place.parts.iter().find(|part| part.span == *span)?, &removals)
    }

    fn replace(&self, edits: &mut Splices, blocks: &str, stop_reason: &str, stop_details: &str) {
        let root = self.document.root();
        edits.set_member(root, "content", &format!("[{blocks}]"));
        edits.set_member(root, "stop_reason", &quote(stop_reason));
        let details = if root.get("stop_details").is_some() || stop_details != "null" { Some(stop_details) } else { None };
        details.into_iter().for_each(|details| edits.set_member(root, "stop_details", details));
        if let Some(own) = root.get_some("stop_sequence") {
            edits.replace(own.span(), "null");
        }
    }
}

/// Kind of a block of an answer. A call of a toolset that isn't offered, or by the name of one of the request's tools, is a call like any
/// other.
pub(super) fn answer_kind(block: Value<'_>, context: &Context) -> BlockKind {
    match kind_of(block) {
        BlockKind::ToolsetCall if !is_of_toolset(block, context) => BlockKind::Call,
        kind => kind,
    }
}

fn is_of_toolset(call: Value<'_>, context: &Context) -> bool {
    let text = |name: &str| call.get(name).and_then(Value::text).unwrap_or_default();
    let (name, toolset) = (text("name"), text("toolset_name"));
    // `computer_toolset_20260801` offers the toolset `computer`. What an MCP server's has is called otherwise.
    let offers = |kind: &String| kind.split_once("_toolset").is_some_and(|(own, _)| own == toolset && own != "mcp");
    let offered = context.tools().hosted.iter().any(offers) || context.hidden.unseen;
    offered && context.turn.tool_choice != ToolChoice::None && context.tools().registry.tool(&name).is_none()
}

/// True if the thinking of the answer must not leave: it came after a repair, and is bound to the rejected turn, which
/// the application doesn't have. Models that take manual thinking check no binding, and need thinking in front of calls.
pub(super) fn drops_thinking(context: &Context) -> bool {
    let thinking = context.request().root().get("thinking").and_then(|thinking| thinking.get("type"));
    context.repaired.load(Ordering::Relaxed) && !thinking.is_some_and(|kind| kind.is_text("enabled"))
}

/// Explanation of a refusal: it is judged like a text.
pub(super) fn explanation_of(stop_details: Option<Value<'_>>) -> Option<Value<'_>> {
    stop_details?.get("explanation").filter(|text| text.is_string())
}

/// Reads a call. `ending`: that of the answer if it ends in this block.
fn read_call(block: Value<'_>, ending: FinishReason) -> Call {
    let text = |name: &str| block.get(name).and_then(Value::text).map(|text| text.into_owned());
    let cut = ending != FinishReason::Complete;
    let arguments = match block.get_some("input") {
        // The input of a call that was cut off is left out.
        Some(input) if cut && input.is_object() && input.members().next().is_none() => Arguments::Absent,
        // Some servers send it as a string.
        Some(input) => Arguments::Text(input.text().map_or_else(|| input.raw_str().to_owned(), Into::into)),
        None => Arguments::Absent,
    };
    Call { name: text("name").unwrap_or_default(), kind: CallKind::Function, arguments, id: text("id") }
}

/// Traits of an answer with blocks of these kinds and with `texts` texts.
pub(super) fn nature_of(kinds: &[BlockKind], texts: usize, stop_reason: Option<&str>, context: &Context) -> AnswerNature {
    let has = |kind: BlockKind| kinds.contains(&kind);
    let toolsets = || context.tools().hosted.iter().any(|kind| kind.contains("toolset"));
    let only_refuses = texts == 0 && !has(BlockKind::Call) && stop_reason == Some(REFUSAL);
    AnswerNature {
        has_text: texts > 0,
        has_audio: has(BlockKind::Other),
        hosted_calls: has(BlockKind::Hosted) || has(BlockKind::ToolsetCall),
        unoffered_calls: has(BlockKind::ToolsetCall) && !toolsets(),
        ending: if only_refuses { FinishReason::Refusal } else { finish_of(stop_reason) },
    }
}

/// toolmark's own words as an answer: a text, or a refusal where JSON was asked for, so that nobody parses them.
pub(super) struct Words<'w> {
    text: &'w str,
    member: WordsMember,
}

impl<'w> Words<'w> {
    pub fn new(text: &'w str, context: &Context) -> Self {
        Self { text, member: context.words_member() }
    }

    /// The text of the answer; `None` for a refusal.
    pub fn text(&self) -> Option<&'w str> {
        (self.member == WordsMember::Content && !self.text.is_empty()).then_some(self.text)
    }

    pub fn blocks(&self) -> String {
        self.text().map(|text| format!(r#"{{"type":"text","text":{}}}"#, quote(text))).unwrap_or_default()
    }

    pub fn stop_reason(&self) -> &'static str {
        match self.member {
            WordsMember::Content => "end_turn",
            WordsMember::Refusal => "refusal",
        }
    }

    /// `stop_details`, JSON.
    pub fn stop_details(&self) -> String {
        if self.member == WordsMember::Content {
            return "null".to_owned();
        }
        format!(r#"{{"type":"refusal","category":null,"explanation":{}}}"#, quote(self.text))
    }
}

/// A `tool_use` block.
pub(super) fn call_block(call: &ValidCall, mark: &str) -> String {
    format!(r#"{{"type":"tool_use","id":{},"name":{},"input":{}}}"#, quote(mark), quote(call.name()), call.arguments())
}
