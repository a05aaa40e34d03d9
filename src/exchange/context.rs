//! What one exchange is judged by, and the judgement of one choice: the same for whole and streamed answers.
//!
//! Pure: the adapters bring calls and gates, this file says what is wrong with them.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, OnceLock, atomic::AtomicUsize},
};

use bytes::Bytes;

use uuid::Uuid;

use super::{
    inquiry::Inquiry,
    looping::{Loops, Stopped},
    material::Material,
    owed,
    thread::Hidden,
    tools::ToolSet,
};
use crate::{
    judge::{
        call::{Call, CallRules},
        call_turn::{Ending, ToolChoice, TurnRules, TurnVerdict, judge_turn},
        history::Execution,
        loops::Beyond,
        marks::{KeyRing, Moment, Scope},
        standing::Standing,
        text::TextGate,
        textual::Names,
        trail::Trail,
        violation::{Code, Severity, Violation},
    },
    policy::{Mode, OnBlockedJson, rules::Rules},
    wire::json::Document,
};

/// Executions that are looked through one by one.
const FEW: usize = 16;

/// What an exchange is judged by.
#[derive(Debug)]
pub struct Context {
    /// The exchange.
    pub id: Uuid,
    /// The policy.
    pub rules: Arc<Rules>,
    /// The policy's rules for calls, compiled.
    pub call_rules: Arc<CallRules>,
    /// The keys.
    pub ring: Arc<KeyRing>,
    /// Whose marks count.
    pub scope: Scope,
    /// The tools.
    pub tools: Arc<ToolSet>,
    /// `tool_choice` and what else binds a turn.
    pub turn: TurnRules,
    /// What the history proves.
    pub executions: Vec<Execution>,
    /// Tools with a successful result.
    pub succeeded: Vec<String>,
    /// What the gates are held to.
    pub text: crate::judge::text::Rules,
    /// `response_format` asks for JSON.
    pub json_only: bool,
    /// Answers asked for.
    pub choices: u64,
    /// Bytes held of one call.
    pub held_bytes_max: usize,
    /// The part of the conversation that isn't in the request.
    pub hidden: Hidden,
    /// What its calls are watched by.
    pub loops: Loops,
    /// What judging asks the ledger.
    pub inquiry: Inquiry,
    request: Document,
    data_of: DataOf,
    /// The conversation's own data, decoded when first asked for.
    data: OnceLock<Vec<String>>,
    /// Whose calls count where they are written as text, read off the request when first asked for.
    pub(super) written: OnceLock<Option<Names>>,
    /// Where words stand in that data.
    pub(super) standing: Standing,
    /// The executions by their ids, where they are many.
    by_id: OnceLock<HashMap<String, usize>>,
    /// Pairs of names and tools that were compared for being nearly the same.
    pub(super) compared: AtomicUsize,
    /// What claims are compared with.
    pub(super) evidence: Material,
}

/// What users, tools and instructions said in a request, not the model.
pub type DataOf = fn(&Document) -> Vec<String>;

/// What the upstream that will serve the request demands.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Upstream {
    /// What `tool_choice` is asked for where the request says nothing and has tools.
    pub tool_choice: Option<&'static str>,
}

/// A request made ready for the upstream, and what was found on the way.
#[derive(Debug)]
pub struct Prepared {
    /// What goes upstream; in observe mode the bytes that came.
    pub body: Bytes,
    /// What may be called, and how.
    pub tool_choice: ToolChoice,
    /// `parallel_tool_calls`, where the request says it.
    pub parallel: Option<bool>,
    /// The executions that the history proves.
    pub executions: Vec<Execution>,
    /// Tools with a successful result in the history.
    pub succeeded: Vec<String>,
    /// What was called since the user spoke last.
    pub trail: Trail,
    /// The results of the history, with the ids of those that are executions.
    pub evidence: Material,
    /// What is wrong with the request, registry and history.
    pub violations: Vec<Violation>,
    /// `response_format` asks for JSON.
    pub json_only: bool,
    /// Answers asked for.
    pub choices: u64,
    /// The part of the conversation that isn't in the request.
    pub hidden: Hidden,
    /// Reads the request's own data.
    pub data_of: DataOf,
}

/// What an exchange is judged by, besides the request itself.
#[derive(Clone, Debug)]
pub struct Basis<'b> {
    /// The exchange.
    pub id: Uuid,
    /// The policy.
    pub rules: &'b Arc<Rules>,
    /// The policy's rules for calls, compiled.
    pub call_rules: &'b Arc<CallRules>,
    /// The policy's rules for text.
    pub text: &'b crate::judge::text::Rules,
    /// The keys.
    pub ring: &'b Arc<KeyRing>,
    /// Whose marks count.
    pub scope: Scope,
    /// The tools of this request.
    pub tools: Arc<ToolSet>,
    /// Unix milliseconds.
    pub now_ms: u64,
    /// What the upstream needs.
    pub upstream: Upstream,
    /// The protocol text, as a JSON string, where the model is told something.
    pub protocol: Option<&'b str>,
    /// Bytes held of one call.
    pub held_bytes_max: usize,
    /// What loop control counts besides the conversation.
    pub beyond: Beyond,
}

/// A request that was read, verified and prepared.
#[derive(Debug)]
pub struct Begun {
    /// What its answers are judged by.
    pub context: Arc<Context>,
    /// What goes upstream.
    pub body: Bytes,
    /// What is wrong with the request, registry and history.
    pub violations: Vec<Violation>,
}

impl Begun {
    /// Begins the exchange of a prepared request. `document`: the request as it came.
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
        } = prepared;
        let mut text = basis.text.clone();
        (text.json_only, text.now_ms) = (json_only, basis.now_ms);
        text.has_tools = basis.tools.any || !executions.is_empty();
        // Without an execution there is nothing to cite, and nobody to ask.
        let opinion = text.second_opinion && !json_only && !executions.is_empty() && choices <= 1;
        text.hold_all |= opinion && text.checks.severity(Code::VerifierContradiction) == Severity::Block;
        let mut beyond = basis.beyond;
        if !beyond.session.is_empty() {
            let own: HashSet<Moment> = executions.iter().map(|execution| execution.moment).collect();
            beyond.session.retain(|call| !own.contains(&call.moment));
        }
        let context = Arc::new(Context {
            id: basis.id,
            rules: basis.rules.clone(),
            call_rules: basis.call_rules.clone(),
            ring: basis.ring.clone(),
            scope: basis.scope,
            turn: TurnRules { tool_choice, parallel_tool_calls: parallel, ..TurnRules::default() },
            tools: basis.tools,
            executions,
            succeeded,
            text,
            json_only,
            choices,
            held_bytes_max: basis.held_bytes_max,
            hidden,
            loops: Loops::new(trail, beyond, basis.now_ms),
            inquiry: Inquiry::default(),
            request: document.clone(),
            data_of,
            data: OnceLock::new(),
            written: OnceLock::new(),
            standing: Standing::default(),
            by_id: OnceLock::new(),
            compared: AtomicUsize::new(0),
            evidence,
        });
        context.excuse_marks(&mut violations);
        Self { context, body, violations }
    }

    /// What its answers are judged by, to be changed; nobody else has it yet.
    pub fn unshared(&mut self) -> Option<&mut Context> {
        Arc::get_mut(&mut self.context)
    }
}

impl Context {
    /// Is anything changed?
    pub fn observes(&self) -> bool {
        self.rules.policy.mode == Mode::Observe
    }

    /// Words of toolmark's own go into the `refusal`: where they stood in the content, a parser would choke on them.
    pub fn words_are_refusal(&self) -> bool {
        self.json_only && self.rules.policy.calls.on_blocked_json == OnBlockedJson::Refusal
    }

    /// Words of toolmark's own have no place in the answer.
    pub fn words_are_error(&self) -> bool {
        self.json_only && self.rules.policy.calls.on_blocked_json == OnBlockedJson::Error
    }

    /// Without a call nothing of an answer may pass.
    pub fn demands_call(&self) -> bool {
        let blocks = self.rules.checks.severity(Code::ToolChoiceIgnored) == Severity::Block;
        blocks && self.turn.tool_choice.demands() && !self.observes()
    }

    /// The conversation's own data, as far as the request has it.
    pub fn data(&self) -> &[String] {
        self.data.get_or_init(|| (self.data_of)(&self.request))
    }

    /// The execution with this id.
    pub(super) fn execution(&self, id: &str) -> Option<&Execution> {
        if self.executions.len() <= FEW {
            return self.executions.iter().find(|execution| execution.id == id);
        }
        let by_id = || self.executions.iter().enumerate().rev().map(|(at, execution)| (execution.id.clone(), at)).collect();
        self.by_id.get_or_init(by_id).get(id).and_then(|at| self.executions.get(*at))
    }

    /// The request as it came.
    pub fn request(&self) -> &Document {
        &self.request
    }

    /// Checks a text inside a call's arguments for ids that claim an execution.
    fn id_in_arguments(&self, text: &str) -> Option<Violation> {
        if !TextGate::may_find_ids(text, &self.text) {
            return None;
        }
        let mut gate = TextGate::default();
        self.feed(&mut gate, text);
        self.close(&mut gate);
        let claims = [Code::UnknownExecution, Code::ExpiredExecution, Code::ExecutionElsewhere, Code::LedgerUnavailable];
        let found = gate.violations().iter().find(|violation| claims.contains(&violation.code))?;
        Some(Violation { message: format!("in the arguments: {}", found.message), ..found.clone() })
    }

    /// The mark of a call that is passed on.
    pub fn mint(&self, tool: &str, arguments: &str, moment: Moment) -> String {
        let mark = self.ring.mint(&self.scope, tool, arguments, moment);
        self.inquiry.minted(moment, &mark);
        mark
    }

    /// Judges one choice, all of whose text has gone through `gates`.
    pub fn judge_choice(&self, calls: &[Call], gates: &[&TextGate], answer: AnswerNature) -> JudgedChoice {
        let ids = |text: &str| self.id_in_arguments(text);
        let tool_choice = if answer.hosted_calls { self.turn.tool_choice.met() } else { self.turn.tool_choice.clone() };
        let rules = TurnRules { ending: answer.ending, tool_choice, ..self.turn.clone() };
        let mut turn = judge_turn(calls, &self.tools.registry, &self.call_rules, &rules, &ids);
        let answers = self.judge_answers(calls, &mut turn);
        let stops = self.watch(&mut turn);
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

    /// Where nothing is changed nothing is stamped, so what lacks a mark can't be told from what would have one:
    /// it is `not_judged`, and said so once.
    pub fn excuse_marks(&self, violations: &mut Vec<Violation>) {
        if self.observes() {
            excuse_marks(violations, &self.rules.checks);
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
        let answer = self.with_answers(calls, answer);
        let stands = |execution: &&Execution| execution.recent && !execution.expired && !self.inquiry.is_trimmed(&execution.id);
        let citable = || self.executions.iter().any(|execution| stands(&execution));
        if !self.rules.policy.citations.require
            || self.json_only
            || !(calls.is_empty() || self.are_answers(calls))
            || !answer.has_text
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

    /// It repeats what another agent of its session reported, whose execution stands in this conversation's data. What is no
    /// execution of this conversation was verified by the ledger, for the same caller and session.
    fn cites_what_was_handed_over(&self, citations: &[String]) -> bool {
        citations.iter().any(|id| self.execution(id).is_none() && self.data().iter().any(|text| text.contains(id.as_str())))
    }

    /// It says that it reports nothing, or is the JSON that a prompt asks for.
    fn owes_no_citation(&self, gates: &[&TextGate]) -> bool {
        let texts: Vec<&str> = gates.iter().filter_map(|gate| gate.text()).filter(|text| !text.trim().is_empty()).collect();
        let [text] = texts[..] else { return false };
        let read = gates.iter().all(|gate| gate.is_empty() || gate.text().is_some());
        read && (owed::reports_nothing(text) || owed::is_json_asked_for(text, self.data()))
    }

    fn empty_answer(&self, calls: &[Call], answer: AnswerNature) -> Option<Violation> {
        let excused = answer.has_text || answer.has_audio || answer.hosted_calls || answer.ending.excuses();
        if excused || !calls.is_empty() || self.turn.tool_choice == ToolChoice::None {
            return None;
        }
        self.rules.checks.violation(Code::EmptyAnswer, None, "the answer is empty: neither text nor calls", "answer, or call a tool")
    }
}

/// What else is known of a choice.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct AnswerNature {
    /// It has text.
    pub has_text: bool,
    /// It has audio, or something else that is neither text nor a call.
    pub has_audio: bool,
    /// It has calls of tools that the upstream runs itself.
    pub hosted_calls: bool,
    /// It has calls of built-in tools that the application runs, and that only an unknown part of the conversation can offer.
    pub unoffered_calls: bool,
    /// How it ended.
    pub ending: Ending,
}

impl AnswerNature {
    /// From `finish_reason`, and whether there is a refusal.
    pub fn new(has_text: bool, has_audio: bool, refused: bool, finish_reason: Option<&str>) -> Self {
        let ending = match finish_reason.map_or(Ending::Complete, Ending::of_finish) {
            // A refusal beside an answer excuses the answer from nothing.
            Ending::Complete | Ending::Broken if refused && !has_text => Ending::Refusal,
            ending => ending,
        };
        Self { has_text, has_audio, hosted_calls: false, unoffered_calls: false, ending }
    }
}

/// A choice's judgement.
#[derive(Debug)]
pub struct JudgedChoice {
    /// Its calls, and the turn as a whole.
    pub turn: TurnVerdict,
    /// The text.
    pub of_text: Vec<Violation>,
    /// Verified execution IDs that it cites.
    pub citations: Vec<String>,
    /// Calls that loop control objects to.
    pub stops: Vec<Stopped>,
    /// An answer that is given through a tool may not be passed on.
    pub answer_blocked: bool,
}

impl JudgedChoice {
    /// The text may not be passed on.
    pub fn blocks_text(&self) -> bool {
        self.of_text.iter().any(Violation::blocks)
    }

    /// Nothing of it may be passed on as it is.
    pub fn blocks(&self) -> bool {
        self.turn.blocks() || self.blocks_text()
    }

    /// Everything that is wrong.
    pub fn violations(&self) -> impl Iterator<Item = &Violation> {
        self.turn.all_violations().chain(&self.of_text)
    }

    /// Everything that blocks.
    pub fn blocking(&self) -> Vec<&Violation> {
        self.violations().filter(|violation| violation.blocks()).collect()
    }
}

/// What would need marks becomes one `not_judged`.
fn excuse_marks(violations: &mut Vec<Violation>, checks: &crate::judge::violation::Checks) {
    // An id of our shape that doesn't verify is none of ours, stamped or not: that is judged here too.
    let needs_marks =
        |violation: &Violation| matches!(violation.code, Code::UnverifiedCall | Code::MissingExecutionId | Code::MissingCitation);
    let before = violations.len();
    violations.retain(|violation| !needs_marks(violation));
    if violations.len() < before {
        let message = "in observe mode no call is marked and no result stamped, so what needs them is not judged";
        violations.extend(checks.violation(Code::NotJudged, None, message, ""));
    }
}
