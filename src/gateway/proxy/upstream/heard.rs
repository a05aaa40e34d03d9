//! What other replicas found of upstreams, acted on.
//!
//! Hearsay never outranks what this process knows: a breaker that its own trials closed of late stays closed, and what is heard is bounded
//! as if it were found here. Names that the settings don't have are passed over.

use std::{sync::Arc, time::Duration};

use super::{candidates::say_tool_calling, state::UpstreamState};
use crate::{
    counters::news::Finding,
    proxy::loop_control::LoopControl,
    settings::UpstreamSettings,
    sys::clock::{Uptime, unix_ms},
    upstreams::{breaker::BreakerState, capability_probe::ToolCalling, quirks::learn::droppable, retry::RETRY_AFTER_MAX},
};

/// Bytes of a model's name that is heard of: longer ones are found out about by each replica.
const MODEL_BYTES_MAX: usize = 256;
/// Longest pause of an upstream that asks for one.
pub const PAUSE_MAX: Duration = RETRY_AFTER_MAX.saturating_mul(6);

/// What is heard is acted on here.
pub struct HeardFindings {
    /// Settings of the upstreams.
    pub upstreams: Vec<UpstreamSettings>,
    /// Their states.
    pub standings: Arc<[UpstreamState]>,
    /// Loop control.
    pub loops: Arc<LoopControl>,
    /// Clock of the breakers.
    pub uptime: Uptime,
}

impl HeardFindings {
    /// Acts on what another replica found.
    pub fn act(&self, finding: &Finding) {
        match finding {
            Finding::BreakerOpened { upstream, pause_ms, failure } => {
                let Some((_, name, standing)) = self.find(upstream) else { return };
                if standing.gauge.open_as_heard(*pause_ms, *failure, self.uptime.ms()) {
                    tracing::warn!(
                        upstream = name,
                        breaker = BreakerState::Open.as_str(),
                        "upstream `{name}` fails at another replica: it is left alone here, too, for a while"
                    );
                }
            }
            Finding::Paused { upstream, pause_ms } => {
                let Some((_, _, standing)) = self.find(upstream) else { return };
                let pause_ms = (*pause_ms).min(PAUSE_MAX.as_millis() as u64);
                standing.gauge.pause(self.uptime.ms().saturating_add(pause_ms));
            }
            Finding::Calls { upstream, model, calls, reason } => {
                let Some((at, _, standing)) = self.find(upstream) else { return };
                if self.serves(at, model) && *calls != ToolCalling::Unknown {
                    let entry = standing.models.model(model);
                    if entry.learn(*calls, reason, unix_ms()) {
                        say_tool_calling(&self.upstreams, at, model, *calls, reason);
                    }
                }
            }
            Finding::Refuses { upstream, model, parameter } => {
                let Some((at, name, standing)) = self.find(upstream) else { return };
                let Some(parameter) = droppable(parameter).filter(|_| self.serves(at, model)) else { return };
                if standing.models.model(model).refuse(parameter, unix_ms()) {
                    let model = &**model;
                    tracing::info!(
                        upstream = name,
                        model,
                        parameter,
                        "upstream `{name}` refuses `{parameter}`, as another replica found: it is left out from now on"
                    );
                }
            }
            Finding::LoopsReset { tool, session } => self.loops.reset(tool.as_deref(), session.as_deref(), unix_ms()),
            Finding::Beat {} => {}
        }
    }

    /// Place, name and state of the upstream of this name.
    fn find(&self, name: &str) -> Option<(usize, &str, &UpstreamState)> {
        let at = self.upstreams.iter().position(|upstream| *upstream.name == *name)?;
        Some((at, &self.upstreams.get(at)?.name, self.standings.get(at)?))
    }

    fn serves(&self, at: usize, model: &str) -> bool {
        model.len() <= MODEL_BYTES_MAX && self.upstreams.get(at).is_some_and(|upstream| upstream.serves(model))
    }
}
