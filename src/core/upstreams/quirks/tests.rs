//! Requests made to fit, each quirk of docs/wire-facts.md#providers a case.

use super::*;
use crate::upstreams::quirks::presets::Preset;

fn nothing(_: &str) -> Option<Arc<ProviderExtras>> {
    None
}

const PLAIN: AdaptContext<'static> = AdaptContext { model: None, foreign: false, refused: &[], recall: &nothing };

fn fitted(body: &str, fitting: &Quirks, attempt: &AdaptContext<'_>) -> Result<String, Incompatible> {
    fit(&Bytes::copy_from_slice(body.as_bytes()), fitting, attempt).map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
}

/// One request through one preset: `left` is what stands in the place of `body`.
fn check(preset: Preset, attempt: &AdaptContext<'_>, body: &str, left: &str) {
    let out = fitted(body, &preset.fitting(), attempt).unwrap();
    let _json: serde_json::Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"));
    assert_eq!(out, left, "{preset:?}");
}

const TOOL: &str = r#"{"type":"function","function":{"name":"f"}}"#;

#[test]
fn what_needs_no_change_keeps_its_bytes() {
    let body = r#"{ "model" : "m","messages":[{"role":"assistant","name":"n","function_call":null,"tool_calls":[{"id":"call_1","extra_content":{}}]}],"logprobs":true,
        "parallel_tool_calls":false ,"tool_choice":"required","tools":[{"function":{"strict":true}},{"function":{}}]}"#;
    for preset in [Preset::None, Preset::OpenAi, Preset::OpenRouter, Preset::Vllm] {
        let bytes = Bytes::copy_from_slice(body.as_bytes());
        let out = fit(&bytes, &preset.fitting(), &PLAIN).unwrap();
        assert_eq!((out.as_ptr(), out.len()), (bytes.as_ptr(), bytes.len()), "{preset:?}");
    }
}

#[test]
fn parameters() {
    let strict = |one: &str, two: &str| {
        format!(r#"{{"tools":[{{"function":{{"name":"a"{one}}}}},{{"function":{{"strict":{two},"name":"b"}}}}],"messages":[]}}"#)
    };
    check(Preset::Cerebras, &PLAIN, &strict(",\"strict\":true", "true"), &strict(",\"strict\":true", "true"));
    let none = r#"{"tools":[{"function":{"name":"a"}},{"function":{"name":"b"}}],"messages":[]}"#;
    check(Preset::Cerebras, &PLAIN, &strict(",\"strict\":false", "true"), none);
    check(Preset::Cerebras, &PLAIN, &strict("", "true"), none);
    check(Preset::Cerebras, &PLAIN, r#"{"parallel_tool_calls":false,"messages":[]}"#, r#"{"messages":[]}"#);
    check(
        Preset::Groq,
        &PLAIN,
        r#"{"logprobs":true,"top_logprobs":2,"model":"m","messages":[{"role":"user","name":"u","content":"x"},{"role":"assistant","content":null,"function_call":null,"refusal":null,"tool_calls":[]}],"logit_bias":{}}"#,
        r#"{"model":"m","messages":[{"role":"user","content":"x"},{"role":"assistant","content":null,"tool_calls":[]}]}"#,
    );
    for (choice, left) in [
        (r#""required""#, r#""any""#),
        (r#""auto""#, r#""auto""#),
        (r#""none""#, r#""none""#),
        (r#"{"type":"function","function":{"name":"f"}}"#, r#""any""#),
        ("null", "null"),
    ] {
        let body = |choice: &str| format!(r#"{{"tool_choice":{choice},"tools":[{TOOL}],"messages":[]}}"#);
        check(Preset::Mistral, &PLAIN, &body(choice), &body(left));
    }
    check(Preset::Ollama, &PLAIN, r#"{"tool_choice":"required","messages":[]}"#, r#"{"messages":[]}"#);
    let with = format!(r#"{{"messages":[],"tools":[{TOOL}]"#);
    check(Preset::LlamaCpp, &PLAIN, &format!("{with}}}"), &format!("{with},\"parallel_tool_calls\":true}}"));
    check(Preset::LlamaCpp, &PLAIN, &format!("{with},\"parallel_tool_calls\":false}}"), &format!("{with},\"parallel_tool_calls\":false}}"));
    check(Preset::LlamaCpp, &PLAIN, r#"{"messages":[],"tools":[]}"#, r#"{"messages":[],"tools":[]}"#);
}

#[test]
fn ids_of_nine() {
    let body = |id: &str| {
        format!(
            r#"{{"messages":[{{"role":"assistant","tool_calls":[{{"id":"{id}","function":{{}}}}]}},{{"role":"tool","tool_call_id":"{id}","content":""}}]}}"#
        )
    };
    let short = messages::short_id("call_00000000000000000000000000000001");
    assert!(short.len() == 9 && short.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    check(Preset::Mistral, &PLAIN, &body("call_00000000000000000000000000000001"), &body(&short));
    check(Preset::Mistral, &PLAIN, &body("abcDEF123"), &body("abcDEF123"));
    let clash =
        format!(r#"{{"messages":[{{"role":"tool","tool_call_id":"x"}},{{"role":"tool","tool_call_id":"{}"}}]}}"#, messages::short_id("x"));
    assert_eq!(fitted(&clash, &Preset::Mistral.fitting(), &PLAIN), Err(Incompatible::ShortIds));
}

const SIGNED: &str = r#""extra_content":{"google":{"thought_signature":"c2ln"}}"#;
const UNSIGNED: &str = r#""extra_content":{"google":{"thought_signature":"skip_thought_signature_validator"}}"#;

fn turn(calls: &[&str], beside: &str) -> String {
    let calls: Vec<String> = calls.iter().map(|call| format!("{{{call}}}")).collect();
    format!(r#"{{"messages":[{{"role":"assistant","tool_calls":[{}]{beside}}}]}}"#, calls.join(","))
}

#[test]
fn signatures_are_put_back() {
    let kept = |id: &str| {
        (id == "call_a")
            .then(|| Arc::new(ProviderExtras { extra_content: Some(r#"{"google":{"thought_signature":"c2ln"}}"#.into()), reasoning: None }))
    };
    let recalling = AdaptContext { recall: &kept, ..PLAIN };
    let signed = |id: &str| format!("\"id\":\"{id}\",{SIGNED}");
    for (calls, left) in [
        // Dropped by a framework.
        (&["\"id\":\"call_a\"", "\"id\":\"call_b\""][..], vec![signed("call_a"), "\"id\":\"call_b\"".into()]),
        // Still there.
        (&[&*signed("call_a")], vec![signed("call_a")]),
        // Of another model, or forgotten.
        (&["\"id\":\"call_b\"", "\"id\":\"call_c\""], vec![format!("\"id\":\"call_b\",{UNSIGNED}"), "\"id\":\"call_c\"".into()]),
    ] {
        let left: Vec<&str> = left.iter().map(String::as_str).collect();
        check(Preset::Gemini, &recalling, &turn(calls, ""), &turn(&left, ""));
    }
    // Elsewhere they are of no use.
    let foreign = AdaptContext { foreign: true, ..PLAIN };
    check(Preset::OpenAi, &foreign, &turn(&[&*signed("call_a")], ",\"reasoning_content\":\"hm\""), &turn(&["\"id\":\"call_a\""], ""));
}

#[test]
fn thoughts_are_put_back() {
    let kept =
        |id: &str| (id == "call_a").then(|| Arc::new(ProviderExtras { extra_content: None, reasoning: Some("so \"it\" is".into()) }));
    let recalling = AdaptContext { recall: &kept, ..PLAIN };
    let thought = ",\"reasoning_content\":\"so \\\"it\\\" is\"";
    check(Preset::DeepSeek, &recalling, &turn(&["\"id\":\"call_a\""], ""), &turn(&["\"id\":\"call_a\""], thought));
    check(
        Preset::DeepSeek,
        &recalling,
        &turn(&["\"id\":\"call_a\""], ",\"reasoning_content\":\"x\""),
        &turn(&["\"id\":\"call_a\""], ",\"reasoning_content\":\"x\""),
    );
    check(
        Preset::DeepSeek,
        &recalling,
        &turn(&["\"id\":\"call_a\""], ",\"reasoning_content\":null"),
        &turn(&["\"id\":\"call_a\""], thought),
    );
    check(Preset::DeepSeek, &recalling, &turn(&["\"id\":\"call_b\""], ""), &turn(&["\"id\":\"call_b\""], ",\"reasoning_content\":\"\""));
    check(
        Preset::DeepSeek,
        &recalling,
        r#"{"messages":[{"role":"assistant","content":"x"}]}"#,
        r#"{"messages":[{"role":"assistant","content":"x"}]}"#,
    );
}

#[test]
fn fallbacks_are_converted_or_refused_by_name() {
    let foreign = AdaptContext { model: Some("other"), foreign: true, ..PLAIN };
    check(Preset::OpenAi, &foreign, r#"{"model":"own","messages":[]}"#, r#"{"model":"other","messages":[]}"#);
    for (body, misfit) in [
        (r#"{"model":"m","previous_response_id":"resp_1","input":"x"}"#, "previous_response_id"),
        (r#"{"model":"m","conversation":"conv_1","input":"x"}"#, "conversation"),
        (r#"{"model":"m","background":true,"input":"x"}"#, "background"),
        (r#"{"model":"m","input":[{"type":"item_reference","id":"x"}]}"#, "item_reference"),
        (r#"{"model":"m","input":[{"type":"reasoning","id":"rs_1"}]}"#, "reasoning"),
        (r#"{"model":"m","input":[{"id":"msg_1"}]}"#, "item_reference"),
        (r#"{"model":"m","input":[{"id":"msg_1","type":null}]}"#, "item_reference"),
        (r#"{"model":"m","input":[{"type":"image_generation_call","id":"ig_1"}]}"#, "image_generation_call"),
    ] {
        assert_eq!(fitted(body, &Preset::OpenAi.fitting(), &foreign), Err(Incompatible::Kept(misfit)), "{body}");
        assert!(fitted(body, &Preset::OpenAi.fitting(), &PLAIN).is_ok(), "{body}");
    }
    let custom = r#"{"model":"m","messages":[],"tools":[{"type":"custom","custom":{"name":"x"}}]}"#;
    assert_eq!(fitted(custom, &Preset::Groq.fitting(), &foreign), Err(Incompatible::CustomTools));
    assert!(fitted(custom, &Preset::OpenAi.fitting(), &foreign).is_ok());
}

#[test]
fn what_was_refused_is_left_out() {
    let refused = AdaptContext { refused: &["tool_choice", "tools.function.strict", "stream_options"], ..PLAIN };
    let body = r#"{"stream_options":{"include_usage":true},"tool_choice":"auto","tools":[{"function":{"strict":true,"name":"f"}}]}"#;
    check(Preset::OpenAi, &refused, body, r#"{"tools":[{"function":{"name":"f"}}]}"#);
}
