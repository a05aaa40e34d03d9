//! Calls that toolmark runs, where an exchange is recorded or played: what came of them goes on the tape; and what a
//! cassette plays is never run again, as it has been done.

use std::sync::Arc;

use futures_util::future::join_all;

use super::Stage;
use crate::{
    cassette::line::{Ran, Servers},
    mcp::{Mcp, calls::Asked, result::Outcome},
    proxy::run::Run,
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

    fn note_ran(&mut self, asked: Asked, outcome: &Outcome) {
        if self.tape.is_some() {
            let Asked { mark, tool, arguments } = asked;
            let (result, failed) = (outcome.text.clone(), outcome.failed);
            self.ran.push(Ran { call: mark.into(), tool: tool.name.into(), arguments, result, failed });
        }
    }
}

impl Run {
    /// Runs calls, in parallel; or says what was recorded of them.
    pub(in crate::proxy) async fn run_calls(&mut self, mcp: &Arc<Mcp>, asked: Vec<Asked>) -> Vec<Outcome> {
        let one = |asked: &Asked| {
            let (recorded, asked) = (self.stage.recorded(asked), asked.clone());
            async {
                match recorded {
                    Some(outcome) => outcome,
                    None => mcp.run(asked).await,
                }
            }
        };
        let outcomes = join_all(asked.iter().map(one)).await;
        asked.into_iter().zip(&outcomes).for_each(|(asked, outcome)| self.stage.note_ran(asked, outcome));
        outcomes
    }

    /// What MCP servers had to do with the exchange, for its record.
    pub(super) fn servers(&mut self) -> Option<Servers> {
        let tools: Vec<String> = self.context.tools.offered.iter().map(ToString::to_string).collect();
        let ran = std::mem::take(&mut self.stage.ran);
        (!tools.is_empty()).then_some(Servers { tools, ran })
    }
}
