//! Parts that OpenAI's two APIs share: paths, contents of messages, errors and token counts.

pub mod content;
pub mod error;
pub mod path;
pub mod usage;

use crate::wire::json::Document;
use path::path_of;

/// An enforced API.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Api {
    /// Chat completions.
    Chat,
    /// The Responses API.
    Responses,
}

impl Api {
    /// The API of a request, by its URL or path; `None` if the endpoint isn't enforced.
    pub fn of_url(url: &str) -> Option<Self> {
        match path_of(url) {
            "/chat/completions" => Some(Self::Chat),
            "/responses" => Some(Self::Responses),
            _ => None,
        }
    }

    /// The API of a request, by its members: `input` without `messages` is the Responses API.
    pub fn of_request(request: &Document) -> Self {
        let of_responses = request.root().get("messages").is_none() && request.root().get("input").is_some();
        if of_responses { Self::Responses } else { Self::Chat }
    }
}
