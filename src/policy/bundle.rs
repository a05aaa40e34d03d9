//! A policy with its tool files in one piece, as the ledger keeps it for all replicas: read from files, compiled as a whole.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::load::{self, Error};
use crate::{compiled::CompiledPolicy, tool_files};

/// Maximum bytes of a bundle.
pub const BUNDLE_BYTES_MAX: usize = 8 << 20;

/// A policy's text, and the tool files that it names.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct PolicyBundle {
    policy: String,
    files: Vec<BundledFile>,
}

#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
struct BundledFile {
    /// Path as it was read, for messages.
    path: String,
    text: String,
}

/// Reasons why stored bytes are no bundle.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// Something else than this version writes.
    #[error("it can't be read: {0}")]
    Format(#[from] serde_json::Error),
    /// It is too large.
    #[error("it has {0} bytes, more than {BUNDLE_BYTES_MAX}")]
    TooLarge(usize),
}

impl PolicyBundle {
    /// Reads a policy file and its tool files.
    ///
    /// # Errors
    /// [`Error`] if one can't be read or is wrong.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = load::read(path)?;
        let (layers, policy) = load::parse(&path.display().to_string(), &text)?;
        let files = tool_files::read(&layers, path.parent().unwrap_or(Path::new("")), &policy.tools.files)?;
        let file = |(path, text): (PathBuf, String)| BundledFile { path: path.display().to_string(), text };
        Ok(Self { policy: text, files: files.paths.into_iter().zip(files.texts).map(file).collect() })
    }

    /// Reads stored bytes.
    ///
    /// # Errors
    /// [`BundleError`]
    pub fn parse(body: &[u8]) -> Result<Self, BundleError> {
        if body.len() > BUNDLE_BYTES_MAX {
            return Err(BundleError::TooLarge(body.len()));
        }
        Ok(serde_json::from_slice(body)?)
    }

    /// The bytes to store.
    ///
    /// # Errors
    /// [`BundleError::TooLarge`]
    pub fn bytes(&self) -> Result<Vec<u8>, BundleError> {
        let body = serde_json::to_vec(self)?;
        if body.len() > BUNDLE_BYTES_MAX { Err(BundleError::TooLarge(body.len())) } else { Ok(body) }
    }

    /// Text of the policy.
    pub fn text(&self) -> &str {
        &self.policy
    }

    /// Number of tool files.
    pub fn file_count(&self) -> usize {
        self.files.len()
    }

    /// Compiles the whole. `source`: its name, for messages and the log.
    ///
    /// # Errors
    /// [`Error`] if the text or a tool file is wrong.
    pub fn compile(&self, source: &str) -> Result<CompiledPolicy, Error> {
        let (layers, policy) = load::parse(source, &self.policy)?;
        let texts = self.files.iter().map(|file| (PathBuf::from(&file.path), file.text.clone())).collect();
        let files = tool_files::of_texts(texts)?;
        let digest = load::digest(&self.policy, &files.texts);
        Ok(CompiledPolicy::compile(&layers, policy, files, digest, source.to_owned(), Vec::new())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOL: &str = r#"[{"type":"function","function":{"name":"add_task","parameters":{"type":"object"}}}]"#;

    #[test]
    fn a_bundle_is_the_policy_that_its_files_are() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("policy.toml");
        std::fs::write(&path, "mode = \"observe\"\n[tools]\nfiles = [\"*.json\"]\n").unwrap();
        std::fs::write(directory.path().join("tools.json"), TOOL).unwrap();
        let read = PolicyBundle::read(&path).unwrap();
        let bundle = PolicyBundle::parse(&read.bytes().unwrap()).unwrap();
        assert_eq!((&bundle, bundle.file_count()), (&read, 1));
        // Without the files it is the same.
        let from_files = load::PolicySource::File(path.clone()).load().unwrap();
        drop(directory);
        let rules = bundle.compile("here").unwrap();
        assert_eq!((rules.digest, rules.policy.mode), (from_files.digest, from_files.policy.mode));
    }

    #[test]
    fn what_isnt_a_bundle_is_refused() {
        for body in ["", "{}", "[]", r#"{"policy": 1, "files": []}"#] {
            assert!(PolicyBundle::parse(body.as_bytes()).is_err(), "{body}");
        }
        assert!(matches!(PolicyBundle::parse(&vec![b' '; BUNDLE_BYTES_MAX + 1]), Err(BundleError::TooLarge(_))));
        let wrong = PolicyBundle { policy: "mod = 1".into(), files: Vec::new() };
        assert!(wrong.compile("here").unwrap_err().to_string().contains("here"));
    }
}
