//! The log's text form: time, level, target, message, fields; one line per event, written directly.
//!
//! The stock formatter takes longer for a line than judging an exchange does; this one only copies.

use std::{
    cell::Cell,
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

/// Text format of log lines.
#[derive(Clone, Copy, Debug)]
pub struct TextFormat;

impl<S, N> FormatEvent<S, N> for TextFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'w> FormatFields<'w> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut out: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let metadata = event.metadata();
        let mut fields = FieldVisitor { scratch: SCRATCH.take(), outcome: Ok(()) };
        let line = &mut fields.scratch.line;
        line.clear();
        write!(line, "{} ", humantime::format_rfc3339_micros(SystemTime::now()))?;
        let (level, colour) = match *metadata.level() {
            Level::ERROR => ("ERROR ", "\u{1b}[31m"),
            Level::WARN => (" WARN ", "\u{1b}[33m"),
            Level::INFO => (" INFO ", "\u{1b}[32m"),
            Level::DEBUG => ("DEBUG ", "\u{1b}[34m"),
            Level::TRACE => ("TRACE ", "\u{1b}[35m"),
        };
        if out.has_ansi_escapes() {
            line.extend([colour, level, "\u{1b}[0m"]);
        } else {
            line.push_str(level);
        }
        line.push_str(metadata.target());
        line.push(':');
        event.record(&mut fields);
        let FieldVisitor { mut scratch, outcome } = fields;
        scratch.line.push('\n');
        let written = outcome.and_then(|()| out.write_str(&scratch.line));
        for text in [&mut scratch.line, &mut scratch.value] {
            text.clear();
            text.shrink_to(KEPT_BYTES_MAX);
        }
        SCRATCH.set(scratch);
        written
    }
}

/// Maximum bytes of buffers that are reused for the next line.
const KEPT_BYTES_MAX: usize = 16 << 10;

thread_local! {
    static SCRATCH: Cell<LineBuffer> = const { Cell::new(LineBuffer { line: String::new(), value: String::new() }) };
}

/// Buffers for a line before it is copied, and for a value before it is known to contain no control characters.
#[derive(Default)]
struct LineBuffer {
    line: String,
    value: String,
}

struct FieldVisitor {
    scratch: LineBuffer,
    outcome: fmt::Result,
}

impl FieldVisitor {
    fn name(&mut self, field: &Field) -> &mut String {
        let line = &mut self.scratch.line;
        line.push(' ');
        if field.name() != "message" {
            line.push_str(field.name());
            line.push('=');
        }
        line
    }

    fn note(&mut self, outcome: fmt::Result) {
        self.outcome = self.outcome.and(outcome);
    }
}

impl Visit for FieldVisitor {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.name(field);
        let LineBuffer { line, value: text } = &mut self.scratch;
        text.clear();
        let outcome = write!(text, "{value:?}");
        // A line break, or a terminal's escape, in what comes from outside must not forge a line.
        if text.bytes().any(|byte| byte < 0x20) {
            line.extend(text.escape_debug());
        } else {
            line.push_str(text);
        }
        self.note(outcome);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let line = self.name(field);
        let plain = value.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\'));
        let outcome = if plain {
            line.push_str(value);
            Ok(())
        } else {
            write!(line, "{value:?}")
        };
        self.note(outcome);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.name(field).push_str(itoa::Buffer::new().format(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.name(field).push_str(if value { "true" } else { "false" });
    }
}
