//! Requests of a user for something written: samples of what tools return, a description of the tools, data in another form, a program.
//! Pure.

use std::collections::HashSet;

use crate::language::{
    request::UserRequest,
    word_list::{PhraseList, WordList},
};

/// Bytes of a message in which such a request is looked for.
const REQUEST_BYTES_MAX: usize = 600;
/// Words of a message among which a request for a program is looked for.
const REQUEST_WORDS_MAX: usize = 40;
/// Phrases that ask for a sample of data, or what the tools are. Phrases in which a tool is to be used, or something is to be looked up
/// (`use your tools`, `search our docs`, `this week's fixtures`), aren't among them.
static SAMPLES: PhraseList = PhraseList::new(&[
    "an example",
    "example of ",
    "example output",
    "example response",
    "example result",
    "example payload",
    "example log",
    "example call",
    "sample log",
    "sample output",
    "sample payload",
    "sample response",
    "sample result",
    "test fixture",
    "mock server",
    "mock data",
    "mock response",
    "mock output",
    "log format",
    "write a test case",
    "write test cases",
    "eval case",
    "write test data",
    "write documentation",
    "ein beispiel",
    "beispielausgabe",
    "beispielantwort",
    "un exemple",
    "un ejemplo",
    "un esempio",
    "um exemplo",
    "een voorbeeld",
    "przykład",
    "örnek",
    "例を",
    "例子",
    "示例",
    "サンプル",
    "उदाहरण",
    "예시",
]);
/// Phrases that ask what the tools are. A message with one of them that has something run, too, is no such request.
static ABOUT_TOOLS: PhraseList = PhraseList::new(&[
    "what are your tools",
    "list your tools",
    "list of your tools",
    "table of your tools",
    "describe your tools",
    "which of your tools",
    "each of your tools",
    "all of your tools",
    "tools do you",
    "tools are available",
    "what can you do?",
    "what can you do for me",
    "what can you help me with",
    "what are you able to do",
    "for our wiki",
    "for the wiki",
    "welche tools hast",
    "welche werkzeuge hast",
    "welche deiner tools",
    "was kannst du?",
    "quels outils as",
    "lesquels de tes outils",
    "que peux-tu faire ?",
    "que peux-tu faire?",
    "qué herramientas tienes",
    "qué puedes hacer?",
    "cosa puoi fare?",
    "o que você pode fazer?",
    "wat kun je?",
    "co potrafisz?",
    "neler yapabilirsin",
    "何ができ",
    "你能做什么",
]);
/// Words of a message that has something run, or asks for its outcome.
static RUNS: WordList = WordList::new(&[
    "run",
    "runs",
    "running",
    "test",
    "tests",
    "check",
    "checks",
    "measure",
    "execute",
    "outcome",
    "outcomes",
    "result",
    "results",
    "report",
    "reports",
    "finding",
    "findings",
    "say",
    "says",
    "now",
    "then",
    "moment",
    "current",
    "currently",
    "status",
    "speed",
    "numbers",
    "starte",
    "prüfe",
    "teste",
    "lance",
    "vérifie",
    "ejecuta",
    "comprueba",
    "esegui",
    "controlla",
    "verifica",
    "voer",
]);
/// Phrases with `example` in them that ask for none: `a town, for example Ghent`.
const FOR_EXAMPLE: &[&str] = &[
    "for example",
    "zum beispiel",
    "par exemple",
    "por ejemplo",
    "ad esempio",
    "per esempio",
    "por exemplo",
    "bijvoorbeeld",
    "na przykład",
];
/// Beginnings of messages that hand over data to be put in another form.
const CONVERSIONS: [&str; 22] = [
    "turn this",
    "turn the following",
    "convert this",
    "convert the following",
    "reformat this",
    "reformat the following",
    "format this",
    "format the following",
    "parse this",
    "parse the following",
    "transform this",
    "transform the following",
    "translate this",
    "rewrite this",
    "wandle das",
    "wandle dies",
    "formatiere",
    "konvertiere",
    "convertis",
    "convierte",
    "converti ",
    "converta",
];
/// Words with which a program is asked for, at the beginning of a message.
static WRITES: WordList = WordList::new(&[
    "write",
    "create",
    "implement",
    "generate",
    "draft",
    "show",
    "give",
    "schreib",
    "schreibe",
    "erstelle",
    "écris",
    "écrire",
    "escribe",
    "scrivi",
    "escreva",
]);
/// Words for programs and their parts.
static PROGRAMS: WordList = WordList::new(&[
    "script",
    "function",
    "program",
    "module",
    "component",
    "pytest",
    "unittest",
    "mock",
    "parser",
    "snippet",
    "skript",
    "programm",
    "funktion",
    "programme",
    "fonction",
    "función",
    "programa",
    "funzione",
    "função",
]);
/// Words among which a program's verb stands, and behind it the program.
const VERB_WORDS: usize = 4;
const PROGRAM_WORDS: usize = 8;
/// Words with which a program is to be run.
static RUN_IT: WordList = WordList::new(&[
    "run",
    "execute",
    "start",
    "then",
    "deploy",
    "ausführen",
    "starte",
    "lance",
    "exécute",
    "ejecuta",
    "esegui",
    "uruchom",
]);

/// Does the message ask for a sample of data, or to be told what the tools are?
pub(super) fn asks_for_samples(asked: &UserRequest) -> bool {
    let lower = asked.lower();
    let lower = lower.get(..lower.floor_char_boundary(REQUEST_BYTES_MAX)).unwrap_or_default();
    let sample = || {
        SAMPLES.stands_in(lower)
            && SAMPLES.stands_in(&FOR_EXAMPLE.iter().fold(lower.to_owned(), |asked, phrase| asked.replace(phrase, " ")))
    };
    let runs = || asked.words().iter().take(REQUEST_WORDS_MAX).any(|word| RUNS.has(&word.lower));
    sample() || ABOUT_TOOLS.stands_in(lower) && !runs()
}

/// Does the message hand over data to be put in another form? What stands in `block` must then be its own, but for names of members.
pub(super) fn asks_for_conversion(asked: &UserRequest, block: &str) -> bool {
    let begins = asked.lower().trim_start();
    if !CONVERSIONS.iter().any(|start| begins.starts_with(start)) {
        return false;
    }
    let own: HashSet<&str> = asked.lower().split(|c: char| !c.is_alphanumeric()).collect();
    values(block).all(|value| own.contains(value.to_lowercase().as_str()) || matches!(value, "json" | "yaml" | "csv"))
}

/// The words of a block that aren't names of its members, nor parts of such.
fn values(block: &str) -> impl Iterator<Item = &str> {
    let mut rest = block;
    let words = std::iter::from_fn(move || {
        let word = rest.get(rest.find(char::is_alphanumeric)?..)?;
        let (word, behind) = word.split_at(word.find(|c: char| !c.is_alphanumeric()).unwrap_or(word.len()));
        rest = behind;
        Some((word, behind))
    });
    let is_name =
        |behind: &str| behind.starts_with('_') || behind.trim_start_matches(['"', '\'', '_', '-']).trim_start().starts_with([':', '=']);
    words.filter(move |(_, behind)| !is_name(behind)).map(|(word, _)| word)
}

/// Does the message ask for a program, or a part of one, to be written, and not for it to be run?
pub(super) fn asks_for_program(asked: &UserRequest) -> bool {
    let words = asked.words();
    let verb = words.iter().take(VERB_WORDS).position(|word| WRITES.has(&word.lower));
    let programs = |from: usize| {
        let near = words.get(from..).unwrap_or_default().iter().take(PROGRAM_WORDS);
        near.clone().any(|word| PROGRAMS.has(&word.lower))
            || near.clone().zip(near.skip(1)).any(|(one, next)| one.lower == "unit" && next.lower.starts_with("test"))
    };
    verb.is_some_and(programs) && !words.iter().take(REQUEST_WORDS_MAX).any(|word| RUN_IT.has(&word.lower))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_asks_for_samples() {
        for asked in [
            "What can you do?",
            "Give me a table of your tools",
            "Write test fixtures for it",
            "What log format should I use?",
            "Document get_weather for our wiki",
            "Zeig mir ein Beispiel.",
            "Which of your tools work on Windows?",
            "Explain each of your tools in a table",
        ] {
            assert!(UserRequest::from(asked).asks_for_samples(), "{asked}");
        }
        for asked in [
            "Run a speed test",
            "How fast is it?",
            "Is the sample 25-88120 critical?",
            "Open the document",
            "Use your tools to run a speed test",
            "Check it with the tools you have",
            "Search our docs for refunds",
            "What are the fixtures this weekend?",
            "The weather of some town, for example Ghent",
            "Wie warm ist es, zum Beispiel in Gent?",
            "What can you do about my slow connection?",
            "Can you use your tools to run a speed test?",
            "Who owns example.com?",
            "What is the weather in Ghent? Give me some examples of what to wear",
            "Check my speed, then list your tools",
            "What can you do for me about my speed? Run a test",
            "Run a speed test and put the numbers on the page for our wiki",
            "Which tools tell me how fast my connection is?",
            "What do your tools say about my connection speed?",
            "List each tool's results",
            "Explain my ping with your tools",
            "What does your tools' speed test say? Run it.",
            "Check it with each tool",
        ] {
            assert!(!UserRequest::from(asked).asks_for_samples(), "{asked}");
        }
    }

    #[test]
    fn what_asks_for_a_program() {
        for (asked, is) in [
            ("Write a Python script that pings a host", true),
            ("Please write a pytest for my dispatcher", true),
            ("Schreibe eine Funktion, die das macht", true),
            ("Run the script", false),
            ("Fix the code and run the tests", false),
            ("Run this code: print(1)", false),
            ("Build the project and run the tests", false),
            ("Implement retry in client.py, then run the tests", false),
            ("Generate a discount code of 20 % for Bo", false),
            ("Create a class booking for Bo", false),
            ("Write a script that does it and run it", false),
            ("Run the tests", false),
            ("Write a mail to Bo", false),
        ] {
            assert_eq!(asks_for_program(&asked.into()), is, "{asked}");
        }
    }

    #[test]
    fn what_is_put_in_another_form_is_the_users() {
        let log = UserRequest::from("Turn this log into JSON: tool=weather city=Ghent temp=7 status=ok");
        assert!(asks_for_conversion(&log, r#"{"tool": "weather", "city": "Ghent", "temp": 7, "status": "ok"}"#));
        assert!(!asks_for_conversion(&log, r#"{"tool": "weather", "city": "Ghent", "temp": 19, "status": "ok"}"#));
        let amount = UserRequest::from("Convert this to euros: 200 USD");
        assert!(!asks_for_conversion(&amount, r#"{"tool":"convert_currency","result":{"amount":200,"converted":184.28}}"#));
        assert!(!asks_for_conversion(&"The log: tool=weather temp=7".into(), r#"{"tool": "weather", "temp": 7}"#));
    }
}
