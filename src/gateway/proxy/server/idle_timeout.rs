//! Timeouts for a client that doesn't read its answer, or connects and sends nothing: without them its connection, its
//! exchange and their memory would stay for as long as the client likes.
//!
//! Sits between hyper and the socket. hyper bounds the time for headers only once it knows the HTTP version. The write
//! timer starts when a write can't proceed, and fires if no byte at all was accepted.

use std::{
    future::Future as _,
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};
use tokio::time::Sleep;

use super::stalls::StallWatch;

/// Bytes after which hyper knows the HTTP version: the length of HTTP/2's preface.
const GREETING_BYTES: usize = 24;

/// Connection to a client, with timeouts.
pub struct IdleTimeoutIo<S> {
    inner: S,
    /// Time limit for a write that doesn't proceed, and for the preface.
    limit: Duration,
    waits: Option<Pin<Box<Sleep>>>,
    /// Bytes of the preface that haven't arrived.
    missing: usize,
    greets: Option<Pin<Box<Sleep>>>,
    /// Answers of HTTP/2 that the client may leave untaken.
    answers: StallWatch,
}

impl<S> IdleTimeoutIo<S> {
    /// Wraps a socket.
    pub fn new(inner: S, limit: Duration, answers: StallWatch) -> Self {
        Self { inner, limit, waits: None, missing: GREETING_BYTES, greets: None, answers }
    }

    fn bounded<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.waits = None;
            return polled;
        }
        let waits = self.waits.get_or_insert_with(|| Box::pin(tokio::time::sleep(self.limit)));
        match waits.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes nothing of its answer"))),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: Read + Unpin> Read for IdleTimeoutIo<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, mut buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        if self.missing == 0 {
            // The pings of HTTP/2, at intervals of the same length, see to it that this is asked.
            if self.answers.is_stalled(self.limit) {
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes nothing of an answer")));
            }
            return Pin::new(&mut self.inner).poll_read(cx, buffer);
        }
        let Self { inner, missing, greets, limit, .. } = &mut *self;
        let mut bytes = [0; GREETING_BYTES];
        let room = (*missing).min(buffer.remaining());
        let mut greeting = ReadBuf::new(bytes.get_mut(..room).unwrap_or_default());
        if let Poll::Ready(read) = Pin::new(inner).poll_read(cx, greeting.unfilled()) {
            let came = greeting.filled();
            // Nothing at all is the end: then hyper asks no more.
            *missing = if came.is_empty() { 0 } else { missing.saturating_sub(came.len()) };
            buffer.put_slice(came);
            if *missing == 0 {
                *greets = None;
            }
            return Poll::Ready(read);
        }
        let greets = greets.get_or_insert_with(|| Box::pin(tokio::time::sleep(*limit)));
        match greets.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client says nothing"))),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: Write + Unpin> Write for IdleTimeoutIo<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.bounded(cx, polled)
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write_vectored(cx, bytes);
        self.bounded(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.inner).poll_flush(cx);
        self.bounded(cx, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.bounded(cx, polled)
    }
}
