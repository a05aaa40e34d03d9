//! An upstream's response and its body: live, or played from a cassette; optionally recorded, or disturbed by an injected fault.

use std::{
    collections::VecDeque,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http::Response;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::Instant;

use crate::{
    cassette::{capture::BodyEnd, player::PlaybackSpeed, recorder::RecordingHandle},
    proxy::upstream::pool::LiveBody,
};

/// Maximum bytes (mostly whitespace) read to decide whether an answer is an event stream.
const HEAD_BYTES_MAX: usize = 1024;

/// Upstream response: head, and a body that may still be coming.
pub type Answer = Response<AnswerBody>;

/// Reason for which an answer's body ends too early.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// The connection broke.
    #[error(transparent)]
    Broken(#[from] hyper::Error),
    /// The body stopped coming, was recorded as cut off, or an injected fault cut it off.
    #[error("the answer was cut off: it stopped coming, or was recorded so")]
    Cut,
}

/// Body of an upstream's answer.
pub struct AnswerBody {
    source: BodySource,
    /// Bytes read ahead by [`Self::begins_with_events`]; they are returned first.
    head: Option<Box<Bytes>>,
    /// Recorder, and the number of the attempt.
    tape: Option<(RecordingHandle, usize)>,
    disturbance: Disturbance,
}

enum BodySource {
    Live(LiveBody),
    Played(PlayedBody),
}

/// Fault injected into a body.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Disturbance {
    /// No fault.
    #[default]
    None,
    /// The body breaks off after this many bytes, or at its end if it is shorter.
    Drop(usize),
    /// A pause before each piece.
    Slow(Duration),
}

/// Body played from a cassette: pieces, each with the time after the start at which it is due.
struct PlayedBody {
    pieces: VecDeque<(Duration, Bytes)>,
    begun: Option<Instant>,
    /// The body breaks off at its end.
    cut: bool,
}

impl From<LiveBody> for AnswerBody {
    fn from(live: LiveBody) -> Self {
        Self { source: BodySource::Live(live), head: None, tape: None, disturbance: Disturbance::None }
    }
}

impl AnswerBody {
    /// Body of these pieces, each with its due time in milliseconds since the start. `cut`: it breaks off at its end.
    pub fn played(pieces: Vec<(u64, Bytes)>, pace: PlaybackSpeed, cut: bool) -> Self {
        let due = |ms: u64| match pace {
            PlaybackSpeed::None => Duration::ZERO,
            PlaybackSpeed::Times(times) => Duration::from_millis(ms).div_f64(times),
        };
        let pieces = pieces.into_iter().map(|(ms, piece)| (due(ms), piece)).collect();
        Self { source: BodySource::Played(PlayedBody { pieces, begun: None, cut }), head: None, tape: None, disturbance: Disturbance::None }
    }

    /// This body, with a recorder.
    #[must_use]
    pub fn taped(self, tape: Option<(RecordingHandle, usize)>) -> Self {
        Self { tape, ..self }
    }

    /// This body, with an injected fault.
    #[must_use]
    pub fn disturbed(self, disturbance: Disturbance) -> Self {
        Self { disturbance, ..self }
    }

    /// The next bytes; `None` at the end.
    ///
    /// # Errors
    /// [`BodyError`] if the body broke off.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, BodyError> {
        if let Some(head) = self.head.take() {
            return Ok(Some(*head));
        }
        let undisturbed = self.tape.is_none() && self.disturbance == Disturbance::None;
        if undisturbed && let BodySource::Live(live) = &mut self.source {
            return Ok(live.chunk().await?);
        }
        if let Disturbance::Slow(pause) = self.disturbance {
            tokio::time::sleep(pause).await;
        }
        let next = match &mut self.source {
            BodySource::Live(live) => live.chunk().await.map_err(BodyError::from),
            BodySource::Played(played) => played.chunk().await,
        };
        let next = self.dropped(next);
        self.note(&next);
        next
    }

    /// True if the body begins like an event stream rather than like JSON. Bytes read for that are returned again.
    ///
    /// # Errors
    /// [`BodyError`] if the body broke off.
    pub async fn begins_with_events(&mut self) -> Result<bool, BodyError> {
        const LINES: [&[u8]; 5] = [b"data:", b"event:", b"id:", b"retry:", b":"];
        let mut head = BytesMut::new();
        let begun = loop {
            let text = head.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&head).trim_ascii_start();
            let open =
                LINES.iter().any(|line| line.len() > text.len() && line.starts_with(text)) || "\u{feff}".as_bytes().starts_with(&head);
            if !open || head.len() > HEAD_BYTES_MAX {
                break LINES.iter().any(|line| text.starts_with(line));
            }
            match self.chunk().await? {
                Some(chunk) => head.extend_from_slice(&chunk),
                None => break false,
            }
        };
        self.head = Some(head.freeze()).filter(|head| !head.is_empty()).map(Box::new);
        Ok(begun)
    }

    fn dropped(&mut self, next: Result<Option<Bytes>, BodyError>) -> Result<Option<Bytes>, BodyError> {
        let Disturbance::Drop(left) = &mut self.disturbance else { return next };
        match next {
            Ok(Some(_)) if *left == 0 => Err(BodyError::Cut),
            Ok(Some(bytes)) => {
                let kept = bytes.slice(..bytes.len().min(*left));
                *left -= kept.len();
                Ok(Some(kept))
            }
            Ok(None) => Err(BodyError::Cut),
            Err(error) => Err(error),
        }
    }

    fn note(&self, next: &Result<Option<Bytes>, BodyError>) {
        let Some((tape, attempt)) = &self.tape else { return };
        match next {
            Ok(Some(bytes)) => tape.piece(*attempt, bytes.clone()),
            Ok(None) => tape.end(*attempt, BodyEnd::Complete),
            Err(_) => tape.end(*attempt, BodyEnd::Truncated),
        }
    }
}

impl PlayedBody {
    async fn chunk(&mut self) -> Result<Option<Bytes>, BodyError> {
        let Some((due, _)) = self.pieces.front() else { return if self.cut { Err(BodyError::Cut) } else { Ok(None) } };
        if !due.is_zero() {
            let begun = *self.begun.get_or_insert_with(Instant::now);
            tokio::time::sleep_until(begun + *due).await;
        }
        Ok(self.pieces.pop_front().map(|(_, piece)| piece))
    }
}

/// Body of a response that passes through untouched. A played body comes without its pauses.
impl HttpBody for AnswerBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Some(head) = self.head.take() {
            return Poll::Ready(Some(Ok(Frame::data(*head))));
        }
        match &mut self.source {
            BodySource::Live(live) => Pin::new(live).poll_frame(cx).map_err(BodyError::from),
            BodySource::Played(played) => Poll::Ready(match played.pieces.pop_front() {
                Some((_, piece)) => Some(Ok(Frame::data(piece))),
                None if played.cut => Some(Err(BodyError::Cut)),
                None => None,
            }),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            _ if self.head.is_some() => false,
            BodySource::Live(live) => live.is_end_stream(),
            BodySource::Played(played) => played.pieces.is_empty() && !played.cut,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            BodySource::Live(live) if self.head.is_none() => live.size_hint(),
            BodySource::Live(_) | BodySource::Played(_) => SizeHint::default(),
        }
    }
}
