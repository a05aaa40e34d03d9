//! `toolmark tail` and `toolmark show`: the exchanges of a running toolmark in a terminal, from its admin API.
//!
//! What models, tools and callers named is hostile text: control characters never reach the terminal.

use std::{
    fmt::Write as _,
    io::{BufRead as _, BufReader, IsTerminal as _, Read as _},
    process::ExitCode,
    time::{Duration, UNIX_EPOCH},
};

use clap::Args;
use serde_json::Value;

use super::{Error, health};
use crate::{
    settings::Flags,
    sys::tls,
    telemetry::summary::{ExchangeFilter, ExchangeSummary},
};

/// Time limit for connecting, and for an answer that ends.
const CONNECT: Duration = Duration::from_secs(5);
const ANSWER: Duration = Duration::from_secs(60);
/// Pause before connecting again.
const AGAIN: Duration = Duration::from_secs(1);
/// The feed of exchanges.
const EVENTS: &str = "/api/events?kinds=exchange";
/// Longest line of the live feed, in bytes.
const LINE_BYTES_MAX: u64 = 4 << 20;

/// Address of the admin listener.
#[derive(Args, Clone, Debug)]
pub struct AdminArgs {
    /// The admin listener, instead of the one in the settings; its token is read from TOOLMARK_ADMIN_TOKEN or TOOLMARK_ADMIN_READ_TOKEN
    #[arg(long, value_name = "URL")]
    pub admin: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `toolmark tail`
#[derive(Args, Clone, Debug)]
pub struct TailArgs {
    /// Only exchanges that match, e.g. "verdict=blocked tool=get_weather"; also code=, model=, session=, and words
    #[arg(long, value_name = "FILTER", default_value = "")]
    pub filter: String,
    /// The admin listener.
    #[command(flatten)]
    pub admin: AdminArgs,
}

/// `toolmark show`
#[derive(Args, Clone, Debug)]
pub struct ShowArgs {
    /// The exchange: what the header `toolmark-exchange` names
    #[arg(value_name = "ID")]
    pub id: String,
    /// The admin listener.
    #[command(flatten)]
    pub admin: AdminArgs,
}

/// Use of colours.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Colours {
    On,
    Off,
}

impl Colours {
    fn of_terminal() -> Self {
        let on = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        if on { Self::On } else { Self::Off }
    }

    fn paint(self, ended: &str, text: &str) -> String {
        let colour = match ended {
            "pass" | "accepted" => "32",
            "warn" | "withheld" | "info" => "33",
            "repaired" => "36",
            "blocked" | "failed" | "rejected" | "block" => "31",
            _ => "2",
        };
        if self == Self::On { format!("\u{1b}[{colour}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

/// A text without control characters: what comes from outside must not steer a terminal.
fn clean(text: &str) -> String {
    let is_hidden =
        |sign: char| sign.is_control() || matches!(sign, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars().map(|sign| if is_hidden(sign) && sign != '\n' { '\u{fffd}' } else { sign }).collect()
}

/// A text as one line.
fn line(text: &str) -> String {
    clean(text).replace('\n', " ")
}

fn client(limit: Option<Duration>) -> Result<reqwest::blocking::Client, Error> {
    let tls = tls::http_client_config(tls::TrustedRoots::Platform).map_err(|error| Error::Failed(error.to_string()))?;
    // No redirects: the token is for this listener only.
    let client = reqwest::blocking::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
    let built = client.connect_timeout(CONNECT).timeout(limit).tls_backend_preconfigured(tls).build();
    built.map_err(|error| Error::Failed(error.to_string()))
}

/// Base URL of the admin listener: as named, or as the settings have it.
fn base_url(admin: &AdminArgs, flags: &Flags) -> Result<String, Error> {
    if let Some(named) = &admin.admin {
        let named = named.trim_end_matches('/');
        return Ok(if named.contains("://") { named.to_owned() } else { format!("http://{named}") });
    }
    let listen = health::settings_without_upstreams(flags)?.admin.listen;
    let off = || Error::Failed("the settings have no admin listener (`[admin] listen = \"off\"`): name another one by --admin".into());
    Ok(format!("http://{}", health::reachable(listen.ok_or_else(off)?)))
}

fn ask(base: &str, path: &str, limit: Option<Duration>) -> Result<reqwest::blocking::Response, Error> {
    let mut request = client(limit)?.get(format!("{base}{path}"));
    let token = ["TOOLMARK_ADMIN_TOKEN", "TOOLMARK_ADMIN_READ_TOKEN"].iter().find_map(|name| std::env::var(name).ok());
    if let Some(token) = token.filter(|token| !token.trim().is_empty()) {
        request = request.bearer_auth(token.trim());
    }
    let answer = request.send().map_err(|error| {
        Error::Failed(format!(
            "{base} can't be reached: {}: does `toolmark serve` run, and is --admin its admin listener?",
            error.without_url()
        ))
    })?;
    if answer.status().is_success() {
        return Ok(answer);
    }
    let status = answer.status();
    let error = json_of(answer).unwrap_or_default();
    let why = error["error"]["message"].as_str().map_or_else(|| format!("HTTP {status}"), line);
    Err(Error::Failed(format!("{base} says: {why}")))
}

/// The JSON of an answer.
fn json_of(answer: reqwest::blocking::Response) -> Result<Value, Error> {
    let body = answer.bytes().map_err(|error| Error::Failed(format!("the answer can't be read: {}", error.without_url())))?;
    serde_json::from_slice(&body).map_err(|error| Error::Failed(format!("the answer can't be read: {error}")))
}

/// Runs `toolmark tail` until it is ended.
///
/// # Errors
/// A filter that is wrong, or a listener that can't be reached at first.
pub fn tail(arguments: &TailArgs, flags: &Flags) -> Result<ExitCode, Error> {
    let base = base_url(&arguments.admin, flags)?;
    let filter = ExchangeFilter::parse(&arguments.filter).map_err(Error::Failed)?;
    let colours = Colours::of_terminal();
    let mut feed = Some(ask(&base, EVENTS, None)?);
    loop {
        if let Some(feed) = feed.take() {
            let mut lines = BufReader::new(feed);
            let (mut text, mut is_exchange) = (String::new(), false);
            // A feed that breaks off is asked for again.
            while let Ok(1..) = (&mut lines).take(LINE_BYTES_MAX).read_line(&mut text) {
                if let Some(kind) = text.strip_prefix("event: ") {
                    is_exchange = kind.trim_end() == "exchange";
                } else if let Some(data) = text.strip_prefix("data: ").filter(|_| is_exchange)
                    && let Ok(row) = serde_json::from_str::<ExchangeSummary>(data)
                    && filter.matches(&row)
                {
                    let shown = if arguments.admin.json { data.trim_end().to_owned() } else { shown(&row, colours) };
                    let out = std::io::Write::write_all(&mut std::io::stdout(), (shown + "\n").as_bytes());
                    if out.is_err() {
                        return Ok(ExitCode::SUCCESS);
                    }
                }
                text.clear();
            }
        }
        std::thread::sleep(AGAIN);
        feed = ask(&base, EVENTS, None).ok();
    }
}

/// A row as a line.
fn shown(row: &ExchangeSummary, colours: Colours) -> String {
    let time = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_millis(row.at_ms));
    let verdict = colours.paint(&row.ended, &format!("{:<9}", row.ended));
    let mut out = format!("{time} {verdict} {} {} {} ms", row.id, line(&row.model), row.total_us / 1000);
    if let Some(tokens) = row.tokens {
        let _infallible = write!(out, " {} tokens", tokens.input.saturating_add(tokens.output));
    }
    for call in &row.calls {
        let outcome = serde_json::to_value(call.outcome).unwrap_or_default();
        let _infallible = write!(out, " {}", colours.paint(outcome.as_str().unwrap_or_default(), &line(&call.tool)));
    }
    for code in &row.codes {
        let _infallible = write!(out, " {}", colours.paint(code.severity.as_str(), &format!("[{}]", code.code)));
    }
    if let Some(session) = &row.session {
        let _infallible = write!(out, " session={}", line(session));
    }
    out
}

/// Runs `toolmark show`.
///
/// # Errors
/// A listener that can't be reached, or an exchange that it doesn't know.
pub fn show(arguments: &ShowArgs, flags: &Flags) -> Result<ExitCode, Error> {
    let base = base_url(&arguments.admin, flags)?;
    let id: uuid::Uuid =
        arguments.id.parse().map_err(|_| Error::Failed("an exchange's id is a UUID, as in the header `toolmark-exchange`".into()))?;
    let timeline = json_of(ask(&base, &format!("/api/exchanges/{id}/timeline"), Some(ANSWER))?)?;
    let text = match arguments.admin.json {
        true => serde_json::to_string_pretty(&timeline).unwrap_or_default() + "\n",
        false => told(&timeline, Colours::of_terminal()),
    };
    super::print(&text);
    Ok(ExitCode::SUCCESS)
}

/// The timeline as text.
fn told(timeline: &Value, colours: Colours) -> String {
    let (mut out, summary) = (String::new(), &timeline["summary"]);
    let word = |value: &Value| line(value.as_str().unwrap_or("-"));
    let ended = word(&summary["ended"]);
    let mut say = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    let time = humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(timeline["began_ms"].as_u64().unwrap_or(0)));
    let total_ms = summary["total_us"].as_u64().unwrap_or(0) / 1000;
    say(format!(
        "{} {} {time} {} {} {total_ms} ms",
        word(&summary["id"]),
        colours.paint(&ended, &ended),
        word(&summary["api"]),
        word(&summary["model"])
    ));
    if timeline["bodies"] == false {
        say("Bodies are closed: set TOOLMARK_ADMIN_TOKEN here and where toolmark serves, or `[admin] bodies = \"everyone\"` there.".into());
    } else if timeline["kept"] == "nowhere" {
        say("The bodies of this exchange aren't kept.".into());
    }
    say(format!("\nThe request came{}", timeline["request"]["line"].as_str().map_or_else(String::new, |own| format!(": {}", line(own)))));
    findings(&timeline["request"]["findings"], colours, &mut say);
    for attempt in timeline["attempts"].as_array().into_iter().flatten() {
        for told in attempt["told"].as_array().into_iter().flatten() {
            say("  The model was told:".into());
            indented(told.as_str().unwrap_or_default(), "    ", &mut say);
        }
        let status = attempt["status"].as_u64().map_or_else(|| "no answer".to_owned(), |status| format!("HTTP {status}"));
        say(format!(
            "\nAttempt {}: {}, {}, {status}, {} ms",
            attempt["number"],
            word(&attempt["upstream"]),
            word(&attempt["model"]),
            attempt["duration_us"].as_u64().unwrap_or(0) / 1000
        ));
        if let Some(text) = attempt["text"].as_str() {
            indented(text, "  ", &mut say);
        }
        for call in attempt["calls"].as_array().into_iter().flatten() {
            let outcome = word(&call["outcome"]);
            say(format!(
                "  call {} {} {}",
                word(&call["tool"]),
                colours.paint(&outcome, &outcome),
                call["arguments"].as_str().map_or_else(String::new, line)
            ));
            findings(&call["findings"], colours, &mut say);
        }
        findings(&attempt["findings"], colours, &mut say);
    }
    let answer = &timeline["answer"];
    say(format!("\nWhat left: HTTP {}", answer["status"].as_u64().map_or_else(|| "-".to_owned(), |status| status.to_string())));
    if let Some(text) = answer["text"].as_str() {
        indented(text, "  ", &mut say);
    }
    for call in answer["calls"].as_array().into_iter().flatten() {
        say(format!("  call {} {} {}", word(&call["tool"]), word(&call["id"]), call["arguments"].as_str().map_or_else(String::new, line)));
    }
    for execution in timeline["executions"].as_array().into_iter().flatten() {
        let outcome = if execution["failed"] == true { colours.paint("failed", "failed") } else { colours.paint("pass", "succeeded") };
        say(format!("  execution {} {outcome}", word(&execution["id"])));
    }
    out
}

fn indented(text: &str, by: &str, say: &mut impl FnMut(String)) {
    clean(text).lines().for_each(|line| say(format!("{by}{line}")));
}

fn findings(list: &Value, colours: Colours, say: &mut impl FnMut(String)) {
    for finding in list.as_array().into_iter().flatten() {
        let word = |name: &str| finding[name].as_str().map(line);
        let severity = word("severity").unwrap_or_default();
        let at = word("pointer").filter(|pointer| !pointer.is_empty()).map_or_else(String::new, |pointer| format!(" at {pointer}"));
        let means = word("means").unwrap_or_default();
        say(format!("    {}{at}: {means}", colours.paint(&severity, &format!("[{}] {severity}", word("code").unwrap_or_default()))));
        for text in [word("message"), word("advice").map(|advice| format!("advice: {advice}"))].into_iter().flatten() {
            say(format!("      {text}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nothing_steers_the_terminal() {
        for hostile in ["\u{1b}]0;title\u{7}", "\u{9b}31m", "a\rb", "\u{202e}txt", "x\u{8}\u{8}"] {
            assert!(clean(hostile).chars().all(|sign| !sign.is_control() && sign != '\u{202e}'), "{hostile:?}");
        }
        let mut row = ExchangeSummary::of(&crate::ledger::fixtures::RecordGenerator::record(2));
        row.model = "m\u{1b}[2J\nx".into();
        row.calls[0].tool = "\u{1b}[31mtool".into();
        let text = shown(&row, Colours::Off);
        assert!(!text.contains('\u{1b}') && text.lines().count() == 1 && text.contains("repaired"), "{text:?}");
        assert!(shown(&row, Colours::On).contains("\u{1b}[36mrepaired"));
    }

    #[test]
    fn a_timeline_is_told() {
        let finding = json!({"code": "wrong_type", "severity": "block", "means": "another type", "pointer": "/city", "message": "should be string", "advice": "change it"});
        let timeline = json!({
            "summary": {"id": "x", "ended": "repaired", "api": "chat", "model": "m", "total_us": 5000}, "began_ms": 0, "bodies": true, "kept": "memory",
            "request": {"line": "POST /v1", "findings": []}, "executions": [],
            "attempts": [
                {"number": 1, "upstream": "u", "model": "m", "status": 200, "duration_us": 2000, "told": [], "text": "Hm.", "findings": [],
                 "calls": [{"tool": "t", "outcome": "rejected", "arguments": "{\"city\":7}", "findings": [finding]}]},
                {"number": 2, "upstream": "u", "model": "m", "status": 200, "duration_us": 2000, "told": ["Tool call rejected: t\n- no"], "findings": [], "calls": []}],
            "answer": {"status": 200, "text": "Fine.", "calls": []},
        });
        let text = told(&timeline, Colours::Off);
        for words in [
            "call t rejected {\"city\":7}",
            "[wrong_type] block at /city: another type",
            "should be string",
            "advice: change it",
            "The model was told:\n    Tool call rejected: t\n    - no",
            "What left: HTTP 200\n  Fine.",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }
}
