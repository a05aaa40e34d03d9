//! Detection of incompletely written policy files. Pure.
//!
//! A file that is written in place passes through every shorter form, most of which are valid policies, with defaults for the missing rest.
//! So a file that was written in place must have been unchanged for a while ([`super::watch`]), must not be the beginning of the previous
//! one, and must have its end line if the previous one did.

/// Line that marks the end of a complete file.
pub const END: &str = "# end";

/// Content of a policy file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PolicyText {
    /// Its text without trailing blanks.
    text: Box<str>,
}

impl PolicyText {
    /// The form of this text.
    pub fn of(text: &str) -> Self {
        Self { text: text.trim_end().into() }
    }

    /// Reason why the file may be incomplete, compared with `last`.
    pub fn doubt(&self, last: &Self) -> Option<&'static str> {
        (self.text.is_empty() && !last.text.is_empty()).then_some("it is empty")
    }

    /// Reason why a file that was written in place may be incomplete, compared with `last`.
    pub fn doubt_in_place(&self, last: &Self) -> Option<&'static str> {
        match self.doubt(last) {
            Some(why) => Some(why),
            None if self.ends() => None,
            None if last.ends() => Some("it was written in place, and doesn't end as it did before"),
            None if self.text.len() < last.text.len() && last.text.starts_with(&*self.text) => {
                Some("it was written in place, and is the beginning of what it was: the rest may be to come")
            }
            None => None,
        }
    }

    fn ends(&self) -> bool {
        self.text.rsplit('\n').next().is_some_and(|last| last.trim() == END)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_a_beginning_is_doubted() {
        let (plain, ended) = ("mode = \"enforce\"\n[tools]\n", "mode = \"enforce\"\n# end\n");
        for (last, now, in_place, fine) in [
            (plain, "mode = \"enforce\"\n", true, false),
            (plain, "mode = \"enforce\"\n", false, true),
            (plain, "mode = \"observe\"\n[tools]", true, true),
            (plain, "mode = \"observe\"\n", true, true),
            (plain, "mode = \"enforce\"\n[tools]\n\n\n", true, true),
            (plain, "# end", true, true),
            (plain, "", true, false),
            (plain, " \n\n", false, false),
            (ended, "mode = \"observe\"\n[tools]\nx = 1\n", true, false),
            (ended, "mode = \"observe\" # end", true, false),
            (ended, "mode = \"observe\"\n[tools]\nx = 1\n", false, true),
            (ended, "x = 1\n  # end  \n\n", true, true),
            ("", "", true, true),
            ("", "x = 1", true, true),
        ] {
            let (now_form, last_form) = (PolicyText::of(now), PolicyText::of(last));
            let doubt = if in_place { now_form.doubt_in_place(&last_form) } else { now_form.doubt(&last_form) };
            assert_eq!(doubt.is_none(), fine, "{last:?} {now:?} {in_place}");
        }
        // The shipped ones say where they end, so that no part of one is ever taken for it.
        for shipped in ["default", "strict", "observe"] {
            let text = std::fs::read_to_string(format!("{}/../../policies/{shipped}.toml", env!("CARGO_MANIFEST_DIR"))).unwrap();
            let (whole, last) = (PolicyText::of(&text), text.trim_end().len());
            assert!(whole.ends(), "{shipped}");
            for end in (0..last).filter(|end| text.is_char_boundary(*end)) {
                assert!(PolicyText::of(&text[..end]).doubt_in_place(&whole).is_some(), "{shipped}: {}", &text[..end]);
            }
            assert!(whole.doubt_in_place(&whole).is_none() && PolicyText::of("x = 1\n").doubt(&whole).is_none());
        }
        for end in 0..plain.len() - 1 {
            assert!(PolicyText::of(&plain[..end]).doubt_in_place(&PolicyText::of(plain)).is_some(), "{end}");
        }
    }
}
