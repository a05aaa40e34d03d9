//! Parsers of raw bytes: server-sent events and the JSON scanner, each compared with a simple implementation.

use bytes::Bytes;
use serde_json::Value as Json;

use super::input::{FuzzInput, bounded};
use crate::wire::{
    json::{
        Document, JsonError, Value,
        canonical::canonical,
        leading_string,
        splice::Splices,
        string::{quote, unescape},
    },
    sse::{SseEvent, SseParser},
};

/// The events are the same however the bytes are cut, and equal to those of a simple parser; no byte is lost or added.
pub(super) fn sse(data: &[u8]) {
    let Some(input) = FuzzInput::of(data) else { return };
    let body = data.get(3..).unwrap_or_default();
    let (once, whole_raw) = events(&[body]);
    let (again, cut_raw) = events(&input.cuts().pieces(body));
    assert_eq!(said(&once), said(&again), "a cut changes the events");
    let plain = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    assert!(plain.starts_with(&whole_raw) && plain.starts_with(&cut_raw), "bytes are lost or made up");
    let datas: Vec<Vec<u8>> = once.iter().filter_map(|event| event.data.as_ref().map(|data| data.to_vec())).collect();
    assert_eq!(datas, plainly(plain), "other events than a plain reading");
}

/// The parts of events that other code uses: data, name, and `plain`.
fn said(events: &[SseEvent]) -> Vec<(&Option<Bytes>, &Option<Bytes>, bool)> {
    let with_data = events.iter().filter(|event| event.data.is_some());
    with_data.map(|event| (&event.data, &event.name, event.plain)).collect()
}

fn events(pieces: &[&[u8]]) -> (Vec<SseEvent>, Vec<u8>) {
    let (mut parser, mut events, mut raw) = (SseParser::default(), Vec::new(), Vec::new());
    for piece in pieces {
        let fed = bounded("the parser of events", || parser.handle(Bytes::copy_from_slice(piece), |event| events.push(event)));
        assert!(fed.is_ok(), "a short event is too long");
    }
    events.extend(bounded("the end of events", || parser.finish()));
    events.iter().for_each(|event| raw.extend_from_slice(&event.raw));
    (events, raw)
}

/// Parses the data of events line by line, as the standard describes it.
fn plainly(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut lines: Vec<Vec<u8>> = vec![Vec::new()];
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'\r' | b'\n' => {
                at += usize::from(*byte == b'\r' && bytes.get(at) == Some(&b'\n'));
                lines.push(Vec::new());
            }
            byte => lines.last_mut().into_iter().for_each(|line| line.push(*byte)),
        }
    }
    // An empty last line is none: the stream ended with the end of a line.
    lines.push(Vec::new());
    let (mut datas, mut open) = (Vec::new(), None::<Vec<u8>>);
    for line in lines {
        if line.is_empty() {
            datas.extend(open.take());
            continue;
        }
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let value = line.get(colon + 1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        if line.get(..colon) == Some(b"data") {
            open = Some(match open.take() {
                None => value.to_vec(),
                Some(before) => [&before, &b"\n"[..], value].concat(),
            });
        }
    }
    datas.extend(open);
    datas
}

/// The scanner accepts what `serde_json` accepts and reads the same values; edits leave valid JSON; texts and canonical forms survive a
/// round trip.
pub(super) fn json(data: &[u8]) {
    let bytes = Bytes::copy_from_slice(data);
    // Noting all values: by default the scanner notes only the depth that adapters need.
    let ours = bounded("the JSON scanner", || Document::parse_noting(bytes.clone(), 256, &[]));
    let noted = bounded("the JSON scanner", || Document::parse(bytes.clone()));
    assert_eq!(ours.as_ref().err(), noted.as_ref().err(), "how much is noted decides what is taken");
    let theirs = serde_json::from_slice::<Json>(data);
    match (&ours, &theirs) {
        (Ok(document), Ok(json)) => assert_eq!(&read(document.root()), json, "another reading than serde_json's"),
        (Ok(_), Err(error)) => {
            // The scanner also accepts numbers beyond f64, lone surrogates, and one more level of nesting.
            let known = ["number out of range", "surrogate", "unexpected end of hex escape", "recursion limit"];
            assert!(known.iter().any(|known| error.to_string().contains(known)), "taken, and serde_json says: {error}");
        }
        (Err(JsonError::TooDeep), _) | (Err(_), Err(_)) => {}
        (Err(error), Ok(_)) => assert!(theirs.is_err(), "refused, and serde_json takes it: {error}"),
    }
    if let Some((text, length)) = bounded("the scanner of a string", || leading_string(data)) {
        assert!(length <= data.len() && !text.contains('\u{0}') | data.contains(&b'u'), "a string of more than there is");
    }
    let Ok(document) = ours else { return };
    edited(&document);
    let text = String::from_utf8_lossy(data);
    if let Some(form) = bounded("the canonical form", || canonical(&text)) {
        assert_eq!(canonical(&form).as_deref(), Some(&*form), "a canonical form isn't its own");
    }
    let quoted = quote(&text);
    let inside = quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default();
    assert_eq!(unescape(inside), text, "a text doesn't come back");
}

/// Converts a value that the scanner read.
fn read(value: Value<'_>) -> Json {
    if value.is_object() {
        let _double = value.duplicate_name();
        Json::Object(value.members().map(|member| (member.name().into_owned(), read(member.value))).collect())
    } else if value.is_array() {
        Json::Array(value.items().map(read).collect())
    } else if let Some(text) = value.text() {
        Json::String(text.into_owned())
    } else {
        serde_json::from_slice(value.raw()).unwrap_or_default()
    }
}

/// Checks that removing and setting members leaves valid JSON with the expected members.
fn edited(document: &Document) {
    let root = document.root();
    if !root.is_object() || root.duplicate_name().is_some() {
        return;
    }
    let gone = |name: &str| name.len() % 2 == 1;
    let mut edits = Splices::default();
    edits.remove_members(root, gone);
    let fewer = Document::parse(edits.apply(document.bytes()));
    assert!(fewer.is_ok(), "taking members out leaves no JSON");
    let Ok(fewer) = fewer else { return };
    let left: Vec<_> = root.members().filter(|member| !gone(&member.name())).map(|member| member.value.raw().to_vec()).collect();
    assert_eq!(fewer.root().members().map(|member| member.value.raw().to_vec()).collect::<Vec<_>>(), left, "others were taken out");
    let mut edits = Splices::default();
    edits.set_member(fewer.root(), "as", "[1]");
    let more = Document::parse(edits.apply(fewer.bytes()));
    let set = more.is_ok_and(|more| more.root().get("as").is_some_and(|value| value.raw() == b"[1]"));
    assert!(set, "a member that was set isn't there");
}
