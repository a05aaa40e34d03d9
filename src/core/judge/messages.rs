//! toolmark's own texts: to the model when it is asked again, to the person when toolmark gives up.
//!
//! The openings are part of the public surface: docs/contract.md#what-a-caller-sees. Pure.

use crate::{
    schema::strict_json::brief,
    violation::{Code, Place, Violation},
    wire::json::string::cut,
};

/// Raw text that an error quotes back to the model, in bytes.
const QUOTED_BYTES_MAX: usize = 2 << 10;

/// Characters of a tool's name that are quoted; a model may have made it up.
const TOOL_CHARS_MAX: usize = 128;

/// Content of the tool message that rejects a call. `raw`: arguments that could not be echoed; `example`: the correct form of the call.
pub fn rejection(tool: &str, violations: &[&Violation], raw: Option<&str>, example: Option<&str>) -> String {
    let mut text = format!("Tool call rejected: {}\n", brief(tool, TOOL_CHARS_MAX));
    for violation in violations {
        text.push_str(&line(violation));
    }
    if let Some(raw) = raw.filter(|raw| !raw.is_empty()) {
        text.push_str("The arguments you sent were: ");
        text.push_str(cut(raw, QUOTED_BYTES_MAX));
        text.push('\n');
    }
    let looping = violations.iter().any(|violation| violation.code == Code::LoopDetected);
    match example.filter(|_| !looping) {
        _ if looping => text.push_str("Nothing was run. Do something else, or answer without the tool and say what you could not do."),
        // Short, and with the call as it should be: tests/model/mend.py asks a model what that is worth.
        Some(example) => text.push_str(&format!("Nothing was run. Call again like this: {example}")),
        None => text.push_str(
            "Nothing was run. Call again with a tool that exists and arguments that fit its schema, or answer without the tool and say what you could not do.",
        ),
    }
    text
}

/// Content of the tool message for a valid call whose turn was rejected.
pub fn sibling(tool: &str) -> String {
    let tool = brief(tool, TOOL_CHARS_MAX);
    format!(
        "Tool call not run: {tool}\nThe call is valid, but another part of the same turn was rejected, so nothing of the turn was run. Repeat this call together with the corrected ones."
    )
}

/// Opening of every [`objection`].
pub const OBJECTION: &str = "Your last answer was not delivered, because ";

/// User message that asks for another answer.
pub fn objection(violations: &[&Violation]) -> String {
    let claims = violations.iter().any(|violation| violation.code.place() == Place::Text);
    let why = if claims { "it can't be backed by the tools' results" } else { "it isn't what was asked for" };
    let mut text = format!("{OBJECTION}{why}:\n");
    for violation in violations {
        text.push_str(&line(violation));
    }
    text.push_str(
        "Answer again. Report only what a tool returned in this conversation, with its (execution_id: …) where the result carries one. \
         If something was not run, call the tool or say that you could not check it. Do not mention this message.",
    );
    text
}

/// Reply that replaces an answer that couldn't be repaired. `repairs`: number of attempts.
pub fn safe(violations: &[&Violation], repairs: u32) -> String {
    let empty = !violations.is_empty() && violations.iter().all(|violation| violation.code == Code::EmptyAnswer);
    let (opening, closing) = match empty {
        true => ("I gave no answer.\n", " You can ask again, or in other words."),
        false => (
            "I reported a tool result that I can't back with an execution.\n",
            " Please treat that part of my answer as not checked, and ask again if you need it.",
        ),
    };
    let mut text = String::from(opening);
    for violation in violations {
        text.push_str(&blame(violation));
    }
    text.push_str(tried(repairs).as_str());
    text.push_str(closing);
    text
}

/// Reply that ends a run that is stopped as a loop.
pub fn ended(violations: &[&Violation]) -> String {
    let mut text = String::from("I stopped here, because I was going in circles. My last call was not run.\n");
    for violation in violations {
        text.push_str(&blame(violation));
    }
    text.push_str("Tell me how to go on, or ask in other words.");
    text
}

/// Reply that replaces a call that couldn't be repaired. `repairs`: number of attempts.
pub fn exhausted(violations: &[&Violation], repairs: u32) -> String {
    let mut text = String::from("I could not finish this: I tried to use tools in a way that doesn't work. Nothing was run.\n");
    for violation in violations {
        text.push_str(&blame(violation));
    }
    text.push_str(tried(repairs).as_str());
    text.push_str(" You can ask again, or in other words.");
    text
}

/// One sentence on the number of repair attempts.
fn tried(repairs: u32) -> String {
    match repairs {
        0 => "No correction was attempted.".to_owned(),
        1 => "One correction was attempted, and it didn't help.".to_owned(),
        repairs => format!("{repairs} corrections were attempted, and they didn't help."),
    }
}

/// A violation as shown to the application: without the rejected words, which another reader might take for a claim.
fn blame(violation: &Violation) -> String {
    match without_quotation(violation) {
        Some(wrong) => format!("- [{}] {wrong}\n", violation.code),
        None => line(violation),
    }
}

/// The violation without the rejected words; `None` if its message doesn't quote them.
pub fn without_quotation(violation: &Violation) -> Option<String> {
    let tool = violation.tool.as_deref().map_or_else(|| "a tool".to_owned(), |tool| format!("`{}`", brief(tool, TOOL_CHARS_MAX)));
    Some(match violation.code {
        Code::UnknownExecution => "I cited an execution ID that was never issued here".to_owned(),
        Code::ExpiredExecution => "I cited an execution that is too old to be cited".to_owned(),
        Code::ExecutionElsewhere => "I cited an execution whose result isn't in this conversation (agents that work together may share a session: the request header `toolmark-session`)".to_owned(),
        Code::ClaimMismatch => "I reported a value that the result doesn't have".to_owned(),
        Code::UngroundedValue => "I reported a value that is in no result".to_owned(),
        Code::FabricatedUrl => "I gave an address that is in no result".to_owned(),
        Code::CountMismatch => "I counted other than the result does".to_owned(),
        Code::FalseAbsence => "I said that something isn't there that the result has".to_owned(),
        Code::FailedExecution => format!("I reported as a success what {tool} failed at"),
        Code::UnsupportedAction => "I said that something was done that no tool did".to_owned(),
        Code::UnsupportedClaim => "I said something that may be said only after a tool succeeded".to_owned(),
        Code::MalformedArguments => format!("the arguments for {tool} were no JSON object"),
        Code::TruncatedCall => format!("the call of {tool} was cut off"),
        Code::WrongType | Code::SchemaViolation | Code::NullOptional | Code::UnknownParameter => {
            format!("the arguments for {tool} didn't fit its schema")
        }
        // The advice is the model's.
        Code::LoopDetected => violation.message.clone(),
        Code::PlaceholderValue | Code::SuspiciousLength => format!("the arguments for {tool} weren't real values"),
        _ => return None,
    })
}

fn line(violation: &Violation) -> String {
    let advice = if violation.advice.is_empty() { String::new() } else { format!(" ({})", violation.advice) };
    format!("- [{}] {}{advice}\n", violation.code, violation.message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::violation::Checks;

    #[test]
    fn what_was_tried_is_said_as_it_was() {
        for (repairs, said) in [(0, "No correction was attempted."), (1, "One correction was"), (3, "3 corrections were")] {
            assert!(safe(&[], repairs).contains(said) && exhausted(&[], repairs).contains(said), "{repairs}");
        }
    }

    #[test]
    fn the_contracts_openings() {
        let violation = Checks::default().violation(Code::UnknownTool, Some("x"), "tool `x` does not exist", "did you mean `y`?").unwrap();
        let text = rejection("x", &[&violation], Some(&"é".repeat(2000)), None);
        assert!(text.starts_with("Tool call rejected: x\n- [unknown_tool] tool `x` does not exist (did you mean `y`?)\n"), "{text}");
        assert!(text.len() < 3000);
        let with = rejection("x", &[&violation], None, Some(r#"{"name": "y", "arguments": {}}"#));
        assert!(with.ends_with(r#"Nothing was run. Call again like this: {"name": "y", "arguments": {}}"#), "{with}");
        assert!(safe(&[&violation], 0).starts_with("I reported a tool result that I can't back with an execution.\n- [unknown_tool]"));
        let empty = Checks::default().violation(Code::EmptyAnswer, None, "the answer is empty", "").unwrap();
        assert!(safe(&[&empty], 0).starts_with("I gave no answer.\n- [empty_answer]"));
        assert!(safe(&[&empty, &violation], 0).starts_with("I reported"));
    }
}
