//! What is remembered of conversations that the upstream keeps: bounded, per process, until the ledger keeps it.
//!
//! Keyed by scope, so that nobody's ids are worth anything to another. Losing an entry loses no protection:
//! what can't be known is reported as that, never taken for proven.

use std::sync::Arc;

use quick_cache::{Weighter, sync::Cache};

use crate::{
    exchange::thread::{Fate, KnownCall, Memo, Thread},
    judge::marks::Scope,
};

/// Bytes that all of it may take, by estimate.
const BYTES_MAX: u64 = 64 << 20;
const ENTRIES_EXPECTED: usize = 1 << 14;

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Kind {
    Response,
    Conversation,
    Call,
    Item,
}

#[derive(Clone, Debug)]
enum Entry {
    Thread(Arc<Thread>),
    Call(KnownCall),
    Item(Fate),
}

type Key = (Scope, Kind, Box<str>);

#[derive(Clone, Copy)]
struct Weight;

impl Weighter<Key, Entry> for Weight {
    fn weight(&self, key: &Key, entry: &Entry) -> u64 {
        let own = match entry {
            Entry::Thread(thread) => thread.weight(),
            Entry::Call(call) => (call.tool.len() + call.upstream_id.len() + 64) as u64,
            Entry::Item(Fate::Dropped) => 0,
            Entry::Item(Fate::Instead(json)) => json.len() as u64,
        };
        own + key.2.len() as u64 + 160
    }
}

/// See the module.
pub struct Memory(Cache<Key, Entry, Weight>);

impl Default for Memory {
    fn default() -> Self {
        Self(Cache::with_weighter(ENTRIES_EXPECTED, BYTES_MAX, Weight))
    }
}

impl Memory {
    /// Keeps what an exchange leaves behind.
    pub fn keep(&self, scope: &Scope, memo: Memo) {
        let put = |kind, id: &str, entry| self.0.insert((scope.clone(), kind, id.into()), entry);
        let thread = Arc::new(memo.thread);
        for id in &memo.responses {
            put(Kind::Response, id, Entry::Thread(thread.clone()));
        }
        if let Some(id) = &memo.conversation {
            put(Kind::Conversation, id, Entry::Thread(thread));
        }
        for (mark, call) in memo.calls {
            put(Kind::Call, &mark, Entry::Call(call));
        }
        for (id, fate) in memo.items {
            put(Kind::Item, &id, Entry::Item(fate));
        }
    }

    fn get(&self, scope: &Scope, kind: Kind, id: &str) -> Option<Entry> {
        self.0.get(&(scope.clone(), kind, id.into()))
    }

    /// What is known of the conversation up to this response.
    pub fn response(&self, scope: &Scope, id: &str) -> Option<Arc<Thread>> {
        match self.get(scope, Kind::Response, id)? {
            Entry::Thread(thread) => Some(thread),
            Entry::Call(_) | Entry::Item(_) => None,
        }
    }

    /// What is known of this conversation.
    pub fn conversation(&self, scope: &Scope, id: &str) -> Option<Arc<Thread>> {
        match self.get(scope, Kind::Conversation, id)? {
            Entry::Thread(thread) => Some(thread),
            Entry::Call(_) | Entry::Item(_) => None,
        }
    }

    /// The call that was let through with this mark.
    pub fn call(&self, scope: &Scope, mark: &str) -> Option<KnownCall> {
        match self.get(scope, Kind::Call, mark)? {
            Entry::Call(call) => Some(call),
            Entry::Thread(_) | Entry::Item(_) => None,
        }
    }

    /// What became of this output item.
    pub fn item(&self, scope: &Scope, id: &str) -> Option<Fate> {
        match self.get(scope, Kind::Item, id)? {
            Entry::Item(fate) => Some(fate),
            Entry::Thread(_) | Entry::Call(_) => None,
        }
    }
}
