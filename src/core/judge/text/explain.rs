//! Decides if an id is explained rather than claimed: an example, documentation, part of an address or a query. Pure.
//!
//! docs/contract.md#what-is-judged-as-a-citation has the table. Only what can't be one of our ids is asked about here.

use crate::claims::text_input::TextInput;

/// Bytes before an id that are looked at.
pub(super) const BEFORE_BYTES: usize = 400;
/// Bytes after it that are looked at.
pub(super) const AFTER_BYTES: usize = 200;
/// Words of the shortest line of prose; a shorter line is an item, a member or a heading.
const PROSE_WORDS_MIN: usize = 6;

/// Words that introduce an example, a format or a placeholder.
const CUES: [&str; 72] = [
    "example",
    "e.g.",
    "for instance",
    "looks like",
    "look like",
    "would look",
    "placeholder",
    "format",
    "sample",
    "hypothetical",
    "illustrat",
    "dummy",
    "fictional",
    "fictitious",
    "made-up",
    "made up",
    "template",
    "documentation",
    "stands for",
    "syntax",
    "replace",
    "something like",
    "imagine",
    "suppose",
    "schema",
    "not a real",
    "not real",
    "isn't real",
    "fake",
    "mock",
    "pseudo",
    "demonstrat",
    "beispiel",
    "z. b.",
    "z.b.",
    "platzhalter",
    "sieht so aus",
    "zum veranschaulichen",
    "ejemplo",
    "p. ej.",
    "formato",
    "marcador",
    "exemplo",
    "exemple",
    "par ex",
    "fictif",
    "esempio",
    "segnaposto",
    "voorbeeld",
    "bijv",
    "przykład",
    "np.",
    "örnek",
    "mesela",
    "например",
    "пример",
    "例",
    "示例",
    "比如",
    "格式",
    "形式",
    "예시",
    "예를",
    "उदाहरण",
    "exempel",
    "eksempel",
    "esimerk",
    "příklad",
    "példa",
    "contoh",
    "ví dụ",
    "مثال",
];
/// Words that report a finding.
const REPORTS: [&str; 40] = [
    "i checked",
    "i've",
    "i have ",
    "i ran",
    "i called",
    "i used",
    "i got",
    "i found",
    "i just",
    "i measured",
    "i looked",
    "i executed",
    "returned",
    "reported",
    "confirmed",
    "measured",
    "successfully",
    "according to",
    "completed",
    "verified",
    "the result is",
    "the results are",
    "ich habe",
    "wurde ",
    "laut ",
    "ergab",
    "j'ai",
    "selon ",
    "a été",
    "he comprobado",
    "he ejecutado",
    "según",
    "devolvió",
    "ho controllato",
    "secondo ",
    "verifiquei",
    "de acordo",
    "sprawdzi",
    "проверил",
    "我检查",
];
/// Words that ask for an explanation.
const ASKS: [&str; 36] = [
    "example",
    "explain",
    "what is",
    "what's",
    "what are",
    "what does",
    "how does",
    "how do",
    "look like",
    "looks like",
    "mean",
    "format",
    "describe",
    "document",
    "show me how",
    "template",
    "sample",
    "beispiel",
    "erklär",
    "was ist",
    "was bedeutet",
    "wie sieht",
    "ejemplo",
    "explica",
    "qué es",
    "exemple",
    "expliqu",
    "c'est quoi",
    "esempio",
    "spiega",
    "exemplo",
    "voorbeeld",
    "przykład",
    "пример",
    "例",
    "解释",
];
/// Words for ids and results, as the subject of such a question.
const SUBJECTS: [&str; 16] = [
    "execution id",
    "execution_id",
    "execution-id",
    "executionid",
    "execution ids",
    "tool result",
    "tool's result",
    "tool output",
    "such a result",
    "citation",
    "ausführungs-id",
    "exécution",
    "ejecución",
    "esecuzione",
    "execução",
    "执行",
];

/// True if the user asks what ids or results look like.
pub(super) fn asks(asked: &str) -> bool {
    let asked = asked.get(..asked.floor_char_boundary(4096)).unwrap_or(asked).to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| asked.contains(word));
    has(&ASKS) && has(&SUBJECTS)
}

/// End of the current sentence, or line, in `after`; `None` if more text is needed.
pub(super) fn sentence_end(after: &str, input: TextInput) -> Option<usize> {
    // No more is looked at than counts, and the two characters that tell where it ends.
    let near = after.get(..after.floor_char_boundary(AFTER_BYTES + 8)).unwrap_or(after);
    let end = near
        .char_indices()
        .zip(near.chars().skip(1).map(Some).chain([None]))
        .find(|((_, c), next)| matches!(c, '\n' | '。') || matches!(c, '.' | '!' | '?') && next.is_some_and(|next| next.is_whitespace()));
    match end {
        Some(((at, _), _)) if at <= AFTER_BYTES => Some(at),
        Some(_) => Some(after.floor_char_boundary(AFTER_BYTES)),
        None if input.is_complete() || after.len() > AFTER_BYTES => Some(after.floor_char_boundary(AFTER_BYTES)),
        None => None,
    }
}

/// True if the text between `before` and `after` is explained.
pub(super) fn explains(before: &str, own: &str, after: &str) -> bool {
    let sentence = sentence(before);
    let said = without_addresses(&format!("{sentence} {after}")).to_lowercase();
    let is_explained =
        || is_code(before, own) || has_cue(&said) || introduction(before, sentence).is_some_and(|line| has_cue(&line.to_lowercase()));
    !REPORTS.iter().any(|word| said.contains(word)) && is_explained()
}

/// A text without its addresses: `https://git.example/quill` gives no example.
fn without_addresses(text: &str) -> String {
    text.split(' ').filter(|word| !word.contains("://")).collect::<Vec<&str>>().join(" ")
}

/// True if the sentence around the text between `before` and `after` reports something.
pub(super) fn reports(before: &str, after: &str) -> bool {
    let said = format!("{} {after}", sentence(before)).to_lowercase();
    REPORTS.iter().any(|word| said.contains(word))
}

/// True if the introduction of the block after `before` says that it is an example.
pub(super) fn introduces_example(before: &str) -> bool {
    let before = before
        .trim_end_matches(|c: char| c.is_whitespace() || matches!(c, '`' | '~' | '>' | '[' | '('))
        .trim_end_matches("json")
        .trim_end();
    let before = before.trim_end_matches(['`', '~']).trim_end();
    let line = before.rsplit('\n').next().unwrap_or_default();
    let said = sentence(line).to_lowercase();
    // `gets an object like {…}`, `returns objects such as {…}`.
    let compares = [" like", " such as", " wie", " comme", " como", " come"].iter().any(|end| said.trim_end().ends_with(end));
    (has_cue(&said) || compares) && !REPORTS.iter().any(|word| said.contains(word))
}

fn has_cue(text: &str) -> bool {
    CUES.iter().any(|cue| text.contains(cue))
}

/// The last sentence, or line, of `before`.
fn sentence(before: &str) -> &str {
    let line = before.rsplit('\n').next().unwrap_or_default();
    let ends = line.char_indices().zip(line.chars().skip(1)).filter(|((_, c), next)| matches!(c, '.' | '!' | '?') && next.is_whitespace());
    // `e.g. ` ends no sentence.
    let ends = ends.filter(|((at, _), _)| {
        line.get(..*at).is_some_and(|said| !said.ends_with("e.g") && !said.ends_with("z.B") && !said.ends_with(" B"))
    });
    let start = ends.last().map_or(0, |((at, c), _)| at + c.len_utf8());
    let start = line.rfind('。').map_or(start, |at| start.max(at + '。'.len_utf8()));
    line.get(start..).unwrap_or_default()
}

/// The line that introduces the list, table or fence at the end of `before`: it ends with a colon, or is a heading, and no prose follows
/// it.
fn introduction<'b>(before: &'b str, sentence: &str) -> Option<&'b str> {
    let prose = |text: &str| {
        text.split_whitespace().count() >= PROSE_WORDS_MIN
            && text.trim_end_matches(['*', '_', '`', ')', '"']).ends_with(['.', '!', '?', '。'])
    };
    let own = before.len() - before.rsplit('\n').next().unwrap_or_default().len();
    // What stands before the sentence in its line.
    if before.get(own..before.len() - sentence.len()).is_some_and(prose) {
        return None;
    }
    let mut lines = before.get(..own)?.lines().rev();
    lines
        .find_map(|line| {
            let said = line.trim().trim_end_matches(['*', '_']);
            let introduces = said.ends_with([':', '：']) || said.starts_with('#');
            (introduces || prose(said)).then_some((line, introduces))
        })
        .filter(|(_, introduces)| *introduces)
        .map(|(line, _)| line)
}

/// True if it is part of an address, a flag, a query or an expression.
fn is_code(before: &str, own: &str) -> bool {
    let word = before.trim_end().rsplit(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    let query = ["where", "and", "or", "select", "set", "by", "on"].iter().any(|own| own.eq_ignore_ascii_case(word))
        && before.ends_with([' ', '\n']);
    let upper = word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_uppercase());
    own.starts_with("--") || before.ends_with(['?', '&', '.', '$', '@']) || query && upper
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_explains() {
        for (before, after, is) in [
            ("An id looks like this: (", ").", true),
            ("For example, e.g. ", "", true),
            ("It is up (", ").", false),
            ("It is at https://git.example/12 (", ").", false),
            ("For example, I checked it (", ").", false),
            ("An example. It is up (", ").", false),
            ("Here is an example:\n\n```json\n{\"a\": 1,\n\"", "\"", true),
            ("## Example\n\n- ", "", true),
            ("Here is an example:\n\nIt was easy to see that the net is up. ", "", false),
            ("GET /runs?", "", true),
            ("SELECT * FROM runs WHERE ", "", true),
            ("", " is an example.", true),
            ("", ", which is what it returned, for example", false),
        ] {
            assert_eq!(explains(before, "execution_id", after), is, "{before}|{after}");
        }
        assert!(asks("What does an execution_id look like?") && !asks("Check the net and cite the execution_id"));
        assert!(introduces_example("Such a result looks like this:\n```json\n") && !introduces_example("The result:\n"));
        assert!(introduces_example("Your component gets an object like `") && !introduces_example("I ran it and got something like "));
        // However much follows, only so much of it is read.
        let long = "a".repeat(8 * AFTER_BYTES);
        assert_eq!(
            (sentence_end(&long, TextInput::Partial), sentence_end(&format!("{long}. "), TextInput::Complete)),
            (Some(AFTER_BYTES), Some(AFTER_BYTES))
        );
        assert_eq!(
            (sentence_end("a b", TextInput::Partial), sentence_end("a. b", TextInput::Partial), sentence_end("a", TextInput::Complete)),
            (None, Some(1), Some(1))
        );
    }
}
