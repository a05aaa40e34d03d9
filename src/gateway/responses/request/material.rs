//! Texts of a request, as evidence for an answer's claims. Pure.

use std::{borrow::Cow, sync::Arc};

use crate::{
    exchange::evidence::material::{Material, ResultTexts, Words},
    openai::content::{has_media, text_of},
    responses::{
        request::{
            Head, Input,
            input_items::{InputItem, Kind},
        },
        response::read::has_unseen_result,
    },
    wire::json::{Document, Value},
};

/// Extracts the texts of a request, and the results that `material` has.
pub fn words_of(document: &Document, material: &Material) -> Words {
    let Ok(head) = Head::read(document) else { return Words::default() };
    let mut words = Words::default();
    let mut is_result = vec![false; head.items().len()];
    let output = |at: usize| {
        let read = || head.items().get(at).and_then(InputItem::output).and_then(text_of).unwrap_or_default().into();
        material.text(at, read)
    };
    for result in &material.answered {
        is_result.get_mut(result.item).into_iter().for_each(|is_result| *is_result = true);
        let here = || result.call.and_then(|(item, _)| Some((item, head.items().get(item)?)));
        let arguments = || here().map(|(at, item)| material.text(at, || arguments_of(item).into())).or_else(|| result.arguments.clone());
        let has_media = || head.items().get(result.item).and_then(InputItem::output).is_some_and(has_media);
        words.results.push(material.reading(result, || ResultTexts {
            arguments: arguments().unwrap_or_default(),
            text: output(result.item),
            has_media: has_media(),
        }));
    }
    words.said.extend(head.instructions.and_then(Value::text).map(Arc::from));
    if let Input::Text(text) = head.input {
        let text: Arc<str> = text.text().unwrap_or_default().into();
        words.asked = text.clone().into();
        words.said.push(text);
    }
    for (at, (item, is_result)) in head.items().iter().zip(is_result).enumerate() {
        if is_result {
            continue;
        }
        let text = material.text(at, || match item.kind {
            Kind::User | Kind::Assistant | Kind::Instructions => item.content().and_then(text_of).unwrap_or_default().into(),
            Kind::Call(_) => arguments_of(item).into(),
            Kind::Output(_) => item.output().and_then(text_of).unwrap_or_default().into(),
            // What the upstream's own tools returned, and whatever else: as it is.
            Kind::Reference | Kind::Tools | Kind::Other => item.value.raw_str().into(),
        });
        let has_content = || item.content().is_some_and(|content| content.is_string() || content.is_array());
        words.unseen |= item.kind == Kind::Other && has_unseen_result(item.value);
        if item.kind == Kind::User && has_content() {
            words.unseen = item.content().is_some_and(has_media);
            words.asked = text.clone().into();
        }
        if item.kind == Kind::Assistant && has_content() {
            words.answers.push(text.clone());
        }
        words.said.extend((!text.is_empty()).then_some(text));
    }
    words.definitions = head.tools.map(|tools| tools.raw_str().to_owned()).unwrap_or_default();
    words
}

fn arguments_of(item: &InputItem<'_>) -> String {
    let arguments = item.value.get("arguments").or_else(|| item.value.get("input"));
    arguments.and_then(Value::text).map(Cow::into_owned).unwrap_or_default()
}
