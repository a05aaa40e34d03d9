//! Tests of an agent written in Rust, with toolmark in the same process: `cargo test --example agent`.
//!
//! A model that is scripted turn by turn, or a cassette, or a fault on purpose: the agent only sees a base URL.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable, reason = "an example of tests fails by a panic")]

use serde_json::{Value, json};
use toolmark::testing::Proxy;

/// The agent under test: asks, runs the tools that are called, and gives back the answer and what was run.
fn agent(proxy: &Proxy, question: &str) -> (String, Vec<String>) {
    let tools = json!([{"type": "function", "function": {"name": "get_weather", "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": false}}}]);
    let mut messages = vec![json!({"role": "user", "content": question})];
    let mut ran = Vec::new();
    loop {
        let answer = proxy.chat(&json!({"model": "gpt-4o", "messages": messages, "tools": tools})).expect("an answer");
        let message = answer.json()["choices"][0]["message"].clone();
        let calls = message["tool_calls"].as_array().cloned().unwrap_or_default();
        if calls.is_empty() {
            return (answer.text(), ran);
        }
        messages.push(message);
        for call in calls {
            ran.push(call["function"]["name"].as_str().unwrap_or_default().to_owned());
            messages.push(json!({"role": "tool", "tool_call_id": call["id"], "content": r#"{"city": "Paris", "degrees": 18}"#}));
        }
    }
}

fn main() {
    let upstream = toolmark::testing::Script::new().say("Hello.").start().expect("an upstream");
    let proxy = Proxy::builder().upstream(&upstream).start().expect("a proxy");
    let (answer, ran): (String, Vec<String>) = agent(&proxy, "Hello?");
    println!("{}", json!({"answer": answer, "ran": Value::from(ran)}));
}

#[cfg(test)]
mod tests {
    use toolmark::testing::Script;

    use super::*;

    #[test]
    fn an_invented_tool_never_reaches_it() {
        let paris = json!({"city": "Paris"});
        let upstream = Script::new()
            .call("get_wether", paris.clone())
            .call("get_weather", paris)
            .say("It is 18 degrees in Paris.")
            .start()
            .expect("an upstream");
        let proxy = Proxy::builder().upstream(&upstream).start().expect("a proxy");
        let (answer, ran) = agent(&proxy, "What is the weather in Paris?");
        assert_eq!((answer.as_str(), ran), ("It is 18 degrees in Paris.", vec!["get_weather".to_owned()]));
        assert_eq!(upstream.received().len(), 3, "the model was asked once more than the agent knows");
    }

    #[test]
    fn it_copes_with_a_model_that_forges() {
        let upstream = Script::new().say("It is 18 degrees in Paris.").start().expect("an upstream");
        let faults = "[[faults]]\nkind = \"forged_citation\"\nrepairs = true";
        let proxy = Proxy::builder().upstream(&upstream).settings(faults).start().expect("a proxy");
        let (answer, ran) = agent(&proxy, "What is the weather in Paris?");
        assert!(answer.starts_with("I reported a tool result that I can't back with an execution."), "{answer}");
        assert!(ran.is_empty());
    }
}
