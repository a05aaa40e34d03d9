//! The part of an order that no call covers, told as carried out: `… and the heating's at 16` where only the blinds were closed. Pure.
//!
//! A user who orders two things of which one ran has an open order: the other. What the answer tells of that is judged as if nothing
//! had run.

use std::{ops::Range, sync::Arc};

use super::{
    acts,
    halves::{RecentCalls, finding, has_no_denial},
    orders::{character_pairs, is_open_word, shares_characters},
};
use crate::{
    checks::{
        acts::{
            act_sentence::Before,
            readings::EMPTY_WORDS,
            speech::{
                reported::{ReportedActs, clause},
                script, speeches,
            },
        },
        states,
    },
    context::ClaimFinding,
    evidence::tool_capabilities::{Effect, OpenOrder, ToolCapabilities},
    language::{
        fold::{akin, fold},
        lexicon::{self, Word, words},
        request::UserRequest,
        word_list::WordList,
    },
    passage::Kind,
    plain::AnalyzedPassage,
};
use toolmark_base::violation::{Certainty, Code};

/// Bytes of a request that is taken apart, and parts of it.
const REQUEST_BYTES_MAX: usize = 600;
const PARTS_MAX: usize = 12;
/// Bytes of calls and results that are looked through, again for each sentence that names a thing of the order.
const TEXTS_BYTES_MAX: usize = 64 << 10;
/// Letters of a word that names a thing.
const THING_CHARS: usize = 4;

/// Words of a sentence that is read, and of the shortest clause that tells something.
const SENTENCE_WORDS_MAX: usize = 40;
const CLAUSE_WORDS_MIN: usize = 3;
/// Words of what names a thing once more: `barcode 30052290`.
const APPOSITION_WORDS: usize = 2;

/// Words that join two orders in any language; those of one letter count only in their own.
static JOINS: WordList = WordList::new(&[
    "and",
    "then",
    "also",
    "but",
    "und",
    "dann",
    "aber",
    "et",
    "puis",
    "mais",
    "y",
    "luego",
    "pero",
    "poi",
    "ma",
    "depois",
    "mas",
    "plus",
    "maar",
    "daarna",
    "oraz",
    "potem",
    "ve",
    "sonra",
    "och",
    "और",
    "फिर",
]);
/// Those of them that are other words elsewhere, with their languages.
const OWN_JOINS: &[(&str, &str)] = &[("it", "e"), ("pt", "e"), ("es", "e"), ("nl", "en"), ("pl", "i")];
/// Words of a part that orders nothing of its own: it sets a condition or a limit, or asks for words.
static NO_ORDERS: WordList = WordList::new(&[
    "if", "unless", "when", "because", "since", "so", "only", "don't", "don’t", "not", "without", "never", "tell", "show", "say", "wenn",
    "falls", "weil", "damit", "nicht", "ohne", "nur", "si", "quand", "parce", "ne", "sans", "cuando", "porque", "sin", "no", "solo", "se",
    "quando", "perché", "perche", "non", "senza", "sem", "não", "nao", "als", "omdat", "niet", "zonder", "alleen", "jeśli", "jesli", "gdy",
    "bo", "nie", "bez", "tylko", "eğer", "için", "değil", "which", "welche", "welcher", "welches", "quel", "quelle", "cuál", "quale",
    "qual", "welk", "welke", "który", "która", "które", "hangisi", "hangi",
]);

/// The finding of a sentence that tells as done what is left open of the order.
pub(super) fn told(
    passage: &AnalyzedPassage,
    kind: Kind,
    said: &ReportedActs,
    ran: &RecentCalls<'_>,
    abilities: &ToolCapabilities,
    before: Before,
) -> Option<ClaimFinding> {
    let open = abilities.memo.open_part.get_or_init(|| open_part(abilities, ran).map(Arc::new)).as_ref()?;
    if !is_about(open, passage, 0..passage.text.len(), ran) {
        return None;
    }
    let about = |told: &ClaimFinding| {
        let clause = clause(&passage.text, told.span.clone());
        let denied = || !has_no_denial(&AnalyzedPassage::of(passage.text.get(clause.clone()).unwrap_or_default()));
        is_about(open, passage, clause.clone(), ran) && !has_values(passage, &clause, ran, abilities) && !denied()
    };
    let acts = acts(passage, kind, said, &open.exchange, Some(ran.grounds), before).filter(|told| matches!(told.rule, "acts" | "ordered"));
    if !acts.is_some_and(|told| about(&told)) && !is_told_as_so(open, passage, kind, ran, abilities) {
        return None;
    }
    let expected = format!("nothing that ran since the request is about `{}`", open.exchange.asked.trim());
    finding(passage, "half_open", Code::UnsupportedAction, expected, Certainty::Likely)
}

/// Does a clause tell how a thing of the open order is, without a word of doubt, denial or offer in its sentence: `south is off`?
fn is_told_as_so(open: &OpenOrder, passage: &AnalyzedPassage, kind: Kind, ran: &RecentCalls<'_>, abilities: &ToolCapabilities) -> bool {
    if is_spaceless(&open.exchange.asked)
        || kind == Kind::Heading
        || passage.words.len() > SENTENCE_WORDS_MAX
        || !has_no_denial(passage)
        || is_open(passage)
    {
        return false;
    }
    let mut start = 0;
    let marks = |c: char| matches!(c, ',' | ';' | '–' | '—' | '(' | ')' | '，' | '、' | '；');
    let ends = passage.text.match_indices(marks).map(|(at, mark)| (at, at + mark.len()));
    let ends: Vec<(usize, usize)> = ends.chain([(passage.text.len(), passage.text.len())]).collect();
    ends.into_iter().any(|(end, next)| {
        let part = std::mem::replace(&mut start, next)..end;
        let words = passage.words.iter().filter(|word| part.start <= word.start && word.end <= part.end).count();
        words >= CLAUSE_WORDS_MIN && is_about(open, passage, part.clone(), ran) && !has_values(passage, &part, ran, abilities)
    })
}

/// The part of the order that no call covers, if there is one.
fn open_part(abilities: &ToolCapabilities, ran: &RecentCalls<'_>) -> Option<OpenOrder> {
    let asked = Some(&*abilities.asked).filter(|asked| asked.len() <= REQUEST_BYTES_MAX)?;
    // One call of a tool may be for all of it.
    let idle = |tool: &str| !abilities.recent.contains_key(tool);
    if abilities.acted_before || !abilities.tools.iter().any(|ability| ability.effect() != Effect::Reads && idle(&ability.tool)) {
        return None;
    }
    let parts = parts(asked);
    // Only then are the results' words needed.
    if parts.len() < 2 || ran.texts().map(str::len).sum::<usize>() > TEXTS_BYTES_MAX {
        return None;
    }
    let covered = |part: &&&str| things(part).iter().any(|thing| is_covered(thing, ran, abilities));
    if !parts.iter().any(|part| covered(&part)) {
        return None;
    }
    let orders = |part: &&&str| {
        let request = UserRequest::from(**part);
        !things(part).is_empty() && request.is_order() && !words(part).iter().any(|word| NO_ORDERS.has(&word.lower))
    };
    // `Please extend Piranesi, barcode 30052290`: what follows names the same thing once more.
    let names_again = |at: usize| {
        let apposition = |next: &&&str| words(next).len() <= APPOSITION_WORDS && next.bytes().any(|byte| byte.is_ascii_digit());
        parts.get(at + 1).is_some_and(|next| covered(&next) && apposition(&next))
    };
    let open: Vec<&str> =
        parts.iter().enumerate().filter(|(at, part)| !covered(part) && orders(part) && !names_again(*at)).map(|(_, part)| *part).collect();
    if open.is_empty() {
        return None;
    }
    let asked = open.join(". ");
    let things = things(&asked);
    let exchange = ToolCapabilities {
        tools: Arc::clone(&abilities.tools),
        ran: abilities.ran.clone(),
        asked: asked.into(),
        idle: true,
        ..ToolCapabilities::default()
    };
    Some(OpenOrder { exchange, things })
}

/// Does anything that ran have this word, or a tool that ran say it of itself?
fn is_covered(thing: &str, ran: &RecentCalls<'_>, abilities: &ToolCapabilities) -> bool {
    let about = |tool: &str| abilities.tool(tool).is_some_and(|ability| ability.about.iter().any(|word| akin(word, thing)));
    ran.has(thing) || ran.done.iter().any(|source| about(&source.tool))
}

/// Does a part of the passage name a thing of the open order that nothing which ran has?
fn is_about(open: &OpenOrder, passage: &AnalyzedPassage, part: Range<usize>, ran: &RecentCalls<'_>) -> bool {
    if is_spaceless(&open.exchange.asked) {
        return shares_characters(&open.exchange.asked, passage.text.get(part).unwrap_or_default());
    }
    let names = |word: &Word| {
        let word = word.folded();
        let long = |word: &str| word.chars().count() > THING_CHARS;
        open.things.iter().any(|thing| *thing == word || (long(thing) || long(&word)) && akin(thing, &word)) && !ran.has(&word)
    };
    passage.words.iter().filter(|word| part.start <= word.start && word.end <= part.end).any(names)
}

/// Does a part of the passage tell a figure, in digits or words, that only a result has?
fn has_values(passage: &AnalyzedPassage, part: &Range<usize>, ran: &RecentCalls<'_>, abilities: &ToolCapabilities) -> bool {
    let lexicon = lexicon::language(&passage.words, None);
    let stands = |figures: &str| ran.texts().any(|text| text.split(' ').any(|word| word == figures));
    let asked = |own: &str| abilities.asked.words().iter().any(|word| word.lower == own);
    passage.words.iter().filter(|word| part.start <= word.start && word.end <= part.end).any(|word| {
        let digits = word.lower.bytes().any(|byte| byte.is_ascii_digit());
        let counted = || lexicon.count(&word.lower).is_some_and(|count| count > 2 && stands(&count.to_string()));
        !asked(&word.lower) && (digits && word.folded().split(' ').all(stands) || !digits && counted())
    })
}

/// Does a word leave open what the sentence tells?
fn is_open(passage: &AnalyzedPassage) -> bool {
    states::is_unsure(passage.folded(), &passage.words) || passage.words.iter().any(|word| is_open_word(&word.lower))
}

/// True of a text in a script that has no blanks between words, or few.
fn is_spaceless(text: &str) -> bool {
    script(text).is_some_and(|script| script != "hi")
}

/// The parts of a request, each of which may order something of its own.
fn parts(asked: &str) -> Vec<&str> {
    let all = words(asked);
    let codes: Vec<&str> = speeches(asked, &all).iter().map(|speech| speech.code.as_str()).collect();
    let joins =
        |word: &Word| JOINS.has(&word.lower) || OWN_JOINS.iter().any(|(code, join)| *join == word.lower && codes.first() == Some(code));
    let mut cuts: Vec<(usize, usize)> = all.iter().filter(|word| joins(word)).map(|word| (word.start, word.end)).collect();
    for (at, c) in asked.char_indices() {
        let end = at + c.len_utf8();
        let wide = matches!(c, '，' | '、' | '。' | '；' | '।' | '\n' | '！');
        let mark = matches!(c, ',' | ';' | '.' | '!' | ':') && asked.get(end..).is_none_or(|rest| rest.is_empty() || rest.starts_with(' '));
        // `14. März`, `T. Novak`: a point behind a number or a single letter ends nothing.
        let before = asked.get(..at).unwrap_or_default();
        let last = before.rsplit(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
        let point = c == '.' && !last.is_empty() && (last.chars().nth(1).is_none() || last.bytes().all(|byte| byte.is_ascii_digit()));
        if wide || mark && !(point && end < asked.len()) {
            cuts.push((at, end));
        }
    }
    cuts.sort_unstable();
    let (mut found, mut start) = (Vec::new(), 0);
    for (at, end) in cuts.into_iter().chain([(asked.len(), asked.len())]) {
        found.extend(asked.get(start..at).filter(|part| part.chars().any(char::is_alphanumeric)));
        start = end;
    }
    found.truncate(PARTS_MAX);
    found
}

/// The words of a part that name something, folded; of a script without blanks, pairs of its characters.
fn things(part: &str) -> Vec<String> {
    if is_spaceless(part) {
        return character_pairs(part).iter().map(|pair| fold(pair)).collect();
    }
    let own = words(part).into_iter().map(|word| fold(&word.lower));
    own.filter(|word| {
        let figures = word.bytes().filter(u8::is_ascii_digit).count();
        figures >= 2 || figures == 0 && word.chars().count() >= THING_CHARS && !EMPTY_WORDS.has(word)
    })
    .collect()
}
