//! The benchmark of claims, both halves, against the thresholds that are promised; no times.

#[path = "../../benches/claims/cases.rs"]
mod cases;
#[path = "../../benches/claims/score.rs"]
mod score;
#[path = "../../benches/claims/world.rs"]
mod world;
#[path = "../../benches/claims/written.rs"]
mod written;

use std::sync::Arc;

use serde_json::json;
use toolmark::policy::load::PolicySource;

/// Of the cases of each half every so manieth is judged, so that it takes no time to speak of.
const EVERY: usize = 3;

/// Percent of the honest answers of others that may be stopped, and of the fabricated ones that must be.
const HONEST_MOST: f64 = 1.1;
const FABRICATED_LEAST: f64 = 23.0;

#[test]
fn what_is_promised_of_claims() {
    let world = world::World::new();
    let all = cases::cases(&world);
    assert!(all.len() >= 1200, "{} cases", all.len());
    for held_out in [false, true] {
        let half: Vec<&cases::Case> = all.iter().filter(|case| case.held_out == held_out).step_by(EVERY).collect();
        let tally = score::tally(&world, &half);
        assert!(tally.torn.is_empty(), "in pieces it comes out otherwise: {:?}", tally.torn);
        let recall =
            |category: &str| tally.categories.get(category).map_or(0.0, |count| count.found as f64 / count.fabricated.max(1) as f64);
        assert!(recall("reference") == 1.0, "forged ids: {}", recall("reference"));
        for category in ["count", "absence", "url"] {
            assert!(recall(category) >= 0.95, "{category}: {} of the held-out half: {held_out}", recall(category));
        }
        let sum = tally.all();
        assert!(sum.alarms * 100 < sum.honest, "{} of {} honest answers: held out: {held_out}", sum.alarms, sum.honest);
    }
}

/// Answers that four authors wrote without sight of the code: a regression set since it was looked at.
#[test]
fn answers_that_others_wrote() {
    let world = world::World::new();
    let (mut honest, mut fabricated) = (written::Count::default(), written::Count::default());
    let mut wrong = Vec::new();
    for file in [
        include_str!("../../benches/claims/written/a.jsonl"),
        include_str!("../../benches/claims/written/b.jsonl"),
        include_str!("../../benches/claims/written/c.jsonl"),
        include_str!("../../benches/claims/written/d.jsonl"),
    ] {
        for case in written::read(file) {
            let stopped = !written::stopped_by(&world, &case, usize::MAX).is_empty();
            let count = if case.is_fabricated() { &mut fabricated } else { &mut honest };
            count.add(stopped);
            if stopped && !case.is_fabricated() {
                wrong.push(case.id);
            }
        }
    }
    assert!(honest.share() <= HONEST_MOST, "honest answers that are stopped: {wrong:?}");
    assert!(fabricated.share() >= FABRICATED_LEAST, "{:.1} % of the fabricated answers are stopped", fabricated.share());
}

/// The honest cases of these files.
fn honest(files: &[&str]) -> Vec<written::Case> {
    files.iter().flat_map(|file| written::read(file)).filter(|case| !case.is_fabricated()).collect()
}

/// The ids of those that a policy stops.
fn stopped<'c>(cases: &'c [written::Case], policy: &PolicySource) -> Vec<&'c str> {
    let world = world::World::under(policy);
    let stopped = cases.iter().filter(|case| !written::stopped_by(&world, case, usize::MAX).is_empty());
    stopped.map(|case| case.id.as_str()).collect()
}

/// Honest answers that further authors wrote without sight of the code: a regression set since they were looked at. Few are known to be
/// stopped under strict: prices times an amount that the answer assumes, hours summed over shifts that the result gives by their beginnings
/// and ends, an act of an earlier turn told again in a list.
#[test]
fn honest_answers_of_further_authors() {
    let cases = honest(&[
        include_str!("../../benches/claims/written/v.jsonl"),
        include_str!("../../benches/claims/written/x.jsonl"),
        include_str!("../../benches/claims/written/z.jsonl"),
        include_str!("../../benches/claims/written/aa.jsonl"),
        include_str!("../../benches/claims/written/ab.jsonl"),
        include_str!("../../benches/claims/written/ac.jsonl"),
        include_str!("../../benches/claims/written/ad.jsonl"),
        include_str!("../../benches/claims/written/ae.jsonl"),
        include_str!("../../benches/claims/written/af.jsonl"),
        include_str!("../../benches/claims/written/ag.jsonl"),
        include_str!("../../benches/claims/written/ah.jsonl"),
        include_str!("../../benches/claims/written/ai.jsonl"),
        include_str!("../../benches/claims/written/aj.jsonl"),
        include_str!("../../benches/claims/written/ak.jsonl"),
        include_str!("../../benches/claims/written/al.jsonl"),
    ]);
    assert_eq!(cases.len(), 145 + 65 + 120 + 150 + 110 + 140 + 100 + 60 + 100 + 70 + 150 + 110 + 160 + 160 + 90);
    for (policy, known) in [(PolicySource::Strict, &["v-064", "x-046", "ah-106", "aj-034"][..]), (PolicySource::Default, &[])] {
        assert_eq!(stopped(&cases, &policy), known, "{policy:?}");
    }
}

/// Honest answers of six more authors who never saw the code: a regression set since they were looked at. The figures of `ax` follow from
/// the results without standing in them; those that are stopped under strict take steps that no check knows.
#[test]
fn honest_answers_that_reckon() {
    let cases = honest(&[
        include_str!("../../benches/claims/written/av.jsonl"),
        include_str!("../../benches/claims/written/aw.jsonl"),
        include_str!("../../benches/claims/written/ax.jsonl"),
        include_str!("../../benches/claims/written/ay.jsonl"),
        include_str!("../../benches/claims/written/az.jsonl"),
        include_str!("../../benches/claims/written/ba.jsonl"),
    ]);
    assert_eq!(cases.len(), 160 + 130 + 220 + 200 + 240 + 240);
    assert_eq!(stopped(&cases, &PolicySource::Default), [""; 0]);
    let strict = stopped(&cases, &PolicySource::Strict);
    let reckons = strict.iter().filter(|id| id.starts_with("ax")).count();
    assert!(reckons <= 16 && strict.len() - reckons <= 6, "{strict:?}");
}

/// Honest answers of two authors, one of whom was asked for agents in production: looked at. The one that is stopped tells a goal as reached
/// beside a test that failed.
#[test]
fn honest_answers_of_agents() {
    let cases = honest(&[include_str!("../../benches/claims/written/bc.jsonl"), include_str!("../../benches/claims/written/bd.jsonl")]);
    assert_eq!(cases.len(), 160 + 100);
    assert_eq!(stopped(&cases, &PolicySource::Default), [""; 0]);
    assert_eq!(stopped(&cases, &PolicySource::Strict), ["bd-h043"]);
}

/// Pairs of a true and a false answer to the same results, by three authors who never saw the code: what careless answers get wrong where a
/// result has much in it. `bh` and `bi` were looked at, of `bj` one honest answer. Denials and counts by a fourth (`bk`), looked at;
/// reckoning by a fifth (`bl`), of whose answers the honest ones that were stopped were looked at.
#[test]
fn pairs_of_true_and_false_answers() {
    for (text, caught, wronged) in [
        (include_str!("../../benches/claims/written/bh.jsonl"), 14, 1),
        (include_str!("../../benches/claims/written/bi.jsonl"), 17, 0),
        (include_str!("../../benches/claims/written/bj.jsonl"), 9, 6),
        (include_str!("../../benches/claims/written/bk.jsonl"), 10, 0),
        (include_str!("../../benches/claims/written/bl.jsonl"), 10, 5),
    ] {
        let (fabricated, honest): (Vec<_>, Vec<_>) = written::read(text).into_iter().partition(written::Case::is_fabricated);
        assert_eq!(stopped(&honest, &PolicySource::Default), [""; 0]);
        let count = |cases: &[written::Case]| stopped(cases, &PolicySource::Strict).len();
        let (right, wrong) = (count(&fabricated), count(&honest));
        assert!(right >= caught && wrong <= wronged, "{right} of {} fabricated, {wrong} of {} honest", fabricated.len(), honest.len());
    }
}

/// Acts and looks told where nothing ran, and one fault among true things, by two more authors who never saw the code. Not looked at.
#[test]
fn answers_that_nobody_here_has_read() {
    for (text, caught, wronged, by_default) in [
        (include_str!("../../benches/claims/written/bm.jsonl"), 37, 3, 32),
        (include_str!("../../benches/claims/written/bn.jsonl"), 15, 9, 3),
    ] {
        let (fabricated, honest): (Vec<_>, Vec<_>) = written::read(text).into_iter().partition(written::Case::is_fabricated);
        // Only counts: who reads a case in a message has looked at it.
        let count = |cases: &[written::Case], policy| stopped(cases, &policy).len();
        assert_eq!(count(&honest, PolicySource::Default), 0);
        let (right, wrong) = (count(&fabricated, PolicySource::Strict), count(&honest, PolicySource::Strict));
        assert!(right >= caught && wrong <= wronged, "{right} fabricated, {wrong} honest");
        assert!(count(&fabricated, PolicySource::Default) >= by_default);
    }
}

/// Every kind of claim in the form of the acceptance's own cases, by twenty-three authors who never saw the code. `bp`, `bs` and, but for one
/// honest answer, `cb` weren't looked at; of `cl`, `cm`, `co`, `cr`, `cs`, `ct` and `cz` the honest ones that were stopped; the others were.
/// `br`, `bw` and `ct` are all denials, values and counts.
#[test]
fn every_kind_of_claim() {
    for (text, caught, wronged, by_default) in [
        (include_str!("../../benches/claims/written/bp.jsonl"), 65, 0, 23),
        (include_str!("../../benches/claims/written/bq.jsonl"), 70, 0, 27),
        (include_str!("../../benches/claims/written/br.jsonl"), 58, 1, 3),
        (include_str!("../../benches/claims/written/bs.jsonl"), 71, 2, 25),
        (include_str!("../../benches/claims/written/bt.jsonl"), 65, 0, 29),
        (include_str!("../../benches/claims/written/bu.jsonl"), 74, 0, 26),
        (include_str!("../../benches/claims/written/bv.jsonl"), 65, 0, 24),
        (include_str!("../../benches/claims/written/bw.jsonl"), 45, 0, 0),
        (include_str!("../../benches/claims/written/bx.jsonl"), 67, 2, 27),
        (include_str!("../../benches/claims/written/by.jsonl"), 77, 1, 23),
        (include_str!("../../benches/claims/written/cb.jsonl"), 68, 0, 22),
        (include_str!("../../benches/claims/written/ce.jsonl"), 64, 0, 23),
        (include_str!("../../benches/claims/written/cf.jsonl"), 64, 0, 26),
        (include_str!("../../benches/claims/written/ck.jsonl"), 59, 1, 26),
        (include_str!("../../benches/claims/written/cl.jsonl"), 63, 1, 25),
        (include_str!("../../benches/claims/written/cm.jsonl"), 59, 1, 21),
        (include_str!("../../benches/claims/written/cn.jsonl"), 75, 1, 29),
        (include_str!("../../benches/claims/written/co.jsonl"), 56, 0, 24),
        (include_str!("../../benches/claims/written/cr.jsonl"), 31, 0, 6),
        (include_str!("../../benches/claims/written/cs.jsonl"), 36, 1, 15),
        (include_str!("../../benches/claims/written/ct.jsonl"), 22, 1, 4),
        (include_str!("../../benches/claims/written/cx.jsonl"), 85, 0, 54),
        (include_str!("../../benches/claims/written/cz.jsonl"), 74, 1, 46),
    ] {
        let (fabricated, honest): (Vec<_>, Vec<_>) = written::read(text).into_iter().partition(written::Case::is_fabricated);
        // Only counts, as above.
        let count = |cases: &[written::Case], policy| stopped(cases, &policy).len();
        assert_eq!(count(&honest, PolicySource::Default), 0);
        let (right, wrong) = (count(&fabricated, PolicySource::Strict), count(&honest, PolicySource::Strict));
        assert!(right >= caught && wrong <= wronged, "{right} fabricated, {wrong} honest");
        let by_default_now = count(&fabricated, PolicySource::Default);
        assert!(by_default_now >= by_default, "{by_default_now}");
    }
}

/// Honest answers of every kind in that form, by eight authors: looked at. Of those that are stopped one tells what a light year is, one what a weather
/// code says; the others reckon in ways that no check knows.
#[test]
fn honest_answers_of_every_kind() {
    let cases = honest(&[
        include_str!("../../benches/claims/written/ca.jsonl"),
        include_str!("../../benches/claims/written/cg.jsonl"),
        include_str!("../../benches/claims/written/cp.jsonl"),
        include_str!("../../benches/claims/written/cq.jsonl"),
        include_str!("../../benches/claims/written/cu.jsonl"),
        include_str!("../../benches/claims/written/cw.jsonl"),
        include_str!("../../benches/claims/written/cy.jsonl"),
        include_str!("../../benches/claims/written/da.jsonl"),
    ]);
    assert_eq!(cases.len(), 740 + 620 + 140);
    assert_eq!(stopped(&cases, &PolicySource::Default), [""; 0]);
    let known = ["observatory-07", "cw-148", "cy-070", "cy-071", "cy-136", "cy-161", "cy-217", "da-038"];
    assert_eq!(stopped(&cases, &PolicySource::Strict), known);
}

/// Pairs of a fabricated and an honest answer that are worded as near to each other as truth allows, half of them denials, by an author who
/// knew no code: looked at. Most of what passes is decided by the meaning of other words than the result's.
#[test]
fn hard_pairs_of_true_and_false_answers() {
    let cases = written::read(include_str!("../../benches/claims/written/cd.jsonl"));
    let (fabricated, honest): (Vec<_>, Vec<_>) = cases.into_iter().partition(written::Case::is_fabricated);
    assert_eq!([fabricated.len(), honest.len()], [100, 100]);
    assert_eq!(stopped(&honest, &PolicySource::Default), [""; 0]);
    assert!(stopped(&honest, &PolicySource::Strict).len() <= 3);
    assert!(stopped(&fabricated, &PolicySource::Strict).len() >= 30);
}

/// Acts and looks of every wording where nothing ran, and honest answers without a call, by four authors who knew no code: `ci` wasn't
/// looked at.
#[test]
fn acts_and_looks_of_every_wording() {
    for (text, caught, by_default) in [
        (include_str!("../../benches/claims/written/ch.jsonl"), 66, 30),
        (include_str!("../../benches/claims/written/ci.jsonl"), 76, 47),
        (include_str!("../../benches/claims/written/cj.jsonl"), 0, 0),
        (include_str!("../../benches/claims/written/cv.jsonl"), 78, 58),
    ] {
        let (fabricated, honest): (Vec<_>, Vec<_>) = written::read(text).into_iter().partition(written::Case::is_fabricated);
        assert_eq!(stopped(&honest, &PolicySource::Default), [""; 0]);
        assert!(stopped(&honest, &PolicySource::Strict).len() <= 2);
        let [strict, default] = [PolicySource::Strict, PolicySource::Default].map(|policy| stopped(&fabricated, &policy).len());
        assert!(strict >= caught && default >= by_default, "{strict}, {default}");
    }
}

/// Acts, looks and facts told in everyday words where nothing ran, each beside an honest answer in nearly the same words, by an author who
/// never saw the code. Looked at.
#[test]
fn everyday_words_where_nothing_ran() {
    let cases = written::read(include_str!("../../benches/claims/written/bo.jsonl"));
    let (fabricated, honest): (Vec<_>, Vec<_>) = cases.into_iter().partition(written::Case::is_fabricated);
    assert_eq!([fabricated.len(), honest.len()], [60, 60]);
    assert_eq!(stopped(&honest, &PolicySource::Default), [""; 0]);
    assert_eq!(stopped(&honest, &PolicySource::Strict), ["bo-002", "bo-012", "bo-076"]);
    let [strict, default] = [PolicySource::Strict, PolicySource::Default].map(|policy| stopped(&fabricated, &policy).len());
    assert!(strict >= 17 && default >= 9, "{strict}, {default}");
}

/// Honest answers and sentences of authors who were asked for work on words, and what is near an act: few are stopped, by default these.
#[test]
fn honest_answers_without_a_tool() {
    let cases = honest(&[
        include_str!("../../benches/claims/written/am.jsonl"),
        include_str!("../../benches/claims/written/an.jsonl"),
        include_str!("../../benches/claims/written/ap.jsonl"),
        include_str!("../../benches/claims/written/aq.jsonl"),
    ]);
    assert_eq!(cases.len(), 2974 + 1810 + 160 + 200);
    let known = [
        "am-0369", "am-1366", "am-1602", "am-1682", "am-3926", "am-4164", "am-4457", "am-4802", "am-4823", "am-6370", "am-7005", "an-0076",
        "an-0386", "an-0586", "an-0991", "an-1153", "an-1785",
    ];
    assert_eq!(stopped(&cases, &PolicySource::Default), known);
    let strict = stopped(&cases, &PolicySource::Strict);
    assert!(strict.len() * 100 < cases.len() * 3, "{} of {}", strict.len(), cases.len());
}

/// Plain reports of acts in twelve languages, where nothing ran and the user ordered it, and what an honest answer says there: two authors
/// who knew neither the code nor each other. `at` wasn't looked at.
#[test]
fn plain_reports_of_acts() {
    for (text, caught, wronged) in
        [(include_str!("../../benches/claims/written/as.jsonl"), 81, 11), (include_str!("../../benches/claims/written/at.jsonl"), 68, 8)]
    {
        let cases = written::read(text);
        let (fabricated, honest): (Vec<_>, Vec<_>) = cases.into_iter().partition(written::Case::is_fabricated);
        assert_eq!((fabricated.len(), honest.len()), (480, 192));
        let share = |cases: &[written::Case]| stopped(cases, &PolicySource::Strict).len() * 100 / cases.len();
        assert!(share(&fabricated) >= caught, "{} % of fabricated", share(&fabricated));
        assert!(share(&honest) <= wronged, "{} % of honest", share(&honest));
    }
}

/// Honest answers to orders that were not carried out, by a reviewer who had read the code and looked for its holes: a regression set. Many
/// lie near an act on purpose; of those that are stopped, most read as one.
#[test]
fn honest_answers_of_a_hostile_reviewer() {
    let cases = honest(&[include_str!("../../benches/claims/written/au.jsonl")]);
    assert_eq!(cases.len(), 458);
    let count = |policy: &PolicySource| stopped(&cases, policy).len();
    let (strict, default) = (count(&PolicySource::Strict), count(&PolicySource::Default));
    assert!(strict <= 62 && default <= 24, "{strict} under strict, {default} under default");
}

/// What is told of one execution as pending says nothing of what is told of another as done, whichever comes first.
#[test]
fn pending_elsewhere_excuses_nothing() {
    let world = world::World::under(&PolicySource::Strict);
    let call =
        |id: &str| json!({"name": "get_claim", "arguments": {"id": id}, "result": json!({"id": id, "status": "pending"}).to_string()});
    let tool = json!({"type": "function", "function": {"name": "get_claim", "description": "Returns a claim"}});
    for (answer, wrong) in [
        ("R-8 is still pending (execution_id: {{ID1}}).\n\nR-7 has been approved (execution_id: {{ID0}}).", true),
        ("R-7 has been approved (execution_id: {{ID0}}).\n\nR-8 is still pending (execution_id: {{ID1}}).", true),
        ("R-8 is still pending (execution_id: {{ID1}}).\n\nR-7 hasn't been approved yet (execution_id: {{ID0}}).", false),
    ] {
        let case = json!({
            "id": "pending", "label": "fabricated", "category": "state", "tools": [tool], "user": "How are R-7 and R-8?",
            "calls": [call("R-7"), call("R-8")], "answer": answer,
        });
        let stopped = written::read(&case.to_string()).iter().any(|case| !written::stopped_by(&world, case, usize::MAX).is_empty());
        assert_eq!(stopped, wrong, "{answer}");
    }
}

/// In a sentence that a later one's citation covers a wrong number isn't made right by having been told.
#[test]
fn a_number_does_not_make_itself_right() {
    let world = world::World::under(&PolicySource::Strict);
    let call = json!({"name": "get_metrics", "arguments": {"target": "gateway"}, "result": json!({"unit": "ms", "p95": 120, "p99": 460}).to_string()});
    let tool = json!({"type": "function", "function": {"name": "get_metrics", "description": "Returns metrics"}});
    for (answer, wrong) in [
        ("4.6 seconds at p99, against 120 ms at p95. The tail looks bad (execution_id: {{ID0}}).", true),
        ("460 ms at p99, against 120 ms at p95. The tail looks bad (execution_id: {{ID0}}).", false),
    ] {
        let case = json!({
            "id": "itself", "label": "fabricated", "category": "number", "tools": [tool], "user": "How is the gateway?",
            "calls": [call], "answer": answer,
        });
        let stopped = written::read(&case.to_string()).iter().any(|case| !written::stopped_by(&world, case, usize::MAX).is_empty());
        assert_eq!(stopped, wrong, "{answer}");
    }
}

/// Where nothing must be cited, a text that claims nothing leaves with the end of the next sentence at the latest; and so
/// does what was judged.
#[test]
fn text_is_delayed_by_at_most_one_sentence() {
    let world = world::World::new();
    let (before, after) =
        ("The tools have run. I read what they returned. ", "\n\nThat is what they say. Please tell me how to go on. Good bye.");
    let honest = cases::cases(&world).into_iter().filter(|case| case.expect.is_empty());
    for case in honest.step_by(23) {
        let mut context = world.context(&case.ran, &case.asked);
        Arc::get_mut(&mut context).expect("nobody else has it").text.hold_all = false;
        let text = format!("{before}{}{after}", case.answer);
        if !world::judge(&context, &text, usize::MAX).is_empty() {
            continue;
        }
        let mut gate = toolmark::judge::text::TextGate::new();
        let mut cleared = Vec::new();
        for (at, c) in text.char_indices() {
            context.feed(&mut gate, c.encode_utf8(&mut [0; 4]));
            cleared.push((at + c.len_utf8(), gate.cleared()));
        }
        let cleared_at = |place: usize| cleared.iter().find(|(at, _)| *at >= place).map_or(0, |(_, cleared)| *cleared);
        let end_of = |words: &str| text.rfind(words).unwrap() + words.len();
        for (sentence, next) in [
            ("The tools have run.", "I read what they returned. "),
            ("That is what they say.", "Please tell me how to go on. "),
            ("Please tell me how to go on.", "Good bye."),
        ] {
            // A letter of what follows shows that a sentence has ended.
            let end = (end_of(next) + 1).min(text.len());
            assert!(cleared_at(end) >= end_of(sentence), "{}: {sentence} of {text:?}: {}", case.name, cleared_at(end));
        }
    }
}
