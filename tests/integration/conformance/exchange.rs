//! An exchange in neutral terms: what is asked, what the model says attempt by attempt, and what must come of it.
//! Nothing here knows an API; what one can say and the other can't has no place here.

use serde_json::{Value, json};
use toolmark::{policy::PolicyMode, violation::Code};

use super::form::Form;

/// A tool that the request brings.
#[derive(Clone)]
pub enum Tool {
    Function { name: &'static str, description: &'static str, parameters: Value },
    Custom { name: &'static str },
}

/// `tool_choice`
#[derive(Clone, Default)]
pub enum Choice {
    #[default]
    Unsaid,
    None,
    Required,
    Named(&'static str),
    /// At least one of these.
    Allowed(&'static [&'static str]),
}

/// The id of a past call, by the number of its moment; from 900 on the moment is hours ago.
#[derive(Clone, Copy, Eq, PartialEq)]
pub enum Id {
    /// As toolmark marked it.
    Marked(u16),
    /// The mark of another call.
    Altered(u16),
    /// Never seen by toolmark.
    Foreign(u16),
}

#[derive(Clone)]
pub struct PastCall {
    pub id: Id,
    pub tool: &'static str,
    pub arguments: String,
    pub custom: bool,
}

/// A step of the conversation so far.
#[derive(Clone)]
pub enum Step {
    System(&'static str),
    User(String),
    /// What the model said, may be nothing, and called in one turn.
    Turn(&'static str, Vec<PastCall>),
    /// What became of a call.
    Result(Id, String),
}

#[derive(Clone)]
pub struct Request {
    pub tools: Vec<Tool>,
    pub choice: Choice,
    pub parallel: Option<bool>,
    /// The answer is to be JSON.
    pub json: bool,
    pub history: Vec<Step>,
}

/// A part of what the model says.
#[derive(Clone)]
pub enum Said {
    Text(String),
    Refusal(String),
    Call { id: &'static str, tool: String, arguments: Arguments, custom: bool },
}

/// Arguments as upstreams send them.
#[derive(Clone)]
pub enum Arguments {
    /// As a string, which is how they should.
    Text(String),
    Null,
    /// An object or array, not in a string.
    Bare(Value),
}

impl Arguments {
    pub fn json(&self) -> Value {
        match self {
            Self::Text(text) => json!(text),
            Self::Null => Value::Null,
            Self::Bare(value) => value.clone(),
        }
    }

    /// As the application gets them.
    fn said(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Null => "{}".to_owned(),
            Self::Bare(value) => value.to_string(),
        }
    }
}

/// Why the model stopped.
#[derive(Clone, Copy, Eq, PartialEq)]
pub enum Ending {
    Itself,
    Length,
    Filter,
}

/// One attempt's answer.
#[derive(Clone)]
pub enum Turn {
    Says(Vec<Said>, Ending),
    /// The upstream refuses the call that its model made (Groq's `tool_use_failed`).
    CallRefused,
}

/// What the application got.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Got {
    /// What the model said: text, refusal, calls.
    Said(String, String, Vec<(String, String)>),
    /// toolmark's own words, which contain this, behind this much of the model's.
    Words(&'static str, &'static str),
    /// An error with this status and code.
    Error(u16, String),
}

impl Got {
    /// With arguments as the JSON that they are, where the API has no text of them.
    pub fn parsed(&self) -> Self {
        let Self::Said(text, refusal, calls) = self else { return self.clone() };
        let parsed =
            |arguments: &String| serde_json::from_str::<Value>(arguments).map_or_else(|_| arguments.clone(), |own| own.to_string());
        Self::Said(text.clone(), refusal.clone(), calls.iter().map(|(tool, arguments)| (tool.clone(), parsed(arguments))).collect())
    }
}

#[derive(Clone, Debug)]
pub struct Expected {
    pub codes: Vec<Code>,
    pub verdict: &'static str,
    pub repairs: u64,
    /// Where nothing is said, the last turn as the model said it.
    pub got: Option<Got>,
}

/// Forms with an outcome of their own.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Which {
    Streams,
    /// Of both APIs where the application speaks Responses.
    ResponsesApi,
    Translated,
    MessagesApi,
}

/// A row of the table.
#[derive(Clone)]
pub struct Case {
    pub name: &'static str,
    /// A built-in one's name, or TOML.
    pub policy: &'static str,
    pub request: Request,
    pub turns: Vec<Turn>,
    expected: Expected,
    /// Where the outcome is another, why, and what it is.
    pub differs: Vec<(Which, &'static str, Expected)>,
    /// What occurs in no byte that the application gets.
    pub never: Vec<&'static str>,
}

pub const SAFE: &str = "I reported a tool result that I can't back with an execution.\n";
pub const EXHAUSTED: &str = "I could not finish this:";

/// An honest exchange with three tools, to be changed.
pub fn case(name: &'static str) -> Case {
    let tools = vec![
        function("run_speed_test", json!({"type": "object", "properties": {"server": {"type": "string"}}, "required": ["server"]})),
        function(
            "check_net",
            json!({"type": "object", "properties": {"host": {"type": "string"}, "tries": {"type": "integer", "minimum": 1}}}),
        ),
        Tool::Custom { name: "sql" },
    ];
    let history = vec![Step::User("go".into())];
    let request = Request { tools, choice: Choice::Unsaid, parallel: None, json: false, history };
    let expected = Expected { codes: Vec::new(), verdict: "pass", repairs: 0, got: None };
    Case { name, policy: "default", request, turns: Vec::new(), expected, differs: Vec::new(), never: Vec::new() }
}

pub fn function(name: &'static str, parameters: Value) -> Tool {
    Tool::Function { name, description: "", parameters }
}

pub fn text(text: impl Into<String>) -> Said {
    Said::Text(text.into())
}

pub fn call(tool: &str, arguments: &str) -> Said {
    call_as("call_u1", tool, arguments)
}

pub fn call_as(id: &'static str, tool: &str, arguments: &str) -> Said {
    Said::Call { id, tool: tool.into(), arguments: Arguments::Text(arguments.into()), custom: false }
}

pub fn custom(id: &'static str, tool: &str, input: &str) -> Said {
    Said::Call { id, tool: tool.into(), arguments: Arguments::Text(input.into()), custom: true }
}

pub fn past(id: Id, tool: &'static str, arguments: &str) -> PastCall {
    PastCall { id, tool, arguments: arguments.into(), custom: false }
}

/// The tool was asked for and called, and this came of it.
pub fn after(number: u16, result: &str) -> Vec<Step> {
    with_result(Id::Marked(number), result)
}

pub fn with_result(id: Id, result: &str) -> Vec<Step> {
    let turn = Step::Turn("", vec![past(id, "run_speed_test", r#"{"server":"fra1"}"#)]);
    vec![Step::User("How fast?".into()), turn, Step::Result(id, result.into())]
}

pub fn good() -> Said {
    call("run_speed_test", r#"{"server":"ams2"}"#)
}

impl Case {
    pub fn policy(self, policy: &'static str) -> Self {
        Self { policy, ..self }
    }

    pub fn tools(mut self, tools: Vec<Tool>) -> Self {
        self.request.tools = tools;
        self
    }

    pub fn choice(mut self, choice: Choice) -> Self {
        self.request.choice = choice;
        self
    }

    pub fn one_at_a_time(mut self) -> Self {
        self.request.parallel = Some(false);
        self
    }

    pub fn json(mut self) -> Self {
        self.request.json = true;
        self
    }

    pub fn history(mut self, history: Vec<Step>) -> Self {
        self.request.history = history;
        self
    }

    /// The next attempt's answer; the last one comes again and again.
    pub fn model(self, said: impl IntoIterator<Item = Said>) -> Self {
        self.turn(Turn::Says(said.into_iter().collect(), Ending::Itself))
    }

    /// All attempts' answers, instead of those so far.
    pub fn turns(mut self, turns: impl IntoIterator<Item = Vec<Said>>) -> Self {
        self.turns = turns.into_iter().map(|said| Turn::Says(said, Ending::Itself)).collect();
        self
    }

    pub fn turn(mut self, turn: Turn) -> Self {
        self.turns.push(turn);
        self
    }

    pub fn never(mut self, word: &'static str) -> Self {
        self.never.push(word);
        self
    }

    pub fn warns(mut self, codes: &[Code]) -> Self {
        (self.expected.codes, self.expected.verdict) = (codes.to_vec(), "warn");
        self
    }

    /// The verdict stays `pass`.
    pub fn notes(mut self, codes: &[Code]) -> Self {
        self.expected.codes = codes.to_vec();
        self
    }

    pub fn repaired(mut self, codes: &[Code], repairs: u64) -> Self {
        (self.expected.codes, self.expected.verdict, self.expected.repairs) = (codes.to_vec(), "repaired", repairs);
        self
    }

    pub fn replaced(mut self, codes: &[Code], repairs: u64, words: &'static str) -> Self {
        self.expected = Expected { codes: codes.to_vec(), verdict: "blocked", repairs, got: Some(Got::Words("", words)) };
        self
    }

    pub fn refused(mut self, codes: &[Code], repairs: u64, status: u16) -> Self {
        let code = codes[0].as_str().to_owned();
        self.expected = Expected { codes: codes.to_vec(), verdict: "blocked", repairs, got: Some(Got::Error(status, code)) };
        self
    }

    /// What the application got of the model, where that isn't the last turn as it was said.
    pub fn gets(mut self, text: &str, calls: &[(&str, &str)]) -> Self {
        let calls = calls.iter().map(|(tool, arguments)| ((*tool).to_owned(), (*arguments).to_owned())).collect();
        self.expected.got = Some(Got::Said(text.to_owned(), String::new(), calls));
        self
    }

    pub fn differs(mut self, which: Which, why: &'static str, change: impl FnOnce(&mut Expected)) -> Self {
        let mut expected = self.expected.clone();
        change(&mut expected);
        self.differs.push((which, why, expected));
        self
    }

    pub fn mode(&self) -> PolicyMode {
        if self.policy == "observe" { PolicyMode::Observe } else { PolicyMode::Enforce }
    }

    /// The answer to this attempt, which counts from 0.
    pub fn turn_at(&self, attempt: usize) -> &Turn {
        &self.turns[attempt.min(self.turns.len() - 1)]
    }

    /// What must come of it in this form.
    pub fn expected(&self, form: &Form) -> Expected {
        let own = self.differs.iter().find(|(which, ..)| form.is(*which)).map(|(.., expected)| expected);
        let expected = own.unwrap_or(&self.expected).clone();
        let got = expected.got.clone().unwrap_or_else(|| self.turns.last().map_or(Got::Said(String::new(), String::new(), vec![]), said));
        Expected { got: Some(got), ..expected }
    }
}

/// A turn as the application gets it where nothing is changed.
fn said(turn: &Turn) -> Got {
    let (mut words, mut refusal, mut calls) = (String::new(), String::new(), Vec::new());
    match turn {
        Turn::Says(said, _) => {
            for said in said {
                match said {
                    Said::Text(text) => words.push_str(text),
                    Said::Refusal(text) => refusal.push_str(text),
                    Said::Call { tool, arguments, .. } => calls.push((tool.clone(), arguments.said())),
                }
            }
        }
        Turn::CallRefused => {}
    }
    Got::Said(words, refusal, calls)
}
