//! What a user's message asks to be written: samples of what tools return, a description of the tools, data in another form, a program.
//! Pure.

use crate::judge::claims::language::{
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
    "example",
    "sample log",
    "sample output",
    "sample payload",
    "sample response",
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
    "for our wiki",
    "for the wiki",
    "what are your tools",
    "list your tools",
    "list of your tools",
    "table of your tools",
    "describe your tools",
    "tools do you",
    "tools are available",
    "what can you do?",
    "what can you do for me",
    "what can you help me with",
    "what are you able to do",
    "beispiel",
    "welche tools hast",
    "welche werkzeuge hast",
    "was kannst du?",
    "exemple",
    "quels outils as",
    "que peux-tu faire ?",
    "que peux-tu faire?",
    "ejemplo",
    "qué herramientas tienes",
    "qué puedes hacer?",
    "esempio",
    "cosa puoi fare?",
    "exemplo",
    "o que você pode fazer?",
    "voorbeeld",
    "wat kun je?",
    "przykład",
    "co potrafisz?",
    "örnek",
    "neler yapabilirsin",
    "例を",
    "例子",
    "示例",
    "サンプル",
    "何ができ",
    "你能做什么",
    "उदाहरण",
    "예시",
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
/// Phrases for the tools themselves. A message that asks to be told about them asks what they are.
static OF_TOOLS: PhraseList = PhraseList::new(&[
    "your tools",
    "your functions",
    "each tool",
    "every tool",
    "which tools",
    "what tools",
    "deine tools",
    "deiner tools",
    "ihre tools",
    "ihrer tools",
    "deine werkzeuge",
    "deiner werkzeuge",
    "tes outils",
    "vos outils",
    "tus herramientas",
    "sus herramientas",
    "tuoi strumenti",
    "suas ferramentas",
]);
/// Words with which a request to be told of something begins.
static TELLS: WordList = WordList::new(&[
    "explain",
    "describe",
    "list",
    "show",
    "summarise",
    "summarize",
    "compare",
    "erkläre",
    "erklär",
    "beschreibe",
    "explique",
    "décris",
    "explica",
    "spiega",
]);
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
/// Words with which something written is asked for.
static WRITES: WordList = WordList::new(&[
    "write",
    "create",
    "implement",
    "build",
    "code",
    "generate",
    "draft",
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
    "code",
    "class",
    "module",
    "component",
    "test",
    "tests",
    "pytest",
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

/// Does the message ask for a sample of data, for data in another form, or to be told what the tools are?
pub(super) fn asks_for_samples(asked: &UserRequest) -> bool {
    let lower = asked.lower();
    let lower = lower.get(..lower.floor_char_boundary(REQUEST_BYTES_MAX)).unwrap_or_default();
    let sample = || {
        SAMPLES.stands_in(lower)
            && SAMPLES.stands_in(&FOR_EXAMPLE.iter().fold(lower.to_owned(), |asked, phrase| asked.replace(phrase, " ")))
    };
    let told = || asked.is_question() || asked.words().first().is_some_and(|first| TELLS.has(&first.lower));
    sample() || CONVERSIONS.iter().any(|start| lower.trim_start().starts_with(start)) || OF_TOOLS.stands_in(lower) && told()
}

/// Does the message ask for a program, or a part of one, to be written?
pub(super) fn asks_for_program(asked: &UserRequest) -> bool {
    let has = |list: &WordList| asked.words().iter().take(REQUEST_WORDS_MAX).any(|word| list.has(&word.lower));
    has(&WRITES) && has(&PROGRAMS)
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
            "Turn this log into JSON: tool=check_net up=1",
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
            ("Run the tests", false),
            ("Write a mail to Bo", false),
        ] {
            assert_eq!(asks_for_program(&asked.into()), is, "{asked}");
        }
    }
}
