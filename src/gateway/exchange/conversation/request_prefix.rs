//! Beginnings of requests: what was found in an earlier request is taken over for the part that a later one shares with it.
//!
//! Agents send their whole conversation again with every turn. What two requests have in common is found by comparing their bytes, up to
//! the end of a message or input item; only the rest is scanned, verified and edited. Taken over is what follows from those bytes alone, for
//! one API, scope, policy and set of tools; whatever depends on the time, the ledger or the rest of the conversation is computed anew.
//!
//! The cache changes no result, only what results cost, so this counts as pure.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    sync::{
        Arc, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use slab::Slab;

use super::{
    known_items::{ItemBytes, ItemTable},
    request_index::{RequestIndex, SampleKeys},
};
use crate::{
    exchange::tool_set::ToolSet,
    judge::history::{
        beginning::{BeginningUse, HistoryBeginning},
        memo::{self, HistoryMemo, ItemMemo},
    },
    marks::Scope,
    openai::Api,
    policy::compiled::CompiledPolicy,
    wire::{
        json::{
            Document, DocumentBeginning, JsonError, SharedBeginning, TextMemory, Value,
            splice::{EditedPrefix, Splices},
        },
        rope::Rope,
    },
};

/// Bytes of the shortest request that is kept: what is shorter is read as fast. Tests, whose requests are short, run with all of them kept.
const REQUEST_BYTES_MIN: usize = if cfg!(debug_assertions) { 1 } else { 8 << 10 };
/// Kept requests that a request is compared with, at most.
const COMPARED_MAX: usize = 8;
/// Bytes that a request is compared with, at most, in multiples of its own.
const COMPARED_TIMES: usize = 3;
/// Requests of a conversation after which all that was read from it is weighed again, and not only what is new.
const WEIGHED_EVERY: u32 = 8;
/// Attempts to enter the cache while another thread changes it.
const ATTEMPTS_MAX: usize = 64;

/// For whom and by which rules a request is judged: nothing is taken over across these.
#[derive(Clone, Debug)]
pub struct PrefixOwner {
    /// API of the request.
    pub api: Api,
    /// Scope of the caller.
    pub scope: Scope,
    /// The policy, as it was loaded.
    pub rules: Arc<CompiledPolicy>,
}

impl PartialEq for PrefixOwner {
    fn eq(&self, other: &Self) -> bool {
        self.api == other.api && Arc::ptr_eq(&self.rules, &other.rules) && self.scope == other.scope
    }
}

/// A request that was read, with all that later ones may take over.
#[derive(Debug)]
pub struct KnownRequest {
    beginning: DocumentBeginning,
    tools: Arc<ToolSet>,
    memo: HistoryMemo,
    history: Option<Arc<HistoryBeginning>>,
    edited: EditedPrefix,
    /// Bytes of memory that the memo takes, as it was weighed last.
    memo_bytes: AtomicUsize,
    /// Bytes of memory of the items that were taken over, as they were weighed last, and their number.
    taken_over: (usize, usize),
    /// Number of requests since all items were weighed.
    weighed: u32,
    /// When it was used last, by the cache's clock.
    used: AtomicU64,
    /// Where it is kept.
    slot: AtomicUsize,
}

/// The part of a known request that a request shares.
#[derive(Clone, Debug)]
pub struct SharedPrefix {
    request: Arc<KnownRequest>,
    beginning: SharedBeginning,
}

/// Handling of a request's beginning.
#[derive(Clone, Debug, Default)]
pub enum PrefixUse {
    /// It is read as if it were the first, and not kept.
    #[default]
    Off,
    /// It is kept, and taken over from an earlier request if that shares it.
    Kept(Box<KnownParts>),
}

/// Knowledge about a request that is kept.
#[derive(Clone, Debug)]
pub struct KnownParts {
    shared: Option<SharedPrefix>,
    /// So much is kept that all items of a request are weighed anew.
    crowded: bool,
    /// Owner of the request, and the readings of items that may stand in it.
    owner: PrefixOwner,
    keys: SampleKeys,
    items: Arc<ItemTable>,
}

/// A prepared body, and the request to be kept.
#[derive(Debug)]
pub struct PreparedBody {
    /// Body for the upstream.
    pub rope: Rope,
    /// The request, if it is to be kept.
    pub known: Option<KnownRequest>,
}

impl PrefixUse {
    /// The beginning that is shared with an earlier request.
    pub fn shared(&self) -> Option<&SharedPrefix> {
        match self {
            Self::Kept(known) => known.shared.as_ref(),
            Self::Off => None,
        }
    }

    /// Parses a request like [`Document::parse_noting`], but what it shares with an earlier one. Returns what is taken over from here on.
    /// `place`: memory of the document's text.
    ///
    /// # Errors
    /// [`JsonError`], with the position.
    pub fn parse(self, body: Bytes, place: TextMemory, depth: usize, known: &[&[u8]]) -> Result<(Document, Self), JsonError> {
        let parse = |body: Bytes| Document::parse_noting(place.of(body), depth, known);
        let Self::Kept(mut parts) = self else { return Ok((parse(body)?, Self::Off)) };
        let resume = |shared: &SharedPrefix| Document::resume(body.clone(), place, &shared.request.beginning, &shared.beginning, known);
        match parts.shared.as_ref().and_then(resume) {
            Some(document) => Ok((document?, Self::Kept(parts))),
            None => {
                parts.shared = None;
                Ok((parse(body)?, Self::Kept(parts)))
            }
        }
    }

    /// Items read before, for a history; empty if the request isn't kept. `items`: the bytes of each item, from which alone its reading
    /// follows, or `None` if it doesn't follow from any; `shared_items`: number of the first items that follow from what is shared alone.
    pub fn memo<'i>(
        &self,
        tools: &Arc<ToolSet>,
        items: impl Iterator<Item = Option<ItemBytes<'i>>>,
        shared_items: impl FnOnce(&SharedPrefix) -> usize,
    ) -> HistoryMemo {
        let Self::Kept(parts) = self else { return HistoryMemo::new() };
        let shared = known_of(parts.shared.as_ref(), tools);
        let known = shared.and_then(|shared| shared.request.memo.get(..shared_items(shared))).unwrap_or_default();
        let new = items.skip(known.len());
        memo::memo_of(known, new.map(|item| item.map_or_else(Arc::default, |item| parts.items.reading(&parts.owner, tools, item))))
    }

    /// Handling of what later requests may take over of the history.
    pub fn of_history(&self) -> BeginningUse {
        if matches!(self, Self::Kept(_)) { BeginningUse::Kept } else { BeginningUse::Dropped }
    }

    /// The beginning of the history that was verified in an earlier request, if all of it and the item behind it are shared.
    pub fn history(&self, tools: &Arc<ToolSet>) -> Option<&Arc<HistoryBeginning>> {
        let shared = known_of(self.shared(), tools)?;
        shared.request.history.as_ref().filter(|history| history.count() < shared.beginning.elements.count)
    }

    /// Applies the edits to a request. `array`: its messages or input items; `memo`: from [`Self::memo`]; `history`: what later requests may
    /// take over of its history.
    pub fn apply(
        &self,
        edits: Splices,
        document: &Document,
        array: Option<Value<'_>>,
        tools: &Arc<ToolSet>,
        memo: &HistoryMemo,
        history: Option<Arc<HistoryBeginning>>,
    ) -> PreparedBody {
        let Self::Kept(parts) = self else { return PreparedBody { rope: edits.apply(document.bytes()).into(), known: None } };
        let beginning = array.and_then(|array| document.beginning(array));
        let end = beginning.as_ref().and_then(DocumentBeginning::whole).map(|whole| whole.end);
        let shared = known_of(parts.shared.as_ref(), tools);
        let edited = edits.apply_in_pieces(document.bytes(), shared.map(|shared| (&shared.request.edited, shared.len())), end);
        let kept = beginning.zip(edited.prefix);
        // Now and then all are weighed: more may have been read from the items that were taken over.
        let shared = shared.filter(|own| !parts.crowded && own.request.weighed < WEIGHED_EVERY);
        let same = |own: &SharedPrefix| own.request.memo.iter().zip(memo).take_while(|(known, own)| Arc::ptr_eq(known, own)).count();
        let of = |own: &SharedPrefix| (own.request.memo_bytes.load(Ordering::Relaxed), same(own));
        let taken_over = shared.map_or((0, 0), of);
        let memo_bytes = taken_over.0 + bytes_of(memo.get(taken_over.1..).unwrap_or_default());
        let known = kept.map(|(beginning, edited)| KnownRequest {
            beginning,
            tools: tools.clone(),
            memo: memo.clone(),
            history,
            edited,
            memo_bytes: AtomicUsize::new(memo_bytes),
            taken_over,
            weighed: shared.map_or(0, |own| own.request.weighed + 1),
            used: AtomicU64::new(0),
            slot: AtomicUsize::new(usize::MAX),
        });
        PreparedBody { rope: edited.rope, known }
    }
}

impl SharedPrefix {
    /// Number of messages or input items that are shared.
    pub fn elements(&self) -> usize {
        self.beginning.elements.count
    }

    /// Number of bytes that are shared.
    pub fn len(&self) -> usize {
        self.beginning.elements.end
    }

    /// True if all that can be taken over from the earlier request is shared.
    fn is_whole(&self) -> bool {
        self.request.beginning.whole() == Some(self.beginning.elements)
    }

    /// True if nothing is shared.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What is shared with a request under the same tools: under others names may differ.
fn known_of<'s>(shared: Option<&'s SharedPrefix>, tools: &Arc<ToolSet>) -> Option<&'s SharedPrefix> {
    shared.filter(|shared| Arc::ptr_eq(&shared.request.tools, tools))
}

/// Bytes of memory that readings of items take.
fn bytes_of(memo: &[Arc<ItemMemo>]) -> usize {
    memo.iter().map(|memo| memo.bytes() + size_of::<Arc<ItemMemo>>()).sum()
}

impl KnownRequest {
    /// Bytes of memory that it takes.
    fn bytes(&self) -> usize {
        let document = self.beginning.document();
        let memo = self.memo_bytes.load(Ordering::Relaxed);
        let history = self.history.as_ref().map_or(0, |history| history.bytes());
        document.bytes().len() + document.noted_bytes() + self.edited.bytes() + memo + history + size_of::<Self>()
    }
}

/// Cache of requests, bounded in bytes; the one that wasn't used for longest goes first.
///
/// No thread ever waits for another here: who can't enter at once goes without.
#[derive(Debug)]
pub struct PrefixCache {
    bytes_max: usize,
    clock: AtomicU64,
    kept: RwLock<Kept>,
    items: Arc<ItemTable>,
}

#[derive(Debug, Default)]
struct Kept {
    entries: Slab<Entry>,
    index: RequestIndex,
    /// When each entry was used last, or earlier, and its slot: the one that was used least recently first.
    order: BinaryHeap<Reverse<(u64, usize)>>,
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    owner: PrefixOwner,
    /// The keys by which it is found.
    keys: Box<[u64]>,
    request: Arc<KnownRequest>,
    bytes: usize,
}

impl PrefixCache {
    /// An empty cache for this many bytes; with 0 nothing is kept. `key`: random, for the hashes of items.
    pub fn new(bytes_max: usize, key: [u8; 32]) -> Self {
        Self { bytes_max, clock: AtomicU64::default(), kept: RwLock::default(), items: Arc::new(ItemTable::new(key)) }
    }

    /// Looks up what a request of this owner shares with an earlier one.
    pub fn find(&self, owner: &PrefixOwner, body: &Bytes) -> PrefixUse {
        if self.bytes_max == 0 || body.len() < REQUEST_BYTES_MIN {
            return PrefixUse::Off;
        }
        let keys = SampleKeys::of(owner, body);
        let Some(kept) = self.read() else { return PrefixUse::Off };
        // INVARIANT: what one conversation reads from items is counted with it, and those that share the items, and were used before it, go
        // first. So the bound holds if whatever is used again is weighed again.
        let crowded = kept.bytes > self.bytes_max / 2;
        let mut candidates: [Option<Arc<KnownRequest>>; COMPARED_MAX] = Default::default();
        let found = kept.index.alike(&keys);
        let own = found.filter_map(|slot| kept.entries.get(slot)).filter(|entry| entry.owner == *owner);
        for (place, entry) in candidates.iter_mut().zip(own) {
            *place = Some(entry.request.clone());
        }
        drop(kept);
        let mut left = body.len().saturating_mul(COMPARED_TIMES);
        let mut longest: Option<SharedPrefix> = None;
        for request in candidates.into_iter().flatten() {
            let Some(beginning) = request.beginning.shared_by(body) else { continue };
            let shared = SharedPrefix { beginning, request };
            let (length, goes_on) = (shared.len(), shared.is_whole());
            if longest.as_ref().is_none_or(|longest| longest.len() < length) {
                longest = Some(shared);
            }
            left = left.saturating_sub(length);
            if goes_on || left == 0 {
                break;
            }
        }
        longest.iter().for_each(|shared| self.touch(&shared.request));
        PrefixUse::Kept(Box::new(KnownParts { shared: longest, crowded, owner: owner.clone(), keys, items: self.items.clone() }))
    }

    fn touch(&self, request: &KnownRequest) {
        request.used.store(self.clock.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Keeps a request, as it was found; it replaces the one that it goes on from.
    pub fn keep(&self, request: KnownRequest, prefix: PrefixUse) -> Option<Arc<KnownRequest>> {
        let PrefixUse::Kept(parts) = prefix else { return None };
        let KnownParts { shared, owner, keys, .. } = *parts;
        let bytes = request.bytes();
        if bytes > self.bytes_max {
            return None;
        }
        let replaced = shared.as_ref().filter(|shared| shared.is_whole()).map(|shared| &shared.request);
        let end = request.beginning.whole()?.end;
        let keys = keys.kept(end);
        let bytes = bytes + size_of::<Entry>() + keys.len() * RequestIndex::KEY_BYTES;
        let request = Arc::new(request);
        self.touch(&request);
        let entry = Entry { owner, keys, request: request.clone(), bytes };
        let mut gone = Vec::new();
        let mut kept = self.write()?;
        kept.bytes += entry.bytes;
        match replaced.and_then(|replaced| kept.slot_of(replaced)) {
            Some(slot) => gone.extend(kept.replace(slot, entry)),
            None => kept.insert(entry),
        }
        self.shrink(&mut kept, &mut gone);
        drop(kept);
        // What is dropped is freed after the others may enter again.
        drop(gone);
        Some(request)
    }

    /// Counts the bytes of a kept request again, after more was read from it.
    pub fn weigh(&self, request: &Arc<KnownRequest>) {
        let (bytes, count) = request.taken_over;
        let memo_bytes = bytes + bytes_of(request.memo.get(count..).unwrap_or_default());
        request.memo_bytes.store(memo_bytes, Ordering::Relaxed);
        let bytes = request.bytes();
        let mut gone = Vec::new();
        let Some(mut kept) = self.write() else { return };
        let Some(slot) = kept.slot_of(request) else { return };
        let Some(entry) = kept.entries.get_mut(slot) else { return };
        let bytes = bytes + size_of::<Entry>() + entry.keys.len() * RequestIndex::KEY_BYTES;
        let before = std::mem::replace(&mut entry.bytes, bytes);
        kept.bytes = (kept.bytes + bytes).saturating_sub(before);
        self.shrink(&mut kept, &mut gone);
        drop(kept);
        drop(gone);
    }

    /// Drops everything that was kept under a policy that isn't one of these any more.
    pub fn retain(&self, rules: &[Arc<CompiledPolicy>]) {
        // Rare, and nothing that is dropped may be found again: here a thread does wait.
        let mut kept = self.kept.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        for entry in std::mem::take(&mut *kept).entries {
            if rules.iter().any(|rules| Arc::ptr_eq(rules, &entry.1.owner.rules)) {
                kept.bytes += entry.1.bytes;
                kept.insert(entry.1);
            }
        }
    }

    /// Number of requests that are kept, and their bytes.
    pub fn size(&self) -> (usize, usize) {
        self.read().map_or((0, 0), |kept| (kept.entries.len(), kept.bytes))
    }

    fn shrink(&self, kept: &mut Kept, gone: &mut Vec<Entry>) {
        while kept.bytes > self.bytes_max {
            let Some(oldest) = kept.remove_oldest() else { return };
            gone.push(oldest);
        }
    }

    fn read(&self) -> Option<RwLockReadGuard<'_, Kept>> {
        attempt(|| self.kept.try_read().ok())
    }

    fn write(&self) -> Option<RwLockWriteGuard<'_, Kept>> {
        attempt(|| self.kept.try_write().ok())
    }
}

impl Kept {
    /// Slot in which a request is kept, if it still is.
    fn slot_of(&self, request: &Arc<KnownRequest>) -> Option<usize> {
        let slot = request.slot.load(Ordering::Relaxed);
        self.entries.get(slot).is_some_and(|entry| Arc::ptr_eq(&entry.request, request)).then_some(slot)
    }

    fn insert(&mut self, entry: Entry) {
        let vacant = self.entries.vacant_entry();
        let slot = vacant.key();
        self.index.insert(&entry.keys, slot);
        self.order.push(Reverse((entry.request.used.load(Ordering::Relaxed), slot)));
        entry.request.slot.store(slot, Ordering::Relaxed);
        vacant.insert(entry);
    }

    /// Puts an entry in the place of another, which is returned.
    fn replace(&mut self, slot: usize, entry: Entry) -> Option<Entry> {
        let place = self.entries.get_mut(slot)?;
        entry.request.slot.store(slot, Ordering::Relaxed);
        let gone = std::mem::replace(place, entry);
        self.index.remove(&gone.keys, slot);
        self.index.insert(&place.keys, slot);
        self.bytes = self.bytes.saturating_sub(gone.bytes);
        Some(gone)
    }

    /// Removes the entry that wasn't used for longest.
    fn remove_oldest(&mut self) -> Option<Entry> {
        while let Some(Reverse((noted, slot))) = self.order.pop() {
            let Some(entry) = self.entries.get(slot) else { continue };
            let used = entry.request.used.load(Ordering::Relaxed);
            // INVARIANT: no entry was used before the time that is noted for it, so the first whose note is right is the oldest.
            if used > noted {
                self.order.push(Reverse((used, slot)));
                continue;
            }
            let entry = self.entries.remove(slot);
            self.index.remove(&entry.keys, slot);
            self.bytes = self.bytes.saturating_sub(entry.bytes);
            return Some(entry);
        }
        None
    }
}

/// Tries a few times, without waiting.
fn attempt<T>(enter: impl Fn() -> Option<T>) -> Option<T> {
    (0..ATTEMPTS_MAX).find_map(|_| {
        let entered = enter();
        if entered.is_none() {
            std::hint::spin_loop();
        }
        entered
    })
}
