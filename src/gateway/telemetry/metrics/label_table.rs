//! A bounded table of names that become labels. Models and clients choose the names, so they must be limited.
//!
//! A lookup takes no lock. A new name is added by copying the table, at most [`NAMES_MAX`] times in the life of a process;
//! names after that count as [`OTHER`].

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use arc_swap::ArcSwap;
use foldhash::fast::RandomState;

/// Names that are counted separately.
pub const NAMES_MAX: usize = 200;
/// The name under which all other names are counted.
pub const OTHER: &str = "other";
/// Longer names count as [`OTHER`]: real tools and models have shorter ones.
const NAME_BYTES_MAX: usize = 128;

/// Counters by name.
#[derive(Debug)]
pub struct LabelTable<T> {
    known: ArcSwap<HashMap<Box<str>, Arc<T>, RandomState>>,
    other: Arc<T>,
    adding: Mutex<()>,
}

impl<T: Default> Default for LabelTable<T> {
    fn default() -> Self {
        Self { known: ArcSwap::default(), other: Arc::default(), adding: Mutex::new(()) }
    }
}

impl<T: Default> LabelTable<T> {
    /// Counts under this name, or as [`OTHER`] if the table is full.
    pub fn with<R>(&self, name: &str, count: impl FnOnce(&T) -> R) -> R {
        if let Some(found) = self.known.load().get(name) {
            return count(found);
        }
        count(&self.add(name).unwrap_or_else(|| self.other.clone()))
    }

    /// Counts as [`OTHER`].
    pub fn with_other<R>(&self, count: impl FnOnce(&T) -> R) -> R {
        count(&self.other)
    }

    fn add(&self, name: &str) -> Option<Arc<T>> {
        if name.is_empty() || name == OTHER || name.len() > NAME_BYTES_MAX || self.known.load().len() >= NAMES_MAX {
            return None;
        }
        let _one = self.adding.lock().unwrap_or_else(PoisonError::into_inner);
        let mut known = HashMap::clone(&self.known.load());
        if let Some(found) = known.get(name) {
            return Some(found.clone());
        }
        if known.len() >= NAMES_MAX {
            return None;
        }
        let counters = Arc::<T>::default();
        known.insert(name.into(), counters.clone());
        self.known.store(Arc::new(known));
        Some(counters)
    }

    /// All names with their counters, sorted; [`OTHER`] is last.
    pub fn all(&self) -> Vec<(Box<str>, Arc<T>)> {
        let mut all: Vec<_> = self.known.load().iter().map(|(name, counters)| (name.clone(), counters.clone())).collect();
        all.sort_by(|(a, _), (b, _)| a.cmp(b));
        all.push((OTHER.into(), self.other.clone()));
        all
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn the_table_is_bounded() {
        let names: LabelTable<AtomicU64> = LabelTable::default();
        for round in 1..=2 {
            for number in 0..NAMES_MAX + 50 {
                names.with(&format!("tool_{number}"), |count| count.fetch_add(1, Ordering::Relaxed));
            }
            let all = names.all();
            assert_eq!(all.len(), NAMES_MAX + 1);
            assert!(all.iter().take(NAMES_MAX).all(|(_, count)| count.load(Ordering::Relaxed) == round));
        }
        names.with(&"x".repeat(NAME_BYTES_MAX + 1), |count| count.fetch_add(1, Ordering::Relaxed));
        names.with("", |count| count.fetch_add(1, Ordering::Relaxed));
        let all = names.all();
        let (name, count) = all.last().unwrap();
        assert_eq!((&**name, count.load(Ordering::Relaxed)), (OTHER, 102));
    }
}
