//! Traces over OTLP/HTTP, if OpenTelemetry's environment variables ask for them; otherwise none of this runs.
//!
//! Spans are built from the record when an exchange has ended; only their ids are created earlier, because upstreams get
//! them. A span is pushed to a bounded queue that a thread of the SDK empties: spans that don't fit are lost and counted by
//! the SDK, and no exchange waits.

mod spans;
mod traceparent;

use std::{
    collections::HashMap,
    time::{Duration, SystemTime},
};

use http::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry::{KeyValue, trace::SpanId};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::{
    Resource,
    trace::{BatchSpanProcessor, IdGenerator as _, RandomIdGenerator, SpanProcessor as _},
};

use spans::UpstreamAttributes;
pub use traceparent::TraceParent;

use crate::{
    ledger::record::ExchangeRecord,
    settings::{self, Sampler, UpstreamSettings},
    sys::tls,
};

/// Time allowed for sending the last spans when the process ends.
const LAST: Duration = Duration::from_secs(5);
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// Error of starting the exporter.
#[derive(Debug, thiserror::Error)]
#[error("traces can't be sent: {0}")]
pub struct Error(String);

/// Exporter of spans.
#[derive(Debug)]
pub struct Traces {
    processor: BatchSpanProcessor,
    ids: RandomIdGenerator,
    sampler: Sampler,
    upstreams: HashMap<Box<str>, UpstreamAttributes>,
}

/// Ids and times of one exchange's spans, while it runs.
#[derive(Debug)]
pub struct ExchangeTrace {
    /// The trace and the exchange's own span.
    own: TraceParent,
    /// The caller's span, if any.
    parent: Option<u64>,
    begun: SystemTime,
    /// Id and start of each attempt's span.
    attempts: Vec<(u64, SystemTime)>,
}

impl Traces {
    /// Starts the exporter.
    ///
    /// # Errors
    /// The exporter can't be built.
    pub fn start(settings: &settings::TraceSettings, upstreams: &[UpstreamSettings]) -> Result<Self, Error> {
        let (settings, url) = (settings.clone(), settings.endpoint.to_string());
        // The blocking client has its own runtime and can't be built inside another one.
        let made = std::thread::spawn(move || exporter(&settings, &url).map(|exporter| (exporter, settings))).join();
        let (exporter, settings) = made.map_err(|_| Error("the exporter broke off".into()))??;
        let attribute = |(name, value): &(Box<str>, Box<str>)| KeyValue::new(name.to_string(), value.to_string());
        let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
        let attributes = settings.resource.iter().map(attribute).chain([version]);
        let mut processor = BatchSpanProcessor::builder(exporter).build();
        processor.set_resource(&Resource::builder().with_attributes(attributes).build());
        let upstreams =
            upstreams.iter().map(|upstream| (upstream.name.clone(), UpstreamAttributes::of(&upstream.base_url, &upstream.name))).collect();
        Ok(Self { processor, ids: RandomIdGenerator::default(), sampler: settings.sampler, upstreams })
    }

    /// Begins the trace of an exchange. `headers`: the caller's.
    pub fn begin(&self, headers: &HeaderMap) -> ExchangeTrace {
        let parent = headers.get(TRACEPARENT).and_then(|value| TraceParent::parse(value.as_bytes()));
        let trace = parent.map_or_else(|| u128::from_be_bytes(self.ids.new_trace_id().to_bytes()), |parent| parent.trace);
        let sampled = match parent {
            Some(parent) if self.sampler.parent_based => parent.sampled,
            _ => chosen(trace, self.sampler.ratio),
        };
        let own = TraceParent { trace, span: self.span_id(), sampled };
        ExchangeTrace { own, parent: parent.map(|parent| parent.span), begun: SystemTime::now(), attempts: Vec::new() }
    }

    /// Begins an attempt and sets its `traceparent`. `headers`: those sent upstream.
    pub fn attempt(&self, trace: &mut ExchangeTrace, headers: &mut HeaderMap) {
        let span = self.span_id();
        trace.attempts.push((span, SystemTime::now()));
        let parent = TraceParent { span, ..trace.own };
        if let Ok(value) = HeaderValue::from_str(&parent.to_string()) {
            headers.insert(TRACEPARENT, value);
        }
    }

    /// Sends the spans of an exchange that has ended.
    pub fn end(&self, trace: &ExchangeTrace, record: &ExchangeRecord) {
        if trace.own.sampled {
            spans::spans(trace, record, &self.upstreams, || self.span_id()).into_iter().for_each(|span| self.processor.on_end(span));
        }
    }

    /// Sends the remaining spans. Blocks, at most five seconds.
    pub fn close(&self) {
        if let Err(error) = self.processor.shutdown_with_timeout(LAST) {
            tracing::warn!(%error, "the last traces could not be sent");
        }
    }

    fn span_id(&self) -> u64 {
        u64::from_be_bytes(SpanId::to_bytes(self.ids.new_span_id()))
    }
}

fn exporter(settings: &settings::TraceSettings, url: &str) -> Result<SpanExporter, Error> {
    let failed = |error: &dyn std::fmt::Display| Error(error.to_string());
    // A redirect would send the credentials in the headers to another server.
    let refused = reqwest::redirect::Policy::custom(|attempt| {
        attempt.error("it is a redirect, and none is followed: is the endpoint of `[traces]` right?")
    });
    let tls = tls::http_client_config(tls::TrustedRoots::Platform).map_err(|error| failed(&error))?;
    let mut client = reqwest::blocking::Client::builder().timeout(settings.timeout).redirect(refused).tls_backend_preconfigured(tls);
    let host = url.parse::<http::Uri>().ok().and_then(|uri| uri.host().map(str::to_owned)).unwrap_or_default();
    if host == "localhost" || host.trim_matches(['[', ']']).parse().is_ok_and(|ip: std::net::IpAddr| ip.to_canonical().is_loopback()) {
        client = client.no_proxy();
    }
    let client = client.build().map_err(|error| failed(&error))?;
    let headers = settings.headers.iter().map(|(name, value)| (name.to_string(), value.expose().to_owned())).collect();
    let builder = SpanExporter::builder().with_http().with_http_client(client).with_protocol(Protocol::HttpBinary);
    builder.with_endpoint(url).with_headers(headers).with_timeout(settings.timeout).build().map_err(|error| failed(&error))
}

/// True if a trace with this id is sampled. The result is the same everywhere, as `TraceIdRatioBased` requires.
fn chosen(trace: u128, ratio: f64) -> bool {
    let bound = (ratio * (1_u64 << 63) as f64) as u64;
    ((trace as u64) >> 1) < bound
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares() {
        assert!(chosen(u128::MAX, 1.0) && chosen(0, 0.5) && !chosen(0, 0.0) && !chosen(u128::from(u64::MAX), 0.9));
    }
}
