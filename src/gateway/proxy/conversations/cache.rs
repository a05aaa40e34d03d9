//! Cache of conversations that upstreams store: bounded, per process, until the ledger stores them.
//!
//! Keyed by scope, so that one caller's IDs are useless to another. Losing an entry loses no protection: what can't be
//! known is reported as unknown, never taken for proven.

use std::sync::Arc;

use quick_cache::{
    DefaultHashBuilder, OptionsBuilder, Weighter,
    sync::{Cache, DefaultLifecycle},
};

use crate::{
    exchange::conversation::{Fate, KnownCall, Memo, Thread},
    marks::Scope,
    upstreams::quirks::ProviderExtras,
};

/// Maximum bytes of the cache, by estimate.
const BYTES_MAX: u64 = 64 << 20;
const ENTRIES_EXPECTED: usize = 1 << 14;
/// Number of shards, regardless of the number of cores: an entry heavier than its shard's capacity is never stored, and a
/// long conversation takes about 2 MiB.
const PARTS: usize = 8;
/// Share of the capacity for entries that were looked up again. The rest is for new entries, oldest out first: the next
/// turn looks up the entry stored last, which must not make room for conversations that ended long ago.
const ASKED_FOR_AGAIN: f64 = 0.5;

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Kind {
    Response,
    Conversation,
    Call,
    Item,
    Beside,
    Mark,
}

#[derive(Clone, Debug)]
enum CacheEntry {
    Thread(Arc<Thread>),
    Call(KnownCall),
    /// `None`: the application got it as the upstream stores it.
    Item(Option<Fate>),
    Beside(Arc<ProviderExtras>),
    Mark(Arc<str>),
}

type Key = (Scope, Kind, Box<str>);

#[derive(Clone, Copy)]
struct EntryWeight;

impl Weighter<Key, CacheEntry> for EntryWeight {
    fn weight(&self, key: &Key, entry: &CacheEntry) -> u64 {
        let own = match entry {
            CacheEntry::Thread(thread) => thread.weight(),
            CacheEntry::Call(call) => (call.tool.len() + call.upstream_id.len() + call.arguments.len() + 80) as u64,
            CacheEntry::Beside(kept) => {
                (kept.extra_content.as_ref().map_or(0, |extra| extra.len()) + kept.reasoning.as_ref().map_or(0, |text| text.len())) as u64
            }
            CacheEntry::Mark(mark) => mark.len() as u64,
            CacheEntry::Item(None | Some(Fate::Dropped)) => 0,
            CacheEntry::Item(Some(Fate::Instead(json))) => json.len() as u64,
        };
        own + key.2.len() as u64 + 160
    }
}

/// Cache of stored conversations and of the facts needed to continue them.
pub struct Memory(Cache<Key, CacheEntry, EntryWeight>);

impl Default for Memory {
    fn default() -> Self {
        let mut options = OptionsBuilder::new();
        options.shards(PARTS).estimated_items_capacity(ENTRIES_EXPECTED).weight_capacity(BYTES_MAX).hot_allocation(ASKED_FOR_AGAIN);
        let (hasher, lifecycle) = (DefaultHashBuilder::default(), DefaultLifecycle::default());
        match options.build() {
            Ok(options) => Self(Cache::with_options(options, EntryWeight, hasher, lifecycle)),
            // INVARIANT: both capacities are set, which is all that could be missing.
            Err(_) => Self(Cache::with_weighter(ENTRIES_EXPECTED, BYTES_MAX, EntryWeight)),
        }
    }
}

impl Memory {
    /// Stores an exchange's update of its conversation.
    pub fn keep(&self, scope: &Scope, memo: Memo) {
        let put = |kind, id: &str, entry| self.0.insert((scope.clone(), kind, id.into()), entry);
        let thread = Arc::new(memo.thread);
        for id in &memo.responses {
            put(Kind::Response, id, CacheEntry::Thread(thread.clone()));
        }
        if let Some(id) = &memo.conversation {
            put(Kind::Conversation, id, CacheEntry::Thread(thread));
        }
        for (mark, call) in memo.calls {
            // Without an id of its own the upstream has the mark.
            if *call.upstream_id != *mark {
                put(Kind::Mark, &call.upstream_id, CacheEntry::Mark(mark.as_str().into()));
            }
            put(Kind::Call, &mark, CacheEntry::Call(call));
        }
        for (id, fate) in memo.items {
            put(Kind::Item, &id, CacheEntry::Item(Some(fate)));
        }
    }

    /// Stores the mark by which the application knows a call of the upstream.
    pub fn keep_mark(&self, scope: &Scope, upstream_id: &str, mark: &str) {
        self.0.insert((scope.clone(), Kind::Mark, upstream_id.into()), CacheEntry::Mark(mark.into()));
    }

    /// The mark by which the application knows a call of the upstream.
    pub fn mark(&self, scope: &Scope, upstream_id: &str) -> Option<Arc<str>> {
        match self.get(scope, Kind::Mark, upstream_id)? {
            CacheEntry::Mark(mark) => Some(mark),
            CacheEntry::Thread(_) | CacheEntry::Call(_) | CacheEntry::Item(_) | CacheEntry::Beside(_) => None,
        }
    }

    /// Removes a response or a conversation that its owner deleted.
    pub fn forget(&self, scope: &Scope, id: &str) {
        for kind in [Kind::Response, Kind::Conversation] {
            self.0.remove(&(scope.clone(), kind, id.into()));
        }
    }

    fn get(&self, scope: &Scope, kind: Kind, id: &str) -> Option<CacheEntry> {
        self.0.get(&(scope.clone(), kind, id.into()))
    }

    /// The conversation up to this response.
    pub fn response(&self, scope: &Scope, id: &str) -> Option<Arc<Thread>> {
        match self.get(scope, Kind::Response, id)? {
            CacheEntry::Thread(thread) => Some(thread),
            CacheEntry::Call(_) | CacheEntry::Item(_) | CacheEntry::Beside(_) | CacheEntry::Mark(_) => None,
        }
    }

    /// The conversation with this ID.
    pub fn conversation(&self, scope: &Scope, id: &str) -> Option<Arc<Thread>> {
        match self.get(scope, Kind::Conversation, id)? {
            CacheEntry::Thread(thread) => Some(thread),
            CacheEntry::Call(_) | CacheEntry::Item(_) | CacheEntry::Beside(_) | CacheEntry::Mark(_) => None,
        }
    }

    /// The call that was passed on with this mark.
    pub fn call(&self, scope: &Scope, mark: &str) -> Option<KnownCall> {
        match self.get(scope, Kind::Call, mark)? {
            CacheEntry::Call(call) => Some(call),
            CacheEntry::Thread(_) | CacheEntry::Item(_) | CacheEntry::Beside(_) | CacheEntry::Mark(_) => None,
        }
    }

    /// Stores the provider extras of the call with this mark.
    pub fn keep_beside(&self, scope: &Scope, mark: &str, kept: ProviderExtras) {
        self.0.insert((scope.clone(), Kind::Beside, mark.into()), CacheEntry::Beside(Arc::new(kept)));
    }

    /// Provider extras of the call with this mark.
    pub fn beside(&self, scope: &Scope, mark: &str) -> Option<Arc<ProviderExtras>> {
        match self.get(scope, Kind::Beside, mark)? {
            CacheEntry::Beside(kept) => Some(kept),
            CacheEntry::Thread(_) | CacheEntry::Call(_) | CacheEntry::Item(_) | CacheEntry::Mark(_) => None,
        }
    }

    /// Disposition of this output item, if the application did not get it as the upstream stores it.
    pub fn item(&self, scope: &Scope, id: &str) -> Option<Fate> {
        match self.get(scope, Kind::Item, id)? {
            CacheEntry::Item(fate) => fate,
            CacheEntry::Thread(_) | CacheEntry::Call(_) | CacheEntry::Beside(_) | CacheEntry::Mark(_) => None,
        }
    }

    /// True if the disposition of this item is known, or that it has none.
    pub fn knows_item(&self, scope: &Scope, id: &str) -> bool {
        self.get(scope, Kind::Item, id).is_some()
    }

    /// Stores that the application got this item as the upstream stores it.
    pub fn keep_untouched(&self, scope: &Scope, id: &str) {
        self.0.insert((scope.clone(), Kind::Item, id.into()), CacheEntry::Item(None));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        judge::history::{Execution, ExecutionProof},
        marks::MarkTime,
    };

    /// The heaviest that one conversation gets, by estimate.
    const THREAD_BYTES_MAX: u64 = 2 << 20;

    fn execution(number: u64) -> Execution {
        let moment = MarkTime { time_ms: number, counter: 0 };
        let id = format!("get_weather_{number:013}_0123456789abcdef").into();
        let (tool, mark, result) = ("get_weather".into(), String::new(), [0; 32]);
        let proof = Arc::new(ExecutionProof { id, tool, moment, failed: false, mark, result });
        Execution { proof, recent: true, expired: false, item: 0 }
    }

    /// The memo of an exchange that adds much to what is known of its conversation.
    fn memo(number: u64, conversation: &str, earlier: Option<Arc<Thread>>) -> Memo {
        let thread = earlier.as_deref().cloned().unwrap_or_default();
        let tools = [format!(r#"[{{"type":"function","name":"t{}"}}]"#, number % 200).into()];
        let data = ["the same instructions".to_owned(), String::new(), format!("{number} {}", "x".repeat(1 << 10))];
        let succeeded = [format!("tool_{number}")];
        let mut thread = thread.with(&[execution(number)], &succeeded, &tools, &data);
        thread.owe([crate::exchange::conversation::Owed { call_id: format!("call_{number}"), custom: false, output: "x".repeat(1 << 10) }]);
        let call = KnownCall {
            read_by_code: false,
            upstream_id: format!("call_{number}").into(),
            tool: "get_weather".into(),
            moment: execution(number).moment,
            digest: 0,
            arguments: "{}".into(),
        };
        Memo {
            responses: vec![format!("resp_{number}")],
            conversation: Some(conversation.to_owned()),
            thread,
            calls: vec![(format!("call_{number}_mark"), call)],
            items: vec![(format!("msg_{number}"), Fate::Instead("{}".into())), (format!("rs_{number}"), Fate::Dropped)],
            left: None,
        }
    }

    #[test]
    fn exchanges_without_end_take_no_memory_without_end() {
        let (memory, scope) = (Memory::default(), Scope::anonymous());
        let keep = |number: u64, conversation: &str| {
            memory.keep(&scope, memo(number, conversation, memory.conversation(&scope, conversation)));
            assert!(memory.0.weight() <= BYTES_MAX, "after {number}");
            let newest = (scope.clone(), Kind::Response, format!("resp_{number}").into());
            assert!(memory.0.peek(&newest).is_some(), "resp_{number} is forgotten as soon as it was kept");
        };
        (0..19_000).for_each(|number| keep(number, &format!("conv_{}", number / 4)));
        // One that goes on longer than anything is kept.
        (19_000..20_000).for_each(|number| keep(number, "conv_long"));
        let known = memory.conversation(&scope, "conv_long").expect("the conversation that goes on is known");
        assert!(known.weight() <= THREAD_BYTES_MAX && known.executions.len() < 1_000, "{} bytes", known.weight());
        assert_eq!(known.executions.last().map(|execution| execution.moment.time_ms), Some(19_999));
        assert!(memory.response(&scope, "resp_0").is_none());
    }

    #[test]
    fn the_heaviest_conversation_is_kept_on_every_machine() {
        let (memory, scope) = (Memory::default(), Scope::anonymous());
        let tools: Vec<Arc<str>> = vec!["x".repeat(1 << 20).into()];
        let data = ["x".repeat(256 << 10)];
        // Every turn says the same instructions and tools again.
        let thread = Thread::default().with(&[], &[], &tools, &data).with(&[], &[], &tools, &data);
        assert!(!thread.incomplete && memory.0.num_shards() == PARTS);
        memory.keep(&scope, Memo { responses: vec!["resp_1".to_owned()], thread, ..Memo::default() });
        assert!(memory.response(&scope, "resp_1").is_some());
        assert!(memory.response(&Scope::shared(), "resp_1").is_none());
    }
}
