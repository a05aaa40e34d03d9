//! Texts of a request, as evidence for an answer's claims. Pure.

use std::borrow::Cow;

use crate::{
    exchange::evidence::material::Words,
    judge::history::AnsweredCall,
    openai::content::text_of,
    responses::request::{
        Head, Input,
        input_items::{InputItem, Kind},
    },
    wire::json::{Document, Value},
};

/// Extracts the texts of a request, and the results in `answered`.
pub fn words_of(document: &Document, answered: &[AnsweredCall]) -> Words {
    let Ok(head) = Head::read(document) else { return Words::default() };
    let mut words = Words::default();
    for result in answered {
        let here = result.call.and_then(|(item, _)| head.items().get(item)).map(arguments_of);
        let arguments = here.or_else(|| result.arguments.as_deref().map(str::to_owned));
        let text = head.items().get(result.item).and_then(InputItem::output).and_then(text_of).map(Cow::into_owned);
        words.results.push((arguments.unwrap_or_default(), text.unwrap_or_default()));
    }
    words.said.extend(head.instructions.and_then(Value::text).map(Cow::into_owned));
    if let Input::Text(text) = head.input {
        words.asked = text.text().map(Cow::into_owned).unwrap_or_default();
        words.said.push(words.asked.clone());
    }
    for (at, item) in head.items().iter().enumerate() {
        if answered.iter().any(|result| result.item == at) {
            continue;
        }
        let text = match item.kind {
            Kind::User | Kind::Assistant | Kind::Instructions => item.content().and_then(text_of).map(Cow::into_owned),
            Kind::Call(_) => Some(arguments_of(item)),
            Kind::Output(_) => item.output().and_then(text_of).map(Cow::into_owned),
            // What the upstream's own tools returned, and whatever else: as it is.
            Kind::Reference | Kind::Tools | Kind::Other => Some(item.value.raw_str().to_owned()),
        };
        if let Some(text) = text.as_ref().filter(|_| item.kind == Kind::User) {
            words.asked.clone_from(text);
        }
        if item.kind == Kind::Assistant {
            words.answers.extend(text.clone());
        }
        words.said.extend(text.filter(|text| !text.is_empty()));
    }
    words.definitions = head.tools.map(|tools| tools.raw_str().to_owned()).unwrap_or_default();
    words
}

fn arguments_of(item: &InputItem<'_>) -> String {
    let arguments = item.value.get("arguments").or_else(|| item.value.get("input"));
    arguments.and_then(Value::text).map(Cow::into_owned).unwrap_or_default()
}
