//! Changes to an upstream's requests: its preset, and the additions of `[[upstreams]]`.
//!
//! `drop`, `map` and `defaults` add to those of the preset and take precedence.

use std::collections::BTreeMap;

use figment::value::Value;
use serde::Deserialize;
use url::Url;

use super::{CallIds, ConfigError, sources::SettingsSources, upstreams::TomlUpstream};
use toolmark_core::{
    config::error::maybe,
    upstreams::quirks::{ExtrasToRestore, NAMED, PATH_DEPTH_MAX, ParameterDefault, ParameterMapping, Quirks, presets::Preset},
};

/// `[[upstreams]] put_back`
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "snake_case")]
pub enum RestoreExtras {
    /// A call's `extra_content`, where Gemini has its `thought_signature`.
    ExtraContent,
    /// The `reasoning_content` of a message with calls.
    ReasoningContent,
}

/// Members that can't be dropped: without them the request would ask for something else, or tools would silently be ignored.
const NEEDED: [&str; 7] = ["model", "messages", "input", "tools", "functions", "stream", "instructions"];
const ENTRIES_MAX: usize = 64;

/// The preset that is named, else the one that fits the base URL.
pub(super) fn preset(raw: &TomlUpstream) -> Preset {
    let of_url = || {
        let url = Url::parse(&raw.base_url).ok()?;
        Some(Preset::of(url.host_str()?, url.port()))
    };
    raw.preset.or_else(of_url).unwrap_or(Preset::None)
}

pub(super) fn fitting(sources: &SettingsSources<'_>, index: usize, raw: &TomlUpstream, preset: Preset) -> Result<Quirks, ConfigError> {
    let mut fitting = preset.fitting();
    drops(sources, index, &raw.drop, &mut fitting)?;
    maps(sources, index, &raw.map, &mut fitting)?;
    defaults(sources, index, &raw.defaults, &mut fitting)?;
    fitting.uniform_strict = raw.uniform_strict.unwrap_or(fitting.uniform_strict);
    fitting.drop_nulls = raw.drop_nulls.unwrap_or(fitting.drop_nulls);
    fitting.wrap_errors = raw.wrap_errors.unwrap_or(fitting.wrap_errors);
    if let Some(names) = &raw.put_back {
        let has = |name| names.contains(&name);
        fitting.put_back =
            ExtrasToRestore { signatures: has(RestoreExtras::ExtraContent), reasoning: has(RestoreExtras::ReasoningContent) };
    }
    fitting.short_ids = match raw.call_ids {
        CallIds::Auto => fitting.short_ids,
        CallIds::Full => false,
        CallIds::Short9 => true,
    };
    Ok(fitting)
}

fn drops(sources: &SettingsSources<'_>, index: usize, drop: &[String], fitting: &mut Quirks) -> Result<(), ConfigError> {
    let key = format!("upstreams.{index}.drop");
    if drop.len() > ENTRIES_MAX {
        return Err(sources.fault(&key, format!("more than {ENTRIES_MAX} parameters")));
    }
    for (at, path) in drop.iter().enumerate() {
        let fault = |message: String| Err(sources.fault(&format!("{key}.{at}"), message));
        let parts: Vec<&str> = path.split('.').collect();
        let first = parts.first().copied().unwrap_or_default();
        if parts.len() > PATH_DEPTH_MAX || parts.iter().any(|part| part.is_empty()) {
            return fault(format!(
                "`{path}` is no parameter: write it like \"logprobs\", or like \"messages.name\" for what lies deeper (at most \
                 {PATH_DEPTH_MAX} names)"
            ));
        }
        let needed = parts.len() == 1 && NEEDED.contains(&first);
        let of_messages = first == "messages" && (parts.len() > 2 || matches!(parts.get(1), Some(&("role" | "content" | "tool_calls"))));
        let of_tools = path == "tools.function" || path.ends_with(".name") && first == "tools";
        if needed || of_messages || of_tools {
            return fault(format!("`{path}` can't be left out: that would change what is asked. Remove it from `drop`"));
        }
        if !fitting.drop.iter().any(|own| **own == **path) {
            fitting.drop.push(path.as_str().into());
        }
    }
    Ok(())
}

fn maps(
    sources: &SettingsSources<'_>,
    index: usize,
    map: &BTreeMap<String, BTreeMap<String, String>>,
    fitting: &mut Quirks,
) -> Result<(), ConfigError> {
    for (parameter, values) in map {
        let key = format!("upstreams.{index}.map.{parameter}");
        if NEEDED.contains(&parameter.as_str()) {
            return Err(sources.fault(&key, format!("`{parameter}` can't be mapped. For names of models there is `fallback_models`")));
        }
        for (from, to) in values {
            fitting.map.retain(|mapping| *mapping.parameter != **parameter || *mapping.from != **from);
            fitting.map.push(ParameterMapping::new(parameter, from, to));
            if parameter == "tool_choice" && !matches!(&**from, "auto" | "required" | "none" | NAMED) {
                let known = ["auto", "required", "none", NAMED];
                let hint = maybe(from, &known);
                let message =
                    format!("no request says `{from}`{hint}: write \"required\", \"auto\", \"none\", or \"{NAMED}\" for a tool's name");
                return Err(sources.fault(&format!("{key}.{from}"), message));
            }
        }
    }
    Ok(())
}

fn defaults(
    sources: &SettingsSources<'_>,
    index: usize,
    defaults: &BTreeMap<String, Value>,
    fitting: &mut Quirks,
) -> Result<(), ConfigError> {
    for (parameter, value) in defaults {
        let key = format!("upstreams.{index}.defaults.{parameter}");
        if NEEDED.contains(&parameter.as_str()) {
            return Err(sources.fault(&key, format!("`{parameter}` can't have a default: it belongs to each request. Remove it here")));
        }
        let json = serde_json::to_string(value).map_err(|error| sources.fault(&key, error.to_string()))?;
        fitting.defaults.retain(|own| *own.parameter != **parameter);
        fitting.defaults.push(ParameterDefault::new(parameter, &json));
    }
    Ok(())
}
