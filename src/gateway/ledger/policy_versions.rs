//! Versions of policies that replicas share: each is one row, sealed by a keyed MAC that chains it to the version before, and is kept for
//! good.
//!
//! Whoever can write the database but hasn't the key can't make a version that replicas take, nor change or swap one unseen. That the
//! newest versions were cut off is seen by a replica that has one of them in force. What is in a version is the policy's matter.

use subtle::ConstantTimeEq as _;

use super::{chain::Mac, store::StoreError};

/// A stored version.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PolicyVersion {
    /// Name of the policy.
    pub name: String,
    /// Number of the version, counting from 1.
    pub version: u64,
    /// Time of the put, in Unix milliseconds.
    pub at_ms: u64,
    /// Who put it, as they said.
    pub author: String,
    /// The policy, as one piece.
    pub body: Vec<u8>,
    /// MAC of the version before; that of none if this is the first.
    pub before: Mac,
    /// MAC over all of it.
    pub mac: Mac,
}

/// Keys of the versions, derived from those of the marks: the first seals, all verify.
#[derive(Clone)]
pub struct PolicyKeys(Vec<[u8; 32]>);

/// MAC before the first version.
pub const FIRST: Mac = [0; 32];

impl PolicyKeys {
    /// Derives the keys from those of the marks.
    pub fn new(keys: &[[u8; 32]]) -> Self {
        Self(keys.iter().map(|key| blake3::derive_key("toolmark 2026-11-25 policy in the ledger v1", key)).collect())
    }

    /// The version with its MAC.
    #[must_use]
    pub fn seal(&self, version: PolicyVersion) -> PolicyVersion {
        let mac = mac(&self.0.first().copied().unwrap_or_default(), &version);
        PolicyVersion { mac, ..version }
    }

    /// Returns whether the version is as somebody with a key put it, behind the version before.
    pub fn is_whole(&self, version: &PolicyVersion) -> bool {
        self.0.iter().any(|key| bool::from(mac(key, version).ct_eq(&version.mac)))
    }
}

fn mac(key: &[u8; 32], version: &PolicyVersion) -> Mac {
    let mut hasher = blake3::Hasher::new_keyed(key);
    for part in [version.name.as_bytes(), version.author.as_bytes(), &version.body, &version.before] {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
    }
    hasher.update(&version.version.to_le_bytes()).update(&version.at_ms.to_le_bytes());
    *hasher.finalize().as_bytes()
}

/// The table of versions. Its methods block.
pub trait PolicyTable: Send {
    /// Returns the newest version of this name, if it is newer than `than`.
    ///
    /// # Errors
    /// [`StoreError`]
    fn newest(&self, name: &str, than: u64) -> Result<Option<PolicyVersion>, StoreError>;

    /// Returns the versions of this name, the newest first, at most `limit`; of all names without one.
    ///
    /// # Errors
    /// [`StoreError`]
    fn versions(&self, name: Option<&str>, limit: usize) -> Result<Vec<PolicyVersion>, StoreError>;

    /// Returns one version.
    ///
    /// # Errors
    /// [`StoreError`]
    fn version(&self, name: &str, version: u64) -> Result<Option<PolicyVersion>, StoreError>;

    /// Stores the next version; returns its number. `keys` seal it; its own number and MACs don't count.
    ///
    /// # Errors
    /// [`StoreError`]: nothing was stored.
    fn put(&self, keys: &PolicyKeys, new: PolicyVersion) -> Result<u64, StoreError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_that_was_changed_isnt_whole() {
        let keys = PolicyKeys::new(&[[1; 32]]);
        let version = |body: &[u8]| PolicyVersion {
            name: "default".into(),
            version: 2,
            at_ms: 3,
            author: "ann".into(),
            body: body.to_vec(),
            before: [7; 32],
            mac: FIRST,
        };
        let sealed = keys.seal(version(b"policy"));
        assert!(keys.is_whole(&sealed));
        let changed = [
            PolicyVersion { name: "other".into(), ..sealed.clone() },
            PolicyVersion { version: 3, ..sealed.clone() },
            PolicyVersion { at_ms: 4, ..sealed.clone() },
            PolicyVersion { author: "bob".into(), ..sealed.clone() },
            PolicyVersion { body: b"police".to_vec(), ..sealed.clone() },
            PolicyVersion { before: FIRST, ..sealed.clone() },
            PolicyVersion { mac: [0; 32], ..sealed.clone() },
            // A part that moves into the one before it.
            PolicyVersion { author: "annp".into(), body: b"olicy".to_vec(), ..sealed.clone() },
        ];
        for changed in changed {
            assert!(!keys.is_whole(&changed), "{changed:?}");
        }
        // A key that was exchanged still verifies behind the new one.
        assert!(PolicyKeys::new(&[[2; 32], [1; 32]]).is_whole(&sealed) && !PolicyKeys::new(&[[2; 32]]).is_whole(&sealed));
    }
}
