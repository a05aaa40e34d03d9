//! Streams that break off at any byte, or whose events come in any order, twice, or among unknown ones. For all three APIs: nothing
//! unjudged leaves (`drive::hold`), what leaves is the beginning of what would have, and what nobody objects to comes whole.

use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::{Value, json};

use super::{
    bench::{By, FORGED, begin, request},
    drive::{Delivered, DriveEnding, DriveOutcome, streamed},
    script::FuzzScript,
};
use crate::{chat::adapter::Chat, exchange::adapter::Adapter, messages::adapter::Messages, openai::Api, responses::adapter::Responses};

/// What a model says, part by part, as the scripts of the fuzz targets have it.
const PARTS: [&str; 12] = [
    "tIt is 90 Mbit. ",
    "tna\u{ef}ve \u{1f600} \"quoted\"\n",
    "t",
    "khm",
    "m",
    "crun_speed_test\n{\"server\":\"a\"}",
    "ccheck_net\n",
    "ccheck_net\n{}",
    "cdelete_all\n{\"a\":\"s3cret\"}",
    "cbook\n{\"city\":\"s3cret\",\"nights\":0}",
    "crun_speed_test\n{\"server\":\"s3cret\"",
    "tIt is 90 (execution_id: run_speed_test_1700000000000_deadbeefdeadbeef). ",
];

fn drive<A: Adapter>(api: Api, stream: &[u8]) -> DriveOutcome {
    let request = request(api, "How fast is it?", r#"{"mbit": 90, "ms": 12}"#);
    let begun = begin(By::Default, api, &request);
    assert!(begun.is_some(), "the properties' own request is refused");
    let outcome = begun.map(|begun| streamed::<A>(&begun, &[stream], None, None));
    let outcome = outcome.into_iter().next().unwrap_or_else(|| std::process::abort());
    assert!(!outcome.events.iter().any(|event| has(event, "s3cret")), "a rejected call leaves");
    if api == Api::Messages {
        emitted(&outcome);
    }
    outcome
}

fn has(event: &[u8], word: &str) -> bool {
    event.windows(word.len()).any(|own| own == word.as_bytes())
}

fn script(parts: &[&str]) -> FuzzScript {
    let input = [&[0, 3, 7], parts.join("\0").as_bytes()].concat();
    FuzzScript::of(&input).into_iter().next().unwrap_or_else(|| std::process::abort())
}

/// The events of a stream.
fn events(stream: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(stream).split_inclusive("\n\n").map(str::to_owned).collect()
}

/// Checks the rules for what leaves on a Messages stream. Source: docs/wire-facts.md#messages-streams.
fn emitted(outcome: &DriveOutcome) {
    let events = &outcome.events;
    let shown = || String::from_utf8_lossy(&events.join(&b"\n"[..])).into_owned();
    let (mut starts, mut ends, mut next, mut open, mut calls, mut over) = (0, 0, 0, None, 0, false);
    for event in events {
        let event: Value = serde_json::from_slice(event).unwrap();
        assert!(!over, "something after the end: {}", shown());
        let kind = event["type"].as_str().unwrap_or_default();
        assert!(starts == 1 || matches!(kind, "message_start" | "ping" | "error"), "no message_start: {}", shown());
        match kind {
            "message_start" => starts += 1,
            "content_block_start" => {
                assert!(open.is_none() && event["index"] == next && ends == 0, "a gap, or two open blocks: {}", shown());
                (open, next) = (Some((next, String::new(), event["content_block"]["type"] == "text")), next + 1);
                calls += usize::from(event["content_block"]["type"] == "tool_use");
            }
            "content_block_delta" => {
                let (index, text, _) = open.as_mut().expect("a delta without a block");
                assert_eq!(event["index"], *index, "{}", shown());
                text.push_str(event["delta"]["text"].as_str().unwrap_or_default());
            }
            "content_block_stop" => {
                let (index, text, is_text) = open.take().expect("a stop without a block");
                assert!(event["index"] == index && !(is_text && text.is_empty()), "an empty text: {}", shown());
            }
            "message_delta" => {
                ends += 1;
                assert!(open.is_none() && event["usage"]["output_tokens"].is_number(), "{}", shown());
                assert_eq!(event["delta"]["stop_reason"] == "tool_use", calls > 0, "{}", shown());
            }
            "message_stop" | "error" => {
                assert!(kind == "error" || (open.is_none() && ends == 1), "{}", shown());
                over = true;
            }
            "ping" => {}
            kind => panic!("{kind} leaves: {}", shown()),
        }
    }
    // Where the model would be asked again, the stream goes on.
    let ended = over || outcome.ending == DriveEnding::Open;
    assert!(ended && starts <= 1 && ends <= 1, "no end: {}", shown());
}

/// Nothing that a part of a stream lets leave is other than what the whole of it does.
fn begins(part: &Delivered, whole: &Delivered) {
    for (index, text) in &part.texts {
        let full = whole.texts.get(index).map(String::as_str).unwrap_or_default();
        assert!(full.starts_with(text.as_str()), "{text:?} isn't the beginning of {full:?}");
    }
}

fn cut<A: Adapter>(api: Api, stream: &[u8], cuts: impl Iterator<Item = usize>) {
    let whole = drive::<A>(api, stream);
    for at in cuts {
        let part = drive::<A>(api, &stream[..at]);
        match part.ending {
            // The rest said nothing: a line end, or the marker of the end.
            DriveEnding::Accepted | DriveEnding::Open | DriveEnding::Replaced | DriveEnding::Refused(_) => {
                assert_eq!((&part.codes, &part.read), (&whole.codes, &whole.read), "cut at {at} of {}", stream.len());
            }
            DriveEnding::Fault(_) => {
                assert!(part.read.calls.is_empty(), "a call of an answer that broke off leaves");
                if whole.ending == DriveEnding::Accepted {
                    begins(&part.read, &whole.read);
                }
            }
        }
    }
}

/// Honest parts, for which everything comes.
fn honest() -> Vec<&'static str> {
    PARTS[..8].to_vec()
}

#[test]
fn a_stream_may_break_off_at_any_byte() {
    for parts in
        [["khm", "tIt is \u{1f600}.", "crun_speed_test\n{\"server\":\"a\"}"], ["tWell.", "cdelete_all\n{\"a\":\"s3cret\"}", "ccheck_net\n"]]
    {
        let script = script(&parts);
        let (chat, responses, messages) = (script.chat_stream(), script.responses_both().1, script.messages_both().1);
        cut::<Chat>(Api::Chat, &chat, 0..chat.len());
        cut::<Responses>(Api::Responses, &responses, 0..responses.len());
        cut::<Messages>(Api::Messages, &messages, 0..messages.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn any_stream_may_break_off(parts in vec(select(PARTS.to_vec()), 1..6), at in any::<prop::sample::Index>()) {
        let script = script(&parts);
        let (chat, responses, messages) = (script.chat_stream(), script.responses_both().1, script.messages_both().1);
        cut::<Chat>(Api::Chat, &chat, std::iter::once(at.index(chat.len())));
        cut::<Responses>(Api::Responses, &responses, std::iter::once(at.index(responses.len())));
        cut::<Messages>(Api::Messages, &messages, std::iter::once(at.index(messages.len())));
    }

    /// Events left out, repeated and in any order: `drive` holds what may leave.
    #[test]
    fn events_may_come_in_any_order(parts in vec(select(PARTS.to_vec()), 1..6), order in vec(any::<usize>(), 0..40)) {
        let script = script(&parts);
        let mixed = |stream: Vec<u8>| {
            let events = events(&stream);
            let begin = events.iter().take(1).cloned();
            begin.chain(order.iter().map(|at| events[at % events.len()].clone())).chain(events.last().cloned()).collect::<String>()
        };
        drive::<Chat>(Api::Chat, mixed(script.chat_stream()).as_bytes());
        drive::<Responses>(Api::Responses, mixed(script.responses_both().1).as_bytes());
        drive::<Messages>(Api::Messages, mixed(script.messages_both().1).as_bytes());
    }

    /// Unknown events and blocks, pings, comments, `message_start` and stops that come twice: the honest rest comes whole.
    #[test]
    fn nothing_honest_is_lost_among_the_unknown(parts in vec(select(honest()), 1..6), odd in vec((any::<usize>(), 0..4usize), 0..6)) {
        let stream = script(&parts).messages_both().1;
        let whole = drive::<Messages>(Api::Messages, &stream);
        let mut mixed = events(&stream);
        for (at, kind) in odd {
            let at = 1 + at % (mixed.len() - 1);
            let added = match kind {
                0 => "event: ping\ndata: {\"type\": \"ping\"}\n\n".to_owned(),
                1 => ": a comment\n\n".to_owned(),
                2 => "event: some_new_event\ndata: {\"type\":\"some_new_event\",\"x\":1}\n\n".to_owned(),
                _ => mixed[0].clone(),
            };
            mixed.insert(at, added);
        }
        let odd = drive::<Messages>(Api::Messages, mixed.concat().as_bytes());
        prop_assert_eq!((&whole.codes, &whole.read, &whole.ending), (&odd.codes, &odd.read, &odd.ending));
    }

    /// Blocks whose events come by turns, as some servers send them, and unknown blocks between them.
    #[test]
    fn blocks_may_come_by_turns(parts in vec(select(honest()), 1..6), turns in vec(any::<usize>(), 0..60), unknown in any::<bool>()) {
        // A message of an unknown block alone isn't empty.
        let parts = [&["tWell. "], &parts[..]].concat();
        let stream = script(&parts).messages_both().1;
        let whole = drive::<Messages>(Api::Messages, &stream);
        let all = events(&stream);
        let index = |event: &str| {
            let data = event.split_once("data: ").map(|(_, data)| data.trim()).unwrap_or_default();
            serde_json::from_str::<Value>(data).ok()?["index"].as_u64()
        };
        let shift = u64::from(unknown);
        let mut blocks: Vec<std::collections::VecDeque<String>> = Vec::new();
        for (event, at) in all.iter().filter_map(|event| Some((event, index(event)?))) {
            blocks.resize_with(blocks.len().max(at as usize + 1), Default::default);
            blocks[at as usize].push_back(event.replacen(&format!("\"index\":{at}"), &format!("\"index\":{}", at + shift), 1));
        }
        let mut mixed = all[0].clone();
        if unknown {
            let event = |kind: &str, rest: Value| format!("event: {kind}\ndata: {}\n\n", rest);
            mixed += &event("content_block_start", json!({"type": "content_block_start", "index": 0, "content_block": {"type": "some_new_block", "x": 1}}));
            mixed += &event("content_block_stop", json!({"type": "content_block_stop", "index": 0}));
        }
        for turn in turns {
            // Blocks start in their order.
            let begun = blocks.iter().position(|block| block.front().is_some_and(|event| event.contains("content_block_start")));
            let open: Vec<usize> = (0..blocks.len().min(begun.map_or(usize::MAX, |at| at + 1))).filter(|at| !blocks[*at].is_empty()).collect();
            if !open.is_empty() {
                mixed.extend(blocks[open[turn % open.len()]].pop_front());
            }
        }
        mixed.extend(blocks.into_iter().flatten());
        mixed.extend(all[all.len() - 2..].iter().cloned());
        let by_turns = drive::<Messages>(Api::Messages, mixed.as_bytes());
        prop_assert_eq!((&whole.codes, &whole.read.calls, &whole.ending), (&by_turns.codes, &by_turns.read.calls, &by_turns.ending), "{}", mixed);
        prop_assert_eq!(whole.text(), by_turns.text());
    }
}

/// A forged id that is cut by blocks, thinking and unknown blocks leaves in no piece that spells it.
#[test]
fn a_forged_id_is_found_across_deltas() {
    for at in 0..FORGED.len() {
        let text = format!("t(execution_id: {}", &FORGED[..at]);
        let rest = format!("t{}).", &FORGED[at..]);
        let outcome = drive::<Messages>(Api::Messages, &script(&[&text, &rest]).messages_both().1);
        assert!(!outcome.codes.concat().is_empty(), "cut at {at}: {:?}", outcome.read);
    }
}
