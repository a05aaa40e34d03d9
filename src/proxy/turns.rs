//! Who begins when: few exchanges between two looks at the sockets.
//!
//! Where many requests come at once, what is under way is finished before more is begun: it is answered sooner, and what it
//! holds is still in the processor's cache. Nobody waits longer than until the sockets were looked at once, and then for those
//! who came before.

use tokio::{sync::Mutex, task::yield_now};

/// Exchanges that begin between two looks at the sockets.
const AT_ONCE: u32 = 8;

/// The turns of one worker.
#[derive(Debug, Default)]
pub struct Turns {
    /// How many began since the sockets were looked at last. The lock is given in the order in which it is asked for.
    begun: Mutex<u32>,
}

impl Turns {
    /// Waits for one's turn, first come, first served.
    pub async fn next(&self) {
        let mut begun = self.begun.lock().await;
        if *begun >= AT_ONCE {
            // The runtime looks at its sockets before it comes back to whoever yields.
            yield_now().await;
            *begun = 0;
        }
        *begun += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Default)]
    struct Seen {
        order: Vec<usize>,
        under_way: usize,
        most: usize,
    }

    /// So many exchanges that come at once, each of which waits for its upstream once. `given_up`: those whose client goes away
    /// once all have come.
    fn run(count: usize, given_up: impl Fn(usize) -> bool) -> Seen {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (turns, seen) = (Arc::new(Turns::default()), Arc::new(Mutex::new(Seen::default())));
        runtime.block_on(async {
            let exchange = |number| {
                let (turns, seen) = (turns.clone(), seen.clone());
                tokio::spawn(async move {
                    turns.next().await;
                    {
                        let mut seen = seen.lock().unwrap();
                        seen.order.push(number);
                        seen.under_way += 1;
                        seen.most = seen.most.max(seen.under_way);
                    }
                    yield_now().await;
                    seen.lock().unwrap().under_way -= 1;
                })
            };
            let all: Vec<_> = (0..count).map(exchange).collect();
            yield_now().await;
            let (gone, stayed): (Vec<_>, Vec<_>) = all.into_iter().enumerate().partition(|(number, _)| given_up(*number));
            gone.iter().for_each(|(_, one)| one.abort());
            for (_, one) in stayed {
                one.await.unwrap();
            }
        });
        std::mem::take(&mut *seen.lock().unwrap())
    }

    #[test]
    fn what_is_under_way_is_finished_before_more_is_begun() {
        let seen = run(100, |_| false);
        assert_eq!(seen.order, (0..100).collect::<Vec<_>>());
        assert!((1..=2 * AT_ONCE as usize).contains(&seen.most), "{}", seen.most);
    }

    #[test]
    fn a_few_begin_at_once() {
        assert_eq!(run(AT_ONCE as usize, |_| false).most, AT_ONCE as usize);
    }

    #[test]
    fn who_gives_up_holds_nobody_up() {
        // Who waits for the sockets and holds the others up meanwhile is one of them.
        let first = AT_ONCE as usize;
        let gone = |number: usize| (number - first).is_multiple_of(3);
        let seen = run(100, |number| number >= first && gone(number));
        assert_eq!(seen.order, (0..100).filter(|number| *number < first || !gone(*number)).collect::<Vec<_>>());
    }
}
