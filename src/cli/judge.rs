//! `toolmark judge`: one exchange judged offline.
//!
//! A stub until the path of an exchange is there.

use std::process::ExitCode;

use super::Error;
use crate::settings::Flags;

/// Runs it.
///
/// # Errors
/// Always: it isn't wired yet.
pub fn run(judge: &super::Judge, flags: Flags) -> Result<ExitCode, Error> {
    let _ = (judge, flags);
    Err(Error::Failed("not wired yet: toolmark judge".into()))
}
