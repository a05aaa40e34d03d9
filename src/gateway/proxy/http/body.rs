//! Response bodies: complete, passed through, or written piece by piece by an exchange that is still running.
//!
//! A running exchange is a future that writes into an [`Outlet`]; the body polls it, so that there is no
//! task and no channel between upstream and downstream, what is ready leaves in one write, and a client
//! that goes away drops the future and with it the upstream request.

use std::{
    convert::Infallible,
    future::{Future, poll_fn},
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU8, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http_body::{Body as HttpBody, Frame, SizeHint};

use http::Response;
use tokio::time::Sleep;

use crate::{
    cassette::recorder::RecordingHandle,
    proxy::{
        helper_threads::Movable,
        server::{
            admission::{Held, MemoryPermit},
            error_key_removal::Unkeyed,
            stalls::{SentAnswer, StallWatch},
        },
        upstream::{pool::AnswerBody, response::BodyError},
    },
};

/// Maximum bytes written ahead of the client; beyond that a slow client holds up its upstream.
const AHEAD_BYTES_MAX: usize = 256 << 10;

/// Time for the last bytes of a stream that breaks off to be sent before its connection is cut: the server drops what it
/// hasn't written by then.
const LAST_BYTES: Duration = Duration::from_millis(50);

/// The stream ends normally.
const WHOLE: u8 = 0;
/// The stream is to break off after its last bytes.
const BREAKS: u8 = 1;
/// The time for the last bytes is over.
const BROKEN: u8 = 2;

/// Sink that a running exchange writes its response body to.
#[derive(Clone, Default)]
pub struct Outlet(Arc<SinkBuffer>);

#[derive(Default)]
struct SinkBuffer {
    bytes: Mutex<BytesMut>,
    ending: AtomicU8,
}

impl Outlet {
    /// Appends the content of `buffer` to the body, and empties it.
    pub fn write(&self, buffer: &mut BytesMut) {
        // Hardly ever contended: writer and reader are one task, whose writer may be aside.
        let mut pending = self.0.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        if pending.is_empty() {
            std::mem::swap(&mut *pending, buffer);
        } else {
            pending.extend_from_slice(buffer);
            buffer.clear();
        }
    }

    /// Waits until the client has received enough of what was written.
    pub async fn room(&self) {
        poll_fn(|_| {
            let full = self.0.bytes.lock().unwrap_or_else(PoisonError::into_inner).len() > AHEAD_BYTES_MAX;
            // The body polls again when it has handed on what is pending.
            if full { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
    }

    fn take(&self) -> Bytes {
        self.0.bytes.lock().unwrap_or_else(PoisonError::into_inner).split().freeze()
    }

    /// Breaks the transfer off after all that was written, so that no client takes it for complete.
    pub fn break_off(&self) {
        self.0.ending.store(BREAKS, Ordering::Relaxed);
    }

    /// Future to run after the exchange has ended: the time for the last bytes, if the stream is to break off.
    fn after(&self) -> Option<Movable<()>> {
        let breaks = self.0.ending.compare_exchange(BREAKS, BROKEN, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        breaks.then(|| Movable::new(tokio::time::sleep(LAST_BYTES)))
    }

    fn is_broken(&self) -> bool {
        self.0.ending.load(Ordering::Relaxed) != WHOLE
    }
}

/// Bytes of a complete body that are handed on at once: what is left stays with its memory permit until the client takes it.
const PART_BYTES: usize = 64 << 10;

/// A response body.
pub enum Body {
    /// Complete body.
    Whole(Bytes),
    /// Complete body of some length, counted until it is sent.
    Weighed(Box<(Bytes, MemoryPermit)>),
    /// Body of an upstream, passed through as it arrives.
    Pass(Box<PassedBody>),
    /// Body of an upstream, passed through, with toolmark's own key hidden in errors.
    PassUnkeyed(Box<(PassedBody, Unkeyed)>),
    /// Body written by a running exchange; `None` once that has ended.
    Running(Outlet, Option<Movable<()>>),
    /// Another body, recorded as it is sent.
    Recorded(Box<Body>, RecordingHandle),
    /// Another body, on a connection of HTTP/2.
    Watched(Box<(Body, SentAnswer)>),
}

/// Body of an upstream that is passed through, within a time limit for each part of it.
pub struct PassedBody {
    body: AnswerBody,
    _held: Held,
    idle_max: Duration,
    waits: Option<Pin<Box<Sleep>>>,
}

impl PassedBody {
    /// `held`: permits of the request, released at the body's end; `idle_max`: time without any byte after which it counts as cut off.
    pub fn new(body: AnswerBody, held: Held, idle_max: Duration) -> Self {
        Self { body, _held: held, idle_max, waits: None }
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if polled.is_ready() {
            self.waits = None;
            return polled;
        }
        let waits = self.waits.get_or_insert_with(|| Box::pin(tokio::time::sleep(self.idle_max)));
        waits.as_mut().poll(cx).map(|()| Some(Err(BodyError::Cut)))
    }
}

impl Body {
    /// Response whose body is recorded as it is sent.
    pub fn recorded(response: Response<Self>, tape: RecordingHandle) -> Response<Self> {
        tape.respond(response.status().as_u16(), response.headers());
        if response.body().is_end_stream() {
            tape.sent();
        }
        response.map(|body| Self::Recorded(Box::new(body), tape))
    }

    /// Complete body, which counts as memory in use until it is sent. `weight`: the permit of the answer that it is made of.
    pub fn weighed(bytes: Bytes, mut weight: MemoryPermit) -> Self {
        if bytes.len() <= PART_BYTES || weight.set(bytes.len() as u64).is_err() {
            // INVARIANT: it is no more than was read, or little more, so that the permit hardly grows.
            return Self::Whole(bytes);
        }
        Self::Weighed(Box::new((bytes, weight)))
    }

    /// Body on a connection of HTTP/2, whose client must take it.
    pub fn watched(body: Self, answers: &StallWatch) -> Self {
        if body.is_end_stream() { body } else { Self::Watched(Box::new((body, answers.begin()))) }
    }

    /// Body that `exchange` writes.
    pub fn running(outlet: Outlet, exchange: impl Future<Output = ()> + Send + 'static) -> Self {
        Self::Running(outlet, Some(Movable::new(exchange)))
    }
}

impl From<String> for Body {
    fn from(text: String) -> Self {
        Self::Whole(text.into())
    }
}

/// The upstream's body is truncated. The client sees a broken transfer, never a complete one.
#[derive(Debug, thiserror::Error)]
#[error("the upstream's answer broke off")]
pub struct TruncatedBody(#[source] BodyError);

impl From<Infallible> for TruncatedBody {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = TruncatedBody;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, TruncatedBody>>> {
        match self.get_mut() {
            Self::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Self::Weighed(own) if own.0.is_empty() => Poll::Ready(None),
            Self::Weighed(own) => {
                let part = own.0.len().min(PART_BYTES);
                Poll::Ready(Some(Ok(Frame::data(own.0.split_to(part)))))
            }
            Self::Watched(own) => {
                let (body, sent) = &mut **own;
                sent.ask();
                let polled = Pin::new(body).poll_frame(cx);
                if matches!(polled, Poll::Ready(Some(Ok(_)))) {
                    sent.hand_on();
                }
                polled
            }
            Self::Pass(body) => body.poll_frame(cx).map_err(TruncatedBody),
            Self::PassUnkeyed(passed) => {
                let (body, unkeyed) = &mut **passed;
                loop {
                    let data = match ready!(body.poll_frame(cx)) {
                        Some(Ok(frame)) => frame.into_data().map(|data| unkeyed.take(data)).unwrap_or_default(),
                        Some(Err(error)) => return Poll::Ready(Some(Err(TruncatedBody(error)))),
                        None if unkeyed.is_empty() => return Poll::Ready(None),
                        None => return Poll::Ready(Some(Ok(Frame::data(unkeyed.finish())))),
                    };
                    if !data.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::data(data))));
                    }
                }
            }
            Self::Running(outlet, running) => {
                while let Some(exchange) = running
                    && Pin::new(exchange).poll(cx).is_ready()
                {
                    *running = outlet.after();
                }
                let bytes = outlet.take();
                if !bytes.is_empty() {
                    return Poll::Ready(Some(Ok(Frame::data(bytes))));
                }
                match running {
                    Some(_) => Poll::Pending,
                    None if outlet.is_broken() => Poll::Ready(Some(Err(TruncatedBody(BodyError::Cut)))),
                    None => Poll::Ready(None),
                }
            }
            Self::Recorded(body, tape) => {
                let polled = Pin::new(&mut **body).poll_frame(cx);
                match &polled {
                    Poll::Ready(Some(Ok(frame))) => frame.data_ref().into_iter().for_each(|data| tape.send(data.clone())),
                    Poll::Ready(None) => tape.sent(),
                    Poll::Ready(Some(Err(_))) | Poll::Pending => {}
                }
                // The server doesn't ask again for what it knows to be at its end.
                if body.is_end_stream() {
                    tape.sent();
                }
                polled
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_empty(),
            Self::Weighed(own) => own.0.is_empty(),
            Self::Watched(own) => own.0.is_end_stream(),
            Self::Pass(passed) => passed.body.is_end_stream(),
            Self::PassUnkeyed(passed) => passed.0.body.is_end_stream() && passed.1.is_empty(),
            Self::Running(..) => false,
            Self::Recorded(body, _) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Weighed(own) => SizeHint::with_exact(own.0.len() as u64),
            Self::Watched(own) => own.0.size_hint(),
            Self::Pass(passed) => passed.body.size_hint(),
            Self::PassUnkeyed(_) => SizeHint::default(),
            Self::Running(..) => SizeHint::default(),
            Self::Recorded(body, _) => body.size_hint(),
        }
    }
}
