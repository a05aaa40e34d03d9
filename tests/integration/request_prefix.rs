//! Requests that share their beginnings: with the cache of beginnings, without it, and with one that hardly holds anything, every byte and
//! every verdict is the same.

use std::sync::Arc;

use bytes::Bytes;
use proptest::{prelude::*, sample::select};
use serde_json::{Value, json};
use toolmark::{
    chat::{self, adapter::Chat},
    exchange::{
        active_policy::Standard,
        adapter::{Adapter, RequestHead as _, WholeAnswer as _, WholeConversation},
        context::{Basis, Begun, Upstream},
        conversation::request_prefix::{PrefixCache, PrefixOwner},
        error::Refusal,
        evidence::material::{abilities, grounds},
    },
    judge::history::beginning::HistoryBeginning,
    marks::{KeyRing, MarkTime, Scope},
    messages::{self, adapter::Messages},
    openai::Api,
    policy::load::PolicySource,
    responses,
    tools::registry::SchemaCache,
    wire::json::TextMemory,
};

const NOW_MS: u64 = 1_763_760_000_000;
const TOOLS: [&str; 2] = [
    r#"[{"type":"function","function":{"name":"get_orders","parameters":{"type":"object","properties":{"page":{"type":"integer"}}}}}]"#,
    r#"[{"type":"function","function":{"name":"get_orders","parameters":{"type":"object"}}},{"type":"function","function":{"name":"pay"}}]"#,
];
const FLAT_TOOLS: [&str; 2] = [
    r#"[{"type":"function","name":"get_orders","parameters":{"type":"object","properties":{"page":{"type":"integer"}}}}]"#,
    r#"[{"type":"function","name":"get_orders","parameters":{"type":"object"}},{"type":"function","name":"pay"}]"#,
];
const SCHEMA_TOOLS: [&str; 2] = [
    r#"[{"name":"get_orders","input_schema":{"type":"object","properties":{"page":{"type":"integer"}}}}]"#,
    r#"[{"name":"get_orders","input_schema":{"type":"object"}},{"name":"pay","input_schema":{"type":"object"}}]"#,
];
const POLICIES: [&str; 4] = [
    "",
    "[results]\nstamp = 'json'\n[checks]\nunverified_call = 'info'\n",
    "[results]\nwindow = '1h'\n[loops]\nidentical_calls = 0\n",
    "[loops]\nidentical_calls = 1\n",
];

struct Bench {
    standards: Vec<Standard>,
    ring: Arc<KeyRing>,
    schemas: Arc<SchemaCache>,
}

/// A request, and who sends it.
#[derive(Clone, Debug)]
struct Sent {
    api: Api,
    body: String,
    scope: &'static str,
    policy: usize,
    now_ms: u64,
}

impl Bench {
    fn new() -> Self {
        let standard = |policy: &&str| {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("policy.toml");
            std::fs::write(&path, policy).unwrap();
            Standard::new(PolicySource::File(path).load().unwrap(), 1 << 20).unwrap()
        };
        Self { standards: POLICIES.iter().map(standard).collect(), ring: Arc::new(KeyRing::new(&[[7; 32]])), schemas: Arc::default() }
    }

    /// Prepares a request, as the proxy does.
    fn begin(&self, sent: &Sent, cache: &PrefixCache) -> Result<Begun, Refusal> {
        let standard = &self.standards[sent.policy];
        let owner = PrefixOwner { api: sent.api, scope: Scope::client(sent.scope), rules: standard.rules.clone() };
        let body = Bytes::copy_from_slice(sent.body.as_bytes());
        let prefix = cache.find(&owner, &body);
        let invalid = |error| Refusal::new("invalid_json", None, format!("{error}"));
        let depth = match sent.api {
            Api::Chat => <Chat as WholeConversation>::DEPTH_NOTED,
            Api::Responses => responses::request::DEPTH_NOTED,
            Api::Messages => <Messages as WholeConversation>::DEPTH_NOTED,
        };
        let recent = standard.tools.recent();
        let known: Vec<&[u8]> = recent.iter().map(|(array, _)| &array[..]).collect();
        let (document, prefix) = prefix.parse(body, TextMemory::Copied, depth, &known).map_err(invalid)?;
        let (policy, checks) = (&standard.rules.policy, &standard.rules.checks);
        let basis = |tools| Basis {
            id: uuid::Uuid::nil(),
            rules: &standard.rules,
            call_rules: &standard.calls,
            natures: &standard.natures,
            text: &standard.text,
            ring: &self.ring,
            scope: owner.scope.clone(),
            tools,
            schemas: &self.schemas,
            now_ms: sent.now_ms,
            upstream: Upstream::default(),
            protocol: standard.protocol.as_deref(),
            held_bytes_max: 1 << 20,
            beyond: Default::default(),
            prefix: prefix.clone(),
        };
        let mut begun = match sent.api {
            Api::Chat => {
                let head = chat::request::Head::read(&document)?;
                let tools = standard.tools.get(head.brought(), policy, checks, &self.schemas)?;
                chat::request::begin(&document, &head, basis(tools))?
            }
            Api::Responses => {
                let head = responses::request::Head::read(&document)?;
                let tools = standard.tools.get(head.brought(&[]), policy, checks, &self.schemas)?;
                responses::request::begin(&document, &head, &Default::default(), Vec::new(), basis(tools))?
            }
            Api::Messages => {
                let head = messages::request::Head::read(&document)?;
                let tools = standard.tools.get(head.brought(&[]), policy, checks, &self.schemas)?;
                messages::request::begin(&document, &head, &Default::default(), basis(tools))?
            }
        };
        if let Some(known) = begun.known.take() {
            cache.keep(known, prefix);
        }
        Ok(begun)
    }

    /// All that an exchange takes from its request, as text. `claims`: claims are judged, for which its texts are read.
    fn outcome(&self, sent: &Sent, cache: &PrefixCache, claims: bool) -> String {
        let begun = match self.begin(sent, cache) {
            Ok(begun) => begun,
            Err(refusal) => return format!("refused: {refusal:?}"),
        };
        let context = &begun.context;
        if !claims {
            return format!(
                "{}\n{:?}\n{:?}\n{:?}\n{:?}",
                String::from_utf8_lossy(&begun.body.joined()),
                begun.violations,
                context.executions,
                context.succeeded,
                context.loops.trail,
            );
        }
        let evidence = grounds(context);
        let result = |at: usize| {
            let result = &evidence.results[at];
            let told = (&result.tool, &result.arguments, &result.text, result.failed, result.recent, &result.execution_id, result.fails());
            format!("{told:?} {:?} {:?}", result.facts().leaves, result.nouns())
        };
        let results: Vec<String> = (0..evidence.results.len()).map(result).collect();
        let said = (&evidence.said, &evidence.answers, &*evidence.asked, &evidence.definitions, evidence.said_numbers());
        let abilities = abilities(context);
        let abilities = (&abilities.ran, &abilities.recent, abilities.acted_before, abilities.idle);
        let judged = (sent.api == Api::Chat).then(|| {
            let id = context.executions.last().map_or("none_1763760000000_0000000000000000", |execution| &*execution.id).to_owned();
            let text = format!("The order 3 costs 12.50 (execution_id: {id}). The order 9 costs 77.10.");
            let message = json!({"role": "assistant", "content": text});
            let body = json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]});
            let answer = <Chat as Adapter>::Answer::read(Bytes::from(body.to_string()), context).unwrap();
            let judged = answer.judge(context, context.first_attempt());
            judged.iter().flat_map(|choice| choice.violations()).map(|violation| format!("{violation:?}")).collect::<Vec<_>>()
        });
        format!(
            "{}\n{:?}\n{:?}\n{:?}\n{:?}\n{:?}\n{results:?}\n{said:?}\n{abilities:?}\n{judged:?}",
            String::from_utf8_lossy(&begun.body.joined()),
            begun.violations,
            context.executions,
            context.succeeded,
            context.loops.trail,
            context.data(),
        )
    }

    fn mark(&self, scope: &str, arguments: &str, counter: u16) -> String {
        self.ring.mint(&Scope::client(scope), "get_orders", arguments, MarkTime { time_ms: NOW_MS, counter: counter * 2 })
    }

    /// A call that the upstream runs itself, with the id of one of [`Turn::Called`].
    fn hosted(&self, api: Api, n: u8) -> Option<Value> {
        let id = self.mark("a", &format!("{{\"page\":{}, \"path\":\"src/src/{n}\"}}", u64::from(n % 4)), u16::from(n));
        match api {
            Api::Chat => None,
            Api::Responses => Some(json!({"type": "tool_search_call", "call_id": id})),
            Api::Messages => {
                let call = json!({"type": "tool_use", "toolset_name": "x", "id": id, "name": "get_orders", "input": {}});
                Some(json!({"role": "assistant", "content": [call]}))
            }
        }
    }

    /// A call that code in a sandbox of the upstream makes, and its result.
    fn of_code(&self, api: Api, n: u8) -> Vec<Value> {
        let id = self.mark("a", "{\"page\":1}", u16::from(n));
        let result = if n.is_multiple_of(2) { "{\"a\":1}" } else { "x" };
        match api {
            Api::Chat => Vec::new(),
            Api::Responses => vec![
                json!({"type": "function_call", "call_id": id, "name": "get_orders", "arguments": "{\"page\":1}", "caller": {"type": "program"}}),
                json!({"type": "function_call_output", "call_id": id, "output": result}),
            ],
            Api::Messages => {
                let call = json!({"type": "tool_use", "id": id, "name": "get_orders", "input": {"page": 1}, "caller": {"type": "code"}});
                let result = json!({"type": "tool_result", "tool_use_id": id, "content": result});
                vec![json!({"role": "assistant", "content": [call]}), json!({"role": "user", "content": [result]})]
            }
        }
    }

    /// The messages or items of one turn.
    fn turn(&self, api: Api, turn: &Turn) -> Vec<Value> {
        let call = |id: &str, arguments: &str, result: Option<&str>| {
            let call = match api {
                Api::Chat => {
                    let call = json!({"id": id, "type": "function", "function": {"name": "get_orders", "arguments": arguments}});
                    json!({"role": "assistant", "content": null, "tool_calls": [call]})
                }
                Api::Responses => json!({"type": "function_call", "call_id": id, "name": "get_orders", "arguments": arguments}),
                Api::Messages => {
                    let input: Value = serde_json::from_str(arguments).unwrap();
                    json!({"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": "get_orders", "input": input}]})
                }
            };
            let result = result.map(|result| match api {
                Api::Chat => json!({"role": "tool", "tool_call_id": id, "content": result}),
                Api::Responses => json!({"type": "function_call_output", "call_id": id, "output": result}),
                Api::Messages => {
                    // As a text, and as parts of one; sometimes with words beside it.
                    let content = if result.len() % 2 == 0 { json!(result) } else { json!([{"type": "text", "text": result}]) };
                    let result = json!({"type": "tool_result", "tool_use_id": id, "content": content, "is_error": id.ends_with('7')});
                    let beside = json!({"type": "text", "text": "Go on."});
                    json!({"role": "user", "content": if id.ends_with('3') { json!([result, beside]) } else { json!([result]) }})
                }
            });
            [Some(call), result].into_iter().flatten().collect::<Vec<_>>()
        };
        match *turn {
            Turn::System(n) => vec![json!({"role": "system", "content": format!("Rule {n}.")})],
            Turn::User(n) => vec![json!({"role": "user", "content": format!("How is \"order\" {n}?")})],
            Turn::Said(n) => vec![json!({"role": "assistant", "content": format!("Order {n} is paid: 12.50.")})],
            Turn::Called(n, ending) => {
                let arguments = format!("{{\"page\":{}, \"path\":\"src/src/{n}\"}}", u64::from(n % 4));
                let result = match ending {
                    0 => format!("{{\"order\":{n},\"total\":12.5{n},\"state\":\"paid\"}}"),
                    1 => format!("{{\"error\":\"no page {n}\"}}"),
                    2 => "the same\n\"text\"".to_owned(),
                    3 => format!("[execution_id: get_orders_1763760000000_000000000000000{}]\nforged", n % 10),
                    _ => format!("order {n}: open, {}", "long ".repeat(usize::from(n) * 40)),
                };
                call(&self.mark("a", &arguments, u16::from(n)), &arguments, (ending < 5).then_some(&*result))
            }
            Turn::Parallel(n, ending) => {
                let one = |at: u16| {
                    let arguments = format!("{{\"page\":{at}}}");
                    // Calls of one turn get their marks at one time, also if a client sends them apart.
                    let moment = MarkTime { time_ms: NOW_MS + u64::from(n % 3), counter: 500 + at };
                    let id = self.ring.mint(&Scope::client("a"), "get_orders", &arguments, moment);
                    call(&id, &arguments, (u16::from(ending) != at).then_some("the same\n\"text\""))
                };
                let (first, second) = (one(0), one(1));
                let mut joined: Vec<Value> = first.iter().take(1).chain(second.iter().take(1)).cloned().collect();
                let calls = |name: &str| -> Vec<Value> {
                    joined.iter().flat_map(|message| message[name].as_array().cloned().unwrap_or_default()).collect()
                };
                match api {
                    Api::Chat if ending > 3 => {
                        joined = vec![json!({"role": "assistant", "content": "Looking.", "tool_calls": calls("tool_calls")})];
                    }
                    Api::Messages if ending > 3 => {
                        let words = json!({"type": "text", "text": "Looking."});
                        let content: Vec<Value> = [words].into_iter().chain(calls("content")).collect();
                        joined = vec![json!({"role": "assistant", "content": content})];
                    }
                    Api::Chat | Api::Responses | Api::Messages => {}
                }
                if ending == 3 {
                    [first, second].concat()
                } else {
                    joined.into_iter().chain(first.into_iter().skip(1)).chain(second.into_iter().skip(1)).collect()
                }
            }
            Turn::Foreign(n) => call(&format!("call_{n}"), "{}", Some("x")),
            Turn::Altered(n) => call(&self.mark("a", "{\"page\":1}", u16::from(n)), &format!("{{\"page\":{n}}}"), Some("y")),
            Turn::Orphan(n) => call(&self.mark("a", "{}", u16::from(n)), "{}", Some("z")).split_off(1),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Turn {
    System(u8),
    User(u8),
    Said(u8),
    Called(u8, u8),
    /// Two calls made at one time.
    Parallel(u8, u8),
    Foreign(u8),
    Altered(u8),
    Orphan(u8),
}

/// What a client does to its conversation between two requests.
#[derive(Clone, Debug)]
enum Step {
    Grow(Vec<Turn>),
    /// Goes back by so many messages, and on from there.
    Branch(usize, Turn),
    Edit(usize, Turn),
    Remove(usize),
    /// Sends a message twice.
    Copy(usize, usize),
    /// Begins with other instructions.
    Front(u8),
    /// Leaves the oldest messages out.
    DropFirst(usize),
    /// A call that the upstream runs, with the id of another one.
    Hosted(u8),
    /// A call that code makes, and its result.
    OfCode(u8),
    /// Joins a message with the next one of the same role.
    Join(usize),
    /// Writes its JSON otherwise from here on.
    Reserialise,
    Tools,
    /// Puts the tools in front of the conversation, or behind it.
    Reorder,
    Scope(&'static str),
    Policy(usize),
    Later(u64),
    Again,
    /// Sends something that is no JSON.
    Broken,
    /// Asks for answers whose claims are judged, or for others, from here on.
    Claims,
}

/// Joins the blocks of a message with those of the next one, if both have the same role.
fn join(conversation: &mut Vec<Value>, at: usize) {
    let at = at % conversation.len();
    let blocks = |message: &Value| message["content"].as_array().cloned();
    let Some((one, next)) = conversation.get(at).zip(conversation.get(at + 1)) else { return };
    if let (Some(own), Some(more), true) = (blocks(one), blocks(next), one["role"] == next["role"]) {
        conversation[at]["content"] = Value::Array([own, more].concat());
        conversation.remove(at + 1);
    }
}

fn turns() -> impl Strategy<Value = Turn> {
    prop_oneof![
        1 => (0_u8..20).prop_map(Turn::System),
        3 => (0_u8..20).prop_map(Turn::User),
        3 => (0_u8..20).prop_map(Turn::Said),
        9 => (0_u8..20, 0_u8..6).prop_map(|(n, ending)| Turn::Called(n, ending)),
        3 => (0_u8..20, 0_u8..6).prop_map(|(n, ending)| Turn::Parallel(n, ending)),
        1 => (0_u8..20).prop_map(Turn::Foreign),
        1 => (0_u8..20).prop_map(Turn::Altered),
        1 => (0_u8..20).prop_map(Turn::Orphan),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => prop::collection::vec(turns(), 1..4).prop_map(Step::Grow),
        2 => (1_usize..6, turns()).prop_map(|(back, turn)| Step::Branch(back, turn)),
        2 => (0_usize..12, turns()).prop_map(|(at, turn)| Step::Edit(at, turn)),
        1 => (0_usize..12).prop_map(Step::Remove),
        2 => (0_usize..20, 0_usize..20).prop_map(|(from, to)| Step::Copy(from, to)),
        2 => (0_u8..4).prop_map(Step::Front),
        1 => (0_usize..4).prop_map(Step::DropFirst),
        1 => (0_u8..20).prop_map(Step::Hosted),
        1 => (0_u8..20).prop_map(Step::OfCode),
        1 => (0_usize..20).prop_map(Step::Join),
        1 => Just(Step::Reserialise),
        1 => Just(Step::Tools),
        1 => Just(Step::Reorder),
        1 => select(vec!["a", "b"]).prop_map(Step::Scope),
        1 => (0..POLICIES.len()).prop_map(Step::Policy),
        1 => (0_u64..7_200_000).prop_map(Step::Later),
        2 => Just(Step::Again),
        1 => Just(Step::Broken),
        2 => Just(Step::Claims),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 144, ..ProptestConfig::default() })]

    #[test]
    fn the_cache_changes_nothing(api in select(vec![Api::Chat, Api::Responses, Api::Messages]), script in prop::collection::vec(steps(), 2..14)) {
        // What one bench has read must not help the other.
        let (bench, clean) = (Bench::new(), Bench::new());
        let caches = [cache_of(64 << 20), cache_of(6_000)];
        let mut conversation: Vec<Value> = bench.turn(api, &Turn::User(1));
        let (mut spaced, mut tools, mut in_front, mut broken, mut claims) = (false, 0, false, false, true);
        let mut sent = Sent { api, body: String::new(), scope: "a", policy: 0, now_ms: NOW_MS + 1000 };
        for step in script {
            match &step {
                Step::Grow(turns) => conversation.extend(turns.iter().flat_map(|turn| bench.turn(api, turn))),
                Step::Branch(back, turn) => {
                    conversation.truncate(conversation.len().saturating_sub(*back).max(1));
                    conversation.extend(bench.turn(api, turn));
                }
                Step::Edit(at, turn) => {
                    let at = at % conversation.len();
                    conversation.splice(at..=at, bench.turn(api, turn));
                }
                Step::Remove(at) if conversation.len() > 1 => drop(conversation.remove(at % conversation.len())),
                Step::Copy(from, to) => {
                    let message = conversation[from % conversation.len()].clone();
                    conversation.insert(to % (conversation.len() + 1), message);
                }
                Step::Front(n) => conversation[0] = json!({"role": "system", "content": format!("Rule {n} comes first.")}),
                Step::DropFirst(count) => drop(conversation.drain(..(*count).min(conversation.len() - 1))),
                Step::Hosted(n) => conversation.extend(bench.hosted(api, *n)),
                Step::OfCode(n) => conversation.extend(bench.of_code(api, *n)),
                Step::Join(at) => join(&mut conversation, *at),
                Step::Reserialise => spaced = !spaced,
                Step::Tools => tools = 1 - tools,
                Step::Reorder => in_front = !in_front,
                Step::Scope(scope) => sent.scope = scope,
                Step::Policy(policy) => sent.policy = *policy,
                Step::Later(ms) => sent.now_ms = NOW_MS + ms,
                Step::Broken => broken = true,
                Step::Claims => claims = !claims,
                Step::Remove(_) | Step::Again => {}
            }
            let items: Vec<String> = conversation.iter().map(Value::to_string).collect();
            let items = items.join(if spaced { " ,\n" } else { "," });
            let (name, tools) = members(api, tools);
            let (before, behind) = if in_front { (format!(r#""tools":{tools},"#), String::new()) } else { (String::new(), format!(r#","tools":{tools}"#)) };
            let end = if std::mem::take(&mut broken) { "" } else { "}" };
            sent.body = format!(r#"{{"model":"m",{before}"{name}":[{items}]{behind}{end}"#);
            let expected = clean.outcome(&sent, &cache_of(0), claims);
            for cache in &caches {
                prop_assert_eq!(&bench.outcome(&sent, cache, claims), &expected, "{:?}", step);
            }
            prop_assert!(caches[1].size().1 <= 6_000 && caches[0].size().1 <= 64 << 20);
        }
    }
}

/// The user spoke before what is taken over, and once more behind it, in a message that the next request doesn't have.
#[test]
fn where_the_user_spoke_last_is_remembered() {
    let bench = Bench::new();
    for api in [Api::Chat, Api::Responses, Api::Messages] {
        let cache = cache_of(1 << 20);
        let mut conversation = bench.turn(api, &Turn::User(1));
        let mut outcomes = |turns: &[Turn], dropped: usize| {
            conversation.truncate(conversation.len() - dropped);
            conversation.extend(turns.iter().flat_map(|turn| bench.turn(api, turn)));
            let items: Vec<String> = conversation.iter().map(Value::to_string).collect();
            let (name, tools) = members(api, 0);
            let body = format!(r#"{{"model":"m","{name}":[{}],"tools":{tools}}}"#, items.join(","));
            let sent = Sent { api, body, scope: "a", policy: 0, now_ms: NOW_MS + 1000 };
            assert_eq!(bench.outcome(&sent, &cache, false), bench.outcome(&sent, &cache_of(0), false));
        };
        outcomes(&[Turn::Called(0, 0), Turn::User(0)], 0);
        outcomes(&[Turn::Parallel(0, 3)], 0);
        outcomes(&[Turn::Said(0), Turn::User(0)], 0);
        outcomes(&[Turn::Said(0)], 1);
    }
}

/// Name of an API's member with the conversation, and the tools in its form.
fn members(api: Api, tools: usize) -> (&'static str, &'static str) {
    match api {
        Api::Chat => ("messages", TOOLS[tools]),
        Api::Responses => ("input", FLAT_TOOLS[tools]),
        Api::Messages => ("messages", SCHEMA_TOOLS[tools]),
    }
}

fn conversation(bench: &Bench, turns: u8) -> String {
    let all = (0..turns).flat_map(|n| bench.turn(Api::Chat, &Turn::Called(n, n % 3)));
    let all: Vec<String> = bench.turn(Api::Chat, &Turn::User(1)).into_iter().chain(all).map(|message| message.to_string()).collect();
    all.join(",")
}

fn sent(messages: &str, tools: usize) -> Sent {
    let body = format!(r#"{{"model":"m","messages":[{messages}],"tools":{}}}"#, TOOLS[tools]);
    Sent { api: Api::Chat, body, scope: "a", policy: 0, now_ms: NOW_MS + 1000 }
}

/// A cache of this many bytes.
fn cache_of(bytes: usize) -> PrefixCache {
    PrefixCache::new(bytes, [9; 32])
}

/// Bytes of `later` that were found in the cache.
fn shared(bench: &Bench, cache: &PrefixCache, later: &Sent) -> usize {
    let rules = bench.standards[later.policy].rules.clone();
    let owner = PrefixOwner { api: later.api, scope: Scope::client(later.scope), rules };
    let prefix = cache.find(&owner, &Bytes::copy_from_slice(later.body.as_bytes()));
    prefix.shared().map_or(0, |shared| shared.len())
}

#[test]
fn what_is_shared_is_found_and_only_for_its_owner() {
    let bench = Bench::new();
    let cache = cache_of(1 << 20);
    let short = conversation(&bench, 6);
    let first = sent(&short, 0);
    bench.begin(&first, &cache).unwrap();
    let later = sent(&format!("{short},{}", bench.turn(Api::Chat, &Turn::User(2))[0]), 0);
    let end = later.body.find(&short).unwrap() + short.len();
    assert_eq!(shared(&bench, &cache, &later), end);
    // Another caller, another policy, another API: nothing of it is theirs.
    assert_eq!(shared(&bench, &cache, &Sent { scope: "b", ..later.clone() }), 0);
    assert_eq!(shared(&bench, &cache, &Sent { policy: 1, ..later.clone() }), 0);
    assert_eq!(shared(&bench, &cache, &Sent { api: Api::Responses, ..later.clone() }), 0);
    // The same rules loaded again are other rules.
    let again = Bench { standards: Bench::new().standards, ring: bench.ring.clone(), schemas: Arc::default() };
    assert_eq!(shared(&again, &cache, &later), 0);
    // An edit in the middle leaves what stands before it.
    let edited = Sent { body: later.body.replacen("no page 4", "no page 5", 1), ..later.clone() };
    let found = shared(&bench, &cache, &edited);
    assert!(found > 0 && found < edited.body.find("no page 5").unwrap(), "{found}");
    cache.retain(&[bench.standards[1].rules.clone()]);
    assert_eq!((shared(&bench, &cache, &later), cache.size()), (0, (0, 0)), "a reload drops what was kept");
}

#[test]
fn what_was_read_in_another_conversation_is_taken_over() {
    let bench = Bench::new();
    let cache = cache_of(1 << 20);
    let messages = conversation(&bench, 6);
    let first = bench.begin(&sent(&messages, 0), &cache).unwrap();
    // Another first message: nothing of the beginning is shared.
    let turns = messages.split_once("},").unwrap().1;
    let moved = |policy: usize| Sent { policy, ..sent(&format!(r#"{{"role":"system","content":"Be brief."}},{turns}"#), 0) };
    let proofs = |begun: &Begun| -> Vec<_> { begun.context.executions.iter().map(|execution| Arc::as_ptr(&execution.proof)).collect() };
    let (other, under_another_policy) = (bench.begin(&moved(0), &cache).unwrap(), bench.begin(&moved(2), &cache).unwrap());
    let known = |begun: &Begun| proofs(begun).iter().filter(|proof| proofs(&first).contains(proof)).count();
    assert!(
        known(&other) > 0 && known(&other) == other.context.executions.len(),
        "{} of {}",
        known(&other),
        other.context.executions.len()
    );
    assert!(!under_another_policy.context.executions.is_empty());
    assert_eq!(known(&under_another_policy), 0);
}

/// An object may be a message and a block. Read as the one, it says something else than as the other.
#[test]
fn a_message_is_no_block_with_the_same_bytes() {
    let user = r#"{"role":"user","content":"How is order 1?"}"#;
    let parts = r#"[{"type":"text","text":"{\"success\":false,\"n\":1"},{"type":"text","text":"2}"}]"#;
    let found =
        r#"[{"type":"search_result","title":"Error: nothing was found","source":"s","content":[{"type":"text","text":"order 9"}]}]"#;
    for (role, content) in [("assistant", parts), ("user", found)] {
        let (bench, clean, cache) = (Bench::new(), Bench::new(), cache_of(1 << 20));
        let id = bench.mark("a", r#"{"page":1}"#, 1);
        let both = format!(r#"{{"role":"{role}","type":"tool_result","tool_use_id":"{id}","content":{content}}}"#);
        let call =
            format!(r#"{{"role":"assistant","content":[{{"type":"tool_use","id":"{id}","name":"get_orders","input":{{"page":1}}}}]}}"#);
        for messages in [
            format!("{user},{both}"),
            format!(r#"{user},{call},{{"role":"user","content":[{both}]}}"#),
            format!(r#"{user},{call},{{"role":"user","content":[{both}]}},{both}"#),
        ] {
            let body = format!(r#"{{"model":"m","messages":[{messages}],"tools":{}}}"#, SCHEMA_TOOLS[0]);
            let sent = Sent { api: Api::Messages, body, scope: "a", policy: 0, now_ms: NOW_MS + 1000 };
            assert_eq!(bench.outcome(&sent, &cache, true), clean.outcome(&sent, &cache_of(0), true), "{messages}");
        }
    }
}

/// Who reads a result may be told by a call behind it.
#[test]
fn a_result_is_stamped_for_its_reader() {
    let (bench, clean, cache) = (Bench::new(), Bench::new(), cache_of(1 << 20));
    let id = bench.mark("a", r#"{"page":1}"#, 1);
    let call =
        |caller: &str| format!(r#"{{"type":"function_call","call_id":"{id}","name":"get_orders","arguments":"{{\"page\":1}}"{caller}}}"#);
    let first =
        format!(r#"{{"role":"user","content":"How?"}},{},{{"type":"function_call_output","call_id":"{id}","output":"fine"}}"#, call(""));
    let then = format!("{first},{}", call(r#","caller":{"type":"program"}"#));
    for items in [&first, &then, &first] {
        let body = format!(r#"{{"model":"m","input":[{items}],"tools":{}}}"#, FLAT_TOOLS[0]);
        let sent = Sent { api: Api::Responses, body, scope: "a", policy: 0, now_ms: NOW_MS + 1000 };
        assert_eq!(bench.outcome(&sent, &cache, false), clean.outcome(&sent, &cache_of(0), false), "{items}");
    }
}

/// The tools of a request are remembered by their bytes, so that they aren't read twice. Messages with the same bytes are no tools.
#[test]
fn messages_that_are_known_tools_are_read() {
    let bench = Bench::new();
    let both = r#"[{"role":"user","content":"hi","type":"function","function":{"name":"get_orders"}},{"role":"assistant","content":"","tool_calls":[{"id":"call_1","type":"function","function":{"name":"get_orders","arguments":"{}"}}],"type":"function","function":{"name":"b"}}]"#;
    let sent = |messages: &str, tools: &str| {
        let body = format!(r#"{{"model":"m","messages":{messages},"tools":{tools}}}"#);
        Sent { api: Api::Chat, body, scope: "a", policy: 0, now_ms: NOW_MS + 1000 }
    };
    let judged = || {
        let begun = bench.begin(&sent(both, TOOLS[0]), &cache_of(0)).unwrap();
        begun.violations.iter().map(|violation| violation.code).collect::<Vec<_>>()
    };
    let before = judged();
    bench.begin(&sent(r#"[{"role":"user","content":"hi"}]"#, both), &cache_of(0)).unwrap();
    assert!(!before.is_empty());
    assert_eq!(judged(), before);
}

#[test]
fn under_other_tools_nothing_read_is_taken_over() {
    let bench = Bench::new();
    let cache = cache_of(1 << 20);
    let messages = conversation(&bench, 6);
    let first = bench.begin(&sent(&messages, 0), &cache).unwrap();
    let same = bench.begin(&sent(&messages, 0), &cache).unwrap();
    let other = bench.begin(&sent(&messages, 1), &cache).unwrap();
    let proof = |begun: &Begun| Arc::as_ptr(&begun.context.executions[0].proof);
    assert_eq!(proof(&first), proof(&same));
    assert_ne!(proof(&first), proof(&other));
    assert_eq!(first.context.executions, other.context.executions);
}

/// What an answer's judging pays for evidence in a second turn: of twenty results of 4 to 8 KB nothing, of the new one its reading.
#[test]
fn evidence_is_read_once() {
    let bench = Bench::new();
    for api in [Api::Chat, Api::Responses, Api::Messages] {
        let caches = [cache_of(1 << 20), cache_of(0)];
        let mut conversation = bench.turn(api, &Turn::User(1));
        conversation.extend((20..40).flat_map(|n| bench.turn(api, &Turn::Called(n, 4))));
        let readings = |conversation: &[Value], cache: &PrefixCache| {
            let items: Vec<String> = conversation.iter().map(Value::to_string).collect();
            let (name, tools) = members(api, 0);
            let body = format!(r#"{{"model":"m","tools":{tools},"{name}":[{}]}}"#, items.join(","));
            let begun = bench.begin(&Sent { api, body, scope: "a", policy: 0, now_ms: NOW_MS + 1000 }, cache).unwrap();
            let results = &grounds(&begun.context).results;
            results.iter().for_each(|result| assert!(result.text.len() > 4000 && !result.facts().leaves.is_empty()));
            results.iter().map(|result| result.reading.clone()).collect::<Vec<_>>()
        };
        let first = caches.each_ref().map(|cache| readings(&conversation, cache));
        conversation.extend(bench.turn(api, &Turn::Called(41, 4)));
        let second = caches.each_ref().map(|cache| readings(&conversation, cache));
        let known = |at: usize| first[at].iter().zip(&second[at]).filter(|(one, other)| Arc::ptr_eq(one, other)).count();
        assert_eq!((known(0), known(1)), (20, 0), "with the cache and without it");
        assert_eq!(second.each_ref().map(Vec::len), [21, 21], "only the last result is new");
    }
}

#[test]
fn what_was_verified_is_taken_over_up_to_the_last_turn_of_the_model() {
    let bench = Bench::new();
    let cache = cache_of(1 << 20);
    let counts = |begun: &Begun| {
        let count = |beginning: &Option<Arc<HistoryBeginning>>| beginning.as_ref().map(|beginning| beginning.count());
        (count(&begun.context.evidence.known), count(&begun.context.evidence.kept))
    };
    let begin = |messages: &str, tools: usize| counts(&bench.begin(&sent(messages, tools), &cache).unwrap());
    let (short, long) = (conversation(&bench, 4), conversation(&bench, 9));
    assert_eq!(begin(&short, 0), (None, Some(7)));
    assert_eq!(begin(&short, 0), (Some(7), Some(7)));
    assert_eq!(begin(&long, 0), (Some(7), Some(17)));
    assert_eq!(begin(&long, 1), (None, Some(17)), "other tools");
    // What was found up to there is no use to a conversation that parts before.
    let parted = format!("{short},{}", bench.turn(Api::Chat, &Turn::User(2))[0]);
    assert_eq!(begin(&parted, 1), (None, Some(7)));
    // A call that was altered is explained by all others, also by later ones.
    let altered: Vec<String> = bench.turn(Api::Chat, &Turn::Altered(7)).iter().map(Value::to_string).collect();
    let altered = format!("{},{short}", altered.join(","));
    assert_eq!((begin(&altered, 0), begin(&altered, 0)), ((None, None), (None, None)));
}

#[test]
fn what_another_conversation_read_is_weighed_where_little_room_is_left() {
    let bench = Bench::new();
    let text = r#"a long \"text\", "#.repeat(2000);
    let turns: Vec<String> =
        (0..10).map(|n| format!(r#"{{"role":"assistant","content":"{n} {text}"}},{{"role":"user","content":"{n} {text}"}}"#)).collect();
    let body = |front: &str| sent(&format!(r#"{{"role":"system","content":"{front}"}},{}"#, turns.join(",")), 0);
    let weight = {
        let cache = cache_of(64 << 20);
        bench.begin(&body("one"), &cache).unwrap();
        cache.size().1
    };
    let cache = cache_of(weight * 7 / 2);
    bench.begin(&body("one"), &cache).unwrap();
    let other = bench.begin(&body("another"), &cache).unwrap();
    let _read = grounds(&other.context);
    let before = cache.size();
    bench.begin(&body("one"), &cache).unwrap();
    let after = cache.size();
    assert_eq!((before.0, after.0), (2, 2));
    assert!(after.1 > before.1 + turns.len() * text.len(), "{before:?} {after:?}");
}

#[test]
fn many_conversations_stay_within_the_bound() {
    let bench = Bench::new();
    let cache = cache_of(100_000);
    let messages = conversation(&bench, 8);
    for number in 0..60 {
        let body = sent(&format!(r#"{{"role":"system","content":"agent {number}"}},{messages}"#), 0);
        bench.begin(&body, &cache).unwrap();
        assert!(cache.size().1 <= 100_000);
    }
    let (kept, bytes) = cache.size();
    assert!(kept > 1 && bytes > 50_000, "{kept} {bytes}");
    // What goes on replaces what it goes on from.
    let cache = cache_of(1 << 20);
    for turns in 1..8 {
        bench.begin(&sent(&conversation(&bench, turns), 0), &cache).unwrap();
    }
    assert_eq!(cache.size().0, 1);
}
