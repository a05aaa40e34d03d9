//! Verification of the ledger: walks every chain, record by record, and compares the index rows of each record with the record itself.

use uuid::Uuid;

use super::{
    chain::{ChainKeys, Mac},
    record::ExchangeRecord,
    store::{Chain, ChainStore, Position, StoreError, StoredRecord},
};
use crate::ledger::{
    codec,
    index::{ExecutionRow, IndexRows},
};

/// Records read at a time.
const READ: usize = 500;
/// Number of attempts, since old records may be removed during a walk.
const TRIES: usize = 5;

/// Result of a verification.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct VerificationReport {
    /// Chains that were verified completely.
    pub chains: usize,
    /// Records that were verified.
    pub records: u64,
    /// Index rows that agree with their records.
    pub rows: u64,
    /// Records that were removed for their age, under a sealed anchor.
    pub removed: u64,
    /// The first fault that was found, if any.
    pub fault: Option<ChainFault>,
}

/// A fault in a ledger, with its location.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ChainFault {
    /// A record isn't the one that was sealed.
    #[error(
        "record {sequence} of chain {writer}{} was changed, inserted, or put in another one's place",
        .exchange.map_or(String::new(), |id| format!(" (exchange {id})"))
    )]
    Record {
        /// Number of the chain's writer.
        writer: u32,
        /// Sequence number of the record.
        sequence: u64,
        /// Its exchange, if the record can be read.
        exchange: Option<Uuid>,
    },
    /// Records are missing.
    #[error("records {first} to {last} of chain {writer} were removed")]
    Missing {
        /// Number of the chain's writer.
        writer: u32,
        /// Sequence number of the first missing record.
        first: u64,
        /// Sequence number of the last missing record.
        last: u64,
    },
    /// The anchor in place of removed records was changed.
    #[error("the anchor of chain {writer}, which stands for its first {sequence} records, was changed")]
    Anchor {
        /// Number of the chain's writer.
        writer: u32,
        /// Sequence number of the last record that the anchor stands for.
        sequence: u64,
    },
    /// An index row doesn't agree with its record.
    #[error("what is written beside record {sequence} of chain {writer} (exchange {exchange}) to find it was changed: {what}")]
    Beside {
        /// Number of the chain's writer.
        writer: u32,
        /// Sequence number of the record.
        sequence: u64,
        /// Its exchange.
        exchange: Uuid,
        /// Name of the part that was changed.
        what: &'static str,
    },
    /// There are index rows that belong to no record.
    #[error("{count} {what} are written to be found that no record has")]
    Stray {
        /// Number of such rows.
        count: u64,
        /// Kind of the rows: `executions` or `violations`.
        what: &'static str,
    },
    /// The chain contradicts an anchor that was kept elsewhere.
    #[error(
        "chain {writer} doesn't have record {sequence} as the kept anchor says: its newest records were cut off, or it was written anew"
    )]
    Kept {
        /// Number of the chain's writer.
        writer: u32,
        /// Sequence number of the record.
        sequence: u64,
    },
}

/// Reasons to end a walk early.
enum WalkStop {
    Fault(ChainFault),
    Store(StoreError),
}

impl From<StoreError> for WalkStop {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<ChainFault> for WalkStop {
    fn from(fault: ChainFault) -> Self {
        Self::Fault(fault)
    }
}

/// Verifies all of a ledger in its present state; it may be written meanwhile. `kept`: anchors that were noted elsewhere.
///
/// # Errors
/// [`StoreError`] if the ledger can't be read.
pub fn verify(store: &dyn ChainStore, keys: &ChainKeys, kept: &[Position]) -> Result<VerificationReport, StoreError> {
    verify_telling(store, keys, kept, &|_, _| {})
}

/// Like [`verify`]; tells how far it is: the records of a chain that were verified, and how many it has.
///
/// # Errors
/// [`StoreError`] if the ledger can't be read.
pub fn verify_telling(
    store: &dyn ChainStore,
    keys: &ChainKeys,
    kept: &[Position],
    tell: &dyn Fn(u64, u64),
) -> Result<VerificationReport, StoreError> {
    let mut tries = 0;
    loop {
        let chains = store.chains()?;
        let mut report = VerificationReport::default();
        tries += 1;
        match check_all(store, keys, kept, &chains, &mut report, tell) {
            Ok(()) => return Ok(report),
            Err(WalkStop::Store(StoreError::Corrupt(_))) | Err(WalkStop::Fault(_)) if tries < TRIES && moved(&chains, &store.chains()?) => {
            }
            Err(WalkStop::Store(error)) => return Err(error),
            Err(WalkStop::Fault(fault)) => return Ok(VerificationReport { fault: Some(fault), ..report }),
        }
    }
}

/// Returns whether the newest record of every chain was signed with one of the keys, as far as that can be told: not where it was removed
/// meanwhile. A look at the start, which finds a key that was changed or lost; it proves nothing of the rest.
///
/// # Errors
/// [`StoreError`] if the ledger can't be read.
pub fn newest_are_signed(store: &dyn ChainStore, keys: &ChainKeys) -> Result<bool, StoreError> {
    for chain in store.chains()? {
        let Some(tip) = &chain.tip else { continue };
        let records = store.records(chain.writer, tip.sequence.saturating_sub(2), 2)?;
        let Some(newest) = records.iter().find(|record| record.position == *tip) else { continue };
        let before = records.iter().find(|record| record.position.sequence + 1 == tip.sequence).map(|record| record.position.mac);
        let anchor = chain.anchor.as_ref().filter(|anchor| anchor.sequence + 1 == tip.sequence).map(|anchor| anchor.mac);
        let first = (tip.sequence == 1).then(|| ChainKeys::genesis(chain.writer));
        let Some(before) = before.or(anchor).or(first) else { continue };
        if !keys.is_record(&tip.mac, chain.writer, tip.sequence, &before, &newest.body) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns whether old records were removed meanwhile.
fn moved(before: &[Chain], now: &[Chain]) -> bool {
    let anchors = |chains: &[Chain]| chains.iter().map(|chain| chain.anchor.clone()).collect::<Vec<_>>();
    anchors(before) != anchors(now)
}

fn check_all(
    store: &dyn ChainStore,
    keys: &ChainKeys,
    kept: &[Position],
    chains: &[Chain],
    report: &mut VerificationReport,
    tell: &dyn Fn(u64, u64),
) -> Result<(), WalkStop> {
    let (mut executions, mut violations) = (0, 0);
    for chain in chains {
        let mut walk = ChainWalk { store, keys, chain, kept, tell, executions: 0, violations: 0, records: 0 };
        let walked = walk.run();
        report.records += walk.records;
        report.rows += walk.executions + walk.violations;
        (executions, violations) = (executions + walk.executions, violations + walk.violations);
        walked?;
        report.removed += chain.anchor.as_ref().map_or(0, |anchor| anchor.sequence);
        report.chains += 1;
    }
    if let Some(kept) = kept.iter().find(|kept| chains.iter().all(|chain| chain.writer != kept.writer)) {
        return Err(ChainFault::Kept { writer: kept.writer, sequence: kept.sequence }.into());
    }
    let tips: Vec<(u32, u64)> = chains.iter().map(|chain| (chain.writer, chain.tip.as_ref().map_or(0, |tip| tip.sequence))).collect();
    let counts = store.row_counts(&tips)?;
    for (there, known, what) in [(counts.0, executions, "executions"), (counts.1, violations, "violations")] {
        if there > known {
            return Err(ChainFault::Stray { count: there - known, what }.into());
        }
    }
    Ok(())
}

/// The walk along one chain, with its counts.
struct ChainWalk<'w> {
    store: &'w dyn ChainStore,
    keys: &'w ChainKeys,
    chain: &'w Chain,
    kept: &'w [Position],
    tell: &'w dyn Fn(u64, u64),
    executions: u64,
    violations: u64,
    records: u64,
}

impl ChainWalk<'_> {
    fn run(&mut self) -> Result<(), WalkStop> {
        let writer = self.chain.writer;
        let (mut last, mut before) = match &self.chain.anchor {
            None => (0, ChainKeys::genesis(writer)),
            Some(anchor) if !self.keys.is_anchor(anchor) => return Err(ChainFault::Anchor { writer, sequence: anchor.sequence }.into()),
            Some(anchor) => (anchor.sequence, anchor.mac),
        };
        let end = self.chain.tip.as_ref().map_or(0, |tip| tip.sequence);
        self.compare_kept(last, &before, end)?;
        while last < end {
            let records = self.store.records(writer, last, READ)?;
            if records.is_empty() {
                return Err(ChainFault::Missing { writer, first: last + 1, last: end }.into());
            }
            for record in records.iter().take_while(|record| record.position.sequence <= end) {
                self.check(record, last, &before)?;
                (last, before) = (record.position.sequence, record.position.mac);
                self.compare_kept(last, &before, end)?;
                self.records += 1;
            }
            (self.tell)(self.records, end.saturating_sub(self.chain.anchor.as_ref().map_or(0, |anchor| anchor.sequence)));
        }
        Ok(())
    }

    /// Checks that the chain agrees at this position with the anchors that were noted elsewhere.
    fn compare_kept(&self, sequence: u64, mac: &Mac, end: u64) -> Result<(), ChainFault> {
        let wrong = |kept: &&Position| {
            let here = kept.writer == self.chain.writer;
            here && (kept.sequence > end || (kept.sequence == sequence && kept.mac != *mac))
        };
        match self.kept.iter().find(wrong) {
            Some(kept) => Err(ChainFault::Kept { writer: kept.writer, sequence: kept.sequence }),
            None => Ok(()),
        }
    }

    fn check(&mut self, found: &StoredRecord, last: u64, before: &Mac) -> Result<(), WalkStop> {
        let Position { writer, sequence, mac } = &found.position;
        if *sequence != last + 1 {
            return Err(ChainFault::Missing { writer: *writer, first: last + 1, last: sequence - 1 }.into());
        }
        let record = codec::read(&found.body).ok();
        if !self.keys.is_record(mac, *writer, *sequence, before, &found.body) {
            let exchange = record.map(|record| record.id);
            return Err(ChainFault::Record { writer: *writer, sequence: *sequence, exchange }.into());
        }
        let record = record
            .ok_or_else(|| StoreError::Corrupt(format!("record {sequence} of chain {writer} is of a form that this version can't read")))?;
        let expected = IndexRows::of(&record, *writer, *sequence);
        let beside = |what| ChainFault::Beside { writer: *writer, sequence: *sequence, exchange: record.id, what };
        if found.exchange != expected.exchange || found.ended_ms != expected.ended_ms {
            return Err(beside("its exchange or its time").into());
        }
        if expected.executions.is_empty() && expected.violations.is_empty() {
            // No rows belong to this record; any that exist all the same are counted at the end.
            return Ok(());
        }
        let rows = self.store.rows(&found.position, &expected)?;
        if rows.violations != expected.violations {
            return Err(beside("a violation").into());
        }
        self.violations += rows.violations.len() as u64;
        for row in &expected.executions {
            let there = rows.executions.iter().find(|there| there.key == row.key);
            match there {
                Some(there) if there == row => self.executions += 1,
                Some(there) if self.is_elsewhere(there, &record, row.place)? => {}
                Some(_) | None => return Err(beside("an execution").into()),
            }
        }
        Ok(())
    }

    /// An execution that was recorded twice has its row at the other record: returns whether that record contains it.
    fn is_elsewhere(&self, there: &ExecutionRow<'_>, record: &ExchangeRecord, place: u32) -> Result<bool, StoreError> {
        let own = record.executions.get(place as usize).map(|execution| &execution.id);
        let others = self.store.records(there.writer, there.sequence.saturating_sub(1), 1)?;
        let Some(other) = others.first().filter(|other| other.position.sequence == there.sequence) else { return Ok(false) };
        let Ok(other) = codec::read(&other.body) else { return Ok(false) };
        let expected = IndexRows::of(&other, there.writer, there.sequence);
        let has = expected.executions.iter().any(|row| row == there);
        Ok(has && other.executions.get(there.place as usize).map(|execution| &execution.id) == own)
    }
}
