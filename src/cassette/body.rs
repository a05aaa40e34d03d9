//! A recorded body: text as it is, other bytes in base64, a stream as timed events. Pure.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error as _, MapAccess, Visitor},
    ser::SerializeMap as _,
};

use toolmark_core::wire::sse::SseParser;

/// A piece of a stream: its arrival time in milliseconds after the head of the response, and its text.
pub type Event = (u64, String);

/// A body. In JSON: a string, `{"base64": "…"}`, or `{"events": [[MILLISECONDS, "…"], …]}`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum RecordedBody {
    /// UTF-8, byte for byte.
    Text(String),
    /// Anything else.
    Binary(Bytes),
    /// Server-sent events, each with its blank line; joined they are the stream byte for byte.
    Events(Vec<Event>),
}

impl Default for RecordedBody {
    fn default() -> Self {
        Self::Text(String::new())
    }
}

impl RecordedBody {
    /// A body from bytes: text if they are UTF-8, otherwise binary.
    pub fn of_bytes(bytes: Bytes) -> Self {
        match String::from_utf8(bytes.into()) {
            Ok(text) => Self::Text(text),
            Err(error) => Self::Binary(error.into_bytes().into()),
        }
    }

    /// A stream from pieces with their times, split where its events end, so that packet boundaries leave no trace. A stream
    /// that can't be split (an event without end, bytes that aren't UTF-8) is stored as a whole.
    pub fn of_stream(pieces: &[(u64, Bytes)]) -> Self {
        match events(pieces) {
            Some(events) => Self::Events(events),
            None => Self::of_bytes(pieces.iter().flat_map(|(_, piece)| piece.to_vec()).collect::<Vec<u8>>().into()),
        }
    }

    /// True if the body has no bytes.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Text(text) => text.is_empty(),
            Self::Binary(bytes) => bytes.is_empty(),
            Self::Events(events) => events.is_empty(),
        }
    }

    /// All bytes of the body.
    pub fn bytes(&self) -> Bytes {
        match self {
            Self::Text(text) => text.clone().into(),
            Self::Binary(bytes) => bytes.clone(),
            Self::Events(events) => events.iter().map(|(_, text)| text.as_str()).collect::<String>().into(),
        }
    }

    /// All bytes of the body, without a copy where possible.
    pub fn into_bytes(self) -> Bytes {
        match self {
            Self::Text(text) => text.into(),
            Self::Binary(bytes) => bytes,
            Self::Events(_) => self.bytes(),
        }
    }

    /// The body as text; `None` if it isn't UTF-8.
    pub fn text(&self) -> Option<String> {
        String::from_utf8(self.bytes().into()).ok()
    }
}

fn events(pieces: &[(u64, Bytes)]) -> Option<Vec<Event>> {
    let (mut parser, mut events, mut raw_bytes) = (SseParser::default(), Vec::new(), 0);
    let (mut whole, mut last) = (true, 0);
    for (ms, piece) in pieces {
        last = *ms;
        let fed = parser.handle(piece.clone(), |event| {
            raw_bytes += event.raw.len();
            match String::from_utf8(event.raw.into()) {
                Ok(text) => events.push((*ms, text)),
                Err(_) => whole = false,
            }
        });
        fed.ok()?;
    }
    // A byte order mark at the start isn't part of any event, nor is an incomplete event at the end.
    let all: Vec<u8> = pieces.iter().flat_map(|(_, piece)| piece.to_vec()).collect();
    let mark = if all.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
    let rest = String::from_utf8(all.get(mark + raw_bytes..)?.to_vec()).ok()?;
    if !rest.is_empty() {
        events.push((last, rest));
    }
    if mark > 0 {
        match events.first_mut() {
            Some((_, first)) => first.insert(0, '\u{feff}'),
            None => events.push((last, "\u{feff}".into())),
        }
    }
    whole.then_some(events)
}

impl Serialize for RecordedBody {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Binary(bytes) => {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry("base64", &STANDARD.encode(bytes))?;
                map.end()
            }
            Self::Events(events) => {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry("events", events)?;
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for RecordedBody {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(BodyVisitor)
    }
}

struct BodyVisitor;

impl<'de> Visitor<'de> for BodyVisitor {
    type Value = RecordedBody;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a body: a string, {\"base64\": …} or {\"events\": [[milliseconds, text], …]}")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<RecordedBody, E> {
        Ok(RecordedBody::Text(text.to_owned()))
    }

    fn visit_string<E: serde::de::Error>(self, text: String) -> Result<RecordedBody, E> {
        Ok(RecordedBody::Text(text))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RecordedBody, A::Error> {
        let body = match map.next_key::<String>()?.as_deref() {
            Some("base64") => {
                let text: String = map.next_value()?;
                let bytes = STANDARD.decode(text).map_err(|error| A::Error::custom(format!("no base64: {error}")))?;
                RecordedBody::Binary(bytes.into())
            }
            Some("events") => RecordedBody::Events(map.next_value()?),
            Some(other) => return Err(A::Error::unknown_field(other, &["base64", "events"])),
            None => return Err(A::Error::custom("a body without `base64` or `events`")),
        };
        match map.next_key::<String>()? {
            Some(other) => Err(A::Error::custom(format!("a body with a second member `{other}`"))),
            None => Ok(body),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_stream_is_cut_where_its_events_end() {
        let pieces = [(5, "data: a\n\nda"), (9, "ta: b\n\n: ping\n\n"), (12, "data: c")].map(|(ms, text)| (ms, Bytes::from(text)));
        let body = RecordedBody::of_stream(&pieces);
        let event = |ms: u64, text: &str| (ms, text.to_owned());
        let expected = vec![event(5, "data: a\n\n"), event(9, "data: b\n\n"), event(9, ": ping\n\n"), event(12, "data: c")];
        assert_eq!(body, RecordedBody::Events(expected));
    }

    #[test]
    fn what_is_no_body_is_refused() {
        for json in ["1", "null", "{}", r#"{"base64":"?"}"#, r#"{"events":[1]}"#, r#"{"base64":"","events":[]}"#, r#"{"text":""}"#] {
            assert!(serde_json::from_str::<RecordedBody>(json).is_err(), "{json}");
        }
    }

    proptest! {
        #[test]
        fn a_stream_keeps_its_bytes(
            parts in prop::collection::vec(prop::sample::select(vec!["data: é", "x", "\n", "\r\n", "\r", "\u{feff}", "\n\n"]), 0..24),
            cuts in prop::collection::vec(0usize..80, 0..6),
            broken in any::<bool>(),
        ) {
            let mut bytes = parts.concat().into_bytes();
            if broken {
                bytes.push(0xff);
            }
            let mut cuts: Vec<usize> = cuts.into_iter().filter(|cut| *cut <= bytes.len()).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let piece = |cut: &[usize]| (cut[0] as u64, Bytes::copy_from_slice(&bytes[cut[0]..cut[1]]));
            let body = RecordedBody::of_stream(&cuts.windows(2).map(piece).collect::<Vec<_>>());
            prop_assert_eq!(&body.bytes()[..], &bytes[..]);
            let json = serde_json::to_string(&body).unwrap();
            prop_assert_eq!(serde_json::from_str::<RecordedBody>(&json).unwrap(), body);
        }
    }
}
