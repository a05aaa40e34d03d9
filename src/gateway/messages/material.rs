//! Texts of a request, as evidence for an answer's claims. Pure.

use std::sync::Arc;

use super::{
    blocks::has_unseen_result,
    history::{Place, blocks, places, texts},
    request::Head,
};
use crate::{
    exchange::{
        conversation::recalled::Recalled,
        evidence::material::{Material, ResultTexts, Words},
    },
    openai::content::{has_media, text_of},
    wire::json::{Document, Value},
};

/// Extracts the texts of a request, and the results that `material` has.
pub fn words_of(document: &Document, material: &Material) -> Words {
    let answered = &material.answered;
    let Ok(head) = Head::read(document) else { return Words::default() };
    let places = places(head.messages, &Recalled::default()).unwrap_or_default();
    let mut words = Words::default();
    for result in answered {
        let arguments = || {
            let (item, number) = result.call?;
            let Some(Place::Model(_, calls)) = places.get(item) else { return None };
            Some(arguments_of(material, item, number, *calls.get(number)?))
        };
        let text = || match places.get(result.item) {
            Some(Place::Result(block, _)) => block.get("content").and_then(text_of).unwrap_or_default().into(),
            _ => Arc::from(""),
        };
        let has_media = || matches!(places.get(result.item), Some(Place::Result(block, _)) if block.get("content").is_some_and(has_media));
        words.results.push(material.reading(result, || ResultTexts {
            arguments: arguments().unwrap_or_default(),
            text: material.text(result.item, text),
            has_media: has_media(),
        }));
    }
    words.said.extend(head.system.into_iter().flat_map(texts).map(Arc::from));
    for (at, place) in places.iter().enumerate() {
        match place {
            Place::Model(messages, calls) => {
                words.unseen |= messages.iter().flat_map(|message| blocks(*message)).any(has_unseen_result);
                let read = || messages.iter().flat_map(|message| answer_texts(*message)).collect::<String>().into();
                let text = material.text(at, read);
                if !text.is_empty() {
                    words.answers.push(text.clone());
                    words.said.push(text);
                }
                words.said.extend(calls.iter().enumerate().map(|(number, call)| arguments_of(material, at, number, *call)));
            }
            Place::User(message) => {
                words.unseen = message.get("content").is_some_and(has_media);
                let text = material.text(at, || texts(*message).join("\n").into());
                words.asked = text.clone().into();
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

/// Arguments of a call: JSON. `at`: index of the turn that makes it; `number`: the call's among those of the turn.
fn arguments_of(material: &Material, at: usize, number: usize, call: Value<'_>) -> Arc<str> {
    let read = || call.get("input").map_or_else(Arc::default, |input| Arc::from(input.raw_str()));
    match material.memo.get(at).and_then(|memo| memo.known_calls().get(number)) {
        Some(memo) => memo.arguments.get_or_init(read).clone(),
        None => read(),
    }
}

/// Texts of a message of the model, in order.
pub fn answer_texts(message: Value<'_>) -> Vec<String> {
    let content = message.get("content");
    let string = content.and_then(Value::text).map(|text| text.into_owned());
    let blocks = content.into_iter().flat_map(Value::items).filter(|block| block.get("type").is_some_and(|kind| kind.is_text("text")));
    string.into_iter().chain(blocks.filter_map(|block| block.get("text")?.text().map(|text| text.into_owned()))).collect()
}
