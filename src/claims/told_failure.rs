//! Whether an answer has told of a failure so far. Passages are read for it when a check first asks, which few answers need. Pure.

use crate::language::polarity::failure_words;

/// Bytes of passages that wait to be read.
const WAITING_BYTES_MAX: usize = 16 << 10;

/// Reader of an answer for words of failure, passage by passage.
#[derive(Debug, Default)]
pub struct ToldFailure {
    told: bool,
    waiting: Vec<String>,
    waiting_bytes: usize,
    /// End of the last passage.
    heard: usize,
}

impl ToldFailure {
    /// Takes a passage that begins at `start`; one that was taken already not again.
    pub fn hear(&mut self, passage: &str, start: usize) {
        if self.told || start < self.heard {
            return;
        }
        self.heard = start + passage.len();
        self.waiting_bytes += passage.len();
        self.waiting.push(passage.to_owned());
        if self.waiting_bytes > WAITING_BYTES_MAX {
            self.read();
        }
    }

    /// Takes note that a failure was told.
    pub fn note(&mut self) {
        self.told = true;
    }

    /// True if one of the passages told of a failure.
    pub fn is_told(&mut self) -> bool {
        self.read();
        self.told
    }

    fn read(&mut self) {
        self.told = self.told || self.waiting.iter().any(|passage| failure_words::text_tells_failure(passage));
        (self.waiting, self.waiting_bytes) = (Vec::new(), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passages_are_read_when_somebody_asks() {
        let mut told = ToldFailure::default();
        told.hear("All is well.", 0);
        assert!(!told.is_told());
        told.hear("The upload failed.", 12);
        told.hear("So much for that.", 30);
        assert!(told.is_told());
        let mut long = ToldFailure::default();
        long.hear("The upload failed.", 0);
        long.hear(&"All is well. ".repeat(WAITING_BYTES_MAX / 8), 18);
        assert!(long.told && long.waiting.is_empty());
    }
}
