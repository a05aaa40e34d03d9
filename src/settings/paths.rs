//! Paths in settings: relative to the file that names them; those of flags and variables to the working directory.

use std::path::{Path, PathBuf};

use super::Validator;
use crate::policy::load::PolicySource;

impl Validator<'_> {
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
            Some(path) => PolicySource::File(self.path(key, path)),
            None => PolicySource::choose(said, self.directory),
        }
    }
}
