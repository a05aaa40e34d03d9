//! `toolmark demo`: the failures played and caught.
//!
//! A stub until the path of an exchange is there.

use std::process::ExitCode;

use super::Error;
use crate::settings::Flags;

/// Runs it.
///
/// # Errors
/// Always: it isn't wired yet.
pub fn run(demo: &super::Demo, flags: Flags) -> Result<ExitCode, Error> {
    let _ = (demo, flags);
    Err(Error::Failed("not wired yet: toolmark demo".into()))
}
