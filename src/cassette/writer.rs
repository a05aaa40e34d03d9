//! Writes cassettes: appends whole lines to a file, or to the files of a directory, which are rotated by size and time.
//!
//! Each batch of lines is one write, so that a crash can cut off the last line only; reopening the file repairs it.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
    time::{Duration, UNIX_EPOCH},
};

use crate::format::RecordedExchange;
use toolmark_core::sys::files::make_private;

/// Limits after which a directory gets its next file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Rotation {
    /// Size of a file, in bytes.
    pub bytes: u64,
    /// Age of a file.
    pub every: Duration,
}

/// Error of writing a cassette.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The file or directory can't be written.
    #[error("the cassette {path} can't be written: {source}", path = path.display())]
    Open {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// Another process writes to the file; their lines would mix.
    #[error("another process records into {path}: choose another file, or a directory", path = path.display())]
    Locked {
        /// The file.
        path: PathBuf,
    },
}

/// Repair of a last line that a crash cut off.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TailRepair {
    /// No repair was needed.
    Whole,
    /// The line was complete, and its line end was added.
    Recovered,
    /// The line was incomplete, and was removed.
    Dropped,
}

/// An open cassette that lines are appended to.
#[derive(Debug)]
pub struct CassetteWriter {
    place: CassetteTarget,
    file: File,
    path: PathBuf,
    bytes: u64,
    since_ms: u64,
    mended: TailRepair,
}

#[derive(Debug)]
enum CassetteTarget {
    File,
    Directory { path: PathBuf, rotation: Rotation, serial: u32 },
}

/// True if the path means a directory: it is one, or doesn't exist and ends with `/` or has no extension.
pub fn is_directory(path: &Path) -> bool {
    path.is_dir() || (!path.exists() && (path.to_string_lossy().ends_with('/') || path.extension().is_none()))
}

impl CassetteWriter {
    /// Opens the cassette at `path` for appending, and creates missing files and directories. `now_ms`: Unix milliseconds.
    ///
    /// # Errors
    /// [`WriteError`].
    pub fn open(path: &Path, rotation: Rotation, now_ms: u64) -> Result<Self, WriteError> {
        let failed = |source| WriteError::Open { path: path.to_owned(), source };
        if !is_directory(path) {
            if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                std::fs::create_dir_all(parent).map_err(failed)?;
            }
            let (file, mended) = append(path)?;
            let bytes = file.metadata().map_err(failed)?.len();
            return Ok(Self { place: CassetteTarget::File, file, path: path.to_owned(), bytes, since_ms: now_ms, mended });
        }
        std::fs::create_dir_all(path).map_err(failed)?;
        let mut serial = 0;
        let (file, own) = next_file(path, now_ms, &mut serial)?;
        let place = CassetteTarget::Directory { path: path.to_owned(), rotation, serial };
        Ok(Self { place, file, path: own, bytes: 0, since_ms: now_ms, mended: TailRepair::Whole })
    }

    /// The file that is being written.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The repair made when the file was opened.
    pub fn mended(&self) -> TailRepair {
        self.mended
    }

    /// Appends lines, each with its line end, in one write.
    ///
    /// # Errors
    /// [`WriteError`]: as far as is known, none of the lines was written.
    pub fn append(&mut self, lines: &[u8], now_ms: u64) -> Result<(), WriteError> {
        if let CassetteTarget::Directory { path, rotation, serial } = &mut self.place
            && self.bytes > 0
            && (self.bytes + lines.len() as u64 > rotation.bytes
                || now_ms.saturating_sub(self.since_ms) as u128 >= rotation.every.as_millis())
        {
            (self.file, self.path) = next_file(path, now_ms, serial)?;
            (self.bytes, self.since_ms) = (0, now_ms);
        }
        let failed = |source| WriteError::Open { path: self.path.clone(), source };
        if let Err(source) = self.file.write_all(lines) {
            // Half a line would spoil the next one.
            let _already_bad = self.file.set_len(self.bytes);
            return Err(failed(source));
        }
        self.bytes += lines.len() as u64;
        Ok(())
    }

    /// Waits until everything is on disk.
    ///
    /// # Errors
    /// [`WriteError`].
    pub fn sync(&self) -> Result<(), WriteError> {
        self.file.sync_data().map_err(|source| WriteError::Open { path: self.path.clone(), source })
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    // Conversations are private.
    make_private(options.read(true).append(true).create(true));
    options
}

fn append(path: &Path) -> Result<(File, TailRepair), WriteError> {
    let failed = |source| WriteError::Open { path: path.to_owned(), source };
    let mut file = options().open(path).map_err(failed)?;
    lock(&file, path)?;
    let mended = mend(&mut file).map_err(failed)?;
    Ok((file, mended))
}

fn lock(file: &File, path: &Path) -> Result<(), WriteError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(std::fs::TryLockError::WouldBlock) => Err(WriteError::Locked { path: path.to_owned() }),
        Err(std::fs::TryLockError::Error(source)) => Err(WriteError::Open { path: path.to_owned(), source }),
    }
}

/// Creates a file named by its time; the name sorts after those of earlier files.
fn next_file(directory: &Path, now_ms: u64, serial: &mut u32) -> Result<(File, PathBuf), WriteError> {
    let time = humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(now_ms)).to_string();
    let time: String = time.chars().filter(|c| c.is_ascii_alphanumeric()).collect();
    loop {
        let path = directory.join(format!("{time}-{:04}.jsonl", *serial % 10_000));
        *serial += 1;
        match options().create_new(true).open(&path) {
            Ok(file) => {
                lock(&file, &path)?;
                return Ok((file, path));
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && *serial < 100_000 => {}
            Err(source) => return Err(WriteError::Open { path, source }),
        }
    }
}

/// Adds the line end to a complete last line that lacks it, and removes an incomplete one.
fn mend(file: &mut File) -> io::Result<TailRepair> {
    const STEP: u64 = 64 << 10;
    let length = file.metadata()?.len();
    let (mut start, mut tail) = (length, Vec::new());
    let line_start = loop {
        if start == 0 {
            break 0;
        }
        let from = start.saturating_sub(STEP);
        let mut block = vec![0; (start - from) as usize];
        file.seek(SeekFrom::Start(from))?;
        file.read_exact(&mut block)?;
        let found = memchr::memrchr(b'\n', &block);
        let kept = found.map_or(0, |at| at + 1);
        let at = from + kept as u64;
        block.drain(..kept);
        block.append(&mut tail);
        tail = block;
        if found.is_some() {
            break at;
        }
        start = from;
    };
    if tail.is_empty() {
        return Ok(TailRepair::Whole);
    }
    let whole = std::str::from_utf8(&tail).is_ok_and(|line| RecordedExchange::parse(line).is_ok());
    if whole {
        file.write_all(b"\n")?;
        return Ok(TailRepair::Recovered);
    }
    file.set_len(line_start)?;
    Ok(TailRepair::Dropped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader;

    const LINE: &str = r#"{"cassette":1,"id":"x","downstream":{"request":{"method":"POST","url":"/v1/chat/completions"}},"attempts":[]}"#;
    const ROTATION: Rotation = Rotation { bytes: 300, every: Duration::from_secs(60) };

    fn line(id: &str) -> String {
        format!("{}\n", LINE.replace("\"x\"", &format!("\"{id}\"")))
    }

    fn ids(path: &Path) -> Vec<String> {
        reader::all(path).unwrap().0.into_iter().map(|exchange| exchange.id).collect()
    }

    #[test]
    fn a_torn_line_is_mended_wherever_it_was_torn() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.jsonl");
        let second = line("second");
        for cut in 0..=second.len() {
            std::fs::write(&path, format!("{}{}", line("first"), &second[..cut])).unwrap();
            let expected: &[&str] = if cut >= second.len() - 1 { &["first", "second"] } else { &["first"] };
            assert_eq!(ids(&path), expected, "read with {cut} bytes of it");
            let mut writer = CassetteWriter::open(&path, ROTATION, 0).unwrap();
            let mended = match cut {
                0 => TailRepair::Whole,
                _ if cut == second.len() => TailRepair::Whole,
                _ if cut == second.len() - 1 => TailRepair::Recovered,
                _ => TailRepair::Dropped,
            };
            assert_eq!(writer.mended(), mended, "{cut}");
            writer.append(line("third").as_bytes(), 0).unwrap();
            assert_eq!(ids(&path), [expected, &["third"]].concat(), "written after {cut} bytes of it");
        }
    }

    #[test]
    fn a_long_torn_line_is_dropped_as_a_whole() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.jsonl");
        std::fs::write(&path, format!("{}{{\"{}", line("first"), "x".repeat(200_000))).unwrap();
        assert_eq!(CassetteWriter::open(&path, ROTATION, 0).unwrap().mended(), TailRepair::Dropped);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), line("first"));
        std::fs::write(&path, "{").unwrap();
        assert_eq!(CassetteWriter::open(&path, ROTATION, 0).unwrap().mended(), TailRepair::Dropped);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
    }

    #[test]
    fn a_directory_gets_a_new_file_by_size_and_by_time() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cassettes");
        let mut writer = CassetteWriter::open(&path, ROTATION, 1_000).unwrap();
        for (id, now_ms) in [("a", 1_000), ("b", 1_000), ("c", 1_000), ("d", 60_999), ("e", 61_001), ("f", 61_001)] {
            writer.append(line(id).as_bytes(), now_ms).unwrap();
        }
        assert_eq!(ids(&path), ["a", "b", "c", "d", "e", "f"]);
        let files = reader::files(&path).unwrap();
        let of_each: Vec<Vec<String>> = files.iter().map(|file| ids(file)).collect();
        assert_eq!(of_each, [vec!["a", "b"], vec!["c", "d"], vec!["e", "f"]]);
        // Another start in the same millisecond.
        let mut again = CassetteWriter::open(&path, ROTATION, 1_000).unwrap();
        again.append(line("g").as_bytes(), 1_000).unwrap();
        assert_eq!(ids(&path).len(), 7);
    }

    #[test]
    fn one_process_at_a_time() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.jsonl");
        let _first = CassetteWriter::open(&path, ROTATION, 0).unwrap();
        assert!(matches!(CassetteWriter::open(&path, ROTATION, 0), Err(WriteError::Locked { .. })));
    }

    #[test]
    fn what_is_no_cassette_is_said_with_its_place() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.jsonl");
        std::fs::write(&path, format!("{}nonsense\n{}", line("first"), line("second"))).unwrap();
        let error = reader::all(&path).unwrap_err().to_string();
        assert!(error.contains("a.jsonl, line 2: it is no exchange"), "{error}");
        let error = reader::all(&directory.path().join("none")).unwrap_err().to_string();
        assert!(error.contains("can't be read"), "{error}");
        std::fs::remove_file(&path).unwrap();
        assert!(reader::all(directory.path()).unwrap_err().to_string().contains("no cassette in the directory"));
    }
}
