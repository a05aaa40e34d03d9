//! A tool's result in the form that the model gets: text, bounded, with failures marked. Pure.

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};

/// Limit for the text of a result, in bytes.
pub const RESULT_BYTES_MAX: usize = 256 << 10;

/// Outcome of a call.
#[derive(Clone, Debug, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct ToolOutcome {
    /// Text for the model.
    pub text: String,
    /// The call failed.
    pub failed: bool,
    /// Structured content of the result.
    pub structured: Option<serde_json::Value>,
}

impl ToolOutcome {
    /// A failure reported by toolmark itself.
    pub fn failure(message: &str) -> Self {
        Self { text: format!("Error: {message}"), failed: true, structured: None }
    }

    /// Outcome from a server's result.
    pub fn of(result: &CallToolResult) -> Self {
        let mut parts: Vec<String> = result.content.iter().map(part).collect();
        let has_text = result.content.iter().any(|block| matches!(block, ContentBlock::Text(_)));
        if let Some(structured) = result.structured_content.as_ref().filter(|_| !has_text) {
            parts.insert(0, structured.to_string());
        }
        let text = bounded(parts.join("\n"));
        if result.is_error != Some(true) {
            return Self { text, failed: false, structured: result.structured_content.clone() };
        }
        // Said so that it is read as a failure wherever results are looked at.
        let said = text.get(..6).is_some_and(|begin| begin.eq_ignore_ascii_case("error:"));
        let text =
            if said { text } else { format!("Error: {}", if text.is_empty() { "the tool failed and didn't say why" } else { &text }) };
        Self { text, failed: true, structured: None }
    }
}

fn part(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => left_out("an image", &image.mime_type, image.data.len()),
        ContentBlock::Audio(audio) => left_out("audio", &audio.mime_type, audio.data.len()),
        ContentBlock::Resource(resource) => match &resource.resource {
            ResourceContents::TextResourceContents { text, .. } => text.clone(),
            ResourceContents::BlobResourceContents { mime_type, blob, .. } => {
                left_out("a resource", mime_type.as_deref().unwrap_or("of an unknown type"), blob.len())
            }
            _ => "[a resource of an unknown kind is left out]".into(),
        },
        ContentBlock::ResourceLink(link) => format!("[{}]({})", link.name, link.uri),
        _ => "[content of an unknown kind is left out]".into(),
    }
}

fn left_out(what: &str, kind: &str, base64_bytes: usize) -> String {
    format!("[{what}, {kind}, {} bytes, is left out: results are text here]", base64_bytes / 4 * 3)
}

fn bounded(mut text: String) -> String {
    let whole = text.len();
    if whole > RESULT_BYTES_MAX {
        let mut end = RESULT_BYTES_MAX;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push_str(&format!("\n[cut here by toolmark: the result has {whole} bytes]"));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn outcome(result: serde_json::Value) -> ToolOutcome {
        ToolOutcome::of(&serde_json::from_value(result).unwrap())
    }

    #[test]
    fn results_become_text() {
        for (result, text, failed) in [
            (json!({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}), "a\nb", false),
            (json!({"content": [{"type": "text", "text": "[1]"}], "structuredContent": {"x": [1]}}), "[1]", false),
            (json!({"content": [], "structuredContent": {"x": [1]}}), r#"{"x":[1]}"#, false),
            (json!({"content": [{"type": "text", "text": "no such task"}], "isError": true}), "Error: no such task", true),
            (json!({"content": [], "isError": true}), "Error: the tool failed and didn't say why", true),
            (
                json!({"content": [{"type": "image", "data": "AAAA", "mimeType": "image/png"}]}),
                "[an image, image/png, 3 bytes, is left out: results are text here]",
                false,
            ),
            (json!({"content": [{"type": "resource_link", "uri": "file:///a", "name": "a"}]}), "[a](file:///a)", false),
            (json!({"content": [{"type": "resource", "resource": {"uri": "x:", "text": "t"}}]}), "t", false),
        ] {
            let own = outcome(result.clone());
            assert_eq!((own.text.as_str(), own.failed), (text, failed), "{result}");
        }
    }

    #[test]
    fn a_long_result_is_cut_and_says_so() {
        let long = outcome(json!({"content": [{"type": "text", "text": "ü".repeat(RESULT_BYTES_MAX)}]}));
        assert!(long.text.len() < RESULT_BYTES_MAX + 100 && long.text.ends_with("the result has 524288 bytes]"), "{}", long.text.len());
    }
}
