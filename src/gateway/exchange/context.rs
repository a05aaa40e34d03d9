//! State for judging one exchange, and the judgement of one choice; the same for buffered and streamed answers.
//!
//! Pure: the adapters supply calls and gates, this file finds the violations.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicUsize},
    },
};

use uuid::Uuid;

use crate::{
    claims::word_index::LazyWordIndex,
    exchange::{
        answer_tools,
        conversation::{
            Hidden,
            request_prefix::{KnownRequest, PrefixUse, PreparedBody},
        },
        evidence::{
            exhibit::Exhibit,
            material::{self, Material},
        },
        ledger_queries::Inquiry,
        loop_guard::{self, AttemptInputs, LoopHistory, LoopState, Stopped},
        text::citation_duty,
        tool_set::ToolSet,
    },
    judge::{
        call::{
            ArgumentCheck, Call, CallRules,
            turn::{FinishReason, ToolChoice, TurnRules, TurnVerdict, judge_turn},
        },
        history::{Execution, calls::CallHistory, result_classifier::ResultClassifier},
        loops::ExternalCounts,
        text::{GateProgress, TextGate, TextRules},
        textual_calls::ToolFilter,
    },
    marks::{KeyRing, MarkTime, Scope},
    policy::{OnBlockedJson, PolicyMode, compiled::CompiledPolicy},
    tools::registry::SchemaCache,
    violation::{Code, Severity, Violation},
    wire::{
        json::{Document, Value},
        rope::Rope,
    },
};

/// Codes of what an id claims.
const ID_CLAIMS: [Code; 4] = [Code::UnknownExecution, Code::ExpiredExecution, Code::ExecutionElsewhere, Code::LedgerUnavailable];
/// Up to this many executions are searched linearly.
const FEW: usize = 16;

/// Inputs and state for judging one exchange.
#[derive(Debug)]
pub struct Context {
    /// Id of the exchange.
    pub id: Uuid,
    /// The policy.
    pub rules: Arc<CompiledPolicy>,
    /// The policy's rules for calls, compiled.
    pub call_rules: Arc<CallRules>,
    /// Classifier of results.
    pub natures: Arc<ResultClassifier>,
    /// Keys of the marks.
    pub ring: Arc<KeyRing>,
    /// Scope in which marks and executions are valid.
    pub scope: Scope,
    /// The request's tools.
    tools: Arc<ToolSet>,
    /// The tools of the stored prompt that the request names, once the upstream has told them.
    prompt_tools: OnceLock<Arc<ToolSet>>,
    /// Compiled schemas.
    schemas: Arc<SchemaCache>,
    /// Rules of the turn, such as `tool_choice`.
    pub turn: TurnRules,
    /// Executions that the history proves.
    pub executions: Vec<Execution>,
    /// Tools with a successful result.
    pub succeeded: Vec<String>,
    /// Rules of the text gates.
    pub text: TextRules,
    /// `response_format` asks for JSON.
    pub json_only: bool,
    /// Number of choices requested.
    pub choices: u64,
    /// Limit for the bytes held of one call.
    pub held_bytes_max: usize,
    /// The part of the conversation that isn't in the request.
    pub hidden: Hidden,
    /// Data for loop control from before the exchange.
    pub loops: LoopHistory,
    /// Questions for the ledger.
    pub inquiry: Inquiry,
    /// A rejected turn was repaired in this exchange.
    pub repaired: AtomicBool,
    request: Document,
    data_of: DataOf,
    exhibits_of: ExhibitsOf,
    /// The conversation's own data, decoded on first use.
    data: OnceLock<Vec<String>>,
    /// Tool names whose calls count if written as text; read from the request on first use.
    pub(super) written: OnceLock<Option<ToolFilter>>,
    /// Index of that data, for looking up phrases.
    pub(super) standing: LazyWordIndex,
    /// Executions by id; used if there are more than [`FEW`].
    by_id: OnceLock<HashMap<Arc<str>, usize>>,
    /// Number of comparisons of names with tool names for near matches.
    pub(super) compared: AtomicUsize,
    /// Evidence that claims are compared with.
    pub evidence: Material,
}

/// Extracts the texts of users, tools and instructions from a request, without the model's.
pub type DataOf = fn(&Document) -> Vec<String>;
/// Finds the calls with these ids in a request, and their results.
pub type ExhibitsOf = for<'i> fn(&Document, &[&'i str]) -> HashMap<&'i str, Exhibit>;

/// Requirements of the upstream that will serve the request.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Upstream {
    /// Default `tool_choice`, sent if the request has tools and no `tool_choice`.
    pub tool_choice: Option<&'static str>,
}

/// A request made ready for the upstream, and what was found on the way.
#[derive(Debug)]
pub struct Prepared {
    /// Body for the upstream, in observe mode the request's own bytes; and the request, if it is to be kept.
    pub body: PreparedBody,
    /// The request's `tool_choice`.
    pub tool_choice: ToolChoice,
    /// `parallel_tool_calls`, where the request says it.
    pub parallel: Option<bool>,
    /// The executions that the history proves.
    pub executions: Vec<Execution>,
    /// Tools with a successful result in the history.
    pub succeeded: Vec<String>,
    /// Calls since the last user message.
    pub trail: CallHistory,
    /// The results of the history, with the ids of those that are executions.
    pub evidence: Material,
    /// Violations found in the request, the registry and the history.
    pub violations: Vec<Violation>,
    /// `response_format` asks for JSON.
    pub json_only: bool,
    /// Number of choices requested.
    pub choices: u64,
    /// The part of the conversation that isn't in the request.
    pub hidden: Hidden,
    /// Extracts the request's own data.
    pub data_of: DataOf,
    /// Finds calls and results of the request.
    pub exhibits_of: ExhibitsOf,
}

/// Inputs of an exchange besides the request itself.
#[derive(Clone, Debug)]
pub struct Basis<'b> {
    /// Id of the exchange.
    pub id: Uuid,
    /// The policy.
    pub rules: &'b Arc<CompiledPolicy>,
    /// The policy's rules for calls, compiled.
    pub call_rules: &'b Arc<CallRules>,
    /// Classifier of results.
    pub natures: &'b Arc<ResultClassifier>,
    /// The policy's rules for text.
    pub text: &'b TextRules,
    /// Keys of the marks.
    pub ring: &'b Arc<KeyRing>,
    /// Scope in which marks and executions are valid.
    pub scope: Scope,
    /// The tools of this request.
    pub tools: Arc<ToolSet>,
    /// Compiled schemas.
    pub schemas: &'b Arc<SchemaCache>,
    /// Current time in Unix milliseconds.
    pub now_ms: u64,
    /// Requirements of the upstream.
    pub upstream: Upstream,
    /// Protocol text as a JSON string, if it is to be added to the instructions.
    pub protocol: Option<&'b str>,
    /// Limit for the bytes held of one call.
    pub held_bytes_max: usize,
    /// Counts for loop control from outside the conversation.
    pub beyond: ExternalCounts,
    /// Facts known of the request's beginning.
    pub prefix: PrefixUse,
}

/// A request that was read, verified and prepared.
#[derive(Debug)]
pub struct Begun {
    /// Context for judging the answers.
    pub context: Arc<Context>,
    /// Body for the upstream.
    pub body: Rope,
    /// The request, if it is to be kept for later ones.
    pub known: Option<KnownRequest>,
    /// Violations found in the request, the registry and the history.
    pub violations: Vec<Violation>,
}

impl Begun {
    /// Starts the exchange of a prepared request. `document` is the original request.
    pub fn new(document: &Document, prepared: Prepared, basis: Basis<'_>) -> Self {
        let Prepared {
            body,
            tool_choice,
            parallel,
            executions,
            succeeded,
            trail,
            evidence,
            mut violations,
            json_only,
            choices,
            hidden,
            data_of,
            exhibits_of,
        } = prepared;
        let mut text = basis.text.clone();
        (text.json_only, text.now_ms) = (json_only, basis.now_ms);
        text.has_tools = basis.tools.any || hidden.stored_prompt || !executions.is_empty();
        // Without an execution there is nothing to cite, and nobody to ask.
        let opinion = text.second_opinion && !json_only && !executions.is_empty() && choices <= 1;
        text.hold_all |= opinion && text.checks.severity(Code::VerifierContradiction) == Severity::Block;
        let mut beyond = basis.beyond;
        if !beyond.session.is_empty() {
            let own: HashSet<MarkTime> = executions.iter().map(|execution| execution.moment).collect();
            beyond.session.retain(|call| !own.contains(&call.moment));
        }
        let context = Arc::new(Context {
            id: basis.id,
            rules: basis.rules.clone(),
            call_rules: basis.call_rules.clone(),
            natures: basis.natures.clone(),
            ring: basis.ring.clone(),
            scope: basis.scope,
            turn: TurnRules { tool_choice, parallel_tool_calls: parallel, ..TurnRules::default() },
            tools: basis.tools,
            prompt_tools: OnceLock::new(),
            schemas: basis.schemas.clone(),
            executions,
            succeeded,
            text,
            json_only,
            choices,
            held_bytes_max: basis.held_bytes_max,
            hidden,
            loops: LoopHistory { trail, beyond },
            inquiry: Inquiry::default(),
            repaired: AtomicBool::new(false),
            request: document.clone(),
            data_of,
            exhibits_of,
            data: OnceLock::new(),
            written: OnceLock::new(),
            standing: LazyWordIndex::default(),
            by_id: OnceLock::new(),
            compared: AtomicUsize::new(0),
            evidence,
        });
        context.excuse_marks(&mut violations);
        let PreparedBody { rope, known } = body;
        Self { context, body: rope, known, violations }
    }

    /// Mutable context; available until it is shared.
    pub fn unshared(&mut self) -> Option<&mut Context> {
        Arc::get_mut(&mut self.context)
    }
}

impl Context {
    /// The tools that calls are judged by: those of the request, or of the stored prompt that it names.
    pub fn tools(&self) -> &Arc<ToolSet> {
        self.prompt_tools.get().unwrap_or(&self.tools)
    }

    /// Takes the tools of the stored prompt, if the request names one, from the upstream's response: it repeats the tools that the model
    /// was given. Source: OpenAI's API reference, "The response object", `tools`.
    pub fn learn_tools(&self, response: Value<'_>) {
        if !self.hidden.stored_prompt || self.prompt_tools.get().is_some() {
            return;
        }
        let Some(array) = response.get("tools").filter(|tools| tools.items().next().is_some()) else { return };
        let (policy, checks) = (&self.rules.policy, &self.rules.checks);
        // Of tools that can't be read none is known, and so every call is of an unknown one.
        if let Ok(tools) = ToolSet::of_stored_prompt(array, policy, checks, &self.schemas) {
            let _first = self.prompt_tools.set(Arc::new(tools));
        }
    }

    /// True in observe mode: nothing is changed.
    pub fn observes(&self) -> bool {
        self.rules.policy.mode == PolicyMode::Observe
    }

    /// Member for toolmark's own text: `refusal` if JSON was requested, because a parser would fail on plain text in `content`.
    pub fn words_member(&self) -> WordsMember {
        let refused = self.json_only && self.rules.policy.calls.on_blocked_json == OnBlockedJson::Refusal;
        if refused { WordsMember::Refusal } else { WordsMember::Content }
    }

    /// True if toolmark's own text must not appear in the answer: an error is returned instead.
    pub fn words_are_error(&self) -> bool {
        self.json_only && self.rules.policy.calls.on_blocked_json == OnBlockedJson::Error
    }

    /// True if an answer without a call must not be passed on.
    pub fn demands_call(&self) -> bool {
        let blocks = self.rules.checks.severity(Code::ToolChoiceIgnored) == Severity::Block;
        blocks && self.turn.tool_choice.demands() && !self.observes()
    }

    /// The texts of the conversation's own data, as far as the request contains it.
    pub fn data(&self) -> &[String] {
        self.data.get_or_init(|| (self.data_of)(&self.request))
    }

    /// Calls of the request with these ids, and their results.
    pub fn exhibits<'i>(&self, ids: &[&'i str]) -> HashMap<&'i str, Exhibit> {
        (self.exhibits_of)(&self.request, ids)
    }

    /// The execution with this id.
    pub(super) fn execution(&self, id: &str) -> Option<&Execution> {
        if self.executions.len() <= FEW {
            return self.executions.iter().find(|execution| *execution.id == *id);
        }
        let by_id = || self.executions.iter().enumerate().rev().map(|(at, execution)| (execution.id.clone(), at)).collect();
        self.by_id.get_or_init(by_id).get(id).and_then(|at| self.executions.get(*at))
    }

    /// The original request.
    pub fn request(&self) -> &Document {
        &self.request
    }

    /// Checks a text in a call's arguments for ids that claim an execution.
    fn id_in_arguments(&self, text: &str) -> Option<Violation> {
        if !TextGate::may_find_ids(text, &self.text) {
            return None;
        }
        let mut gate = TextGate::default();
        self.take_by(&self.id_rules(), &mut gate, text);
        let found = gate.violations().iter().find(|violation| ID_CLAIMS.contains(&violation.code))?;
        Some(Violation { message: format!("in the arguments: {}", found.message), ..found.clone() })
    }

    /// Rules of a text that is read for ids that claim an execution, and for nothing else.
    pub fn id_rules(&self) -> TextRules {
        TextRules { checks: self.text.checks.only(&ID_CLAIMS), ..self.text.clone() }
    }

    /// Feeds a piece of text to its gate.
    pub fn feed(&self, gate: &mut TextGate, text: &str) {
        self.feed_by(&self.text, gate, text);
    }

    /// Like [`Self::feed`], by other rules than those of the answer's text.
    pub fn feed_by(&self, rules: &TextRules, gate: &mut TextGate, text: &str) {
        let mut progress = gate.handle(text, rules, self);
        while let GateProgress::Need(ids) = progress {
            if !self.tell(gate, &ids) {
                return;
            }
            progress = gate.handle("", rules, self);
        }
    }

    /// Feeds a complete text to its gate, which reads it once: in less time than a piece and its end.
    pub fn take(&self, gate: &mut TextGate, text: &str) {
        self.take_by(&self.text, gate, text);
    }

    /// Feeds a complete text to its gate as prose, also if the request asks for JSON answers.
    pub fn take_prose(&self, gate: &mut TextGate, text: &str) {
        let prose = self.json_only.then(|| TextRules { json_only: false, ..self.text.clone() });
        let rules = prose.as_ref().unwrap_or(&self.text);
        self.take_by(rules, gate, text);
    }

    /// Like [`Self::take`], by other rules than those of the answer's text.
    pub fn take_by(&self, rules: &TextRules, gate: &mut TextGate, text: &str) {
        gate.push(text, rules, self);
        self.close_by(rules, gate);
    }

    /// Ends a text. If a lookup is pending ([`Inquiry::is_open`]), call it again after the answer.
    pub fn close(&self, gate: &mut TextGate) {
        self.close_by(&self.text, gate);
    }

    /// Like [`Self::close`], by other rules than those of the answer's text.
    pub fn close_by(&self, rules: &TextRules, gate: &mut TextGate) {
        while let GateProgress::Need(ids) = gate.finish(rules, self) {
            if !self.tell(gate, &ids) {
                return;
            }
        }
    }

    /// Gives a gate the ledger's answers for the ids it needs; false if one must still be looked up.
    fn tell(&self, gate: &mut TextGate, ids: &[String]) -> bool {
        let mut all = true;
        for id in ids {
            match self.inquiry.ask(id) {
                Some(known) => gate.answer(id, known),
                None => all = false,
            }
        }
        all
    }

    /// Mints the mark of a call that is passed on.
    pub fn mint(&self, tool: &str, arguments: &str, moment: MarkTime) -> String {
        let mark = self.ring.mint(&self.scope, tool, arguments, moment);
        self.inquiry.minted(moment, &mark);
        mark
    }

    /// Inputs of a judgement right at the start of the exchange.
    pub fn first_attempt(&self) -> AttemptInputs {
        AttemptInputs { now_ms: self.text.now_ms, loops: LoopState::default() }
    }

    /// Judges one choice after all its text has gone through `gates`.
    pub fn judge_choice(&self, calls: &[Call], gates: &[&TextGate], answer: AnswerNature, inputs: AttemptInputs) -> JudgedChoice {
        let tool_choice = if answer.hosted_calls { self.turn.tool_choice.met() } else { self.turn.tool_choice.clone() };
        let rules = TurnRules { ending: answer.ending, tool_choice, ..self.turn.clone() };
        let mut turn = judge_turn(calls, &self.tools().registry, &self.call_rules, &rules, self);
        let answers = answer_tools::judge(self, calls, &mut turn);
        let stops = loop_guard::watch(self, &mut turn, inputs);
        turn.violations.extend(self.unoffered(answer));
        let mut of_text: Vec<Violation> = gates.iter().flat_map(|gate| gate.violations().to_vec()).collect();
        let mut cited: HashSet<&str> = HashSet::new();
        let all = gates.iter().flat_map(|gate| gate.citations()).chain(&answers.citations);
        let citations: Vec<String> = all.filter(|id| cited.insert(id)).cloned().collect();
        of_text.extend(self.missing_citation(calls, &citations, answer, gates));
        of_text.extend(self.empty_answer(calls, answer));
        self.excuse_marks(&mut of_text);
        JudgedChoice { turn, of_text, citations, stops, answer_blocked: answers.blocked }
    }

    /// In observe mode nothing is marked or stamped, so a missing mark proves nothing: violations that depend on marks
    /// are replaced by a single `not_judged`.
    pub fn excuse_marks(&self, violations: &mut Vec<Violation>) {
        if self.observes() {
            let message = "in observe mode no call is marked and no result stamped, so what needs them is not judged";
            excuse_marks(violations, &self.rules.checks, message);
        }
    }

    fn unoffered(&self, answer: AnswerNature) -> Option<Violation> {
        if !answer.unoffered_calls {
            return None;
        }
        let message =
            "a built-in tool is called that this request doesn't offer, and whether an earlier part of the conversation does isn't known";
        let advice = "name the tool in `tools` with every request, or send the whole conversation";
        self.rules.checks.violation(Code::UnofferedCall, None, message, advice)
    }

    fn missing_citation(&self, calls: &[Call], citations: &[String], answer: AnswerNature, gates: &[&TextGate]) -> Option<Violation> {
        let answers = answer_tools::are_answers(self, calls);
        let stands = |execution: &&Execution| execution.recent && !execution.expired && !self.inquiry.is_trimmed(&execution.id);
        let citable = || self.executions.iter().any(|execution| stands(&execution));
        if !self.rules.policy.citations.require
            || self.json_only
            || !(calls.is_empty() || answers)
            || !(answer.has_text || answers)
            || answer.ending.excuses()
            || !citable()
        {
            return None;
        }
        let cited = citations.iter().any(|id| self.execution(id).is_some_and(|execution| execution.recent));
        if cited || self.cites_what_was_handed_over(citations) || self.owes_no_citation(gates) {
            return None;
        }
        let message = "the answer follows tool results and cites none of them";
        self.rules.checks.violation(
            Code::MissingCitation,
            None,
            message,
            "cite the result you report, as (execution_id: …), copied exactly",
        )
    }

    /// True if the answer repeats a report of another agent in its session, whose execution ID is in this
    /// conversation's data. The ledger verified such ids for the same caller and session.
    fn cites_what_was_handed_over(&self, citations: &[String]) -> bool {
        citations.iter().any(|id| self.execution(id).is_none() && self.data().iter().any(|text| text.contains(id.as_str())))
    }

    /// True if the answer says that it reports nothing, or is JSON that the prompt asks for.
    fn owes_no_citation(&self, gates: &[&TextGate]) -> bool {
        let texts: Vec<&str> = gates.iter().filter_map(|gate| gate.text()).filter(|text| !text.trim().is_empty()).collect();
        let [text] = texts[..] else { return false };
        let read = gates.iter().all(|gate| gate.is_empty() || gate.text().is_some());
        read && (citation_duty::reports_nothing(text) || citation_duty::is_json_asked_for(text, self.data()))
    }

    fn empty_answer(&self, calls: &[Call], answer: AnswerNature) -> Option<Violation> {
        let excused = answer.has_text || answer.has_audio || answer.hosted_calls || answer.ending.excuses();
        if excused || !calls.is_empty() || self.turn.tool_choice == ToolChoice::None {
            return None;
        }
        self.rules.checks.violation(Code::EmptyAnswer, None, "the answer is empty: neither text nor calls", "answer, or call a tool")
    }
}

/// Member of an answer that has a text.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WordsMember {
    /// `content`, or a part of type `output_text`.
    Content,
    /// `refusal`, or a part of type `refusal`.
    Refusal,
}

/// Traits of a choice besides its calls and texts.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct AnswerNature {
    /// It has text.
    pub has_text: bool,
    /// It has audio, or something else that is neither text nor a call.
    pub has_audio: bool,
    /// It has calls of tools that the upstream runs itself.
    pub hosted_calls: bool,
    /// It has calls of built-in tools that the application runs and that only an unknown part of the conversation can
    /// offer.
    pub unoffered_calls: bool,
    /// Ending of the choice, by its `finish_reason`.
    pub ending: FinishReason,
}

impl AnswerNature {
    /// The same choice, which has a refusal. A refusal beside an answer excuses the answer from nothing.
    pub fn refused(self) -> Self {
        match self.ending {
            FinishReason::Complete | FinishReason::Broken if !self.has_text => Self { ending: FinishReason::Refusal, ..self },
            _ => self,
        }
    }
}

/// Judgement of one choice.
#[derive(Debug)]
pub struct JudgedChoice {
    /// Judgement of its calls, and of the turn as a whole.
    pub turn: TurnVerdict,
    /// Violations of the text.
    pub of_text: Vec<Violation>,
    /// Verified execution IDs that the text cites.
    pub citations: Vec<String>,
    /// Calls stopped by loop control.
    pub stops: Vec<Stopped>,
    /// An answer that is given through a tool must not be passed on.
    pub answer_blocked: bool,
}

impl JudgedChoice {
    /// True if the text must not be passed on.
    pub fn blocks_text(&self) -> bool {
        self.of_text.iter().any(Violation::blocks)
    }

    /// True if anything in the choice blocks it.
    pub fn blocks(&self) -> bool {
        self.turn.blocks() || self.blocks_text()
    }

    /// All violations.
    pub fn violations(&self) -> impl Iterator<Item = &Violation> {
        self.turn.all_violations().chain(&self.of_text)
    }

    /// All blocking violations.
    pub fn blocking(&self) -> Vec<&Violation> {
        self.violations().filter(|violation| violation.blocks()).collect()
    }
}

impl ArgumentCheck for Context {
    fn id(&self, text: &str) -> Option<Violation> {
        self.id_in_arguments(text)
    }

    fn is_of_user(&self, text: &str) -> bool {
        // A template that the user wrote has placeholders of its own.
        let template = text.contains(['<', '[', '{']);
        let (asked, text) = (material::grounds(self).asked.lower(), text.to_lowercase());
        let apart = |side: Option<char>| !side.is_some_and(char::is_alphanumeric);
        let stands = |(at, own): (usize, &str)| {
            apart(asked.get(..at).and_then(|before| before.chars().next_back()))
                && apart(asked.get(at + own.len()..).and_then(|behind| behind.chars().next()))
        };
        !template && asked.match_indices(&text).any(stands)
    }
}

/// Replaces violations that depend on marks by one `not_judged` with this message. True if there were any.
pub fn excuse_marks(violations: &mut Vec<Violation>, checks: &crate::violation::Checks, message: &str) -> bool {
    // An id of our shape that doesn't verify is none of ours, stamped or not: that is judged here too.
    let needs_marks =
        |violation: &Violation| matches!(violation.code, Code::UnverifiedCall | Code::MissingExecutionId | Code::MissingCitation);
    let before = violations.len();
    violations.retain(|violation| !needs_marks(violation));
    let excused = violations.len() < before;
    if excused {
        violations.extend(checks.violation(Code::NotJudged, None, message, ""));
    }
    excused
}
