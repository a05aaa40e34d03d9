//! Traces, as a collector receives them.

use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{KeyValue, any_value},
    trace::v1::{Span, span::SpanKind},
};
use prost::Message as _;
use toolmark::testing::{ScriptedReply, ScriptedUpstream};

use crate::admin::stage::{Stage, send};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// Takes what is sent as a collector does.
fn collector() -> ScriptedUpstream {
    ScriptedUpstream::start(|_| ScriptedReply::json(200, "").header("content-type", "application/x-protobuf")).unwrap()
}

fn received(collector: &ScriptedUpstream) -> Vec<(Vec<KeyValue>, Span)> {
    let requests = collector.received();
    assert!(requests.iter().all(|request| request.line == "POST /v1/traces" && request.headers["api-key"] == "s3cret"));
    let decoded = requests.into_iter().map(|request| ExportTraceServiceRequest::decode(request.body).unwrap());
    let spans = decoded.flat_map(|request| request.resource_spans).flat_map(|of| {
        let resource = of.resource.map(|resource| resource.attributes).unwrap_or_default();
        of.scope_spans.into_iter().flat_map(|scope| scope.spans).map(move |span| (resource.clone(), span))
    });
    spans.collect()
}

/// The value of an attribute, as text.
fn attribute(attributes: &[KeyValue], name: &str) -> String {
    let found = attributes.iter().find(|attribute| attribute.key == name).and_then(|attribute| attribute.value.clone()?.value);
    match found {
        Some(any_value::Value::StringValue(text)) => text,
        Some(any_value::Value::IntValue(number)) => number.to_string(),
        Some(any_value::Value::BoolValue(flag)) => flag.to_string(),
        Some(any_value::Value::ArrayValue(array)) => format!("{} values", array.values.len()),
        other => format!("{other:?}"),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn traced(environment: &[(&str, &str)], collector: &ScriptedUpstream) -> Stage {
    let endpoint = collector.base_url().replace("/v1", "");
    let own =
        [("OTEL_EXPORTER_OTLP_ENDPOINT", &*endpoint), ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=s3cret"), ("OTEL_SERVICE_NAME", "gate")];
    Stage::with_environment("default", "", &[&own[..], environment].concat())
}

fn chat(stage: &Stage, headers: &[(&str, &str)]) {
    let body = r#"{"model":"m","messages":[{"role":"user","content":"Weather?"}],"tools":[{"type":"function","function":{"name":"get_weather","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}}]}"#;
    let headers = [&[("content-type", "application/json"), ("toolmark-session", "abc")], headers].concat();
    let answer = send("POST", &format!("{}/chat/completions", stage.proxy.base_url()), &headers, body);
    assert_eq!(answer.header("toolmark-verdict"), "repaired", "{answer:?}");
}

#[test]
fn a_collector_gets_the_documented_spans() {
    let collector = collector();
    let stage = traced(&[], &collector);
    chat(&stage, &[("traceparent", CALLER)]);
    let upstream: Vec<String> =
        stage.upstream.received().iter().map(|request| request.headers["traceparent"].to_str().unwrap().to_owned()).collect();
    // What is left is sent when it stops.
    drop(stage);
    let spans = received(&collector);
    assert_eq!(spans.len(), 3, "{spans:?}");
    let (resource, own) = spans.iter().find(|(_, span)| span.kind() == SpanKind::Server).unwrap();
    assert_eq!((attribute(resource, "service.name"), &*own.name), ("gate".into(), "POST /v1/chat/completions"));
    assert_eq!((hex(&own.trace_id), hex(&own.parent_span_id)), (TRACE.into(), "b7ad6b7169203331".into()));
    for (name, value) in [
        ("toolmark.verdict", "repaired"),
        ("toolmark.repairs", "1"),
        ("toolmark.violations", "1 values"),
        ("gen_ai.conversation.id", "abc"),
        ("http.response.status_code", "200"),
        ("http.route", "/v1/chat/completions"),
    ] {
        assert_eq!(attribute(&own.attributes, name), value, "{name}");
    }
    let [event] = &own.events[..] else { panic!("{:?}", own.events) };
    assert_eq!((&*event.name, attribute(&event.attributes, "toolmark.violation.code")), ("toolmark.violation", "unknown_tool".into()));
    let attempts: Vec<&Span> = spans.iter().map(|(_, span)| span).filter(|span| span.kind() == SpanKind::Client).collect();
    for attempt in &attempts {
        assert_eq!((&*attempt.name, &attempt.trace_id, &attempt.parent_span_id), ("chat m", &own.trace_id, &own.span_id));
        for (name, value) in [
            ("gen_ai.operation.name", "chat"),
            ("gen_ai.provider.name", "scripted"),
            ("gen_ai.request.model", "m"),
            ("gen_ai.usage.input_tokens", "11"),
            ("gen_ai.usage.output_tokens", "7"),
            ("server.address", "127.0.0.1"),
        ] {
            assert_eq!(attribute(&attempt.attributes, name), value, "{name}");
        }
        assert!(attempt.start_time_unix_nano >= own.start_time_unix_nano && attempt.end_time_unix_nano >= attempt.start_time_unix_nano);
    }
    let named: Vec<String> = attempts.iter().map(|attempt| format!("00-{TRACE}-{}-01", hex(&attempt.span_id))).collect();
    assert_eq!(upstream, named, "the upstream gets its attempt's span as its parent");
    let all = format!("{spans:?}");
    assert!(!all.contains("Weather?") && !all.contains("Paris"), "{all}");
}

#[test]
fn whoever_calls_decides_what_is_recorded() {
    let collector = collector();
    let stage = traced(&[], &collector);
    chat(&stage, &[("traceparent", &CALLER.replace("-01", "-00"))]);
    let unsampled = stage.upstream.received();
    assert!(unsampled.iter().all(|request| request.headers["traceparent"].to_str().unwrap().ends_with("-00")));
    chat(&stage, &[("traceparent", "nonsense")]);
    let begun = stage.upstream.received().pop().unwrap().headers["traceparent"].to_str().unwrap().to_owned();
    assert!(begun.starts_with("00-") && begun.ends_with("-01") && begun.len() == CALLER.len() && !begun.contains(TRACE), "{begun}");
    drop(stage);
    let spans = received(&collector);
    assert!(spans.len() == 3 && spans.iter().all(|(_, span)| hex(&span.trace_id) != TRACE));
    let own = spans.iter().find(|(_, span)| span.kind() == SpanKind::Server).unwrap();
    assert!(own.1.parent_span_id.is_empty());
}

#[test]
fn without_a_collector_traceparent_is_a_header_like_any_other() {
    let stage = Stage::new("default", "");
    chat(&stage, &[("traceparent", CALLER), ("tracestate", "a=b")]);
    for request in stage.upstream.received() {
        assert_eq!(request.headers["traceparent"], CALLER);
        assert_eq!(request.headers["tracestate"], "a=b");
    }
}
