//! The forms in which one exchange can be had: an API for the application, one for the upstream, whole or streamed.

use std::collections::BTreeSet;

use serde_json::Value;
use toolmark::{policy::PolicyMode, testing::ScriptedReply};

use super::{
    chat::Chat,
    exchange::{Case, Got, Request, Turn, Which},
    messages::{Messages, without_custom},
    responses::Responses,
};
use crate::harness::Answer;

/// An API: how neutral terms are said in it, and how they are read out of it.
pub trait Api: Sync {
    /// Its path below `/v1`.
    fn path(&self) -> &'static str;
    /// Can the case be said in this API?
    ///
    /// # Errors
    /// What can't be said.
    fn says(&self, _: &Case) -> Result<(), &'static str> {
        Ok(())
    }
    /// Code of an error, whole or as the last event.
    fn error<'b>(&self, body: &'b Value) -> &'b str {
        body["error"]["code"].as_str().unwrap_or_default()
    }
    /// The request's body but for `model` and `stream`.
    fn request(&self, request: &Request) -> Value;
    /// What else a request says that asks for a stream and its usage.
    fn stream(&self, body: &mut Value);
    /// A turn as the upstream says it, whole.
    fn whole(&self, said: &Turn) -> Value;
    /// The same as server-sent events.
    fn streamed(&self, said: &Turn) -> String;
    /// What a whole answer gives the application.
    fn read_whole(&self, body: &Value) -> Read;
    /// The same of a stream that keeps the API's rules.
    ///
    /// # Errors
    /// Which rule it breaks.
    fn read_stream(&self, answer: &Answer) -> Result<Read, String>;
    /// Would the upstream take this request?
    ///
    /// # Errors
    /// Why it wouldn't.
    fn legal(&self, body: &Value) -> Result<(), String>;
}

/// A call as the application got it.
#[derive(Clone, Debug)]
pub struct Called {
    pub id: String,
    pub tool: String,
    pub arguments: String,
    /// The arguments that its mark was made for.
    pub marked: String,
}

impl Called {
    pub fn new(id: String, tool: String, arguments: String) -> Self {
        Self { id, tool, marked: arguments.clone(), arguments }
    }
}

/// What an answer gives the application.
pub enum Read {
    Said {
        text: String,
        refusal: String,
        calls: Vec<Called>,
        usage: Value,
    },
    /// The code of the error that a stream ends in.
    Error(String),
}

/// See the module.
pub struct Form {
    pub name: &'static str,
    pub downstream: &'static dyn Api,
    pub upstream: &'static dyn Api,
    pub streamed: bool,
}

/// Every form there is. Each case runs in each in which it can be said; there is no way to leave one out.
pub static FORMS: [Form; 14] = [
    Form { name: "chat whole", downstream: &Chat, upstream: &Chat, streamed: false },
    Form { name: "chat streamed", downstream: &Chat, upstream: &Chat, streamed: true },
    Form { name: "responses whole", downstream: &Responses, upstream: &Responses, streamed: false },
    Form { name: "responses streamed", downstream: &Responses, upstream: &Responses, streamed: true },
    Form { name: "messages whole", downstream: &Messages, upstream: &Messages, streamed: false },
    Form { name: "messages streamed", downstream: &Messages, upstream: &Messages, streamed: true },
    Form { name: "responses from chat whole", downstream: &Responses, upstream: &Chat, streamed: false },
    Form { name: "responses from chat streamed", downstream: &Responses, upstream: &Chat, streamed: true },
    Form { name: "messages from chat whole", downstream: &Messages, upstream: &Chat, streamed: false },
    Form { name: "messages from chat streamed", downstream: &Messages, upstream: &Chat, streamed: true },
    Form { name: "chat from messages whole", downstream: &Chat, upstream: &Messages, streamed: false },
    Form { name: "chat from messages streamed", downstream: &Chat, upstream: &Messages, streamed: true },
    Form { name: "responses from messages whole", downstream: &Responses, upstream: &Messages, streamed: false },
    Form { name: "responses from messages streamed", downstream: &Responses, upstream: &Messages, streamed: true },
];

/// What the application saw, in neutral terms.
#[derive(Clone, Debug)]
pub struct Seen {
    pub codes: BTreeSet<String>,
    pub verdict: String,
    pub repairs: u64,
    pub got: Got,
    /// With their ids.
    pub calls: Vec<Called>,
    /// `total_tokens`
    pub tokens: u64,
}

impl Form {
    pub fn is(&self, which: Which) -> bool {
        match which {
            Which::Streams => self.streamed,
            Which::ResponsesApi => self.downstream.path() == Responses.path(),
            Which::Translated => self.is_translated(),
            Which::MessagesApi => self.downstream.path() == Messages.path(),
        }
    }

    fn is_translated(&self) -> bool {
        self.downstream.path() != self.upstream.path()
    }

    /// Name of the upstream of the stage that has this form.
    pub fn upstream_name(&self) -> &'static str {
        match self.upstream.path() {
            _ if !self.is_translated() => "native",
            "/messages" => "messages-only",
            _ => "chat-only",
        }
    }

    /// True if the case can be said in both of its APIs.
    pub fn says(&self, case: &Case) -> bool {
        self.downstream.says(case).and(self.upstream.says(case)).is_ok()
    }

    /// An attempt's answer of the upstream. `cut`: how the pieces of a stream are made.
    pub fn reply(&self, turn: &Turn, cut: impl Fn(String) -> ScriptedReply) -> ScriptedReply {
        let turn = if self.is(Which::MessagesApi) { &without_custom(turn) } else { turn };
        match turn {
            Turn::CallRefused => ScriptedReply::json(400, CALL_REFUSED),
            Turn::Says(..) if self.streamed => cut(self.upstream.streamed(turn)),
            Turn::Says(..) => ScriptedReply::json(200, self.upstream.whole(turn).to_string()),
        }
    }

    /// Reads an answer.
    ///
    /// # Errors
    /// Which rule it breaks.
    pub fn read(&self, answer: &Answer, mode: PolicyMode) -> Result<Seen, String> {
        let (mut codes, mut verdict) = (answer.header("toolmark-violations").to_owned(), answer.header("toolmark-verdict").to_owned());
        let mut repairs = answer.header("toolmark-repairs").parse().unwrap_or(0);
        if answer.header("toolmark-exchange").is_empty() {
            return Err("no toolmark-exchange".into());
        }
        let read = if answer.status >= 400 {
            Read::Error(self.downstream.error(&answer.json()).to_owned())
        } else if self.streamed {
            if let Some(comment) = answer.body.lines().find_map(|line| line.strip_prefix(": toolmark ")) {
                let comment: Value = serde_json::from_str(comment).map_err(|error| error.to_string())?;
                let mut events = answer.events();
                events.pop_if(|last| last["type"] == "message_stop");
                member(&comment, &events.pop().unwrap_or_default())?;
                codes = listed(&comment);
                verdict = comment["verdict"].as_str().unwrap_or_default().to_owned();
                repairs = comment["repairs"].as_u64().unwrap_or_default();
            }
            self.downstream.read_stream(answer)?
        } else {
            let body = answer.json();
            if verdict != "pass"
                && mode == PolicyMode::Enforce
                && (body["toolmark"]["verdict"] != *verdict || listed(&body["toolmark"]) != codes)
            {
                return Err(format!("the header says {verdict} {codes}, the member {}", body["toolmark"]));
            }
            self.downstream.read_whole(&body)
        };
        let codes = codes.split(',').filter(|code| !code.is_empty()).map(str::to_owned).collect();
        Ok(match read {
            Read::Error(code) => Seen { codes, verdict, repairs, got: Got::Error(answer.status, code), calls: Vec::new(), tokens: 0 },
            Read::Said { text, refusal, calls, usage } => {
                let bare = calls.iter().map(|call| (call.tool.clone(), call.arguments.clone())).collect();
                let tokens = usage["total_tokens"].as_u64().unwrap_or_default();
                Seen { codes, verdict, repairs, got: Got::Said(text, refusal, bare), calls, tokens }
            }
        })
    }
}

/// A verdict other than `pass` is said twice.
fn member(comment: &Value, last: &Value) -> Result<(), String> {
    let member = if last["response"].is_object() { &last["response"]["toolmark"] } else { &last["toolmark"] };
    let failed = !last["error"].is_null() || last["type"] == "response.failed";
    if comment["verdict"] == "pass" || failed || member == comment {
        Ok(())
    } else {
        Err(format!("the comment is {comment}, the member {member}"))
    }
}

fn listed(verdict: &Value) -> String {
    let codes = verdict["violations"].as_array().into_iter().flatten().filter_map(Value::as_str);
    codes.collect::<Vec<_>>().join(",")
}

/// A text in small pieces, whole characters.
pub fn pieces(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    chars.chunks(if chars.len() > 4000 { 512 } else { 7 }).map(|piece| piece.iter().collect()).collect()
}

const CALL_REFUSED: &str = r#"{"error":{"message":"Failed to call a function.","type":"invalid_request_error","code":"tool_use_failed","failed_generation":"<function=speed{\"s3cret\": 1}"}}"#;
