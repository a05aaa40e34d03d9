//! The `toolmark` binary: allocator, command line, exit code. All else is in the library.

use std::process::ExitCode;

use clap::Parser as _;
use toolmark::cli::{self, Cli};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `mi_option_purge_delay` of mimalloc 2 (`enum mi_option_e` of mimalloc.h), for which the bindings have no name.
const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;
/// Milliseconds after which memory that was freed goes back to the system. After the usual 10 each large request took its pages from the
/// system anew: an eighth to a third of the system's time for conversations of 240 and 900 KB.
const PURGE_DELAY_MS: std::ffi::c_long = 100;

fn main() -> ExitCode {
    small_pages();
    keep_memory();
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

/// Keeps freed memory a little longer than the allocator would by itself, unless `MIMALLOC_PURGE_DELAY` says otherwise.
fn keep_memory() {
    // SAFETY: it stores a number under an index that the library checks; any thread may call it at any time.
    unsafe { libmimalloc_sys::mi_option_set_default(PURGE_DELAY, PURGE_DELAY_MS) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The delay of mimalloc 2 when nothing sets it: another number tells that the options were numbered anew.
    const USUAL_MS: std::ffi::c_long = 10;

    #[test]
    fn the_option_is_the_delay() {
        // SAFETY: it reads a number.
        let delay = || unsafe { libmimalloc_sys::mi_option_get(PURGE_DELAY) };
        let usual = delay();
        keep_memory();
        match std::env::var_os("MIMALLOC_PURGE_DELAY") {
            Some(_) => assert_eq!(delay(), usual, "the environment's word counts"),
            None => assert_eq!((usual, delay()), (USUAL_MS, PURGE_DELAY_MS)),
        }
    }
}
