//! Processes lines on all cores; results come in the order of the input, and memory is bounded by the batches in progress.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError, mpsc},
};

use crate::cassette::reader::{CassetteLine, CassetteLines, ReadError};

/// Lines in one batch.
const BATCH: usize = 64;
/// Batches that may wait for a core, per core.
const AHEAD: usize = 4;

type Batch<T> = (usize, Vec<T>);

/// Passes every line to `work` and every result to `take`, in order.
///
/// # Errors
/// The first error of the reader or of `work`, in order.
pub fn each<T: Send>(
    mut lines: CassetteLines,
    work: impl Fn(&CassetteLine) -> Result<T, ReadError> + Sync,
    mut take: impl FnMut(T),
) -> Result<(), ReadError> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (send, receive) = mpsc::sync_channel::<Batch<CassetteLine>>(cores * AHEAD);
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
        // A panic was reported by its own hook, and its batch has no results.
        reader.join().unwrap_or(Ok(()))
    })
}
