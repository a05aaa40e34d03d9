//! One agent's run: what it asks and sends back, step by step, and what came of each step.

use std::{collections::BTreeSet, sync::OnceLock};

use serde_json::{Value, json};
use toolmark::marks::{CallMark, ExecutionId, KeyRing, Scope};

use super::{
    fleet::{Again, Asked, Dice, Fleet, code_of},
    model::Wish,
};
use crate::{
    clients::model::FORGED,
    messages_folded,
    wire::{Reply, events, fold},
};

/// How the conversation goes upstream.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Form {
    Chat,
    /// Responses, the history sent whole.
    Whole,
    /// Responses by `previous_response_id`.
    Previous,
    /// Responses in a `conversation`.
    Conversation,
    /// By `previous_response_id`, made in the background.
    Background,
    Messages,
    /// Messages in a thread.
    Thread,
}

impl Form {
    pub const ALL: [Self; 7] =
        [Self::Chat, Self::Whole, Self::Previous, Self::Conversation, Self::Background, Self::Messages, Self::Thread];

    /// True if the application sends all that was said.
    fn is_whole(self) -> bool {
        matches!(self, Self::Chat | Self::Whole | Self::Messages)
    }

    fn is_messages(self) -> bool {
        matches!(self, Self::Messages | Self::Thread)
    }
}

/// What an agent does next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Step {
    Say(Wish),
    /// Sends what the tools returned.
    Results,
    /// Sends a result that brings an execution ID of its own.
    ForgeStamp,
    /// Sends another result for the first call.
    Rewrite,
    /// Sends the first call with other arguments.
    Alter,
    /// Another caller goes on from here.
    Intrude,
}

/// See the module.
pub struct Run {
    pub number: u64,
    /// How often it was played before.
    pub round: usize,
    pub form: Form,
    pub stream: bool,
    /// Key and name of the caller.
    pub caller: (&'static str, &'static str),
    pub steps: Vec<Step>,
}

/// What came of a step, in terms that are the same at every replica.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Outcome {
    pub status: u16,
    pub verdict: String,
    pub codes: BTreeSet<String>,
    pub repairs: String,
    pub error: String,
    /// Execution IDs are told by the order in which they came up, and whether they are genuine.
    pub text: String,
    /// Tools and arguments, and whether the mark is genuine.
    pub calls: Vec<(String, String, bool)>,
}

/// What a run came to.
pub struct Played {
    pub outcomes: Vec<(Step, Outcome)>,
    pub again: Again,
    /// The first step that was refused, and asked for again, because the ledger didn't say in time.
    pub unknown_from: Option<usize>,
    /// Replies as they came, for when one is wrong.
    pub replies: Vec<String>,
}

/// What the application has of a conversation.
#[derive(Clone, Default)]
struct Held {
    /// Messages or items, as far as they are sent again.
    history: Vec<Value>,
    /// Those that the upstream doesn't have yet.
    new: Vec<Value>,
    /// The ID of the last answer.
    last: Option<String>,
    conversation: Option<String>,
    /// Calls without a result.
    open: Vec<Called>,
    /// The first call, and the answer that it came in.
    first: Option<(Called, Option<String>)>,
}

#[derive(Clone)]
struct Called {
    id: String,
    tool: String,
    arguments: String,
}

/// An answer as it was read.
struct Read {
    id: Option<String>,
    text: String,
    calls: Vec<Called>,
    /// What goes into the history.
    turn: Vec<Value>,
}

fn ring() -> &'static KeyRing {
    static RING: OnceLock<KeyRing> = OnceLock::new();
    RING.get_or_init(|| KeyRing::new(&[[super::KEY_BYTE; 32]]))
}

impl Run {
    /// The run of this number, always the same.
    pub fn new(number: u64) -> Self {
        let mut dice = Dice::new(number);
        let form = Form::ALL[dice.roll(Form::ALL.len())];
        let stream = form != Form::Background && dice.roll(2) == 0;
        let caller = super::CALLERS[usize::from(dice.roll(4) == 0)];
        let begin = if dice.roll(4) == 0 { Wish::Invent } else { Wish::Call };
        let mut steps = vec![Step::Say(begin), if dice.roll(6) == 0 { Step::ForgeStamp } else { Step::Results }];
        for _ in 0..1 + dice.roll(4) {
            let wish = [Wish::Forge, Wish::ForgeThenMend, Wish::Cite, Wish::Misquote][dice.roll(4)];
            match dice.roll(8) {
                0 => steps.extend([Step::Say(Wish::Call), Step::Results]),
                1 if form.is_whole() || matches!(form, Form::Previous | Form::Background) => steps.push(Step::Rewrite),
                2 if form.is_whole() => steps.push(Step::Alter),
                1..4 => steps.push(Step::Intrude),
                _ => steps.push(Step::Say(wish)),
            }
        }
        Self { number, round: 0, form, stream, caller, steps }
    }

    /// The same run once more, whose requests are none that came before.
    pub fn again(number: u64, round: usize) -> Self {
        Self { round, ..Self::new(number) }
    }

    /// A run of the plain caller's in which nothing is wrong: a call, its result, and a further answer.
    pub fn honest(number: u64, form: Form) -> Self {
        let steps = vec![Step::Say(Wish::Call), Step::Results, Step::Say(Wish::Cite)];
        Self { number, round: 0, form, stream: false, caller: super::CALLERS[0], steps }
    }

    /// Plays the run at replicas at random. `told`: called after each step.
    pub fn play(&self, fleet: &Fleet, seed: u64, told: &dyn Fn()) -> Played {
        let mut player = Player {
            run: self,
            fleet,
            dice: Dice::new(seed ^ (self.number << 20)),
            held: Held::default(),
            executions: Vec::new(),
            sent: 0,
            played: Played { outcomes: Vec::new(), again: Again::default(), unknown_from: None, replies: Vec::new() },
            queued: BTreeSet::new(),
        };
        player.begin();
        for step in &self.steps {
            let outcome = player.step(*step);
            player.played.outcomes.push((*step, outcome));
            told();
        }
        player.played
    }
}

struct Player<'r> {
    run: &'r Run,
    fleet: &'r Fleet,
    dice: Dice,
    held: Held,
    /// Execution IDs in the order in which they came up.
    executions: Vec<String>,
    sent: u32,
    /// What was found when a response was asked for that is made in the background.
    queued: BTreeSet<String>,
    played: Played,
}

impl Player<'_> {
    fn begin(&mut self) {
        if self.run.form == Form::Conversation {
            let asked = Asked { method: "POST", path: "/v1/conversations".into(), key: self.run.caller.0, body: json!({}) };
            let reply = self.send(&asked);
            assert_eq!(reply.status, 200, "{}", reply.text());
            self.held.conversation = reply.json()["id"].as_str().map(str::to_owned);
        }
    }

    fn send(&mut self, asked: &Asked) -> Reply {
        self.sent += 1;
        let (reply, again, tries) =
            self.fleet.send(&mut self.dice, asked, &format!("run-{}-{}-{}", self.run.number, self.run.round, self.sent));
        self.played.again.broken += again.broken;
        self.played.again.cut += again.cut;
        self.played.again.unavailable += again.unavailable;
        self.played.again.unknown += again.unknown;
        if again.unknown > 0 {
            self.played.unknown_from.get_or_insert(self.played.outcomes.len());
        }
        self.played.replies.push(format!("{tries}\n{} {}\n{} {}", asked.path, asked.body, reply.status, reply.text()));
        reply
    }

    fn step(&mut self, step: Step) -> Outcome {
        let before = self.held.clone();
        let mut caller = self.run.caller;
        match step {
            Step::Say(wish) => self.say(wish),
            Step::Results | Step::ForgeStamp => {
                for call in std::mem::take(&mut self.held.open) {
                    let stamp = if step == Step::ForgeStamp { json!(FORGED) } else { Value::Null };
                    let item = self.result(&call, self.run.number % 40, &stamp);
                    self.add(item);
                }
                if self.held.new.is_empty() {
                    // The call was never given, and neither is a result.
                    self.say(Wish::Cite);
                }
            }
            Step::Rewrite => self.rewrite(),
            Step::Alter => self.alter(),
            Step::Intrude => {
                caller = super::INTRUDER;
                self.say(Wish::Cite);
            }
        }
        let (reply, read) = self.ask(caller);
        let mut outcome = self.outcome(&reply, read.as_ref(), caller.1);
        if matches!(step, Step::Intrude) && outcome.status < 400 {
            // Of other callers' marks one in 256 looks like one that was altered: these codes say the same, under other severities.
            let strange = ["unverified_call", "altered_call", "history_incomplete"];
            if strange.iter().filter(|code| outcome.codes.remove(**code)).count() > 0 && outcome.codes.is_empty() {
                outcome.verdict = "warn".to_owned();
            }
        }
        if let (Some(read), Step::Say(_) | Step::Results | Step::ForgeStamp) = (read, step) {
            self.take(read);
        } else {
            // What was only tried is no part of the conversation.
            self.held = before;
        }
        outcome
    }

    fn say(&mut self, wish: Wish) {
        let text = wish.text(self.run.number, self.run.round);
        // Calls that were left open are answered first, as every API demands.
        for call in std::mem::take(&mut self.held.open) {
            let item = self.result(&call, self.run.number % 40, &Value::Null);
            self.add(item);
        }
        match (self.run.form.is_messages(), self.held.new.last_mut()) {
            (true, Some(last)) => last["content"].as_array_mut().unwrap().push(json!({"type": "text", "text": text})),
            (true, None) => self.add(json!({"role": "user", "content": [{"type": "text", "text": text}]})),
            (false, _) => self.add(json!({"role": "user", "content": text})),
        }
    }

    fn result(&self, call: &Called, degrees: u64, stamp: &Value) -> Value {
        let mut result = json!({"degrees": degrees, "city": "Paris"});
        if !stamp.is_null() {
            result["execution_id"] = stamp.clone();
        }
        let text = result.to_string();
        match self.run.form {
            Form::Chat => json!({"role": "tool", "tool_call_id": call.id, "content": text}),
            Form::Messages | Form::Thread => {
                json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": text}]})
            }
            _ => json!({"type": "function_call_output", "call_id": call.id, "output": text}),
        }
    }

    fn add(&mut self, item: Value) {
        self.held.new.push(item);
    }

    fn rewrite(&mut self) {
        let Some((call, answer)) = self.held.first.clone() else { return self.say(Wish::Cite) };
        let other = self.result(&call, 77, &Value::Null);
        if !self.run.form.is_whole() {
            (self.held.new, self.held.last) = (vec![other], answer);
            return;
        }
        let is_it = |item: &Value| [&item["tool_call_id"], &item["call_id"], &item["content"][0]["tool_use_id"]].contains(&&json!(call.id));
        if let Some(own) = self.held.history.iter_mut().find(|item| is_it(item) && item["type"] != "function_call") {
            *own = other;
        }
        self.say(Wish::Cite);
    }

    fn alter(&mut self) {
        let Some((call, _)) = self.held.first.clone() else { return self.say(Wish::Cite) };
        for item in &mut self.held.history {
            if item["type"] == "function_call" && item["call_id"] == call.id {
                item["arguments"] = json!(r#"{"city":"Rome"}"#);
            }
            for own in item["tool_calls"].as_array_mut().into_iter().flatten().filter(|own| own["id"] == call.id) {
                own["function"]["arguments"] = json!(r#"{"city":"Rome"}"#);
            }
            for own in item["content"].as_array_mut().into_iter().flatten().filter(|own| own["type"] == "tool_use") {
                if own["id"] == call.id {
                    own["input"] = json!({"city": "Rome"});
                }
            }
        }
        self.say(Wish::Cite);
    }

    /// Asks; where a thread isn't known any more, with the whole conversation in a new one, as clients do.
    fn ask(&mut self, caller: (&'static str, &'static str)) -> (Reply, Option<Read>) {
        let body = self.body(self.held.last.is_none());
        let asked = Asked { method: "POST", path: self.path().into(), key: caller.0, body };
        let mut reply = self.send(&asked);
        let lost = self.run.form == Form::Thread && matches!(&*code_of(&reply), "thread_not_found" | "thread_already_continued");
        if lost && caller == self.run.caller {
            let asked = Asked { body: self.body(true), ..asked };
            reply = self.send(&asked);
        }
        self.queued.clear();
        if self.run.form == Form::Background && reply.status == 200 {
            self.queued.extend(reply.verdict().1);
            reply = self.fetched(reply, caller.0);
        }
        let read = (reply.status == 200).then(|| self.read(&reply));
        (reply, read.flatten())
    }

    /// A response that is made in the background, once it is there.
    fn fetched(&mut self, mut reply: Reply, key: &'static str) -> Reply {
        while matches!(reply.json()["status"].as_str(), Some("queued" | "in_progress")) {
            let path = format!("/v1/responses/{}", reply.json()["id"].as_str().unwrap());
            reply = self.send(&Asked { method: "GET", path, key, body: Value::Null });
            if reply.status != 200 {
                break;
            }
        }
        reply
    }

    fn path(&self) -> &'static str {
        match self.run.form {
            Form::Chat => "/v1/chat/completions",
            Form::Messages | Form::Thread => "/v1/messages",
            _ => "/v1/responses",
        }
    }

    /// The request's body. `whole`: nothing of the conversation is upstream.
    fn body(&self, whole: bool) -> Value {
        let Held { history, new, last, conversation, .. } = &self.held;
        let all = || history.iter().chain(new).cloned().collect::<Value>();
        let own = || new.iter().cloned().collect::<Value>();
        let mut body = json!({"model": "m", "stream": self.run.stream});
        let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
        let (name, description) = ("get_weather", "The weather in a city.");
        match self.run.form {
            Form::Chat => {
                body["messages"] = all();
                body["tools"] = json!([{"type": "function", "function": {"name": name, "description": description, "parameters": schema}}]);
            }
            Form::Messages | Form::Thread => {
                (body["max_tokens"], body["messages"]) = (json!(1000), if self.run.form == Form::Thread && !whole { own() } else { all() });
                if whole || self.run.form == Form::Messages {
                    body["tools"] = json!([{"name": name, "description": description, "input_schema": schema}]);
                }
                match (self.run.form, last) {
                    (Form::Thread, Some(last)) if !whole => {
                        body["thread"] = json!({"type": "continue", "previous_message_id": last});
                    }
                    (Form::Thread, _) => body["thread"] = json!({"type": "create"}),
                    _ => {}
                }
            }
            form => {
                body["tools"] = json!([{"type": "function", "name": name, "description": description, "parameters": schema}]);
                body["input"] = if form == Form::Whole { all() } else { own() };
                if form == Form::Whole {
                    body["store"] = json!(false);
                }
                if let Some(conversation) = conversation {
                    body["conversation"] = json!(conversation);
                } else if let (Form::Previous | Form::Background, Some(last)) = (form, last) {
                    body["previous_response_id"] = json!(last);
                }
                if form == Form::Background {
                    body["background"] = json!(true);
                }
            }
        }
        body
    }

    fn read(&self, reply: &Reply) -> Option<Read> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        if self.run.form.is_messages() {
            let message = if reply.is_stream() { messages_folded::fold(&reply.text()).ok()? } else { reply.json() };
            let blocks = message["content"].as_array()?;
            let said = blocks.iter().map(|block| text(&block["text"])).collect();
            let calls = blocks.iter().filter(|block| block["type"] == "tool_use");
            let calls = calls.map(|call| Called { id: text(&call["id"]), tool: text(&call["name"]), arguments: call["input"].to_string() });
            let turn = vec![json!({"role": "assistant", "content": blocks})];
            return Some(Read { id: message["id"].as_str().map(str::to_owned), text: said, calls: calls.collect(), turn });
        }
        if self.run.form == Form::Chat {
            let message = if reply.is_stream() { folded(&reply.text()) } else { reply.json()["choices"][0]["message"].clone() };
            let calls = message["tool_calls"].as_array().into_iter().flatten();
            let calls = calls.map(|call| Called {
                id: text(&call["id"]),
                tool: text(&call["function"]["name"]),
                arguments: text(&call["function"]["arguments"]),
            });
            let calls = calls.collect();
            return Some(Read { id: None, text: text(&message["content"]), calls, turn: vec![message] });
        }
        let response =
            if reply.is_stream() { crate::responses_folded::events(&reply.text()).pop()?["response"].clone() } else { reply.json() };
        let items = response["output"].as_array()?;
        let parts = items.iter().flat_map(|item| item["content"].as_array().into_iter().flatten());
        let said = parts.map(|part| text(&part["text"])).collect();
        let calls = items.iter().filter(|item| item["type"] == "function_call");
        let calls = calls.map(|call| Called { id: text(&call["call_id"]), tool: text(&call["name"]), arguments: text(&call["arguments"]) });
        Some(Read { id: response["id"].as_str().map(str::to_owned), text: said, calls: calls.collect(), turn: items.clone() })
    }

    /// The answer becomes part of the conversation.
    fn take(&mut self, read: Read) {
        let held = &mut self.held;
        let new = std::mem::take(&mut held.new);
        held.history.extend(new.into_iter().chain(read.turn));
        if held.first.is_none() {
            held.first = read.calls.first().map(|call| (call.clone(), read.id.clone()));
        }
        (held.open, held.last) = (read.calls, read.id);
    }

    fn outcome(&mut self, reply: &Reply, read: Option<&Read>, caller: &str) -> Outcome {
        let (verdict, codes) = reply.verdict();
        let comment = reply.text().lines().find_map(|line| line.strip_prefix(": toolmark ").map(str::to_owned));
        let comment: Value = comment.map(|comment| serde_json::from_str(&comment).unwrap()).unwrap_or_default();
        let repairs = match comment.is_null() {
            // What was fetched before is given again, without what it cost.
            _ if self.run.form == Form::Background => String::new(),
            true => reply.header("toolmark-repairs").to_owned(),
            false => comment["repairs"].to_string(),
        };
        let scope = Scope::client(caller);
        let marked = |call: &Called| {
            let mark = CallMark::parse(&call.id);
            mark.is_some_and(|mark| ring().verify(&mark, &scope, &call.tool, &call.arguments).is_some())
        };
        let calls = read.iter().flat_map(|read| &read.calls).map(|call| (call.tool.clone(), call.arguments.clone(), marked(call)));
        let calls = calls.collect();
        let text = read.map(|read| self.told(&read.text, &scope)).unwrap_or_default();
        let verdict = if self.queued.contains("ledger_unavailable") && verdict == "pass" { "warn".to_owned() } else { verdict };
        let codes = codes.into_iter().chain(std::mem::take(&mut self.queued)).collect();
        Outcome { status: reply.status, verdict, codes, repairs, error: code_of(reply), text, calls }
    }

    /// A text with its execution IDs by their numbers.
    fn told(&mut self, text: &str, scope: &Scope) -> String {
        static IDS: OnceLock<regex::Regex> = OnceLock::new();
        let ids = IDS.get_or_init(|| regex::Regex::new("[A-Za-z0-9_]+_[0-9]{13}_[0-9a-f]{16}").unwrap());
        let name = |found: &regex::Captures<'_>| {
            let id = &found[0];
            let number = self.executions.iter().position(|own| own == id).unwrap_or_else(|| {
                self.executions.push(id.to_owned());
                self.executions.len() - 1
            });
            let genuine = ExecutionId::parse(id).is_some_and(|id| ring().is_execution(&id, scope));
            format!("{}#{number}", if genuine { "genuine" } else { "forged" })
        };
        ids.replace_all(text, name).into_owned()
    }
}

/// The message that a stream of chat completions amounts to.
fn folded(stream: &str) -> Value {
    let folded = fold(&events(stream));
    let Some(choice) = folded.choices.get(&0) else { return Value::Null };
    let mut message = json!({"role": "assistant", "content": choice.texts.get("content")});
    let call = |call: &crate::wire::Call| json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments.clone().unwrap_or_default()}});
    if !choice.calls.is_empty() {
        message["tool_calls"] = choice.calls.iter().map(call).collect();
    }
    message
}
