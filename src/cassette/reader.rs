//! Reads cassettes: a file, or all `*.jsonl` of a directory in the order of their names.
//!
//! A last line without a line end is left by a crash: it is read if it is complete, otherwise skipped with a notice.
//! Any other line that isn't an exchange is an error with its place.

use std::{
    fs::File,
    io::{self, BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
};

use crate::format::{LineError, RecordedExchange};

/// Bytes of one line at most: more than a whole exchange needs at the default limits.
pub const LINE_BYTES_MAX: usize = 1 << 30;

/// Error of reading a cassette.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file or directory can't be read.
    #[error("the cassette {path} can't be read: {source}", path = path.display())]
    Open {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The directory has no cassettes.
    #[error("there is no cassette in the directory {path}: cassettes are files named `*.jsonl`", path = path.display())]
    Empty {
        /// The directory.
        path: PathBuf,
    },
    /// A line isn't an exchange.
    #[error("{path}, line {number}: {source}", path = path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line's number, from 1.
        number: usize,
        /// The error of the line.
        #[source]
        source: LineError,
    },
}

/// The files of a cassette.
///
/// # Errors
/// [`ReadError`].
pub fn files(path: &Path) -> Result<Vec<PathBuf>, ReadError> {
    let open = |source| ReadError::Open { path: path.to_owned(), source };
    if !std::fs::metadata(path).map_err(open)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(open)? {
        let file = entry.map_err(open)?.path();
        if file.extension().is_some_and(|extension| extension == "jsonl") && file.is_file() {
            files.push(file);
        }
    }
    files.sort();
    if files.is_empty() { Err(ReadError::Empty { path: path.to_owned() }) } else { Ok(files) }
}

/// A line of a cassette, not yet parsed.
#[derive(Clone, Debug)]
pub struct CassetteLine {
    /// The line's file.
    pub path: std::sync::Arc<Path>,
    /// The line's number, from 1.
    pub number: usize,
    /// The text, without the line end.
    pub text: String,
    /// The line is the last one of its file and has no line end.
    pub torn: bool,
}

impl CassetteLine {
    /// The exchange; `None` if a crash left only part of the line.
    ///
    /// # Errors
    /// [`ReadError::Line`].
    pub fn exchange(&self) -> Result<Option<RecordedExchange>, ReadError> {
        match RecordedExchange::parse(&self.text) {
            Ok(exchange) => Ok(Some(exchange)),
            Err(LineError::Shape(_)) if self.torn => Ok(None),
            Err(source) => Err(ReadError::Line { path: self.path.to_path_buf(), number: self.number, source }),
        }
    }
}

/// Iterator over the lines of a cassette. Empty lines are skipped.
pub struct CassetteLines {
    files: std::vec::IntoIter<PathBuf>,
    open: Option<(std::sync::Arc<Path>, BufReader<File>)>,
    number: usize,
}

impl CassetteLines {
    /// Opens a cassette.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        Ok(Self { files: files(path)?.into_iter(), open: None, number: 0 })
    }
}

impl Iterator for CassetteLines {
    type Item = Result<CassetteLine, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Some((path, reader)) = &mut self.open else {
                let path = self.files.next()?;
                match File::open(&path) {
                    Ok(file) => self.open = Some((path.into(), BufReader::with_capacity(1 << 20, file))),
                    Err(source) => return Some(Err(ReadError::Open { path, source })),
                }
                self.number = 0;
                continue;
            };
            let mut bytes = Vec::new();
            let read = reader.by_ref().take(LINE_BYTES_MAX as u64).read_until(b'\n', &mut bytes);
            let path = path.clone();
            match read {
                Err(source) => return Some(Err(ReadError::Open { path: path.to_path_buf(), source })),
                Ok(0) => {
                    self.open = None;
                    continue;
                }
                Ok(_) => self.number += 1,
            }
            let torn = bytes.last() != Some(&b'\n');
            let text = String::from_utf8_lossy(&bytes).trim_end().to_owned();
            if !text.is_empty() {
                return Some(Ok(CassetteLine { path, number: self.number, text, torn }));
            }
        }
    }
}

/// All exchanges of a cassette, and a notice for each line that a crash cut off.
///
/// # Errors
/// [`ReadError`].
pub fn all(path: &Path) -> Result<(Vec<RecordedExchange>, Vec<String>), ReadError> {
    let (mut exchanges, mut notices) = (Vec::new(), Vec::new());
    for line in CassetteLines::open(path)? {
        let line = line?;
        match line.exchange()? {
            Some(exchange) => exchanges.push(exchange),
            None => notices.push(torn_notice(&line)),
        }
    }
    Ok((exchanges, notices))
}

/// The notice for a line that was cut off.
pub fn torn_notice(line: &CassetteLine) -> String {
    format!("{}, line {}: cut off, as a crash leaves it, and passed over", line.path.display(), line.number)
}
