//! Detection of changed policy files. Directories are watched, because editors and Kubernetes replace files.
//!
//! Only reports *that* something changed; the caller reads, checks and swaps the policy. After a reload, a new watch must be started with
//! the new rules' files.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    time::{Duration, Instant, SystemTime},
};

use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _, event::ModifyKind};

/// Handle of a running watch; it stops when it is dropped.
#[derive(Debug)]
pub struct FileWatcher {
    // Dropping it closes the event channel, which ends the thread.
    _watcher: Option<RecommendedWatcher>,
}

/// Report of changed files.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Changed {
    /// Files that were written in place instead of being replaced: they may be incomplete.
    pub written: Vec<PathBuf>,
}

/// Event for the file at a path.
enum FileEvent {
    /// The file was created here, or its content changed.
    Written(PathBuf),
    /// The file was moved here under this name.
    Moved(PathBuf),
    /// Any other or unknown event.
    Other,
}

/// Failure to watch files. SIGHUP still reloads the policy.
#[derive(Debug, thiserror::Error)]
#[error("the policy's files can't be watched: {0}; it is still re-read on SIGHUP")]
pub struct WatchError(#[from] notify::Error);

impl FileWatcher {
    /// Watches files and directories: [`crate::compiled::CompiledPolicy::watched`]. Without any, the channel stays silent.
    ///
    /// The channel receives one [`Changed`] for all events within about [`QUIET`]. Files written in place must first have been unchanged
    /// for [`SETTLED`], or for [`SETTLED_SHORTER`] if they became shorter.
    ///
    /// # Errors
    /// [`WatchError`] if the system doesn't allow watching.
    pub fn start(paths: &[PathBuf]) -> Result<(Self, tokio::sync::mpsc::Receiver<Changed>), WatchError> {
        let (changed, changes) = tokio::sync::mpsc::channel(1);
        if paths.is_empty() {
            return Ok((Self { _watcher: None }, changes));
        }
        let (tell, events) = channel();
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // Reads are not changes; an error may hide a change.
            let Ok(event) = event else {
                let _closed = tell.send(FileEvent::Other);
                return;
            };
            for path in event.paths {
                let _closed = match event.kind {
                    EventKind::Access(_) => Ok(()),
                    EventKind::Create(_) | EventKind::Modify(ModifyKind::Data(_)) => tell.send(FileEvent::Written(path)),
                    EventKind::Modify(ModifyKind::Name(_)) => tell.send(FileEvent::Moved(path)),
                    EventKind::Any | EventKind::Modify(_) | EventKind::Remove(_) | EventKind::Other => tell.send(FileEvent::Other),
                };
            }
        })?;
        for directory in directories(paths) {
            watcher.watch(&directory, RecursiveMode::NonRecursive)?;
        }
        let paths = paths.to_vec();
        // Taken before this returns, so that later changes are noticed.
        let state = fingerprint(&paths);
        std::thread::Builder::new()
            .name("policy-watch".into())
            .spawn(move || settle(&paths, state, &events, &changed))
            .map_err(notify::Error::io)?;
        Ok((Self { _watcher: Some(watcher) }, changes))
    }
}

/// Waits until events pause, then reports whether the files really changed.
fn settle(paths: &[PathBuf], mut state: Fingerprint, events: &Receiver<FileEvent>, changed: &tokio::sync::mpsc::Sender<Changed>) {
    let mut written = BTreeSet::new();
    while let Ok(first) = events.recv() {
        note(first, paths, &mut written);
        let begun = Instant::now();
        loop {
            match events.recv_timeout(QUIET) {
                Ok(event) => {
                    note(event, paths, &mut written);
                    if begun.elapsed() >= PATIENCE {
                        break;
                    }
                }
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
        let mut now = fingerprint(paths);
        if now == state {
            continue;
        }
        // A program that writes in place may pause.
        let mut since = Instant::now();
        let mut warned = false;
        loop {
            let shorter = written.iter().find(|path| shrank(&state, &now, path));
            let long = match shorter {
                _ if written.is_empty() => break,
                Some(_) => SETTLED_SHORTER,
                None => SETTLED,
            };
            if since.elapsed() >= long {
                break;
            }
            // No warning for a program that truncates the file only to rewrite it.
            if let Some(path) = shorter.filter(|_| !warned && since.elapsed() >= SETTLED) {
                warned = true;
                let seconds = SETTLED_SHORTER.as_secs();
                tracing::warn!(
                    path = %path.display(),
                    "{} became shorter where it lies, so it may not be whole: it is taken once it has stayed the same for {seconds} s, or on SIGHUP",
                    path.display()
                );
            }
            match events.recv_timeout(QUIET) {
                Ok(event) => note(event, paths, &mut written),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let next = fingerprint(paths);
            if next != now {
                (now, since) = (next, Instant::now());
            }
        }
        state = now;
        let told = Changed { written: written.iter().cloned().collect() };
        match changed.try_send(told) {
            // If the report wasn't accepted, the files may still be being written: they stay noted until it is, which starts a new watch.
            Ok(()) | Err(tokio::sync::mpsc::error::TrySendError::Full(_)) if !changed.is_closed() => {}
            Ok(()) | Err(_) => return,
        }
    }
}

/// Returns whether this file has fewer bytes than before.
fn shrank(before: &Fingerprint, now: &Fingerprint, path: &Path) -> bool {
    let bytes = |prints: &Fingerprint| prints.get(path).copied().flatten().map_or(0, |(_, bytes, _)| bytes);
    bytes(now) < bytes(before)
}

/// Records which of the watched files are written in place.
fn note(event: FileEvent, paths: &[PathBuf], written: &mut BTreeSet<PathBuf>) {
    let (place, is_written) = match event {
        FileEvent::Written(place) => (place, true),
        FileEvent::Moved(place) => (place, false),
        FileEvent::Other => return,
    };
    // Links are followed, so the path may be spelled differently.
    let same = |path: &&PathBuf| **path == place || path.file_name() == place.file_name();
    for path in paths.iter().filter(same) {
        if is_written {
            written.insert(path.clone());
        } else {
            written.remove(path);
        }
    }
}

/// The directories to watch: the nearest existing ones, and those that links point into.
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

/// State of the files for comparison, without reading them; links are followed.
///
/// For a directory, only its existence and its `.json` files count: its modification time would change with other files in it, such as the
/// ledger.
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

/// Time without events before a change is reported.
pub const QUIET: Duration = Duration::from_millis(200);
/// Time for which a file written in place must have been unchanged.
pub const SETTLED: Duration = Duration::from_secs(1);
/// The same for a file that became shorter.
pub const SETTLED_SHORTER: Duration = Duration::from_secs(10);
/// Longest wait for a pause between events.
const PATIENCE: Duration = Duration::from_secs(2);
const ENTRIES_MAX: usize = 20_000;

#[cfg(test)]
mod tests {
    use super::*;

    async fn heard(changes: &mut tokio::sync::mpsc::Receiver<Changed>) -> Option<Changed> {
        tokio::time::timeout(Duration::from_secs(5), changes.recv()).await.ok().flatten()
    }

    async fn told(changes: &mut tokio::sync::mpsc::Receiver<Changed>) -> bool {
        heard(changes).await.is_some()
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
        let (watch, mut changes) = FileWatcher::start(&[policy.clone(), tools.clone()]).unwrap();
        fs::write(directory.path().join("toolmark.db"), "not ours").unwrap();
        replace(&policy, "two");
        assert_eq!(heard(&mut changes).await, Some(Changed::default()), "replaced by rename");
        fs::write(&policy, "three").unwrap();
        assert_eq!(heard(&mut changes).await, Some(Changed { written: vec![policy.clone()] }), "written in place");
        replace(&policy, "4");
        assert_eq!(heard(&mut changes).await, Some(Changed::default()), "replaced again");
        fs::write(tools.join("new.json"), "[]").unwrap();
        assert!(told(&mut changes).await, "a further tool file");
        fs::write(directory.path().join("toolmark.db"), "still not ours").unwrap();
        assert!(tokio::time::timeout(3 * QUIET, changes.recv()).await.is_err(), "nothing of the policy's changed");
        drop(watch);
        assert!(!told(&mut changes).await, "ends with the watch");
    }

    #[tokio::test]
    async fn what_is_still_written_is_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let policy = directory.path().join("policy.toml");
        fs::write(&policy, "old").unwrap();
        let (_watch, mut changes) = FileWatcher::start(std::slice::from_ref(&policy)).unwrap();
        let mut file = fs::File::create(&policy).unwrap();
        let begun = Instant::now();
        for _ in 0..8 {
            std::io::Write::write_all(&mut file, b"more\n").unwrap();
            tokio::time::sleep(Duration::from_millis(400)).await;
            assert!(changes.try_recv().is_err(), "after {:?}", begun.elapsed());
        }
        drop(file);
        assert_eq!(heard(&mut changes).await, Some(Changed { written: vec![policy] }));
    }

    #[tokio::test]
    async fn what_became_shorter_is_waited_for_longer() {
        let directory = tempfile::tempdir().unwrap();
        let policy = directory.path().join("policy.toml");
        fs::write(&policy, "a long form").unwrap();
        let (_watch, mut changes) = FileWatcher::start(std::slice::from_ref(&policy)).unwrap();
        let begun = Instant::now();
        fs::write(&policy, "short").unwrap();
        let told = tokio::time::timeout(2 * SETTLED_SHORTER, changes.recv()).await.unwrap();
        assert!(told == Some(Changed { written: vec![policy] }) && begun.elapsed() >= SETTLED_SHORTER);
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
        let (_watch, mut changes) = FileWatcher::start(&[at("policy.toml")]).unwrap();
        std::os::unix::fs::symlink("..2", at("..next")).unwrap();
        fs::rename(at("..next"), at("..data")).unwrap();
        assert_eq!(heard(&mut changes).await, Some(Changed::default()));
    }

    #[tokio::test]
    async fn built_in_policies_watch_nothing() {
        let (_watch, mut changes) = FileWatcher::start(&[]).unwrap();
        assert!(changes.recv().await.is_none());
    }
}
