//! Looks that a sentence reports, and sources that it names, where no tool showed them. Pure.

use std::{borrow::Cow, ops::Range};

use crate::{
    checks::{
        acts::{
            act_sentence::{ActSentence, may_rest_on_results, sentence},
            excuses::OBJECT_WORDS,
            readings,
            readings::{OF_USER, brings_text, is_about_any_tool, is_english, plays},
            speech::{
                ActPatterns,
                reported::{ReportedAct, clause},
                verb_forms::has_form,
            },
            talk,
        },
        values::quoted,
    },
    context::ClaimFinding,
    evidence::tool_capabilities::{Effect, ToolCapabilities, ToolCapability},
    language::{
        fold::{akin, folded, name_words},
        lexicon::Word,
        word_list::{PhraseList, WordList},
    },
};
use toolmark_base::violation::{Certainty, Code};

/// Bytes of a question; a longer message brings a text to work on.
pub(super) const QUESTION_BYTES_MAX: usize = 400;

/// Bytes of earlier messages in which a source is looked for; behind more of them none is held against the answer.
pub(super) const SAID_BYTES_MAX: usize = 16 << 10;

/// Verbs of a look that are a deed too where they were asked for: `open the vents`, `run the import`.
const DEEDS_TOO: &[&str] = &["open", "ran", "run", "pull", "test", "track", "watch"];

/// Is the look that it tells the deed that was asked for, and no tool of that name ran?
pub(super) fn is_ordered_deed(case: &ActSentence<'_>, said: &ReportedAct) -> bool {
    let abilities = case.abilities;
    let own = |tool: &String| has_form(&said.verb, &abilities.words_of(tool));
    DEEDS_TOO.iter().any(|verb| said.verb.starts_with(verb))
        && has_form(&said.verb, abilities.asked.name_words())
        && abilities.asked.asks_for_act()
        && !abilities.recent.keys().any(own)
        && abilities.tools.iter().any(|ability| ability.effect() == Effect::Acts)
}

/// Verbs of a look that may be done to what the user brought, or are said of an idea.
const VAGUE_LOOKS: &[&str] = &["found", "read", "ran", "run", "test", "measur", "open", "watch", "track", "pull", "review", "locat"];

/// Things that hold what can be looked up.
static STORES: WordList = WordList::new(&[
    "database",
    "calendar",
    "system",
    "systems",
    "web",
    "internet",
    "online",
    "records",
    "record",
    "files",
    "account",
    "inbox",
    "catalogue",
    "catalog",
    "schedule",
    "log",
    "logs",
    "site",
    "website",
    "inventory",
    "register",
    "entries",
    "history",
    "file",
    "backend",
    "server",
    "dashboard",
    "tracker",
    "now",
    "datenbank",
    "kalender",
    "system",
    "akte",
    "base",
    "calendrier",
    "agenda",
    "sistema",
    "banco",
    "registro",
]);

/// "I checked the database" where nothing was ever looked up.
pub(super) fn looked(case: &ActSentence<'_>, said: &ReportedAct) -> Option<ClaimFinding> {
    let ActSentence { text, words, abilities, .. } = *case;
    if plays(&abilities.asked) {
        return None;
    }
    static USERS_TEXTS: WordList = WordList::new(&[
        "message",
        "question",
        "text",
        "code",
        "request",
        "draft",
        "essay",
        "letter",
        "paragraph",
        "figures",
        "numbers",
        "sentence",
        "example",
        "nachricht",
        "frage",
        "anfrage",
        "entwurf",
        "texte",
        "brouillon",
        "pregunta",
        "mensaje",
        "texto",
        "borrador",
        "domanda",
        "testo",
        "pergunta",
        "what",
        "your",
        "you",
        "deine",
        "deinen",
        "ihre",
        "ihren",
        "votre",
        "ton",
        "tu",
        "su",
        "compartiste",
        "pegaste",
    ]);
    let behind = words.iter().filter(|word| word.start >= said.span.end);
    let object = || behind.clone().take(4).map(|word| word.lower.as_str());
    let clause = clause(text, said.span.clone());
    let near = || words.iter().filter(|word| word.start >= said.span.end && word.end <= clause.end);
    // `I opened config.py`; `I tracked it`, of what a tool is for.
    let file = || text.get(said.span.end..clause.end).is_some_and(|object| object.split_whitespace().take(OBJECT_WORDS).any(is_file));
    let it = || {
        let pronoun = object().next().is_some_and(|word| matches!(word, "it" | "them" | "that"));
        pronoun && ["track", "pull", "open", "locat"].iter().any(|verb| said.verb.starts_with(verb)) && is_about_any_tool(case)
    };
    let store = || near().any(|word| STORES.has(&word.lower) || abilities.names(&word.lower)) || file() || it();
    let of_user = || object().any(|word| USERS_TEXTS.has(word)) && !object().any(|word| abilities.names(word));
    let brought = brings_text(abilities);
    let vague = || !said.speech.is_script() && VAGUE_LOOKS.iter().any(|verb| said.verb.starts_with(verb)) && !store();
    let empty = said.speech.is_script() && object().next().is_none() && said.verb.is_empty();
    if abilities.any_ran() && !brought && !of_user() {
        return looked_elsewhere(case, said).or_else(|| ran_nothing(case, said));
    }
    // `I ran the suite`, of a pattern that the user gave: that takes more than reading it.
    let brought = brought
        && !(["ran", "run", "execut", "test"].iter().any(|verb| said.verb.starts_with(verb))
            && near().any(|word| abilities.names(&word.lower)));
    if abilities.any_ran() || brought || of_user() || vague() || empty || case.is_repeated(&said.verb) {
        return None;
    }
    // Nothing ran in the whole conversation, and no earlier answer tells what a look could have shown: none can have been made. Some
    // applications send earlier answers without the calls that they rest on.
    let first = case.grounds.is_none_or(|grounds| !may_rest_on_results(grounds));
    // `I went through it line by line`, of sums that the user gave.
    let about = || is_about_any_tool(case) || !is_english(&abilities.asked) || looks_by_tool(case, said);
    // `Prüf den Satz: …`: it may be the user's own text that was looked at.
    let asks = || abilities.asked.trim_end().ends_with(['?', '？']);
    let inline = || talk::brings_inline(&abilities.asked) && !asks() || !quoted(&abilities.asked).is_empty();
    let certainty =
        if (first || (store() || is_fresh(words, text)) && about()) && !inline() { Certainty::Certain } else { Certainty::Likely };
    let expected = "no tool ran".to_owned();
    Some(ClaimFinding {
        rule: "looked",
        code: Code::UnsupportedAction,
        span: said.span.clone(),
        found: sentence(text),
        expected,
        certainty,
    })
}

/// Letters of the ending of a file's name.
const FILE_ENDING: std::ops::RangeInclusive<usize> = 1..=5;

/// Is it the name of a file, or a path: `config.py`, `/etc/hosts`?
pub(super) fn is_file(word: &str) -> bool {
    let word = word.trim_matches(|c: char| !(c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '~'))).trim_end_matches('.');
    let ends = |(name, ending): (&str, &str)| {
        FILE_ENDING.contains(&ending.len())
            && ending.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
            && ending.starts_with(|c: char| c.is_ascii_lowercase())
            && name.len() > 1
            && name.chars().any(char::is_alphabetic)
            && !name.contains('.')
    };
    word.rsplit_once('.').is_some_and(ends) || word.starts_with(['/', '~']) && word.len() > 2 || word.starts_with("./")
}

/// `I had a look at L-4402`, of an id that the user named; `I looked through several sites`, where a tool reads the web: only a tool shows
/// what is there.
fn looks_by_tool(case: &ActSentence<'_>, said: &ReportedAct) -> bool {
    static PLACES: WordList = WordList::new(&["site", "sites", "website", "websites", "page", "pages", "web", "online", "internet"]);
    static WEB_TOOLS: WordList = WordList::new(&["web", "page", "url", "browse", "internet", "site"]);
    let is_id = |word: &str| {
        word.len() >= 4 && word.bytes().any(|byte| byte.is_ascii_digit()) && word.bytes().any(|byte| byte.is_ascii_alphabetic())
    };
    let asked = |word: &str| case.abilities.asked.words().iter().any(|asked| asked.lower == word);
    let online = || case.abilities.tools.iter().flat_map(|tool| &tool.words).any(|word| WEB_TOOLS.has(word));
    let clause = clause(case.text, said.span.clone());
    let mut near = case.words.iter().filter(|word| word.start >= said.span.end && word.end <= clause.end);
    near.any(|word| is_id(&word.lower) && asked(&word.lower) || PLACES.has(&word.lower) && online())
}

/// `I ran the interaction check` where another tool ran, and `check_interactions` didn't: it alone is about that.
fn looked_elsewhere(case: &ActSentence<'_>, said: &ReportedAct) -> Option<ClaimFinding> {
    let ActSentence { text, words, abilities, grounds, .. } = *case;
    let clause = clause(text, said.span.clone());
    let near = || words.iter().filter(|word| word.start >= said.span.end && word.end <= clause.end).take(6);
    let known = |noun: &str| {
        abilities.ran.keys().any(|tool| abilities.words_of(tool).iter().any(|word| akin(word, noun)))
            || grounds.is_some_and(|grounds| {
                grounds.results.iter().any(|source| source.folded().contains(noun) || source.folded_arguments().contains(noun))
            })
    };
    let reads = |ability: &&ToolCapability| ability.effect() == Effect::Reads && !abilities.ran.contains_key(&ability.tool);
    let near: Vec<Cow<'_, str>> = near().map(|word| folded(&word.lower)).collect();
    let told = |noun: &&String| {
        let stem = noun.strip_suffix('s').unwrap_or(noun);
        noun.chars().count() >= 6 && near.iter().any(|word| akin(word, noun)) && !known(stem)
    };
    let (tool, noun) =
        abilities.tools.iter().find_map(|ability| Some((ability, ability.nouns.iter().find(told)?)).filter(|_| reads(&ability)))?;
    Some(ClaimFinding {
        rule: "looked_elsewhere",
        code: Code::UnsupportedAction,
        span: said.span.clone(),
        found: sentence(text),
        expected: format!("`{}` didn't run, and nothing that ran is about `{noun}`", tool.tool),
        certainty: Certainty::Likely,
    })
}

/// `I then ran the whole suite` where `run_command` didn't run, and nothing that did runs anything.
fn ran_nothing(case: &ActSentence<'_>, said: &ReportedAct) -> Option<ClaimFinding> {
    let abilities = case.abilities;
    if !["ran", "run", "rerun", "re-ran", "tested", "executed"].contains(&said.verb.as_str()) || abilities.recent.is_empty() {
        return None;
    }
    let runs = |tool: &str| {
        abilities.words_of(tool).iter().any(|word| {
            matches!(
                word.as_str(),
                "run" | "rerun" | "exec" | "execute" | "shell" | "bash" | "test" | "tests" | "check" | "command" | "build"
            )
        })
    };
    let idle = abilities.tools.iter().find(|ability| runs(&ability.tool) && !abilities.recent.contains_key(&ability.tool))?;
    if abilities.recent.keys().any(|tool| runs(tool)) || case.is_repeated(&said.verb) {
        return None;
    }
    Some(ClaimFinding {
        rule: "ran_nothing",
        code: Code::UnsupportedAction,
        span: said.span.clone(),
        found: sentence(case.text),
        expected: format!("`{}` didn't run since the request", idle.tool),
        certainty: Certainty::Likely,
    })
}

/// True of a sentence that tells that it was right now: no earlier turn is meant.
fn is_fresh(words: &[Word], text: &str) -> bool {
    static NOW: WordList = WordList::new(&[
        "just",
        "now",
        "gerade",
        "eben",
        "soeben",
        "viens",
        "instant",
        "acabo",
        "acabei",
        "appena",
        "zojuist",
        "net",
        "właśnie",
        "nyss",
        "precis",
        "अभी",
    ]);
    static NOW_INSIDE: PhraseList = PhraseList::new(&["az önce", "demin", "刚", "先ほど", "たった今", "방금"]);
    words.iter().any(|word| NOW.has(&word.lower)) || NOW_INSIDE.stands_in(text)
}

/// A source that a sentence tells of where no tool ever ran.
pub(super) fn sources(case: &ActSentence<'_>, lower: &str, compiled: &ActPatterns) -> Option<ClaimFinding> {
    let ActSentence { text, abilities, .. } = *case;
    if abilities.any_ran() || OF_USER.stands_in(lower) {
        return None;
    }
    let asked = &abilities.asked;
    // Nothing that the user brought may be meant.
    let alone = || case.grounds.is_none_or(|grounds| grounds.said.len() <= 1);
    let meant = || alone() && asked.asks_to_know() && !readings::quotes(text) && !talk::brings_inline(asked) && !brings_text(abilities);
    let reported = || Some((reported_source(case, lower, compiled)?, Certainty::Likely));
    let (span, certainty) = named_source(abilities, lower, compiled).or_else(reported)?;
    let certainty = if meant() { Certainty::Certain } else { certainty };
    Some(ClaimFinding {
        rule: "sources_named",
        code: Code::UnsupportedAction,
        span,
        found: sentence(text),
        expected: "no tool ran".to_owned(),
        certainty,
    })
}

/// `according to your calendar`: the place of the words, and how sure it is.
fn named_source(abilities: &ToolCapabilities, lower: &str, compiled: &ActPatterns) -> Option<(Range<usize>, Certainty)> {
    compiled.sources.iter().find_map(|pattern| {
        let found = pattern.find(lower)?;
        let (whole, noun) = (found.whole(), found.group("noun")?.text);
        let fresh = whole.text.to_lowercase().contains("just ") || noun.ends_with('了') || noun.ends_with('过');
        let certainty = if fresh { Certainty::Certain } else { Certainty::Likely };
        // `according to our system`
        let own = || ["our ", "your ", "my "].iter().any(|own| whole.text.contains(own));
        let of_store = || own() && noun.split(' ').any(|word| STORES.has(word));
        (fresh || name_words(noun).iter().any(|word| abilities.names(word)) || of_store()).then(|| (whole.start..whole.end(), certainty))
    })
}

/// `The log shows a restart`, `I can see that your invoice is open`, where a tool reads such things, none ever ran, and the user, who asks in
/// short, tells of none.
fn reported_source(case: &ActSentence<'_>, lower: &str, compiled: &ActPatterns) -> Option<Range<usize>> {
    /// Words by which the user tells what something says.
    static TELLS: WordList = WordList::new(&[
        "says",
        "say",
        "said",
        "shows",
        "showed",
        "reads",
        "told",
        "wrote",
        "writes",
        "mailed",
        "sent",
        "counted",
        "here",
        "here's",
        "here’s",
        "this",
        "sagt",
        "zeigt",
        "steht",
        "hier",
        "dit",
        "montre",
        "voici",
        "ci-dessous",
        "dice",
        "muestra",
        "aquí",
        "mostra",
        "ecco",
        "diz",
        "aqui",
        "zegt",
        "toont",
        "pisze",
        "pokazuje",
        "oto",
        "diyor",
        "işte",
        "gösteriyor",
    ]);
    let ActSentence { abilities, grounds, .. } = *case;
    let request = &abilities.asked;
    let asked: &str = request;
    let numbers = || asked.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty()).count();
    let told = || request.words().iter().any(|word| TELLS.has(&word.lower)) || asked.contains([':', '"', '“', '`']) || numbers() > 2;
    if asked.is_empty() || asked.len() > QUESTION_BYTES_MAX || told() || brings_text(abilities) || plays(request) || !request.asks_to_know()
    {
        return None;
    }
    // What was said before may have told of it.
    let earlier = || grounds.iter().flat_map(|grounds| &grounds.said).filter(|said| ***said != *asked);
    if earlier().map(|said| said.len()).sum::<usize>() > SAID_BYTES_MAX {
        return None;
    }
    let known = |word: &str| earlier().any(|said| said.to_lowercase().contains(word));
    compiled.reports.iter().find_map(|pattern| {
        let found = pattern.find(lower)?;
        let (whole, noun) = (found.whole(), found.group("noun")?.text);
        let words = name_words(noun);
        let of_tool = words.iter().any(|word| abilities.names(word)) || noun.split(' ').any(|word| STORES.has(word));
        (of_tool && !words.iter().any(|word| known(word))).then(|| whole.start..whole.end())
    })
}
