//! Exchanges put together at random: nobody says what must be found, but all forms must find the same.

use std::collections::BTreeMap;

use toolmark::violation::Verdict;

use super::{
    exchange::{
        Arguments, Case, Choice, EXHAUSTED, Ending, Got, Id, SAFE, Said, Step, Turn, Which, after, call_as, case, custom, text, with_result,
    },
    form::{FORMS, Form, Seen},
    stage::{Stage, execution},
};
use crate::wire::on_threads;

const CASES: u64 = 200;
const FORGED: &str = "run_speed_test_1700000000000_deadbeefdeadbeef";
/// Every form judges the same answers: without repairs, or where no stream lets go of anything before the end.
const POLICIES: [&str; 5] = [
    "[calls]\nmax_repairs = 0\n",
    "[calls]\nmax_repairs = 0\nmax_per_turn = 2\ncorrections = []\n[results]\nwindow = \"1h\"\n[citations]\nrequire = true\nshow = true\n",
    "[calls]\nmax_repairs = 0\n[[claims]]\nname = \"fast\"\npattern = '(?i)it is fast'\nrequires = [\"check_net\"]\n[checks]\nplaceholder_value = \"block\"\nexecution_elsewhere = \"block\"\nempty_answer = \"block\"\n",
    "[stream]\nhold = \"all\"\n",
    "[stream]\nhold = \"all\"\n[calls]\nmax_repairs = 1\nmax_per_turn = 2\non_exhausted = \"error\"\n[citations]\nrequire = true\n[checks]\nempty_answer = \"block\"\nunknown_parameter = \"block\"\n",
];

/// A xorshift generator.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % sides
    }
}

fn said(dice: &mut Dice) -> Said {
    let [here, elsewhere] = [1, 7].map(|number| execution("run_speed_test", number));
    let id = ["call_u1", "call_u2", "call_u3", ""][dice.roll(4)];
    // Each text ends where a word ends: what one text of chat joins, two messages of a response don't.
    let texts = [
        "Good morning. ".to_owned(),
        "It is fast. ".into(),
        format!("It is 90 (execution_id: {here}). "),
        format!("It is 90 (execution_id: {elsewhere}). "),
        format!("See {FORGED} for more. "),
        "{\"tool\": \"run_speed_test\", \"result\": 90} ".into(),
        format!("{{\"tool_name\": \"check_net\", \"execution_id\": \"{here}\", \"up\": true}} "),
        "Commit 9fceb02d0ae598e95dc970b74767f19372d61af8, naïve 東京 😀. ".into(),
        "The line was measured in the afternoon. ".repeat(30),
        " ".into(),
    ];
    let calls = [
        ("run_speed_test", r#"{"server":"a"}"#),
        ("run_speed_test", r#"{"server":"TODO"}"#),
        ("run_speed_test", r#"{"server":7,"mood":"b"}"#),
        ("run_speed_test", r#"{"server":"a""#),
        ("check_net", "{}"),
        ("check_net", r#"{"host":null,"tries":1.0}"#),
        ("check_net", r#"{"tries":0}"#),
        ("check_net", ""),
        ("delete_all", r#"{"a":1}"#),
        ("run_speed_test", r#"{"server":"run_speed_test_1700000000000_deadbeefdeadbeef"}"#),
    ];
    match dice.roll(12) {
        0..6 => text(texts[dice.roll(texts.len())].clone()),
        6 => Said::Refusal(texts[dice.roll(texts.len())].clone()),
        7 => custom(id, ["sql", "run_speed_test"][dice.roll(2)], &texts[dice.roll(texts.len())]),
        8 => Said::Call { id, tool: "check_net".into(), arguments: Arguments::Null, custom: false },
        _ => {
            let (tool, arguments) = calls[dice.roll(calls.len())];
            call_as(id, tool, arguments)
        }
    }
}

fn history(dice: &mut Dice) -> Vec<Step> {
    let user = || vec![Step::User("go".into())];
    match dice.roll(8) {
        0 => after(1, "{\"mbit\": 90}"),
        1 => after(1, "Error: down"),
        2 => after(901, "90"),
        3 => with_result(Id::Foreign(1), "90"),
        4 => with_result(Id::Altered(1), "{}"),
        5 => [after(1, "90"), vec![Step::Turn("90.", vec![])], user()].concat(),
        6 => [after(1, &format!("{{\"execution_id\": \"{FORGED}\"}}")), user()].concat(),
        _ => user(),
    }
}

fn random(seed: u64) -> Case {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    (0..8).for_each(|_| {
        dice.roll(2);
    });
    let choice = match dice.roll(8) {
        0 => Choice::None,
        1 => Choice::Required,
        2 => Choice::Named("run_speed_test"),
        3 => Choice::Allowed(&["check_net", "run_speed_test"]),
        _ => Choice::Unsaid,
    };
    let turn = |dice: &mut Dice| {
        if dice.roll(24) == 0 {
            return Turn::CallRefused;
        }
        let ending = [Ending::Length, Ending::Filter, Ending::Itself, Ending::Itself, Ending::Itself, Ending::Itself][dice.roll(6)];
        let parts = [0, 1, 1, 2, 2, 3, 4][dice.roll(7)];
        Turn::Says((0..parts).map(|_| said(dice)).collect(), ending)
    };
    let case = case("random").policy(POLICIES[dice.roll(POLICIES.len())]).choice(choice).history(history(&mut dice));
    let case = (0..=dice.roll(3)).fold(case, |case, _| case.turn(turn(&mut dice)));
    let case = if dice.roll(6) == 0 { case.json() } else { case };
    if dice.roll(6) == 0 { case.one_at_a_time() } else { case }
}

/// What all forms must agree in: codes, verdict, and what is got. Streams that are blocked may have let go of text before.
fn agree(seen: &[(&Form, Seen)]) -> Result<(), String> {
    let (first, own) = &seen[0];
    for (form, other) in &seen[1..] {
        let differs = |what: &str| Err(format!("{} and {} differ in their {what}", first.name, form.name));
        if let Got::Error(_, code) = &other.got
            && form.streamed
        {
            // The last event says the first code only.
            if !own.codes.contains(code) || !matches!(&own.got, Got::Error(_, own) if own == code) {
                return differs("errors");
            }
            continue;
        }
        if (&own.codes, &own.verdict, own.repairs) != (&other.codes, &other.verdict, other.repairs) {
            return differs("verdicts");
        }
        let blocked = own.verdict == Verdict::Blocked.as_str();
        let words = |got: &Got| match got {
            // Words behind some text, in a place of their own.
            Got::Said(text, refusal, calls) if blocked => {
                let made = |said: &String| Some(said[[SAFE, EXHAUSTED].iter().find_map(|words| said.find(words))?..].to_owned());
                Got::Said([text, refusal].into_iter().find_map(made).unwrap_or_default(), String::new(), calls.clone())
            }
            got => got.clone(),
        };
        let (own, other) = (words(&own.got), words(&other.got));
        let same = if form.is(Which::MessagesApi) { own.parsed() == other.parsed() } else { own == other };
        if !same {
            return differs("answers");
        }
    }
    Ok(())
}

#[test]
fn all_forms_agree_on_exchanges_at_random() {
    agree_at_random(Stage::new);
}

#[test]
fn all_forms_agree_on_exchanges_at_random_at_two_replicas_in_turns() {
    agree_at_random(Stage::in_turns);
}

fn agree_at_random(stage: fn(&str) -> Stage) {
    let stages = POLICIES.map(stage);
    let seeds: Vec<u64> = (1..=CASES).collect();
    let played = on_threads(&seeds, |_, seed| {
        let case = random(*seed);
        let stage = POLICIES.iter().zip(&stages).find(|(policy, _)| **policy == case.policy).map(|(_, stage)| stage).unwrap();
        let play = |form: &'static Form| {
            let (answer, _) = stage.play_as(&format!("{seed}"), &case, form, Some(*seed));
            Ok((form, form.read(&answer, case.mode()).map_err(|why| format!("{}: {why}: {}", form.name, answer.body))?))
        };
        let seen = FORMS
            .iter()
            .filter(|form| form.says(&case))
            .map(play)
            .collect::<Result<Vec<_>, String>>()
            .map_err(|why| format!("seed {seed}: {why}"))?;
        let told = || seen.iter().map(|(form, seen)| format!("{}: {seen:?}\n", form.name)).collect::<String>();
        agree(&seen).map_err(|why| format!("seed {seed}: {why}\n{}", told()))?;
        Ok(seen[0].1.verdict.clone())
    });
    let wrong: Vec<&String> = played.iter().filter_map(|played| played.as_ref().err()).collect();
    assert!(wrong.is_empty(), "{} of {CASES}:\n{wrong:#?}", wrong.len());
    let mut verdicts = BTreeMap::new();
    played.iter().flatten().for_each(|verdict: &String| *verdicts.entry(verdict.as_str()).or_insert(0) += 1);
    eprintln!("{CASES} exchanges in {} forms: {verdicts:?}", FORMS.len());
    assert_eq!(verdicts.len(), 4, "{verdicts:?}");
}
