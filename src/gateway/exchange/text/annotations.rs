//! Shifts annotations, which point into the answer's text, where citations were taken out of that text.
//!
//! Source: OpenAI API reference, `message.annotations[].url_citation`: `start_index` and `end_index` count
//! characters. Pure.

use std::ops::Range;

use crate::wire::json::{Value, splice::Splices};

/// Shifts the annotations of `message`, or of one of its parts, whose original text is `text` and lost `removals` (byte
/// ranges of that text, in order).
pub fn shift(edits: &mut Splices, message: Value<'_>, text: &str, removals: &[Range<usize>]) {
    for annotation in message.get("annotations").into_iter().flat_map(Value::items) {
        shift_one(edits, annotation, text, removals);
    }
}

/// Shifts one annotation in the same way.
pub fn shift_one(edits: &mut Splices, annotation: Value<'_>, text: &str, removals: &[Range<usize>]) {
    if removals.is_empty() {
        return;
    }
    let count = |span: Range<usize>| text.get(span).map_or(0, |part| part.chars().count() as u64);
    let gone: Vec<(u64, u64)> = removals.iter().map(|span| (count(0..span.start), count(span.clone()))).collect();
    let inner = annotation.members().map(|member| member.value).filter(|value| value.is_object());
    for place in std::iter::once(annotation).chain(inner) {
        for index in ["start_index", "end_index"].iter().filter_map(|name| place.get(name)) {
            let Some(old) = index.integer() else { continue };
            let lost: u64 = gone.iter().map(|(start, length)| old.saturating_sub(*start).min(*length)).sum();
            if lost > 0 {
                edits.replace(index.span(), (old - lost).to_string());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::json::Document;

    #[test]
    fn they_point_at_the_same_words() {
        let text = "Ä (id: 1) said [x] and (id: 2) [y].";
        let removals: Vec<Range<usize>> =
            [" (id: 1)", " (id: 2)"].iter().map(|gone| text.find(gone).map(|at| at..at + gone.len()).unwrap()).collect();
        let at = |text: &str, word: &str| text.find(word).map(|at| text[..at].chars().count()).unwrap();
        let json = |text: &str| {
            let one = |word: &str| format!(r#"{{"url_citation":{{"start_index":{},"end_index":{}}}}}"#, at(text, word), at(text, word) + 3);
            format!(r#"{{"annotations":[{},{}]}}"#, one("[x]"), one("[y]"))
        };
        let document = Document::parse(json(text).into()).unwrap();
        let mut edits = Splices::default();
        shift(&mut edits, document.root(), text, &removals);
        assert_eq!(edits.apply(document.bytes()), json("Ä said [x] and [y]."));
    }
}
