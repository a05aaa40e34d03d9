//! What the conversation proves, for the judging of text. Pure.

use super::{asked, context::Context, material};
use crate::judge::{
    claims::{abilities::Abilities, grounds::Grounds},
    marks::ExecutionId,
    suggest::nearly_same,
    text::{Evidence, Whereabouts},
    textual::Names,
};

impl Evidence for Context {
    fn whereabouts(&self, execution_id: &str) -> Whereabouts {
        if let Some(execution) = self.executions.iter().find(|execution| execution.id == execution_id) {
            return Whereabouts::Here { expired: execution.expired };
        }
        let ours = ExecutionId::parse(execution_id).is_some_and(|id| self.ring.is_execution(&id, &self.scope));
        if ours { Whereabouts::Elsewhere } else { Whereabouts::NotOurs }
    }

    fn is_quotation(&self, text: &str) -> bool {
        let earlier = self.hidden.earlier.iter().flat_map(|thread| &thread.data).map(|data| &**data);
        !text.is_empty() && self.data().iter().map(String::as_str).chain(earlier).any(|data| stands_in(data, text))
    }

    fn is_incomplete(&self) -> bool {
        self.hidden.unseen
    }

    fn tool_named(&self, name: &str) -> Option<&str> {
        let tools = self.tools.registry.tools();
        let exact = self.tools.registry.tool(name).map(|tool| &*tool.name);
        exact.or_else(|| tools.iter().map(|tool| &*tool.name).find(|tool| nearly_same(name, tool)))
    }

    fn is_registered(&self, name: &str) -> bool {
        let spelled = |tool: &str| crate::judge::marks::is_execution_tool(tool, name);
        self.tools.registry.tool(name).is_some() || self.tools.registry.tools().iter().any(|tool| spelled(&tool.name))
    }

    fn has_parameter(&self, tool: &str, name: &str) -> bool {
        let schema = self.tools.registry.tool(tool).map(|tool| tool.schema.as_ref());
        matches!(schema, Some(Ok(schema)) if schema.parameters().iter().any(|parameter| &*parameter.name == name))
    }

    fn written_calls(&self) -> Option<Names> {
        asked::names(self)
    }

    fn succeeded(&self, tool: &str) -> bool {
        self.succeeded.iter().any(|name| name == tool)
    }

    fn has_results(&self) -> bool {
        self.evidence.has_results()
    }

    fn grounds(&self) -> Option<&Grounds> {
        Some(material::grounds(self))
    }

    fn abilities(&self) -> Option<&Abilities> {
        Some(material::abilities(self))
    }
}

/// Does `text` stand in `data`, not as a part of a longer word?
fn stands_in(data: &str, text: &str) -> bool {
    let word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let (first, last) = (text.chars().next(), text.chars().next_back());
    data.match_indices(text).any(|(at, _)| {
        let before = data[..at].chars().next_back();
        let after = data[at + text.len()..].chars().next();
        !(word(before) && word(first) || word(after) && word(last))
    })
}
