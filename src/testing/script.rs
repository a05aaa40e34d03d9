//! Scripted answers of a model, turn by turn.

use std::io;

use serde_json::Value;

use super::upstream::{Received, ScriptedReply, ScriptedUpstream};
use crate::{cassette::scripted_answer::ScriptedAnswer, openai::Api, wire::json::Document};

/// Answers of a model, one turn after the other; the last one is repeated.
///
/// Serves every API, buffered or streamed, as each request asks.
///
/// ```
/// use serde_json::json;
/// use toolmark::testing::Script;
///
/// # fn main() -> std::io::Result<()> {
/// let upstream = Script::new()
///     .call("add_task", json!({"title": "milk"}))
///     .reply(429, r#"{"error": {"message": "slow down"}}"#)
///     .say("Added.")
///     .start()?;
/// assert!(upstream.base_url().starts_with("http://127.0.0.1:"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Script {
    turns: Vec<ScriptTurn>,
}

#[derive(Clone, Debug)]
enum ScriptTurn {
    Says(ScriptedAnswer),
    Replies(ScriptedReply),
}

impl Script {
    /// An empty script.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a turn with this text.
    #[must_use]
    pub fn say(mut self, text: impl Into<String>) -> Self {
        self.turns.push(ScriptTurn::Says(ScriptedAnswer { text: Some(text.into()), calls: Vec::new() }));
        self
    }

    /// Adds a turn with a call of this tool.
    #[must_use]
    pub fn call(self, tool: impl Into<String>, arguments: Value) -> Self {
        self.call_raw(tool, arguments.to_string())
    }

    /// Adds a turn with a call of this tool, with arguments as they are written, JSON or not.
    #[must_use]
    pub fn call_raw(mut self, tool: impl Into<String>, arguments: impl Into<String>) -> Self {
        let call = ("call_1".to_owned(), tool.into(), arguments.into());
        self.turns.push(ScriptTurn::Says(ScriptedAnswer { text: None, calls: vec![call] }));
        self
    }

    /// Adds a call of this tool to the last turn.
    #[must_use]
    pub fn and_call(mut self, tool: impl Into<String>, arguments: Value) -> Self {
        if let Some(ScriptTurn::Says(saying)) = self.turns.last_mut() {
            let id = format!("call_{}", saying.calls.len() + 1);
            saying.calls.push((id, tool.into(), arguments.to_string()));
            return self;
        }
        self.call(tool, arguments)
    }

    /// Adds a turn that answers with this status and JSON.
    #[must_use]
    pub fn reply(self, status: u16, json: impl Into<String>) -> Self {
        self.then(ScriptedReply::json(status, json))
    }

    /// Adds a turn that answers with this reply.
    #[must_use]
    pub fn then(mut self, reply: ScriptedReply) -> Self {
        self.turns.push(ScriptTurn::Replies(reply));
        self
    }

    /// Starts an upstream that plays the script.
    ///
    /// # Errors
    /// An error of the operating system, if there is no port or thread.
    pub fn start(self) -> io::Result<ScriptedUpstream> {
        ScriptedUpstream::start(move |received| self.answer(received))
    }

    fn answer(&self, received: &Received) -> ScriptedReply {
        let turn = self.turns.get(received.number).or(self.turns.last());
        match turn {
            None => ScriptedReply::json(
                500,
                r#"{"error":{"message":"the script is empty","type":"server_error","param":null,"code":"script"}}"#,
            ),
            Some(ScriptTurn::Replies(reply)) => reply.clone(),
            Some(ScriptTurn::Says(saying)) => said(saying, received),
        }
    }
}

fn said(saying: &ScriptedAnswer, received: &Received) -> ScriptedReply {
    let request = received.json();
    let named = Api::ALL.into_iter().find(|api| received.line.contains(api.path()));
    let by_body = || Document::parse(received.body.clone()).map_or(Api::Chat, |document| Api::of_request(&document));
    let api = named.unwrap_or_else(by_body);
    let model = request["model"].as_str().unwrap_or("scripted");
    let name = received.number.to_string();
    if request["stream"] == true {
        ScriptedReply::events(saying.stream(api, model, &name).pieces)
    } else {
        ScriptedReply::json(200, saying.whole(api, model, &name).pieces.concat())
    }
}
