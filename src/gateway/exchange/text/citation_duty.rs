//! Exempts answers from the duty to cite: an answer that says that nothing was looked up reports no result, and one
//! that is JSON because the prompt asks for it has no room for prose. Pure.
//!
//! Deliberately narrow, since every exempted answer escapes `[citations] require`: each sentence must have one of a few
//! forms (in English) without any value, and JSON must have been asked for.

use std::sync::LazyLock;

use bytes::Bytes;
use regex::Regex;

use crate::wire::json::Document;

/// Limit in bytes for an answer that reports nothing.
const NOTHING_BYTES_MAX: usize = 600;

/// A sentence that says that something was not done, and nothing else.
static NOT_DONE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let verb = "(?:look|check|access|run|call|use|open|do|verify|query|search|execute|proceed|continue|complete|perform|help|say|tell)";
    let able = "(?:allowed|permitted|authori[sz]ed|able)";
    let never = "(?:could not|couldn['’]t|cannot|can['’]t|can not|did not|didn['’]t|have not|haven['’]t)";
    let thing = "(?:tools?|commands?|calls?|searches|search|checks?|lookups?)";
    let forms = [
        format!("i (?:was not|wasn['’]t|am not|have not been|haven['’]t been) {able} to {verb}"),
        format!("i['’]m (?:not {able}|unable) to {verb}"),
        format!("i (?:was|am) unable to {verb}"),
        format!("i {never} (?:been able to )?(?:{verb}|checked|looked|called|opened|used|searched|accessed)"),
        format!("no {thing} (?:was|were|has been|have been) (?:run|called|used|made|executed|allowed)"),
        "nothing (?:was|has been) (?:run|called|looked up|executed|checked)".to_owned(),
        "(?:permission|access|approval|the (?:call|request|tool call)) (?:was|has been) (?:denied|refused|declined|rejected)".to_owned(),
        "you (?:declined|denied|refused|rejected|did not allow|didn['’]t allow|did not approve|didn['’]t approve|cancelled|canceled)"
            .to_owned(),
    ];
    let lead = "(?:(?:i['’]m |i am )?(?:very |so )?sorry,? (?:but )?)?(?:unfortunately,? )?";
    Regex::new(&format!(r"(?i)\A{lead}(?:{})\b[^,;:—–=]{{0,80}}\z", forms.join("|"))).ok()
});
/// Words after which such a sentence may report something after all.
static GOES_ON: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?:but|because|since|however|although|though|while|whereas|except|so|which|until|unless|and|any|no longer)\b").ok()
});
/// A question, a request or an offer.
static POLITE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?i)\A(?:(?:would you|do you want|should i|shall i|may i|can you|could you|how would you)\b[^,;:—–=]{0,100}\?|(?:please )?(?:let me know|tell me|allow|grant|confirm|approve|ask|try again)\b[^,;:—–=]{0,80}|(?:i['’]m |i am )?(?:very |so )?sorry|my apologies|i apologi[sz]e)\z",
    )
    .ok()
});

/// True if the answer reports no result and says so.
pub fn reports_nothing(text: &str) -> bool {
    let text = text.trim();
    let value = |c: char| c.is_numeric() || matches!(c, '"' | '“' | '”' | '«' | '»' | '`' | '{' | '[' | '<' | '|' | '%' | '$' | '€');
    if text.is_empty() || text.len() > NOTHING_BYTES_MAX || text.contains(value) || text.contains("://") {
        return false;
    }
    let is = |regex: &LazyLock<Option<Regex>>, sentence: &str| regex.as_ref().is_some_and(|regex| regex.is_match(sentence));
    let mut said = false;
    for sentence in sentences(text) {
        let not_done = is(&NOT_DONE, sentence.trim_end_matches(['.', '!'])) && !is(&GOES_ON, without_lead(sentence));
        let polite = || is(&POLITE, sentence.trim_end_matches(['.', '!'])) && !is(&GOES_ON, sentence);
        if !not_done && !polite() {
            return false;
        }
        said |= not_done;
    }
    said
}

/// The sentence without a leading "Sorry, but": that `but` doesn't introduce a report.
fn without_lead(sentence: &str) -> &str {
    let at = sentence.char_indices().take(24).map(|(at, _)| at).last().unwrap_or_default();
    match sentence.get(..at).and_then(|head| head.find("but ")) {
        Some(but) if sentence[..but].to_lowercase().contains("sorry") => &sentence[but + 4..],
        _ => sentence,
    }
}

fn sentences(text: &str) -> impl Iterator<Item = &str> {
    text.split('\n').flat_map(|line| line.split_inclusive(['.', '!', '?'])).map(str::trim).filter(|sentence| !sentence.is_empty())
}

/// True if the answer is one JSON object or array, alone or in a fence, and `data` asks for JSON.
pub fn is_json_asked_for(text: &str, data: &[String]) -> bool {
    let text = text.trim();
    let inside = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    let json = inside.map_or(text, |inside| inside.strip_prefix("json").or_else(|| inside.strip_prefix("JSON")).unwrap_or(inside)).trim();
    if !json.starts_with(['{', '[']) {
        return false;
    }
    let asks = |text: &String| text.as_bytes().windows(4).any(|word| word.eq_ignore_ascii_case(b"json"));
    data.iter().any(asks) && Document::parse(Bytes::copy_from_slice(json.as_bytes())).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_reports_nothing() {
        for text in [
            "I wasn't allowed to look.",
            "I was not allowed to run the tool. Would you like to approve it?",
            "I'm sorry, but I couldn't check that.",
            "No tool was run.",
            "You declined the call. Let me know how to go on.",
            "Unfortunately, I was unable to access the file.",
            "I haven’t been able to check the weather. Sorry.",
            "Permission was denied.",
        ] {
            assert!(reports_nothing(text), "{text}");
        }
        for text in [
            "",
            "It is 18 degrees.",
            "I wasn't allowed to look, but it is sunny.",
            "I couldn't check everything. The disk is full.",
            "I couldn't find any problems.",
            "No problems were found.",
            "I could not run it because the disk is full.",
            "I wasn't allowed to look: the disk is full",
            "I couldn't check 3 of them.",
            "I can't tell any difference.",
            "I didn't check \"prod\" again.",
            "Sorry.",
            "Would you like to know that it rains?",
            "I can see that all is well.",
            "I couldn't help but notice the outage.",
        ] {
            assert!(!reports_nothing(text), "{text}");
        }
        assert!(!reports_nothing(&"I could not check. ".repeat(100)));
    }

    #[test]
    fn json_that_a_prompt_asks_for() {
        let asks = ["Answer in JSON.".to_owned()];
        for (text, data, is) in [
            (r#"{"degrees": 18}"#, &asks[..], true),
            ("```json\n[1]\n```", &asks, true),
            (r#"{"degrees": 18}"#, &["Answer.".to_owned()], false),
            (r#"It is {"degrees": 18}"#, &asks, false),
            (r#"{"degrees": 18} so"#, &asks, false),
            ("18", &asks, false),
        ] {
            assert_eq!(is_json_asked_for(text, data), is, "{text}");
        }
    }
}
