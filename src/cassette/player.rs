//! Plays a cassette in place of a model: finds the recorded exchange that answers a request.
//!
//! Requests are matched by method, path and canonical body ([`crate::matching`]). If several recorded ones match, they
//! answer in turn, in the order in which they began, and then from the start again, so that a test can be run repeatedly. Times and
//! counters of marks come from the recording, so that every run gives the same bytes. Nothing waits here: each piece carries the time at which it is due.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use uuid::Uuid;

use super::{body::RecordedBody, redact::Redactor};
use crate::{
    diff,
    format::{RecordedAttempt, RecordedExchange, RecordedResponse, RecordedToolRun},
    issued_marks,
    matching::{MatchKey, RequestMatcher, TimePolicy},
    reader::{self, ReadError},
};
use toolmark_core::marks::{MarkTime, RecordedMarks};

/// Recorded requests that are compared to find the nearest one.
const COMPARED_MAX: usize = 2000;
/// Time of exchanges without one: 2026-01-01, each a second after the one before.
const UNTIMED_MS: u64 = 1_767_225_600_000;

/// Method of matching requests.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MatchMode {
    /// By content; a request that wasn't recorded is an error.
    #[default]
    Strict,
    /// By order, among the exchanges with the same method and path.
    InOrder,
    /// By content; a request that wasn't recorded is sent upstream and recorded.
    Passthrough,
}

/// Playback speed of streams.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum PlaybackSpeed {
    /// No delays.
    #[default]
    None,
    /// The recorded timing, faster by this factor.
    Times(f64),
}

/// Settings of playback.
#[derive(Clone, Debug, Default)]
pub struct PlaybackConfig {
    /// Method of matching requests.
    pub mode: MatchMode,
    /// Playback speed of streams.
    pub pace: PlaybackSpeed,
    /// Normalisation of requests before they are compared.
    pub canonical: RequestMatcher,
    /// Redaction rules of the recording, applied to requests before they are compared.
    pub redactor: Redactor,
}

/// A loaded cassette that answers requests.
#[derive(Debug)]
pub struct CassettePlayer {
    path: PathBuf,
    playing: PlaybackConfig,
    takes: Vec<Arc<RecordedMatch>>,
    exact: HashMap<MatchKey, Vec<usize>>,
    loose: HashMap<MatchKey, Vec<usize>>,
    /// Number of requests so far, by key.
    turns: Mutex<HashMap<MatchKey, usize>>,
    next: AtomicUsize,
    /// Notices about lines that a crash cut off.
    pub notices: Vec<String>,
}

/// A recorded exchange, ready for playback.
#[derive(Debug)]
pub struct RecordedMatch {
    /// The exchange's id.
    pub id: Uuid,
    /// Start of the exchange, in Unix milliseconds.
    pub at_ms: u64,
    /// Mark times of its calls.
    pub moments: Vec<MarkTime>,
    exchange: RecordedExchange,
}

/// No recorded exchange matches; the message names the nearest one.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CassetteMiss(pub String);

impl CassettePlayer {
    /// Reads a cassette and the marks in it.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn open(path: &Path, playing: PlaybackConfig) -> Result<(Self, RecordedMarks), ReadError> {
        // In passthrough mode a missing cassette is an empty one.
        let missing = playing.mode == MatchMode::Passthrough && !path.exists();
        let (exchanges, notices) = if missing { (Vec::new(), Vec::new()) } else { reader::all(path)? };
        let marks = issued_marks::of(exchanges.iter());
        let (mut exact, mut loose): (HashMap<_, Vec<usize>>, HashMap<_, Vec<usize>>) = (HashMap::new(), HashMap::new());
        let takes = exchanges.into_iter().enumerate().map(|(place, exchange)| Arc::new(RecordedMatch::new(exchange, place)));
        let mut takes: Vec<Arc<RecordedMatch>> = takes.collect();
        // An exchange is written when all of it has ended, which may be after the next one began.
        takes.sort_by_key(|take| take.began());
        for (place, take) in takes.iter().enumerate() {
            let request = &take.exchange.downstream.request;
            let body = request.body.as_ref().and_then(RecordedBody::text).unwrap_or_default();
            let key = |times| playing.canonical.key(&request.method, take.exchange.path(), &body, times);
            exact.entry(key(TimePolicy::Count)).or_default().push(place);
            loose.entry(key(TimePolicy::Ignore)).or_default().push(place);
        }
        let player =
            Self { path: path.to_owned(), playing, takes, exact, loose, turns: Mutex::default(), next: AtomicUsize::new(0), notices };
        Ok((player, marks))
    }

    /// The settings of playback.
    pub fn playing(&self) -> &PlaybackConfig {
        &self.playing
    }

    /// Number of exchanges.
    pub fn len(&self) -> usize {
        self.takes.len()
    }

    /// True if nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.takes.is_empty()
    }

    /// The recorded exchange that answers a request. `path`: the path below the API version, as `/chat/completions`.
    ///
    /// # Errors
    /// [`CassetteMiss`], with the nearest recorded request and its differences.
    pub fn find(&self, method: &str, path: &str, body: &[u8]) -> Result<Arc<RecordedMatch>, CassetteMiss> {
        if self.playing.mode == MatchMode::InOrder {
            return self.in_order(method, path);
        }
        let text = String::from_utf8_lossy(body);
        let text = self.playing.redactor.body_text(&text);
        for (places, times) in [(&self.exact, TimePolicy::Count), (&self.loose, TimePolicy::Ignore)] {
            let key = self.playing.canonical.key(method, path, &text, times);
            if let Some(places) = places.get(&key) {
                let turn = self.turn(key);
                let take = places.get(turn % places.len().max(1)).and_then(|place| self.takes.get(*place));
                return take.cloned().ok_or_else(|| CassetteMiss(String::new()));
            }
        }
        Err(CassetteMiss(self.nearest(method, path, &text)))
    }

    fn turn(&self, key: MatchKey) -> usize {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = turns.entry(key).or_default();
        let now = *turn;
        *turn += 1;
        now
    }

    /// The next recorded exchange with this method and path.
    fn in_order(&self, method: &str, path: &str) -> Result<Arc<RecordedMatch>, CassetteMiss> {
        for _ in 0..self.takes.len() {
            let place = self.next.fetch_add(1, Ordering::Relaxed);
            let take = self.takes.get(place % self.takes.len());
            let fits = |take: &&Arc<RecordedMatch>| take.exchange.path() == path && take.exchange.downstream.request.method == method;
            if let Some(take) = take.filter(fits) {
                return Ok(take.clone());
            }
        }
        Err(CassetteMiss(format!("no exchange of {method} {path} is recorded in {}", self.path.display())))
    }

    fn nearest(&self, method: &str, path: &str, body: &str) -> String {
        let alike = |take: &&Arc<RecordedMatch>| take.exchange.path() == path && take.exchange.downstream.request.method == method;
        let candidates: Vec<&Arc<RecordedMatch>> = self.takes.iter().filter(alike).collect();
        let cassette = self.path.display();
        let miss = format!("no recorded exchange fits this request to {method} {path}");
        let json = |text: &str| {
            let value = self.playing.canonical.json(text, TimePolicy::Ignore);
            value.unwrap_or_else(|| serde_json::Value::from(text))
        };
        let requested = json(body);
        let differences = candidates.iter().take(COMPARED_MAX).map(|take| {
            let recorded = take.exchange.downstream.request.body.as_ref().and_then(RecordedBody::text).unwrap_or_default();
            (diff::differences(&json(&recorded), &requested), take.id)
        });
        match differences.min_by_key(|(differences, _)| diff::distance(differences)) {
            None => format!("{miss}: of such there is none in {cassette}, which has {} exchanges", self.takes.len()),
            Some((differences, id)) => {
                format!("{miss}: {cassette} has {} such. The nearest, {id}, differs:{}", candidates.len(), diff::shown(&differences))
            }
        }
    }
}

impl RecordedMatch {
    fn new(exchange: RecordedExchange, place: usize) -> Self {
        let at_ms = exchange.at_ms.unwrap_or(UNTIMED_MS + place as u64 * 1000);
        let id = exchange.id.parse().unwrap_or_else(|_| {
            let mut bytes = [0; 16];
            bytes.copy_from_slice(&blake3::hash(exchange.id.as_bytes()).as_bytes()[..16]);
            uuid::Builder::from_custom_bytes(bytes).into_uuid()
        });
        let moments = exchange.moments.iter().map(|(time_ms, counter)| MarkTime { time_ms: *time_ms, counter: *counter }).collect();
        Self { id, at_ms, moments, exchange }
    }

    /// What exchanges are ordered by: the start, and within a millisecond the id, where it counts up (UUIDv7, RFC 9562).
    fn began(&self) -> (u64, Option<Uuid>) {
        (self.at_ms, Some(self.id).filter(|id| id.get_version_num() == 7))
    }

    /// Mark time of accepted call number `place`, from 0: as recorded, else derived from the exchange's id and time.
    pub fn moment(&self, place: usize) -> MarkTime {
        let own = u16::from_le_bytes([self.id.as_bytes()[14], self.id.as_bytes()[15]]);
        let made = || MarkTime { time_ms: self.at_ms, counter: own.wrapping_add(place as u16) & 0x0fff };
        self.moments.get(place).copied().unwrap_or_else(made)
    }

    /// The recorded attempt with this number, from 0.
    pub fn attempt(&self, number: usize) -> Option<&RecordedAttempt> {
        self.exchange.attempts.get(number)
    }

    /// The recorded call with this mark that toolmark executed.
    pub fn ran(&self, mark: &str) -> Option<&RecordedToolRun> {
        self.exchange.mcp.as_ref()?.ran.iter().find(|ran| ran.call == mark)
    }

    /// Number of attempts.
    pub fn attempts(&self) -> usize {
        self.exchange.attempts.len()
    }

    /// The response that the application got if recorded, else the response of the last attempt.
    pub fn response(&self) -> Option<&RecordedResponse> {
        let upstream = || self.exchange.attempts.last().and_then(|attempt| attempt.response.as_ref());
        self.exchange.downstream.response.as_ref().or_else(upstream)
    }
}

/// The pieces of a response's body, each with its time in milliseconds after the head.
pub fn pieces(response: &RecordedResponse) -> Vec<(u64, Bytes)> {
    match &response.body {
        None => Vec::new(),
        Some(RecordedBody::Events(events)) => events.iter().map(|(ms, text)| (*ms, Bytes::from(text.clone()))).collect(),
        Some(body) => vec![(0, body.bytes())],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(id: &str, body: &str) -> String {
        let body = serde_json::Value::from(body);
        format!(
            r#"{{"cassette":1,"id":"{id}","downstream":{{"request":{{"method":"POST","url":"/v1/chat/completions","body":{body}}}}},"attempts":[]}}"#
        )
    }

    fn player(bodies: &[&str], mode: MatchMode) -> CassettePlayer {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("c.jsonl");
        let lines: Vec<String> =
            bodies.iter().enumerate().map(|(at, body)| exchange(&format!("00000000-0000-8000-8000-00000000000{at}"), body)).collect();
        std::fs::write(&path, lines.join("\n")).unwrap();
        CassettePlayer::open(&path, PlaybackConfig { mode, ..PlaybackConfig::default() }).unwrap().0
    }

    fn found(player: &CassettePlayer, body: &str) -> Result<char, CassetteMiss> {
        player.find("POST", "/chat/completions", body.as_bytes()).map(|take| take.id.to_string().chars().last().unwrap())
    }

    #[test]
    fn by_what_it_says_and_in_turn() {
        let player = player(&[r#"{"a":1}"#, r#"{"a":2}"#, r#"{ "a": 1 }"#], MatchMode::Strict);
        let order: Vec<char> = [r#"{"a":1}"#, r#"{"a":2}"#, r#"{"a":1}"#, r#"{"a":2}"#, r#"{"a":1}"#]
            .iter()
            .map(|body| found(&player, body).unwrap())
            .collect();
        assert_eq!(order, ['0', '1', '2', '1', '0']);
        let CassetteMiss(why) = found(&player, r#"{"a":3}"#).unwrap_err();
        assert!(
            why.contains("c.jsonl has 3 such. The nearest, 00000000-") && why.ends_with("differs:\n  /a: recorded 1, requested 3"),
            "{why}"
        );
        let CassetteMiss(why) = player.find("GET", "/models", b"").unwrap_err();
        assert!(why.contains("of such there is none") && why.contains("3 exchanges"), "{why}");
    }

    #[test]
    fn those_that_fit_answer_in_the_order_in_which_they_began() {
        // By id and start; written in the order in which they ended.
        let began = [("01a22d30-4821-719b-b9b7-848aecc54573", 9), ("01a22d30-4817-72d4-809a-99e28ce946f2", 9), ("x", 8)];
        let lines = began.map(|(id, at_ms)| exchange(id, "{}").replace("\"id\"", &format!("\"at_ms\":{at_ms},\"id\"")));
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("c.jsonl");
        std::fs::write(&path, lines.join("\n")).unwrap();
        for mode in [MatchMode::Strict, MatchMode::InOrder] {
            let player = CassettePlayer::open(&path, PlaybackConfig { mode, ..PlaybackConfig::default() }).unwrap().0;
            let take = |_| player.find("POST", "/chat/completions", b"{}").unwrap();
            let order = [0, 1, 2].map(take).map(|take| take.exchange.id.chars().last());
            assert_eq!(order, [Some('x'), Some('2'), Some('3')], "{mode:?}");
        }
    }

    #[test]
    fn a_time_counts_only_where_it_tells_two_apart() {
        let player = player(&[r#"{"day":"2026-01-01"}"#, r#"{"day":"2026-01-02"}"#], MatchMode::Strict);
        assert_eq!(found(&player, r#"{"day":"2026-01-02"}"#), Ok('1'));
        assert_eq!(found(&player, r#"{"day":"2026-01-01"}"#), Ok('0'));
        assert!(found(&player, r#"{"day":"2030-05-05"}"#).is_ok());
    }

    #[test]
    fn in_order_whatever_it_says() {
        let player = player(&["a", "b"], MatchMode::InOrder);
        assert_eq!([found(&player, "x").unwrap(), found(&player, "y").unwrap(), found(&player, "z").unwrap()], ['0', '1', '0']);
        assert!(player.find("GET", "/models", b"").is_err());
    }

    #[test]
    fn secrets_that_were_taken_out_do_not_count() {
        let player = player(&[r#"{"password":"[redacted]","a":"[redacted]"}"#], MatchMode::Strict);
        assert_eq!(found(&player, r#"{"password":"hunter2","a":"sk-abcdefghijklmnop"}"#), Ok('0'));
    }

    #[test]
    fn moments_follow_from_the_recording() {
        let take =
            RecordedMatch::new(RecordedExchange { moments: vec![(5, 6)], ..RecordedExchange::parse(&exchange("x", "")).unwrap() }, 3);
        assert_eq!(take.moment(0), MarkTime { time_ms: 5, counter: 6 });
        assert_eq!(take.moment(1).time_ms, UNTIMED_MS + 3000);
        assert_ne!(take.moment(1), take.moment(2));
    }
}
