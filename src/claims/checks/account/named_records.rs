//! Records that a passage names, and values told of one of them that another one has. Pure.

use std::{cell::OnceCell, collections::BTreeSet};

use crate::{
    checks::account::sentence::{LEAVES_OF, tells_nothing},
    context::{CheckContext, ClaimFinding},
    evidence::{
        ToolResult,
        facts::{NamedValue, ResultFacts, Scalar},
    },
    language::{
        date,
        fold::{fold, stands_in},
    },
    passage::Kind,
};
use toolmark_base::violation::{Certainty, Code};

/// Records that a passage names of which each is looked at.
const TOPS_MAX: usize = 6;
/// Letters of a name that tells records apart.
const NAME_CHARS: std::ops::RangeInclusive<usize> = 2..=60;

/// A record that a passage names, by a value that no other record of the result has.
pub(crate) struct NamedRecord {
    /// Its number.
    pub record: usize,
    pub(super) at: usize,
    pub(super) end: usize,
}

/// The records that a passage names, of each of its first results.
pub(crate) struct NamedRecords<'s> {
    scene: &'s CheckContext<'s>,
    folded: OnceCell<String>,
    of: [OnceCell<Vec<NamedRecord>>; SOURCES_OF],
}

/// Results of which the records are looked for that a passage names.
const SOURCES_OF: usize = 4;

impl<'s> NamedRecords<'s> {
    pub(super) fn new(scene: &'s CheckContext<'s>) -> Self {
        Self { scene, folded: OnceCell::new(), of: Default::default() }
    }

    /// The passage, folded, without the endings of genitives.
    pub(super) fn folded(&self) -> &str {
        let text = self.scene.text();
        if text.bytes().all(|byte| byte != b'\'' && byte.is_ascii()) {
            return self.scene.plain.folded();
        }
        self.folded.get_or_init(|| fold(&text.replace("'s ", " ").replace("’s ", " ")))
    }

    /// Those of the result at this place.
    pub(crate) fn of(&self, at: usize) -> &[NamedRecord] {
        let (Some(known), Some(source)) = (self.of.get(at), self.scene.sources.get(at)) else { return &[] };
        known.get_or_init(|| named(self.folded(), self.scene.text(), source.facts()))
    }
}

/// The records of a result that this text names.
pub(super) fn named(folded_text: &str, text: &str, facts: &ResultFacts) -> Vec<NamedRecord> {
    let mut found: Vec<NamedRecord> = Vec::new();
    if facts.leaves.len() > LEAVES_OF {
        return found;
    }
    for leaf in facts.leaves.iter().filter(|leaf| leaf.record > 0) {
        let Scalar::Text(name) = &leaf.value else { continue };
        let length = name.chars().count();
        if !NAME_CHARS.contains(&length)
            || name.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b':' | b'/' | b' '))
        {
            continue;
        }
        let folded = fold(name);
        if folded.len() < 2 || !stands_in(folded_text, &folded) {
            continue;
        }
        let alone = facts
            .leaves
            .iter()
            .all(|other| other.record == leaf.record || !matches!(&other.value, Scalar::Text(other) if stands_in(&fold(other), &folded)));
        let Some(at) = find_folded(text, name) else { continue };
        if alone && !found.iter().any(|known| known.record == leaf.record) {
            found.push(NamedRecord { record: leaf.record, at, end: at + name.len() });
        }
    }
    found
}

/// Position of a name in a text, ignoring case.
fn find_folded(text: &str, name: &str) -> Option<usize> {
    text.find(name).or_else(|| {
        let (text, name) = (text.to_lowercase(), name.to_lowercase());
        text.find(&name)
    })
}

/// A value told of one record that another record has: "Noah – 9" where Noah's is 6.
pub(super) fn bound(scene: &CheckContext<'_>, names: &NamedRecords<'_>) -> Option<ClaimFinding> {
    scene.sources.iter().take(SOURCES_OF).enumerate().find_map(|(at, source)| bound_in(scene, source, names.of(at)))
}

fn bound_in(scene: &CheckContext<'_>, source: &ToolResult, all: &[NamedRecord]) -> Option<ClaimFinding> {
    let facts = source.facts();
    if source.failed || facts.records.is_empty() || source.is_partial() {
        return None;
    }
    let tops: Vec<&NamedRecord> =
        all.iter().filter(|one| !all.iter().any(|other| other.record != one.record && facts.lies_in(other.record, one.record))).collect();
    if tops.len() > TOPS_MAX {
        return None;
    }
    // `a and b: 180 and 176`: which value is whose, only their order tells.
    let coordinated = |own: &NamedRecord| {
        tops.iter().any(|other| {
            let (from, to) = if own.at < other.at { (own.end, other.at) } else { (other.end, own.at) };
            let gap = scene.text().get(from..to).map(|gap| gap.trim_matches([' ', '*', '`', '"']));
            other.record != own.record
                && gap.is_some_and(|gap| {
                    matches!(
                        gap,
                        "and" | "," | "&" | "/" | "und" | "et" | "y" | "e" | "or" | "en" | "i" | "ve" | "-" | "–" | ", and" | "with"
                    )
                })
        })
    };
    tops.iter().filter(|own| !coordinated(own)).find_map(|own| {
        // Among several each value belongs to the one whose clause it stands in, where no other stands in that.
        let of_others = |span: &std::ops::Range<usize>| {
            // What stands behind another's name is told of that one.
            let before = |other: &&NamedRecord| other.record != own.record && other.end <= span.start && span.start < own.at;
            tops.len() > 1
                && (!shares_clause(scene.text(), own.at..own.end, span.clone())
                    || tops.iter().any(before)
                    || tops
                        .iter()
                        .any(|other| other.record != own.record && shares_clause(scene.text(), other.at..other.end, span.clone())))
        };
        of_record(scene, source, own, &of_others)
    })
}

/// A value told of this record that another one has. `of_others`: what stands there isn't told of it.
fn of_record(
    scene: &CheckContext<'_>,
    source: &ToolResult,
    own: &NamedRecord,
    of_others: &dyn Fn(&std::ops::Range<usize>) -> bool,
) -> Option<ClaimFinding> {
    let facts = source.facts();
    let negated = tells_nothing(scene);
    let leaves = || facts.leaves.iter().filter(|leaf| facts.lies_in(leaf.record, own.record));
    let outside = || {
        facts
            .leaves
            .iter()
            .filter(|leaf| leaf.record > 0 && !facts.lies_in(leaf.record, own.record) && !facts.lies_in(own.record, leaf.record))
    };
    // A word of a column that tells records apart: `pending` where its own is `open`.
    let words = scene.plain.words.iter().filter(|word| word.start >= own.end || word.end <= own.at);
    for word in words {
        let folded = fold(&word.lower);
        if folded.len() < 3
            || negated
            || of_others(&(word.start..word.end))
            || scene.kind == Kind::Sentence && !shares_clause(scene.text(), own.at..own.end, word.start..word.end)
        {
            continue;
        }
        let has = |leaf: &&NamedValue| matches!(&leaf.value, Scalar::Text(text) if fold(text) == folded);
        let Some(other) = outside().find(has) else { continue };
        let domain: BTreeSet<&str> = facts
            .of_key(&other.key)
            .filter_map(|leaf| match &leaf.value {
                Scalar::Text(text) => Some(text.as_str()),
                _ => None,
            })
            .collect();
        let few = domain.len() >= 2 && domain.iter().all(|value| value.len() <= 24);
        let mine = leaves().find(|leaf| leaf.key == other.key);
        let mine_says =
            leaves().any(|leaf| matches!(&leaf.value, Scalar::Text(text) if stands_in(&fold(text), &folded)) || leaf.key.contains(&folded));
        let said = stands_in(scene.grounds.asked.folded(), &folded) || stands_in(source.folded_arguments(), &folded);
        if let Some(mine) = mine.filter(|_| few && !mine_says && !said) {
            let shown = mine.value.shown();
            if !stands_in(scene.plain.folded(), &fold(&shown)) {
                return Some(ClaimFinding {
                    rule: "record_word",
                    code: Code::ClaimMismatch,
                    span: word.start..word.end,
                    found: scene.text().get(word.start..word.end).unwrap_or_default().to_owned(),
                    expected: shown,
                    certainty: Certainty::Likely,
                });
            }
        }
    }
    // A time of day that another record has.
    let times_of = |leaf: &NamedValue| match &leaf.value {
        Scalar::Text(text) if text.len() <= 40 => date::dates(text).times.iter().map(|time| time.minutes).collect(),
        _ => Vec::new(),
    };
    let mine: Vec<u32> = leaves().flat_map(times_of).collect();
    for time in scene.plain.dates().times.iter().filter(|_| !mine.is_empty()) {
        // Of several times each stands in the part of its own comma.
        let (from, to) = if own.at < time.span.start { (own.end, time.span.start) } else { (time.span.end, own.at) };
        let apart = scene.plain.dates().times.len() > 1 && scene.text().get(from..to).is_some_and(|gap| gap.contains(','));
        let near = !apart && shares_clause(scene.text(), own.at..own.end, time.span.clone()) && !of_others(&time.span);
        let theirs = || outside().any(|leaf| times_of(leaf).contains(&time.minutes));
        let said = || scene.grounds.said_dates().times.iter().any(|other| other.minutes == time.minutes);
        if near && !mine.contains(&time.minutes) && theirs() && !said() {
            return Some(ClaimFinding {
                rule: "record_time",
                code: Code::ClaimMismatch,
                span: time.span.clone(),
                found: scene.text().get(time.span.clone()).unwrap_or_default().to_owned(),
                expected: "the time of what it tells of".to_owned(),
                certainty: Certainty::Likely,
            });
        }
    }
    None
}

/// Do two places lie in one clause: no mark between them, and no word that begins another?
pub(super) fn shares_clause(text: &str, one: std::ops::Range<usize>, other: std::ops::Range<usize>) -> bool {
    let (from, to) = if one.start < other.start { (one.end, other.start) } else { (other.end, one.start) };
    let between = text.get(from.min(to)..to).unwrap_or_default();
    let lower = between.to_lowercase();
    let joins = [
        " and ",
        " but ",
        " while ",
        " whereas ",
        " than ",
        " then ",
        " und ",
        " aber ",
        " et ",
        " mais ",
        " y ",
        " pero ",
        " e ",
        " ma ",
        " up to ",
        " to ",
        " over ",
    ];
    !between.contains([';', '(', ')', '–', '—', '\n', '|', '['])
        && !joins.iter().any(|join| lower.contains(join))
        && between.matches(',').count() <= 1
}
