//! Excuses, for which the act that a sentence reports is none: conditions, questions, work on words, what others did. Pure.

use crate::{
    checks::acts::{
        act_sentence::ActSentence,
        orders,
        readings::{EMPTY_WORDS, HERE, HERE_PHRASES, brings_text, edits_files, is_about_tool, is_text_work, sends_message, tell_of_tool},
        speech::{
            Speech,
            reported::{ActForm, ReportedAct, clause},
            verb_forms::STEM,
        },
    },
    evidence::tool_capabilities::{Effect, ToolCapabilities},
    language::{
        date,
        fold::{akin, fold},
        lexicon::Word,
        polarity::negation,
        word_list::{PhraseList, WordList},
    },
};

/// Words by which a whole sentence tells of what would be.
pub(super) static CONDITIONS: WordList = WordList::new(&[
    "if",
    "would",
    "when",
    "once",
    "unless",
    "whenever",
    "wenn",
    "falls",
    "würde",
    "sobald",
    "si",
    "quand",
    "lorsque",
    "cuando",
    "sería",
    "se",
    "quando",
    "als",
    "zodra",
    "zou",
    "jeśli",
    "gdy",
    "eğer",
    "could",
    "i'd",
    "i’d",
    "you'd",
    "as soon as",
    "könnte",
    "suppose",
]);

/// Does the sentence tell of what would be, rather than of what is?
pub(super) fn is_conditional(words: &[Word], said: &ReportedAct) -> bool {
    // `en cuanto la tenga`
    const PAIRS: &[(&str, &str)] = &[
        ("en", "cuanto"),
        ("assim", "que"),
        ("dès", "que"),
        ("zodra", "als"),
        ("non", "appena"),
        ("une", "fois"),
        ("una", "vez"),
        ("una", "volta"),
        ("uma", "vez"),
    ];
    let before = |word: &Word| word.start < said.span.start;
    // `se han cancelado`, `si è aggiunto`: reflexive there.
    let code = said.speech.code.as_str();
    let reflexive = |word: &Word| matches!((word.lower.as_str(), code), ("se", "es" | "fr") | ("si", "it"));
    words.iter().any(|word| before(word) && CONDITIONS.has(&word.lower) && !reflexive(word))
        || words
            .windows(2)
            .any(|two| matches!(two, [one, other] if before(other) && PAIRS.contains(&(one.lower.as_str(), other.lower.as_str()))))
}

/// `find out which rooms the party is blocked into`: a question within the sentence, or what it is asked about.
pub(super) fn is_indirect(text: &str, words: &[Word], said: &ReportedAct) -> bool {
    static ASKS: WordList = WordList::new(&[
        "which", "what", "whether", "where", "why", "how", "who", "until", "ob", "welche", "welcher", "welches", "was", "wer", "wie",
        "quel", "quelle", "quels", "quelles", "comment", "où", "qué", "cuál", "cuáles", "quale", "quali", "qual", "quais", "welk", "welke",
        "wat", "hoe", "czy", "który",
    ]);
    // `The badge was revoked`: no question of German's there. Elsewhere a past passive of English mostly tells what somebody else did.
    let foreign = |word: &Word| word.lower == "was" && said.form == ActForm::Ordered && said.speech.code != "de";
    let clause = clause(text, said.span.clone());
    let before = |word: &&Word| word.start >= clause.start && word.end <= said.span.start;
    // `ti mostro chi ho trovato`
    let just = words.iter().rev().find(|word| word.end <= said.span.start);
    said.form != ActForm::First && words.iter().filter(before).any(|word| ASKS.has(&word.lower) && !foreign(word))
        || just.is_some_and(|word| {
            !foreign(word) && matches!(word.lower.as_str(), "chi" | "cosa" | "quién" | "quem" | "what" | "whatever" | "was")
        })
}

/// `The record notes that we bought it in 1898`: a document tells of it.
pub(super) fn is_of_document(words: &[Word], said: &ReportedAct) -> bool {
    static REPORTS: WordList = WordList::new(&["notes", "says", "states", "shows", "mentions", "records", "reads", "tells", "adds"]);
    let before = words.iter().take_while(|word| word.end <= said.span.end);
    let before: Vec<&str> = before.map(|word| word.lower.as_str()).collect();
    said.speech.code == "en" && before.windows(2).any(|two| REPORTS.has(two[0]) && two[1] == "that")
}

/// Phrases of what is done in thought alone.
pub(super) static IN_MIND: PhraseList = PhraseList::in_any_case(&[
    "in my head",
    "im kopf",
    "de tête",
    "mentalmente",
    "de cabeza",
    "a mente",
    "de cabeça",
    "uit het hoofd",
    "w głowie",
    "w pamięci",
    "kafamda",
    "kafadan",
    "頭の中",
    "暗算",
    "脑子里",
    "心算",
    "मन में",
]);

/// Phrases of who takes back what it said: `I claimed something I never did`.
pub(super) static NEVER: PhraseList = PhraseList::in_any_case(&[
    "i never",
    "never did",
    "nie getan",
    "nie gemacht",
    "jamais fait",
    "nunca hice",
    "nunca fiz",
    "mai fatto",
    "nooit gedaan",
    "nigdy nie",
]);

/// Words behind a verb among which its object is looked for.
pub(super) const OBJECT_WORDS: usize = 5;

/// True of what is done to a thing that a tool that acts deals with: `a weekly reminder`, where one makes reminders.
pub(super) fn names_tools_thing(words: &[Word], said: &ReportedAct, abilities: &ToolCapabilities) -> bool {
    tell_of_tool(words.iter().filter(|word| word.start >= said.span.end).take(OBJECT_WORDS), abilities)
}

/// True of a sentence with a word of the request that names a thing: the camera that is to be switched off.
pub(super) fn is_about_order(words: &[Word], abilities: &ToolCapabilities) -> bool {
    let tells = |word: &str| word.chars().count() >= STEM && !EMPTY_WORDS.has(word);
    let own: Vec<String> = words.iter().map(|word| fold(&word.lower)).filter(|word| tells(word)).collect();
    abilities.asked.name_words().iter().filter(|word| tells(word)).any(|word| own.iter().any(|own| akin(own, word)))
}

/// True of a sentence that tells what somebody else did, or what was done on a day of the results, in a script whose languages leave the
/// subject out. So is told of what was looked up for somebody who only asks to know.
pub(super) fn is_told_of_others(case: &ActSentence<'_>, said: &ReportedAct) -> bool {
    // The assistant did it itself, or for the user.
    static SELF: PhraseList = PhraseList::new(&[
        "我",
        "为您",
        "帮您",
        "给您",
        "替您",
        "为你",
        "帮你",
        "给你",
        "替你",
        "私",
        "当方",
        "弊社",
        "こちらで",
        "おきました",
        "差し上げ",
        "いたしました",
        "させていただ",
        "제가",
        "저희",
        "드렸습니다",
        "놓았습니다",
        "두었습니다",
        "मैंने",
        "हमने",
        "मैं ",
    ]);
    static OTHERS: PhraseList = PhraseList::new(&[
        "由",
        "商店",
        "商家",
        "卖家",
        "店家",
        "对方",
        "公司",
        "他",
        "她",
        "于周",
        "于星期",
        "さんが",
        "様が",
        "氏が",
        "店が",
        "社が",
        "側が",
        "月曜",
        "火曜",
        "水曜",
        "木曜",
        "金曜",
        "土曜",
        "日曜",
        "회사가",
        "회사는",
        "판매자가",
        "님이",
        "요일에",
        "कंपनी ने",
        "दुकान ने",
    ]);
    let Some(grounds) = case.grounds else { return false };
    // Chinese clauses stand by themselves; in the others the verb at the end closes all before it.
    let own = if said.speech.code == "zh" { case.text.get(clause(case.text, said.span.clone())).unwrap_or_default() } else { case.text };
    let dates = date::dates(own).dates;
    let stand = dates.iter().all(|date| grounds.has_date(date));
    // A figure or a name of the results, so that it is told of them.
    let latin = own.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| word.len() >= ANCHOR_BYTES_MIN);
    let anchored = || latin.map(str::to_ascii_lowercase).any(|word| grounds.results.iter().any(|source| source.folded().contains(&word)));
    !SELF.stands_in(own) && stand && (!dates.is_empty() || OTHERS.stands_in(own) && anchored())
}

/// Bytes of a name or a figure that stands in a result.
const ANCHOR_BYTES_MIN: usize = 2;

/// True of a sentence behind or before what the answer shows: a text, a list, a table, code. What was done to that was done by writing it.
pub(super) fn is_of_what_is_shown(case: &ActSentence<'_>) -> bool {
    case.before.shows || case.text.trim_end().ends_with([':', '：'])
}

/// True of words with a year among them: `it was discontinued in 2023`.
pub(super) fn tells_of_year(words: &[Word]) -> bool {
    words.iter().any(|word| {
        let digits = word.lower.get(..4).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
        digits.is_some_and(|digits| digits.starts_with("19") || digits.starts_with("20"))
            && !word.lower.get(4..).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    })
}

/// True if several say to have done it: as in a letter.
pub(super) fn says_we(words: &[Word], said: &ReportedAct) -> bool {
    static WE: WordList = WordList::new(&["we", "we've", "we’ve", "wir", "nous", "hemos", "abbiamo", "temos", "wij"]);
    words.iter().take_while(|word| word.start < said.span.end).any(|word| WE.has(&word.lower))
}

/// Does a word of the sentence deny something?
pub(super) fn denies(words: &[Word]) -> bool {
    words.iter().any(|word| negation::is_nothing(&word.lower) || word.lower.ends_with("n't") || word.lower.ends_with("n’t"))
}

/// Does the tool's name say that it runs something?
pub(super) fn is_run(words: &[String]) -> bool {
    words.first().is_some_and(|first| matches!(first.as_str(), "run" | "execute" | "perform" | "start"))
}

/// Words by which something is told as so before the request.
pub(super) static ALREADY: WordList =
    WordList::new(&["already", "bereits", "schon", "déjà", "già", "reeds", "al", "już", "zaten", "redan", "still", "previously", "before"]);

/// Words by which something was done before the request.
pub(super) static EARLIER: WordList = WordList::new(&[
    "already",
    "earlier",
    "previously",
    "bereits",
    "schon",
    "vorhin",
    "déjà",
    "già",
    "reeds",
    "daarnet",
    "eerder",
    "już",
    "wcześniej",
    "zaten",
    "redan",
]);

/// Verbs whose participles tell how a thing is.
pub(super) static AS_IT_IS: WordList =
    WordList::new(&["closed", "locked", "blocked", "enabled", "disabled", "published", "registered", "installed", "posted"]);

/// Verbs of making and changing something.
const CHANGES: [&str; 19] = [
    "created",
    "generated",
    "produced",
    "updated",
    "revised",
    "edited",
    "fixed",
    "changed",
    "replaced",
    "adjusted",
    "removed",
    "dropped",
    "added",
    "filled",
    "moved",
    "switched",
    "marked",
    "put",
    "built",
];

/// Verbs of making and changing that are said of an answer's own words too, but hardly where a thing was read that was to be changed.
pub(super) fn is_made_or_changed(said: &ReportedAct) -> bool {
    CHANGES.contains(&said.verb.as_str())
        || [
            "reverted",
            "raised",
            "lowered",
            "simplified",
            "refactored",
            "done",
            "performed",
            "carried out",
            "executed",
            "initiated",
            "triggered",
            "kicked off",
            "renamed",
            "rewired",
            "patched",
            "corrected",
            "reduced",
            "increased",
            "extended",
            "shortened",
            "paused",
            "resumed",
            "dimmed",
        ]
        .contains(&said.verb.as_str())
}

/// Verbs that are said of how an answer was come by: `I went by the list price`.
pub(super) fn is_vague(words: &[Word], said: &ReportedAct) -> bool {
    let next = words.iter().find(|word| word.start >= said.span.end).map(|word| word.lower.as_str());
    // `I left a comment on #4101`
    if said.verb == "left" && matches!(next, Some("a" | "an" | "your")) {
        return false;
    }
    CHANGES.contains(&said.verb.as_str())
        || [
            "kept",
            "worked",
            "went",
            "took",
            "taken",
            "held",
            "stuck",
            "got",
            "treated",
            "started",
            "ended",
            "stayed",
            "left",
            "gone",
            "ran",
            "run",
            "gave",
            "given",
            "cut",
            "brought",
            "made",
            "tallied",
            "weighed",
            "split",
            "added up",
            "aimed",
            "tied",
            "matched",
            "ranked",
            "ordered",
            "checked",
            "stated",
            "named",
            "called",
            "expanded",
            "explored",
            "detailed",
            "covered",
            "reached",
            "arrived",
            "turned",
            "based",
            "crafted",
            "prepared",
            "organised",
            "organized",
            "improved",
            "refined",
        ]
        .contains(&said.verb.as_str())
}

/// `The version is 3.0, published in March`: a sentence with a verb of its own says more.
pub(super) fn has_finite(words: &[Word], said: &ReportedAct) -> bool {
    const FINITE: &[&str] = &[
        "is",
        "are",
        "was",
        "were",
        "has",
        "have",
        "had",
        "be",
        "been",
        "it's",
        "it’s",
        "that's",
        "i",
        "we",
        "they",
        "he",
        "she",
        "which",
        "who",
        "that",
        "can",
        "will",
        "last",
        "first",
        "es",
        "está",
        "fue",
        "ha",
        "ist",
        "sind",
        "war",
        "waren",
        "wurde",
        "wurden",
        "wird",
        "hat",
        "haben",
        "bedeutet",
        "heißt",
        "ich",
        "wir",
        "oder",
        "est",
        "sont",
        "était",
        "ont",
        "je",
        "c'est",
        "c’est",
        "signifie",
        "ou",
        "son",
        "era",
        "eran",
        "han",
        "significa",
        "è",
        "sono",
        "hanno",
        "é",
        "são",
        "foi",
        "foram",
        "tem",
        "zijn",
        "werd",
        "werden",
        "heeft",
        "betekent",
        "jest",
        "są",
        "był",
        "była",
        "było",
        "oznacza",
        "lub",
    ];
    words.iter().any(|word| word.end <= said.span.start && FINITE.contains(&word.lower.as_str()))
}

/// Did the user ask for a text, in which the act may be told?
pub(super) fn is_written(case: &ActSentence<'_>, speech: &Speech) -> bool {
    case.abilities.asked.name_words().iter().any(|word| speech.writes.contains(word) && !case.abilities.names(word))
        || is_text_work(case, speech)
}

/// What files consist of, too.
static OF_FILES: WordList = WordList::new(&[
    "line", "lines", "function", "query", "regex", "script", "section", "version", "row", "rows", "column", "columns", "zeile", "ligne",
    "línea", "riga", "linha", "regel",
]);

/// Is it done to words: to the user's text, to a value as the answer takes it?
pub(super) fn is_of_language(case: &ActSentence<'_>, said: &ReportedAct) -> bool {
    let (speech, abilities) = (said.speech, case.abilities);
    let clause = clause(case.text, said.span.clone());
    // `I've passed your case on with a note`: the note isn't what was passed on.
    let beside = |word: &&Word| word.lower == "with" && word.start >= said.span.end;
    let end = case.words.iter().find(beside).map_or(clause.end, |word| word.start.min(clause.end));
    let mut near = case.words.iter().filter(|word| word.start >= clause.start && word.end <= end);
    let brought = || brings_text(abilities);
    let asked = || abilities.asked.name_words().iter().any(|word| speech.writes.contains(word));
    // `I've changed the first line` of a file that a tool could have changed.
    let files =
        || abilities.asked.asks_for_act() && abilities.tools.iter().any(|ability| ability.effect() == Effect::Acts && edits_files(ability));
    let text = |word: &Word| speech.texts.contains(&word.lower) && !abilities.names(&word.lower) && !(OF_FILES.has(&word.lower) && files());
    let as_if = !said.is_strong();
    let here = || !is_about_tool(abilities) && (case.words.iter().any(|word| HERE.has(&word.lower)) || HERE_PHRASES.stands_in(case.text));
    // `I pulled July as well`
    let well = |word: &Word| case.text.get(word.end..).is_some_and(|rest| rest.trim_start().to_ascii_lowercase().starts_with("well"));
    let takes = |word: &Word| as_if && word.start >= said.span.end && speech.as_if.contains(&word.lower) && !well(word);
    let asked = || (asked() || is_text_work(case, speech) && !is_about_tool(abilities)) && !is_message(case, said);
    near.any(|word| text(word) || takes(word)) || brought() || here() || asked()
}

/// Does it tell that somebody else was written to, as the user asked, and is it no draft of what would be sent?
pub(super) fn is_message(case: &ActSentence<'_>, said: &ReportedAct) -> bool {
    const TOLD: [&str; 11] =
        ["inform", "benachricht", "verständig", "préven", "avert", "notif", "avis", "avvis", "avvert", "ingelicht", "powiadom"];
    let told = || TOLD.iter().any(|verb| said.verb.starts_with(verb));
    let tells = said.is_strong() || said.is_harmless() || said.form == ActForm::State || told();
    tells && sends_message(case.abilities) && !orders::is_draft(case.text)
}

/// `I told Paula`, `I've asked the landlord`: said to somebody else than the user, it is an act.
pub(super) fn tells_others(words: &[Word], said: &ReportedAct, speech: &Speech) -> bool {
    let tells = ["told", "asked", "informed", "contacted", "called", "messaged", "written to", "replied to", "wrote to"];
    if !tells.iter().any(|tell| said.verb == *tell) {
        return false;
    }
    words.iter().find(|word| word.start >= said.span.end).is_some_and(|next| !speech.you.contains(&next.lower))
}
