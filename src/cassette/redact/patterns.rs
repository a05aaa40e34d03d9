//! Recognition of secrets: the shapes of providers' keys, and names that indicate a credential. Pure.

use std::{ops::Range, sync::LazyLock};

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use regex::Regex;

/// Keys that are recognised by their shape. Sources: the providers' own documentation, GitHub's list of secret-scanning
/// patterns.
static SHAPES: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let shapes = [
        r"\bsk-[A-Za-z0-9_-]{12,}",                       // OpenAI, Anthropic, DeepSeek, OpenRouter
        r"\b(?:csk|pk|rk)-[A-Za-z0-9_-]{16,}",            // Cerebras and others
        r"\b(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,}", // Stripe
        r"\bgsk_[A-Za-z0-9]{20,}",                        // Groq
        r"\bxai-[A-Za-z0-9]{20,}",                        // xAI
        r"\bAIza[A-Za-z0-9_-]{30,}",                      // Google
        r"\bya29\.[A-Za-z0-9_-]{20,}",                    // Google OAuth
        r"\bhf_[A-Za-z0-9]{20,}",                         // Hugging Face
        r"\b(?:r8|fw|together|pplx|nvapi|tvly|fal|lsv2|exa)[_-][A-Za-z0-9_-]{24,}",
        r"\bgh[pousr]_[A-Za-z0-9]{30,}", // GitHub
        r"\bgithub_pat_[A-Za-z0-9_]{30,}",
        r"\bgl(?:pat|dt|rt)-[A-Za-z0-9_-]{18,}",         // GitLab
        r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}",             // Slack
        r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b",      // AWS
        r"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}", // SendGrid
        r"\bnpm_[A-Za-z0-9]{30,}",
        r"\bpypi-[A-Za-z0-9_-]{30,}",
        r"\bdop_v1_[a-f0-9]{40,}",                                       // DigitalOcean
        r"\bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{24,}",                        // Shopify
        r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*", // JSON Web Tokens
        r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\z)",
        r"(?i:\b(?:bearer|basic) )[A-Za-z0-9._~+/=-]{12,}",
    ];
    Regex::new(&shapes.join("|")).ok()
});

/// The password of `scheme://user:password@host`, in group 1.
static USERINFO: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r#"://[^\s/@:"'\\]*:([^\s/@"'\\]+)@"#).ok());

/// `NAME = value`, as in shells, settings, queries and headers: the value in group 2.
static NAMED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let names = "api[_-]?key|apikey|passw(?:or)?d|passphrase|secret|access[_-]?key|access[_-]?token|auth[_-]?token|refresh[_-]?token\
                 |session[_-]?token|private[_-]?key|authorization";
    let pattern = format!(
        r#"(?i)({names})[A-Za-z0-9_-]{{0,24}}["']?\s{{0,2}}[:=]\s{{0,2}}["']?(?:(?:bearer|basic)\s+)?([^\s"'`\\,;&<>(){{}}\[\]]{{8,}})"#
    );
    Regex::new(&pattern).ok()
});

/// The secrets in a text, in order and without overlaps.
pub fn secrets(text: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    if let Some(shapes) = &*SHAPES {
        found.extend(shapes.find_iter(text).map(|hit| hit.range()));
    }
    // Both need one of these; most texts have none.
    if memchr::memmem::find(text.as_bytes(), b"://").is_some()
        && let Some(userinfo) = &*USERINFO
    {
        found.extend(userinfo.captures_iter(text).filter_map(|hit| hit.get(1)).map(|hit| hit.range()));
    }
    if memchr::memchr2(b'=', b':', text.as_bytes()).is_some()
        && let Some(named) = &*NAMED
    {
        let values = named.captures_iter(text).filter_map(|hit| hit.get(2));
        found.extend(values.filter(|value| looks_secret(value.as_str())).map(|hit| hit.range()));
    }
    merged(found)
}

/// True if a value after a name like `password:` may be a secret, not a word of prose: it has a digit, or is very long.
fn looks_secret(value: &str) -> bool {
    value.bytes().any(|byte| byte.is_ascii_digit()) || value.len() >= 24
}

/// Sorts the ranges and joins those that touch.
pub fn merged(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_by_key(|range| (range.start, range.end));
    let mut out: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match out.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => out.push(range),
        }
    }
    out
}

/// True for the name of a member, header or query parameter whose value is a credential.
pub fn names_credential(name: &str) -> bool {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    const WHOLE: [&str; 9] =
        ["pwd", "pass", "passphrase", "authorization", "credential", "credentials", "cookie", "setcookie", "connectionstring"];
    const ENDS: [&str; 13] = [
        "apikey",
        "password",
        "passwd",
        "secret",
        "secretkey",
        "accesskey",
        "accesskeyid",
        "privatekey",
        "accesstoken",
        "refreshtoken",
        "authtoken",
        "sessiontoken",
        "apitoken",
    ];
    WHOLE.contains(&plain.as_str()) || ENDS.iter().any(|end| plain.ends_with(end)) || plain.ends_with("bearertoken") || plain == "idtoken"
}

/// True for a name that often, but not always, means a credential. `signature` isn't one: reasoning items have it.
pub fn may_name_credential(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["token", "key", "auth", "jwt", "bearer"].contains(&name.as_str()) || name.ends_with("_token")
}

/// True for a query parameter whose value is a credential.
pub fn is_credential_parameter(name: &str) -> bool {
    let signs = ["sig", "signature", "sas", "code", "x-amz-signature", "x-amz-credential"];
    names_credential(name) || may_name_credential(name) || is_credential_header(name) || signs.contains(&name.to_ascii_lowercase().as_str())
}

/// True for a value that isn't a word: long, of one piece, with a digit.
pub fn looks_like_key(value: &str) -> bool {
    let token = value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._~+/=-".contains(&byte));
    token && value.len() >= 16 && value.bytes().any(|byte| byte.is_ascii_digit())
}

/// Parts of the names of headers whose values are credentials, in any case. Asked for each header of each request.
static CREDENTIAL_PARTS: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    let parts = ["auth", "cookie", "credential", "key", "password", "secret", "session-id", "signature", "token"];
    AhoCorasick::builder().kind(Some(AhoCorasickKind::DFA)).ascii_case_insensitive(true).prefilter(false).build(parts).ok()
});

/// True for a header whose value is always a credential.
pub fn is_credential_header(name: &str) -> bool {
    let begins = |start: &str| name.get(..start.len()).is_some_and(|own| own.eq_ignore_ascii_case(start));
    // Counts of tokens aren't credentials, and idempotency keys grant no access.
    let is_harmless = || {
        begins("x-ratelimit")
            || begins("sec-websocket")
            || name.eq_ignore_ascii_case("idempotency-key")
            || name.to_ascii_lowercase().contains("tokens")
    };
    CREDENTIAL_PARTS.as_ref().is_none_or(|parts| parts.is_match(name)) && !is_harmless()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_known_by_their_shape() {
        for text in [
            "sk-proj-AbCdEfGhIjKlMnOp0123",
            "sk-ant-api03-abcdefghijkl",
            "csk-abcdefghijklmnop1234",
            "gsk_abcdefghijklmnopqrst0123",
            "AIzaSyA0123456789abcdefghijklmnopqrstuv",
            "ghp_0123456789abcdefghijABCDEFGHIJ012345",
            "AKIAIOSFODNN7EXAMPLE",
            "xoxb-1234567890-abcdef",
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N",
            "hf_abcdefghijklmnopqrstuv",
            "Bearer abc.def.ghi.jkl",
        ] {
            let framed = format!("the key is {text}, keep it");
            assert_eq!(secrets(&framed), vec![11..11 + text.len()], "{text}");
        }
        assert_eq!(secrets("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----").len(), 1);
        assert_eq!(secrets("postgres://bob:hunter2@db/x"), vec![15..22]);
    }

    #[test]
    fn values_are_known_by_the_name_before_them() {
        for (text, secret) in [
            ("export DB_PASSWORD=hunter2hunter2", "hunter2hunter2"),
            ("OPENAI_API_KEY='abcdefgh12345'", "abcdefgh12345"),
            ("Authorization: Bearer abcdefgh1", "abcdefgh1"),
            ("?api_key=0123456789&x=1", "0123456789"),
            ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG", "wJalrXUtnFEMI/K7MDENG"),
        ] {
            let found: Vec<&str> = secrets(text).into_iter().map(|range| &text[range]).collect();
            assert!(found.iter().any(|found| found.ends_with(secret)), "{text}: {found:?}");
        }
        for text in [
            "the password: required and checked",
            "task-list, risk-free, desk-bound-and-more",
            "max_tokens=4096, a token: the unit of text",
            "https://example.com/a:b@c d",
            "call_0123456789abcdef0123456789abcdef",
            "get_weather_1700000000000_0123456789abcdef",
            "ask-me-anything-about-it",
        ] {
            assert!(secrets(text).is_empty(), "{text}: {:?}", secrets(text));
        }
    }

    #[test]
    fn names() {
        for name in
            ["api_key", "apiKey", "X-API-Key", "password", "client_secret", "AWS_SECRET_ACCESS_KEY", "access_token", "authorization"]
        {
            assert!(names_credential(name), "{name}");
        }
        for name in ["max_tokens", "token", "tokens", "key", "author", "prompt_tokens", "passenger", "keys", "description"] {
            assert!(!names_credential(name), "{name}");
        }
        for (name, credential) in [
            ("authorization", true),
            ("x-api-key", true),
            ("set-cookie", true),
            ("x-goog-api-key", true),
            ("x-company-auth", true),
            ("x-ratelimit-remaining-tokens", false),
            ("x-ms-region", false),
            ("content-type", false),
            ("openai-organization", false),
            ("idempotency-key", false),
            ("Sec-WebSocket-Key", false),
            ("X-Session-ID", true),
            ("x-amz-credential", true),
            ("my-password", true),
            ("client-secret", true),
            ("x-signature", true),
            ("accept", false),
            ("", false),
        ] {
            assert_eq!(is_credential_header(name), credential, "{name}");
        }
    }
}
