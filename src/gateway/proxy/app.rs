//! State shared by all workers: settings, keys, the policies in force. The only place for state in the shell.
//!
//! An exchange loads the policy once, at its start; a reload swaps the pointer and doesn't disturb running exchanges.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use arc_swap::ArcSwap;
use http::{HeaderMap, HeaderValue, header};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::{
    cassette::recorder::CaptureSink,
    counters::{
        SharedCounters,
        news::{Finding, News, brief},
        session_log::SessionLog,
    },
    exchange::{active_policy::Standard, conversation::request_prefix::PrefixCache},
    ledger::{
        bodies::{BodyRules, ExchangeBodies},
        recorder::LedgerHandle,
        store::StoreError,
    },
    marks::{KeyRing, MarkClock, MarkTime, Scope},
    mcp::{Mcp, catalog::Catalog},
    policy::{PolicyMode, Stateful, compiled::CompiledPolicy, load::PolicySource, watch::Changed},
    proxy::upstream::CallerCredential,
    proxy::{
        cassettes::Cassettes,
        conversations::{cache::Memory, hidden_turns::HiddenTurnStore, journal::CallJournal, originals::Originals, owners::Owners},
        error::Error,
        exchange::http_probe,
        http::{credentials, headers as own_headers},
        ledger_policies::{LedgerPolicies, NewPolicy},
        loop_control::LoopControl,
        server::admission::AdmissionControl,
        upstream::{
            heard::HeardFindings,
            state::{self, UpstreamState},
            verifier::Verifier,
        },
    },
    settings::{self, Durability, Settings, StoredContent},
    sys::clock::{Uptime, unix_ms},
    telemetry::{Telemetry, readiness::PartState, stats::rollup::Rollup},
    tools::registry::SchemaCache,
};

/// Policy in force, and the source that it is reloaded from.
pub struct LivePolicy {
    source: PolicySource,
    standard: ArcSwap<Standard>,
}

/// A reload of a policy that changed it, or failed.
#[derive(Clone, Debug)]
pub struct PolicyReload {
    /// Index of the policy.
    pub policy: usize,
    /// Time of the reload, in Unix milliseconds.
    pub at_ms: u64,
    /// The policy before it.
    pub before: Arc<CompiledPolicy>,
    /// The policy since then, or why the new one can't be used.
    pub after: Result<Arc<CompiledPolicy>, String>,
}

/// Caller of a request, as identified by its credentials.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Scope that the caller's marks are bound to.
    pub scope: Scope,
    /// Index of the policy that judges the caller; 0 is the settings' own.
    policy: usize,
    /// Index in `[[clients]]`; `None` without `[[clients]]`.
    client: Option<usize>,
}

/// The last caller of a connection, so that a credential that comes again isn't hashed again. The credential is a copy: the header's bytes
/// would hold the connection's whole read buffer. Nobody waits for the lock: a connection stays with one worker.
#[derive(Default)]
pub struct LastCaller(Mutex<Option<(Box<[u8]>, Caller)>>);

impl LastCaller {
    /// The caller whose only credential is this, if it was the last one. Takes the same time whichever bytes differ.
    fn get(&self, credential: &HeaderValue) -> Option<Caller> {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (own, caller) = last.as_ref()?;
        bool::from(own.ct_eq(credential.as_bytes())).then(|| caller.clone())
    }

    fn set(&self, credential: &HeaderValue, caller: &Caller) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((credential.as_bytes().into(), caller.clone()));
    }
}

/// State shared by all workers.
pub struct App {
    /// The settings.
    pub settings: Settings,
    /// Keys for marks.
    pub ring: Arc<KeyRing>,
    /// Compiled schemas.
    pub schemas: Arc<SchemaCache>,
    /// Cache of conversations that upstreams store.
    pub memory: Memory,
    /// Cache of objects that upstreams store.
    pub originals: Originals,
    /// Owners of the objects that upstreams store under toolmark's own keys.
    pub owners: Owners,
    /// Telemetry: metrics, events, traces and readiness.
    pub observed: Arc<Telemetry>,
    /// Ledger that exchange records go to.
    pub recorder: LedgerHandle,
    /// Whole exchanges in the ledger; `None` if only records are kept.
    pub bodies: Option<Arc<ExchangeBodies>>,
    /// Loop control: resets, recent stops and counts.
    pub loops: Arc<LoopControl>,
    /// Cassettes that are recorded or played, and injected faults.
    pub cassettes: Cassettes,
    /// Admission control: counts of connections, exchanges and bytes in memory.
    pub load: Arc<AdmissionControl>,
    /// State of each upstream, in the order of `[[upstreams]]`.
    pub standings: Arc<[UpstreamState]>,
    /// Channel to other replicas; `None` without `[counters]`.
    pub news: Option<Arc<News>>,
    uptime: Uptime,
    /// MCP servers; `None` if the settings have none.
    pub mcp: Option<Arc<Mcp>>,
    /// Requests whose beginnings later ones may share.
    pub prefixes: PrefixCache,
    /// Rounds of calls that toolmark ran and the application didn't see.
    pub kept: HiddenTurnStore,
    /// Verifier that gives second opinions; `None` if it isn't configured.
    pub verifier: Option<Arc<Verifier>>,
    /// Journal of tool calls that were started.
    pub journal: CallJournal,
    counter: MarkClock,
    policies: Vec<LivePolicy>,
    /// Policies that come from the ledger; `None` if none does.
    ledger_policies: Option<Mutex<LedgerPolicies>>,
    reloads: Mutex<Vec<PolicyReload>>,
    /// Index of the policy, by client.
    client_policies: Vec<usize>,
}

impl App {
    /// Loads policies and keys.
    ///
    /// # Errors
    /// [`Error`] for the first setting, policy or key that can't be used.
    pub fn new(settings: Settings) -> Result<Self, Error> {
        let (mut seed, mut item_key) = ([0; 2], [0; 32]);
        getrandom::fill(&mut seed).and_then(|()| getrandom::fill(&mut item_key)).map_err(Error::Random)?;
        let held = usize::try_from(settings.limits.held_bytes).unwrap_or(usize::MAX);
        let mcp = Mcp::start(&settings)?;
        let offered = || mcp.as_ref().map(|mcp| mcp.catalog()).unwrap_or_default();
        let read = |source: &PolicySource| LivePolicy::read(source.clone(), held, offered(), &settings);
        let mut policies = vec![read(&settings.policy)?];
        let mut client_policies = Vec::new();
        for client in &settings.clients {
            client_policies.push(match &client.policy {
                None => 0,
                Some(source) => {
                    policies.push(read(source)?);
                    policies.len() - 1
                }
            });
        }
        let keys = settings.keys.keys()?;
        let mut ledger_policies = LedgerPolicies::of(policies.iter().map(|policy| &policy.source), &settings.ledger.url, &keys)?;
        if let Some(own) = &mut ledger_policies {
            for NewPolicy { index, version, rules } in own.newer() {
                let Some(policy) = policies.get_mut(index) else { continue };
                let (name, version) = (version.name, version.version);
                let rules = rules.map_err(|why| Error::LedgerPolicy { name, version, why })?;
                *policy = LivePolicy::make(policy.source.clone(), rules, held, offered(), &settings)?;
                own.put_in_force(index, version);
            }
            if own.is_away() {
                return Err(StoreError::Unavailable("the policy can't be read from it".into()).into());
            }
            for (name, policy) in own.without_version().filter_map(|(index, name)| Some((name, policies.get(index)?))) {
                let rules = &policy.standard.load().rules;
                tracing::warn!(
                    policy = name,
                    "no policy `{name}` was put into the ledger yet: until one is, `{}` is in force (`toolmark policy put FILE --name {name}`; `toolmark policy list` has those that are there)",
                    rules.source
                );
            }
        }
        let (mut cassettes, marks) = Cassettes::open(&settings)?;
        let ring = KeyRing::new(&keys);
        let ring = Arc::new(match marks {
            Some(marks) => ring.with_recorded(Arc::new(marks)),
            None => ring,
        });
        cassettes.record(&settings, ring.clone())?;
        let own_key = keys.first().copied().unwrap_or_default();
        let counters = SharedCounters::of_settings(&settings.counters, &keys)?;
        let loops = counters.as_ref().map(|counters| LoopControl::shared(SessionLog::new(counters.clone(), own_key)));
        let loops = Arc::new(loops.unwrap_or_default());
        let observed = Arc::new(Telemetry::new(&settings)?);
        let recorder = LedgerHandle::start(&settings.ledger, &keys, Box::<Rollup>::default(), vec![observed.clone(), loops.clone()])?;
        let _set_once = observed.metrics.ledger.set(recorder.query_times().clone());
        let bodies = bodies(&settings, &recorder, &keys, &ring)?;
        let mut sinks: Vec<Arc<dyn CaptureSink>> = Vec::new();
        if settings.admin.recent > 0 {
            sinks.push(observed.recent.clone());
        }
        sinks.extend(bodies.iter().map(|bodies| bodies.clone() as Arc<dyn CaptureSink>));
        cassettes.capture_for(sinks);
        let (store, trouble) = (recorder.store(), recorder.trouble());
        // All replicas lose a shared database at once: were each of them down for that, nobody would serve, though they could.
        let serves_without = recorder.is_shared() && settings.ledger.durability == Durability::Batch;
        observed.readiness.register("ledger", move || {
            let why = trouble.now().or_else(|| store.ready().err().map(|error| error.to_string()));
            match why {
                Some(why) if serves_without => PartState::Degraded(why),
                Some(why) => PartState::Down(why),
                None => PartState::Ready,
            }
        });
        if let Some(mcp) = &mcp {
            crate::mcp::metrics::register(mcp, &observed);
        }
        let counter = MarkClock::new(u16::from_le_bytes(seed));
        let load = AdmissionControl::new(&settings.limits, &settings.clients, counters.clone());
        let standings = settings.upstreams.iter().map(|_| UpstreamState::default()).collect::<Arc<[UpstreamState]>>();
        let (shown, of, uptime) = (standings.clone(), settings.upstreams.clone(), Uptime::start());
        let verifier = settings.verifier.as_ref().filter(|own| cassettes.player(own.at).is_none());
        let counts = || observed.metrics.verifier.get_or_init(Arc::default).clone();
        let verifier = verifier.map(|own| Verifier::new(own, counts(), counters.clone())).transpose()?.map(Arc::new);
        let describe = move || state::shown(&of, &shown, uptime.ms(), unix_ms());
        observed.readiness.describe("upstreams", describe);
        let heard = HeardFindings { upstreams: settings.upstreams.clone(), standings: standings.clone(), loops: loops.clone(), uptime };
        let start =
            |counters: &Arc<SharedCounters>| News::start(counters, &settings.counters.url, own_key, move |finding| heard.act(&finding));
        let news = counters.as_ref().map(start).transpose()?.flatten();
        if let Some(counters) = &counters {
            crate::counters::register(counters, news.as_ref(), &observed);
        }
        let originals = Originals::new(settings.limits.request_bytes.max(settings.limits.response_bytes));
        let kept = HiddenTurnStore::new(&settings);
        let prefixes = PrefixCache::new(usize::try_from(settings.limits.conversation_cache).unwrap_or(usize::MAX), item_key);
        let app = Self {
            settings,
            ring,
            schemas: Arc::default(),
            memory: Memory::default(),
            originals,
            owners: Owners::default(),
            observed,
            recorder,
            bodies,
            loops,
            cassettes,
            load,
            standings,
            news,
            uptime,
            mcp,
            prefixes,
            kept,
            verifier,
            journal: CallJournal::default(),
            counter,
            policies,
            ledger_policies: ledger_policies.map(Mutex::new),
            reloads: Mutex::default(),
            client_policies,
        };
        app.count_loops();
        Ok(app)
    }

    /// Tells loop control for how long the policies in force count a call.
    fn count_loops(&self) {
        let longest = self.policies.iter().map(|policy| policy.standard.load().rules.policy.loops.longest()).max();
        self.loops.count_for(longest.unwrap_or_default());
    }

    /// The time, in Unix milliseconds.
    pub fn now_ms(&self) -> u64 {
        unix_ms()
    }

    /// Use of the credentials that callers send: where toolmark has clients of its own, they are meant for it.
    pub fn caller_credential(&self) -> CallerCredential {
        if self.settings.clients.is_empty() { CallerCredential::Passed } else { CallerCredential::Withheld }
    }

    /// Moment of the next mark, at this Unix time in milliseconds.
    pub fn moment(&self, now_ms: u64) -> MarkTime {
        self.counter.next(now_ms)
    }

    /// Resets the counts of loop control: for this tool or all, in this session or all.
    pub fn reset_loops(&self, tool: Option<&str>, session: Option<&str>) {
        self.loops.reset(tool, session, self.now_ms());
        if let Some(news) = &self.news {
            news.tell(&Finding::LoopsReset { tool: tool.map(brief), session: session.map(brief) });
        }
    }

    /// Milliseconds since the start, by a monotonic clock.
    pub fn uptime_ms(&self) -> u64 {
        self.uptime.ms()
    }

    /// The clock that counts from the start.
    pub fn uptime(&self) -> Uptime {
        self.uptime
    }

    /// Milliseconds from the start to a known instant.
    pub fn uptime_ms_at(&self, at: Instant) -> u64 {
        self.uptime.ms_at(at)
    }

    /// Caller of a request on a connection whose last caller is `last`; `None` if `[[clients]]` are configured and its key is none of theirs.
    pub fn caller(&self, last: &LastCaller, headers: &HeaderMap, query: Option<&str>) -> Option<Caller> {
        // Only with no other credential does the caller follow from this one.
        let Some(credential) = credentials::only(headers, query) else { return self.identified(headers, query) };
        last.get(credential).or_else(|| {
            let caller = self.identified(headers, query)?;
            last.set(credential, &caller);
            Some(caller)
        })
    }

    fn identified(&self, headers: &HeaderMap, query: Option<&str>) -> Option<Caller> {
        let scope = |own: Scope| if self.settings.scope == settings::ScopeKind::Shared { Scope::shared() } else { own };
        if self.settings.clients.is_empty() {
            return Some(Caller { scope: scope(credentials::scope(headers, query)), policy: 0, client: None });
        }
        let authorization = headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
        let bearer = authorization.and_then(|value| value.strip_prefix(b"Bearer ").or_else(|| value.strip_prefix(b"bearer ")));
        let key = bearer.or_else(|| headers.get(own_headers::API_KEY).map(HeaderValue::as_bytes))?;
        let digest: [u8; 32] = Sha256::digest(key.trim_ascii()).into();
        // All are compared, so that the time doesn't tell which it was.
        let mut found = None;
        for (at, client) in self.settings.clients.iter().enumerate() {
            if bool::from(client.key_sha256.ct_eq(&digest)) {
                found = Some(at);
            }
        }
        let at = found?;
        let client = self.settings.clients.get(at)?;
        let policy = self.client_policies.get(at).copied().unwrap_or(0);
        Some(Caller { scope: scope(Scope::client(&client.name)), policy, client: Some(at) })
    }

    /// Index of the caller in `[[clients]]`; `None` without `[[clients]]`.
    pub fn client(&self, caller: &Caller) -> Option<usize> {
        caller.client
    }

    /// The name that `[[clients]]` give this caller.
    pub fn client_name(&self, caller: &Caller) -> Option<&str> {
        Some(&*self.settings.clients.get(caller.client?)?.name)
    }

    /// The policy that judges this caller.
    pub fn standard(&self, caller: &Caller) -> arc_swap::Guard<Arc<Standard>> {
        // INVARIANT: a caller's policy is one of ours, and the first is always there.
        let policy = self.policies.get(caller.policy).unwrap_or(&self.policies[0]);
        let standard = policy.standard.load();
        match &self.mcp {
            Some(mcp) if standard.offered.0 != mcp.generation() => policy.offer(&standard, mcp.catalog()),
            _ => standard,
        }
    }

    /// True if a policy has conversations tracked that upstreams store.
    pub fn tracks(&self) -> bool {
        self.policies.iter().any(|policy| {
            let policy = &policy.standard.load().rules.policy;
            policy.mode == PolicyMode::Enforce && policy.responses.stateful == Stateful::Track
        })
    }

    /// The policies in force, each with its source; the first is the settings' own.
    pub fn policies(&self) -> Vec<(PolicySource, Arc<Standard>)> {
        self.policies.iter().map(|policy| (policy.source.clone(), policy.standard.load_full())).collect()
    }

    /// Whom the policy at this index judges: `settings` for the first, and the clients that have it.
    pub fn judged_by(&self, policy: usize) -> Vec<String> {
        let clients = self.settings.clients.iter().zip(&self.client_policies).filter(|(_, own)| **own == policy);
        let all = (policy == 0).then(|| "settings".to_owned());
        all.into_iter().chain(clients.map(|(client, _)| client.name.to_string())).collect()
    }

    /// The last reload of each policy that changed it or failed, if there was one.
    pub fn reloads(&self) -> Vec<PolicyReload> {
        self.reloads.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note_reload(&self, policy: usize, before: Arc<CompiledPolicy>, after: Result<Arc<CompiledPolicy>, String>) {
        let mut reloads = self.reloads.lock().unwrap_or_else(PoisonError::into_inner);
        reloads.retain(|own| own.policy != policy);
        reloads.push(PolicyReload { policy, at_ms: self.now_ms(), before, after });
    }

    /// The files that make up the policies.
    pub fn watched(&self) -> Vec<std::path::PathBuf> {
        self.policies.iter().flat_map(|policy| policy.standard.load().rules.watched().to_vec()).collect()
    }

    /// Reloads all policies, and the pins of MCP servers' tools, on request. For one that can't be loaded, the error is logged and the old
    /// one stays in force.
    pub fn reload(&self) {
        self.mcp.iter().for_each(|mcp| mcp.reread_pins());
        self.read_again(|source, _| source.load());
    }

    /// Reloads all policies after a change of files that nothing announced. Files that may be incomplete are not loaded.
    pub fn reload_changed(&self, changed: &Changed) {
        self.read_again(|source, last| source.load_changed(last, &changed.written));
    }

    /// Returns whether a policy comes from the ledger, so that [`Self::follow_policies`] must be called.
    pub fn follows_policies(&self) -> bool {
        self.ledger_policies.is_some()
    }

    /// Takes newer versions of policies from the ledger. Blocks. One that can't be used is logged, and the old one stays in force.
    pub fn follow_policies(&self) {
        let Some(own) = &self.ledger_policies else { return };
        let mut own = own.lock().unwrap_or_else(PoisonError::into_inner);
        let held = usize::try_from(self.settings.limits.held_bytes).unwrap_or(usize::MAX);
        let found = own.newer();
        let changed = !found.is_empty();
        for NewPolicy { index, version, rules } in found {
            let Some(policy) = self.policies.get(index) else { continue };
            let before = policy.standard.load().rules.clone();
            let offered = self.mcp.as_ref().map(|mcp| mcp.catalog()).unwrap_or_default();
            let make =
                |rules| LivePolicy::make(policy.source.clone(), rules, held, offered, &self.settings).map_err(|error| error.to_string());
            let (name, number, author) = (&*version.name, version.version, &*version.author);
            match rules.and_then(make) {
                Ok(new) => {
                    let new = new.standard.load_full();
                    tracing::info!(
                        target: "toolmark::audit",
                        action = "policy",
                        policy = name,
                        version = number,
                        author,
                        digest = &new.rules.digest[..16],
                        "version {number} of the policy `{name}` by {author} is in force"
                    );
                    self.note_reload(index, before, Ok(new.rules.clone()));
                    policy.standard.store(new);
                    own.put_in_force(index, number);
                    self.observed.readiness.say("ledger policy", PartState::Ready);
                }
                Err(error) => {
                    tracing::error!(policy = name, version = number, %error, "the policy in the ledger can't be used, the old one stays");
                    let why = format!("version {number} of `{name}` can't be used, the old one stays: {error}");
                    self.note_reload(index, before, Err(why.clone()));
                    self.observed.readiness.say("ledger policy", PartState::Degraded(why));
                }
            }
        }
        if changed {
            self.drop_other_prefixes();
            self.count_loops();
        }
    }

    /// Forgets requests that were read under policies that aren't in force any more.
    fn drop_other_prefixes(&self) {
        let rules: Vec<Arc<CompiledPolicy>> = self.policies.iter().map(|policy| policy.standard.load().rules.clone()).collect();
        self.prefixes.retain(&rules);
    }

    fn read_again(&self, load: impl Fn(&PolicySource, &CompiledPolicy) -> Result<CompiledPolicy, crate::policy::load::Error>) {
        let held = usize::try_from(self.settings.limits.held_bytes).unwrap_or(usize::MAX);
        let mut state = PartState::Ready;
        let in_ledger = |number: usize| {
            self.ledger_policies.as_ref().is_some_and(|own| own.lock().unwrap_or_else(PoisonError::into_inner).is_in_force(number))
        };
        for (number, policy) in self.policies.iter().enumerate().filter(|(number, _)| !in_ledger(*number)) {
            let before = policy.standard.load().rules.clone();
            let offered = self.mcp.as_ref().map(|mcp| mcp.catalog()).unwrap_or_default();
            let read = load(&policy.source, &policy.standard.load().rules).map_err(Error::from);
            let made = read.and_then(|rules| LivePolicy::make(policy.source.clone(), rules, held, offered, &self.settings));
            match made {
                Ok(new) => {
                    let new = new.standard.load_full();
                    let changed = new.rules.digest != policy.standard.load().rules.digest;
                    tracing::info!(policy = %policy.source, digest = &new.rules.digest[..16], changed, "policy re-read");
                    if changed {
                        self.note_reload(number, before, Ok(new.rules.clone()));
                        policy.standard.store(new);
                    }
                }
                Err(error) => {
                    tracing::error!(policy = %policy.source, %error, "the policy can't be used, the old one stays");
                    self.note_reload(number, before, Err(error.to_string()));
                    state = PartState::Degraded(format!("{} can't be used, the old one stays: {error}", policy.source));
                }
            }
        }
        self.drop_other_prefixes();
        self.count_loops();
        self.observed.readiness.say("policy", state);
    }

    /// Number of open connections.
    pub fn connections(&self) -> usize {
        self.load.now().0
    }
}

/// Starts keeping whole exchanges, if the settings ask for it. Where the bodies of some tools aren't to be kept, no exchange is: any
/// may have them in its history.
fn bodies(
    settings: &Settings,
    recorder: &LedgerHandle,
    keys: &[[u8; 32]],
    ring: &Arc<KeyRing>,
) -> Result<Option<Arc<ExchangeBodies>>, StoreError> {
    if settings.ledger.store != StoredContent::Bodies || !settings.ledger.body_tools.covers_all() {
        return Ok(None);
    }
    let own = &settings.cassettes;
    let rules = BodyRules { ring: ring.clone(), redactor: own.redactor.clone(), headers: own.headers.clone() };
    Ok(recorder.keep_bodies(keys, rules)?.map(Arc::new))
}

impl Drop for App {
    fn drop(&mut self) {
        // A call that nobody waits for any more may hold the servers for as long as it takes.
        self.mcp.iter().for_each(|mcp| mcp.stop());
        self.news.iter().for_each(|news| news.end());
    }
}

impl LivePolicy {
    fn read(source: PolicySource, held_bytes_max: usize, offered: Arc<(u64, Catalog)>, settings: &Settings) -> Result<Self, Error> {
        let rules = source.load()?;
        Self::make(source, rules, held_bytes_max, offered, settings)
    }

    fn make(
        source: PolicySource,
        rules: CompiledPolicy,
        held_bytes_max: usize,
        offered: Arc<(u64, Catalog)>,
        settings: &Settings,
    ) -> Result<Self, Error> {
        if let Some(probe) = http_probe::unnamed(&rules, &settings.probe_hosts) {
            return Err(Error::Probe(http_probe::unnamed_words(probe)));
        }
        let mut standard = Standard::with_offered(rules, held_bytes_max, offered)?;
        standard.text.second_opinion = settings.verifier.is_some();
        Ok(Self { source, standard: ArcSwap::from_pointee(standard) })
    }

    /// Uses what MCP servers offer now from here on. The policy itself may have been reloaded meanwhile.
    fn offer(&self, standard: &Standard, offered: Arc<(u64, Catalog)>) -> arc_swap::Guard<Arc<Standard>> {
        match standard.offering(offered) {
            Ok(new) => {
                let same = |now: &Arc<Standard>| Arc::ptr_eq(&now.rules, &standard.rules);
                let new = Arc::new(new);
                self.standard.rcu(|now| if same(now) { new.clone() } else { now.clone() });
            }
            // INVARIANT: the policy's tools could be read before, and those of servers are checked when they are listed.
            Err(error) => tracing::error!(%error, "the tools of MCP servers can't be offered: {error}"),
        }
        self.standard.load()
    }
}
