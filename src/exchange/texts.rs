//! A text joined of its parts as a stream would join them, so that a claim can't hide in a seam. Pure.

use std::{borrow::Cow, ops::Range};

use super::{context::Context, fault::ShapeError};
use crate::{judge::text::TextGate, wire::json::Value};

/// A text that has gone through its gate, and where its parts lie.
pub struct TextPlace {
    /// Its gate.
    pub gate: TextGate,
    /// It itself.
    pub text: String,
    /// Its strings.
    pub parts: Vec<Part>,
}

/// A string of a text: where it lies in the answer, and in the text.
pub struct Part {
    /// In the answer, quotes included.
    pub span: Range<usize>,
    /// In the text.
    pub place: Range<usize>,
}

impl TextPlace {
    /// Joins these strings and takes the text through its gate; `None` where there is none.
    pub fn read<'d>(strings: impl IntoIterator<Item = Value<'d>>, context: &Context) -> Option<Self> {
        let (mut text, mut parts) = (String::new(), Vec::new());
        for string in strings {
            let start = text.len();
            text.push_str(&string.text().unwrap_or_default());
            parts.push(Part { span: string.span(), place: start..text.len() });
        }
        if text.is_empty() {
            return None;
        }
        let mut gate = TextGate::default();
        context.feed(&mut gate, &text);
        context.close(&mut gate);
        Some(Self { gate, text, parts })
    }

    /// What leaves of a part, where that isn't all of it. `removals`: those of the text, in order.
    pub fn changed(&self, part: &Part, removals: &[Range<usize>]) -> Option<String> {
        let (mut text, mut from, mut changed) = (String::new(), part.place.start, false);
        let first = removals.partition_point(|removal| removal.end <= part.place.start);
        for removal in removals.iter().skip(first).take_while(|removal| removal.start < part.place.end) {
            let (start, end) = (removal.start.max(from), removal.end.min(part.place.end));
            text.push_str(self.text.get(from..start).unwrap_or_default());
            (from, changed) = (end, true);
        }
        text.push_str(self.text.get(from..part.place.end).unwrap_or_default());
        changed.then_some(text)
    }

    /// What is taken out of a part, counted in bytes from its own beginning. `removals`: those of the text, in order.
    pub fn removals_in(&self, part: &Part, removals: &[Range<usize>]) -> Vec<Range<usize>> {
        let inside = |removal: &Range<usize>| removal.start.max(part.place.start)..removal.end.min(part.place.end);
        let own = removals.iter().map(inside).filter(|removal| removal.start < removal.end);
        own.map(|removal| removal.start - part.place.start..removal.end - part.place.start).collect()
    }

    /// A part's own text, as it came.
    pub fn text_of(&self, part: &Part) -> &str {
        self.text.get(part.place.clone()).unwrap_or_default()
    }

    /// What leaves of the whole text.
    pub fn leaving(&self, removals: &[Range<usize>]) -> Cow<'_, str> {
        let whole = Part { span: 0..0, place: 0..self.text.len() };
        self.changed(&whole, removals).map_or(Cow::Borrowed(&*self.text), Cow::Owned)
    }
}

/// `null`, `""`, `[]` and `{}` say nothing.
pub fn is_nothing(value: Value<'_>) -> bool {
    let empty = (value.is_array() && value.items().next().is_none()) || (value.is_object() && value.members().next().is_none());
    value.is_null() || value.raw() == b"\"\"" || empty
}

/// Has it two members of one name, or one that some clients take for another?
pub fn is_ambiguous(object: Value<'_>) -> bool {
    object.duplicate_name().is_some() || is_respelled(object)
}

/// Has it a member that some clients take for another? Go's `encoding/json` reads names in any case, and folds two
/// characters beyond ASCII.
fn is_respelled(object: Value<'_>) -> bool {
    const NAMES: [&str; 24] = [
        "type",
        "name",
        "arguments",
        "input",
        "call_id",
        "namespace",
        "role",
        "content",
        "text",
        "refusal",
        "transcript",
        "output_text",
        "item",
        "response",
        "part",
        "delta",
        "output",
        "function",
        "custom",
        "action",
        "choices",
        "message",
        "tool_calls",
        "function_call",
    ];
    // Without a branch for each byte; a backslash may stand for any character.
    let odd = |found: bool, byte: &u8| found | byte.is_ascii_uppercase() | !byte.is_ascii() | (*byte == b'\\');
    let same = |name: &str| {
        let folded = name.replace('\u{17f}', "s").replace('\u{212a}', "k");
        NAMES.iter().any(|own| own.eq_ignore_ascii_case(&folded))
    };
    object.members().any(|member| member.key.raw().iter().fold(false, odd) && same(&member.name()))
}

/// The strings that make up a text: it itself, or those in a list of parts.
///
/// # Errors
/// [`ShapeError::Text`] for any other shape: what isn't read isn't judged.
pub fn strings_of(value: Value<'_>) -> Result<Vec<Value<'_>>, ShapeError> {
    use crate::wire::json::Kind;
    if value.is_null() {
        return Ok(Vec::new());
    }
    if value.is_string() {
        return Ok(vec![value]);
    }
    if !value.is_array() {
        return Err(ShapeError::Text);
    }
    let mut strings = Vec::new();
    for part in value.items() {
        if part.is_string() {
            strings.push(part);
            continue;
        }
        let calls = part.get("type").and_then(Value::text).is_some_and(|kind| matches!(&*kind, "tool_use" | "tool_call" | "function_call"));
        if !(part.is_object() || part.is_null()) || is_ambiguous(part) || calls {
            return Err(ShapeError::Text);
        }
        for member in part.members().filter(|member| ["text", "refusal", "content"].iter().any(|name| member.is(name))) {
            match member.value.kind() {
                Kind::Plain | Kind::Escaped => strings.push(member.value),
                Kind::Null => {}
                Kind::True | Kind::False | Kind::Number | Kind::Array | Kind::Object => return Err(ShapeError::Text),
            }
        }
    }
    Ok(strings)
}
