//! Authenticated encryption of the key-value store's rows: without the key nobody can read, forge, change or move a row.
//!
//! The body is sealed by a keyed digest of the text, its id and its time, and masked by a stream derived from key and digest (a synthetic
//! initialisation vector, RFC 5297's construction over BLAKE3). The id doesn't reveal the row's key. Pure.

use subtle::ConstantTimeEq as _;

const TAG_BYTES: usize = 32;

/// Key under which a value is stored and looked up.
pub type KvKey = [u8; 32];

/// A sealed row, as it is stored.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SealedRow {
    /// Id of the row: a keyed digest of its key.
    pub id: [u8; 32],
    /// Time of the put, in Unix milliseconds.
    pub at_ms: u64,
    /// The sealed value.
    pub body: Vec<u8>,
}

/// Cipher of the key-value store: the first of its keys seals, all of them open.
pub struct KvCipher(Vec<CipherKeys>);

struct CipherKeys {
    id: [u8; 32],
    tag: [u8; 32],
    mask: [u8; 32],
}

impl KvCipher {
    /// Derives the cipher's keys from those of the marks.
    pub fn new(keys: &[[u8; 32]]) -> Self {
        let derive = |key: &[u8; 32]| CipherKeys {
            id: blake3::derive_key("toolmark 2026-11-22 kept: where v1", key),
            tag: blake3::derive_key("toolmark 2026-11-22 kept: seal v1", key),
            mask: blake3::derive_key("toolmark 2026-11-22 kept: mask v1", key),
        };
        Self(keys.iter().map(derive).collect())
    }

    /// The ids that a row with this key may have, one for each of the cipher's keys.
    pub fn ids<'v>(&'v self, key: &'v KvKey) -> impl Iterator<Item = [u8; 32]> + 'v {
        self.0.iter().map(|own| *blake3::keyed_hash(&own.id, key).as_bytes())
    }

    /// Seals a value; `None` without a cipher key.
    pub fn seal(&self, key: &KvKey, at_ms: u64, plain: &[u8]) -> Option<SealedRow> {
        let own = self.0.first()?;
        let id = *blake3::keyed_hash(&own.id, key).as_bytes();
        let tag = tag(own, &id, at_ms, plain);
        let mut body = Vec::with_capacity(TAG_BYTES + plain.len());
        body.extend_from_slice(&tag);
        body.extend_from_slice(plain);
        mask(own, &tag, &mut body[TAG_BYTES..]);
        Some(SealedRow { id, at_ms, body })
    }

    /// Returns the sealed value; `None` if the row was changed, or sealed with another key.
    pub fn open(&self, key: &KvKey, row: &SealedRow) -> Option<Vec<u8>> {
        let own = self.0.iter().find(|own| *blake3::keyed_hash(&own.id, key).as_bytes() == row.id)?;
        let (sealed, masked) = row.body.split_first_chunk::<TAG_BYTES>()?;
        let mut plain = masked.to_vec();
        mask(own, sealed, &mut plain);
        bool::from(tag(own, &row.id, row.at_ms, &plain).ct_eq(sealed)).then_some(plain)
    }
}

fn tag(own: &CipherKeys, id: &[u8; 32], at_ms: u64, plain: &[u8]) -> [u8; TAG_BYTES] {
    *blake3::Hasher::new_keyed(&own.tag).update(id).update(&at_ms.to_le_bytes()).update(plain).finalize().as_bytes()
}

/// Masks a text, or unmasks it.
fn mask(own: &CipherKeys, tag: &[u8; TAG_BYTES], text: &mut [u8]) {
    let mut stream = blake3::Hasher::new_keyed(&own.mask).update(tag).finalize_xof();
    let mut block = [0; 4096];
    for part in text.chunks_mut(block.len()) {
        stream.fill(&mut block);
        part.iter_mut().zip(&block).for_each(|(byte, mask)| *byte ^= mask);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_key_opens_and_only_in_its_place_and_time() {
        let vault = KvCipher::new(&[[1; 32]]);
        let plain: Vec<u8> = (0..10_000_u32).map(|byte| byte as u8).collect();
        let row = vault.seal(&[7; 32], 5, &plain).unwrap();
        assert_eq!(vault.open(&[7; 32], &row).as_deref(), Some(&plain[..]));
        assert!(!row.body.windows(16).any(|part| plain.windows(16).any(|own| own == part)), "it is masked");
        assert_eq!(KvCipher::new(&[[3; 32], [1; 32]]).open(&[7; 32], &row).as_deref(), Some(&plain[..]), "an older key");
        assert_eq!(KvCipher::new(&[[3; 32]]).open(&[7; 32], &row), None);
        assert_eq!(vault.open(&[8; 32], &row), None);
        let other = vault.seal(&[8; 32], 5, &plain).unwrap();
        for changed in [
            SealedRow { at_ms: 6, ..row.clone() },
            SealedRow { id: other.id, ..row.clone() },
            SealedRow { body: other.body, ..row.clone() },
            SealedRow { body: row.body[..40].to_vec(), ..row.clone() },
            SealedRow { body: Vec::new(), ..row.clone() },
        ] {
            assert_eq!(vault.open(&[7; 32], &changed), None);
            assert_eq!(vault.open(&[8; 32], &changed), None);
        }
        for at in 0..64 {
            let mut changed = row.clone();
            changed.body[at] ^= 1;
            assert_eq!(vault.open(&[7; 32], &changed), None, "{at}");
        }
    }
}
