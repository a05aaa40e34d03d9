//! Properties: whatever comes is read or refused, and what was rejected never leaves.

use proptest::{collection::vec, prelude::*, sample::select};

use super::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn whatever_comes_is_read_or_refused(scraps in vec(select(SCRAPS.to_vec()), 0..8), tail in select(TAILS.to_vec()), cut in 0..4000usize) {
        let joined = format!(r#"{{"id":"r","output":[{}{tail}"#, scraps.join(",")).replace("FORGED", FORGED).replace("CITED", &BENCH.execution_id());
        let body = if cut % 4 == 0 { &joined[..joined.floor_char_boundary(cut)] } else { &joined };
        if let Ok(out) = judge(body, &CONTEXT) {
            prop_assert!(Document::parse(Bytes::from(out.body.clone())).is_ok(), "{}", out.body);
            prop_assert!(!out.body.contains("s3cret") && !out.body.contains("\"c_up\""), "{}", out.body);
            for text in texts_of(&out.value()) {
                let mut ends = text.match_indices(FORGED).map(|(at, _)| &text[at + FORGED.len()..]);
                // Anything else behind it, and it is no id.
                prop_assert!(ends.all(|rest| rest.starts_with(char::is_alphanumeric)), "{}", out.body);
            }
            if out.blocks {
                prop_assert_eq!(out.value()["output"].as_array().unwrap().len(), 1);
            }
        }
    }

    #[test]
    fn no_bytes_are_too_strange(bytes in vec(any::<u8>(), 0..200)) {
        let _read = BufferedResponse::read(bytes.into(), &CONTEXT).map(|answer| answer.judge(&CONTEXT, CONTEXT.first_attempt()));
    }
}

const SCRAPS: [&str; 18] = [
    r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Hi ","annotations":[{"start_index":3,"end_index":9}],"logprobs":[1]}]}"#,
    r#"{"type":"message","role":"assistant","content":"It is (execution_id: CITED)."}"#,
    r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"(execution_id: ","logprobs":[1]},"CITED",{"type":"x","text":") é "}]}"#,
    r#"{"type":"message","role":"assistant","content":"FORGED"}"#,
    r#"{"type":"message","content":[{"type":"refusal","refusal":"no FORGED"}]}"#,
    r#"{"type":"message","content":[{"type":"output_text","text":"run_speed_test_1760000000000_"}]}"#,
    r#"{"type":"message","content":[{"type":"output_text","text":"deadbeefdeadbeef"}]}"#,
    r#"{"type":"message","content":null,"tool_calls":["s3cret"]}"#,
    r#"{"type":"function_call","call_id":"c_up","name":"check_net","arguments":"{}"}"#,
    r#"{"type":"function_call","call_id":"c_up","name":"run_speed_test","arguments":{"server":"x"}}"#,
    r#"{"input":"s3cret","type":"function_call","call_id":"c_up","name":"check_net","arguments":null}"#,
    r#"{"type":"function_call","call_id":"c_up","name":"delete_all","arguments":"s3cret"}"#,
    r#"{"type":"custom_tool_call","call_id":"c_up","name":"note","input":"x"}"#,
    r#"{"type":"shell_call","call_id":"c_up","action":{"commands":["s3cret"]}}"#,
    r#"{"type":"web_search_call","id":"w"}"#,
    r#"{"type":"unheard_of","x":1}"#,
    "null",
    "{}",
];

const TAILS: [&str; 5] = [
    "]}",
    "],\"output_text\":\"FORGED\"}",
    "],\"usage\":{\"t\":1},\"toolmark\":\"s3cret\"}",
    "],\"status\":\"incomplete\",\"error\":{},\"output_text\":\"\"}",
    "],\"status\":\"failed\",\"choices\":[]}",
];

/// What the messages of a response say, string by string and as one, and its copy.
fn texts_of(response: &serde_json::Value) -> Vec<String> {
    let mut texts = Vec::new();
    for message in response["output"].as_array().into_iter().flatten() {
        let parts = message["content"].as_array().into_iter().flatten();
        let strings = parts.flat_map(|part| [part, &part["text"]]).chain([&message["content"]]);
        texts.extend(strings.filter_map(|text| text.as_str().map(str::to_owned)));
    }
    texts.push(texts.concat());
    let refusals = response["output"].as_array().into_iter().flatten().filter_map(|message| message["content"][0]["refusal"].as_str());
    texts.extend(refusals.map(str::to_owned));
    texts.extend(response["output_text"].as_str().map(str::to_owned));
    texts
}
