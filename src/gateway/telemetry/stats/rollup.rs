//! Hourly sums that the ledger stores with its records, in the same transaction. They are exact over restarts, because a
//! record and its sums are stored together or not at all, and over replicas, because each writer has its own rows.
//!
//! Workers add up their own records; with each batch, the ledger's writer merges these sums and reads the rows that changed.

use std::collections::BTreeMap;

use crate::{
    ledger::{
        record::ExchangeRecord,
        store::{HourlyAggregator, HourlyRow},
    },
    telemetry::stats::{aggregate::Aggregates, counters::CounterSet},
};

/// Milliseconds of an hour.
pub const HOUR_MS: u64 = 3_600_000;
/// Hourly sums, one sheet per hour.
#[derive(Debug, Default)]
pub struct Rollup {
    sheets: BTreeMap<u32, Aggregates>,
    /// This is a worker's part, to be merged into another.
    apart: bool,
    /// INVARIANT: everything stored for this hour and later ones is in `sheets`; rows of earlier hours are never written
    /// again. A record that comes late counts for this hour.
    floor: Option<u32>,
}

impl Rollup {
    fn sheet(&mut self, hour: u32) -> &mut Aggregates {
        let floor = self.floor.unwrap_or(hour);
        let hour = hour.max(floor);
        // The previous hour may still get records of exchanges that ended in it.
        self.floor = Some(floor.max(hour.saturating_sub(1)));
        let apart = self.apart;
        self.sheets.entry(hour).or_insert_with(|| if apart { Aggregates::apart() } else { Aggregates::default() })
    }
}

impl HourlyAggregator for Rollup {
    fn restore(&mut self, rows: &[HourlyRow]) {
        for row in rows {
            // An unreadable row was written by other software; it stays unchanged until its name occurs again.
            if let Some(sums) = CounterSet::decode(&row.sums) {
                self.sheets.entry(row.hour).or_default().restore(&row.name, &sums);
            }
        }
        self.floor = rows.iter().map(|row| row.hour).min();
    }

    fn add(&mut self, record: &ExchangeRecord) {
        let hour = u32::try_from(record.ended_ms() / HOUR_MS).unwrap_or(u32::MAX);
        self.sheet(hour).add(record);
    }

    fn apart(&self) -> Box<dyn HourlyAggregator> {
        // A worker's part can't tell which hours are over; only the merged sums can.
        Box::new(Self { apart: true, floor: Some(0), ..Self::default() })
    }

    fn take_up(&mut self, apart: &[HourlyRow]) {
        for row in apart {
            if let Some(sums) = CounterSet::decode(&row.sums) {
                self.sheet(row.hour).merge(&row.name, &sums);
            }
        }
    }

    fn changed(&mut self, writer: u32) -> Vec<HourlyRow> {
        let mut rows = Vec::new();
        for (hour, sheet) in &mut self.sheets {
            rows.extend(sheet.changed().into_iter().map(|(name, sums)| HourlyRow { writer, hour: *hour, name, sums: sums.encode() }));
        }
        let floor = self.floor.unwrap_or_default();
        self.sheets.retain(|hour, _| *hour >= floor);
        rows
    }
}
