//! Work on all cores, results in the order of the input, and no more in memory than is being worked on.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError, mpsc},
};

use crate::cassette::read::{Line, Lines, ReadError};

/// Lines that one core takes at a time.
const BATCH: usize = 64;
/// Batches that wait for a core, for each core.
const AHEAD: usize = 4;

type Batch<T> = (usize, Vec<T>);

/// Gives every line to `work` and every result to `take`, in order.
///
/// # Errors
/// The first of the reader or of `work`, in order.
pub fn each<T: Send>(
    mut lines: Lines,
    work: impl Fn(&Line) -> Result<T, ReadError> + Sync,
    mut take: impl FnMut(T),
) -> Result<(), ReadError> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (send, receive) = mpsc::sync_channel::<Batch<Line>>(cores * AHEAD);
    let (done, results) = mpsc::sync_channel::<Batch<Result<T, ReadError>>>(cores * AHEAD);
    let receive = Arc::new(Mutex::new(receive));
    std::thread::scope(|scope| {
        for _ in 0..cores {
            let (receive, done, work) = (receive.clone(), done.clone(), &work);
            scope.spawn(move || {
                loop {
                    let batch = receive.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok((number, batch)) = batch else { return };
                    if done.send((number, batch.iter().map(work).collect())).is_err() {
                        return;
                    }
                }
            });
        }
        // Theirs only, so that both ends close when the other side is gone.
        drop((done, receive));
        let reader = scope.spawn(move || {
            for number in 0.. {
                let batch = lines.by_ref().take(BATCH).collect::<Result<Vec<_>, _>>()?;
                if batch.is_empty() || send.send((number, batch)).is_err() {
                    break;
                }
            }
            Ok(())
        });
        let (mut early, mut next) = (BTreeMap::new(), 0);
        for (number, batch) in results {
            early.insert(number, batch);
            while let Some(batch) = early.remove(&next) {
                next += 1;
                for result in batch {
                    take(result?);
                }
            }
        }
        // A panic there was reported by its own hook, and there is no result for what it had.
        reader.join().unwrap_or(Ok(()))
    })
}
