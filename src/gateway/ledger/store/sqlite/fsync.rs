//! Thread that syncs written data to the disk, about once a second while there is any.

use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use crate::ledger::store::{StoreError, sqlite::intent_log};

const INTERVAL: Duration = Duration::from_millis(700);

#[derive(Default)]
struct State {
    written: AtomicBool,
    stop: AtomicBool,
}

/// Handle of the thread; it ends when this is dropped.
pub(super) struct FsyncWorker {
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

impl FsyncWorker {
    pub(super) fn start(path: &Path) -> Result<Self, StoreError> {
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        let (state, files) = (Arc::new(State::default()), [PathBuf::from(log), intent_log::path(path)]);
        let own = state.clone();
        let thread = std::thread::Builder::new().name("ledger-sync".into()).spawn(move || run(&own, &files));
        let thread = thread.map_err(|error| StoreError::Unavailable(format!("its thread can't be started: {error}")))?;
        Ok(Self { state, thread: Some(thread) })
    }

    /// Reports that data was written.
    pub(super) fn written(&self) {
        if !self.state.written.swap(true, Ordering::AcqRel)
            && let Some(thread) = &self.thread
        {
            thread.thread().unpark();
        }
    }
}

impl Drop for FsyncWorker {
    fn drop(&mut self) {
        self.state.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic there was reported by its own hook.
            let _ended = thread.join();
        }
    }
}

fn run(state: &State, files: &[PathBuf]) {
    while !state.stop.load(Ordering::Acquire) {
        if !state.written.swap(false, Ordering::AcqRel) {
            std::thread::park();
            continue;
        }
        for path in files {
            // The log doesn't exist after a complete checkpoint.
            if let Ok(file) = File::open(path)
                && let Err(error) = file.sync_data()
            {
                tracing::error!(%error, path = %path.display(), "what the ledger wrote may not be on disk");
            }
        }
        // However often more writes are reported meanwhile.
        let end = Instant::now() + INTERVAL;
        while Instant::now() < end && !state.stop.load(Ordering::Acquire) {
            std::thread::park_timeout(end.saturating_duration_since(Instant::now()));
        }
    }
}
