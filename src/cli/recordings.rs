//! The work of `toolmark import` and `toolmark export`, in builds with the feature `cassette-import`.

use std::{
    path::Path,
    process::ExitCode,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::{
    Error,
    import::{ExportArgs, ExportFormat, ImportArgs, ImportFormat},
};
use crate::cassette::{
    export,
    import::{self, Format},
    reader,
    redact::{Credentials, Redactor, pointer},
    writer::{CassetteWriter, Rotation, is_directory},
};

/// Writes a cassette of other tools' recordings.
///
/// # Errors
/// Files that can't be read or have another format; an output file that exists already.
pub fn import(arguments: &ImportArgs) -> Result<ExitCode, Error> {
    let pointers = arguments.redact.iter().map(|text| {
        pointer(text)
            .ok_or_else(|| Error::Failed(format!("--redact {text}: no JSON pointer; write it like /metadata/email or /messages/*/name")))
    });
    let credentials = if arguments.keep_credentials { Credentials::Keep } else { Credentials::Redact };
    let redactor = Redactor { pointers: pointers.collect::<Result<_, _>>()?, literals: Vec::new(), credentials };
    let format = match arguments.form {
        ImportFormat::Vcr => Format::Vcr,
        ImportFormat::Har => Format::Har,
        ImportFormat::Exchanges => Format::Exchanges,
    };
    new(&arguments.output)?;
    let (mut lines, mut count, mut redactions) = (String::new(), 0, 0);
    for file in &arguments.files {
        let text =
            std::fs::read_to_string(file).map_err(|error| Error::Failed(format!("the file {} can't be read: {error}", file.display())))?;
        let exchanges = import::read(format, &text).map_err(|error| Error::Failed(format!("{}: {error}", file.display())))?;
        for exchange in exchanges {
            let exchange = redactor.exchange(exchange);
            (count, redactions) = (count + 1, redactions + exchange.redactions);
            lines.push_str(&exchange.line());
            lines.push('\n');
        }
    }
    let rotation = Rotation { bytes: u64::MAX, every: Duration::MAX };
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
    let failed = |error: crate::cassette::writer::WriteError| Error::Failed(error.to_string());
    let mut writer = CassetteWriter::open(&arguments.output, rotation, now_ms).map_err(failed)?;
    writer.append(lines.as_bytes(), now_ms).map_err(failed)?;
    writer.sync().map_err(failed)?;
    let secrets = match redactions {
        0 => String::new(),
        places => format!("; secrets were taken out in {places} places (--keep-credentials leaves them)"),
    };
    super::print(&format!("{count} exchanges in {}{secrets}\n", writer.path().display()));
    Ok(ExitCode::SUCCESS)
}

/// Writes a cassette in another tool's format.
///
/// # Errors
/// A cassette that can't be read; an output file that exists already.
pub fn export(arguments: &ExportArgs) -> Result<ExitCode, Error> {
    if arguments.output.exists() {
        return Err(exists(&arguments.output));
    }
    let (exchanges, notices) = reader::all(&arguments.cassette).map_err(|error| Error::Failed(error.to_string()))?;
    let text = match arguments.form {
        ExportFormat::Vcr => export::vcr::write(&exchanges),
        ExportFormat::Har => export::har::write(&exchanges),
    };
    std::fs::write(&arguments.output, text)
        .map_err(|error| Error::Failed(format!("{} can't be written: {error}", arguments.output.display())))?;
    let notices: String = notices.iter().map(|notice| format!("{notice}\n")).collect();
    super::print(&format!("{notices}{} exchanges in {}\n", exchanges.len(), arguments.output.display()));
    Ok(ExitCode::SUCCESS)
}

fn new(path: &Path) -> Result<(), Error> {
    if path.exists() && !is_directory(path) { Err(exists(path)) } else { Ok(()) }
}

fn exists(path: &Path) -> Error {
    Error::Failed(format!("{} exists already, and nothing is overwritten: remove it, or choose another name", path.display()))
}
