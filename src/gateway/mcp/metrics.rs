//! Health and metrics of the servers: for `/readyz` and the metrics endpoint.

use std::sync::Arc;

use super::{Mcp, ServerHealth, server::ToolCallStats};
use crate::telemetry::{
    Telemetry,
    metrics::sources::{Labels, MetricFamily, MetricKind},
    readiness::PartState,
};

/// Registers the servers for health and metrics. Their labels are bounded by the settings and the limits on tools.
pub fn register(mcp: &Arc<Mcp>, observed: &Telemetry) {
    let own = mcp.clone();
    observed.readiness.register("mcp", move || state(&own));
    let own = mcp.clone();
    observed.samples.register(move || samples(&own.health()));
}

fn state(mcp: &Mcp) -> PartState {
    if let Some(why) = mcp.catalog().1.missing() {
        return PartState::Down(why.to_owned());
    }
    let health = mcp.health();
    let down: Vec<String> = health.iter().filter_map(|own| Some(format!("`{}` is down: {}", own.name, own.down.as_ref()?))).collect();
    if down.is_empty() { PartState::Ready } else { PartState::Degraded(down.join("; ")) }
}

fn samples(health: &[ServerHealth]) -> Vec<MetricFamily> {
    let server = |own: &ServerHealth| vec![("server", own.name.to_string())];
    let up = health.iter().map(|own| (server(own), if own.down.is_none() { 1.0 } else { 0.0 })).collect();
    let of_tools = |figure: fn(&ToolCallStats) -> f64| -> Vec<(Labels, f64)> {
        let of_server = |own: &ServerHealth| -> Vec<(Labels, f64)> {
            let labels = |tool: &str| vec![("server", own.name.to_string()), ("tool", tool.to_owned())];
            own.figures.iter().map(|(tool, counted)| (labels(tool), figure(counted))).collect()
        };
        health.iter().flat_map(of_server).collect()
    };
    let counter = |name, help, values| MetricFamily { name, help, shape: MetricKind::Counter, values };
    vec![
        MetricFamily { name: "toolmark_mcp_up", help: "Is the MCP server up", shape: MetricKind::Gauge, values: up },
        counter("toolmark_mcp_calls", "Calls that toolmark made", of_tools(|own| own.calls as f64)),
        counter("toolmark_mcp_errors", "Calls that toolmark made and that failed", of_tools(|own| own.errors as f64)),
        counter("toolmark_mcp_call_seconds", "How long calls took together", of_tools(|own| own.total_us as f64 / 1e6)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Execute;

    #[test]
    fn every_server_and_tool_has_its_figures() {
        let figures = ToolCallStats { calls: 3, errors: 1, total_us: 2_500_000, max_us: 2_000_000 };
        let health = |name: &str, down: Option<&str>, figures| ServerHealth {
            name: name.into(),
            required: false,
            execute: Execute::Proxy,
            down: down.map(Into::into),
            version: None,
            figures,
        };
        let samples = samples(&[health("a", None, vec![("add".into(), figures)]), health("b", Some("gone"), Vec::new())]);
        let values = |name: &str| -> Vec<f64> {
            samples.iter().filter(|sample| sample.name == name).flat_map(|sample| sample.values.iter().map(|(_, value)| *value)).collect()
        };
        assert_eq!(values("toolmark_mcp_up"), [1.0, 0.0]);
        assert_eq!((values("toolmark_mcp_calls"), values("toolmark_mcp_errors")), (vec![3.0], vec![1.0]));
        assert_eq!(values("toolmark_mcp_call_seconds"), [2.5]);
    }
}
