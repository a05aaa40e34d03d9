//! Cooperative yields between the stages of an exchange: the exchanges of one worker advance stage by stage together.
//!
//! The code of all stages doesn't fit into the processor's first-level cache. Run one after the other, many exchanges would
//! load all of it for each; stage by stage they load it once, and what they send leaves together. I/O events are read in
//! portions, so that the data of the exchanges in one portion stays in the cache, too.

use std::{future::poll_fn, mem, task::Poll};

/// Maximum number of I/O events that a worker's runtime handles per tick. Each is a request, an answer or a piece of one.
pub const EVENTS_AT_ONCE: usize = 16;

/// Yields between two stages: other tasks of this worker that are ready run first.
pub async fn step() {
    let mut stepped = false;
    poll_fn(|context| {
        if mem::replace(&mut stepped, true) {
            return Poll::Ready(());
        }
        // To the end of the runtime's queue, unlike its own `yield_now`, which looks at the sockets before.
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Stages that each exchange did, in order; those in `given_up` go away when they have done the first.
    fn run(given_up: &[usize]) -> Vec<(u32, usize)> {
        let done = Arc::new(Mutex::new(Vec::new()));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let exchange = |number| {
                let done = done.clone();
                tokio::spawn(async move {
                    for stage in 1..=3 {
                        done.lock().unwrap().push((stage, number));
                        step().await;
                    }
                })
            };
            let all: Vec<_> = (0..4).map(exchange).collect();
            let gone: Vec<_> = given_up.iter().map(|number| all[*number].abort_handle()).collect();
            // Its turn is between the first stage and the second.
            tokio::spawn(async move { gone.iter().for_each(|one| one.abort()) });
            for (number, one) in all.into_iter().enumerate() {
                assert_eq!(one.await.is_err(), given_up.contains(&number));
            }
        });
        mem::take(&mut *done.lock().unwrap())
    }

    #[test]
    fn each_does_a_stage_before_any_does_the_next() {
        let stages = |stage| (0..4).map(move |number| (stage, number));
        assert_eq!(run(&[]), (1..=3).flat_map(stages).collect::<Vec<_>>());
    }

    #[test]
    fn who_gives_up_holds_nobody_up() {
        let rest = |stage| [0, 3].map(move |number| (stage, number));
        let first = (0..4).map(|number| (1, number));
        assert_eq!(run(&[1, 2]), first.chain((2..=3).flat_map(rest)).collect::<Vec<_>>());
    }
}
