//! Whether a text has ended: scanners wait for more of a partial one, and decide on a complete one.

/// State of a text that is read piece by piece.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum TextInput {
    /// More text may follow.
    #[default]
    Partial,
    /// No text follows.
    Complete,
}

impl TextInput {
    /// True if more text may follow.
    pub const fn is_partial(self) -> bool {
        matches!(self, Self::Partial)
    }

    /// True if no text follows.
    pub const fn is_complete(self) -> bool {
        matches!(self, Self::Complete)
    }
}
