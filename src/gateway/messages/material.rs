//! Texts of a request, as evidence for an answer's claims. Pure.

use std::sync::Arc;

use super::{
    history::{Place, places, texts},
    request::Head,
};
use crate::{
    exchange::{
        conversation::recalled::Recalled,
        evidence::material::{Material, Words},
    },
    openai::content::text_of,
    wire::json::{Document, Value},
};

/// Extracts the texts of a request, and the results that `material` has.
pub fn words_of(document: &Document, material: &Material) -> Words {
    let answered = &material.answered;
    let Ok(head) = Head::read(document) else { return Words::default() };
    let places = places(head.messages, &Recalled::default()).unwrap_or_default();
    let mut words = Words::default();
    let input = |call: Value<'_>| call.get("input").map(|input| input.raw_str().to_owned()).unwrap_or_default();
    for result in answered {
        let call = result.call.and_then(|(item, call)| match places.get(item)? {
            Place::Model(_, calls) => calls.get(call).copied(),
            Place::Result(..) | Place::User(_) | Place::Beside(_) | Place::Instructions(_) => None,
        });
        let text = match places.get(result.item) {
            Some(Place::Result(block, _)) => block.get("content").and_then(text_of).unwrap_or_default().into_owned(),
            _ => String::new(),
        };
        words.results.push(material.reading(result, || (call.map(input).unwrap_or_default().into(), text.into())));
    }
    words.said.extend(head.system.into_iter().flat_map(texts).map(Arc::from));
    for (at, place) in places.iter().enumerate() {
        match place {
            Place::Model(messages, calls) => {
                let text: String = messages.iter().flat_map(|message| answer_texts(*message)).collect();
                let text: Arc<str> = text.into();
                if !text.is_empty() {
                    words.answers.push(text.clone());
                    words.said.push(text);
                }
                words.said.extend(calls.iter().map(|call| input(*call).into()));
            }
            Place::User(message) => {
                let text: Arc<str> = texts(*message).join("\n").into();
                words.asked.clone_from(&text);
                words.said.extend((!text.is_empty()).then_some(text));
            }
            Place::Beside(message) | Place::Instructions(message) => words.said.extend(texts(*message).into_iter().map(Arc::from)),
            Place::Result(block, _) if !answered.iter().any(|result| result.item == at) => {
                words.said.extend(block.get("content").map(texts).unwrap_or_default().into_iter().map(Arc::from));
            }
            Place::Result(..) => {}
        }
    }
    words.definitions = head.tools.map(|tools| tools.raw_str().to_owned()).unwrap_or_default();
    words
}

/// Texts of a message of the model, in order.
pub fn answer_texts(message: Value<'_>) -> Vec<String> {
    let content = message.get("content");
    let string = content.and_then(Value::text).map(|text| text.into_owned());
    let blocks = content.into_iter().flat_map(Value::items).filter(|block| block.get("type").is_some_and(|kind| kind.is_text("text")));
    string.into_iter().chain(blocks.filter_map(|block| block.get("text")?.text().map(|text| text.into_owned()))).collect()
}
