//! Contents of messages and outputs of the Responses API, part by part. Pure.

use crate::{
    translate::request::{
        Untranslatable,
        form::{ContentPart, TurnContent},
        kind_of, string,
    },
    wire::json::Value,
};

/// Author of a content; each may have other parts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ContentRole {
    /// Texts, images, sounds and files.
    User,
    /// Texts.
    System,
    /// Texts.
    Tool,
}

/// Reads a content.
///
/// # Errors
/// [`Untranslatable`] for parts that don't belong there.
pub(super) fn content<'d>(content: Value<'d>, speaker: ContentRole, param: &str) -> Result<TurnContent<'d>, Untranslatable> {
    if content.is_string() {
        return Ok(TurnContent::Plain(content.raw_str().into()));
    }
    if !content.is_array() {
        return Err(Untranslatable::malformed(param, "a string or an array"));
    }
    let each = |(at, value)| part(value, speaker, &format!("{param}[{at}]"));
    content.items().enumerate().map(each).collect::<Result<_, _>>().map(TurnContent::Parts)
}

fn part<'d>(part: Value<'d>, speaker: ContentRole, param: &str) -> Result<ContentPart<'d>, Untranslatable> {
    match (&*kind_of(part, param)?, speaker) {
        ("input_text" | "output_text", _) => Ok(ContentPart::Text(string(part, "text", param)?.raw_str().into())),
        ("input_image", ContentRole::User) => image(part, param),
        ("input_file", ContentRole::User) => file(part, param),
        ("input_audio", ContentRole::User) => Ok(ContentPart::Audio(part.raw_str().into())),
        (kind, _) => Err(Untranslatable::uncarried(param, kind)),
    }
}

fn image<'d>(part: Value<'d>, param: &str) -> Result<ContentPart<'d>, Untranslatable> {
    if part.get_some("file_id").is_some() {
        return Err(Untranslatable::uncarried(format!("{param}.file_id"), "file_id"));
    }
    let url = string(part, "image_url", param)?.raw_str().into();
    Ok(ContentPart::Image { url, detail: part.get_some("detail").map(|detail| detail.raw_str().into()) })
}

fn file<'d>(part: Value<'d>, param: &str) -> Result<ContentPart<'d>, Untranslatable> {
    if let Some(name) = ["file_id", "file_url"].into_iter().find(|name| part.get_some(name).is_some()) {
        return Err(Untranslatable::uncarried(format!("{param}.{name}"), name));
    }
    let data = string(part, "file_data", param)?.raw_str().into();
    Ok(ContentPart::File { name: part.get_some("filename").map(|name| name.raw_str().into()), data })
}

/// Texts and refusals of an assistant message, each a string.
#[derive(Debug, Default)]
pub(super) struct AssistantContent<'d> {
    pub texts: Vec<Value<'d>>,
    pub refusals: Vec<Value<'d>>,
}

/// Reads the content of an assistant message.
///
/// # Errors
/// [`Untranslatable`] for parts that don't belong in an assistant message.
pub(super) fn said<'d>(content: Value<'d>, param: &str) -> Result<AssistantContent<'d>, Untranslatable> {
    let mut said = AssistantContent::default();
    if content.is_string() {
        said.texts.push(content);
        return Ok(said);
    }
    if !content.is_array() {
        return Err(Untranslatable::malformed(param, "a string or an array"));
    }
    for (at, part) in content.items().enumerate() {
        let param = format!("{param}[{at}]");
        match &*kind_of(part, &param)? {
            "output_text" | "input_text" => said.texts.push(string(part, "text", &param)?),
            "refusal" => said.refusals.push(string(part, "refusal", &param)?),
            kind => return Err(Untranslatable::uncarried(param, kind)),
        }
    }
    Ok(said)
}
