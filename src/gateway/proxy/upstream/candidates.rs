//! Upstreams that may answer an exchange, and their order. Pure.

use crate::{
    policy::PromoteTextual,
    settings::UpstreamSettings,
    upstreams::capability_probe::{ProbeSchedule, ToolCalling},
};

/// An upstream that may answer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Candidate {
    /// Index in `[[upstreams]]`.
    pub upstream: usize,
    /// Model to ask it for, if it differs from the request's.
    pub model: Option<Box<str>>,
}

/// The upstreams for a model: the first whose globs match, then its fallbacks in order, each with the model that `fallback_models` names,
/// else with the same model if the fallback serves it. A request without a model goes to the first upstream. Empty if no upstream serves
/// the model.
pub fn candidates(upstreams: &[UpstreamSettings], model: &str) -> Vec<Candidate> {
    let serves = |upstream: &UpstreamSettings| model.is_empty() || upstream.serves(model);
    let Some(first) = upstreams.iter().position(serves) else { return Vec::new() };
    let mut found = vec![Candidate { upstream: first, model: None }];
    let Some(own) = upstreams.get(first) else { return found };
    for name in &own.fallback {
        let Some(at) = upstreams.iter().position(|other| other.name == *name) else { continue };
        let Some(other) = upstreams.get(at) else { continue };
        let mapped = own.fallback_models.iter().find(|(from, to)| **from == *model && other.serves(to)).map(|(_, to)| to.clone());
        if mapped.is_some() || (!model.is_empty() && other.serves(model)) {
            found.push(Candidate { upstream: at, model: mapped });
        }
    }
    found
}

/// Suitability of a model at an upstream for an exchange with tools.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fitness {
    /// The model can be used.
    Fit,
    /// It must be probed first.
    Ask,
    /// It is used only if there is no other: calls don't work and no probes are configured, or it writes them as text, of which real ones
    /// are made.
    Last,
    /// It can't be used.
    Unfit,
}

/// Judges suitability by what is known of the model's calls. `probe`: schedule of the upstream's probes; `textual`: what the policy makes of
/// calls that are written as text.
pub fn fitness(calls: ToolCalling, probe: ProbeSchedule, textual: PromoteTextual) -> Fitness {
    match (calls, probe.asks()) {
        (ToolCalling::Yes, _) | (ToolCalling::Unknown, false) => Fitness::Fit,
        (ToolCalling::Unknown, true) => Fitness::Ask,
        (ToolCalling::TextLeak, true) if textual != PromoteTextual::Off => Fitness::Last,
        (ToolCalling::No | ToolCalling::TextLeak, true) => Fitness::Unfit,
        (ToolCalling::No | ToolCalling::TextLeak, false) => Fitness::Last,
    }
}

/// Logs whether a model calls functions.
pub fn say_tool_calling(upstreams: &[UpstreamSettings], upstream: usize, model: &str, calls: ToolCalling, why: &str) {
    let Some(settings) = upstreams.get(upstream) else { return };
    let name = &*settings.name;
    let word = calls.as_str();
    if calls == ToolCalling::Yes {
        return tracing::info!(upstream = name, model, calls = word, "`{model}` of `{name}` calls functions");
    }
    let others: Vec<&str> =
        candidates(upstreams, model).iter().skip(1).filter_map(|other| Some(&*upstreams.get(other.upstream)?.name)).collect();
    let others = others.join("`, `");
    let instead = match (calls, others.is_empty()) {
        (ToolCalling::TextLeak, true) => {
            "with `promote_textual` toolmark makes real calls of them, else exchanges with tools don't go there".into()
        }
        (ToolCalling::TextLeak, false) => format!("exchanges with tools go to `{others}` first"),
        (_, true) => "exchanges with tools don't go there, they have nowhere to go".into(),
        (_, false) => format!("exchanges with tools don't go there, they go to `{others}`"),
    };
    tracing::warn!(
        upstream = name,
        model,
        calls = word,
        reason = why,
        fallback = others.replace('`', ""),
        "`{model}` of `{name}` doesn't call functions ({why}): {instead}"
    );
}
