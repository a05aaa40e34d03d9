//! What real providers send, and more or less of it: none of it is refused, and what leaves is in order.

use super::*;

/// Tells what a stream comes to: its fault, text, calls. All of `keeps` must leave.
fn passes(events: &[&str], text: &str, calls: usize, keeps: &[&str]) {
    let stream: String =
        events.iter().map(|event| if event.starts_with('{') { format!("data: {event}\n\n") } else { format!("{event}\n\n") }).collect();
    let (outcome, out) = streamed([stream.as_bytes()]);
    assert_eq!((outcome.fault, &*outcome.text, outcome.calls.len(), outcome.blocks), (None, text, calls, false), "{stream}\n=>\n{out}");
    for kept in keeps {
        assert!(out.contains(kept), "{kept} isn't in\n{out}\n<=\n{stream}");
    }
    let dones = |kind: &str| out.matches(&format!("\"type\":\"{kind}\"")).count();
    assert_eq!(dones("response.function_call_arguments.done"), calls, "{out}");
    assert_eq!(dones("response.completed") + dones("response.incomplete"), 1, "{out}");
}

const CREATED: &str = r#"{"type":"response.created","response":{"id":"r","status":"in_progress","output":[]}}"#;
const DONE: &str = r#"{"type":"response.completed","response":{"id":"r","status":"completed","output":[]}}"#;
const ADDED: &str =
    r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"message","id":"msg_1","role":"assistant","content":[]}}"#;
const DELTA: &str = r#"{"type":"response.output_text.delta","item_id":"msg_1","output_index":0,"content_index":0,"delta":"Hello there."}"#;
const WHOLE: &str = r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"message","id":"msg_1","role":"assistant","content":[{"type":"output_text","text":"Hello there."}]}}"#;

#[test]
fn texts_with_less_than_openai_sends() {
    let call = r#"{"type":"function_call","id":"fc_1","call_id":"c","name":"check_net","arguments":"{}"}"#;
    // No parts, no done, a terminal event with everything or with nothing.
    passes(&[CREATED, ADDED, DELTA, WHOLE, DONE], "Hello there.", 0, &["Hello there."]);
    let last = r#"{"type":"response.completed","response":{"id":"r","output":[{"type":"message","id":"msg_1","content":[{"type":"output_text","text":"Hello there."}]}]}}"#;
    passes(&[CREATED, ADDED, DELTA, last], "Hello there.", 0, &[]);
    passes(&[ADDED, DELTA, WHOLE, last], "Hello there.", 0, &[]);
    passes(&[last], "Hello there.", 0, &[]);
    passes(&[CREATED, WHOLE, DONE], "Hello there.", 0, &[]);
    // No ids, no indices.
    let bare = r#"{"type":"response.output_item.added","item":{"type":"message","role":"assistant","content":[]}}"#;
    let bare_whole = r#"{"type":"response.output_item.done","item":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Hello there."}]}}"#;
    passes(&[CREATED, bare, r#"{"type":"response.output_text.delta","delta":"Hello there."}"#, bare_whole, DONE], "Hello there.", 0, &[]);
    // Comments, pings, `[DONE]` at the end.
    passes(
        &[
            ": ping",
            CREATED,
            "event: ping\ndata: {}",
            "event: ping\ndata: {\"type\":\"ping\"}",
            "data:",
            ADDED,
            DELTA,
            ": x",
            WHOLE,
            DONE,
            "data: [DONE]",
        ],
        "Hello there.",
        0,
        &[],
    );
    passes(&[CREATED, r#"{"type":"keepalive","sequence_number":3}"#, ADDED, DELTA, WHOLE, DONE], "Hello there.", 0, &["keepalive"]);
    // A call without deltas, only when done, only in the terminal event.
    let begun = r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","id":"fc_1","call_id":"c","name":"check_net","arguments":""}}"#;
    let said = r#"{"type":"response.function_call_arguments.done","item_id":"fc_1","output_index":0,"arguments":"{}"}"#;
    let done = format!(r#"{{"type":"response.output_item.done","output_index":0,"item":{call}}}"#);
    let last = format!(r#"{{"type":"response.completed","response":{{"id":"r","output":[{call}]}}}}"#);
    for events in [vec![begun, said, &*done], vec![begun, said], vec![&*done], vec![begun, &*done], vec![]] {
        passes(&[&[CREATED][..], &events, &[&*last]].concat(), "", 1, &[]);
        if !events.is_empty() {
            passes(&[&[CREATED][..], &events, &[DONE]].concat(), "", 1, &[]);
        }
    }
}

/// GitHub Copilot and some gateways give an item another id in every event.
#[test]
fn ids_that_change_with_every_event() {
    let delta = DELTA.replace("msg_1", "msg_2");
    let part = r#"{"type":"response.content_part.done","item_id":"msg_3","output_index":0,"content_index":0,"part":{"type":"output_text","text":"Hello there."}}"#;
    let whole = WHOLE.replace("msg_1", "msg_4");
    let last = r#"{"type":"response.completed","response":{"id":"r","output":[{"type":"message","id":"msg_5","content":[{"type":"output_text","text":"Hello there."}]}]}}"#;
    passes(&[CREATED, ADDED, &delta, part, &whole, DONE], "Hello there.", 0, &[]);
    passes(&[CREATED, ADDED, &delta, part, &whole, last], "Hello there.", 0, &[]);
    let call = |id: &str, arguments: &str| {
        format!(r#"{{"type":"function_call","id":"{id}","call_id":"c","name":"check_net","arguments":"{arguments}"}}"#)
    };
    let begun = format!(r#"{{"type":"response.output_item.added","output_index":0,"item":{}}}"#, call("a", ""));
    let delta = r#"{"type":"response.function_call_arguments.delta","item_id":"b","output_index":0,"delta":"{}"}"#;
    let done = format!(r#"{{"type":"response.output_item.done","output_index":0,"item":{}}}"#, call("c", "{}"));
    let last = format!(r#"{{"type":"response.completed","response":{{"id":"r","output":[{}]}}}}"#, call("d", "{}"));
    passes(&[CREATED, &begun, delta, &done, DONE], "", 1, &[]);
    passes(&[CREATED, &begun, delta, &done, &last], "", 1, &[]);
}

/// What upstreams say of a model that thinks.
const REASONING: [&str; 13] = [
    r#""type":"response.reasoning_summary_part.added","summary_index":0,"part":{"type":"summary_text","text":""}"#,
    r#""type":"response.reasoning_summary_text.delta","summary_index":0,"delta":"I think""#,
    r#""type":"response.reasoning_summary_text.done","summary_index":0,"text":"I think""#,
    r#""type":"response.reasoning_summary_part.done","summary_index":0,"part":{"type":"summary_text","text":"I think"}"#,
    r#""type":"response.content_part.added","content_index":0,"part":{"type":"reasoning_text","text":""}"#,
    r#""type":"response.reasoning_text.delta","content_index":0,"delta":"I think""#,
    r#""type":"response.reasoning_text.done","content_index":0,"text":"I think""#,
    r#""type":"response.content_part.done","content_index":0,"part":{"type":"reasoning_text","text":"I think"}"#,
    r#""type":"response.reasoning_part.added","content_index":0,"part":{"type":"reasoning_text","text":""}"#,
    r#""type":"response.reasoning_part.done","content_index":0,"part":{"type":"reasoning_text","text":"I think"}"#,
    r#""type":"response.reasoning.delta","delta":{"text":"x"}"#,
    r#""type":"response.reasoning_summary.done","text":"x""#,
    // vLLM, before it had parts for it.
    r#""type":"response.content_part.added","content_index":0,"part":{"type":"output_text","text":"","annotations":[]}"#,
];

#[test]
fn events_of_other_kinds() {
    let at = r#""item_id":"x_1","output_index":0"#;
    for (item, events) in [
        (r#"{"type":"reasoning","id":"x_1","summary":[]}"#, REASONING.to_vec()),
        (
            r#"{"type":"image_generation_call","id":"x_1","status":"in_progress"}"#,
            vec![
                r#""type":"response.image_generation_call.in_progress""#,
                r#""type":"response.image_generation_call.partial_image","partial_image_index":0,"partial_image_b64":"AAAA""#,
                r#""type":"response.image_generation_call.completed""#,
            ],
        ),
        (
            r#"{"type":"mcp_call","id":"x_1","server_label":"s","name":"f","arguments":""}"#,
            vec![
                r#""type":"response.mcp_call.in_progress""#,
                r#""type":"response.mcp_call_arguments.delta","delta":"{}""#,
                r#""type":"response.mcp_call_arguments.done","arguments":"{}""#,
                r#""type":"response.mcp_call.completed""#,
                r#""type":"response.mcp_call.failed""#,
            ],
        ),
        (r#"{"type":"mcp_list_tools","id":"x_1","server_label":"s","tools":[]}"#, vec![r#""type":"response.mcp_list_tools.completed""#]),
        (
            r#"{"type":"code_interpreter_call","id":"x_1","code":"","status":"in_progress"}"#,
            vec![
                r#""type":"response.code_interpreter_call_code.delta","delta":"print(1)""#,
                r#""type":"response.code_interpreter_call_code.done","code":"print(1)""#,
                r#""type":"response.code_interpreter_call.interpreting""#,
            ],
        ),
        (
            r#"{"type":"web_search_call","id":"x_1","status":"in_progress","action":{"type":"search","query":"q"}}"#,
            vec![
                r#""type":"response.web_search_call.searching""#,
                r#""type":"response.shell_call_output_content.done","output":[{"stdout":"x","stderr":"","outcome":{"type":"exit","exit_code":0}}]"#,
            ],
        ),
        (r#"{"type":"file_search_call","id":"x_1","status":"completed","queries":["q"],"results":[{"text":"x","filename":"f"}]}"#, vec![]),
        (r#"{"type":"program","id":"x_1","call_id":"c","code":"x"}"#, vec![]),
        (r#"{"type":"compaction","id":"x_1","encrypted_content":"x"}"#, vec![]),
    ] {
        let added = format!(r#"{{"type":"response.output_item.added","output_index":0,"item":{item}}}"#);
        let events: Vec<String> = events.into_iter().map(|event| format!("{{{event},{at}}}")).collect();
        let done = added.replace(".added", ".done");
        let mut all = vec![CREATED, &*added];
        all.extend(events.iter().map(String::as_str));
        let rest = [ADDED, DELTA, WHOLE].map(|event| event.replace("\"output_index\":0", "\"output_index\":1"));
        all.push(&done);
        all.extend(rest.iter().map(String::as_str));
        all.push(DONE);
        let keeps: Vec<&str> = events.iter().map(String::as_str).collect();
        passes(&all, "Hello there.", 0, if item.contains("reasoning") { &keeps[..12] } else { &keeps });
    }
}

#[test]
fn refusals_annotations_and_members_of_nothing() {
    let refusal = [
        r#"{"type":"response.refusal.delta","item_id":"msg_1","output_index":0,"content_index":0,"delta":"No."}"#,
        r#"{"type":"response.refusal.done","item_id":"msg_1","output_index":0,"content_index":0,"refusal":"No."}"#,
        r#"{"type":"response.content_part.done","item_id":"msg_1","output_index":0,"content_index":0,"part":{"type":"refusal","refusal":"No."}}"#,
    ];
    passes(&[CREATED, ADDED, refusal[0], refusal[1], refusal[2], DONE], "", 0, &refusal);
    let note = r#"{"type":"response.output_text.annotation.added","item_id":"msg_1","output_index":0,"content_index":0,"annotation_index":0,"annotation":{"type":"url_citation","url":"u","title":"t","start_index":0,"end_index":5}}"#;
    passes(&[CREATED, ADDED, DELTA, note, WHOLE, DONE], "Hello there.", 0, &[note]);
    // Parts with an empty refusal beside the text, and other members of nothing.
    let part = r#"{"type":"response.content_part.done","item_id":"msg_1","output_index":0,"content_index":0,"part":{"type":"output_text","text":"Hello there.","refusal":"","tool_calls":[],"annotations":[],"logprobs":null}}"#;
    passes(&[CREATED, ADDED, DELTA, part, WHOLE, DONE], "Hello there.", 0, &[part]);
}
