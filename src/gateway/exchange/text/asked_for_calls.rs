//! Detects that the user asked for a call as text: JSON, an example, or how something is called. Pure.
//!
//! A model that writes a call as text where nobody asked for one meant to call. Where somebody did, it is an answer. Read off
//! the words that the user said last; only of calls that name no known tool, which other data may look like, the rest of
//! the conversation and the instructions are asked too.

use std::sync::LazyLock;

use regex::{Regex, RegexBuilder};

use crate::{
    exchange::context::Context,
    judge::textual_calls::ToolFilter,
    wire::json::{Document, Value},
};

/// Bytes of the user's last message that are examined, at its beginning and at its end.
const ASKED_BYTES_MAX: usize = 4 << 10;
/// Requests for a call as text.
const TEXT: &str = r"(?x)
    \b(?:as|in)\ (?:an?\ |valid\ |raw\ |pure\ |plain\ |one\ |single\ |pretty\ )*(?:json|yaml|xml)\b
    | \b(?:json|yaml|xml)[\ -](?:object|array|only|format|formatted|output|response|string|block|snippet|blob|schema|payload|body|example|representation)s?\b
    | \b(?:write|show|give|print|output|return|respond|reply|answer|generate|produce|format|create|draft|provide|send|display|want|need)\b[^.?!\n]{0,60}\b(?:json|yaml|xml)\b
    | \b(?:only|just)\ (?:the\ |valid\ |raw\ )*json\b
    | \b(?:an?|one|some|sample|another|any|the)\ (?:\w+\ )?examples?\b | \b(?:give|show|see|write|want|need|provide)\b[^.?!\n,]{0,40}\bexamples?\b
    | \bexample\ (?:of|call|request|invocation|json|how)\b
    | \b(?:sample|dummy|mock|hypothetical)\ (?:tool\ |function\ |api\ )?(?:calls?|requests?|invocations?|payloads?|arguments|inputs?|outputs?)\b
    | \bwhat\ (?:would|does|do|should|will|might)\b[^.?!\n]{0,80}\blooks?\ like\b
    | \bhow\ (?:would|do|does|can|could|should|to|is|are)\b[^.?!\n]{0,60}\b(?:call|calls|called|invoke|invoked|calling)\b[^.?!\n]{0,60}(?:\b(?:tool|function|api)\b|\w_\w)
    | \b(?:show|write|print|give|what|spell|type|paste|quote|repeat|display|explain|describe|document)\b[^.?!\n]{0,60}\b(?:tool|function|api)[\ -]?(?:call|invocation|definition|signature|schema)s?\b
    | \b(?:without|don'?t|don\u{2019}t|do\ not|never|instead\ of|rather\ than|not)\ (?:actually\ |really\ |yet\ )?(?:call|run|execut|invok)(?:e|ing)?\ (?:it|them|this|that|anything|any|an?|the|tools?|functions?|\w+_\w+)\b
    | \b(?:syntax|signature|placeholders?|pseudo-?code|curl|dry[\ -]run)\b
    | \b(?:als|im|en|au\ format|en\ formato|in\ formato|em|no\ formato|w\ formacie|\u{0432})[\ -]json\b | json[\ -]?(?:format|formato|формат)\b
    | json\s?(?:形式|格式|で|を|输出) | (?:用|以|成)\s?json | 例子 | 示例 | 举例 | サンプル | 例を
    | \b(?:ein|als|zeig\w*|gib|nenn\w*)\b[^.?!\n]{0,40}\bbeispiel | \b(?:un|dame|muestra\w*|montre\w*|donne\w*|mostra\w*|um)\b[^.?!\n]{0,40}\b(?:ejemplo|exemple|esempio|exemplo)
    | \b(?:покажи|приведи|дай)\b[^.?!\n]{0,40}\bпример
";
/// Requests for some text with names and parameters, in any form.
const DATA: &str = r"(?x) \bjson | \byaml | \b(?:config\w*|code|script|snippet|template|manifest|payload|request\ body|objects?|records?|entit(?:y|ies)|extract\w*|classif\w*|pars(?:e|ing)|schemas?|fields?|formats?|intents?|parameters)\b";
/// Instructions to answer with an object of a name and parameters.
const OBJECT: &str = r#"(?x) \b(?:an?|one|single)\ (?:\w+\ )?object\b | \{\ *"?name\b | \bname\b[^.\n]{0,40}\b(?:parameters|arguments)\b"#;

static TEXT_PATTERN: LazyLock<Option<Regex>> = LazyLock::new(|| compiled(TEXT));
static DATA_PATTERN: LazyLock<Option<Regex>> = LazyLock::new(|| compiled(DATA));
static OBJECT_PATTERN: LazyLock<Option<Regex>> = LazyLock::new(|| compiled(OBJECT));

fn compiled(pattern: &str) -> Option<Regex> {
    RegexBuilder::new(pattern).case_insensitive(true).build().ok()
}

/// Tool names whose calls count as calls if they are written as text; `None` if the user asked for such text.
pub fn names(context: &Context) -> Option<ToolFilter> {
    *context.written.get_or_init(|| read(context))
}

fn read(context: &Context) -> Option<ToolFilter> {
    if context.json_only {
        return None;
    }
    let last = said_last(context.request());
    let last = ends(last.as_deref().unwrap_or_default());
    let asks = |text: &str, pattern: &Option<Regex>| pattern.as_ref().is_none_or(|pattern| pattern.is_match(text));
    if last.iter().any(|text| asks(text, &TEXT_PATTERN)) {
        return None;
    }
    let demands_object = |text: &String| mentions_json(text) || ends(text).iter().any(|text| asks(text, &OBJECT_PATTERN));
    let about_data = last.iter().any(|text| asks(text, &DATA_PATTERN)) || instructions(context.request()).iter().any(demands_object);
    Some(if about_data { ToolFilter::Wrapped } else { ToolFilter::Any })
}

/// The beginning and the end of a text, at most [`ASKED_BYTES_MAX`] each; for a short text that is all of it.
fn ends(text: &str) -> [&str; 2] {
    let (head, tail) = (text.floor_char_boundary(ASKED_BYTES_MAX), text.ceil_char_boundary(text.len().saturating_sub(ASKED_BYTES_MAX)));
    let tail = if head == text.len() { head } else { tail };
    [text.get(..head).unwrap_or_default(), text.get(tail..).unwrap_or_default()]
}

fn mentions_json(text: &str) -> bool {
    memchr::memmem::find_iter(text.as_bytes(), b"JSON").next().is_some()
        || memchr::memmem::find_iter(text.as_bytes(), b"json").next().is_some()
}

/// Text of the last user message, in either API's form.
fn said_last(request: &Document) -> Option<String> {
    let root = request.root();
    if let Some(input) = root.get("input").filter(|input| input.is_string()) {
        return input.text().map(Into::into);
    }
    let turns = root.get("messages").or_else(|| root.get("input"))?;
    let last = turns.items().filter(|turn| turn.get("role").is_some_and(|role| role.is_text("user"))).last()?;
    Some(text_of(last.get("content")?))
}

/// System and developer messages, and `instructions`.
fn instructions(request: &Document) -> Vec<String> {
    let root = request.root();
    let turns = root.get("messages").or_else(|| root.get("input").filter(|input| input.is_array()));
    let told = |turn: &Value<'_>| turn.get("role").is_some_and(|role| role.is_text("system") || role.is_text("developer"));
    let of_turns = turns.into_iter().flat_map(Value::items).filter(told).filter_map(|turn| Some(text_of(turn.get("content")?)));
    of_turns.chain(root.get("instructions").and_then(Value::text).map(Into::into)).collect()
}

fn text_of(content: Value<'_>) -> String {
    match content.text() {
        Some(text) => text.into_owned(),
        None => content.items().filter_map(|part| part.get("text")?.text()).collect::<Vec<_>>().join("\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_asks_for_an_object() {
        let (data, object) = (DATA_PATTERN.as_ref().expect("it compiles"), OBJECT_PATTERN.as_ref().expect("it compiles"));
        for asked in ["Convert it into our intent format", "Format: name + parameters", "Which intent is that?"] {
            assert!(data.is_match(asked), "{asked}");
        }
        for told in [
            "Reply with the name of the agent and its parameters as an object.",
            r#"Answer {"name": …}"#,
            "Give the name and its arguments.",
        ] {
            assert!(object.is_match(told), "{told}");
        }
        for told in ["You help customers of a shop.", "Object to nothing.", "Name the city."] {
            assert!(!object.is_match(told), "{told}");
        }
    }

    #[test]
    fn what_asks_for_text() {
        let pattern = TEXT_PATTERN.as_ref().expect("it compiles");
        for asks in [
            "Show me an example call.",
            "Give me an example of how you would call get_weather.",
            "What would the call look like?",
            "Answer in JSON.",
            "Return the weather as a JSON object.",
            "Write the JSON for it, please",
            "How would you call get_weather for Paris?",
            "How do I invoke the weather function?",
            "Print the tool call you would make, but do not run it.",
            "Which call would you make? Don't call the tool yet.",
            "Explain the function call.",
            "Zeig mir ein Beispiel.",
            "Antworte als JSON.",
            "Muéstrame un ejemplo de la llamada.",
            "Donne-moi un exemple.",
            "Приведи пример вызова",
            "用JSON回答",
            "JSONで返して",
            "What is the syntax?",
        ] {
            assert!(pattern.is_match(asks), "{asks}");
        }
        for asks in [
            "What is the weather in Paris?",
            "What is 1530 divided by 6?",
            "How can I reach David? Call him if you can.",
            "Use the weather tool to find out.",
            "Call get_weather for Paris.",
            "Fetch config.json and tell me the port.",
            "Don't use fahrenheit.",
            "Remind me to call the bank.",
            "Add the task 'set an alarm' for tomorrow, for example at nine.",
            "Wie ist das Wetter, zum Beispiel in Berlin?",
        ] {
            assert!(!pattern.is_match(asks), "{asks}");
        }
        assert!(
            DATA_PATTERN.as_ref().is_some_and(|pattern| pattern.is_match("Extract the person.") && !pattern.is_match("Divide 7 by 8."))
        );
    }

    #[test]
    fn the_user_s_last_words_count() {
        let last = |request: &str| said_last(&Document::parse(request.to_owned().into()).unwrap()).unwrap_or_default();
        let chat = r#"{"messages":[{"role":"user","content":"one"},{"role":"user","content":[{"type":"text","text":"two"}]},{"role":"tool","content":"three"}]}"#;
        assert_eq!(last(chat), "two");
        assert_eq!(last(r#"{"input":"one"}"#), "one");
        assert_eq!(
            last(
                r#"{"input":[{"role":"user","content":[{"type":"input_text","text":"one"}]},{"type":"function_call_output","output":"x"}]}"#
            ),
            "one"
        );
        assert_eq!(last(r#"{"input":[{"type":"function_call_output","output":"x"}]}"#), "");
        let long = format!("{} Give me an example call.", "é".repeat(9000));
        assert!(ends(&long).iter().any(|text| TEXT_PATTERN.as_ref().is_some_and(|pattern| pattern.is_match(text))));
        assert_eq!(ends("short"), ["short", ""]);
    }
}
