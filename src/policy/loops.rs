//! `[loops]`: when a run has gone in circles for long enough, and what happens then.
//!
//! Values only. CONTRACT.md, "Policy"; issue "Upstreams and loops".

use std::{collections::BTreeMap, time::Duration};

use serde::Deserialize;

use super::duration;

/// `[loops] on_limit`.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum OnLimit {
    /// A synthetic error first, then the end.
    #[default]
    Error,
    /// The end at once.
    End,
}

/// A number of calls in a window; 0 calls switches the check off.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// Calls; those of one turn count once.
    pub calls: u32,
    /// In how long.
    #[serde(with = "duration")]
    pub window: Duration,
}

/// `[loops]`
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Loops {
    /// Failures of one tool in a row within one user turn.
    pub consecutive_failures: u32,
    /// Calls of one tool.
    pub same_tool: Rate,
    /// Calls of all tools.
    pub all_tools: Rate,
    /// The same call with the same result in a row.
    pub identical_calls: u32,
    /// How long a tool stays stopped.
    #[serde(with = "duration")]
    pub cooldown: Duration,
    /// What happens at a limit.
    pub on_limit: OnLimit,
    /// `[loops.tools.NAME]`: limits of single tools.
    pub tools: BTreeMap<String, ToolLoops>,
}

/// `[loops.tools.NAME]`: what is said here counts for this tool instead of what `[loops]` says.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct ToolLoops {
    /// Failures in a row.
    pub consecutive_failures: Option<u32>,
    /// Calls of this tool.
    pub same_tool: Option<Rate>,
    /// The same call with the same result in a row.
    pub identical_calls: Option<u32>,
    /// How long it stays stopped.
    #[serde(deserialize_with = "some_duration")]
    pub cooldown: Option<Duration>,
}

/// What holds for one tool; 0 switches a limit off.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ToolLimits {
    /// Failures in a row.
    pub consecutive_failures: u32,
    /// Calls of it.
    pub same_tool: Rate,
    /// The same call with the same result in a row.
    pub identical_calls: u32,
    /// How long it stays stopped.
    pub cooldown: Duration,
}

impl Default for Loops {
    fn default() -> Self {
        Self {
            consecutive_failures: 8,
            same_tool: Rate { calls: 20, window: Duration::from_secs(10) },
            all_tools: Rate { calls: 60, window: Duration::from_secs(5) },
            identical_calls: 5,
            cooldown: Duration::from_secs(60),
            on_limit: OnLimit::Error,
            tools: BTreeMap::new(),
        }
    }
}

impl Loops {
    /// The limits of this tool.
    pub fn of_tool(&self, tool: &str) -> ToolLimits {
        let own = self.tools.get(tool);
        let said = |of: fn(&ToolLoops) -> Option<u32>, usual: u32| own.and_then(of).unwrap_or(usual);
        ToolLimits {
            consecutive_failures: said(|own| own.consecutive_failures, self.consecutive_failures),
            same_tool: own.and_then(|own| own.same_tool).unwrap_or(self.same_tool),
            identical_calls: said(|own| own.identical_calls, self.identical_calls),
            cooldown: own.and_then(|own| own.cooldown).unwrap_or(self.cooldown),
        }
    }

    /// Is a tool stopped that has been called once?
    pub fn forbids_repeating(&self) -> bool {
        self.identical_calls == 1 || self.tools.values().any(|own| own.identical_calls == Some(1))
    }
}

fn some_duration<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    duration::deserialize(deserializer).map(Some)
}
