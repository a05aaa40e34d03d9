//! Hidden turns: rounds of calls that toolmark ran itself and applications never saw. Defines the stored format, the
//! lookup keys, and the restore points in later requests.
//!
//! The same for every API: an API lists the turns of a request and writes hidden turns in its format ([`RoundForm`]).
//! Pure.

use std::{borrow::Cow, collections::HashSet, ops::Range, sync::Arc};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{context::Context, turn::Said};
use crate::{
    judge::call::ValidCall,
    marks::{CallMark, MarkTime, Scope},
    openai::Api,
    wire::json::{Document, Value},
};

/// Limit in bytes for the hidden turns stored with one visible turn.
pub const KEPT_BYTES_MAX: usize = 4 << 20;
/// Limit for the restore points of one conversation; the latest are used.
pub const PLACES_MAX: usize = 1024;

/// Hidden messages or items that belong to one visible turn, as JSON.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    /// Messages or items before the visible turn.
    pub before: Vec<String>,
    /// The full turn of the model; empty if the application has all of it.
    pub whole: Vec<String>,
    /// Results that follow the turn.
    pub behind: Vec<String>,
    /// The hidden turn exceeded the size limit and was not stored.
    pub lost: bool,
}

impl Kept {
    /// Size of its texts in bytes.
    pub fn bytes(&self) -> usize {
        self.before.iter().chain(&self.behind).chain(&self.whole).map(String::len).sum()
    }

    /// Returns the hidden turn unchanged, or marked as `lost` if it exceeds [`KEPT_BYTES_MAX`].
    pub fn bounded(self) -> Self {
        if self.bytes() <= KEPT_BYTES_MAX { self } else { Self { lost: true, ..Self::default() } }
    }
}

/// Lookup key of a hidden turn.
pub type Key = [u8; 32];

/// Author of a turn.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Speaker {
    /// Instructions; a change in them doesn't make it another conversation.
    Instructions,
    /// The model.
    Model,
    /// A tool's result.
    Result,
    /// The user, or anyone else.
    Other,
}

/// A turn of a conversation as the application has it.
#[derive(Clone, Debug)]
pub struct Turn<'t> {
    /// Indices of its messages or items in the request.
    pub items: Range<usize>,
    /// Author of the turn.
    pub speaker: Speaker,
    /// Text of the turn.
    pub text: Cow<'t, str>,
    /// Ids of its calls, or of the call that it answers.
    pub ids: Vec<Cow<'t, str>>,
}

/// Extent to which a hidden turn is restored in a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum How {
    /// All of it, in place of the visible turn.
    Whole,
    /// Only its results, before the visible one: the upstream stores the rest.
    Results,
}

/// Restore point: a turn at which a hidden turn may be restored.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Place {
    /// Index of the turn.
    pub turn: usize,
    /// Extent of the restoration.
    pub how: How,
    /// Lookup keys; any of them will do.
    pub keys: Vec<Key>,
    /// The marks prove that a hidden turn belongs here.
    pub surely: bool,
}

/// A hidden turn to restore.
#[derive(Clone, Debug)]
pub struct Back {
    /// Index of the turn.
    pub turn: usize,
    /// Extent of the restoration.
    pub how: How,
    /// The hidden turn.
    pub kept: Arc<Kept>,
}

/// Part of a conversation's history that a request has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum HistoryExtent {
    /// All of it.
    Whole,
    /// The part after the one that the upstream stores.
    Continued,
}

/// Reads and writes hidden turns in an API's format.
pub trait RoundForm {
    /// The API; no other can use its hidden turns.
    const API: Api;
    /// The turns of a request.
    fn turns(request: &Document) -> Vec<Turn<'_>>;
    /// Part of the conversation's history that the request has.
    fn extent(request: &Document) -> HistoryExtent;
    /// The request with hidden turns restored; `turns` are those of the request. `None` if there is nothing to restore.
    fn put_back(request: &Document, turns: &[Turn<'_>], back: &[Back]) -> Option<Bytes>;
    /// Ids of the accepted calls, as written in the answer.
    fn marks(said: &Said, calls: &[(ValidCall, MarkTime)], context: &Context) -> Vec<String>;
    /// The model's text and calls in the form in which an application would send them back. `calls`: the accepted ones
    /// with their marks, in the order of `said`.
    fn said_again(said: &Said, calls: &[(&ValidCall, &str)], context: &Context) -> Vec<String>;
    /// A function's result in the form in which an application would send it.
    fn result(mark: &str, text: &str) -> String;
    /// The request with these messages or items appended. If it demanded a call, it no longer does: that call was made.
    fn append(request: &Document, added: &[String]) -> Option<Bytes>;
    /// The body to send for a prepared request that ends with `results` results. If the upstream stores the
    /// conversation, only those results are sent.
    fn upstream(body: Bytes, results: usize, context: &Context) -> Bytes;
    /// Text of a buffered answer, as sent to the application.
    fn text_of(answer: &Bytes) -> Option<String>;
    /// Appends the text of one event of a streamed answer, as sent to the application.
    fn tap(data: &Bytes, text: &mut String);
}

/// Key for a turn with a visible call, by that call's mark.
pub fn key_of_mark(api: Api, scope: &Scope, mark: &str) -> Key {
    let mut hasher = begin(api, scope);
    hasher.update(b"mark\0").update(mark.as_bytes());
    *hasher.finalize().as_bytes()
}

/// Key for an answer without calls: a hash of the application's conversation up to it, without instructions.
pub fn key_of_answer(api: Api, scope: &Scope, turns: &[Turn<'_>], answer: &str) -> Key {
    let mut hasher = begin(api, scope);
    turns.iter().for_each(|turn| digest(&mut hasher, turn));
    answered(&hasher, answer)
}

/// Key for a response whose id differs between application and upstream.
pub fn key_of_response(scope: &Scope, id: &str) -> Key {
    let mut hasher = begin(Api::Responses, scope);
    hasher.update(b"response\0").update(id.as_bytes());
    *hasher.finalize().as_bytes()
}

fn begin(api: Api, scope: &Scope) -> blake3::Hasher {
    let mut hasher = blake3::Hasher::new_derive_key("toolmark 2026-11-22 rounds behind a turn v2");
    hasher.update(format!("{api:?}\0{scope:?}\0").as_bytes());
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

/// True if the id is a mark that says that the turn, or one before it, has hidden calls.
fn hides(id: &str) -> bool {
    CallMark::parse(id).is_some_and(|mark| mark.moment().hides())
}

/// Restore points of a conversation, whose request has `extent` of its history.
pub fn places(api: Api, scope: &Scope, turns: &[Turn<'_>], extent: HistoryExtent) -> Vec<Place> {
    let mut hasher = begin(api, scope);
    let called: HashSet<&str> =
        turns.iter().filter(|turn| turn.speaker == Speaker::Model).flat_map(|turn| &turn.ids).map(|id| &**id).collect();
    let mut places = Vec::new();
    for (at, turn) in turns.iter().enumerate() {
        let hiding = || -> Vec<Key> { turn.ids.iter().filter(|id| hides(id)).map(|id| key_of_mark(api, scope, id)).collect() };
        let (how, keys, surely) = match turn.speaker {
            Speaker::Model if !turn.ids.is_empty() => (How::Whole, hiding(), true),
            Speaker::Model if extent == HistoryExtent::Whole && !turn.text.is_empty() => {
                (How::Whole, vec![answered(&hasher, &turn.text)], false)
            }
            Speaker::Result if extent == HistoryExtent::Continued && !turn.ids.iter().any(|id| called.contains(&**id)) => {
                (How::Results, hiding(), true)
            }
            Speaker::Model | Speaker::Result | Speaker::Instructions | Speaker::Other => (How::Whole, Vec::new(), false),
        };
        if !keys.is_empty() {
            places.push(Place { turn: at, how, keys, surely });
        }
        digest(&mut hasher, turn);
    }
    places
}

/// Relaxed `tool_choice` for after the demanded call was made; `None` if it demands no call.
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
        let ring = crate::marks::KeyRing::new(&[[1; 32]]);
        ring.mint(&Scope::anonymous(), "t", "{}", MarkTime { time_ms: 1_800_000_000_000, counter: u16::from(hides) })
    }

    #[test]
    fn answers_are_known_by_all_that_came_before_but_instructions() {
        let (scope, user) = (Scope::anonymous(), turn(Speaker::Other, "Add milk.", &[]));
        let key = key_of_answer(Api::Chat, &scope, std::slice::from_ref(&user), "Done.");
        let find = |turns: &[Turn<'_>], scope: &Scope, api| {
            places(api, scope, turns, HistoryExtent::Whole).iter().any(|place| place.keys.contains(&key) && !place.surely)
        };
        let answer = turn(Speaker::Model, "Done.", &[]);
        assert!(find(&[user.clone(), answer.clone()], &scope, Api::Chat));
        assert!(find(&[turn(Speaker::Instructions, "x", &[]), user.clone(), answer.clone()], &scope, Api::Chat));
        assert!(!find(&[user.clone(), turn(Speaker::Model, "Done!", &[])], &scope, Api::Chat));
        assert!(!find(&[turn(Speaker::Other, "Add tea.", &[]), answer.clone()], &scope, Api::Chat));
        assert!(!find(&[user.clone(), answer.clone()], &Scope::shared(), Api::Chat), "nobody gets another's");
        assert!(!find(&[user, answer], &scope, Api::Responses));
    }

    #[test]
    fn marks_say_whether_something_is_hidden() {
        let scope = Scope::anonymous();
        let find = |id: &str, extent| {
            let turns = [turn(Speaker::Model, "", &[id]), turn(Speaker::Result, "18", &[id])];
            (places(Api::Chat, &scope, &turns, extent), places(Api::Responses, &scope, &turns[1..], extent))
        };
        let (whole, alone) = find(&mark(true), HistoryExtent::Continued);
        assert!(whole.len() == 1 && whole[0].how == How::Whole && whole[0].surely, "{whole:?}");
        assert!(alone.len() == 1 && alone[0].how == How::Results && alone[0].turn == 0, "{alone:?}");
        assert!(find(&mark(true), HistoryExtent::Whole).1.is_empty(), "a result without its call stays what it is");
        for id in [&mark(false), "call_1", ""] {
            assert_eq!(find(id, HistoryExtent::Continued), (Vec::new(), Vec::new()), "{id}");
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
