//! The hourly sums that the ledger keeps beside its records, in the same transaction: exact over restarts, because a
//! record and its sums are stored together or not at all, and over replicas, because each writer keeps rows of its own.
//!
//! Added up on the workers, as their records are at hand there; the ledger's writer takes that up, and asks for what changed,
//! with each batch.

use std::collections::BTreeMap;

use super::{sheet::Sheet, sums::Sums};
use crate::ledger::{
    record::ExchangeRecord,
    store::{HourRow, Hourly},
};

/// Milliseconds of an hour.
pub const HOUR_MS: u64 = 3_600_000;
/// See the module.
#[derive(Debug, Default)]
pub struct Rollup {
    sheets: BTreeMap<u32, Sheet>,
    /// It is only a part, to be taken up by another.
    apart: bool,
    /// INVARIANT: what is stored of this hour and of later ones is in `sheets`; rows of earlier ones are never
    /// written again. A record that comes late counts for this hour.
    floor: Option<u32>,
}

impl Rollup {
    fn sheet(&mut self, hour: u32) -> &mut Sheet {
        let floor = self.floor.unwrap_or(hour);
        let hour = hour.max(floor);
        // The hour before may still get records of exchanges that ended in it.
        self.floor = Some(floor.max(hour.saturating_sub(1)));
        let apart = self.apart;
        self.sheets.entry(hour).or_insert_with(|| if apart { Sheet::apart() } else { Sheet::default() })
    }
}

impl Hourly for Rollup {
    fn restore(&mut self, rows: &[HourRow]) {
        for row in rows {
            // What can't be read was written by something else; it stays as it is until the name comes again.
            if let Some(sums) = Sums::decode(&row.sums) {
                self.sheets.entry(row.hour).or_default().restore(&row.name, &sums);
            }
        }
        self.floor = rows.iter().map(|row| row.hour).min();
    }

    fn add(&mut self, record: &ExchangeRecord) {
        let hour = u32::try_from(record.ended_ms() / HOUR_MS).unwrap_or(u32::MAX);
        self.sheet(hour).add(record);
    }

    fn apart(&self) -> Box<dyn Hourly> {
        // Which hours are over, only the whole knows.
        Box::new(Self { apart: true, floor: Some(0), ..Self::default() })
    }

    fn take_up(&mut self, apart: &[HourRow]) {
        for row in apart {
            if let Some(sums) = Sums::decode(&row.sums) {
                self.sheet(row.hour).merge(&row.name, &sums);
            }
        }
    }

    fn changed(&mut self, writer: u32) -> Vec<HourRow> {
        let mut rows = Vec::new();
        for (hour, sheet) in &mut self.sheets {
            rows.extend(sheet.changed().into_iter().map(|(name, sums)| HourRow { writer, hour: *hour, name, sums: sums.encode() }));
        }
        let floor = self.floor.unwrap_or_default();
        self.sheets.retain(|hour, _| *hour >= floor);
        rows
    }
}
