//! Sources of the settings, and what errors, environment variables and relative paths in them refer to.
//!
//! Paths are relative to the file that names them; those of flags and variables to the working directory.

use std::{
    cell::RefCell,
    path::{Path, PathBuf},
};

use globset::{Glob, GlobSet, GlobSetBuilder};

use super::{ConfigError, Environment};
use toolmark_core::{config::layers::Layers, policy::load::PolicySource};

/// Sources of the settings that are being checked.
pub(super) struct SettingsSources<'s> {
    pub layers: &'s Layers,
    pub environment: &'s Environment,
    /// The working directory.
    pub directory: &'s Path,
    /// The settings file, if any.
    pub file: Option<&'s Path>,
    /// Notices for the user that the checks add.
    pub notices: RefCell<Vec<String>>,
}

impl SettingsSources<'_> {
    /// An error in the setting `key` (`upstreams.1.base_url`).
    pub(super) fn fault(&self, key: &str, message: impl Into<String>) -> ConfigError {
        self.layers.fault(key, message)
    }

    /// Compiles the globs in the setting `key`; `example` is shown in errors.
    ///
    /// # Errors
    /// The first pattern that is no glob.
    pub(super) fn globs(&self, key: &str, globs: &[String], example: &str) -> Result<GlobSet, ConfigError> {
        let mut builder = GlobSetBuilder::new();
        for (index, glob) in globs.iter().enumerate() {
            let wrong = |error: globset::Error| {
                self.fault(&format!("{key}.{index}"), format!("`{glob}` is no glob: {}; write it like \"{example}\"", error.kind()))
            };
            builder.add(Glob::new(glob).map_err(wrong)?);
        }
        builder.build().map_err(|error| self.fault(key, error.to_string()))
    }

    /// Resolves the path in the setting `key`.
    ///
    /// Until 0.1 all paths were relative to the working directory: if the file exists only there, it is used, with a notice.
    pub(super) fn path(&self, key: &str, text: &str) -> PathBuf {
        let usual = self.directory.join(text);
        let Some(file) = self.file.filter(|file| self.layers.said_in(key).is_some_and(|place| place == file.display().to_string())) else {
            return usual;
        };
        let own = file.parent().unwrap_or(Path::new("")).join(text);
        if own != usual && !own.exists() && usual.exists() {
            self.notices.borrow_mut().push(format!(
                "`{key}` of {} is {} now, and that isn't there: {} is taken, as before. From the next release on it isn't: write its path as seen from the settings file, or an absolute one",
                file.display(),
                own.display(),
                usual.display()
            ));
            return usual;
        }
        own
    }

    /// Resolves the cassette that a base URL names; one in place of all upstreams is `[replay] file`.
    pub(super) fn cassette(&self, key: &str, file: &str) -> PathBuf {
        self.path(if self.layers.said_in(key).is_some() { key } else { "replay.file" }, file)
    }

    /// The policy that the setting `key` names.
    pub(super) fn policy(&self, key: &str, said: Option<&str>) -> PolicySource {
        match said.filter(|said| !PolicySource::is_built_in(said)) {
            Some(said) if PolicySource::ledger_name(said).is_some() => PolicySource::Ledger {
                name: PolicySource::ledger_name(said).unwrap_or_default().into(),
                until: Box::new(PolicySource::choose(None, self.directory)),
            },
            Some(path) => PolicySource::File(self.path(key, path)),
            None => PolicySource::choose(said, self.directory),
        }
    }
}
