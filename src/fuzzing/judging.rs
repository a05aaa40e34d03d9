//! The text gate, and the judge of one call: schema and arguments.

use serde_json::Value;

use super::{
    bench::{By, FORGED, begin, request},
    drive::block,
    input::{FuzzInput, bounded, repeated},
};
use crate::{
    exchange::context::Context,
    judge::{
        call::{Arguments, Call, CallKind, CallVerdict, JudgedCall, Truncation, judge_call},
        text::TextGate,
    },
    openai::Api,
    policy::Tools,
    schema::{FormatChecks, Schema},
    tools::registry::{Registry, RequestTool, SchemaCache, ToolKind},
    violation::{Code, Violation},
};

/// Result of a text gate.
#[derive(Debug, PartialEq)]
struct Gated {
    codes: Vec<Code>,
    messages: Vec<String>,
    citations: Vec<String>,
    cleared: usize,
    blocked: Option<usize>,
    released: String,
}

/// A text gets the same verdict and releases the same text however it is cut; a forged id at its end is not released; unless it is blocked,
/// all of it is released. The parts: the text, the user's question, the tool's result.
pub(super) fn text(data: &[u8]) {
    let Some(input) = FuzzInput::of(data) else { return };
    let own = input.text(0);
    let text = if input.flag(7) { repeated(&own) } else { own.into_owned() };
    let or = |part: &str, other: &str| if part.is_empty() { other.to_owned() } else { part.to_owned() };
    let request = request(Api::Chat, &or(&input.text(1), "How fast is it?"), &or(&input.text(2), r#"{"mbit": 90}"#));
    let Some(mut begun) = begin(By::of(input.flags), Api::Chat, &request) else { return };
    if let Some(context) = begun.unshared() {
        context.text.json_only = input.flag(2);
        context.text.show = input.flag(3);
        context.text.hold_all = input.flag(4);
        context.text.held_bytes_max = [1 << 20, 4096, 300, 40][usize::from(input.flags >> 5 & 3)];
    }
    let once = gated(&[&text], &begun.context);
    let again = gated(&input.cuts().texts(&text), &begun.context);
    assert_eq!(once, again, "a cut changes the verdict");
    let own = String::from_utf8_lossy(request.bytes());
    let labelled =
        text.ends_with(FORGED) && !text[..text.len() - FORGED.len()].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '-');
    assert!(!labelled || own.contains(FORGED) || !once.released.ends_with(FORGED), "a forged id is released: {once:?}");
}

fn gated(pieces: &[&str], context: &Context) -> Gated {
    let (mut gate, mut text, mut cleared) = (TextGate::new(), String::new(), 0);
    for piece in pieces {
        text.push_str(piece);
        bounded("a piece of text", || context.feed(&mut gate, piece));
        assert!(gate.cleared() >= cleared, "what was cleared is held again");
        assert!(text.is_char_boundary(gate.cleared()), "cleared beyond the text or within a character");
        cleared = gate.cleared();
    }
    bounded("the end of a text", || context.close(&mut gate));
    let (mut released, mut from) = (String::new(), 0);
    for removal in gate.removals() {
        let end = removal.start.min(gate.cleared());
        let kept = text.get(from..end);
        assert!(kept.is_some(), "removals out of order or within a character");
        released.push_str(kept.unwrap_or_default());
        from = removal.end.min(gate.cleared());
    }
    released.push_str(text.get(from..gate.cleared()).unwrap_or_default());
    assert!(gate.blocked().is_some() || gate.cleared() == text.len(), "what is not blocked is not released");
    assert!(gate.blocked().is_some() == block(gate.violations()), "blocked without a violation, or one that blocks nothing");
    Gated {
        codes: gate.violations().iter().map(|violation| violation.code).collect(),
        messages: gate.violations().iter().map(|violation| violation.message.clone()).collect(),
        citations: gate.citations().to_vec(),
        cleared: gate.cleared(),
        blocked: gate.blocked(),
        released,
    }
}

/// A schema compiles or is refused, and judges arguments within bounds; the number of requested faults doesn't change the verdict; right
/// arguments are passed on unchanged; corrected arguments are right. The parts: the schema, and arguments for it.
pub(super) fn schema(data: &[u8]) {
    let Some(input) = FuzzInput::of(data) else { return };
    let raw = input.text(0);
    let formats = if input.flag(2) { FormatChecks::Assert } else { FormatChecks::Ignore };
    let Ok(compiled) = bounded("the compilation of a schema", || Schema::compile(&raw, formats)) else {
        return;
    };
    let registry = registry(&raw, formats);
    for part in input.parts_from(1) {
        let arguments = String::from_utf8_lossy(part);
        let arguments = if input.flag(7) { format!("{{\"a\":[{}0]}}", repeated(&format!("{arguments},"))) } else { arguments.into_owned() };
        if let Ok(value) = serde_json::from_str::<Value>(&arguments) {
            let all = bounded("the faults of arguments", || compiled.violations(&value, 64));
            assert!(all.len() <= 64, "more faults than asked for");
            let few = bounded("the first fault of arguments", || compiled.violations(&value, 1));
            assert_eq!(all.is_empty(), few.is_empty(), "the number of faults asked for decides whether there are any");
        }
        let exact = judged(&arguments, &registry, By::Exact);
        let correcting = judged(&arguments, &registry, By::Correcting);
        if let CallVerdict::Accept(call) = &exact.outcome {
            let trimmed = arguments.trim_matches([' ', '\n', '\r', '\t']);
            let nothing = trimmed.is_empty() || trimmed == "null";
            assert!(
                call.arguments() == arguments || call.arguments() == trimmed || nothing && call.arguments() == "{}",
                "right arguments are changed: {:?}",
                call.arguments()
            );
            assert_eq!(exact, correcting, "right arguments are corrected");
            let value = serde_json::from_str::<Value>(if nothing { "{}" } else { trimmed });
            assert!(value.is_ok_and(|value| compiled.violations(&value, 1).is_empty()), "arguments that don't fit are accepted");
        }
        if let CallVerdict::Accept(call) = &correcting.outcome {
            let again = judged(call.arguments(), &registry, By::Exact);
            assert!(matches!(again.outcome, CallVerdict::Accept(_)), "what was corrected is not right: {:?}", call.arguments());
        }
    }
}

fn registry(raw: &str, formats: FormatChecks) -> Registry {
    let tool = RequestTool { name: "f", kind: ToolKind::Function, parameters_raw: Some(raw), description: None, raw: "{}" };
    let checks = &By::Exact.bench().standard.rules.checks;
    Registry::build(&[], &[tool], &Tools::default(), formats, checks, &SchemaCache::default()).0
}

fn judged(arguments: &str, registry: &Registry, by: By) -> JudgedCall {
    let call = Call { name: "f".into(), kind: CallKind::Function, arguments: Arguments::Text(arguments.to_owned()), id: None };
    let no_ids = |_: &str| None::<Violation>;
    bounded("the judgement of a call", || judge_call(&call, registry, &by.bench().standard.calls, Truncation::Whole, &no_ids))
}
