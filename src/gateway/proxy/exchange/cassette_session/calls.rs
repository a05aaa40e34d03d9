//! Tool calls of an exchange that is recorded or played: their outcomes are recorded, and during playback no call is run again.

use super::CassetteSession;
use crate::{
    cassette::format::{RecordedMcp, RecordedToolRun},
    exchange::context::Context,
    mcp::{outcome::ToolOutcome, runner::ToolCallRequest},
};

impl CassetteSession {
    /// Recorded outcome of a call that toolmark would run; `None` if nothing is played, so that it is to be run.
    fn recorded(&self, asked: &ToolCallRequest) -> Option<ToolOutcome> {
        if !self.plays() {
            return None;
        }
        let ran = self.take().and_then(|take| take.ran(&asked.mark));
        let outcome = |ran: &RecordedToolRun| ToolOutcome { text: ran.result.clone(), failed: ran.failed, structured: None };
        Some(
            ran.map_or_else(|| ToolOutcome::failure("the cassette has no result of this call, and nothing is run while it plays"), outcome),
        )
    }

    /// Records the outcome of a call that toolmark ran.
    pub(in crate::proxy) fn note_ran(&mut self, mark: &str, tool: &str, arguments: &str, outcome: &ToolOutcome) {
        if self.tape.is_some() {
            let (result, failed) = (outcome.text.clone(), outcome.failed);
            self.ran.push(RecordedToolRun { call: mark.into(), tool: tool.into(), arguments: arguments.into(), result, failed });
        }
    }

    /// Recorded outcomes of these calls, if a cassette is played: then none of them is run.
    pub(in crate::proxy) fn recorded_calls<'a>(&mut self, asked: impl Iterator<Item = &'a ToolCallRequest>) -> Option<Vec<ToolOutcome>> {
        let mut outcomes = Vec::new();
        for asked in asked {
            let outcome = self.recorded(asked)?;
            self.note_ran(&asked.mark, &asked.tool.name, &asked.arguments, &outcome);
            outcomes.push(outcome);
        }
        Some(outcomes)
    }

    /// Tools that MCP servers offered and calls that were run, for the recording.
    pub(super) fn servers(&mut self, context: &Context) -> Option<RecordedMcp> {
        let tools: Vec<String> = context.tools().offered.iter().map(ToString::to_string).collect();
        let ran = std::mem::take(&mut self.ran);
        (!tools.is_empty()).then_some(RecordedMcp { tools, ran })
    }
}
