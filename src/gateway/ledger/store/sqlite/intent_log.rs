//! File beside the database for operations that were begun and whose end isn't stored yet: noting one is a single write of a slot instead
//! of a transaction, and is as durable against the end of the process.
//!
//! A slot is taken until the end is in the database. When a process starts, the notes in the file are stored in the database unless it has
//! a row with their id already; so a released slot needn't be wiped.

use std::{
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::{ledger::sealed_kv::cipher::SealedRow, sys::files::write_all_at};

/// Slots of the file: operations beyond that are stored in a transaction.
const SLOTS: u32 = 1024;
/// Bytes of a slot, chosen so that no slot crosses a page boundary.
const SLOT_BYTES: usize = 512;
/// Length of a slot's head: length of the body, id, time.
const HEAD_BYTES: usize = 4 + 32 + 8;

/// The file of noted operations, with the state of its slots.
pub(super) struct IntentLog {
    file: File,
    slots: Mutex<IntentSlots>,
}

struct IntentSlots {
    free: Vec<u32>,
    /// Row in each slot that is taken.
    taken: Vec<Option<SealedRow>>,
}

impl IntentSlots {
    fn take(&mut self, row: SealedRow) -> Option<u32> {
        let number = self.free.pop()?;
        *self.taken.get_mut(number as usize)? = Some(row);
        Some(number)
    }
}

/// Path of the file, beside the database.
pub(super) fn path(database: &Path) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push("-begun");
    PathBuf::from(path)
}

impl IntentLog {
    /// Reads the notes that an earlier process left in the file.
    pub(super) fn left(path: &Path) -> io::Result<Vec<SealedRow>> {
        let mut bytes = Vec::new();
        match File::open(path) {
            Ok(file) => file.take(u64::from(SLOTS) * SLOT_BYTES as u64).read_to_end(&mut bytes)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        Ok(bytes.chunks(SLOT_BYTES).filter_map(read).collect())
    }

    /// Creates the file anew, with all of its space allocated on the disk.
    pub(super) fn make(path: &Path) -> io::Result<Self> {
        let file = super::owner_only().create(true).truncate(true).write(true).open(path)?;
        write_all_at(&file, &vec![0; SLOTS as usize * SLOT_BYTES], 0)?;
        // Now, not when the first call waits for the disk.
        file.sync_data()?;
        let slots = IntentSlots { free: (0..SLOTS).rev().collect(), taken: vec![None; SLOTS as usize] };
        Ok(Self { file, slots: Mutex::new(slots) })
    }

    /// Notes a row; `None` if there is no slot left, the row is too long, or it can't be written.
    pub(super) fn note(&self, row: SealedRow) -> Option<u32> {
        let slot = write(&row)?;
        let number = self.slots().take(row)?;
        match write_all_at(&self.file, &slot, u64::from(number) * SLOT_BYTES as u64) {
            Ok(()) => Some(number),
            Err(error) => {
                tracing::error!(%error, "what begins can't be noted beside the ledger: it is stored in it instead");
                self.give_back(&[number]);
                None
            }
        }
    }

    /// Releases slots whose end is stored in the database.
    pub(super) fn give_back(&self, numbers: &[u32]) {
        let mut slots = self.slots();
        for number in numbers {
            if let Some(taken) = slots.taken.get_mut(*number as usize) {
                *taken = None;
                slots.free.push(*number);
            }
        }
    }

    /// Returns the noted row with this id.
    pub(super) fn find(&self, id: &[u8; 32]) -> Option<SealedRow> {
        self.slots().taken.iter().flatten().find(|row| row.id == *id).cloned()
    }

    fn slots(&self) -> MutexGuard<'_, IntentSlots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Encodes a row for its slot; `None` if it is too long.
fn write(row: &SealedRow) -> Option<Vec<u8>> {
    let length = u32::try_from(row.body.len()).ok().filter(|length| *length as usize <= SLOT_BYTES - HEAD_BYTES)?;
    let mut slot = Vec::with_capacity(HEAD_BYTES + row.body.len());
    slot.extend_from_slice(&length.to_le_bytes());
    slot.extend_from_slice(&row.id);
    slot.extend_from_slice(&row.at_ms.to_le_bytes());
    slot.extend_from_slice(&row.body);
    Some(slot)
}

/// Decodes the row in a slot; `None` if the slot was never used. The row's seal shows whether it is intact.
fn read(slot: &[u8]) -> Option<SealedRow> {
    let (length, rest) = slot.split_first_chunk::<4>()?;
    let (id, rest) = rest.split_first_chunk::<32>()?;
    let (at_ms, rest) = rest.split_first_chunk::<8>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok().filter(|length| *length > 0)?;
    Some(SealedRow { id: *id, at_ms: u64::from_le_bytes(*at_ms), body: rest.get(..length)?.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(number: u8, bytes: usize) -> SealedRow {
        SealedRow { id: [number; 32], at_ms: u64::from(number), body: vec![number; bytes] }
    }

    #[test]
    fn what_was_noted_is_there_for_the_next_process() {
        let directory = tempfile::tempdir().unwrap();
        let path = path(&directory.path().join("ledger.db"));
        assert_eq!(IntentLog::left(&path).unwrap(), []);
        let begun = IntentLog::make(&path).unwrap();
        let slots: Vec<u32> =
            [row(1, 1), row(2, 300), row(3, SLOT_BYTES - HEAD_BYTES)].iter().filter_map(|row| begun.note(row.clone())).collect();
        assert_eq!(slots, [0, 1, 2]);
        assert_eq!(begun.note(row(4, SLOT_BYTES - HEAD_BYTES + 1)), None, "too long");
        assert_eq!(begun.find(&[2; 32]), Some(row(2, 300)));
        begun.give_back(&[1]);
        assert_eq!(begun.find(&[2; 32]), None, "it is the database's");
        assert_eq!(begun.note(row(5, 7)), Some(1));
        drop(begun);
        assert_eq!(IntentLog::left(&path).unwrap(), [row(1, 1), row(5, 7), row(3, SLOT_BYTES - HEAD_BYTES)]);
        drop(IntentLog::make(&path).unwrap());
        assert_eq!(IntentLog::left(&path).unwrap(), []);
    }

    #[test]
    fn it_is_bounded() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("begun");
        let begun = IntentLog::make(&path).unwrap();
        assert_eq!((0..SLOTS + 5).filter_map(|_| begun.note(row(1, 400))).count(), SLOTS as usize);
        begun.give_back(&[7]);
        assert_eq!(begun.note(row(1, 1)), Some(7));
        assert_eq!(std::fs::metadata(&path).unwrap().len(), u64::from(SLOTS) * SLOT_BYTES as u64);
    }

    proptest::proptest! {
        #[test]
        fn any_file_is_read(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..1200)) {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("begun");
            std::fs::write(&path, &bytes).unwrap();
            assert!(IntentLog::left(&path).unwrap().iter().all(|row| row.body.len() <= SLOT_BYTES - HEAD_BYTES));
        }
    }
}
