//! Judging outside the proxy: requests and answers go through the same core as on the wire. Used by `toolmark judge` and
//! `toolmark replay`.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use crate::{
    chat::adapter::Chat,
    exchange::{
        active_policy::Standard,
        adapter::{Adapter, AnswerStream, RequestHead as _, WholeAnswer as _, WholeConversation},
        context::{Basis, Begun, Context, JudgedChoice, Upstream},
        conversation::request_prefix::PrefixUse,
        error::{Fault, Refusal},
        loop_guard::AttemptInputs,
        tool_set::ToolSet,
        turn::Said,
    },
    judge::loops::ExternalCounts,
    marks::{KeyRing, Scope},
    messages::adapter::Messages,
    openai::Api,
    responses::{self, adapter::Responses, request::Recalled},
    tools::registry::SchemaCache,
    translate::{
        self,
        answer::{Origin, stream::StreamTranslator},
        sse_feed::{Reader, Unread},
    },
    wire::{
        json::Document,
        sse::{EventTooLong, is_event_stream},
    },
};

/// Bytes buffered of one call or block; the default of `[limits] held_bytes`.
pub const HELD_BYTES_MAX: usize = 1 << 20;

/// Offline judge: a compiled policy, keys and schemas.
#[derive(Clone)]
pub struct Bench {
    /// The compiled policy.
    pub standard: Arc<Standard>,
    /// The keys of marks.
    pub ring: Arc<KeyRing>,
    /// Compiled schemas.
    pub schemas: Arc<SchemaCache>,
}

/// Identity, time and upstream of an exchange to be judged.
#[derive(Clone, Debug)]
pub struct When {
    /// The exchange's id.
    pub id: uuid::Uuid,
    /// Scope of its marks.
    pub scope: Scope,
    /// Time of the exchange, in Unix milliseconds.
    pub now_ms: u64,
    /// Requirements of its upstream, such as a default `tool_choice`.
    pub upstream: Upstream,
}

impl Bench {
    /// Prepares an exchange. `recalled`: stored state of its conversation.
    ///
    /// # Errors
    /// [`Refusal`] if the proxy would reject the request with HTTP 400.
    pub fn begin(&self, api: Api, document: &Document, when: &When, recalled: &Recalled) -> Result<Begun, Refusal> {
        let standard = &*self.standard;
        let (policy, checks) = (&standard.rules.policy, &standard.rules.checks);
        let basis = |tools| Basis {
            id: when.id,
            rules: &standard.rules,
            call_rules: &standard.calls,
            natures: &standard.natures,
            text: &standard.text,
            ring: &self.ring,
            scope: when.scope.clone(),
            tools,
            schemas: &self.schemas,
            now_ms: when.now_ms,
            upstream: when.upstream,
            protocol: standard.protocol.as_deref(),
            held_bytes_max: HELD_BYTES_MAX,
            beyond: ExternalCounts::default(),
            prefix: PrefixUse::Off,
        };
        match api {
            Api::Chat => self.begin_whole::<Chat>(document, recalled, basis),
            Api::Messages => self.begin_whole::<Messages>(document, recalled, basis),
            Api::Responses => {
                let head = responses::request::Head::read(document)?;
                let further = recalled.tools_with(head.further_tools());
                let tools = standard.tools.get(head.brought(&further), policy, checks, &self.schemas)?;
                responses::request::begin(document, &head, recalled, further, basis(tools))
            }
        }
    }
}

impl Bench {
    fn begin_whole<'b, A: WholeConversation>(
        &self,
        document: &Document,
        recalled: &Recalled,
        basis: impl FnOnce(Arc<ToolSet>) -> Basis<'b>,
    ) -> Result<Begun, Refusal> {
        let (standard, head) = (&*self.standard, A::Head::read(document)?);
        let further = recalled.tools_with(head.further_tools());
        let tools = standard.tools.get(head.brought(&further), &standard.rules.policy, &standard.rules.checks, &self.schemas)?;
        A::begin(document, &head, recalled, basis(tools))
    }
}

/// An answer, read and judged.
pub struct Heard {
    /// The choices: the model's turn and its violations.
    pub choices: Vec<(Said, JudgedChoice)>,
    /// The answer is a stream, and some of its text would have been sent before judging was complete.
    pub released: bool,
    /// In observe mode: the answer could not be judged.
    pub unjudged: bool,
}

/// Error of reading an answer that can't be judged.
#[derive(Debug, thiserror::Error)]
pub enum Unheard {
    /// The answer's content can't be interpreted.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// An event of the stream is too long.
    #[error(transparent)]
    TooLong(#[from] EventTooLong),
}

/// Reads and judges an answer, whole or streamed. `origin`: set for an answer in another API than that of the request.
///
/// # Errors
/// [`Unheard`].
pub fn hear(api: Api, context: &Arc<Context>, answer: Bytes, origin: Option<Origin>, inputs: AttemptInputs) -> Result<Heard, Unheard> {
    match api {
        Api::Chat => hear_of::<Chat>(context, answer, origin, inputs),
        Api::Responses => hear_of::<Responses>(context, answer, origin, inputs),
        Api::Messages => hear_of::<Messages>(context, answer, origin, inputs),
    }
}

fn hear_of<A: Adapter>(context: &Arc<Context>, answer: Bytes, origin: Option<Origin>, inputs: AttemptInputs) -> Result<Heard, Unheard> {
    if is_event_stream(&answer) {
        return hear_stream::<A::Stream>(context, answer, origin, inputs);
    }
    let (answer, stray) = match origin {
        Some(origin) => translate::answer::watched(&answer, &origin, context)?,
        None => (answer, false),
    };
    let mut answer = A::Answer::read(answer, context)?;
    if stray {
        answer.note_stray();
    }
    let choices = answer.judge(context, inputs).into_iter().enumerate().map(|(at, judged)| (answer.said(at), judged));
    Ok(Heard { choices: choices.collect(), released: false, unjudged: false })
}

fn hear_stream<S: AnswerStream>(
    context: &Arc<Context>,
    answer: Bytes,
    origin: Option<Origin>,
    inputs: AttemptInputs,
) -> Result<Heard, Unheard> {
    let (mut judge, mut out) = (S::new(context.clone(), None), BytesMut::new());
    let mut reader = Reader::new(origin.map(|origin| StreamTranslator::new(origin, context.held_bytes_max).watched(context.clone())));
    reader.handle(answer, &mut judge, &mut out).map_err(|unread| match unread {
        Unread::Fault(fault) => Unheard::Fault(fault),
        Unread::TooLong(error) => Unheard::TooLong(error),
    })?;
    reader.finish(&mut judge, &mut out)?;
    let judged = judge.conclude(inputs)?;
    let (released, unjudged) = (judge.released(), judge.unjudged());
    let choices = judged.into_iter().enumerate().map(|(at, judged)| (judge.said(at), judged));
    Ok(Heard { choices: choices.collect(), released, unjudged })
}
