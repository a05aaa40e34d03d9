//! Layout of a target's input: three bytes of options, then parts separated by NUL bytes; and the cuts of a stream.

use std::{borrow::Cow, sync::LazyLock, time::Duration};

/// Parts of one input; the last one contains the rest.
const PARTS_MAX: usize = 16;
/// Longest that a step of the core may hold its worker, in milliseconds of processor time of a release build (README, "Limits").
const STEP_MS: u64 = 50;
/// Factor by which a build for tests (no optimisation, as in `proxy/helper_threads.rs`) or for fuzzing (counted edges) is slower at most.
const SLOWNESS: u64 = if cfg!(test) { 60 } else { 12 };
/// Length in bytes to which a part is repeated.
const REPEATED_BYTES: usize = 48 << 10;

/// A parsed input.
pub(super) struct FuzzInput<'d> {
    /// Option bits of the target.
    pub flags: u8,
    /// Seed of the cuts.
    pub seed: u16,
    parts: Vec<&'d [u8]>,
}

impl<'d> FuzzInput<'d> {
    /// Parses an input; `None` if it is too short.
    pub fn of(data: &'d [u8]) -> Option<Self> {
        let ([flags, high, low], rest) = data.split_first_chunk::<3>()?;
        let parts = rest.splitn(PARTS_MAX, |byte| *byte == 0).collect();
        Some(Self { flags: *flags, seed: u16::from_be_bytes([*high, *low]), parts })
    }

    /// Returns whether this bit is set.
    pub fn flag(&self, bit: u8) -> bool {
        self.flags & (1 << bit) != 0
    }

    /// The part with this index; empty if there is none.
    pub fn part(&self, at: usize) -> &'d [u8] {
        self.parts.get(at).copied().unwrap_or_default()
    }

    /// The part with this index, as text.
    pub fn text(&self, at: usize) -> Cow<'d, str> {
        String::from_utf8_lossy(self.part(at))
    }

    /// All parts from this index on.
    pub fn parts_from(&self, at: usize) -> &[&'d [u8]] {
        self.parts.get(at..).unwrap_or_default()
    }

    /// The sequence of cuts for this input.
    pub fn cuts(&self) -> Cuts {
        Cuts(u64::from(self.seed) << 8 | u64::from(self.flags) | 1 << 40)
    }
}

/// Repeats a text until it is long, which exposes steps that take more than linear time.
pub(super) fn repeated(text: &str) -> String {
    text.repeat(REPEATED_BYTES / text.len().max(1))
}

/// Generator of cut positions; the same for the same input.
#[derive(Clone, Debug)]
pub(super) struct Cuts(pub(super) u64);

impl Cuts {
    /// The next number (xorshift64*).
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    /// Cuts bytes into pieces: single bytes, a few pieces, or many of varying length.
    pub fn pieces<'b>(&mut self, bytes: &'b [u8]) -> Vec<&'b [u8]> {
        let longest = match self.next() % 4 {
            0 if bytes.len() <= 4096 => 1,
            0 | 1 => 64,
            2 => 7 + bytes.len() / 64,
            _ => bytes.len() / 2 + 1,
        };
        let (mut rest, mut pieces) = (bytes, Vec::new());
        while !rest.is_empty() {
            let length = 1 + self.next() as usize % longest.max(1 + bytes.len() / 4096);
            let (piece, behind) = rest.split_at(length.min(rest.len()));
            pieces.push(piece);
            rest = behind;
        }
        pieces
    }

    /// Cuts a text into pieces, between characters.
    pub fn texts<'t>(&mut self, text: &'t str) -> Vec<&'t str> {
        let (mut from, mut at, mut texts) = (0, 0, Vec::new());
        for piece in self.pieces(text.as_bytes()) {
            at += piece.len();
            let end = text.floor_char_boundary(at);
            if end > from {
                texts.push(&text[from..end]);
                from = end;
            }
        }
        texts
    }
}

/// Runs one step, and panics if it takes too much processor time.
pub(super) fn bounded<T>(what: &str, step: impl FnOnce() -> T) -> T {
    static LIMIT: LazyLock<Duration> = LazyLock::new(|| {
        let said = std::env::var("TOOLMARK_FUZZ_STEP_MS").ok().and_then(|said| said.parse().ok());
        Duration::from_millis(said.unwrap_or(STEP_MS * SLOWNESS))
    });
    let before = processor_time();
    let done = step();
    let spent = processor_time().saturating_sub(before);
    assert!(spent <= *LIMIT, "{what} held its worker for {spent:?} of processor time, and {:?} is the most", *LIMIT);
    done
}

/// Processor time of this thread.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
