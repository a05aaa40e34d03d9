//! Export of traces, configured by OpenTelemetry's own environment variables. toolmark has no settings of its own for it.
//!
//! Source: OpenTelemetry specification, "Environment Variable Specification" and "OTLP Exporter Configuration".

use std::time::Duration;

use http::Uri;

use crate::{ConfigError, Environment, Secret};

/// Names and values.
pub type KeyValues = Vec<(Box<str>, Box<str>)>;

/// Settings of the export of traces.
#[derive(Clone, Debug)]
pub struct TraceSettings {
    /// The complete URL of the collector.
    pub endpoint: Box<str>,
    /// Headers of every request; they may contain a key.
    pub headers: Vec<(Box<str>, Secret)>,
    /// Timeout of a request.
    pub timeout: Duration,
    /// `service.name` and the other attributes of this process.
    pub resource: KeyValues,
    /// Choice of the traces that are exported.
    pub sampler: Sampler,
}

/// Choice of the traces that are exported.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampler {
    /// The caller's sampling decision, if any, takes precedence.
    pub parent_based: bool,
    /// Fraction of the other traces that are exported, 0 to 1.
    pub ratio: f64,
}

/// Reads the settings from the environment; `None`: traces are not exported.
///
/// # Errors
/// The first invalid variable.
pub(crate) fn traces(environment: &Environment) -> Result<Option<TraceSettings>, ConfigError> {
    let lookup = |name: &str| environment.lookup(name).map(str::trim).filter(|text| !text.is_empty());
    let either = |name: &str| {
        let own = format!("OTEL_EXPORTER_OTLP_TRACES_{name}");
        let common = format!("OTEL_EXPORTER_OTLP_{name}");
        lookup(&own).map(|text| (own.clone(), text.to_owned())).or_else(|| lookup(&common).map(|text| (common.clone(), text.to_owned())))
    };
    let off =
        lookup("OTEL_SDK_DISABLED").is_some_and(|text| text.eq_ignore_ascii_case("true")) || lookup("OTEL_TRACES_EXPORTER") == Some("none");
    let Some((name, endpoint)) = either("ENDPOINT").filter(|_| !off) else { return Ok(None) };
    if cfg!(not(feature = "otlp")) {
        return Err(fault(&name, crate::NO_TRACES));
    }
    let plain = endpoint.parse::<Uri>().is_ok_and(|uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some());
    if !plain {
        return Err(fault(&name, "no URL: write it like `http://localhost:4318`"));
    }
    let endpoint = if name.contains("TRACES") { endpoint } else { format!("{}/v1/traces", endpoint.trim_end_matches('/')) };
    if let Some((name, protocol)) = either("PROTOCOL").filter(|(_, protocol)| protocol != "http/protobuf") {
        return Err(fault(
            &name,
            &format!("`{protocol}` isn't spoken here, only `http/protobuf`: send it to the collector's HTTP port, mostly 4318"),
        ));
    }
    let timeout = match either("TIMEOUT") {
        None => TIMEOUT,
        Some((name, text)) => {
            let parsed = text.parse().ok().filter(|timeout_ms| (1..=60_000).contains(timeout_ms)).map(Duration::from_millis);
            parsed.ok_or_else(|| fault(&name, &format!("`{text}` is no number of milliseconds up to 60000")))?
        }
    };
    let headers = match either("HEADERS") {
        None => Vec::new(),
        Some((name, text)) => {
            let pairs = pairs(&text).ok_or_else(|| fault(&name, "expected names and values like `api-key=…,x-other=…`"))?;
            pairs.into_iter().map(|(name, value)| (name, Secret::new(value))).collect()
        }
    };
    let sampler = sampler(lookup("OTEL_TRACES_SAMPLER"), lookup("OTEL_TRACES_SAMPLER_ARG"))?;
    Ok(Some(TraceSettings { endpoint: endpoint.into(), headers, timeout, resource: resource(lookup)?, sampler }))
}

fn resource<'e>(lookup: impl Fn(&str) -> Option<&'e str>) -> Result<KeyValues, ConfigError> {
    const NAME: &str = "OTEL_RESOURCE_ATTRIBUTES";
    let wrong = || fault(NAME, "expected names and values like `deployment.environment.name=production,…`");
    let mut resource = lookup(NAME).map_or(Ok(Vec::new()), |text| pairs(text).ok_or_else(wrong))?;
    if let Some(own) = lookup("OTEL_SERVICE_NAME") {
        resource.retain(|(name, _)| &**name != SERVICE_NAME);
        resource.push((SERVICE_NAME.into(), own.into()));
    }
    if !resource.iter().any(|(name, _)| &**name == SERVICE_NAME) {
        resource.push((SERVICE_NAME.into(), "toolmark".into()));
    }
    Ok(resource)
}

fn sampler(name: Option<&str>, argument: Option<&str>) -> Result<Sampler, ConfigError> {
    let ratio = || match argument {
        None => Ok(1.0),
        Some(text) => {
            let parsed = text.parse::<f64>().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
            parsed.ok_or_else(|| fault("OTEL_TRACES_SAMPLER_ARG", &format!("`{text}` is no share of 0 to 1")))
        }
    };
    Ok(match name.unwrap_or("parentbased_always_on") {
        "always_on" => Sampler { parent_based: false, ratio: 1.0 },
        "always_off" => Sampler { parent_based: false, ratio: 0.0 },
        "traceidratio" => Sampler { parent_based: false, ratio: ratio()? },
        "parentbased_always_on" => Sampler { parent_based: true, ratio: 1.0 },
        "parentbased_always_off" => Sampler { parent_based: true, ratio: 0.0 },
        "parentbased_traceidratio" => Sampler { parent_based: true, ratio: ratio()? },
        other => {
            let known = "always_on, always_off, traceidratio, parentbased_always_on, parentbased_always_off, parentbased_traceidratio";
            return Err(fault("OTEL_TRACES_SAMPLER", &format!("`{other}` is no sampler known here; known: {known}")));
        }
    })
}

/// `name=value,…`, percent-decoded, as W3C Baggage writes it.
fn pairs(text: &str) -> Option<KeyValues> {
    let pair = |part: &str| {
        let (name, value) = part.split_once('=')?;
        // A plus sign is literal here; only percent signs are escapes.
        let decoded =
            form_urlencoded::parse(format!("v={}", value.trim().replace('+', "%2B").replace('&', "%26")).as_bytes()).next()?.1.into_owned();
        let name = name.trim();
        (!name.is_empty()).then(|| (name.into(), decoded.into()))
    };
    text.split(',').filter(|part| !part.trim().is_empty()).map(pair).collect()
}

fn fault(variable: &str, message: &str) -> ConfigError {
    ConfigError { place: format!("environment variable {variable}"), line: None, key: String::new(), message: message.into() }
}

const SERVICE_NAME: &str = "service.name";
const TIMEOUT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318/");

    #[test]
    fn variables() {
        assert!(traces(&Environment::of(&[])).unwrap().is_none());
        for off in [("OTEL_SDK_DISABLED", "true"), ("OTEL_TRACES_EXPORTER", "none")] {
            assert!(traces(&Environment::of(&[ENDPOINT, off])).unwrap().is_none());
        }
        let set =
            [ENDPOINT, ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=s3cret%2C+1, x=y"), ("OTEL_RESOURCE_ATTRIBUTES", "a=b,service.name=c")];
        let read = traces(&Environment::of(&set)).unwrap().unwrap();
        assert_eq!(&*read.endpoint, "http://localhost:4318/v1/traces");
        let headers: Vec<_> = read.headers.iter().map(|(name, value)| (&**name, value.expose())).collect();
        assert_eq!(headers, [("api-key", "s3cret,+1"), ("x", "y")]);
        assert_eq!(read.resource, [("a".into(), "b".into()), ("service.name".into(), "c".into())]);
        assert_eq!((read.sampler, read.timeout), (Sampler { parent_based: true, ratio: 1.0 }, TIMEOUT));
        assert!(!format!("{read:?}").contains("s3cret"));
        let own = [
            ENDPOINT,
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://c/t"),
            ("OTEL_TRACES_SAMPLER", "traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "0.25"),
        ];
        let read = traces(&Environment::of(&own)).unwrap().unwrap();
        assert_eq!((&*read.endpoint, read.sampler.ratio, &*read.resource[0].1), ("https://c/t", 0.25, "toolmark"));
    }

    #[test]
    fn what_is_refused() {
        for (name, value, words) in [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "localhost:4318", "no URL"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "only `http/protobuf`"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s", "milliseconds"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "nonsense", "names and values"),
            ("OTEL_RESOURCE_ATTRIBUTES", "nonsense", "names and values"),
            ("OTEL_TRACES_SAMPLER", "sometimes", "known: always_on"),
            ("OTEL_TRACES_SAMPLER_ARG", "2", "0 to 1"),
        ] {
            let sampler = ("OTEL_TRACES_SAMPLER", "traceidratio");
            let set: Vec<_> = [ENDPOINT, sampler].into_iter().filter(|(own, _)| *own != name).chain([(name, value)]).collect();
            let error = traces(&Environment::of(&set)).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains(words), "{error}");
        }
    }
}
