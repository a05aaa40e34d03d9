//! Parts that OpenAI's two APIs share: their names and paths, errors and token counts.

pub mod content;
pub mod error;
pub mod path;
pub mod stored_item;
pub mod usage;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::wire::json::Document;

/// An enforced API.
///
/// The numbers are those of stored records: a number is never reused.
#[derive(Clone, Copy, Debug, Decode, Deserialize, Encode, Eq, Hash, PartialEq, Serialize)]
#[cbor(index_only)]
#[serde(rename_all = "lowercase")]
pub enum Api {
    /// `POST /v1/chat/completions`
    #[n(0)]
    Chat,
    /// `POST /v1/responses`
    #[n(1)]
    Responses,
}

impl Api {
    /// Every API.
    pub const ALL: [Self; 2] = [Self::Chat, Self::Responses];

    /// Name of the API in records and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Responses => "responses",
        }
    }

    /// Path of the API below an upstream's base URL.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Chat => "/chat/completions",
            Self::Responses => "/responses",
        }
    }

    /// The API with this path below the base URL; `None` if the endpoint isn't enforced.
    pub fn of_path(path: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|api| api.path() == path)
    }

    /// The API of a request, by its members: `input` without `messages` is the Responses API.
    pub fn of_request(request: &Document) -> Self {
        let of_responses = request.root().get("messages").is_none() && request.root().get("input").is_some();
        if of_responses { Self::Responses } else { Self::Chat }
    }
}
