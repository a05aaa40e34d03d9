//! Loading of a policy: its TOML, from disk or built in, and the tool files it names.
//!
//! The I/O around [`crate::compiled`], which checks and compiles the policy. A wrong policy is an error with file, line and key; a reload then
//! keeps the old policy.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use super::Policy;
use crate::{
    compiled::CompiledPolicy,
    completeness::{END, PolicyText},
    tool_files::{self, ToolFiles},
};
use toolmark_config::{
    error::{ConfigError, maybe},
    layers::Layers,
};

/// Source of a policy.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum PolicySource {
    /// `policies/default.toml`, built in.
    Default,
    /// `policies/strict.toml`, built in.
    Strict,
    /// `policies/observe.toml`, built in.
    Observe,
    /// A file.
    File(PathBuf),
    /// The newest version of this name in the shared ledger; until there is one, the other source.
    Ledger {
        /// The name.
        name: Box<str>,
        /// Source until a version is put there.
        until: Box<PolicySource>,
    },
}

/// The setting that means a policy in the ledger; `ledger:NAME` is one of another name than [`LEDGER_NAME`].
pub const LEDGER: &str = "ledger";
/// Names of the built-in policies.
const BUILT_IN: [&str; 3] = ["default", "strict", "observe"];
/// Name of the policy in the ledger where none is said.
pub const LEDGER_NAME: &str = "default";
const LEDGER_NAME_BYTES_MAX: usize = 64;

impl PolicySource {
    /// Resolves a setting or flag: one of the words `default`, `strict`, `observe`, or a path relative to `directory`.
    ///
    /// Without a value, `policies/default.toml` if that file exists, else the built-in default.
    pub fn choose(said: Option<&str>, directory: &Path) -> Self {
        let usual = directory.join(DEFAULT_FILE);
        match said {
            None if usual.is_file() => Self::File(usual),
            None | Some("default") => Self::Default,
            Some("strict") => Self::Strict,
            Some("observe") => Self::Observe,
            Some(path) => Self::File(directory.join(path)),
        }
    }

    /// The name of a policy in the ledger, if a setting or flag means one.
    pub fn ledger_name(said: &str) -> Option<&str> {
        let name = if said == LEDGER { LEDGER_NAME } else { said.strip_prefix("ledger:")? };
        Some(name).filter(|name| is_ledger_name(name))
    }

    /// Returns whether this is the name of a built-in policy.
    pub fn is_built_in(said: &str) -> bool {
        BUILT_IN.contains(&said)
    }

    /// Reads and compiles the policy.
    ///
    /// # Errors
    /// [`Error`] if a file can't be read or is wrong.
    pub fn load(&self) -> Result<CompiledPolicy, Error> {
        match self {
            Self::Default => built_in(self, DEFAULT),
            Self::Strict => built_in(self, STRICT),
            Self::Observe => built_in(self, OBSERVE),
            Self::File(path) => from_file(self, path, None),
            Self::Ledger { until, .. } => until.load(),
        }
    }

    /// Compiles this text as if it stood in the source's place. Tool files are those that the policy in force has: a text that names
    /// others is refused, since it may come from elsewhere.
    ///
    /// # Errors
    /// [`Error`] if the text or a tool file is wrong.
    pub fn compile(&self, text: &str, in_force: &CompiledPolicy) -> Result<CompiledPolicy, Error> {
        let (layers, policy) = parse("the policy", text)?;
        if policy.tools.files != in_force.policy.tools.files {
            let why = "it names other tool files than the policy in force, and those aren't read for a trial";
            return Err(layers.fault("tools.files", why).into());
        }
        let directory = match self {
            Self::File(path) => path.parent().unwrap_or(Path::new("")),
            Self::Ledger { until, .. } => return until.compile(text, in_force),
            Self::Default | Self::Strict | Self::Observe => Path::new(""),
        };
        let files = tool_files::read(&layers, directory, &policy.tools.files)?;
        let digest = digest(text, &files.texts);
        Ok(CompiledPolicy::compile(&layers, policy, files, digest, "the policy on trial".to_owned(), Vec::new())?)
    }

    /// The source's text, where it can be read.
    ///
    /// # Errors
    /// [`std::io::Error`] of its file.
    pub fn text(&self) -> std::io::Result<String> {
        match self {
            Self::Default => Ok(DEFAULT.to_owned()),
            Self::Strict => Ok(STRICT.to_owned()),
            Self::Observe => Ok(OBSERVE.to_owned()),
            Self::File(path) => std::fs::read_to_string(path),
            Self::Ledger { .. } => Err(std::io::Error::other("it is in the ledger: `toolmark policy get` prints it")),
        }
    }

    /// Like [`Self::load`], after an unannounced change: a file that may be incomplete is refused. `last`: the policy in force; `written`:
    /// the files that were written in place.
    ///
    /// # Errors
    /// Also [`Error::HalfWritten`] if the file may be incomplete.
    pub fn load_changed(&self, last: &CompiledPolicy, written: &[PathBuf]) -> Result<CompiledPolicy, Error> {
        match self {
            Self::File(path) => from_file(self, path, Some((last, written.contains(path)))),
            Self::Ledger { until, .. } => until.load_changed(last, written),
            Self::Default | Self::Strict | Self::Observe => self.load(),
        }
    }
}

impl fmt::Display for PolicySource {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => out.write_str("default (built in)"),
            Self::Strict => out.write_str("strict (built in)"),
            Self::Observe => out.write_str("observe (built in)"),
            Self::File(path) => write!(out, "{}", path.display()),
            Self::Ledger { name, .. } => write!(out, "{LEDGER}:{name}"),
        }
    }
}

/// Reasons why a policy can't be loaded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file can't be read.
    #[error("{path} can't be read: {source}{hint}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Hint at a possible mistake; may be empty.
        hint: String,
        /// Cause of the failure.
        #[source]
        source: std::io::Error,
    },
    /// A file may be incomplete.
    #[error(
        "{path} isn't loaded: {why}. Replace the file by `mv`, send SIGHUP, or end it with the line \
         `{END}`", path = path.display()
    )]
    HalfWritten {
        /// The file.
        path: PathBuf,
        /// Reason for the suspicion.
        why: &'static str,
    },
    /// A file contains an error.
    #[error(transparent)]
    Fault(#[from] ConfigError),
}

fn built_in(source: &PolicySource, text: &str) -> Result<CompiledPolicy, Error> {
    let (layers, policy) = parse(&format!("policy {source}"), text)?;
    Ok(CompiledPolicy::compile(&layers, policy, ToolFiles::default(), digest(text, &[]), source.to_string(), Vec::new())?)
}

/// Compiles this text, which must not name any files: for fuzzing.
#[doc(hidden)]
pub fn from_text(text: &str) -> Result<CompiledPolicy, Error> {
    built_in(&PolicySource::Default, text)
}

/// `last`: for an unannounced change, the policy in force, and whether the file was written in place.
fn from_file(source: &PolicySource, path: &Path, last: Option<(&CompiledPolicy, bool)>) -> Result<CompiledPolicy, Error> {
    let text = read(path)?;
    let form = PolicyText::of(&text);
    if let Some((last, in_place)) = last
        && let Some(why) = last.form.as_ref().and_then(|last| if in_place { form.doubt_in_place(last) } else { form.doubt(last) })
    {
        return Err(Error::HalfWritten { path: path.into(), why });
    }
    let (layers, policy) = parse(&path.display().to_string(), &text)?;
    let directory = path.parent().unwrap_or(Path::new(""));
    let files = tool_files::read(&layers, directory, &policy.tools.files)?;
    let digest = digest(&text, &files.texts);
    let mut watched = vec![path.to_owned()];
    watched.extend(files.watched.iter().cloned());
    let mut rules = CompiledPolicy::compile(&layers, policy, files, digest, source.to_string(), watched)?;
    rules.form = Some(form);
    Ok(rules)
}

/// Text of a policy file.
pub(super) fn read(path: &Path) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|source| {
        let hint = match source.kind() {
            std::io::ErrorKind::NotFound => {
                let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                format!(
                    "{}; built in are `default`, `strict` and `observe`; a relative path starts at the settings file that names it, or else at the working directory",
                    maybe(name, &BUILT_IN)
                )
            }
            _ => String::new(),
        };
        Error::Read { path: path.into(), hint, source }
    })
}

pub(super) fn parse(place: &str, text: &str) -> Result<(Layers, Policy), ConfigError> {
    let mut layers = Layers::default();
    layers.toml(place, text)?;
    let policy = layers.extract()?;
    Ok((layers, policy))
}

/// Returns whether a policy in the ledger may have this name: 1 to 64 of `A-Z a-z 0-9 _ -`.
pub fn is_ledger_name(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    (1..=LEDGER_NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(legal)
}

/// One digest for the policy and all its files; lengths are included so that no two sets collide.
pub(super) fn digest(text: &str, files: &[String]) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in std::iter::once(text).chain(files.iter().map(String::as_str)) {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.finalize().to_hex().to_string()
}

/// The policy file that is used if the settings name none.
pub const DEFAULT_FILE: &str = "policies/default.toml";
const DEFAULT: &str = include_str!("../../policies/default.toml");
const STRICT: &str = include_str!("../../policies/strict.toml");
const OBSERVE: &str = include_str!("../../policies/observe.toml");

#[cfg(test)]
mod tests;
