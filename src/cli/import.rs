//! `toolmark import` and `toolmark export`: other tools' recordings as cassettes, and cassettes for other tools.

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, ValueEnum};

use super::Error;
#[cfg(feature = "cassette-import")]
use super::recordings;

/// A format that can be imported.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum ImportFormat {
    /// vcrpy and pytest-recording: YAML
    Vcr,
    /// HAR 1.2: mitmproxy, browsers
    Har,
    /// JSON lines with request_body and response_body
    Exchanges,
}

/// `toolmark import`
#[derive(Args, Clone, Debug)]
pub struct ImportArgs {
    /// Format of the files
    #[arg(value_enum, value_name = "FORM")]
    pub form: ImportFormat,
    /// The files, in the order in which they come into the cassette
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// The cassette; it must not exist yet
    #[arg(short, long, value_name = "CASSETTE")]
    pub output: PathBuf,
    /// Values to take out besides credentials: JSON pointers into bodies, where * is any member or element
    #[arg(long, value_name = "POINTER")]
    pub redact: Vec<String>,
    /// Leave credentials where they are
    #[arg(long)]
    pub keep_credentials: bool,
}

/// A format that can be exported.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum ExportFormat {
    /// vcrpy and pytest-recording: YAML
    Vcr,
    /// HAR 1.2
    Har,
}

/// `toolmark export`
#[derive(Args, Clone, Debug)]
pub struct ExportArgs {
    /// Format to write
    #[arg(value_enum, value_name = "FORM")]
    pub form: ExportFormat,
    /// The cassette: a file, or a directory of them
    #[arg(value_name = "CASSETTE")]
    pub cassette: PathBuf,
    /// The file to write; it must not exist yet
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
}

/// Runs `toolmark import`.
///
/// # Errors
/// Files that can't be read or have another format; an output file that exists already; a build that can't.
#[cfg(feature = "cassette-import")]
pub fn import(arguments: &ImportArgs) -> Result<ExitCode, Error> {
    recordings::import(arguments)
}

/// Runs `toolmark export`.
///
/// # Errors
/// A cassette that can't be read; an output file that exists already; a build that can't.
#[cfg(feature = "cassette-import")]
pub fn export(arguments: &ExportArgs) -> Result<ExitCode, Error> {
    recordings::export(arguments)
}

/// Runs `toolmark import` in a build that can't.
///
/// # Errors
/// Always.
#[cfg(not(feature = "cassette-import"))]
pub fn import(_: &ImportArgs) -> Result<ExitCode, Error> {
    Err(Error::Failed(crate::settings::NO_IMPORT.into()))
}

/// Runs `toolmark export` in a build that can't.
///
/// # Errors
/// Always.
#[cfg(not(feature = "cassette-import"))]
pub fn export(_: &ExportArgs) -> Result<ExitCode, Error> {
    Err(Error::Failed(crate::settings::NO_IMPORT.into()))
}
