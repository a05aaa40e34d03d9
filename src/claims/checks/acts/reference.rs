//! A number of a booking, a ticket or a receipt that nobody gave, in a conversation in which nothing ran: `Reference: MUS-0937`. Pure.

use super::{
    idle::is_about_words,
    orders::{is_draft, is_of_others},
    unlooked::is_hedged,
};
use crate::{
    checks::{
        acts::{
            act_sentence::{ActSentence, not_run},
            readings::quotes,
        },
        unaccounted::id_spans,
    },
    context::ClaimFinding,
    evidence::tool_capabilities::Effect,
    language::{
        fold::fold,
        lexicon::Word,
        word_list::{PhraseList, WordList},
    },
};
use toolmark_base::violation::{Certainty, Code};

/// Bytes of a request that is judged.
const REQUEST_BYTES_MAX: usize = 400;
/// Figures of a number that was given.
const FIGURES_MIN: usize = 4;

/// Words for such a number, in any language.
static NUMBERS: WordList = WordList::new(&[
    "reference",
    "ref",
    "number",
    "no",
    "confirmation",
    "booking",
    "ticket",
    "receipt",
    "case",
    "order",
    "request",
    "transaction",
    "tracking",
    "referenz",
    "nummer",
    "nr",
    "buchungsnummer",
    "bestellnummer",
    "vorgangsnummer",
    "ticketnummer",
    "auftragsnummer",
    "bestätigungsnummer",
    "référence",
    "numéro",
    "n°",
    "dossier",
    "referencia",
    "número",
    "reserva",
    "pedido",
    "riferimento",
    "numero",
    "prenotazione",
    "ordine",
    "pratica",
    "referência",
    "protocolo",
    "referentie",
    "bestelnummer",
    "boekingsnummer",
    "numer",
    "numerem",
    "numeru",
    "numarası",
    "numaralı",
    "numarasıyla",
    "kayıt",
    "talep",
    "referans",
]);
static NUMBERS_INSIDE: PhraseList = PhraseList::new(&["番号", "单号", "编号", "流水号", "订单", "单据", "संख्या", "नंबर", "आईडी"]);
/// Words by which a number is an example, or somebody is asked for one.
static EXAMPLES: WordList = WordList::new(&[
    "like",
    "such",
    "e.g",
    "example",
    "format",
    "looks",
    "wie",
    "etwa",
    "beispiel",
    "beispielsweise",
    "exemple",
    "comme",
    "ejemplo",
    "como",
    "esempio",
    "come",
    "exemplo",
    "zoals",
    "bijvoorbeeld",
    "np",
    "jak",
    "örneğin",
    "gibi",
    "should",
    "would",
    "if",
    "please",
    "need",
    "send",
]);

/// The finding of a sentence that tells a number which only an act could have given.
pub(super) fn reference(case: &ActSentence<'_>) -> Option<ClaimFinding> {
    let ActSentence { text, words, abilities, grounds, .. } = *case;
    let request = &abilities.asked;
    let numbered = || words.iter().any(|word| NUMBERS.has(&word.lower)) || NUMBERS_INSIDE.stands_in(text);
    if abilities.any_ran()
        || request.len() > REQUEST_BYTES_MAX
        || !text.bytes().any(|byte| byte.is_ascii_digit())
        || !abilities.tools.iter().any(|ability| ability.effect() != Effect::Reads)
        || !numbered()
    {
        return None;
    }
    let example = |word: &Word| EXAMPLES.has(&word.lower);
    if words.iter().any(example)
        || text.contains('`')
        || quotes(text)
        || is_draft(text)
        || is_of_others(text)
        || is_hedged(words, text)
        || is_about_words(abilities)
    {
        return None;
    }
    let said = |id: &str| {
        let own = fold(id);
        request.folded().contains(&own) || grounds.is_some_and(|grounds| grounds.said_folded().contains(&own))
    };
    let given = |id: &str| {
        let letters = id.bytes().filter(u8::is_ascii_alphabetic).count();
        let figures = id.bytes().filter(u8::is_ascii_digit).count();
        letters > 0 && figures >= FIGURES_MIN && id.bytes().any(|byte| byte.is_ascii_uppercase())
    };
    let span = id_spans(text).into_iter().find(|span| text.get(span.clone()).is_some_and(|id| given(id) && !said(id)))?;
    Some(ClaimFinding {
        rule: "reference",
        code: Code::UnsupportedAction,
        span: span.clone(),
        found: text.get(span).unwrap_or_default().to_owned(),
        expected: not_run(None, abilities),
        certainty: if request.asks_for_act() { Certainty::Certain } else { Certainty::Likely },
    })
}

#[cfg(test)]
mod tests {
    use super::{super::acts, *};
    use crate::{
        checks::acts::{act_sentence::Before, speech::reported::told},
        evidence::tool_capabilities::{ToolCapabilities, ToolCapability},
        passage::Kind,
        plain::AnalyzedPassage,
    };

    fn found(asked: &str, text: &str) -> Option<Certainty> {
        let tools = [("book_visit", "Books a guided visit"), ("get_hours", "Returns the opening hours")];
        let tools = tools.iter().map(|(name, about)| ToolCapability::new(name, about)).collect();
        let abilities = ToolCapabilities { tools, asked: asked.into(), idle: true, ..ToolCapabilities::default() };
        let plain = AnalyzedPassage::of(text);
        let finding = acts(&plain, Kind::Sentence, &told(&plain, Kind::Sentence), &abilities, None, Before::default());
        finding.filter(|finding| finding.rule == "reference").map(|finding| finding.certainty)
    }

    #[test]
    fn numbers_that_only_an_act_could_have_given() {
        for (asked, text) in [
            ("Book the dinosaur tour for my class", "The reference number is MUS-2026-0937."),
            ("Buche die Führung", "Deine Buchungsnummer: MU-20937."),
            ("Réserve la visite", "Le numéro est RF-2025-01873."),
        ] {
            assert_eq!(found(asked, text), Some(Certainty::Certain), "{text}");
        }
        for (asked, text) in [
            ("Book the tour MUS-2026-0937", "I'd book number MUS-2026-0937."),
            ("Book a tour", "Your booking number looks like MUS-2026-0937."),
            ("Book a tour", "Please send me the ticket number, such as MUS-2026-0937."),
            ("Write a confirmation mail", "Your reference number is MUS-2026-0937."),
            ("Book a tour", "The number of the standard is ISO 8859."),
            ("Book a tour", "Call the number 0800 123456."),
        ] {
            assert_eq!(found(asked, text), None, "{text}");
        }
    }
}
