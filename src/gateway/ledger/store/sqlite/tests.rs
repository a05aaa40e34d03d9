//! The embedded store by itself: what goes in comes out, pages, prunes and goes on after a restart.

use super::*;
use crate::{
    ledger::{
        chain::ChainKeys,
        fixtures::{RecordGenerator, seal},
        sealed_kv::cipher::SealedRow,
        store::{Batch, ChainStore as _, ExecutionFilter, HourlyRow, PageQuery, Position, RecordFilter, Store as _, ViolationFilter, page},
    },
    settings::Durability,
};

fn keys() -> ChainKeys {
    ChainKeys::new(&[[7; 32]])
}

/// A store with so many sample records, one per second from 1970 on.
fn filled(directory: &Path, count: u64) -> SqliteStore {
    let store = SqliteStore::open(&directory.join("toolmark.db"), Durability::Commit).unwrap();
    let (tip, _) = store.begin(0).unwrap();
    let records = (0..count).map(RecordGenerator::record).collect::<Vec<_>>();
    let hours = vec![HourlyRow { writer: WRITER, hour: 0, name: "all".into(), sums: vec![1, 2] }];
    store.append(&Batch { records: seal(&keys(), &tip, &records), hours }).unwrap();
    store
}

#[test]
fn what_goes_in_comes_out() {
    let directory = tempfile::tempdir().unwrap();
    let store = filled(directory.path(), 20);
    let record = RecordGenerator::record(3);
    assert_eq!(store.exchange(record.id).unwrap().as_deref(), Some(&record));
    let execution = record.executions.first().unwrap();
    let found = store.execution(&execution.id).unwrap().unwrap();
    assert_eq!((found.exchange, &found.execution, &found.session), (record.id, execution, &record.session));
    assert!(store.execution("get_weather_1763760000123_abc0000000000001").unwrap().is_none() && store.execution("x").unwrap().is_none());
    assert_eq!(store.hours(0, 1).unwrap().len(), 1);
    assert!(store.hours(1, 9).unwrap().is_empty());
    store.ready().unwrap();
}

#[test]
fn lists_come_in_pages_without_gap_or_repetition() {
    let directory = tempfile::tempdir().unwrap();
    let store = filled(directory.path(), 20);
    let mut ids = Vec::new();
    let mut after = None;
    loop {
        let page = PageQuery { limit: 3, after, ..PageQuery::default() };
        let found = store.executions(&ExecutionFilter { page, ..ExecutionFilter::default() }).unwrap();
        ids.extend(found.rows.into_iter().map(|row| row.execution.id));
        after = found.next;
        if after.is_none() {
            break;
        }
    }
    let all: Vec<_> = (0..20).rev().flat_map(|number| RecordGenerator::record(number).executions).map(|execution| execution.id).collect();
    assert_eq!(ids, all);
    let page =
        PageQuery { limit: 100, since_ms: Some(RecordGenerator::time_ms(5)), until_ms: Some(RecordGenerator::time_ms(8)), after: None };
    let filter = ExecutionFilter { page: page.clone(), ..ExecutionFilter::default() };
    assert_eq!(store.executions(&filter).unwrap().rows.len(), 3);
    let filter = ExecutionFilter { session: Some("session-1".into()), page: PageQuery { limit: 100, ..PageQuery::default() }, ..filter };
    assert!(store.executions(&filter).unwrap().rows.iter().all(|row| row.session.as_deref() == Some("session-1")));
    let filter = ViolationFilter {
        code: Some("unknown_tool".into()),
        page: PageQuery { limit: 2, ..PageQuery::default() },
        ..ViolationFilter::default()
    };
    let first = store.violations(&filter).unwrap();
    assert!(first.rows.len() == 2 && first.rows.iter().all(|row| row.violation.code.as_str() == "unknown_tool"));
    let second = ViolationFilter { page: PageQuery { after: first.next, ..filter.page.clone() }, ..filter };
    assert!(store.violations(&second).unwrap().rows.iter().all(|row| !first.rows.contains(row)));
    let bad = PageQuery { after: Some("x".into()), ..page };
    assert!(matches!(store.executions(&ExecutionFilter { page: bad, ..ExecutionFilter::default() }), Err(StoreError::Cursor)));
}

#[test]
fn it_goes_on_where_it_was_and_prunes_behind_an_anchor() {
    let directory = tempfile::tempdir().unwrap();
    drop(filled(directory.path(), 10));
    let store = SqliteStore::open(&directory.path().join("toolmark.db"), Durability::Commit).unwrap();
    let (tip, hours) = store.begin(0).unwrap();
    assert_eq!((tip.sequence, hours.len()), (10, 1));
    let removed = store.prune(RecordGenerator::record(4).ended_ms(), 99, 3, &keys()).unwrap();
    assert_eq!(removed, 3);
    assert_eq!(store.prune(RecordGenerator::record(4).ended_ms(), 99, 3, &keys()).unwrap(), 1);
    assert_eq!(store.prune(RecordGenerator::record(4).ended_ms(), 99, 3, &keys()).unwrap(), 0);
    let chain = store.chains().unwrap().pop().unwrap();
    assert!(chain.anchor.is_some_and(|anchor| anchor.sequence == 4 && keys().is_anchor(&anchor)));
    assert_eq!(store.records(WRITER, 0, 100).unwrap().len(), 6);
    assert_eq!(
        store.row_counts(&[(WRITER, 10)]).unwrap(),
        (6, (4..10).map(|number| RecordGenerator::record(number).violations.len() as u64).sum())
    );
    assert_eq!(store.prune(u64::MAX, 99, 100, &keys()).unwrap(), 6);
    assert_eq!(store.begin(0).unwrap().0.sequence, 10);
}

#[test]
fn one_process_writes_and_others_may_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("toolmark.db");
    assert!(SqliteStore::open_to_read(&path).err().unwrap().to_string().contains("no file"));
    let _store = filled(directory.path(), 3);
    assert!(SqliteStore::open(&path, Durability::Commit).err().unwrap().to_string().contains("another process writes"));
    let reader = SqliteStore::open_to_read(&path).unwrap();
    assert_eq!(reader.records(WRITER, 0, 100).unwrap().len(), 3);
    assert!(reader.append(&Batch::default()).is_ok(), "an empty batch changes nothing");
    let foreign = directory.path().join("other.db");
    Connection::open(&foreign).unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
    assert!(SqliteStore::open(&foreign, Durability::Commit).err().unwrap().to_string().contains("no ledger of toolmark's"));
    std::fs::write(directory.path().join("junk.db"), "not a database at all, but long enough to look like one".repeat(20)).unwrap();
    assert!(SqliteStore::open(&directory.path().join("junk.db"), Durability::Batch).is_err());
}

#[test]
fn a_full_disk_keeps_nothing_and_comes_right() {
    let directory = tempfile::tempdir().unwrap();
    let store = filled(directory.path(), 3);
    let (tip, _) = store.begin(0).unwrap();
    let records: Vec<_> = (3..400).map(RecordGenerator::record).collect();
    let batch = Batch { records: seal(&keys(), &tip, &records), hours: Vec::new() };
    store.writing(|connection| connection.pragma_update(None, "max_page_count", 20).map_err(unavailable)).unwrap();
    let error = store.append(&batch).unwrap_err();
    assert!(error.to_string().contains("make room"), "{error}");
    assert_eq!(store.begin(0).unwrap().0, tip);
    store.append(&batch).unwrap();
    assert_eq!(store.records(WRITER, 0, 1000).unwrap().len(), 400);
}

#[test]
fn what_is_kept_comes_back_and_goes_by_age_and_by_size() {
    let directory = tempfile::tempdir().unwrap();
    let store = filled(directory.path(), 3);
    let row = |number: u8, at_ms: u64| SealedRow { id: [number; 32], at_ms, body: vec![number; 100] };
    let rows: Vec<SealedRow> = (0..10).map(|number| row(number, 1000 + u64::from(number))).collect();
    store.put_kept(&rows).unwrap();
    store.put_kept(&[SealedRow { body: vec![9], ..row(3, 2000) }]).unwrap();
    let found = store.kept(&[[3; 32], [77; 32], [4; 32]]).unwrap();
    assert_eq!(found, [SealedRow { body: vec![9], ..row(3, 2000) }, row(4, 1004)]);
    assert!(!store.prune_kept(1005, u64::MAX).unwrap());
    let left = |store: &SqliteStore| -> Vec<u8> { (0..10).filter(|number| store.kept(&[[*number; 32]]).unwrap().len() == 1).collect() };
    assert_eq!(left(&store), [3, 5, 6, 7, 8, 9]);
    assert!(!store.prune_kept(0, 501).unwrap());
    assert_eq!(left(&store), [3, 5, 6, 7, 8, 9]);
    store.prune_kept(0, 500).unwrap();
    assert!(left(&store).is_empty(), "the oldest go, some hundreds at a time");
}

#[test]
fn an_older_file_is_brought_up_to_date() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("toolmark.db");
    let old = Connection::open(&path).unwrap();
    old.execute_batch(include_str!("schema_1.sql")).unwrap();
    old.pragma_update(None, "application_id", APPLICATION_ID).unwrap();
    old.pragma_update(None, "user_version", 1).unwrap();
    drop(old);
    assert!(SqliteStore::open_to_read(&path).err().unwrap().to_string().contains("earlier version"));
    let store = SqliteStore::open(&path, Durability::Commit).unwrap();
    store.put_kept(&[SealedRow { id: [1; 32], at_ms: 1, body: vec![1] }]).unwrap();
    drop(store);
    assert_eq!(SqliteStore::open_to_read(&path).unwrap().kept(&[[1; 32]]).unwrap().len(), 1);
}

#[test]
fn what_was_begun_is_kept_for_the_next_process_unless_its_end_is() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("toolmark.db");
    let row = |number: u8, body: u8| SealedRow { id: [number; 32], at_ms: 5, body: vec![body] };
    let body = |store: &SqliteStore, number: u8| store.kept(&[[number; 32]]).unwrap().first().map(|row| row.body[0]);
    let store = SqliteStore::open(&path, Durability::Batch).unwrap();
    let slots: Vec<u32> = (1..=3).filter_map(|number| store.note(row(number, 0))).collect();
    assert_eq!(slots, [0, 1, 2]);
    assert_eq!(body(&store, 1), Some(0), "in this process too");
    store.put_kept(&[row(2, 9)]).unwrap();
    store.give_back(&slots[1..2]);
    store.put_kept(&[row(3, 9)]).unwrap();
    drop(store);
    let store = SqliteStore::open(&path, Durability::Batch).unwrap();
    assert_eq!([1, 2, 3, 4].map(|number| body(&store, number)), [Some(0), Some(9), Some(9), None]);
    // It is the database's now.
    drop(store);
    std::fs::remove_file(intent_log::path(&path)).unwrap();
    let at_once = SqliteStore::open(&path, Durability::Commit).unwrap();
    assert_eq!((body(&at_once, 1), at_once.note(row(5, 0))), (Some(0), None), "what must be on disk at once is put");
}

#[test]
fn a_file_keeps_the_pages_that_it_was_made_with() {
    let directory = tempfile::tempdir().unwrap();
    for (name, made_with, expected) in [("new.db", None, PAGE_BYTES), ("old.db", Some(4096), 4096)] {
        let path = directory.path().join(name);
        if let Some(bytes) = made_with {
            let mut connection = Connection::open(&path).unwrap();
            connection.pragma_update(None, "page_size", bytes).unwrap();
            migrate(&mut connection, &path).unwrap();
        }
        drop(SqliteStore::open(&path, Durability::Batch).unwrap());
        assert_eq!(pragma(&Connection::open(&path).unwrap(), "page_size").unwrap(), expected, "{name}");
        let log_pages = pragma(&connect(&path, ConnectionUse::Write).unwrap(), "wal_autocheckpoint").unwrap();
        assert_eq!(log_pages * expected, 16 << 20, "the log of {name} gets as long as any");
    }
}

#[test]
fn what_an_earlier_version_wrote_as_json_is_read_checked_and_pruned() {
    let directory = tempfile::tempdir().unwrap();
    let store = filled(directory.path(), 3);
    let mut before = Position { writer: WRITER, sequence: 0, mac: ChainKeys::genesis(WRITER) };
    store
        .writing(|connection| {
            for number in 0..3 {
                let (sequence, body) = (number + 1, serde_json::to_vec(&RecordGenerator::record(number)).unwrap());
                let mac = keys().record(WRITER, sequence, &before.mac, &body);
                before = Position { writer: WRITER, sequence, mac };
                let sql = "UPDATE records SET body = ?2, mac = ?3 WHERE sequence = ?1";
                connection.execute(sql, rusqlite::params![sequence as i64, body, &mac[..]]).unwrap();
            }
            Ok(())
        })
        .unwrap();
    // The chain goes on in the new form.
    store.append(&Batch { records: seal(&keys(), &before, &[RecordGenerator::record(3)]), hours: Vec::new() }).unwrap();
    let whole = |store: &SqliteStore| {
        let report = crate::ledger::verify::verify(store, &keys(), &[]).unwrap();
        assert_eq!(report.fault, None);
        report.records
    };
    assert_eq!(whole(&store), 4);
    for number in 0..4 {
        let record = RecordGenerator::record(number);
        assert_eq!(store.exchange(record.id).unwrap().as_deref(), Some(&record));
        assert_eq!(store.execution(&record.executions[0].id).unwrap().unwrap().execution, record.executions[0]);
    }
    assert_eq!(store.prune(RecordGenerator::record(2).ended_ms(), 1, 100, &keys()).unwrap(), 2);
    assert_eq!(whole(&store), 2);
    assert!(store.execution(&RecordGenerator::record(0).executions[0].id).unwrap().is_none());
}

/// A file as the version wrote it that had so many migrations: without later tables, and with records as JSON.
fn of_version(directory: &Path, version: usize, count: u64) {
    drop(filled(directory, count));
    let connection = Connection::open(directory.join("toolmark.db")).unwrap();
    let mut before = ChainKeys::genesis(WRITER);
    for number in 0..count {
        let (sequence, body) = (number + 1, serde_json::to_vec(&RecordGenerator::record(number)).unwrap());
        before = keys().record(WRITER, sequence, &before, &body);
        let values = rusqlite::params![sequence as i64, body, &before[..]];
        connection.execute("UPDATE records SET body = ?2, mac = ?3 WHERE sequence = ?1", values).unwrap();
    }
    if version < 2 {
        connection.execute_batch("DROP TABLE kept").unwrap();
    }
    if version < MIGRATIONS.len() {
        connection.execute_batch("DROP TABLE bodies").unwrap();
    }
    connection.pragma_update(None, "user_version", version as i64).unwrap();
}

#[test]
fn files_of_every_older_version_open_and_go_on() {
    for version in 1..MIGRATIONS.len() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("toolmark.db");
        of_version(directory.path(), version, 3);
        let refused = SqliteStore::open_to_read(&path).err().unwrap().to_string();
        assert!(refused.contains("earlier version") && refused.contains("`toolmark serve` brings it up to date"), "{refused}");
        let store = SqliteStore::open(&path, Durability::Commit).unwrap();
        let (tip, _) = store.begin(0).unwrap();
        assert_eq!(tip.sequence, 3, "version {version}");
        store.append(&Batch { records: seal(&keys(), &tip, &[RecordGenerator::record(3)]), hours: Vec::new() }).unwrap();
        for number in 0..4 {
            let record = RecordGenerator::record(number);
            assert_eq!(store.exchange(record.id).unwrap().as_deref(), Some(&record), "version {version}");
        }
        let report = crate::ledger::verify::verify(&store, &keys(), &[]).unwrap();
        assert_eq!((report.fault, report.records), (None, 4), "version {version}");
    }
}

#[test]
fn a_downgrade_says_what_is_wrong_and_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("toolmark.db");
    drop(filled(directory.path(), 2));
    let later = MIGRATIONS.len() as i64 + 1;
    Connection::open(&path).unwrap().pragma_update(None, "user_version", later).unwrap();
    for error in [SqliteStore::open(&path, Durability::Batch).err(), SqliteStore::open_to_read(&path).err()] {
        let said = error.unwrap().to_string();
        assert!(said.contains("written by a later version of toolmark: use that one, or give this one its own `[ledger] url`"), "{said}");
    }
    assert_eq!(pragma(&Connection::open(&path).unwrap(), "user_version").unwrap(), later);
}

/// A ledger that was migrated yesterday isn't migrated again: what its migrations said then must stand.
#[test]
fn released_migrations_never_change() {
    use sha2::Digest as _;
    for (text, digest) in [
        (include_str!("../sqlite/schema_1.sql"), "d1cf06ddcf74a83e4c6f38511e2e9465f7ea768900123f975ed6e6fc882249b9"),
        (include_str!("../sqlite/schema_2.sql"), "13352370d5c9371515b49d701fcef5fe66ffbab4ba72d6e8b7c3869a5970cc34"),
        (include_str!("../sqlite/schema_3.sql"), "a896786cdc8b98412d44526d7a36bc42ae3d911a50e618944dc26cef2400026e"),
        (include_str!("../postgres/schema_1.sql"), "ac24cccf2380af171e95496ac3c6c7f3f337497839353f1954edd8f814a31273"),
        (include_str!("../postgres/schema_2.sql"), "d5158a081f18868e277c24d0160b3d25e8157b5644a1e3aa46cdb65679470bd3"),
        (include_str!("../postgres/schema_3.sql"), "a896786cdc8b98412d44526d7a36bc42ae3d911a50e618944dc26cef2400026e"),
    ] {
        let own: String = sha2::Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(own, digest, "add a migration instead: {text}");
    }
}

#[test]
fn more_rows_than_go_together_come_out_one_by_one() {
    for count in [1, 15, 16, 17, 40] {
        let directory = tempfile::tempdir().unwrap();
        let store = filled(directory.path(), count);
        assert!(
            (0..count)
                .all(|number| store.exchange(RecordGenerator::record(number).id).unwrap().as_deref()
                    == Some(&RecordGenerator::record(number)))
        );
        let report = crate::ledger::verify::verify(&store, &keys(), &[]).unwrap();
        assert_eq!((report.fault, report.records), (None, count));
    }
}

#[test]
fn exchanges_are_read_backwards_from_a_place_without_sorting() {
    let directory = tempfile::tempdir().unwrap();
    let store = filled(directory.path(), 20);
    let plan = |sql: &str| {
        store.reading(|connection| {
            let mut explain = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).map_err(unavailable)?;
            let rows = explain.query_map([5], |row| row.get::<_, String>(3)).and_then(Iterator::collect::<Result<Vec<_>, _>>);
            rows.map_err(unavailable)
        })
    };
    assert_eq!(plan(query::SCAN).unwrap(), ["SEARCH records USING INTEGER PRIMARY KEY (rowid<?)"]);
}

#[test]
fn a_text_that_no_record_holds_costs_no_decoding() {
    let record = |number| {
        let mut body = Vec::new();
        crate::ledger::codec::write(&RecordGenerator::record(number), &mut body);
        body
    };
    let scanned = |texts: &[&str]| {
        let window = page::PageWindow::<1>::of(&PageQuery { limit: 10, ..PageQuery::default() }).unwrap();
        let mut scan = page::RecordScan::new(window, RecordFilter { texts, matches: &|_| false });
        (0..200).for_each(|number| assert!(scan.look([200 - number], &record(number as u64)).unwrap()));
        scan.done()
    };
    assert_eq!(scanned(&["gpt-4o", "nowhere"]), (200, 0));
    assert_eq!(scanned(&["gpt-4o"]), (200 * 41, 200));
    // Every second one is `repaired`.
    assert_eq!(scanned(&["repaired"]), (200 + 100 * 40, 100));
}
