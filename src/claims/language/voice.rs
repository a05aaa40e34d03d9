//! Whose words a passage has: the answer's own, or those of a letter, a draft or a quotation in it, which report nothing. Pure.

use std::sync::OnceLock;

use serde::Deserialize;

use super::{fold::fold, word_list::data_file};
use crate::passage::{Kind, Passage};

/// Words of a line that opens or closes a letter.
const LINE_WORDS_MAX: usize = 8;

/// Beginnings and ends of letters, in any language. Folded.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct LetterPhrases {
    openings: Vec<String>,
    drafts: Vec<String>,
    closings: Vec<String>,
}

fn letters() -> &'static LetterPhrases {
    static ALL: OnceLock<LetterPhrases> = OnceLock::new();
    ALL.get_or_init(|| {
        let read: LetterPhrases = data_file(include_str!("lexicon/letters.toml"));
        let folded = |list: Vec<String>| list.iter().map(|phrase| fold(phrase)).collect();
        LetterPhrases { openings: folded(read.openings), drafts: folded(read.drafts), closings: folded(read.closings) }
    })
}

/// The part of a letter in which the text is.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Letter {
    /// In none.
    #[default]
    None,
    /// In its text.
    Body,
    /// Behind its closing words: who signs it.
    Signed,
}

/// Follows whose words the passages of one answer are.
#[derive(Debug, Default)]
pub struct Voice {
    quoted_line: bool,
    inside_line: bool,
    letter: Letter,
    /// The line before announced a draft: the paragraph that follows is it.
    announced: bool,
    /// In such a paragraph.
    draft: bool,
    /// The draft began with a rule.
    ruled: bool,
    /// A quotation that an earlier passage of the paragraph opened isn't closed yet.
    quotation: bool,
    /// This passage begins inside such a quotation.
    inside: bool,
    /// Something stands before: an answer may itself begin like a letter.
    begun: bool,
}

impl Voice {
    /// Takes the next passage.
    pub fn hear(&mut self, passage: &Passage) {
        let (text, first) = (passage.text.trim(), !self.inside_line);
        self.inside_line = !passage.text.ends_with('\n');
        if first {
            self.quoted_line = text.starts_with('>');
        }
        self.inside = self.quotation && passage.kind != Kind::Blank;
        if passage.text.is_ascii() {
            self.quotation ^= memchr::memchr_iter(b'"', passage.text.as_bytes()).count() % 2 == 1;
        } else {
            for c in passage.text.chars() {
                match c {
                    '"' => self.quotation = !self.quotation,
                    '“' | '„' | '«' | '「' => self.quotation = true,
                    '”' | '»' | '」' => self.quotation = false,
                    _ => {}
                }
            }
        }
        if passage.kind != Kind::Blank {
            self.draft |= std::mem::take(&mut self.announced);
            self.announced = text.ends_with([':', '：']) && announces(text);
        } else if !self.announced {
            self.draft = false;
        }
        if passage.kind == Kind::Blank {
            self.quotation = false;
            if self.letter == Letter::Signed {
                self.letter = Letter::None;
            }
            return;
        }
        if first {
            let rule = text.len() >= 3 && text.chars().all(|c| matches!(c, '-' | '*' | '_'));
            let begins = |phrases: &[String]| {
                let folded = fold(text);
                phrases
                    .iter()
                    .any(|phrase| folded.strip_prefix(phrase.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with(' ')))
            };
            let line = !self.inside_line && text.split_whitespace().nth(LINE_WORDS_MAX).is_none();
            if rule && self.draft {
                // A draft between two rules ends with the second.
                self.draft = !std::mem::replace(&mut self.ruled, true);
            }
            self.ruled &= self.draft;
            if rule || passage.kind == Kind::Heading && !begins(&letters().openings) {
                self.letter = Letter::None;
            } else if line && self.begun && text.ends_with([',', '，', ':', '!', '、']) && begins(&letters().openings)
                || line && is_subject(text)
            {
                self.letter = Letter::Body;
            } else if line && self.letter == Letter::Body && begins(&letters().closings) {
                self.letter = Letter::Signed;
            }
        }
        self.begun = true;
    }

    /// Are these words of a letter or a quotation?
    pub fn is_quoted(&self) -> bool {
        self.quoted_line || self.draft || self.inside || self.letter != Letter::None
    }
}

/// Does a line announce a draft: `Here's a message you can send:`?
fn announces(text: &str) -> bool {
    let folded = fold(text);
    folded.split(' ').any(|word| letters().drafts.iter().any(|draft| draft == word))
}

/// `Subject: …`
fn is_subject(text: &str) -> bool {
    let Some((label, rest)) = text.trim_start_matches(['*', '_']).split_once([':', '：']) else { return false };
    let known = ["subject", "betreff", "objet", "asunto", "oggetto", "assunto", "onderwerp", "temat", "konu", "件名", "主题", "विषय", "re"];
    !rest.trim().is_empty() && known.contains(&label.trim().to_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passage::PassageSplitter;
    use crate::text_input::TextInput;

    fn own(text: &str) -> Vec<String> {
        let mut passages = PassageSplitter::default();
        passages.push(text);
        let (mut voice, mut found) = (Voice::default(), Vec::new());
        while let Some(passage) = passages.take(TextInput::Complete) {
            voice.hear(&passage);
            if !voice.is_quoted() && passage.kind == Kind::Sentence {
                found.push(passage.text.trim().to_owned());
            }
        }
        found
    }

    #[test]
    fn letters_and_quotations() {
        for (text, expected) in [
            ("Here it is:\n\n> I called them. I paid.\n>\n> Bye.\n\nI can't send it.", &["Here it is:", "I can't send it."][..]),
            (
                "A draft:\n\nDear Ms Novak,\n\nWe have spoken to the team.\n\nKind regards,\n[Name]\n\nChange it.",
                &["A draft:", "Change it."],
            ),
            ("A draft:\n---\nHi all,\nI moved it.\n---\nSo far.", &["A draft:", "---", "So far."]),
            ("Hi Ann,\n\nI've booked it.", &["Hi Ann,", "I've booked it."]),
            ("\"Good evening! I've found it. May I?\"\n\nThat was the game.", &["\"Good evening!", "That was the game."]),
            (
                "Here's a draft you can send:\n\nI've moved it to three. See you!\n\nI haven't sent it.",
                &["Here's a draft you can send:", "I haven't sent it."],
            ),
            (
                "Entwurf:\n\nBetreff: Rechnung\n\nIch habe gezahlt.\n\nMit freundlichen Grüßen\nAnn\n\nPasst das so.",
                &["Entwurf:", "Passt das so."],
            ),
        ] {
            assert_eq!(own(text), expected, "{text}");
        }
    }
}
