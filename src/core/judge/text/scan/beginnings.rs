//! Tells quickly whether the end of a text may be the beginning of one of a set of phrases. Pure.

/// First bytes of the phrases of a set, in lower case as far as they are ASCII: which byte begins one, and which two do.
#[derive(Debug)]
pub(super) struct Beginnings {
    first: [bool; 256],
    /// One bit for the low halves of two bytes; others may share it.
    pairs: [u64; 64],
}

impl Beginnings {
    /// Those of these phrases, none of which is empty.
    pub const fn of(phrases: &[&str]) -> Self {
        let (mut first, mut pairs) = ([false; 256], [0_u64; 64]);
        let mut at = 0;
        while at < phrases.len() {
            let phrase = phrases[at].as_bytes();
            first[phrase[0].to_ascii_lowercase() as usize] = true;
            if phrase.len() > 1 {
                let (row, bit) = Self::pair(phrase[0], phrase[1]);
                pairs[row] |= 1 << bit;
            }
            at += 1;
        }
        Self { first, pairs }
    }

    const fn pair(one: u8, two: u8) -> (usize, u32) {
        ((one.to_ascii_lowercase() & 63) as usize, (two.to_ascii_lowercase() & 63) as u32)
    }

    /// False if no phrase begins with `text`, whatever the case. Looks at two bytes, so that true may be said once too often.
    pub fn may_begin_with(&self, text: &[u8]) -> bool {
        match text {
            [] => true,
            [only] => self.first[usize::from(only.to_ascii_lowercase())],
            [one, two, ..] => {
                let (row, bit) = Self::pair(*one, *two);
                self.pairs[row] >> bit & 1 == 1
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phrase_may_begin_as_it_does() {
        const PHRASES: [&str; 4] = ["id di esecuzione", "Ausführung", "执行id", "<tool>"];
        const BEGINNINGS: Beginnings = Beginnings::of(&PHRASES);
        for phrase in PHRASES {
            for case in [phrase.to_owned(), phrase.to_ascii_uppercase(), phrase.to_ascii_lowercase()] {
                assert!((0..=case.len()).all(|length| BEGINNINGS.may_begin_with(&case.as_bytes()[..length])), "{case}");
            }
        }
        for other in ["x", "it is", "a", "AA", "<b>", "执x"] {
            assert_eq!(BEGINNINGS.may_begin_with(other.as_bytes()), matches!(other, "a" | "执x"), "{other}");
        }
    }
}
