//! The upstream: chat completions, the Responses API and the Messages API with one scripted model, which does what the last user
//! message asks for. A request that comes again with its `idempotency-key` gets the same answer again.

use std::{
    collections::HashMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use serde_json::{Value, json};
use toolmark::testing::{Received, ScriptedReply};

use crate::clients::{
    messages_model::strict_with_threads,
    model::{self, FORGED, Turn, report, text_of},
    responses_model::strict,
};

/// What a user asks for, behind the name of the run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Wish {
    /// A call, and a report of its result.
    Call,
    /// The same, after a call of a tool that there isn't.
    Invent,
    /// A citation that never was.
    Forge,
    /// The same, taken back when it is objected to.
    ForgeThenMend,
    /// The latest result, cited as it was.
    Cite,
    /// The latest result, cited with another value.
    Misquote,
}

impl Wish {
    const ALL: [(Self, &str); 6] = [
        (Self::Call, "call"),
        (Self::Invent, "invent"),
        (Self::Forge, "forge"),
        (Self::ForgeThenMend, "forge then mend"),
        (Self::Cite, "cite"),
        (Self::Misquote, "misquote"),
    ];

    /// The text of the user's message.
    pub fn text(self, run: u64, round: usize) -> String {
        let word = Self::ALL.iter().find(|(wish, _)| *wish == self).map_or("", |(_, word)| word);
        format!("run {run}, {round} before: {word}")
    }
}

/// What the model does about a conversation.
fn turn(_: &Value, messages: &[Value]) -> Turn {
    let Some(last) = messages.last() else { return Turn::Reject };
    let objected = |message: &&Value| text_of(message).starts_with("Your last answer was not delivered");
    let asked = messages.iter().rev().find(|message| message["role"] == "user" && !objected(message)).map(text_of).unwrap_or_default();
    let word = asked.rsplit(": ").next().unwrap_or_default();
    let Some((wish, _)) = Wish::ALL.iter().find(|(_, own)| *own == word) else { return Turn::Reject };
    let is_result = |message: &&Value| message["role"] == "tool" && !text_of(message).starts_with("Tool call ");
    let results = || messages.iter().rev().find(is_result).map(text_of).unwrap_or_default();
    let rejected = last["role"] == "tool" && !is_result(&last);
    let mended = last["role"] == "user" && objected(&last);
    match wish {
        Wish::Call | Wish::Invent if is_result(&last) => Turn::Say(format!("It is {}.", report(&text_of(last)))),
        Wish::Invent if !rejected => Turn::Call("", vec![("get_wether", r#"{"city":"Paris"}"#)]),
        Wish::Call | Wish::Invent => Turn::Call("Let me look.", vec![("get_weather", r#"{"city":"Paris"}"#)]),
        Wish::ForgeThenMend if mended => Turn::Say("I can't check that now.".into()),
        Wish::Forge | Wish::ForgeThenMend => Turn::Say(format!("It is sunny in Paris, 25 degrees (execution_id: {FORGED}).")),
        Wish::Cite => Turn::Say(format!("It is still {}.", report(&results()))),
        Wish::Misquote => {
            let mut result: Value = serde_json::from_str(&results()).unwrap_or_default();
            result["degrees"] = json!(99);
            Turn::Say(format!("It is {}.", report(&result.to_string())))
        }
    }
}

/// See the module.
pub fn upstream() -> impl Fn(&Received) -> ScriptedReply + Send + Sync + 'static {
    let (responses, messages) = (strict(turn), strict_with_threads(turn));
    let answered = Mutex::new(HashMap::<blake3::Hash, ScriptedReply>::new());
    let conversations = AtomicU64::new(0);
    move |received| {
        let key = received.headers.get("idempotency-key").map(|key| {
            let mut hasher = blake3::Hasher::new();
            hasher.update(received.line.as_bytes()).update(key.as_bytes()).update(&received.body);
            hasher.finalize()
        });
        let mut answered = answered.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reply) = key.and_then(|key| answered.get(&key)) {
            return reply.clone();
        }
        let reply = match &*received.line {
            "POST /v1/chat/completions" => model::scripted(received, turn),
            "POST /v1/conversations" => {
                let id = format!("conv_{:04}", conversations.fetch_add(1, Ordering::Relaxed));
                ScriptedReply::json(200, json!({"id": id, "object": "conversation", "created_at": 1, "metadata": {}}).to_string())
            }
            line if line.contains(" /v1/responses") => responses(received),
            _ => messages(received),
        };
        answered.extend(key.map(|key| (key, reply.clone())));
        reply
    }
}
