//! What one replica learns and tells the others at once: an upstream that fails or asks for a pause, what a model can do, a reset of loops.
//!
//! A message is sealed by the deployment's key, so that the store can neither read nor forge it; it names its sender and has a number, and is
//! taken once. It is bounded and parsed strictly, and what it says is checked again by who acts on it (`proxy/upstream/shared.rs`).
//! Beats, which each replica also hears from itself, show that the channel works. What is told while it doesn't is lost: each replica then
//! finds out for itself.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use super::{CounterError, CounterKey, SharedCounters, service::CounterStatus};
use crate::{
    ledger::sealed_kv::cipher::{KvCipher, SealedRow},
    settings::CountersUrl,
    upstreams::{capability_probe::ToolCalling, health::FailureKind},
};

/// Bytes of a message, before it is written as text.
pub const MESSAGE_BYTES_MAX: usize = 4096;
/// Bytes of a name in a message, and of a reason.
const NAME_BYTES_MAX: usize = 512;
/// Senders whose last number is known.
const SENDERS_MAX: usize = 1024;
/// Interval of beats.
const BEAT: Duration = Duration::from_secs(2);
/// Time without an own beat after which the channel is opened again.
const SILENCE: Duration = Duration::from_secs(6);
/// Pause before a channel that is away is tried again.
const RETRY: Duration = Duration::from_millis(500);

type Sender = [u8; 8];

/// Something that a replica found, and that concerns all.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "what", rename_all = "snake_case", deny_unknown_fields)]
pub enum Finding {
    /// An upstream fails: its breaker opened for so long.
    BreakerOpened {
        /// Name of the upstream.
        upstream: Box<str>,
        /// Time for which it is left alone, in milliseconds.
        pause_ms: u64,
        /// How it fails.
        failure: FailureKind,
    },
    /// An upstream asked for a pause under toolmark's own key.
    Paused {
        /// Name of the upstream.
        upstream: Box<str>,
        /// The pause in milliseconds.
        pause_ms: u64,
    },
    /// It is known whether a model calls functions.
    Calls {
        /// Name of the upstream.
        upstream: Box<str>,
        /// The model.
        model: Box<str>,
        /// The finding.
        calls: ToolCalling,
        /// Reason if it doesn't.
        reason: Box<str>,
    },
    /// A model refuses a parameter.
    Refuses {
        /// Name of the upstream.
        upstream: Box<str>,
        /// The model.
        model: Box<str>,
        /// Path of the parameter.
        parameter: Box<str>,
    },
    /// An administrator reset loop control.
    LoopsReset {
        /// For this tool, or all.
        tool: Option<Box<str>>,
        /// In this session, or all.
        session: Option<Box<str>>,
    },
    /// The sender lives.
    Beat {},
}

impl Finding {
    /// True if no name is longer than a replica would send.
    fn is_bounded(&self) -> bool {
        let names: [Option<&str>; 3] = match self {
            Self::BreakerOpened { upstream, .. } | Self::Paused { upstream, .. } => [Some(upstream), None, None],
            Self::Calls { upstream, model, reason, .. } => [Some(upstream), Some(model), Some(reason)],
            Self::Refuses { upstream, model, parameter } => [Some(upstream), Some(model), Some(parameter)],
            Self::LoopsReset { tool, session } => [tool.as_deref(), session.as_deref(), None],
            Self::Beat {} => [None; 3],
        };
        names.into_iter().flatten().all(|name| name.len() <= NAME_BYTES_MAX)
    }
}

/// A text as far as it fits into a message.
pub fn brief(text: &str) -> Box<str> {
    text.get(..text.floor_char_boundary(NAME_BYTES_MAX)).unwrap_or_default().into()
}

/// Why a message isn't taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Refusal {
    /// Too short or too long.
    Size,
    /// Not sealed by this deployment.
    Seal,
    /// Heard before.
    Repeated,
    /// No finding.
    Content,
}

/// The end that seals messages, and opens them.
struct Envelope {
    cipher: KvCipher,
    counters: Arc<SharedCounters>,
}

impl Envelope {
    fn key(&self, sender: &Sender) -> CounterKey {
        self.counters.key("news", &[sender])
    }

    fn seal(&self, sender: &Sender, number: u64, finding: &Finding) -> Option<Vec<u8>> {
        let sealed = self.cipher.seal(&self.key(sender), number, &serde_json::to_vec(finding).ok()?)?;
        let message = [&sender[..], &number.to_le_bytes(), &sealed.body].concat();
        (message.len() <= MESSAGE_BYTES_MAX).then_some(message)
    }

    /// Opens a message whose sender has last sent the number in `heard`.
    fn open(&self, message: &[u8], heard: &mut HashMap<Sender, u64>) -> Result<(Sender, Finding), Refusal> {
        if message.len() > MESSAGE_BYTES_MAX {
            return Err(Refusal::Size);
        }
        let (sender, rest) = message.split_first_chunk::<8>().ok_or(Refusal::Size)?;
        let (number, body) = rest.split_first_chunk::<8>().ok_or(Refusal::Size)?;
        let (key, number) = (self.key(sender), u64::from_le_bytes(*number));
        let id = self.cipher.ids(&key).next().ok_or(Refusal::Seal)?;
        let row = SealedRow { id, at_ms: number, body: body.to_vec() };
        let plain = self.cipher.open(&key, &row).ok_or(Refusal::Seal)?;
        // Only what is genuine is remembered.
        if heard.get(sender).is_some_and(|last| *last >= number) {
            return Err(Refusal::Repeated);
        }
        if heard.len() >= SENDERS_MAX && !heard.contains_key(sender) {
            heard.clear();
        }
        heard.insert(*sender, number);
        let finding: Finding = serde_json::from_slice(&plain).map_err(|_| Refusal::Content)?;
        if finding.is_bounded() { Ok((*sender, finding)) } else { Err(Refusal::Content) }
    }
}

/// Longest time for which `ear` of a [`Listen`] isn't called.
#[cfg(any(feature = "postgres", feature = "redis"))]
pub(super) const CALLED_EVERY: Duration = Duration::from_millis(500);

/// Listens on a channel until `ear` returns false. `ear` gets each message. It gets `None` once the channel is open, and then
/// at least every 500 ms.
pub type Listen = Box<dyn FnMut(&str, &mut dyn FnMut(Option<&[u8]>) -> bool) -> Result<(), CounterError> + Send>;

/// The channel between replicas.
pub struct News {
    envelope: Arc<Envelope>,
    sender: Sender,
    number: AtomicU64,
    ended: AtomicBool,
    status: CounterStatus,
    beats: AtomicU64,
    heard: AtomicU64,
    refused: AtomicU64,
    refusal_said: Mutex<Option<Instant>>,
}

impl News {
    /// Starts listening. `key`: that of the marks. `act`: gets what other replicas found, on the channel's own thread. Ends with
    /// [`Self::end`].
    ///
    /// # Errors
    /// [`std::io::Error`] if there is no thread, or no randomness.
    pub fn start(
        counters: &Arc<SharedCounters>,
        url: &CountersUrl,
        key: [u8; 32],
        act: impl Fn(Finding) + Send + 'static,
    ) -> std::io::Result<Option<Arc<Self>>> {
        let Some(mut listen) = listener(url) else { return Ok(None) };
        let mut sender = [0; 8];
        getrandom::fill(&mut sender).map_err(std::io::Error::other)?;
        let envelope = Arc::new(Envelope { cipher: KvCipher::new(&[key]), counters: counters.clone() });
        let own = Arc::new(Self {
            envelope,
            sender,
            number: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            status: CounterStatus::new("the channel between replicas", "each finds out for itself", "they tell each other again"),
            beats: AtomicU64::new(0),
            heard: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            refusal_said: Mutex::default(),
        });
        let (news, channel) = (own.clone(), counters.channel().to_owned());
        std::thread::Builder::new().name("news".into()).spawn(move || {
            let mut heard = HashMap::new();
            while !news.ended.load(Ordering::Relaxed) {
                if let Err(error) = news.listen(&mut listen, &channel, &mut heard, &act) {
                    news.status.leave(&error.to_string());
                    std::thread::sleep(RETRY);
                }
            }
        })?;
        Ok(Some(own))
    }

    /// Tells the others, without waiting.
    pub fn tell(&self, finding: &Finding) {
        let number = self.number.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(message) = self.envelope.seal(&self.sender, number, finding) {
            self.envelope.counters.publish(message);
        }
    }

    /// Ends listening, within a second.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    /// Whether the channel works.
    pub fn status(&self) -> &CounterStatus {
        &self.status
    }

    /// Name of the channel.
    pub fn channel(&self) -> &str {
        self.envelope.counters.channel()
    }

    /// Numbers of messages that were heard from this process, from others, and of those that weren't taken.
    pub fn figures(&self) -> [u64; 3] {
        [&self.beats, &self.heard, &self.refused].map(|count| count.load(Ordering::Relaxed))
    }

    fn listen(
        &self,
        listen: &mut Listen,
        channel: &str,
        heard: &mut HashMap<Sender, u64>,
        act: &impl Fn(Finding),
    ) -> Result<(), CounterError> {
        let (mut beaten, mut own) = (None::<Instant>, Instant::now());
        let mut is_silent = false;
        listen(channel, &mut |message| {
            match message.map(|message| self.envelope.open(message, heard)) {
                Some(Ok((sender, _))) if sender == self.sender => {
                    own = Instant::now();
                    self.beats.fetch_add(1, Ordering::Relaxed);
                    self.status.come_back();
                }
                Some(Ok((_, Finding::Beat {}))) | None => {}
                Some(Ok((_, finding))) => {
                    self.heard.fetch_add(1, Ordering::Relaxed);
                    act(finding);
                }
                Some(Err(refusal)) => self.refuse(refusal),
            }
            if beaten.is_none_or(|beaten| beaten.elapsed() >= BEAT) {
                beaten = Some(Instant::now());
                self.tell(&Finding::Beat {});
            }
            is_silent = own.elapsed() >= SILENCE;
            !is_silent && !self.ended.load(Ordering::Relaxed)
        })?;
        if is_silent { Err(CounterError::Unavailable("nothing is heard on the channel".into())) } else { Ok(()) }
    }

    /// Counts a message that isn't taken, and says it once a minute at most.
    fn refuse(&self, refusal: Refusal) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        let mut said = self.refusal_said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.is_none_or(|said| said.elapsed() >= Duration::from_secs(60)) {
            *said = Some(Instant::now());
            let why = match refusal {
                Refusal::Size => "its size is wrong",
                Refusal::Seal => "it isn't from this deployment: do all replicas have the same TOOLMARK_KEY?",
                Refusal::Repeated => "it was heard before",
                Refusal::Content => "it says nothing that this version knows",
            };
            tracing::warn!(why, "a message on the replicas' channel isn't taken: {why}; this is said once a minute at most");
        }
    }
}

/// How the channel is listened to; `None` where there are no replicas.
fn listener(url: &CountersUrl) -> Option<Listen> {
    match url {
        CountersUrl::Memory => None,
        #[cfg(feature = "postgres")]
        CountersUrl::Postgres(url) => {
            let url = url.clone();
            Some(Box::new(move |channel, ear| super::postgres::listen(url.expose(), channel, ear)))
        }
        #[cfg(feature = "redis")]
        CountersUrl::Redis(url) => {
            let url = url.clone();
            Some(Box::new(move |channel, ear| super::redis::listen(url.expose(), channel, ear)))
        }
        // INVARIANT: settings refuse what this build lacks.
        #[cfg(not(feature = "postgres"))]
        CountersUrl::Postgres(_) => None,
        #[cfg(not(feature = "redis"))]
        CountersUrl::Redis(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn envelope(key: u8) -> Envelope {
        let away = || Err(CounterError::Unavailable("no".into()));
        let counters = SharedCounters::start(Box::new(away), &[key; 32], Duration::from_secs(1)).unwrap();
        Envelope { cipher: KvCipher::new(&[[key; 32]]), counters: Arc::new(counters) }
    }

    fn opened() -> Finding {
        Finding::BreakerOpened { upstream: "u".into(), pause_ms: 2_000, failure: FailureKind::Silent }
    }

    #[test]
    fn a_message_is_taken_once_and_from_this_deployment_alone() {
        let (ours, theirs) = (envelope(1), envelope(2));
        let (one, other) = ([1; 8], [2; 8]);
        let mut heard = HashMap::new();
        let mut open = |message: &[u8]| ours.open(message, &mut heard);
        let first = ours.seal(&one, 1, &opened()).unwrap();
        let calls = Finding::Calls { upstream: "u".into(), model: "m".into(), calls: ToolCalling::TextLeak, reason: "why".into() };
        let second = ours.seal(&one, 5, &calls).unwrap();
        assert_eq!(open(&first), Ok((one, opened())));
        assert_eq!(open(&first), Err(Refusal::Repeated));
        assert_eq!(open(&second), Ok((one, calls)));
        assert_eq!(open(&first), Err(Refusal::Repeated), "an earlier one, too");
        assert_eq!(open(&ours.seal(&other, 1, &Finding::Beat {}).unwrap()), Ok((other, Finding::Beat {})));
        assert_eq!(open(&theirs.seal(&one, 9, &opened()).unwrap()), Err(Refusal::Seal));
        // Neither its sender nor its number, nor anything else in it can be changed.
        let good = ours.seal(&one, 7, &opened()).unwrap();
        for at in 0..good.len() {
            let mut changed = good.clone();
            changed[at] ^= 1;
            assert_eq!(open(&changed), Err(Refusal::Seal), "{at}");
        }
        for bytes in [0, 7, 15] {
            assert_eq!(open(&good[..bytes]), Err(Refusal::Size));
        }
        assert_eq!(open(&good[..16]), Err(Refusal::Seal));
        assert_eq!(open(&vec![0; MESSAGE_BYTES_MAX + 1]), Err(Refusal::Size));
        assert!(!good.windows(7).any(|part| part == b"breaker"), "it isn't sent in the clear");
    }

    #[test]
    fn what_a_message_says_is_read_strictly() {
        let own = envelope(1);
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        for (number, plain) in [
            r#"{"what":"beat","more":1}"#,
            r#"{"what":"shutdown"}"#,
            r#"{"what":"paused","upstream":"u","pause_ms":-1}"#,
            r#"{"what":"paused","upstream":"u","pause_ms":1,"extra":true}"#,
            r#"{"what":"breaker_opened","upstream":"u","pause_ms":1,"failure":"boredom"}"#,
            r#"{"what":"calls","upstream":"u","model":"m","calls":"perhaps","reason":""}"#,
            &format!(r#"{{"what":"paused","upstream":"{long}","pause_ms":1}}"#),
            "",
            "[",
        ]
        .into_iter()
        .enumerate()
        {
            let number = number as u64 + 1;
            let body = own.cipher.seal(&own.key(&[1; 8]), number, plain.as_bytes()).unwrap().body;
            let message = [&[1; 8][..], &number.to_le_bytes(), &body].concat();
            assert_eq!(own.open(&message, &mut HashMap::new()), Err(Refusal::Content), "{plain}");
        }
        assert_eq!(own.seal(&[1; 8], 1, &Finding::LoopsReset { tool: Some("x".repeat(9_000).into()), session: None }), None);
        assert_eq!(brief(&"é".repeat(400)).len(), NAME_BYTES_MAX);
    }

    #[test]
    fn memory_of_senders_is_bounded() {
        let own = envelope(1);
        let mut heard = HashMap::new();
        for number in 0..2 * SENDERS_MAX as u64 + 1 {
            let message = own.seal(&number.to_le_bytes(), 1, &Finding::Beat {}).unwrap();
            assert!(own.open(&message, &mut heard).is_ok() && heard.len() <= SENDERS_MAX);
        }
    }
}
