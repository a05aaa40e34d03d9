//! Resources that the system gives this process: file descriptors and memory. Read once, at start.

/// Descriptors reserved for the rest: the ledger, logs, the admin listener, idle connections to upstreams.
const RESERVED: u64 = 256;
/// Descriptors per connection: its own and one to its upstream.
const PER_CONNECTION: u64 = 2;
/// Memory assumed if the system doesn't state it.
const MEMORY_BYTES: u64 = 2 << 30;
/// Range of the default for bytes in flight.
const IN_FLIGHT_BYTES: std::ops::RangeInclusive<u64> = (64 << 20)..=(8 << 30);

/// Factor by which a request's bytes count: as received, as sent upstream, and what was parsed of them.
pub const REQUEST_SHARE: u64 = 3;

/// Raises the limit of file descriptors for this many connections, if needed and possible. Returns the number of
/// connections that the descriptors suffice for, at least 1.
pub fn descriptors_for(connections: usize) -> usize {
    let wanted = (connections as u64).saturating_mul(PER_CONNECTION).saturating_add(RESERVED);
    connections_of(raised(wanted), connections)
}

/// Raises the limit of file descriptors to so many, if possible; the limit then.
#[cfg(unix)]
fn raised(wanted: u64) -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let have = current.unwrap_or(u64::MAX);
    let more = wanted.min(maximum.unwrap_or(u64::MAX));
    let is_raised = have < wanted && setrlimit(Resource::Nofile, Rlimit { current: Some(more), maximum }).is_ok();
    if is_raised { more } else { have }
}

/// Windows has no such limit for sockets.
#[cfg(not(unix))]
fn raised(_wanted: u64) -> u64 {
    u64::MAX
}

/// Number of connections that this many descriptors suffice for.
fn connections_of(descriptors: u64, wanted: usize) -> usize {
    // Where there are very few, half of them are kept for all else.
    let reserved = RESERVED.min(descriptors / 2);
    let enough = (descriptors - reserved) / PER_CONNECTION;
    usize::try_from(enough).unwrap_or(usize::MAX).clamp(1, wanted.max(1))
}

/// Half of the memory of the machine, or of its container, within bounds: the default for bytes in flight.
pub fn bytes_in_flight() -> u64 {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let group = read("/sys/fs/cgroup/memory.max").and_then(|text| text.trim().parse().ok());
    let machine = read("/proc/meminfo").and_then(|text| total_of(&text));
    half_of(group, machine)
}

fn half_of(group: Option<u64>, machine: Option<u64>) -> u64 {
    let memory = group.into_iter().chain(machine).min().unwrap_or(MEMORY_BYTES);
    (memory / 2).clamp(*IN_FLIGHT_BYTES.start(), *IN_FLIGHT_BYTES.end())
}

/// `MemTotal` of `/proc/meminfo`, in bytes.
fn total_of(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors() {
        for (descriptors, wanted, enough) in
            [(1024, 10_000, 384), (65_536, 10_000, 10_000), (20, 10_000, 5), (1, 10, 1), (u64::MAX, 7, 7), (0, 10, 1)]
        {
            assert_eq!(connections_of(descriptors, wanted), enough, "{descriptors}");
        }
    }

    #[test]
    fn memory() {
        assert_eq!(total_of("MemFree: 1 kB\nMemTotal:       24630668 kB\n"), Some(24_630_668 * 1024));
        assert_eq!(total_of("MemTotal: many"), None);
        let gib = 1 << 30;
        for (group, machine, bytes) in [
            (Some(gib), Some(4 * gib), gib / 2),
            (None, Some(4 * gib), 2 * gib),
            (None, None, gib),
            (Some(1), None, 64 << 20),
            (None, Some(u64::MAX), 8 * gib),
        ] {
            assert_eq!(half_of(group, machine), bytes, "{group:?} {machine:?}");
        }
    }
}
