//! Rounds that toolmark ran itself, as messages of the conversation: put behind a request, and put back later.
//!
//! A round has the form in which an application would have sent it, with the marks as ids: from there on all is as for
//! calls that applications run, so that what the upstream sees is the same in this exchange and in the next. Pure.

use std::sync::Arc;

use bytes::Bytes;

use super::messages::text_of;
use crate::{
    exchange::turn::Said,
    judge::{call::CallKind, call::ValidCall, marks::Scope},
    wire::{
        edit::Edits,
        json::{Document, Value},
        text::quote,
    },
};

/// Bytes that the rounds behind one visible message may take to be kept.
pub const KEPT_BYTES_MAX: usize = 4 << 20;

/// A turn's assistant message, JSON. `calls`: those that passed, with their marks, in the order of `said`.
pub fn assistant(said: &Said, calls: &[(&ValidCall, &str)]) -> String {
    let content = if said.text.is_empty() { "null".to_owned() } else { quote(&said.text) };
    let mut out = format!(r#"{{"role":"assistant","content":{content}"#);
    if !said.reasoning.is_empty() {
        // Some upstreams demand it back with calls.
        out.push_str(&format!(r#","reasoning_content":{}"#, quote(&said.reasoning)));
    }
    let call = |((call, mark), (own, extras)): (&(&ValidCall, &str), &(crate::judge::call::Call, Vec<String>))| {
        let (kind, inner) = if own.kind == CallKind::Custom { ("custom", "input") } else { ("function", "arguments") };
        let extras: String = extras.iter().map(|extra| format!(",{extra}")).collect();
        let body = format!(r#"{{"name":{},"{inner}":{}}}"#, quote(call.name()), quote(call.arguments()));
        format!(r#"{{"id":{},"type":"{kind}","{kind}":{body}{extras}}}"#, quote(mark))
    };
    let calls: Vec<String> = calls.iter().zip(&said.calls).map(call).collect();
    if !calls.is_empty() {
        out.push_str(&format!(r#","tool_calls":[{}]"#, calls.join(",")));
    }
    out.push('}');
    out
}

/// A result's message, JSON.
pub fn result(mark: &str, text: &str) -> String {
    format!(r#"{{"role":"tool","tool_call_id":{},"content":{}}}"#, quote(mark), quote(text))
}

/// The request with these messages behind its own. A call that it demanded was made: none is demanded any more.
pub fn append(request: &Document, messages: &[String]) -> Option<Bytes> {
    let root = request.root();
    let mut edits = Edits::default();
    edits.append_items(root.get("messages").filter(|own| own.is_array())?, &messages.join(","));
    let choice = root.get_some("tool_choice");
    if let Some(choice) =
        choice.filter(|choice| !choice.is_text("none") && !choice.is_text("auto") && choice.get("allowed_tools").is_none())
    {
        edits.replace(choice.span(), "\"auto\"");
    }
    Some(edits.apply(request.bytes()))
}

/// What belongs to one message that the application has, and that it never saw.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Kept {
    /// Messages before it: JSON.
    pub before: Vec<String>,
    /// The message as the model said it, where it said more: JSON.
    pub whole: Option<String>,
    /// Results behind it: JSON.
    pub behind: Vec<String>,
}

impl Kept {
    /// How much memory it takes.
    pub fn bytes(&self) -> usize {
        self.before.iter().chain(&self.behind).chain(&self.whole).map(String::len).sum()
    }
}

/// By what it is found again.
pub type Key = [u8; 32];

/// The key of a turn by a visible call.
pub fn key_of_mark(scope: &Scope, mark: &str) -> Key {
    let mut hasher = begin(scope);
    hasher.update(b"mark\0").update(mark.as_bytes());
    *hasher.finalize().as_bytes()
}

/// The key of an answer: of all that the application has of the conversation up to it, instructions left out.
pub fn key_of_answer(scope: &Scope, request: &Document, answer: &str) -> Key {
    let mut hasher = begin(scope);
    let messages = request.root().get("messages");
    messages.into_iter().flat_map(Value::items).for_each(|message| digest(&mut hasher, message));
    answered(&hasher, answer)
}

fn begin(scope: &Scope) -> blake3::Hasher {
    let mut hasher = blake3::Hasher::new_derive_key("toolmark 2026-11-22 rounds behind a message v1");
    hasher.update(format!("{scope:?}\0").as_bytes());
    hasher
}

fn answered(hasher: &blake3::Hasher, answer: &str) -> Key {
    let mut hasher = hasher.clone();
    hasher.update(b"answer\0").update(answer.as_bytes());
    *hasher.finalize().as_bytes()
}

fn digest(hasher: &mut blake3::Hasher, message: Value<'_>) {
    let role = message.get("role").and_then(Value::text).unwrap_or_default();
    if matches!(&*role, "system" | "developer") {
        return;
    }
    let mut add = |part: &[u8]| {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
    };
    add(role.as_bytes());
    add(message.get("content").and_then(text_of).unwrap_or_default().as_bytes());
    add(message.get("tool_call_id").and_then(Value::text).unwrap_or_default().as_bytes());
    for call in message.get("tool_calls").into_iter().flat_map(Value::items) {
        add(call.get("id").and_then(Value::text).unwrap_or_default().as_bytes());
    }
}

/// The request with all rounds put back that `find` knows; `None` where there are none.
pub fn restore(request: &Document, scope: &Scope, find: impl Fn(&Key) -> Option<Arc<Kept>>) -> Option<Bytes> {
    let messages = request.root().get("messages").filter(|own| own.is_array())?;
    let (mut hasher, mut edits) = (begin(scope), Edits::default());
    for message in messages.items() {
        if message.get("role").is_some_and(|role| role.is_text("assistant")) {
            let ids = || message.get("tool_calls").into_iter().flat_map(Value::items).filter_map(|call| call.get("id")?.text());
            let by_mark = || ids().find_map(|id| find(&key_of_mark(scope, &id)));
            let content = message.get("content").and_then(text_of).unwrap_or_default();
            let kept = if ids().next().is_some() { by_mark() } else { find(&answered(&hasher, &content)) };
            if let Some(kept) = kept {
                let own = kept.whole.as_deref().unwrap_or_else(|| message.raw_str());
                let parts: Vec<&str> =
                    kept.before.iter().map(String::as_str).chain([own]).chain(kept.behind.iter().map(String::as_str)).collect();
                edits.replace(message.span(), parts.join(","));
            }
        }
        digest(&mut hasher, message);
    }
    (!edits.is_empty()).then(|| edits.apply(request.bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(messages: &str) -> Document {
        Document::parse(Bytes::from(format!(r#"{{"model":"m","messages":[{messages}],"tool_choice":"required"}}"#))).unwrap()
    }

    fn messages(body: &Bytes) -> Vec<serde_json::Value> {
        serde_json::from_slice::<serde_json::Value>(body).unwrap()["messages"].as_array().cloned().unwrap()
    }

    const USER: &str = r#"{"role":"user","content":"Add milk."}"#;

    #[test]
    fn a_round_stands_behind_the_request_and_nothing_is_demanded_any_more() {
        let body = append(&document(USER), &[r#"{"role":"assistant","content":null}"#.into(), result("call_1", "ok")]).unwrap();
        let value: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((messages(&body).len(), value["tool_choice"].as_str()), (3, Some("auto")));
    }

    #[test]
    fn what_was_hidden_is_put_back_where_it_was_and_nowhere_else() {
        let scope = Scope::anonymous();
        let key = key_of_answer(&scope, &document(USER), "Done.");
        let kept =
            Arc::new(Kept { before: vec![r#"{"role":"assistant","tool_calls":[]}"#.into(), result("call_1", "ok")], ..Kept::default() });
        let find = |asked: &Key| (*asked == key).then(|| kept.clone());
        let answer = r#"{"role":"assistant","content":"Done."}"#;
        let next = r#"{"role":"user","content":"And now?"}"#;
        let body = restore(&document(&format!("{USER},{answer},{next}")), &scope, find).unwrap();
        let roles: Vec<String> = messages(&body).iter().map(|own| own["role"].as_str().unwrap_or_default().to_owned()).collect();
        assert_eq!(roles, ["user", "assistant", "tool", "assistant", "user"]);
        // With instructions, or with the content in parts, it is the same conversation.
        let parts = r#"{"role":"system","content":"x"},{"role":"user","content":[{"type":"text","text":"Add milk."}]}"#;
        assert!(restore(&document(&format!("{parts},{answer},{next}")), &scope, find).is_some());
        for (before, answer, scope) in [
            (USER, r#"{"role":"assistant","content":"Done!"}"#, Scope::anonymous()),
            (r#"{"role":"user","content":"Add tea."}"#, answer, Scope::anonymous()),
            (USER, answer, Scope::shared()),
        ] {
            assert!(restore(&document(&format!("{before},{answer},{next}")), &scope, find).is_none(), "{before} {answer}");
        }
    }

    #[test]
    fn a_mixed_turn_is_whole_again() {
        let scope = Scope::anonymous();
        let key = key_of_mark(&scope, "call_a");
        let whole = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"call_a"},{"id":"call_b"}]}"#;
        let kept = Arc::new(Kept { before: vec![], whole: Some(whole.into()), behind: vec![result("call_b", "ok")] });
        let visible = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"call_a"}]}"#;
        let body = restore(&document(&format!("{USER},{visible},{}", result("call_a", "x"))), &scope, |asked| {
            (*asked == key).then(|| kept.clone())
        });
        let ids: Vec<String> = messages(&body.unwrap()).iter().filter_map(|own| own["tool_call_id"].as_str().map(str::to_owned)).collect();
        assert_eq!(ids, ["call_b", "call_a"]);
    }
}
