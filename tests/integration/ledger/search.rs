//! Looking through a long ledger: what a page of exchanges costs is bounded, whatever is looked for.
//!
//! `TOOLMARK_TEST_RECORDS=100000` fills the ledgers with so many records, and prints how long the pages took.

use std::{cell::Cell, sync::Arc, time::Instant};

use toolmark::{
    ledger::{
        chain::ChainKeys,
        fixtures::{RecordGenerator, seal},
        record::ExchangeRecord,
        store::{Batch, ChainStore, DECODE_WORK, PageQuery, RecordFilter, SCAN_WORK_MAX, open::open},
    },
    settings::{Durability, LedgerUrl, Secret},
};

use super::crash::key;
use crate::postgres::Ledger;

fn records() -> u64 {
    std::env::var("TOOLMARK_TEST_RECORDS").ok().and_then(|count| count.parse().ok()).unwrap_or(5_000)
}

fn filled(ledger: &Ledger) -> Arc<dyn ChainStore> {
    let url = match ledger {
        Ledger::Sqlite(directory) => LedgerUrl::Sqlite(directory.path().join("toolmark.db")),
        Ledger::Postgres(_, database) => LedgerUrl::Postgres(Secret::new(database.url())),
    };
    let (store, keys) = (open(&url, Durability::Batch).unwrap(), ChainKeys::new(&[key()]));
    let (mut tip, _) = store.begin(0).unwrap();
    for first in (0..records()).step_by(1000) {
        let records: Vec<_> = (first..(first + 1000).min(records())).map(RecordGenerator::record).collect();
        let batch = Batch { records: seal(&keys, &tip, &records), hours: Vec::new() };
        store.append(&batch).unwrap();
        tip = batch.records.last().unwrap().position.clone();
    }
    store
}

/// Pages of what is looked for: rows, the most records that one page decoded, and the number of pages.
fn looked_for(store: &dyn ChainStore, texts: &[&str], matches: &dyn Fn(&ExchangeRecord) -> bool) -> (usize, u64, usize) {
    let (mut rows, mut decoded_max, mut pages, mut after) = (0, 0, 0, None);
    loop {
        let decoded = Cell::new(0);
        let counted = |record: &ExchangeRecord| {
            decoded.set(decoded.get() + 1);
            matches(record)
        };
        let begun = Instant::now();
        let page = PageQuery { limit: 100, after, ..PageQuery::default() };
        let found = store.exchanges(&page, RecordFilter { texts, matches: &counted }).unwrap();
        if pages == 0 && std::env::var_os("TOOLMARK_TEST_RECORDS").is_some() {
            eprintln!("{texts:?}: the first page took {:.1} ms and decoded {} records", begun.elapsed().as_secs_f64() * 1e3, decoded.get());
        }
        (rows, decoded_max, pages) = (rows + found.rows.len(), decoded_max.max(decoded.get()), pages + 1);
        after = found.next;
        if after.is_none() {
            return (rows, decoded_max, pages);
        }
    }
}

#[test]
fn a_page_of_exchanges_costs_no_more_than_its_limit_whatever_is_looked_for() {
    for ledger in [Ledger::sqlite(), Ledger::postgres()] {
        let store = filled(&ledger);
        let all = usize::try_from(records()).unwrap();
        // A name that stands in no record: not one is decoded, and one page tells it.
        assert_eq!(looked_for(&*store, &["no-such-model"], &|_| true), (0, 0, 1));
        // One that stands in each third record.
        let session = |record: &ExchangeRecord| record.session.as_deref() == Some("session-1");
        let (rows, decoded, _) = looked_for(&*store, &["session-1"], &session);
        assert_eq!((rows, decoded), ((all + 1) / 3, 100));
        // What can't be told without decoding is looked for page by page, to the end.
        let (rows, decoded, pages) = looked_for(&*store, &[], &|record| record.status != Some(200));
        let decoded_max = SCAN_WORK_MAX / (DECODE_WORK + 1) + 1;
        assert_eq!((rows, pages), (0, all.div_ceil(usize::try_from(decoded_max).unwrap())));
        assert!(decoded <= decoded_max, "{decoded}");
        let (rows, ..) = looked_for(&*store, &[], &|_| true);
        assert_eq!(rows, all);
    }
}

#[test]
fn postgresql_reads_exchanges_backwards_by_their_index() {
    let ledger = Ledger::postgres();
    filled(&ledger);
    ledger.execute("ANALYZE");
    let Ledger::Postgres(_, database) = &ledger else { unreachable!() };
    let numbers = ["9223372036854775807", "0", "0", "0", "500", "'\\x41'::bytea"];
    let sql = numbers
        .iter()
        .zip(1..)
        .fold(toolmark::ledger::store::postgres::SCAN.to_owned(), |sql, (value, at)| sql.replace(&format!("${at}"), value));
    let plan: Vec<String> =
        database.client().query(&format!("EXPLAIN {sql}"), &[]).unwrap().iter().map(|row| row.get::<_, String>(0)).collect();
    let plan = plan.join("\n");
    assert!(
        plan.contains("Index Scan Backward using toolmark_records_by_time") && !plan.contains("Seq Scan on toolmark_records"),
        "{plan}"
    );
}
