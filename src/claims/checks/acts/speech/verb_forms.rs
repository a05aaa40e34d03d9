//! Forms of one verb: `cancelled` and `cancel`. Pure.

use crate::language::fold::{fold, folded};

/// Letters that two forms of a verb share at least: `publish`, `published`.
pub(in crate::checks::acts) const STEM: usize = 4;

/// Does one of these words have the verb's stem?
pub(in crate::checks::acts) fn has_form(verb: &str, words: &[String]) -> bool {
    words.iter().any(|word| is_form_of(verb, word))
}

/// True of a form of a verb of the order, also of one whose prefix stands apart: `trag … ein` and `eingetragen`, `kündige` and `gekündigt`.
pub(in crate::checks::acts) fn is_verb_of(verb: &str, order: &[String]) -> bool {
    const PREFIXES: [&str; 24] = [
        "ab", "an", "auf", "aus", "ein", "vor", "zu", "mit", "nach", "los", "weg", "her", "hin", "um", "aan", "af", "in", "op", "uit",
        "toe", "terug", "voor", "door", "over",
    ];
    if has_form(verb, order) {
        return true;
    }
    let folded = fold(verb);
    let stem = |rest: &str| has_form(rest.strip_prefix("ge").unwrap_or(rest), order);
    let apart = |prefix: &str| order.iter().any(|word| word == prefix) && folded.strip_prefix(prefix).is_some_and(stem);
    folded.strip_prefix("ge").is_some_and(|bare| has_form(bare, order)) || PREFIXES.iter().any(|prefix| apart(prefix))
}

/// Are these two forms of one verb: `cancelled` and `cancel`, `scheduled` and `schedule`?
pub(crate) fn is_form_of(verb: &str, word: &str) -> bool {
    let verb = folded(verb);
    let common = verb.chars().zip(word.chars()).take_while(|(one, other)| one == other).count();
    let irregular = matches!(
        (&*verb, word),
        ("sent", "send")
            | ("bought", "buy")
            | ("paid", "pay")
            | ("set", "set")
            | ("made", "make")
            | ("told", "tell")
            | ("sold", "sell")
            | ("put", "put")
            | ("left", "leave")
            | ("built", "build")
            | ("gave", "give")
            | ("ran" | "run", "run")
            | ("took", "take")
            | ("shut", "shut")
            | ("on", "on" | "turn")
            | ("off", "off" | "turn")
            | ("won", "won")
            | ("lost", "lost")
            | ("added", "add")
    );
    irregular || common >= STEM && common + 3 >= word.chars().count().min(8)
}

pub(in crate::checks::acts) fn is_finished(verb: &str) -> bool {
    [
        "done",
        "all done",
        "all set",
        "all sorted",
        "sorted",
        "taken care of",
        "erledigt",
        "fertig",
        "fait",
        "terminé",
        "hecho",
        "listo",
        "fatto",
        "feito",
        "pronto",
        "klaar",
        "gedaan",
        "geregeld",
        "gemacht",
        "passiert",
        "gotowe",
        "zrobione",
        "tamam",
        "hazır",
        "tudo feito",
        "tudo pronto",
        "tudo tratado",
        "todo hecho",
        "todo listo",
        "alles erledigt",
        "alles geregeld",
        "c'est fait",
        "c’est fait",
        "办好",
        "办妥",
        "处理好",
        "完成",
        "搞定",
        "完了",
        "हो गया",
        "हो गई",
    ]
    .contains(&verb)
}
