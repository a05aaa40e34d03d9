//! The chain: each record carries a keyed MAC over itself, its place and the MAC before it.
//!
//! Anyone who changes, removes, inserts or swaps records without the key breaks it. It can't detect that the newest records were cut off:
//! the rest is still a valid chain, so only an anchor kept elsewhere shows the loss. Whoever has the key can write another chain. Pure.

use subtle::ConstantTimeEq as _;

/// A MAC of the chain.
pub type Mac = [u8; 32];

/// The keys of the chain, derived from those of the marks: the first seals, all verify.
#[derive(Clone)]
pub struct ChainKeys(Vec<ChainKey>);

#[derive(Clone)]
struct ChainKey {
    record: [u8; 32],
    anchor: [u8; 32],
    row: [u8; 32],
}

/// Start of a chain whose older records were removed for their age. Sealed, so that nobody without the key can cut the chain.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Anchor {
    /// Number of the writer that the chain belongs to.
    pub writer: u32,
    /// Sequence number of the last record that was removed.
    pub sequence: u64,
    /// MAC of that record: the first remaining record was chained to it.
    pub mac: Mac,
    /// Time of the removal, in Unix milliseconds.
    pub pruned_ms: u64,
    /// MAC over all other fields.
    pub seal: Mac,
}

impl ChainKeys {
    /// Derives the chain's keys from those of the marks.
    pub fn new(keys: &[[u8; 32]]) -> Self {
        let keys = keys.iter().map(|key| ChainKey {
            record: blake3::derive_key("toolmark 2026-11-22 ledger record v1", key),
            anchor: blake3::derive_key("toolmark 2026-11-22 ledger anchor v1", key),
            row: blake3::derive_key("toolmark 2026-11-22 ledger row v1", key),
        });
        Self(keys.collect())
    }

    fn first(&self) -> ChainKey {
        // Without a key nothing is ever written: the settings see to it.
        self.0.first().cloned().unwrap_or(ChainKey { record: [0; 32], anchor: [0; 32], row: [0; 32] })
    }

    /// Start value of a writer's chain, in place of the MAC before its first record.
    pub fn genesis(writer: u32) -> Mac {
        *blake3::Hasher::new_derive_key("toolmark 2026-11-22 ledger genesis v1").update(&writer.to_le_bytes()).finalize().as_bytes()
    }

    /// The MAC of a record. `before`: the MAC of the record before it.
    pub fn record(&self, writer: u32, sequence: u64, before: &Mac, body: &[u8]) -> Mac {
        record_mac(&self.first().record, writer, sequence, before, body)
    }

    /// Returns whether this is the MAC of that record, under any of the keys.
    pub fn is_record(&self, mac: &Mac, writer: u32, sequence: u64, before: &Mac, body: &[u8]) -> bool {
        self.0.iter().any(|keys| bool::from(record_mac(&keys.record, writer, sequence, before, body).ct_eq(mac)))
    }

    /// Seals the position up to which a chain was removed.
    pub fn anchor(&self, writer: u32, sequence: u64, mac: Mac, pruned_ms: u64) -> Anchor {
        Anchor { writer, sequence, mac, pruned_ms, seal: anchor_seal(&self.first().anchor, writer, sequence, &mac, pruned_ms) }
    }

    /// Returns whether the anchor's seal is valid under any of the keys.
    pub fn is_anchor(&self, anchor: &Anchor) -> bool {
        let seal = |keys: &ChainKey| anchor_seal(&keys.anchor, anchor.writer, anchor.sequence, &anchor.mac, anchor.pruned_ms);
        self.0.iter().any(|keys| bool::from(seal(keys).ct_eq(&anchor.seal)))
    }

    /// The MAC of a row that is not a record: over `parts`, in their order.
    pub fn row(&self, parts: &[&[u8]]) -> Mac {
        row_mac(&self.first().row, parts)
    }

    /// Returns whether this is the MAC of that row, under any of the keys.
    pub fn is_row(&self, mac: &[u8], parts: &[&[u8]]) -> bool {
        self.0.iter().any(|keys| bool::from(row_mac(&keys.row, parts)[..].ct_eq(mac)))
    }
}

impl std::fmt::Debug for ChainKeys {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "ChainKeys({} keys)", self.0.len())
    }
}

fn record_mac(key: &[u8; 32], writer: u32, sequence: u64, before: &Mac, body: &[u8]) -> Mac {
    let mut hasher = blake3::Hasher::new_keyed(key);
    // All but the last have a fixed length, so nothing can be moved between them.
    hasher.update(&writer.to_le_bytes()).update(&sequence.to_le_bytes()).update(before).update(body);
    *hasher.finalize().as_bytes()
}

fn anchor_seal(key: &[u8; 32], writer: u32, sequence: u64, mac: &Mac, pruned_ms: u64) -> Mac {
    let mut hasher = blake3::Hasher::new_keyed(key);
    hasher.update(&writer.to_le_bytes()).update(&sequence.to_le_bytes()).update(mac).update(&pruned_ms.to_le_bytes());
    *hasher.finalize().as_bytes()
}

fn row_mac(key: &[u8; 32], parts: &[&[u8]]) -> Mac {
    let mut hasher = blake3::Hasher::new_keyed(key);
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
    }
    *hasher.finalize().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_counts_and_every_key_verifies() {
        let (old, new) = ([1; 32], [2; 32]);
        let keys = ChainKeys::new(&[old]);
        let before = ChainKeys::genesis(1);
        let mac = keys.record(1, 7, &before, b"body");
        let rotated = ChainKeys::new(&[new, old]);
        assert!(rotated.is_record(&mac, 1, 7, &before, b"body"));
        assert_ne!(rotated.record(1, 7, &before, b"body"), mac);
        for (writer, sequence, before, body) in
            [(2, 7, before, b"body"), (1, 8, before, b"body"), (1, 7, ChainKeys::genesis(2), b"body"), (1, 7, before, b"bodz")]
        {
            assert!(!rotated.is_record(&mac, writer, sequence, &before, body));
        }
        assert!(!ChainKeys::new(&[new]).is_record(&mac, 1, 7, &before, b"body"));
        assert!(!ChainKeys::new(&[]).is_record(&mac, 1, 7, &before, b"body"));
    }

    #[test]
    fn anchors_and_rows_are_sealed() {
        let keys = ChainKeys::new(&[[1; 32]]);
        let anchor = keys.anchor(1, 10, [3; 32], 99);
        assert!(keys.is_anchor(&anchor));
        for changed in [
            Anchor { writer: 2, ..anchor.clone() },
            Anchor { sequence: 11, ..anchor.clone() },
            Anchor { mac: [4; 32], ..anchor.clone() },
            Anchor { pruned_ms: 98, ..anchor.clone() },
        ] {
            assert!(!keys.is_anchor(&changed));
        }
        let row = keys.row(&[b"ab", b"c"]);
        assert!(keys.is_row(&row, &[b"ab", b"c"]) && !keys.is_row(&row, &[b"a", b"bc"]) && !keys.is_row(&[], &[b"ab", b"c"]));
    }
}
