//! Sample records for tests and measurements: each is determined by its number.

use uuid::Uuid;

use super::{
    chain::ChainKeys,
    record::{
        AttemptRecord, AttemptTokens, CallOutcome, CallRecord, ClaimRecord, Digest, ExchangeRecord, ExecutionRecord, ScopeDigest,
        ViolationRecord, Witness,
    },
    store::{Position, SealedRecord},
};
use crate::{
    ledger::codec,
    openai::Api,
    violation::{Code, Severity, Verdict},
};

/// Generator of sample records.
pub struct RecordGenerator;

/// 2026-01-01, in Unix milliseconds.
const START_MS: u64 = 1_767_225_600_000;

impl RecordGenerator {
    /// Time at which the call of that record was passed on: one call per second.
    pub fn time_ms(number: u64) -> u64 {
        START_MS + number * 1000
    }

    /// The record with that number: one call, one execution, and a violation in every second record.
    pub fn record(number: u64) -> ExchangeRecord {
        let tools = ["get_weather", "add_task", "search"];
        let tool = tools.get(number as usize % tools.len()).copied().unwrap_or_default();
        let started_ms = Self::time_ms(number);
        let tail = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let digest = Digest::of(&number.to_le_bytes());
        let violation = |code| ViolationRecord { tool: Some("fetch_weather".into()), ..ViolationRecord::new(code, Severity::Block, 1) };
        let code = if number.is_multiple_of(4) { Code::UnknownTool } else { Code::MissingRequired };
        ExchangeRecord {
            id: Uuid::from_u128((u128::from(started_ms) << 80) | (7 << 76) | (2 << 62) | u128::from(number)),
            amends: None,
            at_ms: started_ms + 500,
            api: Api::Chat,
            stream: number.is_multiple_of(2),
            observed: false,
            scope: ScopeDigest(number % 5),
            client: None,
            session: Some(format!("session-{}", number % 3).into()),
            policy: "0123456789abcdef".into(),
            model: "gpt-4o".into(),
            status: Some(200),
            verdict: if number.is_multiple_of(2) { Verdict::Repaired } else { Verdict::Pass },
            repairs: u32::from(number.is_multiple_of(2)),
            total_us: 250_000,
            upstream_us: 249_900,
            attempts: vec![AttemptRecord {
                upstream: "openai".into(),
                model: "gpt-4o".into(),
                status: Some(200),
                tokens: Some(AttemptTokens { input: 900, output: 60 }),
                duration_us: 249_900,
            }],
            calls: vec![CallRecord {
                attempt: 1,
                tool: tool.into(),
                outcome: CallOutcome::Accepted,
                mark: None,
                arguments: digest,
                arguments_body: None,
                corrected: false,
                violations: Vec::new(),
            }],
            executions: vec![ExecutionRecord {
                id: format!("{tool}_{started_ms:013}_{tail:016x}").into(),
                tool: tool.into(),
                mark: Box::default(),
                arguments: Some(digest),
                result: digest,
                arguments_body: None,
                result_body: None,
                witness: Witness::App,
                started_ms,
                seen_ms: started_ms + 500,
                failed: number.is_multiple_of(10),
            }],
            claims: vec![ClaimRecord { execution: None, code: None }],
            violations: if number.is_multiple_of(2) { vec![violation(code)] } else { Vec::new() },
        }
    }
}

/// Appends records to a chain, as the writer does.
pub fn seal(keys: &ChainKeys, tip: &Position, records: &[ExchangeRecord]) -> Vec<SealedRecord<'static>> {
    let mut before = tip.clone();
    let seal = |record: &ExchangeRecord| {
        let mut body = Vec::new();
        codec::write(record, &mut body);
        let sequence = before.sequence + 1;
        let mac = keys.record(before.writer, sequence, &before.mac, &body);
        before = Position { writer: before.writer, sequence, mac };
        SealedRecord { position: before.clone(), body: body.into() }
    };
    records.iter().map(seal).collect()
}
