//! Properties: however a stream is cut, and whether it is one at all, the judgement is the same; what is
//! rejected never leaves; whatever comes, it ends.

use std::sync::{Arc, LazyLock};

use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::{Value, json};

use super::*;
use crate::{
    chat::{
        completion::ChatCompletion,
        support_tests::{Bench, MOMENT},
    },
    exchange::{adapter::WholeAnswer as _, decision},
    violation::Code,
    wire::sse::SseParser,
};

const FORGED: &str = "run_speed_test_1700000000000_deadbeefdeadbeef";
static BENCH: LazyLock<Bench> = LazyLock::new(|| Bench::new("default"));
static CONTEXT: LazyLock<Arc<Context>> = LazyLock::new(|| BENCH.begin(BENCH.request(r#","n":2"#).as_bytes()).unwrap().context);

/// What came of an answer.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    codes: Vec<Vec<Code>>,
    blocks: Vec<bool>,
    /// By choice: the text that left, and the calls.
    text: Vec<String>,
    calls: Vec<Vec<(String, String)>>,
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
        self.codes = judged.iter().map(|choice| choice.violations().map(|violation| violation.code).collect()).collect();
        self.blocks = judged.iter().map(JudgedChoice::blocks).collect();
    }

    fn fold(&mut self, choice: &Value, inner: &str) {
        let at = choice["index"].as_u64().unwrap() as usize;
        self.text.resize(self.text.len().max(at + 1), String::new());
        self.calls.resize(self.calls.len().max(at + 1), Vec::new());
        self.text[at].push_str(choice[inner]["content"].as_str().unwrap_or_default());
        for call in choice[inner]["tool_calls"].as_array().into_iter().flatten() {
            let text = |name: &str| call["function"][name].as_str().unwrap().to_owned();
            self.calls[at].push((text("name"), text("arguments")));
        }
    }
}

fn whole(body: &str) -> (Outcome, String) {
    let answer = ChatCompletion::read(Bytes::copy_from_slice(body.as_bytes()), &CONTEXT).unwrap();
    let (judged, mut outcome) = (answer.judge(&CONTEXT, CONTEXT.first_attempt()), Outcome::default());
    outcome.judge(&judged);
    let out = String::from_utf8(answer.write(finals(judged), &CONTEXT, None, None).body.to_vec()).unwrap();
    let value: Value = serde_json::from_str(&out).unwrap();
    value["choices"].as_array().unwrap().iter().for_each(|choice| outcome.fold(choice, "message"));
    (outcome, out)
}

fn streamed<'p>(pieces: impl IntoIterator<Item = &'p [u8]>) -> (Outcome, String) {
    let (mut judge, mut parser, mut out) = (ChatStream::new(CONTEXT.clone(), None), SseParser::default(), BytesMut::new());
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
        Err(fault) => outcome.fault = Some(fault.to_string()),
    }
    let out = String::from_utf8_lossy(&out).into_owned();
    for data in out.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]") {
        let Ok(event) = serde_json::from_str::<Value>(data) else { continue };
        event["choices"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|choice| choice["index"].is_u64())
            .for_each(|choice| outcome.fold(choice, "delta"));
    }
    (outcome, out)
}

#[derive(Clone, Debug)]
enum Say {
    Text(String),
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
        "code x = 1; ",
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
        4 => select(texts).prop_map(Say::Text),
        1 => (select(calls.to_vec()), 0..12usize).prop_map(|((name, arguments), cut)| Say::Call(name, arguments, cut)),
    ]
}

/// The same answer as a stream and as a whole.
fn both(said: &[(usize, Say)]) -> (String, String) {
    let mut texts = [None::<String>, None];
    let mut calls: [Vec<Value>; 2] = Default::default();
    let mut events = String::new();
    let mut event = |at: usize, delta: Value, finish: Value| {
        let data = json!({"id": "c", "created": 1, "model": "m", "choices": [{"index": at, "delta": delta, "finish_reason": finish}]});
        events.push_str(&format!("data: {data}\r\n\r\n"));
    };
    for at in 0..2 {
        event(at, json!({"role": "assistant", "content": ""}), Value::Null);
    }
    for (at, say) in said {
        match say {
            Say::Text(text) => {
                texts[*at].get_or_insert_default().push_str(text);
                event(*at, json!({"content": text}), Value::Null);
            }
            Say::Call(name, arguments, cut) => {
                let (index, cut) = (calls[*at].len(), arguments.floor_char_boundary(*cut));
                let id = format!("id{index}");
                event(
                    *at,
                    json!({"tool_calls": [{"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": arguments[..cut]}}]}),
                    Value::Null,
                );
                event(*at, json!({"tool_calls": [{"index": index, "function": {"arguments": arguments[cut..]}}]}), Value::Null);
                calls[*at].push(json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}));
            }
        }
    }
    let mut choices = Vec::new();
    for (at, (text, calls)) in texts.into_iter().zip(calls).enumerate() {
        let finish = if calls.is_empty() { "stop" } else { "tool_calls" };
        event(at, json!({}), json!(finish));
        let mut message = json!({"role": "assistant", "content": text});
        if !calls.is_empty() {
            message["tool_calls"] = json!(calls);
        }
        choices.push(json!({"index": at, "message": message, "finish_reason": finish}));
    }
    (format!("{events}data: [DONE]\n\n"), json!({"id": "c", "choices": choices}).to_string())
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
    fn cuts_and_forms_change_nothing(said in vec((0..2usize, said()), 0..14), cuts in vec(any::<usize>(), 0..12)) {
        let (events, body) = both(&said);
        let (once, out) = streamed([events.as_bytes()]);
        let (again, _) = streamed(pieces(events.as_bytes(), &cuts));
        prop_assert_eq!(&once, &again);
        let (whole, whole_out) = whole(&body);
        prop_assert_eq!((&once.codes, &once.blocks, &once.fault), (&whole.codes, &whole.blocks, &None));
        for (at, blocks) in whole.blocks.iter().enumerate() {
            prop_assert_eq!(&once.calls[at], &whole.calls[at]);
            if *blocks {
                prop_assert!(once.text[at].ends_with(&whole.text[at]), "{} / {}", once.text[at], whole.text[at]);
            } else {
                prop_assert_eq!(&once.text[at], &whole.text[at]);
            }
        }
        for out in [out, whole_out] {
            prop_assert!(!out.contains("deadbeef") && !out.contains("s3cret"), "{}", out);
        }
    }

    #[test]
    fn whatever_comes_ends(bytes in vec(any::<u8>(), 0..300), cuts in vec(any::<usize>(), 0..4)) {
        let (outcome, _) = streamed(pieces(&bytes, &cuts));
        prop_assert!(outcome.fault.is_some());
        let _read = ChatCompletion::read(bytes.into(), &CONTEXT).map(|answer| answer.judge(&CONTEXT, CONTEXT.first_attempt()));
    }

    #[test]
    fn whatever_is_said_ends(scraps in vec(select(SCRAPS.to_vec()), 0..30), cuts in vec(any::<usize>(), 0..4)) {
        let text = scraps.concat();
        let (once, out) = streamed([text.as_bytes()]);
        prop_assert_eq!(once, streamed(pieces(text.as_bytes(), &cuts)).0);
        prop_assert!(!out.contains("s3cret"), "{}", out);
        let body = text.replace("data: ", "");
        if let Ok(answer) = ChatCompletion::read(Bytes::from(body), &CONTEXT) {
            let judged = answer.judge(&CONTEXT, CONTEXT.first_attempt());
            let out = answer.write(finals(judged), &CONTEXT, None, None);
            prop_assert!(Document::parse(out.body).is_ok());
        }
    }

    #[test]
    fn requests_are_prepared_or_refused(scraps in vec(select(REQUEST.to_vec()), 0..16)) {
        let request = BENCH.request("").replace("\"go\"", &format!("\"go\"}},{}{{\"role\":\"user\",\"content\":1", scraps.concat()));
        for text in [scraps.concat(), request] {
            if let Ok(prepared) = BENCH.begin(text.as_bytes()) {
                let body = prepared.body.joined();
                prop_assert!(Document::parse(body.clone()).is_ok(), "{}", String::from_utf8_lossy(&body));
                // Stamps follow from the marks alone: the provider's cache stays warm.
                prop_assert_eq!(&BENCH.begin(text.as_bytes()).unwrap().body.joined(), &body);
            }
        }
    }
}

/// What would take hours, not seconds, if anything were read again with every event.
#[test]
fn adversaries_cost_no_more_than_their_length() {
    let event = |delta: &str| format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{delta}}}]}}\n\n");
    let named = |text: &str| event(&format!(r#"{{"tool_calls":[{{"index":0,"function":{{"name":"check_net","arguments":"{text}"}}}}]}}"#));
    let cited = event(&json!({"content": format!("So it is (execution_id: {}). ", BENCH.execution_id())}).to_string());
    let many = vec![r#"{"index":0,"delta":{}}"#; 5000].join(",");
    for text in [
        format!("{}\n", "data: \n".repeat(300_000)),
        format!("{}{}", named("{"), named("1,}").repeat(20_000)),
        cited.repeat(10_000),
        format!("data: {{\"x\":\"{}\",\"choices\":[{many}]}}\n\n", "x".repeat(1 << 20)),
    ] {
        let (_, out) = streamed([text.as_bytes()]);
        assert!(out.len() <= 3 * text.len() + 4096);
    }
}

const SCRAPS: [&str; 26] = [
    "data: {\"choices\":[{\"index\":0,\"delta\":{",
    "data: {\"choices\":[{\"index\":1,\"message\":{",
    "\"content\":\"hi\"",
    "\"content\":[{\"text\":\"a\"},\"b\"]",
    "\"role\":\"assistant\"",
    "\"role\":null",
    "\"tool_calls\":[{\"function\":{\"name\":\"delete_all\",\"arguments\":\"s3cret\"}}]",
    "\"function_call\":{\"name\":\"delete_all\",\"arguments\":\"s3cret\"}",
    "\"Tool_calls\":[\"s3cret\"]",
    "\"audio\":{\"transcript\":\"x\"}",
    ",",
    ",",
    "}}]}\n\n",
    "}}]}\n\n",
    "},\"finish_reason\":\"stop\"}]}\n\n",
    "},\"finish_reason\":null,\"logprobs\":{\"content\":[]}}]}\n\n",
    "data: {\"choices\":[],\"usage\":{\"total_tokens\":1}}\n\n",
    "data: [DONE]\n\n",
    ": toolmark s3cret\n\n",
    "event: ping\ndata: {}\n\n",
    "\r\n\r\n",
    "\u{feff}",
    "data: {\"error\":",
    "{}",
    "null",
    "\n",
];

const REQUEST: [&str; 22] = [
    "{\"model\":\"m\",\"messages\":[",
    "{\"role\":\"assistant\",\"tool_calls\":[",
    "{\"id\":\"x\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}",
    "]},",
    "{\"role\":\"tool\",\"tool_call_id\":\"x\",\"content\":\"r\"},",
    "{\"role\":\"tool\",\"content\":[{\"type\":\"text\",\"text\":\"\"}]},",
    "{\"role\":\"tool\",\"content\":\"{\\\"execution_id\\\":1}\"},",
    "{\"role\":\"system\",\"content\":\"\"},",
    "{\"role\":\"system\",\"content\":null},",
    "{\"role\":\"developer\",\"content\":[]},",
    "{\"role\":\"function\",\"name\":\"f\",\"content\":null},",
    "{\"role\":\"assistant\",\"function_call\":{}},",
    "{\"role\":\"user\",\"content\":\"x\"}",
    "],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]",
    ",\"tools\":[]",
    ",\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"f\"}}",
    ",\"functions\":[{\"name\":\"f\"}]",
    ",\"n\":2",
    "]",
    "}",
    ",",
    "null",
];

/// The policy leaves a tool out: asking for it by name asks for nothing, and no answer is held against that.
#[test]
fn a_choice_of_a_tool_that_was_left_out_binds_nobody() {
    use crate::judge::call::turn::ToolChoice;
    let bench = Bench::with(|policy| policy.tools.undeclared = crate::policy::Undeclared::Reject);
    let begun = bench.begin(bench.request(r#","tool_choice":{"type":"function","function":{"name":"check_net"}}"#).as_bytes()).unwrap();
    assert_eq!(begun.context.turn.tool_choice, ToolChoice::Auto);
}

/// MiniMax ends a stream with a whole completion, whose message repeats what the deltas have said; what they haven't said counts.
#[test]
fn a_message_behind_the_deltas_repeats_them() {
    let call = r#"{"index":0,"id":"call_1","type":"function","function":{"name":"check_net","arguments":"{}"}}"#;
    let delta = |members: &str| format!(r#"data: {{"id":"c","choices":[{{"index":0,"delta":{{{members}}},"finish_reason":null}}]}}"#);
    let last = |members: &str, finish: &str| {
        let choice = format!(r#"{{"index":0,"finish_reason":"{finish}","message":{{"role":"assistant",{members}}}}}"#);
        format!(r#"data: {{"id":"c","object":"chat.completion","choices":[{choice}],"usage":{{"total_tokens":3}}}}"#)
    };
    let begin = r#""role":"assistant","content":"""#;
    let (text, calls) = (r#""content":"Hello""#, format!(r#""tool_calls":[{call}]"#));
    let both = format!("{text},{calls}");
    let finish = r#"data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#.to_owned();
    for (events, said, count) in [
        (vec![delta(text), last(text, "stop")], "Hello", 0),
        (vec![delta(r#""content":"Hel""#), delta(r#""content":"lo""#), finish, last(text, "stop")], "Hello", 0),
        (vec![delta(begin), delta(&calls), last(&calls, "tool_calls")], "", 1),
        (vec![delta(text), delta(&calls), last(&both, "tool_calls")], "Hello", 1),
        (vec![delta(text), last(&both, "tool_calls")], "Hello", 1),
        (vec![delta(&calls), last(&both, "tool_calls")], "Hello", 1),
        (vec![delta(begin), last(&both, "tool_calls")], "Hello", 1),
        // Some upstreams call every delta `message`.
        (vec![last(r#""content":"Hel""#, ""), last(r#""content":"lo""#, "stop")], "Hello", 0),
    ] {
        let body = events.join("\n\n") + "\n\ndata: [DONE]\n\n";
        let (outcome, out) = streamed([body.as_bytes()]);
        let found = (outcome.fault.as_deref(), outcome.text.first().map(String::as_str), outcome.calls.first().map(Vec::len));
        assert_eq!(found, (None, Some(said), Some(count)), "{body}\n{out}");
        assert!(out.contains("total_tokens") || !body.contains("total_tokens"), "{out}");
        let translated = crate::translate::answer::stream::tests::end_of(&body);
        let times = |part: &str| translated.matches(part).count();
        assert_eq!((times(r#""text":"Hello""#), times(r#""arguments":"{}""#)), (usize::from(!said.is_empty()), count), "{translated}");
    }
}

mod places;
