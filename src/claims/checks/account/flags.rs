//! Flags told the other way round, of one record or of all. Pure.

use crate::{
    checks::account::sentence::{LEAVES_OF, whole},
    context::{CheckContext, CitationScope, ClaimFinding},
    evidence::{
        facts::{NamedValue, Scalar},
        failure,
    },
    language::{
        fold::{akin, behind_last, fold, key},
        lexicon::Word,
        polarity::negation::{denies, is_nothing},
        word_list::WordList,
    },
    passage::Kind,
};
use toolmark_base::violation::{Certainty, Code};

/// A flag told the other way round: "is contaminated" where `contaminated` is false.
pub(super) fn flags(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
    let [source] = scene.sources.as_slice() else { return None };
    let facts = source.facts();
    if source.failed || facts.leaves.len() > LEAVES_OF {
        return None;
    }
    for leaf in &facts.leaves {
        let Scalar::Flag(flag) = leaf.value else { continue };
        let same = facts.of_key(&leaf.key).count();
        if same != 1 || leaf.key.len() < 4 {
            continue;
        }
        let bare = leaf.key.strip_prefix("is").or_else(|| leaf.key.strip_prefix("has")).unwrap_or(&leaf.key);
        let Some((word, opposite)) = word_of_flag(&scene.plain.words, bare) else { continue };
        // What stands before a mark denies something else: `better not: it's vegetarian`.
        let from = behind_last(scene.text().get(..word.start).unwrap_or_default(), |c| matches!(c, ':' | ';' | '.'));
        let near = scene.words_before(word.start);
        let near = near.get(near.partition_point(|word| word.start < from)..).unwrap_or_default();
        // `"Quiet Keys" is playing`: such words are mostly no denial.
        let plain = ["free", "clear", "clean", "quiet", "empty", "0"];
        let denies = |word: &str| is_nothing(word) && !plain.contains(&word) || word.ends_with("n't") || word.ends_with("n’t");
        let said_not = near.iter().rev().take(4).any(|word| denies(&word.lower));
        let hedged = near.iter().rev().take(4).any(|word| {
            ["if", "whether", "could", "may", "might", "should", "possibly", "as", "was", "were", "or"].contains(&word.lower.as_str())
        });
        let copula = near
            .iter()
            .rev()
            .take(3)
            .any(|word| matches!(word.lower.as_str(), "is" | "are" | "it's" | "be" | "been" | "isn't" | "aren't" | "not"));
        // `online, contactless and cash use are off`: its own verb comes behind it.
        let subject = scene
            .words_after(word.end)
            .iter()
            .take(8)
            .take_while(|word| {
                scene.text().get(near.last().map_or(0, |near| near.end)..word.start).is_some_and(|gap| !gap.contains(['.', ';']))
            })
            .any(|word| matches!(word.lower.as_str(), "is" | "are" | "was" | "were" | "stays" | "stay" | "remains" | "remain"));
        if copula && !subject && !hedged && (said_not != opposite) == flag {
            return Some(ClaimFinding {
                rule: "flags",
                code: Code::ClaimMismatch,
                span: word.start..word.end,
                found: scene.text().get(near.last().map_or(word.start, |word| word.start)..word.end).unwrap_or_default().to_owned(),
                expected: format!("{}: {flag}", leaf.key),
                certainty: Certainty::Certain,
            });
        }
    }
    None
}

/// The word, or the first of the words, that are the name of a flag, and whether it is its opposite: `on display` of `onDisplay`, `unlocked`
/// of `locked`.
fn word_of_flag<'w>(words: &'w [Word], name: &str) -> Option<(&'w Word, bool)> {
    (0..words.len()).find_map(|at| {
        let joined = |count: usize| words.get(at..at + count).map(|words| words.iter().map(|word| key(&word.lower)).collect::<String>());
        let own = key(&words.get(at)?.lower);
        let opposite = own.strip_prefix("un").or_else(|| own.strip_prefix("in")).is_some_and(|rest| rest == name);
        let is = own == name || joined(2).is_some_and(|two| two == name);
        (is || opposite).then(|| Some((words.get(at)?, opposite)))?
    })
}

/// Words behind one for all among which what is left out is named: `all of them but the first`.
const BUT_WITHIN: usize = 3;

/// "All four have a balcony" where one has none.
pub(super) fn every(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
    let [source] = scene.sources.as_slice() else { return None };
    let facts = source.facts();
    let all = ["all", "every", "each", "alle", "jede", "jeder", "jedes", "toutes", "tous", "todos", "todas", "tutti", "tutte", "allemaal"];
    let first = scene.plain.words.iter().take(4).find(|word| all.contains(&word.lower.as_str()))?;
    // `33 g each of butter and flour`: an amount.
    let amount = scene
        .words_before(first.start)
        .last()
        .is_some_and(|word| scene.plain.numbers().iter().any(|number| number.end >= word.end && number.span.start < word.end));
    // `All but one`
    static BUT: WordList = WordList::new(&[
        "but", "except", "bar", "save", "außer", "bis", "sauf", "excepté", "menos", "excepto", "salvo", "tranne", "exceto", "behalve", "op",
    ]);
    let but = scene.words_after(first.end).iter().take(BUT_WITHIN).any(|word| BUT.has(&word.lower));
    // `Two each of A and CNAME`
    let shared_out = scene.words_before(first.start).last().is_some_and(|word| scene.lexicon.count(&word.lower).is_some());
    // `All the list tells me is …`
    let of_telling = scene
        .words_after(first.end)
        .iter()
        .take(BUT_WITHIN)
        .any(|word| matches!(word.lower.as_str(), "tells" | "says" | "shows" | "i" | "we" | "you"))
        // `All that is left`
        || scene.words_after(first.end).first().is_some_and(|word| matches!(word.lower.as_str(), "that" | "what"));
    if amount
        || but
        || of_telling
        || shared_out
        || scene.bond != CitationScope::Cited && scene.kind != Kind::Line
        || source.failed
        || facts.records.len() < 2
        || facts.leaves.len() > LEAVES_OF
        || denies(scene.text())
    {
        return None;
    }
    for word in scene.words_after(first.end) {
        let folded = key(&word.lower);
        if folded.len() < 4 {
            continue;
        }
        let fine = ["successfully", "succeeded", "successful", "passed", "erfolgreich", "réussi", "exitosamente", "riuscite"]
            .contains(&word.lower.as_str());
        let failed = || {
            facts.leaves.iter().any(|leaf| {
                leaf.record > 0
                    && matches!(&leaf.value, Scalar::Text(text) if failure::STATES.contains(&fold(text).replace(' ', "").as_str()))
            })
        };
        if fine && failed() {
            return Some(whole(scene, "every", Code::CountMismatch, "not all of them are so", Certainty::Certain));
        }
        let flags: Vec<bool> = facts
            .leaves
            .iter()
            .filter(|leaf| leaf.key == folded)
            .filter_map(|leaf| match leaf.value {
                Scalar::Flag(flag) => Some(flag),
                _ => None,
            })
            .collect();
        let mixed = flags.len() >= 2 && flags.contains(&false);
        let texts: Vec<&str> = facts
            .leaves
            .iter()
            .filter(|leaf| leaf.record > 0)
            .filter_map(|leaf| match &leaf.value {
                Scalar::Text(text) if text.len() <= 24 => Some((leaf.key.as_str(), text.as_str())),
                _ => None,
            })
            .filter(|(own, _)| facts.of_key(own).any(|leaf| matches!(&leaf.value, Scalar::Text(text) if is_value(text, &word.lower))))
            .map(|(_, text)| text)
            .collect();
        // `All wheels have been given a grade`, of which one has none.
        // `every open issue has somebody assigned`, where an assignee is null.
        let of_null = || {
            let own: Vec<&NamedValue> =
                facts.leaves.iter().filter(|leaf| leaf.record > 0 && (leaf.key == folded || akin(&leaf.key, &folded))).collect();
            own.len() >= 2 && own.iter().any(|leaf| matches!(leaf.value, Scalar::Null)) && folded.len() > 5
        };
        let somebody = || scene.plain.words.iter().any(|word| matches!(word.lower.as_str(), "somebody" | "someone" | "an" | "a" | "its"));
        if somebody() && of_null() {
            return Some(whole(scene, "every", Code::CountMismatch, "not all of them have one", Certainty::Likely));
        }
        let has_column = || source.rows().columns && source.rows().rows.len() >= 2;
        let given = || {
            has_column()
                && scene
                    .plain
                    .words
                    .iter()
                    .any(|word| matches!(word.lower.as_str(), "have" | "has" | "got" | "given" | "carry" | "carries"))
                && source.rows().rows.iter().flat_map(|row| &row.cells).any(|cell| cell.column == folded)
                && source.rows().rows.iter().any(|row| !row.cells.iter().any(|cell| cell.column == folded && !cell.folded.is_empty()))
        };
        if given() {
            return Some(whole(scene, "every", Code::CountMismatch, "not all of them have one", Certainty::Likely));
        }
        let differs = texts.len() >= 2 && texts.iter().any(|text| !is_value(text, &word.lower));
        if mixed || differs && !texts.is_empty() {
            return Some(whole(scene, "every", Code::CountMismatch, "not all of them are so", Certainty::Likely));
        }
    }
    None
}

fn is_value(text: &str, word: &str) -> bool {
    let (text, word) = (fold(text), fold(word));
    text == word || akin(&text, &word)
}
