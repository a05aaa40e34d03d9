//! Marks: call marks and execution IDs, minted and verified without any lookup.
//!
//! docs/wire-facts.md#marks. All MACs are BLAKE3 keyed hashes, with a derived key per purpose; comparisons take
//! constant time. Pure: time and counter come in as values.

mod recorded;
mod scope_seal;

use std::{
    borrow::Cow,
    fmt::Write as _,
    sync::{Arc, OnceLock},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

pub use recorded::RecordedMarks;

use crate::wire::json::canonical::{canonical, canonical_doubles};

/// A call mark on chat: `call_` and 32 hex digits.
pub const CALL_MARK_BYTES: usize = 37;
/// Longest call id that the Responses API takes. Source: docs/wire-facts.md#responses-requests, `call_id`.
const CALL_ID_BYTES_MAX: usize = 64;
/// 16 bytes as base64url without padding.
const SUFFIX_BYTES: usize = 22;
/// Plausible times of a mark in Unix milliseconds: from toolmark's first year (2025) to 2100.
const PLAUSIBLE_MS: std::ops::Range<u64> = 1_735_689_600_000..4_102_444_800_000;
const COUNTER_BITS: u32 = 12;
const MAC_BITS_CALL: u32 = 62;
/// Leading bits of a call mark's MAC that depend only on key, scope and time, not on the call.
const TAG_BITS: u32 = 8;
const MAC_BITS_EXECUTION: u32 = 52;

/// Keys for marks: the first mints, all verify.
#[derive(Clone)]
pub struct KeyRing {
    keys: Vec<MarkKeys>,
    /// Marks issued according to a recording that is played.
    recorded: Option<Arc<RecordedMarks>>,
}

#[derive(Clone)]
struct MarkKeys {
    /// Key for call marks.
    mark: [u8; 32],
    /// Key for call marks that were minted before numbers were compared as doubles.
    call: [u8; 32],
    suffix: [u8; 32],
    execution: [u8; 32],
    /// Key that seals scopes for storage.
    seal: [u8; 32],
}

/// Owner of marks: every MAC is bound to it. Cheap to clone.
#[derive(Clone)]
pub struct Scope(Arc<ScopeName>);

struct ScopeName {
    name: Box<str>,
    /// The digest by the first key that it was asked for with, and that key: the ledger's, which asks for each exchange.
    digest: OnceLock<([u8; 32], u64)>,
}

impl std::fmt::Debug for Scope {
    /// `Scope("anonymous")`. INVARIANT: what is stored for a scope lies under keys made of this, so it never changes.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_tuple("Scope").field(&self.name()).finish()
    }
}

impl PartialEq for Scope {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Scope {}

impl std::hash::Hash for Scope {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl Scope {
    fn named(name: impl Into<Box<str>>) -> Self {
        Self(Arc::new(ScopeName { name: name.into(), digest: OnceLock::new() }))
    }

    fn name(&self) -> &str {
        &self.0.name
    }

    /// Scope whose marks are valid for every caller.
    pub fn shared() -> Self {
        Self::named("shared")
    }

    /// Scope of a client listed in `[[clients]]`.
    pub fn client(name: &str) -> Self {
        Self::named(format!("client:{name}"))
    }

    /// Scope of a caller known only by its credential. Independent of the keys, so that changing keys changes no scope; the digest never
    /// leaves the process, only MACs over it do.
    pub fn credential(credential: &[u8]) -> Self {
        let digest = blake3::derive_key("toolmark 2026-11-21 scope of a credential v1", credential);
        Self::named(format!("credential:{}", blake3::Hash::from(digest).to_hex()))
    }

    /// Keyed digest of the scope.
    pub fn digest(&self, key: &[u8; 32]) -> u64 {
        let made = || {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&blake3::keyed_hash(key, self.name().as_bytes()).as_bytes()[..8]);
            u64::from_be_bytes(bytes)
        };
        let (known, digest) = self.0.digest.get_or_init(|| (*key, made()));
        if bool::from(known.ct_eq(key)) { *digest } else { made() }
    }

    /// Scope of a caller without a name or a credential.
    pub fn anonymous() -> Self {
        Self::named("anonymous")
    }
}

/// Time of a mark: the millisecond in which a call was let through, and a counter.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct MarkTime {
    /// Unix milliseconds, 48 bits.
    pub time_ms: u64,
    /// Counter within the process, 12 bits; the lowest is set if the mark [hides](Self::hides) calls.
    pub counter: u16,
}

impl MarkTime {
    /// True if toolmark ran calls in or before the call's turn that the application doesn't see.
    pub fn hides(self) -> bool {
        self.counter & 1 == 1
    }

    /// The same moment, of a call whose turn [hides](Self::hides) calls.
    pub fn hiding(self) -> Self {
        Self { counter: self.counter | 1, ..self }
    }
}

impl KeyRing {
    /// Ring of these keys; the first mints. An empty list gives a ring that verifies nothing and mints under a zero key; callers never pass
    /// one.
    pub fn new(keys: &[[u8; 32]]) -> Self {
        let derive = |purpose: &str, key: &[u8; 32]| blake3::derive_key(purpose, key);
        let keys = keys.iter().map(|key| MarkKeys {
            mark: derive("toolmark 2026-11-23 call mark v2", key),
            call: derive("toolmark 2026-11-21 call mark v1", key),
            suffix: derive("toolmark 2026-11-22 call mark behind an upstream's id v1", key),
            execution: derive("toolmark 2026-11-21 execution id v1", key),
            seal: derive("toolmark 2026-11-22 scope written down v1", key),
        });
        Self { keys: keys.collect(), recorded: None }
    }

    /// The same ring that also verifies the marks issued according to a recording.
    #[must_use]
    pub fn with_recorded(self, recorded: Arc<RecordedMarks>) -> Self {
        Self { recorded: Some(recorded), ..self }
    }

    /// Mints the call mark of a call that is let through.
    pub fn mint(&self, scope: &Scope, tool: &str, arguments: &str, moment: MarkTime) -> String {
        if let Some(mark) = self.recorded.as_ref().and_then(|recorded| recorded.mark(None, tool, arguments, moment)) {
            return mark.to_owned();
        }
        let mac =
            self.keys.first().map_or(0, |keys| CallMacInput { scope, upstream_id: None, tool, moment }.mac(keys, &doubles(arguments)));
        let mut mark = String::with_capacity(CALL_MARK_BYTES);
        mark.push_str("call_");
        for byte in mark_bytes(moment, mac) {
            mark.push(char::from(HEX[usize::from(byte >> 4)]));
            mark.push(char::from(HEX[usize::from(byte & 15)]));
        }
        mark
    }

    /// Mints a call mark that keeps the upstream's id readable: that id, `_`, and the 128 bits of [`Self::mint`] in base64url. `None` if
    /// the upstream gave no id, or one that leaves no room.
    pub fn mint_behind(&self, upstream_id: &str, scope: &Scope, tool: &str, arguments: &str, moment: MarkTime) -> Option<String> {
        if upstream_id.is_empty() || upstream_id.len() + 1 + SUFFIX_BYTES > CALL_ID_BYTES_MAX {
            return None;
        }
        if let Some(mark) = self.recorded.as_ref().and_then(|recorded| recorded.mark(Some(upstream_id), tool, arguments, moment)) {
            return Some(mark.to_owned());
        }
        let call = CallMacInput { scope, upstream_id: Some(upstream_id), tool, moment };
        let mac = self.keys.first().map_or(0, |keys| call.mac(keys, &doubles(arguments)));
        Some(format!("{upstream_id}_{}", URL_SAFE_NO_PAD.encode(mark_bytes(moment, mac))))
    }

    /// Verifies a mark: its moment if it fits this scope, tool and arguments, else `None`.
    pub fn verify(&self, mark: &CallMark<'_>, scope: &Scope, tool: &str, arguments: &str) -> Option<MarkTime> {
        let call = CallMacInput { scope, upstream_id: mark.upstream_id, tool, moment: mark.moment };
        let signed = doubles(arguments);
        let fits = |keys: &MarkKeys| bool::from(call.mac(keys, &signed).ct_eq(&mark.mac));
        let earlier = || {
            let signed = Signed::of(arguments, canonical);
            self.keys.iter().any(|keys| bool::from(call.earlier_mac(keys, &signed).ct_eq(&mark.mac)))
        };
        let held = || self.recorded.as_ref().is_some_and(|recorded| recorded.holds(mark, tool, arguments));
        (self.keys.iter().any(fits) || earlier() || held()).then_some(mark.moment)
    }

    /// True if a mark of this moment was probably minted here for this scope. Such a mark that doesn't verify belongs to another call. One
    /// in 256 foreign marks is taken for one as well.
    pub fn made(&self, mark: &CallMark<'_>, scope: &Scope) -> bool {
        let call = CallMacInput { scope, upstream_id: None, tool: "", moment: mark.moment };
        self.keys.iter().any(|keys| {
            let mut hasher = blake3::Hasher::new_keyed(&keys.mark);
            call.begin(&mut hasher);
            call.tag(&hasher) == mark.mac >> (MAC_BITS_CALL - TAG_BITS)
        })
    }

    /// Execution ID derived from a call mark's moment.
    pub fn execution_id(&self, scope: &Scope, tool: &str, moment: MarkTime) -> String {
        let tool = execution_tool(tool);
        if let Some(id) = self.recorded.as_ref().and_then(|recorded| recorded.execution(&tool, moment)) {
            return id.to_owned();
        }
        let mac = self.keys.first().map_or(0, |keys| execution_mac(&keys.execution, scope, &tool, moment));
        let tail = (u64::from(moment.counter & 0x0fff) << MAC_BITS_EXECUTION) | mac;
        let mut id = tool;
        // Writing to a String can't fail.
        let _ = write!(id, "_{:013}_{tail:016x}", moment.time_ms);
        id
    }

    /// True if the ID was issued in this scope.
    pub fn is_execution(&self, id: &ExecutionId<'_>, scope: &Scope) -> bool {
        let recorded = self.recorded.as_ref().and_then(|recorded| recorded.execution(id.tool, id.moment)).and_then(ExecutionId::parse);
        let minted = |keys: &MarkKeys| {
            let mac = execution_mac(&keys.execution, scope, id.tool, id.moment);
            bool::from(mac.ct_eq(&id.mac))
        };
        self.keys.iter().any(minted) || recorded == Some(*id)
    }
}

impl std::fmt::Debug for KeyRing {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "KeyRing({} keys)", self.keys.len())
    }
}

const HEX: &[u8; 16] = b"0123456789abcdef";

/// The 16 bytes of a mark, laid out as a UUIDv8 (RFC 9562, 5.8).
fn mark_bytes(moment: MarkTime, mac: u64) -> [u8; 16] {
    let mut bytes = [0u8; 16];
    bytes[..6].copy_from_slice(&moment.time_ms.to_be_bytes()[2..]);
    let version = 0x8000 | (moment.counter & 0x0fff);
    bytes[6..8].copy_from_slice(&version.to_be_bytes());
    let variant = (0b10 << MAC_BITS_CALL) | mac;
    bytes[8..].copy_from_slice(&variant.to_be_bytes());
    bytes
}

/// A string in the form of a call mark. [`KeyRing::verify`] decides if it is genuine.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CallMark<'m> {
    moment: MarkTime,
    mac: u64,
    upstream_id: Option<&'m str>,
}

impl<'m> CallMark<'m> {
    /// Parses an id of the form `^call_[0-9a-f]{32}$`, the hex a UUIDv8, or an upstream's id, `_` and the same 128 bits in 22 characters of
    /// base64url. `None` for any other form.
    pub fn parse(id: &'m str) -> Option<Self> {
        let digits = id.strip_prefix("call_").map_or(&[][..], str::as_bytes).as_chunks();
        match digits {
            ([high, low], []) if let (Some(high), Some(low)) = (hex_number(high), hex_number(low)) => {
                Self::of_bits(u128::from(high) << 64 | u128::from(low), None)
            }
            _ => Self::parse_behind(id),
        }
    }

    fn parse_behind(id: &'m str) -> Option<Self> {
        let at = id.len().checked_sub(1 + SUFFIX_BYTES).filter(|at| *at > 0 && id.len() <= CALL_ID_BYTES_MAX)?;
        let (upstream_id, suffix) = (id.get(..at)?, id.get(at..)?.strip_prefix('_')?);
        let mut bytes = [0; 16];
        let length = URL_SAFE_NO_PAD.decode_slice(suffix, &mut bytes).ok()?;
        let mark = Self::of_bits(u128::from_be_bytes(bytes), Some(upstream_id))?;
        (length == bytes.len() && PLAUSIBLE_MS.contains(&mark.moment.time_ms)).then_some(mark)
    }

    fn of_bits(bits: u128, upstream_id: Option<&'m str>) -> Option<Self> {
        if (bits >> 76) & 0xf != 8 || (bits >> 62) & 0b11 != 0b10 {
            return None;
        }
        let counter = ((bits >> 64) & 0x0fff) as u16;
        let moment = MarkTime { time_ms: (bits >> 80) as u64, counter };
        Some(Self { moment, mac: (bits as u64) & ((1 << MAC_BITS_CALL) - 1), upstream_id })
    }

    /// Mark time that the mark states.
    pub fn moment(&self) -> MarkTime {
        self.moment
    }

    /// The upstream's id of the call, if the mark is appended to it.
    pub fn upstream_id(&self) -> Option<&'m str> {
        self.upstream_id
    }
}

/// The number that 16 lower-case hex digits tell; `None` for other bytes.
fn hex_number(digits: &[u8; 16]) -> Option<u64> {
    let (mut number, mut all) = (0, 0);
    for byte in digits {
        let digit = HEX_DIGITS[usize::from(*byte)];
        all |= digit;
        number = number << 4 | u64::from(digit & 0xf);
    }
    (all & NO_DIGIT == 0).then_some(number)
}

/// Mark of a byte that is no digit.
const NO_DIGIT: u8 = 0x80;

/// The value of each byte as a lower-case hex digit.
const HEX_DIGITS: [u8; 256] = {
    let mut digits = [NO_DIGIT; 256];
    let mut value = 0;
    while value < 16 {
        digits[b"0123456789abcdef"[value as usize] as usize] = value;
        value += 1;
    }
    digits
};

/// A string in the form of an execution ID. [`KeyRing::is_execution`] decides if it is genuine.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ExecutionId<'i> {
    tool: &'i str,
    moment: MarkTime,
    mac: u64,
}

impl<'i> ExecutionId<'i> {
    /// Parses `^[A-Za-z0-9_-]{1,128}_[0-9]{13}_[0-9a-f]{16}$`; `None` for any other form.
    pub fn parse(id: &'i str) -> Option<Self> {
        let (rest, tail) = id.as_bytes().split_last_chunk::<16>()?;
        let (rest, time) = rest.strip_suffix(b"_")?.split_last_chunk::<13>()?;
        let name = rest.strip_suffix(b"_").filter(|name| (1..=128).contains(&name.len()))?;
        let tail = hex_number(tail)?;
        let digit = |byte: u8| byte.is_ascii_digit().then(|| u64::from(byte - b'0'));
        let time_ms = time.iter().try_fold(0_u64, |number, byte| Some(number * 10 + digit(*byte)?))?;
        if !name.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')) {
            return None;
        }
        let tool = id.get(..name.len())?;
        let moment = MarkTime { time_ms, counter: (tail >> MAC_BITS_EXECUTION) as u16 };
        Some(Self { tool, moment, mac: tail & ((1 << MAC_BITS_EXECUTION) - 1) })
    }

    /// The last 16 hex digits of an ID of ours, whose other parts are known.
    pub fn tail_of(id: &str) -> Option<u64> {
        hex_number(id.as_bytes().split_last_chunk()?.1)
    }

    /// The tool's name as the ID spells it.
    pub fn tool(&self) -> &'i str {
        self.tool
    }

    /// Mark time: when the call was let through.
    pub fn moment(&self) -> MarkTime {
        self.moment
    }

    /// The last 16 hex digits: counter and MAC.
    pub fn tail(&self) -> u64 {
        (u64::from(self.moment.counter) << MAC_BITS_EXECUTION) | self.mac
    }
}

/// A tool's name as execution IDs spell it: at most 128 characters, illegal ones replaced by `_`.
pub fn execution_tool(tool: &str) -> String {
    spelled(tool).collect()
}

/// True if `name` is the tool's name as execution IDs spell it.
pub fn is_execution_tool(tool: &str, name: &str) -> bool {
    spelled(tool).eq(name.chars())
}

/// Characters of a tool's name as execution IDs spell it.
pub fn spelled(tool: &str) -> impl Iterator<Item = char> {
    let legal = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    let tool = if tool.is_empty() { "_" } else { tool };
    tool.chars().take(128).map(legal)
}

fn part(hasher: &mut blake3::Hasher, bytes: &[u8]) {
    hasher.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
}

/// Input of a call's MAC, except the arguments.
struct CallMacInput<'c> {
    scope: &'c Scope,
    upstream_id: Option<&'c str>,
    tool: &'c str,
    moment: MarkTime,
}

/// A call's arguments in the form that the MAC covers.
struct Signed<'c> {
    text: Cow<'c, str>,
    json: bool,
}

impl<'c> Signed<'c> {
    fn of(arguments: &'c str, canonical: impl Fn(&str) -> Option<String>) -> Self {
        // Absent arguments are an empty object to every client; text that is no JSON counts as it stands.
        match canonical(if arguments.trim().is_empty() { "{}" } else { arguments }) {
            Some(json) => Self { text: json.into(), json: true },
            None => Self { text: arguments.into(), json: false },
        }
    }

    fn add_to(&self, hasher: &mut blake3::Hasher) {
        if !self.json {
            part(hasher, b"verbatim");
        }
        part(hasher, self.text.as_bytes());
    }
}

/// Arguments with numbers as doubles: a JavaScript client stores no others, and sends them back that way.
fn doubles(arguments: &str) -> Signed<'_> {
    Signed::of(arguments, canonical_doubles)
}

impl CallMacInput<'_> {
    /// Hashes what every call of the turn has in common. `hasher`: a new one; it is large, so it isn't moved.
    fn begin(&self, hasher: &mut blake3::Hasher) {
        part(hasher, self.scope.name().as_bytes());
        hasher.update(&self.moment.time_ms.to_le_bytes()).update(&self.moment.counter.to_le_bytes());
    }

    fn tag(&self, begun: &blake3::Hasher) -> u64 {
        digest(begun) >> (u64::BITS - TAG_BITS)
    }

    /// MAC of the call. The first bits depend on key, scope and time only, the others on the whole call.
    fn mac(&self, keys: &MarkKeys, signed: &Signed<'_>) -> u64 {
        let mut hasher = blake3::Hasher::new_keyed(&keys.mark);
        self.begin(&mut hasher);
        let tag = self.tag(&hasher);
        match self.upstream_id {
            Some(id) => part(hasher.update(b"behind"), id.as_bytes()),
            None => _ = hasher.update(b"alone"),
        }
        part(&mut hasher, self.tool.as_bytes());
        signed.add_to(&mut hasher);
        let bits = MAC_BITS_CALL - TAG_BITS;
        tag << bits | digest(&hasher) & ((1 << bits) - 1)
    }

    /// MAC as minted by earlier versions: integers verbatim, no leading bits that show key and scope.
    fn earlier_mac(&self, keys: &MarkKeys, signed: &Signed<'_>) -> u64 {
        let key = if self.upstream_id.is_some() { &keys.suffix } else { &keys.call };
        let mut hasher = blake3::Hasher::new_keyed(key);
        part(&mut hasher, self.scope.name().as_bytes());
        if let Some(id) = self.upstream_id {
            part(&mut hasher, id.as_bytes());
        }
        part(&mut hasher, self.tool.as_bytes());
        signed.add_to(&mut hasher);
        finish(&hasher, self.moment) & ((1 << MAC_BITS_CALL) - 1)
    }
}

fn execution_mac(key: &[u8; 32], scope: &Scope, tool: &str, moment: MarkTime) -> u64 {
    let mut hasher = blake3::Hasher::new_keyed(key);
    part(&mut hasher, scope.name().as_bytes());
    part(&mut hasher, tool.as_bytes());
    finish(&hasher, moment) & ((1 << MAC_BITS_EXECUTION) - 1)
}

fn finish(hasher: &blake3::Hasher, moment: MarkTime) -> u64 {
    let mut hasher = hasher.clone();
    hasher.update(&moment.time_ms.to_le_bytes()).update(&moment.counter.to_le_bytes());
    digest(&hasher)
}

fn digest(hasher: &blake3::Hasher) -> u64 {
    let digest = hasher.finalize();
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&digest.as_bytes()[..8]);
    u64::from_le_bytes(bytes)
}

/// Source of mark times that never repeat in a process: the counter continues from a random start.
#[derive(Debug)]
pub struct MarkClock(std::sync::atomic::AtomicU16);

impl MarkClock {
    /// Counter that starts at `seed`, which must be random per process.
    pub fn new(seed: u16) -> Self {
        Self(std::sync::atomic::AtomicU16::new(seed))
    }

    /// The next moment in this millisecond.
    pub fn next(&self, time_ms: u64) -> MarkTime {
        let counter = self.0.fetch_add(2, std::sync::atomic::Ordering::Relaxed) & ((1 << COUNTER_BITS) - 2);
        MarkTime { time_ms: time_ms & ((1 << 48) - 1), counter }
    }
}

#[cfg(test)]
mod tests;
