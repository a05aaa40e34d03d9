//! Answers of upstreams as arbitrary bytes: buffered and streamed answers of all APIs, and those that are translated for another one.
//!
//! Checked: nothing panics; no step takes long; a stream gives the same events, verdict and text however it is cut; everything sent is
//! JSON; each call that is sent was accepted; a forged id is never sent.

use serde_json::json;

use super::{
    bench::{By, begin, request},
    drive::{streamed, whole},
    input::{FuzzInput, repeated},
};
use crate::{
    chat::adapter::Chat,
    exchange::adapter::Adapter,
    messages::adapter::Messages,
    openai::Api,
    responses::adapter::Responses,
    translate::{Translation, answer::Origin},
    wire::json::Document,
};

/// Parts of the input: a request, or nothing for the targets' own; then one answer for each attempt.
struct FuzzAnswers<'d> {
    input: FuzzInput<'d>,
    request: Document,
    by: By,
}

impl<'d> FuzzAnswers<'d> {
    fn of(data: &'d [u8], api: Api) -> Option<Self> {
        let input = FuzzInput::of(data)?;
        let own = input.part(0);
        let request = if own.trim_ascii().is_empty() {
            request(api, "How fast is it?", r#"{"mbit": 90}"#)
        } else {
            Document::parse(own.to_vec().into()).ok()?
        };
        Some(Self { by: By::of(input.flags), input, request })
    }
}

fn stream<A: Adapter>(data: &[u8], api: Api, translation: Option<Translation>) {
    let Some(FuzzAnswers { input, request, by }) = FuzzAnswers::of(data, api) else { return };
    let origin = translation.map(|translation| Origin::new(translation, &request, "0".repeat(32), 1_700_000_000));
    let long = repeated_event(&input);
    let attempts: Vec<&[u8]> = match &long {
        Some(long) => vec![long],
        None => input.parts_from(1).to_vec(),
    };
    let Some(begun) = begin(by, api, &request) else { return };
    let once = streamed::<A>(&begun, &attempts, None, origin.as_ref());
    let Some(begun) = begin(by, api, &request) else { return };
    let again = streamed::<A>(&begun, &attempts, Some(input.cuts()), origin.as_ref());
    assert_eq!(once, again, "a cut changes what leaves");
}

/// The first answer with its middle event repeated until it is long, if flag 7 is set.
fn repeated_event(input: &FuzzInput<'_>) -> Option<Vec<u8>> {
    if !input.flag(7) {
        return None;
    }
    let text = String::from_utf8_lossy(input.part(1)).into_owned();
    let mut events: Vec<String> = text.split_inclusive("\n\n").map(str::to_owned).collect();
    let middle = events.len() / 2;
    let event = events.get_mut(middle)?;
    *event = repeated(event);
    Some(events.concat().into_bytes())
}

/// Streams of chat completions.
pub(super) fn chat_stream(data: &[u8]) {
    stream::<Chat>(data, Api::Chat, None);
}

/// Streams of the Responses API.
pub(super) fn responses_stream(data: &[u8]) {
    stream::<Responses>(data, Api::Responses, None);
}

/// Streams of the Messages API.
pub(super) fn messages_stream(data: &[u8]) {
    stream::<Messages>(data, Api::Messages, None);
}

/// Translated streams; flags 5 and 6 are the translation.
pub(super) fn translated_stream(data: &[u8]) {
    match data.first().map_or(0, |flags| flags >> 5 & 3) {
        0 => stream::<Responses>(data, Api::Responses, Some(Translation::RESPONSES_TO_CHAT)),
        1 => stream::<Messages>(data, Api::Messages, Some(Translation::MESSAGES_TO_CHAT)),
        2 => stream::<Chat>(data, Api::Chat, Some(Translation::CHAT_TO_MESSAGES)),
        _ => stream::<Responses>(data, Api::Responses, Some(Translation::RESPONSES_TO_MESSAGES)),
    }
}

/// Buffered chat completions, also as answers to requests of the Responses API.
pub(super) fn chat_whole(data: &[u8]) {
    let Some(FuzzAnswers { input, request: own, by }) = FuzzAnswers::of(data, Api::Chat) else { return };
    let Some(begun) = begin(by, Api::Chat, &own) else { return };
    whole::<Chat>(&begun, input.parts_from(1), None);
    let asked = request(Api::Responses, "How fast is it?", &json!({"mbit": 90}).to_string());
    let Some(begun) = begin(by, Api::Responses, &asked) else { return };
    whole::<Responses>(
        &begun,
        input.parts_from(1),
        Some(&Origin::new(Translation::RESPONSES_TO_CHAT, &asked, "0".repeat(32), 1_700_000_000)),
    );
}

/// Buffered responses.
pub(super) fn responses_whole(data: &[u8]) {
    answers::<Responses>(data, Api::Responses);
}

/// Buffered messages.
pub(super) fn messages_whole(data: &[u8]) {
    answers::<Messages>(data, Api::Messages);
}

fn answers<A: Adapter>(data: &[u8], api: Api) {
    let Some(FuzzAnswers { input, request, by }) = FuzzAnswers::of(data, api) else { return };
    let Some(begun) = begin(by, api, &request) else { return };
    whole::<A>(&begun, input.parts_from(1), None);
}
