//! Builder of a proxy for tests.

use std::{
    fmt::Write as _,
    io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use super::{
    proxy::{Proxy, StartError},
    upstream::ScriptedUpstream,
};
use crate::wire::json::string::quote;

/// Builds a [`Proxy`]. Unset options have the defaults of `toolmark serve`, except for the port, which is a free one, and the ledger, which
/// is in memory.
///
/// ```
/// use toolmark::testing::{Proxy, Script};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let upstream = Script::new().say("Hello.").start()?;
/// let proxy = Proxy::builder()
///     .upstream(&upstream)
///     .policy("strict")
///     .key([7; 32])
///     .settings("[limits]\nrequest_bytes = \"1MiB\"")
///     .start()?;
/// let answer = proxy.chat(&serde_json::json!({"model": "m", "messages": [{"role": "user", "content": "Hi"}]}))?;
/// assert_eq!((answer.status, answer.text().as_str()), (200, "Hello."));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct ProxyBuilder {
    top: String,
    tables: String,
    environment: Vec<(String, String)>,
    directory: Option<PathBuf>,
    upstreams: usize,
}

impl ProxyBuilder {
    /// Adds an upstream. With several, the first serves the models that no other is set up for.
    #[must_use]
    pub fn upstream(self, upstream: &ScriptedUpstream) -> Self {
        self.base_url(&upstream.base_url())
    }

    /// Adds the upstream at this URL; it gets the caller's own key.
    #[must_use]
    pub fn base_url(mut self, url: &str) -> Self {
        let name = if self.upstreams == 0 { "upstream".to_owned() } else { format!("upstream-{}", self.upstreams + 1) };
        self.upstreams += 1;
        let _ = write!(self.tables, "\n[[upstreams]]\nname = \"{name}\"\nbase_url = {}\n", quote(url));
        self
    }

    /// Adds a cassette in place of a model: no network, and the same bytes each time.
    #[must_use]
    pub fn cassette(self, file: impl AsRef<Path>) -> Self {
        let file = std::path::absolute(file.as_ref()).unwrap_or_else(|_| file.as_ref().to_owned());
        self.base_url(&format!("cassette:{}", file.display()))
    }

    /// Records exchanges in this cassette: a file, or a directory.
    #[must_use]
    pub fn record(mut self, path: impl AsRef<Path>) -> Self {
        let path = std::path::absolute(path.as_ref()).unwrap_or_else(|_| path.as_ref().to_owned());
        let _ = write!(self.tables, "\n[record]\npath = {}\n", quote(&path.display().to_string()));
        self
    }

    /// Sets the policy: the name of a built-in one, or a policy file.
    #[must_use]
    pub fn policy(mut self, policy: &str) -> Self {
        let _ = writeln!(self.top, "policy = {}", quote(policy));
        self
    }

    /// Sets the key of the marks, so that marks stay valid over restarts.
    #[must_use]
    pub fn key(self, key: [u8; 32]) -> Self {
        let hex: String =
            key.iter().flat_map(|byte| [byte >> 4, byte & 15]).filter_map(|digit| char::from_digit(digit.into(), 16)).collect();
        self.environment("TOOLMARK_KEY", &hex)
    }

    /// Sets an environment variable of the proxy; those of the process are not read.
    #[must_use]
    pub fn environment(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Adds settings in the form of `toolmark.toml`: complete tables.
    #[must_use]
    pub fn settings(mut self, toml: &str) -> Self {
        let _ = write!(self.tables, "\n{toml}\n");
        self
    }

    /// Sets the base directory of relative paths, which must exist; by default a temporary one, removed at the end.
    #[must_use]
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// Starts the proxy.
    ///
    /// # Errors
    /// [`StartError`], as `toolmark serve` would report it.
    pub fn start(self) -> Result<Proxy, StartError> {
        let own = self.directory.is_none().then(TempDir::new).transpose()?;
        let directory = self.directory.as_deref().or(own.as_ref().map(|own| own.0.as_path())).unwrap_or(Path::new("."));
        let environment: Vec<(&str, &str)> = self.environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let proxy = Proxy::start(&format!("{}{}", self.top, self.tables), &environment, directory)?;
        Ok(proxy.with_scratch(own))
    }
}

/// A temporary directory, removed when it is dropped.
#[derive(Debug)]
pub(super) struct TempDir(PathBuf);

impl TempDir {
    fn new() -> io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let nanos = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        let name = format!("toolmark-testing-{}-{nanos}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        // Never a directory that somebody else created.
        std::fs::create_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        // Leftovers are removed by the system's own cleaning.
        let _removed = std::fs::remove_dir_all(&self.0);
    }
}
