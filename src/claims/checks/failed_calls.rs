//! Failed calls and trials, as a sentence tells of them: as failed, in whatever words, or as something else. Pure.

use smol_str::SmolStr;

use crate::{
    checks::acts,
    context::{CheckContext, CitationScope},
    evidence::{
        EvidenceIndex, ToolResult,
        facts::{NamedValue, Scalar},
        failure,
    },
    language::{
        fold::{fold, name_words},
        lexicon::Word,
        polarity::failure_words,
        word_list::{PhraseList, WordList},
    },
};

/// Letters of a sentence in a script without blanks that says something.
pub(crate) const SPACELESS_CHARS: usize = 8;

/// Words of a sentence that tells of what was tried, could be or should be, in any language: it tells no success.
static ATTEMPTS: WordList = WordList::new(&[
    "tried",
    "try",
    "attempt",
    "attempted",
    "can",
    "could",
    "would",
    "should",
    "will",
    "may",
    "might",
    "want",
    "need",
    "needs",
    "please",
    "shall",
    "let",
    "i'll",
    "i’ll",
    "but",
    "however",
    "although",
    "only",
    "versucht",
    "versuch",
    "kann",
    "könnte",
    "soll",
    "sollte",
    "bitte",
    "möchte",
    "muss",
    "aber",
    "essayé",
    "tenté",
    "peux",
    "pouvez",
    "pourrait",
    "voulez",
    "faut",
    "mais",
    "intenté",
    "intento",
    "puedo",
    "puede",
    "puedes",
    "quiere",
    "quieres",
    "pero",
    "provato",
    "tentato",
    "posso",
    "può",
    "vuole",
    "vuoi",
    "deve",
    "ma",
    "tentei",
    "pode",
    "quer",
    "precisa",
    "mas",
    "geprobeerd",
    "kan",
    "wil",
    "moet",
    "maar",
    "próbowałem",
    "próbowałam",
    "mogę",
    "może",
    "ale",
    "denedim",
    "ister",
    "ama",
    "försökte",
    "kan",
    "vill",
    "men",
]);
static ATTEMPTS_INSIDE: PhraseList = PhraseList::new(&[
    "試み",
    "試し",
    "ください",
    "でしょう",
    "尝试",
    "试图",
    "可以",
    "需要",
    "请",
    "但",
    "कोशिश",
    "सकत",
    "लेकिन",
    "시도",
    "하지만",
]);

/// A call that does more than read failed, and the sentence tells something of it as a fact, with no word of a failure, of an attempt or
/// of what could be done.
pub(crate) fn is_bare_statement(scene: &CheckContext<'_>) -> bool {
    let folded = scene.plain.words.iter().filter(|word| word.lower.chars().count() > 1).count();
    let spaceless = scene.plain.letters_beyond_ascii() > SPACELESS_CHARS;
    // What is told in its first clause: `It is back again, and the old one will be removed`.
    let clause = first_clause(scene.text());
    let within = |word: &&Word| word.start < clause || scene.plain.words.iter().filter(|own| own.start < clause).count() < 4;
    let tries = scene.plain.words.iter().filter(within).any(|word| ATTEMPTS.has(&word.lower)) || ATTEMPTS_INSIDE.stands_in(scene.text());
    scene.bond == CitationScope::Cited
        && scene.sources.iter().all(|source| source.fails() && !source.reads())
        && (folded >= 4 || spaceless)
        && !tries
        && !scene.plain.asks()
}

/// End of the first clause of a sentence.
fn first_clause(text: &str) -> usize {
    let joins = [", ", "; ", " and ", " und ", " et ", " y ", " e ", " en ", " oraz ", " i ", " ve ", " och "];
    joins.iter().filter_map(|join| text.find(join)).min().unwrap_or(text.len())
}

/// Words by which a trial is told.
static TRIAL: PhraseList = PhraseList::new(&[
    "not ",
    "nothing",
    "n't",
    "n’t",
    "no change",
    "nicht",
    "pas ",
    "non ",
    "não",
    "niet",
    "nie ",
    "没",
    "未",
    "ない",
    "नहीं",
    "dry",
    "trial",
    "would",
    "simulat",
    "preview",
    "rehears",
    "pretend",
    "test",
    "probe",
    "würde",
    "vorschau",
    "serait",
    "simul",
    "essai",
    "sería",
    "prueba",
    "ensayo",
    "sarebbe",
    "prova",
    "seria",
    "ensaio",
    "zou",
    "proef",
    "próbn",
    "deneme",
    "テスト",
    "試",
    "模拟",
    "试",
]);

/// Does the passage tell of a trial?
pub(crate) fn tells_trial(scene: &CheckContext<'_>) -> bool {
    TRIAL.stands_in(scene.plain.lower())
}

/// Did the same call succeed later on? Then what is told of it is told of that.
pub(crate) fn was_retried(source: &ToolResult, grounds: &EvidenceIndex) -> bool {
    let own = grounds.results.iter().rposition(|other| std::ptr::eq(other, source));
    let later = grounds.results.iter().skip(own.map_or(usize::MAX, |own| own + 1));
    source.fails() && later.filter(|other| !other.fails()).any(|other| other.tool == source.tool && other.arguments == source.arguments)
}

/// Words and endings with which a failure is regretted or told, beside those of the checks of single results.
static REGRETS: PhraseList = PhraseList::new(&[
    "unknown",
    "no longer",
    "halfway",
    "half-way",
    "in part",
    "teilweise",
    "zum teil",
    "en partie",
    "partiel",
    "en parte",
    "parcial",
    "in parte",
    "parzial",
    "em parte",
    "gedeeltelijk",
    "deels",
    "częściowo",
    "kısmen",
    "部分",
    "一部",
    "आंशिक",
    "stopped",
    "interrupt",
    "incomplete",
    "partly",
    "partial",
    "❌",
    "warning",
    "warnung",
    "avertissement",
    "advertencia",
    "waarschuwing",
    "ostrze",
    "uyarı",
    "警告",
    "locked",
    "expired",
    "blocked",
    "unable",
    "offline",
    "didn",
    "wasn",
    "instead",
    "unfortunately",
    "afraid",
    "apolog",
    "stuck",
    "conflict",
    "taken",
    "occupied",
    "too ",
    "queue",
    "pending",
    "waiting",
    "maalesef",
    "ne yazık",
    "amadı",
    "emedi",
    "ılmadı",
    "ilmedi",
    "mamış",
    "memiş",
    "olmadı",
    "yok",
    "değil",
    "infelizmente",
    "lamento",
    "negad",
    "recusad",
    "helaas",
    "niestety",
    "błąd",
    "purtroppo",
    "tyvärr",
    "désol",
    "hélas",
    "impossible",
    "lo siento",
    "entschuldig",
    "gesperrt",
    "belegt",
    "besetzt",
    "ungültig",
    "abgelaufen",
    "ожид",
    "残念",
    "申し訳",
    "できま",
    "エラー",
    "抱歉",
    "无法",
    "超时",
    "क्षमा",
    "माफ़",
    "खेद",
    "죄송",
    "못",
    "않",
    "없",
    "오류",
    "실패",
]);

/// `Two of three files are there now`: fewer than there are.
pub(crate) fn tells_part(scene: &CheckContext<'_>) -> bool {
    let number = |word: &Word| word.lower.parse::<u64>().ok().or_else(|| scene.lexicon.count(&word.lower));
    scene.plain.words.windows(3).any(|three| match three {
        [one, of, all] if scene.lexicon.parts.contains(&of.lower) && of.lower != "to" => {
            number(one).zip(number(all)).is_some_and(|(one, all)| one < all)
        }
        _ => false,
    })
}

/// Does it tell of a failure by one of these?
pub(crate) fn regrets(scene: &CheckContext<'_>) -> bool {
    REGRETS.stands_in(scene.plain.lower())
}

/// Does it repeat a word of the error that neither the call nor the request has? Then it tells of the error.
pub(crate) fn echoes(scene: &CheckContext<'_>) -> bool {
    let asked = scene.grounds.asked.folded();
    // The status of an error: `it answered with a 503`.
    let mut codes = scene.sources.iter().filter_map(|source| source.text.split(|c: char| !c.is_ascii_digit()).find(|code| code.len() == 3));
    if codes.any(|code| scene.plain.words.iter().any(|word| word.lower == code)) {
        return true;
    }
    let stem = |word: &str| fold(word).chars().take(6).collect::<String>();
    let long = |word: &&Word| word.lower.chars().count() >= 5;
    let stems: Vec<String> = scene.plain.words.iter().filter(long).map(|word| stem(&word.lower)).collect();
    scene.sources.iter().any(|source| {
        let errors = errors_of(source);
        let tool = fold(&source.tool.replace('_', " "));
        let named = |stem: &String| tool.contains(stem) || source.folded_arguments().contains(stem) || asked.contains(stem);
        !errors.is_empty() && stems.iter().any(|stem| errors.iter().any(|error| error.contains(stem)) && !named(stem))
    })
}

/// Does it repeat of an error that what was to be used has come to an end, or is no longer to be had?
pub(crate) fn echoes_end(scene: &CheckContext<'_>) -> bool {
    static ENDS: WordList = WordList::new(&[
        "expired",
        "closed",
        "full",
        "sold",
        "taken",
        "locked",
        "disabled",
        "suspended",
        "exhausted",
        "archived",
        "frozen",
        "inactive",
    ]);
    // `Redeemed just before it expired`, `the name is taken: it's yours now`
    static BESIDE: PhraseList = PhraseList::new(&["before ", " just ", " now", "yours", " through", ": ", ";"]);
    if BESIDE.stands_in(scene.plain.lower()) {
        return false;
    }
    let words = || scene.plain.words.iter().map(|word| &word.lower);
    // `Loan 5, which had expired, was extended`: the act itself is told too.
    let acted = |source: &ToolResult| {
        let verb = name_words(&source.tool).into_iter().next().unwrap_or_default();
        words().any(|word| acts::speech::verb_forms::is_form_of(word, &verb))
    };
    let ends: Vec<&str> = words().map(SmolStr::as_str).filter(|word| ENDS.has(word)).collect();
    let ended = |source: &ToolResult| !ends.is_empty() && errors_of(source).iter().any(|error| ends.iter().any(|end| error.contains(end)));
    scene.sources.iter().any(|source| ended(source) && !acted(source))
}

/// What a result says of why it failed, folded.
fn errors_of(source: &ToolResult) -> Vec<String> {
    let reasons = source.facts().leaves.iter().filter(|leaf| REASONS.has(&leaf.key) || failure::names_error_in_other_words(&leaf.key));
    let told = |leaf: &NamedValue| if let Scalar::Text(text) = &leaf.value { Some(fold(text)) } else { None };
    let mut errors: Vec<String> = reasons.filter_map(told).collect();
    if !source.facts().json && source.text.len() <= ERROR_BYTES_MAX {
        let lines = source.text.lines().filter(|line| failure_words::text_tells_failure(line) || line.len() == source.text.len());
        errors.extend(lines.map(|line| fold(&bare(line))));
    }
    errors
}

/// A line without what stands in angle brackets.
fn bare(line: &str) -> String {
    line.split('<').map(|part| part.rsplit('>').next().unwrap_or_default()).collect::<Vec<_>>().join(" ")
}

/// Members of a result that say why it failed, in English.
static REASONS: WordList =
    WordList::new(&["error", "message", "reason", "detail", "details", "description", "note", "hint", "errormessage", "cause"]);
/// Bytes of an error's text.
const ERROR_BYTES_MAX: usize = 240;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        language::lexicon::{self, words},
        passage::Kind,
        plain::AnalyzedPassage,
    };

    #[test]
    fn an_error_is_told_by_its_state() {
        let result = r#"{"ok":false,"error":"expired","expired_on":"2026-02-28"}"#;
        let grounds = EvidenceIndex::new(vec![ToolResult::new("apply_coupon", "{}", result)], Vec::new(), "".into());
        for (text, told) in [
            ("The coupon expired on 28 February.", true),
            ("The coupon is on the order now.", false),
            ("Applied the coupon, which expired today.", false),
            ("The coupon is redeemed: it expired yesterday.", false),
        ] {
            let plain = AnalyzedPassage::of(text);
            let lexicon = lexicon::language(&words(text), None);
            let sources = grounds.results.iter().collect();
            let scene = CheckContext::new(&plain, Kind::Sentence, lexicon, sources, CitationScope::Cited, &grounds);
            assert_eq!(echoes_end(&scene), told, "{text}");
        }
    }
}
