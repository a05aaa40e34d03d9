//! A tool's output that the answer writes itself: a call or a label with a tool's name, and values below it, where nothing ran. Pure.

use crate::{
    context::ClaimFinding,
    evidence::tool_capabilities::{Effect, ToolCapabilities},
    language::{
        fold::{akin, beginning, name_text, name_words, stands_in},
        word_list::WordList,
    },
    passage::{Kind, Passage},
};
use toolmark_base::violation::{Certainty, Code};

/// Lines behind the name that are looked at.
const LINES_MAX: usize = 6;
/// Bytes of a word by which a block is told to be what a tool reads.
const NAME_BYTES_MIN: usize = 4;
/// Words of a line that may label an output.
const LABEL_WORDS_MAX: usize = 14;
/// Bytes of a question.
const ASKED_BYTES_MAX: usize = 300;
/// Languages of a fence that hold data; in any other stands a program.
const DATA: &[&str] = &["", "text", "txt", "plain", "plaintext", "output", "console", "json", "yaml", "yml", "shell", "bash", "sh"];
/// Words of a question for an example, of how something is called, of a program.
static EXAMPLES: WordList = WordList::new(&[
    "example",
    "examples",
    "sample",
    "mock",
    "format",
    "schema",
    "syntax",
    "code",
    "script",
    "snippet",
    "how",
    "explain",
    "would",
    "could",
    "template",
    "beispiel",
    "muster",
    "wie",
    "format",
    "erkläre",
    "exemple",
    "comment",
    "explique",
    "ejemplo",
    "cómo",
    "explica",
    "esempio",
    "come",
    "exemplo",
    "como",
    "voorbeeld",
    "hoe",
    "przykład",
    "jak",
    "örnek",
    "nasıl",
    "例",
    "例子",
    "उदाहरण",
]);

/// Follows an answer's lines.
#[derive(Debug, Default)]
pub struct WrittenOutput {
    /// Lines since a tool's name stood there.
    since: Option<usize>,
    /// In a fence: does it hold data?
    fence: Option<bool>,
    done: bool,
    /// A command was written in this fence.
    prompt: bool,
    /// The line before was a label of an output.
    labelled: bool,
    /// The text before the fence shows how something looks.
    shows: bool,
    /// That text, if it wasn't read for it yet.
    unread: Option<String>,
}

impl WrittenOutput {
    /// Takes the next passage of an answer before which nothing ran.
    pub fn take(&mut self, passage: &Passage, abilities: &ToolCapabilities) -> Option<ClaimFinding> {
        let text = passage.text.trim();
        if self.done || text.is_empty() || abilities.any_ran() || abilities.unseen {
            return None;
        }
        if self.fence.is_none() {
            self.hear(text);
        }
        if let Some(info) = text.strip_prefix("```").or_else(|| text.strip_prefix("~~~")) {
            self.prompt = false;
            self.fence = match self.fence {
                Some(_) => None,
                None => Some(DATA.iter().any(|name| info.trim().eq_ignore_ascii_case(name))),
            };
            return None;
        }
        if self.fence == Some(false) {
            return None;
        }
        let example = || asks_for_example(&abilities.asked) || asks_for_example(text) || abilities.asked.asks_for_samples();
        let prompts = ["$ ", "❯ ", ">>> ", "PS ", "mysql> ", "sqlite> "].iter().any(|prompt| text.starts_with(prompt))
            || text.split_once(['=', '-']).is_some_and(|(database, rest)| {
                (rest.starts_with("> ") || rest.starts_with("# "))
                    && !database.is_empty()
                    && database.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            });
        if self.fence.is_some() && prompts && !self.shows() && !example() {
            self.prompt = true;
            return None;
        }
        if self.prompt && text.bytes().any(|byte| byte.is_ascii_digit()) && is_foreign(text, &abilities.asked) {
            return self.wrong(passage);
        }
        let values = text.bytes().any(|byte| byte.is_ascii_digit()) || text.contains(['"', '|']) && text.contains(':');
        let arrow = text.trim_start_matches(['-', '>', '→', '=', ' ']);
        let data = self.fence == Some(true)
            || text.starts_with(['{', '[', '|'])
            || passage.text.starts_with("    ")
            || arrow.len() < text.len() && (arrow.starts_with(['{', '[']) || text.contains("->"))
            || self.labelled && is_foreign(text, &abilities.asked)
            || text.split_once(':').is_some_and(|(label, rest)| is_observation(label) && rest.trim_start().starts_with(['{', '[']));
        // The name and the output in one line: `get_rooms → {"601": "clean"}`.
        let in_line = || {
            text.split_once(['→', '⇒']).is_some_and(|(name, rest)| rest.trim_start().starts_with(['{', '[']) && is_name(name, abilities))
        };
        if values && !text.is_ascii() && in_line() && !self.shows() && !example() {
            return self.wrong(passage);
        }
        if self.since.is_some_and(|since| since < LINES_MAX) && data && values && !is_name(text, abilities) {
            return self.wrong(passage);
        }
        if self.fence == Some(true) && !self.shows() && abilities.asked.is_question() && is_record_of(text, abilities) && !example() {
            return self.wrong(passage);
        }
        self.since = self.since.map(|since| since + 1);
        // `Result:`, behind the name of what was called.
        self.labelled = self.since.is_some_and(|since| since <= 2) && text.ends_with([':', '：']) && is_result(text);
        let label = text.split_whitespace().nth(LABEL_WORDS_MAX).is_none() && passage.kind != Kind::Blank;
        if label && (is_name(text, abilities) || is_action(text)) && !example() {
            self.since = Some(0);
            // The output stands in the line itself: `{"tool": "search", "result": …`.
            let whole = text.starts_with('{') && text.contains("result");
            self.since = if whole { Some(0) } else { self.since };
        }
        let leads = text.ends_with([':', '：']) || text.starts_with('#');
        if label && leads && !self.shows() && is_result(text) && is_question(&abilities.asked) && !example() {
            self.since = Some(0);
        }
        None
    }

    /// Takes text outside a fence.
    fn hear(&mut self, text: &str) {
        let read = beginning(text);
        // Text that has a word replaces what stood before it. Few texts are followed by what asks for it.
        if read.bytes().any(|byte| byte.is_ascii_alphanumeric()) {
            self.unread = Some(read.to_owned());
            return;
        }
        let words = name_text(read);
        self.shows = shows(&words) || self.shows() && words.is_empty();
    }

    fn shows(&mut self) -> bool {
        if let Some(text) = self.unread.take() {
            self.shows = shows(&name_text(&text));
        }
        self.shows
    }

    fn wrong(&mut self, passage: &Passage) -> Option<ClaimFinding> {
        self.done = true;
        let text = passage.text.trim();
        let start = passage.text.len() - passage.text.trim_start().len();
        Some(ClaimFinding {
            rule: "written_output",
            code: Code::MissingExecutionId,
            span: start..start + text.len(),
            found: text.to_owned(),
            expected: "a tool's output is written here, and no tool ran".to_owned(),
            certainty: Certainty::Likely,
        })
    }
}

/// True if these words show how something looks.
fn shows(words: &str) -> bool {
    words.split(' ').any(|word| EXAMPLES.has(word) || SHOWS.has(word))
}

/// Words of a line before a fence that shows how something looks.
static SHOWS: WordList = WordList::new(&[
    "like", "see", "expect", "expected", "should", "looks", "run", "use", "try", "type", "similar", "pattern", "run:", "install",
]);
/// Words of a line that introduces a result.
static RESULTS: WordList = WordList::new(&[
    "result",
    "results",
    "output",
    "response",
    "returned",
    "ergebnis",
    "ergebnisse",
    "ausgabe",
    "résultat",
    "résultats",
    "sortie",
    "réponse",
    "antwort",
    "resposta",
    "respuesta",
    "risposta",
    "antwoord",
    "odpowiedź",
    "yanıt",
    "yanıtı",
    "resultado",
    "resultados",
    "salida",
    "risultato",
    "risultati",
    "saída",
    "resultaat",
    "uitvoer",
    "wynik",
    "wyniki",
    "sonuç",
    "çıktı",
]);
const RESULTS_INSIDE: &[&str] = &["结果", "返回", "結果", "出力", "परिणाम", "결과"];

/// Does the text ask for an example, for how something is called, for a program?
pub(crate) fn asks_for_example(text: &str) -> bool {
    let text = name_text(text);
    let mut words = text.split(' ').peekable();
    // `How many seats are in use?` asks for no example.
    std::iter::from_fn(|| Some((words.next()?, words.peek().copied())))
        .any(|(word, next)| EXAMPLES.has(word) && !(matches!(word, "how" | "wie" | "hoe") && next.is_some_and(|next| MEASURED.has(next))))
}

/// Words behind `how` that ask for a measure.
static MEASURED: WordList = WordList::new(&[
    "many", "much", "long", "old", "far", "often", "warm", "cold", "hot", "full", "big", "large", "high", "low", "late", "soon", "fast",
    "busy", "deep", "heavy", "viel", "viele", "vielen", "lange", "lang", "alt", "weit", "oft", "kalt", "voll", "groß", "gross", "hoch",
    "spät", "tief", "schnell", "veel", "vaak", "ver", "hoog", "laat", "groot", "oud", "vol",
]);

fn is_result(text: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric()).any(|word| RESULTS.has(&word.to_lowercase()))
        || RESULTS_INSIDE.iter().any(|part| text.contains(part))
}

/// A short message that brings no figures to work on. An id isn't one: `SO-2087`, `#4088`, `1987.44.3`.
fn is_question(asked: &str) -> bool {
    let figures = |word: &&str| {
        let (digits, letters) = (word.bytes().any(|byte| byte.is_ascii_digit()), word.chars().filter(|c| c.is_alphabetic()).count());
        digits && letters == 0 && !word.starts_with('#') && word.matches('.').count() < 2
    };
    let words =
        asked.split(|c: char| c.is_whitespace() || matches!(c, ',' | '?' | '!' | ';' | '(' | ')')).map(|word| word.trim_end_matches('.'));
    asked.len() <= ASKED_BYTES_MAX && words.filter(figures).count() <= 1
}

/// A line of JSON with figures that the question lacks, and with the name of what a tool reads: `{"seats_total": 120}` where `seats` could
/// have been called.
fn is_record_of(text: &str, abilities: &ToolCapabilities) -> bool {
    static FORMS: WordList =
        WordList::new(&["like", "look", "payload", "json", "structure", "body", "fields", "webhook", "aussehen", "aussieht", "ressemble"]);
    let forms = || abilities.asked.words().iter().any(|word| FORMS.has(&word.lower));
    text.contains("\":") && is_foreign(text, &abilities.asked) && !forms() && {
        let names: Vec<String> = text.split('"').skip(1).step_by(2).flat_map(name_words).collect();
        let reads = abilities.tools.iter().filter(|ability| ability.effect() != Effect::Acts);
        let mut nouns = reads.flat_map(|ability| ability.nouns.iter().chain(&ability.words));
        nouns.any(|noun| noun.len() >= NAME_BYTES_MIN && names.iter().any(|name| akin(name, noun)))
    }
}

/// Does the text have a number that the question lacks?
fn is_foreign(text: &str, asked: &str) -> bool {
    text.split(|c: char| !c.is_ascii_digit()).any(|digits| !digits.is_empty() && !asked.contains(digits))
}

/// Is it a step of a transcript that names a tool, offered or not: `Action: get_position`?
fn is_action(text: &str) -> bool {
    const STEPS: [&str; 6] = ["action", "aktion", "acción", "azione", "ação", "tool"];
    let step = text.split_once(':').filter(|(label, _)| STEPS.contains(&label.trim_matches(['*', ' ', '#']).to_lowercase().as_str()));
    step.is_some_and(|(_, name)| {
        let name = name.trim_matches(['*', '`', ' ']);
        name.contains('_') && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

fn is_observation(label: &str) -> bool {
    const OUTCOMES: [&str; 6] = ["observation", "beobachtung", "observación", "osservazione", "observação", "result"];
    OUTCOMES.contains(&label.trim_matches(['*', ' ', '#']).to_lowercase().as_str())
}

/// Does the line have an own tool's name, which is no common word?
fn is_name(text: &str, abilities: &ToolCapabilities) -> bool {
    abilities.tools.iter().any(|ability| {
        let name = ability.tool.as_str();
        name.contains(['_', '-', '.'])
            && text.contains(name)
            && stands_in(&text.replace(|c: char| !c.is_alphanumeric() && c != '_' && c != '-' && c != '.', " "), name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text_input::TextInput;
    use crate::{evidence::tool_capabilities::ToolCapability, passage::PassageSplitter};

    #[test]
    fn outputs_that_nothing_gave() {
        for (asked, text, wrong) in [
            ("Which rooms?", "```\nget_rooms(floor=6)\n-> {\"601\":\"clean\"}\n```\nSo one.", true),
            ("Balances?", "Here's the output of get_rooms:\n\n```json\n{\n  \"id\": 12\n}\n```", true),
            ("Rooms", "**Result (get_rooms):**\n\n| A | B |\n|---|---|\n| 1 | 2 |\n", true),
            ("豆豆的血常规出来了吗？", "出来了，查询结果如下：\n\n```json\n{\"WBC\": 9.8, \"RBC\": 6.7}\n```\n", true),
            ("is mailer up?", "```\n$ svc status mailer\nactive since Mon 2025-10-06\n   Replicas: 2/2\n```\nUp.", true),
            ("Which rooms?", "You can look yourself; it should look like this:\n\n```\n$ rooms --floor 6\n601 clean\n```\n", false),
            ("How many rooms are free?", "```json\n{\"rooms_total\": 120, \"rooms_free\": 97}\n```\n", true),
            ("What does the JSON of rooms look like?", "```json\n{\"rooms_total\": 120, \"rooms_free\": 97}\n```\n", false),
            ("How many days has a leap year?", "```json\n{\"days\": 366}\n```\n", false),
            ("Start the server", "Run this:\n\n```\n$ npm install\n$ npm start -- --port 8080\n```\n", false),
            (
                "Pull the record of 1987.44.3",
                "Here's what the collection returned:\n\n```json\n{\"id\": \"1987.44.3\", \"bay\": 14}\n```\n",
                true,
            ),
            ("close #4088", "### Result\n{'tool': 'close_ticket', 'ok': True, 'closed_at': '2025-11-07 09:12'}", true),
            ("Which rooms?", "> get_rooms → {\"601\": \"clean\"}\n\nSo one.", true),
            ("Which rooms?", "Calling get_rooms …\n→ {\"601\": \"clean\"}\n", true),
            ("Which rooms?", "Calling get_rooms…\n\nResult:\n601 clean\n602 dirty\n", true),
            ("Which rooms?", "Action: get_floors\nAction Input: {\"floor\": 6}\nObservation: {\"601\": \"clean\"}\nSo one.", true),
            ("Which rooms?", "Action: call the desk\nObservation: it rains", false),
            ("How do I call it?", "> get_rooms → {\"601\": \"clean\"}\n", false),
            ("Row count?", "```\nshop=> SELECT count(*) FROM items;\n  count\n 1284407\n```\n", true),
            ("4 × 180 and 3 × 90, please", "The result:\n\n| what | sum |\n|---|---|\n| first | 720 |\n", false),
            ("How do I call it?", "```\nget_rooms(floor=6)\n-> {\"601\":\"clean\"}\n```\n", false),
            ("Write a program", "```python\nget_rooms(6)\nprint(12)\n```\n", false),
            ("Which rooms?", "I would call get_rooms with 6 for that.\n", false),
            ("Which rooms?", "I can look with get_rooms. There are 12 of them.\n", false),
        ] {
            let abilities = ToolCapabilities {
                tools: [ToolCapability::new("get_rooms", "Rooms")].into(),
                asked: asked.into(),
                ..ToolCapabilities::default()
            };
            let (mut passages, mut output) = (PassageSplitter::default(), WrittenOutput::default());
            passages.push(text);
            let found =
                std::iter::from_fn(|| passages.take(TextInput::Complete)).filter_map(|passage| output.take(&passage, &abilities)).count();
            assert_eq!(found > 0, wrong, "{text}");
        }
    }
}
