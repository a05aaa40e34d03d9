//! Calls of a tool that nobody registered, hidden in every shape that some client might still read as a call:
//! none of them reaches the application, whole or streamed.

use serde_json::json;
use toolmark::testing::ScriptedReply as Scripted;

use crate::{
    harness::Fixture,
    wire::{self, Connection},
};

/// What only the bad call says; nothing that toolmark writes itself repeats it.
const SIGN: &str = "EVILARG";
const POLICY: &str = "[calls]\nmax_repairs = 0\n";

/// Members of a message or delta. `B` is the body of the bad call, `G` that of a good one.
const MEMBERS: &[&str] = &[
    r#""tool_calls":[{"index":0,"id":"x","type":"function","function":B}]"#,
    r#""tool_calls":[{"id":"x","function":B}]"#,
    r#""tool_calls":[{"index":0,"id":"x","type":"function","function":G},{"index":1,"id":"y","type":"function","function":B}]"#,
    r#""tool_calls":[{"index":0,"id":"x","type":"function","function":G},{"index":0,"id":"y","type":"function","function":B}]"#,
    r#""tool_calls":[{"index":0,"id":"x","type":"function","function":G},{"index":0,"id":"x","type":"function","function":B}]"#,
    r#""tool_calls":[{"index":0.0,"id":"x","type":"function","function":B}]"#,
    r#""tool_calls":[{"index":"0","id":"x","type":"function","function":B}]"#,
    r#""tool_calls":[{"index":-1,"id":"x","type":"function","function":B}]"#,
    r#""tool_calls":{"0":{"id":"x","type":"function","function":B}}"#,
    r#""tool_calls":{"id":"x","type":"function","function":B}"#,
    r#""tool_calls":[[{"id":"x","type":"function","function":B}]]"#,
    r#""tool_calls":[{"index":0,"id":"x","type":"custom","custom":{"name":"evil","input":"EVILARG"}}]"#,
    r#""tool_calls":[{"index":0,"id":"x","type":"function","function":G,"custom":{"name":"evil","input":"EVILARG"}}]"#,
    r#""tool_calls":[{"index":0,"id":"x","type":"custom","function":G,"custom":{"name":"evil","input":"EVILARG"}}]"#,
    r#""tool_calls":[{"index":0,"id":"x","type":"mcp","function":B}]"#,
    r#""tool_calls":[{"index":0,"id":"x","type":"mcp","name":"evil","arguments":"{\"a\":\"EVILARG\"}"}]"#,
    r#""tool_calls":[{"index":0,"id":"x","type":"function","function":{"name":"good","name":"evil","arguments":"{\"a\":\"EVILARG\"}"}}]"#,
    r#""tool_calls":[{"index":0,"id":"x","type":"function","function":G,"function":B}]"#,
    r#""tool_calls":[{"index":0,"id":"x","type":"function","function":G}],"tool_calls":[{"index":0,"id":"y","type":"function","function":B}]"#,
    r#""tool_calls":[{"index":0,"id":"x","type":"function","function":G}],"tool_c\u0061lls":[{"index":0,"id":"y","type":"function","function":B}]"#,
    r#""tool_calls":[{"index":0,"id":"x","type":"function","function":{"n\u0061me":"evil","arguments":"{\"a\":\"EVILARG\"}"}}]"#,
    r#""tool_calls":[{"index":0,"id":"x","type":"function","function":{"name":"good","arguments":"{}","Name":"evil","Arguments":"{\"a\":\"EVILARG\"}"}}]"#,
    r#""tool_calls":[{"index":0,"id":"x","type":"function","function":G,"Function":B}]"#,
    r#""function_call":B"#,
    r#""function_call":B,"tool_calls":[{"index":0,"id":"x","type":"function","function":G}]"#,
    r#""tool_calls":[{"index":0,"id":"x","type":"function","function":G}],"function_call":B"#,
    r#""tool_call":{"id":"x","type":"function","function":B}"#,
    r#""function_calls":[B]"#,
];

/// Members of a choice, beside an innocent message or delta.
const BESIDE: &[&str] = &[r#""tool_calls":[{"id":"x","type":"function","function":B}]"#, r#""function_call":B"#];

fn fill(shape: &str) -> String {
    let bad = r#"{"name":"evil","arguments":"{\"a\":\"EVILARG\"}"}"#;
    let filled = shape.replace(":B", &format!(":{bad}")).replace("[B]", &format!("[{bad}]"));
    filled.replace(":G", r#":{"name":"good","arguments":"{}"}"#)
}

#[test]
fn no_hidden_call_arrives() {
    let fixture = Fixture::with_policy(POLICY, "", |received| {
        let served =
            received.headers.get("x-served").map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).unwrap_or_default();
        if received.json()["stream"] == true { Scripted::chunks(served.split('\t')) } else { Scripted::json(200, served) }
    });
    let address = fixture.proxy.address();
    let mut connection = Connection::open(address);
    let good = json!([{"type": "function", "function": {"name": "good", "parameters": {"type": "object"}}}]);
    let mut ask = |served: String, stream: bool, tools: bool| {
        let mut request = json!({"model": "m", "stream": stream, "messages": [{"role": "user", "content": "hi"}]});
        if tools {
            request["tools"] = good.clone();
        }
        let reply = connection.post("/v1/chat/completions", &format!("x-served: {served}\r\n"), request.to_string().as_bytes());
        assert!(!reply.text().contains(SIGN), "{served}\ncame through as {} {}", reply.status, reply.text());
        if !reply.whole {
            // A stream that can't be passed on says so, and breaks off.
            assert!(
                reply.is_stream() && reply.text().contains(r#""error":{"#),
                "{served}\ncame through as {} {}",
                reply.status,
                reply.text()
            );
            connection = Connection::open(address);
        }
        if reply.is_stream() {
            assert!(
                wire::events(&reply.text()).iter().all(|event| event["choices"][0]["delta"]["tool_calls"].is_null()),
                "{}",
                reply.text()
            );
        }
    };
    for tools in [true, false] {
        for members in MEMBERS {
            let members = fill(members);
            ask(
                format!(r#"{{"choices":[{{"index":0,"message":{{"role":"assistant",{members}}},"finish_reason":"tool_calls"}}]}}"#),
                false,
                tools,
            );
            let end = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#;
            for place in ["delta", "message"] {
                ask(format!("{{\"choices\":[{{\"index\":0,\"{place}\":{{{members}}}}}]}}\t{end}"), true, tools);
            }
            // In the last event, and after it.
            ask(
                format!("{{\"choices\":[{{\"index\":0,\"delta\":{{{members}}},\"finish_reason\":\"stop\"}}]}}\t{{\"choices\":[]}}"),
                true,
                tools,
            );
            ask(format!("{end}\t{{\"choices\":[{{\"index\":0,\"delta\":{{{members}}}}}]}}"), true, tools);
            ask(format!("{end}\t{{{members}}}"), true, tools);
        }
        for beside in BESIDE {
            let beside = fill(beside);
            ask(
                format!(r#"{{"choices":[{{"index":0,"message":{{"role":"assistant","content":"x"}},{beside},"finish_reason":"stop"}}]}}"#),
                false,
                tools,
            );
            ask(
                format!(r#"{{"choices":[{{"index":0,"message":{{"role":"assistant","content":"x"}},"finish_reason":"stop"}}],{beside}}}"#),
                false,
                tools,
            );
            ask(format!("{{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"x\"}},{beside}}}]}}\t{{\"choices\":[]}}"), true, tools);
            ask(format!("{{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"x\"}}}}],{beside}}}\t{{\"choices\":[]}}"), true, tools);
            ask(
                format!("{{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"x\"}},\"message\":{{{beside}}}}}]}}\t{{\"choices\":[]}}"),
                true,
                tools,
            );
        }
    }
}

/// Clients that read a stream line by line take each `data:` line for an event: one event is one line.
#[test]
fn no_event_hides_in_another() {
    let fixture = Fixture::with_policy(POLICY, "", |received| {
        let api = if received.line.contains("responses") { "r" } else { "c" };
        let bad = if api == "c" {
            r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"x","type":"function","function":{"name":"evil","arguments":"{}"}}]}}]}"#
        } else {
            r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","call_id":"x","name":"evil","arguments":"{}"}}"#
        };
        let end = if api == "c" {
            r#"{"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}]}"#
        } else {
            r#"{"type":"response.completed","response":{"id":"r","output":[{"type":"message","content":[{"type":"output_text","text":"x"}]}]}}"#
        };
        let hidden = format!("data: {{\"type\":\"response.x\",\"choices\":[],\"x\":[\ndata: {bad},\ndata: 1]}}\n\n");
        Scripted::events(vec![hidden, format!("data: {end}\n\n")])
    });
    let mut connection = Connection::open(fixture.proxy.address());
    for (path, said) in [("/v1/chat/completions", "messages"), ("/v1/responses", "input")] {
        let request = json!({"model": "m", "stream": true, said: [{"role": "user", "content": "hi"}]});
        let reply = connection.post(path, "", request.to_string().as_bytes());
        let text = reply.text();
        let lines = text.lines().filter_map(|line| line.strip_prefix("data: "));
        assert!(
            lines.into_iter().all(|line| !line.starts_with("{\"choices\":[{\"index\":0,\"delta\":{\"tool")
                && !line.starts_with("{\"type\":\"response.output_item")),
            "{text}"
        );
    }
}
