//! The log's text form: time, level, target, message, fields; one line per event, written directly.
//!
//! The stock formatter spends more on a line than judging an exchange does; this one only copies.

use std::{
    fmt::{self, Write as _},
    time::SystemTime,
};

use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    fmt::{
        FmtContext,
        format::{FormatEvent, FormatFields, Writer},
    },
    registry::LookupSpan,
};

/// Lines for people.
#[derive(Clone, Copy, Debug)]
pub struct Line;

impl<S, N> FormatEvent<S, N> for Line
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'w> FormatFields<'w> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut out: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let metadata = event.metadata();
        write!(out, "{} ", humantime::format_rfc3339_micros(SystemTime::now()))?;
        let (level, colour) = match *metadata.level() {
            Level::ERROR => ("ERROR ", "\u{1b}[31m"),
            Level::WARN => (" WARN ", "\u{1b}[33m"),
            Level::INFO => (" INFO ", "\u{1b}[32m"),
            Level::DEBUG => ("DEBUG ", "\u{1b}[34m"),
            Level::TRACE => ("TRACE ", "\u{1b}[35m"),
        };
        if out.has_ansi_escapes() {
            write!(out, "{colour}{level}\u{1b}[0m")?;
        } else {
            out.write_str(level)?;
        }
        out.write_str(metadata.target())?;
        out.write_str(":")?;
        let mut fields = Fields { out, outcome: Ok(()), text: String::new() };
        event.record(&mut fields);
        fields.outcome?;
        fields.out.write_char('\n')
    }
}

struct Fields<'w> {
    out: Writer<'w>,
    outcome: fmt::Result,
    text: String,
}

impl Fields<'_> {
    fn name(&mut self, field: &Field) {
        self.then(|out| {
            out.write_char(' ')?;
            if field.name() == "message" {
                return Ok(());
            }
            out.write_str(field.name())?;
            out.write_char('=')
        });
    }

    fn then(&mut self, write: impl FnOnce(&mut Writer<'_>) -> fmt::Result) {
        if self.outcome.is_ok() {
            self.outcome = write(&mut self.out);
        }
    }
}

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.name(field);
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        self.outcome = self.outcome.and_then(|()| write!(text, "{value:?}"));
        // A line break, or a terminal's escape, in what comes from outside must not forge a line.
        self.then(|out| if text.bytes().any(|byte| byte < 0x20) { write!(out, "{}", text.escape_debug()) } else { out.write_str(&text) });
        self.text = text;
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.name(field);
        let plain = value.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\'));
        self.then(|out| if plain { out.write_str(value) } else { write!(out, "{value:?}") });
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.name(field);
        self.then(|out| out.write_str(itoa::Buffer::new().format(value)));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.name(field);
        self.then(|out| out.write_str(if value { "true" } else { "false" }));
    }
}
