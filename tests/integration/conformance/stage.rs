//! Where cases are played: one proxy for each policy, or two replicas that share a PostgreSQL, with a native and a translated
//! upstream behind them, and marks made with the proxies' own key.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use serde_json::{Value, json};
use tempfile::TempDir;
use toolmark::{
    marks::{CallMark, KeyRing, MarkTime, Scope},
    testing::{Proxy, ScriptedReply, ScriptedUpstream},
};

use super::{
    exchange::{Case, Id, PastCall, Step},
    form::Form,
};
use crate::{harness::Answer, postgres::Ledger, traffic, wire::Connection};

/// The keys, and the time of the moments.
pub struct World {
    ring: KeyRing,
    scope: Scope,
    now_ms: u64,
}

/// Makes the id of a call that is held to be `arguments` of `tool`.
type Mark = fn(&World, tool: &str, arguments: &str, number: u16) -> String;

const KEY: u8 = 0xab;
const HOURS_MS: u64 = 3 * 60 * 60 * 1000;

pub fn world() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(|| {
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
        World { ring: KeyRing::new(&[[KEY; 32]]), scope: Scope::shared(), now_ms }
    })
}

/// The execution ID that a result of this call gets.
pub fn execution(tool: &str, number: u16) -> String {
    let world = world();
    world.ring.execution_id(&world.scope, tool, world.moment(number))
}

impl World {
    fn moment(&self, number: u16) -> MarkTime {
        // A little apart each, as turns are.
        let ago_ms = if number >= 900 { HOURS_MS } else { 900 - u64::from(number) };
        MarkTime { time_ms: self.now_ms - ago_ms, counter: number }
    }

    /// Is it the mark of this call?
    pub fn knows(&self, id: &str, tool: &str, arguments: &str) -> bool {
        CallMark::parse(id).is_some_and(|mark| self.ring.verify(&mark, &self.scope, tool, arguments).is_some())
    }

    pub fn chat_mark(&self, tool: &str, arguments: &str, number: u16) -> String {
        self.ring.mint(&self.scope, tool, arguments, self.moment(number))
    }

    pub fn responses_mark(&self, tool: &str, arguments: &str, number: u16) -> String {
        let moment = self.moment(number);
        self.ring.mint_behind(&format!("call_p{number}"), &self.scope, tool, arguments, moment).unwrap()
    }

    /// An id as the application holds it.
    pub fn id_of(&self, history: &[Step], id: Id, mark: Mark) -> String {
        let turns = history.iter().filter_map(|step| if let Step::Turn(_, calls) = step { Some(calls) } else { None });
        let call = turns.flatten().find(|call| call.id == id);
        match (id, call) {
            (Id::Marked(number), Some(PastCall { tool, arguments, .. })) => mark(self, tool, arguments, number),
            (Id::Altered(number), Some(PastCall { tool, .. })) => mark(self, tool, "{\"another\":\"one\"}", number),
            (Id::Foreign(number), _) => format!("call_foreign{number}"),
            (Id::Marked(number) | Id::Altered(number), None) => format!("call_orphan{number}"),
        }
    }
}

/// One exchange on its way: what the upstream answers, and what it got.
#[derive(Default)]
struct Play {
    replies: Vec<ScriptedReply>,
    received: Vec<Value>,
}

/// See the module.
pub struct Stage {
    proxies: Vec<Proxy>,
    /// How many exchanges were played.
    played: AtomicUsize,
    plays: Arc<Mutex<HashMap<String, Play>>>,
    _upstream: ScriptedUpstream,
    _directories: Vec<TempDir>,
    /// What replicas share.
    _ledger: Option<Ledger>,
}

impl Stage {
    pub fn new(policy: &str) -> Self {
        Self::with(policy, 1, None)
    }

    /// Two replicas that share a PostgreSQL: each exchange comes to another one than the exchange before.
    pub fn in_turns(policy: &str) -> Self {
        Self::with(policy, 2, Some(Ledger::postgres()))
    }

    fn with(policy: &str, replicas: usize, ledger: Option<Ledger>) -> Self {
        let plays = Arc::<Mutex<HashMap<String, Play>>>::default();
        let own = plays.clone();
        let upstream = ScriptedUpstream::start(move |received| {
            let (body, mut plays) = (received.json(), own.lock().unwrap());
            let play = plays.get_mut(body["model"].as_str().unwrap_or_default()).expect("a model of the stage's");
            let at = play.received.len().min(play.replies.len() - 1);
            play.received.push(body);
            play.replies[at].clone()
        })
        .unwrap();
        let shared = ledger.as_ref().map(|ledger| format!("[ledger]\nurl = \"{}\"\n", ledger.url())).unwrap_or_default();
        let directories: Vec<TempDir> = (0..replicas).map(|_| tempfile::tempdir().unwrap()).collect();
        let proxies = directories.iter().map(|directory| proxy(policy, &upstream, &shared, directory)).collect();
        Self { proxies, played: AtomicUsize::new(0), plays, _upstream: upstream, _directories: directories, _ledger: ledger }
    }

    /// Plays a case in a form: what the application got, and the upstream, attempt by attempt. `seed`: the upstream's
    /// stream comes in pieces of any length.
    pub fn play(&self, case: &Case, form: &Form, seed: Option<u64>) -> (Answer, Vec<Value>) {
        self.play_as(case.name, case, form, seed)
    }

    /// The same under another name, of which there is one at a time.
    pub fn play_as(&self, name: &str, case: &Case, form: &Form, seed: Option<u64>) -> (Answer, Vec<Value>) {
        let model = format!("{}-{name}-{}-{seed:?}", form.upstream_name(), form.name);
        let pieces = |events: String| match seed {
            Some(seed) => ScriptedReply::events(traffic::pieces(&Bytes::from(events), seed)),
            None => ScriptedReply::events([events]),
        };
        let replies = case.turns.iter().map(|turn| form.reply(turn, pieces)).collect();
        self.plays.lock().unwrap().insert(model.clone(), Play { replies, received: Vec::new() });
        let mut body = form.downstream.request(&case.request);
        (body["model"], body["stream"]) = (json!(model), json!(form.streamed));
        if form.streamed {
            form.downstream.stream(&mut body);
        }
        let path = format!("/v1{}", form.downstream.path());
        let proxy = &self.proxies[self.played.fetch_add(1, Ordering::Relaxed) % self.proxies.len()];
        let reply = Connection::open(proxy.address()).post(&path, "", body.to_string().as_bytes());
        let received = self.plays.lock().unwrap().remove(&model).unwrap().received;
        let headers = reply.headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        (Answer { status: reply.status, headers, body: reply.text() }, received)
    }
}

fn proxy(policy: &str, upstream: &ScriptedUpstream, shared: &str, directory: &TempDir) -> Proxy {
    std::fs::write(directory.path().join("tools.json"), TOOLS).unwrap();
    // Cases share their calls' ids, and have other results for them.
    let shared_ids = "[checks]\nrewritten_result = \"off\"\n";
    let built_in = matches!(policy, "default" | "strict" | "observe");
    let text = if built_in {
        let own = std::fs::read_to_string(format!("{}/policies/{policy}.toml", env!("CARGO_MANIFEST_DIR"))).unwrap();
        own.lines().filter(|line| !line.starts_with("rewritten_result")).map(|line| format!("{line}\n")).collect()
    } else {
        policy.to_owned()
    };
    let text = if text.contains("[checks]\n") { text.replacen("[checks]\n", shared_ids, 1) } else { format!("{text}\n{shared_ids}") };
    std::fs::write(directory.path().join("policy.toml"), text).unwrap();
    let url = upstream.base_url();
    let settings = format!(
        "policy = \"policy.toml\"\n{shared}[marks]\nscope = \"shared\"\n[[upstreams]]\nname = \"native\"\nbase_url = \"{url}\"\nmodels = [\"native*\"]\n\
         [[upstreams]]\nname = \"chat-only\"\nbase_url = \"{url}\"\nmodels = [\"chat-only*\"]\nresponses = \"translate\"\nmessages = \"translate\"\n\
         [[upstreams]]\nname = \"messages-only\"\nbase_url = \"{url}\"\nmodels = [\"messages-only*\"]\nresponses = \"translate\"\nchat = \"translate\"\n"
    );
    let key = format!("{KEY:02x}").repeat(32);
    Proxy::start(&settings, &[("TOOLMARK_KEY", &key)], directory.path()).unwrap()
}

/// What `files` of a policy may name.
const TOOLS: &str = r#"[{"type":"function","function":{"name":"add_task","description":"","parameters":{"type":"object","properties":{"title":{"type":"string"}},"required":["title"]}}}]"#;
