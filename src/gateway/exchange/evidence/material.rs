//! Evidence for an answer's claims: the request's results and texts, decoded when a claim first needs them. Pure.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use crate::{
    claims::{
        evidence::{
            EvidenceIndex, ResultReading, ToolResult,
            beginning::KnownTexts,
            tool_capabilities::{Effect, ToolCapabilities, ToolRunState},
        },
        language::request::UserRequest,
    },
    exchange::{
        context::Context,
        conversation::{KnownResult, Thread},
    },
    judge::history::{
        AnsweredCall, Execution,
        beginning::HistoryBeginning,
        memo::{AnsweredItem, HistoryMemo},
    },
    wire::json::{Document, Value},
};

/// Texts of a request, as far as claims need them.
#[derive(Clone, Debug, Default)]
pub struct Words {
    /// Arguments and text of each result, read or yet to be read.
    pub results: Vec<Arc<ResultReading>>,
    /// Texts of users, instructions, earlier answers and calls.
    pub said: Vec<Arc<str>>,
    /// Texts of earlier answers; they stand in `said` too.
    pub answers: Vec<Arc<str>>,
    /// The last user message.
    pub asked: UserRequest,
    /// The request's tool definitions: JSON.
    pub definitions: String,
    /// Since the last user message the upstream ran a tool of its own, of whose result the request has nothing.
    pub unseen: bool,
    /// The first of these texts, if they are kept for later exchanges.
    pub beginning: Option<Arc<KnownTexts>>,
}

impl Words {
    /// The texts of the beginning of a conversation.
    pub fn of(known: &Arc<KnownTexts>) -> Self {
        Self {
            results: known.results.clone(),
            said: known.said.clone(),
            answers: known.answers.clone(),
            asked: known.asked.clone(),
            definitions: String::new(),
            unseen: known.unseen,
            beginning: Some(known.clone()),
        }
    }
}

/// A result and its call, as the request has them.
#[derive(Clone, Debug, Default)]
pub struct ResultTexts {
    /// Arguments of the call: JSON text.
    pub arguments: Arc<str>,
    /// Text of the result.
    pub text: Arc<str>,
    /// A part of the result isn't text: an image, a file.
    pub has_media: bool,
}

/// Extracts the texts of a request; the results are the given ones, in their order.
pub type WordsOf = fn(&Document, &Material) -> Words;

/// The results of a history, with the evidence derived from them on demand.
#[derive(Debug, Default)]
pub struct Material {
    /// The results.
    pub answered: Vec<AnsweredCall>,
    /// Earlier reading of each item of the history; empty if nothing is remembered.
    pub memo: HistoryMemo,
    /// Beginning of the history that was taken over from an earlier request.
    pub known: Option<Arc<HistoryBeginning>>,
    /// Beginning of the history that is kept for later requests.
    pub kept: Option<Arc<HistoryBeginning>>,
    words_of: Option<WordsOf>,
    /// The answer has a call of a tool that the upstream ran.
    unseen: AtomicBool,
    grounds: OnceLock<EvidenceIndex>,
    abilities: OnceLock<ToolCapabilities>,
}

impl Material {
    /// Evidence from these results. `memo`: what was read from each item of the history before, or empty.
    pub fn new(answered: Vec<AnsweredCall>, memo: HistoryMemo, words_of: WordsOf) -> Self {
        Self { answered, memo, words_of: Some(words_of), ..Self::default() }
    }

    /// The same with these beginnings of the history: the one that was taken over, and the one that is kept.
    #[must_use]
    pub fn behind(self, known: Option<Arc<HistoryBeginning>>, kept: Option<Arc<HistoryBeginning>>) -> Self {
        Self { known, kept, ..self }
    }

    /// True if a claim needed the results and texts.
    pub fn was_read(&self) -> bool {
        self.grounds.get().is_some()
    }

    /// Notes that the upstream ran a tool of its own for the answer: the model has a result that toolmark may not have.
    pub fn note_unseen(&self) {
        self.unseen.store(true, Ordering::Relaxed);
        if let Some(grounds) = self.grounds.get() {
            grounds.note_unseen();
        }
    }

    /// True if the history has results.
    pub fn has_results(&self) -> bool {
        !self.answered.is_empty()
    }

    /// The text of an item, which `read` reads if nobody did before.
    pub fn text(&self, item: usize, read: impl FnOnce() -> Arc<str>) -> Arc<str> {
        match self.memo.get(item) {
            Some(memo) => memo.text.get_or_init(read).clone(),
            None => read(),
        }
    }

    /// The reading of a result. `read`: its texts, if nobody read them before.
    pub fn reading(&self, result: &AnsweredCall, read: impl FnOnce() -> ResultTexts) -> Arc<ResultReading> {
        let memo = self.memo.get(result.item).and_then(|memo| memo.known_result());
        let call = result.call.and_then(|(item, number)| Some((self.memo.get(item)?, number)));
        let known = memo.and_then(|memo| memo.reading.get());
        // The same result, but it may answer another call.
        let same = |own: &AnsweredItem| call.is_some_and(|(item, number)| Arc::ptr_eq(&own.item, item) && own.number == number);
        if let Some((_, known)) = known.filter(|(call, known)| same(call) && known.tool == result.tool) {
            return known.clone();
        }
        let ResultTexts { arguments, text, has_media } = read();
        let mut reading = ResultReading::new(result.tool.clone(), arguments, text);
        reading.has_media = has_media;
        reading.told_at_top = memo.and_then(|memo| memo.nature.told_at_top);
        let reading = Arc::new(reading);
        if let (Some(memo), Some((item, number))) = (memo, call) {
            let _known = memo.reading.set((AnsweredItem { item: item.clone(), number }, reading.clone()));
        }
        reading
    }
}

/// Evidence index that an answer's claims are compared with.
pub fn grounds(context: &Context) -> &EvidenceIndex {
    let material = &context.evidence;
    material.grounds.get_or_init(|| read_grounds(context, material))
}

// Border for the optimiser.
#[inline(never)]
fn read_grounds(context: &Context, material: &Material) -> EvidenceIndex {
    let words = material.words_of.map(|read| read(context.request(), material)).unwrap_or_default();
    let earlier = context.hidden.earlier.as_deref();
    let own: Vec<&Execution> = own(context).collect();
    let source = |(answered, reading): (&AnsweredCall, Arc<ResultReading>)| {
        let id = answered.execution.and_then(|at| own.get(at)).map(|execution| execution.id.clone());
        let mut source = ToolResult::of(reading);
        (source.failed, source.recent, source.execution_id) = (answered.failed, answered.recent, id);
        source
    };
    let kept = earlier.into_iter().flat_map(|thread| thread.results.iter().enumerate().map(move |at| (thread, at)));
    let kept = kept.map(|(thread, (at, result))| {
        let mut reading = ResultReading::new((&*result.tool).into(), (&*result.arguments).into(), (&*result.text).into());
        reading.has_media = result.has_media;
        let mut source = ToolResult::of(Arc::new(reading));
        (source.failed, source.recent) = (result.failed, at >= thread.recent_from && !context.hidden.spoke);
        source.execution_id = result.execution_id.as_deref().map(Into::into);
        source
    });
    let results = kept.chain(material.answered.iter().zip(words.results).map(source)).collect();
    let before = earlier.into_iter().flat_map(|thread| thread.data.iter().chain(&thread.said)).map(|text| Arc::from(&**text));
    let said = words.said.into_iter().chain(before).collect();
    let asked = match earlier {
        Some(thread) if !context.hidden.spoke => (&*thread.asked).into(),
        _ => words.asked,
    };
    let mut grounds = EvidenceIndex::new(results, said, asked);
    if words.unseen || material.unseen.load(Ordering::Relaxed) || has_unseen(context) || searches(context) {
        grounds.note_unseen();
    }
    grounds.definitions = words.definitions;
    grounds.answers = words.answers;
    // INVARIANT: without results of an earlier request, those of the beginning are the first ones.
    grounds.beginning = words.beginning.filter(|_| earlier.is_none());
    grounds
}

/// True if the upstream ran a tool of its own since the last user message, in a part of the conversation that only it has.
fn has_unseen(context: &Context) -> bool {
    !context.hidden.spoke && context.hidden.earlier.as_ref().is_some_and(|thread| thread.unseen_results)
}

/// True if the answer, or one before it to the same user message, has a call of a tool that the upstream ran.
pub fn ran_hosted(context: &Context) -> bool {
    context.evidence.unseen.load(Ordering::Relaxed) || has_unseen(context)
}

/// True if the upstream may search for any answer to the request, and shows no call of it: OpenAI's search models, OpenRouter's plugin
/// `web`, xAI's live search. Source: their API references.
fn searches(context: &Context) -> bool {
    let root = context.request().root();
    let plugins = root.get_some("plugins").into_iter().flat_map(Value::items);
    let live = root.get_some("search_parameters");
    root.get_some("web_search_options").is_some()
        || plugins.filter_map(|plugin| plugin.get("id")).any(|id| id.is_text("web"))
        || live.is_some_and(|live| !live.get("mode").is_some_and(|mode| mode.is_text("off")))
}

/// Stores the request's results in `thread`, as evidence for later answers in a conversation that the upstream stores.
/// True if the request has results.
pub fn prove(context: &Context, thread: &mut Thread) -> bool {
    if context.evidence.answered.is_empty() {
        if context.hidden.spoke {
            thread.prove([], Some(0));
        }
        return false;
    }
    let earlier = context.hidden.earlier.as_ref().map_or(0, |thread| thread.results.len());
    let grounds = grounds(context);
    let own = grounds.results.get(earlier..).unwrap_or_default();
    let known = |source: &ToolResult| KnownResult {
        tool: (&*source.tool).into(),
        arguments: (&*source.arguments).into(),
        text: (&*source.text).into(),
        has_media: source.has_media,
        failed: source.failed,
        execution_id: source.execution_id.as_deref().map(Into::into),
    };
    let recent = context.hidden.spoke.then(|| own.iter().filter(|source| source.recent).count());
    thread.prove(own.iter().map(known), recent);
    thread.hear([], Some(&*grounds.asked).filter(|_| context.hidden.spoke));
    true
}

/// Executions of the request itself, without the remembered ones, which are in front.
fn own(context: &Context) -> impl Iterator<Item = &Execution> {
    context.executions.iter().filter(|execution| execution.item != usize::MAX)
}

/// Capabilities of the exchange's tools, and which of the tools ran.
pub fn abilities(context: &Context) -> &ToolCapabilities {
    let material = &context.evidence;
    material.abilities.get_or_init(|| {
        let mut ran: BTreeMap<String, ToolRunState> = BTreeMap::new();
        for tool in &context.succeeded {
            ran.entry(tool.clone()).or_default().succeeded = true;
        }
        let mut recent: BTreeMap<String, ToolRunState> = BTreeMap::new();
        for (tool, runs) in runs_of(&grounds(context).results) {
            if runs.failed {
                ran.entry(tool.to_owned()).or_default().failed = true;
            }
            if let Some(state) = runs.recent {
                recent.insert(tool.to_owned(), state);
            }
        }
        let mut abilities = ToolCapabilities {
            tools: context.tools().abilities(),
            ran,
            recent,
            acted_before: false,
            // What toolmark runs itself may have run in a round that this request doesn't have.
            unseen: context.hidden.unseen
                || context.hidden.lacks_evidence
                || context.tools().runs_any()
                || !context.tools().hosted.is_empty()
                || brings_hosted_tools(context),
            asked: grounds(context).asked.clone(),
            idle: !grounds(context).results.iter().any(|result| result.recent),
            ..ToolCapabilities::default()
        };
        let mut before: Vec<&Arc<str>> =
            grounds(context).results.iter().filter(|result| !result.recent && !result.failed).map(|result| &result.tool).collect();
        before.dedup();
        abilities.acted_before = before.into_iter().any(|tool| abilities.effect(tool) != Effect::Reads);
        abilities
    })
}

/// Members of a request by which the upstream gets tools that it runs itself, besides `tools`: OpenAI's stored prompts and search models,
/// Anthropic's MCP connector, OpenRouter's plugins, xAI's live search.
const HOSTED_TOOLS: [&str; 5] = ["prompt", "web_search_options", "mcp_servers", "plugins", "search_parameters"];

/// True if the upstream may run tools of which the request's `tools` say nothing.
fn brings_hosted_tools(context: &Context) -> bool {
    let root = context.request().root();
    // An empty object asks for a search, too.
    HOSTED_TOOLS.iter().any(|name| root.get_some(name).is_some_and(|value| value.is_object() || value.items().next().is_some()))
}

/// Runs of one tool.
#[derive(Default)]
struct ToolRuns {
    failed: bool,
    /// Those after the last user message, if there are any.
    recent: Option<ToolRunState>,
}

/// Runs of each tool of these results.
fn runs_of(results: &[ToolResult]) -> HashMap<&str, ToolRuns> {
    let mut runs: HashMap<&str, ToolRuns> = HashMap::new();
    // Results of one tool mostly follow each other, and share its name.
    for same in results.chunk_by(|one, next| Arc::ptr_eq(&one.tool, &next.tool)) {
        let Some(first) = same.first() else { continue };
        let own = runs.entry(&first.tool).or_default();
        for result in same {
            result.take_effect(first);
            let failed = result.fails();
            own.failed |= failed;
            if result.recent {
                let recent = own.recent.get_or_insert(ToolRunState { lists: true, ..ToolRunState::default() });
                (recent.succeeded, recent.failed) = (recent.succeeded || !failed, recent.failed || failed);
                recent.lists = recent.lists && (failed || result.lists_records());
            }
        }
    }
    runs
}
