//! State rules asked of the world, before an answer is released: by tools of MCP servers that only read.

use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::{Map, Value};

use super::run::Run;
use crate::{
    exchange::{
        context::JudgedChoice,
        state::{self, Due, Values},
    },
    judge::violation::{Code, Violation},
    mcp::{Mcp, catalog::Standing},
    policy::state::CompiledState,
};

/// What was asked in one exchange, and what came of it: `None` where the world agrees.
#[derive(Default)]
pub struct Asked(Vec<(Due, Option<Violation>)>);

impl Asked {
    /// The world may have changed: it is asked anew.
    pub fn forget(&mut self) {
        self.0.clear();
    }
}

impl Run {
    /// Is there anything to check?
    pub(super) fn has_state_rules(&self) -> bool {
        !self.context.rules.state.is_empty()
    }

    /// Checks what an answer says, or was preceded by, against the world.
    pub(super) async fn check_state(&mut self, judged: &mut [JudgedChoice], text: Option<String>) {
        let rules = self.context.rules.clone();
        let (Some(text), [choice]) = (text, judged) else { return };
        if !choice.turn.calls.is_empty() {
            return;
        }
        let due = state::due(&rules.state, self.context.request(), &text, &rules.error_patterns);
        let new: Vec<Due> = due.iter().filter(|own| !self.asked.0.iter().any(|(known, _)| known == *own)).cloned().collect();
        let mcp = self.worker.app.mcp.clone();
        let ask = |own: Due| {
            let (mcp, rules) = (mcp.clone(), rules.clone());
            async move {
                let Some(rule) = rules.state.get(own.rule) else { return (own, None) };
                let agrees = ask(mcp, rule, &own.values).await;
                let name = &rule.name;
                let violation = match agrees {
                    Ok(true) => None,
                    Ok(false) => {
                        let advice = "say what is really so: look with a tool, do what was to be done, or correct yourself";
                        rules.checks.violation(Code::StateMismatch, None, &*rule.message, advice)
                    }
                    Err(why) => {
                        tracing::warn!(rule = &**name, why = &*why, "the state rule `{name}` can't be checked: {why}");
                        let message = format!("whether it is as said can't be checked (`{name}`)");
                        rules.checks.violation(Code::StateUnknown, None, message, "say that it isn't confirmed")
                    }
                };
                (own, violation)
            }
        };
        let asked = join_all(new.into_iter().map(ask)).await;
        self.asked.0.extend(asked);
        let found = |own: &Due| self.asked.0.iter().find(|(known, _)| known == own).and_then(|(_, violation)| violation.clone());
        choice.of_text.extend(due.iter().filter_map(found));
    }
}

async fn ask(mcp: Option<Arc<Mcp>>, rule: &CompiledState, values: &Values) -> Result<bool, String> {
    let mcp = mcp.ok_or("there are no MCP servers")?;
    let server = mcp.servers().iter().find(|server| server.settings.name == rule.server);
    let server = server.ok_or_else(|| format!("there is no MCP server `{}`", rule.server))?;
    let Standing::Up(tools) = server.standing() else { return Err(format!("the MCP server `{}` is down", rule.server)) };
    let tool = tools.iter().find(|tool| tool.name == rule.tool).ok_or_else(|| format!("it has no tool `{}`", rule.tool))?;
    if !(tool.read_only || rule.read_only || server.settings.read_only.is(&tool.name, false)) {
        return Err(format!("`{}` doesn't say that it only reads: say so with `read_only = true`", rule.tool));
    }
    let filled = state::filled(&rule.arguments, values).ok_or("a value that the rule names is missing")?;
    let arguments: Map<String, Value> = filled.as_object().cloned().unwrap_or_default();
    let connection = server.connection().map_err(|why| why.to_string())?;
    let outcome = connection.call(&rule.tool, arguments, rule.deadline).await.map_err(|fault| fault.to_string())?;
    if outcome.failed {
        return Err("the tool reports a failure".into());
    }
    let found = serde_json::from_str(&outcome.text).ok().or(outcome.structured).unwrap_or(Value::String(outcome.text));
    state::agrees(&rule.expect, values, &found)
}
