//! Whatever is changed in a stored ledger without its key is found.

use proptest::{prelude::*, test_runner::TestRunner};
use toolmark::{
    ledger::{
        chain::ChainKeys,
        codec,
        fixtures::{RecordGenerator, seal},
        store::{Batch, Position, open::open},
        verify::{ChainFault, newest_are_signed, verify},
    },
    settings::{Durability, LedgerUrl, Secret},
};

use super::crash::{key, store_of};
use crate::postgres::{Database, Ledger};

const RECORDS: u64 = 24;

fn keys() -> ChainKeys {
    ChainKeys::new(&[key()])
}

/// A ledger with records, of which the oldest were pruned.
fn filled(ledger: Ledger) -> Ledger {
    let url = match &ledger {
        Ledger::Sqlite(directory) => LedgerUrl::Sqlite(directory.path().join("toolmark.db")),
        Ledger::Postgres(_, database) => LedgerUrl::Postgres(Secret::new(database.url())),
    };
    let store = open(&url, Durability::Commit).unwrap();
    let (tip, _) = store.begin(0).unwrap();
    let records: Vec<_> = (0..RECORDS).map(RecordGenerator::record).collect();
    store.append(&Batch { records: seal(&keys(), &tip, &records), hours: Vec::new() }).unwrap();
    assert_eq!(store.prune(RecordGenerator::record(4).ended_ms(), 99, 100, &keys()).unwrap(), 4);
    ledger
}

#[test]
fn whose_key_signed_the_newest_record() {
    for ledger in [filled(Ledger::sqlite()), filled(Ledger::postgres())] {
        let (other, rotated) = (ChainKeys::new(&[[7; 32]]), ChainKeys::new(&[[7; 32], key()]));
        let store = store_of(&ledger);
        let signed = [keys(), rotated, other].map(|keys| newest_are_signed(&*store, &keys).unwrap());
        assert_eq!(signed, [true, true, false]);
    }
}

/// Every change of one column of one row, and what else can be done to rows; `p`: what tables' names begin with.
/// `{s}`: the sequence number of a record, `{t}`: of another one.
fn changes(p: &str, blob: &str, byte: &str) -> Vec<String> {
    let number = |table: &str, column: &str| format!("UPDATE {p}{table} SET {column} = {column} + 1 WHERE sequence = {{s}}");
    let text = |table: &str, column: &str| format!("UPDATE {p}{table} SET {column} = 'x' WHERE sequence = {{s}}");
    let bytes =
        |table: &str, column: &str| format!("UPDATE {p}{table} SET {column} = {byte} WHERE sequence = {{s}}").replace("COLUMN", column);
    let mut all = vec![
        number("records", "ended_ms"),
        bytes("records", "exchange"),
        bytes("records", "body"),
        bytes("records", "mac"),
        format!("UPDATE {p}records SET sequence = 1000 WHERE sequence = {{s}}"),
        number("executions", "started_ms"),
        number("executions", "tail"),
        number("executions", "place"),
        text("executions", "tool"),
        text("executions", "session"),
        format!("UPDATE {p}executions SET session = NULL WHERE sequence = {{s}}"),
        bytes("executions", "result"),
        format!("UPDATE {p}executions SET sequence = {{t}} WHERE sequence = {{s}}"),
        format!("UPDATE {p}executions SET sequence = 1000 WHERE sequence = {{s}}"),
        number("violations", "ended_ms"),
        format!("UPDATE {p}violations SET place = place + 5 WHERE sequence = {{s}}"),
        text("violations", "code"),
        text("violations", "tool"),
        text("violations", "model"),
        format!("UPDATE {p}violations SET sequence = {{t}} WHERE sequence = {{s}}"),
        format!("UPDATE {p}anchors SET sequence = sequence + 1"),
        format!("UPDATE {p}anchors SET pruned_ms = pruned_ms + 1"),
        format!("UPDATE {p}anchors SET mac = {blob}"),
        format!("UPDATE {p}anchors SET seal = {blob}"),
        format!("DELETE FROM {p}anchors"),
        format!("DELETE FROM {p}records WHERE sequence = {{s}}"),
        format!("DELETE FROM {p}executions WHERE sequence = {{s}}"),
        format!("DELETE FROM {p}violations WHERE sequence = {{s}}"),
    ];
    // Two records change places.
    let writer = if p.is_empty() { "" } else { "writer, " };
    all.push(format!(
        "CREATE TABLE swapped AS SELECT * FROM {p}records WHERE sequence IN ({{s}}, {{t}}); DELETE FROM {p}records WHERE sequence IN ({{s}}, {{t}}); \
         INSERT INTO {p}records ({writer}sequence, exchange, ended_ms, body, mac) \
         SELECT {writer}{{s}} + {{t}} - sequence, exchange, ended_ms, body, mac FROM swapped; DROP TABLE swapped"
    ));
    all
}

fn sqlite_changes() -> Vec<String> {
    let mut all = changes(
        "",
        "x'00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff'",
        "CAST(substr(COLUMN, 1, length(COLUMN) - 1) || x'7e' AS BLOB)",
    );
    all.push("INSERT INTO records SELECT sequence + 1000, randomblob(16), ended_ms, body, mac FROM records WHERE sequence = {s}".into());
    all.push(
        "INSERT INTO executions SELECT started_ms + 7, tail, sequence, place, tool, session, result FROM executions WHERE sequence = {s}"
            .into(),
    );
    all.push("INSERT INTO violations SELECT ended_ms, sequence, place + 9, code, tool, model FROM violations WHERE sequence = {s}".into());
    all
}

fn postgres_changes() -> Vec<String> {
    let blob = "'\\x00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff'::bytea";
    let mut all = changes("toolmark_", blob, "set_byte(COLUMN, length(COLUMN) - 1, 255 - get_byte(COLUMN, length(COLUMN) - 1))");
    all.push(
        "INSERT INTO toolmark_records SELECT writer, sequence + 1000, '\\x00112233445566778899aabbccddeeff', ended_ms, body, mac \
         FROM toolmark_records WHERE sequence = {s}"
            .into(),
    );
    all.push(
        "INSERT INTO toolmark_executions SELECT started_ms + 7, tail, writer, sequence, place, tool, session, result FROM toolmark_executions \
         WHERE sequence = {s}"
            .into(),
    );
    all.push("UPDATE toolmark_records SET writer = 2 WHERE sequence = {s}".into());
    all.push("UPDATE toolmark_executions SET writer = 2 WHERE sequence = {s}".into());
    all.push("UPDATE toolmark_violations SET writer = 2 WHERE sequence = {s}".into());
    all.push("UPDATE toolmark_anchors SET writer = 2".into());
    all
}

fn found(ledger: &Ledger) -> bool {
    // What can't even be read was changed, too.
    verify(&*store_of(ledger), &keys(), &[]).map_or(true, |report| report.fault.is_some())
}

/// Two records that are left, the first of them with a violation.
fn places() -> impl Strategy<Value = (u64, u64)> {
    (2..RECORDS / 2, 1..RECORDS - 5).prop_map(|(half, further)| {
        let first = half * 2 + 1;
        (first, 5 + (first - 5 + further) % (RECORDS - 4))
    })
}

fn every_change_is_found(cases: u32, changes: &[String], copy: impl Fn() -> Ledger) {
    assert!(!found(&copy()), "untouched it is whole");
    let mut runner = TestRunner::new(ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() });
    let checked = runner.run(&places(), |(first, second)| {
        for change in changes {
            let sql = change.replace("{s}", &first.to_string()).replace("{t}", &second.to_string());
            let ledger = copy();
            ledger.execute(&sql);
            prop_assert!(found(&ledger), "not found: {}", sql);
        }
        Ok(())
    });
    checked.unwrap();
}

#[test]
fn every_change_of_sqlite_is_found() {
    let whole = filled(Ledger::sqlite());
    whole.execute("PRAGMA wal_checkpoint(TRUNCATE)");
    let copy = || {
        let copy = Ledger::sqlite();
        std::fs::copy(whole.directory().join("toolmark.db"), copy.directory().join("toolmark.db")).unwrap();
        copy
    };
    every_change_is_found(6, &sqlite_changes(), copy);
}

#[test]
fn every_change_of_postgres_is_found() {
    let whole = filled(Ledger::postgres());
    let Ledger::Postgres(_, database) = &whole else { unreachable!() };
    let copy = || Ledger::Postgres(tempfile::tempdir().unwrap(), Database::copy_of(database));
    every_change_is_found(2, &postgres_changes(), copy);
}

#[test]
fn the_newest_records_can_be_cut_off_unseen_but_for_a_kept_anchor() {
    for (ledger, table) in [(filled(Ledger::sqlite()), "records"), (filled(Ledger::postgres()), "toolmark_records")] {
        let tip = store_of(&ledger).chains().unwrap().pop().unwrap().tip.unwrap();
        let kept = [tip.clone()];
        assert_eq!(verify(&*store_of(&ledger), &keys(), &kept).unwrap().fault, None);
        let beside = table.replace("records", "executions");
        let too = table.replace("records", "violations");
        ledger.execute(&format!(
            "DELETE FROM {table} WHERE sequence > 20; DELETE FROM {beside} WHERE sequence > 20; DELETE FROM {too} WHERE sequence > 20"
        ));
        assert_eq!(verify(&*store_of(&ledger), &keys(), &[]).unwrap().fault, None);
        let fault = verify(&*store_of(&ledger), &keys(), &kept).unwrap().fault;
        assert_eq!(fault, Some(ChainFault::Kept { writer: tip.writer, sequence: RECORDS }));
        let foreign = Position { sequence: 20, mac: [0; 32], ..tip };
        assert!(verify(&*store_of(&ledger), &keys(), &[foreign]).unwrap().fault.is_some());
    }
}

#[test]
fn the_first_record_that_is_wrong_is_named() {
    let ledger = filled(Ledger::sqlite());
    ledger.execute("UPDATE records SET body = CAST(replace(body, 'gpt-4o', 'gpt-4p') AS BLOB) WHERE sequence IN (9, 12)");
    let fault = verify(&*store_of(&ledger), &keys(), &[]).unwrap().fault.unwrap();
    assert_eq!(fault, ChainFault::Record { writer: 1, sequence: 9, exchange: Some(RecordGenerator::record(8).id) });
    let ledger = filled(Ledger::sqlite());
    ledger.execute("DELETE FROM records WHERE sequence IN (9, 10)");
    assert_eq!(verify(&*store_of(&ledger), &keys(), &[]).unwrap().fault, Some(ChainFault::Missing { writer: 1, first: 9, last: 10 }));
}

#[test]
fn records_that_an_earlier_version_wrote_as_json_are_as_good() {
    for ledger in [filled(Ledger::sqlite()), filled(Ledger::postgres())] {
        let store = store_of(&ledger);
        let anchor = store.chains().unwrap().pop().unwrap().anchor.unwrap();
        let (table, hex) = match &ledger {
            Ledger::Sqlite(_) => ("records", "x'{}'"),
            Ledger::Postgres(..) => ("toolmark_records", "'\\x{}'::bytea"),
        };
        let blob = |bytes: &[u8]| hex.replace("{}", &bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        let mut before = Position { writer: anchor.writer, sequence: anchor.sequence, mac: anchor.mac };
        let mut sql = String::new();
        // The later half stays as this version writes it, sealed anew.
        for (record, json) in store
            .records(before.writer, before.sequence, 1000)
            .unwrap()
            .into_iter()
            .zip((0..10).map(|_| true).chain(std::iter::repeat(false)))
        {
            let sequence = record.position.sequence;
            let body = if json { serde_json::to_vec(&codec::read(&record.body).unwrap()).unwrap() } else { record.body };
            let mac = keys().record(before.writer, sequence, &before.mac, &body);
            before = Position { sequence, mac, ..before };
            sql.push_str(&format!("UPDATE {table} SET body = {}, mac = {} WHERE sequence = {sequence};", blob(&body), blob(&mac)));
        }
        drop(store);
        ledger.execute(&sql);
        let store = store_of(&ledger);
        let report = verify(&*store, &keys(), &[]).unwrap();
        assert_eq!((report.fault, report.records), (None, RECORDS - 4));
        for number in 4..RECORDS {
            let record = RecordGenerator::record(number);
            assert_eq!(store.exchange(record.id).unwrap().as_deref(), Some(&record));
            assert_eq!(store.execution(&record.executions[0].id).unwrap().map(|found| found.execution), record.executions.first().cloned());
        }
    }
}
