//! Every family to the letter, cut anywhere; and what is none.

use super::*;

fn known(name: &str) -> bool {
    name == "f" || name == "get_weather"
}

fn json(arguments: &str) -> TextualArguments {
    TextualArguments::Json(arguments.to_owned())
}

fn values(pairs: &[(&str, &str)]) -> TextualArguments {
    TextualArguments::Values(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
}

#[test]
fn every_family() {
    let object = || vec![json(r#"{"a":1}"#)];
    for (text, expected) in [
        ("<tool_call>\n{\"name\":\"f\",\"arguments\":{\"a\":1}}\n</tool_call>", object()),
        ("<tool_call>\n{\"name\":\"f\",\"arguments\":{\"a\":1}}", object()),
        (
            "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":1}}</tool_call>\n<tool_call>{\"name\":\"f\",\"arguments\":\"{}\"}</tool_call>",
            vec![json(r#"{"a":1}"#), json("{}")],
        ),
        ("<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>", vec![values(&[("a", "1")])]),
        ("<function=f>\n<parameter=a>\nx > y\n</parameter>", vec![values(&[("a", "x > y")])]),
        ("<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n</tool_call>", vec![values(&[("a", "1")])]),
        ("<tool_call>f</tool_call>", vec![json("{}")]),
        ("<|python_tag|>{\"name\":\"f\",\"parameters\":{\"a\":1}}<|eom_id|>", object()),
        ("{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"f\", \"parameters\": {}}", vec![json("{}"), json("{}")]),
        ("{\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":1}\"}}", object()),
        ("<function=f>{\"a\":1}</function>", object()),
        ("<function=f{\"a\":1}</function>", object()),
        ("f{\"a\":1}</function>", object()),
        ("[f(a=1)]", object()),
        (
            "[f(a=\"x, ]\", b=[1, -2.5], c={'k': None}), get_weather()]",
            vec![json(r#"{"a":"x, ]","b":[1,-2.5],"c":{"k":null}}"#), json("{}")],
        ),
        ("<|tool_call_start|>[f(a=1)]<|tool_call_end|>", object()),
        ("[TOOL_CALLS] [{\"name\":\"f\",\"arguments\":{\"a\":1},\"id\":\"x\"}]", object()),
        ("[TOOL_CALLS]f[CALL_ID]abc123[ARGS]{\"a\":1}", object()),
        (
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\":1}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
            object(),
        ),
        ("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\":1}<｜tool▁call▁end｜>", object()),
        (
            "<｜DSML｜function_calls><｜DSML｜invoke name=\"f\"><｜DSML｜parameter name=\"a\" string=\"true\">v</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜function_calls>",
            vec![values(&[("a", "v")])],
        ),
        ("<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{\"a\":1}<|tool_call_end|>", object()),
        (
            "<minimax:tool_call><invoke name=\"f\"><parameter name=\"a\">v</parameter></invoke></minimax:tool_call>",
            vec![values(&[("a", "v")])],
        ),
        ("<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\":1}<|call|>", object()),
        ("commentary to=functions.f json{\"a\":1}", object()),
        (">>>f\n{\"a\":1}", object()),
        ("<|START_ACTION|>[{\"tool_call_id\":0,\"tool_name\":\"f\",\"parameters\":{\"a\":1}}]<|END_ACTION|>", object()),
        ("<|action_start|> <|plugin|>\n{\"name\": \"f\", \"parameters\": {\"a\":1}}<|action_end|>", object()),
    ] {
        let TextualParse::Calls(calls) = read(text, &known, ToolFilter::Known, FenceMode::Code, TextInput::Complete) else {
            panic!("{text}")
        };
        assert_eq!(calls.iter().map(|call| call.arguments.clone()).collect::<Vec<_>>(), expected, "{text}");
        for (at, _) in text.char_indices() {
            assert_eq!(
                read(&text[..at], &known, ToolFilter::Known, FenceMode::Code, TextInput::Partial),
                TextualParse::More,
                "{}",
                &text[..at]
            );
        }
    }
}

#[test]
fn what_is_no_call_is_soon_known_to_be_none() {
    for (text, from) in [
        ("The weather", 4),
        ("{\"city\": \"Paris\"}", 3),
        ("{\"name\": \"Anna\", \"age\": 7}", 15),
        ("[Paris](https://a.b)", 7),
        ("[f(a=1)](https://a.b)", 9),
        ("[1, 2]", 3),
        ("<p>Hello</p>", 2),
        ("<tool_call>{\"name\":\"hammer\"", 27),
        ("f is a tool", 2),
        ("f{a: 1}", 3),
        ("f(a=1)", 2),
        ("```json\n{\"name\":\"f\"", 1),
        ("<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call> This is how", 56),
    ] {
        let first = (1..=text.len())
            .find(|at| read(&text[..*at], &known, ToolFilter::Known, FenceMode::Code, TextInput::Partial) == TextualParse::Nothing);
        assert!(first.is_some_and(|first| first <= from), "{text}: {first:?}");
        assert_eq!(read(text, &known, ToolFilter::Known, FenceMode::Code, TextInput::Complete), TextualParse::Nothing, "{text}");
    }
    for text in [
        "{\"name\":\"f\",\"state\":\"up\"}",
        "{\"name\":\"f\",\"parameters\":{\"type\":\"object\",\"properties\":{}}}",
        "{\"name\":\"f\"}",
        "<tool_call>",
        "",
        "[f(a=g())]",
    ] {
        assert_eq!(read(text, &known, ToolFilter::Known, FenceMode::Code, TextInput::Complete), TextualParse::Nothing, "{text}");
    }
}

#[test]
fn a_fence_around_all_of_it() {
    let whole = "```json\n[{\"name\": \"f\", \"arguments\": {\"a\": 1}}]\n```\n";
    let read = |text: &str, input| read(text, &known, ToolFilter::Known, FenceMode::Wrapper, input);
    assert!(matches!(read(whole, TextInput::Complete), TextualParse::Calls(calls) if calls.len() == 1));
    assert_eq!(read(whole, TextInput::Partial), TextualParse::More);
    for text in ["```json\n{\"a\": 1}\n```", &format!("{whole}So you call it."), "```python\nf()\n```", "`f`"] {
        assert_eq!(read(text, TextInput::Complete), TextualParse::Nothing, "{text}");
    }
}

#[test]
fn how_a_line_begins() {
    let at = |text: &str, input| at_line(text, &known, input).map(|(tool, written)| format!("{tool} {written}"));
    assert_eq!(at("[f(a=1)] and more", TextInput::Partial), Ok("f [f(a=1)]".to_owned()));
    assert_eq!(at("f{\"a\":1}</function>", TextInput::Partial), Ok("f f{\"a\":1}".to_owned()));
    assert_eq!(at("[f(a=1)]", TextInput::Partial), Err(ParseStop::More));
    assert_eq!(at("[f(a=1)]", TextInput::Complete), Ok("f [f(a=1)]".to_owned()));
    for text in ["[f(a=1)](x)", "[f](x)", "f {\"a\":1}", "f{ a }", "Well", "f: {\"a\":1}"] {
        assert_eq!(at(text, TextInput::Complete), Err(ParseStop::No), "{text}");
    }
}

/// Every spelling of an object, known or not; cut anywhere it may still become one.
#[test]
fn objects_that_are_calls() {
    for (text, tool) in [
        (r#"{"name": "f", "arguments": {"a":1}}"#, "f"),
        (r#"{"name": "divide", "arguments": {"a":1}}"#, "divide"),
        (r#"{"name": "divide", "parameters": {"a":1}}"#, "divide"),
        (r#"{"arguments": {"a":1}, "name": "divide"}"#, "divide"),
        (r#"{"function": {"name": "f", "arguments": {"a":1}}}"#, "f"),
        (r#"{"function": "f", "arguments": {"a":1}}"#, "f"),
        (r#"{"type": "function", "function": {"name": "f", "parameters": {"a":1}}}"#, "f"),
        (r#"{"tool": "f", "arguments": {"a":1}}"#, "f"),
        (r#"{"tool": "f", "tool_input": {"a":1}}"#, "f"),
        (r#"{"tool": "f", "args": {"a":1}}"#, "f"),
        (r#"{"action": "f", "action_input": {"a":1}}"#, "f"),
        (r#"{"action": "hammer", "action_input": {"a":1}}"#, "hammer"),
        (r#"{"function_call": {"name": "f", "arguments": {"a":1}}}"#, "f"),
        (r#"{"tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {"a":1}}}]}"#, "f"),
        (r#"[{"name": "f", "arguments": {"a":1}}]"#, "f"),
        (r#"{"id": 7, "name": "functions.f", "arguments": {"a":1}}"#, "f"),
        ("```json\n{\"name\": \"hammer\", \"arguments\": {\"a\":1}}\n```", "hammer"),
        ("```\n{\"name\": \"f\", \"arguments\": {\"a\":1}}\n```", "f"),
        ("```json\n{\"name\": \"f\", \"arguments\": {\"a\":1}}\n", "f"),
        ("```tool_call\n{\"name\": \"f\", \"arguments\": {\"a\":1}}\n```", "f"),
        ("```tool_code\nprint(f(a=1))\n```", "f"),
        ("```tool_code\nf(a=1)\n```\n", "f"),
        ("```xml\n<tool_call>{\"name\": \"f\", \"arguments\": {\"a\":1}}</tool_call>\n```", "f"),
        ("<tool_call>{\"name\": \"hammer\", \"arguments\": {\"a\":1}}</tool_call>", "hammer"),
        ("<function=hammer>{\"a\":1}</function>", "hammer"),
        ("[f(a=1), hammer(b=2)]", "f"),
    ] {
        let read = |text: &str, input| read(text, &known, ToolFilter::Any, FenceMode::Wrapper, input);
        let TextualParse::Calls(calls) = read(text, TextInput::Complete) else { panic!("{text}") };
        assert_eq!(calls[0].tool, tool, "{text}");
        let TextualArguments::Json(arguments) = &calls[0].arguments else { panic!("{text}") };
        assert_eq!(arguments.replace(' ', ""), r#"{"a":1}"#, "{text}");
        for (at, _) in text.char_indices() {
            assert_eq!(read(&text[..at], TextInput::Partial), TextualParse::More, "{}", &text[..at]);
        }
    }
}

#[test]
fn what_only_looks_like_a_call_of_an_unknown_tool() {
    for text in [
        r#"{"name": "Anna Berg", "arguments": {"a": 1}}"#,
        r#"{"name": "Anna", "age": 7}"#,
        r#"{"name": "Anna", "arguments": "she had none"}"#,
        r#"{"name": "Anna", "arguments": ["one", "two"]}"#,
        r#"{"name": "job", "parameters": {"type": "object", "properties": {}}}"#,
        r#"{"name": "a", "tool": "b", "arguments": {}}"#,
        r#"{"name": "a", "arguments": {}, "input": {}}"#,
        r#"{"type": "circle", "id": 3}"#,
        "[hammer(a=1)]",
        "hammer{\"a\":1}",
        "```python\nhammer(a=1)\n```",
        "```json\n{\"name\": \"hammer\", \"arguments\": {}}\n```\nThat is how.",
        "[[[[[[[[{\"name\": \"hammer\", \"arguments\": {}}]]]]]]]]",
    ] {
        assert_eq!(read(text, &known, ToolFilter::Any, FenceMode::Wrapper, TextInput::Complete), TextualParse::Nothing, "{text}");
    }
    let bare = r#"{"name": "hammer", "arguments": {}}"#;
    assert_eq!(read(bare, &known, ToolFilter::Wrapped, FenceMode::Wrapper, TextInput::Complete), TextualParse::Nothing);
    assert!(matches!(
        read(&format!("<tool_call>{bare}"), &known, ToolFilter::Wrapped, FenceMode::Wrapper, TextInput::Complete),
        TextualParse::Calls(_)
    ));
    let early = r#"{"name": "Anna Berg"#;
    assert_eq!(
        read(early, &known, ToolFilter::Any, FenceMode::Wrapper, TextInput::Partial),
        TextualParse::Nothing,
        "known before the name ends"
    );
}
