//! An API from an upstream that only has another: the Responses and Messages APIs from chat completions, chat and Responses from Messages.
//!
//! ```text
//!  request ─▶ reader ─▶ parts of a request ([`request`]) ─▶ writer ─▶ upstream
//!  answer  ◀─ writer ◀─ pieces of text, then calls and ending ([`answer`]) ◀─ reader ◀─┘
//! ```
//! It stands between an API's adapter and the upstream. Between reading and writing there is one form for all APIs, so that each API has one
//! reader and one writer, not one for each other API: of requests, the turns of the conversation with the results at their calls, and the
//! members that mean the same (`request/form.rs`); of answers, the pieces of text in their order, then the calls of the judge's own form,
//! the ending and the usage (`answer/mod.rs`).
//!
//! Nothing is judged here: the judge sees what leaves, as if a native upstream had sent it. So nothing may be lost either: every call and
//! every character of text comes out, or the answer is refused; only reasoning may be left out. Source: docs/wire-facts.md. Pure.

pub mod answer;
pub mod request;
pub mod sse_feed;
#[cfg(test)]
mod traffic_tests;

use crate::openai::Api;

/// API of an upstream that is translated to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum UpstreamForm {
    /// Chat completions.
    Chat,
    /// Anthropic's Messages API.
    Messages,
}

/// A translation: requests from `downstream` to `upstream`, answers back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Translation {
    /// API of the application.
    pub downstream: Api,
    /// API of the upstream.
    pub upstream: UpstreamForm,
}

/// Version of Anthropic's API that translated requests are written for: the last one with `temperature`.
pub const MESSAGES_VERSION: &str = "2023-06-01";

impl Translation {
    /// The Responses API from a chat upstream.
    pub const RESPONSES_TO_CHAT: Self = Self { downstream: Api::Responses, upstream: UpstreamForm::Chat };
    /// The Messages API from a chat upstream.
    pub const MESSAGES_TO_CHAT: Self = Self { downstream: Api::Messages, upstream: UpstreamForm::Chat };
    /// Chat completions from a Messages upstream.
    pub const CHAT_TO_MESSAGES: Self = Self { downstream: Api::Chat, upstream: UpstreamForm::Messages };
    /// The Responses API from a Messages upstream.
    pub const RESPONSES_TO_MESSAGES: Self = Self { downstream: Api::Responses, upstream: UpstreamForm::Messages };

    /// The translation from one API to another; `None` if they are the same, or there is none.
    pub fn between(downstream: Api, upstream: Api) -> Option<Self> {
        match (downstream, upstream) {
            (Api::Responses, Api::Chat) => Some(Self::RESPONSES_TO_CHAT),
            (Api::Messages, Api::Chat) => Some(Self::MESSAGES_TO_CHAT),
            (Api::Chat, Api::Messages) => Some(Self::CHAT_TO_MESSAGES),
            (Api::Responses, Api::Messages) => Some(Self::RESPONSES_TO_MESSAGES),
            (Api::Chat, Api::Chat) | (Api::Messages, Api::Messages) | (_, Api::Responses) => None,
        }
    }
}
