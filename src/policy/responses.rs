//! `[responses]`: what becomes of conversations that the upstream keeps.
//!
//! Values only. CONTRACT.md, "Policy"; issue "Responses API".

use serde::Deserialize;

/// `[responses] stateful`: a part of the conversation that isn't in the request.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Stateful {
    /// Remember what is needed of it, and say where something isn't known.
    #[default]
    Track,
    /// Have the upstream keep nothing; refuse what would need it to.
    Stateless,
    /// Refuse what refers to it.
    Refuse,
}

/// `[responses]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Responses {
    /// Conversations that the upstream keeps.
    pub stateful: Stateful,
}
