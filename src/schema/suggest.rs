//! Finds known names similar to a given one: for advice, and for claims that nearly name a tool.
//!
//! Pure. Nothing is ever accepted because of a similarity found here; it only words advice, or tells a definition of a tool from a mention
//! of it.

/// Characters of a name that are looked at; no real name is longer than 128.
const NAME_CHARS_MAX: usize = 128;
/// Lowest similarity (0 to 1) of a useful suggestion.
const LIKENESS_MIN: f64 = 0.62;
/// Characters from which on names may differ by one letter and still match; `add` and `and` don't.
const TYPO_CHARS_MIN: usize = 5;
/// Prefixes that models and servers put before a tool's name: OpenAI's and Gemini's namespaces, agents' own, and the like.
const PREFIXES: &[&str] =
    &["functions", "function", "tools", "tool", "default_api", "api", "container", "multi_tool_use", "creating", "calling", "call"];

/// The `count` candidates closest to `name`, best first; those too far away are left out.
pub fn closest<'c>(name: &str, candidates: impl IntoIterator<Item = &'c str>, count: usize) -> Vec<&'c str> {
    let wanted = NormalizedName::of(name);
    let mut scored: Vec<(f64, &str)> = candidates
        .into_iter()
        .map(|candidate| (wanted.likeness(&NormalizedName::of(candidate)), candidate))
        .filter(|(likeness, _)| *likeness >= LIKENESS_MIN)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    scored.into_iter().take(count).map(|(_, candidate)| candidate).collect()
}

/// True if `name` is `candidate` apart from case, separators, a known prefix, or one typo in five letters or more.
pub fn nearly_same(name: &str, candidate: &str) -> bool {
    if name == candidate {
        return true;
    }
    let (name, candidate) = (NormalizedName::of(name), NormalizedName::of(candidate));
    let same = |a: &str, b: &str| {
        let short = a.chars().count().min(b.chars().count()) < TYPO_CHARS_MIN;
        !b.is_empty() && (a == b || !short && strsim::damerau_levenshtein(a, b) <= 1)
    };
    same(&name.whole, &candidate.whole) || name.unprefixed.as_deref().is_some_and(|rest| same(rest, &candidate.whole))
}

/// A name normalized for comparison.
struct NormalizedName {
    /// Lower case, no separators.
    whole: String,
    /// The part after a known prefix.
    unprefixed: Option<String>,
    /// The part after the last `.`, `:`, `/` or `__`.
    last: Option<String>,
}

impl NormalizedName {
    fn of(name: &str) -> Self {
        let name: String = name.chars().take(NAME_CHARS_MAX).collect();
        let split = [name.rfind(['.', ':', '/']).map(|at| (at, at + 1)), name.rfind("__").map(|at| (at, at + 2))];
        let split = split.into_iter().flatten().max();
        let part = |(_, from): (usize, usize)| name.get(from..).map(fold).filter(|rest| !rest.is_empty());
        let prefix = name.find(['.', ':', '/']).map(|at| (at, at + 1));
        let known = |(at, _): &(usize, usize)| {
            let before = name.get(..*at).unwrap_or_default().to_lowercase();
            PREFIXES.contains(&before.as_str())
        };
        Self { whole: fold(&name), unprefixed: prefix.filter(known).and_then(part), last: split.and_then(part) }
    }

    fn likeness(&self, candidate: &NormalizedName) -> f64 {
        let whole = likeness(&self.whole, &candidate.whole);
        // Behind a prefix a little less sure than in full, so that a full match comes first.
        let parts = [(&self.last, &candidate.whole), (&self.unprefixed, &candidate.whole)];
        let part = parts.into_iter().filter_map(|(a, b)| a.as_deref().map(|a| likeness(a, b) * 0.98)).fold(0.0, f64::max);
        let theirs = candidate.last.as_deref().map_or(0.0, |last| likeness(&self.whole, last) * 0.95);
        whole.max(part).max(theirs)
    }
}

fn fold(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

fn likeness(a: &str, b: &str) -> f64 {
    if a.is_empty() || b.is_empty() {
        return 0.0;
    }
    let edits = strsim::normalized_damerau_levenshtein(a, b);
    let inside = if a.len().min(b.len()) >= 3 && (a.contains(b) || b.contains(a)) { 0.75 } else { 0.0 };
    // Jaro-Winkler likes common beginnings; weighed down, it ranks any two words too high.
    edits.max(strsim::jaro_winkler(a, b) - 0.15).max(inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names() {
        for (name, candidate, near) in [
            ("GitComit", "GitCommit", true),
            ("get_weather", "getWeather", true),
            ("functions.get_weather", "get_weather", true),
            ("default_api:get_weather", "get_weather", true),
            ("container.exec", "exec", true),
            ("get-weather ", "get_weather", true),
            ("GETWEATHER", "get_weather", true),
            ("add", "and", false),
            ("get_weather", "get_whether_ok", false),
            ("evil.get_weather", "get_weather", false),
            ("", "get_weather", false),
            ("...", "---", false),
            ("functions.", "functions", true),
            ("weather", "get_weather", false),
        ] {
            assert_eq!(nearly_same(name, candidate), near, "{name:?} {candidate:?}");
        }
    }

    #[test]
    fn closest_names() {
        let tools = ["GitCommit", "git_status", "get_weather", "exec", "send_email", "math_gcd"];
        for (name, first) in [
            ("GitComit", Some("GitCommit")),
            ("container.exec", Some("exec")),
            ("functions.get_weather", Some("get_weather")),
            ("default_api:get_weather", Some("get_weather")),
            ("mcp__server__send_email", Some("send_email")),
            ("math.gcd", Some("math_gcd")),
            ("weather", Some("get_weather")),
            ("gitStatus", Some("git_status")),
            ("xyzzy", None),
            ("", None),
        ] {
            assert_eq!(closest(name, tools, 3).first().copied(), first, "{name:?}");
        }
        assert_eq!(closest("git", tools, 0), Vec::<&str>::new());
    }
}
