//! A proxy that records, and one that plays what was recorded.

use std::path::Path;

use tempfile::TempDir;
use toolmark::{
    cassette::{format::RecordedExchange, reader},
    testing::{Proxy, Received, ScriptedReply, ScriptedUpstream},
};

/// In front of a scripted upstream, recording into `session.jsonl` of its directory.
pub struct Recording {
    pub proxy: Proxy,
    _upstream: ScriptedUpstream,
    pub directory: TempDir,
}

impl Recording {
    /// `settings`: besides the upstream's and `[record] path`, which comes last, so that members of it may follow.
    pub fn start(policy: &str, settings: &str, record: &str, script: impl Fn(&Received) -> ScriptedReply + Send + Sync + 'static) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let upstream = ScriptedUpstream::start(script).unwrap();
        std::fs::write(directory.path().join("policy.toml"), policy_text(policy)).unwrap();
        let settings = format!(
            "policy = \"policy.toml\"\n{settings}\n[[upstreams]]\nname = \"scripted\"\nbase_url = \"{}\"\n[record]\npath = \"session.jsonl\"\n{record}\n",
            upstream.base_url()
        );
        let proxy = Proxy::start(&settings, &[], directory.path()).unwrap();
        Self { proxy, _upstream: upstream, directory }
    }

    /// Ends it: the cassette is written then. Its exchanges, in the order in which they began.
    pub fn end(self) -> (TempDir, Vec<RecordedExchange>) {
        drop(self.proxy);
        let exchanges = in_order(&self.directory.path().join("session.jsonl"));
        (self.directory, exchanges)
    }
}

/// The exchanges of a cassette in the order in which they began. Each is written when all of it has ended, which may be after the next one began.
pub fn in_order(path: &Path) -> Vec<RecordedExchange> {
    let (mut exchanges, notices) = reader::all(path).unwrap();
    assert!(notices.is_empty(), "{notices:?}");
    exchanges.sort_by(|one, other| one.id.cmp(&other.id));
    exchanges
}

fn policy_text(policy: &str) -> String {
    match policy {
        "default" => String::new(),
        "strict" | "observe" => {
            std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("policies/{policy}.toml"))).unwrap()
        }
        own => own.to_owned(),
    }
}

/// Plays `session.jsonl` of this directory; there is no upstream, and another key.
pub fn play(directory: &Path, replay: &str) -> Proxy {
    let settings = format!(
        "policy = \"policy.toml\"\n[[upstreams]]\nname = \"recorded\"\nbase_url = \"cassette:session.jsonl\"\n[replay]\n{replay}\n"
    );
    Proxy::start(&settings, &[], directory).unwrap()
}
