//! A streamed answer folded as clients fold it, with the rules of docs/wire-facts.md#emission-rules checked on the way.

use serde_json::Value;

use crate::harness::Answer;

/// A call, joined.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Call {
    pub id: String,
    pub kind: String,
    pub name: String,
    pub arguments: String,
}

/// One choice.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Choice {
    pub text: String,
    pub refusal: String,
    pub reasoning: String,
    pub calls: Vec<Call>,
    pub finish: Option<String>,
    roles: usize,
}

/// A whole stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Folded {
    pub choices: Vec<Choice>,
    pub usage: Option<Value>,
    pub error: Option<Value>,
    pub identity: Option<(Value, Value, Value)>,
    /// The last comment of toolmark's.
    pub verdict: Option<Value>,
}

/// Folds a stream, or says which rule it breaks.
pub fn fold(answer: &Answer) -> Folded {
    let mut folded = Folded::default();
    for event in answer.events() {
        assert!(folded.error.is_none(), "rule 5: an error is the last event: {}", answer.body);
        if let Some(error) = event.get("error") {
            assert!(error["message"].is_string(), "rule 5: a nested error: {event}");
            folded.error = Some(error.clone());
            continue;
        }
        let identity = (event["id"].clone(), event["created"].clone(), event["model"].clone());
        assert!(folded.identity.get_or_insert(identity.clone()) == &identity, "one identity: {}", answer.body);
        let choices = event["choices"].as_array().unwrap_or_else(|| panic!("no choices: {event}"));
        choices.iter().for_each(|choice| folded.take(choice, &answer.body));
        // Rule 9: clients keep what the last event says.
        folded.usage = Some(event["usage"].clone()).filter(|usage| !usage.is_null());
    }
    let comment = |line: &str| line.strip_prefix(": toolmark ").map(|json| serde_json::from_str(json).unwrap());
    let verdicts: Vec<Value> = answer.body.lines().filter_map(comment).collect();
    assert!(verdicts.len() <= 1, "one verdict: {}", answer.body);
    folded.verdict = verdicts.into_iter().next();
    if folded.error.is_none() {
        assert!(answer.body.ends_with("data: [DONE]\n\n"), "rule 6: {}", answer.body);
        folded.choices.iter().for_each(|choice| choice.check(&answer.body));
    } else {
        assert!(!answer.body.contains("[DONE]"), "rule 5: {}", answer.body);
    }
    folded
}

impl Folded {
    fn take(&mut self, choice: &Value, body: &str) {
        let index = choice["index"].as_u64().unwrap_or_else(|| panic!("no index: {choice}")) as usize;
        assert!(index <= self.choices.len(), "rule 4: choice {index} before those ahead of it: {body}");
        if index == self.choices.len() {
            self.choices.push(Choice::default());
        }
        self.choices[index].take(choice, body);
    }
}

impl Choice {
    fn take(&mut self, choice: &Value, body: &str) {
        assert!(self.finish.is_none(), "something after the finish_reason: {body}");
        let delta = &choice["delta"];
        if delta["role"].is_string() {
            assert!(self.roles == 0 && self.text.is_empty() && self.calls.is_empty(), "rule 1: role once, and first: {body}");
            self.roles += 1;
        }
        let strings = |value: &Value| match value {
            Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str().or(part.as_str())).collect::<String>(),
            value => value.as_str().unwrap_or_default().to_owned(),
        };
        self.text.push_str(&strings(&delta["content"]));
        self.refusal.push_str(&strings(&delta["refusal"]));
        self.reasoning.push_str(delta["reasoning_content"].as_str().unwrap_or_default());
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            self.call(call, body);
        }
        if let Some(call) = delta.get("function_call").filter(|call| !call.is_null()) {
            let text = |name: &str| call[name].as_str().unwrap_or_default().to_owned();
            self.calls.push(Call { kind: "legacy".into(), name: text("name"), arguments: text("arguments"), ..Call::default() });
        }
        self.finish = choice["finish_reason"].as_str().filter(|reason| !reason.is_empty()).map(str::to_owned);
    }

    fn call(&mut self, call: &Value, body: &str) {
        let index = call["index"].as_u64().unwrap_or_else(|| panic!("rule 2: no index: {body}")) as usize;
        let first = index == self.calls.len();
        assert!(first || index + 1 == self.calls.len(), "rules 2 and 3: indexes in order: {body}");
        if first {
            let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("rule 1: id, type and name: {body}")).to_owned();
            let kind = text(&call["type"]);
            self.calls.push(Call { id: text(&call["id"]), name: text(&call[&kind]["name"]), kind, arguments: String::new() });
        } else {
            assert!(call["id"].is_null() && call["type"].is_null() && call["function"]["name"].is_null(), "rule 1: {body}");
        }
        let own = &mut self.calls[index];
        let inner = if own.kind == "custom" { "input" } else { "arguments" };
        let arguments = &call[&own.kind][inner];
        own.arguments.push_str(arguments.as_str().unwrap_or_else(|| panic!("rule 8: {body}")));
    }

    fn check(&self, body: &str) {
        let finish = self.finish.as_deref().unwrap_or_else(|| panic!("rule 6: no finish_reason: {body}"));
        assert_eq!(self.roles, 1, "rule 1: {body}");
        match self.calls.first() {
            Some(call) if call.kind == "legacy" => assert_eq!(finish, "function_call", "rule 10: {body}"),
            Some(_) => assert!(matches!(finish, "tool_calls" | "length" | "content_filter"), "rule 10: {body}"),
            None => assert!(!matches!(finish, "tool_calls" | "function_call"), "rule 10: {body}"),
        }
    }
}
