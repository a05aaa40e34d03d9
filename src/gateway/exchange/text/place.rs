//! A text joined from its parts as a stream would join them, so that a claim can't hide at a boundary. Pure.

use std::{
    borrow::Cow,
    collections::HashSet,
    ops::{Deref, Range},
};

use super::{
    places::{is_call_part, is_thought},
    spelling::is_respelled,
};
use crate::{
    exchange::{context::Context, error::ShapeError},
    judge::text::{TextGate, TextRules},
    wire::json::{Kind, Member, Value, string::StringJoiner},
};

/// A text that went through its gate, and the position of its parts.
pub struct TextPlace {
    /// Gate of the text.
    pub gate: TextGate,
    /// The joined text.
    pub text: String,
    /// The strings that it was joined from.
    pub parts: Vec<Part>,
}

/// One string of the text.
pub struct Part {
    /// Range in the answer, including quotes.
    pub span: Range<usize>,
    /// Range in the joined text.
    pub place: Range<usize>,
    /// Its text isn't what the string says by itself.
    pub respelled: bool,
}

impl TextPlace {
    /// Joins the strings and feeds the text through its gate; `None` if there is no text.
    pub fn read<'d>(strings: impl IntoIterator<Item = Value<'d>>, context: &Context) -> Option<Self> {
        Self::gated(strings, |gate, text| context.take(gate, text))
    }

    /// Like [`Self::read`], but always judged as prose, also if the request asks for JSON answers.
    pub fn read_as_prose<'d>(strings: impl IntoIterator<Item = Value<'d>>, context: &Context) -> Option<Self> {
        Self::gated(strings, |gate, text| context.take_prose(gate, text))
    }

    /// Like [`Self::read`], but judged only for ids that claim an execution; `None` also if it can have none.
    /// `rules`: those of [`Context::id_rules`].
    pub fn read_for_ids<'d>(
        strings: impl IntoIterator<Item = Value<'d>>,
        rules: &impl Deref<Target = TextRules>,
        context: &Context,
    ) -> Option<Self> {
        let mut place = Self::gated(strings, |_, _| ())?;
        if !TextGate::may_find_ids(&place.text, &context.text) {
            return None;
        }
        context.take_by(rules, &mut place.gate, &place.text);
        Some(place)
    }

    /// Like [`Self::read`], but with what the upstream's own tools found noted where it comes, as in a stream: behind the texts before it.
    /// `strings`: each with whether anything was found before it.
    pub fn read_behind_results(strings: &[(Value<'_>, bool)], context: &Context) -> Option<Self> {
        let values = || strings.iter().map(|(string, _)| *string);
        let behind = strings.iter().position(|(_, found)| *found).unwrap_or(strings.len());
        if behind == 0 && !strings.is_empty() {
            context.evidence.note_unseen();
        }
        if behind == 0 || behind == strings.len() {
            return Self::read(values(), context);
        }
        let mut place = Self::gated(values(), |_, _| ())?;
        for (at, part) in place.parts.iter().enumerate() {
            if at == behind {
                context.evidence.note_unseen();
            }
            context.feed(&mut place.gate, place.text.get(part.place.clone()).unwrap_or_default());
        }
        context.close(&mut place.gate);
        Some(place)
    }

    /// Joins the strings and passes the text to `take` with its gate.
    fn gated<'d>(strings: impl IntoIterator<Item = Value<'d>>, take: impl FnOnce(&mut TextGate, &str)) -> Option<Self> {
        let (mut text, mut parts, mut joiner) = (String::new(), Vec::new(), StringJoiner::default());
        for string in strings {
            let start = text.len();
            text.push_str(&joiner.text(string).unwrap_or_default());
            parts.push(Part { span: string.span(), place: start..text.len(), respelled: joiner.respelled() });
        }
        if text.is_empty() {
            return None;
        }
        let mut gate = TextGate::default();
        take(&mut gate, &text);
        Some(Self { gate, text, parts })
    }

    /// The released text of a part; `None` if it is unchanged. `removals`: those of the text, in order.
    pub fn changed(&self, part: &Part, removals: &[Range<usize>]) -> Option<String> {
        let (mut text, mut from, mut changed) = (String::new(), part.place.start, part.respelled && !removals.is_empty());
        let first = removals.partition_point(|removal| removal.end <= part.place.start);
        for removal in removals.iter().skip(first).take_while(|removal| removal.start < part.place.end) {
            let (start, end) = (removal.start.max(from), removal.end.min(part.place.end));
            text.push_str(self.text.get(from..start).unwrap_or_default());
            (from, changed) = (end, true);
        }
        text.push_str(self.text.get(from..part.place.end).unwrap_or_default());
        changed.then_some(text)
    }

    /// The removals within a part, in bytes from the part's start. `removals`: those of the text, in order.
    pub fn removals_in(&self, part: &Part, removals: &[Range<usize>]) -> Vec<Range<usize>> {
        let inside = |removal: &Range<usize>| removal.start.max(part.place.start)..removal.end.min(part.place.end);
        let own = removals.iter().map(inside).filter(|removal| removal.start < removal.end);
        own.map(|removal| removal.start - part.place.start..removal.end - part.place.start).collect()
    }

    /// The original text of a part.
    pub fn text_of(&self, part: &Part) -> &str {
        self.text.get(part.place.clone()).unwrap_or_default()
    }

    /// The released text as a whole.
    pub fn leaving(&self, removals: &[Range<usize>]) -> Cow<'_, str> {
        let whole = Part { span: 0..0, place: 0..self.text.len(), respelled: false };
        self.changed(&whole, removals).map_or(Cow::Borrowed(&*self.text), Cow::Owned)
    }
}

/// True for empty values: `null`, `""`, `[]` and `{}`.
pub fn is_nothing(value: Value<'_>) -> bool {
    let raw = value.raw();
    match value.kind() {
        Kind::Null => true,
        Kind::Plain => raw.len() == 2,
        // What lies too deep wasn't noted, and is there all the same.
        Kind::Array | Kind::Object => raw.get(1..raw.len() - 1).is_some_and(|inside| inside.trim_ascii().is_empty()),
        Kind::Escaped | Kind::True | Kind::False | Kind::Number => false,
    }
}

/// True if the object has two members of the same name, or one whose name some clients take for another. What was thought may stand there
/// twice, as it isn't judged: a model of NVIDIA's has two `reasoning_content`.
pub fn is_ambiguous(object: Value<'_>) -> bool {
    object.duplicate_name().is_some_and(|name| !is_thought(&name) || says_twice(object)) || is_respelled(object)
}

fn says_twice(object: Value<'_>) -> bool {
    let mut seen = HashSet::new();
    object.members().map(Member::name).any(|name| !is_thought(&name) && !seen.insert(name))
}

/// The strings that make up a text: the value itself, or those in its parts. For the other members of a part see
/// [`super::places`].
///
/// # Errors
/// [`ShapeError`] for a part that is a call, or says two things under one name.
pub fn strings_of(value: Value<'_>) -> Result<Vec<Value<'_>>, ShapeError> {
    let mut strings = Vec::new();
    match value.kind() {
        Kind::Plain | Kind::Escaped => strings.push(value),
        Kind::Object => part_strings(value, &mut strings)?,
        Kind::Array => value.items().try_for_each(|part| part_strings(part, &mut strings))?,
        Kind::Null | Kind::True | Kind::False | Kind::Number => {}
    }
    Ok(strings)
}

fn part_strings<'d>(part: Value<'d>, strings: &mut Vec<Value<'d>>) -> Result<(), ShapeError> {
    if part.is_string() {
        strings.push(part);
        return Ok(());
    }
    if part.is_array() && !is_nothing(part) || is_ambiguous(part) || is_call_part(part) {
        return Err(ShapeError::Text);
    }
    for member in part.members().filter(|member| PART_TEXTS.iter().any(|name| member.is(name))) {
        match member.value.kind() {
            Kind::Plain | Kind::Escaped => strings.push(member.value),
            // Some put a text and what is noted about it into an object of its own, or a list of them.
            Kind::Object | Kind::Array if !is_nothing(member.value) => {
                let inner = member.value.get("value").or_else(|| member.value.get("text")).filter(|own| own.is_string());
                let others = member.value.members().filter(|other| inner.is_none_or(|own| own.span() != other.value.span()));
                let says = |value: Value<'_>| {
                    matches!(value.kind(), Kind::Plain | Kind::Escaped | Kind::Object | Kind::Array) && !is_nothing(value)
                };
                let unread = |other: Member<'_>| says(other.value) && !TEXT_NOTES.iter().any(|name| other.is(name));
                if is_ambiguous(member.value) || others.into_iter().any(unread) {
                    return Err(ShapeError::Text);
                }
                strings.push(inner.ok_or(ShapeError::Text)?);
            }
            Kind::Object | Kind::Array | Kind::Null | Kind::True | Kind::False | Kind::Number => {}
        }
    }
    Ok(())
}

/// Readers of a string.
#[derive(Clone, Copy, Eq, PartialEq)]
enum StringReaders {
    /// Every client.
    All,
    /// Clients that read parts of types which they don't know.
    Some,
}

/// Order of the strings of one text, by who reads them.
#[derive(Clone, Copy, Debug, Default)]
pub struct PartOrder {
    /// A string that every client reads has come.
    begun: bool,
    /// Since then one has come that only some read.
    interrupted: bool,
}

impl PartOrder {
    /// Notes the strings of a value, which [`strings_of`] reads.
    ///
    /// # Errors
    /// [`ShapeError::Text`] for a text that goes on behind a string which only some clients read: they would read two different texts.
    pub fn note(&mut self, value: Value<'_>) -> Result<(), ShapeError> {
        match value.kind() {
            Kind::Plain | Kind::Escaped => self.string(value, StringReaders::All),
            Kind::Object => self.part(value),
            Kind::Array => value.items().try_for_each(|part| self.part(part)),
            Kind::Null | Kind::True | Kind::False | Kind::Number => Ok(()),
        }
    }

    fn part(&mut self, part: Value<'_>) -> Result<(), ShapeError> {
        if part.is_string() {
            return self.string(part, StringReaders::All);
        }
        let kind = part.get("type").and_then(Value::text).unwrap_or_default();
        let known = matches!(&*kind, "" | "text" | "output_text" | "refusal");
        for member in part.members().filter(|member| PART_TEXTS.iter().any(|name| member.is(name))) {
            let readers = if known && !member.is("content") { StringReaders::All } else { StringReaders::Some };
            self.string(member.value, readers)?;
        }
        Ok(())
    }

    fn string(&mut self, text: Value<'_>, readers: StringReaders) -> Result<(), ShapeError> {
        if is_nothing(text) {
            return Ok(());
        }
        match readers {
            StringReaders::All if self.interrupted => return Err(ShapeError::Text),
            StringReaders::All => self.begun = true,
            StringReaders::Some => self.interrupted = self.begun,
        }
        Ok(())
    }
}

/// Notes about a text in an object of its own, beside it.
const TEXT_NOTES: [&str; 5] = ["type", "annotations", "logprobs", "id", "index"];

/// The members of a part that are text.
pub const PART_TEXTS: [&str; 3] = ["text", "refusal", "content"];
