//! An HTTP/1.1 connection that is driven by whoever uses it, in their own task.
//!
//! hyper leaves it to its caller where a connection runs. In a task of its own, each request, each answer and each piece
//! of one would be handed from task to task and wait for its turn twice; here what has come is read where it is wanted,
//! all of it at once. A connection that nobody uses rests: nothing runs for it.

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

/// Bytes of a request from which on it is sent while nobody asks for the answer: it fits into no socket's buffer.
const LONG: usize = 128 << 10;

/// What runs a connection, until that has ended.
type Running = Pin<Box<dyn Future<Output = Result<(), hyper::Error>> + Send + Sync>>;
/// An answer's head, or why there is none.
pub type Sent = Result<Response<Incoming>, TrySendError<Request<Outgoing>>>;

/// See the module.
pub struct Driven {
    sender: http1::SendRequest<Outgoing>,
    /// `None` where it has ended, or a task runs it.
    connection: Option<Running>,
    /// A task runs it.
    detached: bool,
    turn: Arc<Turn>,
    waker: Waker,
}

impl Driven {
    /// Opens one over a stream.
    ///
    /// # Errors
    /// Where it breaks at once.
    pub async fn open(stream: impl Read + Write + Unpin + Send + Sync + 'static) -> Result<Self, hyper::Error> {
        let (sender, connection) = http1::Builder::new().max_buf_size(HEADER_BUFFER_MAX).handshake(stream).await?;
        let turn = Arc::new(Turn::default());
        let mut driven = Self { sender, connection: Some(Box::pin(connection)), detached: false, waker: turn.clone().into(), turn };
        poll_fn(|cx| driven.poll(cx, |sender, cx| sender.poll_ready(cx))).await?;
        Ok(driven)
    }

    /// Sends a request, and waits for the answer's head.
    ///
    /// # Errors
    /// Where the connection broke; with the request, where that wasn't sent.
    pub async fn send(&mut self, request: Request<Outgoing>) -> Sent {
        match request.body() {
            Outgoing::Whole(bytes) if bytes.len() < LONG => {}
            Outgoing::Whole(_) | Outgoing::Pass(_) => self.detach(),
        }
        let mut sent = pin!(self.sender.try_send_request(request));
        poll_fn(|cx| self.poll(cx, |_, cx| sent.as_mut().poll(cx))).await
    }

    /// Has a task run it from now on: a body that is long, or passed on as it comes, goes on while nobody asks for the answer.
    fn detach(&mut self) {
        if let Some(connection) = self.connection.take() {
            tokio::spawn(connection);
            self.detached = true;
        }
    }

    /// Asks `step`, which waits for something of this connection, and runs the connection until there is nothing to do.
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

    /// True where it can take a request: what has come meanwhile, as its end, is looked at first.
    pub fn is_free(&mut self) -> bool {
        self.rest();
        self.sender.is_ready() && !self.sender.is_closed()
    }

    /// True where it can, or will: one that nobody runs and that isn't free never gets there.
    pub fn lives(&mut self) -> bool {
        self.is_free() || (self.detached && !self.sender.is_closed())
    }

    /// Runs it as far as that goes, and lets it wake nobody.
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

/// Whose turn it is. What a connection and who waits for it wake while they are asked in turns is each other, which needs
/// no waking: only that they are asked again. All else wakes the task.
#[derive(Default)]
struct Turn {
    state: AtomicU8,
    task: AtomicWaker,
}

impl Turn {
    const OUTSIDE: u8 = 0;
    const INSIDE: u8 = 1;
    const AGAIN: u8 = 2;

    fn begin(&self) {
        self.state.store(Self::INSIDE, Ordering::SeqCst);
    }

    /// True where one is to be asked again.
    fn end(&self) -> bool {
        self.state.swap(Self::OUTSIDE, Ordering::SeqCst) == Self::AGAIN
    }
}

impl Wake for Turn {
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
        let (count, turn) = (Arc::new(Count(AtomicU8::new(0))), Arc::new(Turn::default()));
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
