//! `[record]`, `[replay]` and `[[faults]]`: recording, replay and fault injection.

use std::{path::PathBuf, time::Duration};

use serde::Deserialize;

use super::{ConfigError, Credential, sources::SettingsSources, upstreams::TomlUpstream};
use toolmark_cassette::{
    faults::{FaultKind, FaultRule},
    matching::RequestMatcher,
    player::{MatchMode, PlaybackConfig, PlaybackSpeed},
    recorder::Recording,
    redact::{Redactor, pointer},
    writer::Rotation,
};
use toolmark_core::config::units::{bytes, duration};

/// Scheme of a `base_url` that names a cassette.
pub const SCHEME: &str = "cassette:";

/// `[record]` as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TomlRecord {
    pub path: Option<String>,
    #[serde(with = "bytes")]
    pub rotate_bytes: u64,
    #[serde(with = "duration")]
    pub rotate_every: Duration,
    pub redact: Vec<String>,
    pub headers: Vec<String>,
}

impl Default for TomlRecord {
    fn default() -> Self {
        Self { path: None, rotate_bytes: 64 << 20, rotate_every: Duration::from_secs(3600), redact: Vec::new(), headers: Vec::new() }
    }
}

/// `[replay]` as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TomlReplay {
    pub file: Option<String>,
    pub mode: MatchMode,
    pub pace: Option<String>,
    pub ignore: Vec<String>,
}

/// One of `[[faults]]` as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TomlFault {
    pub kind: FaultKind,
    #[serde(default = "always")]
    pub probability: f64,
    #[serde(default)]
    pub seed: u64,
    #[serde(default)]
    pub repairs: bool,
}

fn always() -> f64 {
    1.0
}

/// Settings of recording, replay and fault injection.
#[derive(Clone, Debug, Default)]
pub struct CassetteSettings {
    /// Recording of exchanges, if any.
    pub record: Option<Recording>,
    /// Redaction of captured exchanges, as `[record]` sets it, whether or not a cassette is recorded.
    pub redactor: Redactor,
    /// Names of headers that captured exchanges keep in addition to the fixed ones, in lower case.
    pub headers: Vec<String>,
    /// Cassette that is replayed for all upstreams, if any.
    pub replay: Option<PathBuf>,
    /// Playback settings of cassettes.
    pub playing: PlaybackConfig,
    /// Faults to inject.
    pub faults: Vec<FaultRule>,
}

/// With a cassette that answers in place of all upstreams, no upstream and no upstream key is needed.
pub(super) fn stand_in(replay: &TomlReplay, upstreams: &mut Vec<TomlUpstream>) {
    let Some(file) = replay.file.clone().filter(|_| replay.mode != MatchMode::Passthrough) else { return };
    for upstream in upstreams.iter_mut() {
        upstream.api_key_env = Some(String::new());
        upstream.probe = None;
    }
    if upstreams.is_empty() {
        upstreams.push(TomlUpstream { name: "cassette".to_owned(), base_url: format!("{SCHEME}{file}"), ..TomlUpstream::default() });
    }
}

/// Base URL in place of a cassette's: it leads nowhere.
pub(super) const NOWHERE: &str = "http://cassette.invalid/v1";

/// The cassette that a base URL names.
///
/// # Errors
/// A message if the URL names no cassette, or if the replay mode needs a live upstream.
pub(super) fn of_base_url(url: &str, mode: MatchMode) -> Option<Result<&str, String>> {
    let file = url.strip_prefix(SCHEME)?;
    Some(match file {
        "" => Err("a cassette without a file: write it like \"cassette:session.jsonl\"".to_owned()),
        _ if mode == MatchMode::Passthrough => {
            Err("nothing passes a cassette: with mode \"passthrough\" name the live upstream here, and the cassette as `[replay] file`"
                .to_owned())
        }
        file => Ok(file),
    })
}

/// Checks the three sections. `upstreams`: those of the settings, whose own keys are redacted in recordings.
pub(super) fn validate(
    sources: &SettingsSources<'_>,
    recording: &TomlRecord,
    replaying: &TomlReplay,
    faults: &[TomlFault],
    upstreams: &[super::UpstreamSettings],
) -> Result<CassetteSettings, ConfigError> {
    let pointers = |section: &str, texts: &[String]| -> Result<Vec<Vec<String>>, ConfigError> {
        let read = texts.iter().enumerate().map(|(at, text)| {
            let wrong = || format!("`{text}` is no JSON pointer: write it like \"/metadata/email\" or \"/messages/*/name\"");
            pointer(text).ok_or_else(|| sources.fault(&format!("{section}.{at}"), wrong()))
        });
        read.collect()
    };
    let own = upstreams.iter().filter_map(|upstream| match &upstream.credential {
        Credential::Own { key, .. } => Some(key.expose()),
        Credential::Caller | Credential::None => None,
    });
    let redactor = Redactor { pointers: pointers("record.redact", &recording.redact)?, ..Redactor::default() }.knowing(own);
    let replay = replaying.file.as_ref().map(|file| sources.path("replay.file", file));
    let playing = PlaybackConfig {
        mode: replaying.mode,
        pace: pace(sources, replaying.pace.as_deref())?,
        canonical: RequestMatcher { ignore: pointers("replay.ignore", &replaying.ignore)? },
        redactor: redactor.clone(),
    };
    let passes = replay.clone().filter(|_| playing.mode == MatchMode::Passthrough);
    let path = recording.path.as_ref().map(|path| sources.path("record.path", path));
    if passes.is_some() && path.is_some() {
        return Err(
            sources.fault("record.path", "a replay in mode \"passthrough\" records into its own cassette: leave `[record] path` out")
        );
    }
    if path.as_ref().zip(replay.as_ref()).is_some_and(|(path, replay)| toolmark_cassette::recorder::same(path, replay)) {
        return Err(sources.fault("record.path", "this is the cassette that is played: record into another one"));
    }
    if replay.is_none() && replaying.mode == MatchMode::Passthrough {
        return Err(sources.fault("replay.mode", "\"passthrough\" needs a `file`, and upstreams that what wasn't recorded goes to"));
    }
    if recording.rotate_bytes == 0 || recording.rotate_every.is_zero() {
        return Err(sources.fault("record.rotate_bytes", "expected more than 0, also for `rotate_every`"));
    }
    let rotation = Rotation { bytes: recording.rotate_bytes, every: recording.rotate_every };
    let headers: Vec<String> = recording.headers.iter().map(|name| name.to_ascii_lowercase()).collect();
    let recording = |path| Recording { path, rotation, redactor: redactor.clone(), headers: headers.clone() };
    let record = path.or(passes).map(recording);
    Ok(CassetteSettings { record, redactor, headers, replay, playing, faults: fault_rules(sources, faults)? })
}

fn fault_rules(sources: &SettingsSources<'_>, raw: &[TomlFault]) -> Result<Vec<FaultRule>, ConfigError> {
    let rule = |(at, raw): (usize, &TomlFault)| {
        if !(0.0..=1.0).contains(&raw.probability) {
            return Err(sources.fault(&format!("faults.{at}.probability"), "expected a number from 0 to 1"));
        }
        Ok(FaultRule { kind: raw.kind, probability: raw.probability, seed: raw.seed, repairs: raw.repairs })
    };
    raw.iter().enumerate().map(rule).collect()
}

fn pace(sources: &SettingsSources<'_>, text: Option<&str>) -> Result<PlaybackSpeed, ConfigError> {
    let times =
        |text: &str| text.strip_suffix('x').and_then(|number| number.parse::<f64>().ok()).filter(|times| (0.01..=1000.0).contains(times));
    match text {
        None | Some("none") => Ok(PlaybackSpeed::None),
        Some("recorded") => Ok(PlaybackSpeed::Times(1.0)),
        Some(text) => times(text).map(PlaybackSpeed::Times).ok_or_else(|| {
            sources.fault("replay.pace", format!("`{text}` is no pace: write \"none\", \"recorded\", or a factor like \"2x\" or \"0.5x\""))
        }),
    }
}
