//! `toolmark serve`: the proxy itself.
//!
//! A stub until the path of an exchange is there.

use std::process::ExitCode;

use super::Error;
use crate::settings::Flags;

/// Runs it.
///
/// # Errors
/// Always: it isn't wired yet.
pub fn run(flags: Flags) -> Result<ExitCode, Error> {
    let _ = flags;
    Err(Error::Failed("not wired yet: toolmark serve".into()))
}
