//! The writer: one thread that takes records off the queue, seals them into the chain and stores them in batches.
//!
//! If the database fails, the batch is kept and retried until it is stored; meanwhile the queue fills, and new exchanges wait for capacity.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use crate::ledger::{
    chain::ChainKeys,
    queue::{RecordReceiver, segment::Segment},
    store::{Batch, ChainStore, HourlyAggregator, HourlyRow, Position, SealedRecord, StoreError},
};

/// Interval between batches, unless someone waits for a record.
const INTERVAL: Duration = Duration::from_millis(100);
/// Pauses after a failure: the first and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// Records that are removed in one step: it delays anyone who waits for the writer or for its processor.
const PRUNE_MAX: usize = 40;
/// Time limit of one removal, and the pause until the next one while there is more to remove: a fifteenth of the time, in pieces too short
/// to be noticed. If more is written than that removes, as many records are removed as were written.
const PRUNE_TIME: Duration = Duration::from_micros(1500);
const PRUNE_REST: Duration = Duration::from_millis(20);
/// Interval between searches for expired records, once there are none left.
const PRUNE_INTERVAL: Duration = Duration::from_secs(20);
/// Time limit for writing the last records when toolmark stops.
const LAST_TRIES: Duration = Duration::from_secs(10);

/// State of the writer's thread.
pub struct LedgerWriter {
    /// Store of the records.
    pub store: Arc<dyn ChainStore>,
    /// Keys that seal the records.
    pub keys: ChainKeys,
    /// Time for which records are kept.
    pub keep: Duration,
    /// Most bytes of conversations, and of whole exchanges.
    pub bytes_max: [u64; 2],
    /// Hourly sums.
    pub hourly: Box<dyn HourlyAggregator>,
    /// Receiving end of the queue.
    pub inlet: RecordReceiver,
    /// An answer waits for each record.
    pub commit: bool,
    /// Reports failures to write, for the readiness check.
    pub trouble: WriteFailure,
}

/// Reason why the ledger can't be written now, if any, for the readiness check: reading works on a full disk, too.
#[derive(Clone, Debug, Default)]
pub struct WriteFailure(Arc<Mutex<Option<String>>>);

impl WriteFailure {
    /// Returns the current reason, if any.
    pub fn now(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the reason, or clears it.
    pub fn say(&self, why: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }
}

/// State of the writer while it runs.
struct WriterState {
    tip: Position,
    next_prune: Instant,
    /// Time at which the queue was seen to be closed.
    closed: Option<Instant>,
}

/// The current time, in Unix milliseconds.
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

impl LedgerWriter {
    /// Takes over the chain, so that errors are found before anything is served.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn begin(&mut self) -> Result<Position, StoreError> {
        let (tip, hours) = self.store.begin(u32::try_from(now_ms() / 3_600_000).unwrap_or(u32::MAX))?;
        self.hourly.restore(&hours);
        Ok(tip)
    }

    /// Writes until the queue is closed and empty.
    pub fn run(mut self, tip: Position) {
        self.inlet.attach();
        let mut state = WriterState { tip, next_prune: Instant::now(), closed: None };
        let mut idle = 0_u32;
        loop {
            let begun = Instant::now();
            let drained = self.inlet.drain();
            if drained.closed {
                state.closed.get_or_insert(begun);
            }
            let (count, more) = (drained.len(), drained.more);
            if count > 0 && !self.store_all(&mut state, drained.portions) {
                return;
            }
            if drained.closed && count == 0 {
                return;
            }
            let pruning = self.prune(&mut state, count);
            if more || state.closed.is_some() || (!self.commit && self.inlet.is_called()) {
                continue;
            }
            let interval = if pruning { PRUNE_REST } else { INTERVAL };
            idle = if count == 0 { idle.saturating_add(1) } else { 0 };
            // With work at hand the next batch follows after the interval; after a while without any, the writer sleeps until it is woken.
            if idle >= 10 || (self.commit && count == 0) {
                self.inlet.sleep(state.next_prune.saturating_duration_since(Instant::now()).max(interval));
            } else if !self.commit {
                self.inlet.rest(interval.saturating_sub(begun.elapsed()));
            }
        }
    }

    /// Stores these portions, retrying as long as needed; false if toolmark stops and they can't be stored.
    fn store_all(&mut self, state: &mut WriterState, mut portions: Vec<Segment>) -> bool {
        // In the order of their hours, so that no portion counts for a later hour.
        let mut hours: Vec<HourlyRow> = portions.iter_mut().flat_map(Segment::hours).collect();
        hours.sort_by_key(|row| row.hour);
        self.hourly.take_up(&hours);
        let mut batch = self.seal(&state.tip, &portions);
        let mut pause = PAUSES.0;
        let mut failing: Option<Instant> = None;
        loop {
            match self.store.append(&batch) {
                Ok(()) => break,
                Err(error) => {
                    self.trouble.say(Some(format!("it can't be written: {error}")));
                    let since = *failing.get_or_insert_with(|| {
                        tracing::error!(%error, waiting = batch.records.len(), "the ledger can't be written: its records wait");
                        Instant::now()
                    });
                    if self.inlet.is_closed() {
                        state.closed.get_or_insert_with(Instant::now);
                    }
                    if state.closed.is_some_and(|closed| closed.elapsed() > LAST_TRIES) {
                        tracing::error!(
                            lost = batch.records.len(),
                            down_s = since.elapsed().as_secs(),
                            "stopping: records could not be written and are lost"
                        );
                        return false;
                    }
                    self.inlet.rest(pause);
                    pause = (pause * 2).min(PAUSES.1);
                    if self.resume(state, &mut batch, &portions) {
                        break;
                    }
                }
            }
        }
        if let Some(since) = failing {
            self.trouble.say(None);
            tracing::info!(down_s = since.elapsed().as_secs(), "the ledger can be written again");
        }
        if let Some(last) = batch.records.last() {
            state.tip = last.position.clone();
        }
        self.inlet.written(portions);
        true
    }

    /// Finds the end of the chain after a failure. True if the batch was stored all the same.
    fn resume<'p>(&mut self, state: &mut WriterState, batch: &mut Batch<'p>, portions: &'p [Segment]) -> bool {
        let Ok((tip, _)) = self.store.begin(u32::MAX) else { return false };
        let last = batch.records.last().map(|sealed| &sealed.position);
        if last == Some(&tip) || last.is_some_and(|last| self.is_stored(last)) {
            state.tip = tip;
            return true;
        }
        if tip != state.tip {
            state.tip = tip;
            let hours = std::mem::take(&mut batch.hours);
            *batch = self.seal(&state.tip, portions);
            let writer = state.tip.writer;
            batch.hours = hours.into_iter().map(|row| HourlyRow { writer, ..row }).collect();
        }
        false
    }

    fn is_stored(&self, position: &Position) -> bool {
        let found = self.store.records(position.writer, position.sequence.saturating_sub(1), 1);
        found.is_ok_and(|found| found.first().is_some_and(|record| record.position == *position))
    }

    /// Seals records and appends them to the chain.
    fn seal<'p>(&mut self, tip: &Position, portions: &'p [Segment]) -> Batch<'p> {
        let hours = self.hourly.changed(tip.writer);
        let lasting = self.store.is_lasting();
        let mut before = tip.clone();
        let mut seal = |body: &'p [u8]| {
            if lasting {
                let sequence = before.sequence + 1;
                let mac = self.keys.record(before.writer, sequence, &before.mac, body);
                before = Position { writer: before.writer, sequence, mac };
            }
            SealedRecord { position: before.clone(), body: body.into() }
        };
        let mut records: Vec<(u64, &[u8])> = portions.iter().flat_map(Segment::records).collect();
        // Look-ups of the latest records rely on a chain that is nearly in order.
        records.sort_by_key(|(ended_ms, _)| *ended_ms);
        Batch { records: records.into_iter().map(|(_, body)| seal(body)).collect(), hours }
    }

    /// Removes some expired records; true if there may be more. `written`: number of records stored since the last call.
    fn prune(&self, state: &mut WriterState, written: usize) -> bool {
        let begun = Instant::now();
        if begun < state.next_prune || state.closed.is_some() {
            return false;
        }
        let mut removed = 0;
        let now = now_ms();
        let before = now.saturating_sub(u64::try_from(self.keep.as_millis()).unwrap_or(u64::MAX));
        loop {
            match self.store.prune(before, now, PRUNE_MAX, &self.keys) {
                Ok(PRUNE_MAX) => {
                    removed += PRUNE_MAX;
                    let enough = begun.elapsed() >= PRUNE_TIME && removed >= written;
                    if enough || self.commit && self.inlet.is_waiting() {
                        return true;
                    }
                }
                Ok(_) => break,
                Err(error) => {
                    tracing::error!(%error, "old records can't be removed from the ledger");
                    break;
                }
            }
        }
        let [kept_max, bodies_max] = self.bytes_max;
        let kept = self.store.prune_kept(before, kept_max);
        match kept.and_then(|more| Ok(self.store.prune_bodies(before, bodies_max)? || more)) {
            Ok(true) => return true,
            Ok(false) => {}
            Err(error) => tracing::error!(%error, "what was kept too long can't be removed from the ledger"),
        }
        state.next_prune = Instant::now() + PRUNE_INTERVAL;
        false
    }
}
