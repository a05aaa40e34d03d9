//! Calls of sessions in the shared counters: sealed, and dated by the store's clock.
//!
//! A call is written with its age by the clock of the replica that let it through, and read with its age by the store's: so a replica whose
//! clock is wrong puts it at the right time.

use std::{sync::Arc, time::Duration};

use super::{Append, CounterKey, Entry, SharedCounters};
use crate::{
    judge::loops::SessionCall,
    ledger::{
        record::ScopeDigest,
        sealed_kv::cipher::{KvCipher, SealedRow},
    },
    marks::MarkTime,
};

/// Difference between two clocks that isn't one: what a call takes until it is written, and read.
const SKEW_MS: u64 = 2_000;
/// Bytes of a call before its tool's name.
const HEAD_BYTES: usize = 11;
/// Bytes of a tool's name that are kept.
const TOOL_BYTES_MAX: usize = 256;

/// Calls of sessions that replicas share.
pub struct SessionLog {
    counters: Arc<SharedCounters>,
    cipher: KvCipher,
}

impl SessionLog {
    /// Log in these counters. `key`: that of the marks, from which those that seal are derived.
    pub fn new(counters: Arc<SharedCounters>, key: [u8; 32]) -> Self {
        Self { counters, cipher: KvCipher::new(&[key]) }
    }

    /// Adds calls to a session, without waiting.
    pub fn add(&self, scope: ScopeDigest, session: &str, calls: &[SessionCall], now_ms: u64, keep: Duration) {
        let key = self.key(scope, session);
        let entries = calls.iter().filter_map(|call| entry(&self.cipher, &key, call, now_ms)).collect();
        self.counters.append(Append { key, entries, keep });
    }

    /// The calls of a session. `None` if the store is away or late.
    pub async fn calls(&self, scope: ScopeDigest, session: &str, now_ms: u64) -> Option<Vec<SessionCall>> {
        let key = self.key(scope, session);
        let entries = self.counters.entries(key).await?;
        let calls: Vec<SessionCall> = entries.iter().filter_map(|entry| call(&self.cipher, &key, entry, now_ms)).collect();
        if calls.len() < entries.len() {
            tracing::error!(
                changed = entries.len() - calls.len(),
                "entries of a session in the shared counters were changed, and don't count"
            );
        }
        Some(calls)
    }

    fn key(&self, scope: ScopeDigest, session: &str) -> CounterKey {
        self.counters.key("session", &[&scope.0.to_le_bytes(), session.as_bytes()])
    }
}

/// Seals a call. The same call is the same entry, whoever writes it.
fn entry(cipher: &KvCipher, key: &CounterKey, call: &SessionCall, now_ms: u64) -> Option<Entry> {
    let mut plain = Vec::with_capacity(HEAD_BYTES + call.tool.len());
    plain.extend_from_slice(&call.moment.time_ms.to_le_bytes());
    plain.extend_from_slice(&call.moment.counter.to_le_bytes());
    plain.push(match call.failed {
        None => 0,
        Some(false) => 1,
        Some(true) => 2,
    });
    plain.extend_from_slice(call.tool.get(..call.tool.floor_char_boundary(TOOL_BYTES_MAX))?.as_bytes());
    Some(Entry { age_ms: now_ms.saturating_sub(call.at.time_ms), body: cipher.seal(key, 0, &plain)?.body })
}

/// Opens an entry; `None` if it wasn't sealed for this session by this deployment.
fn call(cipher: &KvCipher, key: &CounterKey, entry: &Entry, now_ms: u64) -> Option<SessionCall> {
    let id = cipher.ids(key).next()?;
    let plain = cipher.open(key, &SealedRow { id, at_ms: 0, body: entry.body.clone() })?;
    let (time_ms, rest) = plain.split_first_chunk::<8>()?;
    let (counter, rest) = rest.split_first_chunk::<2>()?;
    let (failed, tool) = rest.split_first()?;
    let moment = MarkTime { time_ms: u64::from_le_bytes(*time_ms), counter: u16::from_le_bytes(*counter) };
    let own_ms = now_ms.saturating_sub(entry.age_ms);
    // Calls of one turn have one time, and keep it where clocks agree.
    let time_ms = if own_ms.abs_diff(moment.time_ms) <= SKEW_MS { moment.time_ms } else { own_ms };
    let failed = match failed {
        0 => None,
        1 => Some(false),
        2 => Some(true),
        _ => return None,
    };
    Some(SessionCall { tool: std::str::from_utf8(tool).ok()?.into(), moment, at: MarkTime { time_ms, ..moment }, failed })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::ENTRY_BYTES_MAX;

    fn called(tool: &str, time_ms: u64, failed: Option<bool>) -> SessionCall {
        let moment = MarkTime { time_ms, counter: 7 };
        SessionCall { tool: tool.into(), moment, at: moment, failed }
    }

    #[test]
    fn a_call_is_at_its_time_by_whatever_clock() {
        let cipher = KvCipher::new(&[[1; 32]]);
        let key = [2; 32];
        // The writer's clock is an hour ahead of the reader's; 40 s passed between the call and its writing, 5 s until it is read.
        let (hour, now) = (3_600_000, 1_700_000_000_000);
        let written = entry(&cipher, &key, &called("t", now + hour - 45_000, Some(true)), now + hour - 5_000).unwrap();
        assert_eq!(written.age_ms, 40_000);
        let read = call(&cipher, &key, &Entry { age_ms: 45_000, ..written.clone() }, now).unwrap();
        assert_eq!((read.moment.time_ms, read.at.time_ms, read.failed), (now + hour - 45_000, now - 45_000, Some(true)));
        // Where clocks agree, what the way took doesn't tell calls of one turn apart.
        let written = entry(&cipher, &key, &called("t", now - 45_000, None), now - 5_000).unwrap();
        let read = call(&cipher, &key, &Entry { age_ms: 44_300, ..written }, now).unwrap();
        assert_eq!((read.at, read.failed), (read.moment, None));
    }

    #[test]
    fn what_the_store_made_up_or_moved_is_no_call() {
        let cipher = KvCipher::new(&[[1; 32]]);
        let key = [2; 32];
        let longest = called(&"é".repeat(300), 1_700_000_000_000, Some(false));
        let good = entry(&cipher, &key, &longest, 1_700_000_000_000).unwrap();
        assert!(good.body.len() <= ENTRY_BYTES_MAX);
        assert_eq!(&*call(&cipher, &key, &good, 1_700_000_000_000).unwrap().tool, "é".repeat(128));
        assert!(!good.body.windows(4).any(|part| part == "éé".as_bytes()), "no name in the clear");
        assert_eq!(call(&cipher, &[3; 32], &good, 0), None, "another session's");
        assert_eq!(call(&KvCipher::new(&[[4; 32]]), &key, &good, 0), None, "another deployment's");
        for at in 0..good.body.len() {
            let mut changed = good.clone();
            changed.body[at] ^= 1;
            assert_eq!(call(&cipher, &key, &changed, 0), None, "{at}");
        }
        for bytes in [0, 10, 32, 42] {
            assert_eq!(call(&cipher, &key, &Entry { age_ms: u64::MAX, body: vec![0; bytes] }, 0), None);
        }
        // Whatever age it says.
        assert!(call(&cipher, &key, &Entry { age_ms: u64::MAX, ..good }, 5).is_some());
    }
}
