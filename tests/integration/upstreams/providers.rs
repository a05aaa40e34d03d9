//! Ten providers, as docs/wire-facts.md#providers describes them: what each refuses, and in which form it answers.
//!
//! The provider stands in the path: `/v1/groq/chat/completions`. What it refuses comes back as its own error, so that a
//! scene that ends well shows that nothing of it was sent.

use serde_json::{Value, json};
use toolmark::testing::{Received, ScriptedReply};

pub const ALL: [&str; 10] = ["openai", "cerebras", "groq", "mistral", "ollama", "vllm", "llamacpp", "gemini", "deepseek", "openrouter"];
const CITIES: [&str; 2] = ["Paris", "Rome"];
const SIGNATURE: &str = "c2lnbmF0dXJl";
const THOUGHT: &str = "I should look.";

/// The script.
pub fn serve(received: &Received) -> ScriptedReply {
    let (provider, request) = (received.line.split('/').nth(2).unwrap_or_default().to_owned(), received.json());
    let model = request["model"].as_str().unwrap_or_default().to_owned();
    if model.ends_with("-error") {
        return error(&provider, 400, &format!("bad request of {provider}"));
    }
    if model.ends_with("-breaks") {
        return breaks(&provider);
    }
    if let Some(why) = refused(&provider, &request) {
        return error(&provider, if why.starts_with("Tools with mixed") { 422 } else { 400 }, &why);
    }
    let messages = request["messages"].as_array().cloned().unwrap_or_default();
    let rejected = |message: &Value| message["content"].as_str().is_some_and(|text| text.starts_with("Tool call rejected"));
    let objected = messages.iter().any(|message| {
        message["content"].as_str().is_some_and(|text| text.starts_with("Your last answer was not delivered")) || rejected(message)
    });
    let answered = messages.last().is_some_and(|message| message["role"] == "tool" && !rejected(message));
    match (provider.as_str(), answered, objected) {
        (_, true, _) => says(&provider, &request),
        // Some make a call badly first, and must be asked again.
        ("groq", false, false) => error("groq", 400, "tool_use_failed"),
        ("vllm", false, false) => calls(&provider, &request, "get_weather<|channel|>commentary"),
        _ => calls(&provider, &request, "get_weather"),
    }
}

/// What a provider has against a request.
fn refused(provider: &str, request: &Value) -> Option<String> {
    let says = |name: &str| !request[name].is_null();
    let messages = request["messages"].as_array().cloned().unwrap_or_default();
    let assistants: Vec<&Value> =
        messages.iter().filter(|message| message["role"] == "assistant" && !message["tool_calls"].is_null()).collect();
    let ids = || assistants.iter().flat_map(|message| message["tool_calls"].as_array().unwrap()).filter_map(|call| call["id"].as_str());
    let strict: Vec<bool> =
        request["tools"].as_array().into_iter().flatten().map(|tool| tool["function"]["strict"] == json!(true)).collect();
    let unknown = |message: &Value| ["reasoning_content", "toolmark"].iter().any(|name| message.get(*name).is_some());
    match provider {
        "openai" if ids().any(|id| id.len() > 40) => Some("string too long. Expected a string with maximum length 40".into()),
        "openai" if messages.iter().any(unknown) => Some("Unknown parameter: 'messages[1].reasoning_content'".into()),
        "cerebras" if strict.windows(2).any(|two| two[0] != two[1]) => Some("Tools with mixed values for 'strict' are not allowed.".into()),
        "cerebras" if says("parallel_tool_calls") => Some("parallel_tool_calls is not for this model".into()),
        "groq" if says("logprobs") || says("top_logprobs") || says("logit_bias") => Some("logprobs: no such thing".into()),
        "groq" if messages.iter().any(|message| message.get("name").is_some()) => Some("messages.name: no such thing".into()),
        "groq" if assistants.iter().any(|message| message.get("function_call").is_some_and(Value::is_null)) => Some("null".into()),
        "mistral" if ids().any(|id| id.len() != 9 || !id.bytes().all(|byte| byte.is_ascii_alphanumeric())) => {
            Some("Tool call id must be a-z, A-Z, 0-9, with a length of 9.".into())
        }
        "mistral"
            if !matches!(request["tool_choice"].as_str(), None | Some("auto" | "any" | "none")) || request["tool_choice"].is_object() =>
        {
            Some("tool_choice: one of auto, any, none".into())
        }
        "mistral" if strict.contains(&true) || says("logprobs") => Some("Extra inputs: strict".into()),
        "ollama" if says("tool_choice") => Some("tool_choice was not taken out".into()),
        "llamacpp" if request["parallel_tool_calls"] != json!(true) => Some("one call at a time".into()),
        "gemini"
            if assistants.iter().any(|message| message["tool_calls"][0]["extra_content"]["google"]["thought_signature"] != SIGNATURE) =>
        {
            Some("Function call is missing a thought_signature in functionCall parts".into())
        }
        "deepseek" if assistants.iter().any(|message| message["reasoning_content"] != THOUGHT) => {
            Some("Missing `reasoning_content` field in the assistant message".into())
        }
        _ => None,
    }
}

/// An error in the provider's own form.
fn error(provider: &str, status: u16, message: &str) -> ScriptedReply {
    let body = match provider {
        "cerebras" => json!({"message": message, "type": "invalid_request_error", "param": "x", "code": "wrong_api_format"}),
        "groq" if message == "tool_use_failed" => json!({"error": {
            "message": "Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details.",
            "type": "invalid_request_error", "code": "tool_use_failed", "failed_generation": "<function=get_weather{\"city\": \"Paris\"}</function>",
        }}),
        "mistral" => json!({"object": "error", "message": message, "type": "invalid_function_call", "param": null, "code": "3280"}),
        "vllm" => json!({"object": "error", "message": message, "type": "BadRequestError", "param": null, "code": 400}),
        "llamacpp" => json!({"error": {"code": status, "message": message, "type": "server_error"}}),
        "gemini" => json!([{"error": {"code": status, "message": message, "status": "INVALID_ARGUMENT"}}]),
        "openrouter" => json!({"error": {"code": status, "message": message, "metadata": {"provider_name": "x"}}, "user_id": "u"}),
        _ => json!({"error": {"message": message, "type": "invalid_request_error", "param": null, "code": "scripted"}}),
    };
    // OpenRouter says it in a 200.
    ScriptedReply::json(if provider == "openrouter" { 200 } else { status }, body.to_string())
}

/// A stream that begins well and ends with an error, in the provider's own form.
fn breaks(provider: &str) -> ScriptedReply {
    let error = match provider {
        "cerebras" => json!({"error": {"message": "fell over", "type": "server_error", "param": "", "code": "x"}, "status_code": 503}),
        "openrouter" => json!({
            "id": "gen-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "error": {"code": 502, "message": "fell over"},
            "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}],
        }),
        _ => json!({"error": {"message": "fell over", "type": "server_error", "param": null, "code": "x"}}),
    };
    let begun = chunk(provider, json!({"role": "assistant", "content": "It is sunny in Paris, and "}), Value::Null);
    ScriptedReply::events([format!("data: {begun}\n\n"), format!("data: {error}\n\n")])
}

fn says(provider: &str, request: &Value) -> ScriptedReply {
    let text = "It is 18 degrees in Paris and in Rome.";
    if request["stream"] == json!(true) {
        let deltas = vec![
            json!({"role": "assistant", "content": ""}),
            json!({"content": "It is 18 degrees "}),
            json!({"content": "in Paris and in Rome."}),
        ];
        return stream(provider, deltas, "stop");
    }
    whole(provider, json!({"role": "assistant", "content": text}), "stop")
}

fn id_of(provider: &str, at: usize) -> String {
    match provider {
        "mistral" => format!("abcDEF00{at}"),
        "gemini" => String::new(),
        "vllm" => format!("chatcmpl-tool-6f1ed002ab5595859014ebf0951522d{at}"),
        "ollama" | "cerebras" => format!("call_{at}x"),
        _ => "call_0".to_owned(),
    }
}

fn extra(provider: &str, at: usize) -> Option<Value> {
    (provider == "gemini" && at == 0).then(|| json!({"google": {"thought_signature": SIGNATURE}}))
}

/// The weather in both cities, called in one turn.
fn calls(provider: &str, request: &Value, tool: &str) -> ScriptedReply {
    if request["stream"] == json!(true) {
        let finish = if matches!(provider, "gemini" | "ollama") { "stop" } else { "tool_calls" };
        return stream(provider, deltas(provider, tool), finish);
    }
    let call = |at: usize| {
        let arguments = json!({"city": CITIES[at]}).to_string();
        let mut call = json!({"id": id_of(provider, at), "type": "function", "function": {"name": tool, "arguments": arguments}});
        if let Some(extra) = extra(provider, at) {
            call["extra_content"] = extra;
        }
        call
    };
    let mut message = json!({"role": "assistant", "content": null, "tool_calls": [call(0), call(1)]});
    think(provider, &mut message);
    whole(provider, message, "tool_calls")
}

fn think(provider: &str, message: &mut Value) {
    match provider {
        "deepseek" => message["reasoning_content"] = json!(THOUGHT),
        "cerebras" | "groq" => message["reasoning"] = json!(THOUGHT),
        _ => {}
    }
}

/// The deltas of a turn with two calls, as the provider has them.
fn deltas(provider: &str, tool: &str) -> Vec<Value> {
    let halves = |at: usize| [r#"{"city":"#.to_owned(), format!("\"{}\"}}", CITIES[at])];
    let begun = |at: usize, index: usize, arguments: &str| json!({"index": index, "id": id_of(provider, at), "type": "function", "function": {"name": tool, "arguments": arguments}});
    let more = |index: usize, arguments: &str| json!({"index": index, "function": {"arguments": arguments}});
    let without_index = |mut call: Value| {
        call.as_object_mut().unwrap().remove("index");
        call
    };
    let joined = |at: usize| halves(at).concat();
    let mut deltas = vec![json!({"role": "assistant", "content": null})];
    let mut thought = json!({});
    think(provider, &mut thought);
    deltas.extend(Some(thought).filter(|thought| thought != &json!({})));
    let calls: Vec<Value> = match provider {
        // Whole, in a chunk of its own.
        "mistral" => vec![begun(0, 0, &joined(0)), begun(1, 1, &joined(1))],
        "cerebras" => vec![without_index(begun(0, 0, &joined(0))), without_index(begun(1, 1, &joined(1)))],
        // All of them the first.
        "ollama" => vec![begun(0, 0, &joined(0)), begun(1, 0, &joined(1))],
        // One into the other.
        "llamacpp" => {
            let [one, two] = [halves(0), halves(1)];
            vec![begun(0, 0, ""), begun(1, 1, ""), more(0, &one[0]), more(1, &two[0]), more(0, &one[1]), more(1, &two[1])]
        }
        "gemini" => {
            let [one, two] = [halves(0), halves(1)];
            let signature = json!({"extra_content": extra("gemini", 0)});
            let call = |at: usize, half: &str| without_index(begun(at, at, half));
            vec![call(0, &one[0]), without_index(more(0, &one[1])), signature, call(1, &two[0]), without_index(more(1, &two[1]))]
        }
        _ => (0..2).flat_map(|at| [begun(at, at, ""), more(at, &halves(at)[0]), more(at, &halves(at)[1])]).collect(),
    };
    deltas.extend(calls.into_iter().map(|call| json!({"tool_calls": [call]})));
    deltas
}

fn chunk(provider: &str, delta: Value, finish: Value) -> Value {
    let mut choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
    if provider == "openrouter" {
        choice["native_finish_reason"] = choice["finish_reason"].clone();
    }
    let mut chunk = json!({"id": "c-1", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "m", "choices": [choice]});
    match provider {
        "groq" => chunk["x_groq"] = json!({"id": "req_1"}),
        "openai" => chunk["obfuscation"] = json!("a1b2"),
        "cerebras" => chunk["time_info"] = json!({"queue_time": 0.1}),
        _ => {}
    }
    chunk
}

fn stream(provider: &str, deltas: Vec<Value>, finish: &str) -> ScriptedReply {
    let mut events = Vec::new();
    if provider == "openrouter" {
        events.extend([": OPENROUTER PROCESSING\n\n".to_owned(), ": OPENROUTER PROCESSING\n\n".to_owned()]);
    }
    events.extend(deltas.into_iter().map(|delta| format!("data: {}\n\n", chunk(provider, delta, Value::Null))));
    events.push(format!("data: {}\n\n", chunk(provider, json!({}), json!(finish))));
    events.push("data: [DONE]\n\n".to_owned());
    ScriptedReply::events(events)
}

fn whole(provider: &str, message: Value, finish: &str) -> ScriptedReply {
    let mut choice = json!({"index": 0, "message": message, "finish_reason": finish});
    if provider == "openrouter" {
        choice["native_finish_reason"] = json!(finish);
    }
    let usage = json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15});
    let body =
        json!({"id": "c-1", "object": "chat.completion", "created": 1_700_000_000, "model": "m", "choices": [choice], "usage": usage});
    ScriptedReply::json(200, body.to_string())
}
