//! Negation: words, in any language, by which a text says that something isn't there or isn't so. Pure.

use crate::{
    language::{
        fold::{fold, words_of},
        word_list::{PhraseList, WordList},
    },
    plain::AnalyzedPassage,
};

/// Words by which a sentence tells that something isn't there or isn't so, in any language. Folded; those of scripts without blanks
/// are looked for inside words.
static NOTHING: WordList = WordList::new(&[
    "no", "not", "none", "nothing", "nobody", "nowhere", "never", "neither", "without", "empty", "zero", "nope", "cannot", "free", "clear",
    "clean", "quiet", "unable", "isnt", "arent", "wasnt", "werent", "doesnt", "didnt", "hasnt", "havent", "couldnt", "cant", "wont",
    "lacks", "missing", "blank", "kein", "keine", "keinen", "keiner", "keinem", "keines", "nicht", "nichts", "nie", "niemand", "leer",
    "ohne", "null", "frei", "pas", "aucun", "aucune", "rien", "jamais", "vide", "sans", "personne", "libre", "ningun", "ninguna",
    "ninguno", "nada", "nunca", "nadie", "ninguem", "nikt", "nikogo", "kimse", "vacio", "vacia", "sin", "sinon", "non", "nessun",
    "nessuno", "nessuna", "niente", "vuoto", "vuota", "senza", "nao", "nenhum", "nenhuma", "vazio", "vazia", "sem", "niet", "geen",
    "niets", "leeg", "nie", "brak", "zaden", "zadnych", "pusty", "yok", "degil", "bos", "0", "ingen", "inga", "inget", "inte",
]);

static NOTHING_INSIDE: PhraseList = PhraseList::new(NOTHING_PARTS);

/// Parts of such words in scripts without blanks.
pub const NOTHING_PARTS: &[&str] = &[
    "没",
    "無",
    "无",
    "不",
    "未",
    "空",
    "ない",
    "ません",
    "なし",
    "なかった",
    "नहीं",
    "कोई",
    "खाली",
    "शून्य",
    "零",
    "暂无",
    "尚",
    "없",
    "않",
];

/// Does a word of this text deny something, in any language?
pub(crate) fn denies(text: &str) -> bool {
    let plain = ["free", "clear", "clean", "quiet", "libre", "frei", "bos", "0"];
    let word = |word: &str| !plain.contains(&word) && is_nothing(word) || word.ends_with("nt") && text.to_lowercase().contains("n't");
    words_of(&fold(text)).any(word) || NOTHING_INSIDE.stands_in(text)
}

/// Is this a word of nothing? `word`: in lower case.
pub(crate) fn is_nothing(word: &str) -> bool {
    let folded = word.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if folded { NOTHING.has(word) } else { NOTHING.has(&fold(word)) }
}

/// Is this folded word a Turkish verb that denies (`bulamadım`, "I couldn't find")? The denial is a syllable before its ending.
fn is_turkish_denial(folded: &str) -> bool {
    // `samedi` is Saturday, the others are Italian nouns.
    const OTHERS: [&str; 3] = ["samedi", "rimedi", "intermedi"];
    // Folding leaves the dotless i.
    const ENDINGS: [&str; 13] =
        ["madım", "medim", "madık", "medik", "madı", "medi", "madılar", "mediler", "mamış", "memiş", "mıyor", "miyor", "muyor"];
    // Few words end so: most are told by their last letter.
    folded.ends_with(['m', 'k', 'r', 'i', 'ı', 'ş'])
        && ENDINGS.iter().any(|ending| folded.len() > ending.len() && folded.ends_with(ending))
        && !OTHERS.contains(&folded)
}

/// True of a word of nothing where it stands behind `before`: `une personne` and `par personne` deny nothing.
fn denies_behind(before: &str, word: &str) -> bool {
    let person = word == "personne" && matches!(before, "une" | "la" | "cette" | "chaque" | "par" | "1");
    !person && is_nothing(word)
}

/// Does a word of this text in lower case deny something?
pub fn words_deny<'t>(lower: &'t str) -> bool {
    let mut before = "";
    let mut denies = |word| {
        let denies = denies_behind(std::mem::replace(&mut before, word), word);
        denies && !matches!(word, "free" | "clear" | "clean" | "quiet" | "libre" | "frei" | "boş")
            || is_turkish_denial(word)
            || word.ends_with('t') && (word.ends_with("n't") || word.ends_with("n’t"))
    };
    let in_token = |token: &'t str| {
        if token.bytes().all(|byte| byte.is_ascii_lowercase()) {
            return denies(token);
        }
        // `4.2.0` and `10:00` are one word each: their zeros tell nothing.
        let figures = token.bytes().any(|byte| byte.is_ascii_digit());
        let inside = |c: char| c.is_alphanumeric() || matches!(c, '\'' | '’') || figures && matches!(c, '.' | ',' | ':' | '-' | '/');
        token
            .split(|c: char| !inside(c))
            .map(|word| if figures { word.trim_matches(['.', ',', ':', '-', '/']) } else { word })
            .any(&mut denies)
    };
    if lower.is_ascii() { lower.split_ascii_whitespace().any(in_token) } else { lower.split_whitespace().any(in_token) }
}

pub fn read_tells_nothing(plain: &AnalyzedPassage) -> bool {
    let lower = plain.lower();
    let mut before = "";
    let denies = |word| {
        let nothing = denies_behind(std::mem::replace(&mut before, word), word);
        nothing || is_turkish_denial(word) || word.ends_with("nt") && lower.contains("n't")
    };
    words_of(plain.folded()).any(denies) || NOTHING_INSIDE.stands_in(lower)
}
