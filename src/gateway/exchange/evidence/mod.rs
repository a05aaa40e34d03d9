//! Evidence from the conversation, for judging text. Pure.

pub mod exhibit;
pub mod material;
pub mod trimmed;

use std::sync::atomic::Ordering;

use super::context::Context;
use crate::{
    claims::{
        evidence::{EvidenceIndex, tool_capabilities::ToolCapabilities},
        rules::ClaimEvidence,
        word_index::WordForm,
    },
    exchange::text::asked_for_calls,
    judge::{
        text::{Evidence, ExecutionOrigin},
        textual_calls::ToolFilter,
    },
    marks::ExecutionId,
};

/// Limit for comparisons of a name in an answer with tool names for small typos, per exchange.
const COMPARED_MAX: usize = 1 << 18;

impl Evidence for Context {
    fn whereabouts(&self, execution_id: &str) -> ExecutionOrigin {
        if let Some(execution) = self.execution(execution_id).filter(|execution| !self.inquiry.is_trimmed(&execution.id)) {
            return ExecutionOrigin::Here { expired: execution.expired };
        }
        let ours = ExecutionId::parse(execution_id).is_some_and(|id| self.ring.is_execution(&id, &self.scope));
        if ours { ExecutionOrigin::Elsewhere } else { ExecutionOrigin::NotOurs }
    }

    fn is_quotation(&self, text: &str) -> bool {
        let (own, earlier) = (self.data(), self.hidden.earlier.as_ref());
        let earlier = |at: usize| earlier.and_then(|thread| thread.data.get(at)).map(|data| &**data);
        let data = |at: usize| own.get(at).map(String::as_str).or_else(|| earlier(at.checked_sub(own.len())?));
        self.standing.has(&data, text, WordForm::Plain)
    }

    fn is_incomplete(&self) -> bool {
        self.hidden.unseen || self.hidden.lacks_evidence
    }

    fn tool_named(&self, name: &str) -> Option<&str> {
        let tools = self.tools().registry.tools().len();
        let typos = self.compared.fetch_add(tools, Ordering::Relaxed) < COMPARED_MAX;
        if typos { self.tools().registry.nearly(name) } else { self.tools().registry.in_any_case(name) }
    }

    fn is_registered(&self, name: &str) -> bool {
        self.tools().registry.tool(name).is_some() || self.tools().registry.is_execution_tool(name)
    }

    fn has_parameter(&self, tool: &str, name: &str) -> bool {
        let schema = self.tools().registry.tool(tool).map(|tool| tool.schema.as_ref());
        matches!(schema, Some(Ok(schema)) if schema.parameters().iter().any(|parameter| &*parameter.name == name))
    }

    fn written_calls(&self) -> Option<ToolFilter> {
        asked_for_calls::names(self)
    }

    fn succeeded(&self, tool: &str) -> bool {
        self.succeeded.iter().any(|name| name == tool)
    }
}

impl ClaimEvidence for Context {
    fn has_results(&self) -> bool {
        self.evidence.has_results() || self.hidden.earlier.as_ref().is_some_and(|thread| !thread.results.is_empty())
    }

    fn grounds(&self) -> Option<&EvidenceIndex> {
        Some(material::grounds(self))
    }

    fn abilities(&self) -> Option<&ToolCapabilities> {
        Some(material::abilities(self))
    }
}
