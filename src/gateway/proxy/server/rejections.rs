//! Replaces the bare statuses with which hyper answers requests that it can't parse by the documented errors.
//!
//! Sits between hyper and the socket and looks at the first bytes of each write. A response of status 400 or 431 without a body and without
//! headers of its own is hyper's.

use std::{
    future::Future as _,
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};
use tokio::time::Sleep;

use crate::proxy::http::failure::Failure;

/// Time during which a refused client may still send.
const LINGER: Duration = Duration::from_secs(2);
/// Bytes that a refused client may still send.
const LINGER_BYTES_MAX: usize = 4 << 20;

/// Connection to a client.
pub struct RejectionRewriter<S> {
    inner: S,
    /// Response to be written instead of a bare refusal; empty if there is none.
    instead: Vec<u8>,
    written: usize,
    /// Bytes read and dropped after a refusal.
    drained: usize,
    lingers: Option<Pin<Box<Sleep>>>,
}

impl<S> RejectionRewriter<S> {
    /// Wraps a socket.
    pub fn new(inner: S) -> Self {
        Self { inner, instead: Vec::new(), written: 0, drained: 0, lingers: None }
    }
}

impl<S: Read + Write + Unpin> RejectionRewriter<S> {
    /// Replaces the response if `head` is that of a bare refusal. True if it was replaced.
    fn takes(&mut self, head: &[u8]) -> bool {
        if !head.starts_with(b"HTTP/1.1 4") {
            return false;
        }
        let failure = match head.get(9..12) {
            Some(b"431") => Failure::headers_too_large(),
            Some(b"400") => Failure::not_http(),
            _ => return false,
        };
        let bare = is_bare(&String::from_utf8_lossy(head).to_ascii_lowercase());
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

    /// Reads and drops what the client still sends, within bounds: closing the connection before could cost it the refusal.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let lingers = self.lingers.get_or_insert_with(|| Box::pin(tokio::time::sleep(LINGER)));
        while lingers.as_mut().poll(cx).is_pending() && self.drained < LINGER_BYTES_MAX {
            let mut bytes = [0; 4096];
            let mut buffer = ReadBuf::new(&mut bytes);
            ready!(Pin::new(&mut self.inner).poll_read(cx, buffer.unfilled()))?;
            match buffer.filled().len() {
                0 => break,
                count => self.drained += count,
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// True of a head, in lower case, that has no other headers than those of hyper's refusals. An upstream's error without a body, which is passed
/// on, has others: `toolmark-verdict`, at least.
fn is_bare(head: &str) -> bool {
    let names = || head.lines().skip(1).filter_map(|line| Some(line.split_once(':')?.0));
    head.contains("\r\ncontent-length: 0\r\n") && names().all(|name| matches!(name, "content-length" | "connection" | "date"))
}

impl<S: Read + Unpin> Read for RejectionRewriter<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<S: Read + Write + Unpin> Write for RejectionRewriter<S> {
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
        ready!(Pin::new(&mut self.inner).poll_shutdown(cx))?;
        if self.instead.is_empty() { Poll::Ready(Ok(())) } else { self.poll_linger(cx) }
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
