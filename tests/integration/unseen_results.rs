//! Results of which toolmark can't read all: images, files, those of the upstream's own tools, and those without content. What only the
//! model saw is never called made up, in any API, whole or streamed; what a result says in words is still compared.

use serde_json::{Value, json};
use toolmark::testing::{Received, ScriptedReply};

use crate::{
    clients::responses_events::streamed,
    harness::{Fixture, post},
    responses_folded::events,
};

/// Text for an answer, and the execution id that stands in the request: the first `PLACE` becomes the citation.
fn cite(template: &str, received: &Received) -> String {
    let body = received.json().to_string();
    let id = body.match_indices("_17").find_map(|(at, _)| {
        let start = body[..at].rfind(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))).map_or(0, |before| before + 1);
        let end =
            body[at..].find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))).map_or(body.len(), |length| at + length);
        body[start..end].split('_').next_back().filter(|hex| hex.len() == 16).map(|_| body[start..end].to_owned())
    });
    template.replace("PLACE", &id.map_or_else(|| "(no id)".to_owned(), |id| format!("(execution_id: {id})")))
}

/// The upstream of the Messages API: it calls, and once there is a result it tells what the system prompt says.
fn messages_model(received: &Received) -> ScriptedReply {
    let request = received.json();
    let turns = request["messages"].as_array().cloned().unwrap_or_default();
    let has_result = turns.iter().any(|turn| turn["content"].to_string().contains("tool_result"));
    let call = json!({"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"path": "a"}});
    let (block, stop) = match has_result {
        true => (json!({"type": "text", "text": cite(request["metadata"]["user_id"].as_str().unwrap_or_default(), received)}), "end_turn"),
        false => (call, "tool_use"),
    };
    let answer = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [block], "stop_reason": stop, "stop_sequence": null,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    });
    ScriptedReply::json(200, answer.to_string())
}

/// The verdict's violations and the text that comes of a result's content. `content`: the result's, or null for none.
fn told_of(fixture: &Fixture, content: &Value, answer: &str) -> (String, String) {
    let url = format!("{}/messages", fixture.proxy.base_url());
    let tools = json!([{"name": "look", "description": "Looks at a file.", "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}}}]);
    let mut messages = vec![json!({"role": "user", "content": "What does it say?"})];
    let ask = |messages: &[Value]| {
        let request = json!({"model": "m", "max_tokens": 99, "messages": messages, "tools": tools, "metadata": {"user_id": answer}});
        let answer = post(&url, &request.to_string(), "Bearer test");
        assert_eq!(answer.status, 200, "{}", answer.body);
        (answer.json(), answer.header("toolmark-violations").to_owned())
    };
    let (called, _) = ask(&messages);
    messages.push(json!({"role": "assistant", "content": called["content"]}));
    let mut result = json!({"type": "tool_result", "tool_use_id": called["content"][0]["id"], "content": content});
    if content.is_null() {
        result.as_object_mut().unwrap().remove("content");
    }
    messages.push(json!({"role": "user", "content": [result]}));
    let (answered, violations) = ask(&messages);
    (answered["content"][0]["text"].as_str().unwrap_or_default().to_owned(), violations)
}

#[test]
fn what_an_image_or_a_file_shows_is_not_compared() {
    let fixture = Fixture::new("strict", messages_model);
    let image = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}});
    let file = json!({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}});
    let words = json!({"type": "text", "text": "{\"pages\": 3}"});
    let told = "The receipt totals 45.90 euros: https://pay.acme.org/r/7 PLACE.";
    for content in [json!([image]), json!([file]), json!([words, image])] {
        let (text, violations) = told_of(&fixture, &content, told);
        assert!(text.contains("45.90") && violations.is_empty(), "{content}: {text} {violations}");
    }
    // In words alone it isn't there.
    let (text, violations) = told_of(&fixture, &json!([words]), told);
    assert!(!text.contains("45.90") && !violations.is_empty(), "{text} {violations}");
}

#[test]
fn search_results_and_documents_in_words_are_read() {
    let fixture = Fixture::new("strict", messages_model);
    let part = json!({"type": "text", "text": "Refunds within 30 days."});
    let found = json!([{"type": "search_result", "source": "https://kb.acme.org/refunds", "title": "Refunds", "content": [part]}]);
    let given = json!([{"type": "document", "title": "Refunds", "source": {"type": "text", "media_type": "text/plain", "data": "Refunds within 30 days: https://kb.acme.org/refunds"}}]);
    for content in [found, given] {
        for (told, passes) in [
            ("Refunds: 30 days, https://kb.acme.org/refunds PLACE.", true),
            ("Refunds: 45 days PLACE.", false),
            ("Refunds: 30 days, https://kb.acme.org/returns PLACE.", false),
        ] {
            let (text, violations) = told_of(&fixture, &content, told);
            assert_eq!((text.starts_with("Refunds: "), violations.is_empty()), (passes, passes), "{content}: {text} {violations}");
        }
    }
}

#[test]
fn a_result_without_content_can_be_cited() {
    let fixture = Fixture::new("strict", messages_model);
    let (text, violations) = told_of(&fixture, &Value::Null, "The tool returned nothing PLACE.");
    assert!(text.starts_with("The tool returned nothing") && violations.is_empty(), "{text} {violations}");
    let sent = fixture.upstream.received().last().unwrap().json();
    let content = sent["messages"][2]["content"][0]["content"].to_string();
    assert!(content.contains("[execution_id: look_"), "{content}");
}

/// The upstream of the Responses API: it searches the web and calls, and once there is an output it tells what `metadata` says.
fn responses_model(received: &Received) -> ScriptedReply {
    let request = received.json();
    let has_output = request["input"].to_string().contains("function_call_output");
    let search = json!({"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "fair"}});
    let call = json!({"type": "function_call", "id": "fc_1", "call_id": "call_1", "status": "completed", "name": "look", "arguments": "{\"path\":\"a\"}"});
    let text = cite(request["metadata"]["tells"].as_str().unwrap_or_default(), received);
    let said = json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": text, "annotations": []}]});
    let searches = request["metadata"]["searches"].as_str().unwrap_or_default();
    let output = match (has_output, searches) {
        (true, "late") => vec![search, said],
        (true, _) => vec![said],
        (false, "early") => vec![search, call],
        (false, _) => vec![call],
    };
    let id = if has_output { "resp_2" } else { "resp_1" };
    let response = json!({
        "id": id, "object": "response", "created_at": 1, "status": "completed", "model": "m", "output": output, "tools": request["tools"],
        "tool_choice": "auto", "parallel_tool_calls": true, "metadata": {},
    });
    if request["stream"] == true { streamed(&response, false) } else { ScriptedReply::json(200, response.to_string()) }
}

#[test]
fn what_the_upstreams_own_search_found_is_not_compared() {
    let fixture = Fixture::new("strict", responses_model);
    let url = format!("{}/responses", fixture.proxy.base_url());
    let tools = json!([{"type": "web_search"}, {"type": "function", "name": "look", "description": "Looks at a file.", "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}}]);
    let tells = "The file has 3 pages, and the fair has 120 stalls (https://fair.acme.org/ghent) PLACE.";
    // Whether the search came before the call, before the answer, or not at all; with the whole history, or none of it.
    for (searches, stored, passes) in [
        ("early", false, true),
        ("early", true, true),
        ("late", false, true),
        ("late", true, true),
        ("never", false, false),
        ("never", true, false),
    ] {
        for stream in [false, true] {
            let ask = |input: &Value, previous: Option<&Value>| {
                let mut request = json!({"model": "m", "stream": stream, "input": input, "tools": tools, "metadata": {"tells": tells, "searches": searches}});
                if let Some(previous) = previous {
                    request["previous_response_id"] = previous.clone();
                }
                let answer = post(&url, &request.to_string(), "Bearer test");
                assert_eq!(answer.status, 200, "{}", answer.body);
                if stream { events(&answer.body).last().unwrap()["response"].clone() } else { answer.json() }
            };
            let asked = json!({"role": "user", "content": "How long is the file, and when is the fair?"});
            let first = ask(&json!([asked]), None);
            let items = first["output"].as_array().unwrap();
            let call = items.iter().find(|item| item["type"] == "function_call").unwrap();
            let output = json!({"type": "function_call_output", "call_id": call["call_id"], "output": "{\"pages\": 3}"});
            let last = match stored {
                true => ask(&json!([output]), Some(&first["id"])),
                false => ask(&[&[asked][..], items, &[output]].concat().into(), None),
            };
            let text = last["output"].to_string();
            assert_eq!(text.contains("120 stalls"), passes, "{searches}, stored {stored}, streamed {stream}: {text}");
        }
    }
}

/// The upstream of the chat API: it calls `look` twice, one after the other, and then tells what `user` says.
fn chat_model(received: &Received) -> ScriptedReply {
    let request = received.json();
    let results = request["messages"].as_array().into_iter().flatten().filter(|message| message["role"] == "tool").count();
    let call = json!({"id": format!("call_{results}"), "type": "function", "function": {"name": "look", "arguments": "{\"path\":\"a\"}"}});
    let message = match results {
        0 | 1 => json!({"role": "assistant", "content": null, "tool_calls": [call]}),
        _ => json!({"role": "assistant", "content": cite(request["user"].as_str().unwrap_or_default(), received)}),
    };
    let finish = if results < 2 { "tool_calls" } else { "stop" };
    let answer = json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": finish}]});
    ScriptedReply::json(200, answer.to_string())
}

/// What a picture of the user's shows isn't made up, also where the beginning of the conversation is known from earlier requests; and the
/// next turn has none.
#[test]
fn a_picture_of_the_users_counts_for_its_turn() {
    let fixture = Fixture::new("strict", chat_model);
    let tools = json!([{"type": "function", "function": {"name": "look", "description": "Looks at a file.", "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}}}]);
    let picture = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}});
    for (content, passes) in [(json!([{"type": "text", "text": "What is on it?"}, picture]), true), (json!("What is on it?"), false)] {
        let mut messages = vec![json!({"role": "user", "content": content})];
        for turn in 0..3 {
            let request = json!({"model": "m", "messages": messages, "tools": tools, "user": "The receipt totals 45.90 euros PLACE."});
            let answer = fixture.chat(&request.to_string());
            assert_eq!(answer.status, 200, "{}", answer.body);
            let message = answer.json()["choices"][0]["message"].clone();
            if turn == 2 {
                assert_eq!(message["content"].as_str().is_some_and(|text| text.contains("45.90")), passes, "{message}");
                break;
            }
            messages.push(message.clone());
            messages.push(json!({"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "{\"pages\": 3}"}));
        }
    }
}
