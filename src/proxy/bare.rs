//! hyper answers what it can't parse by itself, with a bare status; here that becomes the documented error.
//!
//! Sits between hyper and the socket and looks at the first bytes of what is written. toolmark's own
//! answers always have a body, so a refusal with `content-length: 0` is hyper's.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
};

use hyper::rt::{Read, ReadBufCursor, Write};

use super::reply::Failure;

/// A stream to a client.
pub struct Polite<S> {
    inner: S,
    /// What is still to be written instead of a bare refusal.
    instead: Vec<u8>,
    written: usize,
}

impl<S> Polite<S> {
    /// Around a socket.
    pub fn new(inner: S) -> Self {
        Self { inner, instead: Vec::new(), written: 0 }
    }
}

impl<S: Write + Unpin> Polite<S> {
    /// Takes a bare refusal for itself: true where `head` was one.
    fn takes(&mut self, head: &[u8]) -> bool {
        if !head.starts_with(b"HTTP/1.1 4") {
            return false;
        }
        let failure = match head.get(9..12) {
            Some(b"431") => Failure::headers_too_large(),
            Some(b"400") => Failure::not_http(),
            _ => return false,
        };
        let bare = String::from_utf8_lossy(head).to_ascii_lowercase().contains("\r\ncontent-length: 0\r\n");
        if bare {
            let body = failure.json();
            let reason = failure.status.canonical_reason().unwrap_or_default();
            let head = format!("HTTP/1.1 {} {reason}\r\ncontent-type: application/json\r\nconnection: close\r\n", failure.status.as_u16());
            self.instead = format!("{head}content-length: {}\r\n\r\n{body}", body.len()).into_bytes();
            self.written = 0;
        }
        bare
    }

    fn poll_instead(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(rest) = self.instead.get(self.written..).filter(|rest| !rest.is_empty()) {
            match ready!(Pin::new(&mut self.inner).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => self.written += count,
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: Read + Unpin> Read for Polite<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<S: Write + Unpin> Write for Polite<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.takes(buf) {
            return Poll::Ready(Ok(buf.len()));
        }
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_instead(cx))?;
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_instead(cx))?;
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bufs: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        if let [only] = bufs
            && self.takes(only)
        {
            return Poll::Ready(Ok(only.len()));
        }
        Pin::new(&mut self.inner).poll_write_vectored(cx, bufs)
    }
}
