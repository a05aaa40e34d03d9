//! Is the ledger whole? Walks every chain, record by record, and compares what stands beside each with the record itself.

use uuid::Uuid;

use super::{
    chain::{ChainKeys, Mac},
    record::ExchangeRecord,
    rows::{ExecutionRow, Rows},
    store::{Chain, ChainStore, Position, StoreError, StoredRecord},
    stored,
};

/// Records read at a time.
const READ: usize = 500;
/// How often it begins anew where old records are removed meanwhile.
const TRIES: usize = 5;

/// What was found.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Report {
    /// Chains that are whole.
    pub chains: usize,
    /// Records that are whole.
    pub records: u64,
    /// What stands beside them and agrees.
    pub rows: u64,
    /// Records that were removed for their age, under a seal.
    pub removed: u64,
    /// The first thing that is wrong.
    pub fault: Option<Fault>,
}

/// What is wrong with a ledger, and where.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Fault {
    /// A record isn't what was sealed.
    #[error(
        "record {sequence} of chain {writer}{} was changed, inserted, or put in another one's place",
        .exchange.map_or(String::new(), |id| format!(" (exchange {id})"))
    )]
    Record {
        /// Whose chain.
        writer: u32,
        /// Which record.
        sequence: u64,
        /// Its exchange, as far as it can be read.
        exchange: Option<Uuid>,
    },
    /// Records aren't there.
    #[error("records {first} to {last} of chain {writer} were removed")]
    Missing {
        /// Whose chain.
        writer: u32,
        /// The first.
        first: u64,
        /// The last.
        last: u64,
    },
    /// The seal that stands for removed records.
    #[error("the anchor of chain {writer}, which stands for its first {sequence} records, was changed")]
    Anchor {
        /// Whose chain.
        writer: u32,
        /// Up to which record.
        sequence: u64,
    },
    /// What stands beside a record says something else.
    #[error("what is written beside record {sequence} of chain {writer} (exchange {exchange}) to find it was changed: {what}")]
    Beside {
        /// Whose chain.
        writer: u32,
        /// Which record.
        sequence: u64,
        /// Its exchange.
        exchange: Uuid,
        /// What was.
        what: &'static str,
    },
    /// Something stands beside no record.
    #[error("{count} {what} are written to be found that no record has")]
    Stray {
        /// How many.
        count: u64,
        /// Of what.
        what: &'static str,
    },
    /// What an anchor that was kept elsewhere says is no longer so.
    #[error(
        "chain {writer} doesn't have record {sequence} as the kept anchor says: its newest records were cut off, or it was written anew"
    )]
    Kept {
        /// Whose chain.
        writer: u32,
        /// Which record.
        sequence: u64,
    },
}

/// Why a walk ended early.
enum Stop {
    Fault(Fault),
    Store(StoreError),
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// Checks all of a ledger as it stands now; it may be written meanwhile. `kept`: positions that were noted elsewhere.
///
/// # Errors
/// [`StoreError`] where it can't be read.
pub fn verify(store: &dyn ChainStore, keys: &ChainKeys, kept: &[Position]) -> Result<Report, StoreError> {
    let mut tries = 0;
    loop {
        let chains = store.chains()?;
        let mut report = Report::default();
        tries += 1;
        match check_all(store, keys, kept, &chains, &mut report) {
            Ok(()) => return Ok(report),
            Err(Stop::Store(StoreError::Corrupt(_))) | Err(Stop::Fault(_)) if tries < TRIES && moved(&chains, &store.chains()?) => {}
            Err(Stop::Store(error)) => return Err(error),
            Err(Stop::Fault(fault)) => return Ok(Report { fault: Some(fault), ..report }),
        }
    }
}

/// Were old records removed meanwhile?
fn moved(before: &[Chain], now: &[Chain]) -> bool {
    let anchors = |chains: &[Chain]| chains.iter().map(|chain| chain.anchor.clone()).collect::<Vec<_>>();
    anchors(before) != anchors(now)
}

fn check_all(store: &dyn ChainStore, keys: &ChainKeys, kept: &[Position], chains: &[Chain], report: &mut Report) -> Result<(), Stop> {
    let (mut executions, mut violations) = (0, 0);
    for chain in chains {
        let mut walk = Walk { store, keys, chain, kept, executions: 0, violations: 0, records: 0 };
        let walked = walk.run();
        report.records += walk.records;
        report.rows += walk.executions + walk.violations;
        (executions, violations) = (executions + walk.executions, violations + walk.violations);
        walked?;
        report.removed += chain.anchor.as_ref().map_or(0, |anchor| anchor.sequence);
        report.chains += 1;
    }
    if let Some(kept) = kept.iter().find(|kept| chains.iter().all(|chain| chain.writer != kept.writer)) {
        return Err(Fault::Kept { writer: kept.writer, sequence: kept.sequence }.into());
    }
    let tips: Vec<(u32, u64)> = chains.iter().map(|chain| (chain.writer, chain.tip.as_ref().map_or(0, |tip| tip.sequence))).collect();
    let counts = store.row_counts(&tips)?;
    for (there, known, what) in [(counts.0, executions, "executions"), (counts.1, violations, "violations")] {
        if there > known {
            return Err(Fault::Stray { count: there - known, what }.into());
        }
    }
    Ok(())
}

/// The walk along one chain.
struct Walk<'w> {
    store: &'w dyn ChainStore,
    keys: &'w ChainKeys,
    chain: &'w Chain,
    kept: &'w [Position],
    executions: u64,
    violations: u64,
    records: u64,
}

impl Walk<'_> {
    fn run(&mut self) -> Result<(), Stop> {
        let writer = self.chain.writer;
        let (mut last, mut before) = match &self.chain.anchor {
            None => (0, ChainKeys::genesis(writer)),
            Some(anchor) if !self.keys.is_anchor(anchor) => return Err(Fault::Anchor { writer, sequence: anchor.sequence }.into()),
            Some(anchor) => (anchor.sequence, anchor.mac),
        };
        let end = self.chain.tip.as_ref().map_or(0, |tip| tip.sequence);
        self.compare_kept(last, &before, end)?;
        while last < end {
            let records = self.store.records(writer, last, READ)?;
            if records.is_empty() {
                return Err(Fault::Missing { writer, first: last + 1, last: end }.into());
            }
            for record in records.iter().take_while(|record| record.position.sequence <= end) {
                self.check(record, last, &before)?;
                (last, before) = (record.position.sequence, record.position.mac);
                self.compare_kept(last, &before, end)?;
                self.records += 1;
            }
        }
        Ok(())
    }

    /// Is the chain here what it was when an anchor was noted?
    fn compare_kept(&self, sequence: u64, mac: &Mac, end: u64) -> Result<(), Fault> {
        let wrong = |kept: &&Position| {
            let here = kept.writer == self.chain.writer;
            here && (kept.sequence > end || (kept.sequence == sequence && kept.mac != *mac))
        };
        match self.kept.iter().find(wrong) {
            Some(kept) => Err(Fault::Kept { writer: kept.writer, sequence: kept.sequence }),
            None => Ok(()),
        }
    }

    fn check(&mut self, found: &StoredRecord, last: u64, before: &Mac) -> Result<(), Stop> {
        let Position { writer, sequence, mac } = &found.position;
        if *sequence != last + 1 {
            return Err(Fault::Missing { writer: *writer, first: last + 1, last: sequence - 1 }.into());
        }
        let record = stored::read(&found.body).ok();
        if !self.keys.is_record(mac, *writer, *sequence, before, &found.body) {
            let exchange = record.map(|record| record.id);
            return Err(Fault::Record { writer: *writer, sequence: *sequence, exchange }.into());
        }
        let record = record
            .ok_or_else(|| StoreError::Corrupt(format!("record {sequence} of chain {writer} is of a form that this version can't read")))?;
        let expected = Rows::of(&record, *writer, *sequence);
        let beside = |what| Fault::Beside { writer: *writer, sequence: *sequence, exchange: record.id, what };
        if found.exchange != expected.exchange || found.ended_ms != expected.ended_ms {
            return Err(beside("its exchange or its time").into());
        }
        if expected.executions.is_empty() && expected.violations.is_empty() {
            // Nothing belongs there; what stands there all the same is counted in the end.
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

    /// An execution that was recorded twice is found at its other record; does that have it?
    fn is_elsewhere(&self, there: &ExecutionRow<'_>, record: &ExchangeRecord, place: u32) -> Result<bool, StoreError> {
        let own = record.executions.get(place as usize).map(|execution| &execution.id);
        let others = self.store.records(there.writer, there.sequence.saturating_sub(1), 1)?;
        let Some(other) = others.first().filter(|other| other.position.sequence == there.sequence) else { return Ok(false) };
        let Ok(other) = stored::read(&other.body) else { return Ok(false) };
        let expected = Rows::of(&other, there.writer, there.sequence);
        let has = expected.executions.iter().any(|row| row == there);
        Ok(has && other.executions.get(there.place as usize).map(|execution| &execution.id) == own)
    }
}
