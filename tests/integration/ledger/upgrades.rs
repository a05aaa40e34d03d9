//! A PostgreSQL ledger of another version of toolmark: an older one is migrated, a newer one refused.

use toolmark::ledger::store::postgres::PostgresStore;

use crate::postgres::Database;

#[test]
fn older_tables_are_migrated_and_later_ones_refused() {
    for version in [1, 2] {
        let database = Database::new();
        let mut client = postgres::Client::connect(&database.url(), postgres::NoTls).unwrap();
        let steps = [
            include_str!("../../../src/gateway/ledger/store/postgres/schema_1.sql"),
            include_str!("../../../src/gateway/ledger/store/postgres/schema_2.sql"),
        ];
        steps[..version].iter().for_each(|step| client.batch_execute(step).unwrap());
        client.batch_execute("CREATE TABLE toolmark_schema (version integer PRIMARY KEY)").unwrap();
        for number in 1..=version as i32 {
            client.execute("INSERT INTO toolmark_schema (version) VALUES ($1)", &[&number]).unwrap();
        }
        let refused = PostgresStore::open_to_read(&database.url()).err().unwrap().to_string();
        assert!(refused.contains("an earlier version of toolmark: `toolmark serve` brings it up to date"), "{refused}");
        drop(PostgresStore::open(&database.url()).unwrap());
        drop(PostgresStore::open_to_read(&database.url()).unwrap());

        client.execute("INSERT INTO toolmark_schema (version) SELECT max(version) + 1 FROM toolmark_schema", &[]).unwrap();
        for error in [PostgresStore::open(&database.url()).err(), PostgresStore::open_to_read(&database.url()).err()] {
            let said = error.unwrap().to_string();
            assert!(said.contains("a later version of toolmark: use that one, or another database"), "{said}");
        }
    }
}
