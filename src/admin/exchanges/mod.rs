//! Exchanges: the list, one record, one timeline, one cassette, sessions, and what was refused of tools.

pub mod timeline;

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};

use http::{HeaderValue, Response, header};
use serde::Serialize;
use uuid::Uuid;

use timeline::{BodyPlace, ReadBodies, Timeline, record_without_bodies, without_bodies};

use super::{
    access::AdminCaller,
    api::{look_up, read_blocking},
    query::{PAGED, Parameters},
    responses::{self, invalid},
};
use crate::{
    cassette::{format::RecordedExchange, recorder::redacted},
    ledger::{
        bodies,
        record::{ExchangeRecord, ExecutionRecord},
        store::{PageQuery, RecordFilter, ResultPage, StoreError},
    },
    proxy::{
        app::App,
        http::{body::Body, failure::Failure},
    },
    replay::{
        offline::{Bench, HELD_BYTES_MAX},
        rejudge,
    },
    telemetry::{
        recent::RecentExchange,
        summary::{ExchangeFilter, ExchangeSummary, FILTERS},
    },
    tools::registry::SchemaCache,
    violation::{Code, Severity},
};

/// Longest wait until an exchange that has just ended is in the ledger, and the pause between looks.
const UNTIL_WRITTEN: Duration = Duration::from_millis(250);
const PAUSE: Duration = Duration::from_millis(10);
/// Exchanges of a session that are shown.
const OF_SESSION_MAX: usize = 200;
/// Records in which sessions are looked for.
const SESSIONS_SCAN: usize = 2000;
/// Examples of one refusal.
const EXAMPLES_MAX: usize = 3;
/// Refusals that are listed.
const REFUSALS_MAX: usize = 200;

/// A page of exchanges.
#[derive(Serialize)]
struct ExchangeList {
    data: Vec<ExchangeSummary>,
    next: Option<String>,
}

/// `GET /api/exchanges`
pub async fn list(app: &Arc<App>, caller: &AdminCaller, query: &str) -> Result<Response<Body>, Failure> {
    let parameters = Parameters::read(query, &[&FILTERS[..], &["until"], &PAGED].concat())?;
    let page = parameters.page(app.now_ms())?;
    let mut filter = ExchangeFilter::default();
    for name in FILTERS {
        if let Some(value) = parameters.text(name) {
            filter.set(name, &value).map_err(|why| invalid(name, why))?;
        }
    }
    if page.after.is_none() {
        until_written(app).await;
    }
    let words = filter.text.clone().filter(|_| caller.reads_bodies);
    if words.is_some() {
        caller.audit("search of bodies", "");
    }
    let own = app.clone();
    let ResultPage { rows, next } = look_up(app, move |store| {
        let in_bodies = words.map(|words| with_words(&own, &words)).unwrap_or_default();
        let matches = |record: &ExchangeRecord| {
            let row = ExchangeSummary::of(record);
            record.amends.is_none() && filter.matches_but_text(&row) && (filter.matches_text(&row) || in_bodies.contains(&record.id))
        };
        store.exchanges(&page, RecordFilter { texts: &filter.texts(), matches: &matches })
    })
    .await?;
    Ok(responses::json(&ExchangeList { data: rows.iter().map(|record| ExchangeSummary::of(record)).collect(), next }))
}

/// Waits until the newest exchange in memory is in the ledger too, which is written behind the answers.
async fn until_written(app: &Arc<App>) {
    let Some(newest) = app.observed.recent.newest() else { return };
    let waiting = async {
        while look_up(app, move |store| store.exchange(newest)).await.is_ok_and(|found| found.is_none()) {
            tokio::time::sleep(PAUSE).await;
        }
    };
    let _in_time = tokio::time::timeout(UNTIL_WRITTEN, waiting).await;
}

/// Exchanges in memory in whose bodies these words stand, in lower case.
fn with_words(app: &App, words: &str) -> HashSet<Uuid> {
    let holds = |one: &RecentExchange| {
        let captured = one.captured.as_ref()?;
        captured.bodies_contain(words).then_some(captured.id?)
    };
    app.observed.recent.captured().iter().filter_map(holds).collect()
}

/// Reads an exchange's id.
fn id_of(text: &str) -> Result<Uuid, Failure> {
    text.parse().map_err(|_| invalid("id", "an exchange's id is a UUID, as in the header `toolmark-exchange`"))
}

/// `GET /api/exchanges/{id}`
pub async fn record(app: &Arc<App>, caller: &AdminCaller, id: &str, query: &str) -> Result<Response<Body>, Failure> {
    Parameters::read(query, &[])?;
    let id = id_of(id)?;
    let found = look_up(app, move |store| store.exchange(id)).await?.ok_or_else(|| responses::not_found("exchange"))?;
    if !caller.reads_bodies {
        return Ok(responses::json(&record_without_bodies(&found)));
    }
    caller.audit("record", &id.to_string());
    Ok(responses::json(&*found))
}

/// Bodies of an exchange, without secrets, and where they are.
fn bodies_of(app: &App, id: Uuid) -> Result<Option<(RecordedExchange, BodyPlace, bool)>, StoreError> {
    if let Some(RecentExchange { captured: Some(captured), is_cut, .. }) = app.observed.recent.find(id) {
        let own = &app.settings.cassettes;
        return Ok(Some((redacted(captured, &app.ring, &own.headers, &own.redactor), BodyPlace::Memory, is_cut)));
    }
    let Some(kept) = &app.bodies else { return Ok(None) };
    Ok(kept.find(id)?.map(|exchange| {
        let is_cut = exchange.body_bytes_max() >= bodies::BODY_BYTES_MAX;
        (exchange, BodyPlace::Ledger, is_cut)
    }))
}

/// Judge with the policy that has this digest, or else with the settings' own.
fn bench(app: &App, digest: &str) -> Bench {
    let policies = app.policies();
    let own = policies.iter().find(|(_, standard)| standard.rules.digest.starts_with(digest)).or(policies.first());
    // INVARIANT: there is always a first policy.
    let standard = own.map_or_else(|| app.policies().swap_remove(0).1, |(_, standard)| standard.clone());
    Bench { standard, ring: app.ring.clone(), schemas: Arc::new(SchemaCache::default()) }
}

/// The record of an exchange: from memory, or from the ledger.
async fn any_record(app: &Arc<App>, id: Uuid) -> Result<ExchangeRecord, Failure> {
    if let Some(record) = app.observed.recent.find(id).and_then(|found| found.record) {
        return Ok(Arc::unwrap_or_clone(record));
    }
    let found = look_up(app, move |store| store.exchange(id)).await?;
    found.map(|record| (*record).clone()).ok_or_else(|| responses::not_found("exchange"))
}

/// `GET /api/exchanges/{id}/timeline`
pub async fn timeline(app: &Arc<App>, caller: &AdminCaller, id: &str, query: &str) -> Result<Response<Body>, Failure> {
    Parameters::read(query, &[])?;
    let id = id_of(id)?;
    let record = any_record(app, id).await?;
    let (own, may_read) = (app.clone(), caller.reads_bodies);
    let timeline = read_blocking(move || {
        let found = bodies_of(&own, id)?;
        let kept = found.as_ref().map_or(BodyPlace::Nowhere, |(_, place, _)| *place);
        let Some((exchange, _, cut)) = found.filter(|_| may_read) else { return Ok(Timeline::of(&record, kept, None, may_read)) };
        let read = rejudge::explain(&bench(&own, &record.policy), &exchange);
        let bodies = ReadBodies { exchange: &exchange, read, cut };
        Ok(Timeline::of(&record, kept, Some(bodies), may_read))
    })
    .await?;
    if may_read && timeline.kept != BodyPlace::Nowhere {
        caller.audit("timeline", &id.to_string());
    }
    Ok(responses::json(&timeline))
}

/// `GET /api/exchanges/{id}/cassette`
pub async fn cassette(app: &Arc<App>, caller: &AdminCaller, id: &str, query: &str) -> Result<Response<Body>, Failure> {
    Parameters::read(query, &[])?;
    let id = id_of(id)?;
    caller.must_read_bodies()?;
    let own = app.clone();
    let found = read_blocking(move || bodies_of(&own, id)).await?;
    let (exchange, ..) = found.ok_or_else(|| responses::not_found("exchange with bodies"))?;
    caller.audit("cassette", &id.to_string());
    let mut response = responses::of(http::StatusCode::OK, "application/jsonl", exchange.line() + "\n");
    if let Ok(name) = HeaderValue::from_str(&format!("attachment; filename=\"{id}.jsonl\"")) {
        response.headers_mut().insert(header::CONTENT_DISPOSITION, name);
    }
    Ok(response)
}

/// The newest exchanges whose bodies are kept, at most `limit`, the newest first.
pub fn kept_exchanges(app: &App, limit: usize) -> Result<Vec<RecordedExchange>, StoreError> {
    let own = &app.settings.cassettes;
    let recent = app.observed.recent.captured().into_iter().take(limit).filter_map(|one| one.captured);
    let mut found: Vec<RecordedExchange> = recent.map(|captured| redacted(captured, &app.ring, &own.headers, &own.redactor)).collect();
    let Some(kept) = app.bodies.as_ref().filter(|_| found.len() < limit) else { return Ok(found) };
    let known: HashSet<String> = found.iter().map(|exchange| exchange.id.clone()).collect();
    let page = PageQuery { limit, ..PageQuery::default() };
    let records =
        app.recorder.store().exchanges(&page, RecordFilter { texts: &[], matches: &|record| !known.contains(&record.id.to_string()) })?;
    for record in records.rows.iter().take(limit - found.len()) {
        found.extend(kept.find(record.id)?);
    }
    Ok(found)
}

/// A session in the list.
#[derive(Serialize)]
struct SessionSummary {
    session: Box<str>,
    exchanges: u64,
    blocked: u64,
    repaired: u64,
    first_ms: u64,
    last_ms: u64,
}

/// `GET /api/sessions`: those of the newest exchanges, the latest first.
pub async fn sessions(app: &Arc<App>, query: &str) -> Result<Response<Body>, Failure> {
    Parameters::read(query, &[])?;
    let records = look_up(app, move |store| store.recent(0, SESSIONS_SCAN)).await?;
    let mut sessions: Vec<SessionSummary> = Vec::new();
    let mut places: BTreeMap<Box<str>, usize> = BTreeMap::new();
    for record in records.iter().filter(|record| record.amends.is_none()) {
        let Some(name) = &record.session else { continue };
        let at = *places.entry(name.clone()).or_insert_with(|| {
            let ended = record.ended_ms();
            sessions.push(SessionSummary { session: name.clone(), exchanges: 0, blocked: 0, repaired: 0, first_ms: ended, last_ms: ended });
            sessions.len() - 1
        });
        if let Some(session) = sessions.get_mut(at) {
            session.exchanges += 1;
            session.blocked += u64::from(record.verdict == crate::violation::Verdict::Blocked);
            session.repaired += u64::from(record.verdict == crate::violation::Verdict::Repaired);
            session.first_ms = session.first_ms.min(record.ended_ms());
        }
    }
    Ok(responses::json(&serde_json::json!({"data": sessions, "scanned": records.len()})))
}

/// An exchange of a session.
#[derive(Serialize)]
struct SessionExchange {
    #[serde(flatten)]
    summary: ExchangeSummary,
    /// Marks of the calls that were passed on.
    marks: Vec<Box<str>>,
    /// Results that it showed first, stamped and verified.
    verified: Vec<ExecutionRecord>,
    /// Codes of what was wrong with marks, stamps and results in its request.
    history: Vec<Code>,
    /// Calls that loop control stopped.
    loops: usize,
}

/// `GET /api/sessions/{name}`
pub async fn session(app: &Arc<App>, caller: &AdminCaller, name: String, query: &str) -> Result<Response<Body>, Failure> {
    Parameters::read(query, &[])?;
    until_written(app).await;
    let (asked, text) = (name.clone(), name.clone());
    let page = PageQuery { limit: OF_SESSION_MAX, ..PageQuery::default() };
    let matches = move |record: &ExchangeRecord| record.amends.is_none() && record.session.as_deref() == Some(&*asked);
    let ResultPage { mut rows, next } =
        look_up(app, move |store| store.exchanges(&page, RecordFilter { texts: &[&text], matches: &matches })).await?;
    rows.reverse();
    let shown = |record: &ExchangeRecord| SessionExchange {
        summary: ExchangeSummary::of(record),
        marks: record.calls.iter().filter_map(|call| call.mark.clone()).collect(),
        verified: record.executions.iter().map(|one| if caller.reads_bodies { one.clone() } else { without_bodies(one) }).collect(),
        history: record.violations.iter().filter(|found| found.attempt == 0).map(|found| found.code).collect(),
        loops: record.violations.iter().filter(|found| found.code == Code::LoopDetected).count(),
    };
    if caller.reads_bodies && app.settings.ledger.store == crate::settings::StoredContent::Bodies {
        caller.audit("session", "");
    }
    let data: Vec<SessionExchange> = rows.iter().map(|record| shown(record)).collect();
    Ok(responses::json(&serde_json::json!({"session": name, "data": data, "complete": next.is_none()})))
}

/// How often a tool's calls were refused for one reason, among the newest exchanges.
#[derive(Serialize)]
struct Refusal {
    tool: String,
    code: Code,
    severity: Severity,
    count: u64,
    /// The exchange that has it last.
    last: Uuid,
    /// Words of such violations, if the caller may read them.
    examples: Vec<String>,
}

/// `GET /api/refusals`: what was refused of tools in the newest exchanges, the most frequent first.
pub async fn refusals(app: &Arc<App>, caller: &AdminCaller, query: &str) -> Result<Response<Body>, Failure> {
    Parameters::read(query, &[])?;
    let records = look_up(app, move |store| store.recent(0, SESSIONS_SCAN)).await?;
    let mut found: BTreeMap<(Box<str>, Code), Refusal> = BTreeMap::new();
    let with_words: Vec<RecentExchange> = if caller.reads_bodies { app.observed.recent.captured() } else { Vec::new() };
    for record in &records {
        let captured = with_words.iter().filter_map(|one| one.captured.as_ref()).find(|captured| captured.id == Some(record.id));
        let recorded = captured.and_then(|captured| captured.verdict.as_ref());
        for (at, violation) in record.violations.iter().enumerate() {
            let (Some(tool), true) = (&violation.tool, violation.severity >= Severity::Warn) else { continue };
            let refusal = found.entry((tool.clone(), violation.code)).or_insert_with(|| Refusal {
                tool: tool.to_string(),
                code: violation.code,
                severity: violation.severity,
                count: 0,
                last: record.id,
                examples: Vec::new(),
            });
            refusal.count += 1;
            let taped = recorded.and_then(|verdict| Some(verdict.violations.get(at)?.message.as_str()));
            let message = violation.message.as_deref().or(taped).filter(|_| caller.reads_bodies);
            if let Some(message) = message.filter(|_| refusal.examples.len() < EXAMPLES_MAX) {
                let secrets = captured.map(|captured| captured.credentials()).unwrap_or_default();
                let redactor = app.settings.cassettes.redactor.knowing(secrets.iter().map(String::as_str));
                let words = redactor.body_text(message).into_owned();
                if !refusal.examples.contains(&words) {
                    refusal.examples.push(words);
                }
            }
        }
    }
    let mut data: Vec<Refusal> = found.into_values().collect();
    if data.iter().any(|refusal| !refusal.examples.is_empty()) {
        caller.audit("examples of refusals", "");
    }
    data.sort_by_key(|refusal| std::cmp::Reverse(refusal.count));
    data.truncate(REFUSALS_MAX);
    Ok(responses::json(&serde_json::json!({"data": data, "scanned": records.len()})))
}

/// Bytes that a stream may hold, for a policy on trial.
pub const TRIAL_HELD_BYTES: usize = HELD_BYTES_MAX;
