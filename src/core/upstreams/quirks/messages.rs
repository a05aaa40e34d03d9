//! Adaptation of a request's messages: provider extras of calls, and the form of call ids.
//!
//! Each message and each call is edited only once, so that edits don't overlap.

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use super::{AdaptContext, Incompatible, ProviderExtras, Quirks};
use crate::wire::json::{Value, splice::Splices, string::quote};

/// Placeholder that Gemini accepts in place of a signature that it never issued. Source: docs/wire-facts.md#gemini.
const NO_SIGNATURE: &str = r#""extra_content":{"google":{"thought_signature":"skip_thought_signature_validator"}}"#;

/// Members with other upstreams' reasoning: useless elsewhere, and unknown to some upstreams.
const THOUGHTS: [&str; 3] = ["reasoning_content", "reasoning", "reasoning_details"];

/// Edits all messages. `dropped`: names of the members that are dropped from each.
///
/// # Errors
/// [`Incompatible::ShortIds`].
pub(super) fn edit(
    edits: &mut Splices,
    messages: Value<'_>,
    fitting: &Quirks,
    attempt: &AdaptContext<'_>,
    dropped: &[&str],
) -> Result<(), Incompatible> {
    let put_back = fitting.put_back;
    let calls_matter = fitting.short_ids || attempt.foreign || !put_back.is_nothing();
    if dropped.is_empty() && !fitting.drop_nulls && !calls_matter {
        return Ok(());
    }
    let mut short = ShortIds::default();
    for message in messages.items() {
        let role = message.get("role").and_then(Value::text).unwrap_or_default();
        let assistant = role == "assistant";
        let calls: Vec<Value<'_>> = message.get("tool_calls").filter(|_| assistant).into_iter().flat_map(Value::items).collect();
        let keeps_thoughts = put_back.reasoning || !attempt.foreign;
        let gone = |name: &str, value: Value<'_>| {
            dropped.contains(&name)
                || (assistant && fitting.drop_nulls && value.is_null() && name != "content")
                || (assistant && !keeps_thoughts && THOUGHTS.contains(&name))
        };
        let names: Vec<Cow<'_, str>> =
            message.members().filter(|member| gone(&member.name(), member.value)).map(|member| member.name()).collect();
        if !names.is_empty() {
            edits.remove_members(message, |name| names.iter().any(|own| own == name));
        }
        let kept: Vec<Option<Arc<ProviderExtras>>> = match put_back.is_nothing() {
            true => Vec::new(),
            false => calls.iter().map(|call| (attempt.recall)(&call.get("id")?.text()?)).collect(),
        };
        if put_back.reasoning && !calls.is_empty() && message.get_some("reasoning_content").is_none() {
            let thought = kept.iter().flatten().find_map(|kept| kept.reasoning.clone());
            // Turns of other models have no reasoning; without the member the request would be refused.
            let member = format!("\"reasoning_content\":{}", quote(thought.as_deref().unwrap_or_default()));
            match message.get("reasoning_content").filter(|_| !names.iter().any(|name| name == "reasoning_content")) {
                Some(null) => edits.replace(null.span(), member.split_once(':').map_or("\"\"", |(_, value)| value)),
                None => edits.append_member(message, &member),
            }
        }
        edit_calls(edits, &calls, &kept, fitting, attempt);
        if fitting.short_ids {
            let answered = message.get("tool_call_id").into_iter();
            for id in calls.iter().filter_map(|call| call.get("id")).chain(answered) {
                short.shorten(edits, id)?;
            }
        }
    }
    Ok(())
}

fn edit_calls(
    edits: &mut Splices,
    calls: &[Value<'_>],
    kept: &[Option<Arc<ProviderExtras>>],
    fitting: &Quirks,
    attempt: &AdaptContext<'_>,
) {
    if !fitting.put_back.signatures {
        let signed = calls.iter().filter(|call| attempt.foreign && call.get("extra_content").is_some());
        return signed.for_each(|call| edits.remove_members(*call, |name| name == "extra_content"));
    }
    let has = |call: &Value<'_>| call.get_some("extra_content").is_some();
    let mut signed = calls.iter().any(has);
    for (call, kept) in calls.iter().zip(kept).filter(|(call, _)| call.get("extra_content").is_none()) {
        if let Some(extra) = kept.as_ref().and_then(|kept| kept.extra_content.as_deref()) {
            edits.append_member(*call, &format!("\"extra_content\":{extra}"));
            signed = true;
        }
    }
    // The first call of a turn carries the signature of all; calls of other models have no signature.
    if let Some(first) = calls.first().filter(|first| !signed && first.get("extra_content").is_none()) {
        edits.append_member(*first, NO_SIGNATURE);
    }
}

/// Original ids by their short forms.
#[derive(Default)]
struct ShortIds(HashMap<String, String>);

impl ShortIds {
    /// Shortens an id; equal ids get equal short forms.
    fn shorten(&mut self, edits: &mut Splices, value: Value<'_>) -> Result<(), Incompatible> {
        let Some(id) = value.text() else { return Ok(()) };
        let short = short_id(&id);
        if short != *id {
            edits.replace(value.span(), quote(&short));
        }
        let owner = self.0.entry(short).or_insert_with(|| id.clone().into_owned());
        if *owner != *id {
            return Err(Incompatible::ShortIds);
        }
        Ok(())
    }
}

/// Nine alphanumerics derived from `id`; an id of that form stays unchanged.
pub(super) fn short_id(id: &str) -> String {
    const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    if id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return id.to_owned();
    }
    let digest = blake3::derive_key("toolmark 2026-11-21 short call id v1", id.as_bytes());
    // 256 is not a multiple of 62: the bias costs less than a tenth of a bit.
    digest.iter().take(9).map(|byte| char::from(DIGITS[usize::from(*byte) % 62])).collect()
}
