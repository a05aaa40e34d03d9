//! Owners of the objects that an upstream stores under toolmark's own key, which opens everybody's.
//!
//! Noted in this process, and in the ledger if that is durable, for as long as the ledger keeps anything. A response
//! or conversation is its owner's at one upstream only, and may have several owners: some upstreams number theirs anew.
//! Where callers bring their own keys the upstream decides, and nothing is noted.

use std::collections::HashSet;

use http::StatusCode;
use quick_cache::sync::Cache;

use crate::{
    exchange::conversation::recalled::{NAMED_MAX, NamedObject, ObjectKind},
    ledger::{lookup::LookupUnavailable, sealed_kv::cipher::KvKey},
    marks::Scope,
    policy::PolicyMode,
    proxy::{app::App, conversations::replicated::KvEntry, http::failure::Failure},
    responses::stored::Ids,
    violation::Code,
};

/// Upstream of an item: histories are sent on to other upstreams than the one that made them.
const ANYWHERE: &str = "";
/// Maximum keys in this process: two for each object.
const KEYS_MAX: usize = 1 << 18;

/// Owner of an object.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Owner {
    /// The caller, perhaps among others.
    Caller,
    /// Somebody else.
    Another,
    /// Nobody that this process or the ledger knows.
    Unknown,
}

/// Cache of objects with an owner.
pub struct Owners(Cache<KvKey, ()>);

impl Default for Owners {
    fn default() -> Self {
        Self(Cache::new(KEYS_MAX))
    }
}

impl Owners {
    /// Notes the owner of responses and conversations, and of items. Returns the rows for the ledger.
    #[must_use]
    pub fn note(&self, scope: &Scope, upstream: &str, ids: &Ids) -> Vec<KvEntry> {
        let of = |upstream, id: &str| [key(Some(scope), upstream, id), key(None, upstream, id)];
        let objects = ids.response.iter().chain(&ids.conversation).filter(|id| !id.is_empty()).flat_map(|id| of(upstream, id));
        let items = ids.items.iter().filter(|id| !id.is_empty()).flat_map(|id| of(ANYWHERE, id));
        let keys: Vec<KvKey> = objects.chain(items).collect();
        keys.iter().for_each(|key| self.0.insert(*key, ()));
        keys.into_iter().map(|key| (key, Vec::new())).collect()
    }
}

/// Key of an object of this owner; of one that anybody owns without a scope.
fn key(scope: Option<&Scope>, upstream: &str, id: &str) -> KvKey {
    let mut hasher = blake3::Hasher::new_derive_key("toolmark 2026-11-24 owner of a stored object v1");
    let scope = scope.map_or_else(String::new, |scope| format!("{scope:?}"));
    for part in [&*scope, upstream, id] {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
    }
    *hasher.finalize().as_bytes()
}

/// Owners of these objects, in their order.
///
/// # Errors
/// [`LookupUnavailable`] if the ledger doesn't say in time.
async fn owners(app: &App, scope: &Scope, upstream: &str, named: &[NamedObject]) -> Result<Vec<Owner>, LookupUnavailable> {
    let keys = |named: &NamedObject| {
        let upstream = if named.kind == ObjectKind::Item { ANYWHERE } else { upstream };
        [key(Some(scope), upstream, &named.id), key(None, upstream, &named.id)]
    };
    let keys: Vec<[KvKey; 2]> = named.iter().map(keys).collect();
    let unknown: Vec<KvKey> = keys.iter().filter(|[own, _]| app.owners.0.get(own).is_none()).flatten().copied().collect();
    let found = app.recorder.shelf().find(unknown, app.now_ms()).await?;
    found.iter().for_each(|(key, _)| app.owners.0.insert(*key, ()));
    let found: HashSet<KvKey> = found.into_iter().map(|(key, _)| key).collect();
    let is = |key: &KvKey| found.contains(key) || app.owners.0.get(key).is_some();
    Ok(keys
        .iter()
        .map(|[own, any]| match (is(own), is(any)) {
            (true, _) => Owner::Caller,
            (false, true) => Owner::Another,
            (false, false) => Owner::Unknown,
        })
        .collect())
}

/// Leaves the items that nobody is known to own: to list another's item, or to send its ID, makes nobody its owner.
///
/// # Errors
/// [`LookupUnavailable`] if the ledger doesn't say in time.
pub async fn without_owner(app: &App, scope: &Scope, items: Vec<String>) -> Result<Vec<String>, LookupUnavailable> {
    let named: Vec<NamedObject> = items.into_iter().map(|id| NamedObject { kind: ObjectKind::Item, id, param: None }).collect();
    let owners = owners(app, scope, ANYWHERE, &named).await?;
    Ok(named.into_iter().zip(owners).filter(|(_, owner)| *owner == Owner::Unknown).map(|(named, _)| named.id).collect())
}

/// Treatment of stored objects that nobody is known to own.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum UnownedObjects {
    /// A request that names one is refused.
    Refused,
    /// A request may name them.
    Allowed,
}

impl UnownedObjects {
    /// Treatment under a policy of this mode: in observe mode they are allowed.
    pub fn under(mode: PolicyMode) -> Self {
        if mode == PolicyMode::Observe { Self::Allowed } else { Self::Refused }
    }
}

/// Refuses a request that names objects of others, or that nobody is known to own if those are refused.
///
/// # Errors
/// 404 as for an object that isn't there; 503 if the ledger doesn't say in time whose it is.
pub async fn check(app: &App, scope: &Scope, upstream: &str, named: &[NamedObject], unowned: UnownedObjects) -> Result<(), Failure> {
    if *scope == Scope::shared() || named.is_empty() {
        return Ok(());
    }
    if named.len() > NAMED_MAX {
        let message = format!("the request names more than {NAMED_MAX} stored objects: send the whole conversation in `input`");
        return Err(Failure { param: Some("input".into()), ..Failure::new(StatusCode::BAD_REQUEST, "invalid_request", message) });
    }
    let owners = owners(app, scope, upstream, named).await.map_err(|_| {
        let message = "the ledger didn't say in time whose the stored objects are that this request names: try again in a moment";
        Failure::new(StatusCode::SERVICE_UNAVAILABLE, Code::LedgerUnavailable.as_str(), message)
    })?;
    let refused = |owner: Owner| owner == Owner::Another || (owner == Owner::Unknown && unowned == UnownedObjects::Refused);
    match named.iter().zip(owners).find(|(_, owner)| refused(*owner)) {
        Some((named, _)) => Err(not_found(named)),
        None => Ok(()),
    }
}

/// Error for an object that isn't there, or isn't the caller's: which of them isn't said.
fn not_found(named: &NamedObject) -> Failure {
    let (code, what) = match named.kind {
        ObjectKind::Response => ("unknown_response", "Response"),
        ObjectKind::Thread => ("thread_not_found", "Thread"),
        ObjectKind::Conversation => ("unknown_conversation", "Conversation"),
        ObjectKind::Item => ("unknown_item", "Item"),
    };
    let message = format!(
        "{what} with id '{}' not found: toolmark doesn't know it as this caller's, and toolmark's own key would open anybody's. It was made by another caller, without toolmark, or before what the ledger remembers: send the whole conversation in `input`",
        named.id
    );
    Failure { param: named.param.map(str::to_owned), ..Failure::new(StatusCode::NOT_FOUND, code, message) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_its_owners_at_one_upstream() {
        let (owners, own, other) = (Owners::default(), Scope::credential(b"a"), Scope::credential(b"b"));
        let ids = Ids { response: Some("resp_1".into()), conversation: Some(String::new()), items: vec!["msg_1".into(), String::new()] };
        assert_eq!(owners.note(&own, "x", &ids).len(), 4);
        let is = |scope: Option<&Scope>, upstream: &str, id: &str| owners.0.get(&key(scope, upstream, id)).is_some();
        assert!(is(Some(&own), "x", "resp_1") && is(None, "x", "resp_1") && is(Some(&own), ANYWHERE, "msg_1"));
        assert!(!is(Some(&other), "x", "resp_1") && !is(Some(&own), "y", "resp_1") && !is(None, "x", ""));
        assert_ne!(key(None, "xr", "esp_1"), key(None, "x", "resp_1"));
    }
}
