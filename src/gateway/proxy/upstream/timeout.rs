//! Timeout that sets no timer for a future that is ready at once, as most reads are.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    task::Poll,
    time::Duration,
};

/// The future's output; `None` if it takes longer than `limit`. Pinned by the caller (`pin!`): some futures are too large to be moved.
pub async fn within<F: Future>(limit: Duration, mut future: Pin<&mut F>) -> Option<F::Output> {
    let ready = poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    });
    if let Some(output) = ready.await {
        return Some(output);
    }
    // It rings also where the future has used up what a task may do in one go.
    let mut timer = pin!(tokio::task::unconstrained(tokio::time::sleep(limit)));
    let mut asked = true;
    poll_fn(|cx| {
        // The first time it was asked just now.
        if !std::mem::take(&mut asked)
            && let Poll::Ready(output) = future.as_mut().poll(cx)
        {
            return Poll::Ready(Some(output));
        }
        timer.as_mut().poll(cx).map(|()| None)
    })
    .await
}
