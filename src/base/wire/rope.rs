//! Bytes in pieces that leave one after the other, so that what is long is shared and not copied. Pure.

use bytes::{Bytes, BytesMut};

/// Bytes in pieces.
#[derive(Clone, Debug, Default)]
pub struct Rope {
    /// The pieces; none is empty.
    pieces: Vec<Bytes>,
    /// Bytes of all pieces.
    len: usize,
}

impl Rope {
    /// Appends a piece.
    pub fn push(&mut self, piece: Bytes) {
        if !piece.is_empty() {
            self.len += piece.len();
            self.pieces.push(piece);
        }
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The pieces, in order.
    pub fn pieces(&self) -> &[Bytes] {
        &self.pieces
    }

    /// A copy of the first `bytes_max` bytes, or of all.
    pub fn beginning(&self, bytes_max: usize) -> Bytes {
        let mut out = BytesMut::with_capacity(self.len.min(bytes_max));
        for piece in &self.pieces {
            let left = bytes_max - out.len();
            out.extend_from_slice(piece.get(..left).unwrap_or(piece));
        }
        out.freeze()
    }

    /// The bytes in one piece; copies them if there are several.
    pub fn joined(&self) -> Bytes {
        if let [piece] = &self.pieces[..] {
            return piece.clone();
        }
        let mut out = BytesMut::with_capacity(self.len);
        self.pieces.iter().for_each(|piece| out.extend_from_slice(piece));
        out.freeze()
    }
}

impl From<Bytes> for Rope {
    fn from(bytes: Bytes) -> Self {
        let mut rope = Self::default();
        rope.push(bytes);
        rope
    }
}

impl IntoIterator for Rope {
    type Item = Bytes;
    type IntoIter = std::vec::IntoIter<Bytes>;

    fn into_iter(self) -> Self::IntoIter {
        self.pieces.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_make_one() {
        let mut rope = Rope::from(Bytes::from_static(b"ab"));
        rope.push(Bytes::new());
        rope.push(Bytes::from_static(b"c"));
        assert_eq!((rope.len(), rope.pieces().len(), &rope.joined()[..]), (3, 2, &b"abc"[..]));
        assert_eq!([0, 1, 2, 3, 4].map(|bytes| rope.beginning(bytes).len()), [0, 1, 2, 3, 3]);
        assert!(Rope::default().is_empty() && Rope::default().joined().is_empty());
        assert_eq!(rope.into_iter().map(|piece| piece.len()).collect::<Vec<_>>(), [2, 1]);
    }
}
