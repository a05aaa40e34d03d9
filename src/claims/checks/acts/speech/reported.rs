//! The acts that a sentence reports as done, found by the patterns of its language. Pure.

use std::ops::{Deref, Range};

use crate::{
    checks::acts::{
        excuses::{is_conditional, is_indirect},
        readings::{has_blanks, is_open_box, is_quoted, quotes},
        speech::{ActPatterns, Speech, speeches, verb_forms::is_finished},
    },
    language::{
        fold::behind_last,
        lexicon::Word,
        pattern::{Pattern, PatternMatch},
        word_list::PhraseList,
    },
    passage::Kind,
    plain::AnalyzedPassage,
};

/// Bytes of a sentence that is looked at.
pub(in crate::checks::acts) const SENTENCE_BYTES_MAX: usize = 1200;

/// The form in which a sentence reports an act.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ActForm {
    /// The first person says to have done it.
    First,
    /// It is said to have been done.
    Passive,
    /// The sentence says no more.
    Brief,
    /// Its outcome is told as the case: `is now 13:00`, `is on its way`.
    State,
    /// The user ordered it, and it is told as done or so, in whatever words.
    Ordered,
}

/// An act as it is said.
#[derive(Debug)]
pub(crate) struct ReportedAct {
    pub form: ActForm,
    pub verb: String,
    pub span: Range<usize>,
    pub(in crate::checks::acts) speech: &'static Speech,
}

impl ReportedAct {
    /// A look, or an act of language or thought: it needs no execution that does more than read.
    pub fn is_harmless(&self) -> bool {
        Speech::begins(&self.speech.looks, &self.verb) || Speech::begins(&self.speech.thought, &self.verb)
    }

    /// The first person says to have looked something up.
    pub fn is_own_look(&self) -> bool {
        self.form == ActForm::First && Speech::begins(&self.speech.looks, &self.verb)
    }

    /// A verb that nobody does in words alone.
    pub fn is_strong(&self) -> bool {
        let ActPatterns { strong, strong_first, .. } = self.speech.compiled();
        let own = strong_first.as_ref().filter(|_| self.form == ActForm::First).or(strong.as_ref());
        own.is_none_or(|strong| strong.is_match(&self.verb))
    }
}

/// The acts that a sentence reports, and what of it was read to find them; of one that can report none, nothing.
#[derive(Debug, Default)]
pub(crate) struct ReportedActs {
    pub(in crate::checks::acts) acts: Vec<ReportedAct>,
    /// The sentence in lower case, as far as it is ASCII.
    pub(in crate::checks::acts) lower: String,
    /// The languages that it may be in.
    pub(in crate::checks::acts) speeches: Vec<&'static Speech>,
}

impl Deref for ReportedActs {
    type Target = [ReportedAct];

    fn deref(&self) -> &[ReportedAct] {
        &self.acts
    }
}

/// Bytes of the longest cue of [`may_say_done`].
pub const CUE_BYTES_MAX: usize = 16;

/// May a sentence that begins so report an act? Cheap, and rather once too often. For its first
/// words, ask [`may_begin_with_act`] too.
pub fn may_say_done(text: &str) -> bool {
    static CUES: PhraseList = PhraseList::in_any_case(&[
        " i ",
        " i've",
        " i’ve",
        " we ",
        " we've",
        " been ",
        "done",
        "all set",
        "s sorted",
        " went ",
        "n your ",
        "n the calendar",
        "n the diary",
        "n the schedule",
        "n the books",
        "looking at ",
        "looking through ",
        "according to",
        " shows ",
        " show ",
        " showing ",
        " says ",
        " reads ",
        " reports ",
        " lists ",
        " confirms ",
        " indicates ",
        "can see ",
        "what the ",
        "had a look",
        "had another",
        "scanning ",
        "reading ",
        "pulling up ",
        "going by ",
        "going through ",
        "judging by ",
        "checking ",
        "digging through ",
        "skimming ",
        "browsing ",
        "searching ",
        "combing ",
        "glancing at ",
        "blick in ",
        "blick auf ",
        " steht",
        " stehen",
        "sehe ich",
        "zu sehen",
        "selon ",
        "d'après ",
        "d’après ",
        "je vois ",
        "veo en ",
        "vedo n",
        "risulta ",
        "occhiata ",
        "olhada ",
        "vejo n",
        "te zien",
        "zie ik",
        "ik zie",
        "staat in ",
        "zajrza",
        "widzę ",
        "widać ",
        "görünüyor",
        "görüyorum",
        "yazıyor",
        "दिख",
        "を見",
        "を確認",
        " was ",
        " were ",
        " is now",
        " are now",
        "'s now",
        "’s now",
        " sent",
        " booked",
        " saved",
        " added",
        " created",
        " deleted",
        " updated",
        " cancelled",
        " submitted",
        " scheduled",
        "successfully",
        "habe ",
        "wurde",
        "erledigt",
        "j'ai",
        "j’ai",
        " été ",
        "c'est ",
        "c’est ",
        " he ",
        " ha sido",
        "hecho",
        " ho ",
        " è stat",
        "fatto",
        "acabei",
        " foi ",
        "ik heb",
        "heb ik",
        " został",
        "łem",
        "łam",
        "dım",
        "dim",
        "dum",
        "tım",
        "tim",
        "edildi",
        "ıldı",
        "ildi",
        "ました",
        "済み",
        "已",
        "了",
        "成功",
        "습니다",
        "jag har",
        " now",
        " way",
        "reminder",
        "alarm",
        "been told",
        "auf dem weg",
        "auf der liste",
        "im kalender",
        "im system",
        "désormais",
        "au courant",
        "prévenu",
        "averti",
        "ya está",
        "ya figura",
        "ya aparece",
        "ya consta",
        " già ",
        "adesso",
        " ora ",
        "ficou",
        "já ",
        "komt eraan",
        "klaar",
        "onderweg",
        "już jedz",
        "w drodze",
        "yola çıktı",
        "haberi var",
        "反映",
        "向かって",
        "在路上",
        "赶来",
        "पक्क",
        "बुक ",
        "as of ",
        "no longer",
        "sorted",
        "lined up",
        "queda",
        "está ",
        "मैंने",
        "दिया",
        "किया",
        "गया",
    ]);
    CUES.stands_in(text)
}

/// True if the first words of a sentence may report an act. Cheap, and rather once too often.
pub fn may_begin_with_act(text: &str) -> bool {
    const FIRST: &[&str] = &[
        "i ",
        "i've",
        "i’ve",
        "we ",
        "we've",
        "he ",
        "ho ",
        "j'ai",
        "j’ai",
        "ik ",
        "ich ",
        "had a ",
        "saved",
        "sent",
        "booked",
        "deleted",
        "cancelled",
        "created",
        "updated",
        "added",
    ];
    let start = text.trim_start_matches(|c: char| !c.is_alphanumeric()).as_bytes();
    // `Deployed to staging.`
    let first = start.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    let past = start.get(..first).is_some_and(|word| word.to_ascii_lowercase().ends_with(b"ed"));
    past || FIRST.iter().any(|first| start.get(..first.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(first.as_bytes())))
}

/// The clause around a place: between marks that end one.
pub(crate) fn clause(text: &str, span: Range<usize>) -> Range<usize> {
    let mark = |c: char| matches!(c, ',' | ';' | ':' | '–' | '—' | '!' | '?' | '\n' | '，' | '；' | '。' | '、' | '।' | '(' | '）');
    let start = text.get(..span.start).map_or(0, |before| behind_last(before, mark));
    let end = text.get(span.end..).and_then(|after| after.find(mark)).map_or(text.len(), |at| span.end + at);
    start..end
}

/// The acts that a sentence reports as done, in the languages that it may be in.
pub(crate) fn told(passage: &AnalyzedPassage, kind: Kind) -> ReportedActs {
    let AnalyzedPassage { text, words, .. } = passage;
    let idle = kind == Kind::Heading || text.len() > SENTENCE_BYTES_MAX;
    if idle || passage.asks() || quotes(text) || is_open_box(text) || has_blanks(text) {
        return ReportedActs::default();
    }
    let (lower, speeches) = (text.to_ascii_lowercase(), speeches(text, words));
    let mut acts: Vec<ReportedAct> = speeches.iter().flat_map(|speech| spoken(text, &lower, words, speech)).collect();
    // A row of a table tells how things are. Turkish verbs are known by their endings alone, as Latin names have them: `strictum`.
    if kind == Kind::Line && text.trim_start().starts_with('|') {
        acts.retain(|said| said.form == ActForm::First && said.speech.code != "tr");
    }
    ReportedActs { acts, lower, speeches }
}

pub(in crate::checks::acts) fn spoken(text: &str, lower: &str, words: &[Word], speech: &'static Speech) -> Vec<ReportedAct> {
    let compiled = speech.compiled();
    let matched = compiled.any.as_ref().map(|any| any.matches(lower));
    if matched.as_ref().is_some_and(|matched| !matched.matched_any()) {
        return Vec::new();
    }
    let may = |at: usize| matched.as_ref().is_none_or(|matched| matched.matched(at));
    let acts = compiled.acts.iter().enumerate().filter(|(at, _)| may(*at));
    let said = acts.flat_map(|(_, (form, pattern))| said(pattern, *form, speech, lower));
    // `the caretaker disarmed it and armed it again`: behind `and` it is the first person's where that one spoke before.
    let own = |said: &ReportedAct| {
        let speaks = |word: &Word| {
            matches!(word.lower.as_str(), "i" | "we" | "i've" | "i’ve" | "we've" | "we’ve")
                || word.end <= said.span.start && is_finished(&word.lower)
        };
        let before = words.iter().filter(|word| word.end <= said.span.end);
        said.form != ActForm::First || speech.code != "en" || before.clone().count() < 5 || before.clone().any(speaks)
    };
    // `Check that against anything we've published`: of what the user's side did.
    let relative = |said: &ReportedAct| {
        const ANY: [&str; 7] = ["anything", "everything", "something", "whatever", "what", "that", "which"];
        let we = lower.get(said.span.start..).is_some_and(|rest| rest.starts_with("we"));
        let before = words.iter().take_while(|word| word.end <= said.span.start).last();
        we && said.form == ActForm::First && speech.code == "en" && before.is_some_and(|word| ANY.contains(&word.lower.as_str()))
    };
    // `I can read the sensors and set the vents`: an ability of the answer's.
    let able = |said: &ReportedAct| {
        const MODALS: [&str; 10] = ["can", "could", "will", "would", "may", "might", "shall", "should", "must", "i'll"];
        let joined = !lower.get(said.span.start..).is_some_and(|rest| rest.starts_with(['i', 'w']));
        let before: Vec<&str> = words.iter().take_while(|word| word.end <= said.span.start).map(|word| word.lower.as_str()).collect();
        let subject = before.iter().rposition(|word| matches!(*word, "i" | "we" | "i've" | "we've" | "i’ve" | "we’ve" | "i'll" | "i’ll"));
        let modal = subject.is_some_and(|at| before.iter().skip(at).take(2).any(|word| MODALS.contains(word)));
        said.form == ActForm::First && speech.code == "en" && joined && modal
    };
    let plainly = |said: &ReportedAct| {
        !(is_quoted(text, said.span.start)
            || speech.hedges(text, words, said)
            || is_conditional(words, said)
            || is_indirect(text, words, said))
    };
    // `**Already packed:** …` is a case that the line is about, `value: 5` a value.
    let label = |said: &ReportedAct| {
        let behind = text.get(said.span.end..).unwrap_or_default().trim_start_matches(['*', '_', ' ']);
        let strong = !speech.strong.is_empty() && said.is_strong();
        let named = said.form == ActForm::Brief && behind.starts_with(':') && !is_finished(&said.verb) && !strong;
        named
            || text.trim_start_matches([' ', '-', '•', '+']).starts_with("**")
                && behind.starts_with(':')
                && lower.get(..said.span.end).is_some_and(|before| before.contains("already "))
    };
    said.take(16).filter(own).filter(|said| !able(said) && !relative(said)).filter(plainly).filter(|said| !label(said)).collect()
}

pub(in crate::checks::acts) fn said(pattern: &Pattern, form: ActForm, speech: &'static Speech, text: &str) -> Vec<ReportedAct> {
    let of = |found: PatternMatch<'_>| {
        let verb = found.group("verb")?;
        let start = if form == ActForm::First { found.whole().start } else { verb.start };
        Some(ReportedAct { form, verb: verb.text.to_lowercase(), span: start..verb.end(), speech })
    };
    pattern.find_all(text).take(4).filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_a_cue() {
        for text in [
            "Ana ist auf der Liste.",
            "La fiche porte désormais son nom.",
            "Carla è già in lista.",
            "Ana já consta na lista.",
            "Je taxi komt eraan.",
            "反映されています",
            "पक्का है",
            "The cancellation went through.",
            "It's in your calendar.",
            "That's sorted.",
        ] {
            assert!(may_say_done(text), "{text}");
        }
    }

    #[test]
    fn clauses_end_at_marks_of_any_width() {
        for (text, verb, expected) in [
            ("First, it was sent; then not.", "sent", " it was sent"),
            ("需要注意的是，日志里没有记录，建议核对。", "记录", "日志里没有记录"),
        ] {
            let at = text.find(verb).unwrap();
            assert_eq!(&text[clause(text, at..at + verb.len())], expected);
        }
    }
}
