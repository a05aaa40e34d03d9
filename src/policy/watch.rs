//! Says when a policy's files change: the directories are watched, because editors and Kubernetes replace files.
//!
//! It only says *that* something changed; reading, checking and swapping the policy is the caller's. After a
//! reload start a new watch with the new rules' files.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    time::{Duration, Instant, SystemTime},
};

use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};

/// Watches until it is dropped.
#[derive(Debug)]
pub struct Watch {
    // Its drop ends the events, and with them the thread.
    _watcher: Option<RecommendedWatcher>,
}

/// Why nothing is watched. SIGHUP still works then.
#[derive(Debug, thiserror::Error)]
#[error("the policy's files can't be watched: {0}; it is still re-read on SIGHUP")]
pub struct WatchError(#[from] notify::Error);

impl Watch {
    /// Watches files and directories: [`super::rules::Rules::watched`]. With none, the channel stays silent.
    ///
    /// The channel gets one `()` for all that happens within about [`QUIET`].
    ///
    /// # Errors
    /// Where the system lets nothing be watched.
    pub fn start(paths: &[PathBuf]) -> Result<(Self, tokio::sync::mpsc::Receiver<()>), WatchError> {
        let (changed, changes) = tokio::sync::mpsc::channel(1);
        if paths.is_empty() {
            return Ok((Self { _watcher: None }, changes));
        }
        let (tell, events) = channel();
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // Reading is no change; an error may hide one.
            if event.is_err() || event.is_ok_and(|event| !event.kind.is_access()) {
                let _closed = tell.send(());
            }
        })?;
        for directory in directories(paths) {
            watcher.watch(&directory, RecursiveMode::NonRecursive)?;
        }
        let paths = paths.to_vec();
        // Taken before this returns: what changes after it is noticed.
        let state = fingerprint(&paths);
        std::thread::Builder::new()
            .name("policy-watch".into())
            .spawn(move || settle(&paths, state, &events, &changed))
            .map_err(notify::Error::io)?;
        Ok((Self { _watcher: Some(watcher) }, changes))
    }
}

/// Waits until events pause, then tells if the files really are others than before.
fn settle(paths: &[PathBuf], mut state: Fingerprint, events: &Receiver<()>, changed: &tokio::sync::mpsc::Sender<()>) {
    while events.recv().is_ok() {
        let begun = Instant::now();
        loop {
            match events.recv_timeout(QUIET) {
                Ok(()) if begun.elapsed() < PATIENCE => {}
                Ok(()) | Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
        let now = fingerprint(paths);
        if now != state {
            state = now;
            // Full: a change is already waiting to be seen, and this one with it.
            if changed.is_closed() || matches!(changed.try_send(()), Err(tokio::sync::mpsc::error::TrySendError::Closed(()))) {
                return;
            }
        }
    }
}

/// The directories to watch: the nearest that exist, and those that links point into.
fn directories(paths: &[PathBuf]) -> BTreeSet<PathBuf> {
    let mut directories = BTreeSet::new();
    for path in paths {
        let start = if path.is_dir() { Some(path.as_path()) } else { path.parent() };
        let nearest = start.into_iter().flat_map(Path::ancestors).map(or_here).find(|directory| directory.is_dir());
        directories.extend(nearest.map(Path::to_owned));
        if let Some(real) = fs::canonicalize(path).ok().filter(|real| real.is_file()) {
            directories.extend(real.parent().map(Path::to_owned));
        }
    }
    let mut seen = BTreeSet::new();
    directories.retain(|directory| seen.insert(fs::canonicalize(directory).unwrap_or_else(|_| directory.clone())));
    directories
}

fn or_here(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}

type Fingerprint = BTreeMap<PathBuf, Option<(u64, u64, Option<SystemTime>)>>;

/// What tells one state of the files from another, without reading them; links are followed.
///
/// Of a directory only its being there and its `.json` files count: its own time would change with
/// whatever else is written in it, the ledger for one.
fn fingerprint(paths: &[PathBuf]) -> Fingerprint {
    let mut prints = Fingerprint::new();
    for path in paths {
        if !path.is_dir() {
            prints.insert(path.clone(), fs::metadata(path).ok().map(|metadata| print(&metadata)));
            continue;
        }
        prints.insert(path.clone(), Some((0, 0, None)));
        for entry in fs::read_dir(or_here(path)).into_iter().flatten().flatten().take(ENTRIES_MAX) {
            let path = entry.path();
            if path.extension().is_some_and(|extension| extension == "json") {
                let file = fs::metadata(&path).ok().filter(fs::Metadata::is_file);
                prints.insert(path, file.map(|metadata| print(&metadata)));
            }
        }
    }
    prints
}

fn print(metadata: &fs::Metadata) -> (u64, u64, Option<SystemTime>) {
    #[cfg(unix)]
    let identity = std::os::unix::fs::MetadataExt::ino(metadata);
    #[cfg(not(unix))]
    let identity = 0;
    (identity, metadata.len(), metadata.modified().ok())
}

/// So long nothing must happen before a change is told.
pub const QUIET: Duration = Duration::from_millis(200);
/// And so long it is waited for that at most.
const PATIENCE: Duration = Duration::from_secs(2);
const ENTRIES_MAX: usize = 20_000;

#[cfg(test)]
mod tests {
    use super::*;

    async fn told(changes: &mut tokio::sync::mpsc::Receiver<()>) -> bool {
        tokio::time::timeout(Duration::from_secs(5), changes.recv()).await.is_ok_and(|told| told.is_some())
    }

    fn replace(path: &Path, text: &str) {
        let beside = path.with_extension("new");
        fs::write(&beside, text).unwrap();
        fs::rename(&beside, path).unwrap();
    }

    #[tokio::test]
    async fn changes_are_told_once() {
        let directory = tempfile::tempdir().unwrap();
        let policy = directory.path().join("policy.toml");
        fs::write(&policy, "one").unwrap();
        let tools = directory.path().join("tools");
        fs::create_dir(&tools).unwrap();
        let (watch, mut changes) = Watch::start(&[policy.clone(), tools.clone()]).unwrap();
        fs::write(directory.path().join("toolmark.db"), "not ours").unwrap();
        replace(&policy, "two");
        assert!(told(&mut changes).await, "replaced by rename");
        fs::write(&policy, "three!").unwrap();
        assert!(told(&mut changes).await, "written in place");
        fs::write(tools.join("new.json"), "[]").unwrap();
        assert!(told(&mut changes).await, "a further tool file");
        fs::write(directory.path().join("toolmark.db"), "still not ours").unwrap();
        assert!(tokio::time::timeout(3 * QUIET, changes.recv()).await.is_err(), "nothing of the policy's changed");
        drop(watch);
        assert!(!told(&mut changes).await, "ends with the watch");
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_swapped_link_is_a_change() {
        // As Kubernetes does it: policy.toml -> ..data/policy.toml, ..data -> ..1.
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        for version in ["..1", "..2"] {
            fs::create_dir(at(version)).unwrap();
            fs::write(at(version).join("policy.toml"), version).unwrap();
        }
        std::os::unix::fs::symlink("..1", at("..data")).unwrap();
        std::os::unix::fs::symlink("..data/policy.toml", at("policy.toml")).unwrap();
        let (_watch, mut changes) = Watch::start(&[at("policy.toml")]).unwrap();
        std::os::unix::fs::symlink("..2", at("..next")).unwrap();
        fs::rename(at("..next"), at("..data")).unwrap();
        assert!(told(&mut changes).await);
    }

    #[tokio::test]
    async fn built_in_policies_watch_nothing() {
        let (_watch, mut changes) = Watch::start(&[]).unwrap();
        assert!(changes.recv().await.is_none());
    }
}
