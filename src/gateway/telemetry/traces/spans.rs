//! The spans of an exchange, built from its record. Pure.
//!
//! Names and attributes follow OpenTelemetry's GenAI conventions (semantic-conventions-genai, "Spans for generative AI") for
//! upstream requests, its HTTP conventions for the caller's request, and `toolmark.…` for toolmark's own data. Spans never
//! contain the contents of messages, arguments or results.

use std::{
    collections::HashMap,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use http::Uri;
use opentelemetry::{
    Array, InstrumentationScope, KeyValue, StringValue, Value,
    trace::{Event, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState},
};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};

use super::ExchangeTrace;
use crate::{
    ledger::record::{AttemptRecord, ExchangeRecord, ExecutionRecord, Witness},
    openai::Api,
    violation::Code,
};

/// Provider and address of an upstream, as span attributes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UpstreamAttributes {
    provider: String,
    address: String,
    port: u16,
}

impl UpstreamAttributes {
    /// By the upstream's base URL. A provider that the conventions don't list is called by the upstream's name.
    pub fn of(base_url: &str, name: &str) -> Self {
        let uri: Uri = base_url.parse().unwrap_or_default();
        let address = uri.host().unwrap_or_default().to_owned();
        let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("http") { 80 } else { 443 });
        let known = PROVIDERS.iter().find(|(domain, _)| address == *domain || address.ends_with(&format!(".{domain}")));
        Self { provider: known.map_or(name, |(_, provider)| provider).to_owned(), address, port }
    }
}

/// Providers by domain, named as in the conventions; those that the conventions don't list are last.
const PROVIDERS: [(&str, &str); 16] = [
    ("openai.com", "openai"),
    ("openai.azure.com", "azure.ai.openai"),
    ("services.ai.azure.com", "azure.ai.inference"),
    ("anthropic.com", "anthropic"),
    ("groq.com", "groq"),
    ("mistral.ai", "mistral_ai"),
    ("deepseek.com", "deepseek"),
    ("x.ai", "x_ai"),
    ("cohere.com", "cohere"),
    ("moonshot.ai", "moonshot_ai"),
    ("perplexity.ai", "perplexity"),
    ("generativelanguage.googleapis.com", "gcp.gemini"),
    ("aiplatform.googleapis.com", "gcp.vertex_ai"),
    ("cerebras.ai", "cerebras"),
    ("openrouter.ai", "openrouter"),
    ("together.xyz", "together"),
];

/// All spans of an exchange: its own, those of its attempts, and those of tools that toolmark executed.
pub fn spans(
    trace: &ExchangeTrace,
    record: &ExchangeRecord,
    upstreams: &HashMap<Box<str>, UpstreamAttributes>,
    new_id: impl Fn() -> u64,
) -> Vec<SpanData> {
    let mut spans = vec![exchange(trace, record)];
    for (attempt, (id, begun)) in record.attempts.iter().zip(&trace.attempts) {
        spans.push(inference(trace, record, attempt, upstreams.get(&attempt.upstream), *id, *begun));
    }
    // Of the application's executions toolmark sees only the result, so they get no span.
    let own = record.executions.iter().filter(|execution| execution.witness == Witness::Proxy);
    spans.extend(own.map(|execution| tool(trace, execution, new_id())));
    spans
}

fn exchange(trace: &ExchangeTrace, record: &ExchangeRecord) -> SpanData {
    let path = match record.api {
        Api::Chat => "/v1/chat/completions",
        Api::Responses => "/v1/responses",
        Api::Messages => "/v1/messages",
    };
    let mut codes: Vec<Code> = record.violations.iter().map(|violation| violation.code).collect();
    codes.sort_unstable();
    codes.dedup();
    let codes: Vec<StringValue> = codes.iter().map(|code| code.as_str().into()).collect();
    let mut attributes = vec![
        KeyValue::new("http.request.method", "POST"),
        KeyValue::new("http.route", path),
        KeyValue::new("url.path", path),
        KeyValue::new("toolmark.exchange.id", record.id.to_string()),
        KeyValue::new("toolmark.verdict", record.verdict.as_str()),
        KeyValue::new("toolmark.repairs", i64::from(record.repairs)),
        KeyValue::new("toolmark.overhead_us", whole(record.overhead_us())),
        KeyValue::new("toolmark.policy", record.policy.to_string()),
        KeyValue::new("toolmark.violations", Value::Array(Array::String(codes))),
    ];
    attributes.extend(record.status.map(|status| KeyValue::new("http.response.status_code", i64::from(status))));
    attributes.extend(record.client.as_ref().map(|client| KeyValue::new("toolmark.client", client.to_string())));
    attributes.extend(conversation(record));
    let status = match record.status {
        Some(500..) => Status::error("the exchange failed"),
        _ => Status::Unset,
    };
    let mut events = SpanEvents::default();
    let ended = trace.begun + Duration::from_micros(record.total_us);
    events.events.extend(record.violations.iter().map(|violation| {
        let severity = format!("{:?}", violation.severity).to_lowercase();
        let attributes = vec![
            KeyValue::new("toolmark.violation.code", violation.code.as_str()),
            KeyValue::new("toolmark.violation.severity", severity),
            KeyValue::new("toolmark.violation.attempt", i64::from(violation.attempt)),
        ];
        Event::new("toolmark.violation", ended, attributes, 0)
    }));
    let parent = trace.parent.map_or(SpanId::INVALID, |parent| SpanId::from_bytes(parent.to_be_bytes()));
    SpanData {
        parent_span_id: parent,
        parent_span_is_remote: trace.parent.is_some(),
        events,
        status,
        ..span(trace, trace.own.span, SpanKind::Server, format!("POST {path}"), (trace.begun, ended), attributes)
    }
}

fn inference(
    trace: &ExchangeTrace,
    record: &ExchangeRecord,
    attempt: &AttemptRecord,
    served: Option<&UpstreamAttributes>,
    id: u64,
    begun: SystemTime,
) -> SpanData {
    let mut attributes = vec![
        KeyValue::new("gen_ai.operation.name", "chat"),
        KeyValue::new("gen_ai.request.model", attempt.model.to_string()),
        KeyValue::new("toolmark.upstream", attempt.upstream.to_string()),
    ];
    if let Some(UpstreamAttributes { provider, address, port }) = served {
        attributes.push(KeyValue::new("gen_ai.provider.name", provider.clone()));
        attributes.push(KeyValue::new("server.address", address.clone()));
        attributes.push(KeyValue::new("server.port", i64::from(*port)));
    }
    if record.stream {
        attributes.push(KeyValue::new("gen_ai.request.stream", true));
    }
    if let Some(tokens) = attempt.tokens {
        attributes.push(KeyValue::new("gen_ai.usage.input_tokens", whole(tokens.input)));
        attributes.push(KeyValue::new("gen_ai.usage.output_tokens", whole(tokens.output)));
    }
    attributes.extend(attempt.status.map(|status| KeyValue::new("http.response.status_code", i64::from(status))));
    attributes.extend(conversation(record));
    let failure = match attempt.status {
        None => Some("no_answer".to_owned()),
        Some(status @ 400..) => Some(status.to_string()),
        Some(_) => None,
    };
    attributes.extend(failure.iter().map(|why| KeyValue::new("error.type", why.clone())));
    let status = if failure.is_some() { Status::error("the upstream gave no answer") } else { Status::Unset };
    let ended = begun + Duration::from_micros(attempt.duration_us);
    SpanData { status, ..span(trace, id, SpanKind::Client, format!("chat {}", attempt.model), (begun, ended), attributes) }
}

fn tool(trace: &ExchangeTrace, execution: &ExecutionRecord, id: u64) -> SpanData {
    let attributes = vec![
        KeyValue::new("gen_ai.operation.name", "execute_tool"),
        KeyValue::new("gen_ai.tool.name", execution.tool.to_string()),
        KeyValue::new("gen_ai.tool.call.id", execution.mark.to_string()),
        KeyValue::new("gen_ai.tool.type", "function"),
        KeyValue::new("toolmark.execution.id", execution.id.to_string()),
    ];
    let at = |ms: u64| UNIX_EPOCH + Duration::from_millis(ms);
    let status = if execution.failed { Status::error("the tool reported a failure") } else { Status::Unset };
    let times = (at(execution.started_ms), at(execution.seen_ms));
    SpanData { status, ..span(trace, id, SpanKind::Internal, format!("execute_tool {}", execution.tool), times, attributes) }
}

fn span(
    trace: &ExchangeTrace,
    id: u64,
    span_kind: SpanKind,
    name: String,
    (start_time, end_time): (SystemTime, SystemTime),
    attributes: Vec<KeyValue>,
) -> SpanData {
    let trace_id = TraceId::from_bytes(trace.own.trace.to_be_bytes());
    let span_id = SpanId::from_bytes(id.to_be_bytes());
    SpanData {
        span_context: SpanContext::new(trace_id, span_id, TraceFlags::SAMPLED, false, TraceState::NONE),
        parent_span_id: SpanId::from_bytes(trace.own.span.to_be_bytes()),
        parent_span_is_remote: false,
        span_kind,
        name: name.into(),
        start_time,
        end_time,
        attributes,
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status: Status::Unset,
        instrumentation_scope: InstrumentationScope::builder("toolmark").with_version(env!("CARGO_PKG_VERSION")).build(),
    }
}

fn conversation(record: &ExchangeRecord) -> Option<KeyValue> {
    record.session.as_ref().map(|session| KeyValue::new("gen_ai.conversation.id", session.to_string()))
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn providers() {
        for (base_url, provider, address, port) in [
            ("https://api.openai.com/v1", "openai", "api.openai.com", 443),
            ("https://me.openai.azure.com/openai/v1", "azure.ai.openai", "me.openai.azure.com", 443),
            ("http://localhost:11434/v1", "mine", "localhost", 11434),
            ("https://notgroq.com/v1", "mine", "notgroq.com", 443),
        ] {
            let served = UpstreamAttributes { provider: provider.into(), address: address.into(), port };
            assert_eq!(UpstreamAttributes::of(base_url, "mine"), served);
        }
    }
}
