//! Words as they are compared: lower case, without marks, accents and markup. Pure.

use std::borrow::Cow;

use unicode_normalization::{UnicodeNormalization as _, char::is_combining_mark};

/// `text` in lower-case letters and digits, one blank between words. Nothing else is left of it.
pub fn fold(text: &str) -> String {
    if text.is_ascii() {
        return fold_ascii(text);
    }
    let mut folded = String::with_capacity(text.len());
    let mut gap = false;
    let push = |c: char, folded: &mut String, gap: &mut bool| {
        if c.is_alphanumeric() {
            if *gap && !folded.is_empty() {
                folded.push(' ');
            }
            *gap = false;
            folded.extend(c.to_lowercase());
        } else if !matches!(c, '\'' | '’' | '\u{ad}' | '\u{200b}'..='\u{200d}') && !is_combining_mark(c) {
            *gap = true;
        }
    };
    for c in text.chars() {
        if c.is_ascii_alphanumeric() {
            if gap && !folded.is_empty() {
                folded.push(' ');
            }
            gap = false;
            folded.push(c.to_ascii_lowercase());
        } else if c.is_ascii() {
            gap |= c != '\'';
        } else if is_ideograph(c) {
            push(c, &mut folded, &mut gap);
        } else {
            c.nfkd().for_each(|part| push(part, &mut folded, &mut gap));
        }
    }
    folded
}

/// True for characters of the block CJK Unified Ideographs, which decompose into nothing.
fn is_ideograph(c: char) -> bool {
    matches!(c, '\u{4e00}'..='\u{9fff}')
}

/// What [`fold`] makes of each ASCII byte: the byte itself in lower case, a gap between words, or nothing.
const GAP: u8 = 0;
const NOTHING: u8 = 1;
const FOLDED: [u8; 128] = {
    let mut folded = [GAP; 128];
    let mut byte = 0_u8;
    while byte < 128 {
        if byte.is_ascii_alphanumeric() {
            folded[byte as usize] = byte.to_ascii_lowercase();
        }
        byte += 1;
    }
    folded[b'\'' as usize] = NOTHING;
    folded
};

/// Most text is ASCII: one look-up a byte.
fn fold_ascii(text: &str) -> String {
    let mut folded = Vec::with_capacity(text.len());
    let mut gap = false;
    for byte in text.bytes() {
        match FOLDED.get(usize::from(byte)).copied().unwrap_or(GAP) {
            GAP => gap = true,
            NOTHING => {}
            letter => {
                if std::mem::take(&mut gap) && !folded.is_empty() {
                    folded.push(b' ');
                }
                folded.push(letter);
            }
        }
    }
    String::from_utf8(folded).unwrap_or_default()
}

/// In lower case.
pub fn lower_of(text: &str) -> String {
    if text.is_ascii() { text.to_ascii_lowercase() } else { text.to_lowercase() }
}

/// `text` folded; as it is where it is one word of lower-case ASCII letters and digits.
pub fn folded(text: &str) -> Cow<'_, str> {
    let plain = text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    if plain { Cow::Borrowed(text) } else { Cow::Owned(fold(text)) }
}

/// In lower case; as it is where that is so already.
pub fn lower(word: &str) -> Cow<'_, str> {
    let changes = |c: char| !c.is_ascii() || c.is_ascii_uppercase();
    if word.contains(changes) { Cow::Owned(word.to_lowercase()) } else { Cow::Borrowed(word) }
}

/// A member's or tool's name as words: `getAllPlayers`, `get_all-players` are `get all players`.
pub fn name_words(name: &str) -> Vec<String> {
    name_text(name).split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Place behind the last character of a text that is such; 0 if none is.
pub fn behind_last(text: &str, is: impl Fn(char) -> bool) -> usize {
    text.char_indices().rev().find(|(_, c)| is(*c)).map_or(0, |(at, c)| at + c.len_utf8())
}

/// Bytes of a member's name that are read. Each value of a list bears the name, so a long one would take that much for each of them.
const NAME_BYTES_MAX: usize = 256;

/// The part of a name that [`name_text`] and [`key`] read.
pub fn beginning(name: &str) -> &str {
    name.get(..name.floor_char_boundary(NAME_BYTES_MAX)).unwrap_or(name)
}

/// The words of a member's or tool's name, folded, with blanks between: `getAllPlayers` is `get all players`.
pub fn name_text(name: &str) -> String {
    let name = beginning(name);
    if name.is_ascii() {
        let humps = |two: &[u8]| matches!(two, [before, c] if before.is_ascii_lowercase() && c.is_ascii_uppercase());
        if !name.as_bytes().windows(2).any(humps) {
            return fold_ascii(name);
        }
    }
    let mut spaced = String::with_capacity(name.len() + 8);
    let mut before = ' ';
    for c in name.chars() {
        if c.is_uppercase() && before.is_lowercase() {
            spaced.push(' ');
        }
        spaced.push(c);
        before = c;
    }
    fold(&spaced)
}

/// A name as one key: `Download-Speed` and `download_speed` are `downloadspeed`.
pub fn key(name: &str) -> String {
    let name = beginning(name);
    if name.is_ascii() {
        let mut key = Vec::with_capacity(name.len());
        for byte in name.bytes() {
            match FOLDED.get(usize::from(byte)).copied().unwrap_or(GAP) {
                GAP | NOTHING => {}
                letter => key.push(letter),
            }
        }
        return String::from_utf8(key).unwrap_or_default();
    }
    let mut key = fold(name);
    key.retain(|c| c != ' ');
    key
}

/// The words of a folded text; the empty one of an empty text.
pub fn words_of(folded: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(folded);
    // Words are short: to look at each byte costs less than to prepare a search.
    std::iter::from_fn(move || {
        let text = rest?;
        let end = text.bytes().position(|byte| byte == b' ');
        rest = end.and_then(|end| text.get(end + 1..));
        end.map_or(Some(text), |end| text.get(..end))
    })
}

/// Bytes of a text from which a search is prepared.
const SEARCHED_BYTES_MIN: usize = 256;

/// Do the folded `words` stand in the folded `text`, as whole words?
pub fn stands_in(text: &str, words: &str) -> bool {
    if words.is_empty() || text.len() < words.len() {
        return false;
    }
    // To prepare a search costs more than to look at each word of a short text.
    if text.len() <= SEARCHED_BYTES_MIN {
        let (text, words) = (text.as_bytes(), words.as_bytes());
        let (first, mut before) = (words.first(), b' ');
        return text.iter().enumerate().any(|(at, byte)| {
            let begins = std::mem::replace(&mut before, *byte) == b' ' && Some(byte) == first;
            let rest = || text.get(at..).and_then(|rest| rest.strip_prefix(words));
            begins && rest().is_some_and(|rest| matches!(rest.first(), None | Some(b' ')))
        });
    }
    let edge = |c: Option<char>| c.is_none_or(|c| c == ' ');
    !words.is_empty()
        && memchr::memmem::find_iter(text.as_bytes(), words.as_bytes()).any(|at| {
            let before = text.get(..at).and_then(|text| text.chars().next_back());
            let after = text.get(at + words.len()..).and_then(|text| text.chars().next());
            edge(before) && edge(after)
        })
}

/// Are these folded words the same but for their endings: `task` and `tasks`, `aufgabe` and `aufgaben`?
pub fn akin(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    // Most words differ at once.
    if one.get(..3).is_none_or(|start| other.get(..3) != Some(start)) {
        return false;
    }
    let common = one.iter().zip(other).take_while(|(a, b)| a == b).count();
    let longest = one.len().max(other.len());
    let shortest = one.len().min(other.len());
    longest - common <= 3 && (shortest - common <= 1 || common >= 6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folding() {
        assert_eq!(fold("  **FC Bayern**, München — 'Ann'"), "fc bayern munchen ann");
        assert_eq!(name_words("getAllPlayers_v2"), ["get", "all", "players", "v2"]);
        assert_eq!(key("Download-Speed"), "downloadspeed");
        assert!(stands_in("fc bayern munchen", "bayern") && !stands_in("fc bayern", "bay"));
        for (one, other, same) in [
            ("task", "tasks", true),
            ("aufgabe", "aufgaben", true),
            ("city", "cities", true),
            ("play", "player", true),
            ("tag", "tax", false),
        ] {
            assert_eq!(akin(one, other), same, "{one} {other}");
        }
    }
}
