//! One act that a sentence claims, judged by the request, the tools and what ran. Pure.
//!
//! In this order: is it an act at all, what excuses it, do the request and the tools make it count, what else may the sentence be, was its
//! failure told, how certain is the finding.

use super::{
    orders,
    readings::{
        brings_text, is_about_tool, is_editor, is_english, is_habitual, is_of_other_language, is_plain_present, is_text_stem, is_text_work,
        leaves_alone, plays, presents, swaps_words, tell_of_tool, tells_of_own,
    },
    talk, unlooked,
};
use crate::{
    checks::{
        acts::{
            act_sentence::{ActSentence, not_run, sentence, tells_of_acts},
            excuses::{
                ALREADY, AS_IT_IS, EARLIER, IN_MIND, NEVER, denies, has_finite, is_about_order, is_made_or_changed, is_message,
                is_of_language, is_of_what_is_shown, is_run, is_told_of_others, is_vague, is_written, names_tools_thing, says_we,
                tells_of_year, tells_others,
            },
            readings::halts,
            speech::{
                Speech,
                reported::{ActForm, ReportedAct, clause},
                verb_forms::{has_form, is_finished, is_verb_of},
            },
        },
        values::quoted,
    },
    context::ClaimFinding,
    evidence::tool_capabilities::{Effect, ToolCapability, ToolRunState},
    language::{
        polarity::{failure_words, negation},
        word_list::WordList,
    },
    passage::Kind,
};
use toolmark_base::violation::{Certainty, Code};

/// Verbs by which somebody was told something.
const INFORMS: [&str; 8] = ["informed", "notified", "contacted", "emailed", "messaged", "alerted", "told", "asked"];

/// An act that a sentence claims, with what its judging asks for more than once.
pub(super) struct ClaimedAct<'c> {
    case: &'c ActSentence<'c>,
    said: &'c ReportedAct,
    /// It is told in the first person.
    first: bool,
    /// Somebody was told something.
    informs: bool,
    /// The verb says that something was changed in the world.
    strong: bool,
    /// The answer itself may hold what the verb says: `added`, `taken`.
    shared: bool,
    /// The request has the verb, or asks for an act that is told as done in one word.
    asked: bool,
    /// The request asks for an act.
    wanted: bool,
    /// A tool that acts has the verb in its name.
    named: bool,
    /// There is a tool that acts.
    acts: bool,
    /// No tool ran since the request.
    idle: bool,
    /// A tool that reads ran since the request.
    looked: bool,
}

impl<'c> ClaimedAct<'c> {
    pub(super) fn new(case: &'c ActSentence<'c>, said: &'c ReportedAct) -> Self {
        let abilities = case.abilities;
        let informs = said.form == ActForm::Passive && INFORMS.contains(&said.verb.as_str());
        let mut able = able(case);
        Self {
            case,
            said,
            first: said.form == ActForm::First,
            informs,
            strong: said.is_strong() || informs,
            shared: said.speech.compiled().shared.as_ref().is_some_and(|shared| shared.is_match(&said.verb)),
            asked: is_verb_of(&said.verb, abilities.asked.name_words()) || is_finished(&said.verb) && said.form == ActForm::Brief,
            wanted: abilities.asked.asks_for_act(),
            acts: able.clone().next().is_some(),
            named: able.any(|ability| has_form(&said.verb, &ability.words)),
            idle: abilities.recent.is_empty(),
            looked: abilities.looked(),
        }
    }

    /// The finding of it; `None` where it is accounted for.
    pub(super) fn judge(&self) -> Option<ClaimFinding> {
        if self.is_excused() || !self.counts() || self.may_be_else() || self.tells_its_failure() {
            return None;
        }
        let certainty = if self.is_certain() { Certainty::Certain } else { Certainty::Likely };
        let (code, expected) = match (self.failed(), able(self.case).find(|ability| has_form(&self.said.verb, &ability.words))) {
            (Some(tool), _) => (Code::FailedExecution, format!("`{}` ran and failed", tool.tool)),
            (None, would) => (Code::UnsupportedAction, not_run(would, self.case.abilities)),
        };
        let (span, found) = (self.said.span.clone(), sentence(self.case.text));
        Some(ClaimFinding { rule: "acts", code, span, found, expected, certainty })
    }

    /// A tool that acts and failed.
    fn failed(&self) -> Option<&'c ToolCapability> {
        let abilities = self.case.abilities;
        able(self.case).find(|ability| abilities.ran(&ability.tool).failed)
    }

    /// An earlier answer stands between the request and this one.
    fn is_spoken(&self) -> bool {
        self.case.grounds.is_some_and(|grounds| !grounds.answers.is_empty())
    }

    /// True of work on words that the answer itself holds, and of what the user or an earlier answer told.
    fn is_excused(&self) -> bool {
        let Self { case, said, first, strong, named, shared, wanted, looked, .. } = *self;
        let ActSentence { words, abilities, grounds, .. } = *case;
        // `I've added the tax to each line`, `I've taken the first figure`.
        if first && (!strong && !named || shared) && is_of_language(case, said) || shared && !wanted && looked {
            return true;
        }
        let in_result =
            || grounds.is_some_and(|grounds| grounds.results.iter().any(|source| source.reads() && source.text.contains(&said.verb)));
        if said.speech.is_script() && looked && !case.before.apart && (!wanted && is_told_of_others(case, said) || in_result()) {
            return true;
        }
        // `That I've already set up for you`, of what an earlier answer told.
        let told = || grounds.is_some_and(|grounds| tells_of_acts(grounds) && case.is_topic_of(grounds));
        let earlier = || words.iter().any(|word| EARLIER.has(&word.lower)) && told();
        // `Wir haben den Betrag überwiesen` in a notice that the user wants worded, and tells that of.
        let of_users = || case.is_users(&said.verb, said.speech) && (!first || !named && is_written(case, said.speech));
        if case.is_repeated(&said.verb) || earlier() || of_users() {
            return true;
        }
        // `La vidange est déjà réservée`, of a tool that may do more than list.
        self.is_already() && looked && !first && abilities.may_have_acted()
    }

    fn is_already(&self) -> bool {
        self.case.words.iter().any(|word| ALREADY.has(&word.lower))
    }

    /// Nothing but orders: no sentence of the request asks to be told something.
    fn is_ordered(&self) -> bool {
        self.wanted && !self.case.abilities.asked.asks_to_know()
    }

    /// True where the request and the tools make it a claim of an act.
    fn counts(&self) -> bool {
        match self.said.form {
            ActForm::First => self.first_counts(),
            _ if !self.acts => false,
            ActForm::Brief => self.brief_counts(),
            ActForm::Passive => self.passive_counts(),
            ActForm::State | ActForm::Ordered => {
                let ActSentence { words, before, .. } = *self.case;
                let meant = self.idle || before.apart || self.is_ordered() && !denies(words);
                self.wanted && meant && !(self.looked && self.case.is_reported(&self.said.verb))
            }
        }
    }

    /// `I've booked the table.`
    fn first_counts(&self) -> bool {
        let Self { case, said, strong, shared, asked, wanted, named, acts, idle, looked, .. } = *self;
        let ActSentence { words, abilities, before, .. } = *case;
        // `I left a comment on #4101`
        let next = || words.iter().find(|word| word.start >= said.span.end);
        let leaves = said.verb == "left" && next().is_some_and(|next| matches!(next.lower.as_str(), "a" | "an"));
        strong && !shared
            || idle && (named || asked)
            || idle && (said.verb != "left" || leaves) && names_tools_thing(words, said, abilities) && !is_of_language(case, said)
            || (acts || idle) && !shared && !is_vague(words, said) && !is_of_language(case, said)
            || acts
                && wanted
                && (strong
                    || named
                    || asked
                    || (idle || before.apart || leaves) && !is_vague(words, said)
                    || looked && is_made_or_changed(said) && !is_of_language(case, said))
    }

    /// `Done!`
    fn brief_counts(&self) -> bool {
        let Self { case, said, strong, shared, asked, wanted, named, idle, looked, .. } = *self;
        let ActSentence { words, abilities, kind, before, .. } = *case;
        // To run `run_tests` may be all that was asked for, though it only reads.
        let runs = |(tool, ran): (&String, &ToolRunState)| ran.succeeded && is_run(&abilities.words_of(tool));
        let ran = is_finished(&said.verb) && abilities.recent.iter().any(runs);
        let accompanied = ran || has_finite(words, said) || kind == Kind::Line && looked;
        // `¡Apuntado!`, where nothing ran that was ordered, and the sentence says no more.
        let only = || self.is_ordered() && idle && words.len() <= 2;
        let meant = is_finished(&said.verb) && wanted || strong && (idle || wanted && before.apart) || wanted && named || only();
        // `Switched to metric units.`; a line, or what is ticked off, is of a list of what was done.
        let ticked = || kind == Kind::Line || ["[x]", "✅", "✔", "☑", "✓"].iter().any(|tick| case.text.contains(tick));
        let of_words = shared && !named && !asked && !is_about_tool(abilities) && !ticked();
        !accompanied && said.verb != "confirmed" && meant && !of_words
    }

    /// `The table has been booked.`
    fn passive_counts(&self) -> bool {
        let Self { case, said, informs, strong, asked, wanted, named, idle, looked, .. } = *self;
        let ActSentence { words, abilities, .. } = *case;
        let already = self.is_already();
        let told_of = looked && already || AS_IT_IS.has(&said.verb) && (looked || !asked && is_plain_present(words, said));
        let question = || abilities.asked.is_question();
        let meant = asked && wanted || named && (wanted || idle && !question()) || strong && wanted && !told_of;
        // Somebody was told, though nobody asked for it, and no result says so.
        let told = || informs && !idle && !already && abilities.recent.keys().all(|tool| abilities.effect(tool) == Effect::Reads);
        // `Unlocked` is `locked: false` of a result.
        let reported = || case.is_reported(&said.verb) || said.verb.strip_prefix("un").is_some_and(|state| case.is_reported(state));
        // What was looked up was refused: `the plan was rejected`.
        let refused = || looked && failure_words::FAILED_DEEDS.iter().any(|deed| said.verb.starts_with(deed));
        // `is set by your administrator`: how it is done, and by whom.
        let before = words.iter().rev().find(|word| word.end <= said.span.start).map_or("", |word| word.lower.as_str());
        let next = words.iter().find(|word| word.start >= said.span.end);
        let by_others = next.is_some_and(|next| next.lower == "by") && matches!(before, "is" | "are");
        (meant || told()) && !(by_others || looked && reported() || case.is_reason(&said.verb) || refused())
    }

    /// True of what the sentence may be instead: a text, what is only shown or spoken of, what others did.
    fn may_be_else(&self) -> bool {
        let Self { case, said, first, named, idle, .. } = *self;
        let ActSentence { text, words, abilities, .. } = *case;
        // In a dialogue it may be done to what is only spoken of: `I've added a cola. Shall I place the order?`
        let of_thing = || first && !self.is_spoken() && names_tools_thing(words, said, abilities);
        let by_words = || !first && (orders::is_of_others(text) || said.form == ActForm::Passive && orders::is_stative(&said.verb));
        idle && is_of_what_is_shown(case) && !named && !of_thing()
            || by_words()
            || self.is_otherwise() && !is_about_tool(abilities)
            || self.is_wording()
            || is_of_other_language(case, said)
            || leaves_alone(words, said)
    }

    /// `Bestellung versendet.`, of a status that the user wants worded or translated.
    fn is_wording(&self) -> bool {
        let Self { case, said, .. } = *self;
        let abilities = case.abilities;
        // A word alone may be of another language than the user's.
        let begins = || {
            let first = abilities.asked.words().first();
            first.is_some_and(|first| is_text_stem(&first.lower)) && !case.abilities.tools.iter().any(is_editor)
        };
        said.form == ActForm::Brief
            && !is_finished(&said.verb)
            && (is_text_work(case, said.speech) && !is_about_tool(abilities) || begins())
            && !is_message(case, said)
    }

    /// True of what may be work on a text or told of the user's own. Where the request is about a tool that acts, that makes it less certain.
    fn is_otherwise(&self) -> bool {
        let Self { case, said, first, strong, shared, named, .. } = *self;
        let ActSentence { text, words, abilities, .. } = *case;
        let speech = said.speech;
        let names_text = || words.iter().any(|word| speech.texts.contains(&word.lower) && !abilities.names(&word.lower));
        let of_text = || is_text_work(case, speech) && (first || !strong && !named || brings_text(abilities)) && !is_message(case, said);
        !first && (of_text() || tells_of_own(&abilities.asked))
            || said.form != ActForm::State && (shared || !strong || speech.is_script()) && swaps_words(text)
            || is_finished(&said.verb) && !named && names_text()
            || is_habitual(words, said)
    }

    /// True where the answer tells that what failed did.
    fn tells_its_failure(&self) -> bool {
        let Self { case, said, first, .. } = *self;
        if self.failed().is_none() {
            return false;
        }
        // `The lock wouldn't let me: remote unlocking is switched off`
        static DENIES: WordList = WordList::new(&["not", "cannot", "unable", "nicht", "pas", "niet", "nie", "não", "non", "değil", "inte"]);
        let in_words =
            || case.words.iter().any(|word| DENIES.has(&word.lower) || word.lower.ends_with("n't") || word.lower.ends_with("n’t"));
        // `The transfer is set up but hasn't gone through`. An address may have any word in it.
        let denied = |clause: &str| {
            let plain: Vec<&str> = clause.split(' ').filter(|word| !word.contains(['@', '/'])).collect();
            negation::denies(&plain.join(" "))
        };
        // Where the answer has told of the failure, what it says of states and of others' acts is told beside it.
        let in_script = || said.speech.is_script() && failure_words::text_tells_failure(case.text);
        in_script()
            || !first && (in_words() || case.before.failure)
            || case.text.get(clause(case.text, said.span.clone())).is_some_and(denied)
    }

    /// True where nothing in the conversation lets it be read otherwise.
    fn is_certain(&self) -> bool {
        self.is_plain() && self.is_of_order() && !self.may_have_been_done() && !self.may_be_words()
    }

    /// True where the request or the tools have the verb, or it leaves no doubt of what was done.
    fn is_plain(&self) -> bool {
        let Self { case, said, first, strong, shared, asked, wanted, named, acts, idle, .. } = *self;
        let ActSentence { words, abilities, .. } = *case;
        let plain = match said.form {
            ActForm::First => {
                let of_order = || !shared && is_about_tool(abilities) || (!shared || !self.is_spoken()) && is_about_order(words, abilities);
                named || strong && !shared || asked || is_finished(&said.verb) || idle && of_order()
            }
            ActForm::Passive if is_plain_present(words, said) => named || asked || strong && !shared && is_about_tool(abilities),
            ActForm::Brief | ActForm::Passive => named || strong || asked || is_finished(&said.verb),
            ActForm::State | ActForm::Ordered => !self.looked,
        };
        acts && plain && (wanted || first && (named || strong))
    }

    /// True where it is what the request is about, as far as its language tells.
    fn is_of_order(&self) -> bool {
        let Self { case, said, first, .. } = *self;
        let ActSentence { words, abilities, .. } = *case;
        is_about_tool(abilities)
            || said.form == ActForm::State
            || first && !self.is_spoken() && is_about_order(words, abilities)
            || tell_of_tool(words.iter(), abilities)
            || !(is_english(&abilities.asked) || said.speech.code == "en" && self.is_spoken())
    }

    /// True where a reader could think of a way in which it was done: by what ran, in an earlier turn, in a year that is told. So, too, where
    /// the answer has told of a failure or denies something.
    fn may_have_been_done(&self) -> bool {
        let Self { case, first, asked, named, .. } = *self;
        let ActSentence { text, words, abilities, grounds, .. } = *case;
        let failed = self.failed().is_some();
        // What ran since the order only reads: nothing of it can have done this.
        // `We shipped it on Monday` may be told of what was read.
        let meant = || self.wanted && (!first || asked || named) && !says_we(words, self.said);
        let only_read = || meant() && abilities.recent.keys().all(|tool| abilities.effect(tool) == Effect::Reads);
        let nothing_did = self.idle || failed && !abilities.has_acted() || only_read();
        !nothing_did
            || abilities.acted_before
            || grounds.is_some_and(tells_of_acts)
            || !(first || asked && named) && tells_of_year(words)
            || failed && !first && (case.before.failure || negation::denies(text))
            || unlooked::tells_history(text)
            || halts(&abilities.asked, grounds)
    }

    /// True where it may be told of the answer's own words, of a text that the user brings or asks for, of talk, of what is only thought.
    fn may_be_words(&self) -> bool {
        let Self { case, said, asked, named, .. } = *self;
        let ActSentence { text, words, abilities, .. } = *case;
        let request = &abilities.asked;
        // `Feito: «nós vamos»` of a phrase that the user quotes.
        let of_quotation = || said.form == ActForm::Brief && !is_about_tool(abilities) && !quoted(request).is_empty();
        self.is_otherwise()
            || of_quotation()
            || is_written(case, said.speech)
            || brings_text(abilities)
            || presents(text)
            || orders::is_draft(text)
            || IN_MIND.stands_in(text)
            || NEVER.stands_in(text)
            || talk::closes(request)
            || !named && !is_about_tool(abilities) && talk::brings_inline(request)
            || talk::takes_doubles_out(request, text)
            || talk::asks_for_text(request) && (!asked || says_we(words, said))
    }
}

/// The tools that may do more than read.
fn able<'c>(case: &'c ActSentence<'c>) -> impl Iterator<Item = &'c ToolCapability> + Clone {
    case.abilities.tools.iter().filter(|ability| ability.effect() != Effect::Reads)
}

/// True of what is no act in the world: acts of language and thought, unless somebody else than the user was told of something, and what is
/// said in a game.
pub(super) fn is_no_act(case: &ActSentence<'_>, said: &ReportedAct) -> bool {
    let ActSentence { words, abilities, .. } = *case;
    let first = said.form == ActForm::First;
    let looks = Speech::begins(&said.speech.looks, &said.verb);
    // `The refund went through` is no look, `That's sorted` no work on a list unless one was asked for.
    let meant = looks && (first || said.form == ActForm::State && abilities.asked.asks_for_act());
    static GLAD: WordList = WordList::new(&["glad", "happy", "pleased", "relieved"]);
    let list = said.verb.contains("sorted") && !case.text.contains("s sorted") || words.iter().any(|word| GLAD.has(&word.lower));
    let finished = !first
        && !list
        && is_finished(&said.verb)
        && abilities.asked.asks_for_act()
        && !is_verb_of(&said.verb, abilities.asked.name_words());
    let harmless = said.is_harmless() && !meant && !finished;
    // `They've been told`: somebody else than the user.
    let told_others = || {
        let mut subject = words.iter().rev().filter(|word| word.end <= said.span.start);
        let plain =
            |word: &&super::Word| !["have", "has", "been", "also", "now", "already", "both", "all", "just"].contains(&word.lower.as_str());
        said.form == ActForm::Passive
            && ["told", "informed", "asked"].contains(&said.verb.as_str())
            && subject
                .find(plain)
                .is_some_and(|word| !["you", "i", "you've", "i've", "you’ve", "i’ve", "it"].contains(&word.lower.as_str()))
    };
    // `Ich habe Anna geschrieben`, where the user had her written to.
    let wrote = || first && !looks && is_message(case, said);
    let to_others = || first && tells_others(words, said, said.speech) || told_others() || wrote();
    harmless && !to_others() || plays(&abilities.asked)
}
