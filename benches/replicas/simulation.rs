//! Many replicas on one PostgreSQL, played event by event with the costs that were measured: where it breaks first.

use std::{cmp::Reverse, collections::BinaryHeap};

use crate::database::Costs;

const REPLICAS: usize = 64;
/// Simulated time of each run, in seconds, of which the first half isn't counted.
const SECONDS: f64 = 6.0;
/// Interval in which a replica's writer stores its records (`INTERVAL` of `ledger/queue/writer.rs`).
const BATCH_EVERY: f64 = 0.1;
/// Longest time that a look-up may take, by the measure that the product set itself.
const LOOK_UP_MAX: f64 = 0.005;
/// Connections with which a replica looks up results, stores and reads conversations, and writes records.
const CONNECTIONS: [usize; 3] = [3, 2, 1];
/// Queries that a replica's thread combines into one (`TOGETHER_MAX`).
const TOGETHER_MAX: usize = 64;

/// What traffic asks of the ledger.
#[derive(Clone, Copy)]
struct Mix {
    name: &'static str,
    /// Share of exchanges that bring a result that is new.
    results: f64,
    /// Share in conversations that the upstream keeps.
    stateful: f64,
    /// Share of those that another replica began.
    moved: f64,
}

/// Kinds of work, in the order of [`CONNECTIONS`].
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Kind {
    Claim,
    Put,
    Find,
    Records,
}

/// A source of numbers that are always the same.
struct Dice(u64);

impl Dice {
    /// A number from 0 to 1.
    fn roll(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A pause between events that come at this rate.
    fn pause(&mut self, rate: f64) -> f64 {
        -(1.0 - self.roll()).ln() / rate
    }
}

/// Outcome of a run.
struct Outcome {
    /// 99th per cent of the time of look-ups, in seconds.
    p99: f64,
    /// Share of the database's processors that is used.
    used: f64,
}

/// Time as a number that can be ordered.
fn ordered(time: f64) -> u64 {
    (time * 1e9) as u64
}

/// A replica's threads for one kind of connection: jobs that wait, and how many threads are free.
struct Pool {
    waiting: Vec<(f64, Kind)>,
    free: usize,
}

/// Plays exchanges at this rate against a database with so many processors.
fn play(mix: Mix, rate: f64, processors: usize, costs: &Costs) -> Outcome {
    let mut dice = Dice(7);
    // Arrivals, in order of time: what, and at which replica.
    let mut events: BinaryHeap<Reverse<(u64, u8, usize, Kind)>> = BinaryHeap::new();
    let mut arriving = 0.0;
    while arriving < SECONDS {
        arriving += dice.pause(rate);
        let replica = (dice.roll() * REPLICAS as f64) as usize;
        let mut add = |kind| events.push(Reverse((ordered(arriving), 0, replica, kind)));
        if dice.roll() < mix.results {
            add(Kind::Claim);
        }
        if dice.roll() < mix.stateful {
            add(Kind::Put);
            if dice.roll() < mix.moved {
                add(Kind::Find);
            }
        }
    }
    for replica in 0..REPLICAS {
        let mut at = dice.roll() * BATCH_EVERY;
        while at < SECONDS {
            events.push(Reverse((ordered(at), 0, replica, Kind::Records)));
            at += BATCH_EVERY;
        }
    }
    let mut pools: Vec<[Pool; 3]> = (0..REPLICAS).map(|_| CONNECTIONS.map(|free| Pool { waiting: Vec::new(), free })).collect();
    let mut processors_free: BinaryHeap<Reverse<u64>> = (0..processors).map(|_| Reverse(0)).collect();
    let (mut times, mut busy) = (Vec::new(), 0.0);
    let per_batch = rate / REPLICAS as f64 * BATCH_EVERY;
    let pool_of = |kind: Kind| match kind {
        Kind::Claim => 0,
        Kind::Put | Kind::Find => 1,
        Kind::Records => 2,
    };
    while let Some(Reverse((now, ended, replica, kind))) = events.pop() {
        let pool = &mut pools[replica][pool_of(kind)];
        match ended {
            0 => pool.waiting.push((now as f64 / 1e9, kind)),
            _ => pool.free += 1,
        }
        if pool.free == 0 || pool.waiting.is_empty() {
            continue;
        }
        // A thread takes what waits, and asks the database once for all of one kind.
        let taken: Vec<(f64, Kind)> = pool.waiting.drain(..pool.waiting.len().min(TOGETHER_MAX)).collect();
        pool.free -= 1;
        let count = |kind| taken.iter().filter(|(_, own)| *own == kind).count() as f64;
        // Each further row of a statement costs what a record of a batch costs more.
        let cost = |count: f64, own: f64| if count > 0.0 { own + (count - 1.0) * costs.record.cpu } else { 0.0 };
        let cpu = cost(count(Kind::Claim), costs.claim.cpu)
            + cost(count(Kind::Put), costs.put.cpu)
            + cost(count(Kind::Find), costs.find.cpu)
            + count(Kind::Records) * (costs.batch.cpu + per_batch * costs.record.cpu);
        // What it takes beyond the processor, as for the disk, is waited for beside others.
        let beyond = |kind, own: crate::database::Cost| if count(kind) > 0.0 { (own.time - own.cpu).max(0.0) } else { 0.0 };
        let beyond = beyond(Kind::Claim, costs.claim)
            + beyond(Kind::Put, costs.put)
            + beyond(Kind::Find, costs.find)
            + beyond(Kind::Records, costs.batch);
        let Reverse(free) = processors_free.pop().expect("a processor");
        let end = free.max(now) + ordered(cpu);
        processors_free.push(Reverse(end));
        let answered = end + ordered(beyond);
        if now > ordered(SECONDS / 2.0) {
            busy += cpu;
            times.extend(taken.iter().filter(|(_, own)| *own != Kind::Records).map(|(asked, _)| answered as f64 / 1e9 - asked));
        }
        if answered < ordered(SECONDS * 4.0) {
            events.push(Reverse((answered, 1, replica, kind)));
        }
    }
    times.sort_by(f64::total_cmp);
    let p99 = times.get(times.len() * 99 / 100).copied().unwrap_or_default();
    Outcome { p99, used: busy / (SECONDS / 2.0) / processors as f64 }
}

/// Prints what 64 replicas with 20,000 exchanges a second need, and the rate at which each database breaks.
pub fn print(costs: &Costs) {
    let mixes = [
        Mix { name: "the history sent whole, a result in each second exchange", results: 0.5, stateful: 0.0, moved: 0.0 },
        Mix { name: "previous_response_id, sticky", results: 0.5, stateful: 1.0, moved: 0.0 },
        Mix { name: "previous_response_id, any replica", results: 0.5, stateful: 1.0, moved: 63.0 / 64.0 },
    ];
    println!("simulated: {REPLICAS} replicas; a database breaks where 1 % of look-ups take more than {:.0} ms:", LOOK_UP_MAX * 1e3);
    for mix in mixes {
        let at = |processors| play(mix, 20_000.0, processors, costs);
        let told: Vec<String> = [2, 4, 8, 16, 32]
            .into_iter()
            .map(|processors| {
                let Outcome { p99, used } = at(processors);
                format!("{processors} processors {:.0} % used, p99 {:.1} ms", used * 100.0, p99 * 1e3)
            })
            .collect();
        println!("  {}: 20,000 exchanges a second: {}", mix.name, told.join("; "));
        let breaks: Vec<String> = [2, 4, 8, 16]
            .into_iter()
            .map(|processors| {
                let (mut holds, mut breaks) = (0.0, 64_000.0);
                for _ in 0..8 {
                    let middle = f64::midpoint(holds, breaks);
                    let Outcome { p99, used } = play(mix, middle, processors, costs);
                    if p99 <= LOOK_UP_MAX && used < 1.0 { holds = middle } else { breaks = middle }
                }
                format!("{processors} at {:.0}", holds)
            })
            .collect();
        println!("    it breaks, by processors of the database, above so many exchanges a second: {}", breaks.join(", "));
    }
    let connections: usize = CONNECTIONS.iter().sum();
    println!("  connections: {REPLICAS} replicas hold {} at least; PostgreSQL's own limit is 100", REPLICAS * connections);
}
