//! Calls that toolmark runs, where an exchange is recorded or played: what came of them goes on the tape; and what a
//! cassette plays is never run again, as it has been done.

use super::Stage;
use crate::{
    cassette::format::{Ran, Servers},
    mcp::{outcome::Outcome, runner::Asked},
    proxy::exchange::driver::Run,
};

impl Stage {
    /// What was recorded of a call that toolmark runs; `None` where it is to be run.
    fn recorded(&self, asked: &Asked) -> Option<Outcome> {
        if !self.plays() {
            return None;
        }
        let ran = self.take().and_then(|take| take.ran(&asked.mark));
        let outcome = |ran: &Ran| Outcome { text: ran.result.clone(), failed: ran.failed, structured: None };
        Some(ran.map_or_else(|| Outcome::failure("the cassette has no result of this call, and nothing is run while it plays"), outcome))
    }

    /// Notes what came of a call that toolmark ran.
    pub(in crate::proxy) fn note_ran(&mut self, mark: &str, tool: &str, arguments: &str, outcome: &Outcome) {
        if self.tape.is_some() {
            let (result, failed) = (outcome.text.clone(), outcome.failed);
            self.ran.push(Ran { call: mark.into(), tool: tool.into(), arguments: arguments.into(), result, failed });
        }
    }
}

impl Run {
    /// What was recorded of calls, where a cassette plays: then none of them is run.
    pub(in crate::proxy) fn recorded_calls<'a>(&mut self, asked: impl Iterator<Item = &'a Asked>) -> Option<Vec<Outcome>> {
        let mut outcomes = Vec::new();
        for asked in asked {
            let outcome = self.stage.recorded(asked)?;
            self.stage.note_ran(&asked.mark, &asked.tool.name, &asked.arguments, &outcome);
            outcomes.push(outcome);
        }
        Some(outcomes)
    }

    /// What MCP servers had to do with the exchange, for its record.
    pub(super) fn servers(&mut self) -> Option<Servers> {
        let tools: Vec<String> = self.context.tools.offered.iter().map(ToString::to_string).collect();
        let ran = std::mem::take(&mut self.stage.ran);
        (!tools.is_empty()).then_some(Servers { tools, ran })
    }
}
