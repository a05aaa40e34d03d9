//! Waiting with a limit. What is ready at once, as most reads are, costs no timer.

use std::{future::poll_fn, pin::pin, task::Poll, time::Duration};

/// The future's output, or `None` where it takes longer than `limit`.
pub async fn within<F: Future>(limit: Duration, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let ready = poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    });
    match ready.await {
        Some(output) => Some(output),
        None => tokio::time::timeout(limit, future).await.ok(),
    }
}
