//! Template of a chunk with text and nothing else that says anything ([`EventTemplate`]). Pure.

use std::{borrow::Cow, ops::Range};

use crate::{
    exchange::text::{event_template::EventTemplate, place::is_nothing},
    wire::{
        json::{Document, Value},
        sse::SseEvent,
    },
};

/// Common part of the chunks that continue the text of one choice.
pub struct DeltaTemplate {
    event: EventTemplate,
    index: u64,
}

impl DeltaTemplate {
    /// Template of a judged event; `None` if the event has more than text of one choice.
    pub fn of(event: &SseEvent, document: &Document) -> Option<Self> {
        if !is_simple(event) {
            return None;
        }
        let (mut choice, mut padding) = (None, None);
        for member in document.root().members() {
            match &*member.name() {
                "choices" => {
                    let mut choices = member.value.items();
                    choice = choices.next().filter(|_| choices.next().is_none());
                }
                "error" | "usage" | "x_groq" if !member.value.is_null() => return None,
                "toolmark" => return None,
                // OpenAI's, against guessing from sizes.
                "obfuscation" if member.value.is_string() => padding = Some(member.value.span()),
                _ => {}
            }
        }
        let choice = choice?;
        let index = choice.get_some("index").map_or(Some(0), Value::integer)?;
        Some(Self { event: EventTemplate::new(document.bytes(), text_of(choice)?, padding)?, index })
    }

    /// Index of the choice.
    pub fn index(&self) -> u64 {
        self.index
    }

    /// Text of an event that matches; `None` if the event doesn't match, or has no text.
    pub fn text<'e>(&self, event: &'e SseEvent) -> Option<Cow<'e, str>> {
        self.event.text(event.data.as_deref().filter(|_| is_simple(event))?)
    }
}

fn is_simple(event: &SseEvent) -> bool {
    event.plain && event.name.is_none()
}

/// Position of a choice's text; `None` if the choice has anything else.
fn text_of(choice: Value<'_>) -> Option<Range<usize>> {
    let mut text = None;
    for member in choice.members() {
        match &*member.name() {
            "delta" => {
                for inner in member.value.members() {
                    if &*inner.name() == "content" && inner.value.is_string() {
                        text = Some(inner.value.span());
                    } else if !is_nothing(inner.value) {
                        return None;
                    }
                }
            }
            "message" => return None,
            "finish_reason" if !is_nothing(member.value) => return None,
            _ => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::sse::SseParser;

    fn event(data: &str) -> SseEvent {
        let mut found = Vec::new();
        SseParser::default().handle(format!("data: {data}\n\n").into(), |event| found.push(event)).unwrap();
        found.remove(0)
    }

    fn pattern(data: &str) -> Option<DeltaTemplate> {
        let event = event(data);
        DeltaTemplate::of(&event, &Document::parse(event.data.clone().unwrap()).unwrap())
    }

    #[test]
    fn what_only_goes_on_with_its_text() {
        let chunk = |content: &str, padding: &str| {
            format!(
                r#"{{"id":"c","choices":[{{"index":2,"delta":{{"content":{content}}},"logprobs":null,"finish_reason":null}}],"usage":null,"obfuscation":{padding}}}"#
            )
        };
        let pattern = pattern(&chunk("\"a\"", "\"xyz\"")).unwrap();
        assert_eq!(pattern.index(), 2);
        for (content, text) in [("\" b\"", " b"), (r#""\"q\" é\u00e9""#, "\"q\" éé"), (r#""\\""#, "\\")] {
            assert_eq!(pattern.text(&event(&chunk(content, "\"\""))).as_deref(), Some(text), "{content}");
        }
        for content in ["\"\"", "null", "1", "\"a", "\"a\",\"role\":\"user\"", "\"a\"}", r#""\x""#, "[\"a\"]", "\"a\u{1}\""] {
            assert_eq!(pattern.text(&event(&chunk(content, "\"\""))), None, "{content}");
        }
        assert_eq!(pattern.text(&event(&chunk("\"a\"", "1"))), None);
        assert_eq!(pattern.text(&event(&format!("{} ", chunk("\"a\"", "\"\"")))), None);
    }

    #[test]
    fn what_says_more_is_no_pattern() {
        for (root, choice, delta) in [
            ("\"usage\":{}", "", ""),
            ("\"toolmark\":1", "", ""),
            ("\"error\":\"\"", "", ""),
            ("", "\"finish_reason\":\"stop\"", ""),
            ("", "\"message\":{}", ""),
            ("", "", "\"role\":\"assistant\""),
            ("", "", "\"tool_calls\":[{}]"),
            ("", "", "\"reasoning_content\":\"hm\""),
        ] {
            let comma = |text: &str| if text.is_empty() { String::new() } else { format!(",{text}") };
            let (root, choice, delta) = (comma(root), comma(choice), comma(delta));
            let data = format!(r#"{{"choices":[{{"delta":{{"content":"a"{delta}}}{choice}}}]{root}}}"#);
            assert_eq!(pattern(&data).is_some(), root.is_empty() && choice.is_empty() && delta.is_empty(), "{data}");
        }
        assert!(pattern(r#"{"choices":[{"delta":{"content":"a","role":null,"tool_calls":[]},"finish_reason":""}]}"#).is_some());
        assert!(pattern(r#"{"choices":[{"delta":{"content":"a"}},{"delta":{"content":"b"}}]}"#).is_none());
        assert!(pattern(r#"{"choices":[{"delta":{"content":["a"]}}]}"#).is_none());
    }
}
