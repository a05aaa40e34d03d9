//! Rounds of calls that toolmark ran itself and applications never saw: what is kept of them, by what it is found again,
//! and where in a later request it belongs.
//!
//! The same for every API: an API says what its turns are, and how it writes them ([`RoundForm`]). Pure.

use std::{borrow::Cow, collections::HashSet, ops::Range, sync::Arc};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{context::Context, turn::Said};
use crate::{
    judge::{
        call::ValidCall,
        marks::{CallMark, Moment, Scope},
    },
    wire::json::{Document, Value},
};

/// Bytes that the rounds behind one visible turn may take to be kept.
pub const KEPT_BYTES_MAX: usize = 4 << 20;
/// Turns of one conversation at which something may be put back, the latest.
pub const PLACES_MAX: usize = 1024;

/// What belongs to one turn that the application has, and that it never saw: messages or items, JSON.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    /// Before it.
    pub before: Vec<String>,
    /// The turn as the model said it; empty where the application has all of it.
    pub whole: Vec<String>,
    /// Results behind it.
    pub behind: Vec<String>,
    /// It was too large to be kept: there was something, and that is all that is known.
    pub lost: bool,
}

impl Kept {
    /// How much memory it takes.
    pub fn bytes(&self) -> usize {
        self.before.iter().chain(&self.behind).chain(&self.whole).map(String::len).sum()
    }

    /// It, where it may be kept; else that there was something.
    pub fn bounded(self) -> Self {
        if self.bytes() <= KEPT_BYTES_MAX { self } else { Self { lost: true, ..Self::default() } }
    }
}

/// By what it is found again.
pub type Key = [u8; 32];

/// In which API's form it is: another one has no use for it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Form {
    /// Messages of chat completions.
    Chat,
    /// Input items of the Responses API.
    Responses,
}

/// Whose turn it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Speaker {
    /// Instructions: they may change without its being another conversation.
    Instructions,
    /// The model's.
    Model,
    /// A tool's result.
    Result,
    /// The user's, or anybody else's.
    Other,
}

/// A turn of a conversation as the application has it.
#[derive(Clone, Debug)]
pub struct Turn<'t> {
    /// Which messages or items it is.
    pub items: Range<usize>,
    /// Whose it is.
    pub speaker: Speaker,
    /// What is said.
    pub text: Cow<'t, str>,
    /// The ids of its calls, or of the call that it answers.
    pub ids: Vec<Cow<'t, str>>,
}

/// How much of something kept belongs into a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum How {
    /// All of it: the turn is replaced.
    Whole,
    /// Its results, in front of the one at that turn: the rest lies upstream.
    Results,
}

/// A turn at which something may be put back.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Place {
    /// Which turn.
    pub turn: usize,
    /// How much.
    pub how: How,
    /// By what it is found; any will do.
    pub keys: Vec<Key>,
    /// By the marks there is something.
    pub surely: bool,
}

/// What is put back at a turn.
#[derive(Clone, Debug)]
pub struct Back {
    /// Which turn.
    pub turn: usize,
    /// How much.
    pub how: How,
    /// What.
    pub kept: Arc<Kept>,
}

/// How an API writes rounds, and reads where they belong.
pub trait RoundForm {
    /// Which form that is.
    const FORM: Form;
    /// The turns of a request.
    fn turns(request: &Document) -> Vec<Turn<'_>>;
    /// The part of the conversation before the request lies upstream.
    fn continues(request: &Document) -> bool;
    /// The request with this put back; `turns` are its own. `None` where nothing is to be put back.
    fn put_back(request: &Document, turns: &[Turn<'_>], back: &[Back]) -> Option<Bytes>;
    /// The ids that accepted calls get, as the answer is written with them.
    fn marks(said: &Said, calls: &[(ValidCall, Moment)], context: &Context) -> Vec<String>;
    /// What the model said and called, as an application would send it back. `calls`: those that passed, with their marks,
    /// in the order of `said`.
    fn said_again(said: &Said, calls: &[(&ValidCall, &str)], context: &Context) -> Vec<String>;
    /// A function's result, as an application would send it.
    fn result(mark: &str, text: &str) -> String;
    /// The request with these behind its own. A call that it demanded was made: none is demanded any more.
    fn append(request: &Document, added: &[String]) -> Option<Bytes>;
    /// What of a prepared request that ends with so many results goes upstream.
    fn upstream(body: Bytes, results: usize, context: &Context) -> Bytes;
    /// What a whole answer says, as it leaves.
    fn text_of(answer: &Bytes) -> Option<String>;
    /// Reads what a streamed answer says off the data of one of its events, as they leave.
    fn tap(data: &Bytes, text: &mut String);
}

/// The key of a turn by one of its visible calls.
pub fn key_of_mark(form: Form, scope: &Scope, mark: &str) -> Key {
    let mut hasher = begin(form, scope);
    hasher.update(b"mark\0").update(mark.as_bytes());
    *hasher.finalize().as_bytes()
}

/// The key of an answer: of all that the application has of the conversation up to it, instructions left out.
pub fn key_of_answer(form: Form, scope: &Scope, turns: &[Turn<'_>], answer: &str) -> Key {
    let mut hasher = begin(form, scope);
    turns.iter().for_each(|turn| digest(&mut hasher, turn));
    answered(&hasher, answer)
}

/// The key of a response that the application knows by another id than the upstream.
pub fn key_of_response(scope: &Scope, id: &str) -> Key {
    let mut hasher = begin(Form::Responses, scope);
    hasher.update(b"response\0").update(id.as_bytes());
    *hasher.finalize().as_bytes()
}

fn begin(form: Form, scope: &Scope) -> blake3::Hasher {
    let mut hasher = blake3::Hasher::new_derive_key("toolmark 2026-11-22 rounds behind a turn v2");
    hasher.update(format!("{form:?}\0{scope:?}\0").as_bytes());
    hasher
}

fn answered(hasher: &blake3::Hasher, answer: &str) -> Key {
    let mut hasher = hasher.clone();
    hasher.update(b"answer\0").update(answer.as_bytes());
    *hasher.finalize().as_bytes()
}

fn digest(hasher: &mut blake3::Hasher, turn: &Turn<'_>) {
    if turn.speaker == Speaker::Instructions {
        return;
    }
    let mut add = |part: &[u8]| {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
    };
    add(format!("{:?} {}", turn.speaker, turn.ids.len()).as_bytes());
    add(turn.text.as_bytes());
    turn.ids.iter().for_each(|id| add(id.as_bytes()));
}

/// Does an id say that more was called in its turn, or before it, than the application saw?
fn hides(id: &str) -> bool {
    CallMark::parse(id).is_some_and(|mark| mark.moment().hides())
}

/// Where in a conversation something may be put back. `continues`: the part of it before these turns lies upstream.
pub fn places(form: Form, scope: &Scope, turns: &[Turn<'_>], continues: bool) -> Vec<Place> {
    let mut hasher = begin(form, scope);
    let called: HashSet<&str> =
        turns.iter().filter(|turn| turn.speaker == Speaker::Model).flat_map(|turn| &turn.ids).map(|id| &**id).collect();
    let mut places = Vec::new();
    for (at, turn) in turns.iter().enumerate() {
        let hiding = || -> Vec<Key> { turn.ids.iter().filter(|id| hides(id)).map(|id| key_of_mark(form, scope, id)).collect() };
        let (how, keys, surely) = match turn.speaker {
            Speaker::Model if !turn.ids.is_empty() => (How::Whole, hiding(), true),
            Speaker::Model if !continues && !turn.text.is_empty() => (How::Whole, vec![answered(&hasher, &turn.text)], false),
            Speaker::Result if continues && !turn.ids.iter().any(|id| called.contains(&**id)) => (How::Results, hiding(), true),
            Speaker::Model | Speaker::Result | Speaker::Instructions | Speaker::Other => (How::Whole, Vec::new(), false),
        };
        if !keys.is_empty() {
            places.push(Place { turn: at, how, keys, surely });
        }
        digest(&mut hasher, turn);
    }
    places
}

/// What a choice of tools becomes once the call that it demanded was made; `None` where it demands none.
pub fn released_choice(choice: Value<'_>) -> Option<String> {
    if choice.is_null() || choice.is_text("none") || choice.is_text("auto") {
        return None;
    }
    if !choice.get("type").is_some_and(|kind| kind.is_text("allowed_tools")) {
        return Some("\"auto\"".to_owned());
    }
    let mode = choice.get("allowed_tools").unwrap_or(choice).get("mode").filter(|mode| mode.is_text("required"))?;
    let (whole, own) = (choice.span(), mode.span());
    let raw = choice.raw_str();
    Some(format!("{}\"auto\"{}", raw.get(..own.start - whole.start)?, raw.get(own.end - whole.start..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(speaker: Speaker, text: &str, ids: &[&str]) -> Turn<'static> {
        Turn { items: 0..1, speaker, text: text.to_owned().into(), ids: ids.iter().map(|id| (*id).to_owned().into()).collect() }
    }

    fn mark(hides: bool) -> String {
        let ring = crate::judge::marks::KeyRing::new(&[[1; 32]]);
        ring.mint(&Scope::anonymous(), "t", "{}", Moment { time_ms: 1_800_000_000_000, counter: u16::from(hides) })
    }

    #[test]
    fn answers_are_known_by_all_that_came_before_but_instructions() {
        let (scope, user) = (Scope::anonymous(), turn(Speaker::Other, "Add milk.", &[]));
        let key = key_of_answer(Form::Chat, &scope, std::slice::from_ref(&user), "Done.");
        let find = |turns: &[Turn<'_>], scope: &Scope, form| {
            places(form, scope, turns, false).iter().any(|place| place.keys.contains(&key) && !place.surely)
        };
        let answer = turn(Speaker::Model, "Done.", &[]);
        assert!(find(&[user.clone(), answer.clone()], &scope, Form::Chat));
        assert!(find(&[turn(Speaker::Instructions, "x", &[]), user.clone(), answer.clone()], &scope, Form::Chat));
        assert!(!find(&[user.clone(), turn(Speaker::Model, "Done!", &[])], &scope, Form::Chat));
        assert!(!find(&[turn(Speaker::Other, "Add tea.", &[]), answer.clone()], &scope, Form::Chat));
        assert!(!find(&[user.clone(), answer.clone()], &Scope::shared(), Form::Chat), "nobody gets another's");
        assert!(!find(&[user, answer], &scope, Form::Responses));
    }

    #[test]
    fn marks_say_whether_something_is_hidden() {
        let scope = Scope::anonymous();
        let find = |id: &str, continues| {
            let turns = [turn(Speaker::Model, "", &[id]), turn(Speaker::Result, "18", &[id])];
            (places(Form::Chat, &scope, &turns, continues), places(Form::Responses, &scope, &turns[1..], continues))
        };
        let (whole, alone) = find(&mark(true), true);
        assert!(whole.len() == 1 && whole[0].how == How::Whole && whole[0].surely, "{whole:?}");
        assert!(alone.len() == 1 && alone[0].how == How::Results && alone[0].turn == 0, "{alone:?}");
        assert!(find(&mark(true), false).1.is_empty(), "a result without its call stays what it is");
        for id in [&mark(false), "call_1", ""] {
            assert_eq!(find(id, true), (Vec::new(), Vec::new()), "{id}");
        }
    }

    #[test]
    fn nothing_is_demanded_once_it_was_called() {
        for (choice, released) in [
            (r#""required""#, Some(r#""auto""#)),
            (r#"{"type":"function","name":"a"}"#, Some(r#""auto""#)),
            (r#""auto""#, None),
            (r#""none""#, None),
            (r#"{"type":"allowed_tools","mode":"required","tools":[1]}"#, Some(r#"{"type":"allowed_tools","mode":"auto","tools":[1]}"#)),
            (r#"{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[]}}"#, None),
            (
                r#"{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[]}}"#,
                Some(r#"{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[]}}"#),
            ),
        ] {
            let document = Document::parse(Bytes::copy_from_slice(format!("[{choice}]").as_bytes())).unwrap();
            assert_eq!(document.root().items().next().and_then(released_choice).as_deref(), released, "{choice}");
        }
    }

    #[test]
    fn too_much_is_known_to_be_lost() {
        let kept = Kept { before: vec!["x".repeat(KEPT_BYTES_MAX + 1)], ..Kept::default() }.bounded();
        assert!(kept.lost && kept.bytes() == 0);
    }
}
