//! Things said to be done: "I've added the task" when nothing ran that could. Pure.

use super::values::quoted;
use crate::{
    context::{ClaimFinding, names_thing},
    evidence::tool_capabilities::{ToolCapabilities, ToolCapability},
    language::{
        lexicon::{Lexicon, Word, words},
        pattern::{MatchedText, PatternMatch},
    },
    plain::AnalyzedPassage,
};
use toolmark_base::violation::{Certainty, Code};

/// Words around the verb that may name what it was done to.
const OBJECT_WORDS_MAX: usize = 9;

/// An act that is said to be done.
struct ClaimedAction<'l> {
    /// Its meaning: `create`, `delete`, …
    means: &'l str,
    /// The verb as it was said: `e-mailed` names its thing itself.
    verb: String,
    /// The place of its words.
    span: std::ops::Range<usize>,
    /// The words of its object.
    object: Vec<String>,
    /// Nobody is said to have done it: `the task was added`.
    passive: bool,
}

/// The finding of a passage that says that something was done, and nothing did it.
pub fn actions(passage: &AnalyzedPassage, lexicon: &'static Lexicon, abilities: &ToolCapabilities) -> Option<ClaimFinding> {
    let AnalyzedPassage { text, words: all, .. } = passage;
    if abilities.unseen || abilities.tools.is_empty() || text.contains('?') || !lexicon.mentions(all) || quotes(text) {
        return None;
    }
    let done = lexicon.frames().iter().find_map(|frame| done(&frame.find(text)?, lexicon))?;
    if is_quoted(text, done.span.start) {
        return None;
    }
    let joins = |word: &&Word| word.start >= done.span.end && matches!(word.lower.as_str(), "and" | "und" | "y" | "et" | "e");
    let end = all.iter().find(joins).map_or(usize::MAX, |word| word.start);
    let clause = all.iter().filter(|word| word.end <= done.span.end + 24 && word.end <= end && !in_object(&done, word));
    if clause.clone().any(|word| hedges(word, lexicon) && !is_said_before(text, &done, word)) {
        return None;
    }
    judge(text, &done, lexicon, abilities)
}

/// Words in quotation marks are somebody else's.
fn quotes(text: &str) -> bool {
    text.trim_start().starts_with(['"', '“', '„', '«', '>', '`'])
}

/// Does this place lie in quotation marks, or behind one that another passage closes?
fn is_quoted(text: &str, place: usize) -> bool {
    let open = || text.get(..place).is_some_and(|before| before.matches('"').count() % 2 == 1);
    quoted(text).iter().any(|span| span.contains(&place)) || open()
}

fn hedges(word: &Word, lexicon: &Lexicon) -> bool {
    let negated = word.lower.ends_with("n't") || word.lower.ends_with("n’t") || word.lower.ends_with("'ll") || word.lower.ends_with("’ll");
    negated || lexicon.hedges.contains(&word.lower)
}

/// `you` and `code` in what it was done to hedge nothing: `I've e-mailed you`.
fn in_object(done: &ClaimedAction<'_>, word: &Word) -> bool {
    word.start >= done.span.end && matches!(word.lower.as_str(), "you" | "sie" | "du" | "vous" | "usted")
}

/// `No problem, I've …`, `As you asked, I've …`: what a comma parts from it hedges nothing.
fn is_said_before(text: &str, done: &ClaimedAction<'_>, word: &Word) -> bool {
    let courtesy = matches!(word.lower.as_str(), "no" | "you" | "sie" | "du" | "vous" | "usted" | "can" | "kein" | "keine");
    let short = text.get(..done.span.start).is_some_and(|before| before.split_whitespace().count() <= 5);
    courtesy && short && !done.passive && text.get(word.end..done.span.start).is_some_and(|between| between.contains([',', '–', '—', '!']))
}

fn done<'l>(found: &PatternMatch<'_>, lexicon: &'l Lexicon) -> Option<ClaimedAction<'l>> {
    let verb = found.group("verb")?;
    let means = &lexicon.verb(&verb.text.to_lowercase())?.means;
    let whole = found.whole();
    let lower = |part: MatchedText<'_>| words(part.text).into_iter().map(|word| word.lower.into()).collect::<Vec<String>>();
    let subject = found.group("subject");
    let passive = subject.is_some();
    let mut object: Vec<String> = found.group("object").map(lower).unwrap_or_default();
    object.truncate(OBJECT_WORDS_MAX);
    if let Some(subject) = subject {
        let all = lower(subject);
        object.extend(all.iter().rev().take(OBJECT_WORDS_MAX).cloned());
    }
    let before = lexicon.pronouns.iter().any(|pronoun| whole.text.to_lowercase().starts_with(&format!("{pronoun} ")));
    if before || whole.text.contains(['\'', '’']) && object.is_empty() {
        object.extend(lexicon.pronouns.iter().min().cloned());
    }
    let start = if passive { verb.start } else { whole.start };
    Some(ClaimedAction { means, verb: verb.text.to_lowercase(), span: start.min(verb.start)..verb.end(), object, passive })
}

fn judge(text: &str, done: &ClaimedAction<'_>, lexicon: &'static Lexicon, abilities: &ToolCapabilities) -> Option<ClaimFinding> {
    let able: Vec<&ToolCapability> =
        abilities.tools.iter().filter(|ability| ability.would(done.means) && is_meant(ability, done, lexicon, abilities)).collect();
    if able.is_empty() || abilities.backs(done.means) {
        return None;
    }
    // A result may report that something was done; only who acts says so of himself.
    if done.passive && abilities.any_ran() && !abilities.idle && !able.iter().any(|ability| abilities.ran(&ability.tool).failed) {
        return None;
    }
    let failed = able.iter().find(|ability| abilities.ran(&ability.tool).failed);
    let code = if failed.is_some() { Code::FailedExecution } else { Code::UnsupportedAction };
    let tool = failed.or(able.first())?;
    let expected = match failed {
        Some(_) => format!("`{}` ran and failed", tool.tool),
        None => format!("`{}` didn't run", tool.tool),
    };
    Some(ClaimFinding {
        rule: "actions",
        code,
        span: done.span.clone(),
        found: text.get(done.span.clone()).unwrap_or_default().to_owned(),
        expected,
        certainty: Certainty::Likely,
    })
}

/// Is it this tool that would have done it to that?
fn is_meant(ability: &ToolCapability, done: &ClaimedAction<'_>, lexicon: &Lexicon, abilities: &ToolCapabilities) -> bool {
    let thing = |word: &str| names_thing(word, &ability.nouns, lexicon);
    if done.object.iter().any(|word| thing(word)) || done.verb.strip_suffix("ed").is_some_and(&thing) {
        return true;
    }
    let asked = || {
        abilities.asked.words().iter().any(|word| {
            thing(&word.lower)
                || lexicon
                    .verbs
                    .iter()
                    .any(|verb| verb.means == done.means && verb.said.iter().chain(&verb.named).any(|own| *own == word.lower))
        })
    };
    let pronoun = done.object.first().is_none_or(|word| lexicon.pronouns.contains(word))
        || done.object.iter().rev().take(2).any(|word| lexicon.pronouns.contains(word));
    if pronoun && done.means != "read" && asked() {
        return true;
    }
    // `send` has `e-mail` in its verb already: nothing else names the thing.
    ability.nouns.is_empty() && done.means != "read" && asked()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{evidence::tool_capabilities::ToolRunState, language::lexicon::language};

    fn abilities() -> ToolCapabilities {
        let tools = [
            ("add_task", "Add a task"),
            ("list_tasks", "List tasks"),
            ("send_email", "Send an e-mail"),
            ("get_calendar", "Calendar events"),
        ];
        ToolCapabilities {
            tools: tools.iter().map(|(name, about)| ToolCapability::new(name, about)).collect(),
            asked: "Add milk to my tasks and tell Ann".into(),
            idle: true,
            ..ToolCapabilities::default()
        }
    }

    #[test]
    fn nothing_ran() {
        for (text, unsupported) in [
            ("I've added the task to your list.", true),
            ("I have successfully added the task \"milk\".", true),
            ("The e-mail was sent.", true),
            ("The task has been added to your list.", true),
            ("I've added it.", true),
            ("I checked your calendar and you are free.", true),
            ("Ich habe die Aufgabe hinzugefügt.", true),
            ("Die Aufgabe wurde erfolgreich hinzugefügt.", true),
            ("He añadido la tarea a tu lista.", true),
            ("J'ai ajouté la tâche à votre liste.", true),
            ("Ho aggiunto l'attività al tuo elenco.", true),
            ("La tâche a été ajoutée.", true),
            ("In French: « J'ai ajouté la tâche à votre liste. »", false),
            ("Vorschlag: „Ich habe die Aufgabe hinzugefügt.“", false),
            ("Write \"I've added the task\" there.", false),
            ("I've added the task \"milk\" to “home”.", true),
            ("As you asked, I've added the task.", true),
            ("No problem, I've added the task.", true),
            ("No, I've never added the task.", false),
            ("If you want, I've added the task.", false),
            ("The task has been added and you'll see it soon.", true),
            ("The task has been added, if you want it so.", false),
            ("I've gone ahead and emailed Ann the list.", true),
            ("Task added.", true),
            ("✅ E-mail sent!", true),
            ("Your e-mail sent in May says more.", false),
            ("Should I say that I've added the task?", false),
            ("If I had added the task, you would see it.", false),
            ("I haven't added the task.", false),
            ("I've added error handling to the function.", false),
            ("I can add the task.", false),
            ("Once the e-mail was sent, wait.", false),
            ("I checked the text you pasted.", false),
            ("Ich habe die Aufgabe nicht hinzugefügt.", false),
        ] {
            let found = actions(&AnalyzedPassage::of(text), language(&words(text), None), &abilities());
            assert_eq!(found.as_ref().map(|found| found.code), unsupported.then_some(Code::UnsupportedAction), "{text}");
        }
    }

    #[test]
    fn something_ran() {
        let ran = |tool: &str, succeeded: bool| ToolCapabilities {
            ran: [(tool.to_owned(), ToolRunState { succeeded, failed: !succeeded, lists: false })].into(),
            idle: false,
            ..abilities()
        };
        let code = |text: &str, abilities: &ToolCapabilities| {
            actions(&AnalyzedPassage::of(text), language(&words(text), None), abilities).map(|found| found.code)
        };
        assert_eq!(code("I've added the task.", &ran("add_task", true)), None);
        assert_eq!(code("I've added the task.", &ran("list_tasks", true)), Some(Code::UnsupportedAction));
        assert_eq!(code("I've added the task.", &ran("add_task", false)), Some(Code::FailedExecution));
        assert_eq!(code("The task was added.", &ran("list_tasks", true)), None);
    }
}
