//! Calls that toolmark runs within an exchange: the model is asked on with their results until it answers, or calls
//! what the application runs.
//!
//! ```text
//! accepted ──only ours──▶ run, in parallel ──▶ the request with the round behind it ──▶ next attempt
//!          ──ours and the application's──▶ run; the application gets its own, the rest is kept for its next request
//!          ──none of ours──▶ the answer leaves; rounds before it are kept for the next request
//! ```

use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use http::StatusCode;
use quick_cache::{Weighter, sync::Cache};

use super::{
    app::{App, Standard},
    exchange::basis,
    reply::Failure,
    run::Run,
};
use crate::{
    chat::{
        request::{self, Head},
        rounds::{self, Kept, Key},
    },
    exchange::{
        context::{Basis, Begun, Upstream},
        decide::Final,
        refusal::Refusal,
        turn::Said,
        usage,
    },
    judge::{
        call::ValidCall,
        loops::Beyond,
        marks::Scope,
        violation::{Code, Violation},
    },
    mcp::{calls::Asked, result::Outcome},
    wire::{
        json::{Document, Value},
        sse::Parser,
    },
};

/// Bytes of all rounds that are kept.
const KEPT_BYTES_MAX: u64 = 64 << 20;
const KEPT_EXPECTED: usize = 1 << 12;
/// Milliseconds for which they are kept.
const KEPT_MS_MAX: u64 = 7 * 24 * 60 * 60 * 1000;
/// Characters of an answer that may be found again.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Rounds behind messages that applications have; per process.
pub struct KeptRounds(Cache<Key, (u64, Arc<Kept>), ByBytes>);

#[derive(Clone)]
struct ByBytes;

impl Weighter<Key, (u64, Arc<Kept>)> for ByBytes {
    fn weight(&self, _: &Key, (_, kept): &(u64, Arc<Kept>)) -> u64 {
        kept.bytes() as u64 + 256
    }
}

impl Default for KeptRounds {
    fn default() -> Self {
        Self(Cache::with_weighter(KEPT_EXPECTED, KEPT_BYTES_MAX, ByBytes))
    }
}

impl KeptRounds {
    fn keep(&self, keys: impl IntoIterator<Item = Key>, kept: Kept, now_ms: u64) {
        if kept.bytes() <= rounds::KEPT_BYTES_MAX {
            let kept = Arc::new(kept);
            keys.into_iter().for_each(|key| self.0.insert(key, (now_ms, kept.clone())));
        }
    }

    /// The request with what was hidden from its sender put back; `None` where nothing was.
    pub fn restore(&self, request: &Document, scope: &Scope, now_ms: u64) -> Option<Bytes> {
        let find = |key: &Key| self.0.get(key).filter(|(at, _)| at.saturating_add(KEPT_MS_MAX) > now_ms).map(|(_, kept)| kept);
        if self.0.is_empty() { None } else { rounds::restore(request, scope, find) }
    }
}

/// The rounds of one exchange.
#[derive(Default)]
pub struct Rounds {
    begun: Option<Origin>,
    count: u32,
    /// When the last one ended: repairs have their time from there.
    pub(super) since: Option<Instant>,
    before: Vec<String>,
    mixed: Option<(Vec<Key>, Kept)>,
    /// What the model said in the attempt that ends, where it isn't all that the application gets.
    last: Option<String>,
    tap: Option<Tap>,
}

struct Origin {
    standard: Arc<Standard>,
    upstream: Upstream,
    beyond: Beyond,
    /// The request as the application sent it.
    came: Document,
}

/// What becomes of an accepted answer.
pub enum Next {
    /// The model is asked on.
    Again,
    /// It ends like this.
    End(Vec<Final>),
}

/// Refuses what can't be done where toolmark runs tools.
///
/// # Errors
/// 503 where a server that is required is missing; 400 for several answers at once.
pub fn check(standard: &Standard, choices: u64) -> Result<(), Failure> {
    let offered = &standard.offered.1;
    let enforced = standard.rules.policy.mode == crate::policy::Mode::Enforce;
    if let Some(why) = offered.missing().filter(|_| enforced) {
        return Err(Failure::new(StatusCode::SERVICE_UNAVAILABLE, "mcp_unavailable", why));
    }
    if choices > 1 && enforced && offered.runs() {
        let message = "toolmark runs tools of MCP servers, and can do so for one answer only: leave `n` out";
        return Err(Failure { param: Some("n".into()), ..Failure::new(StatusCode::BAD_REQUEST, "invalid_request", message) });
    }
    Ok(())
}

/// Refuses the Responses API where toolmark runs tools: not built yet.
///
/// # Errors
/// 501, or as [`check`].
pub fn check_responses(standard: &Standard) -> Result<(), Failure> {
    check(standard, 1)?;
    let enforced = standard.rules.policy.mode == crate::policy::Mode::Enforce;
    if enforced && standard.offered.1.runs() {
        let message =
            "toolmark can't run the tools of MCP servers on the Responses API yet: use /v1/chat/completions, or `execute = \"app\"`";
        return Err(Failure::new(StatusCode::NOT_IMPLEMENTED, "not_built", message));
    }
    Ok(())
}

impl Rounds {
    /// For an exchange that begins; nothing where toolmark runs no tools.
    pub fn of(standard: &Arc<Standard>, upstream: Upstream, beyond: &Beyond, came: &Document) -> Self {
        let origin = || Origin { standard: standard.clone(), upstream, beyond: beyond.clone(), came: came.clone() };
        Self { begun: standard.offered.1.runs().then(origin), ..Self::default() }
    }

    /// Does toolmark run tools in this exchange?
    pub fn begun(&self) -> bool {
        self.begun.is_some()
    }

    /// How many there were.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Takes note of what the application gets in a stream.
    pub fn tap(&mut self, out: &[u8]) {
        if self.begun.is_some() {
            self.tap.get_or_insert_default().take(out);
        }
    }
}

impl Run {
    /// Runs what is toolmark's to run in an accepted answer. `spent`: the attempt's usage.
    ///
    /// # Errors
    /// [`Failure`] where the conversation can't go on.
    pub(super) async fn own_calls(&mut self, finals: Vec<Final>, said: Option<Said>, spent: Option<String>) -> Result<Next, Failure> {
        let (Some(said), context) = (said, self.context.clone()) else { return Ok(Next::End(finals)) };
        let (Some(mcp), [Final::Accept(calls)]) = (self.worker.app.mcp.clone(), &finals[..]) else { return Ok(Next::End(finals)) };
        let runs = |call: &ValidCall| context.tools.runs(call.name()).cloned();
        let own: Vec<_> = calls.iter().enumerate().filter_map(|(at, (call, _))| Some((at, runs(call)?))).collect();
        if !self.rounds.begun() || (own.is_empty() && self.rounds.before.is_empty()) {
            return Ok(Next::End(finals));
        }
        let marks: Vec<String> = calls.iter().map(|(call, moment)| context.mint(call.name(), call.arguments(), *moment)).collect();
        let passed: Vec<(&ValidCall, &str)> = calls.iter().zip(&marks).map(|((call, _), mark)| (call, mark.as_str())).collect();
        let assistant = rounds::assistant(&said, &passed);
        if own.is_empty() {
            self.rounds.last = Some(assistant);
            return Ok(Next::End(finals));
        }
        self.rounds.count += 1;
        let limit = own.iter().filter_map(|(_, tool)| Some(mcp.servers().get(tool.server)?.settings.max_rounds)).min().unwrap_or(1);
        if self.rounds.count > limit.saturating_add(1) {
            return Ok(Next::End(vec![Final::Say(self.too_many(limit, own.first().map_or("", |(_, tool)| &tool.name)))]));
        }
        let asked = own.iter().filter_map(|(at, tool)| {
            let (call, mark) = passed.get(*at)?;
            Some(Asked { mark: (*mark).into(), tool: tool.clone(), arguments: call.arguments().to_owned() })
        });
        let outcomes: Vec<Outcome> = if self.rounds.count > limit {
            let message = format!("this was not run: the limit of {limit} rounds of calls is reached. Answer with what you have.");
            own.iter().map(|_| Outcome::failure(&message)).collect()
        } else {
            let asked = asked.collect();
            self.run_calls(&mcp, asked).await
        };
        let results: Vec<String> =
            own.iter().zip(&outcomes).filter_map(|((at, _), outcome)| Some(rounds::result(marks.get(*at)?, &outcome.text))).collect();
        self.rounds.since = Some(Instant::now());
        if own.len() < calls.len() {
            let theirs = calls.iter().zip(&marks).filter(|((call, _), _)| runs(call).is_none());
            let keys = theirs.map(|(_, mark)| rounds::key_of_mark(&context.scope, mark)).collect();
            let before = std::mem::take(&mut self.rounds.before);
            self.rounds.mixed = Some((keys, Kept { before, whole: Some(assistant), behind: results }));
            return Ok(Next::End(finals));
        }
        if let Some(spent) = &spent {
            usage::add(&mut self.usage, spent);
        }
        let added: Vec<String> = [assistant].into_iter().chain(results).collect();
        self.go_on(&added).await?;
        self.rounds.before.extend(added);
        Ok(Next::Again)
    }

    fn too_many(&mut self, limit: u32, tool: &str) -> String {
        self.tally.blocked = true;
        let checks = &self.context.rules.checks;
        let message = format!("tools were run in {limit} rounds, which is the limit, and `{tool}` was called again");
        let violation: Option<Violation> = checks.violation(Code::LoopDetected, Some(tool), message, "");
        let words = crate::judge::reply::ended(&violation.iter().collect::<Vec<_>>());
        self.tally.violations.extend(violation);
        words
    }

    /// The exchange goes on with these messages behind its request.
    async fn go_on(&mut self, added: &[String]) -> Result<(), Failure> {
        let broken =
            || Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", "the request with the tools' results can't be made");
        let body = rounds::append(self.context.request(), added).ok_or_else(broken)?;
        let document = Document::parse(body).map_err(|_| broken())?;
        let Some(origin) = &self.rounds.begun else { return Err(broken()) };
        let begun = begin_again(&self.worker.app, origin, &self.context, &document)?;
        let Begun { context, body, violations } = begun;
        let new: Vec<Violation> = violations.into_iter().filter(|own| !self.tally.violations.contains(own)).collect();
        if let Some(refusal) = new.iter().find(|own| own.blocks()).map(Refusal::of) {
            self.tally.violations.extend(new);
            return Err(refusal.into());
        }
        self.tally.violations.extend(new);
        let known = self.context.executions.len();
        (self.context, self.body) = (Arc::new(context), body);
        self.asked.forget();
        self.witness_from(known).await;
        Ok(())
    }

    /// Keeps what the application doesn't get, for its next request. `answer`: the text that it gets.
    pub(super) fn keep_rounds(&mut self, answer: impl FnOnce() -> Option<String>) {
        let Some(origin) = &self.rounds.begun else { return };
        let (kept, now_ms) = (&self.worker.app.kept, self.worker.app.now_ms());
        if let Some((keys, own)) = self.rounds.mixed.take() {
            kept.keep(keys, own, now_ms);
        } else if !self.rounds.before.is_empty()
            && let Some(answer) = answer()
        {
            let key = rounds::key_of_answer(&self.context.scope, &origin.came, &answer);
            let own = Kept { before: std::mem::take(&mut self.rounds.before), whole: self.rounds.last.take(), behind: Vec::new() };
            kept.keep([key], own, now_ms);
        }
    }

    /// The same for a stream, whose text was tapped.
    pub(super) fn keep_streamed_rounds(&mut self) {
        let text = self.rounds.tap.take().and_then(|tap| tap.text);
        self.keep_rounds(|| text);
    }

    /// Is an accepted answer nothing but calls that toolmark runs, and text beside them?
    pub(super) fn runs_all(&self, finals: &[Final]) -> bool {
        let [Final::Accept(calls)] = finals else { return false };
        self.rounds.begun() && !calls.is_empty() && calls.iter().all(|(call, _)| self.context.tools.runs(call.name()).is_some())
    }
}

fn begin_again(app: &App, origin: &Origin, context: &crate::exchange::context::Context, document: &Document) -> Result<Begun, Failure> {
    let head = Head::read(document)?;
    let own = basis(app, &origin.standard, origin.upstream, context.scope.clone(), context.tools.clone());
    Ok(request::begin(document, &head, Basis { id: context.id, beyond: origin.beyond.clone(), ..own })?)
}

/// The text of a whole answer.
pub fn text_of(body: &Bytes) -> Option<String> {
    let document = Document::parse(body.clone()).ok()?;
    let message = document.root().get("choices")?.items().next()?.get("message")?;
    Some(message.get("content").and_then(Value::text).unwrap_or_default().into_owned())
}

/// Reads the text off the events that leave.
struct Tap {
    parser: Parser,
    text: Option<String>,
}

impl Default for Tap {
    fn default() -> Self {
        Self { parser: Parser::default(), text: Some(String::new()) }
    }
}

impl Tap {
    fn take(&mut self, out: &[u8]) {
        let Self { parser, text } = self;
        let fed = parser.handle(Bytes::copy_from_slice(out), |event| {
            let document = event.data.and_then(|data| Document::parse(data).ok());
            let delta = document.as_ref().and_then(|own| own.root().get("choices")?.items().next()?.get("delta")?.get("content")?.text());
            if let (Some(text), Some(delta)) = (text.as_mut(), delta) {
                text.push_str(&delta);
            }
        });
        if fed.is_err() || self.text.as_ref().is_some_and(|text| text.len() > ANSWER_BYTES_MAX) {
            self.text = None;
        }
    }
}
