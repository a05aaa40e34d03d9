//! Absence of all that the call asked for, told where the result has some. Pure.

use crate::{
    checks::account::{
        counted::most,
        named_records::named,
        sentence::{LEAVES_OF, whole},
    },
    context::{CheckContext, CitationScope, ClaimFinding, NounPhrase},
    evidence::{
        ToolResult, derive,
        facts::{NamedValue, Scalar},
    },
    language::{
        fold::{akin, fold, folded, name_words, stands_in},
        lexicon::Word,
        number,
        polarity::negation::is_nothing,
        word_list::{PhraseList, WordList},
    },
    passage::Kind,
};
use toolmark_base::violation::{Certainty, Code};

/// Words that tell of an absence in so many words; those that deny something else too are not among them.
static ABSENT: WordList = WordList::new(&[
    "no",
    "none",
    "nothing",
    "empty",
    "zero",
    "any",
    "kein",
    "keine",
    "keinen",
    "keinerlei",
    "nichts",
    "leer",
    "aucun",
    "aucune",
    "rien",
    "vide",
    "ningun",
    "ninguna",
    "ningunos",
    "nada",
    "vacio",
    "vacia",
    "nessun",
    "nessuno",
    "nessuna",
    "niente",
    "vuoto",
    "vuota",
    "nenhum",
    "nenhuma",
    "vazio",
    "vazia",
    "geen",
    "niets",
    "leeg",
    "brak",
    "zadnych",
    "hic",
    "yok",
    "bos",
]);

static ABSENT_INSIDE: PhraseList = PhraseList::new(&["没有", "沒有", "无", "無", "ありません", "なし", "ない", "नहीं"]);

/// "You have no appointments" where the result has three: nothing in the sentence narrows what the call asked for.
pub(super) fn denied(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
    let [source] = scene.sources.as_slice() else { return None };
    let facts = source.facts();
    if scene.bond != CitationScope::Cited
        || source.fails()
        || scene.text().len() > 240
        || scene.text().contains([':']) && scene.kind == Kind::Line
    {
        return None;
    }
    let spaceless = scene.text().chars().any(|c| matches!(c, '\u{3040}'..='\u{9fff}' | '\u{0900}'..='\u{097f}'));
    let absent = match spaceless {
        true => ABSENT_INSIDE.stands_in(scene.text()),
        false => scene.plain.words.iter().any(|word| ABSENT.has(&folded(&word.lower))),
    };
    if !absent {
        return None;
    }
    let something = if facts.is_structured() {
        let least = facts.lists.iter().map(|list| list.depth).min();
        let tops: Vec<_> = facts.lists.iter().filter(|list| Some(list.depth) == least).collect();
        let zero = facts.leaves.iter().any(|leaf| leaf.record == 0 && leaf.value.number() == Some(0.0) && derive::is_count(&leaf.key));
        !tops.is_empty() && tops.iter().all(|list| list.length > 0) && !zero
    } else {
        facts.lines > 1
    };
    if !something
        || !scene.plain.numbers().iter().all(|number| {
            number.whole() == Some(0)
                || scene.grounds.said_numbers_have(number.readings().next().map_or(0.0, |reading| reading.value))
                || scene.has_number(number, number::Precision::Exact)
        })
    {
        return None;
    }
    let about = if spaceless { is_about_question(scene) } else { is_about_call(scene, source) };
    // `5D の工単`, `no V-12`: a name that the result doesn't have.
    let foreign = |own: &str| {
        own.bytes().any(|byte| byte.is_ascii_digit())
            && own.bytes().any(|byte| byte.is_ascii_alphabetic())
            && ![source.folded(), source.folded_arguments()].iter().any(|text| text.contains(own))
    };
    let runs = |word: &Word| word.folded().split(|c: char| !c.is_ascii_alphanumeric()).any(foreign);
    if scene.plain.words.iter().any(runs) {
        return None;
    }
    // Asked last: it reads the whole result for it.
    if !about || source.says_none() || names_blank_record(scene, source) {
        return None;
    }
    let expected = format!("the result has {}", most(source));
    Some(whole(scene, "denied", Code::FalseAbsence, &expected, if spaceless { Certainty::Likely } else { Certainty::Certain }))
}

/// Does the passage name a record that has nothing somewhere: `Ben has no mark` of one whose mark is `null`?
fn names_blank_record(scene: &CheckContext<'_>, source: &ToolResult) -> bool {
    let facts = source.facts();
    let blank = |leaf: &NamedValue| match &leaf.value {
        Scalar::Null | Scalar::Flag(false) => true,
        Scalar::Text(text) => text.trim().is_empty() || is_nothing(&fold(text)),
        Scalar::Number(number) => *number == 0.0,
        Scalar::Flag(true) => false,
    };
    let empty = facts.lists.iter().any(|list| list.length == 0);
    named(scene.plain.folded(), scene.text(), facts)
        .iter()
        .any(|own| empty || facts.leaves.iter().any(|leaf| facts.lies_in(leaf.record, own.record) && blank(leaf)))
}

/// Is every word of the passage one of the call, its tool, its lists, of looking or of nothing in particular?
fn is_about_call(scene: &CheckContext<'_>, source: &ToolResult) -> bool {
    let facts = source.facts();
    let lexicon = scene.lexicon;
    let about: Vec<String> = name_words(&source.tool).into_iter().chain(name_words(&source.arguments)).collect();
    let definition = scene.grounds.definition_of(&source.tool);
    let described: Vec<String> = name_words(definition);
    let said_arguments = source.folded_arguments();
    const PLAIN: &[&str] = &[
        "a",
        "an",
        "the",
        "of",
        "in",
        "on",
        "at",
        "to",
        "for",
        "from",
        "with",
        "by",
        "and",
        "or",
        "is",
        "are",
        "was",
        "were",
        "be",
        "been",
        "have",
        "has",
        "had",
        "do",
        "does",
        "did",
        "i",
        "you",
        "your",
        "my",
        "our",
        "it",
        "its",
        "there",
        "here",
        "that",
        "this",
        "these",
        "those",
        "any",
        "no",
        "none",
        "nothing",
        "not",
        "dont",
        "doesnt",
        "didnt",
        "couldnt",
        "could",
        "cannot",
        "find",
        "found",
        "see",
        "searched",
        "checked",
        "looked",
        "search",
        "came",
        "up",
        "back",
        "turned",
        "gave",
        "returned",
        "returns",
        "shows",
        "show",
        "hits",
        "results",
        "result",
        "matches",
        "match",
        "records",
        "record",
        "entries",
        "entry",
        "data",
        "empty",
        "completely",
        "currently",
        "right",
        "now",
        "moment",
        "all",
        "quiet",
        "zero",
        "scheduled",
        "planned",
        "booked",
        "registered",
        "listed",
        "recorded",
        "stored",
        "detected",
        "connected",
        "linked",
        "set",
        "available",
        "whatsoever",
        "single",
        "yet",
        "unfortunately",
        "week",
        "day",
        "today",
        "time",
        "period",
        "route",
        "about",
        "under",
        "using",
        "via",
        "me",
        "so",
        "also",
        "system",
        "database",
        "account",
        "list",
        "exist",
        "exists",
        "offers",
        "offer",
        "within",
        "as",
        "per",
        "every",
        "query",
        "rows",
        "web",
    ];
    scene.plain.words.iter().all(|word| {
        let folded = fold(&word.lower);
        let end = folded.rsplit(' ').next().unwrap_or_default().to_owned();
        let lower = word.lower.as_str();
        let plain = PLAIN.contains(&folded.as_str()) || ABSENT.has(&folded) || lower.ends_with("n't") || lower.ends_with("n’t");
        let common = lexicon.common.contains(lower)
            || lexicon.scope.contains(lower)
            || lexicon.found.contains(lower)
            || lexicon.generic.contains(lower)
            || lexicon.pronouns.contains(lower);
        let of_call = || {
            about.iter().any(|own| akin(own, &end))
                || stands_in(said_arguments, &folded)
                || described.iter().any(|own| akin(own, &end) && own.chars().count() > 3)
        };
        let of_list = || {
            let said = NounPhrase::new(lower, lexicon);
            said.names(source.nouns()) || facts.lists.iter().any(|list| said.names(&list.words))
        };
        // A word that narrows is decided by the result where one of its values says that there is such a thing.
        let decided = || {
            facts.leaves.iter().take(LEAVES_OF).any(|leaf| match &leaf.value {
                Scalar::Text(text) => akin(&fold(text), &end),
                _ => false,
            })
        };
        let counted = || {
            scene.plain.numbers().iter().any(|number| {
                number.end <= word.start && word.start <= number.end + 1 && scene.has_number(number, number::Precision::Exact)
            })
        };
        static OTHER: WordList = WordList::new(&[
            "es",
            "sind",
            "ist",
            "gibt",
            "gab",
            "wurden",
            "wurde",
            "ich",
            "habe",
            "mit",
            "deinem",
            "deiner",
            "deinen",
            "dein",
            "deine",
            "ihrem",
            "ihrer",
            "ihr",
            "konto",
            "verbunden",
            "gefunden",
            "hinterlegt",
            "eingetragen",
            "vorhanden",
            "im",
            "in",
            "am",
            "der",
            "die",
            "das",
            "dem",
            "den",
            "für",
            "zu",
            "zum",
            "zur",
            "diese",
            "dieser",
            "diesem",
            "keine",
            "kein",
            "da",
            "aucun",
            "n'est",
            "nest",
            "n'a",
            "na",
            "pas",
            "il",
            "n'y",
            "ny",
            "y",
            "a",
            "été",
            "ete",
            "enregistré",
            "enregistre",
            "trouvé",
            "trouve",
            "pour",
            "ce",
            "cette",
            "ces",
            "dans",
            "votre",
            "ton",
            "ta",
            "le",
            "la",
            "les",
            "de",
            "des",
            "du",
            "je",
            "j'ai",
            "jai",
            "que",
            "est",
            "sont",
            "sur",
            "aucune",
            "no",
            "he",
            "se",
            "ha",
            "han",
            "encontrado",
            "encontró",
            "encontro",
            "hay",
            "ningún",
            "ningun",
            "ninguna",
            "con",
            "en",
            "el",
            "los",
            "las",
            "tu",
            "su",
            "tienes",
            "tiene",
            "para",
            "este",
            "esta",
            "un",
            "una",
            "del",
            "al",
            "registrado",
            "ni",
            "encontraron",
            "non",
            "ho",
            "hai",
            "trovato",
            "trovata",
            "trovati",
            "ci",
            "nessun",
            "nessuna",
            "nel",
            "nella",
            "per",
            "questo",
            "questa",
            "tuo",
            "tua",
            "il",
            "lo",
            "gli",
            "sono",
            "stati",
            "stato",
            "não",
            "nao",
            "há",
            "ha",
            "encontrei",
            "nenhum",
            "nenhuma",
            "seu",
            "sua",
            "na",
            "foram",
            "encontrados",
            "geen",
            "zijn",
            "er",
            "gevonden",
            "het",
            "een",
            "je",
            "uw",
            "voor",
            "van",
            "met",
            "op",
            "heb",
            "ik",
            "werden",
        ]);
        // In other languages the question has the words that the tool has in English; what narrows is left alone.
        static NARROW: WordList = WordList::new(&[
            "offen",
            "offene",
            "offenen",
            "überfällig",
            "überfällige",
            "ausstehend",
            "aktiv",
            "aktive",
            "neue",
            "neuen",
            "dringend",
            "ouvert",
            "ouverts",
            "fermé",
            "fermés",
            "actif",
            "urgent",
            "nouveau",
            "abierto",
            "abiertos",
            "cerrado",
            "pendiente",
            "pendientes",
            "activo",
            "urgente",
            "nuevo",
            "aperto",
            "aperti",
            "chiuso",
            "attivo",
            "aberto",
            "abertos",
            "open",
            "nuevos",
        ]);
        let foreign = || {
            scene.lexicon.language != "en" && {
                let asked = scene.grounds.asked.name_words();
                OTHER.has(lower)
                    || OTHER.has(&folded)
                    || end.chars().count() > 3 && !NARROW.has(lower) && asked.iter().any(|own| akin(own, &end))
            }
        };
        plain
            || common
            || counted()
            || foreign()
            || folded.chars().count() < 2
            || folded.bytes().all(|byte| byte.is_ascii_digit())
            || of_call()
            || of_list()
            || decided()
    })
}

/// Is every character of the passage one of the question, or of saying that nothing was found? For scripts without blanks.
fn is_about_question(scene: &CheckContext<'_>) -> bool {
    const PLAIN: &str = "没有沒無无任何的了找到发现查询结果记录相关目前现在您你我该这个中在里显示返回是为何も件のはがをに見つかりませんでしたありなしないनहींमिलाहैकोईभीकेबारेमेंइसआपकोकीका";
    let arguments = &scene.grounds.results.iter().map(|source| &*source.arguments).collect::<String>();
    let known = |c: char| PLAIN.contains(c) || scene.grounds.asked.contains(c) || arguments.contains(c);
    scene.text().chars().filter(|c| c.is_alphanumeric()).all(known)
}
