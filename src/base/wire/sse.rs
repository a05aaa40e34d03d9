//! Server-sent events as bytes: an incremental parser that keeps each event's original bytes.
//!
//! Source: WHATWG HTML, "Server-sent events", 9.2.6: lines end in LF, CR or CRLF; a BOM at the start is skipped; comments start with a
//! colon. One deliberate deviation: an event at the end of the stream without its blank line is returned by [`SseParser::finish`], because
//! some providers omit that line. Sans-IO; bounded by [`EVENT_BYTES_MAX`].

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};

/// Longest event in bytes, comments included: no provider sends as much as a 16 MiB image in one delta.
pub const EVENT_BYTES_MAX: usize = 16 << 20;

/// An event was longer than [`EVENT_BYTES_MAX`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("an SSE event is longer than {EVENT_BYTES_MAX} bytes")]
pub struct EventTooLong;

/// One event.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SseEvent {
    /// Original bytes, including the blank line at the end.
    pub raw: Bytes,
    /// The `data` lines joined by LF; `None` if there are only comments or other fields.
    pub data: Option<Bytes>,
    /// The `event` field.
    pub name: Option<Bytes>,
    /// The event is a single `data` line without characters at which some clients split lines, and a blank line.
    pub plain: bool,
}

/// toolmark's keep-alive comment, also sent in place of an upstream's comments: their content is irrelevant, and clients that split lines
/// at non-standard characters would read events in them.
pub const KEEP_ALIVE: &[u8] = b": keep-alive\n\n";

impl SseEvent {
    /// An event that no bytes stand for yet: one that toolmark makes or changes.
    pub fn without_bytes(data: Option<Bytes>, name: Option<Bytes>) -> Self {
        Self { raw: Bytes::new(), data, name, plain: false }
    }

    /// Bytes of memory that the event takes.
    pub fn held_bytes(&self) -> usize {
        // Its data is a part of its raw bytes, unless it was joined from several lines.
        size_of::<Self>() + self.raw.len().max(self.data.as_ref().map_or(0, Bytes::len))
    }

    /// Returns whether it is only a comment.
    pub fn is_comment(&self) -> bool {
        let first = self.raw.iter().find(|byte| !matches!(byte, b'\n' | b'\r'));
        self.data.is_none() && self.name.is_none() && first == Some(&b':')
    }
}

/// True if the bytes begin like server-sent events.
pub fn is_event_stream(body: &[u8]) -> bool {
    let start = body.trim_ascii_start();
    let start = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start);
    [&b"data:"[..], b"event:", b"id:", b"retry:", b":"].iter().any(|prefix| start.starts_with(prefix))
}

/// Appends [`KEEP_ALIVE`], unless `out` ends with it already: a flood of comments becomes one.
pub fn keep_alive(out: &mut BytesMut) {
    if !out.ends_with(KEEP_ALIVE) {
        out.extend_from_slice(KEEP_ALIVE);
    }
}

/// Puts JSON on one line, as every client splits lines: many split at Unicode line ends (NEL, LS and PS, which JSON allows inside strings),
/// although the format has only LF and CR.
pub fn one_line(json: &[u8]) -> Cow<'_, [u8]> {
    let breaks = |json: &[u8]| memchr::memchr2(b'\n', b'\r', json).is_some() || splits(json);
    if !breaks(json) {
        return Cow::Borrowed(json);
    }
    let mut out = Vec::with_capacity(json.len() + 16);
    let mut at = 0;
    while let Some(byte) = json.get(at) {
        let escape: &[u8] = match (byte, json.get(at + 1), json.get(at + 2)) {
            // Allowed only between tokens.
            (b'\n' | b'\r', ..) => b" ",
            (0xc2, Some(0x85), _) => b"\\u0085",
            (0xe2, Some(0x80), Some(0xa8)) => b"\\u2028",
            (0xe2, Some(0x80), Some(0xa9)) => b"\\u2029",
            _ => std::slice::from_ref(byte),
        };
        out.extend_from_slice(escape);
        at += match escape {
            b"\\u0085" => 2,
            b"\\u2028" | b"\\u2029" => 3,
            _ => 1,
        };
    }
    Cow::Owned(out)
}

/// Returns whether a line contains a character at which some clients end it: NEL, LS or PS.
pub fn splits(line: &[u8]) -> bool {
    let unicode = |at: usize| match line.get(at..) {
        Some([0xc2, 0x85, ..]) => true,
        Some([0xe2, 0x80, third, ..]) => matches!(third, 0xa8 | 0xa9),
        _ => false,
    };
    memchr::memchr2_iter(0xc2, 0xe2, line).any(unicode)
}

/// Incremental parser that splits bytes into events.
#[derive(Debug, Default)]
pub struct SseParser {
    pending: BytesMut,
    /// Length of the start of `pending` that contains no end of an event.
    searched: usize,
    started: bool,
}

impl SseParser {
    /// Adds bytes, and passes each event that they complete to `each`.
    ///
    /// # Errors
    /// [`EventTooLong`]; the stream must then be given up.
    pub fn handle(&mut self, bytes: Bytes, mut each: impl FnMut(SseEvent)) -> Result<(), EventTooLong> {
        let mut bytes = bytes;
        if !self.pending.is_empty() {
            self.pending.extend_from_slice(&bytes);
            bytes = std::mem::take(&mut self.pending).freeze();
        }
        if !self.started {
            if bytes.len() < 3 && b"\xef\xbb\xbf".starts_with(&bytes) {
                self.pending.extend_from_slice(&bytes);
                return Ok(());
            }
            self.started = true;
            if bytes.starts_with(b"\xef\xbb\xbf") {
                bytes = bytes.slice(3..);
            }
        }
        let mut from = std::mem::take(&mut self.searched);
        while let Some(end) = event_end(&bytes, from) {
            let raw = bytes.split_to(end);
            each(parse(raw));
            from = 0;
        }
        if bytes.len() > EVENT_BYTES_MAX {
            return Err(EventTooLong);
        }
        // The last few bytes may be the start of a blank line.
        self.searched = bytes.len().saturating_sub(4);
        self.pending = bytes.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&shared[..]));
        Ok(())
    }

    /// Ends the stream: returns the last event if it lacks its blank line.
    pub fn finish(self) -> Option<SseEvent> {
        let raw = self.pending.freeze();
        let event = parse(raw);
        (event.data.is_some()).then_some(SseEvent { plain: false, ..event })
    }
}

/// End of the first event, including its blank line. `from`: number of bytes that are known to contain no end.
fn event_end(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    // A blank line can only start after the end of a line, or at the very start.
    let mut line_start = if at == 0 { Some(0) } else { None };
    loop {
        if let Some(start) = line_start {
            match (bytes.get(start), bytes.get(start + 1)) {
                (Some(b'\n'), _) => return Some(start + 1),
                (Some(b'\r'), Some(b'\n')) => return Some(start + 2),
                (Some(b'\r'), Some(_)) => return Some(start + 1),
                // If lines end in CRLF, the LF is still missing.
                (Some(b'\r'), None) => {
                    let crlf = start > 0 && bytes[start - 1] == b'\n';
                    return (!crlf).then_some(start + 1);
                }
                _ => {}
            }
        }
        let found = at + memchr::memchr2(b'\n', b'\r', bytes.get(at..)?)?;
        let crlf = bytes[found] == b'\r' && bytes.get(found + 1) == Some(&b'\n');
        if bytes[found] == b'\r' && found + 1 == bytes.len() {
            return None;
        }
        at = found + 1 + usize::from(crlf);
        line_start = Some(at);
    }
}

fn parse(raw: Bytes) -> SseEvent {
    let mut event = SseEvent { raw: Bytes::new(), data: None, name: None, plain: true };
    let (mut at, mut joined) = (0, Vec::new());
    while at < raw.len() {
        let end = memchr::memchr2(b'\n', b'\r', &raw[at..]).map_or(raw.len(), |found| at + found);
        field(&raw, at, end, &mut event, &mut joined);
        at = end + 1;
        if raw.get(end) == Some(&b'\r') && raw.get(at) == Some(&b'\n') {
            at += 1;
        }
    }
    if !joined.is_empty() {
        event.data = Some(joined.into());
    }
    event.raw = raw;
    event
}

/// Reads one line. `joined`: the data so far, if it has several lines.
fn field(raw: &Bytes, start: usize, end: usize, event: &mut SseEvent, joined: &mut Vec<u8>) {
    let line = &raw[start..end];
    if line.is_empty() {
        return;
    }
    if line[0] == b':' {
        // Comments are never passed on.
        event.plain = false;
        return;
    }
    let colon = memchr::memchr(b':', line).unwrap_or(line.len());
    let space = usize::from(line.get(colon + 1) == Some(&b' '));
    let value = raw.slice((start + colon + 1 + space).min(end)..end);
    match &line[..colon] {
        b"data" => match &event.data {
            None => {
                event.plain &= !splits(&value);
                event.data = Some(value);
            }
            Some(first) => {
                // Clients that read line by line take each line for an event.
                event.plain = false;
                if joined.is_empty() {
                    joined.extend_from_slice(first);
                }
                joined.push(b'\n');
                joined.extend_from_slice(&value);
            }
        },
        b"event" => {
            event.name = Some(value);
            event.plain = false;
        }
        _ => event.plain = false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn events(pieces: &[&[u8]]) -> Vec<SseEvent> {
        let mut parser = SseParser::default();
        let mut out = Vec::new();
        for piece in pieces {
            parser.handle(Bytes::copy_from_slice(piece), |event| out.push(event)).unwrap();
        }
        out.extend(parser.finish());
        out
    }

    fn datas(pieces: &[&[u8]]) -> Vec<String> {
        let text = |event: SseEvent| event.data.map(|data| String::from_utf8_lossy(&data).into_owned());
        events(pieces).into_iter().filter_map(text).collect()
    }

    #[test]
    fn forms() {
        for (text, expected) in [
            ("data: a\n\ndata: b\n\n", vec!["a", "b"]),
            ("\u{feff}data: a\r\n\r\ndata: b\r\n\r\n", vec!["a", "b"]),
            ("data: a\r\rdata: b\r\r", vec!["a", "b"]),
            (": c\n\ndata:a\ndata: b\n\n", vec!["a\nb"]),
            ("event: x\ndata\n\n", vec![""]),
            ("data: a", vec!["a"]),
            ("data: a\n", vec!["a"]),
            ("id: 1\nretry: 5\n\n\n\n", vec![]),
        ] {
            assert_eq!(datas(&[text.as_bytes()]), expected, "{text:?}");
        }
        let event = events(&[b"event: error\ndata: {}\n\n"]).remove(0);
        assert_eq!((event.name.as_deref(), event.plain), (Some(&b"error"[..]), false));
    }

    #[test]
    fn lines_are_lines_for_every_client() {
        for (text, plain) in [
            ("data: {}\n\n", true),
            ("data: \"é € “x”\"\n\n", true),
            ("data: \"a\u{2028}b\"\n\n", false),
            ("data: \"a\u{2029}\"\n\n", false),
            ("data: \"\u{85}\"\n\n", false),
            (": c\ndata: {}\n\n", false),
        ] {
            assert_eq!(events(&[text.as_bytes()]).remove(0).plain, plain, "{text:?}");
        }
        for (text, comment) in [(": c\n\n", true), ("\r\n:\n\n", true), ("id: 1\n\n", false), ("\n\n", false), (":c\ndata: x\n\n", false)] {
            assert!(events(&[text.as_bytes()]).iter().all(|event| event.is_comment() == comment || event.raw.len() < 3), "{text:?}");
        }
        assert_eq!(&*one_line("{\n\"a\u{2028}é\u{2029}\u{85}b\"\r}".as_bytes()), "{ \"a\\u2028é\\u2029\\u0085b\" }".as_bytes());
        assert!(matches!(one_line("\"é…\"".as_bytes()), Cow::Borrowed(_)));
    }

    #[test]
    fn too_long() {
        let mut parser = SseParser::default();
        let piece = Bytes::from(vec![b'x'; 1 << 20]);
        let fed = (0..20).try_for_each(|_| parser.handle(piece.clone(), |_| {}));
        assert_eq!(fed, Err(EventTooLong));
    }

    #[test]
    fn cr_only_streams_do_not_wait() {
        let mut parser = SseParser::default();
        let mut seen = 0;
        parser.handle(Bytes::from_static(b"data: a\r\r"), |_| seen += 1).unwrap();
        assert_eq!(seen, 1);
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same(
            text in prop::collection::vec(prop::sample::select(vec!["data: é", "data:x", "\n", "\r\n", "\r", ": c", "event: e", "\u{feff}"]), 0..24),
            cuts in prop::collection::vec(0usize..200, 0..6),
        ) {
            let bytes = text.concat().into_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().filter(|cut| *cut <= bytes.len()).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]).collect();
            prop_assert_eq!(datas(&pieces), datas(&[&bytes]));
        }

        #[test]
        fn nothing_is_lost(bytes in prop::collection::vec(prop::sample::select(b"da:t \n\r".to_vec()), 0..60)) {
            let mut parser = SseParser::default();
            let mut raw = Vec::new();
            parser.handle(Bytes::from(bytes.clone()), |event| raw.extend_from_slice(&event.raw)).unwrap();
            prop_assert!(bytes.starts_with(&raw));
        }
    }
}
