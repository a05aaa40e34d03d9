//! Scanner for calls that a model writes as text instead of making them, and for results that it makes up. Pure.
//!
//! One automaton finds the marks of all families (docs/wire-facts.md#calls-written-as-text); what follows a mark must
//! name a tool of this exchange, or nearly so, or it is an example. Self-written transcripts (`Action: … Observation: …`)
//! and blocks of tool output are results without an execution id. Nothing in a code fence counts, and nothing that the
//! conversation itself says.

use std::sync::OnceLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, Input, MatchKind};

use super::{
    beginnings::Beginnings,
    mark::{CallMarker, MARKS},
};
use crate::{
    claims::text_input::TextInput,
    judge::text::{
        Evidence, TextRules,
        fence::{CodeFenceTracker, TextMode},
        item::{Kind, ScannedItem},
        tail::TextWindow,
    },
    violation::{Code, Violation},
};

/// Bytes after a marker in which the tool's name must be.
const NAME_WITHIN: usize = 160;
/// Bytes after a name that must be available before it counts as ended.
const BEYOND: usize = 64;

/// Words between a marker and the tool's name.
const WORDS_MAX: usize = 12;

/// A call or result written as text.
#[derive(Clone, Debug)]
pub(in crate::judge::text) struct MarkedCall {
    /// True for a call, false for a result.
    pub call: bool,
    /// Name of the tool, if one is named.
    pub tool: Option<String>,
    /// The marker and the text after it in its line.
    pub said: String,
}

/// Scanner for markers.
#[derive(Debug, Default)]
pub(in crate::judge::text) struct CallMarkerScanner {
    at: usize,
    /// A marker whose tool isn't known yet: start, end, kind.
    open: Option<(usize, usize, CallMarker)>,
    /// Tool named by the last transcript step.
    action: Option<String>,
    /// `inside`: the line isn't blank before `at`; `before`: the byte directly before `at`.
    inside: bool,
    before: u8,
}

impl CallMarkerScanner {
    /// Reads all available text.
    pub fn advance(
        &mut self,
        tail: &TextWindow,
        fences: &CodeFenceTracker,
        evidence: &dyn Evidence,
        input: TextInput,
        found: &mut Vec<ScannedItem>,
    ) {
        let Some(automaton) = automaton() else {
            self.at = tail.end();
            return;
        };
        let may_find = may_have_mark(tail.bytes(self.at..tail.end()));
        loop {
            if let Some((start, end, begins)) = self.open {
                if !self.judge(start, end, begins, tail, evidence, input, found) {
                    return;
                }
                self.open = None;
                self.go_to(end, tail);
            }
            let rest = tail.bytes(self.at..tail.end());
            if !may_find {
                break;
            }
            let Some(mark) = automaton.find(Input::new(rest)) else { break };
            let (start, end) = (self.at + mark.start(), self.at + mark.end());
            let begins = MARKS.get(mark.pattern().as_usize()).map_or(CallMarker::Call, |(_, begins)| *begins);
            self.go_to(start, tail);
            let of_line = begins != CallMarker::Call || matches!(tail.slice(start..end), ">>>" | "```tool_code");
            // What stands in backticks is talked about.
            if fences.mode(start) == TextMode::Prose && self.before != b'`' && !(self.inside && of_line) {
                self.open = Some((start, end, begins));
            } else {
                self.go_to(end, tail);
            }
        }
        // The end of what there is may begin a mark.
        let kept = if input.is_complete() { 0 } else { partial(tail.bytes(self.at..tail.end())) };
        self.go_to(tail.end() - kept, tail);
    }

    fn go_to(&mut self, place: usize, tail: &TextWindow) {
        let passed = tail.bytes(self.at..place);
        let line = memchr::memrchr(b'\n', passed);
        let of_line = passed.get(line.map_or(0, |newline| newline + 1)..).unwrap_or_default();
        self.inside = line.is_none() && self.inside || of_line.iter().any(|byte| !matches!(byte, b' ' | b'\t'));
        self.before = passed.last().copied().unwrap_or(self.before);
        self.at = place;
    }

    /// Place before which nothing more will be found.
    pub fn hold(&self) -> usize {
        self.open.map_or(self.at, |(start, ..)| start)
    }

    /// Judges the open marker; false if more text is needed.
    #[expect(clippy::too_many_arguments, reason = "a mark, its place and what it is judged by")]
    fn judge(
        &mut self,
        start: usize,
        end: usize,
        begins: CallMarker,
        tail: &TextWindow,
        evidence: &dyn Evidence,
        input: TextInput,
        found: &mut Vec<ScannedItem>,
    ) -> bool {
        let after = tail.from(end);
        let line = after.find('\n').filter(|line| *line < BEYOND);
        if line.is_none() && after.len() < BEYOND && input.is_partial() {
            return false;
        }
        let said = tail.slice(start..tail.boundary(end + line.unwrap_or(BEYOND).min(after.len()))).to_owned();
        let mut push =
            |call, tool| found.push(ScannedItem { span: start..end, kind: Kind::Written(MarkedCall { call, tool, said: said.clone() }) });
        match begins {
            CallMarker::Observation => {
                if let Some(tool) = self.action.take() {
                    push(false, Some(tool));
                }
                return true;
            }
            CallMarker::Output => {
                push(false, None);
                return true;
            }
            CallMarker::Call | CallMarker::Action => {}
        }
        let whole = input.is_complete() || after.len() >= NAME_WITHIN + BEYOND;
        let window = after.get(..after.floor_char_boundary(NAME_WITHIN)).unwrap_or(after);
        let line = window.find("\n\n").unwrap_or(window.len());
        // The tool is named in the paragraph that the mark begins.
        let whole = whole || line < window.len();
        let window = window.get(..line).unwrap_or(window);
        let known = if whole { TextInput::Complete } else { TextInput::Partial };
        let tool = name(window, tail.slice(start..end), evidence, known);
        match (tool, begins) {
            (Some(tool), CallMarker::Action) => self.action = Some(tool),
            (Some(tool), _) => push(true, Some(tool)),
            (None, _) => return whole,
        }
        true
    }
}

/// The first complete word in `window` that names a tool. `input`: state of the window.
fn name(window: &str, mark: &str, evidence: &dyn Evidence, input: TextInput) -> Option<String> {
    let inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let mut from = 0;
    let object = mark.starts_with('{');
    // Whether it is a call, what follows the name says.
    if object && input.is_partial() {
        return None;
    }
    let mut seen = 0;
    while let Some(offset) = window.get(from..).and_then(|rest| rest.find(inside)) {
        let start = from + offset;
        let rest = window.get(start..).unwrap_or_default();
        let length = rest.find(|c| !inside(c)).unwrap_or(rest.len());
        if start + length == window.len() && input.is_partial() {
            return None;
        }
        let word = rest.get(..length).unwrap_or_default();
        let bare = word.strip_prefix("functions.").or_else(|| word.strip_prefix("tools.")).unwrap_or(word);
        if evidence.is_registered(bare) {
            let rest = window.get(start + length..).unwrap_or_default();
            return (!object || is_call(rest)).then(|| bare.to_owned());
        }
        seen += 1;
        // The name of an object's tool is its first value.
        if seen > if object { 2 } else { WORDS_MAX } {
            return None;
        }
        from = start + length;
    }
    None
}

/// True if a text that consists only of calls is found by the marker at its beginning.
pub(in crate::judge::text) fn is_marked(text: &str, evidence: &dyn Evidence) -> bool {
    let mark = MARKS.iter().map(|(mark, _)| *mark).filter(|mark| text.starts_with(mark)).max_by_key(|mark| mark.len());
    mark.is_some_and(|mark| {
        let window = text.get(mark.len()..).unwrap_or_default();
        let window = window.get(..window.floor_char_boundary(NAME_WITHIN)).unwrap_or(window);
        let window = window.split("\n\n").next().unwrap_or(window);
        name(window, mark, evidence, TextInput::Complete).is_some()
    })
}

/// True if an object goes on after its tool's name as a call of Llama's does: with `parameters` that are no schema. An object with
/// `arguments` isn't told apart: APIs, and answers about them, write calls that way too.
fn is_call(rest: &str) -> bool {
    let next = rest.trim_start_matches(['"', '\'', ' ', ',', '\n', '\t', '\r']);
    next.strip_prefix("parameters").is_some_and(|value| !value.contains("\"properties\"") && !value.contains("\"object\""))
}

/// Bytes of the longest marker.
const MARK_BYTES_MAX: usize = {
    let (mut longest, mut at) = (0, 0);
    while at < MARKS.len() {
        let length = MARKS[at].0.len();
        longest = if length > longest { length } else { longest };
        at += 1;
    }
    longest
};

/// False if no marker stands in a text: each has one of these bytes.
fn may_have_mark(bytes: &[u8]) -> bool {
    memchr::memchr3(b'<', b'[', b':', bytes).is_some() || bytes.iter().any(|byte| matches!(byte, b'>' | b'`' | b'{' | b'='))
}

static BEGINNINGS: Beginnings = {
    let (mut marks, mut at) = ([""; MARKS.len()], 0);
    while at < MARKS.len() {
        marks[at] = MARKS[at].0;
        at += 1;
    }
    Beginnings::of(&marks)
};

/// Number of bytes at the end of `rest` that may begin a marker.
fn partial(rest: &[u8]) -> usize {
    let end = rest.get(rest.len().saturating_sub(MARK_BYTES_MAX - 1)..).unwrap_or_default();
    let begins = |from: &usize| {
        let end = end.get(*from..).unwrap_or_default();
        MARKS.iter().any(|(mark, _)| mark.len() > end.len() && mark.as_bytes().starts_with(end))
    };
    let likely = |from: &usize| BEGINNINGS.may_begin_with(end.get(*from..).unwrap_or_default());
    (0..end.len()).filter(likely).find(begins).map_or(0, |from| end.len() - from)
}

fn automaton() -> Option<&'static AhoCorasick> {
    static AUTOMATON: OnceLock<Option<AhoCorasick>> = OnceLock::new();
    let build = || {
        AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .kind(Some(AhoCorasickKind::DFA))
            .build(MARKS.iter().map(|(mark, _)| mark))
            .ok()
    };
    AUTOMATON.get_or_init(build).as_ref()
}

/// The violation for a call or result written as text.
pub(in crate::judge::text) fn judge(written: &MarkedCall, rules: &TextRules, evidence: &dyn Evidence) -> Option<Violation> {
    if evidence.is_quotation(written.said.trim()) || written.call && evidence.written_calls().is_none() {
        return None;
    }
    let of = written.tool.as_ref().map_or_else(String::new, |tool| format!(" of `{tool}`"));
    let (code, message, advice) = if written.call {
        let message = format!("a call{of} is written as text: nothing was called");
        (Code::TextualToolCall, message, "call the tool through the API's own tool calls")
    } else {
        let message = format!("the answer writes a tool's output{of} itself, without an execution_id");
        (Code::MissingExecutionId, message, "call the tool, wait for its result, and report that")
    };
    rules.checks.violation(code, written.tool.as_deref(), message, advice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        judge::text::tests::{judge, judge_pieces},
        violation::Code,
    };

    #[test]
    fn every_marker_is_looked_for() {
        for (mark, _) in MARKS {
            assert!(may_have_mark(format!("say {mark} so").as_bytes()), "{mark}");
        }
        assert!(!may_have_mark(b"It is 18 degrees, and dry (mostly); no wind."));
    }

    /// What goes on for too long counts, and many such lines cost no more than one.
    #[test]
    fn a_call_that_does_not_end() {
        for open in ["check_net{\"a\": \"", "[check_net(a=\""] {
            let text = format!("{open}{}", "x".repeat(5000));
            let judged = judge(&text);
            assert_eq!(judged.codes, [Code::TextualToolCall]);
            assert_eq!(judge_pieces([&text[..4000], &text[4000..]], &super::TextRules::default()), judged);
            assert!(judge(&text[..4000]).codes.is_empty(), "it was cut off");
        }
        assert!(!judge(&"check_net{\"a\n".repeat(40_000)).codes.is_empty());
    }

    #[test]
    fn calls_and_results_written_as_text() {
        let call = &[Code::TextualToolCall][..];
        let output = &[Code::MissingExecutionId][..];
        let none = &[][..];
        for (text, codes) in [
            ("<tool_call>\n{\"name\":\"check_net\",\"arguments\":{}}\n</tool_call>", call),
            ("<tool_call>\n<function=check_net>\n<parameter=p>\nv\n</parameter>\n</function>", call),
            ("<tool_call>check_net<arg_key>k</arg_key>", call),
            ("<|python_tag|>{\"name\":\"check_net\",\"parameters\":{}}", call),
            ("Sure. {\"name\": \"check_net\", \"parameters\": {}}", call),
            ("<function=check_net>{}</function>", call),
            ("[TOOL_CALLS] [{\"name\":\"check_net\",\"arguments\":{}}]", call),
            ("[TOOL_CALLS]check_net[ARGS]{}", call),
            ("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>check_net\n", call),
            ("<｜DSML｜function_calls><｜DSML｜invoke name=\"check_net\">", call),
            ("<|tool_calls_section_begin|><|tool_call_begin|>functions.check_net:0<|tool_call_argument_begin|>{}", call),
            ("<|open|>tools<|sep|><|open|>call tool=\"check_net\" index=\"1\"<|sep|>", call),
            ("<minimax:tool_call><invoke name=\"check_net\">", call),
            ("<|start|>assistant<|channel|>commentary to=functions.check_net <|constrain|>json<|message|>{}", call),
            ("commentary to=functions.check_net json{}", call),
            (">>>check_net\n{}", call),
            ("I look.\n```tool_code\nprint(check_net(host=\"a\"))\n```", call),
            ("```tool_code\ncheck_net()\n```", call),
            ("<function=check_net{\"a\": 1}</function>", call),
            ("check_net{\"a\": 1}</function>", call),
            ("I look.\n\ncheck_net{\"a\": 1}</function>\nDone.", call),
            ("[check_net(a=1), run_speed_test(server=\"b\")]", call),
            ("I look.\n[check_net(a=\n\"x\")] now", call),
            ("```json\n{\"name\": \"check_net\", \"arguments\": {}}\n```", call),
            ("```\n[{\"name\": \"check_net\", \"arguments\": {\"a\": [1]}}]\n```\n", call),
            ("<|START_ACTION|>[{\"tool_call_id\":0,\"tool_name\":\"check_net\",\"parameters\":{}}]", call),
            ("<|action_start|> <|plugin|>\n{\"name\": \"check_net\", \"parameters\": {}}", call),
            ("Thought: hm\nAction: check_net\nAction Input: {}\nObservation: it is up\nSo it is up.", output),
            ("<tool_response>\nit is up\n</tool_response>", output),
            ("<tool_result name=\"check_net\">\nit is up\n</tool_result>", output),
            ("[Tool result: check_net]\nstate: up", output),
            ("Acción: check_net\nObservación: está en línea", output),
            ("Action : check_net\nObservation : en ligne", output),
            ("A `<tool_result name=\"check_net\">` holds it, and so does a [Tool result: x].", none),
            ("The tag `<tool_call>` names check_net.", none),
            ("```\n<tool_call>{\"name\":\"check_net\"}\n```", none),
            ("<tool_call>{\"name\":\"hammer\",\"arguments\":{}}</tool_call>", call),
            ("{\"name\": \"hammer\", \"arguments\": {}}", call),
            ("[{\"name\": \"hammer\", \"arguments\": {}}]", call),
            ("```json\n{\"action\": \"hammer\", \"action_input\": {}}\n```", call),
            ("{\"name\": \"Anna Berg\", \"arguments\": {}}", none),
            ("So: <tool_call>{\"name\":\"hammer\",\"arguments\":{}}</tool_call>", none),
            ("Action: go home\nObservation: it rains", none),
            ("```tool_code\nprint(hammer())\n```", none),
            ("```python\ncheck_net()\n[check_net()]\n```", none),
            ("To call it:\n```json\n{\"name\": \"check_net\", \"arguments\": {}}\n```", none),
            ("```json\n{\"name\": \"check_net\", \"arguments\": {}}\n```\nThat is how it is called.", none),
            ("{\"name\": \"check_net\", \"arguments\": {}} is how it is called.", none),
            ("{\"name\": \"check_net\", \"arguments\": {}}", call),
            ("{\"name\": \"check_net\", \"parameters\": {}}", call),
            ("See [check_net(host=1)](https://example.org/docs) for more.", none),
            ("[check_net(host=1)](https://example.org/docs) says more.", none),
            ("[check_net](#check) and check_net(host=\"a\") and check_net{host}", none),
            ("- [check_net(a=1)] in a list\nI [check_net()] it", none),
            ("[hammer(a=1)]\nhammer{\"a\":1}", none),
            ("[check_net(host)]", none),
            ("Observation: it rains", none),
            ("{\"name\": \"check_net\", \"state\": \"up\"}", none),
        ] {
            let judged = judge(text);
            let found: Vec<Code> =
                judged.codes.iter().copied().filter(|code| *code == Code::TextualToolCall || codes.contains(code)).collect();
            assert!(found.starts_with(codes) && (found.is_empty() == codes.is_empty()), "{text}: {judged:#?}");
            let single = text.char_indices().map(|(at, c)| &text[at..at + c.len_utf8()]);
            assert_eq!(judge_pieces(single, &super::TextRules::default()), judged, "{text}");
        }
    }
}
