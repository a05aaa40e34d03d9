//! Tools for testing agents: a proxy in this process with a scripted upstream behind it, over loopback sockets.
//!
//! Both listen on free ports and stop when they are dropped; nothing is stored, and nothing leaves the machine.
//!
//! ```
//! use serde_json::json;
//! use toolmark::testing::{Proxy, Script};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // A model that first calls a tool that doesn't exist, and the right one when it is told so.
//! let upstream = Script::new()
//!     .call("get_wether", json!({"city": "Paris"}))
//!     .call("get_weather", json!({"city": "Paris"}))
//!     .start()?;
//! let proxy = Proxy::builder().upstream(&upstream).start()?;
//!
//! let answer = proxy.chat(&json!({
//!     "model": "scripted",
//!     "messages": [{"role": "user", "content": "What is the weather in Paris?"}],
//!     "tools": [{"type": "function", "function": {"name": "get_weather", "parameters": {
//!         "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}],
//! }))?;
//! assert_eq!(answer.verdict(), "repaired");
//! assert_eq!(answer.violations(), ["unknown_tool"]);
//! assert_eq!(answer.calls(), [("get_weather".to_owned(), json!({"city": "Paris"}))]);
//! // The application saw one answer; the model was asked twice.
//! assert_eq!(upstream.received().len(), 2);
//! # Ok(())
//! # }
//! ```
//!
//! Point an agent that uses OpenAI's API at [`Proxy::base_url`]. The model's answers come from a [`Script`], from a function that maps
//! requests to replies ([`ScriptedUpstream::start`]), or from a cassette ([`ProxyBuilder::cassette`]).

mod builder;
mod client;
mod proxy;
mod script;
mod todo_server;
mod upstream;

pub use builder::ProxyBuilder;
pub use client::{ClientError, ClientResponse};
pub use proxy::{Proxy, StartError};
pub use script::Script;
pub use todo_server::{Misbehaviour, TodoServer};
pub use upstream::{BodyPart, PATIENCE, Received, ScriptedReply, ScriptedUpstream};
