//! What a build can leave out (Cargo features), and the messages for settings that need it.

/// Message for a PostgreSQL ledger in a build without the feature `postgres`.
pub const NO_POSTGRES: &str =
    "this build has no PostgreSQL: build it with the feature `postgres` (it is on by default), or write \"sqlite:toolmark.db\"";
/// Message for counters in Valkey or Redis in a build without the feature `redis`.
pub const NO_REDIS: &str =
    "this build has no Valkey and Redis: build it with the feature `redis` (it is on by default), or write \"memory:\" or \"postgres\"";
/// Message for `[[mcp]]` in a build without the feature `mcp`.
pub const NO_MCP: &str = "this build has no MCP: build it with the feature `mcp` (it is on by default), or remove `[[mcp]]`";
/// Message for traces in a build without the feature `otlp`.
pub const NO_TRACES: &str = "this build can't send traces: build it with the feature `otlp` (it is on by default), or unset OTEL_EXPORTER_OTLP_ENDPOINT and OTEL_TRACES_EXPORTER";
/// Message for `toolmark import` and `toolmark export` in a build without the feature `cassette-import`.
pub const NO_IMPORT: &str =
    "this build can't read or write recordings of other tools: build it with the feature `cassette-import` (it is on by default)";
