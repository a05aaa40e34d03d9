//! A tool's result in the form that the model gets: text, with failures marked. Pure.

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
}
