//! A policy compiled for judging, with its own tools and those of MCP servers.

use std::sync::Arc;

use crate::{
    exchange::tool_set::ToolSets,
    judge::{call::CallRules, history::result_classifier::ResultClassifier, text},
    mcp::catalog::Catalog,
    policy::compiled::CompiledPolicy,
    tools::registry::ToolSource,
    wire::json::string::quote,
};

/// Error of a policy whose tools or patterns can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ActivePolicyError {
    /// A tool in the policy's files can't be used.
    #[error("{file}: tool `{name}`: {why}")]
    Tool {
        /// The tool's file.
        file: String,
        /// The tool's name.
        name: String,
        /// Reason for which the tool can't be used.
        why: String,
    },
    /// A pattern of `calls.placeholders` is not a regular expression.
    #[error("calls.placeholders: {0}")]
    Pattern(#[from] regex::Error),
}

/// Compiled policy with its tools.
pub struct Standard {
    /// The policy.
    pub rules: Arc<CompiledPolicy>,
    /// Its rules for calls.
    pub calls: Arc<CallRules>,
    /// Its classifier of results.
    pub natures: Arc<ResultClassifier>,
    /// Its tools, and the tool sets built with them.
    pub tools: ToolSets,
    /// Its rules for text, without those that an exchange adds.
    pub text: text::TextRules,
    /// Instructions on tools for the model, as a JSON string; `None` if there are none.
    pub protocol: Option<String>,
    /// Catalog of the MCP servers' tools, with its generation.
    pub offered: Arc<(u64, Catalog)>,
}

impl Standard {
    /// Compiles a policy without MCP servers.
    ///
    /// # Errors
    /// [`ActivePolicyError`] if a tool or pattern of the policy can't be used.
    pub fn new(rules: CompiledPolicy, held_bytes_max: usize) -> Result<Self, ActivePolicyError> {
        Self::with_offered(rules, held_bytes_max, Arc::default())
    }

    /// Compiles a policy with the tools that MCP servers offer.
    pub(crate) fn with_offered(
        rules: CompiledPolicy,
        held_bytes_max: usize,
        offered: Arc<(u64, Catalog)>,
    ) -> Result<Self, ActivePolicyError> {
        let tools = tool_sets(&rules, &offered)?;
        let phrase = |claim: &crate::policy::compiled::CompiledClaim| text::PhraseRule {
            name: claim.name.to_string(),
            regex: claim.regex.clone(),
            requires: claim.requires.iter().map(ToString::to_string).collect(),
            turn: claim.turn,
            message: claim.message.to_string(),
        };
        let text = text::TextRules {
            checks: rules.checks.clone(),
            show: rules.policy.citations.show,
            extra_patterns: rules.extra_patterns.clone().into(),
            phrases: rules.claims.iter().map(phrase).collect(),
            hold_all: rules.hold_all(),
            keep_text: rules.policy.citations.require,
            held_bytes_max,
            ..text::TextRules::default()
        };
        let calls = Arc::new(CallRules::new(&rules.policy.calls, &rules.checks)?);
        let natures = Arc::new(ResultClassifier::new(rules.error_patterns.clone()));
        let protocol = rules.policy.protocol_text().map(|text| quote(&text));
        Ok(Self { rules: Arc::new(rules), calls, natures, tools, text, protocol, offered })
    }

    /// The same policy with the tools that MCP servers offer now.
    pub(crate) fn offering(&self, offered: Arc<(u64, Catalog)>) -> Result<Self, ActivePolicyError> {
        let tools = tool_sets(&self.rules, &offered)?;
        let (rules, calls, natures) = (self.rules.clone(), self.calls.clone(), self.natures.clone());
        Ok(Self { rules, calls, natures, tools, text: self.text.clone(), protocol: self.protocol.clone(), offered })
    }
}

/// The policy's tools, followed by those of MCP servers.
fn tool_sets(rules: &CompiledPolicy, offered: &Arc<(u64, Catalog)>) -> Result<ToolSets, ActivePolicyError> {
    let source = |tool: &crate::policy::compiled::PolicyTool| {
        let wrong = |why| ActivePolicyError::Tool { file: tool.file.display().to_string(), name: tool.name.to_string(), why };
        ToolSource::parse(&tool.raw).map_err(wrong)
    };
    let sources = rules.tools.iter().map(source).collect::<Result<Vec<_>, _>>()?;
    Ok(ToolSets::new(sources, offered.clone()))
}
