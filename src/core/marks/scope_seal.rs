//! A caller's scope in storable form: only the key opens it, to anyone else it is a pseudonym.
//!
//! The digest of a credential never leaves the process, but judging a recording again needs the scope. So it is sealed: a keyed digest,
//! followed by the scope masked with a stream derived from key and digest (a synthetic initialisation vector, RFC 5297's construction over
//! BLAKE3). The same credential always gives the same seal.

use subtle::ConstantTimeEq as _;

use super::{KeyRing, MarkKeys, Scope};

const CREDENTIAL: &str = "credential:";
const DIGEST_BYTES: usize = 32;
const TAG_BYTES: usize = 16;

impl Scope {
    /// The scope in storable form.
    pub fn sealed(&self, ring: &KeyRing) -> String {
        let Some(digest) = self.name().strip_prefix(CREDENTIAL).and_then(|hex| blake3::Hash::from_hex(hex).ok()) else {
            return self.name().to_owned();
        };
        let Some(keys) = ring.keys.first() else { return CREDENTIAL.to_owned() };
        let digest: [u8; DIGEST_BYTES] = digest.into();
        let tag = tag(keys, &digest);
        format!("{CREDENTIAL}{}{}", hex(&tag), hex(&masked(keys, &tag, digest)))
    }

    /// Opens a stored scope; `None` if that takes another key, or it isn't a scope.
    pub fn opened(sealed: &str, ring: &KeyRing) -> Option<Self> {
        let Some(hex) = sealed.strip_prefix(CREDENTIAL) else {
            let known = matches!(sealed, "shared" | "anonymous") || sealed.strip_prefix("client:").is_some_and(|name| !name.is_empty());
            return known.then(|| Self::named(sealed));
        };
        let bytes = bytes(hex)?;
        let (own, rest) = bytes.split_first_chunk::<TAG_BYTES>()?;
        let sealed: [u8; DIGEST_BYTES] = rest.try_into().ok()?;
        ring.keys.iter().find_map(|keys| {
            let digest = masked(keys, own, sealed);
            bool::from(tag(keys, &digest).ct_eq(own)).then(|| Self::named(format!("{CREDENTIAL}{}", blake3::Hash::from(digest).to_hex())))
        })
    }
}

fn tag(keys: &MarkKeys, digest: &[u8; DIGEST_BYTES]) -> [u8; TAG_BYTES] {
    let hash = blake3::keyed_hash(&keys.seal, digest);
    let mut tag = [0; TAG_BYTES];
    tag.copy_from_slice(&hash.as_bytes()[..TAG_BYTES]);
    tag
}

/// Masks or unmasks a digest.
fn masked(keys: &MarkKeys, tag: &[u8; TAG_BYTES], mut digest: [u8; DIGEST_BYTES]) -> [u8; DIGEST_BYTES] {
    let mask = blake3::Hasher::new_keyed(&keys.seal).update(b"mask").update(tag).finalize();
    digest.iter_mut().zip(mask.as_bytes()).for_each(|(byte, mask)| *byte ^= mask);
    digest
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]).filter_map(|digit| char::from_digit(digit.into(), 16)).collect()
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    hex.as_bytes().chunks(2).map(|digits| if digits.len() == 2 { pair(digits) } else { None }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_key_opens() {
        let (ring, other) = (KeyRing::new(&[[1; 32]]), KeyRing::new(&[[2; 32]]));
        let scope = Scope::credential(b"Bearer sk-1");
        let sealed = scope.sealed(&ring);
        assert_eq!(Scope::opened(&sealed, &ring), Some(scope.clone()));
        assert_eq!(Scope::opened(&sealed, &KeyRing::new(&[[3; 32], [1; 32]])), Some(scope.clone()), "an older key");
        assert_eq!(Scope::opened(&sealed, &other), None);
        assert!(!sealed.contains(scope.name().strip_prefix(CREDENTIAL).unwrap()), "the digest itself is never written");
        assert_eq!(sealed, Scope::credential(b"Bearer sk-1").sealed(&ring), "a pseudonym");
        assert_ne!(sealed, Scope::credential(b"Bearer sk-2").sealed(&ring));
    }

    #[test]
    fn what_is_no_secret_stays_readable() {
        let ring = KeyRing::new(&[[1; 32]]);
        for (scope, text) in [(Scope::shared(), "shared"), (Scope::anonymous(), "anonymous"), (Scope::client("bot"), "client:bot")] {
            assert_eq!(scope.sealed(&ring), text);
            assert_eq!(Scope::opened(text, &ring), Some(scope));
        }
        for text in ["", "client:", "credential:", "credential:00", "credential:zz", "somebody"] {
            assert_eq!(Scope::opened(text, &ring), None, "{text}");
        }
    }

    #[test]
    fn a_changed_seal_is_none() {
        let ring = KeyRing::new(&[[1; 32]]);
        let sealed = Scope::credential(b"x").sealed(&ring);
        for at in CREDENTIAL.len()..sealed.len() {
            let mut changed = sealed.clone().into_bytes();
            changed[at] = if changed[at] == b'0' { b'1' } else { b'0' };
            assert_eq!(Scope::opened(std::str::from_utf8(&changed).unwrap(), &ring), None, "{at}");
        }
    }
}
