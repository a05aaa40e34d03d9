//! Which path is what. CONTRACT.md, "Endpoints": a closed list; everything else is refused. Pure.

use http::Method;

/// What is done with a request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Route {
    /// `POST /v1/chat/completions`
    Chat,
    /// `POST /v1/responses`
    Responses,
    /// `GET /healthz`
    Health,
    /// Let through untouched, to this path below the upstream's base URL.
    Pass(String),
    /// Can carry tool calls, or isn't known: 501.
    NotEnforced,
    /// Spelled so that others may read another path: 400.
    InvalidPath,
}

/// Finds the route. `further`: the settings' `passthrough`.
pub fn route(method: &Method, path: &str, further: &[String]) -> Route {
    let Some(path) = normalised(path) else { return Route::InvalidPath };
    if path == "/healthz" && *method == Method::GET {
        return Route::Health;
    }
    let path = path.strip_prefix("/openai").filter(|rest| rest.starts_with("/v1/")).unwrap_or(&path);
    let Some(rest) = path.strip_prefix("/v1") else { return Route::NotEnforced };
    if rest == "/chat/completions" && *method == Method::POST {
        return Route::Chat;
    }
    if rest == "/responses" && *method == Method::POST {
        return Route::Responses;
    }
    let named = further.iter().any(|own| matches_setting(own, path));
    if passes(method, rest) || named { Route::Pass(rest.to_owned()) } else { Route::NotEnforced }
}

fn passes(method: &Method, rest: &str) -> bool {
    let below = |prefix: &str| rest.strip_prefix(prefix).is_some_and(|tail| tail.starts_with('/'));
    match *method {
        Method::GET if rest == "/models" || below("/models") => true,
        Method::POST if matches!(rest, "/embeddings" | "/moderations" | "/completions") => true,
        Method::POST if below("/audio") || below("/images") => true,
        Method::GET | Method::POST | Method::DELETE => rest == "/files" || below("/files"),
        _ => false,
    }
}

/// `/v1/rerank` names itself; `/v1/rerank/*` what is below. What is enforced or refused by name stays so.
fn matches_setting(own: &str, path: &str) -> bool {
    let guarded = ["/v1/chat", "/v1/responses", "/v1/messages"];
    if guarded.iter().any(|prefix| path.strip_prefix(prefix).is_some_and(|tail| tail.is_empty() || tail.starts_with('/'))) {
        return false;
    }
    match own.strip_suffix("/*") {
        Some(prefix) => path.strip_prefix(prefix).is_some_and(|tail| tail.starts_with('/')),
        None => path == own,
    }
}

/// The path with single slashes and none at the end; `None` where a part of it is a dot segment, or hides a
/// slash, a backslash or a dot behind an escape.
fn normalised(path: &str) -> Option<String> {
    // The usual path has neither escapes nor backslashes.
    if path.bytes().any(|byte| matches!(byte, b'%' | b'\\')) {
        let lower = path.to_ascii_lowercase();
        if ["%2f", "%5c", "%2e", "%25", "%00", "\\"].iter().any(|hidden| lower.contains(hidden)) {
            return None;
        }
    }
    let mut out = String::with_capacity(path.len());
    for segment in path.split('/').filter(|segment| !segment.is_empty()) {
        if matches!(segment, "." | "..") {
            return None;
        }
        out.push('/');
        out.push_str(segment);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes() {
        let pass = |rest: &str| Route::Pass(rest.to_owned());
        for (method, path, expected) in [
            (Method::POST, "/v1/chat/completions", Route::Chat),
            (Method::POST, "//v1//chat/completions/", Route::Chat),
            (Method::POST, "/openai/v1/chat/completions", Route::Chat),
            (Method::GET, "/v1/chat/completions", Route::NotEnforced),
            (Method::GET, "/v1/chat/completions/x", Route::NotEnforced),
            (Method::POST, "/chat/completions", Route::NotEnforced),
            (Method::POST, "/v1/Chat/Completions", Route::NotEnforced),
            (Method::POST, "/v1/chat/completion%73", Route::NotEnforced),
            (Method::POST, "/v1/chat%2fcompletions", Route::InvalidPath),
            (Method::POST, "/v1/models/../chat/completions", Route::InvalidPath),
            (Method::POST, "/v1/%2e%2e/v1/chat/completions", Route::InvalidPath),
            (Method::POST, "/v1/embeddings%252f..", Route::InvalidPath),
            (Method::POST, "/v1\\chat/completions", Route::InvalidPath),
            (Method::GET, "/v1/models", pass("/models")),
            (Method::GET, "/v1/models/accounts/x/y", pass("/models/accounts/x/y")),
            (Method::POST, "/v1/models", Route::NotEnforced),
            (Method::POST, "/v1/embeddings", pass("/embeddings")),
            (Method::POST, "/v1/completions", pass("/completions")),
            (Method::POST, "/v1/audio/speech", pass("/audio/speech")),
            (Method::POST, "/v1/audiox", Route::NotEnforced),
            (Method::DELETE, "/v1/files/f1", pass("/files/f1")),
            (Method::PUT, "/v1/files/f1", Route::NotEnforced),
            (Method::POST, "/v1/responses", Route::Responses),
            (Method::GET, "/v1/responses/resp_1", Route::NotEnforced),
            (Method::POST, "/v1/responses/compact", Route::NotEnforced),
            (Method::POST, "/v1/messages", Route::NotEnforced),
            (Method::POST, "/v1/batches", Route::NotEnforced),
            (Method::POST, "/v1/rerank", pass("/rerank")),
            (Method::POST, "/v1/x/y", pass("/x/y")),
            (Method::GET, "/healthz", Route::Health),
            (Method::GET, "/", Route::NotEnforced),
        ] {
            let further = ["/v1/rerank".to_owned(), "/v1/x/*".to_owned(), "/v1/responses".to_owned()];
            assert_eq!(route(&method, path, &further), expected, "{method} {path}");
        }
    }
}
