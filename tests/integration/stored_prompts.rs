//! Stored prompts (`prompt: {"id": …}`): the tools that only the upstream knows are those that its response repeats.
//!
//! Source: OpenAI's API reference, "Create a model response", `prompt`, and "The response object", `tools`.

use serde_json::{Value, json};
use toolmark::testing::{Received, ScriptedReply};

use crate::{
    clients::responses_events::streamed,
    harness::{Fixture, post},
    responses_folded::events,
};

/// A prompt with a tool of its own. It calls `variables.tool` with `variables.arguments`, calls well once it heard of a fault, and tells
/// what came back. `variables.silent`: the response doesn't repeat the tools.
fn prompt(received: &Received) -> ScriptedReply {
    let request = received.json();
    let variables = &request["prompt"]["variables"];
    let items: Vec<Value> = request["input"].as_array().cloned().unwrap_or_default();
    let output = items.iter().rev().find(|item| item["type"] == "function_call_output").and_then(|item| item["output"].as_str());
    let result: Option<Value> = output.and_then(|output| serde_json::from_str(output).ok());
    let execution = result.as_ref().and_then(|result| result["execution_id"].as_str());
    let call = |tool: &Value, arguments: &Value| json!({"type": "function_call", "id": "fc_1", "call_id": format!("call_{}", items.len()), "status": "completed", "name": tool, "arguments": arguments});
    let item = match (execution, output) {
        (Some(id), _) => {
            let text = format!("It is {} degrees in Paris (execution_id: {id}).", variables["tells"]);
            let part = json!({"type": "output_text", "text": text, "annotations": []});
            json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]})
        }
        (None, Some(_)) => call(&json!("get_weather"), &json!(r#"{"city":"Paris"}"#)),
        (None, None) => call(&variables["tool"], &variables["arguments"]),
    };
    let city = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": false});
    let own = json!([{"type": "function", "name": "get_weather", "description": "Weather of a city.", "parameters": city, "strict": true}]);
    let tools = if variables["silent"] == true { json!([]) } else { own };
    let response = json!({
        "id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": "m", "output": [item],
        "prompt": request["prompt"], "tools": tools, "tool_choice": "auto", "parallel_tool_calls": true,
    });
    if request["stream"] == true { streamed(&response, false) } else { ScriptedReply::json(200, response.to_string()) }
}

/// What the application got: the response, and the violations in it.
fn ask(fixture: &Fixture, stream: bool, input: &Value, variables: &Value) -> (Value, String) {
    let request = json!({"model": "m", "stream": stream, "input": input, "prompt": {"id": "pmpt_1", "variables": variables}});
    let answer = post(&format!("{}/responses", fixture.proxy.base_url()), &request.to_string(), "Bearer test");
    assert_eq!(answer.status, 200, "{}", answer.body);
    let said = answer.body.lines().find_map(|line| line.strip_prefix(": toolmark ")).unwrap_or_default().to_owned();
    match stream {
        true => (events(&answer.body).last().unwrap()["response"].clone(), said),
        false => (answer.json(), answer.header("toolmark-violations").to_owned()),
    }
}

fn weather(arguments: &str) -> Value {
    json!({"tool": "get_weather", "arguments": arguments, "tells": 18})
}

#[test]
fn calls_of_a_stored_prompts_tools_are_judged_by_what_the_response_says_of_them() {
    let fixture = Fixture::new("strict", prompt);
    for stream in [false, true] {
        let asked = json!([{"role": "user", "content": "What is the weather in Paris?"}]);
        // A call that fits.
        let (response, violations) = ask(&fixture, stream, &asked, &weather(r#"{"city":"Paris"}"#));
        let call = response["output"][0].clone();
        assert_eq!(call["name"], "get_weather", "{response} {violations}");
        assert!(call["call_id"].as_str().is_some_and(|id| id.starts_with("call_1_")), "no mark: {call}");
        // Its result is verified and stamped, and an answer is compared with it.
        let result = json!({"type": "function_call_output", "call_id": call["call_id"], "output": r#"{"degrees":18,"city":"Paris"}"#});
        let told = |degrees: u8| {
            let history = json!([asked[0], call, result]);
            let (response, violations) = ask(&fixture, stream, &history, &json!({"tells": degrees}));
            (response["output"].to_string(), violations)
        };
        assert!(told(18).0.contains("It is 18 degrees"), "{:?}", told(18));
        assert!(!told(25).0.contains("It is 25 degrees"), "{:?}", told(25));
        // Calls that don't are repaired by that schema.
        for (tool, arguments) in [("get_weather", r#"{"town":"Paris"}"#), ("get_wether", r#"{"city":"Paris"}"#), ("book_trip", "{}")] {
            let sent = fixture.upstream.received().len();
            let (response, violations) = ask(&fixture, stream, &asked, &json!({"tool": tool, "arguments": arguments}));
            let call = &response["output"][0];
            assert_eq!(
                (&call["name"], &call["arguments"]),
                (&json!("get_weather"), &json!(r#"{"city":"Paris"}"#)),
                "{response} {violations}"
            );
            assert_eq!(fixture.upstream.received().len() - sent, 2, "{tool} {arguments}: {violations}");
        }
    }
}

/// Where the response says nothing of tools, nothing is known of them; and who names tools is judged by those.
#[test]
fn without_tools_in_the_response_every_call_is_of_an_unknown_tool() {
    let fixture = Fixture::new("default", prompt);
    for stream in [false, true] {
        let mut variables = weather(r#"{"city":"Paris"}"#);
        variables["silent"] = json!(true);
        let (response, violations) = ask(&fixture, stream, &json!("Weather?"), &variables);
        assert!(
            !response["output"].to_string().contains("function_call") && violations.contains("unknown_tool"),
            "{response} {violations}"
        );
        let own = json!([{"type": "function", "name": "get_time", "parameters": {"type": "object"}}]);
        let request =
            json!({"model": "m", "stream": stream, "input": "Weather?", "tools": own, "prompt": {"id": "p", "variables": weather("{}")}});
        let answer = post(&format!("{}/responses", fixture.proxy.base_url()), &request.to_string(), "Bearer test");
        assert!(answer.body.contains("unknown_tool") || answer.header("toolmark-violations").contains("unknown_tool"), "{}", answer.body);
    }
}
