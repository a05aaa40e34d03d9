//! Extremes: a record said to have the most or the least of something, which it has in no column. Pure.

use std::collections::BTreeSet;

use crate::{
    checks::account::{
        counted::RANGE_BYTES_MAX,
        named_records::{NamedRecords, shares_clause},
        sentence::{LEAVES_OF, tells_nothing, whole},
    },
    context::{CheckContext, ClaimFinding},
    evidence::facts::{NamedValue, Scalar},
    language::{cues, date, word_list::PhraseList},
};
use toolmark_base::violation::{Certainty, Code};

/// A record said to have the most or the least of something, and it has so in no column, nor in what two columns make.
pub(super) fn extreme(scene: &CheckContext<'_>, names: &NamedRecords<'_>) -> Option<ClaimFinding> {
    let [source] = scene.sources.as_slice() else { return None };
    let facts = source.facts();
    let mut said = cues::extremes(scene.plain);
    let (Some(word), None) = (said.next(), said.next()) else { return None };
    if source.fails() || source.is_partial() || facts.leaves.len() > LEAVES_OF || tells_nothing(scene) {
        return None;
    }
    let [own] = names.of(0) else { return None };
    // `the longest of those`
    static AMONG: PhraseList = PhraseList::new(&[
        "of those",
        "of these",
        "of them",
        "of the two",
        "of the three",
        "among them",
        "among those",
        "davon",
        "von denen",
        "unter ihnen",
        "d entre",
        "parmi",
        "de ellos",
        "de ellas",
        "entre ellos",
        "di questi",
        "di queste",
        "tra questi",
        "deles",
        "delas",
        "entre eles",
        "daarvan",
        "hiervan",
        "z nich",
        "wsrod nich",
        "bunlarin",
        "bunlardan",
        "その中",
        "このうち",
        "其中",
        "इनमें",
    ]);
    if AMONG.stands_in(scene.plain.folded()) || !shares_clause(scene.text(), own.at..own.end, word.start..word.end) {
        return None;
    }
    let values = |record: usize| -> Vec<(&str, f64)> {
        let of = facts.leaves.iter().filter(|leaf| leaf.record == record);
        let number = |leaf: &NamedValue| match &leaf.value {
            Scalar::Text(text) => leaf.value.number().or_else(|| Some(date::dates(text).dates.first()?.days().next()? as f64)),
            _ => leaf.value.number(),
        };
        of.filter_map(|leaf| Some((leaf.key.as_str(), number(leaf)?))).take(6).collect()
    };
    let records: Vec<usize> =
        facts.leaves.iter().map(|leaf| leaf.record).filter(|record| *record > 0).collect::<BTreeSet<usize>>().into_iter().collect();
    // `64` beside `<5`: a range, by which another one may be the furthest.
    let ranged = |leaf: &NamedValue| {
        let Scalar::Text(text) = &leaf.value else { return false };
        leaf.record == own.record
            && text.len() <= RANGE_BYTES_MAX
            && text.bytes().any(|byte| byte.is_ascii_digit())
            && text.contains(['<', '>', '-', '–', '±'])
            && date::dates(text).dates.is_empty()
    };
    if facts.leaves.iter().any(ranged) {
        return None;
    }
    let mine = values(own.record);
    let others: Vec<Vec<(&str, f64)>> = records.iter().filter(|record| **record != own.record).map(|record| values(*record)).collect();
    let rivals = others.iter().filter(|other| other.iter().any(|(key, _)| mine.iter().any(|(own, _)| own == key))).count();
    if mine.is_empty() || rivals < 2 {
        return None;
    }
    let ends = |own: f64, others: Vec<f64>| others.iter().all(|other| *other <= own) || others.iter().all(|other| *other >= own);
    let single = mine
        .iter()
        .any(|(key, own)| ends(*own, others.iter().flatten().filter(|(other, _)| other == key).map(|(_, value)| *value).collect()));
    let ratio = || {
        mine.iter().enumerate().any(|(at, (one, first))| {
            mine.iter().skip(at + 1).any(|(two, second)| {
                let of = |values: &[(&str, f64)], key: &str| values.iter().find(|(own, _)| *own == key).map(|(_, value)| *value);
                let pairs = || others.iter().filter_map(|other| Some((of(other, one)?, of(other, two)?)));
                let made = |make: fn(f64, f64) -> f64| ends(make(*first, *second), pairs().map(|(one, two)| make(one, two)).collect());
                made(|one, two| one / two) || made(|one, two| one * two) || made(|one, two| one - two) || made(|one, two| one + two)
            })
        })
    };
    (!single && !ratio()).then(|| whole(scene, "extreme", Code::ClaimMismatch, "another one has the most or the least", Certainty::Likely))
}
