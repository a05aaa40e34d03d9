//! The checks of one upstream: it is reached, its key works, the model answers, calls functions and streams. A dozen small requests.

use ::http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};

use super::{Diagnosis, report::Row};
use crate::{
    cli::http::{self, HttpAnswer},
    settings::{ApiSupport, Credential, UpstreamSettings},
    translate::{self, Translation, answer::Origin},
    wire::json::Document,
};

/// Calls that are asked for.
const CALLS: [&str; 10] = ["Lisbon", "Oslo", "Quito", "Hanoi", "Perth", "Turin", "Lagos", "Dakar", "Osaka", "Ghent"];
/// Right calls of those from which a model counts as able.
const ABLE: usize = 9;
/// Seconds by which clocks may differ.
const CLOCK_SECONDS_MAX: u64 = 60;
/// Characters of an upstream's own words that are shown.
const SAID_BYTES_MAX: usize = 200;

/// Bytes of a wrong call that are shown.
const CALL_BYTES_MAX: usize = 120;

/// Result of one small call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum CallQuality {
    /// The right function with the right arguments.
    Right,
    /// A call that fits neither its schema nor the question.
    Wrong,
    /// An answer in words.
    Words,
}

/// An upstream that is asked in chat's terms, whichever API it has.
struct ModelServer<'a> {
    client: &'a reqwest::Client,
    upstream: &'a UpstreamSettings,
    key: Option<&'a str>,
}

impl ModelServer<'_> {
    /// The list of its models.
    async fn models(&self) -> Result<HttpAnswer, String> {
        http::get_json(self.client, &format!("{}/models", self.upstream.base_url), self.headers()?).await
    }

    /// Its answer to a request for a chat completion. A whole answer is one of chat's; a stream's events are its own.
    async fn ask(&self, request: &Value) -> Result<HttpAnswer, String> {
        let base = &*self.upstream.base_url;
        if self.upstream.chat != ApiSupport::Translate {
            return http::post_json(self.client, &format!("{base}/chat/completions"), self.headers()?, request.to_string()).await;
        }
        let document = Document::parse(request.to_string().into()).map_err(|error| error.to_string())?;
        let translation = Translation::CHAT_TO_MESSAGES;
        let body = translate::request::request(&document, translation).map_err(|error| error.to_string())?;
        let mut answer = http::post_json(self.client, &format!("{base}/messages"), self.headers()?, body).await?;
        if answer.status == 200 && request["stream"] != true {
            let origin = Origin::new(translation, &document, "doctor".into(), 0);
            let translated = translate::answer::answer(&answer.text.clone().into(), &origin).map_err(|error| error.to_string())?;
            answer.json = serde_json::from_slice(&translated).ok();
        }
        Ok(answer)
    }

    fn headers(&self) -> Result<HeaderMap, String> {
        let mut headers = HeaderMap::new();
        if self.upstream.chat == ApiSupport::Translate {
            headers.insert(HeaderName::from_static("anthropic-version"), HeaderValue::from_static(translate::MESSAGES_VERSION));
        }
        if let Some(key) = self.key {
            let (name, value) = self.upstream.key_header.header(key).map_err(|_| "the key has characters that no header may have")?;
            headers.insert(name, value);
        }
        Ok(headers)
    }
}

/// Tries an upstream.
pub async fn rows(context: &Diagnosis<'_>, upstream: &UpstreamSettings) -> Vec<Row> {
    let name = |what: &str| format!("{}: {what}", upstream.name);
    let mut rows = Vec::new();
    let key = match &upstream.credential {
        Credential::Own { key, .. } => Some(key.expose().to_owned()),
        Credential::Caller | Credential::None => context.caller_key.clone(),
    };
    let key = key.as_deref();
    let base = &*upstream.base_url;
    let server = ModelServer { client: &context.client, upstream, key };
    let listed = match server.models().await {
        Err(why) => {
            rows.push(Row::fault(name("reached"), format!("{base}: {why}"), "is base_url right, and does the server run?"));
            rows.extend(["key", "answers", "functions", "streams"].map(|what| Row::untried(name(what), "it isn't reached")));
            return rows;
        }
        Ok(answer) => answer,
    };
    rows.push(Row::well(name("reached"), base));
    if let Some(row) = clock(&name("clock"), &listed, context.now_unix) {
        rows.push(row);
    }
    if matches!(listed.status, 401 | 403) {
        rows.push(refused_key(name("key"), upstream, key));
        rows.extend(["answers", "functions", "streams"].map(|what| Row::untried(name(what), "the key is refused")));
        return rows;
    }
    let Some(model) = context.model.clone().or_else(|| first_model(&listed, upstream)) else {
        rows.push(Row::fault(
            name("answers"),
            format!("it lists no model (status {}){}", listed.status, said(&listed)),
            "name one: toolmark doctor --model NAME",
        ));
        rows.extend(["functions", "streams"].map(|what| Row::untried(name(what), "no model is known")));
        return rows;
    };
    let plain = json!({"model": model, "messages": [{"role": "user", "content": "Answer with one word: ready"}]});
    match server.ask(&plain).await {
        Ok(answer) if matches!(answer.status, 401 | 403) => {
            rows.push(refused_key(name("key"), upstream, key));
            rows.extend(["answers", "functions", "streams"].map(|what| Row::untried(name(what), "the key is refused")));
            return rows;
        }
        Ok(answer) if text_of(&answer).is_some() => {
            rows.push(Row::well(name("key"), key_words(upstream, key)));
            rows.push(Row::well(name("answers"), &*model));
        }
        answered => {
            let why = match answered {
                Ok(answer) => format!("{model}: status {}, no message in it{}", answer.status, said(&answer)),
                Err(why) => format!("{model}: {why}"),
            };
            rows.push(Row::fault(name("answers"), why, "is this model served? toolmark doctor --model NAME tries another"));
            rows.extend(["functions", "streams"].map(|what| Row::untried(name(what), "the model doesn't answer")));
            return rows;
        }
    }
    rows.push(functions(&server, &name("functions"), &model).await);
    rows.push(streams(&server, &name("streams"), &model).await);
    rows
}

fn key_words(upstream: &UpstreamSettings, key: Option<&str>) -> String {
    match &upstream.credential {
        Credential::Own { env, .. } => format!("the key from {env} works"),
        Credential::Caller | Credential::None if key.is_some() => "the caller's key works".into(),
        Credential::Caller | Credential::None => "none needed".into(),
    }
}

fn refused_key(check: String, upstream: &UpstreamSettings, key: Option<&str>) -> Row {
    match &upstream.credential {
        Credential::Own { env, .. } => Row::fault(check, format!("the key from {env} is refused"), format!("put a valid key into {env}")),
        Credential::Caller | Credential::None if key.is_some() => {
            Row::fault(check, "the caller's key is refused", "put a valid key into the variable that --key-env names")
        }
        Credential::Caller | Credential::None => Row::note(
            check,
            "it wants a key, and callers bring their own",
            "toolmark doctor --key-env VARIABLE tries the rest with a caller's key",
        ),
    }
}

fn first_model(listed: &HttpAnswer, upstream: &UpstreamSettings) -> Option<String> {
    let models = listed.json.as_ref()?["data"].as_array()?;
    let speaks = |id: &&str| !["embed", "whisper", "tts", "dall-e", "moderation", "image", "rerank"].iter().any(|word| id.contains(word));
    models.iter().filter_map(|model| model["id"].as_str()).filter(|id| upstream.serves(id)).find(speaks).map(str::to_owned)
}

fn said(answer: &HttpAnswer) -> String {
    let text = answer.json.as_ref().and_then(|json| json["error"]["message"].as_str()).unwrap_or(answer.text.trim());
    if text.is_empty() { String::new() } else { format!(": {}", crate::wire::json::string::cut(text, SAID_BYTES_MAX)) }
}

/// The text of an answer; reasoning counts, as a model may use up its tokens on it.
fn text_of(answer: &HttpAnswer) -> Option<String> {
    let message = &answer.json.as_ref()?["choices"][0]["message"];
    ["content", "reasoning_content", "reasoning"].iter().find_map(|name| message[*name].as_str()).map(str::to_owned)
}

async fn functions(server: &ModelServer<'_>, check: &str, model: &str) -> Row {
    let (mut right, mut wrong, mut words, mut example) = (0, 0, 0, None);
    for city in CALLS {
        let request = json!({
            "model": model,
            "messages": [{"role": "user", "content": format!("How warm is it in {city}, in Celsius? Use the tool.")}],
            "tools": [{"type": "function", "function": {
                "name": "get_temperature",
                "description": "The temperature of a city now.",
                "parameters": {
                    "type": "object",
                    "properties": {"city": {"type": "string"}, "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]}},
                    "required": ["city", "unit"], "additionalProperties": false
                }
            }}]
        });
        let answer = match server.ask(&request).await {
            Err(why) => return Row::fault(check, why, "the model answers without tools, not with them: does its server know functions?"),
            Ok(answer) if answer.status != 200 => {
                let why = format!("status {}{}", answer.status, said(&answer));
                return Row::fault(check, why, "tools are refused: choose a model that calls functions, or the server's option for them");
            }
            Ok(answer) => answer,
        };
        match quality(&answer, city) {
            CallQuality::Right => right += 1,
            CallQuality::Wrong => {
                wrong += 1;
                example = example.or_else(|| first_call(&answer));
            }
            CallQuality::Words => words += 1,
        }
    }
    let example = example.map_or_else(String::new, |call| format!(" (such as {call})"));
    let text = format!("{right} of {} calls right, {wrong} wrong{example}, {words} answered in words", CALLS.len());
    match right {
        ABLE.. => Row::well(check, text),
        0 => Row::fault(check, text, "this model can't call functions here: choose another, or the server's option for its chat template"),
        _ => Row::note(check, text, "toolmark will repair or block what is wrong: a larger model costs fewer repairs"),
    }
}

/// The first call of an answer, as `name(arguments)`, cut.
fn first_call(answer: &HttpAnswer) -> Option<String> {
    let function = &answer.json.as_ref()?["choices"][0]["message"]["tool_calls"][0]["function"];
    let arguments = function["arguments"].as_str().map_or_else(|| function["arguments"].to_string(), str::to_owned);
    let call = format!("{}({arguments})", function["name"].as_str().unwrap_or("?")).replace(char::is_control, " ");
    Some(format!("`{}`", crate::wire::json::string::cut(&call, CALL_BYTES_MAX)))
}

fn quality(answer: &HttpAnswer, city: &str) -> CallQuality {
    let Some(json) = &answer.json else { return CallQuality::Words };
    let calls = json["choices"][0]["message"]["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
    let [call, ..] = calls else { return CallQuality::Words };
    let function = &call["function"];
    let arguments = function["arguments"].as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
    let Some(Value::Object(arguments)) = arguments else { return CallQuality::Wrong };
    let has = |name: &str, is: &dyn Fn(&str) -> bool| arguments.get(name).and_then(Value::as_str).is_some_and(is);
    let asked = has("city", &|text| text.to_lowercase().contains(&city.to_lowercase()))
        && has("unit", &|text| matches!(text, "celsius" | "fahrenheit"))
        && arguments.len() == 2;
    if asked && function["name"] == "get_temperature" && calls.len() == 1 { CallQuality::Right } else { CallQuality::Wrong }
}

async fn streams(server: &ModelServer<'_>, check: &str, model: &str) -> Row {
    let request = json!({"model": model, "stream": true, "messages": [{"role": "user", "content": "Count from one to five."}]});
    match server.ask(&request).await {
        Err(why) => Row::fault(check, why, "clients that stream will see this, too"),
        Ok(answer) => {
            let events = answer.text.lines().filter(|line| line.starts_with("data:") && !line.contains("[DONE]")).count();
            let end = if server.upstream.chat == ApiSupport::Translate { "message_stop" } else { "[DONE]" };
            let ended = answer.text.lines().any(|line| line.trim_end().strip_suffix(end).is_some_and(|line| line.ends_with([' ', ':'])));
            match (answer.status, events, ended) {
                (200, 1.., true) => Row::well(check, format!("{events} events")),
                (200, 1.., false) => {
                    Row::fault(check, format!("{events} events, and no {end}"), "the server, or a proxy before it, breaks streams off")
                }
                (status, ..) => {
                    Row::fault(check, format!("status {status}, no stream{}", said(&answer)), "clients that stream can't use this model")
                }
            }
        }
    }
}

/// The difference between this machine's clock and the server's. `now_unix`: seconds.
fn clock(check: &str, answer: &HttpAnswer, now_unix: u64) -> Option<Row> {
    let theirs = unix_of(answer.date.as_deref()?)?;
    let apart = theirs.abs_diff(now_unix);
    Some(if apart <= CLOCK_SECONDS_MAX {
        Row::well(check, format!("{apart} s apart"))
    } else {
        Row::note(
            check,
            format!("{apart} s apart"),
            "set this machine's clock (NTP): ids and records have times, and TLS needs the right one",
        )
    })
}

/// Unix seconds of an HTTP date like `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110, IMF-fixdate).
fn unix_of(date: &str) -> Option<u64> {
    let mut parts = date.split(' ').skip(1);
    let (day, month, year, time) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let month =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"].iter().position(|own| *own == month)? + 1;
    let at = humantime::parse_rfc3339(&format!("{year}-{month:02}-{day}T{time}Z")).ok()?;
    at.duration_since(std::time::UNIX_EPOCH).ok().map(|since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(message: Value) -> HttpAnswer {
        let json = json!({"choices": [{"message": message}]});
        HttpAnswer { status: 200, server: None, date: None, text: json.to_string(), json: Some(json) }
    }

    #[test]
    fn calls_are_told_apart() {
        let call = |name: &str, arguments: &str| answer(json!({"tool_calls": [{"function": {"name": name, "arguments": arguments}}]}));
        for (got, expected) in [
            (call("get_temperature", r#"{"city": "Oslo, Norway", "unit": "celsius"}"#), CallQuality::Right),
            (call("get_temperature", r#"{"city": "Bergen", "unit": "celsius"}"#), CallQuality::Wrong),
            (call("get_temperature", r#"{"city": "Oslo", "unit": "kelvin"}"#), CallQuality::Wrong),
            (call("get_temperature", r#"{"city": "Oslo", "unit": "celsius", "x": 1}"#), CallQuality::Wrong),
            (call("get_temperature", r#"{"city": "Oslo""#), CallQuality::Wrong),
            (call("temperature", r#"{"city": "Oslo", "unit": "celsius"}"#), CallQuality::Wrong),
            (answer(json!({"content": "7 degrees"})), CallQuality::Words),
            (HttpAnswer { json: None, ..answer(json!({})) }, CallQuality::Words),
        ] {
            assert_eq!(quality(&got, "Oslo"), expected, "{}", got.text);
        }
        assert_eq!(first_call(&call("temperature", "{\"city\": \"Os\nlo\"")).unwrap(), "`temperature({\"city\": \"Os lo\")`");
        assert_eq!(first_call(&call("t", &"x".repeat(999))).map(|call| call.len()), Some(CALL_BYTES_MAX + 2));
    }

    #[test]
    fn clocks() {
        assert_eq!(unix_of("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
        for wrong in ["", "yesterday", "Sun, 06 Foo 1994 08:49:37 GMT"] {
            assert_eq!(unix_of(wrong), None, "{wrong}");
        }
        let dated = HttpAnswer { date: Some("Sun, 06 Nov 1994 08:49:37 GMT".into()), ..answer(json!({})) };
        assert_eq!(clock("c", &dated, 784_111_777 + 60).unwrap().remedy, "");
        assert!(clock("c", &dated, 784_111_777 - 61).unwrap().remedy.contains("NTP"));
        assert_eq!(clock("c", &answer(json!({})), 0), None);
    }
}
