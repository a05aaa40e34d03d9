//! Probes of `[[state]]`: a tool of an MCP server, or one GET request. Values and their compilation.

use serde::Deserialize;
use serde_json::{Map, Value};
use url::Url;

/// `[[state]] probe`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Probe {
    /// Name of the server in `[[mcp]]`.
    pub mcp: Option<String>,
    /// Name of the server's tool.
    pub tool: Option<String>,
    /// Arguments, with `{{name}}` as placeholders.
    pub arguments: Map<String, Value>,
    /// Declares the tool read-only, if it doesn't do so itself.
    pub read_only: bool,
    /// A GET request instead: `GET https://host/path/{{name}}`; the settings must list the host.
    pub http: Option<String>,
}

/// Compiled probe of a state rule.
#[derive(Clone, Debug)]
pub enum CompiledProbe {
    /// A call of a read-only tool.
    Mcp {
        /// Name of the MCP server.
        server: Box<str>,
        /// Name of the tool.
        tool: Box<str>,
        /// Arguments, with `{{name}}` as placeholders.
        arguments: Value,
        /// The rule declares the tool read-only.
        read_only: bool,
    },
    /// A GET request.
    Http(HttpProbe),
}

/// A GET request with placeholders in its path and query.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HttpProbe {
    /// `https://host:port`, without a path.
    pub origin: Box<str>,
    /// The host, as URLs contain it.
    pub host: Box<str>,
    /// The port, possibly the scheme's default.
    pub port: u16,
    /// Path and query, with `{{name}}` as placeholders.
    pub template: Box<str>,
}

impl CompiledProbe {
    /// Compiles a probe of the policy.
    ///
    /// # Errors
    /// The key that is wrong, and the reason.
    pub(super) fn of(probe: &Probe) -> Result<Self, (&'static str, String)> {
        match (&probe.mcp, &probe.tool, &probe.http) {
            (Some(server), Some(tool), None) => Ok(Self::Mcp {
                server: server.as_str().into(),
                tool: tool.as_str().into(),
                arguments: Value::Object(probe.arguments.clone()),
                read_only: probe.read_only,
            }),
            (None, None, Some(http)) if probe.arguments.is_empty() && !probe.read_only => {
                HttpProbe::parse(http).map(Self::Http).map_err(|why| ("probe.http", why))
            }
            (None, None, Some(_)) => Err(("probe.http", "a GET has no `arguments`, and only reads: leave them and `read_only` out".into())),
            _ => Err((
                "probe",
                "say { mcp = \"todo\", tool = \"list_tasks\" }, a server of [[mcp]] and a tool of it that only reads, or \
                 { http = \"GET https://tasks.example.com/{{id}}\" }"
                    .into(),
            )),
        }
    }
}

impl HttpProbe {
    /// Parses `GET https://host/path/{{id}}?q={{name}}`.
    ///
    /// # Errors
    /// A description of the error.
    pub fn parse(text: &str) -> Result<Self, String> {
        const FORM: &str = "write it like \"GET https://tasks.example.com/tasks/{{id}}\"";
        let url = text.strip_prefix("GET ").map(str::trim).ok_or_else(|| format!("only GET is sent: {FORM}"))?;
        let after = url.split_once("://").map(|(_, rest)| rest).ok_or(FORM)?;
        let path_at = url.len() - after.len() + after.find(['/', '?', '#']).unwrap_or(after.len());
        let (origin, template) = url.split_at(path_at);
        if origin.contains('{') || template.contains('#') {
            return Err(format!("values stand in the path and the query only: {FORM}"));
        }
        if template.matches("{{").count() != template.matches("}}").count() {
            return Err(format!("a `{{{{` without its `}}}}`, or the other way round: {FORM}"));
        }
        let parsed = Url::parse(origin).ok().filter(|url| matches!(url.scheme(), "http" | "https")).ok_or(FORM)?;
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err("credentials don't belong in a policy".into());
        }
        let (Some(host), Some(port)) = (parsed.host_str(), parsed.port_or_known_default()) else { return Err(FORM.into()) };
        let template = if template.starts_with('/') { template.to_owned() } else { format!("/{template}") };
        let origin = parsed.as_str().trim_end_matches('/');
        Ok(Self { origin: origin.into(), host: host.into(), port, template: template.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_gets_with_values_in_path_and_query_are_taken() {
        let probe = HttpProbe::parse("GET https://Tasks.example.com/v1/{{id}}?by={{name}}").unwrap();
        assert_eq!((&*probe.origin, &*probe.host, probe.port), ("https://tasks.example.com", "tasks.example.com", 443));
        assert_eq!(&*probe.template, "/v1/{{id}}?by={{name}}");
        let probe = HttpProbe::parse("GET http://[::1]:8000?id={{id}}").unwrap();
        assert_eq!((&*probe.host, probe.port, &*probe.template), ("[::1]", 8000, "/?id={{id}}"));
        for wrong in [
            "POST https://a/x",
            "https://a/x",
            "GET ftp://a/x",
            "GET https://{{host}}/x",
            "GET https://a:{{port}}/x",
            "GET {{url}}",
            "GET https://u:p@a/x",
            "GET https://a/x#{{y}}",
            "GET https://a/{{x",
            "GET ",
        ] {
            assert!(HttpProbe::parse(wrong).is_err(), "{wrong}");
        }
    }
}
