//! For tests of agents: a proxy in this process, a scripted upstream behind it, over real sockets of loopback.
//!
//! Both listen on free ports and stop when they are dropped; nothing is kept, and nothing leaves the machine.
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
//! An agent that speaks OpenAI's API is pointed at [`Proxy::base_url`]. What the model says is a [`Script`], or any
//! function from requests to replies ([`ScriptedUpstream::start`]), or a cassette ([`ProxyBuilder::cassette`]).

mod answer;
mod builder;
mod proxy;
mod script;
mod todo;
mod upstream;

pub use answer::{Answer, AskError};
pub use builder::ProxyBuilder;
pub use proxy::{Proxy, StartError};
pub use script::Script;
pub use todo::{Mood, TodoServer};
pub use upstream::{PATIENCE, Piece, Received, Reply, ScriptedUpstream};
