//! Hides toolmark's own key in errors that pass through: an upstream may quote it, in a stream as elsewhere.
//!
//! Only lines that contain `error` are changed, as a key may be a word of ordinary text ("ollama"). The replacement has the
//! same length, so that lengths stay valid.

use bytes::{Bytes, BytesMut};
use memchr::{memmem, memrchr};

/// Maximum bytes of a line that is held until it is complete; of a longer line the rest isn't checked.
const LINE_BYTES_MAX: usize = 64 << 10;

/// Hides the key in the lines of `text` that contain `error`.
pub fn hide(text: &mut [u8], key: &[u8]) {
    if key.is_empty() || memmem::find(text, key).is_none() {
        return;
    }
    for line in text.split_mut(|byte| *byte == b'\n') {
        if memmem::find(line, b"error").is_none() {
            continue;
        }
        let places: Vec<usize> = memmem::find_iter(line, key).collect();
        for place in places {
            if let Some(quoted) = line.get_mut(place..place + key.len()) {
                quoted.fill(b'*');
            }
        }
    }
}

/// Hides the key in a body that passes through in pieces.
pub struct Unkeyed {
    key: Box<[u8]>,
    /// Start of a line that hasn't ended yet.
    held: BytesMut,
    /// Part of the current line was released already, as it is too long.
    long: bool,
}

impl Unkeyed {
    /// Filter for this key.
    pub fn new(key: &str) -> Self {
        Self { key: key.as_bytes().into(), held: BytesMut::new(), long: false }
    }

    /// Processes a piece. Returns the bytes that may be sent.
    pub fn take(&mut self, piece: Bytes) -> Bytes {
        // The usual case: whole lines, none held.
        if self.held.is_empty() && piece.last() == Some(&b'\n') && memmem::find(&piece, &self.key).is_none() {
            self.long = false;
            return piece;
        }
        self.held.extend_from_slice(&piece);
        let whole = match memrchr(b'\n', &self.held) {
            Some(end) => {
                self.long = false;
                end + 1
            }
            None if self.long || self.held.len() > LINE_BYTES_MAX => {
                self.long = true;
                self.held.len()
            }
            None => 0,
        };
        let mut out = self.held.split_to(whole);
        hide(&mut out, &self.key);
        out.freeze()
    }

    /// The rest at the end of the body.
    pub fn finish(&mut self) -> Bytes {
        let mut out = self.held.split();
        hide(&mut out, &self.key);
        out.freeze()
    }

    /// True if nothing is held.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_hidden_however_the_lines_are_cut() {
        let text =
            "data: {\"text\":\"sk-own is a word\"}\n\ndata: {\"error\":{\"message\":\"bad key sk-own, sk-own\"}}\n\n{\"error\":\"sk-own\"}";
        let hidden =
            "data: {\"text\":\"sk-own is a word\"}\n\ndata: {\"error\":{\"message\":\"bad key ******, ******\"}}\n\n{\"error\":\"******\"}";
        for first in 0..text.len() {
            for second in first..text.len() {
                let mut unkeyed = Unkeyed::new("sk-own");
                let mut out = Vec::new();
                for piece in [&text[..first], &text[first..second], &text[second..]] {
                    out.extend_from_slice(&unkeyed.take(Bytes::copy_from_slice(piece.as_bytes())));
                }
                out.extend_from_slice(&unkeyed.finish());
                assert_eq!(String::from_utf8_lossy(&out), hidden, "{first} {second}");
            }
        }
    }

    #[test]
    fn no_line_is_held_without_end() {
        let mut unkeyed = Unkeyed::new("sk-own");
        let mut left = 0;
        for _ in 0..100 {
            left += unkeyed.take(Bytes::from(vec![b'x'; 10_000])).len();
            assert!(unkeyed.held.len() <= LINE_BYTES_MAX);
        }
        assert!(left + unkeyed.finish().len() == 1_000_000);
    }
}
