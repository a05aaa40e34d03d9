//! One table of violations and honest traffic, played in every form in which an exchange can be had.
//!
//! A row is written in neutral terms and can't choose its forms: the runner plays each in all of `FORMS`, and an outcome
//! of its own needs a reason, which is printed. A new `Code` doesn't compile until `coverage` names its rows, and the
//! tests fail unless each of those rows finds it in all forms, or where `coverage` says that it isn't built and a row
//! finds it all the same. So a check that is wired into one API, or into whole answers only, fails in the other forms.

mod answers;
mod calls;
mod chat;
mod claims;
mod codes;
mod corrections;
mod exchange;
mod form;
mod honest;
mod legal;
mod loops;
mod messages;
mod random;
mod requests;
mod responses;
mod stage;
mod texts;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use toolmark::{policy::PolicyMode, violation::Code};

use self::{
    codes::{Coverage, coverage},
    exchange::{Case, Expected, Got, Turn, Which},
    form::{FORMS, Form, Seen},
    stage::{Stage, world},
};
use crate::{harness::Answer, wire::on_threads};

/// How the upstream's streams are cut, besides not at all.
const SEEDS: [u64; 2] = [7, 20_261_122];

/// Calls and results that lack each other go upstream as they came.
const UNPAIRED: [Code; 4] = [Code::UnansweredCall, Code::OrphanResult, Code::DuplicateResult, Code::MisorderedResult];

/// Of one answer of the upstream's.
const TOKENS: u64 = 12;

fn table() -> Vec<Case> {
    [
        answers::cases(),
        calls::cases(),
        corrections::cases(),
        loops::cases(),
        requests::cases(),
        texts::cases(),
        claims::cases(),
        honest::cases(),
    ]
    .concat()
}

/// Plays the table in these forms; what is wrong.
fn play(forms: &[&Form], seeds: &[Option<u64>]) -> Vec<String> {
    play_on(Stage::new, forms, seeds)
}

/// Plays the table on such stages.
fn play_on(stage: fn(&str) -> Stage, forms: &[&Form], seeds: &[Option<u64>]) -> Vec<String> {
    let cases = table();
    let policies: BTreeSet<&str> = cases.iter().map(|case| case.policy).collect();
    let stages: BTreeMap<&str, Stage> = policies.into_iter().map(|policy| (policy, stage(policy))).collect();
    let wrong = on_threads(&cases, |_, case| {
        let mut wrong = Vec::new();
        let said = forms.iter().filter(|form| form.says(case));
        for (form, seed) in said.flat_map(|form| seeds.iter().map(move |seed| (form, seed))) {
            let (answer, received) = stages[case.policy].play(case, form, *seed);
            if let Err(why) = check(case, form, &answer, &received) {
                wrong.push(format!("{} as {}, cut by {seed:?}: {why}\n{}\n", case.name, form.name, answer.body));
            }
        }
        wrong
    });
    wrong.into_iter().flatten().collect()
}

fn check(case: &Case, form: &Form, answer: &Answer, received: &[Value]) -> Result<(), String> {
    let Expected { codes, verdict, repairs, got } = case.expected(form);
    if let Some(word) = case.never.iter().find(|word| answer.body.contains(**word)) {
        return Err(format!("`{word}` left"));
    }
    for (attempt, body) in received.iter().enumerate().filter(|_| !codes.iter().any(|code| UNPAIRED.contains(code))) {
        form.upstream.legal(body).map_err(|why| format!("attempt {attempt} isn't legal: {why}: {body}"))?;
    }
    let seen = form.read(answer, case.mode())?;
    let codes: BTreeSet<String> = codes.iter().map(|code| code.as_str().to_owned()).collect();
    if (&seen.codes, &*seen.verdict, seen.repairs) != (&codes, verdict, repairs) {
        return Err(format!("{:?} {} {} instead of {codes:?} {verdict} {repairs}", seen.codes, seen.verdict, seen.repairs));
    }
    marked(case, &seen)?;
    let answered = received.iter().zip(0..).filter(|(_, at)| matches!(case.turn_at(*at), Turn::Says(..))).count() as u64;
    let last = received.len().checked_sub(1).map(|at| case.turn_at(at));
    if matches!((&seen.got, last), (Got::Said(..), Some(Turn::Says(..)))) && seen.tokens != answered * TOKENS {
        return Err(format!("{} tokens of {answered} answers", seen.tokens));
    }
    let same = match (&got, &seen.got) {
        // Where JSON is asked for, words are a refusal, so that nobody parses them.
        (Some(Got::Words(before, words)), Got::Said(text, refusal, calls)) => {
            let said =
                if case.request.json { [text == before, refusal.contains(words)] } else { [text.contains(words), refusal.is_empty()] };
            said == [true; 2] && text.starts_with(before) && calls.is_empty()
        }
        (Some(expected), seen) if form.is(Which::MessagesApi) => expected.parsed() == seen.parsed(),
        (Some(expected), seen) => expected == seen,
        (None, _) => false,
    };
    if same { Ok(()) } else { Err(format!("{:?} instead of {got:?}", seen.got)) }
}

/// Calls that leave carry marks of their own, which are theirs when they come back.
fn marked(case: &Case, seen: &Seen) -> Result<(), String> {
    let ids: BTreeSet<&str> = seen.calls.iter().map(|call| &*call.id).collect();
    let foreign = seen.calls.iter().find(|call| !world().knows(&call.id, &call.tool, &call.marked));
    match foreign.filter(|_| case.mode() == PolicyMode::Enforce) {
        Some(call) => Err(format!("{call:?} isn't marked")),
        None if ids.len() < seen.calls.len() && case.mode() == PolicyMode::Enforce => Err(format!("one id for two of {:?}", seen.calls)),
        None => Ok(()),
    }
}

#[test]
fn every_form_finds_the_same() {
    let wrong = play(&FORMS.iter().collect::<Vec<_>>(), &[None]);
    let cases = table();
    eprintln!("{} cases in {} forms", cases.len(), FORMS.len());
    for (case, form) in cases.iter().flat_map(|case| FORMS.iter().map(move |form| (case, form))) {
        if let Err(why) = form.downstream.says(case) {
            eprintln!("{} isn't played as {}: it can't say {why}", case.name, form.name);
        }
    }
    for (case, (which, why, _)) in cases.iter().flat_map(|case| case.differs.iter().map(move |differs| (case, differs))) {
        eprintln!("{} ends otherwise in {which:?}: {why}", case.name);
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_form_finds_the_same_at_two_replicas_in_turns() {
    let wrong = play_on(Stage::in_turns, &FORMS.iter().collect::<Vec<_>>(), &[None]);
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn streams_are_judged_alike_wherever_they_are_cut() {
    let streams: Vec<&Form> = FORMS.iter().filter(|form| form.is(Which::Streams)).collect();
    let wrong = play(&streams, &SEEDS.map(Some));
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_code_is_found_in_every_form() {
    let cases = table();
    let names: BTreeSet<&str> = cases.iter().map(|case| case.name).collect();
    assert_eq!(names.len(), cases.len(), "two rows of one name");
    let row = |name: &str| cases.iter().find(|case| case.name == name).unwrap_or_else(|| panic!("no row {name}"));
    let finds = |case: &Case, form: &Form, code: Code| case.expected(form).codes.contains(&code);
    for code in Code::ALL.iter().copied() {
        match coverage(code) {
            Coverage::Built(rows) => {
                for form in &FORMS {
                    assert!(rows.iter().any(|name| form.says(row(name))), "{code} is built and has no row as {}", form.name);
                }
                for (name, form) in
                    rows.iter().flat_map(|name| FORMS.iter().map(move |form| (name, form))).filter(|(name, form)| form.says(row(name)))
                {
                    assert!(finds(row(name), form, code), "{name} doesn't find {code} as {}", form.name);
                }
            }
            Coverage::NotBuilt(why) | Coverage::Elsewhere(why) => {
                eprintln!("{code}: not in this table: {why}");
                let found = cases.iter().find(|case| FORMS.iter().any(|form| finds(case, form, code)));
                assert!(found.is_none(), "{code} is found: it belongs into this table");
            }
            Coverage::ChatOnly(name, why) => {
                eprintln!("{code}: chat only: {why}");
                let apart = FORMS.iter().all(|form| finds(row(name), form, code) != form.is(Which::ResponsesApi));
                assert!(apart, "{name} finds {code} in other forms");
            }
        }
    }
}

#[test]
fn the_same_is_found_even_where_it_ends_otherwise() {
    const UNSAID: [&str; 2] = [requests::OBSERVED, requests::FREE_ORDER];
    let [first, ..] = &FORMS;
    for case in table() {
        let codes = case.expected(first).codes;
        for (which, why, expected) in &case.differs {
            assert!(!first.is(*which) && (expected.codes == codes || UNSAID.contains(why)), "{} in {which:?}: {why}", case.name);
        }
    }
}

#[test]
fn honest_rows_pass() {
    for case in honest::cases() {
        for form in &FORMS {
            assert_eq!(case.expected(form).verdict, "pass", "{}", case.name);
        }
        assert!(case.differs.is_empty(), "{} is honest and differs", case.name);
    }
}
