//! Texts of a request, as evidence for an answer's claims. Pure.

use std::sync::Arc;

use super::request::Head;
use crate::{
    claims::evidence::beginning::KnownTexts,
    exchange::evidence::material::{Material, ResultTexts, Words},
    openai::content::{has_media, text_of},
    wire::json::{Document, Value},
};

/// Extracts the texts of a request, and the results that `material` has.
pub fn words_of(document: &Document, material: &Material) -> Words {
    let Ok(head) = Head::read(document) else { return Words::default() };
    let kept = material.kept.as_deref();
    let known = kept.into_iter().chain(material.known.as_deref()).find_map(|known| Some((known.count(), known.texts()?)));
    let (first, mut words) = known.map_or_else(Default::default, |(count, texts)| (count, Words::of(texts)));
    // INVARIANT: the results behind what is known answer calls behind it.
    let messages: Vec<Value<'_>> = head.messages.items().skip(first).collect();
    let message = |at: usize| messages.get(at.checked_sub(first)?).copied();
    let content = |at: usize| {
        let read = || message(at).and_then(|message| message.get("content")).and_then(text_of).unwrap_or_default().into();
        material.text(at, read)
    };
    let mut is_result = vec![false; messages.len()];
    words.results.reserve(material.answered.len().saturating_sub(words.results.len()));
    for result in material.answered.iter().skip(words.results.len()) {
        is_result.get_mut(result.item - first).into_iter().for_each(|is_result| *is_result = true);
        let arguments = || result.call.and_then(|(item, call)| arguments_of(material, item, message(item)?, call));
        let has_media = || message(result.item).and_then(|message| message.get("content")).is_some_and(has_media);
        words.results.push(material.reading(result, || ResultTexts {
            arguments: arguments().unwrap_or_default(),
            text: content(result.item),
            has_media: has_media(),
        }));
    }
    let mut beginning = None;
    for (at, (message, is_result)) in messages.iter().zip(is_result).enumerate() {
        let at = first + at;
        if kept.is_some_and(|kept| kept.count() == at) {
            beginning = Some((words.said.len(), words.answers.len(), words.asked.clone(), words.unseen));
        }
        if is_result {
            continue;
        }
        let text = content(at);
        let role = message.get("role");
        if role.is_some_and(|role| role.is_text("user")) {
            words.asked = text.clone().into();
            words.unseen = message.get("content").is_some_and(has_media);
        }
        if role.is_some_and(|role| role.is_text("assistant")) && !text.is_empty() {
            words.answers.push(text.clone());
        }
        if !text.is_empty() {
            words.said.push(text);
        }
        // Where the number of calls is known, the message isn't searched for another one.
        let known = material.memo.get(at).map_or(0, |memo| memo.known_calls().len());
        let count = if known > 0 { known } else { usize::MAX };
        words.said.extend((0..count).map_while(|call| arguments_of(material, at, *message, call)));
    }
    if let (Some(kept), Some((said, answers, asked, unseen))) = (kept, beginning) {
        let read = || {
            let results = words.results.iter().take(kept.answered()).cloned().collect();
            let (said, answers) = (words.said.iter().take(said).cloned().collect(), words.answers.iter().take(answers).cloned().collect());
            let mut texts = KnownTexts::new(results, said, answers, asked, words.beginning.as_deref());
            texts.unseen = unseen;
            texts
        };
        words.beginning = Some(kept.keep_texts(read).clone());
    }
    words.definitions = head.brought().array.map(|tools| tools.raw_str().to_owned()).unwrap_or_default();
    words
}

/// Arguments of one of a message's calls. `at`: index of the message.
fn arguments_of(material: &Material, at: usize, message: Value<'_>, number: usize) -> Option<Arc<str>> {
    let read = || -> Option<Arc<str>> {
        let calls = message.get("tool_calls").into_iter().flat_map(Value::items);
        let call = calls.chain(message.get_some("function_call")).nth(number)?;
        let body = call.get("function").or_else(|| call.get("custom")).unwrap_or(call);
        let arguments = body.get("arguments").or_else(|| body.get("input"));
        Some(Arc::from(arguments.and_then(Value::text).unwrap_or_default()))
    };
    let memo = material.memo.get(at).and_then(|memo| memo.known_calls().get(number));
    if let Some(known) = memo.and_then(|memo| memo.arguments.get()) {
        return Some(known.clone());
    }
    let text = read()?;
    if let Some(memo) = memo {
        let _known = memo.arguments.set(text.clone());
    }
    Some(text)
}
