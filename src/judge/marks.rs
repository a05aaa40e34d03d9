//! Marks: call marks and execution IDs, minted and verified without asking anyone.
//!
//! DESIGN.md, "Marks". All MACs are BLAKE3 keyed hashes, with a derived key per purpose; comparisons take
//! constant time. Pure: time and counter come in as values.

use std::fmt::Write as _;

use subtle::ConstantTimeEq;

use crate::wire::canonical::canonical;

/// A call mark on chat: `call_` and 32 hex digits.
pub const CALL_MARK_BYTES: usize = 37;
const COUNTER_BITS: u32 = 12;
const MAC_BITS_CALL: u32 = 62;
const MAC_BITS_EXECUTION: u32 = 52;

/// The keys: the first mints, all verify.
#[derive(Clone)]
pub struct KeyRing(Vec<Keys>);

#[derive(Clone)]
struct Keys {
    call: [u8; 32],
    execution: [u8; 32],
}

/// Whose marks these are: what every MAC is bound to.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Scope(Box<str>);

impl Scope {
    /// Marks of this scope are good for every caller.
    pub fn shared() -> Self {
        Self("shared".into())
    }

    /// A caller that `[[clients]]` names.
    pub fn client(name: &str) -> Self {
        Self(format!("client:{name}").into())
    }

    /// A caller known by its credential only. No key goes in, so that exchanging keys changes nobody's
    /// scope; the digest never leaves the process, only MACs over it do.
    pub fn credential(credential: &[u8]) -> Self {
        let digest = blake3::derive_key("toolmark 2026-11-21 scope of a credential v1", credential);
        Self(format!("credential:{}", blake3::Hash::from(digest).to_hex()).into())
    }

    /// A caller without a name or a credential.
    pub fn anonymous() -> Self {
        Self("anonymous".into())
    }
}

/// When and where in its millisecond a call was let through.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Moment {
    /// Unix milliseconds, 48 bits.
    pub time_ms: u64,
    /// 12 bits.
    pub counter: u16,
}

impl KeyRing {
    /// A ring of these keys; the first mints. An empty list gives a ring that verifies nothing and mints
    /// under a zero key: callers never do that.
    pub fn new(keys: &[[u8; 32]]) -> Self {
        let derive = |purpose: &str, key: &[u8; 32]| blake3::derive_key(purpose, key);
        let keys = keys.iter().map(|key| Keys {
            call: derive("toolmark 2026-11-21 call mark v1", key),
            execution: derive("toolmark 2026-11-21 execution id v1", key),
        });
        Self(keys.collect())
    }

    /// The call mark of a call that is let through.
    pub fn mint(&self, scope: &Scope, tool: &str, arguments: &str, moment: Moment) -> String {
        let mac = self.0.first().map_or(0, |keys| call_mac(&keys.call, scope, tool, arguments, moment));
        let mut bytes = [0u8; 16];
        bytes[..6].copy_from_slice(&moment.time_ms.to_be_bytes()[2..]);
        let version = 0x8000 | (moment.counter & 0x0fff);
        bytes[6..8].copy_from_slice(&version.to_be_bytes());
        let variant = (0b10 << MAC_BITS_CALL) | mac;
        bytes[8..].copy_from_slice(&variant.to_be_bytes());
        let mut mark = String::with_capacity(CALL_MARK_BYTES);
        mark.push_str("call_");
        for byte in bytes {
            mark.push(char::from(HEX[usize::from(byte >> 4)]));
            mark.push(char::from(HEX[usize::from(byte & 15)]));
        }
        mark
    }

    /// The moment of a mark that fits this scope, tool and arguments; `None` for any other.
    pub fn verify(&self, mark: &CallMark, scope: &Scope, tool: &str, arguments: &str) -> Option<Moment> {
        let fits = |keys: &Keys| {
            let mac = call_mac(&keys.call, scope, tool, arguments, mark.moment);
            bool::from(mac.ct_eq(&mark.mac))
        };
        self.0.iter().any(fits).then_some(mark.moment)
    }

    /// The execution ID that follows from a call mark's moment.
    pub fn execution_id(&self, scope: &Scope, tool: &str, moment: Moment) -> String {
        let tool = execution_tool(tool);
        let mac = self.0.first().map_or(0, |keys| execution_mac(&keys.execution, scope, &tool, moment));
        let tail = (u64::from(moment.counter & 0x0fff) << MAC_BITS_EXECUTION) | mac;
        let mut id = tool;
        // Writing to a String can't fail.
        let _ = write!(id, "_{:013}_{tail:016x}", moment.time_ms);
        id
    }

    /// True where the ID was issued in this scope.
    pub fn is_execution(&self, id: &ExecutionId<'_>, scope: &Scope) -> bool {
        self.0.iter().any(|keys| {
            let mac = execution_mac(&keys.execution, scope, id.tool, id.moment);
            bool::from(mac.ct_eq(&id.mac))
        })
    }
}

impl std::fmt::Debug for KeyRing {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "KeyRing({} keys)", self.0.len())
    }
}

const HEX: &[u8; 16] = b"0123456789abcdef";

/// A string in the shape of a call mark. Whether it is one, [`KeyRing::verify`] tells.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CallMark {
    moment: Moment,
    mac: u64,
}

impl CallMark {
    /// `None` for what has another shape: `^call_[0-9a-f]{32}$`, the hex a UUIDv8 (RFC 9562, 5.8).
    pub fn parse(id: &str) -> Option<Self> {
        let hex = id.strip_prefix("call_").filter(|hex| hex.len() == 32 && hex.bytes().all(is_lower_hex))?;
        let bits = u128::from_str_radix(hex, 16).ok()?;
        if (bits >> 76) & 0xf != 8 || (bits >> 62) & 0b11 != 0b10 {
            return None;
        }
        let counter = ((bits >> 64) & 0x0fff) as u16;
        let moment = Moment { time_ms: (bits >> 80) as u64, counter };
        Some(Self { moment, mac: (bits as u64) & ((1 << MAC_BITS_CALL) - 1) })
    }
}

fn is_lower_hex(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

/// A string in the shape of an execution ID. Whether it is one, [`KeyRing::is_execution`] tells.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ExecutionId<'i> {
    tool: &'i str,
    moment: Moment,
    mac: u64,
}

impl<'i> ExecutionId<'i> {
    /// `None` for what has another shape: `^[A-Za-z0-9_-]{1,128}_[0-9]{13}_[0-9a-f]{16}$`.
    pub fn parse(id: &'i str) -> Option<Self> {
        let (rest, tail) = id.rsplit_once('_')?;
        let (tool, time) = rest.rsplit_once('_')?;
        let legal = tool.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
        let shaped =
            tail.len() == 16 && tail.bytes().all(is_lower_hex) && time.len() == 13 && time.bytes().all(|byte| byte.is_ascii_digit());
        if !legal || !shaped || !(1..=128).contains(&tool.len()) {
            return None;
        }
        let tail = u64::from_str_radix(tail, 16).ok()?;
        let moment = Moment { time_ms: time.parse().ok()?, counter: (tail >> MAC_BITS_EXECUTION) as u16 };
        Some(Self { tool, moment, mac: tail & ((1 << MAC_BITS_EXECUTION) - 1) })
    }

    /// The tool's name as the ID spells it.
    pub fn tool(&self) -> &'i str {
        self.tool
    }

    /// When the call was let through.
    pub fn moment(&self) -> Moment {
        self.moment
    }
}

/// A tool's name as execution IDs spell it: other characters become `_`, 128 at most.
pub fn execution_tool(tool: &str) -> String {
    let legal = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    let name: String = tool.chars().take(128).map(legal).collect();
    if name.is_empty() { "_".to_owned() } else { name }
}

fn part(hasher: &mut blake3::Hasher, bytes: &[u8]) {
    hasher.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
}

fn call_mac(key: &[u8; 32], scope: &Scope, tool: &str, arguments: &str, moment: Moment) -> u64 {
    let mut hasher = blake3::Hasher::new_keyed(key);
    part(&mut hasher, scope.0.as_bytes());
    part(&mut hasher, tool.as_bytes());
    // Absent arguments are an empty object to every client; text that is no JSON counts as it stands.
    match canonical(if arguments.trim().is_empty() { "{}" } else { arguments }) {
        Some(json) => part(&mut hasher, json.as_bytes()),
        None => {
            part(&mut hasher, b"verbatim");
            part(&mut hasher, arguments.as_bytes());
        }
    }
    finish(&hasher, moment) & ((1 << MAC_BITS_CALL) - 1)
}

fn execution_mac(key: &[u8; 32], scope: &Scope, tool: &str, moment: Moment) -> u64 {
    let mut hasher = blake3::Hasher::new_keyed(key);
    part(&mut hasher, scope.0.as_bytes());
    part(&mut hasher, tool.as_bytes());
    finish(&hasher, moment) & ((1 << MAC_BITS_EXECUTION) - 1)
}

fn finish(hasher: &blake3::Hasher, moment: Moment) -> u64 {
    let mut hasher = hasher.clone();
    hasher.update(&moment.time_ms.to_le_bytes()).update(&moment.counter.to_le_bytes());
    let digest = hasher.finalize();
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&digest.as_bytes()[..8]);
    u64::from_le_bytes(bytes)
}

/// Moments that never come twice in a process: the counter goes on from a random start.
#[derive(Debug)]
pub struct Counter(std::sync::atomic::AtomicU16);

impl Counter {
    /// A counter that starts at `seed`, which is to be random per process.
    pub fn new(seed: u16) -> Self {
        Self(std::sync::atomic::AtomicU16::new(seed))
    }

    /// The next moment in this millisecond.
    pub fn next(&self, time_ms: u64) -> Moment {
        let counter = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed) & ((1 << COUNTER_BITS) - 1);
        Moment { time_ms: time_ms & ((1 << 48) - 1), counter }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ARGUMENTS: &str = r#"{"city":"Paris","days":3}"#;

    fn ring() -> KeyRing {
        KeyRing::new(&[[7; 32]])
    }

    fn moment() -> Moment {
        Moment { time_ms: 1_763_760_000_123, counter: 0xabc }
    }

    fn verified(ring: &KeyRing, id: &str, scope: &Scope, tool: &str, arguments: &str) -> bool {
        CallMark::parse(id).is_some_and(|mark| ring.verify(&mark, scope, tool, arguments) == Some(moment()))
    }

    #[test]
    fn call_marks() {
        let scope = Scope::client("a");
        let id = ring().mint(&scope, "get_weather", ARGUMENTS, moment());
        assert_eq!(id.len(), CALL_MARK_BYTES);
        assert!(verified(&ring(), &id, &scope, "get_weather", ARGUMENTS));
        assert!(verified(&ring(), &id, &scope, "get_weather", "{ \"days\": 3.0, \"city\":\"P\\u0061ris\" }"), "re-serialised");
        for (scope, tool, arguments) in [
            (Scope::client("b"), "get_weather", ARGUMENTS),
            (scope.clone(), "get_weathe", ARGUMENTS),
            (scope.clone(), "get_weather", r#"{"city":"Paris","days":4}"#),
            (scope.clone(), "get_weather", ""),
        ] {
            assert!(!verified(&ring(), &id, &scope, tool, arguments), "{scope:?} {tool} {arguments}");
        }
        assert!(!verified(&KeyRing::new(&[[8; 32]]), &id, &scope, "get_weather", ARGUMENTS));
        assert!(verified(&KeyRing::new(&[[8; 32], [7; 32]]), &id, &scope, "get_weather", ARGUMENTS), "an older key verifies");
    }

    #[test]
    fn credentials_have_scopes_of_their_own() {
        assert_eq!(Scope::credential(b"Bearer x"), Scope::credential(b"Bearer x"));
        assert_ne!(Scope::credential(b"Bearer x"), Scope::credential(b"Bearer y"));
    }

    #[test]
    fn any_flipped_character_is_noticed() {
        let scope = Scope::shared();
        let id = ring().mint(&scope, "t", ARGUMENTS, moment());
        let execution = ring().execution_id(&scope, "get_weather", moment());
        let good = |id: &str| ExecutionId::parse(id).is_some_and(|id| ring().is_execution(&id, &scope));
        assert!(good(&execution), "{execution}");
        for other in "0123456789abcdefABCDEFgxyz_- \u{200b}é".chars() {
            for at in 0..execution.len().max(id.len()) {
                let flip = |text: &str| text.chars().enumerate().map(|(n, c)| if n == at { other } else { c }).collect::<String>();
                if flip(&id) != id {
                    assert!(!verified(&ring(), &flip(&id), &scope, "t", ARGUMENTS), "{}", flip(&id));
                }
                if flip(&execution) != execution {
                    assert!(!good(&flip(&execution)), "{}", flip(&execution));
                }
            }
        }
    }

    #[test]
    fn execution_ids_of_odd_tools() {
        let scope = Scope::shared();
        for tool in ["a.b/c", "", &"x".repeat(200), "ünï"] {
            let id = ring().execution_id(&scope, tool, moment());
            let parsed = ExecutionId::parse(&id).unwrap();
            assert!(ring().is_execution(&parsed, &scope), "{id}");
            assert_eq!(parsed.moment(), moment());
        }
    }

    proptest! {
        #[test]
        fn any_changed_value_is_noticed(a in ".{0,12}", b in ".{0,12}", n in any::<u64>(), m in any::<u64>()) {
            let json = |text: &str, n: u64| serde_json::json!({"text": text, "n": n}).to_string();
            let scope = Scope::anonymous();
            let id = ring().mint(&scope, "t", &json(&a, n), moment());
            prop_assert_eq!(verified(&ring(), &id, &scope, "t", &json(&b, m)), (a, n) == (b, m));
        }

        #[test]
        fn parsing_never_panics(text in ".{0,64}") {
            let _ = (CallMark::parse(&text), ExecutionId::parse(&text));
        }
    }
}
