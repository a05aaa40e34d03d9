//! The claims in the prose of one text, passage by passage, as it streams. Pure.
//!
//! A passage is judged when it is whole and every citation in it is. What cites something covers its own sentence, the
//! list, table or paragraph that it introduces, and, for counts and absences, the rest of its paragraph; a citation that
//! stands alone covers what stands before it. An answer without citations is compared with the result that it follows,
//! where there is only one.

use std::{collections::VecDeque, ops::Range, sync::Arc};

use super::{
    passage::{Kind, Passage, PassageSplitter},
    plain::{AnalyzedPassage, LazyPassage},
    report::report,
    told_failure::ToldFailure,
};
use crate::{
    checks::{
        absence, account,
        account::{empty_results, sentence},
        actions,
        acts::{
            self,
            act_sentence::Before,
            further::further,
            halves,
            idle::idle,
            speech::reported::{self, ReportedAct},
            unlooked::unlooked,
        },
        bindings, carried_out, consistency,
        counts::{counts, something_of_nothing},
        elsewhere,
        failed_calls::{SPACELESS_CHARS, echoes, echoes_end, is_bare_statement, regrets, tells_part, tells_trial, was_retried},
        fields, figures,
        order::{self, OrderedList},
        reasons,
        selection::{another, asked_counts, compared::compared, denial, part_counts, roles, totals, universal},
        states::{self, OpenAct, opposites},
        unaccounted, values,
        written_output::WrittenOutput,
    },
    context::{CheckContext, CitationScope, ClaimFinding},
    evidence::{EvidenceIndex, ToolResult},
    language::{
        cues,
        fold::fold,
        lenient_json,
        lexicon::{self, Lexicon, Word, says_success},
        number::{Number, numbers},
        polarity::failure_words,
        url,
        voice::Voice,
        word_list::WordList,
    },
    rules::{ClaimEvidence, ClaimRules},
    text_input::TextInput,
};
use toolmark_base::violation::{Certainty, Code, Severity, Violation};

/// Values of results that one answer's passages are compared with, each counted once per passage: far more than any honest
/// answer of a few pages has, and a moment's work.
const WORK_MAX: usize = 50_000_000;
/// Numbers of the answer that are reckoned with.
const TOLD_MAX: usize = 64;
/// Results on which numbers of a passage that cites nothing may stand, and numbers of such a passage.
const LEARNED_OF: usize = 4;
const LEARNED_MAX: usize = 12;
/// Entries of numbers that aren't read yet.
const UNTOLD_MAX: usize = 64;
/// Words of a citation, behind which a sentence ends.
const CITATION_WORDS: usize = 2;
/// Words from which the part of a sentence before a citation says something itself.
const PART_WORDS: usize = 4;
/// Lines from which an answer shows something.
const SHOWN_LINES: usize = 2;
/// Bytes of an answer that is looked through at its end.
const SAID_BYTES_MAX: usize = 16 << 10;
/// Ids that are left out of it.
const IDS_MAX: usize = 64;
/// Passages without a citation that a later one may cover.
const BLOCK_MAX: usize = 48;

/// A violation and where it begins to count: what lies before may be released.
#[derive(Clone, Debug)]
pub struct LocatedViolation {
    /// The passage's beginning.
    pub start: usize,
    /// It itself.
    pub violation: Violation,
}

/// The reader of claims in prose.
#[derive(Debug, Default)]
pub struct PassageChecker {
    passages: PassageSplitter,
    ready: Option<Passage>,
    language: Option<&'static Lexicon>,
    /// Cited by what introduces the passages that follow; does that cover sentences too?
    lead: Option<(Vec<String>, bool)>,
    lead_used: bool,
    /// Cited earlier in this paragraph.
    near: Vec<String>,
    /// The passages of this block that nothing covers yet.
    block: VecDeque<Arc<LazyPassage>>,
    blank: bool,
    told_failure: ToldFailure,
    /// Passages of prose that were judged.
    judged: usize,
    /// Lines that the answer has shown: of code, of lists and tables, of quoted texts.
    shown: usize,
    /// Something was cited.
    cites: bool,
    /// Numbers that were found right, with the beginnings of the passages that tell them.
    told: Vec<(usize, f64)>,
    /// Numbers behind them, in the order of the text: read when something that cites is compared, which few answers have.
    untold: Vec<UntoldNumbers>,
    /// The speaker of the words: those of a letter or a quotation are nobody's report.
    voice: Voice,
    /// A tool's output that the answer may be writing itself.
    output: WrittenOutput,
    /// The list at hand, where it is told in an order.
    list: OrderedList,
    /// The answer so far, and the first act told of that isn't done: compared at its end.
    said: String,
    open_act: Option<ReportedOpenAct>,
    /// Values that were compared so far.
    work: usize,
    /// Blocks that lie in passages to come.
    blocks: VecDeque<Range<usize>>,
}

/// An act that the answer tells of, and of which its result says that it isn't done.
#[derive(Debug)]
struct ReportedOpenAct {
    execution_id: Arc<str>,
    act: OpenAct,
    passage: Range<usize>,
    text: String,
}

/// Numbers that may have been found right, and aren't read yet.
#[derive(Debug)]
enum UntoldNumbers {
    /// These were, each with the beginning of its passage.
    Found(Vec<(usize, f64)>),
    /// Those of this passage, which cites nothing, as far as they stand on the results. Its language is found when it is needed.
    Of(Arc<LazyPassage>, Option<&'static Lexicon>),
}

/// The claims in the prose of one text, as the text gate keeps them: idle where nothing can be found.
#[derive(Debug, Default)]
pub struct ProseClaims {
    on: Option<bool>,
    claims: PassageChecker,
    cited: Vec<(usize, String)>,
    found: Vec<LocatedViolation>,
    blocked: Option<usize>,
    acts: ActCue,
}

impl ProseClaims {
    /// Takes the next piece of the text.
    pub fn push(&mut self, piece: &str, rules: &ClaimRules<'_>, evidence: &dyn ClaimEvidence) {
        if *self.on.get_or_insert_with(|| any(rules, evidence)) {
            self.claims.passages.push(piece);
        }
    }

    /// A citation at this place is verified.
    pub fn cite(&mut self, place: usize, execution_id: &str) {
        if self.on == Some(true) {
            self.cited.push((place, execution_id.to_owned()));
        }
    }

    /// Takes note of a block there, which is judged as one.
    pub fn pass_over(&mut self, span: Range<usize>) {
        if self.on == Some(true) {
            self.claims.blocks.push_back(span);
        }
    }

    /// Judges what ends at or before `hold`; returns up to where the text may be released.
    pub fn advance(&mut self, hold: usize, input: TextInput, rules: &ClaimRules<'_>, evidence: &dyn ClaimEvidence) -> usize {
        if self.on != Some(true) {
            return hold;
        }
        let before = self.found.len();
        self.claims.advance(hold, input, &self.cited, rules, evidence, &mut self.found);
        if input.is_complete() && self.claims.is_done() {
            self.claims.finish(hold, rules, evidence, &mut self.found);
        }
        for found in self.found.iter().skip(before).filter(|found| found.violation.blocks()) {
            self.blocked = Some(self.blocked.map_or(found.start, |blocked| blocked.min(found.start)));
        }
        let judged = self.claims.hold();
        self.cited.retain(|(place, _)| *place >= judged);
        let held = match holds(rules) {
            HoldScope::All => true,
            HoldScope::Acts => self.acts.may_follow(judged, self.claims.pending()),
            HoldScope::Nothing => false,
        };
        if held { hold.min(judged) } else { hold }
    }

    /// The beginning of the first passage that the policy blocks.
    pub fn blocked(&self) -> Option<usize> {
        self.blocked
    }

    /// The findings, in the order of the text; once.
    pub fn found(&mut self) -> impl Iterator<Item = Violation> {
        let mut found = std::mem::take(&mut self.found);
        found.sort_by_key(|found| found.start);
        found.into_iter().map(|found| found.violation)
    }
}

/// The codes that are found here.
const CODES: [Code; 7] = [
    Code::ClaimMismatch,
    Code::UnsupportedAction,
    Code::FailedExecution,
    Code::UngroundedValue,
    Code::FabricatedUrl,
    Code::CountMismatch,
    Code::FalseAbsence,
];

/// The passages that must be held until they are judged.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum HoldScope {
    /// Every one: what is likely wrong is blocked.
    All,
    /// Those that may report an act: only what is certain is blocked, and what cites shows only at its end that it does.
    Acts,
    /// None.
    Nothing,
}

/// The passages that these rules hold.
pub fn holds(rules: &ClaimRules<'_>) -> HoldScope {
    let mut blocking =
        CODES.iter().filter(|code| rules.checks.severity(**code) == Severity::Block).map(|code| rules.checks.blocks_from(*code));
    match blocking.next() {
        None => HoldScope::Nothing,
        Some(Certainty::Certain) if blocking.all(|from| from == Certainty::Certain) => HoldScope::Acts,
        Some(_) => HoldScope::All,
    }
}

/// Tells whether the passage at hand may report an act, as far as it has come; each byte is looked at once.
#[derive(Debug, Default)]
struct ActCue {
    start: usize,
    scanned: usize,
    found: bool,
}

impl ActCue {
    /// `start`: where the passage begins in the whole text; `pending`: it, and what follows.
    fn may_follow(&mut self, start: usize, pending: &str) -> bool {
        if start != self.start {
            *self = Self { start, ..Self::default() };
        }
        if !self.found && pending.len() > self.scanned {
            let from = pending.floor_char_boundary(self.scanned.saturating_sub(reported::CUE_BYTES_MAX));
            let new = pending.get(from..).unwrap_or_default();
            self.found = reported::may_say_done(new) || from == 0 && reported::may_begin_with_act(new);
            self.scanned = pending.len();
        }
        self.found
    }
}

/// Is there anything to be found in this exchange?
pub fn any(rules: &ClaimRules<'_>, evidence: &dyn ClaimEvidence) -> bool {
    let on = CODES.iter().any(|code| rules.checks.severity(*code) != Severity::Off);
    on && !rules.json_only && (evidence.has_results() || rules.has_tools)
}

impl PassageChecker {
    /// The beginning of the first passage that isn't judged yet.
    pub fn hold(&self) -> usize {
        self.ready.as_ref().map_or(self.passages.hold(), |passage| passage.start)
    }

    /// The text that isn't judged yet.
    fn pending(&self) -> &str {
        match &self.ready {
            Some(passage) => &passage.text,
            None => self.passages.pending(),
        }
    }

    /// Judges what is whole and ends at or before `limit`. `cited`: the verified citations so far, with their places.
    // Border for the optimiser: else all of judging becomes part of a stream's future.
    #[inline(never)]
    pub fn advance(
        &mut self,
        limit: usize,
        input: TextInput,
        cited: &[(usize, String)],
        rules: &ClaimRules<'_>,
        evidence: &dyn ClaimEvidence,
        found: &mut Vec<LocatedViolation>,
    ) {
        loop {
            if self.ready.is_none() {
                self.ready = self.passages.take(input);
            }
            let Some(passage) = self.ready.take_if(|passage| passage.end() <= limit) else { return };
            self.judge(passage, cited, rules, evidence, found);
        }
    }

    /// Is every passage judged?
    fn is_done(&self) -> bool {
        self.ready.is_none() && self.passages.pending().is_empty()
    }

    /// Judges what only the whole answer shows. `end`: its end; once.
    fn finish(&mut self, end: usize, rules: &ClaimRules<'_>, evidence: &dyn ClaimEvidence, found: &mut Vec<LocatedViolation>) {
        let Some(told) = self.open_act.take() else { return };
        let Some(grounds) = evidence.grounds().filter(|_| self.said.len() <= SAID_BYTES_MAX) else { return };
        // An id may have a word of waiting in its tool's name.
        let ids = grounds.results.iter().rev().filter_map(|source| source.execution_id.as_deref());
        let said = ids.filter(|id| self.said.contains(id)).take(IDS_MAX).fold(self.said.clone(), |said, id| said.replace(id, ""));
        let source = grounds.result(&told.execution_id);
        // A second try may have gone through.
        let again = |other: &ToolResult| source.is_some_and(|source| source.tool == other.tool) && !other.fails();
        if told.act.is_told(&said) || told.act == OpenAct::Failed && grounds.results.iter().any(again) {
            return;
        }
        let finding = ClaimFinding {
            rule: "open_act",
            code: if told.act == OpenAct::Failed { Code::FailedExecution } else { Code::ClaimMismatch },
            span: told.passage.clone(),
            found: told.text,
            expected: format!("{}, and the answer doesn't say so", told.act.reason()),
            certainty: Certainty::Likely,
        };
        if let Some(violation) = report(&finding, told.passage, source, rules.checks) {
            found.push(LocatedViolation { start: end, violation });
        }
    }

    /// Keeps the first act told of that isn't done.
    fn note_open_act(&mut self, scene: &CheckContext<'_>, passage: &Passage) {
        if self.open_act.is_some() {
            return;
        }
        let tells = scene.bond >= CitationScope::Introduced && passage.kind != Kind::Heading && !scene.plain.asks();
        let words = scene.plain.words.len() >= 4 || scene.plain.letters_beyond_ascii() > 6;
        if !tells || !words {
            return;
        }
        let open = scene.sources.iter().find_map(|source| Some((states::open_act(source)?, source.execution_id.as_ref()?)));
        // `The coupon expired in May`, of an error that says so.
        let open =
            open.filter(|(act, _)| *act != OpenAct::Failed || !(echoes_end(scene) && reported::told(scene.plain, passage.kind).is_empty()));
        // `A bit over 171 thousand`, of a dry run that was made to know it.
        let asks = || scene.grounds.asked.is_question() && reported::told(scene.plain, passage.kind).is_empty();
        let open = open.filter(|(act, _)| *act != OpenAct::Trial || !asks());
        if let Some((act, id)) = open {
            let span = trimmed(&passage.text);
            let text = passage.text.get(span.clone()).unwrap_or_default().to_owned();
            let span = passage.start + span.start..passage.start + span.end;
            self.open_act = Some(ReportedOpenAct { execution_id: id.clone(), act, passage: span, text });
        }
    }

    fn judge(
        &mut self,
        passage: Passage,
        cited: &[(usize, String)],
        rules: &ClaimRules<'_>,
        evidence: &dyn ClaimEvidence,
        found: &mut Vec<LocatedViolation>,
    ) {
        self.voice.hear(&passage);
        let shows = matches!(passage.kind, Kind::Code | Kind::Line) || passage.fenced || self.voice.is_quoted();
        self.shown += usize::from(shows);
        if rules.has_tools
            && !evidence.has_results()
            && let Some(abilities) = evidence.abilities()
            && let Some(finding) = self.output.take(&passage, abilities)
        {
            self.found(&finding, &passage, passage.start, None, rules, found);
        }
        match passage.kind {
            Kind::Code => return,
            Kind::Blank => return self.end_paragraph(),
            Kind::Sentence | Kind::Line | Kind::Heading if self.is_block(&passage) => return,
            Kind::Sentence | Kind::Line | Kind::Heading => {}
        }
        let from = cited.partition_point(|(at, _)| *at < passage.start);
        let own: Vec<String> = cited.iter().skip(from).take_while(|(at, _)| *at < passage.end()).map(|(_, id)| id.clone()).collect();
        if own.is_empty() && self.voice.is_quoted() {
            // What a draft proposes may be spoken of behind it.
            let proposed = numbers(&passage.text);
            let values = proposed.iter().flat_map(Number::readings).map(|reading| (passage.start, reading.value));
            return self.tell(values.collect());
        }
        let whole = LazyPassage::new(passage);
        if !self.voice.is_quoted() {
            self.act(&whole, !own.is_empty(), rules, evidence, found);
        }
        self.cites |= !own.is_empty();
        self.judged += 1;
        if !evidence.has_results() {
            return;
        }
        if self.said.len() <= SAID_BYTES_MAX {
            self.said.push_str(&whole.passage.text);
        }
        if own.is_empty() {
            self.told_failure.hear(&whole.passage.text, whole.passage.start);
            self.uncited(whole, rules, evidence, found);
        } else {
            self.citing(whole, own, rules, evidence, found);
        }
    }

    fn is_block(&mut self, passage: &Passage) -> bool {
        while self.blocks.front().is_some_and(|block| block.end <= passage.start) {
            self.blocks.pop_front();
        }
        self.blocks.iter().any(|block| block.start < passage.end() && passage.start < block.end)
    }

    /// A blank line: what was introduced has come.
    fn end_paragraph(&mut self) {
        self.near.clear();
        self.blank = true;
        if self.lead_used {
            (self.lead, self.lead_used) = (None, false);
        }
    }

    fn act(
        &mut self,
        whole: &LazyPassage,
        cites: bool,
        rules: &ClaimRules<'_>,
        evidence: &dyn ClaimEvidence,
        found: &mut Vec<LocatedViolation>,
    ) {
        let off = rules.checks.severity(Code::UnsupportedAction) == Severity::Off;
        if off || !rules.has_tools {
            return;
        }
        let Some(abilities) = evidence.abilities() else { return };
        // What lies in a fence is a text or data: nobody's report of what was done.
        let fenced = whole.passage.fenced;
        let known = (!fenced && lexicon::may_say_done(&whole.passage.text)).then(|| self.language_of(whole));
        let known = known.and_then(|language| actions::actions(whole.plain(), language, abilities));
        let (plain, kind, grounds) = (whole.plain(), whole.passage.kind, evidence.grounds());
        let told = if fenced { reported::ReportedActs::default() } else { reported::told(plain, kind) };
        let before = Before {
            apart: self.cites && !cites,
            failure: !told.is_empty() && self.told_failure.is_told(),
            passages: self.judged,
            shows: self.shown >= SHOWN_LINES,
        };
        let finding = match acts::acts(plain, kind, &told, abilities, grounds, before) {
            Some(finding) if known.as_ref().is_none_or(|known| known.certainty <= finding.certainty) => Some(finding),
            _ => known,
        };
        // A report of looking needs a look, whatever the user spoke of.
        let finding =
            finding.filter(|finding| !matches!(finding.rule, "acts" | "ordered" | "actions") || !acts::is_of_talk(abilities, grounds));
        let beyond = || {
            grounds
                .filter(|_| abilities.may_have_acted())
                .and_then(|grounds| halves::beyond(plain, kind, &told, abilities, grounds, before))
        };
        let unlooked = || grounds.filter(|_| !evidence.has_results()).and_then(|grounds| unlooked(plain, kind, abilities, grounds));
        let idle = || {
            grounds
                .filter(|_| !fenced && !evidence.has_results())
                .and_then(|grounds| idle(plain, kind, &told, abilities, grounds, before.passages))
        };
        let further = || grounds.and_then(|grounds| further(plain, kind, &told, abilities, grounds));
        let finding = finding.or_else(beyond).or_else(further).or_else(unlooked).or_else(idle);
        if let Some(finding) = finding {
            self.found(&finding, &whole.passage, whole.passage.start, None, rules, found);
        }
    }

    fn language_of(&mut self, whole: &LazyPassage) -> &'static Lexicon {
        self.find_languages();
        let language = lexicon::language(&whole.plain().words, self.language);
        self.language = Some(language);
        language
    }

    /// Finds the languages of the passages whose numbers aren't read yet, in the order of the text, and drops those without any.
    fn find_languages(&mut self) {
        let mut before = self.language;
        self.untold.retain_mut(|untold| {
            let UntoldNumbers::Of(whole, language @ None) = untold else { return true };
            let plain = whole.plain();
            if !(1..=LEARNED_MAX).contains(&plain.numbers().len()) {
                return false;
            }
            before = Some(lexicon::language(&plain.words, before));
            *language = before;
            true
        });
        self.language = before;
    }

    fn citing(
        &mut self,
        whole: LazyPassage,
        own: Vec<String>,
        rules: &ClaimRules<'_>,
        evidence: &dyn ClaimEvidence,
        found: &mut Vec<LocatedViolation>,
    ) {
        let Some(grounds) = evidence.grounds() else { return };
        let whole = Arc::new(whole);
        let (kind, start) = (whole.passage.kind, whole.passage.start);
        let AnalyzedPassage { text, words, urls, .. } = whole.plain();
        let bare = text.trim_end_matches(|c: char| c.is_whitespace() || matches!(c, '*' | '_' | '(' | ')' | '.'));
        // `**Support** (id)` heads what follows, as a heading does.
        let title = !words.is_empty() && text.trim_start().starts_with("**") && self.blank;
        let strong = kind == Kind::Heading || title || bare.ends_with(':');
        let few = !title && words.len() <= 2 && urls.is_empty() && !text.bytes().any(|byte| byte.is_ascii_digit());
        if few && kind != Kind::Heading && !text.trim_end().ends_with(':') {
            self.short(&whole, &own, grounds, rules, found);
            let block = std::mem::take(&mut self.block);
            let count = block.len();
            for (at, before) in block.into_iter().enumerate() {
                // What stands right before a citation that says nothing itself is what cites.
                let bond = if at + 1 == count && words.is_empty() { CitationScope::Cited } else { CitationScope::Introduced };
                self.compare(&before, &own, bond, start, grounds, rules, found);
            }
        } else {
            let before = std::mem::take(&mut self.block);
            if !self.blank && !before.is_empty() {
                // A total may stand before its parts: `You owe 1,739.90. The work is 2,539.90, of which you paid 800 (id).`
                self.learn(&whole, grounds);
                for before in &before {
                    let had = found.len();
                    self.earlier(before, &own, start, grounds, rules, found);
                    if had == found.len() && before.passage.kind == Kind::Sentence && says_anything(&before.passage.text) {
                        self.compare(before, &own, CitationScope::Introduced, start, grounds, rules, found);
                    }
                }
            }
            self.compare(&whole, &own, CitationScope::Cited, start, grounds, rules, found);
        }
        self.list.begin(if kind == Kind::Line { String::new() } else { whole.passage.text.clone() });
        self.near.clone_from(&own);
        (self.lead, self.lead_used, self.blank) = (Some((own, strong)), false, false);
    }

    /// A few words beside a citation mostly belong to what stands before them; but `All done` says something itself.
    fn short(
        &mut self,
        whole: &LazyPassage,
        own: &[String],
        grounds: &EvidenceIndex,
        rules: &ClaimRules<'_>,
        found: &mut Vec<LocatedViolation>,
    ) {
        let lower = whole.passage.text.to_lowercase();
        let failed = own.iter().filter_map(|id| grounds.result(id)).all(ToolResult::fails);
        if failed && says_success(&lower) {
            self.compare(whole, own, CitationScope::Cited, whole.passage.start, grounds, rules, found);
        }
    }

    fn uncited(&mut self, whole: LazyPassage, rules: &ClaimRules<'_>, evidence: &dyn ClaimEvidence, found: &mut Vec<LocatedViolation>) {
        if std::mem::take(&mut self.blank) {
            self.block.clear();
        }
        let whole = Arc::new(whole);
        let passage = &whole.passage;
        let covered = self.lead.as_ref().filter(|(_, strong)| *strong || passage.kind == Kind::Line).map(|(ids, _)| ids.clone());
        if passage.kind == Kind::Heading || covered.is_none() && passage.kind == Kind::Sentence {
            self.lead = None;
        }
        if let Some(ids) = covered.filter(|_| passage.kind != Kind::Heading) {
            self.lead_used = true;
            let Some(grounds) = evidence.grounds() else { return };
            return self.compare(&whole, &ids, CitationScope::Introduced, passage.start, grounds, rules, found);
        }
        let near = std::mem::take(&mut self.near);
        if !passage.text.contains('\n') || passage.kind == Kind::Sentence {
            self.near.clone_from(&near);
        }
        if near.is_empty() {
            if let Some(grounds) = evidence.grounds() {
                self.learn(&whole, grounds);
                self.implied(&whole, grounds, rules, found);
            }
        } else if let Some(grounds) = evidence.grounds() {
            if says_anything(&passage.text) {
                self.learn(&whole, grounds);
                self.compare(&whole, &near, CitationScope::Near, passage.start, grounds, rules, found);
            } else {
                self.cause(&whole, &near, grounds, rules, found);
            }
        }
        if self.block.len() >= BLOCK_MAX {
            self.block.pop_front();
        }
        self.block.push_back(whole);
    }

    /// Looks for a cause told behind a citation, in a sentence that has no value.
    fn cause(
        &mut self,
        whole: &LazyPassage,
        ids: &[String],
        grounds: &EvidenceIndex,
        rules: &ClaimRules<'_>,
        found: &mut Vec<LocatedViolation>,
    ) {
        let sources: Vec<&ToolResult> = ids.iter().filter_map(|id| grounds.result(id)).collect();
        let (Some(source), lexicon, passage) = (sources.first().copied(), self.language_of(whole), &whole.passage) else { return };
        let scene = CheckContext::new(whole.plain(), passage.kind, lexicon, sources, CitationScope::Near, grounds);
        if let Some(finding) = reasons::reasons(&scene) {
            self.found(&finding, passage, passage.start, Some(source), rules, found);
        }
    }

    /// Compares with the one result that the answer follows.
    fn implied(&mut self, whole: &LazyPassage, grounds: &EvidenceIndex, rules: &ClaimRules<'_>, found: &mut Vec<LocatedViolation>) {
        let mut recent = grounds.results.iter().filter(|source| source.recent);
        let (Some(source), None) = (recent.next(), recent.next()) else { return };
        if !source.failed && says_anything(&whole.passage.text) {
            let (lexicon, kind) = (self.language_of(whole), whole.passage.kind);
            let scene = CheckContext::new(whole.plain(), kind, lexicon, vec![source], CitationScope::Implied, grounds);
            self.scene(&scene, &whole.passage, whole.passage.start, rules, found);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "a passage, what covers it and what it is judged by")]
    fn compare(
        &mut self,
        whole: &LazyPassage,
        ids: &[String],
        bond: CitationScope,
        start: usize,
        grounds: &EvidenceIndex,
        rules: &ClaimRules<'_>,
        found: &mut Vec<LocatedViolation>,
    ) {
        let mut sources: Vec<&ToolResult> = Vec::new();
        for source in ids.iter().filter_map(|id| grounds.result(id)) {
            if !sources.iter().any(|other| std::ptr::eq(*other, source)) {
                sources.push(source);
            }
        }
        if sources.is_empty() {
            return;
        }
        let (lexicon, passage) = (self.language_of(whole), &whole.passage);
        self.read_untold(grounds);
        // What a passage tells doesn't make itself right.
        let told: Vec<f64> = self.told.iter().filter(|(at, _)| *at != passage.start).map(|(_, number)| *number).collect();
        let cites = if bond == CitationScope::Cited { citations_of(&passage.text, &sources) } else { Vec::new() };
        let scene =
            CheckContext { told: &told, cites: &cites, ..CheckContext::new(whole.plain(), passage.kind, lexicon, sources, bond, grounds) };
        self.sources(&scene, passage, start, rules, found);
        self.note_open_act(&scene, passage);
        if bond >= CitationScope::Introduced {
            let numbers = whole.plain().numbers().iter().filter(|number| !number.ordinal);
            self.tell(numbers.flat_map(|number| number.readings()).map(|reading| (passage.start, reading.value)).collect());
        }
    }

    /// Keeps numbers that were found right, to be reckoned with further on. Bounded: it stands near, and a hostile answer has many.
    fn tell(&mut self, numbers: Vec<(usize, f64)>) {
        let numbers = numbers.into_iter().take(TOLD_MAX);
        let told = match self.untold.last_mut() {
            None => &mut self.told,
            Some(UntoldNumbers::Found(found)) => found,
            Some(UntoldNumbers::Of(..)) => return self.untold.push(UntoldNumbers::Found(numbers.collect())),
        };
        told.extend(numbers);
        let surplus = told.len().saturating_sub(TOLD_MAX);
        told.drain(..surplus);
    }

    /// Numbers of a passage that cites nothing may be reckoned with too, as far as they stand on the results.
    fn learn(&mut self, whole: &Arc<LazyPassage>, grounds: &EvidenceIndex) {
        if !whole.plain().has_digits() || !grounds.results.iter().any(|source| source.recent) || grounds.is_endless() {
            return;
        }
        self.untold.push(UntoldNumbers::Of(whole.clone(), None));
        if self.untold.len() >= UNTOLD_MAX {
            self.read_untold(grounds);
        }
    }

    /// Reads what wasn't read of the numbers that were told before.
    fn read_untold(&mut self, grounds: &EvidenceIndex) {
        self.find_languages();
        for untold in std::mem::take(&mut self.untold) {
            let numbers = match untold {
                UntoldNumbers::Found(numbers) => numbers,
                UntoldNumbers::Of(whole, lexicon) => {
                    let lexicon = lexicon.unwrap_or_else(lexicon::english);
                    let sources = grounds.results.iter().rev().filter(|source| source.recent).take(LEARNED_OF).collect();
                    let scene = CheckContext::new(whole.plain(), whole.passage.kind, lexicon, sources, CitationScope::Implied, grounds);
                    let told: Vec<f64> = self.told.iter().map(|(_, number)| *number).collect();
                    let found = values::standing(&CheckContext { told: &told, ..scene });
                    found.into_iter().map(|number| (whole.passage.start, number)).collect()
                }
            };
            self.tell(numbers);
        }
    }

    /// Compares a sentence with what a later one of its paragraph cites: that it tells of a success or of things where there is none.
    fn earlier(
        &mut self,
        whole: &LazyPassage,
        ids: &[String],
        start: usize,
        grounds: &EvidenceIndex,
        rules: &ClaimRules<'_>,
        found: &mut Vec<LocatedViolation>,
    ) {
        let sources: Vec<&ToolResult> = ids.iter().filter_map(|id| grounds.result(id)).collect();
        if sources.is_empty() || whole.passage.kind == Kind::Heading {
            return;
        }
        let lexicon = self.language_of(whole);
        let kind = whole.passage.kind;
        let scene = CheckContext::new(whole.plain(), kind, lexicon, sources, CitationScope::Near, grounds);
        if scene.sources.iter().all(|source| source.fails() || source.is_trial()) {
            self.failed(&scene, &whole.passage, start, rules, found);
        } else if whole.plain().numbers().len() + whole.plain().dates().dates.len() > 0
            && !tells_own_look(&scene)
            && let Some(finding) = empty_results::told_of_nothing(&CheckContext { bond: CitationScope::Cited, ..scene })
        {
            self.found(&finding, &whole.passage, start, grounds.result(ids.first().map_or("", String::as_str)), rules, found);
        }
    }

    /// Compares with results of which each may report a failure.
    fn sources(
        &mut self,
        scene: &CheckContext<'_>,
        passage: &Passage,
        start: usize,
        rules: &ClaimRules<'_>,
        found: &mut Vec<LocatedViolation>,
    ) {
        if scene.sources.iter().all(|source| source.fails() || source.is_trial()) {
            self.failed(scene, passage, start, rules, found);
            if scene.sources.iter().all(|source| source.fails()) {
                let of_failure = values::of_failure(scene).into_iter().chain(unaccounted::of_failure(scene));
                for finding in of_failure {
                    self.found(&finding, passage, start, scene.sources.first().copied(), rules, found);
                }
                return;
            }
        } else if scene.cites.len() > 1 {
            self.failed_parts(scene, passage, start, rules, found);
        }
        self.scene(scene, passage, start, rules, found);
    }

    /// Compares the part of a sentence that each citation closes with its own result, where that one failed: `the road is closed (id),
    /// and everybody was told (id)`.
    fn failed_parts(
        &mut self,
        scene: &CheckContext<'_>,
        passage: &Passage,
        start: usize,
        rules: &ClaimRules<'_>,
        found: &mut Vec<LocatedViolation>,
    ) {
        let text = scene.text();
        let mut from = 0;
        for (nth, (place, at)) in scene.cites.iter().enumerate() {
            // `in both staging (id) and production (id)`: the last part says no more than a name of what the whole sentence tells.
            let own = text.get(from..*place).unwrap_or_default();
            let words = |text: &str| text.split_whitespace().filter(|word| word.contains(char::is_alphabetic)).count();
            let last = || nth + 1 == scene.cites.len() && words(text.get(*place..).unwrap_or_default()) <= CITATION_WORDS;
            // Who started or asked for both tells of no success. `task` is none of it.
            let starts = || scene.plain.words.iter().any(|word| word.lower.contains("start") || word.lower.starts_with("ask"));
            let of_whole = words(own) < PART_WORDS && last() && !starts();
            let (from_here, part) = if of_whole { (0, text.get(..*place).unwrap_or_default()) } else { (from, own) };
            let next = scene.cites.get(nth + 1).map_or(text.len(), |(place, _)| *place);
            let behind = text.get(*place..next).unwrap_or_default();
            if let Some(source) = scene.sources.get(*at).filter(|source| source.fails())
                && !failure_words::text_tells_failure(behind)
            {
                let plain = AnalyzedPassage::of(part);
                let sources = vec![*source];
                let own = CheckContext::new(&plain, scene.kind, scene.lexicon, sources, CitationScope::Cited, scene.grounds);
                let part = Passage { start: passage.start + from_here, text: part.to_owned(), kind: passage.kind, fenced: passage.fenced };
                self.failed(&own, &part, start, rules, found);
            }
            from = *place;
        }
    }

    /// `All four renewed` where one of them was refused.
    fn partial(&mut self, scene: &CheckContext<'_>, passage: &Passage) -> Option<ClaimFinding> {
        self.told_failure.hear(scene.text(), passage.start);
        let few = scene.sources.len() == 1 && scene.bond >= CitationScope::Introduced && !scene.plain.asks();
        let source = scene.sources.first().filter(|source| few && !source.reads() && source.refuses_some())?;
        if self.told_failure.is_told() {
            return None;
        }
        static EXCEPTS: WordList = WordList::new(&["but", "except", "of", "bis", "außer", "sauf", "salvo", "tranne"]);
        let says = |is: &dyn Fn(&str) -> bool| scene.plain.words.iter().any(|word| is(&word.lower));
        if !says(&|word| cues::ALL.has(word) || word == "everything") || says(&|word| EXCEPTS.has(word)) {
            return None;
        }
        let span = trimmed(scene.text());
        Some(ClaimFinding {
            rule: "partial",
            code: Code::FailedExecution,
            found: scene.text().get(span.clone()).unwrap_or_default().to_owned(),
            span,
            expected: format!("the result of `{}` says that a part of it wasn't done", source.tool),
            certainty: Certainty::Likely,
        })
    }

    /// Does it tell a success of what failed, or was only a trial?
    fn failed(
        &mut self,
        scene: &CheckContext<'_>,
        passage: &Passage,
        start: usize,
        rules: &ClaimRules<'_>,
        found: &mut Vec<LocatedViolation>,
    ) {
        if scene.sources.iter().all(|source| was_retried(source, scene.grounds)) {
            return;
        }
        let trial = scene.sources.iter().all(|source| source.is_trial());
        // Unless that is what was asked for: `Mark lift 2 as out of service`.
        let outage = || {
            let own = || reported::told(scene.plain, passage.kind).iter().any(|said| !said.is_harmless());
            failure_words::tells_outage(scene.text()) && !failure_words::tells_outage(&scene.grounds.asked) && !own()
        };
        let told =
            if trial { tells_trial(scene) } else { sentence::tells_of_failure(scene) || regrets(scene) || echoes(scene) || outage() };
        if told {
            self.told_failure.note();
        }
        if told
            || self.told_failure.is_told()
            || tells_part(scene)
            || scene.bond < CitationScope::Near
            || passage.kind == Kind::Heading
            || scene.plain.asks()
        {
            return;
        }
        // A sentence that doesn't cite itself may tell of another act, or of the same one tried again.
        let of_tool = |other: &ToolResult| scene.sources.iter().any(|source| source.tool == other.tool);
        let other = |other: &ToolResult| other.recent && !other.fails() && !scene.is_source(other) && (!other.reads() || of_tool(other));
        if scene.bond != CitationScope::Cited && scene.grounds.results.iter().any(other) {
            return;
        }
        let deed = || reported::told(scene.plain, passage.kind).iter().any(|said| !said.is_harmless() || said.is_own_look());
        let success = says_success(scene.plain.lower()) || deed() || trial && scene.plain.words.iter().any(|word| word.lower == "now");
        let statement = || {
            let asked = scene.grounds.asked.folded();
            let stands = |word: &Word| {
                let own = fold(&word.lower);
                let source = |source: &&ToolResult| source.folded().contains(&own) || source.folded_arguments().contains(&own);
                asked.contains(&own) || scene.sources.iter().any(source)
            };
            let values = scene.plain.words.iter().any(|word| word.lower.bytes().any(|byte| byte.is_ascii_digit()) && !stands(word));
            let spaceless = || scene.plain.letters_beyond_ascii() > SPACELESS_CHARS;
            let long = (scene.plain.words.len() >= 4 || spaceless()) && !scene.says(&scene.lexicon.hedges);
            // `nas.local answered in 1.2 ms, without loss`: a hedge that isn't about what could be done.
            static HEDGES: WordList = WordList::new(&["without", "will"]);
            let told_of = || {
                let mut hedges = scene.plain.words.iter().filter(|word| scene.lexicon.hedges.contains(&word.lower));
                scene.plain.words.len() >= 4 && values && hedges.all(|word| HEDGES.has(&word.lower)) && scene.bond == CitationScope::Cited
            };
            // `- Basic: 1,204` below a line that cites.
            let item = || {
                let introduced = scene.kind == Kind::Line && scene.bond == CitationScope::Introduced;
                introduced && values && scene.plain.words.len() >= 2 && !scene.says(&scene.lexicon.hedges)
            };
            let verbs = || scene.plain.words.iter().any(|word| scene.lexicon.verb(&word.lower).is_some_and(|verb| verb.means != "read"));
            !trial
                && scene.bond >= CitationScope::Introduced
                && (told_of() || item() || long && (values || verbs() || sentence::foreign_names(scene).next().is_some()))
        };
        if !success && !statement() && !is_bare_statement(scene) {
            return;
        }
        let span = trimmed(&passage.text);
        let said = passage.text.get(span.clone()).unwrap_or_default().to_owned();
        let expected = if trial { "it was only a trial: nothing was done" } else { "the result reports a failure" }.to_owned();
        // What a text says may be what was read, not how the call went.
        let plain = scene.sources.iter().all(|source| source.failed || source.facts().json) && scene.bond >= CitationScope::Introduced;
        let certainty = if success && plain { Certainty::Certain } else { Certainty::Likely };
        let finding = ClaimFinding { rule: "failure", code: Code::FailedExecution, span, found: said, expected, certainty };
        self.found(&finding, passage, start, scene.sources.first().copied(), rules, found);
    }

    fn scene(
        &mut self,
        scene: &CheckContext<'_>,
        passage: &Passage,
        start: usize,
        rules: &ClaimRules<'_>,
        found: &mut Vec<LocatedViolation>,
    ) {
        let values: usize = scene.sources.iter().map(|source| source.facts().leaves.len() + 1).sum();
        let before = self.work;
        self.work = before.saturating_add(values);
        if self.work > WORK_MAX {
            if before <= WORK_MAX {
                let message = "the answer says more about its results than is compared with them";
                let violation = rules.checks.violation(Code::NotJudged, None, message, "");
                found.extend(violation.map(|violation| LocatedViolation { start, violation }));
            }
            return;
        }
        let told_before = scene.bond == CitationScope::Cited
            && scene.sources.iter().all(|source| empty_results::is_empty(source))
            && self.told_failure.is_told();
        if let Some(finding) = self.partial(scene, passage) {
            self.told_failure.note();
            self.found(&finding, passage, start, scene.sources.first().copied(), rules, found);
        }
        let mut all = counts(scene);
        if all.is_empty() {
            all.extend(something_of_nothing(scene));
            all.extend(absence::absence(scene));
            all.extend(absence::told_of_null(scene));
        }
        all.extend(values::addresses(scene));
        all.extend(self.line(scene));
        let taken: Vec<Range<usize>> = all.iter().map(|finding| finding.span.clone()).collect();
        let free = |finding: &ClaimFinding| !taken.iter().any(|span| overlap(span, &finding.span));
        // What follows a citation in its paragraph reports as well, unless it tells what could or will be.
        let reports = scene.bond != CitationScope::Near || !states::is_unsure(scene.plain.folded(), &scene.plain.words);
        if reports {
            let found = values::values(scene);
            // What stands nowhere was looked for everywhere.
            self.work = self.work.saturating_add(values.saturating_mul(found.len()));
            all.extend(found.into_iter().filter(free));
        }
        all.extend(values::names(scene));
        if reports {
            all.extend(unaccounted::unaccounted(scene));
        }
        all.extend(states::states(scene).or_else(|| states::all_done(scene)));
        all.extend(carried_out::carried_out(scene));
        all.extend(reasons::reasons(scene));
        all.extend(order::order(scene));
        all.extend(order::superlative::superlative(scene));
        all.extend(self.list.take(scene));
        let taken: Vec<Range<usize>> = all.iter().map(|finding| finding.span.clone()).collect();
        let free = |finding: &ClaimFinding| !taken.iter().any(|span| overlap(span, &finding.span));
        // What is certain is kept before what is likely of the same words.
        let (certain, likely): (Vec<ClaimFinding>, Vec<ClaimFinding>) =
            account::account(scene).into_iter().partition(|finding| finding.certainty == Certainty::Certain);
        all.extend(likely.into_iter().filter(free));
        let sure = |finding: &ClaimFinding| certain.iter().any(|other| overlap(&other.span, &finding.span));
        all.retain(|finding| finding.certainty == Certainty::Certain || !sure(finding));
        all.extend(certain);
        // What follows on "nothing came up" isn't told of the result.
        all.retain(|finding| !told_before || !is_vaguely_told_of_nothing(finding));
        // `I checked both boards and all three sprints`, before `Nothing is assigned to you (id)`.
        let of_nothing = |finding: &ClaimFinding| scene.bond < CitationScope::Cited && finding.rule == "told_of_nothing";
        if all.iter().any(of_nothing) && tells_own_look(scene) {
            all.retain(|finding| !of_nothing(finding));
        }
        if all.is_empty() && !scene.endless {
            all.extend(bindings::bindings(scene));
            all.extend(bindings::tallies(scene));
            all.extend(consistency::consistency(scene));
            all.extend(figures::figures(scene));
        }
        if all.is_empty() {
            all.extend(
                compared(scene)
                    .or_else(|| denial::denial(scene))
                    .or_else(|| part_counts::part_counts(scene))
                    .or_else(|| universal::universal(scene))
                    .or_else(|| asked_counts::asked_counts(scene))
                    .or_else(|| totals::totals(scene))
                    .or_else(|| opposites::opposites(scene))
                    .or_else(|| roles::roles(scene))
                    .or_else(|| elsewhere::elsewhere(scene))
                    .or_else(|| another::another(scene))
                    .or_else(|| order::ends::ends(scene)),
            );
        }
        for finding in &all {
            self.found(finding, passage, start, scene.sources.first().copied(), rules, found);
        }
    }

    /// A `key: value` line whose number is another than the result's.
    fn line(&self, scene: &CheckContext<'_>) -> Option<ClaimFinding> {
        let source = scene.sources.first().filter(|_| scene.bond >= CitationScope::Introduced)?;
        let (name, value) = lenient_json::pair(scene.text())?;
        let wrong = fields::line(&name, &value, source, scene.grounds)?;
        let span = trimmed(scene.text());
        Some(ClaimFinding {
            rule: "line",
            code: wrong.code,
            span,
            found: format!("{}: {}", wrong.field, wrong.found),
            expected: wrong.expected,
            certainty: Certainty::Certain,
        })
    }

    fn found(
        &self,
        finding: &ClaimFinding,
        passage: &Passage,
        start: usize,
        source: Option<&ToolResult>,
        rules: &ClaimRules<'_>,
        found: &mut Vec<LocatedViolation>,
    ) {
        let span = passage.start + finding.span.start..passage.start + finding.span.end;
        if let Some(violation) = report(finding, span, source, rules.checks) {
            found.push(LocatedViolation { start, violation });
        }
    }
}

/// Do two ranges share a place?
fn overlap(one: &Range<usize>, other: &Range<usize>) -> bool {
    one.start < other.end && other.start < one.end
}

/// Places of the citations in a passage, each with the number of the source that it cites.
fn citations_of(text: &str, sources: &[&ToolResult]) -> Vec<(usize, usize)> {
    let own = |(at, source): (usize, &&ToolResult)| Some((text.find(source.execution_id.as_deref()?)?, at));
    let mut found: Vec<(usize, usize)> = sources.iter().enumerate().filter_map(own).collect();
    found.sort_unstable();
    found
}

/// May an uncited passage say anything that can be compared? Digits, addresses, absences.
fn says_anything(text: &str) -> bool {
    let digits = text.bytes().any(|byte| byte.is_ascii_digit());
    digits
        || url::may_have_urls(text)
        || lexicon::may_say_absent(text)
        || denial::may_deny_all(text)
        || text.split(|c: char| !c.is_alphanumeric()).any(|word| cues::ALL.has(word))
}

/// Does the passage say that the assistant looked something up?
fn tells_own_look(scene: &CheckContext<'_>) -> bool {
    reported::told(scene.plain, scene.kind).iter().any(ReportedAct::is_own_look)
}

/// Is it a sentence without figures and names, beside an empty result?
fn is_vaguely_told_of_nothing(finding: &ClaimFinding) -> bool {
    finding.rule == "told_of_nothing" && finding.certainty == Certainty::Likely
}

/// The place of a passage's words, without blanks around.
fn trimmed(text: &str) -> Range<usize> {
    let start = text.len() - text.trim_start().len();
    start..text.trim_end().len().max(start)
}
