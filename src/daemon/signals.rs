//! Signals by which the system, or whoever started the process, asks something of it.
//!
//! On Unix SIGTERM and SIGINT ask it to stop, SIGHUP to read its policies again. On Windows Ctrl-C, Ctrl-Break and the end of the console ask
//! it to stop; policies are read again when their files change.

use std::io;

/// A request of the system or of whoever started the process.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Asked {
    /// To stop, with the words for the log.
    Stop(&'static str),
    /// To read what may have changed.
    Reload,
}

/// The signals of this process, from when this is made.
#[cfg(unix)]
pub struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    hangup: tokio::signal::unix::Signal,
    _too_large: tokio::signal::unix::Signal,
}

/// SIGXFSZ: a file grew over the limit (`ulimit -f`). Heard, it doesn't end the process: writing fails, as on a full disk.
#[cfg(unix)]
const FILE_TOO_LARGE: i32 = 25;

#[cfg(unix)]
impl Signals {
    /// Hears them from now on. Called in a runtime.
    ///
    /// # Errors
    /// [`io::Error`] of the system.
    pub fn hear() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            _too_large: signal(SignalKind::from_raw(FILE_TOO_LARGE))?,
        })
    }

    /// Waits for the next one.
    pub async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.terminate.recv() => Asked::Stop("SIGTERM"),
            _ = self.interrupt.recv() => Asked::Stop("interrupted"),
            _ = self.hangup.recv() => Asked::Reload,
        }
    }
}

/// The signals of this process, from when this is made.
#[cfg(windows)]
pub struct Signals {
    interrupt: tokio::signal::windows::CtrlC,
    break_key: tokio::signal::windows::CtrlBreak,
    close: tokio::signal::windows::CtrlClose,
}

#[cfg(windows)]
impl Signals {
    /// Hears them from now on. Called in a runtime.
    ///
    /// # Errors
    /// [`io::Error`] of the system.
    pub fn hear() -> io::Result<Self> {
        use tokio::signal::windows::{ctrl_break, ctrl_c, ctrl_close};
        Ok(Self { interrupt: ctrl_c()?, break_key: ctrl_break()?, close: ctrl_close()? })
    }

    /// Waits for the next one.
    pub async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.interrupt.recv() => Asked::Stop("interrupted"),
            _ = self.break_key.recv() => Asked::Stop("interrupted"),
            _ = self.close.recv() => Asked::Stop("the console is closed"),
        }
    }
}
