//! Parts that OpenAI's two APIs share: their names and paths, errors and token counts.

pub mod content;
pub mod error;
pub mod path;
pub mod stored_item;
pub mod usage;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::wire::json::{Document, Value};

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
    /// `POST /v1/messages`, Anthropic's.
    #[n(2)]
    Messages,
}

impl Api {
    /// Every API.
    pub const ALL: [Self; 3] = [Self::Chat, Self::Responses, Self::Messages];

    /// Name of the API in records and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Responses => "responses",
            Self::Messages => "messages",
        }
    }

    /// Path of the API below an upstream's base URL.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Chat => "/chat/completions",
            Self::Responses => "/responses",
            Self::Messages => "/messages",
        }
    }

    /// The API with this path below the base URL; `None` if the endpoint isn't enforced.
    pub fn of_path(path: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|api| api.path() == path)
    }

    /// The API of a request, by its members: `input` without `messages` is the Responses API; what only Anthropic's
    /// requests have makes it that API.
    pub fn of_request(request: &Document) -> Self {
        let root = request.root();
        if root.get("messages").is_none() && root.get("input").is_some() {
            return Self::Responses;
        }
        let own = ["system", "thinking", "stop_sequences", "output_config", "anthropic_version"];
        let described = |tool: Value<'_>| tool.get("input_schema").is_some();
        let kind =
            |block: Value<'_>| block.get("type").and_then(Value::text).is_some_and(|kind| matches!(&*kind, "tool_use" | "tool_result"));
        let blocks = |message: Value<'_>| message.get("content").is_some_and(|content| content.items().any(kind));
        let list = |name: &str| root.get(name).into_iter().flat_map(Value::items);
        let of_messages = own.iter().any(|name| root.get(name).is_some()) || list("tools").any(described) || list("messages").any(blocks);
        if of_messages { Self::Messages } else { Self::Chat }
    }
}
