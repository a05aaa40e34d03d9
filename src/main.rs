//! The `toolmark` binary: allocator, command line, exit code. All else is in the library.

use std::process::ExitCode;

use clap::Parser as _;
use toolmark::cli::{self, Cli};

fn main() -> ExitCode {
    small_pages();
    toolmark_allocator::keep_freed_memory();
    match cli::run(Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            // Standard error may be closed; the exit code still says it.
            let _closed = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("error: {error}\n"));
            ExitCode::from(2)
        }
    }
}

/// Turns transparent huge pages off: they would nearly double the memory in use, without a measurable gain in time.
fn small_pages() {
    // Where the system knows no such wish, nothing is lost.
    #[cfg(target_os = "linux")]
    let _unknown = rustix::thread::disable_transparent_huge_pages(true);
}
