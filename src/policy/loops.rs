//! `[loops]`: limits for repeated calls, and the reaction to them.
//!
//! Values only. docs/contract.md#policy.

use std::{collections::BTreeMap, fmt, time::Duration};

use serde::{
    Deserialize, Deserializer,
    de::{self, MapAccess, Visitor},
};

use toolmark_config::units::duration;

/// `[loops] on_limit`.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum OnLimit {
    /// First a synthetic error, then the end of the exchange.
    #[default]
    Error,
    /// The end of the exchange at once.
    End,
}

/// A limit of calls in a window; 0 calls switches it off.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct CallRate {
    /// Number of calls; those of one turn count once.
    pub calls: u32,
    /// Length of the window.
    #[serde(with = "duration")]
    pub window: Duration,
}

/// `identical_calls`: limits for the same call with the same result. 0 switches a limit off.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Identical {
    /// Limit within the time `within`.
    pub calls: u32,
    /// Time window of `calls`.
    pub within: Duration,
    /// Limit in a row, at any speed.
    pub in_a_row: u32,
}

impl Identical {
    /// Only a limit in a row; the meaning of a plain number in a policy.
    pub const fn in_a_row(calls: u32) -> Self {
        Self { calls: 0, within: Duration::from_secs(1), in_a_row: calls }
    }
}

impl<'de> Deserialize<'de> for Identical {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(IdenticalVisitor)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct IdenticalTable {
    calls: u32,
    #[serde(with = "duration")]
    within: Duration,
    in_a_row: u32,
}

impl Default for IdenticalTable {
    fn default() -> Self {
        Self { calls: 0, within: Duration::from_secs(1), in_a_row: 0 }
    }
}

struct IdenticalVisitor;

impl<'de> Visitor<'de> for IdenticalVisitor {
    type Value = Identical;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a number of calls, or `{ calls = 20, within = \"2s\", in_a_row = 30 }`")
    }

    fn visit_u64<E: de::Error>(self, calls: u64) -> Result<Identical, E> {
        u32::try_from(calls).map(Identical::in_a_row).map_err(|_| E::custom(format!("{calls} is out of range")))
    }

    fn visit_i64<E: de::Error>(self, calls: i64) -> Result<Identical, E> {
        u32::try_from(calls).map(Identical::in_a_row).map_err(|_| E::custom(format!("{calls} is out of range")))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Identical, A::Error> {
        let table = IdenticalTable::deserialize(de::value::MapAccessDeserializer::new(map))?;
        let IdenticalTable { calls, within, in_a_row } = table;
        Ok(Identical { calls, within, in_a_row })
    }
}

/// `[loops]`
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct LoopsPolicy {
    /// Limit of failures of one tool in a row within one user turn.
    pub consecutive_failures: u32,
    /// Limit of calls of one tool.
    pub same_tool: CallRate,
    /// Limit of calls of all tools.
    pub all_tools: CallRate,
    /// Limit of calls that are the same with the same result.
    pub identical_calls: Identical,
    /// Time for which a tool stays stopped.
    #[serde(with = "duration")]
    pub cooldown: Duration,
    /// Reaction to a limit.
    pub on_limit: OnLimit,
    /// `[loops.tools.NAME]`: limits of single tools.
    pub tools: BTreeMap<String, ToolLoops>,
}

/// `[loops.tools.NAME]`: limits for this tool that override those of `[loops]`.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct ToolLoops {
    /// Limit of failures in a row.
    pub consecutive_failures: Option<u32>,
    /// Limit of calls of this tool.
    pub same_tool: Option<CallRate>,
    /// Limit of calls that are the same with the same result.
    pub identical_calls: Option<Identical>,
    /// Time for which the tool stays stopped.
    #[serde(deserialize_with = "some_duration")]
    pub cooldown: Option<Duration>,
}

/// Effective limits of one tool; 0 switches a limit off.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ToolLimits {
    /// Limit of failures in a row.
    pub consecutive_failures: u32,
    /// Limit of calls of the tool.
    pub same_tool: CallRate,
    /// Limit of calls that are the same with the same result.
    pub identical_calls: Identical,
    /// Time for which the tool stays stopped.
    pub cooldown: Duration,
}

impl Default for LoopsPolicy {
    fn default() -> Self {
        Self {
            consecutive_failures: 8,
            // Five calls a second for a minute: a fast provider answers in 200 ms, and honest runs go over rows or poll.
            same_tool: CallRate { calls: 300, window: Duration::from_secs(60) },
            all_tools: CallRate { calls: 600, window: Duration::from_secs(60) },
            identical_calls: Identical { calls: 20, within: Duration::from_secs(2), in_a_row: 30 },
            cooldown: Duration::from_secs(60),
            on_limit: OnLimit::Error,
            tools: BTreeMap::new(),
        }
    }
}

impl LoopsPolicy {
    /// The effective limits of this tool.
    // Compiled where it is used: exchanges ask, and this package isn't optimised in a quick build.
    #[inline]
    pub fn of_tool(&self, tool: &str) -> ToolLimits {
        let own = self.tools.get(tool);
        let said = |of: fn(&ToolLoops) -> Option<u32>, usual: u32| own.and_then(of).unwrap_or(usual);
        ToolLimits {
            consecutive_failures: said(|own| own.consecutive_failures, self.consecutive_failures),
            same_tool: own.and_then(|own| own.same_tool).unwrap_or(self.same_tool),
            identical_calls: own.and_then(|own| own.identical_calls).unwrap_or(self.identical_calls),
            cooldown: own.and_then(|own| own.cooldown).unwrap_or(self.cooldown),
        }
    }

    /// The longest time for which a call counts.
    pub fn longest(&self) -> Duration {
        let of_tools = self.tools.values().flat_map(|own| [own.same_tool.map(|rate| rate.window), own.cooldown]).flatten();
        of_tools.fold(self.same_tool.window.max(self.all_tools.window).max(self.cooldown), Duration::max)
    }

    /// Returns whether some tool is stopped after a single call.
    #[inline]
    pub fn forbids_repeating(&self) -> bool {
        let once = |identical: &Identical| identical.calls == 1 || identical.in_a_row == 1;
        once(&self.identical_calls) || self.tools.values().any(|own| own.identical_calls.as_ref().is_some_and(once))
    }
}

fn some_duration<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    duration::deserialize(deserializer).map(Some)
}
