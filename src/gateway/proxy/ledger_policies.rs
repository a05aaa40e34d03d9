//! Policies that come from the shared ledger: the newest version of each name, checked against its seal and taken whole.
//!
//! A thread of the daemon asks for newer versions every [`POLL`]; what it finds is compiled before anything is swapped, and every
//! exchange keeps the policy that it began with. A version that can't be used is reported and left; the one before stays in force.

use std::time::Duration;

use crate::{
    ledger::{
        policy_versions::{PolicyKeys, PolicyTable, PolicyVersion},
        store::open,
    },
    policy::{bundle::PolicyBundle, compiled::CompiledPolicy, load::PolicySource},
    proxy::error::Error,
    settings::LedgerUrl,
};

/// Interval between questions for newer versions.
pub const POLL: Duration = Duration::from_millis(500);

/// Policies of this process that come from the ledger.
pub struct LedgerPolicies {
    table: Box<dyn PolicyTable>,
    keys: PolicyKeys,
    policies: Vec<LedgerPolicy>,
    /// The ledger couldn't be asked the last time.
    is_away: bool,
}

/// One of them.
struct LedgerPolicy {
    /// Index of the policy in the process.
    index: usize,
    name: Box<str>,
    /// The version in force; 0 until there is one.
    in_force: u64,
    /// The newest version that was looked at.
    seen: u64,
}

/// A newer version, compiled, or why it can't be used.
pub struct NewPolicy {
    /// Index of the policy in the process.
    pub index: usize,
    /// The version.
    pub version: PolicyVersion,
    /// What it says.
    pub rules: Result<CompiledPolicy, String>,
}

impl LedgerPolicies {
    /// Policies among these sources that come from the ledger; `None` if none does.
    ///
    /// # Errors
    /// [`Error`] if the ledger isn't shared.
    pub fn of<'s>(sources: impl Iterator<Item = &'s PolicySource>, url: &LedgerUrl, keys: &[[u8; 32]]) -> Result<Option<Self>, Error> {
        let policy = |(index, source): (usize, &PolicySource)| match source {
            PolicySource::Ledger { name, .. } => Some(LedgerPolicy { index, name: name.clone(), in_force: 0, seen: 0 }),
            PolicySource::Default | PolicySource::Strict | PolicySource::Observe | PolicySource::File(_) => None,
        };
        let policies: Vec<LedgerPolicy> = sources.enumerate().filter_map(policy).collect();
        if policies.is_empty() {
            return Ok(None);
        }
        Ok(Some(Self { table: open::policies(url)?, keys: PolicyKeys::new(keys), policies, is_away: false }))
    }

    /// Returns whether a version from the ledger is in force for the policy with this index.
    pub fn is_in_force(&self, index: usize) -> bool {
        self.policies.iter().any(|policy| policy.index == index && policy.in_force > 0)
    }

    /// Policies of which the ledger has no version: the index and the name of each.
    pub fn without_version(&self) -> impl Iterator<Item = (usize, &str)> {
        self.policies.iter().filter(|policy| policy.in_force == 0).map(|policy| (policy.index, &*policy.name))
    }

    /// Notes that a version is in force.
    pub fn put_in_force(&mut self, index: usize, version: u64) {
        self.policies.iter_mut().filter(|policy| policy.index == index).for_each(|policy| policy.in_force = version);
    }

    /// Versions that are newer than those looked at so far. Blocks. Where the ledger can't be asked there are none, and that is said
    /// once.
    pub fn newer(&mut self) -> Vec<NewPolicy> {
        let mut found = Vec::new();
        for policy in &mut self.policies {
            match self.table.newest(&policy.name, policy.seen).and_then(|newest| {
                let Some(version) = newest else { return Ok(None) };
                let before = if version.version > 1 { self.table.version(&policy.name, version.version - 1)? } else { None };
                Ok(Some((version, before)))
            }) {
                Ok(None) => {}
                Ok(Some((version, before))) => {
                    policy.seen = version.version;
                    let rules = compiled(&self.keys, &version, before.as_ref());
                    found.push(NewPolicy { index: policy.index, version, rules });
                }
                Err(error) => {
                    if !std::mem::replace(&mut self.is_away, true) {
                        tracing::warn!(%error, "the ledger can't be asked for newer policies: those in force stay");
                    }
                    return found;
                }
            }
        }
        if std::mem::replace(&mut self.is_away, false) {
            tracing::info!("the ledger can be asked for newer policies again");
        }
        found
    }

    /// Returns whether the ledger couldn't be asked the last time.
    pub fn is_away(&self) -> bool {
        self.is_away
    }
}

/// The policy of a version that is whole, and follows the one before it.
fn compiled(keys: &PolicyKeys, version: &PolicyVersion, before: Option<&PolicyVersion>) -> Result<CompiledPolicy, String> {
    let follows = version.version == 1 || before.is_some_and(|before| before.mac == version.before && keys.is_whole(before));
    if !keys.is_whole(version) || !follows {
        return Err("it isn't as somebody with toolmark's key put it: it was changed in the database, or its key isn't known here".into());
    }
    let bundle = PolicyBundle::parse(&version.body).map_err(|error| error.to_string())?;
    bundle.compile(&format!("ledger:{}, version {}", version.name, version.version)).map_err(|error| error.to_string())
}
