//! Web addresses in a text, and whether others make them up. Pure.

use std::{ops::Range, sync::LazyLock};

use memchr::memmem::Finder;

/// Bytes of the longest address that is judged.
const URL_BYTES_MAX: usize = 2048;

/// By what addresses are found.
static SCHEME_MARK: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new("://"));
static BARE_MARK: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new("www."));

/// True if a text may have an address. Cheap, and rather once too often.
pub fn may_have_urls(text: &str) -> bool {
    [&SCHEME_MARK, &BARE_MARK].iter().any(|mark| mark.find(text.as_bytes()).is_some())
}

/// The addresses of a text: `http://…`, `https://…`, `www.…`.
pub fn urls(text: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    let heads = SCHEME_MARK.find_iter(text.as_bytes()).map(|at| (at, true));
    let bare = BARE_MARK.find_iter(text.as_bytes()).map(|at| (at, false));
    let mut heads: Vec<(usize, bool)> = heads.chain(bare).collect();
    heads.sort_unstable();
    for (at, scheme) in heads {
        let start = if scheme {
            let before = text.get(..at).unwrap_or_default();
            at - before.bytes().rev().take(5).take_while(u8::is_ascii_alphabetic).count()
        } else {
            at
        };
        let http = text.get(start..at).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https"));
        let inside = found.last().is_some_and(|last| start < last.end);
        if inside || (scheme && !http) {
            continue;
        }
        let rest = text.get(start..).unwrap_or_default();
        let stop = |c: char| c.is_whitespace() || matches!(c, '<' | '>' | '"' | '`' | '|' | '\\' | '{' | '}' | '“' | '”' | '«' | '»' | '…');
        let mut length = rest.find(stop).unwrap_or(rest.len());
        length = trimmed(rest.get(..length).unwrap_or_default());
        if length > "www.".len() && length <= URL_BYTES_MAX {
            found.push(start..start + length);
        }
    }
    found
}

/// Without the marks of the sentence around it.
fn trimmed(url: &str) -> usize {
    let mut url = url;
    // `](` ends the words of a Markdown link that are an address themselves.
    if let Some(at) = url.find("](") {
        url = url.get(..at).unwrap_or(url);
    }
    loop {
        let count = |mark: char| url.matches(mark).count();
        let Some(last) = url.chars().next_back() else { return 0 };
        let loose = match last {
            '.' | ',' | ';' | ':' | '!' | '?' | '*' | '_' | '\'' | '’' | '~' => true,
            ')' => count(')') > count('('),
            ']' => count(']') > count('['),
            _ => false,
        };
        if !loose {
            return url.len();
        }
        url = url.get(..url.len() - last.len_utf8()).unwrap_or_default();
    }
}

/// An address as it is compared: without scheme, `www.`, fragment and last slash, its host in lower case.
pub fn plain(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let rest = rest.strip_prefix("www.").unwrap_or(rest);
    let rest = rest.split('#').next().unwrap_or_default();
    let (host, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let mut plain = host.to_lowercase();
    plain.push_str(path.trim_end_matches('/'));
    let plain = plain.replace("\\_", "_").replace("&amp;", "&");
    // Markdown needs parentheses in an address escaped.
    if plain.contains('%') { plain.replace("%28", "(").replace("%29", ")") } else { plain }
}

/// The host of a plain address.
pub fn host(plain: &str) -> &str {
    plain.split(['/', '?', ':']).next().unwrap_or_default()
}

/// Hosts that mean no place in particular.
pub fn is_placeholder(host: &str) -> bool {
    let last_two = |name: &str| host == name || host.strip_suffix(name).is_some_and(|before| before.ends_with('.'));
    let local = host == "localhost" || host.starts_with("127.") || host.starts_with("192.168.") || host.starts_with("10.");
    local || !host.contains('.') || ["example.com", "example.org", "example.net"].iter().any(|name| last_two(name))
}

/// Is one of `known`, which are sorted, `start`, or that and one of `marks` and more?
pub fn begins_one(start: &str, known: &[String], marks: &[char]) -> bool {
    let first = |start: &str| known.get(known.partition_point(|own| own.as_str() < start));
    let begins = |mark: &char| {
        let start = format!("{start}{mark}");
        first(&start).is_some_and(|own| own.starts_with(&start))
    };
    first(start).is_some_and(|own| own == start) || marks.iter().any(begins)
}

/// Is this plain address one of `known`, which are sorted, a beginning of one, one with a query added, or one with parts that stand in `words`?
pub fn is_made_of(url: &str, known: &[String], words: impl Fn(&str) -> bool) -> bool {
    let own = url.split('?').next().unwrap_or_default().trim_end_matches('/');
    // As many whole segments as both have in common.
    let ends = std::iter::once(own.len()).chain(own.rmatch_indices('/').map(|(at, _)| at));
    let Some(common) = ends.into_iter().find(|end| begins_one(own.get(..*end).unwrap_or_default(), known, &['/', '?'])) else {
        return false;
    };
    if common == own.len() {
        return true;
    }
    let longest = common + 1;
    let rest = own.get(longest..).unwrap_or_default();
    let generic = ["issues", "pull", "tree", "blob", "commit", "wiki", "releases", "search", "docs", "en", "main", "master"];
    rest.split('/').all(|part| part.is_empty() || generic.contains(&part) || words(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let text = "See [here](https://a.io/x_(y)), https://b.io/p?q=1. and **www.c.io**, ftp://no.pe (http://d.io/e).";
        let found: Vec<&str> = urls(text).into_iter().map(|span| &text[span]).collect();
        assert_eq!(found, ["https://a.io/x_(y)", "https://b.io/p?q=1", "www.c.io", "http://d.io/e"]);
    }

    #[test]
    fn what_makes_them_up() {
        let known = ["a.io/repo/x?id=3".to_owned()];
        for (url, made) in [
            ("https://A.io/repo/x/", true),
            ("https://a.io/repo", true),
            ("https://a.io", true),
            ("https://a.io/repo/issues/55", true),
            ("https://a.io/repo/secret", false),
            ("https://b.io/repo/x", false),
        ] {
            assert_eq!(is_made_of(&plain(url), &known, |part| part == "55"), made, "{url}");
        }
        assert!(is_placeholder("api.example.com") && !is_placeholder("a.io"));
    }
}
