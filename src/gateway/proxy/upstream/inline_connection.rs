//! HTTP/1.1 connection that is polled by the task that uses it.
//!
//! hyper lets its caller decide in which task a connection runs. In a task of its own, each request, answer and piece would
//! be handed from task to task and wait twice to be scheduled; here it is read in the task that needs it, all of it at
//! once. An unused connection needs no task.

use std::{
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use futures_util::{future::poll_fn, task::AtomicWaker};
use http::{Request, Response};
use hyper::{
    body::Incoming,
    client::conn::{TrySendError, http1},
    rt::{Read, Write},
};

use crate::proxy::upstream::pool::{HEADER_BUFFER_MAX, Outgoing};

/// Size in bytes from which a request is sent by a task of its own, even while no one polls for the answer: no socket's buffer holds it.
const LONG: usize = 128 << 10;

/// Future that runs a connection until that ends.
type Running = Pin<Box<dyn Future<Output = Result<(), hyper::Error>> + Send + Sync>>;
/// Head of an answer, or the error, with the request if it wasn't sent.
pub type Sent = Result<Response<Incoming>, TrySendError<Request<Outgoing>>>;

/// HTTP/1.1 connection that its user polls inline, without a task of its own.
pub struct InlineConnection {
    sender: http1::SendRequest<Outgoing>,
    /// `None` if the connection has ended, or runs in a task of its own.
    connection: Option<Running>,
    /// True if the connection runs in a task of its own.
    detached: bool,
    turn: Arc<PollGuard>,
    waker: Waker,
}

impl InlineConnection {
    /// Opens a connection over a stream.
    ///
    /// # Errors
    /// [`hyper::Error`] if the connection breaks at once.
    pub async fn open(stream: impl Read + Write + Unpin + Send + Sync + 'static) -> Result<Self, hyper::Error> {
        let (sender, connection) = http1::Builder::new().max_buf_size(HEADER_BUFFER_MAX).handshake(stream).await?;
        let turn = Arc::new(PollGuard::default());
        let mut driven = Self { sender, connection: Some(Box::pin(connection)), detached: false, waker: turn.clone().into(), turn };
        poll_fn(|cx| driven.poll(cx, |sender, cx| sender.poll_ready(cx))).await?;
        Ok(driven)
    }

    /// Sends a request, and waits for the answer's head.
    ///
    /// # Errors
    /// The error if the connection broke; with the request, if that wasn't sent.
    pub async fn send(&mut self, request: Request<Outgoing>) -> Sent {
        match request.body() {
            Outgoing::Whole(bytes) if bytes.len() < LONG => {}
            Outgoing::Pieces(_, left) if *left < LONG => {}
            Outgoing::Whole(_) | Outgoing::Pieces(..) | Outgoing::Pass(_) => self.detach(),
        }
        let mut sent = pin!(self.sender.try_send_request(request));
        poll_fn(|cx| self.poll(cx, |_, cx| sent.as_mut().poll(cx))).await
    }

    /// Moves the connection to its own task, so that a long or streamed request body is sent even while no one polls for the answer.
    fn detach(&mut self) {
        if let Some(connection) = self.connection.take() {
            tokio::spawn(connection);
            self.detached = true;
        }
    }

    /// Polls `step`, which waits for something of this connection, and runs the connection until neither can proceed.
    pub fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        mut step: impl FnMut(&mut http1::SendRequest<Outgoing>, &mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        self.turn.task.register(cx.waker());
        let mut inner = Context::from_waker(&self.waker);
        // The second time is for what came of the first. More may be wanted by what has had enough for now.
        for _ in 0..2 {
            self.turn.begin();
            let mut polled = step(&mut self.sender, &mut inner);
            if polled.is_pending() {
                run(&mut self.connection, &mut inner);
                polled = step(&mut self.sender, &mut inner);
            }
            let again = self.turn.end();
            if polled.is_ready() || !again {
                return polled;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// True if the connection can take a request. Processes first what has arrived meanwhile, such as the connection's end.
    pub fn is_free(&mut self) -> bool {
        self.rest();
        self.sender.is_ready() && !self.sender.is_closed()
    }

    /// True if the connection can take a request, or will be able to. One that isn't free and doesn't run in a task never will.
    pub fn lives(&mut self) -> bool {
        self.is_free() || (self.detached && !self.sender.is_closed())
    }

    /// Runs the connection as far as possible without a task to wake.
    fn rest(&mut self) {
        drop(self.turn.task.take());
        run(&mut self.connection, &mut Context::from_waker(&self.waker));
    }
}

fn run(connection: &mut Option<Running>, cx: &mut Context<'_>) {
    // Taken out for as long as it runs: after a panic nobody runs it again.
    if let Some(mut running) = connection.take() {
        // What ends it is told to the request that it concerns.
        if running.as_mut().poll(cx).is_pending() {
            *connection = Some(running);
        }
    }
}

/// Wake-up state of [`InlineConnection::poll`]. While connection and user are polled in turns, they wake each other: that needs no
/// wake-up of the task, only another turn. Any other wake-up wakes the task.
#[derive(Default)]
struct PollGuard {
    state: AtomicU8,
    task: AtomicWaker,
}

impl PollGuard {
    const OUTSIDE: u8 = 0;
    const INSIDE: u8 = 1;
    const AGAIN: u8 = 2;

    fn begin(&self) {
        self.state.store(Self::INSIDE, Ordering::SeqCst);
    }

    /// Ends the polling. True if another turn is needed.
    fn end(&self) -> bool {
        self.state.swap(Self::OUTSIDE, Ordering::SeqCst) == Self::AGAIN
    }
}

impl Wake for PollGuard {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let noted = self.state.compare_exchange(Self::INSIDE, Self::AGAIN, Ordering::SeqCst, Ordering::SeqCst);
        if noted == Err(Self::OUTSIDE) {
            self.task.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Count(AtomicU8);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn whoever_has_the_turn_is_asked_again_instead_of_woken() {
        let (count, turn) = (Arc::new(Count(AtomicU8::new(0))), Arc::new(PollGuard::default()));
        let woken = || count.0.load(Ordering::SeqCst);
        turn.task.register(&count.clone().into());
        turn.begin();
        assert!(!turn.end());
        turn.begin();
        turn.wake_by_ref();
        turn.wake_by_ref();
        assert_eq!((woken(), turn.end(), turn.end()), (0, true, false));
        turn.wake_by_ref();
        assert_eq!(woken(), 1);
        // Nobody waits.
        turn.wake_by_ref();
        assert_eq!(woken(), 1);
    }
}
