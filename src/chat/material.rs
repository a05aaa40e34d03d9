//! Texts of a request, as evidence for an answer's claims. Pure.

use std::borrow::Cow;

use super::request::Head;
use crate::{
    exchange::evidence::material::Words,
    judge::history::AnsweredCall,
    openai::content::text_of,
    wire::json::{Document, Value},
};

/// Extracts the texts of a request, and the results in `answered`.
pub fn words_of(document: &Document, answered: &[AnsweredCall]) -> Words {
    let Ok(head) = Head::read(document) else { return Words::default() };
    let messages: Vec<Value<'_>> = head.messages.items().collect();
    let mut words = Words::default();
    let content = |message: Value<'_>| message.get("content").and_then(text_of).map(Cow::into_owned).unwrap_or_default();
    for result in answered {
        let arguments = result.call.and_then(|(item, call)| arguments_of(*messages.get(item)?, call));
        let text = messages.get(result.item).copied().map(content);
        words.results.push((arguments.unwrap_or_default(), text.unwrap_or_default()));
    }
    for (at, message) in messages.iter().enumerate() {
        if answered.iter().any(|result| result.item == at) {
            continue;
        }
        let text = content(*message);
        if message.get("role").is_some_and(|role| role.is_text("user")) {
            words.asked.clone_from(&text);
        }
        if message.get("role").is_some_and(|role| role.is_text("assistant")) && !text.is_empty() {
            words.answers.push(text.clone());
        }
        if !text.is_empty() {
            words.said.push(text);
        }
        words.said.extend((0..).map_while(|call| arguments_of(*message, call)));
    }
    words.definitions = head.brought().array.map(|tools| tools.raw_str().to_owned()).unwrap_or_default();
    words
}

/// Arguments of one of a message's calls.
fn arguments_of(message: Value<'_>, number: usize) -> Option<String> {
    let calls = message.get("tool_calls").into_iter().flat_map(Value::items);
    let call = calls.chain(message.get_some("function_call")).nth(number)?;
    let body = call.get("function").or_else(|| call.get("custom")).unwrap_or(call);
    let arguments = body.get("arguments").or_else(|| body.get("input"));
    Some(arguments.and_then(Value::text).map(Cow::into_owned).unwrap_or_default())
}
