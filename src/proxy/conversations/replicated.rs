//! Conversations in the ledger: what another replica, or this process after a restart, must know of them.
//!
//! One row for each response or conversation that an upstream stores, with the calls and items of its last exchange, and one
//! for the provider extras of each call. Sealed, keyed by scope, and kept for as long as the ledger keeps anything. Rows are
//! written before the end of the answer leaves, and read if this process doesn't know what a request names; then they are in
//! this process's caches, which are all that judging reads. With `[ledger] store = "digests"` a row has no evidence: no texts,
//! arguments and results.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    exchange::conversation::{Fate, KnownCall, Memo, Thread},
    ledger::{lookup::LookupUnavailable, sealed_kv::cipher::KvKey},
    marks::Scope,
    proxy::app::App,
    responses::request::{
        Head,
        named::{NamedObject, ObjectKind},
    },
    settings::StoredContent,
    upstreams::quirks::ProviderExtras,
    violation::{Checks, Code, Violation},
};

/// Maximum bytes of a row; a larger one is stored without its evidence.
const ROW_BYTES_MAX: usize = 512 << 10;
/// Maximum rows that are read for one request.
const READ_MAX: usize = 256;

/// Entry of the ledger's key-value store.
pub type KvEntry = (KvKey, Vec<u8>);

/// Kind of a row.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum RowKind {
    Response,
    Conversation,
    Item,
    Extras,
}

/// State of a conversation after an exchange.
#[derive(Deserialize, Serialize)]
struct ConversationRow {
    thread: Thread,
    calls: Vec<(String, KnownCall)>,
}

fn key(scope: &Scope, kind: RowKind, id: &str) -> KvKey {
    let mut hasher = blake3::Hasher::new_derive_key("toolmark 2026-11-24 conversation in the ledger v1");
    let (scope, kind) = (format!("{scope:?}"), format!("{kind:?}"));
    for part in [&*scope, &*kind, id] {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
    }
    *hasher.finalize().as_bytes()
}

/// JSON of a row. Empty if it can't be written, which reads as a row that isn't there.
fn json<T: Serialize>(row: &T) -> Vec<u8> {
    serde_json::to_vec(row).unwrap_or_default()
}

impl ConversationRow {
    fn of(memo: &Memo, content: StoredContent) -> Vec<u8> {
        let row = |evidence: StoredContent| {
            let (thread, mut calls) = (memo.thread.clone(), memo.calls.clone());
            let thread = if evidence == StoredContent::Bodies { thread } else { thread.without_evidence() };
            if evidence != StoredContent::Bodies {
                calls.iter_mut().for_each(|(_, call)| call.arguments = Arc::default());
            }
            json(&Self { thread, calls })
        };
        let whole = row(content);
        if whole.len() > ROW_BYTES_MAX { row(StoredContent::Digests) } else { whole }
    }
}

/// Rows of what an exchange adds to its conversation; none if the ledger keeps nothing over a restart.
pub fn rows(app: &App, scope: &Scope, memo: &Memo) -> Vec<KvEntry> {
    if !app.recorder.shelf().is_lasting() {
        return Vec::new();
    }
    let responses = memo.responses.iter().map(|id| key(scope, RowKind::Response, id));
    let keys: Vec<KvKey> = responses.chain(memo.conversation.iter().map(|id| key(scope, RowKind::Conversation, id))).collect();
    let items = memo.items.iter().map(|(id, fate)| (key(scope, RowKind::Item, id), json(fate)));
    let items: Vec<KvEntry> = items.collect();
    if keys.is_empty() {
        return items;
    }
    let row = ConversationRow::of(memo, app.settings.ledger.store);
    keys.into_iter().map(|key| (key, row.clone())).chain(items).collect()
}

/// Row of the provider extras of the call with this mark.
pub fn extras_row(scope: &Scope, mark: &str, extras: &ProviderExtras) -> KvEntry {
    (key(scope, RowKind::Extras, mark), json(extras))
}

/// Stores an update of a conversation in this process and in the ledger. Returns once the next request can find it.
pub async fn keep(app: &App, scope: &Scope, memo: Memo) {
    let rows = rows(app, scope, &memo);
    app.memory.keep(scope, memo);
    store(app, rows).await;
}

/// Stores rows. Returns once the next request can find them.
pub async fn store(app: &App, rows: Vec<KvEntry>) {
    if app.recorder.shelf().put_for_next(rows, app.now_ms()).await.is_err() {
        tracing::warn!("a conversation can't be kept in the ledger: after a restart, or at another replica, it isn't known");
    }
}

/// Removes a response or a conversation that its owner deleted.
pub fn forget(app: &App, scope: &Scope, id: &str) {
    app.memory.forget(scope, id);
    let rows = [RowKind::Response, RowKind::Conversation].map(|kind| (key(scope, kind, id), Vec::new()));
    // What can't be removed now ends with its row; the upstream has deleted the object.
    let _removed = app.recorder.shelf().put_behind(rows.into(), Default::default(), app.now_ms());
}

/// Reads what a request of the Responses API names and this process doesn't know into its caches.
///
/// # Errors
/// [`LookupUnavailable`] if the ledger doesn't say in time.
pub async fn load(app: &App, scope: &Scope, head: &Head<'_>) -> Result<(), LookupUnavailable> {
    let shelf = app.recorder.shelf();
    if !shelf.is_lasting() {
        return Ok(());
    }
    let memory = &app.memory;
    // Another replica may have continued a conversation that this one knows.
    let may_be_newer = app.recorder.is_shared();
    let named = head.named(|id| memory.item(scope, id).is_some()).into_iter().filter_map(|NamedObject { kind, id, .. }| match kind {
        ObjectKind::Response => memory.response(scope, &id).is_none().then_some((RowKind::Response, id)),
        ObjectKind::Conversation => (may_be_newer || memory.conversation(scope, &id).is_none()).then_some((RowKind::Conversation, id)),
        ObjectKind::Item => Some((RowKind::Item, id)),
    });
    let wanted: Vec<(RowKind, String)> = named.take(READ_MAX).collect();
    let keys: Vec<KvKey> = wanted.iter().map(|(kind, id)| key(scope, *kind, id)).collect();
    let found = shelf.find(keys.clone(), app.now_ms()).await?;
    for ((kind, id), key) in wanted.into_iter().zip(keys) {
        let Some((_, body)) = found.iter().find(|(own, body)| *own == key && !body.is_empty()) else { continue };
        let memo = match kind {
            RowKind::Item => serde_json::from_slice::<Fate>(body).map(|fate| Memo { items: vec![(id, fate)], ..Memo::default() }),
            RowKind::Response | RowKind::Conversation | RowKind::Extras => {
                serde_json::from_slice::<ConversationRow>(body).map(|ConversationRow { thread, calls }| {
                    let (responses, conversation) = if kind == RowKind::Response { (vec![id], None) } else { (Vec::new(), Some(id)) };
                    Memo { responses, conversation, thread, calls, ..Memo::default() }
                })
            }
        };
        match memo {
            Ok(memo) => memory.keep(scope, memo),
            Err(error) => tracing::error!(%error, "a conversation that is kept in the ledger can't be read"),
        }
    }
    Ok(())
}

/// Reads the provider extras of calls that this process doesn't know into its cache. Those that nobody stored are noted as empty.
///
/// # Errors
/// [`LookupUnavailable`] if the ledger doesn't say in time.
pub async fn load_extras(app: &App, scope: &Scope, marks: impl Iterator<Item = &str>) -> Result<(), LookupUnavailable> {
    let shelf = app.recorder.shelf();
    if !shelf.is_lasting() {
        return Ok(());
    }
    let mut unknown: Vec<&str> = marks.filter(|mark| app.memory.beside(scope, mark).is_none()).collect();
    let surplus = unknown.len().saturating_sub(READ_MAX);
    unknown.drain(..surplus);
    let keys: Vec<KvKey> = unknown.iter().map(|mark| key(scope, RowKind::Extras, mark)).collect();
    let found = shelf.find(keys.clone(), app.now_ms()).await?;
    for (mark, key) in unknown.into_iter().zip(keys) {
        let row = found.iter().find(|(own, _)| *own == key).map(|(_, body)| serde_json::from_slice(body));
        let extras = row.and_then(|row| row.inspect_err(|error| tracing::error!(%error, "provider extras in the ledger can't be read")).ok());
        app.memory.keep_beside(scope, mark, extras.unwrap_or_default());
    }
    Ok(())
}

/// Violation of a request whose conversation the ledger didn't give in time.
pub fn unavailable(checks: &Checks) -> Option<Violation> {
    let message = "the ledger didn't say in time what is known of the conversation that this request continues";
    checks.violation(Code::LedgerUnavailable, None, message, "try again in a moment")
}
