//! Contents of messages and outputs, part by part. Pure.

use super::tools::kind_of;
use crate::{
    translate::request::{Untranslatable, picked},
    wire::json::Value,
};

/// Author of a content; chat allows different parts for each.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::translate) enum ContentRole {
    /// Texts, images, sounds and files.
    User,
    /// Texts.
    System,
    /// Texts.
    Tool,
}

/// The content of a chat message, JSON.
///
/// # Errors
/// [`Untranslatable`] for parts that chat doesn't allow there.
pub(in crate::translate) fn content(content: Value<'_>, speaker: ContentRole, param: &str) -> Result<String, Untranslatable> {
    if content.is_string() {
        return Ok(content.raw_str().to_owned());
    }
    if !content.is_array() {
        return Err(Untranslatable::malformed(param, "a string or an array"));
    }
    let each = |(at, value)| part(value, speaker, &format!("{param}[{at}]"));
    let parts = content.items().enumerate().map(each).collect::<Result<Vec<_>, _>>()?;
    // Chat wants at least one part.
    Ok(if parts.is_empty() { "\"\"".to_owned() } else { format!("[{}]", parts.join(",")) })
}

fn part(part: Value<'_>, speaker: ContentRole, param: &str) -> Result<String, Untranslatable> {
    match (&*kind_of(part, param)?, speaker) {
        ("input_text" | "output_text", _) => Ok(format!(r#"{{"type":"text","text":{}}}"#, string(part, "text", param)?.raw_str())),
        ("input_image", ContentRole::User) => image(part, param),
        ("input_file", ContentRole::User) => file(part, param),
        ("input_audio", ContentRole::User) => Ok(part.raw_str().to_owned()),
        (kind, _) => Err(Untranslatable::uncarried(param, kind)),
    }
}

fn image(part: Value<'_>, param: &str) -> Result<String, Untranslatable> {
    if part.get_some("file_id").is_some() {
        return Err(Untranslatable::uncarried(format!("{param}.file_id"), "file_id"));
    }
    let url = string(part, "image_url", param)?.raw_str();
    let detail = part.get_some("detail").map(|detail| format!(",\"detail\":{}", detail.raw_str())).unwrap_or_default();
    Ok(format!(r#"{{"type":"image_url","image_url":{{"url":{url}{detail}}}}}"#))
}

fn file(part: Value<'_>, param: &str) -> Result<String, Untranslatable> {
    if let Some(name) = ["file_id", "file_url"].into_iter().find(|name| part.get_some(name).is_some()) {
        return Err(Untranslatable::uncarried(format!("{param}.{name}"), name));
    }
    string(part, "file_data", param)?;
    Ok(format!(r#"{{"type":"file","file":{}}}"#, picked(part, &["filename", "file_data"])))
}

/// Texts and refusals of an assistant message, each a string.
#[derive(Debug, Default)]
pub(in crate::translate) struct AssistantContent<'d> {
    pub texts: Vec<Value<'d>>,
    pub refusals: Vec<Value<'d>>,
}

/// Reads the content of an assistant message.
///
/// # Errors
/// [`Untranslatable`] for parts that don't belong in an assistant message.
pub(in crate::translate) fn said<'d>(content: Value<'d>, param: &str) -> Result<AssistantContent<'d>, Untranslatable> {
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

/// The member `name`, a string.
///
/// # Errors
/// [`Untranslatable`] if it isn't a string.
pub(in crate::translate) fn string<'d>(object: Value<'d>, name: &str, param: &str) -> Result<Value<'d>, Untranslatable> {
    let value = object.get(name).filter(|value| value.is_string());
    value.ok_or_else(|| Untranslatable::malformed(format!("{param}.{name}"), "a string"))
}
