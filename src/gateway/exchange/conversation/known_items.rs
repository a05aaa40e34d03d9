//! Readings of items by their bytes: what was read from an item in one conversation is taken over in every other that has it.
//!
//! Conversations share items without sharing a beginning where the instructions change with each turn, where the oldest turns are left out,
//! and where agents go on from one history. The table has the items of kept requests only, and holds none of them itself.
//!
//! It changes no result, only what results cost, so this counts as pure.

use std::sync::{Arc, Mutex, OnceLock, Weak};

use highway::{HighwayHash as _, HighwayHasher, Key};

use super::request_prefix::PrefixOwner;
use crate::{
    exchange::tool_set::ToolSet, judge::history::memo::ItemMemo, marks::Scope, openai::Api, policy::compiled::CompiledPolicy,
    wire::json::Value,
};

/// Items that are known at most. An item displaces the one that has its place.
const SLOTS: usize = 1 << 13;

/// An item's bytes, and how they are read: its reading follows from these alone.
#[derive(Clone, Copy, Debug)]
pub struct ItemBytes<'i> {
    /// Number of the way in which the API reads such an item, where its bytes alone don't tell that.
    pub kind: u8,
    /// The bytes.
    pub bytes: &'i [u8],
}

impl<'i> ItemBytes<'i> {
    /// Those of an item whose bytes tell how it is read.
    pub fn of(item: Value<'i>) -> Self {
        Self { kind: 0, bytes: item.raw() }
    }
}

/// Readings of items, by a hash of the items' bytes.
///
/// No thread ever waits for another here: who can't enter at once goes without.
pub struct ItemTable {
    /// Key of the hash, which nobody outside this process knows: nobody can make two items with one hash.
    key: [u64; 4],
    slots: OnceLock<Box<[Mutex<Slot>]>>,
}

/// The reading of one item, with all that it follows from.
#[derive(Debug, Default)]
struct Slot {
    hash: [u64; 2],
    api: Option<Api>,
    scope: Option<Scope>,
    rules: Weak<CompiledPolicy>,
    tools: Weak<ToolSet>,
    reading: Weak<ItemMemo>,
}

impl Slot {
    fn is_of(&self, hash: [u64; 2], owner: &PrefixOwner, tools: &Arc<ToolSet>) -> bool {
        self.hash == hash
            && self.api == Some(owner.api)
            && self.scope.as_ref() == Some(&owner.scope)
            // INVARIANT: a weak reference keeps the address from being used again.
            && self.rules.as_ptr() == Arc::as_ptr(&owner.rules)
            && self.tools.as_ptr() == Arc::as_ptr(tools)
    }
}

impl std::fmt::Debug for ItemTable {
    /// Without the key.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("ItemTable").finish_non_exhaustive()
    }
}

impl ItemTable {
    /// An empty table. `key`: random, 32 bytes.
    pub fn new(key: [u8; 32]) -> Self {
        let (words, _) = key.as_chunks();
        let word = |at: usize| words.get(at).map_or(0, |word| u64::from_le_bytes(*word));
        Self { key: std::array::from_fn(word), slots: OnceLock::new() }
    }

    /// The reading of an item of this owner's, under these tools: what was read before of an item with the same bytes, or one to be filled.
    pub fn reading(&self, owner: &PrefixOwner, tools: &Arc<ToolSet>, item: ItemBytes<'_>) -> Arc<ItemMemo> {
        let slots = self.slots.get_or_init(|| (0..SLOTS).map(|_| Mutex::default()).collect());
        let mut hasher = HighwayHasher::new(Key(self.key));
        hasher.append(item.bytes);
        hasher.append(&[item.kind]);
        let hash = hasher.finalize128();
        let place = hash[0] as usize % SLOTS;
        let Some(mut slot) = slots.get(place).and_then(|slot| slot.try_lock().ok()) else { return Arc::default() };
        if slot.is_of(hash, owner, tools)
            && let Some(known) = slot.reading.upgrade()
        {
            return known;
        }
        let reading = Arc::default();
        *slot = Slot {
            hash,
            api: Some(owner.api),
            scope: Some(owner.scope.clone()),
            rules: Arc::downgrade(&owner.rules),
            tools: Arc::downgrade(tools),
            reading: Arc::downgrade(&reading),
        };
        reading
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{
        exchange::{
            active_policy::Standard,
            tool_set::{Brought, Dialect},
        },
        policy::load::PolicySource,
        tools::registry::SchemaCache,
    };

    /// The owner of a request, under a policy that was just loaded, and its tools.
    fn loaded() -> (PrefixOwner, Arc<ToolSet>) {
        let Standard { rules, tools, .. } = Standard::new(PolicySource::choose(None, Path::new(".")).load().unwrap(), 1 << 20).unwrap();
        let brought = Brought { dialect: Dialect::Nested, array: None, further: &[] };
        let tools = tools.get(brought, &rules.policy, &rules.checks, &SchemaCache::default()).unwrap();
        (PrefixOwner { api: Api::Chat, scope: Scope::client("a"), rules }, tools)
    }

    fn item(bytes: &[u8]) -> ItemBytes<'_> {
        ItemBytes { kind: 0, bytes }
    }

    #[test]
    fn an_item_is_known_to_its_owner_as_long_as_somebody_holds_it() {
        let (table, (own, tools), (other, other_tools)) = (ItemTable::new([7; 32]), loaded(), loaded());
        let first = table.reading(&own, &tools, item(b"one"));
        assert!(Arc::ptr_eq(&first, &table.reading(&own, &tools, item(b"one"))));
        assert!(!Arc::ptr_eq(&first, &table.reading(&own, &tools, item(b"another"))));
        let read_otherwise = ItemBytes { kind: 1, ..item(b"one") };
        assert!(!Arc::ptr_eq(&first, &table.reading(&own, &tools, read_otherwise)));
        let others = [
            PrefixOwner { api: Api::Messages, ..own.clone() },
            PrefixOwner { scope: Scope::client("b"), ..own.clone() },
            PrefixOwner { rules: other.rules, ..own.clone() },
        ];
        for other in others {
            let known = table.reading(&own, &tools, item(b"one"));
            assert!(!Arc::ptr_eq(&known, &table.reading(&other, &tools, item(b"one"))), "{other:?}");
        }
        let known = table.reading(&own, &tools, item(b"one"));
        assert!(!Arc::ptr_eq(&known, &table.reading(&own, &other_tools, item(b"one"))));
        // Nobody holds it any more.
        let known = table.reading(&own, &tools, item(b"two"));
        assert!(known.text.set("read".into()).is_ok());
        drop(known);
        assert!(table.reading(&own, &tools, item(b"two")).text.get().is_none());
    }

    #[test]
    fn more_items_than_there_is_room_for() {
        let (table, (own, tools)) = (ItemTable::new([7; 32]), loaded());
        let name = |number: usize| number.to_string();
        let read: Vec<Arc<ItemMemo>> = (0..3 * SLOTS)
            .map(|number| {
                let reading = table.reading(&own, &tools, item(name(number).as_bytes()));
                assert!(reading.text.set(name(number).into()).is_ok(), "{number} was read before");
                reading
            })
            .collect();
        let known = (0..read.len()).filter(|number| {
            let known = table.reading(&own, &tools, item(name(*number).as_bytes()));
            known.text.get().is_some_and(|text| {
                assert_eq!(**text, *name(*number));
                true
            })
        });
        assert!(known.count() > 0);
    }
}
