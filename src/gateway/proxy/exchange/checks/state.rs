//! Checks of state rules before an answer is released: by read-only tools of MCP servers, or by a GET.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use serde_json::{Map, Value};

use crate::{
    exchange::{
        context::{Context, JudgedChoice},
        state_checks::{self, Due, Values},
    },
    mcp::{Mcp, catalog::ServerStatus},
    policy::{state_probe::CompiledProbe, state_rules::CompiledState},
    proxy::{app::App, exchange::http_probe},
    violation::{Code, Violation},
};

/// Checks made in one exchange, each with its violation; `None` if the state agrees with the answer.
#[derive(Default)]
pub struct StateChecks(Vec<(Due, Option<Violation>)>);

impl StateChecks {
    /// Forgets all checks: the state may have changed, so they are made again.
    pub fn forget(&mut self) {
        self.0.clear();
    }

    /// Checks what an answer says, or what was called before it, against the actual state. `text`: the answer's; `None` if the policy
    /// has no state rules.
    pub async fn check(&mut self, app: &Arc<App>, context: &Context, judged: &mut [JudgedChoice], text: Option<String>) {
        let rules = context.rules.clone();
        let (Some(text), [choice]) = (text, judged) else { return };
        if !choice.turn.calls.is_empty() {
            return;
        }
        let due = state_checks::due(context, &text);
        let new: Vec<Due> = due.iter().filter(|own| !self.0.iter().any(|(known, _)| known == *own)).cloned().collect();
        let ask = |own: Due| {
            let (app, rules) = (app.clone(), rules.clone());
            async move {
                let Some(rule) = rules.state.get(own.rule) else { return (own, None) };
                let agrees = ask(&app, rule, &own.values).await;
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
        self.0.extend(asked);
        let found = |own: &Due| self.0.iter().find(|(known, _)| known == own).and_then(|(_, violation)| violation.clone());
        choice.of_text.extend(due.iter().filter_map(found));
    }
}

/// Checks one rule, within its deadline.
async fn ask(app: &App, rule: &CompiledState, values: &Values) -> Result<bool, String> {
    let found = async {
        match &rule.probe {
            CompiledProbe::Mcp { server, tool, arguments, read_only } => {
                let mcp = app.mcp.as_ref().ok_or("there are no MCP servers")?;
                by_tool(
                    mcp,
                    (server, tool),
                    *read_only,
                    state_checks::filled(arguments, values).ok_or(state_checks::MISSING)?,
                    rule.deadline,
                )
                .await
            }
            CompiledProbe::Http(probe) => http_probe::get(&app.settings.probe_hosts, probe, values).await,
        }
    };
    let found = tokio::time::timeout(rule.deadline, found).await.map_err(|_| "no answer within its deadline")??;
    state_checks::agrees(&rule.expect, values, &found)
}

async fn by_tool(mcp: &Mcp, (name, tool): (&str, &str), read_only: bool, arguments: Value, deadline: Duration) -> Result<Value, String> {
    let server = mcp.servers().iter().find(|server| *server.settings.name == *name);
    let server = server.ok_or_else(|| format!("there is no MCP server `{name}`"))?;
    let ServerStatus::Up(tools) = server.standing() else { return Err(format!("the MCP server `{name}` is down")) };
    let own = tools.iter().find(|own| *own.name == *tool).ok_or_else(|| format!("it has no tool `{tool}`"))?;
    if !(own.read_only || read_only || server.settings.read_only.selects(&own.name).unwrap_or(false)) {
        return Err(format!("`{tool}` doesn't say that it only reads: say so with `read_only = true`"));
    }
    let arguments: Map<String, Value> = arguments.as_object().cloned().unwrap_or_default();
    let connection = server.connection().map_err(|why| why.to_string())?;
    let outcome = connection.call(tool, arguments, deadline).await.map_err(|fault| fault.to_string())?;
    if outcome.failed {
        return Err("the tool reports a failure".into());
    }
    Ok(serde_json::from_str(&outcome.text).ok().or(outcome.structured).unwrap_or(Value::String(outcome.text)))
}
