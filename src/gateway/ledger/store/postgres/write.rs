//! Writing: choice of the chain, batches of records, claims, and removal of expired records.

use postgres::{Client, Statement, Transaction, types::ToSql};

use super::{LOCKS, PostgresStore, PreparingClient, array, get, unavailable, unsigned, writer_of};
use crate::ledger::{
    chain::{ChainKeys, Mac},
    codec,
    index::{ExecutionKey, IndexRows},
    record::Digest,
    store::{Batch, FirstResult, HourlyRow, Position, SealedRecord, StoreError, postgres::query},
};

/// Age in milliseconds after which a claim that wasn't recorded may be taken over: its process is gone.
const CLAIM_MS: i64 = 60_000;
const MILLIS_PER_HOUR: u64 = 3_600_000;

/// Takes a chain that no process writes: the one from before if possible, else any, else a new one.
pub(super) fn take_chain(client: &mut Client, before: Option<i32>) -> Result<i32, StoreError> {
    let failed = |error: postgres::Error| unavailable(&error);
    loop {
        let rows = client.query("SELECT writer FROM toolmark_writers ORDER BY writer", &[]).map_err(failed)?;
        let known = rows.iter().map(|row| get::<i32>(row, 0)).collect::<Result<Vec<_>, _>>()?;
        for writer in before.into_iter().chain(known.iter().copied()) {
            let row = client.query_one("SELECT pg_try_advisory_lock($1, $2)", &[&LOCKS, &writer]).map_err(failed)?;
            if get(&row, 0)? {
                return Ok(writer);
            }
        }
        let next = known.last().map_or(1, |last| last.saturating_add(1));
        client.execute("INSERT INTO toolmark_writers (writer) VALUES ($1) ON CONFLICT DO NOTHING", &[&next]).map_err(failed)?;
    }
}

impl PostgresStore {
    pub(super) fn begin_writing(&self, hour: u32) -> Result<(Position, Vec<HourlyRow>), StoreError> {
        self.writing(|client, writer| {
            let own = u32::try_from(writer).unwrap_or(0);
            let tip = tip(client, writer)?.unwrap_or(Position { writer: own, sequence: 0, mac: ChainKeys::genesis(own) });
            let sql = "SELECT writer, hour, name, sums FROM toolmark_hours WHERE writer = $1 AND hour >= $2";
            let rows = client.query(sql, &[&writer, &i64::from(hour)]).map_err(|error| unavailable(&error))?;
            Ok((tip, rows.iter().map(query::hour).collect::<Result<_, _>>()?))
        })
    }

    pub(super) fn write(&self, batch: &Batch<'_>) -> Result<(), StoreError> {
        self.writing(|client, writer| {
            let failed = |error: postgres::Error| unavailable(&error);
            let rows = batch.records.iter().map(SealedRecord::rows).collect::<Result<Vec<_>, _>>()?;
            if batch.records.first().is_some_and(|sealed| i64::from(sealed.position.writer) != i64::from(writer)) {
                return Err(StoreError::Unavailable("the chain was taken over by another replica".into()));
            }
            let statements = InsertStatements::of(client).map_err(failed)?;
            let mut transaction = client.transaction().map_err(failed)?;
            insert(&mut transaction, &statements, writer, batch, &rows).map_err(failed)?;
            transaction.commit().map_err(failed)
        })
    }

    pub(super) fn remove(&self, before_ms: u64, now_ms: u64, records_max: usize, keys: &ChainKeys) -> Result<usize, StoreError> {
        self.writing(|client, own| {
            let failed = |error: postgres::Error| unavailable(&error);
            let rows = client.query("SELECT writer FROM toolmark_writers ORDER BY writer", &[]).map_err(failed)?;
            let mut most = 0;
            for writer in rows.iter().map(|row| get::<i32>(row, 0)) {
                let writer = writer?;
                let mut transaction = client.transaction().map_err(failed)?;
                // Any replica also prunes the chains of replicas that are gone.
                let row = transaction.query_one("SELECT pg_try_advisory_xact_lock($1, $2)", &[&LOCKS, &writer]).map_err(failed)?;
                if writer == own || get(&row, 0)? {
                    most = most.max(remove_of(&mut transaction, writer, before_ms, now_ms, records_max, keys)?);
                    transaction.commit().map_err(failed)?;
                }
            }
            let hour = i64::try_from(before_ms / MILLIS_PER_HOUR).unwrap_or(0);
            client.execute("DELETE FROM toolmark_hours WHERE hour < $1", &[&hour]).map_err(failed)?;
            client.execute("DELETE FROM toolmark_claims WHERE claimed_ms < $1", &[&(before_ms as i64)]).map_err(failed)?;
            Ok(most)
        })
    }

    /// Determines the first results of these executions, claiming those that aren't known.
    pub(super) fn settle(&self, claims: &[FirstResult], now_ms: u64) -> Result<Vec<FirstResult>, StoreError> {
        let mut claims: Vec<&FirstResult> = claims.iter().collect();
        // Sorted, so that replicas that claim the same rows lock them in the same order.
        claims.sort_by_key(|claim| claim.key.signed());
        claims.dedup_by_key(|claim| claim.key);
        let (started, tails): (Vec<i64>, Vec<i64>) = claims.iter().map(|claim| claim.key.signed()).unzip();
        let results: Vec<&[u8]> = claims.iter().map(|claim| &claim.result.0[..]).collect();
        let sessions: Vec<Option<&str>> = claims.iter().map(|claim| claim.session.as_deref()).collect();
        self.reading(|client| {
            let failed = |error: postgres::Error| unavailable(&error);
            let values: [&(dyn ToSql + Sync); 7] = [&started, &tails, &results, &sessions, &self.claimant, &(now_ms as i64), &CLAIM_MS];
            let (claim, firsts) = (client.prepared(CLAIM).map_err(failed)?, client.prepared(FIRSTS).map_err(failed)?);
            client.execute(&claim, &values).map_err(failed)?;
            let rows = client.query(&firsts, &[&started, &tails]).map_err(failed)?;
            let first = |row: &postgres::Row| {
                let key = ExecutionKey { started_ms: unsigned(get(row, 0)?, "a time")?, tail: get::<i64>(row, 1)? as u64 };
                let result = Digest(array(&get::<Vec<u8>>(row, 2)?, "a digest")?);
                let session = get::<Option<String>>(row, 3)?.map(Into::into);
                Ok(FirstResult { key, result, session, recorded: get::<Option<i64>>(row, 4)? != Some(self.claimant) })
            };
            rows.iter().map(first).collect()
        })
    }
}

/// Claims executions that aren't recorded, unless another claim exists; an expired claim with the same result is taken over.
const CLAIM: &str = "INSERT INTO toolmark_claims AS c (started_ms, tail, result, session, claimant, claimed_ms) \
    SELECT n.started_ms, n.tail, n.result, n.session, $5, $6 FROM unnest($1::bigint[], $2::bigint[], $3::bytea[], $4::text[]) \
    AS n (started_ms, tail, result, session) \
    WHERE NOT EXISTS (SELECT 1 FROM toolmark_executions e WHERE e.started_ms = n.started_ms AND e.tail = n.tail) \
    ORDER BY n.started_ms, n.tail \
    ON CONFLICT (started_ms, tail) DO UPDATE SET claimant = excluded.claimant, claimed_ms = excluded.claimed_ms \
    WHERE c.claimed_ms < excluded.claimed_ms - $7 AND c.result = excluded.result";

/// Selects first results: recorded ones take precedence over claimed ones.
const FIRSTS: &str = "SELECT DISTINCT ON (started_ms, tail) started_ms, tail, result, session, claimant FROM (\
    SELECT e.started_ms, e.tail, e.result, e.session, NULL::bigint AS claimant, 0 AS rank FROM toolmark_executions e \
    JOIN unnest($1::bigint[], $2::bigint[]) AS n (started_ms, tail) USING (started_ms, tail) UNION ALL \
    SELECT c.started_ms, c.tail, c.result, c.session, c.claimant, 1 FROM toolmark_claims c \
    JOIN unnest($1::bigint[], $2::bigint[]) AS n (started_ms, tail) USING (started_ms, tail)) AS found ORDER BY started_ms, tail, rank";

/// Position of a chain's newest record; `None` if the chain is empty.
pub(super) fn tip(client: &mut Client, writer: i32) -> Result<Option<Position>, StoreError> {
    let newest = "SELECT writer, sequence, mac FROM toolmark_records WHERE writer = $1 ORDER BY sequence DESC LIMIT 1";
    let removed = "SELECT writer, sequence, mac FROM toolmark_anchors WHERE writer = $1";
    for sql in [newest, removed] {
        if let Some(row) = client.query_opt(sql, &[&writer]).map_err(|error| unavailable(&error))? {
            let sequence = unsigned(get(&row, 1)?, "a sequence number")?;
            return Ok(Some(Position { writer: writer_of(&row, 0)?, sequence, mac: array(&get::<Vec<u8>>(&row, 2)?, "a MAC")? }));
        }
    }
    Ok(None)
}

/// Statements that a batch consists of.
struct InsertStatements {
    records: Statement,
    executions: Statement,
    claims: Statement,
    violations: Statement,
    hours: Statement,
}

impl InsertStatements {
    fn of(client: &mut PreparingClient) -> Result<Self, postgres::Error> {
        Ok(Self {
            records: client.prepared(
                "INSERT INTO toolmark_records (writer, sequence, exchange, ended_ms, body, mac) \
                 SELECT $1, * FROM unnest($2::bigint[], $3::bytea[], $4::bigint[], $5::bytea[], $6::bytea[])",
            )?,
            executions: client.prepared(
                "INSERT INTO toolmark_executions (writer, started_ms, tail, sequence, place, tool, session, result) \
                 SELECT $1, * FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::integer[], $6::text[], $7::text[], $8::bytea[]) \
                 ON CONFLICT DO NOTHING",
            )?,
            claims: client.prepared(
                "DELETE FROM toolmark_claims WHERE (started_ms, tail) IN (SELECT c.started_ms, c.tail FROM toolmark_claims c \
                 JOIN unnest($1::bigint[], $2::bigint[]) AS n (started_ms, tail) USING (started_ms, tail) ORDER BY 1, 2 FOR UPDATE OF c)",
            )?,
            violations: client.prepared(
                "INSERT INTO toolmark_violations (writer, ended_ms, sequence, place, code, tool, model) \
                 SELECT $1, * FROM unnest($2::bigint[], $3::bigint[], $4::integer[], $5::text[], $6::text[], $7::text[])",
            )?,
            hours: client.prepared(
                "INSERT INTO toolmark_hours (writer, hour, name, sums) VALUES ($1, $2, $3, $4) \
                 ON CONFLICT (writer, hour, name) DO UPDATE SET sums = excluded.sums",
            )?,
        })
    }
}

fn insert(
    transaction: &mut Transaction<'_>,
    statements: &InsertStatements,
    writer: i32,
    batch: &Batch<'_>,
    rows: &[IndexRows<'_>],
) -> Result<(), postgres::Error> {
    let records = &batch.records;
    let sequences: Vec<i64> = records.iter().map(|sealed| sealed.position.sequence as i64).collect();
    let exchanges: Vec<&[u8]> = rows.iter().map(|rows| &rows.exchange.as_bytes()[..]).collect();
    let ended: Vec<i64> = rows.iter().map(|rows| rows.ended_ms as i64).collect();
    let bodies: Vec<&[u8]> = records.iter().map(|sealed| &sealed.body[..]).collect();
    let macs: Vec<&[u8]> = records.iter().map(|sealed| &sealed.position.mac[..]).collect();
    transaction.execute(&statements.records, &[&writer, &sequences, &exchanges, &ended, &bodies, &macs])?;
    insert_executions(transaction, statements, writer, rows)?;
    insert_violations(transaction, statements, writer, rows)?;
    for row in &batch.hours {
        let name = row.name.replace('\0', "\u{fffd}");
        transaction.execute(&statements.hours, &[&writer, &i64::from(row.hour), &name, &row.sums])?;
    }
    Ok(())
}

fn insert_executions(
    transaction: &mut Transaction<'_>,
    statements: &InsertStatements,
    writer: i32,
    rows: &[IndexRows<'_>],
) -> Result<(), postgres::Error> {
    let mut all: Vec<_> = rows.iter().flat_map(|rows| &rows.executions).collect();
    if all.is_empty() {
        return Ok(());
    }
    all.sort_by_key(|row| row.key.signed());
    let (started, tails): (Vec<i64>, Vec<i64>) = all.iter().map(|row| row.key.signed()).unzip();
    let sequences: Vec<i64> = all.iter().map(|row| row.sequence as i64).collect();
    let places: Vec<i32> = all.iter().map(|row| row.place as i32).collect();
    let tools: Vec<&str> = all.iter().map(|row| &*row.tool).collect();
    let sessions: Vec<Option<&str>> = all.iter().map(|row| row.session.as_deref()).collect();
    let results: Vec<&[u8]> = all.iter().map(|row| &row.result.0[..]).collect();
    transaction.execute(&statements.executions, &[&writer, &started, &tails, &sequences, &places, &tools, &sessions, &results])?;
    // Recorded executions need no claim any more. Locked in order, as they are claimed.
    transaction.execute(&statements.claims, &[&started, &tails])?;
    Ok(())
}

fn insert_violations(
    transaction: &mut Transaction<'_>,
    statements: &InsertStatements,
    writer: i32,
    rows: &[IndexRows<'_>],
) -> Result<(), postgres::Error> {
    let all: Vec<_> = rows.iter().flat_map(|rows| &rows.violations).collect();
    if all.is_empty() {
        return Ok(());
    }
    let ended: Vec<i64> = all.iter().map(|row| row.ended_ms as i64).collect();
    let sequences: Vec<i64> = all.iter().map(|row| row.sequence as i64).collect();
    let places: Vec<i32> = all.iter().map(|row| row.place as i32).collect();
    let codes: Vec<&str> = all.iter().map(|row| &*row.code).collect();
    let tools: Vec<Option<&str>> = all.iter().map(|row| row.tool.as_deref()).collect();
    let models: Vec<&str> = all.iter().map(|row| &*row.model).collect();
    transaction.execute(&statements.violations, &[&writer, &ended, &sequences, &places, &codes, &tools, &models])?;
    Ok(())
}

/// Removes the oldest records of one chain; returns their number.
fn remove_of(
    transaction: &mut Transaction<'_>,
    writer: i32,
    before_ms: u64,
    now_ms: u64,
    records_max: usize,
    keys: &ChainKeys,
) -> Result<usize, StoreError> {
    let failed = |error: postgres::Error| unavailable(&error);
    let sql = "SELECT sequence, mac, body, ended_ms FROM toolmark_records WHERE writer = $1 ORDER BY sequence LIMIT $2";
    let rows = transaction.query(sql, &[&writer, &(records_max as i64)]).map_err(failed)?;
    let own = u32::try_from(writer).unwrap_or(0);
    let mut last: Option<(u64, Mac)> = None;
    let mut count = 0;
    let mut readable = Vec::new();
    for row in &rows {
        if get::<i64>(row, 3)? as u64 >= before_ms {
            break;
        }
        let sequence = unsigned(get(row, 0)?, "a sequence number")?;
        last = Some((sequence, array(&get::<Vec<u8>>(row, 1)?, "a MAC")?));
        count += 1;
        // What can't be read leaves its rows behind: `ledger verify` names them.
        readable.extend(codec::read(&get::<Vec<u8>>(row, 2)?).map(|record| (record, sequence)));
    }
    let old: Vec<IndexRows<'_>> = readable.iter().map(|(record, sequence)| IndexRows::of(record, own, *sequence)).collect();
    let Some((sequence, mac)) = last else { return Ok(0) };
    let executions: Vec<_> = old.iter().flat_map(|rows| &rows.executions).collect();
    let (started, tails): (Vec<i64>, Vec<i64>) = executions.iter().map(|row| row.key.signed()).unzip();
    let sql = "DELETE FROM toolmark_executions e USING unnest($2::bigint[], $3::bigint[]) AS n (started_ms, tail) \
               WHERE e.started_ms = n.started_ms AND e.tail = n.tail AND e.writer = $1 AND e.sequence <= $4";
    transaction.execute(sql, &[&writer, &started, &tails, &(sequence as i64)]).map_err(failed)?;
    let ended: Vec<i64> = old.iter().map(|rows| rows.ended_ms as i64).collect();
    let sql = "DELETE FROM toolmark_violations WHERE writer = $1 AND sequence <= $2 AND ended_ms = ANY($3)";
    transaction.execute(sql, &[&writer, &(sequence as i64), &ended]).map_err(failed)?;
    let sql = "DELETE FROM toolmark_records WHERE writer = $1 AND sequence <= $2";
    transaction.execute(sql, &[&writer, &(sequence as i64)]).map_err(failed)?;
    let anchor = keys.anchor(own, sequence, mac, now_ms);
    let sql = "INSERT INTO toolmark_anchors (writer, sequence, mac, pruned_ms, seal) VALUES ($1, $2, $3, $4, $5) ON CONFLICT (writer) \
               DO UPDATE SET sequence = excluded.sequence, mac = excluded.mac, pruned_ms = excluded.pruned_ms, seal = excluded.seal";
    let values: [&(dyn ToSql + Sync); 5] = [&writer, &(sequence as i64), &&anchor.mac[..], &(anchor.pruned_ms as i64), &&anchor.seal[..]];
    transaction.execute(sql, &values).map_err(failed)?;
    Ok(count)
}
