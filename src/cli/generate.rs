//! `toolmark generate`: man pages and shell completions from the grammar of the command line, for packages (`.ci/package`).
//!
//! Hidden in `--help`: its users are packagers. Nothing is read but the grammar.

use std::{fs, path::PathBuf, process::ExitCode};

use clap::{Args, CommandFactory as _, ValueEnum as _};
use clap_complete::Shell;

use super::{Cli, Error};

/// `toolmark generate`
#[derive(Args, Clone, Debug)]
pub struct Generate {
    /// The directory for `man/` and `completions/`; it is made
    #[arg(value_name = "DIRECTORY")]
    pub directory: PathBuf,
}

/// Writes `man/toolmark.1`, a page for each command, and `completions/` for each shell.
///
/// # Errors
/// A file can't be written.
pub fn run(generate: &Generate) -> Result<ExitCode, Error> {
    let (pages, completions) = (generate.directory.join("man"), generate.directory.join("completions"));
    let failed = |error: std::io::Error| Error::Failed(format!("`{}` can't be written: {error}", generate.directory.display()));
    fs::create_dir_all(&pages).map_err(failed)?;
    fs::create_dir_all(&completions).map_err(failed)?;
    clap_mangen::generate_to(Cli::command(), &pages).map_err(failed)?;
    for shell in Shell::value_variants() {
        clap_complete::generate_to(*shell, &mut Cli::command(), "toolmark", &completions).map_err(failed)?;
    }
    Ok(ExitCode::SUCCESS)
}
