//! Sources of the keys of the marks: the environment, a file beside the ledger, or a random key for this run.
//!
//! Sits between settings and the marks. A key's value never appears in an error, a log line or `Debug`.

use std::{
    fmt, fs,
    io::{ErrorKind, Write as _},
    path::{Path, PathBuf},
};

use super::{LedgerUrl, env::Environment};
use toolmark_core::sys::files::make_private;

/// Source of the keys of the marks.
#[derive(Clone, Eq, PartialEq)]
pub enum KeySource {
    /// Given by the environment: the first key mints, all of them verify.
    Ring(Vec<[u8; 32]>),
    /// Stored in this file; created on the first start by [`load_or_make_key`].
    File(PathBuf),
    /// Created for this run and not stored.
    Ephemeral,
}

impl fmt::Debug for KeySource {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ring(keys) => write!(out, "Ring([…] × {})", keys.len()),
            Self::File(path) => write!(out, "File({path:?})"),
            Self::Ephemeral => out.write_str("Ephemeral"),
        }
    }
}

impl KeySource {
    /// Returns the keys: read, or created if there are none yet.
    ///
    /// # Errors
    /// [`KeyError`] if a file or the system's randomness fails.
    pub fn keys(&self) -> Result<Vec<[u8; 32]>, KeyError> {
        match self {
            Self::Ring(keys) => Ok(keys.clone()),
            Self::File(path) => load_or_make_key(path).map(|key| vec![key]),
            Self::Ephemeral => fresh().map(|key| vec![key]),
        }
    }

    /// Chooses the source according to the settings.
    ///
    /// # Errors
    /// A message for the key `marks.key_env`.
    pub(super) fn choose(key_env: &str, environment: &Environment, ledger: &LedgerUrl) -> Result<Self, String> {
        if let Some(text) = environment.lookup(key_env) {
            return ring(text).map(Self::Ring).map_err(|why| format!("the environment variable {key_env} {why}"));
        }
        if key_env != super::KEY_ENV {
            return Err(format!("the environment variable {key_env} isn't set: set it to 64 hex digits, e.g. by `openssl rand -hex 32`"));
        }
        match ledger {
            LedgerUrl::Sqlite(path) => Ok(Self::File(path.with_file_name(KEY_FILE))),
            LedgerUrl::Memory => Ok(Self::Ephemeral),
            LedgerUrl::Postgres(_) => Err(format!(
                "several replicas need {key_env}: with a postgres ledger no key is made; set it to 64 hex digits, the same everywhere, \
                 e.g. by `openssl rand -hex 32`"
            )),
        }
    }
}

/// Reasons why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file can't be read or written.
    #[error("the key file {path} can't be {what}: {source}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Attempted action, for the message.
        what: &'static str,
        /// Cause of the failure.
        #[source]
        source: std::io::Error,
    },
    /// The file can be read by users other than its owner.
    #[error("the key file {path} may be read by others (mode {mode:04o}): run `chmod 600 {path}`, or give TOOLMARK_KEY instead", path = path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// The file holds no key.
    #[error("the key file {path} {why}: put the key back, or delete the file to get a new one (call ids that were signed before are then unknown)", path = path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// Reason, which completes "the key file … ".
        why: String,
    },
    /// The system provides no randomness.
    #[error("the system gives no randomness for a key: {0}")]
    Random(getrandom::Error),
}

/// Reads the key in `path`, or creates one there with mode 0600.
///
/// # Errors
/// [`KeyError`] if the file can't be read or created, holds no key, or can be read by other users.
pub fn load_or_make_key(path: &Path) -> Result<[u8; 32], KeyError> {
    match fs::File::open(path) {
        Ok(file) => load(path, file),
        Err(error) if error.kind() == ErrorKind::NotFound => make(path),
        Err(source) => Err(KeyError::File { path: path.into(), what: "read", source }),
    }
}

fn load(path: &Path, file: fs::File) -> Result<[u8; 32], KeyError> {
    let failed = |source| KeyError::File { path: path.into(), what: "read", source };
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = file.metadata().map_err(failed)?.permissions().mode() & 0o7777;
        if mode & 0o077 != 0 {
            return Err(KeyError::Exposed { path: path.into(), mode });
        }
    }
    let text = std::io::read_to_string(std::io::Read::take(file, KEY_FILE_BYTES_MAX)).map_err(failed)?;
    parse_hex(text.trim()).map_err(|why| KeyError::Content { path: path.into(), why })
}

fn make(path: &Path) -> Result<[u8; 32], KeyError> {
    let failed = |source| KeyError::File { path: path.into(), what: "made", source };
    let key = fresh()?;
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    make_private(&mut options);
    let mut file = match options.open(path) {
        Ok(file) => file,
        // Another process was faster: its key is used.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return load(path, fs::File::open(path).map_err(failed)?),
        Err(source) => return Err(failed(source)),
    };
    let mut line = hex(&key);
    line.push('\n');
    file.write_all(line.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
    Ok(key)
}

fn fresh() -> Result<[u8; 32], KeyError> {
    let mut key = [0; 32];
    getrandom::fill(&mut key).map_err(KeyError::Random)?;
    Ok(key)
}

/// Parses keys of 64 hex digits, separated by commas. The error completes "the environment variable … ".
fn ring(text: &str) -> Result<Vec<[u8; 32]>, String> {
    if text.trim().is_empty() {
        return Err("is set but empty: set it to 64 hex digits, or unset it".into());
    }
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    if parts.len() > KEYS_MAX {
        return Err(format!("holds {} keys, at most {KEYS_MAX} are taken", parts.len()));
    }
    let mut keys: Vec<[u8; 32]> = Vec::with_capacity(parts.len());
    for (index, part) in parts.iter().enumerate() {
        let which = if parts.len() == 1 { String::new() } else { format!(" in key {} of {}", index + 1, parts.len()) };
        let key = parse_hex(part).map_err(|why| format!("{why}{which}: a key is 64 hex digits, e.g. from `openssl rand -hex 32`"))?;
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    Ok(keys)
}

/// Parses 64 hex digits. The error describes the text without quoting it.
pub(super) fn parse_hex(text: &str) -> Result<[u8; 32], String> {
    let digits = text.as_bytes();
    if digits.len() != 64 {
        return Err(format!("has {} characters where 64 hex digits belong", text.chars().count()));
    }
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let pair = std::str::from_utf8(pair).ok().filter(|pair| pair.bytes().all(|digit| digit.is_ascii_hexdigit()));
        *byte = pair.and_then(|pair| u8::from_str_radix(pair, 16).ok()).ok_or("has something else than hex digits")?;
    }
    Ok(bytes)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

const KEY_FILE: &str = "toolmark.key";
const KEYS_MAX: usize = 8;
const KEY_FILE_BYTES_MAX: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    const TWO: &str = "FF0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

    #[test]
    fn rings() {
        assert_eq!(ring(&format!("{ONE}, {TWO}")).unwrap().len(), 2);
        for (text, wrong) in [
            ("", "empty"),
            ("abcd", "has 4 characters"),
            (&ONE.replace('a', "g"), "else than hex digits"),
            (&format!("{ONE},"), "key 2 of 2"),
        ] {
            let error = ring(text).unwrap_err();
            assert!(error.contains(wrong), "{error}");
            assert!(text.is_empty() || !error.contains(text), "{error}");
        }
    }

    #[test]
    fn sources() {
        let given = Environment::of(&[("TOOLMARK_KEY", ONE), ("BAD", "x")]);
        let none = Environment::default();
        let sqlite = LedgerUrl::Sqlite("data/toolmark.db".into());
        let postgres = LedgerUrl::Postgres(super::super::Secret::new("postgres://x"));
        let choose = |key_env, environment, ledger| KeySource::choose(key_env, environment, ledger);
        assert!(matches!(choose("TOOLMARK_KEY", &given, &postgres), Ok(KeySource::Ring(_))));
        assert_eq!(choose("TOOLMARK_KEY", &none, &sqlite), Ok(KeySource::File("data/toolmark.key".into())));
        assert_eq!(choose("TOOLMARK_KEY", &none, &LedgerUrl::Memory), Ok(KeySource::Ephemeral));
        assert!(choose("TOOLMARK_KEY", &none, &postgres).unwrap_err().contains("several replicas need TOOLMARK_KEY"));
        assert!(choose("OTHER", &none, &sqlite).unwrap_err().contains("OTHER isn't set"));
        assert!(choose("BAD", &given, &sqlite).unwrap_err().contains("BAD has 1 characters"));
        assert!(!format!("{:?}", choose("TOOLMARK_KEY", &given, &sqlite)).contains("31"));
    }

    #[test]
    fn a_file_is_made_once_and_kept_private() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("toolmark.key");
        let key = load_or_make_key(&path).unwrap();
        assert_eq!(load_or_make_key(&path).unwrap(), key);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
            assert!(load_or_make_key(&path).unwrap_err().to_string().contains("chmod 600"));
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        }
        fs::write(&path, "short").unwrap();
        assert!(load_or_make_key(&path).unwrap_err().to_string().contains("has 5 characters"));
        assert!(load_or_make_key(&directory.path().join("no/such.key")).unwrap_err().to_string().contains("can't be made"));
    }
}
