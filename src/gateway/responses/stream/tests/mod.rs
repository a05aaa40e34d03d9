//! Properties: however a stream is cut, and whether it is one at all, the judgement is the same; what is
//! rejected never leaves; whatever comes, it ends; what leaves agrees with itself in every place.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::{Value, json};

use super::*;
use crate::{
    exchange::{
        adapter::WholeAnswer as _,
        decision::{self, ChoiceOutcome},
    },
    responses::{
        response::BufferedResponse,
        support_tests::{Bench, MOMENT, TOOLS},
    },
    violation::Code,
    wire::sse::SseParser,
};

const FORGED: &str = "run_speed_test_1700000000000_deadbeefdeadbeef";
static BENCH: LazyLock<Bench> = LazyLock::new(|| Bench::new("default"));
static CONTEXT: LazyLock<Arc<Context>> = LazyLock::new(|| BENCH.context(TOOLS, |_| {}));

/// What came of an answer.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    codes: Vec<Code>,
    blocks: bool,
    text: String,
    calls: Vec<(String, String)>,
    fault: Option<String>,
}

fn finals(judged: Vec<JudgedChoice>) -> Vec<ChoiceOutcome> {
    let end = |choice: JudgedChoice| match choice.blocks() {
        true => ChoiceOutcome::Replace(decision::replacement(&choice, 0)),
        false => ChoiceOutcome::Accept(choice.turn.into_calls().unwrap().into_iter().map(|call| (call, MOMENT)).collect()),
    };
    judged.into_iter().map(end).collect()
}

impl Outcome {
    fn judge(&mut self, judged: &[JudgedChoice]) {
        self.codes = judged[0].violations().map(|violation| violation.code).collect();
        self.blocks = judged[0].blocks();
    }

    fn read(&mut self, response: &Value) {
        for item in response["output"].as_array().into_iter().flatten() {
            for part in item["content"].as_array().into_iter().flatten() {
                self.text.push_str(part["text"].as_str().unwrap_or_default());
            }
            if item["type"] == "function_call" {
                self.calls.push((item["name"].as_str().unwrap().into(), item["arguments"].as_str().unwrap().into()));
            }
        }
    }
}

fn whole(body: &str) -> (Outcome, String) {
    let answer = BufferedResponse::read(Bytes::copy_from_slice(body.as_bytes()), &CONTEXT).unwrap();
    let (judged, mut outcome) = (answer.judge(&CONTEXT, CONTEXT.first_attempt()), Outcome::default());
    outcome.judge(&judged);
    let out = String::from_utf8(answer.write(finals(judged), &CONTEXT, None, None).body.to_vec()).unwrap();
    outcome.read(&serde_json::from_str(&out).unwrap());
    (outcome, out)
}

fn streamed<'p>(pieces: impl IntoIterator<Item = &'p [u8]>) -> (Outcome, String) {
    let (mut judge, mut parser, mut out) = (ResponseStream::new(CONTEXT.clone(), None), SseParser::default(), BytesMut::new());
    let (mut outcome, mut flow) = (Outcome::default(), Ok(Flow::More));
    let mut take = |event, out: &mut BytesMut| {
        if matches!(flow, Ok(Flow::More)) {
            flow = judge.handle(event, out);
        }
    };
    for piece in pieces {
        parser.handle(Bytes::copy_from_slice(piece), |event| take(event, &mut out)).unwrap();
    }
    parser.finish().into_iter().for_each(|event| take(event, &mut out));
    match flow.and_then(|_| judge.conclude(CONTEXT.first_attempt())) {
        Ok(judged) => {
            outcome.judge(&judged);
            judge.end(End { finals: finals(judged), earlier: None, verdict: "{}", as_member: true }, &mut out);
        }
        Err(fault) => {
            outcome.fault = Some(fault.to_string());
            judge.fail(r#"{"error":{"message":"m","code":"c"}}"#, &mut out);
        }
    }
    let out = String::from_utf8_lossy(&out).into_owned();
    if outcome.fault.is_none() {
        let last = out.lines().rfind(|line| line.starts_with("data: ")).unwrap();
        outcome.read(&serde_json::from_str::<Value>(&last[6..]).unwrap()["response"]);
    }
    (outcome, out)
}

/// All events of a stream agree with its final response.
fn consistent(out: &str) {
    let events: Vec<Value> =
        out.lines().filter_map(|line| line.strip_prefix("data: ")).map(|data| serde_json::from_str(data).unwrap()).collect();
    let (mut items, mut texts): (Vec<Value>, Vec<String>) = (Vec::new(), Vec::new());
    let at = |event: &Value| event["output_index"].as_u64().unwrap() as usize;
    let first = events.first().and_then(|event| event["sequence_number"].as_u64()).unwrap();
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], first + number as u64, "{out}");
        match event["type"].as_str().unwrap() {
            "response.output_item.added" => {
                assert_eq!(at(event), items.len(), "{out}");
                items.push(Value::Null);
                texts.push(String::new());
            }
            "response.output_text.delta" => texts[at(event)].push_str(event["delta"].as_str().unwrap()),
            "response.function_call_arguments.delta" => texts[at(event)].push_str(event["delta"].as_str().unwrap()),
            "response.function_call_arguments.done" => assert_eq!(event["arguments"], texts[at(event)], "{out}"),
            "response.output_item.done" => items[at(event)] = event["item"].clone(),
            _ => {}
        }
    }
    let last = events.last().unwrap();
    assert_eq!(last["type"], "response.completed", "{out}");
    assert_eq!(last["response"]["output"], json!(items), "{out}");
    for (item, text) in items.iter().zip(&texts) {
        let parts = item["content"].as_array().into_iter().flatten().filter_map(|part| part["text"].as_str());
        let said = item["arguments"].as_str().map_or_else(|| parts.collect::<String>(), str::to_owned);
        assert!(item["type"] == "reasoning" || said == *text, "{out}");
    }
}

#[derive(Clone, Debug)]
enum Say {
    Text(String),
    /// Begins another message.
    Message,
    Reason,
    Call(&'static str, &'static str, usize),
}

fn said() -> impl Strategy<Value = Say> {
    let scraps = [
        "It is 90. ",
        " ",
        "(",
        ").\n",
        "\n```json\n",
        "\n```\n",
        "execution_id: ",
        "{\"tool\": \"run_speed_test\", ",
        "\"result\": 1}",
        "é 日 ",
        "**",
        "{",
        "}",
        "x",
    ];
    let mut texts: Vec<String> = scraps.map(str::to_owned).to_vec();
    texts.extend([
        format!(" (execution_id: {}) ", BENCH.execution_id()),
        format!(" {} ", BENCH.execution_id()),
        format!(" see {FORGED} now "),
    ]);
    let calls = [
        ("run_speed_test", r#"{"server":"x"}"#),
        ("run_speed_test", r#"{"server":7,"z":"s3cret"}"#),
        ("check_net", ""),
        ("check_net", "{}"),
        ("delete_all", r#"{"a":"s3cret"}"#),
        ("check_net", r#"{"a":"s3cret"#),
    ];
    prop_oneof![
        6 => select(texts).prop_map(Say::Text),
        1 => Just(Say::Message),
        1 => Just(Say::Reason),
        1 => (select(calls.to_vec()), 0..12usize).prop_map(|((name, arguments), cut)| Say::Call(name, arguments, cut)),
    ]
}

struct Script {
    events: String,
    number: u64,
    items: Vec<Value>,
}

impl Script {
    fn event(&mut self, kind: &str, mut data: Value) {
        (data["type"], data["sequence_number"]) = (json!(kind), json!(self.number));
        self.number += 1;
        self.events.push_str(&format!("event: {kind}\ndata: {data}\n\n"));
    }

    fn message(&mut self, text: &[String]) {
        let (index, id) = (self.items.len(), format!("msg_{}", self.items.len()));
        let part = |text: &str| json!({"type": "output_text", "annotations": [], "logprobs": [], "text": text});
        let item =
            |content: Value, status: &str| json!({"type": "message", "id": id, "status": status, "role": "assistant", "content": content});
        self.event("response.output_item.added", json!({"output_index": index, "item": item(json!([]), "in_progress")}));
        let place = json!({"item_id": id, "output_index": index, "content_index": 0});
        let with = |name: &str, value: Value| {
            let mut place = place.clone();
            place[name] = value;
            place
        };
        self.event("response.content_part.added", with("part", part("")));
        for piece in text {
            self.event("response.output_text.delta", with("delta", json!(piece)));
        }
        let whole = text.concat();
        self.event("response.output_text.done", with("text", json!(whole)));
        self.event("response.content_part.done", with("part", part(&whole)));
        let done = item(json!([part(&whole)]), "completed");
        self.event("response.output_item.done", json!({"output_index": index, "item": done}));
        self.items.push(done);
    }

    fn reason(&mut self) {
        let (index, item) = (self.items.len(), json!({"type": "reasoning", "id": format!("rs_{}", self.items.len()), "summary": []}));
        self.event("response.output_item.added", json!({"output_index": index, "item": item}));
        self.event("response.output_item.done", json!({"output_index": index, "item": item}));
        self.items.push(item);
    }

    fn call(&mut self, name: &str, arguments: &str, cut: usize) {
        let (index, id) = (self.items.len(), format!("fc_{}", self.items.len()));
        let item = |arguments: &str, status: &str| json!({"type": "function_call", "id": id, "call_id": format!("call_{index}"), "name": name, "arguments": arguments, "status": status});
        self.event("response.output_item.added", json!({"output_index": index, "item": item("", "in_progress")}));
        let cut = arguments.floor_char_boundary(cut);
        for piece in [&arguments[..cut], &arguments[cut..]] {
            self.event("response.function_call_arguments.delta", json!({"item_id": id, "output_index": index, "delta": piece}));
        }
        self.event("response.function_call_arguments.done", json!({"item_id": id, "output_index": index, "arguments": arguments}));
        let done = item(arguments, "completed");
        self.event("response.output_item.done", json!({"output_index": index, "item": done}));
        self.items.push(done);
    }
}

/// The same answer as a stream and as a whole.
fn both(said: &[Say]) -> (String, String) {
    let mut script = Script { events: String::new(), number: 0, items: Vec::new() };
    let response = |status: &str, items: &[Value]| json!({"id": "resp_1", "object": "response", "status": status, "output": items});
    script.event("response.created", json!({"response": response("in_progress", &[])}));
    let mut text: Vec<String> = Vec::new();
    for say in said.iter().chain([&Say::Message]) {
        if let Say::Text(piece) = say {
            text.push(piece.clone());
            continue;
        }
        if !text.is_empty() {
            script.message(&std::mem::take(&mut text));
        }
        match say {
            Say::Reason => script.reason(),
            Say::Call(name, arguments, cut) => script.call(name, arguments, *cut),
            Say::Text(_) | Say::Message => {}
        }
    }
    let whole = response("completed", &script.items);
    script.event("response.completed", json!({"response": whole}));
    (script.events, whole.to_string())
}

fn pieces<'b>(bytes: &'b [u8], cuts: &[usize]) -> Vec<&'b [u8]> {
    let mut places: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    places.extend([0, bytes.len()]);
    places.sort_unstable();
    places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn cuts_and_forms_change_nothing(said in vec(said(), 0..14), cuts in vec(any::<usize>(), 0..12)) {
        let (events, body) = both(&said);
        let (once, out) = streamed([events.as_bytes()]);
        let (again, _) = streamed(pieces(events.as_bytes(), &cuts));
        consistent(&out);
        prop_assert_eq!(&once, &again);
        let (whole, whole_out) = whole(&body);
        prop_assert_eq!((&once.codes, &once.blocks, &once.fault), (&whole.codes, &whole.blocks, &None));
        if whole.blocks {
            prop_assert!(once.text.ends_with(&whole.text), "{} / {}", once.text, whole.text);
            prop_assert!(once.calls.is_empty() && whole.calls.is_empty());
        } else {
            prop_assert_eq!((&once.text, &once.calls), (&whole.text, &whole.calls));
        }
        for out in [out, whole_out] {
            prop_assert!(!out.contains("deadbeef") && !out.contains("s3cret"), "{}", out);
        }
    }

    #[test]
    fn whatever_comes_ends(bytes in vec(any::<u8>(), 0..300), cuts in vec(any::<usize>(), 0..4)) {
        let (outcome, _) = streamed(pieces(&bytes, &cuts));
        prop_assert!(outcome.fault.is_some());
    }

    #[test]
    fn whatever_is_said_ends(order in vec(0..64usize, 0..40), said in vec(said(), 0..8), cuts in vec(any::<usize>(), 0..4)) {
        // The events of an honest stream in any order, some of them twice, some never.
        let (events, _) = both(&said);
        let events: Vec<&str> = events.split_inclusive("\n\n").collect();
        let mixed: String = order.iter().map(|at| events[at % events.len()]).collect();
        let (once, out) = streamed([mixed.as_bytes()]);
        prop_assert_eq!(&once, &streamed(pieces(mixed.as_bytes(), &cuts)).0);
        prop_assert!(!out.contains("s3cret"), "{}", out);
    }
}

/// An id that ends a message is one, though the next message begins with a letter; one that two messages make is too.
#[test]
fn seams_hide_nothing() {
    let cut = FORGED.split_at(30);
    for (first, second) in [(format!("See {FORGED}"), "and so on."), (format!("See {}", cut.0), &*format!("{} it is.", cut.1))] {
        let (events, body) = both(&[Say::Text(first), Say::Message, Say::Text(second.to_owned())]);
        let ((once, out), (whole, whole_out)) = (streamed([events.as_bytes()]), whole(&body));
        assert_eq!((&once.codes, once.blocks), (&whole.codes, true), "{out}");
        assert!(whole.codes.contains(&Code::UnknownExecution), "{whole_out}");
        assert!(!out.contains(cut.1) && !whole_out.contains(cut.1), "{out}");
        consistent(&out);
    }
}

/// One call that must never arrive, in each of the places where a client may look for it.
#[test]
fn a_call_in_any_one_place_is_judged() {
    let item = json!({"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "delete_all", "arguments": "{\"a\":\"s3cret\"}"});
    let response =
        |items: Value| json!({"type": "response.completed", "response": {"id": "resp_1", "status": "completed", "output": items}});
    let created = json!({"type": "response.created", "response": {"id": "resp_1", "status": "in_progress", "output": []}});
    let begun = json!({"type": "response.output_item.added", "output_index": 0, "item": {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "delete_all", "arguments": ""}});
    let delta =
        json!({"type": "response.function_call_arguments.delta", "item_id": "fc_1", "output_index": 0, "delta": "{\"a\":\"s3cret\"}"});
    let said =
        json!({"type": "response.function_call_arguments.done", "item_id": "fc_1", "output_index": 0, "arguments": "{\"a\":\"s3cret\"}"});
    let places = [
        vec![created.clone(), begun.clone(), delta, response(json!([]))],
        vec![created.clone(), begun, said, response(json!([]))],
        vec![created.clone(), json!({"type": "response.output_item.done", "output_index": 0, "item": item}), response(json!([]))],
        vec![created.clone(), json!({"type": "response.output_item.added", "output_index": 0, "item": item}), response(json!([]))],
        vec![created, response(json!([item]))],
    ];
    for events in places {
        let stream: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
        let (outcome, out) = streamed_unnumbered(&stream);
        assert_eq!((outcome.codes, outcome.blocks), (vec![Code::UnknownTool], true), "{stream}");
        assert!(!out.contains("delete_all") || out.contains("could not finish"), "{out}");
        assert!(!out.contains("s3cret"), "{out}");
    }
}

fn streamed_unnumbered(events: &str) -> (Outcome, String) {
    let (mut judge, mut parser, mut out) = (ResponseStream::new(CONTEXT.clone(), None), SseParser::default(), BytesMut::new());
    let mut outcome = Outcome::default();
    parser
        .handle(Bytes::copy_from_slice(events.as_bytes()), |event| {
            judge.handle(event, &mut out).unwrap();
        })
        .unwrap();
    let judged = judge.conclude(CONTEXT.first_attempt()).unwrap();
    outcome.judge(&judged);
    judge.end(End { finals: finals(judged), earlier: None, verdict: "{}", as_member: true }, &mut out);
    (outcome, String::from_utf8_lossy(&out).into_owned())
}

mod attempts;
mod hostile;
mod legal;

/// What toolmark says doesn't stand in the fence that the model had opened.
#[test]
fn a_safe_reply_closes_the_fence_that_is_open() {
    for (before, closed) in [
        ("Look:\n```json\n{\"a\": 1}\n", true),
        ("Look:\n~~~~\ncode\n", true),
        ("Look:\n```json\n{\"a\": 1}\n```\n", false),
        ("Look at this.\n", false),
    ] {
        let texts = [
            before,
            "more of it, and still more of it, so that something of it has left by now\n",
            &format!("(execution_id: {FORGED}) is it.\n"),
        ];
        let item = |text: &str| json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": text, "annotations": []}]});
        let mut events = vec![
            json!({"type": "response.created", "response": {"id": "resp_1", "object": "response", "status": "in_progress", "output": []}}),
            json!({"type": "response.output_item.added", "output_index": 0, "item": {"type": "message", "id": "msg_1", "role": "assistant", "status": "in_progress", "content": []}}),
            json!({"type": "response.content_part.added", "item_id": "msg_1", "output_index": 0, "content_index": 0, "part": {"type": "output_text", "text": "", "annotations": []}}),
        ];
        let delta = |text: &&str| json!({"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0, "content_index": 0, "delta": text});
        events.extend(texts.iter().map(delta));
        let all = item(&texts.concat());
        events.push(json!({"type": "response.output_item.done", "output_index": 0, "item": all}));
        events.push(json!({"type": "response.completed", "response": {"id": "resp_1", "object": "response", "status": "completed", "output": [all]}}));
        let numbered = events.iter_mut().enumerate().map(|(number, event)| {
            event["sequence_number"] = json!(number);
            format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap())
        });
        let stream: String = numbered.collect();
        let (outcome, out) = streamed([stream.as_bytes()]);
        consistent(&out);
        assert!(outcome.blocks && outcome.text.starts_with("Look") && !outcome.text.contains(FORGED), "{outcome:?}");
        // Whoever shows it shows the reply outside of any fence.
        let marks =
            |text: &str| text.lines().filter(|line| line.trim_start().starts_with("```") || line.trim_start().starts_with("~~~")).count();
        let reply = outcome.text.find("I reported a tool result").unwrap_or_else(|| panic!("{outcome:?}"));
        assert_eq!(marks(&outcome.text[..reply]) % 2, 0, "{:?}", outcome.text);
        assert_eq!(marks(&outcome.text[..reply]) > marks(&texts.concat()), closed, "{:?}", outcome.text);
    }
}
