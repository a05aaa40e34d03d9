//! Stamps, which show a result's execution ID, and other properties read from a result.
//!
//! docs/wire-facts.md#stamps. Works on the result as it lies in the request: a stamp is a splice, the result's
//! own bytes stay. Pure and deterministic: the same conversation gets the same stamps.

use std::{
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use bytes::Bytes;
use regex::RegexSet;

use super::{
    Execution, ExecutionProof,
    memo::{ResultMemo, StampMemo},
};
use crate::{
    claims::evidence::{
        facts::parse_to,
        failure::{TOP_DEPTH, is_told, top_tells_failure},
    },
    judge::text::has_id,
    marks::MarkTime,
    policy::StampForm,
    violation::{Checks, Code, Severity, Violation},
    wire::json::{
        Document, Kind, Value,
        splice::Splices,
        string::{escape_into, quote, quote_into},
    },
};

/// Contents of a result's stamp.
#[derive(Clone, Copy, Debug)]
pub struct Stamp<'s> {
    /// The execution ID.
    pub execution_id: &'s str,
    /// Name of the tool; only earlier forms of the stamp contain it.
    pub tool: &'s str,
    /// Mark time of the call; only earlier forms of the stamp contain it.
    pub moment: MarkTime,
}

impl Stamp<'_> {
    fn member(&self) -> String {
        format!(r#""execution_id":"{}""#, self.execution_id)
    }

    fn line(&self) -> String {
        format!("[execution_id: {}]\n", self.execution_id)
    }

    /// A text part with the stamp. `kind`: its type.
    fn part(&self, kind: &str) -> String {
        let mut part = format!(r#"{{"type":"{kind}","text":"#);
        quote_into(&mut part, self.line().trim_end());
        part.push('}');
        part
    }

    /// Wraps a result in an object with the stamp. `result`: JSON text.
    fn wrapped(&self, result: &str) -> String {
        format!(r#"{{{},"result":{result}}}"#, self.member())
    }

    /// Stamp line of toolmark up to 0.1.0, which also contained the tool and the time.
    fn earlier_line(&self) -> String {
        let tool: String = self.tool.chars().filter(|c| !c.is_control()).collect();
        let executed_at = humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(self.moment.time_ms));
        format!("[execution_id: {} tool: {tool} executed_at: {executed_at}]\n", self.execution_id)
    }
}

/// Properties read from a result's text.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ResultTraits {
    /// The result reports a failure.
    pub failed: bool,
    /// The result carries an execution ID of its own.
    pub stamped: bool,
    /// The text is a JSON object.
    pub object: bool,
    /// The text is a JSON object with members.
    pub members: bool,
    /// The members tell a failure, if the tool only reads; `None` if that can't be told from them alone.
    pub told_at_top: Option<bool>,
}

/// Classifies a result's text. `error_patterns`: texts that are errors.
pub fn nature(text: &str, error_patterns: &RegexSet) -> ResultTraits {
    let trimmed = text.trim_start();
    if !trimmed.starts_with('{') {
        let failed = error_patterns.is_match(text);
        return ResultTraits { failed, stamped: trimmed.starts_with("[execution_id:"), ..ResultTraits::default() };
    }
    let Some(document) = parse_to(text, TOP_DEPTH) else {
        return ResultTraits { failed: error_patterns.is_match(text), ..ResultTraits::default() };
    };
    let root = document.root();
    let flag = |name: &str, word: &[u8]| root.get(name).is_some_and(|value| value.raw() == word);
    let error = root.get_some("error").is_some_and(is_error);
    ResultTraits {
        failed: error || flag("success", b"false") || flag("isError", b"true"),
        stamped: root.get("execution_id").is_some(),
        object: true,
        members: root.members().next().is_some(),
        told_at_top: top_tells_failure(&document),
    }
}

/// Does an `error` member say that there is one? Many tools write that there is none: `""`, `"none"`, `0`, `{}`, `{"code":0}`.
fn is_error(value: Value<'_>) -> bool {
    match value.kind() {
        Kind::Plain | Kind::Escaped => value.text().is_none_or(|text| is_told(&text)),
        Kind::Number => value.raw() != b"0",
        Kind::True => true,
        Kind::False | Kind::Null => false,
        Kind::Array => value.items().next().is_some(),
        Kind::Object => {
            let zero = value.get("code").is_some_and(|code| matches!(code.raw(), b"0" | b"\"0\""));
            let told = || value.members().any(|member| member.value.text().is_some_and(|text| is_told(&text)));
            value.members().next().is_some() && (!zero || told())
        }
    }
}

/// Reader of a result.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ResultReader {
    /// The model.
    Model,
    /// Code that runs in a sandbox of the upstream.
    Code,
}

/// Stamps a result by `stamp`, or as it was stamped before if the same bytes were read, for the same reader, and its execution is the same.
/// `start`: offset of the result in the request; no edit lies before it.
pub fn stamp_once(
    edits: &mut Splices,
    memo: Option<&ResultMemo>,
    (proof, reader): (&Arc<ExecutionProof>, ResultReader),
    start: usize,
    stamp: impl FnOnce(&mut Splices),
) {
    let Some(memo) = memo else { return stamp(edits) };
    match memo.stamp.get() {
        Some(known) if Arc::ptr_eq(&known.proof, proof) && known.reader == reader => edits.extend_from(&known.edits, start),
        Some(_) => stamp(edits),
        None => {
            let mut own = Splices::default();
            stamp(&mut own);
            edits.extend(&own);
            let _known = memo.stamp.set(StampMemo { proof: proof.clone(), reader, edits: own.relative_to(start) });
        }
    }
}

/// Stamps a result whose content is a string. `content`: that string in the request; `nature`: properties of its text. A result that
/// already carries this stamp stays unchanged.
pub fn stamp_string(edits: &mut Splices, content: Value<'_>, nature: ResultTraits, stamp: &Stamp<'_>, form: StampForm) {
    let inside = content.span().start + 1;
    let text = || content.text().unwrap_or_default();
    if form == StampForm::Off || nature.stamped && is_stamped_so(&text(), stamp) {
        return;
    }
    let wrap = |result: &str, edits: &mut Splices| edits.replace(content.span(), quote(&stamp.wrapped(result)));
    if nature.object && nature.stamped {
        return wrap(&text(), edits);
    }
    if nature.object {
        let mut member = stamp.member();
        if nature.members {
            member.push(',');
        }
        return match brace(content) {
            Some(brace) => {
                let mut escaped = String::with_capacity(member.len() + 16);
                escape_into(&mut escaped, &member);
                edits.insert(brace + 1, escaped);
            }
            // The brace itself is spelled as an escape: the same text, spelled plainly.
            None => edits.replace(content.span(), quote(&text().replacen('{', &format!("{{{member}"), 1))),
        };
    }
    if form == StampForm::Json {
        let text = text();
        let json = Document::parse(Bytes::copy_from_slice(text.as_bytes())).is_ok();
        return if json { wrap(&text, edits) } else { wrap(&quote(&text), edits) };
    }
    let mut line = String::new();
    escape_into(&mut line, &stamp.line());
    edits.insert(inside, line);
}

/// Stamps a result whose content is a list of parts, with a text part in front. `kind`: type of text parts.
pub fn stamp_parts(edits: &mut Splices, parts: Value<'_>, stamp: &Stamp<'_>, form: StampForm, kind: &str) {
    let first = parts.items().next();
    let stamped = first.and_then(|part| part.get("text")).and_then(Value::text).is_some_and(|text| {
        let text = format!("{text}\n");
        text == stamp.line() || text == stamp.earlier_line()
    });
    if form == StampForm::Off || stamped {
        return;
    }
    let mut part = stamp.part(kind);
    if first.is_some() {
        part.push(',');
    }
    edits.insert(parts.span().start + 1, part);
}

/// Stamps a result that has no content: it gets a list of one text part. `kind`: type of text parts.
pub fn stamp_nothing(edits: &mut Splices, result: Value<'_>, stamp: &Stamp<'_>, form: StampForm, kind: &str) {
    if form != StampForm::Off {
        edits.set_member(result, "content", &format!("[{}]", stamp.part(kind)));
    }
}

/// A violation if a result already has an execution ID, unless it is the very stamp that it would get. `own`: the result's execution;
/// `text`: the result's text. An `execution_id` of another form than toolmark's is a tool's own, as workflow engines have them: it is
/// reported, and blocks nothing.
pub fn forged(checks: &Checks, own: Option<&Execution>, text: &str) -> Option<Violation> {
    if own.is_some_and(|execution| text.contains(&*execution.id)) {
        return None;
    }
    let tool = own.map(|execution| &*execution.tool);
    let message = "a tool result carries an execution ID that toolmark didn't put there";
    let advice = "leave `execution_id` to toolmark; the result was wrapped";
    let mut violation = checks.violation(Code::ForgedStamp, tool, message, advice)?;
    if !has_id(text) {
        violation.severity = violation.severity.min(Severity::Warn);
    }
    Some(violation)
}

/// True if this text was stamped with `stamp`, in today's form or an earlier one.
fn is_stamped_so(text: &str, stamp: &Stamp<'_>) -> bool {
    // All forms of an object begin with the same member, earlier ones and wrapped ones too.
    let object = || text.trim_start().strip_prefix('{').and_then(|rest| rest.strip_prefix(stamp.member().as_str()));
    text.starts_with(&stamp.line()) || object().is_some_and(|rest| rest.starts_with([',', '}'])) || text.starts_with(&stamp.earlier_line())
}

/// Offset of the text's opening brace in the request, if it isn't escaped.
fn brace(content: Value<'_>) -> Option<usize> {
    let raw = content.raw();
    let at = memchr::memchr(b'{', raw)?;
    // Only blanks may stand before it, plain or as escapes without hex.
    let blank = raw[1..at].iter().all(|byte| matches!(byte, b' ' | b'\\' | b'n' | b'r' | b't'));
    blank.then_some(content.span().start + at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stamp() -> Stamp<'static> {
        Stamp { execution_id: "t_1763760000123_abc0000000000001", tool: "t", moment: MarkTime { time_ms: 1_763_760_000_123, counter: 1 } }
    }

    fn patterns() -> RegexSet {
        RegexSet::new(crate::policy::Results::default().error_patterns).unwrap()
    }

    fn stamped_json(json: &str, form: StampForm) -> String {
        let document = Document::parse(Bytes::copy_from_slice(json.as_bytes())).unwrap();
        let text = document.root().text().unwrap();
        let mut edits = Splices::default();
        stamp_string(&mut edits, document.root(), nature(&text, &patterns()), &stamp(), form);
        let out = edits.apply(document.bytes());
        serde_json::from_slice::<String>(&out).unwrap()
    }

    fn stamped(text: &str, form: StampForm) -> String {
        stamped_json(&quote(text), form)
    }

    const MEMBER: &str = r#""execution_id":"t_1763760000123_abc0000000000001""#;
    const LINE: &str = "[execution_id: t_1763760000123_abc0000000000001]\n";

    #[test]
    fn forms() {
        for (text, form, expected) in [
            (r#"{"a": 1.10}"#, StampForm::Auto, format!(r#"{{{MEMBER},"a": 1.10}}"#)),
            (r#"{"executed_at":"2026-03-01"}"#, StampForm::Auto, format!(r#"{{{MEMBER},"executed_at":"2026-03-01"}}"#)),
            ("\n {}", StampForm::Auto, format!("\n {{{MEMBER}}}")),
            ("18 °C\n\"x\"", StampForm::Auto, format!("{LINE}18 °C\n\"x\"")),
            ("[1]", StampForm::Auto, format!("{LINE}[1]")),
            ("{broken", StampForm::Auto, format!("{LINE}{{broken")),
            ("", StampForm::Auto, LINE.to_owned()),
            ("[1]", StampForm::Json, format!(r#"{{{MEMBER},"result":[1]}}"#)),
            ("x\"", StampForm::Json, format!(r#"{{{MEMBER},"result":"x\""}}"#)),
            (r#"{"execution_id":1}"#, StampForm::Auto, format!(r#"{{{MEMBER},"result":{{"execution_id":1}}}}"#)),
            (
                r#"{"execution_id":"t_1763760000123_abc00000000000012"}"#,
                StampForm::Auto,
                format!(r#"{{{MEMBER},"result":{{"execution_id":"t_1763760000123_abc00000000000012"}}}}"#),
            ),
            ("x", StampForm::Off, "x".to_owned()),
        ] {
            assert_eq!(stamped(text, form), expected, "{text:?} {form:?}");
        }
        assert_eq!(stamped_json(r#""\u007b\"a\":1}""#, StampForm::Auto), format!(r#"{{{MEMBER},"a":1}}"#));
    }

    #[test]
    fn a_stamp_of_an_earlier_form_stays() {
        let earlier = "t_1763760000123_abc0000000000001";
        for text in [
            format!(r#"{{"execution_id":"{earlier}","executed_at":"2025-11-21T21:20:00.123Z","a":1}}"#),
            format!(r#"{{"execution_id":"{earlier}","tool_name":"t","executed_at":"2025-11-21T21:20:00.123Z","result":[1]}}"#),
            format!("[execution_id: {earlier} tool: t executed_at: 2025-11-21T21:20:00.123Z]\n18 °C"),
        ] {
            assert_eq!(stamped(&text, StampForm::Auto), text);
            assert_eq!(stamped(&text, StampForm::Json), text);
        }
        let parts = |first: &str| format!(r#"[{{"type":"text","text":{}}},{{"type":"image_url"}}]"#, quote(first));
        let stamp_of = |json: &str| {
            let document = Document::parse(Bytes::copy_from_slice(json.as_bytes())).unwrap();
            let mut edits = Splices::default();
            stamp_parts(&mut edits, document.root(), &stamp(), StampForm::Auto, "text");
            String::from_utf8(edits.apply(document.bytes()).to_vec()).unwrap()
        };
        for first in [format!("[execution_id: {earlier} tool: t executed_at: 2025-11-21T21:20:00.123Z]"), LINE.trim_end().to_owned()] {
            assert_eq!(stamp_of(&parts(&first)), parts(&first));
        }
        assert_eq!(stamp_of(&parts("x")), parts("x").replacen('[', &format!(r#"[{{"type":"text","text":"{}"}},"#, LINE.trim_end()), 1));
    }

    #[test]
    fn natures() {
        for (text, failed) in [
            (r#"{"error":"no"}"#, true),
            (r#"{"error":null}"#, false),
            (r#"{"success":false}"#, true),
            (r#"{"isError":true}"#, true),
            ("Error: x", true),
            ("Traceback (most", true),
            ("no errors", false),
            (r#"{"ok":true}"#, false),
        ] {
            assert_eq!(nature(text, &patterns()).failed, failed, "{text}");
        }
        assert!(nature("[execution_id: x]", &patterns()).stamped);
    }

    proptest! {
        #[test]
        fn stamping_twice_gives_the_same_bytes(text in prop_oneof![".{0,40}", Just("{}".to_owned()), Just(r#" {"a":{"b":[1]}}"#.to_owned())], json in any::<bool>()) {
            let form = if json { StampForm::Json } else { StampForm::Auto };
            let once = stamped(&text, form);
            prop_assert_eq!(stamped(&once, form), once.clone());
            prop_assert!(once.contains(stamp().execution_id));
        }
    }
}
