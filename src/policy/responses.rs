//! `[responses]`: treatment of conversations that the upstream stores.
//!
//! Values only. docs/contract.md#policy.

use serde::Deserialize;

/// `[responses] stateful`: treatment of conversation parts that aren't in the request.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Stateful {
    /// Stores what is needed of them, and reports what isn't known.
    #[default]
    Track,
    /// Prevents the upstream from storing anything; refuses requests that depend on it.
    Stateless,
    /// Refuses requests that refer to them.
    Refuse,
}

/// `[responses]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ResponsesPolicy {
    /// Treatment of conversations that the upstream stores.
    pub stateful: Stateful,
}
