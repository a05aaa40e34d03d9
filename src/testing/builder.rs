//! A proxy for a test, setting by setting.

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
use crate::wire::text::quote;

/// Makes a [`Proxy`]. What isn't said is as `toolmark serve` has it, but for the port, which is a free one, and the
/// ledger, which keeps nothing.
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
    /// In front of this upstream. Of several, the first serves what no other is set up for.
    #[must_use]
    pub fn upstream(self, upstream: &ScriptedUpstream) -> Self {
        self.base_url(&upstream.base_url())
    }

    /// In front of the upstream at this URL; it gets the caller's own key.
    #[must_use]
    pub fn base_url(mut self, url: &str) -> Self {
        let name = if self.upstreams == 0 { "upstream".to_owned() } else { format!("upstream-{}", self.upstreams + 1) };
        self.upstreams += 1;
        let _ = write!(self.tables, "\n[[upstreams]]\nname = \"{name}\"\nbase_url = {}\n", quote(url));
        self
    }

    /// With this cassette in place of a model: no network, and the same bytes each time.
    #[must_use]
    pub fn cassette(self, file: impl AsRef<Path>) -> Self {
        let file = std::path::absolute(file.as_ref()).unwrap_or_else(|_| file.as_ref().to_owned());
        self.base_url(&format!("cassette:{}", file.display()))
    }

    /// Recording into this cassette: a file, or a directory.
    #[must_use]
    pub fn record(mut self, path: impl AsRef<Path>) -> Self {
        let path = std::path::absolute(path.as_ref()).unwrap_or_else(|_| path.as_ref().to_owned());
        let _ = write!(self.tables, "\n[record]\npath = {}\n", quote(&path.display().to_string()));
        self
    }

    /// With a built-in policy by its name, or a policy file.
    #[must_use]
    pub fn policy(mut self, policy: &str) -> Self {
        let _ = writeln!(self.top, "policy = {}", quote(policy));
        self
    }

    /// With this key of the marks, so that they hold over restarts.
    #[must_use]
    pub fn key(self, key: [u8; 32]) -> Self {
        let hex: String =
            key.iter().flat_map(|byte| [byte >> 4, byte & 15]).filter_map(|digit| char::from_digit(digit.into(), 16)).collect();
        self.environment("TOOLMARK_KEY", &hex)
    }

    /// With this variable in its environment; the process's own are not read.
    #[must_use]
    pub fn environment(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With these further settings, as `toolmark.toml` has them: whole tables.
    #[must_use]
    pub fn settings(mut self, toml: &str) -> Self {
        let _ = write!(self.tables, "\n{toml}\n");
        self
    }

    /// With relative paths taken from this directory, which must exist; else from one of its own, removed in the end.
    #[must_use]
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// Starts it.
    ///
    /// # Errors
    /// [`StartError`], as `toolmark serve` would report it.
    pub fn start(self) -> Result<Proxy, StartError> {
        let own = self.directory.is_none().then(Scratch::new).transpose()?;
        let directory = self.directory.as_deref().or(own.as_ref().map(|own| own.0.as_path())).unwrap_or(Path::new("."));
        let environment: Vec<(&str, &str)> = self.environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let proxy = Proxy::start(&format!("{}{}", self.top, self.tables), &environment, directory)?;
        Ok(proxy.with_scratch(own))
    }
}

/// A directory of its own, removed when it is dropped.
#[derive(Debug)]
pub(super) struct Scratch(PathBuf);

impl Scratch {
    fn new() -> io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let nanos = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        let name = format!("toolmark-testing-{}-{nanos}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        // Not one that somebody else has made.
        std::fs::create_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left the system's own cleaning takes.
        let _removed = std::fs::remove_dir_all(&self.0);
    }
}
