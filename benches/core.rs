//! What the pure core costs: `cargo bench` prints time and throughput of each part.
//!
//! Compare figures of one run only; never assert them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable, reason = "a benchmark fails by a panic")]

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use divan::{Bencher, counter::BytesCount};
use toolmark::{
    chat::{
        adapter::Chat,
        request::{self, Head},
        stream::ChatStream,
    },
    exchange::active_policy::Standard,
    exchange::{
        adapter::{AnswerStream as _, WholeConversation as _},
        context::{Basis, Begun, Context, Upstream},
        tool_set::ToolSet,
    },
    judge::{
        call::{Arguments, Call, CallKind, CallRules, Truncation, judge_call},
        text::TextGate,
    },
    marks::{KeyRing, MarkTime, Scope},
    policy::load::PolicySource,
    tools::registry::SchemaCache,
    wire::{json::Document, sse::SseParser},
};

use toolmark_allocator as _;

const NOW_MS: u64 = 1_795_304_000_000;

fn main() {
    divan::main();
}

struct Bench {
    standard: Standard,
    ring: Arc<KeyRing>,
    schemas: SchemaCache,
}

impl Bench {
    fn new() -> Self {
        let rules = PolicySource::Default.load().expect("the built-in policy");
        let standard = Standard::new(rules, 1 << 20).expect("the built-in policy");
        Self { standard, ring: Arc::new(KeyRing::new(&[[1; 32]])), schemas: SchemaCache::default() }
    }

    /// The path of a request: read, verified, stamped, prepared.
    fn begin(&self, body: Bytes) -> Begun {
        let recent = self.standard.tools.recent();
        let known: Vec<&[u8]> = recent.iter().map(|(array, _)| &array[..]).collect();
        let document = Document::parse_noting(body, Chat::DEPTH_NOTED, &known).expect("JSON");
        let head = Head::read(&document).expect("a request");
        let tools = self.tools(&head);
        let basis = Basis {
            id: uuid::Uuid::nil(),
            rules: &self.standard.rules,
            call_rules: &self.standard.calls,
            natures: &self.standard.natures,
            text: &self.standard.text,
            ring: &self.ring,
            scope: Scope::shared(),
            tools,
            schemas: &Arc::default(),
            now_ms: NOW_MS,
            upstream: Upstream::default(),
            protocol: self.standard.protocol.as_deref(),
            held_bytes_max: 1 << 20,
            beyond: Default::default(),
            prefix: Default::default(),
        };
        request::begin(&document, &head, basis).expect("a request")
    }

    fn tools(&self, head: &Head<'_>) -> Arc<ToolSet> {
        let rules = &self.standard.rules;
        self.standard.tools.get(head.brought(), &rules.policy, &rules.checks, &self.schemas).expect("tools")
    }

    fn context(&self) -> Arc<Context> {
        self.begin(conversation(&self.ring, 4 << 10)).context
    }
}

const SMALL: &str = r#"{"type":"object","properties":{"city":{"type":"string","minLength":1},"unit":{"type":"string","enum":["celsius","fahrenheit"]},"days":{"type":"integer","minimum":0}},"required":["city"],"additionalProperties":false}"#;

fn large_schema() -> String {
    let leaf = r#"{"type":"object","properties":{"id":{"type":"string","pattern":"^[a-z0-9_]{1,40}$"},"n":{"type":"integer"},"tags":{"type":"array","items":{"type":"string"},"maxItems":8}},"required":["id"],"additionalProperties":false}"#;
    let properties: Vec<String> = (0..60).map(|n| format!(r#""p{n}":{{"anyOf":[{leaf},{{"type":"null"}}]}}"#)).collect();
    format!(r#"{{"type":"object","properties":{{{}}},"required":["p0"]}}"#, properties.join(","))
}

/// A conversation of about so many bytes: users, calls with marks, results to be stamped.
fn conversation(ring: &KeyRing, bytes: usize) -> Bytes {
    let arguments = r#"{"city":"Paris","unit":"celsius"}"#;
    let mut messages = vec![r#"{"role":"system","content":"Be brief and exact."}"#.to_owned()];
    let mut length = 0;
    for counter in 0.. {
        let mark = ring.mint(&Scope::shared(), "get_weather", arguments, MarkTime { time_ms: NOW_MS, counter });
        let result =
            r#"{\"temperature\":18.5,\"sky\":\"partly cloudy\",\"wind\":{\"from\":\"NW\",\"kmh\":11},\"hours\":[1,2,3,4,5,6,7,8]}"#;
        let turn = format!(
            r#"{{"role":"user","content":"How is the weather in Paris, and will I need the jacket?"}},{{"role":"assistant","content":null,"tool_calls":[{{"id":"{mark}","type":"function","function":{{"name":"get_weather","arguments":"{}"}}}}]}},{{"role":"tool","tool_call_id":"{mark}","content":"{result}"}},{{"role":"assistant","content":"It is 18 degrees in Paris, partly cloudy, with a light breeze from the north-west."}}"#,
            arguments.replace('"', "\\\"")
        );
        length += turn.len();
        messages.push(turn);
        if length + 1200 > bytes {
            break;
        }
    }
    let tools = format!(
        r#"[{{"type":"function","function":{{"name":"get_weather","description":"Current weather for one city.","parameters":{SMALL}}}}}]"#
    );
    format!(r#"{{"model":"m","messages":[{}],"tools":{tools}}}"#, messages.join(",")).into()
}

#[divan::bench(args = [4 << 10, 100 << 10, 2 << 20])]
fn parse_and_stamp(bencher: Bencher<'_, '_>, bytes: usize) {
    let bench = Bench::new();
    let body = conversation(&bench.ring, bytes);
    bencher.counter(BytesCount::new(body.len())).bench_local(|| bench.begin(body.clone()));
}

#[divan::bench(args = ["small", "large"])]
fn judge_one_call(bencher: Bencher<'_, '_>, schema: &str) {
    let bench = Bench::new();
    let (schema, arguments) = match schema {
        "small" => (SMALL.to_owned(), r#"{"city":"Paris","unit":"celsius","days":3}"#.to_owned()),
        _ => {
            let members: Vec<String> = (0..60).map(|n| format!(r#""p{n}":{{"id":"item_{n}","n":{n},"tags":["a","b"]}}"#)).collect();
            (large_schema(), format!("{{{}}}", members.join(",")))
        }
    };
    let body = format!(r#"{{"messages":[],"tools":[{{"type":"function","function":{{"name":"f","parameters":{schema}}}}}]}}"#);
    let document = Document::parse(body.into()).expect("JSON");
    let set = bench.tools(&Head::read(&document).expect("a request"));
    let rules = CallRules::new(&bench.standard.rules.policy.calls, &bench.standard.rules.checks).expect("rules");
    let call = Call { name: "f".into(), kind: CallKind::Function, arguments: Arguments::Text(arguments.clone()), id: None };
    bencher
        .counter(BytesCount::new(arguments.len()))
        .bench_local(|| judge_call(&call, &set.registry, &rules, Truncation::Whole, &|_: &str| None));
}

#[divan::bench(args = ["prose", "code", "claim-like"])]
fn text_gate(bencher: Bencher<'_, '_>, kind: &str) {
    let context = Bench::new().context();
    let unit = match kind {
        "prose" => "It is 18 degrees Celsius and partly cloudy in Paris right now, with a light breeze from the north-west. ",
        "code" => "fn main() { let map = HashMap::new(); for (k, v) in &map { println!(\"{k}: {v}\"); } }\n",
        _ => "The tool returned {\"city\": \"Paris\", \"values\": [1, 2, 3]} for request_id 3f2a-77, run_id: 12ab34cd. ",
    };
    let text = unit.repeat(4096 / unit.len() + 1);
    bencher.counter(BytesCount::new(text.len())).bench_local(|| {
        let mut gate = TextGate::default();
        for piece in text.as_bytes().chunks(8) {
            context.feed(&mut gate, std::str::from_utf8(piece).unwrap_or_default());
        }
        context.close(&mut gate);
        gate.cleared()
    });
}

#[divan::bench]
fn sse_in_10000_small_chunks(bencher: Bencher<'_, '_>) {
    let context = Bench::new().context();
    let event = |delta: &str| {
        format!(
            "data: {{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":null}}]}}\n\n"
        )
    };
    let words = (0..9_998).map(|n| event(&format!(r#"{{"content":" word{n}"}}"#)));
    let events: Vec<Bytes> = std::iter::once(event(r#"{"role":"assistant","content":""}"#)).chain(words).map(Bytes::from).collect();
    let bytes: usize = events.iter().map(Bytes::len).sum();
    bencher.counter(BytesCount::new(bytes)).bench_local(|| {
        let (mut parser, mut judge, mut out) = (SseParser::default(), ChatStream::new(context.clone(), None), BytesMut::new());
        let mut length = 0;
        for chunk in &events {
            parser
                .handle(chunk.clone(), |event| {
                    judge.handle(event, &mut out).expect("a stream");
                })
                .expect("a stream");
            length += out.len();
            out.clear();
        }
        length
    });
}
