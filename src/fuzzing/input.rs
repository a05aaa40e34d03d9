//! How a target reads its input: three bytes that choose, then parts between NUL bytes; and where it cuts a stream.

use std::{borrow::Cow, sync::LazyLock, time::Duration};

/// Parts of one input; what is behind belongs to the last.
const PARTS_MAX: usize = 16;
/// What no step may take, in processor time of a release build: issue 19, "no step of the core holds a worker longer".
const STEP_MS: u64 = 50;
/// How much slower a build for tests is at most (no optimisation, as `proxy/aside.rs` has it), and one for fuzzing (counted edges).
const SLOWNESS: u64 = if cfg!(test) { 60 } else { 12 };
/// Bytes to which a repeated part is made to grow.
const REPEATED_BYTES: usize = 48 << 10;

/// An input, taken apart.
pub(super) struct Input<'d> {
    /// What to vary.
    pub flags: u8,
    /// What cuts start from.
    pub seed: u16,
    parts: Vec<&'d [u8]>,
}

impl<'d> Input<'d> {
    /// `None` for what is too short to be one.
    pub fn of(data: &'d [u8]) -> Option<Self> {
        let ([flags, high, low], rest) = data.split_first_chunk::<3>()?;
        let parts = rest.splitn(PARTS_MAX, |byte| *byte == 0).collect();
        Some(Self { flags: *flags, seed: u16::from_be_bytes([*high, *low]), parts })
    }

    /// Is this bit set?
    pub fn flag(&self, bit: u8) -> bool {
        self.flags & (1 << bit) != 0
    }

    /// The part at this place; empty where there is none.
    pub fn part(&self, at: usize) -> &'d [u8] {
        self.parts.get(at).copied().unwrap_or_default()
    }

    /// The same as text.
    pub fn text(&self, at: usize) -> Cow<'d, str> {
        String::from_utf8_lossy(self.part(at))
    }

    /// All parts from this place on.
    pub fn parts_from(&self, at: usize) -> &[&'d [u8]] {
        self.parts.get(at..).unwrap_or_default()
    }

    /// Where to cut.
    pub fn cuts(&self) -> Cuts {
        Cuts(u64::from(self.seed) << 8 | u64::from(self.flags) | 1 << 40)
    }
}

/// A text so often that it is long: what costs more than its length shows itself.
pub(super) fn repeated(text: &str) -> String {
    text.repeat(REPEATED_BYTES / text.len().max(1))
}

/// Chooses where a stream is cut; the same each time for the same input.
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

    /// The bytes in pieces: byte by byte, in a few, or in many of changing length.
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

    /// The same between characters.
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

/// Does one step of the core, and panics where it holds its worker for too long.
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

/// This thread's.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
