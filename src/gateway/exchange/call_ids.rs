//! Ids of an answer's calls, where the upstream has to know them again. Pure.

use super::context::Context;
use crate::marks::MarkTime;

/// Mints the ids of one answer's calls downstream: the upstream's id with a mark appended, if each call has its own id
/// and that is short enough; otherwise the mark alone.
#[derive(Debug, Default)]
pub struct CallIdMinter {
    taken: Vec<String>,
}

impl CallIdMinter {
    /// Mints the id of the next call. `call_id` is the upstream's, and may be empty.
    pub fn mint(&mut self, context: &Context, call_id: &str, tool: &str, arguments: &str, moment: MarkTime) -> String {
        let own = self.taken.iter().all(|taken| taken != call_id).then_some(call_id);
        self.taken.push(call_id.to_owned());
        let behind = own.and_then(|id| context.ring.mint_behind(id, &context.scope, tool, arguments, moment));
        if let Some(mark) = &behind {
            context.inquiry.minted(moment, mark);
        }
        behind.unwrap_or_else(|| context.mint(tool, arguments, moment))
    }
}
