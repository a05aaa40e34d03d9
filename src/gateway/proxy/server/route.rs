//! Routes by method and path. docs/contract.md, "Endpoints": a closed list; everything else is refused. Pure.

use http::Method;

use crate::openai::path::normalised;

/// Handling of a request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Route {
    /// `POST /v1/chat/completions`
    Chat,
    /// `POST /v1/responses`
    Responses,
    /// `POST /v1/messages`
    Messages,
    /// Stored responses and conversations of upstreams.
    Stored(Stored),
    /// `POST /v1/messages/count_tokens`
    CountTokens,
    /// `GET /healthz`
    Health,
    /// `HEAD /api/hello`, by which Claude Code looks whether anybody is there.
    Hello,
    /// Let through untouched, to this path below the upstream's base URL.
    Pass(String),
    /// Let through untouched, to this path beside `/v1` of the upstream, as `/health`.
    PassBeside(String),
    /// It can carry tool calls, or isn't known: 501.
    NotEnforced,
    /// Its spelling could be read as another path: 400.
    InvalidPath,
}

/// Request for stored objects, with the IDs in its path.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Stored {
    /// `GET` and `DELETE /v1/responses/{id}`
    Response(String),
    /// `GET /v1/responses/{id}/input_items`
    InputItems(String),
    /// `POST /v1/responses/{id}/cancel`
    Cancel(String),
    /// `POST /v1/responses/compact`
    Compact,
    /// `POST /v1/responses/input_tokens`
    InputTokens,
    /// `POST /v1/conversations`
    Conversations,
    /// `GET`, `POST` and `DELETE /v1/conversations/{id}`
    Conversation(String),
    /// `GET` and `POST /v1/conversations/{id}/items`
    Items(String),
    /// `GET` and `DELETE /v1/conversations/{id}/items/{item}`
    Item(String, String),
}

impl Stored {
    /// ID of the response or conversation in the path.
    pub fn id(&self) -> Option<&str> {
        match self {
            Self::Response(id) | Self::InputItems(id) | Self::Cancel(id) | Self::Conversation(id) | Self::Items(id) | Self::Item(id, _) => {
                Some(id)
            }
            Self::Compact | Self::InputTokens | Self::Conversations => None,
        }
    }

    /// Parses a path below the base URL.
    fn of(method: &Method, rest: &str) -> Option<Self> {
        let parts: Vec<&str> = rest.split('/').skip(1).collect();
        let id = |text: &&str| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.~:=".contains(&byte);
            (1..=ID_BYTES_MAX).contains(&text.len()) && text.bytes().all(plain) && !matches!(*text, "compact" | "input_tokens")
        };
        let (get, post, delete) = (*method == Method::GET, *method == Method::POST, *method == Method::DELETE);
        match &parts[..] {
            ["responses", "compact"] if post => Some(Self::Compact),
            ["responses", "input_tokens"] if post => Some(Self::InputTokens),
            ["responses", own] if (get || delete) && id(own) => Some(Self::Response((*own).to_owned())),
            ["responses", own, "input_items"] if get && id(own) => Some(Self::InputItems((*own).to_owned())),
            ["responses", own, "cancel"] if post && id(own) => Some(Self::Cancel((*own).to_owned())),
            ["conversations"] if post => Some(Self::Conversations),
            ["conversations", own] if (get || post || delete) && id(own) => Some(Self::Conversation((*own).to_owned())),
            ["conversations", own, "items"] if (get || post) && id(own) => Some(Self::Items((*own).to_owned())),
            ["conversations", own, "items", item] if (get || delete) && id(own) && id(item) => {
                Some(Self::Item((*own).to_owned(), (*item).to_owned()))
            }
            _ => None,
        }
    }
}

/// Maximum bytes of an ID in a path.
const ID_BYTES_MAX: usize = 256;

/// Finds the route. `further`: paths in the settings' `passthrough`.
pub fn route(method: &Method, path: &str, further: &[String]) -> Route {
    let Some(path) = normalised(path) else { return Route::InvalidPath };
    if path == "/healthz" && *method == Method::GET {
        return Route::Health;
    }
    if path == "/api/hello" && matches!(*method, Method::HEAD | Method::GET) {
        return Route::Hello;
    }
    if let Some(rest) = of_messages(&path).filter(|_| *method == Method::POST) {
        match rest {
            "/messages" => return Route::Messages,
            "/messages/count_tokens" => return Route::CountTokens,
            _ => {}
        }
    }
    let path = path.strip_prefix("/openai").filter(|rest| rest.starts_with("/v1/")).unwrap_or(&path);
    // Clients whose base URL has no `/v1` mean the same.
    let rest = path.strip_prefix("/v1").filter(|rest| rest.starts_with('/')).unwrap_or(path);
    if rest == "/chat/completions" && *method == Method::POST {
        return Route::Chat;
    }
    if rest == "/responses" && *method == Method::POST {
        return Route::Responses;
    }
    if let Some(stored) = Stored::of(method, rest) {
        return Route::Stored(stored);
    }
    if passes(method, rest) {
        return Route::Pass(rest.to_owned());
    }
    if is_guarded(rest) {
        return Route::NotEnforced;
    }
    let named = |path: &str| further.iter().any(|own| matches_setting(own, path));
    match path.len() == rest.len() {
        true if named(path) => Route::PassBeside(path.to_owned()),
        true if named(&format!("/v1{path}")) => Route::Pass(rest.to_owned()),
        false if named(path) => Route::Pass(rest.to_owned()),
        _ => Route::NotEnforced,
    }
}

/// Path of a request of Anthropic's Messages API below the version, by any of the paths that its clients send; `None` for
/// other paths. `path`: with single slashes.
pub fn of_messages(path: &str) -> Option<&str> {
    let path = path.strip_prefix("/anthropic").unwrap_or(path);
    // Where a client's base URL has a version, the SDKs add another.
    let path = path.strip_prefix("/v1").unwrap_or(path);
    let path = path.strip_prefix("/v1").unwrap_or(path);
    path.strip_prefix("/messages").filter(|tail| tail.is_empty() || tail.starts_with('/')).map(|_| path)
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

/// True if the settings' `passthrough` may name this path.
pub fn may_pass(path: &str) -> bool {
    normalised(path).is_some_and(|path| path.len() > 1 && !is_guarded(path.strip_prefix("/v1").unwrap_or(&path)))
}

/// True for paths that are enforced, or refused by name, regardless of the settings.
fn is_guarded(rest: &str) -> bool {
    let guarded = ["/chat", "/responses", "/messages", "/conversations"];
    guarded.iter().any(|prefix| rest.strip_prefix(prefix).is_some_and(|tail| tail.is_empty() || tail.starts_with('/')))
}

/// Matches a path against `passthrough`: `/v1/rerank` matches itself; `/v1/rerank/*` matches the paths below it.
fn matches_setting(own: &str, path: &str) -> bool {
    match own.strip_suffix("/*") {
        Some(prefix) => path.strip_prefix(prefix).is_some_and(|tail| tail.starts_with('/')),
        None => path == own,
    }
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
            (Method::POST, "/chat/completions", Route::Chat),
            (Method::POST, "/responses/", Route::Responses),
            (Method::GET, "/models", pass("/models")),
            (Method::POST, "/embeddings", pass("/embeddings")),
            (Method::POST, "/rerank", pass("/rerank")),
            (Method::GET, "/health", Route::PassBeside("/health".to_owned())),
            (Method::GET, "/slots/0", Route::PassBeside("/slots/0".to_owned())),
            (Method::GET, "/v1/health", Route::NotEnforced),
            (Method::GET, "/props", Route::NotEnforced),
            (Method::POST, "/messages", Route::Messages),
            (Method::POST, "/v1/messages", Route::Messages),
            (Method::POST, "/v1/v1/messages/", Route::Messages),
            (Method::POST, "/anthropic/v1/messages", Route::Messages),
            (Method::POST, "/anthropic/messages", Route::Messages),
            (Method::POST, "/v1/messages/count_tokens", Route::CountTokens),
            (Method::POST, "/v1/messages/batches", Route::NotEnforced),
            (Method::GET, "/v1/messages/batches/b1/results", Route::NotEnforced),
            (Method::GET, "/v1/messages", Route::NotEnforced),
            (Method::HEAD, "/api/hello", Route::Hello),
            (Method::GET, "/chat/x", Route::NotEnforced),
            (Method::POST, "/v1", Route::NotEnforced),
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
            (Method::GET, "/v1/responses/resp_1", Route::Stored(Stored::Response("resp_1".to_owned()))),
            (Method::DELETE, "/openai/v1/responses/resp_1/", Route::Stored(Stored::Response("resp_1".to_owned()))),
            (Method::PUT, "/v1/responses/resp_1", Route::NotEnforced),
            (Method::GET, "/v1/responses/compact", Route::NotEnforced),
            (Method::GET, "/v1/responses/resp%201", Route::NotEnforced),
            (Method::GET, "/v1/responses/resp_1/output", Route::NotEnforced),
            (Method::POST, "/responses/resp_1/cancel", Route::Stored(Stored::Cancel("resp_1".to_owned()))),
            (Method::GET, "/v1/responses/resp_1/input_items", Route::Stored(Stored::InputItems("resp_1".to_owned()))),
            (Method::POST, "/v1/responses/compact", Route::Stored(Stored::Compact)),
            (Method::POST, "/v1/responses/input_tokens", Route::Stored(Stored::InputTokens)),
            (Method::POST, "/v1/conversations", Route::Stored(Stored::Conversations)),
            (Method::GET, "/v1/conversations", Route::NotEnforced),
            (Method::POST, "/v1/conversations/c", Route::Stored(Stored::Conversation("c".to_owned()))),
            (Method::POST, "/v1/conversations/c/items", Route::Stored(Stored::Items("c".to_owned()))),
            (Method::DELETE, "/v1/conversations/c/items/i", Route::Stored(Stored::Item("c".to_owned(), "i".to_owned()))),
            (Method::POST, "/v1/conversations/c/items/i", Route::NotEnforced),
            (Method::GET, "/v1/conversations/c/items/i/x", Route::NotEnforced),
            (Method::POST, "/v1/batches", Route::NotEnforced),
            (Method::POST, "/v1/rerank", pass("/rerank")),
            (Method::POST, "/v1/x/y", pass("/x/y")),
            (Method::GET, "/healthz", Route::Health),
            (Method::GET, "/", Route::NotEnforced),
        ] {
            let further = ["/v1/rerank", "/v1/x/*", "/v1/responses", "/health", "/slots/*", "/chat/*", "/messages"].map(str::to_owned);
            assert_eq!(route(&method, path, &further), expected, "{method} {path}");
        }
    }

    #[test]
    fn what_any_server_might_read_as_another_path_is_refused() {
        // Between `/v1/files/` and `/chat/completions`; each alone, and with something around it.
        let hidden = [
            "..",
            ".",
            "...",
            "..;",
            "..;x=1",
            ";",
            ";x",
            ".;",
            "%2e%2e",
            "%2E.",
            ".%2e",
            "..%3b",
            "..%3B",
            "%2e%2e%3b",
            "..%3bx",
            "%3b",
            "..%00",
            "%00",
            "..%01",
            "..%09",
            "..%0a",
            "..%0d%0a",
            "..%7f",
            "%20..",
            "..%20",
            "%20.%20",
            "..%c2%a0",
            "..%e2%80%8b",
            "%252e%252e",
            "..%252f",
            "%25",
            "..%25",
            "%c0%ae%c0%ae",
            "%c0%ae.",
            "%e0%80%ae%e0%80%ae",
            "%f0%80%80%ae%f0%80%80%ae",
            "%c0%af",
            "..%c0%af",
            "..%c1%9c",
            "%ef%bc%8e%ef%bc%8e",
            "\u{ff0e}\u{ff0e}",
            "%ef%bc%8f",
            "..%ef%bc%8f",
            "\u{ff0f}",
            "%e2%80%a4%e2%80%a4",
            "\u{2024}\u{2024}",
            "%e2%80%a5",
            "\u{2025}",
            "%e2%80%a6",
            "%e2%88%95",
            "\u{2215}",
            "%e2%81%84",
            "%ef%bc%bc",
            "\u{ff3c}",
            "%ef%b9%a8",
            "%ef%b9%92%ef%b9%92",
            "\\",
            "..\\",
            "%5c",
            "..%5c",
            "%2f",
            "..%2f",
            "%2F..",
            "%u002e%u002e",
            "%uff0e%uff0e",
            "%",
            "%2",
            "%zz",
            "..%",
            "%ff",
            "%80",
            "%ed%a0%80",
            "%e2%80%ae",
            "\u{200b}..",
            "..\u{200b}",
            "\u{ad}..",
            "..\u{7f}",
            "..\u{1}",
            "\u{a0}",
            "..|",
            "..^",
            "..\"",
            "..`",
            "..{",
            "..[",
            "..%3f",
            "..%23",
            "%3f",
            "%23",
            "..%3a;",
            "..,;",
            "%bc%8e",
            "%c0%2e",
            "%e0%40%ae",
            "%c4%ae%c0",
            "..%f8%80%80%80%ae",
        ];
        for part in hidden {
            for path in [
                format!("/v1/files/{part}/chat/completions"),
                format!("/v1/files/{part}"),
                format!("/v1/files//{part}//chat/completions/"),
                format!("/v1/files/f/content/{part}/{part}/{part}/chat/completions"),
                format!("/{part}/v1/files"),
                format!("/v1/{part}/chat/completions"),
                format!("/v1/models/{part}/../responses"),
                format!("/openai/v1/files/{part}/x"),
                format!("/health/{part}"),
            ] {
                for method in [Method::GET, Method::POST, Method::DELETE] {
                    assert_eq!(route(&method, &path, &["/health/*".to_owned()]), Route::InvalidPath, "{method} {path}");
                }
            }
        }
        for (part, method) in [("ft:gpt-4o:org::id", Method::GET), ("a..b", Method::GET), ("..a", Method::GET), ("x%20y", Method::GET)] {
            let path = format!("/v1/models/{part}");
            assert_eq!(route(&method, &path, &[]), Route::Pass(format!("/models/{part}")), "{path}");
        }
        for fine in ["meta-llama%3AL@1", "model_v1.5~x", "%E6%A8%A1%E5%9E%8B", "\u{6a21}\u{578b}", "caf%C3%A9", "a+b,c=d", "it's(1)!$&*"] {
            assert_eq!(route(&Method::GET, &format!("/v1/models/{fine}"), &[]), Route::Pass(format!("/models/{fine}")), "{fine}");
        }
    }
}
