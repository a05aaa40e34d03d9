//! The counters in Prometheus' formats. The names, helps and labels of everything counted per exchange are defined here.
//!
//! Encoded by `prometheus-client` as OpenMetrics; the older text format is derived from that.

use std::{fmt, sync::Arc};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text},
    metrics::MetricType,
    registry::Registry,
};

use crate::sys::histogram::HistogramSnapshot;
use crate::{
    telemetry::metrics::{
        ACTIONS, ANSWERS, APIS, CALLS, ENDINGS, Metrics, REPAIRS,
        sources::{MetricFamily, MetricKind, MetricSources},
    },
    violation::Code,
};

/// Value of `content-type` for OpenMetrics.
pub const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Value of `content-type` for the text format that preceded OpenMetrics.
pub const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// All metrics that can be scraped.
pub struct Exposition(Registry);

impl Exposition {
    /// Exposes these counters and the metrics of other parts.
    pub fn new(metrics: Arc<Metrics>, samples: Arc<MetricSources>) -> Self {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Collected { metrics, samples }));
        Self(registry)
    }

    /// The metrics as OpenMetrics.
    pub fn openmetrics(&self) -> String {
        let mut out = String::new();
        // Writing to a `String` doesn't fail.
        let _infallible = text::encode(&mut out, &self.0);
        out
    }

    /// The metrics in the older format: counters are named with their suffix, and there are no units and no end marker.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let openmetrics = self.openmetrics();
        let counters: Vec<&str> = openmetrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter")).collect();
        for line in openmetrics.lines() {
            let mut words = line.splitn(4, ' ');
            match (words.next(), words.next(), words.next(), words.next()) {
                (Some("#"), Some("EOF" | "UNIT"), ..) => continue,
                (Some("#"), Some(what), Some(name), Some(rest)) if counters.contains(&name) => {
                    out.push_str(&format!("# {what} {name}_total {rest}"));
                }
                _ => out.push_str(line),
            }
            out.push('\n');
        }
        out
    }
}

#[derive(Debug)]
struct Collected {
    metrics: Arc<Metrics>,
    samples: Arc<MetricSources>,
}

impl Collector for Collected {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        self.exchanges(&mut encoder)?;
        self.tools(&mut encoder)?;
        self.upstreams(&mut encoder)?;
        self.verifier(&mut encoder)?;
        self.ledger(&mut encoder)?;
        self.samples.collect().iter().try_for_each(|sample| further(&mut encoder, sample))
    }
}

impl Collected {
    fn exchanges(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let metrics = &self.metrics;
        let mut family = counter(encoder, "toolmark_requests", "Enforced exchanges by API, stream and verdict")?;
        for (api, name) in APIS.iter().enumerate() {
            for (stream, streams) in [(false, "false"), (true, "true")] {
                for (ending, (_, verdict)) in ENDINGS.iter().enumerate() {
                    let labels = [("api", name.as_str()), ("stream", streams), ("verdict", *verdict)];
                    count(&mut family, &labels, metrics.requests(api, stream, ending))?;
                }
            }
        }
        let mut family = counter(encoder, "toolmark_violations", "Violations by code and what the policy made of them")?;
        for code in Code::ALL {
            for (at, action) in ACTIONS.iter().enumerate() {
                count(&mut family, &[("code", code.as_str()), ("action", *action)], metrics.violations(*code, at))?;
            }
        }
        let mut family = counter(encoder, "toolmark_repairs", "Times that a model was asked again, by what came of it")?;
        for (at, outcome) in REPAIRS.iter().enumerate() {
            count(&mut family, &[("outcome", *outcome)], metrics.repairs(at))?;
        }
        let help = "What toolmark itself took of an exchange";
        let family = encoder.encode_descriptor("toolmark_overhead_seconds", help, None, MetricType::Histogram)?;
        times(family, &metrics.overhead())
    }

    fn tools(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let (tools, models) = (self.metrics.tools.all(), self.metrics.models.all());
        let mut family = counter(encoder, "toolmark_calls", "Calls that models made, by tool and outcome")?;
        for (name, tool) in &tools {
            for (outcome, calls) in CALLS.iter().zip(&tool.calls) {
                count(&mut family, &[("tool", &**name), ("outcome", *outcome)], calls.value())?;
            }
        }
        let mut family = counter(encoder, "toolmark_executions", "Executions by tool and outcome")?;
        for (name, tool) in &tools {
            count(&mut family, &[("tool", &**name), ("outcome", "success")], tool.succeeded.value())?;
            count(&mut family, &[("tool", &**name), ("outcome", "error")], tool.failed.value())?;
        }
        let help = "Tokens by model, by whether a first attempt or a repair cost them, and by type";
        let mut family = counter(encoder, "toolmark_tokens", help)?;
        for (name, model) in &models {
            for (attempt, counts) in [("first", &model.first), ("repair", &model.repair)] {
                for (kind, tokens) in ["input", "output"].iter().zip(counts) {
                    count(&mut family, &[("model", &**name), ("attempt", attempt), ("type", *kind)], tokens.value())?;
                }
            }
        }
        Ok(())
    }

    fn upstreams(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let mut upstreams = self.metrics.upstreams.all();
        // The settings name the upstreams, so none is counted as other.
        upstreams.pop();
        let mut family = counter(encoder, "toolmark_upstream_requests", "Requests to upstreams by the class of their status")?;
        for (name, upstream) in &upstreams {
            for (class, answers) in ANSWERS.iter().zip(&upstream.answers) {
                count(&mut family, &[("upstream", &**name), ("status", *class)], answers.value())?;
            }
        }
        let help = "How long an upstream took, until its answer was read";
        let mut family = encoder.encode_descriptor("toolmark_upstream_seconds", help, None, MetricType::Histogram)?;
        for (name, upstream) in &upstreams {
            let mut counted = HistogramSnapshot::default();
            upstream.time.add_to(&mut counted);
            times(family.encode_family(&[("upstream", &**name)])?, &counted)?;
        }
        Ok(())
    }
}

impl Collected {
    fn verifier(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let Some(verifier) = self.metrics.verifier.get() else { return Ok(()) };
        let mut family =
            counter(encoder, "toolmark_verifier", "Answers that might have been shown to the verifier, by what became of that")?;
        for (outcome, number) in verifier.outcomes() {
            count(&mut family, &[("outcome", outcome)], number)?;
        }
        let mut family = counter(encoder, "toolmark_verifier_verdicts", "Verdicts of the verifier, by what became of them")?;
        for (verdict, number) in verifier.verdicts() {
            count(&mut family, &[("verdict", verdict)], number)?;
        }
        let mut family = counter(encoder, "toolmark_verifier_tokens", "Tokens that the verifier took, by type")?;
        for (kind, number) in verifier.spent() {
            count(&mut family, &[("type", kind)], number)?;
        }
        let help = "How long the verifier was waited for";
        let family = encoder.encode_descriptor("toolmark_verifier_seconds", help, None, MetricType::Histogram)?;
        times(family, &verifier.times())
    }

    fn ledger(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let Some(ledger) = self.metrics.ledger.get() else { return Ok(()) };
        let help = "How long the ledger took to answer a query of an exchange; those that it didn't answer in time count with that time";
        let mut family = encoder.encode_descriptor("toolmark_ledger_query_seconds", help, None, MetricType::Histogram)?;
        for (query, counted) in ledger.all() {
            times(family.encode_family(&[("query", query)])?, &counted)?;
        }
        Ok(())
    }
}

fn counter<'e>(encoder: &'e mut DescriptorEncoder<'_>, name: &'e str, help: &str) -> Result<MetricEncoder<'e>, fmt::Error> {
    encoder.encode_descriptor(name, help, None, MetricType::Counter)
}

fn count<const N: usize>(family: &mut MetricEncoder, labels: &[(&str, &str); N], value: u64) -> fmt::Result {
    family.encode_family(labels)?.encode_counter::<NoLabelSet, u64, f64>(&value, None)
}

fn times(mut metric: MetricEncoder, counted: &HistogramSnapshot) -> fmt::Result {
    metric.encode_histogram::<NoLabelSet>(counted.sum.as_secs_f64(), counted.count(), &counted.buckets, None)
}

fn further(encoder: &mut DescriptorEncoder, sample: &MetricFamily) -> fmt::Result {
    let kind = match sample.shape {
        MetricKind::Counter => MetricType::Counter,
        MetricKind::Gauge => MetricType::Gauge,
    };
    let mut family = encoder.encode_descriptor(sample.name, sample.help, None, kind)?;
    for (labels, value) in &sample.values {
        let labels: Vec<(&str, &str)> = labels.iter().map(|(name, value)| (*name, &**value)).collect();
        let labels = labels.as_slice();
        if labels.is_empty() {
            write(&mut family, sample.shape, *value)?;
        } else {
            write(&mut family.encode_family(&labels)?, sample.shape, *value)?;
        }
    }
    Ok(())
}

fn write(metric: &mut MetricEncoder, shape: MetricKind, value: f64) -> fmt::Result {
    match shape {
        MetricKind::Counter => metric.encode_counter::<NoLabelSet, f64, f64>(&value, None),
        MetricKind::Gauge => metric.encode_gauge(&value),
    }
}

#[cfg(test)]
#[path = "exposition_tests.rs"]
mod tests;
