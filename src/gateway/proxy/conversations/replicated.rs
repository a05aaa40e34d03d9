//! Conversations in the ledger: what another replica, or this process after a restart, must know of them.
//!
//! One row for each response or conversation that an upstream stores, one for each call that was passed on, one for each item
//! that the application didn't get as the upstream stores it, and one for the provider extras of each call. Sealed, keyed by scope, and kept for as long as the ledger keeps anything. Rows are
//! written before the end of the answer leaves, and read if this process doesn't know what a request names; then they are in
//! this process's caches, which are all that judging reads. With `[ledger] store = "digests"` a row has no evidence: no texts,
//! arguments and results.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use http::StatusCode;
use serde::{Deserialize, Serialize};

use crate::{
    exchange::conversation::{
        KnownCall, Memo, Thread,
        recalled::{NamedObject, ObjectKind, Wanted},
    },
    ledger::{lookup::LookupUnavailable, sealed_kv::cipher::KvKey},
    marks::Scope,
    proxy::{
        app::App,
        conversations::originals::{Got, Object},
        http::failure::Failure,
    },
    settings::StoredContent,
    upstreams::quirks::ProviderExtras,
    violation::{Checks, Code, Violation},
    wire::json::Value,
};

/// Maximum bytes of a row; a larger one is stored without its evidence.
const ROW_BYTES_MAX: usize = 512 << 10;
/// Maximum rows that are read for one request.
const READ_MAX: usize = 256;
/// Maximum responses in a row whose state wasn't read in time that are read later, for one request.
const UNREAD_MAX: usize = 8;

/// Entry of the ledger's key-value store.
pub type KvEntry = (KvKey, Vec<u8>);

/// Kind of a row.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum RowKind {
    Response,
    Conversation,
    Call,
    Mark,
    Item,
    Object,
    Extras,
}

/// Row of an object that an upstream stores: the upstream's name and what the application got of the object.
#[derive(Deserialize, Serialize)]
struct ObjectRow {
    upstream: String,
    foreign: bool,
    got: StoredGot,
}

/// [`Got`] as it is stored: texts of JSON.
#[derive(Deserialize, Serialize)]
enum StoredGot {
    Whole(String),
    Awaited(String),
    Refused(String),
    Withheld,
}

impl From<StoredGot> for Got {
    fn from(got: StoredGot) -> Self {
        match got {
            StoredGot::Whole(json) => Self::Whole(json.into()),
            StoredGot::Awaited(json) => Self::Awaited(json.into()),
            StoredGot::Refused(json) => Self::Refused(json.into()),
            StoredGot::Withheld => Self::Withheld,
        }
    }
}

impl From<&Got> for StoredGot {
    fn from(got: &Got) -> Self {
        let text = |json: &Bytes| String::from_utf8_lossy(json).into_owned();
        match got {
            Got::Whole(json) => Self::Whole(text(json)),
            Got::Awaited(json) => Self::Awaited(text(json)),
            Got::Refused(json) => Self::Refused(text(json)),
            Got::Withheld => Self::Withheld,
        }
    }
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

/// Row of a conversation's state.
fn thread_row(thread: &Thread, content: StoredContent) -> Vec<u8> {
    let without_evidence = || json(&thread.clone().without_evidence());
    if content == StoredContent::Digests {
        return without_evidence();
    }
    let whole = json(thread);
    if whole.len() > ROW_BYTES_MAX { without_evidence() } else { whole }
}

/// Rows of what an exchange adds to its conversation; none if the ledger keeps nothing over a restart.
pub fn rows(app: &App, scope: &Scope, memo: &Memo) -> Vec<KvEntry> {
    let stored = !memo.responses.is_empty() || memo.conversation.is_some();
    if !app.recorder.shelf().is_lasting() || (!stored && memo.items.is_empty()) {
        return Vec::new();
    }
    let content = app.settings.ledger.store;
    let mut rows: Vec<KvEntry> = memo.items.iter().map(|(id, fate)| (key(scope, RowKind::Item, id), json(fate))).collect();
    if stored {
        let responses = memo.responses.iter().map(|id| key(scope, RowKind::Response, id));
        let conversation = memo.conversation.iter().map(|id| key(scope, RowKind::Conversation, id));
        let row = thread_row(&memo.thread, content);
        rows.extend(responses.chain(conversation).map(|key| (key, row.clone())));
        rows.extend(memo.calls.iter().map(|(mark, call)| {
            let bare = || KnownCall { arguments: Arc::default(), ..call.clone() };
            (key(scope, RowKind::Call, mark), if content == StoredContent::Digests { json(&bare()) } else { json(call) })
        }));
        let own = memo.calls.iter().filter(|(mark, call)| *call.upstream_id != **mark);
        rows.extend(own.map(|(mark, call)| mark_row(scope, &call.upstream_id, mark)));
    }
    rows
}

/// Row of the mark by which the application knows a call of the upstream.
fn mark_row(scope: &Scope, upstream_id: &str, mark: &str) -> KvEntry {
    (key(scope, RowKind::Mark, upstream_id), json(&mark))
}

/// Stores the marks by which the application knows calls of the upstream: pairs of the upstream's id and the mark.
///
/// # Errors
/// [`LookupUnavailable`] if the ledger doesn't take them in time.
pub async fn keep_marks(app: &App, scope: &Scope, marks: &[(String, String)]) -> Result<(), LookupUnavailable> {
    marks.iter().for_each(|(upstream_id, mark)| app.memory.keep_mark(scope, upstream_id, mark));
    store(app, marks.iter().map(|(upstream_id, mark)| mark_row(scope, upstream_id, mark)).collect()).await
}

/// Stores an object in this process. Returns its row for the ledger: none with `store = "digests"`, since it is a body, and none
/// for an object that is too large.
#[must_use]
pub fn keep_object(app: &App, scope: &Scope, id: &str, object: Object) -> Option<KvEntry> {
    let upstream = app.settings.upstreams.get(object.upstream).map(|upstream| upstream.name.to_string());
    let stores = app.settings.ledger.store == StoredContent::Bodies && app.recorder.shelf().is_lasting();
    let row = upstream.filter(|_| stores).map(|upstream| ObjectRow { upstream, foreign: object.foreign, got: (&object.got).into() });
    app.originals.keep(scope, id, object);
    let body = json(&row?);
    (body.len() <= ROW_BYTES_MAX).then(|| (key(scope, RowKind::Object, id), body))
}

/// Row of the provider extras of the call with this mark.
pub fn extras_row(scope: &Scope, mark: &str, extras: &ProviderExtras) -> KvEntry {
    (key(scope, RowKind::Extras, mark), json(extras))
}

/// Stores an update of a conversation in this process and in the ledger. Returns once the next request can find it.
///
/// # Errors
/// [`LookupUnavailable`] if the ledger doesn't take it in time.
pub async fn keep(app: &App, scope: &Scope, memo: Memo) -> Result<(), LookupUnavailable> {
    let rows = rows(app, scope, &memo);
    app.memory.keep(scope, memo);
    store(app, rows).await
}

/// Stores rows. Returns once the next request can find them.
///
/// # Errors
/// [`LookupUnavailable`] if the ledger doesn't take them in time: until it does, another replica doesn't know them.
pub async fn store(app: &App, rows: Vec<KvEntry>) -> Result<(), LookupUnavailable> {
    let stored = app.recorder.shelf().put_for_next(rows, app.now_ms()).await;
    if stored.is_err() {
        tracing::warn!("a conversation isn't in the ledger yet: until it is, it isn't known at another replica");
    }
    stored
}

/// Removes a response or a conversation that its owner deleted.
pub fn forget(app: &App, scope: &Scope, id: &str) {
    app.memory.forget(scope, id);
    app.originals.forget(scope, id);
    let rows = [RowKind::Response, RowKind::Conversation, RowKind::Object].map(|kind| (key(scope, kind, id), Vec::new()));
    // What can't be removed now ends with its row; the upstream has deleted the object.
    let _removed = app.recorder.shelf().put_behind(rows.into(), Default::default(), app.now_ms());
}

/// Reads what a request names and this process doesn't know into its caches.
///
/// # Errors
/// [`LookupUnavailable`] if the ledger doesn't say in time.
pub async fn load(app: &App, scope: &Scope, named: Vec<NamedObject>, of: Wanted) -> Result<(), LookupUnavailable> {
    if !app.recorder.shelf().is_lasting() {
        return Ok(());
    }
    let memory = &app.memory;
    let shared = app.recorder.is_shared();
    let mut wanted: Vec<(RowKind, String)> = Vec::new();
    let is_response = |named: &&NamedObject| matches!(named.kind, ObjectKind::Response | ObjectKind::Thread);
    let responses: Vec<String> = named.iter().filter(is_response).map(|named| named.id.clone()).collect();
    for NamedObject { kind, id, .. } in named {
        let row = match kind {
            ObjectKind::Response | ObjectKind::Thread => may_have_changed(app, scope, &id).then_some(RowKind::Response),
            // Another replica may have continued a conversation that this one knows.
            ObjectKind::Conversation => (shared || memory.conversation(scope, &id).is_none()).then_some(RowKind::Conversation),
            ObjectKind::Item => Some(RowKind::Item),
        };
        wanted.extend(row.map(|row| (row, id)));
    }
    let Wanted { calls, items, .. } = of;
    wanted.extend(calls.into_iter().filter(|mark| memory.call(scope, mark).is_none()).map(|mark| (RowKind::Call, mark)));
    if shared {
        let unknown = items.into_iter().filter(|id| !memory.knows_item(scope, id));
        wanted.extend(unknown.map(|id| (RowKind::Item, id)));
    }
    wanted.truncate(READ_MAX);
    for (kind, id, body) in read(app, scope, wanted).await? {
        match body {
            Some(body) => take(app, scope, memo_of(kind, id, &body)),
            None if kind == RowKind::Item => memory.keep_untouched(scope, &id),
            None => {}
        }
    }
    for id in responses {
        load_unread(app, scope, &id).await?;
    }
    Ok(())
}

/// Reads what wasn't read in time when the conversation up to this response went on.
///
/// # Errors
/// [`LookupUnavailable`] if the ledger doesn't say in time, or doesn't know it.
async fn load_unread(app: &App, scope: &Scope, id: &str) -> Result<(), LookupUnavailable> {
    let unread = |thread: &Arc<Thread>| thread.unread.clone();
    for _ in 0..UNREAD_MAX {
        let Some((thread, before)) = app.memory.response(scope, id).and_then(|own| Some((own.clone(), unread(&own)?))) else {
            return Ok(());
        };
        let earlier = match app.memory.response(scope, &before) {
            Some(earlier) => earlier,
            None => {
                let row = read(app, scope, vec![(RowKind::Response, before.to_string())]).await?.next();
                let body = row.and_then(|(_, _, body)| body).ok_or(LookupUnavailable)?;
                Arc::new(serde_json::from_slice(&body).map_err(|_| LookupUnavailable)?)
            }
        };
        app.memory.keep(scope, Memo { responses: vec![id.to_owned()], thread: thread.after(&earlier), ..Memo::default() });
    }
    Err(LookupUnavailable)
}

/// Reads rows from the ledger, in the order of `wanted`. A row without a body isn't there, or was removed.
async fn read(
    app: &App,
    scope: &Scope,
    wanted: Vec<(RowKind, String)>,
) -> Result<impl Iterator<Item = (RowKind, String, Option<Vec<u8>>)>, LookupUnavailable> {
    let keys: Vec<KvKey> = wanted.iter().map(|(kind, id)| key(scope, *kind, id)).collect();
    let found = app.recorder.shelf().find(keys.clone(), app.now_ms()).await?;
    let found: HashMap<KvKey, Vec<u8>> = found.into_iter().filter(|(_, body)| !body.is_empty()).collect();
    // Two of them may name the same row.
    Ok(wanted.into_iter().zip(keys).map(move |((kind, id), key)| (kind, id, found.get(&key).cloned())))
}

/// Reads a stored response or conversation that this process doesn't know into its caches, with the answers that belong to it.
///
/// # Errors
/// [`LookupUnavailable`] if the ledger doesn't say in time.
pub async fn load_stored(app: &App, scope: &Scope, id: &str) -> Result<(), LookupUnavailable> {
    let memory = &app.memory;
    if !app.recorder.shelf().is_lasting() {
        return Ok(());
    }
    let shared = app.recorder.is_shared();
    let response = may_have_changed(app, scope, id).then(|| (RowKind::Response, id.to_owned()));
    let conversation = (shared || memory.conversation(scope, id).is_none()).then(|| (RowKind::Conversation, id.to_owned()));
    for (kind, id, body) in read(app, scope, response.into_iter().chain(conversation).collect()).await? {
        if let Some(body) = body {
            take(app, scope, memo_of(kind, id, &body));
        }
    }
    let thread = memory.response(scope, id).or_else(|| memory.conversation(scope, id));
    let answers = thread.iter().flat_map(|thread| thread.answers.iter().rev()).map(|id| &**id);
    let unknown: Vec<(RowKind, String)> = std::iter::once(id)
        .chain(answers)
        .filter(|id| app.originals.get(scope, id).is_none() || may_have_changed(app, scope, id))
        .take(READ_MAX)
        .map(|id| (RowKind::Object, id.to_owned()))
        .collect();
    if app.settings.ledger.store == StoredContent::Digests || unknown.is_empty() {
        return Ok(());
    }
    for (_, id, body) in read(app, scope, unknown).await? {
        let Some(body) = body else { continue };
        match serde_json::from_slice::<ObjectRow>(&body) {
            Ok(ObjectRow { upstream, foreign, got }) => {
                let at = app.settings.upstreams.iter().position(|own| *own.name == *upstream);
                // An upstream that isn't in the settings any more can't be asked.
                let Some(upstream) = at else { continue };
                app.originals.keep(scope, &id, Object { upstream, foreign, got: got.into() });
            }
            Err(error) => tracing::error!(%error, "a stored object that is kept in the ledger can't be read"),
        }
    }
    Ok(())
}

/// Reads what another replica knows of listed items and their calls into this process's caches.
///
/// # Errors
/// [`LookupUnavailable`] if the ledger doesn't say in time.
pub async fn load_items(app: &App, scope: &Scope, items: Value<'_>) -> Result<(), LookupUnavailable> {
    let memory = &app.memory;
    if !app.recorder.is_shared() {
        return Ok(());
    }
    let text = |item: Value<'_>, name: &str| item.get(name).and_then(Value::text).filter(|id| !id.is_empty()).map(|id| id.into_owned());
    let own = items.items().filter_map(|item| text(item, "id")).filter(|id| !memory.knows_item(scope, id)).map(|id| (RowKind::Item, id));
    let calls = items.items().filter_map(|item| text(item, "call_id"));
    let calls = calls.filter(|id| memory.mark(scope, id).is_none()).map(|id| (RowKind::Mark, id));
    let wanted: Vec<(RowKind, String)> = own.chain(calls).take(READ_MAX).collect();
    let mut marks = Vec::new();
    for (kind, id, body) in read(app, scope, wanted).await? {
        let Some(body) = body else { continue };
        if kind == RowKind::Item {
            take(app, scope, memo_of(kind, id, &body));
        } else if let Ok(mark) = serde_json::from_slice::<String>(&body) {
            memory.keep_mark(scope, &id, &mark);
            marks.push(mark);
        }
    }
    marks.retain(|mark| memory.call(scope, mark).is_none());
    for (kind, mark, body) in read(app, scope, marks.into_iter().map(|mark| (RowKind::Call, mark)).collect()).await? {
        if let Some(body) = body {
            take(app, scope, memo_of(kind, mark, &body));
        }
    }
    Ok(())
}

/// Takes a row into this process's caches.
fn take(app: &App, scope: &Scope, memo: serde_json::Result<Memo>) {
    match memo {
        Ok(memo) => app.memory.keep(scope, memo),
        Err(error) => tracing::error!(%error, "a conversation that is kept in the ledger can't be read"),
    }
}

/// True if the ledger may know more of a response than this process: it doesn't know it, or last knew that it was being made in the
/// background, and another replica may have fetched it since.
fn may_have_changed(app: &App, scope: &Scope, id: &str) -> bool {
    let is_awaited = || app.originals.get(scope, id).is_some_and(|object| matches!(object.got, Got::Awaited(_)));
    app.memory.response(scope, id).is_none() || (app.recorder.is_shared() && is_awaited())
}

/// Effect of a row on this process's caches.
fn memo_of(kind: RowKind, id: String, body: &[u8]) -> serde_json::Result<Memo> {
    Ok(match kind {
        RowKind::Response => Memo { responses: vec![id], thread: serde_json::from_slice(body)?, ..Memo::default() },
        RowKind::Conversation => Memo { conversation: Some(id), thread: serde_json::from_slice(body)?, ..Memo::default() },
        RowKind::Call => Memo { calls: vec![(id, serde_json::from_slice(body)?)], ..Memo::default() },
        RowKind::Item => Memo { items: vec![(id, serde_json::from_slice(body)?)], ..Memo::default() },
        RowKind::Mark | RowKind::Object | RowKind::Extras => Memo::default(),
    })
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
        let extras =
            row.and_then(|row| row.inspect_err(|error| tracing::error!(%error, "provider extras in the ledger can't be read")).ok());
        app.memory.keep_beside(scope, mark, extras.unwrap_or_default());
    }
    Ok(())
}

/// Error for a stored object that the ledger didn't give in time.
pub fn unavailable_now() -> Failure {
    let message = "the ledger didn't answer in time about this object: try again in a moment";
    Failure::new(StatusCode::SERVICE_UNAVAILABLE, Code::LedgerUnavailable.as_str(), message)
}

/// Violation of a request whose conversation the ledger didn't give in time.
pub fn unavailable(checks: &Checks) -> Option<Violation> {
    let message = "the ledger didn't say in time what is known of the conversation that this request continues";
    checks.violation(Code::LedgerUnavailable, None, message, "try again in a moment")
}
