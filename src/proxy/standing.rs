//! What all workers know of one upstream, and how that is shown in `/readyz`.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::{
    settings::Upstream,
    upstreams::{gauge::Gauge, table::Table},
};

/// What all workers know of one upstream.
#[derive(Default)]
pub struct Standing {
    /// How it fares.
    pub gauge: Gauge,
    /// What is known of its models.
    pub models: Table,
}

/// All of it, by the upstreams' names: the breaker, and of each model whether it calls functions, why not, and which
/// parameters it refuses. `uptime_ms`, `now_ms`: the clocks of the breaker and of what was found out.
pub fn shown(upstreams: &[Upstream], standings: &Arc<[Standing]>, uptime_ms: u64, now_ms: u64) -> Value {
    let one = |(upstream, standing): (&Upstream, &Standing)| {
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
            "preset": upstream.preset.as_str(),
            "models": models,
        });
        (upstream.name.to_string(), shown)
    };
    Value::Object(upstreams.iter().zip(standings.iter()).map(one).collect())
}
