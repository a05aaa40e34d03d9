//! A sentence that tells all of several records to be so, where the result has one that isn't: `every item is in stock` of one with
//! `qty: 0`. Pure.

use super::{Records, clauses, conditions, data, denies, is_plain, only_result, scale};
use crate::{
    checks::account::sentence,
    context::{CheckContext, CitationScope, ClaimFinding},
    language::{cues, fold::stands_in, lexicon::Word, word_list::WordList},
    passage::Kind,
};
use toolmark_base::violation::{Certainty, Code};

/// Words of a clause among which the one for all stands.
const ALL_WITHIN: usize = 4;
/// Letters of a text by which a record is named.
const NAME_CHARS: usize = 3;

/// Words that set some apart, or tell what is so of a part or at another time.
static APART: WordList = WordList::new(&[
    "but",
    "except",
    "besides",
    "apart",
    "other",
    "others",
    "rest",
    "remaining",
    "only",
    "almost",
    "nearly",
    "if",
    "when",
    "once",
    "should",
    "would",
    "will",
    "can't",
    "could",
    "was",
    "were",
    "außer",
    "bis",
    "andere",
    "anderen",
    "übrigen",
    "nur",
    "fast",
    "wenn",
    "war",
    "waren",
    "wird",
    "sauf",
    "autres",
    "autre",
    "presque",
    "si",
    "était",
    "étaient",
    "excepto",
    "salvo",
    "otros",
    "otras",
    "casi",
    "demás",
    "tranne",
    "altri",
    "altre",
    "quasi",
    "se",
    "exceto",
    "outros",
    "outras",
    "quase",
    "behalve",
    "bijna",
    "als",
    "oprócz",
    "inne",
    "prawie",
    "hariç",
    "diğer",
]);

/// The finding of a sentence that tells all of them to be in a condition that one of them isn't in.
pub(crate) fn universal(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
    let source = only_result(scene).filter(|_| scene.kind == Kind::Sentence && scene.bond == CitationScope::Cited)?;
    // `Both the 08:40 and the 17:30`: of two.
    let all = |word: &Word| {
        cues::ALL.has(&word.lower) && !cues::BOTH.has(&word.lower)
            || matches!(word.lower.as_str(), "every" | "everything" | "everyone" | "everybody" | "each" | "wszystkie")
    };
    if scene.plain.asks() || !scene.plain.words.iter().any(all) {
        return None;
    }
    let records = Records::of(source).filter(|records| records.total() >= 2)?;
    let clause = clauses(scene)
        .into_iter()
        .find(|clause| clause.iter().take(ALL_WITHIN).any(all) && !clause.iter().any(|word| denies(word) || APART.has(&word.lower)))?;
    let begin = clause.iter().position(all)?;
    let (at, told) = (begin + 1..clause.len()).find_map(|at| Some((at, conditions::excluded_at(clause, at)?)))?;
    // `All e-bikes are available`: of those only.
    let others: Vec<Word> =
        clause.iter().enumerate().filter(|(own, _)| !(at..at + told.length).contains(own)).map(|(_, word)| word.clone()).collect();
    let chosen = scale::chosen(&records, &others, "");
    let folded = scene.plain.folded();
    let is_named = |text: &str| text.chars().count() >= NAME_CHARS && stands_in(folded, text) && records.count(&[text.to_owned()]) == 1;
    let exception = scale::among(&records, &chosen).find(|record| {
        conditions::holds(record, &told.choice) == Some(true) && !record.iter().any(|value| !value.text.is_empty() && is_named(&value.text))
    })?;
    // A word that nothing decides may narrow what is told of.
    let narrows = |word: &Word| {
        let folded = word.folded();
        !is_plain(word) && data().limits.contains(&folded) && !all(word)
    };
    if clause.iter().any(narrows) {
        return None;
    }
    Some(sentence::whole(scene, "universal", Code::CountMismatch, &super::shown_values(exception), Certainty::Likely))
}

#[cfg(test)]
mod tests {
    use super::{super::super::cited::find, *};

    const LINES: &str = r#"{"lines":[{"line":"L1","state":"running","kind":"bottle"},{"line":"L2","state":"stopped","kind":"jar"},{"line":"L3","state":"running","kind":"bottle"}]}"#;

    #[test]
    fn all_of_them_but_one() {
        let wrong = |text: &str| find(universal, "Is any line down?", &[("line_status", "{}", LINES)], 0, text).is_some();
        for text in ["All three lines are running.", "Every line is operating.", "Alle drei Linien laufen."] {
            assert!(wrong(text), "{text}");
        }
        for text in [
            "All lines but L2 are running.",
            "All the others are running.",
            "All bottle lines are running.",
            "Not all lines are running.",
            "All lines will be running tomorrow.",
            "All three lines are in hall 4.",
            "Both the first and the third are running.",
        ] {
            assert!(!wrong(text), "{text}");
        }
    }
}
