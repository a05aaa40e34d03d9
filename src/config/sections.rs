//! Names at the top of the two files, the settings and a policy: what stands in the wrong one is told apart from a misspelling.

/// Keys at the top of the settings (`toolmark.toml`).
pub const SETTINGS: &[&str] = &[
    "listen",
    "policy",
    "passthrough",
    "allowed_hosts",
    "probe_hosts",
    "allow_anonymous",
    "upstreams",
    "clients",
    "ledger",
    "counters",
    "marks",
    "mcp",
    "admin",
    "alerts",
    "limits",
    "record",
    "replay",
    "faults",
    "verifier",
    "log",
];

/// Keys at the top of a policy.
pub const POLICY: &[&str] =
    &["mode", "tools", "protocol", "calls", "results", "stream", "responses", "citations", "loops", "claims", "state", "checks"];

/// Place for an unknown key at the top of one file, if the other file has it. `known`: the keys of the file that it stands in.
pub fn elsewhere(key: &str, known: &[&str]) -> Option<&'static str> {
    let belongs = |keys: &[&str]| keys.contains(&key) && !known.contains(&key);
    match () {
        () if belongs(POLICY) => Some("it belongs in the policy's file, which `policy` in toolmark.toml names"),
        () if belongs(SETTINGS) => Some("it belongs in toolmark.toml, not in a policy"),
        () => None,
    }
}
