//! Admission control: counts what is running, and rejects more before memory or descriptors run out.
//!
//! Only counters: what is over a limit is rejected at once (`overloaded`, 503, with `retry-after`), and nothing waits. A
//! client over its own rate or concurrency gets 429.

use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use governor::{
    Quota, RateLimiter,
    clock::{Clock as _, MonotonicClock},
    middleware::NoOpMiddleware,
    state::{InMemoryState, NotKeyed},
};
use http::StatusCode;

use crate::{
    counters::{SharedCounters, Taken, bucket::Bucket},
    proxy::http::failure::Failure,
    settings::{ClientRate, ClientSettings, Limits},
};

type Limiter = RateLimiter<NotKeyed, InMemoryState, MonotonicClock, NoOpMiddleware<std::time::Instant>>;

/// Admission control: counts of connections, exchanges and bytes in memory, with their limits.
pub struct AdmissionControl {
    connections: AtomicUsize,
    connections_max: AtomicUsize,
    exchanges: AtomicUsize,
    exchanges_max: usize,
    bytes: AtomicU64,
    bytes_max: u64,
    clients: Vec<ClientLoad>,
    counters: Option<Arc<SharedCounters>>,
}

struct ClientLoad {
    name: Box<str>,
    rate: Option<Limiter>,
    /// The same rate over all replicas.
    shared_rate: Option<Bucket>,
    running: AtomicUsize,
    concurrent_max: Option<usize>,
}

/// Permit that is counted until it is dropped.
pub struct CountPermit {
    load: Arc<AdmissionControl>,
    what: QuotaKind,
}

enum QuotaKind {
    Connection,
    Exchange,
    OfClient(usize),
}

impl Drop for CountPermit {
    fn drop(&mut self) {
        let counter = match self.what {
            QuotaKind::Connection => &self.load.connections,
            QuotaKind::Exchange => &self.load.exchanges,
            QuotaKind::OfClient(at) => match self.load.clients.get(at) {
                Some(client) => &client.running,
                None => return,
            },
        };
        counter.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Memory permit: bytes of one exchange, counted until it is dropped.
pub struct MemoryPermit {
    load: Arc<AdmissionControl>,
    bytes: u64,
}

impl MemoryPermit {
    /// Adds this many bytes.
    ///
    /// # Errors
    /// [`Failure`] `overloaded` if all exchanges together exceed `limits.bytes_in_flight`.
    pub fn grow(&mut self, bytes: u64) -> Result<(), Failure> {
        let before = self.load.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.bytes = self.bytes.saturating_add(bytes);
        // One exchange alone is bound by its own limits: else a small machine could never serve a large request.
        if before.saturating_add(bytes) > self.load.bytes_max && before > self.bytes.saturating_sub(bytes) {
            let text = bytesize::ByteSize(self.load.bytes_max);
            return Err(overloaded(format!("requests and answers in memory have {text} together (`limits.bytes_in_flight`)")));
        }
        Ok(())
    }
}

impl MemoryPermit {
    /// Sets the number of bytes, which may grow or shrink.
    ///
    /// # Errors
    /// As [`Self::grow`].
    pub fn set(&mut self, bytes: u64) -> Result<(), Failure> {
        match bytes.checked_sub(self.bytes) {
            Some(more) => self.grow(more),
            None => {
                self.load.bytes.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
                self.bytes = bytes;
                Ok(())
            }
        }
    }
}

impl Drop for MemoryPermit {
    fn drop(&mut self) {
        self.load.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Permits of one request: they are released on drop.
pub struct Held {
    /// The request's bytes in memory.
    pub weight: MemoryPermit,
    _exchange: CountPermit,
    _of_client: Option<CountPermit>,
}

impl Held {
    /// Admits a request; `client` is the caller's index in `[[clients]]`, if it has one.
    ///
    /// # Errors
    /// [`Failure`] if a limit of the proxy or of the client is exceeded.
    pub fn new(load: &Arc<AdmissionControl>, client: Option<usize>) -> Result<Self, Failure> {
        let of_client = client.map(|client| load.of_client(client)).transpose()?.flatten();
        Ok(Self { weight: load.weight(), _exchange: load.begin()?, _of_client: of_client })
    }
}

fn too_many(message: String, wait: Duration) -> Failure {
    let milliseconds = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1);
    Failure::new(StatusCode::TOO_MANY_REQUESTS, "rate_limit_exceeded", message).retry_after_ms(milliseconds)
}

fn over_rate(client: &str, wait: Duration) -> Failure {
    too_many(format!("client `{client}` sends more requests than its `rate` allows: again in {} s", wait.as_secs() + 1), wait)
}

fn overloaded(message: impl Into<String>) -> Failure {
    let message = format!("{}: try again in a moment", message.into());
    Failure::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", message)
}

impl AdmissionControl {
    /// Counters at zero, with the limits of the settings.
    pub fn new(limits: &Limits, clients: &[ClientSettings], counters: Option<Arc<SharedCounters>>) -> Arc<Self> {
        let bucket = |name: &str, rate: ClientRate| {
            let key = counters.as_ref()?.key("rate", &[name.as_bytes()]);
            Some(Bucket::new(key, rate.requests.get().into(), rate.window))
        };
        let client = |client: &ClientSettings| ClientLoad {
            name: client.name.clone(),
            rate: client.rate.map(|rate| limiter(rate.requests, rate.window)),
            shared_rate: client.rate.and_then(|rate| bucket(&client.name, rate)),
            running: AtomicUsize::new(0),
            concurrent_max: client.concurrent.map(|most| most.get() as usize),
        };
        Arc::new(Self {
            connections: AtomicUsize::new(0),
            connections_max: AtomicUsize::new(limits.connections as usize),
            exchanges: AtomicUsize::new(0),
            exchanges_max: limits.exchanges.map_or(usize::MAX, |most| most as usize),
            bytes: AtomicU64::new(0),
            bytes_max: limits.bytes_in_flight,
            clients: clients.iter().map(client).collect(),
            counters,
        })
    }

    /// Lowers the limit of connections to the number that the system has descriptors for.
    pub fn bound_connections(&self, most: usize) {
        self.connections_max.fetch_min(most, Ordering::Relaxed);
    }

    /// Maximum number of concurrent connections.
    pub fn connections_max(&self) -> usize {
        self.connections_max.load(Ordering::Relaxed)
    }

    /// Admits a connection; `None` if there are too many.
    pub fn connect(self: &Arc<Self>) -> Option<CountPermit> {
        count(self, &self.connections, self.connections_max(), QuotaKind::Connection)
    }

    /// Admits an exchange.
    ///
    /// # Errors
    /// [`Failure`] `overloaded` if there are too many.
    pub fn begin(self: &Arc<Self>) -> Result<CountPermit, Failure> {
        // Each needs a descriptor of its own towards its upstream, and HTTP/2 has many on one connection.
        let most = self.exchanges_max.min(self.connections_max());
        let counted = count(self, &self.exchanges, most, QuotaKind::Exchange);
        counted.ok_or_else(|| overloaded(format!("more than {most} exchanges at a time (`limits.exchanges`)")))
    }

    /// Admits a request of a client; `client` is its index in `[[clients]]`.
    ///
    /// # Errors
    /// [`Failure`] `rate_limit_exceeded` if it exceeds its rate or its concurrency.
    pub fn of_client(self: &Arc<Self>, client: usize) -> Result<Option<CountPermit>, Failure> {
        let Some(own) = self.clients.get(client) else { return Ok(None) };
        if let Some(Err(until)) = own.rate.as_ref().map(Limiter::check) {
            return Err(over_rate(&own.name, until.wait_time_from(MonotonicClock.now())));
        }
        let Some(most) = own.concurrent_max else { return Ok(None) };
        match count(self, &own.running, most, QuotaKind::OfClient(client)) {
            Some(counted) => Ok(Some(counted)),
            None => Err(too_many(
                format!("client `{}` has {most} exchanges running, which is all it may have at a time", own.name),
                Duration::from_secs(1),
            )),
        }
    }

    /// True if a client's rate also counts over all replicas: [`Self::of_all_replicas`] must be asked.
    pub fn counts_over_replicas(&self, client: Option<usize>) -> bool {
        self.counters.is_some() && client.and_then(|client| self.clients.get(client)).is_some_and(|own| own.shared_rate.is_some())
    }

    /// Admits a request of a client over all replicas, after this process has admitted it. Where the shared counters don't say in time, what
    /// this process counts decides.
    ///
    /// # Errors
    /// [`Failure`] `rate_limit_exceeded` if all replicas together exceed its rate.
    pub async fn of_all_replicas(&self, client: Option<usize>) -> Result<(), Failure> {
        let own = client.and_then(|client| self.clients.get(client));
        let (Some(counters), Some((name, rate))) = (&self.counters, own.and_then(|own| Some((&own.name, own.shared_rate?)))) else {
            return Ok(());
        };
        match counters.take(vec![rate.take(1)]).await.as_deref() {
            Some([Taken::Refused(wait_us)]) => Err(over_rate(name, Duration::from_micros(*wait_us))),
            Some(_) | None => Ok(()),
        }
    }

    /// Memory permit of zero bytes.
    pub fn weight(self: &Arc<Self>) -> MemoryPermit {
        MemoryPermit { load: self.clone(), bytes: 0 }
    }

    /// True if more than one exchange is running.
    pub fn is_shared(&self) -> bool {
        self.exchanges.load(Ordering::Relaxed) > 1
    }

    /// Current numbers of connections, exchanges, and bytes in memory.
    pub fn now(&self) -> (usize, usize, u64) {
        (self.connections.load(Ordering::Relaxed), self.exchanges.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }
}

fn count(load: &Arc<AdmissionControl>, counter: &AtomicUsize, most: usize, what: QuotaKind) -> Option<CountPermit> {
    let before = counter.fetch_add(1, Ordering::Relaxed);
    let counted = CountPermit { load: load.clone(), what };
    (before < most).then_some(counted)
}

/// Limiter of this many requests in any `window`, which may come all at once.
fn limiter(requests: NonZeroU32, window: Duration) -> Limiter {
    // INVARIANT: settings allow no window shorter than a second, so a request's share of it is no shorter than a nanosecond.
    let quota = Quota::with_period(window / requests.get()).unwrap_or(Quota::per_second(requests)).allow_burst(requests);
    RateLimiter::direct_with_clock(quota, MonotonicClock)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(connections: u32, exchanges: Option<u32>, bytes_in_flight: u64, clients: &[ClientSettings]) -> Arc<AdmissionControl> {
        let limits = Limits {
            request_bytes: 1 << 20,
            response_bytes: 1 << 20,
            connections,
            exchanges,
            bytes_in_flight,
            held_bytes: 1 << 20,
            conversation_cache: 0,
            client_idle: Duration::from_secs(30),
        };
        AdmissionControl::new(&limits, clients, None)
    }

    #[test]
    fn what_ends_makes_room() {
        let load = load(2, Some(1), 100, &[]);
        let (one, two) = (load.connect(), load.connect());
        assert!(one.is_some() && two.is_some() && load.connect().is_none());
        drop(one);
        assert!(load.connect().is_some());
        let begun = load.begin().unwrap();
        assert_eq!(load.begin().err().map(|failure| (failure.status.as_u16(), failure.code)), Some((503, "overloaded")));
        drop(begun);
        assert!(load.begin().is_ok());
        load.bound_connections(1);
        load.bound_connections(5);
        assert_eq!(load.connections_max(), 1);
        drop(two);
        assert_eq!(load.now(), (0, 0, 0));
    }

    #[test]
    fn one_alone_shares_with_nobody() {
        let load = load(2, None, 100, &[]);
        let one = load.begin();
        assert!(one.is_ok() && !load.is_shared());
        let two = load.begin();
        assert!(two.is_ok() && load.is_shared());
        drop(one);
        assert!(!load.is_shared());
    }

    #[test]
    fn bytes_are_given_back() {
        let load = load(1, None, 100, &[]);
        let (mut one, mut two) = (load.weight(), load.weight());
        assert!(one.grow(60).is_ok() && two.grow(40).is_ok());
        assert_eq!(two.grow(1).err().map(|failure| failure.code), Some("overloaded"));
        drop(one);
        assert!(two.grow(50).is_ok());
        drop(two);
        // Alone it is bound by its own limits only.
        assert!(load.weight().grow(1_000).is_ok());
        let mut three = load.weight();
        assert!(three.set(70).is_ok() && three.set(20).is_ok() && load.now().2 == 20);
        drop(three);
        assert_eq!(load.now(), (0, 0, 0));
    }

    #[test]
    fn clients_have_a_rate_and_so_many_at_a_time() {
        let rate = ClientRate { requests: NonZeroU32::new(3).unwrap(), window: Duration::from_secs(3_600) };
        let client = |rate, concurrent| ClientSettings { name: "c".into(), key_sha256: [0; 32], policy: None, rate, concurrent };
        let load = load(9, None, 100, &[client(Some(rate), None), client(None, NonZeroU32::new(2)), client(None, None)]);
        for _ in 0..3 {
            assert!(load.of_client(0).is_ok());
        }
        let failure = load.of_client(0).err().unwrap();
        assert_eq!((failure.status.as_u16(), failure.code), (429, "rate_limit_exceeded"));
        assert!(failure.retry_after.is_some_and(|seconds| (1..=1_200).contains(&seconds)), "{:?}", failure.retry_after);
        let (one, two) = (load.of_client(1).unwrap(), load.of_client(1).unwrap());
        assert!(load.of_client(1).is_err());
        drop(one);
        assert!(load.of_client(1).is_ok());
        drop(two);
        assert!((0..100).all(|_| load.of_client(2).is_ok()));
    }
}
