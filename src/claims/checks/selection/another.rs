//! A value told of a record that another one has: "MB-207 is driven by Neža", of which `driver` is Bojan. Pure.

use crate::{
    checks::{
        account::{sentence, weekdays},
        selection::{QUESTION_WORDS_MAX, RecordValue, Records, clauses, data, denies, folded_words, is_nothing_said, only_result},
        states,
    },
    context::{CheckContext, ClaimFinding},
    language::{
        date,
        fold::{akin, fold, stands_in, words_of},
        lexicon::Word,
        number::Number,
        word_list::WordList,
    },
    passage::Kind,
};
use toolmark_base::violation::{Certainty, Code};

/// Letters of a text by which a record is told from others, of a word of such a text, and of a text that is told of a record.
const NAME_CHARS_MIN: usize = 2;
const WORD_CHARS_MIN: usize = 4;
const VALUE_CHARS_MIN: usize = 3;
/// Words of a value that is told.
const VALUE_WORDS_MAX: usize = 4;

/// Letters of the short name of an English day of the week.
const DAY_CHARS: usize = 3;

/// The finding of a clause that names one record and tells of it what only others have.
pub(crate) fn another(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
    let source = only_result(scene).filter(|_| scene.kind == Kind::Sentence && !scene.text().contains('|'))?;
    // `The bill is €126.40, so €31.60 each`: a figure of all.
    static EACH: WordList = WordList::new(&[
        "each", "apiece", "testa", "ciascuno", "ciascuna", "chacun", "chacune", "personne", "jeder", "jede", "person", "cabeza", "cada",
        "pessoa",
    ]);
    if scene.plain.words.iter().any(|word| EACH.has(&word.lower)) {
        return None;
    }
    let records = Records::of(source)?;
    if records.total() < 2 || records.are_lines() {
        return None;
    }
    let sentence = scene.plain.folded();
    // `Something quick with leeks, please` names none of them.
    let questions = scene.grounds.asked.contains('?')
        || !scene.grounds.asked.words().iter().any(|word| matches!(&*word.lower, "something" | "please" | "some" | "any"));
    if let Some(finding) = swapped(scene, &records, sentence).or_else(|| asked_of_another(scene, &records)) {
        return Some(finding);
    }
    clauses(scene).into_iter().flat_map(|clause| split_behind_bracket(scene, clause)).find_map(|clause| {
        // `three are resolved and LANTERN-902 was closed`: of others, too.
        let counts = |word: &Word| scene.lexicon.count(&word.lower).is_some_and(|count| count > 1);
        if clause.iter().any(|word| denies(word) || is_nothing_said(word) || sets_apart(word) || counts(word)) {
            return None;
        }
        let folded = folded_words(clause).join(" ");
        // A clause that names several tells of each, in whichever order.
        if by_columns(&records, &folded).iter().any(|(_, named)| named.len() > 1) {
            return None;
        }
        let asked = || {
            named_alone(&records, scene.grounds.asked.folded())
                .filter(|_| scene.told.is_empty() && questions && names_none(&records, sentence))
        };
        // `Unidos has the best attack, but the leader lets in less: only 18`: told of another by then.
        let plain = || !scene.plain.words.iter().any(|word| denies(word) || is_nothing_said(word) || sets_apart(word));
        let before = || named_alone(&records, &up_to(scene, clause)).filter(|_| plain());
        let (key, record) = named(&records, &folded).or_else(before).or_else(asked)?;
        if states::is_unsure(&told_part(&folded), clause) {
            return None;
        }
        let told = text_of_another(&records, key, record, &folded, sentence, scene)
            .or_else(|| figure_of_another(&records, key, record, clause, scene))?;
        let expected = format!("{}: {}", told.key, told.shown());
        Some(sentence::whole(scene, "another", Code::ClaimMismatch, &expected, Certainty::Likely))
    })
}

/// A clause in parts, where a bracket ends before it: in `E3 (powder) has a low pressure and E4 (CO2) is out of date` the pressure is E3's.
fn split_behind_bracket<'w>(scene: &CheckContext<'_>, clause: &'w [Word]) -> Vec<&'w [Word]> {
    let joins = |word: &Word| matches!(word.lower.as_str(), "and" | "und" | "et" | "y" | "e");
    let before = clause.first().and_then(|first| scene.text().get(..first.start)).unwrap_or_default();
    if before.trim_end().ends_with(')') { clause.split(joins).filter(|part| !part.is_empty()).collect() } else { vec![clause] }
}

/// True of a word that sets records apart, or compares them.
fn sets_apart(word: &Word) -> bool {
    const OF_TIME: [&str; 3] = ["already", "still", "yet"];
    let folded = fold(&word.lower);
    data().limits.contains(&folded) && !OF_TIME.contains(&folded.as_str())
}

/// `Packing comes to 740 and transport to 215`, the other way round in the result: two names, each with the other one's number.
fn swapped(scene: &CheckContext<'_>, records: &Records<'_>, sentence: &str) -> Option<ClaimFinding> {
    // `mx2` is a name.
    let in_word = |number: &Number| {
        scene.text().get(..number.span.start).is_some_and(|before| before.ends_with(|c: char| c.is_alphanumeric() || c == '-'))
    };
    let free = |number: &&Number| !number.ordinal && !in_word(number) && !scene.plain.is_taken(&(number.span.start..number.end));
    let [one, other] = scene.plain.numbers().iter().filter(free).collect::<Vec<&Number>>()[..] else { return None };
    if scene.plain.words.iter().any(|word| denies(word) || is_nothing_said(word)) {
        return None;
    }
    let before = fold(scene.text().get(..one.span.start)?);
    let between = fold(scene.text().get(one.end..other.span.start)?);
    let is = |record: &[RecordValue<'_>], number: &Number| {
        record
            .iter()
            .find(|value| value.number.is_some_and(|own| number.readings().any(|told| told.rounds(own))))
            .map(|value| value.key.to_owned())
    };
    let single = |text: &str| {
        let named = by_columns(records, text).into_iter().find(|(_, named)| named.len() == 1)?;
        named.1.first().copied()
    };
    let both = by_columns(records, sentence).iter().all(|(_, named)| named.len() <= 2);
    let (first, second) = (single(&before)?, single(&between)?);
    let key = is(first, other)?;
    let wrong = both
        && !std::ptr::eq(first, second)
        && is(second, one).as_deref() == Some(key.as_str())
        && is(first, one).is_none()
        && is(second, other).is_none();
    let own = first.iter().find(|value| value.key == key)?;
    wrong.then(|| sentence::whole(scene, "another", Code::ClaimMismatch, &format!("{}: {}", own.key, own.shown()), Certainty::Likely))
}

/// `Who has the parking lesson?` answered with one whose lesson is another.
fn asked_of_another(scene: &CheckContext<'_>, records: &Records<'_>) -> Option<ClaimFinding> {
    const FIRST: [&str; 14] =
        ["who", "who's", "which", "whose", "wer", "welche", "welcher", "welches", "qui", "quién", "quien", "cuál", "chi", "wie"];
    let question = scene.grounds.asked.words();
    let asks = question.first().is_some_and(|first| FIRST.contains(&first.lower.as_str()));
    if !asks
        || !scene.told.is_empty()
        || question.len() > QUESTION_WORDS_MAX
        || question.iter().any(|word| denies(word) || sets_apart(word))
    {
        return None;
    }
    let clauses = clauses(scene);
    let first = clauses.first()?;
    if first.iter().any(|word| denies(word) || is_nothing_said(word) || sets_apart(word))
        || states::is_unsure(&folded_words(first).join(" "), first)
    {
        return None;
    }
    let asked = scene.grounds.asked.folded();
    // Two things may be asked for.
    if question.iter().any(|word| matches!(word.lower.as_str(), "and" | "or" | "und" | "oder" | "et" | "y" | "e")) {
        return None;
    }
    if let [(column, wanted)] = &by_columns(records, asked).into_iter().filter(|(_, named)| !named.is_empty()).collect::<Vec<_>>()[..]
        && let [wanted] = wanted[..]
    {
        let own = by_columns(records, &folded_words(first).join(" "));
        let mut told = own.iter().filter(|(key, named)| key != column && !named.is_empty());
        let ((_, named), None) = (told.next()?, told.next()) else { return None };
        let [record] = named[..] else { return None };
        let value = wanted.iter().find(|value| value.key == *column)?;
        let own = record.iter().find(|own| own.key == *column && !own.text.is_empty())?;
        let wrong = !std::ptr::eq(record, wanted) && !stands_in(&own.text, &value.text);
        return wrong
            .then(|| sentence::whole(scene, "another", Code::ClaimMismatch, &format!("{}: {}", own.key, own.shown()), Certainty::Likely));
    }
    if !names_none(records, asked) {
        return None;
    }
    let all = by_columns(records, scene.plain.folded());
    let (key, record) = all.iter().find(|(_, named)| named.len() == 1).and_then(|(key, named)| Some((*key, *named.first()?)))?;
    if all.iter().any(|(_, named)| named.iter().any(|other| !std::ptr::eq(*other, record))) {
        return None;
    }
    let said = |value: &&RecordValue<'_>| {
        value.key != key
            && value.text.chars().count() >= WORD_CHARS_MIN
            && value.text.chars().all(|c| c.is_alphabetic() || c == ' ')
            && stands_in(asked, &value.text)
    };
    let values = records.all().iter().flatten();
    let asked_for: Vec<&RecordValue<'_>> = values.filter(said).collect();
    let [value, ..] = asked_for[..] else { return None };
    if asked_for.iter().any(|other| other.text != value.text) || record.iter().any(|own| stands_in(&own.text, &value.text)) {
        return None;
    }
    let own = record.iter().find(|own| own.key == value.key && !own.text.is_empty())?;
    Some(sentence::whole(scene, "another", Code::ClaimMismatch, &format!("{}: {}", own.key, own.shown()), Certainty::Likely))
}

/// True of a text that names no record by any column.
fn names_none(records: &Records<'_>, folded: &str) -> bool {
    by_columns(records, folded).iter().all(|(_, named)| named.is_empty())
}

/// A clause up to what it adds: `is ready and can be picked up` tells that it is ready.
fn told_part(folded: &str) -> String {
    [" and can ", " and could ", " und kann "].iter().fold(folded, |folded, part| folded.split(part).next().unwrap_or(folded)).to_owned()
}

/// The only record that the clause names by a column whose values are all different, and that column.
fn named<'r, 's>(records: &'r Records<'s>, folded: &str) -> Option<(&'s str, &'r [RecordValue<'s>])> {
    by_columns(records, folded).into_iter().find_map(|(key, named)| Some((key, *named.first()?)))
}

/// The sentence up to the end of a clause, folded.
fn up_to(scene: &CheckContext<'_>, clause: &[Word]) -> String {
    let end = clause.last().map_or(0, |last| last.end);
    fold(scene.text().get(..end).unwrap_or_default())
}

/// The record that a text names, and no other by any column.
pub fn named_alone<'r, 's>(records: &'r Records<'s>, folded: &str) -> Option<(&'s str, &'r [RecordValue<'s>])> {
    let named = by_columns(records, folded);
    let mut all = named.iter().flat_map(|(key, named)| named.iter().map(move |record| (*key, *record)));
    let first = all.next()?;
    all.all(|(_, record)| std::ptr::eq(record, first.1)).then_some(first)
}

/// The records that a text names, by each column whose values are all different.
pub fn by_columns<'r, 's>(records: &'r Records<'s>, folded: &str) -> Vec<(&'s str, Vec<&'r [RecordValue<'s>]>)> {
    let all = records.all();
    let Some(first) = all.first() else { return Vec::new() };
    // `Thursday` names the record of `Thu`.
    let with_days;
    let folded = if folded.contains("day") {
        let days = words_of(folded).filter(|word| word.ends_with("day") && weekdays::weekday_named(word).is_some());
        with_days = days.filter_map(|day| day.get(..DAY_CHARS)).fold(folded.to_owned(), |text, day| text + " " + day);
        &*with_days
    } else {
        folded
    };
    // What no two records share names them best.
    let is_own = |value: &&RecordValue<'s>| {
        let mut column = all.iter().filter_map(|record| record.iter().find(|other| other.key == value.key));
        let mut seen: Vec<&str> = Vec::new();
        value.number.is_none()
            && !value.text.is_empty()
            && column.all(|other| {
                let new = other.number.is_none() && other.text.chars().count() >= NAME_CHARS_MIN && !seen.contains(&other.text.as_str());
                seen.push(&other.text);
                new
            })
    };
    let named_by_own = first.iter().any(|value| is_own(&value) && value.raw.chars().any(|c| c.is_uppercase() || c.is_alphabetic()));
    let of_column = |value: &RecordValue<'s>| {
        let key = value.key;
        let column: Vec<&RecordValue<'s>> = all.iter().filter_map(|record| record.iter().find(|value| value.key == key)).collect();
        let texts =
            column.iter().all(|value| value.number.is_none() && (value.text.is_empty() || value.text.chars().count() >= NAME_CHARS_MIN));
        let repeated =
            |value: &&&RecordValue<'s>| column.iter().filter(|other| other.text == value.text && !value.text.is_empty()).count() > 1;
        let doubles = column.iter().filter(repeated).count();
        // `Mango Season`, twice among films: what most values are names of.
        let is_name = |value: &&RecordValue<'s>| value.raw.chars().any(|c| c.is_uppercase() || c.is_ascii_digit());
        let names = doubles == 0 || !named_by_own && doubles * 2 <= column.len() && column.iter().all(is_name);
        if column.len() != all.len() || !texts || !names {
            return None;
        }
        // By all of it, or by a word of it that no other has.
        let is_own = |text: &str, word: &str| stands_in(text, word) && !data().plain.contains(word);
        let of_word = |value: &RecordValue<'s>| {
            words_of(&value.text).any(|word| {
                word.chars().count() >= WORD_CHARS_MIN
                    && is_own(folded, word)
                    && column.iter().filter(|other| stands_in(&other.text, word)).count() == 1
            })
        };
        let named = |record: &&Vec<RecordValue<'s>>| {
            record.iter().any(|value| value.key == key && !value.text.is_empty() && (stands_in(folded, &value.text) || of_word(value)))
        };
        let own: Vec<&'r [RecordValue<'s>]> = all.iter().filter(named).map(|record| &record[..]).collect();
        Some((key, own))
    };
    first.iter().filter_map(of_column).collect()
}

/// A text of another record that the clause tells, where the named one has another text of that name.
fn text_of_another<'r, 's>(
    records: &'r Records<'s>,
    named_by: &str,
    record: &'r [RecordValue<'s>],
    folded: &str,
    sentence: &str,
    scene: &CheckContext<'_>,
) -> Option<&'r RecordValue<'s>> {
    record.iter().filter(|own| own.key != named_by && !own.text.is_empty() && own.number.is_none()).find(|own| {
        if stands_in(sentence, &own.text) {
            return false;
        }
        // A list has several of one name.
        let single = record.iter().filter(|value| value.key == own.key).count() == 1;
        let others = records.all().iter().flatten().filter(|other| single && other.key == own.key && other.text != own.text);
        others.into_iter().any(|other| {
            other.text.chars().count() >= VALUE_CHARS_MIN
                && other.text.chars().any(char::is_alphabetic)
                && other.text.split(' ').count() <= VALUE_WORDS_MAX
                && (stands_in(folded, &other.text) || has_all_words(folded, &other.text, own))
                && !record.iter().any(|value| {
                    value.key == other.text
                        || stands_in(&value.text, &other.text)
                        || stands_in(&other.text, &value.text) && !value.text.is_empty()
                })
                && !scene.grounds.has_said(&other.text)
        })
    })
}

/// Has a clause all words of another record's value, of two at least, and not those of its own: `from Sterling in Colorado`?
fn has_all_words(folded: &str, other: &str, own: &RecordValue<'_>) -> bool {
    let long =
        |text: &'_ str| words_of(text).filter(|word| word.chars().count() >= WORD_CHARS_MIN).map(str::to_owned).collect::<Vec<String>>();
    let (others, mine) = (long(other), long(&own.text));
    others.len() >= 2 && others.iter().all(|word| stands_in(folded, word)) && !mine.iter().any(|word| stands_in(folded, word))
}

/// A number or a date of another record that the clause tells, where the named one has another one of that name.
fn figure_of_another<'r, 's>(
    records: &'r Records<'s>,
    named_by: &str,
    record: &'r [RecordValue<'s>],
    clause: &[Word],
    scene: &CheckContext<'_>,
) -> Option<&'r RecordValue<'s>> {
    let (start, end) = (clause.first()?.start, clause.last()?.end);
    let inside = |at: usize| at >= start && at < end;
    for told in scene.plain.dates().dates.iter().filter(|date| inside(date.span.start)) {
        let is = |value: &RecordValue<'_>| date::dates(value.raw).dates.iter().any(|own| own.agrees(told));
        if record.iter().any(is) || scene.grounds.said_dates().dates.iter().any(|said| said.is(told)) {
            continue;
        }
        let mut keys: Vec<&str> = records.all().iter().flatten().filter(|value| is(value)).map(|value| value.key).collect();
        keys.dedup();
        let [key] = keys[..] else { continue };
        let own = record.iter().find(|value| value.key == key && !key.is_empty());
        let own_told = |value: &RecordValue<'_>| {
            let own = date::dates(value.raw).dates;
            own.is_empty() || scene.plain.dates().dates.iter().any(|date| own.iter().any(|own| own.agrees(date)))
        };
        if let Some(own) = own.filter(|own| key != named_by && !own_told(own)) {
            return Some(own);
        }
    }
    for told in
        scene.plain.numbers().iter().filter(|number| inside(number.span.start) && !scene.plain.is_taken(&(number.span.start..number.end)))
    {
        // `33 min` isn't a price of 32.50.
        let timed = told.unit.is_some_and(|unit| unit.dimension == "time");
        let is = |value: &RecordValue<'_>| {
            value.number.is_some_and(|own| told.readings().any(|reading| if timed { reading.value == own } else { reading.rounds(own) }))
        };
        // `34:02`: a part of a length of time.
        let (before, behind) = (scene.text().get(..told.span.start), scene.text().get(told.span.end..));
        let of_length = before.is_some_and(|before| before.ends_with(':'))
            || behind.and_then(|behind| behind.strip_prefix(':')).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        if of_length {
            continue;
        }
        let small = told.readings().all(|reading| reading.value <= 12.0 && reading.value.fract() == 0.0);
        // `hall 2`, `7 guests`: beside the name of its column.
        let beside = |key: &str| {
            let near = [scene.words_before(told.span.start).last(), scene.words_after(told.end).first()];
            near.into_iter().flatten().any(|word| {
                let own = word.folded();
                own.chars().count() >= VALUE_CHARS_MIN && (own == key || akin(&own, key))
            })
        };
        let of_column = || records.all().iter().flatten().any(|value| value.number.is_some() && beside(value.key));
        if small && !of_column()
            || told.ordinal
            || record.iter().any(is)
            || told.readings().any(|reading| scene.grounds.said_numbers_have(reading.value))
        {
            continue;
        }
        let mut keys: Vec<&str> = records.all().iter().flatten().filter(|value| is(value)).map(|value| value.key).collect();
        keys.sort_unstable();
        keys.dedup();
        let mut named = keys.iter().filter(|key| beside(key));
        let key = match (keys.as_slice(), named.next(), named.next()) {
            (_, Some(key), None) => *key,
            ([key], ..) if !small => *key,
            _ => continue,
        };
        let own_told = |value: &RecordValue<'_>| {
            value.number.is_none_or(|own| scene.plain.numbers().iter().any(|number| number.readings().any(|reading| reading.rounds(own))))
        };
        let own = record.iter().find(|value| value.key == key);
        if let Some(own) = own.filter(|own| key != named_by && !own_told(own)) {
            return Some(own);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{super::super::cited::find, *};

    #[test]
    fn values_of_other_records() {
        let vans = r#"{"vans":[{"plate":"MB-201","driver":"Zala Kos","fuel":62,"size":"half"},{"plate":"MB-207","driver":"Bojan Rus","fuel":18,"size":"full"},{"plate":"MB-214","driver":"Ana Brod","fuel":44,"size":"half"}]}"#;
        let wrong = |text: &str| find(another, "And the vans?", &[("list_vans", "{}", vans)], 0, text).is_some();
        for text in [
            "MB-207 has a load of half.",
            "Ana Brod has a full one.",
            "MB-201 is at 44 percent fuel.",
            "S. Rus, or Bojan Rus, asks for half a load.",
        ] {
            assert!(wrong(text), "{text}");
        }
        for text in [
            "MB-207 has a full load.",
            "MB-207 isn't half full.",
            "MB-201 and MB-207 are half and full.",
            "MB-207 is full, unlike the others, which are half full.",
            "MB-201 is at 62 percent fuel.",
            "MB-201 may be full later.",
            "MB-214 (Ana Brod) has half a load and MB-207 (Bojan Rus) more.",
            "All of them are half full.",
        ] {
            assert!(!wrong(text), "{text}");
        }
    }

    #[test]
    fn who_is_asked_for_and_numbers_the_other_way_round() {
        let lessons = r#"[{"pupil":"Tarek Aziz","type":"city","minutes":90},{"pupil":"June Park","type":"parking","minutes":45}]"#;
        let wrong = |asked: &str, text: &str| find(another, asked, &[("list_lessons", "{}", lessons)], 0, text).is_some();
        for (asked, text) in [
            ("Who has the parking lesson?", "Tarek Aziz has it."),
            ("How long are they?", "Tarek Aziz has 45 minutes and June Park has 90."),
        ] {
            assert!(wrong(asked, text), "{text}");
        }
        for (asked, text) in [
            ("Who has the parking lesson?", "June Park has it."),
            ("Who has the parking lesson and who comes before?", "Tarek Aziz comes before."),
            ("How long are they?", "Tarek Aziz has 90 minutes and June Park has 45."),
        ] {
            assert!(!wrong(asked, text), "{text}");
        }
    }
}
