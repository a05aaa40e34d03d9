//! State of one upstream that all workers share, and its description for `/readyz`.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use http::{HeaderMap, header};
use serde_json::{Value, json};

use crate::{
    settings::UpstreamSettings,
    upstreams::{
        capabilities::CapabilityTable,
        health::UpstreamHealth,
        quirks::{Quirks, presets::Preset},
    },
};

/// State of one upstream that all workers share.
#[derive(Default)]
pub struct UpstreamState {
    /// Health: breaker, retry budget and rate-limit pause.
    pub gauge: UpstreamHealth,
    /// Capabilities of its models.
    pub models: CapabilityTable,
    /// True once a `server` header of its answers has named llama.cpp.
    llama_cpp: AtomicBool,
}

impl UpstreamState {
    /// Reads the header `server` of an answer, unless the settings already say which server it is.
    pub fn hear(&self, upstream: &UpstreamSettings, headers: &HeaderMap) {
        if upstream.fitting_of_server.is_none() || self.llama_cpp.load(Ordering::Relaxed) {
            return;
        }
        let server = headers.get(header::SERVER).and_then(|value| value.to_str().ok());
        if server.and_then(Preset::of_server) == Some(Preset::LlamaCpp) && !self.llama_cpp.swap(true, Ordering::Relaxed) {
            let name = &*upstream.name;
            tracing::info!(
                upstream = name,
                "`{name}` says that it is llama.cpp: requests are made to fit that; `preset = \"none\"` keeps them as they are"
            );
        }
    }

    /// Changes that its requests need.
    pub fn fitting<'u>(&self, upstream: &'u UpstreamSettings) -> &'u Quirks {
        let heard = upstream.fitting_of_server.as_deref().filter(|_| self.llama_cpp.load(Ordering::Relaxed));
        heard.unwrap_or(&upstream.fitting)
    }

    fn preset(&self, upstream: &UpstreamSettings) -> Preset {
        if self.llama_cpp.load(Ordering::Relaxed) { Preset::LlamaCpp } else { upstream.preset }
    }
}

/// Description of all upstreams by name: the breaker, and for each model whether it calls functions, the reason if not, and
/// the parameters that it rejects. `uptime_ms`: clock of the breaker; `now_ms`: clock of the capabilities.
pub fn shown(upstreams: &[UpstreamSettings], standings: &Arc<[UpstreamState]>, uptime_ms: u64, now_ms: u64) -> Value {
    let one = |(upstream, standing): (&UpstreamSettings, &UpstreamState)| {
        let models = standing.models.all().into_iter().map(|(name, known)| {
            let found = json!({
                "calls": known.calls_at(now_ms).as_str(),
                "reason": (!known.reason.is_empty()).then_some(&*known.reason),
                "refuses": known.refused,
                "found_at_ms": (known.at_ms > 0).then_some(known.at_ms),
            });
            (name.into_string(), found)
        });
        let models: serde_json::Map<String, Value> = models.collect();
        let shown = json!({
            "breaker": standing.gauge.condition(uptime_ms).as_str(),
            "paused": standing.gauge.is_paused(uptime_ms),
            "preset": standing.preset(upstream).as_str(),
            "models": models,
        });
        (upstream.name.to_string(), shown)
    };
    Value::Object(upstreams.iter().zip(standings.iter()).map(one).collect())
}
