//! Layers of settings, merged by figment; each value remembers its source.
//!
//! A file, an environment variable and a flag are one layer each, so that an error can name the one that is wrong. Reads no files and no
//! environment: both are passed in as text.

use figment::{
    Figment, Metadata, Profile, Provider,
    error::Kind,
    providers::{Format, Toml},
    value::{Dict, Map, Value},
};
use serde::de::DeserializeOwned;

use crate::{
    error::{ConfigError, explain, find_line, key_text, line_of},
    sections,
};

/// Layers of settings; later ones take precedence.
#[derive(Debug, Default)]
pub struct Layers {
    figment: Figment,
    texts: Vec<(String, String)>,
}

impl Layers {
    /// Adds a TOML file.
    ///
    /// # Errors
    /// [`ConfigError`] with the line if `text` isn't valid TOML.
    pub fn toml(&mut self, place: &str, text: &str) -> Result<(), ConfigError> {
        let values = <Toml as Format>::from_str::<Dict>(text).map_err(|error| ConfigError {
            place: place.into(),
            line: error.span().map(|span| line_of(text, span.start)),
            key: String::new(),
            message: format!("not valid TOML: {}", error.message().trim().replace('\n', "; ")),
        })?;
        self.texts.push((place.into(), text.into()));
        self.add(place, values);
        Ok(())
    }

    /// Adds one value from another source.
    pub fn value(&mut self, place: &str, path: &[&str], value: Value) {
        let mut dict = Dict::new();
        if let [parents @ .., last] = path {
            dict.insert((*last).to_owned(), value);
            for parent in parents.iter().rev() {
                let inner = std::mem::take(&mut dict);
                dict.insert((*parent).to_owned(), Value::from(inner));
            }
        }
        self.add(place, dict);
    }

    fn add(&mut self, place: &str, values: Dict) {
        let layer = Layer { place: place.into(), values };
        self.figment = std::mem::take(&mut self.figment).merge(layer);
    }

    /// Deserializes the merged layers.
    ///
    /// # Errors
    /// The first error.
    pub fn extract<T: DeserializeOwned>(&self) -> Result<T, ConfigError> {
        self.figment.extract().map_err(|error| {
            let place = error.metadata.as_ref().map(|metadata| metadata.name.to_string());
            let message = match &error.kind {
                Kind::UnknownField(key, known) if error.path.len() <= 1 => sections::elsewhere(key, known),
                _ => None,
            };
            self.located(place, &error.path, message.map_or_else(|| explain(&error), |told| format!("unknown key: {told}")))
        })
    }

    /// An error in the value at `path` (`upstreams.1.base_url`).
    pub fn fault(&self, path: &str, message: impl Into<String>) -> ConfigError {
        let path: Vec<String> = path.split('.').map(String::from).collect();
        self.located(self.place(&path), &path, message.into())
    }

    fn located(&self, place: Option<String>, path: &[String], message: String) -> ConfigError {
        let place = place.unwrap_or_else(|| "settings".into());
        let text = self.texts.iter().find(|(name, _)| *name == place);
        let line = text.and_then(|(_, text)| find_line(text, path));
        ConfigError { place, line, key: key_text(path), message }
    }

    fn place(&self, path: &[String]) -> Option<String> {
        let mut value = self.figment.find_value(path.first()?).ok()?;
        for part in path.get(1..)? {
            let inner = match &value {
                Value::Dict(_, dict) => dict.get(part).cloned(),
                Value::Array(_, items) => part.parse::<usize>().ok().and_then(|index| items.get(index).cloned()),
                _ => None,
            };
            match inner {
                Some(inner) => value = inner,
                None => break,
            }
        }
        self.figment.get_metadata(value.tag()).map(|metadata| metadata.name.to_string())
    }

    /// Source of the value at `path`: a file's path, a variable, or a flag. `None` if it isn't set.
    pub fn said_in(&self, path: &str) -> Option<String> {
        let mut parts = path.split('.');
        let mut value = self.figment.find_value(parts.next()?).ok()?;
        for part in parts {
            value = match &value {
                Value::Dict(_, dict) => dict.get(part)?.clone(),
                Value::Array(_, items) => items.get(part.parse::<usize>().ok()?)?.clone(),
                _ => return None,
            };
        }
        self.figment.get_metadata(value.tag()).map(|metadata| metadata.name.to_string())
    }

    /// Returns whether any layer sets this value.
    pub fn says(&self, path: &str) -> bool {
        self.figment.contains(path)
    }
}

struct Layer {
    place: String,
    values: Dict,
}

impl Provider for Layer {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.place.clone())
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        Ok(Profile::Default.collect(self.values.clone()))
    }
}
