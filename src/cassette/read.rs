//! Reads cassettes: a file, or all `*.jsonl` of a directory in the order of their names.
//!
//! A last line without its end is what a crash leaves: it is taken where it is whole, else passed over and said so.
//! Any other line that is no exchange is an error with its place.

use std::{
    fs::File,
    io::{self, BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
};

use super::line::{Exchange, LineError};

/// Bytes of one line: of an exchange with everything in it, at the default limits, and room besides.
pub const LINE_BYTES_MAX: usize = 1 << 30;

/// Why a cassette can't be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file or directory.
    #[error("the cassette {path} can't be read: {source}", path = path.display())]
    Open {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A directory without cassettes.
    #[error("there is no cassette in the directory {path}: cassettes are files named `*.jsonl`", path = path.display())]
    Empty {
        /// Which.
        path: PathBuf,
    },
    /// A line that is no exchange.
    #[error("{path}, line {number}: {source}", path = path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Counts from 1.
        number: usize,
        /// Why not.
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

/// A line of a cassette, not yet read.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its file.
    pub path: std::sync::Arc<Path>,
    /// Counts from 1.
    pub number: usize,
    /// Its text, without its end.
    pub text: String,
    /// It is the last, and its end is missing.
    pub torn: bool,
}

impl Line {
    /// The exchange; `None` where a crash left only part of it.
    ///
    /// # Errors
    /// [`ReadError::Line`].
    pub fn exchange(&self) -> Result<Option<Exchange>, ReadError> {
        match Exchange::parse(&self.text) {
            Ok(exchange) => Ok(Some(exchange)),
            Err(LineError::Shape(_)) if self.torn => Ok(None),
            Err(source) => Err(ReadError::Line { path: self.path.to_path_buf(), number: self.number, source }),
        }
    }
}

/// The lines of a cassette, one after the other. Empty ones are passed over.
pub struct Lines {
    files: std::vec::IntoIter<PathBuf>,
    open: Option<(std::sync::Arc<Path>, BufReader<File>)>,
    number: usize,
}

impl Lines {
    /// Begins to read.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        Ok(Self { files: files(path)?.into_iter(), open: None, number: 0 })
    }
}

impl Iterator for Lines {
    type Item = Result<Line, ReadError>;

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
                return Some(Ok(Line { path, number: self.number, text, torn }));
            }
        }
    }
}

/// A whole cassette: its exchanges, and a notice for each line that a crash cut off.
///
/// # Errors
/// [`ReadError`].
pub fn all(path: &Path) -> Result<(Vec<Exchange>, Vec<String>), ReadError> {
    let (mut exchanges, mut notices) = (Vec::new(), Vec::new());
    for line in Lines::open(path)? {
        let line = line?;
        match line.exchange()? {
            Some(exchange) => exchanges.push(exchange),
            None => notices.push(torn_notice(&line)),
        }
    }
    Ok((exchanges, notices))
}

/// What is said of a line that was cut off.
pub fn torn_notice(line: &Line) -> String {
    format!("{}, line {}: cut off, as a crash leaves it, and passed over", line.path.display(), line.number)
}
