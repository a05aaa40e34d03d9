//! The gate: receives a text piece by piece; returns how much of it is decided, and its violations. Pure.
//!
//! Findings of the scanners are judged in the order of their places, each once no scanner can find anything before it. INVARIANT: `cleared`
//! only grows, and never passes the start of a blocking claim.

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    ops::Range,
};

use super::{
    Evidence, GateProgress, LedgerAnswer, TextRules, around,
    claim::{self, CitationVerdict},
    clause,
    container::Containers,
    explain,
    fence::{CodeFenceTracker, TextMode},
    item::{Kind, Labelling, ScannedId, ScannedItem, ScannedLabel},
    shape,
    tail::TextWindow,
};
use crate::{
    claims::{checker::ProseClaims, text_input::TextInput},
    judge::text::scan::{
        block::BlockScanner,
        line::LineScanner,
        record::RecordScanner,
        run::IdScanner,
        start::BareCallScanner,
        written::{self, CallMarkerScanner},
    },
    violation::{Code, Violation},
};

/// Bytes of the longest text that is kept.
const KEPT_BYTES_MAX: usize = 64 << 10;

/// Violations recorded of one text; further ones still block.
const VIOLATIONS_MAX: usize = 64;

/// Bytes before the first content of a fence that count as blanks.
const FENCE_BLANKS_MAX: usize = 64;
/// Bytes behind a block in which the end of its fence is looked for.
const FENCE_REST_BYTES_MAX: usize = 4096;

/// Bytes within which two beginnings of a call belong to the same call.
const SAME_CALL: usize = 128;

type Key = (usize, u8, usize);

/// Outcome of judging one finding.
enum FindingStep {
    Done,
    /// The following text isn't known yet.
    Wait,
    /// The ledger must be asked.
    Ask,
}

/// Judges one text as it arrives, and clears the decided part for release.
#[derive(Debug, Default)]
pub struct TextGate {
    tail: TextWindow,
    fences: CodeFenceTracker,
    runs: IdScanner,
    blocks: BlockScanner,
    records: RecordScanner,
    lines: LineScanner,
    marks: CallMarkerScanner,
    starts: BareCallScanner,
    /// Start of the last call written as text.
    call: Option<usize>,
    prose: ProseClaims,
    pending: BTreeMap<Key, ScannedItem>,
    found: Vec<ScannedItem>,
    input: TextInput,
    /// End of the last finding that was judged.
    floor: usize,
    /// Span of the last whole block that was judged.
    block: Range<usize>,
    /// Span of the last block that was judged, whole or not.
    read: Range<usize>,
    /// Span of the last block or record that presents a result of a tool.
    presented: Range<usize>,
    /// Span of the last record that was objected to.
    told: Range<usize>,
    /// Span of the last labelled value.
    value: Range<usize>,
    asked: Vec<String>,
    known: HashMap<String, LedgerAnswer>,
    cleared: usize,
    containers: Containers,
    /// Text that closes everything open before the blocking claim.
    closing: Option<String>,
    blocked: Option<usize>,
    removals: VecDeque<Range<usize>>,
    /// Number of the list item that was removed last.
    item: u32,
    violations: Vec<Violation>,
    citations: Vec<String>,
    cited: HashSet<String>,
    /// The text so far; `None` if it isn't kept, or is too long.
    kept: Option<String>,
}

impl TextGate {
    /// Gate for one text: one per choice, or per part of text.
    pub fn new() -> Self {
        Self::default()
    }

    /// False if this whole text can contain neither an id nor a label of one: it has no word that is long enough, and nothing that could
    /// hide one. Fast path for texts that are read for ids only.
    pub fn may_find_ids(text: &str, rules: &TextRules) -> bool {
        !rules.extra_patterns.is_empty() || IdScanner::may_find(text.as_bytes())
    }

    /// Receives the next piece of the text.
    pub fn handle(&mut self, piece: &str, rules: &TextRules, evidence: &dyn Evidence) -> GateProgress {
        self.push(piece, rules, evidence);
        self.advance(rules, evidence)
    }

    /// Receives a piece without judging it: [`Self::finish`] must follow.
    pub fn push(&mut self, piece: &str, rules: &TextRules, evidence: &dyn Evidence) {
        if rules.keep_text {
            let kept = self.kept.get_or_insert_default();
            if kept.len() <= KEPT_BYTES_MAX {
                kept.push_str(piece);
            }
        }
        self.tail.push(piece);
        self.prose.push(piece, &rules.claims(), evidence);
    }

    /// Ends the text. May be called again after [`Self::answer`].
    pub fn finish(&mut self, rules: &TextRules, evidence: &dyn Evidence) -> GateProgress {
        self.input = TextInput::Complete;
        self.advance(rules, evidence)
    }

    /// Receives the ledger's answer about an id that [`GateProgress::Need`] named.
    pub fn answer(&mut self, execution_id: &str, known: LedgerAnswer) {
        self.known.insert(execution_id.to_owned(), known);
    }

    /// Place, in bytes of the whole text, up to which it is decided and may be released, without [`Self::removals`]. Never shrinks; once
    /// something blocks, never passes its start.
    pub fn cleared(&self) -> usize {
        self.cleared
    }

    /// Text that isn't decided yet; `None` if it isn't kept any more, as where nothing is cleared before the end.
    pub fn undecided(&self) -> Option<&str> {
        let text = self.tail.from(self.cleared);
        (self.cleared + text.len() == self.tail.end()).then_some(text)
    }

    /// Spans to be removed from the text, in order; each lies within the cleared text, or will.
    pub fn removals(&self) -> impl Iterator<Item = Range<usize>> {
        self.removals.iter().cloned()
    }

    /// Drops the removals that end at or before `place`; they were carried out.
    pub fn forget_removals(&mut self, place: usize) {
        while self.removals.front().is_some_and(|span| span.end <= place) {
            self.removals.pop_front();
        }
    }

    /// Violations so far, in the order of the text; those of claims in prose come last, once the text has ended.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// Start of the first claim that the policy blocks, if any.
    pub fn blocked(&self) -> Option<usize> {
        self.blocked.into_iter().chain(self.prose.blocked()).min()
    }

    /// True if no text was received; requires that the text is kept.
    pub fn is_empty(&self) -> bool {
        self.kept.as_ref().is_none_or(String::is_empty)
    }

    /// The whole text, if it is kept and not too long.
    pub fn text(&self) -> Option<&str> {
        self.kept.as_deref().filter(|text| text.len() <= KEPT_BYTES_MAX)
    }

    /// Text that closes everything open at the end of the released text, so that an appended text isn't part of it.
    pub fn closing(&self) -> String {
        let closing = || {
            // What stands at the very end goes on no further.
            let mut containers = self.containers.clone();
            containers.advance(&self.tail, &self.fences, self.cleared, TextInput::Complete);
            containers.closing(&self.tail, &self.fences, self.cleared)
        };
        self.closing.clone().unwrap_or_else(closing)
    }

    /// Execution IDs that were cited and verified, each once.
    pub fn citations(&self) -> &[String] {
        &self.citations
    }

    // Border for the optimiser: streams of three APIs and whole answers share it.
    #[inline(never)]
    fn advance(&mut self, rules: &TextRules, evidence: &dyn Evidence) -> GateProgress {
        self.fences.advance(&self.tail);
        self.runs.advance(&self.tail, &self.fences, rules, self.input, &mut self.found);
        self.lines.advance(&self.tail, rules, self.input, &mut self.found);
        // Where the request has no tools a block presents nobody's result: an answer that is JSON, or code, leaves as it comes.
        let marked = rules.has_tools && !rules.json_only;
        if marked {
            self.blocks.advance(&self.tail, &self.fences, rules, self.input, &mut self.found);
            self.marks.advance(&self.tail, &self.fences, evidence, self.input, &mut self.found);
            self.starts.advance(&self.tail, &self.fences, rules, evidence, self.input, &mut self.found);
            self.records.advance(&self.tail, &self.fences, evidence, self.input, &mut self.found);
        }
        for item in self.found.drain(..) {
            self.pending.insert(item.key(), item);
        }
        let marks = [self.blocks.hold(), self.marks.hold(), self.starts.hold(), self.records.hold()].into_iter().filter(|_| marked).min();
        let mut hold = self.runs.hold().min(self.lines.hold()).min(marks.unwrap_or(usize::MAX));
        let waits = self.settle(hold, rules, evidence);
        if let Some((start, _, _)) = self.pending.keys().next() {
            hold = hold.min(*start);
        }
        let hold = self.prose.advance(hold, self.input, &rules.claims(), evidence);
        self.clear(hold, rules);
        match waits {
            true => GateProgress::Need(std::mem::take(&mut self.asked)),
            false => GateProgress::Flow,
        }
    }

    /// Judges the findings that nothing can come before; true if the ledger must be asked first.
    fn settle(&mut self, hold: usize, rules: &TextRules, evidence: &dyn Evidence) -> bool {
        while let Some((key, item)) = self.pending.pop_first() {
            // In the line that may open a fence: what blocks there, blocks from the fence's marks on if it does.
            let opens = self.fences.opening().is_some_and(|marks| item.span.start >= marks);
            if self.input.is_partial() && (opens || item.span.start >= hold || item.span.end > self.runs.hold()) {
                self.pending.insert(key, item);
                return false;
            }
            match self.judge(&item, rules, evidence) {
                FindingStep::Done => {}
                FindingStep::Wait => {
                    self.pending.insert(key, item);
                    return false;
                }
                FindingStep::Ask => {
                    self.pending.insert(key, item);
                    self.ask_further(rules, evidence);
                    return true;
                }
            }
        }
        false
    }

    /// Adds the other pending ids that the ledger must be asked about, so that all are asked at the same time.
    fn ask_further(&mut self, rules: &TextRules, evidence: &dyn Evidence) {
        let mut asked: HashSet<String> = self.asked.iter().cloned().collect();
        for item in self.pending.values() {
            if let Kind::Id(id) = &item.kind
                && let CitationVerdict::Ask(further) = claim::judge_id(id, Labelling::Labelled, rules, evidence, &self.known)
                && asked.insert(further.clone())
            {
                self.asked.push(further);
            }
        }
    }

    fn judge(&mut self, item: &ScannedItem, rules: &TextRules, evidence: &dyn Evidence) -> FindingStep {
        match &item.kind {
            Kind::TooLong => self.record(item.span.clone(), Some(claim::too_long(rules)), rules),
            Kind::Phrase(number) => {
                let violation = claim::judge_phrase(self.tail.slice(item.span.clone()), *number, rules, evidence);
                self.record(item.span.clone(), violation, rules);
            }
            Kind::Block(block) => {
                if self.fences.mode(item.span.start) == TextMode::Code {
                    match self.ends_fence(item.span.end) {
                        None => return FindingStep::Wait,
                        Some(false) => return FindingStep::Done,
                        Some(true) => {}
                    }
                }
                self.read = item.span.clone();
                let whole = self.tail.slice(item.span.clone());
                let judged = !block.objects.is_empty();
                let mut violations = if judged { claim::judge_block(block, whole, &self.tail, rules, evidence) } else { Vec::new() };
                if judged && claim::presents(block, &self.tail, evidence) {
                    self.presented = item.span.clone();
                }
                if violations.iter().any(|violation| violation.code == Code::MissingExecutionId) && self.is_example(&item.span, evidence) {
                    violations.retain(|violation| violation.code != Code::MissingExecutionId);
                }
                if block.complete {
                    self.block = item.span.clone();
                }
                self.prose.pass_over(item.span.clone());
                for violation in violations {
                    self.record(item.span.start..item.span.start, Some(violation), rules);
                }
            }
            Kind::Record(record) => {
                // The lines of a block are its own.
                if rules.has_tools && !self.read.contains(&item.span.start) {
                    let mode = self.fences.mode(item.span.start);
                    let whole = self.tail.slice(item.span.clone());
                    let violation = claim::judge_record(record, whole, mode, rules, evidence);
                    if claim::presents_record(record, evidence) {
                        self.presented = item.span.clone();
                    }
                    let violation =
                        violation.filter(|violation| violation.code != Code::MissingExecutionId || !self.is_example(&item.span, evidence));
                    if violation.is_some() {
                        self.told = item.span.clone();
                    }
                    self.record(item.span.start..item.span.start, violation, rules);
                }
            }
            Kind::Written(written) => {
                let start = item.span.start;
                if !written.call && self.told.contains(&start) {
                    return FindingStep::Done;
                }
                // One call is found by its wrapper, by its tag and by its name.
                let again = written.call && self.call.is_some_and(|call| start - call <= SAME_CALL);
                if let Some(violation) = written::judge(written, rules, evidence).filter(|_| !again) {
                    self.call = if written.call { Some(start) } else { self.call };
                    self.record(item.span.clone(), Some(violation), rules);
                }
            }
            Kind::Label(label) => return self.judge_label(&item.span, label, rules, evidence),
            Kind::Id(id) => {
                let in_value = self.value.start < item.span.end && item.span.start < self.value.end;
                let labelling = if in_value { Labelling::Labelled } else { Labelling::Bare };
                return self.judge_citation(&item.span, id, None, labelling, rules, evidence);
            }
        }
        FindingStep::Done
    }

    /// Judges a label by the execution ID in its value; without one, the value is judged as it is.
    fn judge_label(&mut self, span: &Range<usize>, label: &ScannedLabel, rules: &TextRules, evidence: &dyn Evidence) -> FindingStep {
        let inside = |item: &ScannedItem| matches!(item.kind, Kind::Id(_)) && item.span.end > label.value.start;
        let inner = self.pending.range(..(label.value.end, 0, 0)).find(|(_, item)| inside(item)).map(|(key, item)| (*key, item.clone()));
        if let Some((key, ScannedItem { span: place, kind: Kind::Id(id) })) = inner {
            let whole = span.start..span.end.max(place.end);
            let step = self.judge_citation(&whole, &id, Some(label), Labelling::Labelled, rules, evidence);
            if matches!(step, FindingStep::Done) {
                self.value = label.value.clone();
                self.pending.remove(&key);
            }
            return step;
        }
        match claim::judge_value(&label.text, self.tail.slice(label.value.clone()), rules, evidence) {
            CitationVerdict::Against(violation) => {
                if !self.is_presented(span, rules, evidence) {
                    match self.explains(span, evidence) {
                        None => return FindingStep::Wait,
                        Some(true) => return FindingStep::Done,
                        Some(false) => {}
                    }
                }
                self.record(span.clone(), violation, rules);
            }
            CitationVerdict::Quotation | CitationVerdict::Verified(_) | CitationVerdict::Ask(_) => {}
        }
        FindingStep::Done
    }

    /// True if `span` is in a block or record that presents a result of a tool.
    fn is_presented(&self, span: &Range<usize>, rules: &TextRules, evidence: &dyn Evidence) -> bool {
        let waiting = self.pending.range(..(span.end, 0, 0)).any(|(_, item)| match &item.kind {
            Kind::Record(record) => item.span.end > span.start && claim::presents_record(record, evidence),
            _ => false,
        });
        rules.has_tools && (waiting || self.presented.contains(&span.start))
    }

    /// True if the id in `span` is explained rather than claimed. `None`: the following text isn't known yet.
    fn explains(&self, span: &Range<usize>, evidence: &dyn Evidence) -> Option<bool> {
        let end = explain::sentence_end(self.tail.from(span.end), self.input)?;
        let before = self.tail.slice(self.tail.boundary(span.start.saturating_sub(explain::BEFORE_BYTES))..span.start);
        let (own, after) = (self.tail.slice(span.clone()), self.tail.slice(span.end..span.end + end));
        Some(explain::explains(before, own, after) || evidence.asks_about_ids() && !explain::reports(before, after))
    }

    /// True if the block in `span` is an example that the user asked for, or the user's own data in another form.
    fn is_example(&self, span: &Range<usize>, evidence: &dyn Evidence) -> bool {
        let before = self.tail.slice(self.tail.boundary(span.start.saturating_sub(explain::BEFORE_BYTES))..span.start);
        explain::introduces_example(before) && (evidence.asks_about_ids() || evidence.asks_for_program())
            || evidence.asks_for_samples()
            || evidence.asks_for_conversion(self.tail.slice(span.clone()))
    }

    fn judge_citation(
        &mut self,
        span: &Range<usize>,
        id: &ScannedId,
        label: Option<&ScannedLabel>,
        labelling: Labelling,
        rules: &TextRules,
        evidence: &dyn Evidence,
    ) -> FindingStep {
        match claim::judge_id(id, labelling, rules, evidence, &self.known) {
            CitationVerdict::Quotation => {}
            // One that can't have been issued may be an example; under a label it is judged all the same.
            CitationVerdict::Against(_)
                if labelling == Labelling::Bare
                    && !shape::is_possible(&id.text, rules.now_ms)
                    && !self.is_presented(span, rules, evidence) =>
            {
                match self.explains(span, evidence) {
                    None => return FindingStep::Wait,
                    Some(true) => {}
                    Some(false) => {
                        if let CitationVerdict::Against(violation) = claim::judge_id(id, labelling, rules, evidence, &self.known) {
                            self.record(span.clone(), violation, rules);
                        }
                    }
                }
            }
            CitationVerdict::Against(violation) => self.record(span.clone(), violation, rules),
            CitationVerdict::Ask(execution_id) => {
                self.asked = vec![execution_id];
                return FindingStep::Ask;
            }
            CitationVerdict::Verified(execution_id) => {
                let prose = self.fences.mode(span.start) == TextMode::Prose && !self.in_block(span);
                // What stands before the markup right before it is the answer's: `21<sup>id</sup>`.
                let behind = id.cut > 0 && label.is_none() && execution_id.len() <= id.text.len() - id.cut;
                let mut span = if behind { id.from..span.end } else { span.clone() };
                let before = id.text.len() - execution_id.len().min(id.text.len()) - if behind { id.cut } else { 0 };
                let mut end = span.end;
                // What lies before the floor went with the label before it.
                let apart = span.start >= self.floor;
                if prose && apart && !rules.show && !rules.json_only {
                    // `_id_`: the underscores before it are markup, and so are as many behind it.
                    for _ in 0..before {
                        match self.tail.after(span.end) {
                            None if self.input.is_partial() => return FindingStep::Wait,
                            Some('_') => span.end += 1,
                            Some(_) | None => break,
                        }
                    }
                    let (inner, closed) = label.map_or(("", ""), |label| (label.openers.as_str(), label.closers.as_str()));
                    let Some(removal) = around::enclosed(&self.tail, span.clone(), inner, closed, self.floor, self.input) else {
                        return FindingStep::Wait;
                    };
                    let Some(removal) = clause::removal(
                        &self.tail,
                        removal,
                        label.map_or(Labelling::Bare, |_| Labelling::Labelled),
                        &mut self.item,
                        self.floor,
                        self.input,
                    ) else {
                        return FindingStep::Wait;
                    };
                    if let Some(removal) = removal {
                        end = removal.end;
                        self.removals.push_back(removal);
                    }
                }
                self.floor = self.floor.max(end);
                if !self.in_block(&span) {
                    self.prose.cite(span.start, &execution_id);
                }
                if self.cited.insert(execution_id.clone()) {
                    self.citations.push(execution_id);
                }
            }
        }
        FindingStep::Done
    }

    /// True if only closing marks follow `place` in its fence. `None`: that isn't known yet.
    fn ends_fence(&self, place: usize) -> Option<bool> {
        let end = self.fences.change_after(place).unwrap_or(self.tail.end()).min(place + FENCE_REST_BYTES_MAX);
        let rest = self.tail.slice(place..self.tail.boundary(end));
        let rest = rest.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, ')' | ']' | ';' | ',' | '>'));
        match rest.as_bytes() {
            [] => (self.input.is_complete() || end < self.tail.end()).then_some(true),
            [b'`' | b'~'] | [b'`' | b'~', b'`' | b'~'] if self.input.is_partial() => None,
            [first, ..] => Some(matches!(first, b'`' | b'~')),
        }
    }

    /// True if `span`, which may be empty, is in the last whole block. What begins where the block ends isn't.
    fn in_block(&self, span: &Range<usize>) -> bool {
        self.block.contains(&span.start) && span.end <= self.block.end
    }

    /// Records a violation of the text in `span`; a blocking one blocks from the start of `span` on.
    fn record(&mut self, span: Range<usize>, violation: Option<Violation>, rules: &TextRules) {
        let Some(violation) = violation else { return };
        let start = if self.in_block(&span) { self.block.start } else { span.start };
        if violation.blocks() && self.blocked.is_none() {
            let marks = around::shown_beginning(&self.tail, start, self.floor, rules);
            self.blocked = Some(self.before_fence(start, marks, self.floor, rules));
        }
        self.floor = self.floor.max(span.end);
        if self.violations.len() < VIOLATIONS_MAX {
            self.violations.push(violation);
        }
    }

    /// Clears the text before `hold`, except the marks directly before a possible finding.
    fn clear(&mut self, hold: usize, rules: &TextRules) {
        let done = self.input.is_complete() && self.pending.is_empty();
        let hold = self.fences.opening().map_or(hold, |marks| marks.min(hold));
        let place = if done { self.tail.end() } else { self.held(hold, self.floor.min(hold), rules) };
        if done || !rules.hold_all {
            self.cleared = self.cleared.max(place).min(self.blocked().unwrap_or(usize::MAX));
        }
        if done {
            let room = VIOLATIONS_MAX.saturating_sub(self.violations.len());
            self.violations.extend(self.prose.found().take(room));
        }
        self.containers.advance(&self.tail, &self.fences, self.cleared, if done { TextInput::Complete } else { TextInput::Partial });
        if self.closing.is_none() && self.blocked().is_some_and(|blocked| self.cleared >= blocked) {
            self.closing = Some(self.closing());
        }
        self.fences.forget(place.min(self.containers.at()));
        self.tail.discard(place);
    }

    /// Place up to which text may be released while the finding at `from` isn't decided: words that would be removed with it are held.
    fn held(&self, from: usize, floor: usize, rules: &TextRules) -> usize {
        let start = match rules.show {
            true => around::marks_beginning(&self.tail, from, floor),
            false => clause::beginning(&self.tail, from, floor),
        };
        self.before_fence(from, start, floor, rules)
    }

    /// `start`, or the marks of the fence that has `from` in its opening line or as its first content.
    fn before_fence(&self, from: usize, start: usize, floor: usize, rules: &TextRules) -> usize {
        let found = self.fences.opened_by_line_of(from).or_else(|| self.fences.fence_at(from));
        let Some((fence, inside)) = found.filter(|(fence, _)| fence.marks >= floor) else { return start };
        let between = inside..from.max(inside);
        let first = between.len() <= FENCE_BLANKS_MAX
            && self.tail.slice(between).trim_matches(|c: char| c.is_whitespace() || around::closer(c).is_some()).is_empty();
        if first { start.min(around::shown_beginning(&self.tail, fence.marks, floor, rules)) } else { start }
    }
}
