//! Server-sent events as bytes: an incremental parser that keeps each event as it came.
//!
//! Source: WHATWG HTML, "Server-sent events", 9.2.6: lines end in LF, CR or CRLF; a BOM at the start is
//! passed over; comments start with a colon. One deviation, on purpose: an event at the end of the
//! stream without its blank line is given out by [`Parser::finish`], as some providers omit that line.
//! Sans-IO; bounded by [`EVENT_BYTES_MAX`].

use bytes::{Bytes, BytesMut};

/// Bytes of one event, comments included. A 16 MiB image in one delta is beyond any provider.
pub const EVENT_BYTES_MAX: usize = 16 << 20;

/// An event was longer than [`EVENT_BYTES_MAX`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("an SSE event is longer than {EVENT_BYTES_MAX} bytes")]
pub struct EventTooLong;

/// One event.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Event {
    /// As it came, the blank line that ends it included.
    pub raw: Bytes,
    /// The `data` lines joined by LF; `None` where there were only comments or other fields.
    pub data: Option<Bytes>,
    /// The `event` field.
    pub name: Option<Bytes>,
    /// True where it has nothing but one `data` line and comments that may pass, and a blank line at its end.
    pub plain: bool,
}

/// Cuts bytes into events.
#[derive(Debug, Default)]
pub struct Parser {
    pending: BytesMut,
    /// Bytes of `pending` that hold no end of an event.
    searched: usize,
    started: bool,
}

impl Parser {
    /// Takes the next bytes and gives out each event that they complete.
    ///
    /// # Errors
    /// [`EventTooLong`]; the stream is then to be given up.
    pub fn handle(&mut self, bytes: Bytes, mut each: impl FnMut(Event)) -> Result<(), EventTooLong> {
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
        // The last few bytes may be the first part of a blank line.
        self.searched = bytes.len().saturating_sub(4);
        self.pending = bytes.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&shared[..]));
        Ok(())
    }

    /// No more bytes: the last event, if it lacked its blank line.
    pub fn finish(self) -> Option<Event> {
        let raw = self.pending.freeze();
        let event = parse(raw);
        (event.data.is_some()).then_some(Event { plain: false, ..event })
    }
}

/// Where the first event ends, its blank line included. `from`: bytes before it hold no end.
fn event_end(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    // A blank line can only start behind the end of a line, or at the very start.
    let mut line_start = if at == 0 { Some(0) } else { None };
    loop {
        if let Some(start) = line_start {
            match (bytes.get(start), bytes.get(start + 1)) {
                (Some(b'\n'), _) => return Some(start + 1),
                (Some(b'\r'), Some(b'\n')) => return Some(start + 2),
                (Some(b'\r'), Some(_)) => return Some(start + 1),
                // Where lines end in CRLF, the LF is still to come.
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

fn parse(raw: Bytes) -> Event {
    let mut event = Event { raw: Bytes::new(), data: None, name: None, plain: true };
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

/// `joined`: the data so far, where there are several lines of it.
fn field(raw: &Bytes, start: usize, end: usize, event: &mut Event, joined: &mut Vec<u8>) {
    let line = &raw[start..end];
    if line.is_empty() {
        return;
    }
    if line[0] == b':' {
        // A comment that speaks in toolmark's name isn't passed on.
        let said = line[1..].trim_ascii_start();
        event.plain &= !said.get(..8).is_some_and(|word| word.eq_ignore_ascii_case(b"toolmark"));
        return;
    }
    let colon = memchr::memchr(b':', line).unwrap_or(line.len());
    let space = usize::from(line.get(colon + 1) == Some(&b' '));
    let value = raw.slice((start + colon + 1 + space).min(end)..end);
    match &line[..colon] {
        b"data" => match &event.data {
            None => event.data = Some(value),
            Some(first) => {
                // Who reads line by line takes each line for an event.
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

    fn events(pieces: &[&[u8]]) -> Vec<Event> {
        let mut parser = Parser::default();
        let mut out = Vec::new();
        for piece in pieces {
            parser.handle(Bytes::copy_from_slice(piece), |event| out.push(event)).unwrap();
        }
        out.extend(parser.finish());
        out
    }

    fn datas(pieces: &[&[u8]]) -> Vec<String> {
        let text = |event: Event| event.data.map(|data| String::from_utf8_lossy(&data).into_owned());
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
    fn too_long() {
        let mut parser = Parser::default();
        let piece = Bytes::from(vec![b'x'; 1 << 20]);
        let fed = (0..20).try_for_each(|_| parser.handle(piece.clone(), |_| {}));
        assert_eq!(fed, Err(EventTooLong));
    }

    #[test]
    fn cr_only_streams_do_not_wait() {
        let mut parser = Parser::default();
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
            let mut parser = Parser::default();
            let mut raw = Vec::new();
            parser.handle(Bytes::from(bytes.clone()), |event| raw.extend_from_slice(&event.raw)).unwrap();
            prop_assert!(bytes.starts_with(&raw));
        }
    }
}
