//! States that exclude each other: "The order has been delivered" of a result whose status is `shipped`, in whatever language both are.
//! The words lie in `lexicon/exclusive.toml`. Pure.

use std::sync::OnceLock;

use aho_corasick::AhoCorasick;
use serde::Deserialize;

use crate::{
    checks::{
        account::{named_records::NamedRecords, sentence},
        states,
    },
    context::{CheckContext, ClaimFinding},
    evidence::facts::{NamedValue, Scalar},
    language::{
        fold::{fold, key, stands_in},
        word_list::{FoldedParts, data_file},
    },
};
use toolmark_base::violation::{Certainty, Code};

/// Values of a result that are compared.
const LEAVES_MAX: usize = 200;
/// Letters of the longest value that is a state.
const STATE_CHARS_MAX: usize = 28;
/// Words of the longest one in a member that isn't called a state.
const STATE_WORDS_MAX: usize = 1;
/// Bytes of the shortest word by which a sentence names a member.
const MEMBER_BYTES_MIN: usize = 4;
/// Beginnings of members' names that stand for weekdays.
const DAY_KEYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
/// Parts of the names of members that tell how something was, will be or ought to be.
const OTHER_STATES: [&str; 14] =
    ["prev", "old", "last", "former", "next", "new", "target", "desired", "expected", "planned", "requested", "alt", "neu", "ancien"];

/// The groups of `lexicon/exclusive.toml`, as they are written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenGroups {
    group: Vec<Group>,
    copulas: Vec<String>,
    other_times: Vec<String>,
}

/// Classes of words of which a thing is in one at a time.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Group {
    /// The words of each class.
    classes: Vec<Vec<String>>,
    /// The classes follow one another.
    ordered: bool,
    /// The words mean a state only in a clause with a word such as `is`.
    copula: bool,
    /// The sentence must name the member.
    named: bool,
}

/// The groups, with one automaton for the words of all of them.
#[derive(Debug, Default)]
struct Groups {
    groups: Vec<Group>,
    automaton: Option<AhoCorasick>,
    /// Bit of the class that each pattern is of.
    bits: Vec<u32>,
    /// Words that tell how something is.
    copulas: FoldedParts,
    /// Words of a clause that tells what was or will be.
    other_times: FoldedParts,
}

/// Classes: bits, counted over all groups.
type Classes = u128;

impl Groups {
    fn get() -> &'static Self {
        static ALL: OnceLock<Groups> = OnceLock::new();
        ALL.get_or_init(|| {
            let WrittenGroups { group: groups, copulas, other_times } = data_file(include_str!("../language/lexicon/exclusive.toml"));
            let (mut patterns, mut bits) = (Vec::new(), Vec::new());
            for (bit, words) in (0_u32..).zip(groups.iter().flat_map(|group| &group.classes)) {
                patterns.extend(words.iter().map(|word| FoldedParts::pattern(word, fold)));
                bits.resize(patterns.len(), bit);
            }

            let automaton = AhoCorasick::new(&patterns).ok();
            let parts = |words: &[String]| FoldedParts::new(words, fold);
            Groups { groups, automaton, bits, copulas: parts(&copulas), other_times: parts(&other_times) }
        })
    }

    /// The classes of which a folded text has a word.
    fn in_text(&self, folded: &str) -> Classes {
        let Some(automaton) = &self.automaton else { return 0 };
        let edged = format!(" {folded} ");
        let bit = |pattern: usize| self.bits.get(pattern).map_or(0, |bit| 1 << bit);
        automaton.find_overlapping_iter(&edged).fold(0, |classes, found| classes | bit(found.pattern().as_usize()))
    }

    /// The groups with the bit of their first class.
    fn with_bits(&self) -> impl Iterator<Item = (u32, &Group)> {
        self.groups.iter().scan(0, |next, group| {
            let first = *next;
            *next += group.classes.len() as u32;
            Some((first, group))
        })
    }
}

/// The finding of a passage that tells of a state which the one that the result names excludes.
pub(super) fn exclusive(scene: &CheckContext<'_>, names: &NamedRecords<'_>) -> Option<ClaimFinding> {
    let [source] = scene.sources.as_slice() else { return None };
    let facts = source.facts();
    if source.fails() || source.is_partial() || facts.leaves.len() > LEAVES_MAX {
        return None;
    }
    let (all, folded) = (Groups::get(), scene.plain.folded());
    let told = all.in_text(folded);
    if told == 0 {
        return None;
    }
    let own = match names.of(0) {
        [] if facts.records.is_empty() => None,
        [one] => Some(one.record),
        _ => return None,
    };
    let mine = facts.leaves.iter().filter(|leaf| own.is_none_or(|own| facts.lies_in(leaf.record, own)));
    let states: Vec<(&NamedValue, String, Classes)> = mine
        .filter_map(|leaf| {
            let Scalar::Text(value) = &leaf.value else { return None };
            let figures = value.bytes().any(|byte| byte.is_ascii_digit());
            if figures || value.chars().count() > STATE_CHARS_MAX || OTHER_STATES.iter().any(|part| leaf.key.starts_with(part)) {
                return None;
            }
            let value = fold(value);
            if !states::is_state(&leaf.key) && value.split(' ').count() > STATE_WORDS_MAX {
                return None;
            }
            let classes = all.in_text(&value);
            (classes != 0).then_some((leaf, value, classes))
        })
        .collect();
    if states.is_empty() {
        return None;
    }
    // Whatever one of its values has a word of may be told of it, and what a member's name says holds: `insurance_active: true`.
    let known = || {
        let holds = facts.leaves.iter().any(|leaf| matches!(leaf.value, Scalar::Flag(true)));
        let named = if holds { all.in_text(source.folded()) } else { 0 };
        facts.leaves.iter().fold(named, |known, leaf| match &leaf.value {
            Scalar::Text(text) => known | all.in_text(&fold(text)),
            _ => known,
        })
    };
    all.with_bits().find_map(|(first, group)| {
        let of_group = ((1 << group.classes.len()) - 1) << first;
        if told & of_group == 0 {
            return None;
        }
        // The classes of the members that may be told of, and the first of these members.
        let (mut held, mut member) = (0, None);
        for (leaf, value, classes) in states.iter().filter(|(_, _, classes)| classes & of_group != 0) {
            let classes = classes & of_group;
            if classes.count_ones() != 1 || told & classes != 0 || stands_in(folded, value) {
                return None;
            }
            let named = !group.named || names_member(scene, &leaf.key);
            // `closed` of Mondays says nothing of other days.
            let of_day = DAY_KEYS.iter().any(|day| leaf.key.starts_with(day));
            if named && (!of_day || scene.plain.words.iter().any(|word| word.lower.starts_with(&leaf.key))) {
                held |= classes;
                member = member.or(Some((leaf, value)));
            }
        }
        let (leaf, value) = member?;
        // Of those that follow one another, an earlier one may be told of as it was. The first one is what isn't done yet.
        let (later, now) = if group.ordered { (later_than(held), 1 << first) } else { (!held, 0) };
        let known = known();
        let excluded = |is_so: bool| {
            let now = if is_so { now & !held } else { 0 };
            of_group & !known & if is_so || !group.copula { later | now } else { 0 }
        };
        let tells =
            |clause: String| all.in_text(&clause) & excluded(all.copulas.stand_in(&clause)) != 0 && !all.other_times.stand_in(&clause);
        let expected = format!("{}: {value}", leaf.key);
        states::clauses(scene).any(tells).then(|| sentence::whole(scene, "exclusive", Code::ClaimMismatch, &expected, Certainty::Likely))
    })
}

/// True if the passage has a word of a member's name.
fn names_member(scene: &CheckContext<'_>, name: &str) -> bool {
    scene.plain.words.iter().map(|word| key(&word.lower)).any(|word| word.len() >= MEMBER_BYTES_MIN && name.contains(&word))
}

/// The classes behind the last one of these.
fn later_than(classes: Classes) -> Classes {
    Classes::MAX.checked_shl(Classes::BITS - classes.leading_zeros()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        checks::account::account,
        context::CitationScope,
        evidence::{EvidenceIndex, ToolResult},
        language::lexicon::{language, words},
        passage::Kind,
        plain::AnalyzedPassage,
    };

    fn found(result: &str, text: &str) -> bool {
        let grounds = EvidenceIndex::new(vec![ToolResult::new("get_state", "{}", result)], Vec::new(), "".into());
        let plain = AnalyzedPassage::of(text);
        let lexicon = language(&words(text), None);
        let scene = CheckContext::new(&plain, Kind::Sentence, lexicon, grounds.results.iter().collect(), CitationScope::Cited, &grounds);
        account(&scene).into_iter().any(|finding| finding.rule == "exclusive")
    }

    #[test]
    fn states_of_a_group_exclude_each_other_in_any_language() {
        let order = r#"{"order":"A1","status":"shipped"}"#;
        let pollen = r#"{"graminacee":"alto","parietaria":"medio"}"#;
        for (result, text, wrong) in [
            (order, "Order A1 has been delivered.", true),
            (order, "Order A1 is pending.", true),
            (order, "Ihre Bestellung A1 ist zugestellt.", true),
            (order, "Votre commande A1 a été livrée.", true),
            (order, "Order A1 has shipped.", false),
            (order, "Ihre Bestellung A1 ist versandt.", false),
            (order, "Order A1 was pending before it shipped.", false),
            (order, "It will be delivered tomorrow.", false),
            (order, "It hasn't been delivered yet.", false),
            (pollen, "Oggi le graminacee sono a livello basso.", true),
            (pollen, "Oggi le graminacee sono a livello alto.", false),
            (r#"{"status":"貸出中"}"#, "はい、在架しています。", true),
            (r#"{"last_status":"shipped"}"#, "It has been delivered.", false),
            (r#"{"from":"open","to":"closed"}"#, "It is open.", false),
            (r#"{"front_door":"locked","back_door":"locked"}"#, "The front door is unlocked.", true),
            (r#"{"license":"inactive"}"#, "The license is active.", true),
            (r#"{"booking":"confirmed"}"#, "The booking is cancelled.", true),
            (r#"{"parcel":"undelivered"}"#, "The parcel is delivered.", true),
        ] {
            assert_eq!(found(result, text), wrong, "{text}");
        }
    }

    #[test]
    fn every_class_has_a_bit() {
        let all = Groups::get();
        assert!(all.groups.len() > 20 && all.groups.iter().all(|group| group.classes.len() > 1));
        assert!(all.groups.iter().map(|group| group.classes.len()).sum::<usize>() <= Classes::BITS as usize);
        assert_eq!((later_than(0b0100), later_than(0b0110), later_than(1 << 127)), (!0b0111, !0b0111, 0));
        assert_ne!(all.in_text("has been delivered"), all.in_text("has been shipped"));
    }
}
