//! Waiting with a limit. What is ready at once, as most reads are, costs no timer.

use std::{future::poll_fn, pin::Pin, task::Poll, time::Duration};

/// The future's output, or `None` where it takes longer than `limit`. Pinned by the caller (`pin!`): some are too large to be moved.
pub async fn within<F: Future>(limit: Duration, mut future: Pin<&mut F>) -> Option<F::Output> {
    let ready = poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    });
    match ready.await {
        Some(output) => Some(output),
        None => tokio::time::timeout(limit, future).await.ok(),
    }
}
