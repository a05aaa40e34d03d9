//! Digests of records: hex digits in exports and in the admin API, bytes where they are stored.

use std::fmt;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// A BLAKE3 digest, as `b3sum` prints it.
#[derive(Clone, Copy, Decode, Encode, Eq, Hash, PartialEq)]
#[cbor(transparent)]
pub struct Digest(#[cbor(n(0), with = "minicbor::bytes")] pub [u8; 32]);

impl Digest {
    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&blake3::Hash::from(self.0).to_hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&blake3::Hash::from(self.0).to_hex())
    }
}

impl<'d> Deserialize<'d> for Digest {
    fn deserialize<D: Deserializer<'d>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'d, str>::deserialize(deserializer)?;
        blake3::Hash::from_hex(&*text).map(|hash| Self(*hash.as_bytes())).map_err(D::Error::custom)
    }
}

/// Scope of an exchange's marks, as a keyed digest (16 hex digits): equal for equal callers, but it doesn't reveal the caller.
#[derive(Clone, Copy, Debug, Decode, Default, Encode, Eq, Hash, PartialEq)]
#[cbor(transparent)]
pub struct ScopeDigest(#[n(0)] pub u64);

impl Serialize for ScopeDigest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:016x}", self.0))
    }
}

impl<'d> Deserialize<'d> for ScopeDigest {
    fn deserialize<D: Deserializer<'d>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'d, str>::deserialize(deserializer)?;
        u64::from_str_radix(&text, 16).map(Self).map_err(D::Error::custom)
    }
}
